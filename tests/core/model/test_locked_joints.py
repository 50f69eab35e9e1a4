"""A locked joint: its body keeps its name and its P, its rates leave v, and G(k) has no columns.

The same as a row v_k = 0 added to the equations, and as the sweep with the hinge masked out.
"""

import numpy as np
import pytest
from amounts import seeds
from comparers import close as near
from numpy.testing import assert_allclose
from random_models import ALL, JOINTS, random_inertia, random_pose, random_tree
from random_systems import KINDS, random_system

import phipsi as pp
from phipsi import constraints as c, topology as top
from phipsi.operators import D, G, P


def left(model: pp.Model, joints) -> tuple[np.ndarray, np.ndarray]:
    """Places in q and v of all other joints."""
    q, v = np.arange(model.nq), np.arange(model.nv)
    gone_q = [q[model.q_slice(n)] for n in joints]
    gone_v = [v[model.v_slice(n)] for n in joints]
    return np.delete(q, np.concatenate(gone_q)), np.delete(v, np.concatenate(gone_v))


def drawn(seed: int, **options):
    rng = np.random.default_rng(seed)
    model = random_tree(rng, 8, n_roots=1 + seed % 2, armature=seed % 3 == 0, **options)
    q = model.random_configuration(rng)
    joints = [model.joint_names[i] for i in rng.permutation(model.n_bodies)[: 1 + seed % 3]]
    v, tau = rng.standard_normal((2, model.nv))
    return rng, model, q, v, tau, joints


@pytest.mark.parametrize("seed", range(10))
def test_it_is_the_masked_sweep(seed):
    """Hybrid dynamics: H(k) masked, so G(k) = 0 and v̇_k = 0 is given."""
    _, model, q, v, tau, joints = drawn(seed)
    at_q, at_v = left(model, joints)
    v[np.delete(np.arange(model.nv), at_v)] = 0
    locked = model.with_locked(joints, q)
    assert locked.nv == len(at_v) and set(joints).isdisjoint(locked.joint_names)
    vdot = pp.forward_dynamics(locked, q[at_q], v[at_v], tau[at_v])
    masked = pp.hybrid_dynamics(model, q, v, np.zeros(model.nv), tau, prescribed=joints)
    assert not np.delete(masked.vdot, at_v).any()
    near(vdot, masked.vdot[at_v])


@pytest.mark.parametrize("seed", seeds(10))
def test_it_is_the_row_v_k_is_zero(seed):
    """ℳ v̇ = τ − bias − E* f with E v̇ = 0, in dense algebra, loops included."""
    rng = np.random.default_rng(seed)
    kinds = [KINDS[i] for i in rng.permutation(len(KINDS))[:3]]
    system, q = random_system(seed, 8, kinds, spare=6, n_roots=2, independent=True)
    model = system.model
    joints = [model.joint_names[int(rng.integers(model.n_bodies))]]
    at_q, at_v = left(model, joints)
    held = system.with_locked(joints, q)
    rows = np.concatenate([system.jacobian(q), np.delete(np.eye(model.nv), at_v, axis=0)])
    s = np.linalg.svd(rows, compute_uv=False)
    rank = int((s > 1e-9 * s[0]).sum())
    null = np.linalg.svd(rows)[2][rank:]
    v = null.T @ rng.standard_normal(len(null))
    tau = rng.standard_normal(model.nv)
    drift = np.concatenate([system.bias(q, v), np.zeros(len(rows) - system.n_rows)])
    mass = pp.mass_matrix(model, q)
    load = tau - pp.bias_forces(model, q, v)
    KKT = np.block([[mass, rows.T], [rows, np.zeros((len(rows), len(rows)))]])
    vdot = (np.linalg.pinv(KKT, rcond=1e-13) @ np.concatenate([load, -drift]))[: model.nv]
    found = pp.forward_dynamics(held, q[at_q], v[at_v], tau[at_v])
    near(found, vdot[at_v], 1e-7)
    assert_allclose(np.delete(vdot, at_v), 0, atol=1e-9)
    assert np.abs(held.residual(q[at_q])).max(initial=0) < 1e-9


@pytest.mark.parametrize("seed", range(6))
def test_the_body_keeps_its_name_its_frames_and_its_P(seed):
    """τ̄(k) = I: all of P(k) is handed to the body inboard of it, and G has no columns for it."""
    rng, model, q, *_ = drawn(seed, frames=True)
    inner = [k for k in range(model.n_bodies) if model.parent[k] >= 0]
    k = inner[int(rng.integers(len(inner)))]
    p, body, joint = model.parent[k], model.body_names[k], model.joint_names[k]
    at_q, at_v = left(model, [joint])
    locked = model.with_locked(joint, q)
    X = dict(zip(model.body_names, pp.poses(model, q), strict=True))
    Y = dict(zip(locked.body_names, pp.poses(locked, q[at_q]), strict=True))
    for name in (body, *(n for n, (host, _) in model.frames.items() if host == k)):
        host, pose = locked.resolve_point(name)
        where, there = model.resolve_point(name)
        near(Y[locked.body_names[host]] @ pose.matrix, X[model.body_names[where]] @ there.matrix)
    ball = pp.System(locked, [c.Spherical(name="ball", a=(body, (0.1, 0, 0)), b="world")])
    assert ball.closures.closures[0].a == locked.body_index(model.body_names[p])
    whole, part = (
        pp.compile((P, D, G), m, mode="blocks")(x) for m, x in ((model, q), (locked, q[at_q]))
    )
    assert part[2].shape == (6, locked.nv)
    host, pose = locked.resolve_point(body)
    R, r = pose.rotation, pose.translation
    cross = np.array([[0, -r[2], r[1]], [r[2], 0, -r[0]], [-r[1], r[0], 0]])
    shift = np.block([[R, cross @ R], [np.zeros((3, 3)), R]])
    # P(p) with and without the share that the hinge of k kept back, G D G*
    kept = whole[2][:, model.v_slices[k]]
    width = model.joints[k].nv
    more = shift @ kept @ whole[1][k, :width, :width] @ kept.T @ shift.T
    near(part[0][host], whole[0][p] + more, 1e-10)
    outboard = [model.body_names[i] for i in model.tree.subtree(k)][1:]
    for name in outboard:  # and the bodies on it have what they had
        near(part[0][locked.body_index(name)], whole[0][model.body_index(name)], 1e-12)


def test_what_is_left_of_constraints():
    arm = pp.examples.planar_arm(4)
    q = np.array([0.3, 0.4, 0.5, 0.6])
    gear = c.Coupling(name="gear", joints=["joint1", "joint3"], coefficients=[2, -1], offset=0.1)
    slot = c.PointOnLine((0, 1, 0), name="slot", a=("link2", (1, 0, 0)), b="link3")
    system = pp.System(arm, [gear, slot], secondary=["link4"])
    held = system.with_locked("joint3", q)
    assert held.row_names == ("gear.ratio",)
    near(held.residual(np.delete(q, 2)), system.residual(q)[:1], 1e-14)
    near(held.jacobian(np.delete(q, 2)), np.delete(system.jacobian(q)[:1], 2, axis=1), 1e-14)
    assert held.closures.selections["S"] == {held.model.body_index("link4")}
    assert (
        system.with_locked(["joint1", "joint3"], dict(zip(arm.joint_names, q, strict=True))).n_rows
        == 0
    )
    assert system.with_locked("joint2", q).row_names == system.row_names


@pytest.mark.parametrize("seed", seeds(6))
def test_a_lock_in_a_run_jumps_as_by_the_row(seed):
    """All joint types, several at once, with loops: the mass-metric projection, dense."""
    rng = np.random.default_rng([seed, 5])
    system, q = random_system(
        seed, 7, ("Spherical", "Coupling", "Distance"), spare=6, n_roots=2, independent=True
    )
    model = system.model
    q, v = system.project(q, rng.standard_normal(model.nv))
    joints = [model.joint_names[i] for i in rng.permutation(model.n_bodies)[: 1 + seed % 2]]
    run = pp.simulate(
        system, q, 0.3 * v, 0.02, events=[top.at(0.01, top.Lock(*joints))], rtol=1e-9, atol=1e-10
    )
    event = run.events[0]
    _, at_v = left(model, joints)
    rows = np.concatenate([system.jacobian(event.q), np.delete(np.eye(model.nv), at_v, axis=0)])
    mass = pp.mass_matrix(model, event.q)
    inverse = np.linalg.inv(mass)
    pinned = np.linalg.pinv(rows @ inverse @ rows.T, rcond=1e-11, hermitian=True)
    after = event.v - inverse @ rows.T @ pinned @ (rows @ event.v)
    near(event.v_after, after, 1e-8)
    change = event.change
    near(mass @ (event.v - event.v_after), _load(system, model, change, event.q), 1e-8)
    assert change.rows[: system.n_rows] == system.row_names
    assert change.steps["solve", ""] == 1
    assert run.phases[-1].system.stages.counts == change.steps


def _load(system, model, change, q):
    """G* p of all rows that acted, locks included."""
    locks = [row.removesuffix(".lock") for row in change.rows[system.n_rows :]]
    joints = dict.fromkeys(locks)
    places = np.concatenate([np.arange(model.nv)[model.v_slice(n)] for n in joints])
    load = system.jacobian(q).T @ change.impulses[: system.n_rows]
    load[places] += change.impulses[system.n_rows :]
    return load


def test_every_type_of_joint_can_be_locked():
    for kind in ALL:
        rng = np.random.default_rng(1)
        b = pp.ModelBuilder()
        b.add_body("a", joint=pp.joints.Free(), inertia=random_inertia(rng))
        b.add_body(
            "b",
            parent="a",
            joint=JOINTS[kind](rng),
            placement=random_pose(rng),
            inertia=random_inertia(rng),
            joint_name="j",
        )
        model = b.build()
        q, v = model.random_configuration(rng), rng.standard_normal(model.nv)
        run = pp.simulate(model, q, v, 0.02, events=[top.at(0.01, top.Lock("j"))])
        event = run.events[0]
        near(event.change.momentum_after, event.change.momentum, 1e-10)
        assert not event.v_after[6:].any()
        lost = event.v - event.v_after  # Carnot
        near(
            event.change.energy - event.change.energy_after,
            pp.kinetic_energy(model, event.q, lost),
            1e-10,
        )
