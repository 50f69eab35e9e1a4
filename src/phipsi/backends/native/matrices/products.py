"""Products of matrices in generated code: a result that is factor · A · B, where A is a result too.

B is written into the buffer of the result like any other matrix; when all is written, blocks of its
columns are moved aside and multiplied with A. Rows of a block that are all zero are left out: on a
tree most joints have nothing to do with each other. In a kernel for many configurations every entry
is a vector of lanes and the loops run over tiles of entries; in a kernel for one configuration
the entries of a row lie side by side and lanes are columns. Reasons for the tiles:
docs/decisions/0049.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from phipsi.backends.native import data_record as record
from phipsi.backends.native.kernel.emission import Emission
from phipsi.backends.native.matrices.matrix_memory import MatrixMemory
from phipsi.backends.native.text import llvm_text as ir
from phipsi.backends.native.text.lane_arithmetic import (
    I8,
    I64,
    WORD,
    Emitter,
    Lane,
    fold_loop,
    i64,
    scaled,
    write_loop,
)
from phipsi.sweeps.request import Result

_ROWS, _COLUMNS = 4, 4  # entries computed together: their sums, a row and an entry in registers
_FEWER_COLUMNS = 3  # with 16 registers: 12 + 3 + 1
_AT_ONCE = 4


def can_run(results: Sequence[Result]) -> bool:
    """True if the left factors of all products are results themselves."""
    plain = {r.field for r in results if r.layout == "blocks" and r.left is None}
    return all(r.left is None or r.left in plain for r in results)


def workspace(results: Sequence[Result], size: int, lanes: int, unit: int) -> int:
    """How many numbers of `unit` bytes are needed to move columns aside, and a word per row."""
    several = any(r.left is not None for r in results)
    return size * (max(lanes, _COLUMNS) + WORD // unit) if several else 0


@final
class Products:
    """Emits the products of one kernel."""

    def __init__(self, emission: Emission, matrices: MatrixMemory) -> None:
        self.k, self.matrices = emission, matrices
        self._columns_at_once = _COLUMNS if emission.parts.registers > 16 else _FEWER_COLUMNS

    def emit(self) -> None:
        """All products, when the matrices are complete."""
        k = self.k
        for r in k.results:
            if r.left is None:
                continue
            (left,) = (s for s in k.results if s.field is r.left and s.left is None)
            self.size = k.count_of(r.takes)
            a, b = k.result_base(left), k.result_base(r)
            self.aside = k.area(record.ASIDE, k.bytes)
            wide = max(k.group.lanes, _COLUMNS)
            self.rows = k.at(self.aside, k.b.mul(self.size, i64(k.bytes * wide)))
            self.masked = self.matrices.masked(r)
            if k.several:
                self._along(a, b, r.factor)
            else:
                self._across(a, b, r.factor)

    # -- lanes are configurations ------------------------------------------------------------------

    def _across(self, a: Any, b: Any, factor: Any) -> None:
        m, count = self.k.b, self._columns_at_once
        whole = m.mul(m.udiv(self.size, i64(count)), i64(count))
        write_loop(m, whole, lambda j: self._columns(a, b, factor, j, count), count)
        rest = m.sub(self.size, whole)
        write_loop(m, rest, lambda j: self._columns(a, b, factor, m.add(whole, j), 1))

    def _columns(self, a: Any, b: Any, factor: Any, j: Any, count: int) -> None:
        """Columns j, j + 1, … of the product, in place of those of B."""
        k, m, e = self.k, self.k.b, self.k.config

        def move(i: Any, found: list[Any]) -> list[Any]:
            first = m.add(m.mul(i, self.size), j)
            if self.masked:
                return self._move_some(i, b, first, found[0], count)
            start = k.at(b, m.mul(first, i64(k.bytes)))
            entries = [k.lane_load(start, i64(c * k.bytes)) for c in range(count)]
            aside = k.at(self.aside, m.mul(found[0], i64(_COLUMNS * k.bytes)))
            for c, entry in enumerate(entries):
                k.lane_store(entry, aside, i64(c * k.bytes))
            return self._keep(i, found[0], [x.value for x in entries], e)

        kept = fold_loop(m, self.size, 1, [i64(0)], move)[0]

        def rows(i: Any, height: int) -> None:
            zero = e.constant(0.0).value
            lefts = self._starts(a, i, height, k.bytes)

            def term(t: Any, sums: list[Any]) -> list[Any]:
                aside = k.at(self.aside, m.mul(t, i64(_COLUMNS * k.bytes)))
                right = [k.lane_load(aside, i64(c * k.bytes)) for c in range(count)]
                out: list[Any] = []
                row = self._row(t)
                for r in range(height):
                    left = k.lane_load(lefts[r], row)
                    for c in range(count):
                        old = Lane(e, sums[r * count + c])
                        out.append(left.times_plus(right[c], old).value)
                return out

            sums = fold_loop(m, kept, 1, [zero] * (height * count), term)
            for r in range(height):
                for c in range(count):
                    at = m.add(m.add(m.mul(m.add(i, i64(r)), self.size), j), i64(c))
                    entry = scaled(Lane(e, sums[r * count + c]), factor)
                    k.lane_store(entry, b, m.mul(at, i64(k.bytes)))

        last = m.sub(self.size, i64(_ROWS))

        def tile(i: Any) -> None:  # the last one may compute some rows again
            rows(m.select(m.icmp_signed("<", i, last), i, last), _ROWS)

        with m.if_else(m.icmp_signed("<", last, i64(0))) as (few, many):
            with few:
                write_loop(m, self.size, lambda i: rows(i, 1))
            with many:
                write_loop(m, self.size, tile, _ROWS)

    def _move_some(self, i: Any, b: Any, first: Any, found: Any, count: int) -> list[Any]:
        """The same for a factor with known zeros, which may hold anything there."""
        k, m, e = self.k, self.k.b, self.k.config
        table = k.at(k.table(record.RELATED), first)
        flags = m.load(table, typ=ir.IntType(I8.width * count), align=1)
        some = m.icmp_signed("!=", flags, ir.Constant(flags.type, 0))
        with m.if_then(some):
            start = k.at(b, m.mul(first, i64(k.bytes)))
            aside = k.at(self.aside, m.mul(found, i64(_COLUMNS * k.bytes)))
            for c in range(count):
                flag = m.load(k.at(table, i64(c)), typ=I8)
                filled = m.icmp_signed("!=", flag, ir.Constant(I8, 0))
                entry = e.select(filled, k.lane_load(start, i64(c * k.bytes)), 0.0)
                k.lane_store(entry, aside, i64(c * k.bytes))
            m.store(m.mul(i, i64(k.bytes)), k.at(self.rows, m.mul(found, i64(WORD))), align=k.unit)
        return [m.add(found, m.zext(some, I64))]

    def _starts(self, a: Any, i: Any, height: int, unit: int) -> list[Any]:
        """Where rows i, i + 1, … of the left factor begin."""
        m = self.k.b
        step = m.mul(self.size, i64(unit))
        out = [self.k.at(a, m.mul(i, step))]
        while len(out) < height:
            out.append(self.k.at(out[-1], step))
        return out

    def _row(self, t: Any) -> Any:
        """Where the entry that belongs to kept row t stands in a row of the left factor."""
        m = self.k.b
        return m.load(self.k.at(self.rows, m.mul(t, i64(WORD))), align=self.k.unit, typ=I64)

    def _keep(self, i: Any, found: Any, entries: list[Any], e: Emitter) -> list[Any]:
        """Note row i, and count it unless it is all zero; then the next one takes its place."""
        m = self.k.b
        place = m.mul(i, i64(self.k.bytes))
        m.store(place, self.k.at(self.rows, m.mul(found, i64(WORD))), align=self.k.unit)
        several = e.lanes > 1
        bits: Any = None
        for x in entries:
            one = m.bitcast(x, e.integers)
            bits = one if bits is None else m.or_(bits, one)
        # twice the bits drops the sign, so that −0 is zero
        doubled = m.add(bits, bits)
        if several:
            mask = m.icmp_signed("!=", doubled, e.integer(0))
            flags = m.bitcast(mask, ir.IntType(e.lanes))
            some = m.icmp_unsigned("!=", flags, ir.Constant(ir.IntType(e.lanes), 0))
        else:
            some = m.icmp_signed("!=", doubled, e.integer(0))
        return [m.add(found, m.zext(some, I64))]

    # -- lanes are columns of one configuration ----------------------------------------------------

    def _along(self, a: Any, b: Any, factor: Any) -> None:
        k, m, g = self.k, self.k.b, self.k.group
        width = g.bytes

        def group(j: Any) -> None:
            mask = g.first(m.sub(self.size, j))

            def place(i: Any) -> Any:
                return k.at(b, m.mul(m.add(m.mul(i, self.size), j), i64(k.unit)))

            def move(i: Any, found: list[Any]) -> list[Any]:
                x = g.masked_load(place(i), mask)
                g.store(Lane(g, x), k.at(self.aside, m.mul(found[0], i64(width))))
                return self._keep(i, found[0], [x], g)

            kept = fold_loop(m, self.size, 1, [i64(0)], move)[0]
            zero = g.constant(0.0).value

            def rows(i: Any, height: int) -> None:
                lefts = self._starts(a, i, height, k.unit)

                def term(t: Any, sums: list[Any]) -> list[Any]:
                    where = k.at(self.aside, m.mul(t, i64(width)))
                    right = g.load(where)
                    out: list[Any] = []
                    row = self._row(t)
                    for r in range(height):
                        left = g.load_shared(k.at(lefts[r], row))
                        out.append(left.times_plus(right, Lane(g, sums[r])).value)
                    return out

                sums = fold_loop(m, kept, 1, [zero] * height, term)
                for r in range(height):
                    entry = scaled(Lane(g, sums[r]), factor)
                    g.masked_store(entry.value, place(m.add(i, i64(r))), mask)

            whole = m.mul(m.udiv(self.size, i64(_AT_ONCE)), i64(_AT_ONCE))
            write_loop(m, whole, lambda i: rows(i, _AT_ONCE), _AT_ONCE)
            write_loop(m, m.sub(self.size, whole), lambda i: rows(m.add(whole, i), 1))

        write_loop(m, self.size, group, g.lanes)
