"""phipsi: type the operator equation of the paper, get its O(N) recursion.

>>> import phipsi as pp
>>> from phipsi.operators import H, M, phi, Jr
>>> arm = pp.examples.planar_arm(2)
>>> mass_matrix = H @ phi @ M @ phi.T @ H.T + Jr
>>> solve = pp.compile(mass_matrix.inv, arm)
>>> solve([0.0, 0.0], [1.0, 0.0]).round(6).tolist()
[1.714286, -4.285714]
"""

import importlib
import sys
from typing import TYPE_CHECKING

import phipsi.loaded  # noqa: F401  first of all: it notes the time

if TYPE_CHECKING:
    from phipsi import constraints, contacts, examples, robots
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
        center_of_mass_jacobian,
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
        frame_accelerations,
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
    from phipsi.backends.dense import dense
    from phipsi.backends.program import Program
    from phipsi.calculus.differentiation import diff, vjp
    from phipsi.calculus.families import Family
    from phipsi.compiler import compile, explain
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
    from phipsi.interfaces.files import FileError
    from phipsi.interfaces.load import load, load_system
    from phipsi.interfaces.report import report
    from phipsi.interfaces.scenario import Scenario
    from phipsi.interfaces.scenario_read import load_scenario
    from phipsi.interfaces.urdf_write import save_urdf
    from phipsi.model import joints
    from phipsi.model.builder import ModelBuilder
    from phipsi.model.inertia import SpatialInertia
    from phipsi.model.model import Model
    from phipsi.model.pose import Pose
    from phipsi.operators import parse
    from phipsi.proofs import Proof, identities, prove
    from phipsi.simulation import controllers, forces, references, topology
    from phipsi.simulation.contact_margins import contact_events
    from phipsi.simulation.events import Event
    from phipsi.simulation.gradients import RolloutGradient, rollout_gradient
    from phipsi.simulation.linear_system import LinearSystem
    from phipsi.simulation.linearization import linearize
    from phipsi.simulation.rollout import rollout
    from phipsi.simulation.run import simulate
    from phipsi.simulation.step_derivatives import step_derivatives
    from phipsi.simulation.trajectory import Trajectory
    from phipsi.sweeps.explanation import Explanation

__version__ = "0.1.0.dev0"

__all__ = [
    "BaseParameters",
    "ConstrainedMotion",
    "ConvergenceError",
    "DrivenMotion",
    "Event",
    "Explanation",
    "Expr",
    "Family",
    "FileError",
    "GraphJoint",
    "Grasp",
    "GraspCheck",
    "HybridDynamics",
    "IKResult",
    "Identification",
    "Innovations",
    "InputError",
    "LinearSystem",
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
    "RolloutGradient",
    "Scenario",
    "SimulationError",
    "SingularHingeError",
    "SingularMatrixError",
    "SpaceError",
    "SpatialInertia",
    "Stages",
    "System",
    "Trajectory",
    "base_parameters",
    "bias_forces",
    "body_accelerations",
    "body_poses",
    "body_velocities",
    "center_of_mass",
    "center_of_mass_jacobian",
    "centroidal_momentum_matrix",
    "centroidal_momentum_matrix_dot",
    "christoffel_symbols",
    "compile",
    "closed_inverse_dynamics",
    "constrained_dynamics",
    "constrained_dynamics_derivatives",
    "constraint_forces",
    "constraint_impulse",
    "constraints",
    "contact_events",
    "contacts",
    "controllers",
    "coriolis_matrix",
    "delassus_matrix",
    "dense",
    "diagonal_coriolis",
    "diff",
    "examples",
    "explain",
    "forces",
    "forward_dynamics",
    "forward_dynamics_derivatives",
    "frame_accelerations",
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
    "innovations_rates",
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
    "linearize",
    "load",
    "load_scenario",
    "load_system",
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
    "parse",
    "potential_energy",
    "potential_energy_regressor",
    "prove",
    "references",
    "regressor",
    "report",
    "robots",
    "rollout",
    "rollout_gradient",
    "save_urdf",
    "simulate",
    "step_derivatives",
    "tip_force_correction",
    "to_drake",
    "to_mujoco",
    "to_pinocchio",
    "topology",
    "vjp",
]

# Where each name lives, below `phipsi`. Nothing is loaded before it is used: `import phipsi` costs
# what this file costs. A test compares the table with the imports above, which are for readers,
# editors and type checkers, and with `__all__`.
_HOMES = {
    "algorithms.closed_chain": (
        "ConstrainedMotion constrained_dynamics constraint_forces constraint_impulse "
        "delassus_matrix"
    ),
    "algorithms.closed_derivatives": "constrained_dynamics_derivatives",
    "algorithms.closed_inverse": "DrivenMotion closed_inverse_dynamics",
    "algorithms.derivatives": "forward_dynamics_derivatives inverse_dynamics_derivatives",
    "algorithms.diagonal": "diagonal_coriolis innovations_rates",
    "algorithms.dynamics": (
        "bias_forces forward_dynamics gravity_forces inverse_dynamics joint_reactions mass_matrix "
        "mass_matrix_inverse"
    ),
    "algorithms.energy": (
        "center_of_mass center_of_mass_jacobian centroidal_momentum_matrix "
        "centroidal_momentum_matrix_dot kinetic_energy momentum potential_energy"
    ),
    "algorithms.grasp": "Grasp GraspCheck",
    "algorithms.hybrid": "HybridDynamics hybrid_dynamics",
    "algorithms.identification": "Identification identify",
    "algorithms.ik_search": "IKResult",
    "algorithms.inverse_kinematics": "inverse_kinematics",
    "algorithms.kinematics": (
        "body_accelerations body_poses body_velocities frame_accelerations frame_poses "
        "frame_velocities jacobian jacobian_dot jacobian_dot_v"
    ),
    "algorithms.loop_graph": "GraphJoint",
    "algorithms.minimal_parameters": "BaseParameters base_parameters",
    "algorithms.operational": (
        "Innovations innovations log_det_mass_matrix operational_space_inertia tip_force_correction"
    ),
    "algorithms.regressors": (
        "inertial_parameters kinetic_energy_regressor parameter_names potential_energy_regressor "
        "regressor"
    ),
    "algorithms.sensitivities": (
        "christoffel_symbols coriolis_matrix log_det_mass_matrix_gradient "
        "mass_matrix_inverse_sensitivity mass_matrix_sensitivity "
        "operational_space_inertia_sensitivity"
    ),
    "algorithms.stages": "Stages",
    "algorithms.system": "Mobility System",
    "backends.dense": "dense",
    "backends.program": "Program",
    "calculus.differentiation": "diff vjp",
    "calculus.families": "Family",
    "compiler": "compile explain",
    "errors": (
        "ConvergenceError InputError LoweringError ModelError ParseError PhipsiError "
        "PhipsiWarning SimulationError SingularHingeError SingularMatrixError SpaceError"
    ),
    "expressions.node": "Expr",
    "interfaces.conventions": (
        "from_drake from_mujoco from_pinocchio to_drake to_mujoco to_pinocchio"
    ),
    "interfaces.files": "FileError",
    "interfaces.load": "load load_system",
    "interfaces.report": "report",
    "interfaces.scenario": "Scenario",
    "interfaces.scenario_read": "load_scenario",
    "interfaces.urdf_write": "save_urdf",
    "model.builder": "ModelBuilder",
    "model.inertia": "SpatialInertia",
    "model.model": "Model",
    "model.pose": "Pose",
    "operators": "parse",
    "proofs": "Proof identities prove",
    "simulation.contact_margins": "contact_events",
    "simulation.events": "Event",
    "simulation.gradients": "RolloutGradient rollout_gradient",
    "simulation.step_derivatives": "step_derivatives",
    "simulation.linear_system": "LinearSystem",
    "simulation.linearization": "linearize",
    "simulation.rollout": "rollout",
    "simulation.run": "simulate",
    "simulation.trajectory": "Trajectory",
    "sweeps.explanation": "Explanation",
}
_MODULES = (
    "algorithms backends calculus compiler constraints contacts errors examples "
    "expressions interfaces model model.joints operators proofs rewrite robots simulation "
    "simulation.controllers simulation.forces simulation.references simulation.topology spatial "
    "sweeps"
)
_HOME = {name: path for path, names in _HOMES.items() for name in names.split()}
_MODULE = {path.rpartition(".")[2]: path for path in _MODULES.split()}

if not TYPE_CHECKING:

    def __getattr__(name):
        """Load what is asked for, once; from then on it is an ordinary attribute."""
        if name in _HOME:
            value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
        elif name in _MODULE:
            value = importlib.import_module(f"{__name__}.{_MODULE[name]}")
        else:
            from phipsi.interfaces.other_names import name_here

            raise AttributeError(
                f"module {__name__!r} has no attribute {name!r}{name_here(name)}",
                name=name,
                obj=sys.modules[__name__],
            )
        globals()[name] = value
        return value

    def __dir__():
        return sorted({*globals(), *_HOME, *_MODULE})
