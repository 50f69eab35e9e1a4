"""Restitution in fixed steps where a heavy body falls on a light one: events, smaller steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phipsi as pp
from phipsi.simulation.integrators.step_rows import StepRows, _Again

STEPPING: Any = {"integrator": "time_stepping"}


def pinned(
    light: float, heavy: float, friction: float, aside: float
) -> tuple[pp.System, np.ndarray, np.ndarray]:
    """A light ball at rest on the floor; a heavy one falls on it, 2 mm above it and aside."""
    builder = pp.ModelBuilder()
    for name, mass, radius in (("light", light, 0.02), ("heavy", heavy, 0.15)):
        inertia = pp.SpatialInertia.sphere(radius, mass=mass)
        builder.add_body(name, joint=pp.joints.Free(), inertia=inertia)
        builder.add_shape(name, name, pp.shapes.Sphere(radius))
    model = builder.build()
    material = pp.Material(friction=friction, restitution=0.3)
    system = pp.System(model, contacts=pp.Contacts(model, ground=True, material=material))
    height = 0.02 + np.sqrt(0.172**2 - aside**2)
    q = np.array([1, 0, 0, 0, 0, 0, 0.02, 1, 0, 0, 0, aside, 0, height])
    return system, q, np.array([*[0.0] * 11, -2.3])


def rolled(system: pp.System, q: np.ndarray, v: np.ndarray, h: float, duration: float) -> Any:
    sim = pp.Simulator(system, dt=h, **STEPPING)
    names = ("q", "v", "contact.gaps")
    return sim.rollout(
        sim.initial_state(q, v), steps=round(duration / h), record=names, progress=False
    )


@pytest.mark.parametrize("masses", [(0.015, 95.0), (0.01, 1000.0)])
def test_the_light_one_stays_where_events_have_it(masses: tuple[float, float]) -> None:
    for aside in (0.003, 0.03):
        system, q, v = pinned(*masses, 0.5, aside)
        exact = pp.simulate(system, q, v, 0.02).q[-1]
        for h in (2e-3, 1e-3, 5e-4, 1e-4):
            run = rolled(system, q, v, h, 0.02)
            assert np.abs(run.q[-1] - exact)[[4, 5, 6, 11, 12, 13]].max() < 0.15 * h
            assert run["contact.gaps"].min() > -1e-12
            assert run.certificate.is_clean and run.certificate.moved == 0


def test_a_light_one_that_is_squeezed_out_converges_to_events() -> None:
    system, q, v = pinned(0.015, 95.0, 0.0, 0.003)  # at 110 m/s
    exact = pp.simulate(system, q, v, 0.02).q[-1]
    errors = [np.abs(rolled(system, q, v, h, 0.02).q[-1] - exact).max() for h in (2e-3, 1e-3, 5e-4)]
    assert errors[0] < 0.02 and max(np.divide(errors[1:], errors[:-1])) < 0.55


def as_each_contact_alone(
    self: Any,
    solver: Any,
    smoothed: Any,
    parts: Any,
    W: Any,
    free: Any,
    change: Any,
    mu: Any,
    p: Any,
) -> Any:
    """Moves back by the impulses of contacts that rebound, without the answers of others."""
    layout = self._layout
    late = np.where(layout.heads < layout.n_heads, parts.late[layout.heads], 0.0)
    moves = (1.0 - late) * p
    there = np.max(np.where(parts.bounces, 1.0, 0.0)) > 0.0
    return _Again(there, moves, 0.0, 0.0, 0.0, self._change(self._forces(moves)))


def test_the_certificate_sees_a_move_that_velocities_do_not_explain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(StepRows, "_moves", as_each_contact_alone)
    system, q, v = pinned(0.015, 95.0, 0.5, 0.03)
    proof = rolled(system, q, v, 2e-3, 0.02).certificate
    assert not proof.is_clean and proof.displaced == 1 and proof.unsolved == 0
    assert proof.moved > 10 and "steps that displace               1 of 10" in str(proof)


def test_the_certificate_sees_a_body_inside_another_one() -> None:
    system, q, v = pinned(1.0, 1.0, 0.0, 0.0)
    sim = pp.Simulator(system, dt=1e-3, **STEPPING)
    q[13] += 1.0
    state = sim.initial_state(q, 0 * v)
    sim.step(state)
    assert state.certificate.is_clean
    state.q[6] -= 0.015  # into the floor, at rest
    sim.step(state)
    proof = state.certificate
    assert proof.overlap == pytest.approx(0.015, abs=1e-6)
    assert proof.displaced == 1 and not proof.is_clean
    fast = sim.initial_state(q, v)
    sim.step(fast)
    fast.v[5], fast.q[6] = -30.0, fast.q[6] - 0.015  # as deep, within the way of a step
    sim.step(fast)
    assert fast.certificate.displaced == 0
    start = sim.initial_state(q - np.eye(14)[6] * 0.015, 0 * v, resolve_penetration=True)
    sim.step(start)
    assert start.certificate.is_clean and start.certificate.overlap == pytest.approx(0.015)


def heap(rng: np.random.Generator, count: int) -> tuple[pp.System, np.ndarray, np.ndarray]:
    """Spheres and boxes of 10 g to 1000 kg over each other, each a little above the next."""
    builder, radii = pp.ModelBuilder(), []
    for i in range(3):
        mass, name = 10 ** rng.uniform(-2, 3), f"body{i}"
        material = pp.Material(
            friction=rng.choice([0.0, 0.3, 0.8]), restitution=rng.uniform(0.1, 1)
        )
        if i == 1:
            x, y, z = rng.uniform(0.08, 0.3, 3)
            radius = float(np.linalg.norm([x, y, z])) / 2
            inertia, shape = pp.SpatialInertia.box((x, y, z), mass=mass), pp.shapes.Box((x, y, z))
        else:
            radius = rng.uniform(0.05, 0.2)
            inertia, shape = pp.SpatialInertia.sphere(radius, mass=mass), pp.shapes.Sphere(radius)
        builder.add_body(name, joint=pp.joints.Free(), inertia=inertia)
        builder.add_shape(name, name, shape, material=material)
        radii.append(radius)
    model = builder.build()
    ground = pp.Material(friction=0.3, restitution=rng.uniform(0.1, 1))
    contacts = pp.Contacts(model, ground=True, material=ground, combine="mean")
    q, v = np.zeros((count, 3, 7)), rng.normal(size=(count, 3, 6)) * [3, 3, 3, 1, 1, 1]
    turned = rng.normal(size=(count, 3, 4))
    q[..., :4] = turned / np.linalg.norm(turned, axis=-1)[..., None]
    q[..., 4:6] = rng.uniform(-0.5, 0.5, (count, 3, 2)) * min(radii)
    at = np.cumsum([0.0, *(2 * np.array(radii[:-1]) + 0.003)]) + radii
    q[..., 6] = at + 1e-4 + 2e-3 * rng.random((count, 3)) * [0, 1, 1]
    v[..., 5] -= 1.0
    return pp.System(model, contacts=contacts), q.reshape(count, -1), v.reshape(count, -1)


def test_no_step_of_random_heaps_moves_a_body_farther_than_it_flies() -> None:
    """Mass ratios up to 1e5, restitution up to 1: 2400 steps of eight heaps at a time."""
    h = 2e-3
    for seed in (5, 6):
        system, q, v = heap(np.random.default_rng(seed), 8)
        run = rolled(system, q, v, h, 0.3)
        x = run.q.reshape(8, -1, 3, 7)[..., 4:]
        speed = np.linalg.norm(run.v.reshape(8, -1, 3, 6)[..., 3:], axis=-1)
        fastest = np.maximum(speed[:, 1:], speed[:, :-1])
        away = np.linalg.norm(np.diff(x, axis=1), axis=-1) - h * fastest
        assert np.isfinite(x).all() and away.max() < 2e-3
        assert run["contact.gaps"].min() > -3e-3  # a box that turns within the step
        assert run.certificate.is_clean and run.certificate.moved.max() == 0
