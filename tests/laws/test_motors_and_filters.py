"""PID, motors and filters against their equations, and in runs."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi.errors import LawError
from phipsi.simulation.diagram.connect_laws import block_diagram
from phipsi.simulation.diagram.diagram_builder import run_evaluation

ARM = pp.examples.planar_arm(2)
NAMES = ARM.joint_names
RNG = np.random.default_rng(6)
Q, V = RNG.standard_normal((2, 5, 2))
pid, motor, low_pass = pp.laws.pid, pp.laws.motor, pp.laws.low_pass


def values(laws, dt=1e-3, **more):
    made = block_diagram(ARM, laws, dt)
    given = {"t": np.zeros(5), "q": Q, "v": V, "tau": 0 * V, **more}
    return made.values(given, run_evaluation(ARM))


def test_pid_by_hand():
    integral = RNG.standard_normal((5, 2))
    kp, ki = np.array([3.0, 0.0]), np.array([0.7, 0.5])
    found = values([pid(NAMES, [0.1, 0.2], kp, ki, 0.4, limit=1.0)], **{"pid.integral": integral})
    error = [0.1, 0.2] - Q
    wanted = kp * error + integral - 0.4 * V
    tau = np.clip(wanted, -1, 1)
    assert_allclose(found["efforts"], tau, rtol=1e-13)
    assert (np.abs(wanted) > 1).any() and (np.abs(wanted) < 1).any()
    back = np.array([0.7 / 3, 1.0])
    assert_allclose(found["rates"]["pid.integral"], ki * error + back * (tau - wanted), rtol=1e-13)
    sampled = values([pid(NAMES, [0.1, 0.2], kp, ki, 0.4, limit=1.0, rate=100.0)],
                     **{"pid.integral": integral})  # fmt: skip
    new = sampled["samplings"][0]["pid.integral"]
    assert_allclose(new, integral + 0.01 * (ki * error + back * (tau - wanted)), rtol=1e-13)
    assert_allclose(sampled["samplings"][0]["pid.tau"], tau, rtol=1e-13)


@pytest.mark.parametrize("rate", [None, 500.0])
def test_pid_reaches_its_target_against_gravity(rate):
    control = pid(NAMES, [0.4, 0.3], kp=60.0, ki=60.0, kd=20.0, rate=rate)
    simulator = pp.Simulator(ARM, block_diagram(ARM, [control], 1e-3), 1e-3)
    run = simulator.rollout(simulator.initial_state(np.zeros(2)), steps=12000, record_every=12000)
    assert_allclose(run.q[-1], [0.4, 0.3], atol=1e-3)
    off = pid(NAMES, [0.4, 0.3], kp=60.0, ki=0.0, kd=20.0, rate=rate)  # sags without the integral
    simulator = pp.Simulator(ARM, block_diagram(ARM, [off], 1e-3), 1e-3)
    run = simulator.rollout(simulator.initial_state(np.zeros(2)), steps=12000, record_every=12000)
    assert np.abs(run.q[-1] - [0.4, 0.3]).max() > 0.05


def test_windup():
    """Held beyond its limit for long, the integral stays where the limit is reached."""
    control = pid(NAMES, [0.5, 0.5], kp=10.0, ki=20.0, limit=0.1)
    made = block_diagram(ARM, [control], 1e-2)
    integral = np.zeros((1, 2))
    for _ in range(2000):
        given = {"t": 0.0, "q": np.zeros((1, 2)), "v": np.zeros((1, 2)), "pid.integral": integral}
        integral = (
            integral + 1e-2 * made.values(given, run_evaluation(ARM))["rates"]["pid.integral"]
        )
    # ki e = (ki / kp) (u − tau) at rest: u = kp e + tau, so i = tau
    assert_allclose(integral, 0.1, rtol=1e-6)


def test_motor_by_hand():
    torque = 0.1 * RNG.standard_normal((5, 2))
    drive = motor(NAMES, [4.0, -3.0], gear=[50.0, 30.0], efficiency=0.8, time_constant=0.02,
                  speeds=[0, 20, 100], torques=[0.1, 0.08, 0.0])  # fmt: skip
    found = values([drive], **{"motor.torque": torque})
    gear = np.array([50.0, 30.0])
    most = np.interp(np.abs(gear * V), [0, 20, 100], [0.1, 0.08, 0.0])
    acting = np.clip(torque, -most, most)
    wanted = gear * acting * np.where(acting * V > 0, 0.8, 1 / 0.8)
    assert_allclose(found["efforts"], wanted, rtol=1e-12, atol=1e-15)
    rate = (np.array([4.0, -3.0]) / gear - torque) / 0.02
    assert_allclose(found["rates"]["motor.torque"], rate, rtol=1e-13)
    assert_allclose(found["records"]["motor.speed"], gear * V, rtol=1e-14)
    assert (np.abs(torque) > most).any() and (acting * V < 0).any() and (acting * V > 0).any()
    direct = values([motor(NAMES, [4.0, -3.0], gear=2.0)])
    assert_allclose(direct["efforts"], np.tile([4.0, -3.0], (5, 1)))


def test_a_motor_follows_a_controller():
    control = pid(NAMES, [0.1, 0.2], kp=3.0, rate=100.0).silent()
    drive = motor(NAMES, pp.signals.output("pid", "tau"), gear=10.0)
    held = RNG.standard_normal((5, 2))
    found = values([drive, control], **{"pid.tau": held})
    assert_allclose(found["efforts"], held, rtol=1e-14)


def test_low_pass():
    smooth = low_pass(pp.signals.position("tip"), 0.05, initial=[1.0, 2.0, 0.0])
    y = RNG.standard_normal((5, 3))
    found = values([smooth], **{"low_pass.state": y})
    tip = pp.poses(ARM, Q, ["tip"])[:, 0, :3, 3]
    assert_allclose(found["rates"]["low_pass.state"], (tip - y) / 0.05, rtol=1e-12)
    assert_allclose(found["records"]["low_pass.y"], y)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: pid("joint1", 0.0, 1.0, limit=-1.0), "limit=-1.0 must be positive"),
        (lambda: motor("joint1", 0.0, speeds=[0, 1]), "both speeds and torques"),
        (lambda: motor("joint1", 0.0, gear=0.0), "gear=0.0 must be positive"),
        (lambda: motor("joint1", 0.0, efficiency=1.2), "above 1"),
        (lambda: low_pass(1.0, 0.0), "time_constant=0.0 must be positive"),
        (lambda: pid("joint1", "tip", 1.0), "not a number"),
        (lambda: pid(3, 0.0, 1.0), "joints=3 is not a name or names"),  # type: ignore[arg-type]
        (lambda: motor(3, 0.0), "joints=3 is not a name or names"),  # type: ignore[arg-type]
    ],
)
def test_bad_numbers(make, text):
    with pytest.raises(LawError, match=text):
        make()
