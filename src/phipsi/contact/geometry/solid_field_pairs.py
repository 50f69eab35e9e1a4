"""Contacts of a solid with faces, edges and corners with a height field, b: all that reaches in.

A solid (box, cylinder, convex mesh) has slots for a few of its corners, over the triangle below
each. Four more, one under every quarter of it, or two where it gives and in runs with events,
have the deepest of

- corners in other faces of the field: higher ones, and second walls of a valley,
- edges and curved sides of the solid across ridges, along the common normal of both,
- peaks in faces of the solid, along the normal of these.

With φ, the largest of the signed distances from the faces of the solid, < 0 inside, these are the
local minima of φ on the surface: a normal n is one of the solid there, and lies in the cone of
normals of the ridge or peak, up to `LEAN`, so that both ends of a ridge under a face are there. In
an overlap, φ decides which: the nearest face, or faces at an edge or a corner, of the deepest
place. The gap is along n, so that its rate is the normal velocity.

Where a solid is cut and none of these is there, as where a peak is deeper than half of it, one
contact pushes it out: of the faces of the field that cut it, along the one with the shortest way.
A face cuts it if an edge of the face passes through the inside, or if the face meets the line from
the lowest to the highest point of the solid along its normal. So while the middle of a solid is
over the field, some gap is negative if and only if it overlaps the ground. Gaps above 0 are
separations along n: at most the distance. The border is a ridge.

Springs of a solid that gives must not jump: the slots of ridges and peaks have weights, 1 in their
cones and 0 where normals are `LEAN` beside them, and points on straight ridges, where only the ends
of these carry, have no slots.

Reasons: docs/decisions/0062.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from phipsi.contact.geometry.field_cells import (
    EDGES,
    FACES,
    INSIDE,
    POINT,
    Cell,
    RankedContact,
    SurfaceHit,
    Visit,
    below,
    cell_at,
    ends_of,
    feature_of,
    in_face,
    in_normal_cone,
    is_level,
    is_peak,
    is_ridge,
    is_there,
    no_entries,
    number_of,
    on_straight_line,
    over_cells,
)
from phipsi.contact.geometry.placed_shapes import (
    INACTIVE,
    ContactCandidate,
    Placed,
    Weighted,
    chosen,
    largest_of_three,
    weighted,
)
from phipsi.contact.geometry.round_field_pairs import ABOVE, reach_of
from phipsi.contact.pair_slots import QUARTERS

LEAN = 0.02
"""How far (rad) normals may be beside their cones."""
CUT = 1e-10
"""Of lengths: what is cut by less is not."""
_UP = np.array([0.0, 0.0, 1.0])
_AXES = np.eye(3)
_OUTER = 1e-6  # of lengths: of contacts that are as deep, the outer ones
SAME = 1.0 - 1e-13
"""The cosine of the angle of two normals that are the same."""
_NEAR = 1e-9  # of lengths: corners that are nearer to each other are one
_ALIKE = 1e-6  # of lengths: contacts whose marks are nearer to each other are one


class Touch(NamedTuple):
    """A contact with an edge or a point of the field.

    `key` (3,), which it is; unit normal `n`; `phi`, φ at its place, 0 where the gap is; `place`
    (3,) on the field, in the axes of the solid; `t`, the place on the edge; `good`, whether it is
    one.
    """

    key: Any
    n: Any
    phi: Any
    place: Any
    t: Any
    good: Any


class ConvexSolid(ABC):
    """A convex solid, seen from a point P of the field, in the axes of that.

    **Attributes:** `w` (3,), its centre from P; `Q` (3, 3), its axes; `p`, its numbers, or None;
    `size`, a length that it has; `least`, the radius of a ball inside it. Places y are about the
    centre and in the axes of the solid.
    """

    def __init__(self, w: Any, Q: Any, p: Any) -> None:
        self.w, self.Q, self.p = w, Q, p

    size: Any
    least: Any

    @abstractmethod
    def lowest(self, n: Any) -> tuple[Any, Any]:
        """The lowest point y along n, and its key."""

    @abstractmethod
    def corner(self, key: Any, n: Any) -> Any:
        """The same point from its key, with its derivatives."""

    @abstractmethod
    def on_plane(self, n: Any, y: Any, f: Any) -> tuple[Any, Any, Any]:
        """Where φ is least on the plane through P, from P; y is the lowest point, f its height.

        φ there, and whether the lowest point is that of the faces that are nearest there.
        """

    @abstractmethod
    def on_line(self, d: Any, wanted: Any) -> Sequence[Touch]:
        """Contacts with the line t d: where φ is least, and both ends of a face along the line."""

    @abstractmethod
    def across(self, key: Any, d: Any) -> tuple[Any, Any]:
        """n and the place, from P, of a contact with the line t d."""

    @abstractmethod
    def at_point(self) -> Touch:
        """The contact with P itself: the nearest face."""

    @abstractmethod
    def outside(self, key: Any) -> tuple[Any, Any]:
        """n and the gap of a contact with P."""

    @abstractmethod
    def is_cut(self, x: Any, d: Any) -> Any:
        """Whether the edge from x to x + d, from P, passes through the inside."""

    def axes(self) -> tuple[Any, Any]:
        """Two directions across the axis that is most upright: they part the quarters."""
        first, second, _ = largest_of_three(np.abs(self.Q[2]))
        x, y, z = _AXES
        u = np.where(first, y, np.where(second, z, x))
        return u, np.where(first, z, np.where(second, x, y))

    def from_point(self, y: Any) -> Any:
        """A place of the solid, from P."""
        return self.w + self.Q @ y


Make = Callable[[Any, Any, Any], ConvexSolid]
Corner = tuple[ContactCandidate, Any, Any]
"""A slot, its corner in the axes of the field, and the normal there."""


def corner_slot(x: Any, b: Placed) -> Corner:
    """The contact of a corner at x, world axes, with the triangle below it; beside, none."""
    p = b.R.T @ (x - b.x)
    under = below(p, b)
    gap = under.normal @ (p - under.point)
    normal = b.R @ under.normal
    slot = ContactCandidate(np.where(under.there, gap, INACTIVE), normal, x, x - gap * normal)
    return slot, p, under.normal


def solid_field(
    make: Make,
    a: Placed,
    b: Placed,
    corners: Sequence[Corner],
    below_middle: SurfaceHit,
    numbers: Sequence[int] | None = None,
    deep: int = 1,
    gives: bool = False,
    weights: Sequence[Any] | None = None,
) -> list[ContactCandidate] | list[Weighted]:
    """Slots of corners, and of the deepest of all else under every quarter of the solid.

    The lowest corner along the normal of the surface below the middle must be one of `corners`.
    If these are all corners of the solid, `numbers` are their places by the first of their key.
    `deep`, how many slots a quarter has, 1 or 2; `gives`, whether slots have weights: `weights`
    are those of the corners, 1 unless told.
    """
    c, Q = b.R.T @ (a.x - b.x), b.R.T @ a.R
    slots = [slot for slot, _, _ in corners]
    known = [x for slot, p, n in corners for x in (p, np.where(slot.gap < INACTIVE, n, 0.0 * n))]
    if numbers is not None:
        known = [known[2 * k + 1] for k in numbers]
    solid = make(c, Q, a.p)
    under = below_middle
    away = c - under.point
    more = np.clip(np.sqrt(away @ away) - solid.least, 0.0, reach_of(b))
    low = np.stack([solid.from_point(solid.lowest(x)[0])[k] for k, x in enumerate(_AXES)])
    high = np.stack([solid.from_point(solid.lowest(-x)[0])[k] for k, x in enumerate(_AXES[:2])])
    given = np.concatenate([c, Q.reshape(9), *known, *([] if solid.p is None else [solid.p])])
    first = no_entries(_entries(deep) + 1, 0.0 * c[0])
    bottom = low[2] - more - ABOVE * solid.size
    visit = _visit(make, len(known), numbers is not None, deep, gives)
    level = is_level(under, b) & _lowest_is_over(corners, under, solid)
    *entries, cut = over_cells(visit, first, given, low[:2] - more, high + more, b, bottom, level)
    quarters = [_slot(make, a, b, c, Q, entry) for entry in entries[: QUARTERS * deep]]
    least: Any = INACTIVE
    for slot in (*slots, *quarters):
        least = np.minimum(least, slot.gap)
    # a deeper contact may be behind one that is as deep up to this, and farther outside
    is_cut = (cut.value < INACTIVE) & (least >= _OUTER * solid.size) & under.there
    out = _slot(make, a, b, c, Q, cut)
    quarters[-1] = chosen(is_cut, out, quarters[-1])
    if gives:
        own = [1.0] * len(slots) if weights is None else weights
        ours = (weighted(slot, w) for slot, w in zip(slots, own, strict=True))
        return [*ours, *(weighted(ContactCandidate(*slot[:4]), slot.weight) for slot in quarters)]
    return [*slots, *(ContactCandidate(*slot[:4]) for slot in quarters)]


def _lowest_is_over(corners: Sequence[Corner], under: SurfaceHit, solid: ConvexSolid) -> Any:
    """Whether the lowest corner is over the field: on level ground its slot is the deepest."""
    heights = [under.normal @ p for _, p, _ in corners]
    lowest, over = heights[0], np.where(corners[0][0].gap < INACTIVE, heights[0], INACTIVE)
    for height, (slot, _, _) in zip(heights[1:], corners[1:], strict=True):
        lowest = np.minimum(lowest, height)
        over = np.minimum(over, np.where(slot.gap < INACTIVE, height, INACTIVE))
    return over <= lowest + CUT * solid.size


def _slot(make: Make, a: Placed, b: Placed, c: Any, Q: Any, entry: RankedContact) -> Weighted:
    """The contact of an entry, whose `n` is the key of a corner, edge or face of the solid."""
    there, key = entry.value < INACTIVE, entry.n
    i, j, feature = feature_of(entry, b)
    cell = cell_at(i, j, b)
    solid = make(c - cell.origin, Q, a.p)
    n, f = solid.outside(key)
    is_point = there & (feature == float(POINT))
    lean = np.where(is_point, _lean(n, cell.e), 0.0)
    n = np.where(is_point, n, _UP)
    x = np.where(is_point, f * n, 0.0 * n)  # a peak: P itself is touched
    for face in FACES:
        mine, normal = there & (feature == float(face)), cell.normals[face]
        n = np.where(mine, normal, n)
        x = np.where(mine, solid.from_point(solid.corner(key, normal)), x)
    for edge in EDGES:
        mine = there & (feature == float(edge))
        d, around = ends_of(cell, edge)
        normal, place = solid.across(key, d)
        lean = np.where(mine, _lean(normal, around), lean)
        n, x = np.where(mine, normal, n), np.where(mine, place, x)
    f = n @ x
    normal, point = b.R @ n, b.x + b.R @ (cell.origin + x)
    weight = 1.0 - np.minimum(lean / LEAN, 1.0)
    return Weighted(np.where(there, f, INACTIVE), normal, point, point - f * normal, weight)


def _lean(n: Any, around: Sequence[Any]) -> Any:
    """By how much (rad) n is beside its cone, over a face to one of the points `around`; or 0."""
    most: Any = 0.0
    for q in around:
        most = np.maximum(most, (n @ q) / np.sqrt(q @ q))
    return most


# ---- what is at a cell ---------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _visit(make: Make, count: int, are_all: bool, deep: int, gives: bool) -> Visit:
    """The visit of cells of a kind of solid, with so many vectors that tell of slots of corners."""

    def visit(
        i: Any, j: Any, b: Placed, given: Any, entries: list[RankedContact]
    ) -> list[RankedContact]:
        c, Q, end = given[:3], given[3:12].reshape(3, 3), 12 + 3 * count
        p = given[end:] if len(given) > end else None
        cell = cell_at(i, j, b)
        solid = make(c - cell.origin, Q, p)
        known = given[12:end].reshape(-1, 3)

        def has_slot(low: Any, key: Any, n: Any) -> Any:
            return _is_listed(key, n, known) if are_all else _is_near(low, n, known, cell, solid)

        *quarters, cut = entries
        found = _Quarters(quarters, solid, deep)
        cut = _at_cell(solid, cell, i, j, b, has_slot, found, cut, gives)
        return [*found.entries, cut]

    return visit


def _is_listed(key: Any, n: Any, normals: Any) -> Any:
    """Whether the corner of a key touches a face with the normal n in its own slot."""
    own = normals[0]
    for k in range(1, normals.shape[0]):
        own = np.where(key[0] == float(k), normals[k], own)
    return own @ n > SAME


def _is_near(low: Any, n: Any, known: Any, cell: Cell, solid: ConvexSolid) -> Any:
    """Whether a corner at `low` touches a face with the normal n in the slot of some corner."""
    found: Any = False
    for k in range(0, known.shape[0], 2):
        away, own = known[k] - cell.origin - low, known[k + 1]
        is_same = away @ away < (_NEAR * solid.size) * (_NEAR * solid.size)
        found = found | (is_same & (own @ n > SAME))
    return found


def _at_cell(
    solid: ConvexSolid,
    cell: Cell,
    i: Any,
    j: Any,
    b: Placed,
    has_slot: Any,
    found: _Quarters,
    cut: RankedContact,
    gives: bool,
) -> RankedContact:
    """Contacts of a cell are found, by φ; returned is that of a face that cuts the solid."""
    zero, size = 0.0 * solid.w, solid.size
    first, second, third = cell.e[:3]
    of = {2: (zero, first), 3: (zero, third), 4: (zero, second)}
    edges = {x: solid.is_cut(*of[x]) for x in EDGES}
    beyond = (solid.is_cut(first, second - first), solid.is_cut(third, second - third))
    for face in FACES:
        n, number = cell.normals[face], number_of(i, j, face, b)
        y, key = solid.lowest(n)
        low = solid.from_point(y)
        f = n @ low
        there = is_there(i, j, face, b)
        place, phi, is_nearest = solid.on_plane(n, y, f)
        good = there & in_face(place, face, b) & is_nearest & ~has_slot(low, key, n)
        found.add(phi, key, number, y, n, good)
        high = solid.from_point(solid.lowest(-n)[0])
        top = n @ high
        through = (f < -CUT * size) & (top > CUT * size)
        share = -f / np.where(through, top - f, 1.0)
        inside = through & in_face(low + share * (high - low), face, b)
        inside = inside | edges[2 + face] | edges[4] | beyond[face]
        shorter = there & inside & (f < 0.0) & (-f < cut.value)
        cut = chosen(shorter, RankedContact(-f, key, number), cut)
    for edge in EDGES:
        d, around = ends_of(cell, edge)
        wanted = is_ridge(cell, edge) & is_there(i, j, edge, b)
        for touch in solid.on_line(d, wanted):
            good = wanted & touch.good & (touch.t >= -INSIDE) & (touch.t <= 1.0 + INSIDE)
            good = good & (touch.n[2] > 0.0) & in_normal_cone(touch.n, around, LEAN)
            found.touch(touch, number_of(i, j, edge, b), good)
    touch = solid.at_point()
    good = is_peak(cell.e) & touch.good & (touch.n[2] > 0.0) & in_normal_cone(touch.n, cell.e, LEAN)
    if gives:
        good = good & ~on_straight_line(cell.e)
    found.touch(touch, number_of(i, j, POINT, b), good)
    return cut


def _entries(deep: int) -> int:
    """How many entries the slots of quarters have; where a quarter has two, with their marks."""
    return QUARTERS if deep == 1 else 4 * QUARTERS


class _Quarters:
    """The deepest contacts under the quarters of a solid, one or two each.

    Of two in a quarter, the second is another one: at another place, or with another normal. Marks
    tell: y + size n of each, as entries behind those of contacts.
    """

    def __init__(self, entries: list[RankedContact], solid: ConvexSolid, deep: int) -> None:
        self.entries, self._deep, self._size = entries, deep, solid.size
        self._u, self._v = solid.axes()

    def touch(self, touch: Touch, number: Any, good: Any) -> None:
        """A contact with an edge or a point of the field."""
        self.add(touch.phi, touch.key, number, touch.place, touch.n, good)

    def add(self, phi: Any, key: Any, number: Any, y: Any, n: Any, good: Any) -> None:
        """A contact at y (3,), in the solid's axes, if it is good and deeper, or as deep and outer.

        Entries have φ less `_OUTER` of the place, by which they are chosen.
        """
        u, v = y @ self._u, y @ self._v
        value = np.where(good, phi - _OUTER * np.sqrt(u * u + v * v), INACTIVE)
        right, far = u >= 0.0, v >= 0.0
        new = RankedContact(value, key, number)
        for k in range(QUARTERS):
            mine = (right if k % 2 else ~right) & (far if k // 2 else ~far)
            if self._deep == 1:
                lower = mine & (value < self.entries[k].value)
                self.entries[k] = chosen(lower, new, self.entries[k])
            else:
                self._add_second(
                    k, new, RankedContact(0.0 * value, y + self._size * n, 0.0 * value), mine
                )

    def _add_second(self, k: int, new: RankedContact, mark: RankedContact, mine: Any) -> None:
        at = (2 * k, 2 * k + 1)
        first, second = (self.entries[i] for i in at)
        marks = [self.entries[2 * QUARTERS + i] for i in at]
        away = mark.n - marks[0].n
        other = away @ away > (_ALIKE * self._size) * (_ALIKE * self._size)
        lower = mine & (new.value < first.value)
        shifts = lower & other
        fills = mine & ~lower & other & (new.value < second.value)
        self.entries[at[0]] = chosen(lower, new, first)
        self.entries[at[1]] = chosen(shifts, first, chosen(fills, new, second))
        self.entries[2 * QUARTERS + at[0]] = chosen(lower, mark, marks[0])
        later = chosen(shifts, marks[0], chosen(fills, mark, marks[1]))
        self.entries[2 * QUARTERS + at[1]] = later
