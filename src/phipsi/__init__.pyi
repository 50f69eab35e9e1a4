"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi import (
    constraints,
    errors,
    examples,
    grasping,
    identification,
    laws,
    molecules,
    operators,
)
from phipsi.algorithms.constrained import minimal_velocities
from phipsi.algorithms.constrained.system import System
from phipsi.algorithms.dynamics import (
    centroidal,
    diagonal_dynamics,
    estimation,
    exploration,
    sensitivities,
)
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
from phipsi.algorithms.dynamics.equation_terms import (
    bias_forces,
    gravity_forces,
    mass_matrix,
    mass_matrix_inverse,
)
from phipsi.algorithms.dynamics.equations_of_motion import (
    forward_dynamics,
    inverse_dynamics,
    joint_reactions,
)
from phipsi.algorithms.dynamics.hybrid import hybrid_dynamics
from phipsi.algorithms.dynamics.point_inertia import (
    operational_space_inertia,
    operational_space_inertia_inverse,
)
from phipsi.algorithms.dynamics.sensitivities import coriolis_product
from phipsi.algorithms.kinematics import manipulability
from phipsi.algorithms.kinematics.motions import (
    accelerations,
    jacobian,
    jacobian_dot,
    poses,
    velocities,
)
from phipsi.attached import shapes
from phipsi.attached.material import Material
from phipsi.codegen.export import export
from phipsi.codegen.fmu import export_fmu
from phipsi.contact.contact_pairs import Contacts
from phipsi.contact.contact_points import contact_points, distances
from phipsi.core import extensions
from phipsi.core.backends.program import Program
from phipsi.core.calculus.differentiation import diff, vjp
from phipsi.core.compiler import compile, explain
from phipsi.core.dense import evaluate_dense
from phipsi.core.model import attachments, joints
from phipsi.core.model.builder import ModelBuilder
from phipsi.core.model.flexible_inertia import FlexibleInertia
from phipsi.core.model.flexible_ports import Port
from phipsi.core.model.inertia import SpatialInertia
from phipsi.core.model.model import Model
from phipsi.core.model.pose import Pose
from phipsi.core.rewrite.identity import Identity
from phipsi.embedding.embedded_system import EmbeddedSystem, embed_constraints
from phipsi.files import conventions
from phipsi.files.load import load
from phipsi.files.urdf.write_urdf import save_urdf
from phipsi.flexible.vibration import mode_shapes, natural_frequencies
from phipsi.kinematics.inverse_kinematics import inverse_kinematics
from phipsi.laws import signals
from phipsi.laws.law import law
from phipsi.operators import parse
from phipsi.pages.live_page import live_page
from phipsi.pages.render_run import render
from phipsi.pages.report_page import report
from phipsi.pages.viewer import show
from phipsi.papers.derivations.derive import derive
from phipsi.papers.derivations.manipulate import simplify
from phipsi.papers.theorems import identities, prove
from phipsi.scenarios.load_scenario import load_scenario
from phipsi.simulation import control, forces
from phipsi.simulation.analysis.equilibrium import equilibrium
from phipsi.simulation.analysis.linearization import linearize
from phipsi.simulation.analysis.step_derivatives import step_derivatives
from phipsi.simulation.compiled.episodes import Episodes
from phipsi.simulation.compiled.simulator import Simulator
from phipsi.simulation.impacts.single_contact_step import contact_forces, contact_step
from phipsi.simulation.runs.gradients import rollout_gradient
from phipsi.simulation.runs.rollout import rollout
from phipsi.simulation.simulate import topology
from phipsi.simulation.simulate.events import Event
from phipsi.simulation.simulate.run import simulate
from phipsi.simulation.trajectory.trajectory import Trajectory
from phipsi.studies.study import Study
from phipsi.user_operators import custom

__version__: str
__all__ = [
    "Contacts",
    "EmbeddedSystem",
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
    "coriolis_product",
    "custom",
    "delassus_matrix",
    "derive",
    "diagonal_dynamics",
    "diff",
    "distances",
    "elastic_energy",
    "embed_constraints",
    "equilibrium",
    "errors",
    "estimation",
    "evaluate_dense",
    "examples",
    "explain",
    "exploration",
    "export",
    "export_fmu",
    "extensions",
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
    "manipulability",
    "mass_matrix",
    "mass_matrix_inverse",
    "minimal_velocities",
    "mode_shapes",
    "molecules",
    "momentum",
    "natural_frequencies",
    "operational_space_inertia",
    "operational_space_inertia_inverse",
    "operators",
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
