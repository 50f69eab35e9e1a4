"""Forces through the hinges of mechanisms with loops."""

import numpy as np
import pytest
from known_systems import four_bar
from numpy.testing import assert_allclose
from random_systems import KINDS, admissible, random_system

import phipsi as pp

G = 9.81
TOLERANCE = 1e-11


def world_wrenches(system: pp.System, q, f) -> np.ndarray:
    """What each hinge exerts on its body, about the world's origin in world axes."""
    X = pp.poses(system, q)
    turned = (X[:, None, :3, :3] @ f.reshape(-1, 2, 3, 1))[..., 0]
    turned[:, 0] += np.cross(X[:, :3, 3], turned[:, 1])
    return turned.reshape(-1, 6)


def frame_wrenches(system: pp.System, q, f) -> np.ndarray:
    """What closures exert on their frames, about the world's origin in world axes."""
    points, X = system.closures.points, pp.poses(system, q)
    out = []
    for body, R, p, x in zip(points.body, points.rotation, points.offset, f, strict=True):
        host = np.eye(4) if body < 0 else X[body]
        moment, force = host[:3, :3] @ R @ x[:3], host[:3, :3] @ R @ x[3:]
        where = host[:3, :3] @ p + host[:3, 3]
        out.append([*(moment + np.cross(where, force)), *force])
    return np.array(out)


def in_balance(system: pp.System, wrenches) -> np.ndarray:
    """The sum over the frames of each closure between two frames."""
    pairs = zip(system.closures.closures, system.closures.first_point, strict=True)
    sums = [wrenches[i] + wrenches[i + 1] for c, i in pairs if c.matrix is None]
    return np.array([np.zeros(6), *sums])


def test_a_four_bar_held_by_its_crank_agrees_with_statics():
    """Three links in a plane: nine equations for four pins and the motor, written by hand."""
    lengths, ground = (0.5, 1.2, 1.0), 1.1
    system = four_bar(lengths, ground)
    q, rest = system.assemble([1.0, -0.7, -1.2]), np.zeros(3)
    held = pp.inverse_dynamics(
        system, q, rest, rest, actuated=[system.model.joint_names[0]], return_multipliers=True
    )
    pins = pp.poses(system, q)[:, :2, 3]
    ends = [*pins[1:], np.array([ground, 0])]

    equations, load = np.zeros((9, 9)), np.zeros(9)  # pins A, B, C, D by two, and the motor
    for k in range(3):
        arm, weight_arm = ends[k] - pins[k], (ends[k] - pins[k]) / 2
        equations[3 * k : 3 * k + 2, 2 * k : 2 * k + 2] = np.eye(2)
        equations[3 * k : 3 * k + 2, 2 * k + 2 : 2 * k + 4] = -np.eye(2)
        equations[3 * k + 2, 2 * k + 2 : 2 * k + 4] = arm[1], -arm[0]
        load[3 * k + 1], load[3 * k + 2] = G, weight_arm[0] * G
    equations[2, 8] = 1
    found = np.linalg.solve(equations, load)

    wrenches = world_wrenches(system, q, pp.joint_reactions(system, q, rest, held.tau).joints)
    assert_allclose(wrenches[:, 3:5].ravel(), found[:6], rtol=0, atol=1e-9 * G)
    assert_allclose(held.tau[0], found[8], rtol=0, atol=1e-9 * G)
    f = dict(zip(system.row_names, pp.constraint_forces(system, q, rest, held.tau), strict=True))
    pulled = np.hypot(f["pin.x"], f["pin.y"])  # at the closure, in the axes of the rocker
    assert_allclose(pulled, np.linalg.norm(found[6:8]), rtol=0, atol=1e-9 * G)
    reactions = pp.joint_reactions(system, q, rest, held.tau)
    at = dict(zip(system.closures.points.names, reactions.closures, strict=True))
    assert_allclose(at["pin.b"][3:5], found[6:8], rtol=0, atol=1e-9 * G)  # on the ground
    assert_allclose(np.linalg.norm(at["pin.a"][3:]), pulled, rtol=0, atol=1e-9 * G)
    # with the loop cut open something else comes out: the pin carries a part of the weight
    cut = pp.joint_reactions(system.model, q, rest, held.tau).joints
    assert np.abs(world_wrenches(system, q, cut)[:, 3:5].ravel() - found[:6]).max() > 1


CRANK, ROCKER = (0.6, 0.0, 0.8), (0.0, 0.6, -0.8)


def rssr(cut: str) -> pp.System:
    """A spatial four-bar with two ball joints, closed at neutral q, opened at one of them."""
    bodies = {
        "crank": pp.SpatialInertia(1.0, (0.1, 0.1, 0.2), (0.02, 0.03, 0.04)),
        "coupler": pp.SpatialInertia(0.7, (0.4, 0.05, 0.1), (0.01, 0.06, 0.06)),
        "rocker": pp.SpatialInertia(1.3, (0.0, 0.2, 0.3), (0.05, 0.04, 0.03)),
    }
    ball, (a, b) = pp.joints.Spherical(), ((0.1, 0.2, 0.5), (0.0, 0.3, 0.6))
    joints = [
        pp.constraints.GraphJoint("A", pp.joints.Revolute(CRANK), "world", "crank", armature=0.02),
        pp.constraints.GraphJoint("S1", ball, ("crank", a), "coupler"),
        pp.constraints.GraphJoint("S2", ball, ("rocker", b), ("coupler", (0.9, 0.1, 0.1))),
        pp.constraints.GraphJoint("D", pp.joints.Revolute(ROCKER), ("world", (1, 0, 0)), "rocker"),
    ]
    return pp.System.from_graph(bodies, joints, cut=[cut])


def test_reactions_do_not_depend_on_where_the_loop_is_cut():
    """The same motion of the same mechanism in two trees: the same forces at its joints."""
    systems = {cut: rssr(cut) for cut in ("S1", "S2")}
    rates, spin = np.array([1.0, 0.0]), np.array([0.3, -0.5, 0.8])
    first = systems["S2"]
    q = first.model.neutral()
    at = first.model.v_slice
    start = np.zeros(5)
    start[at("A")], start[at("S1")] = rates[0], spin
    _, start = first.project(q, start)
    turning = start[at("S1")] + np.array(CRANK) * start[at("A")]  # ω of the coupler
    wrenches, balls = {}, {}
    for cut, system in systems.items():
        at, v, tau = system.model.v_slice, np.zeros(5), np.zeros(5)
        v[at("A")], v[at("D")] = start[first.model.v_slice("A")], start[first.model.v_slice("D")]
        carrier = {"S2": ("S1", CRANK, "A"), "S1": ("S2", ROCKER, "D")}[cut]
        v[at(carrier[0])] = turning - np.array(carrier[1]) * v[at(carrier[2])]
        tau[at("A")], tau[at("D")] = 2.0, -0.7
        q = system.model.neutral()
        assert_allclose(system.jacobian(q) @ v, 0, atol=1e-14)
        found = world_wrenches(system, q, pp.joint_reactions(system, q, v, tau).joints)
        names = system.model.joint_names
        wrenches[cut] = {n: found[k] for k, n in enumerate(names)}
        balls[cut] = np.linalg.norm(pp.constraint_forces(system, q, v, tau))
    for name in ("A", "D"):
        assert_allclose(wrenches["S1"][name], wrenches["S2"][name], rtol=0, atol=TOLERANCE * G)
    for one, other in (("S1", "S2"), ("S2", "S1")):  # cut here, a joint of the tree there
        size = np.linalg.norm(wrenches[other][one][3:])
        assert_allclose(balls[one], size, rtol=0, atol=TOLERANCE * G)


@pytest.mark.parametrize("seed", range(4))
def test_the_bodies_obey_newton_and_euler(seed):
    """Body by body: its hinge, those it carries, loads and closures give M α + b."""
    rng = np.random.default_rng(seed)
    system, q = random_system(seed, 6, KINDS[seed : seed + 3], n_roots=2, armature=True)
    model = system.model
    v, tau = admissible(system, q, rng), rng.standard_normal(model.nv)
    f_ext = rng.standard_normal((model.n_bodies, 6))
    f, at_closures = pp.joint_reactions(system, q, v, tau, f_ext)
    vdot = pp.forward_dynamics(system, q, v, tau, f_ext)
    wrenches = world_wrenches(system, q, f)
    left = wrenches + world_wrenches(system, q, f_ext)
    for k, parent in enumerate(model.parent):
        if parent >= 0:
            left[parent] -= wrenches[k]
    # d/dt of each body's momentum about the world's origin, by a complex step along the motion
    h = 1e-30
    moved = np.asarray(q) + 1j * h * model.qdot(q, v)
    X, V = pp.poses(model, moved), pp.velocities(model, moved, v + 1j * h * vdot)
    momenta = np.einsum("kij,kj->ki", model.inertia_matrices, V).reshape(-1, 2, 3)
    turned = np.einsum("kij,kpj->kpi", X[:, :3, :3], momenta)
    turned[:, 0] += np.cross(X[:, :3, 3], turned[:, 1])
    rate = turned.reshape(-1, 6).imag / h
    moment = np.stack([model.inertia_matrices[:, i, j] for i, j in ((2, 4), (0, 5), (1, 3))], -1)
    mass, R, p = model.inertia_matrices[:, 3, 3], X[:, :3, :3].real, X[:, :3, 3].real
    first = np.einsum("kij,kj->ki", R, moment) + mass[:, None] * p
    gravity = np.hstack([np.cross(first, model.gravity), mass[:, None] * model.gravity])
    # what is left are the closures: G* f of the least multipliers, by the rows of A B*
    closures = rate - gravity - left
    rows = pp.evaluate_dense(pp.parse("B A*"), system, q)
    f_rows = pp.constraint_forces(system, q, v, tau, f_ext)
    loads = world_wrenches(system, q, (rows @ f_rows).reshape(-1, 6))
    size = max(1.0, np.abs(wrenches).max(), np.abs(rate).max())
    assert_allclose(closures, -loads, rtol=0, atol=1e-10 * size)
    frames = frame_wrenches(system, q, at_closures)
    on_bodies = np.zeros_like(closures)
    for wrench, body in zip(frames, system.closures.points.body, strict=True):
        if body >= 0:
            on_bodies[body] += wrench
    assert_allclose(on_bodies, closures, rtol=0, atol=1e-10 * size)
    assert_allclose(in_balance(system, frames), 0, rtol=0, atol=1e-10 * size)
    hinges = pp.compile(pp.parse("H"), model)(q, f)
    assert_allclose(hinges, tau - model.armature * vdot, rtol=0, atol=1e-10 * size)


def test_many_states_at_once():
    system = four_bar()
    rng = np.random.default_rng(0)
    q = np.array([system.assemble([a, -0.7, -1.2]) for a in (0.8, 1.0, 1.2)])
    v, tau = np.zeros(3), rng.standard_normal((2, 1, 3))
    found = pp.joint_reactions(system, q, v, tau).joints
    assert found.shape == (2, 3, 3, 6)
    one = pp.joint_reactions(system, q[1], v, tau[1, 0]).joints
    assert_allclose(found[1, 1], one, rtol=0, atol=1e-12 * np.abs(one).max())


def test_the_world_feels_constant_rows():
    """A coupling of a joint at the base and one at the elbow, and rows in world axes."""
    arm = pp.examples.planar_arm(2)
    q, rest, tau = np.array([0.4, 0.9]), np.zeros(2), np.array([1.0, -2.0])
    gear = pp.constraints.Coupling(name="gear", joints=arm.joint_names, coefficients=[1, -3])
    system = pp.System(arm, [gear])
    reactions = pp.joint_reactions(system, q, rest, tau)
    frames = frame_wrenches(system, q, reactions.closures)
    f = pp.constraint_forces(system, q, rest, tau)
    assert_allclose(frames[:, :3].sum(axis=0), 0, atol=1e-12)  # torques between bodies
    names = system.closures.points.names
    total = {k: sum(x for x, b in zip(frames, system.closures.points.body, strict=True) if b == k)
             for k in (-1, 0, 1)}  # fmt: skip
    assert len(names) == len(frames)
    assert_allclose([total[k][2] for k in (-1, 0, 1)], f[0] * np.array([1, -4, 3]), atol=1e-12)
    wall = pp.constraints.Rows(name="wall", points=["tip"], A=[[0, 0, 0, 1, 0, 0]], axes="world")
    held = pp.System(arm, [wall])
    push = frame_wrenches(held, q, pp.joint_reactions(held, q, rest, tau).closures)
    wanted = pp.constraint_forces(held, q, rest, tau)[0]
    assert_allclose(push[0, 3:], [-wanted, 0, 0], atol=1e-12)
