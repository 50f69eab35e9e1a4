"""The certificate of a run with contacts: how far its steps were from the laws of contact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@final
@dataclass(frozen=True)
class Certificate:
    """The worst of all steps of every trajectory, and sums over them.

    **Attributes:** arrays (...) with the batch of the run: `overlap`, m, the deepest at the start
    of a step; `residual`, m/s, of Signorini's and Coulomb's laws; `gain`, J, the largest kinetic
    energy that contacts added in a step, which exact impulses never do; `iterations`, the most
    factorisations in a step; `dissipated`, J, energy lost in contacts; `unsolved`, how many steps
    have a residual above the tolerance and above rounding; `steps`, how many there were.
    """

    overlap: Array
    residual: Array
    gain: Array
    iterations: Array
    dissipated: Array
    unsolved: Array
    steps: int

    @property
    def is_clean(self) -> bool:
        """Whether every step of every trajectory was solved."""
        return not np.any(self.unsolved)

    def __str__(self) -> str:
        count = int(np.size(self.overlap))
        many = f"{count} trajectories" if np.ndim(self.overlap) else "one trajectory"

        def largest(x: Array, unit: str) -> str:
            where = ""
            if np.ndim(x) and count > 1:
                place = np.unravel_index(int(np.argmax(x)), np.shape(x))
                where = f"   in trajectory {', '.join(map(str, place))}"
            return f"{float(np.max(x)) if count else 0.0:10.3g} {unit}{where}"

        lines = [
            f"contacts of {many}, {self.steps} steps",
            f"  overlap, deepest         {largest(self.overlap, 'm')}",
            f"  residual, largest        {largest(self.residual, 'm/s')}",
            f"  energy gained in a step  {largest(self.gain, 'J')}",
            f"  energy dissipated        {largest(self.dissipated, 'J')}",
            f"  factorisations in a step {largest(self.iterations, '')}".rstrip(),
            f"  steps not solved         {int(np.sum(self.unsolved)):10d} of {count * self.steps}",
        ]
        return "\n".join(lines)
