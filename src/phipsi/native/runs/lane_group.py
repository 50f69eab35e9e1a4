"""Code for a group of trajectories, one in each lane: memory, packing, joints, failures.

The state of a group of trajectories stays packed, one vector per number, from the first step to the
last; only what is recorded is unpacked. Joint formulas are those of the groups, run on lanes
instead of arrays. The first call of a kernel in a run clears the zeros that stay in its results.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from phipsi.core.machine import Place
from phipsi.core.spatial import LieGroup
from phipsi.native import tables
from phipsi.native.data_record import INTEGERS, N_BODIES
from phipsi.native.kernel.entry_code import LaneNumbers
from phipsi.native.kernel.law_code import Area, LawCode
from phipsi.native.lane_machine import LaneMachine, LaneMemory
from phipsi.native.lane_values import LaneCondition, LaneIndex, integer_of
from phipsi.native.tables import JointCode
from phipsi.native.text import llvm_text as ir
from phipsi.native.text.lane_arithmetic import (
    I32,
    I64,
    POINTER,
    WORD,
    Emitter,
    Lane,
    LaneMask,
    fold_loop,
    i64,
    write_cases,
    write_loop,
)
from phipsi.native.text.sine_and_logarithm import whole_number

Values = list[Any]


class LaneGroup(ABC):
    """Writes code for a group of trajectories: what a compiled run consists of.

    **Attributes:** `b`, `e`, what instructions are written with; `lanes`; `data`, the
    record of the model's tables; `codes` of its joints.
    """

    module: ir.Module
    b: ir.IRBuilder
    e: Emitter
    lanes: int
    bytes: int
    data: Any
    codes: Sequence[JointCode]
    zero: Any
    _bad: Any

    @abstractmethod
    def area(self, size: int) -> ir.IRValue:
        """Working memory for so many numbers of every lane."""

    @property
    @abstractmethod
    def fine(self) -> ir.IRValue:
        """See `LaneHost`."""

    @property
    @abstractmethod
    def status(self) -> ir.IRValue:
        """See `LaneHost`."""

    @abstractmethod
    def call_into(self, native: Any, args: Sequence[Area], results: Sequence[Area]) -> None:
        """See `LaneHost`."""

    def word(self, base: ir.IRValue, i: int) -> ir.IRValue:
        """Word i of a record."""
        return self.b.word(base, i)

    def note(self, status: ir.IRValue) -> None:
        """Keep the first failure of every lane in this step."""
        b, old = self.b, self.bad
        b.store(b.select(b.icmp_signed("==", old, self.zero), status, old), self._bad)

    def note_status(self, place: ir.IRValue, allowed: Sequence[int] = ()) -> None:
        """Note the status of every lane; codes that are `allowed` are not failures."""
        b, e = self.b, self.e
        status = e.load_integers(place)
        for code in allowed:
            fine = b.icmp_signed("==", b.and_(status, e.integer(7)), e.integer(code))
            status = b.select(fine, self.zero, status)
        self.note(status)

    @property
    def bad(self) -> ir.IRValue:
        """What has failed in this step, by lane."""
        return self.b.load(self._bad, typ=self.e.integers)

    def set_bad(self, status: ir.IRValue) -> None:
        """What has failed in this step, by lane."""
        self.b.store(status, self._bad)

    def all(self, mask: LaneMask) -> LaneCondition:
        """Whether a mask has every lane."""
        width = ir.IntType(self.lanes)
        every = ir.IRConstant(width, 2**self.lanes - 1)
        bits = self.b.bitcast(mask.bits, width)
        return LaneCondition(self.b, self.b.icmp_unsigned("==", bits, every))

    def any(self, mask: LaneMask) -> LaneCondition:
        """Whether a mask has a lane."""
        return ~self.all(~mask)

    def when(self, condition: LaneCondition) -> AbstractContextManager[Any]:
        """Code that runs if a condition holds."""
        return self.b.if_then(condition.bit)

    def either(self, condition: LaneCondition) -> AbstractContextManager[Any]:
        """Two places for code: for where a condition holds, and for where it does not."""
        return self.b.if_else(condition.bit)

    def loop(self, count: LaneIndex | int, body: Callable[[LaneIndex], None]) -> None:
        """For i in range(count): body(i)."""
        end = count.whole if isinstance(count, LaneIndex) else i64(count)
        write_loop(self.b, end, lambda i: body(LaneIndex(self.b, i)))

    def as_number(self, x: ir.IRValue) -> ir.IRValue:
        """An integer that is not negative, as one to compute with."""
        b, kind = self.b, self.e.number
        return whole_number(b, x, kind) if b.module.narrow else b.sitofp(x, kind.type)

    def numbers(self) -> LaneNumbers:
        """What the formulas of the groups need, again wherever code branches."""
        return LaneNumbers(self.e)

    def table(self, numbers: np.ndarray) -> LaneTable:
        """Numbers or integers in the code."""
        return LaneTable(self, numbers)

    def fill(self, area: ir.IRValue, size: int, x: float) -> None:
        """A known number into so many places of an area."""
        number = self.e.constant(x)
        write_loop(self.b, i64(size), lambda i: self.store(number, area, i))

    def differs(self, x: Lane, y: float) -> LaneMask:
        """Where a number is not y; false where it is NaN."""
        return LaneMask(self.e, self.e.compare("!=", x, y))

    def load(self, base: ir.IRValue, i: ir.IRValue) -> Lane:
        """Number i of an area."""
        where = self.b.at(base, self.b.mul(i, i64(self.bytes)))
        return self.e.load(where)

    def store(self, value: Any, base: ir.IRValue, i: ir.IRValue) -> None:
        """Number i of an area."""
        where = self.b.at(base, self.b.mul(i, i64(self.bytes)))
        self.e.store(value, where)

    def each(self, value: Sequence[Lane] | Area, size: int, one: Callable[[Any], None]) -> None:
        """Code for every entry of a value: a loop over memory, registers one by one."""
        if isinstance(value, Area):
            write_loop(self.b, i64(size), one)
        else:
            for i in range(size):
                one(i)

    def copied(self, code: LawCode, value: Any, size: int) -> Area:
        """A value in memory of its own."""
        area = code.area(size)
        self.copy_value(code, value, size, area)
        return area

    def copy_value(self, code: LawCode, value: Area, size: int, area: Area) -> None:
        """A value into memory."""
        self.each(value, size, lambda i: code.put(code.entry(value, i), area, i))

    def finite(self, numbers: Iterable[Lane]) -> LaneMask:
        """Where no number is infinite or not a number."""
        e, total = self.e, self.e.constant(0.0)
        for x in numbers:
            total = e.poison_nan(total, x)
        return LaneMask(e, e.compare("==", total, 0.0))

    def all_finite(
        self, code: LawCode, values: Sequence[Sequence[Lane] | Area], sizes: Sequence[int]
    ) -> LaneMask:
        """Where no number of some values is infinite or not a number."""
        e, total = self.e, self.e.constant(0.0)
        for value, size in zip(values, sizes, strict=True):

            def add(i: Any, sums: list[Any], value: Any = value) -> list[Any]:
                return [e.poison_nan(Lane(e, sums[0]), code.entry(value, i)).value]

            if isinstance(value, Area):
                (found,) = fold_loop(self.b, i64(size), 1, [total.value], add)
                total = Lane(e, found)
            else:
                for i in range(size):
                    total = Lane(e, add(i, [total.value])[0])
        return LaneMask(e, e.compare("==", total, 0.0))

    def pack(self, bases: Values, packed: ir.IRValue, count: ir.IRValue) -> None:
        """Rows of numbers, one per lane, into vectors."""
        b = self.b

        def one(i: ir.IRValue) -> None:
            out: Any = ir.IRConstant(self.e.vector, ir.Undefined)
            for lane, base in enumerate(bases):
                entry = self.e.load_one(b.at(base, b.mul(i, i64(self.e.unit))))
                out = b.insert_element(out, entry, ir.IRConstant(I32, lane))
            self.store(Lane(self.e, out), packed, i)

        write_loop(b, count, one)

    def unpack(self, packed: ir.IRValue, bases: Values, count: ir.IRValue) -> None:
        """Vectors into rows of numbers, one per lane."""
        b = self.b

        def one(i: ir.IRValue) -> None:
            value = self.load(packed, i).value
            for lane, base in enumerate(bases):
                entry = b.extract_element(value, ir.IRConstant(I32, lane))
                where = b.at(base, b.mul(i, i64(self.e.unit)))
                b.store(entry, where, align=self.e.unit)

        write_loop(b, count, one)

    def _each_joint(self, visit: Callable[[JointCode, Any, Any], None]) -> None:
        """Code for every joint: visit(joint type, start of its part of q, of v)."""
        b = self.b
        integers, count = self.joint_table()

        def one(k: ir.IRValue) -> None:
            row = b.at(integers, b.mul(k, i64(WORD * tables.N_INTEGERS)))
            kind, q, v = (
                self.word(row, i) for i in (tables.KIND, tables.Q_OFFSET, tables.V_OFFSET)
            )
            write_cases(b, kind, len(self.codes), lambda i: visit(self.codes[i], q, v))

        write_loop(b, count, one)

    def joint_table(self) -> tuple[Any, Any]:
        """The table of bodies, and how many there are."""
        integers = self.b.inttoptr(self.word(self.data, INTEGERS), POINTER)
        return integers, self.word(self.data, N_BODIES)

    def each_part(self, visit: Callable[[JointPart], None]) -> None:
        """Code for every joint, or part of a composite one."""

        def joint(code: JointCode, q: ir.IRValue, v: ir.IRValue) -> None:
            numbers = self.numbers()
            for group, i, j in code.joint.parts():
                first_q, first_v = LaneIndex(self.b, q), LaneIndex(self.b, v)
                visit(JointPart(group, first_q, i, first_v, j, numbers))

        self._each_joint(joint)

    def call_joints(
        self,
        code: LawCode,
        args: Sequence[Any],
        kinds: tuple[Sequence[str], Sequence[str]],
        shapes: Sequence[tuple[int, ...]],
        graph: Callable[[Any], Any],
        direct: Callable[..., Any] | None,
    ) -> list[Any]:
        """A formula at every joint: `direct` on lanes, or its `graph` by group."""
        takes, gives = kinds
        m = LaneMachine(self)
        given = [code.stored(x) for x in args]
        results = [code.area(max(1, math.prod(shape))) for shape in shapes]
        # how long they are is known by the table of joints, which code reads at run time
        sources, targets = ([m.memory(x, 0) for x in areas] for areas in (given, results))

        def visit(part: JointPart) -> None:
            numbers = [_read(part, k, x) for k, x in zip(takes, sources, strict=True)]
            if direct is not None:
                found = direct(part.group, *numbers, part.numbers)
            else:
                found = _by_graph(code, graph(part.group), numbers)
            for kind, values, target in zip(gives, found, targets, strict=True):
                put = part.put_places if kind == "q" else part.put_rates
                put(values, target)

        self.each_part(visit)
        return results


def _read(part: JointPart, kind: str, memory: LaneMemory) -> list[Lane]:
    if kind == "one":
        return [memory[0]]
    return part.places(memory) if kind == "q" else part.rates(memory)


def _by_graph(code: LawCode, graph: Any, numbers: Sequence[Sequence[Lane]]) -> list[list[Lane]]:
    """The results of a formula as a graph, on the numbers of one joint."""
    given = {
        x.data[0]: [y]
        for part, values in zip(graph.inputs, numbers, strict=True)
        for x, y in zip(part, values, strict=True)
    }
    inner = LawCode(code.module, code.e, given, lambda size: code.area(size).base, code.host)
    return [[inner.entry(x, 0) for x in inner.write(part)] for part in graph.results]


@dataclass(frozen=True)
class JointPart:
    """What a joint moves on that the loop has come to, and where that is in q and in v."""

    group: LieGroup
    q: LaneIndex
    i: int
    v: LaneIndex
    j: int
    numbers: LaneNumbers

    def places(self, memory: LaneMemory) -> list[Lane]:
        """Its numbers in memory with the layout of q."""
        return [memory[self.q + (self.i + k)] for k in range(self.group.nq)]

    def rates(self, memory: LaneMemory) -> list[Lane]:
        """Its numbers in memory with the layout of v."""
        return [memory[self.v + (self.j + k)] for k in range(self.group.nv)]

    def put_places(self, values: Sequence[Lane], memory: LaneMemory) -> None:
        """Store numbers with the layout of q."""
        for k, x in enumerate(values):
            memory[self.q + (self.i + k)] = x

    def put_rates(self, values: Sequence[Lane], memory: LaneMemory) -> None:
        """Store numbers with the layout of v."""
        for k, x in enumerate(values):
            memory[self.v + (self.j + k)] = x


_MOST_CALLS = 62
"""Places in the code that have a bit each; calls at further ones clear always."""


@final
class LaneTable:
    """Numbers or integers in the code, which all lanes share; ``table[i, j]`` reads one.

    **Attributes:** `base`, where they are.
    """

    def __init__(self, group: LaneGroup, numbers: np.ndarray) -> None:
        self._group, self._shape = group, numbers.shape
        self._is_integer = numbers.dtype.kind == "i"
        self.base = group.module.table_of(numbers)

    def __getitem__(self, index: Place) -> Any:
        b, e = self._group.b, self._group.e
        places = index if isinstance(index, tuple) else (index,)
        place = places[0]
        for i, size in zip(places[1:], self._shape[1:], strict=True):
            place = place * size + i
        i = integer_of(place)
        if self._is_integer:
            return LaneIndex(b, b.word(self.base, i))
        return e.load_shared(b.at(self.base, b.mul(i, i64(e.unit))))


@final
class FirstCalls:
    """A word of the running function with a bit for each place in its code that calls a kernel."""

    def __init__(self, b: ir.IRBuilder) -> None:
        self._b, self._word, self._count = b, b.alloca(I64), 0
        b.store(i64(0), self._word)

    def place(self) -> Callable[[], Any]:
        """A new place; code that says, once before each call there, whether it is the first."""
        b, bit = self._b, 1 << self._count
        if self._count == _MOST_CALLS:
            return always
        self._count += 1

        def is_first() -> ir.IRValue:
            before = b.load(self._word, typ=I64)
            b.store(b.or_(before, i64(bit)), self._word)
            return b.icmp_signed("==", b.and_(before, i64(bit)), i64(0))

        return is_first


def always() -> ir.IRValue:
    """As if every call were the first."""
    return ir.IRConstant(ir.IntType(1), 1)
