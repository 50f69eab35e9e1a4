"""Contacts of a recorded run: gaps and forces of pairs by name, and the certificate."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from phipsi.contact.certificate import Certificate, EventCertificate
from phipsi.contact.contact_pairs import Contacts
from phipsi.contact.contact_points import ContactPoints, contact_points
from phipsi.errors import InputError, did_you_mean

Array = NDArray[Any]

OPEN, SLIPS, STICKS = range(3)
"""Modes of slots."""


class PairRecord(NamedTuple):
    """One pair of shapes over time.

    `gap` (..., kept), m, the smallest of its slots; `force` (..., kept, 3), N, the sum of its slots
    on side a in world axes.
    """

    gap: Array
    force: Array


@final
class ContactRecord:
    """Contacts at the recorded times of a simulation.

    ``record["foot|ground"]`` is the `PairRecord` of a pair.

    Attributes
    ----------
    contacts : Contacts
        The pairs.
    names : tuple of str
        Names of the contact candidates (slots).
    t : ndarray, shape (..., kept)
        s.
    points : ContactPoints
        Of all slots, (..., kept, k).
    gaps : ndarray, shape (..., kept, k)
        m.
    forces : ndarray, shape (..., kept, k, 6)
        [moment; force] on side a in world axes, N·m and N, means over the step that ends at that
        time (in simulations with events, those at that time).
    modes : ndarray of int, shape (kept, k)
        Of `simulate`: 0 open, 1 slips (or has no friction), 2 sticks.
    joint_forces : dict
        Of simulations with events: "stop" and "friction" (kept, nv) at all degrees of freedom, N·m
        or N; "rope" (kept, ropes), N.
    certificate : Certificate or EventCertificate
        Residuals of the contact solver.
    """

    def __init__(
        self,
        contacts: Contacts | None,
        t: Array,
        q: Array,
        impulses: Array | None,
        dt: float,
        certificate: Certificate | EventCertificate,
        modes: Array | None = None,
        joint_forces: dict[str, Array] | None = None,
    ) -> None:
        self._modes, self.joint_forces = modes, joint_forces or {}
        self.contacts, self.t, self.certificate = contacts, t, certificate
        self._q, self._impulses, self._dt = q, impulses, dt

    def __repr__(self) -> str:
        many, pairs = np.shape(self.t)[-1], () if self.contacts is None else self.contacts.pairs
        return f"<contacts of {len(pairs)} pairs at {many} times>"

    @property
    def names(self) -> tuple[str, ...]:
        """The name of the pair of every slot."""
        return () if self.contacts is None else self.contacts.slot_names

    @cached_property
    def points(self) -> ContactPoints:
        """Gaps, normals and points of all slots; NaN where a run did not come to."""
        if self.contacts is None:
            batch = np.shape(self.t)
            return ContactPoints(np.zeros((*batch, 0)), *(np.zeros((*batch, 0, 3)),) * 3)
        there = np.isfinite(self._q).all(axis=-1)
        found = contact_points(self.contacts, self._q[there])
        out = [np.full((*there.shape, *x.shape[1:]), np.nan) for x in found]
        for whole, part in zip(out, found, strict=True):
            whole[there] = part
        return ContactPoints(*out)

    @property
    def gaps(self) -> Array:
        """Gaps (..., kept, k), m."""
        return self.points.gap

    @property
    def has_forces(self) -> bool:
        """Whether impulses were recorded."""
        return self._impulses is not None

    @property
    def forces(self) -> Array:
        """Forces (..., kept, k, 6), N·m and N; those of the first record are of the step before."""
        if self._impulses is None:
            raise InputError(
                "the forces of contacts were not recorded. Ask for them:\n"
                "    sim.rollout(…, record=('q', 'v', 'contact.impulses'))"
            )
        return self._impulses / self._dt

    @property
    def modes(self) -> Array:
        """Modes (kept, k): 0 open, 1 slips, 2 sticks."""
        if self._modes is None:
            raise InputError(
                "contact modes are not recorded in a rollout; pp.simulate records them:\n"
                "    pp.simulate(system, q, v, duration).contacts.modes"
            )
        return self._modes

    def __getitem__(self, pair: str) -> PairRecord:
        mine = [i for i, name in enumerate(self.names) if name == pair]
        if not mine:
            known = list(dict.fromkeys(self.names))
            raise InputError(
                f"there is no pair {pair!r} among {', '.join(map(repr, known[:8]))}"
                f"{', …' if len(known) > 8 else ''}. {did_you_mean(str(pair), known)}"
            )
        return PairRecord(
            self.gaps[..., mine].min(axis=-1), self.forces[..., mine, 3:].sum(axis=-2)
        )

    def check(self) -> bool:
        """Print the certificate, and return whether every step was solved."""
        print(self.certificate)
        return self.certificate.is_clean
