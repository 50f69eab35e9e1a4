"""A whole program as one LLVM function: loops over the bodies, one piece of code per joint type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from phipsi.backends.native import blocks as bl
from phipsi.backends.native import tables
from phipsi.backends.native.angles import Angles
from phipsi.backends.native.body_code import BodyCode
from phipsi.backends.native.buffers import Buffers
from phipsi.backends.native.columns import Columns
from phipsi.backends.native.data_record import (
    BODIES,
    BUFFERS,
    COLUMN_BODIES,
    COLUMN_LINKS,
    COLUMN_POINTS,
    COLUMN_ROWS,
    COLUMN_WORLD,
    DOUBLES,
    GRAVITY,
    HUBS,
    INTEGERS,
    LINKS,
    N_BODIES,
    N_LINKS,
    N_POINTS,
    N_RATES,
    N_ROWS,
    POINTS,
    ROW_ORDERS,
    ROWS,
    WORLD,
)
from phipsi.backends.native.gram import Gram
from phipsi.backends.native.inputs_outputs import InputsOutputs, Slot
from phipsi.backends.native.phases import Phase
from phipsi.backends.native.plan import Plan, entry_count, is_column, root
from phipsi.backends.native.point_memory import PointMemory
from phipsi.backends.native.row_matrix import RowMatrix
from phipsi.backends.native.small import Small
from phipsi.backends.native.tables import JointCode
from phipsi.backends.native.text import llvm_text as ir
from phipsi.backends.native.text.lanes import (
    DOUBLE,
    I1,
    I8,
    I64,
    POINTER,
    Emitter,
    Lane,
    write_cases,
    write_loop,
)
from phipsi.backends.native.text.logarithm import define_log
from phipsi.backends.native.text.trigonometry import define_sincos, i64
from phipsi.expressions.spaces import Space
from phipsi.sweeps import entries as en
from phipsi.sweeps.ir import Domain, Field, Reads, Step, StepKind, Variant
from phipsi.sweeps.request import Result


class Kernel:
    """Emits ``void kernel(data, scratch, buffers, fresh)`` for one group of lanes.

    Scratch holds, at offsets given in the data record, the body records (the first is the world's),
    the point records and the world record; `buffers` are the addresses of one packed buffer per
    input and output. `fresh` is false if this kernel was the last to use the memory, for the
    same data. Lanes are configurations. A kernel for one configuration (one lane) works on
    `together` columns of a matrix at once: there, lanes are columns, and what the configuration has
    once is the same in all of them.
    """

    def __init__(
        self,
        module: ir.Module,
        phases: list[Phase],
        plan: Plan,
        results: tuple[Result, ...],
        inputs: dict[str, Slot],
        codes: tuple[JointCode, ...],
        link_codes: tuple[tuple[str, int], ...],
        selections: tuple[str, ...],
        constants: int,
        lanes: int,
        together: int,
        *,
        fused: bool,
    ) -> None:
        self.phases, self.plan = phases, plan
        steps = [s for p in phases for s in p.steps]
        self.numbers = {id(s): i for i, s in enumerate(steps)}
        self.module, self.codes, self.link_codes = module, codes, link_codes
        self.selections = selections
        self.results, self.constants = results, constants
        self.widest = max((c.nv for c in codes), default=0)
        self.config = Emitter(lanes, fused=fused)
        several = lanes == 1 and together > 1
        self.group = Emitter(together, fused=fused) if several else self.config
        self.emitter = self.config  # what lanes are now: configurations, or columns of one
        self.bytes = 8 * lanes
        self.buffers = Buffers(self, len(inputs))
        self.io = InputsOutputs(self, inputs, self.buffers)
        self.sincos_function = define_sincos(module, lanes, fused=fused)
        self.templates: dict[tuple[Field, str], list[Any]] = {}
        self.code: JointCode | None = None
        self.columns = Columns(self)
        self.points = PointMemory(self)
        self.function = self._emit()

    # -- addresses ---------------------------------------------------------------------------------

    def word(self, index: int) -> Any:
        """One word of the data record."""
        return self._words[index]

    def at(self, base: Any, offset: Any) -> Any:
        """base + offset bytes."""
        return self.b.gep(base, [offset], source_etype=I8)

    def lane_load(self, base: Any, offset: Any) -> Lane:
        """One number that every configuration has once."""
        where = self.at(base, offset)
        if self.emitter is self.config:
            return Lane(self.emitter, self.b.load(where, align=8, typ=self.emitter.vector))
        return self.emitter.splat(self.b.load(where, align=8, typ=DOUBLE))

    def lane_store(self, value: Any, base: Any, offset: Any) -> None:
        """One vector to memory."""
        self.b.store(self.emitter.lift(value).value, self.at(base, offset), align=8)

    def entry_load(self, x: Field, base: Any, start: int, i: int) -> Lane:
        """Entry i of a stored field."""
        if not is_column(x):
            return self.lane_load(base, i64(self.bytes * (start + i)))
        where = self.at(base, i64(8 * self.group.lanes * (start + i)))
        return Lane(self.group, self.b.load(where, align=8, typ=self.group.vector))

    def entry_store(self, x: Field, value: Any, base: Any, start: int, i: int) -> None:
        """Store entry i of a field."""
        emitter = self.group if is_column(x) else self.config
        self.b.store(
            emitter.lift(value).value, self.at(base, i64(8 * emitter.lanes * (start + i))), align=8
        )

    # -- the function ------------------------------------------------------------------------------

    def _emit(self) -> ir.Function:
        kind = ir.FunctionType(ir.VoidType(), [POINTER] * 3 + [I1])
        name = f"phipsi_kernel_{self.config.lanes}"
        if name in self.module.globals:  # of another program
            name = f"{name}_{len(self.module.globals)}"
        function = ir.Function(self.module, kind, name)
        function.linkage = "internal"
        for a in function.args[:3]:
            a.add_attribute("noalias")
        self.b = ir.IRBuilder(function.append_basic_block("entry"))
        self.config.builder = self.group.builder = self.b
        data, self.scratch, buffers, self.fresh = function.args
        count = BUFFERS + 2 * self.buffers.count
        words: list[Any] = [self.b.load(self.at(data, i64(8 * i)), typ=I64) for i in range(count)]
        self.addresses: list[Any] = [
            self.b.load(self.at(buffers, i64(8 * i)), typ=POINTER)
            for i in range(self.buffers.count)
        ]
        self._words = words
        for i in (*range(INTEGERS, HUBS + 1), *ROW_ORDERS.values()):
            self._words[i] = self.b.inttoptr(self._words[i], POINTER)
        once, each = self.bytes, 8 * self.group.lanes
        self.records = {
            (Domain.BODY, False): self.area(BODIES, once),
            (Domain.POINT, False): self.area(POINTS, once),
            (Domain.LINK, False): self.area(LINKS, once),
            (Domain.ROW, False): self.area(ROWS, once),
            (Domain.WORLD, False): self.area(WORLD, once),
            (Domain.BODY, True): self.area(COLUMN_BODIES, each),
            (Domain.POINT, True): self.area(COLUMN_POINTS, each),
            (Domain.LINK, True): self.area(COLUMN_LINKS, each),
            (Domain.ROW, True): self.area(COLUMN_ROWS, each),
            (Domain.WORLD, True): self.area(COLUMN_WORLD, each),
        }
        self.status = self.b.alloca(self.config.integers)
        self.b.store(self.io.status_of_inputs(), self.status)
        several = self.group is not self.config
        self.angles = Angles(self) if several and "q" in self.io.inputs else None
        self._clear_world_record()
        self._clear_sums()
        self.small = {x: Small(self, x) for x in self.plan.small}
        grams = [x for p in self.phases for x in p.pairs if x.op == "gram"]
        self.grams = {x: Gram(self, x, i) for i, x in enumerate(grams)}
        self.row_matrices = {x: RowMatrix(self, x) for x in self.plan.row_matrices}
        self.buffers.clear()
        for phase in self.phases:
            if phase.columns not in ("", "small"):
                self.emitter = self.group
                self.columns.emit(phase)
                self.emitter = self.config
            else:
                self.run(phase.steps)
        self.io.write_world_results("")
        self.io.finish()
        self.b.ret_void()
        if self.angles is not None:
            self.angles.finish()
        return function

    def area(self, word: int, unit: int) -> Any:
        """The start of a scratch area, which the data record gives in numbers of `unit` bytes."""
        return self.at(self.scratch, self.b.mul(self.word(word), i64(unit)))

    def run(self, steps: Sequence[Step]) -> None:
        """Emit steps one after the other."""
        for step in steps:
            self._step(step)

    def count_of(self, space: Space) -> Any:
        """Number of scalars in a vector of the space."""
        b = self.b
        if space.index in ("joint", "row"):
            return self.word(N_RATES if space.index == "joint" else N_ROWS)
        if space.index in ("world", "one"):
            return i64(6 if space.index == "world" else 1)
        count = self.word(N_POINTS if space.index == "point" else N_BODIES)
        return b.mul(count, i64(space.width or 6))

    def _step(self, step: Step) -> None:
        if step.domain is Domain.WORLD:
            self._visit(step, None)
            return
        self._clear(step)
        count = self.word(_COUNTS[step.domain])
        self.loop(count, step.kind is StepKind.TIP_TO_BASE, lambda k: self.body(step, k))

    def loop(self, count: Any, reverse: bool, body: Callable[[Any], None]) -> None:
        """For i in range(count), or from its end."""
        b = self.b
        last = b.sub(count, i64(1))
        write_loop(b, count, lambda i: body(b.sub(last, i) if reverse else i))

    def _clear_world_record(self) -> None:
        """What children of the world read from their parent is zero."""
        for x in sorted(self.plan.cross, key=lambda f: f.number):
            for i in range(self.entries(x)):
                record = self.records[Domain.BODY, is_column(x)]
                self.entry_store(x, 0.0, record, self.plan.body[x], i)

    def _clear_sums(self) -> None:
        """The last record has the sums to which no child has added yet."""
        last = self.b.add(self.word(N_BODIES), i64(1))
        for x, start in self.plan.sums.items():
            record = self.record(Domain.BODY, is_column(x), last)
            for i in range(self.entries(x)):
                self.entry_store(x, 0.0, record, start, i)

    def _clear(self, step: Step) -> None:
        """Zero what the step adds to."""
        for x in step.fields:
            if x.op == "scatter":
                self._clear_records(x, Domain.BODY, self.plan.body[x])
            elif x.op in ("to_point", "to_row"):
                self._clear_records(x, x.type.domain, self.plan.others[x.type.domain][x])
            elif x.op == "total":
                for i in range(self.entries(x)):
                    record = self.records[Domain.WORLD, is_column(x)]
                    self.entry_store(x, 0.0, record, self.plan.world[x], i)

    def entries(self, x: Field) -> int:
        """How many numbers a field has at a body."""
        return entry_count(x, self.widest)

    def _clear_records(self, x: Field, domain: Domain, start: int) -> None:
        before = i64(int(domain is Domain.BODY))  # the first body record is the world's

        def body(k: Any) -> None:
            record = self.record(domain, is_column(x), self.b.add(k, before))
            for i in range(self.entries(x)):
                self.entry_store(x, 0.0, record, start, i)

        self.loop(self.word(_COUNTS[domain]), False, body)

    def record(self, domain: Domain, columns: bool, k: Any) -> Any:
        """The record of body, point, link or row k; the world's is that of body 0."""
        lanes = self.group.lanes if columns else self.config.lanes
        size = 8 * lanes * self.plan.size(domain, columns)
        return self.at(self.records[domain, columns], self.b.mul(k, i64(size)))

    def integer(self, word: int, width: int, k: Any, i: int) -> Any:
        """Number i of row k of a table of integers."""
        index = self.b.add(self.b.mul(k, i64(width)), i64(i))
        return self.b.load(self.at(self.word(word), self.b.mul(index, i64(8))), typ=I64)

    def v_offset_of(self, k: Any) -> Any:
        """Where the rates of body k begin."""
        return self.integer(INTEGERS, tables.N_INTEGERS, k, tables.V_OFFSET)

    def both(self, domain: Domain, k: Any) -> tuple[Any, Any]:
        """The records of body or point k: of what there is once, and of what columns have."""
        return self.record(domain, False, k), self.record(domain, True, k)

    def body(self, step: Step, k: Any) -> None:
        """Emit a step at body (or point) k."""
        b = self.b
        self.index = k
        if step.domain is not Domain.BODY:
            self._elsewhere(step, k)
            return
        row = self.at(self.word(INTEGERS), b.mul(k, i64(8 * tables.N_INTEGERS)))
        numbers = [b.load(self.at(row, i64(8 * i)), typ=I64) for i in range(tables.N_INTEGERS)]
        self.parent, kind = numbers[tables.PARENT], numbers[tables.KIND]
        self.hub, self.on_hub = numbers[tables.HUB], numbers[tables.ON_HUB]
        self.q_offset, self.v_offset = numbers[tables.Q_OFFSET], numbers[tables.V_OFFSET]
        self.table = self.at(self.word(DOUBLES), b.mul(k, i64(8 * self.constants)))
        self.here = self.both(Domain.BODY, b.add(k, i64(1)))
        self.above = self.both(Domain.BODY, b.add(self.parent, i64(1)))
        self.old_sum = self.both(Domain.BODY, numbers[tables.OLD_SUM])
        self.sum = self.both(Domain.BODY, numbers[tables.SUM])
        if step.kind is StepKind.PATH:
            self.columns.before_joints(step)
        if len(self.codes) == 1:
            self._visit(step, self.codes[0])
            return
        write_cases(b, kind, len(self.codes), lambda i: self._visit(step, self.codes[i]))

    def _elsewhere(self, step: Step, k: Any) -> None:
        """A step at point, link or row k."""
        self.here = self.both(step.domain, k)
        if step.domain is Domain.POINT:
            self.points.at_point(k)
        elif step.domain is Domain.LINK:
            kind = self.points.at_link(k)
            if any(x.operation.variant is Variant.LINK for x in step.fields):
                write_cases(self.b, kind, len(self.link_codes), lambda i: self._link(step, i))
                return
        self._visit(step, None)

    def _link(self, step: Step, i: int) -> None:
        self.points.code = self.link_codes[i]
        self._visit(step, None)

    def _visit(self, step: Step, code: JointCode | None) -> None:
        """All effects of a step at one body: what is stored, pushed, summed or given out."""
        self.code, self.domain = code, step.domain
        self.number = self.numbers[id(step)]
        inside = set(step.fields)
        values = BodyCode(self, code, step.domain, inside.__contains__, self.templates)
        slots = {Domain.BODY: self.plan.body, **self.plan.others}
        if step.kind is StepKind.PATH:
            self.columns.visit(step, values)
            return
        for x in step.fields:
            columns = is_column(x)
            if x.op == "small_solve":
                self.small[x.args[0]].solve(x)
            elif x.op == "row_solve":
                self.row_matrices[x.args[0]].solve(x)
            elif x.op in ("matrix", "assemble"):
                if x in self.small:
                    self.small[x].invert()
                if x in self.row_matrices:
                    self.row_matrices[x].factor()
            elif x.op == "up":  # the world's record takes what roots push
                self._add_to(self.above[columns], self.plan.sums[x], x, values, self.old_sum)
            elif x.op == "scatter":
                self._add_to(self.points.records[Reads.HOST][columns], self.plan.body[x], x, values)
            elif x.op in ("to_point", "to_row"):
                record = self.points.records[Reads(x.type.domain.value)]
                self._add_to(record[columns], self.plan.others[x.type.domain][x], x, values)
            elif x.op == "total":
                record = self.records[Domain.WORLD, columns]
                self._add_to(record, self.plan.world[x], x, values)
            elif root(x) is x and x in slots.get(step.domain, self.plan.world):
                self._store(x, values)
        self.io.write_results(step, values)

    def load_entry(self, x: Field, i: Any) -> Lane:
        """Number i of a vector of points, rows or of the world, wherever its point is."""
        r, e = root(x), self.emitter
        where = self._entry_of(r, i)
        if is_column(r) or e is self.config:
            found = Lane(e, self.b.load(where, align=8, typ=e.vector))
        else:
            found = e.splat(self.b.load(where, align=8, typ=DOUBLE))
        return -found if _sign(x) < 0 else found

    def store_entry(self, x: Field, i: Any, value: Lane) -> None:
        """Write number i of a vector of points, rows or of the world."""
        self.b.store(value.value, self._entry_of(x, i), align=8)

    def _entry_of(self, r: Field, i: Any) -> Any:
        columns, b, domain = is_column(r), self.b, r.type.domain
        unit = i64(8 * (self.group.lanes if columns else self.config.lanes))
        if domain is Domain.WORLD:
            record, start = self.records[domain, columns], self.plan.world[r]
        elif domain is Domain.ROW:
            record, start = self.record(domain, columns, i), self.plan.others[domain][r]
            i = i64(0)
        else:
            record = self.record(domain, columns, b.sdiv(i, i64(6)))
            start, i = self.plan.others[domain][r], b.srem(i, i64(6))
        return self.at(record, b.mul(b.add(i64(start), i), unit))

    def _store(self, x: Field, values: BodyCode) -> None:
        block = values.stored_form(x, values.value(x))
        everything = (
            x in self.plan.cross or x in self.plan.whole or x.type.domain is not Domain.BODY
        )
        base, start = self._place(x)
        for i, entry in enumerate(block.entries):
            if everything or (isinstance(entry, Lane) and entry.place is None):
                self.entry_store(x, entry, base, start, i)
        if x.type.domain is not Domain.LINK:  # links of different kinds share a step
            values.remember(x, block)

    def _place(self, x: Field) -> tuple[Any, int]:
        """Where the value of a field at this body, at this point or of the whole is kept."""
        columns = is_column(x)
        if step_is_world(x):
            return self.records[Domain.WORLD, columns], self.plan.world[x]
        if x.op == "up":
            return self.sum[columns], self.plan.sums[x]
        slots = self.plan.others.get(x.type.domain, self.plan.body)
        return self.here[columns], slots[x]

    def _add_to(self, base: Any, start: int, x: Field, values: BodyCode, found: Any = None) -> None:
        """Add to what is kept at `base`; the sum so far may be `found` in another record."""
        block = values.stored_form(x, values.value(x.args[0]))
        old = base if found is None else found[is_column(x)]
        for i, entry in enumerate(block.entries):
            if found is not None or not en.is_zero(entry):
                self.entry_store(x, self.entry_load(x, old, start, i) + entry, base, start, i)

    # -- what the code of a step reads (the Memory protocol)
    # -----------------------------------------

    def constant(self, i: int) -> Lane:
        """A number of the body's table."""
        scalar = self.b.load(self.at(self.table, i64(8 * i)), typ=DOUBLE)
        return Lane(self.emitter, self.emitter.splat(scalar).value, i)

    def gravity(self, i: int) -> Lane:
        """A component of [0; −g]."""
        scalar = self.b.load(self.at(self.word(GRAVITY), i64(8 * i)), typ=DOUBLE)
        return self.emitter.splat(scalar)

    def coordinate(self, name: str, i: int) -> Lane:
        """Component i of the body's part of q or v."""
        out = self.io.coordinate(name, i)
        if name == "q" and self.angles is not None:
            self.angles.note(out, self.b.add(self.q_offset, i64(i)))
        return out

    def read_input(self, x: Field, code: JointCode | None) -> bl.Block:
        """The block of an input field."""
        return self.io.read(x, code)

    def turn(self) -> en.Rows:
        """Rotation from the simple frame of the body to its own frame."""
        return self.io.turn()

    def seed(self, x: Field, rows: int) -> bl.Block:
        """This body's part of the current column of the identity."""
        return self.columns.seed(x, rows)

    def path_seed(self, x: Field, rows: int) -> bl.Block:
        """The seed of the current path."""
        return self.columns.path_seed(x, rows)

    def unit(self, x: Field, rows: int) -> bl.Block:
        """This body's part of one unit vector of joint rates or inertial parameters."""
        start = self.v_offset if x.op == "unit_rate" else self.b.mul(self.index, i64(rows))
        numbers = [self.b.add(start, i64(i)) for i in range(rows)]
        dof: Any = x.data
        hits = [self.b.uitofp(self.b.icmp_signed("==", n, i64(dof)), DOUBLE) for n in numbers]
        return bl.Dense([[self.emitter.splat(hit)] for hit in hits])

    def load(self, x: Field, where: Reads, like: bl.Block) -> bl.Block:
        """A stored block: of this body, of its parent, of a point's body, or a sum of children."""
        columns = is_column(x)
        if x in self.plan.carried:
            if self.columns.at_start:
                return like
            base, start = self.records[Domain.WORLD, True], self.plan.carried[x]
        elif where is Reads.CHILDREN:
            base, start = self.sum[columns], self.plan.sums[x]
        elif where is Reads.HERE:
            base, start = self._place(x)
        else:
            slots = self.plan.others.get(x.type.domain, self.plan.body)
            records = self.above if where is Reads.PARENT else self.points.records[where]
            base, start = records[columns], slots[x]
        return like.like([self.entry_load(x, base, start, i) for i in range(len(like.entries))])

    def at_root(self, root: bl.Block, other: bl.Block) -> bl.Block:
        """The root's block where the body has no parent, the other block elsewhere."""
        e, b = self.emitter, self.b
        is_root = b.icmp_signed("<", self.parent, i64(0))
        if type(root) is not type(other):
            root, other = bl.Dense(root.dense()), bl.Dense(other.dense())
        entries = [
            x
            if not isinstance(x, Lane) and not isinstance(y, Lane) and x == y
            else Lane(e, b.select(is_root, e.lift(x).value, e.lift(y).value))
            for x, y in zip(root.entries, other.entries, strict=True)
        ]
        return other.like(entries)

    def off_hubs(self, x: bl.Block) -> bl.Block:
        """What comes from the parent, or nothing where the parent is a hub."""
        e, b = self.emitter, self.b
        stands = b.icmp_signed("!=", self.on_hub, i64(0))
        zero = e.constant(0.0).value
        entries = [Lane(e, b.select(stands, zero, e.lift(y).value)) for y in x.entries]
        return x.like(entries)

    def fail(self, mask: Any, code: int, row: Any = None, *, over: int | None = None) -> None:
        """Note the first failure of each configuration: code + 8 (body or row + 1).

        It replaces one of the code `over`.
        """
        e, b = self.emitter, self.b
        status = b.load(self.status, typ=e.integers)
        zero = ir.Constant(e.integers, [0] * e.lanes)
        body = i64(code)
        if self.domain is Domain.BODY or row is not None:
            where = self.index if row is None else row
            body = b.add(b.mul(b.add(where, i64(1)), i64(8)), body)
        open_ = b.icmp_signed("==", status, zero)
        if over is not None:
            low = b.and_(status, ir.Constant(e.integers, [7] * e.lanes))
            same = b.icmp_signed("==", low, ir.Constant(e.integers, [over] * e.lanes))
            open_ = b.or_(open_, same)
        first = b.and_(mask, open_)
        b.store(b.select(first, e.splat_integer(body), status), self.status)

    def sincos(self, x: Lane) -> tuple[Lane, Lane]:
        """Sine and cosine."""
        known = None if self.angles is None else self.angles.find(x)
        if known is not None:
            return known
        pair = self.b.call(self.sincos_function, [x.value])
        e = self.emitter
        return Lane(e, self.b.extract_value(pair, 0)), Lane(e, self.b.extract_value(pair, 1))

    def log(self, x: Lane) -> Lane:
        """Natural logarithm."""
        e = self.emitter
        function = define_log(self.module, e.lanes, fused=e.fused)
        return Lane(e, self.b.call(function, [x.value]))


def _sign(x: Field) -> int:
    """The sign with which a vector shows the field it is kept as."""
    sign = 1
    while True:
        if x.equation is not None:
            x = x.equation
        elif x.op == "add" and len(x.args) == 1:
            data: Any = x.data
            sign *= data[0]
            x = x.args[0]
        else:
            return sign


def step_is_world(x: Field) -> bool:
    """True for a field with one block in all."""
    return x.type.domain is Domain.WORLD


_COUNTS = {
    Domain.BODY: N_BODIES,
    Domain.POINT: N_POINTS,
    Domain.LINK: N_LINKS,
    Domain.ROW: N_ROWS,
}
