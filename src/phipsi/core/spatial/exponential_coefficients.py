"""Coefficients of the exponential maps, for any kind of number: floats, arrays, lanes.

Every formula of a group takes components: Python floats for one joint, arrays with one entry per
joint or configuration, or lanes of generated code; `ops` says which. One set of formulas serves all
because a single joint in Python floats is ten times faster than in NumPy, and fifty joints are ten
times slower.

s is always the square of the angle, θ² = w·w. Below s = 1 the coefficients are power series, where
the closed forms would divide cancelled differences by small numbers.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

Number = Any

SERIES_BELOW = 1.0
_where: Callable[[Any, Any, Any], NDArray[Any]] = np.where


def polynomial(coefficients: tuple[float, ...], s: Number) -> Number:
    """Σ c_k s^k."""
    total = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        total = total * s + coefficient
    return total


@final
class _Floats:
    """One joint at a time."""

    sqrt, less = math.sqrt, operator.lt

    @staticmethod
    def where(condition: bool, x: float, y: float) -> float:
        return x if condition else y

    @staticmethod
    def sin(x: float) -> float:
        return math.sin(x) if abs(x) < math.inf else math.nan

    @staticmethod
    def cos(x: float) -> float:
        return math.cos(x) if abs(x) < math.inf else math.nan

    @staticmethod
    def pick(s: float, series: tuple[float, ...], closed: Callable[[Any, Any], Any]) -> float:
        if s < SERIES_BELOW:
            return polynomial(series, s)
        return closed(s, FLOATS) if s < math.inf else math.nan


@final
class _Arrays:
    """Many joints or configurations at once; complex numbers too, for derivatives by their step."""

    sqrt, sin, cos, arctan2 = np.sqrt, np.sin, np.cos, np.arctan2
    where, less = staticmethod(np.where), np.less

    @staticmethod
    def pick(s: Any, series: tuple[float, ...], closed: Callable[[Any, Any], Any]) -> Any:
        small: NDArray[np.bool_] = s.real < SERIES_BELOW
        near, far = np.where(small, s, 0.0), np.where(small, 1.0, s)
        return _where(small, polynomial(series, near), closed(far, ARRAYS))


FLOATS, ARRAYS = _Floats(), _Arrays()


def _factorial_series(first: int, terms: int = 10) -> tuple[float, ...]:
    """Coefficients of 1/first! − s/(first + 2)! + s²/(first + 4)! − …."""
    return tuple((-1) ** k / math.factorial(first + 2 * k) for k in range(terms))


def _cot_series(terms: int) -> tuple[float, ...]:
    """g_1, g_2, … of 1 − (θ/2) cot(θ/2) = Σ g_k s^k; g_k = |B_2k|/(2k)! = 2 ζ(2k)/(2π)^2k."""
    known = {1: math.pi**2 / 6, 2: math.pi**4 / 90, 3: math.pi**6 / 945}
    out: list[float] = []
    for k in range(1, terms + 1):
        zeta = math.fsum(n ** (-2.0 * k) for n in range(1, 200)) if k > 3 else known[k]
        out.append(2 * zeta / (2 * math.pi) ** (2 * k))
    return tuple(out)


_SINC, _VERSINE, _SINE_GAP = (_factorial_series(n) for n in (1, 2, 3))
_COT = _cot_series(14)
_COT_B = tuple((2 - k) * g for k, g in enumerate(_COT, 1))
_COT_C = tuple((1 - k) * g for k, g in enumerate(_COT[1:], 2))


def _direct_sinc(s: Number, ops: Any) -> Number:
    theta = ops.sqrt(s)
    return ops.sin(theta) / theta


def _direct_versine(s: Number, ops: Any) -> Number:
    return (1 - ops.cos(ops.sqrt(s))) / s


def _direct_sine_gap(s: Number, ops: Any) -> Number:
    theta = ops.sqrt(s)
    return (theta - ops.sin(theta)) / (theta * s)


def _gamma(s: Number, ops: Any) -> tuple[Number, Number]:
    """γ = h cot h with h = θ/2, and dγ/ds."""
    h = ops.sqrt(s) / 2
    sine = ops.sin(h)
    cot = ops.cos(h) / sine
    return h * cot, (cot - h / (sine * sine)) / (8 * h)


def _direct_cot(s: Number, ops: Any) -> Number:
    return (1 - _gamma(s, ops)[0]) / s


def _direct_cot_b(s: Number, ops: Any) -> Number:
    gamma, slope = _gamma(s, ops)
    return slope + 2 * (1 - gamma) / s


def _direct_cot_c(s: Number, ops: Any) -> Number:
    gamma, slope = _gamma(s, ops)
    return (1 + s * slope - gamma) / (s * s)


def sinc(s: Number, ops: Any) -> Number:
    """sin θ/θ."""
    return ops.pick(s, _SINC, _direct_sinc)


def versine(s: Number, ops: Any) -> Number:
    """(1 − cos θ)/s."""
    return ops.pick(s, _VERSINE, _direct_versine)


def sine_gap(s: Number, ops: Any) -> Number:
    """(θ − sin θ)/θ³."""
    return ops.pick(s, _SINE_GAP, _direct_sine_gap)


def cot_gap(s: Number, ops: Any) -> Number:
    """(1 − γ)/s with γ = (θ/2) cot(θ/2)."""
    return ops.pick(s, _COT, _direct_cot)


def screw_gaps(s: Number, ops: Any) -> tuple[Number, Number]:
    """b and c of dexp⁻¹ = 1 + ½ ad + b ad² + c ad⁴ on se(3), where ad (ad² + s)² = 0.

    Its even part has the value and the derivative of γ at ad² = −s, so b = γ' + 2 (1 − γ)/s and
    c = (1 + s γ' − γ)/s².
    """
    return ops.pick(s, _COT_B, _direct_cot_b), ops.pick(s, _COT_C, _direct_cot_c)
