"""Several arms that hold one object: `Grasp`, and the contacts of its fingers."""

from phipsi.grasping.finger_contacts import Cone, Contact, Edge, Point, Rigid, SoftFinger
from phipsi.grasping.grasp import Grasp
from phipsi.package_state import only_public

__all__ = ["Cone", "Contact", "Edge", "Grasp", "Point", "Rigid", "SoftFinger"]
__dir__ = only_public(__name__)
