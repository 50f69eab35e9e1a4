"""The groups that joints move on: ℝⁿ, SO(3), SE(2) and SE(3), each formula once.

A configuration of a joint is q (nq numbers), a change of it is a vector z (nv numbers) in the
directions of the rates v, and moving along z for unit time is q ∘ exp(z). Rates are in body axes.
All formulas are generic over the kind of number (`exponential.py`): sequences of components in,
sequences of components out.

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
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from phipsi.spatial.exponential import (
    ARRAYS,
    FLOATS,
    cot_gap,
    screw_gaps,
    sinc,
    sine_gap,
    versine,
)
from phipsi.spatial.quaternions import (
    left_jacobian,
    quat_conjugate,
    quat_log,
    quat_multiply,
    quat_scaled,
    quaternion_of,
    so3_exp,
)
from phipsi.spatial.vectors import Array, skew

Numbers = Sequence[Any]


# Three components are written out: a single joint in floats is what `simulate` spends its time on.


def _times(h: Any, x: Numbers) -> Numbers:
    return [h * i for i in x]


def _sum(x: Numbers, y: Numbers) -> Numbers:
    if len(x) == 3:
        return x[0] + y[0], x[1] + y[1], x[2] + y[2]
    return [i + j for i, j in zip(x, y, strict=True)]


def _plus(x: Numbers, h: Any, y: Numbers) -> Numbers:
    if len(x) == 3:
        return x[0] + h * y[0], x[1] + h * y[1], x[2] + h * y[2]
    return [i + h * j for i, j in zip(x, y, strict=True)]


def _powers(x: Numbers, a: Any, y: Numbers, b: Any, z: Numbers) -> Numbers:
    """x + a y + b z."""
    if len(x) == 3:
        return (
            x[0] + a * y[0] + b * z[0],
            x[1] + a * y[1] + b * z[1],
            x[2] + a * y[2] + b * z[2],
        )
    return x[0] + a * y[0] + b * z[0], x[1] + a * y[1] + b * z[1]


def cross(a: Numbers, b: Numbers) -> tuple[Any, Any, Any]:
    """A vector product."""
    a0, a1, a2 = a
    b0, b1, b2 = b
    return a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0


def _screw_ad(w: Numbers, u: Numbers, m: Numbers, f: Numbers) -> tuple[Numbers, Numbers]:
    """crm([w; u]) [m; f]."""
    g, h = cross(u, m), cross(w, f)
    return cross(w, m), (g[0] + h[0], g[1] + h[1], g[2] + h[2])


def on_arrays(formula: Callable[..., Numbers], *arrays: Array) -> Array:
    """A formula of components on arrays (..., n); single vectors in floats, which is faster."""
    if all(x.ndim == 1 for x in arrays):
        try:
            return np.array(formula(*(x.tolist() for x in arrays), FLOATS))
        except ZeroDivisionError:  # a quaternion of zeros: NaN, as arrays have it
            pass
    parts = ([x[..., i] for i in range(x.shape[-1])] for x in arrays)
    return np.stack(np.broadcast_arrays(*formula(*parts, ARRAYS)), axis=-1)


# ---- rotations ----------------------------------------------------------------------------------


class Rotation(ABC):
    """Rotations of a space; r are the coordinates, w rotation vectors, x vectors of the space.

    **Attributes:** `size`, numbers in r; `rates`, numbers in w; `space`, numbers in x; `neutral` r.
    """

    size: int
    rates: int
    space: int
    neutral: tuple[float, ...]

    @abstractmethod
    def turn(self, r: Numbers, w: Numbers, ops: Any) -> Numbers:
        """r ∘ exp(w)."""

    @abstractmethod
    def apply(self, r: Numbers, x: Numbers, ops: Any) -> Numbers:
        """R(r) x."""

    @abstractmethod
    def inverse(self, r: Numbers) -> Numbers:
        """The coordinates of R(r)*."""

    @abstractmethod
    def square(self, w: Numbers) -> Any:
        """The square of the angle."""

    @abstractmethod
    def spin(self, w: Numbers, x: Numbers) -> Numbers:
        """w × x."""

    @abstractmethod
    def moment(self, x: Numbers, f: Numbers) -> Numbers:
        """x × f, as the efforts on w."""

    @abstractmethod
    def bracket(self, w: Numbers, omega: Numbers) -> Numbers:
        """The bracket of the algebra."""

    @abstractmethod
    def rate(self, w: Numbers, omega: Numbers, ops: Any) -> Numbers:
        """Rate of w when r ∘ exp(w) turns with ω."""

    @abstractmethod
    def back_moment(self, w: Numbers, n: Numbers, ops: Any) -> Numbers:
        """`back` for rates and moments."""

    @abstractmethod
    def pull(self, w: Numbers, n: Numbers, ops: Any) -> Numbers:
        """dexp(−w)* n; its matrix is also that of the right Jacobian, δw → change of r ∘ exp(w)."""

    @abstractmethod
    def between(self, r: Numbers, w: Numbers, a: Any, b: Any) -> Numbers:
        """The rotation from r ∘ exp(a w) to r ∘ exp(b w), as they are rounded."""

    @abstractmethod
    def log(self, r0: Array, r1: Array) -> Array:
        """The shortest rotation vectors (..., rates) from r0 to r1, arrays (..., size)."""

    @abstractmethod
    def back_matrices(self, w: Array) -> tuple[Array, Array, Array]:
        """The matrices of `back_moment`, `pull` and `back` at rotation vectors (..., rates)."""

    @abstractmethod
    def spin_matrices(self, w: Array, x: Array) -> tuple[Array, Array]:
        """The matrices of w ×, (..., space, space), and of x ×, (..., space, rates)."""

    @abstractmethod
    def scaled(self, r: Array) -> Array:
        """Coordinates (..., size) whose products keep their digits."""

    def back(self, w: Numbers, x: Numbers, ops: Any) -> Numbers:
        """exp(−w) x: a vector that stays where it is, in axes that have turned by w."""
        s, once = self.square(w), self.spin(w, x)
        return _powers(x, -sinc(s, ops), once, versine(s, ops), self.spin(w, once))

    def way(self, w: Numbers, u: Numbers, ops: Any) -> Numbers:
        """∫₀¹ exp(s w) ds u: displacement by a screw motion, in the axes before it."""
        s, once = self.square(w), self.spin(w, u)
        return _powers(u, versine(s, ops), once, sine_gap(s, ops), self.spin(w, once))

    def unway(self, w: Numbers, p: Numbers, ops: Any) -> Numbers:
        """The inverse of `way`, for angles below 2π."""
        once = self.spin(w, p)
        return _powers(p, -0.5, once, cot_gap(self.square(w), ops), self.spin(w, once))


@final
class _Space(Rotation):
    """SO(3), in unit quaternions (w, x, y, z)."""

    size, rates, space, neutral = 4, 3, 3, (1.0, 0.0, 0.0, 0.0)

    def turn(self, r: Numbers, w: Numbers, ops: Any) -> Numbers:
        """The division removes what rounding left of the length."""
        c, x, y, z = quaternion_of(w, ops)
        a0, a1, a2, a3 = r
        p0 = a0 * c - a1 * x - a2 * y - a3 * z
        p1 = a0 * x + a1 * c + a2 * z - a3 * y
        p2 = a0 * y - a1 * z + a2 * c + a3 * x
        p3 = a0 * z + a1 * y - a2 * x + a3 * c
        scale = 1 / ops.sqrt(p0 * p0 + p1 * p1 + p2 * p2 + p3 * p3)
        return p0 * scale, p1 * scale, p2 * scale, p3 * scale

    def apply(self, r: Numbers, x: Numbers, ops: Any) -> Numbers:
        """x + 2/(q·q) (q0 (e × x) + e × (e × x)), e the vector part."""
        c, e = r[0], r[1:]
        k = 2 / (c * c + self.square(e))
        once = cross(e, x)
        twice = cross(e, once)
        return (
            x[0] + k * (c * once[0] + twice[0]),
            x[1] + k * (c * once[1] + twice[1]),
            x[2] + k * (c * once[2] + twice[2]),
        )

    def inverse(self, r: Numbers) -> Numbers:
        return r[0], -r[1], -r[2], -r[3]

    def square(self, w: Numbers) -> Any:
        return w[0] * w[0] + w[1] * w[1] + w[2] * w[2]

    def spin(self, w: Numbers, x: Numbers) -> Numbers:
        return cross(w, x)

    def moment(self, x: Numbers, f: Numbers) -> Numbers:
        return cross(x, f)

    def bracket(self, w: Numbers, omega: Numbers) -> Numbers:
        return cross(w, omega)

    def rate(self, w: Numbers, omega: Numbers, ops: Any) -> Numbers:
        """ω + ½ w × ω + κ w × (w × ω)."""
        once = cross(w, omega)
        return _powers(omega, 0.5, once, cot_gap(self.square(w), ops), cross(w, once))

    def back_moment(self, w: Numbers, n: Numbers, ops: Any) -> Numbers:
        return self.back(w, n, ops)

    def pull(self, w: Numbers, n: Numbers, ops: Any) -> Numbers:
        """n − a w × n + b w × (w × n)."""
        return self.way([-x for x in w], n, ops)

    def between(self, r: Numbers, w: Numbers, a: Any, b: Any) -> Numbers:
        return _times(b if type(a) is int else b - a, w)

    def log(self, r0: Array, r1: Array) -> Array:
        return quat_log(quat_multiply(quat_conjugate(quat_scaled(r0)), quat_scaled(r1)))

    def back_matrices(self, w: Array) -> tuple[Array, Array, Array]:
        back = so3_exp(-w)
        return back, left_jacobian(-w), back

    def spin_matrices(self, w: Array, x: Array) -> tuple[Array, Array]:
        return skew(w), skew(x)

    def scaled(self, r: Array) -> Array:
        return quat_scaled(r)


_QUARTER = np.array([[0.0, -1.0], [1.0, 0.0]])  # of a turn


@final
class _Plane(Rotation):
    """SO(2), in angles; full turns count in r but not in `log`."""

    size, rates, space, neutral = 1, 1, 2, (0.0,)

    def turn(self, r: Numbers, w: Numbers, ops: Any) -> Numbers:
        return (r[0] + w[0],)

    def apply(self, r: Numbers, x: Numbers, ops: Any) -> Numbers:
        c, s = ops.cos(r[0]), ops.sin(r[0])
        return c * x[0] - s * x[1], s * x[0] + c * x[1]

    def inverse(self, r: Numbers) -> Numbers:
        return (-r[0],)

    def square(self, w: Numbers) -> Any:
        return w[0] * w[0]

    def spin(self, w: Numbers, x: Numbers) -> Numbers:
        return -(w[0] * x[1]), w[0] * x[0]

    def moment(self, x: Numbers, f: Numbers) -> Numbers:
        return (x[0] * f[1] - x[1] * f[0],)

    def bracket(self, w: Numbers, omega: Numbers) -> Numbers:
        return (0.0,)

    def rate(self, w: Numbers, omega: Numbers, ops: Any) -> Numbers:
        return omega

    def back_moment(self, w: Numbers, n: Numbers, ops: Any) -> Numbers:
        return n

    pull = back_moment

    def between(self, r: Numbers, w: Numbers, a: Any, b: Any) -> Numbers:
        start = r[0] if type(a) is int else r[0] + a * w[0]
        return (r[0] + b * w[0] - start,)

    def way(self, w: Numbers, u: Numbers, ops: Any) -> Numbers:
        s = self.square(w)
        along, across = sinc(s, ops), w[0] * versine(s, ops)
        return along * u[0] - across * u[1], across * u[0] + along * u[1]

    def log(self, r0: Array, r1: Array) -> Array:
        turn = r1 - r0
        return turn - 2 * np.pi * np.rint(turn / (2 * np.pi))

    def back_matrices(self, w: Array) -> tuple[Array, Array, Array]:
        one, angle = np.ones((*w.shape, 1)), w[..., None]
        return one, one, np.cos(angle) * np.eye(2) - np.sin(angle) * _QUARTER

    def spin_matrices(self, w: Array, x: Array) -> tuple[Array, Array]:
        return w[..., None] * _QUARTER, -(_QUARTER @ x[..., None])

    def scaled(self, r: Array) -> Array:
        return r


# ---- groups -------------------------------------------------------------------------------------


class Group(ABC):
    """What a joint moves on; see the module. `h` is the length of a step.

    **Attributes:** `nq`, `nv`; `rotation`, None for ℝⁿ; `space`, how many translations come after
    it; `neutral` q.
    """

    nq: int
    nv: int
    space: int
    rotation: Rotation | None
    neutral: tuple[float, ...]

    @abstractmethod
    def move(self, q: Numbers, z: Numbers, ops: Any) -> Numbers:
        """q ∘ exp(z)."""

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
    def euler(
        self, q: Numbers, v: Numbers, vdot: Numbers, h: Any, ops: Any
    ) -> tuple[Numbers, Numbers]:
        """q⁺ and v⁺ of the semi-implicit step."""

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
        """What momenta `now` at the middle ought to be, after p and with the forces there."""

    @abstractmethod
    def after(
        self, q: Numbers, w: Numbers, h: Any, p: Numbers, force: Numbers, ops: Any
    ) -> Numbers:
        """Momenta after the step from q."""


@final
class _Flat(Group):
    """ℝⁿ: joints with q̇ = v."""

    rotation = None

    def __init__(self, n: int) -> None:
        self.nq = self.nv = self.space = n
        self.neutral = (0.0,) * n

    def move(self, q: Numbers, z: Numbers, ops: Any) -> Numbers:
        return _sum(q, z)

    def rate(self, z: Numbers, v: Numbers, ops: Any) -> Numbers:
        return v

    def bracket(self, z: Numbers, v: Numbers) -> Numbers:
        return (0.0,) * self.nv

    def integrate(self, q: ArrayLike, dv: ArrayLike) -> Array:
        return np.asarray(q, dtype=np.float64) + np.asarray(dv, dtype=np.float64)

    def difference(self, q0: ArrayLike, q1: ArrayLike) -> Array:
        """Angles are not wrapped: turns count."""
        return np.asarray(q1, dtype=np.float64) - np.asarray(q0, dtype=np.float64)

    def euler(
        self, q: Numbers, v: Numbers, vdot: Numbers, h: Any, ops: Any
    ) -> tuple[Numbers, Numbers]:
        new = _plus(v, h, vdot)
        return _plus(q, h, new), new

    def middle(self, q: Numbers, w: Numbers, h: Any, ops: Any) -> Numbers:
        return _plus(q, h * 0.5, w)

    def end(self, q: Numbers, w: Numbers, h: Any, ops: Any) -> Numbers:
        return _plus(q, h, w)

    def wanted(
        self, w: Numbers, h: Any, p: Numbers, force: Numbers, now: Numbers, ops: Any
    ) -> Numbers:
        return _plus(p, h * 0.5, force)

    def after(
        self, q: Numbers, w: Numbers, h: Any, p: Numbers, force: Numbers, ops: Any
    ) -> Numbers:
        return _plus(p, h, force)


@final
class _Rigid(Group):
    """Rotations, with the translations of their space or without: SO(3), SE(2), SE(3).

    q = [r, x] with x in inboard axes, v = [ω, u] in body axes.
    """

    rotation: Rotation

    def __init__(self, rotation: Rotation, *, translates: bool) -> None:
        self.rotation = rotation
        self.space = rotation.space if translates else 0
        self.nq, self.nv = rotation.size + self.space, rotation.rates + self.space
        self.neutral = (*rotation.neutral, *(0.0,) * self.space)

    def _places(self, q: Numbers) -> tuple[Numbers, Numbers]:
        n = self.rotation.size
        return q[:n], q[n:]

    def _rates(self, v: Numbers) -> tuple[Numbers, Numbers]:
        n = self.rotation.rates
        return v[:n], v[n:]

    def move(self, q: Numbers, z: Numbers, ops: Any) -> Numbers:
        rotation, (r, x), (w, u) = self.rotation, self._places(q), self._rates(z)
        turned = rotation.turn(r, w, ops)
        if not self.space:
            return turned
        return (*turned, *_sum(x, rotation.apply(r, rotation.way(w, u, ops), ops)))

    def rate(self, z: Numbers, v: Numbers, ops: Any) -> Numbers:
        rotation, (w, u), (omega, nu) = self.rotation, self._rates(z), self._rates(v)
        if not self.space:
            return rotation.rate(w, omega, ops)
        s = rotation.square(w)
        m1, f1 = self._ad(w, u, omega, nu)
        if rotation.rates == 1:  # ad³ = −s ad, and turns stay as they are
            return (*omega, *_powers(nu, 0.5, f1, cot_gap(s, ops), rotation.spin(w, f1)))
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
            return self.rotation.bracket(z, v)
        angular, linear = self._ad(*self._rates(z), *self._rates(v))
        return (*angular, *linear)

    def _ad(self, w: Numbers, u: Numbers, m: Numbers, f: Numbers) -> tuple[Numbers, Numbers]:
        """ad([w; u]) [m; f] = [w × m; w × f − m × u]."""
        if len(m) == 3:
            return _screw_ad(w, u, m, f)
        g, h = self.rotation.spin(w, f), self.rotation.spin(m, u)
        return self.rotation.bracket(w, m), (g[0] - h[0], g[1] - h[1])

    def integrate(self, q: ArrayLike, dv: ArrayLike) -> Array:
        start, step = np.asarray(q, dtype=np.float64), np.asarray(dv, dtype=np.float64)
        r, x = start[..., : self.rotation.size], start[..., self.rotation.size :]
        return on_arrays(self.move, np.concatenate([self.rotation.scaled(r), x], axis=-1), step)

    def difference(self, q0: ArrayLike, q1: ArrayLike) -> Array:
        a, b = np.asarray(q0, dtype=np.float64), np.asarray(q1, dtype=np.float64)
        n, rotation = self.rotation.size, self.rotation
        w = rotation.log(a[..., :n], b[..., :n])
        if not self.space:
            return w

        def way(r: Numbers, d: Numbers, w: Numbers, ops: Any) -> Numbers:
            return rotation.unway(w, rotation.apply(rotation.inverse(r), d, ops), ops)

        u = on_arrays(way, rotation.scaled(a[..., :n]), b[..., n:] - a[..., n:], w)
        return np.concatenate([np.broadcast_to(w, (*u.shape[:-1], w.shape[-1])), u], axis=-1)

    def euler(
        self, q: Numbers, v: Numbers, vdot: Numbers, h: Any, ops: Any
    ) -> tuple[Numbers, Numbers]:
        rotation, (r, x), (omega, u) = self.rotation, self._places(q), self._rates(v)
        change, push = self._rates(vdot)
        spin = _plus(omega, h, change)
        turned = rotation.turn(r, _times(h, spin), ops)
        if not self.space:
            return turned, spin
        s = _plus(u, h, _sum(push, rotation.spin(omega, u)))
        place = _plus(x, h, rotation.apply(r, s, ops))
        by = rotation.between(r, spin, 0, h)
        return (*turned, *place), (*spin, *rotation.back(by, s, ops))

    def middle(self, q: Numbers, w: Numbers, h: Any, ops: Any) -> Numbers:
        return self._halfway(q, w, h * 0.5, h * 0.5, ops)

    def end(self, q: Numbers, w: Numbers, h: Any, ops: Any) -> Numbers:
        turned = self.rotation.turn(self._places(q)[0], _times(h, self._rates(w)[0]), ops)
        return (*turned, *self._halfway(q, w, h * 0.5, h, ops)[self.rotation.size :])

    def _halfway(self, q: Numbers, w: Numbers, half: Any, h: Any, ops: Any) -> Numbers:
        """The rotation at the middle, and the place after h along the rates there."""
        (r, x), (omega, u) = self._places(q), self._rates(w)
        between = self.rotation.turn(r, _times(half, omega), ops)
        if not self.space:
            return between
        return (*between, *_plus(x, h, self.rotation.apply(between, u, ops)))

    def wanted(
        self, w: Numbers, h: Any, p: Numbers, force: Numbers, now: Numbers, ops: Any
    ) -> Numbers:
        rotation, half = self.rotation, h * 0.5
        (omega, u), (n, f), (moment, push) = (self._rates(x) for x in (w, p, force))
        if self.space:
            moment = _sum(moment, rotation.moment(self._rates(now)[1], u))
        by = _times(half, omega)
        carried = rotation.pull(_times(h, omega), n, ops)
        angular = _plus(carried, half, rotation.pull(by, moment, ops))
        if not self.space:
            return angular
        return (*angular, *_plus(rotation.back(by, f, ops), half, push))

    def after(
        self, q: Numbers, w: Numbers, h: Any, p: Numbers, force: Numbers, ops: Any
    ) -> Numbers:
        rotation, half, r = self.rotation, h * 0.5, self._places(q)[0]
        (omega, u), (n, f), (moment, push) = (self._rates(x) for x in (w, p, force))
        whole, second = rotation.between(r, omega, 0, h), rotation.between(r, omega, half, h)
        if self.space:
            first = rotation.between(r, omega, 0, half)
            momentum = _plus(rotation.back(first, f, ops), half, push)
            moment = _sum(moment, rotation.moment(momentum, u))
        turned = rotation.back_moment(whole, n, ops)
        angular = _plus(turned, h, rotation.back_moment(second, moment, ops))
        if not self.space:
            return angular
        return (*angular, *_plus(rotation.back(whole, f, ops), h, rotation.back(second, push, ops)))


SO3: Group = _Rigid(_Space(), translates=False)
SE3: Group = _Rigid(_Space(), translates=True)
SE2: Group = _Rigid(_Plane(), translates=True)


@cache
def flat(n: int) -> Group:
    """ℝⁿ."""
    return _Flat(n)
