"""The command line: what it prints and its exit codes."""

import platform
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from amounts import ALL

import phipsi
import phipsi.papers.theorems
from phipsi.cli.commands import app
from phipsi.cli.environment import environment
from phipsi.core.model.builder import ModelBuilder
from phipsi.examples import planar_arm, random_tree, seven_joint_arm
from phipsi.files.load import load
from phipsi.files.urdf.write_urdf import save_urdf
from phipsi.native.targets import llvm_library
from phipsi.pages.model_tree import draw_tree
from phipsi.papers.model_checks import check_model
from phipsi.papers.theorems import identities

DATA = Path(__file__).parents[1] / "files" / "data"


def call(*arguments: str) -> int:
    return app(list(arguments), result_action="return_value")


@pytest.fixture
def few_identities(monkeypatch: pytest.MonkeyPatch):
    """A part of the book, for tests of what else is checked.

    All of it is proved by the same command in docs/importing.md.
    """
    some = identities()[::40]
    monkeypatch.setattr(phipsi.papers.theorems, "identities", lambda: some)


def test_info_draws_the_tree(capsys: pytest.CaptureFixture[str]):
    assert call("info", str(DATA / "arm.urdf"), "--frames") == 0
    out = capsys.readouterr().out
    assert out.startswith("arm: 5 bodies, nq = 5, nv = 5, 5.3 kg")
    assert "└─ shoulder: revolute, 1 dof → upper, 2.8 kg  [camera_mount, camera]" in out
    assert "      ├─ spin: revolute, 1 dof → wheel, 0.8 kg" in out
    assert out.splitlines()[-3:] == [
        "1 constraint: finger_right mimics finger_left",
        "3 frames, 4 shapes",
        "1 finding in the file; phipsi check lists them",
    ]


def test_info_with_a_free_base(capsys: pytest.CaptureFixture[str]):
    assert call("info", str(DATA / "arm.urdf"), "--base", "free") == 0
    assert "root_joint: free, 6 dof → base, 4 kg" in capsys.readouterr().out


def test_info_without_a_file_prints_versions(capsys: pytest.CaptureFixture[str]):
    assert call("info") == 0
    rows = dict(
        re.split(r" {3,}", line, maxsplit=1) for line in capsys.readouterr().out.splitlines()
    )
    assert rows["phipsi"] == phipsi.__version__
    assert rows["Python"].startswith(platform.python_version())
    assert rows["numpy"] == np.__version__ and "lanes" in rows["machine code"]
    assert "matplotlib" in rows and "ruff" not in rows  # extras of users, not of developers
    # neither the name of the machine nor a path
    assert rows["system"] == f"{platform.system()} {platform.release()}, {platform.machine()}"
    assert str(Path.home()) not in str(rows)


def test_info_says_why_there_is_no_machine_code(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(llvm_library, "problem", lambda: "llvmlite cannot be imported (x)")
    assert ("machine code", "none: llvmlite cannot be imported (x)") in environment()


def test_info_without_a_file_takes_no_options(capsys: pytest.CaptureFixture[str]):
    for option in (["--frames"], ["--base", "free"], ["--model", "x"]):
        assert call("info", *option) == 2
        assert "need a FILE, as in  phipsi info arm.urdf" in capsys.readouterr().err


GOOD = ["arm.urdf", "rig.sdf", "machine.xml"]


@pytest.mark.parametrize("name", GOOD)
def test_check_passes_on_good_files(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
):
    """With another ninth of the book each, and all of it in `make fuzz`."""
    some = identities() if ALL else identities()[GOOD.index(name) :: 9]
    monkeypatch.setattr(phipsi.papers.theorems, "identities", lambda: some)
    assert call("check", str(DATA / name)) == 0
    out = capsys.readouterr().out
    assert "all checks pass" in out and "FAIL" not in out
    (proved,) = re.findall(r"pass  operator identities: (\d+)", out)
    assert 0.85 * len(some) < int(proved) <= len(some)  # some are about other trees


@pytest.mark.usefixtures("few_identities")
def test_check_fails_with_the_numbers(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    path = tmp_path / "bad.urdf"
    text = (DATA / "arm.urdf").read_text()
    path.write_text(text.replace('izz="0.005"', 'izz="0.5"'))
    assert call("check", str(path)) == 1
    out = capsys.readouterr().out
    assert "FAIL  the file describes rigid bodies: 1 problem\n" in out
    assert f"{path}:37: link 'slider': principal moments (0.01, 0.01, 0.5)" in out


def test_check_names_a_joint_with_nothing_to_move(tmp_path: Path):
    path = tmp_path / "x.urdf"
    path.write_text(
        '<robot name="r"><link name="a"/><link name="b"/><joint name="j" type="continuous">'
        '<parent link="a"/><child link="b"/></joint></robot>'
    )
    with pytest.warns(match="nothing outboard of it"):
        results = {result.name: result for result in check_model(load(path))}
    assert results["mass matrix is positive definite"].passed is False
    assert "'j'" in results["inverse dynamics inverts forward dynamics"].detail


@pytest.mark.usefixtures("few_identities")
def test_check_lists_every_finding(capsys: pytest.CaptureFixture[str]):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        findings = load(DATA / "arm.urdf").diagnosis
    call("check", str(DATA / "arm.urdf"))
    out = capsys.readouterr().out
    assert findings and all(f"note  {finding}\n" in out for finding in findings)


@pytest.mark.usefixtures("few_identities")
def test_a_mesh_that_is_not_opened_is_no_failure(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    path = tmp_path / "x.urdf"
    text = (DATA / "arm.urdf").read_text()
    path.write_text(text.replace("meshes/upper.stl", "file:///opt/upper.stl"))
    assert call("check", str(path)) == 0
    assert "skip  meshes outside the package were not opened: 1 file\n" in capsys.readouterr().out


@pytest.mark.usefixtures("few_identities")
def test_what_is_left_out_is_a_failure(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    path = tmp_path / "x.sdf"
    link = "<link name='a'><gravity>false</gravity></link>"
    path.write_text(f"<sdf><model name='m'>{link}</model></sdf>")
    assert call("check", str(path)) == 1
    out = capsys.readouterr().out
    assert "FAIL  everything that affects the motion was read: 1 problem\n" in out


@pytest.mark.usefixtures("few_identities")
def test_actuators_are_listed_and_no_failure(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    pytest.importorskip("mujoco")
    path = tmp_path / "x.xml"
    path.write_text(
        '<mujoco><worldbody><body><joint name="j"/><geom size="0.1" pos="1 0 0"/></body>'
        '</worldbody><actuator><motor name="m" joint="j" ctrlrange="-2 2"/></actuator></mujoco>'
    )
    assert call("check", str(path)) == 0
    out = capsys.readouterr().out
    assert "pass  everything that affects the motion was read: 0 problems\n" in out
    assert "skip  actuators are inputs of a simulation: 1 actuator\n" in out
    assert "np.clip(ctrl, -2.0, 2.0)" in out and "all checks pass" in out


def test_a_model_is_chosen_by_name(capsys: pytest.CaptureFixture[str]):
    world = str(DATA / "cell" / "world.sdf")
    folder = str(DATA / "cell")
    assert call("info", world, "--model", "other", "--package-dirs", folder) == 0
    assert capsys.readouterr().out.startswith("other: 2 bodies")
    assert call("info", world, "--model", "others", "--package-dirs", folder) == 2
    assert "Did you mean 'other'?" in capsys.readouterr().err
    assert call("info", world) == 2
    assert "On the command line:  --package-dirs" in capsys.readouterr().err


def test_long_and_odd_names_stay_on_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    path = tmp_path / "x.urdf"
    text = (DATA / "arm.urdf").read_text()
    path.write_text(text.replace('"upper"', f'"{"u" * 5000}"').replace('"wheel"', '"w&#10;\x85h"'))
    assert call("info", str(path)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) < 120 and any("w\\n\\x85h" in line for line in lines)


def test_unreadable_files_have_exit_code_2(capsys: pytest.CaptureFixture[str]):
    assert call("info", str(DATA / "missing.urdf")) == 2
    assert "missing.urdf: cannot be opened" in capsys.readouterr().err


def test_a_model_without_freedom_is_checked():
    assert [result.passed for result in check_model(ModelBuilder().build())] == [True, True, None]


def test_deep_trees_stay_narrow():
    lines = list(draw_tree(planar_arm(60)))
    assert len(lines) == 61 and max(map(len, lines)) < 120 and "(59)" in lines[-1]
    assert len(list(draw_tree(random_tree(3, 9), ascii_only=True))) == 10
    assert all(line.isascii() for line in draw_tree(seven_joint_arm(), ascii_only=True))


def test_a_reader_that_has_enough_sees_no_traceback(tmp_path: Path):
    path = tmp_path / "x.urdf"
    save_urdf(planar_arm(2000).with_gravity((0, 0, -9.81)), path)
    command = f"{sys.executable} -m phipsi.cli info {path} | head -n 1"
    run = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert "2000 bodies" in run.stdout and run.stderr == ""


def test_the_command_runs_as_a_program():
    run = subprocess.run(
        [sys.executable, "-m", "phipsi.cli", "info", str(DATA / "arm.urdf")],
        capture_output=True,
        env={"PYTHONIOENCODING": "ascii", "PYTHONPATH": ":".join(filter(None, sys.path))},
    )
    assert run.returncode == 0, run.stderr
    assert b"`- shoulder: revolute, 1 dof -> upper" in run.stdout
