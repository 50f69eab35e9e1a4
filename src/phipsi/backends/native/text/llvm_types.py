"""Types of LLVM's text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

WORD: Final = 8
"""Bytes of a word: an integer of a table, or an address."""


class Type:
    """A type, by its text."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


class IntType(Type):
    """Integers of some bits."""

    __slots__ = ("width",)

    def __init__(self, width: int) -> None:
        super().__init__(f"i{width}")
        self.width = width


class VectorType(Type):
    """Several elements side by side."""

    __slots__ = ("count", "element")

    def __init__(self, element: Type, count: int) -> None:
        super().__init__(f"<{count} x {element}>")
        self.element, self.count = element, count


class LiteralStructType(Type):
    """A record without a name."""

    __slots__ = ("elements",)

    def __init__(self, elements: Sequence[Type]) -> None:
        super().__init__("{" + ", ".join(x.text for x in elements) + "}")
        self.elements = tuple(elements)


class FunctionType(Type):
    """The types that a function returns and takes."""

    __slots__ = ("gives", "takes")

    def __init__(self, gives: Type, takes: Sequence[Type]) -> None:
        super().__init__(f"{gives} ({', '.join(x.text for x in takes)})")
        self.gives, self.takes = gives, tuple(takes)


def side_by_side(element: Type, count: int) -> Type:
    """A vector of several elements; one alone is a plain value."""
    return element if count == 1 else VectorType(element, count)


DOUBLE, FLOAT, POINTER, VOID = (Type(name) for name in ("double", "float", "ptr", "void"))
BIT = IntType(1)


def element_of(dtype: np.dtype) -> Type:
    """The type of the numbers of an array."""
    numbers = {8: DOUBLE, 4: FLOAT}
    return numbers[dtype.itemsize] if dtype.kind == "f" else IntType(8 * dtype.itemsize)
