"""Pages that scripts write are what the scripts write now, from the library beside them.

Records of long runs are no such pages: `docs/proofs.md`, `docs/mutants.md`, `docs/counts.md`.
Tables inside of pages that people write are compared by `test_docs.py` and
`test_derivative_table.py`.
"""

import os
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
Written = Iterator[tuple[Path, str]]


def _public_names(script: dict[str, Any]) -> Written:
    yield script["STUB"], script["stub"]()
    yield script["PAGE"], script["page"]()
    yield from script["room_stubs"]()


def _page(script: dict[str, Any]) -> Written:
    yield script["PAGE"], script["page"]()


SCRIPTS: dict[str, Callable[[dict[str, Any]], Written]] = {
    "public_names": _public_names,
    "file_map": _page,
    "supported_features": _page,
    "printed_formulas": _page,
}


def stale(name: str) -> list[str]:
    """The files that a script would change, with the first line that differs."""
    found: list[str] = []
    for path, text in SCRIPTS[name](runpy.run_path(str(ROOT / "scripts" / f"{name}.py"))):
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        if old != text:
            lines = zip((*old.splitlines(), ""), (*text.splitlines(), ""), strict=False)
            was, now = next(((a, b) for a, b in lines if a != b), ("", ""))
            found.append(f"{path.relative_to(ROOT)}:\n  is       {was}\n  becomes  {now}")
    return found


@pytest.mark.parametrize("name", SCRIPTS)
def test_pages_are_what_their_script_writes(name: str):
    found = stale(name)
    assert not found, f"run  python scripts/{name}.py\n" + "\n".join(found)


def test_every_script_that_writes_pages_is_tested():
    """Scripts with `--check` say whether their pages are current."""
    texts = {p.stem: p.read_text(encoding="utf-8") for p in (ROOT / "scripts").glob("*.py")}
    checks = {name for name, text in texts.items() if "--check" in text}
    assert checks - {"record_costs", "test_generated_pages"} == set(SCRIPTS)


def test_a_page_that_is_not_current_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    page = ROOT / "docs" / "file-map.md"
    assert page.exists()
    monkeypatch.setitem(SCRIPTS, "file_map", lambda script: iter([(page, "# Another map\n")]))
    (found,) = stale("file_map")
    assert found.endswith("is       # File map\n  becomes  # Another map")


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_read_the_library_beside_them(name: str, tmp_path: Path):
    """Another phipsi may be installed: a page must not come from its docstrings."""
    (tmp_path / "phipsi").mkdir()
    (tmp_path / "phipsi" / "__init__.py").write_text("raise ImportError('another library')\n")
    run = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / f"{name}.py"), "--check"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr
