"""The certificate of steps with contacts: how far they were from the laws, and where energy went.

The numbers that a step computes, those that a run keeps and those that users read are the same:
`MaxResiduals` and `StepTotals` name them, in the order in which they are kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from phipsi.support import fields_in_line

Array = NDArray[Any]

WORST = "contact.worst"
"""State of a run: the largest of all steps so far, `MaxResiduals` as an array (6,)."""
TOTALS = "contact.totals"
"""State of a run: sums over all steps so far, `StepTotals` as an array (5,)."""


class MaxResiduals(NamedTuple):
    """The largest of all steps.

    Penetration m, residual m/s, gain of energy J, factorisations, the angle beyond a stop rad, and
    the move of a body that velocities do not explain m.
    """

    overlap: Any
    residual: Any
    gain: Any
    iterations: Any
    angle: Any
    moved: Any


class StepTotals(NamedTuple):
    """Sums over all steps: energy dissipated J, work of forces J, and how many steps there were.

    Those that are not solved, those that displaced bodies, and all.
    """

    dissipated: Any
    work: Any
    unsolved: Any
    displaced: Any
    taken: Any


def first_numbers() -> dict[str, Array]:
    """The numbers before the first step, by the names of their states."""
    return {WORST: np.zeros(len(MaxResiduals._fields)), TOTALS: np.zeros(len(StepTotals._fields))}


@final
@dataclass(frozen=True)
class Certificate:
    """The largest residuals of all steps of every trajectory, and sums over the steps.

    All arrays (...) have the batch of the rollout.

    Parameters
    ----------
    overlap : ndarray
        m, the deepest penetration at the start of a step, of contacts, ropes and limits of sliding
        joints.
    angle : ndarray
        rad, the farthest that a revolute joint was beyond a rigid limit there.
    residual : ndarray
        m/s (rad/s of revolute joints), of Signorini's and Coulomb's laws.
    gain : ndarray
        J, the largest kinetic energy that contacts added in a step, which exact impulses never do.
    iterations : ndarray of int
        The most factorisations in a step.
    moved : ndarray
        m, the farthest that a step moved a body beyond what its velocities before and after the
        impact, and the penetration at the start of the step, explain.
    dissipated : ndarray
        J, −Σ p* (u⁻ + u⁺)/2, the energy that contacts took, including what compliant ones have
        stored.
    work : ndarray
        J, of joint torques and laws.
    unsolved : ndarray of int
        How many steps have a residual above the tolerance and above rounding.
    displaced : ndarray of int
        How many steps moved a body by more than 0.1 of the margin of the contacts beyond what is
        explained, or began with rigid bodies that deep in each other, although their velocities do
        not explain it.
    balance : ndarray
        J, the change of kinetic and potential energy + `dissipated` − `work`: the error of the
        steps, of first order in dt. NaN where energies are not known, with episodes.
    steps : int
        Number of steps.
    turns : bool, optional
        Whether revolute joints have limits or dry friction.
    """

    overlap: Array
    angle: Array
    residual: Array
    gain: Array
    iterations: Array
    moved: Array
    dissipated: Array
    work: Array
    unsolved: Array
    displaced: Array
    balance: Array
    steps: int
    turns: bool = False

    def __repr__(self) -> str:
        return fields_in_line(self)

    @classmethod
    def of(
        cls,
        worst: Array,
        totals: Array,
        change: Array | None = None,
        steps: int = 1,
        *,
        turns: bool = False,
    ) -> Certificate:
        """From the numbers (..., 6), (..., 5) of steps, and the change of energy (...), J."""
        w, sums = MaxResiduals(*np.moveaxis(worst, -1, 0)), StepTotals(*np.moveaxis(totals, -1, 0))
        unknown = np.full(np.shape(w.overlap), np.nan)
        balance = unknown if change is None else change + sums.dissipated - sums.work
        known = {**w._asdict(), **sums._asdict()}
        del known["taken"]
        known |= {n: known[n].astype(int) for n in ("iterations", "unsolved", "displaced")}
        return cls(**known, balance=balance, steps=steps, turns=turns)

    def __getitem__(self, index: Any) -> Certificate:
        """Of some trajectories."""
        parts = {n: x[index] for n, x in vars(self).items() if n not in ("steps", "turns")}
        return replace(self, **parts)

    @property
    def is_clean(self) -> bool:
        """Whether every step of every trajectory was solved, and none displaced bodies."""
        return not (np.any(self.unsolved) or np.any(self.displaced))

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

        unit, stops = "m/s", []
        if self.turns:
            unit = "m/s or rad/s"
            stops = [f"  beyond a stop, farthest  {largest(self.angle, 'rad')}"]
        lines = [
            f"contacts of {many}, {self.steps} steps",
            f"  overlap, deepest         {largest(self.overlap, 'm')}",
            *stops,
            f"  residual, largest        {largest(self.residual, unit)}",
            f"  move without velocity    {largest(self.moved, 'm')}",
            f"  energy gained in a step  {largest(self.gain, 'J')}",
            f"  energy dissipated        {largest(self.dissipated, 'J')}",
            f"  work of efforts and laws {largest(self.work, 'J')}",
            f"  energy error of steps    {largest(self.balance, 'J')}",
            f"  factorisations in a step {largest(self.iterations, '')}".rstrip(),
            f"  steps not solved         {int(np.sum(self.unsolved)):10d} of {count * self.steps}",
            f"  steps that displace      {int(np.sum(self.displaced)):10d} of {count * self.steps}",
        ]
        return "\n".join(lines)


@final
@dataclass
class EventCertificate:
    """The largest residuals of a simulation with events.

    Parameters
    ----------
    overlap : float
        m, the largest distance of a closed gap from zero, or penetration of an open one.
    angle : float
        rad, the same of rigid limits of revolute joints.
    residual : float
        m/s or m/s², of the impulses and forces that were solved for.
    outside : float
        N (N·m at revolute joints), the largest pull, or force outside a friction cone.
    gain : float
        J, the most kinetic energy that an impact added, which exact impulses never do.
    events : int
        Number of events.
    balance : float
        J, the largest |energy − energy[0] − work|.
    dissipated : float
        J, by friction and impacts.
    turns : bool, optional
        Whether revolute joints have limits or dry friction.
    """

    overlap: float
    angle: float
    residual: float
    outside: float
    gain: float
    events: int
    balance: float
    dissipated: float
    turns: bool = False

    def __repr__(self) -> str:
        return fields_in_line(self)

    @property
    def is_clean(self) -> bool:
        """Whether all problems were solved; a run ends with an error where one was not."""
        return bool(np.isfinite(self.residual))

    def __str__(self) -> str:
        rate, force, stops = "m/s or m/s²", "N", []
        if self.turns:
            rate, force = f"{rate}, rad/s or rad/s²", "N or N·m"
            stops = [f"  beyond a stop, farthest  {self.angle:10.3g} rad"]
        lines = [
            f"contacts with {self.events} events",
            f"  overlap, deepest         {self.overlap:10.3g} m",
            *stops,
            f"  residual, largest        {self.residual:10.3g} {rate}",
            f"  force outside its cone   {self.outside:10.3g} {force}",
            f"  energy gained in impacts {self.gain:10.3g} J",
            f"  balance of energy        {self.balance:10.3g} J",
            f"  energy dissipated        {self.dissipated:10.3g} J",
        ]
        return "\n".join(lines)
