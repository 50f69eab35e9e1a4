"""Forces of rows that depend on each other: the least ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.contact.cone_problem import ConeProblem, ConeSolution
from phipsi.contact.cone_solver import solve

Array = NDArray[Any]

RANK = 1e-11
"""Singular values of W, relative to the largest, below which rows depend on others."""
TOLERANCE = 1e-13


def solved_forces(problem: ConeProblem, start: Array) -> ConeSolution:
    """The solution of a problem; of dry friction alone, with a stop that is open beside it."""
    if problem.layout.n_heads:
        return solve(problem, start, tolerance=TOLERANCE)
    n = problem.layout.n_rows
    W = np.eye(n + 1)
    W[1:, 1:] = problem.W
    layout = replace(problem.layout, stops=1)
    b, c = (np.concatenate([[1.0], x]) for x in (problem.b, problem.coefficients))
    more = ConeProblem(layout, W, b, np.zeros(1), c)
    found = solve(more, np.append(0.0, start), tolerance=TOLERANCE)
    return replace(found, p=found.p[1:])


def least(A: Array, b: Array) -> Array:
    """The least solution of A x = b."""
    return np.linalg.lstsq(A, b, rcond=RANK)[0]
