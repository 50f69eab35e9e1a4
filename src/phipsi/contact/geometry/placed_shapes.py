"""Shapes at their poses, contact points, and the vectors that formulas of pairs are written with.

Formulas are written for one configuration in NumPy's arithmetic without branches on numbers, so
that they can be traced: the same lines run on arrays, in lanes, and have derivatives.

Of many points of a contact, four are taken: the deepest, and the widest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from phipsi.core.arrays import Array

INACTIVE = 1e6
"""The gap (m) of a slot without a contact; its points and its normal are finite all the same."""
_SHORT = 1e-30  # m²; a vector with a smaller square has no direction


class Placed(NamedTuple):
    """A shape in the world.

    `p`, its numbers (`Shape.numbers`); `R` (3, 3), its axes; `x` (3,), the origin of its frame;
    `shape`, for formulas that need more than its numbers.
    """

    p: Any
    R: Any
    x: Any
    shape: Any = None


class ContactCandidate(NamedTuple):
    """A contact point: `gap`, and unit `normal` from b to a, `x_a` and `x_b` (3,), world axes.

    gap = normal · (x_a − x_b), negative where the shapes overlap.
    """

    gap: Any
    normal: Any
    x_a: Any
    x_b: Any


class Weighted(NamedTuple):
    """A contact point of shapes that give, whose stiffness is `weight` times that of the pair."""

    gap: Any
    normal: Any
    x_a: Any
    x_b: Any
    weight: Any


LEAST_WEIGHT = 1e-9
"""What has less has no spring."""


def weighted(slot: ContactCandidate, weight: Any) -> Weighted:
    """The contact of a slot with a weight, or none."""
    there = weight > LEAST_WEIGHT
    gap = np.where(there, slot.gap, INACTIVE)
    return Weighted(gap, *slot[1:], np.where(there, weight, 1.0))


Formula = Callable[[Placed, Placed], Sequence[ContactCandidate | Weighted]]


def unit(d: Array, otherwise: Array) -> tuple[Any, Any]:
    """The direction of a vector and its length; `otherwise` if it has no direction."""
    square = d @ d
    there = square > _SHORT
    length = np.sqrt(np.where(there, square, 1.0))
    return np.where(there, d / length, otherwise), np.where(there, length, 0.0)


def across(n: Array) -> tuple[Any, Any]:
    """Two unit vectors at right angles to n and to each other (Duff et al. 2017)."""
    sign = np.where(n[2] >= 0.0, 1.0, -1.0)
    c = -1.0 / (sign + n[2])
    d = n[0] * n[1] * c
    u = np.stack([1.0 + sign * n[0] * n[0] * c, sign * d, -sign * n[0]])
    v = np.stack([d, sign + n[1] * n[1] * c, -n[1]])
    return u, v


def between_balls(
    x_a: Array, r_a: Array, x_b: Array, r_b: Array, otherwise: Array
) -> ContactCandidate:
    """The contact of two balls about points; `otherwise` is the normal if these coincide."""
    n, distance = unit(x_a - x_b, otherwise)
    return ContactCandidate(distance - r_a - r_b, n, x_a - r_a * n, x_b + r_b * n)


def chosen(condition: Array, x: Any, y: Any) -> Any:
    """Of two slots, or other tuples with names, the first where a condition holds."""
    return type(x)(*(np.where(condition, p, q) for p, q in zip(x, y, strict=True)))


def largest_of_three(x: Any) -> tuple[Any, Any, Any]:
    """For each of three numbers whether it is the largest, the first one of several."""
    first = (x[0] >= x[1]) & (x[0] >= x[2])
    second = ~first & (x[1] >= x[2])
    return first, second, ~(first | second)


def one_of_three(x: Array) -> Array:
    """1 at the largest of three numbers, at the first of several, and 0 at the others."""
    return np.stack([1.0 * is_it for is_it in largest_of_three(x)])


_PARALLEL = 1e-8  # sin² of the angle below which lines have no common normal


def common_normal(
    w: Array, e: Array, d: Array, parallel: float = _PARALLEL
) -> tuple[Any, Any, Any, Any]:
    """The common normal of lines w + s e and t d, upwards; s and t of their nearest points.

    The last is whether there is one.
    """
    m = np.cross(d, e)
    square = m @ m
    good = square > parallel * ((d @ d) * (e @ e))
    inverse = 1.0 / np.where(good, square, 1.0)
    s = (m @ np.cross(w, d)) * inverse
    t = (m @ np.cross(w, e)) * inverse
    n = m * np.sqrt(inverse) * np.where(m[2] < 0.0, -1.0, 1.0)
    return n, s, t, good


def nearest_on_axis(point: Array, b: Placed) -> Array:
    """The point of a capsule's segment that is nearest to a point; its numbers are (r, l/2)."""
    z = b.R[:, 2]
    return b.x + np.clip((point - b.x) @ z, -b.p[1], b.p[1]) * z


# ---- four of many points -------------------------------------------------------------------------


_SLOPE = 1e-6  # slope below which a contact is flat, and its first point is chosen by place
_THIN = 1e-9  # of a squared length: areas below it are none
_LEFT = 0.999  # of two points equally far from a line, the one on its left is taken
_AT = np.array([0.8, 0.6])  # where the first point of a flat contact is


class Points(NamedTuple):
    """Points over a face or a plane: `u`, `v` in it, height `w`, and whether each is there.

    `z` is a further number of each, if it is given.
    """

    u: Any
    v: Any
    w: Any
    there: Any
    z: Any = None


def reduce_to_four(points: Points) -> list[Points]:
    """The deepest point, the farthest from it, from their line, and from the triangle of the three.

    Those that do not exist are not `there`.
    """
    u, v, w = points[:3]
    first = _best(points, _SLOPE * (_AT[0] * u + _AT[1] * v) - w, -INACTIVE)
    x, y = u - first.u, v - first.v
    second = _best(points, x * x + y * y, 0.0)
    dx, dy = second.u - first.u, second.v - first.v
    area = dx * y - dy * x
    least = _THIN * (dx * dx + dy * dy)
    third = _best(points, np.where(area > 0.0, area, -_LEFT * area), least)
    ex, ey = third.u - first.u, third.v - first.v
    turn = np.where(dx * ey - dy * ex < 0.0, 1.0, -1.0)  # areas outside the triangle are positive
    sides = [area, (ex - dx) * (y - dy) - (ey - dy) * (x - dx), ey * x - ex * y]
    outside = np.maximum(np.maximum(turn * sides[0], turn * sides[1]), turn * sides[2])
    fourth = _best(points, outside, least)
    fourth = fourth._replace(there=fourth.there & third.there)
    return [first, *(p._replace(there=p.there & first.there) for p in (second, third, fourth))]


def _best(points: Points, score: Array, least: Any) -> Points:
    """The point with the largest score; `there` says whether one has more than `least`."""
    listed = [points.u, points.v, points.w, *([] if points.z is None else [points.z])]
    found = [x[0] for x in listed]
    best: Any = np.where(points.there[0], score[0], least)
    for i in range(1, len(score)):
        better = points.there[i] & (score[i] > best)
        found = [np.where(better, new[i], old) for new, old in zip(listed, found, strict=True)]
        best = np.where(better, score[i], best)
    u, v, w, *z = found
    return Points(u, v, w, best > least, *z)
