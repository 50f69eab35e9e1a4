"""The machine of lanes inside the code of a graph: its arguments, memory and failures."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

from phipsi.core.machine import Machine, Memory, Number
from phipsi.native.kernel.law_code import SMALL, Area, LawCode, Value
from phipsi.native.lane_machine import LaneMachine, LaneMemory
from phipsi.native.lane_values import GraphValue
from phipsi.native.text import llvm_text as ir
from phipsi.native.text.lane_arithmetic import POINTER, Emitter

Shapes = Sequence[tuple[int, ...]]
Result = Memory | Sequence[Number]
Text = Callable[[Machine, Sequence[Memory]], Sequence[Result]]


def write_text(code: LawCode, text: Text, args: Sequence[Any], shapes: Shapes) -> list[Any]:
    """The results of a text where the code is; arguments are read from where they are."""
    m = LaneMachine(GraphHost(code), code.host)
    given = [GraphValue(code, x, shape) for x, shape in zip(args, shapes, strict=True)]
    return [_value(x) for x in text(m, given)]


def _value(x: Any) -> Value:
    if isinstance(x, GraphValue):
        return x.known
    if not isinstance(x, LaneMemory):
        return x
    size = math.prod(x.shape)
    return x.area if size > SMALL else [x.number(i) for i in range(size)]


def call_text(
    code: LawCode, name: str, text: Text, args: Sequence[Any], shapes: Shapes
) -> list[Area]:
    """The same by a function of the module, which all calls with this name share."""
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    name = f"phipsi_text_{digest}_{code.e.lanes}"
    routines = code.module.routines
    if name not in routines:
        routines[name] = _written(code, name, text, shapes)
    known: _GraphRoutine = routines[name]
    whole = zip(args, shapes, strict=True)
    given = [code.stored(code.whole(x, math.prod(shape))).base for x, shape in whole]
    work, status = code.area(known.size), code.area(1)
    code.e.builder.call(known.function, [*given, work.base, status.base])
    if code.host is not None:
        code.host.note(code.e.load_integers(status.base))
    return [Area(code.e.builder.at(work.base, i * code.e.bytes)) for i in known.results]


class _GraphRoutine(NamedTuple):
    """A function; how many numbers of every lane it works with, and which are its results."""

    function: ir.IRFunction
    size: int
    results: list[int]


def _written(code: LawCode, name: str, text: Text, shapes: Shapes) -> _GraphRoutine:
    kind = ir.FunctionType(ir.VOID, [POINTER] * (len(shapes) + 2))
    function = ir.IRFunction(code.module, kind, name, "internal")
    e, (*places, work, status) = code.e.inside(function), function.args
    host = _GraphRoutineHost(e, work, status)
    m = LaneMachine(host)
    given = [m.memory(Area(x), *shape) for x, shape in zip(places, shapes, strict=True)]
    e.store_integers(e.integer(0), status)
    results: list[int] = []
    for found in text(m, given):
        kept = found if isinstance(found, LaneMemory) else _in_memory(m, found)
        results.append(host.starts[kept.area.base])
    e.builder.ret_void()
    return _GraphRoutine(function, host.used, results)


def _in_memory(m: LaneMachine, numbers: Any) -> LaneMemory:
    out = m.array(len(numbers), kept=False)
    for i, x in enumerate(numbers):
        out[i] = x
    return out


class _Host:
    """What a machine of lanes needs where no program is called."""

    e: Emitter

    @property
    def b(self) -> ir.IRBuilder:
        """The builder."""
        return self.e.builder

    @property
    def status(self) -> ir.IRValue:
        """What the last call of a program reported."""
        raise NotImplementedError("algorithms inside a graph cannot call programs")

    def call_into(self, native: Any, args: Sequence[Area], results: Sequence[Area]) -> None:
        """Call a program."""
        raise NotImplementedError("algorithms inside a graph cannot call programs")


@final
class GraphHost(_Host):
    """The code of a graph. Lanes that failed before go on: what they compute is not used."""

    def __init__(self, code: LawCode) -> None:
        self._code, self.e = code, code.e

    def area(self, size: int) -> ir.IRValue:
        """See `LaneHost`."""
        return self._code.area(size).base

    @property
    def fine(self) -> ir.IRValue:
        """All lanes."""
        return self.e.compare("==", 0.0, 0.0)

    @property
    def bad(self) -> ir.IRValue:
        """Not known."""
        raise NotImplementedError("algorithms inside a graph record failures, and cannot read them")

    def set_bad(self, status: ir.IRValue) -> None:
        """Not known."""
        raise NotImplementedError("algorithms inside a graph record failures, and cannot read them")

    def note(self, status: ir.IRValue) -> None:
        """See `LaneHost`."""
        if self._code.host is not None:
            self._code.host.note(status)


@final
class _GraphRoutineHost(_Host):
    """A function with memory to work in, and memory for the status of every lane."""

    def __init__(self, e: Emitter, work: Any, status: Any) -> None:
        self.e, self._work, self._bad = e, work, status
        self.used, self.starts = 0, dict[Any, int]()

    def area(self, size: int) -> ir.IRValue:
        here = self.b.at(self._work, self.used * self.e.bytes)
        self.starts[here] = self.used
        self.used += size
        return here

    @property
    def bad(self) -> ir.IRValue:
        return self.e.load_integers(self._bad)

    @property
    def fine(self) -> ir.IRValue:
        return self.b.icmp_signed("==", self.bad, self.e.integer(0))

    def set_bad(self, status: ir.IRValue) -> None:
        self.e.store_integers(status, self._bad)

    def note(self, status: ir.IRValue) -> None:
        b, old = self.b, self.bad
        first = b.icmp_signed("==", old, self.e.integer(0))
        self.set_bad(b.select(first, status, old))
