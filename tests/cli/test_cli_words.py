"""What a stranger reads: `-o`, the letters of papers, and advice that can be typed."""

from __future__ import annotations

from pathlib import Path

import pytest

import phipsi as pp
from phipsi.cli.advice import for_the_command_line
from phipsi.cli.commands import app, main

WITH_OUT = "simulate", "view", "export", "demo"
STUDY = "run", "resume", "status", "report", "show"


def call(*arguments: str) -> int:
    return app(list(arguments), result_action="return_value", exit_on_error=False)


@pytest.mark.parametrize("command", WITH_OUT)
def test_o_stands_beside_out(command: str, capsys: pytest.CaptureFixture[str]):
    app([command, "--help"], result_action="return_value")
    text = capsys.readouterr().out
    assert "--out" in text and "-o" in text.replace("--out", "").replace("--open", "")


def test_o_writes_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    files = [tmp_path / "run.npz", tmp_path / "run.csv"]
    options = [x for file in files for x in ("-o", str(file))]
    assert call("simulate", "seven_joint_arm", "--duration", "0.01", *options) == 0
    assert all(file.stat().st_size for file in files)
    assert f"written       {files[1]}" in capsys.readouterr().out


@pytest.mark.parametrize("command", STUDY)
def test_help_of_studies(command: str, capsys: pytest.CaptureFixture[str]):
    app(["study", command, "--help"], result_action="return_value")
    assert capsys.readouterr().out.startswith(f"Usage: phipsi study {command}")


def test_explain_reads_the_letters_of_a_paper(capsys: pytest.CaptureFixture[str]):
    assert call("explain", "H Ψ", "--notation", "MM") == 0
    assert capsys.readouterr().out == f"{pp.explain('H ψ E_φ')}\n"
    assert call("explain", "H Ψ") == 2
    text = capsys.readouterr().err
    assert '--notation "MM" reads the letters of MM' in text and "pp." not in text
    assert call("explain", "H", "--notation", "SOB") == 2
    assert "SOA, MM, MC" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        (["--integrator", "rk5"], ["--integrator rk5 is not one of", "Did you mean 'rk4'"]),
        (["--dt", "0.01"], ["--output-every 0.01", "--integrator rk4 --dt 0.01"]),
        (["--integrator", "rk4", "--rtol", "1e-3"], ["--dt 0.0005", "--integrator dopri --rtol"]),
    ],
)
def test_advice_is_typed_as_options(
    options: list[str], advice: list[str], capsys: pytest.CaptureFixture[str]
):
    assert call("simulate", "seven_joint_arm", "--duration", "1", *options) == 2
    text = capsys.readouterr().err
    assert all(x in text for x in advice) and "pp." not in text
    assert "integrator=" not in text and "dt=" not in text


def test_mimic_joints_are_cut_for_export(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    file = Path(__file__).parents[1] / "files" / "data" / "arm.urdf"
    export = ["export", str(file), "--target", "c", "--out", str(tmp_path / "arm")]
    for what in ("bias_forces", "gravity_forces"):
        assert call(*export, "--what", what) == 2
        assert "add  --loops cut" in capsys.readouterr().err
        assert call(*export, "--what", what, "--loops", "cut") == 0
    assert call(*export, "--what", "jacobian:left_finger") == 0  # a system has points too
    assert call("info", str(file), "--loops", "cut") == 0
    capsys.readouterr()
    assert call("export", "quadruped", "--loops", "cut") == 2
    assert "--model and --loops are for files. (A" in capsys.readouterr().err


def test_a_missing_trajectory_says_which_command_writes_one(capsys: pytest.CaptureFixture[str]):
    assert call("render", "nothing.npz", "run.mp4") == 2
    assert "phipsi simulate FILE --duration 2 -o NAME.npz" in capsys.readouterr().err
    assert call("render", "arm.urdf", "run.mp4") == 2
    text = capsys.readouterr().err
    assert "phipsi simulate arm.urdf --duration 2 -o arm.npz" in text
    assert "phipsi render arm.npz run.mp4" in text


def test_a_trajectory_is_not_viewed(capsys: pytest.CaptureFixture[str]):
    assert call("view", "run.npz", "--no-open") == 2
    text = capsys.readouterr().err
    assert "phipsi render run.npz run.mp4" in text and "pp." not in text


def test_calls_in_python_stay_as_they_are():
    line = "    pp.load('rig.sdf', model='a', dt=0.1)"
    assert for_the_command_line(line) == line
    assert for_the_command_line("target='foo' is not one of") == "--target foo is not one of"
    assert for_the_command_line("width=3, dt=0.1.") == "width=3, --dt 0.1."


def test_an_equation_is_answered_for_the_command_line():
    with pytest.raises(pp.errors.ParseError) as error:
        pp.parse("P = M")
    said = for_the_command_line(str(error.value))
    assert 'Explain one of its sides; in Python, pp.prove("P = M") decides' in said
    with pytest.raises(pp.errors.ParseError) as error:
        pp.parse("W H")
    assert "pass custom" not in for_the_command_line(str(error.value))


@pytest.mark.filterwarnings("ignore:Cyclopts")
@pytest.mark.parametrize("word", ["prove", "derive"])
def test_functions_of_python_are_no_commands_and_named(
    word: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("sys.argv", ["phipsi", word, "H G = I"])
    with pytest.raises(SystemExit):
        main()
    assert f"{word} is a function of Python" in capsys.readouterr().err
