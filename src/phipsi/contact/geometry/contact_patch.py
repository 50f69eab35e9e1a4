"""Of many points of a contact, four: the deepest, and the widest."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from phipsi.contact.geometry.placed_shapes import INACTIVE

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


def four_of(points: Points) -> list[Points]:
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


def _best(points: Points, score: Any, least: Any) -> Points:
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
