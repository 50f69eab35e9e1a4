"""Products where two paths meet: entry (i, j) = z_i(c)* Y(c) z_j(c), c the common ancestor.

z is what a column has along its path, Y a symmetric block of every body. When the path of column j
comes to c, the columns i before it that meet it there have left z_i(c), so one walk per column
computes the whole matrix; the other half is its mirror image. See `groups` for who meets whom.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from phipsi.backends.native import blocks as bl
from phipsi.backends.native.body_code import BodyCode
from phipsi.backends.native.data_record import (
    BRANCH,
    FIRST,
    PATH_STRIDE,
    PATHS,
    SEED_COLUMN,
    SEEDS,
    SINGLE,
)
from phipsi.backends.native.text.lanes import I64, POINTER, Lane
from phipsi.backends.native.text.trigonometry import i64
from phipsi.sweeps import entries as en
from phipsi.sweeps.ir import Field
from phipsi.sweeps.request import Result

if TYPE_CHECKING:
    from phipsi.backends.native.columns import Columns
    from phipsi.backends.native.kernel import Kernel


class Pairs:
    """Emits what one `pair` field adds to matrices at a body of a path."""

    def __init__(self, kernel: Kernel, columns: Columns, field: Field, number: int) -> None:
        self.k, self.columns, self.field = kernel, columns, field
        data: Any = field.data
        self.strict = bool(data[0])  # the first step goes to the parent
        self.local = "local" in data  # what meets at a hub is kept apart
        self.number = number

    def visit(self, values: BodyCode) -> None:
        """At body c, which the current path reached from body `previous`."""
        k, b, cs = self.k, self.k.b, self.columns
        if cs.at_start and self.strict:
            return
        z = bl.Dense(values.value(self.field.args[0]).dense())
        if all(en.is_zero(x) for x in z.entries):
            return
        admittance = values.value(self.field.args[1])
        w = [row[0] for row in bl.times(admittance, z).dense()]
        if cs.at_start and cs.kind == "link":
            self._note_size(z, admittance.dense())
        c = k.index
        if cs.at_start:
            came_from: Any = b.add(c, i64(1))
        else:
            here = c if self.strict else b.add(c, i64(1))
            came_from = b.select(b.icmp_signed("<", cs.previous, i64(0)), here, cs.previous)
        slot = b.load(self._entry(BRANCH, c), typ=I64)
        self._leave(z, came_from if self.strict else c, slot)
        one = i64(int(self.strict))
        first = self._first(b.add(c, one))
        last = self._first(b.add(came_from, one))
        if not cs.several:
            here = b.add(cs.rank, i64(1))
            last = b.select(b.icmp_signed("<", last, here), last, here)
        kept = self._place(slot)

        def meetings() -> None:
            k.loop(b.sub(last, first), False, lambda i: self._meet(b.add(first, i), kept, w))

        if not self.local:
            meetings()
            return
        with b.if_else(b.icmp_signed(">=", k.hub, i64(0))) as (at_hub, elsewhere):
            with at_hub:
                self._at_hub(w)
            with elsewhere:
                meetings()

    def _entry(self, word: int, index: Any) -> Any:
        k = self.k
        return k.at(k.b.inttoptr(k.word(word), POINTER), k.b.mul(index, i64(8)))

    def _first(self, body: Any) -> Any:
        """How many seeds there are before a body, in the order of paths."""
        return self.k.b.load(self._entry(SEEDS[self.columns.kind] + FIRST, body), typ=I64)

    def _column(self, rank: Any) -> Any:
        if self.columns.kind == "joint":
            return rank
        word = SEEDS[self.columns.kind] + SEED_COLUMN
        return self.k.b.load(self._entry(word, rank), typ=I64)

    def _place(self, slot: Any) -> tuple[Any, list[Any]]:
        """Where what columns leave in a slot is kept: the start, and the offset per component."""
        k, b = self.k, self.k.b
        seeds = k.word(SEEDS[self.columns.kind] + SINGLE + 1)
        pitch = b.mul(seeds, i64(k.bytes))
        offsets: list[Any] = [i64(0), pitch]
        while len(offsets) < 6:
            offsets.append(b.add(offsets[-1], pitch))
        before = b.mul(k.word(PATH_STRIDE), i64(k.bytes * self.number))
        start = b.add(before, b.mul(slot, b.mul(pitch, i64(6))))
        return k.at(k.area(PATHS, k.bytes), start), offsets

    def _matrices(self) -> list[tuple[Any, Any]]:
        """The results this pair enters, with its part."""
        out: list[tuple[Any, Any]] = []
        for r in self.k.buffers.from_blocks():
            parts: Any = r.field.data
            zipped = zip(parts, r.field.args, strict=True)
            out += [(r, part) for part, y in zipped if y is self.field]
        return out

    def _leave(self, z: bl.Dense, starts_at: Any, slot: Any) -> None:
        """Keep z for later columns: that of seeds whose paths begin here, and at branches."""
        k, b, cs = self.k, self.k.b, self.columns
        first, last = self._first(starts_at), self._first(b.add(starts_at, i64(1)))
        if cs.several:
            e = k.group
            begins = b.and_(
                b.icmp_signed(">=", cs.ranks, e.splat_integer(first)),
                b.icmp_signed("<", cs.ranks, e.splat_integer(last)),
            )
            self._write(z, i64(0), begins)
        else:
            with b.if_then(
                b.and_(b.icmp_signed(">=", cs.rank, first), b.icmp_signed("<", cs.rank, last))
            ):
                self._write(z, i64(0), None)
        with b.if_then(b.icmp_signed(">", slot, i64(0))):
            self._write(z, slot, None)

    def _write(self, z: bl.Dense, slot: Any, mask: Any) -> None:
        k, cs = self.k, self.columns
        start, offsets = self._place(slot)
        for (entry,), offset in zip(z.rows, offsets, strict=True):
            cs.put(entry, k.at(start, offset), cs.rank, None, mask)

    def _meet(self, rank: Any, kept: tuple[Any, list[Any]], w: list[Any]) -> None:
        """The entries of the current columns and the column with this rank."""
        k, b, cs = self.k, self.k.b, self.columns
        column = self._column(rank)
        start = k.at(kept[0], b.mul(rank, i64(k.bytes)))
        other = [k.lane_load(start, offset) for offset in kept[1]]
        entry = en.dot(other, w)
        if not isinstance(entry, Lane):
            return
        for r, part in self._matrices():
            if cs.kind == "link":
                self._meet_rows(entry, part.coefficient, r, column, rank)
                continue
            base = k.buffers.matrix_base(r)
            row, _ = k.buffers.entry_index(r, column, cs.column)
            if cs.several:
                e = k.group
                later = b.icmp_signed(">=", cs.ranks, e.splat_integer(rank))
                cs.add(entry, part.coefficient, base, row, None, later)
                if not k.buffers.mirrored(r):
                    after = b.icmp_signed(">", cs.ranks, e.splat_integer(rank))
                    mirror, width = k.buffers.entry_index(r, cs.column, column)
                    cs.add(entry, part.coefficient, base, mirror, width, after)
                continue
            cs.add(entry, part.coefficient, base, row, None)
            if not k.buffers.mirrored(r):
                with b.if_then(b.icmp_signed("!=", rank, cs.rank)):
                    mirror, _ = k.buffers.entry_index(r, cs.column, column)
                    cs.add(entry, part.coefficient, base, mirror, None)

    def _meet_rows(self, entry: Any, coefficient: Any, r: Result, column: Any, rank: Any) -> None:
        """The same between constraint rows, of which each pair may meet up to four times.

        Within a block only (earlier, later) is added to, and on the diagonal twice, in an order
        that does not depend on how many columns go together.
        """
        k, b, cs = self.k, self.k.b, self.columns
        base = k.buffers.matrix_base(r)
        inside = k.row_matrices.get(r.field) if r.layout == "small" else None
        again: Any = None
        if cs.several:
            e = k.group
            ranks, columns = e.splat_integer(rank), e.splat_integer(column)
            mask: Any = b.icmp_signed(">=", cs.ranks, ranks)
            after = b.icmp_signed(">", cs.ranks, ranks)
            again = b.and_(after, b.icmp_signed("==", cs.columns, columns))
        else:
            mask, same = None, b.icmp_signed("==", column, cs.column)
            other = b.and_(same, b.icmp_signed("!=", rank, cs.rank))

        def add(index: Any, stride: Any) -> None:
            cs.add(entry, coefficient, base, index, stride, mask)
            if cs.several:
                cs.add(entry, coefficient, base, index, stride, again)
                return
            with b.if_then(other):
                cs.add(entry, coefficient, base, index, stride)

        if inside is None:
            index, _ = k.buffers.entry_index(r, column, cs.column)
            add(index, None)
            return
        swapped, index, stride = inside.meets(column, cs.column)
        if not cs.several:
            add(index, None)
            return
        with b.if_else(swapped) as (later, earlier):
            with later:
                add(index, stride)
            with earlier:
                add(index, None)

    def _note_size(self, z: bl.Dense, y: en.Rows) -> None:
        """How large the diagonal entry of a row would be if its body moved in all directions alike.

        |z|² times the trace of the admittance, apart for turning and sliding.
        """
        k, cs = self.k, self.columns
        size: Any = 0
        for half in (range(3), range(3, 6)):
            part = [z.rows[i][0] for i in half]
            trace = en.add(en.add(y[half[0]][half[0]], y[half[1]][half[1]]), y[half[2]][half[2]])
            size = en.add(size, en.mul(en.dot(part, part), trace))
        for r, part in self._matrices():
            inside = k.row_matrices.get(r.field) if r.layout == "small" else None
            if inside is not None:
                cs.add(size, part.coefficient, inside.sizes, inside.size_index(cs.column), None)

    def _at_hub(self, w: list[Any]) -> None:
        """What the current columns have at a hub: its rows of the matrix."""
        k, b, cs = self.k, self.k.b, self.columns
        for r, part in self._matrices():
            inside = k.row_matrices[r.field]
            for i, entry in enumerate(w):
                swapped, index, stride = inside.at_hub(k.hub, i, cs.column)
                if not cs.several:
                    cs.add(entry, part.coefficient, inside.matrix, index, None)
                    continue
                with b.if_else(swapped) as (later, earlier):
                    with later:
                        cs.add(entry, part.coefficient, inside.matrix, index, stride)
                    with earlier:
                        cs.add(entry, part.coefficient, inside.matrix, index, None)
