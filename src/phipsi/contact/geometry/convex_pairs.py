"""Contacts of any two convex shapes: the best separating direction, and the points along it.

Shapes with faces or edges touch in up to four points: corners of the polygon in which the faces
lie over each other, seen along the normal, each with its own gap. A last slot has the nearest
points where the polygon does not contain them. Shapes without faces have this slot only.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, final

import numpy as np

from phipsi.contact.geometry.contact_patch import Points, four_of
from phipsi.contact.geometry.convex_normals import improved, newton_step, witness
from phipsi.contact.geometry.convex_search import (
    Kinds,
    Relative,
    best_direction,
    given_numbers,
)
from phipsi.contact.geometry.convex_shapes import (
    CURVED,
    FLAT_KINDS,
    across,
    face,
    radius,
)
from phipsi.contact.geometry.graph_calls import GraphCall
from phipsi.contact.geometry.placed_shapes import INACTIVE, Formula, Placed, Slot
from phipsi.laws import law_operations as ops
from phipsi.laws.calls import Callee, call
from phipsi.laws.graph import Array, Node
from phipsi.laws.law_derivatives import adjoints, tangents
from phipsi.laws.substitution import substituted
from phipsi.laws.trace import Traced, as_node

_SAME = 1e-9  # of the size: places and gaps that differ by less are the same
_EDGE_ON = 1e-13  # of squared lengths: a face that is seen from the side covers nothing
_PARALLEL = 1e-12  # of the lengths of two edges: they do not cross


def convex_pair(kinds: Kinds) -> Formula:
    """The formula for shapes of two kinds."""
    ends = 2 if "Capsule" in kinds else 4
    has_faces = all(kind in FLAT_KINDS for kind in kinds)

    def slots(a: Placed, b: Placed) -> list[Slot]:
        pair = Relative(a.p, b.p, a.R.T @ b.R, a.R.T @ (b.x - a.x))
        n, x, y = nearest(kinds, pair)
        r_a, r_b = (radius(kind, p) for kind, p in zip(kinds, (a.p, b.p), strict=True))
        f, x = witness(kinds, pair, n, x, pair.t + pair.Q @ y)
        scale = given_numbers(kinds, pair)[-1]
        normal = a.R @ n

        def slot(place: Any, gap: Any, active: Any) -> Slot:
            """Of a point of the core of a."""
            x_a = a.x + a.R @ place - r_a * normal
            gap = gap - r_a - r_b
            return Slot(np.where(active, gap, INACTIVE), normal, x_a, x_a - gap * normal)

        if not has_faces:
            return [slot(x, f, f < INACTIVE)]
        points, axes = _polygon(kinds, pair, n, f, scale)
        chosen = four_of(points)[:ends]
        u, v = axes
        out = [slot(p.u * u + p.v * v + p.z * n, p.w, p.there) for p in chosen]
        lowest: Any = INACTIVE  # of a flat contact, not the first
        for p in chosen:
            lowest = np.minimum(lowest, np.where(p.there, p.w, INACTIVE))
        return [*out, slot(x, f, lowest > f + _SAME * scale)]

    return slots


# ---- faces over each other -----------------------------------------------------------------------


def _polygon(
    kinds: Kinds, pair: Relative, n: Any, f: Any, scale: Any
) -> tuple[Points, tuple[Any, Any]]:
    """Candidates for corners of the polygon in which the faces lie over each other along n.

    Corners of one face over the other, and places where edges cross; `w` is the gap, `z` the height
    of a. And the axes in which their places are.
    """
    u, v = across(n)
    P = face(kinds[0], pair.p_a, -n)
    Q = pair.t + face(kinds[1], pair.p_b, n @ pair.Q) @ pair.Q.T
    M = np.stack([u, v, n])
    P, Q = P @ M.T, Q @ M.T
    k, m = P.shape[0], Q.shape[0]
    near = _SAME * scale
    groups: list[Points] = []
    gap = np.maximum(P[:, 2] - _height(Q, P), f)  # f is the least: rounding at steep faces
    groups.append(Points(P[:, 0], P[:, 1], gap, _is_over(P, Q, near), P[:, 2]))
    gap = np.maximum(_height(P, Q) - Q[:, 2], f)
    groups.append(Points(Q[:, 0], Q[:, 1], gap, _is_over(Q, P, near), Q[:, 2] + gap))
    after = np.roll(np.arange(m), -1)
    g = Q[after] - Q
    for i in range(k):
        p, e = P[i], P[(i + 1) % k] - P[i]
        det = e[0] * g[:, 1] - e[1] * g[:, 0]
        long = (e[0] * e[0] + e[1] * e[1]) * (g[:, 0] * g[:, 0] + g[:, 1] * g[:, 1])
        crosses = det * det > _PARALLEL**2 * long
        inverse = 1.0 / np.where(crosses, det, 1.0)
        x, y = Q[:, 0] - p[0], Q[:, 1] - p[1]
        s, t = (x * g[:, 1] - y * g[:, 0]) * inverse, (x * e[1] - y * e[0]) * inverse
        there = crosses & (s >= 0.0) & (s <= 1.0) & (t >= 0.0) & (t <= 1.0)
        z = p[2] + s * e[2]
        gap = z - (Q[:, 2] + t * g[:, 2])
        groups.append(Points(p[0] + s * e[0], p[1] + s * e[1], gap, there, z))
    parts = [np.concatenate([1.0 * group[i] for group in groups]) for i in range(5)]
    parts[3] = parts[3] > 0.0
    return Points(*parts), (u, v)


def _normal(P: Any) -> Any:
    """The vector area of a polygon (k, 3)."""
    x = P - P[0]
    after = x[np.roll(np.arange(P.shape[0]), -1)]
    total = np.cross(x[1], after[1])
    for i in range(2, P.shape[0] - 1):
        total = total + np.cross(x[i], after[i])
    return total


def _height(P: Any, points: Any) -> Any:
    """The heights of the plane of a polygon at points."""
    m = _normal(P)
    there = np.abs(m[2]) > 1e-6 * np.sqrt(m @ m)
    slope = m[:2] / np.where(there, m[2], 1.0)
    d = points - P[0]
    flat = P[0, 2] - d[:, 0] * slope[0] - d[:, 1] * slope[1]
    return np.where(there, flat, P[0, 2])


def _is_over(points: Any, P: Any, near: Any) -> Any:
    """Whether points are over a polygon, up to a distance."""
    k = P.shape[0]
    area = _normal(P)[2]
    sign = np.where(area < 0.0, -1.0, 1.0)
    there: Any = True
    around: Any = 0.0
    for i in range(k):
        e = P[(i + 1) % k] - P[i]
        side = e[0] * (points[:, 1] - P[i, 1]) - e[1] * (points[:, 0] - P[i, 0])
        there = there & (sign * side >= -near * (np.abs(e[0]) + np.abs(e[1])))
        around = around + e @ e
    return there & (np.abs(area) > _EDGE_ON * around)


# ---- the search as a call ------------------------------------------------------------------------


def nearest(kinds: Kinds, pair: Relative) -> tuple[Any, Any, Any]:
    """The direction n in the axes of a, a point of a, and one of b in its own axes."""
    found: Any
    callee = _search_of(kinds, (len(pair.p_a), len(pair.p_b)))
    if any(isinstance(x, Traced) for x in pair):
        found = [Traced(x) for x in call(callee, *(as_node(x) for x in pair))]
    else:
        found = callee.arrays(*pair)
    return found[0], found[1], found[2]


@cache
def _search_of(kinds: Kinds, sizes: tuple[int, int]) -> _Nearest:
    return _Nearest(kinds, sizes)


_INPUTS = ("p_a", "p_b", "Q", "t")


@final
class _Nearest(Callee):
    """The best direction of two shapes, and where they are nearest, in the axes of a and of b.

    The derivative of the direction is that of Newton's step, since the step is zero there. The
    points are fixed in their shapes.
    """

    shapes = ((3,), (3,), (3,))
    takes_views = True

    def __init__(self, kinds: Kinds, sizes: tuple[int, int]) -> None:
        self._kinds = kinds
        shapes = (sizes[:1], sizes[1:], (3, 3), (3,))
        self._inputs = [ops.given(*one) for one in zip(_INPUTS, shapes, strict=True)]
        pair = Relative(*(Traced(x) for x in self._inputs))
        given = given_numbers(kinds, pair)
        n, a, b = best_direction(kinds, pair, given)
        if any(kind in CURVED for kind in kinds):
            n = improved(kinds, pair, given, n)
        results = [as_node(x) for x in (n, a, (b - pair.t) @ pair.Q)]
        self._graph = GraphCall(results, _INPUTS)
        self.key, self.name = self._graph.key, f"nearest by {self._graph.name}"

    def arrays(self, *args: Array) -> Sequence[Array]:
        """On arrays."""
        return self._graph.arrays(*args)

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """The same, in lanes."""
        return self._graph.write(code, args)

    def pushed(self, args: tuple[Node, ...], along: Sequence[Node | None]) -> Node:
        """The tangent of the direction; the points stay."""
        rates = [ops.given(f"rate_{name}", x.shape) for name, x in zip(_INPUTS, args, strict=True)]
        (found,) = tangents([self._step], dict(zip(self._inputs, rates, strict=True)))
        assert found is not None
        zero = ops.constant(np.zeros(3))
        names = [*_INPUTS, "n", *(f"rate_{name}" for name in _INPUTS)]
        known = [
            ops.constant(np.zeros(x.shape)) if dx is None else dx
            for x, dx in zip(args, along, strict=True)
        ]
        n = call(self, *args)[0]
        return call(GraphCall([found, zero, zero], names), *args, n, *known)[0].args[0]

    def pull(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """Of the direction only."""
        if weights[0] is None:
            return [None] * len(args)
        weight = ops.given("weight", (3,))
        bars = adjoints([self._step], [weight], self._inputs)
        known = [x for x in bars if x is not None]
        inputs = [*self._inputs, ops.given("n", (3,)), weight]
        values = dict(zip(inputs, [*args, results[0], weights[0]], strict=True))
        found = iter(substituted(known, values))
        return [None if x is None else next(found) for x in bars]

    @property
    def _step(self) -> Node:
        """Newton's step at a direction "n": zero there, and it changes as the direction does."""
        pair = Relative(*(Traced(x) for x in self._inputs))
        scale = given_numbers(self._kinds, pair)[-1]
        return as_node(newton_step(self._kinds, pair, Traced(ops.given("n", (3,))), scale))
