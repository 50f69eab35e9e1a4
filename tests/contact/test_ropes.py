"""Ropes: exact answers, energy, gradients, and ropes that stretch as forces."""

from __future__ import annotations

import numpy as np
import pytest
from known_systems import on_ground
from numpy.testing import assert_allclose, assert_array_equal

import phipsi as pp

F = pp.forces
G = 9.81
STEPPING = {"integrator": "time_stepping"}


def ball(mass: float = 2.0, **options) -> pp.Model:
    builder = pp.ModelBuilder(**options)
    inertia = pp.SpatialInertia.sphere(0.05, mass=mass)
    builder.add_body("ball", joint=pp.joints.Free(), inertia=inertia)
    return builder.build()


def place(*x: float) -> np.ndarray:
    return np.array([1.0, 0, 0, 0, *x])


def test_a_ball_falls_into_a_rope_and_swings_as_a_pendulum():
    L, start = 1.0, np.array([0.6, 0, 0])
    model, rope = ball(), F.Rope("ball", "world", 1.0)
    errors = []
    for h in (1e-3, 5e-4):
        sim = pp.Simulator(model, [rope], dt=h, **STEPPING)
        names = ("q", "v", "rope.impulses")
        run = sim.rollout(sim.initial_state(place(*start)), steps=round(1.0 / h), record=names)
        x = run.q[:, 4:]
        far = np.linalg.norm(x, axis=1)
        assert far.max() < L + 10 * h**2  # the arc within a step
        taut = np.flatnonzero(run["rope.impulses"][:, 0] > 0)[0]
        fall = np.sqrt(2 * 0.8 / G)  # the rope is taut at (0.6, −0.8)
        assert taut * h == pytest.approx(fall, abs=2 * h)
        # the speed along the rope is lost; the rest is that of a pendulum
        speed = np.sqrt(2 * G * 0.8) * 0.6
        energy = 0.5 * speed**2 - G * 0.8
        now = 0.5 * (run.v[-1, 3:] ** 2).sum() + G * x[-1, 2]
        errors.append(abs(now - energy))
        assert run.certificate.is_clean and run.certificate.gain < 1e-12
        assert far[-1] == pytest.approx(L, abs=10 * h**2)
    assert errors[1] < 0.65 * errors[0] and errors[1] < 0.02


def test_a_slack_rope_does_nothing_and_a_taut_one_carries_the_weight():
    model = ball(gravity=(0, 0, -G))
    sim = pp.Simulator(model, [F.Rope(("ball", (0, 0, 0.05)), "world", 0.5)], dt=1e-2, **STEPPING)
    run = sim.rollout(sim.initial_state(), steps=20, record=("v", "rope.impulses"), progress=False)
    assert_array_equal(run["rope.impulses"], 0.0)
    assert run.v[-1, 5] == pytest.approx(-G * 0.2)
    run = sim.rollout(
        sim.initial_state(place(0, 0, -0.55)), steps=200, record=("q", "v", "rope.impulses")
    )
    assert_allclose(run["rope.impulses"][1:, 0] / 1e-2, 2.0 * G, rtol=1e-9)
    assert np.abs(run.q[-1, 4:] - [0, 0, -0.55]).max() < 1e-12


def test_two_bodies_on_a_rope_keep_their_momentum():
    builder = pp.ModelBuilder(gravity=(0, 0, 0))
    for name, mass in (("one", 1.0), ("two", 3.0)):
        inertia = pp.SpatialInertia.sphere(0.05, mass=mass)
        builder.add_body(name, joint=pp.joints.Free(), inertia=inertia)
    sim = pp.Simulator(builder.build(), [F.Rope("one", "two", 1.0)], dt=1e-3, **STEPPING)
    q = np.concatenate([place(0, 0, 0), place(0.5, 0, 0)])
    v = np.zeros(12)
    v[9] = 2.0  # the second flies away
    run = sim.rollout(sim.initial_state(q, v), steps=500, record=("q", "v"), progress=False)
    assert_allclose(run.v[-1, [3, 9]], 1.5, atol=1e-12)  # together, 6/4 m/s
    assert np.linalg.norm(run.q[-1, 11:] - run.q[-1, 4:7]) == pytest.approx(1.0, abs=1e-9)


def test_a_rope_over_a_floor_with_contacts():
    system = on_ground(pp.shapes.Box((0.2, 0.2, 0.2)), material=pp.Material(0.3))
    rope = F.Rope("box", ("world", (0, 0, 0.1)), 0.5)
    sim = pp.Simulator(system, [rope], dt=1e-3, **STEPPING)
    run = sim.rollout(
        sim.initial_state(place(0, 0, 0.1), [0, 0, 0, 3.0, 0, 0]), steps=800, progress=False
    )
    assert run.q[:, 4].max() == pytest.approx(0.5, abs=1e-9)
    assert run.certificate.is_clean and run.certificate.gain < 1e-12
    assert np.abs(run.v[-1]).max() < 1e-9


def test_gradients_through_a_rope():
    rope = F.Rope(("ball", (0.02, 0, 0.04)), "world", 1.0)
    sim = pp.Simulator(ball(), [rope], dt=1e-3, **STEPPING)
    q, v, steps = place(0.6, 0.05, -0.79), np.array([0.1, 0.2, 0, 0.2, 0.1, -1.5]), 40
    weight = np.zeros((steps + 1, 6))
    weight[-1] = np.random.default_rng(2).normal(size=6)
    found = sim.gradient(sim.initial_state(q, v), None, steps, cotangents={"v": weight})
    run = sim.rollout(
        sim.initial_state(q, v), steps=steps, record=("rope.impulses",), progress=False
    )
    assert run["rope.impulses"].any()

    def value(dv, length):
        own = {"rope.length": length}
        run = sim.rollout(sim.initial_state(q, v + dv, parameters=own), steps=steps, progress=False)
        return run.v[..., -1, :] @ weight[-1]

    def slope(along):
        far, near = ((along(x) - along(-x)) / (2 * x) for x in (4e-6, 2e-6))
        return (4 * near - far) / 3

    assert_allclose(found.v, slope(lambda x: value(x * np.eye(6), [1.0])), atol=1e-7)
    by_length = slope(lambda x: value(0, [1.0 + x]))
    assert_allclose(found.parameters["rope.length"][0], by_length, rtol=1e-7)


@pytest.mark.usefixtures("machine_code")
def test_a_rope_that_stretches_is_a_force_in_every_integrator():
    model, k = ball(), 400.0
    rope = F.Rope("ball", "world", 1.0, stiffness=k)
    run = pp.simulate(model, place(0, 0, -1.0), np.zeros(6), 1.0, forces=[rope])
    low = run.q[:, 6].min()
    assert low == pytest.approx(-1.0 - 2 * 2.0 * G / k, rel=1e-3)  # twice the stretch at rest
    assert np.abs(run.energy - run.energy[0]).max() < 1e-6
    slack = pp.simulate(model, place(0, 0, -0.5), np.zeros(6), 0.1, forces=[rope])
    assert slack.v[-1, 5] == pytest.approx(-G * 0.1, rel=1e-9)


TIED = F.Rope("ball", "world", 1.0)


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (
            lambda m: pp.simulate(m, m.neutral(), [0] * 6, 0.1, forces=[TIED], integrator="lsoda"),
            "time",
        ),
        (lambda m: pp.Simulator(m, [TIED]), "ropes"),
        (lambda m: F.Rope("ball", "ball", 1.0).bind(m), "never go taut"),
        (lambda m: F.Rope("ball", "world", 0.0).bind(m), "length must be positive"),
        (lambda m: F.Rope("ball", "world", 1.0, damping=1.0).bind(m), "damping= applies only"),
        (lambda m: F.Rope("bal", "world", 1.0).bind(m), "bal"),
    ],
)
def test_rejected(call, why):
    with pytest.raises(pp.errors.PhipsiError, match=why):
        call(ball())
