"""Hybrid force/position control: dense algebra on random mechanisms, and runs on surfaces."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from amounts import seeds
from comparers import close
from differences import slope
from random_models import ALL, branching, random_pose

import phipsi as pp
from phipsi.core.spatial import so3_exp, so3_log
from phipsi.errors import InputError, SimulationError, SingularMatrixError
from phipsi.simulation.control.compiled_control import GraphFormula

ARM = pp.examples.seven_joint_arm()
HOME = np.array([0.2, 0.6, -0.3, 1.1, 0.4, 0.9, 0.2])
TOOL = pp.poses(ARM, HOME, ["tool"])[0]


# ---- the formula against dense algebra -----------------------------------------------------------


def pose_of(model, q, place):
    if place == "world":
        return np.eye(4)
    if isinstance(place, pp.Pose):
        return place.matrix
    name, X = place if isinstance(place, tuple) else (place, pp.Pose())
    body = dict(zip(model.body_names, pp.poses(model, q), strict=True))[name]
    return body @ X.matrix


def relative(model, task, q):
    return np.linalg.inv(pose_of(model, q, task.base)) @ pose_of(model, q, task.frame)


def twist(model, task, q, v):
    """[ω; v] of the frame relative to the base, in its axes, by differences of poses."""
    X = relative(model, task, q)

    def moved(h):
        Y = relative(model, task, model.integrate(q, h * v))
        return np.r_[so3_log(Y[:3, :3] @ X[:3, :3].T), Y[:3, 3]]

    return slope(moved, 1e-2)


def relative_acceleration(model, task, q, v, vdot):
    return slope(lambda h: twist(model, task, model.integrate(q, h * v), v + h * vdot), 4e-3)


def loads(model, task, q, wrench):
    """Forces of the surroundings (n, 6) on the bodies, where a frame exerts a wrench on its base.

    In the axes of the base; at the frame's origin.
    """
    out = np.zeros((model.n_bodies, 6))
    base, point = pose_of(model, q, task.base), pose_of(model, q, task.frame)[:3, 3]
    moment, force = base[:3, :3] @ wrench[:3], base[:3, :3] @ wrench[3:]
    for place, sign in ((task.frame, -1), (task.base, 1)):
        if place == "world" or isinstance(place, pp.Pose):
            continue
        name = place[0] if isinstance(place, tuple) else place
        body = model.body_index(name)
        X = pp.poses(model, q)[body]
        at = moment + np.cross(point - X[:3, 3], force)
        out[body] += sign * np.r_[X[:3, :3].T @ at, X[:3, :3].T @ force]
    return out


def random_tasks(model, q, rng):
    """One frame relative to a pose in the world, another one relative to a body that moves.

    So that the joints can move both at will: by singular values of their directions.
    """
    while True:
        bodies = list(rng.permutation(model.n_bodies))
        frames = [(model.body_names[b], random_pose(rng)) for b in bodies[:3]]
        first = pp.control.TaskFrame(frames[0], random_pose(rng), force=(2, 5), motion=(3, 4))
        second = pp.control.TaskFrame(frames[1], frames[2], force=(3,), motion=(0, 1))
        rows = np.vstack([
            np.array([twist(model, x, q, v) for v in np.eye(model.nv)]).T[list(x.rows)]
            for x in (first, second)
        ])  # fmt: skip
        if np.linalg.svd(rows)[1][-1] > 0.1:
            return [first, second]


def random_reference(seed):
    def at(t):
        rng = np.random.default_rng(seed)
        pose = np.eye(4)
        pose[:3, :3], pose[:3, 3] = so3_exp(rng.standard_normal(3)), rng.standard_normal(3)
        return pose, rng.standard_normal(6), rng.standard_normal(6)

    return at


def random_case(seed):
    rng = np.random.default_rng(seed)
    model = branching(9, seed, ALL, armature=True)
    q = model.random_configuration(rng)
    tasks = random_tasks(model, q, rng)
    force = rng.uniform(-5, 5, 3)
    kp, kd = rng.uniform(1, 9, (2, 4))
    control = pp.control.HybridForcePosition(
        model, tasks, [random_reference(seed), random_reference(seed + 1)], force, kp, kd,
        force_damping=3.0, actuated=model.joint_names, singularity=1e-7,
    )  # fmt: skip
    return control, q, rng.standard_normal(model.nv)


@pytest.mark.parametrize("seed", seeds(9, 3))
def test_accelerations_under_the_commanded_forces(seed):
    """Under reactions of −F_d the frames accelerate as asked, relative to bases that move too."""
    control, q, v = random_case(seed)
    model, n, m = control.model, 0, 0
    tau = control(0.0, q, v)
    f_ext = np.zeros((model.n_bodies, 6))
    for task in control.tasks:
        wrench = np.zeros(6)
        wrench[list(task.force)] = control.force[m : m + len(task.force)]
        m += len(task.force)
        f_ext += loads(model, task, q, wrench)
    vdot = pp.forward_dynamics(model, q, v, tau, f_ext)
    other = pp.forward_dynamics(model, q, v, tau)  # the twin: nothing pushes back
    misses = 0.0
    for task, reference in zip(control.tasks, control.references, strict=True):
        goal, V_ref, A_ref = reference(0.0)
        X, V = relative(model, task, q), twist(model, task, q, v)
        e = np.r_[so3_log(goal[:3, :3] @ X[:3, :3].T), goal[:3, 3] - X[:3, 3]]
        found, beside = (relative_acceleration(model, task, q, v, a) for a in (vdot, other))
        rows = list(task.motion)
        k = slice(n, n + len(rows))
        n += len(rows)
        wanted = A_ref[rows] + control.kd[k] * (V_ref - V)[rows] + control.kp[k] * e[rows]
        size = 1 + np.abs(found).max() + np.abs(vdot).max()
        close(found[rows], wanted, 1e-6, scale=size)
        close(found[list(task.force)], -3.0 * V[list(task.force)], 1e-6, scale=size)
        misses = max(misses, np.abs(beside[rows] - wanted).max() / size)
    assert misses > 1e-4
    shown = control.errors(0.0, q, v)
    assert shown[0].shape == shown[1].shape == (4,)


@pytest.mark.parametrize("seed", seeds(4, 1))
def test_machine_code_and_arrays(seed, monkeypatch):
    control, q, v = random_case(seed)
    rng = np.random.default_rng(8)
    several = control.model.random_configuration(rng, 5), rng.standard_normal((5, control.model.nv))
    found = control(0.0, *several)
    formula = control._formulas[True]
    assert isinstance(formula, GraphFormula) and formula._code is not None
    monkeypatch.setattr(formula, "_code", None)
    close(found, control(0.0, *several), 1e-9)
    again = pickle.loads(pickle.dumps(pp.control.HybridForcePosition(
        ARM, pp.control.TaskFrame("tool", force=(5,)), TOOL, 3.0, 9, 6)))  # fmt: skip
    assert again(0.0, HOME, 0 * HOME).shape == (7,)


# ---- sliding contact -----------------------------------------------------------------------------

NORMAL = pp.Pose.from_axis_angle((0.6, 0.8, 0), 0.3, translation=TOOL[:3, 3])
TASK = pp.control.TaskFrame("tool", base=NORMAL, force=(5,))


def table(model=ARM):
    return pp.System(
        model, [pp.constraints.PointOnPlane(name="table", a=("world", NORMAL), b="tool")]
    )


def sliding_path(times=(0.0, 1.0)):
    turn = NORMAL.rotation.T @ TOOL[:3, :3]
    ways = [pp.Pose(turn, (0, 0, 0)), pp.Pose(turn, (0.1, -0.12, 0))]
    return pp.control.CartesianPath(ways, times)


def pressing(system, force=-20.0, model=None, **options):
    return pp.control.HybridForcePosition(
        model or system, TASK, sliding_path(), force, 100, 20,
        contacts=["table"] if model is None else (), **options,
    )  # fmt: skip


def forces_of(system, run):
    return np.array([
        pp.constraint_forces(system, q, v, tau)[0]
        for q, v, tau in zip(run.q, run.v, run["tau"], strict=True)
    ])  # fmt: skip


def in_plane(q):
    at = pp.poses(ARM, q, ["tool"])[..., 0, :3, 3]
    return (at - TOOL[:3, 3]) @ NORMAL.rotation


RECORD = ("t", "q", "v", "tau")


def test_an_arm_slides_with_its_force_exactly():
    system = table()
    control = pressing(system, lambda t: -20.0 - 5.0 * np.sin(3 * t))
    sim = pp.Simulator(system, [control], 1e-3)
    run = sim.rollout(sim.initial_state(HOME), steps=1000, record_every=100, record=RECORD)
    close(forces_of(system, run), -20 - 5 * np.sin(3 * run.t), 1e-8)
    path = np.array([sliding_path()(t).pose[:3, 3] for t in run.t])
    close(in_plane(run.q), path, 1e-7)
    exact = pp.simulate(system, HOME, 0 * HOME, 0.05, controller=control, integrator="rk4", dt=1e-3)
    half = sim.rollout(sim.initial_state(HOME), steps=50)
    close(half.q[-1], exact.q[-1], 1e-11)
    # position control alone leaves the force to chance
    stiff = pp.control.OperationalSpace(
        ARM, "tool", lambda t: pose_in_world(sliding_path()(t)), 100, 20
    )
    beside = pp.Simulator(system, [stiff], 1e-3)
    twin = beside.rollout(beside.initial_state(HOME), steps=1000, record_every=100, record=RECORD)
    assert np.abs(forces_of(system, twin) + 20).min() > 5


def pose_in_world(state):
    R = NORMAL.rotation
    both = np.kron(np.eye(2), R)
    return NORMAL.matrix @ state.pose, both @ state.velocity, both @ state.acceleration


def test_force_feedback_reaches_the_set_value_with_the_wrong_masses():
    """The controller knows another load in the hand; the twin has no force loop."""
    known = ARM.with_body(ARM.body_names[-1], inertia=pp.SpatialInertia.sphere(0.08, mass=0.2))
    system = table()
    control = pressing(system, model=known, force=-15.0)
    feedback = control.feedback("table", ki=25.0, limit=60.0)
    friction = pp.forces.JointDamper(None, 0.4)
    ends = {}
    for name, law in (("loop", feedback), ("none", control)):
        sim = pp.Simulator(system, [law, friction], 1e-3)
        extra = ("hybrid.error", "hybrid.command") if name == "loop" else ()
        record = (*RECORD, *extra)
        run = sim.rollout(sim.initial_state(HOME), steps=2000, record_every=200, record=record)
        ends[name] = run
    loop, none = ends["loop"], ends["none"]
    assert abs(loop["hybrid.error"][0, 0]) > 0.5  # at first the force is wrong
    assert np.abs(loop["hybrid.error"][-3:]).max() < 1e-2
    last = forces_of(system, loop)[-1]  # the same force by the dynamics of the run
    close(last, -15.0 - loop["hybrid.error"][-1, 0], 1e-8)
    assert abs(last + 15) < 5e-3 and abs(forces_of(system, none)[-1] + 15) > 0.5
    assert np.abs(in_plane(loop.q)[-1] - (0.1, -0.12, 0)).max() < 0.02
    assert np.abs(in_plane(loop.q)[:, 2]).max() < 1e-9


def test_sampled_feedback_and_gains_as_parameters():
    system = table()
    known = ARM.with_body(ARM.body_names[-1], inertia=pp.SpatialInertia.sphere(0.08, mass=0.2))
    law = pressing(system, model=known).feedback("table", ki=10.0, rate=200.0)
    sim = pp.Simulator(system, [law], 1e-3)
    assert {"hybrid.ki", "hybrid.kp", "hybrid.force", "hybrid.limit"} <= set(sim.parameters)
    start = sim.initial_state(
        np.tile(HOME, (2, 1)), parameters={"hybrid.force": np.array([[-20.0], [-30.0]])}
    )
    run = sim.rollout(start, steps=3000, record_every=3000, record=(*RECORD, "hybrid.error"))
    assert np.abs(run["hybrid.error"][:, -1]).max() < 0.05
    found = [forces_of(system, one) for one in (_of(run, 0), _of(run, 1))]
    assert abs(found[0][-1] + 20) < 0.05 and abs(found[1][-1] + 30) < 0.05


class _of:  # noqa: N801
    """One trajectory of a rollout."""

    def __init__(self, run, i):
        self.q, self.v, self.tau = run.q[i], run.v[i], run["tau"][i]

    def __getitem__(self, name):
        return getattr(self, name)


# ---- closed chains and several arms --------------------------------------------------------------


def test_a_five_bar_presses_on_a_wall():
    """Two drives, a closed chain: one moves the point along the wall, one presses."""
    pin = pp.constraints.Revolute((0, 0, 1), name="pin", a="tip", b=("world", (1.2, 0, 0)))
    arm = pp.examples.planar_arm(4)
    free = pp.System(arm, [pin])
    q = free.assemble([1.9, -0.9, -1.6, -1.0])
    top = ("link2", pp.Pose(translation=(1, 0, 0)))
    at = pose_of(arm, q, top)[:3, 3]
    tilt = pp.Pose.from_axis_angle((0, 0, 1), 0.4, translation=at)
    wall = pp.constraints.PointOnPlane((1, 0, 0), name="wall", a=("world", tilt),
                                       b=("link2", (1, 0, 0)))  # fmt: skip
    system = pp.System(arm, [pin, wall])
    task = pp.control.TaskFrame(top, tilt, force=(3,), motion=(4,))
    path = pp.control.CartesianPath([(0, 0, 0), (0, -0.1, 0)], [0.0, 0.6])
    control = pp.control.HybridForcePosition(
        system, task, path, 7.0, 100, 20, contacts=["wall"], actuated=["joint1", "joint4"]
    )
    assert np.abs(control(0.0, q, 0 * q)[1:3]).max() == 0
    sim = pp.Simulator(system, [control], 1e-3)
    run = sim.rollout(sim.initial_state(q), steps=600, record_every=100, record=RECORD)
    row = system.row_names.index("wall.z")
    found = [
        pp.constraint_forces(system, *x)[row] for x in zip(run.q, run.v, run["tau"], strict=True)
    ]
    close(np.array(found), np.full(7, 7.0), 1e-7)
    gone = (pose_of(arm, run.q[-1], top)[:3, 3] - at) @ tilt.rotation
    close(gone, [0, -0.1, 0], 1e-6)
    exact = pp.simulate(system, q, 0 * q, 0.02, controller=control, integrator="rk4", dt=1e-3)
    short = sim.rollout(sim.initial_state(q), steps=20)
    close(short.q[-1], exact.q[-1], 1e-10)


def two_arms():
    """One arm holds a plate, the other one polishes it."""
    pair = ARM.attach(ARM, at="world", placement=pp.Pose(translation=(0.9, 0, 0)), prefix="b_")
    q = np.r_[HOME, HOME * (1, 1, -1, 1, -1, 1, 1)]
    X, Y = pp.poses(pair, q, ["tool", "b_tool"])
    there = np.linalg.inv(pose_of(pair, q, ARM.body_names[-1]))
    turn = so3_exp([0.2, -0.1, 0.4])
    plate = there @ np.block([[turn, Y[:3, 3:]], [np.zeros((1, 3)), np.ones((1, 1))]])
    return pair, q, (ARM.body_names[-1], pp.Pose(plate[:3, :3], plate[:3, 3])), X


def test_one_arm_polishes_what_another_one_moves():
    pair, q, plate, X = two_arms()
    face = pp.constraints.PointOnPlane(name="face", a=plate, b="b_tool")
    system = pp.System(pair, [face])
    hold = pp.control.TaskFrame("tool")
    polish = pp.control.TaskFrame("b_tool", base=plate, force=(5,), motion=(3, 4))
    lift = pp.control.CartesianPath(
        [pp.Pose.from_matrix(X), pp.Pose(so3_exp([0.2, 0.1, -0.3]) @ X[:3, :3],
                                         X[:3, 3] + (0.05, -0.04, 0.08))], [0.0, 1.0])  # fmt: skip
    rub = pp.control.CartesianPath([(0, 0, 0), (0.08, 0.05, 0)], [0.2, 0.9])
    control = pp.control.HybridForcePosition(
        system, [hold, polish], [lift, rub], -12.0, 100, 20, contacts=["face"]
    )
    sim = pp.Simulator(system, [control], 1e-3)
    run = sim.rollout(sim.initial_state(q), steps=1000, record_every=100, record=RECORD)
    close(forces_of(system, run), np.full(11, -12.0), 1e-7)
    end = pp.poses(pair, run.q[-1], ["tool"])[0]
    close(end, lift(1.0).pose, 1e-6)
    task = pp.control.TaskFrame(("b_" + ARM.body_names[-1], tool_pose()), base=plate, force=(5,))
    close(relative(pair, task, run.q[-1])[:3, 3], [0.08, 0.05, 0], 1e-6)
    # the plate felt at rest: as if its base did not move, the force is wrong
    still = pp.control.TaskFrame(
        "b_tool", base=pp.Pose.from_matrix(pose_of(pair, q, plate)), force=(5,), motion=(3, 4)
    )
    rigid = pp.control.HybridForcePosition(
        system, [hold, still], [lift, rub], -12.0, 100, 20, contacts=["face"]
    )
    beside = pp.Simulator(system, [rigid], 1e-3)
    twin = beside.rollout(beside.initial_state(q), steps=500, record_every=100, record=RECORD)
    assert np.abs(forces_of(system, twin) + 12).max() > 0.1


def tool_pose():
    """Of the tool in its body."""
    X = pose_of(ARM, HOME, ARM.body_names[-1])
    return pp.Pose.from_matrix(np.linalg.inv(X) @ TOOL)


def test_pressing_with_friction_on_rigid_contact():
    """A ball on a planar arm slides over the ground with friction; a sensor closes the loop."""
    builder = pp.ModelBuilder(gravity=(0, 0, -9.81))
    bar = pp.SpatialInertia(1.0, (0.25, 0, 0), 1 / 48)
    parent, place = "world", pp.Pose(translation=(0, 0, 0.5))
    for i in range(2):
        builder.add_body(f"link{i}", parent=parent, placement=place, inertia=bar,
                         joint=pp.joints.Revolute((0, 1, 0)))  # fmt: skip
        parent, place = f"link{i}", pp.Pose(translation=(0.5, 0, 0))
    builder.add_frame("tip", parent, place)
    builder.add_shape("ball", parent, pp.shapes.Sphere(0.05), place)
    arm = builder.build()
    q = pp.inverse_kinematics(arm, {"tip": (0.55, 0, 0.05)}, [0.2, 0.8]).q
    system = pp.System(
        arm, contacts=pp.Contacts(arm, ground=True, material=pp.Material(friction=0.3))
    )
    task = pp.control.TaskFrame("tip", force=(5,), motion=(3,))
    path = pp.control.CartesianPath([(0.55, 0, 0.05), (0.7, 0, 0.05)], [0.3, 1.3])
    light = arm.with_body("link1", inertia=pp.SpatialInertia(0.6, (0.25, 0, 0), 1 / 80))
    control = pp.control.HybridForcePosition(light, task, path, -10.0, 400, 40, force_damping=20)

    @pp.law
    def sensor(force):
        return {"felt": -force[2:]}  # what the ball exerts on the ground, upwards

    pair = system.contact_pairs.pairs[0].name
    ends = {}
    for name in ("loop", "none"):
        feel = sensor.bind(force=pp.signals.contact_force(pair))
        signal = pp.signals.output("sensor", "felt")
        law = control.feedback(signal, ki=8.0, limit=30.0) if name == "loop" else control
        sim = pp.Simulator(system, [law, feel], 1e-3, integrator="time_stepping")
        run = sim.rollout(
            sim.initial_state(q), steps=2200, record_every=20, record=("q", "sensor.felt")
        )
        ends[name] = run["sensor.felt"][-30:, 0], pp.poses(arm, run.q[-1], ["tip"])[0, :3, 3]
    force, at = ends["loop"]
    assert np.abs(force + 10).max() < 0.2 and abs(at[0] - 0.7) < 0.03 and abs(at[2] - 0.05) < 1e-4
    assert np.abs(ends["none"][0] + 10).max() > 1.0


# ---- gradients, limits, refusals -----------------------------------------------------------------


def test_gradients_of_runs():
    """Of the last configuration by the gains, against differences of whole runs."""
    system = table()
    start = system.assemble(HOME + 0.02)
    control = pressing(system)
    sim = pp.Simulator(system, [control], 2e-3)
    weights = np.zeros((2, 7))
    weights[-1] = 1.0

    def last(h):
        numbers = {"HybridForcePosition.kp": np.full(5, 100.0) + h}
        state = sim.initial_state(start, 0 * HOME, parameters=numbers)
        return sim.rollout(state, steps=20, record_every=20).q[-1].sum()

    found = sim.gradient(
        sim.initial_state(start, 0 * HOME), steps=20, record_every=20, cotangents={"q": weights}
    )
    close(found.parameters["HybridForcePosition.kp"].sum(), slope(last, 2.0), 1e-6, scale=1e-6)


def test_singular_configurations_stop_with_a_reason():
    arm = pp.examples.planar_arm(2)
    task = pp.control.TaskFrame("tip", force=(3,), motion=(4,))
    control = pp.control.HybridForcePosition(arm, task, (1.0, 0, 0), 1.0, 10, 5)
    with pytest.raises(SingularMatrixError, match=r"near a singularity.*x, y"):
        control(0.0, [0.3, 0.0], [0.0, 0.0])
    sim = pp.Simulator(arm, [control], 1e-3)
    with pytest.raises(SimulationError, match="singularity"):
        sim.rollout(sim.initial_state([0.3, 0.0]), steps=5)


def test_what_is_wrong_is_said():
    frame = pp.control.TaskFrame
    assert frame("tool", force="position").motion == (0, 1, 2)
    assert frame("tool", force=(5,), motion=(3, 4)).free == (0, 1, 2)
    assert repr(frame("tool", force=(5,))).startswith("TaskFrame('tool'")
    with pytest.raises(InputError, match="share the direction z"):
        frame("tool", force=(5,), motion=(4, 5))
    with pytest.raises(InputError, match="needs a force or a motion"):
        frame("tool", force=(), motion=())
    with pytest.raises(InputError, match=r"force=\(7,\) is not one of"):
        frame("tool", force=(7,))
    make = pp.control.HybridForcePosition
    for arguments, message in (
        (dict(task=frame("nope")), "frame='nope' of a task frame"),
        (dict(task=frame("world")), "fixed in the world"),
        (dict(task=frame("tool", base=ARM.body_names[-1])), "are on the same body"),
        (dict(force=[1.0, 2.0]), "one finite number or 1"),
        (dict(kp=-1), "kp=-1 must be"),
        (dict(task="tool"), "which is not a task frame"),
        (dict(task=[TASK, TASK]), "references for 2 task frames"),
        (dict(contacts=["nope"]), "there is no constraint 'nope'"),
        (dict(null_space=lambda t, q, v: 0 * v, null_damping=1.0), "has no effect together"),
    ):
        given = dict(task=TASK, motion=TOOL, force=1.0, kp=1, kd=1) | arguments
        if arguments.get("task") == [TASK, TASK]:
            given["motion"] = [TOOL]
        with pytest.raises(InputError, match=message):
            make(ARM, **given)
    with pytest.raises(InputError, match="no force to feed back"):
        make(ARM, frame("tool"), TOOL, (), 1, 1).feedback("table", 1.0)


@pytest.mark.parametrize("kind", ["hybrid", "operational space"])
def test_gradients_at_a_rotation_error_of_zero(kind):
    """By the initial velocity and configuration; the logarithm of the identity has a slope."""
    if kind == "hybrid":
        task = pp.control.TaskFrame("tool", force=(5,))
        control = pp.control.HybridForcePosition(ARM, task, TOOL, 3.0, 100, 20)
    else:
        control = pp.control.OperationalSpace(ARM, "tool", TOOL, 100, 20)
    sim = pp.Simulator(ARM, [control], 2e-3)
    weights = np.zeros((2, 7))
    weights[-1] = np.arange(1.0, 8)
    u = np.random.default_rng(0).standard_normal((2, 7))

    def last(h):
        state = sim.initial_state(HOME + h * u[0], h * u[1])
        return weights[-1] @ sim.rollout(state, steps=20, record_every=20).q[-1]

    found = sim.gradient(
        sim.initial_state(HOME, 0 * HOME), steps=20, record_every=20, cotangents={"q": weights}
    )
    close(found.q @ u[0] + found.v @ u[1], slope(last, 1e-3), 1e-8)
