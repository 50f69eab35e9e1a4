"""Force elements for `simulate(forces=[...])`: springs, dampers, stops, fields, and your own.

Joint elements give efforts in the directions of v; body elements give forces on bodies, at their
origins in body axes, as `f_ext` everywhere in the library. Conservative elements also give their
energy, which `Trajectory.energy` contains.
"""

from phipsi.forces.body_forces import GravityField, PointSpring, Rope, Wrench
from phipsi.forces.elastic_couplings import ElasticCoupling
from phipsi.forces.force import Force, State
from phipsi.forces.frame_forces import Bushing, TorsionSpring, WindDrag
from phipsi.forces.joint_forces import (
    JointDamper,
    JointFriction,
    JointSpring,
    StribeckFriction,
    from_ratings,
)
from phipsi.forces.joint_stops import JointStop
from phipsi.loaded import only_public

__all__ = [
    "Bushing",
    "ElasticCoupling",
    "Force",
    "GravityField",
    "JointDamper",
    "JointFriction",
    "JointSpring",
    "JointStop",
    "PointSpring",
    "Rope",
    "State",
    "StribeckFriction",
    "TorsionSpring",
    "WindDrag",
    "Wrench",
    "from_ratings",
]
__dir__ = only_public(__name__)
