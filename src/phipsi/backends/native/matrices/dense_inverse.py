"""Inverses of whole matrices of points (or of the world's six directions), in generated code.

The matrix is written by paths, pairs or columns like a result; when it is complete it is inverted
by Gauss–Jordan elimination with row exchanges, every configuration with its own, and operands are
multiplied with the inverse. Sizes are those of the model's points, so these are loops.
"""

from __future__ import annotations

from typing import Any, final

from phipsi.backends.failures import SMALL
from phipsi.backends.native import data_record as record
from phipsi.backends.native.kernel.emission import Emission
from phipsi.backends.native.kernel.place import Place
from phipsi.backends.native.matrices.columns import Columns
from phipsi.backends.native.text.lane_arithmetic import Lane, i64, write_loop
from phipsi.expressions.spaces import space_named
from phipsi.sweeps.ir import Field

_EPS = 2.0**-52


@final
class DenseInverse:
    """One dense matrix: the matrix (unless it is a result), a copy to work on, the inverse."""

    def __init__(self, emission: Emission, place: Place, columns: Columns, field: Field) -> None:
        k, b = emission, emission.b
        self.k, self.place, self.columns, self.field = k, place, columns, field
        self.size = k.count_of(space_named(field.type.rows[4:]))
        stride = b.mul(b.mul(self.size, self.size), i64(k.bytes))
        start: Any = i64(0)
        for other in list(k.plan.small)[: k.plan.small[field]]:
            width = k.count_of(space_named(other.type.rows[4:]))
            start = b.add(start, b.mul(b.mul(width, width), i64(3 * k.bytes)))
        self.matrix = k.at(k.area(record.SMALLS, k.bytes), start)
        self.work, self.inverse = (
            k.at(self.matrix, stride),
            k.at(self.matrix, b.mul(stride, i64(2))),
        )

    def _index(self, row: Any, column: Any) -> Any:
        return self.k.b.add(self.k.b.mul(row, self.size), column)

    def _load(self, base: Any, row: Any, column: Any) -> Lane:
        return self.k.load(base, self._index(row, column))

    def _store(self, value: Any, base: Any, row: Any, column: Any) -> None:
        self.k.store(value, base, self._index(row, column))

    def _each(self, body: Any) -> None:
        write_loop(self.k.b, self.size, body)

    def _row(self, i: Any, change: Any) -> None:
        """Change row i of the copy and of the inverse entry by entry."""
        for base in (self.work, self.inverse):
            self._each(lambda c, base=base: change(base, i, c))

    def keep(self) -> None:
        """Write the current columns of the matrix, when all of them have been computed."""
        k, cs, source = self.k, self.columns, self.field.args[0]

        def row(i: Any) -> None:
            index = self._index(i, cs.column)
            cs.put(k.load_entry(source, i), self.matrix, index, None)

        self._each(row)

    def factor(self) -> None:
        """The inverse of the complete matrix; fails where it has no full rank to rounding."""
        b, e = self.k.b, self.k.emitter
        largest = b.alloca(e.vector)
        b.store(e.constant(0.0).value, largest)

        def start(i: Any) -> None:
            def entry(j: Any) -> None:
                x = self._load(self.matrix, i, j)
                self._store(x, self.work, i, j)
                one = b.uitofp(b.icmp_signed("==", i, j), e.number.type)
                self._store(e.splat(one), self.inverse, i, j)
                so_far = Lane(e, b.load(largest, typ=e.vector))
                size = e.intrinsic("fabs", x)
                b.store(e.intrinsic("maxnum", so_far, size).value, largest)

            self._each(entry)

        self._each(start)
        count = e.splat(b.uitofp(self.size, e.number.type))
        limit = Lane(e, b.load(largest, typ=e.vector)) * count * e.number.tolerance(_EPS)

        def eliminate(i: Any) -> None:
            def exchange(below: Any) -> None:
                j = b.add(b.add(i, i64(1)), below)
                mine, other = self._load(self.work, i, i), self._load(self.work, j, i)
                swap = e.compare(">", e.intrinsic("fabs", other), e.intrinsic("fabs", mine))

                def change(base: Any, row: Any, c: Any) -> None:
                    upper, lower = self._load(base, row, c), self._load(base, j, c)
                    self._store(e.select(swap, lower, upper), base, row, c)
                    self._store(e.select(swap, upper, lower), base, j, c)

                self._row(i, change)

            write_loop(b, b.sub(b.sub(self.size, i), i64(1)), exchange)
            pivot = self._load(self.work, i, i)
            good = e.compare(">", e.intrinsic("fabs", pivot), limit)
            self.place.fail(b.not_(good), SMALL)
            recip = 1.0 / pivot
            self._row(i, lambda base, r, c: self._store(self._load(base, r, c) * recip, base, r, c))

            def clear(j: Any) -> None:
                with b.if_then(b.icmp_signed("!=", i, j)):
                    factor = -self._load(self.work, j, i)

                    def change(base: Any, row: Any, c: Any) -> None:
                        new = self._load(base, i, c).times_plus(factor, self._load(base, row, c))
                        self._store(new, base, row, c)

                    self._row(j, change)

            self._each(clear)

        self._each(eliminate)

    def solve(self, x: Field) -> None:
        """A⁻¹ u of a vector, or of the current columns."""
        k, e = self.k, self.k.emitter
        u = x.args[1]

        def row(i: Any) -> None:
            k.store_entry(x, i, e.constant(0.0))

            def term(j: Any) -> None:
                old = k.load_entry(x, i)
                factor = self._load(self.inverse, i, j)
                new = factor.times_plus(k.load_entry(u, j), old)
                k.store_entry(x, i, new)

            self._each(term)

        self._each(row)
