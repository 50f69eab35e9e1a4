"""A `Machine` runs an algorithm that is written once: on NumPy arrays, or as code of SIMD lanes.

A *lane* is one problem of a batch. A `Number` is one double per lane, a `Mask` one boolean per
lane, an `Index` an integer that all lanes share, a `Memory` an array of numbers. Bodies of loops
are decorated functions:

    @m.each(0, n)
    def _(i: Index) -> None:
        y[i] = m.fma(length.value, d[i], y[i])

Rules; `ArrayMachine(strict=True)` finds what breaks them:

1. Stores obey masks: inside `when` and `while_any`, memory changes in the lanes of the mask only. A
   lane that is done is left alone, so its bits do not depend on its neighbours, and the algorithm
   has no selects for it. Memory with ``kept=False`` is scratch: it ignores masks, which saves a
   load and a select per store. What a round writes into scratch is lost when the round ends.
2. Bodies of `while_any` read memory, not numbers from outside: the array machine continues with
   copies of the remaining lanes.
3. Bodies of `each` do not read what other iterations write, and its bounds are not indices of an
   outer `each`: the array machine computes all iterations at once.
4. Memory is uninitialised before something is stored: on arrays it begins as NaN.
5. A lane that has failed is finished: no `while_any` continues in it.

Without fma, lanes and ``ArrayMachine(exact=True)`` are bitwise identical, except for elementary
functions of NumPy. Reasons: docs/decisions/0068.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, final

from phipsi.core.arrays import Array, GraphEvaluator

Body = Callable[["Index"], None]
Entry = Callable[["Index", "Index"], "Number"]
Pair = tuple["Number | float", "Number | float"]


class Number(Protocol):
    """One double per lane."""

    def __add__(self, other: Number | float, /) -> Number: ...
    def __radd__(self, other: Number | float, /) -> Number: ...
    def __sub__(self, other: Number | float, /) -> Number: ...
    def __rsub__(self, other: Number | float, /) -> Number: ...
    def __mul__(self, other: Number | float, /) -> Number: ...
    def __rmul__(self, other: Number | float, /) -> Number: ...
    def __truediv__(self, other: Number | float, /) -> Number: ...
    def __rtruediv__(self, other: Number | float, /) -> Number: ...
    def __neg__(self) -> Number: ...
    def __lt__(self, other: Number | float, /) -> Mask: ...
    def __le__(self, other: Number | float, /) -> Mask: ...
    def __gt__(self, other: Number | float, /) -> Mask: ...
    def __ge__(self, other: Number | float, /) -> Mask: ...


class Mask(Protocol):
    """One boolean per lane; comparisons with NaN are false."""

    def __and__(self, other: Mask, /) -> Mask: ...
    def __or__(self, other: Mask, /) -> Mask: ...
    def __invert__(self) -> Mask: ...


if TYPE_CHECKING:

    class Index(Protocol):
        """An integer that all lanes share: of Python, or of the code."""

        def __add__(self, other: Index | int, /) -> Index: ...
        def __radd__(self, other: Index | int, /) -> Index: ...
        def __sub__(self, other: Index | int, /) -> Index: ...
        def __rsub__(self, other: Index | int, /) -> Index: ...
        def __mul__(self, other: Index | int, /) -> Index: ...
        def __rmul__(self, other: Index | int, /) -> Index: ...
        def __mod__(self, other: int, /) -> Index: ...
        def __floordiv__(self, other: int, /) -> Index: ...

else:
    Index = int

Place = Index | int | tuple[Index | int, ...]
"""Where a number is in a memory."""


class Memory(ABC):
    """An array of numbers. ``x[i, j]`` reads one, ``x[i, j] = y`` stores one."""

    shape: tuple[Any, ...]

    @abstractmethod
    def __getitem__(self, index: Place) -> Number: ...

    @abstractmethod
    def __setitem__(self, index: Place, value: Number | float) -> None: ...

    @property
    def value(self) -> Number:
        """The number of an array of shape ()."""
        return self[()]

    @value.setter
    def value(self, x: Number | float) -> None:
        self[()] = x

    @abstractmethod
    def row(self, i: Index | int) -> Memory:
        """The memory of x[i, …]; its address is computed once."""


@final
class RowOf(Memory):
    """Row i of a memory, where addresses cost nothing."""

    def __init__(self, whole: Memory, i: Index | int) -> None:
        self._whole, self._i, self.shape = whole, i, whole.shape[1:]

    def _index(self, index: Place) -> tuple[Index | int, ...]:
        return (self._i, *index) if isinstance(index, tuple) else (self._i, index)

    def __getitem__(self, index: Place) -> Number:
        return self._whole[self._index(index)]

    def __setitem__(self, index: Place, value: Number | float) -> None:
        self._whole[self._index(index)] = value

    def row(self, i: Index | int) -> Memory:
        """See `Memory`."""
        return RowOf(self, i)


class Words(ABC):
    """Integers that all lanes share, and that do not change; ``words[i]`` reads one.

    They say how a problem is laid out: first rows, kinds of contacts, profiles of matrices.
    """

    @abstractmethod
    def __getitem__(self, index: Index | int) -> Index: ...


class Candidate(NamedTuple):
    """What `first_largest` chooses from: a score, what comes with it, and where it counts."""

    score: Number
    values: Sequence[Number]
    counts: Mask | None = None


class Item(NamedTuple):
    """So many numbers of a memory, those of the item with this number, as an input of a graph."""

    memory: Memory
    number: Index
    size: int


Given = Mapping[str, Sequence["Number"] | Memory | Item]
Values = Callable[[GraphEvaluator], Sequence[Sequence["Number"]]]


class Machine(ABC):
    """What an algorithm may do; see the module."""

    mask: Mask | None = None  # lanes whose memory may change; None for all

    # ---- memory

    @abstractmethod
    def array(self, *shape: Index | int, kept: bool = True) -> Memory:
        """New memory, whose size may be known at run time only; `kept=False`: scratch, rule 1."""

    @abstractmethod
    def words(self, values: Sequence[int]) -> Words:
        """Integers that are known when the text is written."""

    @abstractmethod
    def constants(self, x: Array) -> Memory:
        """Numbers that are known when the text is written, the same in all lanes."""

    @abstractmethod
    def gathered(self, x: Memory, place: Number, steps: Sequence[int]) -> list[Number]:
        """Constants of a matrix, at `steps` behind a place in it that differs from lane to lane.

        Places are counted row by row; they are integers within the matrix.
        """

    # ---- control

    @abstractmethod
    def loop(self, first: Index | int, end: Index | int, step: int = 1) -> Callable[[Body], None]:
        """For i in range(first, end, step), in order: body(i)."""

    @abstractmethod
    def each(self, first: Index | int, end: Index | int, step: int = 1) -> Callable[[Body], None]:
        """The same in any order; the array machine does all turns at once."""

    @abstractmethod
    def pairs(self, n: int) -> Callable[[Callable[[Index, Index], None]], None]:
        """For all j ≤ i < n, in any order: body(i, j), which stores what is symmetric in i and j.

        The array machine does all pairs at once, also those with j > i.
        """

    @abstractmethod
    def each_case(
        self, count: Index | int, cases: int, table: Words
    ) -> Callable[[Callable[[int, Index, Index], None]], None]:
        """For i in range(count), in any order: body(case, i, first).

        `table` has two words for each i, which of `cases` it is and any other number, `first`. The
        body is called, or written, once for every case; what depends on the case is Python.
        """

    @abstractmethod
    def while_any(self, condition: Callable[[], Mask], most: Index | int) -> Callable[[Body], None]:
        """While condition() has lanes, in those: body(turn); at most so many turns."""

    @abstractmethod
    def when(
        self, mask: Mask, otherwise: Callable[[], None] | None = None
    ) -> Callable[[Callable[[], None]], None]:
        """In these lanes: body(); if there are none, otherwise()."""

    # ---- reductions

    @abstractmethod
    def fold(
        self,
        first: Index | int,
        end: Index | int,
        starts: Sequence[Number | float],
        body: Callable[[Index, Sequence[Number]], Sequence[Number]],
    ) -> list[Number]:
        """For i in range(first, end), in order: numbers = body(i, numbers); the last ones."""

    def first_largest(
        self,
        first: Index | int,
        end: Index | int,
        candidates: Callable[[Index], Sequence[Candidate]],
        starts: Sequence[Sequence[Number | float]],
    ) -> list[list[Number]]:
        """Of each of candidates(i), the first with the largest score, as [score, *values].

        `starts` has the same numbers: they stand where no score that counts is larger. Scores that
        are NaN are not.
        """
        sizes = [len(x) for x in starts]

        def choose(i: Index, numbers: Sequence[Number]) -> list[Number]:
            out, old = list[Number](), iter(numbers)
            for (score, values, counts), size in zip(candidates(i), sizes, strict=True):
                best = [next(old) for _ in range(size)]
                better = score > best[0]
                better = better if counts is None else counts & better
                both = zip([score, *values], best, strict=True)
                out += [self.where(better, x, y) for x, y in both]
            return out

        found = iter(self.fold(first, end, [x for start in starts for x in start], choose))
        return [[next(found) for _ in range(size)] for size in sizes]

    @abstractmethod
    def sums(
        self,
        first: Index | int,
        end: Index | int,
        terms: Callable[[Index], Sequence[Pair]],
        starts: Sequence[Number | float],
    ) -> list[Number]:
        """Starts + Σ x y in the order of the index, of the pairs (x, y) in terms(i)."""

    @abstractmethod
    def largest(
        self,
        first: Index | int,
        end: Index | int,
        term: Callable[[Index], Number],
        start: float = 0.0,
    ) -> Number:
        """The largest term(i), at least `start`; terms that are NaN do not count."""

    @abstractmethod
    def least(
        self,
        first: Index | int,
        end: Index | int,
        term: Callable[[Index], Number],
        start: float = math.inf,
    ) -> Number:
        """The least term(i), at most `start`; NaN if a term is NaN."""

    @abstractmethod
    def count(self, x: Number) -> Index:
        """The largest x ≥ 0 of the lanes of the mask as an index: a bound known at run time."""

    # ---- numbers

    @abstractmethod
    def fma(self, x: Number | float, y: Number | float, z: Number | float) -> Number:
        """Return x y + z, rounded once where the machine can."""

    @abstractmethod
    def where(self, mask: Mask, x: Number | float, y: Number | float) -> Number:
        """Return x in the lanes of the mask, y in the others."""

    @abstractmethod
    def equal(self, x: Number, y: Number | float) -> Mask:
        """Where two numbers are equal."""

    @abstractmethod
    def at_least(self, i: Index | int, least: int) -> Mask:
        """Whether an index is at least so large, in every lane."""

    @abstractmethod
    def same(self, i: Index | int, j: Index | int) -> Mask:
        """Whether two indices are equal, in every lane."""

    @abstractmethod
    def to_number(self, i: Index | int) -> Number:
        """An index as a number."""

    @abstractmethod
    def sqrt(self, x: Number) -> Number:
        """Square root."""

    @abstractmethod
    def abs(self, x: Number) -> Number:
        """Absolute value."""

    @abstractmethod
    def functions(self) -> Any:
        """Functions for formulas of any kind of number (`spatial`); valid until the next branch."""

    @abstractmethod
    def graphs(self, inputs: Given) -> Values:
        """Graphs of `laws` as functions, with these inputs: the entries of all their results.

        What one of them has computed, the next ones do not compute again.
        """

    # ---- linear equations

    @abstractmethod
    def solve_positive(
        self, n: int, off_diagonal: Entry, diagonal: Entry, L: Memory, x: Memory
    ) -> None:
        """Replace x (n,) by the solution of A y = x, with the entries of A for i > j and i = j.

        `L` (n, n) and x are scratch. Where A is not positive definite, x is not of use.
        """

    @abstractmethod
    def invert(self, n: int, A: Memory) -> None:
        """Replace the right half of A (n, 2 n) by the inverse of its left half, which is lost.

        Where there is none, it is not finite.
        """

    @abstractmethod
    def eliminate(self, n: Index | int, J: Memory, d: Memory, ends: Words) -> None:
        """D = J⁻¹ times column n of J (n, n + 1), without pivoting; J becomes its factors.

        n is a multiple of `BLOCK` of `solvers`. `ends` has a word for each block of rows: the first
        row, a multiple of `BLOCK`, from which on the columns of the block are zero, and its rows.
        The diagonal of the factors has the reciprocals of the pivots. J and d are scratch.
        """

    @abstractmethod
    def substitute(self, n: Index | int, J: Memory, d: Memory, lows: Words, ends: Words) -> None:
        """D becomes J⁻¹ d, with the factors that `eliminate` has left in J.

        `lows` is like `ends`: the first column of each block of rows that is not zero.
        """

    # ---- programs and failures

    @abstractmethod
    def call(self, program: Any, inputs: Sequence[Memory], results: Sequence[Memory]) -> None:
        """Call a program; its failures count in the lanes of the mask. Results are scratch."""

    @abstractmethod
    def fail(self, mask: Mask, code: int, part: Index | None = None) -> None:
        """Lanes that have failed, with a code of `failures`; the first failure of a lane counts.

        With `part`, the number of a body or a row, the status names it too.
        """

    @abstractmethod
    def attempt(self, body: Callable[[], None], keeps: Mask) -> Mask:
        """Lanes in which body() fails; failures are forgotten, but for those in `keeps`."""

    # ---- what follows from these

    def number(self, x: Number | float = 0.0) -> Memory:
        """Memory of shape () that holds x."""
        out = self.array()
        out.value = x
        return out

    def larger(self, x: Number, y: Number | float) -> Number:
        """The larger of two numbers; y if one is NaN."""
        return self.where(x > y, x, y)

    def smaller(self, x: Number, y: Number | float) -> Number:
        """The smaller of two numbers; y if one is NaN."""
        return self.where(x < y, x, y)

    def always(self) -> Mask:
        """All lanes."""
        return self.at_least(1, 1)

    def to_flag(self, mask: Mask) -> Number:
        """1 in the lanes of a mask, 0 in the others."""
        return self.where(mask, 1.0, 0.0)

    def raise_flag(self, flag: Memory, mask: Mask) -> None:
        """1 in these lanes; in the others the flag stays."""
        flag.value = self.where(mask, 1.0, flag.value)

    def total(
        self,
        first: Index | int,
        end: Index | int,
        term: Callable[[Index], Pair],
        start: Number | float = 0.0,
    ) -> Number:
        """Return start + Σ x y over the pairs term(i)."""
        return self.sums(first, end, lambda i: [term(i)], [start])[0]

    def add(self, x: Memory, index: tuple[Index | int, ...], value: Number) -> None:
        """Add to x[index]; turns of `each` with the same index do so one after the other."""
        x[index] = x[index] + value

    def copy(self, count: Index | int, source: Memory, target: Memory) -> None:
        """The first numbers of a vector into another."""

        @self.each(0, count)
        def _(i: Index) -> None:
            target[i] = source[i]

    def copy_matrix(self, shape: tuple[int, int], source: Memory, target: Memory) -> None:
        """The numbers of a matrix into another."""

        @self.each(0, shape[0])
        def _(i: Index) -> None:
            @self.each(0, shape[1])
            def _(j: Index) -> None:
                target[i, j] = source[i, j]

    @contextmanager
    def _masked(self, live: Mask | None) -> Generator[None]:
        outer, self.mask = self.mask, live
        try:
            yield
        finally:
            self.mask = outer
