"""Closed chains in the graph of a step: accelerations and projection as calls."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from phipsi.algorithms.constrained.system import System
from phipsi.backends.native.text import llvm_text as ir
from phipsi.backends.native.text.lane_arithmetic import I64, i64
from phipsi.errors import InputError
from phipsi.laws.calls import Callee
from phipsi.laws.graph import Array, Node
from phipsi.motion.closure_code import Closures, closure_programs, closure_record, closure_size
from phipsi.motion.motion import Motion
from phipsi.motion.row_elimination import elimination_of


class _ClosedChain(Callee):
    """A call about a system, written by `Closures`, of which a run has one for all its calls."""

    what: str

    def __init__(self, system: System) -> None:
        self.system, self.elimination = system, elimination_of(system)
        self.key = (self.what, id(system))
        self.record = closure_record(system)
        natives = [program.native for program in closure_programs(system)]
        if None in natives:
            raise InputError(f"there is no machine code for the constraints of {system!r}")
        self.natives = tuple(natives)
        # the numbers of the record are part of the code, and what is not zero
        way = "sweeps" if self.elimination is None else self.elimination.key
        text = f"{hashlib.sha256(self.record.tobytes()).hexdigest()} {way}"
        self.name = f"{self.what} {text}"

    def pull(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """Not there: it would need the derivatives of the elimination."""
        raise InputError(
            "a Simulator has no gradients through the steps of closed chains; use\n"
            "    pp.rollout_gradient(system, q0, v0, tau, dt, steps, final=…)"
        )

    def prepare(self, host: Any) -> Any:
        """What is written once, before the loops."""
        key = _ClosedChain, id(self.system)
        if key not in host.shared:
            host.shared[key] = _Room(host, self)
        return host.shared[key]

    def _given(self, code: Any, args: Sequence[Any]) -> _Room:
        """The room, with these arguments in their places."""
        room: _Room = code.host.prepared[self]
        places = ((room.q, self.system.nq), (room.v, self.system.nv), (room.tau, self.system.nv))
        for value, (place, size) in zip(args, places, strict=False):
            room.copy(code.stored(value).base, place, i64(size))
        return room


@final
class AccelerationCall(_ClosedChain):
    """Accelerations that keep the constraints: q, v, tau → vdot.

    With `stage`, loops are open by the error of a stage, and redundant rows may disagree by it.
    """

    def __init__(self, system: System, stage: int = 0) -> None:
        self.stage = min(stage, 1)
        self.what = f"accelerations in stage {self.stage}"
        self.shapes = ((system.nv,),)
        super().__init__(system)

    def arrays(self, *args: Array) -> Sequence[Array]:
        """Those of `Motion`."""
        batch = np.broadcast_shapes(*(x.shape[:-1] for x in args))
        flat = [np.broadcast_to(x, (*batch, x.shape[-1])).reshape(-1, x.shape[-1]) for x in args]
        found = Motion(self.system).accelerations(*flat)
        return (found.reshape(*batch, found.shape[-1]),)

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """The equations and their solution."""
        room = self._given(code, args)
        room.closures.solution.accelerate(self.stage)
        out = code.area(self.system.nv)
        room.copy(room.vdot, out.base, i64(self.system.nv))
        return [out]


@final
class ProjectionCall(_ClosedChain):
    """The nearest state on the constraints: q, v → the same."""

    what = "projection"

    def __init__(self, system: System) -> None:
        self.shapes = (system.nq,), (system.nv,)
        super().__init__(system)

    def arrays(self, *args: Array) -> Sequence[Array]:
        """The projection of `Motion`."""
        q, v = args
        found = Motion(self.system).project(q.reshape(-1, q.shape[-1]), v.reshape(-1, v.shape[-1]))
        return found.q.reshape(q.shape), found.v.reshape(v.shape)

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """Newton's method in lanes."""
        room = self._given(code, args)
        room.closures.project()
        out = [code.area(size[0]) for size in self.shapes]
        for place, area, size in zip((room.q, room.v), out, self.shapes, strict=True):
            room.copy(place, area.base, i64(size[0]))
        return out


_TOOLS = (
    "load", "store", "loads", "stores", "copy", "note", "note_status", "bad", "set_bad", "all",
    "each_part", "module",
)  # fmt: skip


@final
class _Room:
    """What `Closures` writes with: the tools of a run, memory of its own, and the record."""

    def __init__(self, host: Any, call: _ClosedChain) -> None:
        self._host, self._call = host, call
        self.b, self.e, self.lanes, self.zero = host.b, host.e, host.lanes, host.zero
        system = call.system
        self.nv = i64(system.nv)
        self.q, self.v = host.area(system.nq), host.area(system.nv)
        self.tau, self.vdot = host.area(system.nv), host.area(system.nv)
        self.failed = host.failed
        words = [int(x) for x in call.record]
        self.record = ir.Table(host.module, I64, words, "closures")
        self._place = host.area(closure_size(system))
        for name in _TOOLS:
            setattr(self, name, getattr(host, name))
        self.closures = Closures(self, call.elimination)

    copy: Callable[..., None]

    def area(self, size: Any) -> Any:
        """The next piece of this room's memory."""
        here = self._place
        self._place = self.b.at(here, self.b.mul(size, i64(8 * self.lanes)))
        return here

    def program(
        self,
        number: int,
        outputs: Sequence[Any],
        places: dict[str, Any] | None = None,
        allowed: Sequence[int] = (),
    ) -> Callable[[], None]:
        """Code that calls a kernel, with inputs in these places or in those of the state."""
        native = self._call.natives[number]
        usual = {"q": self.q, "v": self.v, "tau": self.tau, **(places or {})}
        slots = native.unit.slots
        where = [usual[name] for name in sorted(slots, key=lambda n: slots[n].buffer)]
        return self._host.caller(native, [*where, *outputs], allowed)
