"""Formulas of the exponential coordinates, generic over floats and arrays.

Every function takes components: Python floats for one joint, or arrays with one entry per joint or
configuration; `ops` is FLOATS or ARRAYS. One set of formulas serves both because a single joint in
Python floats is ten times faster than in NumPy, and fifty joints are ten times slower.

s is always the square of the angle, θ² = w·w. Below s = 1 power series are used, where the closed
forms divide cancelled differences by small numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

Number = Any
Three = Sequence[Any]  # components

SERIES_BELOW = 1.0


def _factorial_series(first: int, terms: int = 10) -> tuple[float, ...]:
    """Coefficients of 1/first! − s/(first + 2)! + s²/(first + 4)! − …."""
    return tuple((-1) ** k / math.factorial(first + 2 * k) for k in range(terms))


def _cot_gap(terms: int) -> tuple[float, ...]:
    """g_1, g_2, … of 1 − (θ/2) cot(θ/2) = Σ g_k s^k; g_k = |B_2k|/(2k)! = 2 ζ(2k)/(2π)^2k."""
    out: list[float] = []
    for k in range(1, terms + 1):
        zeta = math.fsum(n ** (-2.0 * k) for n in range(1, 200)) if k > 3 else _ZETA[k]
        out.append(2 * zeta / (2 * math.pi) ** (2 * k))
    return tuple(out)


_ZETA = {1: math.pi**2 / 6, 2: math.pi**4 / 90, 3: math.pi**6 / 945}
_G = _cot_gap(14)
_COS = _factorial_series(2)  # (1 − cos θ)/s
_SINE = _factorial_series(3)  # (θ − sin θ)/θ³
_SINC = _factorial_series(1)  # sin θ/θ
_COT = _G  # (1 − γ)/s with γ = (θ/2) cot(θ/2)
# Even part of dexp⁻¹ on se(3), where ad (ad² + s)² = 0: 1 + b ad² + c ad⁴ has the value and the
# derivative of γ at ad² = −s, so b = γ' + 2 (1 − γ)/s and c = (1 + s γ' − γ)/s².
_COT_B = tuple((2 - k) * g for k, g in enumerate(_G, 1))
_COT_C = tuple((1 - k) * g for k, g in enumerate(_G[1:], 2))


def polynomial(coefficients: tuple[float, ...], s: Number) -> Number:
    """Σ c_k s^k."""
    total = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        total = total * s + coefficient
    return total


@final
class _Floats:
    """One joint at a time."""

    sqrt, sin, cos = math.sqrt, math.sin, math.cos

    @staticmethod
    def pick(s: float, series: tuple[float, ...], closed: Callable[[Any, Any], Any]) -> float:
        if s < SERIES_BELOW:
            return polynomial(series, s)
        return closed(s, FLOATS) if s < math.inf else math.nan


@final
class _Arrays:
    """Many joints or configurations at once."""

    sqrt, sin, cos = np.sqrt, np.sin, np.cos

    @staticmethod
    def pick(s: Any, series: tuple[float, ...], closed: Callable[[Any, Any], Any]) -> Any:
        small = s < SERIES_BELOW
        near, far = np.where(small, s, 0.0), np.where(small, 1.0, s)
        return np.where(small, polynomial(series, near), closed(far, ARRAYS))


@final
class _Steps:
    """Arrays of complex numbers with a tiny imaginary part: derivatives by complex steps."""

    sqrt, sin, cos = np.sqrt, np.sin, np.cos

    @staticmethod
    def pick(s: Any, series: tuple[float, ...], closed: Callable[[Any, Any], Any]) -> Any:
        small = np.real(s) < SERIES_BELOW
        near, far = np.where(small, s, 0.0), np.where(small, 1.0, s)
        return np.where(small, polynomial(series, near), closed(far, STEPS))


FLOATS, ARRAYS, STEPS = _Floats(), _Arrays(), _Steps()


# ---- coefficients as functions of s -------------------------------------------------------------


def _sinc(s: Number, ops: Any) -> Number:
    theta = ops.sqrt(s)
    return ops.sin(theta) / theta


def _versine(s: Number, ops: Any) -> Number:
    return (1 - ops.cos(ops.sqrt(s))) / s


def _sine_gap(s: Number, ops: Any) -> Number:
    theta = ops.sqrt(s)
    return (theta - ops.sin(theta)) / (theta * s)


def _gamma(s: Number, ops: Any) -> tuple[Number, Number]:
    """γ = h cot h with h = θ/2, and dγ/ds."""
    h = ops.sqrt(s) / 2
    sine = ops.sin(h)
    cot = ops.cos(h) / sine
    return h * cot, (cot - h / (sine * sine)) / (8 * h)


def _cot(s: Number, ops: Any) -> Number:
    return (1 - _gamma(s, ops)[0]) / s


def _cot_b(s: Number, ops: Any) -> Number:
    gamma, slope = _gamma(s, ops)
    return slope + 2 * (1 - gamma) / s


def _cot_c(s: Number, ops: Any) -> Number:
    gamma, slope = _gamma(s, ops)
    return (1 + s * slope - gamma) / (s * s)


# ---- vectors as triples -------------------------------------------------------------------------


def cross(a: Three, b: Three) -> tuple[Number, ...]:
    """A vector product."""
    a0, a1, a2 = a
    b0, b1, b2 = b
    return a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0


def _square(w: Three) -> Number:
    return w[0] * w[0] + w[1] * w[1] + w[2] * w[2]


def _plus(x: Three, a: Number, y: Three, b: Number, z: Three) -> tuple[Number, ...]:
    """x + a y + b z."""
    return (
        x[0] + a * y[0] + b * z[0],
        x[1] + a * y[1] + b * z[1],
        x[2] + a * y[2] + b * z[2],
    )


# ---- SO(3): q = q0 ⊗ exp(w) ---------------------------------------------------------------------


def turn(q0: Three, w: Three, ops: Any) -> tuple[Number, ...]:
    """q0 ⊗ exp(w) as four components; the division removes what rounding left of the length."""
    s = _square(w) / 4
    k = ops.pick(s, _SINC, _sinc) / 2
    c, x, y, z = ops.cos(ops.sqrt(s)), k * w[0], k * w[1], k * w[2]
    a0, a1, a2, a3 = q0
    p0 = a0 * c - a1 * x - a2 * y - a3 * z
    p1 = a0 * x + a1 * c + a2 * z - a3 * y
    p2 = a0 * y - a1 * z + a2 * c + a3 * x
    p3 = a0 * z + a1 * y - a2 * x + a3 * c
    scale = 1 / ops.sqrt(p0 * p0 + p1 * p1 + p2 * p2 + p3 * p3)
    return p0 * scale, p1 * scale, p2 * scale, p3 * scale


def turn_rate(w: Three, omega: Three, ops: Any) -> tuple[Number, ...]:
    """Rate of w when q0 ⊗ exp(w) turns with ω in body axes: ω + ½ w × ω + κ w × (w × ω)."""
    k = ops.pick(_square(w), _COT, _cot)
    a = cross(w, omega)
    b = cross(w, a)
    return (
        omega[0] + 0.5 * a[0] + k * b[0],
        omega[1] + 0.5 * a[1] + k * b[1],
        omega[2] + 0.5 * a[2] + k * b[2],
    )


def turn_pull(w: Three, n: Three, ops: Any) -> tuple[Number, ...]:
    """dexp(−w)* n: n − a w × n + b w × (w × n)."""
    s = _square(w)
    first = cross(n, w)
    a, b = ops.pick(s, _COS, _versine), ops.pick(s, _SINE, _sine_gap)
    return _plus(n, a, first, b, cross(first, w))


def turn_carry(w: Three, n: Three, ops: Any) -> tuple[Number, ...]:
    """e^(−w×) n: a vector that stays where it is, in axes that have turned by w."""
    s = _square(w)
    first = cross(n, w)
    a, b = ops.pick(s, _SINC, _sinc), ops.pick(s, _COS, _versine)
    return _plus(n, a, first, b, cross(first, w))


# ---- SE(3): the screw motion ξ = [w; u] ---------------------------------------------------------


def screw(p0: Three, q0: Three, w: Three, u: Three, ops: Any) -> tuple[Number, ...]:
    """Position p0 + R(q0) d, d the `_way` of the screw motion; the rotation is `turn`."""
    return shifted(p0, q0, _way(w, u, ops))


def _way(w: Three, u: Three, ops: Any) -> tuple[Number, ...]:
    """Displacement u + a w × u + b w × (w × u) by a screw motion, in the axes before it."""
    s = _square(w)
    a, b = ops.pick(s, _COS, _versine), ops.pick(s, _SINE, _sine_gap)
    first = cross(w, u)
    return _plus(u, a, first, b, cross(w, first))


def shifted(p0: Three, q0: Three, d: Three) -> tuple[Number, ...]:
    """p0 + R(q0) d."""
    # R(q) d = d + 2/(q·q) (q0 (x × d) + x × (x × d)), x the vector part
    x = q0[1:]
    k = 2 / (q0[0] * q0[0] + _square(x))
    once = cross(x, d)
    twice = cross(x, once)
    c = q0[0]
    return (
        p0[0] + d[0] + k * (c * once[0] + twice[0]),
        p0[1] + d[1] + k * (c * once[1] + twice[1]),
        p0[2] + d[2] + k * (c * once[2] + twice[2]),
    )


def screw_rate(w: Three, u: Three, omega: Three, nu: Three, ops: Any) -> tuple[Number, ...]:
    """Rate of ξ = [w; u] for the body motion V = [ω; ν]: V + ½ ad V + b ad² V + c ad⁴ V."""
    s = _square(w)
    b, c = ops.pick(s, _COT_B, _cot_b), ops.pick(s, _COT_C, _cot_c)
    m1, f1 = _ad(w, u, omega, nu)
    m2, f2 = _ad(w, u, m1, f1)
    m3, f3 = _ad(w, u, m2, f2)
    m4, f4 = _ad(w, u, m3, f3)
    return (
        omega[0] + 0.5 * m1[0] + b * m2[0] + c * m4[0],
        omega[1] + 0.5 * m1[1] + b * m2[1] + c * m4[1],
        omega[2] + 0.5 * m1[2] + b * m2[2] + c * m4[2],
        nu[0] + 0.5 * f1[0] + b * f2[0] + c * f4[0],
        nu[1] + 0.5 * f1[1] + b * f2[1] + c * f4[1],
        nu[2] + 0.5 * f1[2] + b * f2[2] + c * f4[2],
    )


def _ad(w: Three, u: Three, m: Three, f: Three) -> tuple[Three, Three]:
    """crm([w; u]) [m; f]."""
    g, h = cross(u, m), cross(w, f)
    return cross(w, m), (g[0] + h[0], g[1] + h[1], g[2] + h[2])


# ---- SE(2): the planar motion (φ, u1, u2) -------------------------------------------------------


def slide(q0: Three, xi: Three, ops: Any) -> tuple[Number, ...]:
    """(θ, x, y) after the planar motion (φ, u1, u2) from (θ0, x0, y0); θ adds."""
    angle, u1, u2 = xi
    s = angle * angle
    along, across = ops.pick(s, _SINC, _sinc), angle * ops.pick(s, _COS, _versine)
    d1, d2 = along * u1 - across * u2, across * u1 + along * u2
    sine, cosine = ops.sin(q0[0]), ops.cos(q0[0])
    return (
        q0[0] + angle,
        q0[1] + cosine * d1 - sine * d2,
        q0[2] + sine * d1 + cosine * d2,
    )


def plane_turn(angle: Number, x: Three, ops: Any) -> tuple[Number, ...]:
    """x (2,) turned by an angle; a small one changes its length by less than rounding of x."""
    s = angle * angle
    along, back = angle * ops.pick(s, _SINC, _sinc), s * ops.pick(s, _COS, _versine)
    return x[0] - (along * x[1] + back * x[0]), x[1] + (along * x[0] - back * x[1])


def slide_rate(xi: Three, v: Three, ops: Any) -> tuple[Number, ...]:
    """Rate of (φ, u) for the body motion (ω, ν): ν + ½ (φ J ν − ω J u) + κ (φ ω u − φ² ν)."""
    angle, u1, u2 = xi
    omega, n1, n2 = v
    s = angle * angle
    k = ops.pick(s, _COT, _cot)
    return (
        omega,
        n1 + 0.5 * (omega * u2 - angle * n2) + k * (angle * omega * u1 - s * n1),
        n2 + 0.5 * (angle * n1 - omega * u1) + k * (angle * omega * u2 - s * n2),
    )


# ---- by kind of joint ---------------------------------------------------------------------------

MOVE: dict[str, Callable[[Three, Three, Any], tuple[Number, ...]]] = {
    "spherical": turn,
    "free": lambda q, z, ops: (
        *turn(q[:4], z[:3], ops),
        *screw(q[4:], q[:4], z[:3], z[3:], ops),
    ),
    "planar": slide,
}
"""(q, z) → q ∘ exp(z)."""

RATE: dict[str, Callable[[Three, Three, Any], tuple[Number, ...]]] = {
    "spherical": turn_rate,
    "free": lambda z, v, ops: screw_rate(z[:3], z[3:], v[:3], v[3:], ops),
    "planar": slide_rate,
}
"""(z, v) → ż = dexp⁻¹(z) v."""
