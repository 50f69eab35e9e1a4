"""Every citation leads to a numbered section of docs/theory or to a paper that is listed.

Citations are the **Source:** fields of docstrings, the sources of operators, rules, theorems and
misprints, and every `theory/page section` anywhere in code, tests and documentation. Parts of a
citation are separated by semicolons.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from phipsi.core.operators.catalogue import CATALOGUE
from phipsi.papers.theorems import identities
from phipsi.papers.theorems.book import ERRATA

ROOT = Path(__file__).parents[2]
THEORY = ROOT / "docs" / "theory"
SECTION = r"\d+(?:\.\d+)*(?:–\d+(?:\.\d+)*)?"
PLACE = rf"{SECTION}(?: \([^()]+\))?"
CITED = re.compile(rf"theory/([a-z-]+)(?: ({PLACE}(?:(?:, | and ){PLACE})*))?")
FIELD = re.compile(r"\*\*Source:\*\*(.*?)(?=\n\s*\n|\*\*[A-Z]|\"\"\")", re.DOTALL)
OLD = re.compile(r"\b(?:open_chain|closed_chain|sensitivity(?:\.md)?) [C\d]|\bseed \d (?:eq|lemma)")
QUALIFIED = re.compile(r"(?:corrects|completes|extends|derived from|see) ")


@cache
def sections(page: str) -> dict[str, str]:
    """The text of every numbered section of a page, subsections included."""
    out: dict[str, str] = {}
    path = THEORY / f"{page}.md"
    for line in path.read_text().splitlines() if path.exists() else []:
        heading = re.match(r"#+ (\d+(?:\.\d+)*)\.? ", line)
        if heading:
            out[heading[1]] = ""
            here = heading[1].split(".")
        for number in out:
            if number.split(".") == here[: number.count(".") + 1]:
                out[number] += line + "\n"
    return out


@cache
def listed() -> tuple[str, ...]:
    """The short names of docs/theory/sources.md."""
    rows = re.findall(r"^\| ([^|]+?) \|", (THEORY / "sources.md").read_text(), re.MULTILINE)
    return tuple(row for row in rows if row not in ("page", "short name", "word"))


def unresolved(citation: str) -> list[str]:
    """What is wrong with the parts of a citation."""
    wrong: list[str] = []
    for part in re.split(r"; ", citation.strip().rstrip(".")):
        plain = QUALIFIED.sub("", part)
        if plain.startswith("theory/"):
            found = CITED.fullmatch(plain.split(", read")[0])
            wrong += [f"{part!r} is not 'theory/page section'"] if not found else not_found(found)
        elif plain.startswith("docs/"):
            wrong += [] if (ROOT / plain).exists() else [f"{part!r}: there is no such file"]
        elif not any(re.match(rf"{re.escape(name)}(?!\w)", plain) for name in listed()):
            if not re.match(r"sign derived|a\.\d", plain):
                wrong.append(f"{part!r} begins with no short name of docs/theory/sources.md")
    return wrong


def not_found(found: re.Match[str]) -> list[str]:
    """What a `theory/page section` names that does not exist."""
    page, places = found[1], found[2]
    known = sections(page)
    if page != "sources" and not known:
        return [f"{found[0]!r}: there is no page docs/theory/{page}.md"]
    wrong: list[str] = []
    for place in re.split(r"(?<!\()(?:, | and )(?=\d)", places or ""):
        if not place:
            continue
        at = re.match(rf"({SECTION})(?: \(([^()]+)\))?", place)
        assert at, place
        ends = at[1].split("–")
        wrong += [f"{found[0]!r}: {page} has no section {end}" for end in ends if end not in known]
        for label in re.split(r", |–", at[2] or ""):
            if label and not wrong and label not in "".join(known[end] for end in ends):
                wrong.append(f"{found[0]!r}: {label!r} is not in section {at[1]} of {page}")
    return wrong


def texts() -> Iterator[Path]:
    """Files in which somebody may cite."""
    yield from (ROOT / "README.md", ROOT / "CONTRIBUTING.md")
    for folder in ("src", "tests", "docs", "scripts", "benchmarks"):
        for suffix in ("*.py", "*.md"):
            yield from (p for p in sorted((ROOT / folder).rglob(suffix)) if p != Path(__file__))


def test_source_fields_of_docstrings():
    fields = 0
    for path in (ROOT / "src").rglob("*.py"):
        for field in FIELD.finditer(path.read_text()):
            fields += 1
            assert not (wrong := unresolved(" ".join(field[1].split()))), f"{path}: {wrong}"
    assert fields > 60


def test_sources_of_operators_rules_theorems_and_misprints():
    given = {name for name, row in CATALOGUE.items() if row.needs in ((name,), ("x",))}
    rows = [row for row in CATALOGUE.values() if row.name not in given]
    rows += [*identities(), *ERRATA]
    assert len(rows) > 400 and "tau" in given and "phi" not in given
    wrong = {row.name: unresolved(row.source) for row in rows}
    assert not {name: why for name, why in wrong.items() if why}


def test_sections_that_are_named_anywhere():
    cited = 0
    for path in texts():
        text = path.read_text()
        assert not OLD.search(text), f"{path}: {OLD.search(text)}"
        for found in CITED.finditer(" ".join(text.split())):
            cited += bool(found[2])
            assert not (wrong := not_found(found)), f"{path}: {wrong}"
    assert cited > 60


@pytest.mark.parametrize(
    ("citation", "why"),
    [
        ("theory/open-chains 4.3", ""),
        ("theory/sensitivities 7 (E18), 8 (E19); MS lemma 4.2", ""),
        ("SOA eq. 0.34; 88-11 Part II eq. 2.9", ""),
        ("theory/open-chains 4.7", "no section 4.7"),
        ("theory/open-chains 4–17", "no section 17"),
        ("theory/sensitivities 5 (E14)", "'E14' is not in section 5"),
        ("theory/open-chain 4.3", "no page"),
        ("theory/open-chains", ""),
        ("SOA eq. 0.1; seed 4 eq. 2.11", "no short name"),
        ("SOAP eq. 1", "no short name"),
        ("Gautier 1998", "no short name"),
        ("docs/no-such-page.md", "no such file"),
    ],
)
def test_wrong_citations_are_noticed(citation, why):
    wrong = unresolved(citation)
    assert bool(wrong) == bool(why) and why in "".join(wrong), wrong
