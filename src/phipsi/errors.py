"""Exception classes of the whole library, and helpers that write their messages.

Every message says what went wrong, where by name, why in physical terms, and how to fix it. Where
Python prints an error, its last line names the section of the documentation about the class
(docs/decisions/0052); the text of the error, ``str(error)``, does not contain it.
Each class also derives from the built-in exception a caller would expect, so ``except ValueError``
keeps working.
"""

from __future__ import annotations

import difflib
import sys
import warnings
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import wraps
from numbers import Integral, Real
from types import FrameType
from typing import Any, ParamSpec, TypeVar

from phipsi.package_state import only_public

__all__ = [
    "ConvergenceError", "FileError", "InputError", "LawError", "LoweringError", "ModelError",
    "ParseError", "PhipsiError", "PhipsiWarning", "SimulationError", "SingularHingeError",
    "SingularMatrixError", "SpaceError",
]  # fmt: skip
__dir__ = only_public(__name__)


def shown(text: object, most: int | None = 2000) -> str:
    r"""Text from outside, made safe to print: on one line, without control characters.

    Control characters, escape codes, marks that change the direction of writing and halves of
    surrogate pairs become escapes such as ``\x1b``. The middle of a text that is longer than `most`
    characters is replaced by "…".

    >>> from phipsi.errors import shown
    >>> print(shown("arm\x1b[31m"))
    arm\x1b[31m
    """
    found = str(text)
    if most is not None and len(found) > most:
        found = f"{found[: most // 2]} … {found[-most // 2 :]}"
    if found.isprintable():
        return found
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in found)


def shown_lines(text: object) -> str:
    """The same for text of several lines; line breaks are kept."""
    found = str(text)
    return found if found.isprintable() else "\n".join(shown(x, None) for x in found.split("\n"))


def counted(n: int, word: str) -> str:
    """A number with its noun: 1 body, 2 bodies."""
    plural = f"{word[:-1]}ies" if word.endswith("dy") else f"{word}s"
    return f"{n} {word if n == 1 else plural}"


_LONGEST_MESSAGE = 2000  # characters; what a file says may be much longer


def cut(text: str, longest: int = _LONGEST_MESSAGE) -> str:
    """The text, or its beginning and end if it is long."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]} … ({len(text) - 2 * half:,} characters left out) … {text[-half:]}"


class PhipsiError(Exception):
    """Base of every exception raised on purpose by this library.

    Its text has no control characters, even if it quotes names from a file.

    >>> from phipsi.errors import SpaceError
    >>> SpaceError("these do not fit").__notes__
    ['see docs/troubleshooting.md#spaceerror']
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        ours = next(c for c in type(self).__mro__ if c.__module__ == __name__)
        self.add_note(f"see docs/troubleshooting.md#{ours.__name__.lower()}")

    def __str__(self) -> str:
        return shown_lines(super().__str__())


class ModelError(PhipsiError, ValueError):
    """A mechanism, or a part of one, is invalid or cannot be interpreted."""


class FileError(ModelError):
    """A robot file cannot be read.

    The text is ``file:line: element: reason``, without a line if the file was not read. Long
    elements and reasons are shortened.

    Attributes
    ----------
    file : str
        Name of the file.
    line : int
        Line of the element; 1 if the error concerns the file as a whole, 0 if it was not read.
    element : str
        Name of the element, or "".
    reason : str
        What is wrong.
    """

    def __init__(self, file: str, line: int, element: str, reason: str) -> None:
        element, reason = cut(element, 200), cut(reason)
        self.file, self.line, self.element, self.reason = file, line, element, reason
        at = f"{shown(file)}:{line}: " if line else f"{shown(file)}: "
        super().__init__(f"{at}{shown(element)}: {reason}" if element else f"{at}{reason}")

    def __reduce__(self) -> tuple[type, tuple[str, int, str, str]]:
        return FileError, (self.file, self.line, self.element, self.reason)


class SpaceError(PhipsiError, TypeError):
    """Operators or vectors are combined although their spaces do not match."""


class ParseError(PhipsiError, ValueError):
    """Text or data from outside does not follow its grammar or format."""


class LoweringError(PhipsiError, ValueError):
    """An expression has no O(N) form under the rules; the message shows what remains."""


class InputError(PhipsiError, ValueError):
    """An argument of a function is invalid, or does not match the model or the program."""


class LawError(PhipsiError, ValueError):
    """A law (traced function) cannot be traced, or does not match the mechanism."""


class SingularHingeError(PhipsiError, ArithmeticError):
    """A joint has no inertia to move: its articulated hinge inertia D = H P H* is singular."""


class SingularMatrixError(PhipsiError, ArithmeticError):
    """A matrix to be inverted is singular, for example a Jacobian without full row rank."""


class ConvergenceError(PhipsiError, ArithmeticError):
    """An iteration ended before it reached the requested tolerance.

    Attributes
    ----------
    result : object
        The best result found.
    """

    def __init__(self, message: str, result: object = None) -> None:
        super().__init__(message)
        self.result = result


class SimulationError(PhipsiError, RuntimeError):
    """A simulation could not continue: it diverged, or a controller, force or event failed.

    Attributes
    ----------
    trajectory : Trajectory or None
        Everything up to the last valid state.
    """

    def __init__(self, message: str, trajectory: object = None) -> None:
        super().__init__(message)
        self.trajectory = trajectory


class PhipsiWarning(UserWarning):
    """Base class of phipsi's warnings: the input was accepted, but something is suspicious."""

    def __str__(self) -> str:
        return shown_lines(super().__str__())


frame_above: Callable[[int], FrameType] = vars(sys)["_getframe"]
"""The frame so many calls above this one."""


def warn(message: str) -> None:
    """Warn with a `PhipsiWarning` at the line outside this library that led here."""
    frame: FrameType | None = frame_above(1)
    level = 2
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "phipsi":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, PhipsiWarning, stacklevel=level)


@contextmanager
def not_too_deep(verb: str) -> Generator[None]:
    """Turn a RecursionError about a deeply nested expression into a `LoweringError`.

    Parameters
    ----------
    verb : str
        The operation that failed, as a participle: "compiled", "differentiated".
    """
    try:
        yield
    except RecursionError:
        raise LoweringError(
            f"the expression is nested too deeply to be {verb}: it has several hundred levels of "
            "operations. Compile the inner part alone, and pass its value as an input of the outer "
            "one (tau, f_ext, vdot, …)"
        ) from None


_COMPARED = 5000
_LONGEST_NAME = 100


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else name[:_LONGEST_NAME] + "…"


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """A hint such as ``Did you mean 'elbow'?``, or the known names if none is close.

    Parameters
    ----------
    name : str
        What the user wrote.
    known : iterable of str
        The names that would have been accepted.
    otherwise : str, optional
        A sentence instead of the known names.

    Returns
    -------
    str
        One sentence, never empty.
    """
    names = [str(candidate) for candidate in known]
    # Names may come from a file, which can have very many and very long ones.
    near = [candidate for candidate in names[:_COMPARED] if len(candidate) <= _LONGEST_NAME]
    close = difflib.get_close_matches(str(name)[:_LONGEST_NAME], near, n=3, cutoff=0.6)
    if close:
        return f"Did you mean {' or '.join(repr(candidate) for candidate in close)}?"
    if otherwise:
        return otherwise
    if not names:
        return "There are none yet."
    shown = ", ".join(repr(_cut(candidate)) for candidate in names[:8])
    more = f", … ({len(names)} in all)" if len(names) > 8 else ""
    return f"Known names: {shown}{more}."


def no_attribute(thing: object, name: str, now: Mapping[str, str]) -> AttributeError:
    """The error of an attribute that an object lacks; `now` says what other names became."""
    text = f"{type(thing).__name__!r} object has no attribute {name!r}"
    if name in now:
        text += f": it is {now[name]} now" if now[name][:1] != ":" else now[name]
    return AttributeError(text, name=name, obj=thing)


_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


def answered(
    who: str, elsewhere: Mapping[str, Callable[[Any], str]], error: type[PhipsiError]
) -> Callable[[Callable[_Given, _Result]], Callable[_Given, _Result]]:
    """Decorator: arguments that a function does not have are answered with what to write.

    Parameters
    ----------
    who : str
        What the function is called in the message.
    elsewhere : mapping of str to callable
        By name of an argument, a sentence made from the value that was passed.
    error : type
        The class of the error.
    """

    def decorate(function: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
        @wraps(function)
        def call(*args: _Given.args, **named: _Given.kwargs) -> _Result:
            if named:
                found = next((x for x in elsewhere if x in named), None)
                if found is not None:
                    hint = elsewhere[found](named[found])
                    raise error(f"{who} has no argument {found}=. {hint}")
            return function(*args, **named)

        return call

    return decorate


def one_of(
    name: str,
    value: Any,
    words: Iterable[str],
    hint: str = "",
    error: type[PhipsiError] = InputError,
) -> str:
    """The value of an argument, if it is one of these words; an error otherwise.

    Only strings are compared: NumPy would compare entries, and dictionaries hash their keys.

    Parameters
    ----------
    name : str
        Name of the argument, with its owner where that helps ("Contacts: meshes").
    value : object
        The value that was passed.
    words : iterable of str
        The allowed values.
    hint : str, optional
        A sentence at the end of the message.
    error : type, optional
        The class of the error.

    >>> from phipsi.errors import one_of
    >>> one_of("axes", "word", ("world", "body"))
    Traceback (most recent call last):
        ...
    phipsi.errors.InputError: axes='word' is not one of 'world', 'body'. Did you mean 'world'?...
    """
    known = tuple(words)
    if isinstance(value, str) and value in known:
        return value
    near = did_you_mean(value, known, " ").strip() if isinstance(value, str) else ""
    more = " ".join(filter(None, (near, hint)))
    raise error(f"{name}={value!r} is not one of {', '.join(map(repr, known))}. {more}".strip())


def is_whole(value: Any) -> bool:
    """Whether a value is an integer of Python or NumPy. True and False are not integers here."""
    return type(value) is int or (isinstance(value, Integral) and not is_a(value, bool))


def is_a(value: object, kinds: type | tuple[type, ...]) -> bool:
    """Whether an argument has the type that its annotation promises: users may give any."""
    return isinstance(value, kinds)


def is_real(value: Any) -> bool:
    """Whether a value is one real number of Python or NumPy. True and False are no numbers here."""
    return type(value) is float or (isinstance(value, Real) and not is_a(value, bool))


def real_of(value: Any) -> float:
    """One real number as a float.

    Strings and booleans, which Python converts to numbers, are a TypeError; so are complex numbers,
    whose imaginary part NumPy drops. Other objects are a TypeError or ValueError.
    """
    if type(value) is float:
        return value
    from numpy import bool_, iscomplexobj

    if isinstance(value, (bool, bool_, str, bytes)) or iscomplexobj(value):
        raise TypeError(f"{value!r} is not a real number")
    return float(value)


def number_of(value: Any) -> float:
    """One real number, or NaN for anything else."""
    try:
        return real_of(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def true_or_false(
    name: str,
    value: Any,
    allowed: str = "True or False",
    error: type[PhipsiError] = InputError,
) -> bool:
    """The value of a boolean argument, of Python or NumPy; an error for anything else.

    Other objects are rejected: Python takes every nonempty string as true and every empty list as
    false.

    Parameters
    ----------
    name : str
        Name of the argument, as for `one_of`.
    value : object
        The value that was passed.
    allowed : str, optional
        What the argument may be, for the message.
    error : type, optional
        The class of the error.

    >>> from phipsi.errors import true_or_false
    >>> true_or_false("limits", "no")
    Traceback (most recent call last):
        ...
    phipsi.errors.InputError: limits='no' must be True or False...
    """
    if value is True or value is False:
        return value
    from numpy import bool_

    if is_a(value, bool_):
        return bool(value)
    raise error(f"{name}={value!r} must be {allowed}")
