"""The certificate of steps with contacts: how far they were from the laws, and where energy went.

The numbers that a step computes, those that a run keeps and those that users read are the same:
`Worst` and `Totals` name them, in the order in which they are kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

WORST = "contact.worst"
"""State of a run: the largest of all steps so far, `Worst` as an array (4,)."""
TOTALS = "contact.totals"
"""State of a run: sums over all steps so far, `Totals` as an array (3,)."""


class Worst(NamedTuple):
    """The largest of all steps: overlap m, residual m/s, gain of energy J, factorisations."""

    overlap: Any
    residual: Any
    gain: Any
    iterations: Any


class Totals(NamedTuple):
    """Sums over all steps: energy dissipated J, work of forces J, steps that are not solved."""

    dissipated: Any
    work: Any
    unsolved: Any


def first_numbers() -> dict[str, Array]:
    """The numbers before the first step, by the names of their states."""
    return {WORST: np.zeros(len(Worst._fields)), TOTALS: np.zeros(len(Totals._fields))}


@final
@dataclass(frozen=True)
class Certificate:
    """The worst of all steps of every trajectory, and sums over them.

    **Attributes:** arrays (...) with the batch of the run: `overlap`, m, the deepest at the start
    of a step; `residual`, m/s, of Signorini's and Coulomb's laws; `gain`, J, the largest kinetic
    energy that contacts added in a step, which exact impulses never do; `iterations`, the most
    factorisations in a step; `dissipated`, J, −Σ p* (u⁻ + u⁺)/2, the energy that contacts took
    (what compliant ones have stored is in it); `work`, J, of efforts and laws; `unsolved`, how many
    steps have a residual above the tolerance and above rounding; `balance`, J, the change of
    kinetic and potential energy + `dissipated` − `work`: the error of the steps, of first order in
    dt. It is NaN where energies are not known, with episodes. `steps`, how many there were.
    """

    overlap: Array
    residual: Array
    gain: Array
    iterations: Array
    dissipated: Array
    work: Array
    unsolved: Array
    balance: Array
    steps: int

    @classmethod
    def of(
        cls, worst: Array, totals: Array, change: Array | None = None, steps: int = 1
    ) -> Certificate:
        """From the numbers (..., 4), (..., 3) of steps, and the change of energy (...), J."""
        w, sums = Worst(*np.moveaxis(worst, -1, 0)), Totals(*np.moveaxis(totals, -1, 0))
        unknown = np.full(np.shape(w.overlap), np.nan)
        balance = unknown if change is None else change + sums.dissipated - sums.work
        counts = {"iterations": w.iterations.astype(int), "unsolved": sums.unsolved.astype(int)}
        known = {**w._asdict(), **sums._asdict(), **counts}
        return cls(**known, balance=balance, steps=steps)

    def __getitem__(self, index: Any) -> Certificate:
        """Of some trajectories."""
        parts = {name: x[index] for name, x in vars(self).items() if name != "steps"}
        return replace(self, **parts)

    @property
    def is_clean(self) -> bool:
        """Whether every step of every trajectory was solved."""
        return not np.any(self.unsolved)

    def __str__(self) -> str:
        count = int(np.size(self.overlap))
        many = f"{count} trajectories" if np.ndim(self.overlap) else "one trajectory"

        def largest(x: Array, unit: str) -> str:
            size, where = np.abs(x), ""
            if not count or np.isnan(size).all():
                return f"{0.0 if not count else np.nan:10.3g} {unit}"
            place = np.unravel_index(int(np.nanargmax(size)), np.shape(x))
            if np.ndim(x) and count > 1:
                where = f"   in trajectory {', '.join(map(str, place))}"
            return f"{float(x[place]) + 0.0:10.3g} {unit}{where}"

        lines = [
            f"contacts of {many}, {self.steps} steps",
            f"  overlap, deepest         {largest(self.overlap, 'm')}",
            f"  residual, largest        {largest(self.residual, 'm/s')}",
            f"  energy gained in a step  {largest(self.gain, 'J')}",
            f"  energy dissipated        {largest(self.dissipated, 'J')}",
            f"  work of efforts and laws {largest(self.work, 'J')}",
            f"  energy not accounted for {largest(self.balance, 'J')}",
            f"  factorisations in a step {largest(self.iterations, '')}".rstrip(),
            f"  steps not solved         {int(np.sum(self.unsolved)):10d} of {count * self.steps}",
        ]
        return "\n".join(lines)


@final
@dataclass
class EventCertificate:
    """The worst of a run with events.

    **Attributes:** `overlap`, m, the largest distance of a closed gap from zero, or overlap of an
    open one; `residual`, m/s or m/s², of the impulses and forces that were solved for; `outside`,
    N, the largest pull, or force outside a friction cone; `gain`, J, the most kinetic energy that
    an impact added, which exact impulses never do; `events`, how many there were; `balance`, J, the
    largest |energy − energy[0] − work|; `dissipated`, J, by friction and impacts.
    """

    overlap: float
    residual: float
    outside: float
    gain: float
    events: int
    balance: float
    dissipated: float

    @property
    def is_clean(self) -> bool:
        """Whether all problems were solved; a run ends with an error where one was not."""
        return bool(np.isfinite(self.residual))

    def __str__(self) -> str:
        lines = [
            f"contacts with {self.events} events",
            f"  overlap, deepest         {self.overlap:10.3g} m",
            f"  residual, largest        {self.residual:10.3g} m/s or m/s²",
            f"  force outside its cone   {self.outside:10.3g} N",
            f"  energy gained in impacts {self.gain:10.3g} J",
            f"  balance of energy        {self.balance:10.3g} J",
            f"  energy dissipated        {self.dissipated:10.3g} J",
        ]
        return "\n".join(lines)
