"""SDF worlds: which model is read, what it includes or merges, and what the world says about it."""

from pathlib import Path

import numpy as np
import pytest

import phipsi as pp
from phipsi import inverse_dynamics
from phipsi.attached.file_metadata import MimicJoint
from phipsi.core.model import joints
from phipsi.core.model.model import Model
from phipsi.errors import ModelError, PhipsiWarning
from phipsi.files.load import load

DATA = Path(__file__).parent / "data"
CELL = DATA / "cell"
INERTIAL = (
    "<inertial><mass>1</mass><inertia><ixx>1</ixx><iyy>1</iyy><izz>1</izz></inertia></inertial>"
)
LINK = f"<link name='a'>{INERTIAL}</link>"
PAIR = f"{LINK}<link name='b'>{INERTIAL}</link>"


@pytest.fixture(scope="module")
def cell() -> Model:
    return load(CELL / "world.sdf", package_dirs=[CELL])


def written(folder: Path, text: str, name: str = "x.sdf") -> Path:
    path = folder / name
    path.write_text(f'<sdf version="1.9">{text}</sdf>')
    return path


def joined(inside: str, kind: str = "revolute") -> str:
    return (
        f"<model name='m'>{PAIR}<joint name='j' type='{kind}'><parent>a</parent><child>b</child>"
        f"{inside}</joint></model>"
    )


def test_included_and_merged_models_move_as_in_drake(cell: Model):
    """The numbers are from Drake 1.51: merge, placement frames, a screw and a universal joint."""
    q = [0.3, 0.4, -0.5, 0.7, 0.2]
    v, vdot = [1, -0.5, 0.8, 0.3, -1.2], [0.1, 0.2, -0.3, 0.4, 0.5]
    assert cell.joint_names == ("turn", "cardan", "spin", "drill::feed")
    assert cell.gravity.tolist() == [0.5, -0.2, -3.7]
    tau = [
        0.07833657757139156,
        -0.19324397528492734,
        0.8753804554594602,
        0.06614801115171236,
        0.0017736561301204328,
    ]
    np.testing.assert_allclose(inverse_dynamics(cell, q, v, vdot), tau, rtol=1e-11)
    poses = dict(zip(cell.frames, pp.poses(cell, q, cell.frames), strict=True))
    poses |= dict(zip(cell.body_names, pp.poses(cell, q), strict=True))
    places = {
        "plate": [0.4479115907501245, 0.38327328249490816, 0.9292228382689512],
        "arm_frame": [0.37085543642229446, 0.5862569028682637, 1.1035881894577324],
        "wrist_frame": [0.49877608080318364, 0.7699726488581241, 0.9723894632487877],
        "drill::body": [0.5683701729553318, 0.37031494304743406, 1.2787493216249972],
        "drill::bit_frame": [0.7089568620662866, 0.3223347201370835, 1.3055259020112207],
    }
    for name, place in places.items():
        np.testing.assert_allclose(poses[name][:3, 3], place, rtol=0, atol=1e-14)


def test_meshes_are_relative_to_the_file_that_names_them(cell: Model):
    assert cell.geometry[0].file == str((CELL / "tool" / "body.stl").resolve())


def test_both_axes_have_limits(cell: Model):
    assert cell.joint("cardan").limits == ((-1.0, -2.0), (1.0, 2.0))


def test_models_that_are_not_read_are_told(cell: Model):
    (finding,) = (each for each in cell.diagnosis if each.kind == "ignored")
    assert str(finding).endswith("model 'other': it is not read; choose it with model='other'.")
    other = load(CELL / "world.sdf", package_dirs=[CELL], model="other")
    assert other.joint_names == ("root_joint", "turn")


def test_a_model_is_chosen_by_name(tmp_path: Path):
    path = written(tmp_path, "<model name='m'>" + PAIR + f"</model><model name='n'>{LINK}</model>")
    assert load(path, model="n").n_bodies == 1
    with pytest.raises(ModelError, match=r"x\.sdf:1: <sdf>: there are 2 models: 'm', 'n'"):
        load(path)
    with pytest.raises(ModelError, match="no model 'mm'. Did you mean 'm'"):
        load(path, model="mm")
    robot = tmp_path / "x.urdf"
    robot.write_text("<robot name='r'><link name='a'/></robot>")
    with pytest.raises(ModelError, match="chooses among the models of an SDF file"):
        load(robot, model="r")


def test_gravity_of_a_world(tmp_path: Path):
    model = f"<model name='m'>{LINK}</model>"
    stated = written(tmp_path, f"<world><gravity>0 1 2</gravity>{model}</world>")
    assert load(stated).gravity.tolist() == [0, 1, 2]
    default = written(tmp_path, f"<world name='w'>{model}</world>")
    assert load(default).gravity.tolist() == [0, 0, -9.8]  # as the format says
    assert load(written(tmp_path, model)).gravity[2] == -9.81


def test_an_include_in_a_world_is_read_if_there_is_no_other_model(tmp_path: Path):
    tool = tmp_path / "tool"
    tool.mkdir()
    written(tool, f"<model name='t'>{LINK}</model>", "model.sdf")
    text = "<include><uri>model://tool</uri><pose>1 2 3 0 0 0</pose><static>true</static></include>"
    model = load(written(tmp_path, f"<world name='w'>{text}</world>"), package_dirs=[tmp_path])
    assert model.nv == 0
    assert model.frames["a"][1].translation.tolist() == [1, 2, 3]


def test_complaints_about_an_included_file_name_that_file(tmp_path: Path):
    tool = tmp_path / "tool"
    tool.mkdir()
    bad = "\n\n<link name='a'><inertial><inertia><ixx>9</ixx></inertia></inertial></link>"
    inner = written(tool, f"<model name='t'>{bad}</model>", "model.sdf")
    path = written(tmp_path, f"<model name='m'>{LINK}<include><uri>tool</uri></include></model>")
    with pytest.warns(PhipsiWarning, match="triangle"):
        model = load(path)
    (finding,) = (each for each in model.diagnosis if each.kind == "triangle")
    assert (finding.file, finding.line) == (str(inner.resolve()), 3)


def test_links_that_nothing_holds_float_beside_those_that_are_held(tmp_path: Path):
    held = "<joint name='g' type='fixed'><parent>world</parent><child>a</child></joint>"
    model = load(written(tmp_path, f"<model name='m'>{PAIR}{held}</model>"))
    assert model.body_names == ("b",) and isinstance(model.joints[0], joints.Free)


def test_a_model_of_models_has_a_canonical_link(tmp_path: Path):
    frame = "<frame name='f'><pose>0 0 1 0 0 0</pose></frame>"
    inner = f"<model name='n'><pose>1 0 0 0 0 0</pose>{LINK}</model>"
    model = load(written(tmp_path, f"<model name='m'>{frame}{inner}</model>"), base="fixed")
    host, X = model.frames["f"]
    assert host == -1 and X.translation.tolist() == [0, 0, 1]


def test_old_thread_pitch_is_turned_into_the_new(tmp_path: Path):
    axis = "<axis><xyz>0 0 1</xyz></axis>"
    new = joined(axis + "<screw_thread_pitch>0.1</screw_thread_pitch>", "screw")
    old = joined(axis + f"<thread_pitch>{-2 * np.pi / 0.1!r}</thread_pitch>", "screw")
    wanted = load(written(tmp_path, new), base="fixed").joints[0]
    np.testing.assert_allclose(
        load(written(tmp_path, old), base="fixed").joints[0].params, wanted.params, rtol=1e-15
    )


def test_mimic_is_recorded():
    with pytest.warns(PhipsiWarning, match="1 mimic joint"):
        model = load(DATA / "plant.sdf", loops="cut")
    assert model.couplings == (MimicJoint("hand::grip", "hand::lift", 2.0, 0.1 - 2 * 0.3),)
    (coupling,) = load(DATA / "plant.sdf").constraints
    assert coupling.name == "hand::grip mimics hand::lift"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            f"<link name='a'>{INERTIAL}<gravity>false</gravity></link>",
            "<gravity>false</gravity> is",
        ),
        (f"<link name='a'>{INERTIAL}<kinematic>1</kinematic></link>", "<kinematic>true"),
        (
            "<link name='a'><inertial><fluid_added_mass/></inertial></link>",
            "the added mass of a fluid is not part",
        ),
        (f"{LINK}<model name='n'><static>1</static>{LINK}</model>", "it is static inside a model"),
    ],
)
def test_what_changes_the_motion_and_is_left_out_is_told(tmp_path: Path, text: str, words: str):
    with pytest.warns(PhipsiWarning, match=words):
        load(written(tmp_path, f"<model name='m'>\n{text}</model>"))


COMPLAINTS = {
    "gearbox": (joined("", "gearbox"), "a gearbox ties the angles of two links together"),
    "loop": (
        joined("<axis/>").replace("</model>", "")
        + "<joint name='k' type='fixed'><parent>world</parent><child>b</child></joint></model>",
        "'k': it closes a loop and is left out (loops=\"cut\"). (strict=True rejects it",
    ),
    "auto inertia": (
        "<model name='m'><link name='a'><inertial auto='true'/></link></model>",
        "gz sdf --expand-auto-inertials",
    ),
    "joint in a world": (
        f"<world name='w'><model name='m'>{LINK}</model><joint name='j' type='fixed'>"
        "<parent>world</parent><child>m::a</child></joint></world>",
        "'j': a joint between models of a world is not read",
    ),
    "a link called world": (
        f"<model name='m'>{LINK}<link name='world'/><joint name='j' type='fixed'>"
        "<parent>world</parent><child>a</child></joint></model>",
        "joint 'j': its parent 'world' is the inertial frame in SDF, and not the link",
    ),
    "world as a child": (
        f"<model name='m'>{LINK}<joint name='j' type='fixed'><parent>a</parent>"
        "<child>world</child></joint></model>",
        "swap <parent> and <child>",
    ),
    "unknown world frame": (
        f"<world name='w'><model name='m'><pose relative_to='x'/>{LINK}</model></world>",
        "there is no frame 'x'",
    ),
    "frame outside a world": (
        f"<model name='m'><pose relative_to='x'/>{LINK}</model>",
        "remove relative_to",
    ),
    "unknown placement frame": (
        f"<model name='m' placement_frame='p'>{LINK}</model>",
        "model 'm': there is no frame 'p'",
    ),
    "unknown canonical link": (
        f"<model name='m' canonical_link='p'>{LINK}<frame name='f'/></model>",
        "there is no frame 'p'",
    ),
    "names that meet in a merge": (
        f"<model name='m'>{LINK}<include merge='true'><uri>inner.sdf</uri></include></model>",
        "link 'a': the name is used before, in ",
    ),
    "screw without pitch": (joined("<axis/>", "screw"), "needs <screw_thread_pitch>"),
    "screw that does not turn": (
        joined("<axis/><thread_pitch>0</thread_pitch>", "screw"),
        "0 rad/m is a screw that does not turn",
    ),
    "mimic of nothing": (joined("<axis><mimic/></axis>"), 'lacks joint="…"'),
    "two models included": (
        f"<model name='m'>{LINK}<include><uri>two.sdf</uri></include></model>",
        "an included file must have one <model>, but there are 2",
    ),
}


@pytest.mark.parametrize("case", COMPLAINTS)
def test_complaints(tmp_path: Path, case: str):
    text, words = COMPLAINTS[case]
    written(tmp_path, f"<model name='i'>{LINK}</model>", "inner.sdf")
    written(tmp_path, f"<model name='i'>{LINK}</model><model name='j'>{LINK}</model>", "two.sdf")
    with pytest.raises(ModelError) as caught:
        load(written(tmp_path, text), loops="cut", strict=True)
    assert str(caught.value).startswith(f"{tmp_path}/") and ".sdf:1: " in str(caught.value)
    assert words in str(caught.value)


def test_a_link_called_world_is_the_world_where_it_is_held(tmp_path: Path):
    path = written(tmp_path, COMPLAINTS["a link called world"][0])
    assert load(path, base="fixed").frames["a"][0] == -1
