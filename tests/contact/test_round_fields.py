"""Balls, capsules and ellipsoids on height fields, against all triangles by the plain way.

10⁵ poses of each: scripts/certify_fields.py.
"""

import numpy as np
import pytest
from field_distances import Solid, heights_at, missed, triangles

import phipsi as pp
from phipsi.contact.geometry.placed_shapes import INACTIVE

S = pp.shapes
SPACING = np.array([0.5, 0.4])
HEIGHTS = 0.3 * np.random.default_rng(0).normal(size=(9, 10))
AT = pp.Pose.from_rpy((0.3, -0.2, 0.5), (0.1, 0.2, 0.3))
SHAPES = {
    "ball": ("Sphere", (0.35,), S.Sphere(0.35)),  # larger than a cell
    "rod": ("Capsule", (0.12, 0.3), S.Capsule(0.12, 0.6)),
    "egg": ("Ellipsoid", (0.1, 0.15, 0.2), S.Ellipsoid((0.1, 0.15, 0.2))),
}
X = np.arange(-4, 5) * 0.25
ROOF = np.repeat(-0.4 * np.abs(X)[:, None], 9, axis=1)  # a ridge along y


def model_of(shapes, field, at=None, **more):
    builder = pp.ModelBuilder()
    inertia = pp.SpatialInertia(1.0, (0, 0, 0), (0.004, 0.005, 0.006))
    for name, shape in shapes.items():
        builder.add_body(name, joint=pp.joints.Free(), inertia=inertia)
        builder.add_shape(name, name, shape)
    builder.add_shape("land", "world", field, at or pp.Pose())
    for name, shape in more.items():
        builder.add_shape(name, "world", shape, at)
    return builder.build()


@pytest.fixture(scope="module")
def rough():
    """A model with all shapes on a rough field that is turned, and its contacts."""
    field = S.HeightField(HEIGHTS, SPACING)
    model = model_of({name: x[2] for name, x in SHAPES.items()}, field, AT)
    return model, pp.Contacts(model, pairs=[(name, "land") for name in SHAPES])


def over_field(model, count, seed, low=0.0, high=0.9):
    """Configurations with the bodies over the field, or below it."""
    rng = np.random.default_rng(seed)
    q = model.random_configuration(seed, count).reshape(count, -1, 7)
    for body in range(q.shape[1]):
        p = rng.uniform(-1.1, 1.1, (count, 3))
        p[:, 2] = heights_at(HEIGHTS, SPACING, p) + rng.uniform(low, high, count)
        q[:, body, 4:] = p @ AT.rotation.T + AT.translation
    return q.reshape(count, -1)


def at_poses(model, q, name):
    """The solid in the axes of the field."""
    kind, p, _ = SHAPES[name]
    pose = pp.poses(model, q)[:, model.body_index(name)]
    R = AT.rotation.T @ pose[:, :3, :3]
    return Solid(kind, p, R, (pose[:, :3, 3] - AT.translation) @ AT.rotation)


def test_no_triangle_is_nearer(rough):
    """The distance is that of the point on the field, and no triangle has less."""
    model, contacts = rough
    q = over_field(model, 120, seed=1)
    found, surface = pp.distances(contacts, q), triangles(HEIGHTS, SPACING)
    for k, name in enumerate(SHAPES):
        solid, d = at_poses(model, q, name), found.distance[:, k]
        lost = missed(solid, surface, d)
        exact = (d - lost > -0.95 * solid.deepest) & (d < SPACING.max())
        on = (found.point_b[:, k] - AT.translation) @ AT.rotation
        assert exact.sum() > 60 and (d[exact] < 0).sum() > 4
        assert lost[exact].max() < 1e-9
        assert np.abs(on[:, 2] - heights_at(HEIGHTS, SPACING, on))[exact].max() < 1e-9
        assert np.abs(solid.distance(on)[0] - d)[exact].max() < 1e-9
        across = (found.point_a - found.point_b)[:, k] - d[:, None] * found.normal[:, k]
        assert np.abs(across).max() < 1e-12
        # a distance that is a little too large is found out
        assert np.isclose(missed(solid, surface, d + 1e-7), 1e-7, rtol=1e-3)[exact].all()


def test_the_rate_of_every_gap_is_its_normal_row(rough):
    """dg/dt = n · v(x_a), wherever no other contact takes the slot."""
    model, contacts = rough
    q, t = over_field(model, 30, seed=2), 1e-6
    v = np.random.default_rng(3).normal(size=(30, model.nv))
    plus, minus = (pp.contact_points(contacts, model.integrate(q, s * v)) for s in (t, -t))
    now, poses = pp.contact_points(contacts, q), pp.poses(model, q)
    rates = v.reshape(30, -1, 6)
    hosts = contacts.slot_bodies[:, 0]
    R, x = poses[:, hosts][..., :3, :3], poses[:, hosts][..., :3, 3]
    turn, move = (np.einsum("bkij,bkj->bki", R, rates[:, hosts, i : i + 3]) for i in (0, 3))
    row = np.sum(now.normal * (move + np.cross(turn, now.point_a - x)), axis=-1)
    smooth = np.abs(plus.gap + minus.gap - 2 * now.gap) < 1e-9
    smooth &= now.gap < INACTIVE
    assert smooth.sum() > 100
    assert np.abs((plus.gap - minus.gap) / (2 * t) - row)[smooth].max() < 1e-5


def test_below_the_surface_bodies_are_pushed_out(rough):
    """A ball whose centre is inside has the way of its centre to the surface."""
    model, contacts = rough
    q = over_field(model, 60, seed=4, low=-0.3, high=-0.01)
    found = pp.distances(contacts, q)
    assert (found.distance < 0).all()
    assert ((found.normal @ AT.rotation)[..., 2] > 0).all()
    ball = at_poses(model, q, "ball")
    depth = -found.distance[:, 0] - 0.35
    ball.p = np.zeros(1)
    assert missed(ball, triangles(HEIGHTS, SPACING), depth).max() < 1e-9
    on = (found.point_b[:, 0] - AT.translation) @ AT.rotation
    assert np.abs(on[:, 2] - heights_at(HEIGHTS, SPACING, on)).max() < 1e-9


def test_a_flat_field_is_a_plane():
    """One contact each, and two of the capsule, also over edges and points of the grid."""
    shapes = {name: x[2] for name, x in SHAPES.items()}
    field = S.HeightField(np.zeros((12, 12)), 0.5)
    model = model_of(shapes, field, AT, plane=S.Plane())
    q = model.random_configuration(3, 20).reshape(20, 3, 7)
    local = np.random.default_rng(4).uniform(-2, 2, (20, 3, 3))
    local[:10, :, :2] = np.rint(local[:10, :, :2] * 2) / 4  # on the grid's lines and points
    local[..., 2] = 0.15 * np.abs(local[..., 2])
    q[..., 4:] = local @ AT.rotation.T + AT.translation
    on_field, on_plane = (
        pp.contact_points(pp.Contacts(model, pairs=[(y, x) for y in shapes]), q.reshape(20, -1))
        for x in ("land", "plane")
    )
    same, none = [0, 3, 4, 9], [1, 2, 5, 6, 7, 8, 10, 11]  # ball 3, rod 6, egg 3 slots
    for x, y in zip(on_field, on_plane, strict=True):
        np.testing.assert_allclose(x[:, same], y, atol=1e-12)
    assert (on_field.gap[:, none] == INACTIVE).all()


def test_the_border_is_an_edge():
    """A ball beside the field touches its border; farther away there is nothing."""
    model = model_of({"ball": S.Sphere(0.2)}, S.HeightField(np.zeros((5, 5)), 0.5))
    contacts, q = pp.Contacts(model), np.tile(model.neutral(), (3, 1))
    q[:, 4:] = [1.1, 0.03, 0.1], [1.1, 0.03, -0.1], [9.0, 0, 0]
    found = pp.contact_points(contacts, q)
    assert found.gap[0, 0] == pytest.approx(0.02**0.5 - 0.2, abs=1e-12)
    np.testing.assert_allclose(found.normal[0, 0], [0.5**0.5, 0, 0.5**0.5], atol=1e-5)
    assert (found.gap[1:] == INACTIVE).all() and np.isfinite(found.normal).all()


def test_round_bodies_rest_on_both_sides_of_a_valley():
    """Two contacts each carry the weight; with one slot they would fall from side to side."""
    shapes = {"ball": S.Sphere(0.1), "egg": S.Ellipsoid((0.12, 0.1, 0.08))}
    model = model_of(shapes, S.HeightField(0.5 * np.abs(X)[:, None] + np.zeros(9), 0.25))
    contacts = pp.Contacts(model, pairs=[(x, "land") for x in shapes], material=pp.Material(0.5))
    system = pp.System(model, contacts=contacts)
    sim = pp.Simulator(system, dt=4e-3, integrator="time_stepping")
    q = model.neutral()
    q[4:7], q[11:14] = (0.02, 0.4, 0.2), (-0.02, -0.4, 0.2)
    run = sim.rollout(sim.initial_state(q), steps=400, record=("q", "v", "contact.impulses"))
    force = run["contact.impulses"][-1, :, 3:].reshape(2, 3, 3) / sim.dt
    assert np.abs(run.v[-1]).max() < 1e-9 and run.certificate.is_clean
    np.testing.assert_allclose(force.sum(axis=1), [[0, 0, 9.81]] * 2, atol=1e-6)
    assert (np.sort(force[:, :, 2])[:, 1:] > 1).all()
    gap = pp.contact_points(contacts, run.q).gap
    assert np.abs(gap[-1, [0, 1, 3, 4]]).max() < 1e-9 and gap.min() > -1e-3


@pytest.mark.usefixtures("machine_code")
@pytest.mark.parametrize("name", ["egg", "rod"])
def test_events_follow_a_body_over_a_ridge(name):
    """Without friction and impacts energy stays, while the contact goes over from face to edge."""
    shape = {"egg": S.Ellipsoid((0.12, 0.1, 0.08)), "rod": S.Capsule(0.05, 0.8)}[name]
    model = model_of({name: shape}, S.HeightField(ROOF, 0.25))
    system = pp.System(model, contacts=pp.Contacts(model, material=pp.Material(0.0), max_points=1))
    q, v = model.neutral(), np.zeros(6)
    if name == "egg":  # slides up a face and over the ridge to the other one
        slope = np.arctan(0.4)
        n, along = (np.array([-np.sin(slope), 0, np.cos(slope)]),
                    np.array([np.cos(slope), 0, np.sin(slope)]))  # fmt: skip
        q[4:] = [-0.1, 0.03, -0.04] + n * np.linalg.norm([0.12 * n[0], 0.08 * n[2]])
        v[3:], end = 1.1 * along, 0.4
    else:  # lies across the ridge; the contact goes through its middle
        turn = pp.Pose.from_axis_angle((0, 1, 0), np.pi / 2)
        q[:4], q[4:] = turn.quaternion, (-0.01, 0.03, 0.05)
        v[3:], end = turn.rotation.T @ [0.8, 0, 0], 0.08
    run = pp.simulate(system, q, v, end)
    assert [e.name for e in run.events] == [f"{name}|land slips"]
    assert run.contacts.certificate.overlap < 1e-8
    assert np.abs(run.energy - run.energy[0]).max() < 1e-6
    assert run.q[0, 4] < 0 < run.q[-1, 4]
