"""phipsi: type the operator equation of the paper, get its O(N) recursion.

>>> import phipsi as pp
>>> from phipsi.operators import H, M, phi, Jr
>>> arm = pp.examples.planar_arm(2)
>>> mass_matrix = H @ phi @ M @ phi.T @ H.T + Jr
>>> solve = pp.compile(mass_matrix.inv, arm)
>>> solve([0.0, 0.0], [1.0, 0.0]).round(6).tolist()
[1.714286, -4.285714]
"""

from phipsi import constraints, examples, robots
from phipsi.algorithms import (
    BaseParameters,
    GraphJoint,
    HybridDynamics,
    Identification,
    IKResult,
    Innovations,
    Mobility,
    System,
    base_parameters,
    bias_forces,
    body_accelerations,
    body_poses,
    body_velocities,
    center_of_mass,
    centroidal_momentum_matrix,
    centroidal_momentum_matrix_dot,
    forward_dynamics,
    forward_dynamics_derivatives,
    frame_poses,
    frame_velocities,
    gravity_forces,
    hybrid_dynamics,
    identify,
    inertial_parameters,
    innovations,
    inverse_dynamics,
    inverse_dynamics_derivatives,
    inverse_kinematics,
    jacobian,
    jacobian_dot,
    jacobian_dot_v,
    joint_reactions,
    kinetic_energy,
    kinetic_energy_regressor,
    log_det_mass_matrix,
    mass_matrix,
    mass_matrix_inverse,
    momentum,
    operational_space_inertia,
    parameter_names,
    potential_energy,
    potential_energy_regressor,
    regressor,
    tip_force_correction,
)
from phipsi.backends.dense import dense
from phipsi.backends.program import Program
from phipsi.compiler import compile, explain
from phipsi.differentiation import Family, diff, vjp
from phipsi.errors import (
    ConvergenceError,
    InputError,
    LoweringError,
    ModelError,
    ParseError,
    PhipsiError,
    PhipsiWarning,
    SimulationError,
    SingularHingeError,
    SingularMatrixError,
    SpaceError,
)
from phipsi.expressions.node import Expr
from phipsi.interfaces.conventions import (
    from_drake,
    from_mujoco,
    from_pinocchio,
    to_drake,
    to_mujoco,
    to_pinocchio,
)
from phipsi.interfaces.load import load
from phipsi.interfaces.report import report
from phipsi.interfaces.scenario import Scenario
from phipsi.interfaces.scenario_read import load_scenario
from phipsi.interfaces.urdf_write import save_urdf
from phipsi.model import Model, ModelBuilder, Pose, SpatialInertia, joints
from phipsi.operators import parse
from phipsi.proofs import Proof, identities, prove
from phipsi.simulation import Event, Trajectory, controllers, forces, references, rollout, simulate
from phipsi.sweeps.explanation import Explanation

__version__ = "0.1.0.dev0"

__all__ = [
    "BaseParameters",
    "ConvergenceError",
    "Event",
    "Explanation",
    "Expr",
    "Family",
    "GraphJoint",
    "HybridDynamics",
    "IKResult",
    "Identification",
    "Innovations",
    "InputError",
    "LoweringError",
    "Mobility",
    "Model",
    "ModelBuilder",
    "ModelError",
    "ParseError",
    "PhipsiError",
    "PhipsiWarning",
    "Pose",
    "Program",
    "Proof",
    "Scenario",
    "SimulationError",
    "SingularHingeError",
    "SingularMatrixError",
    "SpaceError",
    "SpatialInertia",
    "System",
    "Trajectory",
    "base_parameters",
    "bias_forces",
    "body_accelerations",
    "body_poses",
    "body_velocities",
    "center_of_mass",
    "centroidal_momentum_matrix",
    "centroidal_momentum_matrix_dot",
    "compile",
    "constraints",
    "controllers",
    "dense",
    "diff",
    "examples",
    "explain",
    "forces",
    "forward_dynamics",
    "forward_dynamics_derivatives",
    "frame_poses",
    "frame_velocities",
    "from_drake",
    "from_mujoco",
    "from_pinocchio",
    "gravity_forces",
    "hybrid_dynamics",
    "identify",
    "identities",
    "inertial_parameters",
    "innovations",
    "inverse_dynamics",
    "inverse_dynamics_derivatives",
    "inverse_kinematics",
    "jacobian",
    "jacobian_dot",
    "jacobian_dot_v",
    "joint_reactions",
    "joints",
    "kinetic_energy",
    "kinetic_energy_regressor",
    "load",
    "load_scenario",
    "log_det_mass_matrix",
    "mass_matrix",
    "mass_matrix_inverse",
    "momentum",
    "operational_space_inertia",
    "parameter_names",
    "parse",
    "potential_energy",
    "potential_energy_regressor",
    "prove",
    "references",
    "regressor",
    "report",
    "robots",
    "rollout",
    "save_urdf",
    "simulate",
    "tip_force_correction",
    "to_drake",
    "to_mujoco",
    "to_pinocchio",
    "vjp",
]
