"""Runs of a Simulator as differentiable functions: the NumPy side."""

import numpy as np
import pytest
from differences import slope
from held_arm import KP, simulator
from known_systems import four_bar
from random_models import model_from_parents

import phipsi as pp
from phipsi.errors import InputError
from phipsi.learning.differentiable import FrameworkFunctions, SimulatorBridge


def inputs(bridge, batch):
    rng = np.random.default_rng(1)
    return [rng.standard_normal((*batch, *core)) for core in bridge.core]


@pytest.mark.parametrize("integrator", ["semi_implicit", "rk4"])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_pullbacks_equal_differences(integrator, batch):
    names = ("hold.kp", "hold.kd")
    bridge = SimulatorBridge(simulator(integrator), 12, 3, ("q", "v", "hold.cost"), names)
    given, rng = inputs(bridge, batch), np.random.default_rng(2)
    found = bridge.value(given)
    assert [x.shape for x in found] == [(*batch, 5, 2), (*batch, 5, 2), (*batch, 5)]
    weights = [rng.standard_normal(x.shape) for x in found]
    pulled = bridge.pullback(given, weights)
    assert [x.shape for x in pulled] == [x.shape for x in given]

    def along(changes, s):
        new = bridge.value([x + s * d for x, d in zip(given, changes, strict=True)])
        return sum(float(np.sum(w * x)) for w, x in zip(weights, new, strict=True))

    h = 2e-3
    for i, (gradient, x) in enumerate(zip(pulled, given, strict=True)):  # input by input
        changes = [np.zeros_like(y) for y in given]
        changes[i] = rng.standard_normal(x.shape)
        by_hand = slope(lambda s, d=changes: along(d, s), h)
        mine = float(np.sum(gradient * changes[i]))
        assert mine == pytest.approx(by_hand, rel=1e-7, abs=1e-7), bridge.names[i]
        assert mine != pytest.approx(1.001 * by_hand, rel=1e-7, abs=1e-7)
    with pytest.raises(InputError, match="reverse-mode"):
        bridge.tangent(given, given)


def test_closed_loops():
    """Efforts that change nothing but along the loops; the neutral configuration is open."""
    system = four_bar()
    sim = pp.Simulator(system, [pp.forces.JointDamper(None, 0.4)], 1e-2)
    bridge = SimulatorBridge(sim, 4, 2, ("q", "v"), ("joint_damper.damping",))
    rng = np.random.default_rng(0)
    q, v = system.project(system.assemble([1.0, -1.0, -1.5]), [1.0, 0.0, 0.0])
    tau, d = rng.standard_normal((2, 4, 3))
    damping = sim.parameters["joint_damper.damping"]
    weights = [rng.standard_normal(s) for s in bridge.results]
    pulled = bridge.pullback([q, v, tau, damping], weights)

    def value(s):
        found = bridge.value([q, v, tau + s * d, damping + s])
        return sum(float(np.sum(w * x)) for w, x in zip(weights, found, strict=True))

    h = 2e-2
    by_hand = slope(value, h)
    assert float((pulled[2] * d).sum() + pulled[3].sum()) == pytest.approx(by_hand, rel=1e-9)
    assert float((pulled[2] * d).sum()) != pytest.approx(by_hand, rel=1e-4)


def test_gradients_by_quaternions_are_along_their_sphere():
    model = model_from_parents([-1, 0], 1, ["free", "spherical"])
    sim = pp.Simulator(model, [pp.forces.JointDamper(None, 0.4)], 1e-2)
    bridge = SimulatorBridge(sim, 6, 1, ("q", "v"), ())
    rng = np.random.default_rng(0)
    q, v = model.random_configuration(rng), rng.standard_normal(model.nv)
    tau, d = rng.standard_normal((6, model.nv)), rng.standard_normal(model.nv)
    weights = [rng.standard_normal(s) for s in bridge.results]
    by_q = bridge.pullback([q, v, tau], weights)[0]

    def value(s):
        found = bridge.value([model.integrate(q, s * d), v, tau])
        return sum(float(np.sum(w * x)) for w, x in zip(weights, found, strict=True))

    h = 2e-3
    by_hand = slope(value, h)
    assert float(by_q @ model.qdot(q, d)) == pytest.approx(by_hand, rel=1e-8)


def test_the_function_of_a_framework_is_the_run():
    def wrap(bridge):
        return lambda *x: bridge.value([np.asarray(y) for y in x])

    functions, sim = FrameworkFunctions(wrap), simulator()
    tau = np.full((10, 2), 0.3)
    q, cost = functions.simulator_rollout(
        sim, [0.1, 0.2], [0.0, 0.0], tau, record=("q", "hold.cost"), record_every=5,
        parameters={"hold.kp": 2 * KP},
    )  # fmt: skip
    start = sim.initial_state([0.1, 0.2], parameters={"hold.kp": 2 * KP})
    wanted = sim.rollout(start, tau, 10, record_every=5, record=("q", "hold.cost"))
    np.testing.assert_array_equal(q, wanted.q)
    np.testing.assert_array_equal(cost, wanted["hold.cost"])
    with pytest.raises(InputError, match="'hold.kq' is not a parameter of the laws: 'hold.kp'"):
        functions.simulator_rollout(sim, [0, 0], [0, 0], tau, parameters={"hold.kq": 1.0})
