"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.simulation.control.controllers import (
    ComputedTorque,
    OperationalSpace,
    OperationalSpaceDynamics,
    PDGravity,
    Saturated,
)
from phipsi.simulation.control.grasp_control import GraspControl
from phipsi.simulation.control.hybrid_control import HybridForcePosition
from phipsi.simulation.control.innovations_control import InnovationsControl
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
from phipsi.simulation.control.task_frames import TaskFrame

__all__ = [
    "CartesianPath",
    "ComputedTorque",
    "Constant",
    "ConstantPose",
    "FourierPath",
    "GraspControl",
    "HybridForcePosition",
    "InnovationsControl",
    "JointPath",
    "JointState",
    "OperationalSpace",
    "OperationalSpaceDynamics",
    "PassivityBased",
    "PDGravity",
    "PoseState",
    "Saturated",
    "TaskFrame",
]
