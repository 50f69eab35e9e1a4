"""What `Grasp.check` returns: the margins of the inequalities of contact forces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.grasping.contact_inequalities import BORDER
from phipsi.support import fields_in_line

Array = NDArray[Any]


@final
@dataclass(frozen=True, eq=False)
class GraspCheck:
    """Whether contacts stay closed and do not slip.

    Parameters
    ----------
    names : tuple of str, length m
        "contact: what", of each inequality.
    units : tuple of str, length m
        Units of the margins.
    margins : ndarray, shape (..., m)
        By how much each inequality holds; negative where it is violated.
    holds : ndarray of bool, shape (...)
        Whether all hold.
    is_unique : ndarray of bool, shape (...)
        Whether rigid bodies determine the contact forces: if not, the forces that were checked are
        the minimum-norm ones that satisfy all inequalities, or come nearest to it.
    forces : ndarray, shape (..., contacts, 6)
        The contact forces.
    """

    names: tuple[str, ...]
    units: tuple[str, ...]
    margins: Array
    holds: Array
    is_unique: Array
    forces: Array

    def __repr__(self) -> str:
        return fields_in_line(self)

    @property
    def broken(self) -> tuple[str, ...]:
        """Names of inequalities that some element breaks."""
        bad = self.margins < -BORDER * (1 + np.abs(self.forces).max(initial=0.0))
        bad = bad.any(axis=tuple(range(bad.ndim - 1)))
        return tuple(name for name, wrong in zip(self.names, bad, strict=True) if wrong)

    def __str__(self) -> str:
        batch = tuple(range(self.margins.ndim - 1))
        worst = self.margins.min(axis=batch, initial=np.inf)
        lines = [
            f"{'holds' if low >= 0 else 'BREAKS'}  {name}, margin {low:.4g} {unit}"
            for name, low, unit in zip(self.names, worst, self.units, strict=True)
        ] or ["holds  no contact is one-sided"]
        if not np.all(self.is_unique):
            lines.append(
                "rigid bodies do not determine the contact forces; these are the minimum-norm "
                "forces that hold, or those nearest to it"
            )
        return "\n".join(lines)
