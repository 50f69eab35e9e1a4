"""Machine code of a rollout: the forward-dynamics kernel inside the loop over steps.

Lanes are trajectories. The state of a group of them stays packed, one vector per number, from the
first step to the last; only what is recorded is unpacked. Joint formulas are those of
exponential.py, run on lanes instead of arrays.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, final

from phipsi.backends.native import llvm_text as ir
from phipsi.backends.native import tables
from phipsi.backends.native.engine import MachineCode, machine_code
from phipsi.backends.native.kernel import Kernel
from phipsi.backends.native.lanes import (
    DOUBLE,
    I8,
    I32,
    I64,
    POINTER,
    Emitter,
    Lane,
    write_cases,
    write_loop,
)
from phipsi.backends.native.record import INTEGERS, N_BODIES
from phipsi.backends.native.runner import NativeCode
from phipsi.backends.native.tables import JointCode
from phipsi.backends.native.trigonometry import i64
from phipsi.simulation import exponential as exp
from phipsi.simulation.chart import joint_parts
from phipsi.simulation.tableaux import Method, Tableau

# words of a job: addresses of the arrays, then numbers; the last is the step length as a double
(
    Q0, V0, TAU, OUT_Q, OUT_V, STATUS, FAILED_AT, WORK, SCRATCH,
    COUNT, STEPS, EVERY, TAU_ROW, TAU_STEP, NQ, NV, FREE, DT, WORDS,
) = range(19)  # fmt: skip

Values = list[Any]


def rollout_code(native: NativeCode, method: Method) -> MachineCode:
    """``void phipsi_rollout(job, 0, 0, data)`` around the kernel of forward or hybrid dynamics."""
    found = native.companions.get(method.name)
    if found is None:
        key = f"{native.key()} rollout {method.name} {_version()}"
        digest = hashlib.sha256(key.encode()).hexdigest()
        found = machine_code(digest, native.machine, lambda: _emit(native, method))
        native.companions[method.name] = found
    return found


@cache
def _version() -> str:
    """A digest of the sources the code comes from."""
    here = Path(__file__).parent
    names = ("rollout_code.py", "exponential.py", "tableaux.py")
    return hashlib.sha256(b"".join((here / n).read_bytes() for n in names)).hexdigest()


def work_size(method: Method, nq: int, nv: int) -> int:
    """Numbers per lane of the working memory: state, effort, acceleration, and stages."""
    stages = 0 if method.tableau is None else len(method.tableau.b)
    return (nq + 4 * nv + 1) + (nq + 3 * nv + 2 * stages * nv if stages else 0)


def _emit(native: NativeCode, method: Method) -> str:
    module = ir.Module()
    kernel = native.wide_kernel(module)
    _Rollout(module, kernel, native, method)
    return str(module)


@final
class _Lanes:
    """What exponential.py needs of numbers, for lanes."""

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
        small = self.e.compare("<", s, exp.SERIES_BELOW)
        near, far = self.e.select(small, s, 0.0), self.e.select(small, 1.0, s)
        return self.e.select(small, exp.polynomial(series, near), closed(far, self))


@final
class _Rollout:
    """Writes the loops over groups of trajectories, steps, stages and joints."""

    def __init__(
        self, module: ir.Module, kernel: Kernel, native: NativeCode, method: Method
    ) -> None:
        self.kernel, self.codes, self.lanes = kernel, native.tables.codes, native.machine.lanes
        self.bytes = 8 * self.lanes
        self.slots = {name: slot.buffer for name, slot in native.slots.items()}
        kind = ir.FunctionType(ir.VoidType(), [POINTER] * 4)  # as the loop of a gufunc
        function = ir.Function(module, kind, "phipsi_rollout")
        job, _, _, self.data = function.args
        self.b = ir.IRBuilder(function.append_basic_block("entry"))
        self.e = Emitter(self.lanes, fused=native.machine.fused)
        self.e.builder = self.b
        self.job: Values = [self._word(job, i) for i in range(WORDS)]
        self.nq, self.nv = self.job[NQ], self.job[NV]
        dt = self.b.load(self.b.gep(job, [i64(8 * DT)], source_etype=I8), typ=DOUBLE)
        self.h = self.e.splat(dt)
        self._areas(method.tableau)
        advance = self._semi_implicit
        if method.tableau is not None:
            advance = self._runge_kutta(method.tableau)
        write_loop(self.b, self.job[COUNT], lambda i: self._group(i, advance), self.lanes)
        self.b.ret_void()

    # ---- memory -------------------------------------------------------------------------------

    def _word(self, base: Any, i: int) -> Any:
        return self.b.load(self.b.gep(base, [i64(8 * i)], source_etype=I8), typ=I64)

    def _areas(self, tableau: Tableau | None) -> None:
        """Divide the working memory, and tell the kernel where its inputs and outputs are."""
        b = self.b
        place: Any = b.inttoptr(self.job[WORK], POINTER)

        def area(size: Any) -> Any:
            nonlocal place
            here = place
            place = b.gep(place, [b.mul(size, i64(self.bytes))], source_etype=I8)
            return here

        self.q, self.v, self.tau, self.a = (area(n) for n in (self.nq, self.nv, self.nv, self.nv))
        self.free = area(self.nv)
        self.status = area(i64(1))
        if tableau is not None:
            self.q0, self.v0, self.z = (area(n) for n in (self.nq, self.nv, self.nv))
            self.end = area(self.nv)
            self.kz = [area(self.nv) for _ in tableau.b]
            self.kv = [area(self.nv) for _ in tableau.b]
        self.buffers = b.alloca(POINTER, size=len(self.slots) + 2)
        # hybrid dynamics reads efforts where joints are free and accelerations where they are not
        places = {"q": self.q, "v": self.v, "tau": self.tau, "vdot": self.tau, "free": self.free}
        for name, i in self.slots.items():
            b.store(places[name], b.gep(self.buffers, [i64(8 * i)], source_etype=I8))
        for i, where in enumerate((self.a, self.status)):
            at = i64(8 * (len(self.slots) + i))
            b.store(where, b.gep(self.buffers, [at], source_etype=I8))

    def load(self, base: Any, i: Any) -> Lane:
        where = self.b.gep(base, [self.b.mul(i, i64(self.bytes))], source_etype=I8)
        return Lane(self.e, self.b.load(where, align=8, typ=self.e.vector))

    def store(self, value: Any, base: Any, i: Any) -> None:
        where = self.b.gep(base, [self.b.mul(i, i64(self.bytes))], source_etype=I8)
        self.b.store(self.e.lift(value).value, where, align=8)

    def _pack(self, bases: Values, packed: Any, count: Any) -> None:
        """Rows of numbers, one per lane, into vectors."""
        b = self.b

        def one(i: Any) -> None:
            out: Any = ir.Constant(self.e.vector, ir.Undefined)
            for lane, base in enumerate(bases):
                where = b.gep(base, [b.mul(i, i64(8))], source_etype=I8)
                entry = b.load(where, align=8, typ=DOUBLE)
                out = b.insert_element(out, entry, ir.Constant(I32, lane))
            self.store(Lane(self.e, out), packed, i)

        write_loop(b, count, one)

    def _unpack(self, packed: Any, bases: Values, count: Any) -> None:
        b = self.b

        def one(i: Any) -> None:
            value = self.load(packed, i).value
            for lane, base in enumerate(bases):
                entry = b.extract_element(value, ir.Constant(I32, lane))
                where = b.gep(base, [b.mul(i, i64(8))], source_etype=I8)
                b.store(entry, where, align=8)

        write_loop(b, count, one)

    def _rows(self, word: int, rows: Values, size: Any) -> Values:
        """The address of each lane's part of an array whose rows have `size` bytes."""
        b = self.b
        base = b.inttoptr(self.job[word], POINTER)
        return [b.gep(base, [b.mul(row, size)], source_etype=I8) for row in rows]

    # ---- loops ----------------------------------------------------------------------------------

    def _group(self, first: Any, advance: Callable[[], None]) -> None:
        b = self.b
        last = b.sub(self.job[COUNT], i64(1))
        rows: Values = []
        for lane in range(self.lanes):  # lanes without a trajectory repeat the last one
            row = b.add(first, i64(lane))
            rows.append(b.select(b.icmp_signed("<", row, last), row, last))
        size_q, size_v = b.mul(self.nq, i64(8)), b.mul(self.nv, i64(8))
        self._pack(self._rows(Q0, rows, size_q), self.q, self.nq)
        self._pack(self._rows(V0, rows, size_v), self.v, self.nv)
        efforts = self._rows(TAU, rows, self.job[TAU_ROW])
        self._pack(efforts, self.tau, self.nv)
        if "free" in self.slots:
            self._pack(self._rows(FREE, rows, size_v), self.free, self.nv)
        kept = b.add(b.sdiv(self.job[STEPS], self.job[EVERY]), i64(1))
        out_q = self._rows(OUT_Q, rows, b.mul(size_q, kept))
        out_v = self._rows(OUT_V, rows, b.mul(size_v, kept))
        self._unpack(self.q, out_q, self.nq)
        self._unpack(self.v, out_v, self.nv)
        zero = ir.Constant(self.e.integers, [0] * self.lanes)
        failed, failed_at = b.alloca(self.e.integers), b.alloca(self.e.integers)
        b.store(zero, failed)
        b.store(zero, failed_at)

        def step(i: Any) -> None:
            with b.if_then(b.icmp_signed("!=", self.job[TAU_STEP], i64(0))):
                offset = b.mul(i, self.job[TAU_STEP])
                now = [b.gep(base, [offset], source_etype=I8) for base in efforts]
                self._pack(now, self.tau, self.nv)
            b.store(zero, self._bad)
            advance()
            old, new = b.load(failed, typ=self.e.integers), b.load(self._bad, typ=self.e.integers)
            first_time = b.icmp_signed("==", old, zero)
            number = self.e.splat_integer(i)
            b.store(b.select(first_time, new, old), failed)
            before = b.load(failed_at, typ=self.e.integers)
            b.store(b.select(first_time, number, before), failed_at)
            done = b.add(i, i64(1))
            with b.if_then(b.icmp_signed("==", b.srem(done, self.job[EVERY]), i64(0))):
                record = b.sdiv(done, self.job[EVERY])
                for packed, outs, size, count in (
                    (self.q, out_q, size_q, self.nq),
                    (self.v, out_v, size_v, self.nv),
                ):
                    offset = b.mul(record, size)
                    now = [b.gep(base, [offset], source_etype=I8) for base in outs]
                    self._unpack(packed, now, count)

        self._bad = b.alloca(self.e.integers)
        write_loop(b, self.job[STEPS], step)
        for word, value in ((STATUS, failed), (FAILED_AT, failed_at)):
            integers = b.load(value, typ=self.e.integers)
            for lane, base in enumerate(self._rows(word, rows, i64(8))):
                b.store(b.extract_element(integers, ir.Constant(I32, lane)), base, align=8)

    def _dynamics(self) -> None:
        """vdot from q, v and tau; a failure is noted."""
        b = self.b
        scratch = b.inttoptr(self.job[SCRATCH], POINTER)
        b.call(
            self.kernel.function, [self.data, scratch, self.buffers, ir.Constant(ir.IntType(1), 1)]
        )
        new = b.load(self.status, align=8, typ=self.e.integers)
        old = b.load(self._bad, typ=self.e.integers)
        zero = ir.Constant(self.e.integers, [0] * self.lanes)
        b.store(b.select(b.icmp_signed("==", old, zero), new, old), self._bad)

    def _each_joint(self, visit: Callable[[JointCode, Any, Any], None]) -> None:
        """Code for every joint: visit(joint type, start of its part of q, of v)."""
        b = self.b
        integers = b.inttoptr(self._word(self.data, INTEGERS), POINTER)

        def one(k: Any) -> None:
            row = b.gep(integers, [b.mul(k, i64(8 * tables.N_INTEGERS))], source_etype=I8)
            kind, q, v = (
                self._word(row, i) for i in (tables.KIND, tables.Q_OFFSET, tables.V_OFFSET)
            )
            write_cases(b, kind, len(self.codes), lambda i: visit(self.codes[i], q, v))

        write_loop(b, self._word(self.data, N_BODIES), one)

    def _loads(self, base: Any, start: Any, first: int, count: int) -> list[Lane]:
        return [self.load(base, self.b.add(start, i64(first + i))) for i in range(count)]

    def _stores(self, values: Any, base: Any, start: Any, first: int) -> None:
        for i, value in enumerate(values):
            self.store(value, base, self.b.add(start, i64(first + i)))

    def _move(self, base: Any, z: Callable[[Any, int, int], list[Any]]) -> None:
        """Set q to base ∘ exp(z), z(start, first, count) being a joint's part of z."""

        def visit(code: JointCode, q: Any, v: Any) -> None:
            ops = _Lanes(self.e, self.kernel.sincos_function)
            for part, i, j in joint_parts(code.joint, 0, 0):
                old, step = self._loads(base, q, i, part.nq), z(v, j, part.nv)
                if part.is_additive:
                    new: Any = [x + y for x, y in zip(old, step, strict=True)]
                elif part.kind == "spherical":
                    new = exp.turn(old, step, ops)
                elif part.kind == "free":
                    new = (
                        *exp.turn(old[:4], step[:3], ops),
                        *exp.screw(old[4:], old[:4], step[:3], step[3:], ops),
                    )
                else:
                    new = exp.slide(old, step, ops)
                self._stores(new, self.q, q, i)

        self._each_joint(visit)

    # ---- methods -----------------------------------------------------------------------------

    def _semi_implicit(self) -> None:
        """v⁺ = v + h vdot(q, v), q⁺ = q ∘ exp(h v⁺)."""
        self._dynamics()

        def rate(i: Any) -> None:
            self.store(self.load(self.a, i).times_plus(self.h, self.load(self.v, i)), self.v, i)

        write_loop(self.b, self.nv, rate)
        self._move(self.q, lambda v, j, n: [self.h * x for x in self._loads(self.v, v, j, n)])

    def _runge_kutta(self, tableau: Tableau) -> Callable[[], None]:
        """Stages in the exponential coordinates about the step's start; see tableaux.py."""
        b = self.b

        def copy(source: Any, target: Any, count: Any) -> None:
            write_loop(b, count, lambda i: self.store(self.load(source, i), target, i))

        def combine(weights: tuple[float, ...], slopes: Values, i: Any) -> Any:
            """Weighted sum of slopes, h Σ w_j k_j."""
            total: Any = 0
            for weight, slope in zip(weights, slopes, strict=False):
                if weight:
                    total = self.load(slope, i) * weight + total
            return total * self.h if isinstance(total, Lane) else 0

        def rates(kz: Any) -> None:
            """Rates ż = dexp⁻¹(z) v of every joint."""

            def visit(code: JointCode, q: Any, v: Any) -> None:
                ops = _Lanes(self.e, self.kernel.sincos_function)
                for part, _, j in joint_parts(code.joint, 0, 0):
                    now, z = (self._loads(x, v, j, part.nv) for x in (self.v, self.z))
                    if part.kind == "spherical":
                        out: Any = exp.turn_rate(z, now, ops)
                    elif part.kind == "free":
                        out = exp.screw_rate(z[:3], z[3:], now[:3], now[3:], ops)
                    else:
                        out = now if part.is_additive else exp.slide_rate(z, now, ops)
                    self._stores(out, kz, v, j)

            self._each_joint(visit)

        def advance() -> None:
            copy(self.q, self.q0, self.nq)
            copy(self.v, self.v0, self.nv)
            for s, weights in enumerate(tableau.a):

                def stage(i: Any, weights: tuple[float, ...] = weights) -> None:
                    self.store(combine(weights, self.kz, i), self.z, i)
                    self.store(self.load(self.v0, i) + combine(weights, self.kv, i), self.v, i)

                write_loop(b, self.nv, stage)
                if any(weights):
                    self._move(self.q0, lambda v, j, n: self._loads(self.z, v, j, n))
                rates(self.kz[s])
                self._dynamics()
                copy(self.a, self.kv[s], self.nv)

            def end(i: Any) -> None:
                self.store(combine(tableau.b, self.kz, i), self.z, i)
                self.store(self.load(self.v0, i) + combine(tableau.b, self.kv, i), self.v, i)

            write_loop(b, self.nv, end)
            self._move(self.q0, lambda v, j, n: self._loads(self.z, v, j, n))

        return advance
