"""One line about an object: the class, and its fields with small values or shapes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

_ENTRIES = 6  # of an array or a list: more are counted
_WIDTH = 80  # of the text of a field: longer ones are the name of the class


def one_line(thing: Any, **more: Any) -> str:
    """The class of an object and its fields, for `__repr__`; `more` are further ones.

    Fields are those of a named tuple or a dataclass. Arrays and lists with few entries are
    written out, longer ones by shape or length.

    >>> from typing import NamedTuple
    >>> import numpy as np
    >>> from phipsi.support import one_line
    >>> class Impulse(NamedTuple):
    ...     v: np.ndarray
    ...     p: np.ndarray
    >>> one_line(Impulse(np.ones((4, 7)), np.array([0.25, 2.0])))
    'Impulse(v: shape (4, 7), p=[0.25, 2])'
    """
    if is_dataclass(thing):
        found = {x.name: getattr(thing, x.name) for x in fields(thing) if x.repr}
    else:
        found = {name: getattr(thing, name) for name in getattr(thing, "_fields", ())}
    return f"{type(thing).__name__}({', '.join(_field(n, x) for n, x in (found | more).items())})"


def _field(name: str, value: Any) -> str:
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and (len(shape) > 1 or value.size > _ENTRIES):
        return f"{name}: shape {shape}"
    if isinstance(value, tuple | list | Mapping) and len(value) > _ENTRIES:
        return f"{name}: {len(value)} entries"
    return f"{name}={_text(value)}"


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if hasattr(value, "dtype") and hasattr(value, "tolist"):
        return _text(value.tolist())
    if isinstance(value, list | tuple):
        inner = ", ".join(map(_text, value))
        if len(inner) > _WIDTH:
            return f"<{len(value)} entries>"
        if isinstance(value, list):
            return f"[{inner}]"
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if callable(value) and hasattr(value, "__name__"):
        return str(value.__name__)
    text = repr(value)
    is_short = len(text) <= _WIDTH and "\n" not in text and " at 0x" not in text
    return text if is_short else f"<{type(value).__name__}>"
