"""The reference backend: plain loops over arrays, for any kind of number.

With `sweeps/operations.py` it defines what every operation means: bodies of operations run on
arrays (`backends/arrays.py`), and here are the loops, the paths of matrices and the solution of
whole systems. Every failure that a program reports is explained with the numbers found here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, final

import numpy as np

from phipsi.core.backends import errors_from_status as fails, rank_limits, storage_layout as layout
from phipsi.core.backends.array_algebra import (
    generic_inverse,
    natural_square,
    result_dtype,
    solve_semidefinite,
)
from phipsi.core.backends.arrays import ArrayArithmetic, flipped, is_nothing
from phipsi.core.backends.backend import Array, Arrays, Backend, Loaded, SweepProgram
from phipsi.core.backends.batch_threads import batch_pieces, run_together
from phipsi.core.backends.errors_from_status import Failure, error_of, status_of
from phipsi.core.backends.options import flat
from phipsi.core.backends.unbatched_arithmetic import UnbatchedArithmetic
from phipsi.core.expressions import space_size
from phipsi.core.model import finite
from phipsi.core.sweeps import Domain, Field, Loop, LoopStep, Result, StepKind, parts_of, space_of


@final
class ReferenceBackend(Backend):
    """Interprets every operation by its definition."""

    name = "reference"
    any_numbers = True

    def load(self, program: SweepProgram) -> Loaded:
        """Nothing is compiled: every call interprets the steps."""

        def run(arrays: Arrays, batch: tuple[int, ...], threads: int) -> tuple[list[Any], Array]:
            return _evaluate_in_threads(program, arrays, batch, threads)

        return Loaded(run)


def _evaluate_in_threads(
    program: SweepProgram, arrays: Arrays, batch: tuple[int, ...], threads: int
) -> tuple[list[Any], Array]:
    """Split the first batch axis; each part is evaluated on its own.

    The threads have copies of the inputs: one that continues after an interrupt does no harm.
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
    """The results, and what went wrong. A batch of one is evaluated as one configuration."""
    dtype = result_dtype(list(arrays.values()))
    if batch and dtype == np.float64 and all(n == 1 for n in batch):
        results, failures = _evaluated(program, _alone(program, arrays), (), dtype)
        return [_in_batch(r, batch) for r in results], [_spread(f, batch) for f in failures]
    return _evaluated(program, arrays, batch, dtype)


def _evaluated(
    program: SweepProgram, arrays: Arrays, batch: tuple[int, ...], dtype: np.dtype[Any]
) -> tuple[list[Any], list[Failure]]:
    inputs = {n: a if n == "columns" else a.astype(dtype, copy=False) for n, a in arrays.items()}
    run = Interpreter(program, inputs, batch, dtype)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        values = run.run()
    results = program.pick(
        [write_result(program, r, values, batch, dtype) for r in program.lowered.results]
    )
    return results, [*run.failures, *_not_finite(results, run.failures, batch)]


def _alone(program: SweepProgram, arrays: Arrays) -> Arrays:
    """The inputs without the axes of the batch, each of which has length one."""
    shapes = program.input_shapes
    alone = {n: arrays[n] for n in program.inputs}
    out = {n: a.reshape(a.shape[a.ndim - len(shapes[n]) :]) for n, a in alone.items()}
    return {**arrays, **out}


def _in_batch(value: Array | tuple[Array, ...] | None, batch: tuple[int, ...]) -> Any:
    """An array, or several, with axes of length one in front."""
    if isinstance(value, tuple):
        return tuple(_in_batch(a, batch) for a in value)
    return None if value is None else value.reshape(*batch, *value.shape)


def _spread(f: Failure, batch: tuple[int, ...]) -> Failure:
    """The failure of one configuration as that of a batch of one."""
    mask, value, scale = (_in_batch(a, batch) for a in (f.mask, f.value, f.scale))
    return Failure(f.code, f.body, f.what, mask, value, scale)


def write_result(
    program: SweepProgram, r: Result, values: dict[Any, Any], batch: tuple[int, ...], dtype: Any
) -> Any:
    """One result in the layout that callers get, from the values of the fields."""
    model, points = program.model, program.points
    value = values[r.field]
    if r.layout == "poses":
        return layout.write_poses(value, batch, dtype)
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
    rest = model, points, batch, dtype
    tall = layout.write_vector(value, space, *rest, columns=True, whole=True)
    rows = space_size(space, model, points)
    matrix = tall.reshape(*batch, rows, tall.shape[-1])
    return np.swapaxes(matrix, -1, -2).copy() if flip else matrix


def _not_finite(
    results: list[Any], failures: list[Failure], batch: tuple[int, ...]
) -> list[Failure]:
    bad = np.zeros(batch, dtype=bool)
    for a in flat(results):
        if a.dtype != object and not np.isfinite(a).all():
            bad |= ~np.isfinite(a).all(axis=tuple(range(len(batch), a.ndim)))
    for f in failures:
        bad &= ~f.mask
    return [Failure(fails.NOT_FINITE, -1, "result", bad, bad)] if bad.any() else []


def error_at(
    program: SweepProgram, arrays: Arrays, batch: tuple[int, ...], status: Array
) -> Exception:
    """The error of the first failing element, with the numbers of this backend.

    The status is explained by what fails here too; `error_of` of `backends/errors_from_status.py`
    words it.
    """
    index = tuple(int(i) for i in np.argwhere(status)[0])
    one = {n: a[index] for n, a in program.widened(arrays, batch).items()}
    if "columns" in arrays:
        one["columns"] = arrays["columns"]
    with np.errstate(all="ignore"):  # what comes next says more
        _, failures = evaluate(program, one, ())
    failures = [f for f in failures if f.code != fails.DOUBTFUL]
    lost = -1 if "q" not in one else fails.joint_without_pose(program.model, one["q"])
    if lost >= 0 or (failures and not finite(failures[0].value).all()):
        bad = np.ones((), dtype=bool)
        failures = [Failure(fails.NOT_FINITE, lost, "result", bad, bad)]
    if not failures:  # backends round differently, and doubts are settled: this is the verdict
        code, body = int(status[index]) % 8, int(status[index]) // 8 - 1
        unknown, closures = np.full((1, 1), np.nan), program.closures
        what = closures.row_names[body] if closures and code == fails.CONTRADICTION else "D"
        failures = [Failure(code, body, what, np.ones((), dtype=bool), unknown)]
    first = failures[0]
    mask = np.zeros(batch, dtype=bool)
    mask[index] = True
    value = np.broadcast_to(first.value, (*batch, *first.value.shape))
    scale = first.scale
    scale = None if scale is None else np.broadcast_to(scale, (*batch, *scale.shape))
    failure = Failure(first.code, first.body, first.what, mask, value, scale)
    return error_of(failure, program.model, program.closures, one.get("q"))


# ---- one evaluation ------------------------------------------------------------------------------


class CurrentBlock:
    """A field whose block is needed at the body being visited only: one block, not a list."""

    __slots__ = ("block",)
    block: Any

    def __getitem__(self, k: int) -> Any:
        return self.block

    def __setitem__(self, k: int, block: Any) -> None:
        self.block = block


class Interpreter:
    """One evaluation of the steps of a program."""

    def __init__(
        self,
        program: SweepProgram,
        inputs: Mapping[str, Array],
        batch: tuple[int, ...],
        dtype: np.dtype[Any],
    ) -> None:
        self.steps, self.path_seeds = program.steps, program.path_seeds
        self.model, self.points = model, points = program.model, program.points
        self.batch, self.dtype = batch, dtype
        one = dtype == np.float64 and not batch
        arithmetic = UnbatchedArithmetic if one else ArrayArithmetic
        self.here = arithmetic(model, points, inputs, batch, dtype)
        self.values, self.failures = self.here.values, self.here.failures
        self.closures = self.here.closures
        self.link_sizes: dict[Field, list[Any]] = {}  # of pairs of links
        self.row_sizes: dict[Field, Array] = {}  # of matrices between rows
        on = points.body
        self.seeds: dict[str, list[int]] = {  # the bodies at which paths start
            "points": list(on),
            "links": [on[p] for p in self.closures.link_point],
            "bodies": list(range(model.n_bodies)),
        }
        self.counts = {
            Domain.BODY: model.n_bodies,
            Domain.POINT: len(points),
            Domain.ROW: self.closures.n_rows,
            Domain.LINK: len(self.closures.link_row),
        }

    def run(self) -> dict[Field, Any]:
        """Evaluate all steps; `values[field]` is one array per body or point, or one in all."""
        loops = {
            StepKind.PATH: self._run_paths,
            StepKind.PAIRS: self._run_whole,
            StepKind.SMALL: self._run_whole,
        }
        for step in self.steps:
            loops.get(step.kind, self._run_loop)(step)
            for x in step.last_used:
                self.values.pop(x, None)
        return self.values

    def _run_loop(self, step: LoopStep) -> None:
        """All fields at every body, point, link or row."""
        here, values = self.here, self.values
        for x in step.fields:
            if x in step.local and self.batch:
                values[x] = CurrentBlock()
            elif x.operation.runs is not Loop.SUMMANDS:
                values[x] = [None] * self.counts[x.type.domain]
            elif x.type.domain is Domain.WORLD:
                values[x] = here.zeros(x, -1)
            else:
                values[x] = [here.zeros(x, k) for k in range(self.counts[x.type.domain])]
        rows: list[tuple[Field, Any, Any]] = [
            (x, None if x.operation.runs is Loop.SUMMANDS else here.computed(x), values[x])
            for x in step.fields
        ]
        order: Any = range(self.counts[step.domain])
        for k in reversed(order) if step.kind is StepKind.TIP_TO_BASE else order:
            here.k = k
            for x, computed, blocks in rows:
                if computed is None:
                    self._add(x, k)
                else:
                    blocks[k] = computed(x)

    def _add(self, x: Field, k: int) -> None:
        """Add the summand at k to where it belongs."""
        term = self.here.value(x.args[0])
        if x.type.domain is Domain.WORLD:
            self.values[x] = self.values[x] + term
            return
        place = {
            Domain.BODY: self.points.body,
            Domain.POINT: self.closures.link_point,
            Domain.ROW: self.closures.link_row,
        }[x.type.domain][k]
        if place >= 0:
            self.values[x][place] = self.values[x][place] + term

    def _run_whole(self, step: LoopStep) -> None:
        """What is computed from all blocks at once, or once."""
        self.here.k = 0
        for x in step.fields:
            whole = x.operation.elsewhere
            self.values[x] = (getattr(self, "_" + x.op) if whole else self.here.computed(x))(x)

    # -- paths and pairs ---------------------------------------------------------------------------

    def _run_paths(self, step: LoopStep) -> None:
        """For every seed, the equations along the path from its body to the root.

        `values[field][seed]` maps the bodies on the path to blocks.
        """
        here = self.here
        here.on_path = True
        kinds = self.path_seeds
        computed = {x: here.computed(x) for x in step.fields}
        for x in step.fields:
            self.values[x] = [{} for _ in self.seeds[kinds[x]]]
        for kind, starts in self.seeds.items():
            fields = [x for x in step.fields if kinds[x] == kind]
            for here.seed, here.start in enumerate(starts):
                here.k, here.previous = here.start, -1
                while fields and here.k >= 0:
                    for x in fields:
                        self.values[x][here.seed][here.k] = computed[x](x)
                    here.previous, here.k = here.k, self.model.parent[here.k]
        here.on_path = False

    def _pair(self, x: Field) -> dict[tuple[int, int], Array]:
        """Products where two paths meet."""
        left, middle, right = (self.values[y] for y in x.args)
        strict: Any = x.data
        starts = [self._starts(x.args[0], strict[0]), self._starts(x.args[2], strict[1])]
        blocks: dict[tuple[int, int], Array] = {}
        for i, a in enumerate(starts[0]):
            for j, b in enumerate(starts[1]):
                c = self.model.tree.nearest_common_ancestor(a, b) if a >= 0 and b >= 0 else -1
                if c >= 0 and not is_nothing(left[i][c]) and not is_nothing(right[j][c]):
                    blocks[i, j] = flipped(left[i][c]) @ middle[c] @ right[j][c]
        if x.args[0] is x.args[2] and self.path_seeds[x.args[0]] == "links":
            at = [(left[i], c) for i, c in enumerate(starts[0])]
            self.link_sizes[x] = [
                natural_square(z[c][..., 0], middle[c]) if c >= 0 else 0 for z, c in at
            ]
        return blocks

    def _gram(self, x: Field) -> dict[tuple[int, int], Array]:
        """Sums over the bodies that two paths have in common."""
        left, right = (self.values[y] for y in x.args)
        out: dict[tuple[int, int], Array] = {}
        for i, a in enumerate(left):
            for j, b in enumerate(right):
                both = [k for k in a if k in b]
                if both:
                    out[i, j] = np.sum([flipped(a[k]) @ b[k] for k in both], axis=0)
        return out

    def _starts(self, x: Field, strict: bool) -> list[int]:
        """Where the path of each seed can first meet another: its body, or the parent of it."""
        bodies = self.seeds[self.path_seeds[x]]
        return [self.model.parent[k] if strict and k >= 0 else k for k in bodies]

    def _matrix(self, x: Field) -> Array:
        """All blocks in one matrix."""
        gives, takes = (space_of(size) for size in (x.type.rows, x.type.cols))
        rows, cols = (layout.space_blocks(s, self.model, self.points) for s in (gives, takes))
        sizes = [space_size(s, self.model, self.points) for s in (gives, takes)]
        out = np.zeros((*self.batch, *sizes), dtype=self.dtype)
        for part, y in parts_of(x):
            c = self.here.number(part.coefficient)
            is_plain = part.coefficient == 1 and not self.here.is_object
            for i, j, block in self._blocks_of(part.how, y):
                if gives.index == "row":
                    i = int(self.closures.link_row[i])
                if takes.index == "row":
                    j = int(self.closures.link_row[j])
                more = block if is_plain else c * block
                out[..., rows[i], cols[j]] = out[..., rows[i], cols[j]] + more
        if gives.index == takes.index == "row":
            self._note_row_sizes(x)
        return out

    def _blocks_of(self, how: str, y: Field) -> Iterator[tuple[int, int, Array]]:
        values = self.values[y]
        if how == "diagonal":
            yield from ((k, k, block) for k, block in enumerate(values))
        elif how == "pairs":
            yield from ((i, j, block) for (i, j), block in values.items())
        else:
            for j, path in enumerate(values):
                for i, block in path.items():
                    if how == "path":
                        yield i, j, block
                    else:
                        yield j, i, flipped(block)

    # -- solutions ---------------------------------------------------------------------------------

    def _stacked(self, blocks: list[Array]) -> Array:
        """The blocks of a vector, one below the other."""
        full = [np.broadcast_to(b, (*self.batch, *b.shape[-2:])) for b in blocks]
        return np.concatenate(full, -2)

    def _assemble(self, x: Field) -> Array:
        rows = self.values[x.args[0]]
        return rows if x.args[0].type.domain is Domain.WORLD else self._stacked(rows)

    def _small_solve(self, x: Field) -> Any:
        a, u = self.values[x.args[0]], self.values[x.args[1]]
        world = x.type.domain is Domain.WORLD
        u = u if world else self._stacked(u)
        if self.dtype != np.float64:
            y = generic_inverse(a) @ u
        else:
            good = np.isfinite(a).all((-2, -1))  # singular values of NaN are an error of NumPy
            ranks = np.linalg.matrix_rank(np.where(good[..., None, None], a, 0.0))
            singular: Any = np.asarray(ranks < a.shape[-1])[..., None, None]
            if singular.any():
                mask = np.broadcast_to(singular[..., 0, 0], self.batch)
                self.failures.append(Failure(fails.SMALL, -1, str(x.data), mask, a))
                a = np.where(singular, np.eye(a.shape[-1]), a)
            y = np.where(singular, np.nan, np.linalg.solve(a, u))
        width = 1 if x.type.domain is Domain.ROW else 6
        return y if world else [y[..., i : i + width, :] for i in range(0, y.shape[-2], width)]

    def _row_solve(self, x: Field) -> list[Array]:
        """A⁻¹ u of a matrix between constraint rows, semidefinite where rows are redundant."""
        a, rows = self.values[x.args[0]], self.values[x.args[1]]
        if not rows:
            return []
        u = self._stacked(rows)
        y, gap = solve_semidefinite(a, u, self.row_sizes.get(x.args[0]))
        if self.dtype == np.float64:
            largest, gap = np.abs(u).max((-2, -1), keepdims=True), np.abs(gap)
            large = gap > rank_limits.ROW_GAP * largest + rank_limits.ROW_GAP_LEAST
            small = (gap > rank_limits.ROW_DOUBT * largest + rank_limits.ROW_DOUBT_LEAST) & ~large
            self._note_rows(np.where(large, gap, 0.0).max(-1), fails.CONTRADICTION)
            self._note_rows(np.where(small, gap, 0.0).max(-1), fails.DOUBTFUL)
        return [y[..., i : i + 1, :] for i in range(len(rows))]

    def _note_rows(self, gap: Array, code: int) -> None:
        """One failure for every row that asks for something else than the others."""
        for i in np.flatnonzero(gap.reshape(-1, gap.shape[-1]).any(0)):
            mask = np.broadcast_to(gap[..., i] > 0, self.batch)
            value = np.broadcast_to(gap[..., i, None, None], (*self.batch, 1, 1))
            self.failures.append(Failure(code, int(i), self.closures.row_names[i], mask, value))

    def _note_row_sizes(self, x: Field) -> None:
        """How large the diagonal of a matrix between rows would be if nothing in it cancelled."""
        if not all(part.how == "pairs" and y in self.link_sizes for part, y in parts_of(x)):
            return
        sizes = np.zeros((*self.batch, self.closures.n_rows), dtype=self.dtype)
        for part, y in parts_of(x):
            for link, size in enumerate(self.link_sizes[y]):
                row = int(self.closures.link_row[link])
                factor = abs(self.here.number(part.coefficient))
                sizes[..., row] = sizes[..., row] + factor * size
        self.row_sizes[x] = sizes
