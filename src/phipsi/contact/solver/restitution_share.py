"""The largest share of restitution that creates no energy, by bisection.

Newton's law of restitution with friction can create energy. Then the restitution of all contacts is
reduced by one factor f: those of share f have s = calm + f (s − calm), and the impulses p obey
p*b + ½ p*W p ≤ 0.

**Source:** theory/contact 3 (K11).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from phipsi.contact.solver.scaled_problem import ProblemMemory, RowPattern, ScaledProblem
from phipsi.contact.solver.solver_schedule import SolverSchedule
from phipsi.core.machine import Index, Machine, Memory, Number

BISECTIONS, GAINED = 40, 1e-14
"""Of the share of restitution; a gain of energy beside its terms that is rounding."""

FOUND, SHARE, CALM, _START, _BEST, _FREE, _HEADS, _W = range(8)


def result_rows(rows: int) -> int:
    """How many rows of so many numbers the results have."""
    return _W + rows


def solve_rebounds(
    m: Machine, kinds: Sequence[RowPattern], given: ProblemMemory, tolerance: float
) -> None:
    """Solve a problem in memory, whose s has all restitution, with the largest share of it.

    The results are rows: `FOUND`, residual, iterations and status; `SHARE`, which begins with the
    share; `CALM`, given, has the s without restitution in the first rows of the contacts.
    """
    _Bisection(m, kinds, given, tolerance).run()


@final
class _Bisection:
    """Solutions with all of it first; then without any; then half way between."""

    def __init__(
        self, m: Machine, kinds: Sequence[RowPattern], given: ProblemMemory, tolerance: float
    ) -> None:
        self.m, self.given = m, given
        self.found, self.share, self.calm, self.start, self.best, self.free, self.heads = (
            given.results.row(i) for i in range(_W)
        )
        self.x = ScaledProblem(m, kinds, given._replace(results=m.array(3)))
        self.attempts = SolverSchedule(self.x, tolerance)
        self.gaining, self.low, self.high = (m.number() for _ in range(3))
        self.f, self.used = m.number(), m.number()

    def run(self) -> None:
        """All of it."""
        m, x = self.m, self.x

        @m.each(0, x.n)
        def _(i: Index) -> None:
            self.start[i], self.free[i] = x.y[i], x.free[i]
            self._copy_row(i, x.W.row(i), self._known(i))

        m.copy(x.k, x.s, self.heads)
        self.gaining.value = self.f.value = self.high.value = 1.0
        self.low.value = self.used.value = 0.0
        m.while_any(lambda: self.gaining.value > 0.0, BISECTIONS + 2)(self._once)
        self.found[1] = self.used.value
        m.copy(x.n, self.best, x.y)

    def _known(self, i: Index) -> Memory:
        """A row of W as it was given."""
        return self.given.results.row(_W + i)

    def _copy_row(self, i: Index, source: Memory, target: Memory) -> None:
        @self.m.each(*self.x.columns_of(i, 1))
        def _(j: Index) -> None:
            target[j] = source[j]

    def _once(self, turn: Index) -> None:
        """One solution, with the present share; and the next share."""
        m, x = self.m, self.x
        is_first, begins = ~m.at_least(turn, 1), ~m.at_least(turn, 2)

        @m.each(0, x.n)
        def _(i: Index) -> None:
            x.y[i] = m.where(begins, self.start[i], self.best[i])
            x.free[i] = self.free[i]
            self._copy_row(i, self._known(i), x.W.row(i))

        x.each_contact(self._restitution)
        self.attempts.run()
        f, gains = self.f.value, self.gain() > 0.0
        self.used.value = self.used.value + x.results[1]
        fine = ~gains & m.equal(x.results[2], 0.0)
        m.when(begins | fine)(self._keep)
        self.gaining.value = m.where(is_first, m.to_flag(gains), 1.0)

        @m.when(~begins)
        def _() -> None:
            self.low.value = m.where(fine, f, self.low.value)
            self.high.value = m.where(fine, self.high.value, f)

        middle = (self.low.value + self.high.value) * 0.5
        self.f.value = m.where(is_first, 0.0, middle)

    def _restitution(self, kind: RowPattern, i: Index, first: Index) -> None:
        """S of a contact with the present share."""
        if kind.has_head:
            calm = self.calm[first]
            self.x.s[i] = self.m.fma(self.f.value, self.heads[i] - calm, calm)

    def _keep(self) -> None:
        """This solution is the best."""
        m, x = self.m, self.x
        m.copy(x.n, x.y, self.best)
        self.found[0], self.found[2] = x.results[0], x.results[2]
        self.share[0] = self.f.value

    def gain(self) -> Number:
        """p*b + ½ p*W p, less what is rounding."""
        m, x = self.m, self.x

        @m.each(0, x.n)
        def _(i: Index) -> None:
            known = self._known(i)
            x.new[i] = m.total(*x.columns_of(i, 1), lambda j: (known[j], x.y[j])) * 0.5

        def terms(i: Index) -> list[tuple[Number, Number]]:
            half, free, y = x.new[i], self.free[i], x.y[i]
            return [(y, free + half), (m.abs(y), m.abs(free) + m.abs(half))]

        total, size = m.sums(0, x.n, terms, [0.0, 0.0])
        return total - size * GAINED
