"""Loop closures in generated code: frames seen from each other, and the rows of A at links."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phipsi.backends.native import blocks as bl
from phipsi.backends.native.memory import Memory
from phipsi.model.closure_rows import (
    closure_row,
    closure_row_along,
    closure_row_rate,
    relative_twist,
)
from phipsi.sweeps.ir import Field


class ClosureCode:
    """The operations on points, links and rows; `BodyCode` has the rest."""

    memory: Memory
    blank: Callable[[Field], bl.Block]
    sqrt: Callable[[Any], Any]
    _view: Callable[[Field, Callable[[Field], bl.Block]], bl.Block]
    _rigid: Callable[[Field], bl.Rigid]
    _column: Callable[[Field], list[Any]]
    _point_frame: Callable[[Field], bl.Block]

    def _selected(self, x: Field) -> bl.Block:
        inside = self.memory.selected(str(x.data))
        return bl.Symmetric([inside if i == j else 0 for i in range(6) for j in range(i + 1)], 6)

    def _frame_in_world(self, x: Field) -> bl.Rigid:
        m = self.memory
        pose = self._view(x, lambda r: m.pose_of_body(r, self.blank(r)))
        out = bl.times(pose, self._point_frame(x))
        assert isinstance(out, bl.Rigid)
        return out

    def _relative(self, x: Field) -> bl.Block:
        here = self._frame_in_world(x.args[0])
        there: bl.Rigid = self.memory.at_mate(lambda: self._frame_in_world(x.args[0]))
        back = bl.transpose_rows(here.turn)
        gap = bl.plus(there.arm, [bl.neg(c) for c in here.arm])
        return bl.Rigid(bl.matmul(back, there.turn), bl.matvec(back, gap))

    def _relative_twist(self, x: Field) -> bl.Block:
        seen = self._rigid(x.args[0])
        own, other = self._column(x.args[1]), self._column(x.args[2])
        return bl.Dense([[c] for c in relative_twist(seen.turn, seen.arm, own, other)])

    def _closure_row(self, x: Field) -> bl.Block:
        form, side = self.memory.link_code
        seen = self._rigid(x.args[0])
        row = closure_row(form, side, seen.turn, seen.arm, self._numbers(), self.sqrt)
        return bl.Dense([[c] for c in row])

    def _closure_row_rate(self, x: Field) -> bl.Block:
        form, side = self.memory.link_code
        seen, twist = self._rigid(x.args[0]), self._column(x.args[1])
        row = closure_row_rate(form, side, seen.turn, seen.arm, twist, self._numbers(), self.sqrt)
        return bl.Dense([[c] for c in row])

    def _closure_row_along(self, x: Field) -> bl.Block:
        return bl.Dense([[c] for c in self._row_along(x, self._ends(x))])

    def _ends(self, x: Field) -> list[Any]:
        """Pairs of motions, of the frame and of its mate."""
        columns = [self._column(y) for y in x.args[1:]]
        return list(zip(columns[::2], columns[1::2], strict=False))

    def _row_along(self, x: Field, motions: list[Any]) -> list[Any]:
        form, side = self.memory.link_code
        seen, numbers = self._rigid(x.args[0]), self._numbers()
        return closure_row_along(form, side, seen.turn, seen.arm, motions, numbers, self.sqrt)

    def _closure_sway(self, x: Field) -> bl.Block:
        data: Any = x.data
        given, (place, end) = self._ends(x), data
        columns: list[list[Any]] = []
        for i in range(6):
            unit, still = [int(i == j) for j in range(6)], [0] * 6
            free = (unit, still) if end == 0 else (still, unit)
            columns.append(self._row_along(x, [*given[:place], free, *given[place:]]))
        if len(x.args) % 2 == 0:  # multiplied by the component of a force
            (times,) = self._column(x.args[-1])
            columns = [[bl.mul(times, c) for c in column] for column in columns]
        return bl.Dense(bl.transpose_rows(columns))

    def _numbers(self) -> list[Any]:
        if self.memory.link_code[0] not in ("body", "world"):
            return []  # of the others, the residual has a constant, but not its derivative
        return [self.memory.link_constant(i) for i in range(6)]
