"""Controllers, references and joint properties of mechanisms with loops, against dense routes."""

import numpy as np
import pytest
from known_systems import pinned_four_bar
from numpy.testing import assert_allclose

import phipsi as pp

FOUR_BAR, Q = pinned_four_bar()
GOAL = FOUR_BAR.assemble([1.6, -1.2, -1.5], fixed=["joint1"])
REST = np.zeros(3)
# two degrees of freedom
FIVE_BAR = pp.System(
    pp.examples.planar_arm(4),
    [pp.constraints.Revolute((0, 0, 1), name="pin", a="tip", b=("world", (1.2, 0, 0)))],
)
Q5 = FIVE_BAR.assemble([1.9, -0.9, -1.6, -1.0])
DRIVES = ["joint1", "joint4"]


def dense_acceleration(system, q, v, tau):
    """vdot and the multipliers of all equations at once."""
    M, G = pp.mass_matrix(system.model, q), system.jacobian(q)
    n, m = len(M), len(G)
    K = np.block([[M, G.T], [G, np.zeros((m, m))]])
    right = np.concatenate([tau - pp.bias_forces(system.model, q, v), -system.bias(q, v)])
    return np.linalg.lstsq(K, right, rcond=1e-11)[0][:n]


def admissible(system, q, v):
    return system.project(q, v)[1]


# ---- computed torque -----------------------------------------------------------------------------


@pytest.mark.parametrize("drive", ["joint1", "joint2", "joint3"])
def test_the_error_of_the_driven_joint_obeys_the_linear_equation(drive):
    i = FOUR_BAR.joint_index(drive)
    control = pp.control.ComputedTorque(FOUR_BAR, GOAL, kp=30, kd=7, actuated=[drive])
    v = admissible(FOUR_BAR, Q, [0.4, 0, 0])
    tau = control(0.0, Q, v)
    assert not np.delete(tau, i).any()
    vdot = dense_acceleration(FOUR_BAR, Q, v, tau)
    assert_allclose(vdot[i], 30 * (GOAL - Q)[i] - 7 * v[i], rtol=1e-9)


def test_two_drives_of_a_five_bar():
    v = admissible(FIVE_BAR, Q5, [0.4, 0.2, 0, -0.3])
    goal = FIVE_BAR.assemble(Q5 + [0.2, 0, 0, 0.1], fixed=DRIVES)
    control = pp.control.ComputedTorque(FIVE_BAR, goal, kp=30, kd=7, actuated=DRIVES)
    tau = control(0.0, Q5, v)
    assert not tau[1:3].any()
    vdot = dense_acceleration(FIVE_BAR, Q5, v, tau)
    assert_allclose(vdot[[0, 3]], (30 * (goal - Q5) - 7 * v)[[0, 3]], rtol=1e-8)


def test_more_drives_than_degrees_of_freedom_give_the_nearest_motion():
    """All joints driven: Gauss' principle for the wanted accelerations, and the least efforts."""
    v = admissible(FOUR_BAR, Q, [0.4, 0, 0])
    tau = pp.control.ComputedTorque(FOUR_BAR, GOAL, kp=30, kd=7)(0.0, Q, v)
    vdot = dense_acceleration(FOUR_BAR, Q, v, tau)
    M, G = pp.mass_matrix(FOUR_BAR.model, Q), FOUR_BAR.jacobian(Q)
    Z = np.linalg.svd(G)[2][2:].T
    off = vdot - (30 * (GOAL - Q) - 7 * v)
    assert_allclose(Z.T @ M @ off, 0, atol=1e-9)
    assert_allclose(tau - Z @ (Z.T @ tau), 0, atol=1e-9)  # nothing pulls against the loop


@pytest.mark.parametrize("actuated", [["joint1"], ["joint1", "joint3"], None], ids=str)
def test_computed_torque_tracks_a_path(actuated):
    path = pp.control.JointPath(FOUR_BAR, [Q, GOAL, Q], [0.0, 0.35, 0.7], independent=["joint1"])
    control = pp.control.ComputedTorque(FOUR_BAR, path, kp=100, kd=20, actuated=actuated)
    end = 0.4 if actuated is None else 0.15  # once beyond the goal
    run = pp.simulate(FOUR_BAR, Q, REST, end, controller=control)
    assert max(np.abs(path(t).q - q).max() for t, q in zip(run.t, run.q, strict=True)) < 1e-7
    assert np.abs(run.tau).max() > 1  # it had to work


def test_damping_is_made_up_for_by_the_drives():
    damped = FOUR_BAR
    for name in FOUR_BAR.body_names:
        damped = damped.with_body(name, damping=0.5)
    path = pp.control.JointPath(damped, [Q, GOAL], [0.0, 0.3], independent=["joint1"])
    control = pp.control.ComputedTorque(
        damped, path, kp=100, kd=20, actuated=["joint1"], compensate_damping=True
    )
    losses = pp.forces.from_model(damped)
    run = pp.simulate(damped, Q, REST, 0.3, controller=control, forces=losses)
    assert np.abs(path(0.3).q - run.q[-1]).max() < 1e-7


def test_batches():
    q = np.stack([Q, GOAL])
    v = admissible(FOUR_BAR, q, np.array([[0.4, 0, 0], [-0.3, 0, 0]]))
    tip = dict(frame="link2", reference=(0.3, 0.8, 0), components=(3,))
    for control in (
        pp.control.ComputedTorque(FOUR_BAR, GOAL, 9, 6, actuated=["joint1"]),
        pp.control.PDGravity(FOUR_BAR, GOAL, 9, 6, actuated=["joint1"]),
        pp.control.OperationalSpace(FOUR_BAR, kp=9, kd=6, actuated=["joint1"], **tip),
    ):
        together = control(0.0, q, v)
        assert together.shape == (2, 3)
        for i in range(2):
            assert_allclose(together[i], control(0.0, q[i], v[i]), rtol=1e-9, atol=1e-11)


def test_a_tree_with_a_drive_at_every_joint_is_as_without_the_word():
    arm = pp.examples.planar_arm(3)
    v = np.array([0.2, -0.1, 0.5])
    for kind in (pp.control.ComputedTorque, pp.control.PDGravity):
        plain = kind(arm, GOAL, 9, 6)(0.0, Q, v)
        named = kind(arm, GOAL, 9, 6, actuated=arm.joint_names)(0.0, Q, v)
        assert_allclose(named, plain, rtol=1e-9)


@pytest.mark.parametrize("kind", [pp.control.ComputedTorque, pp.control.PDGravity])
def test_too_few_drives_are_rejected(kind):
    with pytest.raises(pp.errors.InputError, match=r"cannot drive this motion.*\n.*joint"):
        kind(FIVE_BAR, Q5, 9, 6, actuated=["joint1"])(0.0, Q5, np.zeros(4))
    with pytest.raises(pp.errors.InputError, match="actuated joint 'elbow' does not exist"):
        kind(FIVE_BAR, Q5, 9, 6, actuated=["elbow"])


# ---- springs and gravity -------------------------------------------------------------------------


@pytest.mark.parametrize("actuated", [["joint1"], ["joint2", "joint3"], None], ids=str)
def test_gravity_is_held_by_the_drives(actuated):
    control = pp.control.PDGravity(FOUR_BAR, Q, kp=40, kd=10, actuated=actuated)
    held = control(0.0, Q, REST)
    assert_allclose(dense_acceleration(FOUR_BAR, Q, REST, held), 0, atol=1e-9)
    rates = range(3) if actuated is None else [FOUR_BAR.joint_index(n) for n in actuated]
    assert not np.delete(held, list(rates)).any()


def test_energy_falls_to_the_reference():
    control = pp.control.PDGravity(FOUR_BAR, GOAL, kp=40, kd=10, actuated=["joint1"])
    v = admissible(FOUR_BAR, Q, [0.6, 0, 0])
    run = pp.simulate(FOUR_BAR, Q, v, 4.0, controller=control)
    error = run.q[:, 0] - GOAL[0]
    energy = pp.kinetic_energy(FOUR_BAR, run.q, run.v) + 20 * error**2
    assert (np.diff(energy) < 1e-9).all()
    loss = np.trapezoid(10 * run.v[:, 0] ** 2, run.t)
    assert_allclose(energy[0] - energy[-1], loss, rtol=0.05)
    assert_allclose(run.q[-1], GOAL, atol=1e-4)


# ---- operational space ---------------------------------------------------------------------------


def frame_acceleration(system, q, v, vdot):
    return pp.accelerations(system, q, v, vdot, points=["link3"], axes="world")[0]


@pytest.mark.parametrize("actuated", [DRIVES, None], ids=str)
def test_a_frame_of_a_five_bar_gets_the_acceleration_it_should(actuated):
    v = admissible(FIVE_BAR, Q5, [0.4, 0.2, 0, -0.3])
    place = pp.poses(FIVE_BAR, Q5, points=["link3"])[0, :3, 3]
    goal = place + (0.1, -0.05, 0)
    control = pp.control.OperationalSpace(
        FIVE_BAR, "link3", goal, kp=30, kd=7, components=(3, 4), actuated=actuated
    )
    vdot = dense_acceleration(FIVE_BAR, Q5, v, control(0.0, Q5, v))
    J = pp.jacobian(FIVE_BAR, Q5, ["link3"])[3:5]
    moving = J @ v
    found = J @ vdot + pp.jacobian_dot(FIVE_BAR, Q5, v, ["link3"], times_v=True).ravel()[3:5]
    assert_allclose(found, 30 * (goal - place)[:2] - 7 * moving, rtol=1e-8)
    inertia, mu, p = control.dynamics(Q5, v)
    M, G = pp.mass_matrix(FIVE_BAR.model, Q5), FIVE_BAR.jacobian(Q5)
    Z = np.linalg.svd(G)[2][2:].T
    Y = Z @ np.linalg.solve(Z.T @ M @ Z, Z.T)
    assert_allclose(inertia, np.linalg.inv(J @ Y @ J.T), rtol=1e-8)
    alone = J @ dense_acceleration(FIVE_BAR, Q5, v, np.zeros(4))
    alone += pp.jacobian_dot(FIVE_BAR, Q5, v, ["link3"], times_v=True).ravel()[3:5]
    assert_allclose(inertia @ alone + mu + p, 0, atol=1e-8)
    assert_allclose(J @ Y @ control.null_projector(Q5), 0, atol=1e-9)


def test_a_frame_follows_a_line():
    start = pp.poses(FIVE_BAR, Q5, points=["link3"])[0, :3, 3]
    line = pp.control.CartesianPath([start, start + (0.15, -0.1, 0)], [0.0, 0.8])
    control = pp.control.OperationalSpace(
        FIVE_BAR, "link3", line, kp=100, kd=20, components=(3, 4), actuated=DRIVES
    )
    run = pp.simulate(FIVE_BAR, Q5, np.zeros(4), 0.8, controller=control, rtol=1e-8)
    places = pp.poses(FIVE_BAR, run.q, points=["link3"])[:, 0, :3, 3]
    wanted = np.array([line(t).pose[:3, 3] for t in run.t])
    assert np.abs(places - wanted).max() < 1e-6


# ---- references ----------------------------------------------------------------------------------


def check_motion(system, path, t, tolerance=1e-7):
    """On the constraints, and rates and accelerations are derivatives."""
    h = 1e-5
    now, before, after = path(t), path(t - h), path(t + h)
    assert np.abs(system.residual(now.q)).max() < 1e-10
    assert_allclose(now.v, system.model.difference(before.q, after.q) / (2 * h), atol=tolerance)
    assert_allclose(now.vdot, (after.v - before.v) / (2 * h), atol=tolerance)


def test_joint_path_of_a_system():
    path = pp.control.JointPath(FOUR_BAR, [Q, GOAL, Q], [0, 1, 2], independent=["joint1"])
    alone = pp.control.JointPath(FOUR_BAR.model, [Q, GOAL, Q], [0, 1, 2])
    for t in (0.2, 0.5, 0.91, 1.6):
        check_motion(FOUR_BAR, path, t)
        assert_allclose([x[0] for x in path(t)], [x[0] for x in alone(t)], atol=1e-12)
    assert_allclose(path(-1.0).q, Q, atol=1e-9)
    assert_allclose(path(1.0).q, GOAL, atol=1e-9)
    assert not path(3.0).v.any()


def test_the_independent_joints_are_chosen_if_none_are_named():
    goal = FIVE_BAR.assemble(Q5 + [0.2, 0, 0, 0.1], fixed=DRIVES)
    check_motion(FIVE_BAR, pp.control.JointPath(FIVE_BAR, [Q5, goal], [0, 1]), 0.4)


def test_joint_path_with_quaternions():
    """A free body on a rod: the ball joint is independent as a whole."""
    b = pp.ModelBuilder()
    box = pp.SpatialInertia(1.0, (0.1, 0, 0), np.diag([0.1, 0.2, 0.2]))
    b.add_body("arm", joint=pp.joints.Spherical(), inertia=box)
    b.add_body("slide", parent="arm", joint=pp.joints.Prismatic((1, 0, 0)), inertia=box)
    rod = pp.constraints.Distance(1.5, name="rod", a=("slide", (0.5, 0, 0)),
                                  b=("world", (0.9, 0.2, 0.4)))  # fmt: skip
    system = pp.System(b.build(), [rod])
    ball = system.joint_names[0]
    q = system.assemble(system.integrate(system.neutral(), [0.1, -0.9, 1.3, 0.4]))
    turned = system.integrate(q, [0.1, 0.1, -0.1, 0.0])
    path = pp.control.JointPath(
        system, [q, system.assemble(turned, fixed=[ball])], [0, 1], independent=[ball]
    )
    check_motion(system, path, 0.45, 1e-6)


def test_fourier_path_of_a_system():
    path = pp.control.FourierPath(
        FOUR_BAR, Q, np.full((3, 2), 0.2), np.full((3, 2), 0.1), 3.0, independent=["joint1"]
    )
    for t in (0.0, 0.7, 2.9, 7.3):
        check_motion(FOUR_BAR, path, t, 1e-6)
    t = np.linspace(0, 3, 40)
    many = path(t)
    assert many.q.shape == (40, 3)
    assert_allclose(many.vdot[17], path(t[17]).vdot, atol=1e-9)
    fitted = pp.control.FourierPath.fit(
        FOUR_BAR, t[:-1], many.q[:-1], 3.0, 2, independent=["joint1"]
    )
    assert_allclose(fitted(0.7).q, path(0.7).q, atol=1e-9)


def test_paths_that_leave_the_constraints_are_rejected():
    JointPath, FourierPath = pp.control.JointPath, pp.control.FourierPath
    other = FOUR_BAR.assemble([1.6, 1.2, 1.5], fixed=["joint1"])
    if np.abs(np.sin(other[1]) - np.sin(GOAL[1])) < 1e-3:  # the same branch
        other = FOUR_BAR.assemble([1.6, 0.9, -2.5], fixed=["joint1"])
    assert np.abs(np.sin(other[1]) - np.sin(GOAL[1])) > 1e-3
    large, none = np.full((3, 1), 3.0), np.zeros((3, 1))
    motor = pp.constraints.Rows(
        name="motor", points=["link1"], A=[[0, 0, 1, 0, 0, 0]], row_velocity=2
    )
    rolling = pp.System(
        FOUR_BAR.model,
        [*FOUR_BAR.constraints, motor],
    )
    free = FOUR_BAR.model
    for call, message in (
        (lambda: JointPath(FOUR_BAR, [Q, Q + 0.1], [0, 1]), r"waypoints\[1\] does not close"),
        (lambda: JointPath(FOUR_BAR, [Q, other], [0, 1], independent=["joint1"]), "another branch"),
        (lambda: JointPath(FOUR_BAR, [Q, GOAL], [0, 1], independent=["joint1", "joint2"]),
         "1 degree of freedom"),
        (lambda: JointPath(FOUR_BAR, [Q, GOAL], [0, 1], independent=["elbow"]), "no joint 'elbow'"),
        (lambda: JointPath(free, [Q, GOAL], [0, 1], independent=["joint1"]), "for a System"),
        (lambda: FourierPath(FOUR_BAR, Q, large, none, 6.0, independent=["joint1"]),
         "out of reach"),
        (lambda: FourierPath(rolling, Q, none, none, 6.0), "is nonholonomic"),
    ):  # fmt: skip
        with pytest.raises(pp.errors.InputError, match=message):
            call()


# ---- joint properties ----------------------------------------------------------------------------


def test_stops_of_a_loop_are_as_stiff_as_what_the_loop_makes_them_move():
    """The last joint of the open arm moves one link; in the loop all three move with it."""
    limited = FOUR_BAR.with_body("link3", limits=(-3.0, 3.0))
    (stop,) = pp.forces.from_model(limited, limit_time=0.1)
    (alone,) = pp.forces.from_model(limited.model, limit_time=0.1)
    assert stop.stiffness[0] > 1.5 * alone.stiffness[0]
    M, G = pp.mass_matrix(FOUR_BAR.model, Q), FOUR_BAR.jacobian(Q)
    Z = np.linalg.svd(G)[2][2:].T
    felt = (Z.T @ M @ Z)[0, 0] / Z[2, 0] ** 2
    assert stop.stiffness[0] >= felt * (np.pi / 0.1) ** 2 * (1 - 1e-9)


def test_a_part_without_loops_has_the_stops_of_the_tree():
    b = pp.ModelBuilder()
    rod = pp.SpatialInertia(1.0, (0.5, 0, 0), np.diag([0.01, 0.1, 0.1]))
    for name, parent in (("a", "world"), ("b", "a"), ("c", "b"), ("lone", "world")):
        b.add_body(
            name, parent=parent, joint=pp.joints.Revolute((0, 0, 1)), inertia=rod,
            placement=pp.Pose(translation=(0.0 if parent == "world" else 1.0, 0, 0)),
            limits=(-1.0, 1.0) if name == "lone" else None,
        )  # fmt: skip
    pin = pp.constraints.Revolute((0, 0, 1), name="pin", a=("c", (1, 0, 0)),
                                  b=("world", (1.5, 0, 0)))  # fmt: skip
    system = pp.System(b.build(), [pin])
    (mine,), (tree) = pp.forces.from_model(system), pp.forces.from_model(system.model)
    assert_allclose(mine.stiffness, tree[0].stiffness)


def test_loops_that_never_close_have_no_stops():
    far = pp.constraints.Revolute((0, 0, 1), name="pin", a="tip", b=("world", (9, 0, 0)))
    model = FOUR_BAR.model.with_body("link3", limits=(-3.0, 3.0))
    with pytest.raises(pp.errors.InputError, match="no configuration that closes"):
        pp.forces.from_model(pp.System(model, [far]))


def test_joints_that_a_motor_moves_are_not_held_to_the_target():
    """Nor is the clock; among the drives, its errors would be made up for by the others."""
    builder, rod = pp.ModelBuilder(gravity=(0, -9.81, 0)), pp.SpatialInertia(1.0, (0.5, 0, 0), 0.1)
    builder.add_body("a", inertia=rod)
    builder.add_body("b", parent="a", placement=pp.Pose(None, (1, 0, 0)), inertia=rod)
    builder.add_clock()
    swing = pp.constraints.Motor(name="motor", joint="a", angle=lambda t: 0.3 * np.sin(2 * t))
    system = pp.System(builder.build(), [swing])
    q, v = system.project([0, 0.5, 0], [0, 0, 1])
    by_default, by_name, of_all = (
        pp.control.ComputedTorque(system, [0, 0.2, 0], 20.0, 5.0, actuated=names)(0.0, q, v)
        for names in (None, ["b"], ["a", "b"])
    )
    np.testing.assert_array_equal(by_default, by_name)
    assert abs(of_all[1] - by_name[1]) > 1
    vdot = pp.forward_dynamics(system, q, v, by_default)
    np.testing.assert_allclose(vdot[1], 20 * (0.2 - q[1]) - 5 * v[1], rtol=1e-12)
