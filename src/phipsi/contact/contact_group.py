"""Gathering the contacts of a group of lanes: those that are there in any of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from phipsi.backends.native.kernel.law_code import Area
from phipsi.backends.native.pipeline import sources_digest
from phipsi.backends.native.text import llvm_text as ir
from phipsi.backends.native.text.lane_arithmetic import I64, Lane, i64, write_cases, write_loop
from phipsi.contact.cone_code import work_size
from phipsi.contact.cone_problem import INACTIVE, ROWS, ConeLayout
from phipsi.contact.lane_cones import KINDS, Kind
from phipsi.contact.lane_elimination import BLOCK, Numbers, padded, word_table


class ContactGroup:
    """The contacts that are there in any lane: `contacts` and `rows`, lists of words in memory.

    **Attributes:** `k`, how many; `used`, their rows; `n`, the same padded; `slots`, which contact
    of the layout each is; `rows`, which row of the layout each row is.
    """

    def __init__(self, code: Any, layout: ConeLayout, W: Area, b: Area, mu: Area) -> None:
        self.code, self.layout, self.W, self.b, self.mu = code, layout, W, b, mu
        kinds = [*layout.contacts, *["normal"] * layout.stops, *["limit"] * layout.limits]
        self.kinds = [x for x in KINDS if x in kinds]
        numbers = [self.kinds.index(x) for x in kinds]
        first = layout.n_rows - layout.stops - layout.limits
        firsts = [*layout.firsts, *range(first, layout.n_rows)]
        self.m = Numbers(code.e)
        self._kinds, self._firsts = (word_table(code.module, x) for x in (numbers, firsts))
        self.count = len(kinds)
        self.contacts, self.slots, self.rows = (
            self._words(x) for x in (2 * self.count, self.count, padded(layout.n_rows))
        )
        many = self.size = padded(layout.n_rows)
        sizes = (many * many, many, max(1, self.count), many, many)
        self.places = [code.area(x).base for x in sizes]
        self.work = code.area(work_size(many, self.count)).base

    def _words(self, count: int) -> Any:
        return self.code.area(max(1, -(-count // self.code.e.lanes))).base

    def list_contacts(self, s: Area) -> None:
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
                for t, place in enumerate(_order(rows)):
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
        more = m.plus(self.used, BLOCK - 1)
        self.n = b.sub(more, b.srem(more, i64(BLOCK)))

    def call(self, function: ir.Function, results: Any) -> None:
        """Call a function of a gathered problem; see `ARGUMENTS`."""
        ends = [results, self.contacts, self.k, self.n, self.work]
        self.m.b.call(function, [*self.places, *ends])

    def scatter(self, source: Any, target: Area) -> None:
        """Numbers of rows, back to all rows; zero where there is no contact."""
        m, n = self.m, self.layout.n_rows
        write_loop(m.b, i64(n), lambda i: m.store(0.0, target.base, i))
        write_loop(
            m.b,
            self.used,
            lambda i: m.store(m.load(source, i), target.base, m.word(self.rows, i)),
        )

    def scatter_heads(self, source: Any, target: Area) -> None:
        """Numbers of contacts, back to all contacts and stops."""
        m, b, k = self.m, self.m.b, self.layout.n_heads
        write_loop(b, i64(k), lambda i: m.store(0.0, target.base, i))

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

    def gather(self, s: Callable[[Any], Lane], start: Area) -> None:
        """The problem with s(contact) and y = start."""
        code, m, b, n = self.code, self.m, self.m.b, self.layout.n_rows
        matrix, free, heads, mu, y = self.places

        def clear(at: Any, first: Any) -> None:
            m.between(first, self.n, lambda j: m.store(0.0, matrix, m.plus(at, j)))

        def row(i: Any) -> None:
            mine = m.word(self.rows, i)
            inside, at = b.mul(mine, i64(n)), b.mul(i, self.n)

            def column(j: Any) -> None:
                other = m.word(self.rows, j)
                m.store(code.entry(self.W, m.plus(inside, other)), matrix, m.plus(at, j))

            write_loop(b, self.used, column)
            clear(at, self.used)

        def pad(i: Any) -> None:
            clear(b.mul(i, self.n), 0)

        def head(i: Any) -> None:
            slot = m.word(self.slots, i)
            with b.if_then(b.icmp_signed("<", slot, i64(self.layout.n_heads))):
                m.store(s(slot), heads, i)

        write_loop(b, self.used, row)
        m.between(self.used, self.n, pad)
        write_loop(b, self.k, head)
        for source, target in ((self.b, free), (self.mu, mu), (start, y)):
            self.gather_rows(source, target)


def _order(kind: Kind) -> list[int]:
    """Where the rows of a contact are in its layout, in the order of elimination."""
    layout = next((x for x in ROWS.values() if sorted(x) == sorted(kind.letters)), kind.letters)
    return [layout.index(x) for x in kind.letters]


def code_version() -> str:
    """A digest of the sources that write the code."""
    return hashlib.sha256(sources_digest("contact").encode()).hexdigest()[:16]
