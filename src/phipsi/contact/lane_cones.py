"""Contact problems of a group of lanes in memory: scaled, with their cones and residuals.

The problem of a group has the contacts that are there in any of its lanes. Rows of a contact follow
each other, the normal first. Contacts that a lane does not have add zeros to its sums, so that a
lane gets the same bits in any company.

**Source:** theory/contact 5.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

from phipsi.backends.native.targets.code_cache import sources_digest
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
from phipsi.contact.cone_problem import INACTIVE, ROUNDING
from phipsi.contact.lane_elimination import BLOCK, Numbers


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

R, INVERSE, DEPTH, OWN, C, CLOSED, GROUPS = range(7)
"""Numbers kept of every contact: r, 1/r, D, 1/D, c, whether it is closed; for Newton's method
`PER_GROUP` of each group; for the interior point nine from `HEAD` on."""
PER_GROUP = 3
HEAD = GROUPS + 2 * PER_GROUP
PER_CONTACT = HEAD + 9
VECTORS = 16
"""Arrays with a number for each row."""


ARGUMENTS = [POINTER] * 7 + [I64] * 2 + [POINTER]
"""W, b, s, coefficients, y, results, contacts; how many contacts and rows; working memory.

`contacts` has two words each, the number of its kind and its first row; then the words of
`profile_of`. W is known between `lows` and `ends` of each block of rows, and zero elsewhere.
"""


def cone_routine(
    module: ir.Module, e: Emitter, what: str, writer: Any, kinds: Sequence[str], *options: Any
) -> ir.Function:
    """A function of the module with `ARGUMENTS`, written once for these kinds and options.

    `writer`, a class of `ConeLanes` that takes the options, with a method `write`.
    """
    key = (tuple(kinds), *options)
    digest = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
    name, kind = f"phipsi_{what}_{digest}_{e.lanes}", ir.FunctionType(ir.VOID, ARGUMENTS)
    depends = f"{key} {e.fused} {e.number.name} {sources_digest('contact')}"

    def begin(module: ir.Module) -> ir.Function:
        function = ir.Function(module, kind, name)
        function.linkage = "internal"
        inner = e.like()
        inner.builder = function.begin()
        writer(inner, function.args, [KINDS[x] for x in kinds], *options).write()
        inner.builder.ret_void()
        return function

    return module.part(name, depends, kind, begin)


def profile_of(m: Numbers, contacts: Any, k: Any, n: Any) -> tuple[Any, Any]:
    """`lows` and `ends`, words for each block of rows, which follow those of the contacts."""
    b = m.b
    lows = b.at(contacts, b.mul(k, i64(16)))
    return lows, b.at(lows, b.mul(b.udiv(n, i64(BLOCK)), i64(8)))


class ConeLanes(Numbers):
    """A problem of lanes in memory, and what both methods do with it.

    **Attributes:** of the problem `W`, `free` (b), `s`, `mu`, `y`, `contacts`, `k`, `n`; `z` =
    W y + b; `sigma`; vectors of rows for the methods; `eps`, the
    mean of the diagonal of W; `scale`, the largest |W| |y| + |b|;
    `found`, the residual; `scaled` and `changed`, lanes whose W is not as it was given, and whose y
    `move_inside` changed; `ends`, words for `eliminate`, and `lows`, the first column of each block
    of rows, beyond which W is zero.
    """

    def __init__(self, e: Emitter, args: Sequence[Any], kinds: Sequence[Kind]) -> None:
        super().__init__(e)
        self.kinds = kinds
        self.W, self.free, self.s, self.mu, self.y, self.results, self.contacts = args[:7]
        self.k, self.n, self.J = args[7:]
        b = self.b
        vectors = self.at(self.J, b.mul(self.n, self.plus(self.n, 1)))
        each = b.mul(self.n, i64(self.bytes))
        self.vectors = []
        for _ in range(VECTORS):
            self.vectors.append(vectors)
            vectors = b.at(vectors, each)
        self.kept = vectors
        self.z, self.sigma, self.d, self.new = self.vectors[:4]
        self.lows, self.ends = profile_of(self, self.contacts, self.k, self.n)
        self.eps, self.scale, self.found = (b.alloca(e.vector) for _ in range(3))
        self.scaled, self.changed = (b.alloca(e.mask) for _ in range(2))

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

    def in_last_block(self, body: Callable[[Any], None]) -> None:
        """Code for every row of the last block, where rows beyond those of contacts are."""
        last = self.b.sub(self.n, i64(BLOCK))
        with self.b.if_then(self.b.icmp_signed(">=", last, i64(0))):
            self.between(last, self.n, body)

    def of(self, contact: Any, what: int) -> Any:
        """The place of a number of a contact."""
        return self.at(self.kept, self.plus(self.b.mul(contact, i64(PER_CONTACT)), what))

    def rows(self, base: Any, first: Any, rows: Sequence[int]) -> list[Lane]:
        """Numbers of rows of a contact."""
        return [self.load(base, self.plus(first, t)) for t in rows]

    def length(self, x: Sequence[Lane]) -> Lane:
        """|x|."""
        return self.root(_square(x))

    def scale_problem(self) -> None:
        """Round groups, and steps of projections."""
        e, b = self.e, self.b
        self.fill(self.n, 0.0, self.sigma)
        b.store(self.never(), self.scaled)
        self.each_contact(self._scales)

        def entries(i: Any) -> None:
            mine = self.load(self.sigma, i)
            start = self.at(self.W, b.mul(i, self.n))

            def entry(j: Any) -> None:
                x = self.load(start, j) * (mine * self.load(self.sigma, j))
                self.store(x, start, j)

            self.between(*self.columns_of(i, 1), entry)

        with b.if_then(self.any(self.mask(self.scaled))):
            write_loop(b, self.n, entries)

        def row(i: Any) -> None:
            mine = self.load(self.sigma, i)
            self.store(self.load(self.free, i) * mine, self.free, i)
            there = e.compare(">", mine, 0.0)
            y = self.load(self.y, i) / e.select(there, mine, 1.0)
            fine = b.and_(there, e.compare("<", self.size(y), math.inf))
            self.store(e.select(fine, y, 0.0), self.y, i)

        write_loop(b, self.n, row)
        for place in (self.eps, self.scale):
            self.store(0.0, place)
        self.each_contact(self._steps)
        live = self.load(self.scale)
        eps = self.load(self.eps) / self.larger(live, e.constant(1.0))
        self.store(e.select(e.compare(">", eps, 0.0), eps, 1.0), self.eps)

    def columns_of(self, first: Any, count: int) -> tuple[Any, Any]:
        """The columns of rows in which W may not be zero, from blocks to blocks."""
        b = self.b
        block = b.udiv(first, i64(BLOCK))
        last = b.udiv(self.plus(first, count - 1), i64(BLOCK))
        return self.word(self.lows, block), self.word(self.ends, last)

    def _scales(self, kind: Kind, i: Any, first: Any) -> None:
        e = self.e
        there: Any = None
        if kind.has_head:
            s = self.load(self.s, i)
            there = e.compare("<", s, INACTIVE)
            self.store(e.select(there, s, 1.0), self.s, i)
            self.store(e.select(there, 1.0, 0.0), self.sigma, first)
            self._note(self.b.not_(there), self.scaled)
        for number, group in enumerate(kind.groups):
            mu = self.rows(self.mu, first, group)
            largest = mu[0]
            for x in mu[1:]:
                largest = self.larger(largest, x)
            if number == 0:
                self.store(largest, self.of(i, C))
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
                self._note(e.compare("!=", scale, 1.0), self.scaled)

    def _note(self, where: Any, place: Any) -> None:
        """Add lanes to a mask in memory."""
        self.b.store(self.b.or_(self.mask(place), where), place)

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
                self.store(1.0 / own, self.of(i, DEPTH))
                self.store(own, self.of(i, OWN))
        for x, place in ((total, self.eps), (live, self.scale)):
            self.store(self.load(place) + x, place)
        mean = total / self.larger(live, e.constant(1.0))
        mean = e.select(e.compare(">", mean, 0.0), mean, 1.0)
        self.store(mean, self.of(i, INVERSE))
        self.store(1.0 / mean, self.of(i, R))

    def multiply(self, y: Any, which: Any = None) -> None:
        """z = W y + b, and the largest |W| |y| + |b|; in some lanes, if they are given.

        Others keep theirs: z of a lane that is done does not depend on what others still do.
        """
        e, b = self.e, self.b
        before = self.load(self.scale)
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
                    w = self.load_at(start, offset)
                    out.append(w.times_plus(x, Lane(e, sums[t])).value)
                    sizes.append(self.size(w).times_plus(size, Lane(e, sums[BLOCK + t])).value)
                return out + sizes

            low, end = self.columns_of(i, BLOCK)
            last = fold_loop(b, b.sub(end, low), 1, first, lambda j, x: more(b.add(low, j), x))
            largest = self.load(self.scale)
            for t in range(BLOCK):
                x, row = Lane(e, last[t]), self.plus(i, t)
                if which is not None:
                    x = e.select(which, x, self.load(self.z, row))
                self.store(x, self.z, row)
                largest = self.larger(largest, Lane(e, last[BLOCK + t]))
            self.store(largest, self.scale)

        write_loop(b, self.n, rows, BLOCK)
        if which is not None:
            self.store(e.select(which, self.load(self.scale), before), self.scale)

    def limit(self, tolerance: float) -> Lane:
        """The residual that can be asked for."""
        return self.larger(self.load(self.scale) * float(ROUNDING), self.e.constant(tolerance))

    def residual(self, y: Any) -> None:
        """The natural residual at y, whose z is known."""
        self.store(0.0, self.found)
        self.each_contact(lambda kind, i, first: self._residual(kind, i, first, y))
        self.store(self.root(self.load(self.found)), self.found)

    def _residual(self, kind: Kind, i: Any, first: Any, base: Any) -> None:
        e = self.e
        D, every = self.load(self.of(i, DEPTH)), range(len(kind.letters))
        y, z = self.rows(base, first, every), self.rows(self.z, first, every)
        slopes = self.coefficients(kind, i)
        x_n: Any = None
        if kind.has_head:
            w = z[0] + self.load(self.s, i)
            for c, group in zip(slopes, kind.groups, strict=True):
                w = c.times_plus(self.length([z[t] for t in group]), w)
            x_n = y[0] - D * w
        x = [y[t] - D * z[t] for t in every]
        near = self.nearest(kind, slopes, x_n, x)
        off, own = e.constant(0.0), self.load(self.of(i, OWN))
        for a, p in zip(y, near, strict=True):
            part = (a - p) * own
            off = part.times_plus(part, off)
        self.store(self.larger(self.load(self.found), off), self.found)

    def coefficients(self, kind: Kind, i: Any) -> list[Lane]:
        """c of every group."""
        return [
            self.load(self.of(i, C)) if number == 0 else self.e.constant(1.0)
            for number in range(len(kind.groups))
        ]

    def nearest(self, kind: Kind, slopes: list[Lane], x_n: Any, x: list[Lane]) -> list[Lane]:
        """The nearest point of the cone; see `nearest_on_cones`."""
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

    def move_inside(self, which: Any, target: Any) -> None:
        """Impulses on the cones, in some lanes: the nearest, none at contacts that are open.

        From y, whose z is known, to `target`; lanes that differ are in `changed`.
        """
        self.b.store(self.never(), self.changed)
        self.each_contact(lambda kind, i, first: self._inside(kind, i, first, which, target))

    def _inside(self, kind: Kind, i: Any, first: Any, which: Any, target: Any) -> None:
        e = self.e
        every = range(len(kind.letters))
        y = self.rows(self.y, first, every)
        closed: Any = None
        if kind.has_head:
            speed = self.load(self.z, first) + self.load(self.s, i)
            closed = e.compare(">", y[0] - self.load(self.of(i, DEPTH)) * speed, 0.0)
        near = self.nearest(kind, self.coefficients(kind, i), y[0], y)
        for t, x in enumerate(near):
            x = x if closed is None else e.select(closed, x, 0.0)
            x = e.select(which, x, y[t])
            self._note(self.b.not_(e.compare("==", x, y[t])), self.changed)
            self.store(x, target, self.plus(first, t))

    def table(self, numbers: Sequence[float]) -> Any:
        """Numbers in memory, the same in all lanes."""
        place = self.b.alloca(self.e.vector, size=len(numbers))
        for i, x in enumerate(numbers):
            self.store(x, place, i)
        return place


def _square(x: Sequence[Lane]) -> Lane:
    total = x[0] * x[0]
    for y in x[1:]:
        total = y.times_plus(y, total)
    return total


# ---- convex problems -----------------------------------------------------------------------------


SLIDING, _BEFORE, _OFF_BEFORE, _OFF = range(HEAD + 5, HEAD + 9)
"""Numbers of a contact: what stands for Σ |z_g|; what it was; how far it was off then, and is."""


@final
class ConvexCode:
    """Writes what an interior point begins with.

    **Attributes:** `slides`, 1 where |z_g| follows from z, 0 in convex problems.
    """

    def __init__(self, m: ConeLanes) -> None:
        self.m, self.e, self.b = m, m.e, m.b
        self.slides, self._total, self._square = (m.b.alloca(m.e.vector) for _ in range(3))

    def let_slide(self) -> None:
        """|z_t| follows from z: the problem itself."""
        m = self.m
        m.store(1.0, self.slides)
        m.each_contact(lambda kind, i, first: m.store(0.0, m.of(i, SLIDING)))

    def hold_sliding(self, number: Any) -> None:
        """The convex problem of this number: what stands for Σ |z_g|; see `Rounds`."""
        m, e, b = self.m, self.e, self.b
        m.store(0.0, self.slides)
        total, square = self._total, self._square
        for place in (total, square):
            m.store(0.0, place)

        def error(kind: Kind, i: Any, first: Any) -> None:
            found = e.constant(0.0)
            if kind.has_head:
                for c, group in zip(m.coefficients(kind, i), kind.groups, strict=True):
                    found = c.times_plus(m.length(m.rows(m.z, first, group)), found)
            off = found - m.load(m.of(i, SLIDING))
            turn = off - m.load(m.of(i, _OFF_BEFORE))
            m.store(off, m.of(i, _OFF))
            m.store(off.times_plus(turn, m.load(total)), total)
            m.store(turn.times_plus(turn, m.load(square)), square)

        def clear(kind: Kind, i: Any, first: Any) -> None:
            for what in (SLIDING, _BEFORE, _OFF_BEFORE):
                m.store(0.0, m.of(i, what))

        def advance(kind: Kind, i: Any, first: Any) -> None:
            now, before, off, old = (
                m.load(m.of(i, x)) for x in (SLIDING, _BEFORE, _OFF, _OFF_BEFORE)
            )
            there = m.load(square)
            part = m.load(total) / e.select(e.compare(">", there, 0.0), there, 1.0)
            is_second = b.icmp_signed("==", number, i64(1))
            part = Lane(e, b.select(is_second, e.constant(0.0).value, part.value))
            new = now + off - part * (now - before + off - old)
            m.store(now, m.of(i, _BEFORE))
            m.store(off, m.of(i, _OFF_BEFORE))
            m.store(m.larger(new, e.constant(0.0)), m.of(i, SLIDING))

        with b.if_else(b.icmp_signed("==", number, i64(0))) as (begins, goes_on):
            with begins:
                m.each_contact(clear)
            with goes_on:
                m.each_contact(error)
                m.each_contact(advance)
