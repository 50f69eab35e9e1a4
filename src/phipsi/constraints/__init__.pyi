"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.constraints.belts import Belt
from phipsi.constraints.cams import Cam
from phipsi.constraints.closing_joints import (
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
from phipsi.constraints.constraint import Constraint, End
from phipsi.constraints.couplings import Coupling
from phipsi.constraints.gears import Differential, Gear, Planetary, RackPinion, Screw
from phipsi.constraints.motors import Motor

__all__ = [
    "Belt",
    "Cam",
    "Constraint",
    "Coupling",
    "Cylindrical",
    "Differential",
    "Distance",
    "End",
    "Gear",
    "GraphJoint",
    "Motor",
    "Planar",
    "Planetary",
    "PointOnLine",
    "Prismatic",
    "RackPinion",
    "Revolute",
    "Rows",
    "Screw",
    "Spherical",
    "Universal",
    "Weld",
    "z_along",
]
