"""Expressions under strain: structure of random products, threads, long, deep, senseless input."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pytest
from random_expressions import Generator, with_adjoints
from random_models import branching

import phipsi as pp
from phipsi.core.dense import evaluate_dense
from phipsi.core.expressions.node import Expr, identity, total_of
from phipsi.core.expressions.spaces import FORCES
from phipsi.core.expressions.structure import Structure
from phipsi.errors import InputError, LoweringError, ParseError, PhipsiError, SpaceError
from phipsi.operators import (
    D,
    E_phi,
    E_psi,
    G,
    H,
    I,
    Jr,
    K,
    M,
    Omega,
    P,
    Riccati,
    Upsilon,
    V,
    bd,
    logdet,
    mass_matrix,
    phi,
    proj,
    psi,
    tau,
    total,
    v,
)

MODEL = branching(7, 3)
ARM = pp.examples.planar_arm(3)


# ---- structure: what is claimed to be zero is zero ---------------------------------------------


def relation(i: int, j: int) -> Structure:
    if i == j:
        return Structure.DIAGONAL
    if j in MODEL.tree.subtree(i):
        return Structure.INWARD
    if i in MODEL.tree.subtree(j):
        return Structure.OUTWARD
    return Structure.UNRELATED


def blocks_outside(x: Expr, value: np.ndarray) -> float:
    """The largest entry in a block that the structure of x says is zero."""
    worst = 0.0
    for i, rows in enumerate(MODEL.v_slices):
        for j, cols in enumerate(MODEL.v_slices):
            if x.structure & relation(i, j):
                continue
            r = rows if x.gives.index == "joint" else slice(6 * i, 6 * i + 6)
            c = cols if x.takes.index == "joint" else slice(6 * j, 6 * j + 6)
            worst = max(worst, float(np.abs(value[r, c]).max(initial=0)))
    return worst


@pytest.mark.parametrize(
    "x", with_adjoints([H, phi, psi, E_phi, E_psi, K, M, P, D, G, Upsilon, Omega, mass_matrix])
)
def test_the_structure_of_the_leaves(x: Expr):
    assert blocks_outside(x, evaluate_dense(x, MODEL, MODEL.neutral())) == 0


@pytest.mark.parametrize("seed", range(60))
def test_the_structure_of_random_products(seed: int):
    rng = np.random.default_rng(seed)
    g = Generator(rng)
    x = g.chain(FORCES, int(rng.integers(1, 5)))
    q, rates = MODEL.random_configuration(rng), rng.standard_normal(MODEL.nv)
    names = {name: rates for name in ("v", "vdot", "tau")}
    value = evaluate_dense(x, MODEL, q, f_ext=np.ones((MODEL.n_bodies, 6)), **names)
    assert blocks_outside(x, value) <= 1e-9 * max(1.0, float(np.abs(value).max()))


def test_the_inverse_of_an_operator_on_points_couples_all_bodies():
    """B Λ⁻¹ B* looks memoryless and is not."""
    x = pp.parse("B (B* M⁻¹ B)⁻¹ B*")
    assert x.structure & Structure.UNRELATED
    assert bd(x) is not x


# ---- threads -------------------------------------------------------------------------------------


def test_equal_expressions_from_several_threads_are_one_object():
    count, rounds = 6, 400
    made: list[list[Expr]] = [[] for _ in range(count)]
    barrier = threading.Barrier(count)

    def work(mine: list[Expr]) -> None:
        for i in range(rounds):
            if i % 20 == 0:
                barrier.wait()
            mine.append((i + 0.25) * H @ phi + (i + 0.5) * H @ psi)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-7)
    try:
        workers = [threading.Thread(target=work, args=(mine,)) for mine in made]
        for w in workers:
            w.start()
        for w in workers:
            w.join()
    finally:
        sys.setswitchinterval(before)
    assert all(x is y for mine in made for x, y in zip(mine, made[0], strict=True))


# ---- long and deep -----------------------------------------------------------------------------


def compiled(x: Expr, **options: Any) -> pp.Program:
    return pp.compile(x, ARM, backend="reference", **options)


def nested_inverse(depth: int) -> Expr:
    x = I + E_phi
    for _ in range(depth):
        x = (I + E_phi @ x).inv
    return x


def nested_sum(depth: int) -> Expr:
    x = phi
    for _ in range(depth):
        x = phi @ (x + I) @ psi
    return x


LONG: dict[str, Callable[[], Expr]] = {
    "sum of 2000": lambda: total_of(
        (i + 1, H @ phi ** (i % 40 + 1) @ M @ H.T) for i in range(2000)
    ),
    "sum of 2000 different": lambda: total_of((1, (i + 2) * E_phi + phi**2) for i in range(2000)),
    "product of 500": lambda: phi**500,
    "product of 500 mixed": lambda: reduce(lambda x, y: x @ y, [phi, psi, P, P.inv, proj] * 100),
    "product of 60 mass matrices": lambda: (
        reduce(lambda x, y: x @ y, [mass_matrix, D.inv] * 60) @ D
    ),
    "inverse nested 50 times": lambda: nested_inverse(50),
    "sum nested 50 times": lambda: nested_sum(50),
    "bd nested 50 times": lambda: reduce(lambda x, _: bd(phi @ x @ phi.T), range(50), M),
    "family nested 10 times": lambda: (
        reduce(lambda f, _: Riccati(E=f.E_psi), range(10), Riccati(Jr=D)).psi
    ),
    "sum of 200 families": lambda: total_of(
        (1, Riccati(Jr=(i + 1) * Jr + D).D) for i in range(200)
    ),
}


@pytest.mark.parametrize("rewrite", ["full", "as_written"])
@pytest.mark.parametrize("name", LONG)
def test_long_and_deep_expressions_compile(name: str, rewrite: str):
    x = LONG[name]()
    program = compiled(x, rewrite=rewrite)
    assert set(program.inputs) == {"q", "x"}
    assert x.T.T is x and pp.parse(x.text("ascii")) is x


def test_nesting_beyond_reason_is_refused_in_words():
    x = M
    for _ in range(450):
        x = bd(phi @ x @ phi.T)
    with pytest.raises(LoweringError, match="nested too deeply"):
        compiled(x, mode="blocks")
    with pytest.raises(ParseError, match="nested too deeply"):
        pp.parse("(" * 5000 + "φ" + ")" * 5000)


def test_long_texts_are_read_in_linear_time():
    assert pp.parse(" + ".join(["φ"] * 3000)) is 3000 * phi
    assert len(pp.parse("φ " * 3000).factors) == 3000


# ---- senseless input -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: H @ np.ones(6), r"pp\.compile\(expr, model\)\(q, x\)"),
        (lambda: np.ones(6) @ H, r"pp\.compile\(expr, model\)\(q, x\)"),
        (lambda: H @ 2, "cannot be multiplied by int"),
        (lambda: H @ [1, 2], "cannot be multiplied by list"),
        (
            lambda: H @ pp.mass_matrix,
            "by function: mass_matrix is a function of a model",
        ),
        (lambda: tau + pp.mass_matrix, "cannot add function to an operator: mass_matrix is a func"),
        (lambda: H * phi, "write X @ Y"),
        (lambda: phi / psi, "write X @ Y"),
        (lambda: 10**400 * phi, "not a finite real number"),
        (lambda: 1e308 * (1e308 * phi), "beyond 1e308"),
        (lambda: 10**300 * (10**300 * phi), "beyond 1e308"),
        (lambda: (5e-324 * phi).inv, "beyond 1e308"),
        (lambda: phi / 0, "by zero"),
        (lambda: phi + 1, r"write 1 \* I"),
        (lambda: logdet(I), "not determined"),
        (lambda: logdet(H), "has no inverse"),
        (lambda: total(M @ V, at=(1, 2)), "three finite coordinates"),
        (lambda: total(M @ V, at=(1, 2, np.nan)), "three finite coordinates"),
        (lambda: total(M @ V, at="abc"), "must be the coordinates of a point"),
        (lambda: total(tau), "total takes body forces"),
        (lambda: Riccati(Jr=3), "or 0, but it is"),
        (lambda: Riccati(Jr=M), "joint rates → joint efforts"),
        (lambda: Riccati(H=H.T), "body forces → joint efforts"),
        (lambda: Riccati(M=phi @ M @ phi.T), "must be memoryless"),
        (lambda: Riccati(E=phi), "every body to its parent"),
        (lambda: Riccati(E="E_phi"), "must be an operator"),
    ],
)
def test_senseless_expressions(make: Any, message: str):
    with pytest.raises(SpaceError, match=message):
        make()


def test_one_step_operators_of_a_family_go_one_step():
    with pytest.raises(LoweringError, match="one step"):
        compiled(Riccati(E=Riccati().psi_tilde).P)


def test_points_of_total_may_be_arrays():
    assert total(M @ V, at=np.array([1.0, 0, 0])) is total(M @ V, (1, 0, 0))
    assert total(M @ V, at=(0, 0, 0)) is total(M @ V)


def test_the_family_without_armature_is_one():
    assert Riccati(Jr=0) == Riccati(Jr=0 * Jr) == Riccati(Jr=0.0)
    assert Riccati(Jr=0).psi is pp.parse("psi{H; E_phi; M; 0}")


def test_expressions_cannot_be_damaged():
    for attempt in (
        lambda: setattr(H, "op", None),
        lambda: delattr(H, "op"),
        lambda: delattr(phi, "args"),
    ):
        with pytest.raises(AttributeError, match="immutable"):
            attempt()
    assert H.name == "H" and phi.args == ()


@pytest.mark.parametrize("x", [None, 3, b"phi", [phi], (phi, psi), M.inv])
def test_dense_refuses_what_is_no_expression_and_no_model(x: Any):
    if isinstance(x, Expr):
        with pytest.raises(InputError, match="needs a model"):
            pp.evaluate_dense(x, None, [0, 0, 0])  # type: ignore[arg-type]
    else:
        with pytest.raises(InputError, match="not an operator expression"):
            pp.evaluate_dense(x, ARM, [0, 0, 0])


RUBBISH = [
    "", " ", "*", "φ**", "φ *", "()", "(", ")", "φ)", "(φ", "+", "φ +", "φ + + φ", "@ φ", "φ @",
    "φ @@ φ", "2", "2 3", "1/0 φ", "φ^", "φ^x", "φ^{-2", "bd", "bd()", "bd(φ", "logdet φ", "P{",
    "P{}", "P{H}", "P{H; E_phi; M; 0", "P{H; E_phi; M; Jr; Jr}", "I[", "I[nowhere]", "0[forces",
    "total[1,2]", "total[a,b,c]", "H φ \x00", "φ ; ψ", "φ, ψ", "phi_", "Phi", "φφ̃̃", "φ\nψ }",
    "__import__('os')", "1e999 φ", "٣ φ", "H.T", "φ = ψ", "ψ⁻²", "½ φ", "φ⁻¹⁻¹⁻¹ ^", "a b", "φ v",
    "v v", "τ* τ τ", "P{phi; E_phi; M; 0}", "P{H; phi; M; 0}", "φ{H; E_phi; M; 0}",
]  # fmt: skip


@pytest.mark.parametrize("text", RUBBISH)
def test_rubbish_is_refused_in_words_or_makes_sense(text: str):
    """Never another exception than ours."""
    try:
        x = pp.parse(text)
    except PhipsiError as e:
        assert str(e)
    else:
        assert isinstance(x, Expr) and pp.parse(str(x)) is x


@pytest.mark.parametrize("seed", range(20))
def test_random_characters_are_refused_in_words_or_make_sense(seed: int):
    rng = np.random.default_rng(seed)
    letters = ["H", "φ", "ψ", "M", "*", "⁻¹", "(", ")", "+", "−", " ", "2", "I", "bd(", "^", "~",
               "@", "{", "}", ";", "[", "]", "τ", "0", "/", "é", "∂"]  # fmt: skip
    for _ in range(200):
        size = int(rng.integers(1, 12))
        text = "".join(letters[i] for i in rng.integers(len(letters), size=size))
        try:
            x = pp.parse(text)
        except PhipsiError:
            continue
        assert pp.parse(str(x)) is x and pp.parse(x.text("ascii")) is x


def test_mutations_of_a_good_text():
    good = "(I − H ψ K)* D⁻¹ (I − H ψ K) τ + bd(φ M φ*) H* 0.5 v"
    for i in range(len(good)):
        for text in (
            good[:i] + good[i + 1 :],
            good[:i] + good[i:][::-1],
            good[:i] + "!" + good[i:],
        ):
            try:
                pp.parse(text)
            except PhipsiError as e:
                assert str(e)


@pytest.mark.parametrize("text", [None, 3, b"phi", ["phi"]])
def test_parse_reads_text_only(text: Any):
    with pytest.raises((ParseError, TypeError)):
        pp.parse(text)


def test_hash_and_equality():
    assert hash(H @ phi) == hash(H @ phi) and H @ phi == H @ phi
    assert H @ phi != H @ psi and H != 3 and phi != "φ"
    assert len({H @ phi, H @ phi, H @ psi}) == 2
    assert identity(FORCES) != identity() and v != tau
