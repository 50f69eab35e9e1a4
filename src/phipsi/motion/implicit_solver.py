"""Equations w = image(w) of implicit steps.

Fixed-point iteration first: it contracts by a factor of the order of the step length when the step
resolves the motion. The iteration ends when the error that is left, estimated from the last two
changes, is rounding. Sizes are squares of norms, which the caller chooses: kinetic energies where
momenta are at hand, because they know neither units nor how well the mass matrix is conditioned.

Where that does not contract (stiff forces), Newton's method from the guess, with a Jacobian from
differences. Its steps are so short that the next correction is less than this one; corrections are
compared with the same Jacobian, so that neither units nor stiffness matter (Deuflhard, Newton
Methods for Nonlinear Problems, 2004, ch. 3).
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
"""Most steps of the fixed-point iteration in machine code, while changes shrink."""
CONVERGED = 1e-32
"""Largest error that may be left: the last change, times by how much it is less than the one before
it, or `LEAST_FACTOR` if that is less; all of them squares."""
LEAST_FACTOR = 1e-4
STALLED = 1e-20
"""Largest change that may be rounding, when changes no longer shrink; a square."""
UNSOLVED = 15
"""Status of a step whose equation was not solved: a number that neither kernels nor loops use."""

NEWTON = 40
"""Most steps of Newton's method."""
TRIALS = 24
"""Times that one of its steps is halved."""
DIFFERENCE, LEAST = 1e-7, 1e-6
"""Of the derivatives: the difference beside the largest rate, and the least that this one is."""
EXACT, QUADRATIC = 1e-28, 1e-18
"""Last change that needs no further one, and that only rounding may follow; both squares."""

_BEFORE_NEWTON, _SLOW = 12, 0.5


def solve(image: Image, guess: Array) -> Array | None:
    """The fixed point of `image` near `guess`, or None."""
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
    return newton(image, guess)


def newton(image: Image, w: Array) -> Array | None:
    """The same by Newton's method."""
    new, change, size = image(w)
    residual, before = w - new, math.inf
    for _ in range(NEWTON):
        inverse = _inverse(image, w, residual)
        if inverse is None:
            return None
        step, square = inverse @ residual, float(residual @ residual)
        left = change * float(step @ step) / square if square else 0.0
        if left <= EXACT * size:
            return w - step
        is_near = left <= QUADRATIC * size
        if is_near and left >= before:  # rounding
            return w
        before, part = left, 1.0
        for _ in range(TRIALS):
            trial = w - part * step
            new, change, size = image(trial)
            residual = trial - new
            if np.isfinite(residual).all():
                following = inverse @ residual
                if is_near or following @ following <= (1 - part / 4) ** 2 * (step @ step):
                    break
            part /= 2
        else:
            return None
        w = trial
    return None


def _inverse(image: Image, w: Array, residual: Array) -> Array | None:
    """The inverse of the derivative of w − image(w), by differences; None if there is none."""
    if not np.isfinite(residual).all():
        return None
    out, change = np.empty((len(w), len(w))), DIFFERENCE * max(largest(w), LEAST)
    for j in range(len(w)):
        moved = w.copy()
        moved[j] += change
        out[:, j] = ((moved - image(moved)[0]) - residual) / (moved[j] - w[j])
    try:
        return np.linalg.inv(out) if np.isfinite(out).all() else None
    except np.linalg.LinAlgError:
        return None


def largest(values: Any) -> float:
    """The largest absolute value."""
    return float(np.abs(values).max(initial=0.0))
