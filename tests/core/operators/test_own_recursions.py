"""Operators given by a recursion, steps and transition operators of one's own."""

import numpy as np
import pytest
from random_models import model_from_parents

import phipsi as pp
from phipsi.errors import InputError, ParseError, SpaceError
from phipsi.operators import (  # fmt: skip
    D,
    E_phi,
    E_psi,
    H,
    I,
    Jr,
    K,
    M,
    P,
    R,
    Upsilon,
    V,
    bd,
    mass_matrix,
    phi,
    phi_tilde,
    psi,
    v,
)

JOINTS = ["free", "revolute", "universal", "prismatic", "spherical"]
TREE = model_from_parents([-1, 0, 1, 1, 0], 3, JOINTS, armature=True)
RNG = np.random.default_rng(5)
Q = TREE.random_configuration(RNG)
FF, MF = "forces -> forces", "motions -> forces"

N = pp.custom.operator("N", FF, {b: 0.5 * RNG.normal(size=(6, 6)) for b in TREE.body_names})
W = pp.custom.operator("W", MF, np.diag([1.0, 2, 3, 4, 5, 6]), symmetric=True)
C = pp.custom.operator("C", "rates -> efforts", 0.2, symmetric=True)
E = pp.custom.operator("E_c", FF, E_phi @ N)
chi = pp.custom.operator(
    "chi", FF, recursion="chi = I + E_c chi", custom=[E], structure="causal", symbol="χ"
)
half = (I - 0.5 * E_phi).inv

BUILT_IN = {  # as a user writes them, and as they are
    "phi": (pp.custom.operator(
        "phi_2", FF, recursion="phi_2 = I + E_phi phi_2", structure="causal"), phi),
    "psi": (pp.custom.operator(
        "psi_2", FF, recursion=lambda X: I + X @ E_psi, structure="causal"), psi),
    "R": (pp.custom.operator("R_2", MF, recursion=lambda X: M + E_phi @ X @ E_phi.T), R),
    "P": (pp.custom.operator("P_2", MF, recursion=lambda X: (
        M + E_phi @ (X - X @ H.T @ (Jr + H @ X @ H.T).inv @ H @ X) @ E_phi.T)), P),
    "Upsilon": (pp.custom.operator("Upsilon_2", "forces -> motions", recursion=lambda X: (
        H.T @ D.inv @ H + bd(E_psi.T @ X @ E_psi))), Upsilon),
    "phi_tilde": (pp.custom.operator("phi_t", FF, phi @ E_phi), phi_tilde),
    "V": (pp.custom.vector("V_2", "motions", recursion="V_2 = H* v + E_phi* V_2"), V),
    "mass_matrix": (pp.custom.operator("M_q", "rates -> efforts", H @ phi @ M @ phi.T @ H.T + Jr),
                    mass_matrix),
}  # fmt: skip


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_operators_written_by_a_user(name):
    mine, theirs = BUILT_IN[name]
    values = {"q": Q, "v": np.ones(TREE.nv)}
    whole = [pp.evaluate_dense(x, TREE, **values) for x in (mine, theirs)]
    assert np.array_equal(*whole)
    for around in (lambda x: x, lambda x: bd(x) if not x.is_vector else x):
        programs = [pp.compile(around(x), TREE) for x in (mine, theirs)]
        texts = [[str(s.equations) for s in p.explain().sweeps] for p in programs]
        assert texts[0] == [t.replace(str(theirs), str(mine)) for t in texts[1]] or (
            programs[0].explain().flops == programs[1].explain().flops
        )
        values["x"] = np.ones(programs[0].input_shapes.get("x", ()))
        results = [p(**{n: values[n] for n in p.inputs}) for p in programs]
        assert np.array_equal(*results)
    if name == "mass_matrix":
        programs = [pp.compile(x.inv, TREE, backend="native") for x in (mine, theirs)]
        assert programs[0].native.unit.key() == programs[1].native.unit.key()


EXPRESSIONS = [
    chi, W @ chi.T, bd(chi @ W @ chi.T), bd(chi.T @ W.inv @ chi), bd(phi @ W @ chi.T),
    H @ chi @ W @ chi.T @ H.T, (C + H @ chi @ W @ chi.T @ H.T).inv, chi.inv @ W,
    pp.custom.riccati(E=E, M=W, J=C).psi, bd(half @ M @ half.T),
]  # fmt: skip
CASES = [(x, "reference") for x in EXPRESSIONS] + [(EXPRESSIONS[i], "native") for i in (2, 6, 9)]


@pytest.mark.parametrize(("x", "backend"), CASES, ids=str)
def test_programs_agree_with_dense(x, backend):
    value = pp.evaluate_dense(x, TREE, Q)
    matrix = pp.compile(x, TREE, mode="dense", backend=backend)
    assert matrix(Q) == pytest.approx(value, rel=1e-8, abs=1e-8 * np.abs(value).max())
    if backend == "reference":
        program = pp.compile(x, TREE)
        operand = np.linspace(-1, 1, value.shape[1])
        found = program(Q, operand.reshape(program.input_shapes["x"]))
        assert np.ravel(found) == pytest.approx(value @ operand, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("x", [EXPRESSIONS[i] for i in (0, 2, 6, 9)], ids=str)
def test_derivatives(x):
    along = np.linspace(-1, 1, TREE.nv)
    moved = pp.compile("moved", TREE)
    ahead, behind = (pp.evaluate_dense(x, TREE, moved(Q, h * along)) for h in (1e-6, -1e-6))
    change = (ahead - behind) / 2e-6
    scale = np.abs(change).max()
    found = pp.compile(pp.diff(x, "q", along="dq"), TREE, mode="dense")(Q, along)
    assert found == pytest.approx(change, rel=1e-6, abs=1e-7 * scale)
    y = x @ pp.custom.vector("u_0", x.takes, 1.0)
    gradient = pp.vjp(y, TREE, "q")
    weight = np.linspace(1, 2, len(change))
    by_q = gradient(Q, weight.reshape(gradient.input_shapes["x"]))
    assert by_q @ along == pytest.approx(weight @ change.sum(axis=1), rel=1e-6, abs=1e-7 * scale)


def test_rules_hold_for_own_steps():
    f = pp.custom.riccati(E=E, M=W, J=C)
    product = pp.explain((I - f.H @ f.psi @ f.K) @ (I + f.H @ (I - E).inv @ f.K)).lowered[0]
    assert str(product) == "I[efforts]"  # (I + HφK)⁻¹ = I − HψK, for this family
    claims = {
        True: ((I + f.H @ chi @ f.K).inv, I - f.H @ f.psi @ f.K),
        False: ((I + f.H @ chi @ f.K).inv, I - f.H @ psi @ K),
    }
    for holds, sides in claims.items():
        assert bool(pp.prove(pp.Identity(*sides), TREE)) is holds


def test_recursion_is_printed():
    S = pp.custom.operator("S", MF, recursion="S = W + E_phi N S N* E_phi*", custom=[W, N])
    text = str(pp.explain(S))
    assert "S(k) = W(k) + Σ_c φ(k,c) N(c) S(c) N*(c) φ*(k,c)" in text
    assert str(chi) == "χ" and S.T is S


WRONG = {
    "no step": (lambda X: M + phi_tilde @ X @ phi_tilde.T, "no solution is known.*E_φ"),
    "square": (lambda X: M + X @ W.inv @ X, "no solution is known"),
    "absent": (lambda X: M + M, "does not occur on the right side"),
    "source": (lambda X: phi @ M + E_phi @ X @ E_phi.T, "no solution is known"),
    "spaces": (lambda X: H, "has the right side.*joint efforts"),
    "number": (lambda X: 3.0, "must return an expression"),
    "text": ("Y = M + E_phi Z E_phi*", "not an operator"),
    "no equation": ("M + E_phi Z E_phi*", "not an operator|must be an equation"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_recursions_are_rejected(case):
    recursion, text = WRONG[case]
    with pytest.raises((InputError, SpaceError, ParseError), match=f"(?s){text}"):
        pp.custom.operator("Z", MF, recursion=recursion)


def test_wrong_structures_are_rejected():
    with pytest.raises(SpaceError, match='causal. Declare it: structure="causal"'):
        pp.custom.operator("Z", FF, recursion="Z = I + E_phi Z")
    with pytest.raises(InputError, match="not one of"):
        pp.custom.operator("Z", FF, recursion="Z = I + E_phi Z", structure="random")
    with pytest.raises(InputError, match="either a block or a recursion"):
        pp.custom.operator("Z", FF)
    with pytest.raises(SpaceError, match="map every body to its parent"):
        pp.custom.riccati(E=E_phi.T.T @ N + N)


def test_a_recursion_that_treats_operators_as_arrays():
    with pytest.raises(pp.errors.PhipsiError, match="Y_np is an operator there, not an array"):
        pp.custom.operator("Y_np", "motions -> forces", recursion=lambda X: np.minimum(X, 1))
    with pytest.raises(pp.errors.PhipsiError, match=r"^cannot add the number 1"):
        pp.custom.operator("Y_np", "motions -> forces", recursion=lambda X: X + 1)


def test_numbers_in_recursions_of_vectors():
    fade = pp.custom.scalar("fade", 0.8)
    z = pp.custom.vector(
        "z_fade", "motions", recursion="z_fade = fade E_phi* z_fade + H* v", custom=[fade]
    )
    twin = pp.custom.vector("z_fade", "motions", recursion=lambda z: E_phi.T @ z * fade + H.T @ v)
    assert twin is z
    rates, c = RNG.normal(size=TREE.nv), RNG.normal(size=(TREE.n_bodies, 6))
    E, b = pp.evaluate_dense(E_phi.T, TREE, Q), pp.evaluate_dense(H.T, TREE, Q) @ rates
    wanted = np.linalg.solve(np.eye(len(E)) - 0.8 * E, b)
    found = pp.compile(z, TREE)(Q, rates)
    assert found.ravel() == pytest.approx(wanted, rel=1e-10)
    assert found.ravel() != pytest.approx(np.linalg.solve(np.eye(len(E)) - 0.7 * E, b), rel=1e-3)
    slope = np.linalg.solve(np.eye(len(E)) - 0.8 * E, E @ wanted)
    assert pp.vjp(z, TREE, fade)(Q, rates, c) == pytest.approx(c.ravel() @ slope, rel=1e-9)
