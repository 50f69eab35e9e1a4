"""Errors of traced functions: they name the line of the user's code."""

from __future__ import annotations

import linecache
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from phipsi.errors import LawError

_PACKAGE = str(Path(__file__).resolve().parents[1])
_NUMPY = str(Path(np.__file__).resolve().parent)
_INSTALLED = str(Path(np.__file__).resolve().parents[1])


def fail(why: str, instead: str = "", place: str | None = None) -> NoReturn:
    """Raise a LawError that names the line of the law."""
    place = _line_of_the_law() if place is None else place
    raise LawError(f"{place}{why}." + (f"\n{instead[0].upper()}{instead[1:]}." if instead else ""))


def _fail_as(error: Exception, place: str) -> NoReturn:
    """Raise what went wrong inside a law as a LawError that names the line."""
    frames = [x for x in traceback.extract_tb(error.__traceback__) if not _is_ours(x.filename)]
    where = place
    if frames:
        last = frames[-1]
        where = _place(last.filename, last.lineno or 0, last.name)
    name = getattr(error, "name", None) if isinstance(error, NameError) else None
    hint = f". Did you mean np.{name}?" if name and hasattr(np, name) else ""
    raise LawError(f"{where}{type(error).__name__}: {error}{hint}") from error


def traced_call(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Call a function of a user on traced values; whatever goes wrong names its line."""
    try:
        return function(*args, **named)
    except LawError:
        raise
    except Exception as error:
        cause = error.__cause__ or error.__context__
        if isinstance(cause, LawError):
            raise cause from None
        _fail_as(error, place_of(function))


def _is_ours(file: str) -> bool:
    return file.startswith((_PACKAGE, _NUMPY, "<__array_function__"))


def _line_of_the_law() -> str:
    """File, line and text of the innermost call that is neither here nor in another library."""
    frame = sys._getframe(1)
    found = ""
    while frame is not None:
        file = frame.f_code.co_filename
        if not _is_ours(file):
            found = found or _place(file, frame.f_lineno, frame.f_code.co_name)
            if not file.startswith(_INSTALLED):
                return _place(file, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return found


def _place(file: str, line: int, name: str) -> str:
    text = linecache.getline(file, line).strip()
    shown = f"\n    {text}\n" if text else " "
    return f"{Path(file).name}, line {line}, in {name}:{shown}"


def place_of(function: Any) -> str:
    """File and first line of a function."""
    function = getattr(function, "__wrapped__", function)
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if code is None:
        return f"{short(function)}: "
    return f"{Path(code.co_filename).name}, line {code.co_firstlineno}, {code.co_name}: "


def short(x: Any) -> str:
    """At most 60 letters of how a thing is printed."""
    text = " ".join(repr(x).split())
    return text if len(text) <= 60 else text[:59] + "…"
