"""expand, rewrite, collect, subs, simplify: against exact values, and their errors."""

from __future__ import annotations

import re

import numpy as np
import pytest
from random_expressions import Generator
from random_models import branching

import phipsi as pp
from phipsi.core.expressions.node import Expr
from phipsi.errors import InputError, SpaceError
from phipsi.operators import mass_matrix, parse
from phipsi.papers.derivations.manipulate import occurs, replace
from phipsi.papers.derivations.normal_form import words_of
from phipsi.papers.proofs.claim_decision import equal, modular_state
from phipsi.papers.theorems.book_index import all_identities

TREE = branching(4, 8, armature=True)
STATE = modular_state(TREE, 0, 0, False)


def same(x, y) -> bool:
    """Equal on a random tree with rotors, modulo a prime."""
    return equal(STATE.fresh().applied(x), STATE.fresh().applied(y))


def drawn(seed: int) -> Expr:
    """A random expression without square roots and logarithms, which primes do not have."""
    generator = Generator(np.random.default_rng(seed), points=False, independent=True)
    drawings = (generator.expression() for _ in range(100))
    return next(x for x in drawings if not {"D_half", "logdet"} & set(re.findall(r"\w+", repr(x))))


def test_the_normal_form_has_the_same_value():
    """Forty random expressions; on so small a tree a few of them are zero."""
    different = 0
    for seed in range(40):
        x = drawn(seed)
        words = words_of(x)
        assert same(x, words.expression()), x
        assert words_of(words.expression()).key == words.key
        assert words_of(x.T).key == words.adjoint().key
        different += not same(x, words.expression() + x)
    assert different > 30


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("(I + H φ K) (I − H ψ K)", "I + H φ K − H ψ K − H φ K H ψ K"),
        ("(φ M φ*)⁻¹", "φ*⁻¹ M⁻¹ φ⁻¹"),
        ("A (J ℳ⁻¹ J*) A* (A J ℳ⁻¹ J* A*)⁻¹ A", "A"),
        ("bd(M + G H P)", "M + G H P"),
        ("bd(E_φ M)", "0[motions,forces]"),
        ("bd(H φ M φ* H*)", "H bd(φ M φ*) H*"),
        ("cross(V + φ* H* vdot)", "cross(V) + cross(φ* H* vdot)"),
        ("v* τ − τ* v", "0[ones,ones]"),
        ("½ (2 φ − 2 ψ)", "φ − ψ"),
    ],
)  # fmt: skip
def test_laws_of_the_normal_form(text: str, normal: str):
    text = text.replace("½", "1/2")
    if normal.startswith("0["):
        assert words_of(parse(text)).is_zero
    else:
        assert words_of(parse(text)).key == words_of(parse(normal)).key


def test_too_many_products_are_rejected():
    with pytest.raises(InputError, match="more than 4096 products"):
        words_of(parse("φ + ψ") ** 13)


@pytest.mark.parametrize(
    ("text", "names", "after"),
    [
        ("ℳ⁻¹ τ", ["mass_matrix"], "(Jr + H φ M φ* H*)⁻¹ τ"),
        ("ℳ⁻¹ τ", ["ℳ"], "(Jr + H φ M φ* H*)⁻¹ τ"),
        ("J* f0", [], "H φ B f0"),
        ("ψ", ["psi", "E_psi"], "(I − E_φ π̄)⁻¹"),
        ("H G", ["G"], "H P H* D⁻¹"),
        ("P", ["P"], "M + E_ψ P E_φ*"),
        ("D{H; E_φ; M; 0}", ["D"], "H P{H; E_φ; M; 0} H*"),
    ],
)
def test_expand(text: str, names: list[str], after: str):
    x = parse(text).expand(*names)
    assert x is parse(after)
    assert "f0" in text or same(parse(text), x)


@pytest.mark.parametrize(
    ("text", "identity", "reverse", "at", "after"),
    [
        ("(I − H ψ K) H φ B", "Lemma 0.4", False, None, "H ψ B"),
        ("B* φ* H* (I − H ψ K)*", "SOA Lemma 0.4", False, None, "B* ψ* H*"),
        ("H ψ B", "lemma 0.4", True, None, "(I − H ψ K) H φ B"),
        ("H φ − H ψ K H φ + H", "Lemma 0.4", False, None, "H ψ + H"),
        ("ℳ⁻¹ τ", "SOA Lemma 0.3", False, None, "(I − H ψ K)* D⁻¹ (I − H ψ K) τ"),
        ("φ K H ψ + φ K H ψ E_φ", "88-11 a.28", False, "φ K H ψ E_φ", "φ K H ψ + (φ − ψ) E_φ"),
        ("φ M V", "velocities", False, (2,), "φ M φ* H* v"),
        ("ψ{H; E_φ; M; 0} K{H; E_φ; M; 0} H φ", "88-11 a.18", False, None, "φ − ψ{H; E_φ; M; 0}"),
    ],
)
def test_rewrite(text, identity, reverse, at, after):
    x = parse(text).rewrite(identity, reverse=reverse, at=at)
    assert words_of(x).key == words_of(parse(after)).key


@pytest.mark.parametrize("identity", [i for i in all_identities() if i.lhs and not i.sweeps])
def test_every_identity_rewrites_its_own_sides(identity):
    assert words_of(identity.lhs.rewrite(identity)).key == words_of(identity.rhs).key


def test_collect_and_subs():
    assert parse("H φ b + τ + H φ M V").collect("H φ") is parse("τ + H φ (b + M V)")
    assert parse("H φ M + H ψ M").collect("M") is parse("(H φ + H ψ) M")
    assert parse("φ + φ K H").collect("φ") is parse("φ (I + K H)")
    assert parse("H (φ + ψ) M + H ψ P").collect("H ψ") is parse("H φ M + H ψ (M + P)")
    assert parse("ℳ v̇").subs({"v̇": "ℳ⁻¹ τ"}) is parse("ℳ ℳ⁻¹ τ")
    assert parse("φ M φ*").subs({"φ": "ψ"}) is parse("ψ M ψ*")
    assert parse("H φ M ψ*").subs({"phi": "psi", "psi": "phi"}) is parse("H ψ M φ*")
    assert parse("φ M V").subs({"φ M": "ψ P"}) is parse("ψ P V")
    assert parse("φ M").subs({"φ": "I"}) is parse("M")


def test_simplify_is_equal_and_not_dearer():
    for text in ("(I − H ψ K) H φ M φ* H*", "φ − φ K H ψ", "ℳ⁻¹ H φ", "H φ M φ* H* + Jr"):
        x = parse(text)
        y = pp.simplify(text)
        assert same(x, y)
        assert pp.explain(y).flops <= pp.explain(x, rewrite="as_written").flops
    assert pp.simplify("φ − φ K H ψ") is parse("ψ")
    arm = pp.examples.planar_arm(2)
    assert same(mass_matrix, pp.simplify(mass_matrix, arm))


def test_show(capsys):
    parse("(I − H ψ K) H φ").rewrite("Lemma 0.4", show=True)
    shown = capsys.readouterr().out
    assert shown == (
        "(I − H ψ K) H φ\n    = H ψ   Lemma 0.4 / Lemma 4 [SOA Lemma 0.4; 88-11 a.35]\n"
    )


def test_occurs_and_replace():
    x = parse("H φ K (I − H ψ K) H + H φ E_φ")
    for part in ("H φ", "φ K", "H ψ K", "I − H ψ K", "φ E_φ", "K (I − H ψ K)"):
        assert occurs(x, parse(part)), part
    for part in ("K H", "ψ M", "I + H ψ K", "φ E_φ φ"):
        assert not occurs(x, parse(part)), part
    assert replace(x, parse("φ K"), parse("ψ K")) is parse("H ψ K (I − H ψ K) H + H φ E_φ")


@pytest.mark.parametrize(
    ("act", "error", "text"),
    [
        (lambda: parse("φ M").rewrite("Lemma 0.44"), InputError, "Did you mean 'Lemma 0.4'"),
        (lambda: parse("φ M").rewrite("velocity sweep"), InputError, "cannot be used as a step"),
        (lambda: parse("φ K H φ").rewrite("φ K H ψ"), InputError, "occurs there is  φ K H"),
        (lambda: parse("H ψ").rewrite("Lemma 0.4"), InputError, "reverse=True"),
        (lambda: parse("φ M").rewrite("Lemma 0.4", at="ψ"), InputError, "ψ does not occur in"),
        (lambda: parse("φ M").rewrite("Lemma 0.4", at=(5,)), InputError, "0: φ, 1: M"),
        (lambda: parse("φ M").rewrite(3), InputError, "its number such as 'SOA 0.28', not int"),
        (
            lambda: parse("φ M").rewrite("φ = ψ"),
            InputError,
            'Write  pp.Identity("φ", "ψ")',
        ),
        (lambda: parse("φ M").expand("mass_matrix"), InputError, "does not occur"),
        (lambda: parse("φ M").expand("M"), InputError, "is primitive"),
        (lambda: parse("φ M").collect("φ"), InputError, "fewer than two terms"),
        (lambda: parse("φ M").collect("φ", side="up"), InputError, "'left', 'right'"),
        (lambda: parse("φ M").subs({"M": "φ"}), SpaceError, "cannot be replaced by φ"),
        (lambda: parse("φ M").subs({"ψ": "φ"}), InputError, "does not occur"),
    ],
)
def test_errors(act, error, text: str):
    with pytest.raises(error) as raised:
        act()
    assert text in str(raised.value)
