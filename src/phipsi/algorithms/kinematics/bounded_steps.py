"""The quadratic problem of a step between bounds, written once for arrays and for machine code.

Inverse kinematics and assembly search with it, many configurations at once.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.core.machine import ArrayMachine, Index, Machine, Mask, Memory, Number, Pair

Array = NDArray[Any]

BLOCK_ROUNDS = 6  # rounds in which all wrong coordinates change sides together
ROUNDING = 1e-12  # multipliers and overshoots below this part of the largest are rounding


@final
class BoundedStep:
    """Minimises ½ d* (A + λ) d + g* d over lower ≤ d ≤ upper.

    Block principal pivoting: solve with the coordinates in the active set held at their bounds,
    move every coordinate that violates its bound into the set and release every one whose
    multiplier pulls it inwards, until none is left. Changing all at once nearly always ends after
    two or three rounds but may cycle, so after a few rounds only the last wrong coordinate changes,
    which ends for positive definite A.

    **Source:** Júdice and Pires 1994, Computers & Operations Research 21; Murty 1974.
    """

    def __init__(self, m: Machine, n: int) -> None:
        self._m, self._n = m, n
        self._side = m.array(n)  # −1 at the lower bound, +1 at the upper, 0 free
        self._left, self._noise = m.array(), m.array()
        self._held, self._step, self._sides = (m.array(n, kept=False) for _ in range(3))
        self._L = m.array(n, n, kept=False)

    def solve(
        self, A: Memory, damping: Memory, g: Memory, lower: Memory, upper: Memory, d: Memory
    ) -> None:
        """Store the minimum in d, for `A` (n, n) with λ = `damping` added to its diagonal."""
        m, n = self._m, self._n
        self._noise.value = m.largest(0, n, lambda i: m.abs(g[i])) * ROUNDING
        self._left.value = 1.0

        @m.each(0, n)
        def _(i: Index) -> None:
            self._side[i] = 0.0

        @m.while_any(lambda: self._left.value > 0.0, BLOCK_ROUNDS + 4 * n)
        def _(turn: Index) -> None:
            self._solve_with_held(A, damping, g, lower, upper)
            m.copy(n, self._step, d)
            self._find_sides(A, damping, g, lower, upper)
            self._change_sides(m.at_least(turn, BLOCK_ROUNDS))

        @m.each(0, n)
        def _(i: Index) -> None:
            d[i] = m.smaller(upper[i], m.larger(lower[i], d[i]))

    def _is_free(self, i: Index) -> Mask:
        return self._m.equal(self._side[i], 0.0)

    def _solve_with_held(
        self, A: Memory, damping: Memory, g: Memory, lower: Memory, upper: Memory
    ) -> None:
        """The step with the coordinates of the active set held at their bounds."""
        m, n, held, step = self._m, self._n, self._held, self._step

        @m.each(0, n)
        def _(i: Index) -> None:
            side = self._side[i]
            low = m.where(side < 0.0, lower[i], 0.0)
            held[i] = m.where(side > 0.0, upper[i], low)

        @m.each(0, n)
        def _(i: Index) -> None:
            push = -g[i] - m.total(0, n, lambda j: (A[i, j], held[j]))
            step[i] = m.where(self._is_free(i), push, 0.0)

        # A held coordinate keeps a row of its own, so that the matrix stays regular.
        def between(i: Index, j: Index) -> Number:
            return m.where(self._is_free(i) & self._is_free(j), A[i, j], 0.0)

        def own(i: Index, _: Index) -> Number:
            return m.where(self._is_free(i), A[i, i] + damping.value, 1.0)

        m.solve_positive(n, between, own, self._L, step)

        @m.each(0, n)
        def _(i: Index) -> None:
            step[i] = m.where(self._is_free(i), step[i], held[i])

    def _find_sides(
        self, A: Memory, damping: Memory, g: Memory, lower: Memory, upper: Memory
    ) -> None:
        """On which side every coordinate should be, judged by the present step."""
        m, n, step = self._m, self._n, self._step
        slack = m.largest(0, n, lambda i: m.abs(step[i])) * ROUNDING
        noise = self._noise.value

        @m.each(0, n)
        def _(i: Index) -> None:
            def product(j: Index) -> Pair:
                return A[i, j], step[j]

            side, x = self._side[i], step[i]
            pull = m.total(0, n, product, damping.value * x) + g[i]
            above = m.where(x > upper[i] + slack, 1.0, 0.0)
            below = m.where(x < lower[i] - slack, 1.0, 0.0)
            kept = m.where(side * pull > noise, 0.0, side)
            self._sides[i] = m.where(m.equal(side, 0.0), above - below, kept)

    def _change_sides(self, single: Mask) -> None:
        """Change the sides that are wrong; where `single`, only the last of them (Murty's rule)."""
        m, n, side, other = self._m, self._n, self._side, self._sides

        def number(i: Index) -> Number:
            return m.where(m.equal(other[i], side[i]), 0.0, m.to_number(i + 1))

        last = m.largest(0, n, number)
        self._left.value = last

        @m.each(0, n)
        def _(i: Index) -> None:
            waits = single & (m.to_number(i + 1) < last)
            side[i] = m.where(waits, side[i], other[i])


def bounded_steps(A: Array, g: Array, lower: Array, upper: Array) -> Array:
    """Minimise ½ d* A d + g* d over lower ≤ d ≤ upper, for every element of a batch.

    **Arguments:** `A` (B, k, k), symmetric positive definite; `g` (B, k); `lower` ≤ 0 ≤ `upper`
    (B, k), ∓inf for none. **Returns:** d (B, k), within the bounds.
    **Cost:** one batched k×k solve per round, of the elements that are not done.

    >>> import numpy as np
    >>> from phipsi.algorithms.kinematics.bounded_steps import bounded_steps
    >>> A, g = np.array([[[2.0, 1.0], [1.0, 2.0]]]), np.array([[-3.0, -3.0]])
    >>> bounded_steps(A, g, np.array([[-9.0, -9.0]]), np.array([[0.5, 9.0]]))
    array([[0.5 , 1.25]])
    """
    count, k = g.shape
    if not count or not k:
        return np.zeros((count, k))
    m = ArrayMachine(count)
    matrix, slope, low, high = (m.input(np.asarray(x, float)) for x in (A, g, lower, upper))
    d = m.array(k)
    BoundedStep(m, k).solve(matrix, m.number(0.0), slope, low, high, d)
    return d.lanes_first()
