"""Convex shapes as the general kernel sees them: their farthest points, and the faces around them.

A shape is a core and a radius: a sphere is a point, a capsule a segment, each with all points
within its radius; other shapes are their cores. All is in the axes of the shape, in arithmetic that
can be traced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from phipsi.backends.native.text.lane_arithmetic import Lane, fold_loop, i64
from phipsi.contact.geometry.graph_calls import Choice, called, inner_code
from phipsi.contact.geometry.placed_shapes import across, one_of_three
from phipsi.laws import law_operations as ops
from phipsi.laws.graph import Array
from phipsi.laws.trace import Traced, as_node

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
class _Farthest(Choice):
    """The first of points p (3 n,) that is farthest along d (3,): a loop over the points."""

    shapes = ((3,),)
    takes_views = True

    def __init__(self, numbers: int) -> None:
        self._count = numbers // 3
        self.key = numbers
        self.name = f"farthest of {self._count}"

    def arrays(self, *args: Array) -> Sequence[Array]:
        """On arrays."""
        p, d = args
        points = p.reshape(*p.shape[:-1], -1, 3)
        heights = points[..., 0] * d[..., None, 0]
        for i in (1, 2):
            heights = heights + points[..., i] * d[..., None, i]
        which = heights.argmax(axis=-1)
        points = np.broadcast_to(points, (*which.shape, *points.shape[-2:]))
        return [np.take_along_axis(points, which[..., None, None], axis=-2)[..., 0, :]]

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[list[Lane]]:
        """The loop."""
        b, e = code.e.builder, code.e
        p, d = code.stored(args[0]), [code.entry(args[1], i) for i in range(3)]

        def more(i: Any, best: list[Any]) -> list[Any]:
            first = b.mul(i, i64(3))
            x = [code.entry(p, b.add(first, i64(j))) for j in range(3)]
            height = x[0] * d[0] + x[1] * d[1] + x[2] * d[2]
            better = e.compare(">", height, Lane(e, best[0]))
            new = [height, *x]
            return [b.select(better, y.value, old) for y, old in zip(new, best, strict=True)]

        start = [e.constant(-np.inf).value, *(code.entry(p, j).value for j in range(3))]
        found = fold_loop(b, i64(self._count), 1, start, more)
        return [[Lane(e, x) for x in found[1:]]]


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
class _Outline(Choice):
    """Of the hull of points p (3 n,), a face along d (3,): its corners in six directions.

    From the farthest point the hull is wrapped: a plane across d is tilted until it touches a
    second point, as little as possible, and about the edge of the two until it touches a third.
    With `count`, all corners of the face in order, from the farthest in a direction on: the next
    one has all others on its left. A face with fewer corners ends with its first one, again; one
    with more would not be closed, so of `MANY` it has the farthest in as many directions.
    """

    takes_views = True

    def __init__(self, numbers: int, count: int | None) -> None:
        self._count = numbers // 3
        self._wraps = count is not None and count < MANY
        self._corners = count or len(SIXTHS)
        self.shapes = ((3 * self._corners,),)
        self._top = _Farthest(numbers)
        self.key = numbers, count
        self.name = f"outline of {self._count}" + (f" with {count}" if count else "")

    def arrays(self, *args: Array) -> Sequence[Array]:
        """On arrays."""
        p, d = args
        (top,) = self._top.arrays(p, d)
        points = p.reshape(*p.shape[:-1], -1, 3)
        away = points - top[..., None, :]
        squares = np.sum(away * away, axis=-1)
        size = squares.max(axis=-1, keepdims=True)

        def along(x: Array) -> Array:
            return np.sum(away * x[..., None, :], axis=-1)

        def picked(score: Array, what: Array) -> Array:
            which = score.argmax(axis=-1)
            whole = np.broadcast_to(what, (*which.shape, *what.shape[-2:]))
            return np.take_along_axis(whole, which[..., None, None], axis=-2)[..., 0, :]

        def least_steep(n: Array, edge: Array | None) -> Array:
            down = along(n)
            side = squares - down * down
            if edge is not None:
                side = side - along(edge) ** 2
            far = side > _COINCIDENT * size
            return picked(np.where(far, -(down * down) / np.where(far, side, 1.0), -np.inf), away)

        with np.errstate(all="ignore"):
            e = _unit(least_steep(d, None))
            n = _unit(d - e * np.sum(d * e, axis=-1, keepdims=True))
            g = least_steep(n, e)
            n = _unit(np.cross(e, g))
            n = np.where(np.sum(n * d, axis=-1, keepdims=True) < 0, -n, n)
            level = along(n) ** 2 <= _LEVEL**2 * size
            out = []
            around = directions(np.moveaxis(n, -1, 0), 1 if self._wraps else self._corners)
            for x in np.moveaxis(np.stack(around, axis=0), 1, -1):
                out.append(picked(np.where(level, along(x), -np.inf), points))
            points = np.broadcast_to(points, (*n.shape[:-1], *points.shape[-2:]))
            done = np.zeros(n.shape[:-1], bool)
            for _ in range(self._corners - len(out)):
                here = best = out[-1]
                for i in range(self._count):
                    x, y = points[..., i, :] - here, best - here
                    turn = np.sum(np.cross(y, x) * n, axis=-1)
                    longer = np.sum(x * x, axis=-1) > np.sum(y * y, axis=-1)
                    same = np.abs(turn) <= _IN_LINE * size[..., 0]
                    better = level[..., i] & np.where(same, longer, turn < 0.0)
                    best = np.where(better[..., None], points[..., i, :], best)
                done = done | (best == out[0]).all(axis=-1)
                out.append(np.where(done[..., None], out[0], best))
        return [np.concatenate(out, axis=-1)]

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[list[Lane]]:
        """Loops over the points."""
        top = self._top.write(code, args)[0]
        points = _PointLoops(code, args, self._count, top)
        d = [code.entry(args[1], i) for i in range(3)]
        edge, n = points.traced({"edge": points.least_steep(d, None), "d": d}, _tilted)
        third = points.least_steep(n, edge)
        many = 1 if self._wraps else self._corners
        n, *axes = points.traced(
            {"edge": edge, "third": third, "d": d}, lambda x, y, z: _face_axes(x, y, z, many)
        )
        corners = points.farthest(n, axes)
        first, done = corners[0], None
        b, e = code.e.builder, code.e
        while len(corners) < self._corners:
            new = points.next_corner(n, corners[-1])
            back = [e.compare("==", x, y) for x, y in zip(new, first, strict=True)]
            ends = b.and_(back[0], b.and_(back[1], back[2]))
            done = ends if done is None else b.or_(done, ends)
            corners.append([e.select(done, x, y) for x, y in zip(first, new, strict=True)])
        return [[x for corner in corners for x in corner]]


class _PointLoops:
    """Writes loops over the points of a mesh, seen from the farthest one along d, `top`.

    **Attributes:** `size`, the square of the largest distance from it.
    """

    def __init__(self, code: Any, args: Sequence[Any], count: int, top: list[Lane]) -> None:
        self.code, self.e, self.b, self._count = code, code.e, code.e.builder, count
        self._p, self._top, e = code.stored(args[0]), top, code.e

        def larger(i: Any, best: list[Any]) -> list[Any]:
            x = self._from_top(i)
            square, old = _along(x, x), Lane(e, best[0])
            return [e.select(e.compare(">", square, old), square, old).value]

        (self.size,) = self._loop([e.constant(0.0).value], larger)

    def _point(self, i: Any) -> list[Lane]:
        first = self.b.mul(i, i64(3))
        return [self.code.entry(self._p, self.b.add(first, i64(j))) for j in range(3)]

    def _from_top(self, i: Any) -> list[Lane]:
        return [x - y for x, y in zip(self._point(i), self._top, strict=True)]

    def _loop(self, starts: list[Any], body: Any) -> list[Lane]:
        return [Lane(self.e, x) for x in fold_loop(self.b, i64(self._count), 1, starts, body)]

    def _chosen(self, better: Any, new: Sequence[Lane], old: Sequence[Any]) -> list[Any]:
        return [self.b.select(better, y.value, z) for y, z in zip(new, old, strict=True)]

    def _is_level(self, away: Sequence[Lane], n: Sequence[Lane]) -> Any:
        down = _along(away, n)
        return self.e.compare("<=", down * down, self.size * _LEVEL**2)

    def least_steep(self, n: Sequence[Lane], edge: Sequence[Lane] | None) -> list[Lane]:
        """From the top to the point that is least steep below it along n, beside an edge if any."""
        e, b = self.e, self.b

        def more(i: Any, best: list[Any]) -> list[Any]:
            x = self._from_top(i)
            down = _along(x, n)
            side = _along(x, x) - down * down
            if edge is not None:
                beside = _along(x, edge)
                side = side - beside * beside
            far = e.compare(">", side, self.size * _COINCIDENT)
            score = -(down * down) / e.select(far, side, 1.0)
            better = b.and_(far, e.compare(">", score, Lane(e, best[0])))
            return self._chosen(better, [score, *x], best)

        zero = e.constant(0.0).value
        return self._loop([e.constant(-np.inf).value, zero, zero, zero], more)[1:]

    def traced(self, given: dict[str, Sequence[Lane]], make: Any) -> list[Any]:
        """What a function of vectors (3,) returns."""
        inner = inner_code(self.code, {name: list(x) for name, x in given.items()})
        own = [Traced(ops.given(name, (3,))) for name in given]
        return inner.write([as_node(x) for x in make(*own)])

    def farthest(self, n: Sequence[Lane], axes: Sequence[Any]) -> list[list[Lane]]:
        """The points of the face with the normal n that are farthest along each of the axes."""
        e, b, many = self.e, self.b, len(axes)

        def more(i: Any, best: list[Any]) -> list[Any]:
            x, away = self._point(i), self._from_top(i)
            level, out = self._is_level(away, n), list[Any]()
            for k, axis in enumerate(axes):
                old = best[4 * k : 4 * k + 4]
                score = _along(away, axis)
                better = b.and_(level, e.compare(">", score, Lane(e, old[0])))
                out += self._chosen(better, [score, *x], old)
            return out

        start = [e.constant(-np.inf).value, *(x.value for x in self._top)]
        found = self._loop(start * many, more)
        return [[found[4 * k + 1 + i] for i in range(3)] for k in range(many)]

    def next_corner(self, n: Sequence[Lane], here: Sequence[Lane]) -> list[Lane]:
        """The corner of the face that follows one of them."""
        e, b = self.e, self.b

        def on(i: Any, best: list[Any]) -> list[Any]:
            z, level = self._point(i), self._is_level(self._from_top(i), n)
            x = [p - q for p, q in zip(z, here, strict=True)]
            y = [Lane(e, p) - q for p, q in zip(best, here, strict=True)]
            turn = _along(n, [y[j - 2] * x[j - 1] - y[j - 1] * x[j - 2] for j in range(3)])
            same = e.compare("<=", turn * turn, self.size * self.size * _IN_LINE**2)
            longer = e.compare(">", _along(x, x), _along(y, y))
            right = e.compare("<", turn, 0.0)
            return self._chosen(b.and_(level, b.select(same, longer, right)), z, best)

        return self._loop([x.value for x in here], on)


def _along(x: Sequence[Lane], y: Sequence[Lane]) -> Lane:
    return x[0] * y[0] + x[1] * y[1] + x[2] * y[2]


def _unit(x: Array) -> Array:
    return x / np.sqrt(np.sum(x * x, axis=-1, keepdims=True))


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
