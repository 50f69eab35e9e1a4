"""Rows whose coefficients are derivatives of a function of coordinates: f(x) = 0.

x are coordinates of joints with one each. With the rate of coordinate j written as a constant row
n_j on the motions of the two bodies that its joint joins, the row of f is Σ_j (∂f/∂x_j) n_j. A link
of such a row has the six numbers n_j at one frame, and this form.

Reasons: docs/decisions/0057.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

MOST_COORDINATES = 6
"""The most coordinates of one function: they travel between the bodies as a vector of six."""


class RowLaw(Protocol):
    """A function of a few coordinates, with its derivatives, on any scalars.

    `size`, how many coordinates it has; `text`, what it is, equal for equal functions. `x` and the
    directions are entries, one for each coordinate; `ops` computes on them (`entrywise`, `number`).
    """

    size: int
    text: str

    def value(self, x: Sequence[Any], ops: Any) -> Any:
        """f(x)."""
        ...

    def slope(self, j: int, x: Sequence[Any], directions: Sequence[Sequence[Any]], ops: Any) -> Any:
        """∂f/∂x_j, differentiated along directions that are held."""
        ...

    def steepness(
        self, j: int, x: Sequence[Any], directions: Sequence[Sequence[Any]], ops: Any
    ) -> list[Any]:
        """The derivative of that by every coordinate."""
        ...


@dataclass(frozen=True, eq=False)
class LawForm:
    """The form of a link: coordinate `slot` of a `law`, whose coordinates are `places` in q."""

    law: RowLaw
    slot: int
    places: tuple[int, ...]

    def __repr__(self) -> str:
        """All that the code of the link depends on."""
        return f"law {self.slot} at {self.places} of {self.law.text}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LawForm) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def padded(self, numbers: Sequence[Any]) -> list[Any]:
        """Numbers for the coordinates, with zeros behind them."""
        return [*numbers, *[0] * (MOST_COORDINATES - len(numbers))]
