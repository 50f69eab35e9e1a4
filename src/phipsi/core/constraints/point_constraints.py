"""Constraints that hold one point: on a line, a circle or a plane, or at a distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast, final

import numpy as np
from numpy.typing import ArrayLike

from phipsi.core.constraints.closing_joints import Axis, JointConstraint
from phipsi.core.model import Closure, Model, fill
from phipsi.errors import ModelError, number_of


@final
@dataclass(frozen=True)
class PointOnLine(JointConstraint):
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
class PointOnPlane(JointConstraint):
    """Point-on-plane closure: the point of `b` stays on a plane fixed in `a`, 1 row.

    A frictionless contact that neither opens nor drifts: the row has a position, and its multiplier
    is the normal force. A contact that may open or slip with friction is one of `pp.Contacts`.

    Parameters
    ----------
    normal : array_like, shape (3,), optional
        Normal of the plane through the point of `a`, in its joint frame. Default: z.
    name : str
        Name of the constraint, unique in its system.
    a : str or tuple
        First joint frame: a body, a frame or "world", or (name, offset in m or `Pose`).
    b : str or tuple
        Second joint frame, in the same way.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm = pp.examples.seven_joint_arm()
    >>> table = pp.constraints.PointOnPlane(name="table", a=("world", (0, 0, 0.3)), b="tool")
    >>> pp.System(arm, [table]).row_names
    ('table.z',)
    """

    normal: ArrayLike = (0, 0, 1)
    binds, along = ("none", "z"), ("normal",)


@final
@dataclass(frozen=True)
class PointOnCircle(JointConstraint):
    """Point-on-circle closure: the point of `b` stays on a circle fixed in `a`, 2 rows.

    Parameters
    ----------
    axis : array_like, shape (3,), optional
        Axis of the circle, whose centre is the point of `a`, in its joint frame. Default: z.
    radius : float, optional
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
    >>> arm = pp.examples.seven_joint_arm()
    >>> rim = pp.constraints.PointOnCircle((0, 0, 1), 0.2, name="rim", a="world", b="tool")
    >>> pp.System(arm, [rim]).row_names
    ('rim.distance', 'rim.z')
    """

    axis: ArrayLike = (0, 0, 1)
    radius: float = 1.0
    binds, along = ("none", "circle"), ("axis",)

    def __post_init__(self) -> None:
        super().__post_init__()
        radius = number_of(self.radius)
        if not (np.isfinite(radius) and radius > 0):
            raise ModelError(
                f"{self._who()}: radius={self.radius!r} must be a finite number of metres above 0. "
                "A circle without radius is a point, which takes three rows, not two:\n"
                f"    pp.constraints.Spherical(name={self.name!r}, a={self.a!r}, b={self.b!r})"
            )
        fill(self, radius=radius)

    def closure(self, model: Model) -> Closure:
        """The distance from the centre, and the plane."""
        return self.between(model, cast(Axis, self.axis), constant=self.radius)


@final
@dataclass(frozen=True)
class Distance(JointConstraint):
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
        return self.between(model, constant=self.length)
