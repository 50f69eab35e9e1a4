"""Rotations of space and of the plane, SO(3) and SO(2): the part of a group that turns.

Formulas are generic over the kind of number (`exponential_coefficients.py`): sequences of
components in, sequences of components out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from phipsi.core.spatial.exponential_coefficients import cot_gap, sinc, sine_gap, versine
from phipsi.core.spatial.quaternions import (
    left_jacobian,
    log_of_quaternion,
    quat_conjugate,
    quat_log,
    quat_multiply,
    quat_scaled,
    quaternion_of,
    so3_exp,
)
from phipsi.core.spatial.vectors import Array, skew

Numbers = Sequence[Any]

# Three components are written out: a single joint in floats is what `simulate` spends its time on.


def times(h: Any, x: Numbers) -> Numbers:
    """h x."""
    return [h * i for i in x]


def add(x: Numbers, y: Numbers) -> Numbers:
    """x + y."""
    if len(x) == 3:
        return x[0] + y[0], x[1] + y[1], x[2] + y[2]
    return [i + j for i, j in zip(x, y, strict=True)]


def plus(x: Numbers, h: Any, y: Numbers) -> Numbers:
    """x + h y."""
    if len(x) == 3:
        return x[0] + h * y[0], x[1] + h * y[1], x[2] + h * y[2]
    return [i + h * j for i, j in zip(x, y, strict=True)]


def powers(x: Numbers, a: Any, y: Numbers, b: Any, z: Numbers) -> Numbers:
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
    def log_of_numbers(self, r0: Numbers, r1: Numbers, ops: Any) -> Numbers:
        """The same for any kind of number; needs ``ops.arctan2``."""

    @abstractmethod
    def back_matrices(self, w: Array) -> tuple[Array, Array, Array]:
        """The matrices of `back_moment`, `pull` and `back` at rotation vectors (..., rates)."""

    @abstractmethod
    def spin_matrices(self, w: Array, x: Array) -> tuple[Array, Array]:
        """The matrices of w ×, (..., space, space), and of x ×, (..., space, rates)."""

    @abstractmethod
    def scaled(self, r: Array) -> Array:
        """Coordinates (..., size) whose products keep their digits."""

    @abstractmethod
    def scaled_numbers(self, r: Numbers, ops: Any) -> Numbers:
        """The same of numbers, with ``ops.scaled``."""

    def back(self, w: Numbers, x: Numbers, ops: Any) -> Numbers:
        """exp(−w) x: a vector that stays where it is, in axes that have turned by w."""
        s, once = self.square(w), self.spin(w, x)
        return powers(x, -sinc(s, ops), once, versine(s, ops), self.spin(w, once))

    def left_jacobian_times(self, w: Numbers, u: Numbers, ops: Any) -> Numbers:
        """∫₀¹ exp(s w) ds u: displacement by a screw motion, in the axes before it."""
        s, once = self.square(w), self.spin(w, u)
        return powers(u, versine(s, ops), once, sine_gap(s, ops), self.spin(w, once))

    def inverse_left_jacobian_times(self, w: Numbers, p: Numbers, ops: Any) -> Numbers:
        """The inverse of `left_jacobian_times`, for angles below 2π."""
        once = self.spin(w, p)
        return powers(p, -0.5, once, cot_gap(self.square(w), ops), self.spin(w, once))


@final
class _SpatialRotation(Rotation):
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
        c, a, b, d = r
        e, k = (a, b, d), 2 / (c * c + (a * a + b * b + d * d))
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
        return powers(omega, 0.5, once, cot_gap(self.square(w), ops), cross(w, once))

    def back_moment(self, w: Numbers, n: Numbers, ops: Any) -> Numbers:
        return self.back(w, n, ops)

    def pull(self, w: Numbers, n: Numbers, ops: Any) -> Numbers:
        """n − a w × n + b w × (w × n)."""
        return self.left_jacobian_times([-x for x in w], n, ops)

    def between(self, r: Numbers, w: Numbers, a: Any, b: Any) -> Numbers:
        return times(b if type(a) is int else b - a, w)

    def log(self, r0: Array, r1: Array) -> Array:
        return quat_log(quat_multiply(quat_conjugate(quat_scaled(r0)), quat_scaled(r1)))

    def log_of_numbers(self, r0: Numbers, r1: Numbers, ops: Any) -> Numbers:
        """Of unit quaternions."""
        (a, b), e, f = (r0[0], r1[0]), r0[1:], r1[1:]
        across = cross(e, f)
        axis = [a * f[i] - b * e[i] - across[i] for i in range(3)]
        return log_of_quaternion(a * b + e[0] * f[0] + e[1] * f[1] + e[2] * f[2], axis, ops)

    def back_matrices(self, w: Array) -> tuple[Array, Array, Array]:
        back = so3_exp(-w)
        return back, left_jacobian(-w), back

    def spin_matrices(self, w: Array, x: Array) -> tuple[Array, Array]:
        return skew(w), skew(x)

    def scaled(self, r: Array) -> Array:
        return quat_scaled(r)

    def scaled_numbers(self, r: Numbers, ops: Any) -> Numbers:
        return ops.scaled(r)


_QUARTER = np.array([[0.0, -1.0], [1.0, 0.0]])  # of a turn


@final
class _PlanarRotation(Rotation):
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

    def left_jacobian_times(self, w: Numbers, u: Numbers, ops: Any) -> Numbers:
        s = self.square(w)
        along, across = sinc(s, ops), w[0] * versine(s, ops)
        return along * u[0] - across * u[1], across * u[0] + along * u[1]

    def log(self, r0: Array, r1: Array) -> Array:
        turn = r1 - r0
        return turn - 2 * np.pi * np.rint(turn / (2 * np.pi))

    def log_of_numbers(self, r0: Numbers, r1: Numbers, ops: Any) -> Numbers:
        turn = r1[0] - r0[0]
        return (ops.arctan2(ops.sin(turn), ops.cos(turn)),)

    def back_matrices(self, w: Array) -> tuple[Array, Array, Array]:
        one, angle = np.ones((*w.shape, 1)), w[..., None]
        return one, one, np.cos(angle) * np.eye(2) - np.sin(angle) * _QUARTER

    def spin_matrices(self, w: Array, x: Array) -> tuple[Array, Array]:
        return w[..., None] * _QUARTER, -(_QUARTER @ x[..., None])

    def scaled(self, r: Array) -> Array:
        return r

    def scaled_numbers(self, r: Numbers, ops: Any) -> Numbers:
        return r


SPACE: Rotation = _SpatialRotation()
PLANE: Rotation = _PlanarRotation()
