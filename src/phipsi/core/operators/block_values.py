"""What blocks may be made of besides the rows of the catalogue: constants, and functions of a body.

Leaves of other rooms, such as operators of users, have such values; programs, derivatives and dense
matrices know these two kinds only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from phipsi.core.expressions import Expr, Function, Space
from phipsi.core.model import Model, PointSet
from phipsi.core.spatial import ScalarOps


class ConstantBlocks(ABC):
    """Constant blocks of an operator or a vector, one for each body, in body axes.

    Or one for each point, in the axes of the points.

    **Attributes:** `name`; `takes` and `gives`; `symmetric`, whether all blocks are; `is_inertia`,
    whether they have the form of rigid inertias; `words`, what they are, for errors.
    """

    name: str
    takes: Space
    gives: Space
    symmetric: bool

    @property
    @abstractmethod
    def is_inertia(self) -> bool:
        """Whether every block is [[J, h~], [−h~, m]]."""

    @property
    @abstractmethod
    def words(self) -> str:
        """What it is, in an error."""

    @abstractmethod
    def at(self, model: Model, k: int) -> NDArray[Any]:
        """The block of body k, (rows, cols); a vector has one column."""

    @abstractmethod
    def at_point(self, model: Model, i: int, count: int) -> NDArray[Any]:
        """The block of point i of so many, (6, 6)."""

    @property
    def of_points(self) -> bool:
        """Whether there is a block for each point, not for each body."""
        return self.gives.index == "point"

    @abstractmethod
    def check_points(self, points: PointSet) -> None:
        """Reject points for which there are no blocks, and frames of closures."""

    @abstractmethod
    def check_model(self, model: Model) -> None:
        """Reject a model whose bodies and joints the blocks do not fit."""

    @abstractmethod
    def check_inverse(self, key: str, x: NDArray[Any], inverse: NDArray[Any]) -> None:
        """Reject blocks whose product is not the identity, up to rounding."""

    @abstractmethod
    def differences(self, other: Any) -> list[str]:
        """The first number in which it differs from others of the same name, for an error."""


@dataclass(frozen=True, eq=False, repr=False)
class BodyFunction(Function):
    """A function of quantities of one body, entry by entry; nothing is said about linearity.

    A function that gives a number is summed over the bodies. `symmetric`, whether its blocks are.
    """

    symmetric: bool = False

    def __call__(self, *args: Expr, hole: int | None = None) -> Expr:
        """The node f(args)."""
        raise NotImplementedError

    def block(self, width: int, arguments: Sequence[Any], ops: ScalarOps) -> list[list[Any]]:
        """The block of a body whose joint has so many degrees of freedom, on any kind of number.

        `arguments` are blocks as rows of entries.
        """
        raise NotImplementedError

    def flops(self, width: int) -> int:
        """Floating-point operations for one body with such a joint."""
        raise NotImplementedError

    def change(self, args: Sequence[Expr], changes: Sequence[Expr]) -> Expr:
        """How f(args) changes with its arguments, linear in the changes."""
        raise NotImplementedError

    def weight(self, args: Sequence[Expr], i: int, Z: Expr) -> Expr:
        """The weight W of argument i with tr(Z δf) = tr(W δX), or w* δx, while others are held."""
        raise NotImplementedError

    def named(self, word: str) -> BodyFunction | None:
        """Itself or one of its derivatives, by the name that is printed."""
        raise NotImplementedError
