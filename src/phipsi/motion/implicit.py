"""Equations w = image(w) of implicit steps.

Fixed-point iteration first: it contracts by a factor of the order of the step length when the step
resolves the motion. The iteration ends when the error that is left, estimated from the last two
changes, is rounding. Sizes are squares of norms, which the caller chooses: kinetic energies where
momenta are at hand, because they know neither units nor how well the mass matrix is conditioned.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Image = Callable[[Array], tuple[Array, float, float]]
"""w → the new w, the size of its change, and its own size."""

ITERATIONS = 50
"""Of the fixed-point iteration in machine code, which has no Newton step."""
CONVERGED = 1e-32
"""Largest error that may be left: the last change, times by how much it is less than the one before
it, or `LEAST_FACTOR` if that is less; all of them squares."""
LEAST_FACTOR = 1e-4
STALLED = 1e-20
"""Largest change that may be rounding, when changes no longer shrink; a square."""
UNSOLVED = 15
"""Status of a step whose equation was not solved: a number that neither kernels nor loops use."""

_BEFORE_NEWTON, _SLOW = 12, 0.5
# Newton's method: how often, and the last change (no square) that may be followed by rounding only
_NEWTON, _QUADRATIC = 8, 1e-9


def solve(image: Image, guess: Array) -> Array | None:
    """The fixed point of `image` near `guess`, or None.

    Where the iteration contracts slowly or not at all (stiff forces), by Newton's method with a
    Jacobian from differences.
    """
    w, before = guess, math.inf
    for _ in range(_BEFORE_NEWTON):
        w, change, size = image(w)
        if change * max(change / before, LEAST_FACTOR) <= CONVERGED * size:
            return w
        if not change < _SLOW * before:  # no contraction, or rounding is reached
            if change <= STALLED * size:
                return w
            break
        before = change
    return _newton(image, w if np.isfinite(w).all() else guess)


def _newton(image: Image, w: Array) -> Array | None:
    before = math.inf
    for _ in range(_NEWTON):
        residual = w - image(w)[0]
        if not np.isfinite(residual).all():
            return None
        jacobian = np.eye(len(w))
        size = max(largest(w), 1e-6)
        for j in range(len(w)):
            moved = w.copy()
            moved[j] += 1e-7 * size
            jacobian[:, j] = ((moved - image(moved)[0]) - residual) / (moved[j] - w[j])
        try:
            change = np.linalg.solve(jacobian, residual)
        except np.linalg.LinAlgError:
            return None
        w = w - change
        if largest(change) <= 1e-14 * largest(w):
            return w
        if largest(change) >= before:
            break
        before = largest(change)
    return w if before <= _QUADRATIC * largest(w) else None


def largest(values: Any) -> float:
    """The largest absolute value."""
    return float(np.abs(values).max(initial=0.0))
