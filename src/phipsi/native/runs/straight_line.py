"""Functions without loops and branches, on places in memory: what they are written with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from phipsi.native.kernel.entry_code import LaneNumbers
from phipsi.native.text import llvm_text as ir
from phipsi.native.text.lane_arithmetic import POINTER, Emitter, Lane, LaneMask

Place = Any
"""Where numbers are in memory."""


@final
class Routine:
    """A function of places, for other code of its module."""

    def __init__(self, function: ir.IRFunction) -> None:
        self._function = function

    def call(self, e: Emitter, places: Sequence[Place]) -> None:
        """Write a call where an emitter is."""
        e.builder.call(self._function, places)


def straight_line(
    module: ir.Module, like: Emitter, count: int, name: str, write: Callable[[StraightLine], None]
) -> Routine:
    """A function of so many places, which ``write(code)`` writes; of doubles, for as many lanes."""
    if name in module.globals:  # of another run
        name = f"{name}_{len(module.globals)}"
    return Routine(_written(module, like, count, name, write))


def shared_line(
    module: ir.Module, like: Emitter, count: int, name: str, write: Callable[[StraightLine], None]
) -> Routine:
    """The same for a name that says what the function computes: once in a module."""
    name = f"{name}_{like.lanes}"
    known = module.globals.get(name)
    if known is None:
        known = _written(module, like, count, name, write)
        known.linkage = "internal"
    return Routine(known)


def _written(
    module: ir.Module, like: Emitter, count: int, name: str, write: Callable[[StraightLine], None]
) -> ir.IRFunction:
    function = ir.IRFunction(module, ir.FunctionType(ir.VOID, [POINTER] * count), name)
    e = Emitter(like.lanes, fused=like.fused)
    e.builder = function.begin()
    write(StraightLine(e, function.args))
    e.builder.ret_void()
    return function


@final
class StraightLine:
    """Writes a function without loops: numbers of lanes, masks and statuses.

    **Attributes:** `places`, its arguments; `ops`, the operations on its numbers.
    """

    def __init__(self, e: Emitter, places: Sequence[Place]) -> None:
        self._e, self._b, self.places = e, e.builder, list(places)
        self.ops = LaneNumbers(e)

    # ---- memory

    def load(self, base: Place, i: int) -> Lane:
        """Number i of every lane."""
        return self._e.load(self._b.at(base, self._e.bytes * i))

    def store(self, x: Any, base: Place, i: int) -> None:
        """Number i of every lane."""
        self._e.store(x, self._b.at(base, self._e.bytes * i))

    def load_shared(self, base: Place, i: int) -> Lane:
        """Number i of a table, the same in every lane."""
        return self._e.load_shared(self._b.at(base, self._e.unit * i))

    def store_status(self, x: LaneStatus, base: Place) -> None:
        """The status of every lane."""
        self._e.store_integers(x.value, base)

    # ---- numbers

    def number(self, x: Any) -> Lane:
        """A number that may be known as one of lanes; operations on it are not folded."""
        return self._e.lift(x)

    def fma(self, x: Any, y: Any, z: Any) -> Lane:
        """Return x y + z, rounded once where the machine can."""
        return x.times_plus(y, z)

    def abs(self, x: Any) -> Lane:
        """Absolute value."""
        return self._e.intrinsic("fabs", x)

    def larger(self, x: Any, y: Any) -> Lane:
        """The larger of two numbers; the other one if one is NaN."""
        return self._e.intrinsic("maxnum", x, y)

    def where(self, mask: Any, x: Any, y: float | Lane) -> Lane:
        """Return x in the lanes of a mask, y in the others."""
        return self._e.select(mask.bits, x, y)

    def equal(self, x: Lane, y: float) -> LaneMask:
        """Where two numbers are equal."""
        return LaneMask(self._e, self._e.compare("==", x, y))

    def status(self, code: int = 0) -> LaneStatus:
        """The same status in every lane."""
        return LaneStatus(self._e, self._e.integer(code))


@final
class LaneStatus:
    """The status of every lane: 0, or a failure."""

    __slots__ = ("_e", "value")

    def __init__(self, e: Emitter, value: ir.IRValue) -> None:
        self._e, self.value = e, value

    def replaced(self, mask: Any, code: int) -> LaneStatus:
        """This code in the lanes of a mask."""
        e = self._e
        return LaneStatus(e, e.builder.select(mask.bits, e.integer(code), self.value))

    def kept(self, mask: LaneMask, code: int) -> LaneStatus:
        """The status in the lanes of a mask, this code in the others."""
        e = self._e
        return LaneStatus(e, e.builder.select(mask.bits, self.value, e.integer(code)))

    def or_else(self, other: LaneStatus) -> LaneStatus:
        """Another status where this one is 0."""
        e = self._e
        none = e.builder.icmp_signed("==", self.value, e.integer(0))
        return LaneStatus(e, e.builder.select(none, other.value, self.value))
