"""All joint types: `Revolute(axis=(0, 0, 1))`, `Spherical()`, … , `Composite([...])`."""

from phipsi.model.joint import Joint
from phipsi.model.joints_axial import (
    Cylindrical,
    Fixed,
    Helical,
    Prismatic,
    Revolute,
    Translation,
    Universal,
)
from phipsi.model.joints_composite import Composite
from phipsi.model.joints_group import Free, Planar, Spherical

__all__ = [
    "Composite",
    "Cylindrical",
    "Fixed",
    "Free",
    "Helical",
    "Joint",
    "Planar",
    "Prismatic",
    "Revolute",
    "Spherical",
    "Translation",
    "Universal",
]
