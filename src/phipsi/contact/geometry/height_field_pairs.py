"""Contacts of corners with a height field, b: with the plane of the triangle below each.

Beside the field there is no contact. Edges and faces of a body do not touch ridges and peaks of the
field between its corners.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phipsi.contact.geometry.field_cells import below
from phipsi.contact.geometry.placed_shapes import INACTIVE, Placed, Slot
from phipsi.contact.geometry.plane_pairs import DIAGONALS, lowest_vertices, rim_points


def box_field(a: Placed, b: Placed) -> list[Slot]:
    """The four lowest corners, one of every diagonal."""
    down = a.R.T @ b.R[:, 2]
    slots = []
    for signs in DIAGONALS:
        arm = signs * a.p
        slots.append(_corner(a.x + a.R @ np.where(arm @ down > 0.0, -arm, arm), b))
    return slots


def cylinder_field(a: Placed, b: Placed) -> list[Slot]:
    """The lowest points of both rims, and three fixed on the lower rim."""
    return [_corner(x, b) for x in rim_points(a, b.R[:, 2])]


def mesh_field(a: Placed, b: Placed) -> list[Slot]:
    """The lowest vertex, and of those that are little higher the widest three."""
    slots = []
    for p, under in lowest_vertices(a, b):
        slot = _corner(under + p.w * b.R[:, 2], b)
        slots.append(slot._replace(gap=np.where(p.there, slot.gap, INACTIVE)))
    return slots


def _corner(x: Any, b: Placed) -> Slot:
    p = b.R.T @ (x - b.x)
    under = below(p, b)
    gap = under.normal @ (p - under.point)
    normal = b.R @ under.normal
    return Slot(np.where(under.there, gap, INACTIVE), normal, x, x - gap * normal)
