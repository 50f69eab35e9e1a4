"""Program: a compiled expression that can be called like a function, on batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from phipsi.backends import layout
from phipsi.backends.arguments import bind_arguments, check_finite, never, of_bad_inputs
from phipsi.backends.failures import (
    CONTRADICTION,
    DOUBTFUL,
    NO_MEMORY,
    NOT_FINITE,
    Failure,
    error_of,
    is_failure,
    joint_without_pose,
    status_of,
    warn_of_doubts,
)
from phipsi.backends.options import check_on_error
from phipsi.backends.reference import Run
from phipsi.backends.scalars import result_dtype
from phipsi.backends.workers import run_together
from phipsi.errors import InputError
from phipsi.model.model import Model
from phipsi.model.numbers import as_numbers, finite, surely_numbers
from phipsi.rewrite.engine import Rewriting
from phipsi.sweeps.explanation import Explanation, explain_steps
from phipsi.sweeps.ir import Step, StepKind
from phipsi.sweeps.request import Lowered, Request, Result

if TYPE_CHECKING:
    from phipsi.backends.native.runner import NativeCode

Array = np.ndarray
Resolve = Callable[[dict[str, Array]], tuple[Sequence[Array], Array]]
"""Inputs (n, …) of elements in doubt → their results, and a status for each."""
_FLOAT64, _ARRAY = np.dtype(np.float64), np.ndarray


class Program:
    """A compiled program for one model.

    Call it with its `inputs` in order, or by keyword; leading axes are batches and broadcast. The
    result is an array, or a tuple of arrays if several expressions were compiled.

    **Attributes:** `inputs`, the names in order; `model`; `steps`, the scheduled sweeps; `backend`,
    where it runs ("native", or "reference" for what has no machine code).
    """

    def __init__(
        self,
        request: Request,
        rewriting: Rewriting,
        lowered: Lowered,
        steps: list[Step],
        model: Model,
        backend: str = "reference",
        *,
        reproducible: bool = False,
        by_column: Program | None = None,
    ) -> None:
        self.request, self.rewriting, self.lowered = request, rewriting, lowered
        self.model, self.steps = model, steps
        native = backend == "native" and native_runner().can_run(steps, lowered, model)
        self._by_column = by_column  # the program for one column, if several are asked for
        if by_column is not None and by_column.backend == "native":
            native = True
        self.backend = "native" if native else "reference"
        self._reproducible = reproducible
        self._native: NativeCode | None = None
        self._lock = Lock()
        self._direct: Callable[..., Any] = self._first
        self.shapes: dict[str, tuple[int, ...]] | None = None  # of inputs, when first asked for
        self.resolve: Resolve | None = None  # for elements whose constraint rows are in doubt
        self._count = len(lowered.inputs)
        self._plain = request.blocks is None
        for r in lowered.results:
            if r.picked:
                self._places(r)  # unknown names are refused here

    def __getstate__(self) -> dict[str, Any]:
        """Without the machine code, which is made anew where it is needed."""
        left = ("_native", "_lock", "_direct", "resolve")
        return {k: v for k, v in vars(self).items() if k not in left}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._native, self._lock, self._direct = None, Lock(), self._first
        self.resolve = None

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs, in order."""
        return self.lowered.inputs

    @property
    def native(self) -> NativeCode | None:
        """The machine code, made when it is first needed; None for the reference backend."""
        if self._by_column is not None:
            return self._by_column.native
        if self._native is None and self.backend == "native":
            with self._lock:
                if self._native is None:
                    self._native = native_runner().NativeCode(
                        self.steps,
                        self.lowered,
                        layout.input_shapes(self),
                        self.model,
                        self.request.points,
                        reproducible=self._reproducible,
                    )
        return self._native

    @property
    def ufunc(self) -> Any:
        """The NumPy gufunc of the machine code; its last output is a status per element."""
        native = self.native
        if native is None:
            raise InputError(f"{self!r} runs on the reference backend, which has no gufunc")
        return native.ufunc

    def __repr__(self) -> str:
        what = ", ".join(str(x) for x in self.request.expressions)
        directed = (StepKind.TIP_TO_BASE, StepKind.BASE_TO_TIP)
        sweeps = sum(s.kind in directed for s in self.steps)
        plural = "" if sweeps == 1 else "s"
        return f"<Program {what}: ({', '.join(self.inputs)}) in {sweeps} sweep{plural}>"

    def __call__(
        self,
        *args: Any,
        out: Any = None,
        threads: int = 1,
        on_error: str = "raise",
        **named: Any,
    ) -> Any:
        """Evaluate on the inputs.

        **Arguments:** the inputs, in order or by name; `out`, an array (or tuple of arrays) to
        write to; `threads`, how many threads share a large batch; `on_error`: "raise", "mask"
        (failed elements become NaN and ``(result, status)`` is returned, status 0 where all is
        well, and 6 with a row's number where constraint rows nearly depend on each other), or
        "return" (the same with the numbers as they came out).
        """
        if not named and out is None and threads == 1 and on_error == "raise":
            answer = self._direct(*args)
            if answer is not None:
                return answer
            answer = self._quickly(args)
            if answer is not None:
                return answer
        elif not named and on_error == "raise" and self._plain:
            answer = self._quickly_into(args, threads, out)
            if answer is not None:
                return answer
        check_on_error(on_error)
        threads = _whole(threads)
        arrays, batch = bind_arguments(self, args, named)
        if on_error == "raise":
            check_finite(self, arrays)
        if self.backend == "native" and result_dtype(list(arrays.values())) == np.float64:
            results, status = self._run_native(arrays, batch, threads)
            if on_error != "raise":
                status = of_bad_inputs(self, arrays, batch, status)
            status = self._solved_again(arrays, batch, results, status, on_error)
            if on_error == "raise" and status.any():
                self._raise(arrays, batch, status)
            if on_error == "mask":
                _mask(results, status)
            answer = self._answer(self._store(self._pick_all(results), out))
            return answer if on_error == "raise" else (answer, status)
        if threads > 1 and batch:
            results, failures = self._in_threads(arrays, batch, threads)
        else:
            results, failures = self._evaluate(arrays, batch)
        failures = [*failures, *self._non_finite(results, failures, batch)]
        status = status_of(failures, batch)
        if on_error != "raise":
            status = of_bad_inputs(self, arrays, batch, status)
        status = self._solved_again(arrays, batch, results, status, on_error)
        if status.any() and on_error == "raise":
            self._raise(arrays, batch, status)
        if on_error == "mask":
            _mask(results, status)
        answer = self._answer(self._store(results, out))
        return answer if on_error == "raise" else (answer, status)

    def _solved_again(
        self,
        arrays: dict[str, Array],
        batch: tuple[int, ...],
        results: list[Any],
        status: Array,
        on_error: str,
    ) -> Array:
        """The status after elements whose rows are in doubt got their results from `resolve`.

        Without it they keep their results, with a warning or with their status.
        """
        code = status % 8
        doubtful = (code == DOUBTFUL) | (code == CONTRADICTION)
        if not doubtful.any():
            return status
        if self.resolve is None or result_dtype(list(arrays.values())) != np.float64:
            if on_error != "raise":
                return status
            if (code == DOUBTFUL).any():
                warn_of_doubts(status, self.request.points.closures)
            return np.where(code == DOUBTFUL, 0, status)
        shapes = layout.input_shapes(self)
        given = {n: _widened(arrays[n], batch, len(shapes[n]))[doubtful] for n in self.inputs}
        found, verdict = self.resolve(given)
        for whole, part in zip(results, found, strict=True):
            whole[doubtful] = part
        out = np.array(status)
        out[doubtful] = verdict
        return out

    def _answer(self, results: list[Any]) -> Any:
        return results[0] if self.request.single else tuple(results)

    # -- the native way
    # ------------------------------------------------------------------------------

    def _first(self, *_: Any) -> None:
        """The first call: make the machine code, and let it take the next ones directly."""
        native = self.native
        plain = native is not None and self._by_column is None and self._plain
        self._direct = native.direct if native is not None and plain else never

    def _quickly(self, args: tuple[Any, ...]) -> Any:
        """One gufunc call; None if anything is out of the ordinary, which the long way explains."""
        native = self._native or self.native
        if native is None or len(args) != self._count or self._by_column is not None:
            return None
        for a in args:
            kind = type(a)
            if kind is _ARRAY and a.dtype is _FLOAT64 or kind is list and a and type(a[0]) is float:
                continue
            if not surely_numbers(a):
                args = tuple(map(as_numbers, self.inputs, args))
                break
        try:
            *results, status = native.ufunc(*args)
        except (TypeError, ValueError):
            return None
        if status.any() if status.ndim else status:
            return None
        if self._plain and self.request.single:
            return results[0]
        return self._answer(results if self._plain else self._pick_all(results))

    def _quickly_into(self, args: tuple[Any, ...], threads: Any, out: Any) -> Any:
        """The same for threads and given arrays, if no input has more than one batch axis."""
        native = self._native or self.native
        if native is None or len(args) != self._count or self._by_column is not None:
            return None
        if type(threads) is not int or threads < 1:  # other kinds of numbers take the long way
            return None
        batch: Any = None
        for a, core in zip(args, native.input_shapes, strict=True):
            if type(a) is not np.ndarray or a.dtype is not _FLOAT64:
                return None
            mine = a.shape[: a.ndim - len(core)]
            if a.shape[len(mine) :] != core or (batch is not None and mine != batch):
                return None
            batch = mine
        if batch is None or len(batch) > 1 or (threads > 1 and (not batch or batch[0] < threads)):
            return None
        targets = None
        if out is not None:
            targets = [out] if self.request.single else list(out)
            if not _fits(targets, [(*batch, *s) for s in native.output_shapes], args):
                return None
        if threads > 1:
            results, status, good = self._shared(native, list(args), batch, threads, targets)
        else:
            *results, status = native.ufunc(*args, out=(*(targets or ()), None))
            good = None
        if not good and status.any():
            return None
        return self._answer(results)

    def _shared(
        self,
        native: NativeCode,
        full: list[Array],
        batch: tuple[int, ...],
        threads: int,
        out: list[Array] | None = None,
    ) -> tuple[list[Any], Array, bool | None]:
        """A batch split among threads; status, and whether it is known to be zero."""
        outputs = out or [np.empty((*batch, *s)) for s in native.output_shapes]
        status = np.empty(batch, dtype=np.int64)
        if len(batch) == 1:
            good = native.run_shared([*full, *outputs, status], batch[0], threads)
            if good is not None:
                return outputs, status, good
        # several axes, or numbers that have to be converted: plain arrays of our own
        count = status.size
        plain = [
            np.array(a, dtype=np.float64, order="C").reshape(count, *core)
            for a, core in zip(full, native.input_shapes, strict=True)
        ]
        fresh = [np.empty((count, *s)) for s in native.output_shapes]
        good = native.run_shared([*plain, *fresh, status.reshape(count)], count, threads)
        results = [a.reshape(*batch, *s) for a, s in zip(fresh, native.output_shapes, strict=True)]
        for target, result in zip(out or (), results, strict=bool(out)):
            target[...] = result
        return out or results, status, good

    def _run_native(
        self, arrays: dict[str, Array], batch: tuple[int, ...], threads: int
    ) -> tuple[list[Any], Array]:
        if self._by_column is not None:
            return self._column_batch(self._by_column, arrays, batch, threads)
        native = self.native
        assert native is not None
        values = [arrays[name] for name in self.inputs]
        if threads == 1 or not batch:
            *results, status = native.ufunc(*values)
        else:
            cores = [len(layout.input_shapes(self)[n]) for n in self.inputs]
            full = [_widened(a, batch, k) for a, k in zip(values, cores, strict=True)]
            results, status, _ = self._shared(native, full, batch, threads)
        if np.any(status == NO_MEMORY):
            raise MemoryError(
                f"{self!r} works in {native.scratch_bytes / 2**20:.3g} MB per thread, which the "
                "system did not give. Free memory, or use fewer threads="
            )
        return [np.asarray(r) for r in results], np.asarray(status)

    def _column_batch(
        self, one: Program, arrays: dict[str, Array], batch: tuple[int, ...], threads: int
    ) -> tuple[list[Any], Array]:
        """Several columns of operands as one more batch axis of the program for one column."""
        shapes = layout.input_shapes(self)
        moved: dict[str, Array] = {}
        for name in self.inputs:
            core = len(shapes[name])
            a = arrays[name]
            if -1 in shapes[name]:
                moved[name] = np.moveaxis(a, -1, a.ndim - core)
            else:
                moved[name] = np.expand_dims(a, a.ndim - core)
        columns = arrays["columns"].shape[0]
        results, status = one._run_native(moved, (*batch, columns), threads)
        out: list[Any] = []
        for a, r in zip(results, self.lowered.results, strict=True):
            first = np.take(a, 0, axis=len(batch)) if columns else a
            out.append(np.moveaxis(a, len(batch), -1) if r.layout == "columns" else first)
        return out, status.max(axis=-1, initial=0)

    def _raise(self, arrays: dict[str, Array], batch: tuple[int, ...], status: Array) -> None:
        """The error of the first failing element, with the numbers of the reference backend."""
        index = tuple(int(i) for i in np.argwhere(status)[0])
        shapes = layout.input_shapes(self)
        one = {n: _widened(arrays[n], batch, len(shapes[n]))[index] for n in self.inputs}
        if "columns" in arrays:
            one["columns"] = arrays["columns"]
        with np.errstate(all="ignore"):  # what comes next says more
            results, failures = self._evaluate(one, ())
        failures = [*failures, *self._non_finite(results, failures, ())]
        failures = [f for f in failures if f.code != DOUBTFUL]
        lost = -1 if "q" not in one else joint_without_pose(self.model, one["q"])
        if lost >= 0 or (failures and not finite(failures[0].value).all()):
            bad = np.ones((), dtype=bool)
            failures = [Failure(NOT_FINITE, lost, "result", bad, bad)]
        if not failures:  # backends round differently, and doubts are settled: this is the verdict
            code, body = int(status[index]) % 8, int(status[index]) // 8 - 1
            unknown = np.full((1, 1), np.nan)
            closures = self.request.points.closures
            what = closures.row_names[body] if closures and code == CONTRADICTION else "D"
            failures = [Failure(code, body, what, np.ones((), dtype=bool), unknown)]
        first = failures[0]
        mask = np.zeros(batch, dtype=bool)
        mask[index] = True
        value = np.broadcast_to(first.value, (*batch, *first.value.shape))
        scale = first.scale
        scale = None if scale is None else np.broadcast_to(scale, (*batch, *scale.shape))
        failure = Failure(first.code, first.body, first.what, mask, value, scale)
        raise error_of(failure, self.model, self.request.points.closures)

    def _pick_all(self, results: list[Any]) -> list[Any]:
        pairs = zip(results, self.lowered.results, strict=True)
        return [
            self._picked(a, r) if r.layout == "blocks" or r.layout.startswith("matrix") else a
            for a, r in pairs
        ]

    def explain(self, *, latex: bool = False) -> Explanation:
        """The rewrites, the sweeps and the recursion of this program; see `phipsi.explain`."""
        return explain_steps(
            self.request.expressions,
            self.rewriting.expressions,
            self.rewriting.steps,
            self.steps,
            self.lowered.fields,
            self.model,
            latex=latex,
        )

    # ----------------------------------------------------------------------------------------------

    def _evaluate(
        self, arrays: dict[str, Array], batch: tuple[int, ...]
    ) -> tuple[list[Any], list[Failure]]:
        dtype = result_dtype(list(arrays.values()))
        widened = {
            name: a if name == "columns" else a.astype(dtype, copy=False)
            for name, a in arrays.items()
        }
        run = Run(self.steps, self.model, self.request.points, widened, batch, dtype)
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            values = run.run()
        return [self._write(r, values, batch, dtype) for r in self.lowered.results], run.failures

    def _write(self, r: Result, values: dict[Any, Any], batch: tuple[int, ...], dtype: Any) -> Any:
        model, points = self.model, self.request.points
        value = values[r.field]
        if r.layout == "poses":
            return layout.write_poses(value, model, batch, dtype)
        if r.layout == "diagonal":
            return layout.write_blocks(value, r.takes, r.gives, model, batch, dtype)
        if r.layout in ("vector", "columns"):
            columns = r.layout == "columns"
            return layout.write_vector(value, r.gives, model, points, batch, dtype, columns)
        if r.layout == "blocks":
            if r.left is not None:
                value = r.factor * (values[r.left] @ value)
            matrix = np.array(np.broadcast_to(value, (*batch, *value.shape[-2:])))
            return self._picked(matrix, r)
        flip = r.layout == "matrix of adjoint"
        space = r.takes.dual if flip else r.gives
        tall = layout.write_vector(value, space, model, points, batch, dtype, columns=True)
        rows = layout.space_size(space, model, points)
        matrix = tall.reshape(*batch, rows, tall.shape[-1])
        return self._picked(np.swapaxes(matrix, -1, -2).copy() if flip else matrix, r)

    def _picked(self, matrix: Array, r: Result) -> Any:
        if not r.picked:
            return matrix
        return tuple(matrix[..., rows, cols].copy() for rows, cols in self._places(r))

    def _places(self, r: Result) -> list[tuple[slice, slice]]:
        """Rows and columns of the blocks asked for."""
        return [
            (
                layout.block_rows(r.gives, row, self.model, self.request.points),
                layout.block_rows(r.takes, col, self.model, self.request.points),
            )
            for row, col in self.request.blocks or ()
        ]

    def _in_threads(
        self, arrays: dict[str, Array], batch: tuple[int, ...], threads: int
    ) -> tuple[list[Any], list[Failure]]:
        """Split the first batch axis; each part is evaluated on its own.

        The threads have copies of the inputs: one that runs on after an interrupt harms nobody.
        """
        edges = np.linspace(0, batch[0], min(threads, max(batch[0], 1)) + 1).astype(int)
        ranks = {n: len(shape) for n, shape in layout.input_shapes(self).items()}
        full = {
            n: a if n == "columns" else _widened(a.copy(), batch, ranks[n])
            for n, a in arrays.items()
        }
        parts: list[Any] = [None] * (len(edges) - 1)

        def part(i: int) -> None:
            piece = {
                n: a if n == "columns" else a[edges[i] : edges[i + 1]] for n, a in full.items()
            }
            parts[i] = self._evaluate(piece, (int(edges[i + 1] - edges[i]), *batch[1:]))

        run_together([lambda i=i: part(i) for i in range(len(parts))])
        results = [_join([p[0][i] for p in parts]) for i in range(len(parts[0][0]))]
        failures: list[Failure] = []
        for i, (_, found) in enumerate(parts):
            failures.extend(_widen(f, edges[i], edges[i + 1], batch) for f in found)
        return results, failures

    def _non_finite(
        self, results: list[Any], failures: list[Failure], batch: tuple[int, ...]
    ) -> list[Failure]:
        bad = np.zeros(batch, dtype=bool)
        for a in _flat(results):
            if a.dtype != object:
                bad |= ~np.isfinite(a).all(axis=tuple(range(len(batch), a.ndim)))
        for f in failures:
            bad &= ~f.mask
        return [Failure(NOT_FINITE, -1, "result", bad, bad)] if bad.any() else []

    def _store(self, results: list[Any], out: Any) -> list[Any]:
        if out is None:
            return results
        targets = [out] if self.request.single else list(out)
        if len(targets) != len(results):
            raise InputError(f"out= has {len(targets)} arrays for {len(results)} results")
        arrays, found = _flat(targets), _flat(results)
        if len(arrays) != len(found):
            raise InputError(f"out= has {len(arrays)} arrays for {len(found)} results")
        for target, result in zip(arrays, found, strict=True):
            if isinstance(target, np.ndarray) and target.dtype != result.dtype:
                raise InputError(
                    f"out= holds {target.dtype}, but the result is {result.dtype}: "
                    f"np.empty({result.shape}, dtype=np.{result.dtype})"
                )
            if not isinstance(target, np.ndarray) or target.shape != result.shape:
                shape = getattr(target, "shape", type(target).__name__)
                raise InputError(f"out= has shape {shape}, but the result has {result.shape}")
            if not target.flags.writeable:
                raise InputError("out= is read-only, so that no result can be written to it")
            if sum(other is target or _overlap(target, other) for other in arrays) > 1:
                raise InputError("the arrays of out= share memory: results would overwrite another")
        for target, result in zip(arrays, found, strict=True):
            target[...] = result
        return targets


def native_runner() -> Any:
    """The native backend, loaded with LLVM when a program first needs it."""
    from phipsi.backends.native import runner

    return runner


def _overlap(a: Any, b: Any) -> bool:
    work: Any = 10_000  # steps; whether strided arrays meet can be hard to find out
    try:
        return isinstance(b, np.ndarray) and np.shares_memory(a, b, max_work=work)
    except np.exceptions.TooHardError:
        return True


def _whole(threads: Any) -> int:
    try:
        count = index(threads)
    except TypeError:
        count = 0
    if count < 1:
        raise InputError(f"threads={threads!r} must be a whole number of at least 1")
    return count


def _fits(targets: list[Any], shapes: list[tuple[int, ...]], inputs: tuple[Any, ...]) -> bool:
    """True if results can be written straight into these arrays."""
    if len(targets) != len(shapes):
        return False
    for a, shape in zip(targets, shapes, strict=True):
        if type(a) is not np.ndarray or a.dtype is not _FLOAT64 or a.shape != shape:
            return False
        others = (*inputs, *(b for b in targets if b is not a))
        if not a.flags.writeable or any(np.may_share_memory(a, b) for b in others):
            return False
    return len({id(a) for a in targets}) == len(targets)


def _mask(results: list[Any], status: Array) -> None:
    """Failed elements become NaN; those in doubt keep their numbers."""
    if status.any():
        for a in _flat(results):
            a[is_failure(status)] = np.nan


def _widened(a: Array, batch: tuple[int, ...], core: int) -> Array:
    """An input with its whole batch; its last `core` axes belong to one element."""
    return np.broadcast_to(a, (*batch, *a.shape[a.ndim - core :]))


def _flat(results: Sequence[Any]) -> list[Array]:
    return [a for r in results for a in (r if isinstance(r, (tuple, list)) else (r,))]


def _join(pieces: list[Any]) -> Any:
    if isinstance(pieces[0], tuple):
        return tuple(np.concatenate(part) for part in zip(*pieces, strict=True))
    return np.concatenate(pieces)


def _widen(f: Failure, start: int, stop: int, batch: tuple[int, ...]) -> Failure:
    mask = np.zeros(batch, dtype=bool)
    mask[start:stop] = f.mask
    value = np.zeros((*batch, *f.value.shape[len(batch) :]), dtype=f.value.dtype)
    value[start:stop] = f.value
    return Failure(f.code, f.body, f.what, mask, value)
