"""Lanes of a rollout whose trajectories have failed: they cost the other lanes no time.

A failed trajectory keeps its last valid state. Every further step would fail in the same way, often
after the longest search, and lanes wait for each other. So its lane repeats the computation of a
lane beside it, and gets its own numbers back after the step. If all lanes have failed, no steps are
computed, and the records are NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from phipsi.native.runs.lane_group import LaneGroup
from phipsi.native.text import llvm_text as ir
from phipsi.native.text.lane_arithmetic import I32, Lane, LaneMask, i64, write_loop


@final
class FrozenLanes:
    """Writes code that gives failed lanes the numbers of another lane during a step.

    Parameters
    ----------
    run : LaneGroup
        The rollout whose code is written.
    areas : sequence of (area, int)
        The memory that steps read, with the count of numbers of each.
    """

    def __init__(self, run: LaneGroup, areas: Sequence[tuple[Any, int]]) -> None:
        self._run = run
        self._areas = [(area, run.area(size), size) for area, size in areas]
        self._over = run.b.alloca(run.e.mask)

    def put_aside(self, over: LaneMask) -> None:
        """Lanes that have failed get the numbers of one that has not."""
        r, b = self._run, self._run.b
        b.store(over.bits, self._over)
        with r.when(r.any(over)):
            chosen: Any = ir.IRConstant(I32, 0)
            for lane in range(r.lanes):
                number = ir.IRConstant(I32, lane)
                chosen = b.select(b.extract_element(over.bits, number), chosen, number)
            for area, kept, size in self._areas:

                def lend(i: ir.IRValue, area: ir.IRValue = area, kept: ir.IRValue = kept) -> None:
                    x = r.load(area, i)
                    r.store(x, kept, i)
                    other = Lane(r.e, r.e.splat(b.extract_element(x.value, chosen)).value)
                    r.store(r.e.select(over.bits, other, x), area, i)

                write_loop(b, i64(size), lend)

    def put_back(self) -> None:
        """These lanes have their own numbers again."""
        r, b = self._run, self._run.b
        over = LaneMask(r.e, b.load(self._over, typ=r.e.mask))
        with r.when(r.any(over)):
            for area, kept, size in self._areas:

                def back(i: ir.IRValue, area: ir.IRValue = area, kept: ir.IRValue = kept) -> None:
                    r.store(r.e.select(over.bits, r.load(kept, i), r.load(area, i)), area, i)

                write_loop(b, i64(size), back)
