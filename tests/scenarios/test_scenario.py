"""Scenarios: what a file says is what runs, and what is wrong is told by file and line."""

import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

import phipsi as pp
from phipsi.cli.commands import app
from phipsi.scenarios.scenario import Scenario

pytestmark = pytest.mark.usefixtures("machine_code_of_module")  # runs take thousands of steps

ROOT = Path(__file__).parents[2]
DATA = Path(__file__).parents[1] / "files" / "data"
EXAMPLES = sorted((ROOT / "examples").glob("*.toml"))


def scenario(tmp_path: Path, text: str, **options) -> Scenario:
    file = tmp_path / "s.toml"
    file.write_text(text, encoding="utf-8")
    return pp.load_scenario(file, **options)


ARM = 'model = "seven_joint_arm"\nduration = 0.2\n'


def same(a: pp.Trajectory, b: pp.Trajectory) -> None:
    np.testing.assert_array_equal(a.t, b.t)
    np.testing.assert_array_equal(a.q, b.q)
    np.testing.assert_array_equal(a.tau, b.tau)


# ---- what it says is what runs -----------------------------------------------------------------


def test_rigid_stops(tmp_path: Path):
    joint = pp.examples.seven_joint_arm().joint_names[1]
    text = f'''{ARM}
        integrator = {{ name = "time_stepping", dt = 1e-3 }}
        [initial]
        v.{joint} = 1.0
        [[forces]]
        type = "JointLimit"
        joints = "{joint}"
        stiffness = STIFFNESS
        lower = -0.01
        upper = 0.01
        '''
    run = scenario(tmp_path, text.replace("STIFFNESS", "inf")).simulate()
    softer = text.replace("STIFFNESS", "10.0").replace('name = "time_stepping", ', 'name = "rk4", ')
    soft = scenario(tmp_path, softer).simulate()
    k = run.model.q_slice(joint).start
    assert np.abs(run.q[:, k]).max() <= 0.01 + 1e-9 < np.abs(soft.q[:, k]).max()
    with pytest.raises(pp.errors.PhipsiError, match="inf for a rigid one"):
        scenario(tmp_path, text.replace("STIFFNESS", "-inf"))


def test_state_integrator_and_output_times(tmp_path: Path):
    one = scenario(
        tmp_path,
        ARM
        + """
        integrator = { name = "rk4", dt = 0.01 }
        [initial]
        q = { elbow_pitch = "30deg", shoulder_pitch = 0.5 }
        v.wrist_roll = -1
        [output]
        every = 0.05
        """,
    )
    arm = pp.examples.seven_joint_arm()
    q, v = np.zeros(7), np.zeros(7)
    q[1], q[3], v[6] = 0.5, np.pi / 6, -1
    times = [0, 0.05, 0.1, 0.15000000000000002, 0.2]
    direct = pp.simulate(arm, q, v, 0.2, integrator="rk4", dt=0.01, output_times=times)
    same(one.simulate(), direct)
    assert one.is_conservative


FORCES = [
    (
        'type = "JointSpring"\njoints = "elbow_pitch"\nstiffness = 20\nrest = 0.4',
        pp.forces.JointSpring("elbow_pitch", 20, 0.4),
    ),
    ('type = "JointDamper"\ndamping = 0.5', pp.forces.JointDamper(None, 0.5)),
    (
        'type = "JointFriction"\njoints = ["elbow_pitch", "wrist_roll"]\nfriction = [0.2, 0.1]\n'
        "velocity_scale = 0.1",
        pp.forces.JointFriction(["elbow_pitch", "wrist_roll"], [0.2, 0.1], 0.1),
    ),
    (
        'type = "JointLimit"\njoints = "elbow_pitch"\nstiffness = 100\ndissipation = 0.3\n'
        "lower = -0.1\nupper = 0.1",
        pp.forces.JointLimit("elbow_pitch", 100, 0.3, lower=-0.1, upper=0.1),
    ),
    (
        'type = "ElasticCoupling"\njoints = ["shoulder_pitch", "elbow_pitch"]\n'
        "coefficients = [1, -2]\nstiffness = 30\nbacklash = 0.02\ndissipation = 0.1",
        pp.forces.ElasticCoupling(
            ("shoulder_pitch", "elbow_pitch"), (1, -2), 30, backlash=0.02, dissipation=0.1
        ),
    ),
    (
        'type = "PointSpring"\na = "tool"\nb = { on = "world", offset = [0.5, 0, 1] }\n'
        "stiffness = 40\nrest_length = 0.2\ndamping = 3",
        pp.forces.PointSpring("tool", ("world", (0.5, 0, 1)), 40, 0.2, 3),
    ),
    (
        'type = "GravityField"\nmu = 5.0\ncenter = [3, 0, 0]',
        pp.forces.GravityField.inverse_square(5.0, (3, 0, 0)),
    ),
    (
        'type = "Wrench"\npoint = "tool"\nwrench = [0, 0, 0, 0, 5, 0]\naxes = "body"',
        pp.forces.Wrench("tool", [0, 0, 0, 0, 5, 0], axes="body"),
    ),
    (
        'type = "Wrench"\npoint = "tool"\ntimes = [0, 0.1]\n'
        "wrench = [[0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 8, 0]]",
        pp.forces.Wrench("tool", lambda t: [0, 0, 0, 0, np.interp(t, [0, 0.1], [0, 8]), 0]),
    ),
    (
        'type = "from_model"\nlimit_time = 0.05',
        pp.forces.from_model(pp.examples.seven_joint_arm(), limit_time=0.05),
    ),
]


@pytest.mark.parametrize(("text", "force"), FORCES, ids=lambda x: str(x)[:30].split("\n")[0])
def test_all_forces(tmp_path: Path, text: str, force):
    start = "[initial.q]\nshoulder_pitch = 0.6\nelbow_pitch = 0.3\n"
    one = scenario(tmp_path, f"{ARM}{start}[[forces]]\n{text}\n")
    q = [0, 0.6, 0, 0.3, 0, 0, 0]
    listed = force if isinstance(force, list) else [force]
    direct = pp.simulate(one.model, q, np.zeros(7), 0.2, forces=listed)
    run = one.simulate()
    same(run, direct)
    np.testing.assert_array_equal(run.energy, direct.energy)
    free = pp.simulate(one.model, q, np.zeros(7), 0.2)
    assert abs(free.q[-1] - run.q[-1]).max() > 1e-7 and not one.is_conservative


def rows_below(page: str, heading: str) -> dict[str, str]:
    """The first table below a heading of a page: the rest of a row by its first name."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    _, found, below = text.partition(f"\n{heading}\n")
    assert found, f"docs/{page} has no heading {heading!r}"
    table = re.search(r"^\|.*(?:\n\|.*)*", below, re.MULTILINE)
    assert table, f"docs/{page}: no table below {heading!r}"
    rows = re.findall(r"^\| `(\w+)([^|]*)`[^|]*\|(.*)\|$", table[0], re.MULTILINE)
    return {name: f"{arguments} {rest}" for name, arguments, rest in rows}


def what_a_force_lacks(names: Iterable[str]) -> Iterator[str]:
    """What has to be added so that a force element is known everywhere."""
    from phipsi.scenarios.load_scenario import FORCES

    listed = rows_below("forces.md", "## Table of elements")
    keys_shown = rows_below("scenarios.md", "### Forces")
    for name in names:
        if name not in FORCES:
            yield (
                f"{name}: no scenario can say it. Add to FORCES of scenarios/load_scenario.py\n    "
                f'"{name}": (forces.{name}, "key: kind; another: kind?"),'
            )
        else:
            keys = [key.partition(":")[0].strip() for key in FORCES[name][1].split(";")]
            shown = re.findall(r"`(\w+)`", keys_shown.get(name, ""))
            if not set(keys) <= set(shown):
                cells = ", ".join(f"`{key}`" for key in keys)
                yield (
                    f"{name}: docs/scenarios.md does not list {sorted(set(keys) - set(shown))}. "
                    f"Below '### Forces', add or complete\n    | `{name}` | {cells} |"
                )
        if name not in listed:
            yield (
                f"{name}: docs/forces.md does not list it. Below '## Table of elements', add\n"
                f"    | `{name}(…)` | the force, as a formula | does it store energy? |"
            )


def test_every_force_of_the_library_can_be_said():
    """In a scenario, with all keys on its page, and in the table of force elements."""
    from phipsi.scenarios.load_scenario import FORCES

    names = set(pp.forces.__all__) - {"Force", "State"}
    missing = list(what_a_force_lacks(sorted(names)))
    assert not missing, "\n".join(missing)
    assert set(FORCES) <= names, "a scenario knows forces that the library does not have"


def test_a_force_that_is_not_registered_is_told_how():
    reader, page = what_a_force_lacks(["NoSuchForce"])
    assert '"NoSuchForce": (forces.NoSuchForce,' in reader
    assert "Add to FORCES of scenarios/load_scenario.py" in reader
    assert "docs/forces.md" in page and "| `NoSuchForce(…)` |" in page


PATH = "path = [{ time = 0, q = {} }, { time = 0.2, q = { elbow_pitch = 1.0 } }]"
PLACES = "path = [{ time = 0 }, { time = 0.2, position = [0.4, 0.1, 0.7] }]"


def _controllers(arm: pp.Model, q: np.ndarray) -> dict[str, object]:
    end = q.copy()
    end[3] = 1.0
    path = pp.control.JointPath(arm, [q, end], [0, 0.2])
    tool = pp.poses(arm, q, ["tool"])[0]
    line = pp.control.CartesianPath([tool, pp.Pose(tool[:3, :3], (0.4, 0.1, 0.7))], [0, 0.2])
    c = pp.control
    rest = c.PDGravity(arm, q, 2.0, 0.1)
    kept = end.copy()
    kept[3] = 0.5
    return {
        f'type = "ComputedTorque"\nkp = 100\nkd = 20\n{PATH}': c.ComputedTorque(arm, path, 100, 20),
        'type = "PDGravity"\nkp = [9, 8, 7, 6, 5, 4, 3]\nkd = 1\nhold.elbow_pitch = 0.5\n'
        f"actuated = {list(arm.joint_names)}": c.PDGravity(
            arm, kept, [9, 8, 7, 6, 5, 4, 3], 1, actuated=arm.joint_names
        ),
        'type = "PDGravity"\nkp = 50\nkd = 1\nhold.elbow_pitch = 3\nlargest_effort = 4.0': (
            c.Saturated(c.PDGravity(arm, np.where(np.arange(7) == 3, 3.0, q), 50, 1), arm, 4.0)
        ),
        f'type = "OperationalSpace"\nframe = "tool"\nkp = 100\nkd = 20\n{PLACES}': (
            c.OperationalSpace(arm, "tool", line, 100, 20)
        ),
        'type = "OperationalSpace"\nframe = { on = "wrist_roll", offset = [0, 0, 0.1] }\nkp = 50\n'
        "kd = 9\ncomponents = [3, 4]\n"
        "hold = { position = [0.4, 0, 0], quaternion = [1, 0, 0, 0] }\n"
        '[controller.null_space]\ntype = "PDGravity"\nkp = 2.0\nkd = 0.1': c.OperationalSpace(
            arm,
            ("wrist_roll", (0, 0, 0.1)),
            (0.4, 0, 0),
            50,
            9,
            components=(3, 4),
            null_space=rest,
        ),
    }


@pytest.mark.parametrize("k", range(5))
def test_all_controllers(tmp_path: Path, k: int):
    arm = pp.examples.seven_joint_arm()
    q = np.array([0.1, 0.6, 0, 0.8, 0, 0.7, 0])
    start = "[initial.q]\nshoulder_yaw = 0.1\nshoulder_pitch = 0.6\nelbow_pitch = 0.8\n"
    start += "wrist_pitch = 0.7\n"
    text, controller = list(_controllers(arm, q).items())[k]
    one = scenario(tmp_path, f"{ARM}integrator = 'rk4'\n{start}[controller]\n{text}\n")
    run = pp.simulate(arm, q, np.zeros(7), 0.2, integrator="rk4", controller=controller)
    same(one.simulate(), run)
    assert abs(run.tau).max() > 0.1


def test_events(tmp_path: Path):
    text = """
    [initial.q]
    shoulder_pitch = 0.6
    [[events]]
    joint = "shoulder_pitch"
    value = 0.602
    [[events]]
    joint = "shoulder_pitch"
    of = "rate"
    value = 0.5
    direction = "rising"
    action = "stop"
    name = "fast"
    """
    run = scenario(tmp_path, ARM.replace("0.2", "2.0") + text).simulate()
    assert [event.name for event in run.events] == ["shoulder_pitch = 0.602", "fast"]
    assert run.events[0].q[1] == pytest.approx(0.602, abs=1e-12)
    assert run.v[-1, 1] == pytest.approx(0.5, abs=1e-12) and run.t[-1] < 2


def test_files_are_relative_to_the_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "inner"
    folder.mkdir()
    shutil.copy(DATA / "arm.urdf", folder)
    text = """
    duration = 0.05
    model = { file = "arm.urdf", base = "free", gravity = [0, 0, -1.62] }
    output = { npz = "run.npz", csv = "run.csv", figure = "run.png", report = "run.html" }
    """
    monkeypatch.chdir(tmp_path)
    one = scenario(folder, text)
    assert one.model.nv == 11 and one.model.gravity.tolist() == [0, 0, -1.62]
    written = one.write(one.simulate())
    assert sorted(p.name for p in written) == ["run.csv", "run.html", "run.npz", "run.png"]
    assert {p.parent.resolve() for p in written} == {folder.resolve()}
    assert all(p.stat().st_size > 1000 for p in written)
    assert sorted(p.name for p in folder.iterdir()) == sorted(
        ["arm.urdf", "s.toml", *(p.name for p in written)]
    )


def test_the_command_line_changes_a_scenario(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "s.toml"
    file.write_text(ARM + '[initial.q]\nelbow_pitch = 1\n[output]\nnpz = "a.npz"\n')
    options = ["--duration", "0.1", "--set", "elbow_pitch=0.5", "--integrator", "rk4"]
    assert app(["simulate", str(file), *options], result_action="return_value") == 0
    saved = pp.Trajectory.load(tmp_path / "a.npz")
    assert saved.q[0, 3] == 0.5 and saved.t[-1] == 0.1 and saved.integrator == "rk4"
    other = tmp_path / "b.npz"
    assert app(["simulate", str(file), "--out", str(other)], result_action="return_value") == 0
    assert pp.Trajectory.load(other).q[0, 3] == 1 and saved.t[-1] == 0.1
    assert app(["simulate", str(file), "--base", "free"], result_action="return_value") == 2
    assert "set it in the scenario file" in capsys.readouterr().err


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda p: p.name)
def test_examples(file: Path, tmp_path: Path):
    copy = Path(shutil.copy(file, tmp_path))
    short = ["--duration", "0.5"] if file.name == "swing.toml" else []  # docs/scenarios.md runs it
    assert app(["simulate", str(copy), *short], result_action="return_value") == 0
    assert len(list(tmp_path.iterdir())) == 3  # the scenario and its two outputs


# ---- what is wrong is told by file and line ------------------------------------------------------

WRONG = [
    (ARM + "durration = 2", 3, "unknown key 'durration'. Did you mean 'duration'?"),
    ("duration = 1", 1, "'model' is missing"),
    ('model = "quadruped"', 1, "'duration' is missing. For example:  duration = 5.0"),
    ('model = "seven_joint_arn"\nduration = 1', 1, "Did you mean 'seven_joint_arm'?"),
    ('model = "arm.urdf"\nduration = 1', 1, "there is no file 'arm.urdf' in "),
    ('\nmodel = "../arm.urdf"\nduration = 1', 2, "leads out of the scenario's folder"),
    ('model = "/etc/arm.urdf"\nduration = 1', 1, "the path is absolute and outside"),
    ('model = "http://x.y/arm.urdf"\nduration = 1', 1, "addresses are never fetched"),
    ("model = 3\nduration = 1", 1, "model = 3 must be a table"),
    ('duration = 1\n[model]\nrobot = "humanoid"\nbase = "free"', 4, "'base' applies only to files"),
    ('duration = 1\n[model]\nrobot = "humanoid"\nfile = "x.urdf"', 2, "one of the two"),
    ('duration = 1\nmodel.robot = "humanoid"\nmodel.gravity = [0, 1]', 3, "3 finite numbers"),
    ('model = "quadruped"\nduration = "1"', 2, 'duration = "1" must be a positive number'),
    ('model = "quadruped"\nduration = true', 2, "duration = true must be"),
    ('model = "quadruped"\nduration = nan', 2, "must be a positive number"),
    ('model = "quadruped"\nduration = -1', 2, "must be a positive number"),
    (ARM + "integrator = 'dopry'", 3, "Did you mean 'dopri'?"),
    (ARM + "[integrator]\nname = 'rk4'\nrtol = 1e-9", 5, "rk4 has fixed steps"),
    (ARM + "[integrator]\ndt = 0.1", 4, "dopri chooses its steps"),
    (ARM + "[initial]\nx = {}", 4, "Known names: 'q', 'v'"),
    (ARM + "[initial.q]\n\nelbow = 1", 5, "no joint 'elbow'. Did you mean 'elbow_pitch'"),
    (ARM + "initial.q = { elbow_pitch = [1, 2] }", 3, "has 1 coordinate; 2 are given"),
    (ARM + "[initial]\nv = { elbow_pitch = true }", 4, "elbow_pitch = true must be a number"),
    (ARM + "[initial.v]\nelbow_pitch = 'fast'", 4, "'fast' is not a number"),
    (ARM + "[forces]\ntype = 'Wrench'", 3, "write  [[forces]]"),
    (ARM + "[[forces]]\ntype = 'Spring'", 4, 'type = "Spring" is not one of "JointSpring"'),
    (ARM + "[[forces]]\n[[forces]]\ntype = 'JointDamper'", 3, "forces no. 1: 'type' is missing"),
    (
        ARM + "[[forces]]\ntype = 'JointDamper'\ndamping = 1\n[[forces]]\n\ntype = 'JointSpring'\n"
        "stifness = 3",
        9,
        "forces no. 2 (JointSpring): unknown key 'stifness'. Did you mean 'stiffness'?",
    ),
    (
        ARM + "[[forces]]\ntype = 'JointDamper'\njoints = 'elbow'\ndamping = 1",
        5,
        "Did you mean 'elbow_pitch'",
    ),
    (ARM + "[[forces]]\ntype = 'JointDamper'\njoints = 7\ndamping = 1", 5, "a name or a list"),
    (ARM + "[[forces]]\ntype = 'JointDamper'\ndamping = -1", 5, "damping"),
    (ARM + "[[forces]]\ntype = 'JointDamper'\ndamping = [1, 2]", 5, "damping"),
    (ARM + "[[forces]]\ntype = 'Wrench'\npoint = 'toll'\nwrench = [0,0,0,0,0,1]", 5, "'tool'"),
    (ARM + "[[forces]]\ntype = 'Wrench'\npoint = 'tool'\nwrench = [1]", 6, "6 finite numbers"),
    (
        ARM + "[[forces]]\ntype = 'Wrench'\npoint = 'tool'\ntimes = [1, 0]\nwrench = []",
        6,
        "increasing",
    ),
    (
        ARM + "[[forces]]\ntype = 'PointSpring'\na = { on = 'tool', at = 1 }\nb = 'world'",
        5,
        "forces no. 1 (PointSpring).a: unknown key 'at'",
    ),
    (ARM + "[controller]\ntype = 'PID'", 4, 'is not one of "ComputedTorque"'),
    (ARM + "[controller]\ntype = 'PDGravity'\nkd = 1", 3, "'kp' is missing"),
    (ARM + "[controller]\ntype = 'PDGravity'\nkd = 1\nkp = -1", 6, "must not be negative"),
    (
        ARM + "[controller]\ntype = 'PDGravity'\nkd = 1\nkp = 1\n[controller.hold]\nelbow = 1",
        8,
        "controller: there is no joint 'elbow'",
    ),
    (
        ARM + "[controller]\ntype = 'PDGravity'\nkd = 1\nkp = 1\npath = [\n {time = 0},\n]",
        7,
        "at least two waypoints",
    ),
    (
        ARM + "[controller]\ntype = 'PDGravity'\nkd = 1\nkp = 1\npath = [\n {time = 0, q = {}},\n"
        " {tim = 1, q = {}}\n]",
        9,
        "Did you mean 'time'?",
    ),
    (
        ARM + "[controller]\ntype = 'OperationalSpace'\nkd = 1\nkp = 1\nframe = 'tool'\n"
        "hold = { quaternion = [2, 0, 0, 0] }",
        8,
        "has length 2",
    ),
    (
        ARM + "[controller]\ntype = 'OperationalSpace'\nkd = 1\nkp = 1\nframe = 'tool'\n"
        "components = [7]",
        8,
        "from 0 to 5",
    ),
    (ARM + "[[events]]\nvalue = 1", 3, "events no. 1: 'joint' is missing"),
    (ARM + "[[events]]\njoint = 'elbow'\nvalue = 1", 4, "no joint 'elbow'"),
    (ARM + "[[events]]\njoint = 'elbow_pitch'\nvalue = 1\nentry = 1", 6, "entry must be 0 … 0"),
    (ARM + "[[events]]\njoint = 'elbow_pitch'\nvalue = 1\naction = 'halt'", 6, "not one of"),
    (ARM + "[output]\nnpz = 'run.csv'", 4, "must end in .npz"),
    (ARM + "[output]\nnpz = '../run.npz'", 4, "leads out of the scenario's folder"),
    (ARM + "[output]\nnpz = '/tmp/run.npz'", 4, "leads out of the scenario's folder"),
    (ARM + "[output]\nnpz = 'link/run.npz'", 4, "leads out of the scenario's folder"),
    (ARM + "[output]\nnpz = 'none/run.npz'", 4, "there is no folder"),
    (ARM + "[output]\nevery = 0", 4, "every = 0 must be a positive number"),
    (ARM + 'title = """\n', 3, "is not TOML: unterminated string"),
    (ARM + "duration = 2", 3, "is not TOML: cannot overwrite a value"),
    ("a = " + "[" * 5000, 1, "nested too deeply"),
]


@pytest.mark.parametrize(("text", "line", "message"), WRONG, ids=range(len(WRONG)))
def test_file_and_line(tmp_path: Path, text: str, line: int, message: str):
    (tmp_path / "link").symlink_to("/tmp")
    with pytest.raises(pp.errors.ModelError) as info:
        scenario(tmp_path, text)
    told = str(info.value)
    assert told.startswith(f"{tmp_path / 's.toml'}:{line}: "), told
    assert message in told


def test_text_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "s.toml"
    file.write_bytes(b"title = 'x'\n\xff\xfe")
    assert app(["simulate", str(file)], result_action="return_value") == 2
    told = f"{file}:2: is not UTF-8 text, which TOML files are.\n"
    assert capsys.readouterr().err == f"{told}see docs/troubleshooting.md#fileerror\n"
    file.write_bytes(b"#" * 1_000_001)
    with pytest.raises(pp.errors.ModelError, match="more than the 1,000,000"):
        pp.load_scenario(file)
    with pytest.raises(pp.errors.ModelError, match="none.toml: cannot be opened"):
        pp.load_scenario(tmp_path / "none.toml")


def test_an_output_may_not_replace_an_input(tmp_path: Path):
    shutil.copy(DATA / "arm.urdf", tmp_path / "arm.urdf")
    (tmp_path / "out.csv").symlink_to(tmp_path / "arm.urdf")
    text = 'model = "arm.urdf"\nduration = 1\n[output]\ncsv = "out.csv"'
    with pytest.raises(
        pp.errors.ModelError, match=r"s\.toml:4: output: 'out.csv' is an input file"
    ):
        scenario(tmp_path, text)


def test_folders_can_be_allowed_by_the_caller(tmp_path: Path):
    inner = tmp_path / "inner"
    inner.mkdir()
    shutil.copy(DATA / "arm.urdf", tmp_path)
    text = 'model = "../arm.urdf"\nduration = 1'
    with pytest.raises(pp.errors.ModelError, match="pp.load_scenario\\('.*s.toml', package_dirs="):
        scenario(inner, text)
    assert scenario(inner, text, package_dirs=[tmp_path]).model.name == "arm"
