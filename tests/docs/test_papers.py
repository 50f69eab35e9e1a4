"""The pages docs/papers: every number of the papers is there, and every typed equation holds.

A row of a page has the numbers, the equation as printed (LaTeX that phipsi reads), what it is here,
and names of the book. Equations are proved on a chain and on a tree without armature (the
papers have none). Expressions without two sides are compiled and compared with dense matrices.
"erratum" means that what is printed fails.
"""

import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from random_models import branching, chain

import phipsi as pp
from phipsi.core.expressions.node import SELECTABLE, Expr
from phipsi.core.operators.inputs import leaves_of
from phipsi.core.rewrite.identities import RULES
from phipsi.core.rewrite.identity import Identity
from phipsi.core.sweeps.request import NEEDS_ROWS
from phipsi.operators import parse
from phipsi.papers.theorems.book import ERRATA, THEOREMS
from phipsi.papers.theorems.book_index import identity_named
from phipsi.papers.theorems.printed_equations import expanded, printed
from phipsi.papers.theorems.prove import _together

PAGES = Path(__file__).parents[2] / "docs" / "papers"
KINDS = ("proved", "computed", "defined", "book", "erratum", "prose", "outside", "lost")
BOOK = {x.name for x in (*THEOREMS, *RULES)}
MISPRINTS = {x.name for x in ERRATA}
SERIAL, TREE = chain(3, 5), branching(4, 3)
SERIAL_REVOLUTE = chain(3, 5, ["revolute"])
PIN = pp.constraints.Spherical(name="pin", a=TREE.body_names[3], b="world")
HAND = pp.constraints.Spherical(name="hand", a=TREE.body_names[2], b=TREE.body_names[1])
SYSTEM = pp.System(TREE, [PIN, HAND], secondary=[TREE.body_names[1]])

# every number of the papers; what was lost in a scan counts
NUMBERS = {
    "SOA": "0.1–0.37 .38–.50 Lemma-0.1–0.4 Lemma-.5–.7 Step-A–F",
    "MM": "1–79 Identity-1–6 Algorithm-1–4",
    "MC": "1–26 Lemma-1–5 Algorithm-FD",
    "88-11": "2.1–2.32 3.1–3.23 4.1–4.23 5.1–5.17 a.1–a.51 b.1–b.10 Fact-4.1–4.2 Theorem-4.1 "
    "Identity-5.1 Algorithm-FD1–FD4 Identities-A.1–A.7 Lemma-A.1 Corollary-A.1 "
    "II-2.1–2.15 II-3.1–3.6 II-4.1–4.9 II-5.1–5.14 II-6.1–6.22 II-a.1–a.10 II-b.1–b.14 "
    "Algorithm-CCFD Algorithm-RCCFD1–RCCFD3 Case-1–3",
    "MS": "1.1–1.4 Identity-1.1 2.5–2.18 3.19–3.41 4.42–4.43 5.44–5.55 Lemma-2.1–2.4 Lemma-3.1–3.5 "
    "Lemma-4.1–4.3 Lemma-5.1–5.5",
}


class Row(NamedTuple):
    """One row of a page."""

    page: str
    numbers: str
    printed: str
    here: str
    book: str

    @property
    def kind(self) -> str:
        return self.here.split()[0].strip(",;:.") if self.here else ""

    @property
    def typed(self) -> list[str]:
        return re.findall(r"`([^`]+)`", self.printed)

    @property
    def paper(self) -> str:
        return f"{self.page} II" if self.numbers.startswith("II-") else self.page


@cache
def rows(page: str) -> tuple[Row, ...]:
    found: list[Row] = []
    inside = False
    for line in (PAGES / f"{page}.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().removesuffix("|")[1:].split(" | ")]
        inside = line.startswith("|") and (inside or line.startswith("| number | as printed |"))
        if inside and cells[0] != "number" and not line.startswith("|---"):
            found.append(Row(page, *cells))
    return tuple(found)


ALL = [row for page in NUMBERS for row in rows(page)]
typed_rows = pytest.mark.parametrize(
    "row", [r for r in ALL if r.typed], ids=lambda r: f"{r.page} {r.numbers}"
)


@pytest.mark.parametrize("page", NUMBERS)
def test_no_number_is_left_out(page: str):
    wanted, got = expanded(NUMBERS[page]), [n for row in rows(page) for n in expanded(row.numbers)]
    assert sorted(set(wanted) - set(got)) == []
    assert sorted(set(got) - set(wanted)) == []
    assert len(got) == len(set(got)), sorted({n for n in got if got.count(n) > 1})


@pytest.mark.parametrize("page", NUMBERS)
def test_every_row_says_what_it_is(page: str):
    for row in rows(page):
        assert row.kind in KINDS, row
        assert row.typed or row.kind not in ("proved", "computed"), row
        names = re.findall(r"`([^`]+)`", row.book)
        assert names or row.kind not in ("book", "erratum"), row
        known = MISPRINTS if row.kind == "erratum" else BOOK
        assert set(names) <= known, (row.numbers, set(names) - known)


def claims(row: Row) -> list[Identity]:
    """The equations in a row: a = b = c are two of them."""
    out: list[Identity] = []
    for text in row.typed:
        sides = [parse(side, notation=row.paper) for side in text.split(" = ")]
        out += [Identity(a, b, name=text) for a, b in zip(sides, sides[1:], strict=False)]
    return out


def about_rows(*sides: Expr) -> bool:
    leaves = [leaf for x in sides for leaf in leaves_of(x)]
    return any(x.name in NEEDS_ROWS or x.name in SELECTABLE and x.params for x in leaves)


@typed_rows
def test_what_is_typed_holds(row: Row):
    holds: list[bool] = []
    for claim in claims(row):
        assert claim.lhs is not None and claim.rhs is not None
        models = [SYSTEM] if about_rows(claim.lhs, claim.rhs) else [SERIAL, TREE]
        holds += [bool(pp.prove(claim, model)) for model in models]
    assert not all(holds) if row.kind == "erratum" else all(holds), (row.typed, holds)
    for text in [t for t in row.typed if " = " not in t]:
        computed(parse(text, notation=row.paper))


def computed(x: Expr) -> None:
    """What is compiled from an expression agrees with dense matrices; operators are applied."""
    rng = np.random.default_rng(0)
    points = [(TREE.body_names[k], (0.1, 0.2, 0.3)) for k in (1, 3)]
    where: dict[str, Any] = {} if about_rows(x) else {"points": points}
    model = TREE if where else SYSTEM
    program = pp.compile(x, model, backend="reference", **where)
    given: dict[str, Any] = {
        name: rng.standard_normal(shape) for name, shape in program.input_shapes.items()
    }
    given["q"] = TREE.random_configuration(0)
    inputs: dict[str, Any] = {name: given[name] for name in program.inputs}
    got = program(**inputs)
    operand = inputs.pop("x", None)
    want = pp.evaluate_dense(x, model, **where, **inputs)
    if operand is not None:
        want = want @ np.ravel(operand)
    assert np.allclose(np.ravel(got), np.ravel(want), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "wrong", ["ℳ = (ℐ + H Ψ G) D (ℐ + H Ψ G)*", "θ̈ = ℳ⁻¹ T", "φ = ψ", "ℳ = ℳ + 1e-18 D"]
)
def test_wrong_equations_are_noticed(wrong: str):
    with pytest.raises(AssertionError):
        test_what_is_typed_holds(Row("MM", "1", f"`{wrong}`", "proved", ""))


def test_missing_numbers_are_noticed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(NUMBERS, "MC", "1–27 Lemma-1–5 Algorithm-FD")
    with pytest.raises(AssertionError, match="27"):
        test_no_number_is_left_out("MC")


def asked(page: str, number: str) -> str:
    """How a user asks for a number."""
    paper = f"{page} II" if number.startswith("II-") else page
    return f"{paper} {number.removeprefix('II-').replace('-', ' ')}"


@pytest.mark.parametrize("page", NUMBERS)
def test_the_library_says_at_every_number_what_the_page_says(page: str):
    for row in rows(page):
        texts: set[Expr] = set()
        for number in expanded(row.numbers):
            paper = f"{page} II" if number.startswith("II-") else page
            here = printed()[paper, number]
            names = re.findall(r"`([^`]+)`", row.book)
            assert list(here.names) == names and str(here) == asked(page, number)
            texts |= {parse(x, notation=paper) for t in here.texts for x in t.split(" = ")}
        assert texts == {parse(x, notation=row.paper) for t in row.typed for x in t.split(" = ")}, (
            row
        )


def test_every_number_of_the_papers_can_be_asked_for():
    """It is one identity, several that are named, or the answer says what it is instead."""
    single = several = 0
    for page in NUMBERS:
        for number in expanded(NUMBERS[page]):
            try:
                single += isinstance(identity_named(asked(page, number)), Identity)
            except pp.errors.PhipsiError as error:
                several += "Use one of them:\n    " in str(error)
                assert "Use one" in str(error) or "In phipsi it is" in str(error), error
    assert single >= 250 and single + several >= 380, (single, several)


@pytest.mark.parametrize(
    ("number", "holds"),
    [("SOA 0.33", True), ("SOA eq. 0.4", True), ("MM Identity 3", True), ("88-11 a.15", True),
     ("88-11 II 6.12", True), ("88-11 Part II eq. b.12", True), ("SOA .41", False),
     ("MS 2.15", True)],
)  # fmt: skip
def test_proving_by_number(number: str, holds: bool):
    assert pp.prove(number).holds is holds
    assert pp.identities(number)


@pytest.mark.parametrize(
    ("number", "parts"), [("SOA 0.26", 6), ("SOA 0.7", 7), ("MS 4.43", 2), ("MM 30", 2)]
)
def test_all_equations_of_a_number_are_proved_at_once(number: str, parts: int):
    for proof in (pp.prove(number), pp.prove(number, SERIAL_REVOLUTE)):
        assert proof.holds and len(proof.parts) == parts and all(x.holds for x in proof.parts)
        assert f"all {parts} equations" in str(proof) and proof.counterexample is None
        assert all(f"\n    {x.label} holds" in str(proof) for x in proof.parts)
    assert not hasattr(pp.prove("SOA 0.28").parts, "holds") and pp.prove("SOA 0.28").parts == ()


def test_one_false_equation_of_a_number_is_shown():
    """The whole fails, with the mechanism that shows it."""
    equations = ["φ = (I − E_φ)⁻¹", "φ = I + E_φ", "H φ = H ψ + H φ K H ψ"]
    claims = [pp.Identity(*x.split(" = "), name=x) for x in equations]
    whole = _together("three", [pp.prove(x) for x in claims])
    assert whole.holds is False and [x.holds for x in whole.parts] == [True, False, True]
    assert whole.counterexample is not None and "three fails" in str(whole)
    assert bool(pp.prove(whole.identity)) is False  # the identity is all of them
    assert pp.prove(_together("two", [pp.prove(x) for x in claims[::2]]).identity).holds


@pytest.mark.parametrize(
    ("name", "same"),
    [
        ("Lemma 4.2", "Lemmas 4.2, 4.3 and 5.2"),
        ("Lemma 4.3", "Lemmas 4.2, 4.3 and 5.2"),
        ("Lemma 5.2", "Lemmas 4.2, 4.3 and 5.2"),
        ("Lemma 3.3", "Lemmas 3.1, 3.3 and 3.5, rates"),
    ],
)
def test_lemmas_that_are_proved_together_are_found_by_each_number(name: str, same: str):
    found = pp.identities(name)
    assert same in [x.name for x in found]
    with pytest.raises(pp.errors.InputError, match="Did you mean"):
        identity_named("Lemma 4.9")


def test_where_a_number_has_one_equation_too_many_the_ways_to_go_on_are_named():
    with pytest.raises(pp.errors.PhipsiError) as caught:
        identity_named("SOA 0.26")
    assert "'SOA 0.26' has 6 equations. Use one of them:" in str(caught.value)
    assert '"D = H P H*" with notation="SOA"' in str(caught.value)
    assert pp.derive("D = H P H*", notation="SOA")


def test_derivations_and_rewriting_by_number():
    found = pp.derive("SOA 0.33")
    assert found and found.check() and found.condition == "Jr = 0"
    assert parse("(I − H ψ K) H φ B f0").rewrite("SOA 0.33") is parse("H ψ B f0")


@pytest.mark.parametrize(
    ("number", "said"),
    [
        ("SOA 0.9", "SOA 0.9 is not an equation to prove. In phipsi it is defined"),
        ("SOA 0.99", "there is no identity 'SOA 0.99'"),
    ],
)
def test_numbers_without_one_equation_are_explained(number: str, said: str):
    with pytest.raises(pp.errors.PhipsiError) as caught:
        pp.prove(number)
    assert said in str(caught.value)


def test_most_of_the_papers_is_typed():
    assert len(ALL) >= 260 and sum(len(row.typed) for row in ALL) >= 250
    assert len([n for page in NUMBERS for n in expanded(NUMBERS[page])]) >= 500


def test_every_misprint_is_explained_on_the_page_of_its_paper():
    for misprint in ERRATA:
        page = next(page for page in NUMBERS if misprint.source.startswith(page))
        assert misprint.name in (PAGES / f"{page}.md").read_text(), misprint.name
