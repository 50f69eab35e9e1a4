"""Convex meshes on a height field, see `solid_field_pairs`; polyhedra by their planes.

With unit normals a_k and distances h_k, φ(x) = max a_k·x − h_k is convex: the signed distance from
the nearest plane inside, and at most the distance outside. Where φ is least on a line or a plane,
two or three planes are as far, whose gradients along it have 0 between them. These are found by
exchange (the dual simplex method): the plane that is highest above the place of the present ones
takes the place of one of them, until none is higher.

Keys are numbers of planes and corners: of a corner, of two planes that a ridge lies across, of
the plane that a peak is behind. Deeper than short edges, planes that are nearest may have no edge
or corner: the gap is that of the lowest corner along the normal n there, as everywhere; for a ridge
its number plus 1 is the last of the key. Such a place counts where it is inside the mesh, or where
n separates: outside, planes without a corner do not say that the mesh is below.

**Source:** theory/contact 8.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from phipsi.attached import ConvexMesh
from phipsi.contact.geometry.explicit_pairs import lowest_vertices
from phipsi.contact.geometry.field_cells import below
from phipsi.contact.geometry.graph_calls import Repeated, called
from phipsi.contact.geometry.placed_shapes import (
    INACTIVE,
    ContactCandidate,
    Placed,
    Weighted,
    across,
    common_normal,
    largest_of_three,
)
from phipsi.contact.geometry.row_tables import FeasibleInterval, TableRow, Top
from phipsi.contact.geometry.solid_field_pairs import (
    CUT,
    LEAN,
    ConvexSolid,
    Make,
    Touch,
    corner_slot,
    solid_field,
)
from phipsi.core.arrays import Tracer, as_node, law_operations as ops

_NEAR = 1e-9  # of the size: what is nearer is the same
_EDGE = 1e-18  # sin² of the angle of two planes that have an edge


def mesh_field(
    a: Placed, b: Placed, gives: bool = False
) -> list[ContactCandidate] | list[Weighted]:
    """The lowest vertex, the widest three of those that are little higher, and the deepest of all.

    Heights are along the normal of the surface below the middle.
    """
    hull = polyhedron(a.shape)
    middle = a.x + a.R @ hull.middle
    under = below(b.R.T @ (middle - b.x), b)
    n = b.R @ under.normal
    u, v = across(n)
    corners = []
    for p, at in lowest_vertices(a, b._replace(R=np.stack([u, v, n]).T)):
        slot, x, normal = corner_slot(at + p.w * n, b)
        corners.append((slot._replace(gap=np.where(p.there, slot.gap, INACTIVE)), x, normal))
    return solid_field(_make(a.shape), a._replace(x=middle), b, corners, under, gives=gives)


def corners_field(
    a: Placed, b: Placed, deep: int = 1, gives: bool = False
) -> list[ContactCandidate] | list[Weighted]:
    """Every vertex of a mesh, in its own slot, and the deepest of all else."""
    hull = polyhedron(a.shape)
    middle = a.x + a.R @ hull.middle
    corners = [corner_slot(a.x + a.R @ vertex, b) for vertex in a.p.reshape(-1, 3)]
    under = below(b.R.T @ (middle - b.x), b)
    moved, numbers = a._replace(x=middle), hull.numbers
    return solid_field(_make(a.shape), moved, b, corners, under, numbers, deep, gives)


@lru_cache(maxsize=64)
def _make(shape: ConvexMesh) -> Make:
    hull = polyhedron(shape)
    return lambda w, Q, p: MeshOnField(w, Q, hull)


class MeshOnField(ConvexSolid):
    """A polyhedron; its numbers are constants of the code."""

    def __init__(self, w: Any, Q: Any, hull: Polyhedron) -> None:
        super().__init__(w, Q, None)
        self.hull, self.size, self.least = hull, hull.size, hull.least

    def lowest(self, n: Any) -> tuple[Any, Any]:
        """The vertex on the other side of n."""
        found = called(self.hull.top_vertex, -(n @ self.Q))
        return found[:3], _key(found[4])

    def corner(self, key: Any, n: Any) -> Any:
        """By its number."""
        return called(self.hull.vertex, key[:1])[:3]

    def on_plane(self, n: Any, y: Any, f: Any) -> tuple[Any, Any, Any]:
        """Three planes are nearest there; the lowest corner may be none of theirs, see above."""
        place, phi, scale, good = self.hull.on_plane(-(self.w @ self.Q), n @ self.Q)
        is_corner = np.abs(f * scale - phi) <= _NEAR * self.size
        leads_out = (scale > 0.0) & ((phi < 0.0) | (f >= 0.0))  # upper planes lead into the ground
        return self.from_point(place), phi, good & (is_corner | leads_out)

    def on_line(self, d: Any, wanted: Any) -> list[Touch]:
        """Two planes are nearest where φ is least; along a flat one, the other end of it."""
        y, u = -(self.w @ self.Q), d @ self.Q
        falls, rises, t = self.hull.on_line(y, u, wanted)
        found = [self._touch(falls, rises, t, y, u, d, False)]
        b, c = np.abs(falls[:3] @ u), np.abs(rises[:3] @ u)
        is_first = b < c
        flat = np.where(is_first, falls, rises)
        ends = called(self.hull.stretch, y, u, flat[:4])
        end = np.where(is_first, ends[:6], ends[6:])
        touch = self._touch(flat, end[1:], end[0], y, u, d, True)
        good = touch.good & (np.minimum(b, c) <= LEAN * np.sqrt(d @ d)) & (ends[0] < ends[6])
        found.append(touch._replace(good=good))
        return found

    def _touch(self, p: Any, q: Any, t: Any, y: Any, u: Any, d: Any, may_lean: bool) -> Touch:
        """The edge of two planes across a ridge, which those that lean must have."""
        e, arm, (to_p, to_q), is_edge = _edge(p, q)
        at = self.from_point(arm)
        n, _, _, good = common_normal(at, self.Q @ e, d)
        g = -(n @ self.Q)
        of_p, of_q = g @ to_p, g @ to_q
        good = good & is_edge & (of_p >= -LEAN) & (of_q >= -LEAN)
        place, number = y + t * u, 0.0 * t
        phi = p[:3] @ place - p[3]
        if may_lean:
            slack = np.stack([0.0, 0.0, 0.0, -_NEAR * self.size]) + 0.0 * t
            ends = called(self.hull.stretch, arm, e, slack)
            good = good & (ends[0] <= ends[6])
        else:
            low = called(self.hull.top_vertex, g)
            apart = g @ (arm - low[:3]) > _NEAR * self.size
            number = np.where(apart, low[4] + 1.0, 0.0)
            good = good & (~apart | (phi < 0.0) | (n @ self.from_point(low[:3]) >= 0.0))
        return Touch(np.stack([p[4], q[4], number]), n, phi, place, t, good)

    def across(self, key: Any, d: Any) -> tuple[Any, Any]:
        """The nearest points of the edge and the line, or the lowest corner."""
        p, q = called(self.hull.plane, key[:1]), called(self.hull.plane, key[1:2])
        e, arm, _, _ = _edge(p, q)
        at, along = self.from_point(arm), self.Q @ e
        n, s, _, _ = common_normal(at, along, d)
        corner = self.from_point(called(self.hull.vertex, key[2:] - 1.0)[:3])
        return n, np.where(key[2] > 0.5, corner, at + s * along)

    def at_point(self) -> Touch:
        """The plane that is the farthest outward."""
        y = -(self.w @ self.Q)
        row = called(self.hull.top_plane, y)
        f = row[:3] @ y - row[3]
        return Touch(_key(row[4]), -(self.Q @ row[:3]), f, y, 0.0, True)

    def outside(self, key: Any) -> tuple[Any, Any]:
        """Along the normal of the plane."""
        row = called(self.hull.plane, key[:1])
        return -(self.Q @ row[:3]), -(row[:3] @ (self.w @ self.Q)) - row[3]

    def is_cut(self, x: Any, d: Any) -> Any:
        """Where the edge is below all planes, if anywhere."""
        inward = np.stack([0.0, 0.0, 0.0, CUT * self.size]) + 0.0 * d[0]
        ends = called(self.hull.stretch, (x - self.w) @ self.Q, d @ self.Q, inward)
        return np.maximum(ends[0], 0.0) < np.minimum(ends[6], 1.0)


def _key(number: Any) -> Any:
    return np.stack([number, 0.0 * number, 0.0 * number])


def _edge(p: Any, q: Any) -> tuple[Any, Any, tuple[Any, Any], Any]:
    """Direction and a point of the edge of two planes; what shows a vector's parts along both."""
    a, b = p[:3], q[:3]
    e = np.cross(a, b)
    square = e @ e
    there = square > _EDGE
    inverse = 1.0 / np.where(there, square, 1.0)
    to_a, to_b = np.cross(b, e) * inverse, np.cross(e, a) * inverse
    return e, p[3] * to_a + q[3] * to_b, (to_a, to_b), there


# ---- polyhedra -----------------------------------------------------------------------------------


_MOST = 60  # exchanges
_HIGHER = 1e-12  # of the size: a plane that is higher by less is not
_SAME_PLANE = 1e-7  # rad, and of the size: planes of one face
_BOUNDS = 10.0  # sizes: how far planes are that the search begins with
_LEVEL = 1e-12  # slope of planes along a line that they do not cross
_THIRDS = np.array([[1.0, 0.0], [-0.5, 0.75**0.5], [-0.5, -(0.75**0.5)]])


class PlaneCrossing(NamedTuple):
    """Two planes across a line y + t u, each with its number (5,): φ falls with one of them.

    It rises with the other; `t` is where both are as far.
    """

    falls: Any
    rises: Any
    t: Any


@final
class Polyhedron:
    """The hull of points (n, 3), about their mean; lengths in m.

    **Attributes:** `middle` (3,), the mean; `size`, the distance of the farthest point from it;
    `least`, that of the nearest plane; `numbers`, which of the points are corners; `top_plane` and
    `top_vertex`, `Top` of planes (a, h) and of corners; `plane`, `vertex`, `TableRow` of the same;
    `stretch` of lines between planes.
    """

    def __init__(self, points: NDArray[np.float64]) -> None:
        from scipy.spatial import ConvexHull  # noqa: PLC0415

        self.middle = points.mean(axis=0)
        hull = ConvexHull(points - self.middle)
        self.numbers = tuple(map(int, hull.vertices))
        corners = (points - self.middle)[hull.vertices]
        self.size = float(np.linalg.norm(corners, axis=1).max())
        planes: list[NDArray[np.float64]] = []
        for *normal, _ in hull.equations:
            if all(np.abs(normal - x[:3]).max() > _SAME_PLANE for x in planes):
                planes.append(np.append(normal, (corners @ normal).max()))
        rows = np.array(planes)
        self.least = float(rows[:, 3].min())
        vertices = np.c_[corners, np.zeros(len(corners))]
        self.top_plane, self.plane = Top(rows), TableRow(rows)
        self.top_vertex, self.vertex = Top(vertices), TableRow(vertices)
        self.stretch = FeasibleInterval(rows, _LEVEL)
        self._slopes = Top(np.c_[rows[:, :3], np.zeros(len(rows))])
        self._on_line, self._on_plane = self._line_step(), self._plane_step()

    def on_line(self, y: Any, u: Any, wanted: Any) -> PlaneCrossing:
        """Where φ is least on y + t u; not looked for where it is not wanted."""
        numbers = [called(self._slopes, x)[4:5] for x in (-u, u)]
        ends = [x for number in numbers for x in (called(self.plane, number), number)]
        start = np.concatenate([*ends, np.stack([1.0 - 1.0 * wanted])])
        found = called(self._on_line, start, np.concatenate([y, u]))
        falls, rises = found[:5], found[5:10]
        return PlaneCrossing(falls, rises, _meeting(falls, rises, y, u)[0])

    def _line_step(self) -> Repeated:
        state: Any = Tracer(ops.input("state", (11,)))
        given: Any = Tracer(ops.input("given", (6,)))
        y, u = given[:3], given[3:6]
        falls, rises = state[:5], state[5:10]
        t, value = _meeting(falls, rises, y, u)
        x = y + t * u
        new = called(self.top_plane, x)
        higher = _value(new, x) > value + _HIGHER * self.size
        up = new[:3] @ u > 0.0
        falls, rises = np.where(higher & ~up, new, falls), np.where(higher & up, new, rises)
        return Repeated(as_node(np.concatenate([falls, rises, np.stack([1.0 * ~higher])])), _MOST)

    def on_plane(self, y: Any, m: Any) -> tuple[Any, Any, Any, Any]:
        """Where φ is least on the plane across unit m through y: the place, φ, and γ.

        The normals of the nearest planes have −γ m between them: a place that is as deep below
        planes through one corner is at the height −φ/γ over that along m. The last is whether
        it was found: not where corners are so sharp that it is many sizes away.
        """
        U = np.stack(across(m))
        y = y - U.T @ (U @ y)  # below the middle
        far = np.array([_BOUNDS * self.size, -1.0])
        start = [np.concatenate([_THIRDS[k] @ U, far + 0.0 * m[0]]) for k in range(3)]
        state = np.concatenate([*start, np.stack([0.0 * m[0]])])
        found = called(self._on_plane, state, np.concatenate([y, U.reshape(6)]))
        rows = [found[5 * k : 5 * k + 5] for k in range(3)]
        z, value, shares, _ = _corner(rows, y, U)
        g = shares[0] * rows[0][:3] + shares[1] * rows[1][:3] + shares[2] * rows[2][:3]
        good = (rows[0][4] >= 0.0) & (rows[1][4] >= 0.0) & (rows[2][4] >= 0.0)
        return y + z @ U, value, -(g @ m), good

    def _plane_step(self) -> Repeated:
        state: Any = Tracer(ops.input("state", (16,)))
        given: Any = Tracer(ops.input("given", (9,)))
        y, U = given[:3], given[3:9].reshape(2, 3)
        rows = [state[5 * k : 5 * k + 5] for k in range(3)]
        z, value, shares, area = _corner(rows, y, U)
        x = y + z @ U
        new = called(self.top_plane, x)
        higher = _value(new, x) > value + _HIGHER * self.size
        b = [U @ row[:3] for row in rows]
        e = U @ new[:3]
        ratios = []
        for k in range(3):
            p, q = b[(k + 1) % 3] - e, b[(k + 2) % 3] - e
            part = (p[0] * q[1] - p[1] * q[0]) / area
            leaves = part > 1e-14
            ratios.append(np.where(leaves, -shares[k] / np.where(leaves, part, 1.0), -INACTIVE))
        leaving = largest_of_three(ratios)
        out = [np.where(higher & gone, new, row) for gone, row in zip(leaving, rows, strict=True)]
        return Repeated(as_node(np.concatenate([*out, np.stack([1.0 * ~higher])])), _MOST)


def _value(row: Any, x: Any) -> Any:
    return row[:3] @ x - row[3]


def _meeting(p: Any, q: Any, y: Any, u: Any) -> tuple[Any, Any]:
    """t and the value where two planes are as far on a line."""
    a, b, c, d = _value(p, y), p[:3] @ u, _value(q, y), q[:3] @ u
    rate = d - b
    t = (a - c) / np.where(rate > 0.0, rate, 1.0)
    return t, a + b * t


def _corner(rows: Any, y: Any, U: Any) -> tuple[Any, Any, Any, Any]:
    """Where three planes are as far on y + U* z: z, their value; shares of 0 between gradients."""
    a, b = [_value(row, y) for row in rows], [U @ row[:3] for row in rows]

    def cross(p: Any, q: Any) -> Any:
        return p[0] * q[1] - p[1] * q[0]

    p, q = b[1] - b[0], b[2] - b[0]
    area = cross(p, q)
    area = np.where(np.abs(area) > 1e-300, area, 1.0)
    r, s = a[0] - a[1], a[0] - a[2]
    z = np.stack([r * q[1] - s * p[1], s * p[0] - r * q[0]]) / area
    shares = [cross(b[(k + 1) % 3], b[(k + 2) % 3]) / area for k in range(3)]
    return z, a[0] + b[0] @ z, shares, area


@lru_cache(maxsize=64)
def polyhedron(shape: ConvexMesh) -> Polyhedron:
    """The hull of a mesh, once."""
    return Polyhedron(np.array(shape.vertices))
