"""Every public function follows the grammar of docs/api-conventions.md."""

import inspect
from functools import partial

import numpy as np
import pytest
from known_systems import pinned_arm
from numpy.testing import assert_allclose, assert_array_equal
from random_grasps import random_grasp

import phipsi as pp
from phipsi.algorithms.dynamics.constraint_forces import Dynamics, Reactions
from phipsi.algorithms.dynamics.derivatives import AccelerationDerivatives, EffortDerivatives
from phipsi.core.backends.options import CallOptions

STATE = ("q", "v", "vdot", "tau")
STARTS = {"q0": "q", "v0": "v"}  # of runs
# What may follow the state without a keyword, in this order.
LATER = ("f_ext", "points", "f0", "dt", "duration", "steps", "nu")
FIRST = {"expr", "identity", "base"}  # come before the model
OLD = {"frames", "on_failure", "rng", "system", "mechanism", "robot"}


def members(module):
    """What a public module offers: `__all__`, or what is written in it."""
    own = [n for n, x in vars(module).items() if getattr(x, "__module__", "") == module.__name__]
    listed = getattr(module, "__all__", [n for n in own if n[0] != "_"])
    return {n: getattr(module, n) for n in listed if inspect.isfunction(getattr(module, n))}


def functions():
    """Those at the top, and those of public modules."""
    found = {name: getattr(pp, name) for name in pp.__all__}
    for module in [x for x in found.values() if inspect.ismodule(x)]:
        found |= members(module)
    return {name: x for name, x in found.items() if inspect.isfunction(x)}


# `system` is OpenMM's there
ALL = {name: f for name, f in functions().items() if name != "from_openmm"}
OF_MODELS = {n: f for n, f in ALL.items() if "model" in inspect.signature(f).parameters and n not in
             ("load", "load_system")}  # fmt: skip


def positional(function):
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in inspect.signature(function).parameters.values() if p.kind in kinds]


@pytest.mark.parametrize("name", ALL)
def test_one_word_for_one_thing(name):
    assert not OLD & set(inspect.signature(ALL[name]).parameters)


@pytest.mark.parametrize("name", OF_MODELS)
def test_the_model_is_first(name):
    names = [n for n in positional(OF_MODELS[name]) if n not in FIRST]
    assert names[0] == "model"


@pytest.mark.parametrize("name", ALL)
def test_states_are_in_order(name):
    names = [STARTS.get(n, n) for n in positional(ALL[name])]
    state = [n for n in names if n in STATE]
    assert state == sorted(state, key=STATE.index)
    if state:  # nothing between them, and what follows is in order too
        at = [i for i, n in enumerate(names) if n in STATE]
        assert at == list(range(at[0], at[0] + len(at))) or name in ("inverse_kinematics",)
        later = [n for n in names[at[-1] + 1 :] if n in LATER]
        assert later == sorted(later, key=LATER.index)


# One call each of functions that evaluate programs on a batch.
ARM = pp.examples.seven_joint_arm()
RNG = np.random.default_rng(0)
Q = ARM.random_configuration(RNG, (5,))
V, A, T = RNG.standard_normal((3, 5, 7))
P = [("tool", (0, 0, 0.1))]
CALLS = {
    "whiten": (Q, T), "colour": (Q, T),
    "bias_forces": (Q, V), "christoffel_symbols": (Q,), "coriolis": (Q, V),
    "kinetic_energy_regressor": (Q, V), "mass_matrix_inverse_sensitivity": (Q,),
    "mass_matrix_sensitivity": (Q,), "operational_space_inertia_sensitivity": (Q, P),
    "potential_energy_regressor": (Q,), "regressor": (Q, V, A),
    "accelerations": (Q, V, A, P), "poses": (Q, P), "velocities": (Q, V, P),
    "center_of_mass": (Q,), "com_jacobian": (Q,),
    "momentum_matrix": (Q,), "momentum_matrix_dot": (Q, V),
    "coriolis_matrix": (Q, V), "coriolis_product": (Q, V, V), "forward_dynamics": (Q, V, T), 
    "gravity_forces": (Q,),
    "rates": (Q, V), "inverse_dynamics": (Q, V, A), "jacobian": (Q, P),
    "jacobian_dot": (Q, V, P), "kinetic_energy": (Q, V),
    "log_det_mass_matrix": (Q,), "log_det_mass_matrix_gradient": (Q,), "mass_matrix": (Q,),
    "mass_matrix_inverse": (Q,), "momentum": (Q, V), "operational_space_inertia": (Q, P),
    "operational_space_inertia_inverse": (Q, P),
    "elastic_energy": (Q,), "potential_energy": (Q,),
}  # fmt: skip
SEVERAL = {
    "forward_dynamics_derivatives": (Q, V, T), "innovations": (Q, V, T),
    "predict": (Q, T), "smooth": (Q, T),
    "inverse_dynamics_derivatives": (Q, V, A), "joint_reactions": (Q, V, T),
    "hybrid_dynamics": partial(pp.hybrid_dynamics, prescribed=ARM.joint_names[2:4]),
}  # fmt: skip
# The same of a mechanism with loops, at states that keep them.
FOUR_BAR = pinned_arm(closure="Spherical")
CLOSED = np.broadcast_to(FOUR_BAR.assemble([1.0, -1.0, -1.5]), (4, 3)).copy()
REST, EFFORTS = np.zeros((4, 3)), np.random.default_rng(1).standard_normal((4, 3))
WITH_LOOPS = {
    "forward_dynamics": (pp.forward_dynamics, CLOSED, REST, EFFORTS),
    "forward_dynamics, f": (
        partial(pp.forward_dynamics, return_multipliers=True), CLOSED, REST, EFFORTS,
    ),
    "forward_dynamics_derivatives": (pp.forward_dynamics_derivatives, CLOSED, REST, EFFORTS),
    "inverse_dynamics": (pp.inverse_dynamics, CLOSED, REST, REST),
    "inverse_dynamics, f": (
        partial(pp.inverse_dynamics, actuated=["joint1"], return_multipliers=True),
        CLOSED, REST, REST),
    "hybrid_dynamics": (
        partial(pp.hybrid_dynamics, prescribed=["joint1"]), CLOSED, REST, REST, EFFORTS),
    "constraint_forces": (pp.constraint_forces, CLOSED, REST, EFFORTS),
    "constraint_impulse": (pp.constraint_impulse, CLOSED, EFFORTS),
    "delassus_matrix": (pp.delassus_matrix, CLOSED),
    "joint_reactions": (pp.joint_reactions, CLOSED, REST, EFFORTS),
    "kinetic_energy": (pp.kinetic_energy, CLOSED, EFFORTS),
}  # fmt: skip
# Of a mechanism whose shapes touch.
FALLING = pp.ModelBuilder()
FALLING.add_body("box", joint=pp.joints.Free(), inertia=pp.SpatialInertia(mass=1.0))
FALLING.add_shape("box", "box", pp.shapes.Box((0.2, 0.3, 0.4)))
TOUCHING = pp.Contacts(FALLING.build(), ground=True)
WITH_CONTACTS = {
    name: (TOUCHING.model.random_configuration(RNG, 5),) for name in ("contact_points", "distances")
}
# These take a state and no options: runs have their own, the others evaluate no program.
WITHOUT_OPTIONS = {
    "mode_shapes", "natural_frequencies",  # eigenvalues, one configuration at a time
    "conditioning", "whiteness",  # eigenvalues, and statistics of many samples
    "least_squares_velocities", "log_det", "log_det_gradient",  # dense parts for all rows
    "embed_constraints",  # a mechanism from one configuration
    "basis", "equations",  # one choice of velocities for the batch
    "contact_forces", "contact_step", "equilibrium", "evaluate_dense", "from_drake", "from_mujoco",
    "from_pinocchio", "inverse_kinematics",
    "force_noise", "path_noise", "smooth_paths", "velocity_noise",  # scaled samples
    "linearize", "prove", "rollout", "rollout_gradient", "simulate", "step_derivatives", "to_drake",
    "to_mujoco", "to_pinocchio",
}  # fmt: skip


def parts(result):
    return result if isinstance(result, tuple) else (result,)


def test_no_function_with_options_is_missing():
    takes = {n for n, f in ALL.items() if "options" in inspect.signature(f).parameters}
    assert takes == {*CALLS, *SEVERAL, *WITH_CONTACTS, *(n for n in WITH_LOOPS if "," not in n)}
    states = {n for n, f in OF_MODELS.items() if {"q", "q0"} & set(inspect.signature(f).parameters)}
    assert states - takes == WITHOUT_OPTIONS


def test_the_options_are_those_of_programs():
    assert set(CallOptions.__annotations__) == {"out", "threads", "on_error"}


@pytest.mark.parametrize("name", CALLS)
def test_options_of_one_result(name):
    function, arguments = ALL[name], CALLS[name]
    plain = function(ARM, *arguments)
    shared = function(ARM, *arguments, threads=2)
    if name == "operational_space_inertia_sensitivity":  # parts of its batch have other sizes
        assert_allclose(shared, plain, rtol=0, atol=1e-13 * np.abs(plain).max())
    else:
        assert_array_equal(shared, plain)
    out = np.full_like(plain, np.nan)
    assert function(ARM, *arguments, out=out) is out
    assert_array_equal(out, plain)
    masked, status = function(ARM, *arguments, on_error="nan")
    assert_allclose(masked, plain, rtol=1e-13)
    assert status.shape == (5,) and not status.any()
    check_wrong_options(function, ARM, arguments, plain)


@pytest.mark.parametrize("name", SEVERAL)
def test_options_of_named_results(name):
    function, arguments = ALL[name], SEVERAL[name]
    if callable(arguments):
        function, arguments = arguments, (Q, V, A, T)
    check_options(function, ARM, arguments)


@pytest.mark.parametrize("name", WITH_LOOPS)
def test_options_with_loops(name):
    function, *arguments = WITH_LOOPS[name]
    check_options(function, FOUR_BAR, arguments)
    q = CLOSED.copy()
    q[2, 1] = np.nan
    masked, status = function(FOUR_BAR, q, *arguments[1:], on_error="nan")
    assert status.shape == (4,) and status[2] and not np.delete(status, 2).any()
    for x, y in zip(parts(masked), parts(function(FOUR_BAR, *arguments)), strict=True):
        assert np.isnan(x[2]).all()
        assert_allclose(np.delete(x, 2, axis=0), np.delete(y, 2, axis=0), rtol=1e-9, atol=1e-9)
    with pytest.raises(pp.errors.InputError, match="finite"):
        function(FOUR_BAR, q, *arguments[1:])


@pytest.mark.parametrize("name", WITH_CONTACTS)
def test_options_with_contacts(name):
    check_options(ALL[name], TOUCHING, WITH_CONTACTS[name])


def check_options(function, model, arguments):
    plain = function(model, *arguments)
    for x, y in zip(parts(plain), parts(function(model, *arguments, threads=2)), strict=True):
        assert_array_equal(x, y)
    masked, status = function(model, *arguments, on_error="nan")
    assert type(masked) is type(plain) and not status.any()
    for x, y in zip(parts(plain), parts(masked), strict=True):
        assert_allclose(x, y, rtol=1e-9, atol=1e-9)
    out = tuple(np.full(x.shape, np.nan) for x in parts(plain))
    found = function(model, *arguments, out=out if isinstance(plain, tuple) else out[0])
    assert type(found) is type(plain)
    for x, y, z in zip(parts(plain), out, parts(found), strict=True):
        assert_array_equal(x, y)
        assert y is z
    check_wrong_options(function, model, arguments, plain)


def check_wrong_options(function, model, arguments, plain):
    several, right = isinstance(plain, tuple), [np.zeros(x.shape) for x in parts(plain)]
    fixed = right[0].copy()
    fixed.flags.writeable = False
    first = (right[0].astype(np.float32), right[0].astype(int), fixed, np.zeros(9), [0.0], None)
    outs = [3, "text", *((x, *right[1:]) if several else x for x in first[: 6 if several else 5])]
    wrong = {"on_error": ("ignore", ["raise"]), "threads": (0, True, 1.5, [2, 2]), "out": outs}
    for option, values in wrong.items():
        for x in values:
            with pytest.raises(pp.errors.InputError, match=f"{option}|shape"):
                function(model, *arguments, **{option: x})


@pytest.mark.parametrize("threads", [1, 2])
def test_results_in_the_memory_of_arguments(threads):
    """The efforts among the results are those of the caller, where the accelerations go."""
    wanted = pp.forward_dynamics(FOUR_BAR, CLOSED, REST, EFFORTS, return_multipliers=True)
    tau = EFFORTS.copy()
    out = (tau, *(np.empty(x.shape) for x in wanted[1:]))
    found = pp.forward_dynamics(
        FOUR_BAR, CLOSED, REST, tau, return_multipliers=True, out=out, threads=threads
    )
    for x, y in zip(found, wanted, strict=True):
        assert_array_equal(x, y)
    q = Q.copy()
    assert_array_equal(pp.gravity_forces(ARM, q, out=q, threads=threads), pp.gravity_forces(ARM, Q))


def test_states_that_no_effort_drives_are_masked():
    v = REST.copy()
    v[1] = 1.0  # opens the loop
    masked, status = pp.inverse_dynamics(FOUR_BAR, CLOSED, v, REST, on_error="nan")
    assert status.tolist() == [0, 5, 0, 0] and np.isnan(masked[1]).all()
    assert_allclose(masked[0], pp.inverse_dynamics(FOUR_BAR, CLOSED[0], REST[0], REST[0]))
    with pytest.raises(pp.errors.InputError, match="does not exist"):
        pp.inverse_dynamics(FOUR_BAR, CLOSED, v, REST, actuated=["elbow"], on_error="nan")


def test_secondary_forms_take_options():
    grasp, q, v = random_grasp(0, ("Rigid", "Rigid"), joints=("revolute", "spherical", "free"))
    tau = RNG.standard_normal((3, grasp.nv))
    solve = partial(pp.forward_dynamics, grasp, q, v, tau, algorithm="secondary")
    masked, status = solve(on_error="nan", threads=2)
    assert_allclose(masked, solve(), rtol=1e-9, atol=1e-9)
    assert not status.any()
    stuck = pp.examples.two_finger_grasp()  # its fingers cannot give way along all rows
    q, rest = stuck.model.neutral(), np.zeros((2, stuck.nv))
    options = {"algorithm": "secondary", "on_error": "nan"}
    masked, status = pp.forward_dynamics(stuck, q, rest, rest, **options)
    assert status.tolist() == [3, 3] and np.isnan(masked).all()


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (Dynamics, ("vdot", "tau", "f")),
        (Reactions, ("joints", "closures")),
        (AccelerationDerivatives, ("by_q", "by_v", "by_tau")),
        (EffortDerivatives, ("by_q", "by_v", "by_vdot")),
    ],
)
def test_results_have_names_and_unpack(kind, fields):
    assert kind._fields == fields and issubclass(kind, tuple)
