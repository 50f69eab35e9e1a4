"""SDF: poses, frames, nested and included models, joints; numbers compared with Drake's."""

from pathlib import Path

import numpy as np
import pytest

import phipsi as pp
from phipsi import inverse_dynamics
from phipsi.core.model import joints
from phipsi.core.model.model import Model
from phipsi.errors import ModelError, PhipsiWarning
from phipsi.files.load import load

RIG = Path(__file__).parent / "data" / "rig.sdf"
INERTIAL = (
    "<inertial><mass>1</mass><inertia><ixx>1</ixx><iyy>1</iyy><izz>1</izz></inertia></inertial>"
)


@pytest.fixture(scope="module")
def rig() -> Model:
    return load(RIG)


def written(folder: Path, inside: str, version: str = "1.9", name: str = "x.sdf") -> Path:
    path = folder / name
    path.write_text(f'<sdf version="{version}"><model name="m">\n{inside}\n</model></sdf>')
    return path


def two(joint: str, pose: str = "") -> str:
    return (
        f'<link name="a">{INERTIAL}</link>\n<link name="b">{pose}{INERTIAL}</link>\n'
        f"<joint name='j' {joint}</joint>"
    )


ENDS = "<parent>a</parent><child>b</child>"


def test_names(rig: Model):
    assert rig.name == "rig"
    assert rig.joint_names == ("hinge", "rail", "gimbal", "tool::grip")
    assert rig.body_names == ("swing", "slide", "knob", "tool::jaw")
    # links whose joint is elsewhere keep their own frame under another name
    assert set(rig.frames) == {"swing_frame", "knob_frame", "datum", "post", "tool::flange"}
    assert rig.joint("hinge").limits == ((-1.0,), (2.0,))
    assert rig.joint_properties["hinge"].effort == 30
    assert isinstance(rig.joint("gimbal").joint, joints.Universal)


def test_dynamics_and_poses_are_those_of_drake(rig: Model):
    """The numbers are from Drake 1.51, its damping taken off."""
    q = [0.3, 0.2, -0.5, 0.7, 0.4]
    v, vdot = [1, -0.5, 0.8, 0.3, -1.2], [0.1, 0.2, -0.3, 0.4, 0.5]
    tau = [-0.770054003, 8.43026636, 2.26691469e-02, -2.67609016e-02, 2.65338226e-04]
    np.testing.assert_allclose(inverse_dynamics(rig, q, v, vdot), tau, rtol=1e-7)
    poses = dict(zip(rig.frames, pp.poses(rig, q, rig.frames), strict=True))
    poses |= dict(zip(rig.body_names, pp.poses(rig, q), strict=True))
    places = {
        "datum": [0.6065516260328323, 0.07213617782865547, 1.4922528440824896],
        "slide": [0.7796280460680783, 0.11231232302019395, 1.9588691210917062],
        "tool::jaw": [1.1186345146450254, 0.2801933842133325, 1.585543758804213],
        "swing_frame": [0.8408472304028848, 0.017644373475162903, 1.2593501940703504],
        "knob_frame": [0.9389304506428383, 0.1801343363739499, 2.052601469330939],
    }
    for name, place in places.items():
        np.testing.assert_allclose(poses[name][:3, 3], place, rtol=0, atol=1e-12)


def test_shapes_are_in_the_body_frame(rig: Model):
    box, hull = rig.geometry
    assert (box.link, box.kind, box.color) == ("post", "box", (0.2, 0.4, 0.6, 1.0))
    assert hull.link == "swing" and hull.uri == "meshes/hull.obj"
    _, X = rig.frames["swing_frame"]
    np.testing.assert_allclose(hull.placement.translation, X.apply([0, 0, 0.1]), atol=1e-15)


def test_a_model_floats_unless_it_is_held(tmp_path: Path):
    inside = two(f"type='revolute'>{ENDS}<axis><xyz>0 0 1</xyz></axis>")
    assert load(written(tmp_path, inside)).nv == 7
    assert load(written(tmp_path, inside), base="fixed").nv == 1
    with pytest.warns(PhipsiWarning, match="it is static"):
        assert load(written(tmp_path, "<static>true</static>" + inside)).nv == 1
    held = inside + "<joint name='g' type='fixed'><parent>world</parent><child>a</child></joint>"
    assert load(written(tmp_path, held)).nv == 1


@pytest.mark.parametrize(
    ("kind", "more", "wanted"),
    [
        ("ball", "", joints.Spherical()),
        ("fixed", "", None),
        ("continuous", "<axis><xyz>0 0 2</xyz></axis>", joints.Revolute((0, 0, 1))),
        ("prismatic", "<axis><xyz>0 1 0</xyz></axis>", joints.Prismatic((0, 1, 0))),
        (
            "screw",
            "<axis><xyz>1 0 0</xyz></axis><screw_thread_pitch>0.2</screw_thread_pitch>",
            joints.Helical((1, 0, 0), 0.2 / (2 * np.pi)),
        ),
    ],
)
def test_joint_types(tmp_path: Path, kind: str, more: str, wanted: joints.Joint | None):
    model = load(written(tmp_path, two(f"type='{kind}'>{ENDS}{more}")), base="fixed")
    assert model.joints == (() if wanted is None else (wanted,))


def test_axes_of_old_versions_are_in_the_model(tmp_path: Path):
    turned = "<pose>0 0 0 1.5707963267948966 0 0</pose>"
    inside = two(f"type='revolute'>{ENDS}<axis><xyz>0 0 1</xyz></axis>", turned)
    new = load(written(tmp_path, inside), base="fixed")
    old = load(written(tmp_path, inside, "1.4"), base="fixed")
    np.testing.assert_allclose(new.joints[0].params, [0, 0, 1], atol=1e-15)
    np.testing.assert_allclose(old.joints[0].params, [0, 1, 0], atol=1e-15)


def test_include(tmp_path: Path):
    tool = tmp_path / "tool"
    tool.mkdir()
    written(tool, f'<link name="body">{INERTIAL}</link>', name="model.sdf")
    inside = (
        f'<link name="a">{INERTIAL}</link><include><name>gun</name><uri>model://tool</uri>'
        "<pose relative_to='a'>0 0 1 0 0 0</pose></include>"
        "<joint name='j' type='revolute'><parent>a</parent><child>gun::body</child>"
        "<axis><xyz>1 0 0</xyz></axis></joint>"
    )
    path = written(tmp_path, inside)
    model = load(path, base="fixed", package_dirs=[tmp_path])
    assert model.body_names == ("gun::body",)
    assert model.placements[0].translation.tolist() == [0, 0, 1]
    with pytest.raises(ModelError, match="was not found. Pass the folders of models"):
        load(path)


def test_the_default_inertia_is_told(tmp_path: Path):
    model = load(written(tmp_path, '<link name="a"/>'))
    assert model.inertias[0].mass == 1 and model.diagnosis[0].kind == "default"


def test_a_spring_is_told(tmp_path: Path):
    axis = (
        "<axis><xyz>0 0 1</xyz><dynamics><spring_stiffness>3</spring_stiffness></dynamics></axis>"
    )
    path = written(tmp_path, two(f"type='revolute'>{ENDS}{axis}"))
    with pytest.warns(PhipsiWarning, match="its spring is not part of the model"):
        load(path)


COMPLAINTS = {
    "no model": ("<sdf/>", "no <model>"),
    "two models": (
        "<sdf><model name='a'/><model name='b'/></sdf>",
        "2 models: 'a', 'b'. Choose one:\n    pp.load(path, model='a')",
    ),
    "no link": ("<sdf><model name='a'/></sdf>", "no <link>"),
    "type": (two(f"type='revolut'>{ENDS}"), "Did you mean 'revolute'"),
    "no axis": (two(f"type='revolute'>{ENDS}"), "needs <axis>"),
    "zero axis": (two(f"type='revolute'>{ENDS}<axis><xyz>0 0 0</xyz></axis>"), "not a direction"),
    "parallel axes": (
        two(f"type='universal'>{ENDS}<axis><xyz>1 0 0</xyz></axis><axis2><xyz>1 0 0</xyz></axis2>"),
        "parallel",
    ),
    "no parent": (two("type='fixed'><child>b</child>"), "it needs <parent>"),
    "unknown child": (two("type='fixed'><parent>a</parent><child>c</child>"), "no frame 'c'"),
    "unknown frame": (two(f"type='fixed'>{ENDS}", "<pose relative_to='x'/>"), "no frame 'x'"),
    "pose": (two(f"type='fixed'>{ENDS}", "<pose>0 0 1</pose>"), "must be 6 numbers"),
    "poses in a ring": (
        "<link name='a'><pose relative_to='b'/></link>"
        "<link name='b'><pose relative_to='a'/></link>",
        "poses refer to each other: 'a' → 'b' → 'a'",
    ),
    "shared name": (two(f"type='fixed'>{ENDS}") + "<frame name='a'/>", "share their names"),
    "mass": (f"<link name='a'>{INERTIAL.replace('<mass>1', '<mass>-1')}</link>", "is negative"),
    "comma": (f"<link name='a'>{INERTIAL.replace('<mass>1', '<mass>1,5')}</link>", "'1.5'"),
    "limits": (
        two(
            f"type='revolute'>{ENDS}<axis><xyz>0 0 1</xyz><limit><lower>1</lower><upper>0</upper>"
            "</limit></axis>"
        ),
        "above the upper",
    ),
    "gearbox": (two(f"type='gearbox'>{ENDS}"), "a gearbox ties the angles of two links together"),
}


@pytest.mark.parametrize("case", COMPLAINTS)
def test_complaints(tmp_path: Path, case: str):
    text, words = COMPLAINTS[case]
    path = tmp_path / "x.sdf"
    path.write_text(text) if text.startswith("<sdf") else written(tmp_path, text)
    with pytest.raises(ModelError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}:") and str(caught.value).count(f"{path}:") == 1
    assert words in str(caught.value)
