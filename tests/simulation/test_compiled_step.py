"""The step of a simulator by itself: its quantities, and one step as a function."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from random_models import random_tree

import phipsi as pp
from phipsi.errors import InputError, SimulationError


@pp.law(states={"sum": 0.0})
def spring(q, v, kp, gain, sum):
    tau = -kp * q - 0.1 * v
    return {"tau": tau, "sum": q.sum(), "pull": tau + gain}


def arm_with_spring(**options) -> pp.Simulator:
    law = spring.bind(kp=10.0, gain=np.zeros(2))
    return pp.Simulator(pp.examples.planar_arm(2), law, dt=1e-3, **options)


def test_quantities_have_shapes_units_and_first_values():
    step = arm_with_spring(per_trajectory=("inertia",)).compiled
    assert list(step.states) == ["q", "v", "t", "spring.sum"]
    assert step.states["q"].units == ("rad", "rad")
    assert step.states["v"].entries == ["v.joint1", "v.joint2"]
    assert step.inputs["tau"].units == ("N.m", "N.m") and step.inputs["tau"].shape == (2,)
    assert step.states["t"].units == ("s",) and step.states["t"].entries == ["t"]
    assert step.states["spring.sum"].first == 0.0 and step.states["spring.sum"].units == ()
    assert step.parameters["spring.kp"].first == 10.0
    assert step.parameters["spring.gain"].entries == ["spring.gain[1]", "spring.gain[2]"]
    assert step.parameters["inertia"].shape == (2, 10) and step.per_trajectory == ("inertia",)
    assert step.record("spring.pull").shape == (2,) and step.record("vdot").units[0] == "rad/s2"
    assert set(step.before) == set(step.after) == set(step.states)
    with pytest.raises(InputError, match=r"'kp' is not a parameter of this simulator"):
        step.parameter("kp")


@pytest.mark.parametrize("integrator", ["rk4", "semi_implicit"])
@pytest.mark.parametrize("model", [pp.examples.planar_arm(3), random_tree(3, 5)], ids=str)
def test_one_step_has_the_bits_of_the_simulator(model: pp.Model, integrator: str):
    sim, rng = pp.Simulator(model, dt=1e-3, integrator=integrator), np.random.default_rng(0)
    q = np.array([model.random_configuration(rng) for _ in range(7)])
    v, tau = rng.normal(size=(2, 7, model.nv))
    state, kept = sim.initial_state(q, v), q.copy()
    found = sim.compiled.evaluate({"q": q, "v": v}, tau)
    sim.step(state, tau)
    assert_array_equal(q, kept)
    for name, x in {"q": state.q, "v": state.v, "t": state.t}.items():
        assert_array_equal(found[name], x)


def test_trajectories_may_have_their_own_parameters():
    sim, q = arm_with_spring(), np.array([[0.1, 0.2], [0.1, 0.2], [0.3, 0.0]])
    kp = np.array([1.0, 2.0, 3.0])
    found = sim.compiled.evaluate({"q": q}, parameters={"spring.kp": kp})
    state = sim.initial_state(q, parameters={"spring.kp": kp})
    sim.step(state)
    assert_array_equal(found["v"], state.v)
    assert_array_equal(found["spring.sum"], state.laws["spring.sum"])
    assert not np.array_equal(found["v"][0], found["v"][1])
    shared = sim.compiled.evaluate({"q": q}, parameters={"spring.kp": 2.0})
    assert_array_equal(shared["v"][1], found["v"][1])


def test_samples_depend_on_the_number_of_the_step():
    @pp.law(rate=500.0, discrete={"n": 0.0})
    def counter(n):
        return {"n": n + 1.0}

    step = pp.Simulator(pp.examples.planar_arm(1), counter, dt=1e-3).compiled
    after = [float(step.evaluate({}, number=i)["counter.n"][0]) for i in range(4)]
    assert after == [1.0, 0.0, 1.0, 0.0]


def test_what_cannot_be_evaluated_is_refused():
    step = arm_with_spring(per_trajectory=("M",)).compiled
    with pytest.raises(InputError, match=r"parameters=\{'M': …\} has no value"):
        step.evaluate({"q": np.zeros((1, 2))})
    M = np.tile(np.eye(6), (2, 1, 1))
    with pytest.raises(InputError, match=r"q has shape \(1, 3\), but must have \(2,\) or"):
        step.evaluate({"q": np.zeros((1, 3))}, parameters={"M": M})
    with pytest.raises(InputError, match=r"v has 3 rows, but others have 2"):
        step.evaluate({"q": np.zeros((2, 2)), "v": np.zeros((3, 2))}, parameters={"M": M})
    with pytest.raises(InputError, match=r"'mass' is not a parameter"):
        step.evaluate({}, parameters={"mass": 1.0})
    with pytest.raises(SimulationError, match="no inertia to move"):
        step.evaluate({}, parameters={"M": 0.0 * M})
    episodes = pp.Simulator(pp.examples.planar_arm(1), episodes=pp.Episodes(time_limit=1.0))
    with pytest.raises(InputError, match="a step with episodes"):
        episodes.compiled.evaluate({})


def test_a_reproducible_step_has_code_of_its_own():
    sim = arm_with_spring()
    same = sim.as_reproducible().compiled
    assert same.reproducible and not sim.compiled.reproducible
    assert same.plan().reproducible and not sim.compiled.plan().reproducible
    assert sim.compiled.plan() is sim.compiled.plan()
