"""In which order a contact problem is tried: Newton's method, interior point, convex problems.

`SCHEDULE` is the order. A problem goes through it until the residual is small enough; one that is
left after the last attempt is unsolved.

**Source:** theory/contact 5, 7.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, final

import numpy as np

from phipsi.contact.solver.contact_problem import ACCEPTED, NOT_FINITE, SOLVED, UNSOLVED
from phipsi.contact.solver.interior_point import InteriorPoint
from phipsi.contact.solver.newton import (
    FREE_ITERATIONS,
    ITERATIONS,
    POLISHED,
    POLISHING,
    PROXIMAL,
    Newton,
)
from phipsi.contact.solver.scaled_problem import ProblemMemory, RowPattern, ScaledProblem
from phipsi.core.machine import Index, Machine, Mask, Memory

STARTS = (1.0, 1e5, 30.0, 3.0, 1000.0, 0.1)
"""Sizes of first points that are tried one after the other: heavy bodies on light ones need large
ones."""
CONVEX_ROUNDS = 8
"""Convex problems that are solved one after the other."""
CONVEX_START = 1000.0
"""Size of their first points. From points of size 1, the interior point may end short of the
solution where a light body is between heavy ones, and rounds converge to what is none."""
FREE_STEPS = (1e-8, 1e-9, 1e-10, 1e-7, 1e-8, 1e-9, 1e-6, 1e-7)
"""ε of attempts with full steps, each from the best point so far."""


class SolverStage(NamedTuple):
    """How a problem is tried: by Newton's method with ε, or by the interior point.

    `size` of the first point of the interior point, 0 for Newton's method alone; it polishes what
    the interior point finds, or with `again` the best point so far. `is_convex`, of a convex
    problem. `is_free`, with full steps of Newton's method only, from the best point.
    """

    size: float = 0.0
    eps: float = POLISHED
    is_convex: bool = False
    again: bool = False
    is_free: bool = False

    @property
    def is_refinement(self) -> bool:
        """Whether Newton's method begins near a solution."""
        return self.size > 0 or self.again


SCHEDULE = (
    SolverStage(eps=PROXIMAL),
    SolverStage(STARTS[0]),
    SolverStage(eps=1e-11),  # from no impulses
    SolverStage(STARTS[1]),
    SolverStage(eps=1e-9, again=True),
    SolverStage(eps=1e-11, again=True),
    *[SolverStage(CONVEX_START, is_convex=True)] * CONVEX_ROUNDS,
    *map(SolverStage, STARTS[2:]),
    SolverStage(eps=1e-10, again=True),
    *(SolverStage(eps=x, again=True, is_free=True) for x in FREE_STEPS),
)


def solve_cones(
    m: Machine, kinds: Sequence[RowPattern], given: ProblemMemory, tolerance: float
) -> None:
    """Solve a problem in memory: y is the start and becomes the impulses.

    Results are residual, iterations and status. W, b and s are changed.
    """
    SolverSchedule(ScaledProblem(m, kinds, given), tolerance).run()


@final
class SolverSchedule:
    """Attempts one after the other, in the order of `SCHEDULE`."""

    def __init__(self, x: ScaledProblem, tolerance: float) -> None:
        self.x, self.m, self.tolerance = x, x.m, tolerance
        self.kept_y, self.best_y = x.vector(), x.vector()
        self.newton, self.interior = Newton(x, tolerance), InteriorPoint(x)
        self.todo, self.began, self.known, self.error = (x.m.number() for _ in range(4))

    def run(self) -> None:
        """All of it."""
        m, x = self.m, self.x
        x.scale_problem()
        self.newton.count.value = 0.0
        self.todo.value = self.began.value = 1.0
        self.sizes, self.eps = self.table(lambda a: a.size), self.table(lambda a: a.eps)
        self.again, self.free = self.table(lambda a: a.again), self.table(lambda a: a.is_free)
        self.most = self.table(_most)
        self.convex = m.constants(np.array([_convex_number(i) for i in range(len(SCHEDULE))]))
        x.results[0] = math.inf

        @m.each(0, x.n)
        def _(i: Index) -> None:
            self.best_y[i] = 0.0

        m.while_any(lambda: self.todo.value > 0.0, len(SCHEDULE))(self._attempt)
        x.results[1] = self.newton.count.value
        status = m.where(self.todo.value > 0.0, float(UNSOLVED), float(SOLVED))
        x.results[2] = m.where(self.began.value > 0.0, status, float(NOT_FINITE))

        @m.each(0, x.n)
        def _(i: Index) -> None:  # x + 0 has no negative zeros
            x.y[i] = m.fma(self.best_y[i], x.sigma[i], 0.0)

    def table(self, entry: Callable[[SolverStage], float]) -> Memory:
        """A number of each attempt."""
        return self.m.constants(np.array([float(entry(x)) for x in SCHEDULE]))

    def _attempt(self, turn: Index) -> None:
        """Inside the cones, then Newton's method; or from no impulses, or the best so far."""
        m, x, newton = self.m, self.x, self.newton
        is_first = ~m.at_least(turn, 1)
        is_inside = self.sizes[turn] > 0.0
        is_again = self.again[turn] > 0.0
        self.known.value = 0.0

        @m.when(~(is_first | is_inside))
        def _() -> None:
            @m.each(0, x.n)
            def _(i: Index) -> None:
                x.y[i] = m.where(is_again, self.best_y[i], 0.0)

        m.when(is_inside)(lambda: self._go_inside(turn))
        kept = m.to_flag(is_inside | is_again)
        newton.iterate(self.most[turn], self.eps[turn], kept, self.free[turn])

        @m.when(is_first)
        def _() -> None:
            self.began.value = newton.good.value

        done = self._keep_best()
        self.todo.value = m.to_flag((self.began.value > 0.0) & ~done)

    def _go_inside(self, turn: Index) -> None:
        """An interior point, of a convex problem or of the problem itself; its y is kept."""
        m, x, inside = self.m, self.x, self.interior
        convex = self.convex[turn]

        @m.when(convex >= 0.0)
        def _() -> None:
            x.multiply(self.kept_y)  # not the polished one
            inside.sliding.hold(convex)

        m.when(convex < 0.0)(inside.sliding.set_sliding)
        inside.iterate(self.sizes[turn], self.newton.count)
        x.multiply(x.y)
        self.known.value = m.to_flag(self._judged())
        self.error.value = x.found.value
        m.copy(x.n, x.y, self.kept_y)

    def _judged(self) -> Mask:
        """Move y, whose z is known, onto the cones; where it is a solution then."""
        m, x = self.m, self.x
        changed = x.move_inside()
        m.copy(x.n, x.new, x.y)
        m.when(changed)(lambda: x.multiply(x.y))
        x.residual(x.y)
        return x.found.value <= x.limit(max(self.tolerance, ACCEPTED))

    def _keep_best(self) -> Mask:
        """The best y and its residual; where this one, or that inside the cones, is a solution."""
        m, x = self.m, self.x
        good = self._judged()
        before = (self.known.value > 0.0) & ~good  # Newton has lost it
        m.when(before)(lambda: m.copy(x.n, self.kept_y, x.y))
        found = m.where(before, self.error.value, x.found.value)
        old = x.results[0]
        better = ~(found >= old)
        x.results[0] = m.where(better, found, old)
        m.when(better)(lambda: m.copy(x.n, x.y, self.best_y))
        return good | before


def _most(attempt: SolverStage) -> int:
    """Iterations of Newton's method."""
    if not attempt.is_refinement:
        return ITERATIONS
    return FREE_ITERATIONS if attempt.is_free else POLISHING


def _convex_number(number: int) -> float:
    """How many convex problems there are before an attempt; −1 if it is none."""
    before = sum(x.is_convex for x in SCHEDULE[:number])
    return float(before if SCHEDULE[number].is_convex else -1)
