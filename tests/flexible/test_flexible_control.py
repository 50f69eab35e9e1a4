"""Control of arms that bend: rest, gravity compensation, linear models, locks, and errors."""

import re

import numpy as np
import pytest
import scipy.linalg
from numpy.testing import assert_allclose

import phipsi as pp

pytestmark = pytest.mark.usefixtures("interpreted")

EI, LENGTH, DENSITY, LOAD, G = 40.0, 1.0, 1.0, 0.2, 9.81
JOINTS = [0, 3]  # rates of the joints; 1 and 2 are modes


def _arm(damping_ratio=0.01, gravity=G):
    builder = pp.ModelBuilder(gravity=(0, -gravity, 0))
    beam = pp.FlexibleInertia.beam(
        LENGTH, DENSITY, EI=(EI, np.inf), modes=0, damping_ratio=damping_ratio
    )
    hub = pp.SpatialInertia.sphere(0.3, mass=5.0)
    builder.add_body("hub", joint_name="shoulder", inertia=hub)
    builder.add_body("beam", parent="hub", joint=pp.joints.Fixed(), inertia=beam)
    tool = pp.SpatialInertia.box((0.4, 0.1, 0.1), mass=LOAD)  # balanced about its joint
    builder.add_body("tool", parent="beam", port="tip", joint_name="wrist", inertia=tool)
    return builder.build()


ARM, REST = _arm(), np.zeros(4)
TARGET = np.array([0.0, 0.0, 0.0, -0.4])


def test_rest_of_an_arm_that_is_held():
    """The tip of a horizontal beam sags by P L³/3EI + ρ g L⁴/8EI, as beams do."""
    found = pp.equilibrium(ARM, q=TARGET, unknowns=("modes", "tau[shoulder]", "tau[wrist]"))
    assert_allclose(found.q[JOINTS], TARGET[JOINTS], atol=1e-15)
    beam = ARM.flexible[1]
    assert beam is not None
    sag = beam.port_pose("tip", found.q[1:3]).translation[1]
    expected = LOAD * G * LENGTH**3 / (3 * EI) + DENSITY * G * LENGTH**4 / (8 * EI)
    assert_allclose(-sag, expected, rtol=2e-3)  # of first order in the deflection
    assert_allclose(pp.forward_dynamics(ARM, found.q, REST, found.tau), 0, atol=1e-9)
    assert found.tau[1] == found.tau[2] == 0
    with pytest.raises(pp.errors.ConvergenceError, match=r"are not balanced"):
        pp.equilibrium(ARM, q=TARGET, unknowns=("tau[shoulder]", "tau[wrist]"))  # modes are stiff


def test_rest_of_a_loop_with_a_rod_that_bends():
    """Held by a spring at its crank: nothing accelerates, near the rest of the rigid bodies."""
    builder = pp.ModelBuilder(gravity=(0, -G, 0))
    bar = pp.SpatialInertia.box((0.8, 0.1, 0.1), mass=1.0)
    rod = pp.FlexibleInertia.beam(1.0, 1.0, EI=(60.0, np.inf), modes=0)
    builder.add_body("crank", inertia=bar)
    there = pp.Pose(translation=(0.5, 0, 0))
    builder.add_body("rod", parent="crank", placement=there, inertia=rod)
    builder.add_body("rocker", parent="rod", port="tip", inertia=bar)
    ends = {"a": ("rocker", (0.8, 0, 0)), "b": ("world", (1.2, 0, 0))}
    pin = pp.constraints.Revolute((0, 0, 1), name="pin", **ends)
    system = pp.System(builder.build(), [pin])
    rigid = system.with_rigid_bodies()
    q = np.insert(rigid.assemble([1.0, -0.8, -1.5]), 2, [0, 0])
    spring = pp.forces.JointSpring("crank", 300.0, rest=q[:1])
    rest = pp.equilibrium(system, [spring], q=q)
    assert np.abs(system.residual(rest.q)).max() < 1e-10
    moves = pp.forward_dynamics(system, rest.q, np.zeros(5), rest.efforts)
    assert np.abs(moves).max() < 1e-7
    other = pp.equilibrium(rigid, [spring], q=q[[0, 1, 4]]).q
    assert 1e-3 < np.abs(rest.q[[0, 1, 4]] - other).max() < 0.05


def test_gravity_compensation_leaves_the_joints_where_they_shall_be():
    """At rest its efforts are those that hold the arm; else springs at the joints are added."""
    control = pp.control.PDGravity(ARM, TARGET, kp=30.0, kd=4.0)
    held = pp.equilibrium(ARM, q=TARGET, unknowns=("modes", "tau[shoulder]", "tau[wrist]"))
    assert_allclose(control(0.0, held.q, REST), held.tau, atol=1e-10)
    q, v = held.q + [0.1, 0.02, 0.0, -0.3], np.array([0.2, 0.5, 0.1, -0.1])
    tau = control(0.0, q, v)
    pull = -30.0 * (q - TARGET) - 4.0 * v
    assert_allclose(tau[JOINTS], (pp.gravity_forces(ARM, q) + pull)[JOINTS], atol=1e-12)
    assert not tau[1:3].any()
    path = pp.control.JointPath(ARM, [REST, TARGET], [0.0, 1.0])
    assert_allclose(pp.control.PDGravity(ARM, path, 1.0, 1.0)(2.0, TARGET, REST)[3], 0, atol=1e-12)


def test_an_arm_with_gravity_compensation_comes_to_rest():
    control = pp.control.PDGravity(ARM, TARGET, kp=[40.0, 0, 0, 1.0], kd=[6.0, 0, 0, 0.1])
    held = pp.equilibrium(ARM, q=TARGET, unknowns=("modes", "tau[shoulder]", "tau[wrist]"))
    q = held.q + [0.05, 0, 0, 0.05]
    run = pp.simulate(
        ARM, q, REST, 0.4, controller=control, integrator="linearly_implicit", dt=4e-3
    )
    off = np.abs(run.q - held.q)
    assert off[-1, 0] < 0.25 * off[0, 0] and off[-1, 1:3].max() < 5e-3
    assert abs(run.q[-1, 1]) > 5e-3  # it sags


def test_poles_are_the_natural_frequencies():
    """Of an arm that hangs, without damping: ± i ω; with it, as much damping as was asked for."""
    arm = _arm(damping_ratio=0.0)
    down = np.array([-np.pi / 2, 0.0, 0.0, 0.0])
    poles = pp.linearize(arm, down).poles()
    frequencies = pp.natural_frequencies(arm, down)
    assert_allclose(np.sort(np.abs(poles.imag))[::2], frequencies, rtol=1e-6, atol=1e-6)
    assert np.abs(poles.real).max() < 1e-6 and frequencies[1] > 1.0  # the wrist is balanced
    damped = pp.linearize(ARM, down).poles()
    assert damped.real.min() < -0.1 and damped.real.max() < 1e-9
    control = pp.control.PDGravity(ARM, TARGET, kp=[40.0, 0, 0, 1.0], kd=[6.0, 0, 0, 0.1])
    held = pp.equilibrium(ARM, q=TARGET, unknowns=("modes", "tau[shoulder]", "tau[wrist]"))
    assert pp.linearize(ARM, held.q, laws=[control]).poles().real.max() < -1.0


def test_a_regulator_of_joints_and_modes():
    """LQR with efforts at the joints alone: the linear model decays as the mechanism does."""
    held = pp.equilibrium(ARM, q=TARGET, unknowns=("modes", "tau[shoulder]", "tau[wrist]"))
    model = pp.linearize(ARM, held.q, tau=held.tau, inputs=["shoulder", "wrist"])
    A, B = model.A, model.B
    assert A.shape == (8, 8) and B.shape == (8, 2)
    cost = np.diag([0.1, 10.0])
    S = scipy.linalg.solve_continuous_are(A, B, np.diag([50.0] * 4 + [1.0] * 4), cost)
    gain = np.linalg.solve(cost, B.T @ S)
    closed = A - B @ gain
    assert np.linalg.eigvals(closed).real.max() < -0.5

    def regulate(t, q, v):
        tau = held.tau.copy()
        tau[JOINTS] -= gain @ np.concatenate([q - held.q, v])
        return tau

    start = np.array([0.01, 0.001, 0.0, -0.02])
    run = pp.simulate(
        ARM, held.q + start, REST, 0.06, controller=regulate, integrator="rk4", dt=2e-3
    )
    linear = scipy.linalg.expm(0.06 * closed) @ [*start, *REST]
    assert_allclose(run.q[-1] - held.q, linear[:4], atol=2e-3 * np.abs(start).max())
    free = scipy.linalg.expm(0.06 * A) @ [*start, *REST]
    assert np.abs(free[:4] - linear[:4]).max() > 0.1 * np.abs(start).max()


# ---- joints that are locked during a run


@pytest.mark.parametrize("name", ["shoulder", "wrist"])
def test_a_joint_that_is_locked_stops_and_modes_go_on(name):
    """v⁺ = v − ℳ⁻¹ e (e* ℳ⁻¹ e)⁻¹ v_k, and energy that is lost as it says."""
    q, v = np.array([0.3, 0.01, -0.001, -0.4]), np.array([0.5, 0.1, 0.02, -0.7])
    lock = pp.Event(lambda t, q, v: t - 0.004, action=pp.topology.Lock(name))
    run = pp.simulate(ARM, q, v, 0.006, events=[lock], rtol=1e-5, atol=1e-8)
    i = int(np.argmin(np.abs(run.t - 0.004)))
    assert run.t[i] == run.t[i + 1]
    at, before, after = run.q[i], run.v[i], run.v[i + 1]
    k = ARM.joint_rates(name).start
    inverse = np.linalg.inv(pp.mass_matrix(ARM, at))
    assert_allclose(after, before - inverse[:, k] / inverse[k, k] * before[k], atol=1e-9)
    assert after[k] == 0 and run.q[-1, k] == at[k]
    assert np.abs(run.q[-1, 1:3] - at[1:3]).max() > 1e-5  # it goes on bending
    held = run.v[i + 1 :]
    assert not held[:, k].any()


# ---- what is rejected, and why


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda: pp.control.ComputedTorque(ARM, TARGET, 1.0, 1.0), "modes are not actuated"),
        (
            lambda: pp.control.OperationalSpace(ARM, "tool", pp.Pose(), 1.0, 1.0),
            "which also depends on modes, and these are not actuated",
        ),
        (
            lambda: pp.control.PDGravity(ARM, TARGET, 1.0, 1.0, actuated=["wrist"]),
            "requires every joint to be actuated",
        ),
        (
            lambda: pp.forces.JointDamper(None, 0.1).bind(ARM),
            r"those of modes .* JointDamper\(\['shoulder', 'wrist'\], …\)",
        ),
        (
            lambda: pp.forces.JointSpring(None, 0.1).bind(ARM),
            "JointSpring.* the same stiffness has no physical meaning",
        ),
    ],
    ids=["ComputedTorque", "OperationalSpace", "actuated", "JointDamper", "JointSpring"],
)
def test_what_modes_rule_out_is_said_in_physics(call, why):
    with pytest.raises(pp.errors.InputError) as caught:
        call()
    text = " ".join(str(caught.value).split())
    assert re.search(why, text), text


def test_modes_have_no_drive():
    """Drives at all joints: a motion whose modes need efforts of their own is not theirs."""
    q, v = np.array([0.2, 0.01, -0.02, 0.3]), np.array([0.1, 0.3, -0.2, 0.4])
    efforts = np.zeros(4)
    efforts[JOINTS] = 3.0, -0.5
    free = pp.forward_dynamics(ARM, q, v, efforts)
    found = pp.inverse_dynamics(ARM, q, v, free, actuated=ARM.joint_names)
    assert_allclose(found, efforts, atol=1e-9)
    reason = "Modes of flexible bodies cannot be actuated: pass"
    with pytest.raises(pp.errors.InputError, match=reason):
        pp.inverse_dynamics(ARM, q, v, free + [0, 1, 0, 0], actuated=ARM.joint_names)


def test_dampers_with_a_number_for_every_rate():
    tau = pp.forces.JointDamper(None, [0.1, 0.0, 0.0, 0.2]).bind(ARM)
    efforts = tau.efforts(pp.forces.State(ARM, 0.0, REST, np.ones(4)))
    assert_allclose(efforts, [-0.1, 0, 0, -0.2])
