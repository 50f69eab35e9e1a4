"""Rows of a body beyond six that are rates of its joint: inertia between a joint and its bodies.

Something at a joint may couple its rates with the motion of the bodies on both sides, by moments
that are those of no constant inertia (a spinning rotor on a skew axis). The body behind the joint
then has a row for each of these rates, and no coordinates more:

    V(k) = [ω; v; rates],   H(k) = [H_J, 1],   E_φ(p, k) = [X, 0]

and all of the coupling is in M(k), which may depend on the coordinates of its own joint. An
attachment gives such rows to joints (`Attachment.add_inertia`); a class derived from `RateRows`
says what they are. Operations, dense formulas and the compiler ask it, and know nothing else of the
feature.

Reasons: docs/decisions/0060, 0071.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar


class RateRows(ABC):
    """The rate rows of one body: their velocities, their numbers, and the inertia that they have.

    A hashable value. The methods for programs are written once for any scalar, with the arithmetic
    `a` of a backend (`core/sweeps/arithmetic.py`) at the body.

    Attributes
    ----------
    rates : tuple of int
        Which of the joint's velocities have rows, in its own numbering.
    attachment : str
        The field of the attachment in stored models that the rows come from.
    """

    __slots__ = ()
    attachment: ClassVar[str]
    rates: tuple[int, ...]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: rows of the rates {', '.join(map(str, self.rates))}>"

    # ---- numbers ---------------------------------------------------------------------------------

    @property
    @abstractmethod
    def numbers(self) -> list[float]:
        """All numbers that are not known to be zero; they follow the parameters of the joint."""

    @property
    @abstractmethod
    def kinds(self) -> tuple[str, ...]:
        """What `numbers` are, as the `param_kinds` of a joint: "axis" or "number"."""

    @property
    @abstractmethod
    def formulas(self) -> str:
        """What formulas depend on: rows with the same text share their code."""

    @property
    def aligned(self) -> tuple[float, ...] | None:
        """The first vector of `numbers`, if generated code may rotate it onto x.

        It must be at right angles to the axis of the joint. Joints without rows then may share the
        code of those with them, with zeros as numbers.
        """
        return None

    # ---- programs with the rows ------------------------------------------------------------------

    @abstractmethod
    def inertia(self, a: Any) -> Any:
        """M(q), a symmetric block of 6 + n rows."""

    @abstractmethod
    def inertia_along(self, a: Any, directions: Sequence[Sequence[Any]]) -> list[Any]:
        """The lower half of Ṁ{…}, along rates of the rows, one direction after the other."""

    @abstractmethod
    def second(self, a: Any, given: Sequence[Sequence[Any]], y: Any, z: Any) -> list[Any]:
        """The lower half of z* Ṁ{s; t; …} y by s and t, zeros for rigid motions."""

    @abstractmethod
    def gyroscopic(self, a: Any, rows: Any, V: Sequence[Any]) -> Any:
        """b, from all entries of M(q) and the motion [ω; v; rates]."""

    # ---- programs without them -------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def elimination(cls, rows: Sequence[Any]) -> Any:
        """The pass that writes expressions of such bodies on six rows; see `RowElimination`.

        Parameters
        ----------
        rows : sequence of RateRows
            The rows of all bodies of a mechanism that have any.

        Returns
        -------
        RowElimination or None
            None if there is no such pass.
        """

    # ---- elsewhere -------------------------------------------------------------------------------

    @abstractmethod
    def dense_inertia(self, c: Any, k: int, along: Sequence[Any] = ()) -> Any:
        """M(k), or its change along velocities of the rows, as a matrix for `pp.evaluate_dense`.

        It is written without the operations, which it checks.

        Parameters
        ----------
        c : Configuration
            The configuration.
        k : int
            The body.
        along : sequence, optional
            Velocities of the rows. Default: M(k) itself.

        Returns
        -------
        ndarray
            The matrix.
        """

    @abstractmethod
    def refusal(self, function: str, model: Any, joint: str) -> str:
        """The error of a function that does not support what is at a joint."""


def rate_rows_of(joint: Any) -> Any:
    """The `RateRows` at a joint, or None."""
    return getattr(joint, "rate_rows", None)
