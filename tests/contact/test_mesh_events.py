"""Convex meshes in runs with events: the same as the shapes that they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from amounts import ALL, mostly
from numpy.testing import assert_allclose, assert_array_equal

import phipsi as pp
from phipsi.contact.geometry import polygon_pairs
from phipsi.contact.geometry.placed_shapes import Placed
from phipsi.simulation.impacts.contact_tracking import (
    ContactTracker,
    TrackedPoints,
    _matched,
    _nearest_stay,
)

pytestmark = pytest.mark.usefixtures("machine_code")

BRICK, TABLE = (0.2, 0.3, 0.1), (2.0, 2.0, 0.2)
TURN = (np.cos(np.pi / 4), np.sin(np.pi / 4), 0, 0)  # an axis along −y


def mesh(size: Any) -> pp.shapes.ConvexMesh:
    signs = [(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]
    return pp.shapes.ConvexMesh(np.array(signs) * np.array(size) / 2)


def prism(radius: float, length: float, n: int) -> pp.shapes.ConvexMesh:
    """A cylinder with n corners on every rim."""
    angle = 2 * np.pi * np.arange(n) / n
    ring = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return pp.shapes.ConvexMesh([[x, y, z] for x, y in ring for z in (-length / 2, length / 2)])


def system(shape: Any, table: Any, bounce: float = 0.0) -> Any:
    """A body of 1 kg on the ground, or on a table whose top is the ground."""
    builder = pp.ModelBuilder()
    inertia = pp.SpatialInertia(1.0, (0, 0, 0), (0.008, 0.004, 0.010))
    builder.add_body("thing", joint=pp.joints.Free(), inertia=inertia)
    builder.add_shape("thing", "thing", shape)
    if table is not None:
        builder.add_shape("table", "world", table, pp.Pose(None, (0, 0, -0.1)))
    model = builder.build()
    contacts = pp.Contacts(
        model, ground=table is None, material=pp.Material(0.3, restitution=bounce)
    )
    return pp.System(model, contacts=contacts)


def run(shape: Any, table: Any, q: Any, v: Any, end: float, bounce: float = 0.0) -> Any:
    return pp.simulate(system(shape, table, bounce), q, v, end)


def same(one: Any, other: Any, tolerance: float) -> None:
    names = [[e.name.split()[-1] for e in x.events] for x in (one, other)]
    assert names[0] == names[1] and names[0]
    assert_allclose([e.t for e in one.events], [e.t for e in other.events], atol=tolerance)
    assert_allclose(one.q[-1], other.q[-1], atol=tolerance)
    assert abs(one.contacts.certificate.balance) < 3e-9


@pytest.fixture(scope="module")
def brick_on_a_plane() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PHIPSI_BACKEND", "native")  # before machine_code, which is of each test
        return run(pp.shapes.Box(BRICK), None, *FALLS)


FALLS = [1, 0, 0, 0, 0, 0, 0.06], [0, 0, 0, 0.5, 0.2, 0], 0.25


PAIRS = [("mesh", "plane"), ("box", "box"), ("mesh", "box"), ("box", "mesh"), ("mesh", "mesh")]


@pytest.mark.parametrize(
    ("shape", "table"), mostly(PAIRS, ("box", "box"), ("box", "mesh"), ("mesh", "mesh"))
)
def test_a_brick_falls_slides_and_stops(shape: str, table: str, brick_on_a_plane: Any) -> None:
    """As the box on a plane does; two of one kind tumble below."""
    tables = {"plane": None, "box": pp.shapes.Box(TABLE), "mesh": mesh(TABLE)}
    shapes = {"box": pp.shapes.Box(BRICK), "mesh": mesh(BRICK)}
    same(run(shapes[shape], tables[table], *FALLS), brick_on_a_plane, 1e-9)


ROUND = {
    "sphere": (pp.shapes.Sphere(0.1), (1, 0, 0, 0)),
    "capsule": (pp.shapes.Capsule(0.1, 0.2), TURN),
    "cylinder": (pp.shapes.Cylinder(0.1, 0.2), TURN),
}


@pytest.mark.parametrize("name", mostly(ROUND, "capsule"))
def test_round_bodies_slide_and_roll_on_a_mesh(name: str) -> None:
    shape, turn = ROUND[name]
    start = [*turn, 0, 0, 0.1], [0, 0, 0, 1.0, 0, 0], 0.15
    same(run(shape, mesh(TABLE), *start), run(shape, None, *start), 1e-7)


def test_a_prism_of_many_sides_is_nearly_a_cylinder() -> None:
    """It stands, slides and spins: friction at 48 corners is about that at a rim of any points."""
    start = [1, 0, 0, 0, 0, 0, 0.1], [0, 0, 0, 1.0, 0, 0], 0.36
    one = run(prism(0.1, 0.2, 16), None, *start)
    same(one, run(pp.shapes.Cylinder(0.1, 0.2), None, *start), 1e-8)


TUMBLES = [0.8, 0.36, 0.48, 0, 0, 0, 0.3], [2.0, 1.0, -1.0, 0.5, 0, 0], 0.245


@pytest.fixture(scope="module", params=[0.0, 0.5])
def tumbling(request: Any) -> Any:
    return request.param, run(pp.shapes.Box(BRICK), None, *TUMBLES, request.param)


@pytest.mark.parametrize("kind", ["box", "mesh"])
def test_a_brick_tumbles_on_a_table_as_on_the_ground(kind: str, tumbling: Any) -> None:
    """Its corners change their slots on the way; forces are recorded where bodies touch."""
    bounce, on_a_plane = tumbling
    shape, table = ((pp.shapes.Box(x) if kind == "box" else mesh(x)) for x in (BRICK, TABLE))
    one = run(shape, table, *TUMBLES, bounce)
    same(one, on_a_plane, 1e-8)
    normal, gaps = one.contacts.forces[..., 5], one.contacts.gaps
    assert np.abs(gaps[normal > 1e-6]).max(initial=0.0) < 1e-9
    assert_array_equal(one.contacts.modes > 0, normal != 0)
    if bounce == 0:
        used = {tuple(np.flatnonzero(row)) for row in one.contacts.modes}
        assert len(used) > 3


def test_slots_that_do_not_follow_their_points_lose_energy(monkeypatch: Any) -> None:
    """A cylinder on a box changes the points of its slots; its twin does not know it."""
    start = TUMBLES[0], TUMBLES[1], 0.22
    shape, table = pp.shapes.Cylinder(0.1, 0.2), pp.shapes.Box(TABLE)
    assert abs(run(shape, table, *start).contacts.certificate.balance) < 3e-9
    monkeypatch.setattr(ContactTracker, "now", lambda self, gap, *_: _as_they_come(self, len(gap)))
    assert abs(run(shape, table, *start).contacts.certificate.balance) > 1e-5


def _as_they_come(places: ContactTracker, k: int) -> TrackedPoints:
    at, pairs = np.zeros((*places.slots.shape, 6)), len(places.slots)
    still = np.zeros((pairs, 2, 3)), np.zeros((pairs, 2, 6))
    return TrackedPoints(np.arange(k), at, np.zeros(k, bool), *still)


# ---- bricks of one size: bodies that turn over the edges of each other ---------------------------


def thrown(seed: int) -> tuple[Any, Any, float]:
    rng = np.random.default_rng(seed)
    turn = rng.normal(size=4)
    q = [*turn / np.linalg.norm(turn), *0.03 * rng.normal(size=2), 0.17]
    return q, [*6 * rng.normal(size=3), *0.5 * rng.normal(size=2), -1], 0.22


@pytest.mark.parametrize(
    ("bounce", "seeds"), [(0.0, (3, 8)), (0.5, (2, 8))] if ALL else [(0.0, (8,))]
)
def test_a_brick_turns_over_the_edges_of_another_one(bounce: float, seeds: Any) -> None:
    """Boxes as meshes, and fixed steps come near: 8 was 0.3 m off with any step once."""
    box, starts, ends = pp.shapes.Box(BRICK), [], []
    for seed in seeds:
        one = run(box, box, *thrown(seed), bounce)
        same(run(mesh(BRICK), mesh(BRICK), *thrown(seed), bounce), one, 1e-8)
        starts.append(thrown(seed)[:2])
        ends.append(one.q[-1])
    q, v = (np.array(x) for x in zip(*starts, strict=True))
    sim = pp.Simulator(system(box, box, bounce), dt=2.5e-4, integrator="time_stepping")
    steps = sim.rollout(sim.initial_state(q, v), steps=880, record=("q",))
    assert_allclose(steps.q[:, -1], ends, atol=8e-3)


def two_boxes() -> tuple[Any, Any]:
    """Two bricks, and configurations in which they are 0.1 mm apart."""
    builder = pp.ModelBuilder()
    for name in "ab":
        builder.add_body(name, joint=pp.joints.Free(), inertia=pp.SpatialInertia(mass=1.0))
        builder.add_shape(name, name, pp.shapes.Box(BRICK))
    contacts = pp.Contacts(builder.build())
    q = contacts.model.random_configuration(np.random.default_rng(5), 4000)
    q[:, 11:] = q[:, 4:7] + np.random.default_rng(6).uniform(-0.3, 0.3, (4000, 3))
    for _ in range(12):  # along the normal
        found = pp.distances(contacts, q)
        q[:, 4:7] -= (found.distance[:, 0] - 1e-4)[:, None] * found.normal[:, 0]
    return contacts, q[np.abs(pp.distances(contacts, q).distance[:, 0] - 1e-4) < 1e-9]


def test_features_of_boxes_touch_where_the_boxes_do(monkeypatch: Any) -> None:
    """Apart by 0.1 mm no gap is negative, inside by as much one is; rates are exact."""
    contacts, q = two_boxes()
    features = contacts.with_all_corners()
    assert len(q) > 3000 and features.n_slots == 25
    apart = pp.contact_points(features, q).gap.min(axis=1)
    assert apart.min() > 0 and apart.max() < 1.01e-4
    inside = q.copy()
    inside[:, 4:7] -= 2e-4 * pp.distances(contacts, q).normal[:, 0]
    assert pp.contact_points(features, inside).gap.min(axis=1).max() < 0
    X = pp.poses(features.model, q[:40])
    assert worst_rate(X) < 1e-7
    monkeypatch.setattr(polygon_pairs, "_NO_NORMAL", 2.0)  # edges have the normals of faces
    assert worst_rate(X) > 0.1


def worst_rate(X: Any) -> float:
    """How far differences of gaps are from the normal velocities of the points, m/s."""
    rng, off = np.random.default_rng(7), list[float]()
    boxes = polygon_pairs.feature_pair(("Box", "Box"))
    for a, b in ([Placed(0.5 * np.array(BRICK), x[:3, :3], x[:3, 3]) for x in two] for two in X):
        omega, u = rng.normal(size=(2, 3))
        moved = [a._replace(R=turned(h * omega) @ a.R, x=a.x + h * u) for h in (-1e-6, 1e-6)]
        for slot, back, ahead in zip(*(boxes(x, b)[:-1] for x in (a, *moved)), strict=True):
            if max(slot.gap, back.gap, ahead.gap) < 1:
                rate = slot.normal @ (u + np.cross(omega, slot.x_a - a.x))
                off.append(abs((ahead.gap - back.gap) / 2e-6 - rate))
    assert len(off) > 60
    return max(off)


def turned(x: Any) -> Any:
    size = float(np.linalg.norm(x))
    return pp.Pose.from_axis_angle(x / size, size).rotation


def test_slots_are_matched_by_places() -> None:
    """The nearest two first; one without a partner keeps a number that is free."""
    inf = np.inf
    found, far = _matched(np.array([[0.3, 0.0, 0.4], [0.1, 0.2, inf], [inf, inf, inf]]))
    assert found.tolist() == [1, 0, 2]
    assert far.tolist() == [0.0, 0.1, inf]


def test_slots_that_are_nearest_to_themselves_are_matched_with_themselves() -> None:
    """Known without a search, ties and slots without a contact included; the twin has a tie."""
    rng, stays = np.random.default_rng(5), 0
    for k in range(600):
        m = int(rng.integers(1, 6))
        distance = rng.integers(0, 6, (m, m)) if k % 2 else rng.random((m, m))
        distance = np.where(rng.random((m, m)) < 0.3 * (k % 3), np.inf, distance)
        stay, far = _nearest_stay(distance[None])
        if stay[0]:
            stays += 1
            order, away = _matched(distance)
            assert_array_equal(order, np.arange(m))
            assert_array_equal(away, far[0])
    assert stays > 50
    assert not _nearest_stay(np.zeros((1, 2, 2)))[0][0]


def test_a_face_of_eight_corners_shows_them_all() -> None:
    """A prism tumbles on a box as on the ground, where every corner has a slot."""
    shape, start = prism(0.1, 0.12, 8), (TUMBLES[0], TUMBLES[1], 0.27)
    same(run(shape, pp.shapes.Box(TABLE), *start), run(shape, None, *start), 1e-9)
    assert shape.face_corners == 8 and mesh(BRICK).face_corners == 4
    contacts = system(shape, pp.shapes.Box(TABLE)).contact_pairs
    assert contacts.n_slots == 5 and contacts.with_all_corners().n_slots == 45
