"""States in the conventions of Pinocchio, MuJoCo and Drake, and back."""

from pathlib import Path

import mujoco
import numpy as np
import pinocchio as pin
import pytest
from amounts import seeds
from peers import InPinocchio, pinocchio_tree

from phipsi import forward_dynamics, inverse_dynamics, load, poses
from phipsi.core.model import joints
from phipsi.core.model.builder import ModelBuilder
from phipsi.core.model.inertia import SpatialInertia
from phipsi.core.model.model import Model
from phipsi.core.model.pose import Pose
from phipsi.core.spatial import quat_conjugate, quat_multiply, quat_to_matrix
from phipsi.errors import InputError
from phipsi.examples import random_tree
from phipsi.files.conventions import (
    from_drake,
    from_mujoco,
    from_pinocchio,
    pinocchio_order,
    to_drake,
    to_mujoco,
    to_pinocchio,
)

BOX = SpatialInertia(2.0, (0.1, 0.2, -0.1), (0.3, 0.4, 0.5))
TOOLS = {
    "pinocchio": (to_pinocchio, from_pinocchio),
    "mujoco": (to_mujoco, from_mujoco),
    "drake": (to_drake, from_drake),
}


def several(*kinds: joints.Joint) -> Model:
    """Bodies on the world, one per joint, each on a placement of its own."""
    rng = np.random.default_rng(5)
    b = ModelBuilder()
    for i, joint in enumerate(kinds):
        placement = Pose(quat_to_matrix(rng.standard_normal(4)), rng.normal(size=3))
        b.add_body(f"b{i}", joint=joint, placement=placement, inertia=BOX, joint_name=f"j{i}")
    return b.build()


COMMON = (joints.Free(), joints.Planar(), joints.Revolute((1, 2, 3)), joints.Prismatic((0, 1, 0)))
MODELS = {
    "pinocchio": several(
        *COMMON,
        joints.Spherical(),
        joints.Composite(
            [joints.Prismatic((0, 0, 1)), joints.Spherical(), joints.Revolute((1, 0, 0))]
        ),
        joints.Composite([joints.Planar(), joints.Helical((0, 0, 1), 0.3)]),
    ),
    "mujoco": several(
        *COMMON,
        joints.Spherical(),
        joints.Composite([joints.Prismatic((0, 0, 1)), joints.Spherical()]),
        joints.Universal(),
    ),
    "drake": several(*COMMON, joints.Universal(), joints.Helical((0, 0, 1), 0.3)),
}


def state(model: Model, batch: tuple[int, ...] = ()):
    rng = np.random.default_rng(11)
    return model.random_configuration(rng, batch), *rng.normal(size=(3, *batch, model.nv))


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("batch", [(), (3,), (2, 0), (2, 3)])
def test_round_trip(tool: str, batch: tuple[int, ...]):
    to, back = TOOLS[tool]
    model = MODELS[tool]
    ours = state(model, batch)
    names = list(model.joint_names)[::-1]
    theirs = to(model, *ours, names=names)
    again = back(model, *theirs, names=names)
    for mine, returned in zip(ours, again, strict=True):
        np.testing.assert_allclose(returned, mine, rtol=0, atol=1e-14)
    assert to(model, ours[0]).v is None


@pytest.mark.parametrize("tool", TOOLS)
def test_power_is_the_same_and_accelerations_are_derivatives_of_rates(tool: str):
    to, _ = TOOLS[tool]
    model = MODELS[tool]
    q, v, vdot, tau = state(model)
    theirs = to(model, q, v, vdot, tau)
    assert theirs.tau @ theirs.v == pytest.approx(tau @ v, rel=1e-13)
    h = 1e-6
    later = to(model, model.integrate(q, h * v), v + h * vdot).v
    before = to(model, model.integrate(q, -h * v), v - h * vdot).v
    np.testing.assert_allclose((later - before) / (2 * h), theirs.vdot, rtol=1e-7, atol=1e-7)


def test_free_bodies_of_drake_have_poses_and_rates_of_the_world():
    model = several(joints.Free())
    q, v, *_ = state(model)
    there = to_drake(model, q, v)
    pose = poses(model, q)[0]
    np.testing.assert_allclose(quat_to_matrix(there.q[:4]), pose[:3, :3], atol=1e-14)
    np.testing.assert_allclose(there.q[4:], pose[:3, 3], atol=1e-14)
    qdot = model.qdot(q, v)
    axes = model.placements[0].rotation
    spin = 2 * quat_multiply(qdot[:4], quat_conjugate(q[:4]))
    np.testing.assert_allclose(there.v[:3], axes @ spin[1:], atol=1e-14)
    np.testing.assert_allclose(there.v[3:], axes @ qdot[4:], atol=1e-14)


def test_free_joints_between_bodies_start_at_a_frame_of_their_own_in_drake():
    b = ModelBuilder()
    b.add_body("a", inertia=BOX)
    b.add_body(
        "b", parent="a", joint=joints.Free(), placement=Pose(translation=(1, 2, 3)), inertia=BOX
    )
    model = b.build()
    q, *_ = state(model)
    np.testing.assert_array_equal(to_drake(model, q).q, q)


PLANAR_URDF = """<robot name="p"><link name="w"/><link name="a"><inertial><mass value="2"/>
<inertia ixx="0.3" iyy="0.4" izz="0.5" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="slab" type="planar"><parent link="w"/><child link="a"/>
<origin xyz="1 2 3" rpy="0.3 0.4 0.5"/><axis xyz="{}"/></joint></robot>"""


def test_pinocchio_ignores_the_axis_of_a_planar_joint_of_a_file(tmp_path: Path):
    file = tmp_path / "slab.urdf"
    file.write_text(PLANAR_URDF.format("0 0 1"))
    model = load(file)
    q, v, vdot, _ = state(model)
    theirs = pin.buildModelFromUrdf(str(file))
    there = to_pinocchio(model, q, v, vdot)
    efforts = pin.rnea(theirs, theirs.createData(), there.q, there.v, there.vdot)
    ours = from_pinocchio(model, there.q, tau=efforts).tau
    np.testing.assert_allclose(inverse_dynamics(model, q, v, vdot), ours, atol=1e-13)
    file.write_text(PLANAR_URDF.format("0 1 1"))
    turned = load(file)
    for convert in (to_pinocchio, from_pinocchio):
        with pytest.raises(InputError, match="'slab'.*xy plane"):
            convert(turned, [0.1, 0.2, 0.3])
    assert to_drake(turned, [0.1, 0.2, 0.3]).q.tolist() == [0.2, 0.3, 0.1]
    by_hand = several(joints.Planar((1, 0, 0), (0, 0, 1)))
    assert to_pinocchio(by_hand, [0.0, 0.2, 0.3]).q.tolist() == [0.2, 0.3, 1.0, 0.0]


def test_planar_rates_of_mujoco_and_drake_are_those_of_the_coordinates():
    model = several(joints.Planar())
    q, v, *_ = state(model)
    theta, x, y = model.qdot(q, v)
    for to in (to_mujoco, to_drake):
        np.testing.assert_allclose(to(model, q, v).v, [x, y, theta], atol=1e-15)
        np.testing.assert_array_equal(to(model, q).q, [q[1], q[2], q[0]])


@pytest.mark.parametrize("seed", seeds(5))
def test_dynamics_of_pinocchio(seed: int):
    model = pinocchio_tree(seed, 6)
    peer = InPinocchio(model)
    q, v, vdot, tau = state(model)
    theirs = to_pinocchio(model, q, v)
    np.testing.assert_allclose(theirs.q, peer.q(q), rtol=0, atol=1e-15)
    np.testing.assert_array_equal(theirs.v, peer.v(v))


FREE_IN_MUJOCO = """
<mujoco><option gravity="0 0 -9.81"/><worldbody>
<body name="a" pos="1 2 3" quat="0.5 0.5 0.5 0.5"><freejoint name="f"/>
  <inertial pos="0.1 0.2 -0.1" mass="2" diaginertia="0.3 0.4 0.5"/>
  <body name="b" pos="0.2 0 0.1"><joint name="h" type="slide" axis="0 1 1"/>
    <joint name="s" type="ball"/>
    <inertial pos="0.1 0.2 -0.1" mass="2" diaginertia="0.3 0.4 0.5"/></body></body>
</worldbody></mujoco>
"""


def test_dynamics_of_mujoco():
    theirs = mujoco.MjModel.from_xml_string(FREE_IN_MUJOCO)
    data = mujoco.MjData(theirs)
    b = ModelBuilder()
    b.add_body(
        "a", joint=joints.Free(), placement=Pose((0.5, 0.5, 0.5, 0.5), (1, 2, 3)), inertia=BOX
    )
    slide_ball = joints.Composite([joints.Prismatic((0, 1, 1)), joints.Spherical()])
    b.add_body(
        "b", parent="a", joint=slide_ball, placement=Pose(translation=(0.2, 0, 0.1)), inertia=BOX
    )
    model = b.build()
    q, v, vdot, tau = state(model)
    there = to_mujoco(model, q, v, vdot)
    data.qpos, data.qvel, data.qacc = there.q, there.v, there.vdot
    mujoco.mj_inverse(theirs, data)
    needed = from_mujoco(model, there.q, tau=data.qfrc_inverse).tau
    np.testing.assert_allclose(inverse_dynamics(model, q, v, vdot), needed, rtol=1e-10, atol=1e-10)
    data.qfrc_applied = to_mujoco(model, q, tau=tau).tau
    mujoco.mj_forward(theirs, data)
    ours = from_mujoco(model, there.q, there.v, data.qacc).vdot
    np.testing.assert_allclose(forward_dynamics(model, q, v, tau), ours, rtol=1e-9, atol=1e-9)


def test_complaints():
    model = several(joints.Free(), joints.Revolute())
    q, v, vdot, _ = state(model)
    with pytest.raises(InputError, match="vdot needs v"):
        to_drake(model, q, vdot=vdot)
    with pytest.raises(InputError, match="no joint 'jj0'. Did you mean 'j0'"):
        to_drake(model, q, names=["jj0", "j1"])
    with pytest.raises(InputError, match="every joint once"):
        to_drake(model, q, names=["j0"])
    with pytest.raises(InputError, match="last axis must be 8"):
        to_drake(model, q[1:])
    with pytest.raises(InputError, match="Drake has no spherical"):
        to_drake(several(joints.Spherical()), [1, 0, 0, 0])
    b = ModelBuilder()
    b.add_body("a", inertia=BOX)
    b.add_body("b", parent="a", joint=joints.Free(), inertia=BOX)
    with pytest.raises(InputError, match="must be on the world"):
        to_mujoco(b.build(), np.zeros(8))
    assert pinocchio_order(random_tree(0, 5)) == list(random_tree(0, 5).joint_names)


FREE_WITH_ARMATURE = """
<mujoco><option gravity="0.3 0 -9.81"/><default><joint armature="0.7" damping="0.2"/></default>
<worldbody><body name="a" pos="1 2 3" quat="0.5 0.5 0.1 0.3"><joint name="f" type="free"/>
  <inertial pos="0.1 0.2 -0.1" mass="2" diaginertia="0.3 0.4 0.5"/>
  <body name="b" pos="0.2 0 0.1"><joint name="h" type="hinge" axis="0 1 1"/>
    <inertial pos="0.1 0.2 -0.1" mass="2" diaginertia="0.3 0.4 0.5"/></body></body>
</worldbody></mujoco>
"""


@pytest.mark.parametrize("seed", range(3))
def test_armature_of_a_free_joint_acts_as_in_mujoco(tmp_path: Path, seed: int):
    file = tmp_path / "flyer.xml"
    file.write_text(FREE_WITH_ARMATURE)
    model = load(file)
    assert [f.kind for f in model.diagnosis if f.body == "f"] == ["free"]
    theirs = mujoco.MjModel.from_xml_path(str(file))
    data = mujoco.MjData(theirs)
    rng = np.random.default_rng(seed)
    q, (v, vdot) = model.random_configuration(rng), 3 * rng.normal(size=(2, model.nv))
    there = to_mujoco(model, q, v, vdot)
    data.qpos, data.qvel, data.qacc = there.q, there.v, there.vdot
    mujoco.mj_inverse(theirs, data)
    np.testing.assert_allclose(data.xpos[1], poses(model, q)[0][:3, 3], atol=1e-14)
    needed = from_mujoco(model, there.q, tau=data.qfrc_inverse).tau
    ours = inverse_dynamics(model, q, v, vdot) + model.damping * v
    np.testing.assert_allclose(ours, needed, rtol=1e-12, atol=1e-12)
    again = from_mujoco(model, *there)
    for mine, returned in zip((q, v, vdot), again, strict=False):
        np.testing.assert_allclose(returned, mine, rtol=0, atol=1e-14)
    assert load(file, base="fixed").joint_names == ("h",)


def test_continuous_joints_are_for_pinocchio():
    arm = random_tree(0, 5)
    with pytest.raises(InputError, match="continuous= is for Pinocchio; MuJoCo stores angles"):
        to_mujoco(arm, arm.neutral(), continuous=[])
