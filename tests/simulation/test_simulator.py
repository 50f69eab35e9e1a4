"""Whole runs in machine code: equal to the formulas of their methods, step by step, in NumPy."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from amounts import mostly, seeds
from circuits_by_hand import H, laws_with_everything, parameter, start, traced
from known_systems import pinned_four_bar, stewart
from numpy.testing import assert_allclose, assert_array_equal
from random_models import random_tree

import phipsi as pp
from phipsi.core.arrays.trace import as_node
from phipsi.errors import PhipsiError, SimulationError
from phipsi.laws.block_diagram import BlockDiagram


def wanted_step(model, efforts, loads, integrator, t, q, v, h=H):
    """One step by hand; `efforts(t, q, v)` and `loads(t, q, v)` of one trajectory."""

    def vdot(t, q, v):
        f_ext = None if loads is None else loads(t, q, v)
        return pp.forward_dynamics(model, q, v, efforts(t, q, v), f_ext=f_ext)

    from phipsi.algorithms.kinematics.exponential_chart import chart_of

    chart = chart_of(model)
    if integrator == "semi_implicit":
        return chart.euler(q, v, vdot(t, q, v), h)

    def slope(c, y):
        z, w = y
        return chart.rate(z, w), vdot(t + c * h, chart.point(q, z), w)

    y0 = chart.start(q), v
    ks = []
    for c, a in ((0, 0), (0.5, 0.5), (0.5, 0.5), (1, 1)):
        y = y0 if not ks else tuple(x + a * h * k for x, k in zip(y0, ks[-1], strict=True))
        ks.append(slope(c, y))
    z, w = (
        x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4) for x, k1, k2, k3, k4 in zip(y0, *ks, strict=True)
    )
    return chart.point(q, z), w


@pytest.mark.parametrize("integrator", ["rk4", "semi_implicit"])
@pytest.mark.parametrize("seed", seeds(6))
def test_efforts_and_forces_by_hand(seed, integrator):
    """Laws of time, rates and parameters, on trees with all joints."""
    model = random_tree(seed, 2 + seed)
    nv, n = model.nv, model.n_bodies
    kd, damping = parameter("hold.kd", np.linspace(0.1, 0.3, nv))
    push, force = parameter("wind.push", 0.2)
    t, v = traced("t"), traced("v", nv)
    efforts = as_node(-damping * v + np.sin(3 * t) * np.ones(nv))
    loads = as_node(force * np.cos(t) * np.arange(6 * n).reshape(n, 6) / (6 * n))
    circuit = BlockDiagram({"hold.kd": kd, "wind.push": push}, efforts=efforts, loads=loads)
    sim = pp.Simulator(model, circuit, H, integrator=integrator)
    q0, v0 = start(model, 3, seed)
    own = np.array([0.1, 0.2, 0.3])
    run = sim.rollout(sim.initial_state(q0, v0, parameters={"wind.push": own}), steps=8)
    for i in range(3):
        q, v = q0[i], v0[i]
        shape = np.arange(6 * n).reshape(n, 6) / (6 * n)
        for k in range(8):
            q, v = wanted_step(
                model,
                lambda t, q, v: -np.linspace(0.1, 0.3, nv) * v + np.sin(3 * t),
                lambda t, q, v, f=own[i] * shape: np.cos(t) * f,
                integrator, k * H, q, v,
            )  # fmt: skip
            scale = 1 + np.abs(v).max()
            assert_allclose(run.q[i, k + 1], q, atol=1e-11 * scale)
            assert_allclose(run.v[i, k + 1], v, atol=1e-10 * scale)


@pytest.mark.parametrize("integrator", ["rk4", "semi_implicit"])
def test_equal_to_rollout(integrator):
    """Without laws, the bits are those of `rollout`."""
    for seed in range(4):
        model = random_tree(seed, 2 + seed)
        q0, v0 = start(model, 11, seed)
        tau = np.random.default_rng(seed).normal(size=(11, 6, model.nv))
        sim = pp.Simulator(model, BlockDiagram({}), H, integrator=integrator)
        run = sim.rollout(sim.initial_state(q0, v0), tau, 6)
        q, v = pp.rollout(model, q0, v0, tau, H, 6, integrator=integrator)
        assert_array_equal(run.q, q)
        assert_array_equal(run.v, v)
        assert_allclose(run.t[0], np.arange(7) * H)


def test_states_of_laws_by_hand():
    """Continuous states are integrated with the motion; sampled ones change at their steps."""
    model = pp.examples.planar_arm(2)
    sim = pp.Simulator(model, laws_with_everything(2), H, integrator="semi_implicit")
    run = sim.rollout(
        sim.initial_state([0.3, -0.2], [0.5, 0.1]), steps=10, record=("q", "v", "filtered")
    )
    q, v, x, u, s = np.array([0.3, -0.2]), np.array([0.5, 0.1]), *(np.zeros(2) for _ in range(3))
    for k in range(10):
        assert_allclose(run["filtered"][k], 2 * x, atol=1e-14)
        if k % 3 == 0:
            u, s = -0.1 * s, s + 0.01 * v
        vdot = pp.forward_dynamics(model, q, v, -0.7 * x + u)
        x = x + H * 40.0 * (v - x)
        v = v + H * vdot
        q = q + H * v
        assert_allclose(run.q[k + 1], q, atol=1e-13)
    assert_allclose(run.state.laws["sampled.sum"], s, atol=1e-14)


@pytest.mark.parametrize("integrator", ["rk4", "semi_implicit"])
def test_same_bits_however_it_is_run(integrator):
    """In one run, in steps, in pieces, alone, in threads."""
    model = random_tree(5, 4)
    sim = pp.Simulator(model, laws_with_everything(model.nv), H, integrator=integrator)
    q0, v0 = start(model, 13)
    first = sim.initial_state(q0, v0)
    whole = sim.rollout(first, steps=20, record=("q", "v", "filtered", "tau", "vdot"))
    assert_array_equal(first.q, q0)  # the state stays as it is
    threads = sim.rollout(first, steps=20, threads=3)
    assert_array_equal(threads.q, whole.q)
    half = sim.rollout(first, steps=7)
    rest = sim.rollout(half.state, steps=13, record=("q", "v", "filtered", "tau", "vdot"))
    for name in ("q", "v", "t", "filtered", "tau", "vdot"):
        assert_array_equal(rest[name], whole[name][:, 7:])
    stepped = first.copy()
    for _ in range(20):
        sim.step(stepped)
    assert_array_equal(stepped.q, whole.q[:, -1])
    assert_array_equal(stepped.t, whole.state.t)
    alone = sim.rollout(sim.initial_state(q0[4], v0[4]), steps=20)
    assert_array_equal(alone.q, whole.q[4])


def test_an_interrupted_run_keeps_what_it_has():
    """Ctrl-C between two pieces: the records so far, and a state to go on from."""
    sim = pp.Simulator(pp.examples.planar_arm(2), laws_with_everything(2), H)
    first = sim.initial_state(np.zeros((5000, 2)))
    whole = sim.rollout(first, steps=30, record_every=5)
    times = []

    def progress(t, total):
        times.append(t)
        if t > 6.5 * H:
            raise KeyboardInterrupt

    with pytest.warns(pp.errors.PhipsiWarning, match="interrupted after"):
        part = sim.rollout(first, steps=30, record_every=5, progress=progress)
    done = part.state.steps
    assert not part.complete and 7 <= done < 30 and len(times) > 1
    assert part.q.shape[1] == done // 5 + 1
    assert_array_equal(part.q, whole.q[:, : part.q.shape[1]])
    rest = sim.rollout(part.state, steps=30 - done)
    assert_array_equal(rest.q[:, -1], whole.q[:, -1])
    assert sim.rollout(sim.initial_state(np.zeros((0, 2))), steps=3).q.shape == (0, 4, 2)


def test_steps_into_another_state():
    """`out` takes the state and goes on; the other stays."""
    sim = pp.Simulator(pp.examples.planar_arm(2), laws_with_everything(2), H)
    state, out = sim.initial_state(np.zeros((3, 2))), sim.initial_state(np.ones((3, 2)))
    sim.step(out)
    for _ in range(5):
        sim.step(state)
    before = state.q.copy()
    sim.step(state, out=out)
    assert_array_equal(state.q, before)
    sim.step(state)
    assert_array_equal(out.q, state.q)
    assert out.steps == state.steps == 6
    for name, x in state.laws.items():
        assert_array_equal(out.laws[name], x)
    with pytest.raises(PhipsiError, match=r"state\.copy\(\)"):
        sim.step(state, out=sim.initial_state())


def test_a_trajectory_that_fails_stops_alone():
    """It keeps its last good state, is named, and the others go on."""
    model = pp.examples.planar_arm(2)
    k, gain = parameter("push.k", 0.0)
    t, v = traced("t"), traced("v", 2)
    late = np.where(t > 4.5 * H, 1.0, 0.0)
    efforts = as_node(np.sqrt(1.0 - gain * late) * np.ones(2) + 0 * v)
    sim = pp.Simulator(model, BlockDiagram({"push.k": k}, efforts=efforts), H, integrator="rk4")
    gains = np.array([0.0, 2.0, 0.5])
    begin = sim.initial_state(np.zeros((3, 2)), parameters={"push.k": gains})
    with pytest.raises(SimulationError, match=r"trajectory \[1\] failed in step 4") as caught:
        sim.rollout(begin, steps=12)
    run = sim.rollout(begin, steps=12, on_error="nan")
    assert run.status.tolist()[0::2] == [0, 0] and run.status[1] != 0
    assert run.failed_at[1] == 4
    assert np.isnan(run.q[1, 5:]).all() and np.isfinite(run.q[1, :5]).all()
    assert np.isfinite(run.q[[0, 2]]).all()
    assert_array_equal(run.state.q[1], run.q[1, 4])
    found: Any = caught.value.trajectory
    assert_array_equal(found.q[0], run.q[0])
    good = sim.rollout(
        sim.initial_state(np.zeros((1, 2)), parameters={"push.k": gains[2:]}), steps=12
    )
    assert_array_equal(good.q[0], run.q[2])
    one = begin.copy()
    for _ in range(4):
        sim.step(one)
    with pytest.raises(SimulationError, match=r"trajectory \[1\] failed in step 4"):
        sim.step(one)
    assert_array_equal(one.q[0], run.q[0, 5])


def test_records_of_no_steps():
    """What acts at the state itself, with the efforts that are given."""
    arm = pp.examples.planar_arm(2)
    sim = pp.Simulator(arm, (), H)
    tau = np.array([1.0, -2.0])
    run = sim.rollout(sim.initial_state([0.1, 0.2]), tau, 0, record=("tau", "vdot"))
    assert_array_equal(run["tau"], [tau])
    assert_allclose(run["vdot"][0], pp.forward_dynamics(arm, [0.1, 0.2], [0.0, 0.0], tau), 1e-14)


def test_numbers_of_steps_and_trajectories():
    """What noise is made from does not depend on how the run is divided."""
    model = pp.examples.planar_arm(2)
    step, trajectory = traced("step"), traced("trajectory")
    efforts = as_node(0.1 * np.sin(step + 10 * trajectory) * np.ones(2))
    sim = pp.Simulator(model, BlockDiagram({}, efforts=efforts), H)
    first = sim.initial_state(np.zeros((21, 2)))
    run = sim.rollout(first, steps=9, record=("q", "tau"))
    numbers = np.sin(np.arange(9) + 10 * np.arange(21)[:, None])
    assert_allclose(run["tau"][:, :9, 0], 0.1 * numbers, atol=1e-14)
    rest = sim.rollout(sim.rollout(first, steps=4).state, steps=5, threads=2)
    assert_array_equal(rest.q, run.q[:, 4:])


CLOSED = [(name, x) for name in ("four-bar", "Stewart") for x in ("rk4", "semi_implicit")]


@pytest.mark.parametrize(("name", "integrator"), mostly(CLOSED, CLOSED[-1]))
def test_closed_chains_stay_closed(name, integrator):
    """Without laws the bits are those of `rollout`; with a damper, it is the run of `simulate`."""
    system, q0 = closed(name)
    batch = np.tile(q0, (3, 1))
    sim = pp.Simulator(system, (), H, integrator=integrator)
    run = sim.rollout(sim.initial_state(batch), steps=40, record_every=10)
    q, v = pp.rollout(system, batch, np.zeros(system.nv), np.zeros(system.nv), H, 40,
                      record_every=10, integrator=integrator)  # fmt: skip
    assert_array_equal(run.q, q)
    assert_array_equal(run.v, v)
    assert np.abs(system.residual(run.q[0, -1])).max() < 1e-10
    damper = pp.forces.JointDamper(system.joint_names[0], 0.4)
    damped = pp.Simulator(system, [damper], H, integrator=integrator)
    got = damped.rollout(damped.initial_state(q0), steps=40)
    wanted = pp.simulate(system, q0, np.zeros(system.nv), 40 * H, forces=[damper], dt=H,
                         integrator=integrator)  # fmt: skip
    assert_allclose(got.q[-1], wanted.q[-1], atol=1e-9)
    assert np.abs(got.q[-1] - run.q[0, -1]).max() > 1e-6  # the damper matters


def test_closed_chains_of_different_size_have_code_of_their_own():
    """The lengths of a mechanism are numbers of its code."""
    for length in (1.0, 1.1):
        arm = pp.examples.planar_arm(3)
        pin = pp.constraints.Revolute(
            (0, 0, 1), name="pin", a="tip", b=("world", (1.5 * length, 0, 0))
        )
        system = pp.System(arm, [pin])
        q0 = system.assemble([1.0, -1.0, -1.5])
        sim = pp.Simulator(system, (), H)
        run = sim.rollout(sim.initial_state(q0), steps=20)
        assert np.abs(system.residual(run.q[-1])).max() < 1e-10


def test_open_loops_are_rejected():
    system, q0 = closed("four-bar")
    sim = pp.Simulator(system, (), H)
    with pytest.raises(PhipsiError, match="does not close the loops"):
        sim.initial_state(q0 + 0.1)


def closed(name: str) -> tuple[pp.System, np.ndarray]:
    """A system and a configuration in which it is closed."""
    if name == "four-bar":
        return pinned_four_bar()
    system, guess = stewart()
    return system, system.assemble(guess)


def test_quantities_of_the_algebra_by_trajectory():
    """Masses of its own for every trajectory."""
    model = pp.examples.planar_arm(3)
    scales = [1.0, 1.7]
    inertias = np.array([s * pp.compile("M", model, mode="blocks")() for s in scales])
    sim = pp.Simulator(model, BlockDiagram({}), H, per_trajectory=("M",))
    q0, v0 = start(model, 1)
    both = sim.initial_state(q0[0], v0[0], parameters={"M": inertias})
    run = sim.rollout(both, 0.1 * np.ones(3), 5)
    for i, s in enumerate(scales):
        heavy = model.with_inertial_parameters(s * pp.identification.inertial_parameters(model))
        q, _ = pp.rollout(heavy, q0[0], v0[0], 0.1 * np.ones(3), H, 5)
        assert_allclose(run.q[i], q, atol=1e-13)


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (lambda s: s.rollout(s.initial_state(), steps=-1), "steps"),
        (lambda s: s.rollout(s.initial_state(), steps=2, record_every=0), "record_every"),
        (lambda s: s.rollout(s.initial_state(), steps=2, record=("qq",)), "'qq' is not among"),
        (lambda s: s.rollout(s.initial_state(), steps=2)["tau"], "was not recorded"),
        (lambda s: s.rollout(s.initial_state(), steps=2, on_error="stop"), "on_error"),
        (lambda s: s.initial_state(parameters={"spring.kk": 1.0}), r"Did you mean 'spring\.k'"),
        (lambda s: s.initial_state(parameters={"spring.k": np.nan}), "must be finite"),
        (lambda s: s.initial_state(parameters={"filter.x": 1.0}), "not a parameter"),
        (lambda s: s.initial_state(np.zeros((2, 2)), np.zeros((3, 2))), "do not broadcast"),
        (lambda s: s.initial_state([0.0]), "q"),
        (lambda s: s.initial_state([np.nan, 0.0]), "q"),
        (lambda s: s.step(s.initial_state(), np.zeros(3)), "tau"),
        (lambda s: s.rollout(s.initial_state(np.zeros((4, 2))), np.zeros((3, 2)), 5), "tau"),
    ],
)
def test_bad_input(act, says):
    sim = pp.Simulator(pp.examples.planar_arm(2), laws_with_everything(2), H)
    with pytest.raises(PhipsiError, match=says):
        act(sim)


def test_bad_simulators():
    arm = pp.examples.planar_arm(2)
    with pytest.raises(PhipsiError, match="dt"):
        pp.Simulator(arm, BlockDiagram({}), 0.0)
    with pytest.raises(PhipsiError, match="Did you mean 'rk4'"):
        pp.Simulator(arm, BlockDiagram({}), 1e-3, integrator="rk5")
    sim, other = (pp.Simulator(arm, BlockDiagram({}), 1e-3) for _ in range(2))
    with pytest.raises(PhipsiError, match="another simulator"):
        sim.step(other.initial_state())


def test_a_trajectory_knows_its_force_elements_and_their_energy():
    """As a run of `simulate` does; each with its own numbers."""
    arm, spring = pp.examples.planar_arm(2), pp.forces.JointSpring("joint1", 30.0)
    sim = pp.Simulator(arm, [spring], dt=1e-3)
    own = {"joint_spring.stiffness": [[30.0, 0], [5.0, 0]]}
    run = sim.rollout(sim.initial_state([[0.3, 0.2]] * 2, parameters=own), steps=100)
    same, other = run.trajectory(0), run.trajectory(1)
    (known,), (its_own,) = same.elements, other.elements
    assert isinstance(known, pp.forces.JointSpring) and isinstance(its_own, pp.forces.JointSpring)
    assert np.ptp(same.energy) < 1e-6 and np.ptp(other.energy) < 1e-6
    held = 0.5 * 30.0 * same.q[:, 0] ** 2
    assert_allclose(
        same.energy - held, pp.Trajectory(arm, same.t, same.q, same.v, 0 * same.v).energy
    )


def test_a_batch_without_memory_for_it_fails_at_once():
    """Before anything of it is looked at, drawn or copied: of 10⁹ trajectories that takes long."""
    arm = pp.examples.planar_arm(2)
    sim, many = pp.Simulator(arm), np.broadcast_to(np.zeros(2), (10**12, 2))
    begun = time.perf_counter()
    for call in (
        lambda: sim.initial_state(many),
        lambda: sim.initial_state(v=many),
        lambda: sim.initial_state(t=np.broadcast_to(0.0, (10**6, 10**6))),
        lambda: pp.rollout(arm, many, np.zeros(2), np.zeros(2), 1e-3, 1),
    ):
        with pytest.raises(PhipsiError, match=r"1,000,000,000,000 trajectories.*available memory"):
            call()
    assert time.perf_counter() - begun < 1.0
    assert sim.initial_state(many[:100_000]).batch == (100_000,)
