"""Machine code of a rollout: kernels, such as that of forward dynamics, in the loop over steps.

Lanes are trajectories. The state of a group of them stays packed, one vector per number, from the
first step to the last; only what is recorded is unpacked. Joint formulas are those of the groups,
run on lanes instead of arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

from phipsi.backends.native import tables
from phipsi.backends.native.data_record import INTEGERS, N_BODIES
from phipsi.backends.native.native_backend import NativeCode
from phipsi.backends.native.tables import JointCode
from phipsi.backends.native.text import llvm_text as ir
from phipsi.backends.native.text.lane_arithmetic import (
    DOUBLE,
    I32,
    I64,
    POINTER,
    Emitter,
    Lane,
    i64,
    write_cases,
    write_loop,
)
from phipsi.spatial.exponential import SERIES_BELOW, polynomial
from phipsi.spatial.groups import Group

# Words of a job: addresses of arrays, numbers, the step length as a double; from PROGRAMS on, the
# data and the scratch memory of every kernel that a step calls.
(
    Q0, V0, TAU, OUT_Q, OUT_V, STATUS, FAILED_AT, WORK,
    COUNT, STEPS, EVERY, TAU_ROW, TAU_STEP, NQ, NV, FREE, CLOSURES, DT, PROGRAMS,
) = range(19)  # fmt: skip

Values = list[Any]


@final
class _LaneNumbers:
    """What exponential.py of `spatial` needs of numbers, for lanes."""

    def __init__(self, emitter: Emitter, sincos: ir.Function) -> None:
        self.e, self._function = emitter, sincos
        self._known: dict[str, tuple[Lane, Lane]] = {}

    def _sincos(self, x: Lane) -> tuple[Lane, Lane]:
        key = x.value.name
        if key not in self._known:
            pair = self.e.builder.call(self._function, [x.value])
            parts = (self.e.builder.extract_value(pair, i) for i in range(2))
            sine, cosine = (Lane(self.e, part) for part in parts)
            self._known[key] = (sine, cosine)
        return self._known[key]

    def sin(self, x: Lane) -> Lane:
        return self._sincos(x)[0]

    def cos(self, x: Lane) -> Lane:
        return self._sincos(x)[1]

    def sqrt(self, x: Lane) -> Lane:
        return self.e.intrinsic("sqrt", x)

    def pick(self, s: Lane, series: tuple[float, ...], closed: Callable[[Any, Any], Any]) -> Lane:
        small = self.e.compare("<", s, SERIES_BELOW)
        near, far = self.e.select(small, s, 0.0), self.e.select(small, 1.0, s)
        return self.e.select(small, polynomial(series, near), closed(far, self))


class LaneCode:
    """Code of loops with trajectories in lanes: memory, packing, joints, failures.

    **Attributes:** `b`, `e`, what instructions are written with; `lanes`; `data`, the
    record of the model's tables; `codes` of its joints; `sincos`, a function.
    """

    b: ir.IRBuilder
    e: Emitter
    lanes: int
    bytes: int
    data: Any
    codes: Sequence[JointCode]
    zero: Any
    sincos: ir.Function
    _bad: Any

    def word(self, base: Any, i: int) -> Any:
        """Word i of a record."""
        return self.b.load(self.b.at(base, 8 * i), typ=I64)

    def note(self, status: Any) -> None:
        """Keep the first failure of every lane in this step."""
        b, old = self.b, self.bad()
        b.store(b.select(b.icmp_signed("==", old, self.zero), status, old), self._bad)

    def note_status(self, place: Any, allowed: Sequence[int] = ()) -> None:
        """Note the status of every lane; codes that are `allowed` are not failures."""
        b, e = self.b, self.e
        status = b.load(place, align=8, typ=e.integers)
        for code in allowed:
            fine = b.icmp_signed("==", b.and_(status, e.integer(7)), e.integer(code))
            status = b.select(fine, self.zero, status)
        self.note(status)

    def bad(self) -> Any:
        """What has failed in this step, by lane."""
        return self.b.load(self._bad, typ=self.e.integers)

    def set_bad(self, status: Any) -> None:
        """What has failed in this step, by lane."""
        self.b.store(status, self._bad)

    def all(self, mask: Any) -> Any:
        """Whether a condition holds in every lane."""
        width = ir.IntType(self.lanes)
        every = ir.Constant(width, 2**self.lanes - 1)
        return self.b.icmp_unsigned("==", self.b.bitcast(mask, width), every)

    def numbers(self) -> _LaneNumbers:
        """What the formulas of the groups need, again wherever code branches."""
        return _LaneNumbers(self.e, self.sincos)

    def copy(self, source: Any, target: Any, count: Any) -> None:
        """One area to another."""
        write_loop(self.b, count, lambda i: self.store(self.load(source, i), target, i))

    def load(self, base: Any, i: Any) -> Lane:
        """Number i of an area."""
        where = self.b.at(base, self.b.mul(i, i64(self.bytes)))
        return Lane(self.e, self.b.load(where, align=8, typ=self.e.vector))

    def store(self, value: Any, base: Any, i: Any) -> None:
        """Number i of an area."""
        where = self.b.at(base, self.b.mul(i, i64(self.bytes)))
        self.b.store(self.e.lift(value).value, where, align=8)

    def pack(self, bases: Values, packed: Any, count: Any) -> None:
        """Rows of numbers, one per lane, into vectors."""
        b = self.b

        def one(i: Any) -> None:
            out: Any = ir.Constant(self.e.vector, ir.Undefined)
            for lane, base in enumerate(bases):
                where = b.at(base, b.mul(i, i64(8)))
                entry = b.load(where, align=8, typ=DOUBLE)
                out = b.insert_element(out, entry, ir.Constant(I32, lane))
            self.store(Lane(self.e, out), packed, i)

        write_loop(b, count, one)

    def unpack(self, packed: Any, bases: Values, count: Any) -> None:
        """Vectors into rows of numbers, one per lane."""
        b = self.b

        def one(i: Any) -> None:
            value = self.load(packed, i).value
            for lane, base in enumerate(bases):
                entry = b.extract_element(value, ir.Constant(I32, lane))
                where = b.at(base, b.mul(i, i64(8)))
                b.store(entry, where, align=8)

        write_loop(b, count, one)

    def _each_joint(self, visit: Callable[[JointCode, Any, Any], None]) -> None:
        """Code for every joint: visit(joint type, start of its part of q, of v)."""
        b = self.b
        integers = b.inttoptr(self.word(self.data, INTEGERS), POINTER)

        def one(k: Any) -> None:
            row = b.at(integers, b.mul(k, i64(8 * tables.N_INTEGERS)))
            kind, q, v = (
                self.word(row, i) for i in (tables.KIND, tables.Q_OFFSET, tables.V_OFFSET)
            )
            write_cases(b, kind, len(self.codes), lambda i: visit(self.codes[i], q, v))

        write_loop(b, self.word(self.data, N_BODIES), one)

    def loads(self, base: Any, start: Any, first: int, count: int) -> list[Lane]:
        """Numbers of one joint."""
        return [self.load(base, self.b.add(start, i64(first + i))) for i in range(count)]

    def stores(self, values: Any, base: Any, start: Any, first: int) -> None:
        """Numbers of one joint."""
        for i, value in enumerate(values):
            self.store(value, base, self.b.add(start, i64(first + i)))

    def each_part(self, visit: Callable[[Part], None]) -> None:
        """Code for every joint, or part of a composite one."""

        def joint(code: JointCode, q: Any, v: Any) -> None:
            numbers = self.numbers()
            for group, i, j in code.joint.parts():
                visit(Part(self, group, q, i, v, j, numbers))

        self._each_joint(joint)


@final
class Rollout(LaneCode):
    """Writes the loops over groups of trajectories, steps and joints around a step.

    `writer` makes the code of one step with the tools of this class: `program` calls any of the
    kernels, `area` is memory for what a step carries from one to the next, besides the state.

    **Attributes:** `b`, `e`, what instructions are written with; `h`, the step length; areas of
    working memory: the state `q`, `v` of all lanes, the efforts `tau` of the step.
    """

    def __init__(
        self,
        module: ir.Module,
        natives: Sequence[NativeCode],
        writer: Callable[[Rollout], Callable[[], None]],
    ) -> None:
        native, self.module = natives[0], module
        self._kernels = [native.unit.kernel(module, native.target.lanes) for native in natives]
        self._slots = [{n: s.buffer for n, s in native.unit.slots.items()} for native in natives]
        self.sincos = self._kernels[0].sincos_function
        self.codes, self.lanes = native.unit.tables.codes, native.target.lanes
        self.bytes = 8 * self.lanes
        kind = ir.FunctionType(ir.VOID, [POINTER] * 4)  # as the loop of a gufunc
        function = ir.Function(module, kind, "phipsi_rollout")
        job, _, _, self.data = function.args
        self.b = ir.IRBuilder(function.append_basic_block("entry"))
        self.e = Emitter(self.lanes, fused=native.target.fused)
        self.e.builder = self.b
        self.job: Values = [self.word(job, i) for i in range(PROGRAMS + 2 * len(natives))]
        self.nq, self.nv = self.job[NQ], self.job[NV]
        dt = self.b.load(self.b.at(job, 8 * DT), typ=DOUBLE)
        self.h = self.e.splat(dt)
        self._place: Any = self.b.inttoptr(self.job[WORK], POINTER)
        self.q, self.v, self.tau = (self.area(n) for n in (self.nq, self.nv, self.nv))
        self.vdot, self._free = self.area(self.nv), self.area(self.nv)
        self._status = self.area(i64(1))
        self.zero = ir.Constant(self.e.integers, [0] * self.lanes)
        self.failed = self.b.alloca(self.e.integers)  # status of the first failure, 0 without one
        self._bad = self.b.alloca(self.e.integers)  # the same within the step
        self._failed_at = self.b.alloca(self.e.integers)  # its step
        advance = writer(self)
        write_loop(self.b, self.job[COUNT], lambda i: self._group(i, advance), self.lanes)
        self.b.ret_void()

    # ---- memory -------------------------------------------------------------------------------

    def area(self, size: Any) -> Any:
        """The next piece of the working memory, for `size` numbers of every lane."""
        here = self._place
        self._place = self.b.at(here, self.b.mul(size, i64(self.bytes)))
        return here

    def program(
        self,
        number: int,
        outputs: Values,
        places: dict[str, Any] | None = None,
        allowed: Sequence[int] = (),
    ) -> Callable[[], None]:
        """Code that calls a kernel with its inputs and results in these areas; failures are noted.

        Inputs that `places` does not name are the state and the efforts. Codes of failures.py that
        are `allowed` are not failures.
        """
        b, slots = self.b, self._slots[number]
        words = self.job[PROGRAMS + 2 * number : PROGRAMS + 2 * number + 2]
        data, scratch = (b.inttoptr(word, POINTER) for word in words)
        # hybrid dynamics reads efforts where joints are free and accelerations where they are not
        usual = {"q": self.q, "v": self.v, "tau": self.tau, "vdot": self.tau, "free": self._free}
        usual |= places or {}
        where = [usual[name] for name in sorted(slots, key=lambda n: slots[n])]
        where += [*outputs, self._status]
        buffers = b.alloca(POINTER, size=len(where))
        for i, place in enumerate(where):
            b.store(place, b.at(buffers, 8 * i))
        function = self._kernels[number].function

        def call() -> None:
            b.call(function, [data, scratch, buffers, ir.Constant(ir.IntType(1), 1)])
            self.note_status(self._status, allowed)

        return call

    def _rows(self, word: int, rows: Values, size: Any) -> Values:
        """The address of each lane's part of an array whose rows have `size` bytes."""
        b = self.b
        base = b.inttoptr(self.job[word], POINTER)
        return [b.at(base, b.mul(row, size)) for row in rows]

    # ---- loops ----------------------------------------------------------------------------------

    def _group(self, first: Any, advance: Callable[[], None]) -> None:
        b = self.b
        last = b.sub(self.job[COUNT], i64(1))
        rows: Values = []
        for lane in range(self.lanes):  # lanes without a trajectory repeat the last one
            row = b.add(first, i64(lane))
            rows.append(b.select(b.icmp_signed("<", row, last), row, last))
        size_q, size_v = b.mul(self.nq, i64(8)), b.mul(self.nv, i64(8))
        self.pack(self._rows(Q0, rows, size_q), self.q, self.nq)
        self.pack(self._rows(V0, rows, size_v), self.v, self.nv)
        efforts = self._rows(TAU, rows, self.job[TAU_ROW])
        self.pack(efforts, self.tau, self.nv)
        if "free" in self._slots[0]:
            self.pack(self._rows(FREE, rows, size_v), self._free, self.nv)
        kept = b.add(b.sdiv(self.job[STEPS], self.job[EVERY]), i64(1))
        out_q = self._rows(OUT_Q, rows, b.mul(size_q, kept))
        out_v = self._rows(OUT_V, rows, b.mul(size_v, kept))
        self.unpack(self.q, out_q, self.nq)
        self.unpack(self.v, out_v, self.nv)
        zero, failed = self.zero, self.failed
        b.store(zero, failed)
        b.store(zero, self._failed_at)

        def step(i: Any) -> None:
            with b.if_then(b.icmp_signed("!=", self.job[TAU_STEP], i64(0))):
                offset = b.mul(i, self.job[TAU_STEP])
                now = [b.at(base, offset) for base in efforts]
                self.pack(now, self.tau, self.nv)
            b.store(zero, self._bad)
            advance()
            old, new = b.load(failed, typ=self.e.integers), self.bad()
            first_time = b.icmp_signed("==", old, zero)
            number = self.e.splat_integer(i)
            b.store(b.select(first_time, new, old), failed)
            before = b.load(self._failed_at, typ=self.e.integers)
            b.store(b.select(first_time, number, before), self._failed_at)
            done = b.add(i, i64(1))
            with b.if_then(b.icmp_signed("==", b.srem(done, self.job[EVERY]), i64(0))):
                record = b.sdiv(done, self.job[EVERY])
                for packed, outs, size, count in (
                    (self.q, out_q, size_q, self.nq),
                    (self.v, out_v, size_v, self.nv),
                ):
                    offset = b.mul(record, size)
                    now = [b.at(base, offset) for base in outs]
                    self.unpack(packed, now, count)

        write_loop(b, self.job[STEPS], step)
        for word, value in ((STATUS, failed), (FAILED_AT, self._failed_at)):
            integers = b.load(value, typ=self.e.integers)
            for lane, base in enumerate(self._rows(word, rows, i64(8))):
                b.store(b.extract_element(integers, ir.Constant(I32, lane)), base, align=8)


@dataclass(frozen=True)
class Part:
    """What a joint moves on that the loop has come to, and where that is in q and in v."""

    r: LaneCode
    group: Group
    q: Any
    i: int
    v: Any
    j: int
    numbers: _LaneNumbers

    def places(self, base: Any) -> list[Lane]:
        """Its numbers in an area with the layout of q."""
        return self.r.loads(base, self.q, self.i, self.group.nq)

    def rates(self, base: Any) -> list[Lane]:
        """Its numbers in an area with the layout of v."""
        return self.r.loads(base, self.v, self.j, self.group.nv)

    def put_places(self, values: Any, base: Any) -> None:
        """Store numbers with the layout of q."""
        self.r.stores(values, base, self.q, self.i)

    def put_rates(self, values: Any, base: Any) -> None:
        """Store numbers with the layout of v."""
        self.r.stores(values, base, self.v, self.j)
