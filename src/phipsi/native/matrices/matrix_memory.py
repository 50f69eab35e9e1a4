"""The matrices of a kernel in memory: results and matrices that are solved with.

Which of their entries are cleared, which stay zero, and which half is a mirror image.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, final

from phipsi.core.backends import SMALL
from phipsi.core.sweeps import Domain, Field, Kind, Reads, Result, parts_of, space_of
from phipsi.native import data_record as record, tables
from phipsi.native.kernel.emission import Emission
from phipsi.native.kernel.emit_context import EmitContext
from phipsi.native.matrices.columns import Columns
from phipsi.native.matrices.gram import Gram
from phipsi.native.matrices.row_matrix import RowMatrix
from phipsi.native.matrices.structural_zeros import (
    as_matrix,
    factors_of,
    is_gram,
    of_blocks,
    zeros_stay,
)
from phipsi.native.matrices.tiles import mirror_tiles
from phipsi.native.text import llvm_text as ir
from phipsi.native.text.lane_arithmetic import I1, I8, Lane, i64, write_loop
from phipsi.native.text.llvm_values import VOID, IRConstant

_OF_BLOCKS = ("blocks", "factor")

Change = Callable[[ir.IRValue, ir.IRValue, ir.IRValue], None]
"""A change of an entry: of a matrix at an address, in a row and a column."""


@final
class MatrixMemory:
    """Where the matrices of a kernel are.

    **Attributes:** `dense` and `rows`, the matrices that are solved with, dense ones and those
    between constraint rows; `grams`, the products of columns; `factors`, those of products that
    are not results; `made`, results and factors, without products; `from_blocks`, all matrices that
    are assembled from blocks, whether they are results, multiplied or solved with.
    """

    def __init__(
        self, emission: Emission, place: EmitContext, columns: Columns, pairs: list[Field]
    ) -> None:
        k = self.k = emission
        self.dense = {x: DenseInverse(k, place, columns, x) for x in k.plan.small}
        grams = [x for x in pairs if x.operation.reads is Reads.PATHS]
        self.grams = {x: Gram(k, place, columns, x, i) for i, x in enumerate(grams)}
        self.rows = {x: RowMatrix(k, place, x) for x in k.plan.row_matrices}
        self.factors = factors_of(k.results)
        self._places = {x.field: self._place(x, i) for i, x in enumerate(self.factors)}
        self.made = [*(r for r in k.results if r.left is None), *self.factors]
        self.from_blocks = [r for r in self.made if r.layout in _OF_BLOCKS and of_blocks(r.field)]
        for x in (*self.dense, *self.rows):
            if of_blocks(x):
                self.from_blocks.append(as_matrix(x, "small"))

    def base(self, r: Result) -> ir.IRValue:
        """The address of a matrix."""
        if r.layout == "factor":
            return self._places[r.field]
        if r.layout != "small":
            return self.k.result_base(r)
        return (self.rows.get(r.field) or self.dense[r.field]).matrix

    def _place(self, r: Result, number: int) -> Any:
        """Where a factor is, the first of which have that number."""
        k, b = self.k, self.k.b
        size = b.mul(self._entries(r), i64(k.bytes * number))
        return k.at(k.area(record.FACTORS, k.bytes), size)

    def _entries(self, r: Result) -> Any:
        """How many numbers a matrix has."""
        k = self.k
        return k.b.mul(k.count_of(r.gives), k.count_of(r.takes))

    def factor(self, x: Result) -> Any:
        """The address of a factor of a product, which may be a result too."""
        same = (s for s in self.k.results if s.field is x.field and s.left is None)
        return self.base(next(same, x))

    def entry_index(self, r: Result, row: ir.IRValue, column: ir.IRValue) -> tuple[Any, Any]:
        """Where an entry of a matrix stands, and how far the same column of the next row is."""
        b, width = self.k.b, self.k.count_of(r.takes)
        return b.add(b.mul(row, width), column), width

    # -- zeros -------------------------------------------------------------------------------------

    def clear(self) -> None:
        """Zero the matrices that are not filled everywhere."""
        k, b = self.k, self.k.b
        kept = [r for r in self.made if self.kept(r) or (self._of_groups and _is_padded(r))]
        grams = [r for r in self.made if self._of_groups and is_gram(r)]
        for r in self.made:
            if r in grams:
                continue
            if r in kept:
                if not _is_padded(r) and any(x.how == "diagonal" for x, _ in parts_of(r.field)):
                    self._clear_diagonal(r)
            elif r.layout in _OF_BLOCKS or _is_padded(r):
                self._clear_result(r)
        if not k.several and (kept or self.grams):
            with b.if_then(k.fresh):
                for r in (*kept, *grams):
                    self._clear_result(r)
                self._clear_grams()
        else:
            self._clear_grams()
        for matrix in self.dense.values():
            self._clear(matrix.matrix, b.mul(matrix.size, matrix.size))
        for rows in self.rows.values():
            self._clear(rows.matrix, b.add(rows.entries, rows.places))  # and the sizes behind it

    def _clear(self, base: ir.IRValue, entries: ir.IRValue) -> None:
        k, b = self.k, self.k.b
        if k.module.standalone:  # memset is a function of a library
            k.loop(entries, False, lambda i: k.store(0.0, base, i))
            return
        size = b.mul(entries, i64(k.bytes))
        arguments = [base, IRConstant(I8, 0), size, IRConstant(I1, 0)]
        b.call_named("llvm.memset.p0.i64", VOID, arguments)

    def _clear_result(self, r: Result) -> None:
        if r.layout == "factor":
            self._clear(self.base(r), self._entries(r))
        else:
            self._clear(self.k.result_base(r), self.k.buffer_size(self.k.buffer_of(r)))

    def _clear_grams(self) -> None:
        for gram in self.grams.values():
            gram.clear(self._clear)

    def _clear_diagonal(self, r: Result) -> None:
        """Zero the diagonal blocks of a matrix between joints: several parts may be added there."""
        k, b = self.k, self.k.b
        base, n = self.base(r), k.count_of(r.takes)

        def body(k0: ir.IRValue) -> None:
            start, end = k.body_integers(k0, tables.V_OFFSET, tables.V_END)
            width = b.sub(end, start)

            def row(i: ir.IRValue) -> None:
                first = b.add(b.mul(b.add(start, i), n), start)
                k.loop(width, False, lambda j: k.store(0.0, base, b.add(first, j)))

            k.loop(width, False, row)

        k.loop(k.count(Domain.BODY), False, body)

    @property
    def _of_groups(self) -> bool:
        return self.k.config.lanes > 1

    def kept(self, r: Result) -> bool:
        """True for a matrix whose zeros stay in the buffer from group to group."""
        return self._of_groups and zeros_stay(r)

    # -- symmetric matrices ------------------------------------------------------------------------

    def mirrored(self, r: Result) -> bool:
        """True for a symmetric matrix between joints, of which the upper half is computed.

        Paths lead from a column to rows above it, so they fill the upper half only.
        """
        if not of_blocks(r.field) or not r.takes.index == r.gives.index == "joint":
            return False
        if self.kept(r):  # both halves are written at once
            return False
        parts = parts_of(r.field)
        paths = {y: p.coefficient for p, y in parts if p.how == "path"}
        back = {y: p.coefficient for p, y in parts if p.how == "path of adjoint"}
        kinds = (Kind.SYMMETRIC, Kind.INERTIA)
        diagonal = all(y.type.kind in kinds for p, y in parts if p.how == "diagonal")
        once = len(paths) + len(back) == sum(p.how.startswith("path") for p, _ in parts)
        return once and paths == back and diagonal

    def in_halves(self, r: Result) -> bool:
        """True for a matrix between constraint rows that pairs of paths filled in two halves."""
        if r.layout not in _OF_BLOCKS or not of_blocks(r.field) or r.takes.index != "row":
            return False
        return any(part.how == "pairs" for part, _ in parts_of(r.field))

    def mirror(self, r: Result) -> None:
        """Fill the lower half of a symmetric matrix; between rows, add the two halves."""
        k, b = self.k, self.k.b
        n, base, halves = k.count_of(r.takes), self.base(r), self.in_halves(r)
        if k.several and not halves:
            mirror_tiles(k, base, n)
            return

        def row(i: Any) -> None:
            def entry(j: Any) -> None:
                up, low = (b.mul(b.add(b.mul(x, n), y), i64(k.bytes)) for x, y in ((j, i), (i, j)))
                value = k.lane_load(base, up)
                if halves:
                    value = value + k.lane_load(base, low)
                    k.lane_store(value, base, up)
                k.lane_store(value, base, low)

            k.loop(i, False, entry)

        k.loop(n, False, row)


def _is_padded(r: Result) -> bool:
    """True for blocks of joints: those of narrow hinges are padded with zeros."""
    return r.layout == "diagonal" and r.takes.index == r.gives.index == "joint"


# ---- inverses of whole matrices ------------------------------------------------------------------
#
# The matrix is written by paths, pairs or columns like a result; when it is complete it is inverted
# by Gauss–Jordan elimination with row exchanges, every configuration with its own, and operands are
# multiplied with the inverse. Sizes are those of the model's points, so these are loops.

_EPS = 2.0**-52


@final
class DenseInverse:
    """One dense matrix: the matrix (unless it is a result), a copy to work on, the inverse."""

    def __init__(
        self, emission: Emission, place: EmitContext, columns: Columns, field: Field
    ) -> None:
        k, b = emission, emission.b
        self.k, self.place, self.columns, self.field = k, place, columns, field
        self.size = k.count_of(space_of(field.type.rows))
        stride = b.mul(b.mul(self.size, self.size), i64(k.bytes))
        start: Any = i64(0)
        for other in list(k.plan.small)[: k.plan.small[field]]:
            width = k.count_of(space_of(other.type.rows))
            start = b.add(start, b.mul(b.mul(width, width), i64(3 * k.bytes)))
        self.matrix = k.at(k.area(record.SMALLS, k.bytes), start)
        self.work, self.inverse = (
            k.at(self.matrix, stride),
            k.at(self.matrix, b.mul(stride, i64(2))),
        )

    def _index(self, row: ir.IRValue, column: ir.IRValue) -> ir.IRValue:
        return self.k.b.add(self.k.b.mul(row, self.size), column)

    def _load(self, base: ir.IRValue, row: ir.IRValue, column: ir.IRValue) -> Lane:
        return self.k.load(base, self._index(row, column))

    def _store(self, value: Lane, base: ir.IRValue, row: ir.IRValue, column: ir.IRValue) -> None:
        self.k.store(value, base, self._index(row, column))

    def _each(self, body: Callable[[ir.IRValue], None]) -> None:
        write_loop(self.k.b, self.size, body)

    def _row(self, i: ir.IRValue, change: Change) -> None:
        """Change row i of the copy and of the inverse entry by entry."""
        for base in (self.work, self.inverse):
            self._each(partial(change, base, i))

    def keep(self) -> None:
        """Write the current columns of the matrix, when all of them have been computed."""
        k, cs, source = self.k, self.columns, self.field.args[0]

        def row(i: ir.IRValue) -> None:
            index = self._index(i, cs.column)
            cs.put(k.load_entry(source, i), self.matrix, index, None)

        self._each(row)

    def factor(self) -> None:
        """The inverse of the complete matrix; fails where it has no full rank to rounding."""
        b, e = self.k.b, self.k.emitter
        largest = b.alloca(e.vector)
        b.store(e.constant(0.0).value, largest)

        def start(i: ir.IRValue) -> None:
            def entry(j: ir.IRValue) -> None:
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

        def eliminate(i: ir.IRValue) -> None:
            def exchange(below: ir.IRValue) -> None:
                j = b.add(b.add(i, i64(1)), below)
                mine, other = self._load(self.work, i, i), self._load(self.work, j, i)
                swap = e.compare(">", e.intrinsic("fabs", other), e.intrinsic("fabs", mine))

                def change(base: ir.IRValue, row: ir.IRValue, c: ir.IRValue) -> None:
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

            def clear(j: ir.IRValue) -> None:
                with b.if_then(b.icmp_signed("!=", i, j)):
                    factor = -self._load(self.work, j, i)

                    def change(base: ir.IRValue, row: ir.IRValue, c: ir.IRValue) -> None:
                        new = self._load(base, i, c).times_plus(factor, self._load(base, row, c))
                        self._store(new, base, row, c)

                    self._row(j, change)

            self._each(clear)

        self._each(eliminate)

    def solve(self, x: Field) -> None:
        """A⁻¹ u of a vector, or of the current columns."""
        k, e = self.k, self.k.emitter
        u = x.args[1]

        def row(i: ir.IRValue) -> None:
            k.store_entry(x, i, e.constant(0.0))

            def term(j: ir.IRValue) -> None:
                old = k.load_entry(x, i)
                factor = self._load(self.inverse, i, j)
                new = factor.times_plus(k.load_entry(u, j), old)
                k.store_entry(x, i, new)

            self._each(term)

        self._each(row)
