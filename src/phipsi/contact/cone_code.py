"""Machine code of contact problems: proximal Newton with problems in lanes.

The problem of a group of lanes has the contacts that are there in any of them. Rows of a contact
follow each other, the normal first, and are eliminated in this order without pivoting. Contacts
that a lane does not have add zeros to its sums, so that a lane gets the same bits in any company. A
lane that is done is left alone while others go on.

**Source:** theory/contact 5.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

from phipsi.backends.native.text import llvm_text as ir
from phipsi.backends.native.text.lane_arithmetic import (
    I64,
    POINTER,
    Emitter,
    Lane,
    fold_loop,
    i64,
    write_cases,
    write_loop,
)
from phipsi.contact.cone_problem import INACTIVE, NOT_FINITE, ROUNDING, SOLVED, UNSOLVED
from phipsi.contact.lane_elimination import BLOCK, Numbers, eliminate
from phipsi.contact.newton import HALVINGS, INNER, ITERATIONS, MEMORY, PROXIMAL, ROUNDS


class Kind(NamedTuple):
    """Rows of a contact in the order of elimination, as letters of `ROWS`; its groups of rows."""

    letters: str
    groups: tuple[tuple[int, ...], ...]

    @property
    def has_head(self) -> bool:
        """Whether the first row is a normal."""
        return self.letters[0] == "n"


KINDS = {
    "normal": Kind("n", ()),
    "point": Kind("n12", ((1, 2),)),
    "torsion": Kind("ns12", ((1, 2, 3),)),
    "rolling": Kind("ns12ab", ((1, 2, 3), (4, 5))),
    "limit": Kind("l", ((0,),)),
}

# numbers kept of every contact: r, 1/r, D, c, whether it is closed; part, turned part and lean of
# each group
_R, _INVERSE, _D, _C, _CLOSED, _GROUPS, _PER_GROUP = 0, 1, 2, 3, 4, 5, 3
PER_CONTACT = _GROUPS + 2 * _PER_GROUP
VECTORS = 7  # arrays with a number for each row


def work_size(rows: int, contacts: int) -> int:
    """How many numbers of every lane the function works with, for at most so many rows."""
    return rows * (rows + 1) + VECTORS * rows + PER_CONTACT * contacts


def cone_function(
    module: ir.Module, e: Emitter, kinds: Sequence[str], tolerance: float
) -> ir.Function:
    """``void solve(W, b, s, coefficients, y, results, contacts, n contacts, n rows, work)``.

    Rows and contacts are those of the group of lanes: W (n, n), b, coefficients, y (n), n a
    multiple of `BLOCK`, s (contacts); `contacts` has two words each, the number of its kind among
    `kinds` and its first row. y is the start and becomes the impulses; results are residual,
    iterations and status. W, b and s are changed.
    """
    text = repr((tuple(kinds), tolerance))
    name = f"phipsi_cones_{hashlib.sha256(text.encode()).hexdigest()[:16]}_{e.lanes}"
    known = module.globals.get(name)
    if known is not None:
        return known
    types = [POINTER] * 7 + [I64] * 2 + [POINTER]
    function = ir.Function(module, ir.FunctionType(ir.VOID, types), name)
    function.linkage = "internal"
    inner = Emitter(e.lanes, fused=e.fused)
    inner.builder = ir.IRBuilder(function.append_basic_block("entry"))
    _Newton(inner, function.args, [KINDS[x] for x in kinds], tolerance).write()
    inner.builder.ret_void()
    return function


@final
class _Newton(Numbers):
    """Writes the function."""

    def __init__(
        self, e: Emitter, args: Sequence[Any], kinds: Sequence[Kind], tolerance: float
    ) -> None:
        super().__init__(e)
        self.kinds, self.tolerance = kinds, tolerance
        self.W, self.free, self.s, self.mu, self.y, self.results, self.contacts = args[:7]
        self.k, self.n, work = args[7:]
        b = self.b
        self.columns = b.add(self.n, i64(1))
        self.J = work
        vectors = self.at(work, b.mul(self.n, self.columns))
        each = b.mul(self.n, i64(self.bytes))
        places = []
        for _ in range(VECTORS):
            places.append(vectors)
            vectors = b.at(vectors, each)
        self.z, self.F, self.c, self.d, self.new, self.E, self.sigma = places
        self.kept = vectors
        self.eps, self.norm, self.largest, self.scale, self.found, self.count, self.rounds = (
            b.alloca(e.vector) for _ in range(7)
        )
        self.memory = b.alloca(e.vector, size=MEMORY)
        self.live, self.ended = b.alloca(e.mask), b.alloca(e.mask)

    # ---- contacts

    def each_contact(self, body: Callable[[Kind, Any, Any], None]) -> None:
        """Code for every contact: body(kind, its number, its first row)."""

        def one(i: Any) -> None:
            place = self.b.mul(i, i64(2))
            kind, first = (
                self.word(self.contacts, place),
                self.word(self.contacts, self.plus(place, 1)),
            )
            if len(self.kinds) == 1:
                body(self.kinds[0], i, first)
            else:
                write_cases(self.b, kind, len(self.kinds), lambda j: body(self.kinds[j], i, first))

        write_loop(self.b, self.k, one)

    def of(self, contact: Any, what: int) -> Any:
        """The place of a number of a contact."""
        return self.at(self.kept, self.plus(self.b.mul(contact, i64(PER_CONTACT)), what))

    def rows(self, base: Any, first: Any, rows: Sequence[int]) -> list[Lane]:
        """Numbers of rows of a contact."""
        return [self.load(base, self.plus(first, t)) for t in rows]

    def length(self, x: Sequence[Lane]) -> Lane:
        """|x|."""
        return self.root(_square(x))

    # ---- the beginning

    def write(self) -> None:
        """All of it."""
        e, b = self.e, self.b
        self.scale_problem()
        write_loop(b, self.n, lambda i: self.store(0.0, self.c, i))
        for place in (self.count, self.rounds):
            self.store(0.0, place)
        self.forget(None)
        self.evaluate(self.y)
        good = e.compare("<", self.load(self.norm), math.inf)
        b.store(good, self.live)
        first = b.alloca(e.mask)
        b.store(good, first)
        ended = b.and_(good, self.has_ended())
        b.store(ended, self.ended)
        with b.if_then(self.any(ended)):
            self.judge(self.never())
        turn = b.alloca(I64)
        b.store(i64(0), turn)

        def goes_on() -> Any:
            number = b.load(turn, typ=I64)
            more = b.icmp_signed("<", number, i64(ITERATIONS))
            return b.and_(more, self.any(b.load(self.live, typ=e.mask)))

        def once() -> None:
            b.store(b.add(b.load(turn, typ=I64), i64(1)), turn)
            self.step()

        self.repeat(goes_on, once)
        self.finish(b.load(first, typ=e.mask))

    def scale_problem(self) -> None:
        """Round groups, and steps of projections."""
        e, b = self.e, self.b
        write_loop(b, self.n, lambda i: self.store(0.0, self.sigma, i))
        self.each_contact(self._scales)

        def row(i: Any) -> None:
            mine = self.load(self.sigma, i)
            start = self.at(self.W, b.mul(i, self.n))
            self.store(self.load(self.free, i) * mine, self.free, i)
            write_loop(
                b,
                self.n,
                lambda j: self.store(
                    self.load(start, j) * (mine * self.load(self.sigma, j)), start, j
                ),
            )
            there = e.compare(">", mine, 0.0)
            y = self.load(self.y, i) / e.select(there, mine, 1.0)
            fine = b.and_(there, e.compare("<", self.size(y), math.inf))
            self.store(e.select(fine, y, 0.0), self.y, i)

        write_loop(b, self.n, row)
        for place in (self.eps, self.scale):
            self.store(0.0, place)
        self.each_contact(self._steps)
        live = self.load(self.scale)
        eps = self.load(self.eps) * PROXIMAL / self.larger(live, e.constant(1.0))
        self.store(e.select(e.compare(">", eps, 0.0), eps, 1.0), self.eps)

    def _scales(self, kind: Kind, i: Any, first: Any) -> None:
        e = self.e
        there: Any = None
        if kind.has_head:
            s = self.load(self.s, i)
            there = e.compare("<", s, INACTIVE)
            self.store(e.select(there, s, 1.0), self.s, i)
            self.store(e.select(there, 1.0, 0.0), self.sigma, first)
        for number, group in enumerate(kind.groups):
            mu = self.rows(self.mu, first, group)
            largest = mu[0]
            for x in mu[1:]:
                largest = self.larger(largest, x)
            if number == 0:
                self.store(largest, self.of(i, _C))
            unit = e.select(e.compare(">", largest, 0.0), largest, 1.0)
            for t, x in zip(group, mu, strict=True):
                if not kind.has_head:
                    scale = e.constant(1.0)
                else:
                    scale = x if number else x / unit
                scale = e.select(e.compare(">", x, 0.0), scale, 0.0)
                if there is not None:
                    scale = e.select(there, scale, 0.0)
                self.store(scale, self.sigma, self.plus(first, t))

    def _steps(self, kind: Kind, i: Any, first: Any) -> None:
        e, b = self.e, self.b
        total, live = e.constant(0.0), e.constant(0.0)
        for t in range(len(kind.letters)):
            row = self.plus(first, t)
            own = self.load(self.W, self.plus(b.mul(row, self.n), row))
            there = e.compare(">", self.load(self.sigma, row), 0.0)
            total, live = total + own, live + e.select(there, 1.0, 0.0)
            if t == 0:
                own = e.select(e.compare(">", own, 0.0), own, 1.0)
                self.store(1.0 / own, self.of(i, _D))
        for x, place in ((total, self.eps), (live, self.scale)):
            self.store(self.load(place) + x, place)
        mean = total / self.larger(live, e.constant(1.0))
        mean = e.select(e.compare(">", mean, 0.0), mean, 1.0)
        self.store(mean, self.of(i, _INVERSE))
        self.store(1.0 / mean, self.of(i, _R))

    # ---- the map of Alart and Curnier

    def evaluate(self, y: Any) -> None:
        """z = W y + b, F, and what its derivative needs; |F|, the largest |F|, |W| |y| + |b|."""
        self.multiply(y)
        for place in (self.norm, self.largest):
            self.store(0.0, place)
        self.each_contact(lambda kind, i, first: self._map(kind, i, first, y))
        self.store(self.root(self.load(self.norm)), self.norm)

    def multiply(self, y: Any) -> None:
        """z = W y + b, and the largest |W| |y| + |b|."""
        e, b = self.e, self.b
        self.store(0.0, self.scale)

        def rows(i: Any) -> None:
            starts = [self.at(self.W, b.mul(self.plus(i, t), self.n)) for t in range(BLOCK)]
            own = [self.load(self.free, self.plus(i, t)) for t in range(BLOCK)]
            first = [x.value for x in own] + [self.size(x).value for x in own]

            def more(j: Any, sums: list[Any]) -> list[Any]:
                x = self.load(y, j)
                size, offset = self.size(x), b.mul(j, i64(self.bytes))
                out, sizes = [], []
                for t, start in enumerate(starts):
                    w = Lane(e, b.load(b.at(start, offset), align=8, typ=e.vector))
                    out.append(w.times_plus(x, Lane(e, sums[t])).value)
                    sizes.append(self.size(w).times_plus(size, Lane(e, sums[BLOCK + t])).value)
                return out + sizes

            last = fold_loop(b, self.n, 1, first, more)
            largest = self.load(self.scale)
            for t in range(BLOCK):
                self.store(Lane(e, last[t]), self.z, self.plus(i, t))
                largest = self.larger(largest, Lane(e, last[BLOCK + t]))
            self.store(largest, self.scale)

        write_loop(b, self.n, rows, BLOCK)

    def _map(self, kind: Kind, i: Any, first: Any, base: Any) -> None:
        e, b = self.e, self.b
        r, inverse, eps = (
            self.load(self.of(i, _R)),
            self.load(self.of(i, _INVERSE)),
            self.load(self.eps),
        )
        every = range(len(kind.letters))
        y, c = self.rows(base, first, every), self.rows(self.c, first, every)
        z = [
            eps.times_plus(a - o, x)
            for a, o, x in zip(y, c, self.rows(self.z, first, every), strict=True)
        ]
        F: list[Any] = [None] * len(every)
        closed: Any = None
        top = e.constant(0.0)
        if kind.has_head:
            speed = z[0] + self.load(self.s, i)
            top = y[0] - r * speed
            closed = e.compare(">", top, 0.0)
            F[0] = e.select(closed, speed, y[0] * inverse)
            top = e.select(closed, top, 0.0)
            self.store(e.select(closed, 1.0, 0.0), self.of(i, _CLOSED))
        for number, group in enumerate(kind.groups):
            coefficient = self.load(self.of(i, _C)) if number == 0 else e.constant(1.0)
            bound = top * coefficient if kind.has_head else coefficient
            x = [y[t] - r * z[t] for t in group]
            size = self.length(x)
            slides = b.or_(e.compare(">", size, bound), e.compare("<=", bound, 0.0))
            scale = 1.0 / e.select(e.compare(">", size, 0.0), size, 1.0)
            part = e.select(slides, bound * scale, 1.0)
            for t, a in zip(group, x, strict=True):
                direction = a * scale
                self.store(direction, self.E, self.plus(first, t))
                F[t] = e.select(slides, (y[t] - bound * direction) * inverse, z[t])
            lean = e.constant(0.0)
            if kind.has_head:
                lean = e.select(b.and_(slides, closed), coefficient, 0.0)
            for j, value in enumerate((part, e.select(slides, part, 0.0), lean)):
                self.store(value, self.of(i, _GROUPS + _PER_GROUP * number + j))
        norm, largest = self.load(self.norm), self.load(self.largest)
        for t, f in enumerate(F):
            self.store(f, self.F, self.plus(first, t))
            norm, largest = f.times_plus(f, norm), self.larger(largest, self.size(f))
        self.store(norm, self.norm)
        self.store(largest, self.largest)

    def derivative(self) -> None:
        """J, with −F as its last column; rows beyond those of contacts are those of I."""
        b = self.b

        def clear(i: Any) -> None:
            start = self.at(self.J, b.mul(i, self.columns))
            write_loop(b, self.columns, lambda j: self.store(0.0, start, j))
            self.store(1.0, start, i)

        last = b.sub(self.n, i64(BLOCK))  # what is padded is in the last block
        with b.if_then(b.icmp_signed(">=", last, i64(0))):
            self.between(last, self.n, clear)
        self.each_contact(self._rows_of_derivative)

    def _rows_of_derivative(self, kind: Kind, i: Any, first: Any) -> None:
        e, b, count = self.e, self.b, len(kind.letters)
        r, inverse, eps = (
            self.load(self.of(i, _R)),
            self.load(self.of(i, _INVERSE)),
            self.load(self.eps),
        )
        del r
        by_z: dict[tuple[int, int], Lane] = {}
        by_y: dict[tuple[int, int], Lane] = {}
        if kind.has_head:
            closed = by_z[0, 0] = self.load(self.of(i, _CLOSED))
            by_y[0, 0] = (1.0 - closed) * inverse
        for number, group in enumerate(kind.groups):
            part, turned, lean = (
                self.load(self.of(i, _GROUPS + _PER_GROUP * number + j)) for j in range(3)
            )
            at = dict(zip(group, self.rows(self.E, first, group), strict=True))
            for t in group:
                for u in group:
                    x = -(turned * at[t]) * at[u]
                    by_z[t, u] = x + part if t == u else x
                    by_y[t, u] = (1.0 - by_z[t, u] if t == u else -x) * inverse
                if kind.has_head:
                    by_z[t, 0] = lean * at[t]
                    by_y[t, 0] = -(by_z[t, 0] * inverse)
        W = [self.at(self.W, b.mul(self.plus(first, t), self.n)) for t in range(count)]
        J = [self.at(self.J, b.mul(self.plus(first, t), self.columns)) for t in range(count)]

        def column(j: Any) -> None:
            offset = b.mul(j, i64(self.bytes))
            w = [Lane(e, b.load(b.at(x, offset), align=8, typ=e.vector)) for x in W]
            for t in range(count):
                total: Any = None
                for u in range(count):
                    if (t, u) in by_z:
                        x = by_z[t, u]
                        total = x * w[u] if total is None else x.times_plus(w[u], total)
                b.store(total.value, b.at(J[t], offset), align=8)

        write_loop(b, self.n, column)
        for (t, u), x in by_z.items():
            place = self.at(J[t], self.plus(first, u))
            self.store(self.load(place) + eps.times_plus(x, by_y[t, u]), place)
        for t in range(count):
            self.store(-self.load(self.F, self.plus(first, t)), J[t], self.n)

    # ---- iterations

    def forget(self, which: Any) -> None:
        """The last norms, in some lanes."""
        for i in range(MEMORY):
            old = self.load(self.memory, i)
            new = self.e.constant(-math.inf)
            self.store(new if which is None else self.e.select(which, new, old), self.memory, i)

    def step(self) -> None:
        """One Newton step of all lanes that are not done, and what follows from it."""
        e, b = self.e, self.b
        live = b.load(self.live, typ=e.mask)
        self.store(self.load(self.count) + e.select(live, 1.0, 0.0), self.count)
        before = self.load(self.norm)
        limit = before
        for i in range(MEMORY - 1):
            x = self.load(self.memory, i + 1)
            self.store(x, self.memory, i)
            limit = self.larger(limit, x)
        self.store(before, self.memory, MEMORY - 1)
        self.derivative()
        eliminate(self, self.J, self.n, self.d)
        length, halved = b.alloca(e.vector), b.alloca(I64)
        self.store(1.0, length)
        b.store(i64(0), halved)

        def moved() -> None:
            part = self.load(length)

            def one(i: Any) -> None:
                old = self.load(self.y, i)
                new = self.load(self.d, i).times_plus(part, old)
                self.store(e.select(live, new, old), self.new, i)

            write_loop(b, self.n, one)
            self.evaluate(self.new)

        def worse() -> Any:
            fine = e.compare("<=", self.load(self.norm), limit)
            return b.and_(live, b.not_(fine))

        def again() -> Any:
            more = b.icmp_signed("<", b.load(halved, typ=I64), i64(HALVINGS))
            return b.and_(more, self.any(worse()))

        def halve() -> None:
            part = self.load(length)
            self.store(e.select(worse(), part * 0.5, part), length)
            b.store(b.add(b.load(halved, typ=I64), i64(1)), halved)
            moved()

        moved()
        self.repeat(again, halve)
        norm = self.load(self.norm)
        fine = b.and_(live, e.compare("<", norm, math.inf))
        write_loop(
            b,
            self.n,
            lambda i: self.store(
                e.select(fine, self.load(self.new, i), self.load(self.y, i)), self.y, i
            ),
        )
        stalled = e.compare(">", norm, before * 0.5)
        ended = self.has_ended()
        b.store(fine, self.live)
        b.store(b.and_(fine, ended), self.ended)
        asked = b.and_(fine, b.or_(ended, stalled))
        with b.if_then(self.any(asked)):
            self.judge(stalled)

    def has_ended(self) -> Any:
        """Where F is rounding."""
        return self.e.compare("<=", self.load(self.largest), self.load(self.scale) * INNER)

    def judge(self, stalled: Any) -> None:
        """Where the residual of W is at the tolerance; the next round elsewhere."""
        e, b = self.e, self.b
        self.residual(self.y)
        live, ended = (b.load(x, typ=e.mask) for x in (self.live, self.ended))
        good = b.and_(live, e.compare("<=", self.load(self.found), self.limit()))
        ended = b.or_(ended, b.and_(good, stalled))
        rounds = self.load(self.rounds)
        over = b.or_(b.and_(ended, good), e.compare(">=", rounds, float(ROUNDS)))
        self.store(rounds + e.select(ended, 1.0, 0.0), self.rounds)
        live = b.and_(live, b.not_(over))
        b.store(live, self.live)
        following = b.and_(ended, live)
        with b.if_then(self.any(following)):

            def one(i: Any) -> None:
                x = e.select(following, self.load(self.y, i), self.load(self.c, i))
                self.store(x, self.c, i)

            write_loop(b, self.n, one)
            self.forget(following)
            self.evaluate(self.y)

    def limit(self) -> Lane:
        """The residual that can be asked for."""
        return self.larger(self.load(self.scale) * float(ROUNDING), self.e.constant(self.tolerance))

    def residual(self, y: Any) -> None:
        """The natural residual at y, whose z is known."""
        self.store(0.0, self.found)
        self.each_contact(lambda kind, i, first: self._residual(kind, i, first, y))
        self.store(self.root(self.load(self.found)), self.found)

    def _residual(self, kind: Kind, i: Any, first: Any, base: Any) -> None:
        e = self.e
        D, every = self.load(self.of(i, _D)), range(len(kind.letters))
        y, z = self.rows(base, first, every), self.rows(self.z, first, every)
        slopes = self._coefficients(kind, i)
        x_n: Any = None
        if kind.has_head:
            w = z[0] + self.load(self.s, i)
            for c, group in zip(slopes, kind.groups, strict=True):
                w = c.times_plus(self.length([z[t] for t in group]), w)
            x_n = y[0] - D * w
        x = [y[t] - D * z[t] for t in every]
        near = self._nearest(kind, slopes, x_n, x)
        off = e.constant(0.0)
        for a, p in zip(y, near, strict=True):
            part = (a - p) / D
            off = part.times_plus(part, off)
        self.store(self.larger(self.load(self.found), off), self.found)

    def _coefficients(self, kind: Kind, i: Any) -> list[Lane]:
        """c of every group."""
        return [
            self.load(self.of(i, _C)) if number == 0 else self.e.constant(1.0)
            for number in range(len(kind.groups))
        ]

    def _nearest(self, kind: Kind, slopes: list[Lane], x_n: Any, x: list[Lane]) -> list[Lane]:
        """The nearest point of the cone; see `project`."""
        e = self.e
        sizes = [self.length([x[t] for t in group]) for group in kind.groups]
        out = list(x)
        if kind.has_head:
            top = self.larger(x_n, e.constant(0.0))
            for some in range(1, 2 ** len(kind.groups)):
                over, under = x_n, e.constant(1.0)
                for j, (c, size) in enumerate(zip(slopes, sizes, strict=True)):
                    if some >> j & 1:
                        over, under = c.times_plus(size, over), c.times_plus(c, under)
                top = self.larger(top, over / under)
            out[0] = top
        for c, size, group in zip(slopes, sizes, kind.groups, strict=True):
            bound = c * out[0] if kind.has_head else c
            outside = e.compare(">", size, bound)
            factor = e.select(outside, bound / e.select(outside, size, 1.0), 1.0)
            for t in group:
                out[t] = x[t] * factor
        return out

    # ---- the end

    def finish(self, began: Any) -> None:
        """Impulses on the cones, their residual, the status."""
        e, b = self.e, self.b
        self.multiply(self.y)
        self.each_contact(self._inside)
        self.multiply(self.y)
        self.residual(self.y)
        found = self.load(self.found)
        good = b.and_(e.compare("<=", found, self.limit()), began)
        status = e.select(good, float(SOLVED), float(UNSOLVED))
        self.store(found, self.results, 0)
        self.store(self.load(self.count), self.results, 1)
        self.store(e.select(began, status, float(NOT_FINITE)), self.results, 2)
        write_loop(
            b,
            self.n,
            lambda i: self.store(self.load(self.y, i) * self.load(self.sigma, i), self.y, i),
        )

    def _inside(self, kind: Kind, i: Any, first: Any) -> None:
        e = self.e
        every = range(len(kind.letters))
        y = self.rows(self.y, first, every)
        closed: Any = None
        if kind.has_head:
            speed = self.load(self.z, first) + self.load(self.s, i)
            closed = e.compare(">", y[0] - self.load(self.of(i, _D)) * speed, 0.0)
        near = self._nearest(kind, self._coefficients(kind, i), y[0], y)
        for t, x in enumerate(near):
            x = x if closed is None else e.select(closed, x, 0.0)
            self.store(x, self.y, self.plus(first, t))


def _square(x: Sequence[Lane]) -> Lane:
    total = x[0] * x[0]
    for y in x[1:]:
        total = y.times_plus(y, total)
    return total
