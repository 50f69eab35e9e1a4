"""Pages and examples that need PyTorch, JAX or Stable-Baselines3."""

import os
import subprocess
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

import pytest
from page_blocks import (
    FRAMEWORK_EXAMPLES,
    FRAMEWORK_PAGES,
    blocks_of,
    lines,
    run_python,
    same,
)

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", FRAMEWORK_PAGES)
def test_blocks(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """All blocks of the page, in one namespace: those of frameworks follow the others."""
    monkeypatch.setenv("PHIPSI_BACKEND", "native")  # as users run them
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    module = types.ModuleType(f"{Path(name).stem}_page")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    namespace: dict[str, Any] = vars(module)
    ran = 0
    for block in blocks_of((ROOT / "docs" / name).read_text(encoding="utf-8")):
        if block.language not in ("python", "py"):
            continue
        where = f"{name}:{block.line}"
        printed = run_python(block, namespace, where)
        if block.language == "py":
            ran += 1
            assert block.output is not None, f"{where}: show what it prints"
            assert same(lines(block.output), lines(printed)), f"{where} prints\n{printed}"
    assert ran


@pytest.mark.parametrize("name", FRAMEWORK_EXAMPLES)
def test_examples_run(name: str, tmp_path: Path):
    words = [sys.executable, str(ROOT / "examples" / name)]
    env = {**os.environ, "PHIPSI_BACKEND": "native"}
    run = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() and not run.stderr, run.stderr
    assert not list(tmp_path.iterdir()), "an example leaves files only where it is told to"
