"""The coefficients of sums: integers, fractions and floating-point numbers, all finite."""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Real
from typing import Any, cast

from phipsi.core.expressions.check import shown
from phipsi.errors import SpaceError

Number = int | float | Fraction
_MOST_BITS = 8192  # of the denominator of a fraction
_USUAL = 2**53  # integers below are tidy
_PARTS = 64  # halves, quarters, … 64ths are exact fractions


def as_number(c: Number, x: object) -> Number:
    """A number that scales the expression x, checked."""
    if type(c) is type(x):
        raise SpaceError(f"write X @ Y for the product of operators, here with {shown(x)}")
    if hasattr(c, "item") and getattr(c, "ndim", 0) == 0:
        c = cast(Any, c).item()
    if not isinstance(cast(object, c), Real) or not _is_finite(c):
        said = "an integer of this size" if isinstance(c, int) else shown(repr(c))
        raise SpaceError(f"{said} is not a finite real number, so it cannot scale {shown(x)}")
    return int_if_whole(c)


def int_if_whole(c: Number) -> Number:
    """Integers as int, and halves to 64ths as fractions, so that equal coefficients print alike."""
    if type(c) is int and -_USUAL < c < _USUAL:
        return c
    if not _is_finite(c):
        raise SpaceError("the coefficients multiply to a number beyond 1e308")
    if isinstance(c, Fraction) and c.denominator.bit_length() > _MOST_BITS:
        raise SpaceError("the coefficients multiply to a fraction of too many digits")
    if isinstance(c, bool) or (not isinstance(c, int) and c == int(c) and abs(c) < _USUAL):
        return int(c)
    if isinstance(c, float) and (_PARTS * c).is_integer() and abs(c) < _USUAL:
        return Fraction(c)
    return c


def times(c: Number, d: Number) -> Number:
    """The product of two coefficients."""
    return int_if_whole(c * d)


def reciprocal(c: Number) -> Number:
    """1 / c, exact for an integer or a fraction."""
    return Fraction(1, c) if isinstance(c, int) and abs(c) != 1 else int_if_whole(1 / c)


def _is_finite(c: Number) -> bool:
    try:
        return math.isfinite(c)
    except OverflowError:  # an integer or fraction beyond the floating-point numbers
        return False
