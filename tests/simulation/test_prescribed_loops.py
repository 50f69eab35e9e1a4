"""Runs of systems in which the motion of some joints is prescribed."""

import numpy as np
import pytest
from amounts import mostly
from known_systems import pinned_four_bar
from numpy.testing import assert_allclose
from random_systems import KINDS, admissible, random_system

import phipsi as pp
from phipsi.algorithms.constrained.constraint_metric import ConstraintMetric
from phipsi.simulation.integrators.motion import Motion
from phipsi.simulation.simulate.equations import Equations
from phipsi.simulation.simulate.prescribed import Prescribed
from phipsi.simulation.simulate.run_constraints import RunConstraints

FOUR_BAR, Q = pinned_four_bar()
_, V = FOUR_BAR.project(Q, [0.3, 0.0, 0.0])


def crank(t, q, v):
    return 2 * np.cos(3 * t)


def crank_angle(t):
    return Q[0] + V[0] * t + 2 * (1 - np.cos(3 * t)) / 9


def dense_motion(system, q, v, tau, given):
    """vdot and the efforts of prescribed rates, from all equations at once: forces are unknowns."""
    nv, held = system.nv, sorted(given)
    M, bias = pp.mass_matrix(system.model, q), pp.bias_forces(system.model, q, v)
    G, S = system.jacobian(q), np.eye(nv)[held]
    rows = np.vstack([G, S])
    size = nv + len(rows)
    K = np.zeros((size, size))
    K[:nv, :nv], K[:nv, nv:], K[nv:, :nv] = M, rows.T, rows
    wanted = np.concatenate([-system.bias(q, v), [given[i] for i in held]])
    right = np.concatenate([np.where(np.isin(np.arange(nv), held), 0.0, tau) - bias, wanted])
    found = np.linalg.lstsq(K, right, rcond=1e-11)[0]
    assert np.abs(K @ found - right).max() < 1e-7 * max(1, np.abs(right).max())
    return found[:nv], -found[nv + len(G) :]


RANDOM = [(seed, backend) for seed in (0, 1, 3) for backend in ("native", "reference")]


@pytest.mark.parametrize(("seed", "backend"), mostly(RANDOM, (0, "native"), (3, "native")))
def test_accelerations_are_those_of_the_dense_equations(seed, backend, monkeypatch):
    monkeypatch.setenv("PHIPSI_BACKEND", backend)
    rng = np.random.default_rng(seed)
    kinds = [KINDS[i] for i in rng.permutation(len(KINDS))[:2]]
    system, q = random_system(seed, 7, kinds, n_roots=2)
    v, tau = admissible(system, q, rng), rng.standard_normal(system.nv)
    metric = ConstraintMetric(system.rows, q[None])
    single = [s.start for s in system.v_slices if s.stop - s.start == 1]
    i = max(single, key=lambda k: float(np.linalg.norm(metric.coordinates()[k])))
    assert np.linalg.norm(metric.coordinates()[i]) > 0.1  # the loops let it move
    name = next(n for n, s in zip(system.joint_names, system.v_slices, strict=True) if s.start == i)
    moved = Prescribed(system.model, {name: 0.7})
    loops = RunConstraints(Motion(system, moved.free), "project", 1e-10, 20)
    equations = Equations(system.model, lambda *_: tau, [], moved, loops)
    loops.start(q, v)
    exact, effort = dense_motion(system, q, v, tau, {i: 0.7})
    size = max(1, np.abs(exact).max())
    assert_allclose(equations.acceleration(0.0, q, v), exact, atol=1e-8 * size)
    needed = equations.recorded_effort(0.0, q, v)
    assert_allclose(needed[i], effort[0], atol=1e-7 * max(1, np.abs(effort).max()))
    assert_allclose(np.delete(needed, i), np.delete(tau, i))
    batch = np.where(np.arange(system.nv) == i, 0.7, tau)
    motion = Motion(system, moved.free).accelerations(q, v, batch)
    assert_allclose(motion, exact, atol=1e-8 * size)


@pytest.mark.parametrize("stabilization", ["project", "baumgarte", "none"])
@pytest.mark.parametrize(
    ("integrator", "options"), [("dopri", {}), ("radau", {}), ("rk4", {"dt": 2e-3})]
)
def test_a_prescribed_crank_follows_its_path(integrator, options, stabilization):
    run = pp.simulate(
        FOUR_BAR, Q, V, 0.5, prescribed={"joint1": crank}, integrator=integrator,
        stabilization=stabilization, work=True, **options,
    )  # fmt: skip
    assert_allclose(run.q[:, 0], crank_angle(run.t), atol=1e-8)
    limit = 1e-10 if stabilization == "project" else 1e-8
    assert np.abs(run.constraint_residuals).max() < limit
    assert np.abs(np.einsum("krv,kv->kr", FOUR_BAR.jacobian(run.q), run.v)).max() < 1e-7
    assert_allclose(run.energy - run.energy[0], run.work, atol=1e-7)


def test_recorded_efforts_drive_the_same_motion():
    """Forward dynamics under them gives the prescribed motion, and only the crank is driven."""
    spring = pp.forces.JointSpring("joint2", 3.0)
    pushed = pp.forces.Wrench("link2", (0.0, 0.0, 0.4, 1.0, -2.0, 0.0), axes="body")
    run = pp.simulate(FOUR_BAR, Q, V, 0.5, prescribed={"joint1": crank}, forces=[spring, pushed])
    assert not run.tau[:, 1:].any()
    pull, load = np.zeros_like(run.tau), np.zeros((3, 6))
    pull[:, 1] = -3.0 * run.q[:, 1]
    load[1] = 0.0, 0.0, 0.4, 1.0, -2.0, 0.0
    vdot = pp.forward_dynamics(FOUR_BAR, run.q, run.v, run.tau + pull, load)
    assert_allclose(vdot[:, 0], crank(run.t, None, None), atol=1e-7)


def test_a_crank_passes_dead_points_of_the_rocker():
    """A crank that turns all the way round, with the others where trigonometry has them."""
    arm = pp.ModelBuilder(gravity=(0, -9.81, 0))
    rod = pp.SpatialInertia(1.0, (0.5, 0, 0), np.diag([0.01, 0.1, 0.1]))
    lengths = {"crank": 0.5, "coupler": 1.5, "rocker": 1.2}
    last, at = "world", 0.0
    for name, length in lengths.items():
        arm.add_body(
            name, parent=last, joint=pp.joints.Revolute((0, 0, 1)), inertia=rod,
            placement=pp.Pose(translation=(at, 0, 0)),
        )  # fmt: skip
        last, at = name, length
    end = pp.constraints.Revolute((0, 0, 1), name="end", a=("rocker", (1.2, 0, 0)),
                                  b=("world", (1.6, 0, 0)))  # fmt: skip
    system = pp.System(arm.build(), [end])
    q = system.assemble([0.3, 0.8, -2.2])
    _, v = system.project(q, [4.0, 0.0, 0.0])
    v = v * 4.0 / v[0]
    run = pp.simulate(system, q, v, 2.0, prescribed={system.joint_names[0]: 0.0})
    turn = q[0] + 4.0 * run.t
    assert turn[-1] - turn[0] > 2 * np.pi
    assert_allclose(run.q[:, 0], turn, atol=1e-8)
    tip = 0.5 * np.stack([np.cos(turn), np.sin(turn)], axis=-1)
    knee = tip + 1.5 * np.stack(
        [np.cos(run.q[:, :2].sum(-1)), np.sin(run.q[:, :2].sum(-1))], axis=-1
    )
    assert_allclose(np.linalg.norm(knee - [1.6, 0], axis=-1), 1.2, atol=1e-9)


def test_rollouts_are_runs():
    tau = np.array([2.0, 0.1, -0.2])
    q, v = pp.rollout(FOUR_BAR, np.tile(Q, (2, 1)), V, tau, 1e-2, 40, prescribed=["joint1"])
    t = 1e-2 * np.arange(41)
    assert_allclose(q[:, :, 0], np.broadcast_to(Q[0] + V[0] * t + t * t, (2, 41)), atol=1e-12)
    assert np.abs(FOUR_BAR.residual(q)).max() < 1e-10
    run = pp.simulate(
        FOUR_BAR, Q, V, 0.4, prescribed={"joint1": 2.0}, integrator="rk4", dt=1e-2,
        controller=lambda t, q, v: np.array([0.0, 0.1, -0.2]),
    )  # fmt: skip
    assert_allclose(run.q[-1], q[0, -1], atol=1e-9)


def test_a_joint_in_a_run_that_changes():
    """The loop opens, and the crank goes on along its path."""
    change = pp.topology.at(0.3, pp.topology.Detach("pin"))
    run = pp.simulate(FOUR_BAR, Q, V, 0.6, prescribed={"joint1": crank}, events=[change])
    assert_allclose(run.q[:, 0], crank_angle(run.t), atol=1e-7)
    residuals = np.abs(FOUR_BAR.residual(run.q)).max(axis=-1)
    assert residuals[run.t <= 0.3].max() < 1e-9 < residuals[-1]


def test_prescriptions_that_contradict_the_loops():
    both = {"joint1": 1.0, "joint2": 3.0}
    with pytest.raises(pp.errors.InputError, match="not prescribed cannot compensate"):
        pp.simulate(FOUR_BAR, Q, V, 1.0, prescribed=both)
    later = {name: lambda t, q, v: t for name in both}
    with pytest.raises(pp.errors.SimulationError, match="prescribed joints follow their own"):
        pp.simulate(FOUR_BAR, Q, 0 * V, 1.0, prescribed=later)
    one_of_two = np.array([[True, False, False], [False, True, False]])
    with pytest.raises(
        pp.errors.PhipsiError, match="same joints must be prescribed in a whole batch"
    ):
        pp.rollout(FOUR_BAR, np.tile(Q, (2, 1)), V, np.zeros(3), 1e-2, 4, prescribed=one_of_two)
    with pytest.raises(pp.errors.InputError, match="does not exist"):
        pp.rollout(FOUR_BAR, Q, V, np.zeros(3), 1e-2, 4, prescribed=["elbow"])
