"""Poses, inertias, trees and models: numbers compared with a second way of getting them."""

import copy
import json
import pickle
import re
import sys

import mpmath
import numpy as np
import pytest
from amounts import ALL
from hypothesis import given, settings, strategies as st
from numpy.testing import assert_allclose
from random_models import (
    branching,
    chain,
    models,
    random_inertia,
    random_pose,
    random_rotation,
    random_tree,
    star,
)
from scipy.spatial.transform import Rotation

from phipsi.core import spatial
from phipsi.core.model.builder import ModelBuilder
from phipsi.core.model.inertia import SpatialInertia
from phipsi.core.model.joints import Composite, Fixed, Free, Prismatic, Revolute, Spherical
from phipsi.core.model.model import Model
from phipsi.core.model.pose import Pose
from phipsi.core.model.scalar_linalg import as_array
from phipsi.core.model.tree import Tree, depth_first
from phipsi.core.spatial.joint_groups import SE2, SE3, SO3, flat
from phipsi.core.spatial.number_kinds import ARRAYS
from phipsi.errors import InputError, ModelError, PhipsiWarning


def world_poses(model, q):
    """Pose of every body in the world, by the definition."""
    poses = []
    for i, joint in enumerate(model.joints):
        R, p = joint.transform(joint.params, q[model.q_slices[i]].tolist(), ARRAYS)
        X = model.placements[i] @ Pose(as_array(R), as_array([p])[0])
        poses.append(X if model.parent[i] < 0 else poses[model.parent[i]] @ X)
    return poses


def frame_pose(model, q, name):
    host, X = model.resolve_point(name)
    return X if host < 0 else world_poses(model, q)[host] @ X


def total_inertia(model, q):
    """6×6 inertia of everything that moves, about the world origin in world axes."""
    total = SpatialInertia()
    for X, inertia in zip(world_poses(model, q), model.inertias, strict=True):
        total = total + inertia.transformed(X)
    return total.matrix


# ------------------------------------------------------------------ spatial


def test_spatial_cross_products_and_phi():
    rng = np.random.default_rng(0)
    V, X, f = rng.normal(size=(3, 5, 6))
    w, v = V[:, :3], V[:, 3:]
    moved = np.concatenate(
        [np.cross(w, X[:, :3]), np.cross(v, X[:, :3]) + np.cross(w, X[:, 3:])], axis=1
    )
    assert_allclose((spatial.crm(V) @ X[..., None])[..., 0], moved, atol=1e-14)
    power = np.sum(moved * f, axis=1) + np.sum(X * (spatial.crf(V) @ f[..., None])[..., 0], axis=1)
    assert_allclose(power, 0, atol=1e-13)
    R, l_pk = random_rotation(rng), rng.normal(size=3)
    N, F = f[0, :3], f[0, 3:]
    assert_allclose(
        spatial.phi(R, l_pk) @ f[0], [*(R @ N + np.cross(l_pk, R @ F)), *(R @ F)], atol=1e-14
    )


def test_spatial_keeps_complex_and_object_arrays():
    assert spatial.skew(np.array([1j, 2, 3])).dtype == complex
    exact = spatial.quat_to_matrix(np.array([mpmath.mpf(1), 2, 3, 4], dtype=object))
    assert_allclose(exact.astype(float), spatial.quat_to_matrix([1, 2, 3, 4]), atol=1e-15)


@pytest.mark.parametrize("angle", [0, 1e-170, 1e-9, 1e-4, 0.49, 0.51, 2, 3.14, np.pi - 1e-9, np.pi])
def test_rotation_exponential_and_logarithm(angle):
    axis = np.array([0.36, 0.48, -0.8])
    w = angle * axis
    q, R = spatial.quat_exp(w), spatial.so3_exp(w)
    assert_allclose(R, Rotation.from_rotvec(w).as_matrix(), atol=1e-15)
    assert_allclose(spatial.quat_to_matrix(q), R, atol=1e-15)
    assert_allclose(spatial.quat_to_matrix(spatial.matrix_to_quat(R)), R, atol=1e-15)
    for back in (spatial.quat_log(q), spatial.quat_log(-q), spatial.so3_log(R)):
        sign = np.sign(back @ axis) if angle == np.pi else 1  # both axes are right at half a turn
        assert_allclose(sign * back, w, rtol=4e-15, atol=1e-15)
    assert_allclose(spatial.quat_log(q), w, rtol=1e-14, atol=0 if angle < 3 else 1e-15)


def test_jacobian_of_the_exponential_to_fifty_digits():
    def exact(w):
        with mpmath.workdps(60):
            W = mpmath.matrix(spatial.skew(w).tolist())
            term, total = mpmath.eye(3), mpmath.eye(3)
            for k in range(1, 90):
                term = term * W / (k + 1)
                total += term
            inverse = total**-1
        return (np.array(m.tolist(), dtype=float) for m in (total, inverse))

    for angle in (0, 1e-8, 0.01, 0.3, 0.4999, 0.5001, 1.5, 3.1):
        w = angle * np.array([0.6, 0.0, 0.8])
        jacobian, inverse = exact(w)
        assert_allclose(spatial.left_jacobian(w), jacobian, atol=5e-16)
        assert_allclose(spatial.left_jacobian_inverse(w), inverse, atol=2e-15)


def test_rigid_motion_exponentials_invert():
    rng = np.random.default_rng(1)
    for size in (1e-9, 0.1, 1.0, 1.7):
        for group, atol in ((SE3, 4e-15), (SE2, 2e-15), (SO3, 4e-15), (flat(4), 0)):
            xi = rng.uniform(-1, 1, (20, group.nv)) * size
            start = np.array(group.neutral)
            end = group.integrate(start, xi)
            assert_allclose(group.difference(start, end), xi, atol=atol)
            for k in range(3):  # one by one, in floats
                assert_allclose(group.integrate(start, xi[k]), end[k], atol=1e-15)
            assert_allclose(group.integrate(end, -xi), np.tile(start, (20, 1)), atol=4e-15)


# ------------------------------------------------------------------ Pose and SpatialInertia


def test_pose_arithmetic():
    rng = np.random.default_rng(2)
    A, B = random_pose(rng), random_pose(rng)
    points = rng.normal(size=(4, 5, 3))
    assert_allclose((A @ B).matrix, A.matrix @ B.matrix, atol=1e-15)
    assert_allclose((A @ B).apply(points), A.apply(B.apply(points)), atol=1e-14)
    assert_allclose((A.inv @ A).matrix, np.eye(4), atol=1e-15)
    assert_allclose(Pose(A.quaternion, A.translation).matrix, A.matrix, atol=1e-15)
    assert A @ Pose() is A and Pose() @ A is A
    for twin in (pickle.loads(pickle.dumps(A)), copy.deepcopy(A), eval(repr(A))):
        assert twin == A and hash(twin) == hash(A)
    assert A != B and not A.rotation.flags.writeable and not A.translation.flags.writeable


def test_poses_from_angles_and_matrices():
    import pinocchio as pin

    rng = np.random.default_rng(2)
    for _ in range(20):
        rpy, axis, p = rng.uniform(-1.5, 1.5, 3), rng.standard_normal(3), rng.standard_normal(3)
        X = Pose.from_rpy(rpy, p)
        assert_allclose(X.rotation, pin.rpy.rpyToMatrix(rpy), atol=1e-14)
        assert_allclose(X.rpy, rpy, atol=1e-13)
        assert (X.translation == p).all()
        turned = Pose.from_axis_angle(axis, rpy[0], p)
        unit = axis / np.linalg.norm(axis)
        assert_allclose(turned.rotation, pin.AngleAxis(rpy[0], unit).matrix(), atol=1e-14)
        assert Pose.from_matrix(X.matrix) == X
    assert Pose.from_rpy((0, 0, 0)).is_identity
    upright = Pose.from_rpy((0.4, np.pi / 2, 0.1))  # roll and yaw turn about the same axis
    assert_allclose(Pose.from_rpy(upright.rpy).rotation, upright.rotation, atol=1e-12)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Pose.from_rpy((0, 1)), "roll, pitch, yaw"),
        (lambda: Pose.from_rpy((0, np.nan, 1)), "not finite"),
        (lambda: Pose.from_axis_angle((0, 0, 0), 1.0), "not a rotation"),
        (lambda: Pose.from_axis_angle((0, 0, 1), np.inf), "not a rotation"),
        (lambda: Pose.from_matrix(np.eye(3)), "(4, 4)"),
        (lambda: Pose.from_matrix(np.eye(4) * 1j), "real numbers"),
        (lambda: Pose.from_matrix(np.ones((4, 4))), "last row"),
        (lambda: Pose.from_matrix(np.diag([2.0, 1, 1, 1])), "not a rotation"),
        (lambda: Pose((0.1, 0.2, 0.3)), "Pose.from_rpy"),
    ],
)
def test_what_is_no_pose(make, complaint):
    with pytest.raises(ModelError, match=re.escape(complaint)):
        make()


def test_pose_from_rounded_numbers_becomes_a_rotation_and_stays():
    R = np.round(random_rotation(np.random.default_rng(3)), 9)
    pose = Pose(R)
    assert_allclose(pose.rotation.T @ pose.rotation, np.eye(3), atol=1e-15)
    assert_allclose(pose.rotation, R, atol=2e-9)
    assert Pose(pose.rotation) == pose


def test_inertia_matrix_is_the_shifted_one():
    rng = np.random.default_rng(4)
    J = random_inertia(rng)
    shift = spatial.phi(np.eye(3), J.com_B)
    at_com = np.zeros((6, 6))
    at_com[:3, :3], at_com[3:, 3:] = J.moment_about_com_B, J.mass * np.eye(3)
    assert_allclose(J.matrix, shift @ at_com @ shift.T, atol=1e-15)
    about_origin = SpatialInertia(J.mass, J.com_B, moment_about_origin_B=J.moment_about_origin_B)
    assert_allclose(about_origin.matrix, J.matrix, atol=1e-15)
    assert_allclose(about_origin.moment_about_com_B, J.moment_about_com_B, atol=1e-15)
    X = random_pose(rng)
    phi = spatial.phi(X.rotation, X.translation)
    assert_allclose(J.transformed(X).matrix, phi @ J.matrix @ phi.T, atol=1e-14)
    other = random_inertia(rng)
    assert_allclose((J + other).matrix, J.matrix + other.matrix, atol=1e-14)
    assert_allclose(about_origin.scaled(1.2).matrix, 1.2 * J.matrix, atol=1e-15)
    assert_allclose(SpatialInertia.from_parameters(J.parameters).matrix, J.matrix, atol=1e-15)
    for twin in (pickle.loads(pickle.dumps(about_origin)), eval(repr(about_origin))):
        assert twin == about_origin and hash(twin) == hash(about_origin)


def test_inertia_accepts_short_forms_of_the_moment():
    assert_allclose(SpatialInertia(1, moment_about_com_B=2).matrix[:3, :3], 2 * np.eye(3))
    assert_allclose(SpatialInertia(1, moment_about_com_B=(1, 2, 3)).parameters[4:7], (1, 2, 3))
    massless = SpatialInertia(com_B=(1, 2, 3))
    assert massless.is_zero and massless.com_B.tolist() == [1, 2, 3] and not massless.matrix.any()
    J = random_inertia(np.random.default_rng(5))
    assert massless + J is J and J + massless is J


def test_inertia_parameters_order():
    J = SpatialInertia(2, (1, 0, 0), moment_about_origin_B=[[1, 4, 5], [4, 2, 6], [5, 6, 3]])
    assert_allclose(J.parameters, [2, 2, 0, 0, 1, 2, 3, 4, 5, 6])


# ------------------------------------------------------------------ Tree


@given(st.lists(st.integers(0, 10**6), max_size=30))
def test_tree_against_its_definition(draws):
    raw = [draw % (i + 1) - 1 for i, draw in enumerate(draws)]
    order = depth_first(raw)
    new = {old: i for i, old in enumerate(order)}
    tree = Tree([new.get(raw[old], -1) for old in order])
    n = len(tree)
    assert all(p < i for i, p in enumerate(tree.parent))
    assert list(tree.tip_to_base()) == list(tree.base_to_tip())[::-1] == list(range(n))[::-1]
    ancestors = [set(tree.path(i)) for i in range(n)]
    for i in range(n):
        assert tree.depth[i] == len(ancestors[i]) - 1
        assert list(tree.subtree(i)) == [j for j in range(n) if i in ancestors[j]]
        assert tree.children[i] == tuple(j for j in range(n) if tree.parent[j] == i)
        assert tree.paper_number(i) == n - i
        for j in range(n):
            assert tree.is_ancestor(i, j) == (i in ancestors[j])
            common = max(ancestors[i] & ancestors[j], default=-1)
            assert tree.nearest_common_ancestor(i, j) == common
    assert tree.roots == tuple(i for i in range(n) if tree.parent[i] == -1)
    siblings = [[old for old in order if raw[old] == p] for p in range(-1, n)]
    assert all(group == sorted(group) for group in siblings)
    assert pickle.loads(pickle.dumps(tree)) == tree


def test_tree_refuses_other_orders():
    with pytest.raises(ModelError, match="body number 3 has parent 1.*depth first"):
        Tree([-1, 0, 0, 1])
    with pytest.raises(ModelError, match="no body number 2"):
        Tree([-1, 0]).path(2)


# ------------------------------------------------------------------ building and welding


def test_order_is_depth_first_and_siblings_keep_theirs():
    builder = ModelBuilder()
    for name, parent in [("d", "b"), ("b", "a"), ("c", "a"), ("a", "world"), ("e", "b")]:
        builder.add_body(name, parent=parent)
    model = builder.build()
    assert model.body_names == ("a", "b", "d", "e", "c")
    assert model.parent == (-1, 0, 1, 1, 0)


def test_welding_equals_the_sum_by_hand():
    rng = np.random.default_rng(6)
    J = [random_inertia(rng) for _ in range(4)]
    X = [random_pose(rng) for _ in range(5)]
    builder = ModelBuilder()
    builder.add_body("arm", inertia=J[0], placement=X[0])
    builder.add_body("flange", parent="arm", joint=Fixed(), inertia=J[1], placement=X[1])
    builder.add_body("tool", parent="flange", joint=Composite(), inertia=J[2], placement=X[2])
    builder.add_body("finger", parent="tool", joint=Prismatic(), inertia=J[3], placement=X[3])
    builder.add_frame("tip", body="tool", placement=X[4])
    model = builder.build()
    assert model.body_names == ("arm", "finger") and model.parent == (-1, 0)
    by_hand = J[0].matrix
    for pose, inertia in ((X[1], J[1]), (X[1] @ X[2], J[2])):
        phi = spatial.phi(pose.rotation, pose.translation)
        by_hand = by_hand + phi @ inertia.matrix @ phi.T
    assert_allclose(model.inertia_matrices[0], by_hand, atol=1e-14)
    assert_allclose(model.placements[1].matrix, (X[1] @ X[2] @ X[3]).matrix, atol=1e-15)
    assert set(model.frames) == {"flange", "tool", "tip"}
    host, pose = model.frames["tip"]
    assert host == 0
    assert_allclose(pose.matrix, (X[1] @ X[2] @ X[4]).matrix, atol=1e-15)


def test_everything_welded_to_the_world():
    builder = ModelBuilder()
    builder.add_body("floor", joint=Fixed(), placement=Pose(translation=(0, 0, 1)))
    builder.add_frame("corner", body="floor", placement=Pose(translation=(1, 0, 0)))
    model = builder.build()
    assert (model.n_bodies, model.nq, model.nv, len(model.tree)) == (0, 0, 0, 0)
    assert model.inertia_matrices.shape == (0, 6, 6)
    assert model.placement_rotations.shape == (0, 3, 3) and model.armature.shape == (0,)
    assert model.neutral().shape == (0,) and not model.has_armature
    assert model.integrate(np.zeros((4, 0)), np.zeros(0)).shape == (4, 0)
    assert model.random_configuration(0, (3,)).shape == (3, 0)
    assert model.resolve_point("corner") == (-1, Pose(translation=(1, 0, 1)))
    assert Model.from_dict(model.to_dict()) == model
    assert ModelBuilder().build().n_bodies == 0


def test_thousands_of_bodies_without_recursion():
    n = 10_000 if ALL else 3_000
    model = chain(n, joints=[Revolute(), Prismatic(), Spherical()])
    assert model.n_bodies == n > sys.getrecursionlimit()
    assert model.tree.nearest_common_ancestor(n - 1, n // 2) == n // 2
    assert len(model.tree.path(n - 1)) == n
    q, v = model.random_configuration(0), np.ones(model.nv)
    assert_allclose(model.difference(q, model.integrate(q, v)), v, atol=1e-12)
    assert model.qdot(q, v).shape == (model.nq,)
    assert pickle.loads(pickle.dumps(model)) == model
    locked = model.with_locked(model.joint_names[1:], q)
    assert locked.n_bodies == 1 and len(locked.frames) == n - 1
    assert_allclose(locked.inertias[0].mass, sum(inertia.mass for inertia in model.inertias))


# ------------------------------------------------------------------ configurations


@given(models(max_bodies=5, limits=True))
@settings(max_examples=60)
def test_configurations_of_random_models(model):
    rng = np.random.default_rng(0)
    q = model.random_configuration(rng, (4,))
    assert (q >= model.lower).all() and (q <= model.upper).all()
    dv = rng.uniform(-1, 1, (4, model.nv))
    assert_allclose(model.difference(q, model.integrate(q, dv)), dv, atol=1e-12)
    h = 1e-3
    slope = (model.integrate(q, h * dv) - model.integrate(q, -h * dv)) / (2 * h)
    assert_allclose(slope, model.qdot(q, dv), atol=1e-5)
    for i, joint in enumerate(model.joints):
        a, b = model.q_slices[i], model.v_slices[i]
        assert_allclose(model.neutral()[a], joint.neutral())
        moved = joint.integrate(q[..., a], dv[..., b])
        assert_allclose(model.integrate(q, dv)[..., a], moved, atol=1e-15)
    assert_allclose(model.integrate(q[0], dv)[2], model.integrate(q[0], dv[2]))


def test_qdot_takes_complex_numbers():
    model = chain(3, joints=["planar", "spherical", "revolute"])
    q, v = model.random_configuration(0), np.ones(model.nv)
    assert_allclose(model.qdot(q + 0j, v).real, model.qdot(q, v))
    assert model.qdot(q + 0j, v).dtype == complex


def test_random_configuration_with_one_sided_limits():
    builder = ModelBuilder()
    builder.add_body("a", limits=(2.0, np.inf))
    builder.add_body("b", limits=(-np.inf, -5.0))
    builder.add_body("c", limits=(10.0, 10.5))
    q = builder.build().random_configuration(0, (500,))
    assert q[:, 0].min() >= 2 and q[:, 1].max() <= -5 and np.isfinite(q).all()
    assert q[:, 2].min() >= 10 and q[:, 2].max() <= 10.5 and np.ptp(q[:, 2]) > 0.4


def test_wrong_sizes_are_explained():
    model = chain(2, joints=["revolute", "spherical"])
    with pytest.raises(InputError, match=r"q has shape \(4,\).*nq = 5 \('j0' 1, 'j1' 4\)"):
        model.integrate(np.zeros(4), np.zeros(4))
    with pytest.raises(InputError, match="v has shape .* nv = 4"):
        model.qdot(model.neutral(), 1.0)


# ------------------------------------------------------------------ changed copies


def test_with_locked_keeps_poses_and_inertia():
    for seed in range(5):
        model = random_tree(seed, 7, frames=True, armature=True, n_roots=2)
        q = model.random_configuration(seed)
        names = ["j1", "j4", "j6"]
        reduced = model.with_locked(names, q)
        kept = [name for name in model.joint_names if name not in names]
        assert list(reduced.joint_names) == kept
        q_kept = np.concatenate([q[model.q_slice(name)] for name in kept])
        for name in [*model.body_names, *model.frames]:
            expected = frame_pose(model, q, name).matrix
            assert_allclose(frame_pose(reduced, q_kept, name).matrix, expected, atol=1e-14)
        by_name = {name: q[model.q_slice(name)] for name in names}
        assert model.with_locked(names, by_name) == reduced
        if all(model.parent[model.joint_index(name)] >= 0 for name in names):
            assert_allclose(total_inertia(reduced, q_kept), total_inertia(model, q), atol=1e-12)


def test_with_locked_takes_scalars_and_names_mistakes():
    model = chain(2, joints=["revolute", "spherical"])
    assert model.with_locked("j0", {"j0": 0.5}) == model.with_locked(["j0"], {"j0": [0.5]})
    with pytest.raises(InputError, match="'j1'.*4 coordinates \\(qw, qx, qy, qz\\)"):
        model.with_locked("j1", {"j1": 0.5})
    with pytest.raises(InputError, match="'j0' is to be locked.*no value"):
        model.with_locked("j0", {})
    with pytest.raises(InputError, match="'j0'.*not finite"):
        model.with_locked("j0", {"j0": np.nan})
    with pytest.raises(ModelError, match="no joint 'j3'"):
        model.with_locked("j3", model.neutral())


def test_attach_moves_the_other_mechanism_along():
    robot = branching(4, 1, frames=True)
    hand = star(3, 2, frames=True)
    X = random_pose(np.random.default_rng(3))
    q_robot, q_hand = robot.random_configuration(4), hand.random_configuration(5)
    both = robot.attach(hand, at="f3", placement=X, prefix="hand_")
    assert both.n_bodies == 7 and both.nv == robot.nv + hand.nv
    q = np.empty(both.nq)
    for name in robot.joint_names:
        q[both.q_slice(name)] = q_robot[robot.q_slice(name)]
    for name in hand.joint_names:
        q[both.q_slice("hand_" + name)] = q_hand[hand.q_slice(name)]
    mount = frame_pose(robot, q_robot, "f3") @ X
    for name in [*hand.body_names, *hand.frames]:
        expected = (mount @ frame_pose(hand, q_hand, name)).matrix
        assert_allclose(frame_pose(both, q, "hand_" + name).matrix, expected, atol=1e-14)
    for name in robot.body_names:
        expected = frame_pose(robot, q_robot, name).matrix
        assert_allclose(frame_pose(both, q, name).matrix, expected, atol=1e-14)
    assert_allclose(both.gravity, robot.gravity)


def test_attach_to_the_world_and_to_a_point():
    model = chain(2, joints=["revolute"])
    pair = model.attach(model, prefix="second_")
    assert pair.parent == (-1, 0, -1, 2)
    offset = model.attach(model, at=("b1", (0, 0, 1)), prefix="second_")
    expected = Pose(translation=(0, 0, 1)) @ model.placements[0]
    assert offset.parent == (-1, 0, 1, 2)
    assert_allclose(offset.placements[2].matrix, expected.matrix)
    with pytest.raises(ModelError, match="named 'b0'.*\n.*prefix="):
        model.attach(model)


def test_with_body_changes_one_thing():
    model = chain(4, joints=["revolute", "prismatic"], armature=True, limits=True)
    heavier = model.with_body("b2", inertia=model.body("b2").inertia.scaled(1.2))
    assert_allclose(heavier.inertia_matrices[2], 1.2 * model.inertia_matrices[2])
    assert heavier.inertias[1] == model.inertias[1] and heavier != model
    assert heavier.with_body("b2", inertia=model.body("b2").inertia) == model
    assert model.with_body("b1", armature=0.5).armature[1] == 0.5
    assert model.with_body("b1", damping=0.5).joint("j1").damping == (0.5,)
    assert model.with_body("b1", placement=Pose()).placements[1] == Pose()
    assert model.with_body("b1", limits=None).upper[1] == np.inf
    assert model.with_body("b1", limits=(-2, 3)).joint("j1").limits == ((-2.0,), (3.0,))
    ball = model.with_body("b1", joint=Spherical(), armature=0.1, limits=None)
    assert ball.nv == 6 and ball.joint("j1").armature == (0.1, 0.1, 0.1)
    welded = model.with_body("b1", joint=Fixed())
    assert welded.n_bodies == 3 and welded.frames["b1"] == (0, model.placements[1])
    with pytest.raises(ModelError, match="'j1' changes from .* armature .* no longer applies"):
        model.with_body("b1", joint=Spherical(), limits=None)
    with pytest.raises(ModelError, match="limits .* no longer apply"):
        model.with_body("b1", joint=Spherical(), armature=0)
    odd = SpatialInertia(1, moment_about_com_B=(1, 1, 3))
    with pytest.raises(ModelError, match="(?s)'b1'.*triangle.*with_body\\(..., moments="):
        model.with_body("b1", inertia=odd)
    with pytest.warns(PhipsiWarning, match="'b1'"):
        assert model.with_body("b1", inertia=odd, moments="warn").inertias[1] == odd


def test_with_gravity():
    model = chain(2)
    assert model.with_gravity((0, 0, 0)).gravity.tolist() == [0, 0, 0]
    assert model.with_gravity(model.gravity) == model
    with pytest.raises(ModelError, match="gravity .* not finite"):
        model.with_gravity((0, 0, np.inf))


# ------------------------------------------------------------------ storage and look-up


@given(models(max_bodies=5, damping=True, limits=True, frames=True))
@settings(max_examples=40)
def test_round_trips_are_exact(model):
    through_json = json.loads(json.dumps(model.to_dict(), allow_nan=False))
    for twin in (Model.from_dict(through_json), pickle.loads(pickle.dumps(model))):
        assert twin == model and hash(twin) == hash(model)
        assert (twin.inertia_matrices == model.inertia_matrices).all()
        assert (twin.placement_rotations == model.placement_rotations).all()
        assert (twin.upper == model.upper).all() and twin.frames == model.frames


def test_one_sided_limits_survive_json():
    builder = ModelBuilder()
    builder.add_body("a", limits=(-np.inf, 2.0))
    model = builder.build()
    assert Model.from_dict(json.loads(json.dumps(model.to_dict(), allow_nan=False))) == model


def test_models_are_frozen():
    model = chain(2, frames=True)
    with pytest.raises(AttributeError, match="frozen"):
        model.gravity = (0, 0, 0)
    with pytest.raises(TypeError):
        model.frames["x"] = (0, Pose())
    for name in ("gravity", "armature", "damping", "inertia_matrices", "lower", "upper",
                 "placement_rotations", "placement_translations"):  # fmt: skip
        with pytest.raises(ValueError, match="read-only"):
            getattr(model, name)[...] = 1.0
    assert len({model, chain(2, frames=True), chain(2)}) == 2


def test_points():
    model = chain(3, 1, frames=True)
    host, frame = model.frames["f1"]
    assert model.resolve_point("b2") == (2, Pose())
    assert model.resolve_point("f1") == (host, frame) and host == 1
    body, X = model.resolve_point(("f1", (0.1, 0.2, 0.3)))
    assert body == 1
    assert_allclose(X.rotation, frame.rotation)
    assert_allclose(X.translation, frame.apply([0.1, 0.2, 0.3]))
    body, X = model.resolve_point(["world", (1, 2, 3)])
    assert body == -1 and X == Pose(translation=(1, 2, 3))


def test_views():
    model = chain(3, joints=["revolute", "free", "spherical"], armature=True)
    view = model.joint("j1")
    assert (view.index, view.body, view.joint) == (1, "b1", Free())
    assert view.q_slice == model.q_slice("j1") == slice(1, 8)
    assert view.v_slice == model.v_slice("j1") == slice(1, 7)
    assert view.armature == tuple(model.armature[1:7])
    assert model.body("b2").parent == "b1" and model.has_armature
    assert "3 bodies, nq = 12, nv = 10" in repr(model)


def test_a_quaternion_without_direction_is_refused_by_name():
    b = ModelBuilder()
    b.add_body("base", joint=Free(), joint_name="float",
               inertia=SpatialInertia(1.0, (0, 0, 0), 0.1))  # fmt: skip
    model = b.build()
    zero = np.zeros(model.nq)
    with pytest.raises(InputError, match=r"joint 'float' is zero(.|\n)*neutral"):
        model.integrate(zero, np.ones(model.nv))
    with pytest.raises(InputError, match="joint 'float'"):
        model.difference(model.neutral(), zero)
