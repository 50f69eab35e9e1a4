"""A step of a `Simulator` with its laws as C functions, in place on the caller's arrays.

    int NAME_step(double *q, double *v, double *t, …, double *step, const double *tau…, void *work)
    int NAME_rollout(int n, the same)

States of laws and contacts, and parameters, are further arrays. `step` counts: sampled laws run in
steps whose numbers are multiples of their period.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from phipsi.backends.failures import STATUS_WORDS
from phipsi.backends.native.native_backend import KernelSource
from phipsi.backends.native.targets.target import Target
from phipsi.backends.native.text import llvm_text as ir
from phipsi.backends.native.text.lane_arithmetic import DOUBLE, I32, I64, POINTER, i64
from phipsi.errors import InputError
from phipsi.exporting.c_files import Reference
from phipsi.exporting.module import ExportedArray, ExportedFunction
from phipsi.exporting.named_programs import identifier
from phipsi.motion import run_code
from phipsi.motion.run_code import Plan, Run
from phipsi.simulation.simulator import Simulator

_COUNTER = 2.0**52  # a whole number added to this is in its last bits
_LARGEST = 2**52 - 1
_STEPS = 3  # of the test program
_KNOWN = {
    "q": ("rad, m", "configuration"),
    "v": ("rad/s, m/s", "joint rates"),
    "t": ("s", "time"),
    "tau": ("N m, N", "joint efforts besides those of the laws"),
}


def exported_step(simulator: Any, target: Target, name: str) -> Any:
    """What writes the functions of a step; see `exported_module`."""
    if not isinstance(simulator, Simulator):
        raise InputError(f"step={simulator!r} must be a Simulator:  pp.Simulator(model, laws, dt)")
    if simulator.episodes is not None:
        raise InputError("step=: episodes start again in Python; export a Simulator without them")
    plan = simulator.plan((), ())
    one = replace(target, lanes=1, fused=target.fused and not simulator.reproducible)

    def write(module: Any) -> tuple[list[Any], ExportedFunction]:
        return PlanWriter(module, plan, simulator.dt, one, name).write()

    return write


class PlanWriter:
    """Writes ``NAME_step`` and ``NAME_rollout`` around the code of a run, with steps of `dt` s."""

    def __init__(self, module: Any, plan: Plan, dt: float, target: Target, name: str) -> None:
        self.module, self.plan, self.dt, self.name = module, plan, dt, name
        sources = [KernelSource(native.program, target) for native in plan.sources]
        self.run = Run(module, plan, plan.natives, 1, f"{name}_inner", sources)
        scratch = max(source.scratch_bytes for source in sources)
        own = 8 * self.run.size + 8
        self.scratch_at = -(-own // 16) * 16
        self.work = -(-(self.scratch_at + scratch) // 16) * 16
        for end in ("_inner_step", "_inner_run_size"):
            del module.globals[f"{name}{end}"]
        self.inner = module.globals[f"{name}_inner_run"]
        self.inner.linkage = "internal"

    def arrays(self) -> tuple[ExportedArray, ...]:
        """States, the counter, efforts and parameters."""
        taken = {"n", "work", "step"}

        def array(name: str, size: int, role: str, text: str) -> ExportedArray:
            units, known = _KNOWN.get(name, ("", text))
            found = identifier(name)
            while found in taken:
                found += "_"
            taken.add(found)
            return ExportedArray(found, (size,), units, role, known)

        ports = self.plan.ports
        out = [array(n, ports[n], "inout", f"state {n}") for n in self.plan.states]
        out.append(ExportedArray("step", (1,), "", "inout", "steps so far, a whole number"))
        out += [array(n, ports[n], "in", f"input {n}") for n in self.plan.inputs]
        parameters = (*self.plan.own, *self.plan.shared)
        out += [array(n, ports[n], "in", f"parameter {n}") for n in parameters]
        return tuple(out)

    def write(self) -> tuple[list[Any], ExportedFunction]:
        """The functions, and what they are."""
        arrays = self.arrays()
        n = len(arrays) + 1
        rollout_name = f"{self.name}_rollout"
        rollout = ir.Function(
            self.module, ir.FunctionType(I32, [I32, *[POINTER] * n]), rollout_name
        )
        self._body(rollout, arrays)
        step = ir.Function(self.module, ir.FunctionType(I32, [POINTER] * n), f"{self.name}_step")
        b = step.begin()
        b.ret(b.call(rollout, [ir.Constant(I32, 1), *step.args]))
        statuses = {c: t for c, t in STATUS_WORDS.items() if c != 7}
        function = ExportedFunction(
            f"{self.name}_step", arrays, self.work, statuses, rollout=rollout_name
        )
        return [rollout, step], function

    def _body(self, function: Any, arrays: tuple[ExportedArray, ...]) -> None:
        """Fill the job of the run, run it, and count."""
        b = function.begin()
        count, *given, work = function.args
        names = [*self.plan.states, None, *self.plan.inputs, *self.plan.own, *self.plan.shared]
        places = {n: p for n, p in zip(names, given, strict=True) if n is not None}
        counter = given[names.index(None)]
        ports = list(self.plan.ports)
        programs = run_code.PORTS + 3 * len(ports)
        words = programs + 2 * len(self.plan.natives)
        job, status = b.alloca(I64, size=words), b.alloca(I64, size=2)
        b.store(i64(0), status)
        b.store(i64(0), b.at(status, 8))

        def put(word: int, value: Any) -> None:
            b.store(value, b.at(job, 8 * word), align=8)

        def address(word: int, value: Any) -> None:
            put(word, b.ptrtoint(value, I64))

        first = b.load(counter, typ=DOUBLE, align=8)
        shifted = b.bitcast(b.fadd(first, ir.Constant(DOUBLE, _COUNTER)), I64)
        for word in range(words):
            put(word, i64(0))
        for word in (run_code.COUNT, run_code.EVERY, run_code.DIRECTION):
            put(word, i64(1))
        put(run_code.STEPS, b.sext(count, I64))
        put(run_code.FIRST, b.and_(shifted, i64(_LARGEST)))
        put(run_code.STEP_LENGTH, ir.Constant(DOUBLE, self.dt))
        address(run_code.WORK, work)
        address(run_code.STATUS, status)
        address(run_code.FAILED_AT, b.at(status, 8))
        for i, port in enumerate(ports):
            address(run_code.PORTS + 3 * i, places[port])
        for i in range(len(self.plan.natives)):
            address(programs + 2 * i + 1, b.at(work, self.scratch_at))
        none = ir.Constant(POINTER, None)
        b.call(self.inner, [job, none, none, none])
        found = b.load(status, typ=I64)
        steps = b.load(b.at(job, 8 * run_code.FIRST), typ=I64)
        bits = b.bitcast(b.or_(steps, i64(0x433 << 52)), DOUBLE)
        b.store(b.fsub(bits, ir.Constant(DOUBLE, _COUNTER)), counter, align=8)
        b.ret(b.trunc(found, I32))


def _numbers(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: np.array(x, dtype=float) for name, x in arrays.items()}


def step_reference(simulator: Simulator, function: ExportedFunction) -> Reference | None:
    """States before and after one step, each after the one before."""
    rng = np.random.default_rng(0)
    model = simulator.model
    try:
        rows = simulator._mechanism.n_rows
        q = model.neutral() if rows else model.random_configuration(rng)
        state = simulator.start(q)
        values: list[Mapping[str, np.ndarray]] = [_numbers(state.arrays())]
        for _ in range(_STEPS):
            simulator.step(state)
            values.append(_numbers(state.arrays()))
    except (ArithmeticError, ValueError):
        return None
    plan = simulator.plan((), ())
    states = [np.array([x[n].ravel() for x in values]) for n in plan.states]
    counter = np.arange(_STEPS + 1.0)[:, None]
    tau = np.zeros((_STEPS, model.nv))
    shared = [
        np.array([np.asarray(state.shared[n], dtype=float).ravel()] * _STEPS) for n in plan.shared
    ]
    before = [*(x[:-1] for x in states), counter[:-1], tau, *shared]
    after = [*(x[1:] for x in states), counter[1:]]
    assert all(x.shape[1] == a.count for x, a in zip(before, function.inputs, strict=True))
    return Reference(function, before, after, 1e-9)
