"""Steps along the paths of columns, from the bodies of their seeds to the roots.

Where two paths meet there are products: entry (i, j) = z_i(c)* Y(c) z_j(c), c the common ancestor.
z is what a column has along its path, Y a symmetric block of every body. When the path of column j
comes to c, the columns i before it that meet it there have left z_i(c), so one walk per column
computes the whole matrix; the other half is its mirror image. `seeds_of` says which columns
meet at each body.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import Any, final

import numpy as np

from phipsi.core.model import NO_CLOSURES, Model, PointSet
from phipsi.core.sweeps import (
    Domain,
    Field,
    LoopStep,
    Reads,
    Result,
    Variant,
    entries as en,
    reached,
)
from phipsi.native import data_record as record
from phipsi.native.data_record import GROUP_SIZE
from phipsi.native.kernel import lane_blocks as bl
from phipsi.native.kernel.body_code import BodyCode
from phipsi.native.kernel.emission import Emission
from phipsi.native.kernel.emit_context import EmitContext
from phipsi.native.kernel.phases import Phase
from phipsi.native.kernel.storage_plan import MODAL_SIZES, is_column, is_rematerialised, parts_of
from phipsi.native.matrices.columns import Columns
from phipsi.native.matrices.gram import Gram
from phipsi.native.matrices.matrix_memory import MatrixMemory
from phipsi.native.matrices.structural_zeros import on_path
from phipsi.native.text import llvm_text as ir
from phipsi.native.text.lane_arithmetic import I64, WORD, Lane, at_most, i64, scaled, write_loop


@final
class Paths:
    """Emits walks along paths; `visit_body(step, k)` writes a step at body k."""

    def __init__(
        self,
        emission: Emission,
        place: EmitContext,
        columns: Columns,
        matrices: MatrixMemory,
        visit_body: Callable[[LoopStep, Any], None],
    ) -> None:
        self.k, self.place, self.columns, self.matrices = emission, place, columns, matrices
        self._visit_body = visit_body
        self._pairs: list[Pairs] = []
        self._grams: list[Gram] = []

    def emit(self, phase: Phase, step: LoopStep) -> None:
        """A walk for every group of columns; `step` has all fields of the phase."""
        k, b, cs = self.k, self.k.b, self.columns
        cs.kind = phase.seed_kind
        pairs = [x for x in phase.pairs if x not in self.matrices.grams]
        self._pairs = [Pairs(k, self.place, cs, self.matrices, x, i) for i, x in enumerate(pairs)]
        self._grams = [g for x, g in self.matrices.grams.items() if x in phase.pairs]
        word = record.SEEDS[cs.kind] + (record.TOGETHER if cs.several else record.SINGLE)
        groups, count = k.table(word), k.word(word + 1)

        def group(g: ir.IRValue) -> None:
            row = k.at(groups, b.mul(g, i64(WORD * record.GROUP_SIZE)))
            start, column, size, rank, element = (
                b.word(row, i)
                for i in (record.START, record.COLUMN, record.COUNT, record.RANK, record.ELEMENT)
            )
            cs.begin(column, size, rank)
            cs.begin_path(start, element)
            self._walk(step, start)

        write_loop(b, count, group)

    def _walk(self, step: LoopStep, start: ir.IRValue) -> None:
        k, b, cs, at = self.k, self.k.b, self.columns, self.place
        inside, head, onward, after = (
            b.function.append_basic_block(n) for n in ("start", "walk", "onward", "end")
        )
        b.cbranch(b.icmp_signed(">=", start, i64(0)), inside, after)
        b.position_at_end(inside)
        first, came_from = start, i64(-1)
        if cs.start_anywhere:
            for x in _carried(step):
                for i in range(k.entries(x)):
                    self._keep(x, 0.0, i)
        else:
            at.at_start = True
            self._visit_body(step, start)
            first, came_from = at.parent, start
            at.at_start = False
        before = b.block
        b.branch(head)
        b.position_at_end(head)
        body, previous = b.phi(I64), b.phi(I64)
        cs.previous = previous
        body.add_incoming(first, before)
        previous.add_incoming(came_from, before)
        b.cbranch(b.icmp_signed(">=", body, i64(0)), onward, after)
        b.position_at_end(onward)
        self._visit_body(step, body)
        body.add_incoming(at.parent, b.block)
        previous.add_incoming(body, b.block)
        b.branch(head)
        b.position_at_end(after)

    def before_joints(self, values: BodyCode) -> None:
        """What is the same for every joint type is written once, not once per type."""
        for pair in self._pairs:
            if not needs_joint(pair.field.args[0]):
                pair.visit(values)

    def visit(
        self, step: LoopStep, values: BodyCode, parts: list[tuple[Field, Callable[[], None]]]
    ) -> None:
        """What a path contributes to matrices at a body, and what it carries to the next one.

        A value that is carried on is written when all that reads it has been, so that few numbers
        wait in registers.
        """
        tasks = [(read_on_path(y), write) for y, write in parts]
        for pair in self._pairs:
            if needs_joint(pair.field.args[0]):
                tasks.append((_read_by(pair.field), partial(pair.visit, values)))
        for gram in self._grams:
            tasks.append((_read_by(gram.field), partial(gram.visit, values)))
        sums = _carried(step)
        left = {x: read_on_path(x.args[0]) for x in sums}
        while tasks or left:
            if tasks:
                reads, work = tasks.pop(0)
                work()
                # next what reads the same
                tasks.sort(key=lambda task, reads=reads: not task[0] & reads)
            waiting = frozenset[Field]().union(*(reads for reads, _ in tasks))
            self._carry_on(left, waiting, values)

    def _carry_on(
        self, left: dict[Field, frozenset[Field]], waiting: frozenset[Field], values: BodyCode
    ) -> None:
        """Write the values that nothing waits for; together, if they need each other's."""
        ready = [x for x in left if x not in waiting]
        while True:
            needed = {y for x in left for y in left[x] if x not in ready and y is not x}
            kept = [x for x in ready if x not in needed]
            if kept == ready:
                break
            ready = kept
        while ready:  # those that no other one needs come first
            free = [x for x in ready if not any(x in left[y] for y in ready if y is not x)]
            batch = free[:1] or list(ready)
            found = [values.value(x) for x in batch]
            blocks = [values.stored_form(x, values.value(x.args[0])) for x in batch]
            for x, old, block in zip(batch, found, blocks, strict=True):
                there = old.entries if len(old.entries) == len(block.entries) else block.entries[:0]
                for i, (before, entry) in enumerate(zip_longest(there, block.entries)):
                    if before is not entry or not isinstance(entry, Lane):  # else it is there
                        self._keep(x, entry, i)
                ready.remove(x)
                del left[x]

    def _keep(self, x: Field, entry: float | Lane, i: int) -> None:
        k = self.k
        assert is_column(x)
        k.entry_store(x, entry, k.records(Domain.WORLD, True), k.plan.carried[x], i)


def _carried(step: LoopStep) -> list[Field]:
    """What a path carries from body to body."""
    return [x for x in step.fields if x.operation.reads is Reads.CHILDREN]


def read_on_path(x: Field) -> frozenset[Field]:
    """The carried values that the value at a body is computed from."""
    return frozenset(y for y in reached([x], on_path) if y.operation.reads is Reads.CHILDREN)


def _read_by(x: Field) -> frozenset[Field]:
    return frozenset[Field]().union(*(read_on_path(y) for y in x.args))


def needs_joint(x: Field) -> bool:
    """True if the value at a body depends on the type of its joint; sums come from memory."""

    def depends(y: Field) -> bool:
        sizes = {"r", *MODAL_SIZES} & {y.type.rows, y.type.cols}
        # kept values have numbers that only the joint type knows
        kept = y.type.cols != "p" and not is_rematerialised(y)
        return bool(sizes) or y.operation.variant is Variant.JOINT or kept

    found = reached([x], on_path)
    return any(y.operation.reads is not Reads.CHILDREN and depends(y) for y in found)


# ---- where two paths meet ------------------------------------------------------------------------


@final
class Pairs:
    """Emits what one `pair` field adds to matrices at a body of a path."""

    def __init__(
        self,
        emission: Emission,
        place: EmitContext,
        columns: Columns,
        matrices: MatrixMemory,
        field: Field,
        number: int,
    ) -> None:
        self.k, self.place, self.columns = emission, place, columns
        self.matrices, self.field, self.number = matrices, field, number
        data: Any = field.data
        self.strict = bool(data[0])  # the first step goes to the parent
        self.local = "local" in data  # what meets at a hub is kept apart

    def visit(self, values: BodyCode) -> None:
        """At body c, which the current path reached from body `previous`."""
        k, b, cs = self.k, self.k.b, self.columns
        if self.place.at_start and self.strict:
            return
        z = bl.Dense(values.value(self.field.args[0]).dense())
        if all(en.is_zero(x) for x in z.entries):
            return
        admittance = values.value(self.field.args[1])
        w = [row[0] for row in bl.times(admittance, z).dense()]
        if self.place.at_start and cs.kind == "link":
            self._note_size(z, admittance.dense())
        c = self.place.index
        if self.place.at_start:
            came_from: Any = b.add(c, i64(1))
        else:
            here = c if self.strict else b.add(c, i64(1))
            came_from = b.select(b.icmp_signed("<", cs.previous, i64(0)), here, cs.previous)
        slot = b.word(k.table(record.BRANCH), c)
        self._leave(z, came_from if self.strict else c, slot)
        one = i64(int(self.strict))
        first = self._first(b.add(c, one))
        last = self._first(b.add(came_from, one))
        if not cs.several:
            here = b.add(cs.rank, i64(1))
            last = at_most(b, last, here)
        kept = self._place(slot)

        def meetings() -> None:
            k.loop(b.sub(last, first), False, lambda i: self._meet(b.add(first, i), kept, w))

        if not self.local:
            meetings()
            return
        with b.if_else(b.icmp_signed(">=", self.place.hub, i64(0))) as (at_hub, elsewhere):
            with at_hub:
                self._at_hub(w)
            with elsewhere:
                meetings()

    def _of_seed(self, word: int, index: ir.IRValue) -> ir.IRValue:
        """A word of a table of the seeds."""
        return self.k.b.word(self.k.table(record.SEEDS[self.columns.kind] + word), index)

    def _first(self, body: ir.IRValue) -> ir.IRValue:
        """How many seeds there are before a body, in the order of paths."""
        return self._of_seed(record.FIRST, body)

    def _column(self, rank: ir.IRValue) -> ir.IRValue:
        return rank if self.columns.kind == "joint" else self._of_seed(record.SEED_COLUMN, rank)

    def _place(self, slot: ir.IRValue) -> tuple[Any, list[Any]]:
        """Where what columns leave in a slot is kept: the start, and the offset per component."""
        k, b = self.k, self.k.b
        seeds = k.word(record.SEEDS[self.columns.kind] + record.SINGLE + 1)
        pitch = b.mul(seeds, i64(k.bytes))
        offsets: list[Any] = [i64(0), pitch]
        rows = 6 + k.plan.modes
        while len(offsets) < rows:
            offsets.append(b.add(offsets[-1], pitch))
        before = b.mul(k.word(record.PATH_STRIDE), i64(k.bytes * self.number))
        start = b.add(before, b.mul(slot, b.mul(pitch, i64(rows))))
        return k.at(k.area(record.PATHS, k.bytes), start), offsets

    def _entered(self) -> list[tuple[Result, Any]]:
        """The matrices that this pair enters, with the number it is multiplied by."""
        every = [(r, part, y) for r in self.matrices.from_blocks for part, y in parts_of(r.field)]
        return [(r, part.coefficient) for r, part, y in every if y is self.field]

    def _leave(self, z: bl.Dense, starts_at: ir.IRValue, slot: ir.IRValue) -> None:
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

    def _write(self, z: bl.Dense, slot: ir.IRValue, mask: ir.IRValue | None) -> None:
        k, cs = self.k, self.columns
        start, offsets = self._place(slot)
        for (entry,), offset in zip(z.rows, offsets, strict=False):
            cs.put(entry, k.at(start, offset), cs.rank, None, mask)

    def _meet(self, rank: ir.IRValue, kept: tuple[Any, list[Any]], w: Sequence[Lane]) -> None:
        """The entries of the current columns and the column with this rank."""
        k, b, cs = self.k, self.k.b, self.columns
        column = self._column(rank)
        start = k.at(kept[0], b.mul(rank, i64(k.bytes)))
        other = [k.lane_load(start, offset) for offset in kept[1][: len(w)]]
        entry = en.dot(other, w)
        if not isinstance(entry, Lane):
            return
        for r, coefficient in self._entered():
            if cs.kind == "link":
                self._meet_rows(entry, coefficient, r, column, rank)
                continue
            base = self.matrices.base(r)
            row, _ = self.matrices.entry_index(r, column, cs.column)
            if cs.several:
                e = k.group
                later = b.icmp_signed(">=", cs.ranks, e.splat_integer(rank))
                cs.add(entry, coefficient, base, row, None, later)
                if not self.matrices.mirrored(r):
                    after = b.icmp_signed(">", cs.ranks, e.splat_integer(rank))
                    mirror, width = self.matrices.entry_index(r, cs.column, column)
                    cs.add(entry, coefficient, base, mirror, width, after)
                continue
            if self.matrices.kept(r):  # written once; on the diagonal twice the same
                number = scaled(entry, coefficient)
                cs.put(number, base, row, None)
                cs.put(number, base, self.matrices.entry_index(r, cs.column, column)[0], None)
                continue
            cs.add(entry, coefficient, base, row, None)
            if not self.matrices.mirrored(r):
                with b.if_then(b.icmp_signed("!=", rank, cs.rank)):
                    mirror, _ = self.matrices.entry_index(r, cs.column, column)
                    cs.add(entry, coefficient, base, mirror, None)

    def _meet_rows(
        self, entry: Lane, coefficient: int, r: Result, column: ir.IRValue, rank: ir.IRValue
    ) -> None:
        """The same between constraint rows, of which each pair may meet up to four times.

        Within a block only (earlier, later) is added to, and on the diagonal twice, in an order
        that does not depend on how many columns go together.
        """
        k, b, cs = self.k, self.k.b, self.columns
        base = self.matrices.base(r)
        inside = self.matrices.rows.get(r.field) if r.layout == "small" else None
        again: Any = None
        if cs.several:
            e = k.group
            ranks, columns = e.splat_integer(rank), e.splat_integer(column)
            mask: Any = b.icmp_signed(">=", cs.ranks, ranks)
            after = b.icmp_signed(">", cs.ranks, ranks)
            again = b.and_(after, b.icmp_signed("==", cs.columns, columns))
            other = again
        else:
            mask, same = None, b.icmp_signed("==", column, cs.column)
            other = b.and_(same, b.icmp_signed("!=", rank, cs.rank))

        def add(index: ir.IRValue, stride: ir.IRValue | None) -> None:
            cs.add(entry, coefficient, base, index, stride, mask)
            if cs.several:
                cs.add(entry, coefficient, base, index, stride, again)
                return
            with b.if_then(other):
                cs.add(entry, coefficient, base, index, stride)

        if inside is None:
            index, _ = self.matrices.entry_index(r, column, cs.column)
            add(index, None)
            return
        self._either_way(inside.meets(column, cs.column), add)

    def _either_way(self, where: tuple[Any, Any, Any], add: Callable[[Any, Any], None]) -> None:
        """add(index, stride) of an entry whose row is the current column, or the other one."""
        swapped, index, stride = where
        if not self.columns.several:
            add(index, None)
            return
        with self.k.b.if_else(swapped) as (later, earlier):
            with later:
                add(index, stride)
            with earlier:
                add(index, None)

    def _note_size(self, z: bl.Dense, y: en.Rows) -> None:
        """How large the diagonal entry of a row would be if its body moved in all directions alike.

        |z|² times the trace of the admittance, apart for turning and sliding.
        """
        cs = self.columns
        size: Any = 0
        for half in (range(3), range(3, 6)):
            part = [z.rows[i][0] for i in half]
            trace = en.add(en.add(y[half[0]][half[0]], y[half[1]][half[1]]), y[half[2]][half[2]])
            size = en.add(size, en.mul(en.dot(part, part), trace))
        for r, coefficient in self._entered():
            inside = self.matrices.rows.get(r.field) if r.layout == "small" else None
            if inside is not None:
                cs.add(size, coefficient, inside.sizes, inside.size_index(cs.column), None)

    def _at_hub(self, w: list[Any]) -> None:
        """What the current columns have at a hub: its rows of the matrix."""
        cs = self.columns
        for r, coefficient in self._entered():
            inside = self.matrices.rows[r.field]
            for i, entry in enumerate(w):
                where = inside.at_hub(self.place.hub, i, cs.column)
                self._either_way(where, partial(cs.add, entry, coefficient, inside.matrix))


# ---- which columns go together, and which meet where ---------------------------------------------
#
# A column of a causal operator lives on the path from its seed's body to the root. A kernel for
# many configurations takes one column at a time; a kernel for one configuration takes several at
# once, one per lane, if their seeds lie on one path.
#
# Two paths meet at the nearest common ancestor c of their starts. With bodies numbered depth first,
# the seeds that meet the path of a later seed at c are a range: those in the subtree of c before
# the child d through which the path came (``first[c] … first[d]``), or, if the first step goes to
# the parent, those after c up to and including d. What a path leaves for later ones is kept where
# it starts and at bodies with several children; it is not read elsewhere.


@dataclass(frozen=True, eq=False)
class Seeds:
    """The columns of one kind of seed ("joint", "body", "parameter", "point" or "link").

    `single` and `together` hold groups (rows of start, column, count, rank, element) of one column
    and of up to as many as there are lanes; `first` (n + 1) the number of seeds before each body in
    the order of the paths; `column` the column of each seed in that order.
    """

    single: np.ndarray
    together: np.ndarray
    first: np.ndarray
    column: np.ndarray


def seeds_of(kind: str, model: Model, points: PointSet, lanes: int) -> Seeds:
    """The tables of one kind of seed."""
    n = model.n_bodies
    if kind == "joint":
        body = np.repeat(np.arange(n), [j.nv for j in model.joints])
        column = np.arange(model.nv)
        wholes = element = body  # seeds on one path may go together
    elif kind in ("body", "parameter"):
        width = 6 if kind == "body" else 10
        body = np.repeat(np.arange(n), width)
        column = np.arange(width * n)
        wholes = element = column // width
    elif kind == "link":
        closures = points.closures or NO_CLOSURES
        where = np.array(points.body, dtype=np.int64)[closures.link_point]
        element = np.argsort(where, kind="stable")
        body, column = where[element], closures.link_row[element]
        wholes = closures.link_point[element]
    else:
        where = np.array(points.body, dtype=np.int64)
        order = np.argsort(where, kind="stable")
        body = np.repeat(where[order], 6)
        column = (6 * order[:, None] + np.arange(6)).reshape(-1)
        wholes = element = column // 6
    single = np.column_stack([body, column, np.ones_like(column), np.arange(len(column)), element])
    first = np.searchsorted(body, np.arange(n + 1))
    together = _together(kind, model, body, column, wholes, element, lanes)
    return Seeds(*(np.ascontiguousarray(a, dtype=np.int64)
                   for a in (single, together, first, column)))  # fmt: skip


def _together(
    kind: str,
    model: Model,
    body: np.ndarray,
    column: np.ndarray,
    wholes: np.ndarray,
    element: np.ndarray,
    lanes: int,
) -> np.ndarray:
    rows: list[tuple[int, int, int, int, int]] = []
    count = 0
    for s in range(len(column)):
        fits = 0 < count < lanes
        if fits and kind == "joint":  # the same body, or a child of the last one
            before, here = int(body[s - 1]), int(body[s])
            fits = here == before or model.parent[here] == before
        elif fits:
            fits = bool(wholes[s] == wholes[s - 1])
        count = count + 1 if fits else 1
        if fits:
            rows.pop()
        start = s - count + 1
        rows.append((int(body[s]), int(column[start]), count, start, int(element[start])))
    return np.array(rows, dtype=np.int64).reshape(-1, GROUP_SIZE)


def branch_slots(model: Model) -> tuple[np.ndarray, int]:
    """(n): 0, or for a body with several children 1 + how many such bodies it has above it.

    With the number of different values.
    """
    children = np.zeros(model.n_bodies, dtype=np.int64)
    for p in model.parent:
        if p >= 0:
            children[p] += 1
    above = np.zeros(model.n_bodies, dtype=np.int64)
    for k, p in enumerate(model.parent):
        if p >= 0:
            above[k] = above[p] + (children[p] > 1)
    slots = np.where(children > 1, above + 1, 0)
    return slots, int(slots.max(initial=0)) + 1
