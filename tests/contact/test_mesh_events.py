"""Convex meshes in runs with events: the same as the shapes that they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import phipsi as pp
from phipsi.errors import SimulationError
from phipsi.motion.slot_places import Places, SlotPlaces, _matched

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


def run(shape: Any, table: Any, q: Any, v: Any, end: float, bounce: float = 0.0) -> Any:
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
    return pp.simulate(pp.System(model, contacts=contacts), q, v, end)


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


@pytest.mark.parametrize("shape", ["box", "mesh"])
@pytest.mark.parametrize("table", ["plane", "box", "mesh"])
def test_a_brick_falls_slides_and_stops(shape: str, table: str, brick_on_a_plane: Any) -> None:
    if (shape, table) == ("box", "plane"):
        return  # the one that the others are compared with
    tables = {"plane": None, "box": pp.shapes.Box(TABLE), "mesh": mesh(TABLE)}
    shapes = {"box": pp.shapes.Box(BRICK), "mesh": mesh(BRICK)}
    same(run(shapes[shape], tables[table], *FALLS), brick_on_a_plane, 1e-9)


ROUND = {
    "sphere": (pp.shapes.Sphere(0.1), (1, 0, 0, 0)),
    "capsule": (pp.shapes.Capsule(0.1, 0.2), TURN),
    "cylinder": (pp.shapes.Cylinder(0.1, 0.2), TURN),
}


@pytest.mark.parametrize("name", ROUND)
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


def test_points_that_change_their_slots_are_never_silent(monkeypatch: Any) -> None:
    """With slots that do not follow their points, energy would be lost: there is an error."""
    monkeypatch.setattr(SlotPlaces, "now", lambda self, gap, *_: _as_they_come(self, len(gap)))
    with pytest.raises(SimulationError, match="'thing|table' touch have changed places") as error:
        run(pp.shapes.Box(BRICK), pp.shapes.Box(TABLE), *TUMBLES)
    assert "time_stepping" in str(error.value)


def _as_they_come(places: SlotPlaces, k: int) -> Places:
    return Places(np.arange(k), np.zeros((*places.slots.shape, 6)), np.zeros(k, bool))


def test_a_brick_that_falls_over_an_edge_is_never_silent() -> None:
    """The polygon between tilted faces begins at an edge with a point that is inside already."""
    turn = np.array([0.346, 0.822, 0.33, -1.303])
    q = [*turn / np.linalg.norm(turn), -0.0188, -0.0077, 0.15]
    v = [-1.61, 1.74, 1.09, 0, 0, 0]
    with pytest.raises(SimulationError, match="'thing|table' touch have changed places"):
        run(pp.shapes.Box(BRICK), pp.shapes.Box(BRICK), q, v, 0.4, 0.5)


def test_slots_are_matched_by_places() -> None:
    """The nearest two first; one without a partner keeps a number that is free."""
    inf = np.inf
    found, far = _matched(np.array([[0.3, 0.0, 0.4], [0.1, 0.2, inf], [inf, inf, inf]]))
    assert found.tolist() == [1, 0, 2]
    assert far.tolist() == [0.0, 0.1, inf]
