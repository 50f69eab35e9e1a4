"""What every contact, stop, rope and dry joint does for a while, and which rows follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from phipsi.attached import HeightField, Plane, is_round
from phipsi.contact import (
    DISSIPATION,
    HUNT_CROSSLEY,
    RESTITUTION,
    STIFFNESS,
    ContactPair,
    ContactProblemLayout,
    RowPlan,
    is_rigid,
    row_coefficients,
    slot_materials,
)

Array = NDArray[Any]

_SOFT = 1e-5
"""Rate (m/s) of a slip from rest, below which it has the direction of its first acceleration."""


@dataclass(frozen=True)
class Modes:
    """What every slot, stop and rope does: `closed` (k,).

    Of every group (g,): `slips`; `direction` (g, 4); `begins`, whether it slips from rest.
    """

    closed: Array
    slips: Array
    direction: Array
    begins: Array


class Decision(NamedTuple):
    """Modes that follow from a state; du/dt (n,) with their forces; rows that stick or begin."""

    modes: Modes
    change: Array
    slow: Array


class Impact(NamedTuple):
    """Velocities after an impact, impulses (n,) of all rows, the kinetic energy it adds, ≤ 0."""

    v: Array
    impulses: Array
    gain: float


class Margins(NamedTuple):
    """Numbers that are positive while the modes hold: one row for each kind of change."""

    push: Array
    stick: Array
    slip: Array
    begin: Array
    regular: Array
    there: Array


@final
class RowIndices:
    """Numbers of rows and groups of a run that never change.

    A head is a slot, a stop or a rope, with a force f ≥ 0; a group is what has one bound: μ f of
    its head, or that of dry friction in a joint, which has no head (−1).

    **Attributes:** `k` heads, of which `slots`; `normals`, their rows; `is_normal` (n,); `soft`
    (k,), which of them give; `between_faces` (k,), whose points may change; `bends` (k,),
    whose normals begin to turn at once; `restitution` (k,);
    `coefficients` (n,), 1 for joints; `heads` (g,); `head` (g,), the same with 0 for none; `group`
    (n,), −1 for none; `members` (g, n); `size` (g,), the largest coefficient; `plain` (n,), rows
    that are the same in all contact axes.
    """

    def __init__(self, plan: RowPlan) -> None:
        layout: ContactProblemLayout = plan.layout
        n, self.k, self.slots = layout.n_rows, layout.n_heads, plan.n_slots
        materials = np.zeros((0, len(plan.stop_materials.T)))
        self.coefficients = np.ones(n)
        if plan.contacts is not None:
            materials = slot_materials(plan.contacts)
            own = row_coefficients(layout, plan.table, materials)
            self.coefficients[: len(own)] = own
        self.materials = np.concatenate([materials, plan.stop_materials])
        self.soft = ~is_rigid(self.materials)
        self.between_faces, self.bends = np.zeros((2, self.k), bool)
        if plan.contacts is not None:
            pairs = plan.contacts.pairs
            slots, bends = [p.slots for p in pairs], [_is_round_on_field(p) for p in pairs]
            faces = [p.slots > 1 and not (x or isinstance(p.b.shape, Plane))
                     for p, x in zip(pairs, bends, strict=True)]  # fmt: skip
            self.between_faces[: self.slots] = np.repeat(faces, slots)
            self.bends[: self.slots] = np.repeat(bends, slots)
        self.restitution = np.where(self.soft, 0.0, self.materials[:, RESTITUTION])
        self.normals = layout.normals
        self.is_normal = np.zeros(n, bool)
        self.is_normal[self.normals] = True
        self.plain = np.array([x in "sl" for x in layout.letters], bool)
        self.is_limit = np.array([x == "l" for x in layout.letters], bool)
        live = self.coefficients > 0
        groups = [(i, [r for r in rows if live[r]]) for i, rows in layout.groups]
        groups = [(i, rows) for i, rows in groups if rows]
        self.heads = np.array([i for i, _ in groups], int)
        self.has_head, self.head = self.heads >= 0, np.maximum(self.heads, 0)
        self.group = np.full(n, -1)
        for g, (_, rows) in enumerate(groups):
            self.group[rows] = g
        self.members = np.zeros((len(groups), n))
        mine = self.group >= 0
        self.members[self.group[mine], np.flatnonzero(mine)] = 1.0
        self.size = (self.members * self.coefficients).max(axis=1, initial=0.0)
        self.row_heads = layout.heads

    def no_modes(self) -> Modes:
        """Nothing is closed; dry friction sticks."""
        g = len(self.heads)
        none = np.zeros(g, bool)
        return Modes(np.zeros(self.k, bool), none, np.zeros((g, 4)), none)

    def active(self, closed: Array) -> Array:
        """Groups (g,) that have forces: of closed heads, and of joints."""
        if not self.k:
            return np.ones(len(self.heads), bool)
        return np.where(self.has_head, closed[self.head], True)

    def bounds(self, normal: Array, of_joints: Array) -> Array:
        """What groups (g,) can bear, by the forces (k,) of heads and the bounds of dry friction."""
        out = np.zeros(len(self.heads))
        out[self.has_head] = normal[self.heads[self.has_head]]
        out[~self.has_head] = of_joints
        return out

    def ratio(self, force: Array) -> Array:
        """|f_g / μ_g| (g,)."""
        scaled = self.scaled(force)
        return np.sqrt(self.members @ (scaled * scaled))

    def scaled(self, force: Array) -> Array:
        """f / μ (n,) of the rows of groups; 0 of others."""
        c = np.where(self.coefficients > 0, self.coefficients, 1.0)
        return np.where(self.group >= 0, force / c, 0.0)

    @staticmethod
    def units(x: Array) -> tuple[Array, Array]:
        """Lengths (g,) of vectors (g, 4) of groups, and vectors of length 1, or 0 where x is 0."""
        length = np.sqrt(np.sum(x * x, axis=1))
        return length, x / np.where(length > 0, length, 1.0)[:, None]

    def push(self, gap: Array, rate: Array, weight: Array | None = None) -> Array:
        """Forces (k,) of compliant heads, N, where they touch: w (k δ + d δ̇); negative pulls."""
        force = -np.where(self.soft, self.materials[:, STIFFNESS], 0.0) * gap
        force = force - self.damping(gap) * rate
        return force if weight is None else weight * force

    def stiffness(self, weight: Array | None) -> Array:
        """N/m (k,) of compliant heads, with their weights; 0 of others."""
        k = np.where(self.soft, self.materials[:, STIFFNESS], 0.0)
        return k if weight is None else weight * k

    def damping(self, gap: Array) -> Array:
        """N·s/m (k,) of compliant heads: d + k α δ."""
        m = self.materials
        d = m[:, DISSIPATION] + m[:, STIFFNESS] * m[:, HUNT_CROSSLEY] * np.maximum(-gap, 0.0)
        return np.where(self.soft, d, 0.0)

    def reach(self, gap: Array, rate: Array) -> Array:
        """Gaps (k,) that are negative where there is a force: of compliant surfaces, not g alone.

        A surface that is left faster than it follows carries nothing: g + max(0, d ġ)/k > 0.
        """
        if not self.soft.any():
            return gap
        k = np.where(self.soft, self.materials[:, STIFFNESS], 1.0)
        return gap + np.where(self.soft, np.maximum(self.damping(gap) * rate, 0.0) / k, 0.0)

    def stored(self, gap: Array, weight: Array | None) -> float:
        """Energy (J) of surfaces that are pressed in, ½ w k δ²."""
        return float(0.5 * np.sum(self.stiffness(weight) * np.minimum(gap, 0.0) ** 2))


@final
class ContactPhase:
    """Numbers of rows while the modes stay the same.

    **Attributes:** `rows` with forces; `held`, those of them that have an equation: normals, and
    rows of groups that stick; `still`, those of these whose velocity is zero: all but normals of
    compliant heads, whose places among `held` are `gives`, and whose heads are `given_by`; `keep`
    and `slips`, the places of held and of other rows among `rows`; `unit` (rows, held), the forces
    of rows by those of held ones, without friction of groups that slip, whose entries are
    (`leaning`, `columns`); `rubbing`, the places of joints that slip among `rows`; `moving`, the
    rows that slip, `groups`, theirs, and `members`, which of them each group has; `soft`, the rate
    below which a group has the direction that it began with; `normal`, the places of normals among
    held rows, and `heads`, theirs; `is_regular`, whether these rows are independent, once it is
    known.
    """

    def __init__(self, at: RowIndices, modes: Modes) -> None:
        has_force = np.concatenate([modes.closed, np.ones(int(at.is_limit.sum()), bool)])
        closed = has_force[at.row_heads]
        stuck = (at.group >= 0) & closed
        stuck[stuck] = ~modes.slips[at.group[stuck]]
        is_held = closed & (at.is_normal | stuck)
        moves = closed & ~is_held & (at.group >= 0)
        self.rows = np.flatnonzero(is_held | moves)
        self.held = np.flatnonzero(is_held)
        self.keep = np.flatnonzero(is_held[self.rows])
        self.slips = np.flatnonzero(~is_held[self.rows])
        self.unit = np.zeros((len(self.rows), len(self.held)))
        self.unit[self.keep, np.arange(len(self.held))] = 1.0
        self.moving = self.rows[self.slips]
        rubs = at.is_limit[self.moving]
        self.leans, self.rubs = np.flatnonzero(~rubs), np.flatnonzero(rubs)
        self.leaning, self.rubbing = self.slips[self.leans], self.slips[self.rubs]
        first = int(np.argmax(at.is_limit)) if at.is_limit.any() else 0
        self.joints = self.moving[self.rubs] - first
        head = at.normals[at.row_heads[self.moving[self.leans]]]
        self.columns = np.searchsorted(self.held, head)
        self.groups = at.group[self.moving]
        self.soft = np.where(modes.begins, _SOFT * at.size, 1e-12)
        self.members = at.members[:, self.moving]
        self.normal = np.flatnonzero(at.is_normal[self.held])
        self.heads = at.row_heads[self.held[self.normal]]
        soft = at.soft[self.heads]
        self.gives, self.given_by = self.normal[soft], self.heads[soft]
        self.still = np.delete(self.held, self.gives)
        self.is_regular: bool | None = None if self.held.size else True

    def with_friction(self, lean: Array) -> Array:
        """`unit` with the friction of groups that slip, −μ e of `moving` rows."""
        out = self.unit.copy()
        out[self.leaning, self.columns] = lean[self.leans]
        return out


def _is_round_on_field(pair: ContactPair) -> bool:
    """Whether the normals of a pair turn without a jump, but bend at once: over ridges."""
    return isinstance(pair.b.shape, HeightField) and is_round(pair.a.shape)
