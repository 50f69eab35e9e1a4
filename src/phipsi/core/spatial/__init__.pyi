"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.core.spatial.exponential_coefficients import (
    cot_gap as cot_gap,
    sinc as sinc,
    versine as versine,
)
from phipsi.core.spatial.joint_groups import (
    SE2 as SE2,
    SE3 as SE3,
    SO3 as SO3,
    LieGroup as LieGroup,
    flat as flat,
)
from phipsi.core.spatial.number_kinds import (
    ARRAYS as ARRAYS,
    FLOATS as FLOATS,
    ON_ARRAYS as ON_ARRAYS,
    SERIES_BELOW as SERIES_BELOW,
    TRUTHS as TRUTHS,
    ScalarOps as ScalarOps,
    curve_value as curve_value,
    entry_value as entry_value,
    polynomial as polynomial,
)
from phipsi.core.spatial.quaternions import (
    left_jacobian,
    left_jacobian_inverse,
    log_of_matrix as log_of_matrix,
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
from phipsi.core.spatial.rotation_groups import Rotation as Rotation
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
