"""Contacts of two polyhedra that give: every corner of the polygon between faces, with a weight.

Along a direction n that separates the shapes most, or in which they overlap least, their faces P
and Q that look at each other lie over each other in a convex polygon. Each of its sides is on a
side of P or of Q; the slot of that side is the corner at its end. A corner has the gap along n and
the weight

    w = exterior angle of the polygon there / (π/2),    Σ w = 4

by which the stiffness and the dissipation of the material are multiplied. So a face on four corners
has the weight 1 at each. A side that comes into the polygon does so at a corner, which becomes two
whose angles are that of one: forces do not jump. Sides that are redundant, as those of equal faces
on each other, change nothing, whichever of them is taken.

The angles are measured in the plane of the face that is tilted more against n, so that its own
corners keep their own angles; where both are, in both planes, by sin² of their tilts.

The last slot has the nearest points, where the polygon does not contain them, and the weight 1.

**Source:** theory/contact 3, 8.

Reasons: docs/decisions/0066.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from phipsi.contact.geometry.box_pairs import facing_axis, unseen
from phipsi.contact.geometry.convex_pairs import nearest, vector_area, witness
from phipsi.contact.geometry.convex_search import Kinds, Relative
from phipsi.contact.geometry.convex_shapes import across, size, whole_face
from phipsi.contact.geometry.placed_shapes import INACTIVE, LEAST_WEIGHT, Formula, Placed, Weighted

_SAME = 1e-9  # of the size: gaps that differ by less are the same
_PARALLEL = 1e-8  # sine of the angle below which two sides are on parallel lines
_EDGE_ON = 1e-13  # of squared lengths: a face that is seen from the side covers nothing
_STEEP = 1e-6  # cosine between n and a normal, below which a plane has no angles seen along n
_TURN = 2 * np.pi


def polygon_pair(kinds: Kinds, corners: tuple[int, int] = (4, 4)) -> Formula:
    """The formula for boxes and meshes: (k + m + 1) slots for faces of k and m corners."""
    is_boxes = kinds == ("Box", "Box")

    def slots(a: Placed, b: Placed) -> list[Weighted]:
        pair = Relative(a.p, b.p, a.R.T @ b.R, a.R.T @ (b.x - a.x))
        if is_boxes:
            n, x, y = a.R.T @ facing_axis(a, b), None, None
        else:
            n, x, y = nearest(kinds, pair)
        found = _corners(kinds, corners, pair, n)
        lowest: Any = INACTIVE
        for one in found:
            lowest = np.minimum(lowest, one.gap)
        if is_boxes:
            last = Weighted(*unseen(a, b, lowest), 1.0)
        else:
            scale = size(kinds[0], a.p) + size(kinds[1], b.p)
            f, x = witness(kinds, pair, n, x, pair.t + pair.Q @ y)
            gap = np.where(lowest > f + _SAME * scale, f, INACTIVE)
            last = _placed(a, Weighted(gap, n, x, x - f * n, 1.0))
        return [*(_placed(a, s) for s in found), last]

    return slots


def _placed(a: Placed, s: Weighted) -> Weighted:
    """A slot in the axes of a, in the world."""
    return s._replace(normal=a.R @ s.normal, x_a=a.x + a.R @ s.x_a, x_b=a.x + a.R @ s.x_b)


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


def _corners(kinds: Kinds, corners: tuple[int, int], pair: Relative, n: Any) -> list[Weighted]:
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
