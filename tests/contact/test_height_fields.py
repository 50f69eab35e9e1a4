"""Height fields: balls against all triangles of the field, corners against the one below."""

import numpy as np
import pytest

import phipsi as pp
from phipsi.contact.geometry.placed_shapes import INACTIVE
from phipsi.contact.geometry.slots import slot_geometry
from phipsi.spatial import so3_exp

S = pp.shapes
SPACING = np.array([0.5, 0.4])
HEIGHTS = 0.3 * np.random.default_rng(0).normal(size=(7, 8))
FIELD = S.HeightField(HEIGHTS, SPACING)
AT = pp.Pose.from_rpy((0.3, -0.2, 0.5), (0.1, 0.2, 0.3))


def triangles():
    """All triangles (t, 3, 3) of the field, upward normals, in its axes."""
    n, m = HEIGHTS.shape
    x = (np.arange(n) - (n - 1) / 2) * SPACING[0]
    y = (np.arange(m) - (m - 1) / 2) * SPACING[1]
    grid = np.stack([*np.meshgrid(x, y, indexing="ij"), HEIGHTS], -1)
    a, b, c, d = grid[:-1, :-1], grid[1:, :-1], grid[1:, 1:], grid[:-1, 1:]
    return np.concatenate([np.stack([a, b, c], 2), np.stack([a, c, d], 2)]).reshape(-1, 3, 3)


def nearest(p, triangle):
    """The nearest point of a triangle: inside, or the best on its edges."""
    a, b, c = triangle
    E = np.stack([b - a, c - a], 1)
    s, t = np.linalg.lstsq(E, p - a, rcond=None)[0]
    if s >= 0 and t >= 0 and s + t <= 1:
        return a + E @ [s, t]
    best = []
    for x, y in ((a, b), (b, c), (c, a)):
        k = np.clip((p - x) @ (y - x) / ((y - x) @ (y - x)), 0, 1)
        best.append(x + k * (y - x))
    return min(best, key=lambda q: np.linalg.norm(p - q))


def height_under(p):
    """The height of the surface at x, y, and the normal there."""
    for a, b, c in triangles():
        s, t = np.linalg.solve(np.stack([b - a, c - a], 1)[:2], (p - a)[:2])
        if min(s, t, 1 - s - t) >= -1e-12:
            n = np.cross(b - a, c - a)
            return (a + s * (b - a) + t * (c - a))[2], n / np.linalg.norm(n)
    return None


def contacts_of(shape):
    builder = pp.ModelBuilder()
    builder.add_body("body", joint=pp.joints.Free(), inertia=pp.SpatialInertia(mass=1.0))
    builder.add_shape("body", "body", shape)
    builder.add_shape("field", "world", FIELD, AT)
    return pp.Contacts(builder.build())


def pose(R, x):
    X = np.eye(4)
    X[:3, :3], X[:3, 3] = R, x
    return X[None]


def test_balls_touch_the_nearest_triangle():
    contacts, r = contacts_of(S.Sphere(0.2)), 0.2
    rng = np.random.default_rng(1)
    surface = triangles()
    compared = below = edges = 0
    for p in rng.uniform([-1.4, -1.3, -0.6], [1.4, 1.3, 0.8], (130, 3)):
        slots = slot_geometry(contacts, pose(np.eye(3), AT.apply(p)))
        points = np.array([nearest(p, t) for t in surface])
        away = np.linalg.norm(points - p, axis=1)
        k = away.argmin()
        side = np.sign(p[2] - height_under(p)[0])
        assert slots.gap[0] >= side * away[k] - r - 1e-12 or side < 0
        if away[k] > SPACING.min() / 2:
            continue
        compared, below = compared + 1, below + (side < 0)
        edges += (away < away[k] + 1e-9).sum() > 1
        assert slots.gap[0] == pytest.approx(side * away[k] - r, abs=1e-12)
        np.testing.assert_allclose(
            AT.rotation.T @ slots.normal[0], side * (p - points[k]) / away[k], atol=1e-9
        )
        np.testing.assert_allclose(AT.apply(points[k]), slots.x_b[0], atol=1e-12)
        np.testing.assert_allclose(slots.x_a - slots.x_b, slots.gap * slots.normal, atol=1e-12)
    assert compared > 50 and below > 15 and edges > 5


SHAPES = [S.Sphere(0.2), S.Box((0.4, 0.3, 0.2)), S.Ellipsoid((0.1, 0.15, 0.2))]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: s.kind)
def test_the_rate_of_the_gap_is_the_normal_row(shape):
    """dg/dt = n · v(x_a), wherever the triangle does not change."""
    contacts, t = contacts_of(shape), 1e-6
    rng = np.random.default_rng(5)
    checked = 0
    for p in rng.uniform([-1.2, -1.1, -0.5], [1.2, 1.1, 0.7], (40, 3)):
        R, x = pp.Pose.from_rpy(rng.normal(size=3)).rotation, AT.apply(p)
        w, u = rng.normal(size=(2, 3))
        now, plus, minus = (
            slot_geometry(contacts, pose(so3_exp(w * s) @ R, x + u * s)) for s in (0.0, t, -t)
        )
        row = np.einsum("ki,ki->k", now.normal, u + np.cross(w, now.x_a - x))
        smooth = np.abs(plus.gap + minus.gap - 2 * now.gap) < 1e-10
        assert np.abs((plus.gap - minus.gap) / (2 * t) - row)[smooth].max(initial=0.0) < 1e-5
        checked += smooth.sum()
    assert checked > 30


def test_ends_of_capsules_are_balls():
    ball, capsule = contacts_of(S.Sphere(0.15)), contacts_of(S.Capsule(0.15, 0.6))
    R, x = AT.rotation @ pp.Pose.from_rpy((0.5, 0.4, 0.1)).rotation, AT.apply([0.1, 0.2, 0.3])
    both = slot_geometry(capsule, pose(R, x))
    for k, s in enumerate((0.3, -0.3)):
        one = slot_geometry(ball, pose(R, x + s * R[:, 2]))
        for ours, theirs in zip(both, one, strict=True):
            np.testing.assert_allclose(ours[k], theirs[0], atol=1e-14)


def test_corners_of_boxes_touch_the_triangle_below():
    contacts = contacts_of(S.Box((0.4, 0.3, 0.2)))
    rng = np.random.default_rng(2)
    signs = np.array(np.meshgrid(*[[-1, 1]] * 3)).reshape(3, -1).T
    for _ in range(50):
        local = pp.Pose.from_rpy(rng.normal(size=3), rng.uniform(-0.8, 0.8, 3))
        X = AT @ local
        slots = slot_geometry(contacts, pose(X.rotation, X.translation))
        corners = np.array([local.apply(s * np.array([0.2, 0.15, 0.1])) for s in signs])
        lowest = corners[np.argsort(corners[:, 2])[:4]]
        expected = []
        for p in lowest:
            height, n = height_under(p)
            expected.append(n[2] * (p[2] - height))
        np.testing.assert_allclose(np.sort(slots.gap), np.sort(expected), atol=1e-12)


def test_meshes_and_cylinders_touch_as_boxes_do():
    """A mesh with the corners of a box; a cylinder of many sides is near its mesh."""
    h = np.array([0.2, 0.15, 0.1])
    box, mesh = contacts_of(S.Box(2 * h)), contacts_of(S.ConvexMesh(
        h * np.array(np.meshgrid(*[[-1, 1]] * 3)).reshape(3, -1).T))  # fmt: skip
    cylinder = contacts_of(S.Cylinder(0.1, 0.2))
    rng = np.random.default_rng(3)
    for _ in range(20):
        local = pp.Pose.from_rpy(0.1 * rng.normal(size=3), rng.uniform(-0.8, 0.8, 3))
        X = AT @ local
        at = pose(X.rotation, X.translation)
        four = slot_geometry(mesh, at)
        there = four.gap < INACTIVE
        distance = np.abs(four.gap[there][:, None] - slot_geometry(box, at).gap).min(axis=1)
        assert there.any() and distance.max() < 1e-12
        rims = slot_geometry(cylinder, at)
        for gap, n, x in zip(rims.gap, rims.normal, rims.x_a, strict=True):
            p = AT.inv.apply(x)
            height, normal = height_under(p)
            assert gap == pytest.approx(normal[2] * (p[2] - height), abs=1e-12)
            np.testing.assert_allclose(n, AT.rotation @ normal, atol=1e-12)
            rim = local.inv.apply(p)
            assert np.hypot(*rim[:2]) == pytest.approx(0.1) and abs(rim[2]) == pytest.approx(0.1)


def test_ellipsoids_touch_triangles_below_them():
    """The gap is that of the ellipsoid's points to the plane of a triangle; on most, below it."""
    half, over = np.array([0.1, 0.15, 0.2]), 0
    contacts = contacts_of(S.Ellipsoid(half))
    rng = np.random.default_rng(7)
    for _ in range(40):
        local = pp.Pose.from_rpy(rng.normal(size=3), rng.uniform(-0.8, 0.8, 3))
        X = AT @ local
        slots = slot_geometry(contacts, pose(X.rotation, X.translation))
        n, x = slots.normal[0], slots.x_a[0]
        inside = X.rotation.T @ (x - X.translation) / half
        assert abs(inside @ inside - 1) < 1e-12  # on the ellipsoid
        own = X.rotation.T @ n
        assert np.linalg.norm(np.cross(inside / half, own)) < 1e-9 * np.linalg.norm(inside / half)
        p = AT.rotation.T @ (x - AT.translation)
        height, normal = height_under(p)
        if np.allclose(AT.rotation @ normal, n, atol=1e-9):
            assert slots.gap[0] == pytest.approx(normal[2] * (p[2] - height), abs=1e-12)
            over += 1
    assert over > 20


def test_beside_the_field_there_is_nothing():
    contacts = contacts_of(S.Sphere(0.2))
    for p in ([1.6, 0, 0], [0, -1.5, 0], [50, 0, 0]):
        slots = slot_geometry(contacts, pose(np.eye(3), AT.apply(p)))
        assert slots.gap[0] == INACTIVE and all(np.isfinite(x).all() for x in slots)


def test_a_flat_field_is_a_plane():
    builder = pp.ModelBuilder()
    shapes = {
        "ball": S.Sphere(0.1),
        "box": S.Box((0.2, 0.3, 0.4)),
        "egg": S.Ellipsoid((0.1, 0.2, 0.3)),
    }
    for name, shape in shapes.items():
        builder.add_body(name, joint=pp.joints.Free(), inertia=pp.SpatialInertia(mass=1.0))
        builder.add_shape(name, name, shape)
    builder.add_shape("field", "world", S.HeightField(np.zeros((12, 12)), 0.5), AT)
    builder.add_shape("plane", "world", S.Plane(), AT)
    model = builder.build()
    q = model.random_configuration(3, 20)
    found = [
        pp.contact_points(pp.Contacts(model, pairs=[(y, x) for y in shapes]), q)
        for x in ("field", "plane")
    ]
    assert (found[0].gap < INACTIVE).mean() > 0.9
    for x, y in zip(*found, strict=True):
        keep = found[0].gap < INACTIVE
        # a ball far from the field is compared with the triangles around one point only
        near = keep & (found[1].gap < 0.1)
        np.testing.assert_allclose(x[near], y[near], atol=1e-12)
