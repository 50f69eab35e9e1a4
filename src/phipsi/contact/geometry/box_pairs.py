"""Contacts of two boxes: separating axes, then the polygon in which faces lie over each other.

The face with the largest separation is the reference; the other box's face that looks at it most
is the incident one. Its corners over the reference, corners of the reference under it, and places
where edges cross are the candidates for four slots, the deepest and the widest. A fifth slot has
contacts of edges and corners, which no face sees. The smallest gap is the distance; in an overlap,
the shortest way out among the axes. The gaps are along the normal of the reference, or, where two
edges separate the boxes more than any face, along the common normal of these: along an axis that
separates the boxes no gap is negative. At a place where edges cross, the rate of the gap is the
normal row only if the faces are parallel or these edges the nearest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phipsi.contact.geometry.placed_shapes import (
    INACTIVE,
    ContactCandidate,
    Placed,
    Points,
    chosen,
    largest_of_three,
    reduce_to_four,
    unit,
)
from phipsi.core.arrays import Array

_SIGNS = np.array([[1.0, 1, 1], [1, 1, -1], [1, -1, 1], [1, -1, -1],
                   [-1, 1, 1], [-1, 1, -1], [-1, -1, 1], [-1, -1, -1]])  # fmt: skip
_CORNERS = np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])
_PARALLEL = 1e-8  # sin² of the angle below which edges have no axis of their own
_FACES_FIRST = 1e-6  # of the size: by how much an edge must be better than a face
_SAME = 1e-9  # of the size: distances that differ by less are the same
_A_FIRST = 1e-9  # of the size: by how much a face of b must be better than one of a
_EDGE_ON = 1e-9  # of an area: a face seen from the side hides no corners


def box_box(a: Placed, b: Placed) -> list[ContactCandidate]:
    """Four points of the polygon between faces; one between edges or corners."""
    boxes = _Boxes(a, b)
    points = boxes.face.polygon()
    chosen = reduce_to_four(points)
    deepest = np.where(
        chosen[0].there, np.min(np.where(points.there, points.w, INACTIVE)), INACTIVE
    )
    slots = [boxes.face.slot(p, p.there) for p in chosen]
    return [*slots, boxes.last(deepest, chosen[0].there)]


def unseen(a: Placed, b: Placed, deepest: Any) -> ContactCandidate:
    """The contact of edges or corners that is nearer than the nearest point between faces.

    `deepest` is the gap of that, `INACTIVE` if there is none.
    """
    return _Boxes(a, b).last(deepest, deepest < INACTIVE)


class _Boxes:
    """Two boxes: what separates them, and the reference face."""

    def __init__(self, a: Placed, b: Placed) -> None:
        self.a, self.b = a, b
        self.axes = axes = _Axes(a, b)
        self.size = size = np.sum(a.p) + np.sum(b.p)
        self.edge, self.sep_edge, self.is_inner = _edge_contact(a, b, axes)
        best_a, best_b = np.max(axes.of_a), np.max(axes.of_b)
        on_a = best_a + _A_FIRST * size >= best_b
        self.sep_face = np.where(on_a, best_a, best_b)
        self.apart = np.maximum(self.sep_face, self.sep_edge) > 0.0
        # edges: clearly better than all faces
        self.is_best = self.sep_edge > self.sep_face + _FACES_FIRST * size
        self.face = _ReferenceFace(a, b, axes, on_a | self.is_best, self.is_best, self.edge.normal)

    def last(self, deepest: Array, some: Array) -> ContactCandidate:
        """The contact that no point between faces has; of these, the least gap, and if any are."""
        apart, least = self.apart, deepest - _SAME * self.size
        # edges count if their axis is better than those of faces and no point there is as near
        better = self.is_best | (apart & (self.sep_edge > self.sep_face))
        by_edge = self.is_inner & (self.sep_edge < least) & better
        corner = _corner_contact(self.a, self.b, self.axes)
        lost = self.face.deepest(np.where(self.is_best, self.sep_edge, self.sep_face))
        nearer = apart & (corner.gap < least)
        last = chosen(by_edge, self.edge, chosen(nearer, corner, lost))
        active = by_edge | nearer | (~apart & ~some)
        return last._replace(gap=np.where(active, last.gap, INACTIVE))

    @property
    def axis(self) -> Any:
        """The direction from b to a along which gaps are (3,)."""
        face = self.face
        return np.where(face.on_a, -face.along, face.along)


def facing_axis(a: Placed, b: Placed) -> Any:
    """The direction from b to a along which the gaps of boxes are (3,), as in `box_box`."""
    return _Boxes(a, b).axis


def separating_axis(a: Placed, b: Placed) -> Any:
    """The direction from b to a along which boxes are farthest apart, or overlap least (3,).

    Of the normals of faces and the common normals of edges.
    """
    axes = _Axes(a, b)
    edge, sep_edge, _ = _edge_contact(a, b, axes)
    best: Any = sep_edge
    n = edge.normal
    for separations, R, d in ((axes.of_b, b.R, axes.d_b), (axes.of_a, a.R, axes.d_a)):
        for i in range(3):
            better = separations[i] >= best
            best = np.where(better, separations[i], best)
            n = np.where(better, np.where(d[i] < 0.0, -R[:, i], R[:, i]), n)
    return n


class _Axes:
    """The separations along the axes of faces, and the boxes seen from each other.

    `C`, the axes of b in those of a; `d_a`, `d_b`, from b to a in both axes; `of_a`, `of_b` (3,).
    """

    def __init__(self, a: Placed, b: Placed) -> None:
        d = a.x - b.x
        self.C = a.R.T @ b.R
        self.size = np.abs(self.C)
        self.d_a, self.d_b = a.R.T @ d, b.R.T @ d
        self.of_a = np.abs(self.d_a) - a.p - self.size @ b.p
        self.of_b = np.abs(self.d_b) - b.p - a.p @ self.size


# ---- edges ---------------------------------------------------------------------------------------


def _edge_contact(a: Placed, b: Placed, axes: _Axes) -> tuple[ContactCandidate, Any, Any]:
    """The contact along the best axis e_i × f_j, its separation, and whether edges meet there."""
    C, size, d = axes.C, axes.size, axes.d_a
    best: Any = -INACTIVE
    n: Any = np.zeros(3)
    e: Any = np.array([1.0, 0.0, 0.0])
    f: Any = np.array([1.0, 0.0, 0.0])
    unit_vectors = np.eye(3)
    for i in range(3):
        i1, i2 = (i + 1) % 3, (i + 2) % 3
        for j in range(3):
            j1, j2 = (j + 1) % 3, (j + 2) % 3
            square = 1.0 - C[i, j] * C[i, j]
            good = square > _PARALLEL
            inverse = 1.0 / np.sqrt(np.where(good, square, 1.0))
            x, y = -C[i2, j], C[i1, j]  # the axis in a, along i1 and i2
            away = d[i1] * x + d[i2] * y
            radius = a.p[i1] * size[i2, j] + a.p[i2] * size[i1, j]
            radius = radius + b.p[j1] * size[i, j2] + b.p[j2] * size[i, j1]
            separation = (np.abs(away) - radius) * inverse
            better = good & (separation > best)
            sign = np.where(away < 0.0, -inverse, inverse)
            axis = sign * (x * unit_vectors[i1] + y * unit_vectors[i2])
            best = np.where(better, separation, best)
            n = np.where(better, axis, n)
            e = np.where(better, unit_vectors[i], e)
            f = np.where(better, unit_vectors[j], f)
    n_b, along = C.T @ n, C @ f
    p = np.where(n > 0.0, -a.p, a.p) * (1.0 - e)  # middles of the edges, in a and in b
    r = np.where(n_b > 0.0, b.p, -b.p) * (1.0 - f)
    gap_vector = p - (C @ r - axes.d_a)
    c = e @ along
    square = 1.0 - c * c
    inverse = 1.0 / np.where(square > _PARALLEL, square, 1.0)
    s = (c * (gap_vector @ along) - gap_vector @ e) * inverse
    t = gap_vector @ along + s * c
    inner = (best > -INACTIVE) & (np.abs(s) <= a.p @ e) & (np.abs(t) <= b.p @ f)
    x_a, x_b = a.x + a.R @ (p + s * e), b.x + b.R @ (r + t * f)
    normal = a.R @ n
    return ContactCandidate(best, normal, x_a, x_b), best, inner


# ---- corners -------------------------------------------------------------------------------------


def _corner_contact(a: Placed, b: Placed, axes: _Axes) -> ContactCandidate:
    """The nearest of all corners to the other box, for boxes that are apart."""
    from_a = (_SIGNS * a.p) @ axes.C + axes.d_b  # (8, 3), in b
    from_b = (_SIGNS * b.p) @ axes.C.T - axes.d_a  # in a
    p_a, near_b, square_a = _nearest_corner(from_a, b.p)
    p_b, near_a, square_b = _nearest_corner(from_b, a.p)
    of_a = square_a <= square_b
    x_a = np.where(of_a, b.x + b.R @ p_a, a.x + a.R @ near_a)
    x_b = np.where(of_a, b.x + b.R @ near_b, a.x + a.R @ p_b)
    n, distance = unit(x_a - x_b, a.R[:, 2])
    return ContactCandidate(distance, n, x_a, x_b)


def _nearest_corner(corners: Array, h: Array) -> tuple[Any, Any, Any]:
    """Of points (8, 3), the nearest to a box about 0, its nearest point there, their distance²."""
    near = np.clip(corners, -h, h)
    d = corners - near
    squares = np.sum(d * d, axis=1)
    point, place, best = corners[0], near[0], squares[0]
    for i in range(1, 8):
        better = squares[i] < best
        point = np.where(better, corners[i], point)
        place = np.where(better, near[i], place)
        best = np.where(better, squares[i], best)
    return point, place, best


# ---- faces ---------------------------------------------------------------------------------------


class _ReferenceFace:
    """The reference face, and the other box in its axes: u and v along edges, w outward.

    Of the other box, what is seen along the direction `along` (3,) to it: the outward normal, or
    with `tilted` against `n_edge`, for which the reference is the face of a that looks there most.
    Places are where that direction leads to in the face, w is the way along it.
    """

    def __init__(
        self, a: Placed, b: Placed, axes: _Axes, on_a: Array, tilted: Array, n_edge: Array
    ) -> None:
        self.on_a = on_a
        separations = np.where(on_a, axes.of_a, axes.of_b)
        separations = np.where(tilted, np.abs(n_edge @ a.R), separations)
        pairs = list(zip((a.R, a.p, a.x), (b.R, b.p, b.x), strict=True))
        R, h, x = (np.where(on_a, p, q) for p, q in pairs)
        R_i, h_i, x_i = (np.where(on_a, q, p) for p, q in pairs)
        k = largest_of_three(separations)
        u, v, n = (_column(R, k, i) for i in (1, 2, 0))
        self.h = [_entry(h, k, i) for i in (1, 2, 0)]
        d = x_i - x
        n = np.where(np.where(tilted, -(n_edge @ n), d @ n) < 0.0, -n, n)
        self.x, self.axes = x, (u, v, n)
        self.along = np.where(tilted, -n_edge, n)
        M = np.stack([u, v, n])
        G = M @ R_i
        c = M @ d
        t = M @ self.along
        look = np.where(tilted, t @ G, G[2])
        j = largest_of_three(np.abs(look))
        facing, e1, e2 = (_column(G, j, i) for i in range(3))
        out = np.where(_entry(look, j, 0) > 0.0, -1.0, 1.0) * _entry(h_i, j, 0)
        lowered = np.stack([c[0], c[1], c[2] - self.h[2]])
        steep = 1.0 / np.where(tilted, t[2], 1.0)
        lean_u, lean_v = (np.where(tilted, t[i] * steep, 0.0) for i in range(2))

        def seen(x: Array) -> Array:
            return np.stack([x[0] - lean_u * x[2], x[1] - lean_v * x[2], steep * x[2]])

        self.f = seen(lowered + out * facing)
        self.e1, self.e2 = seen(_entry(h_i, j, 1) * e1), seen(_entry(h_i, j, 2) * e2)
        self.R_i, self.h_i, self.x_i = R_i, h_i, x_i

    def polygon(self) -> Points:
        """The 24 candidates for corners of the polygon."""
        f, e1, e2, (hu, hv, _) = self.f, self.e1, self.e2, self.h
        groups: list[Points] = []
        own = [f + s * e1 + t * e2 for s, t in _CORNERS]
        u, v, w = (np.stack([p[i] for p in own]) for i in range(3))
        groups.append(Points(u, v, w, (np.abs(u) <= hu) & (np.abs(v) <= hv)))
        u, v = _CORNERS[:, 0] * hu, _CORNERS[:, 1] * hv
        det = e1[0] * e2[1] - e1[1] * e2[0]
        seen = np.abs(det) > _EDGE_ON * (hu * hv)
        inverse = 1.0 / np.where(seen, det, 1.0)
        x, y = u - f[0], v - f[1]
        alpha, beta = (x * e2[1] - y * e2[0]) * inverse, (e1[0] * y - e1[1] * x) * inverse
        there = (np.abs(alpha) <= 1.0) & (np.abs(beta) <= 1.0) & seen
        groups.append(Points(u, v, f[2] + alpha * e1[2] + beta * e2[2], there))
        signs = np.array([1.0, -1.0])
        for e, g in ((e1, e2), (e2, e1)):
            for sign in (1.0, -1.0):
                start = f + sign * g
                for side, across, h, limit in ((0, 1, hu, hv), (1, 0, hv, hu)):
                    crosses = np.abs(e[side]) > 1e-12 * h
                    s = (signs * h - start[side]) / np.where(crosses, e[side], 1.0)
                    q = start[across] + s * e[across]
                    there = (np.abs(s) <= 1.0) & (np.abs(q) <= limit) & crosses
                    line = signs * h
                    u, v = (line, q) if side == 0 else (q, line)
                    groups.append(Points(u, v, start[2] + s * e[2], there))
        u, v, w, there = (np.concatenate([1.0 * g[i] for g in groups]) for i in range(4))
        return Points(u, v, w, there > 0.0)

    def slot(self, p: Points, active: Array) -> ContactCandidate:
        """The contact at a point of the polygon."""
        u, v, n = self.axes
        below = self.x + p.u * u + p.v * v + self.h[2] * n
        above = below + p.w * self.along
        gap = np.where(active, p.w, INACTIVE)
        normal = np.where(self.on_a, -self.along, self.along)
        return ContactCandidate(
            gap, normal, np.where(self.on_a, below, above), np.where(self.on_a, above, below)
        )

    def deepest(self, separation: Array) -> ContactCandidate:
        """The deepest corner of the other box, for overlaps in which faces do not meet."""
        n = self.along
        corner = self.x_i - self.R_i @ (np.where(self.R_i.T @ n > 0.0, 1.0, -1.0) * self.h_i)
        below = corner - separation * n
        normal = np.where(self.on_a, -n, n)
        return ContactCandidate(separation, normal, np.where(self.on_a, below, corner),
                    np.where(self.on_a, corner, below))  # fmt: skip


def _entry(x: Array, k: tuple[Any, Any, Any], i: int) -> Array:
    """Entry (k + i) modulo 3."""
    return np.where(k[0], x[i], np.where(k[1], x[(1 + i) % 3], x[(2 + i) % 3]))


def _column(x: Array, k: tuple[Any, Any, Any], i: int) -> Array:
    """Column (k + i) modulo 3."""
    return np.where(k[0], x[:, i], np.where(k[1], x[:, (1 + i) % 3], x[:, (2 + i) % 3]))
