"""Several arms that hold one object: `Grasp`, and the contacts of its fingers."""

from phipsi.grasping.finger_contacts import (
    Cone,
    Contact,
    Edge,
    Frictionless,
    Point,
    Rigid,
    SlidingFace,
    SoftFinger,
)
from phipsi.grasping.grasp import Grasp
from phipsi.package_state import only_public

__all__ = [
    "Cone", "Contact", "Edge", "Frictionless", "Grasp", "Point", "Rigid", "SlidingFace",
    "SoftFinger",
]  # fmt: skip
__dir__ = only_public(__name__)
