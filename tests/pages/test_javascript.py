"""What pages compute without a page: the tests in `*.test.mjs`, run by Node's own runner."""

from __future__ import annotations

import os
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest
from exported_code import node_program
from live_simulators import built
from physics_in_node import write_physics

HERE = Path(__file__).parent
FILES = sorted(path.name for path in HERE.glob("*.test.mjs"))


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Where the scripts are, and the physics that they run."""
    folder = tmp_path_factory.mktemp("physics")
    for name in ("held arm", "flyer"):
        (folder / name).mkdir()
        write_physics(folder / name, built(name)[2])
    assets = files("phipsi.pages") / "assets"
    return {"PHIPSI_ASSETS": str(assets), "PHIPSI_PHYSICS": str(folder)}


def run(words: list[str | Path], places: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(node_program()), "--test", "--test-reporter=tap", *map(str, words)],
        cwd=HERE, env={**os.environ, **places}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_scripts(name: str, places: dict[str, str]):
    done = run([name], places)
    assert done.returncode == 0, done.stdout + done.stderr
    wanted = (HERE / name).read_text(encoding="utf-8").count('\ntest("')
    assert f"\n# pass {wanted}\n" in done.stdout and wanted > 1


def test_a_failing_test_is_seen(tmp_path: Path):
    script = tmp_path / "wrong.test.mjs"
    script.write_text('import { test } from "node:test";\ntest("x", () => { throw new Error(); });')
    done = run([script], {})
    assert done.returncode == 1 and "# fail 1" in done.stdout
