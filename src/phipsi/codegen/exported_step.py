"""A step of a `Simulator` with its laws as C functions, in place on the caller's arrays.

    int NAME_step(double *q, double *v, double *t, …, double *step, const double *tau…, void *work)
    int NAME_rollout(int n, the same)

States of laws and contacts, and parameters, are further arrays. `step` counts: sampled laws run in
steps whose numbers are multiples of their period. With static work memory there is no `work`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from phipsi.codegen.c_identifiers import OWN_NAMES, free_name, identifier
from phipsi.codegen.exported_module import STATUSES, ExportedArray, ExportedFunction
from phipsi.core.arrays import in_order
from phipsi.errors import InputError
from phipsi.native import (
    I32,
    I64,
    NUMBERS,
    POINTER,
    WORD,
    FloatFormat,
    KernelSource,
    Target,
    i64,
    llvm_text as ir,
    run_job,
)
from phipsi.simulation import RunEmitter as Run, RunProgram, Simulator

_KNOWN = {
    "q": ("rad, m", "configuration"),
    "v": ("rad/s, m/s", "joint rates"),
    "t": ("s", "time"),
    "tau": ("N m, N", "joint efforts besides those of the laws"),
}


def exported_step(simulator: Any, target: Target, name: str, *, static: bool = False) -> Any:
    """The writer of the functions of a step; see `exported_module`."""
    if not isinstance(simulator, Simulator):
        raise InputError(
            f"step={simulator!r} must be a Simulator:  pp.Simulator(model, …, dt=1e-3)"
        )
    if simulator.episodes is not None:
        raise InputError(
            "step=: episodes are reset in Python, and cannot be exported. Pass a Simulator without "
            "episodes="
        )
    plan = simulator.compiled.plan()
    one = replace(target, lanes=1, fused=target.fused and not simulator.reproducible)
    if target.number != "double":
        _check_width(plan)

    def write(module: Any) -> tuple[list[Any], ExportedFunction]:
        firsts = _first_numbers(simulator, plan)
        writer = PlanWriter(module, plan, simulator.dt, one, name, static=static, firsts=firsts)
        return writer.write()

    return write


def _first_numbers(simulator: Simulator, plan: RunProgram) -> dict[str, tuple[float, ...]]:
    """Initial numbers of states, zeros of inputs, and default numbers of parameters."""
    step = simulator.compiled
    known = {n: step.states[n].first for n in plan.states}
    known |= {n: np.zeros(plan.ports[n]) for n in plan.inputs}
    known |= {n: x.first for n, x in step.parameters.items()}
    return {n: tuple(np.ravel(x).tolist()) for n, x in known.items() if x is not None}


def _check_width(plan: RunProgram) -> None:
    """Reject steps that solve equations: their tolerances need double precision."""
    for x in in_order(plan.nodes()):
        if x.operation.name == "call" and not x.data.any_width:
            raise InputError(
                f"step=: this step solves equations ({_plain(x.data.name)}), whose "
                'tolerances need double precision. Pass precision="double". '
                'precision="single" is supported for explicit integrators of mechanisms without '
                "loops and contacts"
            )


def _plain(name: str) -> str:
    """The name of a call without the digests that distinguish it."""
    return " ".join(word for word in name.split() if len(word) < 64)


class PlanWriter:
    """Writes ``NAME_step`` and ``NAME_rollout`` around the code of a rollout, with steps `dt`."""

    def __init__(
        self, module: Any, plan: RunProgram, dt: float, target: Target, name: str, *,
        static: bool = False, firsts: Mapping[str, tuple[float, ...]] | None = None,
    ) -> None:  # fmt: skip
        self.firsts = firsts or {}
        self.module, self.plan, self.dt, self.name = module, plan, dt, name
        self.number: FloatFormat = NUMBERS[target.number]
        self.static = static
        sources = [KernelSource(native.program, target) for native in plan.sources]
        self.run = Run(module, plan, plan.natives, 1, f"phipsi_{name}", sources)
        scratch = max(source.scratch_bytes for source in sources)
        own = self.number.bytes * self.run.size + WORD
        self.scratch_at = -(-own // 16) * 16
        self.work = -(-(self.scratch_at + scratch) // 16) * 16
        for end in ("step", "run_size"):
            del module.globals[f"phipsi_{name}_{end}"]
        self.inner = module.globals[f"phipsi_{name}_run"]
        self.inner.linkage = "internal"

    def arrays(self) -> tuple[ExportedArray, ...]:
        """States, the counter, efforts and parameters."""
        taken = {*OWN_NAMES, "step"}

        def array(name: str, size: int, role: str, text: str) -> ExportedArray:
            units, known = _KNOWN.get(name, ("", text))
            own = free_name(identifier(name), taken)
            return ExportedArray(own, (size,), units, role, known, self.firsts.get(name))

        ports = self.plan.ports
        out = [array(n, ports[n], "inout", f"state {n}") for n in self.plan.states]
        out.append(ExportedArray("step", (1,), "", "inout", "steps so far (an integer)", (0.0,)))
        out += [array(n, ports[n], "in", f"input {n}") for n in self.plan.inputs]
        parameters = (*self.plan.own, *self.plan.shared)
        out += [array(n, ports[n], "in", f"parameter {n}") for n in parameters]
        return tuple(out)

    def write(self) -> tuple[list[Any], ExportedFunction]:
        """The functions, and their description."""
        arrays = self.arrays()
        n = len(arrays) + (not self.static)
        kind, rollout_name = ir.FunctionType(I32, [I32, *[POINTER] * n]), f"{self.name}_rollout"
        steps = ir.IRFunction(self.module, kind, f"phipsi_{self.name}_steps", "internal")
        self._body(steps)
        rollout = ir.IRFunction(self.module, kind, rollout_name)
        b = rollout.begin()
        b.ret(b.call(steps, rollout.args))
        step = ir.IRFunction(self.module, ir.FunctionType(I32, [POINTER] * n), f"{self.name}_step")
        b = step.begin()
        b.ret(b.call(steps, [ir.IRConstant(I32, 1), *step.args]))
        function = ExportedFunction(
            f"{self.name}_step", arrays, self.work, STATUSES, rollout=rollout_name, dt=self.dt
        )
        return [rollout, step], function

    def _body(self, function: Any) -> None:
        """Fill the job of the run, run it, and count."""
        b = function.begin()
        count, *given = function.args
        none = ir.IRConstant(I32, 0)
        count = b.select(b.icmp_signed("<", count, none), none, count)
        inside = f"phipsi.{self.name}_step.work"
        work = ir.StaticMemory(self.module, self.work, inside) if self.static else given.pop()
        names = [*self.plan.states, None, *self.plan.inputs, *self.plan.own, *self.plan.shared]
        places = {n: p for n, p in zip(names, given, strict=True) if n is not None}
        counter = given[names.index(None)]
        ports = list(self.plan.ports)
        programs = run_job.PORTS + 3 * len(ports)
        words = programs + 2 * len(self.plan.natives)
        kind, unit, integer = self.number, self.number.bytes, self.number.integer
        job, status = b.alloca(I64, size=words), b.alloca(I64, size=2)
        b.store(i64(0), status)
        b.store(i64(0), b.at(status, WORD))

        def put(word: int, value: Any) -> None:
            b.store(value, b.at(job, WORD * word), align=WORD)

        def address(word: int, value: Any) -> None:
            put(word, b.ptrtoint(value, I64))

        large = 2.0**kind.fraction  # an integer added to this is in its last bits
        first = b.load(counter, typ=kind.type, align=unit)
        shifted = b.bitcast(b.fadd(first, ir.IRConstant(kind.type, large)), integer)
        steps = b.and_(shifted, ir.IRConstant(integer, 2**kind.fraction - 1))
        for word in range(words):
            put(word, i64(0))
        for word in (run_job.COUNT, run_job.EVERY, run_job.DIRECTION):
            put(word, i64(1))
        put(run_job.STEPS, b.sext(count, I64))
        put(run_job.FIRST, steps if integer is I64 else b.zext(steps, I64))
        put(run_job.STEP_LENGTH, ir.IRConstant(kind.type, self.dt))
        address(run_job.WORK, work)
        address(run_job.STATUS, status)
        address(run_job.FAILED_AT, b.at(status, WORD))
        for i, port in enumerate(ports):
            address(run_job.PORTS + 3 * i, places[port])
        for i in range(len(self.plan.natives)):
            address(programs + 2 * i + 1, b.at(work, self.scratch_at))
        nowhere = ir.IRConstant(POINTER, None)
        b.call(self.inner, [job, nowhere, nowhere, nowhere])
        found = b.load(status, typ=I64)  # of floats: the upper half is zero
        steps = b.load(b.at(job, WORD * run_job.FIRST), typ=I64)
        steps = steps if integer is I64 else b.trunc(steps, integer)
        bits = b.bitcast(b.or_(steps, ir.IRConstant(integer, kind.count_bits)), kind.type)
        b.store(b.fsub(bits, ir.IRConstant(kind.type, large)), counter, align=unit)
        b.ret(b.trunc(found, I32))
