"""Contacts with a height field, b: every cell of the grid is two triangles.

A ball touches the nearest of the eight triangles around the nearest point of the grid. That is
exact for balls of a radius up to half the spacing, which `Contacts` asks for. A corner touches the
plane of the triangle below it. Beside the field there is no contact.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from phipsi.backends.native.text import llvm_text as ir
from phipsi.backends.native.text.lane_arithmetic import DOUBLE, I32, I64, Lane, i64
from phipsi.contact.geometry.placed_shapes import INACTIVE, Placed, Slot, unit
from phipsi.contact.geometry.plane_pairs import DIAGONALS, lowest_vertices, rim_points
from phipsi.laws.calls import Callee, call
from phipsi.laws.graph import Array, Node
from phipsi.laws.trace import Traced, as_node
from phipsi.model.shapes import HeightField

# Corners of the triangles around a point of the grid, as steps along x and y.
_TRIANGLES = [
    triangle
    for i in (-1, 0)
    for j in (-1, 0)
    for triangle in (
        ((i, j), (i + 1, j), (i + 1, j + 1)),
        ((i, j), (i + 1, j + 1), (i, j + 1)),
    )
]


def sphere_field(a: Placed, b: Placed) -> list[Slot]:
    """The nearest triangle."""
    return [_ball(a.x, a.p[0], b)]


def capsule_field(a: Placed, b: Placed) -> list[Slot]:
    """The nearest triangle to each end."""
    return [_ball(a.x + s * a.p[1] * a.R[:, 2], a.p[0], b) for s in (1.0, -1.0)]


def box_field(a: Placed, b: Placed) -> list[Slot]:
    """The four lowest corners, one of every diagonal."""
    down = a.R.T @ b.R[:, 2]
    slots = []
    for signs in DIAGONALS:
        arm = signs * a.p
        slots.append(_corner(a.x + a.R @ np.where(arm @ down > 0.0, -arm, arm), b))
    return slots


def cylinder_field(a: Placed, b: Placed) -> list[Slot]:
    """The lowest points of both rims, and three fixed on the lower rim."""
    return [_corner(x, b) for x in rim_points(a, b.R[:, 2])]


def mesh_field(a: Placed, b: Placed) -> list[Slot]:
    """The lowest vertex, and of those that are little higher the widest three."""
    slots = []
    for p, below in lowest_vertices(a, b):
        slot = _corner(below + p.w * b.R[:, 2], b)
        slots.append(slot._replace(gap=np.where(p.there, slot.gap, INACTIVE)))
    return slots


def _ball(x: Any, r: Any, b: Placed) -> Slot:
    p = b.R.T @ (x - b.x)
    (u, v), heights, steps = _around(p, b)
    best: Any = INACTIVE
    n: Any = np.array([0.0, 0.0, 1.0])
    distance: Any = INACTIVE
    side: Any = 1.0  # −1 below the surface
    for triangle in _TRIANGLES:
        corners = [_grid_point(u, v, i, j, heights, steps) for i, j in triangle]
        square, near, flat, height, is_inner = _nearest_on_triangle(p, *corners)
        better = square < best
        best = np.where(better, square, best)
        direction, length = unit(p - near, flat)
        inward = np.where(height < 0.0, -1.0, 1.0)  # of inner points, n is the triangle's
        n = np.where(better, np.where(is_inner, inward * flat, direction), n)
        distance = np.where(better, np.where(is_inner, inward * height, length), distance)
        side = np.where(_is_below(p, *corners), inward, side)
    n, distance = side * n, side * distance
    gap = distance - r
    normal = b.R @ n
    there = _is_over(p, b)
    return Slot(np.where(there, gap, INACTIVE), normal, x - r * normal, x - distance * normal)


def ellipsoid_field(a: Placed, b: Placed) -> list[Slot]:
    """The lowest point along the normal of the triangle below it, found in `_ROUNDS`.

    Where two triangles follow each other, as at a ridge, both planes bound the ground there: the
    contact is with the farther one.
    """
    slot = _on_plane(a, _corner(_lowest(a, b.R[:, 2]), b))
    for _ in range(_ROUNDS):
        before, slot = slot, _on_plane(a, _corner(slot.x_a, b))
    last = _corner(slot.x_a, b).normal - slot.normal
    turned = (last @ last > 1e-20) & (before.gap > slot.gap) & (before.gap < INACTIVE)
    return [Slot(*(np.where(turned, x, y) for x, y in zip(before, slot, strict=True)))]


_ROUNDS = 3


def _on_plane(a: Placed, below: Slot) -> Slot:
    """The contact of an ellipsoid with the plane of a triangle."""
    n = below.normal
    point = _lowest(a, n)
    gap = n @ (point - below.x_b)
    there = np.where(below.gap < INACTIVE, gap, INACTIVE)
    return Slot(there, n, point, point - gap * n)


def _lowest(a: Placed, n: Any) -> Any:
    """The point of an ellipsoid that is the lowest along n: x − R S² R* n/|S R* n|."""
    s = a.p * (a.R.T @ n)
    return a.x - a.R @ (a.p * s / np.sqrt(s @ s))


def _corner(x: Any, b: Placed) -> Slot:
    p = b.R.T @ (x - b.x)
    (u, v), heights, steps = _around(p, b)
    n: Any = np.array([0.0, 0.0, 1.0])
    gap: Any = INACTIVE
    for triangle in _TRIANGLES:
        corners = [_grid_point(u, v, i, j, heights, steps) for i, j in triangle]
        flat, height = _plane_of(p, *corners)
        below = _is_below(p, *corners)
        n, gap = np.where(below, flat, n), np.where(below, height, gap)
    normal = b.R @ n
    safe = np.where(gap < INACTIVE, gap, 0.0)
    return Slot(np.where(_is_over(p, b), gap, INACTIVE), normal, x, x - safe * normal)


# ---- the grid ------------------------------------------------------------------------------------


def _around(p: Any, b: Placed) -> tuple[tuple[Any, Any], Any, Any]:
    """The nearest inner point of the grid, in its axes; the heights (9,) around it; the spacing."""
    rows, columns = b.shape.size
    i = np.clip(np.rint(p[0] / b.p[0] + 0.5 * (rows - 1)), 1.0, rows - 2.0)
    j = np.clip(np.rint(p[1] / b.p[1] + 0.5 * (columns - 1)), 1.0, columns - 2.0)
    place = (i - 0.5 * (rows - 1)) * b.p[0], (j - 0.5 * (columns - 1)) * b.p[1]
    index = np.stack([i, j])
    if isinstance(index, Traced):
        (found,) = call(_Heights(b.shape), as_node(index))
        heights: Any = Traced(found)
    else:
        (heights,) = _Heights(b.shape).arrays(index)
    return place, heights, b.p


def _grid_point(u: Any, v: Any, i: int, j: int, heights: Any, steps: Any) -> Any:
    return np.stack([u + i * steps[0], v + j * steps[1], heights[3 * (i + 1) + j + 1]])


def _is_over(p: Any, b: Placed) -> Any:
    rows, columns = b.shape.size
    inside = np.abs(p[0]) <= 0.5 * (rows - 1) * b.p[0]
    return inside & (np.abs(p[1]) <= 0.5 * (columns - 1) * b.p[1])


@final
class _Heights(Callee):
    """The heights (9,) of the points around point (i, j) of a field, row by row."""

    shapes = ((9,),)

    def __init__(self, field: HeightField) -> None:
        self._heights = np.array(field.heights)
        self.key = hashlib.sha256(repr(self._heights.shape).encode() + self._heights.tobytes())
        self.key = self.key.hexdigest()
        self.name = f"heights {self.key}"

    def arrays(self, *args: Array) -> Sequence[Array]:
        """The entries of the table."""
        good = np.where(np.isfinite(args[0]), args[0], 1.0).astype(int)
        around = np.array([(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)])
        places = good[..., None, :] + around
        return [self._heights[places[..., 0], places[..., 1]]]

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[list[Lane]]:
        """Loads, lane by lane: every lane is at a place of its own."""
        b, e = code.e.builder, code.e
        columns = self._heights.shape[1]
        name = f"heights_{len(code.module.tables)}"
        table = ir.Table(code.module, DOUBLE, self._heights.ravel().tolist(), name)
        index = [code.entry(args[0], k) for k in range(2)]
        index = [e.select(e.compare("==", x, x), x, 1.0) for x in index]
        found = [e.constant(0.0).value] * 9
        for lane in range(e.lanes):
            at = ir.Constant(I32, lane)
            i, j = (b.fptosi(b.extract_element(x.value, at), I64) for x in index)
            middle = b.add(b.mul(i, i64(columns)), j)
            for k in range(9):
                step = (k // 3 - 1) * columns + k % 3 - 1
                where = b.at(table, b.mul(b.add(middle, i64(step)), i64(8)))
                number = b.load(where, align=8, typ=DOUBLE)
                found[k] = b.insert_element(found[k], number, at)
        return [[Lane(e, x) for x in found]]

    def pull(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """Heights are constants; only which of them are taken depends on the place."""
        return [None]


# ---- triangles -----------------------------------------------------------------------------------


def _plane_of(p: Any, a: Any, b: Any, c: Any) -> tuple[Any, Any]:
    """The upward normal of a triangle, and the height of a point over its plane."""
    n = np.cross(b - a, c - a)
    n = n / np.sqrt(n @ n)
    return n, n @ (p - a)


def _is_below(p: Any, a: Any, b: Any, c: Any) -> Any:
    """Whether a triangle is under or over a point, seen along z."""
    signs = [
        (y[0] - x[0]) * (p[1] - x[1]) - (y[1] - x[1]) * (p[0] - x[0]) >= 0.0
        for x, y in ((a, b), (b, c), (c, a))
    ]
    return signs[0] & signs[1] & signs[2]


def _nearest_on_triangle(p: Any, a: Any, b: Any, c: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Distance², nearest point, normal, height over the plane, and whether it is inside."""
    n, height = _plane_of(p, a, b, c)
    inner: Any = True
    best: Any = INACTIVE
    near: Any = a
    for x, y in ((a, b), (b, c), (c, a)):
        e, d = y - x, p - x
        inner = inner & (n @ np.cross(e, d) >= 0.0)
        point = x + np.clip((d @ e) / (e @ e), 0.0, 1.0) * e
        away = p - point
        square = away @ away
        better = square < best
        best, near = np.where(better, square, best), np.where(better, point, near)
    return (
        np.where(inner, height * height, best),
        np.where(inner, p - height * n, near),
        n,
        height,
        inner,
    )
