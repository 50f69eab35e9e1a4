"""Rows of contacts: from slots of touching shapes to the problem of their impulses.

A slot has the axes R_c = [t1 t2 n] and rows [roll1 roll2 spin; t1 t2 n] = R_c* [ω; v + ω × r] of the
motion of a's witness point against b's, r from the origin of the body's frame. C has a row for each
of them, with blocks at the two bodies of its slot; W = C Λ C*, Λ the admittance at these frames.

**Source:** theory/contact 1 (K1g), 3.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phipsi.contact.cone_problem import INACTIVE, ROWS, ConeLayout, ConeProblem
from phipsi.model.contact_pairs import Contacts
from phipsi.model.value import read_only

Array = NDArray[Any]

FRICTION, TORSION, ROLLING, RESTITUTION, STIFFNESS, DISSIPATION = range(6)
"""Columns of the materials of slots."""
_LETTERS = "abs12n"


class SlotArrays(NamedTuple):
    """Slots at a configuration, batched: `origins` (..., m, 3) of the bodies' frames; gaps (..., k),
    normals from b to a, and witness points (..., k, 3), world axes.
    """

    origins: Array
    gap: Array
    normal: Array
    x_a: Array
    x_b: Array


@cache
def slot_materials(contacts: Contacts) -> Array:
    """Materials of the slots (k, 6), in the order of the columns above."""
    rows = [
        (m.friction, m.torsion, m.rolling, m.restitution, m.stiffness, m.dissipation)
        for pair in contacts.pairs
        for m in [pair.material] * pair.slots
    ]
    return read_only(np.array(rows, dtype=float).reshape(-1, 6))


@cache
def layout_of(contacts: Contacts) -> ConeLayout:
    """The rows that the materials of the slots need."""
    kinds = []
    for friction, torsion, rolling, *_ in slot_materials(contacts):
        if rolling > 0:
            kinds.append("rolling")
        elif torsion > 0:
            kinds.append("torsion")
        else:
            kinds.append("point" if friction > 0 else "normal")
    return ConeLayout(tuple(kinds))


def contact_axes(normal: Array) -> Array:
    """R_c = [t1 t2 n] (..., 3, 3); t1 is perpendicular to the world axis least along n."""
    along = np.eye(3)[np.argmin(np.abs(normal), axis=-1)]
    t2 = np.cross(normal, along)
    t2 = t2 / np.linalg.norm(t2, axis=-1, keepdims=True)
    return np.stack([np.cross(t2, normal), t2, normal], axis=-1)


def row_matrix(contacts: Contacts, layout: ConeLayout, slots: SlotArrays) -> Array:
    """C (..., rows, 6m), from motions of the bodies' frames to those of the rows."""
    m, batch = len(contacts.bodies), slots.gap.shape[:-1]
    turned = np.swapaxes(contact_axes(slots.normal), -1, -2)
    whole = np.zeros((*batch, contacts.n_slots, 6, m, 6))
    for side, sign, x in ((0, 1.0, slots.x_a), (1, -1.0, slots.x_b)):
        bodies = contacts.slot_bodies[:, side]
        for i in np.flatnonzero(bodies >= 0):
            body, R = bodies[i], sign * turned[..., i, :, :]
            r = x[..., i, :] - slots.origins[..., body, :]
            whole[..., i, :3, body, :3] += R
            whole[..., i, 3:, body, 3:] += R
            # R (ω × r) row by row is (r × t)·ω for the axes t
            whole[..., i, 3:, body, :3] += np.cross(r[..., None, :], R)
    rows = [
        (i, _LETTERS.index(letter))
        for i, kind in enumerate(layout.contacts)
        for letter in ROWS[kind]
    ]
    at, which = (list(x) for x in zip(*rows, strict=True)) if rows else ([], [])
    return whole[..., at, which, :, :].reshape(*batch, len(rows), 6 * m)


class Rows(NamedTuple):
    """The problem of a step, C, and the velocities of the rows before the step."""

    problem: ConeProblem
    C: Array
    before: Array
    restitution: Array


def problem_of_step(
    contacts: Contacts,
    slots: SlotArrays,
    admittance: Array,
    before: Array,
    free: Array,
    materials: Array,
    h: Array,
) -> Rows:
    """The impulses of a step as a problem.

    **Arguments:** `admittance` Λ (..., 6m, 6m); `before` and `free` (..., m, 6), motions of frames
    at the start of the step, and after it without contacts; `materials` (..., k, 6); `h` (...), s.
    Compliance adds R = 1/(h (h k + d)) to the normal's diagonal, with s = g k/(h k + d); rigid
    contacts have R = 0 and s = max(g, 0)/h. A slot further away than the margin is not there.
    """
    layout = layout_of(contacts)
    C = row_matrix(contacts, layout, slots)
    W = C @ admittance @ np.swapaxes(C, -1, -2)
    b, u = ((C @ x.reshape(*x.shape[:-2], -1, 1))[..., 0] for x in (free, before))
    k, d, step = materials[..., STIFFNESS], materials[..., DISSIPATION], np.asarray(h)[..., None]
    rigid = np.isinf(k)
    with np.errstate(invalid="ignore"):
        firm = np.where(rigid, 1.0, step * k + d)
        s = np.where(rigid, np.maximum(slots.gap, 0.0) / step, slots.gap * k / firm)
        more = np.where(rigid, 0.0, 1.0 / (step * firm))
    normals = layout.normals
    W[..., normals, normals] += more
    near = slots.gap + step * np.minimum(b[..., normals], 0.0) < contacts.margin
    closing = near & rigid & (slots.gap + step * u[..., normals] <= 0) & (u[..., normals] < 0)
    e = np.where(closing, materials[..., RESTITUTION], 0.0)
    coefficients = layout.coefficients(*(materials[..., i] for i in (FRICTION, TORSION, ROLLING)))
    s = np.where(near, np.where(e > 0, 0.0, s), 2 * INACTIVE)
    return Rows(ConeProblem(layout, W, b, s, coefficients), C, u, e)


def world_impulses(contacts: Contacts, normal: Array, p: Array) -> Array:
    """[moment; force] (..., k, 6) on side a in world axes, of the impulses (..., rows)."""
    layout = layout_of(contacts)
    six = np.zeros((*p.shape[:-1], contacts.n_slots, 6))
    row = 0
    for i, kind in enumerate(layout.contacts):
        for letter in ROWS[kind]:
            six[..., i, _LETTERS.index(letter)] = p[..., row]
            row += 1
    axes = contact_axes(normal)
    pairs = six.reshape(*six.shape[:-1], 2, 3)
    return np.einsum("...kij,...krj->...kri", axes, pairs).reshape(six.shape)


def row_impulses(contacts: Contacts, normal: Array, world: Array) -> Array:
    """The inverse of `world_impulses`, for the rows that there are."""
    layout, axes = layout_of(contacts), contact_axes(normal)
    pairs = world.reshape(*world.shape[:-1], 2, 3)
    six = np.einsum("...kij,...kri->...krj", axes, pairs).reshape(world.shape)
    found = [
        six[..., i, _LETTERS.index(x)] for i, kind in enumerate(layout.contacts) for x in ROWS[kind]
    ]
    return np.stack(found, axis=-1) if found else np.zeros((*world.shape[:-2], 0))
