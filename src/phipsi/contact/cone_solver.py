"""Solving contact problems: Newton's method, interior point where it fails, and restitution.

>>> import numpy as np
>>> from phipsi.contact.cone_problem import ConeLayout, ConeProblem
>>> layout = ConeLayout(("point",))
>>> sliding = np.array([1.0, 0.0, -0.0981])  # a point of 1 kg falls onto a floor and slides
>>> problem = ConeProblem(layout, np.eye(3), sliding, np.zeros(1), layout.coefficients(0.5))
>>> solve(problem).p.round(5)
array([-0.04905,  0.     ,  0.0981 ])

**Source:** theory/contact 3, 5.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from phipsi.contact.cone_problem import (
    NOT_FINITE,
    Array,
    ConeProblem,
    ConeSolution,
    residual,
)
from phipsi.contact.gathered_arrays import GatheredArrays
from phipsi.contact.solver_attempts import solve_cones


def solve(
    problem: ConeProblem, start: ArrayLike | None = None, *, tolerance: float = 1e-10
) -> ConeSolution:
    """The impulses of a contact problem.

    Proximal Newton; where that fails, interior point and Newton from its result; where that fails
    too, some convex problems: in the order of `solver_attempts`. Where impulses are not unique (a
    table on four legs) they are the least, the limit of equal compliances. Where velocities are not
    either (wedged bodies), `start` decides between the solutions.

    **Arguments:** `start` (..., n), impulses of the last step: fewer iterations, and bodies at rest
    stay at rest. `tolerance` of the residual in m/s, at which Newton's method ends; what is below
    `ACCEPTED`, or rounding beside |W| |p| + |b|, counts as solved as well. **Returns:** arrays with
    the leading axes of the problem. Each problem gets the same bits in every batch. `status`
    reports those that were not solved; nothing is raised.

    **Cost:** 4–8 factorisations of n × n. **Source:** theory/contact 5.
    """
    flat, batch, n = problem.flat(), problem.batch, problem.layout.n_rows
    given = (flat.W, flat.b, flat.coefficients)
    known = [np.isfinite(x).all(axis=tuple(range(1, x.ndim))) for x in given]
    finite: Array = np.logical_and.reduce([*known, ~np.isnan(flat.s).any(axis=1)])
    first = np.zeros_like(flat.b)
    if start is not None:
        first = np.array(np.broadcast_to(start, (*batch, n)), float).reshape(-1, n)
    p, results = np.zeros_like(flat.b), np.full((len(flat.b), 3), [np.nan, 0.0, NOT_FINITE])
    if finite.any():
        gathered = GatheredArrays(flat.taken(finite), first[finite], (3,))
        with np.errstate(all="ignore"):
            solve_cones(gathered.m, gathered.kinds, gathered.memory, tolerance)
        p[finite], results[finite] = gathered.y(), gathered.results()
        results[finite, 0] = residual(flat.taken(finite), p[finite])  # of other sums: a check
    left, iterations, status = results.T
    parts = (left, iterations.astype(int), status.astype(int))
    return ConeSolution(p.reshape(*batch, n), *(x.reshape(batch) for x in parts))


class Rebound(NamedTuple):
    """Impulses with restitution, and the `share` f (...) of it that was possible, mostly one."""

    solution: ConeSolution
    share: Array


def solve_rebound(
    problem: ConeProblem, calm: Array, start: ArrayLike | None = None, *, tolerance: float = 1e-10
) -> Rebound:
    """Impulses at contacts that rebound, u_n⁺ = −s, without gain of energy.

    Newton's law with friction can create energy. Then the restitution of all contacts of a
    problem is reduced by one factor, the largest f in [0, 1] for which p*b + ½ p*W p ≤ 0.

    **Arguments:** `problem` has the s with all restitution, e u_n⁻ of velocities before the
    impact; `calm` (..., n_heads), those without. Those of share f are calm + f (s − calm).

    **Source:** theory/contact 3 (K11).
    """
    flat, batch, k = problem.flat(), problem.batch, problem.layout.n_heads
    n, count = flat.b.shape[1], len(flat.b)
    calm = np.broadcast_to(calm, (*batch, k)).reshape(-1, k)
    guess = np.zeros((*batch, n)) if start is None else np.asarray(start, float)
    first = np.broadcast_to(guess, (*batch, n)).reshape(-1, n)

    def rebound(which: Array, share: Array, start: Array) -> ConeSolution:
        part = flat.taken(which)
        s = calm[which] + share[:, None] * (part.s - calm[which])
        return solve(replace(part, s=s), start, tolerance=tolerance)

    share = np.ones(count)
    found = rebound(np.arange(count), share, first)
    todo = np.flatnonzero(_gain(flat, found.p) > 0)
    if todo.size:
        low, high = np.zeros(len(todo)), np.ones(len(todo))
        best = rebound(todo, low, first[todo])
        used = found.iterations[todo] + best.iterations
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            trial = rebound(todo, middle, best.p)
            used = used + trial.iterations
            fine = (_gain(flat.taken(todo), trial.p) <= 0) & trial.is_solved
            low, high = np.where(fine, middle, low), np.where(fine, high, middle)
            best = _chosen(fine, trial, best)
        share[todo] = low
        for name in ("p", "residual", "status"):
            getattr(found, name)[todo] = getattr(best, name)
        found.iterations[todo] = used
    parts = (x.reshape(batch) for x in (found.residual, found.iterations, found.status))
    return Rebound(ConeSolution(found.p.reshape(*batch, n), *parts), share.reshape(batch))


BISECTIONS, GAINED = 40, 1e-14
"""Of the share of restitution; a gain of energy beside its terms that is rounding."""


def _gain(problem: ConeProblem, p: Array) -> Array:
    """The kinetic energy (B,) that impulses create beyond rounding, p*b + ½ p*W p."""
    half = 0.5 * (problem.W @ p[..., None])[..., 0]
    rounding = np.sum(np.abs(p) * (np.abs(problem.b) + np.abs(half)), axis=1)
    return np.sum(p * (problem.b + half), axis=1) - GAINED * rounding


def _chosen(which: Array, one: ConeSolution, other: ConeSolution) -> ConeSolution:
    return ConeSolution(
        np.where(which[:, None], one.p, other.p),
        *(
            np.where(which, getattr(one, name), getattr(other, name))
            for name in ("residual", "iterations", "status")
        ),
    )
