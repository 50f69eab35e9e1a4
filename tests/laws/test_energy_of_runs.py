"""Along compiled runs, stored and dissipated energy balance."""

import numpy as np
import pytest

import phipsi as pp
from phipsi.simulation.forces.body_forces import PointSpring
from phipsi.simulation.forces.force import BoundForces
from phipsi.simulation.forces.frame_forces import Bushing, TorsionSpring
from phipsi.simulation.forces.joint_forces import JointDamper, JointSpring

ARM = pp.examples.seven_joint_arm()
FIRST, MIDDLE, TIP = (ARM.body_names[i] for i in (0, 3, -1))
SPRINGS = {
    "joints": [JointSpring(None, 3.0, rest=0.1 * np.arange(7))],
    "points": [PointSpring(TIP, ("world", (0.5, 0.5, 0.5)), 30.0, 0.2)],
    "bushing": [Bushing(FIRST, MIDDLE, [0.5, 0.5, 0.5, 20.0, 25.0, 30.0])],
    "torsion": [TorsionSpring("world", FIRST, 5.0, 0.3)],
}
Q0 = np.array([0.2, 0.6, -0.3, 0.5, 0.4, 0.7, 0.2])


@pp.law(states={"work": 0.0})
def dissipated(v, work, c):
    """The energy that dampers have taken, J."""
    return {"work": c * (v @ v), "taken": work}


def run(laws, dt, integrator="rk4", duration=0.2):
    steps = round(duration / dt)
    simulator = pp.Simulator(ARM, laws, dt, integrator=integrator)
    record = ("q", "v", *(x for x in simulator.recordable if x == "dissipated.taken"))
    return simulator.rollout(
        simulator.initial_state(Q0), steps=steps, record_every=steps // 10, record=record
    )


def energy(elements, found):
    state = BoundForces(elements, ARM).state(0.0, found.q, found.v)
    own = pp.kinetic_energy(ARM, found.q, found.v) + pp.potential_energy(ARM, found.q)
    return own + BoundForces(elements, ARM).potential_energy(state)


@pytest.mark.parametrize("name", SPRINGS)
def test_springs_keep_the_energy(name):
    drift = []
    for dt in (2e-3, 1e-3):
        total = energy(SPRINGS[name], run(SPRINGS[name], dt))
        drift.append(np.abs(total - total[0]).max())
    assert drift[1] < 1e-4
    assert drift[1] < drift[0] / 12 or drift[1] < 1e-11  # the order of the method is 4
    without = energy([], run(SPRINGS[name], 1e-3))
    assert np.abs(without - without[0]).max() > 1e-3


@pytest.mark.parametrize("name", SPRINGS)
def test_dampers_take_what_is_missing(name):
    elements = [*SPRINGS[name], JointDamper(None, 0.05)]
    found = run([*elements, dissipated.bind(c=0.05)], 1e-3)
    taken = found["dissipated.taken"]
    balance = energy(elements, found) + taken
    assert np.abs(balance - balance[0]).max() < 1e-5
    assert taken[-1] > 1e-3 and (np.diff(taken) > 0).all()
