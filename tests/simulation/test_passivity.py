"""Passivity-based control: the closed loop, and a Lyapunov function that decreases."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from amounts import examples, seeds
from comparers import close
from differences import slope
from hypothesis import assume, given, settings, strategies as st
from moving_references import moving
from random_models import ALL, branching, models

import phipsi as pp
from phipsi.errors import InputError
from phipsi.simulation.control import passivity
from phipsi.simulation.control.compiled_control import NoCode
from phipsi.simulation.control.tracking import Tracking

ARM = pp.examples.seven_joint_arm()
FELT = np.diagonal(pp.mass_matrix(ARM, np.full(7, 0.4))).copy()


def equal_in_each_joint(model, numbers):
    """The same number in all directions of a joint, as the Lyapunov function needs it."""
    out = numbers.copy()
    for at in model.v_slices:
        out[at] = out[at][:1]
    return out


def random_case(model, seed, **gains):
    rng = np.random.default_rng(seed)
    kp, kd, rate = (
        equal_in_each_joint(model, rng.uniform(0.5, 5, model.nv)) * gains.get(n, 1.0)
        for n in ("kp", "kd", "rate")
    )
    control = pp.control.PassivityBased(
        model, moving(model, seed), kp, kd, rate=rate, actuated=model.joint_names
    )
    return control, model.random_configuration(rng), rng.standard_normal(model.nv)


def away(control, q):
    model = control.model
    zero = np.zeros(model.nv)
    return Tracking(model).errors(q, zero, control.reference(0.0)[0], zero, zero).e


@pytest.mark.usefixtures("interpreted")
@settings(max_examples=examples(60))
@given(models(max_bodies=5), st.integers(0, 2**32 - 1))
def test_the_lyapunov_function_falls_at_its_rate_on_all_joints(model, seed):
    """Differences along the motion of forward dynamics, which knows nothing of the controller."""
    control, q, v = random_case(model, seed)
    assume(np.abs(away(control, q)).max(initial=0) < 2.5)
    vdot = pp.forward_dynamics(model, q, v, control(0.0, q, v))

    def along(h, moved=vdot):
        return control.lyapunov(h, model.integrate(q, h * v), v + h * moved)

    s = passivity.sliding_errors(Tracking(model), q, v, control.reference(0.0), control.rate).s
    found, said = slope(along, 1e-3), control.lyapunov_rate(0.0, q, v)
    size = 1 + control.lyapunov(0.0, q, v) * (1 + np.abs(v).max()) + np.abs(v).max() ** 3
    assert abs(found - said) < 1e-7 * size * max(1.0, np.linalg.cond(pp.mass_matrix(model, q)))
    assert said <= 0
    if model.nv:  # under another torque it does not: s* (change of tau) more
        other = slope(lambda h: along(h, vdot + np.linalg.solve(pp.mass_matrix(model, q), s)), 1e-3)
        close(other - found, -s @ s, 1e-6, scale=size)


@pytest.mark.parametrize("seed", seeds(6, 2))
def test_efforts_are_the_dense_equation(seed):
    """ℳ v̇_r + C v_r + gravity + kp e + kd s with matrices of NumPy, v̇_r by differences."""
    model = branching(len(ALL), seed, ALL, armature=True)
    control, q, v = random_case(model, seed)
    tracking = Tracking(model)

    def ahead(h):
        """v_r along a motion with constant velocity: v̇_r at vdot = 0."""
        at = control.reference(h)
        e, e_rate, _ = tracking.errors(model.integrate(q, h * v), v, *at)
        return v + tracking.efforts(model.integrate(q, h * v), e_rate + control.rate * e)

    v_r, v_r_dot = ahead(0.0), slope(ahead, 2e-3)
    e, e_rate, _ = tracking.errors(q, v, *control.reference(0.0))
    C = pp.sensitivities.coriolis_matrix(model, q, v)
    wanted = (
        pp.mass_matrix(model, q) @ v_r_dot + C @ v_r + pp.gravity_forces(model, q)
        + tracking.efforts(q, control.kp * e + control.kd * (e_rate + control.rate * e))
    )  # fmt: skip
    # v̇_r does not depend on vdot: the frames turn with v, which is held
    close(control(0.0, q, v), wanted, 1e-8)
    twin = wanted - C @ (v_r - v)  # one call of inverse dynamics, as if both velocities were equal
    assert np.abs(control(0.0, q, v) - twin).max() > 1e-3


def test_machine_code_is_the_formula_on_arrays(monkeypatch):
    model = branching(len(ALL), 11, ALL, armature=True)
    control, *_ = random_case(model, 3)
    rng = np.random.default_rng(5)
    q, v = model.random_configuration(rng, 6), rng.standard_normal((6, model.nv))
    found = control(0.0, q, v)
    code = model.cache[passivity.passivity_based]
    assert not isinstance(code, NoCode)
    with monkeypatch.context() as m:
        m.setitem(model.cache, passivity.passivity_based, NoCode())
        close(found, control(0.0, q, v), 1e-12)
    assert (np.array([control(0.0, a, b) for a, b in zip(q, v, strict=True)]) == found).all()


def test_choices_are_the_named_controllers():
    """PD+ at rest is PDGravity; with kp = 0 and the exact model s obeys ℳ ṡ + C s + kd s = 0."""
    q, v = np.full(7, 0.3), np.linspace(-1, 1, 7)
    plus = pp.control.PassivityBased(ARM, 0 * q, 30, 7)
    spring = pp.control.PDGravity(ARM, 0 * q, 30, 7)
    close(plus(0.0, q, 0 * v), spring(0.0, q, 0 * v), 1e-12)
    # moving, PD+ has C(q, v) v_r with v_r = 0 and not the bias forces
    close(plus(0.0, q, v), spring(0.0, q, v), 1e-12)
    sliding = pp.control.PassivityBased(ARM, 0 * q, 0, 5, rate=2.0)
    vdot = pp.forward_dynamics(ARM, q, v, sliding(0.0, q, v))
    s, s_dot = -v - 2 * q, -vdot - 2 * v
    left = pp.mass_matrix(ARM, q) @ s_dot + pp.coriolis_product(ARM, q, v, s) + 5 * s
    close(left, 0 * left, 1e-10, scale=np.abs(5 * s).max() * 10)
    assert np.abs(left - pp.coriolis_product(ARM, q, v, s)).max() > 1e-3


PATH = pp.control.JointPath(ARM, [np.zeros(7), np.full(7, 0.8)], [0.0, 1.0])
NAMES = ("PassivityBased.lyapunov", "PassivityBased.lyapunov_rate")


def run_of(control, plant=ARM, start=None, steps=1500):
    simulator = pp.Simulator(plant, [control], 1e-3)
    first = np.full((3, 7), -0.3) * [[0], [1], [2]] if start is None else start
    return simulator.rollout(
        simulator.initial_state(first), steps=steps, record_every=50, record=("t", "q", *NAMES)
    )


def test_compiled_runs_record_a_lyapunov_function_that_decreases():
    control = pp.control.PassivityBased(ARM, PATH, 60 * FELT, 12 * FELT, rate=3.0)
    run = run_of(control)
    V, rate = (run[n] for n in NAMES)
    assert V.shape == (3, 31) and V[1, 0] > 1
    assert (np.diff(V[1:], axis=-1) < 0).all() and (rate <= 0).all()
    assert np.abs(run.q[:, -1] - 0.8).max() < 3e-2 and V[0].max() < 1e-10
    close(V[1, 0], control.lyapunov(0.0, np.full(7, -0.3), np.zeros(7)), 1e-12)
    # the rate is that of V: Simpson's rule over the records of a smooth stretch
    late = slice(10, 31)
    area = (rate[1, late] * np.r_[1, [4, 2] * 9, 4, 1]).sum() * 0.05 / 3
    close(V[1, 30] - V[1, 10], area, 5e-4, scale=V[1, 10])
    # with another controller the same function goes up and down
    other = pp.control.ComputedTorque(ARM, PATH, 100, 4)

    @pp.law
    def seen(t, q, v):
        return {"lyapunov": control.lyapunov(t, q, v)}

    beside = pp.Simulator(ARM, [other, seen], 1e-3)
    twin = beside.rollout(
        beside.initial_state(np.full(7, -0.3)), steps=1500, record_every=50,
        record=("seen.lyapunov",),
    )["seen.lyapunov"]  # fmt: skip
    assert (np.diff(twin) > 1e-4).any()


def test_simulate_agrees_and_gains_are_parameters():
    control = pp.control.PassivityBased(ARM, PATH, 60 * FELT, 12 * FELT, rate=3.0)
    simulator = pp.Simulator(ARM, [control], 1e-3)
    names = [f"PassivityBased.{n}" for n in ("kp", "kd", "rate")]
    assert [n for n in simulator.parameters] == names
    run = simulator.rollout(simulator.initial_state(np.zeros(7)), steps=50)
    exact = pp.simulate(
        ARM, np.zeros(7), np.zeros(7), 0.05, controller=control, integrator="rk4", dt=1e-3
    )
    close(run.q[-1], exact.q[-1], 1e-11)
    changed = {names[2]: np.full(7, 0.5)}
    found = simulator.rollout(
        simulator.initial_state(np.full(7, 0.2), parameters=changed), steps=50
    ).q[-1]
    other = pp.control.PassivityBased(ARM, PATH, 60 * FELT, 12 * FELT, rate=0.5)
    own = pp.Simulator(ARM, [other], 1e-3)
    wanted = own.rollout(own.initial_state(np.full(7, 0.2)), steps=50).q[-1]
    close(found, wanted, 1e-13)
    fixed = pp.control.PassivityBased(ARM, np.zeros(7), 9, 6, rate=2.0)
    again = pickle.loads(pickle.dumps(fixed))
    assert (again(0.0, np.ones(7), np.ones(7)) == fixed(0.0, np.ones(7), np.ones(7))).all()


def test_gradients_go_through_the_controller():
    """Of the final Lyapunov function by the rate, against differences of whole runs."""
    control = pp.control.PassivityBased(ARM, PATH, 10 * FELT, 4 * FELT, rate=1.5)
    simulator = pp.Simulator(ARM, [control], 5e-3)
    start = np.full(7, -0.2)

    def last(h):
        numbers = {"PassivityBased.rate": np.full(7, 1.5) + h}
        state = simulator.initial_state(start, parameters=numbers)
        return simulator.rollout(state, steps=20, record_every=20).q[-1].sum()

    state = simulator.initial_state(start)
    weights = np.zeros((2, 7))
    weights[-1] = 1.0
    found = simulator.gradient(state, steps=20, record_every=20, cotangents={"q": weights})
    close(found.parameters["PassivityBased.rate"].sum(), slope(last, 1e-2), 1e-8, scale=1e-3)


def test_refusals():
    pinned = pp.System(
        pp.examples.planar_arm(3),
        [pp.constraints.Revolute((0, 0, 1), name="pin", a="tip", b=("world", (1.5, 0, 0)))],
    )
    with pytest.raises(InputError, match=r"do not keep the constraints(?s:.)*ComputedTorque"):
        pp.control.PassivityBased(pinned, np.zeros(3), 1, 1)
    with pytest.raises(InputError, match="an actuator at every joint.*lacks 'joint3'"):
        pp.control.PassivityBased(
            pp.examples.planar_arm(3), np.zeros(3), 1, 1, actuated=["joint1", "joint2"]
        )
    with pytest.raises(InputError, match="free joint 'b0' has no actuator|floating base"):
        free = branching(2, 0, ("free", "revolute"))
        pp.control.PassivityBased(free, free.neutral(), 1, 1)
    with pytest.raises(InputError, match="rate is -1.0 at joint"):
        pp.control.PassivityBased(ARM, np.zeros(7), 1, 1, rate=-1)
