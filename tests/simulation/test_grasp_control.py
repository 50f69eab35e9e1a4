"""Control of held objects: motion, internal forces and load shares, dense and in runs."""

from __future__ import annotations

import pickle
from functools import cache

import numpy as np
import pytest
from amounts import seeds
from comparers import close
from random_grasps import random_grasp
from random_systems import kkt
from scipy.linalg import null_space
from scipy.optimize import minimize

import phipsi as pp
from phipsi import grasping
from phipsi.core.spatial import so3_exp, so3_log
from phipsi.errors import InputError, SimulationError

KINDS = [("Rigid", "Rigid"), ("Rigid", "Point", "Point"), ("SoftFinger", "SoftFinger", "Point"),
         ("Edge", "Rigid"), ("Point",) * 3]  # fmt: skip


@cache
def carriers(mass=2.0, kind="Rigid"):
    """Two arms of seven joints with a beam between their tools, and a configuration."""
    arm = pp.examples.seven_joint_arm()
    home = np.array([0.3, 0.7, -0.2, 1.0, 0.3, 0.8, 0.1])
    turned = pp.Pose.from_axis_angle((0, 0, 1), np.pi, translation=(1.1, 0, 0))
    pair = arm.attach(arm, at="world", placement=turned, prefix="b_")
    both = np.r_[home, home]
    X, Y = pp.poses(pair, both, ["tool", "b_tool"])
    x = (Y[:3, 3] - X[:3, 3]) / np.linalg.norm(Y[:3, 3] - X[:3, 3])
    y = np.cross([0, 0, 1.0], x)
    R = np.stack([x, y / np.linalg.norm(y), np.cross(x, y / np.linalg.norm(y))], axis=-1)
    place = pp.Pose(R, (X[:3, 3] + Y[:3, 3]) / 2)
    length = float(np.linalg.norm(Y[:3, 3] - X[:3, 3]))
    b = pp.ModelBuilder()
    b.add_body("beam", joint=pp.joints.Free(),
               inertia=pp.SpatialInertia.box((length, 0.1, 0.1), mass=mass))  # fmt: skip
    model = pair.attach(b.build(), at="world")
    q = np.r_[both, place.quaternion, place.translation]
    contacts = []
    for name, tool, X_tool, side in (("left", "tool", X, -1), ("right", "b_tool", Y, 1)):
        turn = pp.Pose.from_axis_angle((0, 1, 0), side * np.pi / 2).rotation
        on_beam = pp.Pose(turn, (side * length / 2, 0, 0))
        finger = pp.Pose(X_tool[:3, :3].T @ R @ turn)
        ends = {"name": name, "finger": (tool, finger), "object": ("beam", on_beam)}
        contacts.append(getattr(grasping, kind)(**ends))
    grasp = grasping.Grasp(model, object="beam", contacts=contacts)
    assert np.abs(grasp.residual(q)).max() < 1e-12
    return grasp, q, place


def lifted(place, times=(0.0, 1.0)):
    goal = pp.Pose(so3_exp([0.1, -0.15, 0.3]) @ place.rotation, place.translation + (0, 0.05, 0.12))
    return pp.control.CartesianPath([place, goal], times)


def dense(control, t, q, v):
    """tau and f with NumPy's least squares, from public matrices."""
    grasp, model = control.grasp, control.model
    goal, V_ref, A_ref = control.reference(t)
    thing = grasp.object[0]
    X = pp.poses(model, q)[model.body_index(thing)]
    V = pp.velocities(model, q, v, [thing], axes="world")[0]
    e = np.r_[so3_log(goal[:3, :3] @ X[:3, :3].T), goal[:3, 3] - X[:3, 3]]
    wanted = A_ref + control.kd * (V_ref - V) + control.kp * e
    J = pp.jacobian(model, q, [thing])
    rows = np.vstack([grasp.jacobian(q), J])
    drift = pp.jacobian_dot(model, q, v, [thing], times_v=True)
    asked = np.r_[-grasp.bias(q, v), wanted - drift]
    M, u = pp.mass_matrix(model, q), -control.null_damping * v
    L = np.linalg.cholesky(M)
    x = np.linalg.lstsq(rows @ np.linalg.inv(L.T), asked - rows @ u, rcond=1e-10)[0]
    vdot = u + np.linalg.solve(L.T, x)
    needed = pp.inverse_dynamics(model, q, v, vdot)
    W, load = grasp.grasp_map(q), needed[grasp.object_rates]
    s, f0 = np.sqrt(control.weights), control.internal_now
    f = f0 + np.linalg.lstsq(W / s, load - W @ f0, rcond=1e-10)[0] / s
    tau = needed + grasp.jacobian(q).T @ f
    return tau, f, vdot, wanted


def with_internal(grasp, q, seed, **options):
    rng = np.random.default_rng(seed)
    place = pp.poses(grasp.model, q)[grasp.model.body_index(grasp.object[0])]
    motion = rng.standard_normal((2, 6))
    near = np.eye(4)
    near[:3, :3] = so3_exp(0.3 * rng.standard_normal(3)) @ place[:3, :3]
    near[:3, 3] = place[:3, 3] + 0.2 * rng.standard_normal(3)
    forces = rng.uniform(-4, 4, (len(grasp.contacts), 3))
    weights = rng.uniform(0.3, 3, len(grasp.contacts))
    control = pp.control.GraspControl(
        grasp, lambda t: (near, *motion), *rng.uniform(1, 9, (2, 6)), internal=forces,
        weights=weights, **options,
    )  # fmt: skip
    # the multipliers of the forces, by least squares on the wrenches
    columns = grasp.wrenches(q, np.eye(grasp.n_rows))[:, :, 3:].reshape(grasp.n_rows, -1).T
    linear = np.abs(columns).max(axis=0) > 1e-9
    f0 = np.zeros(grasp.n_rows)
    f0[linear] = np.linalg.lstsq(columns[:, linear], forces.reshape(-1), rcond=None)[0]
    control.internal_now = f0
    return control


@pytest.mark.parametrize("seed", seeds(10, 5))
def test_random_grasps_against_least_squares(seed):
    """And against forward dynamics: contacts feel what is commanded, the object moves as asked."""
    kinds = KINDS[seed % len(KINDS)]
    grasp, q, v = random_grasp(seed, kinds, least=8)
    control = with_internal(grasp, q, seed)
    tau, f, vdot, wanted = dense(control, 0.0, q, v)
    found = control(0.0, q, v)
    size = np.abs(tau).max()
    close(control.multipliers(0.0, q, v), f, 1e-7)
    close(found, tau, 1e-7, scale=size)
    assert np.abs(found[grasp.object_rates]).max() == 0
    moved, felt = kkt(grasp, q, v, found)
    close(moved, vdot, 1e-6)
    near_full = np.linalg.matrix_rank(grasp.jacobian(q), tol=1e-6) == grasp.n_rows
    if near_full:  # rigid bodies determine the forces
        close(felt, f, 1e-6)
    thing = [grasp.object[0]]
    J = pp.jacobian(grasp.model, q, thing)
    drift = pp.jacobian_dot(grasp.model, q, v, thing, times_v=True)
    close(J @ moved + drift, wanted, 1e-6)
    other = with_internal(grasp, q, seed)
    other.weights = 2.5 * control.weights * np.linspace(1, 2, grasp.n_rows)
    if null_space(grasp.grasp_map(q)).shape[1]:
        assert np.abs(other.multipliers(0.0, q, v) - f).max() > 1e-4  # other shares


def test_machine_code_and_arrays(monkeypatch):
    grasp, q, place = carriers()
    control = pp.control.GraspControl(grasp, place, 50, 10, internal=[8.0, 8.0], weights=[1, 3])
    rng = np.random.default_rng(1)
    v = np.array([grasp.project(q, 0.3 * rng.standard_normal(20))[1] for _ in range(3)])
    several = np.tile(q, (3, 1))
    found = control(0.0, several, v)
    assert control._formulas[0]._code is not None
    monkeypatch.setattr(control._formulas[0], "_code", None)
    close(found, control(0.0, several, v), 1e-9)
    again = pickle.loads(pickle.dumps(control))
    close(again(0.0, q, v[0]), found[0], 1e-12)


RECORD = ("t", "q", "v", "tau", "GraspControl.multipliers")


def test_two_arms_carry_turn_and_squeeze():
    """The contact forces that the run has are those commanded, and the beam follows its path."""
    grasp, q, place = carriers()
    path = lifted(place)
    control = pp.control.GraspControl(
        grasp, path, 100, 20, internal=lambda t: 10.0 + 5.0 * np.sin(2 * t), weights=[1.0, 3.0]
    )
    sim = pp.Simulator(grasp, [control], 2e-3)
    run = sim.rollout(sim.initial_state(q), steps=500, record_every=100, record=RECORD)
    poses = pp.poses(grasp.model, run.q)[:, grasp.model.body_index("beam")]
    close(poses, np.array([path(t).pose for t in run.t]), 1e-6)
    felt = np.array([
        pp.constraint_forces(grasp, *x) for x in zip(run.q, run.v, run["tau"], strict=True)
    ])  # fmt: skip
    f = run["GraspControl.multipliers"]
    close(felt, f, 1e-6, scale=10.0)
    W = grasp.grasp_map(q)
    # what of f does not load the beam is the weighted projection of the squeeze
    s = np.sqrt(control.weights)
    for t, a, multipliers in zip(run.t, run.q, f, strict=True):
        N = null_space(grasp.grasp_map(a) / s)
        squeeze = control._checked_internal(10 + 5 * np.sin(2 * t), "internal")
        close(N.T @ (s * multipliers), N.T @ (s * squeeze), 1e-6, scale=10.0)
    wrench = grasp.wrenches(run.q, f)
    squeezed = -(wrench[:, 0, 5] + wrench[:, 1, 5]) / 2
    assert np.abs(squeezed - (10 + 5 * np.sin(2 * run.t))).max() < 3
    assert W.shape == (6, 12)
    exact = pp.simulate(grasp, q, 0 * run.v[0], 0.02, controller=control, integrator="rk4", dt=2e-3)
    short = sim.rollout(sim.initial_state(q), steps=10)
    close(short.q[-1], exact.q[-1], 1e-10)
    # the twin does not squeeze
    loose = pp.control.GraspControl(grasp, path, 100, 20, weights=[1.0, 3.0])
    none = pp.Simulator(grasp, [loose], 2e-3)
    twin = none.rollout(none.initial_state(q), steps=100, record_every=100, record=RECORD)
    assert np.abs(twin["GraspControl.multipliers"][-1] - f[1]).max() > 5


def test_arms_share_the_load_as_weights_say():
    """Against a numerical minimisation of Σ weights f² under W f = load."""
    grasp, q, place = carriers()
    rest = np.zeros(grasp.model.nv)
    load, W = grasp.object_load(q, rest, rest), grasp.grasp_map(q)
    carried = []
    for weights in ([1.0, 1.0], [1.0, 4.0], [4.0, 1.0]):
        control = pp.control.GraspControl(grasp, place, 50, 10, weights=weights)
        f = control.multipliers(0.0, q, rest)
        w = control.weights
        found = minimize(
            lambda x, w=w: np.sum(w * x * x), np.zeros(12), jac=lambda x, w=w: 2 * w * x,
            constraints={"type": "eq", "fun": lambda x: W @ x - load, "jac": lambda x: W},
            method="SLSQP", options={"ftol": 1e-14, "maxiter": 300},
        )  # fmt: skip
        close(f, found.x, 1e-5)
        close(grasp.distribute(q, load, weights=weights), f, 1e-8)
        R = [pp.poses(grasp.model, q)[-1][:3, :3] @ c.object[1].rotation for c in grasp.contacts]
        wrench = grasp.wrenches(q, f)
        carried.append([float((R[i] @ wrench[i, 3:])[2]) for i in (0, 1)])
    close(np.sum(carried, axis=1), np.full(3, 2 * 9.81), 1e-9)
    assert carried[1][0] > carried[0][0] > carried[2][0]


def test_weights_of_distributed_forces_with_friction():
    grasp = pp.examples.two_finger_grasp(friction=0.6)
    q, rest = grasp.model.neutral(), np.zeros(10)
    load = grasp.object_load(q, rest, rest)
    equal = grasp.distribute(q, load, friction=True, margin=0.5)
    close(grasp.distribute(q, load, friction=True, margin=0.5, weights=[1, 1]), equal, 1e-5)
    f = grasp.distribute(q, load, friction=True, margin=0.5, weights=[1, 9])
    close(grasp.grasp_map(q) @ f, load, 1e-9)
    w = np.repeat([1.0, 9.0], 3)
    assert (grasp.check(q, rest, rest, f=f).margins > 0.499).all()
    assert w @ f**2 <= w @ equal**2 + 1e-9
    inside = grasp.distribute(q, load, internal=[2.0], weights=[1, 9])
    plain = grasp.distribute(q, load, weights=[1, 9])
    close(inside - plain, 2.0 * grasp.internal_forces(q)[:, 0], 1e-9)
    for bad in ([1.0], [1.0, 0.0], [1.0, np.inf]):
        with pytest.raises(InputError, match="weights must be|must be finite"):
            grasp.distribute(q, load, weights=bad)


def test_accelerations_without_handwork():
    grasp, q, _ = carriers()
    rng = np.random.default_rng(4)
    _, v = grasp.project(q, rng.standard_normal(20))
    asked = rng.standard_normal((2, 6))
    vdot = grasp.accelerations(q, v, asked)
    close(vdot[:, grasp.object_rates], asked, 1e-12)
    G = grasp.jacobian(q)
    close(vdot @ G.T, np.tile(-grasp.bias(q, v), (2, 1)), 1e-8)
    M = pp.mass_matrix(grasp.model, q)
    arms = np.setdiff1d(np.arange(20), grasp.object_rates)
    Z = null_space(G[:, arms])
    close(Z.T @ M[np.ix_(arms, arms)] @ vdot[0, arms], np.zeros(Z.shape[1]), 1e-8)  # least energy
    f = grasp.distribute(q, grasp.object_load(q, v, vdot[0]))
    tau = grasp.efforts(q, v, vdot[0], f)
    close(pp.forward_dynamics(grasp, q, v, tau), vdot[0], 1e-7)
    two = pp.examples.two_finger_grasp()
    with pytest.raises(InputError, match="the arms cannot carry"):
        two.accelerations(two.model.neutral(), np.zeros(10), [0, 0, 0, 0, 1.0, 0])


def test_feedback_corrects_the_internal_forces_of_a_wrong_model():
    """Another mass of the beam and dampers in the joints; the twin has no loop."""
    grasp, q, place = carriers()
    wrong = carriers(mass=2.6)[0]
    control = pp.control.GraspControl(wrong, place, 100, 20, internal=12.0)
    friction = pp.forces.JointDamper(None, 0.3)
    gone = {}
    for name, law in (("loop", control.feedback(15.0, limit=30.0)), ("none", control)):
        sim = pp.Simulator(grasp, [law, friction], 2e-3)
        prefix = "grasp" if name == "loop" else "GraspControl"
        record = ("q", "v", "tau", f"{prefix}.multipliers")
        run = sim.rollout(sim.initial_state(q), steps=1500, record_every=1500, record=record)
        felt = pp.constraint_forces(grasp, run.q[-1], run.v[-1], run["tau"][-1])
        N = null_space(grasp.grasp_map(run.q[-1]))
        gone[name] = N.T @ (felt - control.multipliers(0.0, run.q[-1], run.v[-1]))
    # the loop moves all that does not load the beam; the twin keeps what the model lacks
    assert np.abs(gone["loop"]).max() < 0.02 * max(1.0, np.abs(gone["none"]).max())
    assert np.abs(gone["none"]).max() > 1e-3


def test_what_is_wrong_is_said():
    grasp, q, place = carriers()
    make = pp.control.GraspControl
    with pytest.raises(InputError, match="takes a grasp"):
        make(grasp.model, place, 1, 1)
    for arguments, message in (
        (dict(internal=[1.0, 2.0, 3.0]), "2 normal forces"),
        (dict(weights=[1.0, -1.0]), "one number above 0 per contact"),
        (dict(kp=-1.0), "kp=-1.0 must be"),
        (dict(null_damping=-1.0), "null_damping"),
    ):
        with pytest.raises(InputError, match=message):
            make(**(dict(grasp=grasp, reference=place, kp=1, kd=1) | arguments))
    more = grasping.Grasp(
        grasp.model, object="beam", contacts=grasp.contacts,
        constraints=[pp.constraints.Coupling(name="x", coefficients=(1, -1),
                                             joints=grasp.model.joint_names[:2])],
    )  # fmt: skip
    with pytest.raises(InputError, match="constraints besides the contacts"):
        make(more, place, 1, 1)
    # planar fingers cannot move the box out of their plane
    two = pp.examples.two_finger_grasp()
    away = pp.Pose(translation=(0, 0.3, 0.2))
    control = make(two, away, 10, 5)
    at = two.model.neutral()
    with pytest.raises(InputError, match="cannot give the object 'box' the motion"):
        control(0.0, at, np.zeros(10))
    sim = pp.Simulator(two, [control], 1e-3)
    with pytest.raises(SimulationError, match="contacts of a grasp cannot give"):
        sim.rollout(sim.initial_state(at), steps=3)
