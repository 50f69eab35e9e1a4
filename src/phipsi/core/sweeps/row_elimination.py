"""Passes that write expressions of bodies with more than six rows on six rows.

Rows of a body that are rates of its joint (`core/model/rate_rows.py`) make every block larger. If
nothing comes to them from other bodies, programs need not have them: a pass after the rules, before
fields are made, writes expressions between joints, points and six rows. The class of the rows says
which pass that is.

Reasons: docs/decisions/0060, 0071.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Protocol

from phipsi.core.expressions import Expr, Number
from phipsi.core.model import Model, RateRows, rate_rows_of
from phipsi.core.operators import Riccati
from phipsi.core.sweeps.ir import Field

Terms = list[tuple[Number, Expr]]


class KeptRows(Exception):
    """Raised by a pass that cannot eliminate the additional rows from an expression."""


class RowElimination(Hashable, Protocol):
    """A compiler pass for mechanisms whose bodies have additional rows of one kind.

    Equal objects give equal programs. The last three methods compute blocks of matrices, with the
    `Lowering` as an argument.

    Parameters
    ----------
    *args, **kwargs
        Those of the class that implements the protocol.
    """

    def before_rules(self, x: Expr) -> Expr:
        """The expression that rules see; modes of flexible bodies are not in it."""
        ...

    def eliminated(self, x: Expr, matrix: bool) -> Expr:
        """The expression on six rows; a `KeptRows` if it is not known. `matrix`: as blocks."""
        ...

    def kept(self, x: Expr) -> Expr:
        """Back from `before_rules`, for programs with the rows."""
        ...

    def moved(self, low: Any, family: Riccati | None, pose: Field, block: Field) -> Field:
        """A block in the frame of the root."""
        ...

    def behind_gain(self, low: Any, family: Riccati, inner: Terms, outer: Terms) -> Field:
        """The block that a path begins with: π̄ X of the terms inside, and those outside."""
        ...

    def on_diagonal(self, low: Any, terms: Terms, symmetric: bool) -> Field:
        """The sum of memoryless terms between rates."""
        ...


def elimination_of(model: Model | None) -> RowElimination | None:
    """The pass for a model whose bodies have more than six rows by one kind alone; else None."""
    if model is None or not model.has_more_rows or model.is_flexible:
        return None
    found: list[Any] = [x for x in map(rate_rows_of, model.joints) if x is not None]
    kinds: set[type[RateRows]] = {type(x) for x in found}
    return kinds.pop().elimination(found) if len(kinds) == 1 else None
