"""Controllers for `simulate` and the references they follow.

A controller is called as ``controller(t, q, v)`` and returns joint efforts; a reference is a
function of time, the motion of joints or of a frame.
"""

from phipsi.package_state import offer

__getattr__, __dir__, __all__ = offer(
    __name__,
    {
        "controllers": (
            "ComputedTorque OperationalSpace OperationalSpaceDynamics PDGravity Saturated"
        ),
        "grasp_control": "GraspControl",
        "hybrid_control": "HybridForcePosition",
        "innovations_control": "InnovationsControl",
        "passivity": "PassivityBased",
        "references": (
            "CartesianPath Constant ConstantPose FourierPath JointPath JointState PoseState"
        ),
        "task_frames": "TaskFrame",
    },
)  # pyright: ignore[reportUnsupportedDunderAll]
