"""A matrix between constraint rows, A Λ A*: within its envelope, factored as L D L* in place.

Rows are eliminated in the order of `row_order`, without exchanges, so that all configurations of a
group take the same steps. A pivot that is rounding error of the row's own diagonal entry marks a
row that depends on those before it: its multiplier is zero, and the others solve the equations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from phipsi.backends.failures import ROW_TOLERANCE
from phipsi.backends.native.lanes import I64, Lane, fold_loop, write_loop
from phipsi.backends.native.record import N_ENVELOPE, N_ROWS, ROW_INTEGERS, ROW_MATRICES
from phipsi.backends.native.row_order import (
    N_ROW_INTEGERS,
    ROW_AT,
    ROW_BASE,
    ROW_FIRST,
    ROW_PLACE,
)
from phipsi.backends.native.trigonometry import i64
from phipsi.sweeps.ir import Field

if TYPE_CHECKING:
    from phipsi.backends.native.kernel import Kernel


class RowMatrix:
    """One matrix between rows; after `factor`, the reciprocal pivots and the factor L."""

    def __init__(self, kernel: Kernel, field: Field) -> None:
        self.k, self.field = kernel, field
        b = kernel.b
        rows, self.entries = kernel.word(N_ROWS), kernel.word(N_ENVELOPE)
        area = kernel.area(ROW_MATRICES, kernel.bytes)
        before = b.mul(b.add(rows, self.entries), i64(kernel.plan.row_matrices[field]))
        self.recips = kernel.at(area, b.mul(before, i64(kernel.bytes)))  # of the pivots, by place
        self.matrix = kernel.at(self.recips, b.mul(rows, i64(kernel.bytes)))

    def _integer(self, row: Any, what: int) -> Any:
        k, b = self.k, self.k.b
        index = b.add(b.mul(row, i64(N_ROW_INTEGERS)), i64(what))
        return b.load(k.at(k.word(ROW_INTEGERS), b.mul(index, i64(8))), typ=I64)

    def index(self, row: Any, column: Any) -> Any:
        """Where entry (row, column) stands; both numbered as the user's rows."""
        place = self._integer(column, ROW_PLACE)
        return self.k.b.add(self._integer(row, ROW_BASE), place)

    def _load(self, base: Any, index: Any) -> Lane:
        return self.k.lane_load(base, self.k.b.mul(index, i64(self.k.bytes)))

    def _store(self, value: Lane, base: Any, index: Any) -> None:
        self.k.lane_store(value, base, self.k.b.mul(index, i64(self.k.bytes)))

    def _dot(self, first: Any, last: Any, start: Lane, term: Any) -> Lane:
        """start − Σ over places in [first, last) of the products of two numbers."""
        k, b, e = self.k, self.k.b, self.k.emitter

        def step(n: Any, sums: list[Any]) -> list[Any]:
            x, y = term(b.add(first, n))
            return [(-x).times_plus(y, Lane(e, sums[0])).value]

        count = b.sub(last, first)
        return Lane(k.emitter, fold_loop(b, count, 1, [start.value], step)[0])

    def _add_halves(self) -> None:
        """Below the diagonal, add what pairs of rows left above it."""
        b = self.k.b

        def row(p: Any) -> None:
            mine = self._integer(p, ROW_AT)
            base, first = self._integer(mine, ROW_BASE), self._integer(mine, ROW_FIRST)

            def entry(n: Any) -> None:
                j = b.add(first, n)
                above = b.add(self._integer(self._integer(j, ROW_AT), ROW_BASE), p)
                here = b.add(base, j)
                total = self._load(self.matrix, here) + self._load(self.matrix, above)
                self._store(total, self.matrix, here)

            write_loop(b, b.sub(p, first), entry)

        write_loop(b, self.k.word(N_ROWS), row)

    def factor(self) -> None:
        """L D L*, row by row: below the diagonal L, and the reciprocal pivots apart."""
        k, b, e = self.k, self.k.b, self.k.emitter
        self._add_halves()

        def eliminate(p: Any) -> None:
            row = self._integer(p, ROW_AT)
            base, first = self._integer(row, ROW_BASE), self._integer(row, ROW_FIRST)
            diagonal = self._load(self.matrix, b.add(base, p))

            # first the entries of L D, then of L, because D L* of earlier columns is needed
            def column(n: Any) -> None:
                j = b.add(first, n)
                other = self._integer(j, ROW_AT)
                base_j, first_j = self._integer(other, ROW_BASE), self._integer(other, ROW_FIRST)
                start = b.select(b.icmp_signed(">", first, first_j), first, first_j)
                here = b.add(base, j)
                value = self._dot(
                    start,
                    j,
                    self._load(self.matrix, here),
                    lambda m: (
                        self._load(self.matrix, b.add(base, m)),  # L D of this row
                        self._load(self.matrix, b.add(base_j, m)),  # L of the earlier row
                    ),
                )
                self._store(value, self.matrix, here)

            write_loop(b, b.sub(p, first), column)

            def scale(n: Any, sums: list[Any]) -> list[Any]:
                j = b.add(first, n)
                here = b.add(base, j)
                product = self._load(self.matrix, here)
                entry = product * self._load(self.recips, j)
                self._store(entry, self.matrix, here)
                return [(-product).times_plus(entry, Lane(e, sums[0])).value]

            pivot = Lane(e, fold_loop(b, b.sub(p, first), 1, [diagonal.value], scale)[0])
            size = e.intrinsic("fabs", diagonal) * ROW_TOLERANCE
            good = e.compare(">", e.intrinsic("fabs", pivot), size)
            recip = e.select(good, 1.0 / e.select(good, pivot, 1.0), 0.0)
            self._store(recip, self.recips, p)

        write_loop(b, k.word(N_ROWS), eliminate)

    def solve(self, x: Field) -> None:
        """S⁻¹ u of a vector, or of the current columns: forward and back substitution."""
        k, b = self.k, self.k.b
        u, rows = x.args[1], self.k.word(N_ROWS)

        def forward(p: Any) -> None:
            row = self._integer(p, ROW_AT)
            base, first = self._integer(row, ROW_BASE), self._integer(row, ROW_FIRST)
            value = self._dot(
                first,
                p,
                k.load_entry(u, row),
                lambda m: (
                    self._load(self.matrix, b.add(base, m)),
                    k.load_entry(x, self._integer(m, ROW_AT)),
                ),
            )
            k.store_entry(x, row, value)

        write_loop(b, rows, forward)

        def divide(p: Any) -> None:
            row = self._integer(p, ROW_AT)
            k.store_entry(x, row, k.load_entry(x, row) * self._load(self.recips, p))

        write_loop(b, rows, divide)

        def back(n: Any) -> None:
            p = b.sub(b.sub(rows, n), i64(1))
            row = self._integer(p, ROW_AT)
            base, first = self._integer(row, ROW_BASE), self._integer(row, ROW_FIRST)
            value = k.load_entry(x, row)

            def spread(m: Any) -> None:
                j = b.add(first, m)
                other = self._integer(j, ROW_AT)
                entry = -self._load(self.matrix, b.add(base, j))
                k.store_entry(x, other, entry.times_plus(value, k.load_entry(x, other)))

            write_loop(b, b.sub(p, first), spread)

        write_loop(b, rows, back)
