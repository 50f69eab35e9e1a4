"""Matrices C* S C between joints, C causal and S symmetric: columns of C first, then the product.

Row t of C is a joint, and its columns are non-zero in that joint's subtree only, so entry (i, j)
is a sum over the joints that i and j have above them. For shallow trees this costs less than the
product where two paths meet (`pairs`), which needs a 6 × 6 block and its sweep at every body.

Reasons: docs/decisions/0024.
"""

from __future__ import annotations

from functools import partial
from typing import Any, final

from phipsi.core.sweeps import Field
from phipsi.native import data_record as record, tables
from phipsi.native.kernel.body_code import BodyCode
from phipsi.native.kernel.emission import Emission
from phipsi.native.kernel.emit_context import EmitContext
from phipsi.native.matrices.columns import Columns
from phipsi.native.matrices.tiles import MeetingTiles, Shape
from phipsi.native.text import llvm_text as ir
from phipsi.native.text.lane_arithmetic import Lane, i64, write_loop


@final
class Gram:
    """One product: writes C and S C while paths are walked, and multiplies them at the end."""

    def __init__(
        self, emission: Emission, place: EmitContext, columns: Columns, field: Field, number: int
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
        """C is zero where no path leads, and so is S C, of which tiles read all entries."""
        base, _, n = self._bases()
        count = i64(1 if self.k.several else 2)
        clear(base, self.k.b.mul(self.k.b.mul(n, n), count))

    def visit(self, values: BodyCode) -> None:
        """This body's rows of the current columns."""
        b, cs = self.k.b, self.columns
        c, sc, n = self._bases()
        for base, y in zip((c, sc), self.field.args, strict=True):
            for i, (entry,) in enumerate(values.value(y).dense()):
                row = b.mul(b.add(self.place.v_offset, i64(i)), n)
                cs.put(entry, base, b.add(row, cs.column), None)

    # -- the product -------------------------------------------------------------------------------

    def emit(self, out: ir.IRValue) -> None:
        """The upper half of C* S C in a matrix between joints, where it takes the place of all.

        Sums run over the joints that two columns share, from the base on.
        """
        if self.k.several:
            self._along(out)
            return
        tiles = MeetingTiles(self.k, record.GRAM_TILES)
        tiles.emit(partial(self._across, tiles, out), upper=True)

    # -- lanes are configurations ------------------------------------------------------------------

    def _across(
        self, tiles: MeetingTiles, out: Any, i: Any, j: Any, shape: Shape, entries: tuple[Any, Any]
    ) -> None:
        """One tile."""
        k, m, (height, width) = self.k, self.k.b, shape
        c, sc, n = self._bases()
        left, right = k.at(sc, m.mul(i, i64(k.bytes))), k.at(c, m.mul(j, i64(k.bytes)))

        def places(_: Any, row: Any) -> tuple[list[tuple[Any, Any]], Any]:
            mine, theirs = k.at(left, row), k.at(right, row)
            return [(mine, i64(x * k.bytes)) for x in range(height)], theirs

        found = tiles.across(entries, shape, places)
        for x in range(height):
            row = m.add(m.mul(m.add(i, i64(x)), n), j)
            where = k.at(out, m.mul(row, i64(k.bytes)))
            for y in range(width):
                k.lane_store(found[x * width + y], where, i64(y * k.bytes))

    # -- lanes are columns of one configuration ----------------------------------------------------

    def _along(self, out: ir.IRValue) -> None:
        k, b = self.k, self.k.b
        widths = sorted({code.nv for code in k.codes} - {0})

        def body(k0: ir.IRValue) -> None:
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

    def _row(
        self,
        out: ir.IRValue,
        r: int,
        start: ir.IRValue,
        i: ir.IRValue,
        last: ir.IRValue,
        first: bool,
    ) -> None:
        """What a joint with r rates adds to row i, from the diagonal to the end of its subtree.

        The joint at the top of a tree comes first, and finds nothing there.
        """
        k, b = self.k, self.k.b
        c, sc, n = self._bases()
        unit = i64(k.bytes)
        starts = [b.mul(b.add(start, i64(t)), n) for t in range(r)]  # of the joint's rows
        mine = b.mul(i, n)
        lefts = [k.group.load_shared(k.at(sc, b.mul(b.add(row, i), unit))) for row in starts]
        count, g = b.sub(last, i), k.group

        def entries(j: ir.IRValue) -> None:
            """Some entries of row i from column i + j on."""
            column = b.add(i, j)
            mask = g.first(b.sub(last, column))

            def load(base: ir.IRValue, at: ir.IRValue) -> Lane:
                return Lane(g, g.masked_load(k.at(base, b.mul(at, unit)), mask))

            at = b.add(mine, column)
            total = g.constant(0.0) if first else load(out, at)
            for left, row in zip(lefts, starts, strict=True):
                total = left.times_plus(load(c, b.add(row, column)), total)
            g.masked_store(total.value, k.at(out, b.mul(at, unit)), mask)

        write_loop(b, count, entries, g.lanes)
