"""Every rewrite rule: it holds, it brings both sides to one program, it fires nowhere else."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from program_text import steps_text
from random_models import branching, random_tree
from rounding import ALLOWED, RoundedOracle, excess

import phipsi as pp
from phipsi.core.dense import evaluate_dense
from phipsi.core.expressions.node import Expr
from phipsi.core.model.model import Model
from phipsi.core.rewrite.identities import ACCELERATIONS, MATRICES, NO_ARMATURE, RULES, SMOOTHING
from phipsi.core.rewrite.identity import Identity
from phipsi.core.rewrite.patterns import instances
from phipsi.errors import LoweringError
from phipsi.operators import (
    D,
    E_phi,
    E_psi,
    G,
    H,
    I,
    Jr,
    K,
    Lam_phi,
    M,
    P,
    R,
    Riccati,
    bd,
    logdet,
    mass_matrix,
    phi,
    phi_tilde,
    proj_bar,
    psi,
    psi_tilde,
    shift,
)

compiled = partial(pp.compile, backend="reference")
PLAIN = branching(6, 11)
GEARED = branching(6, 11, armature=True)
other = Riccati(Jr=0)
FAMILIES = {
    "without Jr": other,
    "damped": Riccati(Jr=Jr + 0.1 * D),
    "of composite bodies": Riccati(M=R, Jr=D),
    "on ψ": Riccati(E=E_psi),
}

WITH_FAMILIES = [
    pytest.param(rule, family, id=f"{rule.name}, {name}")
    for rule in RULES
    for name, family in FAMILIES.items()
    if family is other or not rule.condition
]
every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)


def models_for(rule: Identity) -> list[Model]:
    return [PLAIN] if rule.condition else [PLAIN, GEARED]


def modes_for(rule: Identity) -> list[str]:
    """Composite bodies are for matrices, FD4's rule and smoothing for products with vectors."""
    if rule in MATRICES:
        return ["dense"]
    return ["apply"] if rule in (*ACCELERATIONS, *SMOOTHING) else ["apply", "dense"]


def state(model: Model, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {"q": model.random_configuration(rng), "v": rng.standard_normal(model.nv)}


@cache
def oracle(model: Model) -> RoundedOracle:
    return RoundedOracle(model, **state(model))


def assert_equal_by_dense(left: Expr, right: Expr, model: Model) -> None:
    (a, one), (b, other) = (oracle(model).with_rounding(x) for x in (left, right))
    assert excess(a, b, np.maximum(one, other)) <= ALLOWED


def rewrites(x: Expr, model: Model, mode: str = "apply") -> list[str]:
    return [step.name for step in compiled(x, model, mode=mode).explain().rewrites]


@cache
def forest(seed: int, armature: bool) -> Model:
    return random_tree(seed, 6, n_roots=1 + seed % 2, armature=armature)


# ---- they hold ---------------------------------------------------------------------------------


@every_rule
@pytest.mark.parametrize("seed", range(3))
def test_both_sides_are_equal(rule: Identity, seed: int):
    assert_equal_by_dense(*rule.sides, forest(seed, armature=not rule.condition))


@pytest.mark.parametrize("rule", NO_ARMATURE, ids=lambda rule: rule.name)
def test_the_condition_on_armature_is_needed(rule: Identity):
    left, right = (evaluate_dense(x, GEARED, **state(GEARED)) for x in rule.sides)
    assert np.abs(left - right).max() > 1e-3


@pytest.mark.parametrize("rule, family", WITH_FAMILIES)
def test_instances_for_other_families_hold(rule: Identity, family: Riccati):
    for i in instances(rule, family):
        assert_equal_by_dense(i.before, i.after, GEARED)


# ---- both sides become one program ---------------------------------------------------------------


@every_rule
def test_both_sides_compile_to_one_program(rule: Identity):
    for model in models_for(rule):
        for mode in modes_for(rule):
            for left, right in (rule.sides, [x.T for x in rule.sides]):
                programs = [compiled(x, model, mode=mode) for x in (left, right)]
                assert steps_text(programs[0]) == steps_text(programs[1])


@pytest.mark.parametrize("rule, family", WITH_FAMILIES)
def test_both_sides_compile_to_one_program_for_other_families(rule: Identity, family: Riccati):
    mode = modes_for(rule)[0]
    for i in instances(rule, family):
        programs = [compiled(x, GEARED, mode=mode) for x in (i.before, i.after)]
        assert steps_text(programs[0]) == steps_text(programs[1])


@every_rule
def test_the_rule_is_named_among_the_rewrites(rule: Identity):
    assert rule.name in rewrites(rule.sides[0], models_for(rule)[0], modes_for(rule)[0])


# ---- they do not fire elsewhere ------------------------------------------------------------------

seen = psi.T @ H.T @ D.inv
NEAR_MISSES: dict[str, Expr] = {
    "innovations factorization": (D + H @ phi_tilde @ M @ H.T).inv,
    "invert the colouring filter": (I + 2 * H @ phi @ K).inv,
    "invert the whitening filter": (I + H @ psi @ K).inv,
    "invert φ": (I + phi).inv,
    "invert ψ": (I + psi).inv,
    "sum the series of E_φ": (I + E_phi).inv,
    "sum the series of E_ψ": (I - 2 * E_psi).inv,
    "log det of the mass matrix": logdet(D + Jr),
    "whiten φ": (I - H @ psi @ other.K) @ H @ phi,
    "whiten φ̃": (I - H @ psi @ other.K) @ H @ phi_tilde,
    "colour ψ": (I + H @ phi @ K) @ H @ other.psi,
    "colour a gain": other.psi @ K @ (I + H @ phi @ K),
    "whiten a gain": phi @ other.K @ (I - H @ psi @ K),
    "colour and whiten": (I + H @ phi @ K) @ (I - H @ psi @ other.K),
    "whiten and colour": (I - H @ psi @ K) @ (I + H @ phi @ other.K),
    "φ K H ψ": phi @ K @ H @ other.psi,
    "ψ K H φ": psi @ other.K @ H @ phi,
    "φ̃ from the right": phi @ E_psi,
    "φ̃ from the left": E_psi @ phi,
    "ψ̃ from the right": psi @ E_phi,
    "ψ̃ from the left": E_phi @ psi,
    "gain of E_φ": E_psi @ G,
    "join the shift and its weight": Lam_phi @ shift,
    "step of π̄": shift @ proj_bar,
    "smooth without φ* a": (I - H @ psi @ K).T @ D.inv @ H @ psi @ M @ psi.T,
    "φ − I": phi + I,
    "ψ − I": psi - phi,
    "I + φ̃": phi_tilde - I,
    "I + ψ̃": I + 2 * psi_tilde,
    "φ − φ̃": phi + phi_tilde,
    "ψ − ψ̃": psi - phi_tilde,
    "ψ step": E_phi + K @ H,
    "Riccati with ψ on both sides": M - P + E_psi @ P @ E_phi.T,
    "ψ M ψ*": psi @ M @ phi.T - P - psi_tilde @ P - P @ psi_tilde.T,
    "H G": H @ G,
    "H π̄": H @ proj_bar,
    "π̄ G": proj_bar @ G,
    "π̄ P H*": proj_bar @ P @ H.T,
    "Lemma .7d": H @ psi @ M @ psi.T @ H.T,
    "smoothed covariance": phi @ M @ phi.T - phi @ M @ seen @ H @ psi @ M @ psi.T,
    "covariance of smoothed forces": bd(phi @ M @ seen @ H @ psi @ M @ psi.T),
    "blocks of Ω": bd(psi.T @ H.T @ D.inv @ H @ phi),
    "composite bodies": phi @ M @ psi.T,
}


def test_every_rule_has_a_near_miss():
    assert set(NEAR_MISSES) == {rule.name for rule in RULES}


@every_rule
def test_the_rule_does_not_fire_on_a_near_miss(rule: Identity):
    x, mode = NEAR_MISSES[rule.name], modes_for(rule)[0]
    assert rule.name not in rewrites(x, GEARED, mode)
    program = compiled(x, GEARED, mode="dense")
    wanted = oracle(GEARED).with_rounding(x)
    assert excess(program(state(GEARED)["q"]), *wanted) <= ALLOWED


@pytest.mark.parametrize(
    "text",
    [
        "(H φ M φ* H* + H φ M H*)⁻¹",  # what is added is not memoryless
        "(Jr + H φ M ψ* H*)⁻¹",  # two transition operators
        "(Jr + H φ̃ M φ* H*)⁻¹",
        "(H φ M φ* H* + H ψ M ψ* H* + Jr)⁻¹",
        "(φ M φ* + M)⁻¹",  # on bodies
        "(Ω + M⁻¹)⁻¹",
    ],
)
def test_inverses_without_sweeps_are_refused_with_the_residue(text: str):
    x = pp.parse(text)
    for mode in ("full", "as_written"):
        with pytest.raises(LoweringError, match=r"no O\(N\) form found for") as e:
            compiled(x, GEARED, rewrite=mode)
        assert str(x) in str(e.value) if mode == "as_written" else "⁻¹" in str(e.value)
        assert "pp.evaluate_dense(" in str(e.value)


def test_a_form_close_to_the_mass_matrix_is_pointed_out():
    with pytest.raises(LoweringError) as e:
        compiled((H @ phi @ M @ psi.T @ H.T).inv, GEARED)
    assert "(H φ M ψ* H*)⁻¹" in str(e.value) and "needs   H φ X φ* H*" in str(e.value)


def test_half_a_mass_matrix_is_triangular_and_has_an_inverse():
    x = (H @ phi @ M @ H.T).inv  # = (H M H* + H φ̃ M H*)⁻¹
    want = np.linalg.inv(evaluate_dense(x.args[0], GEARED, **state(GEARED)))
    np.testing.assert_allclose(Run(GEARED).matrix(x), want, rtol=1e-9, atol=1e-9)


# ---- armature ------------------------------------------------------------------------------------


@dataclass
class Run:
    """Programs and dense matrices of one model in one state."""

    model: Model
    seed: int = 0
    at: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.at = {"q": state(self.model, self.seed)["q"]}

    def matrix(self, x: Expr, rewrite: str = "full") -> np.ndarray:
        return compiled(x, self.model, mode="dense", rewrite=rewrite)(**self.at)


@pytest.mark.parametrize("rewrite", ["full", "as_written"])
def test_an_inverse_without_jr_does_not_use_a_p_with_it(rewrite: str):
    run = Run(GEARED)
    bare = H @ phi @ M @ phi.T @ H.T
    want = np.linalg.inv(evaluate_dense(bare, GEARED, **state(GEARED)))
    np.testing.assert_allclose(run.matrix(bare.inv, rewrite), want, rtol=1e-9, atol=1e-9)
    geared = run.matrix(mass_matrix.inv, rewrite)
    assert np.abs(geared - want).max() > 1e-2 * np.abs(want).max()


def test_the_family_of_a_sum_has_all_its_memoryless_terms():
    x = (H @ phi @ M @ phi.T @ H.T + 2 * Jr + 0.5 * D).inv
    names = [str(y) for s in pp.explain(x).rewrites for y in [s.after]]
    assert any("{H; E_φ; M; 1/2 D + 2 Jr}" in name for name in names), names
    want = np.linalg.inv(evaluate_dense(x.args[0], GEARED, **state(GEARED)))
    np.testing.assert_allclose(Run(GEARED).matrix(x), want, rtol=1e-9, atol=1e-9)


def test_without_armature_all_families_are_one():
    programs = [
        compiled(x.inv, PLAIN)
        for x in (mass_matrix, H @ phi @ M @ phi.T @ H.T, mass_matrix + 3 * Jr)
    ]
    assert len({steps_text(p) for p in programs}) == 1


def test_negative_weights_are_legal_as_long_as_d_is_regular():
    x = (mass_matrix - 2 * Jr).inv
    want = np.linalg.inv(evaluate_dense(x.args[0], GEARED, **state(GEARED)))
    np.testing.assert_allclose(Run(GEARED).matrix(x), want, rtol=1e-8, atol=1e-8)


# ---- what the rewriter finds by itself -----------------------------------------------------------


@pytest.mark.parametrize(
    "text, found",
    [
        ("ℳ⁻¹", "(I − K* ψ* H*) D⁻¹ (I − H ψ K)"),
        ("(I − H ψ K) H φ", "H ψ"),
        ("ℳ⁻¹ H φ", "(I − K* ψ* H*) D⁻¹ H ψ"),
        ("φ* H* ℳ⁻¹ H φ", "ψ* H* D⁻¹ H ψ"),
        ("J ℳ⁻¹ J*", "B* ψ* H* D⁻¹ H ψ B"),
        ("Λ", "B* ψ* H* D⁻¹ H ψ B"),
        ("(I + H φ K)⁻¹ (I + H φ K)", "I[efforts]"),
        ("(φ⁻¹ + K H)⁻¹", "ψ"),
        ("ψ (φ⁻¹ + K H)", "I[forces]"),
        ("ψ ψ⁻¹", "I[forces]"),
        ("ℳ⁻¹ ℳ", "I[rates]"),
        ("D (H φ M φ* H*)⁻¹ H φ M φ* H*", "D"),
        ("logdet(ℳ)", "logdet(D)"),
        ("2 (2 ℳ)⁻¹", "(I − K* ψ* H*) D⁻¹ (I − H ψ K)"),
    ],
)
def test_the_rewriter_finds(text: str, found: str):
    left, right = (pp.explain(pp.parse(x)).lowered for x in (text, found))
    assert left == right


def test_rewriting_settles_and_keeps_no_trace_of_the_order():
    """Rewriting what was rewritten changes nothing, and sums may be typed in any order."""
    left = (Jr + H @ phi @ M @ phi.T @ H.T).inv
    right = (H @ phi @ M @ phi.T @ H.T + Jr).inv
    assert left is right
    once = pp.explain(left).lowered[0]
    again = pp.explain(once)
    assert again.lowered == (once,) and not again.rewrites


def test_as_written_rewrites_nothing():
    explanation = pp.explain(mass_matrix.inv, rewrite="as_written")
    assert explanation.rewrites == () and explanation.lowered == (mass_matrix.inv,)
