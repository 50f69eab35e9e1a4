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

import phipsi.package_state  # first of all: it notes the time
import phipsi.views

__version__ = "0.1.0"

# Every public name, once: topic, page of the documentation, and the module below `phipsi` in which
# it lives; "." is the module itself. `__getattr__`, `__dir__` and `__all__` come from this table,
# as do `__init__.pyi` for type checkers and docs/api.md, which scripts/public_names.py writes.
# Nothing is loaded before it is used.
_TABLE = {
    ("Mechanisms", "models.md"): {
        "core.model.builder": "ModelBuilder",
        "core.model.model": "Model",
        "core.model.pose": "Pose",
        "core.model.inertia": "SpatialInertia",
        "core.model.flexible_inertia": "FlexibleInertia",
        "core.model.flexible_ports": "Port",
        "core.model.joints": ".",
        "core.model.attachments": ".",
        "examples": ".",
    },
    ("Files", "importing.md"): {
        "files.load": "load",
        "files.urdf.write_urdf": "save_urdf",
        "files.conventions": ".",
    },
    ("Expressions", "compile.md"): {
        "operators": ". parse",
        "user_operators.custom": ".",
        "core.extensions": ".",
        "core.compiler": "compile explain",
        "core.backends.program": "Program",
        "core.dense": "evaluate_dense",
    },
    ("Derivatives", "derivatives.md"): {
        "core.calculus.differentiation": "diff vjp",
        "algorithms.dynamics.derivatives": (
            "forward_dynamics_derivatives inverse_dynamics_derivatives"
        ),
        "algorithms.dynamics.sensitivities": ".",
        "simulation.analysis.step_derivatives": "step_derivatives",
        "simulation.analysis.linearization": "linearize",
        "simulation.analysis.equilibrium": "equilibrium",
        "simulation.runs.gradients": "rollout_gradient",
    },
    ("Identities", "identities.md"): {
        "core.rewrite.identity": "Identity",
        "papers.theorems": "identities prove",
    },
    ("Derivations", "derivations.md"): {
        "papers.derivations.manipulate": "simplify",
        "papers.derivations.derive": "derive",
    },
    ("Kinematics", "notation.md"): {
        "algorithms.kinematics.motions": ("accelerations jacobian jacobian_dot poses velocities"),
        "kinematics.inverse_kinematics": "inverse_kinematics",
        "algorithms.kinematics.manipulability": ".",
    },
    ("Dynamics", "notation.md"): {
        "algorithms.dynamics.equation_terms": (
            "bias_forces gravity_forces mass_matrix mass_matrix_inverse"
        ),
        "algorithms.dynamics.point_inertia": (
            "operational_space_inertia operational_space_inertia_inverse"
        ),
        "algorithms.dynamics.equations_of_motion": (
            "forward_dynamics inverse_dynamics joint_reactions"
        ),
        "algorithms.dynamics.energy": (
            "center_of_mass elastic_energy kinetic_energy momentum potential_energy"
        ),
        "algorithms.dynamics.centroidal": ".",
        "algorithms.dynamics.hybrid": "hybrid_dynamics",
        "flexible.vibration": "mode_shapes natural_frequencies",
        "algorithms.dynamics.sensitivities": "coriolis_product",
        "algorithms.dynamics.diagonal_dynamics": ".",
        "algorithms.dynamics.exploration": ".",
        "algorithms.dynamics.estimation": ".",
    },
    ("Loops", "closed-chains.md"): {
        "algorithms.constrained.system": "System",
        "algorithms.constrained.minimal_velocities": ".",
        "embedding.embedded_system": "EmbeddedSystem embed_constraints",
        "constraints": ".",
        "algorithms.dynamics.constraint_forces": (
            "constraint_forces constraint_impulse delassus_matrix"
        ),
    },
    ("Grasping", "grasping.md"): {"grasping": "."},
    ("Contact", "contact.md"): {
        "attached.shapes": ".",
        "attached.material": "Material",
        "contact.contact_pairs": "Contacts",
        "contact.contact_points": "contact_points distances",
        "simulation.impacts.single_contact_step": "contact_forces contact_step",
    },
    ("Export", "code-generation.md"): {"codegen.export": "export"},
    ("Simulation", "simulation.md"): {
        "simulation.simulate.run": "simulate",
        "simulation.runs.rollout": "rollout",
        "simulation.compiled.simulator": "Simulator",
        "simulation.compiled.episodes": "Episodes",
        "simulation.trajectory.trajectory": "Trajectory",
        "simulation.simulate.events": "Event",
        "simulation.forces": ".",
        "simulation.simulate.topology": ".",
        "pages.report_page": "report",
    },
    ("Live pages", "live-pages.md"): {
        "pages.live_page": "live_page",
        "pages.viewer": "show",
        "pages.render_run": "render",
    },
    ("Studies", "monte-carlo.md"): {"studies.study": "Study"},
    ("Molecules", "molecules.md"): {"molecules": "."},
    ("FMUs", "fmu.md"): {"codegen.fmu": "export_fmu"},
    ("Laws", "custom-forces-and-controllers.md"): {
        "laws.law": "law",
        "laws": ".",
        "laws.signals": ".",
    },
    ("Scenarios", "scenarios.md"): {"scenarios.load_scenario": "load_scenario"},
    ("Control", "control.md"): {"simulation.control": "."},
    ("Identification", "identification.md"): {"identification": "."},
    ("Errors", "troubleshooting.md"): {"errors": "."},
}
# What early layers use of late ones (phipsi/views.py).
_VIEWS = {
    "other names": "phipsi.files.foreign_name_hints:name_here",
    "html": "phipsi.pages.displays:html_of",
    "report": "phipsi.pages.report_page:report",
    "report as text": "phipsi.pages.report_page:report_html",
    "mode page": "phipsi.pages.mode_page:mode_page",
    "export": "phipsi.codegen.export:export",
    "proved rules": "phipsi.papers.theorems.rule_proofs:proved_rules",
    "change as printed": "phipsi.core.calculus.printed_changes:change_by_angle",
    "rate as printed": "phipsi.core.calculus.printed_changes:time_derivative",
    "root of the inertias": "phipsi.user_operators.inertia_root:inertia_root",
    "expand": "phipsi.papers.derivations.manipulate:expand",
    "rewrite": "phipsi.papers.derivations.manipulate:rewrite",
    "collect": "phipsi.papers.derivations.manipulate:collect",
    "subs": "phipsi.papers.derivations.manipulate:subs",
    "flexible beam": "phipsi.flexible.beams:beam",
    "flexible body of matrices": "phipsi.flexible.fe_modes:from_matrices",
    "matrices of a mesh": "phipsi.flexible.finite_elements:mesh_matrices",
    "write flexible body": "phipsi.flexible.invariants:write_arrays",
    "read flexible body": "phipsi.flexible.invariants:read_arrays",
    "invariants of points": "phipsi.flexible.invariants:invariants_of_points",
    "reference backend": "phipsi.core.backends.reference:ReferenceBackend",
    "native backend": "phipsi.native.native_backend:NativeBackend",
    "clock motor": "phipsi.transmissions.motors:clock_motor",
}
# Data that hang on mechanisms, by their fields in stored models (phipsi/model/attachments.py).
_ATTACHMENTS = {
    "shapes": "phipsi.attached.attached_shapes:BodyShapes",
    "rotors": "phipsi.transmissions.attached_rotors:Rotors",
    "name couplings joint_properties geometry diagnosis exclusions pairs": (
        "phipsi.attached.file_metadata:FileMetadata"
    ),
}
for _name, _target in _VIEWS.items():
    phipsi.views.register_view(_name, _target)
for _name, _target in _ATTACHMENTS.items():
    phipsi.views.register_view(f"attachment {_name}", _target)
# name -> (module, name in it, or nothing for the module itself)
_HOMES = {
    path.rpartition(".")[2] if name == "." else name: (path, name.strip("."))
    for rows in _TABLE.values()
    for path, names in rows.items()
    for name in names.split()
}
__all__ = sorted(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    """Load what is asked for, once; from then on it is an ordinary attribute."""
    if name in _HOMES:
        path, inner = _HOMES[name]
    elif name.isidentifier() and _is_module(name):
        path, inner = name, ""  # a module that is not public, such as phipsi.core.sweeps
    else:
        here = phipsi.package_state.name_here(name)
        # ``from phipsi import name`` asks with hasattr, and would say only that there is none
        if here and sys._getframe(1).f_code.co_name == "_handle_fromlist":
            raise ImportError(f"cannot import name {name!r} from {__name__!r}{here}", name=__name__)
        text = f"module {__name__!r} has no attribute {name!r}{here}"
        raise AttributeError(text, name=name, obj=sys.modules[__name__])
    value = importlib.import_module(f"{__name__}.{path}")
    globals()[name] = value = getattr(value, inner) if inner else value
    return value


def _is_module(name: str) -> bool:
    import importlib.util  # half of the time of ``import phipsi``

    return importlib.util.find_spec(f"{__name__}.{name}") is not None


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
