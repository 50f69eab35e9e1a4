"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.simulation.control.controllers import (
    ComputedTorque,
    OperationalSpace,
    OperationalSpaceDynamics,
    PDGravity,
    Saturated,
)
from phipsi.simulation.control.passivity import PassivityBased
from phipsi.simulation.control.references import (
    CartesianPath,
    Constant,
    ConstantPose,
    FourierPath,
    JointPath,
    JointState,
    PoseState,
)

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
    "PassivityBased",
    "PDGravity",
    "PoseState",
    "Saturated",
]
