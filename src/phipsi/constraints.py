"""Constraints that close loops: joints between any two bodies, gears and couplings, general rows.

A tree has one joint per body. Every further joint is a constraint of a `System`:

>>> import phipsi as pp
>>> pin = pp.constraints.Revolute((0, 0, 1), name="pin", a=("rod", (1, 0, 0)), b="world")

**Ends.** `a` and `b` are a body, a frame or "world", alone or with a place on it: an offset (3,) in
m, or a `Pose`. This is the constraint's joint frame on that side. An end given without a rotation
has the axes of the body or frame it names.

**Axes** are given in the joint frame of `a` and have the same numbers in the joint frame of `b`: at
zero displacement the two frames coincide, as for the joints of a tree. Where the axis has other
numbers in `b`, give `axis_b`, or give `b` a `Pose` with the rotation.

**Gears** relate coordinates of joints of the tree: `Gear`, `Planetary`, `Differential`,
`RackPinion`, `Belt`, `Screw`, or `Coupling` for any other linear relation; `Cam` is any smooth one,
also with time; `Motor` drives a joint.
"""

from phipsi.core.constraints import (
    Constraint,
    Coupling,
    Cylindrical,
    Distance,
    End,
    GraphJoint,
    Planar,
    PointOnCircle,
    PointOnLine,
    PointOnPlane,
    Prismatic,
    Revolute,
    Rows,
    Spherical,
    Universal,
    Weld,
    z_along,
)
from phipsi.package_state import only_public
from phipsi.transmissions import Belt, Cam, Differential, Gear, Motor, Planetary, RackPinion, Screw

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
    "PointOnCircle",
    "PointOnLine",
    "PointOnPlane",
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
__dir__ = only_public(__name__)
