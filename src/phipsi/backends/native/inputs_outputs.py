"""Inputs and outputs of a kernel: packed buffers, one vector per number, in storage layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from phipsi.backends.failures import NOT_FINITE
from phipsi.backends.native import blocks as bl
from phipsi.backends.native import tables
from phipsi.backends.native.lanes import Lane
from phipsi.backends.native.tables import JointCode
from phipsi.backends.native.trigonometry import i64
from phipsi.expressions.spaces import Space
from phipsi.sweeps.ir import Domain, Field, Step
from phipsi.sweeps.request import Result

if TYPE_CHECKING:
    from phipsi.backends.native.body_code import BodyCode
    from phipsi.backends.native.kernel import Kernel

OFFSETS = 8
N_RATES = 2


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
        k = self.k
        return k.at(k.scratch, k.word(OFFSETS + 3 + buffer))

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
        k, b = self.k, self.k.b
        name = str(x.data)
        slot = self.inputs[name]
        base = self.base(slot.buffer)
        rows, cols = self._sizes(x, code)
        if name == "pose":
            return self._read_pose(base)
        out = bl.Dense(
            [[self._lane(base, self._index(x, code, i, j)) for j in range(cols)] for i in range(rows)]
        )
        if x.type.domain is not Domain.BODY:
            return out
        turn = self._turn()
        if slot.gives is not None and slot.gives.index == "body" or name == "H":
            out = _turned(out, bl.transpose_rows(turn))
        if slot.takes is not None and slot.takes.index == "body" and name != "H":
            out = bl.Dense(bl.transpose_rows(_turned_rows(bl.transpose_rows(out.rows), turn)))
        del k, b
        if x.type.kind.value == "symmetric":
            n = len(out.rows)
            return bl.Symmetric([out.rows[i][j] for i in range(n) for j in range(i + 1)], n)
        return out

    def _sizes(self, x: Field, code: JointCode | None) -> tuple[int, int]:
        def size(s: str) -> int:
            if s == "r":
                assert code is not None
                return code.nv
            return int(s)

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

    # -- writing -----------------------------------------------------------------------------------

    def write_results(self, step: Step, values: BodyCode) -> None:
        """The results whose fields this step computes."""
        for i, r in enumerate(self.k.results):
            if r.field.type.domain is step.domain and self._made_here(r) and not self._is_world(r):
                self._write(len(self.inputs) + i, r, values)

    def _made_here(self, r: Result) -> bool:
        made = self.k.plan.made.get(r.field)
        return made == self.k.number

    def _is_world(self, r: Result) -> bool:
        return r.field.type.domain is Domain.WORLD

    def write_world_results(self) -> None:
        """Totals and scalars, when all steps have run."""
        from phipsi.backends.native.body_code import BodyCode

        k = self.k
        values = BodyCode(k, None, Domain.WORLD, lambda x: False, k.templates)
        for i, r in enumerate(k.results):
            if self._is_world(r):
                base = self.base(len(self.inputs) + i)
                for j, row in enumerate(values.value(r.field).dense()):
                    self._put(row[0], base, i64(j))

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
            if r.gives.index == "body":
                out = _turned(out, self._turn())
            if r.layout == "diagonal" and r.takes.index == "body":
                turned = _turned_rows(bl.transpose_rows(out.rows), self._turn())
                out = bl.Dense(bl.transpose_rows(turned))
        for i, row in enumerate(out.rows):
            for j, entry in enumerate(row):
                self._put(entry, base, self._index(x, values.code, i, j))

    def _put(self, entry: Any, base: Any, index: Any) -> None:
        k, b = self.k, self.k.b
        lane = k.emitter.lift(entry)
        k.lane_store(lane, base, b.mul(index, i64(k.bytes)))
        if isinstance(entry, Lane):  # x − x is zero exactly for finite x
            nothing = b.fsub(lane.value, lane.value)
            bad = b.fcmp_unordered("!=", nothing, k.emitter.constant(0.0).value)
            self._note(bad)

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
