"""Newton's method onto the constraints of closed chains, written once for any `Machine`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, final

from phipsi.core.machine import Index, Machine, Mask, Number

ROUNDING = 4e-16
"""Residuals of this size are not corrected."""
NEAR = 1e-12
"""With a residual (rad, m) up to this, rates are projected before the last step, which is shorter
than that."""


class ProjectedRows(Protocol):
    """Rows of constraints at the configuration that a projection has come to."""

    def look(self) -> Number:
        """Compute the residuals; the largest one, NaN if one of them is not finite."""
        ...

    def correct(self, moves: Mask, final: Mask) -> None:
        """Compute the corrections: of q where it `moves`, and of v in the `final` lanes.

        Doubts about rows are failures in the `final` lanes only, whose loops are closed.
        """
        ...

    def move(self) -> None:
        """Take the correction of q, in the lanes of the mask."""
        ...

    def change_rates(self) -> None:
        """Take the correction of v, in the lanes of the mask."""
        ...


@final
class LoopProjection:
    """Configurations near those of `equations` at which the rows vanish, in every lane.

    After a residual within the tolerance comes one step more: it squares the error. A lane that is
    done is left alone.
    """

    def __init__(
        self, m: Machine, equations: ProjectedRows, tolerance: float, iterations: int
    ) -> None:
        self.m, self.equations = m, equations
        self.tolerance, self.iterations = tolerance, iterations
        self.done, self.last = m.array(), m.array()

    def run(self, watch: Callable[[Index, Mask], None] | None = None) -> None:
        """Project, until lanes are done: `done` says which are.

        ``watch(turn, moves)`` is called in every turn before q moves in these lanes.
        """
        m, equations, tolerance = self.m, self.equations, self.tolerance
        self.done.value, self.last.value = 0.0, 0.0

        @m.while_any(lambda: self.done.value < 1.0, self.iterations + 1)
        def _(turn: Index) -> None:
            error = equations.look()
            closed = error <= tolerance
            last = (self.last.value > 0.0) & closed
            final = last | (error <= NEAR)
            moves = ~(last | (error <= ROUNDING))
            if watch is not None:
                watch(turn, moves)
            equations.correct(moves, final)
            m.when(moves)(equations.move)
            m.when(final)(equations.change_rates)
            self.last.value = m.to_flag(closed)
            m.raise_flag(self.done, final)
