"""MJCF against MuJoCo: poses, mass matrix, inverse and forward dynamics; and what is refused."""

import struct
import warnings
from pathlib import Path

import mujoco
import numpy as np
import pytest
from amounts import seeds
from robot_files import mjcf_file as written

import phipsi as pp
from phipsi import forward_dynamics, inverse_dynamics, mass_matrix
from phipsi.core.model import joints
from phipsi.core.model.model import Model
from phipsi.errors import ModelError, PhipsiWarning
from phipsi.files.conventions import to_mujoco
from phipsi.files.load import load
from phipsi.files.mjcf.mujoco_arrays import captured_warnings

MACHINE = Path(__file__).parent / "data" / "machine.xml"
BALL = '<geom size="0.1"/>'


def agrees(model: Model, path: Path, seed: int = 0) -> None:
    """Compare at a random state; limits, contacts and passive forces are no part of it."""
    theirs = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(theirs)
    rng = np.random.default_rng(seed)
    q = model.random_configuration(rng)
    v, vdot, tau = rng.normal(size=(3, model.nv))
    state = to_mujoco(model, q, v, vdot, tau)
    assert (theirs.nq, theirs.nv) == (state.q.size, state.v.size)
    if not theirs.nv:
        return
    data.qpos, data.qvel = state.q, state.v
    mujoco.mj_forward(theirs, data)
    M = np.zeros((theirs.nv, theirs.nv))
    unit = np.eye(theirs.nv)
    for k in range(theirs.nv):
        column = np.zeros(theirs.nv)
        mujoco.mj_mulM(theirs, data, column, unit[k])
        M[:, k] = column
    T = to_mujoco(model, np.tile(q, (model.nv, 1)), np.eye(model.nv)).v.T
    np.testing.assert_allclose(
        T @ mass_matrix(model, q) @ T.T, M, rtol=0, atol=1e-11 * np.abs(M).max()
    )
    bias = np.array(data.qfrc_bias)
    needed = to_mujoco(model, q, tau=inverse_dynamics(model, q, v, vdot)).tau
    scale = np.abs(M @ state.vdot).max() + np.abs(bias).max()
    np.testing.assert_allclose(needed, M @ state.vdot + bias, rtol=0, atol=1e-11 * scale)
    given = np.linalg.solve(M, state.tau - bias)
    ours = to_mujoco(model, q, v, forward_dynamics(model, q, v, tau)).vdot
    np.testing.assert_allclose(ours, given, rtol=0, atol=1e-9 * np.abs(given).max())
    poses = dict(zip(model.frames, pp.poses(model, q, model.frames), strict=True))
    poses |= dict(zip(model.body_names, pp.poses(model, q), strict=True))
    for i in range(1, theirs.nbody):
        name = theirs.body(i).name or f"body{i}"
        X = poses[f"{name}_frame" if f"{name}_frame" in poses else name]
        np.testing.assert_allclose(X[:3, 3], data.xpos[i], rtol=0, atol=1e-12)
        np.testing.assert_allclose(X[:3, :3], data.xmat[i].reshape(3, 3), rtol=0, atol=1e-12)
    for k in range(theirs.nsite):
        name = theirs.site(k).name
        if not name:
            continue
        X = poses[f"{name}_site" if f"{name}_site" in poses else name]
        np.testing.assert_allclose(X[:3, 3], data.site_xpos[k], rtol=0, atol=1e-12)


@pytest.fixture(scope="module")
def machine() -> Model:
    return load(MACHINE)


@pytest.mark.parametrize("seed", seeds(4))
def test_all_features_agree_with_mujoco(machine: Model, seed: int):
    agrees(machine, MACHINE, seed)


def test_what_was_read(machine: Model):
    assert machine.name == "machine"
    assert machine.gravity.tolist() == [0.1, 0, -9.7]
    hips = machine.joint("hip_x+hip_y")
    assert isinstance(hips.joint, joints.Composite) and hips.damping == (0.5, 0.5)
    np.testing.assert_allclose(np.rad2deg(hips.limits), [[-40, -70], [60, 30]])
    # anchors that differ: massless bodies between, in the same coordinates
    assert {"tail/tail_slide", "tail/tail_a", "tail"} <= set(machine.body_names)
    assert machine.joint("tail_b").armature == (0.03,)
    assert {"imu", "sole", "bell", "thigh_frame"} <= set(machine.frames)
    assert not any(f.is_problem for f in machine.diagnosis)
    floor = machine.geometry[0]
    assert (floor.link, floor.kind, floor.name) == ("world", "plane", "floor")
    capsule = next(s for s in machine.geometry if s.kind == "capsule")
    assert capsule.size == pytest.approx((0.03, 0.3))


def test_base_can_be_welded_or_freed(tmp_path: Path):
    welded = load(MACHINE, base="fixed")
    assert welded.nv == load(MACHINE).nv - 6
    one = written(
        tmp_path, f'<body name="a">{BALL}<body name="b"><joint name="j"/>{BALL}</body></body>'
    )
    assert load(one).nv == 1 and load(one, base="free").nv == 7
    two = written(
        tmp_path, f'<body name="a"><joint/>{BALL}</body><body name="b"><joint/>{BALL}</body>'
    )
    with pytest.raises(ModelError, match="one outermost body"):
        load(two, base="free")


@pytest.mark.parametrize(
    "compiler",
    [
        '<compiler angle="radian" eulerseq="XYZ"/>',
        '<compiler fusestatic="true"/>',
        '<compiler inertiafromgeom="true"/>',
        '<compiler autolimits="false"/>',
        '<compiler balanceinertia="true" boundmass="0.01"/>',
    ],
)
def test_compiler_options(tmp_path: Path, compiler: str):
    inside = (
        '<body name="a" euler="0.3 0.2 0.1"><joint name="j" axis="0 1 0" limited="true" range="-1 '
        '1"/><inertial pos="0 0 0.1" mass="2" diaginertia="0.1 0.2 0.25"/><geom type="box" '
        f'size="0.1 0.2 0.3"/><body name="b" pos="0 0 0.3">{BALL}<site name="s" pos="0 0 '
        '0.1"/></body></body>'
    )
    path = written(tmp_path, inside, head=compiler)
    agrees(load(path), path)


def test_includes_and_meshes_come_from_the_package(tmp_path: Path):
    corners = ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1))
    faces = ((0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3))
    stl = b"\0" * 80 + struct.pack("<I", 4)
    for face in faces:
        stl += struct.pack("<12fH", 0, 0, 0, *(x for k in face for x in corners[k]), 0)
    (tmp_path / "meshes").mkdir()
    (tmp_path / "parts").mkdir()
    (tmp_path / "meshes" / "tip.stl").write_bytes(stl)
    (tmp_path / "parts" / "tip.xml").write_text(
        '<mujoco><worldbody><body name="tip"><joint name="j" axis="1 1 0"/>'
        '<geom type="mesh" mesh="tip"/></body></worldbody></mujoco>'
    )
    path = tmp_path / "robot.xml"
    path.write_text(
        '<mujoco><compiler meshdir="meshes"/><asset><mesh name="tip" file="tip.stl" scale="0.1 '
        '0.1 0.2"/></asset><include file="parts/tip.xml"/></mujoco>'
    )
    model = load(path)
    agrees(model, path)
    (shape,) = model.geometry
    assert shape.file == str((tmp_path / "meshes" / "tip.stl").resolve())
    np.testing.assert_allclose(shape.placement.matrix, np.eye(4), atol=1e-7)  # single precision
    np.testing.assert_allclose(shape.size, [0.1, 0.1, 0.2])


def test_gravity_can_be_switched_off(tmp_path: Path):
    head = '<option><flag gravity="disable"/></option>'
    path = written(tmp_path, f'<body name="a"><joint/>{BALL}</body>', head=head)
    model = load(path)
    assert model.gravity.tolist() == [0, 0, 0]
    agrees(model, path)


def test_springs_and_the_like_are_named(tmp_path: Path):
    inside = f'<body name="a" gravcomp="1"><joint name="j" stiffness="5"/>{BALL}</body>'
    path = written(tmp_path, inside, head='<option density="1.2"/>')
    with pytest.warns(PhipsiWarning, match="3 ignored"):
        model = load(path)
    assert {f.element for f in model.diagnosis} == {"joint 'j'", "body 'a'", "<option>"}
    with pytest.raises(ModelError, match="spring is not part of the model"):
        load(path, strict=True)


@pytest.mark.parametrize(
    "constraint",
    [
        '<connect name="loop" body1="a" body2="b" anchor="0 0 0"/>',
        '<weld name="loop" body1="a" body2="b"/>',
        '<joint name="loop" joint1="i" joint2="j"/>',
    ],
)
def test_equality_constraints_are_read_or_left_out_by_name(tmp_path: Path, constraint: str):
    inside = (
        f'<body name="a"><joint name="i"/>{BALL}</body><body name="b" pos="1 0 0"><joint '
        f'name="j"/>{BALL}</body>'
    )
    path = written(tmp_path, inside, head=f"\n<equality>\n{constraint}\n</equality>")
    with pytest.raises(ModelError, match=r"robot\.xml:3: equality \w+ 'loop': .*ties motions"):
        load(path, loops="cut", strict=True)
    assert [c.name for c in load(path).constraints] == ["loop"]
    path.write_text(path.read_text().replace('name="loop"', 'name="loop" active="false"'))
    assert load(path).nv == 2


COMPLAINTS = {
    "comma": (
        '<body name="a"><joint/><geom size="1,5"/></body>',
        3,
        "bad format in attribute 'size'",
    ),
    "nan": ('<body name="a" pos="nan 0 0"><joint/><geom size="1"/></body>', 3, "must be finite"),
    "overflow": ('<body name="a" pos="1e999 0 0"><joint/></body>', 3, "not a physical size"),
    "massless": ('<body name="a"><joint/></body>', 3, "mass and inertia of moving bodies"),
    "typo": ('<bdy name="a"/>', 3, "unrecognized element"),
    "duplicate": (
        f'<body name="a">{BALL}</body>\n<body name="a">{BALL}</body>',
        4,
        "repeated name",
    ),
    "composite": (
        '<body><composite type="cable" count="1000 1 1"/></body>',
        3,
        "<composite> is not read",
    ),
    "copies": ('<replicate count="1000000000"><geom size="1"/></replicate>', 3, "more than 1000"),
    "copies of copies": (
        f'<replicate count="999"><replicate count="999">{BALL}</replicate></replicate>',
        3,
        "2000 copies",
    ),
}


@pytest.mark.parametrize("case", COMPLAINTS)
def test_complaints_have_file_and_line(tmp_path: Path, case: str):
    inside, line, words = COMPLAINTS[case]
    path = written(tmp_path, inside)
    with pytest.raises(ModelError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert words in str(caught.value)


def test_a_complaint_about_an_included_file_names_it(tmp_path: Path):
    (tmp_path / "part.xml").write_text(
        "<mujoco><worldbody>\n\n\n<body name='a'><joint/></body></worldbody></mujoco>"
    )
    path = tmp_path / "robot.xml"
    path.write_text('<mujoco><include file="part.xml"/></mujoco>')
    with pytest.raises(ModelError, match=r"part\.xml:4: 'a': MuJoCo says"):
        load(path)


def test_random_models_agree(tmp_path: Path):
    """Trees with random joints, anchors, references and frames."""
    rng = np.random.default_rng(3)
    for trial in range(8):
        path = written(tmp_path, _random_bodies(rng), head='<compiler angle="radian"/>')
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = load(path)
        agrees(model, path, trial)


def _random_bodies(rng: np.random.Generator) -> str:
    out = ""
    for root in range(2):
        text, close = "", ""
        for depth in range(3):
            pos, quat = rng.uniform(-0.5, 0.5, 3), rng.normal(size=4)
            text += f'<body name="b{root}{depth}" pos="{_list(pos)}" quat="{_list(quat)}">'
            if depth == 0 and rng.random() < 0.3:
                text += f'<freejoint name="f{root}"/>'
            else:
                text += _random_joints(rng, f"{root}{depth}")
            text += (
                f'<inertial pos="{_list(rng.uniform(-0.2, 0.2, 3))}" mass="{rng.uniform(0.5, 2)}" '
                f'quat="{_list(rng.normal(size=4))}" '
                f'diaginertia="{_list(rng.uniform(0.1, 0.19, 3))}"/>'
            )
            close += "</body>"
        out += text + close
    return out


def _random_joints(rng: np.random.Generator, label: str) -> str:
    anchor = _list(rng.uniform(-0.2, 0.2, 3))
    text = ""
    axes = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    for k in range(int(rng.integers(0, 4))):
        kind = ("hinge", "slide")[int(rng.integers(2))]
        if rng.random() < 0.5:
            anchor = _list(rng.uniform(-0.2, 0.2, 3))
        ref = rng.uniform(-1, 1) if rng.random() < 0.3 else 0
        text += (
            f'<joint name="j{label}{k}" type="{kind}" axis="{_list(axes[k])}" pos="{anchor}" '
            f'ref="{ref}" armature="{rng.uniform(0, 0.1)}"/>'
        )
    if not text and rng.random() < 0.5:
        text = f'<joint name="j{label}" type="ball" pos="{anchor}"/>'
    return text


def _list(values: np.ndarray) -> str:
    return " ".join(map(str, values.tolist()))


def test_findings_about_an_included_file_name_that_file(tmp_path: Path):
    inner = tmp_path / "inner.xml"
    inner.write_text(
        f'<mujocoinclude>\n<body name="a">\n<joint name="i" stiffness="3"/>{BALL}</body>\n'
        "</mujocoinclude>"
    )
    path = written(tmp_path, '<include file="inner.xml"/>')
    with pytest.warns(PhipsiWarning, match="its spring"):
        (finding,) = load(path).diagnosis
    assert (finding.file, finding.line) == (str(inner), 3)


@pytest.mark.parametrize("isolate", [True, False])
def test_nothing_is_written_where_the_user_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, isolate: bool
):
    """MuJoCo keeps a log of its warnings in the current folder unless somebody listens."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    path = written(tmp_path, f"<body><joint/>{BALL}</body>", head='<compiler settotalmass="3"/>')
    model = load(path, isolate=isolate)
    assert [finding.kind for finding in model.diagnosis] == ["mujoco"]
    assert list(here.iterdir()) == []


def test_warnings_of_mujoco_leave_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><body><freejoint/><geom size="1"/></body></worldbody></mujoco>'
    )
    data = mujoco.MjData(model)
    data.qvel[0] = 1e30
    before = mujoco.get_mju_user_warning()
    with captured_warnings(mujoco) as said:
        mujoco.mj_step(model, data)
    assert len(said) == 1 and "QVEL" in said[0]
    assert mujoco.get_mju_user_warning() is before and not list(tmp_path.iterdir())
