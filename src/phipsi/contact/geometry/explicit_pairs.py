"""Contacts by explicit formulas: shapes on a plane; spheres and capsules, a, with simple shapes.

**On a plane**, b, z of its frame is its outward normal. The normal of every slot is the plane's.
Points of the shape are its lowest ones: of a box the four lowest corners, of a cylinder points on
its rims, of a mesh vertices.

**A sphere** has one point with spheres, capsules, cylinders and boxes; where its centre is inside
the other shape, the normal is that of its nearest face.

**A capsule** that lies along a capsule or a box has a line of contact: both its ends are slots. A
third slot has the place where they cross.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phipsi.contact.geometry.placed_shapes import (
    INACTIVE,
    ContactCandidate,
    Placed,
    Points,
    Weighted,
    between_balls,
    chosen,
    nearest_on_axis,
    one_of_three,
    reduce_to_four,
    unit,
    weighted,
)
from phipsi.core.arrays import Array

# the signs of a box's corners at one end of every diagonal
_DIAGONALS = np.array([[1, 1, 1], [-1, 1, 1], [1, -1, 1], [1, 1, -1]], dtype=float)
_X = np.array([1.0, 0.0])
_BAND = 0.05  # of the size of a mesh: how much higher than the lowest a contact point may be
_LEVEL = 0.02  # rad: a cylinder that gives and leans by less stands level
_THIRDS = np.array([[0.5, 0.75**0.5], [-1.0, 0.0], [0.5, -(0.75**0.5)]])


def _below(point: Array, plane: Placed) -> ContactCandidate:
    """The contact of a point of a with a plane."""
    n = plane.R[:, 2]
    gap = n @ (point - plane.x)
    return ContactCandidate(gap, n, point, point - gap * n)


def sphere_plane(a: Placed, b: Placed) -> list[ContactCandidate]:
    """The lowest point."""
    return [_below(a.x - a.p[0] * b.R[:, 2], b)]


def capsule_plane(a: Placed, b: Placed) -> list[ContactCandidate]:
    """The lowest points of both ends."""
    r, half = a.p[0], a.p[1]
    return [_below(a.x + s * half * a.R[:, 2] - r * b.R[:, 2], b) for s in (1.0, -1.0)]


def box_plane(a: Placed, b: Placed) -> list[ContactCandidate]:
    """The four lowest corners: of every diagonal, the lower end.

    A corner belongs to one diagonal, so that it keeps its slot whatever face is below.
    """
    return [_below(corner, b) for corner in low_corners(a, b.R[:, 2])]


def low_corners(a: Placed, n: Array) -> list[Array]:
    """The four corners of a box that are lowest along n."""
    down, arms = a.R.T @ n, [signs * a.p for signs in _DIAGONALS]
    return [a.x + a.R @ (np.where(arm @ down > 0.0, -1.0, 1.0) * arm) for arm in arms]


def ellipsoid_plane(a: Placed, b: Placed) -> list[ContactCandidate]:
    """The lowest point x − R S² R* n/|S R* n|."""
    s = a.p * (a.R.T @ b.R[:, 2])
    return [_below(a.x - a.R @ (a.p * s / np.sqrt(s @ s)), b)]


def cylinder_plane(
    a: Placed, b: Placed, gives: bool = False
) -> list[ContactCandidate] | list[Weighted]:
    """The lowest points of both rims, and three points fixed on the lower rim, a third turn apart.

    A cylinder that lies on the plane touches it with the first two, one that stands with the
    lowest and the fixed points of one rim; `gives`, whether slots have weights.
    """
    n = b.R[:, 2]
    slots = [_below(point, b) for point in rim_points(a, n)]
    if not gives:
        return slots
    return [weighted(slot, w) for slot, w in zip(slots, rim_weights(a, n), strict=True)]


def rim_points(a: Placed, n: Any) -> list[Any]:
    """The lowest points along n of both rims of a cylinder, and three fixed on the lower one."""
    r, half = a.p[0], a.p[1]
    down = a.R.T @ n
    u, _ = unit(-down[:2], _X)
    low = np.where(down[2] > 0.0, -half, half)
    places = [(u, half), (u, -half), *((e, low) for e in _THIRDS)]
    return [a.x + a.R @ np.stack([r * e[0], r * e[1], z]) for e, z in places]


def rim_weights(a: Placed, n: Any) -> list[Any]:
    """Weights of `rim_points` for springs: 4 together of a rim that stands level, 2 of a side.

    The lowest point of a rim changes sides where a cylinder that stands is level. Its weight is 0
    there, so that springs do not jump, and 1 from `_LEVEL` on; the fixed points have the rest. They
    fade with cos² of the angle between axis and normal: a cylinder that rolls does not feel them.
    """
    down = a.R.T @ n
    lowest = np.minimum(np.sqrt(down[:2] @ down[:2]) / _LEVEL, 1.0)
    fixed = (4.0 - lowest) / 3.0 * (down[2] * down[2])
    return [lowest, lowest, fixed, fixed, fixed]


def mesh_plane(a: Placed, b: Placed) -> list[ContactCandidate]:
    """The lowest vertex, and of those that are little higher the widest three."""
    n, slots = b.R[:, 2], []
    for p, below in lowest_vertices(a, b):
        gap = np.where(p.there, p.w, INACTIVE)
        slots.append(ContactCandidate(gap, n, below + p.w * n, below))
    return slots


def corners_plane(a: Placed, b: Placed) -> list[ContactCandidate]:
    """Every vertex of a mesh, in its own slot."""
    return [_below(a.x + a.R @ vertex, b) for vertex in a.p.reshape(-1, 3)]


def lowest_vertices(a: Placed, b: Placed) -> list[tuple[Points, Any]]:
    """Four low vertices of a mesh along z of b, and the points below them in its plane."""
    vertices = a.p.reshape(-1, 3)
    u, v, n = b.R[:, 0], b.R[:, 1], b.R[:, 2]
    d = a.x - b.x
    x, y, w = (vertices @ (a.R.T @ axis) + axis @ d for axis in (u, v, n))
    low = np.min(w)
    size = np.sqrt(np.max(np.sum(vertices * vertices, axis=1)))
    chosen = reduce_to_four(Points(x, y, w, w <= low + _BAND * size))
    return [(p, b.x + p.u * u + p.v * v) for p in chosen]


# ---- spheres -------------------------------------------------------------------------------------


def sphere_sphere(a: Placed, b: Placed) -> list[ContactCandidate]:
    """On the line of the centres."""
    return [between_balls(a.x, a.p[0], b.x, b.p[0], b.R[:, 2])]


def sphere_capsule(a: Placed, b: Placed) -> list[ContactCandidate]:
    """The ball of the capsule that is nearest; across its axis if the centre is on it."""
    return [between_balls(a.x, a.p[0], nearest_on_axis(a.x, b), b.p[0], b.R[:, 0])]


def sphere_box(a: Placed, b: Placed) -> list[ContactCandidate]:
    """The nearest point of the box, on its nearest face from inside."""
    x, r, h = a.x, a.p[0], b.p
    p = b.R.T @ (x - b.x)
    near = np.clip(p, -h, h)
    depth = h - np.abs(p)
    side = np.where(p < 0.0, -1.0, 1.0)
    face = one_of_three(-depth)
    n, distance = unit(p - near, side * face)
    inside = distance <= 0.0
    normal = b.R @ n
    x_b = b.x + b.R @ np.where(inside, near + face * (side * h - near), near)
    gap = np.where(inside, -(face @ depth), distance) - r
    return [ContactCandidate(gap, normal, x - r * normal, x_b)]


def sphere_cylinder(a: Placed, b: Placed) -> list[ContactCandidate]:
    """In the plane of the axis and the centre: the nearest point of a rectangle."""
    p, r, half = b.R.T @ (a.x - b.x), b.p[0], b.p[1]
    e, rho = unit(p[:2], _X)
    far, near_z = np.minimum(rho, r), np.clip(p[2], -half, half)
    side = np.where(p[2] < 0.0, -1.0, 1.0)
    mantle = r - rho <= half - np.abs(p[2])
    depth = np.minimum(r - rho, half - np.abs(p[2]))
    flat = np.stack([1.0 * mantle, side * ~mantle])
    n, distance = unit(np.stack([rho - far, p[2] - near_z]), flat)
    inside = distance <= 0.0
    on = np.stack(
        [np.where(inside & mantle, r, far), np.where(inside & ~mantle, side * half, near_z)]
    )
    normal = b.R @ np.stack([n[0] * e[0], n[0] * e[1], n[1]])
    x_b = b.x + b.R @ np.stack([on[0] * e[0], on[0] * e[1], on[1]])
    gap = np.where(inside, -depth, distance) - a.p[0]
    return [ContactCandidate(gap, normal, a.x - a.p[0] * normal, x_b)]


# ---- capsules ------------------------------------------------------------------------------------


_PARALLEL = 1e-10  # sin² of the angle below which two axes do not cross


def _only(slot: ContactCandidate, there: Array) -> ContactCandidate:
    """The slot, inactive where a condition does not hold."""
    return slot._replace(gap=np.where(there, slot.gap, INACTIVE))


def capsule_capsule(a: Placed, b: Placed) -> list[ContactCandidate]:
    """The ends of the stretch along which the axes lie over each other, and where they cross.

    Seen along a's axis, each end of the stretch is an end of a or of b, and the contact is that of
    the end with the nearest point of the other axis. The smallest gap is the distance.
    """
    (r_a, half_a), (r_b, half_b) = (a.p[0], a.p[1]), (b.p[0], b.p[1])
    u, w, d = a.R[:, 2], b.R[:, 2], a.x - b.x
    c, along_a, along_b = u @ w, d @ u, d @ w
    flip = np.where(c < 0.0, -1.0, 1.0)
    across, _ = unit(np.cross(u, w), a.R[:, 0])

    def contact(s: Array, t: Array) -> ContactCandidate:
        return between_balls(a.x + s * u, r_a, b.x + t * w, r_b, across)

    reach = half_b * np.abs(c)
    low, high = -along_a - reach, -along_a + reach  # the ends of b along a
    t_low = np.where(low > -half_a, -flip * half_b, np.clip(along_b - half_a * c, -half_b, half_b))
    t_high = np.where(high < half_a, flip * half_b, np.clip(along_b + half_a * c, -half_b, half_b))
    square = 1.0 - c * c
    crosses = square > _PARALLEL
    s = (c * along_b - along_a) / np.where(crosses, square, 1.0)
    t = along_b + s * c
    inner = crosses & (np.abs(s) < half_a) & (np.abs(t) < half_b)
    s, t = np.clip(s, -half_a, half_a), np.clip(t, -half_b, half_b)
    return [
        _only(contact(np.clip(low, -half_a, half_a), t_low), low < half_a),
        _only(contact(np.clip(high, -half_a, half_a), t_high), high > -half_a),
        _only(contact(s, t), inner),
    ]


# ---- capsules and boxes --------------------------------------------------------------------------


def capsule_box(a: Placed, b: Placed) -> list[ContactCandidate]:
    """Both ends of the stretch of the axis over a face of the box, and its nearest point.

    Where the axis itself passes through the box, the last slot alone has the way out. Over an edge
    of the face, the rate of the gap is the normal row only if the axis is parallel to the face.
    """
    (r, half), h = (a.p[0], a.p[1]), b.p
    p, d = b.R.T @ (a.x - b.x), b.R.T @ a.R[:, 2]
    t = _nearest_on_line(p, d, half, h)
    out = p + t * d - np.clip(p + t * d, -h, h)
    is_out = out @ out > 1e-24
    size = np.abs(out)
    face = one_of_three(size)
    side = np.where(face @ out < 0.0, -1.0, 1.0)
    low, high = _over_face(p, d, half, h, face)
    over = is_out & (low < high)
    normal = side * face

    def on_face(s: Any) -> ContactCandidate:
        point = p + s * d
        gap = side * (face @ point) - face @ h - r
        return _in_world(
            b, ContactCandidate(gap, normal, point - r * normal, point - (gap + r) * normal)
        )

    n, distance = unit(out, normal)
    point = p + t * d
    nearest = _in_world(b, ContactCandidate(distance - r, n, point - r * n, point - distance * n))
    inside = _in_world(b, _deepest_direction(p, d, r, half, h, t))
    last = chosen(is_out, nearest, inside)
    apart = ~over | (t < low) | (t > high)
    return [_only(on_face(low), over), _only(on_face(high), over), _only(last, apart)]


def _in_world(b: Placed, slot: ContactCandidate) -> ContactCandidate:
    """A slot that was found in the axes of b."""
    gap, n, x_a, x_b = slot
    return ContactCandidate(gap, b.R @ n, b.x + b.R @ x_a, b.x + b.R @ x_b)


def _nearest_on_line(p: Any, d: Any, half: Any, h: Any) -> Any:
    """Where |t| ≤ half makes the distance of p + t d from a box least.

    The slope of its square is piecewise linear and never falls: it is zero between the last knot
    with a slope ≤ 0 and the first with one ≥ 0.
    """
    steep = np.abs(d) > 1e-12
    inverse = 1.0 / np.where(steep, d, 1.0)
    below, above = (np.where(steep, (s * h - p) * inverse, 0.0) for s in (-1.0, 1.0))
    knots = [np.clip(x[i], -half, half) for x in (below, above) for i in range(3)]
    first: Any = half
    last: Any = -half
    slope_first: Any = _slope(p, d, half, h)
    slope_last: Any = _slope(p, d, -half, h)
    at_end, at_start = slope_first < 0.0, slope_last > 0.0
    for knot in knots:
        slope = _slope(p, d, knot, h)
        later = (slope <= 0.0) & (knot > last)
        last, slope_last = np.where(later, knot, last), np.where(later, slope, slope_last)
        sooner = (slope >= 0.0) & (knot < first)
        first, slope_first = np.where(sooner, knot, first), np.where(sooner, slope, slope_first)
    rise = slope_first - slope_last
    part = -slope_last / np.where(rise > 0.0, rise, 1.0)
    between = np.where(first <= last, 0.5 * (first + last), last + part * (first - last))
    return np.where(at_start, -half, np.where(at_end, half, between))


def _slope(p: Any, d: Any, t: Any, h: Any) -> Any:
    x = p + t * d
    return d @ (x - np.clip(x, -h, h))


def _over_face(p: Any, d: Any, half: Any, h: Any, face: Any) -> tuple[Any, Any]:
    """The stretch of p + t d, |t| ≤ half, between the sides of a box around one of its faces."""
    low, high = -half, half
    for i in range(3):
        steep = np.abs(d[i]) > 1e-9
        inverse = 1.0 / np.where(steep, d[i], 1.0)
        middle, width = -p[i] * inverse, h[i] * np.abs(inverse)
        misses = np.where(np.abs(p[i]) <= h[i], half, -half)  # along the side, in or out
        own = face[i] > 0.0
        low = np.where(own, low, np.maximum(low, np.where(steep, middle - width, -misses)))
        high = np.where(own, high, np.minimum(high, np.where(steep, middle + width, misses)))
    return low, high


def _deepest_direction(p: Any, d: Any, r: Any, half: Any, h: Any, t: Any) -> ContactCandidate:
    """The shortest way out of a box for a capsule whose axis passes through it."""
    best: Any = -INACTIVE
    n: Any = np.array([0.0, 0.0, 1.0])
    for i in range(3):
        e = np.eye(3)[i]
        square = 1.0 - d[i] * d[i]
        crosses = square > _PARALLEL
        across = np.cross(e, d) / np.sqrt(np.where(crosses, square, 1.0))
        for axis, reach, good in ((e, half * np.abs(d[i]), True), (across, 0.0, crosses)):
            away = axis @ p
            separation = np.abs(away) - reach - np.abs(axis) @ h
            better = good & (separation > best)
            best = np.where(better, separation, best)
            n = np.where(better, np.where(away < 0.0, -axis, axis), n)
    along = n @ d
    end = np.where(np.abs(along) > 1e-9, np.where(along > 0.0, -half, half), t)
    point = p + end * d
    gap = best - r
    return ContactCandidate(gap, n, point - r * n, point - best * n)
