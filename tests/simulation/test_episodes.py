"""Episodes in the kernel: equal to single runs that are cut and started again by hand."""

from __future__ import annotations

import numpy as np
import pytest
from known_systems import four_bar, pinned_arm
from numpy.testing import assert_array_equal
from random_models import random_tree

import phipsi as pp
from phipsi.errors import PhipsiError
from phipsi.laws.signals import uniform_numbers

H = 5e-3
KEPT = ("task.seen", "task.reward")


@pp.law(states={"x": [0.2, 0.0]}, discrete={"n": 0.0})
def memory(v, x, n):
    return {"tau": -x[0] * v, "x": v[0] - x, "n": n + 1.0}


@pp.law
def task(t, q, v, bound):
    return {
        "wide": np.abs(q[0]) > bound,
        "seen": np.concatenate([q, [t]]),
        "reward": np.cos(q[0]) - 0.1 * v @ v,
    }


@pp.law(rate=1 / (3 * H))
def hold(q, v):
    return -5.0 * q - v


LAWS = (memory, task.bind(bound=0.6))
SAMPLED = (hold, task.bind(bound=0.6))


def starts(model, count, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(-0.5, 0.5, (count, model.nq)), rng.normal(size=(count, model.nv))


def simulator(model, laws=LAWS, **options):
    options = {
        "terminate": "task.wide",
        "time_limit": 0.4,
        "check_every": 3,
        "record": KEPT,
    } | options
    return pp.Simulator(model, laws, H, integrator="rk4", episodes=pp.Episodes(**options))


def row_of(count, trajectory, m):
    """The start of an episode, in whole numbers of NumPy."""
    return int(uniform_numbers(np.float64(count), np.float64(trajectory), 1, 0)[0] * m)


def by_hand(model, q, v, pool, trajectory, checks, row=row_of):
    """One trajectory with a simulator that knows no episodes."""
    plain = pp.Simulator(model, LAWS, H)
    state, count, out = plain.initial_state(q, v), 0, []
    state.steps = 0
    for k in range(checks):
        for _ in range(3):
            plain.step(state)
        t, seen = float(state.t), np.array([*state.q, float(state.t)])
        flags = float(abs(state.q[0]) > 0.6), float(t >= 0.4 - H / 2)
        out.append((state.q.copy(), state.v.copy(), t, seen, *flags))
        if any(flags):
            count += 1
            i = row(count, trajectory, len(pool[0]))
            state = plain.initial_state(pool[0][i], pool[1][i])
            state.steps = 3 * (k + 1)
    return out, state, count


def advanced(sim, state, checks, **options):
    """What is known after every check."""
    out = []
    for _ in range(checks):
        sim.step(state, steps=3, **options)
        out.append({n: x.copy() for n, x in state.laws.items()} | {"q": state.q.copy()})
    return out


@pytest.fixture(scope="module")
def arm():
    return pp.examples.planar_arm(2)


def test_equal_to_runs_that_are_cut_by_hand(arm):
    """States, states of laws, flags and last values; another choice of starts is noticed."""
    sim, pool = simulator(arm), starts(arm, 7, 1)
    q, v = starts(arm, 5)
    state = sim.initial_state(q, v, restart=sim.initial_state(*pool))
    found = advanced(sim, state, 60)
    assert {0.0, 1.0} == set(np.ravel([x["episode.terminated"] for x in found]))
    assert {0.0, 1.0} == set(np.ravel([x["episode.truncated"] for x in found]))
    for i in range(5):
        wanted, last, count = by_hand(arm, q[i], v[i], pool, i, 60)
        assert count == state.laws["episode.count"][i] >= 2
        for one, (_, _, _, seen, ended, late) in zip(found, wanted, strict=True):
            assert_array_equal(one["episode.final.task.seen"][i], seen)
            assert one["episode.terminated"][i] == ended
            assert one["episode.truncated"][i] == late
            assert one["episode.done"][i] == max(ended, late)
        assert_array_equal(state.q[i], last.q)
        assert_array_equal(state.v[i], last.v)
        for name in ("memory.x", "memory.n"):
            assert_array_equal(state.laws[name][i], last.laws[name])
        _, other, _ = by_hand(arm, q[i], v[i], pool, i, 60, lambda *a: (row_of(*a) + 1) % 7)
        assert (state.q[i] != other.q).any()


def test_values_after_the_restart(arm):
    """`episode.<name>` is of the state as it is now, `episode.final.<name>` of that before."""
    sim = simulator(arm)
    state = sim.initial_state(*starts(arm, 6))
    sim.step(state, steps=0)
    assert_array_equal(state.laws["episode.task.seen"], np.c_[state.q, state.t])
    assert not state.laws["episode.final.task.seen"].any() and state.steps == 0
    for one in advanced(sim, state, 40):
        assert_array_equal(one["episode.task.seen"][:, :2], one["q"])
        same = (one["episode.task.seen"] == one["episode.final.task.seen"]).all(axis=1)
        assert_array_equal(same, one["episode.done"] == 0)
        assert_array_equal(one["episode.task.seen"][one["episode.done"] == 1, 2], 0.0)


def test_same_bits_however_it_is_run():
    """In threads, in a smaller batch, in pieces, and as a rollout."""
    model = random_tree(5, 4)
    sim = simulator(model)
    q0, pool = model.random_configuration(0, 13), model.random_configuration(1, 9)
    v0 = starts(model, 13)[1]
    restart = sim.initial_state(pool, starts(model, 9)[1])
    whole = sim.initial_state(q0, v0, restart=restart)
    sim.step(whole, steps=90)
    assert whole.laws["episode.count"].max() >= 2
    pieces, few, one, threads = (
        sim.initial_state(q0[:n], v0[:n], restart=restart) for n in (13, 5, 1, 13)
    )
    for n in (1, 2, 4, 1, 82):
        sim.step(pieces, steps=n)
    for state in (few, one):
        sim.step(state, steps=90)
    sim.step(threads, steps=90, threads=3)
    run = sim.rollout(
        sim.initial_state(q0, v0, restart=restart),
        steps=90,
        record_every=3,
        record=("q", "episode.done"),
    )
    for name in ("episode.count", "episode.task.seen", "memory.x"):
        for state in (pieces, few, one, threads, run.state):
            n = len(state.q)
            assert_array_equal(state.q, whole.q[:n])
            assert_array_equal(state.laws[name], whole.laws[name][:n])
    assert_array_equal(run["episode.done"].sum(axis=1), whole.laws["episode.count"])


def test_a_failure_ends_the_episode(arm):
    """A trajectory that diverges starts again; the others do not notice."""

    @pp.law
    def burst(q, v, push):
        return {"tau": np.exp(push * v * v) * v}

    episodes = pp.Episodes(time_limit=1.0, check_every=5, record=())
    sim = pp.Simulator(arm, burst.bind(push=0.0), 1e-2, episodes=episodes)
    push = np.array([0.0, 1000.0, 0.0])
    state = sim.initial_state(np.zeros((3, 2)), np.ones((3, 2)), parameters={"burst.push": push})
    sim.step(state, steps=5)
    assert state.laws["episode.failed"].tolist() == [0.0, 1.0, 0.0]
    assert state.laws["episode.done"].tolist() == [0.0, 1.0, 0.0]
    assert not state.status.any()
    assert state.t.round(9).tolist() == [0.05, 0.0, 0.05]
    plain = pp.Simulator(arm, burst.bind(push=0.0), 1e-2)
    other = plain.initial_state(np.zeros((3, 2)), np.ones((3, 2)), parameters={"burst.push": push})
    with pytest.raises(PhipsiError, match="no longer finite"):
        plain.step(other, steps=5)
    assert_array_equal(other.q[[0, 2]], state.q[[0, 2]])


def test_a_sampled_law_begins_with_the_episode(arm):
    """A new episode is like a run that starts there: the same bits until the next one."""
    sim = simulator(arm, SAMPLED, terminate=(), time_limit=18 * H, check_every=6)
    state = sim.initial_state(*starts(arm, 4))
    sim.step(state, steps=18)
    assert state.laws["episode.done"].all()
    fresh = sim.initial_state(state.q.copy(), state.v.copy())
    for _ in range(2):
        sim.step(state, steps=6)
        sim.step(fresh, steps=6)
        assert_array_equal(state.q, fresh.q)
        assert_array_equal(state.laws["hold.tau"], fresh.laws["hold.tau"])
        assert state.laws["hold.tau"].all()


def test_closed_chains_start_again():
    """Loops stay closed through restarts."""
    system = pinned_arm()
    q = np.array([system.assemble([x, -1.0, -1.5]) for x in (1.0, 1.1, 1.2)])
    episodes = pp.Episodes(time_limit=0.1, check_every=5)
    sim = pp.Simulator(system, (), 1e-2, episodes=episodes)
    state = sim.initial_state(q[:2], restart=sim.initial_state(q[2:]))
    sim.step(state, steps=15)
    assert state.laws["episode.count"].tolist() == [1.0, 1.0]
    alone = sim.initial_state(q[2:])
    sim.step(alone, steps=5)
    assert_array_equal(state.q, alone.q.repeat(2, axis=0))


def test_starts_are_all_used_alike(arm):
    sim = simulator(arm, terminate=(), time_limit=H, check_every=1, record=())
    pool = np.linspace(-0.5, 0.5, 10)[:, None] * [1.0, 0.0]
    state = sim.initial_state(np.zeros((400, 2)), restart=sim.initial_state(pool))
    seen = []
    for _ in range(10):
        sim.step(state)
        seen.append(state.q[:, 0].copy())
    values, counts = np.unique(seen, return_counts=True)
    assert_array_equal(values, pool[:, 0])
    assert abs(counts - 400).max() < 5 * np.sqrt(400 * 0.9)  # binomial
    assert len(np.unique(np.array(seen).T, axis=0)) > 395  # hardly two trajectories have one order


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda m: pp.Episodes(), ["episodes never end", 'pp.Episodes(terminate="task.done"']),
        (lambda m: pp.Episodes(terminate=("task.wide", 3)), ["terminate=", "names"]),
        (lambda m: pp.Episodes(time_limit=-1.0), ["time_limit", "-1.0"]),
        (lambda m: pp.Episodes(time_limit=1.0, check_every=0), ["check_every"]),
        (lambda m: simulator(m, terminate="task.wid"), ["'task.wid'", "Did you mean 'task.wide'"]),
        (lambda m: simulator(m, terminate="task.seen"), ["(3,)", ".any()"]),
        (lambda m: simulator(m, record=("seen",)), ["'seen'"]),
        (
            lambda m: simulator(m).initial_state(restart=simulator(m).initial_state()),
            ["restart=", "this simulator"],
        ),
        (lambda m: simulator(m).initial_state(restart=simulator(m)), ["restart="]),
        (lambda m: _same(pp.Simulator(m)), ["episodes="]),
        (
            lambda m: simulator(m).gradient(simulator(m).initial_state(), cotangents={"q": 1.0}),
            ["another"],
        ),
        (
            lambda m: simulator(m, laws=SAMPLED, check_every=4),
            ["4 steps", "3 steps", "check_every=12"],
        ),
        (lambda m: _gradient(simulator(m)), ["episodes", "gradient"]),
        (lambda m: _empty(simulator(m)), ["no trajectories"]),
        (lambda m: pp.Simulator(m, episodes="task.wide"), ["pp.Episodes"]),
    ],
)
def test_errors(arm, make, words):
    with pytest.raises(PhipsiError) as caught:
        make(arm)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def _gradient(sim):
    return sim.gradient(sim.initial_state(), cotangents={"q": 1.0})


def _empty(sim):
    return sim.initial_state(restart=sim.initial_state(np.zeros((0, 2))))


def _same(sim):
    return sim.initial_state(restart=sim.initial_state())


# ---- parameters ----------------------------------------------------------------------------------


def randomizing(arm, **options):
    options = {"randomize": ("inertia", "task.bound")} | options
    episodes = pp.Episodes("task.wide", time_limit=0.4, check_every=3, record=KEPT, **options)
    return pp.Simulator(arm, LAWS, H, per_trajectory=("inertia",), episodes=episodes)


def robots(model, count, seed=3):
    rng = np.random.default_rng(seed)
    own = pp.identification.inertial_parameters(model).reshape(-1, 10)
    scales = rng.uniform(0.5, 2.0, (count, model.n_bodies, 1))
    return {"inertia": scales * own, "task.bound": rng.uniform(0.4, 0.8, count)}


def test_parameters_come_with_the_start(arm):
    """Equal to single runs of the robots that were drawn; of others, it is not."""
    sim, pool, values = randomizing(arm), starts(arm, 7, 1), robots(arm, 7)
    q, v = starts(arm, 5)
    state = sim.initial_state(q, v, restart=sim.initial_state(*pool, parameters=values))
    plain = pp.Simulator(arm, LAWS, H, per_trajectory=("inertia",))
    singles = [plain.initial_state(q[i], v[i]) for i in range(5)]
    counts = np.zeros(5)
    for k in range(80):
        sim.step(state, steps=3)
        for i, one in enumerate(singles):
            plain.step(one, steps=3)
            bound = values["task.bound"] if counts[i] else [0.6]
            bound = bound[row_of(counts[i], i, 7) if counts[i] else 0]
            over = abs(one.q[0]) > bound or float(one.t) >= 0.4 - H / 2
            assert state.laws["episode.done"][i] == over
            if over:
                counts[i] += 1
                n = row_of(counts[i], i, 7)
                singles[i] = plain.initial_state(
                    pool[0][n], pool[1][n], parameters={"inertia": values["inertia"][n]}
                )
                singles[i].steps = 3 * (k + 1)
                assert_array_equal(state.own["inertia"][i], values["inertia"][n])
                assert state.own["task.bound"][i] == values["task.bound"][n]
            assert_array_equal(state.q[i], singles[i].q)
    assert counts.min() >= 2
    assert (state.q != starts(arm, 5)[0]).any()


def test_randomized_parameters_in_any_batch_and_in_pieces(arm):
    sim, q = randomizing(arm), starts(arm, 6)[0]
    pool = sim.initial_state(*starts(arm, 7, 1), parameters=robots(arm, 7))
    whole, pieces, alone = (sim.initial_state(x, restart=pool) for x in (q, q, q[:1]))
    sim.step(whole, steps=150, threads=2)
    for n in (30, 60, 60):
        sim.step(pieces, steps=n)
    sim.step(alone, steps=150)
    for name in ("inertia", "task.bound"):
        assert_array_equal(pieces.own[name], whole.own[name])
        assert_array_equal(alone.own[name][0], whole.own[name][0])
    assert_array_equal(pieces.q, whole.q)
    assert_array_equal(alone.q[0], whole.q[0])
    again = whole.copy()
    run = sim.rollout(whole, steps=90, record=("q",))
    sim.step(again, steps=90)
    assert_array_equal(run.q[:, -1], again.q)
    assert len(np.unique(whole.own["task.bound"])) > 2


def test_robots_of_closed_chains_are_randomized():
    system = four_bar()
    episodes = pp.Episodes(time_limit=0.02, randomize="inertia")
    sim = pp.Simulator(system, (), 2e-3, per_trajectory=("inertia",), episodes=episodes)
    q = system.assemble([1.0, -1.0, -1.5])
    own = pp.identification.inertial_parameters(system.model).reshape(-1, 10)
    heavy = own * np.array([1.0, 3.0])[:, None, None]
    heavy[1, 0] *= 2
    state = sim.initial_state(
        np.tile(q, (8, 1)), restart=sim.initial_state(q, parameters={"inertia": heavy})
    )
    sim.step(state, steps=30)
    assert set(state.own["inertia"][:, 0, 0]) == set(heavy[:, 0, 0])
    assert np.abs(system.residual(state.q)).max() < 1e-10


def test_bad_parameters_to_randomize(arm):
    with pytest.raises(PhipsiError, match=r"'task.bond' is not a parameter.*Did you mean 'task.b"):
        randomizing(arm, randomize=("task.bond",))
    with pytest.raises(PhipsiError, match="must be names of parameters"):
        randomizing(arm, randomize=(3,))
    sim = randomizing(arm)
    with pytest.raises(
        PhipsiError, match=r"randomize 'inertia', but it is not a per-trajectory value"
    ):
        sim.initial_state(restart=sim.initial_state(np.zeros((4, 2))))
