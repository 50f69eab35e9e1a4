"""Attempts of inverse kinematics from several starts: what is kept of them, and the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms import StepCoordinates
from phipsi.core.machine import ArrayMachine, ArrayMemory
from phipsi.kinematics.ik_problem import Targets
from phipsi.kinematics.ik_search import (
    AttemptInputs,
    AttemptOutputs,
    LevenbergMarquardt,
    ProblemSizes,
    Programs,
)

Array = NDArray[Any]

PULL, PULL_AGAIN = 1e-1, 1e-3  # of the rest posture at first, and for elements that met the targets


@final
@dataclass(frozen=True, eq=False)
class IKResult:
    """The result of `inverse_kinematics`.

    Parameters
    ----------
    q : ndarray, shape (..., nq)
        The best configurations.
    converged : ndarray of bool, shape (...)
        Whether all targets are met within the tolerances.
    position_error : ndarray, shape (..., T)
        m, per target in the order of `targets`, NaN where a target has no position.
    rotation_error : ndarray, shape (..., T)
        rad, in the same way.
    iterations : ndarray of int, shape (...)
        Steps taken in all attempts.
    attempts : ndarray of int, shape (...)
        1 plus the restarts used.
    targets : tuple
        The points, as they were passed.
    """

    q: Array
    converged: Array
    position_error: Array
    rotation_error: Array
    iterations: Array
    attempts: Array
    targets: tuple[Any, ...]

    def __repr__(self) -> str:
        some = f"{int(self.converged.sum())} of {self.converged.size} converged"
        worst = [
            f"{name} error ≤ {np.nanmax(errors):.2g} {unit}"
            for name, errors, unit in (
                ("position", self.position_error, "m"),
                ("rotation", self.rotation_error, "rad"),
            )
            if errors.size and not np.isnan(errors).all()
        ]
        return f"<IKResult: {', '.join([some, *worst])}>"


class Code(NamedTuple):
    """Machine code of an attempt, without or with a rest posture, and the limits that it takes."""

    search: Callable[[bool], Any]
    limits: tuple[Array, Array, Array]


class _AttemptResult(NamedTuple):
    """What an attempt found for n elements; errors of what is not asked for are there too."""

    q: Array
    position: Array
    rotation: Array
    error: Array
    met: Array
    iterations: Array


@final
class MultistartSearch:
    """The best configuration so far of every element, and the attempts that improve it."""

    def __init__(
        self,
        goals: Targets,
        steps: StepCoordinates,
        rest: Array | None,
        position: float,
        rotation: float,
        code: Code | None = None,
    ) -> None:
        self.goals, self.steps, self.rest, self.code = goals, steps, rest, code
        self.tolerances = position, rotation
        count, T, nq = len(goals.p), len(goals.points), steps.model.nq
        self.q = np.zeros((count, nq))
        self.error, self.away = np.full((2, count), np.inf)
        self.met = np.zeros(count, dtype=bool)
        self.position, self.rotation = np.full((2, count, T), np.nan)
        self.iterations = np.zeros(count, dtype=int)
        self.attempts = np.zeros(count, dtype=int)

    def attempt(
        self, q: Array, elements: Array, max_iterations: int, pull_to_rest: float = 0.0
    ) -> None:
        """Improve these elements, starting from q, until they are met, stall or end."""
        if len(q) and self.code is not None:
            q, elements = self._in_code(self.code, q, elements, max_iterations, pull_to_rest)
        if len(q):
            most = max_iterations if self.steps.columns.size else 0
            self._keep(self._found(self.on_arrays(q, elements, most, pull_to_rest)), elements)

    def _in_code(
        self, code: Code, q: Array, elements: Array, max_iterations: int, pull: float
    ) -> tuple[Array, Array]:
        """The attempt in machine code; what fails there is returned."""
        goals = self.goals
        settings = np.array((*self.tolerances, float(max_iterations)))
        given = [q, goals.poses(elements), goals.weights, *code.limits, settings]
        if pull:
            assert self.rest is not None
            answer = code.search(True).ufunc(*given, self.rest[elements], np.array(pull))
        else:
            answer = code.search(False).ufunc(*given)
        fine = answer[-1] == 0
        at, position, rotation, info = (x[fine] for x in answer[:-1])
        parts = goals.weights[:, 0] * rotation, goals.weights[:, 1] * position
        error = 0.5 * np.sum(np.square(parts), axis=(0, -1))
        found = _AttemptResult(
            at, position, rotation, error, info[:, 0] > 0, info[:, 1].astype(int)
        )
        self._keep(found, elements[fine])
        return q[~fine], elements[~fine]

    def on_arrays(
        self, q: Array, elements: Array, most: int, pull: float = 0.0
    ) -> LevenbergMarquardt:
        """An attempt on arrays, of at most so many iterations, that has run."""
        goals, steps, model = self.goals, self.steps, self.steps.model
        m = ArrayMachine(len(q))
        T = len(goals.points)
        groups = steps.groups if pull else ()
        sizes = ProblemSizes(T, model.nq, model.nv, goals.loop_rows, steps.bounded_places, groups)
        programs = Programs(
            goals.frames,
            steps.move_all,
            goals.loops if goals.loop_rows else None,
            None if steps.are_rates else steps.all_slopes,
        )
        settings = np.array((*self.tolerances, float(most)))
        low, high, moving = map(m.shared, steps.limits)
        rest = pulled = None
        if pull:
            assert self.rest is not None
            rest, pulled = m.input(self.rest[elements]), m.shared(np.array(pull))
        given = AttemptInputs(
            m.input(q), m.input(goals.poses(elements)), m.shared(goals.weights),
            low, high, moving, m.shared(settings), rest, pulled,
        )  # fmt: skip
        gap, error = m.array(), m.array()
        out = AttemptOutputs(m.array(model.nq), m.array(T), m.array(T), gap, error, m.array(2))
        attempt = LevenbergMarquardt(m, sizes, programs, given, out)
        attempt.run()
        return attempt

    @staticmethod
    def _found(attempt: LevenbergMarquardt) -> _AttemptResult:
        arrays = [x.lanes_first() for x in attempt.out if isinstance(x, ArrayMemory)]
        at, position, rotation, _, error, info = arrays
        return _AttemptResult(at, position, rotation, error, info[:, 0] > 0, info[:, 1].astype(int))

    def _keep(self, found: _AttemptResult, elements: Array) -> None:
        """Keep configurations that are better than those before."""
        self.iterations[elements] += found.iterations
        error, away = found.error, np.zeros(len(found.q))
        if self.rest is not None:
            way = self.steps.towards(found.q, self.rest[elements])[:, self.steps.columns]
            away = np.sum(way**2, axis=-1)
        nearer = ~self.met[elements] | (away <= self.away[elements])
        better = (found.met & nearer) | ((error < self.error[elements]) & ~self.met[elements])
        at = elements[better]
        self.q[at], self.error[at] = found.q[better], error[better]
        self.met[at], self.away[at] = found.met[better], away[better]
        self._keep_errors(at, found.position[better], found.rotation[better])

    def _keep_errors(self, elements: Array, position: Array, rotation: Array) -> None:
        asks = self.goals.asks
        self.position[elements] = np.where(asks[:, 1], position, np.nan)
        self.rotation[elements] = np.where(asks[:, 0], rotation, np.nan)

    def close(self, close: Callable[[Array], tuple[Array, Array]]) -> None:
        """Close the loops of elements that missed their targets, which were a compromise."""
        left = np.flatnonzero(~self.met)
        if left.size:
            self.q[left], closed = close(self.q[left])
            # no iteration: only what the errors are there
            found = self._found(self.on_arrays(self.q[left], left, 0))
            self.met[left] = found.met & closed
            self._keep_errors(left, found.position, found.rotation)

    def result(self, batch: tuple[int, ...]) -> IKResult:
        """The best of all attempts."""
        T = len(self.goals.points)
        return IKResult(
            self.q.reshape(*batch, self.steps.model.nq),
            self.met.reshape(batch),
            self.position.reshape(*batch, T),
            self.rotation.reshape(*batch, T),
            self.iterations.reshape(batch),
            self.attempts.reshape(batch),
            self.goals.points,
        )
