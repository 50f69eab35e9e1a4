"""Errors of traced functions: they name the line of the user's code."""

from __future__ import annotations

import linecache
import os
import traceback
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import numpy as np

from phipsi.errors import InputError, LawError, frame_above


def _folders(file: str, up: int) -> tuple[str, str]:
    """A folder above a file, as it is named and without symbolic links, as frames may name it."""
    found = Path(file).absolute().parents[up], Path(file).resolve().parents[up]
    return f"{found[0]}{os.sep}", f"{found[1]}{os.sep}"


_ARITHMETIC, _LIBRARY = _folders(__file__, 0), _folders(__file__, 2)
_OURS = (*_LIBRARY, *_folders(str(np.__file__), 0), "<__array_function__")
_INSTALLED = _folders(str(np.__file__), 1)
_FAILURES: ContextVar[list[LawError] | None] = ContextVar("failures", default=None)
"""What has failed in the function that is traced, None outside of one."""


def fail(why: str, instead: str = "", place: str | None = None) -> NoReturn:
    """Raise a LawError that names the line of the law.

    While a function is traced the error is kept: one that the function catches is raised later.
    """
    place = _line_of_the_law() if place is None else place
    text = f"{place}{why}." + (f"\n{instead[0].upper()}{instead[1:]}." if instead else "")
    error = LawError(text)
    failures = _FAILURES.get()
    if failures is not None:
        failures.append(error)
    raise error


def fail_without_value(why: str, instead: str = "") -> NoReturn:
    """Raise a LawError about a value that is not known yet, which the law or the library asks for.

    The library does so in functions that are no programs: then their call is what is wrong.
    """
    names = _frames_below_the_law(frame_above(1))
    if names:
        fail(*_not_inside(names[-1]))
    fail(why, instead)


def _not_inside(name: str) -> tuple[str, str]:
    return (
        f"with these arguments, {name.split('.<locals>')[0]} needs the numbers themselves, which "
        "are known only when the law runs, so it cannot be called inside a law",
        "call functions that evaluate one compiled program, such as pp.forward_dynamics or "
        "pp.jacobian; or compute the numbers before, and bind them as an argument:  "
        "law.bind(name=numbers)",
    )


def _frames_below_the_law(frame: FrameType | None) -> list[str]:
    """The library's functions between the law that is traced and a frame, the innermost first."""
    names: list[str] = []
    while frame is not None and frame.f_code is not traced_call.__code__:
        file = frame.f_code.co_filename
        if not is_ours(file):
            return [] if file.startswith(_INSTALLED) else names
        if file.startswith(_LIBRARY) and not file.startswith(_ARITHMETIC):
            names.append(frame.f_code.co_qualname)
        elif names:  # the library is called by NumPy
            names.clear()
        frame = frame.f_back
    return []


def is_read_by_a_user() -> bool:
    """Whether code that is neither ours nor NumPy's called the caller, while it is traced."""
    if _FAILURES.get() is None:
        return False
    frame = frame_above(2)
    return not is_ours(frame.f_code.co_filename)


def _fail_as(error: Exception, place: str) -> NoReturn:
    """Raise what went wrong inside a law as a LawError that names the line."""
    frames = [x for x in traceback.extract_tb(error.__traceback__) if not is_ours(x.filename)]
    where = place
    if frames:
        last = frames[-1]
        where = _place(last.filename, last.lineno or 0, last.name)
    text = str(error)
    if isinstance(error, InputError) and ("<traced" in text or "holds object" in text):
        *_, inner = traceback.walk_tb(error.__traceback__)
        names = _frames_below_the_law(inner[0])
        if names:
            fail(*_not_inside(names[-1]), where)
    name = getattr(error, "name", None) if isinstance(error, NameError) else None
    hint = f". Did you mean np.{name}?" if name and hasattr(np, name) else ""
    raise LawError(f"{where}{type(error).__name__}: {error}{hint}") from error


def traced_call(function: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
    """Call a function of a user on traced values; whatever goes wrong names its line.

    An error of the trace that the function catches is raised all the same: otherwise the handler's
    branch would be recorded for all values.
    """
    outer, failures = _FAILURES.get(), list[LawError]()
    token = _FAILURES.set(failures)
    try:
        found = function(*args, **named)
    except LawError as error:
        if outer is not None:
            outer.append(error)
        raise
    except Exception as error:
        cause = error.__cause__ or error.__context__
        if isinstance(cause, LawError):
            raise cause from None
        _fail_as(error, place_of(function))
    finally:
        _FAILURES.reset(token)
    if failures:
        raise LawError(
            f"{failures[0].args[0]}\nThe function catches this error, so the handler's branch "
            f"would be recorded for all values. Do not catch it; write both branches with np.where."
        )
    return found


def is_ours(file: str) -> bool:
    """Whether a file is one of this library or of NumPy."""
    return file.startswith(_OURS)


def _line_of_the_law() -> str:
    """File, line and text of the innermost call that is neither here nor in another library."""
    frame: FrameType | None = frame_above(1)
    found = ""
    while frame is not None:
        file = frame.f_code.co_filename
        if not is_ours(file):
            found = found or _place(file, frame.f_lineno, frame.f_code.co_name)
            if not file.startswith(_INSTALLED):
                return _place(file, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return found


def _place(file: str, line: int, name: str) -> str:
    text = linecache.getline(file, line).strip()
    shown = f"\n    {text}\n" if text else " "
    return f"{Path(file).name}, line {line}, in {name}:{shown}"


def place_of(function: Any, name: str | None = None) -> str:
    """File and first line of a function; of one of this library the name that it has for users."""
    function = getattr(function, "__wrapped__", function)
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if code is None:
        return f"{short(function)}: "
    if name is not None and is_ours(code.co_filename):
        return f"{name}: "
    return f"{Path(code.co_filename).name}, line {code.co_firstlineno}, {code.co_name}: "


def short(x: Any) -> str:
    """At most 60 letters of how a thing is printed."""
    text = " ".join(repr(x).split())
    return text if len(text) <= 60 else text[:59] + "…"
