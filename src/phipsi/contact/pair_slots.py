"""How many slots the pairs of shapes have: contact points that they may have at once."""

from __future__ import annotations

import math
from typing import NamedTuple

from phipsi.attached import (
    Box,
    ConvexMesh,
    Cylinder,
    Ellipsoid,
    HeightField,
    Material,
    Plane,
    Shape,
    Sphere,
    is_round,
    is_surface,
)

# Pairs of kinds that have a formula (phipsi.contact.geometry), and how many slots they have.
SLOTS: dict[tuple[str, str], int] = {
    ("Sphere", "Plane"): 1,
    ("Capsule", "Plane"): 2,
    ("Cylinder", "Plane"): 5,
    ("Ellipsoid", "Plane"): 1,
    ("Box", "Plane"): 4,
    ("ConvexMesh", "Plane"): 4,
    ("Sphere", "Sphere"): 1,
    ("Sphere", "Capsule"): 1,
    ("Sphere", "Cylinder"): 1,
    ("Sphere", "Box"): 1,
    ("Capsule", "Capsule"): 3,
    ("Capsule", "Box"): 3,
    ("Box", "Box"): 5,
    ("Sphere", "HeightField"): 3,
    ("Capsule", "HeightField"): 6,
    ("Cylinder", "HeightField"): 9,
    ("Ellipsoid", "HeightField"): 3,
    ("Box", "HeightField"): 8,
    ("ConvexMesh", "HeightField"): 8,
    ("Sphere", "Ellipsoid"): 1,
    ("Sphere", "ConvexMesh"): 1,
    ("Capsule", "Cylinder"): 3,
    ("Capsule", "Ellipsoid"): 1,
    ("Capsule", "ConvexMesh"): 3,
    ("Cylinder", "Cylinder"): 5,
    ("Cylinder", "Ellipsoid"): 1,
    ("Cylinder", "Box"): 5,
    ("Cylinder", "ConvexMesh"): 5,
    ("Ellipsoid", "Ellipsoid"): 1,
    ("Ellipsoid", "Box"): 1,
    ("Ellipsoid", "ConvexMesh"): 1,
    ("Box", "ConvexMesh"): 5,
    ("ConvexMesh", "ConvexMesh"): 5,
}
QUARTERS = 4
"""Slots of solids on height fields beside those of corners: one under every quarter."""
MOST_CORNERS = 12
"""The most corners of a face of a mesh that are all seen; of more, twelve around it."""


def slots_of(a: Shape, b: Shape, material: Material, points: int) -> int:
    """Of a pair: boxes and meshes that give have all corners of the polygon between their faces.

    A mesh that gives has all its corners on a plane or height field: of four, chosen anew in every
    step, forces would jump with the choice. Solids that give have two slots under every quarter on
    a height field. A rigid mesh on a plane, and a ball or ellipsoid on a height field, have at most
    `points`.
    """
    if math.isfinite(material.stiffness):
        if _are_solid(a, b):
            return sum(map(_corners, (a, b))) + 1
        if is_solid_on_field(a, b):
            return (slots_of_vertices(a, b) or SLOTS[a.kind, b.kind]) + QUARTERS
        if every := slots_of_vertices(a, b):
            return every
    few = isinstance(a, Sphere | Ellipsoid) and isinstance(b, HeightField)
    few |= isinstance(a, ConvexMesh) and isinstance(b, Plane)
    slots = SLOTS[a.kind, b.kind]
    return min(slots, points) if few else slots


def event_slots(a: Shape, b: Shape, material: Material, slots: int) -> int:
    """In runs with events: of every corner of a mesh on the ground, and of every pair of features.

    The last: corners of both faces of boxes and meshes that do not give, places where their edges
    cross, and the nearest points, k + m + k m + 1. A solid has two slots under every quarter on a
    height field: it may touch with both ends of a ridge there. What gives has those of fixed steps.
    """
    if math.isfinite(material.stiffness):
        return slots
    slots = slots_of_vertices(a, b) or slots
    if is_solid_on_field(a, b):
        return slots + QUARTERS
    if _are_solid(a, b):
        return (_corners(a) + 1) * (_corners(b) + 1)
    return slots


def slots_of_vertices(a: Shape, b: Shape) -> int:
    """How many slots a mesh has with one for each vertex on a plane or height field; 0 for others.

    On a height field with those under its quarters.
    """
    if not (isinstance(a, ConvexMesh) and is_surface(b)):
        return 0
    return len(a.vertices) + (QUARTERS if isinstance(b, HeightField) else 0)


class GroundSlots(NamedTuple):
    """Whether every vertex of a mesh has a slot; how many slots there are under a quarter."""

    every: bool
    deep: int


def ground_slots(a: Shape, b: Shape, slots: int) -> GroundSlots:
    """What the slots of a pair are, of which b is a plane or a height field."""
    every = slots_of_vertices(a, b)
    least = every or SLOTS[a.kind, b.kind]
    is_deep = isinstance(b, HeightField) and not is_round(a) and slots == least + QUARTERS
    return GroundSlots(bool(every) and slots >= every, 2 if is_deep else 1)


def is_solid_on_field(a: Shape, b: Shape) -> bool:
    """Whether a is a solid with faces or a rim, and b a height field."""
    return isinstance(a, Box | Cylinder | ConvexMesh) and isinstance(b, HeightField)


def corners_seen(a: Shape, b: Shape, slots: int) -> tuple[int, int] | None:
    """The corners of both faces of boxes and meshes that have slots for all of them, or None."""
    if not _are_solid(a, b) or slots == SLOTS[a.kind, b.kind]:
        return None
    return _corners(a), _corners(b)


def _are_solid(a: Shape, b: Shape) -> bool:
    return isinstance(a, Box | ConvexMesh) and isinstance(b, Box | ConvexMesh)


def _corners(shape: Shape) -> int:
    return min(shape.face_corners, MOST_CORNERS) if isinstance(shape, ConvexMesh) else 4
