"""Boxes and meshes that give: forces of all corners of the polygon between their faces."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi.contact.contact_pairs import _again
from phipsi.contact.geometry.box_pairs import box_box
from phipsi.contact.geometry.pair_formulas import slot_geometry
from phipsi.contact.geometry.placed_shapes import Placed
from phipsi.contact.geometry.polygon_pairs import polygon_pair
from phipsi.core.arrays import law_operations as ops
from phipsi.core.arrays.law_derivatives import adjoints
from phipsi.core.arrays.law_values import evaluate
from phipsi.core.arrays.trace import Tracer, as_node
from phipsi.simulation.modes import contact_events
from phipsi.simulation.modes.contact_modes import ContactModes

pytestmark = pytest.mark.usefixtures("machine_code")

G, HALF = 9.81, np.array([0.1, 0.15, 0.05])
BOXES = polygon_pair(("Box", "Box"))
BRICK = pp.shapes.Box(2 * HALF)
MESH = pp.shapes.ConvexMesh([HALF * (x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
EDGE = ((0.1, 0.0), (-0.05, 0.08), (-0.05, -0.08))
STIFF = 5e3
UPPER, LOWER = pp.Material(0.4, stiffness=STIFF, damping=10.0), pp.Material(0.4)


def bricks(upper: Any = BRICK, lower: Any = BRICK) -> Any:
    """A brick of 1 kg that gives, above a rigid one that is fixed, whose top is at −0.05 m."""
    builder = pp.ModelBuilder()
    inertia = pp.SpatialInertia(1.0, (0, 0, 0), (0.008, 0.004, 0.010))
    builder.add_body("upper", joint=pp.joints.Free(), inertia=inertia)
    builder.add_shape("upper", "upper", upper, material=UPPER)
    builder.add_shape("lower", "world", lower, pp.Pose(None, (0, 0, -0.1)), material=LOWER)
    model = builder.build()
    return pp.System(model, contacts=pp.Contacts(model))


SYSTEM = bricks()


def turned(axis: Any, angle: float) -> Any:
    return pp.Pose.from_axis_angle(axis, angle).rotation


def corners(R: Any, x: Any) -> list[Any]:
    """The contacts of a brick with another one, that are there."""
    found = BOXES(Placed(HALF, R, np.array(x)), Placed(HALF, np.eye(3), np.zeros(3)))
    return [s for s in found if s.gap < 1e3]


def test_weights_are_exterior_angles() -> None:
    """Four corners, also of equal faces on each other; eight of faces that are turned by 45°."""
    for angle in (0.0, 1e-15, 1e-12, 1e-9):
        found = corners(turned((0, 0, 1), angle), (angle, -2 * angle, 0.0999))
        weights = sorted(float(s.weight) for s in found)
        assert_allclose(weights[-4:], 1.0, atol=1e-8)
        assert_allclose(sum(weights), 4.0, atol=1e-12)
        at = np.array([s.x_b[:2] for s in found if s.weight > 0.5])
        assert_allclose(sorted(map(tuple, np.sign(at))), [(-1, -1), (-1, 1), (1, -1), (1, 1)])
    found = corners(turned((0, 0, 1), 0.3), (0, 0, 0.0999))
    assert_allclose(sorted(s.weight for s in found), [0.6 / np.pi] * 4 + [1 - 0.6 / np.pi] * 4)


def test_weights_sum_to_four_and_gaps_are_those_of_boxes() -> None:
    rng, seen = np.random.default_rng(2), 0
    for i in range(60):
        R = turned(rng.normal(size=3), rng.uniform(0, (0.2, 3.0)[i % 2]))
        a, b = Placed(HALF, R, rng.uniform(-0.12, 0.12, 3)), Placed(HALF, np.eye(3), np.zeros(3))
        found = BOXES(a, b)
        least = min(float(s.gap) for s in box_box(a, b))
        assert min(float(s.gap) for s in found) == pytest.approx(least, abs=1e-12)
        weights = [float(s.weight) for s in found[:-1] if s.gap < 1e3]
        if weights:
            seen += 1
            assert sum(weights) == pytest.approx(4.0, abs=1e-12)
    assert seen > 40


def wrench(s: float, weighted: bool) -> Any:
    """Moment and force (6,) per stiffness on a tilted brick that turns and slides, 0 ≤ s ≤ 1."""
    R = turned((0, 0, 1), 1.2 * s) @ turned((1, 0.3, 0), 0.02)
    x = np.array((0.05 + 0.04 * s, 0.03 - 0.06 * s, 0.098))
    a, b = Placed(HALF, R, x), Placed(HALF, np.eye(3), np.zeros(3))
    total = np.zeros(6)
    for one in BOXES(a, b) if weighted else box_box(a, b):
        f = max(0.0, -float(one.gap)) * one.normal * (one.weight if weighted else 1.0)
        total += [*np.cross(one.x_b, f), *f]
    return total


def test_forces_do_not_jump_where_the_polygon_gets_a_corner() -> None:
    """But for the normal, which goes over to another face; four points of the polygon jump."""
    jumps = []
    for weighted in (True, False):
        path = np.array([wrench(s, weighted) for s in np.linspace(0.3, 0.6, 41)])
        jumps.append(np.abs(np.diff(path, axis=0)).max() / np.abs(path).max())
    assert jumps[0] < 0.03 and jumps[1] > 0.3


def test_meshes_have_the_corners_and_weights_of_boxes() -> None:
    """And finite derivatives, though their outlines have corners twice."""
    rng, p = np.random.default_rng(4), np.array(MESH.numbers)
    meshes = polygon_pair(("ConvexMesh", "ConvexMesh"))
    for _ in range(10):
        R, x = turned(rng.normal(size=3), 0.1), rng.uniform(-0.05, 0.05, 3) + [0, 0, 0.1]
        places = (R, x), (np.eye(3), np.zeros(3))
        found = [
            sorted((float(s.gap), float(s.weight)) for s in pair(*(Placed(h, *y) for y in places)))
            for pair, h in ((BOXES, HALF), (meshes, p))
        ]
        there = [[s for s in one if s[0] < 1e3] for one in found]
        assert_allclose(there[1], there[0], atol=1e-9)
    wedge = pp.shapes.ConvexMesh([(x, y, z) for x, y in EDGE for z in (-0.1, 0.1)])
    contacts: Any = bricks(wedge, wedge).contact_pairs
    assert wedge.face_corners == 4 and contacts.n_slots == 9
    X = ops.input("X", (1, 4, 4))
    slots = [as_node(x) for x in slot_geometry(contacts, Tracer(X))]
    (bar,) = adjoints(slots, [ops.constant(np.ones(x.shape)) for x in slots], [X])
    at = np.eye(4)
    at[:3, :3], at[:3, 3] = turned((1, 2, 3), 0.1), (0.01, 0.02, 0.095)
    assert np.isfinite(evaluate([bar], {"X": at[None]})[0]).all()


@pytest.mark.parametrize("angle", [0.0, 0.3])
def test_a_brick_sinks_in_by_its_weight(angle: float) -> None:
    """m g/(4 k), whatever the polygon, with events and with fixed steps."""
    rest = -G / (4 * STIFF)
    q = np.array([np.cos(angle / 2), 0, 0, np.sin(angle / 2), 0, 0, rest])
    assert np.abs(pp.contact_step(SYSTEM, q, np.zeros(6), dt=1e-3).v).max() < 1e-12
    run = pp.simulate(SYSTEM, q, np.zeros(6), 0.1)
    assert np.abs(run.q - q).max() < 1e-9
    force = run.contacts.forces[-1, :, 5]
    assert force.sum() == pytest.approx(G, abs=1e-9)
    corners_of = 4 if angle == 0.0 else 8
    assert (force > 0.01).sum() == corners_of


def thrown(seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    turn = rng.normal(size=4)
    q = [*turn / np.linalg.norm(turn), *0.03 * rng.normal(size=2), 0.17]
    return np.array(q), np.array([*6 * rng.normal(size=3), *0.5 * rng.normal(size=2), -1])


def test_fixed_steps_come_near_to_a_run_with_events() -> None:
    q, v = thrown(4)
    run = pp.simulate(SYSTEM, q, v, 0.2)
    proof: Any = run.contacts.certificate
    assert abs(proof.balance) < 1e-8 and proof.outside < 1e-9
    off = []
    for h in (5e-4, 2.5e-4):
        sim = pp.Simulator(SYSTEM, dt=h, integrator="time_stepping")
        state = sim.initial_state(q, v)
        sim.step(state, steps=round(0.2 / h))
        off.append(np.abs(state.q - run.q[-1]).max())
    assert off[1] < 0.02 and off[1] < 0.6 * off[0]


def test_points_that_stick_with_forces_at_their_cones_stay(monkeypatch: Any) -> None:
    """Three points at edges hold a brick; forces at cones are one choice, those inside another.

    The twin takes the first for slips, and modes change again, or without end.
    """
    turn = np.array([0.01667, -0.08736, 0.01535, -0.99592])
    q = [*turn / np.linalg.norm(turn), 0.11272, -0.13733, -0.02149]
    v = [-3.0168, -6.6668, 0.259, -0.2976, 0.1029, -0.185]
    monkeypatch.setattr(contact_events, "_TOO_MANY", 5)

    def words() -> list[str]:
        try:
            return [e.name.split()[-1] for e in pp.simulate(SYSTEM, q, v, 0.002).events]
        except pp.errors.SimulationError as error:
            assert "indefinitely" in str(error)
            return ["…"]

    assert words() == ["slips", "sticks"]
    monkeypatch.setattr(ContactModes, "_settled", lambda self, state, modes, still: modes)
    assert words() != ["slips", "sticks"]


def test_a_corner_that_grazes_another_body_is_not_missed(monkeypatch: Any) -> None:
    """It is over the other one for 1 ms, between two samples of a flight; its twin sees nothing."""
    q, v = thrown(3)
    times = [e.t for e in pp.simulate(SYSTEM, q, v, 0.16).events]
    assert times and 0.142 < min(times) < max(times) < 0.144
    monkeypatch.setattr(contact_events.ContactEvents, "_may_hide", lambda *_: False)
    assert not pp.simulate(SYSTEM, q, v, 0.16).events


@pytest.mark.parametrize("spacing", [None, 0.25])
def test_a_soft_prism_rests_on_planes_and_level_fields(spacing: Any) -> None:
    """Every corner has a spring; with four of the five it trembled for ever in fixed steps."""
    turn = 2 * np.pi * np.arange(5) / 5
    shape = pp.shapes.ConvexMesh(
        [[0.1 * np.cos(a), 0.1 * np.sin(a), z] for a in turn for z in (-0.05, 0.05)]
    )
    soft = pp.Material(0.5, stiffness=5e3, damping=10.0)
    builder = pp.ModelBuilder()
    inertia = pp.SpatialInertia(1.0, (0, 0, 0), (0.008, 0.004, 0.01))
    builder.add_body("prism", joint=pp.joints.Free(), inertia=inertia)
    builder.add_shape("prism", "prism", shape, material=soft)
    if spacing:
        field = pp.shapes.HeightField(np.zeros((3, 3)), spacing)
        builder.add_shape("land", "world", field, pp.Pose(None, (0.02, 0.01, 0)))
    model = builder.build()
    contacts = pp.Contacts(model, ground=not spacing)
    assert contacts.n_slots == (18 if spacing else 10)
    assert contacts.with_all_corners() == contacts  # runs with events have the same law
    few = pp.System(model, contacts=replace_slots(contacts, 8 if spacing else 4))
    fastest = []
    for system in (pp.System(model, contacts=contacts), few):
        sim = pp.Simulator(system, dt=1e-3, integrator="time_stepping")
        state = sim.initial_state([1, 0, 0, 0, 0, 0, 0.05], np.zeros(6))
        sim.step(state, steps=1500)
        fastest.append(np.abs(state.v).max())
        if system is not few:
            assert_allclose(state.q[4:], [0, 0, 0.05 - 9.81 / (5 * 5e3)], atol=1e-12)
    assert fastest[0] < 1e-11 and fastest[1] > 1e-3


def replace_slots(contacts: pp.Contacts, slots: int) -> pp.Contacts:
    """The twin whose only pair has fewer slots."""
    (pair,) = contacts.pairs
    few = (replace(pair, slots=slots),)
    return _again(contacts.model, contacts.shapes, few, contacts.margin, contacts.max_points)
