"""contact_points: machine code, arrays and one configuration after the other agree."""

import numpy as np
import pytest

import phipsi as pp
from phipsi.contact.contact_points import _DistanceFunction
from phipsi.contact.geometry.pair_formulas import CONVEX, FORMULAS, slot_geometry
from phipsi.contact.geometry.placed_shapes import INACTIVE
from phipsi.core.arrays import law_operations as ops
from phipsi.core.arrays.law_derivatives import adjoints
from phipsi.core.arrays.law_values import evaluate
from phipsi.core.arrays.trace import Tracer, as_node
from phipsi.core.compiler import compile
from phipsi.errors import InputError
from phipsi.native.custom_kernel import graph_after_program
from phipsi.operators import frame_pose

S = pp.shapes
CUBE = np.array(np.meshgrid(*[[-0.1, 0.2]] * 3)).reshape(3, -1).T
SHAPES = {
    "Sphere": S.Sphere(0.1), "Capsule": S.Capsule(0.05, 0.3), "Cylinder": S.Cylinder(0.1, 0.2),
    "Ellipsoid": S.Ellipsoid((0.1, 0.2, 0.3)), "Box": S.Box((0.2, 0.3, 0.4)),
    "ConvexMesh": S.ConvexMesh(CUBE),
}  # fmt: skip
GROUND = pp.Pose.from_rpy((0.1, 0.2, 0))


@pytest.fixture(scope="module")
def contacts():
    """Two bodies of every kind, with placements, in all pairs that have a formula."""
    rng = np.random.default_rng(0)
    builder = pp.ModelBuilder()
    for kind, shape in SHAPES.items():
        for i in range(2):
            name = f"{kind}{i}"
            builder.add_body(name, joint=pp.joints.Free(), inertia=pp.SpatialInertia(mass=1.0))
            at = pp.Pose.from_rpy(rng.normal(size=3), rng.normal(size=3) * 0.1) if i else pp.Pose()
            builder.add_shape(name, name, shape, at)
    rough = S.HeightField(0.1 * rng.normal(size=(7, 9)), (0.5, 0.4))
    builder.add_shape("HeightField1", "world", rough, pp.Pose.from_rpy((0.2, 0.1, 0.3)))
    pairs = [(f"{a}0", "ground" if b == "Plane" else f"{b}1") for a, b in FORMULAS]
    return pp.Contacts(builder.build(), pairs=pairs, ground=GROUND)


@pytest.mark.parametrize("kind", SHAPES)
def test_machine_code_and_arrays_agree(kind, contacts, monkeypatch):
    """Of the pairs that a kind is first in, in one mechanism: all of them."""
    pairs = [(p.a.name, p.b.name) for p in contacts.pairs if p.a.shape.kind == kind]
    contacts = pp.Contacts(contacts.model, pairs=pairs, ground=GROUND)
    q = contacts.model.random_configuration(1, (3, 7))
    X = pp.poses(contacts.model, q)[..., list(contacts.bodies), :, :]
    monkeypatch.setenv("PHIPSI_BACKEND", "native")
    fast = _DistanceFunction(contacts)
    assert fast._fast is not None
    found = fast(q, {})
    plain = pp.contact_points(contacts, q)
    kinds = [(pair.a.shape.kind, pair.b.shape.kind) for pair in contacts.pairs]
    closed = np.array([kinds[i] not in CONVEX for i in contacts.slot_pair])
    for x, y in zip(found[:4], plain[:4], strict=True):
        assert x.shape == y.shape and x.shape[:2] == (3, 7)
        np.testing.assert_allclose(x[:, :, closed], y[:, :, closed], atol=1e-14)
    one = slot_geometry(contacts, X[1, 2])
    for x, y in zip(found[:4], one[:4], strict=True):
        np.testing.assert_allclose(x[1, 2][closed], y[closed], atol=1e-14)
    # of searches, points at the rim of a face may come and go with rounding; the nearest do not
    first = [pair.first for pair in contacts.pairs]
    for other in (plain.gap[1, 2], one.gap):
        least = [np.minimum.reduceat(x, first) for x in (found.gap[1, 2], other)]
        np.testing.assert_allclose(*least, atol=1e-12)
    np.testing.assert_allclose(found.normal, plain.normal, atol=1e-7)
    # the same bits in any batch
    for x, y in zip(found[:4], fast(q[1, 2], {}), strict=False):
        assert (x[1, 2] == y).all()


@pytest.fixture(scope="module")
def many():
    """Several pairs of the same kinds, which one loop computes."""
    rng = np.random.default_rng(2)
    builder = pp.ModelBuilder()
    for i in range(3):
        builder.add_body(f"b{i}", joint=pp.joints.Free(), inertia=pp.SpatialInertia(mass=1.0))
        for kind, sizes in (("Capsule", (0.1, 0.3)), ("Sphere", (0.2,))):
            at = pp.Pose.from_rpy(rng.normal(size=3), 0.3 * rng.normal(size=3))
            shape = getattr(S, kind)(*(x * rng.uniform(0.5, 1.5) for x in sizes))
            builder.add_shape(f"{kind}{i}", f"b{i}", shape, at)
    builder.add_shape("pillar", "world", S.Capsule(0.1, 1.0))
    return pp.Contacts(builder.build(), ground=True)


def test_loops_over_pairs(many, monkeypatch):
    """The same numbers as one pair after the other, in machine code and on arrays."""
    groups = [pair.group for pair in many.pairs]
    assert len(set(groups)) < len(groups) / 2
    assert groups == sorted(groups, key=groups.index)
    q = many.model.random_configuration(1, 5)
    X = pp.poses(many.model, q)
    slow = [slot_geometry(many, x) for x in X]
    on_arrays = pp.contact_points(many, q)
    monkeypatch.setenv("PHIPSI_BACKEND", "native")
    compiled = _DistanceFunction(many)
    fast = compiled(q, {})
    for i in range(4):
        plain = np.stack([x[i] for x in slow])
        np.testing.assert_allclose(on_arrays[i], plain, atol=1e-14)
        np.testing.assert_allclose(fast[i], plain, atol=1e-14)
        assert (compiled(q[3], {})[i] == fast[i][3]).all()


def test_derivatives_of_loops(many):
    """The adjoint of every result along random weights, against differences."""
    X = ops.input("X", (len(many.bodies), 4, 4))
    nodes = [as_node(x) for x in slot_geometry(many, Tracer(X))[:4]]
    rng = np.random.default_rng(4)
    at = pp.poses(many.model, many.model.random_configuration(5))
    active = evaluate(nodes, {"X": at})[0] < INACTIVE
    assert active.sum() > 10
    weights = [active.reshape(-1, *[1] * (len(x.shape) - 1)) * rng.normal(size=x.shape)
               for x in nodes]  # fmt: skip
    (bar,) = adjoints(nodes, [ops.constant(w) for w in weights], [X])
    (slope,) = evaluate([bar], {"X": at})
    direction = rng.normal(size=at.shape)
    direction[:, 3] = 0.0

    def cost(t):
        found = evaluate(nodes, {"X": at + t * direction})
        return sum((w * x).sum() for w, x in zip(weights, found, strict=True))

    step = 1e-6
    by_difference = (cost(step) - cost(-step)) / (2 * step)
    assert (slope * direction).sum() == pytest.approx(by_difference, rel=1e-8)
    (other,) = adjoints(nodes[:1], [ops.constant(weights[0])], [X])
    assert abs(evaluate([other], {"X": at})[0] - slope).max() > 0.1


def test_options_of_a_call(many):
    q = many.model.random_configuration(1, 3)
    q[1, 0] = np.nan
    with pytest.raises(InputError, match="q"):
        pp.contact_points(many, q)
    masked, status = pp.contact_points(many, q, on_error="nan")
    assert status.tolist()[1] != 0 and status[0] == status[2] == 0
    assert np.isnan(masked.gap[1]).all() and np.isfinite(masked.gap[[0, 2]]).all()
    fine = q[[0, 2]]
    into = pp.contact_points(many, fine)
    again = pp.contact_points(many, fine, out=tuple(np.empty_like(x) for x in into[:4]))
    assert all((x == y).all() for x, y in zip(into[:4], again, strict=False))
    with pytest.raises(InputError, match="nq|numbers|shape"):
        pp.contact_points(many, q[:, :-1])
    with pytest.raises(
        InputError, match=r"pp.contact_points\(pp.Contacts\(model, ground=True\), q\)"
    ):
        pp.contact_points(many.model, q)


def test_no_pairs():
    with pytest.warns(pp.errors.PhipsiWarning, match="there are 0 pairs"):
        nothing = pp.Contacts(pp.examples.planar_arm(2), ground=True)
    found = pp.contact_points(nothing, np.zeros((5, 2)))
    assert found.gap.shape == (5, 0) and found.normal.shape == (5, 0, 3)


def test_mujoco_finds_the_same_gaps(contacts):
    """Distances of primitives; MuJoCo's tolerance is that of its own iterations, 1e-6."""
    mujoco = pytest.importorskip("mujoco")
    sizes = {"Sphere": "0.1", "Capsule": "0.05 0.15", "Cylinder": "0.1 0.1",
             "Ellipsoid": "0.1 0.2 0.3", "Box": "0.1 0.15 0.2"}  # fmt: skip
    rng = np.random.default_rng(3)
    for a, b in [pair for pair in FORMULAS if pair[1] in sizes]:
        geoms = "".join(
            f'<body><freejoint/><geom type="{k.lower()}" size="{sizes[k]}" mass="1"/></body>'
            for k in (a, b)
        )
        peer = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{geoms}</worldbody></mujoco>")
        data = mujoco.MjData(peer)
        builder = pp.ModelBuilder()
        for name, kind in (("a", a), ("b", b)):
            builder.add_body(name, joint=pp.joints.Free(), inertia=pp.SpatialInertia(mass=1.0))
            builder.add_shape(name, name, SHAPES[kind])
        model = builder.build()
        ours = pp.Contacts(model)
        q = model.random_configuration(rng, 30)
        X = pp.poses(model, q)
        gaps = pp.contact_points(ours, q).gap.min(axis=-1)
        for i in range(30):
            for j in range(2):
                data.qpos[7 * j : 7 * j + 3] = X[i, j, :3, 3]
                mujoco.mju_mat2Quat(data.qpos[7 * j + 3 : 7 * j + 7], X[i, j, :3, :3].ravel())
            mujoco.mj_kinematics(peer, data)
            theirs = mujoco.mj_geomDistance(peer, data, 0, 1, 10.0, np.zeros(6))
            if gaps[i] > 0:
                assert gaps[i] == pytest.approx(theirs, abs=1e-5), (a, b)


def test_pairs_that_are_far_apart_are_left_out(machine_code):
    """Near pairs have the same bits; others no contact, whatever their neighbours in a batch."""
    builder = pp.ModelBuilder()
    for i in range(4):
        builder.add_body(f"b{i}", joint=pp.joints.Free(), inertia=pp.SpatialInertia(mass=1.0))
        builder.add_shape(f"b{i}", f"b{i}", S.Box((0.1, 0.2, 0.3)))
    contacts = pp.Contacts(builder.build())
    q = contacts.model.random_configuration(1, 16)
    q.reshape(16, 4, 7)[..., 4:] *= np.linspace(0.1, 1.0, 16)[:, None, None]
    everything = pp.contact_points(contacts, q)
    poses = compile(frame_pose, contacts.model, points=contacts.model.body_names, backend="native")
    X = ops.input("X", (4, 4, 4))
    nodes = [as_node(x) for x in slot_geometry(contacts, Tracer(X), 0.2)[:4]]
    results = dict(zip(("gap", "normal", "point_a", "point_b"), nodes, strict=True))
    fewer = graph_after_program(poses.native, "X", results)
    found = fewer.ufunc(q)[:4]
    centres = pp.poses(contacts.model, q)[:, :, :3, 3]
    ends = np.array([(p.body_a, p.body_b) for p in contacts.pairs])[contacts.slot_pair]
    apart = np.linalg.norm(centres[:, ends[:, 0]] - centres[:, ends[:, 1]], axis=-1)
    far = apart > 2 * np.linalg.norm([0.05, 0.1, 0.15]) + 0.2
    assert 0.1 < far.mean() < 0.9
    assert (found[0][far] == INACTIVE).all() and (everything.gap[far] > 0.2).all()
    for x, y in zip(found, everything, strict=True):
        assert (x[~far] == y[~far]).all() and np.isfinite(x).all()
    for i in (0, 9, 15):
        assert all((x[i] == y).all() for x, y in zip(found, fewer.ufunc(q[i])[:4], strict=True))
    (bar,) = adjoints([nodes[0]], [ops.constant(np.ones(nodes[0].shape))], [X])
    weights = evaluate([bar], {"X": pp.poses(contacts.model, q)})[0]
    assert (weights[far.all(axis=1)] == 0).all() and far.all(axis=1).any()
