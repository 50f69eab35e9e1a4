"""Pages about the code name files that exist, and leave none out.

A path is anything that ends in ``.py`` or, in backticks, in ``/``. It stands below the root of the
repository or below `src/phipsi`, where the folders before it may be left out.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from rooms import ring_of, rings

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "phipsi"
PAGES = [ROOT / "docs" / "architecture.md", ROOT / "CONTRIBUTING.md", ROOT / "docs" / "file-map.md"]
ROOM_PAGES = sorted((ROOT / "docs" / "architecture").glob("*.md"))
PAGES += ROOM_PAGES
for folder in ("decisions", "development"):
    PAGES += sorted((ROOT / "docs" / folder).glob("*.md"))
PATH = re.compile(r"(?<![\w./-])(?:[\w-]+/)*[\w-]+\.py\b|(?<=`)(?:[\w-]+/)+(?=`)")


def named(text: str) -> set[str]:
    return set(PATH.findall(text))


def exists(path: str) -> bool:
    if any((folder / path).exists() for folder in (ROOT, SOURCES)):
        return True
    if "/" not in path and any((ROOT / "tests").rglob(path)):
        return True  # tests are named without their folder, in which nobody looks for them
    if path.endswith("/"):
        return any(f"/{module}".find(f"/{path}") >= 0 for module in modules())
    return any(f"/{module}".endswith(f"/{path}") for module in modules())


def modules() -> set[str]:
    return {p.relative_to(SOURCES).as_posix() for p in SOURCES.rglob("*.py")}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: f"{p.parent.name}/{p.name}")
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


def test_the_order_of_imports_is_on_the_page():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    below = text.partition("\n### Order of imports\n")[2]
    listed = below.partition("```text\n")[2].partition("```")[0].splitlines()
    assert [tuple(line.split()) for line in listed] == list(rings())


def room_pages(module: str) -> list[str]:
    """The pages that may explain a module: that of its room, or of a part of it."""
    room, is_inside, _ = module.partition("/")
    if not is_inside:
        return ["package.md"]
    return [p.name for p in ROOM_PAGES if p.stem == room or p.stem.startswith(f"{room}-")]


def unexplained(texts: dict[str, str], names: set[str]) -> list[str]:
    """Modules that stand in no row of a table on a page of their room."""
    rows = {
        page: "\n".join(line for line in text.splitlines() if line.startswith("|"))
        for page, text in texts.items()
    }
    found = {name: room_pages(name) or ["(no page)"] for name in sorted(names)}
    return [
        f"{name}: say in a row of docs/architecture/{pages[0]} what it is"
        for name, pages in found.items()
        if not any(f"`{name}`" in rows.get(page, "") for page in pages)
    ]


def test_every_module_is_explained_on_the_page_of_its_room():
    """A page is a walk through all files of a room. Packages are what `__init__.py` says."""
    texts = {page.name: page.read_text(encoding="utf-8") for page in ROOM_PAGES}
    names = {m for m in modules() if not m.endswith("/__init__.py")}
    missing = unexplained(texts, names)
    assert not missing, "\n".join(missing)
    with_a_new_file = unexplained(texts, names | {"files/read_obj.py", "new_room/a.py"})
    assert len(with_a_new_file) == 2


SECTIONS = ("What .*offer", "What .* stands? on", "Walk through", "Decisions", "Rules", "Tests")


@pytest.mark.parametrize("page", ROOM_PAGES, ids=lambda p: p.stem)
def test_pages_of_rooms_have_one_form(page: Path):
    text = page.read_text(encoding="utf-8")
    missing = [x for x in SECTIONS if not re.search(f"^## {x}", text, re.MULTILINE)]
    assert not missing, f"{page.name} has no section {missing}"
    beginning = " ".join(text.split("\n## ", 1)[0].split())
    assert "This " in beginning or "The core" in beginning, "say first what it is for"
    assert re.search(r"[Yy]ou need|needs it", beginning), "say who needs it"


def test_pages_of_rooms_name_tests():
    """That they exist is a question of `test_files_exist`."""
    for page in ROOM_PAGES:
        below = page.read_text(encoding="utf-8").partition("\n## Tests\n")[2]
        assert re.search(r"`test_\w+\.py`|`tests/\w+/`", below), f"{page.name} names no test"


def test_the_file_map_has_every_module():
    text = (ROOT / "docs" / "file-map.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"^\| `([\w/]+\.py)` \|", text, re.MULTILINE))
    assert shown == {m for m in modules() if "/" not in m or not m.endswith("__init__.py")}, (
        "run  python scripts/file_map.py"
    )
    folders = {m.rpartition("/")[0] for m in modules()} - {""}
    assert folders == set(re.findall(r"^## (.+)$", text, re.MULTILINE)) - {"phipsi"}


@pytest.mark.parametrize("folder", ["docs", "docs/decisions"])
def test_the_index_has_every_page(folder: str):
    index = ROOT / folder / "README.md"
    linked = re.findall(r"\]\(([\w./-]+)\)", index.read_text(encoding="utf-8"))
    targets = {(index.parent / link).resolve() for link in linked}
    pages = set(index.parent.glob("*.md")) - {index}
    if folder == "docs":
        for below in ("theory", "development"):
            pages |= set((index.parent / below).glob("*.md"))
    assert {p.name for p in pages if p not in targets} == set()


def test_the_overview_links_every_room():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\]\(architecture/([\w-]+\.md)", text))
    assert linked == {page.name for page in ROOM_PAGES}


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


# ---- where is it decided? ------------------------------------------------------------------------

DECIDED = ROOT / "docs" / "development" / "where-is-it-decided.md"


def questions() -> list[tuple[str, str, str]]:
    """Question, file and definition of every row."""
    text = DECIDED.read_text(encoding="utf-8")
    rows = re.findall(r"^\| (….*?) \| `(.+?)` \| `(.+?)` \|$", text, re.MULTILINE)
    return [(question, file, name) for question, file, name in rows]


def defines(path: Path, name: str) -> bool:
    """Whether a module has a function, a class or a variable of this name at its top level."""
    return path.is_file() and any(
        name
        in (
            getattr(node, "name", None),
            *(t.id for t in getattr(node, "targets", ()) if isinstance(t, ast.Name)),
            getattr(getattr(node, "target", None), "id", None),
        )
        for node in ast.parse(path.read_text(encoding="utf-8")).body
    )


def test_twenty_questions_have_answers():
    found = questions()
    assert len(found) == 20 == len({question for question, *_ in found})
    wrong = [f"{q} {file}: {name}" for q, file, name in found if not defines(SOURCES / file, name)]
    assert not wrong, "\n".join(wrong)
    rooms_asked = {file.split("/")[0] for _, file, _ in found}
    assert len(rooms_asked) >= 10


def test_a_wrong_answer_is_noticed():
    assert defines(SOURCES / "core" / "model" / "tree.py", "WORLD")
    assert not defines(SOURCES / "core" / "model" / "tree.py", "METHODS")
    assert not defines(SOURCES / "core" / "no_such.py", "METHODS")


# ---- what rooms offer ----------------------------------------------------------------------------


@cache
def names_inside(room: str) -> frozenset[str]:
    """Folders, modules and names of a room, and of what stands beside the rooms."""
    found: set[str] = set()
    for module in modules():
        if "/" in module and not module.startswith(f"{room}/"):
            continue
        found |= set(module.removesuffix(".py").split("/"))
        for node in ast.walk(ast.parse((SOURCES / module).read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
            elif isinstance(node, ast.ImportFrom):
                found |= {x.asname or x.name for x in node.names}
    return frozenset(found)


def unknown_offers(page: Path, text: str) -> list[str]:
    """Names in the first column of the table of what a room offers that the room does not have."""
    room = page.stem.partition("-")[0]
    known = names_inside(room) | {"phipsi", "core", room}
    table = re.split(r"^## What .*offers?$", text, flags=re.MULTILINE)[1].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    quoted = [name for cell in cells for name in re.findall(r"`([\w.]+)`", cell)]
    return [name for name in quoted if not set(name.split(".")) <= known]


@pytest.mark.parametrize("page", ROOM_PAGES, ids=lambda p: p.stem)
def test_rooms_have_what_their_pages_offer(page: Path):
    text = page.read_text(encoding="utf-8")
    assert not (wrong := unknown_offers(page, text)), f"{page.name}: {wrong}"
    more = re.sub(
        r"^(## What .*offers?)$", r"\1\n| `no_such.thing` | x |", text, flags=re.MULTILINE
    )
    assert unknown_offers(page, more) == ["no_such.thing"]
