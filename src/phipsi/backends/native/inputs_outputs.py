"""Inputs and outputs of a kernel: packed buffers, one vector per number, in storage layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from phipsi.backends.failures import NOT_FINITE
from phipsi.backends.native import blocks as bl
from phipsi.backends.native import tables
from phipsi.backends.native.body_code import BodyCode
from phipsi.backends.native.lanes import Lane
from phipsi.backends.native.record import N_BODIES, N_RATES
from phipsi.backends.native.tables import JointCode
from phipsi.backends.native.trigonometry import i64
from phipsi.expressions.spaces import Space
from phipsi.sweeps.ir import Domain, Field, Step
from phipsi.sweeps.request import Result

if TYPE_CHECKING:
    from phipsi.backends.native.kernel import Kernel


@dataclass(frozen=True)
class Slot:
    """One input: the number of its buffer and its spaces (takes None for a vector)."""

    buffer: int
    takes: Space | None
    gives: Space | None


class InputsOutputs:
    """Reads blocks from input buffers and writes results to output buffers."""

    def __init__(self, kernel: Kernel, inputs: dict[str, Slot]) -> None:
        self.k, self.inputs = kernel, inputs
        self.buffers = len(inputs) + len(kernel.results) + 1
        self._failed: Any = None

    def base(self, buffer: int) -> Any:
        """The address of a packed buffer."""
        return self.k.buffers[buffer]

    def _lane(self, base: Any, index: Any) -> Lane:
        k = self.k
        return k.lane_load(base, k.b.mul(index, i64(k.bytes)))

    def coordinate(self, name: str, i: int) -> Lane:
        """Component i of the body's part of q or v."""
        k = self.k
        start = k.q_offset if name == "q" else k.v_offset
        return self._lane(self.base(self.inputs[name].buffer), k.b.add(start, i64(i)))

    # -- reading -----------------------------------------------------------------------------------

    def read(self, x: Field, code: JointCode | None) -> bl.Block:
        """The block of an input field; body quantities are turned into the simple frame."""
        name = str(x.data)
        slot = self.inputs[name]
        base = self.base(slot.buffer)
        rows, cols = self._sizes(x, code)
        if name == "pose":
            return self._read_pose(base)
        out = bl.Dense(
            [
                [self._lane(base, self._index(x, code, i, j)) for j in range(cols)]
                for i in range(rows)
            ]
        )
        if x.type.domain is not Domain.BODY:
            return out
        turn = self._turn()
        if slot.gives is not None and slot.gives.index == "body" or name == "H":
            out = _turned(out, bl.transpose_rows(turn))
        if slot.takes is not None and slot.takes.index == "body" and name != "H":
            back = bl.transpose_rows(turn)
            out = bl.Dense(bl.transpose_rows(_turned_rows(bl.transpose_rows(out.rows), back)))
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
        if cols == "1":
            if rows == "r":
                return b.add(k.v_offset, i64(i))
            return b.add(b.mul(k.index, i64(6)), i64(i))
        if rows == "r" and cols == "r":
            w = k.widest
            return b.add(b.mul(k.index, i64(w * w)), i64(i * w + j))
        if cols == "r":  # (6, nv)
            return b.add(b.mul(k.word(N_RATES), i64(i)), b.add(k.v_offset, i64(j)))
        if rows == "r":  # (nv, 6)
            return b.add(b.mul(b.add(k.v_offset, i64(i)), i64(6)), i64(j))
        return b.add(b.mul(k.index, i64(36)), i64(6 * i + j))

    def _read_pose(self, base: Any) -> bl.Block:
        k, b = self.k, self.k.b
        rows = [
            [self._lane(base, b.add(b.mul(k.index, i64(16)), i64(4 * i + j))) for j in range(4)]
            for i in range(3)
        ]
        turn = bl.matmul([r[:3] for r in rows], self._turn())
        return bl.Dense([[*turn[i], rows[i][3]] for i in range(3)] + [[0, 0, 0, 1]])

    def _turn(self) -> bl.Rows:
        """Rotation from the simple frame of the body to its own frame."""
        k = self.k
        return [[k.constant(tables.TURN + 3 * i + j) for j in range(3)] for i in range(3)]

    def into_simple_frame(self, x: bl.Dense) -> bl.Dense:
        """A body vector in body axes as one in the simple frame."""
        return _turned(x, bl.transpose_rows(self._turn()))

    # -- writing -----------------------------------------------------------------------------------

    def clear_matrices(self) -> None:
        """Zero the results that are not filled everywhere."""
        k = self.k
        for i, r in enumerate(k.results):
            hinges = r.layout == "diagonal" and r.takes.index == r.gives.index == "joint"
            if r.layout == "blocks" or hinges:  # narrow hinge blocks are padded with zeros
                base = self.base(len(self.inputs) + i)
                if hinges:
                    entries = k.b.mul(k.word(N_BODIES), i64(k.widest * k.widest))
                else:
                    entries = k.b.mul(k.count_of(r.gives), k.count_of(r.takes))

                def put(index: Any, base: Any = base) -> None:
                    k.lane_store(0.0, base, k.b.mul(index, i64(k.bytes)))

                k._loop(entries, False, put)

    def _row(self, space: Space, i: int) -> Any:
        """Number of component i of this body's block in a vector of the space."""
        k, b = self.k, self.k.b
        if space.index == "joint":
            return b.add(k.v_offset, i64(i))
        return b.add(b.mul(k.index, i64(6)), i64(i))

    def _add(self, entry: Any, coefficient: Any, base: Any, index: Any) -> None:
        """Add to an entry of a matrix."""
        k, b = self.k, self.k.b
        if bl.is_zero(entry):
            return
        offset = b.mul(index, i64(k.bytes))
        old = k.lane_load(base, offset)
        term = k.emitter.lift(entry)
        if coefficient == 1:
            new = old + term
        elif coefficient == -1:
            new = old - term
        else:
            new = old + term * float(coefficient)
        k.lane_store(new, base, offset)
        self._finite(new)

    def write_path(self, step: Step, values: BodyCode) -> None:
        """This body's rows of the current column."""
        k, b = self.k, self.k.b
        fields = set(step.fields)
        for i, r in enumerate(k.results):
            if r.layout != "blocks" or r.field.op != "matrix":
                continue
            base = self.base(len(self.inputs) + i)
            data: Any = r.field.data
            for part, y in zip(data, r.field.args, strict=True):
                if y not in fields:
                    continue
                # a path of the adjoint holds columns of the transposed matrix
                space = r.gives if part.how == "path" else r.takes.dual
                block = bl.Dense(values.value(y).dense())
                if space.index == "body":
                    block = _turned(block, self._turn())
                for j, (entry,) in enumerate(block.rows):
                    row, column = self._row(space, j), k.column
                    if part.how == "path of adjoint":
                        row, column = column, row
                    at = b.add(b.mul(row, k.count_of(r.takes)), column)
                    self._add(entry, part.coefficient, base, at)

    def _write_diagonal(self, buffer: int, r: Result, values: BodyCode) -> None:
        """The diagonal parts of a matrix that this step computes."""
        k, b = self.k, self.k.b
        data: Any = r.field.data
        for part, y in zip(data, r.field.args, strict=True):
            if part.how != "diagonal" or k.plan.made.get(y) != k.number:
                continue
            rows = values.value(y).dense()
            out = bl.Dense(rows)
            if r.gives.index == "body":
                out = _turned(out, self._turn())
            if r.takes.index == "body":
                turned = _turned_rows(bl.transpose_rows(out.rows), self._turn())
                out = bl.Dense(bl.transpose_rows(turned))
            base = self.base(buffer)
            for i, line in enumerate(out.rows):
                for j, entry in enumerate(line):
                    row, column = self._row(r.gives, i), self._row(r.takes, j)
                    at = b.add(b.mul(row, k.count_of(r.takes)), column)
                    self._add(entry, part.coefficient, base, at)

    def write_results(self, step: Step, values: BodyCode) -> None:
        """The results whose fields this step computes."""
        for i, r in enumerate(self.k.results):
            if r.layout == "blocks":
                if r.field.op == "matrix" and step.domain is Domain.BODY:
                    self._write_diagonal(len(self.inputs) + i, r, values)
            elif (
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
                base = self.base(len(self.inputs) + i)
                for j, row in enumerate(values.value(r.field).dense()):
                    self._put(row[0], base, self._column_index(r, i64(j)))

    def _write(self, buffer: int, r: Result, values: BodyCode) -> None:
        k, b = self.k, self.k.b
        base = self.base(buffer)
        x = r.field
        block: bl.Block = values.value(x)
        if r.layout == "poses":
            rows = block.dense()
            turn = bl.matmul([row[:3] for row in rows[:3]], bl.transpose_rows(self._turn()))
            rows = [[*turn[i], rows[i][3]] for i in range(3)] + [[0, 0, 0, 1]]
            for i in range(4):
                for j in range(4):
                    at = b.add(b.mul(k.index, i64(16)), i64(4 * i + j))
                    self._put(rows[i][j], base, at)
            return
        out = bl.Dense(block.dense())
        if x.type.domain is Domain.BODY:
            gives = r.takes.dual if r.layout == "matrix of adjoint" else r.gives
            if gives.index == "body":
                out = _turned(out, self._turn())
            if r.layout == "diagonal" and r.takes.index == "body":
                turned = _turned_rows(bl.transpose_rows(out.rows), self._turn())
                out = bl.Dense(bl.transpose_rows(turned))
        for i, row in enumerate(out.rows):
            for j, entry in enumerate(row):
                if r.layout.startswith("matrix"):
                    space = r.takes.dual if r.layout == "matrix of adjoint" else r.gives
                    self._put(entry, base, self._column_index(r, self._row(space, i)))
                else:
                    self._put(entry, base, self._index(x, values.code, i, j))

    def _column_index(self, r: Result, row: Any) -> Any:
        """Where an entry of the current column stands in the result."""
        k, b = self.k, self.k.b
        if not r.layout.startswith("matrix"):
            return row
        if r.layout == "matrix of adjoint":
            return b.add(b.mul(k.column, k.count_of(r.takes)), row)
        return b.add(b.mul(row, k.count_of(r.takes)), k.column)

    def _put(self, entry: Any, base: Any, index: Any) -> None:
        k, b = self.k, self.k.b
        lane = k.emitter.lift(entry)
        k.lane_store(lane, base, b.mul(index, i64(k.bytes)))
        if isinstance(entry, Lane):
            self._finite(lane)

    def _finite(self, lane: Lane) -> None:
        """Non-finite results fail; x − x is zero exactly for finite x."""
        b = self.k.b
        nothing = b.fsub(lane.value, lane.value)
        self._note(b.fcmp_unordered("!=", nothing, self.k.emitter.constant(0.0).value))

    def _note(self, bad: Any) -> None:
        """Non-finite results fail with the status that says so."""
        k, b = self.k, self.k.b
        e = k.emitter
        status = b.load(k.status, typ=e.integers)
        zero = ir.Constant(e.integers, [0] * e.lanes)
        code = ir.Constant(e.integers, [NOT_FINITE] * e.lanes)
        first = b.and_(bad, b.icmp_signed("==", status, zero))
        b.store(b.select(first, code, status), k.status)

    def write_status(self) -> None:
        """The status of every configuration."""
        k, b = self.k, self.k.b
        base = self.base(self.buffers - 1)
        b.store(b.load(k.status, typ=k.emitter.integers), base, align=8)


def _turned(x: bl.Dense, turn: bl.Rows) -> bl.Dense:
    """diag(R, R) X."""
    return bl.Dense(_turned_rows(x.rows, turn))


def _turned_rows(rows: bl.Rows, turn: bl.Rows) -> bl.Rows:
    return bl.matmul(turn, rows[:3]) + bl.matmul(turn, rows[3:])
