"""Overlap of bodies that tumble in fixed steps, and how far it is removed (theory/contact 3)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phipsi as pp

SIZE = np.array([0.2, 0.3, 0.1])
CORNERS = SIZE / 2 * [[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]
RADIUS = float(np.linalg.norm(SIZE)) / 2


def brick(shape: Any) -> Any:
    builder = pp.ModelBuilder()
    x, y, z = SIZE
    inertia = pp.SpatialInertia.box((x, y, z), mass=2.0)
    builder.add_body("brick", joint=pp.joints.Free(), inertia=inertia)
    builder.add_shape("brick", "brick", shape)
    model = builder.build()
    return pp.System(model, contacts=pp.Contacts(model, ground=True, material=pp.Material(0.5)))


def lowest(q: np.ndarray) -> np.ndarray:
    """The height of the lowest corner (...)."""
    w, x, y, z = np.moveaxis(q[..., :4], -1, 0)
    up = np.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], axis=-1)
    return (up @ CORNERS.T).min(axis=-1) + q[..., 6]


def random_poses(rng: np.random.Generator, count: int) -> np.ndarray:
    turned = rng.normal(size=(count, 4))
    turned /= np.linalg.norm(turned, axis=1)[:, None]
    return np.hstack([turned, np.tile([0.0, 0.0, 0.4], (count, 1))])


def turned_by(q: np.ndarray, later: np.ndarray) -> np.ndarray:
    """The angle (...) between two orientations."""
    same = np.abs(np.sum(q[..., :4] * later[..., :4], axis=-1))
    return 2 * np.sqrt(np.maximum(2 - 2 * same, 0.0))


@pytest.mark.parametrize("kind", ["box", "mesh"])
def test_of_bodies_that_tumble(kind: str) -> None:
    """At most ½ ω² r h², what a turn by ω h leaves of a step along the tangent."""
    shape = pp.shapes.Box(tuple(SIZE)) if kind == "box" else pp.shapes.ConvexMesh(CORNERS)
    rng, h = np.random.default_rng(0), 2e-3
    q = random_poses(rng, 24)
    v = np.hstack([8 * rng.normal(size=(24, 3)), rng.normal(size=(24, 3))])
    sim = pp.Simulator(brick(shape), dt=h, integrator="time_stepping")
    run = sim.rollout(sim.initial_state(q, v), steps=350, record=("q",), progress=False)
    assert run.certificate.is_clean
    overlap, angle = -lowest(run.q[:, 1:]), turned_by(run.q[:, :-1], run.q[:, 1:])
    bound = 0.5 * angle**2 * RADIUS
    assert (overlap <= bound + 1e-9).all()
    assert (overlap > 0.2 * bound + 1e-9).any() and overlap.max() > 1e-5  # a smaller one fails
    assert run.certificate.overlap.max() == pytest.approx(overlap[:, :-1].max(), abs=1e-12)


def test_its_removal_lifts_no_mass_farther_than_the_overlap() -> None:
    """Least in the metric of masses: at most the lift of all by the deepest overlap, m g δ."""
    system = brick(pp.shapes.Box(tuple(SIZE))).with_gravity((0, 0, 0))
    rng = np.random.default_rng(1)
    depth = rng.uniform(1e-5, 1e-3, 64)
    q = random_poses(rng, 64)
    flat = np.arange(64) < 16  # on a face, an edge and a corner
    q[flat, :4] = [1.0, 0, 0, 0]
    q[:16, 1] = rng.uniform(-1e-4, 1e-4, 16)
    q[:, :4] /= np.linalg.norm(q[:, :4], axis=1)[:, None]
    q[:, 6] -= lowest(q) + depth
    found = pp.contact_step(system, q, np.zeros((64, 6)), dt=1e-3)
    assert np.abs(found.v).max() == 0  # a move without velocity
    lift = found.q[:, 6] - q[:, 6]
    assert (lift > 0).all() and (lift <= depth * (1 + 1e-9) + 1e-12).all()
    left = -lowest(found.q)
    assert (left <= 0.5 * turned_by(q, found.q) ** 2 * RADIUS + 1e-12).all()
    alone = pp.contact_points(system, q).gap
    several = (alone < -0.5 * depth[:, None]).sum(axis=1) > 2
    assert several.any() and lift[several].max() > 0.9 * depth[several].min()
    # lifting all by the overlap would move more mass, measured by its energy, where it may turn
    assert lift[~several].mean() < 0.8 * depth[~several].mean()
