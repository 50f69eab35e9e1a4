"""ContactRecord: what the contacts of a run did, and how far they were from their laws."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.model.contact_pairs import Contacts

Array = NDArray[Any]

OPEN, SLIPS, STICKS = range(3)
"""Modes of slots."""


@final
@dataclass(eq=False)
class ContactRecord:
    """Contacts along a trajectory, and the certificate of the run.

    **Attributes:** `contacts`; at the samples of the trajectory: `forces` (k, slots, 6),
    [moment; force] on side a of every slot, world axes, N·m and N; `gaps` (k, slots), m; `modes`
    (k, slots): 0 open, 1 slips (or has no friction), 2 sticks. Over all steps: `overlap`, m, the
    deepest; `residual`, m/s or m/s², the largest of the impulses and forces that were solved for;
    `outside`, N, the largest pull, or force outside a friction cone; `gain`, J, the most kinetic
    energy that an impact or a step added, which exact impulses never do; `balance`, J, the largest
    |energy − energy[0] − work|, nan if it was not integrated; `dissipated`, J, by friction and
    impacts; `events`, how many events of contacts there were.
    """

    contacts: Contacts
    forces: Array
    gaps: Array
    modes: Array
    overlap: float
    residual: float
    outside: float
    gain: float
    events: int
    balance: float = math.nan
    dissipated: float = 0.0

    def close(self, balance: float, dissipated: float) -> None:
        """Add the energies of the whole run."""
        self.balance, self.dissipated = balance, dissipated

    def force_on(self, pair: str) -> Array:
        """The force (k, 3) of a pair "a|b" on its side a, N, world axes: the sum over its slots."""
        names = np.array(self.contacts.slot_names)
        if pair not in names:
            known = ", ".join(map(repr, dict.fromkeys(names.tolist())))
            raise KeyError(f"{pair!r} is not a pair of these contacts: {known}")
        return self.forces[:, names == pair, 3:].sum(axis=1)

    def check(self) -> str:
        """The certificate as text, which is printed too.

        Worst overlap, residual of the laws of contact, violation of cones, balance of energy.
        """
        text = str(self)
        print(text)
        return text

    def __str__(self) -> str:
        balance = "   not integrated" if np.isnan(self.balance) else f"{self.balance:10.3g} J"
        return "\n".join([
            f"contacts of {self.contacts.n_slots} slots, {self.events} events",
            f"  overlap, deepest         {self.overlap:10.3g} m",
            f"  residual, largest        {self.residual:10.3g} m/s or m/s²",
            f"  force outside its cone   {self.outside:10.3g} N",
            f"  energy gained in impacts {self.gain:10.3g} J",
            f"  balance of energy        {balance}",
            f"  energy dissipated        {self.dissipated:10.3g} J",
        ])  # fmt: skip

    def __repr__(self) -> str:
        return f"<ContactRecord: {self.contacts.n_slots} slots, {self.events} events>"
