"""Rare events: the probability that a number exceeds a limit, by subset simulation.

P(y > limit) = P(y > y₁) P(y > y₂ | y > y₁) …, with levels that each a tenth of the runs exceeds.
Runs beyond a level are continued by Markov chains in the space of standard normal numbers z, which
keep their distribution there: z' = ρ z + √(1 − ρ²) ξ is taken if y(z') is beyond the level too
(adaptive conditional sampling). All chains of a level advance together, a batch of runs at a time.

**Source:** Papaioannou, Betz, Zwirglmaier and Straub 2015.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phipsi.errors import InputError
from phipsi.model.numbers import whole_number
from phipsi.motion.optional_imports import import_optional

Array = NDArray[Any]
_MOST_LEVELS = 60
_WANTED_SHARE = 0.44
"""Steps that should be taken, by which the length of steps is adapted."""


class RareEvent(NamedTuple):
    """What `Study.rare_event` found.

    `probability`, and its standard `error` relative to it; `levels` (k,), the limits in between;
    `runs`, how many were made; `points` (n, d), those of runs beyond the limit in the unit cube:
    ``study.draws.at(points)`` has their draws; `values` (n,) of these runs.
    """

    probability: float
    error: float
    levels: Array
    runs: int
    points: Array
    values: Array

    def __repr__(self) -> str:
        return f"<rare event {self.probability:.3g} ± {100 * self.error:.0f} %, {self.runs} runs>"


def subset_simulation(
    value: Callable[[Array], Array],
    dimension: int,
    limit: float,
    runs: int,
    share: float,
    seed: int,
) -> RareEvent:
    """The probability that value(u) > limit for u in the unit cube; see `Study.rare_event`."""
    count = whole_number("runs", runs, 20)
    if not math.isfinite(limit):
        raise InputError(f"limit={limit!r} must be a finite number")
    if not 0 < share <= 0.5:
        raise InputError(f"share={share!r} must be above 0 and at most 0.5")
    seeds = max(1, round(share * count))
    chain = -(-count // seeds)
    count = seeds * chain
    ndtr = import_optional("scipy.special", "rare events", "scipy").ndtr
    rng = np.random.Generator(np.random.Philox(key=seed))

    def at(z: Array) -> Array:
        u = np.clip(ndtr(z), np.finfo(float).tiny, 1 - 2.0**-53)
        return value(u)

    z = rng.standard_normal((count, dimension))
    y = at(z)
    made, levels, spread, variance, log_p = count, [], 0.6, 0.0, 0.0
    correlated = np.zeros((1, 1))
    while True:
        order = np.argsort(-y, kind="stable")
        level = float(y[order[seeds - 1]])
        last = level >= limit or len(levels) >= _MOST_LEVELS
        beyond = y > limit if last else y >= level
        p = float(beyond.mean())
        if p == 0:
            return RareEvent(0.0, math.inf, np.array(levels), made, z[:0], y[:0])
        variance += (1 - p) / (p * count) * (1 + _dependence(beyond, p, correlated))
        log_p += math.log(p)
        if last:
            points = np.clip(ndtr(z[beyond]), np.finfo(float).tiny, 1 - 2.0**-53)
            error = math.sqrt(variance)
            return RareEvent(math.exp(log_p), error, np.array(levels), made, points, y[beyond])
        levels.append(level)
        start = order[:seeds]
        parts_z, parts_y = [z[start]], [y[start]]
        for _ in range(chain - 1):
            rho = math.sqrt(1 - spread**2)
            moved = rho * parts_z[-1] + spread * rng.standard_normal((seeds, dimension))
            found = at(moved)
            taken = found >= level
            made += seeds
            parts_z.append(np.where(taken[:, None], moved, parts_z[-1]))
            parts_y.append(np.where(taken, found, parts_y[-1]))
            spread = min(0.999, spread * math.exp(float(taken.mean()) - _WANTED_SHARE))
        z, y = np.concatenate(parts_z), np.concatenate(parts_y)
        correlated = np.zeros((chain, seeds))


def _dependence(beyond: Array, p: float, chains: Array) -> float:
    """How much the dependence of runs in a chain widens the error: γ of Au and Beck."""
    length, count = chains.shape
    if length == 1 or p >= 1:
        return 0.0
    hits = beyond.reshape(length, count).astype(float) - p
    total = 0.0
    for lag in range(1, length):
        covariance = float((hits[:-lag] * hits[lag:]).mean())
        total += 2 * (1 - lag / length) * covariance / (p * (1 - p))
    return max(0.0, total)
