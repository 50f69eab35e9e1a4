"""Environments of Gymnasium: their rules, and the tasks against formulas by hand."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from known_systems import rolling_ball
from numpy.testing import assert_allclose, assert_array_equal

import phipsi as pp
import phipsi.gym
from phipsi.errors import PhipsiError

ROOT = Path(__file__).parents[2]
TASKS = {
    "cart_pole_swing_up": phipsi.gym.cart_pole_swing_up,
    "reaching_arm": phipsi.gym.reaching_arm,
    "free_flyer_docking": phipsi.gym.free_flyer_docking,
    "walking_quadruped": phipsi.gym.walking_quadruped,
}


@pytest.fixture(scope="module", params=TASKS)
def task(request):
    return TASKS[request.param]


def played(env, seed, count, rng_seed=0):
    """All that an environment returns to random actions."""
    rng, out = np.random.default_rng(rng_seed), [env.reset(seed=seed)[0]]
    for _ in range(count):
        found = env.step(rng.uniform(-1.2, 1.2, env.action_space.shape).astype(np.float32))
        out.extend(found[:4])
    return out


def test_rules_of_gymnasium(task):
    """Spaces, types, seeds; what is returned belongs to the caller."""
    env = task(5)
    assert isinstance(env, gymnasium.vector.VectorEnv)
    assert env.metadata["autoreset_mode"] is gymnasium.vector.AutoresetMode.SAME_STEP
    first = played(env, 3, 4)
    assert env.observation_space.contains(first[0])
    assert env.observation_space.contains(first[1])
    assert first[2].dtype == np.float64 and first[3].dtype == first[4].dtype == bool
    assert {x.shape for x in first[2:5]} == {(5,)}
    again, other = played(env, 3, 4), played(env, 4, 4)
    for x, y in zip(first, again, strict=True):
        assert_array_equal(x, y)
    assert (first[0] != other[0]).any()
    assert not any(np.shares_memory(first[1], x) for x in (*first[2:], *env.state.laws.values()))
    threads = task(5, threads=2)
    for x, y in zip(first, played(threads, 3, 4), strict=True):
        assert_array_equal(x, y)


def test_actions_are_clipped(task):
    env = task(2)
    env.reset(seed=0)
    large = env.step(np.full(env.action_space.shape, 9.0))[0]
    env.reset(seed=0)
    assert_array_equal(large, env.step(np.ones(env.action_space.shape))[0])


def test_the_cart_pole_by_hand():
    """Observation, reward and end from the state; the motion by `rollout`."""
    env = phipsi.gym.cart_pole_swing_up(30, limit=4.0)
    rng = np.random.default_rng(0)
    seen, _ = env.reset(seed=0)
    assert_allclose(np.abs(np.arctan2(seen[:, 3], seen[:, 2])), np.pi, atol=0.5)
    model, ended, cut = env.simulator.model, 0, 0
    for k in range(110):
        q, v = env.state.q.copy(), env.state.v.copy()
        action = rng.uniform(-1, 1, (30, 1))
        action[::2] = 0.4  # these leave the rail
        seen, reward, terminated, truncated, infos = env.step(action)
        tau = np.concatenate([10.0 * action, 0 * action], axis=1)
        qs, vs = pp.rollout(model, q, v, tau, 0.01, 4, integrator="rk4")
        (x, angle), (speed, turn) = qs[:, -1].T, vs[:, -1].T
        want = np.stack([x, speed, np.cos(angle), np.sin(angle), turn], axis=1)
        assert_array_equal(terminated, np.abs(x) > 2.4)
        assert_array_equal(truncated & terminated, False)
        over = terminated | truncated
        assert_allclose(seen[~over], want[~over], atol=1e-12)
        cost = 1e-3 * turn**2 + 0.01 * action[:, 0] ** 2
        assert_allclose(reward, (1 + np.cos(angle)) / 2 * (1 - 0.3 * (x / 2.4) ** 2) - cost)
        if over.any():
            assert_array_equal(infos["_final_obs"], over)
            assert_allclose(np.stack(infos["final_obs"][over]), want[over], atol=1e-12)
            assert all(one is None for one in infos["final_obs"][~over])
            assert (np.abs(seen[over][:, 0]) <= 0.5).all()
        else:
            assert not infos
        ended, cut = ended + terminated.sum(), cut + truncated.sum()
        assert k >= 99 or not truncated.any()
    assert ended > 5 and cut > 5


def test_the_reaching_arm_by_hand():
    """A controller with the Jacobian reaches every goal; a twin with its negative does not."""
    model = pp.examples.seven_joint_arm()
    env = phipsi.gym.reaching_arm(16)
    left = []
    for sign in (1.0, -1.0):
        seen, _ = env.reset(seed=1)
        for _ in range(99):
            q, way = seen[:, :7], seen[:, 14:]
            J = pp.jacobian(model, q, ["tool"], axes="world")[:, 3:]
            inverse = np.linalg.inv(J @ J.swapaxes(1, 2) + 1e-3 * np.eye(3))
            action = sign * 3 / 1.5 * np.einsum("nji,njk,nk->ni", J, inverse, way)
            seen, reward, terminated, truncated, _ = env.step(action)
            assert not terminated.any() and not truncated.any()
            tool = pp.poses(model, env.state.q, ["tool"])[:, 0, :3, 3]
            assert_allclose(seen[:, 14:], env.state.laws["task.goal"] - tool, atol=1e-12)
            used = np.clip(action, -1, 1)
            distance = np.linalg.norm(seen[:, 14:], axis=1)
            assert_allclose(reward, -distance - 0.02 * (used**2).mean(axis=1), atol=1e-7)
        assert env.step(action)[3].all()  # after 4 s
        left.append(distance)
    assert np.median(left[0]) < 0.02 < 0.3 < np.median(left[1])


def test_a_quadruped_stands_and_falls():
    """Loads of the feet, reward and end; it stands without action, and falls when it leans."""
    env = phipsi.gym.walking_quadruped(6, limit=2.0)
    seen, _ = env.reset(seed=1)
    assert seen.shape == (6, 38)
    assert_array_equal(seen[:, 34:], 0.0)  # no step yet, so no forces
    height = []
    for _ in range(99):
        seen, reward, terminated, truncated, _ = env.step(np.zeros((6, 12)))
        assert not terminated.any() and not truncated.any()
        height.append(seen[:, 0])
    laws, model = env.state.laws, env.simulator.model
    weight = 9.81 * sum(x.mass for x in model.inertias)
    load = laws["contact.impulses"][..., 5] / env.simulator.dt / weight
    assert_allclose(seen[:, 34:], load, atol=1e-12)
    assert_allclose(seen[:, 34:].sum(axis=1), 1.0, atol=0.02)  # at rest they carry the weight
    assert_allclose(np.ptp(height[-20:], axis=0), 0.0, atol=2e-3)
    R = pp.poses(model, env.state.q)[:, 0, :3, :3]
    assert_allclose(seen[:, 1:4], R[:, 2], atol=1e-12)
    forward = np.einsum("ni,ni->n", R[:, 0], env.state.v[:, 3:6])
    assert_allclose(reward, np.minimum(forward, 0.8) + 0.5 * R[:, 2, 2], atol=1e-12)
    truncated = env.step(np.zeros((6, 12)))[3]
    assert truncated.all()  # after 2 s; the next episodes begin in the same step
    assert_allclose(env.state.t, 0.0, atol=1e-12)
    lean = np.tile([1.0, 1.0, -1.0, 1.0, -1.0, 1.0], 2)  # short legs on the left
    fallen = np.zeros(6, bool)
    for _ in range(60):
        _, _, terminated, _, infos = env.step(np.tile(lean, (6, 1)))
        fallen |= terminated
        for i in np.flatnonzero(terminated):
            last = infos["final_obs"][i]
            assert last[0] < 0.3 or last[3] < 0.5
    assert fallen.all()
    assert env.state.certificate.is_clean


def test_the_gait_of_the_example_walks():
    """The references of a trot as actions walk forward; without them nothing moves."""
    env = phipsi.gym.walking_quadruped(4, limit=20.0)
    for gait in (1.0, 0.0):
        env.reset(seed=3)
        places, gained = env.state.q[:, 4].copy(), np.zeros(4)
        for k in range(100):
            phase = 2 * np.pi / 0.4 * 0.02 * k + np.array([0.0, np.pi, np.pi, 0.0])
            lift = 0.5 * np.maximum(-np.sin(phase), 0.0)
            hip, knee = 0.5 * lift - 0.15 * np.cos(phase), -lift
            action = gait * np.stack([0 * hip, hip, knee], axis=1).ravel() / 0.5
            _, reward, terminated, _, _ = env.step(np.tile(action, (4, 1)))
            gained += reward
            assert not terminated.any()
        moved = env.state.q[:, 4] - places
        if gait:
            assert moved.min() > 0.4 and gained.min() > 60
        else:
            assert np.abs(moved).max() < 0.1


def test_docking_by_hand():
    """Hands at rest on their ports have docked; with a port elsewhere, or moving, they have not."""
    model, hands = pp.examples.free_flyer(), ["left_tool", "right_tool"]
    env = phipsi.gym.free_flyer_docking(4)
    env.reset(seed=2)
    state = env.state
    at = pp.poses(model, state.q, hands)[:, :, :3, 3]
    state.laws["task.ports"][...] = at
    state.laws["task.ports"][1, 0] += [0.0, 0.06, 0.0]
    state.laws["task.ports"][2, 1] += [7.0, 0.0, 0.0]
    state.v[3, 3:6] = [0.1, 0.0, 0.0]
    seen, reward, terminated, truncated, infos = env.step(np.zeros((4, 20)))
    assert terminated.tolist() == [True, False, True, False] and not truncated.any()
    assert_allclose(reward, [10.0, -0.03, -3.5, -0.01], atol=1e-4)
    assert_allclose(infos["final_obs"][2][3:6], [7.0, 0.0, 0.0], atol=1e-6)
    R = pp.poses(model, state.q)[1, 0, :3, :3]
    ways = (state.laws["task.ports"][1] - pp.poses(model, state.q[1], hands)[:, :3, 3]) @ R
    assert_allclose(seen[1, :6], ways.ravel(), atol=1e-12)
    assert_allclose(seen[3, 6:9], [0.1, 0, 0], atol=1e-9)
    assert_array_equal(seen[1, 12:18], state.v[1, :6])


def test_a_controller_by_hand_docks():
    """Rates by the Jacobian of both hands, which thrusters and joints follow; a twin flees."""
    model, hands = pp.examples.free_flyer(), ["left_tool", "right_tool"]
    env = phipsi.gym.free_flyer_docking(8)
    limits, inertia = np.repeat([20.0, 50.0], 3), np.repeat([60.0, 180.0], 3)
    for sign, all_docked in ((1.0, True), (-1.0, False)):
        env.reset(seed=1)
        docked, first = np.zeros(8, dtype=bool), np.ones(8, dtype=bool)
        for _ in range(120):
            q, v = env.state.q, env.state.v
            J = pp.jacobian(model, q, hands, axes="world").reshape(8, 2, 6, 20)[:, :, 3:]
            J = J.reshape(8, 6, 20)
            ways = env.state.laws["task.ports"] - pp.poses(model, q, hands)[:, :, :3, 3]
            want = sign * 0.5 * ways.reshape(8, 6)
            want *= np.minimum(1, 0.4 / np.linalg.norm(want, axis=1, keepdims=True))
            forces = np.linalg.solve(J @ J.swapaxes(1, 2) + 1e-3 * np.eye(6), want[..., None])
            rates = np.einsum("nij,ni->nj", J, forces[..., 0])
            thrust = inertia * (rates[:, :6] - v[:, :6]) / 0.6 / limits
            _, reward, terminated, truncated, _ = env.step(
                np.concatenate([thrust, rates[:, 6:] / 0.5], axis=1)
            )
            docked |= first & terminated & (reward > 5)
            first &= ~(terminated | truncated)
        assert docked.all() if all_docked else not docked.any()


def test_momentum_of_a_robot_without_thrusters():
    """Arms alone leave the momentum as it is, to the order of the method."""
    model, env = pp.examples.free_flyer(), phipsi.gym.free_flyer_docking(3)
    env.reset(seed=0)
    rng, last = np.random.default_rng(0), None
    for _ in range(20):
        action = rng.uniform(-1, 1, (3, 20))
        action[:, :6] = 0
        env.step(action)
        last = np.linalg.norm(pp.momentum(model, env.state.q, env.state.v), axis=-1)
        speed = np.abs(env.state.v[:, 6:]).max()
    assert last.max() < 0.5 and speed > 0.1
    env.step(np.ones((3, 20)))
    assert np.linalg.norm(pp.momentum(model, env.state.q, env.state.v), axis=-1).min() > 5 * 0.5


def own_task(**options):
    @pp.law
    def push(torque):
        return torque

    @pp.law
    def task(q, v):
        return {"seen": np.concatenate([q, v]), "reward": np.cos(q[0])}

    kept = ("task.seen", "task.reward")
    given = {"action": "push.torque", "observation": kept[0], "reward": kept[1]}
    sim = pp.Simulator(
        pp.examples.planar_arm(1), [push.bind(torque=[0.0]), task], 0.01,
        episodes=options.pop("episodes", pp.Episodes(time_limit=1.0, record=kept)),
    )  # fmt: skip
    starts = options.pop("starts", lambda rng, n: {"q": rng.uniform(-1, 1, (n, 1))})
    return phipsi.gym.VectorEnvironment(sim, starts, 3, **(given | options))


def stepped(actions):
    env = own_task()
    env.reset()
    env.step(actions)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: own_task(action="push.torqu"), ["'push.torqu'", "Did you mean 'push.torque'"]),
        (lambda: own_task(reward="task.rewards"), ["'task.rewards'", "record=("]),
        (lambda: own_task(reward="task.seen"), ["reward='task.seen'", "one number"]),
        (lambda: own_task(episodes=None), ["episodes=pp.Episodes"]),
        (lambda: own_task(starts=lambda rng, n: {"p": np.zeros(n)}), ["'p'", "'q', 'v'"]),
        (lambda: own_task(pool=0), ["pool"]),
        (lambda: own_task().step(np.zeros((3, 1))), ["env.reset("]),
        (lambda: stepped(np.zeros((2, 1))), ["(2, 1)", "(3, 1)"]),
        (lambda: stepped(np.array([[0.0], [np.nan], [0.0]])), ["copy 1", "not finite"]),
    ],
)
def test_errors(make, words):
    with pytest.raises(PhipsiError) as caught:
        make()
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_starts_that_overlap_say_what_the_environment_takes():
    system = rolling_ball()

    @pp.law
    def push(up):
        return np.concatenate([np.zeros(5), np.stack([up])])

    @pp.law
    def task(q):
        return {"seen": q, "reward": q[6]}

    sim = pp.Simulator(
        system, [push.bind(up=0.0), task], dt=1e-3, integrator="time_stepping",
        episodes=pp.Episodes((), 1.0, check_every=4, record=("task.seen", "task.reward")),
    )  # fmt: skip
    given = {"action": "push.up", "observation": "task.seen", "reward": "task.reward"}

    def starts(rng, n):
        return {"q": np.tile([1, 0, 0, 0, 0, 0, 0.06], (n, 1))}

    make = phipsi.gym.VectorEnvironment
    with pytest.raises(
        pp.errors.InputError, match=r"0\.04 m.*(?s:.*)VectorEnvironment\(.*resolve_penetration"
    ):
        make(sim, starts, 3, **given)
    env = make(sim, starts, 3, resolve_penetration=True, **given)
    env.reset(seed=0)
    seen = env.step(np.zeros(3))[0]
    assert np.abs(seen[:, 6] - 0.1).max() < 1e-9
    with pytest.raises(pp.errors.InputError, match="resolve_penetration"):
        make(sim, starts, 3, resolve_penetration=1, **given)


def test_without_gymnasium(monkeypatch):
    """The module can be read; an environment says what to install."""
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(ImportError, match=re.escape("pip install 'phipsi[gym]'")):
        phipsi.gym.cart_pole_swing_up(1)


def test_a_short_training(monkeypatch):
    """A few iterations improve the policy; the whole training is recorded in docs/learning.md."""
    monkeypatch.syspath_prepend(ROOT / "examples")
    import train_cart_pole

    lines = []
    better = train_cart_pole.train(10, copies=64, threads=1, show=lines.append)
    begin = train_cart_pole.train(1, copies=64, threads=1, show=lines.append)
    rewards = [float(re.search(r"reward (\S+)", x)[1]) for x in lines]
    assert rewards[0] > rewards[1] + 0.05
    assert train_cart_pole.score(begin, 1, 20) == 0

    # a network as a law does the same as the network in Python
    env = phipsi.gym.cart_pole_swing_up(3)
    seen, _ = env.reset(seed=0)
    run = train_cart_pole.compiled(better, (env.state.q.copy(), env.state.v.copy()), 100)
    for k in range(1, 26):
        seen = env.step(better(train_cart_pole.scaled(seen)))[0]
        assert_allclose(run.q[:, 4 * k], env.state.q, atol=1e-4)
    assert np.abs(run.q[:, -1] - run.q[:, 0]).max() > 0.05


def test_the_page_for_learners():
    """Blocks that need Gymnasium, which the other tests of pages leave out."""
    page = (ROOT / "docs" / "learning.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```py\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 2
    space: dict[str, object] = {}
    for block in blocks:
        exec(block, space)


def test_what_an_environment_would_not_use_is_rejected():
    env = phipsi.gym.cart_pole_swing_up(2)
    for options in ({"reset_mask": np.array([True, False])}, {"low": 1}):
        with pytest.raises(PhipsiError, match=r"no options.*no effect"):
            env.reset(seed=0, options=options)
    env.reset(seed=0, options={})
    good = np.zeros((2, 1))
    for bad, why in (
        (good + 1j, "real numbers"),
        (np.ma.masked_array(good, mask=[[True], [False]]), "masked"),
        (good.astype(str), "not numbers"),
        (good > 1, "not numbers"),
    ):
        with pytest.raises(PhipsiError, match=why):
            env.step(bad)
    assert np.isfinite(env.step(np.ma.masked_array(good))[0]).all()  # a twin: nothing is masked
    with pytest.raises(PhipsiError, match="available memory"):
        phipsi.gym.cart_pole_swing_up(10**12)
    env.close()
    for call in (lambda: env.step(good), lambda: env.reset(seed=0)):
        with pytest.raises(PhipsiError, match="closed"):
            call()


def test_randomized_parameters_stand_beside_q():
    @pp.law
    def task(q, v, torque, gain=2.0):
        return {"tau": gain * torque, "seen": q, "reward": q[0], "fast": abs(v[0]) > 9}

    ends = pp.Episodes(
        "task.fast", 5.0, record=("task.seen", "task.reward"), randomize=("inertia",)
    )
    sim = pp.Simulator(
        pp.examples.planar_arm(1), task.bind(torque=[0.0]), dt=0.01, episodes=ends,
        per_trajectory=("inertia",),
    )  # fmt: skip
    own = sim.parameters["inertia"]

    def made(**more):
        def starts(rng, n):
            return {"q": rng.uniform(-1, 1, (n, 1)), **{name: x(n) for name, x in more.items()}}

        return phipsi.gym.VectorEnvironment(
            sim, starts, 3, action="task.torque", observation="task.seen", reward="task.reward",
        )  # fmt: skip

    heavy = made(inertia=lambda n: np.broadcast_to(2.0 * own, (n, *own.shape)))
    heavy.reset(seed=1)
    assert_array_equal(heavy.state.own["inertia"], np.broadcast_to(2.0 * own, (3, *own.shape)))
    told = r"randomized: 'inertia'\. Put these beside 'q':  \{'q': q, 'inertia': …\}"
    with pytest.raises(PhipsiError, match=told):
        made(parameters=lambda n: {"inertia": own})
    with pytest.raises(PhipsiError, match=r"pp\.Episodes\(…, randomize=\('task\.gain',\)\)"):
        made(**{"task.gain": lambda n: np.ones(n)})
    with pytest.raises(PhipsiError, match=r"Masses are in 'inertia': per_trajectory= and random"):
        made(mass=lambda n: np.ones(n))
    signals = dict(action="task.torque", observation="task.seen", reward="task.reward")
    for starts in (lambda rng: {"q": [[0.0]]}, lambda rng, n: np.zeros((n, 1))):
        with pytest.raises(PhipsiError, match=r"def starts\(rng, n\): return \{'q': "):
            phipsi.gym.VectorEnvironment(sim, starts, 3, **signals)


def test_parameters_of_copies_reach_every_draw():
    """Those without a default too; what the episodes randomize is drawn by starts alone."""

    @pp.law
    def task(q, v, goal, torque):
        seen = np.concatenate([q, v, goal])
        return {"tau": torque, "seen": seen, "reward": q[0], "fast": abs(v[0]) > 9}

    def made(parameters, randomize=(), starts=None):
        episodes = pp.Episodes(
            "task.fast", 0.1, 5, record=("task.seen", "task.reward"), randomize=randomize
        )
        sim = pp.Simulator(
            pp.examples.planar_arm(1), [task.bind(goal=[0.0], torque=[0.0])], 0.01,
            per_trajectory=("M",), episodes=episodes,
        )  # fmt: skip

        def plain(rng, n):
            return {"q": rng.uniform(-1, 1, (n, 1))}

        return phipsi.gym.VectorEnvironment(
            sim, starts or plain, 3, action="task.torque", observation="task.seen",
            reward="task.reward", parameters=parameters,
        )  # fmt: skip

    mass = np.stack([k * np.eye(6)[None] for k in (1.0, 2.0, 3.0)])  # M has no default
    goals = [[1.0], [2.0], [3.0]]
    env = made({"M": mass, "task.goal": goals})
    first, _ = env.reset(seed=0)
    for _ in range(3):  # beyond the end of the first episodes
        seen, *_ = env.step(np.zeros((3, 1)))
    for found in (first, seen):
        assert_array_equal(found[:, 2], [1.0, 2.0, 3.0])
    assert_array_equal(env.state.own["M"], mass)
    with pytest.raises(PhipsiError, match="'M' is a per-trajectory parameter without a default"):
        made({"task.goal": goals})
    with pytest.raises(PhipsiError, match="do not broadcast"):  # at once, not at the first reset
        made({"M": mass[:2], "task.goal": goals})
    with pytest.raises(PhipsiError, match="starts returns no values of it. Return  {'q': q, 'task"):
        made({"M": mass}, randomize=("task.goal",))

    def drawn(rng, n):
        return {"q": rng.uniform(-1, 1, (n, 1)), "task.goal": rng.uniform(5, 6, (n, 1))}

    with pytest.raises(PhipsiError, match="both starts and parameters= have it"):
        made({"M": mass, "task.goal": goals}, ("task.goal",), drawn)
    seen, _ = made({"M": mass}, ("task.goal",), drawn).reset(seed=0)
    assert ((seen[:, 2] >= 5) & (seen[:, 2] <= 6)).all()
