"""The three modes and the shapes of what goes in and comes out."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from amounts import seeds
from numpy.testing import assert_allclose, assert_array_equal
from random_models import model_from_parents, random_tree

import phipsi as pp
from phipsi.core.dense import evaluate_dense
from phipsi.core.expressions.node import Expr, identity, zero
from phipsi.core.expressions.spaces import EFFORTS, FORCES, MOTIONS, RATES
from phipsi.errors import InputError, LoweringError
from phipsi.operators import (
    B,
    D,
    D_half,
    E_phi,
    G,
    H,
    Hdot,
    J,
    Jr,
    K,
    Lambda,
    M,
    P,
    R,
    Upsilon,
    V,
    b,
    bd,
    cross,
    f0,
    f_ext,
    logdet,
    mass_matrix,
    phi,
    pose,
    proj,
    psi,
    tau,
    total,
    v,
)

compiled = partial(pp.compile, backend="reference")
# hinges of width 6, 1, 3, 2, 1 on two roots
MODEL = model_from_parents(
    [-1, 0, 1, 0, -1], 5, ["free", "revolute", "spherical", "universal", "prismatic"], armature=True
)
POINTS = [("b2", (0.1, 0, 0.2)), ("b3", (0, 0.3, 0)), ("world", (1, 0, 0))]
N, NV, NC = MODEL.n_bodies, MODEL.nv, len(POINTS)
LOCK_WORLD = total(identity(FORCES))


def state(batch: tuple[int, ...] = ()) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    count = int(np.prod(batch, dtype=int))
    q = np.array([MODEL.random_configuration(rng) for _ in range(count)])
    return {
        "q": q.reshape(*batch, MODEL.nq),
        "v": rng.standard_normal((*batch, NV)),
        "tau": rng.standard_normal((*batch, NV)),
        "f_ext": rng.standard_normal((*batch, N, 6)),
        "f0": rng.standard_normal((*batch, NC, 6)),
    }


def run(x: Any, at: dict[str, Any], **options: Any) -> Any:
    program = compiled(x, MODEL, points=POINTS, **options)
    return program(**{name: at[name] for name in program.inputs})


def matrix(x: Expr, at: dict[str, Any]) -> np.ndarray:
    return evaluate_dense(x, MODEL, points=POINTS, **at)


SHAPES = {"joint": (NV,), "body": (N, 6), "point": (NC, 6), "world": (6,), "one": ()}
SIZES = {index: int(np.prod(shape, dtype=int)) for index, shape in SHAPES.items()}
OPERATORS: dict[str, Expr] = {
    "joint to joint": mass_matrix,
    "joint to joint, inverse": mass_matrix.inv,
    "joint to body": phi.T @ H.T,
    "body to joint": H @ psi,
    "body to body": phi @ M @ phi.T,
    "body to point": B.T,
    "point to body": phi @ B,
    "joint to point": J,
    "point to joint": J.T,
    "point to point": Lambda,
    "body to world": LOCK_WORLD,
    "world to body": LOCK_WORLD.T,
    "joint to world": LOCK_WORLD @ M @ phi.T @ H.T,
    "point to world": LOCK_WORLD @ B,
    "world to point": B.T @ LOCK_WORLD.T,
    "world to world": LOCK_WORLD @ M @ LOCK_WORLD.T,
    "world to world, inverse": (LOCK_WORLD @ M @ LOCK_WORLD.T).inv,
    "joint to scalar": v.T @ mass_matrix,
    "body to scalar": f_ext.T,
    "point to scalar": f0.T,
    "world to scalar": (LOCK_WORLD @ M @ V).T,
    "rank one": tau @ v.T,
    "to innovations": D_half.inv,
    "identity": identity(FORCES),
    "identity on rates": 2 * identity(RATES),
    "zero": zero(MOTIONS, EFFORTS),
    "zero on points": 0 * Lambda,
}
every_operator = pytest.mark.parametrize("x", OPERATORS.values(), ids=OPERATORS.keys())
every_batch = pytest.mark.parametrize("batch", [(), (3,), (2, 2), (0,)], ids=str)


@every_operator
@every_batch
def test_applied_to_a_vector(x: Expr, batch: tuple[int, ...]):
    at = state(batch)
    takes, gives = SHAPES[x.takes.index], SHAPES[x.gives.index]
    u = np.random.default_rng(2).standard_normal((*batch, *takes))
    got = run(x, {**at, "x": u})
    assert got.shape == (*batch, *gives)
    flat = u.reshape(*batch, SIZES[x.takes.index])
    whole = matrix(x, at).reshape(*batch, SIZES[x.gives.index], flat.shape[-1])
    want = (whole @ flat[..., None])[..., 0]
    assert_allclose(got.reshape(want.shape), want, atol=1e-9 * max(1, np.abs(want).max(initial=0)))


@every_operator
@pytest.mark.parametrize("columns", [0, 1, 4])
def test_applied_to_columns(x: Expr, columns: int):
    at = state((2,))
    u = np.random.default_rng(2).standard_normal((2, *SHAPES[x.takes.index], columns))
    got = run(x, {**at, "x": u}, columns=True)
    assert got.shape == (2, *SHAPES[x.gives.index], columns)
    for i in range(columns):
        alone = run(x, {**at, "x": u[..., i]})
        assert_allclose(got[..., i], alone, atol=1e-10 * max(1, np.abs(alone).max()))


@every_operator
@every_batch
def test_written_out(x: Expr, batch: tuple[int, ...]):
    at = state(batch)
    for rewrite in ("full", "as_written"):
        got = run(x, at, mode="dense", rewrite=rewrite)
        size = (SIZES[x.gives.index], SIZES[x.takes.index])
        constant = not compiled(x, MODEL, points=POINTS, mode="dense").inputs
        assert got.shape == (size if constant else (*batch, *size))
        want = matrix(x, at).reshape(*batch, *size)
        got = np.broadcast_to(got, want.shape)
        assert_allclose(got, want, atol=1e-9 * max(1, np.abs(want).max(initial=0)))


def test_columns_of_two_operands_must_be_as_many():
    program = compiled((mass_matrix, mass_matrix.inv), MODEL, columns=True)
    q = state()["q"]
    with pytest.raises(InputError, match="2 and 3 columns"):
        program(q, np.ones((NV, 2)), np.ones((NV, 3)))
    with pytest.raises(InputError, match="x0 has shape"):
        program(q, np.ones(NV), np.ones((NV, 3)))


# ---- blocks ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "x, shape",
    [
        (M, (N, 6, 6)),
        (R, (N, 6, 6)),
        (P, (N, 6, 6)),
        (Upsilon, (N, 6, 6)),
        (proj, (N, 6, 6)),
        (cross(V), (N, 6, 6)),
        (M.inv, (N, 6, 6)),
        (H.T, (6, NV)),
        (G, (6, NV)),
        (H, (NV, 6)),
        (Hdot, (NV, 6)),
        (G.T, (NV, 6)),
        (D, (N, 6, 6)),  # the widest hinge has six freedoms
        (Jr, (N, 6, 6)),
        (D.inv, (N, 6, 6)),
        (D_half, (N, 6, 6)),
        (mass_matrix, (N, 6, 6)),
        (mass_matrix.inv, (N, 6, 6)),
        (H @ phi, (NV, 6)),
        (phi @ M @ phi.T, (N, 6, 6)),
        (bd(psi.T @ R.inv @ phi), (N, 6, 6)),
        (E_phi, (N, 6, 6)),
        (K, (6, NV)),
    ],
    ids=str,
)
def test_diagonal_blocks_in_storage_layout(x: Expr, shape: tuple[int, ...]):
    at = state((2,))
    got = run(x, at, mode="blocks")
    constant = not compiled(x, MODEL, mode="blocks").inputs  # M and Jr belong to the model
    assert got.shape == (shape if constant else (2, *shape))
    got = np.broadcast_to(got, (2, *shape))
    want, whole = np.zeros((2, *shape)), matrix(x, at)
    for k, s in enumerate(MODEL.v_slices):
        body, width = slice(6 * k, 6 * k + 6), s.stop - s.start
        rows = body if x.gives.index == "body" else s
        cols = body if x.takes.index == "body" else s
        block = whole[:, rows, cols]
        if x.gives.index == x.takes.index == "body":
            want[:, k] = block
        elif x.gives.index == "body":
            want[:, :, s] = block
        elif x.takes.index == "body":
            want[:, s, :] = block
        else:
            want[:, k, :width, :width] = block
    assert_allclose(got, want, atol=1e-10 * max(1, np.abs(want).max()))


def test_hinge_blocks_are_padded_with_zeros():
    blocks = run(D, state(), mode="blocks")
    for k, joint in enumerate(MODEL.joints):
        assert not blocks[k, joint.nv :].any() and not blocks[k, :, joint.nv :].any()
        assert (np.linalg.eigvalsh(blocks[k, : joint.nv, : joint.nv]) > 0).all()


def test_named_blocks():
    at = state((2,))
    whole = matrix(mass_matrix, at)
    pairs = [("b0", "b2"), ("b2", "b0"), ("b3", "b3"), ("j1", "b1"), ("b4", "b0")]
    got = run(mass_matrix, at, mode="blocks", blocks=pairs)
    assert isinstance(got, tuple)
    for (row, col), block in zip(pairs, got, strict=True):
        rows, cols = (MODEL.v_slices[int(name[1:])] for name in (row, col))
        assert_allclose(block, whole[:, rows, cols], atol=1e-9)
    assert not got[-1].any()  # two trees


def test_named_blocks_of_other_spaces():
    at = state()
    admittance = matrix(Lambda, at)
    (block,) = run(Lambda, at, mode="blocks", blocks=[(0, 1)])
    assert_allclose(block, admittance[:6, 6:12], atol=1e-10)
    jacobian = matrix(J, at)
    (block,) = run(J, at, mode="blocks", blocks=[(1, "b0")])
    assert_allclose(block, jacobian[6:12, MODEL.v_slices[0]], atol=1e-12)
    force = matrix(phi, at)
    up, down = run(phi, at, mode="blocks", blocks=[("b0", "b2"), ("b2", "b0")])
    assert_allclose(up, force[:6, 12:18], atol=1e-12)
    assert not down.any()


def test_no_blocks_asked_for_gives_none():
    assert run(mass_matrix, state(), mode="blocks", blocks=[]) == ()


@pytest.mark.parametrize("which", [-1, 3, 1.5, "b2", None])
def test_points_are_named_by_their_number(which: Any):
    with pytest.raises(InputError, match="points are numbered 0 … 2"):
        compiled(J, MODEL, points=POINTS, mode="blocks", blocks=[(which, "b0")])


@pytest.mark.parametrize("rewrite", ["full", "as_written"])
def test_a_product_out_and_back_twice_has_a_bd(rewrite: str):
    x = phi @ M @ phi.T @ Upsilon @ phi @ M @ phi.T
    want = matrix(bd(x), state())
    near = partial(assert_allclose, rtol=1e-11, atol=1e-11)
    near(run(bd(x), state(), mode="dense", rewrite=rewrite), want)
    for k, block in enumerate(run(x, state(), mode="blocks", rewrite=rewrite)):
        near(block, want[6 * k : 6 * k + 6, 6 * k : 6 * k + 6])
    assert np.abs(matrix(x, state()) - want).max() > 1e-3 * np.abs(want).max()


def test_a_bd_without_sweeps_is_refused_in_block_mode_only():
    out_and_back = phi @ M @ phi.T
    x = out_and_back @ Upsilon @ out_and_back @ Upsilon @ out_and_back @ Upsilon @ out_and_back
    with pytest.raises(LoweringError, match="block-diagonal part"):
        compiled(x, MODEL, mode="blocks")
    with pytest.raises(LoweringError, match="up to 6 of which look beyond one body"):
        compiled(bd(x), MODEL)
    assert_allclose(run(x, state(), mode="dense"), matrix(x, state()), rtol=1e-8, atol=1e-6)


# ---- vectors, scalars, poses, mixtures -----------------------------------------------------------


@every_batch
def test_vectors_and_scalars(batch: tuple[int, ...]):
    at = state(batch)
    shapes = {V: (N, 6), tau: (NV,), B @ f0: (N, 6), J @ v: (NC, 6), total(M @ V): (6,)}
    for x, shape in shapes.items():
        assert run(x, at).shape == (*batch, *shape)
        want = matrix(x, at).reshape(*batch, *shape)
        assert_allclose(run(x, at), want, atol=1e-10)
    for x in (v.T @ tau, 0.5 * v.T @ mass_matrix @ v, logdet(mass_matrix), V.T @ b):
        assert run(x, at).shape == batch
        assert_allclose(run(x, at), matrix(x, at), rtol=1e-10, atol=1e-12)
    assert run(pose, at).shape == (*batch, N, 4, 4)
    assert_allclose(run(pose, at), matrix(pose, at), atol=1e-13)


@pytest.mark.parametrize("mode", ["apply", "dense", "blocks"])
def test_vectors_are_the_same_in_every_mode(mode: str):
    at = state()
    assert_array_equal(run(V, at, mode=mode), run(V, at))


def test_one_mode_for_each_expression():
    at = state((2,)) | {"x": np.ones((2, NV))}
    x = (mass_matrix, mass_matrix, mass_matrix, V, mass_matrix)
    modes = ("dense", "apply", "blocks", "blocks", "dense")
    results = run(x, at, mode=modes)
    assert [r.shape for r in results] == [
        (2, NV, NV), (2, NV), (2, N, 6, 6), (2, N, 6), (2, NV, NV),
    ]  # fmt: skip
    assert_allclose(results[1], results[0] @ np.ones(NV), atol=1e-9)


def test_a_matrix_and_blocks_picked_from_it_in_one_program():
    at = state()
    whole, (block,) = run(
        (mass_matrix, mass_matrix), at, mode=("dense", "blocks"), blocks=[("b0", "b1")]
    )
    assert whole.shape == (NV, NV)
    assert_array_equal(block, whole[MODEL.v_slices[0], MODEL.v_slices[1]])
    (block,), whole = run(
        (mass_matrix, mass_matrix), at, mode=("blocks", "dense"), blocks=[("b0", "b1")]
    )
    assert_array_equal(block, whole[MODEL.v_slices[0], MODEL.v_slices[1]])


def test_identity_and_zero_as_expressions():
    at = state() | {"x": np.arange(6.0 * N).reshape(N, 6)}
    assert_array_equal(run(identity(FORCES), at), at["x"])
    assert_array_equal(run(3 * identity(MOTIONS), at), 3 * at["x"])
    assert_array_equal(run(zero(FORCES, EFFORTS), at), np.zeros(NV))
    assert_array_equal(run(identity(RATES), at, mode="dense"), np.eye(NV))


def test_results_belong_to_the_caller():
    """Writing into a result changes neither the next one nor the model."""
    at = state()
    program = compiled((M, pose), MODEL, mode="blocks")
    first = program(at["q"])
    for r in first:
        r[...] = 7.0
    again = program(at["q"])
    assert_array_equal(again[0], MODEL.inertia_matrices)
    assert not (again[1] == 7.0).any()


@pytest.mark.parametrize("seed", seeds(4))
def test_adjoints_by_dot_products(seed: int):
    model = random_tree(seed, 5, armature=True)
    rng = np.random.default_rng(seed)
    q = model.random_configuration(rng)
    for x in (phi, psi, K, H @ phi, E_phi, G, phi @ M @ psi.T):
        u = rng.standard_normal((model.nv,) if x.takes.index == "joint" else (model.n_bodies, 6))
        w = rng.standard_normal((model.nv,) if x.gives.index == "joint" else (model.n_bodies, 6))
        left = (compiled(x, model)(q, u) * w).sum()
        right = (u * compiled(x.T, model)(q, w)).sum()
        assert_allclose(left, right, rtol=1e-10, atol=1e-10)


def test_explain_names_the_modes_without_a_model():
    with pytest.raises(InputError, match="'apply', 'dense'"):
        pp.explain("P", mode="block")
