"""The native backend: machine code for every program that has a form for it."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from phipsi.backends.backend import Array, Arrays, Backend, Loaded, SweepProgram, never
from phipsi.backends.failures import NO_MEMORY
from phipsi.backends.native.runner import NativeCode, can_run
from phipsi.backends.result_memory import LEAST, empty
from phipsi.model.numbers import as_numbers, surely_numbers

_FLOAT64, _ARRAY = np.dtype(np.float64), np.ndarray


@final
class NativeBackend(Backend):
    """Compiles programs with LLVM; several columns are one more batch axis."""

    name = "native"
    pairs = "symmetric"
    columns = False

    def accepts(self, program: SweepProgram) -> bool:
        """Whether there is machine code for a program."""
        program = program.by_column or program
        return can_run(program.steps, program.lowered, program.model)

    def load(self, program: SweepProgram) -> Loaded:
        """Compile a program, or read it from the disk cache."""
        calls = _Calls(program.by_column or program)
        if program.by_column is not None:
            return Loaded(_ByColumn(program, calls).run, code=calls.code)
        direct = calls.code.direct if not any(program.picks) else never
        return Loaded(calls.run, direct, calls.quick, calls.code)


class _Calls:
    """The ways to call the machine code of one program."""

    def __init__(self, program: SweepProgram) -> None:
        self.program = program
        self.code = NativeCode(
            program.steps,
            program.lowered,
            program.input_shapes,
            program.model,
            program.points,
            reproducible=program.reproducible,
        )
        self._ufunc, self._count = self.code.ufunc, len(program.inputs)
        self._ranks = [len(s) for s in self.code.input_shapes]
        self._single, self._picks = program.request.single, any(program.picks)
        # numbers in an input from which results may be so large that their memory is used again
        widest = max((math.prod(s) for s in self.code.output_shapes), default=1) or 1
        narrowest = min((math.prod(s) for s in self.code.input_shapes), default=1) or 1
        self._many = max(narrowest * LEAST // (8 * widest), 2)

    def quick(self, args: tuple[Any, ...], threads: Any, out: Any) -> Any:
        """One call of the gufunc; None if anything is out of the ordinary, or fails."""
        if len(args) != self._count:
            return None
        own = out is not None or threads != 1
        for a in args:
            kind = type(a)
            if kind is _ARRAY and a.dtype is _FLOAT64:
                own = own or a.size >= self._many
            elif not (kind is list and a and type(a[0]) is float or surely_numbers(a)):
                args = tuple(map(as_numbers, self.program.inputs, args))
                break
        try:
            found = self._into(args, threads, out) if own else self._ufunc(*args)
        except (TypeError, ValueError):  # the long way says why
            return None
        if found is None:
            return None
        *results, status = found
        if status.any() if status.ndim else status:
            return None
        if self._picks:
            results = self.program.pick(results)
        return results[0] if self._single else tuple(results)

    def _into(self, args: tuple[Any, ...], threads: Any, out: Any) -> Any:
        """The same with results in arrays of the caller or in `result_memory`, and in threads."""
        if self._picks and out is not None:
            return None
        arrays = [a if type(a) is _ARRAY else np.asarray(a, dtype=np.float64) for a in args]
        batches = [a.shape[: a.ndim - rank] for a, rank in zip(arrays, self._ranks, strict=True)]
        batch = batches[0] if batches else ()
        same = batches.count(batch) == len(batches)
        if not same:
            batch = np.broadcast_shapes(*batches)
        wanted = [(*batch, *s) for s in self.code.output_shapes]
        if out is None:
            results = [empty(s) for s in wanted]
        else:
            results = [out] if self._single else list(out)
            if not _fits(results, wanted, arrays):
                return None
        if threads == 1:
            return self._ufunc(*arrays, out=(*results, None))
        if type(threads) is not int or not same or len(batch) != 1 or not 1 < threads <= batch[0]:
            return None
        status = np.empty(batch, dtype=np.int64)
        good = self.code.run_shared([*arrays, *results, status], batch[0], threads)
        return None if good is None else (*results, _FINE if good else status)

    def run(self, arrays: Arrays, batch: tuple[int, ...], threads: int) -> tuple[list[Any], Array]:
        """Any batch, in any number of threads."""
        results, status = self.matrices(arrays, batch, threads)
        return self.program.pick(results), status

    def matrices(
        self, arrays: Arrays, batch: tuple[int, ...], threads: int
    ) -> tuple[list[Any], Array]:
        """The same before blocks are picked."""
        program, code = self.program, self.code
        if threads == 1 or not batch:
            *results, status = self._ufunc(*(arrays[name] for name in program.inputs))
        else:
            results, status = self._shared(program.widened(arrays, batch), batch, threads)
        if np.any(status == NO_MEMORY):
            raise MemoryError(
                f"{', '.join(map(str, program.request.expressions))} works in "
                f"{code.scratch_bytes / 2**20:.3g} MB per thread, which the system did not give. "
                "Free memory, or use fewer threads="
            )
        return [np.asarray(r) for r in results], np.asarray(status)

    def _shared(
        self, inputs: Arrays, batch: tuple[int, ...], threads: int
    ) -> tuple[list[Array], Array]:
        """A batch split among threads."""
        code, count = self.code, math.prod(batch)
        results = [empty((count, *s)) for s in code.output_shapes]
        status = np.empty(count, dtype=np.int64)
        plain = list(inputs.values())
        good = None
        if len(batch) == 1:
            good = code.run_shared([*plain, *results, status], count, threads)
        if good is None:  # several axes, or numbers to be converted: plain arrays of our own
            plain = [
                np.array(a, dtype=np.float64, order="C").reshape(count, *core)
                for a, core in zip(plain, code.input_shapes, strict=True)
            ]
            code.run_shared([*plain, *results, status], count, threads)
        return [a.reshape(*batch, *a.shape[1:]) for a in results], status.reshape(batch)


_FINE = np.zeros((), dtype=np.int64)  # the status of a batch in which nothing failed


def _fits(targets: list[Any], shapes: list[tuple[int, ...]], inputs: list[Array]) -> bool:
    """Whether results can be written straight into these arrays."""
    if len(targets) != len(shapes):
        return False
    for a, shape in zip(targets, shapes, strict=True):
        if type(a) is not np.ndarray or a.dtype is not _FLOAT64 or a.shape != shape:
            return False
        others = (*inputs, *(b for b in targets if b is not a))
        if not a.flags.writeable or any(np.may_share_memory(a, b) for b in others):
            return False
    return len({id(a) for a in targets}) == len(targets)


class _ByColumn:
    """Several columns of operands as one more batch axis of the program for one column."""

    def __init__(self, program: SweepProgram, one: _Calls) -> None:
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
