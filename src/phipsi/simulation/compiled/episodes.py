"""Episodes: trajectories that end by a law and start again, for learning agents."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from phipsi.core.arrays import Array, Node, Tracer, as_node, constant, input
from phipsi.core.model import as_list, whole_number
from phipsi.errors import InputError
from phipsi.laws import uniform_numbers
from phipsi.simulation.runs.checks import checked_time

if TYPE_CHECKING:
    from phipsi.simulation.runs.run_program import Restart

STARTS = "episode.starts"
"""How many starts there are to choose from."""


@final
@dataclass(frozen=True)
class Episodes:
    """Episode termination, truncation and automatic reset for reinforcement learning.

    After a check, `SimulatorState.laws` has, for every trajectory, by name:

    - "episode.terminated": 1 if `terminate` was not 0; "episode.truncated": 1 if `time_limit` was
      reached; "episode.failed": 1 if a number was not finite any more, or a step could not be
      taken, which ends the episode instead of the trajectory; "episode.done": 1 if one of the three
      is;
    - "episode.count", how many episodes are done;
    - "episode.final.<name>", a quantity of `record` before the reset, which is the last value of
      the episode if it is done; "episode.<name>", the same after the reset: as `rollout` records it
      then, with the samples that laws take at that time.

    Where an episode is done, q, v, t, the states of laws and the parameters in `randomize` are
    reset to one of the initial states of ``sim.initial_state(…, restart=starts)``: ``state.own``
    has the parameters of the present episodes. The number of the initial state is computed from
    those of the trajectory and the episode, so it does not depend on the batch, the SIMD lanes or
    the threads, nor on whether a rollout continues another. A sampled law takes a sample in the
    first step of an episode, so `check_every` must be a multiple of the steps between its samples.

    Parameters
    ----------
    terminate : str or sequence of str, optional
        A recorded scalar by name (``"<law>.<output>"``), or several: an episode is terminated where
        one of them is not 0.
    time_limit : float, optional
        Time t at which an episode is truncated, s.
    check_every : int, optional
        Steps between checks, during which an agent holds its action.
    record : sequence of str, optional
        Names of recorded quantities that are computed at every check.
    randomize : sequence of str, optional
        Names of parameters, of laws and of `per_trajectory`, whose value every episode takes from
        its initial state (domain randomization).

    Notes
    -----
    **Cost:** the laws once per check, and `record` twice.

    Examples
    --------
    >>> import numpy as np, phipsi as pp
    >>> @pp.law
    ... def task(q):
    ...     return {"fallen": abs(q[0]) > 1.0, "angle": q[0]}
    >>> episodes = pp.Episodes("task.fallen", 2.0, check_every=10, record=("task.angle",))
    >>> sim = pp.Simulator(pp.examples.planar_arm(1), task, dt=1e-2, episodes=episodes)
    >>> starts = sim.initial_state(np.array([[0.1], [0.2]]))
    >>> state = sim.initial_state(np.zeros((3, 1)), restart=starts)
    >>> sim.step(state, steps=50)
    >>> state.laws["episode.count"].tolist()
    [1.0, 1.0, 1.0]
    """

    terminate: str | Sequence[str] = ()
    time_limit: float | None = None
    check_every: int = 1
    record: Sequence[str] = ()
    randomize: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name in ("terminate", "record", "randomize"):
            value = getattr(self, name)
            names = tuple(as_list(name, value, "['task.done']"))
            if not all(isinstance(x, str) for x in names):
                what = "parameters" if name == "randomize" else "recorded quantities"
                raise InputError(f"{name}={value!r} must be names of {what}")
            object.__setattr__(self, name, names)
        if self.time_limit is not None:
            checked_time(self.time_limit, "time_limit")
        object.__setattr__(self, "check_every", whole_number("check_every", self.check_every))
        if not self.terminate and self.time_limit is None:
            raise InputError(
                "episodes never end: pass terminate= or time_limit=:\n"
                '    pp.Episodes(terminate="task.done", time_limit=10.0)'
            )

    def restart(
        self, record: Callable[[str], Node], states: tuple[str, ...], periods: Sequence[int]
    ) -> Restart:
        """The checks and the reset as graphs.

        Parameters
        ----------
        record : callable
            The node of a quantity by name.
        states : tuple of str
            Names of the states of the rollout.
        periods : sequence of int
            Steps between samples of laws.

        Returns
        -------
        Restart
            What is computed at a check, and what is reset.
        """
        from phipsi.simulation.runs.run_program import Restart

        for period in periods:
            if self.check_every % period:
                fits = math.lcm(self.check_every, *periods)
                raise InputError(
                    f"episodes are checked every {self.check_every} steps, but a law is sampled "
                    f"every {period} steps: a new episode would begin between two samples. Pass\n"
                    f"    pp.Episodes(…, check_every={fits})"
                )
        ended: Any = Tracer(constant(0.0))
        for name in self.terminate:
            node = record(name)
            if node.shape:
                raise InputError(
                    f"terminate={name!r} has shape {node.shape}, but must be one number. Combine "
                    "the entries in the law:  (x > 1).any()"
                )
            ended = np.where(Tracer(node) != 0, 1.0, ended)
        late: Any = Tracer(constant(0.0))
        if self.time_limit is not None:
            late = np.where(_number("t") + 0.5 * _number("h") >= self.time_limit, 1.0, 0.0)
        failed = _number("failed")
        over = np.maximum(np.maximum(ended, late), failed)
        count, starts = _number("episode.count"), _number(STARTS)
        checks: dict[str, Any] = {
            "episode.terminated": ended, "episode.truncated": late, "episode.failed": failed,
            "episode.done": over, "episode.count": count + over,
        }  # fmt: skip
        checks |= {f"episode.final.{name}": Tracer(record(name)) for name in self.record}
        row = np.floor(uniform_numbers(count, _number("trajectory"), 1, 0)[0] * starts)
        return Restart(
            self.check_every,
            {name: as_node(x) for name, x in checks.items()},
            "episode.done",
            as_node(np.where(row < starts, row, 0.0)),
            (*states, *self.randomize),
            {f"episode.{name}": record(name) for name in self.record},
        )


def shared_of(restart: Restart | None, states: Mapping[str, Node]) -> dict[str, int]:
    """What trajectories that start again share, by name, with the entries of a row."""
    if restart is None:
        return {}
    return {STARTS: 1} | {f"pool {name}": states[name].size for name in restart.pools}


def starts_of(
    restart: Restart | None, own: Mapping[str, Array], given: Mapping[str, Array] | None
) -> dict[str, Array]:
    """The same as arrays: rows that are `given`, or a copy of a state's `own`."""
    if restart is None:
        if given is None:
            return {}
        raise InputError(
            "restart= is for a simulator with episodes:\n"
            '    sim = pp.Simulator(…, episodes=pp.Episodes(terminate="task.done"))'
        )
    rows = {name: x.copy() for name, x in own.items()} if given is None else given
    count = len(rows["q"])
    if not count and len(own["q"]):
        raise InputError(
            "restart= has no trajectories, so episodes have no initial states to be reset to"
        )
    return {STARTS: np.array([float(count)])} | {f"pool {n}": rows[n] for n in restart.pools}


def _number(name: str) -> Any:
    """A number that the kernel knows."""
    return Tracer(input(name, ()))
