"""Solving contact problems: Newton's method, interior point where it fails, and restitution.

>>> import numpy as np
>>> from phipsi.contact.solver.contact_problem import ContactProblemLayout, ContactProblem
>>> layout = ContactProblemLayout(("point",))
>>> sliding = np.array([1.0, 0.0, -0.0981])  # a point of 1 kg falls onto a floor and slides
>>> problem = ContactProblem(layout, np.eye(3), sliding, np.zeros(1), layout.coefficients(0.5))
>>> solve(problem).p.round(5)
array([-0.04905,  0.     ,  0.0981 ])

**Source:** theory/contact 3, 5.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from phipsi.contact.solver.contact_problem import (
    NOT_FINITE,
    Array,
    ContactProblem,
    ContactSolution,
    residual,
)
from phipsi.contact.solver.gathered_arrays import GatheredArrays
from phipsi.contact.solver.restitution_share import CALM, FOUND, SHARE, result_rows, solve_rebounds
from phipsi.contact.solver.scaled_problem import padded
from phipsi.contact.solver.solver_schedule import solve_cones
from phipsi.core.machine import BLOCK


def solve(
    problem: ContactProblem, start: ArrayLike | None = None, *, tolerance: float = 1e-10
) -> ContactSolution:
    """The impulses of a contact problem.

    Proximal Newton; where that fails, interior point and Newton from its result; where that fails
    too, some convex problems: in the order of `solver_attempts`. Where impulses are not unique (a
    table on four legs) they are the least, the limit of equal compliances. Where velocities are not
    either (wedged bodies), `start` decides between the solutions.

    **Arguments:** `start` (..., n), impulses of the last step: fewer iterations, and bodies at rest
    stay at rest. `tolerance` of the residual in m/s, at which Newton's method ends; what is below
    `ACCEPTED`, or rounding beside |W| |p| + |b|, counts as solved as well. **Returns:** arrays with
    the leading axes of the problem. The result of each problem is bitwise identical in every batch.
    `status` reports those that were not solved; nothing is raised.

    **Cost:** 4–8 factorisations of n × n. **Source:** theory/contact 5.
    """
    p, found = _solved(problem, start, solve_cones, (3,), tolerance)
    return _solution(problem.flat(), problem.batch, p, found)


def _solved(
    problem: ContactProblem, start: ArrayLike | None, text: Callable[..., None],
    shape: tuple[int, ...], tolerance: float, calm: Array | None = None,
) -> tuple[Array, Array]:  # fmt: skip
    """Impulses (B, n) and results (B, *shape) of a text; NaN where a problem is not finite.

    `calm` (B, n), numbers of rows for row `CALM` of the results.
    """
    flat = problem.flat()
    given = (flat.W, flat.b, flat.coefficients)
    known = [np.isfinite(x).all(axis=tuple(range(1, x.ndim))) for x in given]
    finite: Array = np.logical_and.reduce([*known, ~np.isnan(flat.s).any(axis=1)])
    first = np.zeros_like(flat.b)
    if start is not None:
        first = np.array(np.broadcast_to(start, (*problem.batch, first.shape[1])), float)
        first = first.reshape(flat.b.shape)
    p, found = np.zeros_like(flat.b), np.full((len(flat.b), *shape), np.nan)
    if finite.any():
        gathered = GatheredArrays(flat.taken(finite), first[finite], shape)
        m, memory = gathered.m, gathered.memory
        with np.errstate(all="ignore"):
            if calm is not None:
                m.copy(memory.n, gathered.filled(calm[finite]), memory.results.row(CALM))
            text(m, gathered.kinds, memory, tolerance)
        p[finite], found[finite] = gathered.y(), gathered.results()
    return p, found


def _solution(
    flat: ContactProblem, batch: tuple[int, ...], p: Array, found: Array
) -> ContactSolution:
    """What a text has found; the residual is the certificate's, which sums in another order."""
    finite = np.isfinite(found[:, 2])
    left = np.full(len(p), np.nan)
    left[finite] = residual(flat.taken(finite), p[finite])
    iterations = np.where(finite, found[:, 1], 0).astype(int)
    status = np.where(finite, found[:, 2], NOT_FINITE).astype(int)
    parts = (x.reshape(batch) for x in (left, iterations, status))
    return ContactSolution(p.reshape(*batch, p.shape[1]), *parts)


class Rebound(NamedTuple):
    """Impulses with restitution, and the `share` f (...) of it that was possible, mostly one."""

    solution: ContactSolution
    share: Array


def solve_rebound(
    problem: ContactProblem,
    calm: Array,
    start: ArrayLike | None = None,
    *,
    tolerance: float = 1e-10,
) -> Rebound:
    """Impulses at contacts that rebound, u_n⁺ = −s, without gain of energy.

    Newton's law with friction can create energy. Then the restitution of all contacts of a
    problem is reduced by one factor, the largest f in [0, 1] for which p*b + ½ p*W p ≤ 0.

    **Arguments:** `problem` has the s with all restitution, e u_n⁻ of velocities before the
    impact; `calm` (..., n_heads), those without. Those of share f are calm + f (s − calm).

    **Source:** theory/contact 3 (K11).
    """
    layout, batch, flat = problem.layout, problem.batch, problem.flat()
    calm = np.broadcast_to(calm, (*batch, layout.n_heads)).reshape(-1, layout.n_heads)
    on_rows, rows = np.zeros_like(flat.b), padded(layout.n_rows)
    on_rows[:, layout.normals] = calm
    shape = (result_rows(rows), max(BLOCK, rows))
    p, found = _solved(problem, start, solve_rebounds, shape, tolerance, on_rows)
    share = np.where(np.isfinite(found[:, SHARE, 0]), found[:, SHARE, 0], 1.0)
    part = replace(flat, s=calm + share[:, None] * (flat.s - calm))
    return Rebound(_solution(part, batch, p, found[:, FOUND]), share.reshape(batch))
