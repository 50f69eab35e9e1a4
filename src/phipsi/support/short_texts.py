"""Objects as one line of text, for `repr`: the class with its small values or shapes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

_ENTRIES = 8  # of an array or a list: more are counted
_WIDTH = 80  # of the text of a value: longer ones are the name of the class


def one_line(thing: object, *values: object, **named: object) -> str:
    """`thing` as a call of its class: ``Name(value, name=value)``."""
    shown = [value_in_line(x) for x in values]
    shown += [f"{name}={value_in_line(x)}" for name, x in named.items()]
    return f"{type(thing).__name__}({', '.join(shown)})"


def fields_in_line(thing: Any, **more: Any) -> str:
    """The class of an object and its fields; `more` are further ones.

    Fields are those of a named tuple or a dataclass. Arrays and lists with few entries are
    written out, longer ones by shape or length.

    >>> from typing import NamedTuple
    >>> import numpy as np
    >>> from phipsi.support import fields_in_line
    >>> class Impulse(NamedTuple):
    ...     v: np.ndarray
    ...     p: np.ndarray
    >>> fields_in_line(Impulse(np.ones((4, 7)), np.array([0.25, 2.0])))
    'Impulse(v: shape (4, 7), p=[0.25, 2])'
    """
    if is_dataclass(thing):
        found = {x.name: getattr(thing, x.name) for x in fields(thing) if x.repr}
    else:
        found = {name: getattr(thing, name) for name in getattr(thing, "_fields", ())}
    return f"{type(thing).__name__}({', '.join(_field(n, x) for n, x in (found | more).items())})"


def shapes_in_line(thing: Any) -> str:
    """A named tuple of arrays: ``<Name: q (2,), v (2,)>``, with the names of dictionaries."""
    shown = []
    for name, x in zip(thing._fields, thing, strict=True):
        if isinstance(x, dict):
            shown += [f"{name}[{key!r}] {y.shape}" for key, y in x.items()]
        elif x is not None:
            shown.append(f"{name} {x.shape}")
    return f"<{type(thing).__name__}: {', '.join(shown)}>"


def value_in_line(value: Any) -> str:
    """A value in a line: numbers of short arrays, names of functions, without addresses."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if hasattr(value, "dtype") and hasattr(value, "tolist"):
        is_long = getattr(value, "size", 0) > _ENTRIES
        return f"<shape {value.shape}>" if is_long else value_in_line(value.tolist())
    if isinstance(value, list | tuple):
        inner = ", ".join(map(value_in_line, value))
        if len(inner) > _WIDTH:
            return f"<{len(value)} entries>"
        if isinstance(value, list):
            return f"[{inner}]"
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, FunctionType | MethodType | BuiltinFunctionType):
        return value.__qualname__.rpartition("<locals>.")[2]
    text = " ".join(repr(value).split())
    return f"<{type(value).__name__}>" if len(text) > _WIDTH or " at 0x" in text else text


def _field(name: str, value: Any) -> str:
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and (len(shape) > 1 or value.size > _ENTRIES):
        return f"{name}: shape {shape}"
    if isinstance(value, tuple | list | Mapping) and len(value) > _ENTRIES:
        return f"{name}: {len(value)} entries"
    return f"{name}={value_in_line(value)}"
