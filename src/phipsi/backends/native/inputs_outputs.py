"""Inputs and outputs of a kernel: packed buffers, one vector per number, in storage layout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from phipsi.backends.failures import NOT_FINITE
from phipsi.backends.native import blocks as bl
from phipsi.backends.native import tables
from phipsi.backends.native.body_code import BodyCode
from phipsi.backends.native.buffers import Buffers
from phipsi.backends.native.data_record import BUFFERS, N_RATES
from phipsi.backends.native.products import Products
from phipsi.backends.native.tables import JointCode
from phipsi.backends.native.text import llvm_text as ir
from phipsi.backends.native.text.lanes import I32, Lane, fold_loop, masked_load, plus_scaled
from phipsi.backends.native.text.trigonometry import i64
from phipsi.backends.native.zeros import written_once
from phipsi.expressions.spaces import Space
from phipsi.sweeps import entries as en
from phipsi.sweeps.ir import Domain, Field, Step
from phipsi.sweeps.request import Result

if TYPE_CHECKING:
    from phipsi.backends.native.kernel import Kernel


_SUMS = 8  # numbers looked at together, to see whether they are finite


@dataclass(frozen=True)
class Slot:
    """One input: the number of its buffer and its spaces (takes None for a vector)."""

    buffer: int
    takes: Space | None
    gives: Space | None


@final
class InputsOutputs:
    """Reads blocks from input buffers and writes results to output buffers."""

    def __init__(self, kernel: Kernel, inputs: dict[str, Slot], buffers: Buffers) -> None:
        self.k, self.inputs, self.buffers = kernel, inputs, buffers

    def _lane(self, base: Any, index: Any) -> Lane:
        k = self.k
        return k.lane_load(base, k.b.mul(index, i64(k.bytes)))

    def coordinate(self, name: str, i: int) -> Lane:
        """Component i of the body's part of q or v."""
        k = self.k
        start = k.q_offset if name == "q" else k.v_offset
        return self._lane(self.buffers.base(self.inputs[name].buffer), k.b.add(start, i64(i)))

    # -- reading -----------------------------------------------------------------------------------

    def read(self, x: Field, code: JointCode | None) -> bl.Block:
        """The block of an input field; body quantities are turned into the simple frame."""
        name = str(x.data)
        slot = self.inputs[name]
        base = self.buffers.base(slot.buffer)
        rows, cols = self._sizes(x, code)
        if name in ("pose", "placement"):
            return self._read_pose(base, name == "placement")
        out = bl.Dense(
            [
                [self._lane(base, self._index(x, code, i, j)) for j in range(cols)]
                for i in range(rows)
            ]
        )
        if x.type.domain is not Domain.BODY:
            return out
        turn = self.turn()
        if slot.gives is not None and slot.gives.index == "body" or name == "H":
            out = _turned(out, en.transpose_rows(turn))
        if slot.takes is not None and slot.takes.index == "body" and name != "H":
            back = en.transpose_rows(turn)
            out = bl.Dense(en.transpose_rows(_turned_rows(en.transpose_rows(out.rows), back)))
        if x.type.kind.value == "symmetric":
            n = len(out.rows)
            return bl.Symmetric([out.rows[i][j] for i in range(n) for j in range(i + 1)], n)
        return out

    def _sizes(self, x: Field, code: JointCode | None) -> tuple[int, int]:
        def size(s: str) -> int:
            if s == "r":
                assert code is not None
                return code.nv
            return int(s) if s.isdigit() else 1

        return size(x.type.rows), size(x.type.cols)

    def _index(self, x: Field, code: JointCode | None, i: int, j: int) -> Any:
        """Position of entry (i, j) of the body's block in the storage layout."""
        k, b = self.k, self.k.b
        rows, cols = x.type.rows, x.type.cols
        if x.type.domain is Domain.WORLD:
            return i64(i)
        if x.type.domain is Domain.ROW:
            return k.index
        if cols == "1":
            if rows == "r":
                return b.add(k.v_offset, i64(i))
            return b.add(b.mul(k.index, i64(int(rows))), i64(i))
        if rows == "r" and cols == "r":
            w = k.widest
            return b.add(b.mul(k.index, i64(w * w)), i64(i * w + j))
        if cols == "r":  # (6, nv)
            return b.add(b.mul(k.word(N_RATES), i64(i)), b.add(k.v_offset, i64(j)))
        width = int(cols)
        if rows == "r":  # (nv, 6)
            return b.add(b.mul(b.add(k.v_offset, i64(i)), i64(width)), i64(j))
        return b.add(b.mul(k.index, i64(int(rows) * width)), i64(width * i + j))

    def _read_pose(self, base: Any, in_parent: bool) -> bl.Block:
        """A pose of the body in the world, or of its joint in the parent's frame."""
        k, b = self.k, self.k.b
        rows = [
            [self._lane(base, b.add(b.mul(k.index, i64(16)), i64(4 * i + j))) for j in range(4)]
            for i in range(3)
        ]
        if in_parent:
            above = [
                [k.constant(tables.TURN_ABOVE + 3 * j + i) for j in range(3)] for i in range(3)
            ]
            rows = en.matmul(above, rows)
        turn = en.matmul([r[:3] for r in rows], self.turn())
        return bl.Dense([[*turn[i], rows[i][3]] for i in range(3)] + [[0, 0, 0, 1]])

    def turn(self) -> en.Rows:
        """Rotation from the simple frame of the body to its own frame."""
        k = self.k
        return [[k.constant(tables.TURN + 3 * i + j) for j in range(3)] for i in range(3)]

    def into_simple_frame(self, x: bl.Dense) -> bl.Dense:
        """A body vector in body axes as one in the simple frame."""
        return _turned(x, en.transpose_rows(self.turn()))

    # -- writing -----------------------------------------------------------------------------------

    def _row(self, space: Space, i: int) -> Any:
        """Number of component i of this body's block in a vector of the space."""
        k, b = self.k, self.k.b
        if space.index == "joint":
            return b.add(k.v_offset, i64(i))
        if space.index == "row":
            return k.index
        return b.add(b.mul(k.index, i64(space.width or 6)), i64(i))

    def _add(self, entry: Any, coefficient: Any, base: Any, index: Any) -> None:
        """Add to an entry of a matrix."""
        k, b = self.k, self.k.b
        if en.is_zero(entry):
            return
        offset = b.mul(index, i64(k.bytes))
        old = k.lane_load(base, offset)
        k.lane_store(plus_scaled(old, coefficient, k.emitter.lift(entry)), base, offset)

    def write_path(self, step: Step, values: BodyCode) -> None:
        """This body's rows of the current columns."""
        k, b = self.k, self.k.b
        fields = set(step.fields)
        for r in self.buffers.from_blocks():
            base, width = self.buffers.matrix_base(r), k.count_of(r.takes)
            data: Any = r.field.data
            alone = not k.columns.several and written_once(r.field)
            for part, y in zip(data, r.field.args, strict=True):
                back = part.how == "path of adjoint"
                if y not in fields or (back and self.buffers.mirrored(r)):
                    continue
                # a path of the adjoint holds columns of the transposed matrix
                space = r.takes.dual if back else r.gives
                block = bl.Dense(values.value(y).dense())
                if space.index == "body":
                    block = _turned(block, self.turn())
                for j, (entry,) in enumerate(block.rows):
                    row, column = self._row(space, j), k.columns.column
                    if back:
                        row, column = column, row
                    at = b.add(b.mul(row, width), column)
                    if alone and not en.is_zero(entry):
                        k.columns.put(entry, base, at, width if back else None)
                    else:
                        k.columns.add(entry, part.coefficient, base, at, width if back else None)

    def _write_diagonal(self, r: Result, values: BodyCode) -> None:
        """The diagonal parts of a matrix that this step computes."""
        k, b = self.k, self.k.b
        data: Any = r.field.data
        for part, y in zip(data, r.field.args, strict=True):
            if part.how != "diagonal" or k.plan.made.get(y) != k.number:
                continue
            rows = values.value(y).dense()
            out = bl.Dense(rows)
            if r.gives.index == "body":
                out = _turned(out, self.turn())
            if r.takes.index == "body":
                turned = _turned_rows(en.transpose_rows(out.rows), self.turn())
                out = bl.Dense(en.transpose_rows(turned))
            base = self.buffers.matrix_base(r)
            for i, line in enumerate(out.rows):
                for j, entry in enumerate(line):
                    row, column = self._row(r.gives, i), self._row(r.takes, j)
                    at = b.add(b.mul(row, k.count_of(r.takes)), column)
                    self._add(entry, part.coefficient, base, at)

    def write_results(self, step: Step, values: BodyCode) -> None:
        """The results whose fields this step computes."""
        if step.domain is Domain.BODY:
            for r in self.buffers.from_blocks():
                self._write_diagonal(r, values)
        for i, r in enumerate(self.k.results):
            if r.layout != "blocks" and (
                r.field.type.domain is step.domain and self._made_here(r) and not self._is_world(r)
            ):
                self._write(len(self.inputs) + i, r, values)

    def _made_here(self, r: Result) -> bool:
        made = self.k.plan.made.get(r.field)
        return made == self.k.number

    def _is_world(self, r: Result) -> bool:
        return r.field.type.domain is Domain.WORLD

    def write_world_results(self, columns: str) -> None:
        """Totals and scalars, when all steps of a phase have run."""
        k = self.k
        values = BodyCode(k, None, Domain.WORLD, lambda x: False, k.templates)
        for i, r in enumerate(k.results):
            mine = r.field.type.cols if r.field.type.cols.startswith("all:") else ""
            if self._is_world(r) and r.layout != "blocks" and mine == columns:
                base = self.buffers.base(len(self.inputs) + i)
                for j, row in enumerate(values.value(r.field).dense()):
                    self._put_row(r, row[0], base, i64(j))

    def _write(self, buffer: int, r: Result, values: BodyCode) -> None:
        k, b = self.k, self.k.b
        base = self.buffers.base(buffer)
        x = r.field
        block: bl.Block = values.value(x)
        if r.layout == "poses":
            rows = block.dense()
            turn = en.matmul([row[:3] for row in rows[:3]], en.transpose_rows(self.turn()))
            rows = [[*turn[i], rows[i][3]] for i in range(3)] + [[0, 0, 0, 1]]
            for i in range(4):
                for j in range(4):
                    at = b.add(b.mul(k.index, i64(16)), i64(4 * i + j))
                    self.buffers.put(rows[i][j], base, at)
            return
        out = bl.Dense(block.dense())
        if x.type.domain is Domain.BODY:
            gives = r.takes.dual if r.layout == "matrix of adjoint" else r.gives
            if gives.index == "body":
                out = _turned(out, self.turn())
            if r.layout == "diagonal" and r.takes.index == "body":
                turned = _turned_rows(en.transpose_rows(out.rows), self.turn())
                out = bl.Dense(en.transpose_rows(turned))
        for i, row in enumerate(out.rows):
            for j, entry in enumerate(row):
                if r.layout.startswith("matrix"):
                    space = r.takes.dual if r.layout == "matrix of adjoint" else r.gives
                    self._put_row(r, entry, base, self._row(space, i))
                else:
                    self.buffers.put(entry, base, self._index(x, values.code, i, j))

    def _put_row(self, r: Result, entry: Any, base: Any, row: Any) -> None:
        """Write an entry of the current columns, or of a vector."""
        k, b = self.k, self.k.b
        if not r.layout.startswith("matrix"):
            self.buffers.put(entry, base, row)
            return
        width, column = k.count_of(r.takes), k.columns.column
        if r.layout == "matrix of adjoint":
            k.columns.put(entry, base, b.add(b.mul(column, width), row), width)
        else:
            k.columns.put(entry, base, b.add(b.mul(row, width), column), None)

    def finish(self) -> None:
        """Mirror what is symmetric, look for what is not finite, and write the status."""
        k, b, e = self.k, self.k.b, self.k.config
        self._add_grams()
        for r in k.results:
            if self.buffers.mirrored(r) or self.buffers.of_rows(r):
                self.buffers.mirror(r)
        Products(k).emit()
        # matrices of groups are looked at in the loop
        looked = [r for r in k.results if e.lanes == 1 or not is_matrix(r)]
        bad = self._not_finite(
            [(self.buffers.result_base(r), self.buffers.entries(r)) for r in looked]
        )
        status = b.load(k.status, typ=e.integers)
        zero = ir.Constant(e.integers, [0] * e.lanes)
        code = ir.Constant(e.integers, [NOT_FINITE] * e.lanes)
        first = b.and_(bad, b.icmp_signed("==", status, zero))
        b.store(b.select(first, code, status), self.buffers.base(self.buffers.count - 1), align=8)

    def _add_grams(self) -> None:
        """Products of the columns that paths have left, into the upper halves of results."""
        for r in self.buffers.from_blocks():
            data: Any = r.field.data
            for part, y in zip(data, r.field.args, strict=True):
                if y.op == "gram":
                    assert part.coefficient == 1
                    self.k.grams[y].emit(self.buffers.matrix_base(r))

    def status_of_inputs(self) -> Any:
        """The status with which a kernel begins: whether all inputs are finite, read or not."""
        k, e = self.k, self.k.config
        buffers = range(self.buffers.n_inputs)
        counts = [k.word(BUFFERS + self.buffers.count + i) for i in buffers]
        bad = self._not_finite(
            [(self.buffers.base(i), n) for i, n in zip(buffers, counts, strict=True)]
        )
        fine, code = (ir.Constant(e.integers, [n] * e.lanes) for n in (0, NOT_FINITE))
        return k.b.select(bad, code, fine)

    def _not_finite(self, arrays: list[tuple[Any, Any]]) -> Any:
        """Whether a number of the arrays (address, count) is NaN or infinite, for every lane.

        Σ (x − x) is zero exactly if all are finite.
        """
        k, b = self.k, self.k.b
        e, g = k.config, k.group
        several = g is not e  # numbers of one configuration lie side by side
        width, unrolled = (g.lanes, 4) if several else (1, _SUMS)
        sums: list[Any] = [ir.Constant(g.vector, [0.0] * g.lanes)] * unrolled
        numbers = ir.Constant(g.integers, list(range(g.lanes)))

        def adding(
            base: Any, start: Any, count: Any = None
        ) -> Callable[[Any, list[Any]], list[Any]]:
            def add(i: Any, old: list[Any]) -> list[Any]:
                out: list[Any] = []
                for j, so_far in enumerate(old):  # sums of their own do not wait for each other
                    at = b.add(start, b.add(i, i64(j * width)))
                    where = k.at(base, b.mul(at, i64(k.bytes)))
                    if several and count is not None:
                        left = g.splat_integer(b.sub(count, at))
                        x = masked_load(b, g, where, b.icmp_signed("<", numbers, left))
                    else:
                        x = b.load(where, align=8, typ=g.vector)
                    out.append(b.fadd(so_far, b.fsub(x, x)))
                return out

            return add

        for base, count in arrays:
            step = width * unrolled
            many = b.mul(b.udiv(count, i64(step)), i64(step))
            sums = fold_loop(b, many, step, sums, adding(base, i64(0)))
            few = b.sub(count, many)
            sums[:1] = fold_loop(b, few, width, sums[:1], adding(base, many, count))
        while len(sums) > 1:
            sums = [b.fadd(x, y) for x, y in zip(sums[::2], sums[1::2], strict=True)]
        total = sums[0]
        if several:
            parts = [b.extract_element(total, ir.Constant(I32, i)) for i in range(g.lanes)]
            while len(parts) > 1:
                parts = [b.fadd(x, y) for x, y in zip(parts[::2], parts[1::2], strict=True)]
            total = b.insert_element(ir.Constant(e.vector, [0.0]), parts[0], ir.Constant(I32, 0))
        return b.fcmp_unordered("!=", total, ir.Constant(e.vector, [0.0] * e.lanes))


def is_matrix(r: Result) -> bool:
    """True for a result that is a whole matrix."""
    return r.layout == "blocks" or r.layout.startswith("matrix")


def _turned(x: bl.Dense, turn: en.Rows) -> bl.Dense:
    """diag(R, R) X."""
    return bl.Dense(_turned_rows(x.rows, turn))


def _turned_rows(rows: en.Rows, turn: en.Rows) -> en.Rows:
    return en.matmul(turn, rows[:3]) + en.matmul(turn, rows[3:])
