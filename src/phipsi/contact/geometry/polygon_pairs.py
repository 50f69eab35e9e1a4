"""Contacts of two polyhedra at the corners of the polygon in which their faces lie over each other.

The direction n separates the shapes most, or they overlap least in it; their faces P and Q that
look at each other along n lie over each other in a convex polygon.

**Shapes that give** (`polygon_pair`). Each side of the polygon is on a side of P or of Q; the slot
of that side is the corner at its end. A corner has the gap along n and the weight

    w = exterior angle of the polygon there / (π/2),    Σ w = 4

by which the stiffness and the damping of the material are multiplied. So a face on four corners
has the weight 1 at each. A side that comes into the polygon does so at a corner, which becomes two
whose angles are that of one: forces do not jump. Sides that are redundant, as those of equal faces
on each other, change nothing, whichever of them is taken.

The angles are measured in the plane of the face that is tilted more against n, so that its own
corners keep their own angles; where both are, in both planes, by sin² of their tilts.

**Runs with events** (`feature_pair`). The corners of the polygon are corners of Q over P, corners
of P over Q, and places where edges cross. There is a slot for every pair of such features, with its
own normal:

    corner of b over a face of a    along the normal of that face
    corner of a over a face of b    along the normal of that face
    two edges                       along their common normal e × f

Such a gap is smooth, and its rate is the normal velocity of its points exactly. Where n separates
the shapes no gap is negative, whatever the tilt of the faces. Where a corner comes to an edge, its
gap and those of the edges that cross there are zero together. No corner of the polygon is left out,
so no contact that closes is missed.

The last slot has the nearest points, where the polygon does not contain them; its weight is 1.

**Source:** theory/contact 3, 8.

Reasons: docs/decisions/0063, docs/decisions/0066.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from phipsi.contact.geometry.box_pairs import facing_axis, separating_axis, unseen
from phipsi.contact.geometry.convex_pairs import (
    crossing,
    is_over,
    nearest,
    vector_area,
    witness_point,
)
from phipsi.contact.geometry.convex_search import Kinds, RelativeShapes
from phipsi.contact.geometry.convex_shapes import size, whole_face
from phipsi.contact.geometry.placed_shapes import (
    INACTIVE,
    LEAST_WEIGHT,
    ContactCandidate,
    Formula,
    Placed,
    Weighted,
    across,
)

_BOXES = ("Box", "Box")
_SAME = 1e-9  # of the size: places and gaps that differ by less are the same
_PARALLEL = 1e-8  # sine of the angle below which two sides are on parallel lines
_EDGE_ON = 1e-13  # of squared lengths: a face that is seen from the side covers nothing
_STEEP = 1e-6  # cosine between n and a normal, below which a plane has no angles seen along n
_TURN = 2 * np.pi


def polygon_pair(kinds: Kinds, corners: tuple[int, int] = (4, 4)) -> Formula:
    """Of shapes that give: (k + m + 1) slots for faces of k and m corners, with weights."""

    def slots(a: Placed, b: Placed) -> list[Weighted]:
        facing = _FacePair(kinds, a, b, facing_axis)
        found = _weighted_corners(kinds, corners, facing.pair, facing.n)
        last = Weighted(*facing.nearest_slot(found), 1.0)
        return [*(_placed(a, s) for s in found), last]

    return slots


def feature_pair(kinds: Kinds, corners: tuple[int, int] = (4, 4)) -> Formula:
    """In runs with events: (k + m + k m + 1) slots for faces of k and m corners."""

    def slots(a: Placed, b: Placed) -> list[ContactCandidate]:
        facing = _FacePair(kinds, a, b, separating_axis)
        found = _features(kinds, corners, facing.pair, facing.n, _SAME * facing.scale)
        last = facing.nearest_slot(found)
        return [*(_placed(a, s) for s in found), last]

    return slots


class _FacePair:
    """Two boxes or meshes in the axes of a, and the direction n in which they face each other."""

    def __init__(self, kinds: Kinds, a: Placed, b: Placed, axis: Callable[..., Any]) -> None:
        self.kinds, self.a, self.b = kinds, a, b
        self.pair = RelativeShapes(a.p, b.p, a.R.T @ b.R, a.R.T @ (b.x - a.x))
        self.scale = size(kinds[0], a.p) + size(kinds[1], b.p)
        if kinds == _BOXES:
            self.n = a.R.T @ axis(a, b)
        else:
            self.n, self._x, self._y = nearest(kinds, self.pair)

    def nearest_slot(self, found: Sequence[ContactCandidate | Weighted]) -> ContactCandidate:
        """The nearest points in the world, where they are at no corner of the polygon."""
        lowest: Any = INACTIVE
        for one in found:
            lowest = np.minimum(lowest, one.gap)
        if self.kinds == _BOXES:
            return unseen(self.a, self.b, lowest)
        pair, n = self.pair, self.n
        f, x = witness_point(self.kinds, pair, n, self._x, pair.t + pair.Q @ self._y)
        gap = np.where(lowest > f + _SAME * self.scale, f, INACTIVE)
        return _placed(self.a, ContactCandidate(gap, n, x, x - f * n))


def _placed(a: Placed, s: Any) -> Any:
    """A slot in the axes of a, in the world."""
    return s._replace(normal=a.R @ s.normal, x_a=a.x + a.R @ s.x_a, x_b=a.x + a.R @ s.x_b)


# ---- corners with weights ------------------------------------------------------------------------


class _Sides(NamedTuple):
    """Sides of a polygon, counterclockwise about n: starts and ways along them (k, 3), lengths.

    In axes across n, and along n; lengths are seen along n. `counts`, which of them are sides: a
    face of few corners has some of them twice. `up` (3,), the unit normal of its plane, upward;
    `is_seen`, whether the plane is not seen from the side.
    """

    start: Any
    along: Any
    length: Any
    counts: Any
    up: Any
    is_seen: Any

    def height(self, x: Any) -> Any:
        """Of its plane, over places (l, 2)."""
        d = x - self.start[0, :2]
        return self.start[0, 2] - (d @ self.up[:2]) * self._steep

    def angles(self, ways: Any) -> Any:
        """Of ways (l, 2) seen along n, in its plane, rad."""
        E = np.concatenate([ways, (-(ways @ self.up[:2]) * self._steep)[:, None]], axis=1)
        u, v = across(self.up)
        return np.arctan2(E @ v, E @ u)

    @property
    def _steep(self) -> Any:
        return np.where(self.is_seen, 1.0, 0.0) / np.where(self.is_seen, self.up[2], 1.0)

    @property
    def tilt(self) -> Any:
        """sin² of the angle between n and the normal."""
        return self.up[0] * self.up[0] + self.up[1] * self.up[1]


def _sides(P: Any) -> _Sides:
    area = vector_area(P)
    left = area[2] >= 0.0
    after = P[np.roll(np.arange(P.shape[0]), -1)]
    start, along = np.where(left, P, after), np.where(left, after - P, P - after)
    square = along[:, 0] * along[:, 0] + along[:, 1] * along[:, 1]
    counts = square > _EDGE_ON * np.sum(square)
    length = np.sqrt(np.where(counts, square, 1.0))
    whole = area @ area
    up = np.where(left, area, -area) / np.sqrt(np.where(whole > 0.0, whole, 1.0))
    return _Sides(start, along / length[:, None], length, counts, up, up[2] > _STEEP)


def _weighted_corners(
    kinds: Kinds, corners: tuple[int, int], pair: RelativeShapes, n: Any
) -> list[Weighted]:
    """The corners of the polygon in the axes of a, one for each side of P and of Q."""
    M = np.stack([*across(n), n])
    whole_P = whole_face(kinds[0], pair.p_a, -n, corners[0]) @ M.T
    whole_Q = (pair.t + whole_face(kinds[1], pair.p_b, n @ pair.Q, corners[1]) @ pair.Q.T) @ M.T
    P, Q = _sides(whole_P), _sides(whole_Q)
    sides = [_clipped(P, Q, True), _clipped(Q, P, False)]
    is_there = np.concatenate([1.0 * x.is_there for x in sides]) > 0.0
    is_there = is_there & P.is_seen & Q.is_seen
    weights = _weights(P, Q, is_there)
    ends = np.concatenate([x.end for x in sides])
    own_P, own_Q = (
        side.start[:, 2] + x.to * side.along[:, 2] for side, x in zip((P, Q), sides, strict=True)
    )
    k = whole_P.shape[0]
    z_a = np.concatenate([own_P, P.height(ends[k:])])
    z_b = np.concatenate([Q.height(ends[:k]), own_Q])
    least = np.min(whole_P[:, 2]) - np.max(whole_Q[:, 2])  # rounding at steep faces
    gap = np.maximum(z_a - z_b, least)
    z_b = z_a - gap
    active = is_there & (weights > LEAST_WEIGHT)
    gaps, weights = np.where(active, gap, INACTIVE), np.where(active, weights, 1.0)
    flat = ends @ M[:2]
    return [
        Weighted(gaps[i], n, flat[i] + z_a[i] * n, flat[i] + z_b[i] * n, weights[i])
        for i in range(k + whole_Q.shape[0])
    ]


class _Clipped(NamedTuple):
    """Of sides: whether they are sides of the polygon, where these end, and how far along (k,)."""

    is_there: Any
    end: Any
    to: Any


def _clipped(P: _Sides, Q: _Sides, is_first: bool) -> _Clipped:
    """The parts of the sides of P that are in Q.

    Of two sides of P and Q on parallel lines, one is redundant. One number decides which, for
    both: how far that of the first shape is inside the other.
    """
    first, to = 0.0 * P.length, P.length
    is_there: Any = P.counts
    for j in range(Q.start.shape[0]):
        q, f = Q.start[j], Q.along[j]
        rises = f[0] * P.along[:, 1] - f[1] * P.along[:, 0]
        d = P.start - q
        inside = f[0] * d[:, 1] - f[1] * d[:, 0]
        parallel = np.abs(rises) < _PARALLEL
        middle = inside + 0.5 * P.length * rises
        outer: Any = middle < 0.0
        if not is_first:
            e, back = P.along, q + 0.5 * Q.length[j] * f - P.start
            outer = e[:, 0] * back[:, 1] - e[:, 1] * back[:, 0] < 0.0
            ways = e[:, 0] * f[0] + e[:, 1] * f[1]
            outer = np.where(ways > 0.0, 1.0 * ~outer, 1.0 * outer) > 0.0
        is_there = is_there & ~(Q.counts[j] & parallel & outer)
        cuts = Q.counts[j] & ~parallel
        at = -inside / np.where(cuts, rises, 1.0)
        first = np.where(cuts & (rises > 0.0), np.maximum(first, at), first)
        to = np.where(cuts & (rises < 0.0), np.minimum(to, at), to)
    return _Clipped(is_there & (to > first), P.start[:, :2] + to[:, None] * P.along[:, :2], to)


def _weights(P: _Sides, Q: _Sides, is_there: Any) -> Any:
    """Of the corners at the ends of all sides, those of P first: angles to the next side there."""
    some = np.array([1.0, 0.0])  # a way for what is no side
    parts = [np.where(x.counts[:, None], x.along[:, :2], some) for x in (P, Q)]
    ways = np.concatenate(parts)
    total = P.tilt + Q.tilt
    share = np.where(total > 0.0, Q.tilt / np.where(total > 0.0, total, 1.0), 0.5)
    out: Any = 0.0
    for plane, part in ((P, 1.0 - share), (Q, share)):
        angle = plane.angles(ways)
        count = angle.shape[0]
        least: Any = _TURN + 0.0 * angle
        for j in range(count):
            turn = angle[j] - angle
            before = np.where(np.arange(count) < j, turn < 0.0, turn <= 0.0)
            turn = np.where(before, turn + _TURN, turn)
            least = np.where(is_there[j], np.minimum(least, turn), least)
        out = out + part * least
    return out * (4.0 / _TURN)


# ---- features ------------------------------------------------------------------------------------


_NO_NORMAL = 1e-6  # sine of the angle below which edges have the normal of a face


class _Face(NamedTuple):
    """A face: corners (k, 3), unit normal outward, corners in axes across and along n, which count.

    The last: a face of few corners has some of them twice.
    """

    at: Any
    normal: Any
    flat: Any
    counts: Any


def _features(
    kinds: Kinds, corners: tuple[int, int], pair: RelativeShapes, n: Any, near: Any
) -> list[ContactCandidate]:
    """Contacts of all corners of the polygon, in the axes of a; absent ones last."""
    M = np.stack([*across(n), n])
    P = _face(whole_face(kinds[0], pair.p_a, -n, corners[0]), -n, M)
    Q = _face(pair.t + whole_face(kinds[1], pair.p_b, n @ pair.Q, corners[1]) @ pair.Q.T, n, M)
    found = [
        ContactCandidate(gap, -P.normal, x - gap * P.normal, x)
        for x, gap in _corners_over(Q, P, near)
    ]
    found += [
        ContactCandidate(gap, Q.normal, x, x - gap * Q.normal)
        for x, gap in _corners_over(P, Q, near)
    ]
    k, m = P.at.shape[0], Q.at.shape[0]
    return found + [_crossing(P, i, Q, j, n) for i in range(k) for j in range(m)]


def _face(corners: Any, outward: Any, M: Any) -> _Face:
    area = vector_area(corners)
    square = area @ area
    area = area / np.sqrt(np.where(square > 0.0, square, 1.0))
    before = corners[np.roll(np.arange(corners.shape[0]), 1)]
    moved = np.sum((corners - before) ** 2, axis=1)
    normal = np.where(area @ outward < 0.0, -area, area)
    return _Face(corners, normal, corners @ M.T, moved > 0.0)


def _corners_over(of: _Face, over: _Face, near: Any) -> list[tuple[Any, Any]]:
    """Corners of a face and their gaps to another one, `INACTIVE` for those not over it."""
    heights = (of.at - over.at[0]) @ over.normal
    gaps = np.where(of.counts & is_over(of.flat, over.flat, near), heights, INACTIVE)
    return [(of.at[i], gaps[i]) for i in range(of.at.shape[0])]


def _crossing(P: _Face, i: int, Q: _Face, j: int, n: Any) -> ContactCandidate:
    """The contact of two edges that cross, seen along n."""
    k, m = P.at.shape[0], Q.at.shape[0]
    p, q = P.at[i], Q.at[j]
    e, f = P.at[(i + 1) % k] - p, Q.at[(j + 1) % m] - q
    e2, f2 = P.flat[(i + 1) % k] - P.flat[i], Q.flat[(j + 1) % m] - Q.flat[j]
    s, t, there = crossing(Q.flat[j] - P.flat[i], e2, f2)
    normal = np.cross(e, f)
    square, ee, ff, ef, d = normal @ normal, e @ e, f @ f, e @ f, q - p
    is_good = square > _NO_NORMAL**2 * ee * ff
    inverse = 1.0 / np.where(is_good, square, 1.0)
    normal = np.where(normal @ n < 0.0, -normal, normal) * np.sqrt(inverse)
    de, df = d @ e, d @ f
    s = np.where(is_good, (de * ff - df * ef) * inverse, s)  # the nearest points of both lines
    t = np.where(is_good, (de * ef - df * ee) * inverse, t)
    normal = np.where(is_good, normal, Q.normal)
    x_a, x_b = p + s * e, q + t * f
    gap = normal @ (x_a - x_b)
    return ContactCandidate(
        np.where(there, gap, INACTIVE), normal, x_a, np.where(is_good, x_b, x_a - gap * normal)
    )
