"""Sines and cosines of all coordinates at once, in a kernel for one configuration.

Joint by joint they are computed one at a time, and take a sixth of a call. Here lanes are
coordinates. Those that are no angles are computed too, and not used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from phipsi.backends.native.data_record import ANGLES, BUFFERS
from phipsi.backends.native.text import llvm_text as ir
from phipsi.backends.native.text.lanes import Lane, masked_load, write_loop
from phipsi.backends.native.text.trigonometry import define_sincos, i64

if TYPE_CHECKING:
    from phipsi.backends.native.kernel import Kernel


class Angles:
    """Where the kernel finds the sine and cosine of a coordinate that it has read."""

    def __init__(self, kernel: Kernel) -> None:
        self.k = kernel
        self._places: dict[str, Any] = {}  # coordinates by the names of their values
        b = kernel.b
        self._before = b.block  # the loop is written here, if anybody asks
        self._after = b.function.append_basic_block("angles_done")
        b.position_at_end(self._after)
        self._asked = False

    def note(self, x: Lane, place: Any) -> None:
        """A coordinate has been read from its place in q."""
        self._places[x.value.name] = place

    def find(self, x: Lane) -> tuple[Lane, Lane] | None:
        """Sine and cosine of a coordinate, if it is one."""
        place = self._places.get(x.value.name)
        if place is None:
            return None
        self._asked = True
        k, b = self.k, self.k.b
        at = b.mul(place, i64(8))
        sine, cosine = (k.lane_load(base, at) for base in self._tables())
        return sine, cosine

    def _tables(self) -> tuple[Any, Any]:
        k = self.k
        sines = k.area(ANGLES, 8)
        room = k.b.mul(k.b.add(self._count(), i64(k.group.lanes)), i64(8))
        return sines, k.at(sines, room)

    def _count(self) -> Any:
        """The number of coordinates."""
        k = self.k
        return k.word(BUFFERS + k.buffers.count + k.io.inputs["q"].buffer)

    def finish(self) -> None:
        """Write the loop over the coordinates, and go on behind the kernel's last instruction."""
        k, b, g = self.k, self.k.b, self.k.group
        end = b.block
        b.position_at_end(self._before)
        if self._asked:
            function = define_sincos(k.module, g.lanes, fused=g.fused)
            count, q = self._count(), k.buffers.base(k.io.inputs["q"].buffer)
            tables = self._tables()
            lanes = ir.Constant(g.integers, list(range(g.lanes)))

            def some(i: Any) -> None:
                mask = b.icmp_signed("<", lanes, g.splat_integer(b.sub(count, i)))
                at = b.mul(i, i64(8))
                pair = b.call(function, [masked_load(b, g, k.at(q, at), mask)])
                for j, table in enumerate(tables):
                    b.store(b.extract_value(pair, j), k.at(table, at), align=8)

            write_loop(b, count, some, g.lanes)
        b.branch(self._after)
        b.position_at_end(end)
