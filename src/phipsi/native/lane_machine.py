"""The machine of lanes: writes an algorithm as code, in the language of its module."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Protocol, cast, final

import numpy as np

from phipsi.core.arrays import Array, GraphEvaluator
from phipsi.core.backends import CODES
from phipsi.core.machine import (
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
    Values,
    Words,
    eliminate_blocks,
    factor_cholesky,
    invert_by_elimination,
    solve_cholesky,
    substitute_blocks,
)
from phipsi.native.kernel.entry_code import LaneNumbers
from phipsi.native.kernel.law_code import SMALL, Area, LawCode, Value
from phipsi.native.lane_values import (
    Entries,
    GraphValue,
    LaneConstants,
    LaneIndex,
    integer_of,
    place_of,
)
from phipsi.native.text import llvm_text as ir
from phipsi.native.text.lane_arithmetic import (
    I32,
    I64,
    Emitter,
    Lane,
    LaneMask,
    fold_loop,
    i64,
    write_cases,
    write_rounds,
)


class LaneHost(Protocol):
    """What a machine of lanes needs of the kernel that it writes a part of."""

    @property
    def b(self) -> ir.IRBuilder:
        """The builder."""
        ...

    @property
    def e(self) -> Emitter:
        """The emitter."""
        ...

    @property
    def bad(self) -> ir.IRValue:
        """The status of every lane so far."""
        ...

    @property
    def fine(self) -> ir.IRValue:
        """The lanes that have not failed."""
        ...

    @property
    def status(self) -> ir.IRValue:
        """What the last call of a program reported, by lane."""
        ...

    def area(self, size: Any, /) -> ir.IRValue:
        """Working memory for so many numbers of every lane."""
        ...

    def note(self, status: ir.IRValue, /) -> None:
        """Keep the first failure of every lane."""
        ...

    def set_bad(self, status: ir.IRValue, /) -> None:
        """The status of every lane becomes this."""
        ...

    def call_into(self, native: Any, args: Sequence[Area], results: Sequence[Area], /) -> None:
        """Call the kernel of a program with results in these places."""
        ...


_WORD = 8  # bytes of an integer of `LaneWords`
_UNROLLED = 24  # terms of sums that are written out
_LONG = 64  # constants that inputs of graphs are not read ahead of, such as those of meshes


@final
class LaneMachine(Machine):
    """Writes code where the emitter of a kernel is; the kernel gives memory and calls programs."""

    def __init__(self, kernel: LaneHost, calls: Any = None) -> None:
        """`calls` is what calls in graphs are written with, if there are any."""
        self.kernel, self.e, self.b, self._calls = kernel, kernel.e, kernel.b, calls

    # ---- memory

    def memory(self, area: Area, *shape: Index | int) -> LaneMemory:
        """Existing memory, such as an input or a result of a kernel."""
        assert area.is_whole, "numbers of every lane, one after the other"
        return LaneMemory(self, area.base, shape, True)

    def array(self, *shape: Index | int, kept: bool = True) -> LaneMemory:
        """See `Machine`."""
        # LLVM keeps a single number in a register where it can
        base = self.kernel.area(_product(shape)) if shape else self.b.alloca(self.e.vector)
        return LaneMemory(self, base, shape, kept)

    def words(self, values: Sequence[int]) -> LaneWords:
        """See `Machine`; a table of the module."""
        return LaneWords(self.b, self.b.module.table_of(np.array(list(values) or [0], np.int64)))

    def constants(self, x: Array) -> LaneConstants:
        """See `Machine`; a table of the module."""
        table = self.b.module.table_of(np.asarray(x, dtype=self.e.number.dtype))
        return LaneConstants(self.e, table, x.shape)

    def gathered(self, x: Memory, place: Number, steps: Sequence[int]) -> list[Number]:
        """See `Machine`; lane by lane."""
        b, e, where = self.b, self.e, self.e.lift(place).value
        assert isinstance(x, LaneConstants), "places are in constants"
        found = [e.constant(0.0).value] * len(steps)
        for lane in range(e.lanes):
            at = ir.IRConstant(I32, lane)
            start = LaneIndex(b, b.fptosi(b.extract_element(where, at), I64))
            for k, step in enumerate(steps):
                number = e.load_one(x.at(start + step))
                found[k] = b.insert_element(found[k], number, at)
        return [Lane(e, y) for y in found]

    # ---- control

    def loop(self, first: Index | int, end: Index | int, step: int = 1) -> Callable[[Body], None]:
        """See `Machine`."""

        def write(body: Body) -> None:
            def turn(i: Index, _: Sequence[Number]) -> Sequence[Number]:
                body(i)
                return []

            self._turns(first, end, turn, [], step)

        return write

    each = loop

    def _turns(
        self,
        first: Index | int,
        end: Index | int,
        body: Callable[[Index, Sequence[Number]], Sequence[Number]],
        starts: Sequence[Number | float],
        step: int = 1,
    ) -> list[Number]:
        """For i in range(first, end, step): numbers = body(i, numbers); the last ones."""
        b, start = self.b, integer_of(first)

        def turn(i: ir.IRValue, values: list[ir.IRValue]) -> list[ir.IRValue]:
            at = LaneIndex(b, i if first == 0 else b.add(start, i))
            numbers = [Lane(self.e, x) for x in values]
            return [self.e.lift(x).value for x in body(at, numbers)]

        values = [self.e.lift(x).value for x in starts]
        count = integer_of(end) if first == 0 else _difference(b, end, first)
        return [Lane(self.e, x) for x in fold_loop(b, count, step, values, turn)]

    def pairs(self, n: int) -> Callable[[Callable[[Index, Index], None]], None]:
        """See `Machine`."""

        def write(body: Callable[[Index, Index], None]) -> None:
            self.loop(0, n)(lambda i: self.loop(0, i + 1)(lambda j: body(i, j)))

        return write

    def each_case(
        self, count: Index | int, cases: int, table: Words
    ) -> Callable[[Callable[[int, Index, Index], None]], None]:
        """See `Machine`."""

        def write(body: Callable[[int, Index, Index], None]) -> None:
            def one(i: Index) -> None:
                case = table[i * 2]
                first = table[i * 2 + 1]
                if cases == 1:
                    body(0, i, first)
                else:
                    write_cases(self.b, integer_of(case), cases, lambda j: body(j, i, first))

            self.loop(0, count)(one)

        return write

    def while_any(self, condition: Callable[[], Mask], most: Index | int) -> Callable[[Body], None]:
        """See `Machine`."""

        def write(body: Body) -> None:
            live: list[LaneMask] = []

            def goes_on() -> ir.IRValue:
                live.append(self._also(self._also_fine(condition())))
                return self.any(live[0])

            def turn(i: ir.IRValue) -> None:
                with self._masked(live[0]):
                    body(LaneIndex(self.b, i))

            write_rounds(self.b, integer_of(most), goes_on, turn)

        return write

    def when(
        self, mask: Mask, otherwise: Callable[[], None] | None = None
    ) -> Callable[[Callable[[], None]], None]:
        """See `Machine`."""

        def write(body: Callable[[], None]) -> None:
            live = self._also(mask)
            if otherwise is None:
                with self.b.if_then(self.any(live)), self._masked(live):
                    body()
                return
            with self.b.if_else(self.any(live)) as (some, none):
                with some, self._masked(live):
                    body()
                with none:
                    otherwise()

        return write

    def _also(self, mask: Mask) -> LaneMask:
        return _of_lanes(mask if self.mask is None else mask & self.mask)

    def _also_fine(self, mask: Mask) -> LaneMask:
        """The lanes of a mask that have not failed."""
        return _of_lanes(mask) & LaneMask(self.e, self.kernel.fine)

    def any(self, mask: LaneMask) -> ir.IRValue:
        """Whether a mask holds in some lane, as a bit of the code."""
        if self.e.lanes == 1:
            return mask.bits
        width = ir.IntType(self.e.lanes)
        return self.b.icmp_unsigned("!=", self.b.bitcast(mask.bits, width), ir.IRConstant(width, 0))

    # ---- reductions

    def sums(
        self,
        first: Index | int,
        end: Index | int,
        terms: Callable[[Index], Sequence[Pair]],
        starts: Sequence[Number | float],
    ) -> list[Number]:
        """See `Machine`; short sums are written out."""

        def more(i: Index, totals: Sequence[Number]) -> Sequence[Number]:
            pairs = zip(terms(i), totals, strict=True)
            return [self.e.lift(x).times_plus(y, z) for (x, y), z in pairs]

        if isinstance(first, int) and isinstance(end, int) and end - first <= _UNROLLED:
            totals: Sequence[Number] = [self.e.lift(x) for x in starts]
            for i in range(first, end):
                totals = more(_known(i), totals)
            return list(totals)
        return self._turns(first, end, more, starts)

    def largest(
        self,
        first: Index | int,
        end: Index | int,
        term: Callable[[Index], Number],
        start: float = 0.0,
    ) -> Number:
        """See `Machine`."""
        return self._turns(first, end, lambda i, x: [self.larger(term(i), x[0])], [start])[0]

    def least(
        self,
        first: Index | int,
        end: Index | int,
        term: Callable[[Index], Number],
        start: float = math.inf,
    ) -> Number:
        """See `Machine`."""

        def lesser(i: Index, least: Sequence[Number]) -> list[Number]:
            x = term(i)
            return [self.where((x < least[0]) | ~self.equal(x, x), x, least[0])]

        return self._turns(first, end, lesser, [start])[0]

    def fold(
        self,
        first: Index | int,
        end: Index | int,
        starts: Sequence[Number | float],
        body: Callable[[Index, Sequence[Number]], Sequence[Number]],
    ) -> list[Number]:
        """See `Machine`."""
        return self._turns(first, end, body, starts)

    def count(self, x: Number) -> Index:
        """See `Machine`."""
        b = self.b
        chosen = x if self.mask is None else self.where(self.mask, x, 0.0)
        value = self.e.lift(chosen).value
        every = [b.extract_element(value, ir.IRConstant(I32, i)) for i in range(self.e.lanes)]
        most = reduce(lambda x, y: b.select(b.fcmp_ordered(">", y, x), y, x), every)
        return LaneIndex(b, b.fptosi(most, I64))

    # ---- numbers

    def fma(self, x: Number | float, y: Number | float, z: Number | float) -> Lane:
        """See `Machine`."""
        return self.e.lift(x).times_plus(self.e.lift(y), self.e.lift(z))

    def where(self, mask: Mask, x: Number | float, y: Number | float) -> Lane:
        """See `Machine`."""
        return self.e.select(_of_lanes(mask).bits, x, y)

    def equal(self, x: Number, y: Number | float) -> LaneMask:
        """See `Machine`."""
        return LaneMask(self.e, self.e.compare("==", x, y))

    def at_least(self, i: Index | int, least: int) -> LaneMask:
        """See `Machine`."""
        if isinstance(i, int):
            return self.e.constant(float(i >= least)) > 0.0
        return self._everywhere(self.b.icmp_signed(">=", integer_of(i), i64(least)))

    def _everywhere(self, condition: ir.IRValue) -> LaneMask:
        """One condition in every lane."""
        one, zero = (self.e.constant(x).value for x in (1.0, 0.0))
        return Lane(self.e, self.b.select(condition, one, zero)) > 0.0

    def same(self, i: Index | int, j: Index | int) -> LaneMask:
        """See `Machine`."""
        if isinstance(i, int) and isinstance(j, int):
            return self.at_least(1, 1) if i == j else self.at_least(0, 1)
        return self._everywhere(self.b.icmp_signed("==", integer_of(i), integer_of(j)))

    def to_number(self, i: Index | int) -> Lane:
        """See `Machine`."""
        return self.e.splat(self.b.sitofp(integer_of(i), self.e.number.type))

    def sqrt(self, x: Number) -> Lane:
        """See `Machine`."""
        return self.e.intrinsic("sqrt", self.e.lift(x))

    def abs(self, x: Number) -> Lane:
        """See `Machine`."""
        return self.e.intrinsic("fabs", self.e.lift(x))

    def functions(self) -> LaneNumbers:
        """See `Machine`."""
        return LaneNumbers(self.e)

    def graphs(self, inputs: Given) -> Values:
        """See `Machine`."""
        given = {name: self._given(x) for name, x in inputs.items()}
        code = LawCode(self.b.module, self.e, given, self.kernel.area, self._calls)

        def values(graph: GraphEvaluator) -> list[Sequence[Lane]]:
            found = code.write(graph.nodes)
            pairs = zip(found, graph.nodes, strict=True)
            return [x if isinstance(x, list) else Entries(code, x, y.size) for x, y in pairs]

        return values

    def _given(self, x: Sequence[Number] | Memory | Item) -> Value:
        """An input of a graph: registers if it is small, or where it is."""
        if isinstance(x, Item):
            memory = x.memory
            assert isinstance(memory, LaneMemory | LaneConstants | GraphValue), "of this machine"
            if x.size > _LONG and isinstance(memory, LaneConstants):
                return Area(memory.at(x.number * x.size), shared=True)
            return [memory.number(x.number * x.size + j) for j in range(x.size)]
        if isinstance(x, LaneMemory):
            size = _known_size(x.shape)
            return x.area if size > SMALL else [x.number(i) for i in range(size)]
        if isinstance(x, GraphValue | LaneConstants):
            return x.known
        assert not isinstance(x, Memory), "a memory of this machine"
        return [self.e.lift(y) for y in x]

    # ---- linear equations

    def solve_positive(
        self, n: int, off_diagonal: Entry, diagonal: Entry, L: Memory, x: Memory
    ) -> None:
        """See `Machine`."""
        factor_cholesky(self, n, off_diagonal, diagonal, L)
        solve_cholesky(self, n, L, x)

    def invert(self, n: int, A: Memory) -> None:
        """See `Machine`."""
        invert_by_elimination(self, n, A)

    def eliminate(self, n: Index | int, J: Memory, d: Memory, ends: Words) -> None:
        """See `Machine`."""
        eliminate_blocks(self, n, J, d, ends)

    def substitute(self, n: Index | int, J: Memory, d: Memory, lows: Words, ends: Words) -> None:
        """See `Machine`."""
        substitute_blocks(self, n, J, d, lows, ends)

    # ---- programs and failures

    def call(self, program: Any, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        """Call the kernel of a program of `LaneKernel.natives`."""
        b, e, kernel = self.b, self.e, self.kernel
        assert not any(x.is_kept for x in results), "results of programs are scratch"
        kernel.call_into(program, [x.area for x in inputs], [x.area for x in results])
        status = kernel.status
        if self.mask is not None:
            status = b.select(_of_lanes(self.mask).bits, status, e.integer(0))
        kernel.note(status)

    def fail(self, mask: Mask, code: int, part: Index | None = None) -> None:
        """See `Machine`."""
        e, b, live = self.e, self.b, self._also(self._also_fine(mask))
        status = e.integer(code)
        if part is not None:
            number = b.add(b.mul(integer_of(part), i64(CODES)), i64(code + CODES))
            status = e.splat_integer(number)
        self.kernel.note(b.select(live.bits, status, e.integer(0)))

    def attempt(self, body: Callable[[], None], keeps: Mask) -> LaneMask:
        """See `Machine`."""
        b, before = self.b, self.kernel.bad
        body()
        after = self.kernel.bad
        self.kernel.set_bad(b.select(_of_lanes(keeps).bits, after, before))
        return LaneMask(self.e, b.icmp_signed("!=", after, before))


@final
class LaneWords(Words):
    """Integers of 64 bits, from an address on."""

    def __init__(self, b: ir.IRBuilder, base: ir.IRValue) -> None:
        self._b, self._base = b, base

    def put(self, index: Index | int, x: Index | int) -> None:
        """Store one."""
        self._b.store(integer_of(x), self._at(index))

    def after(self, count: Index | int) -> LaneWords:
        """Those behind so many."""
        return LaneWords(self._b, self._at(count))

    def _at(self, index: Index | int) -> ir.IRValue:
        return self._b.at(self._base, self._b.mul(integer_of(index), i64(_WORD)))

    def __getitem__(self, index: Index | int) -> LaneIndex:
        return LaneIndex(self._b, self._b.load(self._at(index), typ=I64))


def _known(i: int) -> Index:
    """A known number, where an index is wanted."""
    return cast("Index", i)


def _of_lanes(mask: Mask) -> LaneMask:
    assert isinstance(mask, LaneMask), "a mask of this machine"
    return mask


def _product(sizes: Sequence[Index | int]) -> Index | int:
    out: Index | int = 1
    for size in sizes:
        out = out * size
    return out


def _known_size(sizes: Sequence[Index | int]) -> int:
    size: Any = _product(sizes)
    assert not isinstance(size, LaneIndex), "a size that is known when the code is written"
    return size


def _difference(b: ir.IRBuilder, end: Index | int, first: Index | int) -> ir.IRValue:
    """How many indices there are; known now, if both are."""
    if isinstance(end, int) and isinstance(first, int):
        return i64(end - first)
    return b.sub(integer_of(end), integer_of(first))


@final
class LaneMemory(Memory):
    """Numbers of lanes that follow each other, from an address on."""

    def __init__(
        self, m: LaneMachine, base: ir.IRValue, shape: tuple[Any, ...], is_kept: bool
    ) -> None:
        self._m, self._base, self.shape, self.is_kept = m, base, shape, is_kept

    @property
    def area(self) -> Area:
        """What kernels of programs are called with."""
        return Area(self._base)

    def row(self, i: Index | int) -> LaneMemory:
        """See `Memory`."""
        place = i
        for size in self.shape[1:]:
            place = place * size
        return LaneMemory(self._m, self._number(place), self.shape[1:], self.is_kept)

    def _number(self, place: Index | int) -> ir.IRValue:
        """The address of a number."""
        b = self._m.b
        return b.at(self._base, b.mul(integer_of(place), i64(self._m.e.bytes)))

    def number(self, place: Index | int) -> Lane:
        """One of all of them, in the order of the rows."""
        return self._m.e.load(self._number(place))

    def part(self, place: Index | int) -> LaneMemory:
        """The numbers from one of them on, in the order of the rows; their address is known."""
        return LaneMemory(self._m, self._number(place), (0,), self.is_kept)

    def area_from(self, first: int) -> Area:
        """The numbers from this one on."""
        return Area(self._m.b.at(self._base, first * self._m.e.bytes))

    def _at(self, index: Place) -> ir.IRValue:
        return self._number(place_of(index, self.shape))

    def __getitem__(self, index: Place) -> Lane:
        return self._m.e.load(self._at(index))

    def __setitem__(self, index: Place, value: Number | float) -> None:
        m, where = self._m, self._at(index)
        new = m.e.lift(value)
        if self.is_kept and m.mask is not None:
            new = m.e.select(_of_lanes(m.mask).bits, new, m.e.load(where))
        m.e.store(new, where)
