"""Closed chains in the graph of a step: the projection onto the constraints as a call."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, final

from phipsi.algorithms.constrained.system import System
from phipsi.algorithms.forms import VELOCITY_CHANGE, closed_form
from phipsi.backends.native.text import llvm_text as ir
from phipsi.backends.native.text.lane_arithmetic import I64, i64
from phipsi.compiler import compile
from phipsi.errors import InputError
from phipsi.laws.calls import Callee
from phipsi.laws.graph import Array, Node
from phipsi.motion.closure_code import Closures, closure_record, closure_size
from phipsi.motion.motion import Motion
from phipsi.motion.rollout_loop import CLOSURES
from phipsi.operators import pose


@final
class ProjectionCall(Callee):
    """The nearest state on the constraints of a system: q (nq,) and v (nv,) → the same."""

    def __init__(self, system: System) -> None:
        self.system, self.key = system, id(system)
        self.record = closure_record(system.rows)
        # the numbers of the record are part of the code
        self.name = f"projection {hashlib.sha256(self.record.tobytes()).hexdigest()}"
        self.shapes = (system.nq,), (system.nv,)
        forms = closed_form(None, False, False)[0], VELOCITY_CHANGE, pose
        found = [compile(form, system, backend="native").native for form in forms]
        if None in found:
            raise InputError(f"there is no machine code for the constraints of {system!r}")
        self.natives = tuple(found)

    def arrays(self, *args: Array) -> Sequence[Array]:
        """The projection of `Motion`."""
        q, v = args
        found = Motion(self.system).project(q.reshape(-1, q.shape[-1]), v.reshape(-1, v.shape[-1]))
        return found.q.reshape(q.shape), found.v.reshape(v.shape)

    def pull(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """Not yet: the gradient through a projection needs that of its decomposition."""
        raise InputError(
            "a Simulator has no gradients through the projection of closed chains; use\n"
            "    pp.rollout_gradient(system, q0, v0, tau, dt, steps, final=…)"
        )

    def prepare(self, host: Any) -> Any:
        """What is written once, before the loops."""
        return _Room(host, self)

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """Newton's method in lanes."""
        room: _Room = code.host.prepared[self]
        for value, place, size in zip(args, (room.q, room.v), self.shapes, strict=True):
            area = code.stored(value)
            room.copy(area.base, place, i64(size[0]))
        room.closures.project()
        return [type(area)(place) for place in (room.q, room.v)]


@final
class _Room:
    """The tools of a run as `Closures` uses those of a rollout, with memory of its own."""

    def __init__(self, host: Any, call: ProjectionCall) -> None:
        self._host, self._call = host, call
        self.b, self.e, self.lanes, self.zero = host.b, host.e, host.lanes, host.zero
        system = call.system
        self.nv = i64(system.nv)
        self.q, self.v = host.area(system.nq), host.area(system.nv)
        self.tau, self.vdot = host.area(system.nv), host.area(system.nv)
        self.failed = host.failed
        words = [int(x) for x in call.record]
        record = ir.Table(host.module, I64, words, "closures")
        self.job = {CLOSURES: host.b.ptrtoint(record, I64)}
        self._place = host.area(closure_size(system.rows))
        for name in ("load", "store", "loads", "stores", "copy", "note", "bad", "all", "each_part"):
            setattr(self, name, getattr(host, name))
        self.closures = Closures(self)  # type: ignore[arg-type]

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
        """Code that calls one of the kernels, as `Rollout.program`."""
        native = self._call.natives[number]
        usual = {"q": self.q, "v": self.v, "tau": self.tau, **(places or {})}
        slots = native.unit.slots
        where = [usual[name] for name in sorted(slots, key=lambda n: slots[n].buffer)]
        return self._host.caller(native, [*where, *outputs], allowed)
