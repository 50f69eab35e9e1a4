"""Contacts of shapes with a plane: b, z of its frame is its outward normal.

The normal of every slot is the plane's. Points of the shape are its lowest ones: of a box the four
lowest corners, of a cylinder points on its rims, of a mesh vertices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phipsi.contact.geometry.contact_patch import Points, four_of
from phipsi.contact.geometry.placed_shapes import INACTIVE, Placed, Slot, Weighted, unit, weighted

DIAGONALS = np.array([[1, 1, 1], [-1, 1, 1], [1, -1, 1], [1, 1, -1]], dtype=float)
"""The signs of a box's corners at one end of every diagonal."""
_X = np.array([1.0, 0.0])
_BAND = 0.05  # of the size of a mesh: how much higher than the lowest a contact point may be
_LEVEL = 0.02  # rad: a cylinder that gives and leans by less stands level
_THIRDS = np.array([[0.5, 0.75**0.5], [-1.0, 0.0], [0.5, -(0.75**0.5)]])


def _below(point: Any, plane: Placed) -> Slot:
    """The contact of a point of a with a plane."""
    n = plane.R[:, 2]
    gap = n @ (point - plane.x)
    return Slot(gap, n, point, point - gap * n)


def sphere_plane(a: Placed, b: Placed) -> list[Slot]:
    """The lowest point."""
    return [_below(a.x - a.p[0] * b.R[:, 2], b)]


def capsule_plane(a: Placed, b: Placed) -> list[Slot]:
    """The lowest points of both ends."""
    r, half = a.p[0], a.p[1]
    return [_below(a.x + s * half * a.R[:, 2] - r * b.R[:, 2], b) for s in (1.0, -1.0)]


def box_plane(a: Placed, b: Placed) -> list[Slot]:
    """The four lowest corners: of every diagonal, the lower end.

    A corner belongs to one diagonal, so that it keeps its slot whatever face is below.
    """
    n = b.R[:, 2]
    down = a.R.T @ n
    slots = []
    for signs in DIAGONALS:
        arm = signs * a.p
        side = np.where(arm @ down > 0.0, -1.0, 1.0)
        slots.append(_below(a.x + a.R @ (side * arm), b))
    return slots


def ellipsoid_plane(a: Placed, b: Placed) -> list[Slot]:
    """The lowest point x − R S² R* n/|S R* n|."""
    s = a.p * (a.R.T @ b.R[:, 2])
    return [_below(a.x - a.R @ (a.p * s / np.sqrt(s @ s)), b)]


def cylinder_plane(a: Placed, b: Placed, gives: bool = False) -> list[Slot] | list[Weighted]:
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


def mesh_plane(a: Placed, b: Placed) -> list[Slot]:
    """The lowest vertex, and of those that are little higher the widest three."""
    n, slots = b.R[:, 2], []
    for p, below in lowest_vertices(a, b):
        gap = np.where(p.there, p.w, INACTIVE)
        slots.append(Slot(gap, n, below + p.w * n, below))
    return slots


def corners_plane(a: Placed, b: Placed) -> list[Slot]:
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
    chosen = four_of(Points(x, y, w, w <= low + _BAND * size))
    return [(p, b.x + p.u * u + p.v * v) for p in chosen]
