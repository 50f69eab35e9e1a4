"""Contacts of a sphere, a, with spheres, capsules, cylinders and boxes: one point each.

Where the centre is inside the other shape, the normal is that of its nearest face.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phipsi.contact.geometry.placed_shapes import (
    Placed,
    Slot,
    between_balls,
    nearest_on_axis,
    one_of_three,
    unit,
)

_X = np.array([1.0, 0.0])


def sphere_sphere(a: Placed, b: Placed) -> list[Slot]:
    """On the line of the centres."""
    return [between_balls(a.x, a.p[0], b.x, b.p[0], b.R[:, 2])]


def sphere_capsule(a: Placed, b: Placed) -> list[Slot]:
    """The ball of the capsule that is nearest; across its axis if the centre is on it."""
    return [between_balls(a.x, a.p[0], nearest_on_axis(a.x, b), b.p[0], b.R[:, 0])]


def ball_box(x: Any, r: Any, b: Placed) -> Slot:
    """The contact of a ball about x with a box."""
    p, h = b.R.T @ (x - b.x), b.p
    near = np.clip(p, -h, h)
    depth = h - np.abs(p)
    side = np.where(p < 0.0, -1.0, 1.0)
    face = one_of_three(depth)
    n, distance = unit(p - near, side * face)
    inside = distance <= 0.0
    normal = b.R @ n
    x_b = b.x + b.R @ np.where(inside, near + face * (side * h - near), near)
    gap = np.where(inside, -(face @ depth), distance) - r
    return Slot(gap, normal, x - r * normal, x_b)


def sphere_box(a: Placed, b: Placed) -> list[Slot]:
    """The nearest point of the box, on its nearest face from inside."""
    return [ball_box(a.x, a.p[0], b)]


def sphere_cylinder(a: Placed, b: Placed) -> list[Slot]:
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
    return [Slot(gap, normal, a.x - a.p[0] * normal, x_b)]
