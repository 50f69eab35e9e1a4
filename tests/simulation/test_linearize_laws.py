"""State-space models with laws: against differences of order eight of the equations of motion."""

import numpy as np
import pytest
from amounts import seeds
from differences import slopes
from known_systems import four_bar
from numpy.testing import assert_allclose
from random_models import random_tree

import phipsi as pp
from phipsi.errors import InputError

ARM = pp.examples.planar_arm(2)


@pp.law
def hold(t, q, v, kp, kd, target):
    return kp * (target - q) - kd * v


@pp.law(states={"sum": np.zeros(2)})
def pid(q, v, sum, target):
    error = target - q
    return {"tau": 40 * error - 8 * v + 25 * sum, "sum": np.tanh(error) - 0.1 * sum * v}


@pp.law
def wind(t, q, v, k, X, speed):
    z = k * np.sin(q[:1].sum()) + X[2, 3] ** 2
    force = np.stack([z, -0.3 * speed[0], np.cos(t) + speed[1] * speed[2]])
    return {"tau": -0.2 * np.tanh(v) * k, "force": force}


def at_the_end(model):
    point = (model.body_names[-1], (0.1, 0.2, -0.1))
    return wind.at(point).bind(k=1.7, X=pp.signals.pose(point), speed=pp.signals.velocity(point))


@pytest.mark.parametrize(("rate", "stable"), [(50.0, True), (5.0, False)])
def test_the_advice_for_sampled_laws_predicts_the_sampled_loop(rate: float, stable: bool):
    """A gain of continuous time, held between samples, is unstable at a low rate."""
    builder = pp.ModelBuilder()
    slide, hinge = pp.joints.Prismatic((1, 0, 0)), pp.joints.Revolute((0, 1, 0))
    builder.add_body("cart", joint=slide, inertia=pp.SpatialInertia(1.0, (0, 0, 0), 0.01))
    pole = pp.SpatialInertia(0.2, (0, 0, 0.5), (0.017, 0.017, 0.0))
    builder.add_body("pole", parent="cart", joint=hinge, inertia=pole)
    plant = builder.build()
    linear = pp.linearize(plant, [0.0, 0.0], inputs=["cart"])
    K = linear.lqr(Q=[10, 10, 1, 1], R=0.1)

    @pp.law
    def feedback(q, v):
        return np.stack([-(K @ np.concatenate([q, v]))[0], 0.0 * q[0]])

    law = feedback.sampled(rate=rate)
    with pytest.raises(InputError, match=r"\.discrete\(1 / rate\)\n.*d\.A - d\.B @ K"):
        pp.linearize(plant, [0.0, 0.0], laws=[law])
    d = linear.discrete(1 / rate)
    loop = d.A - d.B @ K
    assert (abs(np.linalg.eigvals(loop)).max() < 1) == stable
    sim = pp.Simulator(plant, [law], dt=1e-3)
    kept = round(1000 / rate)
    run = sim.rollout(sim.initial_state([0.0, 1e-7]), steps=6 * kept, record_every=kept)
    x = np.hstack([run.q, run.v])
    expected = [np.linalg.matrix_power(loop, k) @ x[0] for k in range(7)]
    assert_allclose(x, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
    own = d.lqr(Q=[10, 10, 1, 1], R=0.1)  # the gain of the sampled problem is stable at any rate
    assert abs(np.linalg.eigvals(d.A - d.B @ own)).max() < 1


@pytest.mark.parametrize("seed", seeds(3))
def test_every_entry_equals_differences(seed):
    model = random_tree(seed, 3)
    rng = np.random.default_rng(seed)
    q, nv = model.random_configuration(rng), model.nv
    v, tau = rng.normal(size=(2, nv))
    law = at_the_end(model)
    found = pp.linearize(model, q, v, tau, laws=[law], t=0.4, inputs=[model.joint_names[-1]])
    sim = pp.Simulator(model, [law], dt=1e-3)

    def moved(x):
        at = sim.initial_state(model.integrate(q, x[:nv]), v + x[nv : 2 * nv], t=0.4)
        return sim.rollout(at, tau + x[2 * nv :], steps=1, record=("vdot",))["vdot"][0]

    by_hand = slopes(moved, 3 * nv)
    close = 1e-9 * np.abs(by_hand).max()
    assert_allclose(found.A[nv:], by_hand[:, : 2 * nv], rtol=0, atol=close)
    driven = model.v_slice(model.joint_names[-1])
    assert_allclose(found.B[nv:], by_hand[:, 2 * nv :][:, driven], rtol=0, atol=close)
    alone = pp.linearize(model, q, v, tau)  # and the law is part of it
    assert np.abs(alone.A[nv:] - by_hand[:, : 2 * nv]).max() > 1e3 * close


def test_states_of_laws_are_states_of_the_model():
    target = np.array([0.3, -0.2])
    laws = [pid.bind(target=target)]
    q, v, tau, sum_ = np.array([0.1, 0.2]), np.array([0.3, -0.5]), np.zeros(2), np.array([0.4, 0.7])
    found = pp.linearize(
        ARM, q, v, tau, laws=laws, states={"pid.sum": sum_}, inputs=["joint1", "pid.target"]
    )
    assert found.state_names[4:] == ("pid.sum[0]", "pid.sum[1]")
    assert found.input_names == ("tau[joint1]", "pid.target[0]", "pid.target[1]")

    def rates(x):
        a, b, s, goal = q + x[:2], v + x[2:4], sum_ + x[4:6], target + x[7:]
        effort = 40 * (goal - a) - 8 * b + 25 * s + [x[6], 0]
        change = np.tanh(goal - a) - 0.1 * s * b
        return np.concatenate([b, pp.forward_dynamics(ARM, a, b, effort), change])

    by_hand = slopes(rates, 9)
    close = 1e-9 * np.abs(by_hand).max()
    assert_allclose(found.A, by_hand[:, :6], rtol=0, atol=close)
    assert_allclose(found.B, by_hand[:, 6:], rtol=0, atol=close)
    assert found.C.shape == (2, 6) and found.D.shape == (2, 3)


def test_springs_and_dampers_give_the_poles_of_a_pendulum():
    rod = pp.examples.planar_arm(1)
    laws = [pp.forces.JointSpring("joint1", 20.0), pp.forces.JointDamper("joint1", 1.5)]
    rest = pp.equilibrium(rod, laws)
    found = pp.linearize(rod, rest.q, laws=laws, tau=[0.0], equilibrium=True)
    stiffness = 20.0 - 9.81 * 0.5 * np.sin(rest.q[0])
    by_hand = np.roots([1 / 3, 1.5, stiffness])
    assert_allclose(np.sort(found.poles()), np.sort(by_hand), rtol=1e-10)
    with pytest.raises(InputError, match="not an equilibrium"):
        pp.linearize(rod, rest.q + 0.1, laws=laws, tau=[0.0], equilibrium=True)


def test_efforts_that_are_not_given_leave_the_laws_their_share():
    laws = [hold.bind(kp=30.0, kd=2.0, target=np.array([0.2, 0.1]))]
    found = pp.linearize(ARM, [0.3, 0.4], laws=laws)
    assert found.residual < 1e-9
    by_hand = pp.gravity_forces(ARM, [0.3, 0.4]) - 30.0 * (np.array([0.2, 0.1]) - [0.3, 0.4])
    assert_allclose(found.tau, by_hand, rtol=1e-12)


def test_loops_with_laws_and_their_states():
    system = four_bar()
    tree = system.model
    q = system.assemble([1.0, -1.0, -1.5])
    _, v = system.project(q, [0.5, 0.0, 0.0])

    @pp.law(states={"z": 0.0})
    def lag(q, v, z):
        tau = np.stack([-5.0 * z - np.sin(q[2]), 0.3 * v[1] * v[1], 0.0 * z])
        return {"tau": tau, "z": q[0] * v[1] - 2.0 * z}

    found = pp.linearize(
        system, q, v, np.zeros(3), laws=[lag], states={"lag.z": 0.2}, independent=["crank"]
    )

    def state(x):
        """The closed state with the crank moved, as the constraints say."""
        guess = system.assemble(q + [x[0], 0, 0], fixed=["crank"], tolerance=1e-14)
        rates = np.linalg.lstsq(
            np.vstack([system.jacobian(guess), [1, 0, 0]]),
            np.append(np.zeros(system.n_rows), v[0] + x[1]), rcond=None,
        )[0]  # fmt: skip
        return guess, rates, 0.2 + x[2]

    def rates(x):
        a, b, z = state(x)
        effort = np.array([-5.0 * z - np.sin(a[2]), 0.3 * b[1] ** 2, 0.0])
        vdot = pp.forward_dynamics(system, a, b, effort)
        return np.array([b[0], vdot[0], a[0] * b[1] - 2.0 * z])

    by_hand = slopes(rates, 3)
    assert tree.nv == 3 and found.A.shape == (3, 3)
    assert_allclose(found.A, by_hand, rtol=0, atol=1e-8 * np.abs(by_hand).max())


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"laws": [hold.bind(kp=1.0, kd=1.0, target=0.0).sampled(rate=100.0)]}, r"'hold' changes"),
        ({"laws": [hold.bind(kp=1.0, kd=1.0, target=0.0)], "parameters": {"hold.kq": 1.0}},
         "'hold.kq' is not a parameter of the laws"),
        ({"states": {"x": 1.0}}, "'x' is not a state of the laws: none"),
        ({"laws": [hold.bind(kp=1.0, kd=1.0, target=0.0)], "inputs": ["hold.kq"]},
         "no joint 'hold.kq'"),
        ({"laws": [hold.bind(kp=1.0, kd=1.0, target=0.0)], "parameters": {"hold.kp": [1.0]}},
         r"hold.kp has shape \(1,\)"),
    ],
)  # fmt: skip
def test_wrong_arguments(given, text):
    with pytest.raises(InputError, match=text):
        pp.linearize(ARM, [0.0, 0.0], **given)
