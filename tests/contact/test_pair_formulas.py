"""Formulas of pairs of shapes: exact distances, gaps whose rate is the normal row, symmetry."""

import numpy as np
import pytest
from solid_supports import SHAPES, certified, outside, support

from phipsi.contact.geometry.placed_shapes import INACTIVE, Placed
from phipsi.contact.geometry.slots import FORMULAS
from phipsi.laws import law_operations as ops
from phipsi.laws.law_values import evaluate
from phipsi.laws.trace import Traced, as_node
from phipsi.model.contact_pairs import SLOTS
from phipsi.spatial import quat_to_matrix, so3_exp

POSES = 10_000
PAIRS = list(FORMULAS)
FLAT = [pair for pair in PAIRS if pair[1] == "Plane"]
CURVED = [pair for pair in PAIRS if pair[1] != "Plane"]
DEEP_ON_A_FACE = [("Sphere", "Box"), ("Sphere", "Cylinder")]


def graph_of(pair, sizes):
    """The nodes of a formula, and its inputs by name."""
    names = [(f"{x}_{s}", shape) for s, n in zip("ab", sizes, strict=True)
             for x, shape in (("p", (n,)), ("R", (3, 3)), ("x", (3,)))]  # fmt: skip
    given = [Traced(ops.given(*one)) for one in names]
    slots = FORMULAS[pair](Placed(*given[:3]), Placed(*given[3:]))
    return [as_node(x) for slot in slots for x in slot], [name for name, _ in names]


_GRAPHS = {}


def slots_of(pair, a, b):
    """The slots of a formula for arrays (m, …): a list of (gap, normal, x_a, x_b)."""
    sizes = a[0].shape[1], b[0].shape[1]
    nodes, names = _GRAPHS.setdefault((pair, sizes), graph_of(pair, sizes))
    found = evaluate(nodes, dict(zip(names, (*a, *b), strict=True)))
    return [tuple(found[i : i + 4]) for i in range(0, len(found), 4)]


def random_solids(kind, rng, count, reach):
    p = np.array([SHAPES[kind](rng) for _ in range(count)]).reshape(count, -1)
    quat = rng.normal(size=(count, 4))
    R = quat_to_matrix(quat / np.linalg.norm(quat, axis=1, keepdims=True))
    return p, R, rng.uniform(-reach, reach, (count, 3))


def random_pair(pair, count=POSES, reach=1.0, seed=0):
    rng = np.random.default_rng(seed)
    return [random_solids(kind, rng, count, reach) for kind in pair]


def gaps_of(slots):
    return np.stack([slot[0] for slot in slots])


def nearest(slots):
    """The slot with the smallest gap, by element."""
    which = gaps_of(slots).argmin(axis=0)
    return tuple(np.stack([s[i] for s in slots])[which, np.arange(len(which))] for i in range(4))


def test_every_pair_with_slots_has_a_formula():
    assert SLOTS.keys() == FORMULAS.keys()
    for pair, count in SLOTS.items():
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


@pytest.mark.parametrize("pair", FLAT, ids="-".join)
def test_planes(pair):
    """The lowest point is exact in overlaps too; every point is on the surface of its shape.

    Of a capsule, the lowest point of the upper end is inside.
    """
    a, b = random_pair(pair, seed=3)
    slots = slots_of(pair, a, b)
    assert certified(pair, a, b, nearest(slots)).all()
    for gap, n, x_a, x_b in slots:
        far = outside(pair[0], *a, x_a)
        assert (far if pair[0] == "Capsule" else np.abs(far)).max() < 1e-12
        assert np.abs(np.einsum("mi,mi->m", n, x_a - x_b) - gap).max() < 1e-12


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


def moved(solid, w, u, t):
    """A solid after turning about its origin with w and moving with u, for a time t."""
    p, R, x = solid
    return p, so3_exp(w * t) @ R, x + u * t


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_the_rate_of_the_gap_is_the_normal_row(pair):
    """dg/dt = n · (velocity of a at x_a − velocity of b at x_b), wherever no feature changes."""
    a, b = random_pair(pair, 2000, seed=5)
    rng = np.random.default_rng(6)
    rates = [rng.normal(size=(2, 2000, 3)) for _ in range(2)]
    t = 1e-5
    now = slots_of(pair, a, b)
    then = [slots_of(pair, moved(a, *rates[0], s), moved(b, *rates[1], s)) for s in (t, -t)]
    checked = 0
    for k, (gap, n, x_a, x_b) in enumerate(now):
        plus, minus = then[0][k][0], then[1][k][0]
        smooth = np.abs(plus + minus - 2 * gap) < 1e-7  # no jump, no change of features
        smooth &= gap < INACTIVE / 2
        v = [
            u + np.cross(w, x - s[2])
            for (w, u), x, s in zip(rates, (x_a, x_b), (a, b), strict=True)
        ]
        row = np.einsum("mi,mi->m", n, v[0] - v[1])
        assert np.abs((plus - minus) / (2 * t) - row)[smooth].max() < 1e-6
        checked += smooth.sum()
    assert checked > 0.9 * gaps_of(now).size or len(now) > 2


def test_two_spheres_swapped():
    pair = ("Sphere", "Sphere")
    a, b = random_pair(pair, 100)
    (one,), (other,) = slots_of(pair, a, b), slots_of(pair, b, a)
    np.testing.assert_allclose(one[0], other[0], atol=1e-15)
    np.testing.assert_allclose(one[1], -other[1], atol=1e-14)
    np.testing.assert_allclose(one[2], other[3], atol=1e-14)


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
