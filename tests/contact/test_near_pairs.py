"""Pairs that are near at a configuration: those that all pairs have there, at a linear cost."""

from __future__ import annotations

import warnings
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from amounts import seeds

import phipsi as pp
from phipsi.attached.shapes import bounding_ball
from phipsi.contact import contact_shapes
from phipsi.contact.contact_rows import RowPlan
from phipsi.laws.block_diagram import JointRows
from phipsi.simulation.impacts import contact_steps

SHAPES = (
    pp.shapes.Sphere(0.1), pp.shapes.Sphere(0.004), pp.shapes.Capsule(0.05, 0.3),
    pp.shapes.Box((0.2, 0.1, 0.4)), pp.shapes.Cylinder(0.1, 0.1), pp.shapes.Box((1.5, 1.0, 0.1)),
)  # fmt: skip


def scene(rng: np.random.Generator, count: int) -> tuple[Any, Any]:
    builder = pp.ModelBuilder()
    for i in range(count):
        builder.add_body(f"b{i}", joint=pp.joints.Free(), inertia=pp.SpatialInertia(mass=1.0))
        shape = SHAPES[rng.integers(len(SHAPES))]
        at = pp.Pose.from_axis_angle(rng.normal(size=3), 1.0, translation=rng.normal(size=3) / 9)
        builder.add_shape(f"s{i}", f"b{i}", shape, at)
    builder.add_shape("post", "world", pp.shapes.Box((0.2, 0.2, 3.0)), pp.Pose(None, (0.5, 0, 1)))
    builder.add_shape("wall", "world", pp.shapes.Plane())
    model = builder.build()
    q = rng.normal(size=(count, 7))
    q[:, :4] /= np.linalg.norm(q[:, :4], axis=1, keepdims=True)
    return model, q.ravel()


def brute(centres: Any, radii: Any, within: float) -> list[list[int]]:
    near = []
    for i, j in combinations(range(len(radii)), 2):
        d = centres[i] - centres[j]
        if d @ d <= (radii[i] + radii[j] + within) ** 2:
            near.append([i, j])
    return near


def clouds() -> list[tuple[Any, Any]]:
    rng = np.random.default_rng(3)
    found = []
    for spread in (0.2, 2.0, 50.0):
        centres = rng.uniform(-spread, spread, (120, 3))
        found.append((centres, 10.0 ** rng.uniform(-3, 0, 120)))
        found.append((centres + 1e7, np.full(120, 0.1)))
    grid = np.array(np.meshgrid(*[np.arange(5.0)] * 3)).reshape(3, -1).T  # all exactly touch
    return [*found, (grid, np.full(125, 0.5)), (np.zeros((4, 3)), np.zeros(4)),
            (np.zeros((0, 3)), np.zeros(0)), (np.zeros((1, 3)), np.ones(1))]  # fmt: skip


def test_grids_find_the_pairs_of_all_pairs() -> None:
    for centres, radii in clouds():
        for within in (0.0, 0.02, 1.0):
            found = contact_shapes.near_balls(centres, radii, within)
            assert found.tolist() == brute(centres, radii, within)


def test_cells_that_are_too_small_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contact_shapes, "_CELL", 0.45)
    with pytest.raises(AssertionError):
        test_grids_find_the_pairs_of_all_pairs()


@pytest.mark.parametrize("seed", seeds(4, 2))
def test_near_pairs_are_those_of_all_pairs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHIPSI_BACKEND", "native")
    rng = np.random.default_rng(seed)
    model, q = scene(rng, 30)
    X = pp.poses(model, q)
    every = pp.Contacts(model, exclude=["s3", ("s1", "s2")])
    near = pp.Contacts(
        model, exclude=["s3", ("s1", "s2")], broadphase_poses=X, broadphase_distance=0.1
    )
    wanted: dict[Any, list[str]] = {}
    for pair in every.pairs:
        balls = []
        for side, body in ((pair.a, pair.body_a), (pair.b, pair.body_b)):
            pose = X[body] if body >= 0 else np.eye(4)
            ball = bounding_ball(side.shape)
            at = side.placement.rotation @ ball[:3] + side.placement.translation
            balls.append((pose[:3, :3] @ at + pose[:3, 3], ball[3]))
        (x, r), (y, s) = balls
        if np.linalg.norm(x - y) <= r + s + 0.1:  # the ball of a plane is everything
            wanted.setdefault(pair.group, []).append(pair.name)
    found: dict[Any, list[str]] = {}
    for pair in near.pairs:
        found.setdefault(pair.group, []).append(pair.name)
    assert found == wanted
    assert 0 < len(near.pairs) < 0.8 * len(every.pairs)
    if seed:
        return
    slots = {p.name: np.arange(p.first, p.first + p.slots) for p in every.pairs}
    places = np.concatenate([slots[p.name] for p in near.pairs])
    few, all_points = pp.contact_points(near, q), pp.contact_points(every, q)
    for x, y in zip(few, all_points, strict=True):
        assert np.array_equal(x, y[places])  # the same bits
    left_out = np.setdiff1d(np.arange(every.n_slots), places)
    assert all_points.gap[left_out].min() > 0.1


def test_what_is_wrong_with_near() -> None:
    model, q = scene(np.random.default_rng(0), 2)
    X = pp.poses(model, q)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"broadphase_poses": q}, r"\(14,\), not \(bodies, 4, 4\)"),
        ({"broadphase_poses": X[:1]}, "not .bodies, 4, 4."),
        ({"broadphase_poses": X * np.nan}, "must be finite"),
        ({"broadphase_poses": X, "broadphase_distance": -1.0}, "at least 0"),
        ({"broadphase_poses": X, "pairs": [("s0", "s1")]}, 'pairs="auto"'),
        ({"broadphase_distance": 1.0}, "broadphase_poses=pp.poses"),
    ]
    for options, message in cases:
        with pytest.raises(pp.errors.PhipsiError, match=message):
            pp.Contacts(model, **options)


def test_steps_with_too_many_rows_name_near(monkeypatch: pytest.MonkeyPatch) -> None:
    model = scene(np.random.default_rng(0), 3)[0]
    contacts = pp.Contacts(model, pairs=[("s0", "wall"), ("s1", "wall")])
    plan = RowPlan(model, contacts, JointRows())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        contact_steps._suggest_near(plan)
    monkeypatch.setattr(contact_steps, "_MANY_ROWS", 2)
    rows = f"{plan.layout.n_rows} constraint rows for 2 pairs"
    message = rf"{rows}[^$]*broadphase_poses=pp.poses\(model, q\)"
    with pytest.warns(pp.errors.PhipsiWarning, match=message):
        contact_steps._suggest_near(plan)
