"""Solids that give on height fields: places under a quarter carry together, and forces go on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi.contact.contact_pairs import _again
from phipsi.contact.geometry import explicit_pairs
from phipsi.contact.geometry.pair_formulas import slot_geometry

STIFF = 5e3


def box_on(heights, spacing: float) -> pp.Contacts:
    builder = pp.ModelBuilder()
    inertia = pp.SpatialInertia(1.0, (0, 0, 0), (0.02, 0.02, 0.03))
    builder.add_body("box", joint=pp.joints.Free(), inertia=inertia)
    soft = pp.Material(0.6, stiffness=STIFF, damping=20.0)
    builder.add_shape("box", "box", pp.shapes.Box((0.4, 0.4, 0.1)), material=soft)
    builder.add_shape("land", "world", pp.shapes.HeightField(heights, spacing))
    return pp.Contacts(builder.build(), ground=False)


def one_per_quarter(contacts: pp.Contacts) -> pp.Contacts:
    (pair,) = contacts.pairs
    few = (replace(pair, slots=pair.slots - 4),)
    return _again(contacts.model, contacts.shapes, few, contacts.margin, contacts.max_points)


def test_two_peaks_under_one_quarter_carry_together():
    """Two at (1, 3) and (3, 1) have m g/4 each, one at (−2, −2) has m g/2; with one slot, never."""
    heights = np.zeros((13, 13))
    for i, j in ((1, 3), (3, 1), (-2, -2)):
        heights[6 + i, 6 + j] = 0.1
    contacts = box_on(heights, 0.05)
    assert contacts.n_slots == 12 and contacts.with_all_corners() == contacts
    fastest = []
    for one in (contacts, one_per_quarter(contacts)):
        sim = pp.Simulator(pp.System(one.model, contacts=one), dt=1e-3, integrator="time_stepping")
        state = sim.initial_state([1, 0, 0, 0, 0, 0, 0.15], np.zeros(6))
        sim.step(state, steps=1500)
        fastest.append(np.abs(state.v).max())
        if one is contacts:
            depths = np.sort(-pp.contact_points(one, state.q).gap)[-3:]
            assert_allclose(depths, 9.81 / STIFF * np.array([0.25, 0.25, 0.5]), rtol=0.02)
    assert fastest[0] < 1e-6 and fastest[1] > 1e-3


@pytest.mark.parametrize("spacing", [0.1, 0.17])
def test_straight_ridges_have_springs_at_their_ends_only(spacing):
    """Grid points along a ridge would be springs that come and go as a box slides along it."""
    heights = np.zeros((21, 21))
    heights[10] = 0.05
    q = np.zeros((12, 7))
    q[:, 0], q[:, 5], q[:, 6] = 1.0, np.linspace(-0.1, 0.13, 12), 0.1 - 1e-4
    depth = np.maximum(-pp.contact_points(box_on(heights, spacing), q).gap, 0.0)
    assert_allclose(depth.sum(1), 2e-4, rtol=1e-9)


def test_a_peak_fades_where_a_face_leans_out_of_its_cone():
    """Sides of a pyramid fall by 0.05: its point has the weight 1 up to there, and 0 from 0.07."""
    x = np.abs(np.arange(-3, 4)) * -0.02
    contacts = box_on(np.minimum(x[:, None], x), 0.4)
    for tilt in (0.045, 0.055, 0.06, 0.065):
        c, s = np.cos(tilt), np.sin(tilt)
        X = np.eye(4)
        X[:3, :3] = [[c, 0, s], [0, 1, 0], [-s, 0, c]]
        X[:3, 3] = X[:3, 2] * 0.049  # the point is 1 mm inside the lower face, in its middle
        X[0, 3] += 1e-6  # and under the raised half: two deeper contacts are under the other one
        slots = slot_geometry(contacts, X[None])
        at = (np.linalg.norm(slots.x_b, axis=1) < 2e-3) & (slots.gap < 0.0)
        lean = max(0.0, (0.4 * s - 0.02 * c) / np.hypot(0.4, 0.02))
        assert slots.weight is not None
        assert_allclose(slots.weight[at], [1.0 - lean / 0.02], rtol=1e-9)


@pytest.mark.parametrize("is_flat_field", [False, True])
def test_cylinders_that_give_rest(is_flat_field, monkeypatch):
    """Standing they sink in by m g/(4 k), lying by m g/(2 k); without weights they tremble."""
    builder, r, length = pp.ModelBuilder(), 0.12, 0.3
    inertia = pp.SpatialInertia(1.0, (0, 0, 0), (0.0111, 0.0111, 0.0072))
    builder.add_body("can", joint=pp.joints.Free(), inertia=inertia)
    soft = pp.Material(0.6, stiffness=STIFF, damping=20.0)
    builder.add_shape("can", "can", pp.shapes.Cylinder(r, length), material=soft)
    if is_flat_field:
        builder.add_shape("land", "world", pp.shapes.HeightField(np.zeros((11, 11)), 0.2))
    model = builder.build()
    contacts = pp.Contacts(model, ground=not is_flat_field)
    q = np.zeros((5, 7))
    leans, yaw = np.array([0.0, 0.03, 0.05, np.pi / 2, np.pi / 2]), np.arange(5.0)
    q[:, 0], q[:, 1] = np.cos(leans / 2), np.sin(leans / 2) * np.cos(yaw)
    q[:, 2] = np.sin(leans / 2) * np.sin(yaw)
    q[:, 6] = np.where(leans < 1, length / 2 + 0.005, r + 0.005)

    def after():
        system = pp.System(model, contacts=contacts)
        sim = pp.Simulator(system, dt=1e-3, integrator="time_stepping")
        return sim.rollout(sim.initial_state(q), steps=4000, record_every=4000)

    run = after()
    assert np.abs(run.v[:, -1]).max() < 1e-12
    depths = np.where(leans < 1, length / 2, r) - run.q[:, -1, 6]
    assert_allclose(depths, 9.81 / STIFF / np.where(leans < 1, 4, 2), rtol=1e-9)
    if not is_flat_field:
        monkeypatch.setattr(explicit_pairs, "rim_weights", lambda a, n: [1.0] * 5)
        assert np.abs(after().v[:3, -1]).max() > 1e-3
