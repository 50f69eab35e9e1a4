"""Programs as functions of one module with a C interface, for a target.

    int NAME(const double *input…, double *result…, void *work)       or float, by the target
    int NAME_batch(int n, const double *input…, double *result…, int *status, void *work)

The kernels are those that run here, with their data record known: no heap, no data that changes,
no address in data, no call of a library. Reasons: docs/decisions/0042.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from phipsi.codegen.quoted_texts import comment
from phipsi.core.backends import NO_MEMORY, STATUS_WORDS, SweepProgram
from phipsi.core.model import Model
from phipsi.native import (
    I1,
    I32,
    I64,
    INSIDE as INSIDE,
    POINTER,
    WORD,
    CModule as SourceModule,
    Emitter,
    KernelSource,
    Target,
    define_pack,
    define_unpack,
    i64,
    listed_table as listed_table,
    llvm_text,
    llvm_text as ir,
    number_text as number_text,
    write_loop,
)

MARK = "written by phipsi"
"""In every file that is exported."""
# memory is the caller's, so that it cannot be missing
STATUSES = {code: text for code, text in STATUS_WORDS.items() if code != NO_MEMORY}


@dataclass(frozen=True)
class ExportedArray:
    """An argument: its name in C, shape of one element, units, role, and meaning.

    `role` is "in", "out", or "inout" for the state that a step changes; `first` are the initial
    numbers of a state and the default ones of a parameter, if there are any.
    """

    name: str
    shape: tuple[int, ...]
    units: str
    role: str
    text: str
    first: tuple[float, ...] | None = None

    @property
    def count(self) -> int:
        """How many numbers."""
        return math.prod(self.shape)

    def parameter(self, number: str) -> str:
        """As a parameter in C, of numbers of this type."""
        return f"{'const ' if self.role == 'in' else ''}{number} *{self.name}"

    @property
    def described(self) -> str:
        """All of this in one line, for a comment."""
        size = " x ".join(map(str, self.shape)) or "1"
        units = f" [{self.units}]" if self.units else ""
        return f"{self.name} ({self.role}, {size}){units}: {comment(self.text)}"


@dataclass(frozen=True)
class Accuracy:
    """Errors in single precision at random states, relative to the largest number of a result.

    `median` and `largest` error; `states`, how many were compared with double precision; `failed`,
    how many of them have no result in single precision.
    """

    median: float
    largest: float
    states: int
    failed: int

    def __str__(self) -> str:
        text = (
            f"median {self.median:.1e}, largest {self.largest:.1e} at {self.states} random states"
        )
        return f"{text}, {self.failed} of which fail" if self.failed else text


@dataclass(frozen=True)
class ExportedFunction:
    """A C function: its name, its arrays in order, bytes of work memory, and its statuses.

    `batch_bytes` is the work memory of the form for many configurations; `lanes`, how many of them
    it computes at once; `statuses`, the text of every status by its last three bits; `rollout`, the
    name of the function that takes many steps, of a step; `dt`, the seconds of a step; `accuracy`,
    that of single precision.
    """

    name: str
    arguments: tuple[ExportedArray, ...]
    work_bytes: int
    statuses: dict[int, str]
    batch_bytes: int = 0
    lanes: int = 1
    rollout: str = ""
    dt: float | None = None
    accuracy: Accuracy | None = None

    def __repr__(self) -> str:
        takes, gives = (", ".join(a.name for a in x) for x in (self.inputs, self.outputs))
        return f"<ExportedFunction {self.name}: ({takes}) to ({gives})>"

    @property
    def inputs(self) -> tuple[ExportedArray, ...]:
        """The arrays that are read."""
        return tuple(a for a in self.arguments if a.role != "out")

    @property
    def outputs(self) -> tuple[ExportedArray, ...]:
        """The arrays that are written."""
        return tuple(a for a in self.arguments if a.role != "in")

    def signatures(self, number: str, *, static: bool) -> dict[str, tuple[str, ...]]:
        """The parameters in C of the function, its rollout and its batched form, by name."""
        arrays = [a.parameter(number) for a in self.arguments]
        work = [] if static else ["void *work"]
        out = {self.name: (*arrays, *work)}
        if self.rollout:
            out[self.rollout] = ("int n", *arrays, *work)
        if self.batch_bytes:
            out[f"{self.name}_batch"] = ("int n", *arrays, "int *status", *work)
        return out


@dataclass(frozen=True)
class Library:
    """The functions that are exported together.

    `name` is the prefix of everything; `text`, one line about them; `static`, whether work memory
    is inside; `helpers`, the functions of a compiler's library that the object needs.
    """

    name: str
    functions: tuple[ExportedFunction, ...]
    model: Model
    target: str
    text: str
    static: bool = False
    helpers: tuple[str, ...] = ()
    number: str = "double"

    def __post_init__(self) -> None:
        """Nothing that the text contains can end a comment."""
        object.__setattr__(self, "text", comment(self.text))

    @property
    def prefix(self) -> str:
        """Of constants."""
        return self.name.upper()

    def short(self, function: ExportedFunction) -> str:
        """The name of a function without the prefix."""
        return function.name.removeprefix(f"{self.name}_")


Writer = Callable[[Any], tuple[list[Any], ExportedFunction]]
"""Writes functions into a module: those that others may call, and their description."""


@dataclass(frozen=True)
class ExportedModule:
    """The text of a module, and its functions."""

    text: str
    functions: tuple[ExportedFunction, ...]


@dataclass(frozen=True)
class FunctionSource:
    """The source of a function: its name, its program, and its arrays as users see them."""

    name: str
    program: SweepProgram
    arguments: tuple[ExportedArray, ...]


def exported_module(
    sources: Sequence[FunctionSource],
    target: Target,
    *,
    as_source: bool = False,
    batch: bool = True,
    static: bool = False,
    more: Sequence[Writer] = (),
    hidden: bool = False,
    threads: bool = False,
) -> ExportedModule:
    """All functions in one module; tables with equal contents are there once.

    The text is that of LLVM, or C with `as_source`. Functions that are not returned are internal,
    and none that is returned calls another: modules cannot take each other's. With `static`, work
    memory is data of the module: functions have no `work`, and each may run once at a time. `more`
    write further functions. `hidden` functions are not exported by shared libraries that the object
    is linked into. With `threads`, there are kernels of a GPU around them, one configuration per
    thread.
    """
    module: Any = SourceModule(standalone=True) if as_source else _llvm_module(target)
    functions: list[ExportedFunction] = []
    entries: list[Any] = []
    found: list[KernelSource] = []
    for source in sources:
        fused = target.fused and not source.program.reproducible
        found.append(KernelSource(source.program, replace(target, fused=fused)))
    # tables have the columns that any of the programs reads, so that programs share them
    columns = set[int]().union(*(kernels.unit.used_columns() for kernels in found))
    for source, kernels in zip(sources, found, strict=True):
        one = _KernelWrapper(module, kernels, source, columns, static)
        function = ExportedFunction(source.name, source.arguments, 0, STATUSES)
        entry, work = one.single()
        entries.append(entry)
        function = replace(function, work_bytes=work)
        if batch:
            entry, work = one.batch(target.lanes)
            entries.append(entry)
            function = replace(function, batch_bytes=work, lanes=target.lanes)
        functions.append(function)
    for write in more:
        written, function = write(module)
        entries += written
        functions.append(function)
    for one in module.globals.values():  # nothing else is seen outside: two modules may be linked
        if one.blocks and one not in entries:
            one.linkage = "internal"
    if as_source:
        for f in functions:
            module.signatures |= f.signatures(target.number, static=static)
    if threads:
        entries = [kernel for f in functions for kernel in _gpu_kernels(module, f, target.unit)]
    elif hidden and not as_source:
        for entry in entries:
            entry.linkage = "hidden"
    module.keep(entries)
    return ExportedModule(str(module), tuple(functions))


def _llvm_module(target: Target) -> Any:
    return llvm_text.Module(
        standalone=True, missing=target.missing, narrow=target.pointer_bits == 32,
        integer_bytes=target.integer_bytes,
    )  # fmt: skip


def _gpu_kernels(module: ir.Module, f: ExportedFunction, unit: int) -> Iterator[ir.IRFunction]:
    """One configuration per thread: NAME_batch, and of a step also NAME_rollout_batch.

    Control depends on the model only, so that all threads of a group are at the same place, and
    their work memory, which is local, is read side by side.
    """
    for name in filter(None, (f.name, f.rollout)):
        inner = module.globals[name]
        inner.linkage = "internal"
        leading = [I32] if name == f.rollout else []
        takes = [I32, *leading, *[POINTER] * (len(f.arguments) + 1)]
        kernel = ir.IRFunction(module, ir.FunctionType(ir.VOID, takes), f"{name}_batch")
        kernel.linkage = "ptx_kernel"
        b = kernel.begin()
        work = b.alloca(I64, size=-(-f.work_bytes // WORD))
        count, *steps = kernel.args[: 1 + len(leading)]
        *arrays, statuses = kernel.args[1 + len(leading) :]
        block, size, thread = (
            b.call_named(f"llvm.nvvm.read.ptx.sreg.{x}.x", I32, [])
            for x in ("ctaid", "ntid", "tid")
        )
        i = b.add(b.mul(b.zext(block, I64), b.zext(size, I64)), b.zext(thread, I64))
        with b.if_then(b.icmp_signed("<", i, b.sext(count, I64))):
            sizes = (unit * a.count for a in f.arguments)
            rows = [b.at(a, b.mul(i, i64(n))) for a, n in zip(arrays, sizes, strict=True)]
            status = b.call(inner, [*steps, *rows, work])
            b.store(status, b.at(statuses, b.mul(i, i64(4))), align=4)
        b.ret_void()
        yield kernel


class _KernelWrapper:
    """Writes the functions of one program around its kernels."""

    def __init__(
        self,
        module: ir.Module,
        kernels: KernelSource,
        source: FunctionSource,
        columns: set[int],
        static: bool,
    ) -> None:
        self._columns = columns
        self.module, self.source, self.unit, self.static = module, source, kernels.unit, static
        self.target = kernels.unit.target
        self.n_inputs = len(kernels.program.inputs)
        self._kernels: dict[int, tuple[Any, int]] = {}
        self.counts = [math.prod(shape) for shape in self.unit.shapes[:-1]]

    def _kernel(self, lanes: int) -> tuple[Any, int]:
        if lanes not in self._kernels:
            known, work = self.unit.known_record(lanes, self._columns)
            kernel = self.unit.kernel(self.module, lanes, known=known)
            self._kernels[lanes] = kernel.function, work
        return self._kernels[lanes]

    def _begin(
        self, name: str, takes: Sequence[ir.IRType], work: int
    ) -> tuple[Any, list[Any], Any]:
        """A function, its arguments, and its work memory."""
        memory = [] if self.static else [POINTER]
        function = ir.IRFunction(self.module, ir.FunctionType(I32, [*takes, *memory]), name)
        for a in function.args:
            if a.type is POINTER:
                a.add_attribute("noalias")
        if self.static:
            inside = ir.StaticMemory(self.module, work, f"phipsi.{name}.work")
            return function, list(function.args), inside
        *args, given = function.args
        return function, args, given

    def single(self) -> tuple[Any, int]:
        """The function for one configuration, on the caller's arrays."""
        kernel, work = self._kernel(1)
        n = len(self.counts)
        function, args, scratch = self._begin(self.source.name, [POINTER] * n, work)
        b = function.begin()
        e = self._emitter(b, 1)
        status = b.alloca(e.integers)
        buffers = b.alloca(I64, size=n + 1)
        for i, a in enumerate((*args, status)):
            b.store(a, b.at(buffers, WORD * i))
        self._run(b, kernel, scratch, buffers)
        b.ret(_as_int(b, b.load(status, typ=e.integers)))
        return function, work

    def _emitter(self, b: Any, lanes: int) -> Emitter:
        e = Emitter(lanes, fused=self.target.fused, number=self.target.number)
        e.builder = b
        return e

    def _run(self, b: Any, kernel: Any, scratch: Any, buffers: Any) -> None:
        nothing = ir.IRConstant(POINTER, None)
        b.call(kernel, [nothing, scratch, buffers, ir.IRConstant(I1, 1)])

    def batch(self, lanes: int) -> tuple[Any, int]:
        """The function for n configurations: groups of lanes, the last one padded with its last.

        Work memory has the buffers of a group, then the scratch of the kernel.
        """
        kernel, work = self._kernel(lanes)
        n = len(self.counts)
        rooms = [-(-c // lanes) * lanes * lanes for c in self.counts]  # whole tiles
        starts = [self.target.unit * sum(rooms[:i]) for i in range(n + 1)]
        total = starts[-1] + work if lanes > 1 else work
        takes = [I32, *[POINTER] * (n + 1)]
        function, args, memory = self._begin(f"{self.source.name}_batch", takes, total)
        count, *arrays, statuses = args
        b = function.begin()
        e = self._emitter(b, lanes)
        found, first = b.alloca(e.integers), b.alloca(I32)
        buffers = b.alloca(I64, size=n + 1)
        b.store(ir.IRConstant(I32, 0), first)
        b.store(found, b.at(buffers, WORD * n))
        scratch = memory if lanes == 1 else b.at(memory, starts[-1])
        places = [b.at(memory, s) for s in starts[:-1]]
        total_count = b.sext(count, I64)

        def note(row: Any, place: Any) -> None:
            status = _as_int(b, b.load(place, typ=e.number.integer))
            b.store(status, b.at(statuses, b.mul(row, i64(4))), align=4)
            old = b.load(first, typ=I32)
            fine = b.icmp_signed("==", old, ir.IRConstant(I32, 0))
            b.store(b.select(fine, status, old), first)

        def group(start: Any) -> None:
            last = b.sub(b.sub(total_count, start), i64(1))
            whole = zip(arrays, self.counts, strict=True)
            rows = [b.at(a, b.mul(start, i64(e.unit * c))) for a, c in whole]
            for i, row in enumerate(rows):
                place = row if lanes == 1 else places[i]
                b.store(place, b.at(buffers, WORD * i))
                if lanes > 1 and i < self.n_inputs:
                    self._move(e, define_pack, i, row, last, place)
            self._run(b, kernel, scratch, buffers)
            if lanes == 1:
                note(start, found)
                return
            for i in range(self.n_inputs, n):
                self._move(e, define_unpack, i, rows[i], last, places[i])
            for lane in range(lanes):
                with b.if_then(b.icmp_signed("<=", i64(lane), last)):
                    note(b.add(start, i64(lane)), b.at(found, e.unit * lane))

        write_loop(b, total_count, group, lanes)
        b.ret(b.load(first, typ=I32))
        return function, total

    def _move(self, e: Emitter, define: Any, i: int, row: Any, last: Any, place: Any) -> None:
        """Numbers of a group between the caller's array i and lanes."""
        count, stride = i64(self.counts[i]), i64(e.unit * self.counts[i])
        e.builder.call(define(self.module, e), [row, stride, last, count, place])


def _as_int(b: Any, status: Any) -> Any:
    """A status as an int of C."""
    return status if status.type is I32 else b.trunc(status, I32)
