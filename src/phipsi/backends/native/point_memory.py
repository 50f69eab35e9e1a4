"""What generated code reads at points and links, and at the bodies they are on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phipsi.backends.native import blocks as bl
from phipsi.backends.native import tables
from phipsi.backends.native.data_record import POINT_DOUBLES, POINT_INTEGERS
from phipsi.backends.native.text.lanes import DOUBLE, I64, Emitter, Lane
from phipsi.backends.native.text.trigonometry import i64
from phipsi.sweeps.ir import Domain, Field, Reads


class PointMemory:
    """The part of a kernel that knows the current point, its mate, its body and link."""

    b: Any
    emitter: Emitter
    selections: tuple[str, ...]
    link_table: Any
    on_hub: Any
    at: Callable[[Any, Any], Any]
    word: Callable[[int], Any]
    both: Callable[[Domain, Any], tuple[Any, Any]]
    load: Callable[[Field, Reads, bl.Block], bl.Block]

    def at_point(self, k: Any) -> None:
        """Read constants of point k, and what its body and its mate have."""
        self.point_table = self.at(self.word(POINT_DOUBLES), self.b.mul(k, i64(96)))
        body, self._mate, self._chosen = (
            self.integer(POINT_INTEGERS, tables.N_POINT_INTEGERS, k, i)
            for i in (tables.POINT_BODY, tables.POINT_MATE, tables.POINT_CHOSEN)
        )
        self.body_of_point = body
        self.host = self.both(Domain.BODY, self.b.add(body, i64(1)))
        self.mate = self.both(Domain.POINT, self._mate)

    def at_mate(self, make: Callable[[], Any]) -> Any:
        """What `make` makes at the mate of the current point."""
        names = ("point_table", "body_of_point", "host", "mate", "_mate", "_chosen")
        saved = {name: getattr(self, name) for name in names}
        self.at_point(self._mate)
        out = make()
        for name, value in saved.items():
            setattr(self, name, value)
        return out

    def selected(self, name: str) -> Lane:
        """1 if the body of the current point is in a selection, 0 if not."""
        b = self.b
        bit = b.and_(b.lshr(self._chosen, i64(self.selections.index(name))), i64(1))
        return self.emitter.splat(b.uitofp(bit, DOUBLE))

    def integer(self, word: int, width: int, k: Any, i: int) -> Any:
        """Number i of row k of a table of integers."""
        index = self.b.add(self.b.mul(k, i64(width)), i64(i))
        return self.b.load(self.at(self.word(word), self.b.mul(index, i64(8))), typ=I64)

    def link_constant(self, i: int) -> Lane:
        """A number of the link's table."""
        return self.emitter.splat(self.b.load(self.at(self.link_table, i64(8 * i)), typ=DOUBLE))

    def pose_of_body(self, x: Field, like: bl.Block) -> bl.Block:
        """The pose of the current point's body in the world, which is its own pose."""
        e, b = self.emitter, self.b
        found = self.load(x, Reads.HOST, like)
        is_world = b.icmp_signed("<", self.body_of_point, i64(0))
        still = [1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]
        pairs = zip(still, found.entries, strict=True)
        return found.like(
            [Lane(e, b.select(is_world, e.lift(x).value, e.lift(y).value)) for x, y in pairs]
        )

    def off_hubs(self, x: bl.Block) -> bl.Block:
        """What comes from the parent, or nothing where the parent is a hub."""
        e, b = self.emitter, self.b
        stands = b.icmp_signed("!=", self.on_hub, i64(0))
        zero = e.constant(0.0).value
        entries = [Lane(e, b.select(stands, zero, e.lift(y).value)) for y in x.entries]
        return x.like(entries)
