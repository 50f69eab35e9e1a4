"""Constraints between any two bodies: joints that close loops, joints of graphs, general rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast, final

import numpy as np
from numpy.typing import ArrayLike

from phipsi.core.constraints.constraint import (
    Array,
    Constraint,
    End,
    check_name,
    end_of,
    is_placed,
    numbers_of,
    resolved_point,
)
from phipsi.core.model import (
    ANGULAR,
    LINEAR,
    WORLD,
    Closure,
    Joint,
    LimitsArgument,
    Model,
    Pose,
    fill,
    plain,
    read_only,
    unit_axis,
    vector3,
)
from phipsi.errors import ModelError, number_of, one_of
from phipsi.support import fields_in_line

Axis = tuple[float, float, float]

_ROW_NAMES = {
    "R02": "tilt_x", "R12": "tilt_y", "R22": "angle", "sx": "turn_x", "sy": "turn_y",
    "sz": "turn_z", "rx": "x", "ry": "y", "rz": "z", "distance": "distance",
}  # fmt: skip


@dataclass(frozen=True)
class _JointConstraint(Constraint):
    name: str = field(kw_only=True)
    a: End = field(kw_only=True)
    b: End = field(kw_only=True)
    binds: ClassVar[tuple[str, str]]
    """Its rows: angular, linear, as `ANGULAR` and `LINEAR` list them."""
    along: ClassVar[tuple[str, ...]] = ()
    """The fields with its axes: in a, and in b where that is another."""

    def __post_init__(self) -> None:
        check_name(self.name, type(self).__name__)
        self._plain_ends()
        for side in self.along:
            given = getattr(self, side)
            if given is not None:
                fill(self, **{side: unit_axis(given, f"{self._who()}: {side}")})

    def _plain_ends(self) -> None:
        """Offsets as tuples, so that constraints compare and hash by content."""
        for side in ("a", "b"):
            end = getattr(self, side)
            if is_placed(end):
                name, place = end
                if not isinstance(place, Pose):
                    who = f"{self._who()}: the offset of {side}"
                    place = plain(vector3(place, who))
                    if not np.isfinite(place).all():
                        raise ModelError(f"{who}, {place}, has a number that is not finite.")
                fill(self, **{side: (name, place)})

    def closure(self, model: Model) -> Closure:
        """The rows that it binds, along its axes."""
        return self._between(model, *(getattr(self, side) for side in self.along))

    def sides(self) -> tuple[End, ...]:
        """Its ends a and b."""
        return self.a, self.b

    def _between(
        self,
        model: Model,
        axis_a: Axis = (0.0, 0.0, 1.0),
        axis_b: Axis | None = None,
        constant: float = 0.0,
    ) -> Closure:
        """The closure with its z axes along the axes given in the two joint frames."""
        a, X_a = end_of(model, self.a, "a", self._who())
        b, X_b = end_of(model, self.b, "b", self._who())
        if a == b:
            where = "the world" if a == WORLD else f"body {model.body_names[a]!r}"
            raise ModelError(
                f"{self._who()}: both ends are fixed in {where} (a={self.a!r}, b={self.b!r}), so "
                f"there is no motion between them to constrain. A loop is closed between two "
                f"different bodies, or a body and 'world'."
            )
        angular, linear = self.binds
        forms = ANGULAR[angular] + LINEAR[linear]
        return Closure(
            name=self.name,
            rows=tuple(_ROW_NAMES[form] for form in forms),
            angular=angular,
            linear=linear,
            a=a,
            b=b,
            a_frame=X_a @ z_along(axis_a),
            b_frame=X_b @ z_along(axis_a if axis_b is None else axis_b),
            constant=constant,
        )


@final
@dataclass(frozen=True)
class Weld(_JointConstraint):
    """Weld closure: the two joint frames coincide, 6 rows.

    Parameters
    ----------
    name : str
        Name of the constraint, unique in its system.
    a : str or tuple
        First joint frame: a body, a frame or "world", or (name, offset in m or `Pose`).
    b : str or tuple
        Second joint frame, in the same way.
    """

    binds = "all", "all"


@final
@dataclass(frozen=True)
class Spherical(_JointConstraint):
    """Spherical closure (ball joint): the two points coincide, 3 rows.

    Rotations of the joint frames do not matter.

    Parameters
    ----------
    name : str
        Name of the constraint, unique in its system.
    a : str or tuple
        First joint frame: a body, a frame or "world", or (name, offset in m or `Pose`).
    b : str or tuple
        Second joint frame, in the same way.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(3)
    >>> pin = pp.constraints.Spherical(name="pin", a="tip", b=("world", (1.5, 0, 0)))
    >>> pp.System(arm, [pin]).row_names
    ('pin.x', 'pin.y', 'pin.z')
    """

    binds = "none", "all"


@final
@dataclass(frozen=True)
class Revolute(_JointConstraint):
    """Revolute closure (hinge): only rotation about `axis` is free, 5 rows.

    Parameters
    ----------
    axis : array_like, shape (3,), optional
        In the joint frame of `a`. Default: z.
    axis_b : array_like, shape (3,), optional
        In the joint frame of `b`. Default: `axis`.
    name : str
        Name of the constraint, unique in its system.
    a : str or tuple
        First joint frame: a body, a frame or "world", or (name, offset in m or `Pose`).
    b : str or tuple
        Second joint frame, in the same way.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(3)
    >>> pin = pp.constraints.Revolute((0, 0, 1), name="pin", a="tip", b=("world", (1.5, 0, 0)))
    >>> pp.System(arm, [pin]).n_rows
    5
    """

    axis: ArrayLike = (0, 0, 1)
    axis_b: ArrayLike | None = None
    binds, along = ("axis", "all"), ("axis", "axis_b")


@final
@dataclass(frozen=True)
class Prismatic(_JointConstraint):
    """Prismatic closure: only sliding along `axis` is free, 5 rows.

    Parameters
    ----------
    axis : array_like, shape (3,), optional
        In the joint frames. Default: z.
    name : str
        Name of the constraint, unique in its system.
    a : str or tuple
        First joint frame: a body, a frame or "world", or (name, offset in m or `Pose`).
    b : str or tuple
        Second joint frame, in the same way.
    """

    axis: ArrayLike = (0, 0, 1)
    binds, along = ("all", "xy"), ("axis",)


@final
@dataclass(frozen=True)
class Cylindrical(_JointConstraint):
    """Cylindrical closure: rotation about and sliding along `axis` are free, 4 rows.

    Parameters
    ----------
    axis : array_like, shape (3,), optional
        In the joint frame of `a`. Default: z.
    axis_b : array_like, shape (3,), optional
        In the joint frame of `b`. Default: `axis`.
    name : str
        Name of the constraint, unique in its system.
    a : str or tuple
        First joint frame: a body, a frame or "world", or (name, offset in m or `Pose`).
    b : str or tuple
        Second joint frame, in the same way.
    """

    axis: ArrayLike = (0, 0, 1)
    axis_b: ArrayLike | None = None
    binds, along = ("axis", "xy"), ("axis", "axis_b")


@final
@dataclass(frozen=True)
class Universal(_JointConstraint):
    """Universal-joint closure: rotation about two axes is free, 4 rows.

    The angle between the axes is the one of their components, as for a universal joint of a tree.

    Parameters
    ----------
    axis1 : array_like, shape (3,), optional
        Fixed in `a`. Default: x.
    axis2 : array_like, shape (3,), optional
        Fixed in `b`. Default: y.
    name : str
        Name of the constraint, unique in its system.
    a : str or tuple
        First joint frame: a body, a frame or "world", or (name, offset in m or `Pose`).
    b : str or tuple
        Second joint frame, in the same way.
    """

    axis1: ArrayLike = (1, 0, 0)
    axis2: ArrayLike = (0, 1, 0)
    binds, along = ("cross", "all"), ("axis1", "axis2")

    def closure(self, model: Model) -> Closure:
        """The angle between its axes, and the point."""
        first, second = cast(Axis, self.axis1), cast(Axis, self.axis2)
        if np.linalg.norm(np.cross(first, second)) < 1e-8:
            raise ModelError(
                f"{self._who()}: axis1 {first} and axis2 {second} are parallel, so the cross is "
                "degenerate and only one rotation is free. Use a revolute joint:\n"
                f"    pp.constraints.Revolute({first}, name={self.name!r}, a={self.a!r}, "
                f"b={self.b!r})"
            )
        return self._between(model, first, second, float(np.dot(first, second)))


@final
@dataclass(frozen=True)
class Planar(_JointConstraint):
    """Planar closure: sliding in a plane and turning about its normal are free, 3 rows.

    Parameters
    ----------
    normal : array_like, shape (3,), optional
        Normal of the plane in the joint frame of `a`. Default: z.
    normal_b : array_like, shape (3,), optional
        In the joint frame of `b`. Default: `normal`.
    name : str
        Name of the constraint, unique in its system.
    a : str or tuple
        First joint frame: a body, a frame or "world", or (name, offset in m or `Pose`).
    b : str or tuple
        Second joint frame, in the same way.
    """

    normal: ArrayLike = (0, 0, 1)
    normal_b: ArrayLike | None = None
    binds, along = ("axis", "z"), ("normal", "normal_b")


@final
@dataclass(frozen=True)
class PointOnLine(_JointConstraint):
    """Point-on-line closure: the point of `b` stays on a line fixed in `a`, 2 rows.

    Parameters
    ----------
    axis : array_like, shape (3,), optional
        Direction of the line through the point of `a`. Default: z.
    name : str
        Name of the constraint, unique in its system.
    a : str or tuple
        First joint frame: a body, a frame or "world", or (name, offset in m or `Pose`).
    b : str or tuple
        Second joint frame, in the same way.
    """

    axis: ArrayLike = (0, 0, 1)
    binds, along = ("none", "xy"), ("axis",)


@final
@dataclass(frozen=True)
class Distance(_JointConstraint):
    """Distance closure: the two points stay `length` apart, like the ends of a massless rod, 1 row.

    Parameters
    ----------
    length : float, optional
        m. Default: 1.
    name : str
        Name of the constraint, unique in its system.
    a : str or tuple
        First joint frame: a body, a frame or "world", or (name, offset in m or `Pose`).
    b : str or tuple
        Second joint frame, in the same way.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(2)
    >>> rod = pp.constraints.Distance(1.5, name="rod", a="tip", b=("world", (1, 1, 0)))
    >>> pp.System(arm, [rod]).n_rows
    1
    """

    length: float = 1.0
    binds = "none", "distance"

    def __post_init__(self) -> None:
        super().__post_init__()
        length = number_of(self.length)
        if not (np.isfinite(length) and length > 0):
            raise ModelError(
                f"{self._who()}: length={self.length!r} must be a finite number of metres above 0. "
                f"Two points at distance 0 coincide, which takes three rows, not one:\n"
                f"    pp.constraints.Spherical(name={self.name!r}, a={self.a!r}, b={self.b!r})"
            )
        fill(self, length=length)

    def closure(self, model: Model) -> Closure:
        """One row, the distance."""
        return self._between(model, constant=self.length)


def z_along(axis: Axis) -> Pose:
    """The smallest rotation that takes z to an axis.

    Parameters
    ----------
    axis : array_like, shape (3,)
        The axis.

    Returns
    -------
    Pose
        The rotation, without translation.

    Examples
    --------
    >>> from phipsi.constraints import z_along
    >>> z_along((1, 0, 0)).apply((0, 0, 1)).round(12).tolist()
    [1.0, 0.0, 0.0]
    """
    x, y, z = axis
    if x == 0 and y == 0:
        return Pose() if z > 0 else Pose(np.diag([1.0, -1.0, -1.0]))
    if z < 0:  # by way of −z, which is near
        flipped = z_along((x, -y, -z)).rotation
        return Pose(np.diag([1.0, -1.0, -1.0]) @ flipped)
    k = 1.0 / (1.0 + z)
    R = [[1 - k * x * x, -k * x * y, x], [-k * x * y, 1 - k * y * y, y], [-x, -y, z]]
    return Pose(R)


# ---- joints of graphs ----------------------------------------------------------------------------


Place = str | tuple[str, Any]


@final
@dataclass(frozen=True)
class GraphJoint:
    """A joint between two bodies of a graph, or a body and "world".

    At zero coordinates the two joint frames coincide.

    Parameters
    ----------
    name : str
        Name of the joint.
    joint : Joint
        A joint from `phipsi.joints`.
    a, b : str or tuple
        Names, or pairs (name, offset or `Pose`): the joint frame on each side, in the frame in
        which the body's inertia is given.
    limits : tuple of array_like, optional
        As for `ModelBuilder.add_body`; a joint that is cut has none.
    armature, damping : array_like, optional
        As for `ModelBuilder.add_body`; a joint that is cut has none.
    """

    name: str
    joint: Joint
    a: Place
    b: Place
    limits: LimitsArgument = None
    armature: ArrayLike = 0.0
    damping: ArrayLike = 0.0

    def __repr__(self) -> str:
        return fields_in_line(self)

    def __post_init__(self) -> None:
        if not isinstance(cast(object, self.joint), Joint):
            raise ModelError(
                f"graph joint {self.name!r}: joint={self.joint!r} is not a joint; give one of "
                f"pp.joints, such as pp.joints.Revolute((0, 0, 1))."
            )


# ---- general rows --------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class Rows(Constraint):
    """General velocity constraints A V = row_velocity on points, for rolling and knife edges.

    They are nonholonomic: there is no position to assemble, so their residual is 0.

    Parameters
    ----------
    name : str
        Name of the constraint, unique in its system.
    points : sequence
        As for `jacobian`.
    A : array_like, shape (rows, 6 · points)
        Constant coefficients of the motions [angular; linear] of the points.
    row_velocity : array_like, optional
        Right-hand side, constant numbers, one or one per row. Default: 0.
    axes : {"world", "body"}, optional
        World axes, or the axes of each point's body or frame. Default: "world".
    """

    name: str = field(kw_only=True)
    points: Sequence[Any] = field(kw_only=True)
    A: ArrayLike = field(kw_only=True)
    row_velocity: ArrayLike = field(default=0.0, kw_only=True)
    axes: str = field(default="world", kw_only=True)

    def __repr__(self) -> str:
        return fields_in_line(self)

    def __post_init__(self) -> None:
        check_name(self.name, "Rows")
        who, points = self._who(), self.points
        one_of(f"{who}: axes", self.axes, ("world", "body"), error=ModelError)
        if not isinstance(cast(object, points), Sequence) or isinstance(points, str) or not points:
            raise ModelError(f"{who}: points must be a list, also for one: points=[{points!r}]")
        matrix, size = numbers_of(self.A, f"{who}: A"), 6 * len(points)
        if matrix.ndim != 2 or not len(matrix) or matrix.shape[1] != size:
            raise ModelError(
                f"{who}: A has shape {matrix.shape}, but {len(points)} points have {size} velocity "
                f"components, [angular; linear] of each: A must be (rows, {size})."
            )
        given = numbers_of(self.row_velocity, f"{who}: row_velocity")
        if given.shape not in ((), (len(matrix),)):
            raise ModelError(
                f"{who}: row_velocity of shape {given.shape} must be one number or {len(matrix)}, "
                f"one per row of A."
            )
        if not np.isfinite(matrix).all() or not np.isfinite(given).all():
            raise ModelError(f"{who}: A and row_velocity must be finite.")
        empty = np.flatnonzero(~matrix.any(axis=1))
        if empty.size:
            raise ModelError(f"{who}: row {empty[0]} of A is zero and constrains nothing.")
        each = read_only(np.broadcast_to(given, (len(matrix),)))
        fill(self, points=tuple(points), A=read_only(matrix), row_velocity=each)

    def closure(self, model: Model) -> Closure:
        """Constant rows on the points."""
        matrix = np.asarray(self.A)
        return Closure(
            name=self.name,
            rows=tuple(str(i) for i in range(len(matrix))),
            points=tuple(resolved_point(model, p, self._who()) for p in self.points),
            matrix=matrix,
            axes=self.axes,
        )

    def prescribed(self, rows: int) -> Array:
        """The row velocities that were given."""
        return np.asarray(self.row_velocity)

    def fitted(self, model: Model, q: Array) -> Rows:
        """Itself: it has no position."""
        return self
