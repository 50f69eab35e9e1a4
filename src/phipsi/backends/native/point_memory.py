"""What generated code reads at points and links, and at the bodies they are on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, final

from phipsi.backends.native import blocks as bl
from phipsi.backends.native import tables
from phipsi.backends.native.data_record import (
    LINK_DOUBLES,
    LINK_INTEGERS,
    POINT_DOUBLES,
    POINT_INTEGERS,
)
from phipsi.backends.native.text.lanes import DOUBLE, Emitter, Lane
from phipsi.backends.native.text.trigonometry import i64
from phipsi.sweeps.ir import Domain, Field, Reads


class Records(Protocol):
    """The part of a kernel that finds tables and records."""

    b: Any
    emitter: Emitter
    selections: tuple[str, ...]

    def at(self, base: Any, offset: Any) -> Any:
        """base + offset bytes."""
        ...

    def word(self, index: int) -> Any:
        """One word of the data record."""
        ...

    def integer(self, word: int, width: int, k: Any, i: int) -> Any:
        """Number i of row k of a table of integers."""
        ...

    def both(self, domain: Domain, k: Any) -> tuple[Any, Any]:
        """The records of body, point or row k: of what there is once, and of what columns have."""
        ...

    def load(self, x: Field, where: Reads, like: bl.Block) -> bl.Block:
        """A stored block."""
        ...


@final
class PointMemory:
    """The point or link that is being visited: its tables, its body, its mate and its row.

    `records` are those of other places, by the way in which operations read them.
    """

    code: tuple[str, int]  # form and side of the current link

    def __init__(self, kernel: Records) -> None:
        self.k = kernel
        self.records: dict[Reads, tuple[Any, Any]] = {}

    def at_point(self, p: Any) -> None:
        """Go to point p."""
        k = self.k
        self._table = k.at(k.word(POINT_DOUBLES), k.b.mul(p, i64(96)))
        self._body, self._mate, self._chosen = (
            k.integer(POINT_INTEGERS, tables.N_POINT_INTEGERS, p, i)
            for i in (tables.POINT_BODY, tables.POINT_MATE, tables.POINT_CHOSEN)
        )
        host = k.both(Domain.BODY, k.b.add(self._body, i64(1)))
        self.records = {Reads.HOST: host, Reads.MATE: k.both(Domain.POINT, self._mate)}

    def at_link(self, link: Any) -> Any:
        """Go to a link and its point; the number of its kind."""
        k = self.k
        point, row, kind = (
            k.integer(LINK_INTEGERS, tables.N_LINK_INTEGERS, link, i)
            for i in (tables.LINK_POINT, tables.LINK_ROW, tables.LINK_KIND)
        )
        self.at_point(point)
        self.records[Reads.POINT] = k.both(Domain.POINT, point)
        self.records[Reads.ROW] = k.both(Domain.ROW, row)
        self._link_table = k.at(k.word(LINK_DOUBLES), k.b.mul(link, i64(48)))
        return kind

    def at_mate(self, make: Callable[[], Any]) -> Any:
        """What `make` makes at the mate of the current point."""
        saved = dict(vars(self))
        self.at_point(self._mate)
        out = make()
        vars(self).update(saved)
        return out

    def selected(self, name: str) -> Lane:
        """1 if the body of the current point is in a selection, 0 if not."""
        b = self.k.b
        bit = b.and_(b.lshr(self._chosen, i64(self.k.selections.index(name))), i64(1))
        return self.k.emitter.splat(b.uitofp(bit, DOUBLE))

    def constant(self, i: int) -> Lane:
        """A number of the point's table."""
        return self._number(self._table, i)

    def link_constant(self, i: int) -> Lane:
        """A number of the link's table."""
        return self._number(self._link_table, i)

    def _number(self, table: Any, i: int) -> Lane:
        k = self.k
        return k.emitter.splat(k.b.load(k.at(table, i64(8 * i)), typ=DOUBLE))

    def pose_of_body(self, x: Field, like: bl.Block) -> bl.Block:
        """The pose of the current point's body in the world, which is its own pose."""
        e, b = self.k.emitter, self.k.b
        found = self.k.load(x, Reads.HOST, like)
        is_world = b.icmp_signed("<", self._body, i64(0))
        still = [1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]
        pairs = zip(still, found.entries, strict=True)
        return found.like(
            [Lane(e, b.select(is_world, e.lift(x).value, e.lift(y).value)) for x, y in pairs]
        )
