"""A release: its version, what it claims, its addresses, and the files that a host reads.

Nothing here runs a workflow: the tests see that workflows can be read, and that what they call
exists. `make release` builds and tries the packages.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import phipsi

yaml = pytest.importorskip("yaml", reason="workflows are YAML:  pip install pyyaml")
ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import release  # noqa: E402

PROJECT: dict[str, Any] = release.project()
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TEMPLATES = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
NEVER_RUN = "Written, never run"
PLATFORMS = (ROOT / "docs" / "platforms.md").read_text(encoding="utf-8")


def read(path: Path) -> dict[Any, Any]:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


# ---- one version ---------------------------------------------------------------------------------


def test_the_version_is_the_same_everywhere():
    assert phipsi.__version__ == PROJECT["version"] == read(ROOT / "CITATION.cff")["version"]
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## \[(.+?)\]", changes, re.MULTILINE)
    assert sections[:2] == ["Unreleased", PROJECT["version"]]
    minor = PROJECT["version"].rpartition(".")[0]
    assert (ROOT / "docs" / "releases" / f"{minor}.md").is_file()
    assert f"docs/releases/{minor}.md" in changes


# ---- what the classifiers claim ------------------------------------------------------------------

OF_SYSTEM = {
    "Linux": "Operating System :: POSIX :: Linux",
    "Windows": "Operating System :: Microsoft :: Windows",
    "macOS": "Operating System :: MacOS",
}


def what_ran(page: str) -> tuple[set[str], set[str]]:
    """Systems and Pythons (3.11) that the first table of systems says were run."""
    systems, pythons = set[str](), set[str]()
    rows = re.findall(r"^\| (\w+), [^|]*\| yes \| (.*) \|$", page, re.MULTILINE)
    assert rows, "the table of systems has another form"
    for name, tested in rows:
        if re.search(r"\bnot run on\b", tested, re.IGNORECASE):
            continue
        systems.add(name)
        for listed in re.findall(r"Python ((?:3\.[\d.]+\d(?:,? (?:and )?)?)+)", tested):
            pythons |= set(re.findall(r"3\.\d+", listed))
    return systems, pythons


def test_classifiers_claim_what_ran_and_nothing_else():
    systems, pythons = what_ran(PLATFORMS)
    assert systems and pythons
    claimed = {x for x in PROJECT["classifiers"] if x.startswith("Operating System")}
    assert claimed == {OF_SYSTEM[name] for name in systems}
    assert set(release.claimed_pythons()) == pythons


def test_what_ran_is_read_from_the_table():
    page = (
        "| Linux, x86-64 | yes | all, Python 3.11; some on Python 3.12.1 and 3.13.0 (2 tests) |\n"
        "| Windows, x86-64 | yes | by reading, Python 3.10. Not run on Windows itself |\n"
    )
    assert what_ran(page) == ({"Linux"}, {"3.11", "3.12", "3.13"})


def test_the_licence_is_an_expression_without_a_classifier():
    """Both at once are rejected (PEP 639)."""
    assert PROJECT["license"] == "Apache-2.0"
    assert not [x for x in PROJECT["classifiers"] if x.startswith("License")]


# ---- addresses -----------------------------------------------------------------------------------

SUFFIXES = {".md", ".py", ".pyi", ".toml", ".yml", ".yaml", ".cff", ".sh", ".html", ".js", ""}
FOLDERS = (".ci", ".github", "benchmarks", "docs", "examples", "scripts", "src", "tests")
REGISTRY = re.compile(r"\b(?:test\.)?pypi\." + r"org\b")


@cache
def texts() -> dict[str, str]:
    """Every file that could have an address, with its text."""
    # an sdist has PKG-INFO, which is written from pyproject.toml
    files = [x for x in ROOT.iterdir() if x.is_file() and x.name != "PKG-INFO"]
    for folder in FOLDERS:
        files += [x for x in (ROOT / folder).rglob("*") if x.is_file()]
    return {
        file.relative_to(ROOT).as_posix(): file.read_text("utf-8", errors="replace")
        for file in files
        if file.suffix in SUFFIXES and "__pycache__" not in file.parts
    }


def test_addresses_of_the_project_are_in_one_place():
    urls = PROJECT["urls"]
    assert {"Homepage", "Documentation", "Source", "Issues", "Changelog", "Security"} == set(urls)
    found = {name for name, text in texts().items() if any(url in text for url in urls.values())}
    assert found == {"pyproject.toml"}


def test_the_address_of_a_registry_is_on_one_page():
    assert {name for name, text in texts().items() if REGISTRY.search(text)} <= {
        "docs/platforms.md"
    }


@pytest.mark.parametrize("page", ["SECURITY.md", "CODE_OF_CONDUCT.md"])
def test_pages_name_the_entry_for_reports(page: str):
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    assert "the address `Security` under `[project.urls]` in `pyproject.toml`" in text


# ---- files that a host reads ---------------------------------------------------------------------


def targets() -> set[str]:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z][\w-]*):", makefile, re.MULTILINE))


def jobs(workflow: Path) -> dict[str, dict[str, Any]]:
    return read(workflow)["jobs"]


def commands(content: Any) -> Iterator[str]:
    """Every command of a workflow or of the hosting of the documentation."""
    if isinstance(content, dict):
        for key, value in content.items():
            if key == "run":
                yield value
            elif key == "commands":
                yield from value
            else:
                yield from commands(value)
    elif isinstance(content, list):
        for value in content:
            yield from commands(value)


def uncalled(command: str) -> list[str]:
    """Targets of make and scripts that a command names and that do not exist."""
    lost = [f"make {x}" for x in re.findall(r"\bmake ([a-z][\w-]*)", command) if x not in targets()]
    paths = re.findall(r"\b(?:scripts|docs|tests|\.ci)/[\w./-]+", command)
    return lost + [path for path in paths if not (ROOT / path).exists()]


def test_a_call_that_leads_nowhere_is_found():
    assert uncalled("make lint PYTHON=python && python scripts/release.py") == []
    assert uncalled("make everything\npython scripts/nothing.py") == [
        "make everything",
        "scripts/nothing.py",
    ]


@pytest.mark.parametrize("path", [*WORKFLOWS, ROOT / ".readthedocs.yaml"], ids=lambda p: p.name)
def test_hosts_call_what_exists_and_say_that_they_never_ran(path: Path):
    text = path.read_text(encoding="utf-8")
    assert NEVER_RUN in text.split("\n\n")[0] and text.startswith("#")
    assert (path.parent.name if path in WORKFLOWS else path.name) in PLATFORMS
    called = list(commands(read(path)))
    assert called
    assert [lost for command in called for lost in uncalled(command)] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda p: p.name)
def test_workflows_have_few_rights_and_no_secrets(path: Path):
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert "secrets." not in path.read_text(encoding="utf-8")
    for name, job in jobs(path).items():
        local = job.get("uses", "")
        assert not local.startswith("./") or (ROOT / local).is_file(), name
        more = {"id-token": "write"} if (path.stem, name) == ("publish", "publish") else None
        assert job.get("permissions") == more, name
        assert "timeout-minutes" in job or local, name


def test_the_matrix_is_three_systems_and_the_pythons_of_the_classifiers():
    matrix = jobs(ROOT / ".github/workflows/tests.yml")["tests"]["strategy"]["matrix"]
    assert matrix["python"] == release.claimed_pythons()
    systems = ["ubuntu-latest", "macos-latest", "windows-latest"]
    assert matrix["os"] == systems
    steps = jobs(ROOT / ".github/workflows/packages.yml")["packages"]["steps"]
    pythons = next(
        x["with"]["python-version"] for x in steps if "python-version" in x.get("with", "")
    )
    assert sorted(pythons.split()) == release.claimed_pythons()


def test_publication_is_on_tags_by_trusted_publishing():
    workflow = read(ROOT / ".github/workflows/publish.yml")
    assert list(workflow[True]) == ["push"] and list(workflow[True]["push"]) == ["tags"]  # `on`
    publish = workflow["jobs"]["publish"]
    assert publish["needs"] == "packages" and publish["environment"] == "release"
    assert publish["steps"][-1]["uses"].startswith("pypa/gh-action-pypi-publish@")
    assert "with" not in publish["steps"][-1]  # neither password nor address


def test_templates_of_issues_can_be_read():
    assert [x.stem for x in TEMPLATES] == ["bug", "config", "feature", "question"]
    for path in TEMPLATES:
        template = read(path)
        if path.stem == "config":
            assert template == {"blank_issues_enabled": True}
            continue
        assert template["name"] and template["description"]
        fields = [x for x in template["body"] if x["type"] != "markdown"]
        names = [x["id"] for x in fields]
        assert names and len(set(names)) == len(names)
        assert all(x["attributes"]["label"] for x in fields)
    assert "`phipsi info`" in str(read(TEMPLATES[0]))


def test_the_check_of_a_commit_is_lint_and_all_tests():
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    commands = ["make lint", "make test", "make test-bridges"]
    assert [x for x in lines if x.startswith("make")] == commands


# ---- citation ------------------------------------------------------------------------------------


def test_the_citation_has_the_five_papers_as_the_sources_page_does():
    citation = read(ROOT / "CITATION.cff")
    assert citation["cff-version"] == "1.2.0" and citation["message"] and citation["authors"]
    assert citation["license"] == PROJECT["license"]
    assert citation["title"].lower() == f"phipsi: {PROJECT['description']}".lower()
    sources = (ROOT / "docs" / "theory" / "sources.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (SOA|MM|MC|88-11|MS) \| (.*) \|$", sources, re.MULTILINE))
    assert len(rows) == len(citation["references"]) == 5
    for row, paper in zip(rows.values(), citation["references"], strict=True):
        assert paper["title"] in row and str(paper["year"]) in row
        assert str(paper.get("journal", paper.get("number"))) in row
        names = ", ".join(f"{x['given-names']} {x['family-names']}" for x in paper["authors"])
        assert row.startswith(names)
        for key in ("volume", "issue"):
            assert str(paper.get(key, "")) in row
        if "start" in paper:
            assert f"{paper['start']}–{paper['end']}" in row


# ---- packages ------------------------------------------------------------------------------------


def test_what_the_sdist_includes_exists():
    file = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = file["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert [x for x in included if not (ROOT / x.lstrip("/")).exists()] == []


def test_the_release_finds_pythons_and_the_quick_start():
    here = ".".join(map(str, sys.version_info[:2]))
    assert release.interpreter(here) == sys.executable
    assert release.interpreter("3.99") is None
    start = release.quick_start()
    compile(start, "arm.py", "exec")
    assert "pp.ModelBuilder" in start and "```" not in start
    assert not [x for x in release.user_environment() if x.startswith(("PYTHON", "PHIPSI"))]
