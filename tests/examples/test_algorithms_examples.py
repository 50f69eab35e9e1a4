"""The ready-made mechanisms are what their descriptions say, and the demo runs."""

import numpy as np
import pytest

import phipsi as pp
from phipsi import examples


def test_planar_arm():
    arm = examples.planar_arm(3)
    np.testing.assert_allclose(pp.poses(arm, np.zeros(3), ["tip"])[0, :3, 3], [3, 0, 0])
    assert arm.body_names == ("link1", "link2", "link3")
    assert examples.planar_arm(0).nv == 0


def test_seven_joint_arm():
    arm = examples.seven_joint_arm()
    assert (arm.nq, arm.nv) == (7, 7)
    assert sum(x.mass for x in arm.inertias) == pytest.approx(18.9)
    np.testing.assert_allclose(pp.poses(arm, arm.neutral(), ["tool"])[0, :3, 3], [0, 0, 1.1])
    assert (examples.seven_joint_arm(armature=0.2).armature == 0.2).all()


def test_free_flyer():
    robot = examples.free_flyer()
    tools = pp.poses(robot, robot.neutral(), ["left_tool", "right_tool"])
    np.testing.assert_allclose(tools[:, :3, 3], [[0, 1.7, 0], [0, -1.7, 0]], atol=1e-14)
    np.testing.assert_allclose(pp.center_of_mass(robot, robot.neutral()), 0, atol=1e-14)


@pytest.mark.parametrize("seed", range(5))
def test_random_tree(seed):
    model = examples.random_tree(seed, 9)
    q = model.random_configuration(seed)
    zero = np.zeros(model.nv)
    tau = pp.inverse_dynamics(model, q, zero, zero)
    scale = np.linalg.cond(pp.mass_matrix(model, q))
    vdot = pp.forward_dynamics(model, q, zero, tau)
    np.testing.assert_allclose(vdot, zero, atol=1e-12 * scale)
