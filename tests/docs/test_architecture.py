"""Pages about the code name files that exist, and leave none out.

A path is anything that ends in ``.py`` or, in backticks, in ``/``. It stands below the root of the
repository or below `src/phipsi`, where the folders before it may be left out.
"""

import re
import runpy
from pathlib import Path

import pytest
from rooms import ring_of

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "phipsi"
PAGES = [ROOT / "docs" / "architecture.md", ROOT / "CONTRIBUTING.md", ROOT / "docs" / "file-map.md"]
PAGES += sorted((ROOT / "docs" / "decisions").glob("*.md"))
PATH = re.compile(r"(?<![\w./-])(?:[\w-]+/)*[\w-]+\.py\b|(?<=`)(?:[\w-]+/)+(?=`)")


def named(text: str) -> set[str]:
    return set(PATH.findall(text))


def exists(path: str) -> bool:
    if any((folder / path).exists() for folder in (ROOT, SOURCES)):
        return True
    if path.endswith("/"):
        return any(f"/{module}".find(f"/{path}") >= 0 for module in modules())
    return any(f"/{module}".endswith(f"/{path}") for module in modules())


def modules() -> set[str]:
    return {p.relative_to(SOURCES).as_posix() for p in SOURCES.rglob("*.py")}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_files_exist(page: Path):
    missing = {path for path in named(page.read_text(encoding="utf-8")) if not exists(path)}
    assert not missing, f"{page.name} names files that do not exist: {sorted(missing)}"


def test_paths_are_found():
    text = "in `core/sweeps/ir.py`, or motion/chart.py (with `model/`); see no-such.py and `q/v`"
    assert named(text) == {"core/sweeps/ir.py", "motion/chart.py", "model/", "no-such.py"}
    assert (
        exists("core/sweeps/ir.py")
        and exists("model/")
        and exists("rewriter.py")
        and exists("text/")
    )
    assert not exists("no-such.py") and not exists("sweeps/rewriter.py") and not exists("modle/")


def test_all_rooms_are_on_the_page():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = text.partition("\n| room | contents |")[2].partition("\n\n")[0]
    shown = [name.removesuffix(".py") for name in re.findall(r"`(\w+)(?:/|\.py)`", table)]
    rooms = ring_of()
    places = [rooms[name] for name in shown if name in rooms]
    assert {name for name in shown if name in rooms} == set(rooms)
    assert places == sorted(places), "in the order of the contract in pyproject.toml"


def test_the_file_map_has_every_module():
    text = (ROOT / "docs" / "file-map.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"^\| `([\w/]+\.py)` \|", text, re.MULTILINE))
    assert shown == {m for m in modules() if "/" not in m or not m.endswith("__init__.py")}, (
        "run  python scripts/file_map.py"
    )
    folders = {m.rpartition("/")[0] for m in modules()} - {""}
    assert folders == set(re.findall(r"^## (.+)$", text, re.MULTILINE)) - {"phipsi"}


def test_the_script_writes_the_page():
    page = runpy.run_path(str(ROOT / "scripts" / "file_map.py"))["page"]()
    listed = named((ROOT / "docs" / "file-map.md").read_text(encoding="utf-8"))
    assert named(page) == listed, "run  python scripts/file_map.py"


def test_the_table_of_supported_features_is_current():
    page = runpy.run_path(str(ROOT / "scripts" / "supported_features.py"))["page"]()
    shown = (ROOT / "docs" / "supported-features.md").read_text(encoding="utf-8")
    assert page == shown, "run  python scripts/supported_features.py"


@pytest.mark.parametrize("folder", ["docs", "docs/decisions"])
def test_the_index_has_every_page(folder: str):
    index = ROOT / folder / "README.md"
    linked = re.findall(r"\]\(([\w./-]+)\)", index.read_text(encoding="utf-8"))
    targets = {(index.parent / link).resolve() for link in linked}
    pages = set(index.parent.glob("*.md")) - {index}
    if folder == "docs":
        pages |= set((index.parent / "theory").glob("*.md"))
    assert {p.name for p in pages if p not in targets} == set()


def test_decisions_have_one_form():
    index = (ROOT / "docs" / "decisions" / "README.md").read_text(encoding="utf-8")
    for page in sorted((ROOT / "docs" / "decisions").glob("0*.md")):
        number = page.name[:4]
        heading, _, first, *_ = page.read_text(encoding="utf-8").split("\n")
        title = heading.removeprefix("# ")
        assert title.startswith(f"{number}: "), page.name
        assert first.startswith(("**Question.**", "**Decision.**")), page.name
        assert f"| [{number}]({page.name}) | {title[6:]} |" in index, page.name


def test_code_cites_every_decision():
    records = {page.name[:4] for page in (ROOT / "docs" / "decisions").glob("0*.md")}
    cited: set[str] = set()
    for path in SOURCES.rglob("*.py"):
        for place in re.findall(r"docs/decisions/(\d{4}(?: and \d{4})*)", path.read_text("utf-8")):
            cited |= set(place.split(" and "))
    assert cited == records
