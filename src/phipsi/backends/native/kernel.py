"""A whole program as one LLVM function: loops over the bodies, one piece of code per joint type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from phipsi.backends.native import blocks as bl
from phipsi.backends.native import tables
from phipsi.backends.native.body_code import BodyCode
from phipsi.backends.native.inputs_outputs import InputsOutputs, Slot
from phipsi.backends.native.lanes import DOUBLE, I8, I64, POINTER, Emitter, Lane, write_loop
from phipsi.backends.native.phases import Phase
from phipsi.backends.native.plan import Plan, entry_count, root
from phipsi.backends.native.record import (
    BUFFERS,
    DOF_BODY,
    DOUBLES,
    GRAVITY,
    INTEGERS,
    N_BODIES,
    N_POINTS,
    N_RATES,
    OFFSETS,
    POINT_BODY,
    POINT_DOUBLES,
)
from phipsi.backends.native.tables import JointCode
from phipsi.backends.native.trigonometry import define_sincos, i64, library_function
from phipsi.expressions.spaces import Space, space_named
from phipsi.sweeps.ir import Domain, Field, Step, StepKind
from phipsi.sweeps.request import Result


class Kernel:
    """Emits ``void kernel(data, scratch, buffers)`` for one group of lanes.

    Scratch holds, at offsets given in the data record, the body records (the first is the world's),
    the point records and the world record; `buffers` are the addresses of one packed buffer per
    input and output.
    """

    def __init__(
        self,
        module: ir.Module,
        phases: list[Phase],
        plan: Plan,
        results: tuple[Result, ...],
        inputs: dict[str, Slot],
        codes: tuple[JointCode, ...],
        constants: int,
        lanes: int,
        *,
        fused: bool,
    ) -> None:
        self.phases, self.plan = phases, plan
        steps = [s for p in phases for s in p.steps]
        self.numbers = {id(s): i for i, s in enumerate(steps)}
        self.module, self.codes = module, codes
        self.results, self.constants = results, constants
        self.widest = max((c.nv for c in codes), default=0)
        self.emitter = Emitter(lanes, fused=fused)
        self.bytes = 8 * lanes
        self.io = InputsOutputs(self, inputs)
        self.sincos_function = define_sincos(module, lanes, fused=fused)
        self._logarithm: ir.Function | None = None
        self.templates: dict[tuple[Field, str], list[Any]] = {}
        self.code: JointCode | None = None
        self.at_start = False
        self.column: Any = None  # number of the current column
        self.component: Any = None  # of the seed's block, for the current path
        self.seed_index: Any = None  # body or point the current path starts at
        self.function = self._emit()

    # -- addresses ---------------------------------------------------------------------------------

    def word(self, index: int) -> Any:
        """One word of the data record."""
        return self._words[index]

    def area(self, index: int) -> Any:
        """The offset in bytes of a scratch area, which the data record gives in numbers."""
        return self.b.mul(self.word(index), i64(self.bytes))

    def at(self, base: Any, offset: Any) -> Any:
        """base + offset bytes."""
        return self.b.gep(base, [offset], source_etype=I8)

    def lane_load(self, base: Any, offset: Any) -> Lane:
        """One vector from memory."""
        return Lane(
            self.emitter, self.b.load(self.at(base, offset), align=8, typ=self.emitter.vector)
        )

    def lane_store(self, value: Any, base: Any, offset: Any) -> None:
        """One vector to memory."""
        self.b.store(self.emitter.lift(value).value, self.at(base, offset), align=8)

    # -- the function ------------------------------------------------------------------------------

    def _emit(self) -> ir.Function:
        kind = ir.FunctionType(ir.VoidType(), [POINTER] * 3)
        function = ir.Function(self.module, kind, f"phipsi_kernel_{self.emitter.lanes}")
        function.linkage = "internal"
        for a in function.args:
            a.add_attribute("noalias")
        self.b = self.emitter.builder = ir.IRBuilder(function.append_basic_block("entry"))
        data, self.scratch, buffers = function.args
        words: list[Any] = [self.b.load(self.at(data, i64(8 * i)), typ=I64) for i in range(BUFFERS)]
        self.buffers: list[Any] = [
            self.b.load(self.at(buffers, i64(8 * i)), typ=POINTER) for i in range(self.io.buffers)
        ]
        self._words = words
        for i in (INTEGERS, DOUBLES, POINT_BODY, POINT_DOUBLES, GRAVITY, DOF_BODY):
            self._words[i] = self.b.inttoptr(self._words[i], POINTER)
        self.bodies, self.points, self.world = (
            self.at(self.scratch, self.area(OFFSETS + i)) for i in range(3)
        )
        self.status = self.b.alloca(self.emitter.integers)
        self.b.store(ir.Constant(self.emitter.integers, [0] * self.emitter.lanes), self.status)
        self._clear_world_record()
        self.io.clear_matrices()
        for phase in self.phases:
            self._phase(phase)
        self.io.write_world_results("")
        self.io.write_status()
        self.b.ret_void()
        return function

    def _phase(self, phase: Phase) -> None:
        if phase.columns == "path":
            assert phase.seed is not None
            self._paths(phase)
        elif phase.columns:
            space = space_named(phase.columns[4:])

            def column(c: Any) -> None:
                self.column = c
                for step in phase.steps:
                    self._step(step)
                self.io.write_world_results(phase.columns)

            self._loop(self.count_of(space), False, column)
        else:
            for step in phase.steps:
                self._step(step)

    def count_of(self, space: Space) -> Any:
        """Number of scalars in a vector of the space."""
        b = self.b
        if space.index == "joint":
            return self.word(N_RATES)
        if space.index in ("world", "one"):
            return i64(6 if space.index == "world" else 1)
        return b.mul(self.word(N_BODIES if space.index == "body" else N_POINTS), i64(6))

    # -- columns and paths
    # ---------------------------------------------------------------------------

    def one_hot(self, rows: list[Any], column: Any) -> list[Lane]:
        """1 where the row's number is the column's, 0 elsewhere."""
        b = self.b
        hits = [b.uitofp(b.icmp_signed("==", row, column), DOUBLE) for row in rows]
        return [self.emitter.splat(hit) for hit in hits]

    def seed(self, x: Field, rows: int) -> bl.Block:
        """This body's part of the current column of the identity."""
        b = self.b
        joint = space_named(str(x.data)).index == "joint"
        if x.type.domain is Domain.WORLD:
            start: Any = i64(0)
        else:
            start = self.v_offset if joint else b.mul(self.index, i64(6))
        numbers = [b.add(start, i64(i)) for i in range(rows)]
        out = bl.Dense([[hit] for hit in self.one_hot(numbers, self.column)])
        if x.type.domain is Domain.BODY and not joint:
            return self.io.into_simple_frame(out)
        return out

    def path_seed(self, x: Field, rows: int) -> bl.Block:
        """The seed at the body where the path starts, nothing further on."""
        if not self.at_start:
            return bl.zeros(rows, 1)
        if x.args:  # one column of a point's block
            return self._point_seed(x.args[0])
        numbers = [i64(i) for i in range(rows)]
        out = bl.Dense([[hit] for hit in self.one_hot(numbers, self.component)])
        return out if x.type.rows == "r" else self.io.into_simple_frame(out)

    def _point_seed(self, y: Field) -> bl.Block:
        """Column `component` of the point's block."""
        r = root(y)
        blank = bl.Rigid([[0] * 3 for _ in range(3)], [0] * 3)
        base = self._record(self.points, self.seed_index, self.plan.point_size)
        like: bl.Block = blank if r.type.kind.value == "rigid" else bl.zeros(6, 6)
        count = len(like.entries)
        start = self.plan.point[r]
        entries = [self.lane_load(base, i64(self.bytes * (start + i))) for i in range(count)]
        block = like.like(entries)
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
        hits = bl.Dense(
            [[sign * hit] for hit in self.one_hot([i64(i) for i in range(6)], self.component)]
        )
        return bl.times(block, hits)

    def _paths(self, phase: Phase) -> None:
        """For every column, from the body of its seed to the root."""
        seed = phase.seed
        assert seed is not None
        b = self.b
        points = seed.data == "points"
        joint = not points and seed.type.rows == "r"
        if joint:
            count = self.word(N_RATES)
        else:
            count = b.mul(self.word(N_POINTS if points else N_BODIES), i64(6))
        step = Step(StepKind.PATH, Domain.BODY, [x for s in phase.steps for x in s.fields])
        self.numbers[id(step)] = self.numbers[id(phase.steps[0])]

        def column(c: Any) -> None:
            self.column = c
            if joint:
                start = b.load(self.at(self.word(DOF_BODY), b.mul(c, i64(8))), typ=I64)
                row = self.at(self.word(INTEGERS), b.mul(start, i64(8 * tables.N_INTEGERS)))
                offset = b.load(self.at(row, i64(8 * tables.V_OFFSET)), typ=I64)
                self.component = b.sub(c, offset)
            else:
                self.seed_index = b.sdiv(c, i64(6))
                self.component = b.srem(c, i64(6))
                start = self.seed_index
                if points:
                    where = self.at(self.word(POINT_BODY), b.mul(start, i64(8)))
                    start = b.load(where, typ=I64)
            self._walk(step, start)

        self._loop(count, False, column)

    def _walk(self, step: Step, start: Any) -> None:
        b, function = self.b, self.b.function
        inside, head, onward, after = (
            function.append_basic_block(n) for n in ("start", "walk", "onward", "end")
        )
        b.cbranch(b.icmp_signed(">=", start, i64(0)), inside, after)
        b.position_at_end(inside)
        self.at_start = True
        self._body(step, start)
        first = self.parent
        before = b.block
        b.branch(head)
        b.position_at_end(head)
        k = b.phi(I64)
        k.add_incoming(first, before)
        b.cbranch(b.icmp_signed(">=", k, i64(0)), onward, after)
        b.position_at_end(onward)
        self.at_start = False
        self._body(step, k)
        k.add_incoming(self.parent, b.block)
        b.branch(head)
        b.position_at_end(after)

    def _step(self, step: Step) -> None:
        if step.domain is Domain.WORLD:
            self._visit(step, None)
            return
        self._clear(step)
        count = self.word(N_BODIES if step.domain is Domain.BODY else N_POINTS)
        self._loop(count, step.kind is StepKind.TIP_TO_BASE, lambda k: self._body(step, k))

    def _loop(self, count: Any, reverse: bool, body: Callable[[Any], None]) -> None:
        b = self.b
        last = b.sub(count, i64(1))
        write_loop(b, count, lambda i: body(b.sub(last, i) if reverse else i))

    def _clear_world_record(self) -> None:
        """What children of the world read from their parent is zero."""
        for x in sorted(self.plan.cross, key=lambda f: f.number):
            for i in range(self._entries(x)):
                self.lane_store(0.0, self.bodies, i64(self.bytes * (self.plan.body[x] + i)))

    def _clear(self, step: Step) -> None:
        """Zero what the step adds to."""
        for x in step.fields:
            if x.op == "up":
                self._clear_bodies(self.plan.sums[x], self._entries(x))
            elif x.op == "scatter":
                self._clear_bodies(self.plan.body[x], self._entries(x))
            elif x.op == "total":
                start = self.plan.world[x]
                for i in range(self._entries(x)):
                    self.lane_store(0.0, self.world, i64(self.bytes * (start + i)))

    def _entries(self, x: Field) -> int:
        return entry_count(x, self.widest)

    def _clear_bodies(self, start: int, entries: int) -> None:
        def body(k: Any) -> None:
            base = self._record(self.bodies, self.b.add(k, i64(1)), self.plan.body_size)
            for i in range(entries):
                self.lane_store(0.0, base, i64(self.bytes * (start + i)))

        self._loop(self.word(N_BODIES), False, body)

    def _record(self, base: Any, k: Any, size: int) -> Any:
        return self.at(base, self.b.mul(k, i64(self.bytes * size)))

    def _body(self, step: Step, k: Any) -> None:
        b = self.b
        self.index = k
        if step.domain is Domain.POINT:
            self.body_of_point = b.load(self.at(self.word(POINT_BODY), b.mul(k, i64(8))), typ=I64)
            self.point_table = self.at(self.word(POINT_DOUBLES), b.mul(k, i64(96)))
            self.here = self._record(self.points, k, self.plan.point_size)
            host = b.add(self.body_of_point, i64(1))
            self.host = self._record(self.bodies, host, self.plan.body_size)
            self._visit(step, None)
            return
        row = self.at(self.word(INTEGERS), b.mul(k, i64(8 * tables.N_INTEGERS)))
        numbers = [b.load(self.at(row, i64(8 * i)), typ=I64) for i in range(tables.N_INTEGERS)]
        self.parent, kind = numbers[tables.PARENT], numbers[tables.KIND]
        self.q_offset, self.v_offset = numbers[tables.Q_OFFSET], numbers[tables.V_OFFSET]
        self.table = self.at(self.word(DOUBLES), b.mul(k, i64(8 * self.constants)))
        self.here = self._record(self.bodies, b.add(k, i64(1)), self.plan.body_size)
        self.above = self._record(self.bodies, b.add(self.parent, i64(1)), self.plan.body_size)
        if len(self.codes) == 1:
            self._visit(step, self.codes[0])
            return
        done = b.function.append_basic_block("done")
        switch = b.switch(kind, done)
        for i, code in enumerate(self.codes):
            case = b.function.append_basic_block(f"joint_{i}")
            switch.add_case(i64(i), case)
            b.position_at_end(case)
            self._visit(step, code)
            b.branch(done)
        b.position_at_end(done)

    def _visit(self, step: Step, code: JointCode | None) -> None:
        """All effects of a step at one body: what is stored, pushed, summed or given out."""
        self.code, self.domain = code, step.domain
        self.number = self.numbers[id(step)]
        inside = set(step.fields)
        values = BodyCode(self, code, step.domain, inside.__contains__, self.templates)
        slots = {Domain.BODY: self.plan.body, Domain.POINT: self.plan.point}
        if step.kind is StepKind.PATH:
            self.io.write_path(step, values)
            self._carry(step, values)
            return
        for x in step.fields:
            if x.op == "up":
                self._push(x, values)
            elif x.op == "scatter":
                self._add_to(self.host, self.plan.body[x], x, values)
            elif x.op == "total":
                self._add_to(self.world, self.plan.world[x], x, values)
            elif root(x) is x and x in slots.get(step.domain, self.plan.world):
                self._store(x, values)
        self.io.write_results(step, values)

    def _carry(self, step: Step, values: BodyCode) -> None:
        """Hand the sums on to the next body of the path; read all before writing any."""
        sums = [x for x in step.fields if x.op == "up"]
        for x in sums:
            values.value(x)
        blocks = [values.stored_form(x, values.value(x.args[0])) for x in sums]
        for x, block in zip(sums, blocks, strict=True):
            for i, entry in enumerate(block.entries):
                self.lane_store(entry, self.world, i64(self.bytes * (self.plan.carried[x] + i)))

    def _store(self, x: Field, values: BodyCode) -> None:
        block = values.stored_form(x, values.value(x))
        everything = x in self.plan.cross or x.type.domain is Domain.POINT
        if step_is_world(x):
            base, start = self.world, self.plan.world[x]
        elif x.type.domain is Domain.POINT:
            base, start = self.here, self.plan.point[x]
        else:
            base, start = self.here, self.plan.body[x]
        for i, entry in enumerate(block.entries):
            if everything or isinstance(entry, Lane):
                self.lane_store(entry, base, i64(self.bytes * (start + i)))
        values.remember(x, block)

    def _push(self, x: Field, values: BodyCode) -> None:
        """Add to the parent's sum; the world's record takes what roots push."""
        self._add_to(self.above, self.plan.sums[x], x, values)

    def _add_to(self, base: Any, start: int, x: Field, values: BodyCode) -> None:
        block = values.stored_form(x, values.value(x.args[0]))
        for i, entry in enumerate(block.entries):
            if bl.is_zero(entry):
                continue
            offset = i64(self.bytes * (start + i))
            self.lane_store(self.lane_load(base, offset) + entry, base, offset)

    # -- what the code of a step reads (the Memory protocol)
    # -----------------------------------------

    def constant(self, i: int) -> Lane:
        """A number of the body's table."""
        scalar = self.b.load(self.at(self.table, i64(8 * i)), typ=DOUBLE)
        return self.emitter.splat(scalar)

    def point_constant(self, i: int) -> Lane:
        """A number of the point's table."""
        scalar = self.b.load(self.at(self.point_table, i64(8 * i)), typ=DOUBLE)
        return self.emitter.splat(scalar)

    def gravity(self, i: int) -> Lane:
        """A component of [0; −g]."""
        scalar = self.b.load(self.at(self.word(GRAVITY), i64(8 * i)), typ=DOUBLE)
        return self.emitter.splat(scalar)

    def coordinate(self, name: str, i: int) -> Lane:
        """Component i of the body's part of q or v."""
        return self.io.coordinate(name, i)

    def read_input(self, x: Field, code: JointCode | None) -> bl.Block:
        """The block of an input field."""
        return self.io.read(x, code)

    def load(self, x: Field, where: str, like: bl.Block) -> bl.Block:
        """A stored block: of this body, of its parent, of a point's body, or a sum of children."""
        if x in self.plan.carried:
            if self.at_start:
                return like
            base, start = self.world, self.plan.carried[x]
        elif where == "sum":
            base, start = self.here, self.plan.sums[x]
        elif where == "parent":
            base, start = self.above, self.plan.body[x]
        elif where == "body of point":
            base, start = self.host, self.plan.body[x]
        elif step_is_world(x):
            base, start = self.world, self.plan.world[x]
        elif x.op == "up":
            base, start = self.here, self.plan.sums[x]
        elif x.type.domain is Domain.POINT:
            base, start = self.here, self.plan.point[x]
        else:
            base, start = self.here, self.plan.body[x]
        count = len(like.entries)
        entries = [self.lane_load(base, i64(self.bytes * (start + i))) for i in range(count)]
        return like.like(entries)

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

    def fail(self, mask: Any, code: int) -> None:
        """Note the first failure of each configuration: code + 8 (body + 1)."""
        e, b = self.emitter, self.b
        status = b.load(self.status, typ=e.integers)
        zero = ir.Constant(e.integers, [0] * e.lanes)
        body = b.add(b.mul(b.add(self.index, i64(1)), i64(8)), i64(code))
        if self.domain is not Domain.BODY:
            body = i64(code)
        first = b.and_(mask, b.icmp_signed("==", status, zero))
        b.store(b.select(first, self._splat_integer(body), status), self.status)

    def _splat_integer(self, x: Any) -> Any:
        e, b = self.emitter, self.b
        undefined = ir.Constant(e.integers, ir.Undefined)
        one = b.insert_element(undefined, x, ir.Constant(ir.IntType(32), 0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), e.lanes), [0] * e.lanes)
        return b.shuffle_vector(one, undefined, zeros)

    def sincos(self, x: Lane) -> tuple[Lane, Lane]:
        """Sine and cosine."""
        pair = self.b.call(self.sincos_function, [x.value])
        e = self.emitter
        return Lane(e, self.b.extract_value(pair, 0)), Lane(e, self.b.extract_value(pair, 1))

    def log(self, x: Lane) -> Lane:
        """Natural logarithm, lane by lane in the C library."""
        if self._logarithm is None:
            self._logarithm = library_function(self.module, "log")
        out: Any = ir.Constant(self.emitter.vector, ir.Undefined)
        for i in range(self.emitter.lanes):
            at = ir.Constant(ir.IntType(32), i)
            value = self.b.call(self._logarithm, [self.b.extract_element(x.value, at)])
            out = self.b.insert_element(out, value, at)
        return Lane(self.emitter, out)


def step_is_world(x: Field) -> bool:
    """True for a field with one block in all."""
    return x.type.domain is Domain.WORLD
