"""Paths of systems with loops in compiled runs: the joints that follow close the loops."""

import known_systems
import numpy as np
import pytest
from amounts import mostly

import phipsi as pp
from phipsi.core.arrays import law_operations as ops
from phipsi.core.arrays.law_values import evaluate
from phipsi.core.arrays.trace import Tracer, as_node
from phipsi.errors import SimulationError
from phipsi.simulation.control import dependent_joints as following_joints

FOUR_BAR = known_systems.four_bar()
START, THERE = (FOUR_BAR.assemble([crank, -1.0, -1.5]) for crank in (1.0, 1.4))


def joint_path():
    ways = [START, THERE, START]
    return FOUR_BAR, pp.control.JointPath(FOUR_BAR, ways, [0.1, 0.5, 1.0], independent=["crank"])


def fourier_path():
    cosines, sines = np.zeros((2, 3, 2))
    cosines[0], sines[0] = [0.3, 0.2], [0.1, -0.2]
    path = pp.control.FourierPath(FOUR_BAR, START, cosines, sines, 0.8, independent=["crank"])
    return FOUR_BAR, path


def with_quaternions():
    """A platform on six legs: the plate and the ball joints follow the sliders."""
    system, q = known_systems.stewart()
    q = system.assemble(q)
    rng = np.random.default_rng(1)
    step = system.project(q, 0.05 * rng.standard_normal(system.nv))[1]
    there = system.assemble(system.model.integrate(q, step))
    return system, pp.control.JointPath(system, [q, there], [0.0, 1.0])


def with_distances():
    """A rod of fixed length, whose residual has a root in it, and a coupling."""
    arm = pp.examples.planar_arm(3)
    rod = pp.constraints.Distance(1.3, name="rod", a="tip", b=("world", (1.5, 0.4, 0)))
    ratio = pp.constraints.Coupling(name="ratio", joints=["joint1", "joint2"], coefficients=[1, 2])
    system = pp.System(arm, [rod, ratio])
    ways = [system.assemble([first, -0.5, 0.3]) for first in (0.6, 0.8)]
    return system, pp.control.JointPath(system, ways, [0.0, 1.0])


CASES = [joint_path, fourier_path, with_quaternions, with_distances]


def gap(system, path):
    """How far q, v and vdot in a graph are from those of a call."""
    t = ops.input("t", ())
    nodes = [as_node(x) for x in path(Tracer(t))]
    times = np.array([-0.3, 0.0, 0.07, 0.1, 0.33, 0.5, 0.91, 1.0, 1.7])
    found = evaluate(nodes, {"t": times})
    wanted = [np.stack(x) for x in zip(*(path(float(x)) for x in times), strict=True)]
    assert max(np.ptp(x, axis=0).max() for x in wanted) > 1e-3  # it moves
    return max(np.abs(x - y).max() for x, y in zip(found, wanted, strict=True))


@pytest.mark.parametrize("case", CASES)
def test_paths_in_graphs_are_those_of_calls(case):
    assert gap(*case()) < 1e-9


PATHS = [(x, case) for x in ("ComputedTorque", "PDGravity") for case in (joint_path, fourier_path)]


@pytest.mark.parametrize(("kind", "case"), mostly(PATHS, PATHS[0], PATHS[3]))
def test_equal_to_simulate(kind, case):
    system, path = case()
    gains = {"kp": 100, "kd": 20} if kind == "ComputedTorque" else {"kp": 30, "kd": 8}
    control = getattr(pp.control, kind)(system, path, **gains, actuated=["crank"])
    sim = pp.Simulator(system, [control], 2e-3)
    run = sim.rollout(sim.initial_state(START), steps=60, record_every=60)
    options = {"controller": control, "dt": 2e-3, "integrator": "rk4"}
    wanted = pp.simulate(system, START, np.zeros(3), 0.12, **options)
    np.testing.assert_allclose(run.q[-1], wanted.q[-1], atol=1e-10)
    assert np.abs(run.q[-1] - START).max() > 1e-4


def test_functions_are_references_too():
    """The driven joint alone is told where to go."""

    def reference(t):
        crank = START[0] + 0.2 * np.sin(3 * t)
        q = np.stack([crank, START[1], START[2]])
        v = np.stack([0.6 * np.cos(3 * t), 0.0, 0.0])
        return q, v, np.stack([-1.8 * np.sin(3 * t), 0.0, 0.0])

    control = pp.control.ComputedTorque(FOUR_BAR, reference, 100, 20, actuated=["crank"])
    sim = pp.Simulator(FOUR_BAR, [control], 2e-3)
    start = FOUR_BAR.project(START, [0.6, 0.0, 0.0])[1]
    start *= 0.6 / start[0]
    run = sim.rollout(sim.initial_state(START, start), steps=200, record_every=200)
    assert abs(run.q[-1, 0] - reference(0.4)[0][0]) < 1e-6


def test_a_path_that_is_not_closed_stops_the_run(monkeypatch):
    monkeypatch.setattr(following_joints, "_STEPS", 0)
    _, path = joint_path()
    control = pp.control.ComputedTorque(FOUR_BAR, path, 100, 20, actuated=["crank"])
    sim = pp.Simulator(FOUR_BAR, [control], 2e-3)
    with pytest.raises(SimulationError, match="at the positions of a controller's reference"):
        sim.rollout(sim.initial_state(START), steps=150)


def test_following_joints_that_are_left_where_they_are_differ(monkeypatch):
    system, path = joint_path()
    right = following_joints.FollowingJoints._traced
    monkeypatch.setattr(
        following_joints.FollowingJoints,
        "_traced",
        lambda self, t, state: (*right(self, t, state)[:2], state[2]),
    )
    assert gap(system, path) > 1e-3
