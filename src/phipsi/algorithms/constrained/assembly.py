"""Assembly and projection: configurations and velocities that satisfy the constraints."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms.constrained.constraint_metric import ConstraintMetric
from phipsi.algorithms.constrained.constraint_rows import ClosureRows
from phipsi.algorithms.constrained.row_rank import RANK
from phipsi.algorithms.kinematics.bounded_steps import bounded_steps
from phipsi.algorithms.kinematics.ik_problem import Chart, strict_rows
from phipsi.compiler import compile
from phipsi.operators import mass_matrix

Array = NDArray[Any]

_MU, _MU_RANGE = 1.0, (1e-6, 1e12)
_FLOOR = 1e-12  # least damping, relative to the largest entry of G* G in the mass metric
_STALLED = 1e-10  # a step that promises less of the error than this leads nowhere
_ROUNDING = 4e-16
_NUDGE = 1e-3  # rad and m


def search(
    rows: ClosureRows,
    q: Array,
    *,
    fixed: Iterable[str] = (),
    limits: bool = True,
    tolerance: float,
    max_iterations: int,
) -> tuple[Array, Array]:
    """Configurations (n, nq) near q at which the loops are closed, and whether they are (n,).

    Levenberg–Marquardt on ½ |g|², every step d minimising ½ |G d + g|² + ½ λ d* ℳ d between the
    joint limits, with λ in proportion to |g|² so that the last steps are those of Newton's method,
    also where rows are redundant. Axes that must coincide enter as z_b − z_a and rotations as
    R − I, which a closure that is turned over does not satisfy.
    """
    chart = Chart(rows.model, fixed, limits)
    q = _apart(rows, chart, chart.inside(q))
    mechanism = rows.components[chart.columns]
    together = (mechanism[:, None] == mechanism).astype(float)
    its_rows = (rows.strict_components[:, None] == mechanism).astype(float)
    best, closed = q.copy(), np.zeros(len(q), dtype=bool)
    left = np.arange(len(q))
    mu = np.full(len(q), _MU)
    g, G, met = _state(rows, chart, q, tolerance)
    for step in range(max_iterations + 1):
        best[left], closed[left] = q, met
        go = ~met & (mu <= _MU_RANGE[1])
        left, q, mu, g, G = left[go], q[go], mu[go], g[go], G[go]
        if not left.size or step == max_iterations or not chart.columns.size:
            break
        M = compile(mass_matrix, rows.model, mode="dense")(q)
        M = chart.slopes(q, np.swapaxes(chart.slopes(q, M), -1, -2))
        A, slope = np.swapaxes(G, -1, -2) @ G, np.einsum("nmk,nm->nk", G, g)
        cost = 0.5 * (g * g).sum(axis=-1)
        # G* G in units of ℳ: its largest eigenvalue is at most the trace of ℳ⁻¹ G* G. It is taken
        # of each mechanism by itself, like the error, so that one does not hold another
        size = np.einsum("nkk->nk", np.linalg.solve(M, A)) @ together
        size = np.where(size > 0, size, 1.0)  # nothing moves the rows: stay
        error = 0.5 * (g * g) @ its_rows
        weight = np.sqrt(size * np.maximum(mu[:, None] * error, _FLOOR))
        damping = weight[:, :, None] * weight[:, None, :] * M
        d = bounded_steps(A + damping, slope, *chart.bounds(q))
        promised = -np.einsum("nk,nk->n", slope, d) - 0.5 * np.einsum("nk,nkl,nl->n", d, A, d)
        moved = chart.move(q, d)
        new_g, new_G, new_met = _state(rows, chart, moved, tolerance)
        gain = cost - 0.5 * (new_g * new_g).sum(axis=-1)
        ratio = gain / np.maximum(promised, 1e-300)
        taken = ((ratio > 1e-3) & (gain > 0)) | new_met
        change = np.where(ratio > 0.75, 0.2, np.where(ratio > 0.25, 1.0, 3.0))
        mu = np.maximum(mu * np.where(taken, change, 10.0), _MU_RANGE[0])
        idle = (promised <= _STALLED * cost) & (mu * cost <= 1e-2) & ~new_met
        mu = np.where(idle, np.inf, mu)
        keep = taken[:, None]
        q, g = np.where(keep, moved, q), np.where(keep, new_g, g)
        G, met = np.where(keep[..., None], new_G, G), np.where(taken, new_met, False)
    return best, closed


def _apart(rows: ClosureRows, chart: Chart, q: Array) -> Array:
    """q, moved a little where the two points of a distance coincide and pull in no direction."""
    _, found = rows.residual(q, rows.poses(q))
    stuck = rows.without_direction(found)
    if not stuck.any():
        return q
    step = _NUDGE * np.cos(np.arange(1.0, len(chart.columns) + 1))  # without a pattern
    lower, upper = chart.bounds(q)
    return np.where(stuck[:, None], chart.move(q, np.clip(step, lower, upper)), q)


def _state(
    rows: ClosureRows, chart: Chart, q: Array, tolerance: float
) -> tuple[Array, Array, Array]:
    """Strict residuals, their slopes along the coordinates of a step, and whether they vanish."""
    g, G, gap = strict_rows(rows, q)
    return g, chart.slopes(q, G), gap <= tolerance


def close_loops(
    q: Array,
    state: Callable[[Array], Any],
    correct: Callable[[Any, Array], Array],
    move: Callable[[Array, Array], Array],
    tolerance: float,
    iterations: int,
) -> tuple[Array, Array, Any]:
    """Newton's method onto the constraints: configurations (n, nq), whether they are closed (n,).

    ``state(q)`` is what is known at q, with the `residual` (n, rows), and is returned last;
    ``correct(state, taken)`` are the steps (n, nv) of those that still move, ``move(q, step)``
    makes them. After a residual within the tolerance comes one step more: it squares the error.
    """
    at = state(q)
    last = np.zeros(len(q), dtype=bool)
    error = np.abs(at.residual).max(axis=-1, initial=0.0)
    for _ in range(iterations):
        taken = ~(last | (error <= _ROUNDING))
        if not taken.any():
            break
        last = error <= tolerance
        q = np.where(taken[:, None], move(q, correct(at, taken)), q)
        at = state(q)
        error = np.abs(at.residual).max(axis=-1, initial=0.0)
    return q, error <= tolerance, at


def project_position(
    rows: ClosureRows,
    q: Array,
    tolerance: float,
    rank: int | None = None,
    iterations: int = 25,
    moving: Array | None = None,
) -> tuple[Array, Array, ConstraintMetric]:
    """Nearest configurations (n, nq) in the mass metric with g = 0, to first order; whether found.

    Newton's method, dq = −ℳ⁻¹ G* (S + λ)⁻¹ g, λ being the square of the gap in natural size: it
    vanishes with the error and keeps directions out that only the drift makes look independent
    (theory/closed-chains 6). Rows that bind rates only ask for no step: wheels roll while the loops
    close. `moving` are the rates that may change; the other joints stay where they are.
    """
    return close_loops(
        np.array(q, dtype=np.float64),
        lambda q: ConstraintMetric(rows, q, RANK, rank, rates_used=moving),
        lambda at, _: at.spread(at.solve(-at.residual, at.gap**2)),
        rows.model.integrate,
        tolerance,
        iterations,
    )


def project_velocity(at: ConstraintMetric, v: Array) -> Array:
    """v − ℳ⁻¹ G* S⁺ (G v − rates): the admissible rates (n, nv) nearest in kinetic energy."""
    return v + at.spread(at.solve(at.rows.rates - np.einsum("nrv,nv->nr", at.whole, v)))
