"""`phipsi explain`, `bench` and `demo`, and that help is quick and teaches."""

import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import phipsi as pp
from phipsi.cli import bench as cli_bench
from phipsi.cli.bench import Timing, best, table
from phipsi.cli.commands import app

pytestmark = pytest.mark.usefixtures("machine_code")

COMMANDS = ("info", "check", "simulate", "explain", "export", "bench", "demo")


def call(*arguments: str) -> int:
    return app(list(arguments), result_action="return_value", exit_on_error=False)


# ---- help -------------------------------------------------------------------------------------


def test_help_loads_nothing_heavy():
    code = (
        "import sys; from phipsi.cli.commands import app;"
        "app(['--help'], result_action='return_value');"
        "print('LOADED', *sorted({m.partition('.')[0] for m in sys.modules}))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    loaded = set(run.stdout.rpartition("LOADED")[2].split())
    assert not loaded & {"scipy", "matplotlib", "mujoco", "pinocchio", "plotly", "xml"}
    assert all(command in run.stdout for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command(command: str, capsys: pytest.CaptureFixture[str]):
    app([command, "--help"], result_action="return_value")
    out = capsys.readouterr().out
    assert out.startswith(f"Usage: phipsi {command}")
    if command != "check":
        assert f"phipsi {command} " in out.partition("\n")[2]  # an example to copy


def examples_in_help() -> list[str]:
    texts = [app.help, *(app[name].default_command.__doc__ for name in COMMANDS)]
    return [
        line.strip() for text in texts for line in text.splitlines() if re.match(r" +phipsi ", line)
    ]


@pytest.mark.parametrize("line", [x for x in examples_in_help() if "--open" not in x])
def test_examples_in_help_work(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for name in ("arm.urdf", "panda.urdf"):
        pp.save_urdf(pp.examples.seven_joint_arm(), name)
    Path("swing.toml").write_text('model = "seven_joint_arm"\nduration = 1\n')
    monkeypatch.setattr(cli_bench, "_ROUNDS", 1)
    assert call(*shlex.split(line)[1:]) == 0


# ---- explain ----------------------------------------------------------------------------------


def test_explain_is_the_explanation(capsys: pytest.CaptureFixture[str]):
    assert call("explain", "H φ M φ* H*") == 0
    assert capsys.readouterr().out == f"{pp.explain(pp.parse('H phi M phi* H*'))}\n"
    assert call("explain", "mass_matrix⁻¹", "--model", "quadruped", "--latex") == 0
    model = pp.examples.quadruped()
    direct = pp.explain(pp.parse("mass_matrix⁻¹"), model, latex=True)
    assert capsys.readouterr().out == f"{direct}\n"
    assert call("explain", "mass_matrix", "--model", "quadruped", "--mode", "dense") == 0
    direct = pp.explain(pp.parse("mass_matrix"), model, mode="dense")
    assert capsys.readouterr().out == f"{direct}\n"
    assert call("explain", "mass_matrix⁻¹", "--as-written") == 0
    direct = pp.explain(pp.parse("mass_matrix⁻¹"), rewrite="as_written")
    assert capsys.readouterr().out == f"{direct}\n"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["M φ"], 2, "These fit:  φ @ M"),
        (["H φ ("], 2, ""),
        (["Hf phi"], 2, "Hf"),
        (["M φ* φ M⁻¹ φ + φ M"], 2, ""),
        (["mass_matrix", "--mode", "dense"], 2, "--model FILE"),
        (["J", "--points", "tool"], 2, "--points needs a robot"),
        (["J", "--points", "toll", "--model", "seven_joint_arm"], 2, "'tool'"),
        (["J", "--model", "none.urdf"], 2, "none.urdf: cannot be opened"),
        (["(H φ M φ* M⁻¹ φ M φ* H*)⁻¹"], 1, "no O(N) form"),
    ],
)
def test_explain_refuses(
    arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
):
    assert call("explain", *arguments) == code
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.strip() and message in captured.err


# ---- bench ------------------------------------------------------------------------------------


def test_bench_has_a_number_for_everything(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(cli_bench, "_ROUNDS", 1)
    file = tmp_path / "arm.urdf"
    pp.save_urdf(pp.examples.seven_joint_arm(), file)
    assert call("bench", str(file), "--batch", "64") == 0
    out = capsys.readouterr().out
    assert re.search(r"^µs +one call +each of 64 +Pinocchio", out, re.MULTILINE)
    for name in cli_bench.ALGORITHMS:
        cells = re.search(rf"^{name} +(.+)$", out, re.MULTILINE)
        assert cells and all(float(x) > 0 for x in cells[1].split()), out
        single, _, peer, ratio, _ = map(float, cells[1].split())
        most, least = (peer + 0.005) / (single - 0.005), (peer - 0.005) / (single + 0.005)
        assert 0.95 * least <= ratio <= 1.05 * most  # of times rounded to 0.01 µs, to two digits
    assert re.search(r"rollout of 64 trajectories: [\d,]+ steps per second", out)
    assert re.search(r"agrees on forward dynamics to \d\.\de-1\d\.", out)
    assert call("bench", str(file), "--batch", "4", "--no-peer") == 0
    assert "Pinocchio" not in capsys.readouterr().out


def test_bench_says_nothing_it_did_not_measure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(cli_bench, "_ROUNDS", 1)
    file = tmp_path / "x.urdf"  # a link without mass: no forward dynamics
    file.write_text(
        '<robot name="r"><link name="a"/><link name="b"/><joint name="j" type="continuous">'
        '<parent link="a"/><child link="b"/></joint></robot>'
    )
    assert call("bench", str(file), "--batch", "4") == 0
    out = capsys.readouterr().out
    assert re.search(r"^forward_dynamics +- +-$", out, re.MULTILINE)
    assert "forward_dynamics: not measured. joint 'j'" in out
    assert "rollout: not measured. " in out and "steps per second" not in out
    rows = table([Timing("a", 1e-6), Timing("rollout")], 8, {"a": 3e-6})
    assert rows[2].split() == ["a", "1.00", "-", "3.00", "3", "-"]


@pytest.mark.parametrize(("tick", "expected"), [(0.0, 1.0), (16.0, 1.0), (0.75, 0.75)])
def test_a_coarse_clock_of_the_processor_is_not_believed(
    tick: float, expected: float, monkeypatch: pytest.MonkeyPatch
):
    """It stands still while something runs, or jumps by more than went by; a fine one counts."""
    wall, own = itertools.count(), itertools.count(step=tick)
    clocks = {"perf_counter": lambda: next(wall), "thread_time": lambda: next(own)}
    monkeypatch.setattr(cli_bench, "time", SimpleNamespace(**clocks))
    assert best(lambda: None, rounds=3) == expected


def test_bench_refuses_what_cannot_be_timed(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    file = tmp_path / "x.urdf"
    file.write_text('<robot name="r"><link name="a"/></robot>')
    assert call("bench", str(file)) == 2
    assert "nothing in it can move" in capsys.readouterr().err
    assert call("bench", "humanoid", "--batch", "0") == 2
    assert "at least one" in capsys.readouterr().err


# ---- demo -------------------------------------------------------------------------------------


def test_the_demo_writes_what_it_says(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    folder = tmp_path / "new" / "demo"
    assert call("demo", "--out", str(folder)) == 0
    out = capsys.readouterr().out
    assert out.rstrip().endswith("all numbers are right") and out.count("pass  ") == 5
    assert sorted(p.name for p in folder.iterdir()) == ["arm.urdf", "report.html", "swing.npz"]
    swing = pp.Trajectory.load(folder / "swing.npz")
    largest = pp.kinetic_energy(swing.model, swing.q, swing.v).max()
    assert abs(swing.energy - swing.energy[0]).max() < 1e-10 * largest
    assert swing.t[-1] == 10 and swing.model == pp.load(folder / "arm.urdf")
    page = (folder / "report.html").read_text(encoding="utf-8")
    for line in out.splitlines():
        if line.startswith("pass  "):
            number = re.search(r"\d\.\de-\d\d", line)
            assert number and f"{number[0]}, at most" in page  # the numbers that were printed
    assert "ℳ⁻¹ (τ − H φ (b + M φ* (a + gravity)))" in page


def test_the_demo_fails_if_a_number_is_wrong(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    inverse = pp.inverse_dynamics
    monkeypatch.setattr(pp, "inverse_dynamics", lambda *a: inverse(*a) + 1e-6)
    assert call("demo", "--out", str(tmp_path)) == 1
    out = capsys.readouterr().out
    assert "SOME NUMBERS ARE WRONG" in out and out.count("FAIL  ") == 1
    assert "✗ FAIL" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_folder_that_cannot_be_made_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    (tmp_path / "file").write_text("")
    assert call("demo", "--out", str(tmp_path / "file")) == 1
    assert "file: File exists" in capsys.readouterr().err


def test_files_that_cannot_be_used(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    assert call("render", str(tmp_path / "none.npz"), str(tmp_path / "x.png")) == 2
    assert "none.npz: file not found" in capsys.readouterr().err
    page = tmp_path / "none" / "x.html"
    assert call("view", "free_flyer", "--no-open", "--out", str(page)) == 2
    assert f"{page}: there is no folder {page.parent}. Make it" in capsys.readouterr().err


def test_terminals_without_greek(tmp_path: Path):
    command = [sys.executable, "-m", "phipsi.cli", "explain", "H φ M φ* H*"]
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    run = subprocess.run(command, capture_output=True, env=env)
    assert run.returncode == 0 and run.stdout.startswith(b"expression\n    H ? M ?* H*")
    assert np.array(list(run.stdout)).max() < 128


# ---- export -----------------------------------------------------------------------------------


def test_export_writes_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "arm"
    what = "forward_dynamics,jacobian:tool"
    options = ["--what", what, "--target", "riscv64", "--out", str(out), "--name", "arm"]
    assert call("export", "seven_joint_arm", *options) == 0
    said = capsys.readouterr().out
    assert "arm_forward_dynamics   q, v, tau   vdot" in said and "arm_jacobian_tool" in said
    assert (out / "arm.o").read_bytes()[:4] == b"\x7fELF"
    options[3] = "riscv46"
    assert call("export", "seven_joint_arm", *options) == 2
    assert "Did you mean 'riscv64'?" in capsys.readouterr().err


def test_export_of_floats_and_shared_libraries(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "arm"
    options = ["--what", "gravity_forces", "--precision", "single", "--out", str(out)]
    options += ["--shared"] * bool(shutil.which("cc"))
    assert call("export", "seven_joint_arm", *options) == 0
    assert "errors of single precision: median" in capsys.readouterr().out
    assert "const float *q" in (out / "robot.h").read_text()
    assert (out / "librobot.so").is_file() == bool(shutil.which("cc"))
    assert call("export", "seven_joint_arm", "--precision", "half", "--out", str(out)) == 2
    assert "--precision half is not one of" in capsys.readouterr().err


def test_export_writes_an_fmu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("phipsi.codegen.fmu._FLAGS", ("-shared", "-fPIC"))  # a quick compiler
    file = tmp_path / "flyer.fmu"
    assert call("export", "free_flyer", "--fmu", str(file), "--fmi", "2.0", "--dt", "0.002") == 0
    assert "steps of 0.002 s" in capsys.readouterr().out
    text = zipfile.ZipFile(file).read("modelDescription.xml").decode()
    assert 'fmiVersion="2.0"' in text and 'stepSize="0.002"' in text
    assert call("export", "free_flyer", "--fmu", str(tmp_path / "a b.fmu")) == 2
    assert "Write  a_b.fmu" in capsys.readouterr().err
