"""The rewrite engine: it ends, it settles, it makes nothing dearer, and it says what it did."""

from __future__ import annotations

import numpy as np
import pytest
from random_expressions import Generator

import phipsi as pp
from phipsi.core.expressions.kinds import Op
from phipsi.core.expressions.node import Expr
from phipsi.core.expressions.structure import is_strict
from phipsi.core.rewrite.causal import diagonal_and_strict
from phipsi.core.rewrite.collect import collect, count_recursions
from phipsi.core.rewrite.identities import RULES
from phipsi.core.rewrite.inverses import has_inverse, innovations_form, riccati_of, split_product
from phipsi.core.rewrite.rewriter import Rewriter, RewriteStep
from phipsi.operators import (
    D,
    E_psi,
    G,
    H,
    I,
    Jr,
    K,
    M,
    P,
    R,
    Riccati,
    a,
    b,
    cross,
    gravity,
    mass_matrix,
    parse,
    phi,
    psi,
    tau,
    v,
)

TIDYING = ("definition of ", "collect", "cancel", "invert factor by factor", "split causal")


def run(x: Expr, armature: bool = True, apply: bool = True) -> tuple[Expr, list[RewriteStep]]:
    engine = Rewriter(armature=armature, given=frozenset(), apply=apply)
    return engine.run(x), engine.steps


def draw(seed: int) -> Expr:
    rng = np.random.default_rng(seed)
    return Generator(rng, points=seed % 3 == 0, independent=True).expression()


@pytest.mark.parametrize("first", range(0, 120, 30))
def test_rewriting_settles_on_random_expressions(first: int):
    """What was rewritten is rewritten to itself, and keeps its spaces."""
    for seed in range(first, first + 30):
        for armature in (True, False):
            x = draw(seed)
            once, steps = run(x, armature)
            assert once.takes is x.takes and once.gives is x.gives
            assert len(steps) < 200
            again, _ = run(once, armature)
            assert count_recursions(again) <= count_recursions(once) or x.op is Op.LOGDET


@pytest.mark.parametrize("first", range(0, 120, 30))
def test_every_step_is_named_and_typed(first: int):
    known = {rule.name for rule in RULES}
    for seed in range(first, first + 30):
        for step in run(draw(seed))[1]:
            assert step.name in known or step.name.startswith(TIDYING), step.name
            assert step.before.takes is step.after.takes and step.before.gives is step.after.gives
            assert step.before is not step.after


@pytest.mark.parametrize("seed", range(60))
def test_rewriting_does_not_add_recursions(seed: int):
    x = _written_out(draw(seed))
    if "⁻¹" not in str(x):  # inverses have to become something else first
        assert count_recursions(run(x)[0]) <= count_recursions(x)


def _written_out(x: Expr) -> Expr:
    """The definitions and inverses written out, nothing else."""
    engine = Rewriter(armature=True, given=frozenset(), apply=False)
    return engine._expand(x)


def test_rewriting_does_not_depend_on_what_was_rewritten_before():
    x = mass_matrix.inv @ (tau - H @ phi @ (M @ phi.T @ (a + gravity) + b))
    first = run(x)
    for seed in range(10):
        run(draw(seed))
    assert run(x) == first


def test_given_names_are_not_expanded():
    engine = Rewriter(armature=True, given=frozenset({"J"}), apply=True)
    x = parse("J v")
    assert engine.run(x) is x and not engine.steps


def test_vectors_inside_cross_products_are_left_alone():
    x = cross(phi.T @ H.T @ v)
    assert run(x)[0] is x


# ---- collecting ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, collected_text",
    [
        ("φ M H* v + φ f_ext", "φ (f_ext + M H* v)"),
        ("ψ f_ext − 2 ψ b", "−ψ (2 b − f_ext)"),
        ("(φ + φ E_φ) f_ext", "φ (f_ext + E_φ f_ext)"),
        ("H φ f_ext + H ψ f_ext", "H (φ f_ext + ψ f_ext)"),
        ("φ f_ext + ψ b", "φ f_ext + ψ b"),
        ("f_ext − b", "f_ext − b"),
    ],
)
def test_common_beginnings_are_taken_out(text: str, collected_text: str):
    assert collect(parse(text)) is parse(collected_text)


def test_recursions_are_counted_once_each():
    assert count_recursions(parse("φ f_ext + π φ f_ext")) == 1
    assert count_recursions(parse("φ f_ext + φ b")) == 2
    assert count_recursions(parse("φ (f_ext + b)")) == 1
    assert count_recursions(parse("H f_ext")) == 0
    assert count_recursions(parse("φ ψ f_ext")) == 2
    assert count_recursions(parse("(I + H φ K)⁻¹ τ")) == 2  # φ and K inside


# ---- inverses ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "M", "D", "2 D + Jr", "φ", "ψ*", "I + H φ K", "2 I − E_ψ", "φ + φ̃", "ℳ", "Jr + H φ M φ* H*",
        "D + H ψ (M + R) ψ* H*", "φ M φ*", "ℳ D⁻¹ ℳ", "ψ (I + E_φ) R", "H φ M H*",
        "H φ̃ M φ̃* H* + D",
    ],
)  # fmt: skip
def test_what_has_an_inverse(text: str):
    assert has_inverse(parse(text))


@pytest.mark.parametrize(
    "text",
    ["E_φ", "H φ̃ G", "H M φ* H* + H φ M H*", "φ M φ* + M", "ℳ + H φ G D", "φ̃ M φ̃*"],
)
def test_what_has_none(text: str):
    assert not has_inverse(parse(text))


def test_the_family_of_a_mass_matrix():
    assert riccati_of(parse("Jr + H φ M φ* H*")) == Riccati()
    assert riccati_of(parse("H φ M φ* H*")) == Riccati(Jr=0)
    assert riccati_of(parse("2 Jr + 3 H φ R φ* H*")) == Riccati(M=3 * R, Jr=2 * Jr)
    assert riccati_of(parse("D + H ψ P ψ* H*")) == Riccati(E=E_psi, M=P, Jr=D)
    assert riccati_of(parse("H φ M φ* H* + H φ R φ* H* + Jr")) == Riccati(M=M + R)
    assert riccati_of(D) is None and riccati_of(phi) is None


def test_the_weight_must_be_symmetric():
    assert riccati_of(Jr + H @ phi @ M @ phi.T @ H.T + H @ G @ D @ D.inv @ Jr) is None


def test_innovations_form():
    whiten = I - H @ psi @ K
    assert innovations_form(parse("Jr + H φ M φ* H*")) is whiten.T @ D.inv @ whiten
    assert innovations_form(parse("H φ M ψ* H*")) is None


def test_products_are_split_into_the_fewest_pieces():
    x = parse("φ M φ*")
    assert split_product(x) == (phi @ M, phi.T) or split_product(x) == (phi, M @ phi.T)
    assert split_product(parse("H φ M φ* H*")) is None


@pytest.mark.parametrize(
    "text", ["φ", "R ψ*", "I + H φ K", "φ E_φ ψ", "2 φ − 3 ψ", "(2 I + E_φ)⁻¹", "K", "ψ̃ φ"]
)
def test_diagonal_and_strict_parts_add_up(text: str):
    x = parse(text)
    found = diagonal_and_strict(x)
    assert found is not None
    diagonal, strict = found
    assert is_strict(strict.structure)
    model = pp.examples.planar_arm(3)
    q = [0.1, -0.4, 0.7]
    whole, parts = (pp.evaluate_dense(y, model, q) for y in (x, diagonal + strict))
    np.testing.assert_allclose(parts, whole, atol=1e-12)
    np.testing.assert_allclose(
        pp.evaluate_dense(pp.operators.bd(x), model, q), pp.evaluate_dense(diagonal, model, q)
    )
