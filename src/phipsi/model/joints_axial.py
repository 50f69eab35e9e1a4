"""Joints whose rates are the derivatives of their coordinates (q̇ = v).

Fixed, Revolute, Prismatic, Helical, Cylindrical, Universal and Translation. Axes are unit
vectors in the inboard joint frame; H* and its rate are in body axes at the body origin.
"""

from __future__ import annotations

from typing import final

import numpy as np
from numpy.typing import ArrayLike

from phipsi.errors import ModelError
from phipsi.model.joint import AdditiveJoint, Columns, Rotation, unit_axis
from phipsi.model.scalars import (
    Scalar,
    ScalarOps,
    Vector,
    cross,
    from_columns,
    identity3,
    matmul,
    matvec,
    rotation_about,
    scale,
    transpose,
    zeros,
)

_O3 = (0, 0, 0)


@final
class Fixed(AdditiveJoint):
    """No motion. A body on a fixed joint is welded to its parent when the model is built."""

    __slots__ = ()
    kind = "fixed"
    nq = 0
    nv = 0
    coordinate_names = ()
    degree = 1
    _spread = ()

    def __init__(self) -> None:
        self._set(_arguments={}, params=())

    def transform(self, params: Vector, q: Vector, ops: ScalarOps) -> tuple[Rotation, list[Scalar]]:
        """Return the identity."""
        return identity3(), [0, 0, 0]

    def hinge_axes(self, params: Vector, q: Vector, ops: ScalarOps) -> Columns:
        """Return six empty rows."""
        return zeros(6, 0)

    def hinge_axes_rate(self, params: Vector, q: Vector, v: Vector, ops: ScalarOps) -> Columns:
        """Return six empty rows."""
        return zeros(6, 0)


@final
class Revolute(AdditiveJoint):
    """Rotation by q = θ (rad) about `axis`: R = exp(u~ θ), H* = [u; 0]."""

    __slots__ = ()
    kind = "revolute"
    nq = 1
    nv = 1
    coordinate_names = ("theta",)
    param_kinds = ("axis",)
    aligned = 0
    degree = 7
    _spread = (np.pi,)

    def __init__(self, axis: ArrayLike = (0, 0, 1)) -> None:
        u = unit_axis(axis, "Revolute axis")
        self._set(_arguments={"axis": u}, params=u)

    def transform(self, params: Vector, q: Vector, ops: ScalarOps) -> tuple[Rotation, list[Scalar]]:
        """R = exp(u~ θ), p = 0."""
        return rotation_about(params, q[0], ops), [0, 0, 0]

    def hinge_axes(self, params: Vector, q: Vector, ops: ScalarOps) -> Columns:
        """[u; 0]."""
        return from_columns([(*params, *_O3)])

    def hinge_axes_rate(self, params: Vector, q: Vector, v: Vector, ops: ScalarOps) -> Columns:
        """Zero."""
        return zeros(6, 1)


@final
class Prismatic(AdditiveJoint):
    """Sliding by q = d (m) along `axis`: p = u d, H* = [0; u]."""

    __slots__ = ()
    kind = "prismatic"
    nq = 1
    nv = 1
    coordinate_names = ("d",)
    param_kinds = ("axis",)
    aligned = 0
    degree = 7
    _spread = (1.0,)

    def __init__(self, axis: ArrayLike = (0, 0, 1)) -> None:
        u = unit_axis(axis, "Prismatic axis")
        self._set(_arguments={"axis": u}, params=u)

    def transform(self, params: Vector, q: Vector, ops: ScalarOps) -> tuple[Rotation, list[Scalar]]:
        """R = I, p = u d."""
        return identity3(), scale(q[0], params)

    def hinge_axes(self, params: Vector, q: Vector, ops: ScalarOps) -> Columns:
        """[0; u]."""
        return from_columns([(*_O3, *params)])

    def hinge_axes_rate(self, params: Vector, q: Vector, v: Vector, ops: ScalarOps) -> Columns:
        """Zero."""
        return zeros(6, 1)


@final
class Helical(AdditiveJoint):
    """Screw: rotation by q = θ (rad) about `axis` with advance `pitch` · θ along it.

    `pitch` is in m/rad (divide a lead per turn by 2π). R = exp(u~ θ), p = h u θ, H* = [u; h u].
    """

    __slots__ = ()
    kind = "helical"
    nq = 1
    nv = 1
    coordinate_names = ("theta",)
    param_kinds = ("axis", "number")
    aligned = 0
    degree = 7
    _spread = (np.pi,)

    def __init__(self, axis: ArrayLike = (0, 0, 1), pitch: float = 0.0) -> None:
        u = unit_axis(axis, "Helical axis")
        h = float(pitch)
        if not np.isfinite(h):
            raise ModelError(
                f"Helical pitch is {h}; it must be a finite number of metres per radian."
            )
        self._set(_arguments={"axis": u, "pitch": h}, params=(*u, h))

    def transform(self, params: Vector, q: Vector, ops: ScalarOps) -> tuple[Rotation, list[Scalar]]:
        """R = exp(u~ θ), p = h u θ."""
        u, h = params[:3], params[3]
        return rotation_about(u, q[0], ops), scale(q[0], scale(h, u))

    def hinge_axes(self, params: Vector, q: Vector, ops: ScalarOps) -> Columns:
        """[u; h u]."""
        u, h = params[:3], params[3]
        return from_columns([(*u, *scale(h, u))])

    def hinge_axes_rate(self, params: Vector, q: Vector, v: Vector, ops: ScalarOps) -> Columns:
        """Zero."""
        return zeros(6, 1)


@final
class Cylindrical(AdditiveJoint):
    """Rotation about and sliding along one axis: q = [θ (rad), d (m)], H* = [u; 0], [0; u]."""

    __slots__ = ()
    kind = "cylindrical"
    nq = 2
    nv = 2
    coordinate_names = ("theta", "d")
    param_kinds = ("axis",)
    aligned = 0
    degree = 13
    _spread = (np.pi, 1.0)

    def __init__(self, axis: ArrayLike = (0, 0, 1)) -> None:
        u = unit_axis(axis, "Cylindrical axis")
        self._set(_arguments={"axis": u}, params=u)

    def transform(self, params: Vector, q: Vector, ops: ScalarOps) -> tuple[Rotation, list[Scalar]]:
        """R = exp(u~ θ), p = u d."""
        return rotation_about(params, q[0], ops), scale(q[1], params)

    def hinge_axes(self, params: Vector, q: Vector, ops: ScalarOps) -> Columns:
        """[u; 0], [0; u]."""
        return from_columns([(*params, *_O3), (*_O3, *params)])

    def hinge_axes_rate(self, params: Vector, q: Vector, v: Vector, ops: ScalarOps) -> Columns:
        """Zero."""
        return zeros(6, 2)


@final
class Universal(AdditiveJoint):
    """Rotation by θ1 about `axis1`, then by θ2 about `axis2` carried along (rad).

    R = exp(u1~ θ1) exp(u2~ θ2), H* = [R2* u1; 0], [u2; 0] with R2 = exp(u2~ θ2). The axes need not
    be perpendicular, only different.
    """

    __slots__ = ()
    kind = "universal"
    nq = 2
    nv = 2
    coordinate_names = ("theta1", "theta2")
    param_kinds = ("axis", "axis")
    aligned = 1
    degree = 13
    _spread = (np.pi, np.pi)

    def __init__(self, axis1: ArrayLike = (1, 0, 0), axis2: ArrayLike = (0, 1, 0)) -> None:
        u1, u2 = unit_axis(axis1, "Universal axis1"), unit_axis(axis2, "Universal axis2")
        if np.linalg.norm(np.cross(u1, u2)) < 1e-8:
            raise ModelError(
                f"Universal axes {u1} and {u2} are parallel, so the two angles would be one "
                f"motion and the joint has a single degree of freedom.\n"
                f"Use Revolute(axis={u1}), or give two different axes."
            )
        self._set(_arguments={"axis1": u1, "axis2": u2}, params=(*u1, *u2))

    def transform(self, params: Vector, q: Vector, ops: ScalarOps) -> tuple[Rotation, list[Scalar]]:
        """R = exp(u1~ θ1) exp(u2~ θ2), p = 0."""
        first = rotation_about(params[:3], q[0], ops)
        return matmul(first, rotation_about(params[3:], q[1], ops)), [0, 0, 0]

    def hinge_axes(self, params: Vector, q: Vector, ops: ScalarOps) -> Columns:
        """[R2* u1; 0], [u2; 0]."""
        u1_B = self._first_axis(params, q, ops)
        return from_columns([(*u1_B, *_O3), (*params[3:], *_O3)])

    def hinge_axes_rate(self, params: Vector, q: Vector, v: Vector, ops: ScalarOps) -> Columns:
        """[(R2* u1 × u2) θ̇2; 0], 0."""
        u1_B = self._first_axis(params, q, ops)
        return from_columns([(*scale(v[1], cross(u1_B, params[3:])), *_O3), (*_O3, *_O3)])

    @staticmethod
    def _first_axis(params: Vector, q: Vector, ops: ScalarOps) -> list[Scalar]:
        """u1 in body axes, R2* u1."""
        return matvec(transpose(rotation_about(params[3:], q[1], ops)), params[:3])


@final
class Translation(AdditiveJoint):
    """Sliding in all three directions: q = v̄ = (x, y, z) in the inboard axes, m. H* = [0; I]."""

    __slots__ = ()
    kind = "translation"
    nq = 3
    nv = 3
    coordinate_names = ("x", "y", "z")
    degree = 5
    _spread = (1.0, 1.0, 1.0)

    def __init__(self) -> None:
        self._set(_arguments={}, params=())

    def transform(self, params: Vector, q: Vector, ops: ScalarOps) -> tuple[Rotation, list[Scalar]]:
        """R = I, p = q."""
        return identity3(), list(q)

    def hinge_axes(self, params: Vector, q: Vector, ops: ScalarOps) -> Columns:
        """[0; I]."""
        return [*zeros(3, 3), *identity3()]

    def hinge_axes_rate(self, params: Vector, q: Vector, v: Vector, ops: ScalarOps) -> Columns:
        """Zero."""
        return zeros(6, 3)
