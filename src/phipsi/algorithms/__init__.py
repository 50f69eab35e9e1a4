"""Named algorithms: each is an operator expression, compiled for the model it is called with."""

from phipsi.algorithms.closed_chain import (
    ConstrainedMotion,
    constrained_dynamics,
    constraint_forces,
    constraint_impulse,
    delassus_matrix,
)
from phipsi.algorithms.closed_derivatives import constrained_dynamics_derivatives
from phipsi.algorithms.closed_inverse import DrivenMotion, closed_inverse_dynamics
from phipsi.algorithms.derivatives import (
    forward_dynamics_derivatives,
    inverse_dynamics_derivatives,
)
from phipsi.algorithms.diagonal import diagonal_coriolis, innovations_rates
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
from phipsi.algorithms.grasp import Grasp, GraspCheck
from phipsi.algorithms.hybrid import HybridDynamics, hybrid_dynamics
from phipsi.algorithms.identification import Identification, identify
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
from phipsi.algorithms.loop_graph import GraphJoint
from phipsi.algorithms.minimal_parameters import BaseParameters, base_parameters
from phipsi.algorithms.operational import (
    Innovations,
    innovations,
    log_det_mass_matrix,
    operational_space_inertia,
    tip_force_correction,
)
from phipsi.algorithms.regressors import (
    inertial_parameters,
    kinetic_energy_regressor,
    parameter_names,
    potential_energy_regressor,
    regressor,
)
from phipsi.algorithms.sensitivities import (
    christoffel_symbols,
    coriolis_matrix,
    log_det_mass_matrix_gradient,
    mass_matrix_inverse_sensitivity,
    mass_matrix_sensitivity,
    operational_space_inertia_sensitivity,
)
from phipsi.algorithms.stages import Stages
from phipsi.algorithms.system import Mobility, System

__all__ = [
    "BaseParameters",
    "ConstrainedMotion",
    "DrivenMotion",
    "GraphJoint",
    "Grasp",
    "GraspCheck",
    "HybridDynamics",
    "IKResult",
    "Identification",
    "Innovations",
    "Mobility",
    "Stages",
    "System",
    "base_parameters",
    "bias_forces",
    "body_accelerations",
    "body_poses",
    "body_velocities",
    "center_of_mass",
    "centroidal_momentum_matrix",
    "centroidal_momentum_matrix_dot",
    "christoffel_symbols",
    "closed_inverse_dynamics",
    "constrained_dynamics",
    "constrained_dynamics_derivatives",
    "constraint_forces",
    "constraint_impulse",
    "coriolis_matrix",
    "delassus_matrix",
    "diagonal_coriolis",
    "forward_dynamics",
    "forward_dynamics_derivatives",
    "frame_poses",
    "frame_velocities",
    "gravity_forces",
    "hybrid_dynamics",
    "identify",
    "inertial_parameters",
    "innovations",
    "innovations_rates",
    "inverse_dynamics",
    "inverse_dynamics_derivatives",
    "inverse_kinematics",
    "jacobian",
    "jacobian_dot",
    "jacobian_dot_v",
    "joint_reactions",
    "kinetic_energy",
    "kinetic_energy_regressor",
    "log_det_mass_matrix",
    "log_det_mass_matrix_gradient",
    "mass_matrix",
    "mass_matrix_inverse",
    "mass_matrix_inverse_sensitivity",
    "mass_matrix_sensitivity",
    "momentum",
    "operational_space_inertia",
    "operational_space_inertia_sensitivity",
    "parameter_names",
    "potential_energy",
    "potential_energy_regressor",
    "regressor",
    "tip_force_correction",
]
