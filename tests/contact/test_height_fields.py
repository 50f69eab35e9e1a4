"""Corners on height fields touch the triangle below them.

Others: test_round_fields.py, test_solids_on_fields.py.
"""

import numpy as np
import pytest
from field_distances import triangles

import phipsi as pp
from phipsi.contact.contact_points import PairLanes
from phipsi.contact.geometry.pair_formulas import slot_geometry
from phipsi.contact.geometry.placed_shapes import INACTIVE
from phipsi.core.spatial import so3_exp

S = pp.shapes
SPACING = np.array([0.5, 0.4])
HEIGHTS = 0.3 * np.random.default_rng(0).normal(size=(7, 8))
FIELD = S.HeightField(HEIGHTS, SPACING)
AT = pp.Pose.from_rpy((0.3, -0.2, 0.5), (0.1, 0.2, 0.3))


def height_under(p):
    """The height of the surface at x, y, and the normal there."""
    for a, b, c in triangles(HEIGHTS, SPACING):
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


MESH = S.ConvexMesh(np.random.default_rng(1).normal(size=(10, 3)) * 0.15)


@pytest.mark.parametrize("shape", [S.Box((0.4, 0.3, 0.2)), S.Cylinder(0.15, 0.3), MESH])
def test_the_rate_of_the_gap_is_the_normal_row(shape):
    """dg/dt = n · v(x_a), wherever the triangle does not change."""
    contacts, t = contacts_of(shape), 1e-6
    rng = np.random.default_rng(5)
    poses, rates = [], []
    for p in rng.uniform([-1.2, -1.1, -0.5], [1.2, 1.1, 0.7], (40, 3)):
        R, x = pp.Pose.from_rpy(rng.normal(size=3)).rotation, AT.apply(p)
        w, u = rng.normal(size=(2, 3))
        rates.append((w, u, x))
        poses.append([pose(so3_exp(w * s) @ R, x + u * s)[0] for s in (0.0, t, -t)])
    gap, normal, x_a, _ = PairLanes(contacts, None, False)(np.array(poses)[:, :, None])
    w, u, x = (np.array(y)[:, None] for y in zip(*rates, strict=True))
    row = np.sum(normal[:, 0] * (u + np.cross(w, x_a[:, 0] - x)), axis=-1)
    now, plus, minus = gap[:, 0], gap[:, 1], gap[:, 2]
    smooth = (np.abs(plus + minus - 2 * now) < 1e-10) & (now < INACTIVE)
    off = np.abs((plus - minus) / (2 * t) - row)
    if shape.kind == "Cylinder":  # a rim across a ridge: in proportion to the gap
        off = off - 30 * np.abs(now) * (np.arange(9) > 4)
        smooth[:, :2] &= now[:, :2] > -0.07  # deep, a rim has its points where it has none above
    assert off[smooth].max() < 1e-5
    assert smooth[:, :4].sum() > 50 and smooth[:, -4:].sum() > 20


def test_corners_of_boxes_touch_the_triangle_below():
    contacts = contacts_of(S.Box((0.4, 0.3, 0.2)))
    rng = np.random.default_rng(2)
    signs = np.array(np.meshgrid(*[[-1, 1]] * 3)).reshape(3, -1).T
    locals_ = [pp.Pose.from_rpy(rng.normal(size=3), rng.uniform(-0.8, 0.8, 3)) for _ in range(50)]
    poses = [pose((AT @ x).rotation, (AT @ x).translation) for x in locals_]
    gaps = PairLanes(contacts, None, False)(np.array(poses))[0]
    for local, gap in zip(locals_, gaps, strict=True):
        corners = np.array([local.apply(s * np.array([0.2, 0.15, 0.1])) for s in signs])
        lowest = corners[np.argsort(corners[:, 2])[:4]]
        expected = []
        for p in lowest:
            height, n = height_under(p)
            expected.append(n[2] * (p[2] - height))
        np.testing.assert_allclose(np.sort(gap[:4]), np.sort(expected), atol=1e-12)


def test_a_mesh_of_a_box_touches_as_the_box():
    """Two ways to the same solid; both feel more than their corners."""
    h = np.array([0.2, 0.15, 0.1])
    box, mesh = contacts_of(S.Box(2 * h)), contacts_of(S.ConvexMesh(
        h * np.array(np.meshgrid(*[[-1, 1]] * 3)).reshape(3, -1).T))  # fmt: skip
    rng = np.random.default_rng(3)
    poses = []
    for p in rng.uniform([-0.8, -0.8, 0.0], [0.8, 0.8, 0.5], (200, 3)):
        local = AT @ pp.Pose.from_rpy(0.5 * rng.normal(size=3), p)
        poses.append(pose(local.rotation, local.translation))
    one, two = (PairLanes(x, None, False)(np.array(poses))[0] for x in (box, mesh))
    near = np.abs(one.min(axis=1)) < 0.03
    assert near.sum() > 10 and (one.min(axis=1) < one[:, :4].min(axis=1) - 1e-3)[near].sum() > 3
    np.testing.assert_allclose(one.min(axis=1)[near], two.min(axis=1)[near], atol=1e-12)
    assert ((one.min(axis=1) < 0) == (two.min(axis=1) < 0)).all()


def test_rims_of_cylinders_touch_the_triangle_below():
    """The lowest point of a rim along the normal of the triangle, and three points of one rim."""
    contacts, rng = contacts_of(S.Cylinder(0.1, 0.2)), np.random.default_rng(3)
    found = 0
    for _ in range(8):
        local = pp.Pose.from_rpy(0.1 * rng.normal(size=3), rng.uniform(-0.8, 0.8, 3))
        X = AT @ local
        rims = slot_geometry(contacts, pose(X.rotation, X.translation))
        for k in np.flatnonzero(rims.gap[:5] < INACTIVE):
            p = AT.inv.apply(rims.x_a[k])
            height, normal = height_under(p)
            assert rims.gap[k] == pytest.approx(normal[2] * (p[2] - height), abs=1e-12)
            np.testing.assert_allclose(rims.normal[k], AT.rotation @ normal, atol=1e-12)
            rim = local.inv.apply(p)
            assert np.hypot(*rim[:2]) == pytest.approx(0.1) and abs(rim[2]) == pytest.approx(0.1)
            found += k < 2
    assert found > 4


def test_beside_the_field_there_is_nothing():
    contacts = contacts_of(S.Box((0.4, 0.3, 0.2)))
    for p in ([2.4, 0, 0], [0, -2.2, 0], [50, 0, 0]):
        slots = slot_geometry(contacts, pose(np.eye(3), AT.apply(p)))
        assert (slots.gap == INACTIVE).all() and all(np.isfinite(x).all() for x in slots[:4])
