"""The machine of numbers: one problem, for which arrays of one lane would take longer."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.core.arrays import GraphEvaluator
from phipsi.core.backends import in_order, with_part
from phipsi.core.machine.machine import (
    Body,
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


@final
class NumberMachine(Machine):
    """One lane: a number is a NumPy float, a mask a boolean, memory a list.

    Run it with NumPy's warnings off.

    **Attributes:** `status`, 0 or the code of the first failure.
    """

    mask: Any = None  # a boolean, which the stubs of NumPy do not know as a `Mask`

    def __init__(self) -> None:
        self.status = 0

    # ---- memory

    def input(self, x: Any) -> NumberMemory:
        """An input."""
        return NumberMemory(self, np.shape(x), list(np.ravel(np.asarray(x, dtype=np.float64))))

    def gathered(self, x: Any, place: Any, steps: Sequence[int]) -> list[Any]:
        """See `Machine`."""
        return [x.data[int(place) + step] for step in steps]

    def array(self, *shape: Any, kept: bool = True) -> NumberMemory:
        """New memory, NaN everywhere."""
        return NumberMemory(self, shape, [np.float64(np.nan)] * math.prod(shape))

    def words(self, values: Sequence[int]) -> Any:
        """See `Machine`."""
        return list(values)

    def constants(self, x: Array) -> NumberMemory:
        """See `Machine`."""
        return self.input(x)

    # ---- control

    def loop(self, first: Any, end: Any, step: int = 1) -> Callable[[Body], None]:
        """See `Machine`."""

        def run(body: Any) -> None:
            for i in range(first, end, step):
                body(i)

        return run

    each = loop

    def pairs(self, n: int) -> Callable[[Callable[[Index, Index], None]], None]:
        """See `Machine`."""

        def run(body: Any) -> None:
            for i in range(n):
                for j in range(i + 1):
                    body(i, j)

        return run

    def each_case(
        self, count: Any, cases: int, table: Any
    ) -> Callable[[Callable[[int, Index, Index], None]], None]:
        """See `Machine`."""

        def run(body: Any) -> None:
            for i in range(count):
                body(table[2 * i], i, table[2 * i + 1])

        return run

    def while_any(self, condition: Callable[[], Mask], most: Any) -> Callable[[Body], None]:
        """See `Machine`."""

        def run(body: Any) -> None:
            if self.mask is False:
                return
            for turn in range(most):
                if self.status or not condition():
                    return
                body(turn)

        return run

    def when(
        self, mask: Any, otherwise: Callable[[], None] | None = None
    ) -> Callable[[Callable[[], None]], None]:
        """See `Machine`."""

        def run(body: Callable[[], None]) -> None:
            if mask:
                body()
            elif otherwise is not None:
                otherwise()

        return run

    # ---- reductions

    def sums(
        self,
        first: Any,
        end: Any,
        terms: Callable[[Index], Sequence[Pair]],
        starts: Sequence[Number | float],
    ) -> list[Any]:
        """See `Machine`."""
        totals: list[Any] = [np.float64(x) for x in starts]  # type: ignore[arg-type]
        for i in range(first, end):
            pairs: Any = terms(i)  # type: ignore[arg-type]
            totals = [z + x * y for (x, y), z in zip(pairs, totals, strict=True)]
        return totals

    def largest(self, first: Any, end: Any, term: Callable[[Any], Any], start: float = 0.0) -> Any:
        """See `Machine`."""
        out: Any = np.float64(start)
        for i in range(first, end):
            x = term(i)
            out = x if x > out else out
        return out

    def least(
        self, first: Any, end: Any, term: Callable[[Any], Any], start: float = math.inf
    ) -> Any:
        """See `Machine`."""
        out: Any = np.float64(start)
        for i in range(first, end):
            x = term(i)
            out = x if x < out or x != x else out  # noqa: PLR0124
        return out

    def fold(
        self, first: Any, end: Any, starts: Sequence[Any], body: Callable[[Any, Any], Sequence[Any]]
    ) -> list[Any]:
        """See `Machine`."""
        numbers: Sequence[Any] = [np.float64(x) for x in starts]
        for i in range(first, end):
            numbers = body(i, numbers)
        return list(numbers)

    def count(self, x: Any) -> Any:
        """See `Machine`."""
        return int(x)

    # ---- numbers

    def fma(self, x: Any, y: Any, z: Any) -> Any:
        """See `Machine`."""
        return np.float64(x * y + z)

    def where(self, mask: Any, x: Any, y: Any) -> Any:
        """See `Machine`."""
        return np.float64(x if mask else y)

    def equal(self, x: Any, y: Any) -> Any:
        """See `Machine`."""
        return np.bool_(x == y)

    def at_least(self, i: Any, least: int) -> Any:
        """See `Machine`."""
        return np.bool_(i >= least)

    def same(self, i: Any, j: Any) -> Any:
        """See `Machine`."""
        return np.bool_(i == j)

    def to_number(self, i: Any) -> Any:
        """See `Machine`."""
        return np.float64(i)

    def sqrt(self, x: Any) -> Any:
        """See `Machine`."""
        return np.sqrt(x)

    def abs(self, x: Any) -> Any:
        """See `Machine`."""
        return abs(x)

    def functions(self) -> Any:
        """See `Machine`."""
        return ARRAYS

    def graphs(self, inputs: Given) -> Values:
        """See `Machine`."""

        def values(graph: GraphEvaluator) -> list[Any]:
            given = {
                name: np.reshape(_numbers_of(inputs[name]), shape)
                for name, shape in graph.takes.items()
            }
            return [list(x.ravel()) for x in graph(given)]

        return values

    # ---- linear equations

    def solve_positive(
        self, n: int, off_diagonal: Entry, diagonal: Entry, L: Memory, x: Memory
    ) -> None:
        """See `Machine`."""
        factor_cholesky(self, n, off_diagonal, diagonal, L)
        solve_cholesky(self, n, L, x)

    def invert(self, n: int, A: Any) -> None:
        """See `Machine`; by LAPACK where it can."""
        whole = A.as_array()
        try:
            whole[:, n:] = np.linalg.inv(whole[:, :n])
        except np.linalg.LinAlgError:
            invert_by_elimination(self, n, A)
        else:
            A.fill(whole)

    def eliminate(self, n: Any, J: Memory, d: Memory, ends: Words) -> None:
        """See `Machine`."""
        eliminate_blocks(self, n, J, d, ends)

    def substitute(self, n: Any, J: Memory, d: Memory, lows: Words, ends: Words) -> None:
        """See `Machine`."""
        substitute_blocks(self, n, J, d, lows, ends)

    # ---- programs and failures

    def call(self, program: Any, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        """Call a function of arrays (1, …); what it raises, is raised."""
        found = program(*(x.as_array()[None] for x in inputs))
        for x, to in zip(in_order(found), results, strict=True):
            to.fill(x[0])

    def fail(self, mask: Any, code: int, part: Any = None) -> None:
        """See `Machine`."""
        if mask and not self.status:
            self.status = with_part(code, part)

    def attempt(self, body: Callable[[], None], keeps: Any) -> Any:
        """See `Machine`."""
        before = self.status
        body()
        failed = np.bool_(self.status != before)
        self.status = self.status if keeps else before
        return failed


def _numbers_of(x: Any) -> Any:
    if isinstance(x, Item):
        memory: Any = x.memory
        return memory.as_array().reshape(-1, x.size)[x.number]
    return x.as_array() if isinstance(x, NumberMemory) else x


@final
class NumberMemory(Memory):
    """A list of numbers."""

    def __init__(self, machine: NumberMachine, shape: tuple[int, ...], data: list[Any]) -> None:
        self._machine, self.shape, self.data = machine, shape, data

    def as_array(self) -> Array:
        """The numbers."""
        return np.array(self.data).reshape(self.shape)

    def fill(self, x: Any) -> None:
        """All numbers at once."""
        self.data[:] = list(np.ravel(np.asarray(x, dtype=np.float64)))

    def row(self, i: Any) -> Memory:
        """See `Memory`."""
        return RowOf(self, i)

    def _place(self, index: tuple[Index | int, ...]) -> Any:
        place: Index | int = 0
        for i, size in zip(index, self.shape, strict=True):
            place = place * size + i
        return place

    def __getitem__(self, index: Place) -> Any:
        place: Any = self._place(index) if type(index) is tuple else index
        return self.data[place]

    def __setitem__(self, index: Place, value: Any) -> None:
        place: Any = self._place(index) if type(index) is tuple else index
        self.data[place] = np.float64(value)
