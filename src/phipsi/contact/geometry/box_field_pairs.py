"""Contacts of a box with a height field, b: its corners, and all else that reaches into it.

Four slots are of the lowest corners, one of every diagonal, over the triangle below each. Four
more, one under every quarter of the box, have the deepest of

- corners in other faces: higher ones, and second walls of a valley,
- edges of the box across ridges, along the common normal of both,
- peaks in faces of the box, along the normal of these.

With the signed distance φ from the box, < 0 inside, these are the local minima of φ on the surface:
a normal n is one of the box there, and lies in the cone of normals of the ridge or peak, up to
`_LEAN`, so that both ends of a ridge under a face are there. In an overlap, φ decides which: the
nearest face, or faces at an edge or a corner, of the deepest place. The gap is along n, so that its
rate is the normal velocity.

Where a box is cut and none of these is there, as where a peak is deeper than half the box, one
contact pushes it out: of the faces of the field that cut it, along the one with the shortest way.
So while the middle of a box is over the field, some gap is negative if and only if it overlaps the
ground. Gaps above 0 are of corners, edges and faces over each other: past the end of an edge, or of
a face of the box, there is none. The border is a ridge.

Reasons: docs/decisions/0062.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phipsi.contact.geometry.field_cells import (
    EDGES,
    FACES,
    INSIDE,
    POINT,
    Cell,
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
from phipsi.contact.geometry.height_field_pairs import corner_slot
from phipsi.contact.geometry.placed_shapes import INACTIVE, Placed, Slot
from phipsi.contact.geometry.plane_pairs import DIAGONALS
from phipsi.contact.geometry.round_field_pairs import reach_of

QUARTERS = 4
_UP = np.array([0.0, 0.0, 1.0])
_LEAN = 0.02  # rad: how far normals may be beside their cones
_OUTER = 1e-6  # of lengths: of contacts that are as deep, the outer ones
_PARALLEL = 1e-8  # sin² of the angle below which edges have no normal
_SAME = 1.0 - 1e-13  # cosine of the angle of two normals that are the same
_CUT = 1e-10  # of lengths: what is cut by less is not


def box_field(a: Placed, b: Placed) -> list[Slot]:
    """The four lowest corners, and the deepest of all else under every quarter of the box."""
    c, Q, p = b.R.T @ (a.x - b.x), b.R.T @ a.R, a.p
    slots, known = [], []
    for signs in DIAGONALS:
        low = np.where((signs * p) @ Q[2] > 0.0, -signs, signs)
        slot, normal = corner_slot(a.x + a.R @ (low * p), b)
        slots.append(slot)
        known += [low, np.where(slot.gap < INACTIVE, normal, 0.0 * normal)]
    under = below(c, b)
    away = c - under.point
    more = np.clip(np.sqrt(away @ away) - np.min(p), 0.0, reach_of(b))
    half = np.abs(Q[:2]) @ p + more
    given = np.concatenate([c, Q.reshape(9), p, *known])
    first = no_entries(QUARTERS + 1, 0.0 * c[0])
    *entries, cut = over_cells(_at_cell, first, given, c[:2] - half, c[:2] + half, b)
    slots += [_slot(a, b, c, Q, entry) for entry in entries]
    least: Any = INACTIVE
    for slot in slots:
        least = np.minimum(least, slot.gap)
    is_cut = (cut.value < INACTIVE) & (least >= 0.0) & under.there
    out = _slot(a, b, c, Q, cut)
    slots[-1] = Slot(*(np.where(is_cut, x, y) for x, y in zip(out, slots[-1], strict=True)))
    return slots


def _slot(a: Placed, b: Placed, c: Any, Q: Any, entry: Entry) -> Slot:
    """The contact of an entry, whose `n` says which corner, edge or face of the box it is."""
    there, signs = entry.value < INACTIVE, entry.n
    i, j, feature = feature_of(entry, b)
    cell = cell_at(i, j, b)
    arm = c + Q @ (signs * a.p) - cell.origin  # a corner, or the middle of an edge or a face
    n = np.where(there & (feature == float(POINT)), -(Q @ signs), _UP)
    x_a = np.where(feature == float(POINT), n * (n @ arm), arm)  # a peak: P itself is touched
    for face in FACES:
        n = np.where(there & (feature == float(face)), cell.normals[face], n)
    along = Q @ (1.0 - np.abs(signs))
    for edge in EDGES:
        d, _ = ends_of(cell, edge)
        is_edge = there & (feature == float(edge))
        m, s, _, _ = _across(arm, np.where(is_edge, along, _beside(d)), d)
        n = np.where(is_edge, m, n)
        x_a = np.where(is_edge, arm + s * along, x_a)
    f = n @ arm
    gap = np.where(there, f, INACTIVE)
    normal, point = b.R @ n, b.x + b.R @ (cell.origin + x_a)
    return Slot(gap, normal, point, point - np.where(there, f, 0.0) * normal)


def _beside(d: Any) -> Any:
    """A direction across d, level."""
    return np.stack([d[1], -d[0], 0.0 * d[0]])


def _across(w: Any, e: Any, d: Any) -> tuple[Any, Any, Any, Any]:
    """The common normal of lines w + s e and t d, upwards; s and t of their nearest points.

    The last is whether there is one.
    """
    m = np.cross(d, e)
    square = m @ m
    good = square > _PARALLEL * ((d @ d) * (e @ e))
    inverse = 1.0 / np.where(good, square, 1.0)
    s = (m @ np.cross(w, d)) * inverse
    t = (m @ np.cross(w, e)) * inverse
    n = m * np.sqrt(inverse) * np.where(m[2] < 0.0, -1.0, 1.0)
    return n, s, t, good


# ---- what is at a cell ---------------------------------------------------------------------------


def _at_cell(i: Any, j: Any, b: Placed, given: Any, entries: list[Entry]) -> list[Entry]:
    """The entries with those of a cell, by gap; the last is that of a face that cuts the box."""
    *quarters, cut = entries
    c, Q, p, known = given[:3], given[3:12].reshape(3, 3), given[12:15], given[15:39]
    cell = cell_at(i, j, b)
    w, size = c - cell.origin, np.max(p)
    found = _Quarters(quarters, Q, size)
    for face in FACES:
        n = cell.normals[face]
        m = n @ Q
        signs = np.where(m > 0.0, -1.0, 1.0)
        f = n @ w - np.abs(m) @ p
        there, number = is_there(i, j, face, b), number_of(i, j, face, b)
        corner = w + Q @ (signs * p)
        depth = np.maximum(-f, 0.0) / np.sum(np.abs(m))
        place = np.where(f < 0.0, corner - Q @ (depth * signs), corner - f * n)
        good = there & in_face(place, face, b) & (depth <= np.min(p))
        for k in range(4):  # what the slots of corners have
            low, own = known[6 * k : 6 * k + 3], known[6 * k + 3 : 6 * k + 6]
            good = good & ~((low @ signs > 2.5) & (own @ n > _SAME))
        found.add(f, signs, number, signs * p, good)
        shorter = there & (f < 0.0) & (-f < cut.value) & _is_cut(face, cell, w @ Q, Q, p)
        new = -f, signs, number
        cut = Entry(*(np.where(shorter, x, y) for x, y in zip(new, cut, strict=True)))
    for edge in EDGES:
        good = is_ridge(cell, edge) & is_there(i, j, edge, b)
        for k in range(3):
            _add_edges(found, cell, edge, k, w, Q, p, good, number_of(i, j, edge, b))
    y = -(w @ Q)
    values = np.abs(y) - p
    first = (values[0] >= values[1]) & (values[0] >= values[2])
    second = ~first & (values[1] >= values[2])
    which = np.stack([1.0 * first, 1.0 * second, 1.0 * ~(first | second)])
    signs = which * np.where(y < 0.0, -1.0, 1.0)
    n = -(Q @ signs)
    beside = np.max(np.where(which > 0.5, -INACTIVE, values))
    good = is_peak(cell.e) & (n[2] > 0.0) & leans_on(n, cell.e, _LEAN) & (beside <= INSIDE * size)
    found.add(np.max(values), signs, number_of(i, j, POINT, b), y, good)
    return [*found.entries, cut]


def _add_edges(
    found: _Quarters, cell: Cell, edge: int, k: int, w: Any, Q: Any, p: Any, good: Any, number: Any
) -> None:
    """Edges of the box along its axis k across a ridge: the lowest, and the one as low as it."""
    d, around = ends_of(cell, edge)
    i, j = (k + 1) % 3, (k + 2) % 3
    e, size = Q[:, k], np.max(p)
    n, _, _, is_one = _across(w, e, d)
    m = n @ Q
    good = good & is_one & (n[2] > 0.0) & leans_on(n, around, _LEAN)
    low = {x: np.where(m[x] > 0.0, -1.0, 1.0) for x in (i, j)}
    flat = np.abs(m[i]) < np.abs(m[j])
    for is_other in (False, True):
        s_i, s_j = low[i], low[j]
        there = good
        if is_other:
            s_i, s_j = np.where(flat, -s_i, s_i), np.where(flat, s_j, -s_j)
            there = there & (np.minimum(np.abs(m[i]), np.abs(m[j])) <= _LEAN)
        by_axis = {i: s_i, j: s_j, k: 0.0 * s_i}
        signs = np.stack([by_axis[0], by_axis[1], by_axis[2]])
        arm = w + Q @ (signs * p)
        f = n @ arm
        _, s, t, _ = _across(arm, e, d)
        near = (np.abs(s) <= p[k] * (1.0 + INSIDE)) & (t >= -INSIDE) & (t <= 1.0 + INSIDE)
        # where two faces of the box are as near, on the ridge: inside the box, and no other nearer
        u, y = d @ Q, -(w @ Q)
        slope = s_i * u[i] - s_j * u[j]
        steep = np.abs(slope) > 1e-12 * np.sqrt(d @ d)
        offset = (s_i * y[i] - p[i]) - (s_j * y[j] - p[j])
        r = -offset / np.where(steep, slope, 1.0)
        z = y + r * u
        depth = s_i * z[i] - p[i]
        inside = steep & (r >= -INSIDE) & (r <= 1.0 + INSIDE)
        inside = inside & (np.max(np.abs(z) - p) <= depth + INSIDE * size)
        there = there & (((f < 0.0) & inside) | ((f >= 0.0) & near))
        found.add(f, signs, number, y + t * u, there)


class _Quarters:
    """The deepest contacts under the quarters of a box, about its axis that is most upright."""

    def __init__(self, entries: list[Entry], Q: Any, size: Any) -> None:
        self.entries, self._size = entries, size
        up = np.abs(Q[2])
        self._first = (up[0] >= up[1]) & (up[0] >= up[2])
        self._second = ~self._first & (up[1] >= up[2])

    def add(self, f: Any, signs: Any, number: Any, y: Any, good: Any) -> None:
        """A contact at y (3,), in the box's axes, if it is good and deeper, or as deep and outer.

        Entries have the gap less `_OUTER` of the place, by which they are chosen.
        """
        u = np.where(self._first, y[1], np.where(self._second, y[2], y[0]))
        v = np.where(self._first, y[2], np.where(self._second, y[0], y[1]))
        value = np.where(good, f - _OUTER * np.sqrt(u * u + v * v), INACTIVE)
        right, far = u >= 0.0, v >= 0.0
        for k, x in enumerate(self.entries):
            mine = (right if k % 2 else ~right) & (far if k // 2 else ~far)
            lower = mine & (value < x.value)
            new = value, signs, number
            self.entries[k] = Entry(*(np.where(lower, a, b) for a, b in zip(new, x, strict=True)))


def _is_cut(face: int, cell: Cell, w: Any, Q: Any, p: Any) -> Any:
    """Whether a face goes through the inside of the box: no axis separates them.

    In the box's axes: w, its centre from P.
    """
    zero = 0.0 * w
    points = [zero - w, cell.e[face] @ Q - w, cell.e[face + 1] @ Q - w]
    sides = [points[1] - points[0], points[2] - points[1], points[0] - points[2]]
    meets: Any = True

    def overlap(values: list[Any], reach: Any) -> Any:
        low = np.minimum(np.minimum(values[0], values[1]), values[2])
        high = np.maximum(np.maximum(values[0], values[1]), values[2])
        return (low < reach) & (high > -reach)

    size = np.max(p)
    for k in range(3):
        meets = meets & overlap([x[k] for x in points], p[k] - _CUT * size)
    n = np.cross(sides[0], sides[1])
    away = np.abs(n @ points[0])
    meets = meets & (away < np.abs(n) @ p - _CUT * size * np.sqrt(n @ n))
    for side in sides:
        square = side @ side
        for k in range(3):
            i, j = (k + 1) % 3, (k + 2) % 3
            own = side[i] * side[i] + side[j] * side[j]
            reach = p[i] * np.abs(side[j]) + p[j] * np.abs(side[i]) - _CUT * size * np.sqrt(own)
            reach = np.where(own > _PARALLEL * square, reach, INACTIVE)
            values = [side[i] * x[j] - side[j] * x[i] for x in points]
            meets = meets & overlap(values, reach)
    return meets
