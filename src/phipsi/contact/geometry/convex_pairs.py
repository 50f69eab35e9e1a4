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

from phipsi.contact.geometry.convex_search import (
    Kinds,
    RelativeShapes,
    best_direction,
    given_numbers,
    step_of,
    supports,
)
from phipsi.contact.geometry.convex_shapes import (
    CURVED,
    FLAT,
    FLAT_KINDS,
    curvature,
    face,
    flatness,
    radius,
)
from phipsi.contact.geometry.graph_calls import GraphCall, Repeated, all_called, called
from phipsi.contact.geometry.placed_shapes import (
    INACTIVE,
    ContactCandidate,
    Formula,
    Placed,
    Points,
    across,
    reduce_to_four,
)
from phipsi.core.arrays import (
    Array,
    Node,
    Primitive,
    Tracer,
    adjoints,
    as_node,
    call,
    law_operations as ops,
    substituted,
    tangents,
)

_SAME = 1e-9  # of the size: places and gaps that differ by less are the same
_EDGE_ON = 1e-13  # of squared lengths: a face that is seen from the side covers nothing
_PARALLEL = 1e-12  # of the lengths of two edges: they do not cross


def convex_pair(kinds: Kinds) -> Formula:
    """The formula for shapes of two kinds."""
    ends = 2 if "Capsule" in kinds else 4
    has_faces = all(kind in FLAT_KINDS for kind in kinds)

    def slots(a: Placed, b: Placed) -> list[ContactCandidate]:
        pair = RelativeShapes(a.p, b.p, a.R.T @ b.R, a.R.T @ (b.x - a.x))
        n, x, y = nearest(kinds, pair)
        r_a, r_b = (radius(kind, p) for kind, p in zip(kinds, (a.p, b.p), strict=True))
        f, x = witness_point(kinds, pair, n, x, pair.t + pair.Q @ y)
        scale = given_numbers(kinds, pair)[-1]
        normal = a.R @ n

        def slot(place: Any, gap: Any, active: Any) -> ContactCandidate:
            """Of a point of the core of a."""
            x_a = a.x + a.R @ place - r_a * normal
            gap = gap - r_a - r_b
            return ContactCandidate(
                np.where(active, gap, INACTIVE), normal, x_a, x_a - gap * normal
            )

        if not has_faces:
            return [slot(x, f, f < INACTIVE)]
        points, axes = _polygon(kinds, pair, n, f, scale)
        chosen = reduce_to_four(points)[:ends]
        u, v = axes
        out = [slot(p.u * u + p.v * v + p.z * n, p.w, p.there) for p in chosen]
        lowest: Any = INACTIVE  # of a flat contact, not the first
        for p in chosen:
            lowest = np.minimum(lowest, np.where(p.there, p.w, INACTIVE))
        return [*out, slot(x, f, lowest > f + _SAME * scale)]

    return slots


# ---- faces over each other -----------------------------------------------------------------------


def _polygon(
    kinds: Kinds, pair: RelativeShapes, n: Any, f: Any, scale: Any
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
    groups.append(Points(P[:, 0], P[:, 1], gap, is_over(P, Q, near), P[:, 2]))
    gap = np.maximum(_height(P, Q) - Q[:, 2], f)
    groups.append(Points(Q[:, 0], Q[:, 1], gap, is_over(Q, P, near), Q[:, 2] + gap))
    after = np.roll(np.arange(m), -1)
    g = Q[after] - Q
    for i in range(k):
        p, e = P[i], P[(i + 1) % k] - P[i]
        s, t, there = crossing((Q - p).T, e, g.T)
        z = p[2] + s * e[2]
        gap = z - (Q[:, 2] + t * g[:, 2])
        groups.append(Points(p[0] + s * e[0], p[1] + s * e[1], gap, there, z))
    parts = [np.concatenate([1.0 * group[i] for group in groups]) for i in range(5)]
    parts[3] = parts[3] > 0.0
    return Points(*parts), (u, v)


def crossing(d: Any, e: Any, f: Any) -> tuple[Any, Any, Any]:
    """Where edges s e and d + t f cross, seen along the third axis: s, t, and whether they do."""
    det = e[0] * f[1] - e[1] * f[0]
    long = (e[0] * e[0] + e[1] * e[1]) * (f[0] * f[0] + f[1] * f[1])
    crosses = det * det > _PARALLEL**2 * long
    inverse = 1.0 / np.where(crosses, det, 1.0)
    s, t = (d[0] * f[1] - d[1] * f[0]) * inverse, (d[0] * e[1] - d[1] * e[0]) * inverse
    return s, t, crosses & (s >= 0.0) & (s <= 1.0) & (t >= 0.0) & (t <= 1.0)


def vector_area(P: Any) -> Any:
    """The vector area of a polygon (k, 3)."""
    x = P - P[0]
    after = x[np.roll(np.arange(P.shape[0]), -1)]
    total = np.cross(x[1], after[1])
    for i in range(2, P.shape[0] - 1):
        total = total + np.cross(x[i], after[i])
    return total


def _height(P: Any, points: Any) -> Any:
    """The heights of the plane of a polygon at points."""
    m = vector_area(P)
    there = np.abs(m[2]) > 1e-6 * np.sqrt(m @ m)
    slope = m[:2] / np.where(there, m[2], 1.0)
    d = points - P[0]
    flat = P[0, 2] - d[:, 0] * slope[0] - d[:, 1] * slope[1]
    return np.where(there, flat, P[0, 2])


def is_over(points: Any, P: Any, near: Any) -> Any:
    """Whether points (m, 3) are over a polygon (k, 3), up to a distance."""
    k = P.shape[0]
    area = vector_area(P)[2]
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


def nearest(kinds: Kinds, pair: RelativeShapes) -> tuple[Any, Any, Any]:
    """The direction n in the axes of a, a point of a, and one of b in its own axes."""
    n, x, y = all_called(_search_of(kinds, (len(pair.p_a), len(pair.p_b))), *pair)
    return n, x, y


@cache
def _search_of(kinds: Kinds, sizes: tuple[int, int]) -> _SeparatingDirection:
    return _SeparatingDirection(kinds, sizes)


_INPUTS = ("p_a", "p_b", "Q", "t")


@final
class _SeparatingDirection(Primitive):
    """The best direction of two shapes, and where they are nearest, in the axes of a and of b.

    The derivative of the direction is that of Newton's step, since the step is zero there. The
    points are fixed in their shapes.
    """

    shapes = ((3,), (3,), (3,))
    takes_views = True

    def __init__(self, kinds: Kinds, sizes: tuple[int, int]) -> None:
        self._kinds = kinds
        shapes = (sizes[:1], sizes[1:], (3, 3), (3,))
        self._inputs = [ops.input(*one) for one in zip(_INPUTS, shapes, strict=True)]
        pair = RelativeShapes(*(Tracer(x) for x in self._inputs))
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

    def jvp(self, args: tuple[Node, ...], along: Sequence[Node | None]) -> Node:
        """The tangent of the direction; the points stay."""
        rates = [ops.input(f"rate_{name}", x.shape) for name, x in zip(_INPUTS, args, strict=True)]
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

    def vjp(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """Of the direction only."""
        if weights[0] is None:
            return [None] * len(args)
        weight = ops.input("weight", (3,))
        bars = adjoints([self._step], [weight], self._inputs)
        known = [x for x in bars if x is not None]
        inputs = [*self._inputs, ops.input("n", (3,)), weight]
        values = dict(zip(inputs, [*args, results[0], weights[0]], strict=True))
        found = iter(substituted(known, values))
        return [None if x is None else next(found) for x in bars]

    @property
    def _step(self) -> Node:
        """Newton's step at a direction "n": zero there, and it changes as the direction does."""
        pair = RelativeShapes(*(Tracer(x) for x in self._inputs))
        scale = given_numbers(self._kinds, pair)[-1]
        return as_node(newton_step(self._kinds, pair, Tracer(ops.input("n", (3,))), scale))


# ---- how the separating direction changes: Newton's step, its derivative -------------------------
#
# At the best direction n, the difference D = a − b of the points that are farthest towards each
# other is f n. With the curvatures H (how these points move with n), the change of n that makes it
# so is (H_a + H_b + f) dn = D − n (n·D). Along faces and edges the points are not unique; there n
# stays across them: F dn = −F n with the projectors F onto flat directions.

_CROSSED = 1e-6  # sin² of the angle between edges that determine the normal
_CORNER = 1e-10  # of the size: the least separation that is divided by
_WITHIN = (0.03, 3e-3, 3e-4, 3e-5, 3e-6, 3e-7)  # rad: how near faces and edges are tried
_STEPS = 16
_SMALL = 1e-12  # rad: the last step
_ROUNDING = 1e-12  # of the size: how much less separation a step may have


def newton_step(kinds: Kinds, pair: RelativeShapes, n: Any, scale: Any, within: Any = FLAT) -> Any:
    """The change of a direction towards the best one (3,), at right angles to it."""
    a, b = supports(kinds, pair, n)
    d = n @ pair.Q
    H = curvature(kinds[0], pair.p_a, -n) + pair.Q @ curvature(kinds[1], pair.p_b, d) @ pair.Q.T
    F_a, F_b = flat_sides(kinds, pair, n, within)
    D, F, one = a - b, F_a + F_b, np.eye(3)
    u, v = across(n)
    sides = (u @ F @ u) * (v @ F @ v) - (u @ F @ v) ** 2
    free = np.where(sides > _CROSSED, 0.0, 1.0)  # 0: faces and edges alone determine n
    S = (one - F_a) @ (one - F_b)
    K = scale * F + free * (S @ H)
    f = n @ D
    f = f + np.where(f < 0.0, -_CORNER, _CORNER) * scale  # corners that touch leave n free
    return solved_across(n, K, free * f, free * (S @ (S @ D)) - scale * (F @ n))


def flat_sides(kinds: Kinds, pair: RelativeShapes, n: Any, within: Any = FLAT) -> tuple[Any, Any]:
    """The projectors onto the flat directions of a and b."""
    F_b = flatness(kinds[1], pair.p_b, n @ pair.Q, within)
    return flatness(kinds[0], pair.p_a, -n, within), pair.Q @ F_b @ pair.Q.T


def solved_across(n: Any, K: Any, more: Any, right: Any) -> Any:
    """The vector x at right angles to n with P (K + more) x = P right."""
    u, v = across(n)
    Ku, Kv = K @ u, K @ v
    k_uu, k_uv, k_vu, k_vv = u @ Ku + more, u @ Kv, v @ Ku, v @ Kv + more
    det = k_uu * k_vv - k_uv * k_vu
    good = np.abs(det) > 1e-14 * (np.abs(k_uu * k_vv) + np.abs(k_uv * k_vu))
    inverse = 1.0 / np.where(good, det, 1.0)
    r_u, r_v = u @ right, v @ right
    x, y = (k_vv * r_u - k_uv * r_v) * inverse, (k_uu * r_v - k_vu * r_u) * inverse
    return np.where(good, x * u + y * v, 0.0 * n)


def improved(kinds: Kinds, pair: RelativeShapes, given: Any, n: Any) -> Any:
    """The direction after some steps, each of which is taken if it separates more.

    Every other step tries faces and edges that are nearly at right angles to n.
    """
    a, b = supports(kinds, pair, n)
    zero = 0.0 * n[0]
    state = np.concatenate([n, np.stack([n @ (a - b), zero, zero])])
    return called(step_of(_improvement, kinds, pair), state, given)[:3]


def _improvement(kinds: Kinds, pair: RelativeShapes, scale: Any) -> Repeated:
    state: Any = Tracer(ops.input("state", (6,)))
    n, f, count = state[:3], state[3], state[4]
    within: Any = FLAT
    for k, angle in enumerate(_WITHIN):
        within = np.where(count == float(2 * k + 1), angle, within)
    change = newton_step(kinds, pair, n, scale, within)
    done = (change @ change < _SMALL**2) & (within <= FLAT)
    new = n + change
    new = new / np.sqrt(new @ new)
    a, b = supports(kinds, pair, new)
    separation = new @ (a - b)
    better = separation >= f - np.where(within <= FLAT, _ROUNDING * scale, 0.0)
    n, f = np.where(better, new, n), np.where(better, separation, f)
    return Repeated(as_node(np.concatenate([n, np.stack([f, count + 1.0, 1.0 * done])])), _STEPS)


def witness_point(kinds: Kinds, pair: RelativeShapes, n: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """The separation along n, and the point of a where the shapes are nearest.

    `a` and `b` are points of the shapes near there, which count along faces and edges only.
    """
    top_a, top_b = supports(kinds, pair, n)
    f = n @ (top_a - top_b)
    F_a, F_b = flat_sides(kinds, pair, n)
    x, y = top_a + F_a @ (a - top_a), top_b + F_b @ (b - top_b)
    off = solved_across(n, F_a + F_b, _LOOSE, x - y)
    return f, x - F_a @ off


_LOOSE = 1e-12
