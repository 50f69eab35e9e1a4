"""Named algorithms: each is an operator expression, compiled for the model it is called with."""

from phipsi.algorithms.dynamics import (
    bias_forces,
    forward_dynamics,
    gravity_forces,
    inverse_dynamics,
    joint_reactions,
    mass_matrix,
    mass_matrix_inverse,
)
from phipsi.algorithms.energy import (
    center_of_mass,
    centroidal_momentum_matrix,
    centroidal_momentum_matrix_dot,
    kinetic_energy,
    momentum,
    potential_energy,
)
from phipsi.algorithms.hybrid import HybridDynamics, hybrid_dynamics
from phipsi.algorithms.ik_search import IKResult
from phipsi.algorithms.inverse_kinematics import inverse_kinematics
from phipsi.algorithms.kinematics import (
    body_accelerations,
    body_poses,
    body_velocities,
    frame_poses,
    frame_velocities,
    jacobian,
    jacobian_dot,
    jacobian_dot_v,
)
from phipsi.algorithms.operational import (
    Innovations,
    innovations,
    log_det_mass_matrix,
    operational_space_inertia,
    tip_force_correction,
)
from phipsi.algorithms.system import Mobility, System

__all__ = [
    "HybridDynamics",
    "IKResult",
    "Innovations",
    "Mobility",
    "System",
    "bias_forces",
    "body_accelerations",
    "body_poses",
    "body_velocities",
    "center_of_mass",
    "centroidal_momentum_matrix",
    "centroidal_momentum_matrix_dot",
    "forward_dynamics",
    "frame_poses",
    "frame_velocities",
    "gravity_forces",
    "hybrid_dynamics",
    "innovations",
    "inverse_dynamics",
    "inverse_kinematics",
    "jacobian",
    "jacobian_dot",
    "jacobian_dot_v",
    "joint_reactions",
    "kinetic_energy",
    "log_det_mass_matrix",
    "mass_matrix",
    "mass_matrix_inverse",
    "momentum",
    "operational_space_inertia",
    "potential_energy",
    "tip_force_correction",
]
