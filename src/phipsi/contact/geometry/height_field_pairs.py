"""Contacts of corners with a height field, b: with the plane of the triangle below each.

Beside the field there is no contact. Edges and faces of cylinders and meshes do not touch ridges
and peaks of the field between their corners; `Contacts` warns of such fields.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phipsi.contact.geometry.field_cells import below
from phipsi.contact.geometry.placed_shapes import INACTIVE, Placed, Slot
from phipsi.contact.geometry.plane_pairs import lowest_vertices, rim_points


def cylinder_field(a: Placed, b: Placed) -> list[Slot]:
    """The lowest points of both rims, and three fixed on the lower rim."""
    return [corner_slot(x, b)[0] for x in rim_points(a, b.R[:, 2])]


def mesh_field(a: Placed, b: Placed) -> list[Slot]:
    """The lowest vertex, and of those that are little higher the widest three."""
    slots = []
    for p, under in lowest_vertices(a, b):
        slot, _ = corner_slot(under + p.w * b.R[:, 2], b)
        slots.append(slot._replace(gap=np.where(p.there, slot.gap, INACTIVE)))
    return slots


def corner_slot(x: Any, b: Placed) -> tuple[Slot, Any]:
    """The contact of a corner at x, world axes, and its normal in the field's axes."""
    p = b.R.T @ (x - b.x)
    under = below(p, b)
    gap = under.normal @ (p - under.point)
    normal = b.R @ under.normal
    slot = Slot(np.where(under.there, gap, INACTIVE), normal, x, x - gap * normal)
    return slot, under.normal
