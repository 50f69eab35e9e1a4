"""What a step does at one joint, for methods that step momenta or forces rather than coordinates.

Rates of free and planar joints are in body axes. What stays constant without forces is a velocity
in the axes of the parent, so that is what these formulas keep: a free joint is taken for a rotation
and a translation of its own, x⁺ = x + h R u, and not for a screw motion along which R u turns. A
body that nothing acts on then flies straight, and its spin does not know how fast it flies.

    semi-implicit   ω⁺ = ω + h ω̇,   s = u + h (u̇ + ω × u),   R⁺ = R exp(h ω⁺),   x⁺ = x + h R s,
                    u⁺ = exp(−h ω⁺) s
    variational     R_m = R exp(h ω/2),   R⁺ = R exp(h ω),   x⁺ = x + h R_m u          (w = [ω; u])
                    g = exp(−h ω/2) f + h/2 λ_x                    the linear momentum at the middle
                    n_m = dexp(−h ω)* n + h/2 dexp(−h ω/2)* (λ_ω + g × u)
                    n⁺ = exp(−h ω) n + h exp(−h ω/2) (λ_ω + g × u),   f⁺ the same without g × u

In the equation for w, g × u is computed with the linear momentum μ that belongs to w: then it does
not grow with the speed of flight, and the iteration converges for a body that flies fast and turns
slowly. In p⁺ it is computed with g itself, which keeps the angular momentum whatever w is. This is
for a momentum [n; f] and a force [λ_ω; λ_x], exp and dexp those of SO(3): the equations of
variational.py for SO(3) × ℝ³, in body axes. Planar joints are the same with one angle, spherical
ones without u and f. Everything is generic over floats, arrays and lanes, as in exponential.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.simulation.chart import SIZES, Chart, pick, put
from phipsi.simulation.exponential import (
    ARRAYS,
    FLOATS,
    cross,
    plane_turn,
    shifted,
    turn,
    turn_carry,
    turn_pull,
)

Array = NDArray[Any]
Numbers = Sequence[Any]


@dataclass(frozen=True)
class JointStep:
    """Formulas of one kind of joint; see the module.

    `euler` (q, v, vdot, h) → q⁺ and v⁺; of the variational step: `middle`, `end` (q, w, h) → q_m,
    q⁺; `wanted` (w, h, p, λ, μ) → what the momenta μ = ℳ w at the middle ought to be; `after`
    (q, w, h, p, λ) → p⁺.
    """

    euler: Callable[[Numbers, Numbers, Numbers, Any, Any], tuple[Numbers, Numbers]]
    middle: Callable[[Numbers, Numbers, Any, Any], Numbers]
    end: Callable[[Numbers, Numbers, Any, Any], Numbers]
    wanted: Callable[[Numbers, Any, Numbers, Numbers, Numbers, Any], Numbers]
    after: Callable[[Numbers, Numbers, Any, Numbers, Numbers, Any], Numbers]


def _times(h: Any, x: Numbers) -> list[Any]:
    return [h * i for i in x]


def _plus(x: Numbers, h: Any, y: Numbers) -> list[Any]:
    return [i + h * j for i, j in zip(x, y, strict=True)]


def _sum(x: Numbers, y: Numbers) -> list[Any]:
    return [i + j for i, j in zip(x, y, strict=True)]


# ---- SO(3) --------------------------------------------------------------------------------------


def _turn_euler(q: Numbers, v: Numbers, vdot: Numbers, h: Any, ops: Any) -> Any:
    new = _plus(v, h, vdot)
    return turn(q, _times(h, new), ops), new


def _turn_wanted(w: Numbers, h: Any, n: Numbers, force: Numbers, now: Numbers, ops: Any) -> Numbers:
    half = h * 0.5
    first, second = turn_pull(_times(h, w), n, ops), turn_pull(_times(half, w), force, ops)
    return _plus(first, half, second)


def _turn_after(q: Numbers, w: Numbers, h: Any, n: Numbers, force: Numbers, ops: Any) -> Numbers:
    first = turn_carry(_times(h, w), n, ops)
    return _plus(first, h, turn_carry(_times(h * 0.5, w), force, ops))


# ---- SO(3) × ℝ³ ---------------------------------------------------------------------------------


def _free_euler(q: Numbers, v: Numbers, vdot: Numbers, h: Any, ops: Any) -> Any:
    u = v[3:]
    turned, spin = _turn_euler(q[:4], v[:3], vdot[:3], h, ops)
    s = _plus(u, h, _sum(vdot[3:], cross(v[:3], u)))
    place = shifted(q[4:], q[:4], _times(h, s))
    return (*turned, *place), (*spin, *turn_carry(_times(h, spin), s, ops))


def _free_middle(q: Numbers, w: Numbers, h: Any, ops: Any) -> Numbers:
    half = h * 0.5
    between = turn(q[:4], _times(half, w[:3]), ops)
    return (*between, *shifted(q[4:], between, _times(half, w[3:])))


def _free_end(q: Numbers, w: Numbers, h: Any, ops: Any) -> Numbers:
    between = turn(q[:4], _times(h * 0.5, w[:3]), ops)
    return (*turn(q[:4], _times(h, w[:3]), ops), *shifted(q[4:], between, _times(h, w[3:])))


def _free_wanted(w: Numbers, h: Any, p: Numbers, force: Numbers, now: Numbers, ops: Any) -> Numbers:
    moment = _sum(force[:3], cross(now[3:], w[3:]))
    angular = _turn_wanted(w[:3], h, p[:3], moment, now[:3], ops)
    return (*angular, *_free_linear(w, h, p, force, ops))


def _free_linear(w: Numbers, h: Any, p: Numbers, force: Numbers, ops: Any) -> Numbers:
    """The linear momentum g at the middle."""
    half = h * 0.5
    return _plus(turn_carry(_times(half, w[:3]), p[3:], ops), half, force[3:])


def _free_after(q: Numbers, w: Numbers, h: Any, p: Numbers, force: Numbers, ops: Any) -> Numbers:
    moment = _sum(force[:3], cross(_free_linear(w, h, p, force, ops), w[3:]))
    angular = _turn_after(q, w[:3], h, p[:3], moment, ops)
    return (*angular, *_turn_after(q, w[:3], h, p[3:], force[3:], ops))


# ---- SO(2) × ℝ² ---------------------------------------------------------------------------------


def _turned(angle: Any, x: Numbers, ops: Any) -> Numbers:
    c, s = ops.cos(angle), ops.sin(angle)
    return c * x[0] - s * x[1], s * x[0] + c * x[1]


def _planar_euler(q: Numbers, v: Numbers, vdot: Numbers, h: Any, ops: Any) -> Any:
    spin = v[0] + h * vdot[0]
    s = v[1] + h * (vdot[1] - v[0] * v[2]), v[2] + h * (vdot[2] + v[0] * v[1])
    place = _plus(q[1:], h, _turned(q[0], s, ops))
    angle = q[0] + h * spin  # rounded: by what it has really changed, s is turned back
    return (angle, *place), (spin, *plane_turn(q[0] - angle, s, ops))


def _planar_middle(q: Numbers, w: Numbers, h: Any, ops: Any) -> Numbers:
    half = h * 0.5
    angle = q[0] + half * w[0]
    return (angle, *_plus(q[1:], half, _turned(angle, w[1:], ops)))


def _planar_end(q: Numbers, w: Numbers, h: Any, ops: Any) -> Numbers:
    between = q[0] + h * 0.5 * w[0]
    return (q[0] + h * w[0], *_plus(q[1:], h, _turned(between, w[1:], ops)))


def _planar_linear(angle: Any, h: Any, p: Numbers, force: Numbers, ops: Any) -> Numbers:
    return _plus(plane_turn(-angle, p[1:], ops), h * 0.5, force[1:])


def _planar_wanted(
    w: Numbers, h: Any, p: Numbers, force: Numbers, now: Numbers, ops: Any
) -> Numbers:
    half = h * 0.5
    moment = force[0] + now[1] * w[2] - now[2] * w[1]
    return (p[0] + half * moment, *_planar_linear(half * w[0], h, p, force, ops))


def _planar_after(q: Numbers, w: Numbers, h: Any, p: Numbers, force: Numbers, ops: Any) -> Numbers:
    middle, end = q[0] + h * 0.5 * w[0], q[0] + h * w[0]  # as they are rounded
    g = _planar_linear(middle - q[0], h, p, force, ops)
    moment = force[0] + g[0] * w[2] - g[1] * w[1]
    carried = plane_turn(q[0] - end, p[1:], ops)
    push = plane_turn(middle - end, force[1:], ops)
    return (p[0] + h * moment, *_plus(carried, h, push))


# ---- joints with q̇ = v ---------------------------------------------------------------------------


def _flat_euler(q: Numbers, v: Numbers, vdot: Numbers, h: Any, ops: Any) -> Any:
    new = _plus(v, h, vdot)
    return _plus(q, h, new), new


FLAT = JointStep(
    _flat_euler,
    lambda q, w, h, ops: _plus(q, h * 0.5, w),
    lambda q, w, h, ops: _plus(q, h, w),
    lambda w, h, p, force, now, ops: _plus(p, h * 0.5, force),
    lambda q, w, h, p, force, ops: _plus(p, h, force),
)
JOINT_STEPS: dict[str, JointStep] = {
    "spherical": JointStep(
        _turn_euler,
        lambda q, w, h, ops: turn(q, _times(h * 0.5, w), ops),
        lambda q, w, h, ops: turn(q, _times(h, w), ops),
        _turn_wanted,
        _turn_after,
    ),
    "free": JointStep(_free_euler, _free_middle, _free_end, _free_wanted, _free_after),
    "planar": JointStep(_planar_euler, _planar_middle, _planar_end, _planar_wanted, _planar_after),
}


# ---- all joints of a model ----------------------------------------------------------------------


@final
class JointSteps:
    """The formulas for whole states (..., nq) and (..., nv)."""

    def __init__(self, chart: Chart) -> None:
        self._chart = chart

    def euler(self, q: Array, v: Array, vdot: Array, h: float) -> tuple[Array, Array]:
        """q⁺ and v⁺ of the semi-implicit step."""
        v1 = v + h * vdot
        q1 = self._flat(q, h, v1)
        for kind, at, to, x, ops in self._parts((q, v, vdot), 1):
            new_q, new_v = JOINT_STEPS[kind].euler(x[0], x[1], x[2], h, ops)
            put(q1, at, new_q)
            put(v1, to, new_v)
        return q1, v1

    def middle(self, q: Array, w: Array, h: float) -> Array:
        """The configuration at the middle of a step with the rates w."""
        return self._place("middle", q, w, h, 0.5 * h)

    def end(self, q: Array, w: Array, h: float) -> Array:
        """The configuration at the end of a step with the rates w at its middle."""
        return self._place("end", q, w, h, h)

    def wanted(self, w: Array, h: float, p: Array, force: Array, now: Array) -> Array:
        """What momenta `now` at the middle ought to be, after p and with the forces there."""
        out = p + 0.5 * h * force
        for kind, _, to, x, ops in self._parts((w, p, force, now), 0):
            put(out, to, JOINT_STEPS[kind].wanted(x[0], h, x[1], x[2], x[3], ops))
        return out

    def after(self, q: Array, w: Array, h: float, p: Array, force: Array) -> Array:
        """Momenta after the step from q."""
        out = p + h * force
        for kind, _, to, x, ops in self._parts((q, w, p, force), 1):
            put(out, to, JOINT_STEPS[kind].after(x[0], x[1], h, x[2], x[3], ops))
        return out

    def _place(self, name: str, q: Array, w: Array, h: float, part: float) -> Array:
        out = self._flat(q, part, w)
        for kind, at, _, x, ops in self._parts((q, w), 1):
            put(out, at, getattr(JOINT_STEPS[kind], name)(*x, h, ops))
        return out

    def _flat(self, q: Array, h: float, v: Array) -> Array:
        chart = self._chart
        out = np.array(
            np.broadcast_to(q, (*np.broadcast_shapes(q.shape[:-1], v.shape[:-1]), chart.nq))
        )
        out[..., chart.flat_q] += h * v[..., chart.flat_v]
        return out

    def _parts(
        self, arrays: tuple[Array, ...], places: int
    ) -> Iterator[tuple[str, Any, Any, list[Numbers], Any]]:
        """Curved joints: kind, where in q and v, the numbers in the arrays, and how to compute.

        The first `places` arrays have the layout of q.
        """
        single = all(x.ndim == 1 for x in arrays)
        where: Iterable[tuple[str, Any, Any]] = self._chart.curved_places
        if not single:
            where = self._chart.columns()
        for kind, at, to in where:
            sizes = SIZES[kind]
            found: list[Numbers] = []
            for k, x in enumerate(arrays):
                first, count = (at, sizes[0]) if k < places else (to, sizes[1])
                found.append(x[first : first + count].tolist() if single else pick(x, first, count))
            yield kind, at, to, found, FLOATS if single else ARRAYS
