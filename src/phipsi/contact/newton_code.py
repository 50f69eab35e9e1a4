"""Machine code of proximal Newton; see `newton`. A lane that is done is left alone."""

from __future__ import annotations

import math
from typing import Any, final

from phipsi.backends.native.text.lane_arithmetic import Lane, fold_loop, i64, write_loop
from phipsi.contact.cone_problem import ACCEPTED
from phipsi.contact.lane_cones import (
    CLOSED,
    GROUPS,
    INVERSE,
    PER_GROUP,
    C,
    ConeLanes,
    Kind,
    R,
)
from phipsi.contact.lane_elimination import eliminate, substitute
from phipsi.contact.newton import (
    FALLING,
    HALVINGS,
    INNER,
    MEMORY,
    NOISE,
    PATIENCE,
    POWERS,
    RESTING,
    ROUNDS,
    STEADY,
    WORSE,
)

SINGULAR = 1e-3
"""ε beside the pivot of J that a self-stress leaves, ε / n², n its part of a unit self-stress."""


@final
class NewtonCode:
    """Writes the iterations on a problem of lanes."""

    def __init__(self, m: ConeLanes, tolerance: float) -> None:
        self.m, self.e, self.b, self.tolerance = m, m.e, m.b, tolerance
        b, e = self.b, self.e
        self.F, self.c, self.E, self.best = m.vectors[4:8]  # the last is one of the interior point
        self.norm, self.largest, self.count, self.rounds, self.eps, self.least = (
            b.alloca(e.vector) for _ in range(6)
        )
        self.memory = b.alloca(e.vector, size=MEMORY)
        self.live, self.ended = b.alloca(e.mask), b.alloca(e.mask)
        m.store(0.0, self.count)

    def iterate(self, which: Any, most: Any, eps: Lane, kept: Lane, free: Any) -> Any:
        """Iterate in some lanes, `most` times at most; in which lanes y is finite. z is that of y.

        `eps` beside the mean of the diagonal of W; c = y times `kept` to begin with; `free`, a
        condition of all lanes: full steps, and an ε that falls.
        """
        m, e, b = self.m, self.e, self.b
        self.halvings = b.select(free, i64(0), i64(HALVINGS))
        self.free = free
        m.store(m.load(m.eps) * eps, self.eps)
        write_loop(b, m.n, lambda i: m.store(kept * m.load(m.y, i), self.c, i))
        m.store(0.0, self.rounds)
        self.forget(None)
        self.evaluate(m.y)
        good = b.and_(which, e.compare("<", m.load(self.norm), math.inf))
        m.residual(m.y)
        limit = m.limit(RESTING * self.tolerance)
        solved = e.compare("<=", m.load(m.found), limit)  # bodies that go on to rest
        b.store(b.and_(good, b.not_(solved)), self.live)
        b.store(m.never(), self.ended)
        m.store(m.load(m.found), self.least)
        m.copy(m.n, m.y, self.best)

        def once(number: Any, before: Any) -> None:
            self.step(before)
            patience = b.select(free, i64(0), i64(PATIENCE))
            with b.if_then(b.icmp_signed(">=", number, patience)):
                self.accept()
            over = b.and_(before, b.not_(m.mask(self.live)))
            with b.if_then(m.any(over)):
                self.lessen(over)

        m.rounds(most, lambda: m.mask(self.live), once)
        with b.if_then(free):
            self.go_back(good)
        return good

    def go_back(self, which: Any) -> None:
        """To the best iterate, in lanes that are not solved."""
        m, e, b = self.m, self.e, self.b
        m.residual(m.y)
        solved = e.compare("<=", m.load(m.found), m.limit(max(self.tolerance, ACCEPTED)))
        which = b.and_(which, b.not_(solved))
        m.copy(m.n, self.best, m.y, which)
        m.multiply(m.y, which)

    def accept(self) -> None:
        """Lanes whose y, moved onto the cones, counts as solved are done. Z is that of y."""
        m, e, b = self.m, self.e, self.b
        live = m.mask(self.live)
        m.move_inside(live, m.new)
        m.multiply(m.new, live)
        m.residual(m.new)
        limit, found = m.limit(max(self.tolerance, ACCEPTED)), m.load(m.found)
        good = b.and_(live, e.compare("<=", found, limit))
        b.store(b.and_(live, b.not_(good)), self.live)
        better = e.compare("<", found, m.load(self.least))
        m.store(e.select(better, found, m.load(self.least)), self.least)
        m.copy(m.n, m.new, self.best, better)
        m.copy(m.n, m.new, m.y, good)
        with b.if_then(m.any(b.and_(live, b.not_(good)))):  # z of the y that stays
            m.multiply(m.y, live)

    # ---- the map of Alart and Curnier

    def evaluate(self, y: Any, which: Any = None) -> None:
        """z = W y + b, F, and what its derivative needs; |F|, the largest |F|, |W| |y| + |b|."""
        self.m.multiply(y, which)
        self.map(y)

    def map(self, y: Any) -> None:
        """The same where z is known."""
        m = self.m
        for place in (self.norm, self.largest):
            m.store(0.0, place)
        m.each_contact(lambda kind, i, first: self._map(kind, i, first, y))
        m.store(m.root(m.load(self.norm)), self.norm)

    def _map(self, kind: Kind, i: Any, first: Any, base: Any) -> None:
        m, e, b = self.m, self.e, self.b
        r, inverse = m.load(m.of(i, R)), m.load(m.of(i, INVERSE))
        eps = m.load(self.eps)
        every = range(len(kind.letters))
        y, c = m.rows(base, first, every), m.rows(self.c, first, every)
        z = [
            eps.times_plus(a - o, x)
            for a, o, x in zip(y, c, m.rows(m.z, first, every), strict=True)
        ]
        F: list[Any] = [None] * len(every)
        closed: Any = None
        top = e.constant(0.0)
        if kind.has_head:
            speed = z[0] + m.load(m.s, i)
            top = y[0] - r * speed
            closed = e.compare(">", top, 0.0)
            F[0] = e.select(closed, speed, y[0] * inverse)
            top = e.select(closed, top, 0.0)
            m.store(e.select(closed, 1.0, 0.0), m.of(i, CLOSED))
        for number, group in enumerate(kind.groups):
            coefficient = m.load(m.of(i, C)) if number == 0 else e.constant(1.0)
            bound = top * coefficient if kind.has_head else coefficient
            x = [y[t] - r * z[t] for t in group]
            size = m.length(x)
            slides = b.or_(e.compare(">", size, bound), e.compare("<=", bound, 0.0))
            scale = 1.0 / e.select(e.compare(">", size, 0.0), size, 1.0)
            part = e.select(slides, bound * scale, 1.0)
            for t, a in zip(group, x, strict=True):
                direction = a * scale
                m.store(direction, self.E, m.plus(first, t))
                F[t] = e.select(slides, (y[t] - bound * direction) * inverse, z[t])
            lean = e.constant(0.0)
            if kind.has_head:
                lean = e.select(b.and_(slides, closed), coefficient, 0.0)
            for j, value in enumerate((part, e.select(slides, part, 0.0), lean)):
                m.store(value, m.of(i, GROUPS + PER_GROUP * number + j))
        norm, largest = m.load(self.norm), m.load(self.largest)
        for t, f in enumerate(F):
            m.store(f, self.F, m.plus(first, t))
            norm, largest = f.times_plus(f, norm), m.larger(largest, m.size(f))
        m.store(norm, self.norm)
        m.store(largest, self.largest)

    def derivative(self) -> None:
        """J, with −F as its last column; rows beyond those of contacts are those of I."""
        m, b = self.m, self.b
        columns = m.plus(m.n, 1)

        def clear(i: Any) -> None:
            start = m.at(m.J, b.mul(i, columns))
            write_loop(b, columns, lambda j: m.store(0.0, start, j))
            m.store(1.0, start, i)

        m.in_last_block(clear)
        m.each_contact(self._rows_of_derivative)

    def _rows_of_derivative(self, kind: Kind, i: Any, first: Any) -> None:
        m, b, count = self.m, self.b, len(kind.letters)
        columns = m.plus(m.n, 1)
        inverse, eps = m.load(m.of(i, INVERSE)), m.load(self.eps)
        by_z: dict[tuple[int, int], Lane] = {}
        by_y: dict[tuple[int, int], Lane] = {}
        if kind.has_head:
            closed = by_z[0, 0] = m.load(m.of(i, CLOSED))
            by_y[0, 0] = (1.0 - closed) * inverse
        for number, group in enumerate(kind.groups):
            part, turned, lean = (
                m.load(m.of(i, GROUPS + PER_GROUP * number + j)) for j in range(3)
            )
            at = dict(zip(group, m.rows(self.E, first, group), strict=True))
            for t in group:
                for u in group:
                    x = -(turned * at[t]) * at[u]
                    by_z[t, u] = x + part if t == u else x
                    by_y[t, u] = (1.0 - by_z[t, u] if t == u else -x) * inverse
                if kind.has_head:
                    by_z[t, 0] = lean * at[t]
                    by_y[t, 0] = -(by_z[t, 0] * inverse)
        W = [m.at(m.W, b.mul(m.plus(first, t), m.n)) for t in range(count)]
        J = [m.at(m.J, b.mul(m.plus(first, t), columns)) for t in range(count)]

        def column(j: Any) -> None:
            offset = b.mul(j, i64(m.bytes))
            w = [m.load_at(x, offset) for x in W]
            for t in range(count):
                total: Any = None
                for u in range(count):
                    if (t, u) in by_z:
                        x = by_z[t, u]
                        total = x * w[u] if total is None else x.times_plus(w[u], total)
                b.store(total.value, b.at(J[t], offset), align=8)

        m.between(*m.columns_of(first, count), column)
        for (t, u), x in by_z.items():
            place = m.at(J[t], m.plus(first, u))
            m.store(m.load(place) + eps.times_plus(x, by_y[t, u]), place)
        for t in range(count):
            m.store(-m.load(self.F, m.plus(first, t)), J[t], m.n)

    # ---- iterations

    def forget(self, which: Any) -> None:
        """The last norms, in some lanes."""
        m = self.m
        for i in range(MEMORY):
            old = m.load(self.memory, i)
            new = self.e.constant(-math.inf)
            m.store(new if which is None else self.e.select(which, new, old), self.memory, i)

    def step(self, live: Any) -> None:
        """One Newton step of all lanes that are not done, and what follows from it."""
        m, e, b = self.m, self.e, self.b
        m.store(m.load(self.count) + e.select(live, 1.0, 0.0), self.count)
        before = m.load(self.norm)
        limit = before
        for i in range(MEMORY - 1):
            x = m.load(self.memory, i + 1)
            m.store(x, self.memory, i)
            limit = m.larger(limit, x)
        m.store(before, self.memory, MEMORY - 1)
        self.derivative()
        eliminate(m, m.J, m.n, m.d, m.ends)
        self._search(live, limit)
        norm = m.load(self.norm)
        fine = b.and_(live, e.compare("<", norm, math.inf))
        m.copy(m.n, m.new, m.y, fine)
        with b.if_then(m.any(b.and_(live, b.not_(fine)))):  # z of the y that stays
            m.multiply(m.y, live)
        stalled = e.compare(">", norm, before * 0.5)
        ended = self.has_ended()
        b.store(fine, self.live)
        b.store(b.and_(fine, ended), self.ended)
        asked = b.and_(fine, b.or_(ended, stalled))
        with b.if_then(m.any(asked)):
            self.judge(stalled)

    def _search(self, live: Any, limit: Lane) -> None:
        """The step along d, halved in lanes where |F| is above the limit, so often at most."""
        m, e, b = self.m, self.e, self.b
        length = b.alloca(e.vector)
        m.store(1.0, length)

        def moved() -> None:
            part = m.load(length)

            def one(i: Any) -> None:
                old = m.load(m.y, i)
                new = m.load(m.d, i).times_plus(part, old)
                m.store(e.select(live, new, old), m.new, i)

            write_loop(b, m.n, one)
            self.evaluate(m.new, live)

        def worse() -> Any:
            fine = e.compare("<=", m.load(self.norm), limit)
            return b.and_(live, b.not_(fine))

        def halve(_: Any, which: Any) -> None:
            part = m.load(length)
            m.store(e.select(which, part * 0.5, part), length)
            moved()

        moved()
        m.rounds(self.halvings, worse, halve)

    def has_ended(self) -> Any:
        """Where F is rounding."""
        m = self.m
        return self.e.compare("<=", m.load(self.largest), m.load(m.scale) * NOISE)

    def judge(self, stalled: Any) -> None:
        """Where the residual of W is at the tolerance; the next round elsewhere."""
        m, e, b = self.m, self.e, self.b
        m.residual(m.y)
        live, ended = m.mask(self.live), m.mask(self.ended)
        good = b.and_(live, e.compare("<=", m.load(m.found), m.limit(self.tolerance)))
        ended = b.or_(ended, b.and_(stalled, good))
        rounds = m.load(self.rounds)
        over = b.or_(b.and_(ended, good), e.compare(">=", rounds, float(ROUNDS)))
        m.store(rounds + e.select(ended, 1.0, 0.0), self.rounds)
        live = b.and_(live, b.not_(over))
        b.store(live, self.live)
        following = b.and_(ended, live)
        with b.if_then(m.any(following)):
            m.copy(m.n, m.y, self.c, following)
            self.forget(following)
            self.map(m.y)
            self.correct(following)
            with b.if_then(self.free):
                eps = m.load(self.eps)
                falls = b.and_(following, m.mask(self.live))
                m.store(e.select(falls, eps * FALLING, eps), self.eps)
                self.map(m.y)

    def correct(self, which: Any) -> None:
        """A step in lanes whose round begins, with the factors of their last one.

        A round differs from the one before by ε c only, so that this is its solution where the
        modes have not changed: such lanes are done.
        """
        m, e, b = self.m, self.e, self.b

        def right(kind: Kind, i: Any, first: Any) -> None:
            for t in range(len(kind.letters)):
                row = m.plus(first, t)
                m.store(-m.load(self.F, row), m.d, row)

        m.each_contact(right)
        substitute(m, m.J, m.n, m.d, m.lows, m.ends)

        def one(i: Any) -> None:
            old = m.load(m.y, i)
            m.store(e.select(which, old + m.load(m.d, i), old), m.y, i)

        write_loop(b, m.n, one)
        self.evaluate(m.y, which)
        m.residual(m.y)
        good = e.compare("<=", m.load(m.found), m.limit(self.tolerance))
        done = b.and_(b.and_(which, self.has_ended()), good)
        b.store(b.and_(m.mask(self.live), b.not_(done)), self.live)

    # ---- least impulses

    def lessen(self, which: Any) -> None:
        """Take self-stresses out of lanes that are done with the factors that are in J.

        z is that of y, and `found` the residual; before and after.
        """
        m, e, b = self.m, self.e, self.b
        columns, singular = m.plus(m.n, 1), b.alloca(e.mask)
        b.store(m.never(), singular)
        eps = m.load(self.eps)

        def pivots(kind: Kind, i: Any, first: Any) -> None:
            found = m.mask(singular)
            for t in range(len(kind.letters)):
                row = m.plus(first, t)
                inverse = m.size(m.load(m.J, m.plus(b.mul(row, columns), row)))
                small = e.compare(">", eps * inverse, SINGULAR)
                there = e.compare(">", m.load(m.sigma, row), 0.0)
                found = b.or_(found, b.and_(small, there))
            b.store(found, singular)

        m.each_contact(pivots)
        solved = e.compare("<=", m.load(m.found), m.limit(self.tolerance))
        which = b.and_(b.and_(which, solved), m.mask(singular))
        with b.if_then(m.any(which)):
            self._without_stress(which)

    def _without_stress(self, which: Any) -> None:
        m, e, b = self.m, self.e, self.b
        left, rounding = m.load(m.found), m.load(m.scale) * INNER
        moved = m.load(self.eps) * self._powers(which)  # W x, so that z stays

        def less(i: Any) -> None:
            old = m.load(m.y, i)
            m.store(e.select(which, old - m.load(m.new, i), old), m.new, i)

        write_loop(b, m.n, less)
        m.residual(m.new)
        fine = e.compare("<=", m.load(m.found), m.larger(left * WORSE, rounding))
        fine = b.and_(b.and_(which, fine), e.compare("<=", moved, rounding))
        m.copy(m.n, m.new, m.y, fine)

    def _powers(self, which: Any) -> Lane:
        """Mᵏ y in `new`, in some lanes, each until it is steady; how much the last one changed."""
        m, e, b = self.m, self.e, self.b
        going, change = b.alloca(e.mask), b.alloca(e.vector)
        b.store(which, going)

        def begin(i: Any, largest: list[Any]) -> list[Any]:
            y = m.load(m.y, i)
            m.store(y, m.new, i)
            return [m.larger(Lane(e, largest[0]), m.size(y)).value]

        zero = [e.constant(0.0).value]
        size = Lane(e, fold_loop(b, m.n, 1, zero, begin)[0])
        m.store(size, change)

        def once(_: Any, live: Any) -> None:
            before = m.load(change)
            m.each_contact(self._carried)
            substitute(m, m.J, m.n, m.d, m.lows, m.ends)

            def one(i: Any, largest: list[Any]) -> list[Any]:
                x, old = m.load(m.d, i), m.load(m.new, i)
                m.store(e.select(live, x, old), m.new, i)
                return [m.larger(Lane(e, largest[0]), m.size(x - old)).value]

            now = Lane(e, fold_loop(b, m.n, 1, zero, one)[0])
            m.store(e.select(live, now, before), change)
            moves = e.compare(">", now * now, before * size * STEADY)  # now²/before: the next one
            b.store(b.and_(live, moves), going)

        m.rounds(POWERS, lambda: m.mask(going), once)
        return m.load(change)

    def _carried(self, kind: Kind, i: Any, first: Any) -> None:
        """The rows ε ∂F/∂z x of a contact, in d; x is in `new`."""
        m, count = self.m, len(kind.letters)
        eps = m.load(self.eps)
        x = m.rows(m.new, first, range(count))
        right: list[Any] = [None] * count
        if kind.has_head:
            right[0] = m.load(m.of(i, CLOSED)) * x[0]
        for number, group in enumerate(kind.groups):
            part, turned, lean = (
                m.load(m.of(i, GROUPS + PER_GROUP * number + j)) for j in range(3)
            )
            at = m.rows(self.E, first, group)
            along = at[0] * x[group[0]]
            for direction, t in zip(at[1:], group[1:], strict=True):
                along = direction.times_plus(x[t], along)
            pull = -(turned * along)
            if kind.has_head:
                pull = lean.times_plus(x[0], pull)
            for direction, t in zip(at, group, strict=True):
                right[t] = direction.times_plus(pull, part * x[t])
        for t, value in enumerate(right):
            m.store(eps * value, m.d, m.plus(first, t))
