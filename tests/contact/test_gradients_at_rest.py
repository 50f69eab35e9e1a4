"""Gradients of bodies at rest: those of bodies just above each other, which the step closes."""

from __future__ import annotations

import numpy as np
import pytest
from known_systems import on_ground
from numpy.testing import assert_allclose

import phipsi as pp

H, LIFT = 1e-2, 1e-6


def box():
    system = on_ground(pp.shapes.Box((0.4, 0.3, 0.2)))
    sim = pp.Simulator(system, dt=H, integrator="time_stepping")
    return sim, np.array([1, 0, 0, 0, 0, 0, 0.1]), np.array([0, 0, 0, 0, 0, 1.0])


def stopped_arm():
    stop = pp.forces.JointLimit("joint1", np.inf, lower=-0.5, upper=1.0)
    arm = pp.examples.planar_arm(1)
    sim = pp.Simulator(arm, [stop], dt=H, integrator="time_stepping")
    return sim, np.array([-0.5]), np.array([1.0])


STARTS = [
    (box, np.zeros(6)),
    (box, np.array([0, 0, 0, 0.5, 0.3, 0])),  # it slides on four corners
    (stopped_arm, np.zeros(1)),
]


@pytest.mark.parametrize(("make", "v"), STARTS, ids=["at rest", "sliding", "on a stop"])
@pytest.mark.parametrize("name", ["q", "v"])
def test_the_gradient_is_that_of_a_body_just_above(make, v, name):
    """By differences above, where all points close in the step; not that of a body just below."""
    sim, q, up = make()
    model, steps = sim.model, 2
    size = sim.shape_of(name)[0]
    weight = np.zeros((steps + 1, size))
    weight[1:] = np.random.default_rng(1).normal(size=(steps, size))

    def value(place):
        state = sim.initial_state(place, v, resolve_penetration=True)
        return (sim.rollout(state, steps=steps, record=(name,))[name] * weight).sum(axis=(-1, -2))

    def gradient(place):
        return sim.gradient(
            sim.initial_state(place, v, resolve_penetration=True),
            None,
            steps,
            cotangents={name: weight},
        ).q

    above, below = (model.integrate(q, x * LIFT * up) for x in (1, -1))
    small = 0.1 * LIFT * np.eye(model.nv)
    ends = [np.array([model.integrate(above, x * d) for d in small]) for x in (1, -1)]
    wanted = (value(ends[0]) - value(ends[1])) / (0.2 * LIFT)
    scale = np.abs(wanted).max()
    found = gradient(q)
    assert_allclose(found, wanted, atol=2e-4 * scale)
    if name == "v":
        assert np.abs(gradient(below) - wanted).max() > 0.1 * scale
    # and rounding does not decide
    for x in (-3e-13, 3e-13):
        near = gradient(model.integrate(q, x * up))
        assert_allclose(near, found, atol=1e-6 * scale)


def test_a_body_at_rest_goes_back_to_the_ground_from_both_sides():
    """Its height after a step does not depend on that before: it is neither kept nor doubled."""
    sim, q, up = box()
    end = np.zeros((2, 7))
    end[-1, 6] = 1.0
    found = sim.gradient(sim.initial_state(q), None, 1, cotangents={"q": end}).q
    for x in (1, -1):
        place = sim.model.integrate(q, x * LIFT * up)
        run = sim.rollout(sim.initial_state(place, resolve_penetration=True), steps=1)
        assert abs(run.q[-1, 6] - 0.1) < 1e-12
    assert abs(found[5]) < 1e-9
    assert_allclose(found[:3], 0, atol=1e-9)  # nor on how it was tilted
