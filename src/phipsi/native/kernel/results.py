"""Results of a kernel: packed buffers, one vector per number, in storage layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, final

from phipsi.core.backends import NOT_FINITE, SYMMETRY_TOLERANCE
from phipsi.core.expressions import Space
from phipsi.core.sweeps import Domain, Field, LoopStep, Result, entries as en, parts_of
from phipsi.native.kernel import lane_blocks as bl
from phipsi.native.kernel.body_code import BodyCode
from phipsi.native.kernel.emission import Emission, InputSlot
from phipsi.native.kernel.emit_context import EmitContext
from phipsi.native.matrices.columns import Columns
from phipsi.native.matrices.matrix_memory import MatrixMemory
from phipsi.native.matrices.products import Products
from phipsi.native.matrices.structural_zeros import written_once
from phipsi.native.text import llvm_text as ir
from phipsi.native.text.lane_arithmetic import I32, Lane, fold_loop, i64, plus_scaled

_SUMS = 8  # numbers inspected together, to see whether they are finite


@final
class ResultWriter:
    """Writes results to the output buffers."""

    def __init__(
        self, emission: Emission, place: EmitContext, columns: Columns, matrices: MatrixMemory
    ) -> None:
        self.k, self.place, self.columns, self.matrices = emission, place, columns, matrices

    # -- blocks of a body --------------------------------------------------------------------------

    def _row(self, space: Space, i: int) -> ir.IRValue:
        """Number of component i of the block here in a vector of the space."""
        at, b = self.place, self.k.b
        if space.index == "joint":
            return b.add(at.v_offset, i64(i))
        if space.index == "row":
            return at.index
        return b.add(b.mul(at.index, i64(space.width or 6)), i64(i))

    def _in_body_axes(self, block: bl.Block, gives: Space, takes: Space | None = None) -> bl.Dense:
        """A block of the code's frames in the axes that users see."""
        out = bl.Dense(block.dense())
        if gives.index == "body":
            out = bl.turned(out, self.place.turn())
        if takes is not None and takes.index == "body":
            out = bl.turned_back(out, self.place.turn())
        return out

    def path_parts(
        self, step: LoopStep, values: BodyCode
    ) -> list[tuple[Field, Callable[[], None]]]:
        """What matrices take from the current path here: a field, and how its rows are written."""
        fields = set(step.fields)
        return [
            (y, partial(self._write_part, r, part, y, values))
            for r in self.matrices.from_blocks
            for part, y in parts_of(r.field)
            if y in fields and not (part.how == "path of adjoint" and self.matrices.mirrored(r))
        ]

    def _write_part(self, r: Result, part: Any, y: Field, values: BodyCode) -> None:
        """This body's rows of the current columns."""
        k, b, cs = self.k, self.k.b, self.columns
        base, width = self.matrices.base(r), k.count_of(r.takes)
        alone = not cs.several and written_once(r.field)
        # a path of the adjoint holds columns of the transposed matrix
        back = part.how == "path of adjoint"
        space, stride = (r.takes.dual, width) if back else (r.gives, None)
        for j, (entry,) in enumerate(self._in_body_axes(values.value(y), space).rows):
            row, column = self._row(space, j), cs.column
            if back:
                row, column = column, row
            at = b.add(b.mul(row, width), column)
            if alone and not en.is_zero(entry):
                cs.put(entry, base, at, stride)
            else:
                cs.add(entry, part.coefficient, base, at, stride)

    def write(self, step: LoopStep, number: int, values: BodyCode) -> None:
        """The results whose fields this step, of that number, computes."""

        def here(x: Field) -> bool:
            return self.k.plan.made.get(x) == number

        if step.domain is Domain.BODY:
            for r in self.matrices.from_blocks:
                self._write_diagonal(r, here, values)
        for r in self.k.results:
            domain = r.field.type.domain
            if r.layout != "blocks" and domain is step.domain and domain is not Domain.WORLD:
                if here(r.field):
                    self._write(r, values)

    def _write_diagonal(self, r: Result, here: Callable[[Field], bool], values: BodyCode) -> None:
        """The diagonal parts of a matrix that this step computes."""
        k, b = self.k, self.k.b
        for part, y in parts_of(r.field):
            if part.how != "diagonal" or not here(y):
                continue
            out = self._in_body_axes(values.value(y), r.gives, r.takes)
            base = self.matrices.base(r)
            for i, line in enumerate(out.rows):
                for j, entry in enumerate(line):
                    row, column = self._row(r.gives, i), self._row(r.takes, j)
                    at, _ = self.matrices.entry_index(r, row, column)
                    if not en.is_zero(entry):
                        at = b.mul(at, i64(k.bytes))
                        old = k.lane_load(base, at)
                        new = plus_scaled(old, part.coefficient, k.emitter.lift(entry))
                        k.lane_store(new, base, at)

    def _write(self, r: Result, values: BodyCode) -> None:
        """The block of a result."""
        x, base = r.field, self.k.result_base(r)
        out = bl.Dense(values.value(x).dense())
        gives = r.takes.dual if r.layout == "matrix of adjoint" else r.gives
        if r.layout == "poses" and x.type.domain is Domain.BODY:
            turn = en.matmul(
                [row[:3] for row in out.rows[:3]], en.transpose_rows(self.place.turn())
            )
            out = bl.Dense(en.pose_rows(turn, [row[3] for row in out.rows]))
        elif x.type.domain is Domain.BODY:
            out = self._in_body_axes(out, gives, r.takes if r.layout == "diagonal" else None)
        for i, row in enumerate(out.rows):
            for j, entry in enumerate(row):
                if r.layout.startswith("matrix"):
                    self._put_row(r, entry, base, self._row(gives, i))
                else:
                    self.k.store(entry, base, values.inputs.index(x, i, j))

    def write_world_results(self, columns: str, values: BodyCode) -> None:
        """Totals and scalars, when all steps of a phase have run."""
        for r in self.k.results:
            t = r.field.type
            mine = t.cols if t.cols.startswith("all:") else ""
            if t.domain is Domain.WORLD and r.layout != "blocks" and mine == columns:
                base = self.k.result_base(r)
                for j, row in enumerate(values.value(r.field).dense()):
                    self._put_row(r, row[0], base, i64(j))

    def _put_row(self, r: Result, entry: Lane, base: ir.IRValue, row: ir.IRValue) -> None:
        """Write an entry of the current columns, or of a vector."""
        k, b, cs = self.k, self.k.b, self.columns
        if not r.layout.startswith("matrix"):
            k.store(entry, base, row)
            return
        width = k.count_of(r.takes)
        if r.layout == "matrix of adjoint":
            cs.put(entry, base, b.add(b.mul(cs.column, width), row), width)
        else:
            cs.put(entry, base, b.add(b.mul(row, width), cs.column), None)

    # -- the end -----------------------------------------------------------------------------------

    def finish(self) -> None:
        """Complete the matrices, look for numbers that are not finite, and write the status."""
        k, b, e = self.k, self.k.b, self.k.config
        for r in self.matrices.from_blocks:
            for part, y in parts_of(r.field):
                if y in self.matrices.grams:
                    assert part.coefficient == 1
                    self.matrices.grams[y].emit(self.matrices.base(r))
        for r in self.matrices.made:
            if self.matrices.mirrored(r) or self.matrices.in_halves(r):
                self.matrices.mirror(r)
        Products(k, self.matrices).emit()
        # matrices of groups are inspected in the loop over the batch, if it is ours
        everything = e.lanes == 1 or k.parts.known is not None
        inspected = [r for r in k.results if everything or not is_matrix(r)]
        status = b.load(k.status, typ=e.integers)
        if k.parts.inspects is not None:
            e.store_integers(status, k.buffer(k.n_buffers - 1))
            return
        bad = not_finite(k, [k.buffer_of(r) for r in inspected])
        first = b.and_(bad, b.icmp_signed("==", status, e.integer(0)))
        found = b.select(first, e.integer(NOT_FINITE), status)
        e.store_integers(found, k.buffer(k.n_buffers - 1))


def write_first_status(k: Emission) -> None:
    """The status with which a kernel begins: whether all inputs can be used, read or not."""
    e, names = k.config, k.parts.inspects
    slots = [x for name, x in k.parts.inputs.items() if names is None or name in names]
    if not slots:
        k.b.store(e.integer(0), k.status)
        return
    bad = not_finite(k, [x.buffer for x in slots])
    for slot in slots:
        if slot.symmetric:
            bad = k.b.or_(bad, not_symmetric(k, slot))
    k.b.store(k.b.select(bad, e.integer(NOT_FINITE), e.integer(0)), k.status)


def not_finite(k: Emission, buffers: list[int]) -> ir.IRValue:
    """Whether a number in these buffers is NaN or infinite, for every lane.

    Σ (x − x) is zero exactly if all are finite.
    """
    b, e, g = k.b, k.config, k.group
    # numbers of one configuration lie side by side
    width, unrolled = (g.lanes, 4) if k.several else (1, _SUMS)
    sums: list[Any] = [g.constant(0.0).value] * unrolled

    def adding(
        base: ir.IRValue, start: ir.IRValue, count: ir.IRValue | None = None
    ) -> Callable[[Any, list[Any]], list[Any]]:
        def add(i: ir.IRValue, old: Sequence[ir.IRValue]) -> list[ir.IRValue]:
            out: list[Any] = []
            for j, so_far in enumerate(old):  # sums of their own do not wait for each other
                at = b.add(start, b.add(i, i64(j * width)))
                where = k.at(base, b.mul(at, i64(k.bytes)))
                if k.several and count is not None:
                    x = g.masked_load(where, g.first(b.sub(count, at)))
                else:
                    x = g.load(where).value
                out.append(b.fadd(so_far, b.fsub(x, x)))
            return out

        return add

    for buffer in buffers:
        base, count = k.buffer(buffer), k.buffer_size(buffer)
        step = width * unrolled
        many = b.mul(b.udiv(count, i64(step)), i64(step))
        sums = fold_loop(b, many, step, sums, adding(base, i64(0)))
        few = b.sub(count, many)
        left = None if k.several else few.number
        if left is None:
            sums[:1] = fold_loop(b, few, width, sums[:1], adding(base, many, count))
        else:  # known, and fewer than the sums
            sums[:left] = adding(base, many)(i64(0), sums[:left])
    total = _sum(b, sums)
    if k.several:
        parts = [b.extract_element(total, ir.IRConstant(I32, i)) for i in range(g.lanes)]
        total = b.insert_element(e.constant(0.0).value, _sum(b, parts), ir.IRConstant(I32, 0))
    return b.fcmp_unordered("!=", total, e.constant(0.0).value)


def not_symmetric(k: Emission, slot: InputSlot) -> ir.IRValue:
    """Whether a given block differs from its transpose, for every lane, as `check_symmetric`."""
    b, e, base = k.b, k.config, k.buffer(slot.buffer)
    width = (slot.gives and slot.gives.width) or k.widest
    size = width * width

    def worst(start: ir.IRValue, old: Sequence[ir.IRValue]) -> list[ir.IRValue]:
        """The largest excess over the tolerance so far."""
        rows = [
            [
                e.load(k.at(base, b.mul(at, i64(k.bytes))))
                for at in (b.add(start, i64(width * i + j)) for j in range(width))
            ]
            for i in range(width)
        ]
        largest, apart = e.constant(0.0), e.constant(0.0)
        for i in range(width):
            for j in range(width):
                largest = e.intrinsic("maxnum", largest, e.intrinsic("fabs", rows[i][j]))
                if j < i:
                    gap = Lane(e, b.fsub(rows[i][j].value, rows[j][i].value))
                    apart = e.intrinsic("maxnum", apart, e.intrinsic("fabs", gap))
        allowed = b.fmul(e.constant(e.number.tolerance(SYMMETRY_TOLERANCE)).value, largest.value)
        excess = Lane(e, b.fsub(apart.value, allowed))
        return [e.intrinsic("maxnum", Lane(e, old[0]), excess).value]

    zero = e.constant(0.0).value
    (found,) = fold_loop(b, k.buffer_size(slot.buffer), size, [zero], worst)
    return b.fcmp_ordered(">", found, zero)


def _sum(b: ir.IRBuilder, terms: Sequence[ir.IRValue]) -> ir.IRValue:
    """The sum of 2ⁿ numbers, pair by pair."""
    while len(terms) > 1:
        terms = [b.fadd(x, y) for x, y in zip(terms[::2], terms[1::2], strict=True)]
    return terms[0]


def is_matrix(r: Result) -> bool:
    """True for a result that is a whole matrix."""
    return r.layout == "blocks" or r.layout.startswith("matrix")
