"""Damped least squares for many elements at once: the iteration of inverse kinematics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms.kinematics.bounded_steps import StepCoordinates, bounded_steps
from phipsi.algorithms.kinematics.ik_problem import Residuals, Targets

Array = NDArray[Any]

# Damping λ = μ E with E = ½ |rows|², which vanishes with the error: quadratic convergence, also
# where the Jacobian lacks rank (Yamashita and Fukushima 2001; for robots Sugihara 2011).
MU = 1.0
MU_RANGE = (1e-6, 1e12)
FLOOR = 1e-10  # least damping, relative to the largest diagonal entry of J* J
_SETTLED = 0.03  # a step that promises less of the cost than this nearly solves a pulled problem
STALLED = 1e-9  # a step that promises less of the error than this leads nowhere
TAKEN, GOOD, POOR = 1e-3, 0.75, 0.25  # parts of its promise that a step keeps
FALLS, RISES, REJECTED = 0.2, 3.0, 10.0  # factors of μ after a good, a poor and a rejected step
LITTLE = 1e-2  # damping, relative to J* J, with which a step that promises nothing is the end

# The pull to the rest posture falls with every step, so that it decides only what the targets leave
# open; below the last value it is dropped.
CLOSED = 1e-10  # rad, m: the largest residual of loops that count as closed
PULL, PULL_AGAIN = 1e-1, 1e-3  # at the beginning, and for elements that have met their targets
_PULL_FALLS, _PULL_ENDS = 0.3, 1e-11


@final
@dataclass(frozen=True, eq=False)
class IKResult:
    """The result of `inverse_kinematics`.

    **Attributes:** `q` (..., nq), the best configurations; `converged` (...), whether all targets
    are met within the tolerances; `position_error` (..., T) in m and `rotation_error` (..., T) in
    rad, per target in the order of `targets`, NaN where a target does not ask for it; `iterations`
    (...), steps taken in all attempts; `attempts` (...), 1 plus the restarts used; `targets`.
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
    """Machine code of an attempt, and the limits that it takes."""

    search: Any
    limits: tuple[Array, Array, Array]


@final
class Search:
    """The best configuration so far of every element, and the iteration that improves it."""

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
        if len(q) and self.code is not None and not pull_to_rest:
            q, elements = self._in_code(self.code, q, elements, max_iterations)
        if not len(q):
            return
        now = self.goals.residuals(q, elements)
        mu = np.full(len(q), MU)
        pull = np.full(len(q), pull_to_rest)
        for step in range(max_iterations + 1):
            met = self._met(now)
            self._keep(q, now, elements, met)
            stop = (met & (pull == 0)) | (mu > MU_RANGE[1])
            if stop.any():
                go = ~stop
                q, elements, mu, pull = q[go], elements[go], mu[go], pull[go]
                now = Residuals(*(x[go] for x in now))
            if not len(q) or step == max_iterations or not self.steps.columns.size:
                return
            q, now, mu, pull = self._step(q, now, mu, pull, elements)
            self.iterations[elements] += 1

    def _in_code(
        self, code: Code, q: Array, elements: Array, max_iterations: int
    ) -> tuple[Array, Array]:
        """The same in machine code; what fails there, or is not covered, is returned."""
        poses = np.zeros((len(q), len(self.goals.points), 4, 4))
        poses[..., :3, :3], poses[..., :3, 3] = self.goals.R[elements], self.goals.p[elements]
        poses[..., 3, 3] = 1.0
        settings = np.array((*self.tolerances, float(max_iterations)))
        weights = self.goals.weights
        found = code.search.ufunc(q, poses, weights, *code.limits, settings)
        fine = found[-1] == 0
        at, position, rotation, info = (x[fine] for x in found[:-1])
        asks = self.goals.asks
        now = Residuals(
            np.concatenate([weights[:, 0] * rotation, weights[:, 1] * position], axis=-1),
            np.zeros((len(at), 0, 0)),
            np.where(asks[:, 1], position, np.nan),
            np.where(asks[:, 0], rotation, np.nan),
            np.zeros(len(at)),
        )
        self._keep(at, now, elements[fine], info[:, 0] > 0)
        self.iterations[elements[fine]] += info[:, 1].astype(int)
        return q[~fine], elements[~fine]

    def _step(
        self, q: Array, now: Residuals, mu: Array, pull: Array, elements: Array
    ) -> tuple[Array, Residuals, Array, Array]:
        """One damped step of every element; those that do not gain stay and get more damping."""
        slopes = self.steps.slopes(q, now.jacobian)
        k = slopes.shape[-1]
        A = np.swapaxes(slopes, -1, -2) @ slopes
        g = np.einsum("nmk,nm->nk", slopes, now.rows)
        towards = self._towards(q, elements)
        A[:, np.arange(k), np.arange(k)] += pull[:, None]
        g -= pull[:, None] * towards
        cost = self._cost(now.rows, towards, pull)
        size = np.einsum("nkk->nk", A).max(axis=-1, initial=1e-30)
        damping = np.maximum(mu * cost, FLOOR * size)
        damped = A.copy()
        damped[:, np.arange(k), np.arange(k)] += damping[:, None]
        d = bounded_steps(damped, g, *self.steps.bounds(q))
        promised = -np.einsum("nk,nk->n", g, d) - 0.5 * np.einsum("nk,nkl,nl->n", d, A, d)
        moved = self.steps.move(q, d)
        then = self.goals.residuals(moved, elements)
        gain = cost - self._cost(then.rows, self._towards(moved, elements), pull)
        ratio = gain / np.maximum(promised, 1e-300)
        taken = (ratio > TAKEN) & (gain > 0)
        change = np.where(ratio > GOOD, FALLS, np.where(ratio > POOR, 1.0, RISES))
        mu = np.maximum(mu * np.where(taken, change, REJECTED), MU_RANGE[0])
        # With little damping, a step that promises next to nothing is a local minimum.
        idle = (promised <= STALLED * cost) & (mu * cost <= LITTLE * size) & ~self._met(then)
        mu = np.where(idle & (pull == 0), np.inf, mu)
        # The pull falls when its present problem is nearly solved; earlier, the posture would lag.
        solved = (taken & (promised <= _SETTLED * cost)) | idle | (cost == 0)
        pull = np.where(solved, pull * _PULL_FALLS, pull)
        pull = np.where(pull < _PULL_ENDS, 0.0, pull)
        mixed = Residuals(
            *(
                np.where(taken.reshape(-1, *[1] * (a.ndim - 1)), b, a)
                for a, b in zip(now, then, strict=True)
            )
        )
        return np.where(taken[:, None], moved, q), mixed, mu, pull

    def _towards(self, q: Array, elements: Array) -> Array:
        if self.rest is None:
            return np.zeros((len(q), self.steps.columns.size))
        return self.steps.towards(q, self.rest[elements])

    @staticmethod
    def _cost(rows: Array, towards: Array, pull: Array) -> Array:
        return 0.5 * (np.sum(rows**2, axis=-1) + pull * np.sum(towards**2, axis=-1))

    def _met(self, now: Residuals) -> Array:
        position, rotation = self.tolerances
        far = (now.position > position) | (now.rotation > rotation)  # False where NaN: not asked
        return np.logical_not(np.any(far, axis=-1)) & (now.gap <= CLOSED)

    def _keep(self, q: Array, now: Residuals, elements: Array, met: Array) -> None:
        """Keep configurations that are better than those before."""
        error = 0.5 * np.sum(now.rows**2, axis=-1)
        away = np.sum(self._towards(q, elements) ** 2, axis=-1)
        nearer = ~self.met[elements] | (away <= self.away[elements])
        better = (met & nearer) | ((error < self.error[elements]) & ~self.met[elements])
        at = elements[better]
        self.q[at], self.error[at] = q[better], error[better]
        self.met[at], self.away[at] = met[better], away[better]
        self.position[at], self.rotation[at] = now.position[better], now.rotation[better]

    def close(self, close: Callable[[Array], tuple[Array, Array]]) -> None:
        """Close the loops of elements that missed their targets, which were a compromise."""
        left = np.flatnonzero(~self.met)
        if left.size:
            self.q[left], closed = close(self.q[left])
            now = self.goals.residuals(self.q[left], left)
            self.met[left] = self._met(now) & closed
            self.position[left], self.rotation[left] = now.position, now.rotation

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
