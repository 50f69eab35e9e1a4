"""Impacts with friction and without restitution in fixed steps: rates after them converge."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contact_problems import Scene
from scipy.optimize import brentq

import phipsi as pp
from phipsi.contact.contact_rows import rebound
from phipsi.contact.solver.contact_problem import ContactProblem, ContactProblemLayout
from phipsi.contact.solver.contact_solver import solve

MASS, MOMENTS, RADIUS, FRICTION = 1.5, np.diag([0.02, 0.05, 0.06]), 0.05, 0.4
TIPS = np.array([[0.3, 0.05, -0.1], [-0.25, 0.1, -0.1]])
STEPS = (2e-3, 1e-3, 5e-4)


def rotation(quaternion: np.ndarray) -> np.ndarray:
    """R (..., 3, 3) of unit quaternions (..., 4)."""
    w, x, y, z = np.moveaxis(quaternion, -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), (0, 1), (-2, -1))


def dense(R: np.ndarray, tips: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of the tips in world axes (3k, 6), the inverse inertia, and W."""
    arms = tips @ R.T + [0, 0, -RADIUS]
    G = np.concatenate([np.hstack([-np.cross(np.eye(3), x), np.eye(3)]) for x in arms])
    inverse = np.zeros((6, 6))
    inverse[:3, :3], inverse[3:, 3:] = R @ np.linalg.inv(MOMENTS) @ R.T, np.eye(3) / MASS
    return G, inverse, G @ inverse @ G.T


def impulse(W: np.ndarray, u: np.ndarray) -> np.ndarray:
    """The impulse of one contact that is hit with u: it sticks, or slips in a direction e(θ)."""
    p = -np.linalg.solve(W, u)
    if np.hypot(*p[:2]) <= FRICTION * p[2]:
        return p

    def slip(angle: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        e = np.array([np.cos(angle), np.sin(angle)])
        push = -u[2] / (W[2, 2] - FRICTION * W[2, :2] @ e)
        p = np.array([*(-FRICTION * push * e), push])
        return p, (W @ p + u)[:2], e

    def across(angle: float) -> float:
        _, rate, e = slip(angle)
        return float(e[0] * rate[1] - e[1] * rate[0])

    angles = np.linspace(0, 2 * np.pi, 400)
    found = []
    for low, high in zip(angles, angles[1:], strict=False):
        if across(low) * across(high) <= 0:
            root: Any = brentq(across, low, high, xtol=1e-14)
            p, rate, e = slip(root)
            found += [p] if rate @ e >= 0 and p[2] > 0 else []
    assert len(found) == 1
    return found[0]


def body(tips: np.ndarray) -> pp.System:
    builder = pp.ModelBuilder(gravity=(0, 0, 0))
    inertia = pp.SpatialInertia(MASS, (0, 0, 0), MOMENTS)
    builder.add_body("body", joint=pp.joints.Free(), inertia=inertia)
    for i, at in enumerate(tips):
        builder.add_shape(f"tip{i}", "body", pp.shapes.Sphere(RADIUS), pp.Pose(None, at))
    model = builder.build()
    contacts = pp.Contacts(model, ground=True, material=pp.Material(FRICTION))
    return pp.System(model, contacts=contacts)


def after(system: Any, q: np.ndarray, v: np.ndarray, h: float) -> np.ndarray:
    """Rates in world axes after three steps."""
    sim = pp.Simulator(system, dt=h, integrator="time_stepping")
    run = sim.rollout(sim.initial_state(q, v), steps=3, record=("q", "v"), progress=False)
    assert run.certificate.is_clean and run.certificate.gain.max() < 1e-13
    R = rotation(run.q[:, -1, :4])
    parts = [np.einsum("nij,nj->ni", R, x) for x in (run.v[:, -1, :3], run.v[:, -1, 3:])]
    return np.concatenate(parts, axis=1)


def test_one_contact_that_is_hit_anywhere_in_a_step():
    rng, count = np.random.default_rng(0), 16
    quaternions = rng.normal(size=(count, 4))
    quaternions /= np.linalg.norm(quaternions, axis=1)[:, None]
    when, heights, speeds, rates, wanted, split = rng.uniform(0, 1, count), [], [], [], [], []
    for i, R in enumerate(rotation(quaternions)):
        G, inverse, W = dense(R, TIPS[:1])
        v = np.zeros(6)
        while (G @ v)[2] > -0.5:
            v = rng.normal(size=6) * [3, 3, 3, 1, 1, 1]
        wanted.append(v + inverse @ G.T @ impulse(W, G @ v))
        # the twin: an impulse that leaves a part of the speed, and another one that stops it
        left = (G @ v) * [1, 1, 1 - when[i]]
        half = v + inverse @ G.T @ impulse(W, left)
        split.append(half + inverse @ G.T @ impulse(W, G @ half))
        heights.append(-(R @ TIPS[0])[2] + RADIUS)
        speeds.append(-(G @ v)[2])
        rates.append(np.concatenate([R.T @ v[:3], R.T @ v[3:]]))
    errors = []
    for h in STEPS:
        places = np.zeros((count, 3))
        places[:, 2] = np.array(heights) + when * h * speeds
        found = after(body(TIPS[:1]), np.hstack([quaternions, places]), np.array(rates), h)
        errors.append(np.abs(found - wanted).max(axis=1))
    ratios = errors[0].max() / errors[1].max(), errors[1].max() / errors[2].max()
    assert 1.8 < min(ratios) <= max(ratios) < 2.2 and errors[2].max() < 0.05
    assert np.abs(np.array(split) - wanted).max() > 2 * errors[2].max()


def test_a_contact_is_hit_while_another_one_rests():
    level = TIPS.copy()
    G, inverse, W = dense(np.eye(3), level)
    layout = ContactProblemLayout(("point", "point"))
    rng, count = np.random.default_rng(1), 12
    when, rates = rng.uniform(0, 1, count), []
    wanted = []
    for _ in range(count):
        v = np.zeros(6)
        while (G @ v)[5] > -0.3:
            v = rng.normal(size=6) * [3, 3, 3, 1, 1, 1]
            v[5] -= (G @ v)[2]  # the first one rests or slides
        problem = ContactProblem(layout, W, G @ v, np.zeros(2), layout.coefficients(FRICTION))
        found = solve(problem)
        assert found.is_solved
        wanted.append(v + inverse @ G.T @ found.p)
        rates.append(v)
    errors = []
    for h in STEPS:
        # the body is tilted about the first tip until the second one is as high as it falls
        gaps = -when * h * (np.array(rates) @ G[5])
        across = np.cross(TIPS[1] - TIPS[0], [0, 0, 1.0])
        across /= np.linalg.norm(across)
        angles = np.arcsin(gaps / np.linalg.norm((TIPS[1] - TIPS[0])[:2]))
        half = np.outer(np.sin(angles / 2), across)
        quaternions = np.column_stack([np.cos(angles / 2), half])
        R = rotation(quaternions)
        places = np.array([0, 0, RADIUS]) - R @ TIPS[0] + TIPS[0] * [1, 1, 0]
        turned = [np.concatenate([A.T @ v[:3], A.T @ v[3:]]) for A, v in zip(R, rates, strict=True)]
        found = after(body(TIPS), np.hstack([quaternions, places]), np.array(turned), h)
        errors.append(np.abs(found - wanted).max(axis=1))
    assert errors[2].max() < 0.6 * errors[1].max() < 0.36 * errors[0].max()
    assert errors[2].max() < 0.05


@pytest.mark.parametrize("e", [0.0, 0.3])
def test_energy_of_a_falling_ball_is_accounted_for(e: float):
    scene = Scene(friction=0.5, restitution=e)
    scene.add("ball", pp.shapes.Sphere(0.1), 1.0, (0, 0, 1.1), (0.3, 0, 0))
    system, q, v = scene.system()
    h = 2e-3
    sim = pp.Simulator(system, dt=h, integrator="time_stepping")
    proof = sim.rollout(sim.initial_state(q, v), steps=round(1.0 / h), progress=False).certificate
    assert abs(proof.balance) < 0.1 * h and proof.dissipated > 9.0  # of 9.81 J


def flown(gap: float, V: float, a: float, e: float, h: float) -> tuple[float, float, float]:
    """Where a contact is after a step, its rate at the middle, and what of it is since the hit."""
    x, left = gap, h
    for _ in range(100_000):
        root = np.sqrt(max(V * V - 2 * a * x, 0.0))
        t = 2 * x / (root - V) if V < 0 else np.inf if a >= 0 else (V + root) / -a
        if t >= left:
            since = a * (left - h / 2)
            return x + V * left + a * left * left / 2, V + since, since
        x, V, left = 0.0, -e * (V + a * t), left - t
        if V < 1e-13:
            break  # it rests
    return 0.0, 0.0, 0.0


@pytest.mark.parametrize("e", [1e-7, 0.3, 0.9, 1.0])
def test_rebounds_in_a_step_are_those_of_one_impact_after_the_other(e: float):
    """Also a restitution near zero, many impacts in a step, and pulls that push."""
    rng, h = np.random.default_rng(5), 1e-2
    for a in (-9.8, -300.0, -3000.0, 0.0, 5.0):
        V = -rng.uniform(0.2, 2.0, 40)
        before, free = V - a * h / 2, V + a * h / 2
        gap = rng.uniform(0, 1, 40) * -free * h
        hits = rebound(gap, before, free, np.full(40, e), h)
        assert hits.there.all()
        place, rate, since = np.array([flown(*x, a, e, h) for x in zip(gap, V, strict=True)]).T
        np.testing.assert_allclose(hits.later - hits.s, rate, rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(hits.later, since, rtol=1e-11, atol=1e-11)
        back = hits.back * (rate - free)
        np.testing.assert_allclose(back, gap + h * rate - place, atol=1e-15)


@pytest.mark.parametrize(
    ("gap", "before", "free", "e", "hits"),
    [
        (0.01 - 5e-7, -1.0, -1.0, 0.5, True),
        (0.01 + 5e-7, -1.0, -1.0, 0.5, False),  # still apart at the end of the step
        (-1e-3, -1.0, -5e-7, 0.5, True),
        (-1e-3, -1.0, 5e-7, 0.5, False),  # what else acts on it takes it away
        (1e-3, -1.0, -1.0, 0.0, False),
        (0.0, -0.051, -0.151, 0.5, True),
        (0.0, -0.049, -0.149, 0.5, False),  # at rest, but for half a step of its weight
        (2e-9, -0.049, -0.149, 0.5, True),
        (5e-10, -0.049, -0.149, 0.5, False),
    ],
)
def test_which_contacts_rebound(gap: float, before: float, free: float, e: float, hits: bool):
    """In a step of 10 ms, the weight 10 m/s² where they are slow."""
    assert bool(rebound(*map(np.float64, (gap, before, free, e)), 0.01).there) == hits
