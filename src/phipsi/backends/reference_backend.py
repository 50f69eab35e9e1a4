"""The reference backend: steps interpreted with NumPy, for any kind of number.

It also says what went wrong where: every failure that a program reports is explained with the
numbers found here.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np

from phipsi.backends import storage_layout as layout
from phipsi.backends.arguments import flat
from phipsi.backends.array_algebra import result_dtype
from phipsi.backends.backend import Array, Arrays, Backend, Loaded, SweepProgram
from phipsi.backends.failures import (
    CONTRADICTION,
    DOUBTFUL,
    NOT_FINITE,
    Failure,
    error_of,
    joint_without_pose,
    status_of,
)
from phipsi.backends.reference import Run
from phipsi.backends.workers import batch_pieces, run_together
from phipsi.model.numbers import finite
from phipsi.sweeps.request import Result


@final
class ReferenceBackend(Backend):
    """Interprets every operation by its definition in `reference.py`."""

    name = "reference"
    any_numbers = True

    def load(self, program: SweepProgram) -> Loaded:
        """Nothing is made: the steps are interpreted in every call."""

        def run(arrays: Arrays, batch: tuple[int, ...], threads: int) -> tuple[list[Any], Array]:
            return _evaluate_in_threads(program, arrays, batch, threads)

        return Loaded(run)


def _evaluate_in_threads(
    program: SweepProgram, arrays: Arrays, batch: tuple[int, ...], threads: int
) -> tuple[list[Any], Array]:
    """Split the first batch axis; each part is evaluated on its own.

    The threads have copies of the inputs: one that runs on after an interrupt harms nobody.
    """
    pieces = batch_pieces(batch[0], threads, whole=1) if batch and batch[0] else [slice(None)]
    if len(pieces) == 1:
        results, failures = evaluate(program, arrays, batch)
        return results, status_of(failures, batch)
    whole = program.widened({n: a.copy() for n, a in arrays.items()}, batch)
    parts: list[Any] = [None] * len(pieces)

    def part(i: int) -> None:
        piece, mine = pieces[i], (pieces[i].stop - pieces[i].start, *batch[1:])
        own = {**arrays, **{n: a[piece] for n, a in whole.items()}}
        results, failures = evaluate(program, own, mine)
        parts[i] = results, status_of(failures, mine)

    run_together([lambda i=i: part(i) for i in range(len(parts))])
    found = [_join([p[0][i] for p in parts]) for i in range(len(parts[0][0]))]
    return found, np.concatenate([p[1] for p in parts])


def _join(pieces: list[Any]) -> Any:
    if isinstance(pieces[0], tuple):
        return tuple(np.concatenate(part) for part in zip(*pieces, strict=True))
    return np.concatenate(pieces)


def evaluate(
    program: SweepProgram, arrays: Arrays, batch: tuple[int, ...]
) -> tuple[list[Any], list[Failure]]:
    """The results, and what went wrong."""
    dtype = result_dtype(list(arrays.values()))
    inputs = {n: a if n == "columns" else a.astype(dtype, copy=False) for n, a in arrays.items()}
    run = Run(program.steps, program.model, program.points, inputs, batch, dtype)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        values = run.run()
    results = program.pick(
        [write_result(program, r, values, batch, dtype) for r in program.lowered.results]
    )
    return results, [*run.failures, *_not_finite(results, run.failures, batch)]


def write_result(
    program: SweepProgram, r: Result, values: dict[Any, Any], batch: tuple[int, ...], dtype: Any
) -> Any:
    """One result in the layout that callers get, from the values of the fields."""
    model, points = program.model, program.points
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
        return np.array(np.broadcast_to(value, (*batch, *value.shape[-2:])))
    flip = r.layout == "matrix of adjoint"
    space = r.takes.dual if flip else r.gives
    tall = layout.write_vector(value, space, model, points, batch, dtype, columns=True)
    rows = layout.space_size(space, model, points)
    matrix = tall.reshape(*batch, rows, tall.shape[-1])
    return np.swapaxes(matrix, -1, -2).copy() if flip else matrix


def _not_finite(
    results: list[Any], failures: list[Failure], batch: tuple[int, ...]
) -> list[Failure]:
    bad = np.zeros(batch, dtype=bool)
    for a in flat(results):
        if a.dtype != object:
            bad |= ~np.isfinite(a).all(axis=tuple(range(len(batch), a.ndim)))
    for f in failures:
        bad &= ~f.mask
    return [Failure(NOT_FINITE, -1, "result", bad, bad)] if bad.any() else []


def error_at(
    program: SweepProgram, arrays: Arrays, batch: tuple[int, ...], status: Array
) -> Exception:
    """The error of the first failing element, with the numbers of this backend."""
    index = tuple(int(i) for i in np.argwhere(status)[0])
    one = {n: a[index] for n, a in program.widened(arrays, batch).items()}
    if "columns" in arrays:
        one["columns"] = arrays["columns"]
    with np.errstate(all="ignore"):  # what comes next says more
        _, failures = evaluate(program, one, ())
    failures = [f for f in failures if f.code != DOUBTFUL]
    lost = -1 if "q" not in one else joint_without_pose(program.model, one["q"])
    if lost >= 0 or (failures and not finite(failures[0].value).all()):
        bad = np.ones((), dtype=bool)
        failures = [Failure(NOT_FINITE, lost, "result", bad, bad)]
    if not failures:  # backends round differently, and doubts are settled: this is the verdict
        code, body = int(status[index]) % 8, int(status[index]) // 8 - 1
        unknown, closures = np.full((1, 1), np.nan), program.closures
        what = closures.row_names[body] if closures and code == CONTRADICTION else "D"
        failures = [Failure(code, body, what, np.ones((), dtype=bool), unknown)]
    first = failures[0]
    mask = np.zeros(batch, dtype=bool)
    mask[index] = True
    value = np.broadcast_to(first.value, (*batch, *first.value.shape))
    scale = first.scale
    scale = None if scale is None else np.broadcast_to(scale, (*batch, *scale.shape))
    failure = Failure(first.code, first.body, first.what, mask, value, scale)
    return error_of(failure, program.model, program.closures)
