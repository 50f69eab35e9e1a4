"""Kinds of numbers: what a kind offers to formulas that are written once, and those of NumPy.

Formulas of joints, groups, laws and custom operators run on floats, arrays, dual numbers, decimals
with fifty digits, residues, symbols, traced values and lanes of machine code. Numbers of a kind
support + − * / and unary minus with each other and with Python's numbers; all else is asked of the
`ScalarOps` of the kind. Operations are known by their names in `arrays/law_operations.py`, whose
values on NumPy's arrays are here.

Reasons: docs/decisions/0072.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast, final

import numpy as np
from numpy.typing import NDArray

Number = Any
Array = NDArray[Any]

SERIES_BELOW = 1.0
"""The square of an angle below which coefficients of exponential maps are power series."""


class ScalarOps(Protocol):
    """The operations on a kind of number that are not operators of Python.

    A kind is a class derived from this with `entrywise`; what it computes faster, or what needs
    more care, it has besides.
    """

    def entrywise(self, name: str, args: Sequence[Any], data: Any = None) -> Any:
        """An operation by its name in the table of operations; truth is 1, and not 0."""
        ...

    def number(self, c: Any) -> Any:
        """A float or a fraction as a number of this kind."""
        return float(c)

    def sin(self, x: Any) -> Any:
        """Sine of a number, in rad."""
        return self.entrywise("sin", (x,))

    def cos(self, x: Any) -> Any:
        """Cosine of a number, in rad."""
        return self.entrywise("cos", (x,))

    def sqrt(self, x: Any) -> Any:
        """Square root."""
        return self.entrywise("sqrt", (x,))

    def arctan2(self, y: Any, x: Any) -> Any:
        """The angle of (x, y), in rad."""
        return self.entrywise("arctan2", (y, x))

    def less(self, x: Any, y: Any) -> Any:
        """Where x < y, for `where`."""
        return self.entrywise("less", (x, y))

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        """One or the other."""
        return self.entrywise("where", (condition, x, y))

    def pick(self, s: Any, series: tuple[float, ...], closed: Callable[[Any, Any], Any]) -> Any:
        """A power series in s below `SERIES_BELOW`, and ``closed(s, self)`` beyond."""
        small = self.less(s, SERIES_BELOW)
        near, far = self.where(small, s, 0.0), self.where(small, 1.0, s)
        return self.where(small, polynomial(series, near), closed(far, self))


def polynomial(coefficients: tuple[float, ...], s: Number) -> Number:
    """Σ c_k s^k."""
    total = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        total = total * s + coefficient
    return total


# ---- operations on NumPy's numbers and arrays ----------------------------------------------------

_where: Callable[[Any, Any, Any], Array] = np.where
TRUTHS: dict[str, Callable[..., Any]] = {
    "less": np.less, "less_equal": np.less_equal, "equal": np.equal,
    "both": np.logical_and, "either": np.logical_or, "not": np.logical_not,
}  # fmt: skip
"""Comparisons and what is made of them, as truths of NumPy; elsewhere they are 1 or 0."""


def _truth(function: Callable[..., Any]) -> Callable[..., Array]:
    def value(*values: Any) -> Array:
        return np.asarray(function(*values), dtype=np.float64)

    return value


def _fused(x: Any, y: Any, z: Any) -> Any:
    return x * y + z


def _chosen(c: Any, x: Any, y: Any) -> Array:
    return _where(c != 0, x, y)


ON_ARRAYS: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative,
    "fma": _fused,
    "abs": np.abs, "sign": np.sign, "floor": np.floor, "sqrt": np.sqrt, "exp": np.exp,
    "log": np.log, "sin": np.sin, "cos": np.cos, "tan": np.tan, "arctan": np.arctan,
    "arcsin": np.arcsin, "arccos": np.arccos, "arctan2": np.arctan2, "sinh": np.sinh,
    "cosh": np.cosh, "tanh": np.tanh, "power": np.power, "floor_divide": np.floor_divide,
    "remainder": np.remainder, "minimum": np.minimum, "maximum": np.maximum,
    "where": _chosen,
    **{name: _truth(function) for name, function in TRUTHS.items()},
}  # fmt: skip
"""The values of operations on single entries that need no data, as functions of arrays."""


def curve_value(x: Array, data: tuple[Array, Array]) -> Array:
    """A piecewise polynomial: Σ c_j (x − knot)^j between knots, the first or last piece outside."""
    knots, coefficients = data
    piece = np.clip(np.searchsorted(knots, np.real(x), side="right") - 1, 0, len(coefficients) - 1)
    s: Array = x - knots[piece]
    out: Array = np.zeros_like(x)
    for j in reversed(range(coefficients.shape[1])):
        out = out * s + coefficients[piece, j]
    return np.where(np.isnan(x), np.nan, out)


def entry_value(name: str, args: Sequence[Any], data: Any = None) -> Any:
    """An operation on single numbers, or arrays of them, real or complex.

    Complex numbers are never conjugated, so that complex steps give derivatives: choices are made
    by their real parts.
    """
    with np.errstate(all="ignore"):
        if name == "curve":
            knots, coefficients = (np.asarray(x) for x in data)
            return curve_value(np.asarray(args[0]), (knots, coefficients))
        if any(np.iscomplexobj(x) for x in args):
            if name in _OF_COMPLEX:
                return _OF_COMPLEX[name](*args)
            if name in _STEPS:
                args = [np.real(x) for x in args]
        return ON_ARRAYS[name](*map(np.asarray, args))


_STEPS = ("sign", "floor", "floor_divide", *TRUTHS)


def _complex_angle(y: Array, x: Array) -> Array:
    """The angle of (x, y): that of the real parts, and the changes of the arcs of quotients."""
    steep = np.abs(np.real(y)) > np.abs(np.real(x))
    sign = np.where(np.real(y) < 0, -1.0, 1.0)
    flat = np.arctan(y / x) + np.where(np.real(x) < 0, np.pi * sign, 0.0)
    return np.where(steep, np.pi / 2 * sign - np.arctan(x / y), flat)


def _complex_remainder(x: Array, y: Array) -> Array:
    """The remainder of the real parts, and the change x − n y for whole n."""
    times = np.floor_divide(np.real(x), np.real(y))
    return np.remainder(np.real(x), np.real(y)) + 1j * (np.imag(x) - times * np.imag(y))


def _complex_size(x: Array) -> Array:
    return np.where(np.real(x) < 0, -x, x)


def _complex_minimum(x: Array, y: Array) -> Array:
    return np.where(np.real(x) <= np.real(y), x, y)


def _complex_maximum(x: Array, y: Array) -> Array:
    return np.where(np.real(x) >= np.real(y), x, y)


def _complex_choice(c: Array, x: Array, y: Array) -> Array:
    return np.where(np.real(c) != 0, x, y)


_OF_COMPLEX: dict[str, Callable[..., Array]] = {
    "abs": _complex_size,
    "minimum": _complex_minimum,
    "maximum": _complex_maximum,
    "where": _complex_choice,
    "arctan2": _complex_angle,
    "remainder": _complex_remainder,
}


# ---- kinds ---------------------------------------------------------------------------------------
# functions of NumPy and C as they are: a method around each would cost as much as a call

_math: Any = math
_np: Any = np
_staticmethod: Any = staticmethod


@final
class FloatOps(ScalarOps):
    """Python's floats: one joint or configuration at a time."""

    sqrt, less = _math.sqrt, cast(Any, operator.lt)

    def entrywise(self, name: str, args: Sequence[Any], data: Any = None) -> float:
        """As on arrays."""
        return float(entry_value(name, args, data))

    def where(self, condition: bool, x: float, y: float) -> float:
        """One or the other."""
        return x if condition else y

    def sin(self, x: float) -> float:
        """Sine; not a number where the angle is infinite."""
        return math.sin(x) if abs(x) < math.inf else math.nan

    def cos(self, x: float) -> float:
        """Cosine."""
        return math.cos(x) if abs(x) < math.inf else math.nan

    def pick(self, s: float, series: tuple[float, ...], closed: Callable[[Any, Any], Any]) -> float:
        """Only what is taken is computed."""
        if s < SERIES_BELOW:
            return polynomial(series, s)
        return closed(s, self) if s < math.inf else math.nan


@final
class ArrayOps(ScalarOps):
    """Floats, complex numbers and arrays of them, with an entry for each joint or configuration."""

    sqrt, sin, cos, arctan2 = _np.sqrt, _np.sin, _np.cos, _np.arctan2
    where, less = _staticmethod(np.where), _np.less
    entrywise = _staticmethod(entry_value)

    def pick(self, s: Any, series: tuple[float, ...], closed: Callable[[Any, Any], Any]) -> Any:
        """By the real part, for derivatives by complex steps."""
        small: NDArray[np.bool_] = s.real < SERIES_BELOW
        near: Array = np.where(small, s, 0.0)
        far: Array = np.where(small, 1.0, s)
        return _where(small, polynomial(series, near), closed(far, self))


FLOATS, ARRAYS = FloatOps(), ArrayOps()
