"""`phipsi simulate`: numbers, files, exit codes, interrupts and divergence."""

import csv
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import phipsi as pp
from phipsi.cli import run_commands
from phipsi.cli.commands import app

pytestmark = pytest.mark.usefixtures("machine_code_of_module")  # runs take thousands of steps

DATA = Path(__file__).parents[1] / "files" / "data"


def call(*arguments: str) -> int:
    return app([str(a) for a in arguments], result_action="return_value", exit_on_error=False)


def test_the_file_has_the_run(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    out, table = tmp_path / "run.npz", tmp_path / "run.csv"
    options = ["--set", "shoulder_pitch=60deg", "--set-velocity", "elbow_pitch=-0.5"]
    options += ["--duration", "0.3", "--out", str(out), "--out", str(table)]
    assert call("simulate", "seven_joint_arm", *options) == 0
    arm = pp.examples.seven_joint_arm()
    q0, v0 = np.zeros(7), np.zeros(7)
    q0[1], v0[3] = np.pi / 3, -0.5
    direct = pp.simulate(arm, q0, v0, 0.3)
    saved = pp.Trajectory.load(out)
    assert saved.model == arm and saved.complete
    np.testing.assert_array_equal(saved.q, direct.q)
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert float(rows[-1]["q:elbow_pitch"]) == direct.q[-1, 3]
    text = capsys.readouterr().out
    assert f"{len(direct) - 1} steps of dopri (rtol 1e-09), {len(direct)} samples" in text
    drift = abs(direct.energy - direct.energy[0]).max()
    assert f"energy        {direct.energy[0]:.9g} J, drift at most {drift:.2g} J" in text
    assert f"{direct.q[-1, 3]: .6g}" in text and f"written       {table}" in text


def test_fixed_steps_are_counted_although_fewer_are_kept(capsys: pytest.CaptureFixture[str]):
    options = "--duration 0.1 --integrator rk4 --dt 1e-3 --output-every 0.03".split()
    assert call("simulate", "quadruped", *options) == 0
    out = capsys.readouterr().out
    assert "100 steps of rk4 (dt 0.001 s), 5 samples" in out  # 0, 0.03, 0.06, 0.09, 0.1
    assert "trunk" in out and "front_left_knee" in out


def test_joint_properties_make_energy_go_down(capsys: pytest.CaptureFixture[str]):
    options = "--set shoulder_pitch=1 --duration 0.2 --joint-properties".split()
    assert call("simulate", "seven_joint_arm", *options) == 0
    text = capsys.readouterr().out
    line = next(line for line in text.splitlines() if line.startswith("energy")).split()
    assert float(line[1]) > float(line[6]) and "drift" not in text


def test_gravity_can_be_given(capsys: pytest.CaptureFixture[str]):
    options = "--set shoulder_pitch=1 --duration 0.2 --gravity 0 0 0".split()
    assert call("simulate", "seven_joint_arm", *options) == 0
    assert "energy        0 J, drift at most 0 J\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("seven_joint_arm", "--duration 2"),
        ("seven_joint_arm --duration -1", "--duration -1.0 must be"),
        ("seven_joint_arm --duration 1 --set elbow=1", "Did you mean 'elbow_pitch'"),
        ("seven_joint_arm --duration 1 --set elbow_pitch", "write joint=value"),
        ("seven_joint_arm --duration 1 --set elbow_pitch=1,5", "has 1 coordinate; 2 are given"),
        ("seven_joint_arm --duration 1 --set elbow_pitch=fast", "'fast' is not a number"),
        ("seven_joint_arm --duration 1 --set elbow_pitch=nan", "must be finite"),
        ("seven_joint_arm --duration 1 --set elbow_pitch=1 --set elbow_pitch=2", "given twice"),
        ("seven_joint_arm --duration 1 --integrator dopry", "Did you mean 'dopri'"),
        ("seven_joint_arm --duration 1 --out run.xlsx", "the suffix determines the format"),
        ("seven_joint_arm --duration 1 --out nowhere/run.npz", "mkdir -p nowhere"),
        ("seven_joint_arm --duration 1 --output-every 0", "must be a positive time"),
        ("seven_joint_arm --duration 1 --base free", "--model and --loops are for files"),
        ("free_flyer --duration 1 --set base=1", "7 coordinates: "),
        ("free_flyer --duration 1 --set base=2,0,0,0,0,0,0", "of length 2"),
        ("missing.toml", "missing.toml: cannot be opened"),
        ("sevn_joint_arm --duration 1", "Robots that ship with phipsi: "),
    ],
)
def test_bad_usage_is_exit_code_2(
    options: str, message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        assert call("simulate", *options.split()) == 2
    captured = capsys.readouterr()
    assert message in captured.err and captured.out == ""
    assert not list(tmp_path.iterdir())


ARM = """note: limits of 7 joints and damping of 7 joints of the robot do not act in this \
simulation. To apply them, add
    --joint-properties
"""


def test_divergence_keeps_everything_before(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    out = tmp_path / "run.npz"
    options = "--duration 50 --integrator semi_implicit --dt 0.4 --set shoulder_pitch=1 --out"
    assert call("simulate", "seven_joint_arm", *options.split(), str(out)) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"{ARM}the simulation diverged: ")
    assert "the results up to then were written" in error
    saved = pp.Trajectory.load(out)
    assert not saved.complete and np.isfinite(saved.q).all() and 0 < saved.t[-1] < 50


def test_an_interrupt_keeps_what_there_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    count = run_commands._Steps.update

    def interrupt(steps: run_commands._Steps, n: float) -> None:
        count(steps, n)
        if steps.count == 50:
            signal.raise_signal(signal.SIGINT)  # what Ctrl-C does

    monkeypatch.setattr(run_commands._Steps, "update", interrupt)
    out = tmp_path / "run.npz"
    options = "--duration 1e5 --integrator rk4 --dt 1e-3 --set elbow_pitch=1 --out".split()
    assert call("simulate", "seven_joint_arm", *options, str(out)) == 130
    text, error = capsys.readouterr()
    end = "interrupted at t = 0.05 of 100000 s; the results up to then were written.\n"
    assert error == f"{ARM}{end}"
    saved = pp.Trajectory.load(out)
    assert not saved.complete and len(saved) == 51 and saved.t[-1] == pytest.approx(0.05)
    assert "state at the end, t = 0.05 s" in text


def test_wrong_types_are_told_in_a_box(capsys: pytest.CaptureFixture[str]):
    run = subprocess.run(
        [sys.executable, "-m", "phipsi.cli", "simulate", "humanoid", "--duration", "x"],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 2 and "Traceback" not in run.stderr
    assert "Invalid value for --duration" in run.stderr


QUAD = """<mujoco><worldbody>{floor}<body pos="0 0 1">{joint}<geom size="0.1"/></body></worldbody>
</mujoco>"""
FLOOR = '<geom name="floor" type="plane" size="0 0 1"/>'


@pytest.mark.parametrize(
    ("floor", "joint", "shapes"), [(FLOOR, "<freejoint/>", 1), ("", "<freejoint/>", 1), ("", "", 0)]
)
def test_shapes_that_do_not_touch_are_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, floor: str, joint: str, shapes: int
):
    pytest.importorskip("mujoco")
    path = tmp_path / "quad.xml"
    path.write_text(QUAD.format(floor=floor, joint=joint or '<joint pos="0.1 0 0"/>'))
    assert call("simulate", str(path), "--duration", "0.01") == 0
    told = capsys.readouterr().err
    assert (f"note: {shapes} collision shape of the robot without contacts" in told) == bool(shapes)
    assert ("nor with what is fixed in the world" in told) == bool(floor)  # it is not counted
    assert ("pp.Contacts(model)" in told) == bool(shapes)


HINGE = """<mujoco><option timestep="0.005"/><worldbody><body><geom size="0.1" pos="0.1 0 0"/>
<joint name="hinge" axis="0 1 0" range="-30 30" damping="1" frictionloss="0.1" stiffness="{k}"/>
</body></worldbody><actuator>{motor}</actuator></mujoco>"""
JOINTS = (
    "note: limits of 1 joint, damping of 1 joint and dry friction of 1 joint of the robot do not"
)
ELEMENTS = "note: left out of the model: 1 actuator and 1 other element of the file."
STEP = (
    "the time step of the file is not used; this one is 0.001 s. To use it, add\n    --dt 0.005\n"
)


@pytest.mark.parametrize("command", ["simulate", "view", "export"])
def test_what_a_file_says_and_does_not_act_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str
):
    pytest.importorskip("mujoco")
    path = tmp_path / "hinge.xml"
    path.write_text(HINGE.format(k=5, motor='<motor joint="hinge"/>'))
    options = {
        "simulate": ["--duration", "0.01"],
        "view": ["--no-open", "--out", str(tmp_path / "hinge.html")],
        "export": ["--fmu", str(tmp_path / "hinge.fmu")],
    }[command]
    assert call(command, str(path), *options) == 0
    told = capsys.readouterr().err
    assert JOINTS in told and "    --joint-properties\n" in told
    assert ELEMENTS in told and f"    phipsi check {path}\n" in told
    assert (STEP in told) == (command != "simulate")  # whose steps are adaptive
    assert "warning" not in told  # nothing is said twice
    path.write_text(HINGE.format(k=0, motor=""))
    step = [] if command == "simulate" else ["--dt", "0.005"]
    assert call(command, str(path), *options, "--joint-properties", *step) == 0
    assert not capsys.readouterr().err


def test_joint_properties_are_for_what_simulates(capsys: pytest.CaptureFixture[str]):
    assert call("export", "seven_joint_arm", "--joint-properties") == 2
    assert "--joint-properties has no effect: it is for --fmu" in capsys.readouterr().err


def test_the_ground_of_a_page_is_the_plane_of_the_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    pytest.importorskip("mujoco")
    path = tmp_path / "quad.xml"
    path.write_text(QUAD.format(floor=FLOOR, joint="<freejoint/>"))
    options = ["--ground", "--no-open", "--out", str(tmp_path / "quad.html")]
    assert call("view", str(path), *options) == 0
    told = capsys.readouterr()
    assert "The ground is the plane 'floor' of the file, at z = 0." in told.out
    assert "warning" not in told.err


LIMITED = """<robot name="arm"><link name="base"/><link name="arm"><inertial><mass value="1"/>
<origin xyz="0.5 0 0"/><inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>
</link><joint name="hinge" type="revolute"><parent link="base"/>
<child link="arm"/><axis xyz="0 1 0"/>
<limit lower="0.5" upper="1.2" effort="9" velocity="9"/></joint></robot>"""


def test_steps_too_long_for_stiff_limits_are_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    file = tmp_path / "arm.urdf"
    file.write_text(LIMITED)
    options = "--duration 0.5 --joint-properties --integrator semi_implicit --dt".split()
    assert call("simulate", str(file), *options, "0.0133") == 0
    told = capsys.readouterr().err
    assert "joint 'hinge' begins at 0, beyond its limits 0.5 to 1.2 by 0.5" in told
    assert "the energy grew by" in told and "--integrator dopri, or a smaller --dt" in told
    assert call("simulate", str(file), "--set", "hinge=0.5", *options, "1e-4") == 0
    told = capsys.readouterr().err
    assert "begins at" not in told and "the energy grew" not in told
