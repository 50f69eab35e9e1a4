"""Forces that a motion does not determine: the least ones, and those farthest inside their cones.

Rows that depend on each other hold a body more than once, as points of one body do that stick
together. Their forces are f + Z y with any y, and the motion is the same. It can go on as long as
one of these is inside all cones:

    max t   over y, t   with   b_g − t w ≥ |F_g|,      b = b₀ + B y,   F = F₀ + D y

b_g what group g can bear, F_g its force per coefficient, w > 0 the largest of both. The largest t
is continuous in time, and zero where a slip begins; a body that is jammed has none, and t = 1 is
enough. It is found with the barrier of second-order cones by Newton's method, from t below all
slacks.

**Source:** theory/contact 4, 6.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.contact import ContactProblem, ContactSolution, solve

Array = NDArray[Any]

RANK = 1e-11
"""Singular values of W, relative to the largest, below which rows depend on others."""
TOLERANCE = 1e-13
_LAST, _SHRINK = 1e-13, 0.01
"""The last weight of the barrier, and how much less it is from one to the next."""
_NEWTON, _ENOUGH = 60, 0.1
"""How many steps for one weight, and the decrement that ends them."""


def solved_forces(problem: ContactProblem, start: Array) -> ContactSolution:
    """The solution of a problem; of dry friction alone, with a stop that is open beside it."""
    if problem.layout.n_heads:
        return solve(problem, start, tolerance=TOLERANCE)
    n = problem.layout.n_rows
    W = np.eye(n + 1)
    W[1:, 1:] = problem.W
    layout = replace(problem.layout, stops=1)
    b, c = (np.concatenate([[1.0], x]) for x in (problem.b, problem.coefficients))
    more = ContactProblem(layout, W, b, np.zeros(1), c)
    found = solve(more, np.append(0.0, start), tolerance=TOLERANCE)
    return replace(found, p=found.p[1:])


def least(A: Array, b: Array) -> Array:
    """The least solution of A x = b."""
    return np.linalg.lstsq(A, b, rcond=RANK)[0]


def farthest_inside(bound: Array, force: Array, by_bound: Array, by_force: Array) -> Array:
    """The y (m,) with the largest least slack; or one with w, as for a jam, which has no largest.

    **Arguments:** `bound` (g,) and `force` (g, d), b₀ and F₀ of the groups; `by_bound` (g, m) and
    `by_force` (g, d, m), B and D. **Cost:** some fifty systems of m + 1 unknowns.
    """
    g, m = by_bound.shape
    w = max(float(np.abs(bound).max()), float(np.abs(force).max()), 1e-300)
    # rows of the cones, (g, 1 + d, 1 + m): what t and y do to [b − t w; F]
    rows = np.zeros((g, 1 + force.shape[1], 1 + m))
    rows[:, 0, 0], rows[:, 0, 1:], rows[:, 1:, 1:] = -w, by_bound, by_force
    first = np.concatenate([bound[:, None], force], axis=1)
    rows, first = rows / w, first / w
    sign = np.ones(rows.shape[1])
    sign[1:] = -1.0
    x = np.zeros(1 + m)
    x[0] = (first[:, 0] - np.sqrt(np.sum(first[:, 1:] ** 2, axis=1))).min() - 1.0
    weight = 1.0
    while weight > _LAST:
        weight = max(weight * _SHRINK, _LAST)
        for _ in range(_NEWTON):
            z = first + rows @ x
            inside = z * sign
            s = np.einsum("gi,gi->g", z, inside)
            a = np.einsum("gi,gij->gj", inside, rows)
            gradient = -2.0 * weight * np.sum(a / s[:, None], axis=0)
            gradient[0] -= 1.0
            curve = 4.0 * np.einsum("gi,gj->ij", a / s[:, None], a / s[:, None])
            curve -= 2.0 * np.einsum("gki,k,gkj->ij", rows / s[:, None, None], sign, rows)
            step = -np.linalg.lstsq(weight * curve, gradient, rcond=1e-15)[0]
            size = float(np.sqrt(max(-gradient @ step / weight, 0.0)))
            x = x + step / (1.0 + size)
            if x[0] > 1.0:
                return x[1:]
            if size < _ENOUGH:
                break
    return x[1:]
