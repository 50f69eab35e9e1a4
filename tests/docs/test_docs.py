"""Everything the documentation shows is run, and what it prints is what is printed.

In README.md and docs/*.md

- a ``python`` block is executed, in one namespace and one empty current folder per file; if its
  last line is an expression, its value is shown as in a notebook;
- a ``text`` block directly after it is its output. Numbers are compared to six digits; a line ``…``
  stands for any lines. An output that ends with ``SomeError: …`` is an exception the block raises;
- a ``shell`` block holds commands, one per line; `SHELL` says what is done with each. A ``phipsi``
  command runs in a folder with the examples and the files of `FILES`; a ``text`` block directly
  after a block of one such command is its output;
- a ``py`` block needs a package that is not in .venv, or shows a call that takes too long. Those of
  `FRAMEWORK_PAGES` are run by `make test-bridges` (tests/learning/bridges/test_pages.py).

To write the present output into the files:  python tests/docs/test_docs.py --update
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import types
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

if __name__ == "__main__":  # the tests find these by their settings
    sys.path[:0] = [str(Path(__file__).parents[i] / x) for i, x in ((1, "support"), (2, "src"))]
import warm_python
from amounts import ALL
from page_blocks import (
    ANY_LINES,
    FENCE,
    FRAMEWORK_EXAMPLES,
    FRAMEWORK_PAGES,
    Block,
    blocks_of,
    lines,
    run_python,
    same,
)

import phipsi as pp
from phipsi.core.expressions.structure import structure_word
from phipsi.core.operators.catalogue import CATALOGUE

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
for folder in ("architecture", "development", "guides", "migration", "papers"):
    PAGES += sorted((ROOT / "docs" / folder).glob("*.md"))
TEXTS = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CODE_OF_CONDUCT.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *ROOT.glob("docs/**/*.md"),
]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

# Short trainings, small studies and proofs for few bodies run the same lines; `make fuzz` runs all.
SHORT = {
    "train_cart_pole.py": ["--iterations", "4"],
    "prove_identities.py": ["2"],
    "study_docking.py": ["32"],
    "study_reach.py": ["256"],
}
# So do small batches, and proofs of all identities for few joints.
SMALLER = {} if ALL else {"--batch 4096": "--batch 64"}
SMALL_ARMS = () if ALL else ("phipsi check arm.urdf",)

# ---- comparing output ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shown", "printed", "equal"),
    [
        ("array([1.0, -0. ])", "array([ 1.,  0.])", True),
        ("differ by 4.4e-16", "differ by 1.1e-16", True),
        ("x 0.333333", "x 0.33333333", True),
        ("a\n…\nc", "a\nb\nb\nc", True),
        ("a\n…", "a", True),
        ("x 0.3334", "x 0.33333333", False),
        ("w1(k)", "w2(k)", False),
        ("joint 7", "joint 8", False),
        ("about 404 flops", "about 405 flops", False),
        ("holds", "fails", False),
        ("a\n…\nc", "a\nb", False),
        ("a", "a\nb", False),
        ("a\nb", "a", False),
    ],
)
def test_the_comparison_sees_differences(shown: str, printed: str, equal: bool):
    assert same(lines(shown), lines(printed)) is equal


# ---- pages -------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_python_blocks(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PHIPSI_BACKEND", "native")  # as users run them
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # what pages leave there is removed
    monkeypatch.chdir(tmp_path)  # pages write into the current folder
    module = types.ModuleType(f"{page.stem}_page")  # where dataclasses look for themselves
    monkeypatch.setitem(sys.modules, module.__name__, module)
    namespace: dict[str, Any] = vars(module)
    for block in blocks_of(page.read_text(encoding="utf-8")):
        if block.language != "python":
            assert block.language, f"{page.name}:{block.line}: say the language of this block"
            continue
        where = f"{page.name}:{block.line}"
        printed = run_python(block, namespace, where)
        assert block.output is not None or not printed, f"{where} prints what is not shown"
        shown = lines(block.output or "")
        assert same(shown, lines(printed)), f"{where} prints\n{printed}"


def do_nothing(command: str) -> None:
    """Setting up needs a network; CONTRIBUTING says how to try it on an empty clone."""


def has_target(command: str) -> None:
    run = subprocess.run(
        ["make", "--dry-run", *shlex.split(command)[1:]], cwd=ROOT, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr


def runs(command: str) -> None:
    """In a new process; most other programs are forks of one that has all imported."""
    words = [sys.executable, *shlex.split(command)[1:]]
    run = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, f"{command}\n{run.stderr}"


# What the documentation supposes a user to have, besides examples/ and a cell with an SDF world.
FILES = {"arm.urdf": pp.examples.seven_joint_arm}


def two_joint_arm() -> pp.Model:
    link = pp.SpatialInertia(1.0, (0.5, 0, 0), np.diag([0.01, 0.08, 0.08]))
    b = pp.ModelBuilder()
    b.add_body("upper", joint=pp.joints.Revolute((0, 0, 1)), inertia=link)
    b.add_body("lower", parent="upper", joint=pp.joints.Revolute((0, 1, 0)), inertia=link)
    return b.build()


# Run in a process of their own, which imports what it needs; all others are forks of a process that
# has everything (tests/support/warm_python.py). One for each way to get far into the library.
COLD = ("phipsi --help", "phipsi simulate examples/pick.toml --duration 1", "hopping_leg.py")


@contextlib.contextmanager
def started(command: str) -> Iterator[tuple[list[str], dict[str, Any]]]:
    """The words of a command behind `python`, and a folder with the files it may ask for."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "examples", Path(folder) / "examples")
        shutil.copytree(ROOT / "tests" / "files" / "data" / "cell", Path(folder) / "cell")
        for name, make in FILES.items():
            model = two_joint_arm() if command in SMALL_ARMS else make()
            pp.save_urdf(model, Path(folder) / name)
        for long, short in SMALLER.items():
            command = command.replace(long, short)
        words = ["-m", "phipsi.cli", *shlex.split(command)[1:]]
        env = {**os.environ, "PHIPSI_BACKEND": "native", "COLUMNS": "100"}
        yield words, {"cwd": folder, "env": env}


def run_phipsi(command: str) -> str:
    """Run a command in a folder of its own and return what it prints."""
    with started(command) as (words, options):
        run = warm_python.run(words, cold=command in COLD, **options)
    assert run.returncode == 0, f"{command}\n{run.stdout}\n{run.stderr}"
    return "\n".join(line.rstrip() for line in run.stdout.splitlines())


def runs_phipsi(command: str) -> None:
    """Run it; what it prints is compared where the page shows it."""
    run_phipsi(command)


def serves(command: str) -> None:
    """Start a page's server, which runs until it is ended, and open its address."""
    with started(f"{command} --no-open") as (words, options):
        python = [sys.executable, *words]
        with subprocess.Popen(python, stdout=subprocess.PIPE, text=True, **options) as server:
            try:
                assert server.stdout is not None
                address = server.stdout.readline().strip()
                with urllib.request.urlopen(address.partition("#")[0], timeout=30) as page:
                    assert b"<title>phipsi" in page.read()
            finally:
                server.terminate()


SHELL = {
    r"phipsi workbench.*": serves,
    r"phipsi render .*": do_nothing,  # needs a browser and ffmpeg; test_render.py runs it
    r"phipsi .*": runs_phipsi,
    r"make( [\w-]+)?( [A-Z]+=\S+)*": has_target,
    r"python (-m phipsi(\.\w+)?( .*)?|-c .*)": runs,
    r"python examples/\w+\.py": do_nothing,  # every example is run by a test of its own
    r"(git clone|cd|pip install|python3? -m (venv|pip)|\. \.venv/bin/activate) ?.*": do_nothing,
}


def commands_of(block: Block) -> list[str]:
    return [
        line.partition("  #")[0].strip()
        for line in block.body.splitlines()
        if line.strip() and not line.startswith("#")
    ]


def commands() -> list[tuple[str, str, str | None]]:
    """Every command of every page; one that several pages show is run once for each output."""
    found = {
        (command, block.output): page.name
        for page in TEXTS
        for block in blocks_of(page.read_text(encoding="utf-8"))
        if block.language == "shell"
        for command in commands_of(block)
    }
    return [(page, command, output) for (command, output), page in found.items()]


@pytest.mark.parametrize(("page", "command", "output"), commands())
def test_shell_commands(page: str, command: str, output: str | None):
    how = [action for pattern, action in SHELL.items() if re.fullmatch(pattern, command)]
    assert how, f"{page}: say in SHELL what to do with  {command}"
    if output is None:
        how[0](command)
    else:
        assert how[0] is runs_phipsi, f"{page}: only the output of phipsi is compared: {command}"
        printed = run_phipsi(command)
        assert same(lines(output), lines(printed)), f"{page}: {command} prints\n{printed}"
    for script in re.findall(r"examples/\w+\.py", command):
        assert (ROOT / script).is_file(), command


@pytest.mark.parametrize(
    "script", [x for x in EXAMPLES if x.name not in FRAMEWORK_EXAMPLES], ids=lambda p: p.name
)
def test_examples_run(script: Path, tmp_path: Path):
    env = {**os.environ, "PHIPSI_BACKEND": "native"}  # as users run them
    arguments = [] if ALL else SHORT.get(script.name, [])
    words = [str(script), *arguments]
    run = warm_python.run(words, cwd=tmp_path, env=env, cold=script.name in COLD)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() and not run.stderr, run.stderr
    assert not list(tmp_path.iterdir()), "an example leaves files only where it is told to"


def test_the_figure_of_an_example(tmp_path: Path):
    pytest.importorskip("matplotlib")
    script, figure = ROOT / "examples" / "identify_arm.py", tmp_path / "efforts.png"
    run = warm_python.run([str(script), str(figure)], cwd=tmp_path, env=dict(os.environ))
    assert run.returncode == 0, run.stderr
    assert figure.read_bytes().startswith(b"\x89PNG")


# ---- what the text refers to ---------------------------------------------------------------------


def anchors(text: str) -> set[str]:
    """The anchors of the headings, by the rule of GitHub."""
    headings = re.findall(r"^#+ +(.+)$", FENCE.sub("", text), re.MULTILINE)
    slugs = (re.sub(r"[^\w\- ]", "", h.lower().strip()).replace(" ", "-") for h in headings)
    return {*slugs, *re.findall(r'<a id="([^"]+)">', text)}


@pytest.mark.parametrize("page", TEXTS, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path):
    text = page.read_text(encoding="utf-8")
    prose = re.sub(r"`[^`\n]*`", "``", FENCE.sub("", text))  # code spans have no links
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"\w+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page.name} links to {target}"
        if anchor and file.suffix == ".md":
            known = anchors(file.read_text(encoding="utf-8"))
            assert anchor in known, f"{page.name} links to {target}; there is no such heading"


def test_make_targets_exist():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    rules = re.findall(r"^([a-z][\w -]*):", text, re.MULTILINE)
    targets = {name for rule in rules for name in rule.split()}
    for page in TEXTS:
        named = re.findall(r"`make ([a-z][\w-]*)", page.read_text(encoding="utf-8"))
        assert set(named) <= targets, f"{page.name}: {sorted(set(named) - targets)}"


def table(page: Path, heading: str) -> list[list[str]]:
    """The rows of the first table below a heading."""
    text = page.read_text(encoding="utf-8")
    _, found, below = text.partition(f"\n{heading}\n")
    assert found, f"{page.name} has no heading {heading!r}"
    rows = re.search(r"^\|.*(?:\n\|.*)*", below, re.MULTILINE)
    assert rows, f"{page.name}: no table below {heading!r}"
    return [[c.strip() for c in re.split(r"(?<!\\)\|", r)[1:-1]] for r in rows[0].splitlines()[2:]]


MIGRATION = sorted((ROOT / "docs" / "migration").glob("*.md"))


@pytest.mark.parametrize("page", MIGRATION, ids=lambda p: p.stem)
def test_the_table_of_names(page: Path):
    """Names of ours exist, and those of the peers that the tests have."""
    peer = importlib.import_module(page.stem) if page.stem in ("pinocchio", "mujoco") else None
    heading = table_heading(page, "## API mapping")
    ours = heading.index("phipsi")
    rows = table(page, "## API mapping")
    assert len(rows) > 12
    for row in rows:
        for name in re.findall(r"`(\w+)", row[0]) if peer else ():
            assert hasattr(peer, name), f"{page.stem} has no {name}"
        for name in re.findall(r"`((?:\w+\.)?\w+)", row[ours]):
            assert is_ours(name), f"{page.name}: {name}"


def test_the_table_of_the_cheat_sheet():
    """Its thirty calls are there, in all three libraries."""
    rows = table(ROOT / "docs" / "cheat-sheet.md", "## The 30 most used calls")
    assert len(rows) == 30
    for _, ours, *theirs in rows:
        for name in re.findall(r"`((?:\w+\.)?\w+)", ours):
            assert is_ours(name), name
        for peer, cell in zip(("pinocchio", "mujoco"), theirs, strict=True):
            for name in re.findall(r"`([\w.]+)", cell):
                assert is_of(peer, name), f"{peer} has no {name}"


def is_of(library: str, name: str) -> bool:
    """Whether a library has a name, also of a class or as a module."""
    found: Any = importlib.import_module(library)
    for part in name.split("."):
        if not hasattr(found, part):
            return "." not in name and importlib.util.find_spec(f"{library}.{name}") is not None
        found = getattr(found, part)
    return True


def test_the_check_of_other_libraries():
    assert is_of("mujoco", "MjData.subtree_com") and is_of("mujoco", "rollout")
    assert not is_of("mujoco", "mj_no_such") and not is_of("mujoco", "MjData.no_such")


def is_ours(name: str) -> bool:
    """Whether a name is public: `pp.name`, a method of a model or a run, an argument."""
    first, _, inner = name.partition(".")
    if inner:
        return hasattr(pp.System if first == "model" else getattr(pp, first), inner)
    owners = (pp, pp.System, pp.Simulator)
    return any(hasattr(owner, name) for owner in owners) or name == "f_ext"


@pytest.mark.parametrize(
    ("name", "is_there"),
    [("load", True), ("model.integrate", True), ("constraints.Weld", True), ("rollout", True),
     ("no_such", False), ("model.no_such", False), ("constraints.NoSuch", False)],
)  # fmt: skip
def test_the_check_of_names(name: str, is_there: bool):
    assert is_ours(name) is is_there


def table_heading(page: Path, heading: str) -> list[str]:
    below = page.read_text(encoding="utf-8").partition(f"\n{heading}\n")[2].strip()
    return [cell.strip() for cell in below.splitlines()[0].split("|")[1:-1]]


# ---- the catalogue -------------------------------------------------------------------------------

CATALOGUE_MARKS = ("<!-- catalogue: written by tests/docs/test_docs.py -->\n", "<!-- end -->\n")


def catalogue_table() -> str:
    """The table of all operators and vectors in docs/expressions.md."""
    out = ["| code | printed | maps | structure | needs | meaning |", "|---|---|---|---|---|---|"]
    for row in CATALOGUE.values():
        vector = row.takes.name == "one"
        maps = row.gives.phrase if vector else f"{row.takes.phrase} → {row.gives.phrase}"
        words = "vector" if vector else structure_word(row.structure)
        words = words if words != "neither causal nor anticausal" else "full"
        family = ", Riccati family" if row.riccati else ""
        needs = ", ".join(row.needs)
        out.append(
            f"| `{row.name}` | {row.symbol} | {maps} | {words}{family} | {needs} | {row.meaning} |"
        )
    return "\n".join(out) + "\n"


def test_outputs_can_be_written(tmp_path: Path):
    """As CONTRIBUTING says, in a process that has not the settings of the tests."""
    words = [sys.executable, __file__, "--update", "no-such-page.md"]
    bare = {k: x for k, x in os.environ.items() if k != "PYTHONPATH"}
    run = subprocess.run(words, cwd=tmp_path, env=bare, capture_output=True, text=True)
    assert run.returncode != 0 and "there is no page no-such-page.md" in run.stderr, run.stderr


def test_the_catalogue_is_complete():
    text = (ROOT / "docs" / "expressions.md").read_text(encoding="utf-8")
    inside = text.partition(CATALOGUE_MARKS[0])[2].partition(CATALOGUE_MARKS[1])[0]
    assert inside == catalogue_table(), "run  python tests/docs/test_docs.py --update"


def test_notation_agrees_with_the_catalogue():
    page = ROOT / "docs" / "notation.md"
    operators, vectors = table(page, "## 6. Operators"), table(page, "## 7. Vectors")
    named = {code.strip("`"): (printed, maps) for code, printed, maps, *_ in operators}
    for row in CATALOGUE.values():
        if row.takes.name == "one":
            assert any(f"`{row.name}`" in code for code, *_ in vectors), row.name
            continue
        assert row.name in named, f"notation.md does not explain {row.name}"
        assert named[row.name] == (row.symbol, f"{row.takes.phrase} → {row.gives.phrase}"), row.name
    assert set(named) - set(CATALOGUE) == {"I"}


# ---- writing the output into the pages -----------------------------------------------------------


def with_frameworks(page: Path) -> bool:
    """Whether its blocks for PyTorch and JAX can run here, as in the Python of .venv-bridges."""
    there = all(importlib.util.find_spec(name) for name in ("torch", "jax"))
    return page.name in FRAMEWORK_PAGES and there


def update(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    start, end = CATALOGUE_MARKS
    if start in text:
        before, _, rest = text.partition(start)
        text = before + start + catalogue_table() + end + rest.partition(end)[2]
    namespace: dict[str, Any] = {"__name__": page.stem}
    changes: list[tuple[tuple[int, int], str]] = []
    for block in blocks_of(text):
        if block.language == "shell" and block.output is not None:
            (command,) = commands_of(block)
            printed = run_phipsi(command)
        elif block.language == "python" or (block.language == "py" and with_frameworks(page)):
            printed = run_python(block, namespace, f"{page.name}:{block.line}")
        else:
            continue
        if block.output is None or same(lines(block.output), lines(printed)):
            continue
        if ANY_LINES in (line.strip() for line in lines(block.output)):
            print(f"{page.name}:{block.line}: change it by hand, it has …\n{printed}")
            continue
        changes.append((block.span, printed + "\n"))
    for (first, last), new in reversed(changes):
        text = text[:first] + new + text[last:]
    page.write_text(text, encoding="utf-8")
    print(f"{page.name}: {len(changes)} outputs written")


if __name__ == "__main__":
    if sys.argv[1:2] != ["--update"]:
        sys.exit("usage: python tests/docs/test_docs.py --update [reports.md …]")
    unknown = set(sys.argv[2:]) - {p.name for p in PAGES}
    if unknown:
        sys.exit(f"there is no page {min(unknown)}; name pages without their folder")
    for p in PAGES:
        if len(sys.argv) == 2 or p.name in sys.argv[2:]:
            with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
                update(p)
