"""Contacts: which shapes of a mechanism may touch, in which slots, and with which friction.

Every pair of shapes has a fixed number of slots, one per contact point. A slot belongs to a feature
of the shapes (a corner, an end of a capsule), so that a point keeps its slot while things move.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from phipsi.attached import (
    MOST_VERTICES,
    BodyShape,
    ConvexMesh,
    Cylinder,
    FileMetadata,
    HeightField,
    LinkShape as Record,
    Material,
    Plane,
    is_surface,
)
from phipsi.contact.contact_shapes import all_shapes, near_shapes, warn_of_ground
from phipsi.contact.pair_materials import PairMaterials
from phipsi.contact.pair_slots import SLOTS, corners_seen, event_slots, is_solid_on_field, slots_of
from phipsi.core.model import WORLD, WORLD_NAME, Model, Pose, SystemAttachment, Value, floats_of
from phipsi.errors import InputError, did_you_mean, is_whole, number_of, one_of, warn


@final
@dataclass(frozen=True, slots=True)
class ContactPair:
    """Two shapes that may touch.

    Parameters
    ----------
    name : str
        "a|b".
    a, b : BodyShape
        The shapes.
    body_a, body_b : int
        Numbers of their bodies in the model, −1 for the world.
    material : Material
        Of both together.
    first, slots : int
        The pair has the contact candidates (slots) `first` to `first + slots − 1`.
    """

    name: str
    a: BodyShape
    b: BodyShape
    body_a: int
    body_b: int
    material: Material
    first: int
    slots: int

    def __repr__(self) -> str:
        kinds = f"{self.a.shape.kind} on {self.b.shape.kind}"
        return f"<ContactPair {self.name!r}: {kinds}, {self.slots} slot{'s' * (self.slots != 1)}>"

    @property
    def group(self) -> tuple[Any, ...]:
        """Equal for pairs that one loop computes: kinds, what moves, and how many slots."""
        constant = (HeightField,)
        if isinstance(self.b.shape, HeightField):
            constant = (HeightField, ConvexMesh)  # whose planes are in the code as well
        sides = [
            (s.shape if isinstance(s.shape, constant) else s.shape.kind,
             len(s.shape.numbers), s.body == WORLD_NAME)
            for s in (self.a, self.b)
        ]  # fmt: skip
        return *sides, self.slots, self.corners, self.is_soft_on_ground

    @property
    def corners(self) -> tuple[int, int] | None:
        """Of faces, all of which have slots: of boxes and meshes with more slots than others."""
        return corners_seen(self.a.shape, self.b.shape, self.slots)

    @property
    def is_polygon(self) -> bool:
        """Whether its slots are the corners of the polygon between two faces, with weights."""
        return self.corners is not None and self.slots == sum(self.corners) + 1

    @property
    def is_soft_on_ground(self) -> bool:
        """Whether it gives, and is a solid on a height field or a cylinder on a plane: weights."""
        a, b = self.a.shape, self.b.shape
        is_rim = isinstance(a, Cylinder) and isinstance(b, Plane)
        return math.isfinite(self.material.stiffness) and (is_rim or is_solid_on_field(a, b))


@final
class Contacts(SystemAttachment, Value):
    """The pairs of shapes of a mechanism that may touch.

    With "auto", two shapes may touch if they are on different bodies, one of which moves; if their
    groups and masks agree; if one body is not the parent of the other (bodies without inertia and
    shapes are parts of joints, and the world counts as the parent of none); and if the model's file
    does not exclude the two bodies (MJCF may let parents and children touch; in SDF the links of a
    model touch each other where <self_collide> says so).

    Stiffnesses act in series: 1/k = 1/k_a + 1/k_b; each surface takes its part of the deformation,
    so that d = (k/k_a)² d_a + (k/k_b)² d_b, and α likewise.

    Parameters
    ----------
    model : Model
        A mechanism with shapes (`ModelBuilder.add_shape`).
    pairs : "auto" or sequence of (str, str), optional
        All that may touch, or pairs of names of shapes or bodies. Default: "auto".
    exclude : sequence, optional
        Pairs that do not touch, or single names that touch nothing. Default: none.
    ground : bool or Pose, optional
        True for the plane z = 0 of the world, or the `Pose` of another plane (z is its outward
        normal), named "ground". Default: no ground.
    material : Material, optional
        Of shapes that have none of their own, and of the ground. Both sides of a contact then have
        it: with stiffness k their contact has k/2. Default: ``Material()``.
    combine : {"geometric", "minimum", "maximum", "mean", "product"}, optional
        How the friction (sliding, torsional, rolling) and restitution of two materials x, y become
        those of the pair; "geometric" is √(x y). Default: as the file of the shapes combines them:
        where one is of MJCF by MuJoCo's rules (the geom with the higher priority, else the larger
        numbers), and "geometric" elsewhere.
    margin : float, optional
        The gap in m below which a contact is listed. Default: 0.02.
    max_points : int, optional
        Contact points between a rigid mesh and a plane, or a sphere or ellipsoid and a height
        field, 1 to 4. Default: 4.
    unsupported : {"error", "warn"}, optional
        What to do about pairs that have no formula: reject them, or omit them with a warning that
        lists them. Default: "error".
    meshes : {"ignore", "hull"}, optional
        List the collision meshes of the model's file in a warning, or read them as their convex
        hulls. Default: "ignore".
    broadphase_poses : array_like, shape (bodies, 4, 4), optional
        Poses such as ``pp.poses(model, q)``: of the pairs of "auto", keep only those whose bounding
        spheres are at most `broadphase_distance` apart there, and all with planes and height
        fields, at a cost that grows with bodies and not with their pairs. Default: all pairs.
    broadphase_distance : float, optional
        m. Default: `margin`.

    Attributes
    ----------
    model, shapes : Model and tuple of BodyShape
        The tree and its shapes.
    pairs : tuple of ContactPair
        Pairs of two kinds keep their order.
    n_slots : int
        Number of contact candidates (slots) of all pairs.
    bodies : ndarray of int
        Numbers of the moving bodies, increasing.
    slot_pair : ndarray of int, shape (n_slots,)
        The number of the pair of each slot.
    slot_bodies : ndarray of int, shape (n_slots, 2)
        Places in `bodies` of the sides a and b, −1 for the world.

    Examples
    --------
    >>> import phipsi as pp
    >>> builder = pp.ModelBuilder()
    >>> body = builder.add_body("box", joint=pp.joints.Free(), inertia=pp.SpatialInertia(mass=1.0))
    >>> builder.add_shape("box", "box", pp.shapes.Box((0.2, 0.2, 0.1)))
    >>> contacts = pp.Contacts(builder.build(), ground=True, material=pp.Material(friction=0.4))
    >>> contacts
    <Contacts: 1 pair with 4 slots: 'box|ground'>
    >>> contacts.pairs[0].material.friction
    0.4
    """

    __slots__ = (
        "bodies", "margin", "max_points", "model", "n_slots", "pairs", "shapes", "slot_bodies",
        "slot_pair", "_hash", "__weakref__",
    )  # fmt: skip
    model: Model
    shapes: tuple[BodyShape, ...]
    pairs: tuple[ContactPair, ...]
    margin: float
    max_points: int
    _hash: int
    bodies: tuple[int, ...]
    n_slots: int
    slot_pair: NDArray[np.int64]
    slot_bodies: NDArray[np.int64]

    def __init__(
        self,
        model: Model,
        *,
        pairs: str | Sequence[tuple[str, str]] = "auto",
        exclude: Sequence[Any] = (),
        ground: bool | Pose | None = None,
        material: Material | None = None,
        combine: str | None = None,
        margin: float = 0.02,
        max_points: int = 4,
        unsupported: Literal["error", "warn"] = "error",
        meshes: Literal["ignore", "hull"] = "ignore",
        broadphase_poses: Any = None,
        broadphase_distance: float | None = None,
    ) -> None:
        if not isinstance(model, Model):
            raise InputError(
                f"Contacts needs a model first: pp.Contacts(model, ground=True), not "
                f"{type(model).__name__}."
            )
        tree = model.model
        shapes, links, records = all_shapes(tree, ground, meshes)
        materials = PairMaterials(material, combine)
        choose = _Chooser(tree, shapes, links, records)
        margin, max_points = _margin(margin), _points(max_points)
        without = choose.excluded(exclude)
        own = choose.pairs_of_file()
        near = None
        if broadphase_poses is not None or broadphase_distance is not None:
            reach = margin if broadphase_distance is None else broadphase_distance
            near = _near(shapes, choose.hosts, pairs, broadphase_poses, reach)
        if isinstance(pairs, str) and pairs == "auto":
            by_file = choose.excluded_by_file()
            wanted = [
                pair for pair in choose.automatic(near) if pair not in by_file and pair not in own
            ]
            wanted += own
        else:
            wanted = choose.listed(pairs)
        wanted = _with_formulas(shapes, [x for x in wanted if x not in without], unsupported)
        groups: dict[Any, list[ContactPair]] = {}  # pairs of a group one after the other
        for i, j in wanted:
            a, b = shapes[i], shapes[j]
            sides = (a.material, b.material), (records[i], records[j])
            both = own.get((i, j)) or materials.of(*sides)
            slots = slots_of(a.shape, b.shape, both, max_points)
            hosts = (choose.hosts[i], choose.hosts[j])
            pair = ContactPair(f"{a.name}|{b.name}", a, b, *hosts, both, 0, slots)
            groups.setdefault(pair.group, []).append(pair)
        made = _numbered(pair for group in groups.values() for pair in group)
        self._fill(tree, shapes, made, margin, max_points)
        if ground:
            warn_of_ground(tree, shapes, made, meshes)

    def _fill(
        self,
        model: Model,
        shapes: tuple[BodyShape, ...],
        pairs: tuple[ContactPair, ...],
        margin: float,
        max_points: int,
    ) -> None:
        moving = sorted({x for p in pairs for x in (p.body_a, p.body_b)} - {WORLD})
        place = {body: i for i, body in enumerate(moving)} | {WORLD: -1}
        sides = [(place[p.body_a], place[p.body_b]) for p in pairs for _ in range(p.slots)]
        self._set(
            model=model,
            shapes=shapes,
            pairs=pairs,
            margin=margin,
            max_points=max_points,
            bodies=tuple(moving),
            n_slots=len(sides),
            slot_pair=_fixed([k for k, p in enumerate(pairs) for _ in range(p.slots)], (-1,)),
            slot_bodies=_fixed(sides, (-1, 2)),
        )
        self._set(_hash=hash((Contacts, self._key())))

    def on(self, model: Model) -> Contacts:
        """The same pairs on a changed copy of the model with the same bodies and shapes."""
        if model.body_names != self.model.body_names or model.shapes != self.model.shapes:
            raise InputError(
                "the contacts of a system are those of its bodies and shapes, and this change "
                "gives it others. Change the model first, then choose what may touch:\n"
                "    pp.System(changed, contacts=pp.Contacts(changed))"
            )
        return _again(model, self.shapes, self.pairs, self.margin, self.max_points)

    def summary(self) -> str:
        """How many pairs there are."""
        n = len(self.pairs)
        return f"{n} pair{'s' * (n != 1)} of shapes that may touch"

    def with_all_corners(self) -> Contacts:
        """The same pairs with a slot for every corner, as runs with events need them.

        Of a mesh that may touch a plane or height field; and of the polygon between faces of boxes
        and meshes that do not give: corners of both, and places where edges cross. Solids that do
        not give have more slots on height fields.
        """
        slots = [event_slots(x.a.shape, x.b.shape, x.material, x.slots) for x in self.pairs]
        if slots == [x.slots for x in self.pairs]:
            return self
        made = (replace(x, slots=n) for x, n in zip(self.pairs, slots, strict=True))
        return _again(self.model, self.shapes, _numbered(made), self.margin, self.max_points)

    @property
    def slot_names(self) -> tuple[str, ...]:
        """The name of the pair of every slot."""
        return tuple(self.pairs[i].name for i in self.slot_pair)

    def _key(self) -> tuple[Any, ...]:
        return self.model, self.pairs, self.margin, self.max_points

    def __hash__(self) -> int:
        return self._hash  # of thousands of pairs, and asked for in every call

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, Contacts):
            return self is other
        return self._hash == other._hash and self._key() == other._key()

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.model, self.shapes, self.pairs, self.margin, self.max_points)

    def __repr__(self) -> str:
        shown = ", ".join(repr(p.name) for p in self.pairs[:3])
        more = ", …" if len(self.pairs) > 3 else ""
        count = f"{len(self.pairs)} pair{'' if len(self.pairs) == 1 else 's'}"
        return f"<Contacts: {count} with {self.n_slots} slots{': ' if shown else ''}{shown}{more}>"


def _numbered(pairs: Iterable[ContactPair]) -> tuple[ContactPair, ...]:
    """The pairs with their slots one after the other."""
    out: list[ContactPair] = []
    for pair in pairs:
        out.append(replace(pair, first=out[-1].first + out[-1].slots if out else 0))
    return tuple(out)


def _again(*parts: Any) -> Contacts:
    """The pairs that were pickled."""
    found = object.__new__(Contacts)
    found._fill(*parts)
    return found


def _fixed(values: Any, shape: tuple[int, ...]) -> NDArray[np.int64]:
    array = np.array(values, dtype=np.int64).reshape(shape)
    array.flags.writeable = False
    return array


# ---- pairs ---------------------------------------------------------------------------------------

Pair = tuple[int, int]


@final
class _Chooser:
    """Finds pairs of shapes, as numbers (a, b) in their list, by name or by rule."""

    def __init__(
        self,
        model: Model,
        shapes: Sequence[BodyShape],
        links: Sequence[str],
        records: Sequence[Record | None],
    ) -> None:
        self.model, self.shapes = model, shapes
        self.touches_parent = [x is not None and x.touches_parent for x in records]
        self.family = ["" if x is None else x.family for x in records]
        self.hosts = [WORLD if s.body == WORLD_NAME else model.body_index(s.body) for s in shapes]
        self.parent = self._parents()
        self.named: dict[str, list[int]] = {}
        self.on_link: dict[str, list[int]] = {}
        for i, (s, link) in enumerate(zip(shapes, links, strict=True)):
            self.named.setdefault(s.body, []).append(i)
            self.on_link.setdefault(link, []).append(i)
        for name, (host, _) in model.frames.items():  # a welded body, or what carries it
            body = WORLD_NAME if host == WORLD else model.body_names[host]
            self.named[name] = self.on_link.get(name) or self.named.get(body, [])
        for i, s in enumerate(shapes):  # a shape's own name before a body's
            self.named[s.name] = [i]

    def _parents(self) -> list[int]:
        """Of every body, the next one below it that has inertia or shapes.

        Bodies without both are parts of a joint with several axes.
        """
        parent, real = self.model.parent, set(self.hosts)
        real |= {i for i, inertia in enumerate(self.model.inertias) if not inertia.is_zero}
        out: list[int] = []
        for x in parent:  # parents come before their children
            out.append(x if x == WORLD or x in real else out[x])
        return out

    def excluded_by_file(self) -> set[Pair]:
        """The pairs of bodies that the model's file excludes."""
        found: set[Pair] = set()
        for x in self.model.of(FileMetadata).exclusions:
            first, second = (self.on_link.get(name, []) for name in (x.body, x.other))
            found |= {self.sorted(pair) for pair in product(first, second)}
        return found

    def pairs_of_file(self) -> dict[Pair, Material | None]:
        """The pairs of shapes that the model's file lists, and their materials."""
        named = {s.name: i for i, s in enumerate(self.shapes)}
        found: dict[Pair, Material | None] = {}
        for x in self.model.of(FileMetadata).pairs:
            if x.shape in named and x.other in named:
                i, j = named[x.shape], named[x.other]
                if self.hosts[i] != self.hosts[j]:
                    found[self.sorted((i, j))] = x.material
        return found

    def automatic(self, near: Iterable[Pair] | None) -> list[Pair]:
        """All that may touch, of all pairs or of those that are near."""
        among = combinations(range(len(self.shapes)), 2) if near is None else near
        return [(i, j) for i, j in map(self.sorted, among) if self._may(i, j)]

    def _may(self, i: int, j: int) -> bool:
        a, b = self.shapes[i], self.shapes[j]
        hosts = {self.hosts[i], self.hosts[j]}
        if len(hosts) == 1 or all(is_surface(x.shape) for x in (a, b)):
            return False
        is_joined = WORLD not in hosts and any({x, self.parent[x]} == hosts for x in hosts)
        if is_joined and not (self.touches_parent[i] and self.touches_parent[j]):
            return False
        if self.family[i] and self.family[i] == self.family[j]:
            return False
        return bool(a.group & b.mask and b.group & a.mask)

    def sorted(self, pair: Pair) -> Pair:
        """The pair with the shape first that formulas take first."""
        return min(pair, key=self._rank), max(pair, key=self._rank)

    def _rank(self, i: int) -> Pair:
        return self.shapes[i].shape.order, i

    def listed(self, pairs: Any) -> list[Pair]:
        """The pairs that a user lists."""
        none = not isinstance(pairs, Iterable) or not getattr(pairs, "ndim", 1)
        if isinstance(pairs, str) or none:
            raise InputError(
                f'Contacts: pairs={pairs!r} must be "auto" or a list of pairs of names, '
                f'for example pairs=[("foot", "ground")].'
            )
        found: dict[Pair, None] = {}
        for entry in pairs:
            names = self._pair(entry, "pairs")
            for i, j in product(*(self._shapes_of(x, "pairs") for x in names)):
                if self.hosts[i] == self.hosts[j]:
                    a, b = self.shapes[i], self.shapes[j]
                    raise InputError(
                        f"Contacts: pairs has {a.name!r} with {b.name!r}, which are on the same "
                        f"body {a.body!r} and never move against each other. Remove the pair."
                    )
                found[self.sorted((i, j))] = None
        return list(found)

    def excluded(self, exclude: Any) -> set[Pair]:
        """The pairs that a user excludes."""
        if isinstance(exclude, str) or not isinstance(exclude, Iterable):
            raise InputError(
                f"Contacts: exclude={exclude!r} must be a list of names and pairs of names, for "
                f'example exclude=["sensor", ("left_foot", "right_foot")].'
            )
        found: set[Pair] = set()
        everything = range(len(self.shapes))
        for entry in exclude:
            if isinstance(entry, str):
                sides: Any = (self._shapes_of(entry, "exclude"), everything)
            else:
                sides = tuple(self._shapes_of(x, "exclude") for x in self._pair(entry, "exclude"))
            found |= {self.sorted(pair) for pair in product(*sides)}
        return found

    def _pair(self, entry: Any, what: str) -> tuple[str, str]:
        if isinstance(entry, tuple | list) and len(entry) == 2:
            return entry[0], entry[1]
        raise InputError(f"Contacts: {what} has {entry!r}, which is not a pair of names.")

    def _shapes_of(self, name: Any, what: str) -> list[int]:
        found = self.named.get(name) if isinstance(name, str) else None
        if found:
            return found
        if name in self.model.body_names or (found is not None and name in self.model.frames):
            raise InputError(
                f"Contacts: {what} names the body {name!r}, which has no shapes. Give it one:\n"
                f"    model.with_shape({name + '_shape'!r}, {name!r}, pp.shapes.Sphere(0.05))"
            )
        raise InputError(
            f"Contacts: {what} names {name!r}, which is not a shape or body. "
            + did_you_mean(str(name), [x for x, found in self.named.items() if found])
        )


def _near(
    shapes: Sequence[BodyShape], hosts: Sequence[int], pairs: Any, poses: Any, distance: Any
) -> list[Pair]:
    """The pairs of shapes that are near at these poses of the bodies, and all with planes."""
    example = "    pp.Contacts(model, broadphase_poses=pp.poses(model, q), broadphase_distance=0.1)"
    if not (isinstance(pairs, str) and pairs == "auto"):
        raise InputError(f'Contacts: broadphase_poses= chooses among pairs="auto", not {pairs!r}.')
    if poses is None:
        raise InputError(
            "Contacts: broadphase_distance= needs the poses of bodies, broadphase_poses=:\n"
            f"{example}"
        )
    X, reach = floats_of(poses), number_of(distance)
    if X.ndim != 3 or X.shape[1:] != (4, 4) or len(X) <= max(hosts, default=WORLD):
        raise InputError(
            f"Contacts: broadphase_poses= has the shape {X.shape}, not (bodies, 4, 4), poses at "
            f"one configuration:\n{example}"
        )
    if not (np.isfinite(X).all() and math.isfinite(reach) and reach >= 0):
        raise InputError(
            f"Contacts: broadphase_poses= must be finite, and broadphase_distance={distance!r} a "
            "length of at least 0, in m."
        )
    return near_shapes(shapes, hosts, X, reach)


def _with_formulas(shapes: Sequence[BodyShape], pairs: list[Pair], unsupported: Any) -> list[Pair]:
    """The pairs that have a formula; the others are an error, or are listed in a warning."""
    one_of("Contacts: unsupported", unsupported, ("error", "warn"))

    def has_formula(pair: Pair) -> bool:
        return (shapes[pair[0]].shape.kind, shapes[pair[1]].shape.kind) in SLOTS

    for i, j in pairs:
        _check_sizes(shapes[i], shapes[j])
    others = [(shapes[i], shapes[j]) for i, j in pairs if not has_formula((i, j))]
    if not others:
        return pairs
    listed = ", ".join(f"({a.name!r}, {b.name!r})" for a, b in others[:4])
    more = f"  # and {len(others) - 4} more" if len(others) > 4 else ""
    if unsupported == "warn":
        warn(
            f"Contacts: {len(others)} pairs have kinds without a formula and do not touch: "
            f"{listed}{more}."
        )
        return [pair for pair in pairs if has_formula(pair)]
    a, b = others[0]
    kind = a.shape.kind
    known = sorted({y if x == kind else x for x, y in SLOTS if kind in (x, y)})
    raise InputError(
        f"Contacts: there is no formula for {kind} {a.name!r} (on {a.body!r}) against "
        f"{b.shape.kind} {b.name!r} (on {b.body!r}). {kind} has formulas with {', '.join(known)}. "
        f"Use such shapes (capsules and spheres come close to many), or omit the {len(others)} "
        "pairs without a formula:\n"
        '    unsupported="warn"\n'
        "or exclude pairs:\n"
        f"    exclude=[{listed}]{more}"
    )


def _check_sizes(a: BodyShape, b: BodyShape) -> None:
    """Meshes are small."""
    for one in (a, b):
        count = len(one.shape.vertices) if isinstance(one.shape, ConvexMesh) else 0
        if count > MOST_VERTICES:
            raise InputError(
                f"Contacts: mesh {one.name!r} (on {one.body!r}) has {count:,} vertices, more than "
                f"{MOST_VERTICES}. Use its hull with few corners:\n"
                f"    pp.shapes.ConvexMesh.around(vertices)"
            )


# ---- numbers -------------------------------------------------------------------------------------


def _margin(given: Any) -> float:
    margin = number_of(given)
    if not (math.isfinite(margin) and margin > 0):
        raise InputError(f"Contacts: margin={given!r} must be a length above 0, in m.")
    return margin


def _points(given: Any) -> int:
    if not is_whole(given) or not 1 <= given <= 4:
        raise InputError(f"Contacts: max_points={given!r} must be an integer, 1 to 4.")
    return int(given)
