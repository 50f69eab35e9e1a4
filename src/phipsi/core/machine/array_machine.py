"""The machine of arrays: NumPy, eager, all lanes of a batch at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.core.arrays import GraphEvaluator
from phipsi.core.backends import in_order, with_part
from phipsi.core.machine.array_indices import IndexArray, Several, Span, integers_of
from phipsi.core.machine.machine import (
    Body,
    Candidate,
    Entry,
    Given,
    Index,
    Item,
    Machine,
    Mask,
    Memory,
    Number,
    Pair,
    Place,
    RowOf,
    Values,
    Words,
)
from phipsi.core.machine.solvers import (
    eliminate_blocks,
    factor_cholesky,
    invert_by_elimination,
    solve_cholesky,
    substitute_blocks,
)
from phipsi.core.spatial import ARRAYS

Array = NDArray[Any]

_where: Callable[[Any, Any, Any], Array] = np.where
_FEW = 0.7  # with a smaller share of live lanes, rounds go on with copies of them
_SHORT = 4  # sums of so few terms are added one by one


@final
class ArrayMachine(Machine):
    """All lanes at once: they are the last axis of arrays.

    An index of `loop` is an int. That of `each` is a `Span`: it reads a whole slice, and an inner
    one prepends its axis, so that numbers of the outer body broadcast against those of the inner.
    `strict` finds texts that break the rules: rounds always go on with copies, and `each` runs turn
    by turn, in reverse. `exact` solves linear equations with the operations of the code, one after
    the other, and not by LAPACK, so that bits can be compared. `whole` is for texts that call
    functions of all lanes: rounds then never go on with copies.

    **Attributes:** `status` (lanes,), 0 or the code of the first failure.
    """

    mask: Any = None  # an array, which the stubs of NumPy do not know as a `Mask`

    def __init__(
        self, lanes: int, *, strict: bool = False, exact: bool = False, whole: bool = False
    ) -> None:
        self.lanes, self.strict, self.exact = lanes, strict, exact
        self._few = 0.0 if whole else _FEW
        self.status = np.zeros(lanes, dtype=np.int64)
        self._depth = 0
        self._memories: list[ArrayMemory] = []

    # ---- memory

    def input(self, x: Array) -> ArrayMemory:
        """An input (lanes, …)."""
        return self._memory(np.ascontiguousarray(np.moveaxis(x, 0, -1)), is_input=True)

    def shared(self, x: Array) -> ArrayMemory:
        """An input (…) that is the same in all lanes."""
        return self.input(np.broadcast_to(x, (self.lanes, *x.shape)))

    def filled(self, x: Array) -> ArrayMemory:
        """New memory that begins with these numbers (lanes, …)."""
        return self._memory(np.array(np.moveaxis(x, 0, -1), dtype=np.float64, order="C"))

    def gathered(self, x: Any, place: Any, steps: Sequence[int]) -> list[Number]:
        """See `Machine`."""
        numbers, first = x.data.ravel(), place.astype(np.int64)
        return [numbers[first + step] for step in steps]

    def array(self, *shape: Any, kept: bool = True) -> ArrayMemory:
        """New memory, NaN everywhere."""
        return self._memory(np.full((*shape, self.lanes), np.nan), is_kept=kept)

    def words(self, values: Sequence[int]) -> ArrayWords:
        """See `Machine`."""
        return ArrayWords(values)

    def constants(self, x: Array) -> ArrayMemory:
        """See `Machine`."""
        return ArrayMemory(self, np.asarray(x, dtype=np.float64)[..., None], is_input=True)

    def _memory(self, data: Array, **what: bool) -> ArrayMemory:
        self._memories.append(ArrayMemory(self, data, **what))
        return self._memories[-1]

    # ---- control

    def loop(self, first: Any, end: Any, step: int = 1) -> Callable[[Body], None]:
        """See `Machine`."""

        def run(body: Body) -> None:
            for i in range(first, end, step):
                body(i)

        return run

    def each(self, first: Any, end: Any, step: int = 1) -> Callable[[Body], None]:
        """See `Machine`."""

        def run(body: Body) -> None:
            turns = range(first, end, step)
            if self.strict:
                for i in reversed(turns):
                    body(i)
            elif len(turns):
                with self._axis(turns) as span:
                    body(span)

        return run

    def pairs(self, n: int) -> Callable[[Callable[[Index, Index], None]], None]:
        """See `Machine`."""

        def run(body: Callable[[Index, Index], None]) -> None:
            self.each(0, n)(lambda i: self.each(0, n)(lambda j: body(i, j)))

        return run

    def each_case(
        self, count: Any, cases: int, table: Any
    ) -> Callable[[Callable[[int, Index, Index], None]], None]:
        """See `Machine`; all turns at once of a case whose numbers are evenly spaced."""

        def run(body: Callable[[int, Any, Any], None]) -> None:
            for case in range(cases):
                mine = [(i, table[2 * i + 1]) for i in range(count) if table[2 * i] == case]
                if self.strict:
                    for i, first in reversed(mine):
                        body(case, i, first)
                    continue
                for turns, firsts in _evenly_spaced(mine):
                    with self._axis(turns) as i:
                        body(case, i, Span(firsts.start, firsts.step, len(turns), i.axis))

        return run

    @contextmanager
    def _axis(self, turns: range) -> Generator[Any]:
        self._depth += 1
        try:
            yield Span(turns.start, turns.step, len(turns), self._depth - 1)
        finally:
            self._depth -= 1

    def while_any(self, condition: Callable[[], Mask], most: Any) -> Callable[[Body], None]:
        """See `Machine`."""

        def run(body: Body) -> None:
            for turn in range(most):
                live: Any = condition()
                live = live & (self.status == 0)
                live = live if self.mask is None else live & self.mask
                count = np.count_nonzero(live)
                if not count:
                    return
                few = self.strict or count < self._few * self.lanes
                whole = count == self.lanes
                with self._left(live) if few else self._masked(None if whole else live):
                    body(turn)  # type: ignore[arg-type]

        return run

    def when(
        self, mask: Any, otherwise: Callable[[], None] | None = None
    ) -> Callable[[Callable[[], None]], None]:
        """See `Machine`."""

        def run(body: Callable[[], None]) -> None:
            live = mask if self.mask is None else mask & self.mask
            if live.any():
                with self._masked(None if live.all() else live):
                    body()
            elif otherwise is not None:
                otherwise()

        return run

    @contextmanager
    def _left(self, live: Array) -> Generator[None]:
        """Copies of these lanes, written back at the end; scratch that changed is lost."""
        which, before = np.flatnonzero(live), (self.mask, self.lanes, self.status)
        known = [(x, x.data, x.stores) for x in self._memories]
        self.mask, self.lanes, self.status = None, len(which), self.status[which]
        for x, data, _ in known:
            x.data = data.take(which, axis=-1)
        try:
            yield
        finally:
            status, (self.mask, self.lanes, self.status) = self.status, before
            self.status[which] = status
            for x, data, stores in known:
                if x.stores != stores:
                    if x.is_kept:
                        data[..., which] = x.data
                    else:
                        data[...] = np.nan
                x.data = data
            del self._memories[len(known) :]  # made inside: of that many lanes

    # ---- reductions

    def sums(
        self,
        first: Any,
        end: Any,
        terms: Callable[[Index], Sequence[Pair]],
        starts: Sequence[Number | float],
    ) -> list[Number]:
        """See `Machine`."""
        totals: list[Any] = list(starts)
        turns = range(first, end)
        if not len(turns):
            return [self._full(x) for x in totals]
        with self._axis(turns) as span:
            pairs: Any = terms(span)
            for k, (x, y) in enumerate(pairs):
                totals[k] = _added(totals[k], np.asarray(x * y))
        return totals

    def largest(
        self, first: Any, end: Any, term: Callable[[Index], Number], start: float = 0.0
    ) -> Number:
        """See `Machine`."""
        turns = range(first, end)
        if not len(turns):
            return self._full(start)
        with self._axis(turns) as span:
            values: Any = term(span)
            return np.fmax.reduce(values, axis=0, initial=start)

    def least(
        self, first: Any, end: Any, term: Callable[[Index], Number], start: float = math.inf
    ) -> Number:
        """See `Machine`."""
        turns = range(first, end)
        if not len(turns):
            return self._full(start)
        with self._axis(turns) as span:
            values: Any = term(span)
            return np.minimum.reduce(values, axis=0, initial=start)

    def fold(
        self, first: Any, end: Any, starts: Sequence[Any], body: Callable[[Any, Any], Sequence[Any]]
    ) -> list[Any]:
        """See `Machine`."""
        numbers: Sequence[Any] = [self._full(x) for x in starts]
        for i in range(first, end):
            numbers = body(i, numbers)
        return list(numbers)

    def first_largest(
        self,
        first: Any,
        end: Any,
        candidates: Callable[[Index], Sequence[Candidate]],
        starts: Sequence[Sequence[Any]],
    ) -> list[list[Number]]:
        """See `Machine`; all candidates at once."""
        turns = range(first, end)
        if self.strict or not len(turns):
            return super().first_largest(first, end, candidates, starts)
        with self._axis(turns) as span:
            listed: Any = candidates(span)
        out: list[Any] = []
        for (score, values, counts), start in zip(listed, starts, strict=True):
            scores = np.where(np.isnan(score), -np.inf, score)
            scores = scores if counts is None else np.where(counts, scores, -np.inf)
            whole = np.broadcast_arrays(scores, *values)
            which = whole[0].argmax(axis=0)[None]
            found = [np.take_along_axis(x, which, axis=0)[0] for x in whole]
            better = found[0] > start[0]
            out.append([np.where(better, x, y) for x, y in zip(found, start, strict=True)])
        return out

    def count(self, x: Any) -> Any:
        """See `Machine`."""
        return int(np.max(x, initial=0.0, where=True if self.mask is None else self.mask))

    # ---- numbers

    def _full(self, x: Any) -> Any:
        return np.full(self.lanes, x) if isinstance(x, (int, float)) else x

    def fma(self, x: Any, y: Any, z: Any) -> Any:
        """See `Machine`."""
        return self._full(x * y + z)

    def where(self, mask: Any, x: Any, y: Any) -> Any:
        """See `Machine`."""
        return _where(mask, x, y)

    def equal(self, x: Any, y: Any) -> Any:
        """See `Machine`."""
        return x == y

    def at_least(self, i: Any, least: int) -> Any:
        """See `Machine`."""
        return np.full(self.lanes, i >= least)

    def same(self, i: Any, j: Any) -> Any:
        """See `Machine`."""
        i, j = (x.integers()[..., None] if isinstance(x, Several) else x for x in (i, j))
        return np.logical_and(i == j, np.ones(self.lanes, dtype=bool))

    def to_number(self, i: Any) -> Any:
        """See `Machine`."""
        if not isinstance(i, Several):
            return np.full(self.lanes, float(i))
        return i.integers()[..., None].astype(np.float64)

    def sqrt(self, x: Any) -> Any:
        """See `Machine`."""
        return np.sqrt(x)

    def abs(self, x: Any) -> Any:
        """See `Machine`."""
        return np.abs(x)

    def functions(self) -> Any:
        """See `Machine`."""
        return ARRAYS

    def graphs(self, inputs: Given) -> Values:
        """See `Machine`; NumPy computes all of a graph, every time."""

        def values(graph: GraphEvaluator) -> list[Any]:
            given = {name: _batched(inputs[name], shape) for name, shape in graph.takes.items()}
            sizes = [x.size for x in graph.nodes]
            found = zip(graph(given), graph.nodes, sizes, strict=True)
            flat = [y.reshape(*y.shape[: y.ndim - len(x.shape)], size) for y, x, size in found]
            return [[self._lanes(y[..., i]) for i in range(y.shape[-1])] for y in flat]

        return values

    def _lanes(self, x: Array) -> Array:
        return np.broadcast_to(x, (*x.shape[:-1], self.lanes) if x.ndim else (self.lanes,))

    def add(self, x: Any, index: tuple[Any, ...], value: Any) -> None:
        """See `Machine`."""
        if not any(isinstance(i, Several) for i in index):
            super().add(x, index, value)
            return
        key = tuple(map(integers_of, index))
        more = value if self.mask is None or not x.is_kept else np.where(self.mask, value, 0.0)
        np.add.at(x.data, key, np.broadcast_to(more, x.data[key].shape))
        x.stores += 1

    # ---- linear equations

    def solve_positive(
        self, n: int, off_diagonal: Entry, diagonal: Entry, L: Memory, x: Memory
    ) -> None:
        """See `Machine`; by LAPACK, if it need not be exact."""
        if not self.exact and not self.strict:
            with self._axis(range(n)) as i, self._axis(range(n)) as j:
                below: Any = off_diagonal(i, j)
                own: Any = diagonal(i, i)
            A = np.moveaxis(np.broadcast_to(below, (n, n, self.lanes)), -1, 0).copy()
            A[:, np.arange(n), np.arange(n)] = np.reshape(own, (n, self.lanes)).T
            try:
                self._solve_dense(A, x)
            except np.linalg.LinAlgError:  # one is singular: the others keep their solution
                pass
            else:
                return
        factor_cholesky(self, n, off_diagonal, diagonal, L)
        solve_cholesky(self, n, L, x)

    def invert(self, n: int, A: Any) -> None:
        """See `Machine`; by LAPACK, if it need not be exact."""
        if not self.exact and not self.strict:
            left: Array = A.lanes_first()[:, :, :n]
            try:
                found = np.linalg.inv(left) if np.isfinite(left).all() else None
            except np.linalg.LinAlgError:
                found = None
            if found is not None:

                @self.each(0, n)
                def _(i: Index) -> None:
                    @self.each(0, n)
                    def _(j: Any) -> None:
                        A[i, j + n] = found.transpose(2, 1, 0)

                return
        invert_by_elimination(self, n, A)

    @staticmethod
    def _solve_dense(A: Array, x: Any) -> None:
        x.fill(np.linalg.solve(A, x.lanes_first()[..., None])[..., 0])

    def eliminate(self, n: Any, J: Any, d: Any, ends: Words) -> None:
        """See `Machine`; row by row, with the bits of blocks."""
        if self.exact or self.strict:
            eliminate_blocks(self, n, J, d, ends)
            return
        A = J.scratch()
        for k in range(n):
            scale = A[k, k] = 1.0 / A[k, k]
            A[k + 1 :, k] = factors = -(A[k + 1 :, k] * scale)
            A[k + 1 :, k + 1 :] = factors[:, None] * A[k, k + 1 :] + A[k + 1 :, k + 1 :]
        d.scratch()[:n] = A[:, n]
        self._substitute_upper(n, A, d.scratch())

    def substitute(self, n: Any, J: Any, d: Any, lows: Words, ends: Words) -> None:
        """See `Machine`; column by column, with the bits of blocks."""
        if self.exact or self.strict:
            substitute_blocks(self, n, J, d, lows, ends)
            return
        A, x = J.data, d.scratch()
        for k in range(n):
            x[k + 1 : n] = A[k + 1 :, k] * x[k] + x[k + 1 : n]
        self._substitute_upper(n, A, x)

    @staticmethod
    def _substitute_upper(n: int, A: Array, x: Array) -> None:
        for k in reversed(range(n)):
            x[k] = x[k] * A[k, k]
            x[:k] = -A[:k, k] * x[k] + x[:k]

    # ---- programs and failures

    def call(self, program: Any, inputs: Sequence[Memory], results: Sequence[Memory]) -> None:
        """Call a function of arrays (lanes, …); what it raises, is raised."""
        found: Any = program(*(x.lanes_first() for x in inputs))  # type: ignore[attr-defined]
        for x, to in zip(in_order(found), results, strict=True):
            to.fill(x)  # type: ignore[attr-defined]

    def fail(self, mask: Any, code: int, part: Any = None) -> None:
        """See `Machine`."""
        live = mask if self.mask is None else mask & self.mask
        self.status[live & (self.status == 0)] = with_part(code, part)

    def attempt(self, body: Callable[[], None], keeps: Any) -> Any:
        """See `Machine`."""
        before = self.status.copy()
        body()
        failed = self.status != before
        self.status[:] = np.where(keeps, self.status, before)
        return failed


def _batched(x: Sequence[Any] | Memory | Item, shape: tuple[int, ...]) -> Array:
    """An input of a graph (…, lanes, *shape), with an axis for every `each` around it."""
    if isinstance(x, ArrayMemory):
        return np.moveaxis(x.data, -1, 0).reshape(x.data.shape[-1], *shape)
    if not isinstance(x, Item):
        numbers: Any = x
        flat = np.stack(np.broadcast_arrays(*numbers), axis=-1) if numbers else np.zeros((1, 0))
        return flat.reshape(*flat.shape[:-1], *shape)
    memory = x.memory
    assert isinstance(memory, ArrayMemory), "items are of memories"
    data = memory.data
    rows = data.reshape(math.prod(data.shape[:-1]) // x.size, x.size, data.shape[-1])
    found = np.moveaxis(rows[integers_of(x.number)], -1, -2)  # lanes before the numbers
    return found.reshape(*found.shape[:-1], *shape)


def _added(start: Any, products: Array) -> Any:
    """Start + Σ products over the first axis, one after the other: NumPy's sum may add pairs."""
    first = start + products[0]
    if len(products) <= _SHORT or first.shape != products[0].shape:
        for x in products[1:]:
            first = first + x
        return first
    products[0] = first
    return np.add.accumulate(products, axis=0)[-1]


def _evenly_spaced(pairs: Sequence[tuple[int, int]]) -> Iterator[tuple[range, range]]:
    """Pairs as stretches in which both numbers are evenly spaced."""
    begin = 0
    while begin < len(pairs):
        end, step = begin + 1, (1, 1)
        if end < len(pairs):
            step = _less(pairs[end], pairs[begin])
        while end < len(pairs) and _less(pairs[end], pairs[end - 1]) == step:
            end += 1
        (i, first), count = pairs[begin], end - begin
        yield range(i, i + step[0] * count, step[0]), range(first, first + step[1] * count, step[1])
        begin = end


def _less(x: tuple[int, int], y: tuple[int, int]) -> tuple[int, int]:
    return x[0] - y[0], x[1] - y[1]


@final
class ArrayWords(Words):
    """Integers."""

    def __init__(self, words: Sequence[int]) -> None:
        self._words, self._all = list(words), set(words)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, int):
            return self._words[index]
        if isinstance(index, Several):
            return IndexArray(np.array(self._words)[index.integers()])
        assert len(self._all) == 1, "words of many indices at once are equal"
        return self._words[0]


@final
class ArrayMemory(Memory):
    """Numbers (…, lanes). Reads are copies, except those of inputs; `stores` counts stores."""

    def __init__(
        self, machine: ArrayMachine, data: Array, is_kept: bool = True, is_input: bool = False
    ) -> None:
        self._machine, self.data, self.is_kept, self._is_input = machine, data, is_kept, is_input
        self.shape, self.stores = data.shape[:-1], 0

    def lanes_first(self) -> Array:
        """The numbers (lanes, …)."""
        return np.ascontiguousarray(np.moveaxis(self.data, -1, 0))

    def fill(self, x: Array) -> None:
        """Results (lanes, …) of a program; scratch, so without a mask."""
        data = self.scratch()
        data[...] = np.moveaxis(x, 0, -1).reshape(data.shape)

    def scratch(self) -> Array:
        """The numbers (…, lanes) to change all at once, without a mask."""
        assert not self.is_kept, "numbers that are changed without a mask are scratch"
        self.stores += 1
        return self.data

    def row(self, i: Any) -> Memory:
        """See `Memory`."""
        return RowOf(self, i)

    def _place(self, index: Place) -> tuple[Any, list[int] | None]:
        """What to index with, and the axes of what that gives; None where it gives a copy."""
        index = index if isinstance(index, tuple) else (index,)
        assert len(index) == len(self.shape), f"{len(index)} indices of shape {self.shape}"
        axes = [i.axis for i in index if isinstance(i, Span)]
        if len(set(axes)) < len(axes) or any(
            isinstance(i, IndexArray) for i in index
        ):  # a diagonal
            return tuple(map(integers_of, index)), None
        return tuple(i.slice() if isinstance(i, Span) else i for i in index), axes

    def _view(self, key: Any, axes: list[int]) -> Array:
        """Axes of inner loops first, 1 where an axis is missing."""
        view = self.data[key]
        if not axes or axes == [0]:
            return view
        sizes = dict(zip(axes, view.shape, strict=False))
        order = sorted(range(len(axes)), key=lambda k: -axes[k])
        shape = [sizes.get(a, 1) for a in range(max(axes), -1, -1)]
        return view.transpose(*order, len(axes)).reshape(*shape, view.shape[-1])

    def __getitem__(self, index: Place) -> Any:
        key, axes = self._place(index)
        if axes is None:
            return self.data[key]
        view = self._view(key, axes)
        return view if self._is_input else view.copy()

    def __setitem__(self, index: Place, value: Any) -> None:
        assert not self._is_input, "inputs are not changed"
        key, axes = self._place(index)
        mask = self._machine.mask if self.is_kept else None
        self.stores += 1
        if axes is None:
            self.data[key] = value if mask is None else np.where(mask, value, self.data[key])
        elif mask is None and axes in ([], [0]):
            self.data[key] = value
        else:
            view = self._view(key, axes)
            assert np.shares_memory(view, self.data), "a store into a copy"
            np.copyto(view, value, where=True if mask is None else mask)
