"""A matrix between constraint rows, A Λ A*: within its envelope, factored as L D L* in place.

Rows are eliminated in the order of `row_order`, without exchanges, so that all configurations of a
group take the same steps. A pivot that is rounding error of the row's own diagonal entry marks a
row that depends on those before it: its multiplier is zero, and the others solve the equations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from phipsi.core.backends import errors_from_status, rank_limits
from phipsi.core.sweeps import Domain, Field
from phipsi.native import data_record as record
from phipsi.native.kernel.emission import Emission
from phipsi.native.kernel.emit_context import EmitContext
from phipsi.native.kernel.storage_plan import entry_count, is_local, root
from phipsi.native.matrices.loop_row_order import (
    N_ROW_INTEGERS,
    ROW_AT,
    ROW_BASE,
    ROW_BLOCK,
    ROW_FIRST,
    ROW_PLACE,
    ROW_WIDTH,
)
from phipsi.native.text import llvm_text as ir
from phipsi.native.text.lane_arithmetic import Lane, fold_loop, i64, write_loop


@final
class RowMatrix:
    """One matrix between rows, `local` if it has hubs; after `factor`, reciprocal pivots and L."""

    def __init__(self, emission: Emission, place: EmitContext, field: Field) -> None:
        k, b = emission, emission.b
        self.k, self.place, self.field, self.local = k, place, field, is_local(field)
        word = record.ROW_ORDERS[self.local]
        self.table, self.places, self.entries = k.table(word), k.word(word + 1), k.word(word + 2)
        start: Any = i64(0)
        for other in list(k.plan.row_matrices)[: k.plan.row_matrices[field]]:
            its = record.ROW_ORDERS[is_local(other)]
            vectors = b.mul(k.word(its + 1), i64(3))
            start = b.add(start, b.add(k.word(its + 2), vectors))
        unit = i64(k.bytes)
        area = k.area(record.ROW_MATRICES, k.bytes)
        self.matrix = k.at(area, b.mul(start, unit))
        self.sizes = k.at(self.matrix, b.mul(self.entries, unit))  # of rows, by place
        self.recips = k.at(self.sizes, b.mul(self.places, unit))  # of the pivots, by place
        self.work = k.at(self.recips, b.mul(self.places, unit))  # a vector, by place

    def integer(self, row: ir.IRValue, what: int) -> ir.IRValue:
        """A number of the table of rows."""
        b = self.k.b
        return b.word(self.table, b.add(b.mul(row, i64(N_ROW_INTEGERS)), i64(what)))

    def index(self, row: ir.IRValue, column: ir.IRValue) -> ir.IRValue:
        """Where entry (row, column) stands, the row's block not being before the column's."""
        return self.k.b.add(self.integer(row, ROW_BASE), self.integer(column, ROW_PLACE))

    def meets(self, other: ir.IRValue, current: ir.IRValue) -> tuple[Any, Any, Any]:
        """Where the entry of an earlier and a current column stands, and how far the next is.

        (swapped, index, stride): between different blocks the later one is the row; `swapped` says
        that it is the current one, whose next row is `stride` numbers on.
        """
        b = self.k.b
        mine, its = self.integer(current, ROW_BLOCK), self.integer(other, ROW_BLOCK)
        swapped = b.icmp_signed(">", mine, its)
        index = b.select(swapped, self.index(current, other), self.index(other, current))
        return swapped, index, self.integer(current, ROW_WIDTH)

    def size_index(self, column: ir.IRValue) -> ir.IRValue:
        """Where the size of a row stands in `sizes`."""
        return self.integer(column, ROW_PLACE)

    def at_hub(self, hub: ir.IRValue, component: int, column: ir.IRValue) -> Any:
        """Where the entry of a hub's row and a column stands, and how far the next row is.

        Closures outside the hub's subtree are eliminated after it: then the column is the row.
        """
        row = self.k.b.add(self._hub_row(hub), i64(component))
        return self.meets(row, column)

    def _hub_row(self, hub: ir.IRValue) -> ir.IRValue:
        b = self.k.b
        return b.add(self.k.word(record.N_ROWS), b.mul(hub, i64(6)))

    # -- elimination -------------------------------------------------------------------------------

    def _dot(
        self,
        first: ir.IRValue,
        last: ir.IRValue,
        start: Lane,
        term: Callable[[ir.IRValue], tuple[Lane, Lane]],
    ) -> Lane:
        """start − Σ over places in [first, last) of the products of two numbers."""
        k, b, e = self.k, self.k.b, self.k.emitter

        def step(n: ir.IRValue, sums: Sequence[ir.IRValue]) -> list[ir.IRValue]:
            x, y = term(b.add(first, n))
            return [(-x).times_plus(y, Lane(e, sums[0])).value]

        count = b.sub(last, first)
        return Lane(k.emitter, fold_loop(b, count, 1, [start.value], step)[0])

    def _add_halves(self) -> None:
        """In the blocks on the diagonal, add to the lower half what pairs left in the upper."""
        b = self.k.b

        def row(p: ir.IRValue) -> None:
            mine = self.integer(p, ROW_AT)
            base = self.integer(mine, ROW_BASE)
            end = b.add(self.integer(mine, ROW_FIRST), self.integer(mine, ROW_WIDTH))
            after = b.add(p, i64(1))

            def entry(n: ir.IRValue) -> None:
                q = b.add(after, n)
                here = b.add(self.integer(self.integer(q, ROW_AT), ROW_BASE), p)
                total = self.k.load(self.matrix, here) + self.k.load(self.matrix, b.add(base, q))
                self.k.store(total, self.matrix, here)

            write_loop(b, b.sub(end, after), entry)

        write_loop(b, self.places, row)

    def _write_hubs(self) -> None:
        """−Υ of every hub on the diagonal."""
        k, b, e = self.k, self.k.b, self.k.emitter
        admittance = root(self.field.args[0].args[1])
        start = k.plan.body[admittance]

        def hub(n: ir.IRValue) -> None:
            body = b.word(k.table(record.HUBS), n)
            where = k.record(Domain.BODY, False, b.add(body, i64(1)))
            first = self._hub_row(n)
            found = [k.entry_load(admittance, where, start, i) for i in range(21)]
            traces = [_diagonal_sum(found, half) for half in (range(3), range(3, 6))]
            for i in range(6):
                place = self.integer(b.add(first, i64(i)), ROW_PLACE)
                self.k.store(traces[i // 3], self.sizes, place)
                for j in range(i + 1):
                    value = found[i * (i + 1) // 2 + j]
                    where = self.index(b.add(first, i64(i)), b.add(first, i64(j)))
                    self.k.store(e.lift(-value), self.matrix, where)

        assert entry_count(admittance, 6) == 21
        write_loop(b, k.word(record.N_HUBS), hub)

    def factor(self) -> None:
        """L D L*, row by row: below the diagonal L, and the reciprocal pivots apart."""
        b, e, tolerance = self.k.b, self.k.emitter, self.k.emitter.number.tolerance
        self._add_halves()
        if self.local:
            self._write_hubs()

        def eliminate(p: ir.IRValue) -> None:
            _, base, first = self._row_at(p)
            diagonal = self.k.load(self.matrix, b.add(base, p))

            # first the entries of L D, then of L, because D L* of earlier columns is needed
            def column(n: ir.IRValue) -> None:
                j = b.add(first, n)
                _, base_j, first_j = self._row_at(j)
                start = b.select(b.icmp_signed(">", first, first_j), first, first_j)
                here = b.add(base, j)
                value = self._dot(
                    start,
                    j,
                    self.k.load(self.matrix, here),
                    lambda m: (
                        self.k.load(self.matrix, b.add(base, m)),  # L D of this row
                        self.k.load(self.matrix, b.add(base_j, m)),  # L of the earlier row
                    ),
                )
                self.k.store(value, self.matrix, here)

            write_loop(b, b.sub(p, first), column)

            def scale(n: ir.IRValue, sums: Sequence[ir.IRValue]) -> list[ir.IRValue]:
                j = b.add(first, n)
                here = b.add(base, j)
                product = self.k.load(self.matrix, here)
                entry = product * self.k.load(self.recips, j)
                self.k.store(entry, self.matrix, here)
                return [(-product).times_plus(entry, Lane(e, sums[0])).value]

            pivot = Lane(e, fold_loop(b, b.sub(p, first), 1, [diagonal.value], scale)[0])
            own = e.intrinsic("fabs", diagonal) * tolerance(rank_limits.ROW_TOLERANCE)
            floor = self.k.load(self.sizes, p) * tolerance(rank_limits.ROW_FLOOR)
            least = e.intrinsic("maxnum", own, floor)
            good = e.compare(">", e.intrinsic("fabs", pivot), least)
            recip = e.select(good, 1.0 / e.select(good, pivot, 1.0), 0.0)
            self.k.store(recip, self.recips, p)

        write_loop(b, self.places, eliminate)

    # -- solution ----------------------------------------------------------------------------------

    def solve(self, x: Field) -> None:
        """S⁻¹ u of a vector, or of the current columns: forward and back substitution."""
        k, b, e = self.k, self.k.b, self.k.emitter
        y = _Unknowns(self, x)
        if y.in_work:  # rows of hubs have a zero on the right
            write_loop(b, self.places, lambda p: y.put(p, e.constant(0.0)))

        def given(row: ir.IRValue, largest: Sequence[ir.IRValue]) -> list[ir.IRValue]:
            value = k.load_entry(x.args[1], row)
            y.put(self.integer(row, ROW_PLACE), value)
            return [e.intrinsic("maxnum", Lane(e, largest[0]), e.intrinsic("fabs", value)).value]

        zero = e.constant(0.0).value
        largest = Lane(e, fold_loop(b, k.word(record.N_ROWS), 1, [zero], given)[0])
        self._substitute_forward(y, largest)
        write_loop(b, self.places, lambda p: y.put(p, y.get(p) * k.load(self.recips, p)))
        self._substitute_back(y)
        if y.in_work:
            write_loop(
                b,
                k.word(record.N_ROWS),
                lambda row: k.store_entry(x, row, y.get(self.integer(row, ROW_PLACE))),
            )

    def _row_at(self, p: ir.IRValue) -> tuple[Any, Any, Any]:
        """The row at a place, where its entries begin, and the first place of its stretch."""
        row = self.integer(p, ROW_AT)
        return row, self.integer(row, ROW_BASE), self.integer(row, ROW_FIRST)

    def _substitute_forward(self, y: _Unknowns, largest: Lane) -> None:
        """L⁻¹ y; what dependent rows ask for beyond the others is compared with the largest u."""
        k, b, e, fail = self.k, self.k.b, self.k.emitter, self.place.fail
        tolerance = e.number.tolerance
        limit = largest * rank_limits.ROW_GAP + tolerance(rank_limits.ROW_GAP_LEAST)
        doubt = largest * tolerance(rank_limits.ROW_DOUBT) + tolerance(rank_limits.ROW_DOUBT_LEAST)

        def forward(p: ir.IRValue) -> None:
            row, base, first = self._row_at(p)
            value = self._dot(
                first, p, y.get(p), lambda m: (k.load(self.matrix, b.add(base, m)), y.get(m))
            )
            y.put(p, value)
            if not y.in_work:
                return
            # a dependent row must ask for what those before it give
            unused = e.compare("==", k.load(self.recips, p), 0.0)
            gap = e.intrinsic("fabs", value)
            ours = b.icmp_signed("<", row, k.word(record.N_ROWS))
            unused = b.select(ours, unused, b.xor(unused, unused))
            wrong, doubtful = errors_from_status.CONTRADICTION, errors_from_status.DOUBTFUL
            fail(b.and_(unused, e.compare(">", gap, limit)), wrong, row, over=doubtful)
            fail(b.and_(unused, e.compare(">", gap, doubt)), doubtful, row)

        write_loop(b, self.places, forward)

    def _substitute_back(self, y: _Unknowns) -> None:
        """L⁻* y."""
        k, b = self.k, self.k.b

        def back(n: ir.IRValue) -> None:
            p = b.sub(b.sub(self.places, n), i64(1))
            _, base, first = self._row_at(p)
            value = y.get(p)

            def spread(m: ir.IRValue) -> None:
                j = b.add(first, m)
                entry = -k.load(self.matrix, b.add(base, j))
                y.put(j, entry.times_plus(value, y.get(j)))

            write_loop(b, b.sub(p, first), spread)

        write_loop(b, self.places, back)


@final
class _Unknowns:
    """The vector that is solved for, by place; columns are solved for where they are stored."""

    def __init__(self, matrix: RowMatrix, x: Field) -> None:
        self.matrix, self.x, self.in_work = matrix, x, x.type.cols == "1"

    def get(self, p: ir.IRValue) -> Lane:
        """The number at a place."""
        m = self.matrix
        if self.in_work:
            return m.k.load(m.work, p)
        return m.k.load_entry(self.x, m.integer(p, ROW_AT))

    def put(self, p: ir.IRValue, value: Lane) -> None:
        """Write the number at a place."""
        m = self.matrix
        if self.in_work:
            m.k.store(value, m.work, p)
        else:
            m.k.store_entry(self.x, m.integer(p, ROW_AT), value)


def _diagonal_sum(lower: list[Lane], rows: range) -> Lane:
    """Part of the trace of a symmetric matrix, given by its lower half."""
    first, second, third = (lower[i * (i + 1) // 2 + i] for i in rows)
    return first + second + third
