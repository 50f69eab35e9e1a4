"""Equations x = g(x) of implicit steps, written once for arrays and for machine code.

Fixed-point iteration first: it contracts by a factor of the order of the step length when the step
resolves the motion. The iteration ends when the error that is left, estimated from the last two
changes, is rounding. Sizes are squares of norms, which the caller chooses: kinetic energies where
momenta are at hand, because they know neither units nor how well the mass matrix is conditioned.

Where that does not contract (stiff forces), Newton's method from the guess, with a Jacobian from
differences. Its steps are so short that the next correction is less than this one; corrections are
compared with the same Jacobian, so that neither units nor stiffness matter (Deuflhard, Newton
Methods for Nonlinear Problems, 2004, ch. 3).

g stands in one place of the code, inside two loops: the first step of the outer one is the whole
fixed-point iteration, each other step is one of Newton's method, and where g is evaluated in it
follows from the number of the inner turn.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.core.machine import Index, Machine, Mask, Memory, Number, NumberMachine

ITERATIONS = 50
"""Most steps of the fixed-point iteration, while changes shrink."""
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

_MOST = 64  # unknowns of Newton's method, whose matrix grows with their square


@final
class FixedPoint:
    """The solution of x = g(x) in every lane.

    ``evaluate()`` stores g(x) in `image` and, for every measure, how much x has changed and how
    large it is in `measures`; it may fail. `x` (n,) holds the guess, and then the solution; lanes
    without one fail with `UNSOLVED`.
    """

    def __init__(
        self,
        m: Machine,
        x: Memory,
        image: Memory,
        measures: Memory,
        evaluate: Callable[[], None],
    ) -> None:
        self.m, self.x, self.image, self.measures, self.evaluate = m, x, image, measures, evaluate
        (n,), (kinds, _) = x.shape, measures.shape
        self.n, self.kinds = n, kinds
        self.w, self.residual, self.step = m.array(n), m.array(n), m.array(n)
        self.following = m.array(n, kept=False)
        self.matrix = m.array(n, 2 * n) if n <= _MOST else None
        self.before, self.at_w = m.array(kinds), m.array(kinds, 2)
        self.done, self.lost, self.taken, self.near = (m.array() for _ in range(4))
        self.over, self.part, self.most = m.array(), m.array(), m.array()

    def solve(self) -> None:
        """Both methods; a lane that is done is left alone while others go on."""
        m, n = self.m, self.n
        m.copy(n, self.x, self.w)
        self.done.value, self.over.value, self.taken.value = 0.0, 0.0, 0.0
        self.lost.value = 0.0
        self._forget_changes()

        @m.while_any(lambda: self.over.value < 1.0, 1 if self.matrix is None else 1 + NEWTON)
        def _(step: Index) -> None:
            first = m.same(step, 0)
            self.most.value = m.where(first, float(ITERATIONS), float(1 + n + TRIALS))

            @m.while_any(self._is_open, m.count(self.most.value))
            def _(slot: Index) -> None:
                self._evaluate(step, slot)

            @m.when(m.same(step, 0) & (self.done.value < 1.0))
            def _() -> None:  # Newton's method begins at the guess
                m.copy(n, self.w, self.x)
                self.lost.value, self.taken.value = 0.0, 1.0
                self._forget_changes()

            ends = (self.done.value > 0.0) | (self.lost.value > 0.0) | (self.taken.value < 1.0)
            m.raise_flag(self.over, ends)
            self.taken.value = 0.0

        m.fail(self.done.value < 1.0, UNSOLVED)

    def _is_open(self) -> Mask:
        """Lanes in which this step has not ended."""
        return (self.lost.value < 1.0) & (self.taken.value < 1.0)

    def _forget_changes(self) -> None:
        for k in range(self.kinds):
            self.before[k] = math.inf

    def _evaluate(self, step: Index, slot: Index) -> None:
        """One evaluation; in Newton's method at w, beside w for every column, along the step."""
        m = self.m
        newton = m.at_least(step, 1)
        known = m.at_least(step, 2) & m.same(slot, 0)  # the image at w, from the last trial

        @m.when(~known)
        def _() -> None:
            m.when(newton)(lambda: self._move(slot))
            # a failure where the iteration begins is one of the motion
            failed = m.attempt(self.evaluate, ~newton & m.same(slot, 0))
            m.when(~newton)(lambda: self._iterate(slot, failed))
            m.when(newton)(lambda: self._newton(slot, failed))

    # ---- the fixed-point iteration

    def _iterate(self, turn: Index, failed: Mask) -> None:
        """x becomes its image; `lost` are lanes that have converged, and those that will not."""
        m = self.m
        good, shrinks = m.always(), m.always()
        for k in range(self.kinds):
            change, size, last = self.measures[k, 0], self.measures[k, 1], self.before[k]
            ratio = change / last
            factor = m.where(ratio >= LEAST_FACTOR, ratio, LEAST_FACTOR)
            small, less = change * factor <= size * CONVERGED, change < last
            enough = small | (~less & (change <= size * STALLED))
            good, shrinks = good & enough, shrinks & (enough | less)
            self.before[k] = change
        m.copy(self.n, self.image, self.x)
        ends = good & ~failed
        m.raise_flag(self.done, ends)
        early = ~m.at_least(turn, 2)
        m.raise_flag(self.lost, ends | ~(early | shrinks) | failed)

    # ---- Newton's method

    def _move(self, slot: Index) -> None:
        """Where g is evaluated next: at w, beside one of its entries, or after a part of a step."""
        m, n, w = self.m, self.n, self.w
        self.part.value = m.where(m.same(slot, n + 1), 1.0, self.part.value * 0.5)
        change = m.largest(0, n, lambda i: m.abs(w[i]), LEAST) * DIFFERENCE
        part, is_trial = self.part.value, m.at_least(slot, n + 1)

        @m.each(0, n)
        def _(i: Index) -> None:
            aside = w[i] + m.where(m.same(i, slot - 1), change, 0.0)
            self.x[i] = m.where(is_trial, w[i] - part * self.step[i], aside)

    def _newton(self, slot: Index, failed: Mask) -> None:
        m, n = self.m, self.n
        m.raise_flag(self.lost, failed & ~m.at_least(slot, n + 1))

        @m.when(m.same(slot, 0))
        def _() -> None:
            self._store_residual(self.residual)
            self._remember()

        @m.when(m.at_least(slot, 1) & ~m.at_least(slot, n + 1))
        def _() -> None:
            self._store_column(slot - 1)

        @m.when(m.same(slot, n))
        def _() -> None:
            assert self.matrix is not None
            m.invert(n, self.matrix)
            self._choose_step()

        m.when(m.at_least(slot, n + 1))(lambda: self._judge(failed))

    def _store_residual(self, target: Memory) -> None:
        @self.m.each(0, self.n)
        def _(i: Index) -> None:
            target[i] = self.x[i] - self.image[i]

    def _store_column(self, j: Index) -> None:
        """A column of the derivative of x − g(x)."""
        assert self.matrix is not None
        matrix, change = self.matrix, self.x[j] - self.w[j]

        @self.m.each(0, self.n)
        def _(i: Index) -> None:
            matrix[i, j] = ((self.x[i] - self.image[i]) - self.residual[i]) / change

    def _correct(self, residual: Memory, target: Memory) -> None:
        """The inverse times a vector."""
        assert self.matrix is not None
        m, n, matrix = self.m, self.n, self.matrix

        @m.each(0, n)
        def _(i: Index) -> None:
            target[i] = m.total(0, n, lambda j: (matrix[i, j + n], residual[j]))

    def _square(self, x: Memory) -> Number:
        return self.m.total(0, self.n, lambda i: (x[i], x[i]))

    def _choose_step(self) -> None:
        """The correction; whether it is the last one."""
        m = self.m
        self._correct(self.residual, self.step)
        step, square = self._square(self.step), self._square(self.residual)
        nothing = m.equal(square, 0.0)
        ratio = m.where(nothing, 0.0, step / m.where(nothing, 1.0, square))
        exact, near, grows = m.always(), m.always(), ~m.always()
        for k in range(self.kinds):
            left, size = self.at_w[k, 0] * ratio, self.at_w[k, 1]
            exact, near = exact & (left <= size * EXACT), near & (left <= size * QUADRATIC)
            grows = grows | (left >= self.before[k])
            self.before[k] = left
        rounding = near & grows & ~exact

        @m.when(exact | rounding)
        def _() -> None:
            @m.each(0, self.n)
            def _(i: Index) -> None:
                self.x[i] = m.where(exact, self.w[i] - self.step[i], self.w[i])

            self.done.value = 1.0

        m.raise_flag(self.lost, exact | rounding | ~m.equal(step - step, 0.0))
        self.near.value = m.to_flag(near)

    def _judge(self, failed: Mask) -> None:
        """Take a part of the step, if the correction that follows is less."""
        m, n = self.m, self.n
        self._store_residual(self.following)
        m.copy(n, self.following, self.image)
        self._correct(self.image, self.following)
        left, least = self._square(self.following), 1.0 - self.part.value * 0.25
        less = (self.near.value > 0.0) | (left <= least * least * self._square(self.step))

        @m.when(m.equal(left - left, 0.0) & less & ~failed)
        def _() -> None:
            m.copy(n, self.x, self.w)
            m.copy(n, self.image, self.residual)
            self._remember()
            self.taken.value = 1.0

    def _remember(self) -> None:
        """The measures of the last evaluation are those at w."""
        for k in range(self.kinds):
            self.at_w[k, 0], self.at_w[k, 1] = self.measures[k, 0], self.measures[k, 1]


Array = NDArray[Any]
Image = Callable[[Array], tuple[Array, float, float]]
"""w → the new w, the size of its change, and its own size."""


def solve(image: Image, guess: Array) -> Array | None:
    """The fixed point of a function of one vector near a guess, or None."""
    m = NumberMachine()
    x, new, measures = m.input(guess), m.array(len(guess)), m.array(1, 2)

    def evaluate() -> None:
        found, change, size = image(x.as_array())
        new.fill(found)
        measures.fill((change, size))

    with np.errstate(all="ignore"):
        FixedPoint(m, x, new, measures, evaluate).solve()
    return None if m.status else x.as_array()
