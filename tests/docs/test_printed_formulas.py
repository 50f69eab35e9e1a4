"""Which printed formulas of the papers are read and hold: counts, the page, and twins that fail.

The formulas are data (docs/papers/formulas). Each equation that is read is decided exactly on an
arm with random numbers. That is a route of its own: a letter that were read otherwise than the
paper means it would make equations of the paper false.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import phipsi as pp

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "papers" / "printed-formulas.md"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "printed_formulas", ROOT / "scripts" / "printed_formulas.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


SCRIPT = load()
# paper: formulas, those that are read, and proved
COUNTS = {
    "SOA": (142, 69, 67),
    "MM": (166, 70, 65),
    "MC": (141, 62, 56),
    "88-11": (189, 97, 93),
    "88-11 II": (97, 46, 46),
    "MS": (141, 35, 33),
}
results = cache(SCRIPT.results)
papers = pytest.mark.parametrize("paper", COUNTS)


@papers
def test_as_many_formulas_as_before_are_read_and_proved(paper: str):
    rows = results(paper)
    count = Counter(one.outcome for _, one in rows)
    read = len(rows) - count["not read"]
    assert (len(rows), read, count["proved"]) >= COUNTS[paper]
    assert (len(rows), read, count["proved"]) == COUNTS[paper], "more is read: record it"
    assert not [formula for formula, one in rows if one.reason == "?"]
    page = PAGE.read_text(encoding="utf-8")
    assert f"\n| {paper} | {len(rows)} | {read} | {count['proved']} |" in page
    section = page.split(f"\n## {paper}: not read\n")[1].split("\n## ")[0]
    listed = re.findall(r"^- (?:\([^()]*\) )?`(.*)`$", section, re.MULTILINE)
    unread = [
        formula.text.replace("|", r"\|") for formula, one in rows if one.outcome == "not read"
    ]
    assert sorted(listed) == sorted(unread)
    for formula, one in rows:
        if one.outcome in ("differs", "read"):
            assert f"| {paper} | {formula.number} | " in page and one.reason in page


@papers
def test_a_changed_sign_makes_an_equation_false(paper: str):
    """Twins: the last plus or minus of a proved equation changed."""
    changed = refuted = 0
    for formula, one in results(paper)[::2]:
        if one.outcome != "proved":
            continue
        left, right = list(SCRIPT.equations(formula.text))[-1]
        at = max(right.rfind(" + "), right.rfind(" - "))
        if at <= 0:
            continue
        twin = right[:at] + (" - " if right[at + 1] == "+" else " + ") + right[at + 3 :]
        try:
            holds = SCRIPT.holds(f"{left} = {twin}", paper)
        except pp.errors.PhipsiError:
            continue
        changed, refuted = changed + 1, refuted + (not holds)
    assert changed >= 5 and refuted == changed, (changed, refuted)


def test_what_is_no_formula_of_the_papers_is_counted_as_that():
    """The counting itself: text that is not read, an equation that is false, one without sides."""
    of = SCRIPT.Formula
    assert SCRIPT.result(of("", "text", r"\phi = \psi"), "MM").outcome == "differs"
    assert SCRIPT.result(of("", "text", r"V(k) = \phi^*(k+1,k)V(k+1)"), "MM").reason == SCRIPT.BLOCK
    assert SCRIPT.result(of("", "text", r"W \rightarrow H"), "MM").reason == "?"
    assert SCRIPT.result(of("", "text", r"H\phi B"), "MM").outcome == "read"
    assert SCRIPT.result(of("", "text", r"M\phi"), "MM").outcome == "not read"
    assert SCRIPT.result(of("", "text", r"J^* = H\phi B; \quad T = Hf"), "MM").outcome == "proved"
    assert SCRIPT.result(of("", "text", r"J^* = H\phi B; \quad T = 2Hf"), "MM").outcome == "differs"
