"""General rows on the motions of points: rolling, knife edges, prescribed speeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast, final

import numpy as np
from numpy.typing import ArrayLike

from phipsi.constraints.constraint import Array, Constraint, check_name, numbers_of, resolved_point
from phipsi.errors import ModelError, one_of
from phipsi.model.closures import Closure
from phipsi.model.model import Model
from phipsi.model.value import read_only


@final
@dataclass(frozen=True, eq=False)
class Rows(Constraint):
    """General rows A V = rates on the motions of points: rolling, knife edges, prescribed speeds.

    `points` as for `jacobian`; `A` (rows, 6 · points), constant, on their motions [angular;
    linear], in world axes or (``axes="body"``) in the axes of each point's body or frame; `rates`,
    constant numbers, one or one per row. They bind velocities only: there is no position to
    assemble, so their residual is 0.
    """

    name: str = field(kw_only=True)
    points: Sequence[Any] = field(kw_only=True)
    A: ArrayLike = field(kw_only=True)
    rates: ArrayLike = field(default=0.0, kw_only=True)
    axes: str = field(default="world", kw_only=True)

    def __post_init__(self) -> None:
        check_name(self.name, "Rows")
        who, points = f"Rows {self.name!r}", self.points
        one_of(f"{who}: axes", self.axes, ("world", "body"), error=ModelError)
        if not isinstance(cast(object, points), Sequence) or isinstance(points, str) or not points:
            raise ModelError(f"{who}: points must be a list, also for one: points=[{points!r}]")
        matrix, size = numbers_of(self.A, f"{who}: A"), 6 * len(points)
        if matrix.ndim != 2 or not len(matrix) or matrix.shape[1] != size:
            raise ModelError(
                f"{who}: A has shape {matrix.shape}, but {len(points)} points have {size} velocity "
                f"components, [angular; linear] of each: A must be (rows, {size})."
            )
        rates = numbers_of(self.rates, f"{who}: rates")
        if rates.shape not in ((), (len(matrix),)):
            raise ModelError(
                f"{who}: rates of shape {rates.shape} must be one number or {len(matrix)}, one per "
                f"row of A."
            )
        if not np.isfinite(matrix).all() or not np.isfinite(rates).all():
            raise ModelError(f"{who}: A and rates must be finite.")
        empty = np.flatnonzero(~matrix.any(axis=1))
        if empty.size:
            raise ModelError(f"{who}: row {empty[0]} of A is zero and constrains nothing.")
        object.__setattr__(self, "points", tuple(points))
        object.__setattr__(self, "A", read_only(matrix))
        object.__setattr__(self, "rates", read_only(np.broadcast_to(rates, (len(matrix),))))

    def closure(self, model: Model) -> Closure:
        """Constant rows on the points."""
        matrix = np.asarray(self.A)
        return Closure(
            name=self.name,
            rows=tuple(str(i) for i in range(len(matrix))),
            points=tuple(resolved_point(model, p, f"Rows {self.name!r}") for p in self.points),
            matrix=matrix,
            axes=self.axes,
        )

    def prescribed(self, rows: int) -> Array:
        """The rates given."""
        return np.asarray(self.rates)

    def fitted(self, model: Model, q: Array) -> Rows:
        """Itself: it has no position."""
        return self
