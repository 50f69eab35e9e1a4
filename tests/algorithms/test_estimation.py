"""The mechanism as a filter, against dense algebra of Gaussian vectors and against samples."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from known_systems import pinned_arm
from numpy.testing import assert_allclose
from random_models import branching, random_tree

import phipsi as pp
from phipsi.core.dense import evaluate_dense
from phipsi.errors import InputError
from phipsi.operators import H, Jr, M, P, phi, psi

EST = pp.estimation
MODELS = {
    "arm": pp.examples.seven_joint_arm(),
    "branches": branching(6, 11),
    "branches with rotors": branching(6, 11, armature=True),
    "forest": random_tree(3, 7, n_roots=2, armature=True),
    "flyer": pp.examples.free_flyer(),
}
every_model = pytest.mark.parametrize("name", MODELS)


class Gaussian:
    """The joint distribution of z and y by dense matrices, conditioned as in any textbook."""

    def __init__(self, name: str, seed: int = 0) -> None:
        self.model = model = MODELS[name]
        rng = np.random.default_rng(seed)
        self.q, self.y = model.random_configuration(rng), rng.standard_normal(model.nv)
        self.phi, self.H, self.M, self.Jr = (
            evaluate_dense(x, model, self.q) for x in (phi, H, M, Jr)
        )
        self.zz = self.phi @ self.M @ self.phi.T
        self.zy, self.yy = self.zz @ self.H.T, self.H @ self.zz @ self.H.T + self.Jr

    def conditioned(self, body: int, known: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of z(body), given some of the joint forces."""
        rows = slice(6 * body, 6 * body + 6)
        gain = self.zy[rows, known] @ np.linalg.pinv(self.yy[np.ix_(known, known)], rcond=1e-14)
        return gain @ self.y[known], self.zz[rows, rows] - gain @ self.zy[rows, known].T


@cache
def gaussian(name: str) -> Gaussian:
    return Gaussian(name)


def outboard(model: pp.Model, body: int, *, itself: bool = False) -> list[int]:
    """Joint forces of the bodies outboard of one."""
    return [
        i
        for k in range(model.n_bodies)
        if body in model.tree.path(k) and (itself or k != body)
        for i in range(model.v_slices[k].start, model.v_slices[k].stop)
    ]


@every_model
def test_the_prediction_is_the_mean_given_the_outboard_joint_forces(name: str):
    case = gaussian(name)
    found = EST.predict(case.model, case.q, case.y)
    innovations = case.y.copy()
    for k in range(case.model.n_bodies):
        mean, covariance = case.conditioned(k, outboard(case.model, k))
        assert_allclose(found.forces[k], mean, rtol=1e-8, atol=1e-9)
        assert_allclose(found.covariance[k], covariance, rtol=1e-8, atol=1e-9)
        rows, s = slice(6 * k, 6 * k + 6), case.model.v_slices[k]
        innovations[s] -= case.H[s, rows] @ mean
    assert_allclose(found.innovations, innovations, rtol=1e-8, atol=1e-9)
    factor = evaluate_dense("I + H phi K", case.model, case.q)
    assert_allclose(factor @ found.innovation_covariance @ factor.T, case.yy, rtol=1e-9, atol=1e-9)


@every_model
def test_the_smoother_is_the_mean_given_all_joint_forces(name: str):
    case = gaussian(name)
    found = EST.smooth(case.model, case.q, case.y)
    every = list(range(case.model.nv))
    for k in range(case.model.n_bodies):
        mean, covariance = case.conditioned(k, every)
        assert_allclose(found.forces[k], mean, rtol=1e-8, atol=1e-8)
        assert_allclose(found.covariance[k], covariance, rtol=1e-8, atol=1e-8)
    rates = np.linalg.solve(case.yy, case.y)
    assert_allclose(found.costates.ravel(), case.phi.T @ case.H.T @ rates, rtol=1e-8, atol=1e-8)


@every_model
def test_the_smoother_solves_the_two_point_boundary_value_problem(name: str):
    case = gaussian(name)
    model, found = case.model, EST.smooth(case.model, case.q, case.y)
    z, costate = found.forces.ravel(), found.costates.ravel()
    step = np.eye(len(z)) - np.linalg.inv(case.phi)
    rates = np.linalg.solve(case.yy, case.y)
    assert_allclose(z, step @ z + case.M @ costate, atol=1e-9)
    assert_allclose(costate, step.T @ costate + case.H.T @ rates, atol=1e-9)
    assert_allclose(case.H @ z + case.Jr @ rates, case.y, atol=1e-9)
    swept = EST.predict(model, case.q, case.y)
    outward = np.einsum("kij,kj->ki", swept.covariance, found.costates)
    assert_allclose(found.forces, swept.forces + outward, atol=1e-9)


def test_smoothed_forces_are_the_forces_of_mechanics():
    arm = pp.examples.seven_joint_arm().with_gravity((0, 0, 0))
    rng = np.random.default_rng(2)
    q, tau = arm.random_configuration(rng), rng.standard_normal(7)
    found, rest = EST.smooth(arm, q, tau), np.zeros(7)
    vdot = pp.forward_dynamics(arm, q, rest, tau)
    assert_allclose(pp.inverse_dynamics(arm, q, rest, vdot), tau, atol=1e-10)
    for k, name in enumerate(arm.body_names):
        moved = pp.accelerations(arm, q, rest, vdot, [name], axes="body")[0]
        assert_allclose(found.costates[k], moved, rtol=1e-9, atol=1e-9)


@every_model
def test_whitening_and_colouring_are_inverse_and_give_unit_covariances(name: str):
    case = gaussian(name)
    y = np.random.default_rng(1).standard_normal((3, case.model.nv))
    assert_allclose(
        EST.colour(case.model, case.q, EST.whiten(case.model, case.q, y)), y, atol=1e-10
    )
    whiten = EST.whiten(case.model, case.q, np.eye(case.model.nv)).T
    D = EST.predict(case.model, case.q, case.y).innovation_covariance
    assert_allclose(whiten @ case.yy @ whiten.T, D, rtol=1e-9, atol=1e-9)


# ---- samples -----------------------------------------------------------------------------------


def deviation(samples: np.ndarray, covariance: np.ndarray) -> float:
    """Largest error of a sample covariance, in standard deviations of the entry."""
    found = samples.T @ samples / len(samples)
    sizes = np.maximum(np.diag(covariance), 0.0)  # zeros are rounded
    spread = np.sqrt((np.outer(sizes, sizes) + covariance**2) / len(samples))
    return float((np.abs(found - covariance) / (spread + 1e-9)).max())


BOUND = 6.5
"""Standard deviations; of 1e5 entries of normal samples one exceeds it with probability 1e-5."""


@pytest.mark.parametrize("name", ["branches with rotors", "flyer"])
def test_samples_confirm_all_covariances(name: str):
    case, size = gaussian(name), 40_000
    model, n = case.model, case.model.n_bodies
    found = EST.sample(model, case.q, size, seed=5)
    w, z = (x.reshape(size, -1) for x in (found.inputs, found.forces))
    assert_allclose(z, w @ case.phi.T, rtol=1e-9, atol=1e-9)
    assert deviation(w, case.M) < BOUND and deviation(z, case.zz) < BOUND
    assert deviation(found.outputs, case.yy) < BOUND
    swept = EST.predict(model, case.q, found.outputs)
    smoothed = EST.smooth(model, case.q, found.outputs)
    missed, left = found.forces - swept.forces, found.forces - smoothed.forces
    for k in range(n):
        assert deviation(missed[:, k], swept.covariance[0, k]) < BOUND
        assert deviation(left[:, k], smoothed.covariance[0, k]) < BOUND
    inner = [k for k in range(n) if np.abs(smoothed.covariance[0, k]).max() > 0.1]
    assert inner
    wrong = [deviation(left[:, k], swept.covariance[0, k]) for k in inner]  # the filter's P
    assert max(wrong) > 10 * BOUND
    assert deviation(found.outputs, case.H @ case.M @ case.H.T + case.Jr) > 10 * BOUND
    assert EST.whiteness(model, case.q, found.outputs).is_white


def test_whiteness_finds_another_mechanism_and_is_calibrated():
    case = gaussian("arm")
    heavy = pp.examples.seven_joint_arm(armature=0.05)
    failed = 0
    for seed in range(20):
        y = EST.sample(case.model, case.q, 2000, seed=seed).outputs
        failed += not EST.whiteness(case.model, case.q, y).is_white
        found = EST.whiteness(heavy, case.q, y)
        assert not found.is_white and found.deviation > found.bound
    assert failed == 0


# ---- two estimates -----------------------------------------------------------------------------


def test_two_arms_that_touch_are_two_estimates_combined():
    rng = np.random.default_rng(4)
    builder = pp.ModelBuilder(gravity=(0, 0, 0))
    for side, x in (("left", 0.0), ("right", 2.0)):
        parent = "world"
        for k in range(6):
            placement = pp.Pose(None, (x, 0, 0) if k == 0 else (0.5, 0.1, 0.2))
            axis = np.eye(3)[k % 3]
            inertia = pp.SpatialInertia(1.0 + 0.1 * k, (0.2, 0.05, 0), (0.1, 0.2, 0.15))
            builder.add_body(f"{side}{k}", parent=parent, placement=placement,
                             joint=pp.joints.Revolute(axis), inertia=inertia)  # fmt: skip
            parent = f"{side}{k}"
    tree = builder.build()
    q, tau = rng.uniform(0.2, 1.0, tree.nv), rng.standard_normal(tree.nv)
    rest = np.zeros(tree.nv)
    tips = [tree.body_names.index(f"{side}5") for side in ("left", "right")]
    names = [tree.body_names[k] for k in tips]
    vdot = pp.forward_dynamics(tree, q, rest, tau)
    free = pp.accelerations(tree, q, rest, vdot, names, axes="world")
    J = pp.jacobian(tree, q, names).reshape(2, 6, tree.nv)
    S = [x @ np.linalg.solve(pp.mass_matrix(tree, q), x.T) for x in J]
    combined = EST.combine(free[0], S[0], free[1], S[1])
    # the same by dense algebra: equal accelerations of the tips as six constraints
    A = J[0] - J[1]
    kkt = np.block([[pp.mass_matrix(tree, q), A.T], [A, np.zeros((6, 6))]])
    solved = np.linalg.solve(kkt, np.concatenate([tau, np.zeros(6)]))
    assert_allclose(combined.force, -solved[tree.nv :], rtol=1e-8, atol=1e-8)
    assert_allclose(J[0] @ solved[: tree.nv], combined.estimate, rtol=1e-8, atol=1e-8)
    whole = np.linalg.inv(np.linalg.inv(S[0]) + np.linalg.inv(S[1]))
    assert_allclose(combined.covariance, whole, rtol=1e-6, atol=1e-8)


def test_combination_of_random_estimates_has_least_variance():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 4, 3, 3))
    S1, S2 = a @ a.swapaxes(-1, -2), b @ b.swapaxes(-1, -2)
    x1, x2 = rng.standard_normal((2, 4, 3))
    found = EST.combine(x1, S1, x2, S2)
    information = np.linalg.inv(S1) + np.linalg.inv(S2)
    weighted = np.linalg.solve(S1, x1[..., None]) + np.linalg.solve(S2, x2[..., None])
    assert_allclose(found.estimate, np.linalg.solve(information, weighted)[..., 0], rtol=1e-6)
    assert_allclose(found.covariance, np.linalg.inv(information), rtol=1e-6, atol=1e-9)
    certain = EST.combine(x1, 0 * S1, x2, S2)
    assert_allclose(certain.estimate, x1)


def test_certain_estimates_that_contradict_each_other_are_refused():
    with pytest.raises(InputError, match="singular: both estimates are certain"):
        EST.combine([1.0], [[0.0]], [2.0], [[0.0]])
    with pytest.raises(InputError, match=r"shape \(..., m\)"):
        EST.combine([1.0, 2.0], [[1.0]], [2.0, 1.0], [[1.0]])


# ---- conditioning ------------------------------------------------------------------------------


@every_model
def test_conditioning_against_dense_matrices(name: str):
    case = gaussian(name)
    found = EST.conditioning(case.model, case.q)
    worst = 1.0
    for k, s in enumerate(case.model.v_slices):
        if s.start == s.stop:
            assert np.isnan(found.hinge[k])
            continue
        known = outboard(case.model, k)
        own = np.arange(s.start, s.stop)
        cross = case.yy[np.ix_(own, known)]
        left = case.yy[np.ix_(own, own)] - cross @ np.linalg.solve(
            case.yy[np.ix_(known, known)], cross.T
        )
        ratio = np.linalg.eigvals(np.linalg.solve(case.yy[np.ix_(own, own)], left)).real.min()
        assert_allclose(found.hinge[k], ratio, rtol=1e-7)
        worst = min(worst, ratio)
    assert_allclose(found.digits, -np.log10(worst), rtol=1e-6, atol=1e-9)
    assert (found.articulated >= -1e-12).all()


@pytest.mark.parametrize("light", [1.0, 1e-3, 1e-6])
def test_a_light_link_inside_a_heavy_chain_costs_digits(light: float):
    """The last link is a point mass at its end, which gives way when its joint moves sideways."""
    builder, parent = pp.ModelBuilder(), "world"
    for k, (mass, moment) in enumerate(((1.0, 0.1), (light, light), (1.0, light))):
        bar = pp.SpatialInertia(mass, (0.5, 0, 0), moment)
        builder.add_body(f"b{k}", parent=parent, joint=pp.joints.Revolute((0, 0, 1)), inertia=bar,
                         placement=pp.Pose(None, (0 if k == 0 else 1, 0, 0)))  # fmt: skip
        parent = f"b{k}"
    model = builder.build()
    found = EST.conditioning(model, [0.0, 0.0, 0.0])
    mass = pp.mass_matrix(model, [0.0, 0.0, 0.0])
    left = mass[1, 1] - mass[1, 2] ** 2 / mass[2, 2]
    assert_allclose(found.hinge[1], left / mass[1, 1], rtol=1e-6)
    assert_allclose(found.digits, -np.log10(np.nanmin(found.hinge)))
    assert (found.digits > 5) == (light < 1e-4)


def test_batches_and_bad_arguments():
    arm = pp.examples.planar_arm(2)
    q = np.random.default_rng(0).uniform(-1, 1, (3, 2))
    batch = EST.conditioning(arm, q)
    for i in range(3):
        one = EST.conditioning(arm, q[i])
        assert_allclose(batch.hinge[i], one.hinge)
        assert_allclose(batch.digits[i], one.digits)
    with pytest.raises(InputError, match="one configuration"):
        EST.sample(arm, q, 10)
    with pytest.raises(InputError, match="at least 100 samples"):
        EST.whiteness(arm, q[0], np.zeros((10, 2)))
    with pytest.raises(InputError, match=r"(?s)smooth.*system\.model"):
        EST.smooth(pinned_arm(), pinned_arm().neutral(), np.zeros(3))


def test_the_smoothed_covariance_compiles_in_all_forms():
    case = gaussian("branches with rotors")
    typed = "φ M φ* − φ M φ* H* mass_matrix^-1 H φ M φ*"
    wanted = case.zz - case.zy @ np.linalg.solve(case.yy, case.zy.T)
    found = pp.compile(typed, case.model, mode="dense")(case.q)
    assert_allclose(found, wanted, atol=1e-9)
    blocks = pp.compile(f"bd({typed})", case.model, mode="dense")(case.q)
    assert_allclose(blocks, pp.compile("P − P Υ P", case.model, mode="dense")(case.q), atol=1e-10)
    n = case.model.n_bodies
    for k in range(n):
        at = slice(6 * k, 6 * k + 6)
        assert_allclose(blocks[at, at], wanted[at, at], atol=1e-9)
    assert str(pp.explain(f"bd({typed})").lowered[0]) == "P − P Υ P"
    predicted = evaluate_dense(P, case.model, case.q)
    assert np.abs(blocks - predicted).max() > 1e-2  # the smoother knows more than the filter
    assert np.abs(evaluate_dense(psi, case.model, case.q) - case.phi).max() > 1e-2


@pytest.mark.parametrize(
    "text",
    [
        "φ M φ* H* D^-1 H φ M φ*",
        "mass_matrix D^-1 mass_matrix",
        "φ M φ* Υ φ M E_φ*",
        "φ K D K* φ* Υ φ",
        "φ* Υ φ M φ* Υ φ",
    ],
)
def test_blocks_of_long_products_in_machine_code(text: str):
    for name in ("branches with rotors", "forest"):
        case = gaussian(name)
        whole = evaluate_dense(text, case.model, case.q)
        found = pp.compile(f"bd({text})", case.model, mode="dense")(case.q)
        wanted = evaluate_dense(f"bd({text})", case.model, case.q)
        scale = np.abs(whole).max()
        assert_allclose(found, wanted, atol=1e-12 * scale)
        assert np.abs(whole - found).max() > 1e-3 * scale  # the rest of it is not zero
