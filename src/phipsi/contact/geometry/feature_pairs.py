"""Contacts of two polyhedra by features, for runs with events: one slot for every pair of features.

Along a direction n that separates the shapes, their faces P and Q that look at each other lie over
each other in a polygon. Its corners are corners of Q over P, corners of P over Q, and places where
edges cross. Each of them is a contact of its own, with its own normal:

    corner of b over a face of a    along the normal of that face
    corner of a over a face of b    along the normal of that face
    two edges                       along their common normal e × f

Such a gap is smooth, and its rate is the normal velocity of its points exactly. Where n separates
the shapes no gap is negative, whatever the tilt of the faces. Where a corner comes to an edge, its
gap and those of the edges that cross there are zero together. No corner of the polygon is left out,
so no contact that closes is missed.

**Source:** theory/contact 8.

Reasons: docs/decisions/0063.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from phipsi.contact.geometry.box_pairs import separating_axis, unseen
from phipsi.contact.geometry.convex_pairs import nearest, vector_area, witness
from phipsi.contact.geometry.convex_search import Kinds, Relative
from phipsi.contact.geometry.convex_shapes import across, size, whole_face
from phipsi.contact.geometry.placed_shapes import INACTIVE, Formula, Placed, Slot

_SAME = 1e-9  # of the size: places and gaps that differ by less are the same
_EDGE_ON = 1e-13  # of squared lengths: a face that is seen from the side covers nothing
_PARALLEL = 1e-12  # of the lengths of two edges, seen along n: they do not cross
_NO_NORMAL = 1e-6  # sine of the angle below which edges have the normal of a face


def feature_pair(kinds: Kinds, corners: tuple[int, int] = (4, 4)) -> Formula:
    """The formula for boxes and meshes: (k + m + k m) slots for faces of k and m corners.

    And one more, the nearest points, where these are at no corner of the polygon.
    """
    is_boxes = kinds == ("Box", "Box")

    def slots(a: Placed, b: Placed) -> list[Slot]:
        pair = Relative(a.p, b.p, a.R.T @ b.R, a.R.T @ (b.x - a.x))
        if is_boxes:
            n, x, y = a.R.T @ separating_axis(a, b), None, None
        else:
            n, x, y = nearest(kinds, pair)
        scale = size(kinds[0], a.p) + size(kinds[1], b.p)
        found = _features(kinds, corners, pair, n, _SAME * scale)
        lowest: Any = INACTIVE
        for one in found:
            lowest = np.minimum(lowest, one.gap)
        if not is_boxes:
            f, x = witness(kinds, pair, n, x, pair.t + pair.Q @ y)
            gap = np.where(lowest > f + _SAME * scale, f, INACTIVE)
            found.append(Slot(gap, n, x, x - f * n))
        out = [Slot(s.gap, a.R @ s.normal, a.x + a.R @ s.x_a, a.x + a.R @ s.x_b) for s in found]
        return [*out, unseen(a, b, lowest)] if is_boxes else out

    return slots


class _Face(NamedTuple):
    """A face: corners (k, 3), unit normal outward, corners in axes across n, which of them count.

    The last: a face of few corners has some of them twice.
    """

    at: Any
    normal: Any
    flat: Any
    counts: Any


def _features(
    kinds: Kinds, corners: tuple[int, int], pair: Relative, n: Any, near: Any
) -> list[Slot]:
    """Contacts of all corners of the polygon, in the axes of a; those that are not there last."""
    M = np.stack(across(n))
    P = _face(whole_face(kinds[0], pair.p_a, -n, corners[0]), -n, M)
    Q = _face(pair.t + whole_face(kinds[1], pair.p_b, n @ pair.Q, corners[1]) @ pair.Q.T, n, M)
    found = [Slot(gap, -P.normal, x - gap * P.normal, x) for x, gap in _corners(Q, P, near)]
    found += [Slot(gap, Q.normal, x, x - gap * Q.normal) for x, gap in _corners(P, Q, near)]
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


def _corners(of: _Face, over: _Face, near: Any) -> list[tuple[Any, Any]]:
    """Corners of a face and their gaps to another one, `INACTIVE` for those not over it."""
    heights = (of.at - over.at[0]) @ over.normal
    gaps = np.where(of.counts & _is_over(of.flat, over.flat, near), heights, INACTIVE)
    return [(of.at[i], gaps[i]) for i in range(of.at.shape[0])]


def _is_over(points: Any, P: Any, near: Any) -> Any:
    """Whether points (m, 2) are in a polygon (k, 2), up to a distance."""
    k = P.shape[0]
    sides, area, around = [], 0.0, 0.0
    for i in range(k):
        e, d = P[(i + 1) % k] - P[i], points - P[i]
        sides.append((e[0] * d[:, 1] - e[1] * d[:, 0], near * (np.abs(e[0]) + np.abs(e[1]))))
        area = area + P[i, 0] * P[(i + 1) % k, 1] - P[i, 1] * P[(i + 1) % k, 0]
        around = around + e @ e
    there: Any = np.abs(area) > _EDGE_ON * around
    sign = np.where(area < 0.0, -1.0, 1.0)
    for side, slack in sides:
        there = there & (sign * side >= -slack)
    return there


def _crossing(P: _Face, i: int, Q: _Face, j: int, n: Any) -> Slot:
    """The contact of two edges that cross, seen along n."""
    k, m = P.at.shape[0], Q.at.shape[0]
    p, q = P.at[i], Q.at[j]
    e, f = P.at[(i + 1) % k] - p, Q.at[(j + 1) % m] - q
    e2, f2 = P.flat[(i + 1) % k] - P.flat[i], Q.flat[(j + 1) % m] - Q.flat[j]
    d2 = Q.flat[j] - P.flat[i]
    det = e2[0] * f2[1] - e2[1] * f2[0]
    crosses = det * det > _PARALLEL**2 * (e2 @ e2) * (f2 @ f2)
    inverse = 1.0 / np.where(crosses, det, 1.0)
    s, t = (d2[0] * f2[1] - d2[1] * f2[0]) * inverse, (d2[0] * e2[1] - d2[1] * e2[0]) * inverse
    there = crosses & (s >= 0.0) & (s <= 1.0) & (t >= 0.0) & (t <= 1.0)
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
    return Slot(
        np.where(there, gap, INACTIVE), normal, x_a, np.where(is_good, x_b, x_a - gap * normal)
    )
