"""Collision meshes of robot files: STL and OBJ, hulls, and what is wrong with them."""

import struct

import mujoco
import numpy as np
import pytest
from scipy.spatial import ConvexHull

import phipsi as pp
from phipsi.attached.shapes import CORNERS
from phipsi.contact.contact_shapes import hull_of, read_mesh
from phipsi.errors import InputError, ModelError, ParseError, PhipsiWarning

CUBE = 0.1 * np.array([[i, j, k] for i in (-1, 1) for j in (-1, 1) for k in (-1, 1)], dtype=float)
SIDES = np.array(
    [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]
)
TRIANGLES = np.concatenate([SIDES[:, [0, 1, 2]], SIDES[:, [0, 2, 3]]])
ONES = (1.0, 1.0, 1.0)


def binary_stl(points, faces):
    out = b"x" * 80 + struct.pack("<I", len(faces))
    for face in faces:
        out += struct.pack("<12fH", 0, 0, 0, *points[face].ravel(), 0)
    return out


def text_stl(points, faces):
    lines = ["solid part"]
    for face in faces:
        corners = "\n".join("vertex " + " ".join(map(repr, map(float, x))) for x in points[face])
        lines.append(f"facet normal 0 0 0\nouter loop\n{corners}\nendloop\nendfacet")
    return "\n".join([*lines, "endsolid part"]).encode()


def obj(points, faces):
    lines = [f"v {x} {y} {z}" for x, y, z in points.tolist()]
    lines += ["f " + " ".join(f"{i + 1}/1/2" for i in face) for face in faces]
    return "\n".join(lines).encode()


@pytest.mark.parametrize(
    ("name", "data", "tolerance"),
    [
        ("a.stl", binary_stl(CUBE, TRIANGLES), 1e-8),
        ("a.STL", text_stl(CUBE, TRIANGLES), 0),
        ("a.obj", obj(CUBE, SIDES), 0),
        ("b.obj", obj(CUBE, SIDES - 9), 0),  # numbers from the end: −8 … −1
    ],
)
def test_files(tmp_path, name, data, tolerance):
    if name == "b.obj":
        data = obj(CUBE, SIDES - 9)
    path = str(tmp_path / name)
    (tmp_path / name).write_bytes(data)
    found = read_mesh(path)
    assert len(found.vertices) == 8 and len(found.faces) == 12
    np.testing.assert_allclose(np.unique(found.vertices, axis=0), CUBE, atol=tolerance)
    hull = hull_of(path, (1.0, 2.0, 3.0))
    assert hull.filled == pytest.approx(0, abs=1e-6) and hull.off == 0
    assert sorted(hull.shape.vertices)[-1] == pytest.approx((0.1, 0.2, 0.3), abs=1e-7)


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        (
            "a.stl",
            binary_stl(CUBE, TRIANGLES)[:-7],
            "is damaged: it is not STL text, and as binary",
        ),
        ("a.stl", b"solid\nvertex 1 2 3\nvertex 1 2 3\n", "2 vertices are not a multiple of three"),
        ("a.stl", b"solid\n", "has no triangles"),
        ("a.stl", b"solid\nvertex 1 2\n" * 3, "is damaged"),
        ("a.stl", b"", "is damaged"),
        ("a.obj", b"v 0 0 0\nf 1 2 3\n", "names a vertex that is not among its 1"),
        ("a.obj", b"v 0 0 nan\nv 1 0 0\nv 0 1 0\nf 1 2 3\n", "not finite"),
        ("a.obj", b"v a b c\n", "is damaged"),
        ("a.dae", b"", "only .stl and .obj"),
    ],
)
def test_damaged_files(tmp_path, name, data, words):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ParseError, match=words):
        read_mesh(str(tmp_path / name))


URDF = """<robot name="r"><link name="base"/><link name="part">
<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
<collision><origin xyz="0 0 0.5"/><geometry><mesh filename="part.stl" scale="2 2 2"/></geometry>
</collision></link><joint name="j" type="prismatic"><parent link="base"/><child link="part"/>
<axis xyz="0 0 1"/><limit lower="-1" upper="1" effort="1" velocity="1"/></joint></robot>"""


def robot(tmp_path, data):
    (tmp_path / "part.stl").write_bytes(data)
    (tmp_path / "r.urdf").write_text(URDF)
    return pp.load(tmp_path / "r.urdf")


def test_hulls_of_a_urdf(tmp_path):
    model = robot(tmp_path, binary_stl(CUBE, TRIANGLES))
    with pytest.warns(PhipsiWarning, match=r'not read.* meshes="hull"'):
        assert not pp.Contacts(model, ground=True).pairs
    contacts = pp.Contacts(model, ground=True, meshes="hull")
    assert contacts.slot_names == ("part_mesh|ground",) * 4
    gaps = pp.contact_points(contacts, [[0.0], [-0.4]]).gap
    np.testing.assert_allclose(gaps, [[0.3] * 4, [-0.1] * 4], atol=1e-7)
    with pytest.raises(InputError, match="meshes='all' is not one of"):
        pp.Contacts(model, meshes="all")  # pyright: ignore[reportArgumentType]


def test_concave_flat_and_missing_meshes_are_named(tmp_path):
    corner = np.concatenate([CUBE, [[0, 0, 0]]])  # a side that is pushed in to the middle
    pushed = [[0, 1, 8], [1, 3, 8], [3, 2, 8], [2, 0, 8]]
    faces = np.array([*TRIANGLES[[1, 2, 3, 4, 5, 7, 8, 9, 10, 11]].tolist(), *pushed])
    model = robot(tmp_path, binary_stl(corner, faces))
    with pytest.warns(PhipsiWarning, match=r"'part_mesh' of 'part' is concave: 17% .*coacd"):
        pp.Contacts(model, ground=True, meshes="hull")
    model = robot(tmp_path, binary_stl(CUBE * [1, 1, 0], TRIANGLES))
    with pytest.raises(InputError, match=r"mesh 'part_mesh' of 'part'.*is flat.*thin box"):
        pp.Contacts(model, ground=True, meshes="hull")
    (tmp_path / "part.stl").unlink()
    with pytest.raises(InputError, match=r"mesh 'part_mesh' of 'part'"):
        pp.Contacts(model, ground=True, meshes="hull")
    model = pp.load(tmp_path / "r.urdf")
    with pytest.raises(InputError, match=r"'part.stl' was not found.*package_dirs"):
        pp.Contacts(model, ground=True, meshes="hull")


def test_large_meshes_get_few_corners(tmp_path):
    points = np.random.default_rng(0).normal(size=(2000, 3))
    points /= 10 * np.linalg.norm(points, axis=1, keepdims=True)
    faces = ConvexHull(points).simplices
    (tmp_path / "ball.obj").write_bytes(obj(points, faces))
    hull = hull_of(str(tmp_path / "ball.obj"), ONES)
    vertices = np.array(hull.shape.vertices)
    assert len(vertices) == CORNERS
    inner = ConvexHull(vertices).equations
    far = (points @ inner[:, :3].T + inner[:, 3]).max()
    assert hull.off == pytest.approx(far, abs=1e-12) and 0 < far < 0.01


def test_meshes_that_are_open_or_too_large():
    with pytest.raises(ModelError, match=r"not closed: the edge between the vertices \[0, 1\]"):
        pp.shapes.ConvexMesh(CUBE, TRIANGLES[1:])
    with pytest.raises(ModelError, match="not closed: it has no faces"):
        pp.shapes.ConvexMesh(CUBE, np.zeros((0, 3), dtype=int))
    points = np.random.default_rng(0).normal(size=(600, 3))
    builder = pp.ModelBuilder()
    builder.add_body("rock", joint=pp.joints.Free(), inertia=pp.SpatialInertia(mass=1.0))
    builder.add_shape("rock", "rock", pp.shapes.ConvexMesh(points))
    with pytest.raises(
        InputError, match=r"(?s)'rock' .* 600 vertices, .*ConvexMesh.around\(vertices\)"
    ):
        pp.Contacts(builder.build(), ground=True)
    small = pp.shapes.ConvexMesh.around(points, 30)
    assert len(small.vertices) == 30
    with pytest.raises(ModelError, match="corners=3 must be"):
        pp.shapes.ConvexMesh.around(points, 3)


def test_mujoco_has_the_same_gaps_of_meshes(tmp_path):
    """A file with meshes, loaded by both: MuJoCo uses hulls as well."""
    rng = np.random.default_rng(3)
    for name in ("a", "b"):
        points = 0.15 * rng.normal(size=(20, 3))
        hull = ConvexHull(points)
        centre = points.mean(axis=0)
        faces = [
            f if np.dot(np.cross(points[f[1]] - points[f[0]], points[f[2]] - points[f[0]]),
                        points[f[0]] - centre) > 0 else f[::-1]
            for f in hull.simplices
        ]  # fmt: skip
        (tmp_path / f"{name}.stl").write_bytes(binary_stl(points, faces))
    text = """<mujoco><asset><mesh name="a" file="a.stl"/>
    <mesh name="b" file="b.stl" scale="1 1.5 1"/></asset><worldbody>
    <body name="a"><freejoint/><geom name="ga" type="mesh" mesh="a"/></body>
    <body name="b"><freejoint/><geom name="gb" type="mesh" mesh="b" pos="0.1 0 0"/></body>
    <body name="c"><freejoint/><geom name="gc" type="cylinder" size="0.1 0.2"/></body>
    </worldbody></mujoco>"""
    (tmp_path / "r.xml").write_text(text)
    model = pp.load(tmp_path / "r.xml")
    contacts = pp.Contacts(model, meshes="hull", combine="maximum")
    assert {p.name for p in contacts.pairs} == {"ga|gb", "gc|ga", "gc|gb"}
    peer = mujoco.MjModel.from_xml_path(str(tmp_path / "r.xml"))
    data = mujoco.MjData(peer)
    q = model.random_configuration(1, 20)
    X = pp.poses(model, q)
    gaps = pp.contact_points(contacts, q).gap
    compared = 0
    for i in range(20):
        for j, name in enumerate("abc"):
            k = model.body_index(name)
            data.qpos[7 * j : 7 * j + 3] = X[i, k, :3, 3]
            mujoco.mju_mat2Quat(data.qpos[7 * j + 3 : 7 * j + 7], X[i, k, :3, :3].ravel())
        mujoco.mj_kinematics(peer, data)
        for pair in contacts.pairs:
            ids = [peer.geom(x).id for x in pair.name.split("|")]
            theirs = mujoco.mj_geomDistance(peer, data, *ids, 10.0, np.zeros(6))
            ours = gaps[i, pair.first : pair.first + pair.slots].min()
            if ours > 0:
                assert ours == pytest.approx(theirs, abs=1e-5)
                compared += 1
    assert compared > 30
