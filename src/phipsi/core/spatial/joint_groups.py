"""The groups that joints move on: ℝⁿ, SO(3), SE(2) and SE(3), each formula once.

A configuration of a joint is q (nq numbers), a change of it is a vector z (nv numbers) in the
directions of the rates v, and moving along z for unit time is q ∘ exp(z). Rates are in body axes.
All formulas are generic over the kind of number (`exponential_coefficients.py`): sequences of
components in, sequences of components out.

What stays constant in flight is a velocity in the axes of the parent, so the steps of integrators
that work with rates and momenta take a free joint for a rotation and a translation of its own,
x⁺ = x + h R u, and not for a screw motion along which R u turns. A body that nothing acts on then
flies straight, and its spin does not know how fast it flies:

    semi-implicit   ω⁺ = ω + h ω̇,   s = u + h (u̇ + ω × u),   R⁺ = R exp(h ω⁺),   x⁺ = x + h R s,
                    u⁺ = exp(−h ω⁺) s
    variational     R_m = R exp(h ω/2),   R⁺ = R exp(h ω),   x⁺ = x + h R_m u          (w = [ω; u])
                    g = exp(−h ω/2) f + h/2 λ_x                    the linear momentum at the middle
                    n_m = dexp(−h ω)* n + h/2 dexp(−h ω/2)* (λ_ω + g × u)
                    n⁺ = exp(−h ω) n + h exp(−h ω/2) (λ_ω + g × u),   f⁺ the same without g × u

In the equation for w, g × u is computed with the linear momentum μ that belongs to w: then it does
not grow with the speed of flight, and the iteration converges for a body that flies fast and turns
slowly. In p⁺ it is computed with g itself, which keeps the angular momentum whatever w is. This is
for a momentum [n; f] and a force [λ_ω; λ_x], exp and dexp those of the rotation.

**Source:** Hairer, Lubich and Wanner 2006, IV.7–8.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from phipsi.core.spatial.exponential_coefficients import cot_gap, screw_gaps
from phipsi.core.spatial.number_kinds import ARRAYS, FLOATS
from phipsi.core.spatial.rotation_groups import (
    PLANE,
    SPACE,
    Numbers,
    Rotation,
    add,
    cross,
    plus,
    powers,
    times,
)
from phipsi.core.spatial.vectors import Array, numbers


def _screw_ad(w: Numbers, u: Numbers, m: Numbers, f: Numbers) -> tuple[Numbers, Numbers]:
    """crm([w; u]) [m; f]."""
    g, h = cross(u, m), cross(w, f)
    return cross(w, m), (g[0] + h[0], g[1] + h[1], g[2] + h[2])


def on_arrays(formula: Callable[..., Numbers], *arrays: Array) -> Array:
    """A formula of components on arrays (..., n); single vectors in floats, which is faster."""
    if all(x.ndim == 1 and not hasattr(x, "is_traced") for x in arrays):
        try:
            return np.array(formula(*(x.tolist() for x in arrays), FLOATS))
        except ZeroDivisionError:  # a quaternion of zeros: NaN, as arrays have it
            pass
    parts = ([x[..., i] for i in range(x.shape[-1])] for x in arrays)
    return np.stack(np.broadcast_arrays(*formula(*parts, ARRAYS)), axis=-1)


class LieGroup(ABC):
    """What a joint moves on; see the module. `h` is the length of a step.

    **Attributes:** `nq`, `nv`; `rotation`, None for ℝⁿ; `space`, how many translations come after
    it; `neutral` q.
    """

    nq: int
    nv: int
    space: int
    rotation: Rotation | None
    neutral: tuple[float, ...]

    @property
    def is_flat(self) -> bool:
        """Whether q̇ = v: moving is adding."""
        return self.rotation is None

    @property
    def own_places(self) -> tuple[int, ...]:
        """Without rotations: which coordinates the rates are the derivatives of."""
        return tuple(range(self.nv))

    def lift(self, q: Numbers, g: Numbers) -> Numbers | None:
        """Weights w of q with T* w = g, T = ∂(q ∘ exp z)/∂z; None for T (T*T)⁻¹ g."""
        return None

    @abstractmethod
    def move(self, q: Numbers, z: Numbers, ops: Any) -> Numbers:
        """q ∘ exp(z)."""

    @abstractmethod
    def moved(self, q: Numbers, z: Numbers, ops: Any) -> Numbers:
        """The same for quaternions of any length, with ``ops.scaled``."""

    @abstractmethod
    def rate(self, z: Numbers, v: Numbers, ops: Any) -> Numbers:
        """ż = dexp⁻¹(z) v, when q ∘ exp(z) moves with v."""

    @abstractmethod
    def bracket(self, z: Numbers, v: Numbers) -> Numbers:
        """ad(z) v."""

    @abstractmethod
    def integrate(self, q: ArrayLike, dv: ArrayLike) -> Array:
        """q ∘ exp(dv) (..., nq), for quaternions of any length."""

    @abstractmethod
    def difference(self, q0: ArrayLike, q1: ArrayLike) -> Array:
        """The shortest z (..., nv) with q0 ∘ exp(z) = q1."""

    @abstractmethod
    def log(self, q0: Numbers, q1: Numbers, ops: Any) -> Numbers:
        """The same for any kind of number, with unit quaternions; needs ``ops.arctan2``."""

    @abstractmethod
    def pushed(self, v: Numbers, vdot: Numbers, h: Any) -> Numbers:
        """The rates after h in the axes at its start, which do not turn with the body."""

    @abstractmethod
    def euler(
        self, q: Numbers, v: Numbers, vdot: Numbers, h: Any, ops: Any
    ) -> tuple[Numbers, Numbers]:
        """q⁺ and v⁺ of the semi-implicit step."""

    @abstractmethod
    def placed(
        self, q: Numbers, v: Numbers, vdot: Numbers, mean: Numbers, h: Any, ops: Any
    ) -> tuple[Numbers, Numbers]:
        """The same where q moves with the rates `mean`, in the axes at the start of the step."""

    @abstractmethod
    def middle(self, q: Numbers, w: Numbers, h: Any, ops: Any) -> Numbers:
        """The configuration at the middle of a step with the rates w."""

    @abstractmethod
    def end(self, q: Numbers, w: Numbers, h: Any, ops: Any) -> Numbers:
        """The configuration at the end of a step with the rates w at its middle."""

    @abstractmethod
    def wanted(
        self, w: Numbers, h: Any, p: Numbers, force: Numbers, now: Numbers, ops: Any
    ) -> Numbers:
        """The momenta at the middle that follow from p and the forces; `now` are those of w."""

    @abstractmethod
    def after(
        self, q: Numbers, w: Numbers, h: Any, p: Numbers, force: Numbers, ops: Any
    ) -> Numbers:
        """Momenta after the step from q."""


@final
class _Flat(LieGroup):
    """ℝⁿ: joints with q̇ = v."""

    rotation = None

    def __init__(self, n: int) -> None:
        self.nq = self.nv = self.space = n
        self.neutral = (0.0,) * n

    def move(self, q: Numbers, z: Numbers, ops: Any) -> Numbers:
        return add(q, z)

    moved = move

    def rate(self, z: Numbers, v: Numbers, ops: Any) -> Numbers:
        return v

    def bracket(self, z: Numbers, v: Numbers) -> Numbers:
        return (0.0,) * self.nv

    def integrate(self, q: ArrayLike, dv: ArrayLike) -> Array:
        return np.asarray(q, dtype=np.float64) + np.asarray(dv, dtype=np.float64)

    def difference(self, q0: ArrayLike, q1: ArrayLike) -> Array:
        """Angles are not wrapped: turns count."""
        return np.asarray(q1, dtype=np.float64) - np.asarray(q0, dtype=np.float64)

    def log(self, q0: Numbers, q1: Numbers, ops: Any) -> Numbers:
        return tuple(b - a for a, b in zip(q0, q1, strict=True))

    def pushed(self, v: Numbers, vdot: Numbers, h: Any) -> Numbers:
        return plus(v, h, vdot)

    def euler(
        self, q: Numbers, v: Numbers, vdot: Numbers, h: Any, ops: Any
    ) -> tuple[Numbers, Numbers]:
        new = self.pushed(v, vdot, h)
        return plus(q, h, new), new

    def placed(
        self, q: Numbers, v: Numbers, vdot: Numbers, mean: Numbers, h: Any, ops: Any
    ) -> tuple[Numbers, Numbers]:
        return plus(q, h, mean), self.pushed(v, vdot, h)

    def middle(self, q: Numbers, w: Numbers, h: Any, ops: Any) -> Numbers:
        return plus(q, h * 0.5, w)

    def end(self, q: Numbers, w: Numbers, h: Any, ops: Any) -> Numbers:
        return plus(q, h, w)

    def wanted(
        self, w: Numbers, h: Any, p: Numbers, force: Numbers, now: Numbers, ops: Any
    ) -> Numbers:
        return plus(p, h * 0.5, force)

    def after(
        self, q: Numbers, w: Numbers, h: Any, p: Numbers, force: Numbers, ops: Any
    ) -> Numbers:
        return plus(p, h, force)


@final
class _RigidMotions(LieGroup):
    """Rotations, with the translations of their space or without: SO(3), SE(2), SE(3).

    q = [r, x] with x in inboard axes, v = [ω, u] in body axes.
    """

    def __init__(self, rotation: Rotation, *, translates: bool) -> None:
        self.rotation = self._rotation = rotation
        self.space = rotation.space if translates else 0
        self.nq, self.nv = rotation.size + self.space, rotation.rates + self.space
        self.neutral = (*rotation.neutral, *(0.0,) * self.space)

    def _places(self, q: Numbers) -> tuple[Numbers, Numbers]:
        n = self._rotation.size
        return q[:n], q[n:]

    def _rates(self, v: Numbers) -> tuple[Numbers, Numbers]:
        n = self._rotation.rates
        return v[:n], v[n:]

    def move(self, q: Numbers, z: Numbers, ops: Any) -> Numbers:
        rotation, n, m = self._rotation, self._rotation.size, self._rotation.rates
        r, w = q[:n], z[:m]
        turned = rotation.turn(r, w, ops)
        if not self.space:
            return turned
        return (
            *turned,
            *add(q[n:], rotation.apply(r, rotation.left_jacobian_times(w, z[m:], ops), ops)),
        )

    def moved(self, q: Numbers, z: Numbers, ops: Any) -> Numbers:
        r, x = self._places(q)
        return self.move((*self._rotation.scaled_numbers(r, ops), *x), z, ops)

    def rate(self, z: Numbers, v: Numbers, ops: Any) -> Numbers:
        rotation, n = self._rotation, self._rotation.rates
        w, u, omega, nu = z[:n], z[n:], v[:n], v[n:]
        if not self.space:
            return rotation.rate(w, omega, ops)
        s = rotation.square(w)
        m1, f1 = self._ad(w, u, omega, nu)
        if rotation.rates == 1:  # ad³ = −s ad, and turns stay as they are
            return (*omega, *powers(nu, 0.5, f1, cot_gap(s, ops), rotation.spin(w, f1)))
        b, c = screw_gaps(s, ops)
        m2, f2 = _screw_ad(w, u, m1, f1)
        m4, f4 = _screw_ad(w, u, *_screw_ad(w, u, m2, f2))
        return (
            omega[0] + 0.5 * m1[0] + b * m2[0] + c * m4[0],
            omega[1] + 0.5 * m1[1] + b * m2[1] + c * m4[1],
            omega[2] + 0.5 * m1[2] + b * m2[2] + c * m4[2],
            nu[0] + 0.5 * f1[0] + b * f2[0] + c * f4[0],
            nu[1] + 0.5 * f1[1] + b * f2[1] + c * f4[1],
            nu[2] + 0.5 * f1[2] + b * f2[2] + c * f4[2],
        )

    def bracket(self, z: Numbers, v: Numbers) -> Numbers:
        if not self.space:
            return self._rotation.bracket(z, v)
        angular, linear = self._ad(*self._rates(z), *self._rates(v))
        return (*angular, *linear)

    def _ad(self, w: Numbers, u: Numbers, m: Numbers, f: Numbers) -> tuple[Numbers, Numbers]:
        """ad([w; u]) [m; f] = [w × m; w × f − m × u]."""
        if len(m) == 3:
            return _screw_ad(w, u, m, f)
        g, h = self._rotation.spin(w, f), self._rotation.spin(m, u)
        return self._rotation.bracket(w, m), (g[0] - h[0], g[1] - h[1])

    def integrate(self, q: ArrayLike, dv: ArrayLike) -> Array:
        start, step = np.asarray(q, dtype=np.float64), np.asarray(dv, dtype=np.float64)
        r, x = start[..., : self._rotation.size], start[..., self._rotation.size :]
        return on_arrays(self.move, np.concatenate([self._rotation.scaled(r), x], axis=-1), step)

    def difference(self, q0: ArrayLike, q1: ArrayLike) -> Array:
        a, b = numbers(q0), numbers(q1)
        n, rotation = self._rotation.size, self._rotation
        w = rotation.log(a[..., :n], b[..., :n])
        if not self.space:
            return w

        def way(r: Numbers, d: Numbers, w: Numbers, ops: Any) -> Numbers:
            return rotation.inverse_left_jacobian_times(
                w, rotation.apply(rotation.inverse(r), d, ops), ops
            )

        u = on_arrays(way, rotation.scaled(a[..., :n]), b[..., n:] - a[..., n:], w)
        return np.concatenate([np.broadcast_to(w, (*u.shape[:-1], w.shape[-1])), u], axis=-1)

    def log(self, q0: Numbers, q1: Numbers, ops: Any) -> Numbers:
        rotation = self._rotation
        (r0, x0), (r1, x1) = self._places(q0), self._places(q1)
        w = rotation.log_of_numbers(r0, r1, ops)
        if not self.space:
            return w
        shift = [b - a for a, b in zip(x0, x1, strict=True)]
        return (
            *w,
            *rotation.inverse_left_jacobian_times(
                w, rotation.apply(rotation.inverse(r0), shift, ops), ops
            ),
        )

    def pushed(self, v: Numbers, vdot: Numbers, h: Any) -> Numbers:
        (omega, u), (change, push) = self._rates(v), self._rates(vdot)
        spin = plus(omega, h, change)
        if not self.space:
            return spin
        return (*spin, *plus(u, h, add(push, self._rotation.spin(omega, u))))

    def euler(
        self, q: Numbers, v: Numbers, vdot: Numbers, h: Any, ops: Any
    ) -> tuple[Numbers, Numbers]:
        return self.placed(q, v, vdot, self.pushed(v, vdot, h), h, ops)

    def placed(
        self, q: Numbers, v: Numbers, vdot: Numbers, mean: Numbers, h: Any, ops: Any
    ) -> tuple[Numbers, Numbers]:
        rotation, (r, x) = self._rotation, self._places(q)
        (spin, s), (turn, way) = self._rates(self.pushed(v, vdot, h)), self._rates(mean)
        turned = rotation.turn(r, times(h, turn), ops)
        if not self.space:
            return turned, spin
        place = plus(x, h, rotation.apply(r, way, ops))
        by = rotation.between(r, turn, 0, h)
        return (*turned, *place), (*spin, *rotation.back(by, s, ops))

    def middle(self, q: Numbers, w: Numbers, h: Any, ops: Any) -> Numbers:
        return self._halfway(q, w, h * 0.5, h * 0.5, ops)

    def end(self, q: Numbers, w: Numbers, h: Any, ops: Any) -> Numbers:
        turned = self._rotation.turn(self._places(q)[0], times(h, self._rates(w)[0]), ops)
        return (*turned, *self._halfway(q, w, h * 0.5, h, ops)[self._rotation.size :])

    def _halfway(self, q: Numbers, w: Numbers, half: Any, h: Any, ops: Any) -> Numbers:
        """The rotation at the middle, and the place after h along the rates there."""
        (r, x), (omega, u) = self._places(q), self._rates(w)
        between = self._rotation.turn(r, times(half, omega), ops)
        if not self.space:
            return between
        return (*between, *plus(x, h, self._rotation.apply(between, u, ops)))

    def wanted(
        self, w: Numbers, h: Any, p: Numbers, force: Numbers, now: Numbers, ops: Any
    ) -> Numbers:
        rotation, half = self._rotation, h * 0.5
        (omega, u), (n, f), (moment, push) = (self._rates(x) for x in (w, p, force))
        if self.space:
            moment = add(moment, rotation.moment(self._rates(now)[1], u))
        by = times(half, omega)
        carried = rotation.pull(times(h, omega), n, ops)
        angular = plus(carried, half, rotation.pull(by, moment, ops))
        if not self.space:
            return angular
        return (*angular, *plus(rotation.back(by, f, ops), half, push))

    def after(
        self, q: Numbers, w: Numbers, h: Any, p: Numbers, force: Numbers, ops: Any
    ) -> Numbers:
        rotation, half, r = self._rotation, h * 0.5, self._places(q)[0]
        (omega, u), (n, f), (moment, push) = (self._rates(x) for x in (w, p, force))
        whole, second = rotation.between(r, omega, 0, h), rotation.between(r, omega, half, h)
        if self.space:
            first = rotation.between(r, omega, 0, half)
            momentum = plus(rotation.back(first, f, ops), half, push)
            moment = add(moment, rotation.moment(momentum, u))
        turned = rotation.back_moment(whole, n, ops)
        angular = plus(turned, h, rotation.back_moment(second, moment, ops))
        if not self.space:
            return angular
        return (*angular, *plus(rotation.back(whole, f, ops), h, rotation.back(second, push, ops)))


SO3: LieGroup = _RigidMotions(SPACE, translates=False)
SE3: LieGroup = _RigidMotions(SPACE, translates=True)
SE2: LieGroup = _RigidMotions(PLANE, translates=True)


@cache
def flat(n: int) -> LieGroup:
    """ℝⁿ."""
    return _Flat(n)
