"""Quadratic steps between bounds, many at once: the inner problem of inverse kinematics."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_BLOCK_ROUNDS = 6  # rounds in which all wrong coordinates change sides together
_ROUNDING = 1e-12  # multipliers and overshoots below this part of the largest are rounding


def bounded_steps(A: Array, g: Array, lower: Array, upper: Array) -> Array:
    """Minimise ½ d* A d + g* d over lower ≤ d ≤ upper, for every element of a batch.

    Block principal pivoting: solve with the coordinates in the active set held at their bounds,
    move every coordinate that violates its bound into the set and release every one whose
    multiplier A d + g pulls it inwards, until none is left. Changing all at once nearly always ends
    after two or three rounds but may cycle, so after a few rounds only the last wrong coordinate
    changes, which ends for positive definite A.

    **Arguments:** `A` (B, k, k), symmetric positive definite; `g` (B, k); `lower` ≤ 0 ≤ `upper`
    (B, k), ∓inf for none. **Returns:** d (B, k), within the bounds.
    **Cost:** one batched k×k solve per round, of the elements that are not done.
    **Source:** Júdice and Pires 1994, Computers & Operations Research 21; Murty 1974.

    >>> import numpy as np
    >>> from phipsi.algorithms.kinematics.bounded_steps import bounded_steps
    >>> A, g = np.array([[[2.0, 1.0], [1.0, 2.0]]]), np.array([[-3.0, -3.0]])
    >>> bounded_steps(A, g, np.array([[-9.0, -9.0]]), np.array([[0.5, 9.0]]))
    array([[0.5 , 1.25]])
    """
    count, k = g.shape
    side = np.zeros((count, k), dtype=np.int8)  # −1 at the lower bound, +1 at the upper, 0 free
    d = np.zeros((count, k))
    left = np.arange(count)
    for turn in range(_BLOCK_ROUNDS + 4 * k):
        low, high, at = lower[left], upper[left], side[left]
        held = np.where(at < 0, low, np.where(at > 0, high, 0.0))
        step = _with_held(A[left], g[left], held, at != 0)
        pull = np.einsum("bij,bj->bi", A[left], step) + g[left]
        slack = _ROUNDING * np.abs(step).max(axis=-1, keepdims=True)
        noise = _ROUNDING * np.abs(g[left]).max(axis=-1, keepdims=True)
        over = np.where(
            at == 0,
            (step > high + slack).astype(np.int8) - (step < low - slack).astype(np.int8),
            np.where(at * pull > noise, np.int8(0), at),
        )
        wrong = over != at
        if turn >= _BLOCK_ROUNDS:  # Murty's rule: only the last one
            last = k - 1 - np.argmax(wrong[:, ::-1], axis=-1)
            wrong &= np.arange(k) == last[:, None]
        d[left] = step
        side[left] = np.where(wrong, over, at)
        left = left[wrong.any(axis=-1)]
        if not left.size:
            break
    return np.clip(d, lower, upper)


def _with_held(A: Array, g: Array, held: Array, is_held: Array) -> Array:
    """Solve A d = −g in the free coordinates, the others being held."""
    push = -g - np.einsum("bij,bj->bi", A, held)
    free = ~is_held
    both = free[:, :, None] & free[:, None, :]
    system = np.where(both, A, 0.0)
    k = g.shape[-1]
    # A held coordinate keeps a row of its own with the size of A, so that the matrix stays regular.
    system[:, np.arange(k), np.arange(k)] = np.where(free, np.einsum("bii->bi", A), 1.0)
    d = np.linalg.solve(system, np.where(free, push, 0.0)[..., None])[..., 0]
    return np.where(free, d, held)
