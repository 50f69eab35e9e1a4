"""Contacts of balls, ellipsoids and capsules with a height field, b: with faces, ridges and peaks.

With the support function h of the body about its centre c, the separation from a face, edge or
point of the field along a unit normal n of it is

    f(n) = n·(c − P) − h(n)         h(n) = r, or |S R* n| for half axes S

Contacts are where f does not change with n: with a face along its normal, with an edge or a point
where the nearest points of both are on n, and these are on the face or edge. They are the local
minima of the distance between the surface of the field and the body, negative in an overlap. So
the least of them is the distance. A body in a valley has two, in a pit three: every slot has one,
the lowest first.

Cells are looked at below the body and as far beside it as it is above the field, at most a spacing:
gaps up to that are exact. Larger ones may be those of another point of the field; above four
spacings the gap is the height over the surface below.

An overlap is deep where it is more than the least radius of curvature. A ball whose centre is below
the surface has the shortest way out for it. An ellipsoid has then, or where a face cuts it that has
no contact, the way out along the normal of a face that it meets. There is one contact then.

A capsule has balls at its ends, and ridges under its middle. Its axis c + s u, |s| ≤ l/2, crosses
an edge P + t d at the distance n·(c − P), n = u×d/|u×d|, and passes a point P of the field at its
distance from the line. Faces touch the ends only, or the whole length. Both halves of the middle
have one slot: a capsule rests on both.

A capsule that lies on a face and over the ridge at its side touches both. Its normal may turn
beyond that of the face by rounding, or in a step: the ridge stays in its slot there, which is no
error, as no point of the field may be inside the capsule. An axis that passes through a face, with
both ends above the field, has the way out along the normal of that face.

**Source:** theory/contact 8.

Reasons: docs/decisions/0062.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from phipsi.contact.geometry.convex_pairs import solved_across
from phipsi.contact.geometry.field_cells import (
    EDGES,
    FACES,
    INSIDE,
    POINT,
    Cell,
    RankedContact,
    SurfaceHit,
    below,
    cell_at,
    ends_of,
    feature_of,
    in_face,
    in_normal_cone,
    is_level,
    is_peak,
    is_ridge,
    is_there,
    no_entries,
    number_of,
    over_cells,
    with_entry,
)
from phipsi.contact.geometry.graph_calls import Repeated, called
from phipsi.contact.geometry.placed_shapes import (
    INACTIVE,
    ContactCandidate,
    Placed,
    chosen,
    common_normal,
    unit,
)
from phipsi.core.arrays import Array, Tracer, as_node, law_operations as ops

CONTACTS = 3
"""A body rests on three points."""
ABOVE = 0.1
"""Of the size of a body: how far below it contacts other than the nearest are looked for."""
FAR = 4.0
"""Spacings above which the gap is that over the surface below."""
_UP = np.array([0.0, 0.0, 1.0])
_CUT = 1.0 - 1e-9  # of the unit ball's square: where it is cut by more than rounding
_MOST, _DONE = 30, 1e-13  # Newton's steps for the nearest point of an ellipse, and the last of them


def reach_of(b: Placed) -> Array:
    """How far beside a body cells are looked at, at most."""
    return np.maximum(b.p[0], b.p[1])


# ---- balls ---------------------------------------------------------------------------------------


def sphere_field(a: Placed, b: Placed) -> list[ContactCandidate]:
    """Up to three faces, ridges and peaks, the nearest first."""
    return ball_contacts(a.x, a.p[0], b, CONTACTS)


def ball_contacts(x: Array, r: Array, b: Placed, count: int) -> list[ContactCandidate]:
    """The nearest contacts of a ball about x, world axes."""
    c = b.R.T @ (x - b.x)
    under = below(c, b)
    height = c[2] - under.point[2]
    side = np.where(under.there & (height < 0.0), -1.0, 1.0)
    away, far = c - under.point, reach_of(b)
    more = r + np.clip(np.sqrt(away @ away) - r, 0.0, far)
    given = np.concatenate([c, np.stack([side])])
    level, number = is_level(under, b), number_of(under.i, under.j, 1.0 * under.is_second, b)
    own = RankedContact(np.where(level, side * height, INACTIVE), side * under.normal, number)
    first = with_entry(no_entries(count, 0.0 * c[0]), own)
    bottom = c[2] - np.minimum(np.maximum(np.sqrt(away @ away), r), r + FAR * far) - ABOVE * r
    entries = over_cells(_ball_at_cell, first, given, c[:2] - more, c[:2] + more, b, bottom, level)
    slots = []
    for k, entry in enumerate(entries):
        i, j, feature = feature_of(entry, b)
        cell = cell_at(i, j, b)
        w = c - cell.origin
        there = entry.value < INACTIVE
        v = w
        for edge in EDGES:
            d, _ = ends_of(cell, edge)
            v = np.where(feature == float(edge), w - ((w @ d) / (d @ d)) * d, v)
        n, distance = unit(v, _UP)
        n, distance = side * n, side * distance
        for face in FACES:
            is_face = there & (feature == float(face))
            n = np.where(is_face, cell.normals[face], n)
            distance = np.where(is_face, cell.normals[face] @ w, distance)
        if k == 0:  # nothing is near: the surface below
            n = np.where(there, n, _UP)
            distance = np.where(there, distance, np.where(under.there, height, INACTIVE))
            there = there | under.there
        else:
            there = there & (side > 0.0)
        slots.append(_ball_slot(x, r, b.R @ n, distance, there))
    return slots


def _ball_slot(
    x: Array, r: Array, normal: Array, distance: Array, there: Array
) -> ContactCandidate:
    """The contact of a ball about x with a surface at a distance from x, if it is there."""
    gap = np.where(there, distance - r, INACTIVE)
    return ContactCandidate(
        gap, normal, x - r * normal, x - np.where(there, distance, 0.0) * normal
    )


def _ball_at_cell(
    i: Array, j: Array, b: Placed, given: Array, entries: list[RankedContact]
) -> list[RankedContact]:
    """Contacts of a ball with what belongs to a cell, by distance from the surface."""
    c, side = given[:3], given[3]
    cell = cell_at(i, j, b)
    w = c - cell.origin
    for face in FACES:
        n = cell.normals[face]
        height = n @ w
        good = in_face(w - height * n, face, b) & (side * height >= 0.0) & is_there(i, j, face, b)
        entries = with_entry(
            entries,
            RankedContact(
                np.where(good, side * height, INACTIVE), side * n, number_of(i, j, face, b)
            ),
        )
    for feature in (*EDGES, POINT):
        if feature == POINT:
            v, around, good = w, cell.e, True
        else:
            d, around = ends_of(cell, feature)
            t = (w @ d) / (d @ d)
            v = w - t * d
            good = (t >= -INSIDE) & (t <= 1.0 + INSIDE) & is_there(i, j, feature, b)
        n, distance = unit(v, side * _UP)
        good = good & in_normal_cone(n, around) & (side * n[2] > 0.0)
        entries = with_entry(
            entries,
            RankedContact(np.where(good, distance, INACTIVE), n, number_of(i, j, feature, b)),
        )
    return entries


# ---- ellipsoids ----------------------------------------------------------------------------------


def ellipsoid_field(a: Placed, b: Placed) -> list[ContactCandidate]:
    """Up to three faces, ridges and peaks, the deepest first."""
    c, Q = b.R.T @ (a.x - b.x), b.R.T @ a.R
    under = below(c, b)
    height = c[2] - under.point[2]
    side = np.where(under.there & (height < 0.0), -1.0, 1.0)
    away, least = c - under.point, np.min(a.p)
    over, far = np.sqrt(away @ away) - least, reach_of(b)
    more = np.clip(over, 0.0, far)
    S = Q * a.p  # columns: half axes
    half = np.stack([np.sqrt(S[k] @ S[k]) for k in range(2)]) + more
    given = np.concatenate([c, Q.reshape(9), a.p])
    lowest = np.sqrt(S[2] @ S[2])
    own, level = _on_level(c, S, Q / a.p, lowest, b)
    first = [*with_entry(no_entries(CONTACTS, 0.0 * c[0]), own), *no_entries(1, 0.0 * c[0])]
    bottom = c[2] - lowest - np.clip(over, 0.0, FAR * far) - ABOVE * np.max(a.p)
    *entries, cut = over_cells(
        _ellipsoid_at_cell, first, given, c[:2] - half, c[:2] + half, b, bottom, level
    )
    is_cut = (cut.value < INACTIVE) & (entries[0].value >= 0.0)
    entries[0] = chosen(is_cut, cut, entries[0])
    return [
        _ellipsoid_slot(a, b, c, Q, entry, under, side, k == 0) for k, entry in enumerate(entries)
    ]


def _on_level(c: Any, S: Any, T: Any, depth: Any, b: Placed) -> tuple[RankedContact, Any]:
    """The contact of the lowest point with level ground below it, and whether there is such."""
    x = c - (S @ S[2]) / depth
    under = below(x, b)
    f = x[2] - under.point[2]
    place = (under.point - c) @ T  # of the unit ball
    level = is_level(under, b) & ((f >= 0.0) | (place @ place <= 1.0))
    number = number_of(under.i, under.j, 1.0 * under.is_second, b)
    return RankedContact(np.where(level, f, INACTIVE), under.normal, number), level


def _ellipsoid_slot(
    a: Placed,
    b: Placed,
    c: Any,
    Q: Any,
    entry: RankedContact,
    under: SurfaceHit,
    side: Any,
    is_first: bool,
) -> ContactCandidate:
    """The contact of an entry; the derivative of its normal is that of a last step."""
    there = (entry.value < INACTIVE) & (side > 0.0)
    i, j, feature = feature_of(entry, b)
    cell = cell_at(i, j, b)
    w = c - cell.origin
    S, n = Q * a.p, np.where(there, entry.n, _UP)
    Sn = n @ S
    size = np.sqrt(Sn @ Sn)
    s = S @ Sn
    G = w - s / size
    g = n @ G
    H = (S @ S.T - s[:, None] * s[None, :] / (size * size)) / size
    step = solved_across(n, H, g, G)
    for edge in EDGES:
        d, _ = ends_of(cell, edge)
        t, _ = unit(np.cross(n, d), _UP)
        bend = t @ H @ t + g
        along = (t @ G) / np.where(np.abs(bend) > 1e-14 * size, bend, 1e30)
        step = np.where(feature == float(edge), along * t, step)
    n = n + step
    n = n / np.sqrt(n @ n)
    for face in FACES:
        n = np.where(feature == float(face), cell.normals[face], n)
    if is_first:
        n = np.where(there, n, _by_point(a.p, Q, c - under.point, under, there, side))
        w = np.where(there, w, c - under.point)
        there = there | under.there
    Sn = n @ S
    size = np.sqrt(Sn @ Sn)
    normal = b.R @ n
    x_a = a.x - b.R @ (S @ Sn) / size
    gap = n @ w - size
    shown = np.where(there, gap, INACTIVE)
    return ContactCandidate(shown, normal, x_a, x_a - np.where(there, gap, 0.0) * normal)


def _by_point(p: Any, Q: Any, w: Any, under: SurfaceHit, there: Any, side: Any) -> Any:
    """The normal without a contact: far away of the surface point below the centre, at −w.

    Deep in the ground, where that point is inside or over the centre, it is that of its face.
    """
    y = -(w @ Q)
    deep = (np.sum(y * y / (p * p)) < 1.0) | (side < 0.0)
    (shift,) = _nearest([p * p], [y], [~(there | deep)])
    n, _ = unit(-(Q @ (y / (p * p + np.where(deep, 0.0, shift)))), _UP)
    return np.where(deep, under.normal, n)


def _ellipsoid_at_cell(
    i: Any, j: Any, b: Placed, given: Any, entries: list[RankedContact]
) -> list[RankedContact]:
    """Contacts of an ellipsoid with what belongs to a cell, by separation.

    The last entry is another one: of the faces that cut the ellipsoid the one with the shortest way
    out, by the length of that.
    """
    *entries, cut = entries
    c, Q, p = given[:3], given[3:12].reshape(3, 3), given[12:15]
    cell = cell_at(i, j, b)
    w, S = c - cell.origin, Q * p

    def lowest(n: Any) -> tuple[Any, Any]:
        """The separation along n from P, and the lowest point along n, from there."""
        Sn = n @ S
        size = np.sqrt(Sn @ Sn)
        return n @ w - size, w - (S @ Sn) / size

    def added(value: Any, n: Any, feature: int, good: Any) -> list[RankedContact]:
        number = number_of(i, j, feature, b)
        return with_entry(entries, RankedContact(np.where(good, value, INACTIVE), n, number))

    for face in FACES:
        n = cell.normals[face]
        f, x = lowest(n)
        there, foot = is_there(i, j, face, b), x - f * n
        own = ((w - foot) @ Q) / p  # beyond a thin ridge, the place in its far face is outside
        good = there & in_face(foot, face, b) & ((f >= 0.0) | (own @ own <= 1.0))
        entries = added(f, n, face, good)
        shorter = there & (-f < cut.value) & _is_cut(face, cell, (w @ Q) / p, Q / p)
        cut = chosen(shorter, RankedContact(-f, n, number_of(i, j, face, b)), cut)
    # nearest points of ellipses across the edges, and of the ellipsoid
    planes = [_Across(ends_of(cell, edge)[0], w, S) for edge in EDGES]
    stands_out = [is_ridge(cell, edge) & is_there(i, j, edge, b) for edge in EDGES]
    stands_out.append(is_peak(cell.e))
    squares = [*(plane.squares for plane in planes), p * p]
    places = [*(plane.place for plane in planes), -(w @ Q)]
    shifts = _nearest(squares, places, stands_out)
    own = zip((*EDGES, POINT), squares, places, shifts, stands_out, strict=True)
    for k, (feature, square, place, shift, good) in enumerate(own):
        z = place / np.maximum(square + shift, 1e-12 * np.max(square))
        n = -(planes[k].axes.T @ z) if feature != POINT else -(Q @ z)
        n, _ = unit(n, _UP)
        f, x = lowest(n)
        good = good & (n[2] > 0.0)
        if feature == POINT:
            good = good & in_normal_cone(n, cell.e)
        else:
            d, around = ends_of(cell, feature)
            t = (x @ d) / (d @ d)
            good = good & in_normal_cone(n, around) & (t >= -INSIDE) & (t <= 1.0 + INSIDE)
        entries = added(f, n, feature, good)
    return [*entries, cut]


def _is_cut(face: int, cell: Cell, w: Any, T: Any) -> Any:
    """Whether a face, or an edge of it from P, is inside an ellipsoid somewhere.

    In axes in which that is the unit ball: w, its centre from P, and x @ T for vectors x.
    """
    d, e = cell.e[face] @ T, cell.e[face + 1] @ T
    m = np.cross(d, e)
    square, height = m @ m, m @ w
    y = w - m * (height / square)
    u, v = (m @ np.cross(y, e)) / square, (m @ np.cross(d, y)) / square
    inside = (height * height < _CUT * square) & (u >= 0.0) & (v >= 0.0) & (u + v <= 1.0)
    for x in (d, e):
        away = w - np.clip((w @ x) / (x @ x), 0.0, 1.0) * x
        inside = inside | (away @ away < _CUT)
    return inside


class _Across:
    """The ellipse that an ellipsoid is, seen along an edge d, and the edge, a point there.

    **Attributes:** `axes` (2, 3), those of the ellipse; `squares` (2,) of its half axes; `place`
    (2,) of the edge about the centre.
    """

    def __init__(self, d: Any, w: Any, S: Any) -> None:
        u, _ = unit(np.stack([d[1], -d[0], 0.0 * d[0]]), _UP)
        v, _ = unit(np.cross(d, u), _UP)
        U, V = u @ S, v @ S
        uu, uv, vv = U @ U, U @ V, V @ V
        h, middle = 0.5 * (uu - vv), 0.5 * (uu + vv)
        length = np.sqrt(h * h + uv * uv)
        round_ = length <= 1e-15 * middle
        cos2 = np.where(round_, 1.0, h / np.where(round_, 1.0, length))
        sin2 = np.where(round_, 0.0, uv / np.where(round_, 1.0, length))
        long = np.sqrt(0.5 * (1.0 + np.abs(cos2)))
        short = 0.5 * sin2 / long
        cos, sin = np.where(cos2 >= 0.0, long, short), np.where(cos2 >= 0.0, short, long)
        large = middle + length
        self.squares = np.stack([large, (uu * vv - uv * uv) / large])
        self.axes = np.stack([cos * u + sin * v, cos * v - sin * u])
        self.place = -(self.axes @ w)


def _nearest(squares: list[Any], places: list[Any], wanted: list[Any]) -> list[Any]:
    """λ of the nearest points x = s y/(s + λ) of ellipses with half axes √s to points y.

    Σ s y²/(s + λ)² = 1 is solved by Newton's steps for the inverse of its root, which is nearly
    linear and concave in λ: from the left, steps do not overshoot.
    """
    starts, some = [], 0.0
    for s, y in zip(squares, places, strict=True):
        starts.append(np.max(np.sqrt(s) * np.abs(y) - s))
    for x in wanted:
        some = some + 1.0 * x
    done = 1.0 * (some < 0.5)
    given = np.concatenate([*squares, *places, np.stack([1.0 * x for x in wanted])])
    found = called(_root(tuple(len(s) for s in squares)), np.stack([*starts, done]), given)
    return [found[k] for k in range(len(squares))]


_ROOTS: dict[tuple[int, ...], Repeated] = {}


def _root(sizes: tuple[int, ...]) -> Repeated:
    if sizes not in _ROOTS:
        total, count = sum(sizes), len(sizes)
        state: Any = Tracer(ops.input("state", (count + 1,)))
        given: Any = Tracer(ops.input("given", (2 * total + count,)))
        new, goes_on, at = [], 0.0, 0
        for k, size in enumerate(sizes):
            s, y = given[at : at + size], given[total + at : total + at + size]
            at += size
            inverse = 1.0 / np.maximum(s + state[k], 1e-12 * np.max(s))
            z = y * inverse
            square = s @ (z * z)
            slope = s @ (z * z * inverse)
            there = slope > 0.0
            change = square * (np.sqrt(square) - 1.0) / np.where(there, slope, 1.0)
            change = np.where(there, change, 0.0)
            new.append(state[k] + change)
            wanted = given[2 * total + k] > 0.5
            goes_on = goes_on + 1.0 * (
                wanted & (np.abs(change) > _DONE * (np.max(s) + np.abs(state[k])))
            )
        node = np.stack([*new, 1.0 * (goes_on < 0.5)])
        _ROOTS[sizes] = Repeated(as_node(node), _MOST)
    return _ROOTS[sizes]


# ---- capsules ------------------------------------------------------------------------------------


_AT_ENDS = 2  # contacts of each end: both sides of a valley
_PARALLEL = 1e-12  # sin² of the angle of an edge that the axis does not cross
_SLACK = 0.1  # rad: by which a capsule that lies on a face may sink into it beside a ridge


def capsule_field(a: Placed, b: Placed) -> list[ContactCandidate]:
    """Two contacts of each end, and one of each half of the middle."""
    r, half, z = a.p[0], a.p[1], a.R[:, 2]
    ends = [ball_contacts(a.x + s * half * z, r, b, _AT_ENDS) for s in (1.0, -1.0)]
    ends_above = (ends[0][0].gap > -r) & (ends[1][0].gap > -r)
    return [*(x[k] for k in range(_AT_ENDS) for x in ends), *_middle(a, b, ends_above)]


def _middle(a: Placed, b: Placed, ends_above: Array) -> list[ContactCandidate]:
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
    entries[0] = chosen(is_cut, cut, entries[0])
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
        x, there = a.x + s * a.R[:, 2], entry.value < INACTIVE
        slots.append(_ball_slot(x, r, b.R @ n, distance, there))
    return slots


def _crossing(w: Array, u: Array, d: Array) -> tuple[Any, Any, Any, Any]:
    """Upward unit normal to axis and edge, their distance along it, places t on d and s on u."""
    n, s, t, crosses = common_normal(w, u, d, _PARALLEL)
    n = np.where(crosses, n, _UP)
    return n, n @ w, np.where(crosses, t, -1.0), s


def _is_under(x: Array, faces: Sequence[tuple[Any, Any]]) -> Array:
    """Whether a point from P is below one of the faces at P, given by their other two corners."""
    found: Any = False
    for p, q in faces:
        area = p[0] * q[1] - p[1] * q[0]
        a, b = (x[0] * q[1] - x[1] * q[0]) / area, (p[0] * x[1] - p[1] * x[0]) / area
        inside = (a >= 0.0) & (b >= 0.0) & (a + b <= 1.0)
        found = found | (inside & (x[2] <= a * p[2] + b * q[2]))
    return found


def _middle_at_cell(
    i: Any, j: Any, b: Placed, given: Any, entries: list[RankedContact]
) -> list[RankedContact]:
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
        new = RankedContact(out, n, number_of(i, j, face, b))
        cut = chosen(passes & (out < cut.value), new, cut)
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
        good = good & in_normal_cone(n, around, _SLACK)
        if feature == POINT:
            faces = [(around[k], around[(k + 1) % 6]) for k in range(6)]
        else:
            faces = [(d, q) for q in around]
        good = good & ((distance >= 0.0) | _is_under(w + s * u, faces))
        new = RankedContact(distance, n, number_of(i, j, feature, b))
        sides = (good & (s >= 0.0), good & (s < 0.0))
        entries = [
            chosen(own & (distance < x.value), new, x)
            for own, x in zip(sides, entries, strict=True)
        ]
    return [*entries, cut]
