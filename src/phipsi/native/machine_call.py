"""Calls in graphs that are written once for any `Machine`: values on arrays, and machine code."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from phipsi.core.arrays import Array, Primitive, Shape
from phipsi.core.machine import ArrayMachine, ArrayMemory, Machine, Memory
from phipsi.native.graph_lanes import Result, call_text, write_text


class MachineCall(Primitive):
    """A callee whose results are those of `text`.

    **Attributes:** `takes`, the shapes of the arguments; `indexed`, the numbers of those that are
    read at an `Index`; `packed`, the same, of those that are copied first unless their numbers
    follow each other, because each is read several times; `is_shared`, whether the code is a
    function, which equal calls of a module share, and not part of its surroundings.
    """

    takes: tuple[Shape, ...]
    indexed: Sequence[int] = ()
    packed: Sequence[int] = ()
    is_shared = False
    takes_views = True

    @abstractmethod
    def text(self, m: Machine, args: Sequence[Memory]) -> Sequence[Result]:
        """The results: memory that the text has made, or a few numbers."""

    def arrays(self, *args: Array) -> Sequence[Array]:
        """See `Primitive`; all elements of the batch are the lanes of one machine.

        Those that fail have results that are not numbers.
        """
        pairs = list(zip(args, self.takes, strict=True))
        batch = np.broadcast_shapes(*(x.shape[: x.ndim - len(shape)] for x, shape in pairs))
        m = ArrayMachine(math.prod(batch))
        whole = [
            np.broadcast_to(x, (*batch, *shape)).reshape(m.lanes, *shape) for x, shape in pairs
        ]
        with np.errstate(all="ignore"):
            found = self.text(m, [m.input(x) for x in whole])
        out = [x.lanes_first() if isinstance(x, ArrayMemory) else _joined(m, x) for x in found]
        if m.status.any():
            fine = m.status == 0
            out = [np.where(fine.reshape(-1, *[1] * (x.ndim - 1)), x, np.nan) for x in out]
        return [x.reshape((*batch, *y)) for x, y in zip(out, self.shapes, strict=True)]

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """See `Primitive`."""
        if self.is_shared:
            return call_text(code, self.name, self.text, args, self.takes)
        given = list(args)
        for i in self.packed:
            given[i] = code.stored(code.whole(args[i], math.prod(self.takes[i])))
        for i in self.indexed:
            given[i] = code.stored(args[i])
        return write_text(code, self.text, given, self.takes)


def _joined(m: ArrayMachine, numbers: Any) -> Array:
    return np.stack(np.broadcast_arrays(*numbers, np.zeros(m.lanes))[:-1], axis=-1)
