"""A convex mesh on a height field, see `solid_field_pairs`.

Keys are numbers of its planes and corners: of a corner, of two planes that a ridge lies across, of
the plane that a peak is behind. Deeper than short edges, planes that are nearest may have no edge
or corner: the gap is that of the lowest corner along the normal n there, as everywhere; for a ridge
its number plus 1 is the last of the key. Such a place counts where it is inside the mesh, or where
n separates: outside, planes without a corner do not say that the mesh is below.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from phipsi.contact.geometry.convex_shapes import across
from phipsi.contact.geometry.field_cells import below
from phipsi.contact.geometry.placed_shapes import INACTIVE, Placed, Slot, Weighted
from phipsi.contact.geometry.plane_pairs import lowest_vertices
from phipsi.contact.geometry.polyhedra import Polyhedron, polyhedron
from phipsi.contact.geometry.row_tables import called
from phipsi.contact.geometry.solid_field_pairs import (
    CUT,
    LEAN,
    Make,
    Solid,
    Touch,
    common_normal,
    corner_slot,
    solid_field,
)
from phipsi.model.shapes import ConvexMesh

_NEAR = 1e-9  # of the size: what is nearer is the same
_EDGE = 1e-18  # sin² of the angle of two planes that have an edge


def mesh_field(a: Placed, b: Placed, gives: bool = False) -> list[Slot] | list[Weighted]:
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
    return solid_field(
        _make(a.shape),
        a._replace(x=middle),
        b,
        corners,
        under,
        weights=[1.0] * len(corners) if gives else None,
    )


def corners_field(
    a: Placed, b: Placed, deep: int = 1, gives: bool = False
) -> list[Slot] | list[Weighted]:
    """Every vertex of a mesh, in its own slot, and the deepest of all else."""
    hull = polyhedron(a.shape)
    middle = a.x + a.R @ hull.middle
    corners = [corner_slot(a.x + a.R @ vertex, b) for vertex in a.p.reshape(-1, 3)]
    under = below(b.R.T @ (middle - b.x), b)
    moved = a._replace(x=middle)
    return solid_field(
        _make(a.shape),
        moved,
        b,
        corners,
        under,
        hull.numbers,
        deep=deep,
        weights=[1.0] * len(corners) if gives else None,
    )


@lru_cache(maxsize=64)
def _make(shape: ConvexMesh) -> Make:
    hull = polyhedron(shape)
    return lambda w, Q, p: MeshOnField(w, Q, hull)


class MeshOnField(Solid):
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
