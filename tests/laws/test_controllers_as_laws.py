"""Controllers in circuits: the controllers themselves, traced."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi.circuits.wire_laws import circuit
from phipsi.circuits.wiring import run_evaluation
from phipsi.control import references
from phipsi.control.controllers import ComputedTorque, OperationalSpace, PDGravity, Saturated
from phipsi.errors import LawError

ARM = pp.examples.seven_joint_arm()


def free_flyer():
    b = pp.ModelBuilder()
    ball = pp.SpatialInertia(1, com_B=(0.1, 0.2, 0), moment_about_com_B=1)
    b.add_body("base", joint=pp.joints.Free(), inertia=ball)
    b.add_body("ball", parent="base", joint=pp.joints.Spherical(), inertia=ball)
    b.add_body("arm", parent="ball", joint=pp.joints.Revolute((0, 1, 0)), inertia=ball)
    return b.build()


FLYER = free_flyer()
CASES = {
    "computed torque": (ARM, lambda m: ComputedTorque(m, 0.1 * np.arange(7), kp=25, kd=10)),
    "damping": (ARM, lambda m: ComputedTorque(m, np.zeros(7), 25, 10, compensate_damping=True)),
    "gravity": (ARM, lambda m: PDGravity(m, np.zeros(7), kp=5, kd=1)),
    "saturated": (ARM, lambda m: Saturated(PDGravity(m, np.zeros(7), 50, 1), m, 40.0)),
    "unlimited": (ARM, lambda m: Saturated(PDGravity(m, np.zeros(7), 50, 1), m,
                                           [3.0, np.inf, 2.0, np.inf, 1.0, 1.0, 1.0])),
    "path": (ARM, lambda m: ComputedTorque(m, references.JointPath(
        m, [np.zeros(7), 0.1 * np.arange(7), np.ones(7)], [-0.5, 0.3, 1.5]), 25, 10)),
    "waves": (ARM, lambda m: PDGravity(m, references.FourierPath(
        m, np.zeros(7), np.ones((7, 2)), 0.5 * np.ones((7, 2)), 3.0), 25, 10)),
    "operational space": (ARM, lambda m: OperationalSpace(
        m, m.body_names[-1], (0.3, 0.2, 0.5), 25, 10, components="position",
        null_space=PDGravity(m, np.zeros(7), 5, 1))),
    "rotations": (FLYER, lambda m: ComputedTorque(m, m.random_configuration(4), kp=25, kd=10)),
    "rotations pd": (FLYER, lambda m: PDGravity(m, m.random_configuration(4), kp=5, kd=1)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_controllers_are_laws(name):
    model, make = CASES[name]
    control = make(model)
    rng = np.random.default_rng(2)
    q, v = model.random_configuration(rng, 4), rng.standard_normal((4, model.nv))
    made = circuit(model, [control], 1e-3)
    times = np.array([0.0, 0.3, 0.9, 2.0])
    found = made.values({"t": times, "q": q, "v": v}, run_evaluation(model))["efforts"]
    wanted = np.array([control(float(t), a, b) for t, a, b in zip(times, q, v, strict=True)])
    assert_allclose(found, wanted, rtol=1e-10, atol=1e-10)
    assert not np.allclose(found, control(0.0, q, 1.01 * v))


def test_a_simulator_runs_them():
    control = Saturated(ComputedTorque(ARM, 0.3 * np.ones(7), kp=25, kd=10), ARM, 60.0)
    simulator = pp.Simulator(ARM, circuit(ARM, [control], 1e-3), 1e-3)
    run = simulator.rollout(simulator.start(np.zeros((3, 7))), steps=50, every=50)
    exact = pp.simulate(ARM, np.zeros(7), np.zeros(7), 0.05, controller=control,
                        integrator="rk4", dt=1e-3)  # fmt: skip
    assert_allclose(run.q[1, -1], exact.q[-1], rtol=1e-11, atol=1e-12)


def test_loops_are_not_traced_yet():
    bar = pp.examples.planar_arm(3)
    control = ComputedTorque(bar, np.zeros(3), 25, 10, actuated=bar.joint_names[:2])
    with pytest.raises(LawError, match="cannot be part of a compiled run"):
        circuit(bar, [control], 1e-3)
