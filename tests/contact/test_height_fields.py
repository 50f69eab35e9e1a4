"""Corners on height fields touch the triangle below them.

Others: test_round_fields.py, test_boxes_on_fields.py.
"""

import warnings

import numpy as np
import pytest
from field_distances import triangles

import phipsi as pp
from phipsi.contact.geometry.placed_shapes import INACTIVE
from phipsi.contact.geometry.slots import slot_geometry
from phipsi.contact.pair_lanes import PairLanes
from phipsi.errors import PhipsiWarning
from phipsi.model.unfelt_ridges import ridge_height
from phipsi.spatial import so3_exp

pytestmark = pytest.mark.filterwarnings("ignore:Contacts. rims of cylinders")
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


def test_the_rate_of_the_gap_is_the_normal_row():
    """dg/dt = n · v(x_a), wherever the triangle does not change."""
    contacts, t = contacts_of(S.Box((0.4, 0.3, 0.2))), 1e-6
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
    assert np.abs((plus - minus) / (2 * t) - row)[smooth].max() < 1e-5
    assert smooth[:, :4].sum() > 120 and smooth[:, 4:].sum() > 20


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


def test_meshes_and_cylinders_touch_as_boxes_do():
    """A mesh with the corners of a box; a cylinder of many sides is near its mesh."""
    h = np.array([0.2, 0.15, 0.1])
    box, mesh = contacts_of(S.Box(2 * h)), contacts_of(S.ConvexMesh(
        h * np.array(np.meshgrid(*[[-1, 1]] * 3)).reshape(3, -1).T))  # fmt: skip
    cylinder = contacts_of(S.Cylinder(0.1, 0.2))
    rng = np.random.default_rng(3)
    for _ in range(8):
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


def test_beside_the_field_there_is_nothing():
    contacts = contacts_of(S.Box((0.4, 0.3, 0.2)))
    for p in ([2.4, 0, 0], [0, -2.2, 0], [50, 0, 0]):
        slots = slot_geometry(contacts, pose(np.eye(3), AT.apply(p)))
        assert (slots.gap == INACTIVE).all() and all(np.isfinite(x).all() for x in slots)


def test_ridges_that_corners_do_not_feel_are_named():
    """A roof of slope 0.4: over a chord of length L it stands L/2 · 0.4 high; flat ground 0."""
    x = 0.5 * np.arange(-3.0, 4.0)[:, None] + np.zeros((7, 6))
    roof, valley = (S.HeightField(s * 0.4 * np.abs(x), SPACING) for s in (-1, 1))
    for size in (0.1, 0.5, 0.9, 2.0):
        assert ridge_height(roof, size) == pytest.approx(0.2 * size, rel=1e-12)
        assert ridge_height(valley, size) < 1e-15
    slope = 0.3 * x + 0.1 * 0.4 * np.arange(6.0)
    for kind in (S.Cylinder(0.1, 0.2), S.ConvexMesh(np.random.default_rng(0).normal(size=(9, 3)))):
        for field in (roof, valley, S.HeightField(slope, SPACING)):
            builder = pp.ModelBuilder()
            at = pp.Pose.from_rpy((0.3, 0, 0), (0, 0.1, 0))
            builder.add_body("crate", joint=pp.joints.Free(), inertia=pp.SpatialInertia(mass=1.0))
            builder.add_shape("hull", "crate", kind, at)
            builder.add_shape("land", "world", field)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                pp.Contacts(builder.build())
            assert len(caught) == (field == roof)
            if not caught:
                continue
            text = str(caught[0].message)
            assert caught[0].category is PhipsiWarning and caught[0].filename == __file__
            assert f"{kind.kind} 'hull' (on 'crate') on 'land' (on 'world')" in text
            line = next(x.strip() for x in text.splitlines() if x.strip().startswith("builder."))
            exec(line, {"builder": builder, "pp": pp})
            with pytest.warns(PhipsiWarning, match="may be inside the body without a force"):
                assert len(pp.Contacts(builder.build()).pairs) == 2
