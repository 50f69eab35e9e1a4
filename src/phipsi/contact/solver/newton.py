"""Proximal semismooth Newton: the impulses of contacts.

A round solves the problem with W + ε I and b − ε c, which has one solution of least impulses where
W is singular; the next has c = p, until the residual of W itself is at the tolerance. Inside,
Newton's method on the map of Alart and Curnier. Steps are full unless |F| exceeds the largest of
its last four values: along self-stresses of an indeterminate problem |F| is tiny but curved, and a
monotone search stalls there.

Wedged bodies, whose contacts all but slide, need more care: there a step of |F| = ε moves impulses
by as much as they are. **Polishing** begins near a solution, with c = p and a larger ε.

**Least impulses.** Rounding of W p + b leaves a self-stress of its size / ε in a solution, 1e-7 of
the impulses. A round multiplies impulses by M = ε J⁻¹ ∂F/∂z, whose powers tend to the projection
onto the self-stresses of the modes, with the error (ε/λ)ᵏ for an eigenvalue λ of W. p − Mᵏ p is the
limit of equal compliances to rounding: M p is small, and so is the rounding of it.

**Source:** theory/contact 5.
"""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from phipsi.contact.solver.contact_problem import ACCEPTED
from phipsi.contact.solver.scaled_problem import (
    CLOSED,
    GROUPS,
    INVERSE,
    PER_GROUP,
    C,
    R,
    RowPattern,
    ScaledProblem,
)
from phipsi.core.machine import Index, Mask, Memory, Number

PROXIMAL = 1e-9
"""ε beside the mean of the diagonal of W."""
ITERATIONS, ROUNDS, HALVINGS, MEMORY = 24, 8, 6, 4
POLISHING, POLISHED = 12, 1e-7
"""Iterations from a point that is nearly a solution, and their ε."""
FREE_ITERATIONS, EPS_DECAY = 40, 0.2
"""Iterations with full steps only, and their ε from one round to the next. Where sliding contacts
are wedged, the right step bends |F| to many times what it was, and the one after it bends it back;
where gaps are not quite those of a plane, a round moves a self-stress by no more than u / ε."""
REST_FACTOR = 0.1
"""Residual beside the tolerance at which the start is the solution."""
STALL_ROUNDS = 8
"""Iterations after which all that counts as solved is accepted."""
NOISE = 64 * float(np.finfo(float).eps)
"""Where F is rounding, beside the largest |W| |y| + |b|: one more step would not make it less, but
move self-stresses by as much over ε, and sliding is curved."""
POWERS, POWER_TOLERANCE, ALLOWED_GROWTH = 8, 1e-14, 1.001
"""Least impulses: most powers of M; how much Mᵏ p would change with the next, beside the largest
impulse; how much larger the residual may be without self-stresses."""
SUM_ROUNDING = 4 * float(np.finfo(float).eps)
"""What is no larger in any case, beside the largest |W| |y| + |b|."""
SINGULAR = 1e-3
"""ε beside the pivot of J that a self-stress leaves, ε / n², n its part of a unit self-stress."""


@final
class Newton:
    """The iterations on a scaled problem.

    **Attributes:** `count`, the factorisations so far; `good`, one where the first |F| was finite.
    """

    def __init__(self, x: ScaledProblem, tolerance: float) -> None:
        self.x, self.m, self.tolerance = x, x.m, tolerance
        m = self.m
        self.F, self.c, self.E, self.best = (x.vector() for _ in range(4))
        self.norm, self.largest, self.count, self.rounds, self.eps, self.least = (
            m.number() for _ in range(6)
        )
        self.live, self.ended, self.free, self.good, self.most = (m.number() for _ in range(5))
        self.before, self.limit, self.length, self.size, self.going, self.change = (
            m.number() for _ in range(6)
        )
        self.memory = m.array(MEMORY)

        @m.each(0, x.n)
        def _(i: Index) -> None:  # rows beyond those of contacts add zeros
            self.F[i] = 0.0

    def iterate(self, most: Number, eps: Number, kept: Number, free: Number) -> None:
        """Iterate, `most` times at most, from y; z is that of y at the end.

        `eps` beside the mean of the diagonal of W; c = y times `kept` to begin with; `free`, one
        for full steps, and an ε that falls.
        """
        m, x = self.m, self.x
        self.eps.value, self.free.value, self.most.value = x.eps.value * eps, free, most

        @m.each(0, x.n)
        def _(i: Index) -> None:
            self.c[i] = kept * x.y[i]

        self.rounds.value = 0.0
        self.forget()
        self.evaluate(x.y)
        good = self.norm.value < math.inf
        x.residual(x.y)
        solved = x.found.value <= x.limit(REST_FACTOR * self.tolerance)  # bodies that go on to rest
        self.good.value, self.live.value = m.to_flag(good), m.to_flag(good & ~solved)
        self.ended.value, self.least.value = 0.0, x.found.value
        m.copy(x.n, x.y, self.best)

        @m.while_any(lambda: self.live.value > 0.0, m.count(self.most.value))
        def _(turn: Index) -> None:
            self.step()
            m.when(m.at_least(turn, STALL_ROUNDS) | (self.free.value > 0.0))(self.accept)
            m.when(~(self.live.value > 0.0))(self.remove_self_stress)

        m.when((self.free.value > 0.0) & (self.good.value > 0.0))(self.go_back)

    def go_back(self) -> None:
        """To the best iterate, where y is not a solution."""
        m, x = self.m, self.x
        x.residual(x.y)

        @m.when(~(x.found.value <= x.limit(max(self.tolerance, ACCEPTED))))
        def _() -> None:
            m.copy(x.n, self.best, x.y)
            x.multiply(x.y)

    def accept(self) -> None:
        """Lanes whose y, moved onto the cones, counts as solved are done. Z is that of y."""
        m, x = self.m, self.x
        m.copy(x.n, x.y, x.new)

        @m.when(self.live.value > 0.0)
        def _() -> None:
            x.move_inside()
            x.multiply(x.new)

        x.residual(x.new)
        good = x.found.value <= x.limit(max(self.tolerance, ACCEPTED))
        better = x.found.value < self.least.value
        self.least.value = m.where(better, x.found.value, self.least.value)
        m.when(better)(lambda: m.copy(x.n, x.new, self.best))
        live = self.live.value > 0.0
        m.when(live & good)(lambda: m.copy(x.n, x.new, x.y))
        m.when(live & ~good)(lambda: x.multiply(x.y))  # z of the y that stays
        self.live.value = m.to_flag(live & ~good)

    # ---- the map of Alart and Curnier

    def evaluate(self, y: Memory) -> None:
        """z = W y + b, F, and what its derivative needs; |F|, the largest |F|, |W| |y| + |b|."""
        self.x.multiply(y)
        self.map(y)

    def map(self, y: Memory) -> None:
        """The same where z is known."""
        m, F = self.m, self.F
        self.x.each_contact(lambda kind, i, first: self._map(kind, i, first, y))
        self.norm.value = m.sqrt(m.total(0, self.x.n, lambda i: (F[i], F[i])))
        self.largest.value = m.largest(0, self.x.n, lambda i: m.abs(F[i]))

    def _map(self, kind: RowPattern, i: Index, first: Index, vector: Memory) -> None:
        m, x, eps = self.m, self.x, self.eps.value
        r, inverse = x.of[i, R], x.of[i, INVERSE]
        every = range(len(kind.letters))
        y, c = x.rows(vector, first, every), x.rows(self.c, first, every)
        z = [m.fma(eps, a - o, v) for a, o, v in zip(y, c, x.rows(x.z, first, every), strict=True)]
        closed: Any = None
        top: Any = 0.0
        if kind.has_head:
            speed = z[0] + x.s[i]
            top = y[0] - r * speed
            closed = top > 0.0
            self.F[first] = m.where(closed, speed, y[0] * inverse)
            top = m.where(closed, top, 0.0)
            x.of[i, CLOSED] = m.to_flag(closed)
        for number, group in enumerate(kind.groups):
            coefficient = 1.0 if number else x.of[i, C]
            bound: Any = top * coefficient if kind.has_head else coefficient
            at = [y[t] - r * z[t] for t in group]
            size = x.length(at)
            slides = (size > bound) | (bound <= 0.0)
            scale = 1.0 / m.where(size > 0.0, size, 1.0)
            part = m.where(slides, bound * scale, 1.0)
            for t, a in zip(group, at, strict=True):
                direction = a * scale
                self.E[first + t] = direction
                self.F[first + t] = m.where(slides, (y[t] - bound * direction) * inverse, z[t])
            slot = GROUPS + PER_GROUP * number
            x.of[i, slot], x.of[i, slot + 1] = part, m.where(slides, part, 0.0)
            x.of[i, slot + 2] = (
                0.0 if closed is None else m.where(slides & closed, coefficient, 0.0)
            )

    def derivative(self) -> None:
        """J, with −F as its last column; rows beyond those of contacts are those of I."""
        m, x = self.m, self.x

        def clear(i: Index) -> None:
            row = x.J.row(i)

            @m.each(0, x.n + 1)
            def _(j: Index) -> None:
                row[j] = 0.0

            row[i] = 1.0

        x.in_last_block(clear)
        x.each_contact(self._rows_of_derivative)

    def _rows_of_derivative(self, kind: RowPattern, i: Index, first: Index) -> None:
        m, x, count = self.m, self.x, len(kind.letters)
        inverse, eps = x.of[i, INVERSE], self.eps.value
        by_z: dict[tuple[int, int], Number] = {}
        by_y: dict[tuple[int, int], Number] = {}
        if kind.has_head:
            closed = by_z[0, 0] = x.of[i, CLOSED]
            by_y[0, 0] = (1.0 - closed) * inverse
        for number, group in enumerate(kind.groups):
            part, turned, lean = self._of_group(i, number)
            at = dict(zip(group, x.rows(self.E, first, group), strict=True))
            for t in group:
                for u in group:
                    same = -(turned * at[t]) * at[u]
                    by_z[t, u] = same + part if t == u else same
                    by_y[t, u] = (1.0 - by_z[t, u] if t == u else -same) * inverse
                if kind.has_head:
                    by_z[t, 0] = lean * at[t]
                    by_y[t, 0] = -(by_z[t, 0] * inverse)
        W = [x.W.row(first + t) for t in range(count)]
        J = [x.J.row(first + t) for t in range(count)]

        @m.each(*x.columns_of(first, count))
        def _(j: Index) -> None:
            w = [row[j] for row in W]
            for t in range(count):
                total: Any = None
                for u in range(count):
                    if (t, u) in by_z:
                        by = by_z[t, u]
                        total = by * w[u] if total is None else m.fma(by, w[u], total)
                J[t][j] = total

        for (t, u), by in by_z.items():
            J[t][first + u] = J[t][first + u] + m.fma(eps, by, by_y[t, u])
        for t in range(count):
            J[t][x.n] = -self.F[first + t]

    def _of_group(self, i: Index, number: int) -> list[Number]:
        """What the derivative needs of a group: `_map` says it."""
        return [self.x.of[i, GROUPS + PER_GROUP * number + j] for j in range(PER_GROUP)]

    # ---- iterations

    def forget(self) -> None:
        """The last norms."""
        for i in range(MEMORY):
            self.memory[i] = -math.inf

    def step(self) -> None:
        """One Newton step, and what follows from it."""
        m, x = self.m, self.x
        self.count.value = self.count.value + 1.0
        limit = self.before.value = self.norm.value
        for i in range(MEMORY - 1):
            norm = self.memory[i + 1]
            self.memory[i] = norm
            limit = x.larger(limit, norm)
        self.memory[MEMORY - 1], self.limit.value = self.before.value, limit
        self.derivative()
        m.eliminate(x.n, x.J, x.d, x.ends)
        self._search()
        fine = self.norm.value < math.inf
        m.when(fine)(lambda: m.copy(x.n, x.new, x.y))
        m.when(~fine)(lambda: x.multiply(x.y))  # z of the y that stays
        stalled = self.norm.value > self.before.value * 0.5
        ended = self.has_ended()
        self.live.value, self.ended.value = m.to_flag(fine), m.to_flag(fine & ended)
        m.when(fine & (ended | stalled))(lambda: self.check_convergence(stalled))

    def _search(self) -> None:
        """The step along d, halved where |F| is above the limit, so often at most."""
        m, x = self.m, self.x

        def move() -> None:
            part = self.length.value

            @m.each(0, x.n)
            def _(i: Index) -> None:
                x.new[i] = m.fma(x.d[i], part, x.y[i])

            self.evaluate(x.new)

        self.length.value = 1.0
        move()

        def worse() -> Mask:
            return ~(self.norm.value <= self.limit.value) & ~(self.free.value > 0.0)

        @m.while_any(worse, HALVINGS)
        def _(_turn: Index) -> None:
            self.length.value = self.length.value * 0.5
            move()

    def has_ended(self) -> Mask:
        """Where F is rounding."""
        return self.largest.value <= self.x.scale.value * NOISE

    def check_convergence(self, stalled: Mask) -> None:
        """Where the residual of W is at the tolerance; the next round elsewhere."""
        m, x = self.m, self.x
        x.residual(x.y)
        good = x.found.value <= x.limit(self.tolerance)
        ended = (self.ended.value > 0.0) | (stalled & good)
        over = (ended & good) | (self.rounds.value >= float(ROUNDS))
        self.rounds.value = self.rounds.value + m.to_flag(ended)
        self.live.value = m.to_flag(~over)
        m.when(ended & ~over)(self.next_round)

    def next_round(self) -> None:
        """It begins at y; with `free`, its ε is smaller."""
        m, x = self.m, self.x
        m.copy(x.n, x.y, self.c)
        self.forget()
        self.map(x.y)
        self.correct()

        @m.when(self.free.value > 0.0)
        def _() -> None:
            eps, falls = self.eps.value, self.live.value > 0.0
            self.eps.value = m.where(falls, eps * EPS_DECAY, eps)
            self.map(x.y)

    def correct(self) -> None:
        """A step with the factors of the last one, where a round begins.

        A round differs from the one before by ε c only, so that this is its solution where the
        modes have not changed: such lanes are done.
        """
        m, x = self.m, self.x

        @m.each(0, x.n)
        def _(i: Index) -> None:
            x.d[i] = -self.F[i]

        m.substitute(x.n, x.J, x.d, x.lows, x.ends)

        @m.each(0, x.n)
        def _(i: Index) -> None:
            x.y[i] = x.y[i] + x.d[i]

        self.evaluate(x.y)
        x.residual(x.y)
        done = self.has_ended() & (x.found.value <= x.limit(self.tolerance))
        self.live.value = m.where(done, 0.0, self.live.value)

    # ---- least impulses

    def remove_self_stress(self) -> None:
        """Take self-stresses out of solutions with the factors that are in J.

        z is that of y, and `found` the residual; before and after.
        """
        m, x, eps = self.m, self.x, self.eps.value

        def pivot(i: Index) -> Number:
            return m.where(x.sigma[i] > 0.0, eps * m.abs(x.J[i, i]), 0.0)

        singular = m.largest(0, x.n, pivot) > SINGULAR
        m.when(singular & (x.found.value <= x.limit(self.tolerance)))(self._without_self_stress)

    def _without_self_stress(self) -> None:
        m, x = self.m, self.x
        left, rounding = x.found.value, x.scale.value * SUM_ROUNDING
        self._power_iteration()

        @m.each(0, x.n)
        def _(i: Index) -> None:
            x.new[i] = x.y[i] - x.new[i]

        x.residual(x.new)
        moved = self.eps.value * self.change.value  # W x, so that z stays
        fine = (x.found.value <= x.larger(left * ALLOWED_GROWTH, rounding)) & (moved <= rounding)
        m.when(fine)(lambda: m.copy(x.n, x.new, x.y))

    def _power_iteration(self) -> None:
        """Mᵏ y in `new`, until it is steady; how much the last one changed."""
        m, x = self.m, self.x
        m.copy(x.n, x.y, x.new)
        self.size.value = m.largest(0, x.n, lambda i: m.abs(x.y[i]))
        self.change.value, self.going.value = self.size.value, 1.0

        @m.while_any(lambda: self.going.value > 0.0, POWERS)
        def _(_turn: Index) -> None:
            before = self.change.value

            @m.each(0, x.n)
            def _(i: Index) -> None:  # d is scratch, also in rows beyond those of contacts
                x.d[i] = 0.0

            x.each_contact(self._carried)
            m.substitute(x.n, x.J, x.d, x.lows, x.ends)
            now = m.largest(0, x.n, lambda i: m.abs(x.d[i] - x.new[i]))
            m.copy(x.n, x.d, x.new)
            self.change.value = now
            moves = (
                now * now > before * self.size.value * POWER_TOLERANCE
            )  # now²/before: the next one
            self.going.value = m.to_flag(moves)

    def _carried(self, kind: RowPattern, i: Index, first: Index) -> None:
        """The rows ε ∂F/∂z x of a contact, in d; x is in `new`."""
        m, count, eps = self.m, len(kind.letters), self.eps.value
        x = self.x.rows(self.x.new, first, range(count))
        right: list[Any] = [None] * count
        if kind.has_head:
            right[0] = self.x.of[i, CLOSED] * x[0]
        for number, group in enumerate(kind.groups):
            part, turned, lean = self._of_group(i, number)
            at = self.x.rows(self.E, first, group)
            along = at[0] * x[group[0]]
            for direction, t in zip(at[1:], group[1:], strict=True):
                along = m.fma(direction, x[t], along)
            pull = -(turned * along)
            if kind.has_head:
                pull = m.fma(lean, x[0], pull)
            for direction, t in zip(at, group, strict=True):
                right[t] = m.fma(direction, pull, part * x[t])
        for t, value in enumerate(right):
            self.x.d[first + t] = eps * value
