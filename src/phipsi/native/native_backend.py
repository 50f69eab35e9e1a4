"""The native backend: machine code for every program that has a form for it."""

from __future__ import annotations

import math
from typing import Any, final
from weakref import WeakKeyDictionary

import numpy as np

from phipsi.core.backends import (
    NO_MEMORY,
    Array,
    Arrays,
    Backend,
    Loaded,
    SweepProgram,
    empty,
    never,
)
from phipsi.native.calls.machine_function import MachineFunction
from phipsi.native.kernel.emission import KnownRecord
from phipsi.native.pipeline import can_run, compile_single, compile_wide, plan_native
from phipsi.native.targets import llvm_library
from phipsi.native.targets.target import Target, host_target
from phipsi.native.text.llvm_text import IRFunction, Module


@final
class NativeBackend(Backend):
    """Compiles programs with LLVM; several columns are one more batch axis."""

    name = "native"
    pairs = "symmetric"
    columns = False

    @property
    def problem(self) -> str:
        """Why LLVM cannot compile here."""
        return llvm_library.problem()

    @property
    def processor(self) -> str:
        """That of this machine's vectors."""
        return f"{host_target().lanes} lanes"

    def accepts(self, program: SweepProgram) -> bool:
        """Whether there is machine code for a program."""
        return can_run(program.by_column or program)

    def load(self, program: SweepProgram) -> Loaded:
        """Plan a program; its code is compiled, or read from the disk cache, when it is called."""
        code = NativeCode(program.by_column or program)
        if program.by_column is not None:
            return Loaded(_ByColumn(program, code).run, code=code)
        # the builtin returns the result of one expression as it is, not in a tuple
        one = len(program.request.expressions) == 1 and not program.request.single
        later = None if one or any(program.picks) else code.direct_if_compiled
        return Loaded(code.run, never, code.quick, code, later)


class KernelSource:
    """A program as a part of other machine code, such as a run: without code of its own.

    **Attributes:** `program`; `unit`, what its kernel is written from; `data`, the record that the
    kernel works on; `scratch_bytes` of memory that it needs; `target`; `output_shapes`; `known`,
    the record if it is written into the code, for one lane of another target: then no code reads
    `data`. `inspects` as in `Parts`.
    """

    def __init__(
        self,
        program: SweepProgram,
        target: Target | None = None,
        inspects: tuple[str, ...] | None = None,
    ) -> None:
        self.program = program
        self.unit, self.data = plan_native(program, target)
        self.unit.inspects = inspects
        self.target, self._alive = self.unit.target, self.unit.pointers()
        self.scratch_bytes = int(self.data[self.unit.words])
        self.known: KnownRecord | None = None
        if target is not None and target.lanes == 1:
            self.known, self.scratch_bytes = self.unit.known_record(1)
        self.output_shapes = self.unit.shapes[len(program.inputs) : -1]
        self._kernels: WeakKeyDictionary[Module, dict[int, IRFunction]] = WeakKeyDictionary()

    def kernel(self, module: Module, lanes: int) -> IRFunction:
        """Its kernel in a module, where it is written once."""
        written = self._kernels.setdefault(module, {})
        if lanes not in written:
            written[lanes] = self.unit.kernel_function(module, lanes, self.known)
        return written[lanes]


class NativeCode(MachineFunction):
    """The machine code of one program, and the ways to call it.

    **Attributes:** `unit`, what the code was written from.
    """

    def __init__(self, program: SweepProgram) -> None:
        self.program = program
        unit, data = plan_native(program)
        self.unit = unit
        if any(program.picks):
            self._pick = program.pick
        super().__init__(
            lambda: compile_single(unit), lambda: compile_wide(unit), data, unit.target,
            program.inputs, unit.arguments, single=program.request.single, also=unit.pointers(),
        )  # fmt: skip

    def run(self, arrays: Arrays, batch: tuple[int, ...], threads: int) -> tuple[list[Any], Array]:
        """Any batch, in any number of threads."""
        results, status = self.matrices(arrays, batch, threads)
        return self.program.pick(results), status

    def matrices(
        self, arrays: Arrays, batch: tuple[int, ...], threads: int
    ) -> tuple[list[Any], Array]:
        """The same before blocks are picked."""
        program = self.program
        if threads == 1 or not batch:
            ufunc = self.ufunc_for(math.prod(batch))
            *results, status = ufunc(*(arrays[name] for name in program.inputs))
        else:
            results, status = self._shared(program.widened(arrays, batch), batch, threads)
        if np.any(status == NO_MEMORY):
            raise MemoryError(
                f"{', '.join(map(str, program.request.expressions))} needs "
                f"{self.scratch_bytes / 2**20:.3g} MB of work memory per thread, which could not "
                "be allocated. Free memory, or use fewer threads="
            )
        return [np.asarray(r) for r in results], np.asarray(status)

    def _shared(
        self, inputs: Arrays, batch: tuple[int, ...], threads: int
    ) -> tuple[list[Array], Array]:
        """A batch split among threads."""
        count = math.prod(batch)
        results = [empty((count, *s)) for s in self.output_shapes]
        status = np.empty(count, dtype=np.int64)
        plain = list(inputs.values())
        good = None
        if len(batch) == 1:
            good = self.run_shared([*plain, *results, status], count, threads)
        if good is None:  # several axes, or numbers to be converted: plain arrays of our own
            plain = [
                np.array(a, dtype=np.float64, order="C").reshape(count, *core)
                for a, core in zip(plain, self.input_shapes, strict=True)
            ]
            self.run_shared([*plain, *results, status], count, threads)
        return [a.reshape(*batch, *a.shape[1:]) for a in results], status.reshape(batch)


class _ByColumn:
    """Several columns of operands as one more batch axis of the program for one column."""

    def __init__(self, program: SweepProgram, one: NativeCode) -> None:
        self.program, self.one = program, one

    def run(self, arrays: Arrays, batch: tuple[int, ...], threads: int) -> tuple[list[Any], Array]:
        """Move the columns before the axes of one element, and back in the results."""
        moved: dict[str, Array] = {}
        for name in self.program.inputs:
            shape, a = self.program.input_shapes[name], arrays[name]
            place = a.ndim - len(shape)
            moved[name] = np.moveaxis(a, -1, place) if -1 in shape else np.expand_dims(a, place)
        columns = arrays["columns"].shape[0]
        results, status = self.one.matrices(moved, (*batch, columns), threads)
        out: list[Any] = []
        for a, r in zip(results, self.program.lowered.results, strict=True):
            first = np.take(a, 0, axis=len(batch)) if columns else a
            out.append(np.moveaxis(a, len(batch), -1) if r.layout == "columns" else first)
        return self.program.pick(out), status.max(axis=-1, initial=0)
