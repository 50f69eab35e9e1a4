"""Written by scripts/public_names.py from the table in `__init__.py`."""

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
from phipsi.core.constraints.constraint import (
    Array as Array,
    Constraint,
    End,
    check_name as check_name,
    names_of as names_of,
    numbers_of as numbers_of,
    one_coordinate as one_coordinate,
    rate_row as rate_row,
)
from phipsi.core.constraints.couplings import (
    PARALLEL as PARALLEL,
    SLIDES as SLIDES,
    TURNS as TURNS,
    Coupling,
    PartlyLocked as PartlyLocked,
    Relations as Relations,
    Shares as Shares,
)
from phipsi.core.constraints.point_constraints import (
    Distance,
    PointOnCircle,
    PointOnLine,
    PointOnPlane,
)
from phipsi.core.constraints.shaft_forces import (
    ShaftForces as ShaftForces,
    axis_of as axis_of,
    frame_of as frame_of,
    rows_of_shares as rows_of_shares,
)

__all__ = [
    "Constraint",
    "Coupling",
    "Cylindrical",
    "Distance",
    "End",
    "GraphJoint",
    "Planar",
    "PointOnCircle",
    "PointOnLine",
    "PointOnPlane",
    "Prismatic",
    "Revolute",
    "Rows",
    "Spherical",
    "Universal",
    "Weld",
    "z_along",
]
