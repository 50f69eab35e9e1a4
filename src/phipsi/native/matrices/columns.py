"""The columns of a matrix that code is working on: their seeds, and their entries in memory.

In a kernel for many configurations lanes are configurations and a column is a number. In a kernel
for one configuration lanes are columns: `column` is the first of them, and the last lanes of a
group may have none.

Reasons: docs/decisions/0016.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from phipsi.core.expressions import space_named
from phipsi.core.sweeps import Domain, Field, Kind, entries as en
from phipsi.native import tables
from phipsi.native.kernel import lane_blocks as bl
from phipsi.native.kernel.emission import Emission
from phipsi.native.kernel.emit_context import EmitContext
from phipsi.native.kernel.storage_plan import shown
from phipsi.native.text import llvm_text as ir
from phipsi.native.text.lane_arithmetic import I32, Lane, i64, plus_scaled, scaled
from phipsi.native.text.llvm_values import IRConstant, Undefined


@final
class Columns:
    """The current columns.

    **Attributes:** `column`, the first one; `rank`, its place in the order of paths; of paths,
    `kind` says what their seeds are at ("joint", "body", "parameter", "point" or "link") and
    `previous` is the body that the current path came from. If lanes are columns, `columns` and
    `ranks` are vectors, and `valid` is the mask of lanes that have a column.
    """

    column: Any
    rank: Any
    previous: Any
    valid: Any
    columns: Any
    ranks: Any

    def __init__(self, emission: Emission, place: EmitContext) -> None:
        self.k, self.place, self.several = emission, place, emission.several
        self.kind = ""
        self._component: Any = None  # of the seed's block
        self._element: Any = None  # body, point or link at which the current path starts

    def begin(self, column: ir.IRValue, count: ir.IRValue, rank: ir.IRValue) -> None:
        """Set the current columns: `count` of them from `column` on."""
        self.column, self.rank = column, rank
        if self.several:
            e, b = self.k.group, self.k.b
            self.valid = e.first(count)
            self.columns = b.add(e.splat_integer(column), e.numbers)
            self.ranks = b.add(e.splat_integer(rank), e.numbers)

    def begin_path(self, start: ir.IRValue, element: ir.IRValue) -> None:
        """Set what the paths of the current columns start from."""
        b, e = self.k.b, self.k.group
        self._element = element
        if self.kind == "joint":
            if not self.several:
                from_joint = self.k.body_integers(start, tables.V_OFFSET)[0]
                self._component = b.sub(self.column, from_joint)
        elif self.kind != "link":
            self._component = b.urem(self.column, i64(10 if self.kind == "parameter" else 6))
            if self.several:
                self._component = b.add(e.splat_integer(self._component), e.numbers)

    @property
    def start_anywhere(self) -> bool:
        """True if the columns of a group start at different bodies of one path."""
        return self.several and self.kind == "joint"

    # -- seeds -------------------------------------------------------------------------------------

    def _one_hot(self, rows: Sequence[ir.IRValue], wanted: ir.IRValue) -> list[Lane]:
        """1 where the row's number is the wanted one, 0 elsewhere."""
        e, b = self.k.emitter, self.k.b
        if not self.several:
            hits = [b.uitofp(b.icmp_signed("==", row, wanted), e.number.type) for row in rows]
            return [e.splat(hit) for hit in hits]
        masks = [b.icmp_signed("==", e.splat_integer(row), wanted) for row in rows]
        return [Lane(e, b.uitofp(mask, e.vector)) for mask in masks]

    def _identity(self, start: ir.IRValue, rows: int) -> bl.Dense:
        """The rows from `start` on of the current columns of the identity."""
        numbers = [self.k.b.add(start, i64(i)) for i in range(rows)]
        wanted = self.columns if self.several else self.column
        return bl.Dense([[hit] for hit in self._one_hot(numbers, wanted)])

    def seed(self, x: Field, rows: int) -> bl.Block:
        """This body's part of the current column of the identity."""
        index = space_named(str(x.data)).index
        if x.type.domain is Domain.WORLD:
            start: Any = i64(0)
        elif index == "joint":
            start = self.place.v_offset
        else:
            start = self.k.b.mul(self.place.index, i64(rows))
        out = self._identity(start, rows)
        return self.place.into_simple_frame(out) if index == "body" else out

    def path_seed(self, x: Field, rows: int) -> bl.Block:
        """The seed at the body where a path starts, nothing further on."""
        if self.start_anywhere:
            return self._identity(self.place.v_offset, rows)
        if not self.place.at_start:
            return bl.zeros(rows, 1)
        if self.kind == "link":
            return self._link_seed(x.args[0])
        if x.args:  # one column of a point's block
            return self._point_seed(x.args[0])
        hits = self._one_hot([i64(i) for i in range(rows)], self._component)
        out = bl.Dense([[hit] for hit in hits])
        return self.place.into_simple_frame(out) if self.kind == "body" else out

    def _link_seed(self, y: Field) -> bl.Block:
        """The column of a link, or of as many as there are lanes."""
        k, b, e = self.k, self.k.b, self.k.group
        r, factor, _ = shown(y)
        start = k.plan.slots(Domain.LINK)[r]
        if not self.several:
            base = k.record(Domain.LINK, False, self._element)
            found = [k.entry_load(r, base, start, i) for i in range(6)]
            return bl.Dense([[scaled(x, factor)] for x in found])
        bases: list[Any] = []
        for lane in range(e.lanes):  # lanes without a column read the first one's
            valid = b.extract_element(self.valid, IRConstant(I32, lane))
            link = b.add(self._element, b.select(valid, i64(lane), i64(0)))
            bases.append(k.record(Domain.LINK, False, link))
        out: en.Rows = []
        for i in range(6):
            entry = self._gather(lambda lane, i=i: k.at(bases[lane], i64(k.unit * (start + i))))
            out.append([scaled(Lane(e, entry), factor)])
        return bl.Dense(out)

    def _gather(self, address: Callable[[int], Any]) -> ir.IRValue:
        """A vector of numbers from a place per lane."""
        b, e = self.k.b, self.k.group
        out: Any = IRConstant(e.vector, Undefined)
        for lane in range(e.lanes):
            out = b.insert_element(out, e.load_one(address(lane)), IRConstant(I32, lane))
        return out

    def _point_seed(self, y: Field) -> bl.Block:
        """Column `component` of the point's block."""
        k = self.k
        r, factor, transposed = shown(y)
        base = k.record(Domain.POINT, False, self._element)
        like = bl.rigid_zeros() if r.type.kind is Kind.RIGID else bl.zeros(6, 6)
        start = k.plan.slots(Domain.POINT)[r]
        block = like.like([k.entry_load(r, base, start, i) for i in range(len(like.entries))])
        hits = self._one_hot([i64(i) for i in range(6)], self._component)
        column = bl.Dense([[scaled(hit, factor)] for hit in hits])
        return bl.times(bl.transpose(block) if transposed else block, column)

    # -- entries of the current columns in a matrix ------------------------------------------------

    def put(
        self,
        entry: Lane,
        base: ir.IRValue,
        index: ir.IRValue,
        stride: ir.IRValue | None,
        mask: ir.IRValue | None = None,
    ) -> None:
        """Write an entry of every current column; the next column's is `stride` numbers on."""
        self._write(self.k.group.lift(entry), base, index, stride, mask)

    def add(
        self,
        entry: int | Lane,
        coefficient: int,
        base: ir.IRValue,
        index: ir.IRValue,
        stride: ir.IRValue | None,
        mask: ir.IRValue | None = None,
    ) -> None:
        """Add to an entry of every current column."""
        if en.is_zero(entry):
            return
        e = self.k.group
        old = Lane(e, self._read(base, index, stride, mask))
        new = plus_scaled(old, coefficient, e.lift(entry))
        self._write(new, base, index, stride, mask)

    def _read(
        self,
        base: ir.IRValue,
        index: ir.IRValue,
        stride: ir.IRValue | None,
        mask: ir.IRValue | None,
    ) -> ir.IRValue:
        k, b, e = self.k, self.k.b, self.k.group
        where = k.at(base, b.mul(index, i64(k.bytes)))
        if not self.several:
            return e.load(where).value
        if stride is None:
            return e.masked_load(where, self._allowed(mask))
        return self._gather(lambda lane: self._lane_address(where, stride, lane))

    def _write(
        self,
        value: Lane,
        base: ir.IRValue,
        index: ir.IRValue,
        stride: ir.IRValue | None,
        mask: ir.IRValue | None,
    ) -> None:
        k, b, e = self.k, self.k.b, self.k.group
        where = k.at(base, b.mul(index, i64(k.bytes)))
        if not self.several:
            e.store(value, where)
            return
        allowed = self._allowed(mask)
        if stride is None:
            e.masked_store(value.value, where, allowed)
            return
        for lane in range(e.lanes):
            number = IRConstant(I32, lane)
            with b.if_then(b.extract_element(allowed, number)):
                entry = b.extract_element(value.value, number)
                b.store(entry, self._lane_address(where, stride, lane), align=e.unit)

    def _allowed(self, mask: ir.IRValue | None) -> ir.IRValue:
        return self.valid if mask is None else self.k.b.and_(self.valid, mask)

    def _lane_address(self, where: ir.IRValue, stride: ir.IRValue, lane: int) -> ir.IRValue:
        b = self.k.b
        # lanes without a column read the first one's entry, and never write
        number = IRConstant(I32, lane)
        step = b.select(b.extract_element(self.valid, number), stride, i64(0))
        return b.at(where, b.mul(step, i64(self.k.unit * lane)))
