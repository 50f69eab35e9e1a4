"""Controllers and references in compiled runs: the same motion as in `simulate`."""

from __future__ import annotations

import numpy as np
import pytest
from known_systems import pinned_arm
from numpy.testing import assert_allclose
from random_models import random_tree

import phipsi as pp
from phipsi.core.spatial.quaternions import so3_exp
from phipsi.errors import SimulationError

ARM = pp.examples.seven_joint_arm()
HOME = np.array([0.2, 0.6, -0.3, 1.1, 0.4, 0.9, 0.2])
FELT = np.diagonal(pp.mass_matrix(ARM, HOME))
TIMES = [0.0, 0.05, 0.12]
H, STEPS = 2e-3, 70  # beyond the end of the paths


def joint_path(model=ARM, q=HOME):
    rng = np.random.default_rng(0)
    ways = [q, model.integrate(q, 0.2 * rng.normal(size=model.nv)), q]
    return pp.control.JointPath(model, ways, TIMES)


def fourier_path():
    rng = np.random.default_rng(1)
    cosines, sines = rng.normal(size=(2, 7, 2))
    return pp.control.FourierPath(ARM, HOME, cosines, sines, 0.3)


def line():
    frame = list(ARM.frames)[-1]
    X = pp.poses(ARM, HOME, [frame])[0]
    further = X.copy()
    further[:3, 3] += [0.02, -0.01, 0.03]
    further[:3, :3] = so3_exp(np.array([0.1, 0.0, 0.2])) @ X[:3, :3]
    return frame, pp.control.CartesianPath([X, further, X], TIMES)


CONTROLLERS = {
    "ComputedTorque": lambda: pp.control.ComputedTorque(ARM, joint_path(), kp=100, kd=20),
    "Fourier": lambda: pp.control.ComputedTorque(ARM, fourier_path(), kp=100, kd=20),
    "PDGravity": lambda: pp.control.PDGravity(ARM, joint_path(), kp=60 * FELT, kd=12 * FELT),
    "Saturated": lambda: pp.control.Saturated(
        pp.control.ComputedTorque(ARM, joint_path(), kp=100, kd=20), ARM, 5.0
    ),
    "OperationalSpace": lambda: pp.control.OperationalSpace(ARM, *line(), kp=100, kd=20),
}


@pytest.mark.parametrize("name", CONTROLLERS)
def test_equal_to_simulate(name):
    control = CONTROLLERS[name]()
    sim = pp.Simulator(ARM, [control], H)
    run = sim.rollout(sim.initial_state(HOME - 0.01), steps=STEPS, record_every=STEPS)
    wanted = pp.simulate(
        ARM, HOME - 0.01, np.zeros(7), STEPS * H, controller=control, dt=H, integrator="rk4"
    )
    assert_allclose(run.q[-1], wanted.q[-1], atol=1e-10)
    free = pp.rollout(ARM, HOME - 0.01, np.zeros(7), np.zeros(7), H, STEPS, record_every=STEPS)[0]
    assert np.abs(run.q[-1] - free[-1]).max() > 1e-3  # control matters


def test_rotations_follow_their_path():
    """Quaternions of the reference are interpolated on the manifold, in machine code too."""
    model = random_tree(3, 3, joints=["spherical", "free"])
    q = model.random_configuration(np.random.default_rng(2))
    path = joint_path(model, q)
    control = pp.control.ComputedTorque(model, path, kp=400, kd=40, actuated=model.joint_names)
    sim = pp.Simulator(model, [control], H)
    run = sim.rollout(sim.initial_state(q), steps=STEPS)
    for k in (10, 40, STEPS):
        error = model.difference(run.q[k], path(k * H).q)
        assert np.abs(error).max() < 1e-5


def test_near_a_singularity_the_run_stops():
    """`simulate` damps the task there; a compiled run says where it got to."""
    arm = pp.examples.planar_arm(2)
    tip = list(arm.frames)[-1]
    control = pp.control.OperationalSpace(
        arm, tip, [1.9, 0.0, 0.0], kp=1.0, kd=1.0, components=(3, 4)
    )
    sim = pp.Simulator(arm, [control], H)
    wanted = r"step 0 .*frame on body 'link2' is near a singularity"
    with pytest.raises(SimulationError, match=wanted):
        sim.rollout(sim.initial_state([0.0, 0.0]), steps=3)
    run = sim.rollout(sim.initial_state([[0.0, 0.0], [0.3, 0.6]]), steps=3, on_error="best")
    assert run.status[1] == 0 < run.status[0]


def slider_crank():
    b = pp.ModelBuilder(gravity=(0, -9.81, 0))
    rod, z = pp.SpatialInertia(1.0, (0.5, 0, 0), (0.01, 0.1, 0.1)), (0, 0, 1)
    along = pp.Pose(None, (1, 0, 0))
    b.add_body("crank", joint=pp.joints.Revolute(z), inertia=rod)
    b.add_body("rod", parent="crank", joint=pp.joints.Revolute(z), placement=along, inertia=rod)
    slider = pp.SpatialInertia(0.5, (0, 0, 0))
    b.add_body("slider", joint=pp.joints.Prismatic((1, 0, 0)), inertia=slider)
    pin = pp.constraints.Revolute(z, name="pin", a=("rod", (1.5, 0, 0)), b="slider")
    return pp.System(b.build(), [pin])


@pytest.mark.parametrize("kind", ["ComputedTorque", "PDGravity"])
@pytest.mark.parametrize("sampled", [False, True])
def test_a_drive_at_a_dead_point_is_named(kind, sampled):
    """A slider cannot turn its crank when both are in line, and single calls say so too."""
    system = slider_crank()
    make = getattr(pp.control, kind)
    control = make(system, [0.3, 0, 2.4], kp=10, kd=5, actuated=["slider"])
    dead, fine = np.array([0.0, 0.0, 2.5]), system.assemble([0.5, -1.0, 2.4])
    with pytest.raises(pp.errors.InputError, match=r"cannot drive this motion.*\n.*'rod'"):
        control(0.0, dead, np.zeros(3))
    law = pp.law(lambda t, q, v: control(t, q, v), name="drive")
    sim = pp.Simulator(system, [law.sampled(1 / H) if sampled else control], H)
    with pytest.raises(SimulationError, match="step 0 .*joint 'rod' is not actuated"):
        sim.rollout(sim.initial_state(dead), steps=3)
    run = sim.rollout(sim.initial_state(np.stack([fine, dead])), steps=3, on_error="best")
    assert run.status[0] == 0 < run.status[1]
    assert np.isfinite(run.q[0]).all()


def test_a_task_that_loops_do_not_allow_stops_the_run():
    """A four-bar has one degree of freedom, and its tip is pinned to the ground.

    The efforts are infinite, or huge where rounding makes the singular task a regular one.
    """
    system = pinned_arm()
    control = pp.control.OperationalSpace(
        system, "tip", np.eye(4), 1.0, 1.0, components=(3,), actuated=["joint1"]
    )
    sim = pp.Simulator(system, [control], H)
    with pytest.raises(SimulationError, match="near a singularity|cannot be closed again"):
        sim.rollout(sim.initial_state(system.assemble([1.0, -1.0, -1.5])), steps=3)
