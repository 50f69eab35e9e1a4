"""Rank is decided alike everywhere: mechanisms that are tilted, scaled, mixed, or given twice.

The second routes: the same mechanism without the rows that follow from others, whose rank is that
of its rows; the equations of motion in 50 digits; and each mechanism by itself.
"""

from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest
from amounts import ALL, seeds
from comparers import proportional as near
from known_systems import add_four_bar
from numpy.testing import assert_allclose
from random_systems import KINDS, admissible, random_system

import phipsi as pp
from phipsi import constraints as c
from phipsi.algorithms.constrained.row_rank import Ranked, least
from phipsi.algorithms.constrained.stages import Stages
from phipsi.core.spatial import so3_exp

CRANK = np.array([1.0, -0.8, -1.5])


def is_near(found, wanted, tolerance=1e-10) -> bool:
    return bool(np.abs(found - wanted).max() <= tolerance * np.abs(wanted).max())


def linkages(*parts, closure=None, add=None) -> pp.System:
    """Several four-bars in one system, each with its (rotation, scale, mass, place)."""
    b = pp.ModelBuilder(gravity=(0.3, -9.81, 0.5))
    pins = [add_four_bar(b, f"{'abc'[i]}_", *part, closure=closure) for i, part in enumerate(parts)]
    model = b.build()
    return pp.System(model, [*pins, *(add(model) if add else [])])


def motion(minimal: pp.System, rng) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A state and accelerations of a four-bar that keep its two rows."""
    q = minimal.assemble(CRANK)
    G = minimal.jacobian(q)
    z = along(G)
    v = z * rng.uniform(0.5, 2)
    vdot = np.zeros(3)
    vdot[1:] = np.linalg.solve(G[:, 1:], -minimal.bias(q, v))
    return q, v, vdot + z * rng.uniform(-2, 2)


def along(G) -> np.ndarray:
    """The one motion of a four-bar, from its two rows, with the crank at 1 rad/s."""
    z = np.cross(*(row / np.linalg.norm(row) for row in G))
    return z / z[0]


def with_rows_of_length_one(system: pp.System, q, needed) -> float:
    """The effort of the crank as it was found: every row divided by its own length."""
    G, L = system.jacobian(q), np.linalg.cholesky(pp.mass_matrix(system.model, q))
    rows = np.linalg.solve(L, G.T).T
    size = np.linalg.norm(rows, axis=1, keepdims=True)
    _, s, right = np.linalg.svd(rows / np.where(size > 0, size, 1))
    null = right[(s > 1e-8 * s[0]).sum() :]
    reach, wanted = null @ np.linalg.inv(L)[:, :1], null @ np.linalg.solve(L, needed)
    return float((np.linalg.pinv(reach) @ wanted)[0])


# ---- tilted --------------------------------------------------------------------------------------


def test_four_bars_in_all_planes_need_the_same_effort():
    """Rows of the pin that are 1e-17 became constraints, and the effort was off without a word."""
    rng = np.random.default_rng(0)
    caught = 0
    for _ in range(12):
        part = (so3_exp(2 * rng.standard_normal(3)),)
        minimal, full = linkages(part, closure=c.PointOnLine), linkages(part)
        q, v, vdot = motion(minimal, rng)
        needed = pp.inverse_dynamics(full.model, q, v, vdot)
        effort = along(minimal.jacobian(q)) @ needed  # virtual work
        found = pp.inverse_dynamics(full, q, v, vdot, actuated=["a_crank"], return_multipliers=True)
        near(found.tau, [effort, 0, 0])
        near(found.f[2:4], np.linalg.lstsq(minimal.jacobian(q).T, found.tau - needed)[0])
        near(full.jacobian(q).T @ found.f, found.tau - needed)
        assert len(full.redundant_rows(q)) == 3
        caught += not is_near(with_rows_of_length_one(full, q, needed), effort, 1e-3)
    assert caught > 6  # the old way fails on these mechanisms


@pytest.mark.parametrize("seed", seeds(6))
def test_random_systems_with_constraints_given_twice(seed):
    """Whatever rows follow from others, efforts give the motion back that they were asked for."""
    rng = np.random.default_rng(seed)
    kinds = [KINDS[i] for i in rng.permutation(len(KINDS))[:3]]
    once, q = random_system(seed, 5, kinds, independent=True)
    again = [replace(x, name=f"{x.name} again") for x in once.constraints]
    twice = pp.System(once.model, [*again[::-1], *once.constraints])
    v = admissible(once, q, rng)
    G = once.jacobian(q)
    vdot = rng.standard_normal(once.model.nv)
    vdot = vdot - np.linalg.pinv(G) @ (G @ vdot + once.bias(q, v))
    a, b = (pp.inverse_dynamics(s, q, v, vdot, return_multipliers=True) for s in (twice, once))
    near(a.tau, b.tau, 1e-9)
    near(pp.forward_dynamics(twice, q, v, a.tau), vdot, 1e-8)
    near(twice.jacobian(q).T @ a.f, G.T @ b.f, 1e-8)
    Z = np.linalg.svd(G)[2][np.linalg.matrix_rank(G, tol=1e-9) :].T
    both = [pp.forward_dynamics_derivatives(s, q, v, a.tau) for s in (twice, once)]
    for x, y in zip(*both, strict=True):
        near(x @ Z, y @ Z, 1e-8)
    assert twice.mobility(q).mobility == once.mobility(q).mobility


# ---- scaled --------------------------------------------------------------------------------------


def scaled(system: pp.System, length: float, mass: float) -> pp.System:
    """The same mechanism of another size and weight; gravity too, so that angles move alike."""
    model = system.model
    b = pp.ModelBuilder(gravity=length * np.asarray(model.gravity))
    for i, name in enumerate(model.body_names):
        body, X = model.body(name), model.placements[i]
        inertia = body.inertia
        b.add_body(
            name,
            parent=model.body_names[model.parent[i]] if model.parent[i] >= 0 else "world",
            joint=model.joints[i],
            placement=pp.Pose(X.rotation, length * np.asarray(X.translation)),
            inertia=pp.SpatialInertia(
                mass * inertia.mass,
                length * np.asarray(inertia.com_B),
                mass * length**2 * np.asarray(inertia.moment_about_com_B),
            ),
        )
    ends = []
    for x in system.constraints:
        change = {}
        for side in ("a", "b"):
            name, X = getattr(x, side)
            change[side] = (name, pp.Pose(X.rotation, length * np.asarray(X.translation)))
        ends.append(replace(x, **change))
    return pp.System(b.build(), ends)


TURNING = ["revolute", "spherical", "universal"]


UNITS = {"mm and mg": (2.0**-10, 2.0**-20), "km and t": (2.0**10, 2.0**10)}


@pytest.mark.parametrize("units", UNITS)
def test_size_and_weight_change_nothing_but_units(units):
    """Powers of two are exact: angles, ranks and poles must be the same to the last digits."""
    length, mass = UNITS[units]
    both = [(0, ["Weld"]), (1, ["Revolute", "PointOnLine"])]
    for seed, kinds in both if ALL else both[list(UNITS).index(units) :][:1]:
        system, q = random_system(seed, 6, kinds, joints=TURNING)
        system = pp.System(
            system.model, [*system.constraints, replace(system.constraints[0], name="again")]
        )
        other = scaled(system, length, mass)
        rng = np.random.default_rng(seed)
        _, v = system.project(q, rng.standard_normal(system.model.nv))
        tau = rng.standard_normal(system.model.nv)
        unit = mass * length**2
        a, b = system.mobility(q), other.mobility(q)
        assert a.redundant == b.redundant and a.rank == b.rank < len(system.jacobian(q))
        near(other.project(q, v)[1], v, 1e-12)
        vdot = pp.forward_dynamics(system, q, v, tau)
        near(pp.forward_dynamics(other, q, v, unit * tau), vdot, 1e-11)
        near(
            pp.inverse_dynamics(other, q, v, vdot),
            unit * pp.inverse_dynamics(system, q, v, vdot),
            1e-11,
        )
        one = pp.forward_dynamics_derivatives(system, q, v, tau)
        two = pp.forward_dynamics_derivatives(other, q, v, unit * tau)
        for x, y, factor in zip(one, two, (1, 1, unit), strict=True):
            near(factor * y, x, 1e-10)
        one, two = pp.linearize(system, q, v, tau), pp.linearize(other, q, v, unit * tau)
        assert len(one.A) == 2 * a.mobility > 0
        near(two.A, one.A, 1e-10)


# ---- mixed ---------------------------------------------------------------------------------------

BESIDE = {
    "20 kg, 5 mm of 1 mg": ((1.0, 20.0), (5e-3, 1e-6)),
    "1 t, 1 km; 1 mg, 1 mm": ((1e3, 1e3), (1e-3, 1e-6)),
}


@pytest.fixture(params=BESIDE.values(), ids=BESIDE, scope="module")
def mixed(request):
    """A heavy and a light four-bar in one system, at a motion of both; and each by itself."""
    rng = np.random.default_rng(7)
    parts = [
        (so3_exp(rng.standard_normal(3)), scale, mass, at)
        for (scale, mass), at in zip(request.param, ((0, 0, 0), (0.3, 0.2, 0.1)), strict=True)
    ]
    minimal = [linkages(part, closure=c.PointOnLine) for part in parts]
    states = [motion(one, rng) for one in minimal]
    q, v, vdot = (np.concatenate(x) for x in zip(*states, strict=True))
    alone = [linkages(part) for part in parts]
    return linkages(*parts), alone, minimal, q, v, vdot


PLACES = slice(0, 3), slice(3, 6)


def crank_efforts(minimal, q, v, vdot) -> np.ndarray:
    tau = np.zeros(6)
    for one, at in zip(minimal, PLACES, strict=True):
        needed = pp.inverse_dynamics(one.model, q[at], v[at], vdot[at])
        tau[at.start] = along(one.jacobian(q[at])) @ needed
    return tau


def test_mixed_efforts(mixed):
    system, _, minimal, q, v, vdot = mixed
    wanted = crank_efforts(minimal, q, v, vdot)
    found = pp.inverse_dynamics(
        system, q, v, vdot, actuated=["a_crank", "b_crank"], return_multipliers=True
    )
    every = pp.inverse_dynamics(system, q, v, vdot, return_multipliers=True)
    for one, at in zip(minimal, PLACES, strict=True):
        near(found.tau[at], wanted[at])
        G = one.jacobian(q[at])
        needed = pp.inverse_dynamics(one.model, q[at], v[at], vdot[at])
        z = along(G)
        near(every.tau[at], z * (z @ needed) / (z @ z))  # the least ones
    # a motion that breaks the rows of the small one only is told
    off = vdot.copy()
    off[3] += 1e-3 * np.abs(vdot[3:]).max()
    with pytest.raises(pp.errors.InputError, match="does not keep the constraints: row 'b_pin"):
        pp.inverse_dynamics(system, q, v, off, return_multipliers=True)


@pytest.mark.parametrize("backend", ["native", "reference"])
def test_mixed_dynamics(mixed, backend, monkeypatch):
    monkeypatch.setenv("PHIPSI_BACKEND", backend)
    system, alone, minimal, q, v, vdot = mixed
    system = pp.System(system.model, system.constraints)
    tau = crank_efforts(minimal, q, v, vdot)
    for found in (
        pp.forward_dynamics(system, q, v, tau),
        Stages().dynamics(system, q, v, tau)[0],
    ):
        for at in PLACES:
            near(found[at], vdot[at], 1e-9)
    forces = pp.constraint_forces(system, q, v, tau)
    jump, _ = pp.constraint_impulse(system, q, v + np.cos(np.arange(6)))
    _, rates = system.project(q, v + np.cos(np.arange(6)))
    for k, (one, at) in enumerate(zip(alone, PLACES, strict=True)):
        near(forces[5 * k : 5 * k + 5], pp.constraint_forces(one, q[at], v[at], tau[at]), 1e-8)
        z = along(minimal[k].jacobian(q[at]))
        M = pp.mass_matrix(one.model, q[at])
        projected = z * (z @ M @ (v + np.cos(np.arange(6)))[at]) / (z @ M @ z)
        near(jump[at], projected, 1e-9)
        near(rates[at], projected, 1e-6)  # at the configuration that the projection found
    assert system.mobility(q).rank == 4


def test_mixed_derivatives(mixed):
    """By efforts against 50 digits; by all else against each mechanism by itself."""
    system, alone, minimal, q, v, vdot = mixed
    tau = crank_efforts(minimal, q, v, vdot)
    by_q, by_v, by_tau = pp.forward_dynamics_derivatives(system, q, v, tau)
    A, B = pp.step_derivatives(system, q, v, tau, 1e-6, integrator="rk4")
    whole = pp.linearize(system, q, v, tau, independent=["a_crank", "b_crank"])
    for k, (one, at) in enumerate(zip(minimal, PLACES, strict=True)):
        near(by_tau[at, at], exact_by_efforts(one, q[at]))
        assert not is_near(1.000001 * by_tau[at, at], exact_by_efforts(one, q[at]))
        mine = pp.forward_dynamics_derivatives(one, q[at], v[at], tau[at])
        z = along(one.jacobian(q[at]))  # along other directions rows that were redundant are not
        near(by_q[at, at] @ z, mine[0] @ z, 1e-9)
        near(by_v[at, at] @ z, mine[1] @ z, 1e-9)
        step = pp.step_derivatives(alone[k], q[at], v[at], tau[at], 1e-6, integrator="rk4")
        both = np.r_[at, slice(6 + at.start, 6 + at.stop)]
        near(A[np.ix_(both, both)], step[0], 1e-9)
        near(B[both, at], step[1], 1e-9)
        single = pp.linearize(one, q[at], v[at], tau[at], independent=["a_crank"])
        near(whole.A[k::2, k::2], single.A, 1e-9)


def exact_by_efforts(system: pp.System, q) -> np.ndarray:
    """Accelerations by efforts: a block of the inverse of [ℳ G*; G 0], in 50 digits."""
    G, M = system.jacobian(q), pp.mass_matrix(system.model, q)
    n, rows = len(M), len(G)
    with mp.workdps(50):
        K = mp.zeros(n + rows)
        for i in range(n):
            for j in range(n):
                K[i, j] = mp.mpf(M[i, j])
            for j in range(rows):
                K[i, n + j] = K[n + j, i] = mp.mpf(G[j, i])
        inverse = K**-1
        return np.array([[float(inverse[i, j]) for j in range(n)] for i in range(n)])


def test_mixed_mechanisms_are_assembled_together(mixed):
    """A light one does not keep a heavy one from moving."""
    system, alone, *_ = mixed
    start = np.concatenate([CRANK, CRANK])
    found = system.assemble(start)
    for one, at in zip(alone, PLACES, strict=True):
        assert np.abs(one.residual(found[at])).max() < 1e-10


@pytest.mark.parametrize("sizes", [(1.0, 20.0, 5e-3, 1e-6), (1e3, 1e3, 1e-3, 1e-6)])
def test_angular_rows_of_a_light_linkage_do_not_hide_a_heavy_loop(sizes, monkeypatch):
    """A gear in the light linkage: its row moves 1e12 (1e15) times as easily as the heavy pin."""
    heavy = (so3_exp([0.3, -0.2, 0.5]), *sizes[:2])
    light = (so3_exp([-0.4, 0.9, 0.1]), *sizes[2:], (0.3, 0.2, 0.1))
    rng = np.random.default_rng(1)
    minimal = linkages(heavy, closure=c.PointOnLine)
    q1, v1, vdot1 = motion(minimal, rng)
    q = np.concatenate([q1, linkages(light).assemble(CRANK)])
    tree = linkages(heavy, light)
    gear = c.Coupling(
        name="gear", joints=["b_crank", "b_coupler"], coefficients=(1, 1), offset=q[3] + q[4]
    )
    system = pp.System(tree.model, [*tree.constraints, gear])  # the gear holds the light one
    assert system.mobility(q).mobility == 1
    v, tau = np.concatenate([v1, np.zeros(3)]), np.zeros(6)
    tau[0] = along(minimal.jacobian(q1)) @ pp.inverse_dynamics(minimal.model, q1, v1, vdot1)
    for backend in ("native", "reference"):
        monkeypatch.setenv("PHIPSI_BACKEND", backend)
        same = pp.System(tree.model, [gear, *tree.constraints])
        near(pp.forward_dynamics(same, q, v, tau)[:3], vdot1)
        near(Stages().dynamics(same, q, v, tau)[0][:3], vdot1)
    by_tau = pp.forward_dynamics_derivatives(system, q, v, tau)[2]
    exact = exact_by_efforts(minimal, q1)
    near(by_tau[:3, :3], exact)
    free = np.linalg.inv(pp.mass_matrix(system.model, q))[3:, 3:]
    assert np.abs(by_tau[3:, 3:]).max() < 1e-12 * np.abs(free).max()
    # as it was: a pseudo-inverse of G ℳ⁻¹ G* that drops what is below 1e-9 of the largest
    G, inverse = system.jacobian(q), np.linalg.inv(pp.mass_matrix(system.model, q))
    dropped = np.linalg.pinv(G @ inverse @ G.T, rcond=1e-9, hermitian=True)
    old = inverse - inverse @ G.T @ dropped @ G @ inverse
    assert not is_near(old[:3, :3], exact, 0.1)


# ---- an object, and what holds it ----------------------------------------------------------------


def held_by_planar_arm(turn) -> tuple[pp.System, np.ndarray]:
    """A box welded to the tip of three links that move in a plane."""
    R = np.asarray(turn)
    b = pp.ModelBuilder()
    link = pp.SpatialInertia(1.0, R @ (0.5, 0, 0), 0.1 * np.eye(3))
    parent, place = "world", np.zeros(3)
    for i in range(3):
        joint, X = pp.joints.Revolute(R @ (0, 0, 1)), pp.Pose(translation=place)
        b.add_body(f"link{i}", parent=parent, joint=joint, placement=X, inertia=link)
        parent, place = f"link{i}", R @ (1.0, 0, 0)
    b.add_body("box", joint=pp.joints.Free(), inertia=pp.SpatialInertia(2.0, (0, 0, 0), 0.3))
    weld = c.Weld(name="weld", a=("link2", place), b="box")
    system = pp.System(b.build(), [weld], secondary=["box"])
    start = system.model.neutral()
    start[system.model.q_slice("link1")] = start[system.model.q_slice("link2")] = 0.7
    return system, system.assemble(start)


@pytest.mark.parametrize("seed", range(4))
def test_a_planar_arm_cannot_give_way_out_of_its_plane(seed):
    """Rows that no link can move are refused, in whatever plane the arm is."""
    rng = np.random.default_rng(seed)
    system, q = held_by_planar_arm(so3_exp(2 * rng.standard_normal(3)))
    still = np.zeros(system.model.nv)
    with pytest.raises(
        pp.errors.SingularMatrixError, match="cannot give way along all of the rows"
    ):
        pp.forward_dynamics(system, q, still, still, algorithm="secondary", return_multipliers=True)
    assert system.mobility(q).mobility == 3


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_contact_forces_on_objects_of_all_sizes(size):
    """Two points cannot turn an object about the line through them, however small it is."""
    b = pp.ModelBuilder()
    mass = pp.SpatialInertia(1.0, (0, 0, 0), 0.1 * size**2)
    fingers = {"left": (-size, 0, 0), "right": (size, 0, 0), "top": (0, size, 0)}
    for name, at in fingers.items():
        joint, X = pp.joints.Translation(), pp.Pose(translation=at)
        b.add_body(name, joint=joint, placement=X, inertia=pp.SpatialInertia(1.0, (0, 0, 0), 0))
    b.add_body("box", joint=pp.joints.Free(), inertia=mass)
    model = b.build()

    def grasp(*names):
        ends = [(n, ("box", fingers[n])) for n in names]
        points = [pp.grasping.Point(name=f"at {n}", finger=n, object=x) for n, x in ends]
        return pp.grasping.Grasp(model, object="box", contacts=points)

    q = model.neutral()
    two, three = grasp("left", "right"), grasp("left", "right", "top")
    assert two.internal_forces(q).shape == (6, 1)
    assert three.internal_forces(q).shape == (9, 3)
    for one in (two, three):
        N = one.internal_forces(q)
        near(N.T @ N, np.eye(N.shape[1]))
        assert np.abs(one.grasp_map(q) @ N).max() < 1e-14 * max(1, size)
    lift = np.array([0, 0, 0, 1.0, 2.0, 3.0])
    near(two.distribute(q, lift), np.tile(lift[3:] / 2, 2))
    twist = np.array([size, 0, 0, 0, 0, 0])
    with pytest.raises(pp.errors.InputError, match="cannot give the object this load"):
        two.distribute(q, twist)
    near(three.grasp_map(q) @ three.distribute(q, twist), twist, 1e-9)


# ---- the parts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", [0, 3, 6])
def test_the_least_in_other_units(spread):
    """|units · z| is least, against 50 digits, although units differ by 10 ** (2 spread)."""
    rng = np.random.default_rng(spread)
    matrix = rng.standard_normal((3, 4, 6))
    matrix[0, 1:] = 0  # another rank than the others
    ranked = Ranked(matrix)
    projector = ranked.across()
    y, units = rng.standard_normal((3, 6)), 10.0 ** rng.uniform(-spread, spread, (3, 6))
    z = (least(projector, units) @ y[..., None])[..., 0]
    for i, (start, unit, found) in enumerate(zip(y, units, z, strict=True)):
        free = np.linalg.svd(np.eye(6) - projector[i])[0][:, : 6 - ranked.rank[i]]
        with mp.workdps(50):
            N, W = mp.matrix(free.tolist()), mp.diag([mp.mpf(u) ** 2 for u in unit])
            begin = mp.matrix(start.tolist())
            step = mp.lu_solve(N.T * W * N, N.T * W * begin)
            exact = np.array([float(x) for x in begin - N * step])
        rounding = 1e-14 * np.abs(unit * start).max()
        assert_allclose(unit * found, unit * exact, rtol=0, atol=rounding)
        assert np.abs(unit * (found - start)).max() > 1e9 * rounding


def test_limits_of_rank():
    """Rounding is not a row, and a small row is one."""
    rows = np.array([[1.0, 0, 0], [0, 1e-6, 0], [0, 1e-16, 1e-16]])
    ranked = Ranked(rows[None])
    assert ranked.rank[0] == 2
    assert_allclose(ranked.across()[0], np.diag([1.0, 1, 0]), atol=1e-9)
    assert Ranked(1e-16 * np.eye(3)[None]).rank[0] == 0


def test_no_states_at_all():
    """A batch of none."""
    system = linkages((so3_exp([0.3, -0.2, 0.5]),))
    none = np.zeros((0, 3))
    assert pp.inverse_dynamics(system, none, none, none).shape == (0, 3)
    assert pp.constraint_forces(system, none, none, none).shape == (0, 5)
    assert [x.shape for x in pp.forward_dynamics_derivatives(system, none, none, none)] == (
        3 * [(0, 3, 3)]
    )
