"""Joints that move on a group, with rates in body axes: Planar (SE(2)), Spherical, Free.

H* is constant in body axes for all three, so its rate is zero; q̇ = N(q) v is not v.
"""

from __future__ import annotations

from typing import final

import numpy as np
from numpy.typing import ArrayLike

from phipsi.errors import ModelError
from phipsi.model.joint import Columns, FloatArray, Joint, Rotation, unit_axis
from phipsi.model.scalars import (
    Scalar,
    ScalarOps,
    Vector,
    add,
    from_columns,
    identity3,
    matvec,
    mul,
    plus,
    quaternion_rate,
    rotation_about,
    rotation_of_quaternion,
    scale,
    sub,
    zeros,
)
from phipsi.spatial import (
    left_jacobian,
    left_jacobian_inverse,
    quat_conjugate,
    quat_exp,
    quat_log,
    quat_multiply,
    quat_normalize,
    quat_scaled,
    quat_to_matrix,
    se2_exp,
    se2_log,
)

_O3 = (0, 0, 0)
_EPS = float(np.finfo(float).eps)


@final
class Planar(Joint):
    """Motion in the plane of `e1`, `e2`, turning about the normal n = e1 × e2.

    q = [θ (rad), x, y (m)] with R = exp(n~ θ), p = x e1 + y e2; v = [ω, v1, v2] in body axes,
    H* = [n; 0], [0; e1], [0; e2]. The axes must be perpendicular.
    """

    __slots__ = ()
    kind = "planar"
    nq = 3
    nv = 3
    is_additive = False
    coordinate_names = ("theta", "x", "y")

    def __init__(self, e1: ArrayLike = (1, 0, 0), e2: ArrayLike = (0, 1, 0)) -> None:
        a, b = np.array(unit_axis(e1, "Planar e1")), np.array(unit_axis(e2, "Planar e2"))
        lean = float(a @ b)
        if abs(lean) > 1e-8:
            raise ModelError(
                f"Planar axes e1 = {tuple(a.tolist())} and e2 = {tuple(b.tolist())} are not "
                f"perpendicular (e1·e2 = {lean:.3g}), so x and y would not be distances.\n"
                f"Replace e2 by its part perpendicular to e1:  e2 − (e1·e2) e1"
            )
        if abs(lean) > 4 * _EPS:
            b = b - lean * a
            b = b / np.linalg.norm(b)
        x, y, n = tuple(a.tolist()), tuple(b.tolist()), tuple(np.cross(a, b).tolist())
        self._set(_arguments={"e1": x, "e2": y}, params=(*n, *x, *y))

    def transform(self, params: Vector, q: Vector, ops: ScalarOps) -> tuple[Rotation, list[Scalar]]:
        """R = exp(n~ θ), p = x e1 + y e2."""
        n, e1, e2 = params[:3], params[3:6], params[6:9]
        return rotation_about(n, q[0], ops), plus(scale(q[1], e1), scale(q[2], e2))

    def hinge_axes(self, params: Vector, q: Vector, ops: ScalarOps) -> Columns:
        """[n; 0], [0; e1], [0; e2]."""
        n, e1, e2 = params[:3], params[3:6], params[6:9]
        return from_columns([(*n, *_O3), (*_O3, *e1), (*_O3, *e2)])

    def hinge_axes_rate(self, params: Vector, q: Vector, v: Vector, ops: ScalarOps) -> Columns:
        """Zero."""
        return zeros(6, 3)

    def q_rate(self, params: Vector, q: Vector, v: Vector, ops: ScalarOps) -> list[Scalar]:
        """[ω, cos θ v1 − sin θ v2, sin θ v1 + cos θ v2]."""
        s, c = ops.sin(q[0]), ops.cos(q[0])
        return [v[0], sub(mul(c, v[1]), mul(s, v[2])), add(mul(s, v[1]), mul(c, v[2]))]

    def integrate(self, q: ArrayLike, dv: ArrayLike) -> FloatArray:
        """Move along the constant body motion dv; θ simply adds."""
        start = np.asarray(q, dtype=np.float64)
        angle, p = se2_exp(dv)
        moved = start[..., 1:] + _turn(start[..., 0], p)
        angle = np.broadcast_to(start[..., 0] + angle, moved.shape[:-1])
        return np.concatenate([angle[..., None], moved], axis=-1)

    def difference(self, q0: ArrayLike, q1: ArrayLike) -> FloatArray:
        """Shortest body motion from q0 to q1, |ω| ≤ π: full turns in θ do not count."""
        a, b = np.asarray(q0, dtype=np.float64), np.asarray(q1, dtype=np.float64)
        turn = b[..., 0] - a[..., 0]
        turn = turn - 2 * np.pi * np.rint(turn / (2 * np.pi))
        return se2_log(turn, _turn(-a[..., 0], b[..., 1:] - a[..., 1:]))

    def neutral(self) -> FloatArray:
        """Return zeros."""
        return np.zeros(3)

    def random(self, rng: np.random.Generator, batch: tuple[int, ...] = ()) -> FloatArray:
        """Uniform angle in [−π, π] rad and positions in [−1, 1] m."""
        return rng.uniform(-1.0, 1.0, (*batch, 3)) * np.array([np.pi, 1.0, 1.0])


@final
class Spherical(Joint):
    """Rotation about a point: q = unit quaternion (w, x, y, z), v = ω in body axes, H* = [I; 0].

    A quaternion of any nonzero length is understood as the rotation of its direction.
    """

    __slots__ = ()
    kind = "spherical"
    nq = 4
    nv = 3
    is_additive = False
    coordinate_names = ("qw", "qx", "qy", "qz")

    def __init__(self) -> None:
        self._set(_arguments={}, params=())

    def transform(self, params: Vector, q: Vector, ops: ScalarOps) -> tuple[Rotation, list[Scalar]]:
        """R(q), p = 0."""
        return rotation_of_quaternion(q), [0, 0, 0]

    def hinge_axes(self, params: Vector, q: Vector, ops: ScalarOps) -> Columns:
        """[I; 0]."""
        return [*identity3(), *zeros(3, 3)]

    def hinge_axes_rate(self, params: Vector, q: Vector, v: Vector, ops: ScalarOps) -> Columns:
        """Zero."""
        return zeros(6, 3)

    def q_rate(self, params: Vector, q: Vector, v: Vector, ops: ScalarOps) -> list[Scalar]:
        """½ q ⊗ (0, ω)."""
        return quaternion_rate(q, v)

    def integrate(self, q: ArrayLike, dv: ArrayLike) -> FloatArray:
        """q ⊗ exp(dv), normalised."""
        return quat_normalize(quat_multiply(quat_scaled(q), quat_exp(dv)))

    def difference(self, q0: ArrayLike, q1: ArrayLike) -> FloatArray:
        """Shortest rotation vector from q0 to q1 in body axes, at most π long."""
        return quat_log(quat_multiply(quat_conjugate(quat_scaled(q0)), quat_scaled(q1)))

    def neutral(self) -> FloatArray:
        """(1, 0, 0, 0)."""
        return np.array([1.0, 0.0, 0.0, 0.0])

    def random(self, rng: np.random.Generator, batch: tuple[int, ...] = ()) -> FloatArray:
        """Uniformly distributed rotation."""
        return quat_normalize(rng.standard_normal((*batch, 4)))


@final
class Free(Joint):
    """All six freedoms: q = [quaternion (w, x, y, z), position in inboard axes (m)].

    v = [ω (rad/s), v (m/s)], both in body axes at the body origin; H* = I.
    """

    __slots__ = ()
    kind = "free"
    nq = 7
    nv = 6
    is_additive = False
    coordinate_names = ("qw", "qx", "qy", "qz", "x", "y", "z")

    def __init__(self) -> None:
        self._set(_arguments={}, params=())

    def transform(self, params: Vector, q: Vector, ops: ScalarOps) -> tuple[Rotation, list[Scalar]]:
        """R(q), p = position."""
        return rotation_of_quaternion(q[:4]), list(q[4:])

    def hinge_axes(self, params: Vector, q: Vector, ops: ScalarOps) -> Columns:
        """The 6×6 identity."""
        return [[1 if i == j else 0 for j in range(6)] for i in range(6)]

    def hinge_axes_rate(self, params: Vector, q: Vector, v: Vector, ops: ScalarOps) -> Columns:
        """Zero."""
        return zeros(6, 6)

    def q_rate(self, params: Vector, q: Vector, v: Vector, ops: ScalarOps) -> list[Scalar]:
        """[½ q ⊗ (0, ω), R(q) v]."""
        return [*quaternion_rate(q[:4], v[:3]), *matvec(rotation_of_quaternion(q[:4]), v[3:])]

    def integrate(self, q: ArrayLike, dv: ArrayLike) -> FloatArray:
        """Move along the constant body motion dv (the exponential of SE(3))."""
        start, step = np.asarray(q, dtype=np.float64), np.asarray(dv, dtype=np.float64)
        R, V = quat_to_matrix(start[..., :4]), left_jacobian(step[..., :3])
        moved = start[..., 4:] + (R @ (V @ step[..., 3:, None]))[..., 0]
        turned = quat_multiply(quat_scaled(start[..., :4]), quat_exp(step[..., :3]))
        return np.concatenate([quat_normalize(turned), moved], axis=-1)

    def difference(self, q0: ArrayLike, q1: ArrayLike) -> FloatArray:
        """Shortest body motion [ω; v] from q0 to q1, |ω| ≤ π (the logarithm of SE(3))."""
        a, b = np.asarray(q0, dtype=np.float64), np.asarray(q1, dtype=np.float64)
        turned, to = quat_conjugate(quat_scaled(a[..., :4])), quat_scaled(b[..., :4])
        w = quat_log(quat_multiply(turned, to))
        R = np.swapaxes(quat_to_matrix(a[..., :4]), -1, -2)
        p = R @ (b[..., 4:] - a[..., 4:])[..., None]
        return np.concatenate([w, (left_jacobian_inverse(w) @ p)[..., 0]], axis=-1)

    def neutral(self) -> FloatArray:
        """(1, 0, 0, 0, 0, 0, 0)."""
        return np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])

    def random(self, rng: np.random.Generator, batch: tuple[int, ...] = ()) -> FloatArray:
        """Uniformly distributed rotation, positions in [−1, 1] m."""
        rotation = quat_normalize(rng.standard_normal((*batch, 4)))
        return np.concatenate([rotation, rng.uniform(-1.0, 1.0, (*batch, 3))], axis=-1)


def _turn(angle: FloatArray, p: FloatArray) -> FloatArray:
    """Rotate planar vectors (..., 2) by the angles (...)."""
    s, c = np.sin(angle), np.cos(angle)
    return np.stack([c * p[..., 0] - s * p[..., 1], s * p[..., 0] + c * p[..., 1]], axis=-1)
