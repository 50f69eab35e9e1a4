"""Indices of the machine of lanes, and numbers that it reads and does not change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from phipsi.core.machine import Index, Memory, Number, Place, RowOf
from phipsi.native.kernel.law_code import Area, LawCode, Value
from phipsi.native.text import llvm_text as ir
from phipsi.native.text.lane_arithmetic import I64, Emitter, Lane, i64


@final
class LaneIndex:
    """An integer of the code, or a sum or product of them."""

    __slots__ = ("b", "whole")

    def __init__(self, b: ir.IRBuilder, whole: ir.IRValue) -> None:
        self.b, self.whole = b, whole

    def __add__(self, k: Index | int) -> LaneIndex:
        return self if _is(k, 0) else LaneIndex(self.b, self.b.add(self.whole, integer_of(k)))

    def __sub__(self, k: Index | int) -> LaneIndex:
        return self if _is(k, 0) else LaneIndex(self.b, self.b.sub(self.whole, integer_of(k)))

    def __rsub__(self, k: Index | int) -> LaneIndex:
        return LaneIndex(self.b, self.b.sub(integer_of(k), self.whole))

    def __mul__(self, k: Index | int) -> LaneIndex:
        return self if _is(k, 1) else LaneIndex(self.b, self.b.mul(self.whole, integer_of(k)))

    __radd__, __rmul__ = __add__, __mul__

    def __mod__(self, k: Index | int) -> LaneIndex:
        return LaneIndex(self.b, self.b.urem(self.whole, integer_of(k)))

    def __floordiv__(self, k: Index | int) -> LaneIndex:
        return LaneIndex(self.b, self.b.udiv(self.whole, integer_of(k)))

    def __lt__(self, k: Index | int) -> LaneCondition:
        return self._compared("<", k)

    def __le__(self, k: Index | int) -> LaneCondition:
        return self._compared("<=", k)

    def __ge__(self, k: Index | int) -> LaneCondition:
        return self._compared(">=", k)

    def equals(self, k: Index | int) -> LaneCondition:
        """Whether two integers are equal."""
        return self._compared("==", k)

    def differs(self, k: Index | int) -> LaneCondition:
        """Whether two integers differ."""
        return self._compared("!=", k)

    def _compared(self, relation: str, k: Index | int) -> LaneCondition:
        return LaneCondition(self.b, self.b.icmp_signed(relation, self.whole, integer_of(k)))


@final
class LaneCondition:
    """What holds, or not, for all lanes of a group together."""

    __slots__ = ("b", "bit")

    def __init__(self, b: ir.IRBuilder, bit: ir.IRValue) -> None:
        self.b, self.bit = b, bit

    def __and__(self, other: LaneCondition) -> LaneCondition:
        return LaneCondition(self.b, self.b.and_(self.bit, other.bit))

    def __or__(self, other: LaneCondition) -> LaneCondition:
        return LaneCondition(self.b, self.b.or_(self.bit, other.bit))

    def __invert__(self) -> LaneCondition:
        return LaneCondition(self.b, self.b.not_(self.bit))

    def as_index(self) -> LaneIndex:
        """1 if it holds, else 0."""
        return LaneIndex(self.b, self.b.zext(self.bit, I64))


def _is(k: Index | int, number: int) -> bool:
    return isinstance(k, int) and k == number


def integer_of(i: Index | int) -> ir.IRValue:
    """An index as an integer of the code."""
    if isinstance(i, LaneIndex):
        return i.whole
    known: Any = i  # of Python or NumPy
    return i64(known)


@final
class LaneConstants(Memory):
    """Numbers of a table, the same in all lanes."""

    def __init__(self, e: Emitter, table: ir.IRValue, shape: tuple[int, ...]) -> None:
        self._e, self._table, self.shape = e, table, shape

    @property
    def known(self) -> Area:
        """As a value of a graph."""
        return Area(self._table, shared=True)

    def at(self, place: Index | int) -> ir.IRValue:
        """The address of a number."""
        b = self._e.builder
        return b.at(self._table, b.mul(integer_of(place), i64(self._e.unit)))

    def number(self, place: Index | int) -> Lane:
        """One of all of them, in the order of the rows."""
        return self._e.load_shared(self.at(place))

    def __getitem__(self, index: Place) -> Lane:
        return self.number(place_of(index, self.shape))

    def __setitem__(self, index: Place, value: Number | float) -> None:
        raise AssertionError("constants cannot be written")

    def row(self, i: Index | int) -> Memory:
        """See `Memory`."""
        return RowOf(self, i)


class Entries(Sequence[Lane]):
    """The entries of an array of a graph, read when they are asked for."""

    def __init__(self, code: LawCode, area: Area, size: int) -> None:
        self._code, self._area, self._size = code, area, size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, i: Any) -> Any:
        index: int = i
        return self._code.entry(self._area, range(self._size)[index])


def place_of(index: Place, shape: tuple[Index | int, ...]) -> Index | int:
    """The number of an entry in the order of the rows."""
    index = index if isinstance(index, tuple) else (index,)
    assert len(index) == len(shape), f"{len(index)} indices of shape {shape}"
    place = index[0] if index else 0
    for i, size in zip(index[1:], shape[1:], strict=True):
        place = place * size + i
    return place


@final
class GraphValue(Memory):
    """A value of a graph: registers, or memory seen in any order."""

    def __init__(self, code: LawCode, value: Value, shape: tuple[int, ...]) -> None:
        self._code, self.known, self.shape = code, value, shape

    def number(self, place: Index | int) -> Lane:
        """One of all of them, in the order of the rows."""
        if isinstance(place, int):
            return self._code.entry(self.known, place)
        assert isinstance(self.known, Area), "registers have no place that the code computes"
        return self._code.entry(self.known, integer_of(place))

    def __getitem__(self, index: Place) -> Lane:
        return self.number(place_of(index, self.shape))

    def __setitem__(self, index: Place, value: Number | float) -> None:
        raise AssertionError("arguments cannot be written")

    def row(self, i: Index | int) -> Memory:
        """See `Memory`."""
        return RowOf(self, i)
