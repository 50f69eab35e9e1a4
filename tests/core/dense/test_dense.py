"""The dense oracle against physics computed from poses alone and Pinocchio; its errors."""

from functools import partial

import mpmath
import numpy as np
import pytest
from amounts import examples
from hypothesis import given, settings, strategies as st
from numpy.testing import assert_allclose
from peers import InPinocchio, pinocchio_tree
from random_models import (
    ALL,
    branching,
    chain,
    model_from_parents,
    models,
    random_state,
    random_tree,
)
from rounding import ALLOWED, dense_with_rounding, excess

from phipsi.core.compiler import compile
from phipsi.core.dense import evaluate_dense
from phipsi.core.expressions.node import identity, zero
from phipsi.core.expressions.spaces import EFFORTS, FORCES, RATES
from phipsi.core.model import joints
from phipsi.core.model.builder import ModelBuilder
from phipsi.core.model.inertia import SpatialInertia
from phipsi.core.model.model import Model
from phipsi.core.model.points import point_set
from phipsi.core.spatial import crm, skew
from phipsi.errors import InputError, SingularHingeError, SingularMatrixError, SpaceError
from phipsi.operators import (
    B,
    Bdot,
    D,
    D_half,
    E_phi,
    E_psi,
    G,
    H,
    Hdot,
    I,
    J,
    Jr,
    K,
    Lambda,
    M,
    P,
    R,
    Riccati,
    V,
    a,
    a_paper,
    b,
    b_paper,
    bd,
    cross,
    f0,
    f_ext,
    gravity,
    logdet,
    mass_matrix,
    parse,
    phi,
    pose,
    proj_bar,
    psi,
    s_gauge,
    shift,
    tau,
    total,
    v,
    vdot,
)
from phipsi.papers.theorems import prove

H_STEP = 1e-30
BIAS = H @ phi @ (M @ phi.T @ (a + gravity) + b)
PHYSICS = (
    "physics: velocities",
    "physics: mass matrix",
    "physics: kinetic energy",
    "physics: Jacobian",
    "physics: qdot = N(q) v",
    "physics: Lagrange",
    "physics: Lagrange, body form",
    "physics: inverse dynamics",
    "physics: body-frame bias",
    "gravity torque",
    "power of C",
    "Jdot v",
    "joint table a(k)",
)


state = partial(random_state, rates=1)


def rate(expr, model: Model, q, rates, **options) -> np.ndarray:
    ahead = q + 1j * H_STEP * model.qdot(q, rates)
    return evaluate_dense(expr, model, ahead, rates, **options).imag / H_STEP


# ---- physics -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ALL)
def test_physics_of_one_joint_between_two_others(kind: str):
    model = model_from_parents([-1, 0, 1], 3, ["free", kind, "revolute"])
    for name in PHYSICS:
        proof = prove(name, model, seed=1)
        assert proof and proof.in_general is not None, str(proof)
        assert proof.in_general.chance < 1e-14


@settings(max_examples=examples(40))
@given(models(max_bodies=6), st.sampled_from(PHYSICS))
def test_physics_of_random_trees(model: Model, name: str):
    assert prove(name, model)


def test_velocity_is_the_derivative_of_the_poses():
    """Written out once more, without the theorems."""
    model = model_from_parents([-1, 0, 0, 1, 1, 2, 2, 3, 4, 5], 2, ALL)
    q, rates = state(model)
    moved, X = rate(pose, model, q, rates), evaluate_dense(pose, model, q)
    for k, motion in enumerate(evaluate_dense(V, model, q, rates).reshape(-1, 6)):
        R_k = X[k, :3, :3]
        assert_allclose(R_k.T @ moved[k, :3, :3], skew(motion[:3]), atol=1e-12)
        assert_allclose(R_k.T @ moved[k, :3, 3], motion[3:], atol=1e-12)


def test_poses_follow_placements_and_joints():
    builder = ModelBuilder()
    builder.add_body("upper", joint=joints.Revolute((0, 0, 1)))
    model = builder.build(inertia="warn")
    X = evaluate_dense(pose, model, [np.pi / 2])
    assert_allclose(X[0, :3, :3], [[0, -1, 0], [1, 0, 0], [0, 0, 1]], atol=1e-15)
    assert_allclose(X[0, 3], [0, 0, 0, 1])


def test_pendulum_by_hand():
    """A point mass m at distance l: ℳ = m l², gravity torque m g l cos θ, φ = I."""
    builder = ModelBuilder(gravity=(0, -9.81, 0))
    rod = SpatialInertia(mass=2.0, com_B=(0.5, 0, 0), moment_about_com_B=0.0)
    builder.add_body("rod", joint=joints.Revolute((0, 0, 1)), inertia=rod, armature=0.25)
    model = builder.build()
    q = np.array([0.3])
    assert_allclose(evaluate_dense(mass_matrix, model, q), [[0.5 + 0.25]])
    assert_allclose(evaluate_dense(H @ phi @ M @ phi.T @ H.T, model, q), [[0.5]])
    assert_allclose(evaluate_dense(D, model, q), [[0.75]])
    assert_allclose(evaluate_dense(BIAS, model, q, [4.0]), [2.0 * 9.81 * 0.5 * np.cos(0.3)])
    assert_allclose(evaluate_dense(phi, model, q), np.eye(6))
    assert_allclose(evaluate_dense(logdet(D), model, q), np.log(0.75))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("armature", [False, True])
def test_agrees_with_pinocchio(seed: int, armature: bool):
    model = pinocchio_tree(seed, 7, n_roots=1 + seed % 2, armature=armature)
    peer, rng = InPinocchio(model), np.random.default_rng(seed)
    (q, rates), forces = state(model, seed), rng.normal(size=(model.n_bodies, 6))
    acceleration, efforts = rng.normal(size=(2, model.nv))
    close = {"rtol": 1e-9, "atol": 1e-9}
    assert_allclose(evaluate_dense(mass_matrix, model, q), peer.mass_matrix(q), **close)
    assert_allclose(evaluate_dense(mass_matrix.inv, model, q), peer.mass_matrix_inverse(q), **close)
    assert_allclose(evaluate_dense(BIAS, model, q, rates), peer.bias_forces(q, rates), **close)
    assert_allclose(evaluate_dense(pose, model, q), peer.poses(q)[0], **close)
    inverse = mass_matrix @ vdot + BIAS - H @ phi @ f_ext
    found = evaluate_dense(inverse, model, q, rates, vdot=acceleration, f_ext=forces)
    assert_allclose(found, peer.inverse_dynamics(q, rates, acceleration, forces), **close)
    forward = mass_matrix.inv @ (tau - BIAS + H @ phi @ f_ext)
    found = evaluate_dense(forward, model, q, rates, tau=efforts, f_ext=forces)
    assert_allclose(found, peer.forward_dynamics(q, rates, efforts, forces), **close)
    for axes in ("world", "body", "spatial"):
        points = point_set(model, ["f3"], axes)
        jacobian, _ = peer.jacobians(q, rates, "f3", axes)
        assert_allclose(evaluate_dense(J, model, q, points=points), jacobian, **close)


# ---- leaves ------------------------------------------------------------------------------------


@pytest.mark.parametrize("axes", ["world", "body", "spatial"])
def test_the_rate_of_B(axes: str):
    model = branching(5, 3, frames=True)
    q, rates = state(model)
    points = point_set(model, [("b2", (0.1, 0.2, 0.3)), "f4", ("f1", (0, 1, 0))], axes)
    found = evaluate_dense(Bdot, model, q, rates, points=points)
    assert_allclose(found, rate(B, model, q, rates, points=points), atol=1e-12)
    assert (axes == "body") == (not found.any())


@pytest.mark.parametrize("kind", ALL)
def test_the_rate_of_H(kind: str):
    model = chain(2, 4, [kind, kind])
    q, rates = state(model)
    assert_allclose(evaluate_dense(Hdot, model, q, rates), rate(H, model, q, rates), atol=1e-12)


def test_a_point_of_the_world_does_not_move():
    model = branching(4, 1)
    q, _ = state(model)
    points = [("b3", (0, 0, 1)), ("world", (1, 2, 3))]
    matrix = evaluate_dense(B, model, q, points=points)
    assert matrix.shape == (24, 12)
    assert matrix[:, :6].any() and not matrix[:, 6:].any()


def test_total_is_taken_about_a_point_of_the_world():
    model = random_tree(2, 5, n_roots=2)
    q, rates = state(model)
    X, momenta = (
        evaluate_dense(pose, model, q),
        evaluate_dense(M @ V, model, q, rates).reshape(-1, 6),
    )
    for at in ((0.0, 0.0, 0.0), (0.3, -1.0, 2.0)):
        expected = np.zeros(6)
        for k, (N, F) in enumerate(momenta.reshape(-1, 2, 3)):
            R_k, p = X[k, :3, :3], X[k, :3, 3] - np.array(at)
            expected += [*(R_k @ N + np.cross(p, R_k @ F)), *(R_k @ F)]
        assert_allclose(evaluate_dense(total(M @ V, at), model, q, rates), expected, atol=1e-12)


def test_cross_shift_and_gauge():
    model = branching(5, 5)
    q, rates = state(model)
    motions = evaluate_dense(V, model, q, rates).reshape(-1, 6)
    matrix = evaluate_dense(cross(V), model, q, rates)
    step, turned = evaluate_dense(E_phi, model, q), evaluate_dense(shift, model, q)
    s = evaluate_dense(s_gauge, model, q, rates).reshape(-1, 6)
    for k, (motion, p) in enumerate(zip(motions, model.parent, strict=True)):
        assert_allclose(matrix[6 * k : 6 * k + 6, 6 * k : 6 * k + 6], crm(motion))
        assert_allclose(s[k], [0, 0, 0, *np.cross(motion[:3], motion[3:])])
        if p >= 0:
            block = (slice(6 * p, 6 * p + 6), slice(6 * k, 6 * k + 6))
            assert_allclose(turned[block] @ turned[block].T, np.eye(6), atol=1e-14)
            assert_allclose(turned[block][:3, :3], step[block][:3, :3])
            assert not turned[block][:3, 3:].any()


def test_block_diagonal_part_of_every_pair_of_spaces():
    model = branching(5, 6)
    q, _ = state(model)
    for expr in (phi @ M @ phi.T, H @ phi @ M @ phi.T @ H.T, H @ phi, phi.T @ H.T):
        full, part = evaluate_dense(expr, model, q), evaluate_dense(bd(expr), model, q)
        rest = full - part
        for k, s in enumerate(model.v_slices):
            body = slice(6 * k, 6 * k + 6)
            rows = s if expr.gives is EFFORTS or expr.gives is RATES else body
            cols = s if expr.takes is EFFORTS or expr.takes is RATES else body
            assert_allclose(part[rows, cols], full[rows, cols])
            assert not rest[rows, cols].any()
    assert_allclose(evaluate_dense(bd(phi @ M @ phi.T), model, q), evaluate_dense(R, model, q))


def test_riccati_instances():
    model = branching(5, 7, armature=True)
    q, _ = state(model)
    plain = Riccati(Jr=0)
    gain, hinge = evaluate_dense(plain.G, model, q), evaluate_dense(H, model, q)
    assert_allclose(hinge @ gain, np.eye(model.nv), atol=1e-12)
    assert np.abs(hinge @ evaluate_dense(G, model, q) - np.eye(model.nv)).max() > 0.01
    doubled = Riccati(M=2 * M, Jr=2 * Jr)
    assert_allclose(
        evaluate_dense(doubled.P, model, q), 2 * evaluate_dense(P, model, q), rtol=1e-12
    )
    assert_allclose(
        evaluate_dense(doubled.psi, model, q), evaluate_dense(psi, model, q), atol=1e-12
    )
    damped = Riccati(Jr=3 * Jr)
    family = (H @ phi @ M @ phi.T @ H.T + 3 * Jr).inv
    whiten = I - H @ damped.psi @ damped.K
    solved = evaluate_dense(whiten.T @ damped.D.inv @ whiten, model, q)
    assert_allclose(solved, evaluate_dense(family, model, q), rtol=1e-9, atol=1e-9)
    other = Riccati(E=E_psi)
    equation = other.P - other.E_psi @ other.P @ E_psi.T
    assert_allclose(evaluate_dense(equation, model, q), evaluate_dense(M, model, q), atol=1e-9)


def test_a_riccati_family_needs_a_step_to_the_parent():
    model = chain(3, 0)
    with pytest.raises(InputError, match="to its parent and nowhere"):
        evaluate_dense(Riccati(E=E_phi @ E_phi).P, model, state(model)[0])


def test_the_square_root_of_D_is_lower_triangular():
    model = chain(3, 1, ["spherical", "free", "universal"])
    q, _ = state(model)
    root, full = evaluate_dense(D_half, model, q), evaluate_dense(D, model, q)
    assert_allclose(root @ root.T, full, atol=1e-12)
    assert_allclose(np.triu(root, 1), 0)
    assert (np.diag(root) > 0).all()


# ---- complex step, batches, axes, order --------------------------------------------------------


@pytest.mark.parametrize("expr", [logdet(mass_matrix), logdet(D)], ids=str)
def test_complex_step_through_the_riccati_recursion(expr):
    model = branching(5, 8, ["revolute", "prismatic", "universal"], armature=True)
    q, rates = state(model)
    moved = rate(expr, model, q, rates)
    inverse, change = evaluate_dense(mass_matrix.inv, model, q), rate(mass_matrix, model, q, rates)
    assert_allclose(moved, np.trace(inverse @ change), rtol=1e-10)
    h = 1e-5
    values = [evaluate_dense(expr, model, q + s * h * rates) for s in (-1, 1)]
    assert_allclose(moved, (values[1] - values[0]) / (2 * h), rtol=1e-6)


def test_batches_stand_on_leading_axes():
    model = branching(4, 9)
    rng = np.random.default_rng(0)
    q, rates = model.random_configuration(rng, (3, 1)), rng.normal(size=(2, model.nv))
    forces = rng.normal(size=(model.n_bodies, 6))
    points, at = [("b1", (0, 0, 1))], rng.normal(size=(2, 1, 6))
    expr = BIAS - H @ phi @ f_ext + J.T @ f0
    found = evaluate_dense(expr, model, q, rates, f_ext=forces, f0=at, points=points)
    assert found.shape == (3, 2, model.nv)
    for i in range(3):
        for j in range(2):
            alone = evaluate_dense(
                expr, model, q[i, 0], rates[j], f_ext=forces, f0=at[j], points=points
            )
            assert_allclose(found[i, j], alone)
    assert evaluate_dense(phi, model, q).shape == (3, 1, 24, 24)
    assert evaluate_dense(v.T @ mass_matrix @ v, model, q, rates).shape == (3, 2)
    assert evaluate_dense(pose, model, q).shape == (3, 1, 4, 4, 4)
    assert evaluate_dense(phi, model, q[:0]).shape == (0, 1, 24, 24)


def test_shapes_of_results():
    model = branching(4, 9)
    q, rates = state(model)
    assert evaluate_dense(V, model, q, rates).shape == (24,)
    assert np.shape(evaluate_dense(v.T @ mass_matrix @ v, model, q, rates)) == ()
    assert evaluate_dense(H, model, q).shape == (model.nv, 24)
    assert evaluate_dense(total(M @ V), model, q, rates).shape == (6,)
    assert evaluate_dense(Lambda, model, q, points=["b1", "b2"]).shape == (12, 12)
    assert evaluate_dense(identity(FORCES), model, q).shape == (24, 24)
    assert not evaluate_dense(zero(RATES, EFFORTS), model, q).any()


def test_inertial_axes_turn_body_quantities_only():
    model = branching(5, 2)
    q, rates = state(model)
    turn = np.zeros((30, 30))
    for k, X in enumerate(evaluate_dense(pose, model, q)):
        turn[6 * k : 6 * k + 3, 6 * k : 6 * k + 3] = X[:3, :3]
        turn[6 * k + 3 : 6 * k + 6, 6 * k + 3 : 6 * k + 6] = X[:3, :3]
    at = evaluate_dense(pose, model, q)[:, :3, 3]
    world = {"axes": "inertial"}
    for expr in (phi, M, psi, P, shift):
        expected = turn @ evaluate_dense(expr, model, q) @ turn.T
        assert_allclose(evaluate_dense(expr, model, q, **world), expected, atol=1e-12)
    assert_allclose(
        evaluate_dense(H, model, q, **world), evaluate_dense(H, model, q) @ turn.T, atol=1e-12
    )
    assert_allclose(
        evaluate_dense(V, model, q, rates, **world), turn @ evaluate_dense(V, model, q, rates)
    )
    assert_allclose(
        evaluate_dense(mass_matrix, model, q, **world), evaluate_dense(mass_matrix, model, q)
    )
    assert_allclose(evaluate_dense(pose, model, q, **world), evaluate_dense(pose, model, q))
    block = evaluate_dense(phi, model, q, **world)[:6, 6:12]
    assert_allclose(block[:3, 3:], skew(at[1] - at[0]), atol=1e-12)
    assert_allclose(evaluate_dense(shift, model, q, **world)[:6, 6:12], np.eye(6), atol=1e-12)


def test_the_papers_order_is_tip_first():
    model = branching(5, 3)
    q, rates = state(model)
    full = evaluate_dense(phi, model, q, order="tip_to_base")
    assert_allclose(full, np.tril(full, 5))  # lower block triangular
    assert not np.allclose(full, evaluate_dense(phi, model, q))
    motions = evaluate_dense(V, model, q, rates, order="tip_to_base").reshape(-1, 6)
    assert_allclose(motions[::-1], evaluate_dense(V, model, q, rates).reshape(-1, 6))
    assert_allclose(
        evaluate_dense(pose, model, q, order="tip_to_base")[::-1], evaluate_dense(pose, model, q)
    )
    numbers = np.concatenate([np.arange(model.nv)[s] for s in reversed(model.v_slices)])
    found = evaluate_dense(mass_matrix, model, q, order="tip_to_base")
    assert_allclose(found, evaluate_dense(mass_matrix, model, q)[np.ix_(numbers, numbers)])
    efforts = evaluate_dense(tau, model, q, tau=np.arange(model.nv), order="tip_to_base")
    assert_allclose(efforts, numbers)


# ---- given -------------------------------------------------------------------------------------


def test_given_values_are_used_instead_of_computed_ones():
    model = branching(4, 4, armature=True)
    q, rates = state(model)
    n, blocks = (
        model.n_bodies,
        lambda x: [x[6 * k : 6 * k + 6, 6 * k : 6 * k + 6] for k in range(n)],
    )
    inertia = np.array(blocks(evaluate_dense(P, model, q)))
    assert_allclose(evaluate_dense(D, model, q, inputs={"P": inertia}), evaluate_dense(D, model, q))
    twice = evaluate_dense(D, model, q, inputs={"P": 2 * inertia})
    assert_allclose(twice + evaluate_dense(Jr, model, q), 2 * evaluate_dense(D, model, q))
    assert_allclose(
        evaluate_dense(R, model, q, inputs={M: 2 * model.inertia_matrices}),
        2 * evaluate_dense(R, model, q),
    )
    gain = sum(evaluate_dense(G, model, q)[6 * k : 6 * k + 6] for k in range(n))
    assert_allclose(
        evaluate_dense(psi, model, q, inputs={"G": gain}), evaluate_dense(psi, model, q), atol=1e-12
    )
    assert_allclose(evaluate_dense(proj_bar, model, q, inputs={"G": 0 * gain}), np.eye(6 * n))
    motions = np.arange(6.0 * n).reshape(n, 6)
    found = evaluate_dense(cross(V), model, q, inputs={"V": motions})
    assert_allclose(found[:6, :6], crm(motions[0]))
    assert_allclose(evaluate_dense(V, model, q, inputs={"V": motions}), motions.reshape(-1))
    width = max(s.stop - s.start for s in model.v_slices)
    hinge = np.zeros((n, width, width))
    for k, s in enumerate(model.v_slices):
        r = s.stop - s.start
        hinge[k, :r, :r] = np.eye(r)
    assert_allclose(evaluate_dense(D.inv, model, q, inputs={"D": hinge}), np.eye(model.nv))
    assert_allclose(
        evaluate_dense(G, model, q, inputs={"D": hinge}),
        evaluate_dense(P @ H.T, model, q),
        atol=1e-12,
    )
    axes = sum(evaluate_dense(H.T, model, q)[6 * k : 6 * k + 6] for k in range(n))
    for key, value in (("H", 2 * axes.T), ("H*", 2 * axes)):
        assert_allclose(
            evaluate_dense(H @ phi, model, q, inputs={key: value}),
            2 * evaluate_dense(H @ phi, model, q),
        )


def test_given_values_batch_and_are_checked():
    model = chain(3, 4)
    q, _ = state(model)
    weights = np.arange(1.0, 4.0).reshape(3, 1, 1, 1)
    found = evaluate_dense(R, model, q, inputs={"M": weights * model.inertia_matrices})
    assert_allclose(found[2], 3 * evaluate_dense(R, model, q), atol=1e-12)
    with pytest.raises(InputError, match=r"inputs\['M'\] has shape"):
        evaluate_dense(R, model, q, inputs={"M": np.eye(6)})
    with pytest.raises(InputError, match="reaches from body to body"):
        evaluate_dense(R, model, q, inputs={"phi": np.eye(18)})
    with pytest.raises(InputError, match="one operator or vector"):
        evaluate_dense(R, model, q, inputs={"H phi": np.eye(18)})
    with pytest.raises(InputError, match="finite"):
        evaluate_dense(R, model, q, inputs={"M": np.nan * model.inertia_matrices})


def test_given_poses_points_and_arguments():
    model = chain(2, 4)
    q, _ = state(model)
    X = np.tile(np.eye(4), (2, 1, 1))
    assert_allclose(evaluate_dense(pose, model, q, inputs={"pose": X}), X)
    blocks = np.random.default_rng(0).normal(size=(1, 6, 6))
    matrix = evaluate_dense(B, model, q, points=["b1"], inputs={"B": blocks})
    assert_allclose(matrix[6:], blocks[0])
    assert_allclose(evaluate_dense(tau, model, q, inputs={"tau": np.ones(model.nv)}), 1)


# ---- scale -------------------------------------------------------------------------------------


def test_the_measure_of_rounding_is_close_to_the_rounding_that_is_there():
    """Against 50 digits: never far below, and not much above, wherever numbers are added up."""
    model = branching(4, 6)
    q, _ = state(model)
    exact = np.array([mpmath.mpf(float(x)) for x in q])
    with mpmath.workdps(50):
        for expr in (phi, H @ phi, 3 * phi - 2 * psi, phi @ (phi - psi), mass_matrix, P):
            value, rounding = dense_with_rounding(expr, model, q=q)
            error = np.abs(evaluate_dense(expr, model, exact) - value).astype(float)
            assert excess(error, 0 * error, rounding) <= 16
            assert rounding.max() <= 1e4 * max(error.max(), 2.0**-53 * np.abs(value).max())


def test_a_cancellation_counts_as_zero():
    model = branching(5, 6)
    q, _ = state(model)
    value, rounding = dense_with_rounding(H @ proj_bar, model, q=q)
    assert excess(value, 0 * value, rounding) <= ALLOWED
    assert rounding.max() < 1e-12


# ---- errors ------------------------------------------------------------------------------------


def test_undetermined_identity_and_zero():
    model = chain(2)
    for expr in (I, 2 * I, zero()):
        with pytest.raises(SpaceError, match="not determined"):
            evaluate_dense(expr, model, model.neutral())


@pytest.mark.parametrize("expr", [a + (a_paper - a_paper) + a_paper, M @ a_paper + b], ids=str)
def test_mixed_pairs(expr):
    model = chain(2)
    with pytest.raises(SpaceError, match="a_paper"):
        evaluate_dense(expr, model, model.neutral(), np.zeros(model.nv))
    evaluate_dense(M @ phi.T @ a_paper + b_paper, model, model.neutral(), np.zeros(model.nv))


@pytest.mark.parametrize(
    ("expr", "name"), [(V, "v"), (a, "v"), (tau, "tau"), (vdot, "vdot"), (f_ext, "f_ext")]
)
def test_a_missing_argument_is_named(expr, name: str):
    model = chain(2)
    with pytest.raises(InputError, match=f"needs {name}:"):
        evaluate_dense(expr, model, model.neutral())


def test_points_must_be_named():
    model = chain(2)
    with pytest.raises(InputError, match="pass points="):
        evaluate_dense(J, model, model.neutral())
    assert evaluate_dense(J, model, model.neutral(), points=[]).shape == (0, model.nv)
    with pytest.raises(InputError, match="needs f0"):
        evaluate_dense(B @ f0, model, model.neutral(), points=["b0"])


def test_bad_numbers_are_traced_to_the_joint():
    model = chain(3, 0, ["revolute", "spherical", "prismatic"])
    q = model.neutral()
    q[2] = np.inf
    with pytest.raises(InputError, match="q of joint 'j1' is inf"):
        evaluate_dense(phi, model, q)
    with pytest.raises(InputError, match="v of joint 'j2' is nan"):
        evaluate_dense(V, model, model.neutral(), np.array([0, 0, 0, 0, np.nan]))
    with pytest.raises(InputError, match="tau of joint 'j0' is nan"):
        evaluate_dense(tau, model, model.neutral(), tau=np.array([[np.nan, 0, 0, 0, 0]]))
    with pytest.raises(InputError, match="f_ext of body 'b1'"):
        evaluate_dense(f_ext, model, model.neutral(), f_ext=[[0.0] * 6, [np.nan] * 6, [0.0] * 6])
    with pytest.raises(InputError, match="joint 'j1' .* quaternion must not be zero"):
        evaluate_dense(phi, model, np.zeros(model.nq))
    with pytest.raises(InputError, match=r"q has shape \(2,\)"):
        evaluate_dense(phi, model, [0.0, 1.0])
    with pytest.raises(InputError, match="do not broadcast"):
        evaluate_dense(V, model, np.tile(model.neutral(), (2, 1)), np.zeros((3, model.nv)))
    with pytest.raises(InputError, match="must be numbers"):
        evaluate_dense(phi, model, "q")


def test_unknown_options():
    model = chain(2)
    with pytest.raises(InputError, match="order"):
        evaluate_dense(phi, model, model.neutral(), order="forward")
    with pytest.raises(InputError, match=r"no effect.*inertial"):
        evaluate_dense(phi, model, model.neutral(), axes="world")
    with pytest.raises(InputError, match="inertial"):
        evaluate_dense(phi, model, model.neutral(), axes="wrold")
    with pytest.raises(InputError, match="no effect"):
        compile(phi, model, axes="spatial")
    with pytest.raises(InputError, match="points are given with axes='world'"):
        evaluate_dense(J, model, model.neutral(), points=point_set(model, ["b1"]), axes="body")


@pytest.mark.parametrize("axes", [None, "world", "body", "spatial"])
def test_axes_of_points_are_those_of_compile(axes):
    model = branching(5, 3)
    rng = np.random.default_rng(0)
    q, rates = model.random_configuration(rng), rng.standard_normal(model.nv)
    points = [(name, (0.1, -0.2, 0.3)) for name in model.body_names[-2:]]
    for expr in (J, B, J.T, Lambda, J @ mass_matrix.inv @ J.T, J @ v):
        program = compile(expr, model, points=points, axes=axes, mode="dense")
        args = (q, rates) if "v" in program.inputs else (q,)
        found = evaluate_dense(expr, model, *args, points=points, axes=axes)
        assert_allclose(found, program(*args).reshape(found.shape), rtol=1e-9, atol=1e-11)
        if axes in ("body", "spatial"):
            assert np.abs(found - evaluate_dense(expr, model, *args, points=points)).max() > 1e-2


def massless_wrist(armature: float = 0.0) -> Model:
    builder = ModelBuilder()
    arm = SpatialInertia(mass=1.0, com_B=(0.3, 0, 0), moment_about_com_B=0.1)
    builder.add_body("arm", inertia=arm)
    builder.add_body("hand", parent="arm", joint_name="wrist_roll", armature=armature)
    builder.add_body("tip", parent="hand", joint=joints.Revolute((1, 0, 0)), joint_name="tip_roll",
                     armature=1e-3)  # fmt: skip
    return builder.build()


def test_a_hinge_without_inertia_is_named():
    model = massless_wrist()
    q = np.array([0.1, 0.2, 0.3])
    with pytest.raises(SingularHingeError) as caught:
        evaluate_dense(psi, model, q)
    text = str(caught.value)
    for part in ("'wrist_roll'", "revolute", "'hand'", "D = H P H* + Jr = 0", "'tip'", "armature"):
        assert part in text, text
    with pytest.raises(SingularHingeError):
        evaluate_dense(mass_matrix.inv, model, q)
    assert_allclose(evaluate_dense(mass_matrix, model, q)[1], 0)  # no inverse asked for, no error
    cured = massless_wrist(1e-4)
    product = evaluate_dense(mass_matrix @ mass_matrix.inv, cured, q)
    assert_allclose(product, np.eye(3), atol=1e-9)


def test_rounding_does_not_pass_for_inertia():
    """Two coaxial hinges with a massless body between: D of the inner one is 0 but for rounding."""
    builder = ModelBuilder()
    axis = (0.3, -0.7, 0.2)
    rotor = SpatialInertia(mass=1.0, com_B=(0.3, 0.1, 0.2), moment_about_com_B=0.37)
    builder.add_body("ring", joint=joints.Revolute(axis))
    builder.add_body("rotor", parent="ring", joint=joints.Revolute(axis), inertia=rotor)
    with pytest.raises(SingularHingeError, match="'ring'"):
        evaluate_dense(D, builder.build(), [0.4, 1.1])


def test_a_singular_inverse_is_an_error():
    model = chain(3, 0, ["revolute"])
    q, _ = state(model)
    with pytest.raises(SingularMatrixError, match="singular"):
        evaluate_dense(Lambda.inv, model, q, points=["b2"])
    with pytest.raises(SingularMatrixError, match="not positive"):
        evaluate_dense(logdet(-1 * D), model, q)


def test_models_without_bodies_or_freedom():
    model = ModelBuilder().build()
    assert evaluate_dense(mass_matrix.inv, model, []).shape == (0, 0)
    assert evaluate_dense(V, model, [], []).shape == (0,)
    assert evaluate_dense(logdet(D), model, []) == 0
    assert evaluate_dense(pose, model, []).shape == (0, 4, 4)
    assert_allclose(evaluate_dense(total(M @ V), model, [], []), np.zeros(6))
    assert evaluate_dense(phi, model, [], order="tip_to_base", axes="inertial").shape == (0, 0)


def test_parsed_text_and_operators_are_the_same():
    model = branching(4, 1)
    q, _ = state(model)
    text = "(I − H ψ K)* D⁻¹ (I − H ψ K)"
    whiten = I - H @ psi @ K
    assert parse(text) is whiten.T @ D.inv @ whiten
    assert_allclose(
        evaluate_dense(parse(text), model, q), evaluate_dense(mass_matrix.inv, model, q), atol=1e-9
    )
