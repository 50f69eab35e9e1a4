"""Pages, docstrings and messages use the words of the field, not phrases that only we know.

The list has phrases that can mean nothing else; ordinary words (run, gap, page) are settled by
reading. Records of the past, docs/decisions and docs/history, keep their words.
"""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^(`{3,})[^\n]*\n.*?^\1[ ]*$", re.MULTILINE | re.DOTALL)
KEPT = ("docs/decisions", "docs/history", "docs/theory")
# A phrase, what to write, and a sentence in which it must be found.
PHRASES = [
    (r"would do nothing", "has no effect", "It would do nothing."),
    (r"do(es)? not go with", "cannot be combined with", "rate= does not go with changes."),
    (r"(is|are) not there", "not found, not installed", "The file is not there."),
    (r"(is|are) there already", "already exists", "They are there already."),
    (r"what is not there", "limitations", "## What is not there"),
    (r"whole(-| )numbers?", "integer", "It must be a whole number."),
    (r"truth values?", "boolean", "They are truth values."),
    (r"(contacts?|surfaces?|stops?) that gives?", "compliant", "A contact that gives."),
    (r"without end", "Zeno behaviour, chattering, indefinitely", "Bounces without end."),
    (r"leaves? Python", "code generation, deployment", "Code that leaves Python."),
    (r"hands? that pulls?", "drag force", "A hand that pulls."),
    (r"if nothing is said", "by default", "Gravity, if nothing is said."),
    (r"same bits", "bitwise identical", "They have the same bits."),
    (r"last places", "last digits, ulp", "It differs in the last places."),
    (r"binds? rates only", "nonholonomic", "It binds rates only."),
    (r"trembl(e|es|ed|ing)", "chattering", "The box trembles."),
    (r"mend(s|ed|ing)?", "fix, repair", "The line that mends it."),
    (r"the least (forces?|efforts?|impulses?)", "minimum-norm", "They are the least forces."),
    (r"leave (it|them) out", "remove it", "Leave it out."),
    (r"time stands still", "paused", "While time stands still."),
    (r"put aside", "quarantined", "The block was put aside."),
    (r"(Runge and Kutta|Craig and Bampton|Kelvin and Voigt)", "Runge–Kutta", "Runge and Kutta's"),
    (r"bounding balls?", "bounding spheres", "Their bounding balls."),
    (r"as is said", "prescribed", "It moves as is said."),
    (r"(derivatives?|gradients?) by (the|all|its|q|v|tau|vdot)\b", "with respect to",
     "Derivatives by q."),
    (r"has? (its|their) own of", "per-trajectory", "Values that each one has its own of."),
    (r"parameters that every trajectory has", "per-trajectory parameters",
     "Parameters that every trajectory has."),
    (r"told once", "warned about once", "It is told once."),
    (r"Say\n", "Pass, Write", "It is wrong. Say\n    pp.load()"),
    (r"goes on with what", "resumes", "It goes on with what is done."),
    (r"traps", "common pitfalls", "## Traps"),
    (r"to the last bit", "bitwise identical", "Equal to the last bit."),
]  # fmt: skip


def texts() -> Iterator[tuple[str, str]]:
    """Prose of pages, docstrings, messages and comments, with the place of each."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for path in pages:
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(KEPT):
            whole = path.read_text(encoding="utf-8")
            yield name, FENCE.sub(lambda block: "\n" * block[0].count("\n"), whole)
    for folder in ("src", "examples"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), "\n".join(_words(path))


def _words(path: Path) -> list[str]:
    """Strings and comments of a module, each at the line where it stands."""
    source = path.read_text(encoding="utf-8")
    lines = [""] * (source.count("\n") + 2)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.STRING, tokenize.COMMENT):
            for i, line in enumerate(token.string.replace("\\n", "\n").split("\n")):
                lines[min(token.start[0] - 1 + i, len(lines) - 1)] += f"{line} "
    return lines


def pattern(phrase: str) -> re.Pattern[str]:
    """A phrase wherever words end there, over the end of a line too."""
    spaced = phrase.replace(" ", r"[\s#*]+")
    end = "" if phrase.endswith("\\n") else r"(?![\w-])"
    return re.compile(rf"(?<![\w-]){spaced}{end}", re.IGNORECASE)


@pytest.mark.parametrize(("phrase", "better", "example"), PHRASES, ids=[x[0] for x in PHRASES])
def test_no_page_and_no_message_has_the_phrase(phrase: str, better: str, example: str):
    wanted = pattern(phrase)
    assert wanted.search(example), "the pattern finds its own example"
    found = []
    for name, text in TEXTS.items():
        for hit in wanted.finditer(text):
            line = text.count("\n", 0, hit.start()) + 1
            found.append(f"{name}:{line}: {' '.join(hit[0].split())}")
    assert not found, f"write {better!r} instead:\n" + "\n".join(found)


TEXTS = dict(texts())


def test_texts_are_all_there():
    assert len(TEXTS) > 600
    assert "Multibody dynamics" in TEXTS["README.md"]
    assert "is not a finite real number" in TEXTS["src/phipsi/core/expressions/coefficients.py"]
    assert "import numpy" not in TEXTS["README.md"]  # blocks of code are no prose


# What a roboticist searches for, and the page that must have it.
SEARCHED = {
    "with respect to": "derivatives.md", "Monte Carlo": "monte-carlo.md",
    "code generation": "code-generation.md", "penetration": "contact.md",
    "chattering": "contact-reference.md", "Zeno": "events.md",
    "generalized coordinates": "notation.md", "generalized velocities": "notation.md",
    "generalized forces": "notation.md", "algebraic loop": "custom-forces-and-controllers.md",
    "zero-order hold": "custom-forces-and-controllers.md", "actuator": "control.md",
    "floating base": "models.md", "domain randomization": "learning.md",
    "compliant contact": "contact.md", "signed distance": "collision-distances.md",
    "nonholonomic": "rolling.md", "Sobol indices": "monte-carlo.md", "rollout": "simulator.md",
    "URDF": "importing.md", "inverse kinematics": "inverse-kinematics.md",
    "linearize": "linearisation.md",
}  # fmt: skip


@pytest.mark.parametrize("term", SEARCHED)
def test_what_readers_search_for_is_on_the_page_about_it(term: str):
    text = " ".join(TEXTS[f"docs/{SEARCHED[term]}"].split()).lower()
    assert term.lower() in text.replace("**", "")
