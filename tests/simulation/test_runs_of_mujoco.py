"""Runs with dampers, springs and PD control against MuJoCo's, by the same method."""

import mujoco
import numpy as np
import pytest
from numpy.testing import assert_allclose
from peers import InMujoco

import phipsi as pp
from phipsi.simulation.forces.joint_forces import JointDamper, JointSpring

DT, STEPS = 2e-3, 60
METHODS = {"rk4": mujoco.mjtIntegrator.mjINT_RK4, "semi_implicit": mujoco.mjtIntegrator.mjINT_EULER}


@pp.law
def hold(t, q, v, kp, kd):
    return kp * np.sin(5 * t) - kd * v - 0.1 * kp * q


def cart_with_arms():
    """A slider with two arms of two hinges."""
    b = pp.ModelBuilder()
    inertia = pp.SpatialInertia(1.0, com_B=(0.1, 0.2, 0.3), moment_about_com_B=(0.2, 0.3, 0.4))
    b.add_body("cart", joint=pp.joints.Prismatic((1, 0, 0)), inertia=inertia)
    for side, y in (("left", 0.3), ("right", -0.3)):
        place = pp.Pose.from_rpy((0.1, 0.2, 0.3), (0.0, y, 0.1))
        b.add_body(f"{side} upper", parent="cart", joint=pp.joints.Revolute((0, 1, 0)),
                   inertia=inertia, placement=place)  # fmt: skip
        b.add_body(f"{side} lower", parent=f"{side} upper", joint=pp.joints.Revolute((1, 0, 0)),
                   inertia=inertia, placement=place)  # fmt: skip
    return b.build()


@pytest.mark.parametrize("integrator", METHODS)
@pytest.mark.parametrize("model", [pp.examples.seven_joint_arm(), cart_with_arms()])
def test_dampers_springs_and_control(model, integrator):
    rng = np.random.default_rng(3)
    n = model.nv
    damping, stiffness = rng.uniform(0.01, 0.05, (2, n))
    rest, kp, kd = rng.uniform(-0.3, 0.3, n), rng.uniform(0.1, 0.3, n), rng.uniform(0.01, 0.02, n)
    peer = InMujoco(model)
    theirs = peer.theirs
    theirs.opt.timestep, theirs.opt.integrator = DT, METHODS[integrator]
    theirs.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_EULERDAMP  # explicit, as here
    theirs.dof_damping[:, ...] = damping.reshape(theirs.dof_damping.shape)
    theirs.jnt_stiffness[:, ...] = stiffness.reshape(theirs.jnt_stiffness.shape)
    theirs.qpos_spring[:] = rest
    laws = [JointDamper(None, damping), JointSpring(None, stiffness, rest), hold.bind(kp=kp, kd=kd)]
    simulator = pp.Simulator(model, laws, DT, integrator=integrator)
    q0, v0 = 0.2 * rng.standard_normal((2, n))
    run = simulator.rollout(simulator.initial_state(q0, v0), steps=STEPS)

    def control(m, data):
        data.qfrc_applied[:] = hold(data.time, data.qpos, data.qvel, kp, kd)

    mujoco.mj_resetData(theirs, peer.data)
    peer.data.qpos[:], peer.data.qvel[:] = q0, v0
    mujoco.set_mjcb_control(control)
    try:
        for k in range(STEPS):
            assert_allclose(run.q[k], peer.data.qpos, rtol=1e-9, atol=1e-9)
            mujoco.mj_step(theirs, peer.data)
    finally:
        mujoco.set_mjcb_control(None)
    assert_allclose(run.q[-1], peer.data.qpos, rtol=1e-9, atol=1e-9)
    assert_allclose(run.v[-1], peer.data.qvel, rtol=1e-8, atol=1e-8)
    assert np.abs(run.q[-1] - q0).max() > 1e-2
    off = pp.Simulator(model, laws[1:], DT, integrator=integrator)  # without the damper it differs
    assert not np.allclose(
        off.rollout(off.initial_state(q0, v0), steps=STEPS).v[-1], run.v[-1], rtol=1e-6
    )
