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
from phipsi.spatial import quat_normalize
from phipsi.spatial.groups import SE2, SE3, SO3

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
    group = SE2
    nq, nv = group.nq, group.nv
    is_additive = False
    coordinate_names = ("theta", "x", "y")
    param_kinds = ("frame",)
    aligned = 0
    degree = 19

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
    group = SO3
    nq, nv = group.nq, group.nv
    is_additive = False
    coordinate_names = ("qw", "qx", "qy", "qz")
    degree = 5

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
    group = SE3
    nq, nv = group.nq, group.nv
    is_additive = False
    coordinate_names = ("qw", "qx", "qy", "qz", "x", "y", "z")
    degree = 5

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

    def random(self, rng: np.random.Generator, batch: tuple[int, ...] = ()) -> FloatArray:
        """Uniformly distributed rotation, positions in [−1, 1] m."""
        rotation = quat_normalize(rng.standard_normal((*batch, 4)))
        return np.concatenate([rotation, rng.uniform(-1.0, 1.0, (*batch, 3))], axis=-1)
