"""Impulses between touching bodies, and the moves that separate them, as calls in graphs.

Reasons: docs/decisions/0041.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.contact.cone_problem import INACTIVE, ConeLayout, ConeProblem
from phipsi.contact.contact_rows import (
    STIFFNESS,
    SlotArrays,
    layout_of,
    problem_of_step,
    row_impulses,
    row_matrix,
    slot_materials,
    world_impulses,
)
from phipsi.contact.cone_solver import solve, solve_with_restitution
from phipsi.laws.calls import Callee
from phipsi.laws.graph import Node
from phipsi.model.contact_pairs import Contacts

Array = NDArray[Any]

GAPS = "contact.gaps"
"""Gaps of all slots (k,), m."""
IMPULSES = "contact.impulses"
"""Impulses of the last step at all slots (k, 6): [moment; force] on side a in world axes, N·s."""
MATERIALS = "contact.materials"
"""Materials of all slots (k, 6): friction, torsion, rolling, restitution, stiffness, dissipation."""
WORST = "contact.worst"
"""The largest of all steps (4,): overlap m, residual m/s, gain of energy J, factorisations."""
TOTALS = "contact.totals"
"""Sums over all steps (2,): energy dissipated J, steps whose residual is above the tolerance."""
TOLERANCE = 1e-13
"""The residual that is asked for, m/s; or rounding, where that is larger."""


def contact_states(contacts: Contacts) -> dict[str, Array]:
    """States of a run with contacts by name, with their first values."""
    return {IMPULSES: np.zeros((contacts.n_slots, 6)), WORST: np.zeros(4), TOTALS: np.zeros(2)}


class _ContactCall(Callee):
    """A call about the contacts of a mechanism."""

    def __init__(self, contacts: Contacts) -> None:
        self.contacts = contacts
        self.key = (type(self).__name__, contacts)

    def pull(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """Not known yet."""
        raise NotImplementedError("gradients through contacts")


@final
class ImpulseCall(_ContactCall):
    """Λ, motions before and after free motion, slots, materials, h, impulses before → impulses.

    **Results:** wrenches at the frames of the bodies (m, 6); impulses of the slots (k, 6); the
    entries of `WORST` and `TOTALS` in this step.
    """

    def __init__(self, contacts: Contacts) -> None:
        super().__init__(contacts)
        self.shapes = (len(contacts.bodies), 6), (contacts.n_slots, 6), (4,), (2,)
        self.name = f"impulses {layout_of(contacts)} {contacts.slot_bodies.tolist()}"

    def arrays(self, *args: Array) -> Sequence[Array]:
        """By the solver on arrays."""
        admittance, before, free, *more, materials, h, last = args
        batch = np.broadcast_shapes(before.shape[:-2], free.shape[:-2])
        slots = SlotArrays(*more)
        rows = problem_of_step(self.contacts, slots, admittance, before, free, materials, h)
        start = row_impulses(self.contacts, slots.normal, last)
        normals = rows.problem.layout.normals
        found = solve_with_restitution(
            rows.problem, rows.restitution, rows.before[..., normals], start,
            threshold=0.0, tolerance=TOLERANCE,
        ).solution  # fmt: skip
        p, problem = found.p, rows.problem
        wrenches = (np.swapaxes(rows.C, -1, -2) @ p[..., None])[..., 0]
        u = problem.velocities(p)
        # T⁺ − T_f = p* u − ½ p* W p, without what compliant contacts store
        gain = (p * u).sum(-1) - 0.5 * (p * (u - problem.b)).sum(-1)
        there = problem.s < INACTIVE
        overlap = np.where(there, -slots.gap, 0.0).max(-1, initial=0.0)
        worst = [overlap, found.residual, gain, found.iterations]
        totals = [-gain, ~found.is_solved]
        return [
            wrenches.reshape(*batch, *self.shapes[0]),
            world_impulses(self.contacts, slots.normal, p),
            *(np.stack(np.broadcast_arrays(*x), axis=-1).astype(float) for x in (worst, totals)),
        ]

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """Not written yet."""
        raise NotImplementedError


@final
class SeparationCall(_ContactCall):
    """Λ, motions after the step, slots, h → wrenches whose ℳ⁻¹ J* moves overlapping bodies apart."""

    def __init__(self, contacts: Contacts) -> None:
        super().__init__(contacts)
        self.shapes = ((len(contacts.bodies), 6),)
        self.name = f"separation {layout_of(contacts)} {contacts.slot_bodies.tolist()}"

    def arrays(self, *args: Array) -> Sequence[Array]:
        """0 ≤ z ⊥ g + h u_n + W_nn z ≥ 0, in m."""
        admittance, motions, *more, h = args
        contacts, slots = self.contacts, SlotArrays(*more)
        layout = ConeLayout(("normal",) * contacts.n_slots)
        C = row_matrix(contacts, layout, slots)
        W = C @ admittance @ np.swapaxes(C, -1, -2)
        step = np.asarray(h)[..., None]
        u = (C @ motions.reshape(*motions.shape[:-2], -1, 1))[..., 0]
        gap = slots.gap + step * u
        rigid = np.isinf(slot_materials(contacts)[:, STIFFNESS])
        s = np.where((gap < contacts.margin) & rigid, 0.0, 2 * INACTIVE)
        found = solve(ConeProblem(layout, W, gap, s, np.ones(layout.n_rows)), tolerance=1e-13)
        wrenches = (np.swapaxes(C, -1, -2) @ found.p[..., None])[..., 0]
        return [wrenches.reshape(*wrenches.shape[:-1], *self.shapes[0])]

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """Not written yet."""
        raise NotImplementedError
