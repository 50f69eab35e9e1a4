"""Products of matrices in generated code: a result that is factor · A · B.

A and B are matrices of their own, in scratch memory unless A is a result too. Which of their
entries can differ from zero is known, and a table has for every tile of the product the entries
(i, t) and (t, j) that meet there: on a tree most joints have nothing to do with each other. In a
kernel for many configurations every entry is a vector of lanes; in a kernel for one configuration
the entries of a row lie side by side and lanes are columns. Reasons for the tiles:
docs/decisions/0049.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import numpy as np

from phipsi.backends.native import data_record as record
from phipsi.backends.native.kernel.emission import Emission
from phipsi.backends.native.matrices.matrix_memory import MatrixMemory
from phipsi.backends.native.matrices.structural_zeros import filled, left_of, right_of, zeros_stay
from phipsi.backends.native.text.lane_arithmetic import (
    I64,
    WORD,
    Lane,
    fold_loop,
    i64,
    scaled,
    write_loop,
)
from phipsi.model.model import Model
from phipsi.model.points import PointSet
from phipsi.sweeps.request import Result

_ROWS, _COLUMNS = 4, 4  # entries computed together: their sums, a row and an entry in registers
_FEWER_COLUMNS = 3  # with 16 registers: 12 + 3 + 1


def can_run(results: Sequence[Result]) -> bool:
    """True if all products are of matrices between joints."""
    factors = [x for r in results if r.left is not None for x in (left_of(r), right_of(r))]
    return all(x.takes.index == x.gives.index == "joint" for x in factors)


def tile_shape(size: int, registers: int, together: int) -> tuple[int, int]:
    """Rows and columns of a tile of a product of matrices of that size.

    If lanes are columns, `together` of them are in a vector; else it is 1.
    """
    if together > 1:
        return (_ROWS if size >= _ROWS else 1), together
    columns = _COLUMNS if registers > 16 else _FEWER_COLUMNS
    return (_ROWS, columns) if size >= _ROWS else (1, 1)


def meeting_entries(
    results: Sequence[Result], model: Model, points: PointSet, shape: tuple[int, int], unit: int
) -> np.ndarray:
    """For every tile of every product, the entries of the factors that meet there.

    One word per product, where its tiles begin; one per tile, in the order of columns, where its
    entries begin, and one where the last ones end; then two per entry t: where (·, t) stands in a
    row of A and (t, ·) in a column of B, in bytes. Places are counted in words; an entry has `unit`
    bytes.
    """
    factors = [(left_of(r), right_of(r)) for r in results if r.left is not None]
    heads, parts, at = list[int](), list[np.ndarray](), len(factors)
    for a, b in factors:
        met = list(_met(_pattern(a, model, points), _pattern(b, model, points), shape))
        ends = at + len(met) + 1 + 2 * np.cumsum([0, *map(len, met)])
        every = np.concatenate(met)
        pairs = np.outer(every, (unit, unit * model.nv)).reshape(-1)
        heads.append(at)
        parts += [ends, pairs]
        at += len(ends) + len(pairs)
    return np.ascontiguousarray(np.concatenate([heads, *parts]), dtype=np.int64)


def _pattern(r: Result, model: Model, points: PointSet) -> np.ndarray:
    """(rows, columns): which entries of a factor can differ from zero."""
    if zeros_stay(r):
        return filled(r, model, points)
    return np.ones((model.nv, model.nv), dtype=bool)


def _met(a: np.ndarray, b: np.ndarray, shape: tuple[int, int]) -> Iterator[np.ndarray]:
    """The t of every tile for which A has an entry in its rows and B one in its columns."""
    n, (height, width) = len(a), shape
    rows = [a[min(i, n - height) :][:height].any(axis=0) for i in range(0, n, height)]
    last = max(n - width, 0)
    for j in range(0, n, width):
        here = b[:, min(j, last) :][:, :width].any(axis=1)
        for above in rows:
            yield np.nonzero(above & here)[0]


@final
class Products:
    """Emits the products of one kernel."""

    def __init__(self, emission: Emission, matrices: MatrixMemory) -> None:
        self.k, self.matrices = emission, matrices

    def emit(self) -> None:
        """All products, when the matrices are complete."""
        k = self.k
        products = [r for r in k.results if r.left is not None]
        if not products:
            return
        self.size, self.table = k.word(record.N_RATES), k.table(record.MEETINGS[k.several])
        for number, r in enumerate(products):
            self.first = self._word(i64(number))
            a, b = self.matrices.left(r), self.matrices.right(r)
            self._product(a, b, k.result_base(r), r.factor)

    def _word(self, at: Any) -> Any:
        m = self.k.b
        return m.load(self.k.at(self.table, m.mul(at, i64(WORD))), typ=I64)

    def _product(self, a: Any, b: Any, out: Any, factor: Any) -> None:
        k, m = self.k, self.k.b
        columns = k.group.lanes if k.several else 1
        many = tile_shape(_ROWS, k.parts.registers, columns)
        few = tile_shape(1, k.parts.registers, columns)
        with m.if_else(m.icmp_signed("<", self.size, i64(_ROWS))) as (small, large):
            with small:
                self._tiles(a, b, out, factor, few)
            with large:
                self._tiles(a, b, out, factor, many)

    def _tiles(self, a: Any, b: Any, out: Any, factor: Any, shape: tuple[int, int]) -> None:
        """All tiles; the last ones compute some entries again."""
        k, m, (height, width) = self.k, self.k.b, shape
        per_column = m.udiv(m.add(self.size, i64(height - 1)), i64(height))
        last_row = m.sub(self.size, i64(height))
        last_column = m.sub(self.size, i64(width))
        work = self._along if k.several else self._across

        def column(j: Any) -> None:
            first = m.add(self.first, m.mul(m.udiv(j, i64(width)), per_column))
            there = j if k.several else self._at_most(j, last_column)

            def row(i: Any) -> None:
                tile = m.add(first, m.udiv(i, i64(height)))
                entries = self._word(tile), self._word(m.add(tile, i64(1)))
                work(a, b, out, factor, self._at_most(i, last_row), there, shape, entries)

            write_loop(m, self.size, row, height)

        write_loop(m, self.size, column, width)

    def _at_most(self, x: Any, limit: Any) -> Any:
        m = self.k.b
        return m.select(m.icmp_signed("<", x, limit), x, limit)

    def _sums(
        self,
        entries: tuple[Any, Any],
        zero: Any,
        count: int,
        term: Callable[[Any, Any, list[Any]], list[Any]],
    ) -> list[Any]:
        """term(place in a row of A, place in a column of B, sums) for all entries of a tile."""
        m = self.k.b
        start = self.k.at(self.table, m.mul(entries[0], i64(WORD)))

        def step(i: Any, sums: list[Any]) -> list[Any]:
            at = self.k.at(start, m.mul(i, i64(WORD)))
            left, right = (m.load(self.k.at(at, i64(WORD * d)), typ=I64) for d in (0, 1))
            return term(left, right, sums)

        return fold_loop(m, m.sub(entries[1], entries[0]), 2, [zero] * count, step)

    def _starts(self, a: Any, i: Any, height: int) -> list[Any]:
        """Where rows i, i + 1, … of the left factor begin."""
        m = self.k.b
        step = m.mul(self.size, i64(self.k.bytes))
        out = [self.k.at(a, m.mul(i, step))]
        while len(out) < height:
            out.append(self.k.at(out[-1], step))
        return out

    def _across(
        self,
        a: Any,
        b: Any,
        out: Any,
        factor: Any,
        i: Any,
        j: Any,
        shape: tuple[int, int],
        entries: tuple[Any, Any],
    ) -> None:
        """One tile, where lanes are configurations."""
        k, m, e, (height, width) = self.k, self.k.b, self.k.config, shape
        lefts = self._starts(a, i, height)
        column = k.at(b, m.mul(j, i64(k.bytes)))

        def term(left: Any, right: Any, sums: list[Any]) -> list[Any]:
            there = k.at(column, right)
            others = [k.lane_load(there, i64(c * k.bytes)) for c in range(width)]
            new: list[Any] = []
            for r in range(height):
                mine = k.lane_load(lefts[r], left)
                for c in range(width):
                    old = Lane(e, sums[r * width + c])
                    new.append(mine.times_plus(others[c], old).value)
            return new

        sums = self._sums(entries, e.constant(0.0).value, height * width, term)
        for r, start in enumerate(self._starts(out, i, height)):
            where = k.at(start, m.mul(j, i64(k.bytes)))
            for c in range(width):
                entry = scaled(Lane(e, sums[r * width + c]), factor)
                k.lane_store(entry, where, i64(c * k.bytes))

    def _along(
        self,
        a: Any,
        b: Any,
        out: Any,
        factor: Any,
        i: Any,
        j: Any,
        shape: tuple[int, int],
        entries: tuple[Any, Any],
    ) -> None:
        """One tile, where lanes are columns of one configuration."""
        k, m, g = self.k, self.k.b, self.k.group
        mask = g.first(m.sub(self.size, j))
        lefts = self._starts(a, i, shape[0])
        column = k.at(b, m.mul(j, i64(k.unit)))

        def term(left: Any, right: Any, sums: list[Any]) -> list[Any]:
            others = Lane(g, g.masked_load(k.at(column, right), mask))
            mine = [g.load_shared(k.at(start, left)) for start in lefts]
            return [
                x.times_plus(others, Lane(g, old)).value for x, old in zip(mine, sums, strict=True)
            ]

        sums = self._sums(entries, g.constant(0.0).value, shape[0], term)
        for total, start in zip(sums, self._starts(out, i, shape[0]), strict=True):
            entry = scaled(Lane(g, total), factor)
            g.masked_store(entry.value, k.at(start, m.mul(j, i64(k.unit))), mask)
