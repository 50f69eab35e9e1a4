"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi import constraints, control, errors, examples, forces, laws, molecules, operators
from phipsi.algorithms import grasping, identification
from phipsi.algorithms.constrained.system import System
from phipsi.algorithms.dynamics import centroidal, diagonal_dynamics, sensitivities
from phipsi.algorithms.dynamics.constraint_forces import (
    constraint_forces,
    constraint_impulse,
    delassus_matrix,
)
from phipsi.algorithms.dynamics.derivatives import (
    forward_dynamics_derivatives,
    inverse_dynamics_derivatives,
)
from phipsi.algorithms.dynamics.energy import (
    center_of_mass,
    elastic_energy,
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
    operational_space_inertia,
)
from phipsi.algorithms.dynamics.hybrid import hybrid_dynamics
from phipsi.algorithms.dynamics.vibration import mode_shapes, natural_frequencies
from phipsi.algorithms.kinematics.inverse_kinematics import inverse_kinematics
from phipsi.algorithms.kinematics.motions import (
    accelerations,
    jacobian,
    jacobian_dot,
    poses,
    velocities,
)
from phipsi.backends.dense import dense
from phipsi.backends.program import Program
from phipsi.calculus.differentiation import diff, vjp
from phipsi.compiler import compile, explain
from phipsi.contact.contact_points import contact_points, distances
from phipsi.derivations.by_hand import simplify
from phipsi.derivations.derive import derive
from phipsi.exporting.export import export
from phipsi.exporting.fmu import export_fmu
from phipsi.interfaces.bridges import conventions
from phipsi.interfaces.formats.load import load
from phipsi.interfaces.formats.urdf.write_urdf import save_urdf
from phipsi.interfaces.page.live_page import live_page
from phipsi.interfaces.page.render_run import render
from phipsi.interfaces.page.report_page import report
from phipsi.interfaces.page.viewer import show
from phipsi.interfaces.scenarios.load_scenario import load_scenario
from phipsi.laws import signals
from phipsi.laws.law import law
from phipsi.model import attachments, joints, shapes
from phipsi.model.builder import ModelBuilder
from phipsi.model.contact_pairs import Contacts
from phipsi.model.flexible_inertia import FlexibleInertia
from phipsi.model.flexible_ports import Port
from phipsi.model.inertia import SpatialInertia
from phipsi.model.model import Model
from phipsi.model.pose import Pose
from phipsi.model.shapes import Material
from phipsi.motion.contact_steps import contact_forces, contact_step
from phipsi.motion.equilibrium import equilibrium
from phipsi.motion.gradients import rollout_gradient
from phipsi.motion.linearization import linearize
from phipsi.motion.rollout import rollout
from phipsi.motion.step_derivatives import step_derivatives
from phipsi.operators import own, parse
from phipsi.rewrite.identity import Identity
from phipsi.simulation import topology
from phipsi.simulation.episodes import Episodes
from phipsi.simulation.events import Event
from phipsi.simulation.run import simulate
from phipsi.simulation.simulator import Simulator
from phipsi.studies.study import Study
from phipsi.theorems import identities, prove
from phipsi.trajectory.trajectory import Trajectory

__version__: str
__all__ = [
    "Contacts",
    "Episodes",
    "Event",
    "FlexibleInertia",
    "Identity",
    "Material",
    "Model",
    "ModelBuilder",
    "Port",
    "Pose",
    "Program",
    "Simulator",
    "SpatialInertia",
    "Study",
    "System",
    "Trajectory",
    "accelerations",
    "attachments",
    "bias_forces",
    "center_of_mass",
    "centroidal",
    "compile",
    "constraint_forces",
    "constraint_impulse",
    "constraints",
    "contact_forces",
    "contact_points",
    "contact_step",
    "control",
    "conventions",
    "delassus_matrix",
    "dense",
    "derive",
    "diagonal_dynamics",
    "diff",
    "distances",
    "elastic_energy",
    "equilibrium",
    "errors",
    "examples",
    "explain",
    "export",
    "export_fmu",
    "forces",
    "forward_dynamics",
    "forward_dynamics_derivatives",
    "grasping",
    "gravity_forces",
    "hybrid_dynamics",
    "identification",
    "identities",
    "inverse_dynamics",
    "inverse_dynamics_derivatives",
    "inverse_kinematics",
    "jacobian",
    "jacobian_dot",
    "joint_reactions",
    "joints",
    "kinetic_energy",
    "law",
    "laws",
    "linearize",
    "live_page",
    "load",
    "load_scenario",
    "mass_matrix",
    "mass_matrix_inverse",
    "mode_shapes",
    "molecules",
    "momentum",
    "natural_frequencies",
    "operational_space_inertia",
    "operators",
    "own",
    "parse",
    "poses",
    "potential_energy",
    "prove",
    "render",
    "report",
    "rollout",
    "rollout_gradient",
    "save_urdf",
    "sensitivities",
    "shapes",
    "show",
    "signals",
    "simplify",
    "simulate",
    "step_derivatives",
    "topology",
    "velocities",
    "vjp",
]
