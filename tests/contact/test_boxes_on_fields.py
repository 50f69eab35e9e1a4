"""Boxes feel ridges and peaks of height fields with their edges and faces."""

from itertools import product

import numpy as np
import pytest
from field_distances import heights_at, least_in_box, triangles

import phipsi as pp
from phipsi.contact.geometry.placed_shapes import INACTIVE
from phipsi.spatial import so3_exp

S = pp.shapes
SPACING = np.array([0.5, 0.4])
ROUGH = 0.15 * np.random.default_rng(1).normal(size=(7, 8))
X = 0.5 * np.arange(-3.0, 4.0)[:, None] + np.zeros((7, 8))
RIDGES = np.where(np.abs(np.abs(X) - 0.5) < 0.1, 0.2, 0.0)
PEAKS = np.zeros((7, 8))
PEAKS[2:5:2, 2:6:2] = 0.2


def system_of(heights, edges, ground=None):
    builder = pp.ModelBuilder()
    inertia = pp.SpatialInertia(2.0, (0, 0, 0), 0.05)
    builder.add_body("crate", joint=pp.joints.Free(), inertia=inertia)
    builder.add_shape("crate", "crate", S.Box(edges))
    if heights is not None:
        builder.add_shape("land", "world", S.HeightField(heights, SPACING))
    model = builder.build()
    material = pp.Material(friction=0.8)
    return pp.System(model, contacts=pp.Contacts(model, ground=ground, material=material))


def poses_of(q):
    w, v = q[:, 0], q[:, 1:4]
    half = np.arctan2(np.linalg.norm(v, axis=1), w)
    return np.array([so3_exp(2 * h * x / np.linalg.norm(x)) for h, x in zip(half, v, strict=True)])


def overlapping(edges, count, seed):
    """Configurations (count, 7) at which a box is up to 0.04 m in the rough field."""
    rng, p = np.random.default_rng(seed), np.array(edges) / 2
    q = np.zeros((count, 7))
    q[:, :4] = rng.normal(size=(count, 4)) * [1.0, 0.4, 0.4, 1.0]
    q[:, :4] /= np.linalg.norm(q[:, :4], axis=1)[:, None]
    q[:, 4:6] = rng.uniform(-0.6, 0.6, (count, 2))
    grid = np.array(list(product(np.linspace(-1, 1, 13), repeat=3))) * p
    for one, R in zip(q, poses_of(q), strict=True):
        points = grid @ R.T + one[4:]
        clear = points[:, 2] - heights_at(ROUGH, SPACING, points[:, :2])
        one[6] = rng.uniform(-0.04, -0.002) - clear.min()
    return q


@pytest.mark.parametrize("edges", [(0.5, 0.4, 0.3), (1.2, 0.7, 0.16)])
def test_the_deepest_place_is_that_of_linear_programs(edges):
    """A gap along n is ‖R* n‖₁ times φ of its place; corners alone miss many of them."""
    contacts, p = system_of(ROUGH, edges).contact_pairs, np.array(edges) / 2
    q, surface = overlapping(edges, 12, 3), triangles(ROUGH, SPACING)
    R = poses_of(q)
    found = pp.contact_points(contacts, q)
    phi = found.gap / np.abs(np.einsum("kij,ksi->ksj", R, found.normal)).sum(axis=-1)
    missed = shallow = 0
    for own, gap, R_k, one in zip(phi, found.gap, R, q, strict=True):
        truth = least_in_box(surface, p, R_k, one[4:])
        if truth > -1e-9:
            continue
        assert gap.min() < 0
        missed += own[:4].min() > truth + 1e-3  # corners alone
        if truth > -0.9 * p.min():
            assert own.min() < truth + 1e-9 and own[4:].min() > truth - 1e-9
            shallow += 1
    assert shallow >= 8 and missed >= 1


@pytest.mark.parametrize(
    ("heights", "edges", "y"), [(RIDGES, (1.4, 0.3, 0.2), 0.03), (PEAKS, (1.4, 1.2, 0.2), -0.2)]
)
def test_a_box_falls_on_ridges_and_rests(heights, edges, y):
    """Its corners are 0.07 m and more above the field, which they alone would let it reach."""
    system = system_of(heights, edges)
    q0 = np.array([np.cos(0.01), 0.6 * np.sin(0.01), 0.8 * np.sin(0.01), 0, 0, y, 0.33])
    run = pp.simulate(system, q0, np.zeros(6), 0.8, integrator="time_stepping", dt=2e-3)
    assert abs(run.q[-1, 6] - 0.3) < 1e-6 and np.abs(run.v[-1]).max() < 1e-9
    gap = pp.contact_points(system.contact_pairs, run.q[-1]).gap
    assert gap[:4].min() > 0.05 and np.abs(gap[4:]).max() < 1e-6
    proof = run.contacts.certificate
    assert proof.overlap < 1e-5 and proof.residual < 1e-10 and proof.gain < 1e-12


@pytest.mark.usefixtures("machine_code")
@pytest.mark.parametrize(
    ("heights", "edges", "y"), [(RIDGES, (1.4, 0.3, 0.2), 0.03), (PEAKS, (1.4, 1.2, 0.2), -0.2)]
)
def test_events_of_a_box_on_ridges(heights, edges, y):
    """The same runs with events: energy is balanced, and boxes that just touch do not overlap."""
    q0 = np.array([np.cos(0.02), 0.6 * np.sin(0.02), 0.8 * np.sin(0.02), 0, 0, y, 0.34])
    run = pp.simulate(system_of(heights, edges), q0, [0, 0, 0, 0, 0.3, 0], 0.6)
    assert abs(run.q[-1, 6] - 0.3) < 1e-9 and np.abs(run.v[-1]).max() < 1e-9
    proof = run.contacts.certificate
    assert abs(proof.balance) < 1e-8 and proof.overlap < 1e-9


def test_a_flat_field_is_a_plane():
    q = overlapping((0.5, 0.4, 0.3), 9, 5)
    q[:, 6] = np.linspace(0.0, 0.3, 9)
    flat = pp.contact_points(system_of(np.zeros((7, 8)), (0.5, 0.4, 0.3)).contact_pairs, q)
    plane = pp.contact_points(system_of(None, (0.5, 0.4, 0.3), ground=True).contact_pairs, q)
    np.testing.assert_allclose(flat.gap[:, :4], plane.gap, atol=1e-15)
    assert (flat.gap[:, 4:] == INACTIVE).all()
    np.testing.assert_allclose(flat.normal[:, :4], plane.normal, atol=1e-15)


def test_all_sizes_of_batches_have_the_same_bits(monkeypatch):
    monkeypatch.setenv("PHIPSI_BACKEND", "native")
    contacts, q = (
        system_of(ROUGH, (0.5, 0.4, 0.3)).contact_pairs,
        overlapping((0.5, 0.4, 0.3), 9, 6),
    )
    whole = pp.contact_points(contacts, q)
    for size in (1, 3):
        parts = [pp.contact_points(contacts, q[k : k + size]) for k in range(0, 9, size)]
        for k, x in enumerate(whole):
            np.testing.assert_array_equal(x, np.concatenate([part[k] for part in parts]))


def test_a_peak_through_a_plate_pushes_it_out():
    """Deeper than half the plate its upper face is the nearest: a face of the field is there."""
    contacts = system_of(PEAKS, (1.0, 0.8, 0.04)).contact_pairs
    q = np.array([1.0, 0, 0, 0, 0.0, -0.2, 0.0])
    for z in (0.17, 0.185, 0.2, 0.215, 0.2199):
        q[6] = z
        found = pp.contact_points(contacts, q)
        k = found.gap.argmin()
        assert found.gap[k] < 0 and found.normal[k][2] > 0.5
    q[6] = 0.2201
    assert pp.contact_points(contacts, q).gap.min() > 0
