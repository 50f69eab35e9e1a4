"""Convex meshes in runs with events: the same as the shapes that they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi.errors import SimulationError

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


def run(shape: Any, table: Any, q: Any, v: Any, end: float) -> Any:
    """A body of 1 kg on the ground, or on a table whose top is the ground."""
    builder = pp.ModelBuilder()
    inertia = pp.SpatialInertia(1.0, (0, 0, 0), (0.008, 0.004, 0.010))
    builder.add_body("thing", joint=pp.joints.Free(), inertia=inertia)
    builder.add_shape("thing", "thing", shape)
    if table is not None:
        builder.add_shape("table", "world", table, pp.Pose(None, (0, 0, -0.1)))
    model = builder.build()
    contacts = pp.Contacts(model, ground=table is None, material=pp.Material(0.3))
    return pp.simulate(pp.System(model, contacts=contacts), q, v, end)


def same(one: Any, other: Any, tolerance: float) -> None:
    names = [[e.name.split()[-1] for e in x.events] for x in (one, other)]
    assert names[0] == names[1] and names[0]
    assert_allclose([e.t for e in one.events], [e.t for e in other.events], atol=tolerance)
    assert_allclose(one.q[-1], other.q[-1], atol=tolerance)
    assert abs(one.contacts.certificate.balance) < 1e-9


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


def test_points_that_change_their_slots_are_never_silent() -> None:
    """A brick tumbles on a table: an error says what to do. Without it, energy would be lost."""
    start = [0.8, 0.36, 0.48, 0, 0, 0, 0.3], [2.0, 1.0, -1.0, 0.5, 0, 0], 0.15
    with pytest.raises(SimulationError, match="'thing|table' touch have changed places") as error:
        run(pp.shapes.Box(BRICK), mesh(TABLE), *start)
    assert "time_stepping" in str(error.value)
