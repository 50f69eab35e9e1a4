"""Objects as one line of text, for `repr`: their class, their numbers and names, no addresses."""

from __future__ import annotations

from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import numpy as np

_MOST_NUMBERS = 8
_ADDRESS = " at 0x"


def one_line(thing: object, *values: object, **named: object) -> str:
    """`thing` as a call of its class: ``Name(value, name=value)``."""
    shown = [value_in_line(x) for x in values]
    shown += [f"{name}={value_in_line(x)}" for name, x in named.items()]
    return f"{type(thing).__name__}({', '.join(shown)})"


def value_in_line(x: Any) -> str:
    """A value in a line: numbers of short arrays, names of functions, without addresses."""
    if isinstance(x, FunctionType | MethodType | BuiltinFunctionType):
        return x.__qualname__.rpartition("<locals>.")[2]
    if isinstance(x, np.ndarray) and x.size <= _MOST_NUMBERS and x.dtype.kind in "fiub":
        return str(x.tolist())
    text = " ".join(repr(x).split())
    return f"<{type(x).__name__}>" if _ADDRESS in text else text


def shapes_in_line(thing: Any) -> str:
    """A named tuple of arrays: ``<Name: q (2,), v (2,)>``, with the names of dictionaries."""
    shown = []
    for name, x in zip(thing._fields, thing, strict=True):
        if isinstance(x, dict):
            shown += [f"{name}[{key!r}] {np.shape(y)}" for key, y in x.items()]
        elif x is not None:
            shown.append(f"{name} {np.shape(x)}")
    return f"<{type(thing).__name__}: {', '.join(shown)}>"
