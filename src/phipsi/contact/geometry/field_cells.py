"""Cells of a height field: where they are, what belongs to them, and a loop over those near a body.

Cell (i, j) has the point P of the grid and its neighbours e1 … e6 around it, of which all triangles
at P have two. To it belong two faces, three edges and the point itself, so that every face, edge
and point of the field belongs to one cell:

    e3 ── e2        faces   (P, e1, e2), (P, e2, e3)
    │  ╱  │         edges   P–e1, P–e3, P–e2
    P ─── e1        point   P

Beyond its border the field falls steeply: border edges are ridges. All is in the field's axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, final

import numpy as np

from phipsi.attached import HeightField
from phipsi.contact.geometry.graph_calls import PiecewiseConstantCall, Repeated, called
from phipsi.contact.geometry.placed_shapes import INACTIVE, Placed, chosen
from phipsi.contact.geometry.row_tables import ConstantRows, TableRow
from phipsi.core.arrays import Array, Tracer, as_node, law_operations as ops
from phipsi.core.machine import Machine, Memory, Number

FACES, EDGES, POINT = (0, 1), (2, 3, 4), 5
"""Numbers of what belongs to a cell."""
FEATURES = 6
INSIDE = 1e-11
"""Of lengths: how far beside a face or an edge its contact may be, so that none falls between."""
_BENT = 1e-13  # of lengths: edges and points that stand out less are flat
_SAME = 1.0 - 1e-13  # cosine of the angle of two normals that are the same
_STEPS = ((0, 0), (1, 0), (1, 1), (0, 1), (-1, 0), (-1, -1), (0, -1))  # P, e1 … e6
_ENDS = {2: 0, 3: 2, 4: 1}  # edges: the number of e at their other end
_THIRDS = {2: (1, 5), 3: (1, 3), 4: (0, 2)}  # and of e in the faces beside them
_DROP = 1e6  # spacings: how deep the field falls beyond its border


class Cell(NamedTuple):
    """A cell: `origin` (3,) of P; `e`, the six neighbours (3,) from there; normals of its faces."""

    origin: Any
    e: tuple[Any, ...]
    normals: tuple[Any, Any]


def cell_at(i: Array, j: Array, b: Placed) -> Cell:
    """The cell of point (i, j) of the grid, integers."""
    rows, columns = b.shape.size
    h = called(_heights_of(b.shape), np.stack([i, j]))
    dx, dy = b.p[0], b.p[1]
    origin = np.stack([(i - 0.5 * (rows - 1)) * dx, (j - 0.5 * (columns - 1)) * dy, h[0]])
    e = tuple(np.stack([k * dx, m * dy, h[n] - h[0]]) for n, (k, m) in enumerate(_STEPS) if n)
    a, c, d = e[0][2], e[1][2], e[2][2]
    area = dx * dy
    return Cell(origin, e, (
        _unit(np.stack([-a * dy, (a - c) * dx, area])),
        _unit(np.stack([(d - c) * dy, -d * dx, area])),
    ))  # fmt: skip


def _unit(n: Array) -> Array:
    return n / np.sqrt(n @ n)


class SurfaceHit(NamedTuple):
    """The surface below a point: its cell (i, j), which of its faces, and the point in it (3,).

    `there`: whether there is a surface; beside the field it is that of its border.
    """

    i: Any
    j: Any
    normal: Any
    is_second: Any
    point: Any
    there: Any


def below(p: Array, b: Placed) -> SurfaceHit:
    """What is below or over a point, along z."""
    rows, columns = b.shape.size
    x, y = p[0] / b.p[0] + 0.5 * (rows - 1), p[1] / b.p[1] + 0.5 * (columns - 1)
    there = (x >= 0.0) & (x <= rows - 1.0) & (y >= 0.0) & (y <= columns - 1.0)
    x, y = np.clip(x, 0.0, rows - 1.0), np.clip(y, 0.0, columns - 1.0)
    i, j = np.minimum(np.floor(x), rows - 2.0), np.minimum(np.floor(y), columns - 2.0)
    cell = cell_at(i, j, b)
    u, v = x - i, y - j
    is_second = v > u
    n = np.where(is_second, cell.normals[1], cell.normals[0])
    du, dv = u * b.p[0], v * b.p[1]
    z = -(n[0] * du + n[1] * dv) / n[2]
    return SurfaceHit(i, j, n, is_second, cell.origin + np.stack([du, dv, z]), there)


# ---- what belongs to a cell ----------------------------------------------------------------------


def ends_of(cell: Cell, edge: int) -> tuple[Any, tuple[Any, Any]]:
    """The other end of an edge from P, and the third points of the two faces beside it."""
    first, second = _THIRDS[edge]
    return cell.e[_ENDS[edge]], (cell.e[first], cell.e[second])


def is_there(i: Array, j: Array, feature: int, b: Placed) -> Array:
    """Whether a face or edge of cell (i, j) is in the field: those of the last cells are beside."""
    rows, columns = b.shape.size
    in_x, in_y = i <= rows - 2.0, j <= columns - 2.0
    return {2: in_x, 3: in_y}.get(feature, in_x & in_y)


def in_face(foot: Array, face: int, b: Placed) -> Array:
    """Whether a point of the plane of a face, from P, is in the face."""
    u, v = foot[0] / b.p[0], foot[1] / b.p[1]
    low, high = (v, u) if face == 0 else (u, v)
    return (low >= -INSIDE) & (low <= high + INSIDE) & (high <= 1.0 + INSIDE)


def in_normal_cone(n: Array, around: Sequence[Array], slack: float = INSIDE) -> Array:
    """Whether n is a normal of an edge or point, whose faces go on to the points `around`.

    `slack`, by how much (rad) it may lean over these faces.
    """
    good: Any = True
    for q in around:
        good = good & (n @ q <= slack * np.sqrt(q @ q))
    return good


def is_ridge(cell: Cell, edge: int) -> Array:
    """Whether an edge stands out of the faces beside it."""
    d, (p, q) = ends_of(cell, edge)
    n = np.cross(d, p)
    n = n * np.where(n[2] < 0.0, -1.0, 1.0)
    return n @ q < -_BENT * np.sqrt((n @ n) * (q @ q))


def is_peak(e: Sequence[Array]) -> Array:
    """Whether a point may stand out of the faces around it: no line through it bends up there."""
    bent = [e[k][2] + e[k + 3][2] for k in range(3)]
    size = np.sqrt(e[1] @ e[1])
    flat = (bent[0] <= _BENT * size) & (bent[1] <= _BENT * size) & (bent[2] <= _BENT * size)
    return flat & (np.minimum(np.minimum(bent[0], bent[1]), bent[2]) < -_BENT * size)


def on_straight_line(e: Any) -> Any:
    """Whether a line of the grid goes straight through a point: its edges have the contacts."""
    size = np.sqrt(e[1] @ e[1])
    straight = [np.abs(e[k][2] + e[k + 3][2]) <= _BENT * size for k in range(3)]
    return straight[0] | straight[1] | straight[2]


# ---- lists of contacts ---------------------------------------------------------------------------


class RankedContact(NamedTuple):
    """A contact of a body: its `value`, by which they are sorted, unit `n`, and what it is with."""

    value: Any
    n: Any
    feature: Any  # number of the feature + FEATURES (i + rows j)


def no_entries(count: int, zero: Array) -> list[RankedContact]:
    """So many without a contact."""
    nothing = np.stack([zero, zero, zero])
    return [RankedContact(INACTIVE + zero, nothing, zero) for _ in range(count)]


def with_entry(entries: Sequence[RankedContact], new: RankedContact) -> list[RankedContact]:
    """The lowest of these and a new one, sorted; of two with the same normal the lower one."""
    others = []
    for x in entries:
        same = new.n @ x.n > _SAME
        drop = same & (x.value <= new.value)
        others.append(x._replace(value=np.where(same & ~drop, INACTIVE, x.value)))
        new = new._replace(value=np.where(drop, INACTIVE, new.value))
    out = []
    for x in others:
        lower = new.value < x.value
        out.append(chosen(lower, new, x))
        new = chosen(lower, x, new)
    return out


def feature_of(entry: RankedContact, b: Placed) -> tuple[Any, Any, Any]:
    """Cell (i, j) and number of the feature of an entry."""
    rows = b.shape.size[0]
    place = np.floor((entry.feature + 0.5) / FEATURES)
    j = np.floor((place + 0.5) / rows)
    return place - rows * j, j, entry.feature - FEATURES * place


def number_of(i: Array, j: Array, feature: Any, b: Placed) -> Array:
    """The number of a feature of cell (i, j), see `RankedContact`."""
    return feature + FEATURES * (i + b.shape.size[0] * j)


def packed(entries: Sequence[RankedContact]) -> Array:
    """Entries as one vector of five numbers each."""
    return np.concatenate(
        [np.concatenate([np.stack([x.value]), x.n, np.stack([x.feature])]) for x in entries]
    )


def unpacked(vector: Array, count: int) -> list[RankedContact]:
    """Inverse of `packed`."""
    return [
        RankedContact(x[0], x[1:4], x[4]) for x in (vector[5 * k : 5 * k + 5] for k in range(count))
    ]


# ---- the loop ------------------------------------------------------------------------------------

Visit = Callable[[Any, Any, Placed, Any, list[RankedContact]], list[RankedContact]]


def over_cells(
    visit: Visit,
    entries: Sequence[RankedContact],
    given: Array,
    low: Array,
    high: Array,
    b: Placed,
    bottom: Array,
    may_skip_level: Array | bool = False,
) -> list[RankedContact]:
    """The entries after all cells between two corners of a box were visited.

    **Arguments:** `visit(i, j, b, given, entries)` returns the entries with those of a cell;
    `given` (m,), numbers that it needs; `low` and `high` (2,), the box, in the field's axes. Cells
    that are below the height `bottom` everywhere are passed over, and with `may_skip_level` those
    that are level, with all around them.
    **Cost:** the cells of the box that are not passed over, whose number is that of the lane that
    has the most; for the others a look at their height.
    """
    rows, columns = b.shape.size
    count, size = len(entries), len(given)
    start, end = [], []
    for k, n in enumerate((rows, columns)):
        start.append(np.maximum(np.floor(low[k] / b.p[k] + (0.5 * (n - 1) - _BESIDE)), 0.0))
        last = np.floor(high[k] / b.p[k] + (0.5 * (n - 1) + _BESIDE))
        end.append(np.minimum(last, n - 1.0))
    nothing = (end[0] < start[0]) | (end[1] < start[1])
    way = np.stack([start[1], *end, 0.0 + bottom, 1.0 * may_skip_level + 0.0 * start[0]])
    before = np.stack([start[0], start[1] - 1.0, 2.0 * nothing])
    place = called(_next_cell(b.shape), before, way)
    state = np.concatenate([packed(entries), place[:2], np.stack([1.0 * (place[2] > 1.5)])])
    numbers = np.concatenate([given, b.p, way])
    return unpacked(called(_loop(visit, b.shape, count, size), state, numbers), count)


_BESIDE = 1e-9  # spacings


@lru_cache(maxsize=64)
def _loop(visit: Visit, field: HeightField, count: int, size: int) -> Repeated:
    state: Any = Tracer(ops.input("state", (5 * count + 3,)))
    given: Any = Tracer(ops.input("given", (size + 7,)))
    entries = unpacked(state, count)
    i, j = state[5 * count], state[5 * count + 1]
    b = Placed(given[size : size + 2], None, None, field)
    new = visit(i, j, b, given[:size], entries)
    place: Any = called(_next_cell(field), np.stack([i, j, 0.0 * i]), given[size + 2 :])
    after = [place[0], place[1], 1.0 * (place[2] > 1.5)]
    rows, columns = field.size
    return Repeated(as_node(np.concatenate([packed(new), np.stack(after)])), rows * columns)


@lru_cache(maxsize=64)
def _next_cell(field: HeightField) -> Repeated:
    """The next cell that is looked at, and 1, or 2 behind the last one."""
    rows, columns = field.size
    state: Any = Tracer(ops.input("state", (3,)))
    given: Any = Tracer(ops.input("given", (5,)))
    i, j = state[0], state[1]
    first, last_i, last_j, bottom, may_skip_level = (given[k] for k in range(5))
    is_end = j >= last_j
    i, j = np.where(is_end, i + 1.0, i), np.where(is_end, first, j + 1.0)
    behind = i > last_i
    found = called(_tops_of(field), np.stack([np.where(behind, 0.0, i * columns + j)]))
    passed = (found[0] < bottom) | ((found[1] > 0.5) & (may_skip_level > 0.5))
    stop = np.where(behind, 2.0, np.where(passed, 0.0, 1.0))
    return Repeated(as_node(np.stack([i, j, stop])), rows * columns + 1)


@lru_cache(maxsize=64)
def _tops_of(field: HeightField) -> TableRow:
    """Of every cell its greatest height, and 1 if it is level, with all cells around it."""
    h = np.array(field.heights)
    beyond = np.pad(h, (0, 1), mode="edge")
    top = np.maximum(np.maximum(h, beyond[1:, :-1]), np.maximum(beyond[:-1, 1:], beyond[1:, 1:]))
    around = np.lib.stride_tricks.sliding_window_view(
        np.pad(h, (1, 2), constant_values=np.nan), (4, 4)
    )
    level = (around == h[:, :, None, None]).all(axis=(2, 3))
    return TableRow(np.stack([top, 1.0 * level], -1).reshape(-1, 2))


def is_level(under: SurfaceHit, b: Placed) -> Array:
    """Whether the cell below a point is level, with all cells around it."""
    found = called(_tops_of(b.shape), np.stack([under.i * b.shape.size[1] + under.j]))
    return under.there & (found[1] > 0.5)


@final
class _Heights(PiecewiseConstantCall):
    """The heights (7,) of P and its neighbours for point (i, j) of a field; constants."""

    takes = ((2,),)
    shapes = ((7,),)

    def __init__(self, field: HeightField) -> None:
        heights = np.array(field.heights)
        around = heights.min() - _DROP * max(field.spacing)
        self._own = ConstantRows(np.pad(heights, 1, constant_values=around))
        self.key = self._own.digest
        self.name = f"heights {self.key}"

    def text(self, m: Machine, args: Sequence[Memory]) -> Sequence[Sequence[Number]]:
        """Reads, lane by lane: every lane is at a place of its own."""
        columns = self._own.rows.shape[1]
        i, j = (m.where(m.equal(x - x, 0.0), x, 0.0) for x in (args[0][0], args[0][1]))
        steps = [(di + 1) * columns + dj + 1 for di, dj in _STEPS]
        return [m.gathered(m.constants(self._own.rows), i * columns + j, steps)]


@lru_cache(maxsize=64)
def _heights_of(field: HeightField) -> _Heights:
    return _Heights(field)
