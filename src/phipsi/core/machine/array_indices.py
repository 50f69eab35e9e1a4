"""Indices of the machine of arrays: of all iterations of an `each` at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Several:
    """Indices of all turns at once of one `each` or more."""

    def integers(self) -> Array:
        """As integers, on the axes of the turns."""
        raise NotImplementedError


class IndexArray(Several):
    """Any integers, such as words of many turns."""

    def __init__(self, integers: Array) -> None:
        self._integers = integers

    def __add__(self, k: Any) -> IndexArray:
        return IndexArray(self._integers + integers_of(k))

    def __sub__(self, k: Any) -> IndexArray:
        return IndexArray(self._integers - integers_of(k))

    def __mul__(self, k: Any) -> IndexArray:
        return IndexArray(self._integers * integers_of(k))

    __radd__, __rmul__ = __add__, __mul__

    def integers(self) -> Array:
        """See `Several`."""
        return self._integers


def integers_of(k: Any) -> Any:
    """An index, or many, as integers of Python or NumPy."""
    return k.integers() if isinstance(k, Several) else k


class Span(Several):
    """first, first + step, …: all indices of an `each` at once, on an axis of their own."""

    def __init__(self, first: int, step: int, count: int, axis: int) -> None:
        self.first, self.step, self.count, self.axis = first, step, count, axis

    def __add__(self, k: Any) -> Any:
        if isinstance(k, Several):
            return IndexArray(self.integers() + k.integers())
        return Span(self.first + k, self.step, self.count, self.axis)

    def __sub__(self, k: int) -> Span:
        return self + -k

    def __rsub__(self, k: int) -> Span:
        return Span(k - self.first, -self.step, self.count, self.axis)

    def __mul__(self, k: int) -> Span:
        return Span(self.first * k, self.step * k, self.count, self.axis)

    __radd__, __rmul__ = __add__, __mul__

    def __floordiv__(self, k: int) -> BlockIndices:
        return BlockIndices()

    def slice(self) -> slice:
        """As an index of an array."""
        end = self.first + self.step * self.count
        return slice(self.first, None if end < 0 else end, self.step)

    def integers(self) -> Array:
        """As integers on their axis."""
        return (self.first + self.step * np.arange(self.count)).reshape(-1, *[1] * self.axis)


class BlockIndices:
    """The numbers of the blocks that a span goes through: an index of words that are equal."""
