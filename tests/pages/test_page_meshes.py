"""Meshes on pages: what is drawn is the file's surface, small enough, and nothing can break it."""

import base64
import json
import os
import warnings
from importlib.metadata import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phipsi as pp
from phipsi.attached.file_metadata import LinkShape
from phipsi.contact.contact_shapes import hull_of
from phipsi.core.spatial import quat_to_matrix
from phipsi.pages import meshes
from phipsi.pages.html_file import page_html
from phipsi.pages.scene import scene_description

trimesh: Any = pytest.importorskip("trimesh", reason="the extra 'view' is not installed")
pytest.importorskip("collada", reason="the extra 'view' is not installed")
pytest.importorskip("fast_simplification", reason="the extra 'view' is not installed")

URDF = """<robot name="meshed">
  <link name="base"/>
  <link name="arm">
    <inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
    <visual><origin xyz="0.1 0 0"/><geometry><mesh filename="{file}" scale="{scale}"/></geometry>
      {material}</visual>
    <collision><geometry><box size="9 9 9"/></geometry></collision>
  </link>
  <joint name="swing" type="revolute"><parent link="base"/><child link="arm"/>
    <axis xyz="0 0 1"/><limit lower="-1" upper="1" effort="1" velocity="1"/></joint>
</robot>"""
RED = '<material name="red"><color rgba="1 0 0 0.5"/></material>'


def robot(folder: Path, file: str, scale: str = "1 1 1", material: str = "") -> pp.Model:
    path = folder / "robot.urdf"
    path.write_text(URDF.format(file=file, scale=scale, material=material))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pp.load(path)


def unpacked(mesh: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Corners, normals, triangles: the inverse of the packing, as scene.js has it."""
    raw = {k: base64.b64decode(mesh[k]) for k in ("corners", "normals", "triangles")}
    places = np.frombuffer(raw["corners"], "<i2").reshape(-1, 3).astype(float)
    u, v = np.frombuffer(raw["normals"], np.int8).reshape(-1, 2).T / 127
    z = 1 - abs(u) - abs(v)
    x = np.where(z < 0, (1 - abs(v)) * np.where(u < 0, -1, 1), u)
    y = np.where(z < 0, (1 - abs(u)) * np.where(v < 0, -1, 1), v)
    normals = np.stack([x, y, z], axis=1)
    index = "<u2" if len(places) <= 65536 else "<u4"
    triangles = np.frombuffer(raw["triangles"], index).reshape(-1, 3).astype(int)
    corners = np.array(mesh["middle"]) + np.array(mesh["step"]) * places
    return corners, normals / np.linalg.norm(normals, axis=1, keepdims=True), triangles


@pytest.mark.parametrize("kind", ["stl", "obj", "dae"])
def test_a_box_of_a_file_is_drawn_with_sharp_edges(kind: str, tmp_path: Path):
    box = trimesh.creation.box(extents=(0.2, 0.4, 0.6))
    box.export(tmp_path / f"box.{kind}")
    scene = scene_description(robot(tmp_path, f"box.{kind}"))
    (part,), (mesh,) = scene["parts"], scene["meshes"]
    corners, normals, triangles = unpacked(mesh)
    assert (part["body"], part["position"]) == (0, [0.1, 0, 0]) and scene["notices"] == []
    assert len(corners) == 24 and len(triangles) == 12  # eight corners, each with three normals
    np.testing.assert_allclose(abs(corners), np.tile([0.1, 0.2, 0.3], (24, 1)), atol=1e-5)
    assert np.isclose(abs(normals), 1).sum() == 24 and np.isclose(normals, 0).sum() == 48
    outward = np.einsum("ij,ij->i", corners, normals)
    assert (outward > 0).all()
    at = corners[triangles]
    faces = np.cross(at[:, 1] - at[:, 0], at[:, 2] - at[:, 0])
    assert (np.einsum("ij,ij->i", faces, normals[triangles[:, 0]]) > 0).all()
    assert not [s for s in scene["solids"] if s["body"] == 0]  # neither skeleton nor collision box


def test_a_mirrored_mesh_stays_outside_out_and_scale_is_applied(tmp_path: Path):
    ball = trimesh.creation.icosphere(subdivisions=3, radius=1.0)
    ball.export(tmp_path / "ball.stl")
    (mesh,) = scene_description(robot(tmp_path, "ball.stl", scale="-0.5 0.5 0.5"))["meshes"]
    corners, normals, triangles = unpacked(mesh)
    np.testing.assert_allclose(np.linalg.norm(corners, axis=1), 0.5, atol=1e-4)
    assert (np.einsum("ij,ij->i", corners, normals) > 0.495).all()  # smooth, and outwards
    assert len(corners) == len(ball.vertices)  # no corner is split
    at = corners[triangles]
    faces = np.cross(at[:, 1] - at[:, 0], at[:, 2] - at[:, 0])
    assert (np.einsum("ij,ij->i", faces, at[:, 0]) > 0).all()


def test_colors_are_those_of_the_file(tmp_path: Path):
    box = trimesh.creation.box(extents=(0.2, 0.2, 0.2))
    box.export(tmp_path / "box.stl")
    (part,) = scene_description(robot(tmp_path, "box.stl", material=RED))["parts"]
    assert part["color"][0] == 1 and max(part["color"][1:]) < 0.02 and part["opacity"] == 0.5
    given = scene_description(robot(tmp_path, "box.stl"), colors={"arm": (0, 0, 1)})
    assert given["parts"][0]["color"][2] == 1
    (tmp_path / "green.mtl").write_text("newmtl leaf\nKd 0 1 0\n")
    lines = "mtllib {}\nv 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nusemtl leaf\nf 1 2 3\nf 1 2 4\n"
    (tmp_path / "tri.obj").write_text(lines.format("green.mtl"))
    (part,) = scene_description(robot(tmp_path, "tri.obj"))["parts"]
    assert part["color"][1] == 1 and part["color"][0] < 0.02
    (part,) = scene_description(robot(tmp_path, "tri.obj", material=RED))["parts"]
    assert part["color"][0] == 1  # the robot file speaks last
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "tri.obj").write_text(lines.format("../green.mtl"))
    (part,) = scene_description(robot(inner, "tri.obj"))["parts"]
    assert part["color"][0] > 0.1  # a material outside the folder is not read
    with pytest.raises(pp.errors.InputError, match="not a body of this mechanism"):
        scene_description(robot(tmp_path, "box.stl"), colors={"leg": (0, 0, 1)})


MJCF = """<mujoco><compiler meshdir="." angle="radian"/>
  <asset><mesh name="box" file="box.stl" scale="2 1 1"/></asset>
  <worldbody><body name="arm" pos="0 0 1"><joint type="hinge" axis="0 0 1"/>
    <geom type="mesh" mesh="box" pos="0.1 0 0" rgba="0 1 0 1" mass="1"/></body></worldbody>
</mujoco>"""
SDF = """<sdf version="1.9"><model name="m"><link name="base"/>
  <link name="arm"><pose>0 0 1 0 0 0</pose>
    <inertial><mass>1</mass><inertia><ixx>1</ixx><iyy>1</iyy><izz>1</izz></inertia></inertial>
    <visual name="v"><pose>0.1 0 0 0 0 0</pose><geometry><mesh><uri>box.stl</uri>
      <scale>2 1 1</scale></mesh></geometry>
      <material><diffuse>0 1 0 1</diffuse></material></visual></link>
  <joint name="fix" type="fixed"><parent>world</parent><child>base</child></joint>
  <joint name="swing" type="revolute"><parent>base</parent><child>arm</child>
    <axis><xyz>0 0 1</xyz></axis></joint></model></sdf>"""


@pytest.mark.parametrize(("name", "text"), [("arm.xml", MJCF), ("arm.sdf", SDF)])
def test_meshes_of_other_formats_are_where_the_file_has_them(name: str, text: str, tmp_path: Path):
    if text is MJCF:
        pytest.importorskip("mujoco", reason="the extra 'mjcf' is not installed")
    box = trimesh.creation.box(extents=(0.2, 0.4, 0.6))
    box.apply_translation([0.3, 0.5, 0.7])  # not centred: MuJoCo moves it, and that is undone
    box.export(tmp_path / "box.stl")
    (tmp_path / name).write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = pp.load(tmp_path / name)
    scene = scene_description(model)
    (part,), (mesh,) = scene["parts"], scene["meshes"]
    assert model.body_names[part["body"]] == "arm"
    X = pp.Pose(quat_to_matrix(np.array(part["rotation"])), part["position"])
    corners = unpacked(mesh)[0] @ X.rotation.T + X.translation
    whole = np.asarray(box.vertices) * (2, 1, 1) + (0.1, 0, 0)
    np.testing.assert_allclose(corners.min(axis=0), whole.min(axis=0), atol=1e-4)
    np.testing.assert_allclose(corners.max(axis=0), whole.max(axis=0), atol=1e-4)
    assert part["color"][1] == 1 and part["color"][0] < 0.02


def test_large_meshes_are_simplified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(meshes, "MOST_TRIANGLES", 3000)
    ball = trimesh.creation.icosphere(subdivisions=5, radius=0.3)  # 20,480 triangles
    ball.export(tmp_path / "ball.stl")
    (mesh,) = scene_description(robot(tmp_path, "ball.stl"))["meshes"]
    corners, normals, triangles = unpacked(mesh)
    assert 2500 < len(triangles) <= 3000
    np.testing.assert_allclose(np.linalg.norm(corners, axis=1), 0.3, rtol=0.01)
    assert (np.einsum("ij,ij->i", corners, normals) > 0.98 * 0.3).all()


DAMAGED = {
    "empty.stl": b"",
    "lying.stl": b"x" * 80 + (10**9).to_bytes(4, "little") + b"\0" * 100,
    "nan.stl": b"x" * 80 + (1).to_bytes(4, "little") + np.full(12, np.nan, "<f4").tobytes() + b"00",
    "bad.obj": b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 9999\n",
    "text.dae": b"hello",
    "bomb.dae": b'<!DOCTYPE x [<!ENTITY a "aaaa">]><COLLADA>&a;</COLLADA>',
    "many.obj": b"v 0 0 0\nv 1 0 0\nv 0 1 0\n" + b"usemtl a\nf 1 2 3\nusemtl b\nf 1 2 3\n" * 5000,
    "kind.xyzzy": b"what",
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_meshes_are_named_and_never_raise(name: str, tmp_path: Path):
    (tmp_path / name).write_bytes(DAMAGED[name])
    scene = scene_description(robot(tmp_path, name))
    assert scene["parts"] == []
    (notice,) = scene["notices"]
    assert name in notice and "1 mesh file not drawn" in notice
    assert any(s["body"] == 0 for s in scene["solids"])  # the body can be seen all the same


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32", "utf-16-le"])
def test_a_document_type_is_found_in_every_encoding(encoding: str, tmp_path: Path):
    """Entities of a document type grow without end, or name files; UTF-16 hid the type."""
    text = trimesh.creation.box().export(file_type="dae").decode()
    body = text.split("?>")[-1]
    kind = '<!DOCTYPE COLLADA [<!ENTITY a "box">]>'
    declared = f'<?xml version="1.0" encoding="{encoding.removesuffix("-le")}"?>'
    (tmp_path / "box.dae").write_bytes((declared + kind + body).encode(encoding))
    (notice,) = scene_description(robot(tmp_path, "box.dae"))["notices"]
    assert "document type" in notice or "only COLLADA files in UTF-8" in notice
    (tmp_path / "plain.dae").write_text(declared.replace(encoding, "utf-8") + body)
    if encoding == "utf-8":
        assert scene_description(robot(tmp_path, "plain.dae"))["parts"]


def test_a_missing_file_or_library_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    missing = scene_description(robot(tmp_path, "gone.stl"))
    assert "gone.stl (not found)" in missing["notices"][0]
    assert any(s["body"] == 0 for s in missing["solids"])
    trimesh.creation.box().export(tmp_path / "box.stl")
    model = robot(tmp_path, "box.stl")
    assert scene_description(model, meshes=False)["parts"] == []
    monkeypatch.setattr(meshes, "_is_there", lambda name: name != "trimesh")
    (notice,) = scene_description(model)["notices"]
    assert "pip install 'phipsi[view]'" in notice and "trimesh" in notice
    still = np.zeros((2, 1))
    run = pp.Trajectory(model, np.array([0.0, 1.0]), still, still, still)
    text = pp.report(run, tmp_path / "x.html").read_text(encoding="utf-8")
    assert "phipsi[view]" in text


def test_the_page_of_a_humanoid_is_small():
    listed = files("example-robot-data") or []
    found = [f for f in listed if f.name == "talos_full_v2.urdf"]
    if not found:
        pytest.skip("example-robot-data is not installed")
    path = Path(str(found[0].locate()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        talos = pp.load(path, package_dirs=[path.parents[2]])
    scene = scene_description(talos)
    drawn = {part["body"] for part in scene["parts"]}
    assert len(drawn) > 35 and scene["notices"] == []
    count = sum(len(base64.b64decode(m["triangles"])) // 6 for m in scene["meshes"])
    assert count < 1.2 * meshes.MOST_TRIANGLES
    size = len(page_html("talos", {"data": {"scene": scene}}).encode())
    assert 1e6 < size < 4e6, size
    json.dumps(scene, allow_nan=False)


def test_a_part_that_is_there_very_often_is_not_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    scene = trimesh.Scene()
    ball = trimesh.creation.icosphere(subdivisions=2)
    for i in range(40):
        scene.add_geometry(ball, geom_name="ball", transform=np.diag([1, 1, 1 + i, 1.0]))
    scene.export(tmp_path / "balls.glb")
    assert len(scene_description(robot(tmp_path, "balls.glb"))["parts"]) == 40
    monkeypatch.setattr(meshes, "_MOST_READ", 39 * len(ball.faces))
    meshes._surfaces.cache_clear()
    (notice,) = scene_description(robot(tmp_path, "balls.glb"))["notices"]
    assert "triangles" in notice
    monkeypatch.setattr(meshes, "_MOST_PARTS", 39)
    meshes._surfaces.cache_clear()
    (notice,) = scene_description(robot(tmp_path, "balls.glb"))["notices"]
    assert "40 parts, more than 39" in notice
    meshes._surfaces.cache_clear()


@pytest.mark.parametrize("kind", ["obj", "glb"])
def test_large_textures_are_not_unpacked(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Only the mean colour of a texture is drawn; a small file may have very many pixels."""
    pictures: Any = pytest.importorskip("PIL.Image")
    picture = pictures.new("RGB", (60, 50), (255, 0, 0))
    box = trimesh.creation.box()
    uv = np.zeros((len(box.vertices), 2))
    box.visual = trimesh.visual.TextureVisuals(uv=uv, image=picture)
    box.export(tmp_path / f"box.{kind}")
    meshes._surfaces.cache_clear()
    (part,) = scene_description(robot(tmp_path, f"box.{kind}"))["parts"]
    assert part["color"][0] > 0.9 and part["color"][1] < 0.1
    monkeypatch.setattr(meshes, "_MOST_PIXELS", 2999)
    meshes._surfaces.cache_clear()
    converted: list[Any] = []
    monkeypatch.setattr(pictures.Image, "convert", lambda *a, **k: converted.append(a))
    scene = scene_description(robot(tmp_path, f"box.{kind}"))
    assert not converted
    assert scene["notices"] or scene["parts"][0]["color"][1] > 0.1  # named, or without its colour
    meshes._surfaces.cache_clear()


# ---- meshes that a trajectory names --------------------------------------------------------------


def saved_run(folder: Path, mesh: Any) -> Path:
    """A trajectory file whose model names a mesh, whatever that is."""
    folder.mkdir(exist_ok=True)
    trimesh.creation.box().export(folder / "box.stl")
    model = robot(folder, "box.stl")
    still = np.zeros((2, 1))
    pp.Trajectory(model, np.array([0.0, 1.0]), still, still, still).save(folder / "run.npz")
    with np.load(folder / "run.npz") as found:
        arrays = dict(found)
    header = json.loads(arrays["header"].tobytes())
    header["model"]["geometry"][0]["file"] = mesh
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    np.savez(folder / "run.npz", **arrays)
    return folder / "run.npz"


@pytest.mark.parametrize("mesh", ["/dev/stdin", "/dev/zero", "/proc/self/fd/0", 0, "../a.stl"])
def test_a_trajectory_cannot_name_devices_as_meshes(mesh: Any, tmp_path: Path):
    file = saved_run(tmp_path / "run", mesh)
    with pytest.warns(UserWarning, match="run.npz names 1 mesh file outside of its folder"):
        run = pp.Trajectory.load(file)
    assert [x.file for x in run.model.geometry if x.kind == "mesh"] == [None]
    assert "not drawn" in scene_description(run.model)["notices"][0]


def test_meshes_elsewhere_are_opened_only_if_their_folder_is_named(tmp_path: Path):
    private = tmp_path / "private"
    private.mkdir()
    trimesh.creation.box().export(private / "secret.stl")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "link.stl").symlink_to(private / "secret.stl")
    for mesh in (private / "secret.stl", tmp_path / "run" / "link.stl"):
        file = saved_run(tmp_path / "run", str(mesh))
        with pytest.warns(UserWarning, match=r"package_dirs=\['.*'\]\)"):
            run = pp.Trajectory.load(file)
        assert not scene_description(run.model)["parts"]
        run = pp.Trajectory.load(file, package_dirs=[private])
        assert len(scene_description(run.model)["parts"]) == 1
    beside = saved_run(tmp_path / "run", str(tmp_path / "run" / "box.stl"))
    assert len(scene_description(pp.Trajectory.load(beside).model)["parts"]) == 1


def test_pipes_in_place_of_meshes_and_textures_hold_nobody(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.stl")
    shape = LinkShape("arm", "visual", "mesh", (), file=str(tmp_path / "pipe.stl"))
    (notice,) = meshes.read_meshes([(0, shape, pp.Pose())]).notices
    assert "not a regular file" in notice
    with pytest.raises(pp.errors.ParseError, match="not a regular file"):
        hull_of(str(tmp_path / "pipe.stl"), ())
    os.mkfifo(tmp_path / "t.png")
    with pytest.raises(pp.errors.ParseError, match="not a regular file"):
        meshes._Beside(str(tmp_path / "pipe.stl")).get("t.png")
