"""Convex polyhedra by their planes: where they are deepest on a line and on a plane.

With unit normals a_k and distances h_k, φ(x) = max a_k·x − h_k is convex: the signed distance from
the nearest plane inside, and at most the distance outside. Where φ is least on a line or a plane,
two or three planes are as far, whose gradients along it have 0 between them. These are found by
exchange (the dual simplex method): the plane that is highest above the place of the present ones
takes the place of one of them, until none is higher.

**Source:** theory/contact 8.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from phipsi.contact.geometry.convex_shapes import across
from phipsi.contact.geometry.graph_calls import Repeated, repeat
from phipsi.contact.geometry.placed_shapes import INACTIVE
from phipsi.contact.geometry.row_tables import Row, Stretch, Top, called
from phipsi.laws import law_operations as ops
from phipsi.laws.trace import Traced, as_node
from phipsi.model.shapes import ConvexMesh

_MOST = 60  # exchanges
_HIGHER = 1e-12  # of the size: a plane that is higher by less is not
_SAME_PLANE = 1e-7  # rad, and of the size: planes of one face
_BOUNDS = 10.0  # sizes: how far planes are that the search begins with
_LEVEL = 1e-12  # slope of planes along a line that they do not cross
_THIRDS = np.array([[1.0, 0.0], [-0.5, 0.75**0.5], [-0.5, -(0.75**0.5)]])


class Crossing(NamedTuple):
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
    `top_vertex`, `Top` of planes (a, h) and of corners; `plane`, `vertex`, `Row` of the same;
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
        self.top_plane, self.plane = Top(rows), Row(rows)
        self.top_vertex, self.vertex = Top(vertices), Row(vertices)
        self.stretch = Stretch(rows, _LEVEL)
        self._slopes = Top(np.c_[rows[:, :3], np.zeros(len(rows))])
        self._on_line, self._on_plane = self._line_step(), self._plane_step()

    def on_line(self, y: Any, u: Any, wanted: Any) -> Crossing:
        """Where φ is least on y + t u; not looked for where it is not wanted."""
        numbers = [called(self._slopes, x)[4:5] for x in (-u, u)]
        ends = [x for number in numbers for x in (called(self.plane, number), number)]
        start = np.concatenate([*ends, np.stack([1.0 - 1.0 * wanted])])
        found = repeat(self._on_line, start, np.concatenate([y, u]))
        falls, rises = found[:5], found[5:10]
        return Crossing(falls, rises, _meeting(falls, rises, y, u)[0])

    def _line_step(self) -> Repeated:
        state: Any = Traced(ops.given("state", (11,)))
        given: Any = Traced(ops.given("given", (6,)))
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
        found = repeat(self._on_plane, state, np.concatenate([y, U.reshape(6)]))
        rows = [found[5 * k : 5 * k + 5] for k in range(3)]
        z, value, shares, _ = _corner(rows, y, U)
        g = shares[0] * rows[0][:3] + shares[1] * rows[1][:3] + shares[2] * rows[2][:3]
        good = (rows[0][4] >= 0.0) & (rows[1][4] >= 0.0) & (rows[2][4] >= 0.0)
        return y + z @ U, value, -(g @ m), good

    def _plane_step(self) -> Repeated:
        state: Any = Traced(ops.given("state", (16,)))
        given: Any = Traced(ops.given("given", (9,)))
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
            ratios.append(np.where(leaves, shares[k] / np.where(leaves, part, 1.0), INACTIVE))
        first = (ratios[0] <= ratios[1]) & (ratios[0] <= ratios[2])
        second = ~first & (ratios[1] <= ratios[2])
        leaving = (first, second, ~(first | second))
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
