"""States in the conventions of Pinocchio, MuJoCo and Drake, and back."""

import mujoco
import numpy as np
import pytest
from peers import InPinocchio, pinocchio_tree

from phipsi import forward_dynamics, inverse_dynamics
from phipsi.errors import InputError
from phipsi.examples import random_tree
from phipsi.interfaces.convention_adapter import pinocchio_order
from phipsi.interfaces.conventions import (
    from_drake,
    from_mujoco,
    from_pinocchio,
    to_drake,
    to_mujoco,
    to_pinocchio,
)
from phipsi.model import Model, ModelBuilder, Pose, SpatialInertia, joints
from phipsi.spatial import quat_conjugate, quat_multiply, quat_to_matrix

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


def test_drake_rates_of_a_free_joint_are_in_inboard_axes():
    model = several(joints.Free())
    q, v, *_ = state(model)
    there = to_drake(model, q, v)
    qdot = model.qdot(q, v)
    np.testing.assert_allclose(there.v[3:], qdot[4:], atol=1e-14)
    spin = 2 * quat_multiply(qdot[:4], quat_conjugate(q[:4]))
    np.testing.assert_allclose(there.v[:3], spin[1:], atol=1e-14)
    np.testing.assert_array_equal(there.q, q)


def test_planar_rates_of_mujoco_and_drake_are_those_of_the_coordinates():
    model = several(joints.Planar())
    q, v, *_ = state(model)
    theta, x, y = model.qdot(q, v)
    for to in (to_mujoco, to_drake):
        np.testing.assert_allclose(to(model, q, v).v, [x, y, theta], atol=1e-15)
        np.testing.assert_array_equal(to(model, q).q, [q[1], q[2], q[0]])


@pytest.mark.parametrize("seed", range(5))
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
