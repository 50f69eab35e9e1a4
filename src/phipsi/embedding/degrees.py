"""Degrees of rational functions as a kind of number: what formulas do to them, run on bounds.

A number is a numerator over a denominator of bounded degrees in entries of rotations, sines,
cosines and other numbers. Those are themselves rational of degree two, in quaternions and in
tangents of half angles, each with one denominator that all of them share, so that degrees are twice
as high in these. Sums have the product of both denominators.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn, final

from phipsi.core.spatial import ScalarOps


class Degrees(NamedTuple):
    """Degrees of numerator and denominator."""

    top: int
    bottom: int

    def __add__(self, other: Any) -> Degrees:  # type: ignore[override]
        y = _of(other)
        return Degrees(max(self.top + y.bottom, y.top + self.bottom), self.bottom + y.bottom)

    __radd__ = __sub__ = __rsub__ = __add__

    def __neg__(self) -> Degrees:
        return self

    def __mul__(self, other: Any) -> Degrees:  # type: ignore[override]
        y = _of(other)
        return Degrees(self.top + y.top, self.bottom + y.bottom)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Degrees:
        y = _of(other)
        return Degrees(self.top + y.bottom, self.bottom + y.top)

    def __rtruediv__(self, other: Any) -> Degrees:
        return _of(other) / self


def _of(x: Any) -> Degrees:
    return x if isinstance(x, Degrees) else Degrees(0, 0)


@final
class _DegreeOps(ScalarOps):
    """Functions of degrees; square roots are not rational, and have none."""

    def entrywise(self, name: str, args: Sequence[Any], data: Any = None) -> NoReturn:
        raise TypeError(f"{name} is not rational")

    def number(self, c: Any) -> int:
        return 1

    def sin(self, x: Any) -> Degrees:
        return Degrees(1, 0)

    cos = sin

    def sqrt(self, x: Any) -> Degrees:
        return _of(x)


DEGREES = _DegreeOps()


def highest(numbers: Sequence[Any]) -> int:
    """The highest degree among them, of numerators and denominators, in what is drawn."""
    return 2 * max((x.top + x.bottom for x in numbers if isinstance(x, Degrees)), default=0)
