"""Tests lie by room: which room has which tests, and what `make test ROOM=…` runs."""

import subprocess
import sys
from pathlib import Path

import pytest
from rooms import ring_of
from tests_of_rooms import WITHOUT_CODE, paths_of_room, rooms_with_tests

ROOT = Path(__file__).parents[2]
TESTS, CODE = ROOT / "tests", ROOT / "src" / "phipsi"


def asked(*rooms: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "room_paths.py"), *rooms]
    return subprocess.run(command, capture_output=True, text=True)


def test_every_folder_of_tests_has_the_name_of_a_room():
    folders = {path.relative_to(TESTS).parts[0] for path in TESTS.rglob("test_*.py")}
    assert folders <= {*ring_of(), *WITHOUT_CODE}
    assert not list(TESTS.glob("test_*.py"))


def test_every_folder_of_tests_in_the_core_has_the_name_of_one_there():
    folders = {path.parent.name for path in (TESTS / "core").glob("*/test_*.py")}
    assert folders <= {path.name for path in (CODE / "core").iterdir()}


@pytest.mark.parametrize("room", rooms_with_tests())
def test_every_room_can_be_tested(room: str):
    paths = paths_of_room(room)
    assert paths and all((ROOT / path).exists() for path in paths)


def test_rooms_are_run_with_the_contracts():
    run = asked("contact", "core/sweeps", "operators")
    assert run.stdout.split() == [
        "tests/contact", "src/phipsi/contact", "tests/core/sweeps", "src/phipsi/core/sweeps",
        "src/phipsi/operators.py", "tests/contracts",
    ]  # fmt: skip
    assert asked("contracts", "docs").stdout.split() == ["tests/contracts", "tests/docs"]


def test_what_needs_frameworks_is_run_by_its_own_target():
    """The folder is ignored unless it is named; named with one that has it, it stays ignored."""
    folder = "tests/learning/bridges"
    assert len(list((ROOT / folder).glob("test_*.py"))) >= 3
    commands = subprocess.run(
        ["make", "--dry-run", "test-bridges"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    (named,) = (x.partition(" -m pytest ")[2] for x in commands.splitlines() if " -m pytest " in x)
    paths = [word for word in named.split() if word.startswith("tests")]
    assert folder in paths
    assert not any(Path(folder).is_relative_to(x) for x in paths if x != folder)
    assert folder not in asked("learning").stdout.split()


def test_without_a_room_everything_is_run():
    run = asked()
    assert (run.returncode, run.stdout) == (0, "")


@pytest.mark.parametrize("room", ["contacts", "core/nothing", "support/..", "tests", "../src"])
def test_a_room_that_is_not_there(room: str):
    run = asked("contact", room)
    assert run.returncode == 1 and not run.stdout
    assert f"no room {room!r}; there are: algorithms, " in run.stderr and "native" in run.stderr
