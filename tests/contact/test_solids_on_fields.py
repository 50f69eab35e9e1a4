"""Boxes, cylinders and meshes feel ridges and peaks of height fields, not with corners alone.

10⁵ poses of each: scripts/certify_fields.py.
"""

import numpy as np
import pytest
from field_depths import Body, by_programs, deepest, differences
from field_distances import heights_at, numbers_of, points_of, prism, triangles

import phipsi as pp
from phipsi.contact.geometry.placed_shapes import INACTIVE
from phipsi.simulation.modes.contact_events import ContactEvents

S = pp.shapes
SPACING = np.array([0.5, 0.4])
ROUGH = 0.15 * np.random.default_rng(1).normal(size=(7, 8))
X = 0.5 * np.arange(-3.0, 4.0)[:, None] + np.zeros((7, 8))
RIDGES = np.where(np.abs(np.abs(X) - 0.5) < 0.1, 0.2, 0.0)
PEAKS = np.zeros((7, 8))
PEAKS[2:5:2, 2:6:2] = 0.2
BEAM = S.ConvexMesh(prism([(-0.2, -0.1), (0.2, -0.1), (0.12, 0.1), (-0.12, 0.1)], 1.4))
_AROUND = np.random.default_rng(7).normal(size=(12, 3))
GEM = S.ConvexMesh(_AROUND / np.linalg.norm(_AROUND, axis=1)[:, None] * [0.45, 0.35, 0.2])
ROD = S.Cylinder(0.1, 1.4)
ALONG_X = np.array([0.5**0.5, 0, 0.5**0.5, 0])


def system_of(heights, shapes, ground=None):
    """Bodies that touch the land, and not each other."""
    builder = pp.ModelBuilder()
    inertia = pp.SpatialInertia(2.0, (0, 0, 0), 0.05)
    for name, shape in shapes.items():
        builder.add_body(name, joint=pp.joints.Free(), inertia=inertia)
        builder.add_shape(name, name, shape)
    builder.add_shape("land", "world", S.Plane() if ground else S.HeightField(heights, SPACING))
    model = builder.build()
    pairs, material = [(name, "land") for name in shapes], pp.Material(friction=0.8)
    return pp.System(model, contacts=pp.Contacts(model, pairs=pairs, material=material))


def slots_of(contacts, body):
    """Numbers of the slots of a body."""
    return np.flatnonzero(contacts.slot_bodies[:, 0] == body)


def overlapping(model, shapes, count, seed, low=-0.04, high=-0.002):
    """Configurations (count, 7 n) at which solids are up to 0.04 m in the rough field."""
    rng = np.random.default_rng(seed)
    q = np.zeros((count, len(shapes), 7))
    q[..., :4] = rng.normal(size=(count, len(shapes), 4)) * [1.0, 0.4, 0.4, 1.0]
    q[..., :4] /= np.linalg.norm(q[..., :4], axis=-1)[..., None]
    q[..., 4:6] = rng.uniform(-0.6, 0.6, (count, len(shapes), 2))
    X = pp.poses(model, q.reshape(count, -1))
    for k, shape in enumerate(shapes.values()):
        inside = points_of(shape.kind, numbers_of(shape))
        points = np.einsum("mij,pj->mpi", X[:, k, :3, :3], inside) + q[:, k, None, 4:]
        ground = heights_at(ROUGH, SPACING, points.reshape(-1, 3)).reshape(count, -1)
        clear = (points[..., 2] - ground).min(axis=1)
        q[:, k, 6] = rng.uniform(low, high, count) - clear
    return q.reshape(count, -1)


SOLIDS = {"slab": S.Box((1.2, 0.7, 0.16)), "disc": S.Cylinder(0.35, 0.2),
          "stick": S.Cylinder(0.12, 0.9), "gem": GEM}  # fmt: skip


@pytest.fixture(scope="module")
def rough():
    """Contacts of all solids with the rough field."""
    return system_of(ROUGH, SOLIDS).contact_pairs


def test_the_deepest_place_is_that_of_linear_programs(rough):
    """A slot has the gap and the normal of the deepest place; corners alone miss many of them."""
    q = overlapping(rough.model, SOLIDS, 150, 3, -0.1, 0.02)
    X, found = pp.poses(rough.model, q), pp.contact_points(rough, q)
    surface = triangles(ROUGH, SPACING)
    for k, shape in enumerate(SOLIDS.values()):
        body, R, x = Body(shape.kind, numbers_of(shape)), X[:, k, :3, :3], X[:, k, :3, 3]
        own = slots_of(rough, k)
        gap, normal = found.gap[:, own], found.normal[:, own]
        truth = deepest(body, surface, R, x)
        assert truth.error.max() < 1e-13
        assert ((gap.min(axis=1) < 0) == (truth.phi < 0)).all()
        up = (truth.phi < 0) & (truth.n[:, 2] > 0)
        assert up.sum() > 110 and (truth.phi > 0).sum() > 4

        def errors(gap, normal, at=(body, truth, R, x, up)):
            both = differences(*at[:2], gap, normal, *at[2:4])
            return np.array([one[at[4]] for one in both])

        error, deeper = errors(gap, normal)
        assert error.max() < 1e-9 and deeper.max() < 1e-9
        # what is off by 1e-6 is noticed at every pose: gaps, normals, and slots that are deeper
        assert errors(gap - 1e-6, normal)[0].min() > 1e-7
        assert (
            errors(gap, normal @ pp.Pose.from_axis_angle((0, 1, 0), 1e-5).rotation)[0].min() > 1e-7
        )
        assert (errors(gap - 1e-6, normal)[1] > 1e-7).mean() > 0.2
        if shape is GEM:  # deeper than short edges: nearest planes without a common corner
            y = np.einsum("mij,mi->mj", R, truth.place - x)[up]
            nearest = np.abs(y @ body.planes[:, :3].T - body.planes[:, 3] - truth.phi[up, None])
            meets = np.abs(body.p @ body.planes[:, :3].T - body.planes[:, 3]) < 1e-9
            common = (meets | (nearest > 1e-9)[:, None]).all(axis=2).any(axis=1)
            assert (~common).sum() > 10
        corners = differences(body, truth, gap[:, :-4], normal[:, :-4], R, x)[0]
        assert (corners[up] > 1e-3).sum() > 10


@pytest.mark.parametrize("name", SOLIDS)
def test_the_plain_way_is_that_of_a_solver(rough, name):
    """Of linear programs, on the triangles around the deepest place."""
    shape, k = SOLIDS[name], list(SOLIDS).index(name)
    X = pp.poses(rough.model, overlapping(rough.model, SOLIDS, 2, 4))[:, k]
    body, surface = Body(shape.kind, numbers_of(shape)), triangles(ROUGH, SPACING)
    truth = deepest(body, surface, X[:, :3, :3], X[:, :3, 3])
    for pose, phi, place in zip(X, truth.phi, truth.place, strict=True):
        near = np.linalg.norm(surface.mean(axis=1) - place, axis=1) < 0.5
        low, high = by_programs(body, surface[near], pose[:3, :3], pose[:3, 3])
        assert near.sum() > 5 and low - 1e-9 < phi < high + 1e-9 and high < low + 1e-9


LANDS = {
    "ridges": (RIDGES, {"box": S.Box((1.4, 0.3, 0.2)), "rod": ROD, "beam": BEAM}, 0.03),
    "peaks": (PEAKS, {"box": S.Box((1.4, 1.2, 0.2)), "plate": S.Cylinder(0.7, 0.2)}, -0.2),
}


def start_of(name, tilt, z):
    """The configuration over a land, a little tilted."""
    _, shapes, y = LANDS[name]
    tilted = [np.cos(tilt), 0.6 * np.sin(tilt), 0.8 * np.sin(tilt), 0]
    return np.concatenate(
        [[*(ALONG_X if shape is ROD else tilted), 0, y, z] for shape in shapes.values()]
    )


@pytest.mark.parametrize("name", LANDS)
def test_solids_fall_on_ridges_and_rest(name):
    """Their corners are 0.07 m and more above the field, which they alone would let it reach."""
    system = system_of(*LANDS[name][:2])
    q0 = start_of(name, 0.01, 0.33)
    run = pp.simulate(
        system, q0, np.zeros(system.model.nv), 0.5, integrator="time_stepping", dt=2.5e-3
    )
    assert np.abs(run.q[-1, 6::7] - 0.3).max() < 1e-6 and np.abs(run.v[-1]).max() < 1e-9
    gap = pp.contact_points(system.contact_pairs, run.q[-1]).gap
    for k in range(len(LANDS[name][1])):
        own = gap[slots_of(system.contact_pairs, k)]
        assert own[:-4].min() > 0.05 and np.abs(own[-4:]).min() < 1e-6
    proof = run.contacts.certificate
    assert proof.overlap < 1e-5 and proof.residual < 1e-10 and proof.gain < 1e-12


@pytest.mark.usefixtures("machine_code")
@pytest.mark.parametrize("name", LANDS["ridges"][1])
def test_events_of_solids_on_ridges(name):
    """The same runs with events: energy is balanced, and solids that just touch do not overlap."""
    v0 = [0, 0, 0, 0, 0.3, 0] if name.startswith("b") else np.zeros(6)
    k = list(LANDS["ridges"][1]).index(name)
    q0 = start_of("ridges", 0.02, 0.34)[7 * k : 7 * k + 7]
    run = pp.simulate(system_of(RIDGES, {name: LANDS["ridges"][1][name]}), q0, v0, 0.6)
    assert abs(run.q[-1, 6] - 0.3) < 1e-9 and np.abs(run.v[-1]).max() < 1e-9
    proof = run.contacts.certificate
    assert abs(proof.balance) < 1e-8 and proof.overlap < 1e-9


def test_events_see_both_ends_of_a_ridge_under_one_quarter():
    """A face on them would else have an impact at one end after the other, for ever."""
    few = system_of(RIDGES, {"crate": S.Box((0.4, 0.4, 0.3))}).contact_pairs
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


@pytest.mark.usefixtures("machine_code")
def test_a_plank_that_slides_on_an_edge_hits_a_peak_with_the_other(monkeypatch):
    """At 20 m/s it is over the peak for 1 ms, between two samples.

    Its twin, which looks at no pair that has a closed slot, goes through, 0.8 mm deep.
    """
    heights, size = np.zeros((17, 51)), (0.2, 0.02, 0.1)
    heights[13, 25] = 0.02  # at x = 0.1, y = 0
    builder = pp.ModelBuilder()
    inertia = pp.SpatialInertia.box(size, mass=1.0)
    builder.add_body("plank", joint=pp.joints.Free(), inertia=inertia)
    builder.add_shape("plank", "plank", S.Box(size))
    builder.add_shape("land", "world", S.HeightField(heights, 0.02))
    model = builder.build()
    contacts = pp.Contacts(model, material=pp.Material(0.0))
    system = pp.System(model, contacts=contacts).with_gravity((0, 0, -0.5))
    R = pp.Pose.from_axis_angle((0, 1, 0), -0.1).rotation
    start = pp.Pose(R, (0, -0.4, -(R @ [-0.1, 0, -0.05])[2]))
    q0, v0 = np.r_[start.quaternion, start.translation], [0, 0, 0, 0, 20, 0]

    def moved():
        run = pp.simulate(system, q0, v0, 0.0275)
        q = run.resample(np.linspace(0.019, 0.0215, 251)).q
        hits = [e.t for e in run.events if e.name == "plank|land hits"]
        return hits, pp.contact_points(contacts.with_all_corners(), q).gap.min()

    (hit,), deepest_gap = moved()
    assert 0.0194 < hit < 0.39 / 20 and deepest_gap > -1e-9
    looks = ContactEvents._may_hide

    def only_flights(self, *more):
        return not self.contacts.modes.closed.any() and looks(self, *more)

    monkeypatch.setattr(ContactEvents, "_may_hide", only_flights)
    hits, deepest_gap = moved()
    assert not hits and deepest_gap < -7e-4


def test_a_flat_field_is_a_plane():
    shapes = {"box": S.Box((0.5, 0.4, 0.3)), "can": S.Cylinder(0.2, 0.3), "beam": BEAM}
    flat, plane = (
        system_of(np.zeros((7, 8)), shapes, ground).contact_pairs for ground in (False, True)
    )
    q = overlapping(flat.model, shapes, 9, 5)
    q[:, 6::7] = np.linspace(0.0, 0.3, 9)[:, None]
    on_field, on_plane = pp.contact_points(flat, q), pp.contact_points(plane, q)
    for k in range(3):
        own, other = slots_of(flat, k), slots_of(plane, k)
        assert len(own) == len(other) + 4
        np.testing.assert_allclose(on_field.gap[:, own[:-4]], on_plane.gap[:, other], atol=1e-15)
        assert (on_field.gap[:, own[-4:]] == INACTIVE).all()
        np.testing.assert_allclose(
            on_field.normal[:, own[:-4]], on_plane.normal[:, other], atol=1e-15
        )


def test_all_sizes_of_batches_have_the_same_bits(monkeypatch):
    monkeypatch.setenv("PHIPSI_BACKEND", "native")
    contacts = system_of(ROUGH, {"beam": BEAM}).contact_pairs
    q = overlapping(contacts.model, {"beam": BEAM}, 9, 6)
    whole = pp.contact_points(contacts, q)
    for size in (1, 3):
        parts = [pp.contact_points(contacts, q[k : k + size]) for k in range(0, 9, size)]
        for k, x in enumerate(whole):
            np.testing.assert_array_equal(x, np.concatenate([part[k] for part in parts]))


def test_a_peak_through_a_plate_pushes_it_out():
    """Deeper than half the plate its upper face is the nearest: a face of the field is there."""
    shapes = {"plate": S.Box((1.0, 0.8, 0.04)), "disc": S.Cylinder(0.7, 0.04)}
    contacts = system_of(PEAKS, shapes).contact_pairs
    q = np.zeros((6, 2, 7))
    q[..., 0], q[..., 5] = 1.0, -0.2
    q[..., 6] = np.array([0.17, 0.185, 0.2, 0.215, 0.2199, 0.2201])[:, None]
    found = pp.contact_points(contacts, q.reshape(6, -1))
    for k in range(2):
        gap, normal = (x[:, slots_of(contacts, k)] for x in (found.gap, found.normal))
        at = gap.argmin(axis=1)
        assert (gap.min(axis=1)[:5] < 0).all() and gap[5].min() > 0
        assert (normal[np.arange(6), at][:5, 2] > 0.5).all()
