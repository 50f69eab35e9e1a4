"""Written by scripts/public_names.py from the table in `__init__.py`."""

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
from phipsi.core.constraints.constraint import Array as Array
from phipsi.core.constraints.constraint import Constraint, End
from phipsi.core.constraints.constraint import check_name as check_name
from phipsi.core.constraints.constraint import names_of as names_of
from phipsi.core.constraints.constraint import numbers_of as numbers_of
from phipsi.core.constraints.constraint import one_coordinate as one_coordinate
from phipsi.core.constraints.constraint import rate_row as rate_row
from phipsi.core.constraints.couplings import PARALLEL as PARALLEL
from phipsi.core.constraints.couplings import SLIDES as SLIDES
from phipsi.core.constraints.couplings import TURNS as TURNS
from phipsi.core.constraints.couplings import Coupling
from phipsi.core.constraints.couplings import Relations as Relations
from phipsi.core.constraints.couplings import Shares as Shares
from phipsi.core.constraints.shaft_forces import ShaftForces as ShaftForces
from phipsi.core.constraints.shaft_forces import axis_of as axis_of
from phipsi.core.constraints.shaft_forces import frame_of as frame_of
from phipsi.core.constraints.shaft_forces import rows_of_shares as rows_of_shares

__all__ = [
    "Constraint",
    "Coupling",
    "Cylindrical",
    "Distance",
    "End",
    "GraphJoint",
    "Planar",
    "PointOnLine",
    "Prismatic",
    "Revolute",
    "Rows",
    "Spherical",
    "Universal",
    "Weld",
    "z_along",
]
