"""Formulas of pairs of shapes: exact distances, gaps whose rate is the normal row, symmetry."""

import numpy as np
import pytest
from placed_pairs import gaps_of, moved, nearest, random_pair, random_solids, slots_of
from solid_supports import certified, outside, support

from phipsi.contact.geometry.pair_formulas import CONVEX, FORMULAS
from phipsi.contact.geometry.placed_shapes import INACTIVE
from phipsi.contact.pair_slots import SLOTS
from phipsi.core.spatial import so3_exp

# others: test_height_fields.py, test_convex_pairs.py
PAIRS = [pair for pair in FORMULAS if pair[1] != "HeightField" and pair not in CONVEX]
FLAT = [pair for pair in PAIRS if pair[1] == "Plane"]
CURVED = [pair for pair in PAIRS if pair[1] != "Plane"]
CLIPPED = [("Capsule", "Box"), ("Box", "Box")]
"""Pairs with slots where edges cross, at which the row is exact for parallel faces."""


def test_every_pair_with_slots_has_a_formula():
    assert SLOTS.keys() == FORMULAS.keys()
    for pair in PAIRS:
        count = SLOTS[pair]
        a, b = random_pair(pair, 2)
        assert len(slots_of(pair, a, b)) == count


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_the_gap_is_the_distance(pair):
    """The nearest slot is the exact distance, certified by support functions."""
    a, b = random_pair(pair)
    slot = nearest(slots_of(pair, a, b))
    apart = slot[0] > 1e-9
    assert apart.mean() > 0.2
    assert certified(pair, a, b, slot)[apart].all()


@pytest.mark.parametrize("pair", CURVED, ids="-".join)
def test_overlaps(pair):
    """Moving a by the depth along the normal separates the two; no other direction needs less."""
    a, b = random_pair(pair, 2000, 0.3, seed=1)
    slot = nearest(slots_of(pair, a, b))
    gap, n, x_a, x_b = slot
    deep = gap < -1e-9
    assert deep.mean() > 0.3
    sound = np.abs(np.linalg.norm(n, axis=1) - 1) < 1e-12
    sound &= np.linalg.norm(x_a - x_b - gap[:, None] * n, axis=1) < 1e-12
    sound &= np.abs(support(pair[1], *b, n) + support(pair[0], *a, -n) + gap) < 1e-10
    assert sound[deep].all()
    for d in np.random.default_rng(2).normal(size=(200, 3)):
        d = np.broadcast_to(d / np.linalg.norm(d), n.shape)
        depth = support(pair[1], *b, d) + support(pair[0], *a, -d)
        assert (depth[deep] >= -gap[deep] - 1e-12).all()


def vertex_distance(p, R, x, point):
    """From the nearest vertex of a mesh."""
    local = np.einsum("mij,mi->mj", R, point - x)
    return np.linalg.norm(p.reshape(len(p), -1, 3) - local[:, None], axis=-1).min(axis=1)


@pytest.mark.parametrize("pair", FLAT, ids="-".join)
def test_planes(pair):
    """The lowest point is exact in overlaps too; every point is on the surface of its shape.

    Of a capsule, the lowest point of the upper end is inside.
    """
    a, b = random_pair(pair, seed=3)
    slots = slots_of(pair, a, b)
    assert certified(pair, a, b, nearest(slots)).all()
    for gap, n, x_a, x_b in slots:
        far = vertex_distance(*a, x_a) if pair[0] == "ConvexMesh" else outside(pair[0], *a, x_a)
        assert (far if pair[0] == "Capsule" else np.abs(far)).max() < 1e-12
        off = np.abs(np.einsum("mi,mi->m", n, x_a - x_b) - gap)
        assert off[gap < INACTIVE].max() < 1e-12


def test_a_box_has_its_four_lowest_corners_and_keeps_their_slots():
    (p, R, x), plane = random_pair(("Box", "Plane"), 500, seed=4)
    signs = np.array(np.meshgrid(*[[-1, 1]] * 3)).reshape(3, -1).T
    corners = x[:, None] + np.einsum("mij,cj,mj->mci", R, signs, p)
    heights = np.einsum("mci,mi->mc", corners - plane[2][:, None], plane[1][:, :, 2])
    slots = slots_of(("Box", "Plane"), (p, R, x), plane)
    found = gaps_of(slots).T
    np.testing.assert_allclose(np.sort(found, axis=1), np.sort(heights, axis=1)[:, :4], atol=1e-14)
    # a corner is always in the slot of its diagonal
    places = np.stack([s[2] for s in slots], 1)
    which = np.linalg.norm(places[:, :, None] - corners[:, None], axis=-1).argmin(axis=-1)
    for slot in range(4):
        assert len(set(which[:, slot])) == 2
        one, other = set(which[:, slot])
        assert (signs[one] == -signs[other]).all()


def rates_of(pair, a, b, rates, t=1e-5):
    """By slot: whether nothing jumps, the rate of the gap by differences, and the normal row."""
    now = slots_of(pair, a, b)
    then = [slots_of(pair, moved(a, *rates[0], s), moved(b, *rates[1], s)) for s in (t, -t)]
    for k, (gap, n, x_a, x_b) in enumerate(now):
        plus, minus = then[0][k][0], then[1][k][0]
        smooth = (np.abs(plus + minus - 2 * gap) < 2e-8) & (gap < INACTIVE / 2)
        sides = zip(rates, (x_a, x_b), (a, b), strict=True)
        v = [u + np.cross(w, x - solid[2]) for (w, u), x, solid in sides]
        yield smooth, (plus - minus) / (2 * t), np.einsum("mi,mi->m", n, v[0] - v[1])


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_the_rate_of_the_gap_is_the_normal_row(pair):
    """dg/dt = n · (velocity of a at x_a − velocity of b at x_b), wherever no feature changes.

    Of faces that lie over each other at an angle it holds for the nearest point.
    """
    a, b = random_pair(pair, 2000, seed=5)
    rates = np.random.default_rng(6).normal(size=(2, 2, 2000, 3))
    gaps = gaps_of(slots_of(pair, a, b))
    nearest_only = pair in CLIPPED
    checked = 0
    for gap, (smooth, rate, row) in zip(gaps, rates_of(pair, a, b, rates), strict=True):
        if nearest_only:
            smooth = smooth & (gap == gaps.min(axis=0)) & (gap > 0)
        assert np.abs(rate - row)[smooth].max(initial=0.0) < 1e-5
        checked += smooth.sum()
    assert checked > 0.5 * (gaps.min(axis=0) > 0 if nearest_only else gaps < INACTIVE).sum()


@pytest.mark.parametrize("kind", ["Sphere", "Capsule", "Box"])
def test_shapes_swapped(kind):
    """The gap stays, normals and points change sides."""
    a, b = random_pair((kind, kind), 1000)
    one, other = (nearest(slots_of((kind, kind), *both)) for both in ((a, b), (b, a)))
    np.testing.assert_allclose(one[0], other[0], atol=1e-13)
    apart = one[0] > 1e-6
    np.testing.assert_allclose(one[1][apart], -other[1][apart], atol=1e-7)
    np.testing.assert_allclose(one[2][apart], other[3][apart], atol=1e-7)


# ---- faces on faces ------------------------------------------------------------------------------


def clipped(subject, clip):
    """Sutherland and Hodgman: the polygon (n, 2) inside a convex one, counterclockwise."""
    out = list(subject)
    for p, q in zip(clip, np.roll(clip, -1, axis=0), strict=True):
        inner, out = out, []
        d = q - p
        side = [d[0] * (x - p)[1] - d[1] * (x - p)[0] for x in inner]
        for i, x in enumerate(inner):
            y, s, t = inner[i - 1], side[i], side[i - 1]
            if s * t < 0:
                out.append(y + (x - y) * t / (t - s))
            if s >= 0:
                out.append(x)
    return np.array(out).reshape(-1, 2)


def area(polygon):
    x, y = np.asarray(polygon).T
    return 0.5 * abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1)))


SQUARE = np.array([[1.0, 1], [-1, 1], [-1, -1], [1, -1]])


def test_boxes_lie_on_each_other_with_four_wide_points():
    """Flat contacts: points are corners of the true polygon, with its gap, and span most of it."""
    rng = np.random.default_rng(7)
    m = 200
    p, r = rng.uniform(0.1, 0.5, (2, m, 3))
    angle, gap = rng.uniform(-np.pi, np.pi, m), rng.uniform(-0.01, 0.01, m)
    turned = so3_exp(np.stack([0 * angle, 0 * angle, angle], 1))
    away = np.stack([*(rng.uniform(-0.3, 0.3, (2, m))), p[:, 2] + r[:, 2] + gap], 1)
    world = random_solids("Sphere", rng, m, 1.0)[1]
    a = p, world @ turned, np.einsum("mij,mj->mi", world, away)
    b = r, world, np.zeros((m, 3))
    slots = slots_of(("Box", "Box"), a, b)
    spans = []
    for i in range(m):
        top = SQUARE * p[i, :2] @ turned[i, :2, :2].T + away[i, :2]
        polygon = clipped(top, SQUARE * r[i, :2])
        found = []
        for k in range(4):
            if slots[k][0][i] < INACTIVE:
                assert slots[k][0][i] == pytest.approx(gap[i], abs=1e-12)
                np.testing.assert_allclose(slots[k][1][i], world[i, :, 2], atol=1e-12)
                found.append((world[i].T @ slots[k][2][i])[:2])
        if not len(polygon):
            assert not found
            continue
        found = np.array(found)
        far = np.linalg.norm(found[:, None] - polygon, axis=-1).min(axis=1)
        assert far.max() < 1e-9
        assert len(found) == min(4, len(polygon))
        centre = found.mean(axis=0)
        order = np.argsort(np.arctan2(*(found - centre).T))
        spans.append(area(found[order]) / area(polygon))
    assert len(spans) > 100 and min(spans) > 0.6


@pytest.mark.parametrize("pair", CLIPPED, ids="-".join)
def test_rates_where_faces_are_nearly_parallel(pair):
    """At a slope s the rate of the gap is the normal row up to s times the speed."""
    rng = np.random.default_rng(8)
    m, slope = 500, 1e-4
    sizes = [rng.uniform(0.2, 0.5, (m, 2 if kind == "Capsule" else 3)) for kind in pair]
    lying = so3_exp(np.array([np.pi / 2, 0, 0])) if pair[0] == "Capsule" else np.eye(3)
    angle = np.stack([*(slope * rng.uniform(-1, 1, (2, m))), rng.uniform(-3, 3, m)], 1)
    height = sizes[1][:, 2] + sizes[0][:, 0 if pair[0] == "Capsule" else 2] + 0.01
    place = np.stack([*(rng.uniform(-0.4, 0.4, (2, m))), height], 1)
    a = sizes[0], so3_exp(angle) @ lying, place
    b = sizes[1], np.broadcast_to(np.eye(3), (m, 3, 3)), np.zeros((m, 3))
    rates = rng.normal(size=(2, 2, m, 3))
    count = 0
    for smooth, rate, row in rates_of(pair, a, b, rates, t=1e-6):
        good = smooth & (np.abs(rate - row) < 30 * slope)
        count += smooth.sum()
        assert good.sum() >= 0.97 * smooth.sum()  # others pass a corner in the difference
    assert count > m


def test_boxes_that_cross_deeply_have_a_contact():
    """Overlaps in which no corner is inside the other box, and concentric ones."""
    long, flat = np.array([[1.0, 0.1, 0.1]]), np.array([[0.1, 1.0, 0.1]])
    for x in ([0.0, 0, 0.05], [0, 0, 0], [0.5, 0.5, 0.01]):
        solids = [(p, np.eye(3)[None], np.array([y])) for p, y in ((long, x), (flat, [0.0, 0, 0]))]
        slot = nearest(slots_of(("Box", "Box"), *solids))
        axes = np.abs(x) - long[0] - flat[0]
        assert slot[0][0] == pytest.approx(axes.max(), abs=1e-12)


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_concentric_shapes_have_finite_contacts(pair):
    """Nothing divides by zero where directions are not defined."""
    a, b = random_pair(pair, 50, 0.0)
    for rotation in (a[1], b[1], np.broadcast_to(np.eye(3), a[1].shape)):
        for slot in slots_of(pair, (a[0], rotation, a[2]), b):
            assert all(np.isfinite(x).all() for x in slot)
            assert np.abs(np.linalg.norm(slot[1], axis=1) - 1).max() < 1e-12


def test_the_certificate_rejects_what_is_wrong():
    """Twins: another normal, another gap, a point off the surface, a shape a little larger."""
    pair = ("Sphere", "Box")
    a, b = random_pair(pair, 200)
    slot = nearest(slots_of(pair, a, b))
    apart = slot[0] > 1e-3
    assert certified(pair, a, b, slot)[apart].all()
    gap, n, x_a, x_b = slot
    turned = n + 1e-4 * np.roll(n, 1, axis=1)
    turned /= np.linalg.norm(turned, axis=1, keepdims=True)
    larger = (a[0] * (1 + 1e-7), *a[1:])
    twins = [
        (a, (gap, turned, x_a, x_b)),
        (a, (gap + 1e-9, n, x_a, x_b)),
        (a, (gap, n, x_a + 1e-9, x_b)),
        (a, (gap, -n, x_b, x_a)),
        (larger, slot),
    ]
    for solid, twin in twins:
        assert not certified(pair, solid, b, twin)[apart].any()
