"""Rows of contacts: from slots of touching shapes to the problem of their impulses.

A slot has the axes [t1 t2 n] and rows of the motion of a's witness point against b's,
[roll1 roll2 spin; t1 t2 n], as many as its material needs. With r from the origin of a body's frame
to the witness point, a row is [r × t; t] for sliding along t, and [t; 0] for turning about it. All
rows together are C = C_a − C_b, six numbers each at two bodies; W = C Λ C*, Λ the admittance at
the frames.

Formulas are for one configuration, in plain arithmetic: they run on arrays, and traced in graphs.

**Source:** theory/contact 1 (K1g), 3.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phipsi.backends.failures import BLOCK
from phipsi.contact.certificate import first_numbers
from phipsi.contact.cone_problem import INACTIVE, ROWS, ConeLayout
from phipsi.errors import InputError
from phipsi.model.contact_pairs import Contacts
from phipsi.model.value import read_only

Array = NDArray[Any]

GAPS = "contact.gaps"
"""Gaps of all slots (k,), m."""
IMPULSES = "contact.impulses"
"""Impulses of the last step at all slots (k, 6): [moment; force] on side a in world axes, N·s."""
MATERIALS = "contact.materials"
"""Materials of all slots (k, 6), columns as below."""

UNSOLVED_CONTACTS = BLOCK + (4 << 32)
"""Status of a step of a run whose impulses are far from the laws of contact."""
FRICTION, TORSION, ROLLING, RESTITUTION, STIFFNESS, DISSIPATION = range(6)
"""Columns of the materials of slots."""
_LETTERS = "abs12n"
_AXIS = dict(zip(_LETTERS, (0, 1, 2, 0, 1, 2), strict=True))
_SLIDES = "12n"
_FIRM = 1e30
"""Stiffness (N/m) from which a contact is rigid."""


def contact_states(contacts: Contacts) -> dict[str, Array]:
    """States of a run with contacts by name, with their first values."""
    return {IMPULSES: np.zeros((contacts.n_slots, 6)), **first_numbers()}


def slot_materials(contacts: Contacts) -> Array:
    """Materials of the slots (k, 6); rigid ones have a stiffness beyond all that counts."""
    return contacts.model.cached((slot_materials, contacts), lambda: _materials(contacts))


def _materials(contacts: Contacts) -> Array:
    rows = [
        (
            m.friction,
            m.torsion,
            m.rolling,
            m.restitution,
            min(m.stiffness, 2 * _FIRM),
            m.dissipation,
        )
        for pair in contacts.pairs
        for m in [pair.material] * pair.slots
    ]
    return read_only(np.array(rows, dtype=float).reshape(-1, 6))


def is_rigid(materials: Any) -> Any:
    """Which slots (k,) do not give."""
    return materials[:, STIFFNESS] >= _FIRM


def layout_of(contacts: Contacts) -> ConeLayout:
    """The rows that the materials of the slots need."""
    return contacts.model.cached((layout_of, contacts), lambda: _layout(contacts))


def _layout(contacts: Contacts) -> ConeLayout:
    kinds = []
    for friction, torsion, rolling, *_ in slot_materials(contacts):
        if rolling > 0:
            kinds.append("rolling")
        elif torsion > 0:
            kinds.append("torsion")
        else:
            kinds.append("point" if friction > 0 else "normal")
    return ConeLayout(tuple(kinds))


_COLUMNS = ("friction", "torsion", "rolling", "restitution", "stiffness", "dissipation")
_NEEDED = {"friction": "12", "torsion": "s", "rolling": "a"}


def check_materials(contacts: Contacts, given: Array) -> None:
    """Reject materials (..., k, 6) that the rows of the system cannot have."""
    values = given.reshape(-1, contacts.n_slots, len(_COLUMNS))
    low, high = values.min(axis=0, initial=0.0), values.max(axis=0, initial=0.0)
    for slot, column in np.argwhere(low < 0)[:1]:
        raise InputError(
            f"{MATERIALS}: {_COLUMNS[column]} of {contacts.slot_names[slot]!r} is negative, "
            f"{low[slot, column]:g}; it is at least 0"
        )
    for slot in np.flatnonzero(high[:, RESTITUTION] > 1)[:1]:
        raise InputError(
            f"{MATERIALS}: restitution {high[slot, RESTITUTION]:g} of "
            f"{contacts.slot_names[slot]!r} would create energy; it is at most 1"
        )
    for slot, column in np.argwhere((high > 0) & ~_has_rows(contacts))[:1]:
        what, name, largest = _COLUMNS[column], contacts.slot_names[slot], high[slot, column]
        raise InputError(
            f"{MATERIALS}: {what} {largest:g} for {name!r}, whose material has none: "
            f"the run has no rows for it. Give the pair some when it is built:\n"
            f"    pp.Contacts(model, material=pp.Material({what}={largest:g}))"
        )


def _has_rows(contacts: Contacts) -> Array:
    """Which properties (k, 6) the rows of a system can have."""
    out = np.ones((contacts.n_slots, len(_COLUMNS)), dtype=bool)
    for column, what in enumerate(_COLUMNS):
        if what in _NEEDED:
            needed = set(_NEEDED[what])
            fits = {kind: needed <= set(ROWS[kind]) for kind in ROWS}
            out[:, column] = [fits[kind] for kind in layout_of(contacts).contacts]
    out[:, RESTITUTION] = slot_materials(contacts)[:, RESTITUTION].any()
    return out


_DEEP = 0.1
"""Overlap at the start that is an error, beside the margin of the contacts."""


def check_overlap(contacts: Contacts, gaps: Array) -> None:
    """Reject starts whose bodies overlap deeply: gaps (..., k), m."""
    if not gaps.size or gaps.min() >= -_DEEP * contacts.margin:
        return
    place = np.unravel_index(int(np.argmin(gaps)), gaps.shape)
    name, depth = contacts.slot_names[place[-1]], -float(gaps[place])
    where = f" of trajectory {list(map(int, place[:-1]))}" if len(place) > 1 else ""
    raise InputError(
        f"at the start{where} {name!r} overlap by {depth:.3g} m. Move the bodies apart, or let the "
        f"first step do it, without velocity:\n    sim.start(q, v, separate=True)"
    )


class RowTable(NamedTuple):
    """For every row: its slot, its axis, whether it slides or turns, its bodies (−1: the world)."""

    slot: Array
    axis: Array
    slides: Array
    a: Array
    b: Array


def row_table(contacts: Contacts, layout: ConeLayout) -> RowTable:
    """The rows of a layout on the slots of contacts."""
    key = (row_table, contacts, layout)
    return contacts.model.cached(key, lambda: _rows(contacts, layout))


def _rows(contacts: Contacts, layout: ConeLayout) -> RowTable:
    rows = [(i, letter) for i, kind in enumerate(layout.contacts) for letter in ROWS[kind]]
    slot = np.array([i for i, _ in rows], dtype=int)
    axis = np.array([_AXIS[x] for _, x in rows], dtype=int)
    slides = np.array([x in _SLIDES for _, x in rows], dtype=bool)
    return RowTable(slot, axis, slides, *contacts.slot_bodies[slot].T)


def contact_axes(normal: Any) -> Any:
    """[t1, t2, n] (k, 3, 3), axis by axis; continuous in n but where n passes −z."""
    x, y, z = normal[:, 0], normal[:, 1], normal[:, 2]
    sign = np.where(z < 0.0, -1.0, 1.0)
    a = -1.0 / (sign + z)
    b = x * y * a
    t1 = np.stack([1.0 + sign * x * x * a, sign * b, -sign * x], axis=-1)
    t2 = np.stack([b, sign + y * y * a, -y], axis=-1)
    return np.stack([t1, t2, normal], axis=1)


class RowBlocks(NamedTuple):
    """C at the bodies of side a and of side b, (n, 6) each, the sign of b included."""

    a: Any
    b: Any


def row_blocks(contacts: Contacts, layout: ConeLayout, origins: Any, slots: Any) -> RowBlocks:
    """The rows, from the origins (m, 3) of bodies and slots (gap, normal, x_a, x_b)."""
    table = row_table(contacts, layout)
    axes = contact_axes(slots.normal)[table.slot, table.axis]
    parts = []
    for bodies, point, sign in ((table.a, slots.x_a, 1.0), (table.b, slots.x_b, -1.0)):
        host = np.maximum(bodies, 0)
        there = np.where(bodies >= 0, sign, 0.0)[:, None]
        slides = np.where(table.slides, 1.0, 0.0)[:, None]
        turn = np.cross(point[table.slot] - origins[host], axes)
        if not table.slides.all():
            turn = turn * slides + axes * (1.0 - slides)
        parts.append(np.concatenate([turn * there, axes * (slides * there)], axis=1))
    return RowBlocks(*parts)


def row_rates(contacts: Contacts, layout: ConeLayout, blocks: RowBlocks, motions: Any) -> Any:
    """C V (n,) of the motions V (m, 6) of the bodies' frames."""
    table = row_table(contacts, layout)
    total = None
    for bodies, block in ((table.a, blocks.a), (table.b, blocks.b)):
        if (bodies >= 0).any():
            term = np.sum(block * motions[np.maximum(bodies, 0)], axis=1)
            total = term if total is None else total + term
    return total


class ProblemParts(NamedTuple):
    """b (n,), s (k,), s without rebound, compliance (k,), coefficients (n,), near slots (k,)."""

    b: Any
    s: Any
    inelastic: Any
    compliance: Any
    coefficients: Any
    near: Any


def problem_parts(
    contacts: Contacts,
    layout: ConeLayout,
    gap: Any,
    free: Any,
    before: Any,
    materials: Any,
    h: Any,
) -> ProblemParts:
    """What the impulses of a step have to obey.

    `free` and `before` (n,), velocities of rows without contacts and before the step. Compliance
    adds R = 1/(h (h k + d)) to the normal's diagonal, with s = g k/(h k + d); rigid contacts have
    R = 0 and s = max(g, 0)/h, and those that close within the step rebound, s = e u_n. A slot that
    is further away than the margin is not there.
    """
    table, normals = row_table(contacts, layout), layout.normals
    k, d, rigid = materials[:, STIFFNESS], materials[:, DISSIPATION], is_rigid(materials)
    firm = np.where(rigid, 1.0, h * k + d)
    soft = np.where(rigid, np.maximum(gap, 0.0) / h, gap * (k / firm))
    compliance = np.where(rigid, 0.0, 1.0 / (h * firm))
    near = gap + h * np.minimum(free[normals], 0.0) < contacts.margin
    inelastic = np.where(near, soft, 2 * INACTIVE)
    closing = rigid & (gap + h * before[normals] <= 0.0) & (before[normals] < 0.0) & near
    bounces = closing & (materials[:, RESTITUTION] > 0.0)
    s = np.where(bounces, materials[:, RESTITUTION] * before[normals], inelastic)
    every = np.where(bounces, 0.0, inelastic)
    coefficients = row_coefficients(layout, table, materials)
    return ProblemParts(free, s, every, compliance, coefficients, near)


def row_coefficients(layout: ConeLayout, table: RowTable, materials: Any) -> Any:
    """The coefficients of rows (n,) from the materials of slots (k, 6)."""
    columns = {"s": TORSION, "a": ROLLING, "b": ROLLING}
    chosen = np.array([columns.get(x, FRICTION) for x in layout.letters], dtype=int)
    is_normal = np.array([x == "n" for x in layout.letters])
    return np.where(is_normal, 1.0, materials[table.slot, chosen])


def row_impulses(contacts: Contacts, layout: ConeLayout, normal: Any, world: Any) -> Any:
    """Impulses of rows (n,) from [moment; force] (k, 6) in world axes."""
    table = row_table(contacts, layout)
    axes = contact_axes(normal)[table.slot, table.axis]
    first = np.where(table.slides, 3, 0)
    places = first[:, None] + np.arange(3)
    return np.sum(axes * world[table.slot[:, None], places], axis=1)
