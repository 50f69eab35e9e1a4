"""Inputs of a kernel: blocks in the frames of the code, and sines and cosines of coordinates."""

from __future__ import annotations

from typing import Any, final

from phipsi.core.sweeps import Domain, Field, entries as en
from phipsi.native import data_record as record, tables
from phipsi.native.kernel import lane_blocks as bl
from phipsi.native.kernel.emission import Emission
from phipsi.native.kernel.emit_context import EmitContext
from phipsi.native.kernel.storage_plan import MODAL_SIZES
from phipsi.native.tables import JointCode
from phipsi.native.text import llvm_text as ir
from phipsi.native.text.lane_arithmetic import Lane, i64, write_loop
from phipsi.native.text.sine_and_logarithm import define_sincos


def block_size(s: str, code: JointCode | None) -> int:
    """Rows or columns of a block; of several columns, one at a time is computed."""
    if s == "r":
        assert code is not None
        return code.nv
    if s == "q":
        assert code is not None
        return code.nq
    if s in MODAL_SIZES:
        assert code is not None
        return {"b": 6 + code.rows, "B": 6 + code.parent_rows, "m": code.port_modes}[s]
    return int(s) if s.isdigit() else 1


@final
class InputReader:
    """Reads blocks from the packed buffers of the inputs, one vector per number."""

    def __init__(self, emission: Emission, place: EmitContext) -> None:
        self.k, self.place, self.slots = emission, place, emission.parts.inputs
        tabled = emission.several and "q" in self.slots
        self.angles = AngleTable(emission) if tabled else None

    def coordinate(self, name: str, i: int) -> Lane:
        """Component i of the body's part of q or v."""
        k, at = self.k, self.place
        place = k.b.add(at.q_offset if name == "q" else at.v_offset, i64(i))
        out = k.load(k.buffer(self.slots[name].buffer), place)
        if name == "q" and self.angles is not None:
            self.angles.note(out, k.b.add(at.q_offset, i64(i)))
        return out

    def entry(self, name: str, i: int) -> Lane:
        """Number i of q."""
        k = self.k
        return k.load(k.buffer(self.slots[name].buffer), i64(i))

    def parent_mode(self, name: str, i: int, count: int) -> Lane:
        """Modal coordinate or rate i of the parent, which has so many of them."""
        k = self.k
        column = tables.Q_OFFSET if name == "q" else tables.V_OFFSET
        (end,) = k.body_integers(k.b.add(self.place.parent, i64(1)), column)  # of the next body
        return k.load(k.buffer(self.slots[name].buffer), k.b.add(end, i64(i - count)))

    def sincos(self, x: Lane) -> tuple[Lane, Lane]:
        """Sine and cosine."""
        found = None if self.angles is None else self.angles.find(x)
        if found is not None:
            return found
        e, b = self.k.emitter, self.k.b
        pair = b.call(self.k.sincos_function, [x.value])
        return Lane(e, b.extract_value(pair, 0)), Lane(e, b.extract_value(pair, 1))

    def read(self, x: Field, code: JointCode | None) -> bl.Block:
        """The block of an input field; body quantities are rotated into the simple frame."""
        name = str(x.data)
        slot, base = self.slots[name], self.k.buffer(self.slots[name].buffer)
        if name in ("pose", "placement"):
            return self._read_pose(base, name == "placement")
        rows, cols = (block_size(s, code) for s in (x.type.rows, x.type.cols))
        out = bl.Dense(
            [[self.k.load(base, self.index(x, i, j)) for j in range(cols)] for i in range(rows)]
        )
        if x.type.domain is Domain.POINT and x.type.kind.value == "symmetric":
            return bl.Symmetric(en.lower_half(out.rows), len(out.rows))
        if x.type.domain is not Domain.BODY:
            return out
        turn = self.place.turn()
        if slot.gives is not None and slot.gives.index == "body" or name == "H":
            out = bl.turned(out, en.transpose_rows(turn))
        if slot.takes is not None and slot.takes.index == "body" and name != "H":
            out = bl.turned_back(out, en.transpose_rows(turn))
        if x.type.kind.value == "symmetric":
            return bl.Symmetric(en.lower_half(out.rows), len(out.rows))
        return out

    def index(self, x: Field, i: int, j: int) -> ir.IRValue:
        """Position of entry (i, j) of the block here in the storage layout."""
        k, at, b = self.k, self.place, self.k.b
        rows, cols = x.type.rows, x.type.cols
        if x.type.domain is Domain.WORLD:
            return i64(i)
        if x.type.domain is Domain.ROW:
            return at.index
        if cols == "1":
            if rows == "r":
                return b.add(at.v_offset, i64(i))
            if rows == "q":
                return b.add(at.q_offset, i64(i))
            return b.add(b.mul(at.index, i64(int(rows))), i64(i))
        if rows == "r" and cols == "r":
            w = k.widest
            return b.add(b.mul(at.index, i64(w * w)), i64(i * w + j))
        if cols == "r":  # (6, nv)
            return b.add(b.mul(k.word(record.N_RATES), i64(i)), b.add(at.v_offset, i64(j)))
        width = int(cols)
        if rows == "r":  # (nv, 6)
            return b.add(b.mul(b.add(at.v_offset, i64(i)), i64(width)), i64(j))
        return b.add(b.mul(at.index, i64(int(rows) * width)), i64(width * i + j))

    def _read_pose(self, base: ir.IRValue, in_parent: bool) -> bl.Block:
        """A pose of the body in the world, or of its joint in the parent's frame."""
        k, at, b = self.k, self.place, self.k.b
        rows: en.Rows = [
            [k.load(base, b.add(b.mul(at.index, i64(16)), i64(4 * i + j))) for j in range(4)]
            for i in range(3)
        ]
        if in_parent:
            rows = en.matmul(at.matrix(tables.TURN_ABOVE, transposed=True), rows)
        turn = en.matmul([r[:3] for r in rows], at.turn())
        return bl.Dense(en.pose_rows(turn, [r[3] for r in rows]))


@final
class AngleTable:
    """Sines and cosines of all coordinates at once, in a kernel for one configuration.

    Joint by joint they are computed one at a time, and take a sixth of a call. Here lanes are
    coordinates. Those that are not angles are computed too, and not used. The loop over the
    coordinates is written at the end, where the kernel began, if anything asked for the table.
    """

    def __init__(self, emission: Emission) -> None:
        self.k = emission
        self._places: dict[str, Any] = {}  # coordinates by the names of their values
        b = emission.b
        self._before, self._after = (
            b.function.append_basic_block(name) for name in ("angles", "angles_done")
        )
        b.branch(self._before)
        b.position_at_end(self._after)
        self._asked = False

    def note(self, x: Lane, place: ir.IRValue) -> None:
        """A coordinate has been read from its place in q."""
        self._places[x.value.name] = place

    def find(self, x: Lane) -> tuple[Lane, Lane] | None:
        """Sine and cosine of a coordinate, if it is one."""
        place = self._places.get(x.value.name)
        if place is None:
            return None
        self._asked = True
        at = self.k.b.mul(place, i64(self.k.unit))
        sine, cosine = (self.k.lane_load(base, at) for base in self._tables())
        return sine, cosine

    def _tables(self) -> tuple[Any, Any]:
        k = self.k
        sines = k.area(record.ANGLES, k.unit)
        room = k.b.mul(k.b.add(self._count(), i64(k.group.lanes)), i64(k.unit))
        return sines, k.at(sines, room)

    def _count(self) -> ir.IRValue:
        """The number of coordinates."""
        return self.k.buffer_size(self.k.parts.inputs["q"].buffer)

    def finish(self) -> None:
        """Write the loop over the coordinates, after the kernel's last instruction."""
        k, b, g = self.k, self.k.b, self.k.group
        b.position_at_end(self._before)
        if self._asked:
            function = define_sincos(k.module, g)
            count, q = self._count(), k.buffer(k.parts.inputs["q"].buffer)
            tables = self._tables()

            def some(i: ir.IRValue) -> None:
                mask = g.first(b.sub(count, i))
                at = b.mul(i, i64(k.unit))
                pair = b.call(function, [g.masked_load(k.at(q, at), mask)])
                for j, table in enumerate(tables):
                    g.store(Lane(g, b.extract_value(pair, j)), k.at(table, at))

            write_loop(b, count, some, g.lanes)
        b.branch(self._after)
