"""Boxes, cylinders and meshes feel ridges and peaks of height fields, not with corners alone."""

import numpy as np
import pytest
from field_distances import depths, heights_at, least_in, numbers_of, points_of, prism, triangles

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
BOX = S.Box((0.5, 0.4, 0.3))


BEAM = S.ConvexMesh(prism([(-0.2, -0.1), (0.2, -0.1), (0.12, 0.1), (-0.12, 0.1)], 1.4))
HULL = S.ConvexMesh(
    prism([(-0.2, -0.15), (0.2, -0.12), (0.25, 0.1), (0.0, 0.25), (-0.2, 0.1)], 0.5)
)
ROD = S.Cylinder(0.1, 1.4)
ALONG_X = np.array([0.5**0.5, 0, 0.5**0.5, 0])


def system_of(heights, shape, ground=None):
    builder = pp.ModelBuilder()
    inertia = pp.SpatialInertia(2.0, (0, 0, 0), 0.05)
    builder.add_body("crate", joint=pp.joints.Free(), inertia=inertia)
    builder.add_shape("crate", "crate", shape)
    if heights is not None:
        builder.add_shape("land", "world", S.HeightField(heights, SPACING))
    model = builder.build()
    material = pp.Material(friction=0.8)
    return pp.System(model, contacts=pp.Contacts(model, ground=ground, material=material))


def poses_of(q):
    w, v = q[:, 0], q[:, 1:4]
    half = np.arctan2(np.linalg.norm(v, axis=1), w)
    return np.array([so3_exp(2 * h * x / np.linalg.norm(x)) for h, x in zip(half, v, strict=True)])


def overlapping(shape, count, seed):
    """Configurations (count, 7) at which a solid is up to 0.04 m in the rough field."""
    rng, inside = np.random.default_rng(seed), points_of(shape.kind, numbers_of(shape))
    q = np.zeros((count, 7))
    q[:, :4] = rng.normal(size=(count, 4)) * [1.0, 0.4, 0.4, 1.0]
    q[:, :4] /= np.linalg.norm(q[:, :4], axis=1)[:, None]
    q[:, 4:6] = rng.uniform(-0.6, 0.6, (count, 2))
    for one, R in zip(q, poses_of(q), strict=True):
        points = inside @ R.T + one[4:]
        clear = points[:, 2] - heights_at(ROUGH, SPACING, points[:, :2])
        one[6] = rng.uniform(-0.04, -0.002) - clear.min()
    return q


@pytest.mark.parametrize(
    "shape",
    [S.Box((1.2, 0.7, 0.16)), S.Cylinder(0.35, 0.2), S.Cylinder(0.12, 0.9),
     HULL],
)  # fmt: skip
def test_the_deepest_place_is_that_of_linear_programs(shape):
    """For every pose a program for every triangle; corners alone miss many of them."""
    contacts, p = system_of(ROUGH, shape).contact_pairs, numbers_of(shape)
    q, surface = overlapping(shape, 9, 3), triangles(ROUGH, SPACING)
    R, found = poses_of(q), pp.contact_points(contacts, q)
    missed = shallow = 0
    within = 1e-7 if shape.kind == "Cylinder" else 1e-9  # programs with many planes are off more
    for gap, n, R_k, one in zip(found.gap, found.normal, R, q, strict=True):
        truth = least_in(surface, shape.kind, p, R_k, one[4:])
        if truth > -1e-9:
            continue
        assert gap.min() < 0
        own = depths(shape.kind, p, gap, n @ R_k)
        missed += own[:-4].min() > truth + 1e-3  # corners alone
        if truth > -0.05:
            assert own.min() < truth + within and own[-4:].min() > truth - within
            shallow += 1
    assert shallow >= 7 and missed >= 1


LANDS = {
    "box on ridges": (RIDGES, S.Box((1.4, 0.3, 0.2)), 0.03, None),
    "box on peaks": (PEAKS, S.Box((1.4, 1.2, 0.2)), -0.2, None),
    "rod on ridges": (RIDGES, ROD, 0.03, ALONG_X),
    "plate on peaks": (PEAKS, S.Cylinder(0.7, 0.2), -0.2, None),
    "beam on ridges": (RIDGES, BEAM, 0.03, None),
}


def start_of(name, tilt, z):
    """The configuration over a land, a little tilted."""
    *_, y, turned = LANDS[name]
    q = np.array([np.cos(tilt), 0.6 * np.sin(tilt), 0.8 * np.sin(tilt), 0, 0, y, z])
    if turned is not None:
        q[:4] = turned
    return q


@pytest.mark.parametrize("name", LANDS)
def test_solids_fall_on_ridges_and_rest(name):
    """Their corners are 0.07 m and more above the field, which they alone would let it reach."""
    system = system_of(*LANDS[name][:2])
    q0 = start_of(name, 0.01, 0.33)
    run = pp.simulate(system, q0, np.zeros(6), 0.5, integrator="time_stepping", dt=2.5e-3)
    assert abs(run.q[-1, 6] - 0.3) < 1e-6 and np.abs(run.v[-1]).max() < 1e-9
    gap = pp.contact_points(system.contact_pairs, run.q[-1]).gap
    assert gap[:-4].min() > 0.05 and np.abs(gap[-4:]).min() < 1e-6
    proof = run.contacts.certificate
    assert proof.overlap < 1e-5 and proof.residual < 1e-10 and proof.gain < 1e-12


@pytest.mark.usefixtures("machine_code")
@pytest.mark.parametrize("name", [x for x in LANDS if "ridges" in x])
def test_events_of_solids_on_ridges(name):
    """The same runs with events: energy is balanced, and solids that just touch do not overlap."""
    v0 = [0, 0, 0, 0, 0.3, 0] if name.startswith("b") else np.zeros(6)
    run = pp.simulate(system_of(*LANDS[name][:2]), start_of(name, 0.02, 0.34), v0, 0.6)
    assert abs(run.q[-1, 6] - 0.3) < 1e-9 and np.abs(run.v[-1]).max() < 1e-9
    proof = run.contacts.certificate
    assert abs(proof.balance) < 1e-8 and proof.overlap < 1e-9


def test_events_see_both_ends_of_a_ridge_under_one_quarter():
    """A face on them would else have an impact at one end after the other, for ever."""
    few = system_of(RIDGES, S.Box((0.4, 0.4, 0.3))).contact_pairs
    q = [np.cos(np.pi / 8), 0, 0, np.sin(np.pi / 8), 0.3, 0, 0.35]
    ends = []
    for contacts in (few, few.with_all_corners()):
        found = pp.contact_points(contacts, q)
        ends.append(found.point_a[4:][found.gap[4:] < 1e-12])
        assert found.gap.min() > -1e-12
    width = 0.2 * 2**0.5 - 0.2
    np.testing.assert_allclose(np.sort(ends[1][:, 1]), [-width, width], atol=1e-12)
    assert len(ends[0]) == 1


@pytest.mark.usefixtures("machine_code")
def test_a_gem_tumbles_on_rough_ground():
    """With events: its face comes down on both ends of a ridge, at 0.473 s."""
    points = np.random.default_rng(1).normal(size=(20, 3))
    points *= 0.15 * np.array([1, 0.8, 0.7]) / np.linalg.norm(points, axis=1)[:, None]
    builder = pp.ModelBuilder()
    inertia = pp.SpatialInertia(1.0, (0, 0, 0), (0.008, 0.007, 0.01))
    builder.add_body("gem", joint=pp.joints.Free(), inertia=inertia)
    builder.add_shape("gem", "gem", S.ConvexMesh(points))
    heights = 0.1 * np.random.default_rng(3).normal(size=(9, 9))
    builder.add_shape("land", "world", S.HeightField(heights, 0.2))
    model = builder.build()
    system = pp.System(model, contacts=pp.Contacts(model, material=pp.Material(0.5)))
    rng = np.random.default_rng(1)
    q = rng.normal(size=4)
    q0 = np.r_[q / np.linalg.norm(q), rng.uniform(-0.25, 0.25, 2), 0.45]
    v0 = np.r_[2 * rng.normal(size=3), 0.3 * rng.normal(size=3)]
    run = pp.simulate(system, q0, v0, 0.48)
    proof = run.contacts.certificate
    assert abs(proof.balance) < 2e-9 and proof.overlap < 1e-9
    assert run.events[-1].t > 0.473 and (run.contacts.modes[-1] > 0).sum() == 2


@pytest.mark.parametrize("shape", [BOX, S.Cylinder(0.2, 0.3), BEAM])
def test_a_flat_field_is_a_plane(shape):
    q = overlapping(shape, 9, 5)
    q[:, 6] = np.linspace(0.0, 0.3, 9)
    flat = pp.contact_points(system_of(np.zeros((7, 8)), shape).contact_pairs, q)
    plane = pp.contact_points(system_of(None, shape, ground=True).contact_pairs, q)
    np.testing.assert_allclose(flat.gap[:, :-4], plane.gap, atol=1e-15)
    assert (flat.gap[:, -4:] == INACTIVE).all()
    np.testing.assert_allclose(flat.normal[:, :-4], plane.normal, atol=1e-15)


def test_all_sizes_of_batches_have_the_same_bits(monkeypatch):
    monkeypatch.setenv("PHIPSI_BACKEND", "native")
    contacts, q = system_of(ROUGH, BEAM).contact_pairs, overlapping(BEAM, 9, 6)
    whole = pp.contact_points(contacts, q)
    for size in (1, 3):
        parts = [pp.contact_points(contacts, q[k : k + size]) for k in range(0, 9, size)]
        for k, x in enumerate(whole):
            np.testing.assert_array_equal(x, np.concatenate([part[k] for part in parts]))


@pytest.mark.parametrize("shape", [S.Box((1.0, 0.8, 0.04)), S.Cylinder(0.7, 0.04)])
def test_a_peak_through_a_plate_pushes_it_out(shape):
    """Deeper than half the plate its upper face is the nearest: a face of the field is there."""
    contacts = system_of(PEAKS, shape).contact_pairs
    q = np.zeros((6, 7))
    q[:, 0], q[:, 5] = 1.0, -0.2
    q[:, 6] = (0.17, 0.185, 0.2, 0.215, 0.2199, 0.2201)
    found = pp.contact_points(contacts, q)
    k = found.gap.argmin(axis=1)
    assert (found.gap.min(axis=1)[:5] < 0).all() and found.gap[5].min() > 0
    assert (found.normal[np.arange(6), k][:5, 2] > 0.5).all()
