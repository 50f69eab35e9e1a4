"""Write docs/papers/printed-formulas.md: which formulas of the papers are read as printed.

python scripts/printed_formulas.py          writes the page
python scripts/printed_formulas.py --check  says whether it is current

docs/papers/formulas has the formulas of every paper in LaTeX, one in a line: its number, where it
stands (display, recursion or text), the formula, and a note for what its form does not say. Every
formula that is read, and is an equation, is proved on an arm of seven joints.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))  # not another library that is installed
import phipsi as pp  # noqa: E402
from phipsi.core.operators import as_sides  # noqa: E402
from phipsi.core.rewrite import Identity, claim, is_about_rows  # noqa: E402

PAGE = ROOT / "docs" / "papers" / "printed-formulas.md"
FORMULAS = ROOT / "docs" / "papers" / "formulas"
PAPERS = ("SOA", "MM", "MC", "88-11", "88-11 II", "MS")
ARM = pp.examples.seven_joint_arm()

BLOCK = "recursion or block of one body"
_BODY = r"(?:[kijmnNla]|\\mathbb\{I\}|\\mathcal\{N\}|[0-9]_?j?|k_j)"
_CLASSES = {  # reason: what such a formula has
    "matrix or vector written by its blocks": (
        r"\\begin\{|\\(?:text|operatorname)\{(?:col|diag)\}|\[\\phi\^\*\(1"
    ),
    "sum over bodies": r"\\sum",
    "partial derivative by one coordinate": r"\\partial",
    BLOCK: rf"\((?:[^()]*,\s*)?{_BODY}(?:\s*[+-]\s*1)?(?:\s*,[^()]*)?\)|\(\\mathcal\{{N\}}",
    "3-vectors and cross products": r"\\times|\\cdot y|\\ell",
}
_SEPARATED = re.compile(r"\\q?quad|;|\\text\s*\{[^{}]*\}|\\in\b.*|\\forall.*")
_EQUALS = re.compile(
    r"&?\s*(?:\\stackrel\s*\{[^{}]*\}\s*\{\s*=\s*\}|\\triangleq|\\equiv|(?<![<>])=)\s*&?"
)


@dataclass(frozen=True)
class Formula:
    """One printed formula; `note` says what its form does not say."""

    number: str
    place: str
    text: str
    note: str = ""


@dataclass(frozen=True)
class Result:
    """What becomes of a formula: "proved", "read" (no equation), "differs" or "not read"."""

    outcome: str
    reason: str = ""


def formulas(paper: str) -> list[Formula]:
    """All formulas of a paper in the order of its text."""
    lines = (FORMULAS / f"{paper.replace(' ', '-')}.txt").read_text(encoding="utf-8").splitlines()
    return [Formula(*line.split("\t")) for line in lines]


def statements(text: str) -> list[list[str]]:
    """The statements in a line, each with its sides."""
    parts = [part.strip(" ,.&") for part in _SEPARATED.split(text)]
    found = [[x.strip(" &") for x in _EQUALS.split(part)] for part in parts if part]
    return [[x for x in sides if x] for sides in found if any(sides)]


def equations(text: str) -> Iterator[tuple[str, str]]:
    """The equations in a line: A = B and B = C of A = B = C."""
    for sides in statements(text):
        yield from zip(sides, sides[1:], strict=False)


def unread(text: str, paper: str) -> str:
    """Why a formula is not read; "" if all its sides are, between the same spaces."""
    try:
        for sides in statements(text):
            found = as_sides(sides, paper)
            for left, right in zip(found, found[1:], strict=False):
                Identity(left, right)
    except pp.errors.PhipsiError as error:
        return str(error)
    return ""


def result(formula: Formula, paper: str) -> Result:
    """Whether a formula is read, and whether it holds."""
    if unread(formula.text, paper):
        found = (name for name, form in _CLASSES.items() if re.search(form, formula.text))
        return Result("not read", formula.note or next(found, "?"))
    texts = [f"{left} = {right}" for left, right in equations(formula.text)]
    if not texts:
        return Result("read", formula.note)
    if all(holds(text, paper) for text in texts):
        return Result("proved")
    return Result("differs", formula.note or "?")


def two_arms() -> pp.System:
    """Two arms of six joints that hold each other, the second one as the secondary bodies."""
    rng, b = np.random.default_rng(0), pp.ModelBuilder()
    for arm in "ab":
        for k in range(6):
            b.add_body(
                f"{arm}{k}",
                parent=f"{arm}{k - 1}" if k else "world",
                joint=pp.joints.Revolute(rng.normal(size=3)),
                placement=pp.Pose(None, rng.uniform(-0.5, 0.5, 3)),
                inertia=pp.SpatialInertia(1.0, rng.uniform(-0.2, 0.2, 3), rng.uniform(0.1, 0.2)),
            )
    held = pp.constraints.Weld(name="held", a="a5", b="b5")
    return pp.System(b.build(), [held], secondary=[f"b{k}" for k in range(6)])


def holds(text: str, paper: str) -> bool:
    """Whether a claim holds on the arm, or, where it inverts what is singular there, in general.

    Claims about constraint rows are those of two arms; those about roots are decided in one state.
    """
    stated = claim(text, paper)
    if any(leaf.row.is_own for leaf in stated.leaves):
        rng = np.random.default_rng(0)
        state = ARM.random_configuration(rng), rng.normal(size=ARM.nv)
        return bool(pp.prove(text, ARM, *state, notation=paper))
    try:
        model = two_arms() if is_about_rows(stated) else ARM
        return bool(pp.prove(text, model, notation=paper))
    except pp.errors.SingularMatrixError:
        return bool(pp.prove(text, notation=paper))


def results(paper: str) -> list[tuple[Formula, Result]]:
    """Every formula of a paper with what becomes of it."""
    return [(formula, result(formula, paper)) for formula in formulas(paper)]


_HEAD = """# Formulas as printed

This page counts the formulas of the five papers that phipsi reads as they are printed, and lists
the others with the reason. Look here before you paste a formula that is rejected. You need: the
letters of a paper, `notation="MM"` ([notation](../notation.md#11-dictionary-to-the-papers)).

`python scripts/printed_formulas.py` writes the page. It takes the formulas of display lines,
recursions and text from `docs/papers/formulas`, and gives each to `pp.parse` or `pp.prove`. Every
equation that is read is proved exactly on an arm of seven revolute joints, as its paper means it.
The formulas in the scans of SOA and 88-11 are not machine-readable. They were typed from the scans,
without those that are lost there.

| column | meaning |
|---|---|
| read | all sides of the formula are expressions, and have the same spaces |
| proved | read, and every equation in it holds |
| differs | read, but it does not hold as it stands: misprints, and letters with a special meaning |
| recursions | not read: steps and blocks of single bodies, which the sweeps of operators contain |
| others | not read for another reason |
"""


def page() -> str:
    """The page as text."""
    out = [_HEAD, "| paper | formulas | read | proved | differs | recursions | others |",
           "|---|---|---|---|---|---|---|"]  # fmt: skip
    found = {paper: results(paper) for paper in PAPERS}
    for paper, rows in found.items():
        count = Counter(one.outcome for _, one in rows)
        steps = sum(one.reason == BLOCK for _, one in rows)
        read = len(rows) - count["not read"]
        numbers = [len(rows), read, count["proved"], count["differs"], steps]
        out.append(f"| {paper} | {' | '.join(map(str, [*numbers, count['not read'] - steps]))} |")
    out += ["", "## Read, but not proved", "", "| paper | number | formula | why |"]
    out.append("|---|---|---|---|")
    out += [
        f"| {paper} | {formula.number} | {_code(formula.text)} | {one.reason or 'no equation'} |"
        for paper, rows in found.items()
        for formula, one in rows
        if one.outcome in ("differs", "read")
    ]
    for paper, rows in found.items():
        out += ["", f"## {paper}: not read", ""]
        reasons = Counter(one.reason for _, one in rows if one.outcome == "not read")
        for reason, number in reasons.most_common():
            out += [f"**{reason}** ({number})", ""]
            out += [
                f"- {f'({formula.number}) ' if formula.number else ''}{_code(formula.text)}"
                for formula, one in rows
                if one.outcome == "not read" and one.reason == reason
            ]
            out.append("")
        out.pop()
    return "\n".join(out) + "\n"


def _code(text: str) -> str:
    return f"`{text.replace('|', chr(92) + '|')}`"


def main() -> int:
    """Write the page, or compare it."""
    text = page()
    if "--check" in sys.argv:
        same = PAGE.exists() and PAGE.read_text(encoding="utf-8") == text
        print("docs/papers/printed-formulas.md is " + ("current" if same else "not current"))
        return 0 if same else 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
