"""Controllers for `simulate` and the references they follow.

A controller is called as ``controller(t, q, v)`` and returns joint efforts; a reference is a
function of time, the motion of joints or of a frame.
"""

from phipsi.control.controllers import (
    ComputedTorque,
    OperationalSpace,
    OperationalSpaceDynamics,
    PDGravity,
    Saturated,
)
from phipsi.control.references import (
    CartesianPath,
    Constant,
    ConstantPose,
    FourierPath,
    JointPath,
    JointState,
    PoseState,
)
from phipsi.loaded import only_public

__all__ = [
    "CartesianPath",
    "ComputedTorque",
    "Constant",
    "ConstantPose",
    "FourierPath",
    "JointPath",
    "JointState",
    "OperationalSpace",
    "OperationalSpaceDynamics",
    "PDGravity",
    "PoseState",
    "Saturated",
]
__dir__ = only_public(__name__)
