"""Many pairs as lanes of one formula, and the grid that chooses them: the bits of all pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phipsi as pp
from phipsi.contact import contact_points as module
from phipsi.contact.contact_points import PairLanes
from phipsi.contact.contact_shapes import near_balls

S = pp.shapes
SHAPES = (S.Sphere(0.1), S.Sphere(0.03), S.Capsule(0.05, 0.3))


def heap(seed: int, count: int, spread: float = 0.6) -> tuple[Any, Any]:
    """Bodies with shapes of several kinds over a stone and a field, and three configurations."""
    rng = np.random.default_rng(seed)
    builder = pp.ModelBuilder()
    for i in range(count):
        builder.add_body(f"b{i}", joint=pp.joints.Free(), inertia=pp.SpatialInertia(mass=1.0))
        at = pp.Pose.from_axis_angle(rng.normal(size=3), 1.0, translation=rng.normal(size=3) / 9)
        builder.add_shape(f"s{i}", f"b{i}", SHAPES[i % len(SHAPES)], at)
    builder.add_shape("stone", "world", S.Sphere(0.3), pp.Pose(None, (0.5, 0, 0)))
    heights = 0.1 * rng.normal(size=(20, 20))
    builder.add_shape("field", "world", S.HeightField(heights, (0.3, 0.3)))
    q = rng.normal(size=(3, count, 7))
    q[..., :4] /= np.linalg.norm(q[..., :4], axis=-1, keepdims=True)
    q[..., 4:] *= spread
    return builder.build(), q.reshape(3, -1)


@pytest.fixture(scope="module")
def scene() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PHIPSI_BACKEND", "native")
        model, q = heap(0, 12)
        contacts = pp.Contacts(model, ground=True)
        assert len(contacts.pairs) < module._MANY  # compiled with the numbers of its pairs
        yield contacts, q, pp.contact_points(contacts, q), pp.distances(contacts, q)


def same(found: Any, wanted: Any, where: Any = ...) -> bool:
    return all(np.array_equal(x[where], y[where]) for x, y in zip(found, wanted, strict=True))


def test_lanes_of_pairs_have_the_bits_of_loops(scene: Any, monkeypatch: Any) -> None:
    contacts, q, points, nearest = scene
    X = pp.poses(contacts.model, q)
    assert same(PairLanes(contacts, None, False)(X), points)
    assert same(PairLanes(contacts, None, True)(X), nearest)
    assert same(PairLanes(contacts, None, False)(X[1]), [x[1] for x in points])
    monkeypatch.setattr(module, "_AT_ONCE", 7)
    assert same(PairLanes(contacts, None, False)(X), points)


@pytest.mark.parametrize("within", [0.02, 0.4])
def test_the_grid_leaves_out_far_pairs_only(scene: Any, within: float) -> None:
    contacts, q, _, nearest = scene
    X = pp.poses(contacts.model, q)
    found = PairLanes(contacts, within, True)(X)
    left = found[0] != nearest.distance
    assert same(found, nearest, ~left)
    assert (found[0][left] == 1e6).all() and nearest.distance[left].min() > within
    assert 0.2 < left.mean() < 0.8
    is_wide = [any(x in p.name for x in ("ground", "field")) for p in contacts.pairs]
    assert not left[:, is_wide].any()


def test_a_grid_that_looks_too_near_is_seen(scene: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(
        module, "near_balls", lambda x, r, within, layer: near_balls(x, r / 2, 0.0, layer)
    )
    contacts, q, _, nearest = scene
    found = PairLanes(contacts, 0.02, True)(pp.poses(contacts.model, q))
    assert nearest.distance[found[0] != nearest.distance].min() < 0.02


def test_layers_do_not_see_each_other() -> None:
    rng = np.random.default_rng(5)
    centres, radii = rng.uniform(-1, 1, (4, 40, 3)), rng.uniform(0.05, 0.3, 40)
    layer = np.repeat(np.arange(4), 40)
    together = near_balls(centres.reshape(-1, 3), np.tile(radii, 4), 0.1, layer)
    apart = [near_balls(x, radii, 0.1) + 40 * i for i, x in enumerate(centres)]
    assert together.tolist() == np.concatenate(apart).tolist()


def test_the_first_configurations_of_many_pairs(scene: Any, monkeypatch: Any) -> None:
    """They are by lanes, later ones by code with the numbers of the pairs: nobody can tell."""
    _, q, points, nearest = scene
    monkeypatch.setenv("PHIPSI_BACKEND", "native")
    monkeypatch.setattr(module, "_MANY", 10)
    monkeypatch.setattr(module, "_FEW", 4)
    model, _ = heap(0, 12)  # a model without programs yet
    contacts = pp.Contacts(model, ground=True)
    function = module._DistanceFunction(contacts)
    assert same(function(q, {}), points) and function._fast is None
    assert same(function(q[2], {}), [x[2] for x in points]) and function._fast is None
    assert same(function(q, {}), points) and function._fast is not None
    function = module._DistanceFunction(contacts, 0.1, module.Distances)
    first, later = function(q, {}), function(q, {})
    assert same(first, later) and function._fast is not None
    assert 0.2 < (first.distance != nearest.distance).mean() < 0.8
    monkeypatch.setattr(module, "_TOO_MANY", 10)
    function = module._DistanceFunction(contacts, None, module.Distances)
    out = tuple(np.zeros_like(x) for x in nearest)
    for _ in range(4):
        found = function(q, {"out": out, "threads": 2})
        assert same(found, nearest) and found[0] is out[0]
    assert function._fast is None
    bad = q.copy()
    bad[1, 0] = np.nan
    with pytest.raises(pp.errors.PhipsiError, match="q"):
        function(bad, {})
    found, status = function(bad, {"on_error": "nan"})
    assert status.astype(bool).tolist() == [False, True, False]
    assert np.isnan(found.distance[1]).all() and same(found, nearest, [0, 2])
    wrong: Any = {"thread": 2}
    with pytest.raises(TypeError, match="there is no argument"):
        function(q, wrong)
