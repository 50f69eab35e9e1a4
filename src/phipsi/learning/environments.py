"""Gymnasium: vectorised environments whose steps, rewards and restarts are one compiled kernel.

    import phipsi.gym

    env = phipsi.gym.cart_pole_swing_up(256)
    observations, infos = env.reset(seed=0)
    observations, rewards, terminated, truncated, infos = env.step(env.action_space.sample())

Needs Gymnasium (``pip install 'phipsi[gym]'``).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi import examples
from phipsi.algorithms import gravity_forces, motions
from phipsi.contact import contact_points
from phipsi.core.model import Model, as_floats, whole_number
from phipsi.errors import InputError, did_you_mean, true_or_false
from phipsi.laws import law, signals
from phipsi.learning.task_models import FEET, cart_pole, standing_quadruped
from phipsi.simulation import Episodes, Simulator, SimulatorState, check_room
from phipsi.support import import_optional

__all__ = [
    "VectorEnvironment",
    "cart_pole_swing_up",
    "free_flyer_docking",
    "reaching_arm",
    "walking_quadruped",
]

if TYPE_CHECKING:
    _Base: Any = object
else:
    try:
        from gymnasium.vector import VectorEnv as _Base
    except ImportError:  # said when an environment is made
        _Base = object

Array = NDArray[Any]
Starts = Callable[[np.random.Generator, int], Mapping[str, ArrayLike]]


@final
class VectorEnvironment(_Base):
    """Many copies of a `Simulator` with episodes, as a `gymnasium.vector.VectorEnv`.

    Episodes are reset in the step in which they end (`AutoresetMode.SAME_STEP`): the observation
    is of the new episode, `infos["final_obs"]` of the old one. A copy whose numbers are not finite
    any more is terminated. Rewards are of the state at the end of the action.

    Parameters
    ----------
    simulator : Simulator
        A simulator with `episodes`: `terminate` terminates them, `time_limit` truncates them, and
        an action is held for `episodes.check_every` steps.
    starts : callable
        A function of a random generator and a number n, which returns n initial states: arrays
        (n, ...) of "q", "v", states of laws, and parameters that `episodes` randomize, by name.
    num_envs : int, optional
        Number of copies.
    action : str
        Name of the parameter of a law that actions are.
    observation, reward : str
        Names of quantities in `episodes.record`.
    low, high : array_like, optional
        Limits of actions.
    pool : int, optional
        Number of initial states that are drawn at `reset`, of which each episode takes one.
    threads : int, optional
        Number of threads that share the copies.
    parameters : mapping of str to array_like, shape (num_envs, ...), optional
        Parameters of laws, for copies that differ.
    resolve_penetration : bool, optional
        Whether the first steps resolve deep penetration at the initial states, as for
        `Simulator.initial_state`.

    Attributes
    ----------
    simulator : Simulator
        The simulator.
    state : SimulatorState
        The state of the copies.

    Examples
    --------
    >>> import numpy as np, phipsi as pp, phipsi.gym
    >>> @pp.law
    ... def push(torque):
    ...     return torque
    >>> @pp.law
    ... def task(q, v):
    ...     return {"seen": np.concatenate([q, v]), "reward": np.cos(q[0]), "fast": abs(v[0]) > 9}
    >>> sim = pp.Simulator(
    ...     pp.examples.planar_arm(1), [push.bind(torque=[0.0]), task], dt=0.01,
    ...     episodes=pp.Episodes("task.fast", 5.0, 5, record=("task.seen", "task.reward")),
    ... )
    >>> env = phipsi.gym.VectorEnvironment(
    ...     sim, lambda rng, n: {"q": rng.uniform(-1, 1, (n, 1))}, 8,
    ...     action="push.torque", observation="task.seen", reward="task.reward",
    ... )
    >>> observations, _ = env.reset(seed=1)
    >>> observations.shape, env.step(np.zeros((8, 1)))[1].shape
    ((8, 2), (8,))
    """

    def __init__(
        self,
        simulator: Simulator,
        starts: Starts,
        num_envs: int = 1,
        *,
        action: str,
        observation: str,
        reward: str,
        low: ArrayLike = -1.0,
        high: ArrayLike = 1.0,
        pool: int = 1024,
        threads: int = 1,
        parameters: Mapping[str, ArrayLike] | None = None,
        resolve_penetration: bool = False,
    ) -> None:
        gymnasium = import_optional("gymnasium", "phipsi.gym", "'phipsi[gym]'")
        vector = import_optional("gymnasium.vector", "phipsi.gym", "'phipsi[gym]'")
        self.metadata = {"autoreset_mode": vector.AutoresetMode.SAME_STEP}
        self.simulator, self.num_envs = simulator, whole_number("num_envs", num_envs)
        check_room(simulator.compiled.bytes_per_trajectory, count=self.num_envs)
        self._starts, self._count = starts, whole_number("pool", pool)
        self._threads = whole_number("threads", threads)
        self._resolve = true_or_false("resolve_penetration", resolve_penetration)
        self._observation, self._reward = self._kept(observation), self._kept(reward)
        if action not in simulator.parameters:
            known = ", ".join(map(repr, simulator.parameters)) or "none"
            hint = did_you_mean(str(action), list(simulator.parameters))
            raise InputError(f"action={action!r} is not a parameter of the laws: {known}. {hint}")
        value = simulator.parameters[action]
        shape = () if value is None else value.shape
        self._action, self._given = action, dict(parameters or {})
        Box, repeated = gymnasium.spaces.Box, vector.utils.batch_space
        limits = [
            np.broadcast_to(as_floats(name, x).astype(np.float32), shape)
            for name, x in (("low", low), ("high", high))
        ]
        if not (limits[0] <= limits[1]).all():
            raise InputError(f"low={low!r} must not be above high={high!r}, and neither NaN")
        self.single_action_space = Box(*limits, dtype=np.float32)
        seen = self._draw(np.random.default_rng(0), self.num_envs, self._given)
        size = seen.laws[f"episode.{observation}"].shape[1:]
        if seen.laws[f"episode.{reward}"].ndim != 1:
            raise InputError(f"reward={reward!r} must be one number for each copy")
        self.single_observation_space = Box(-np.inf, np.inf, size, dtype=np.float64)
        self.action_space = repeated(self.single_action_space, self.num_envs)
        self.observation_space = repeated(self.single_observation_space, self.num_envs)
        self.state: SimulatorState | None = None

    def _check_open(self) -> None:
        if self.closed:
            raise InputError("the environment is closed. Create another one")

    def _kept(self, name: str) -> str:
        episodes = self.simulator.episodes
        if episodes is None or name not in episodes.record:
            raise InputError(
                f"{name!r} is not recorded by the episodes of the simulator. Pass\n"
                f"    pp.Simulator(…, episodes=pp.Episodes(…, record=({name!r}, …)))"
            )
        return name

    def _of_one_copy(self) -> dict[str, Any]:
        """The parameters of the first copy, with which initial states are computed."""
        shapes = {n: x.shape for n, x in self.simulator.compiled.parameters.items()}
        values = {n: np.asarray(x) for n, x in self._given.items()}
        return {
            n: x.reshape(-1, *shapes[n])[0] if x.ndim > len(shapes[n]) else x
            for n, x in values.items()
        }

    def _draw(
        self,
        rng: np.random.Generator,
        count: int,
        parameters: Mapping[str, ArrayLike] | None = None,
        restart: SimulatorState | None = None,
    ) -> SimulatorState:
        """New starts."""
        sim, found = self.simulator, _drawn(self._starts, rng, count)
        q, v = found.pop("q", sim.model.neutral()), found.pop("v", np.zeros(sim.model.nv))
        q, v = (np.broadcast_to(x, (count, np.shape(x)[-1])) for x in (q, v))
        randomized = sim.episodes.randomize if sim.episodes is not None else ()
        drawn = {name: found.pop(name) for name in randomized if name in found}
        if twice := next((x for x in drawn if x in self._given), None):
            raise InputError(
                f"the episodes randomize {twice!r}, and both starts and parameters= have it. "
                "Remove it from one of them"
            )
        given = {**(parameters or {}), **drawn}
        state = sim.initial_state(q, v, parameters=given, restart=restart, resolve_penetration=True)
        if not self._resolve:
            sim.check_gaps(state, "phipsi.gym.VectorEnvironment(…, resolve_penetration=True)")
        for name, value in found.items():
            if name not in state.laws:
                known = ", ".join(map(repr, ("q", "v", *state.laws)))
                hint = ""
                if name == "parameters" and randomized:
                    hint = f" Put these beside 'q':  {{'q': q, {randomized[0]!r}: …}}"
                elif name in ("mass", "masses"):
                    hint = " Masses are in 'inertia': per_trajectory= and randomize=('inertia',)"
                elif name in sim.parameters:
                    hint = f" Draw it with  pp.Episodes(…, randomize=({name!r},))"
                more = f"; randomized: {', '.join(map(repr, randomized))}" if randomized else ""
                raise InputError(
                    f"starts returned {name!r}, which is not a state: {known}{more}.{hint}"
                )
            state.laws[name][...] = as_floats(f"{name!r} of starts", value)
        if missing := next((x for x in randomized if x not in drawn), None):
            raise InputError(
                f"the episodes randomize {missing!r}, and starts returns no values of it. Return  "
                f"{{'q': q, {missing!r}: …}}"
            )
        return state

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Draw new initial states for all copies, and for their later episodes.

        Parameters
        ----------
        seed : int, optional
            Seed of the random generator.
        options : dict, optional
            Rejected if not empty: it has no effect on any task, because copies are reset by
            themselves to the initial states of `starts`.

        Returns
        -------
        observations : ndarray, shape (num_envs, ...)
            Observations.
        infos : dict
            Empty.
        """
        self._check_open()
        if options:
            raise InputError(
                f"reset takes no options: {', '.join(map(repr, options))} would have no effect. "
                "Every copy is reset, from the initial states of `starts`; a single copy is "
                "reset by itself when its episode is done"
            )
        super().reset(seed=seed)
        rng = self.np_random
        own = np.zeros((self.num_envs, *self.single_action_space.shape))
        pool = self._draw(rng, self._count, self._of_one_copy())
        given = {**self._given, self._action: own}
        self.state = self._draw(rng, self.num_envs, given, pool)
        self.simulator.step(self.state, steps=0, threads=self._threads)
        return self.state.laws[f"episode.{self._observation}"].copy(), {}

    def step(self, actions: ArrayLike) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """Hold actions for `episodes.check_every` steps.

        Parameters
        ----------
        actions : array_like, shape (num_envs, ...)
            Actions.

        Returns
        -------
        observations, rewards, terminated, truncated : ndarray
            New arrays.
        infos : dict
            "final_obs" of episodes that ended.
        """
        sim, state = self.simulator, self.state
        self._check_open()
        if state is None or sim.episodes is None:
            raise InputError("the environment was not reset. Call  env.reset(seed=0)")
        space, own = self.single_action_space, state.own[self._action]
        given = as_floats("actions", actions)
        if given.shape != (self.num_envs, *space.shape):
            want = (self.num_envs, *space.shape)
            raise InputError(f"actions have shape {given.shape}, but must have {want}")
        if not np.isfinite(given).all():
            first = np.flatnonzero(~np.isfinite(given.reshape(self.num_envs, -1)).all(axis=1))[0]
            raise InputError(f"the action of copy {first} is not finite: {given[first]}")
        own[...] = np.clip(given, space.low, space.high).reshape(own.shape)
        sim.step(state, steps=sim.episodes.check_every, threads=self._threads)
        laws = state.laws
        ended = (laws["episode.terminated"] != 0) | (laws["episode.failed"] != 0)
        late = (laws["episode.truncated"] != 0) & ~ended
        infos = self._final(ended | late)
        rewards = laws[f"episode.final.{self._reward}"].copy()
        return laws[f"episode.{self._observation}"].copy(), rewards, ended, late, infos

    def _final(self, over: Array) -> dict[str, Any]:
        """The last observations of episodes, as Gymnasium's own environments give them."""
        if not over.any() or self.state is None:
            return {}
        last = np.full(self.num_envs, None, dtype=object)
        seen = self.state.laws[f"episode.final.{self._observation}"]
        for i in np.flatnonzero(over):
            last[i] = seen[i].copy()
        return {"final_obs": last, "_final_obs": over, "final_info": {}, "_final_info": over}


# ---- tasks ---------------------------------------------------------------------------------------


def cart_pole_swing_up(
    num_envs: int = 1, *, limit: float = 10.0, force: float = 10.0, threads: int = 1
) -> VectorEnvironment:
    """Gymnasium task: swing a hanging pole up and balance it, by forces on the cart.

    **Action** (1,): the force, as a fraction of `force`, held for 0.04 s. **Observation** (5,):
    position (m) and velocity (m/s) of the cart, cosine and sine of the pole's angle from upright,
    its rate (rad/s). **Reward**: (1 + cos)/2, less away from the middle, with fast rates and large
    forces. **Termination**: the cart leaves ±2.4 m. **Initial states**: the pole within 0.5 rad of
    hanging, the cart within 0.5 m of the middle, both slow.

    Parameters
    ----------
    num_envs : int, optional
        Number of copies.
    limit : float, optional
        Time at which an episode is truncated, s.
    force : float, optional
        Largest force, N.
    threads : int, optional
        Number of threads.

    Returns
    -------
    VectorEnvironment
        The environment.

    Examples
    --------
    >>> import phipsi.gym
    >>> env = phipsi.gym.cart_pole_swing_up(4)
    >>> env.reset(seed=0)[0].shape
    (4, 5)
    """

    @law
    def task(q, v, action):
        x, up = q[0] / 2.4, np.cos(q[1])
        reward = 0.5 * (1 + up) * (1 - 0.3 * x * x) - 1e-3 * v[1] * v[1] - 0.01 * action[0] ** 2
        seen = np.stack([q[0], v[0], up, np.sin(q[1]), v[1]])
        tau = np.stack([force * action[0], 0.0])
        return {"tau": tau, "observation": seen, "reward": reward, "out": np.abs(x) > 1}

    def starts(rng: np.random.Generator, n: int) -> dict[str, Array]:
        q = np.array([0.0, np.pi]) + rng.uniform(-0.5, 0.5, (n, 2))
        return {"q": q, "v": rng.uniform(-0.2, 0.2, (n, 2))}

    laws, episodes = task.bind(action=[0.0]), Episodes("task.out", limit, 4, _KEPT)
    return _environment(cart_pole(), laws, 0.01, episodes, starts, num_envs, threads, "rk4")


def reaching_arm(
    num_envs: int = 1, *, limit: float = 4.0, speed: float = 1.5, threads: int = 1
) -> VectorEnvironment:
    """Gymnasium task: bring the tool of the seven-joint arm to a point, by its joint velocities.

    **Action** (7,): desired velocities, as fractions of `speed`, held for 0.04 s; a drive with
    gravity compensation follows them. **Observation** (17,): q (rad), v (rad/s), the vector from
    the tool to the goal (3,) in world axes, m. **Reward**: minus that distance (m), less 0.02 of
    the mean square of the action. **Termination**: none. **Initial states**: joints within 0.5 rad
    of upright, at rest; the goal is where the tool is in a random configuration with joints within
    1.5 rad.

    Parameters
    ----------
    num_envs : int, optional
        Number of copies.
    limit : float, optional
        Time at which an episode is truncated, s.
    speed : float, optional
        Largest desired velocity, rad/s.
    threads : int, optional
        Number of threads.

    Returns
    -------
    VectorEnvironment
        The environment.

    Examples
    --------
    >>> import phipsi.gym
    >>> env = phipsi.gym.reaching_arm(4)
    >>> env.reset(seed=0)[0].shape
    (4, 17)
    """
    model = examples.seven_joint_arm()

    @law(discrete={"goal": np.zeros(3)})
    def task(q, v, tool, goal, action):
        way = goal - tool
        reward = -np.sqrt(way @ way) - 0.02 / 7 * (action @ action)
        return {
            "tau": gravity_forces(model, q) + 20.0 * (speed * action - v),
            "observation": np.concatenate([q, v, way]), "reward": reward, "goal": goal,
        }  # fmt: skip

    def starts(rng: np.random.Generator, n: int) -> dict[str, Array]:
        goals = motions.poses(model, rng.uniform(-1.5, 1.5, (n, 7)), ["tool"])[:, 0, :3, 3]
        return {"q": rng.uniform(-0.5, 0.5, (n, 7)), "task.goal": goals}

    laws = task.bind(tool=signals.position("tool"), action=np.zeros(7))
    return _environment(model, laws, 0.01, Episodes((), limit, 4, _KEPT), starts, num_envs, threads)


def free_flyer_docking(
    num_envs: int = 1, *, limit: float = 20.0, threads: int = 1
) -> VectorEnvironment:
    """Gymnasium task: bring both hands of a floating robot to the ports of a target.

    **Action** (20,): moment (fractions of 20 N·m) and force (fractions of 50 N) on the base in its
    axes, and desired velocities of the 14 arm joints (fractions of 0.5 rad/s), held for 0.1 s;
    drives follow the velocities, and the base feels them. **Observation** (46,): the vectors from
    the hands to their ports (6,) and the velocities of the hands (6,), in axes of the base, m and
    m/s; velocities of the base (6,); angles (14,) and rates (14,) of the arms. **Reward**: minus
    the mean distance of the hands (m), less 0.02 of the mean square of the action; 10 more when
    docked. **Termination**: docked, both hands within 5 cm and slower than 5 cm/s; or lost, a hand
    more than 6 m away. **Initial states**: the robot at rest, arms within 0.3 rad of straight; the
    ports are where the hands would be with the base moved by up to 1 m and turned by up to 0.3 rad
    along each axis, and with the arms within 0.8 rad.

    Parameters
    ----------
    num_envs : int, optional
        Number of copies.
    limit : float, optional
        Time at which an episode is truncated, s.
    threads : int, optional
        Number of threads.

    Returns
    -------
    VectorEnvironment
        The environment.

    Examples
    --------
    >>> import phipsi.gym
    >>> env = phipsi.gym.free_flyer_docking(2)
    >>> env.reset(seed=0)[0].shape
    (2, 46)
    """
    model = examples.free_flyer()
    hands = ["left_tool", "right_tool"]
    thrust = np.repeat([20.0, 50.0], 3)

    @law(discrete={"ports": np.zeros((2, 3))})
    def task(q, v, base, left, right, left_rate, right_rate, ports, action):
        R = base[:3, :3]
        ways = ports[0] - left, ports[1] - right
        distances = [np.sqrt(x @ x) for x in ways]
        speeds = [np.sqrt(x @ x) for x in (left_rate, right_rate)]
        far, fast = np.maximum(*distances), np.maximum(*speeds)
        docked = np.where((far < 0.05) & (fast < 0.05), 1.0, 0.0)
        effort = 0.02 / 20 * (action @ action)
        parts = [R.T @ x for x in (*ways, left_rate, right_rate)]
        return {
            "tau": np.concatenate([thrust * action[:6], 50.0 * (0.5 * action[6:] - v[6:])]),
            "observation": np.concatenate([*parts, v[:6], q[7:], v[6:]]),
            "reward": 10.0 * docked - 0.5 * (distances[0] + distances[1]) - effort,
            "docked": docked, "lost": far > 6.0, "ports": ports,
        }  # fmt: skip

    def starts(rng: np.random.Generator, n: int) -> dict[str, Array]:
        moves = [rng.uniform(-1, 1, (n, 20)) * np.repeat(x, (3, 3, 14))
                 for x in ([0.3, 1.0, 0.8], [0.0, 0.0, 0.3])]  # fmt: skip
        goal, q = (model.integrate(model.neutral(), x) for x in moves)
        return {"q": q, "task.ports": motions.poses(model, goal, hands)[:, :, :3, 3]}

    laws = task.bind(
        base=signals.pose("base"), left=signals.position(hands[0]),
        right=signals.position(hands[1]), left_rate=signals.velocity(hands[0]),
        right_rate=signals.velocity(hands[1]), action=np.zeros(20),
    )  # fmt: skip
    episodes = Episodes(("task.docked", "task.lost"), limit, 5, _KEPT)
    return _environment(model, laws, 0.02, episodes, starts, num_envs, threads)


def walking_quadruped(
    num_envs: int = 1, *, limit: float = 10.0, speed: float = 0.8, threads: int = 1
) -> VectorEnvironment:
    """Gymnasium task: walk along x on four feet with friction, by the angles of twelve joints.

    **Action** (12,): desired angles, as fractions of 0.5 rad from standing, held for 0.02 s; drives
    follow them. **Observation** (38,): height of the trunk (m) and the direction up in its axes
    (3,); its velocities (6,), rad/s and m/s; angles from standing (12,) and rates (12,) of the
    joints, rad and rad/s; the loads of the feet (4,) in the last step, fractions of the weight.
    **Reward**: the speed along x of the world (m/s), at most `speed`, and half of the cosine of the
    tilt, less 0.02 of the mean square of the action. **Termination**: the trunk is lower than
    0.3 m, or tilted by more than 60°. **Initial states**: joints within 0.1 rad of standing, feet
    up to 2 cm above the ground, turned about the vertical by up to 0.3 rad, slow.

    Parameters
    ----------
    num_envs : int, optional
        Number of copies.
    limit : float, optional
        Time at which an episode is truncated, s.
    speed : float, optional
        Largest speed that is rewarded, m/s.
    threads : int, optional
        Number of threads.

    Returns
    -------
    VectorEnvironment
        The environment.

    Examples
    --------
    >>> import phipsi.gym
    >>> env = phipsi.gym.walking_quadruped(2)
    >>> env.reset(seed=0)[0].shape
    (2, 38)
    """
    system = standing_quadruped()
    model, contacts = system.model, system.contact_pairs
    stance = np.tile([0.0, 0.55, -1.1], 4)
    weight = float(np.linalg.norm(model.gravity)) * sum(x.mass for x in model.inertias)

    @law
    def task(q, v, trunk, front_left, front_right, rear_left, rear_right, action):
        R, angles = trunk[:3, :3], q[7:] - stance
        forward = R[0] @ v[3:6]
        upright = R[2, 2]
        drives = 400.0 * (0.5 * action - angles) - 10.0 * v[6:]
        forces = front_left, front_right, rear_left, rear_right
        load = np.stack([x[2] for x in forces]) / weight
        seen = np.concatenate([np.stack([q[6]]), R[2], v[:6], angles, v[6:], load])
        effort = 0.02 / 12 * (action @ action)
        return {
            "tau": np.concatenate([np.zeros(6), drives]), "observation": seen,
            "reward": np.minimum(forward, speed) + 0.5 * upright - effort,
            "fallen": (q[6] < 0.3) | (upright < 0.5),
        }  # fmt: skip

    def starts(rng: np.random.Generator, n: int) -> dict[str, Array]:
        q = np.tile(model.neutral(), (n, 1))
        turn = rng.uniform(-0.3, 0.3, n) / 2
        q[:, 0], q[:, 3] = np.cos(turn), np.sin(turn)
        q[:, 7:] = stance + rng.uniform(-0.1, 0.1, (n, 12))
        q[:, 6] += rng.uniform(0, 0.02, n) - contact_points.contact_points(contacts, q).gap.min(
            axis=-1
        )
        return {"q": q, "v": rng.uniform(-0.1, 0.1, (n, 18))}

    loads = {leg: signals.contact_force(f"{leg}_foot|ground") for leg in FEET}
    laws = task.bind(trunk=signals.pose("trunk"), action=np.zeros(12), **loads)
    episodes = Episodes("task.fallen", limit, 10, _KEPT)
    return _environment(system, laws, 0.002, episodes, starts, num_envs, threads, "time_stepping")


_KEPT = ("task.observation", "task.reward")


def _drawn(starts: Starts, rng: np.random.Generator, count: int) -> dict[str, ArrayLike]:
    """What `starts` returns, or an error that says what it must be."""
    try:
        bound = inspect.signature(starts).bind(rng, count)
    except TypeError:
        bound = None
    found: Any = bound and starts(*bound.args)
    if not isinstance(found, Mapping):
        raise InputError(
            "starts must take (rng, n) and return states by name, n of each:\n"
            "    def starts(rng, n): return {'q': rng.uniform(-0.1, 0.1, (n, model.nq))}"
        )
    return dict(found)


def _environment(
    model: Model,
    laws: Any,
    dt: float,
    episodes: Episodes,
    starts: Starts,
    num_envs: int,
    threads: int,
    integrator: str = "implicit_damping",
) -> VectorEnvironment:
    """An environment of a law "task" with an action, an observation and a reward."""
    sim = Simulator(model, laws, dt, integrator=integrator, episodes=episodes)
    return VectorEnvironment(
        sim, starts, num_envs, action="task.action", observation=_KEPT[0], reward=_KEPT[1],
        threads=threads,
    )  # fmt: skip
