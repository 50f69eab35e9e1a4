"""Unit vectors at points: a trace over points is a sum over them, one for each row."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.core.expressions import GENERAL, ONE, Expr, Row, Space, leaf
from phipsi.core.model import Model, PointSet
from phipsi.core.operators.block_values import ConstantBlocks


class PointUnit(ConstantBlocks):
    """The vector at points that is 1 in one component, of all components in a row."""

    takes, symmetric = ONE, False
    symbol, latex, power = "e", "e", ("", "")

    def __init__(self, gives: Space, component: int) -> None:
        self.gives, self.component = gives, component
        self.name = f"unit_{gives.name}_{component}"

    def __repr__(self) -> str:
        return f"<{self.name}>"

    @property
    def is_inertia(self) -> bool:
        """A vector is none."""
        return False

    @property
    def words(self) -> str:
        """What it is, in an error."""
        return "a unit vector"

    def at(self, model: Model, k: int) -> NDArray[Any]:
        """Bodies have none."""
        raise NotImplementedError

    def at_point(self, model: Model, i: int, count: int) -> NDArray[Any]:
        """The component of point i, (6, 1)."""
        return np.eye(6 * count)[6 * i : 6 * i + 6, self.component, None]

    def check_points(self, points: PointSet) -> None:
        """It fits all points."""

    def check_model(self, model: Model) -> None:
        """It fits all models."""

    def check_inverse(self, key: str, x: NDArray[Any], inverse: NDArray[Any]) -> None:
        """Vectors have no inverse."""

    def differences(self, other: Any) -> list[str]:
        """None: the name says which one it is."""
        return []


@lru_cache(maxsize=2**12)
def _unit(space: Space, component: int) -> Row:
    unit = PointUnit(space, component)
    return Row(
        unit.name, f"e{component}", f"e_{{{component}}}", ONE, space, GENERAL,
        value=unit,
        blocks=lambda lowering, x: lowering.table(unit),
        matrix=lambda configuration: configuration.table(unit),
        meaning="unit vector at the points",
        remake=(_unit, (space, component)),
    )  # fmt: skip


def point_units(space: Space, count: int) -> list[Expr]:
    """The unit vectors of motions or forces at so many points."""
    return [leaf(_unit(space, i)) for i in range(6 * count)]
