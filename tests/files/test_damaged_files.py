"""Files and names that mean harm: refused with a text, read within limits, and shown harmlessly.

The full runs are `python scripts/fuzz_files.py trajectories` and `… scenarios`.
"""

import csv
import json
import os
import resource
import zipfile
from collections import Counter

import damaged_files as d
import numpy as np
import pytest

import phipsi as pp
from phipsi.cli.commands import app
from phipsi.cli.common import printable
from phipsi.errors import FileError, shown, shown_lines
from phipsi.pages.model_tree import draw_tree

EVIL = "a\n\x1b[31m\u202e\ud800b"


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    return d.trajectory_files(tmp_path_factory.mktemp("runs"))


def test_damaged_trajectories(originals, tmp_path):
    counts = Counter()
    for seed in range(250):
        (tmp_path / "x.npz").write_bytes(d.damaged(originals[seed % 2], seed))
        counts[d.trajectory_outcome(tmp_path / "x.npz")] += 1
    assert counts["trajectory"] > 10 and counts["error"] > 100


def test_mutants_of_scenarios(tmp_path):
    counts = Counter()
    files = d.scenario_files()
    for seed in range(200):
        (tmp_path / "x.toml").write_bytes(d.scenario_mutant(files[seed % len(files)], seed))
        counts[d.scenario_outcome(tmp_path / "x.toml")] += 1
    assert counts["scenario"] > 10 and counts["error"] > 100


# ---- trajectories --------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes")
@pytest.mark.timeout(120)
def test_what_is_no_file_does_not_hold_us_up(tmp_path):
    os.mkfifo(tmp_path / "pipe.npz")
    with pytest.raises(pp.errors.ParseError, match="not a regular file"):
        pp.Trajectory.load(tmp_path / "pipe.npz")
    with pytest.raises(pp.errors.ParseError, match="a folder"):
        pp.Trajectory.load(tmp_path)
    with pytest.raises(pp.errors.ParseError, match="not a regular file"):
        pp.Trajectory.load("/dev/zero")


@pytest.mark.parametrize("name", ["t", "q", "v", "tau", "energy", "momentum", "event_q", "dense_h"])
@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_states_that_are_not_finite(originals, tmp_path, name, value):
    members = d._members(originals[0])
    a = np.array(d._array(members[f"{name}.npy"]))
    a.flat[a.size // 2] = value
    members[f"{name}.npy"] = d._npy(a)
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        for member, data in members.items():
            archive.writestr(member, data)
    with pytest.raises(pp.errors.ParseError, match=f"'{name}' has numbers that are not finite"):
        pp.Trajectory.load(tmp_path / "x.npz")


def test_headers_stay_within_max_bytes(originals, tmp_path):
    """Python needs twenty times the bytes of a list of empty lists, which a zip packs well."""
    members = d._members(originals[0])
    header = json.loads(d._array(members["header.npy"]).tobytes())
    text = json.dumps({**header, "x": 0}).replace('"x": 0', '"x": [' + "[],0,0," * 400_000 + "0]")
    members["header.npy"] = d._npy(np.frombuffer(text.encode(), dtype=np.uint8))
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        for member, data in members.items():
            archive.writestr(member, data)
    size = (tmp_path / "x.npz").stat().st_size
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(pp.errors.ParseError, match="more than max_bytes"):
        pp.Trajectory.load(tmp_path / "x.npz", max_bytes=8 * size)
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    assert grown < 8 * size
    assert len(pp.Trajectory.load(tmp_path / "x.npz")) > 3  # two gigabytes are allowed by default


def test_members_that_overlap(originals, tmp_path):
    """Two entries of the directory for the same bytes claim more than the file has."""
    (tmp_path / "x.npz").write_bytes(originals[0])
    with zipfile.ZipFile(tmp_path / "x.npz") as archive:
        infos = archive.infolist()
        largest = max(infos, key=lambda info: info.compress_size)
    with zipfile.ZipFile(tmp_path / "x.npz", "a") as archive:
        for i in range(200):
            again = zipfile.ZipInfo(f"more{i}")
            for key in ("compress_size", "file_size", "header_offset", "CRC", "compress_type"):
                setattr(again, key, getattr(largest, key))
            archive.filelist.append(again)
            archive._didModify = True  # the directory is written anew
    with pytest.raises(pp.errors.ParseError, match="lists more bytes than the file has"):
        pp.Trajectory.load(tmp_path / "x.npz")


# ---- scenarios -----------------------------------------------------------------------------------

ARM = 'model = "seven_joint_arm"\nduration = 1\n'
SCENARIOS = {
    "a huge whole number": ('model = "seven_joint_arm"\nduration = 1' + "0" * 400, 2, "positive"),
    "thousands of digits": (f"{ARM}x = {'1' * 5000}", 3, "cannot be read"),
    "thousands of hexadecimal digits": (f"{ARM}[output]\nevery = 0x{'f' * 9000}", 4, "this int"),
    "huge numbers in a list": (f"{ARM}[initial]\nv = {{shoulder_yaw = [1{'0' * 400}]}}", 4, "rad"),
    "a key of many parts": (f"{ARM}a{'.a' * 100_000} = 1", 3, "nested too deeply"),
    "a table of many parts": (ARM + "[" + '"a b" . ' * 50_000 + "a]", 3, "nested too deeply"),
    "many brackets": (f"{ARM}x = {'[' * 100_000}", 1, "nested too deeply"),
    "brackets that close": (f"{ARM}title = {'[' * 200}{']' * 200}", 3, "must be a string"),
    "escape codes": (f'{ARM}title = 3\n"\\u001b[31m" = 1', 4, r"\\x1b\[31m"),
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", SCENARIOS)
def test_scenarios_are_refused_by_line(name, tmp_path):
    text, line, reason = SCENARIOS[name]
    (tmp_path / "x.toml").write_text(text)
    with pytest.raises(FileError, match=reason) as found:
        pp.load_scenario(tmp_path / "x.toml")
    assert found.value.line == line
    assert shown_lines(found.value) == str(found.value)


# ---- names ---------------------------------------------------------------------------------------


def evil_arm(name: str = EVIL) -> pp.Model:
    builder = pp.ModelBuilder()
    builder.add_body(
        name,
        joint=pp.joints.Revolute((0, 1, 0)),
        joint_name=f"{name}_joint",
        inertia=pp.SpatialInertia(1.0, (0.1, 0, 0), np.eye(3)),
    )
    return builder.build()


def test_text_that_may_be_printed():
    assert shown("elbow ü 名前") == "elbow ü 名前"
    assert shown(EVIL) == r"a\n\x1b[31m\u202e\ud800b"
    assert shown("x" * 5000) == "x" * 1000 + " … " + "x" * 1000
    assert shown_lines("one\ntwo\x07") == "one\ntwo\\x07"
    for c in map(chr, range(0x11000)):
        assert shown(c).isprintable() and shown(c).encode()
    assert printable(f"{EVIL}\n").count("\n") == 2


def test_errors_and_warnings_show_names_harmlessly():
    for error in (
        pp.errors.InputError(EVIL),
        pp.errors.ParseError(EVIL),
        pp.errors.SimulationError(EVIL),
    ):
        assert str(error) == shown_lines(EVIL) and error.args == (EVIL,)
    assert str(pp.errors.PhipsiWarning(EVIL)) == shown_lines(EVIL)
    assert str(FileError(EVIL, 3, EVIL, "no")) == f"{shown(EVIL)}:3: {shown(EVIL)}: no"
    arm = evil_arm()
    with pytest.raises(pp.errors.PhipsiError) as found:
        arm.joint("elbow")
    assert "\n" not in str(found.value) and str(found.value).isprintable()
    assert all(line.isprintable() for line in draw_tree(arm))


def test_a_name_with_half_a_character_is_written(tmp_path):
    """Halves of surrogate pairs, which JSON can hold, have no place in UTF-8."""
    run = pp.simulate(evil_arm(), [0.1], [0.0], 0.1, integrator="rk4", dt=0.05)
    run.save(tmp_path / "run.npz")
    again = pp.Trajectory.load(tmp_path / "run.npz")
    assert again.model.body_names == (EVIL,)
    page = pp.report(again, tmp_path / "run.html", title=EVIL).read_text()
    assert "\x1b" not in page and "\u202e" not in page and shown(EVIL) in page
    again.to_csv(tmp_path / "run.csv")
    assert (tmp_path / "run.csv").read_text().isascii()


@pytest.mark.parametrize("first", ["=", "+", "-", "@", "\t", "\r"])
def test_spreadsheets_see_no_formulas(tmp_path, first):
    arm = evil_arm(f"{first}1+1")
    work = {f"{first}cmd": lambda t, q, v: 1.0}
    run = pp.simulate(arm, [0.1], [0.0], 0.1, integrator="rk4", dt=0.05, quadratures=work)
    run.to_csv(tmp_path / "run.csv")
    with open(tmp_path / "run.csv", newline="") as file:
        head, *rows = csv.reader(file)
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in head)
    np.testing.assert_array_equal(np.array(rows, dtype=float)[:, 1], run.q[:, 0])


def test_the_command_line_is_not_obeyed(tmp_path, capsys):
    """Names of a file reach the terminal as text, each on its line."""
    (tmp_path / "x.urdf").write_text(
        '<robot name="r&#x202e;"><link name="a&#x9b;31m"/><link name="b">'
        '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>'
        '</inertial></link><joint name="j&#x202e;&#x85;" type="continuous">'
        '<parent link="a&#x9b;31m"/><child link="b"/></joint></robot>'
    )
    for command in (
        ["info", "--frames"],
        ["simulate", "--duration", "0.01"],
        ["simulate", "--duration", "1", "--set", "k=1"],
    ):
        app([command[0], str(tmp_path / "x.urdf"), *command[1:]], result_action="return_value")
        text = "".join(capsys.readouterr())
        assert "\\u202e" in text and text.replace("\n", "").isprintable(), command
