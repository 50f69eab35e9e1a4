"""Contacts of a capsule with a height field, b: balls at its ends, and ridges under its middle.

The axis c + s u, |s| ≤ l/2, crosses an edge P + t d at the distance n·(c − P), n = u×d/|u×d|, and
passes a point P of the field at its distance from the line. Faces touch the ends only, or the whole
length. Both halves of the middle have one slot: a capsule rests on both.

A capsule that lies on a face and over the ridge at its side touches both. Its normal may turn
beyond that of the face by rounding, or in a step: the ridge stays in its slot there, which is no
error, as no point of the field may be inside the capsule. An axis that passes through a face, with
both ends above the field, has the way out along the normal of that face.

**Source:** theory/contact 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from phipsi.contact.geometry.field_cells import (
    EDGES,
    FACES,
    INSIDE,
    POINT,
    Entry,
    below,
    cell_at,
    ends_of,
    feature_of,
    in_face,
    is_peak,
    is_ridge,
    is_there,
    leans_on,
    no_entries,
    number_of,
    over_cells,
)
from phipsi.contact.geometry.placed_shapes import INACTIVE, Placed, Slot, unit
from phipsi.contact.geometry.round_field_pairs import ABOVE, ball_contacts, reach_of

_AT_ENDS = 2  # contacts of each end: both sides of a valley
_PARALLEL = 1e-12  # sin² of the angle of an edge that the axis does not cross
_SLACK = 0.1  # rad: by which a capsule that lies on a face may sink into it beside a ridge
_UP = np.array([0.0, 0.0, 1.0])


def capsule_field(a: Placed, b: Placed) -> list[Slot]:
    """Two contacts of each end, and one of each half of the middle."""
    r, half, z = a.p[0], a.p[1], a.R[:, 2]
    ends = [ball_contacts(a.x + s * half * z, r, b, _AT_ENDS) for s in (1.0, -1.0)]
    ends_above = (ends[0][0].gap > -r) & (ends[1][0].gap > -r)
    return [*(x[k] for k in range(_AT_ENDS) for x in ends), *_middle(a, b, ends_above)]


def _middle(a: Placed, b: Placed, ends_above: Any) -> list[Slot]:
    r, half = a.p[0], a.p[1]
    c, u = b.R.T @ (a.x - b.x), b.R.T @ a.R[:, 2]
    away = c - below(c, b).point
    more = r + np.clip(np.sqrt(away @ away) - r, 0.0, reach_of(b))
    side = more + half * np.abs(u[:2])
    given = np.concatenate([c, u, np.stack([half])])
    first = no_entries(3, 0.0 * c[0])
    bottom = c[2] - more - half * np.abs(u[2]) - ABOVE * (r + half)
    low, high = c[:2] - side, c[:2] + side
    *entries, cut = over_cells(_middle_at_cell, first, given, low, high, b, bottom, True)
    is_cut = ends_above & (cut.value < INACTIVE)
    for x in entries:
        is_cut = is_cut & (x.value >= 0.0)
    entries[0] = Entry(*(np.where(is_cut, x, y) for x, y in zip(cut, entries[0], strict=True)))
    slots = []
    for entry in entries:
        i, j, feature = feature_of(entry, b)
        cell = cell_at(i, j, b)
        w = c - cell.origin
        v = w - (w @ u) * u
        n, distance = unit(v, _UP)
        up = np.where(n[2] < 0.0, -1.0, 1.0)
        n, distance, s = up * n, up * distance, -(w @ u)
        for edge in EDGES:
            d, _ = ends_of(cell, edge)
            normal, crossing, _, place = _crossing(w, u, d)
            mine = feature == float(edge)
            n, distance = np.where(mine, normal, n), np.where(mine, crossing, distance)
            s = np.where(mine, place, s)
        for face in FACES:
            mine, normal = feature == float(face), cell.normals[face]
            low = np.where(normal @ u > 0.0, -half, half)
            n, s = np.where(mine, normal, n), np.where(mine, low, s)
            distance = np.where(mine, normal @ (w + low * u), distance)
        there = entry.value < INACTIVE
        normal, x = b.R @ n, a.x + s * a.R[:, 2]
        gap = np.where(there, distance - r, INACTIVE)
        slots.append(Slot(gap, normal, x - r * normal, x - np.where(there, distance, 0.0) * normal))
    return slots


def _crossing(w: Any, u: Any, d: Any) -> tuple[Any, Any, Any, Any]:
    """Upward unit normal to axis and edge, their distance along it, places t on d and s on u."""
    m = np.cross(u, d)
    square = m @ m
    crosses = square > _PARALLEL * (d @ d)
    inverse = 1.0 / np.where(crosses, square, 1.0)
    t, s = (m @ np.cross(u, w)) * inverse, (m @ np.cross(d, w)) * inverse
    n = m * (np.sqrt(inverse) * np.where(m[2] < 0.0, -1.0, 1.0))
    n = np.where(crosses, n, _UP)
    return n, n @ w, np.where(crosses, t, -1.0), s


def _is_under(x: Any, faces: Sequence[tuple[Any, Any]]) -> Any:
    """Whether a point from P is below one of the faces at P, given by their other two corners."""
    found: Any = False
    for p, q in faces:
        area = p[0] * q[1] - p[1] * q[0]
        a, b = (x[0] * q[1] - x[1] * q[0]) / area, (p[0] * x[1] - p[1] * x[0]) / area
        inside = (a >= 0.0) & (b >= 0.0) & (a + b <= 1.0)
        found = found | (inside & (x[2] <= a * p[2] + b * q[2]))
    return found


def _middle_at_cell(i: Any, j: Any, b: Placed, given: Any, entries: list[Entry]) -> list[Entry]:
    """Contacts of the axis with what belongs to a cell, one for each half.

    The last entry is another one: of the faces that the axis passes through, the one with the
    shortest way out, by the length of that.
    """
    *entries, cut = entries
    c, u, half = given[:3], given[3:6], given[6]
    cell = cell_at(i, j, b)
    w = c - cell.origin
    for face in FACES:
        n = cell.normals[face]
        rise, height = n @ u, n @ w
        s = -height / np.where(np.abs(rise) > 1e-12, rise, 1e-12)
        out = half * np.abs(rise) - height
        passes = in_face(w + s * u, face, b) & is_there(i, j, face, b) & (np.abs(s) < half)
        new = out, n, number_of(i, j, face, b)
        shorter = passes & (out < cut.value)
        cut = Entry(*(np.where(shorter, x, y) for x, y in zip(new, cut, strict=True)))
    for feature in (*EDGES, POINT):
        if feature == POINT:
            s, around = -(w @ u), cell.e
            n, distance = unit(w + s * u, _UP)
            up = np.where(n[2] < 0.0, -1.0, 1.0)
            n, distance = up * n, up * distance
            good = is_peak(cell.e) & (np.abs(s) <= half)
        else:
            d, around = ends_of(cell, feature)
            n, distance, t, s = _crossing(w, u, d)
            good = (t >= -INSIDE) & (t <= 1.0 + INSIDE) & is_there(i, j, feature, b)
            good = good & is_ridge(cell, feature) & (np.abs(s) <= half) & (n[2] > 0.0)
        good = good & leans_on(n, around, _SLACK)
        if feature == POINT:
            faces = [(around[k], around[(k + 1) % 6]) for k in range(6)]
        else:
            faces = [(d, q) for q in around]
        good = good & ((distance >= 0.0) | _is_under(w + s * u, faces))
        number = number_of(i, j, feature, b)
        sides = (good & (s >= 0.0), good & (s < 0.0))
        entries = [
            Entry(*(np.where(own & (distance < x.value), y, z)
                    for y, z in zip((distance, n, number), x, strict=True)))
            for own, x in zip(sides, entries, strict=True)
        ]  # fmt: skip
    return [*entries, cut]
