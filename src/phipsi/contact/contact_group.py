"""Gathering the contacts of a group of lanes: those that are there in any of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import reduce
from operator import and_
from typing import Any

from phipsi.backends.machine.solvers import BLOCK
from phipsi.backends.native.kernel.law_code import Area
from phipsi.backends.native.targets.code_cache import sources_digest
from phipsi.backends.native.text import llvm_text as ir
from phipsi.backends.native.text.lane_arithmetic import I64, Lane, i64, write_cases, write_loop
from phipsi.contact.cone_problem import INACTIVE, ConeLayout
from phipsi.contact.lane_elimination import Numbers, profile_of, word_table
from phipsi.contact.scaled_problem import KINDS, order_of, padded, work_size


class ContactGroup:
    """The contacts that are there in any lane: `contacts` and `rows`, lists of words in memory.

    Contacts whose masks have no bit in common do not meet: W is zero between them, and is not read
    there.

    **Attributes:** `k`, how many; `used`, their rows; `n`, the same padded; `slots`, which contact
    of the layout each is; `rows`, which row of the layout each row is; `firsts`, the first row of
    each, and at last `used`.
    """

    def __init__(
        self,
        code: Any,
        layout: ConeLayout,
        b: Area,
        mu: Area,
        s: Area,
        masks: Sequence[int] | None = None,
    ) -> None:
        self.code, self.layout, self.b, self.mu = code, layout, b, mu
        kinds = [*layout.contacts, *["normal"] * layout.stops, *["limit"] * layout.limits]
        self.kinds = [x for x in KINDS if x in kinds]
        numbers = [self.kinds.index(x) for x in kinds]
        self.m = Numbers(code.e)
        self._kinds, self._firsts = (word_table(code.module, x) for x in (numbers, layout.ends))
        self.count = len(kinds)
        order = order_of(KINDS[self.kinds[0]]) if len(self.kinds) == 1 else []
        self.order = order if order and len(order) % BLOCK == 0 else None
        many = self.size = padded(layout.n_rows)
        common = reduce(and_, masks) if masks else 1
        self._masks = None if common or masks is None else word_table(code.module, masks)
        sizes = (2 * self.count + 2 * (many // BLOCK), self.count, many, self.count + 1)
        self.contacts, self.slots, self.rows, self.firsts = (self._words(x) for x in sizes)
        sizes = (many * many, many, max(1, self.count), many, many)
        self.places = [code.area(x).base for x in sizes]
        self.work = code.area(work_size(many, self.count)).base
        self._list_contacts(s)

    def _words(self, count: int) -> Any:
        return self.code.area(max(1, -(-count // self.code.e.lanes))).base

    def _list_contacts(self, s: Area) -> None:
        """Which contacts are there; limits always are."""
        m, b = self.m, self.m.b
        k, used = b.alloca(I64), b.alloca(I64)
        for place in (k, used):
            b.store(i64(0), place)

        def contact(i: Any) -> None:
            kind, first = m.word(self._kinds, i), m.word(self._firsts, i)

            def add(number: int) -> None:
                rows = KINDS[self.kinds[number]]
                at, row = b.load(k, typ=I64), b.load(used, typ=I64)
                m.put_word(number, self.contacts, b.mul(at, i64(2)))
                m.put_word(row, self.contacts, m.plus(b.mul(at, i64(2)), 1))
                m.put_word(i, self.slots, at)
                m.put_word(row, self.firsts, at)
                for t, place in enumerate(order_of(rows)):
                    m.put_word(m.plus(first, place), self.rows, m.plus(row, t))
                b.store(m.plus(at, 1), k)
                b.store(m.plus(row, len(rows.letters)), used)

            def case(number: int) -> None:
                if not KINDS[self.kinds[number]].has_head:
                    add(number)
                    return
                there = self.code.e.compare("<", self.code.entry(s, i), INACTIVE)
                with b.if_then(m.any(there)):
                    add(number)

            write_cases(b, kind, len(self.kinds), case)

        write_loop(b, i64(self.count), contact)
        self.k, self.used = b.load(k, typ=I64), b.load(used, typ=I64)
        m.put_word(self.used, self.firsts, self.k)
        more = m.plus(self.used, BLOCK - 1)
        self.n = b.sub(more, b.urem(more, i64(BLOCK)))
        self._find_profile()

    def meet(self, i: Any, j: Any) -> Any:
        """Whether two contacts may move the same bodies."""
        m, b = self.m, self.m.b
        if self._masks is None:
            return ir.Constant(ir.IntType(1), 1)
        both = [m.word(self._masks, m.word(self.slots, x)) for x in (i, j)]
        return b.icmp_signed("!=", b.and_(*both), i64(0))

    def _find_profile(self) -> None:
        """Beside which columns W is zero, in words after the contacts; see `ProblemMemory`."""
        m, b = self.m, self.m.b
        blocks = b.udiv(self.n, i64(BLOCK))
        self.lows, self.ends = profile_of(m, self.contacts, self.k, self.n)

        def open_block(i: Any) -> None:
            m.put_word(b.mul(i, i64(BLOCK)) if self._masks else i64(0), self.lows, i)
            m.put_word(self.n, self.ends, i)

        write_loop(b, blocks, open_block)
        if self._masks is None:
            return
        other = b.alloca(I64)

        def first_column(i: Any) -> None:
            b.store(i64(0), other)

            def apart() -> Any:
                j = b.load(other, typ=I64)
                return b.and_(b.icmp_signed("<", j, i), b.not_(self.meet(i, j)))

            m.repeat(apart, lambda: b.store(m.plus(b.load(other, typ=I64), 1), other))
            start = m.word(self.firsts, b.load(other, typ=I64))
            start = b.sub(start, b.urem(start, i64(BLOCK)))
            first, end = self.rows_of(i)
            first, end = (b.udiv(x, i64(BLOCK)) for x in (first, b.sub(end, i64(1))))

            def lower(block: Any) -> None:
                old = m.word(self.lows, block)
                less = b.select(b.icmp_signed("<", start, old), start, old)
                m.put_word(less, self.lows, block)

            m.between(first, m.plus(end, 1), lower)

        write_loop(b, self.k, first_column)

        def reach(i: Any) -> None:
            end = b.mul(m.plus(i, 1), i64(BLOCK))
            low = b.udiv(m.word(self.lows, i), i64(BLOCK))
            m.between(low, m.plus(i, 1), lambda j: m.put_word(end, self.ends, j))

        write_loop(b, blocks, reach)
        b.store(i64(0), other)

        def widen(i: Any) -> None:
            first = b.mul(i, i64(BLOCK))

            def beyond() -> Any:
                return b.icmp_signed("<=", m.word(self.ends, b.load(other, typ=I64)), first)

            m.repeat(beyond, lambda: b.store(m.plus(b.load(other, typ=I64), 1), other))
            m.put_word(b.mul(b.load(other, typ=I64), i64(BLOCK)), self.lows, i)

        write_loop(b, blocks, widen)

    def places_of_rows(self) -> Any:
        """Words for all rows of the layout: which row of the group each is, if it is there."""
        m, places = self.m, self._words(self.layout.n_rows)
        write_loop(m.b, self.used, lambda i: m.put_word(i, places, m.word(self.rows, i)))
        return places

    def rows_of(self, i: Any) -> tuple[Any, Any]:
        """The first row of a contact, and that after its last."""
        return self.m.word(self.firsts, i), self.m.word(self.firsts, self.m.plus(i, 1))

    def meeting(self, i: Any, count: Any, body: Callable[[Any, Any], None]) -> None:
        """Code for the rows of those of the first `count` contacts that meet contact i."""
        if self._masks is None:
            body(i64(0), self.m.word(self.firsts, count))
            return

        def other(j: Any) -> None:
            with self.m.b.if_then(self.meet(i, j)):
                body(*self.rows_of(j))

        write_loop(self.m.b, count, other)

    def call(self, function: ir.Function, results: Any) -> None:
        """Call a function of a gathered problem; see `ARGUMENTS`."""
        ends = [results, self.contacts, self.k, self.n, self.work]
        self.m.b.call(function, [*self.places, *ends])

    def scatter(self, source: Any, target: Area) -> None:
        """Numbers of rows, back to all rows; zero where there is no contact."""
        m, n = self.m, self.layout.n_rows
        m.fill(i64(n), 0.0, target.base)

        def one(i: Any) -> None:
            m.store(m.load(source, i), target.base, m.word(self.rows, i))

        write_loop(m.b, self.used, one)

    def scatter_heads(self, source: Any, target: Area) -> None:
        """Numbers of contacts, back to all contacts and stops."""
        m, b, k = self.m, self.m.b, self.layout.n_heads
        m.fill(i64(k), 0.0, target.base)

        def one(i: Any) -> None:
            slot = m.word(self.slots, i)
            with b.if_then(b.icmp_signed("<", slot, i64(k))):
                m.store(m.load(source, i), target.base, slot)

        write_loop(b, self.k, one)

    def gather_rows(self, source: Area, target: Any) -> None:
        """Numbers of all rows, to those of the group."""
        m = self.m

        def one(i: Any) -> None:
            m.store(self.code.entry(source, m.word(self.rows, i)), target, i)

        write_loop(m.b, self.used, one)
        m.between(self.used, self.n, lambda i: m.store(0.0, target, i))

    def gather_rest(self, s: Callable[[Any], Lane], start: Area) -> None:
        """The problem, without its matrix, with s(contact) and y = start."""
        m, b = self.m, self.m.b
        _, free, heads, mu, y = self.places

        def head(i: Any) -> None:
            slot = m.word(self.slots, i)
            with b.if_then(b.icmp_signed("<", slot, i64(self.layout.n_heads))):
                m.store(s(slot), heads, i)

        write_loop(b, self.k, head)
        for source, target in ((self.b, free), (self.mu, mu), (start, y)):
            self.gather_rows(source, target)

    def gather_matrix(self, W: Area) -> None:
        """The matrix, from that of all rows."""
        code, m, b, n = self.code, self.m, self.m.b, self.layout.n_rows
        matrix = self.places[0]
        if self.order is not None:
            write_loop(b, self.k, lambda i: self._copy_blocks(W, i))
            return

        def copy(i: Any, first: Any, last: Any) -> None:
            """Row i with the rows of a contact, and its mirror image."""
            mine, at = m.word(self.rows, i), b.mul(i, self.n)

            def column(j: Any) -> None:
                x = code.element(W, mine, m.word(self.rows, j), n)
                m.store(x, matrix, m.plus(at, j))
                m.store(x, matrix, m.plus(b.mul(j, self.n), i))

            m.between(first, last, column)

        def contact(i: Any) -> None:
            first, end = self.rows_of(i)

            def pair(start: Any, stop: Any) -> None:
                m.between(first, end, lambda r: copy(r, start, stop))

            self.meeting(i, m.plus(i, 1), pair)

        self.clear_matrix()
        write_loop(b, self.k, contact)

    def clear_apart(self) -> None:
        """Zeros at least where contacts do not meet: what others have in common is written next."""
        if self.order is None:
            self.clear_matrix()
        elif self._masks is not None:
            write_loop(self.m.b, self.k, lambda i: self._copy_blocks(None, i))

    def clear_matrix(self) -> None:
        """Zeros where contacts do not meet, and in rows that are padded."""
        m, b, matrix = self.m, self.m.b, self.places[0]

        def clear(first: Any, end: Any) -> None:
            """Rows, in the columns that one of them needs."""
            ends = (first, b.sub(end, i64(1)))
            low, last = (b.udiv(x, i64(BLOCK)) for x in ends)
            low, last = m.word(self.lows, low), m.word(self.ends, last)

            def row(i: Any) -> None:
                at = b.mul(i, self.n)
                m.between(low, last, lambda j: m.store(0.0, matrix, m.plus(at, j)))

            m.between(first, end, row)

        def clear_end(i: Any) -> None:
            at = b.mul(i, self.n)
            m.between(self.used, self.n, lambda j: m.store(0.0, matrix, m.plus(at, j)))

        if self._masks is None:  # nothing is zero but what is padded
            write_loop(b, self.used, clear_end)
        else:
            write_loop(b, self.k, lambda i: clear(*self.rows_of(i)))
        with b.if_then(b.icmp_signed("<", self.used, self.n)):
            clear(self.used, self.n)

    def _copy_blocks(self, W: Area | None, i: Any) -> None:
        """The rows of contact i with those of contacts up to it, and their mirror images.

        Without W, zeros only.

        Of contacts of one kind that fill their blocks of rows: columns of W that a block needs are
        those of whole contacts, with which it meets, or between which there are zeros.
        """
        m, b, order = self.m, self.m.b, self.order
        assert order is not None
        matrix, n, count = self.places[0], self.layout.n_rows, len(order)
        first = m.word(self.firsts, i)
        mine = b.sub(m.word(self.rows, first), i64(order[0]))
        low = m.word(self.lows, b.udiv(first, i64(BLOCK)))

        def pair(j: Any, entry: Callable[[Any, int, int], Any]) -> None:
            start = m.word(self.firsts, j)
            other = b.sub(m.word(self.rows, start), i64(order[0]))
            down = m.at(matrix, m.plus(b.mul(first, self.n), start))
            along = m.at(matrix, m.plus(b.mul(start, self.n), first))
            for t in range(count):
                for u in range(count):
                    x = entry(other, order[t], order[u])
                    m.store(x, down, m.plus(b.mul(i64(t), self.n), u))
                    m.store(x, along, m.plus(b.mul(i64(u), self.n), t))

        def known(other: Any, t: int, u: int) -> Lane:
            assert W is not None
            return self.code.element(W, m.plus(mine, t), m.plus(other, u), n)

        def both(j: Any) -> None:
            if self._masks is None:
                pair(j, known)
                return
            if W is not None:
                with b.if_then(self.meet(i, j)):
                    pair(j, known)
            with b.if_then(b.not_(self.meet(i, j))):
                pair(j, lambda *_: self.code.e.constant(0.0))

        m.between(b.udiv(low, i64(count)), m.plus(i, 1), both)


def code_version() -> str:
    """A digest of the sources that write the code."""
    return hashlib.sha256(sources_digest("contact").encode()).hexdigest()[:16]
