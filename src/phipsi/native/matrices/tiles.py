"""Tiles of matrices: transposed in registers, and products A B with known zeros.

The table of a product has for every tile the t for which A has an entry (i, t) in its rows and B an
entry (t, j) in its columns: on a tree most joints have nothing to do with each other. The last
tiles of rows and columns reach back over the ones before them, and compute some entries again.
Reasons: docs/decisions/0058; for the sizes: docs/decisions/0049.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import numpy as np

from phipsi.native import data_record as record
from phipsi.native.kernel.emission import Emission
from phipsi.native.text import llvm_text as ir
from phipsi.native.text.lane_arithmetic import (
    I32,
    I64,
    WORD,
    Lane,
    at_most,
    fold_loop,
    i64,
    write_loop,
)
from phipsi.native.text.llvm_values import IRConstant, VectorType

# ---- transposed in registers ---------------------------------------------------------------------


def transpose(b: Any, rows: list[Any]) -> list[Any]:
    """The transpose of a tile of vectors, by exchanging halves, then quarters and so on."""
    n = len(rows)
    width = n // 2
    while width:
        out = list(rows)
        for i in range(n):
            if i & width:
                continue
            upper = [j if not j & width else n + (j ^ width) for j in range(n)]
            lower = [j | width if not j & width else n + j for j in range(n)]
            for target, indices in ((i, upper), (i | width, lower)):
                mask = IRConstant(VectorType(I32, n), indices)
                out[target] = b.shuffle_vector(rows[i], rows[i | width], mask)
        rows = out
        width //= 2
    return rows


def mirror_tiles(k: Emission, base: ir.IRValue, n: ir.IRValue) -> None:
    """Fill the lower half of an n × n matrix of one configuration from its upper half."""
    b, g = k.b, k.group

    def where(row: ir.IRValue, column: ir.IRValue) -> ir.IRValue:
        return k.at(base, b.mul(b.add(b.mul(row, n), column), i64(k.unit)))

    def tile(i: ir.IRValue, j: ir.IRValue) -> None:
        """Rows from i and columns from j on, to rows from j and columns from i on."""
        inside = g.splat_integer(b.sub(n, j))
        rows: list[Any] = []
        for r in range(g.lanes):
            row = b.add(i, i64(r))
            limit = b.select(b.icmp_signed("<", row, n), inside, g.splat_integer(i64(0)))
            mask = b.icmp_signed("<", g.numbers, limit)
            rows.append(g.masked_load(where(row, j), mask))
        for c, column in enumerate(transpose(b, rows)):
            row = b.add(j, i64(c))
            below = b.select(b.icmp_signed("<", row, n), b.sub(row, i), i64(0))
            mask = g.first(below)
            g.masked_store(column, where(row, i), mask)

    def strip(i: ir.IRValue) -> None:
        write_loop(b, b.sub(n, i), lambda j: tile(i, b.add(i, j)), g.lanes)

    write_loop(b, n, strip, g.lanes)


# ---- products with known zeros -------------------------------------------------------------------


_ROWS, _COLUMNS = 4, 4  # entries computed together: their sums, a row and an entry in registers
_FEWER_COLUMNS = 3  # with 16 registers: 12 + 3 + 1

Shape = tuple[int, int]
Work = Callable[[Any, Any, Shape, tuple[Any, Any]], None]
"""A tile, from its first row and column, its shape, and where its entries begin and end."""


def tile_shape(size: int, registers: int, together: int = 1) -> Shape:
    """Rows and columns of a tile of a matrix of that size.

    If lanes are columns, `together` of them are in a vector.
    """
    if together > 1:
        return (_ROWS if size >= _ROWS else 1), together
    columns = _COLUMNS if registers > 16 else _FEWER_COLUMNS
    return (_ROWS, columns) if size >= _ROWS else (1, 1)


def meeting_table(
    factors: Sequence[tuple[np.ndarray, np.ndarray]], shape: Shape, unit: int
) -> np.ndarray:
    """The entries that meet, for the tiles of all products, from the entries that factors have.

    One word per product, where its tiles begin; one per tile, in the order of columns, where its
    entries begin, and one where the last ones end; then two per entry t: where (·, t) stands in a
    row and (t, ·) in a column, in bytes. Places are counted in words; an entry has `unit` bytes.
    """
    heads, parts, at = list[int](), list[np.ndarray](), len(factors)
    for a, b in factors:
        met = list(_met(a, b, shape))
        ends = at + len(met) + 1 + 2 * np.cumsum([0, *map(len, met)])
        pairs = np.outer(np.concatenate(met), (unit, unit * len(a))).reshape(-1)
        heads.append(at)
        parts += [ends, pairs]
        at += len(ends) + len(pairs)
    return np.ascontiguousarray(np.concatenate([heads, *parts]), dtype=np.int64)


def _met(a: np.ndarray, b: np.ndarray, shape: Shape) -> Iterator[np.ndarray]:
    n, (height, width) = len(a), shape
    rows = [a[min(i, n - height) :][:height].any(axis=0) for i in range(0, n, height)]
    last = max(n - width, 0)
    for j in range(0, n, width):
        here = b[:, min(j, last) :][:, :width].any(axis=1)
        for above in rows:
            yield np.nonzero(above & here)[0]


@final
class MeetingTiles:
    """Emits loops over the tiles of one product, the `number`th of a table."""

    def __init__(self, emission: Emission, word: int, number: int = 0) -> None:
        k = self.k = emission
        self.size, self.table = k.word(record.N_RATES), k.table(word)
        self._first = k.b.word(self.table, i64(number))

    def emit(self, work: Work, *, upper: bool = False) -> None:
        """All tiles; with `upper`, those that have an entry on the diagonal or above it."""
        k, m = self.k, self.k.b
        together = k.group.lanes if k.several else 1
        few, many = (tile_shape(n, k.parts.target.registers, together) for n in (1, _ROWS))
        known = self.size.number
        if known is not None:
            self._tiles(work, tile_shape(known, k.parts.target.registers, together), upper)
            return
        with m.if_else(m.icmp_signed("<", self.size, i64(_ROWS))) as (small, large):
            with small:
                self._tiles(work, few, upper)
            with large:
                self._tiles(work, many, upper)

    def _tiles(self, work: Work, shape: Shape, upper: bool) -> None:
        k, m, (height, width) = self.k, self.k.b, shape
        per_column = m.udiv(m.add(self.size, i64(height - 1)), i64(height))
        last_row, last_column = (m.sub(self.size, i64(n)) for n in shape)

        def column(j: Any) -> None:
            first = m.add(self._first, m.mul(m.udiv(j, i64(width)), per_column))
            there = j if k.several else at_most(m, j, last_column)

            def row(i: Any) -> None:
                tile = m.add(first, m.udiv(i, i64(height)))
                entries = m.word(self.table, tile), m.word(self.table, m.add(tile, i64(1)))
                work(at_most(m, i, last_row), there, shape, entries)

            end = at_most(m, self.size, m.add(j, i64(width))) if upper else self.size
            write_loop(m, end, row, height)

        write_loop(m, self.size, column, width)

    def across(
        self,
        entries: tuple[Any, Any],
        shape: Shape,
        places: Callable[[Any, Any], tuple[Sequence[tuple[Any, Any]], Any]],
    ) -> list[Lane]:
        """The numbers of a tile, row by row, where lanes are configurations.

        `places(place in a row, place in a column)` are where the entries of A are, address and
        offset for each row, and the address of that of B in the first column.
        """
        k, e, (height, width) = self.k, self.k.config, shape

        def term(row: Any, column: Any, sums: list[Any]) -> list[Any]:
            mine, theirs = places(row, column)
            others = [k.lane_load(theirs, i64(c * k.bytes)) for c in range(width)]
            new: list[Any] = []
            for r, where in enumerate(mine):
                entry = k.lane_load(*where)
                for c in range(width):
                    new.append(entry.times_plus(others[c], Lane(e, sums[r * width + c])).value)
            return new

        return [Lane(e, x) for x in self.sums(entries, e.constant(0.0).value, height * width, term)]

    def sums(
        self,
        entries: tuple[Any, Any],
        zero: Any,
        count: int,
        term: Callable[[Any, Any, list[Any]], list[Any]],
    ) -> list[Any]:
        """`count` sums of term(place in a row, place in a column, sums) over a tile's entries."""
        m = self.k.b
        start = self.k.at(self.table, m.mul(entries[0], i64(WORD)))

        def step(i: Any, sums: list[Any]) -> list[Any]:
            at = self.k.at(start, m.mul(i, i64(WORD)))
            row, column = (m.load(self.k.at(at, i64(WORD * d)), typ=I64) for d in (0, 1))
            return term(row, column, sums)

        return fold_loop(m, m.sub(entries[1], entries[0]), 2, [zero] * count, step)
