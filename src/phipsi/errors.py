"""Exception classes of the whole library, and helpers that write their messages.

Every message says what went wrong, where by name, why in physical terms, and how to mend it. Where
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
from numbers import Integral, Real
from types import FrameType
from typing import Any

from phipsi.package_state import only_public

__all__ = [
    "ConvergenceError", "FileError", "InputError", "LawError", "LoweringError", "ModelError",
    "ParseError", "PhipsiError", "PhipsiWarning", "SimulationError", "SingularHingeError",
    "SingularMatrixError", "SpaceError",
]  # fmt: skip
__dir__ = only_public(__name__)


def shown(text: object, most: int | None = 2000) -> str:
    r"""Text from outside as it may be printed: on one line, and nothing in it acts.

    Control characters, escape codes, marks that change the direction of writing and halves of
    surrogate pairs become escapes such as ``\x1b``; of what is longer than `most` the middle is cut
    out.

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
    """The same for text of several lines, which stay lines."""
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

    Its text never holds what acts on a terminal, whatever names a file has brought.

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
    """A mechanism, or a part of one, that cannot exist or cannot be understood."""


class FileError(ModelError):
    """A robot file that cannot be read: `file`, `line`, the `element` by name, and the `reason`.

    The text is ``file:line: element: reason``; `line` is 1 for what concerns the file as a whole.
    Long elements and reasons are cut.
    """

    def __init__(self, file: str, line: int, element: str, reason: str) -> None:
        element, reason = cut(element, 200), cut(reason)
        self.file, self.line, self.element, self.reason = file, line, element, reason
        at = f"{shown(file)}:{line}: "
        super().__init__(f"{at}{shown(element)}: {reason}" if element else f"{at}{reason}")

    def __reduce__(self) -> tuple[type, tuple[str, int, str, str]]:
        return FileError, (self.file, self.line, self.element, self.reason)


class SpaceError(PhipsiError, TypeError):
    """Operators or vectors combined although their spaces do not fit."""


class ParseError(PhipsiError, ValueError):
    """Text or data from outside that does not follow its grammar or format."""


class LoweringError(PhipsiError, ValueError):
    """An expression that has no O(N) form under the rules; the message shows the residue."""


class InputError(PhipsiError, ValueError):
    """Arrays or options handed to a function that do not fit the model or the program."""


class LawError(PhipsiError, ValueError):
    """A law cannot be traced, or does not fit the mechanism."""


class SingularHingeError(PhipsiError, ArithmeticError):
    """A joint with nothing to move: its articulated hinge inertia D = H P H* is singular."""


class SingularMatrixError(PhipsiError, ArithmeticError):
    """A matrix that had to be inverted and is singular, for example J without full row rank."""


class ConvergenceError(PhipsiError, ArithmeticError):
    """An iteration that ended before it reached what was asked; `result` is the best it found."""

    def __init__(self, message: str, result: object = None) -> None:
        super().__init__(message)
        self.result = result


class SimulationError(PhipsiError, RuntimeError):
    """A run that could not go on: it diverged, or a controller, force or event failed.

    `trajectory` holds everything up to the last good state.
    """

    def __init__(self, message: str, trajectory: object = None) -> None:
        super().__init__(message)
        self.trajectory = trajectory


class PhipsiWarning(UserWarning):
    """Something accepted on request that the user should nevertheless know about."""

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
    """Say what went wrong when an expression is nested deeper than Python can follow.

    **Arguments:** `verb`, what cannot be done with it: "compiled", "differentiated".
    """
    try:
        yield
    except RecursionError:
        raise LoweringError(
            f"the expression is nested too deeply to be {verb}: some hundred operations stand "
            "inside each other. Compile the inner part alone, and let its value be an input of the "
            "outer one (tau, f_ext, vdot, …)"
        ) from None


_COMPARED = 5000
_LONGEST_NAME = 100


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else name[:_LONGEST_NAME] + "…"


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return a hint such as ``Did you mean 'elbow'?``, or the known names if none is close.

    **Arguments:** `name`, what the user wrote; `known`, the names that would have been accepted;
    `otherwise`, a sentence instead of the known names.
    **Returns:** one sentence, never empty.
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
    text += f": it is {now[name]} now" if name in now else ""
    return AttributeError(text, name=name, obj=thing)


def one_of(
    name: str,
    value: Any,
    words: Iterable[str],
    hint: str = "",
    error: type[PhipsiError] = InputError,
) -> str:
    """The word that was given for an argument, if it is one of these.

    Only text is compared: NumPy would compare entries, and dictionaries hash what they look for.

    **Arguments:** `name` of the argument, with who takes it where that helps ("Contacts: missing");
    `hint`, a sentence at the end.

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
    """Whether a value is a whole number of Python or NumPy. True and False are none."""
    return type(value) is int or (isinstance(value, Integral) and not is_a(value, bool))


def is_a(value: object, kinds: type | tuple[type, ...]) -> bool:
    """Whether an argument has the type that its annotation promises: users may give any."""
    return isinstance(value, kinds)


def is_real(value: Any) -> bool:
    """Whether a value is one real number of Python or NumPy. True and False are none."""
    return type(value) is float or (isinstance(value, Real) and not is_a(value, bool))


def real_of(value: Any) -> float:
    """One real number as a float.

    A TypeError for texts and truth values, which Python takes as numbers, and for complex numbers,
    of which NumPy drops a part; what is no number at all is a TypeError or ValueError.
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
    """The truth value that was given for an argument; one of NumPy is one.

    Nothing else is: Python takes every word as true and every empty list as false.

    **Arguments:** `name` as for `one_of`; `allowed`, what the argument may be.

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
