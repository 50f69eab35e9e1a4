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
    from phipsi.algorithms.constrained.loop_graph import GraphJoint
    from phipsi.algorithms.constrained.stages import Stages
    from phipsi.algorithms.constrained.system import Mobility, System
    from phipsi.algorithms.dynamics.constraint_forces import (
        Dynamics,
        Impulse,
        Reactions,
        constraint_forces,
        constraint_impulse,
        delassus_matrix,
    )
    from phipsi.algorithms.dynamics.derivatives import (
        AccelerationDerivatives,
        EffortDerivatives,
        forward_dynamics_derivatives,
        inverse_dynamics_derivatives,
    )
    from phipsi.algorithms.dynamics.energy import (
        center_of_mass,
        center_of_mass_jacobian,
        centroidal_momentum_matrix,
        centroidal_momentum_matrix_dot,
        kinetic_energy,
        momentum,
        potential_energy,
    )
    from phipsi.algorithms.dynamics.equations_of_motion import (
        bias_forces,
        forward_dynamics,
        gravity_forces,
        inverse_dynamics,
        joint_reactions,
        mass_matrix,
        mass_matrix_inverse,
    )
    from phipsi.algorithms.dynamics.hybrid import hybrid_dynamics
    from phipsi.algorithms.dynamics.innovations import diagonal_coriolis, innovations_rates
    from phipsi.algorithms.dynamics.operational import (
        Innovations,
        innovations,
        log_det_mass_matrix,
        operational_space_inertia,
        tip_force_correction,
    )
    from phipsi.algorithms.dynamics.sensitivities import (
        christoffel_symbols,
        coriolis_matrix,
        log_det_mass_matrix_gradient,
        mass_matrix_inverse_sensitivity,
        mass_matrix_sensitivity,
        operational_space_inertia_sensitivity,
    )
    from phipsi.algorithms.grasping.grasp import Grasp, GraspCheck
    from phipsi.algorithms.identification.least_squares import Identification, identify
    from phipsi.algorithms.identification.minimal_parameters import BaseParameters, base_parameters
    from phipsi.algorithms.identification.regressors import (
        inertial_parameters,
        kinetic_energy_regressor,
        parameter_names,
        potential_energy_regressor,
        regressor,
    )
    from phipsi.algorithms.kinematics.ik_search import IKResult
    from phipsi.algorithms.kinematics.inverse_kinematics import inverse_kinematics
    from phipsi.algorithms.kinematics.motions import (
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
    from phipsi.interfaces.bridges.conventions import (
        from_drake,
        from_mujoco,
        from_pinocchio,
        to_drake,
        to_mujoco,
        to_pinocchio,
    )
    from phipsi.interfaces.formats.files import FileError
    from phipsi.interfaces.formats.load import load, load_system
    from phipsi.interfaces.formats.urdf.write_urdf import save_urdf
    from phipsi.interfaces.report.report_page import report
    from phipsi.interfaces.scenarios.load_scenario import load_scenario
    from phipsi.interfaces.scenarios.scenario import Scenario
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
    from phipsi.simulation.linear_steps import step_derivatives
    from phipsi.simulation.linear_system import LinearSystem
    from phipsi.simulation.linearization import linearize
    from phipsi.simulation.rollout import rollout
    from phipsi.simulation.run import simulate
    from phipsi.simulation.trajectory import Trajectory
    from phipsi.sweeps.explanation import Explanation

__version__ = "0.1.0.dev0"

__all__ = [
    "AccelerationDerivatives",
    "BaseParameters",
    "ConvergenceError",
    "Dynamics",
    "EffortDerivatives",
    "Event",
    "Explanation",
    "Expr",
    "Family",
    "FileError",
    "GraphJoint",
    "Grasp",
    "GraspCheck",
    "IKResult",
    "Identification",
    "Impulse",
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
    "Reactions",
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
    "algorithms.dynamics.constraint_forces": (
        "Dynamics Impulse Reactions constraint_forces constraint_impulse delassus_matrix"
    ),
    "algorithms.dynamics.derivatives": (
        "AccelerationDerivatives EffortDerivatives forward_dynamics_derivatives "
        "inverse_dynamics_derivatives"
    ),
    "algorithms.dynamics.innovations": "diagonal_coriolis innovations_rates",
    "algorithms.dynamics.equations_of_motion": (
        "bias_forces forward_dynamics gravity_forces inverse_dynamics joint_reactions mass_matrix "
        "mass_matrix_inverse"
    ),
    "algorithms.dynamics.energy": (
        "center_of_mass center_of_mass_jacobian centroidal_momentum_matrix "
        "centroidal_momentum_matrix_dot kinetic_energy momentum potential_energy"
    ),
    "algorithms.grasping.grasp": "Grasp GraspCheck",
    "algorithms.dynamics.hybrid": "hybrid_dynamics",
    "algorithms.identification.least_squares": "Identification identify",
    "algorithms.kinematics.ik_search": "IKResult",
    "algorithms.kinematics.inverse_kinematics": "inverse_kinematics",
    "algorithms.kinematics.motions": (
        "body_accelerations body_poses body_velocities frame_accelerations frame_poses "
        "frame_velocities jacobian jacobian_dot jacobian_dot_v"
    ),
    "algorithms.constrained.loop_graph": "GraphJoint",
    "algorithms.identification.minimal_parameters": "BaseParameters base_parameters",
    "algorithms.dynamics.operational": (
        "Innovations innovations log_det_mass_matrix operational_space_inertia tip_force_correction"
    ),
    "algorithms.identification.regressors": (
        "inertial_parameters kinetic_energy_regressor parameter_names potential_energy_regressor "
        "regressor"
    ),
    "algorithms.dynamics.sensitivities": (
        "christoffel_symbols coriolis_matrix log_det_mass_matrix_gradient "
        "mass_matrix_inverse_sensitivity mass_matrix_sensitivity "
        "operational_space_inertia_sensitivity"
    ),
    "algorithms.constrained.stages": "Stages",
    "algorithms.constrained.system": "Mobility System",
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
    "interfaces.bridges.conventions": (
        "from_drake from_mujoco from_pinocchio to_drake to_mujoco to_pinocchio"
    ),
    "interfaces.formats.files": "FileError",
    "interfaces.formats.load": "load load_system",
    "interfaces.report.report_page": "report",
    "interfaces.scenarios.scenario": "Scenario",
    "interfaces.scenarios.load_scenario": "load_scenario",
    "interfaces.formats.urdf.write_urdf": "save_urdf",
    "model.builder": "ModelBuilder",
    "model.inertia": "SpatialInertia",
    "model.model": "Model",
    "model.pose": "Pose",
    "operators": "parse",
    "proofs": "Proof identities prove",
    "simulation.contact_margins": "contact_events",
    "simulation.events": "Event",
    "simulation.gradients": "RolloutGradient rollout_gradient",
    "simulation.linear_steps": "step_derivatives",
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
