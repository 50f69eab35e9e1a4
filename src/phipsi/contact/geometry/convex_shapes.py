"""Convex shapes as the general kernel sees them: their farthest points, and the faces around them.

A shape is a core and a radius: a sphere is a point, a capsule a segment, each with all points
within its radius; other shapes are their cores. All is in the axes of the shape, in arithmetic that
can be traced.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, final

import numpy as np

from phipsi.contact.geometry.graph_calls import PiecewiseConstantCall, called
from phipsi.contact.geometry.placed_shapes import across, one_of_three
from phipsi.contact.geometry.row_tables import dot
from phipsi.core.arrays import GraphEvaluator, Tracer, as_node, law_operations as ops
from phipsi.core.machine import Candidate, Index, Machine, Mask, Memory, Number

_TINY = 1e-30  # of a squared length: no direction
ROUND = ("Sphere", "Capsule")
"""Kinds with a radius around their cores: the first of their numbers."""


def radius(kind: str, p: Any) -> Any:
    """How far the shape reaches beyond its core, m."""
    return p[0] if kind in ROUND else 0.0


def farthest(kind: str, p: Any, d: Any) -> Any:
    """The point of the core that is farthest along a direction."""
    return _FARTHEST[kind](p, d)


def size(kind: str, p: Any) -> Any:
    """A length that the shape has, for tolerances; m."""
    if kind == "ConvexMesh":
        return np.sqrt(np.max(np.sum(p.reshape(-1, 3) ** 2, axis=1)))
    return np.sum(p)


def _side(x: Any) -> Any:
    return np.where(x >= 0.0, 1.0, -1.0)


def _of_sphere(p: Any, d: Any) -> Any:
    return 0.0 * d


def _of_capsule(p: Any, d: Any) -> Any:
    return np.stack([0.0 * d[0], 0.0 * d[1], p[1] * _side(d[2])])


def _of_cylinder(p: Any, d: Any) -> Any:
    square = d[0] * d[0] + d[1] * d[1]
    there = square > _TINY
    reach = np.where(there, p[0] / np.sqrt(np.where(there, square, 1.0)), 0.0)
    return np.stack([reach * d[0], reach * d[1], p[1] * _side(d[2])])


def _of_ellipsoid(p: Any, d: Any) -> Any:
    s = p * d
    return p * s / np.sqrt(s @ s)


def _of_box(p: Any, d: Any) -> Any:
    return p * _side(d)


def _of_mesh(p: Any, d: Any) -> Any:
    return called(_Farthest(int(np.size(p))), p, d)


_FARTHEST = {
    "Sphere": _of_sphere,
    "Capsule": _of_capsule,
    "Cylinder": _of_cylinder,
    "Ellipsoid": _of_ellipsoid,
    "Box": _of_box,
    "ConvexMesh": _of_mesh,
}


@final
class _Farthest(PiecewiseConstantCall):
    """The first of points p (3 n,) that is farthest along d (3,): a loop over the points."""

    indexed = (0,)
    shapes = ((3,),)

    def __init__(self, numbers: int) -> None:
        self._count, self.takes = numbers // 3, ((numbers,), (3,))
        self.key = numbers
        self.name = f"farthest of {self._count}"

    def text(self, m: Machine, args: Sequence[Memory]) -> Sequence[Sequence[Number]]:
        """The loop."""
        return [farthest_of(m, self._count, *args)]


def farthest_of(m: Machine, count: int, p: Memory, direction: Memory) -> list[Number]:
    """The first of so many points that is farthest along a direction."""
    d = [direction[i] for i in range(3)]

    def heights(i: Index) -> list[Candidate]:
        x = _point(p, i)
        return [Candidate(dot(x, d), x)]

    (best,) = m.first_largest(0, count, heights, [[-np.inf, *_point(p, 0)]])
    return best[1:]


def _point(p: Memory, i: Index | int) -> list[Number]:
    return [p[i * 3 + j] for j in range(3)]


# ---- around the farthest point -------------------------------------------------------------------

CURVED = ("Cylinder", "Ellipsoid")
"""Kinds whose farthest point moves smoothly with the direction."""
SMOOTH = ("Sphere", "Ellipsoid")
"""Kinds without faces and edges."""
FLAT = 1e-7
"""How far a direction may be from that of a face or edge which is at right angles to it."""
_EDGE = 1e-9  # of squared areas: points that span none lie along an edge


def curvature(kind: str, p: Any, d: Any) -> Any:
    """How the farthest point moves with a unit direction: ∂farthest/∂d (3, 3), symmetric, m.

    Zero for corners; along faces and edges, where the farthest point is not unique, see `flatness`.
    """
    if kind == "Ellipsoid":
        s = p * d
        h = np.sqrt(s @ s)
        x = p * s / h
        return np.diag(p * p / h) - np.outer(x, x) / h
    if kind == "Cylinder":
        square = d[0] * d[0] + d[1] * d[1]
        there = square > FLAT**2
        long = np.sqrt(np.where(there, square, 1.0))
        x, y = d[0] / long, d[1] / long
        c = np.where(there, p[0] / long, 0.0)
        z = 0.0 * c
        return np.stack([c * y * y, -c * x * y, z, -c * x * y, c * x * x, z, z, z, z]).reshape(3, 3)
    return np.zeros((3, 3))


def flatness(kind: str, p: Any, d: Any, within: Any = FLAT) -> Any:
    """The projector (3, 3) onto the directions in which all points are equally far along d.

    Faces and edges count whose angle with d is a right one up to `within` (rad). Zero at a corner
    or on a curved surface, of rank one on an edge, of rank two on a face.
    """
    if kind == "Box":
        return _diagonal(np.abs(d) < within)
    if kind == "Capsule":
        return _diagonal(np.stack([d[0] < -2.0, d[0] < -2.0, np.abs(d[2]) < within]))
    if kind == "Cylinder":
        end = d[0] * d[0] + d[1] * d[1] < within * within
        return _diagonal(np.stack([end, end, np.abs(d[2]) < within]))
    if kind == "ConvexMesh":
        return _flat_of_mesh(p, d, within)
    return np.zeros((3, 3))


def _diagonal(flags: Any) -> Any:
    return np.diag(1.0 * flags)


def _flat_of_mesh(p: Any, d: Any, within: Any) -> Any:
    top = farthest("ConvexMesh", p, d)
    away = p.reshape(-1, 3) - top
    squares = np.sum(away * away, axis=1)
    heights = away @ d
    level = 1.0 * (heights * heights <= within * within * squares)
    C = (away.T * level) @ away
    trace = C[0, 0] + C[1, 1] + C[2, 2]
    C = C / np.where(trace > 0.0, trace, 1.0)
    cofactors = np.stack([np.cross(C[1], C[2]), np.cross(C[2], C[0]), np.cross(C[0], C[1])])
    area = cofactors[0, 0] + cofactors[1, 1] + cofactors[2, 2]
    is_face = area > _EDGE
    face = np.eye(3) - cofactors / np.where(is_face, area, 1.0)
    return np.where(is_face, face, C)


# ---- faces ---------------------------------------------------------------------------------------

_NARROW = 1e-10  # of the length of an edge: the width that it has as a face
_COINCIDENT = 1e-12  # of the squared size: points that are nearer to each other are one
_LEVEL = 1e-9  # of the size: how far points of a face may be from its plane
_IN_LINE = 1e-12  # of the squared size: twice the area of a triangle that is none
MANY = 12
"""Corners of a face of which so many are seen, whatever it has."""
SIXTHS = np.stack([np.cos(np.arange(6) * np.pi / 3), np.sin(np.arange(6) * np.pi / 3)], axis=1)
"""Six directions in a plane."""


def face(kind: str, p: Any, d: Any) -> Any:
    """The corners (k, 3) of the face that looks most along d, in order around it.

    The end of a cylinder is a hexagon, one of whose corners is the farthest point. The side of a
    cylinder and the core of a capsule are edges: faces without a width to speak of.
    """
    return _FACE[kind](p, d)


def whole_face(kind: str, p: Any, d: Any, count: int) -> Any:
    """The same of a box or a mesh with all its corners, `count` at most; some of them twice."""
    return _face_of_box(p, d) if kind == "Box" else _outline(p, d, count)


def _face_of_box(p: Any, d: Any) -> Any:
    o = one_of_three(np.abs(d))
    middle = np.stack([o[i] * p[i] * _side(d[i]) for i in range(3)])
    e = np.stack([o[2] * p[0], o[0] * p[1], o[1] * p[2]])
    g = np.stack([o[1] * p[0], o[2] * p[1], o[0] * p[2]])
    return np.stack([middle + e + g, middle - e + g, middle - e - g, middle + e - g])


def _around_axis(d: Any) -> tuple[Any, Any]:
    """The direction of d around z, by its cosine and sine; x if it is along z."""
    square = d[0] * d[0] + d[1] * d[1]
    there = square > FLAT**2
    long = np.sqrt(np.where(there, square, 1.0))
    return np.where(there, d[0] / long, 1.0), np.where(there, d[1] / long, 0.0)


def _face_of_capsule(p: Any, d: Any) -> Any:
    c, s = _around_axis(d)
    x, y = -s * (_NARROW * p[1]), c * (_NARROW * p[1])
    signs = ((1.0, 1.0), (-1.0, 1.0), (-1.0, -1.0), (1.0, -1.0))
    return np.stack([np.stack([i * x, i * y, j * p[1]]) for i, j in signs])


def _face_of_cylinder(p: Any, d: Any) -> Any:
    c, s = _around_axis(d)
    is_end = d[2] * d[2] > d[0] * d[0] + d[1] * d[1]
    z, narrow = p[1] * _side(d[2]), _NARROW * p[1]
    ups = (1.0, 1.0, 1.0, -1.0, -1.0, -1.0)
    sides = (-1.0, 1.0, 1.0, 1.0, -1.0, -1.0)
    out = []
    for (x, y), up, side in zip(SIXTHS, ups, sides, strict=True):
        rim = np.stack([p[0] * (c * x - s * y), p[0] * (s * x + c * y), z])
        line = np.stack([p[0] * c - s * (side * narrow), p[0] * s + c * (side * narrow), up * p[1]])
        out.append(np.where(is_end, rim, line))
    return np.stack(out)


def _face_of_mesh(p: Any, d: Any) -> Any:
    return _outline(p, d, None)


def _outline(p: Any, d: Any, count: int | None) -> Any:
    return called(_Outline(int(np.size(p)), count), p, d).reshape(-1, 3)


_FACE = {
    "Box": _face_of_box,
    "Capsule": _face_of_capsule,
    "Cylinder": _face_of_cylinder,
    "ConvexMesh": _face_of_mesh,
}
FLAT_KINDS = tuple(_FACE)
"""Kinds with faces or edges, which touch in several points."""


@final
class _Outline(PiecewiseConstantCall):
    """Of the hull of points p (3 n,), a face along d (3,): its corners in six directions.

    From the farthest point the hull is wrapped: a plane across d is tilted until it touches a
    second point, as little as possible, and about the edge of the two until it touches a third.
    With `count`, all corners of the face in order, from the farthest in a direction on: the next
    one has all others on its left. A face with fewer corners ends with its first one, again; one
    with more would not be closed, so of `MANY` it has the farthest in as many directions.
    """

    indexed = (0,)

    def __init__(self, numbers: int, count: int | None) -> None:
        self._count, self.takes = numbers // 3, ((numbers,), (3,))
        self._wraps = count is not None and count < MANY
        self._corners = count or len(SIXTHS)
        self.shapes = ((3 * self._corners,),)
        self.key = numbers, count
        self.name = f"outline of {self._count}" + (f" with {count}" if count else "")

    def text(self, m: Machine, args: Sequence[Memory]) -> Sequence[Sequence[Number]]:
        """Loops over the points."""
        top = farthest_of(m, self._count, *args)
        points = _PointLoops(m, args[0], self._count, top)
        d = [args[1][i] for i in range(3)]
        edge, n = m.graphs({"edge": points.least_steep(d, None), "d": d})(
            _formula(_tilted, ("edge", "d"))
        )
        third = points.least_steep(n, edge)
        many = 1 if self._wraps else self._corners
        axes = _formula(_face_axes, ("edge", "third", "d"), many)
        n, *axes = m.graphs({"edge": edge, "third": third, "d": d})(axes)
        corners = points.farthest(n, axes)
        first, done = corners[0], None
        while len(corners) < self._corners:
            new = points.next_corner(n, corners[-1])
            back = [m.equal(x, y) for x, y in zip(new, first, strict=True)]
            ends = back[0] & (back[1] & back[2])
            done = ends if done is None else done | ends
            corners.append([m.where(done, x, y) for x, y in zip(first, new, strict=True)])
        return [[x for corner in corners for x in corner]]


@final
class _PointLoops:
    """Loops over the points of a mesh, seen from the farthest one along d, `top`.

    **Attributes:** `size`, the square of the largest distance from it.
    """

    def __init__(self, m: Machine, p: Memory, count: int, top: list[Number]) -> None:
        self.m, self._p, self._count, self._top = m, p, count, top

        def square(i: Index) -> Number:
            x = self._from_top(i)
            return dot(x, x)

        self.size = m.largest(0, count, square)

    def _from_top(self, i: Index) -> list[Number]:
        return [x - y for x, y in zip(_point(self._p, i), self._top, strict=True)]

    def _is_level(self, away: Sequence[Number], n: Sequence[Number]) -> Mask:
        down = dot(away, n)
        return down * down <= self.size * _LEVEL**2

    def least_steep(self, n: Sequence[Number], edge: Sequence[Number] | None) -> list[Number]:
        """From the top to the point that is least steep below it along n, beside an edge if any."""
        m = self.m

        def steps(i: Index) -> list[Candidate]:
            x = self._from_top(i)
            down = dot(x, n)
            side = dot(x, x) - down * down
            if edge is not None:
                beside = dot(x, edge)
                side = side - beside * beside
            far = side > self.size * _COINCIDENT
            return [Candidate(-(down * down) / m.where(far, side, 1.0), x, far)]

        return m.first_largest(0, self._count, steps, [[-np.inf, 0.0, 0.0, 0.0]])[0][1:]

    def farthest(self, n: Sequence[Number], axes: Sequence[Sequence[Number]]) -> list[list[Number]]:
        """The points of the face with the normal n that are farthest along each of the axes."""

        def along(i: Index) -> list[Candidate]:
            x, away = _point(self._p, i), self._from_top(i)
            level = self._is_level(away, n)
            return [Candidate(dot(away, axis), x, level) for axis in axes]

        starts = [[-np.inf, *self._top]] * len(axes)
        return [best[1:] for best in self.m.first_largest(0, self._count, along, starts)]

    def next_corner(self, n: Sequence[Number], here: Sequence[Number]) -> list[Number]:
        """The corner of the face that follows one of them."""
        m = self.m

        def on(i: Index, best: Sequence[Number]) -> list[Number]:
            z, level = _point(self._p, i), self._is_level(self._from_top(i), n)
            x = [p - q for p, q in zip(z, here, strict=True)]
            y = [p - q for p, q in zip(best, here, strict=True)]
            turn = dot(n, [y[j - 2] * x[j - 1] - y[j - 1] * x[j - 2] for j in range(3)])
            same = turn * turn <= self.size * self.size * _IN_LINE**2
            longer, right = dot(x, x) > dot(y, y), turn < 0.0
            better = level & ((same & longer) | (~same & right))
            return [m.where(better, p, q) for p, q in zip(z, best, strict=True)]

        return m.fold(0, self._count, here, on)


@cache
def _formula(make: Any, names: tuple[str, ...], *more: Any) -> GraphEvaluator:
    """A function of vectors (3,) as a graph."""
    own = [Tracer(ops.input(name, (3,))) for name in names]
    return GraphEvaluator([as_node(x) for x in make(*own, *more)])


def _tilted(edge: Any, d: Any) -> list[Any]:
    """The direction of an edge, and the normal of the plane that d is tilted to."""
    e = edge / np.sqrt(edge @ edge)
    n = d - (d @ e) * e
    return [e, n / np.sqrt(n @ n)]


def _face_axes(edge: Any, third: Any, d: Any, many: int) -> list[Any]:
    """The normal of a face along d, and some directions across it."""
    n = np.cross(edge, third)
    n = n / np.sqrt(n @ n)
    n = np.where(n @ d < 0.0, -n, n)
    return [n, *directions(n, many)]


def directions(d: Any, many: int) -> list[Any]:
    """Directions across d, around it; of one, no axis."""
    u, v = across(d)
    angle = np.arange(many) * (2 * np.pi / many) + (0.7 if many == 1 else 0.0)
    around = SIXTHS if many == len(SIXTHS) else np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return [x * u + y * v for x, y in around]
