"""Constraints that are functions of coordinates and of time, against exact kinematics."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from amounts import seeds
from numpy.testing import assert_allclose
from random_systems import admissible, kkt, random_system

import phipsi as pp
from phipsi import constraints as c
from phipsi.algorithms.dynamics.dynamics_expressions import ROW_ACCELERATIONS
from phipsi.errors import ModelError
from phipsi.operators import A, J

INERTIA, MASS, G = 0.02, 0.5, 9.81
LIFT = 0.03


def profile(angle):
    return LIFT * (1 - np.cos(angle)) + 0.2 * LIFT * np.sin(2 * angle)


def slopes(angle):
    first = LIFT * np.sin(angle) + 0.4 * LIFT * np.cos(2 * angle)
    return first, LIFT * np.cos(angle) - 0.8 * LIFT * np.sin(2 * angle)


def shaft_and_valve():
    b = pp.ModelBuilder(gravity=(0, 0, -G))
    wheel = pp.SpatialInertia(1.0, (0, 0, 0), np.diag([0.01, INERTIA, 0.01]))
    b.add_body("shaft", joint=pp.joints.Revolute((0, 1, 0)), inertia=wheel)
    valve = pp.SpatialInertia(MASS, (0, 0, 0.1), 1e-3)
    b.add_body("valve", joint=pp.joints.Prismatic((0, 0, 1)), inertia=valve)
    return b


@pytest.fixture(scope="module")
def engine():
    cam = c.Cam(lambda angle, lift: lift - profile(angle), name="cam", joints=("shaft", "valve"))
    return pp.System(shaft_and_valve().build(), [cam])


def test_a_follower_accelerates_as_its_profile_says(engine):
    """ÿ = f'' θ̇² + f' θ̈, and (I + m f'²) θ̈ = τ − m f' (f'' θ̇² + g), by virtual work."""
    rng = np.random.default_rng(0)
    for angle, rate, tau in rng.uniform(-3, 3, (5, 3)):
        first, second = slopes(angle)
        q, v = [angle, profile(angle)], [rate, first * rate]
        found = pp.forward_dynamics(engine, q, v, [tau, 0.0], return_multipliers=True)
        push = MASS * (second * rate**2 + G)
        turn = (tau - first * push) / (INERTIA + MASS * first**2)
        assert_allclose(found.vdot, [turn, second * rate**2 + first * turn], rtol=1e-11)
        force = MASS * (found.vdot[1] + G)  # on the follower; the shaft feels −f' times it
        assert_allclose(-found.f, [force], rtol=1e-11)
        assert_allclose(INERTIA * found.vdot[0], tau - first * force, atol=1e-12)
        reactions = pp.joint_reactions(engine, q, v, [tau, 0.0])
        assert_allclose(reactions.closures[2, 5], force, rtol=1e-11)  # on the valve, along z
        assert_allclose(reactions.closures[0, 1], -first * force, rtol=1e-10)


@pytest.mark.usefixtures("machine_code")
def test_a_follower_keeps_its_energy_and_its_cam(engine):
    q, v = engine.project([0.4, 0.0], [12.0, 0.0])
    run = pp.simulate(engine, q, v, 0.5, rtol=1e-9, atol=1e-11)
    assert abs(run.constraint_residuals).max() < 1e-12
    assert_allclose(run.q[:, 1], profile(run.q[:, 0]), atol=1e-12)
    assert np.ptp(run.energy) < 1e-7 * run.energy[0]
    sim = pp.Simulator(engine, dt=1e-3)
    again = sim.rollout(sim.initial_state(q, v), steps=500, record_every=500)
    assert_allclose(again.q[-1], run.q[-1], atol=1e-7)


@pytest.mark.parametrize("seed", seeds(6))
def test_random_laws_have_rows_and_derivatives(seed):
    """Three joints in one law beside other constraints: dynamics and what q changes in them."""
    system, q = random_system(seed, 5, ("Cam", "Distance", "Cam"), spare=2)
    rng = np.random.default_rng(seed)
    v = admissible(system, q, rng)
    tau, vdot = rng.standard_normal((2, system.nv))
    want, _ = kkt(system, q, v, tau)
    assert_allclose(pp.forward_dynamics(system, q, v, tau), want, atol=1e-8 * abs(want).max())
    by_q = pp.compile(pp.diff(ROW_ACCELERATIONS, "q"), system, mode="dense")
    values = {"q": q, "v": v, "vdot": vdot}
    found = by_q(*(values[x] for x in by_q.inputs))
    dense = pp.evaluate_dense(pp.diff(ROW_ACCELERATIONS, "q"), system, q, v=v, vdot=vdot)
    assert_allclose(found, dense, atol=1e-10 * abs(dense).max())
    one, h = pp.compile(ROW_ACCELERATIONS, system), 1e-6

    def rows(at):
        return one(*({**values, "q": at}[x] for x in one.inputs))

    steps = [(system.integrate(q, e * h), system.integrate(q, -e * h)) for e in np.eye(system.nv)]
    slope = np.array([(rows(a) - rows(b)) / (2 * h) for a, b in steps]).T
    assert_allclose(found, slope, atol=1e-6 * abs(slope).max())


def test_gradients_of_runs_go_through_a_cam(engine):
    """By the adjoint of the compiled steps and their projection, and by differences."""
    q, v = engine.project([0.4, 0.0], [12.0, 0.0])
    options = {"tau": np.zeros((10, 2)), "dt": 2e-3, "steps": 10}

    def final(q, v):
        return q[..., 0], np.array([1.0, 0.0]) + 0 * q, None

    found = pp.rollout_gradient(engine, q, v, **options, final=final)
    scale, h = v / 12.0, 1e-4
    ends = [pp.rollout(engine, q, v + x * scale, **options)[0][-1, 0] for x in (h, -h)]
    assert_allclose(found.v0 @ scale, (ends[0] - ends[1]) / (2 * h), rtol=1e-7)


def test_a_slotted_wheel_turns_as_geneva_wheels_do():
    """sin φ (d − r cos θ) = r sin θ cos φ: a law that is solved for no joint."""
    r, d = 0.05, 0.12
    b = pp.ModelBuilder(gravity=(0, 0, 0))
    for name in ("crank", "wheel"):
        b.add_body(name, inertia=pp.SpatialInertia(1.0, (0, 0, 0), 0.01))

    def slot(theta, phi):
        return np.sin(phi) * (d - r * np.cos(theta)) - r * np.sin(theta) * np.cos(phi)

    system = pp.System(b.build(), [c.Cam(slot, name="slot", joints=("crank", "wheel"))])
    q = system.assemble([0.7, 0.1], fixed=["crank"])
    assert_allclose(q[1], np.arctan2(r * np.sin(0.7), d - r * np.cos(0.7)), atol=1e-12)
    ratio = (d * r * np.cos(0.7) - r**2) / (d**2 + r**2 - 2 * d * r * np.cos(0.7))
    _, v = system.project(q, [1.0, 0.0])
    assert_allclose(v[1] / v[0], ratio, rtol=1e-12)


# ---- motors --------------------------------------------------------------------------------------


def angle(t):
    return 0.5 * np.sin(3 * t) + 0.2 * t**2


def rate(t):
    return 1.5 * np.cos(3 * t) + 0.4 * t


def acceleration(t):
    return -4.5 * np.sin(3 * t) + 0.4


@pytest.fixture(scope="module")
def arm():
    b = pp.ModelBuilder(gravity=(0, -G, 0))
    rod = pp.SpatialInertia(1.0, (0.5, 0, 0), 1 / 12)
    b.add_body("upper", inertia=rod)
    b.add_body("lower", parent="upper", placement=pp.Pose(None, (1, 0, 0)), inertia=rod)
    b.add_clock()
    return b.build()


@pytest.mark.usefixtures("machine_code")
@pytest.mark.parametrize("how", ["angle", "rate"])
def test_a_motor_moves_as_its_function_says(arm, how):
    """The effort is that of inverse dynamics, and its work is what the energy gains."""
    motor = c.Motor(name="drive", joint="upper", **{how: {"angle": angle, "rate": rate}[how]})
    system = pp.System(arm, [motor])
    assert system.row_names == (f"drive.{how}", "clock.rate")
    t = 0.4
    q, v = np.array([angle(t), 0.3, t]), np.array([rate(t), -0.7, 1.0])
    motion = pp.forward_dynamics(system, q, v, np.zeros(3), return_multipliers=True)
    assert_allclose(motion.vdot[0], acceleration(t), rtol=1e-12)
    tau = pp.inverse_dynamics(arm, q, v, motion.vdot)
    assert_allclose(-motion.f, [tau[0], tau[0] * rate(t)], rtol=1e-11)  # and the clock: the power
    assert_allclose(tau[1:], 0, atol=1e-12)
    start = [angle(0), 0.3, 0.0], [rate(0), 0.0, 1.0]
    times = np.linspace(0, 1, 401)
    run = pp.simulate(system, *start, 1.0, rtol=1e-9, atol=1e-11, output_times=times)
    assert_allclose(run.q[:, 0], angle(run.t), atol=1e-13 if how == "angle" else 1e-9)
    f = pp.forward_dynamics(system, run.q, run.v, 0 * run.v, return_multipliers=True).f
    power = -f[:, 0] * run.v[:, 0]
    weights = np.full(401, 2.0) + 2.0 * (np.arange(401) % 2)
    weights[[0, -1]] = 1.0
    work = power @ weights / (3 * 400)  # Simpson's rule
    assert_allclose(work, run.energy[-1] - run.energy[0], rtol=1e-6)


@pytest.mark.usefixtures("machine_code")
def test_a_motor_and_prescribed_accelerations_agree(arm):
    system = pp.System(arm, [c.Motor(name="drive", joint="upper", angle=angle)])
    found = system.assemble([0.0, 0.3, 0.4])  # time stays, the arm moves
    assert_allclose(found[[0, 2]], [angle(0.4), 0.4], atol=1e-10)
    start, tight = ([angle(0), 0.3, 0.0], [rate(0), 0.0, 1.0]), {"rtol": 1e-9, "atol": 1e-11}
    run = pp.simulate(system, *start, 0.6, **tight)

    def asked(t, q, v):
        return acceleration(t)

    other = pp.simulate(arm, *start, 0.6, prescribed={"upper": asked}, **tight)
    assert_allclose(run.q[-1], other.q[-1], atol=1e-9)
    slower = pp.System(arm, [c.Motor(name="drive", joint="upper", angle=lambda t: 0.9 * angle(t))])
    twin = pp.simulate(slower, *slower.project(*start), 0.6, **tight)
    assert abs(twin.q[-1] - other.q[-1]).max() > 1e-3


@pytest.mark.parametrize("how", ["angle", "rate"])
def test_motors_that_were_read_again_can_be_changed(how):
    motor = c.Motor(name="drive", joint="upper", **{how: angle})
    other = replace(pickle.loads(pickle.dumps(motor)), name="other")
    assert_allclose([getattr(other, how)(t) for t in (0.1, 0.7)], [angle(0.1), angle(0.7)])


def test_prescribed_joints_cannot_stop_the_time(arm):
    # the projection moved the clock instead, to 0.206 s after 0.2 s
    system = pp.System(arm, [c.Motor(name="drive", joint="upper", angle=angle)])
    q, v = system.project([angle(0), 0.3, 0.0], [0, 0, 1.0])
    with pytest.raises(pp.errors.SimulationError, match="'clock.rate' are violated"):
        pp.simulate(system, q, v, 0.2, prescribed={"upper": lambda t, q, v: acceleration(0)})


def test_systems_with_functions_are_values(arm, engine):
    system = pp.System(arm, [c.Motor(name="drive", joint="upper", rate=rate)])
    for one in (system, engine):
        again = pickle.loads(pickle.dumps(one))
        assert again == one and hash(again) == hash(one)
        q = one.random_configuration(0)
        assert_allclose(again.jacobian(q), one.jacobian(q))
    other = pp.System(arm, [c.Motor(name="drive", joint="upper", rate=lambda t: 2 * rate(t))])
    assert other != system
    moved = pp.System(engine.model, [engine.constraints[0].fitted(engine.model, [0.3, 0.5])])
    assert_allclose(moved.residual([0.3, 0.5]), 0, atol=1e-15)
    held = engine.with_locked("shaft", [0.3, 0.0])
    assert_allclose(held.assemble([0.2]), [profile(0.3)], atol=1e-12)


def test_exact_numbers_and_rows_reject_what_they_cannot_do(engine):
    with pytest.raises(ModelError, match="Cam 'cam'.*'nut'"):
        pp.System(engine.model, [c.Cam(lambda x: x, name="cam", joints=("nut",))])
    both = {"name": "cam", "joints": ("shaft", "valve")}
    for law, word in [
        (lambda x: x, "one argument for the coordinate of each joint"),
        (lambda x, y: y, "'shaft'"),
        (lambda x, y: np.array([x, y]), "one number"),
        (lambda x, y: y - np.floor(x), "jump"),
        (lambda x, y: y - x % 1.0, "remainder, whose value jumps"),
        (lambda x, y: y - x // 1.0, "floor_divide, whose value jumps"),
        (lambda x, y: y if x > 0 else -y, "np.where"),
        (3.0, "function"),
        (lambda x, y: y - np.where(x > 1, 1.0, 0.0), "'shaft' is at 1;"),
    ]:
        with pytest.raises(ModelError, match=f"Cam 'cam'(.|\n)*{word}"):
            c.Cam(law, **both)
    c.Cam(lambda x, y: y - np.where(x > 1, (x - 1) ** 3, 0.0), **both)
    with pytest.raises(ModelError, match="either its rate or its angle"):
        c.Motor(name="m", joint="shaft")
    with pytest.raises(ModelError, match="add_clock"):
        pp.System(engine.model, [c.Motor(name="m", joint="shaft", angle=angle)])


@pytest.mark.parametrize(
    ("how", "function", "jumps"),
    [
        ("rate", lambda t: np.where(t > 1, 1.0, 0.0), "rate jumps from 0 to 1 at t = 1 s"),
        ("rate", lambda t: 1e3 + np.sign(np.sin(t)), "rate jumps"),
        ("angle", lambda t: np.floor(t / 50), "angle jumps from"),
        ("angle", lambda t: np.clip(t, 0, 2), "rate of change of its angle jumps from 1 to 0"),
        ("rate", lambda t: np.clip((t - 1) / 0.02, 0, 1), ""),
        ("rate", lambda t: np.sqrt(np.maximum(t - 1, 0)), ""),
        ("rate", lambda t: np.where(t < 9, np.tan(t), np.tan(t)), ""),  # poles are no jumps
        ("angle", lambda t: np.where(t < 1, t**2, 2 * t - 1), ""),
        ("angle", lambda t: np.sin(2 * np.pi * (t - np.floor(t))), ""),
    ],
)
def test_motors_do_not_jump(how, function, jumps):
    # a run stepped over a rate that jumped: 0.0575 rad where the motor turned 0.1
    if not jumps:
        c.Motor(name="m", joint="shaft", **{how: function})
        return
    with pytest.raises(ModelError, match=f"Motor 'm': the {jumps}"):
        c.Motor(name="m", joint="shaft", **{how: function})


def test_rows_are_the_same_on_all_backends(engine):
    q = np.random.default_rng(1).uniform(-2, 2, (7, 2))
    found = [pp.compile(A @ J, engine, mode="dense", backend=b)(q) for b in ("native", "reference")]
    assert_allclose(*found, atol=1e-15)
    assert_allclose(found[0][0], pp.evaluate_dense(A @ J, engine, q[0]), atol=1e-15)
    root = c.Cam(lambda x, y: y - np.sqrt(x), name="root", joints=("shaft", "valve"))
    with pytest.raises(pp.errors.PhipsiError, match="root"):
        pp.System(engine.model, [root]).project([-1.0, 0], [0, 0])
