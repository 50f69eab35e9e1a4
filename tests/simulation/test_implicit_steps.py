"""Implicit midpoint and variational steps of a Simulator: their equations, order, stability,
conservation, and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from amounts import mostly, seeds
from circuits_by_hand import laws_with_everything, parameter, start, state, traced
from differences import slope
from known_systems import four_bar
from numpy.testing import assert_allclose, assert_array_equal
from random_models import branching, random_tree

import phipsi as pp
from phipsi.algorithms.kinematics.exponential_chart import chart_of
from phipsi.core.arrays.trace import as_node
from phipsi.errors import InputError, SimulationError
from phipsi.laws.block_diagram import BlockDiagram

BOTH = pytest.mark.parametrize("integrator", ["implicit_midpoint", "variational"])


def filtered_damper(nv: int, c: float = 0.5) -> BlockDiagram:
    """A damper with a parameter, a drive, and a filtered rate that acts too."""
    damping, value = parameter("damper.c", np.full(nv, c))
    filtered, x = state("filter.x", np.zeros(nv))
    v, t = traced("v", nv), traced("t")
    return BlockDiagram(
        {"damper.c": damping, "filter.x": filtered},
        efforts=as_node(-value * v - 0.4 * x + 0.2 * np.cos(3 * t) * np.ones(nv)),
        rates={"filter.x": as_node((v - x) * 3.0)},
    )


# ---- the equations ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(5))
def test_midpoint_satisfies_its_equation(seed):
    """With dense matrices at the middle, on trees with all joints; states of laws as well."""
    model, h = random_tree(seed, 2 + seed, armature=bool(seed % 2)), 0.01
    nv, chart = model.nv, chart_of(model)
    sim = pp.Simulator(model, filtered_damper(nv), h, integrator="implicit_midpoint")
    q0, v0 = start(model, 3, seed)
    now = sim.initial_state(q0, v0, t=0.3)
    now.laws["filter.x"][...] = 0.1
    x0 = now.laws["filter.x"].copy()
    sim.step(now)
    for i in range(3):
        w, x = 0.5 * (v0[i] + now.v[i]), 0.5 * (x0[i] + now.laws["filter.x"][i])
        z = chart.start(q0[i])
        middle = chart.point(q0[i], z + 0.5 * h * w)
        tau = -0.5 * w - 0.4 * x + 0.2 * np.cos(3 * (0.3 + 0.5 * h))
        T = tau - pp.inverse_dynamics(model, middle, w, np.zeros(nv))
        gap = pp.mass_matrix(model, middle) @ (now.v[i] - v0[i]) - h * T
        assert np.abs(gap).max() < 1e-13 * (1 + np.abs(T).max())
        assert_allclose(now.q[i], chart.point(q0[i], z + h * w), atol=1e-14)
        assert_allclose(now.laws["filter.x"][i], x0[i] + 3 * h * (w - x), atol=1e-14)


@BOTH
def test_equal_to_simulate(integrator):
    """Which has its own code for both, with elements at joints and between points."""
    model = branching(4, 7, ["free", "spherical", "revolute", "planar"])
    forces = [
        pp.forces.JointDamper(None, 0.3),
        pp.forces.PointSpring(model.body_names[2], "world", stiffness=20.0, damping=0.5),
    ]
    q0, v0 = start(model, 1)
    sim = pp.Simulator(model, forces, 5e-3, integrator=integrator)
    mine = sim.rollout(sim.initial_state(q0[0], v0[0]), steps=20)
    other = pp.simulate(model, q0[0], v0[0], 0.1, integrator=integrator, dt=5e-3, forces=forces)
    assert_allclose(mine.v, other.v, atol=2e-11)
    assert_allclose(mine.q, other.q, atol=1e-12)


def test_variational_equal_to_rollout():
    """Without laws, the bits are those of `rollout`."""
    for seed in seeds(4):
        model = random_tree(seed, 2 + seed)
        q0, v0 = start(model, 7, seed)
        tau = np.random.default_rng(seed).normal(size=(7, 6, model.nv))
        sim = pp.Simulator(model, (), 2e-3, integrator="variational")
        run = sim.rollout(sim.initial_state(q0, v0), tau, 6)
        q, v = pp.rollout(model, q0, v0, tau, 2e-3, 6, integrator="variational")
        assert_array_equal(run.q, q)
        assert_array_equal(run.v, v)


@BOTH
def test_order_two(integrator):
    model = random_tree(2, 4)
    laws = filtered_damper(model.nv)
    q0, v0 = start(model, 1)

    def end(integrator, steps):
        sim = pp.Simulator(model, laws, 0.2 / steps, integrator=integrator)
        run = sim.rollout(sim.initial_state(q0[0], v0[0]), steps=steps, record_every=steps)
        return run.q[-1], run.v[-1], run.state.laws["filter.x"]

    exact = end("rk4", 400)

    def error(steps):
        q, *rest = end(integrator, steps)
        gaps = [
            model.difference(exact[0], q),
            *(x - y for x, y in zip(rest, exact[1:], strict=True)),
        ]
        return sum(map(np.linalg.norm, gaps))

    assert abs(np.log2(error(20) / error(40)) - 2) < 0.2


# ---- stiff forces -------------------------------------------------------------------------------


@BOTH
def test_a_stiff_spring_is_stable_and_right(integrator):
    """A slider on a spring with ω h = 50: both rules are Cayley's, x⁺ = R x with |R| = 1."""
    b = pp.ModelBuilder(gravity=(0, 0, 0))
    b.add_body(
        "mass", joint=pp.joints.Prismatic((1, 0, 0)), inertia=pp.SpatialInertia(2.0, (0, 0, 0), 1.0)
    )
    model, h = b.build(), 1e-2
    k = 2.0 * (50 / h) ** 2
    sim = pp.Simulator(model, pp.forces.JointSpring(None, k), h, integrator=integrator)
    run = sim.rollout(sim.initial_state([1e-3], [2.0]), steps=200)
    omega = 50 / h
    A = np.array([[0.0, 1.0], [-(omega**2), 0.0]])
    R = np.linalg.solve(np.eye(2) - 0.5 * h * A, np.eye(2) + 0.5 * h * A)
    y = np.array([1e-3, 2.0])
    for q, v in zip(run.q[1:, 0], run.v[1:, 0], strict=True):
        y = R @ y
        assert abs(q - y[0]) < 1e-9 * 1e-3 and abs(v - y[1]) < 1e-9 * 5.0
    explicit = pp.Simulator(model, pp.forces.JointSpring(None, k), h, integrator="semi_implicit")
    with pytest.raises(SimulationError):
        explicit.rollout(explicit.initial_state([1e-3], [2.0]), steps=200)


@BOTH
def test_stiff_springs_dampers_and_stops_of_an_arm(integrator):
    """Where the plain iteration would need steps a thousand times shorter: energy is not gained."""
    arm = pp.examples.planar_arm(4)
    forces = [
        pp.forces.JointSpring(None, 1e4),
        pp.forces.JointDamper(None, 1e3),
        pp.forces.JointLimit(None, stiffness=1e4, dissipation=0.5, lower=-0.2, upper=0.2),
    ]
    sim = pp.Simulator(arm, forces, 5e-3, integrator=integrator)
    run = sim.rollout(sim.initial_state([0.25, 0.1, -0.3, 0.2], np.zeros(4)), steps=1000)
    assert np.abs(run.v[-1]).max() < 1e-6
    # where springs hold the links against gravity
    assert_allclose(1e4 * run.q[-1], -pp.gravity_forces(arm, run.q[-1]), rtol=1e-6)


COUPLED = pp.examples.planar_arm(3)
Q_COUPLED, V_COUPLED = np.array([0.3, -0.4, 0.5]), np.array([0.5, -0.2, 0.1])
TIP = pp.poses(COUPLED, Q_COUPLED, ["tip"])[0][:3, 3]


@BOTH
@pytest.mark.parametrize("stiffness", [1e5, 1e7])
def test_stiff_springs_between_points(stiffness, integrator):
    """Forces that couple joints, ω h up to 30: Newton's method, in `simulate` and in lanes."""
    spring = pp.forces.PointSpring("tip", ("world", tuple(TIP)), stiffness)
    sim = pp.Simulator(COUPLED, spring, 1e-2, integrator=integrator)
    name = next(iter(sim.parameters))
    assert sim.parameters[name] == [stiffness]
    soft = np.where(np.arange(9) % 3 > 0, stiffness, 10.0)
    many = sim.initial_state(
        np.tile(Q_COUPLED, (9, 1)), np.tile(V_COUPLED, (9, 1)),
        parameters={name: soft[:, None]},
    )  # fmt: skip
    run = sim.rollout(many, steps=30)
    by_hand = pp.simulate(
        COUPLED, Q_COUPLED, V_COUPLED, 0.3, forces=spring, integrator=integrator, dt=1e-2
    )
    assert_allclose(run.q[1], by_hand.q, atol=1e-7)
    assert np.abs(pp.poses(COUPLED, run.q[1], ["tip"])[:, 0, :3, 3] - TIP).max() < 0.02
    alone = sim.rollout(
        sim.initial_state(Q_COUPLED, V_COUPLED, parameters={name: soft[:1]}), steps=30
    )
    assert_array_equal(run.q[0], alone.q)  # neighbours that need Newton's method do not matter
    assert_array_equal(run.q[1], run.q[8])
    assert np.abs(run.q[0] - run.q[1]).max() > 0.05


@BOTH
def test_gradients_with_stiff_springs_between_points(integrator):
    spring = pp.forces.PointSpring("tip", ("world", tuple(TIP)), 1e5)
    sim = pp.Simulator(COUPLED, spring, 1e-2, integrator=integrator)
    weights = np.zeros((7, 3))
    weights[-1] = [1.0, -2.0, 0.5]

    def value(v):
        return float((sim.rollout(sim.initial_state(Q_COUPLED, v), steps=6).q * weights).sum())

    found = sim.gradient(
        sim.initial_state(Q_COUPLED, V_COUPLED), steps=6, cotangents={"q": weights}
    )
    d = 1e-4
    steps = [(1, 0.8), (2, -0.2), (3, 4 / 105), (4, -1 / 280)]
    for i, unit in enumerate(np.eye(3)):
        by_hand = (
            sum(
                c * (value(V_COUPLED + k * d * unit) - value(V_COUPLED - k * d * unit))
                for k, c in steps
            )
            / d
        )
        assert abs(found.v[i] - by_hand) < 1e-7 * np.abs(found.v).max()


@BOTH
def test_a_step_that_is_too_long_names_its_trajectory(integrator):
    arm = pp.examples.planar_arm(3)
    v0 = np.zeros((9, 3))
    v0[5] = [0, 800, -1040]
    sim = pp.Simulator(arm, (), 0.02, integrator=integrator)
    begin = sim.initial_state(np.tile([0.5, 0.3, -0.4], (9, 1)), v0)
    with pytest.raises(
        SimulationError, match=r"trajectory \[5\] failed in step 0 .*implicit step was not solved"
    ):
        sim.rollout(begin, steps=20)
    run = sim.rollout(begin, steps=20, on_error="nan")
    alone = sim.rollout(sim.initial_state([0.5, 0.3, -0.4], np.zeros(3)), steps=20)
    assert_array_equal(run.q[4], alone.q)
    assert np.isnan(run.q[5, 1:]).all() and np.flatnonzero(run.status).tolist() == [5]


def test_friction_that_stops_a_joint_within_a_step():
    """Newton's method solves it, or says that it cannot; implicit damping needs no equation."""
    arm = pp.examples.seven_joint_arm()
    friction = [pp.forces.JointFriction(None, 2.0, velocity_scale=1e-2)]
    q0 = np.full(7, 0.3)
    sim = pp.Simulator(arm, friction, 2e-3, integrator="implicit_midpoint")
    run = sim.rollout(sim.initial_state(q0, np.ones(7)), steps=100)
    by_hand = pp.simulate(
        arm, q0, np.ones(7), 0.2, forces=friction, integrator="implicit_midpoint", dt=2e-3
    )
    assert_allclose(run.q, by_hand.q, atol=1e-9)
    hard = pp.forces.JointFriction(None, 2.0, velocity_scale=1e-9)
    sim = pp.Simulator(arm, hard, 2e-3, integrator="implicit_midpoint")
    why = "implicit step was not solved, neither by fixed-point iteration nor by"
    with pytest.raises(SimulationError, match=why):
        sim.rollout(sim.initial_state(q0, np.ones(7)), steps=100)
    sim = pp.Simulator(arm, friction, 2e-3, integrator="implicit_damping")
    run = sim.rollout(sim.initial_state(q0, np.ones(7)), steps=500)
    energy = pp.kinetic_energy(arm, run.q, run.v) + pp.potential_energy(arm, run.q)
    assert energy.max() < energy[0] + 0.05 * np.ptp(energy)


# ---- conservation -------------------------------------------------------------------------------


def test_variational_keeps_momenta_with_laws_between_bodies():
    """Springs and dampers at the joints of a floating robot: momenta to rounding, others not."""
    robot = pp.examples.free_flyer()
    joints = list(robot.joint_names[1:])
    laws = [pp.forces.JointDamper(joints, 0.3), pp.forces.JointSpring(joints, 15.0)]
    q0 = robot.neutral()
    v0 = np.random.default_rng(0).uniform(-0.5, 0.5, robot.nv)
    drift = {}
    for integrator in ("variational", "implicit_midpoint", "implicit_damping"):
        sim = pp.Simulator(robot, laws, 5e-3, integrator=integrator)
        run = sim.rollout(sim.initial_state(q0, v0), steps=400, record_every=20)
        momentum = pp.momentum(robot, run.q, run.v)
        drift[integrator] = np.abs(momentum - momentum[0]).max() / np.abs(momentum[0]).max()
    assert drift["variational"] < 1e-12
    assert drift["implicit_midpoint"] > 1e-9 < drift["implicit_damping"]


@BOTH
def test_energy_of_springs_stays(integrator):
    """Over many periods the error stays that of the first; semi-implicit steps lose energy."""
    arm = pp.examples.planar_arm(3)
    spring = pp.forces.JointSpring(None, 20.0)

    def error(integrator):
        sim = pp.Simulator(arm, spring, 5e-3, integrator=integrator)
        run = sim.rollout(sim.initial_state([0.5, 0.3, -0.4]), steps=8000, record_every=4)
        energy = pp.kinetic_energy(arm, run.q, run.v) + pp.potential_energy(arm, run.q)
        energy = energy + 10.0 * (run.q**2).sum(axis=-1)
        return np.abs(energy - energy[0])

    mine, other = error(integrator), error("semi_implicit")
    assert mine[-500:].max() < 1.5 * mine[:500].max() + 1e-3 < 0.5 * other[-500:].max()


@BOTH
def test_energy_that_dampers_take(integrator):
    """ΔE = −∫ c v² dt, to second order."""
    arm, c, gaps = pp.examples.planar_arm(3), np.array([0.4, 0.3, 0.2]), []
    for dt in (4e-3, 2e-3):
        sim = pp.Simulator(
            arm, BlockDiagram({}, efforts=as_node(-c * traced("v", 3))), dt, integrator=integrator
        )
        run = sim.rollout(
            sim.initial_state([0.5, 0.3, -0.4], [1.0, 0.0, 2.0]), steps=round(0.4 / dt)
        )
        energy = pp.kinetic_energy(arm, run.q, run.v) + pp.potential_energy(arm, run.q)
        power = (c * run.v**2).sum(axis=-1)
        taken = dt * (power[:-1] + power[1:]).sum() / 2
        gaps.append(abs(energy[-1] - energy[0] + taken))
    assert taken > 0.5 and gaps[1] < 1e-3 * taken and gaps[1] < 0.35 * gaps[0]


# ---- runs and gradients -------------------------------------------------------------------------


@BOTH
def test_same_bits_however_it_is_run(integrator):
    model = random_tree(5, 4)
    sim = pp.Simulator(model, laws_with_everything(model.nv), 5e-3, integrator=integrator)
    q0, v0 = start(model, 13)
    first = sim.initial_state(q0, v0)
    whole = sim.rollout(first, steps=12, record=("q", "v", "filtered"))
    threads = sim.rollout(first, steps=12, threads=3)
    assert_array_equal(threads.q, whole.q)
    rest = sim.rollout(sim.rollout(first, steps=5).state, steps=7, record=("q", "v", "filtered"))
    for name in ("q", "v", "t", "filtered"):
        assert_array_equal(rest[name], whole[name][:, 5:])
    alone = sim.rollout(sim.initial_state(q0[4], v0[4]), steps=12)
    assert_array_equal(alone.q, whole.q[4])


RUNS = [(seed, x) for seed in range(3) for x in ("implicit_midpoint", "variational")]
RARE = [(0, "variational"), (1, "implicit_midpoint"), (1, "variational"), (2, "implicit_midpoint")]


@pytest.mark.parametrize(("seed", "integrator"), mostly(RUNS, *RARE))
def test_gradients_through_runs(seed, integrator):
    """By everything, against differences of order eight."""
    model = random_tree(seed, 3)
    nv = model.nv
    sim = pp.Simulator(model, filtered_damper(nv), 0.02, integrator=integrator)
    q0, v0 = start(model, 2, seed)
    rng = np.random.default_rng(seed)
    c, tau = rng.uniform(1, 3, (2, nv)), rng.normal(size=(2, 4, nv))
    weights = {"q": rng.normal(size=(2, 5, model.nq)), "v": rng.normal(size=(2, 5, nv))}

    def value(q=q0, v=v0, c=c, tau=tau, x=0.0) -> Any:
        begin = sim.initial_state(q, v, parameters={"damper.c": c})
        begin.laws["filter.x"][...] = x
        run = sim.rollout(begin, tau, 4)
        return sum((weights[n] * run[n]).sum(axis=(1, 2)) for n in weights)

    found = sim.gradient(
        sim.initial_state(q0, v0, parameters={"damper.c": c}), tau, 4, cotangents=weights
    )
    along, more = rng.normal(size=(2, nv)), rng.normal(size=tau.shape)
    for name, got, wanted in (
        ("q", found.q * along, slope(lambda e: value(q=model.integrate(q0, e * along)), 1e-3)),
        ("v", found.v * along, slope(lambda e: value(v=v0 + e * along), 1e-3)),
        ("x", found.laws["filter.x"] * along, slope(lambda e: value(x=e * along), 1e-2)),
        ("c", found.parameters["damper.c"] * along, slope(lambda e: value(c=c + e * along), 1e-2)),
        ("tau", found.tau * more, slope(lambda e: value(tau=tau + e * more), 1e-3)),
    ):
        size = np.abs(got).max() + np.abs(wanted).max()
        assert np.abs(got.reshape(2, -1).sum(axis=1) - wanted).max() < 1e-9 * size, name


@BOTH
def test_gradients_of_stiff_runs(integrator):
    """The equation backward converges as the one forward does."""
    arm = pp.examples.planar_arm(2)
    laws = [pp.forces.JointSpring(None, 1e5), pp.forces.JointDamper(None, 80.0)]
    sim = pp.Simulator(arm, laws, 5e-3, integrator=integrator)
    weights = {"q": np.random.default_rng(0).normal(size=(11, 2))}

    def value(q):
        return (weights["q"] * sim.rollout(sim.initial_state(q), steps=10).q).sum()

    found = sim.gradient(sim.initial_state([0.1, 0.2]), steps=10, cotangents=weights)
    for along in np.eye(2):
        wanted = slope(lambda e, d=along: value(np.array([0.1, 0.2]) + e * d), 1e-3)
        assert abs(found.q @ along - wanted) < 1e-8 * (1 + abs(wanted))


@pytest.mark.parametrize(
    "integrator", mostly(["implicit_midpoint", "variational"], "implicit_midpoint")
)
def test_bodies_of_every_trajectory(integrator):
    """Masses that trajectories have of their own, or share; and gradients by them."""
    model = random_tree(3, 4)
    n, damper = model.n_bodies, pp.forces.JointDamper(None, 0.3)
    q0, v0 = start(model, 1)
    own = (
        pp.identification.inertial_parameters(model).reshape(n, 10)
        * np.array([1.7, 0.6])[:, None, None]
    )
    sim = pp.Simulator(model, damper, 5e-3, integrator=integrator, per_trajectory=("inertia",))
    run = sim.rollout(sim.initial_state(q0[0], v0[0], parameters={"inertia": own}), steps=6)
    shared = sim.rollout(sim.initial_state(q0[0], v0[0], parameters={"inertia": own[1]}), steps=6)
    assert_array_equal(shared.q, run.q[1])
    for i in range(2):
        other = pp.Simulator(
            model.with_inertial_parameters(own[i].ravel()), damper, 5e-3, integrator=integrator
        )
        wanted = other.rollout(other.initial_state(q0[0], v0[0]), steps=6)
        assert_allclose(run.q[i], wanted.q, atol=1e-13)
        assert_allclose(run.v[i], wanted.v, atol=1e-12)
    weights = {"v": np.random.default_rng(0).normal(size=(7, model.nv))}
    along = own[0] * np.random.default_rng(1).normal(size=own[0].shape)

    def value(e):
        begin = sim.initial_state(q0[0], v0[0], parameters={"inertia": own[0] + e * along})
        return (weights["v"] * sim.rollout(begin, steps=6).v).sum()

    begin = sim.initial_state(q0[0], v0[0], parameters={"inertia": own[0]})
    found = sim.gradient(begin, steps=6, cotangents=weights, parameters=("inertia",))
    wanted = slope(value, 1e-3)
    assert abs((found.parameters["inertia"] * along).sum() - wanted) < 1e-9 * (1 + abs(wanted))


def test_closed_chains():
    """Constraints hold after every step; a variational step would not conserve with them."""
    system = four_bar()
    q0 = system.assemble([1.0, -0.8, -1.5])
    damper = pp.forces.JointDamper(None, 50.0)
    for integrator in ("implicit_midpoint", "implicit_damping"):
        sim = pp.Simulator(system, damper, 5e-3, integrator=integrator)
        run = sim.rollout(sim.initial_state(q0, np.zeros(3)), steps=40)
        assert np.abs(system.residual(run.q)).max() < 1e-9
        fine = pp.simulate(system, q0, np.zeros(3), 0.2, forces=damper, rtol=1e-9)
        assert_allclose(run.q[-1], fine.q[-1], atol=1e-3)
    with pytest.raises(InputError, match="constraint rows"):
        pp.Simulator(system, (), 5e-3, integrator="variational")
