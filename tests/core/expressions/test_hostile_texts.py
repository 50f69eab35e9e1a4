"""Texts that once hung, filled the memory, or raised something else than a `PhipsiError`.

The large run is `scripts/fuzz_expressions.py`; its outcome is in docs/robustness.md.
"""

from __future__ import annotations

import random

import pytest
from expression_texts import Bad, check_message, mutated, outcome, text_of

import phipsi as pp
from phipsi.core.expressions import node
from phipsi.core.expressions.parse import LONGEST
from phipsi.core.operators import identity
from phipsi.core.rewrite import rewriter
from phipsi.core.rewrite.collect import count_products, count_recursions
from phipsi.core.rewrite.rewriter import Rewriter
from phipsi.core.sweeps import equation_builder as builder
from phipsi.errors import InputError, LoweringError, ParseError, PhipsiError, SpaceError
from phipsi.operators import D, E_phi, H, I, K, M, mass_matrix, parse, phi, psi

ARM = pp.examples.planar_arm(2)


def rewritten(x: node.Expr) -> Rewriter:
    out = Rewriter(armature=True, given=frozenset(), apply=True)
    out.run(x)
    return out


# ---- a sample of the large run -------------------------------------------------------------------


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_random_texts(first: int):
    outcomes = [outcome(text_of(seed), run=seed % 10 == 0) for seed in range(first, first + 100)]
    assert sum(o in ("compiled", "run") for o in outcomes) >= 15
    assert sum(o.startswith("parse") for o in outcomes) >= 15


def test_what_is_looked_for_would_be_found(monkeypatch: pytest.MonkeyPatch):
    """The twin: other exceptions, raw control characters and long messages are no good outcomes."""
    with pytest.raises(Bad):
        check_message("colour \x1b[31m")
    with pytest.raises(Bad):
        check_message("x" * 10_000)

    def broken(*_: object) -> str:
        raise IndexError

    monkeypatch.setattr(pp, "explain", broken)
    with pytest.raises(IndexError):
        outcome("H φ M")


def test_texts_are_drawn_from_their_seeds():
    assert text_of(7) == text_of(7) and len({text_of(seed) for seed in range(200)}) > 150
    assert mutated(random.Random(3), "H φ") == mutated(random.Random(3), "H φ")


# ---- one by one ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, error, message",
    [
        ("ψ^999999999", LoweringError, "too large"),
        ("ψ^" + "9" * 5000, ParseError, "at most 400 digits"),
        ("((((φ + ψ)^99 + I)^99 + I)^99 + I)^99", LoweringError, "too large"),
        ("1e99999999/3 M", ParseError, "at most 400 digits"),
        ("9" * 5000 + " M", ParseError, "at most 400 digits"),
        ("1e309 M", SpaceError, "beyond 1e308"),
        ("1e200 1e200 M", SpaceError, "beyond 1e308"),
        (("1/" + "7" * 300 + " ") * 20 + "M", SpaceError, "too many digits"),
        ("1/0 M", ParseError, "divides by zero"),
        ("1.2.3 M", ParseError, "without a space"),
        ("0[motions]", ParseError, "two spaces"),
        ("0[motions, forces, forces]", ParseError, "two spaces"),
        ("dH_trace[x](H* D; v)", ParseError, "not the number of a direction"),
        ("dH_trace[99999](H* D; v)", ParseError, "not the number of a direction"),
        ("dHT[x]{v}", ParseError, "not the number of a direction"),
        ("dHT[0]", ParseError, "braces"),
        ("dBT", ParseError, r"dBT\{x\}"),
        ("V* dBT*", ParseError, r"dBT\{x\}"),
        ("dA", ParseError, r"dA\{x\}"),
        ("select", ParseError, r"Λ\[P\]"),
        ("unit_rate", ParseError, r"unit_rate\[name\]"),
        ("unit_rate[a, b]", ParseError, "a number from 0"),
        ("unit_rate[, 0]", ParseError, "a name and a number"),
        ("operand[\x1b]", ParseError, r"'\\x1b' is not a space"),
        ("total[a]", ParseError, "not the coordinates"),
        ("total[1e999, 0, 0] M", SpaceError, "three finite coordinates"),
        ("bd(A)", SpaceError, "one row and one column block per body"),
        ("bd(φ; φ)", ParseError, "does not take 2"),
        ("M^2", SpaceError, r"\(M\)\^2 does not compose"),
        ("M^0", SpaceError, "identity on the space"),
        ("H \x1b[31m φ", ParseError, r"\\x1b"),
        ("H \u202e φ", ParseError, r"\\u202e"),
        ("H \ud800 φ", ParseError, r"\\ud800"),
        ("H φ " * LONGEST, ParseError, "characters; at most"),
        ("(" * 5000 + "H", ParseError, "too deeply"),
    ],
    ids=lambda x: x[:24] if isinstance(x, str) else "",
)
def test_is_refused(text: str, error: type[PhipsiError], message: str):
    with pytest.raises(error, match=message) as caught:
        parse(text)
    check_message(str(caught.value))


@pytest.mark.parametrize(
    "text", ["φ H", "H φ + ψ", "M + I", "2 φ (H φ)", "φ* M^2", "cross(M)", "1e200 1e200 M"]
)
def test_what_does_not_fit_is_shown_in_the_text(text: str):
    with pytest.raises(SpaceError) as caught:
        parse(text)
    *_, shown, mark = str(caught.value).splitlines()
    assert shown.strip() == text and mark.strip() == "^"
    assert str(caught.value).count("\nin:") == 1


def test_only_the_surroundings_of_a_fault_are_shown():
    with pytest.raises(ParseError) as caught:
        parse("φ " * 500 + "phy" + " φ" * 500)
    _, shown, mark = str(caught.value).splitlines()
    assert len(shown) < 150 and shown[mark.index("^") :].startswith("phy")


@pytest.mark.parametrize(
    "text, x",
    [
        ("D^1", D),
        ("D^-1", D.inv),
        ("D⁻¹", D.inv),
        ("D^{-1}", D.inv),
        ("φ^0", identity(phi.takes)),
        ("φ^-2", phi.inv @ phi.inv),
        ("ψ^-12", psi.inv**12),
        ("φ²", phi @ phi),
        ("φ⁻²", phi.inv @ phi.inv),
        ("E_φ^{3}", E_phi**3),
        ("1/2.5 M", parse("2/5 M")),
        ("I^999999999 M", M),
    ],
)
def test_powers_and_numbers_that_have_a_meaning(text: str, x: node.Expr):
    assert parse(text) is x


def test_text_goes_where_expressions_go():
    text = "ℳ⁻¹"
    assert pp.compile(text, ARM) is pp.compile(mass_matrix.inv, ARM)
    assert str(pp.explain(text)) == str(pp.explain(mass_matrix.inv))
    assert str(pp.explain(text, ARM)) == str(pp.explain(mass_matrix.inv, ARM))
    q = [0.3, 0.5]
    assert (pp.evaluate_dense(text, ARM, q) == pp.evaluate_dense(mass_matrix.inv, ARM, q)).all()
    several = pp.compile((text, D), ARM, mode="dense")
    assert several.request.expressions == (mass_matrix.inv, D)
    for function in (pp.compile, pp.explain):
        with pytest.raises(ParseError, match="did you mean phi"):
            function("H phy", ARM)


def test_selections_and_rows_are_looked_up_when_compiled():
    """Λ[P] compiled for a model without selections raised KeyError when the program was run."""
    for text, what in (("Λ[P]", "no selection 'P'"), ("A J", "constraint rows")):
        with pytest.raises(InputError, match=what):
            pp.compile(text, ARM, points=["link2"])
        for axes in (None, "body"):
            assert "recursion" in str(pp.explain(text, axes=axes))


# ---- rewriting and lowering within bounds --------------------------------------------------------


def test_powers_cost_no_more_than_their_factor():
    """Counted, not timed: rules applied and factors looked at."""
    one = rewritten(mass_matrix.inv @ mass_matrix)
    many = rewritten((mass_matrix.inv @ mass_matrix) ** 64)
    assert many.run(mass_matrix.inv @ mass_matrix) is identity(mass_matrix.takes)
    assert len(many.steps) <= len(one.steps) + 6 and many._work <= 6 * one._work
    few, lots = (rewritten((phi @ E_phi) ** n) for n in (4, 256))
    assert len(lots.steps) <= len(few.steps) + 6
    whole = (I + phi + psi) ** 20
    assert rewritten(whole)._work < 100
    assert count_recursions(whole) == 40 and count_products(whole) == 3**20


def test_a_power_has_the_value_of_the_product():
    for text in ("(I + H φ K)^6", "((I − H ψ K) H φ K)^5", "(φ E_φ)^7", "(ℳ⁻¹ D)^5"):
        x, q = parse(text), [0.3, 0.5]
        got = pp.compile(x, ARM, mode="dense", backend="reference")(q)
        want = pp.evaluate_dense(x, ARM, q)
        assert abs(got - want).max(initial=0) <= 1e-12 * max(1.0, abs(want).max(initial=0))


def test_texts_of_parts_are_made_once():
    x = parse("((I + E_ψ*) (cross(V) φ̃*^20 + π*) (I + φ̃*)^3)^5")
    parts = {y for y in (x, *x.args, *(z for y in x.args for z in y.args))}
    assert str(x) and all("greek inside" in y._keys for y in parts if y is not x)


def test_a_long_product_is_lowered():
    assert len(pp.explain(psi**300).sweeps) == 1  # P and all the products in one


def test_the_bound_on_rewriting_says_where_it_went(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rewriter, "_MOST_WORK", 20)
    for kept in ("rewrite_one", "use_all_rules"):
        monkeypatch.setattr(rewriter, kept, getattr(rewriter, kept).__wrapped__)
    with pytest.raises(LoweringError, match=r"1 × definition of ℳ.*factors") as caught:
        pp.explain(mass_matrix.inv @ H @ psi @ K)
    assert "rewrite='as_written'" in str(caught.value)


def test_the_bound_on_programs(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(LoweringError, match="program is too large"):
        pp.explain("(φ ψ)^-50")
    with pytest.raises(LoweringError, match="sweeps one after the other"):
        pp.explain("(1/2 v* ℳ v)^400")
    monkeypatch.setattr(builder, "MOST_WORK", 50)
    with pytest.raises(LoweringError, match="program is too large"):
        pp.explain("ℳ⁻¹")
