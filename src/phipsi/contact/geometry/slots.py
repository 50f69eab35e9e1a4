"""The gaps, normals and points of all slots of a mechanism, from the poses of its bodies."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from phipsi.contact.geometry import plane_pairs, sphere_pairs
from phipsi.contact.geometry.placed_shapes import Formula, Placed, Slot
from phipsi.model.contact_pairs import Contacts
from phipsi.model.shapes import BodyShape
from phipsi.model.tree import WORLD

# For every pair of kinds of model/contact_pairs.py, the formula of its slots.
FORMULAS: dict[tuple[str, str], Formula] = {
    ("Sphere", "Plane"): plane_pairs.sphere_plane,
    ("Capsule", "Plane"): plane_pairs.capsule_plane,
    ("Cylinder", "Plane"): plane_pairs.cylinder_plane,
    ("Ellipsoid", "Plane"): plane_pairs.ellipsoid_plane,
    ("Box", "Plane"): plane_pairs.box_plane,
    ("Sphere", "Sphere"): sphere_pairs.sphere_sphere,
    ("Sphere", "Capsule"): sphere_pairs.sphere_capsule,
    ("Sphere", "Cylinder"): sphere_pairs.sphere_cylinder,
    ("Sphere", "Box"): sphere_pairs.sphere_box,
}


class Slots(NamedTuple):
    """All slots of `Contacts`: `gap` (k,) in m; `normal`, `x_a`, `x_b` (k, 3), world axes."""

    gap: Any
    normal: Any
    x_a: Any
    x_b: Any


def slot_geometry(contacts: Contacts, X: Any) -> Slots:
    """Gaps, normals and points of the slots at one configuration.

    **Arguments:** `X` (len(contacts.bodies), 4, 4), poses of these bodies in the world, as an array
    or traced. **Returns:** `Slots` of the same kind. The normal points from b to a, the gap is
    normal · (x_a − x_b); `INACTIVE` for a slot without a contact.
    """
    place = {body: i for i, body in enumerate(contacts.bodies)}
    known: dict[tuple[int, BodyShape], Placed] = {}

    def placed(body: int, shape: BodyShape) -> Placed:
        key = (body, shape)
        if key not in known:
            known[key] = _placed(shape, None if body == WORLD else X[place[body]])
        return known[key]

    slots: list[Slot] = []
    for pair in contacts.pairs:
        formula = FORMULAS[pair.a.shape.kind, pair.b.shape.kind]
        slots += formula(placed(pair.body_a, pair.a), placed(pair.body_b, pair.b))
    return Slots(*(np.stack([slot[i] for slot in slots]) for i in range(4)))


def _placed(shape: BodyShape, X: Any) -> Placed:
    """A shape in the world; X is the pose (4, 4) of its body, None for the world."""
    own, numbers = shape.placement, np.array(shape.shape.numbers)
    if X is None:
        return Placed(numbers, np.array(own.rotation), np.array(own.translation))
    R, x = X[:3, :3], X[:3, 3]
    turned = R if np.array_equal(own.rotation, np.eye(3)) else R @ np.array(own.rotation)
    moved = x + R @ np.array(own.translation) if own.translation.any() else x
    return Placed(numbers, turned, moved)
