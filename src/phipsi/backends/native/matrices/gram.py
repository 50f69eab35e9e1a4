"""Matrices C* S C between joints, C causal and S symmetric: columns of C first, then the product.

Row t of C is a joint, and its columns are non-zero in that joint's subtree only, so entry (i, j)
is a sum over the joints that i and j have above them. For shallow trees this costs less than the
product where two paths meet (`pairs`), which needs a 6 × 6 block and its sweep at every body.

Reasons: docs/decisions/0024.
"""

from __future__ import annotations

from typing import Any, final

from phipsi.backends.native import data_record as record
from phipsi.backends.native import tables
from phipsi.backends.native.kernel.body_code import BodyCode
from phipsi.backends.native.kernel.emission import Emission
from phipsi.backends.native.kernel.place import Place
from phipsi.backends.native.matrices.columns import Columns
from phipsi.backends.native.text.lane_arithmetic import Lane, i64, write_loop
from phipsi.sweeps.ir import Field


@final
class Gram:
    """One product: writes C and S C while paths are walked, and multiplies them at the end."""

    def __init__(
        self, emission: Emission, place: Place, columns: Columns, field: Field, number: int
    ) -> None:
        self.k, self.place, self.columns = emission, place, columns
        self.field, self.number = field, number

    def _bases(self) -> tuple[Any, Any, Any]:
        """Addresses of C and S C, and the number of rates."""
        k, b = self.k, self.k.b
        n = k.word(record.N_RATES)
        size = b.mul(b.mul(n, n), i64(k.bytes))
        first = k.at(k.area(record.GRAMS, k.bytes), b.mul(size, i64(2 * self.number)))
        return first, k.at(first, size), n

    def clear(self, clear: Any) -> None:
        """C is zero where no path leads."""
        base, _, n = self._bases()
        clear(base, self.k.b.mul(n, n))

    def visit(self, values: BodyCode) -> None:
        """This body's rows of the current columns."""
        b, cs = self.k.b, self.columns
        c, sc, n = self._bases()
        for base, y in zip((c, sc), self.field.args, strict=True):
            for i, (entry,) in enumerate(values.value(y).dense()):
                row = b.mul(b.add(self.place.v_offset, i64(i)), n)
                cs.put(entry, base, b.add(row, cs.column), None)

    # -- the product -------------------------------------------------------------------------------

    def emit(self, out: Any) -> None:
        """Add the upper half of C* S C to a matrix between joints, joint by joint from the base."""
        k, b = self.k, self.k.b
        widths = sorted({code.nv for code in k.codes} - {0})

        def body(k0: Any) -> None:
            start, end, last, top = k.body_integers(
                k0, tables.V_OFFSET, tables.V_END, tables.V_SUBTREE, tables.TOP
            )
            width = b.sub(end, start)
            at_top = b.icmp_signed("!=", top, i64(0))

            def rows(r: int) -> None:
                def all_rows(first: bool) -> None:
                    write_loop(
                        b,
                        b.sub(last, start),
                        lambda i: self._row(out, r, start, b.add(start, i), last, first),
                    )

                with b.if_then(b.icmp_signed("==", width, i64(r))):  # noqa: SIM117
                    with b.if_else(at_top) as (first, later):
                        with first:
                            all_rows(True)
                        with later:
                            all_rows(False)

            for r in widths:
                rows(r)

        write_loop(b, k.word(record.N_BODIES), body)

    def _row(self, out: Any, r: int, start: Any, i: Any, last: Any, first: bool) -> None:
        """What a joint with r rates adds to row i, from the diagonal to the end of its subtree.

        The joint at the top of a tree comes first, and finds nothing there.
        """
        k, b = self.k, self.k.b
        c, sc, n = self._bases()
        unit = i64(k.bytes)
        starts = [b.mul(b.add(start, i64(t)), n) for t in range(r)]  # of the joint's rows
        mine = b.mul(i, n)
        lefts: list[Lane] = []
        for row in starts:
            where = b.mul(b.add(row, i), unit)
            if k.several:
                lefts.append(k.group.load_shared(k.at(sc, where)))
            else:
                lefts.append(k.lane_load(sc, where))
        count = b.sub(last, i)

        def entries(j: Any, load: Any, store: Any) -> None:
            """Some entries of row i from column j on."""
            at = b.add(mine, j)
            total = k.group.constant(0.0) if first else load(out, at)
            for left, row in zip(lefts, starts, strict=True):
                total = left.times_plus(load(c, b.add(row, j)), total)
            store(total, at)

        if not k.several:

            def put(x: Lane, at: Any) -> None:
                k.store(x, out, at)

            write_loop(b, count, lambda j: entries(b.add(i, j), k.load, put))
            return
        g = k.group

        def group(j: Any) -> None:
            column = b.add(i, j)
            mask = g.first(b.sub(last, column))
            entries(
                column,
                lambda base, at: Lane(g, g.masked_load(k.at(base, b.mul(at, unit)), mask)),
                lambda x, at: g.masked_store(x.value, k.at(out, b.mul(at, unit)), mask),
            )

        write_loop(b, count, group, g.lanes)
