"""`phipsi study`: run, resume, status, report."""

import sys
from pathlib import Path

import pytest

from phipsi.cli.commands import app

FILE = """
import phipsi as pp
from scipy.stats import norm

def make():
    return pp.Simulator(pp.examples.planar_arm(2), dt=1e-3)

def metrics(run, samples):
    return {"angle": run.q[:, -1, 0], "low": run.q[:, -1, 0] < 0.25}

study = pp.Study(make, {"q": norm([0.3, 0.0], 0.2)}, steps=20, runs=60, block=16, record_every=5,
                 save=("final", "trajectory"), metrics=metrics)
"""


def call(*arguments: object) -> int:
    return app([str(x) for x in arguments], exit_on_error=False, result_action="return_value")


def test_run_status_and_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "arm.py"
    file.write_text(FILE)
    assert call("study", "run", file) == 0
    text = capsys.readouterr().out
    assert "runs     60 of 60" in text and "low " in text and "95 % confidence" in text
    folder = tmp_path / "arm.study"
    (folder / "block-0000001.npz").unlink()
    assert call("study", "status", folder) == 0
    shown = capsys.readouterr()
    assert "44 of 60" in shown.out and "block 1: " in shown.err
    assert call("study", "resume", file) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: runs 16 … 31 are run again: block 1")
    assert call("study", "status", folder) == 0
    assert capsys.readouterr().out.count("60 of 60") == 1
    page = tmp_path / "page.html"
    assert call("study", "report", folder, page) == 0
    written = page.read_text()
    assert written.count("<svg") >= 2 + 4 + 2 + 4  # samples, final states, metrics, bands
    for word in ("Sampled inputs", "Over time", "Sensitivity", "rank correlation"):
        assert word in written
    assert written.count("http-equiv") == 1 and "default-src 'none';" in written
    assert "src=" not in written


def test_status_counts_runs_that_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "arm.py"
    thrown = FILE.replace('{"q": norm([0.3, 0.0], 0.2)}', '{"v": [[0, 0], [1e200, 0]]}')
    file.write_text(thrown.replace("runs=60", "runs=1").replace("< 0.25", "< 1e9"))
    assert call("study", "run", file) == 0
    shown = capsys.readouterr()
    assert "failed   1" in shown.out and "run 1: failed in step" in shown.err
    rows = {line.split()[0]: line for line in shown.out.splitlines()}
    assert "low" in rows and " 0.5, with 95 %" in rows["low"]
    assert rows["low"].endswith("(1 failed and counted as False)")
    assert rows["angle"].endswith("(1 failed and excluded)")
    assert "warning" not in shown.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "not a Python file that defines  study"),
        ("x = 1", "defines nothing as `study`"),
        ("study = 3", "defines int as `study`"),
    ],
)
def test_files_without_a_study(
    text: str | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "arm.py"
    if text is not None:
        file.write_text(text)
    assert call("study", "run", file) == 2
    assert message in capsys.readouterr().err
    assert call("study", "status", tmp_path) == 2
    assert "not the folder of a study" in capsys.readouterr().err


def test_a_file_imports_what_lies_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("sys.path", [*sys.path])
    (tmp_path / "beside_the_arm.py").write_text(FILE)
    file = tmp_path / "own.py"
    file.write_text("from beside_the_arm import study")
    assert call("study", "run", file, "--workers", 2) == 0
    assert "60 of 60" in capsys.readouterr().out


RAISES = """
def metrics(run, samples):
    return {"x": samples["y"]}
"""


def test_failures_are_reported_without_internals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "arm.py"
    begin, _, rest = FILE.partition("def metrics")
    file.write_text(begin + RAISES + rest[rest.index("study =") :])
    assert call("study", "run", file) == 1
    lines = capsys.readouterr().err.splitlines()
    where = "metrics 'metrics' raised KeyError: 'y' (run 0, arm.py:10)"
    assert lines[0] == "warning: runs 0 … 15 are quarantined"  # the error says why
    assert lines[2].strip() == where and "Traceback" not in " ".join(lines)


def test_names_with_dollars_and_controls_are_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """What stands between two dollars would be mathematics to the library that samples."""
    names = {
        "cost $\\frac{": "run.q[:, -1, 0]",
        "_$x_{$": "run.v[:, -1, 0]",
        "\x1b$3$": "run.t[:, -1]",
    }
    listed = ", ".join(f"{name!r}: {value}" for name, value in names.items())
    changed = FILE.replace('"low":', f'{listed}, "low":')
    file = tmp_path / "arm.py"
    file.write_text(changed)
    assert call("study", "run", file) == 0
    assert call("study", "report", tmp_path / "arm.study", tmp_path / "page.html") == 0
    assert "$x_{$" in (tmp_path / "page.html").read_text()
