"""Spatial vectors, rotations, and the groups that joints move on.

Conventions, stated once for the whole library: a motion is ``[ω; v]`` and a force is ``[N; F]``,
angular part first; components are in body axes, about the body's origin; quaternions are
``(w, x, y, z)``; a pose ``(R, p)`` maps body components to the outer frame, ``x_out = R x + p``.
All functions batch on leading axes. Those without a branch on values (`skew`, `crm`, `crf`,
`phi`, `quat_multiply`, `quat_to_matrix`, …) also take complex and object arrays.

Reasons: docs/decisions/0002 and 0004.
"""

from phipsi.core.spatial.quaternions import (
    left_jacobian,
    left_jacobian_inverse,
    matrix_to_quat,
    pose_matrix,
    quat_conjugate,
    quat_exp,
    quat_log,
    quat_multiply,
    quat_normalize,
    quat_scaled,
    quat_to_matrix,
    so3_exp,
    so3_log,
)
from phipsi.core.spatial.vectors import (
    crf,
    crm,
    crq,
    inertia_of,
    inertia_trace,
    phi,
    skew,
    vee,
    vee_force,
)
from phipsi.package_state import offer_within

__all__ = [
    "crf",
    "crm",
    "crq",
    "inertia_of",
    "inertia_trace",
    "left_jacobian",
    "left_jacobian_inverse",
    "matrix_to_quat",
    "phi",
    "pose_matrix",
    "quat_conjugate",
    "quat_exp",
    "quat_log",
    "quat_multiply",
    "quat_normalize",
    "quat_scaled",
    "quat_to_matrix",
    "skew",
    "so3_exp",
    "so3_log",
    "vee",
    "vee_force",
]

__getattr__ = offer_within(
    __name__,
    {
        "exponential_coefficients": "cot_gap sinc versine",
        "joint_groups": "SE2 SE3 SO3 LieGroup flat",
        "number_kinds": (
            "ARRAYS FLOATS ON_ARRAYS SERIES_BELOW TRUTHS ScalarOps curve_value entry_value "
            "polynomial"
        ),
        "quaternions": "log_of_matrix",
        "rotation_groups": "Rotation",
    },
)
