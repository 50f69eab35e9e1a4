"""Matrices C* S C between joints, C causal and S symmetric: columns of C first, then the product.

Row t of C is a joint, and its columns are non-zero in that joint's subtree only, so entry (i, j)
is a sum over the joints that i and j have above them. For shallow trees this costs less than the
product where two paths meet (`pairs`), which needs a 6 × 6 block and its sweep at every body.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from phipsi.backends.native import tables
from phipsi.backends.native.body_code import BodyCode
from phipsi.backends.native.data_record import GRAMS, INTEGERS, N_BODIES, N_RATES
from phipsi.backends.native.text import llvm_text as ir
from phipsi.backends.native.text.lanes import DOUBLE, Lane, masked_load, masked_store, write_loop
from phipsi.backends.native.text.trigonometry import i64
from phipsi.sweeps.ir import Field

if TYPE_CHECKING:
    from phipsi.backends.native.columns import Columns
    from phipsi.backends.native.kernel import Kernel


class Gram:
    """One product: writes C and S C while paths are walked, and multiplies them at the end."""

    def __init__(self, kernel: Kernel, field: Field, number: int) -> None:
        self.k, self.field, self.number = kernel, field, number

    def _bases(self) -> tuple[Any, Any, Any]:
        """Addresses of C and S C, and the number of rates."""
        k, b = self.k, self.k.b
        n = k.word(N_RATES)
        size = b.mul(b.mul(n, n), i64(k.bytes))
        first = k.at(k.area(GRAMS, k.bytes), b.mul(size, i64(2 * self.number)))
        return first, k.at(first, size), n

    def clear(self, clear: Any) -> None:
        """C is zero where no path leads."""
        base, _, n = self._bases()
        clear(base, self.k.b.mul(n, n))

    def visit(self, columns: Columns, values: BodyCode) -> None:
        """This body's rows of the current columns."""
        k, b = self.k, self.k.b
        c, sc, n = self._bases()
        for base, y in zip((c, sc), self.field.args, strict=True):
            for i, (entry,) in enumerate(values.value(y).dense()):
                row = b.mul(b.add(k.v_offset, i64(i)), n)
                columns.put(entry, base, b.add(row, columns.column), None)

    # -- the product -------------------------------------------------------------------------------

    def emit(self, out: Any) -> None:
        """Add the upper half of C* S C to a matrix between joints, joint by joint from the base."""
        k, b = self.k, self.k.b
        widths = sorted({code.nv for code in k.codes} - {0})

        def body(k0: Any) -> None:
            start, end, last, top = (
                k.integer(INTEGERS, tables.N_INTEGERS, k0, what)
                for what in (tables.V_OFFSET, tables.V_END, tables.V_SUBTREE, tables.TOP)
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

        write_loop(b, k.word(N_BODIES), body)

    def _row(self, out: Any, r: int, start: Any, i: Any, last: Any, first: bool) -> None:
        """What a joint with r rates adds to row i, from the diagonal to the end of its subtree.

        The joint at the top of a tree comes first, and finds nothing there.
        """
        k, b = self.k, self.k.b
        c, sc, n = self._bases()
        unit = i64(k.bytes)
        starts = [b.mul(b.add(start, i64(t)), n) for t in range(r)]  # of the joint's rows
        mine = b.mul(i, n)
        several = k.group is not k.config
        lefts: list[Lane] = []
        for row in starts:
            where = b.mul(b.add(row, i), unit)
            if several:
                lefts.append(k.group.splat(b.load(k.at(sc, where), align=8, typ=DOUBLE)))
            else:
                lefts.append(k.lane_load(sc, where))
        count = b.sub(last, i)

        def entries(j: Any, load: Any, store: Any) -> None:
            """Some entries of row i from column j on."""
            at = b.add(mine, j)
            nothing = Lane(k.group, ir.Constant(k.group.vector, [0.0] * k.group.lanes))
            total = nothing if first else load(out, at)
            for left, row in zip(lefts, starts, strict=True):
                total = left.times_plus(load(c, b.add(row, j)), total)
            store(total, at)

        if not several:
            write_loop(
                b,
                count,
                lambda j: entries(
                    b.add(i, j),
                    lambda base, at: k.lane_load(base, b.mul(at, unit)),
                    lambda x, at: k.lane_store(x, out, b.mul(at, unit)),
                ),
            )
            return
        g = k.group
        lanes = ir.Constant(g.integers, list(range(g.lanes)))

        def group(j: Any) -> None:
            column = b.add(i, j)
            mask = b.icmp_signed("<", lanes, g.splat_integer(b.sub(last, column)))
            entries(
                column,
                lambda base, at: Lane(g, masked_load(b, g, k.at(base, b.mul(at, unit)), mask)),
                lambda x, at: masked_store(b, g, x.value, k.at(out, b.mul(at, unit)), mask),
            )

        write_loop(b, count, group, g.lanes)
