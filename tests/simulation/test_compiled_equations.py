"""The equations of runs in machine code, with everything that acts: the same results."""

from typing import Any

import numpy as np
import pytest
from amounts import ALL, mostly
from known_systems import pinned_arm
from numpy.testing import assert_allclose, assert_array_equal

import phipsi as pp
from phipsi.errors import SimulationError
from phipsi.simulation.simulate import equations, fixed_steps
from phipsi.simulation.simulate.compiled_equations import CompiledEquations
from phipsi.simulation.simulate.equations import Equations
from phipsi.simulation.simulate.prescribed import Prescribed
from phipsi.simulation.simulate.quadratures import Quadratures

ARM = pp.examples.planar_arm(3)
TREE = pp.examples.random_tree(5, 4)
Q, Z = np.array([0.3, -0.4, 0.5]), np.zeros(3)
PATH = pp.control.JointPath(ARM, [Q, Q + 0.4], [0.0, 0.8])
CONTROLLERS = {
    "nothing": None,
    "computed torque": pp.control.ComputedTorque(ARM, Q + 0.1, kp=30, kd=9),
    "along a path": pp.control.ComputedTorque(ARM, PATH, kp=30, kd=9),
    "PD": pp.control.PDGravity(ARM, Q + 0.2, kp=30, kd=9),
}
FORCES = [
    pp.forces.JointDamper(None, 0.3),
    pp.forces.JointSpring("joint2", 4.0),
    pp.forces.PointSpring("tip", ("world", (1.0, 1.0, 0.0)), 20.0),
]


def in_python(controller):
    """The same as a function of the user, which is called as it is."""
    if controller is None:
        return lambda t, q, v: Z
    return lambda t, q, v: controller(t, q, v)


def simulate(controller, integrator, duration=0.6, **more):
    given = {"rtol": 1e-12} if integrator in ("dopri", "radau") else {"dt": 1e-3}
    return pp.simulate(
        ARM, Q, Z, duration, controller=controller, forces=FORCES, integrator=integrator,
        **given, **more,
    )  # fmt: skip


METHODS = ["rk4", "semi_implicit", "implicit_midpoint", "dopri"]
AGREE = [(name, method) for name in CONTROLLERS for method in METHODS]
RARE = [x for x in AGREE if x[1] == "implicit_midpoint" and x[0] != "computed torque"]


@pytest.mark.parametrize(("name", "integrator"), mostly(AGREE, *RARE))
def test_runs_agree_with_those_in_python(name, integrator):
    controller = CONTROLLERS[name]
    found = simulate(controller, integrator, 0.3)
    by_hand = simulate(in_python(controller), integrator, 0.3)
    scale = 1e-11 if integrator != "dopri" else 1e-9
    assert_allclose(found.q[-1], by_hand.q[-1], rtol=0, atol=scale)
    if controller is not None:
        wanted = [controller(t, q, v) for t, q, v in zip(found.t, found.q, found.v, strict=True)]
        assert_allclose(found.tau, wanted, atol=1e-11)


def test_accelerations_of_trees_with_all_joints():
    rng = np.random.default_rng(0)
    q, v = TREE.random_configuration(rng), rng.normal(size=TREE.nv)
    reference = TREE.integrate(q, 0.2 * rng.normal(size=TREE.nv))
    controller = pp.control.ComputedTorque(TREE, reference, kp=5, kd=2)
    forces = [pp.forces.JointDamper(None, 0.3), pp.forces.JointSpring(None, 2.0)]
    compiled = CompiledEquations(TREE, controller, forces)
    assert compiled.is_complete
    in_python = Equations(TREE, controller, forces)
    z = 0.3 * rng.normal(size=TREE.nv)
    y = np.concatenate([z, v])
    by_hand = in_python.derivative(0.1, q, y)
    found = compiled.stage()(0.1, q, y)
    assert found is not None
    assert_allclose(found, by_hand, rtol=1e-11, atol=1e-11 * np.abs(by_hand).max())


def test_long_runs_do_not_call_python(monkeypatch):
    calls = []
    kind = pp.control.ComputedTorque
    original = kind.__call__

    def counted(self, t, q, v):
        calls.append(t)
        return original(self, t, q, v)

    monkeypatch.setattr(kind, "__call__", counted)
    simulate(CONTROLLERS["computed torque"], "rk4")
    assert len(calls) < 20
    calls.clear()
    simulate(in_python(CONTROLLERS["computed torque"]), "rk4")
    assert len(calls) > 4 * 600


def test_functions_of_the_user_are_called_as_they_are():
    class Remembers:
        """Holds what it has summed up."""

        def __init__(self):
            self.times, self.reference = [], None

        def __call__(self, t, q, v):
            self.times.append(t)
            return -1e-4 * len(self.times) * v

    class Own(pp.forces.Force):
        def efforts(self, state):
            return -0.5 * state.v

    own = Remembers()
    pp.simulate(ARM, Q, Z, 0.5, controller=own, integrator="rk4", dt=1e-3)
    assert len(own.times) > 2000
    moving = pp.control.PDGravity(ARM, lambda t: (Q, Z, Z), kp=3, kd=1)
    saturated = pp.control.Saturated(CONTROLLERS["PD"], ARM, efforts=5.0)
    assert CompiledEquations(ARM, own, ()).own_controller
    assert CompiledEquations(ARM, None, [Own(), *FORCES]).own_forces is not None
    assert CompiledEquations(ARM, moving, ()).own_controller  # the reference may change
    assert CompiledEquations(ARM, saturated, ()).own_controller  # it counts
    assert CompiledEquations(ARM, None, FORCES).is_complete


@pytest.mark.parametrize("integrator", mostly(["rk4", "dopri"], "rk4"))
def test_an_event_changes_a_controller(integrator):
    def run(wrap):
        controller = pp.control.PDGravity(ARM, Q, kp=30, kd=9)

        def switch(t, q, v):
            controller.reference = pp.control.PDGravity(ARM, -Q, kp=1, kd=1).reference
            return q, v

        event = pp.Event(lambda t, q, v: t - 0.25, action=switch)
        given = in_python(controller) if wrap else controller
        return simulate(given, integrator, events=[event], duration=0.8)

    found, by_hand = run(False), run(True)
    assert_allclose(found.q[-1], by_hand.q[-1], atol=1e-9)
    still = simulate(pp.control.PDGravity(ARM, Q, kp=30, kd=9), integrator, duration=0.8)
    assert np.abs(found.q[-1] - still.q[-1]).max() > 1e-2


def test_other_numbers_share_the_code():
    kinds = [pp.control.ComputedTorque(ARM, Q + x, kp=9 + x, kd=6 + x) for x in (0.1, 0.2)]
    one, two = (CompiledEquations(ARM, x, FORCES) for x in kinds)
    assert one.key == two.key
    q, v = Q + 0.05, Q
    by_hand = [Equations(ARM, x, FORCES).acceleration(0.0, q, v) for x in kinds]
    found = [made.stage()(0.0, q, np.concatenate([q, v])) for made in (one, two)]
    assert_allclose(np.array(found, dtype=float)[:, 3:], by_hand, rtol=1e-12)


def test_a_run_has_the_same_bits_every_time():
    first = simulate(CONTROLLERS["along a path"], "rk4")
    again = simulate(CONTROLLERS["along a path"], "rk4")
    assert_array_equal(first.q, again.q)
    assert_array_equal(first.tau, again.tau)


def test_a_run_that_diverges_says_where():
    hard = pp.forces.JointSpring(None, 1e9)
    with pytest.raises(SimulationError, match="diverged") as error:
        pp.simulate(ARM, Q, Z, 1.0, forces=[hard], integrator="rk4", dt=1e-3)
    assert error.value.trajectory is not None


# ---- work, quadratures, prescribed joints and loops -------------------------------------------

MOTOR = pp.constraints.Rows(
    name="motor", points=["link1"], A=[[0, 0, 1, 0, 0, 0]], row_velocity=2.0
)
LOOP, DRIVEN = pinned_arm(arm=ARM), pp.System(ARM, [MOTOR])
Q_LOOP = LOOP.assemble([1.0, -1.0, -1.5])
STARTS = {
    "tree": (ARM, Q, Q),
    "loop": (LOOP, Q_LOOP, LOOP.project(Q_LOOP, [0.3, 0.0, 0.0])[1]),
    "rows with rates": (DRIVEN, Q, DRIVEN.project(Q, [2.0, 0.1, 0.0])[1]),
}


class Wind(pp.forces.Force):
    """An element of a user: efforts, and forces on bodies."""

    def efforts(self, state):
        return -0.5 * state.v

    def body_forces(self, state):
        out = np.zeros_like(state.velocities)
        out[..., 3:] = -0.5 * state.velocities[..., 3:]
        return out


@pp.law
def sine(t, q, v):
    return 1 + np.sin(3 * t) + 0.1 * q[0]


def cosine(t, q, v):
    return np.cos(2 * t) - 0.1 * v[0]


@pp.law
def pull(t, q, v):
    return np.sin(t + 1) - 0.2 * v


def own_pull(t, q, v):
    return 0.3 * np.sin(t + 1) - 0.2 * v


POINT = pp.forces.PointSpring("link2", ("world", (1.0, 1.0, 0.0)), 20.0)
SUMS = {"work": True, "quadratures": {"spring": POINT, "law": sine, "own": cosine}}
RUNS = {
    "work": {"work": True},
    "a law, work and quadratures": {"controller": pull, **SUMS},
    "functions of users": {"controller": own_pull, "forces": [*FORCES, Wind()], **SUMS},
    "a prescribed joint": {"prescribed": {"joint2": 0.4}},
    "prescribed by a law": {"prescribed": {"joint2": sine}, "controller": pull},
    "prescribed by a function, with work": {"prescribed": {"joint2": cosine}, **SUMS},
}


def run_of(name, start, integrator, monkeypatch, *, compiled):
    """A run in machine code from the start, or not at all."""
    monkeypatch.setattr(equations, "_WORTH_COMPILING", 1 if compiled else 10**9)
    monkeypatch.setattr(fixed_steps, "_WORTH_COMPILING", 1 if compiled else 10**9)
    monkeypatch.setattr(fixed_steps, "_AFTER_EVENT", 0)
    step = {"dt": 5e-3} if integrator != "dopri" else {"rtol": 1e-11}
    given: dict[str, Any] = {"forces": FORCES, **RUNS[name], **step}
    mechanism, q, v = STARTS[start]
    times = np.linspace(0, 0.1, 11)
    return pp.simulate(mechanism, q, v, 0.1, integrator=integrator, output_times=times, **given)


# Every two of them meet; in `make fuzz`, all three.
SAME_RUNS = [
    (name, start, integrator)
    for i, name in enumerate(RUNS)
    for j, start in enumerate(STARTS)
    for k, integrator in enumerate(["rk4", "semi_implicit", "dopri"])
    if ALL or (i + j + k) % 3 == 0
]


@pytest.mark.parametrize(("name", "start", "integrator"), SAME_RUNS)
def test_machine_code_gives_the_same_run(name, start, integrator, monkeypatch):
    calls, original = [], Equations._rates

    def in_python(self, t, q, v):
        calls.append(t)
        return original(self, t, q, v)

    monkeypatch.setattr(Equations, "_rates", in_python)
    by_hand = run_of(name, start, integrator, monkeypatch, compiled=False)
    assert len(calls) > 20
    calls.clear()
    found = run_of(name, start, integrator, monkeypatch, compiled=True)
    assert not calls  # nothing but functions of users is evaluated in Python
    for x, y in ((found.q, by_hand.q), (found.v, by_hand.v), (found.tau, by_hand.tau)):
        assert_allclose(x, y, rtol=1e-10, atol=1e-10 * np.abs(y).max())
    assert list(found.quadratures) == list(by_hand.quadratures)
    for key, values in found.quadratures.items():
        assert_allclose(values, by_hand.quadratures[key], rtol=1e-10, atol=1e-12)
        assert np.abs(values).max() > 1e-4


def test_a_curved_tree_with_everything_at_once():
    rng = np.random.default_rng(1)
    q, y = TREE.random_configuration(rng), rng.normal(size=2 * TREE.nv + 3)
    joint = TREE.joint_names[-1]
    quadratures = Quadratures(TREE, {"law": sine, "own": cosine}, True)
    made = [
        Equations(
            TREE, own, [pp.forces.JointDamper(None, 0.3), Wind()], Prescribed(TREE, {joint: sine}),
            None, quadratures,
        )
        for own in (pull, own_pull)
    ]  # fmt: skip
    for one in made:
        by_hand = one.derivative(0.3, q, y)
        one._count = equations._WORTH_COMPILING - 1
        found = one.derivative(0.3, q, y)
        assert one._stage is not None
        assert_allclose(found, by_hand, rtol=1e-11, atol=1e-11 * np.abs(by_hand).max())
    assert np.abs(made[0].derivative(0.3, q, y) - by_hand).max() > 1e-3  # another controller


def test_a_stage_that_fails_is_explained_as_before():
    hard = pp.forces.JointSpring(None, 1e300)
    one = Equations(ARM, None, [hard])
    one._count = equations._WORTH_COMPILING - 1
    with np.errstate(all="ignore"):
        assert np.isnan(one.derivative(0.0, Q, np.array([1e300, 0, 0, 0, 0, 0]))).any()
        assert "1e+300" in str(one.explain())
    assert np.isfinite(one.derivative(0.0, Q, np.zeros(6))).all()  # and the next one is fine


def test_steps_without_an_output_time_have_no_dense_output(monkeypatch):
    """Fewer evaluations, and the same numbers as with the dense output of every step."""
    monkeypatch.setattr(equations, "_WORTH_COMPILING", 400)
    calls = []

    def push(t, q, v):
        calls.append(t)
        return -v

    def run(**more):
        calls.clear()
        given = {"controller": push, "forces": FORCES, "rtol": 1e-10}
        return pp.simulate(ARM, Q, Z, 1.0, **given, **more), len(calls)

    never = pp.Event(lambda t, q, v: 1.0)
    times = [0.0, 0.31, 0.32, 0.7, 1.0]
    every, most = run(output_times=times, events=[never])
    found, fewer = run(output_times=times)
    steps, _ = run()
    for name in ("t", "q", "v", "tau"):
        assert_array_equal(getattr(found, name), getattr(every, name))
    inside = np.count_nonzero(np.histogram(times[1:-1], steps.t)[0])
    assert 1 <= inside <= 3 < len(steps.t) - 1 - inside
    assert most - fewer == 3 * (len(steps.t) - 1 - inside)  # DOP853 has three more stages for it
