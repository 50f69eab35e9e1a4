"""Constraints that close kinematic loops: joints between bodies, couplings, general rows."""

from phipsi.core.constraints.closing_joints import (
    Cylindrical,
    GraphJoint,
    Planar,
    Prismatic,
    Revolute,
    Rows,
    Spherical,
    Universal,
    Weld,
    z_along,
)
from phipsi.core.constraints.constraint import Constraint, End
from phipsi.core.constraints.couplings import Coupling
from phipsi.core.constraints.point_constraints import (
    Distance,
    PointOnCircle,
    PointOnLine,
    PointOnPlane,
)
from phipsi.package_state import offer_within

__all__ = [
    "Constraint", "Coupling", "Cylindrical", "Distance", "End", "GraphJoint", "Planar",
    "PointOnCircle", "PointOnLine", "PointOnPlane", "Prismatic", "Revolute", "Rows", "Spherical",
    "Universal", "Weld", "z_along",
]  # fmt: skip

__getattr__ = offer_within(
    __name__,
    {
        "constraint": "Array check_name names_of numbers_of one_coordinate rate_row",
        "couplings": "PARALLEL SLIDES TURNS PartlyLocked Relations Shares",
        "shaft_forces": "ShaftForces axis_of frame_of rows_of_shares",
    },
)
