"""Inverse kinematics of mechanisms with loops: targets met with the loops closed."""

import numpy as np
import pytest
from known_systems import pinned_arm
from numpy.testing import assert_allclose

import phipsi as pp

LINKAGE = pinned_arm(4)  # two degrees of freedom
START = LINKAGE.assemble([1.0, -1.0, -0.5, -1.0])


def place(q):
    return pp.poses(LINKAGE, q, ["link3"])[..., 0, :3, 3]


def test_targets_are_met_and_loops_closed():
    ways = np.array([[1.3, -0.9, -0.7, -0.9], [1.1, -1.1, -0.5, -1.0], [0.9, -0.8, -0.6, -1.1]])
    goals = place(LINKAGE.assemble(ways))
    found = pp.inverse_kinematics(LINKAGE, {"link3": goals}, START)
    assert found.converged.all()
    assert_allclose(place(found.q), goals, rtol=0, atol=1e-6)
    assert_allclose(LINKAGE.residual(found.q), 0, atol=1e-10)
    # the tree alone would go elsewhere, and tear the loop
    alone = pp.inverse_kinematics(LINKAGE.model, {"link3": goals}, START)
    assert np.abs(LINKAGE.residual(alone.q)).max() > 1e-2


def test_a_target_out_of_reach_leaves_the_loops_closed():
    found = pp.inverse_kinematics(LINKAGE, {"link3": (5, 5, 0)}, START, on_error="best")
    assert not found.converged
    assert_allclose(LINKAGE.residual(found.q), 0, atol=1e-10)
    assert_allclose(found.position_error, [np.linalg.norm(place(found.q) - (5, 5, 0))])
    with pytest.raises(pp.errors.ConvergenceError, match="'link3' misses its position"):
        pp.inverse_kinematics(LINKAGE, {"link3": (5, 5, 0)}, START)


def test_rest_and_fixed_joints():
    goal = place(LINKAGE.assemble([1.2, -1.0, -0.6, -0.9]))
    near = pp.inverse_kinematics(LINKAGE, {"link3": goal}, START, rest=START)
    assert near.converged and np.abs(LINKAGE.residual(near.q)).max() < 1e-10
    held = pp.inverse_kinematics(
        LINKAGE, {"link3": place(START)}, START, fixed=["joint1"], on_error="best"
    )
    assert held.q[0] == START[0]
