"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.core.spatial.exponential_coefficients import cot_gap as cot_gap
from phipsi.core.spatial.exponential_coefficients import sinc as sinc
from phipsi.core.spatial.exponential_coefficients import versine as versine
from phipsi.core.spatial.joint_groups import SE2 as SE2
from phipsi.core.spatial.joint_groups import SE3 as SE3
from phipsi.core.spatial.joint_groups import SO3 as SO3
from phipsi.core.spatial.joint_groups import LieGroup as LieGroup
from phipsi.core.spatial.joint_groups import flat as flat
from phipsi.core.spatial.number_kinds import ARRAYS as ARRAYS
from phipsi.core.spatial.number_kinds import FLOATS as FLOATS
from phipsi.core.spatial.number_kinds import ON_ARRAYS as ON_ARRAYS
from phipsi.core.spatial.number_kinds import SERIES_BELOW as SERIES_BELOW
from phipsi.core.spatial.number_kinds import TRUTHS as TRUTHS
from phipsi.core.spatial.number_kinds import ScalarOps as ScalarOps
from phipsi.core.spatial.number_kinds import curve_value as curve_value
from phipsi.core.spatial.number_kinds import entry_value as entry_value
from phipsi.core.spatial.number_kinds import polynomial as polynomial
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
from phipsi.core.spatial.quaternions import log_of_matrix as log_of_matrix
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
