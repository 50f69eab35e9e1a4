"""Gradients of runs by the numbers of elements, controllers and states, against differences."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi.simulation.forces.body_forces import PointSpring, Wrench
from phipsi.simulation.forces.frame_forces import Bushing, TorsionSpring, WindDrag
from phipsi.simulation.forces.joint_forces import (
    JointDamper,
    JointFriction,
    JointSpring,
    StribeckFriction,
)
from phipsi.simulation.forces.joint_limits import JointLimit

ARM = pp.examples.planar_arm(3)
FIRST, TIP = ARM.body_names[0], ARM.body_names[-1]
Q0, V0 = np.array([0.3, -0.4, 0.5]), np.array([0.2, 0.1, -0.3])
STEPS = 25
LAWS = {
    "joints": [JointSpring(None, 3.0, rest=[0.1, 0.2, 0.3]), JointDamper(None, 0.2),
               JointFriction(None, 0.1, 0.5)],
    "stops": [JointLimit(ARM.joint_names, 50.0, 0.3, lower=-0.3, upper=0.4)],
    "stribeck": [StribeckFriction(None, 0.4, 0.2, 0.3, 0.1, 0.2)],
    "points": [PointSpring("tip", ("world", (1.0, 2.0, 0.0)), 5.0, 0.4, 0.3),
               Wrench("tip", np.arange(6.0))],
    "frames": [Bushing(FIRST, TIP, np.arange(1.0, 7.0), 0.1),
               TorsionSpring("world", TIP, 2.0, 0.1, 0.2),
               WindDrag("tip", 0.3, wind=(1.0, 2.0, 0.0))],
    "pid": [pp.laws.pid(ARM.joint_names, 0.2, 4.0, 2.0, 0.5, limit=1.5)],
    "motor": [pp.laws.motor(ARM.joint_names, [1.0, -0.5, 0.3], gear=5.0,
                                     time_constant=0.05,
                                     speeds=[0, 50], torques=[0.3, 0.0])],
    "control": [pp.control.ComputedTorque(ARM, 0.1 * np.ones(3), 20, 5)],
    "sampled": [pp.laws.pid(ARM.joint_names, 0.2, 4.0, 2.0, 0.5, rate=100.0)],
}  # fmt: skip
# weights of differences of order 8, at ±1 … ±4
WEIGHTS = {1: 4 / 5, 2: -1 / 5, 3: 4 / 105, 4: -1 / 280}


@pytest.mark.parametrize("integrator", ["rk4", "semi_implicit"])
@pytest.mark.parametrize("name", LAWS)
def test_gradients_are_differences(name, integrator):
    simulator = pp.Simulator(ARM, LAWS[name], 2e-3, integrator=integrator)
    weights = np.random.default_rng(1).standard_normal((STEPS + 1, 3))
    given = {n: np.array(x) for n, x in simulator.parameters.items()}
    found = simulator.gradient(
        simulator.initial_state(Q0, V0, parameters=given),
        steps=STEPS,
        cotangents={"q": weights, "v": weights},
    )

    def cost(q, v, parameters):
        run = simulator.rollout(simulator.initial_state(q, v, parameters=parameters), steps=STEPS)
        return np.sum(weights * (run.q + run.v), axis=(-1, -2))

    rng = np.random.default_rng(2)
    dq, dv = rng.standard_normal((2, 3))
    change = {n: rng.standard_normal(np.shape(x)) * np.where(np.isfinite(x), x, 0)
              for n, x in given.items()}  # fmt: skip
    if name == "motor":  # with losses in the gear the effort jumps where the joint turns round
        change["motor.efficiency"] = np.zeros(())
    wanted = np.sum(dq * found.q) + np.sum(dv * found.v)
    wanted += sum(np.sum(change[n] * found.parameters[n]) for n in given)
    h = 2e-3
    slope = sum(
        w
        / h
        * (
            cost(*_moved(k * h, dq, dv, given, change))
            - cost(*_moved(-k * h, dq, dv, given, change))
        )
        for k, w in WEIGHTS.items()
    )
    assert_allclose(wanted, slope, rtol=1e-9, atol=1e-9)
    assert abs(slope) > 1e-2
    assert abs((1 + 1e-6) * wanted - slope) > 1e-9 * (1 + abs(slope))  # a millionth is seen


def _moved(h, dq, dv, given, change):
    return Q0 + h * dq, V0 + h * dv, {n: x + h * change[n] for n, x in given.items()}
