"""Controllers: error dynamics against closed forms, and algebra at random states."""

import warnings

import numpy as np
import pytest
from amounts import examples, seeds
from hypothesis import assume, given, settings, strategies as st
from random_models import ALL, chain, model_from_parents, models, random_tree
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import phipsi as pp
from phipsi.attached.file_metadata import FileMetadata, JointProperties
from phipsi.core.spatial import so3_log
from phipsi.simulation.control.operational_space import (
    INERTIA,
    NULL_PROJECTOR,
    POINT_GRAVITY_FORCES,
    VELOCITY_FORCES,
)
from phipsi.simulation.control.tracking import Tracking

pytestmark = pytest.mark.usefixtures("interpreted")  # the algebra, once on each of many mechanisms

ARM = pp.examples.seven_joint_arm()
POSTURE = np.array([0.2, 0.6, -0.3, 1.1, 0.4, 0.9, 0.2])


@pytest.fixture
def arm(interpreted, monkeypatch):
    """The same arm on the native backend: closed loops call the dynamics thousands of times."""
    monkeypatch.setenv("PHIPSI_BACKEND", "native")
    return pp.examples.seven_joint_arm()


def closed_loop(model, controller, q0, v0, times, loss=0.0):
    """q and v at the times, integrated tightly; joints with q̇ = v only."""
    n = model.nv

    def rate(t, x):
        q, v = x[:n], x[n:]
        tau = controller(t, q, v) - loss * v
        return np.concatenate([v, pp.forward_dynamics(model, q, v, tau)])

    x0 = np.concatenate([q0, v0])
    run = solve_ivp(rate, (0, times[-1]), x0, method="DOP853", t_eval=times, rtol=1e-10, atol=1e-12)
    assert run.success
    return run.y[:n].T, run.y[n:].T


def linear(e0, e0_rate, kp, kd, t):
    """e(t) of ë + kd ė + kp e = 0 by the matrix exponential."""
    A = np.array([[0.0, 1.0], [-kp, -kd]])
    return (expm(A * t) @ np.array([e0, e0_rate]))[0]


def accelerations(model, controller, q, v, t=0.0):
    return pp.forward_dynamics(model, q, v, controller(t, q, v))


# ---- references ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_joint_paths_are_consistent_motions_on_all_joint_types(seed):
    """v and vdot are the derivatives of q on the manifold, by central differences."""
    model = chain(10, seed, ALL)
    path = pp.control.JointPath(model, model.random_configuration(seed, (3,)), [0.5, 1.5, 4.0])
    h = 1e-5
    for t in (0.9, 1.2, 2.0, 3.3):
        now, ahead, behind = path(t), path(t + h), path(t - h)
        v = model.difference(behind.q, ahead.q) / (2 * h)
        np.testing.assert_allclose(v, now.v, atol=1e-7 * (1 + np.abs(now.v).max()))
        vdot = (ahead.v - behind.v) / (2 * h)
        np.testing.assert_allclose(vdot, now.vdot, atol=1e-7 * (1 + np.abs(now.vdot).max()))
    for t, k in ((0.0, 0), (0.5, 0), (1.5, 1), (4.0, 2), (9.0, 2)):
        at = path(t)
        np.testing.assert_allclose(
            pp.poses(model, at.q), pp.poses(model, path.waypoints[k]), atol=1e-12
        )
        np.testing.assert_allclose(at.v, 0, atol=1e-12)
        np.testing.assert_allclose(at.vdot, 0, atol=1e-12)


def test_cartesian_paths_are_consistent_motions():
    rng = np.random.default_rng(0)
    quaternions = rng.standard_normal((3, 4))
    quaternions /= np.linalg.norm(quaternions, axis=-1, keepdims=True)
    poses = [pp.Pose(u, rng.standard_normal(3)) for u in quaternions]
    path = pp.control.CartesianPath(poses, [0.0, 1.0, 3.0])
    h = 1e-5
    for t in (0.3, 0.7, 1.4, 2.9):
        now, ahead, behind = path(t), path(t + h), path(t - h)
        turn = so3_log(ahead.pose[:3, :3] @ behind.pose[:3, :3].T)
        V = np.r_[turn, ahead.pose[:3, 3] - behind.pose[:3, 3]] / (2 * h)
        np.testing.assert_allclose(now.velocity, V, atol=1e-8)
        A = (ahead.velocity - behind.velocity) / (2 * h)
        np.testing.assert_allclose(now.acceleration, A, atol=1e-8)
    for t, pose in ((-1.0, poses[0]), (1.0, poses[1]), (5.0, poses[2])):
        np.testing.assert_allclose(path(t).pose, pose.matrix, atol=1e-14)
        assert not path(t).velocity.any()
    # slerp: halfway in time is halfway in angle, about one axis
    R0, R1 = poses[0].rotation, poses[1].rotation
    half = so3_log(R0.T @ path(0.5).pose[:3, :3])
    np.testing.assert_allclose(2 * half, so3_log(R0.T @ R1), atol=1e-13)


# ---- computed torque -------------------------------------------------------------------------


def test_computed_torque_gives_the_linear_error_equation(arm):
    """e(t) of a moving reference against the closed form, per joint with its own gains."""
    rng = np.random.default_rng(0)
    kp, kd = np.linspace(9, 60, 7), np.linspace(4, 20, 7)  # under- and overdamped
    ways = np.stack([POSTURE, POSTURE + 0.5, POSTURE - 0.3])
    path = pp.control.JointPath(arm, ways, [0.0, 0.8, 2.0])
    control = pp.control.ComputedTorque(arm, path, kp, kd, compensate_damping=True)
    e0, e0_rate = rng.uniform(-0.3, 0.3, 7), rng.uniform(-1, 1, 7)
    times = np.linspace(0, 2, 9)
    q, _ = closed_loop(arm, control, ways[0] - e0, -e0_rate, times, loss=arm.damping)
    for t, at in zip(times, q, strict=True):
        expected = [linear(e0[i], e0_rate[i], kp[i], kd[i], t) for i in range(7)]
        np.testing.assert_allclose(path(t).q - at, expected, atol=1e-8)


def references_of(model, seed):
    """States and accelerations of a motion and of its reference, at random."""
    rng = np.random.default_rng(seed)
    q, q_ref = model.random_configuration(rng), model.random_configuration(rng)
    v, v_ref, vdot_ref = rng.standard_normal((3, model.nv))
    return q, v, q_ref, v_ref, vdot_ref


@settings(max_examples=examples(100))
@given(models(max_bodies=5), st.integers(0, 2**32 - 1))
def test_computed_torque_on_all_joint_types(model, seed):
    """Along the closed loop, d/dt of the errors' rates is −kd e_rate − kp e; by differences."""
    q, v, q_ref, v_ref, vdot_ref = references_of(model, seed)
    rng = np.random.default_rng(seed)
    kp, kd = rng.uniform(1, 9, (2, model.nv))
    control = pp.control.ComputedTorque(
        model, lambda t: (q_ref, v_ref, vdot_ref), kp, kd, actuated=model.joint_names
    )
    vdot = accelerations(model, control, q, v)
    tracking = Tracking(model)
    e, e_rate, _ = tracking.errors(q, v, q_ref, v_ref, vdot_ref)
    assume(np.abs(e).max(initial=0) < 3)  # a half turn off, the logarithm jumps

    def moved(h):
        at = model.integrate(q, h * v + h * h / 2 * vdot), v + h * vdot
        to = model.integrate(q_ref, h * v_ref + h * h / 2 * vdot_ref), v_ref + h * vdot_ref
        return tracking.errors(*at, *to, vdot_ref)

    # Third derivatives of the reference are zero on the manifold only up to products of rates, so
    # the error of central differences is h² times those: 1e-7 of them.
    h = 1e-4
    scale = 1 + np.abs(vdot).max() ** 2 + np.abs(v).max() ** 4
    slope = (moved(h).e_rate - moved(-h).e_rate) / (2 * h)
    np.testing.assert_allclose(slope, -kd * e_rate - kp * e, atol=1e-6 * scale)
    # and |e|² falls as e · e_rate says, although e itself does not have the rate e_rate
    square = (np.sum(moved(h).e ** 2) - np.sum(moved(-h).e ** 2)) / (4 * h)
    np.testing.assert_allclose(square, e @ e_rate, atol=1e-6 * scale)


@settings(max_examples=examples(100))
@given(models(max_bodies=5), st.integers(0, 2**32 - 1))
def test_on_the_reference_computed_torque_is_inverse_dynamics(model, seed):
    q, v, _, _, vdot = references_of(model, seed)
    control = pp.control.ComputedTorque(
        model, lambda t: (q, v, vdot), 5.0, 3.0, actuated=model.joint_names
    )
    np.testing.assert_allclose(
        control(0.0, q, v), pp.inverse_dynamics(model, q, v, vdot), rtol=1e-9, atol=1e-9
    )


@settings(max_examples=examples(100))
@given(models(max_bodies=5), st.integers(0, 2**32 - 1))
def test_errors_agree_with_the_difference_on_the_manifold(model, seed):
    """Where both are flat or pure rotations; positions of free and planar joints by their norm."""
    q, v, q_ref, v_ref, vdot_ref = references_of(model, seed)
    e = Tracking(model).errors(q, v, q_ref, v_ref, vdot_ref).e
    difference = model.difference(q, q_ref)
    for joint, at, of in zip(model.joints, model.v_slices, model.q_slices, strict=True):
        if joint.kind == "free":
            np.testing.assert_allclose(e[at][:3], difference[at][:3], atol=1e-12)
            np.testing.assert_allclose(e[at][3:], (q_ref - q)[of][4:], atol=1e-12)
        elif joint.kind == "planar":
            np.testing.assert_allclose(e[at][0], difference[at][0], atol=1e-12)
            np.testing.assert_allclose(e[at][1:], (q_ref - q)[of][1:], atol=1e-12)
        elif not joint.kind.startswith("composite"):
            np.testing.assert_allclose(e[at], difference[at], atol=1e-12)


# ---- PD with gravity compensation ------------------------------------------------------------


def test_pd_with_gravity_compensation_comes_to_rest_at_the_reference(arm):
    felt = np.diagonal(pp.mass_matrix(arm, POSTURE))  # the same gains for all would be stiff
    kp, kd = 60 * felt, 12 * felt
    control = pp.control.PDGravity(arm, POSTURE, kp, kd)
    times = np.linspace(0, 12, 25)
    q, v = closed_loop(arm, control, POSTURE - 0.4, np.ones(7), times)
    e = POSTURE - q
    energy = pp.kinetic_energy(arm, q, v) + 0.5 * np.sum(kp * e**2, axis=-1)
    assert (np.diff(energy) < 0).all()
    assert np.abs(e[-1]).max() < 1e-6 and np.abs(v[-1]).max() < 1e-6


@settings(max_examples=examples(100))
@given(models(max_bodies=5), st.integers(0, 2**32 - 1))
def test_pd_energy_falls_by_the_power_of_its_dampers(model, seed):
    """d/dt (½ v* ℳ v + ½ kp |e|²) = −kd |v|² at random states of all joint types."""
    q, v, q_ref, _, _ = references_of(model, seed)
    kp, kd = 7.0, 3.0
    control = pp.control.PDGravity(model, q_ref, kp, kd, actuated=model.joint_names)
    tracking, zero = Tracking(model), np.zeros(model.nv)
    e = tracking.errors(q, v, q_ref, zero, zero).e
    assume(np.abs(e).max(initial=0) < 3)
    tau = control(0.0, q, v)
    # The power of everything but gravity: τ − gravity forces. Springs store −e · ė = e · (motion).
    power = v @ (tau - pp.gravity_forces(model, q))

    def stored(h):
        moved = model.integrate(q, h * v)
        return 0.5 * kp * np.sum(tracking.errors(moved, v, q_ref, zero, zero).e ** 2)

    h = 1e-5
    stored_rate = (stored(h) - stored(-h)) / (2 * h)
    damped = v @ tracking.efforts(q, kd * tracking.errors(q, v, q, zero, zero).e_rate)
    np.testing.assert_allclose(power, damped - stored_rate, atol=1e-6 * (1 + v @ v) * 20)
    assert damped <= 0
    np.testing.assert_allclose(damped, -kd * v @ v, rtol=1e-9)


# ---- with simulate, on quaternion joints -----------------------------------------------------


@pytest.fixture
def ball_arm(interpreted, monkeypatch):
    """A free body with a spherical and two revolute joints on it."""
    monkeypatch.setenv("PHIPSI_BACKEND", "native")
    return chain(4, 1, ("free", "spherical", "revolute", "revolute"))


def test_computed_torque_turns_quaternion_joints_by_the_closed_form(ball_arm):
    """Errors that begin as turns about one axis stay there and obey the linear equation."""
    goal = ball_arm.random_configuration(2)
    axis = np.array([0.6, 0.0, 0.8])
    off = np.zeros(ball_arm.nv)
    off[:3], off[6:9], off[9:] = 1.2 * axis, -0.9 * axis, (0.3, -0.4)
    start = ball_arm.integrate(goal, off)
    kp, kd = 16.0, 5.0
    control = pp.control.ComputedTorque(ball_arm, goal, kp, kd, actuated=ball_arm.joint_names)
    times = np.linspace(0, 2, 5)
    zero = np.zeros(ball_arm.nv)
    run = pp.simulate(ball_arm, start, zero, 2.0, controller=control, output_times=times)
    tracking = Tracking(ball_arm)
    e0 = tracking.errors(start, zero, goal, zero, zero).e
    np.testing.assert_allclose(e0, -off, atol=1e-12)
    for t, q in zip(run.t, run.q, strict=True):
        e = tracking.errors(q, zero, goal, zero, zero).e
        np.testing.assert_allclose(e, linear(1.0, 0.0, kp, kd, t) * e0, atol=1e-7)


def test_pd_brings_quaternion_joints_to_rest(ball_arm):
    goal, start = ball_arm.random_configuration(2), ball_arm.random_configuration(3)
    felt = np.diagonal(pp.mass_matrix(ball_arm, goal)).copy()
    for at in ball_arm.v_slices:
        felt[at] = felt[at].mean()  # the same in all directions of a joint
    control = pp.control.PDGravity(
        ball_arm, goal, 9 * felt, 6 * felt, actuated=ball_arm.joint_names
    )
    zero = np.zeros(ball_arm.nv)
    run = pp.simulate(
        ball_arm, start, zero, 8.0, controller=control, output_times=[0, 4, 8], rtol=1e-6, atol=1e-8
    )
    away = np.linalg.norm(ball_arm.difference(run.q, goal), axis=-1)
    assert away[0] > 1 and away[1] < 0.1 * away[0] and away[2] < 1e-3 * away[0]


# ---- operational space -----------------------------------------------------------------------


def operational(model, frame, seed, **options):
    """A controller with a random moving reference, a state, and the acceleration it asks for."""
    rng = np.random.default_rng(seed)
    q, v = model.random_configuration(rng), rng.standard_normal(model.nv)
    near = pp.poses(model, model.random_configuration(rng), [frame])[0]
    motion = rng.standard_normal((2, 6))
    kp, kd = rng.uniform(1, 9, (2, 6))
    control = pp.control.OperationalSpace(
        model, frame, lambda t: (near, *motion), kp, kd, actuated=model.joint_names, **options
    )
    X = pp.poses(model, q, [frame])[0]
    V = pp.velocities(model, q, v, [frame], axes="world")[0]
    e = np.r_[so3_log(near[:3, :3] @ X[:3, :3].T), near[:3, 3] - X[:3, 3]]
    return control, q, v, motion[1] + kd * (motion[0] - V) + kp * e


def frame_acceleration(model, frame, q, v, tau):
    vdot = pp.forward_dynamics(model, q, v, tau)
    return pp.jacobian(model, q, [frame]) @ vdot + pp.jacobian_dot(
        model, q, v, [frame], times_v=True
    )


TREES = [
    *(random_tree(s, 5, frames=True) for s in range(20)),
    *(random_tree(s, 5, ("free", *["revolute", "spherical"] * 2), frames=True) for s in range(4)),
    *(model_from_parents([-1, 0, 1, 2, 0], s, ("free", *ALL[4:8]), frames=True) for s in range(4)),
]


def states_with_six_directions():
    """Trees of all joint types, with states at which the last frame can accelerate at will."""
    for model in TREES:
        frame = f"f{model.n_bodies - 1}"
        if model.nv < 6:
            continue
        probe = pp.control.OperationalSpace(
            model, frame, pp.Pose(), 1, 1, actuated=model.joint_names
        )
        for seed in seeds(3):
            q = model.random_configuration(np.random.default_rng(seed))
            if probe.conditioning(q) > 1e-3:
                yield model, frame, seed


def test_the_null_space_task_does_not_disturb_the_frame():
    """On random trees: the frame has the acceleration asked for, whatever τ₀ is."""
    kinds: set[str] = set()
    count = 0
    for model, frame, seed in states_with_six_directions():
        push = np.random.default_rng(seed + 1).standard_normal(model.nv) * 50
        control, q, v, wanted = operational(
            model, frame, seed, null_space=lambda t, q, v, push=push: push
        )
        tau = control(0.0, q, v)
        inverse = pp.mass_matrix_inverse(model, q)
        J = pp.jacobian(model, q, [frame])
        # what the acceleration is the small difference of
        scale = np.abs(wanted).max() + np.abs(J @ inverse).sum(axis=-1).max() * np.abs(tau).max()
        found = frame_acceleration(model, frame, q, v, tau)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-9 * scale)
        N = control.null_projector(q)
        np.testing.assert_allclose(J @ inverse @ N @ push, 0, atol=1e-9 * scale)
        np.testing.assert_allclose(N @ N, N, atol=1e-9 * (1 + np.abs(N).max()) ** 2)
        other = pp.control.OperationalSpace(
            model, frame, control.reference, control.kp, control.kd, actuated=model.joint_names
        )
        difference = tau - other(0.0, q, v)
        size = np.abs(N).sum(axis=-1).max() * np.abs(tau).max()
        np.testing.assert_allclose(N @ difference, difference, rtol=0, atol=1e-9 * size)
        assert control.damped_calls == 0
        kinds |= {joint.kind.partition("(")[0] for joint in model.joints}
        count += 1
    assert count >= 20 * len(seeds(3)) // 3 and kinds == set(ALL), (count, set(ALL) - kinds)


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 5])
def test_terms_are_those_of_the_operator_expressions(seed):
    """Λ⁻¹, μ, p and I − J* J̄*, compiled as expressions, and the textbook form of the law."""
    flyer = pp.examples.free_flyer().with_gravity((0.1, -0.3, -9.81))
    frame = "left_tool"
    rest = np.random.default_rng(seed).standard_normal(flyer.nv)
    control, q, v, wanted = operational(flyer, frame, seed, null_space=lambda t, q, v: rest)
    assert control.conditioning(q) > 1e-3
    inertia, mu, p = control.dynamics(q, v)
    N = control.null_projector(q)
    for ours, expr, mode, arguments in (
        (inertia, INERTIA, "dense", (q,)),
        (mu, VELOCITY_FORCES, "apply", (q, v)),
        (p, POINT_GRAVITY_FORCES, "apply", (q,)),
        (N, NULL_PROJECTOR, "dense", (q,)),
    ):
        theirs = pp.compile(expr, flyer, mode=mode, points=[frame])(*arguments)
        np.testing.assert_allclose(
            ours, theirs.reshape(ours.shape), atol=1e-9 * np.abs(theirs).max()
        )
    J = pp.jacobian(flyer, q, [frame])
    tau = J.T @ (inertia @ wanted + mu + p) + N @ rest
    np.testing.assert_allclose(control(0.0, q, v), tau, atol=1e-9 * np.abs(tau).max())


def test_a_frame_follows_a_path_with_decoupled_error_dynamics(arm):
    """Position errors against the closed form, rotation about one axis too, with two rests."""
    start = pp.poses(arm, POSTURE, ["tool"])[0]
    turn = pp.Pose((np.cos(0.3), 0, 0, np.sin(0.3)))
    end = pp.Pose(start[:3, :3] @ turn.rotation, start[:3, 3] + (-0.1, 0.15, -0.1))
    path = pp.control.CartesianPath([start, end], [0.0, 1.0])
    kp, kd = np.array([25, 25, 25, 40, 16, 9.0]), np.array([10, 10, 10, 5, 8, 6.0])
    v0 = np.random.default_rng(0).uniform(-0.3, 0.3, 7)
    q0 = POSTURE + 0.05
    times = np.linspace(0, 1.5, 7)
    felt = np.diagonal(pp.mass_matrix(arm, POSTURE))
    results = []
    for rest in (POSTURE, POSTURE + (0.5, -0.2, 0.4, 0.1, -0.6, 0.2, 0.3)):
        null = pp.control.PDGravity(arm, rest, kp=20 * felt, kd=6 * felt)
        control = pp.control.OperationalSpace(arm, "tool", path, kp, kd, null_space=null)
        q, v = closed_loop(arm, control, q0, v0, times)
        e0, rate0 = control.errors(0.0, q0, v0)
        for t, at, rate in zip(times, q, v, strict=True):
            e, _ = control.errors(t, at, rate)
            expected = [linear(e0[i], rate0[i], kp[i], kd[i], t) for i in (3, 4, 5)]
            np.testing.assert_allclose(e[3:], expected, atol=1e-8)
        assert control.damped_calls == 0
        results.append((q, np.linalg.norm(control.errors(times[-1], q[-1], v[-1])[0][:3])))
    assert results[0][1] < 0.02 * np.linalg.norm(e0[:3])
    assert np.abs(results[0][0][-1] - results[1][0][-1]).max() > 0.05  # the rests made a difference


def test_position_and_single_axis_tasks():
    arm = pp.examples.planar_arm(3)
    q, v = np.array([0.3, 0.6, 0.9]), np.array([0.4, -0.2, 0.7])
    goal = (1.5, 1.2, 0.0)
    for components, rows in (((3, 4), [3, 4]), ((2,), [2]), ((2, 3, 4), [2, 3, 4])):
        control = pp.control.OperationalSpace(arm, "tip", goal, 9.0, 6.0, components=components)
        a = frame_acceleration(arm, "tip", q, v, control(0.0, q, v))
        e, e_rate = control.errors(0.0, q, v)
        np.testing.assert_allclose(a[rows], 9 * e + 6 * e_rate, atol=1e-10)


def test_offsets_and_batches():
    point = ("tool", (0.0, 0.1, 0.05))
    control = pp.control.OperationalSpace(
        ARM, point, (0.4, 0.2, 0.5), 9.0, 6.0, components="position"
    )
    q = ARM.random_configuration(0, (2, 3))
    v = np.random.default_rng(1).standard_normal((2, 3, 7))
    tau = control(0.0, q, v)
    for index in np.ndindex(2, 3):
        np.testing.assert_allclose(tau[index], control(0.0, q[index], v[index]), rtol=1e-9)
        J = pp.jacobian(ARM, q[index], [point])
        vdot = pp.forward_dynamics(ARM, q[index], v[index], tau[index])
        a = (J @ vdot + pp.jacobian_dot(ARM, q[index], v[index], [point], times_v=True))[3:]
        e, e_rate = control.errors(0.0, q[index], v[index])
        np.testing.assert_allclose(a, 9 * e + 6 * e_rate, atol=1e-8)
    for law in (
        pp.control.ComputedTorque(ARM, POSTURE, 9.0, 6.0),
        pp.control.PDGravity(ARM, POSTURE, 9.0, 6.0),
    ):
        np.testing.assert_allclose(law(0.0, q, v)[1, 2], law(0.0, q[1, 2], v[1, 2]), rtol=1e-9)


def test_singularities_are_damped_and_reported():
    """The stretched arm cannot move outwards: efforts stay bounded, and it says so once."""
    stretched = np.zeros(7)
    control = pp.control.OperationalSpace(ARM, "tool", (0.0, 0.0, 2.0), 100.0, 20.0)
    with pytest.warns(pp.errors.PhipsiWarning, match="'tool' is near a singularity at t = 1.5 s"):
        tau = control(1.5, stretched, np.zeros(7))
    gravity = pp.gravity_forces(ARM, stretched)
    assert np.abs(tau - gravity).max() < 100.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for tiny in 10.0 ** np.arange(-9.0, 0):
            assert np.abs(control(0.0, POSTURE * tiny, np.zeros(7))).max() < 2e4
    assert control.damped_calls > 3
    assert control.conditioning(stretched) < 1e-12 < control.conditioning(POSTURE)


def test_damping_is_continuous_where_it_begins():
    s = np.geomspace(1e-6, 1e-2, 400)
    control = pp.control.OperationalSpace(ARM, "tool", pp.Pose(), 1, 1, components=(3, 4))
    matrix = np.zeros((400, 6, 6))
    matrix[:, 3, 3], matrix[:, 4, 4] = 1.0, s
    inverse = control._inverse(matrix)[0]
    ratio = inverse[1:, 1, 1] / inverse[:-1, 1, 1]
    assert (np.abs(np.log(ratio)) < 0.1).all() and inverse[:, 1, 1].max() < 3e4
    clear = s > 2e-4
    np.testing.assert_allclose(inverse[clear, 1, 1], 1 / s[clear], rtol=1e-12)


def test_the_default_null_space_lets_self_motion_die_out(arm):
    control = pp.control.OperationalSpace(
        arm, "tool", pp.poses(arm, POSTURE, ["tool"])[0], 100.0, 20.0, null_damping=3.0
    )
    J = pp.jacobian(arm, POSTURE, ["tool"])
    free = np.linalg.svd(J)[2][-1]
    q, v = closed_loop(arm, control, POSTURE, 0.5 * free, np.array([0.0, 1.0, 3.0]))
    e = [np.linalg.norm(control.errors(0.0, a, b)[0]) for a, b in zip(q, v, strict=True)]
    assert max(e) < 1e-8
    energies = pp.kinetic_energy(arm, q, v)
    # The rates of the self-motion fall as exp(−3 t), its energy with twice that rate; what it moves
    # is not quite the same inertia all the time.
    np.testing.assert_allclose(energies[1:], energies[0] * np.exp(-6 * np.array([1, 3])), rtol=0.1)


# ---- saturation ------------------------------------------------------------------------------


def rated(model: pp.Model, **efforts: float) -> pp.Model:

    joint_properties = tuple(
        JointProperties(joint, effort=effort) for joint, effort in efforts.items()
    )
    return model.with_attachment(FileMetadata(joint_properties=joint_properties))


def test_saturation_by_the_ratings_of_the_file():
    arm = rated(ARM, shoulder_pitch=30.0, elbow_pitch=10.0)
    inner = pp.control.PDGravity(arm, POSTURE + 1.0, 300.0, 10.0)
    control = pp.control.Saturated(inner, arm)
    free, cut = inner(0.0, POSTURE, np.zeros(7)), control(0.0, POSTURE, np.zeros(7))
    assert free[1] > 30 and free[3] > 10
    np.testing.assert_array_equal(
        cut, np.where([0, 1, 0, 1, 0, 0, 0], [0, 30, 0, 10, 0, 0, 0], free)
    )
    np.testing.assert_array_equal(control.saturated, [0, 1, 0, 1, 0, 0, 0])


# ---- refusals --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda m, **a: pp.control.ComputedTorque(m, m.neutral(), 9, 6, **a),
        lambda m, **a: pp.control.PDGravity(m, m.neutral(), 9, 6, **a),
        lambda m, **a: pp.control.OperationalSpace(m, "left_tool", pp.Pose(), 9, 6, **a),
    ],
)
def test_a_base_that_floats_has_no_drive_unless_it_is_named(make):
    flyer = pp.examples.free_flyer().with_gravity((0, 0, -9.81))
    base, *rest = flyer.joint_names
    with pytest.raises(
        pp.errors.InputError, match=rf"free joint '{base}' has no actuator(?s:.)*pp\.laws\.pid"
    ):
        make(flyer)
    v = np.zeros(flyer.nv)
    with pytest.raises(pp.errors.InputError, match="cannot drive this motion"):
        make(flyer, actuated=rest)(0.0, flyer.random_configuration(0), v)
    tau = make(flyer, actuated=flyer.joint_names)(0.0, flyer.random_configuration(0), v)
    assert tau.shape == (flyer.nv,) and np.abs(tau[:6]).max() > 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pp.control.ComputedTorque(ARM, [0.0], 1, 1), "nq = 7"),
        (lambda: pp.control.ComputedTorque(ARM, POSTURE, [1, 2], 1), "kp has shape"),
        (
            lambda: pp.control.PDGravity(ARM, POSTURE, 1, -1),
            "kd is -1.0 at joint 'shoulder_yaw'",
        ),
        (lambda: pp.control.PDGravity(ARM, np.full(7, np.nan), 1, 1), "not finite at joint"),
        (lambda: pp.control.OperationalSpace(ARM, "tol", pp.Pose(), 1, 1), "Did you mean"),
        (
            lambda: pp.control.OperationalSpace(ARM, "world", pp.Pose(), 1, 1),
            "fixed in the world",
        ),
        (lambda: pp.control.OperationalSpace(ARM, "tool", [1, 2], 1, 1), "a pose has shape"),
        (lambda: pp.control.OperationalSpace(ARM, "tool", pp.Pose(), [1, 2], 1), "kp="),
        (
            lambda: pp.control.OperationalSpace(ARM, "tool", pp.Pose(), 1, 1, components="x"),
            "components='x'",
        ),
        (
            lambda: pp.control.OperationalSpace(ARM, "tool", pp.Pose(), 1, 1, components=(7,)),
            "components=",
        ),
        (
            lambda: pp.control.OperationalSpace(ARM, "tool", pp.Pose(), 1, 1, singularity=0),
            "between 0 and 1",
        ),
        (lambda: pp.control.Saturated(print, ARM), "model.joint_properties"),
        (lambda: pp.control.JointPath(ARM, [POSTURE], [0.0]), "at least two"),
        (lambda: pp.control.JointPath(ARM, [POSTURE] * 2, [1.0, 1.0]), "increasing"),
        (lambda: pp.control.JointPath(ARM, np.zeros((2, 6)), [0.0, 1.0]), "nq = 7"),
        (lambda: pp.control.CartesianPath([pp.Pose()] * 2, [0.0, np.nan]), "increasing"),
    ],
)
def test_refusals(make, message):
    with pytest.raises((pp.errors.InputError, pp.errors.ModelError), match=message):
        make()


def test_nan_states_are_refused():
    for control in (
        pp.control.ComputedTorque(ARM, POSTURE, 1, 1),
        pp.control.PDGravity(ARM, POSTURE, 1, 1),
        pp.control.OperationalSpace(ARM, "tool", pp.Pose(), 1, 1),
    ):
        with pytest.raises(pp.errors.InputError, match="shoulder_pitch"):
            control(0.0, np.where(np.arange(7) == 1, np.nan, POSTURE), np.zeros(7))
