"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.simulation.forces.body_forces import GravityField, PointSpring, Rope, Wrench
from phipsi.simulation.forces.elastic_couplings import ElasticCoupling
from phipsi.simulation.forces.force import Force, State
from phipsi.simulation.forces.frame_forces import Bushing, TorsionSpring, WindDrag
from phipsi.simulation.forces.joint_forces import (
    JointDamper,
    JointFriction,
    JointSpring,
    StribeckFriction,
    from_model,
)
from phipsi.simulation.forces.joint_limits import JointLimit

__all__ = [
    "Bushing",
    "ElasticCoupling",
    "Force",
    "GravityField",
    "JointDamper",
    "JointFriction",
    "JointLimit",
    "JointSpring",
    "PointSpring",
    "Rope",
    "State",
    "StribeckFriction",
    "TorsionSpring",
    "WindDrag",
    "Wrench",
    "from_model",
]
