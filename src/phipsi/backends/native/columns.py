"""Code that runs once per column of a matrix, or along the path of every column.

In a kernel for many configurations lanes are configurations and a column is a number. In a kernel
for one configuration lanes are columns: `column` is the first of them, and the last lanes of a
group may have none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from phipsi.backends.native import blocks as bl
from phipsi.backends.native.body_code import BodyCode
from phipsi.backends.native.data_record import (
    COLUMN,
    COUNT,
    ELEMENT,
    GROUP_SIZE,
    RANK,
    SEEDS,
    SINGLE,
    START,
    TOGETHER,
)
from phipsi.backends.native.gram import Gram
from phipsi.backends.native.pairs import Pairs
from phipsi.backends.native.phases import Phase
from phipsi.backends.native.plan import is_column, is_remade, root
from phipsi.backends.native.text import llvm_text as ir
from phipsi.backends.native.text.lanes import (
    DOUBLE,
    I8,
    I32,
    I64,
    POINTER,
    Lane,
    masked_load,
    masked_store,
    plus_scaled,
    write_loop,
)
from phipsi.backends.native.text.trigonometry import i64
from phipsi.expressions.spaces import space_named
from phipsi.sweeps import entries as en
from phipsi.sweeps.ir import Domain, Field, Reads, Step, StepKind, Variant, dependencies

if TYPE_CHECKING:
    from phipsi.backends.native.kernel import Kernel


class Columns:
    """Emits the phases of columns, and knows which column is the current one."""

    def __init__(self, kernel: Kernel) -> None:
        self.k = kernel
        self.several = kernel.group is not kernel.config
        self.at_start = False  # at the body where the current path starts
        self.column: Any = None
        self.rank: Any = None  # place of the column in the order of paths
        self.previous: Any = None  # the body the current path came from
        self.kind = ""  # of the seeds of the current paths
        self._component: Any = None  # of the seed's block
        self._seed_index: Any = None  # body or point the current path starts at
        self._pairs: list[Pairs] = []
        self._grams: list[Gram] = []

    def emit(self, phase: Phase) -> None:
        """The code of one phase."""
        if phase.columns == "path":
            self._paths(phase)
            return
        k, b = self.k, self.k.b
        count = k.count_of(space_named(phase.columns[4:]))

        def column(c: Any) -> None:
            self._begin(c, b.sub(count, c), c)
            k.run(phase.steps)
            k.io.write_world_results(phase.columns)
            computed = {x for s in phase.steps for x in s.fields}
            for x, small in k.small.items():
                if x.op == "assemble" and x.args[0] in computed:
                    small.keep()

        write_loop(b, count, column, k.group.lanes if self.several else 1)

    def _begin(self, column: Any, count: Any, rank: Any) -> None:
        """Set the current columns: `count` of them from `column` on."""
        self.column, self.rank = column, rank
        if self.several:
            e, b = self.k.group, self.k.b
            lanes = ir.Constant(e.integers, list(range(e.lanes)))
            self.valid = b.icmp_signed("<", lanes, e.splat_integer(count))
            self.columns = b.add(e.splat_integer(column), lanes)
            self.ranks = b.add(e.splat_integer(rank), lanes)

    # -- seeds -------------------------------------------------------------------------------------

    def _one_hot(self, rows: list[Any], wanted: Any) -> list[Lane]:
        """1 where the row's number is the wanted one, 0 elsewhere."""
        e, b = self.k.emitter, self.k.b
        if not self.several:
            hits = [b.uitofp(b.icmp_signed("==", row, wanted), DOUBLE) for row in rows]
            return [e.splat(hit) for hit in hits]
        masks = [b.icmp_signed("==", e.splat_integer(row), wanted) for row in rows]
        return [Lane(e, b.uitofp(mask, e.vector)) for mask in masks]

    def _current(self) -> Any:
        return self.columns if self.several else self.column

    def seed(self, x: Field, rows: int) -> bl.Block:
        """This body's part of the current column of the identity."""
        k, b = self.k, self.k.b
        index = space_named(str(x.data)).index
        if x.type.domain is Domain.WORLD:
            start: Any = i64(0)
        else:
            start = k.v_offset if index == "joint" else b.mul(k.index, i64(rows))
        numbers = [b.add(start, i64(i)) for i in range(rows)]
        out = bl.Dense([[hit] for hit in self._one_hot(numbers, self._current())])
        return k.io.into_simple_frame(out) if index == "body" else out

    def path_seed(self, x: Field, rows: int) -> bl.Block:
        """The seed at the body where a path starts, nothing further on."""
        k, b = self.k, self.k.b
        if self._starts_anywhere():
            numbers = [b.add(k.v_offset, i64(i)) for i in range(rows)]
            return bl.Dense([[hit] for hit in self._one_hot(numbers, self._current())])
        if not self.at_start:
            return bl.zeros(rows, 1)
        if self.kind == "link":
            return self._link_seed(x.args[0])
        if x.args:  # one column of a point's block
            return self._point_seed(x.args[0])
        hits = self._one_hot([i64(i) for i in range(rows)], self._component)
        out = bl.Dense([[hit] for hit in hits])
        return k.io.into_simple_frame(out) if self.kind == "body" else out

    def _link_seed(self, y: Field) -> bl.Block:
        """The column of a link, or of as many as there are lanes."""
        k, b = self.k, self.k.b
        r = root(y)
        start, out = k.plan.others[Domain.LINK][r], []
        sign = -1 if _flipped(y) else 1
        if not self.several:
            base = k.record(Domain.LINK, False, self._seed_index)
            found = [k.entry_load(r, base, start, i) for i in range(6)]
            return bl.Dense([[sign * x] for x in found])
        e = k.group
        bases = []
        for lane in range(e.lanes):  # lanes without a column read the first one's
            valid = b.extract_element(self.valid, ir.Constant(I32, lane))
            link = b.add(self._seed_index, b.select(valid, i64(lane), i64(0)))
            bases.append(k.record(Domain.LINK, False, link))
        for i in range(6):
            entry: Any = ir.Constant(e.vector, ir.Undefined)
            for lane, base in enumerate(bases):
                read = b.load(k.at(base, i64(8 * (start + i))), align=8, typ=DOUBLE)
                entry = b.insert_element(entry, read, ir.Constant(I32, lane))
            out.append([sign * Lane(e, entry)])
        return bl.Dense(out)

    def _point_seed(self, y: Field) -> bl.Block:
        """Column `component` of the point's block."""
        k = self.k
        r = root(y)
        blank = bl.Rigid([[0] * 3 for _ in range(3)], [0] * 3)
        base = k.record(Domain.POINT, False, self._seed_index)
        like: bl.Block = blank if r.type.kind.value == "rigid" else bl.zeros(6, 6)
        start = k.plan.others[Domain.POINT][r]
        block = like.like([k.entry_load(r, base, start, i) for i in range(len(like.entries))])
        view: Field = y
        sign = 1
        while view is not r:
            if view.op == "T":
                block = bl.transpose(block)
                view = view.args[0]
            elif view.op == "add":
                data: Any = view.data
                sign *= data[0]
                view = view.args[0]
            else:
                assert view.equation is not None
                view = view.equation
        hits = self._one_hot([i64(i) for i in range(6)], self._component)
        return bl.times(block, bl.Dense([[sign * hit] for hit in hits]))

    # -- paths -------------------------------------------------------------------------------------

    def _starts_anywhere(self) -> bool:
        """True if the columns of a group start at different bodies of one path."""
        return self.several and self.kind == "joint"

    def _paths(self, phase: Phase) -> None:
        """For every group of columns, from the body of its seed to the root."""
        k, b = self.k, self.k.b
        self.kind = phase.seed_kind
        pairs = [x for x in phase.pairs if x.op == "pair"]
        self._pairs = [Pairs(k, self, x, i) for i, x in enumerate(pairs)]
        self._grams = [k.grams[x] for x in phase.pairs if x.op == "gram"]
        word = SEEDS[self.kind] + (TOGETHER if self.several else SINGLE)
        groups, count = b.inttoptr(k.word(word), POINTER), k.word(word + 1)
        step = Step(StepKind.PATH, Domain.BODY, [x for s in phase.steps for x in s.fields])
        k.numbers[id(step)] = k.numbers[id(phase.steps[0])]

        def group(g: Any) -> None:
            row = k.at(groups, b.mul(g, i64(8 * GROUP_SIZE)))
            start, column, size, rank, element = (
                b.load(k.at(row, i64(8 * i)), typ=I64)
                for i in (START, COLUMN, COUNT, RANK, ELEMENT)
            )
            self._begin(column, size, rank)
            if self.kind == "joint":
                if not self.several:
                    self._component = b.sub(column, k.v_offset_of(start))
            elif self.kind == "link":
                self._seed_index = element
            else:
                self._seed_index = element
                first = b.srem(column, i64(10 if self.kind == "parameter" else 6))
                self._component = first
                if self.several:
                    lanes = ir.Constant(k.group.integers, list(range(k.group.lanes)))
                    self._component = b.add(k.group.splat_integer(first), lanes)
            self._walk(step, start)

        write_loop(b, count, group)
        self._pairs, self._grams = [], []

    def _walk(self, step: Step, start: Any) -> None:
        k, b = self.k, self.k.b
        inside, head, onward, after = (
            b.function.append_basic_block(n) for n in ("start", "walk", "onward", "end")
        )
        b.cbranch(b.icmp_signed(">=", start, i64(0)), inside, after)
        b.position_at_end(inside)
        first, came_from = start, i64(-1)
        if self._starts_anywhere():
            for x in step.fields:
                if x.op == "up":
                    for i in range(k.entries(x)):
                        self._keep(x, 0.0, i)
        else:
            self.at_start = True
            k.body(step, start)
            first, came_from = k.parent, start
            self.at_start = False
        before = b.block
        b.branch(head)
        b.position_at_end(head)
        body, self.previous = b.phi(I64), b.phi(I64)
        body.add_incoming(first, before)
        self.previous.add_incoming(came_from, before)
        b.cbranch(b.icmp_signed(">=", body, i64(0)), onward, after)
        b.position_at_end(onward)
        previous = self.previous
        k.body(step, body)
        body.add_incoming(k.parent, b.block)
        previous.add_incoming(body, b.block)
        b.branch(head)
        b.position_at_end(after)

    def before_joints(self, step: Step) -> None:
        """What is the same for every joint type is written once, not once per type."""
        shared = [pair for pair in self._pairs if not needs_joint(pair.field.args[0])]
        if shared:
            self.k.code, self.k.domain = None, step.domain
            inside = set(step.fields)
            values = BodyCode(self.k, None, step.domain, inside.__contains__, self.k.templates)
            for pair in shared:
                pair.visit(values)

    def visit(self, step: Step, values: BodyCode) -> None:
        """What a path leaves at a body: its rows of the matrix, and what it hands on.

        All is read before anything is written.
        """
        k = self.k
        k.io.write_path(step, values)
        for pair in self._pairs:
            if needs_joint(pair.field.args[0]):
                pair.visit(values)
        for gram in self._grams:
            gram.visit(self, values)
        sums = [x for x in step.fields if x.op == "up"]
        found = [values.value(x) for x in sums]
        blocks = [values.stored_form(x, values.value(x.args[0])) for x in sums]
        for x, old, block in zip(sums, found, blocks, strict=True):
            for i, (before, entry) in enumerate(zip(old.entries, block.entries, strict=True)):
                if before is not entry or not isinstance(entry, Lane):  # else it is there already
                    self._keep(x, entry, i)

    def _keep(self, x: Field, entry: Any, i: int) -> None:
        k = self.k
        assert is_column(x)
        k.entry_store(x, entry, k.records[Domain.WORLD, True], k.plan.carried[x], i)

    # -- entries of the current columns in a matrix ------------------------------------------------

    def put(self, entry: Any, base: Any, index: Any, stride: Any, mask: Any = None) -> None:
        """Write an entry of every current column; the next column's is `stride` numbers on."""
        self._write(self.k.group.lift(entry), base, index, stride, mask)

    def add(
        self, entry: Any, coefficient: Any, base: Any, index: Any, stride: Any, mask: Any = None
    ) -> None:
        """Add to an entry of every current column."""
        if en.is_zero(entry):
            return
        e = self.k.group
        old = Lane(e, self._read(base, index, stride, mask))
        new = plus_scaled(old, coefficient, e.lift(entry))
        self._write(new, base, index, stride, mask)

    def _read(self, base: Any, index: Any, stride: Any, mask: Any) -> Any:
        k, b, e = self.k, self.k.b, self.k.group
        where = k.at(base, b.mul(index, i64(k.bytes)))
        if not self.several:
            return b.load(where, align=8, typ=e.vector)
        if stride is None:
            return masked_load(b, e, where, self._allowed(mask))
        out: Any = ir.Constant(e.vector, ir.Undefined)
        for lane in range(e.lanes):
            read = b.load(self._lane_address(where, stride, lane), align=8, typ=DOUBLE)
            out = b.insert_element(out, read, ir.Constant(I32, lane))
        return out

    def _write(self, value: Lane, base: Any, index: Any, stride: Any, mask: Any) -> None:
        k, b, e = self.k, self.k.b, self.k.group
        where = k.at(base, b.mul(index, i64(k.bytes)))
        if not self.several:
            b.store(value.value, where, align=8)
            return
        allowed = self._allowed(mask)
        if stride is None:
            masked_store(b, e, value.value, where, allowed)
            return
        for lane in range(e.lanes):
            number = ir.Constant(I32, lane)
            with b.if_then(b.extract_element(allowed, number)):
                entry = b.extract_element(value.value, number)
                b.store(entry, self._lane_address(where, stride, lane), align=8)

    def _allowed(self, mask: Any) -> Any:
        return self.valid if mask is None else self.k.b.and_(self.valid, mask)

    def _lane_address(self, where: Any, stride: Any, lane: int) -> Any:
        b = self.k.b
        # lanes without a column read the first one's entry, and never write
        number = ir.Constant(I32, lane)
        step = b.select(b.extract_element(self.valid, number), stride, i64(0))
        return b.gep(where, [b.mul(step, i64(8 * lane))], source_etype=I8)


def _flipped(x: Field) -> bool:
    """True if x shows the negative of what is stored."""
    flipped = False
    while x.equation is not None or (x.op == "add" and len(x.args) == 1):
        if x.equation is not None:
            x = x.equation
        else:
            data: Any = x.data
            flipped ^= data[0] < 0
            x = x.args[0]
    return flipped


def needs_joint(x: Field) -> bool:
    """True if the value at a body depends on the type of its joint; sums come from memory."""
    stack, seen = [x], set[Field]()
    while stack:
        y = stack.pop()
        if y in seen or y.operation.reads is Reads.CHILDREN:
            continue
        seen.add(y)
        if "r" in (y.type.rows, y.type.cols) or y.operation.variant is Variant.JOINT:
            return True
        if y.type.cols == "p":
            stack.extend(dependencies(y))
        elif not is_remade(y):
            return True  # kept, with numbers that only the joint type knows
    return False
