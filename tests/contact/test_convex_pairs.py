"""Any two convex shapes: distances, overlaps, several points, derivatives, machine code."""

from functools import cache

import coal
import numpy as np
import pytest
from amounts import amount
from placed_pairs import gaps_of, graph_of, moved, nearest, random_pair, slots_of
from solid_supports import SHAPES, certified, support

import phipsi as pp
from phipsi.contact.contact_points import _DistanceFunction
from phipsi.contact.geometry.convex_pairs import convex_pair
from phipsi.contact.geometry.convex_shapes import FLAT_KINDS
from phipsi.contact.geometry.pair_formulas import CONVEX, FORMULAS
from phipsi.contact.geometry.placed_shapes import INACTIVE
from phipsi.contact.pair_slots import SLOTS
from phipsi.core.arrays import law_operations as ops
from phipsi.core.arrays.graph import in_order
from phipsi.core.arrays.law_derivatives import adjoints, tangents
from phipsi.core.arrays.law_values import evaluate
from phipsi.core.spatial import so3_exp

POSES = amount("PHIPSI_FUZZ_POSES", 90)  # of every pair; 100,000: scripts/certify_shapes.py
PAIR = pytest.mark.parametrize("pair", CONVEX, ids="-".join)
WITH_FACES = [pair for pair in CONVEX if all(kind in FLAT_KINDS for kind in pair)]


def test_all_convex_shapes_have_formulas():
    kinds = [kind for kind in SHAPES if kind != "Plane"]
    for i, one in enumerate(kinds):
        for other in kinds[i:]:
            assert (one, other) in FORMULAS
    for pair in CONVEX:
        a, b = random_pair(pair, 2)
        nodes, _ = graph_of(pair, (a[0].shape[1], b[0].shape[1]))
        assert len(nodes) == 4 * SLOTS[pair]


def together(groups):
    """Several arrays of poses of the two shapes as one."""
    return [[np.concatenate(x) for x in zip(*solids, strict=True)]
            for solids in zip(*groups, strict=True)]  # fmt: skip


def nearest_of(pair, groups):
    """The nearest slots of several arrays of poses: all at once, since a graph has many nodes."""
    ends = np.cumsum([len(a[0]) for a, _ in groups])[:-1]
    slots = nearest(slots_of(pair, *together(groups)))
    return list(zip(*(np.split(x, ends) for x in slots), strict=True))


@cache
def placed(pair):
    """Random poses of the tests below, with their nearest slots: (a, b, slot) by name."""
    groups = {
        "anywhere": random_pair(pair, POSES),
        "to be moved": random_pair(pair, POSES // 3, seed=7),
        "deep": random_pair(pair, POSES // 2, 0.3, seed=1),
        "for coal": random_pair(pair, 30, seed=9),
    }
    slots = nearest_of(pair, list(groups.values()))
    return {name: (*x, slot) for (name, x), slot in zip(groups.items(), slots, strict=True)}


DEPTHS = (0.0, 0.01)


@cache
def touching(pair):
    """Poses at which a was moved towards b until the gap along the normal is −depth of its size.

    By depth: a, b, how deep, and the nearest slots.
    """
    a, b, (gap, n, *_) = placed(pair)["to be moved"]
    apart = gap > 1e-3
    sizes = np.abs(a[0]).max(axis=1) + np.abs(b[0]).max(axis=1)
    groups = []
    for depth in DEPTHS:
        x = a[2] - (gap + depth * sizes)[:, None] * n
        groups.append([[y[apart] for y in (*a[:2], x)], [y[apart] for y in b]])
    slots = nearest_of(pair, groups)
    return {
        depth: (*group, (depth * sizes)[apart], slot)
        for depth, group, slot in zip(DEPTHS, groups, slots, strict=True)
    }


@PAIR
def test_the_gap_is_the_distance(pair):
    a, b, slot = placed(pair)["anywhere"]
    apart = slot[0] > 1e-9
    assert apart.mean() > 0.5
    assert certified(pair, a, b, slot)[apart].all()


def shorter_ways(pair, a, b, slot, sizes):
    """By how much other directions m separate more than is allowed, (d + 2e-6)(1 − m·n)."""
    gap, n = slot[:2]
    worst = np.full(len(gap), -np.inf)
    for m in np.random.default_rng(2).normal(size=(100, 3)):
        m = np.broadcast_to(m / np.linalg.norm(m), n.shape)
        allowed = (np.maximum(-gap, 0) + 2e-6 * sizes) * (1 - np.einsum("mi,mi->m", m, n))
        other = -(support(pair[1], *b, m) + support(pair[0], *a, -m))
        worst = np.maximum(worst, other - gap - allowed)
    return worst


@PAIR
@pytest.mark.parametrize("depth", DEPTHS)
def test_touching_and_a_little_overlap(pair, depth):
    """No other way out, at an angle θ, is shorter by more than d (1 − cos θ)."""
    a, b, deep, slot = touching(pair)[depth]
    gap, n, x_a, x_b = slot
    assert len(gap) > POSES // 6
    assert (gap > -2 * deep - 1e-11).all()
    assert depth or np.abs(gap).max() < 1e-11
    assert np.abs(support(pair[1], *b, n) + support(pair[0], *a, -n) + gap).max() < 1e-9
    assert np.linalg.norm(x_a - x_b - gap[:, None] * n, axis=1).max() < 1e-12
    assert certified(pair, a, b, slot, 1e-9).mean() > 0.9
    assert shorter_ways(pair, a, b, slot, deep + 1.0).max() < 1e-9


@PAIR
def test_deep_overlaps(pair):
    a, b, slot = placed(pair)["deep"]
    gap, n = slot[:2]
    deep = gap < -1e-9
    assert deep.mean() > 0.5
    assert np.abs(support(pair[1], *b, n) + support(pair[0], *a, -n) + gap)[deep].max() < 1e-8
    assert (shorter_ways(pair, a, b, slot, 2.0) < 1e-9).mean() > 0.95


@pytest.mark.parametrize(
    "pair", [("Box", "Box"), ("Capsule", "Box"), ("Sphere", "Cylinder")], ids="-".join
)
def test_pairs_with_formulas_of_their_own(pair):
    """The general kernel has the gap of the formula, by another route."""
    a, b = random_pair(pair, 500)
    known = nearest(slots_of(pair, a, b))
    sizes = a[0].shape[1], b[0].shape[1]
    nodes, names = graph_of(pair, sizes, convex_pair(pair))
    found = evaluate(nodes, dict(zip(names, (*a, *b), strict=True)))
    slot = nearest([tuple(found[i : i + 4]) for i in range(0, len(found), 4)])
    apart = known[0] > 1e-6
    np.testing.assert_allclose(slot[0][apart], known[0][apart], atol=1e-11)
    np.testing.assert_allclose(slot[1][apart], known[1][apart], atol=1e-6)


def coal_shape(kind, p):
    if kind == "Sphere":
        return coal.Sphere(p[0])
    if kind == "Capsule":
        return coal.Capsule(p[0], 2 * p[1])
    if kind == "Cylinder":
        return coal.Cylinder(p[0], 2 * p[1])
    if kind == "Ellipsoid":
        return coal.Ellipsoid(*p)
    if kind == "Box":
        return coal.Box(*(2 * p))
    points = coal.StdVec_Vec3s()
    for x in p.reshape(-1, 3):
        points.append(x)
    return coal.Convex.convexHull(points, True, "Qt")


@PAIR
def test_coal_finds_the_same_distances(pair):
    a, b, (gaps, *_) = placed(pair)["for coal"]
    request = coal.DistanceRequest()
    request.gjk_tolerance = 1e-9
    worst = 0.0
    for i, gap in enumerate(gaps):
        if gap > 1e-3:
            solids = [coal_shape(kind, x[0][i]) for kind, x in zip(pair, (a, b), strict=True)]
            poses = [coal.Transform3s(x[1][i], x[2][i]) for x in (a, b)]
            arguments = [y for one in zip(solids, poses, strict=True) for y in one]
            found = coal.distance(*arguments, request, coal.DistanceResult())
            worst = max(worst, abs(found - gap))
    assert 0 < worst < 1e-5  # its own accuracy at curved shapes


# ---- several points ------------------------------------------------------------------------------


def lying(kinds, sizes, height, turn=0.3):
    """a on top of b, both upright, with a gap of 1 mm."""
    a = (
        np.atleast_2d(sizes[0]),
        so3_exp(np.array([[0.0, 0.0, turn]])),
        np.array([[0.02, 0.01, height]]),
    )
    b = np.atleast_2d(sizes[1]), np.eye(3)[None], np.zeros((1, 3))
    return slots_of(kinds, a, b)


CUBE = 0.2 * np.array([[i, j, k] for i in (-1, 1) for j in (-1, 1) for k in (-1, 1)], dtype=float)


@pytest.mark.parametrize(
    ("kinds", "sizes", "height"),
    [
        (("Cylinder", "Cylinder"), ([0.1, 0.2], [0.3, 0.1]), 0.301),
        (("Cylinder", "Box"), ([0.1, 0.2], [0.3, 0.3, 0.1]), 0.301),
        (("Cylinder", "ConvexMesh"), ([0.1, 0.1], CUBE.ravel()), 0.301),
        (("Box", "ConvexMesh"), ([0.1, 0.1, 0.1], CUBE.ravel()), 0.301),
        (("ConvexMesh", "ConvexMesh"), (0.5 * CUBE.ravel(), CUBE.ravel()), 0.301),
    ],
)  # fmt: skip
def test_a_face_on_a_face_has_four_points(kinds, sizes, height):
    """Four points with the same gap that span most of the face on top."""
    slots = lying(kinds, sizes, height)
    gaps = np.array([slot[0][0] for slot in slots])
    np.testing.assert_allclose(gaps[:4], 1e-3, atol=1e-12)
    assert gaps[4] == INACTIVE
    places = np.array([slot[2][0, :2] for slot in slots[:4]]) - [0.02, 0.01]
    assert np.abs(places.mean(axis=0)).max() < 0.04
    assert np.linalg.norm(places, axis=1).min() > 0.09
    for slot in slots:
        np.testing.assert_allclose(slot[1][0], [0, 0, 1], atol=1e-12)


def test_a_lying_capsule_and_a_lying_cylinder_touch_at_both_ends():
    down = so3_exp(np.array([[np.pi / 2, 0.0, 0.0]]))
    for pair, sizes in (
        (("Capsule", "ConvexMesh"), CUBE.ravel()),
        (("Cylinder", "Box"), [0.2] * 3),
    ):
        a = np.array([[0.05, 0.1]]), down, np.array([[0.0, 0.0, 0.251]])
        b = np.atleast_2d(sizes), np.eye(3)[None], np.zeros((1, 3))
        slots = slots_of(pair, a, b)
        there = [slot for slot in slots if slot[0][0] < INACTIVE]
        assert len(there) == 2
        np.testing.assert_allclose([slot[0][0] for slot in there], 1e-3, atol=1e-12)
        np.testing.assert_allclose(sorted(slot[2][0, 1] for slot in there), [-0.1, 0.1], atol=1e-9)


@pytest.mark.parametrize("pair", WITH_FACES, ids="-".join)
def test_points_are_between_the_shapes(pair):
    """No point has a smaller gap than the shapes; all are within both shapes along the normal."""
    a, b = random_pair(pair, POSES, seed=11)
    slots = slots_of(pair, a, b)
    least = gaps_of(slots).min(axis=0)
    n = slots[0][1]
    bottom, top = -support(pair[0], *a, -n), support(pair[1], *b, n)
    np.testing.assert_allclose(least, bottom - top, atol=1e-9)
    for gap, _, x_a, x_b in slots:
        there = gap < INACTIVE
        assert (np.einsum("mi,mi->m", n, x_a) - bottom)[there].min(initial=0) > -1e-9
        assert (top - np.einsum("mi,mi->m", n, x_b))[there].min(initial=0) > -1e-9


# ---- derivatives ---------------------------------------------------------------------------------


@PAIR
def test_derivatives(pair):
    """Adjoints of gaps, normals and points against differences, where no feature changes."""
    count, t = 24, 1e-4
    a, b = random_pair(pair, count, 0.6, seed=3)
    nodes, names = graph_of(pair, (a[0].shape[1], b[0].shape[1]))
    given = {x.data[0]: x for x in in_order(nodes) if x.operation.name == "input"}
    rng = np.random.default_rng(5)
    rates = rng.normal(size=(2, 2, count, 3))

    def at(*times):
        solids = [
            [moved(x, *r, time) for time in times] for x, r in zip((a, b), rates, strict=True)
        ]
        given = [np.concatenate(x) for solid in solids for x in zip(*solid, strict=True)]
        found = evaluate(nodes, dict(zip(names, given, strict=True)))  # all times at once
        return zip(*(np.split(x, len(times)) for x in found), strict=True)

    values = list(at(0.0, t, -t, 2 * t, -2 * t))
    now = values[0]
    change = {}
    for side, solid, (w, u) in zip("ab", (a, b), rates, strict=True):
        axes = [np.cross(w, solid[1][:, :, i]) for i in range(3)]
        change |= {f"R_{side}": np.stack(axes, axis=-1), f"x_{side}": u}
    weights = [rng.normal(size=x.shape) for x in nodes]
    slots = range(0, len(nodes), 4)
    inputs = [given[n] for n in change]
    bars = [
        adjoints(nodes[k : k + 4], [ops.constant(w) for w in weights[k : k + 4]], inputs)
        for k in slots
    ]
    found = iter(evaluate([x for of in bars for x in of if x is not None],
                          dict(zip(names, (*a, *b), strict=True))))  # fmt: skip
    checked = 0
    for k, of in zip(slots, bars, strict=True):
        terms = [change[n] * next(found) for n, x in zip(change, of, strict=True) if x is not None]
        slope = sum(x.reshape(count, -1).sum(axis=1) for x in terms)
        f = [
            sum((y[k + j] * weights[k + j]).reshape(count, -1).sum(axis=1) for j in range(4))
            for y in values
        ]
        bend = np.abs(f[3] + f[4] - 4 * (f[1] + f[2]) + 6 * f[0])
        smooth = (now[k] < INACTIVE) & (bend < 1e-8)
        rate = (8 * (f[1] - f[2]) - (f[3] - f[4])) / (12 * t)
        off = np.abs(slope - rate)[smooth] / (1 + np.abs(rate[smooth]))
        if off.size > 10:
            assert (off < 1e-5).mean() > 0.9  # others pass an edge within the difference
            assert np.median(off) < 1e-7
        checked += off.size
    assert checked > 0.5 * count


@pytest.mark.parametrize("pair", [("Ellipsoid", "Box"), ("Capsule", "ConvexMesh")], ids="-".join)
def test_tangents_are_the_adjoints_transposed(pair):
    a, b = random_pair(pair, 20, 0.6, seed=4)
    nodes, names = graph_of(pair, (a[0].shape[1], b[0].shape[1]))
    given = {x.data[0]: x for x in in_order(nodes) if x.operation.name == "input"}
    rng = np.random.default_rng(6)
    rate = {n: rng.normal(size=given[n].shape) for n in ("R_a", "x_a", "R_b", "x_b")}
    weights = [rng.normal(size=x.shape) for x in nodes]
    values = dict(zip(names, (*a, *b), strict=True))
    forward = tangents(nodes, {given[n]: ops.constant(x) for n, x in rate.items()})
    there = [(x, w) for x, w in zip(forward, weights, strict=True) if x is not None]
    pushed = evaluate([x for x, _ in there], values)
    total = sum(
        (x * w).reshape(20, -1).sum(axis=1) for x, (_, w) in zip(pushed, there, strict=True)
    )
    bars = adjoints(nodes, [ops.constant(w) for w in weights], [given[n] for n in rate])
    pulled = evaluate(bars, values)
    back = sum((x * y).reshape(20, -1).sum(axis=1)
               for x, y in zip(pulled, rate.values(), strict=True))  # fmt: skip
    np.testing.assert_allclose(total, back, rtol=1e-5, atol=1e-4)


# ---- machine code --------------------------------------------------------------------------------


def test_machine_code(machine_code):
    """All kinds in one mechanism: lanes agree with arrays, and with single configurations."""
    rng = np.random.default_rng(0)
    shapes = {
        "cylinder": pp.shapes.Cylinder(0.2, 0.5),
        "other": pp.shapes.Cylinder(0.1, 0.6),
        "egg": pp.shapes.Ellipsoid((0.1, 0.2, 0.3)),
        "mesh": pp.shapes.ConvexMesh(rng.normal(size=(24, 3)) * 0.15),
    }
    builder = pp.ModelBuilder()
    for name, shape in shapes.items():
        builder.add_body(name, joint=pp.joints.Free(), inertia=pp.SpatialInertia(mass=1.0))
        builder.add_shape(name, name, shape)
    pairs = [("cylinder", "mesh"), ("other", "mesh"), ("egg", "mesh")]
    contacts = pp.Contacts(builder.build(), pairs=pairs)
    q = np.concatenate([rng.normal(size=(40, 4, 4)), rng.uniform(-0.4, 0.4, (40, 4, 3))], axis=-1)
    q[..., :4] /= np.linalg.norm(q[..., :4], axis=-1, keepdims=True)
    q = q.reshape(40, -1)
    found = pp.contact_points(contacts, q)
    function = _DistanceFunction(contacts)
    values = evaluate(function._nodes, {"X": function._poses(q)})
    first = [pair.first for pair in contacts.pairs]
    least = [np.minimum.reduceat(gap, first, axis=1) for gap in (found.gap, values[0])]
    np.testing.assert_allclose(*least, atol=1e-10)
    np.testing.assert_allclose(found.normal, values[1], atol=1e-6)
    for i in (0, 7):
        one = pp.contact_points(contacts, q[i])
        assert all(np.array_equal(x, y[i]) for x, y in zip(one, found, strict=True))


def test_a_can_stands_on_a_table():
    """At rest it does not move; thrown, it comes to rest upright on the table."""
    builder = pp.ModelBuilder()
    inertia = pp.SpatialInertia.box((0.2, 0.2, 0.3), mass=1.0)
    builder.add_body("can", joint=pp.joints.Free(), inertia=inertia)
    builder.add_shape("can", "can", pp.shapes.Cylinder(0.1, 0.3))
    table = pp.Pose(translation=(0, 0, -0.1))
    builder.add_shape("table", "world", pp.shapes.Box((1, 1, 0.2)), table)
    model = builder.build()
    system = pp.System(model, contacts=pp.Contacts(model))
    sim = pp.Simulator(system, dt=5e-3, integrator="time_stepping")
    q = np.array([[1, 0, 0, 0, 0, 0, 0.15], [1, 0, 0, 0, 0, 0, 0.2]])
    start = sim.initial_state(q, [[0] * 6, [0.3, 0.2, 0.5, 0.4, 0, 0]])
    run = sim.rollout(start, steps=250, record=("q", "v"))
    assert np.abs(run.q[0] - q[0]).max() < 1e-13
    assert np.abs(run.v[1, -1]).max() < 1e-9 and run.q[1, -1, 6] == pytest.approx(0.15, abs=1e-9)
    assert run.certificate.is_clean
