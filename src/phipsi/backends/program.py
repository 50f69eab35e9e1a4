"""Program: a compiled expression that can be called like a function, on batches."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from phipsi.backends import layout
from phipsi.backends.arguments import bind_arguments, check_finite
from phipsi.backends.failures import NOT_FINITE, Failure, error_of, status_of
from phipsi.backends.reference import Run
from phipsi.backends.scalars import result_dtype
from phipsi.errors import InputError
from phipsi.model.model import Model
from phipsi.rewrite.engine import Rewriting
from phipsi.sweeps.explanation import Explanation, explain_steps
from phipsi.sweeps.ir import Step, SweepProgram
from phipsi.sweeps.request import Lowered, Request, Result

Array = np.ndarray


class Program:
    """A compiled program for one model.

    Call it with its `inputs` in order, or by keyword; leading axes are batches and broadcast. The
    result is an array, or a tuple of arrays if several expressions were compiled.

    **Attributes:** `inputs`, the names in order; `model`; `steps`, the scheduled sweeps.
    """

    def __init__(
        self,
        request: Request,
        rewriting: Rewriting,
        lowered: Lowered,
        steps: list[Step],
        model: Model,
    ) -> None:
        self.request, self.rewriting, self.lowered = request, rewriting, lowered
        self.model, self.steps = model, steps
        self.sweep_program = SweepProgram(steps, [], list(lowered.inputs))

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs, in order."""
        return self.lowered.inputs

    def __repr__(self) -> str:
        what = ", ".join(str(x) for x in self.request.expressions)
        sweeps = len(self.sweep_program.sweeps())
        return f"<Program {what}: ({', '.join(self.inputs)}) in {sweeps} sweeps>"

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
        write to; `threads`, how many threads share a large batch; `on_error`, "raise" or "mask"
        (failed elements become NaN and ``(result, status)`` is returned, status 0 where all is
        well).
        """
        if on_error not in ("raise", "mask"):
            raise InputError(f"on_error={on_error!r} is neither 'raise' nor 'mask'")
        if not isinstance(threads, int) or threads < 1:
            raise InputError(f"threads={threads!r} must be a whole number of at least 1")
        arrays, batch = bind_arguments(self, args, named)
        if on_error == "raise":
            check_finite(self, arrays)
        if threads > 1 and batch:
            results, failures = self._in_threads(arrays, batch, threads)
        else:
            results, failures = self._evaluate(arrays, batch)
        failures = [*failures, *self._non_finite(results, failures, batch)]
        if failures and on_error == "raise":
            raise error_of(failures[0], self.model)
        results = self._store(results, out)
        answer = results[0] if self.request.single else tuple(results)
        return (answer, status_of(failures, batch)) if on_error == "mask" else answer

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
        run = Run(self.sweep_program, self.model, self.request.points, widened, batch, dtype)
        with np.errstate(invalid="ignore", over="ignore"):
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
            matrix = np.array(np.broadcast_to(value, (*batch, *value.shape[-2:])))
            return self._picked(matrix, r)
        flip = r.layout == "matrix of adjoint"
        space = r.takes.dual if flip else r.gives
        tall = layout.write_vector(value, space, model, points, batch, dtype, columns=True)
        rows = layout.space_size(space, model, points)
        matrix = tall.reshape(*batch, rows, tall.shape[-1])
        return self._picked(np.swapaxes(matrix, -1, -2).copy() if flip else matrix, r)

    def _picked(self, matrix: Array, r: Result) -> Any:
        if self.request.blocks is None or self._mode(r) == "dense":
            return matrix
        return tuple(self._pick(matrix, r, row, col) for row, col in self.request.blocks)

    def _mode(self, r: Result) -> str:
        return self.request.modes[self.lowered.results.index(r)]

    def _pick(self, matrix: Array, r: Result, row: Any, col: Any) -> Array:
        rows = layout.block_rows(r.gives, row, self.model, self.request.points)
        cols = layout.block_rows(r.takes, col, self.model, self.request.points)
        return matrix[..., rows, cols].copy()

    def _in_threads(
        self, arrays: dict[str, Array], batch: tuple[int, ...], threads: int
    ) -> tuple[list[Any], list[Failure]]:
        """Split the first batch axis; each part is evaluated on its own."""
        edges = np.linspace(0, batch[0], min(threads, max(batch[0], 1)) + 1).astype(int)
        full = {
            n: a if n == "columns" else np.broadcast_to(a, (*batch, *a.shape[len(a.shape) - k :]))
            for n, a, k in self._with_ranks(arrays, batch)
        }

        def part(i: int) -> tuple[list[Any], list[Failure]]:
            piece = {
                n: a if n == "columns" else a[edges[i] : edges[i + 1]] for n, a in full.items()
            }
            return self._evaluate(piece, (int(edges[i + 1] - edges[i]), *batch[1:]))

        with ThreadPoolExecutor(threads) as pool:
            parts = list(pool.map(part, range(len(edges) - 1)))
        results = [_join([p[0][i] for p in parts]) for i in range(len(parts[0][0]))]
        failures: list[Failure] = []
        for i, (_, found) in enumerate(parts):
            failures.extend(_widen(f, edges[i], edges[i + 1], batch) for f in found)
        return results, failures

    def _with_ranks(
        self, arrays: dict[str, Array], batch: tuple[int, ...]
    ) -> list[tuple[str, Array, int]]:
        shapes = layout.input_shapes(self)
        return [(n, a, len(shapes.get(n, ()))) for n, a in arrays.items()]

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
        for target, result in zip(_flat(targets), _flat(results), strict=True):
            if not isinstance(target, np.ndarray) or target.shape != result.shape:
                shape = getattr(target, "shape", type(target).__name__)
                raise InputError(f"out= has shape {shape}, but the result has {result.shape}")
            target[...] = result
        return targets


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
