"""Manipulability and least-squares velocities, against dense Jacobians and differences."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from random_models import branching, random_tree

import phipsi as pp
from phipsi.errors import InputError, SingularMatrixError

MAN = pp.manipulability
MODELS = {
    "arm": pp.examples.seven_joint_arm(),
    "branches": branching(6, 11, armature=True),
    "forest": random_tree(3, 7, n_roots=2),
    "flyer": pp.examples.free_flyer(),
}


def case(name: str):
    model, rng = MODELS[name], np.random.default_rng(4)
    leaves = [k for k in range(model.n_bodies) if not model.tree.children[k]]
    points = [(model.body_names[leaves[-1]], (0.1, -0.2, 0.3)), model.body_names[leaves[0]]]
    return model, model.random_configuration(rng), points[: len(leaves)], rng


def dense(model, q, points, components, weights):
    J = pp.jacobian(model, q, points)
    J = J[[6 * c + i for c in range(len(points)) for i in components]]
    mass = isinstance(weights, str)
    W = np.linalg.inv(pp.mass_matrix(model, q)) if mass else np.diag(weights)
    return np.linalg.slogdet(J @ W @ J.T)[1]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("mass", [False, True])
def test_log_det_and_its_gradient(name: str, mass: bool):
    model, q, points, rng = case(name)
    components = (3, 5) if name != "arm" else tuple(range(6))
    weights = "mass" if mass else rng.uniform(0.5, 2.0, model.nv)
    options = {"components": components, "weights": weights}
    value = MAN.log_det(model, q, points, **options)
    if not np.isfinite(value):
        points = points[:1]
        value = MAN.log_det(model, q, points, **options)
    assert_allclose(value, dense(model, q, points, components, weights), rtol=1e-9, atol=1e-8)
    found = MAN.log_det_gradient(model, q, points, **options)
    h, wanted = 1e-6, np.zeros(model.nv)
    for i, unit in enumerate(np.eye(model.nv)):
        ends = [dense(model, model.integrate(q, s * unit), points, components, weights)
                for s in (h, -h)]  # fmt: skip
        wanted[i] = (ends[0] - ends[1]) / (2 * h)
    scale = 1 + np.abs(wanted).max()
    assert_allclose(found, wanted, atol=2e-6 * scale)
    assert np.abs(-found - wanted).max() > 1e-3  # the sign is one that can be wrong
    batch = MAN.log_det_gradient(model, np.stack([q, q]), points, **options)
    assert_allclose(batch, np.stack([found, found]), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_velocities_by_filtering_are_those_of_dense_least_squares(name: str):
    model, q, points, rng = case(name)
    weights = rng.standard_normal((len(points), 6, 6))
    weights = weights @ weights.swapaxes(-1, -2)
    wanted = rng.standard_normal((3, len(points), 6))
    J, W = pp.jacobian(model, q, points), np.zeros((6 * len(points), 6 * len(points)))
    for c in range(len(points)):
        W[6 * c : 6 * c + 6, 6 * c : 6 * c + 6] = weights[c]
    for damping in (0.3, 1e-2):
        found = MAN.least_squares_velocities(
            model, q, points, wanted, weights=weights, damping=damping
        )
        normal = J.T @ W @ J + damping**2 * np.eye(model.nv)
        right = J.T @ W @ wanted.reshape(3, -1).T
        expected = np.linalg.solve(normal, right).T
        assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
        other = np.linalg.solve(normal + 0.1 * np.eye(model.nv), right).T
        assert np.abs(found - other).max() > 1e-4


def test_without_damping_six_joints_follow_exactly():
    builder, parent = pp.ModelBuilder(), "world"
    for k in range(6):
        builder.add_body(f"b{k}", parent=parent, joint=pp.joints.Revolute(np.eye(3)[k % 3]),
                         placement=pp.Pose(None, (0.5, 0.1, 0.2)),
                         inertia=pp.SpatialInertia(1.0, (0.2, 0, 0), 0.1))  # fmt: skip
        parent = f"b{k}"
    arm = builder.build()
    rng = np.random.default_rng(0)
    q, v = rng.uniform(0.3, 1.0, 6), rng.standard_normal(6)
    moved = pp.jacobian(arm, q, ["b5"]) @ v
    assert_allclose(MAN.least_squares_velocities(arm, q, ["b5"], [moved]), v, rtol=1e-6)
    weights = [[1, 2, 3, 4, 5, 6.0]]
    assert_allclose(
        MAN.least_squares_velocities(arm, q, ["b5"], [moved], weights=weights), v, rtol=1e-6
    )
    # Newton's method on the pose of the tip, with the filter as its linear solver
    wanted, at = pp.poses(arm, q, ["b5"])[0], q + 0.1 * rng.standard_normal(6)
    for _ in range(8):
        pose = pp.poses(arm, at, ["b5"])[0]
        turn = wanted[:3, :3] @ pose[:3, :3].T
        skew = (turn - turn.T) / 2
        axis = np.array([skew[2, 1], skew[0, 2], skew[1, 0]])
        step = np.concatenate([axis, wanted[:3, 3] - pose[:3, 3]])
        at = at + MAN.least_squares_velocities(arm, at, ["b5"], [step])
    assert_allclose(pp.poses(arm, at, ["b5"])[0], wanted, atol=1e-9)


def test_singular_configurations_and_bad_arguments():
    arm = pp.examples.planar_arm(2)
    stretched = [0.3, 0.0]
    assert MAN.log_det(arm, stretched, ["tip"], components=(3, 4)) == -np.inf
    with pytest.raises(SingularMatrixError, match="log det has no derivative"):
        MAN.log_det_gradient(arm, stretched, ["tip"], components=(3, 4))
    for bad in ((), (3, 3), (6,)):
        with pytest.raises(InputError, match="different numbers from 0 to 5"):
            MAN.log_det(arm, stretched, ["tip"], components=bad)
    with pytest.raises(InputError, match='must be "mass"'):
        MAN.log_det(arm, stretched, ["tip"], weights="inertia")
    with pytest.raises(InputError, match="positive numbers"):
        MAN.log_det(arm, stretched, ["tip"], weights=[1.0, -1.0])
    with pytest.raises(InputError, match=r"last axes must be \(1, 6\)"):
        MAN.least_squares_velocities(arm, stretched, ["tip"], np.zeros(6))
    with pytest.raises(InputError, match="semidefinite"):
        MAN.least_squares_velocities(arm, stretched, ["tip"], [np.zeros(6)], weights=[-np.ones(6)])
    with pytest.raises(InputError, match="damping=-1"):
        MAN.least_squares_velocities(arm, stretched, ["tip"], [np.zeros(6)], damping=-1)
