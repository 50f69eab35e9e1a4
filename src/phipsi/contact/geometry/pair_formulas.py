"""Which formula finds the contacts of two kinds of shapes, and the slots of all pairs from it.

A slot is a contact point that a pair may have: a gap, a normal and a point on either shape, from
the poses of the bodies.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from phipsi.attached import BodyShape, Shape, bounding_ball, is_surface
from phipsi.contact.contact_pairs import ContactPair, Contacts
from phipsi.contact.geometry import (
    box_cylinder_field_pairs,
    box_pairs,
    explicit_pairs,
    mesh_field_pairs,
    round_field_pairs,
)
from phipsi.contact.geometry.convex_pairs import convex_pair
from phipsi.contact.geometry.pair_code import PairLoop, Read
from phipsi.contact.geometry.placed_shapes import (
    INACTIVE,
    ContactCandidate,
    Formula,
    Placed,
    Weighted,
)
from phipsi.contact.geometry.polygon_pairs import feature_pair, polygon_pair
from phipsi.contact.pair_slots import ground_slots
from phipsi.core.arrays import Array, Node, Tracer, as_node, call, law_operations as ops
from phipsi.core.model import WORLD

# For every pair of kinds of contact/contact_pairs.py, the formula of its slots.
FORMULAS: dict[tuple[str, str], Formula] = {
    ("Sphere", "Plane"): explicit_pairs.sphere_plane,
    ("Capsule", "Plane"): explicit_pairs.capsule_plane,
    ("Cylinder", "Plane"): explicit_pairs.cylinder_plane,
    ("Ellipsoid", "Plane"): explicit_pairs.ellipsoid_plane,
    ("Box", "Plane"): explicit_pairs.box_plane,
    ("ConvexMesh", "Plane"): explicit_pairs.mesh_plane,
    ("Sphere", "Sphere"): explicit_pairs.sphere_sphere,
    ("Sphere", "Capsule"): explicit_pairs.sphere_capsule,
    ("Sphere", "Cylinder"): explicit_pairs.sphere_cylinder,
    ("Sphere", "Box"): explicit_pairs.sphere_box,
    ("Capsule", "Capsule"): explicit_pairs.capsule_capsule,
    ("Capsule", "Box"): explicit_pairs.capsule_box,
    ("Box", "Box"): box_pairs.box_box,
    ("Sphere", "HeightField"): round_field_pairs.sphere_field,
    ("Capsule", "HeightField"): round_field_pairs.capsule_field,
    ("Cylinder", "HeightField"): box_cylinder_field_pairs.cylinder_field,
    ("Ellipsoid", "HeightField"): round_field_pairs.ellipsoid_field,
    ("Box", "HeightField"): box_cylinder_field_pairs.box_field,
    ("ConvexMesh", "HeightField"): mesh_field_pairs.mesh_field,
}
CORNERS: dict[str, Formula] = {
    "Plane": explicit_pairs.corners_plane,
    "HeightField": mesh_field_pairs.corners_field,
}
"""Of meshes with a slot for every vertex, by what they are on."""
CONVEX = (
    ("Sphere", "Ellipsoid"), ("Sphere", "ConvexMesh"),
    ("Capsule", "Cylinder"), ("Capsule", "Ellipsoid"), ("Capsule", "ConvexMesh"),
    ("Cylinder", "Cylinder"), ("Cylinder", "Ellipsoid"), ("Cylinder", "Box"),
    ("Cylinder", "ConvexMesh"), ("Ellipsoid", "Ellipsoid"), ("Ellipsoid", "Box"),
    ("Ellipsoid", "ConvexMesh"), ("Box", "ConvexMesh"), ("ConvexMesh", "ConvexMesh"),
)  # fmt: skip
"""Pairs without a formula of their own: those of all convex shapes."""
FORMULAS |= {kinds: convex_pair(kinds) for kinds in CONVEX}
LONG = (*CONVEX, ("Box", "Box"), ("Capsule", "Box"), ("Capsule", "Capsule"))
"""Pairs whose formula takes much longer than a test of their bounding spheres."""
REACH = 10
"""In steps, pairs are left out whose bounding spheres are this many margins apart."""
NOWHERE = (INACTIVE, 3**-0.5, 0.0, 0.0)  # gap, normal and points of pairs that are left out
_SIZES = (1, 3, 3, 3, 1)  # numbers of gap, normal, points and weight


class Slots(NamedTuple):
    """All slots of `Contacts`: `gap` (k,) in m; `normal`, `x_a`, `x_b` (k, 3), world axes.

    `weight` (k,), of the stiffness of pairs that give; None where all are 1.
    """

    gap: Any
    normal: Any
    x_a: Any
    x_b: Any
    weight: Any = None


def slot_geometry(
    contacts: Contacts, X: Any, within: float | None = None, every: bool = False
) -> Slots:
    """Gaps, normals and points of the slots at one configuration.

    **Arguments:** `X` (len(contacts.bodies), 4, 4), poses of these bodies in the world, as an array
    or traced; `within` (m), leave out pairs whose bounding spheres are farther apart, if their
    formula takes long, and with `every` of all kinds but planes, height fields and pairs that are
    the only ones of their kinds: their slots have no contact. **Returns:** `Slots` of the same
    kind. The normal points from b to a, the gap is normal · (x_a − x_b); `INACTIVE` for a slot
    without a contact.
    """
    place = {body: i for i, body in enumerate(contacts.bodies)}
    parts: list[Slots] = []
    for _, group in groupby(contacts.pairs, lambda pair: pair.group):
        pairs = list(group)
        limit = within if may_be_far(pairs, every) else None
        if isinstance(X, Tracer) and (len(pairs) > 1 or limit is not None):
            parts.append(_many(pairs, place, X, limit))
        else:
            parts += [_one(pair, place, X) for pair in pairs]
    found = [np.concatenate(values) for values in list(zip(*parts, strict=True))[:4]]
    if all(part.weight is None for part in parts):
        return Slots(*found)
    weights = [np.ones(x.gap.shape[0]) if x.weight is None else x.weight for x in parts]
    return Slots(*found)._replace(weight=np.concatenate(weights))


def may_be_far(pairs: Sequence[ContactPair], every: bool) -> bool:
    """Whether pairs of a group are left out where they are far, see `slot_geometry`."""
    a, b = pairs[0].a.shape, pairs[0].b.shape
    if (a.kind, b.kind) in LONG:
        return True
    return every and len(pairs) > 1 and not is_surface(b)


def _formula(pair: ContactPair) -> Formula:
    kinds = pair.a.shape.kind, pair.b.shape.kind
    if is_surface(pair.b.shape):
        found = ground_slots(pair.a.shape, pair.b.shape, pair.slots)
        formula: Any = CORNERS[pair.b.shape.kind] if found.every else FORMULAS[kinds]
        options = {} if found.deep == 1 else {"deep": found.deep}
        if pair.is_soft_on_ground:
            options["gives"] = True
        return partial(formula, **options) if options else formula
    if pair.corners is not None:
        return (polygon_pair if pair.is_polygon else feature_pair)(kinds, pair.corners)
    return FORMULAS[kinds]


def _stacked(slots: Sequence[ContactCandidate | Weighted]) -> Slots:
    return Slots(*(np.stack([slot[i] for slot in slots]) for i in range(len(slots[0]))))


def _nodes(slots: Slots) -> list[Node]:
    return [as_node(x) for x in slots if x is not None]


def _one(pair: ContactPair, place: dict[int, int], X: Any) -> Slots:
    """The slots of a pair, with its numbers as constants."""
    a, b = (
        _placed(s.shape, None if body == WORLD else X[place[body]], numbers_of(s), s.is_turned)
        for body, s in ((pair.body_a, pair.a), (pair.body_b, pair.b))
    )
    return _stacked(_formula(pair)(a, b)[: pair.slots])


def _many(
    pairs: Sequence[ContactPair], place: dict[int, int], X: Tracer, within: float | None
) -> Slots:
    """The slots of pairs of one group, by a loop over their numbers."""
    first = pairs[0]
    rows = [
        np.concatenate(
            [
                numbers_of(pair.a),
                numbers_of(pair.b),
                *map(bounding_ball, (pair.a.shape, pair.b.shape)),
            ]
        )
        for pair in pairs
    ]
    poses: dict[str, Read] = {}
    for name in ("a", "b"):
        bodies = [getattr(pair, f"body_{name}") for pair in pairs]
        if bodies[0] != WORLD:
            poses[f"X_{name}"] = Read(0, (4, 4), tuple(place[body] for body in bodies))
    turned = tuple(any(getattr(pair, x).is_turned for pair in pairs) for x in ("a", "b"))
    results, is_far = pair_graph(first, turned, within)
    nowhere = (*NOWHERE, 1.0)[: len(results)]
    far = {} if is_far is None else {"far": is_far, "otherwise": nowhere}
    loop = PairLoop(results, [X.shape], poses, np.array(rows), **far)
    found = call(loop, as_node(X))
    count = len(pairs) * first.slots
    shapes = [(count,) if size == 1 else (count, size) for size in _SIZES[: len(results)]]
    return Slots(*(Tracer(x).reshape(shape) for x, shape in zip(found, shapes, strict=True)))


def one_graph(pair: ContactPair) -> list[Node]:
    """The slots of a pair, with its numbers as constants; inputs "X_a" and "X_b" as there."""
    poses = {x: Tracer(ops.input(x, (4, 4))) for x in ("X_a", "X_b")}
    place: Any = {pair.body_a: "X_a", pair.body_b: "X_b"}
    return _nodes(_one(pair, place, poses))[:4]


def pair_graph(
    first: ContactPair, turned: Sequence[bool], within: Any
) -> tuple[list[Node], Node | None]:
    """The slots of any pair of the group of `first`, and whether it is farther than `within`.

    Their inputs are "row", the numbers of both shapes and their bounding spheres, and "X_a" and
    "X_b" (4, 4), poses of the bodies that move. The fifth result, if there is one, are weights.
    `turned`, whether a shape of side a or b of the group is turned in its body; `within`, a
    length, traced or not, or None: never far.
    """
    split, end = len(numbers_of(first.a)), len(numbers_of(first.b))
    row = Tracer(ops.input("row", (split + end + 8,)))
    sides = (
        ("X_a", first.a, first.body_a, row[:split], turned[0]),
        ("X_b", first.b, first.body_b, row[split:-8], turned[1]),
    )
    placed = [
        _placed(s.shape, None if body == WORLD else Tracer(ops.input(name, (4, 4))), own, is_turned)
        for name, s, body, own, is_turned in sides
    ]
    results = _nodes(_stacked(_formula(first)(*placed)[: first.slots]))
    if within is None:
        return results, None
    a, b = (x.x + x.R @ ball[:3] for x, ball in zip(placed, (row[-8:-4], row[-4:]), strict=True))
    radius_a: Any = row[-5]
    reach = radius_a + row[-1] + within
    d = a - b
    return results, as_node(d @ d > reach * reach)


def numbers_of(shape: BodyShape) -> Array:
    """All numbers of a shape on its body: axes (9), place (3), sizes."""
    X = shape.placement
    return np.concatenate([X.rotation.ravel(), X.translation, shape.shape.numbers])


def _placed(shape: Shape, X: Any, numbers: Any, is_turned: bool) -> Placed:
    """A shape in the world; X is the pose (4, 4) of its body, None for the world."""
    own, t, p = numbers[:9].reshape(3, 3), numbers[9:12], numbers[12:]
    if X is None:
        return Placed(p, own, t, shape)
    R, x = X[:3, :3], X[:3, 3]
    moved = x if isinstance(t, np.ndarray) and not t.any() else x + R @ t
    return Placed(p, R @ own if is_turned else R, moved, shape)
