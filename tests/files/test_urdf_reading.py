"""What a URDF file means, feature by feature, and what its errors say."""

import warnings
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

from phipsi import forward_dynamics, inverse_dynamics
from phipsi.attached.file_metadata import MimicJoint
from phipsi.core.model import joints
from phipsi.core.model.inertia import SpatialInertia
from phipsi.core.model.model import Model
from phipsi.core.model.pose import plane_axes, rotation_of_rpy, rpy_of_rotation
from phipsi.errors import FileError, ModelError, PhipsiWarning
from phipsi.files.conventions import from_pinocchio, to_pinocchio
from phipsi.files.load import load
from phipsi.files.urdf.write_urdf import save_urdf

ARM = Path(__file__).parent / "data" / "arm.urdf"
BODY = (
    '<inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" '
    'izz="1"/></inertial>'
)


@pytest.fixture(scope="module")
def arm() -> Model:
    with pytest.warns(PhipsiWarning, match="mimic"):
        return load(ARM, loops="cut")


def write(folder: Path, text: str, name: str = "robot.urdf") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def pair(joint: str, link: str = BODY, kind: str = "revolute") -> str:
    """Two links and a joint with the given children."""
    return (
        f'<robot name="r">\n<link name="a"/>\n<link name="b">{link}</link>\n'
        f'<joint name="j" type="{kind}"><parent link="a"/><child '
        f'link="b"/>{joint}</joint>\n</robot>'
    )


# ---- what is read -------------------------------------------------------------------------------


def test_names_joints_and_frames(arm: Model):
    assert arm.name == "arm"
    assert arm.joint_names == ("shoulder", "extension", "spin", "finger_right", "finger_left")
    assert arm.body_names == ("upper", "slider", "wheel", "right_finger", "left_finger")
    assert set(arm.frames) == {"base", "camera_mount", "camera"}
    assert arm.joint("shoulder").joint == joints.Revolute((0, 0, 1))
    assert arm.joint("extension").joint == joints.Prismatic((0.6, 0, 0.8))
    assert arm.joint("shoulder").limits == ((-1.5,), (2.0,))
    assert arm.joint("spin").limits is None
    assert arm.joint("shoulder").damping == (0.7,)
    rating = arm.joint_properties["shoulder"]
    assert (rating.effort, rating.velocity, rating.friction) == (50, 3, 0.2)


def test_welded_links_add_their_inertia_and_keep_their_frame(arm: Model):
    assert arm.body("upper").inertia.mass == pytest.approx(2.8)
    host, pose = arm.frames["camera"]
    assert arm.body_names[host] == "upper"
    np.testing.assert_allclose(
        pose.translation, [0.05 + 0.03 * np.cos(0.3), 0.03 * np.sin(0.3), 0.2], atol=1e-15
    )


def test_inertial_frame_is_turned_and_moved():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PhipsiWarning)
        theirs = pin.buildModelFromUrdf(str(ARM))
        ours = load(ARM, loops="cut")
    inertia = theirs.inertias[theirs.getJointId("shoulder")]
    np.testing.assert_allclose(ours.body("upper").inertia.com_B, inertia.lever, atol=1e-15)
    np.testing.assert_allclose(
        ours.body("upper").inertia.moment_about_com_B, inertia.inertia, atol=1e-15
    )


def test_mimic_is_recorded_and_told_once():
    with pytest.warns(PhipsiWarning) as caught:
        model = load(ARM, loops="cut")
    assert len(caught) == 1 and "'finger_right' (of 'finger_left')" in str(caught[0].message)
    assert caught[0].filename == __file__
    assert model.couplings == (MimicJoint("finger_right", "finger_left", 1.0, 0.001),)
    (coupling,) = load(ARM).constraints
    assert coupling.name == "finger_right mimics finger_left"


def test_geometry_is_kept(arm: Model):
    foot, mesh, box, ball = arm.geometry
    assert (foot.link, foot.kind, foot.size) == ("base", "cylinder", (0.1, 0.1))
    assert foot.color == (0.5, 0.5, 0.6, 1.0) and foot.name == "foot"
    assert (mesh.kind, mesh.uri, mesh.file) == ("mesh", "meshes/upper.stl", None)
    assert mesh.size == (0.001, 0.001, 0.001)
    assert (box.role, box.size) == ("collision", (0.1, 0.1, 0.4))
    assert ball.link == "wheel"
    assert any(f.kind == "mesh" and "was not found" in f.message for f in arm.diagnosis)


def test_meshes_are_found_beside_the_file_and_in_packages(tmp_path: Path):
    package = tmp_path / "my_robot"
    (package / "urdf").mkdir(parents=True)
    (package / "meshes").mkdir()
    mesh = package / "meshes" / "b.stl"
    mesh.write_text("solid")
    (package / "package.xml").write_text("<package/>")
    for uri in ("package://my_robot/meshes/b.stl", "../meshes/b.stl", f"file://{mesh}", str(mesh)):
        shape = f'<visual><geometry><mesh filename="{uri}"/></geometry></visual>'
        path = write(package / "urdf", pair("<limit lower='-1' upper='1'/>", BODY + shape))
        assert load(path).geometry[0].file == str(mesh.resolve())
    other = write(
        tmp_path,
        pair(
            "<limit lower='-1' upper='1'/>",
            BODY + shape.replace(str(mesh), "package://my_robot/meshes/b.stl"),
        ),
    )
    assert load(other).geometry[0].file is None
    for packages in ([tmp_path], {"my_robot": package}, tmp_path):
        assert load(other, package_dirs=packages).geometry[0].file == str(mesh.resolve())


def test_a_link_to_a_folder_that_is_allowed_is_followed(tmp_path: Path):
    source, installed = tmp_path / "source", tmp_path / "installed" / "robot"
    source.mkdir()
    installed.mkdir(parents=True)
    (source / "b.stl").write_text("solid")
    (installed / "b.stl").symlink_to(source / "b.stl")
    shape = '<visual><geometry><mesh filename="package://robot/b.stl"/></geometry></visual>'
    path = write(installed, pair('<limit lower="-1" upper="1"/>', BODY + shape))
    with pytest.raises(ModelError, match="through a symbolic link"):
        load(path)
    found = load(path, package_dirs=[source]).geometry[0].file
    assert found == str((source / "b.stl").resolve())


def test_all_joint_types(tmp_path: Path):
    kinds = {
        "revolute": joints.Revolute,
        "continuous": joints.Revolute,
        "prismatic": joints.Prismatic,
        "floating": joints.Free,
        "planar": joints.Planar,
    }
    for kind, wanted in kinds.items():
        path = write(tmp_path, pair('<axis xyz="0 0 1"/><limit lower="-1" upper="1"/>', kind=kind))
        assert isinstance(load(path).joints[0], wanted)
    path = write(tmp_path, pair("", kind="fixed"))
    model = load(path)
    assert (model.n_bodies, model.nq, model.nv) == (0, 0, 0)
    assert forward_dynamics(model, np.zeros(0), np.zeros(0), np.zeros(0)).shape == (0,)


@pytest.mark.parametrize("kind", ["floating", "planar", "continuous", "prismatic"])
def test_joint_types_against_pinocchio(tmp_path: Path, kind: str):
    inertial = BODY.replace("<mass", '<origin xyz="0.1 -0.2 0.3" rpy="1 0.5 -2"/><mass').replace(
        'ixx="1"', 'ixx="1.3"'
    )
    path = write(
        tmp_path,
        pair(
            '<origin xyz="1 2 3" rpy="-1 0.3 2"/><axis xyz="0 0 1"/><limit lower="-1" '
            'upper="1" effort="1" velocity="1"/>',
            inertial,
            kind,
        ),
    )
    model, theirs = load(path), pin.buildModelFromUrdf(str(path))
    data = theirs.createData()
    rng = np.random.default_rng(3)
    q, (v, vdot) = model.random_configuration(rng), rng.normal(size=(2, model.nv))
    state = to_pinocchio(model, q, v, vdot)
    tau = from_pinocchio(model, state.q, tau=pin.rnea(theirs, data, *state[:3])).tau
    np.testing.assert_allclose(inverse_dynamics(model, q, v, vdot), tau, rtol=1e-12, atol=1e-12)


def test_a_free_base(arm: Model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PhipsiWarning)
        free = load(ARM, base="free")
    assert free.joint_names[0] == "root_joint" and free.body_names[0] == "base"
    assert free.nv == arm.nv + 6 and free.body("base").inertia.mass == 4


def test_a_link_called_world(tmp_path: Path):
    text = (
        pair("<limit lower='-1' upper='1'/>")
        .replace('name="a"', 'name="world"')
        .replace('link="a"', 'link="world"')
    )
    path = write(tmp_path, text)
    fixed = load(path)
    with pytest.warns(PhipsiWarning, match="link 'world': it moves on joint 'root_joint'"):
        free = load(path, base="free")
    assert fixed.body("b").parent == "world" and not fixed.diagnosis
    assert free.body_names == ("world_link", "b")
    assert free.diagnosis[0].kind == "renamed" and free.diagnosis[0].line == 2


def test_a_joint_called_world(tmp_path: Path):
    text = pair("<limit lower='-1' upper='1' effort='3'/>").replace('name="j"', 'name="world"')
    model = load(write(tmp_path, text))
    assert (
        model.joint_names == ("world_joint",) and model.joint_properties["world_joint"].effort == 3
    )
    assert [(f.kind, f.line) for f in model.diagnosis] == [("renamed", 4)]


def test_a_file_may_have_a_byte_order_mark_or_be_latin(tmp_path: Path):
    path = tmp_path / "robot.urdf"
    path.write_bytes(b"\xef\xbb\xbf" + pair("<limit lower='-1' upper='1'/>").encode())
    assert load(path).nv == 1
    text = '<?xml version="1.0" encoding="iso-8859-1"?>' + pair(
        "<limit lower='-1' upper='1'/>"
    ).replace('"b"', '"b\u00fc"')
    path.write_bytes(text.encode("latin-1"))
    assert load(path).body_names == ("b\u00fc",)


def test_limits_that_leave_no_room_are_none(tmp_path: Path):
    for limit in ("", '<limit effort="1"/>', '<limit lower="0.5" upper="0.5"/>'):
        model = load(write(tmp_path, pair(limit)))
        assert model.joint("j").limits is None
        assert [f.kind for f in model.diagnosis] == ["limit"]
    bounded = load(write(tmp_path, pair('<limit lower="-1.7976931348623157e308" upper="2"/>')))
    assert bounded.joint("j").limits == ((-np.inf,), (2.0,))


# ---- what is found ------------------------------------------------------------------------------

BAD = {
    "triangle": BODY.replace('izz="1"', 'izz="3"'),
    "negative": BODY.replace('ixx="1"', 'ixx="-1"'),
    "immovable": "",
}


@pytest.mark.parametrize("kind", BAD)
def test_unphysical_inertias_load_with_one_warning(tmp_path: Path, kind: str):
    path = write(tmp_path, pair('<limit lower="-1" upper="1"/>', BAD[kind]))
    with pytest.warns(PhipsiWarning) as caught:
        model = load(path)
    assert len(caught) == 1
    found = [f for f in model.diagnosis if f.kind == kind]
    assert len(found) == 1 and found[0].is_problem
    assert (found[0].body, found[0].line, found[0].file) == ("b", 3, str(path))
    assert found[0].numbers
    with pytest.raises(ModelError, match=r"robot\.urdf:3: link 'b': .*strict=True"):
        load(path, strict=True)


def test_numbers_are_those_of_the_file_unless_repair_is_asked_for(tmp_path: Path):
    path = write(tmp_path, pair('<limit lower="-1" upper="1"/>', BAD["triangle"]))
    with pytest.warns(PhipsiWarning):
        plain = load(path)
    assert plain.body("b").inertia.moment_about_com_B[2, 2] == 3
    with pytest.warns(PhipsiWarning, match=r"changed from \(1, 1, 3\) to \(1.5, 1.5, 3\)"):
        mended = load(path, repair="inertia")
    assert [f.kind for f in mended.diagnosis] == ["repaired"]
    np.testing.assert_allclose(
        np.linalg.eigvalsh(mended.body("b").inertia.moment_about_com_B), [1.5, 1.5, 3]
    )
    with pytest.raises(ModelError, match="not both"):
        load(path, repair="inertia", strict=True)


def test_a_misspelt_element_is_noted(tmp_path: Path):
    path = write(tmp_path, pair('<orign xyz="0 0 1"/><limit lower="-1" upper="1"/>'))
    with pytest.warns(PhipsiWarning, match="<orign> means nothing here"):
        (finding,) = load(path).diagnosis
    assert finding.kind == "ignored" and "Did you mean <origin>?" in finding.message
    extension = "<collision_checking/><hardware/><limit lower='-1' upper='1'/>"
    assert load(write(tmp_path, pair(extension))).diagnosis == ()


def test_a_mimic_of_nothing_is_left_out(tmp_path: Path):
    for target in ("k", "j"):
        path = write(tmp_path, pair(f'<limit lower="-1" upper="1"/><mimic joint="{target}"/>'))
        with pytest.warns(PhipsiWarning, match="mimics"):
            assert load(path).couplings == ()


# ---- what is kept -------------------------------------------------------------------------------


def test_extras_survive_changes_and_storage(arm: Model):
    assert Model.from_dict(arm.to_dict()) == arm
    heavier = arm.with_body("wheel", inertia=SpatialInertia(2.0, (0, 0, 0), 0.1))
    assert heavier.couplings == arm.couplings and heavier.geometry == arm.geometry
    locked = arm.with_locked("finger_left", {"finger_left": 0.0})
    assert locked.couplings == () and "finger_left" not in locked.joint_properties
    both = arm.attach(arm, at="camera", prefix="second_")
    assert both.couplings[1] == MimicJoint("second_finger_right", "second_finger_left", 1.0, 0.001)
    assert both.geometry[-1].link == "second_wheel"


def test_findings_of_a_replaced_inertia_go(tmp_path: Path):
    with pytest.warns(PhipsiWarning):
        model = load(write(tmp_path, pair('<limit lower="-1" upper="1"/>', BAD["triangle"])))
    assert model.with_body("b", inertia=SpatialInertia(1, (0, 0, 0), 1)).diagnosis == ()
    assert model.with_body("b", damping=0.5).diagnosis == model.diagnosis


# ---- writing ------------------------------------------------------------------------------------


def same(a: Model, b: Model) -> None:
    assert a.joint_names == b.joint_names and a.joints == b.joints
    assert set(a.frames) == set(b.frames)
    np.testing.assert_allclose(a.inertia_matrices, b.inertia_matrices, rtol=0, atol=1e-15)
    np.testing.assert_allclose(a.placement_rotations, b.placement_rotations, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(a.placement_translations, b.placement_translations)
    np.testing.assert_array_equal(a.damping, b.damping)
    np.testing.assert_array_equal([a.lower, a.upper], [b.lower, b.upper])
    assert a.couplings == b.couplings and a.joint_properties == b.joint_properties
    for name, (host, pose) in a.frames.items():
        assert b.frames[name][0] == host
        np.testing.assert_allclose(pose.matrix, b.frames[name][1].matrix, rtol=0, atol=1e-15)


@pytest.mark.parametrize("base", ["fixed", "free"])
@pytest.mark.filterwarnings("ignore::phipsi.errors.PhipsiWarning")
def test_save_writes_what_was_read(tmp_path: Path, base: str):
    model = load(ARM, base)
    text = save_urdf(model, tmp_path / "again.urdf")
    assert (tmp_path / "again.urdf").read_text() == text
    again = load(tmp_path / "again.urdf", base)
    same(model, again)
    assert [s.uri for s in again.geometry] == [s.uri for s in model.geometry]
    assert text.count("<link") == 8 and text.count("<joint") == 7
    assert '<mass value="0.3"/>' in text  # the welded camera keeps its own inertia
    assert pin.buildModelFromXML(text, mimic=False).nv == 5


@pytest.mark.filterwarnings("ignore::phipsi.errors.PhipsiWarning")
def test_save_after_a_change(tmp_path: Path, arm: Model):
    changed = arm.with_locked("shoulder", {"shoulder": 0.4}).with_body("slider", damping=2.0)
    save_urdf(changed, tmp_path / "changed.urdf")
    same(changed, load(tmp_path / "changed.urdf"))
    heavier = arm.with_body("upper", inertia=arm.body("upper").inertia.scaled(2))
    save_urdf(heavier, tmp_path / "heavier.urdf")
    same(heavier, load(tmp_path / "heavier.urdf"))


def test_save_refuses_what_urdf_cannot_say():
    from phipsi.core.model.builder import ModelBuilder

    b = ModelBuilder(gravity=(0, 0, 0))
    b.add_body(
        "x", joint=joints.Revolute((0, 0, 1)), inertia=SpatialInertia(1, (0, 0, 0), 1), armature=0.1
    )
    with pytest.warns(PhipsiWarning, match="armature.*gravity"):
        text = save_urdf(b.build())
    assert 'type="continuous"' in text
    b.add_body("y", joint=joints.Spherical(), inertia=SpatialInertia(1, (0, 0, 0), 1))
    with pytest.warns(PhipsiWarning), pytest.raises(ModelError, match="'y'.*no spherical joint"):
        save_urdf(b.build())


# ---- angles -------------------------------------------------------------------------------------


def test_rpy_round_trip_also_where_roll_and_yaw_merge():
    rng = np.random.default_rng(0)
    for _ in range(500):
        roll, pitch, yaw = rng.uniform(-np.pi, np.pi, 3)
        if rng.random() < 0.5:
            pitch = rng.choice([-1, 1]) * (np.pi / 2 - 10 ** rng.uniform(-18, -3))
        R = rotation_of_rpy(roll, pitch, yaw)
        np.testing.assert_allclose(rotation_of_rpy(*rpy_of_rotation(R)), R, rtol=0, atol=1e-15)


def test_plane_axes_are_right_handed():
    rng = np.random.default_rng(0)
    for n in [*rng.normal(size=(20, 3)), (0, 0, 1), (0, 0, -1), (1, 0, 0), (1e-9, 0, -1)]:
        e1, e2 = plane_axes(n)
        np.testing.assert_allclose(np.cross(e1, e2), np.array(n) / np.linalg.norm(n), atol=1e-12)


# ---- complaints ---------------------------------------------------------------------------------

L = '<limit lower="-1" upper="1"/>'
COMPLAINTS = {
    "no number": (
        pair('<axis xyz="0 zero 1"/>' + L),
        4,
        "joint 'j': axis xyz='zero' is not a number",
    ),
    "comma": (pair(L, BODY.replace('value="1"', 'value="1,5"')), 3, "Use a decimal point: '1.5'"),
    "nan": (pair(L, BODY.replace('value="1"', 'value="nan"')), 3, "must be finite"),
    "overflow": (pair(L, BODY.replace('value="1"', 'value="1e999"')), 3, "too large"),
    "huge": (pair(L, BODY.replace('value="1"', 'value="1e200"')), 3, "not a physical size"),
    "negative mass": (
        pair(L, BODY.replace('value="1"', 'value="-5"')),
        3,
        r"Write <mass " r'value="5"/>',
    ),
    "no mass": (pair(L, BODY.replace('<mass value="1"/>', "")), 3, "lacks <mass"),
    "missing moment": (pair(L, BODY.replace('iyy="1"', "")), 3, 'lacks iyy="…"'),
    "zero axis": (pair('<axis xyz="0 0 0"/>' + L), 4, "not a direction"),
    "two numbers": (pair('<axis xyz="0 1"/>' + L), 4, "must be 3 numbers, but it has 2"),
    "swapped limits": (pair('<limit lower="1" upper="-1"/>'), 4, "Were they swapped"),
    "negative damping": (pair(L + '<dynamics damping="-1"/>'), 4, "feed energy in"),
    "type": (pair(L, kind="revolut"), 4, "Did you mean 'revolute'?"),
    "no type": (pair(L).replace(' type="revolute"', ""), 4, "it has no type"),
    "unknown parent": (
        pair(L).replace('link="a"', 'link="aa"'),
        4,
        "'aa' is not a link of this",
    ),
    "no child": (pair(L).replace('<child link="b"/>', ""), 4, "it needs <child link="),
    "itself": (pair(L).replace('link="a"', 'link="b"'), 4, "to itself"),
    "duplicate link": (pair(L).replace('name="b"', 'name="a"'), 3, "used before, on line 2"),
    "no name": (pair(L).replace(' name="b"', ""), 3, "it has no name"),
    "two inertials": (pair(L, BODY + BODY), 3, "there is a second <inertial>"),
    "two bases": (
        pair(L).replace("<joint", '<link name="c"/>\n<joint'),
        4,
        "2 links have no parent joint",
    ),
    "no link": ('<robot name="r"/>', 1, "there is no <link>"),
    "not a robot": ("<robots/>", 1, "that of a URDF is <robot>"),
    "broken": ("<robot>\n<link name='a'>\n</robot>", 3, "mismatched tag"),
    "doctype": ("<!DOCTYPE robot>\n<robot/>", 1, "delete the line"),
    "xacro element": ('<robot xmlns:xacro="x">\n<xacro:macro/></robot>', 2, "xacro robot"),
    "xacro value": (pair('<origin xyz="${x} 0 0"/>'), 4, "pip install xacro"),
    "empty": ("  \n", 1, "is empty"),
    "no shape": (pair(L, BODY + "<visual><geometry/></visual>"), 3, "has no shape"),
    "odd shape": (pair(L, BODY + "<visual><geometry><boxx/></geometry></visual>"), 3, "'box'"),
}


@pytest.mark.parametrize("case", COMPLAINTS)
def test_complaints_name_line_element_and_fix(tmp_path: Path, case: str):
    text, line, words = COMPLAINTS[case]
    path = write(tmp_path, text)
    words = words.replace("xacro robot", f"xacro {path}")
    with pytest.raises(FileError) as caught:
        load(path)
    error = caught.value
    assert (error.file, error.line) == (str(path), line), str(error)
    assert str(error).startswith(f"{path}:{line}: ") and str(error).count(f"{path}:") == 1
    assert words in str(error)


def test_cycles_and_loops_are_named(tmp_path: Path):
    joint = '<joint name="{0}" type="continuous"><parent link="{1}"/><child link="{2}"/></joint>\n'
    links = "".join(f'<link name="{c}">{BODY}</link>\n' for c in "abc")
    ring = links + "".join(joint.format(f"j{p}{c}", p, c) for p, c in ("ab", "bc", "ca"))
    with pytest.raises(FileError, match=r"cycle \(child → parent\): 'a' → 'c' → 'b'"):
        load(write(tmp_path, f"<robot>\n{ring}</robot>"))
    loop = links + "".join(joint.format(f"j{p}{c}", p, c) for p, c in ("ab", "ac", "bc"))
    with pytest.raises(
        FileError, match=r"robot.urdf:7: joint 'jbc': its child 'c' is already attached by"
    ):
        load(write(tmp_path, f"<robot>\n{loop}</robot>"))


def test_options_are_checked(tmp_path: Path):
    path = write(tmp_path, pair(L))
    for options in ({"base": "floating"}, {"repair": "all"}, {"loops": "yes"}):
        with pytest.raises(ModelError, match="is not one of"):
            load(path, **options)
    with pytest.raises(ModelError, match="Did you mean 'robot.urdf'"):
        load(tmp_path / "robo.urdf")
    with pytest.raises(ModelError, match="is a folder"):
        load(tmp_path)
    with pytest.raises(ModelError, match="max_bytes="):
        load(path, max_bytes=10)


def test_a_chain_of_3000_links(tmp_path: Path):
    links = "".join(f'<link name="l{i}">{BODY}</link>\n' for i in range(3001))
    chain = "".join(
        f'<joint name="j{i}" type="continuous"><origin xyz="0 0 1" rpy="0.1 0 0"/><parent '
        f'link="l{i}"/><child link="l{i + 1}"/><axis xyz="0 0 1"/></joint>\n'
        for i in range(3000)
    )
    model = load(write(tmp_path, f'<robot name="chain">\n{links}{chain}</robot>'))
    assert model.nv == 3000 and model.tree.depth[-1] == 2999


def test_a_file_that_cannot_be_written_leaves_nothing(
    arm: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space left"):
        save_urdf(arm, tmp_path / "arm.urdf")
    assert not list(tmp_path.iterdir())
