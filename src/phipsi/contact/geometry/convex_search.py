"""The direction along which two convex shapes are farthest apart, or overlap least.

The separation along a unit vector n from b to a is f(n) = min n·a − max n·b. Its largest value is
the distance of the shapes, and in an overlap minus the shortest way out. Shapes that are apart by
more than a little are left to GJK (Gilbert, Johnson and Keerthi 1988), which finds the nearest
point of the difference b − a to the origin. Others are moved apart first: a by L along the best
direction s so far, where L makes the separation along s a given ε. The nearest points of the moved
shapes have a normal n with f(n) ≥ f(s) + L (1 − n·s): every round is at least as good as the
last one. ε becomes smaller from round to round.

All is in the axes of a. The state of the search is one vector; every lane has its own rounds.
Reasons: docs/decisions/0045.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from phipsi.contact.geometry.convex_shapes import SMOOTH, farthest, size
from phipsi.contact.geometry.graph_calls import Repeated, called
from phipsi.core.arrays import Tracer, as_node, law_operations as ops

_APART = (0.03, 1e-3, 1e-6)  # ε of the rounds, of the size of the shapes
_SAME = 1e-12  # of the size: distance and separation that differ by less are equal
_SAME_SMOOTH = 1e-8  # the same for shapes without faces: their direction is improved afterwards
_MOST = 80  # steps of all rounds
_THIN = 1e-20  # sin² of the angle of two edges that span no triangle
_FAR = 1e9  # m: the distance before the first point is known


_AXES = np.eye(3)
_SIDES = {"Box": (0, 1, 2), "Cylinder": (2,), "Ellipsoid": (0, 1, 2), "ConvexMesh": (0, 1, 2)}


class RelativeShapes(NamedTuple):
    """Two shapes in the axes of a: their numbers, and axes `Q` (3, 3) and place `t` (3,) of b."""

    p_a: Any
    p_b: Any
    Q: Any
    t: Any


Kinds = tuple[str, str]


def supports(kinds: Kinds, pair: RelativeShapes, n: Any) -> tuple[Any, Any]:
    """The points of the cores of a and b that are farthest towards each other along n."""
    a = farthest(kinds[0], pair.p_a, -n)
    return a, pair.t + pair.Q @ farthest(kinds[1], pair.p_b, n @ pair.Q)


class _SearchState(NamedTuple):
    """Of the search: a vector of 35 numbers."""

    round: Any
    moved: Any  # L
    along: Any  # s
    points: Any  # (3, 3) of the difference, a moved
    on_a: Any  # (3, 3) the points of a that they belong to
    weights: Any  # (3,) of the nearest point
    distance: Any
    n: Any
    best: Any
    best_n: Any
    done: Any


_FIELDS = {"round": (), "moved": (), "along": (3,), "points": (3, 3), "on_a": (3, 3),
           "weights": (3,), "distance": (), "n": (3,), "best": (), "best_n": (3,),
           "done": ()}  # fmt: skip


def _packed(state: _SearchState) -> Any:
    return np.concatenate([np.reshape(1.0 * x, (-1,)) for x in state])


def _unpacked(vector: Any) -> _SearchState:
    out, start = [], 0
    for shape in _FIELDS.values():
        count = int(np.prod(shape))
        out.append(vector[start : start + count].reshape(shape) if shape else vector[start])
        start += count
    return _SearchState(*out)


def best_direction(kinds: Kinds, pair: RelativeShapes, given: Any) -> tuple[Any, Any, Any]:
    """The direction n, and points of a and b where they are nearest; in the axes of a."""
    first = _start(kinds, pair, given[-1])
    first = called(step_of(_search, kinds, pair), _packed(first), given)
    found = _unpacked(first)
    a = found.weights @ found.on_a
    return found.best_n, a, a + found.weights @ found.points + found.moved * found.along


def given_numbers(kinds: Kinds, pair: RelativeShapes) -> Any:
    """All that a search is given: the numbers of the pair, and its size last."""
    scale = size(kinds[0], pair.p_a) + size(kinds[1], pair.p_b)
    return np.concatenate([pair.p_a, pair.p_b, pair.Q.reshape(9), pair.t, np.stack([scale])])


Step = Callable[[Kinds, RelativeShapes, Any], Repeated]
_STEPS: dict[Any, Repeated] = {}


def step_of(make: Step, kinds: Kinds, pair: RelativeShapes) -> Repeated:
    """A step for shapes of these kinds, make(kinds, pair, scale): one for all sizes."""
    sizes = len(pair.p_a), len(pair.p_b)
    key = make, kinds, sizes
    if key not in _STEPS:
        i, j = sizes[0], sum(sizes)
        given = Tracer(ops.input("given", (j + 13,)))
        own = given[:i], given[i:j], given[j : j + 9].reshape(3, 3), given[j + 9 : j + 12]
        _STEPS[key] = make(kinds, RelativeShapes(*own), given[j + 12])
    return _STEPS[key]


def _search(kinds: Kinds, pair: RelativeShapes, scale: Any) -> Repeated:
    state = _unpacked(Tracer(ops.input("state", (35,))))
    return Repeated(as_node(_packed(_step(kinds, pair, scale, state))), _MOST)


def _start(kinds: Kinds, pair: RelativeShapes, scale: Any) -> _SearchState:
    """Begin with the direction between the centres, or in an overlap with a better one."""
    square = pair.t @ pair.t
    there = square > 1e-30
    n = np.where(there, -pair.t / np.sqrt(np.where(there, square, 1.0)), _AXES[2])
    a, b = supports(kinds, pair, n)
    best = n @ (a - b)
    for axis in _axes(kinds, pair):
        for d in (axis, -axis):
            a, b = supports(kinds, pair, d)
            f = d @ (a - b)
            better = f > best
            best, n = np.where(better, f, best), np.where(better, d, n)
    moved = np.maximum(_APART[0] * scale - best, 0.0)
    zero, nothing = 0.0 * best, 0.0 * pair.Q
    weights = np.stack([1.0 + zero, zero, zero])
    return _SearchState(zero, moved, n, nothing, nothing, weights, _FAR + zero, n, best, n, zero)


def _axes(kinds: Kinds, pair: RelativeShapes) -> list[Any]:
    sides = zip(kinds, (_AXES, pair.Q), strict=True)
    return [axes[:, i] for kind, axes in sides for i in _SIDES.get(kind, ())]


def _step(kinds: Kinds, pair: RelativeShapes, scale: Any, old: _SearchState) -> _SearchState:
    """One farther point, and the nearest point of the triangle or edge that it gives."""
    a, b = supports(kinds, pair, old.n)
    f = old.n @ (a - b)
    w = b - a - old.moved * old.along
    better = f > old.best
    best, best_n = np.where(better, f, old.best), np.where(better, old.n, old.best_n)
    is_first = old.distance >= _FAR
    same = _SAME_SMOOTH if all(kind in SMOOTH for kind in kinds) else _SAME
    ends = old.distance + old.n @ w <= same * scale
    points = [np.where(is_first, w, old.points[i]) for i in range(3)]
    on_a = [np.where(is_first, a, old.on_a[i]) for i in range(3)]
    near = _nearest(w, a, points, on_a)
    stuck = near.distance >= old.distance * (1.0 - 1e-15)
    ends = ends | (stuck & ~is_first)
    # the next round, from the best direction
    turn = old.round + 1.0
    apart: Any = _APART[-1]
    for k in range(len(_APART) - 1, -1, -1):
        apart = np.where(turn <= float(k), _APART[k], apart)
    moved = np.maximum(apart * scale - best, 0.0)
    done = ends & ((old.moved <= 0.0) | (turn >= float(len(_APART))))
    again = ends & ~done
    new = _SearchState(
        np.where(again, turn, old.round),
        np.where(again, moved, old.moved),
        np.where(again, best_n, old.along),
        np.where(ends, old.points, near.points),
        np.where(ends, old.on_a, near.on_a),
        np.where(ends, old.weights, near.weights),
        np.where(again, _FAR, np.where(ends, old.distance, near.distance)),
        np.where(again, best_n, np.where(ends, old.n, near.n)),
        best,
        best_n,
        done,
    )
    return new


class _SimplexPoint(NamedTuple):
    points: Any
    on_a: Any
    weights: Any
    distance: Any
    n: Any


def _nearest(w: Any, a: Any, points: list[Any], on_a: list[Any]) -> _SimplexPoint:
    """The point nearest to the origin on the edges and triangles at w."""
    e = [p - w for p in points]
    ww = w @ w
    we = [w @ x for x in e]
    ee = [x @ x for x in e]
    best: Any = ww
    first: Any = 0.0 * w[0]  # numbers of the points, weights
    u: Any = 0.0 * w[0]
    v: Any = 0.0 * w[0]
    second: Any = 0.0 * w[0]
    m: Any = 0.0 * w
    flat: Any = ww < 0.0
    for i in range(3):
        long = ee[i] > 0.0
        t = np.clip(-we[i] / np.where(long, ee[i], 1.0), 0.0, 1.0)
        y = w + t * e[i]
        square = y @ y
        better = long & (square < best)
        best, u = np.where(better, square, best), np.where(better, t, u)
        first = np.where(better, float(i), first)
        second = np.where(better, float(i), second)
    for i, j in ((0, 1), (1, 2), (2, 0)):
        cross = np.cross(e[i], e[j])
        mm = cross @ cross
        wide = mm > _THIN * ee[i] * ee[j]
        inverse = 1.0 / np.where(wide, mm, 1.0)
        height = cross @ w
        c = np.cross(cross, w)
        # barycentric coordinates of the foot of the origin
        s, t = -(c @ e[j]) * inverse, (c @ e[i]) * inverse
        inner = wide & (s >= 0.0) & (t >= 0.0) & (s + t <= 1.0)
        square = height * height * inverse
        better = inner & (square <= best)
        best = np.where(better, square, best)
        u, v = np.where(better, s, u), np.where(better, t, v)
        first, second = np.where(better, float(i), first), np.where(better, float(j), second)
        m = np.where(better, np.where(height < 0.0, cross, -cross) * np.sqrt(inverse), m)
        flat = flat | better

    def number(x: list[Any], which: Any) -> Any:
        return np.where(which == 0.0, x[0], np.where(which == 1.0, x[1], x[2]))

    p, q = number(points, first), number(points, second)
    y = w + u * (p - w)
    length = np.sqrt(np.maximum(y @ y, 1e-300))
    n = np.where(flat, m, -y / length)
    distance = np.where(flat, np.sqrt(best), length)
    weights = np.stack([1.0 - u - v, u, v])
    return _SimplexPoint(
        np.stack([w, p, q]),
        np.stack([a, number(on_a, first), number(on_a, second)]),
        weights, distance, n,
    )  # fmt: skip
