"""Vectors of one's own on a diagonal, and random expressions with own steps, against `dense`."""

import numpy as np
import pytest
from random_expressions import Generator
from random_models import model_from_parents

import phipsi as pp
from phipsi.core.calculus.directional import substitute
from phipsi.operators import E_phi, H, I, Jr, M, diag, diagonal, mass_matrix, phi, phi_tilde, tau

TREE = model_from_parents(
    [-1, 0, 1, 1], 3, ["spherical", "revolute", "universal", "prismatic"], armature=True
)
RNG = np.random.default_rng(2)
Q, X, W = TREE.random_configuration(RNG), RNG.normal(size=TREE.nv), np.linspace(1, 2, TREE.nv)
NUMBERS = RNG.uniform(0.1, 1.0, TREE.nv)
c = pp.custom.vector("c", "efforts", NUMBERS)


@pytest.mark.parametrize("backend", ["reference", "native"])
def test_a_vector_on_the_diagonal(backend):
    y = (mass_matrix + 0.1 * diag(c)).inv @ tau
    matrix = pp.evaluate_dense(mass_matrix, TREE, Q) + 0.1 * np.diag(NUMBERS)
    found = np.linalg.solve(matrix, X)
    assert pp.compile(y, TREE, backend=backend)(Q, X) == pytest.approx(found, rel=1e-9)
    by_c = pp.vjp(y, TREE, "c", backend=backend)(Q, X, W)
    assert by_c == pytest.approx(-0.1 * np.linalg.solve(matrix, W) * found, rel=1e-9)


def test_gradients_through_the_family():
    y = pp.custom.riccati(J=Jr + diag(c)).D.inv @ tau
    along = pp.compile(pp.diff(y, "c", along="dtau"), TREE)(Q, X, X)
    assert along @ W == pytest.approx(pp.vjp(y, TREE, "c")(Q, X, W) @ X, rel=1e-9)
    ahead, behind = (
        pp.evaluate_dense(y, TREE, Q, tau=X, inputs={"c": NUMBERS + e * X}) for e in (1e-6, -1e-6)
    )
    assert along == pytest.approx((ahead - behind) / 2e-6, rel=1e-6, abs=1e-8)


def test_diagonals_are_taken_back():
    weights = diagonal(diag(c).inv)
    assert pp.compile(weights, TREE)() == pytest.approx(1 / NUMBERS)
    assert pp.evaluate_dense(weights, TREE, Q) == pytest.approx(1 / NUMBERS)
    assert diag(c).T is diag(c) and pp.parse("diag(c)", custom=[c]) is diag(c)


N = pp.custom.operator(
    "N", "forces -> forces", {b: np.eye(6) + 0.2 * RNG.normal(size=(6, 6)) for b in TREE.body_names}
)
E = pp.custom.operator("E_c", "forces -> forces", E_phi @ N)
chi = pp.custom.operator("chi", "forces -> forces", (I - E).inv)
half, third = 0.5 * E_phi @ N, (I - 0.5 * E_phi @ N).inv
OTHER = pp.custom.operator(
    "M_own", "motions -> forces", np.diag(np.arange(1.0, 7.0)), symmetric=True
)
VARIANTS = [
    {phi: chi, phi_tilde: chi @ E, E_phi: E, M: OTHER},
    {phi: third, phi_tilde: third - I, E_phi: half},
]
STATE = {"q": Q, **{name: RNG.normal(size=TREE.nv) for name in ("v", "vdot", "tau")}}
STATE["f_ext"] = RNG.normal(size=(4, 6))


@pytest.mark.parametrize("seed", range(16))
def test_random_expressions_with_own_steps(seed):
    """3,159 of these were compared once, in four variants; the largest difference was rounding."""
    x = Generator(np.random.default_rng(seed)).expression()
    for variant in VARIANTS:
        y = substitute(x, variant)
        value = pp.evaluate_dense(y, TREE, **STATE)
        program = pp.compile(y, TREE, mode="apply" if y.is_vector else "dense")
        found = program(**{name: STATE[name] for name in program.inputs})
        value = np.reshape(value, found.shape)
        assert found == pytest.approx(value, rel=1e-7, abs=1e-7 * max(np.abs(value).max(), 1e-3))


def test_a_wrong_step_is_noticed():
    right, wrong = (H @ (I - E).inv @ OTHER, H @ (I - E_phi).inv @ OTHER)
    assert pp.evaluate_dense(right, TREE, Q) != pytest.approx(
        pp.evaluate_dense(wrong, TREE, Q), rel=1e-3
    )


# ---- derivatives by whole operators --------------------------------------------------------------

F = pp.custom.operator("F_any", "motions -> forces", RNG.normal(size=(6, 6)))
S = pp.custom.operator("S_sym", "motions -> forces", np.diag(np.arange(1.0, 7.0)), symmetric=True)
SIZES = [j.nv for j in TREE.joints]
WEIGHTS = {b: n * np.eye(n) for b, n in zip(TREE.body_names, SIZES, strict=True)}
J_own = pp.custom.operator("J_own", "rates -> efforts", WEIGHTS, symmetric=True)


def soft(J_own, v):
    return np.tanh(J_own) * (1 + v @ v)


SOFT = pp.custom.operator("Soft", "rates -> efforts", soft, custom=[J_own])
RESPONSE = (mass_matrix + J_own + H @ phi @ S @ phi.T @ H.T).inv @ (
    tau + H @ phi @ F @ phi.T @ H.T @ pp.operators.v + SOFT @ pp.operators.v
)


def with_blocks(name, blocks):
    """The response with other blocks, from dense matrices."""
    return pp.evaluate_dense(RESPONSE, TREE, Q, W, tau=X, inputs={name: blocks})


def stored(x):
    """The blocks of a table in storage layout, padded."""
    width = max(SIZES) if x.takes.width is None else 6
    out = np.zeros((TREE.n_bodies, width, width))
    for k in range(TREE.n_bodies):
        block = x.row.value.at(TREE, k)
        out[k, : len(block), : len(block)] = block
    return out


@pytest.mark.parametrize("backend", ["reference", "native"])
@pytest.mark.parametrize("x", [F, S, J_own], ids=str)
def test_gradients_by_all_numbers_of_an_operator(x, backend):
    c = np.linspace(-1, 1, TREE.nv)
    program = pp.vjp(RESPONSE, TREE, x, backend=backend)
    state = {"q": Q, "v": W, "tau": X, "x": c}
    gradient = program(**{name: state[name] for name in program.inputs})
    blocks = stored(x)
    assert gradient.shape == blocks.shape
    for seed in range(3):
        change = np.random.default_rng(seed).normal(size=blocks.shape)
        for k, n in enumerate(SIZES if x is J_own else [6] * TREE.n_bodies):
            change[k, n:], change[k, :, n:] = 0, 0
        if x.T is x:
            change = change + change.transpose(0, 2, 1)
        ahead, behind = (with_blocks(x.name, blocks + e * change) for e in (1e-6, -1e-6))
        slope = c @ (ahead - behind) / 2e-6
        assert np.sum(gradient * change) == pytest.approx(slope, rel=1e-6, abs=1e-9)
        named = {
            b: change[k, :n, :n]
            for k, (b, n) in enumerate(
                zip(TREE.body_names, SIZES if x is J_own else [6] * TREE.n_bodies, strict=True)
            )
        }
        spaces = f"{x.takes.name} -> {x.gives.name}"
        direction = pp.custom.operator("d_own", spaces, named, symmetric=x.T is x)
        along = pp.diff(RESPONSE, x, along=direction)
        assert c @ pp.evaluate_dense(along, TREE, Q, W, tau=X) == pytest.approx(
            slope, rel=1e-6, abs=1e-9
        )


def test_operators_change_along_operators():
    for wrong in (None, "dq", F):
        with pytest.raises(pp.errors.PhipsiError, match=r"needs along=, a symmetric[^$]*pp.vjp\("):
            pp.diff(RESPONSE, "S_sym", along=wrong)
    assert pp.diff(S, "S_sym", along=S) is S
    assert pp.diff(M, "q", along="dq") is not S
