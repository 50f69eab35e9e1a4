"""No option of a run is ignored without a word: it changes the result, or it is an error.

Every option of the functions of runs is tried in every mode. An option that is new has no value
here, and the test says so.
"""

import inspect
from functools import cache

import numpy as np
import pytest
from amounts import mostly
from known_systems import four_bar

import phipsi as pp
from phipsi.errors import InputError
from phipsi.simulation.integrators.tableaux import COMPILED, DIFFERENTIABLE, METHODS

ARM = pp.examples.planar_arm(2)
Q, V = np.array([0.3, 0.4]), np.array([0.1, -0.2])
SIMULATED = [name for name, x in METHODS.items() if not x.damping_implicit]


@cache
def loop():
    system = four_bar()
    q = system.assemble([0.5, 0.3, -0.4])
    q[0] += 3e-7  # off the constraints, so that it shows where projections end
    return system, q, system.project(q, np.array([0.5, 0.0, 0.0]))[1]


@cache
def ball():
    b = pp.ModelBuilder()
    inertia = pp.SpatialInertia.sphere(0.1, mass=1.0)
    b.add_body("joint1", joint=pp.joints.Prismatic(axis=(0, 0, 1)), inertia=inertia)
    b.add_shape("ball", "joint1", pp.shapes.Sphere(0.1))
    model = b.build()
    system = pp.System(model, contacts=pp.Contacts(model, ground=True))
    return system, np.array([0.2]), np.array([-0.5])


def pushes(t, q, v):
    return 0.1 * np.cos(30 * t + np.arange(len(q)))


def joint(mechanism):
    return mechanism.joint_names[0]


SEEN = []
SIMULATE = {
    "controller": lambda m: lambda t, q, v: 0.3 * np.ones_like(v),
    "rate": lambda m: 500.0,
    "delay": lambda m: 1,
    "dt": lambda m: 2e-3,
    "rtol": lambda m: 1e-4,
    "atol": lambda m: 1e-4,
    "output_times": lambda m: [0.0, 0.005],
    "events": lambda m: pp.Event(lambda t, q, v: t - 0.005, action="stop"),
    "forces": lambda m: [pp.forces.JointDamper(None, 5.0)],
    "prescribed": lambda m: {joint(m): 1.0},
    "quadratures": lambda m: {"time": lambda t, q, v: 1.0},
    "work": lambda m: True,
    "stabilization": lambda m: "baumgarte",
    "constraint_tolerance": lambda m: 1e-5,
    "baumgarte_rate": lambda m: 5.0,
    "progress": lambda m: lambda t, end: SEEN.append(t),
    "topology": lambda m: (
        pp.topology.Detach("pin") if m.constraints else pp.topology.Lock(joint(m))
    ),
}
MODES = [("tree", name) for name in SIMULATED]
MODES += [("loop", name) for name in SIMULATED if name != "variational"]
MODES += [("contacts", name) for name in ("dopri", "radau", "time_stepping")]
FULFILLED = {
    ("contacts", "work"): "it is always integrated with contacts",
    ("contacts", "constraint_tolerance"): "a ball on a plane is set onto it exactly",
}
MECHANISMS = {"tree": lambda: (ARM, Q, V), "loop": loop, "contacts": ball}


def run(kind, integrator, **options):
    given = {"controller": pushes, "integrator": integrator, **options}
    SEEN.clear()
    duration = {"dopri": 0.2, "radau": 0.03, "lsoda": 0.03}.get(integrator, 0.01)
    found = pp.simulate(*MECHANISMS[kind](), duration, **given)
    numbers = [x.tobytes() for x in (found.t, found.q, found.v, found.tau)]
    return numbers, sorted(found.quadratures), len(found.events), list(SEEN)


def options_of(function, *without):
    some = inspect.signature(function).parameters.values()
    return {p.name for p in some if p.default is not p.empty and p.name not in without}


@pytest.mark.parametrize(
    ("kind", "integrator"), mostly(MODES, ("loop", "lsoda"), ("contacts", "radau"))
)
def test_every_option_of_simulate_counts_or_is_an_error(kind, integrator):
    assert options_of(pp.simulate, "integrator") == set(SIMULATE), "give new options a value"
    plain = run(kind, integrator)
    refused = set()
    for name, value in SIMULATE.items():
        try:
            found = run(kind, integrator, **{name: value(MECHANISMS[kind]()[0])})
        except InputError as error:
            assert name in str(error), (name, error)
            refused.add(name)
        else:
            if (kind, name) in FULFILLED:
                continue
            assert found != plain, f"{name}= does nothing with {integrator}"
    adaptive = METHODS[integrator].is_adaptive
    assert {"dt", "rtol", "atol"} & refused == ({"dt"} if adaptive else {"rtol", "atol"})
    if kind == "loop":
        assert "stabilization" not in refused and "baumgarte_rate" in refused
        more = run(kind, integrator, stabilization="baumgarte")
        assert run(kind, integrator, stabilization="baumgarte", baumgarte_rate=5.0) != more
        for method in ("baumgarte", "none"):
            with pytest.raises(InputError, match="constraint_tolerance=1e-05 has no effect"):
                run(kind, integrator, stabilization=method, constraint_tolerance=1e-5)


def test_what_a_message_says_to_paste_runs():
    for given in ({"dt": 0.002}, {"integrator": "rk4", "rtol": 1e-4}):
        with pytest.raises(InputError, match="has no effect") as caught:
            pp.simulate(ARM, Q, V, 0.01, **given)
        lines = [x.strip() for x in str(caught.value).splitlines() if x.startswith("    ")]
        assert len(lines) == 2
        for line in lines:
            own = eval(f"dict({line})", {"np": np, "duration": 0.01})
            own = given | own if line.startswith("dt") else own
            own.pop("rtol" if line.startswith("dt") else "", None)
            pp.simulate(ARM, Q, V, 0.01, **own)


def test_phases_without_constraints_do_not_complain():
    """A latch that closes within the run has constraints from then on."""
    latch = pp.constraints.Weld(name="latch", a="link1", b="link2")
    closes = pp.topology.at(0.005, pp.topology.Attach(latch, as_is=True))
    found = pp.simulate(ARM, Q, V, 0.01, events=closes, stabilization="baumgarte")
    assert found.complete
    locks = pp.topology.at(0.005, pp.topology.Lock("joint2"))
    with pytest.raises(InputError, match="stabilization='none' has no effect: .* no constraints"):
        pp.simulate(ARM, Q, V, 0.01, events=locks, stabilization="none")
    with pytest.raises(InputError, match="topology has 'Lock', which is not a change"):
        pp.simulate(ARM, Q, V, 0.01, topology=["Lock"])


# ---- compiled runs -------------------------------------------------------------------------------

ROLLOUT = {
    "record_every": 2, "prescribed": ["joint1"], "per_step": True, "integrator": "semi_implicit",
}  # fmt: skip
BITS = {"threads", "reproducible"}  # who computes, and with which rounding: same results


@pytest.mark.parametrize("integrator", COMPILED)
def test_every_option_of_rollout_counts(integrator):
    assert options_of(pp.rollout, *BITS) == set(ROLLOUT), "give new options a value"
    effort = np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6], [0.7, 0.8]])

    def rolled(**options):
        found = pp.rollout(ARM, Q, V, effort, 1e-3, 4, **{"integrator": integrator, **options})
        return [x.tobytes() for x in found]

    plain = rolled()
    other = "semi_implicit" if integrator == "rk4" else "rk4"
    for name, value in (ROLLOUT | {"integrator": other}).items():
        try:  # that the efforts are those of steps was seen from their shape
            assert (rolled(**{name: value}) == plain) is (name == "per_step")
        except InputError as error:
            assert integrator == "variational" and name in str(error)


@pytest.mark.parametrize("call", ["rollout", "gradient"])
def test_the_layout_of_efforts_that_are_not_there(call):
    sim = pp.Simulator(ARM)
    of = {"cotangents": {"q": 1.0}} if call == "gradient" else {}
    for flag in (True, False):
        with pytest.raises(InputError, match=f"per_step={flag} has no effect without tau="):
            getattr(sim, call)(sim.initial_state(Q, V), steps=2, per_step=flag, **of)
    with pytest.raises(InputError, match="cotangents= must be weights"):
        sim.gradient(sim.initial_state(Q, V), steps=2, cotangents=lambda q: q)


def test_steps_have_no_adaptive_integrators():
    for name in set(METHODS) - set(DIFFERENTIABLE):
        with pytest.raises(InputError, match=name):
            pp.step_derivatives(ARM, Q, V, V, 1e-3, integrator=name)


# ---- others --------------------------------------------------------------------------------------


def test_options_of_other_functions_that_would_do_nothing():
    two = np.ones(2)
    for function in (pp.forward_dynamics, pp.joint_reactions, pp.constraint_forces):
        with pytest.raises(InputError, match="row_acceleration= has no effect.* no constraints"):
            function(ARM, Q, V, two, row_acceleration=np.ones(1))
        function(ARM, Q, V, two, row_acceleration=np.zeros(0))  # none of no rows
    with pytest.raises(InputError, match="dt=0.01 has no effect: .* no law here is sampled"):
        pp.equilibrium(ARM, q=[-1.5, 0.1], dt=0.01)
    for name in ("limit_time", "dissipation", "velocity_scale"):
        with pytest.raises(InputError, match=f"{name}=0.1 has no effect: exact=True"):
            pp.forces.from_model(ARM, exact=True, **{name: 0.1})
    with pytest.raises(InputError, match="null_damping=1.0 has no effect"):
        hold = pp.control.ConstantPose(pp.Pose())
        pp.control.OperationalSpace(
            ARM, "tip", hold, 1.0, 1.0, null_space=lambda t, q, v: -v, null_damping=1.0
        )
    with pytest.raises(
        pp.errors.ModelError, match="restitution=0.5 applies only to rigid surfaces"
    ):
        pp.Material(stiffness=1e4, restitution=0.5)
    with pytest.raises(InputError, match="columns=True batches the operand"):
        pp.compile("mass_matrix", ARM, mode="dense", columns=True)
    with pytest.raises(InputError, match="are those of a model"):
        pp.explain("J", points=["tip"])
    fall = pp.simulate(ARM, Q, V, 0.01)
    for path, name, what in (("a.png", "fps", "instant"), ("a.gif", "time", "whole trajectory")):
        with pytest.raises(InputError, match=f"{name}=2.0 has no effect: .* {what}"):
            pp.render(fall, path, **{name: 2.0})


def test_a_rigid_surface_on_a_soft_one_rebounds_as_that_one_does():
    """Pairs with a soft surface have no restitution, whatever the other one has."""
    b = pp.ModelBuilder()
    b.add_body("ball", joint=pp.joints.Free(), inertia=pp.SpatialInertia.sphere(0.1, mass=1.0))
    b.add_shape("ball", "ball", pp.shapes.Sphere(0.1), material=pp.Material(restitution=0.9))
    b.add_shape("floor", "world", pp.shapes.Plane(), material=pp.Material(stiffness=1e4))
    (pair,) = pp.Contacts(b.build()).pairs
    assert pair.material.restitution == 0 and pair.material.stiffness == 1e4
