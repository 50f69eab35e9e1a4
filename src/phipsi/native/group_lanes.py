"""Operations of lanes that arrays do not have: on the group of lanes that a kernel works on.

Which contacts are there in *some* lane, for example: lists of integers that are made at run time,
conditions that hold for the whole group, and code that depends on them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, final

from phipsi.core.machine import Index, Words
from phipsi.native.graph_lanes import GraphHost
from phipsi.native.kernel.law_code import LawCode
from phipsi.native.lane_machine import LaneMachine, LaneMemory
from phipsi.native.lane_values import GraphValue, LaneCondition, LaneIndex, integer_of
from phipsi.native.text import llvm_text as ir
from phipsi.native.text.lane_arithmetic import I64, WORD, i64, write_cases

Integer = LaneIndex | int


@final
class GroupLanes:
    """The machine of lanes where a graph is, with integers and conditions of the group.

    **Attributes:** `m`, the machine.
    """

    def __init__(self, code: LawCode) -> None:
        self._code, self.m = code, LaneMachine(GraphHost(code), code.host)
        self._b = code.e.builder

    # ---- memory

    def words(self, count: int) -> LaneList:
        """Memory for so many integers."""
        return LaneList(self._b, self._code.area(max(1, -(-count // self._code.e.lanes))).base)

    def variable(self, x: Integer = 0) -> LaneVariable:
        """An integer that changes."""
        return LaneVariable(self._b, x)

    def numbers(self, address: ir.IRValue, *shape: Integer) -> LaneMemory:
        """Existing memory with the numbers of every lane; all lanes may be written."""
        return LaneMemory(self.m, address, shape, False)  # type: ignore[arg-type]

    def value(self, x: Any, *shape: int) -> GraphValue:
        """A value of the graph, where it is."""
        return GraphValue(self._code, x, shape)

    def packed(self, x: Any, *shape: int) -> LaneMemory:
        """A value of the graph whose numbers follow each other in every lane."""
        size = 1
        for n in shape:
            size *= n
        return self.numbers(self._code.stored(self._code.whole(x, size)).base, *shape)

    def area(self, *shape: int) -> LaneMemory:
        """New memory; all lanes change."""
        size = 1
        for n in shape:
            size *= n
        return self.numbers(self._code.area(max(1, size)).base, *shape)

    # ---- integers and conditions

    def index(self, x: ir.IRValue | int) -> LaneIndex:
        """An integer of the code, or one that is known."""
        return LaneIndex(self._b, integer_of(x) if isinstance(x, int) else x)

    def any(self, mask: Any) -> LaneCondition:
        """Whether a mask holds in some lane."""
        return LaneCondition(self._b, self.m.any(mask))

    def choose(self, condition: LaneCondition, i: Integer, j: Integer) -> LaneIndex:
        """I where a condition holds, else j."""
        return LaneIndex(self._b, self._b.select(condition.bit, integer_of(i), integer_of(j)))

    def smaller(self, i: LaneIndex, j: Integer) -> LaneIndex:
        """The smaller of two integers."""
        return self.choose(i < j, i, j)

    def share_bits(self, i: LaneIndex, j: LaneIndex) -> LaneCondition:
        """Whether two integers have a bit in common."""
        both = LaneIndex(self._b, self._b.and_(i.whole, j.whole))
        return ~both.equals(0)

    # ---- control

    @contextmanager
    def where(self, condition: LaneCondition | None) -> Generator[None]:
        """What is written inside runs if a condition holds; always, if it is None."""
        if condition is None:
            yield
            return
        with self._b.if_then(condition.bit):
            yield

    def repeat(self, condition: Callable[[], LaneCondition], body: Callable[[], None]) -> None:
        """While a condition holds: body()."""
        b = self._b
        head, inside, after = (b.function.append_basic_block(n) for n in ("while", "do", "end"))
        b.branch(head)
        b.position_at_end(head)
        b.cbranch(condition().bit, inside, after)
        b.position_at_end(inside)
        body()
        b.branch(head)
        b.position_at_end(after)

    def cases(self, which: LaneIndex, count: int, body: Callable[[int], None]) -> None:
        """The code body(i) for the case that an integer is i, for all i below count."""
        write_cases(self._b, which.whole, count, body)

    def call(self, function: ir.IRFunction, args: Sequence[ir.IRValue]) -> None:
        """Call a function of the module with addresses and integers."""
        self._b.call(function, args)

    # ---- numbers

    def fill(self, x: float, target: LaneMemory, count: Integer) -> None:
        """The same number, so many times."""

        @self.m.loop(0, count)  # type: ignore[arg-type]
        def _(i: Index | int) -> None:
            target[i] = x


@final
class LaneList(Words):
    """Integers that all lanes share, and that change.

    **Attributes:** `base`, their address.
    """

    def __init__(self, b: ir.IRBuilder, base: ir.IRValue) -> None:
        self._b, self.base = b, base

    def __getitem__(self, index: Any) -> LaneIndex:
        return LaneIndex(self._b, self._b.word(self.base, integer_of(index)))

    def put(self, index: Index | int, x: Index | int) -> None:
        """Store one."""
        self._b.store(integer_of(x), self._at(index))

    def after(self, count: Integer) -> LaneList:
        """Those behind so many."""
        return LaneList(self._b, self._at(count))

    def _at(self, index: Index | int) -> ir.IRValue:
        return self._b.at(self.base, self._b.mul(integer_of(index), i64(WORD)))


@final
class LaneVariable:
    """An integer in memory."""

    def __init__(self, b: ir.IRBuilder, x: Integer) -> None:
        self._b, self._place = b, b.alloca(I64)
        self.value = x

    @property
    def value(self) -> LaneIndex:
        """What it is now."""
        return LaneIndex(self._b, self._b.load(self._place, typ=I64))

    @value.setter
    def value(self, x: Integer) -> None:
        self._b.store(integer_of(x), self._place)
