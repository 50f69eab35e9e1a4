"""Functions that contain an algorithm of a `Machine`, called by other code of the module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from phipsi.native.kernel.law_code import Area
from phipsi.native.lane_machine import LaneIndex, LaneMachine, LaneWords
from phipsi.native.text import llvm_text as ir
from phipsi.native.text.lane_arithmetic import I64, POINTER, i64

Writer = Callable[[LaneMachine, list[Any]], None]


def lane_routine(
    module: ir.Module, e: Any, name: str, depends: str, arguments: Sequence[str], write: Writer
) -> ir.IRFunction:
    """A function of the module that `write` fills, once for each name.

    `arguments` says what each one is: "memory", an `Area`; "words", `LaneWords`; "index", a
    `LaneIndex`; and at last there is working memory, of which arrays of a size that is known at run
    time are taken. `depends` names everything that the code depends on; so does the name, with it
    or a digest.
    """
    kinds = [I64 if x == "index" else POINTER for x in (*arguments, "memory")]
    signature = ir.FunctionType(ir.VOID, kinds)

    def begin(module: ir.Module) -> ir.IRFunction:
        function = ir.IRFunction(module, signature, name)
        function.linkage = "internal"
        host = _RoutineHost(e.inside(function), function.args[-1])
        given = zip(arguments, function.args[:-1], strict=True)
        write(LaneMachine(host), [host.argument(kind, x) for kind, x in given])
        host.b.ret_void()
        return function

    return module.part(name, depends, signature, begin)


@final
class _RoutineHost:
    """Gives memory; a routine calls no programs, and says by its results what has failed."""

    def __init__(self, e: Any, work: ir.IRValue) -> None:
        self.e, self.b, self._work = e, e.builder, work

    def argument(self, kind: str, x: ir.IRValue) -> Any:
        """An argument of the function, as a text takes it."""
        makers = {"memory": Area, "words": self._words, "index": self._index}
        return makers[kind](x)

    def _words(self, x: ir.IRValue) -> LaneWords:
        return LaneWords(self.b, x)

    def _index(self, x: ir.IRValue) -> LaneIndex:
        return LaneIndex(self.b, x)

    def area(self, size: Any) -> ir.IRValue:
        """Memory of the function's own, or where the size is known at run time working memory."""
        if not isinstance(size, LaneIndex):
            return self.b.alloca(self.e.vector, size=size)
        here = self._work
        self._work = self.b.at(here, self.b.mul(size.whole, i64(self.e.bytes)))
        return here

    @property
    def bad(self) -> ir.IRValue:
        """No lane has failed."""
        return self.e.integer(0)

    @property
    def fine(self) -> ir.IRValue:
        """All lanes."""
        return ir.IRConstant(self.e.mask, [1] * self.e.lanes)

    @property
    def status(self) -> ir.IRValue:
        """That of no call."""
        return self.bad

    def note(self, status: ir.IRValue) -> None:
        """Not available."""
        raise NotImplementedError("a routine reports failures through its results")

    def set_bad(self, status: ir.IRValue) -> None:
        """Not available."""
        self.note(status)

    def call_into(self, native: Any, args: Any, results: Any) -> None:
        """Not available."""
        raise NotImplementedError("a routine cannot call programs")
