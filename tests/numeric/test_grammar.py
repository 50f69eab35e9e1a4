"""Every public function follows the grammar of docs/grammar.md."""

import inspect

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import phipsi as pp
from phipsi.algorithms.dynamics.constraint_forces import Dynamics, Reactions
from phipsi.algorithms.dynamics.derivatives import AccelerationDerivatives, EffortDerivatives
from phipsi.backends.options import CallOptions

STATE = ("q", "v", "vdot", "tau")
STARTS = {"q0": "q", "v0": "v"}  # of runs
# What may follow the state without a keyword, in this order.
LATER = ("f_ext", "points", "f0", "dt", "duration", "steps", "nu")
FIRST = {"expr", "identity", "base"}  # come before the model
OLD = {"frames", "on_failure", "rng", "system", "mechanism", "robot"}


def functions():
    """Those at the top, and those of public modules."""
    found = {name: getattr(pp, name) for name in pp.__all__}
    for module in [x for x in found.values() if inspect.ismodule(x)]:
        own = [x for x in vars(module).values() if getattr(x, "__module__", "") == module.__name__]
        found |= {x.__name__: x for x in own if inspect.isfunction(x) and x.__name__[0] != "_"}
    return {name: x for name, x in found.items() if inspect.isfunction(x)}


ALL = functions()
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


# One call each of functions that evaluate one program on a batch.
ARM = pp.examples.seven_joint_arm()
RNG = np.random.default_rng(0)
Q = ARM.random_configuration(RNG, (5,))
V, A, T = RNG.standard_normal((3, 5, 7))
P = [("tool", (0, 0, 0.1))]
CALLS = {
    "bias_forces": (Q, V), "body_accelerations": (Q, V, A), "body_poses": (Q,),
    "body_velocities": (Q, V), "center_of_mass": (Q,), "center_of_mass_jacobian": (Q,),
    "centroidal_momentum_matrix": (Q,), "centroidal_momentum_matrix_dot": (Q, V),
    "coriolis_matrix": (Q, V), "forward_dynamics": (Q, V, T), "frame_accelerations": (Q, V, A, P),
    "frame_poses": (Q, P), "frame_velocities": (Q, V, P), "gravity_forces": (Q,),
    "innovations_rates": (Q, V), "inverse_dynamics": (Q, V, A), "jacobian": (Q, P),
    "jacobian_dot": (Q, V, P), "jacobian_dot_v": (Q, V, P), "kinetic_energy": (Q, V),
    "log_det_mass_matrix": (Q,), "log_det_mass_matrix_gradient": (Q,), "mass_matrix": (Q,),
    "mass_matrix_inverse": (Q,), "momentum": (Q, V), "operational_space_inertia": (Q, P),
    "potential_energy": (Q,), "tip_force_correction": (Q, P, np.ones((5, 1, 6))),
}  # fmt: skip
SEVERAL = {
    "forward_dynamics_derivatives": (Q, V, T), "innovations": (Q, V, T),
    "inverse_dynamics_derivatives": (Q, V, A),
}  # fmt: skip


def test_no_function_with_options_is_missing():
    takes = {n for n, f in ALL.items() if "options" in inspect.signature(f).parameters}
    assert takes == {*CALLS, *SEVERAL, "delassus_matrix"}


def test_the_options_are_those_of_programs():
    assert set(CallOptions.__annotations__) == {"out", "threads", "on_error"}


@pytest.mark.parametrize("name", CALLS)
def test_options_of_one_result(name):
    function, arguments = ALL[name], CALLS[name]
    plain = function(ARM, *arguments)
    assert_array_equal(function(ARM, *arguments, threads=2), plain)
    out = np.full_like(plain, np.nan)
    assert function(ARM, *arguments, out=out) is out
    assert_array_equal(out, plain)
    masked, status = function(ARM, *arguments, on_error="mask")
    assert_allclose(masked, plain, rtol=1e-13)
    assert status.shape == (5,) and not status.any()
    with pytest.raises(pp.errors.InputError, match="on_error"):
        function(ARM, *arguments, on_error="ignore")


@pytest.mark.parametrize("name", SEVERAL)
def test_options_of_named_results(name):
    function, arguments = ALL[name], SEVERAL[name]
    plain = function(ARM, *arguments)
    for x, y in zip(plain, function(ARM, *arguments, threads=2), strict=True):
        assert_array_equal(x, y)
    masked, status = function(ARM, *arguments, on_error="mask")
    assert type(masked) is type(plain) and not status.any()


def test_options_with_loops():
    pin = pp.constraints.Spherical(name="pin", a="tip", b=("world", (1.5, 0, 0)))
    system = pp.System(pp.examples.planar_arm(3), [pin])
    q = np.broadcast_to(system.assemble([1.0, -1.0, -1.5]), (4, 3))
    tau = RNG.standard_normal((4, 3))
    plain = pp.forward_dynamics(system, q, 0 * q, tau)
    out = np.zeros_like(plain)
    assert pp.forward_dynamics(system, q, 0 * q, tau, out=out) is out
    assert_array_equal(out, plain)
    assert_array_equal(pp.forward_dynamics(system, q, 0 * q, tau, threads=2), plain)
    masked, status = pp.forward_dynamics(system, q, 0 * q, tau, on_error="mask")
    assert_allclose(masked, plain)
    both, status = pp.forward_dynamics(system, q, 0 * q, tau, on_error="mask", multipliers=True)
    assert_array_equal(both.vdot, masked) and not status.any()
    with pytest.raises(pp.errors.InputError, match="'threads'"):
        pp.inverse_dynamics(system, q, 0 * q, plain, threads=2)
    with pytest.raises(pp.errors.InputError, match="shape"):
        pp.forward_dynamics(system, q, 0 * q, tau, out=np.zeros(3))


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
