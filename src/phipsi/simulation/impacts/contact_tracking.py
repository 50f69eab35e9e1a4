"""Slots that follow their points: which slot of a pair has now the point that a slot had before.

Between two faces, four slots have the deepest point and the widest; which of the corners these are
changes while the faces turn on each other. Along a motion, a slot must stay at its corner. With the
places x of points in the frames of both bodies, before (i) and now (j),

    d_ij = min(|x_a,i − x_a,j|, |x_b,i − x_b,j|)

is zero for a corner of either body, and small for a place where edges cross. The nearest belong
together, one after the other. The last slot of a pair has contacts of another kind (edges and
single corners, with a normal of their own): it is never one of the others.

A round body on a height field has its contacts sorted by depth, each with a normal of its own. It
may roll, and slide far between two samples; its normals turn little. So x of both is there the
place of the point about the body's origin, in the axes of the field, and no distance is too far.
Boxes, cylinders and meshes have their ridges and peaks there by quarters, and their corners: they
are followed as between faces.
"""

from __future__ import annotations

from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from phipsi.attached import Plane, bounding_ball, farthest_point, is_round, is_surface
from phipsi.contact import ContactPair, Contacts
from phipsi.core.model import WORLD

Array = NDArray[Any]

NO_CONTACT = 1e3
"""Gaps (m) above this are those of slots without a contact."""
_FAR = 0.1
"""Of the smaller body: a point that is farther away than this is another one."""


class TrackedPoints(NamedTuple):
    """Points of pairs between faces, in the order of their own slots.

    `order` (k,), the slot of the geometry that each slot is now; `at` (p, m, 6), in the frames of
    a and of b, NaN without a contact; `leaps` (k,), which slots are now at another point;
    `origins` (p, 2, 3), m, and `motions` (p, 2, 6), [rad/s; m/s], of the bodies of pairs.
    """

    order: Array
    at: Array
    leaps: Array
    origins: Array
    motions: Array


@final
class ContactTracker:
    """The points of slots between faces along a motion.

    **Arguments:** `contacts`; `k`, how many slots there are.
    **Attributes:** `slots` (p, m), the slots of each pair, −1 for none; `solid` (p,), whether both
    are convex bodies; b of the others is a height field; `same` (k,), the order of slots that all
    stay.
    """

    def __init__(self, contacts: Contacts, k: int) -> None:
        pairs = [pair for pair in contacts.pairs if points_change(pair)]
        most = max(pair.slots for pair in pairs)
        self.slots = np.full((len(pairs), most), -1)
        for row, pair in zip(self.slots, pairs, strict=True):
            row[: pair.slots] = pair.first + np.arange(pair.slots)
        self._bodies = len(contacts.bodies)
        place = {body: i for i, body in enumerate(contacts.bodies)} | {WORLD: self._bodies}
        self._hosts = np.array([[place[p.body_a], place[p.body_b]] for p in pairs])
        radii = [min(_radius(p.a.shape), _radius(p.b.shape)) for p in pairs]
        self._round = np.array([is_surface(p.b.shape) and is_round(p.a.shape) for p in pairs])
        self._far = np.where(self._round, np.inf, _FAR * np.array(radii))
        self.solid = ~np.array([is_surface(p.b.shape) for p in pairs])
        self._width = 2.0 * np.array(radii)
        self._reach = np.array([farthest_point(p.a) for p in pairs])
        self._k, self.same = k, np.arange(k)
        self._is_slot, self._any_round = self.slots >= 0, bool(self._round.any())
        self._mine = [row[row >= 0] for row in self.slots]
        self._poses, self._moves = (
            np.zeros((self._bodies + 1, 4, 4)),
            np.zeros((self._bodies + 1, 6)),
        )
        self._poses[-1] = np.eye(4)  # the world, last
        last = np.argmax(self.slots, axis=1)[:, None] == np.arange(most)
        last &= self.solid[:, None]
        self._apart = np.where(last[:, :, None] != last[:, None, :], np.inf, 0.0)
        self._before = np.full((*self.slots.shape, 6), np.nan)

    def now(self, gap: Array, points: Array, poses: Array, motions: Array) -> TrackedPoints:
        """Where all slots are, from those of the geometry at a configuration.

        **Arguments:** `gap` (k,), m; `points` (k, 2, 3), x_a and x_b, world axes; `poses`
        (bodies, 4, 4), those of contacts first; `motions` (bodies, 6), [rad/s; m/s] of their
        origins, world axes.
        **Cost:** p m² distances of p pairs; more only for pairs with points between them.
        """
        self._poses[:-1] = poses[: self._bodies]
        X = self._poses[self._hosts]  # (p, 2, 4, 4)
        d = points[self.slots] - X[:, None, :, :3, 3]
        local = np.einsum("pshi,phij->pshj", d, X[:, :, :3, :3])
        if self._any_round:
            turned = np.einsum("psi,pij->psj", d[:, :, 0], X[:, 1, :3, :3])
            local = np.where(self._round[:, None, None, None], turned[:, :, None], local)
        at = local.reshape(*self.slots.shape, 6)
        there = self._is_slot & (gap[self.slots] < NO_CONTACT)
        at[~there] = np.nan
        self._moves[:-1] = motions[: self._bodies]
        bodies = X[:, :, :3, 3], self._moves[self._hosts]
        order, leaps = self.same, np.zeros(self._k, bool)
        seen = np.isfinite(self._before[..., 0])
        known = np.any(there, axis=1) & np.any(seen, axis=1)
        if not known.any():
            return TrackedPoints(order, at, leaps, *bodies)
        moved = self._before[:, :, None] - at[:, None]
        squares = np.minimum(np.sum(moved[..., :3] ** 2, -1), np.sum(moved[..., 3:] ** 2, -1))
        distance = np.where(np.isnan(squares), np.inf, np.sqrt(squares) + self._apart)
        stay, far = _nearest_stay(distance)
        leap = known[:, None] & (far > self._far[:, None]) & seen
        leaps[self.slots[self._is_slot]] = leap[self._is_slot]
        left = np.flatnonzero(known & ~stay)
        if left.size:
            order = order.copy()
        for p in left:
            mine = self._mine[p]
            found, far = _matched(distance[p, : len(mine), : len(mine)])
            order[mine] = mine[found]
            leaps[mine] = (far > self._far[p]) & np.isfinite(self._before[p, : len(mine), 0])
            at[p, : len(mine)] = at[p, found]
        return TrackedPoints(order, at, leaps, *bodies)

    def speeds(self, places: TrackedPoints) -> tuple[Array, Array]:
        """Of each pair (p,), m/s: how much faster than one point another one may approach.

        And than which no point of a moves faster past b.
        """
        V, x = places.motions, places.origins
        past = V[:, 0] - V[:, 1]
        past[:, 3:] -= np.cross(V[:, 1, :3], x[:, 0] - x[:, 1])
        spin, slide = np.sqrt(np.sum(past.reshape(-1, 2, 3) ** 2, axis=-1)).T
        return self._width * spin, slide + self._reach * spin

    def follow(self, places: TrackedPoints) -> None:
        """These are the places from which slots go on."""
        self._before = places.at


def points_change(pair: ContactPair) -> bool:
    """Whether the slots of a pair may change their points: between faces and edges; by depth."""
    return pair.slots > 1 and not isinstance(pair.b.shape, Plane)


def _radius(shape: Any) -> float:
    return float(bounding_ball(shape)[3])


def _nearest_stay(distance: Array) -> tuple[Array, Array]:
    """Pairs (p,) all of whose slots are nearest to themselves, and how far (p, m) these are.

    What is nearest to itself is so before anything else can be its partner: such pairs are as
    `_matched` finds them. Distances (p, m, m).
    """
    m = np.arange(distance.shape[1])
    far = distance[:, m, m]
    others = distance.copy()
    others[:, m, m] = np.inf
    least = others.min(axis=2)
    return ((far < least) | (least == np.inf)).all(axis=1), far


def _matched(distance: Array) -> tuple[Array, Array]:
    """For each slot before, the one that is nearest now, each once, and how far it is.

    The nearest two belong together, then of the others the nearest two, and so on; what has no
    partner keeps its number where it can.
    """
    n = len(distance)
    found, far = np.full(n, -1), np.full(n, np.inf)
    left = distance.copy()
    for _ in range(n):
        i, j = divmod(int(left.argmin()), n)
        if left[i, j] == np.inf:
            break
        found[i], far[i] = j, left[i, j]
        left[i], left[:, j] = np.inf, np.inf
    taken = set(found.tolist())
    free = [j for j in range(n) if j not in taken]
    for i in np.flatnonzero(found < 0):
        found[i] = i if i in free else free[0]
        free.remove(found[i])
    return found, far
