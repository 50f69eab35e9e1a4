"""Constraints that close kinematic loops: joints between bodies, couplings, general rows."""

from phipsi.core.constraints.closing_joints import (
    Cylindrical,
    Distance,
    GraphJoint,
    Planar,
    PointOnLine,
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

__all__ = [
    "Constraint", "Coupling", "Cylindrical", "Distance", "End", "GraphJoint", "Planar",
    "PointOnLine", "Prismatic", "Revolute", "Rows", "Spherical", "Universal", "Weld", "z_along",
]  # fmt: skip
