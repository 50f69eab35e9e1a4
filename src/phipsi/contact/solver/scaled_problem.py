"""Contact problems in memory of a machine: scaled, with their cones and residuals.

Lanes are problems that have the same contacts; a contact that a lane does not have adds zeros to
its sums, so that the result of a lane is bitwise identical in any company. Rows of a contact follow
each other, the normal first.

**Source:** theory/contact 5.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

from phipsi.contact.solver.contact_problem import INACTIVE, ROUNDING, ROWS
from phipsi.core.machine import BLOCK, Index, Machine, Mask, Memory, Number, Words


class RowPattern(NamedTuple):
    """Rows of a contact in the order of elimination, as letters of `ROWS`; its groups of rows."""

    letters: str
    groups: tuple[tuple[int, ...], ...]

    @property
    def has_head(self) -> bool:
        """Whether the first row is a normal."""
        return self.letters[0] == "n"


KINDS = {
    "normal": RowPattern("n", ()),
    "point": RowPattern("n12", ((1, 2),)),
    "torsion": RowPattern("ns12", ((1, 2, 3),)),
    "rolling": RowPattern("ns12ab", ((1, 2, 3), (4, 5))),
    "limit": RowPattern("l", ((0,),)),
}


def order_of(kind: RowPattern) -> list[int]:
    """Where the rows of a contact are in its layout, in the order of elimination."""
    layout = next((x for x in ROWS.values() if sorted(x) == sorted(kind.letters)), kind.letters)
    return [layout.index(x) for x in kind.letters]


R, INVERSE, DEPTH, OWN, C, CLOSED, FOUND, GROUPS = range(8)
"""Numbers kept of every contact: r, 1/r, D, 1/D, c, whether it is closed, a term of a sum; for
Newton's method `PER_GROUP` of each group; for the interior point nine from `HEAD` on."""
PER_GROUP = 3
HEAD = GROUPS + 2 * PER_GROUP
PER_CONTACT = HEAD + 9
VECTORS = 18
"""Most arrays with a number for each row."""


def padded(rows: int) -> int:
    """The next multiple of `BLOCK`."""
    return -(-rows // BLOCK) * BLOCK


def work_size(rows: int, contacts: int) -> int:
    """How many numbers of every lane a method works with, for at most so many rows."""
    return rows * (rows + 1) + VECTORS * rows + PER_CONTACT * contacts


class ProblemMemory(NamedTuple):
    """A contact problem in memory, all of which may be changed.

    **Attributes:** W (n, n), `free` (b), `mu`, the coefficients, y (n,), s (k,); `results`, what
    else is found; k, the contacts, and n, their rows, a multiple of `BLOCK`; `contacts`, two words
    of each, its kind and its first row; `lows` and `ends`, words of each block of rows, between
    which W is known, and zero elsewhere.
    """

    W: Memory
    free: Memory
    s: Memory
    mu: Memory
    y: Memory
    results: Memory
    k: Index
    n: Index
    contacts: Words
    lows: Words
    ends: Words


@final
class ScaledProblem:
    """A problem in memory, and what both methods do with it.

    **Attributes:** those of `ProblemMemory`; `z` = W y + b; `sigma`; `J`, a matrix of equations and
    their right side; `d`, `new` and `sizes`, vectors to work with; `of`, the numbers of contacts;
    `eps`, the mean of the diagonal of W; `scale`, the largest |W| |y| + |b|; `found`, the residual.
    """

    def __init__(self, m: Machine, kinds: Sequence[RowPattern], given: ProblemMemory) -> None:
        self.m, self.kinds = m, kinds
        self.W, self.free, self.s, self.mu, self.y, self.results, self.k, self.n = given[:8]
        self.contacts, self.lows, self.ends = given[8:]
        self.J = m.array(self.n, self.n + 1, kept=False)
        self.of = m.array(self.k, PER_CONTACT)
        self._vectors = 0
        self.z, self.sigma, self.new = (self.vector() for _ in range(3))
        self.d, self.sizes = (self.vector(kept=False) for _ in range(2))
        self.eps, self.scale, self.found = (m.number() for _ in range(3))

    def vector(self, *, kept: bool = True) -> Memory:
        """Memory for a number of each row."""
        self._vectors += 1
        assert self._vectors <= VECTORS, "more arrays than `work_size` has room for"
        return self.m.array(self.n, kept=kept)

    # ---- contacts

    def each_contact(self, body: Callable[[RowPattern, Index, Index], None]) -> None:
        """For every contact, in any order: body(kind, its number, its first row)."""
        each = self.m.each_case(self.k, len(self.kinds), self.contacts)
        each(lambda case, i, first: body(self.kinds[case], i, first))

    def in_last_block(self, body: Callable[[Index], None]) -> None:
        """For every row of the last block, where rows beyond those of contacts are."""
        there = self.m.at_least(self.n, BLOCK)
        self.m.when(there)(lambda: self.m.each(self.n - BLOCK, self.n)(body))

    def rows(self, x: Memory, first: Index, rows: Sequence[int]) -> list[Number]:
        """Numbers of rows of a contact."""
        return [x[first + t] for t in rows]

    def total(self, slot: int) -> Number:
        """The sum of a number of the contacts."""
        return self.m.total(0, self.k, lambda i: (self.of[i, slot], 1.0))

    def largest(self, slot: int) -> Number:
        """The largest of a number of the contacts that is not negative."""
        return self.m.largest(0, self.k, lambda i: self.of[i, slot])

    def larger(self, x: Number, y: Number | float) -> Number:
        """The larger number; not a number where x is not."""
        return self.m.where(x <= y, y, x)

    def length(self, x: Sequence[Number]) -> Number:
        """|x|."""
        total = x[0] * x[0]
        for y in x[1:]:
            total = self.m.fma(y, y, total)
        return self.m.sqrt(total)

    def columns_of(self, first: Index, count: int) -> tuple[Index, Index]:
        """The columns of rows in which W may not be zero, from blocks to blocks."""
        return self.lows[first // BLOCK], self.ends[(first + (count - 1)) // BLOCK]

    # ---- scaling

    def scale_problem(self) -> None:
        """Round groups, and steps of projections."""
        m, sigma = self.m, self.sigma

        @m.each(0, self.n)
        def _(i: Index) -> None:
            sigma[i] = 0.0
            self.sizes[i] = 0.0

        self.each_contact(self._scales)

        @m.when(m.largest(0, self.n, lambda i: self.sizes[i]) > 0.0)
        def _() -> None:
            @m.each(0, self.n)
            def _(i: Index) -> None:
                mine, row = sigma[i], self.W.row(i)

                @m.each(*self.columns_of(i, 1))
                def _(j: Index) -> None:
                    row[j] = row[j] * (mine * sigma[j])

        @m.each(0, self.n)
        def _(i: Index) -> None:
            mine = sigma[i]
            self.free[i] = self.free[i] * mine
            there = mine > 0.0
            y = self.y[i] / m.where(there, mine, 1.0)
            self.y[i] = m.where(there & (m.abs(y) < math.inf), y, 0.0)

        self.each_contact(self._steps)
        eps = self.total(GROUPS) / self.larger(self.total(GROUPS + 1), 1.0)
        self.eps.value = m.where(eps > 0.0, eps, 1.0)

    def _scales(self, kind: RowPattern, i: Index, first: Index) -> None:
        """Sigma of the rows; where it is not one, `sizes` is."""
        m = self.m
        there: Mask | None = None
        if kind.has_head:
            s = self.s[i]
            there = s < INACTIVE
            self.s[i] = m.where(there, s, 1.0)
            self.sigma[first] = m.to_flag(there)
            self.sizes[first] = m.to_flag(~there)
        for number, group in enumerate(kind.groups):
            mu = self.rows(self.mu, first, group)
            largest = mu[0]
            for x in mu[1:]:
                largest = self.larger(largest, x)
            if number == 0:
                self.of[i, C] = largest
            unit = m.where(largest > 0.0, largest, 1.0)
            for t, x in zip(group, mu, strict=True):
                scale: Number | float = 1.0
                if kind.has_head:
                    scale = x if number else x / unit
                scale = m.where(x > 0.0, scale, 0.0)
                if there is not None:
                    scale = m.where(there, scale, 0.0)
                self.sigma[first + t] = scale
                self.sizes[first + t] = m.to_flag((scale < 1.0) | (scale > 1.0))

    def _steps(self, kind: RowPattern, i: Index, first: Index) -> None:
        """The numbers of a contact; the diagonal of its rows that are there, and how many."""
        m, total = self.m, self.W[first, first]
        live = m.to_flag(self.sigma[first] > 0.0)
        own = m.where(total > 0.0, total, 1.0)
        self.of[i, DEPTH], self.of[i, OWN] = 1.0 / own, own
        for t in range(1, len(kind.letters)):
            row = first + t
            total = total + self.W[row, row]
            live = live + m.to_flag(self.sigma[row] > 0.0)
        self.of[i, GROUPS], self.of[i, GROUPS + 1] = total, live
        mean = total / self.larger(live, 1.0)
        mean = m.where(mean > 0.0, mean, 1.0)
        self.of[i, INVERSE], self.of[i, R] = mean, 1.0 / mean

    # ---- velocities and residuals

    def multiply(self, y: Memory) -> None:
        """z = W y + b, and the largest |W| |y| + |b|."""
        m = self.m

        @m.each(0, self.n, BLOCK)
        def _(i: Index) -> None:
            rows = [self.W.row(i + t) for t in range(BLOCK)]
            own = [self.free[i + t] for t in range(BLOCK)]

            def terms(j: Index) -> list[tuple[Number, Number]]:
                x, w = y[j], [row[j] for row in rows]
                size = m.abs(x)
                return [(v, x) for v in w] + [(m.abs(v), size) for v in w]

            found = m.sums(*self.columns_of(i, BLOCK), terms, own + [m.abs(x) for x in own])
            for t in range(BLOCK):
                self.z[i + t], self.sizes[i + t] = found[t], found[BLOCK + t]

        self.scale.value = m.largest(0, self.n, lambda i: self.sizes[i])

    def limit(self, tolerance: float) -> Number:
        """The residual that can be asked for."""
        return self.larger(self.scale.value * float(ROUNDING), tolerance)

    def residual(self, y: Memory) -> None:
        """The natural residual at y, whose z is known."""
        self.each_contact(lambda kind, i, first: self._residual(kind, i, first, y))
        self.found.value = self.m.sqrt(self.largest(FOUND))

    def _residual(self, kind: RowPattern, i: Index, first: Index, vector: Memory) -> None:
        m, D, every = self.m, self.of[i, DEPTH], range(len(kind.letters))
        y, z = self.rows(vector, first, every), self.rows(self.z, first, every)
        slopes = self.coefficients(kind, i)
        x = [y[t] - D * z[t] for t in every]
        if kind.has_head:
            w = z[0] + self.s[i]
            for c, group in zip(slopes, kind.groups, strict=True):
                w = m.fma(c, self.length([z[t] for t in group]), w)
            x[0] = y[0] - D * w
        off: Number | float = 0.0
        own = self.of[i, OWN]
        for a, p in zip(y, self.nearest(kind, slopes, x), strict=True):
            part = (a - p) * own
            off = m.fma(part, part, off)
        self.of[i, FOUND] = m.where(off >= 0.0, off, math.inf)  # what is no number is no solution

    def coefficients(self, kind: RowPattern, i: Index) -> list[Number | float]:
        """c of every group."""
        return [1.0 if number else self.of[i, C] for number in range(len(kind.groups))]

    def nearest(
        self, kind: RowPattern, slopes: Sequence[Number | float], x: Sequence[Number]
    ) -> list[Number]:
        """The nearest point of the cone; see `nearest_on_cones`."""
        m, out = self.m, list(x)
        sizes = [self.length([x[t] for t in group]) for group in kind.groups]
        if kind.has_head:
            out[0] = self.larger(x[0], 0.0)
            for some in range(1, 2 ** len(kind.groups)):
                over: Number = x[0]
                under: Any = 1.0
                for j, (c, size) in enumerate(zip(slopes, sizes, strict=True)):
                    if some >> j & 1:
                        over, under = m.fma(c, size, over), m.fma(c, c, under)
                out[0] = self.larger(out[0], over / under)
        for c, size, group in zip(slopes, sizes, kind.groups, strict=True):
            bound: Any = c * out[0] if kind.has_head else c
            outside = size > bound
            factor = m.where(outside, bound / m.where(outside, size, 1.0), 1.0)
            for t in group:
                out[t] = x[t] * factor
        return out

    def move_inside(self) -> Mask:
        """`new`, the impulses y moved onto the cones; in which lanes they have changed.

        The nearest, and none at contacts that are open; z is that of y.
        """
        m = self.m
        m.copy(self.n, self.y, self.new)
        self.each_contact(self._inside)

        def changed(i: Index) -> Number:
            return m.to_flag(~m.equal(self.new[i], self.y[i]))

        return m.largest(0, self.n, changed) > 0.0

    def _inside(self, kind: RowPattern, i: Index, first: Index) -> None:
        y = self.rows(self.y, first, range(len(kind.letters)))
        near = self.nearest(kind, self.coefficients(kind, i), y)
        if kind.has_head:
            speed = self.z[first] + self.s[i]
            closed = y[0] - self.of[i, DEPTH] * speed > 0.0
            near = [self.m.where(closed, x, 0.0) for x in near]
        for t, x in enumerate(near):
            self.new[first + t] = x
