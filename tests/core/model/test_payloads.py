"""Inertia of what is fixed to a body: payloads, attached mechanisms, solids."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from random_models import branching, random_pose

import phipsi as pp
from phipsi.core.model import joints
from phipsi.core.model.builder import ModelBuilder
from phipsi.core.model.inertia import SpatialInertia
from phipsi.core.model.model import Model
from phipsi.core.model.pose import Pose
from phipsi.errors import ModelError

BRICK = SpatialInertia(2.0, (0.02, -0.01, 0.1), (0.01, 0.02, 0.025))


def on_world(inertia: SpatialInertia, placement: Pose, finger: bool) -> Model:
    """A body welded to the world, with or without something that moves on it."""
    b = ModelBuilder()
    b.add_body("palm", joint=joints.Fixed(), placement=placement, inertia=inertia)
    if finger:
        b.add_body("finger", parent="palm", joint=joints.Prismatic((0, 1, 0)), inertia=BRICK)
    return b.build()


def by_hand(robot: Model, host: str, X: Pose, inertia: SpatialInertia) -> np.ndarray:
    """The body's inertia with the payload, by congruence of 6 × 6 matrices."""
    R, p = X.rotation, X.translation
    cross = np.array([[0, -p[2], p[1]], [p[2], 0, -p[0]], [-p[1], p[0], 0]])
    shift = np.block([[R, cross @ R], [np.zeros((3, 3)), R]])
    return robot.inertia_matrices[robot.body_index(host)] + shift @ inertia.matrix @ shift.T


@pytest.mark.parametrize("finger", [False, True])
def test_attach_keeps_the_inertia_of_what_was_welded_to_the_world(finger: bool):
    robot = branching(5, 1, frames=True)
    rng = np.random.default_rng(2)
    X_mount, X_palm = random_pose(rng), random_pose(rng)
    gripper = on_world(BRICK, X_palm, finger)
    both = robot.attach(gripper, at="f3", placement=X_mount, prefix="g_")
    host, X = robot.resolve_point("f3")
    name = robot.body_names[host]
    wanted = by_hand(robot, name, X @ X_mount @ X_palm, BRICK)
    assert_allclose(both.inertia_matrices[both.body_index(name)], wanted, rtol=1e-13, atol=1e-13)
    # the second way: the same payload, built into the mechanism body by body
    loaded = robot.with_payload("f3", BRICK.transformed(X_mount @ X_palm))
    assert_allclose(loaded.inertia_matrices[host], wanted, rtol=1e-13, atol=1e-13)
    if not finger:
        q = robot.random_configuration(rng)
        assert_allclose(pp.mass_matrix(both, q), pp.mass_matrix(loaded, q), rtol=1e-12)


def test_locked_and_stored_bases_keep_their_inertia():
    robot = branching(5, 3)
    root = robot.joint_names[0]
    held = robot.with_locked(root, robot.neutral())
    assert held.description.world_inertia.mass == robot.inertias[0].mass
    assert Model.from_dict(held.to_dict()) == held
    pair = robot.attach(held, at=robot.body_names[1], prefix="second_")
    masses = sum(inertia.mass for inertia in robot.inertias)
    assert sum(inertia.mass for inertia in pair.inertias) == pytest.approx(2 * masses, rel=1e-14)
    nested = robot.attach(robot.attach(held, prefix="a_"), at=robot.body_names[0], prefix="b_")
    assert sum(i.mass for i in nested.inertias) == pytest.approx(3 * masses, rel=1e-14)


def test_a_payload_on_the_world_waits_until_the_model_is_attached():
    gripper = on_world(SpatialInertia(), Pose(), True)
    heavy = gripper.with_payload(("palm", (0, 0, 0.1)), BRICK)
    assert heavy.inertias == gripper.inertias and heavy != gripper
    arm = pp.examples.planar_arm(2)
    grown = arm.attach(heavy, at="tip").body("link2").inertia.mass
    assert grown == arm.body("link2").inertia.mass + 2.0


def test_shapes_on_the_world_move_with_the_body_they_are_attached_to(tmp_path: Path):
    file = tmp_path / "tool.urdf"
    file.write_text(
        '<robot name="tool"><link name="world"><inertial><mass value="3"/><inertia ixx="1" '
        'iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial><visual><origin xyz="1 0 0"/>'
        '<geometry><sphere radius="0.1"/></geometry></visual></link></robot>'
    )
    tool = pp.load(file)
    arm = pp.examples.planar_arm(2)
    both = arm.attach(tool, at="link2", placement=Pose(translation=(0, 0, 2)), prefix="t_")
    (shape,) = both.geometry
    assert shape.link == "link2" and shape.placement.translation.tolist() == [1, 0, 2]
    assert both.body("link2").inertia.mass == arm.body("link2").inertia.mass + 3


def test_urdf_keeps_what_is_welded_to_the_world(tmp_path: Path):
    gripper = on_world(BRICK, random_pose(np.random.default_rng(1)), True)
    for model in (gripper, gripper.with_payload("palm", BRICK)):
        file = tmp_path / "gripper.urdf"
        pp.save_urdf(model, file)
        read = pp.load(file)
        stored = read.description.world_inertia
        assert_allclose(stored.matrix, model.description.world_inertia.matrix, atol=1e-13)
        pp.save_urdf(read, tmp_path / "again.urdf")
        assert pp.load(tmp_path / "again.urdf").description.world_inertia == stored
        heavier = read.with_payload("palm", BRICK)
        pp.save_urdf(heavier, tmp_path / "heavier.urdf")
        welded = pp.load(tmp_path / "heavier.urdf").description.world_inertia
        assert_allclose(welded.matrix, heavier.description.world_inertia.matrix, atol=1e-13)


def test_payloads_are_checked():
    arm = pp.examples.planar_arm(2)
    with pytest.raises(ModelError, match="payload at 'tip'.*triangle"):
        arm.with_payload("tip", SpatialInertia(1.0, (0, 0, 0), (1, 1, 3)))
    with pytest.raises(ModelError, match="payload at 'tip'.*SpatialInertia"):
        arm.with_payload("tip", 2.0)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="negative"):
        arm.with_payload("tip", SpatialInertia(-1.0))
    with pytest.raises(ModelError, match="'tipp'.*Did you mean 'tip'"):
        arm.with_payload("tipp", BRICK)


# ---- solids -------------------------------------------------------------------------------------

SOLIDS = {
    "box": (SpatialInertia.box((0.4, 0.6, 1.0), density=3.0), 0.5, lambda x, y, z: (
        (abs(x) <= 0.2) & (abs(y) <= 0.3) & (abs(z) <= 0.5))),
    "sphere": (SpatialInertia.sphere(0.9, density=3.0), 1.0, lambda x, y, z: (
        x * x + y * y + z * z <= 0.81)),
    "ellipsoid": (SpatialInertia.ellipsoid((0.3, 0.6, 0.9), density=3.0), 1.0, lambda x, y, z: (
        x * x / 0.09 + y * y / 0.36 + z * z / 0.81 <= 1)),
    "cylinder": (SpatialInertia.cylinder(0.5, 1.4, density=3.0), 1.0, lambda x, y, z: (
        (x * x + y * y <= 0.25) & (abs(z) <= 0.7))),
    "tube": (SpatialInertia.tube(0.8, 0.5, 1.4, density=3.0), 1.0, lambda x, y, z: (
        (x * x + y * y <= 0.64) & (x * x + y * y >= 0.25) & (abs(z) <= 0.7))),
    "capsule": (SpatialInertia.capsule(0.4, 0.9, density=3.0), 1.0, lambda x, y, z: (
        x * x + y * y + np.clip(abs(z) - 0.45, 0, None) ** 2 <= 0.16)),
    "cone": (SpatialInertia.cone(0.7, 0.95, density=3.0), 1.0, lambda x, y, z: (
        (z >= 0) & (z <= 0.95) & (np.hypot(x, y) <= 0.7 * (1 - z / 0.95)))),
}  # fmt: skip


@pytest.mark.parametrize("shape", SOLIDS)
def test_solids_are_the_integrals_over_their_volume(shape: str):
    inertia, reach, inside = SOLIDS[shape]
    n = 200
    grid = (np.arange(n) + 0.5) / n * 2 * reach - reach
    x, y, z = np.meshgrid(grid, grid, grid, indexing="ij", sparse=True)
    filled = inside(x, y, z)
    cell = 3.0 * (2 * reach / n) ** 3
    mass = cell * filled.sum()
    first = [cell * (filled * w).sum() for w in (x, y, z)]
    second = np.array([cell * (filled * w * w).sum() for w in (x, y, z)])
    assert_allclose(inertia.mass, mass, rtol=2e-3)
    assert_allclose(inertia.mass * inertia.com_B, first, atol=2e-3 * inertia.mass)
    moments = np.diag(inertia.moment_about_origin_B)
    assert_allclose(moments, second.sum() - second, rtol=4e-3)


def ball_of_triangles(levels: int) -> tuple[np.ndarray, np.ndarray]:
    """A unit sphere: an octahedron whose triangles are cut into four, `levels` times."""
    points = np.concatenate([np.eye(3), -np.eye(3)])
    around = [(0, 1), (1, 3), (3, 4), (4, 0)]
    faces = np.array([(i, j, 2) for i, j in around] + [(j, i, 5) for i, j in around])
    for _ in range(levels):
        edges = np.sort(np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]))
        unique, where = np.unique(edges, axis=0, return_inverse=True)
        middle = points[unique].sum(axis=1)
        ab, bc, ca = where.reshape(3, -1) + len(points)
        points = np.concatenate([points, middle / np.linalg.norm(middle, axis=1)[:, None]])
        a, b, c = faces.T
        faces = np.stack([a, ab, ca, b, bc, ab, c, ca, bc, ab, bc, ca]).reshape(4, 3, -1)
        faces = faces.transpose(0, 2, 1).reshape(-1, 3)
    return points, faces


def test_meshes_are_the_solids_they_enclose():
    corners = np.array([(x, y, z) for x in (0, 1) for y in (0, 1) for z in (0, 1)], dtype=float)
    faces = np.array([(0, 1, 3), (0, 3, 2), (4, 6, 7), (4, 7, 5), (0, 4, 5), (0, 5, 1), (2, 3, 7),
                      (2, 7, 6), (0, 2, 6), (0, 6, 4), (1, 5, 7), (1, 7, 3)])  # fmt: skip
    X = random_pose(np.random.default_rng(0))
    size = np.array([0.3, 0.5, 0.7])
    box = SpatialInertia.box(size, density=900.0).transformed(Pose(translation=size / 2))
    mesh = SpatialInertia.mesh(X.apply(corners * size), faces, density=900.0)
    assert_allclose(mesh.matrix, box.transformed(X).matrix, rtol=1e-12, atol=1e-11)
    far = SpatialInertia.mesh(corners * size + 1e4, faces, density=900.0)
    assert_allclose(far.moment_about_com_B, box.moment_about_com_B, rtol=1e-7, atol=1e-7)
    points, triangles = ball_of_triangles(6)
    ball = SpatialInertia.mesh(2 * points, triangles, mass=5.0)
    assert_allclose(ball.moment_about_com_B, 8 * np.eye(3), rtol=1e-3, atol=1e-12)
    with pytest.raises(ModelError, match="clockwise.*\n.*faces\\[:, ::-1\\]"):
        SpatialInertia.mesh(corners, faces[:, ::-1], mass=1.0)
    with pytest.raises(ModelError, match="not closed.*edge between"):
        SpatialInertia.mesh(corners, faces[1:], mass=1.0)
    with pytest.raises(ModelError, match="not closed"):
        SpatialInertia.mesh(corners, np.concatenate([faces, faces]), mass=1.0)
    with pytest.raises(ModelError, match="vertices 0 to 6"):
        SpatialInertia.mesh(corners[:7], faces, mass=1.0)
    with pytest.raises(ModelError, match="faces must be vertex numbers"):
        SpatialInertia.mesh(corners, faces * 1.0, mass=1.0)


def test_solids_are_checked():
    with pytest.raises(ModelError, match="box: give either mass= in kg or density="):
        SpatialInertia.box((1, 1, 1))
    with pytest.raises(ModelError, match="sphere: give either"):
        SpatialInertia.sphere(1, mass=1, density=1)
    with pytest.raises(ModelError, match="cylinder: radius must be positive, not -1"):
        SpatialInertia.cylinder(-1, 1, mass=1)
    with pytest.raises(ModelError, match="box: size must be three lengths"):
        SpatialInertia.box((1, 1), mass=1)
    with pytest.raises(ModelError, match="tube: the inner radius 2 m is larger"):
        SpatialInertia.tube(1, 2, 1, mass=1)
    with pytest.raises(ModelError, match="tube: it encloses no volume"):
        SpatialInertia.tube(1, 1, 1, density=1)
    with pytest.raises(ModelError, match="cone: mass must be positive, not nan"):
        SpatialInertia.cone(1, 2, mass=float("nan"))
