"""Many pairs of shapes at few configurations: pairs are the batch of one formula for their kinds.

The loops of `slot_geometry` hold the numbers of their pairs, and are compiled again for other
pairs, in a time that grows with them. Here the machine code is that of a formula; numbers and poses
of pairs are gathered. The arithmetic is the same, and so are the bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.backends.native.lane_function import LaneFunction, graph_function
from phipsi.contact.geometry.slots import NOWHERE, may_be_far, numbers_of, one_graph, pair_graph
from phipsi.laws import law_operations as ops
from phipsi.laws.graph import Node
from phipsi.laws.trace import Traced
from phipsi.model.contact_pairs import ContactPair, Contacts
from phipsi.model.near_shapes import near_balls
from phipsi.model.shapes import BodyShape, bounding_ball, is_surface
from phipsi.model.tree import WORLD

Array = NDArray[Any]

_AT_ONCE = 1 << 14
"""Pairs whose numbers are gathered at once: a few megabytes."""
_SLACK = 1e-9
"""How much farther, relative to sizes and places, the grid looks than the test of a formula."""
_NAMES = ("gap", "normal", "x_a", "x_b")


@final
class PairLanes:
    """Gaps, normals and points of all slots of `Contacts` from poses of bodies.

    **Arguments:** `contacts`; `within` (m), leave out pairs whose bounding balls are farther apart,
    which a grid of cells finds: their slots have no contact, as in `slot_geometry` with `every`;
    `nearest`, of every pair the slot with the smallest gap in place of all its slots.
    """

    def __init__(self, contacts: Contacts, within: float | None, nearest: bool) -> None:
        self._within, self._nearest = within, nearest
        self._size = len(contacts.pairs) if nearest else contacts.n_slots
        number = {s.name: i for i, s in enumerate(contacts.shapes)}
        sides = [(number[p.a.name], number[p.b.name]) for p in contacts.pairs]
        self._sides = np.array(sides, dtype=np.int64).reshape(-1, 2)
        hosts = [(p.body_a, p.body_b) for p in contacts.pairs]
        self._hosts = np.array(hosts, dtype=np.int64).reshape(-1, 2)
        self._balls = np.array([bounding_ball(s.shape) for s in contacts.shapes]).reshape(-1, 4)
        self._groups: list[_Group] = []
        first = 0
        for _, group in groupby(contacts.pairs, lambda pair: pair.group):
            pairs = list(group)
            self._groups.append(_Group(contacts, first, pairs, self._sides, within))
            first += len(pairs)
        if within is not None:
            self._grid = _Grid(contacts, self._sides, self._hosts, self._balls)

    def __call__(self, X: Array, threads: int = 1) -> list[Array]:
        """Results (..., slots) and (..., slots, 3) for poses (..., bodies, 4, 4) of all bodies."""
        batch, flat = X.shape[:-3], X.reshape(-1, *X.shape[-3:])
        out = [np.empty((len(flat), self._size, *more)) for more in ((), (3,), (3,), (3,))]
        near = None
        if self._within is not None:
            for x, y in zip(out, NOWHERE, strict=True):
                x[...] = y
                x[~np.isfinite(flat).all(axis=(1, 2, 3))] = np.nan
            near = self._grid.near(flat, self._within)
        for group in self._groups:
            some = None if near is None or group.is_wide else group.own(*near)
            for at, pairs in _parts(some, len(flat), group.first, group.count):
                found = group.values(
                    flat, at, pairs, self._sides, self._hosts, self._balls, threads
                )
                self._put(out, found, group, at, pairs)
        return [x.reshape(*batch, *x.shape[1:]) for x in out]

    def _put(
        self, out: Sequence[Array], found: Sequence[Array], group: _Group, at: Array, pairs: Array
    ) -> None:
        if self._nearest:
            best = np.argmin(found[0], axis=-1)
            lane = np.arange(len(best))
            for x, y in zip(out, found, strict=True):
                x[at, pairs] = y[lane, best]
            return
        slots = group.slot + (pairs - group.first)[:, None] * group.slots + np.arange(group.slots)
        for x, y in zip(out, found, strict=True):
            x[at[:, None], slots] = y


def _parts(some: tuple[Array, Array] | None, batch: int, first: int, count: int) -> Any:
    """Configurations and pairs to evaluate, so many at once; without some, all of a group."""
    total = batch * count if some is None else len(some[0])
    for start in range(0, total, _AT_ONCE):
        end = min(start + _AT_ONCE, total)
        if some is None:
            at, pairs = np.divmod(np.arange(start, end), count)
            yield at, first + pairs
        else:
            yield some[0][start:end], some[1][start:end]


@final
class _Group:
    """Pairs of the same kinds, of which the same sides move: `count` pairs from `first` on."""

    def __init__(
        self,
        contacts: Contacts,
        first: int,
        pairs: Sequence[ContactPair],
        sides: Array,
        within: Any,
    ) -> None:
        one, shapes = pairs[0], contacts.shapes
        self.first, self.count, self.slot, self.slots = first, len(pairs), one.first, one.slots
        self._within = within if may_be_far(pairs, True) else None
        self.is_wide = self._within is None
        self._moves = one.body_a != WORLD, one.body_b != WORLD
        self._rows = None
        cached = contacts.model.cached
        if len(pairs) == 1 and self.is_wide:  # as in slot_geometry
            key: Any = (PairLanes, one.a, one.b, one.slots)
            self._code = cached(key, lambda: _code(one_graph(one), self._moves, 0, False))
            return
        own = [np.unique(x).tolist() for x in sides[first : first + len(pairs)].T]
        self._rows = [_numbers_by_shape(shapes, x) for x in own]
        width = sum(x.shape[1] for x in self._rows) + 8
        turned = tuple(any(shapes[i].is_turned for i in x) for x in own)
        has_limit = self._within is not None

        def build() -> LaneFunction:
            limit = Traced(ops.given("within", ())) if has_limit else None
            results, far = pair_graph(one, turned, limit)
            results = results[: len(NOWHERE)]
            if far is not None:
                results = [
                    ops.apply("where", far, ops.constant(y), x)
                    for x, y in zip(results, NOWHERE, strict=True)
                ]
            return _code(results, self._moves, width, has_limit)

        self._code = cached((PairLanes, one.group, one.slots, turned, has_limit), build)

    def own(self, at: Array, pairs: Array) -> tuple[Array, Array]:
        """Those of the group, of pairs at configurations."""
        mine = (pairs >= self.first) & (pairs < self.first + self.count)
        return at[mine], pairs[mine]

    def values(
        self,
        X: Array,
        at: Array,
        pairs: Array,
        sides: Array,
        hosts: Array,
        balls: Array,
        threads: int,
    ) -> Sequence[Array]:
        """Gaps (m, slots), normals and points (m, slots, 3) of pairs at configurations."""
        args = [X[at, hosts[pairs, k]] for k in (0, 1) if self._moves[k]]
        if self._rows is not None:
            a, b = sides[pairs].T
            row = [self._rows[0][a], self._rows[1][b], balls[a], balls[b]]
            args.append(np.concatenate(row, axis=1))
        if self._within is not None:
            args.append(np.array(self._within))
        found = self._code.quick(tuple(args), threads, None)
        return self._code.ufunc(*args)[:-1] if found is None else found


def _numbers_by_shape(shapes: Sequence[BodyShape], used: Sequence[int]) -> Array:
    """Numbers (shapes, n) of the shapes that a group uses, zero for others."""
    rows = {i: numbers_of(shapes[i]) for i in used}
    out = np.zeros((len(shapes), len(next(iter(rows.values())))))
    for i, numbers in rows.items():
        out[i] = numbers
    return out


def _code(
    results: Sequence[Node], moves: tuple[bool, bool], width: int, has_limit: bool
) -> LaneFunction:
    """Machine code of a formula, with pairs as lanes."""
    inputs: dict[str, tuple[int, ...]] = {}
    inputs |= {name: (4, 4) for name, there in zip(("X_a", "X_b"), moves, strict=True) if there}
    inputs |= {"row": (width,)} if width else {}
    inputs |= {"within": ()} if has_limit else {}
    return graph_function(inputs, dict(zip(_NAMES, results, strict=True)))


@final
class _Grid:
    """Which pairs of a list are near: shapes by their bounding balls, in cells."""

    def __init__(self, contacts: Contacts, sides: Array, hosts: Array, balls: Array) -> None:
        wide = np.array([is_surface(s.shape) for s in contacts.shapes])
        paired = np.zeros(len(wide), dtype=bool)
        paired[sides.ravel()] = True
        self._shapes = np.flatnonzero(paired & ~wide)
        body = np.full(len(wide), WORLD)
        body[sides.ravel()] = hosts.ravel()
        self._bodies = body[self._shapes]
        self._radii = balls[self._shapes, 3]
        places = [contacts.shapes[i].placement for i in self._shapes.tolist()]
        self._centres = np.array(
            [p.rotation @ x + p.translation
             for p, x in zip(places, balls[self._shapes, :3], strict=True)]
        ).reshape(-1, 3)  # fmt: skip
        self._count = len(wide)
        codes = np.sort(sides, axis=1) @ np.array([self._count, 1])
        self._order = np.argsort(codes, kind="stable")
        self._codes = codes[self._order]

    def near(self, X: Array, within: float) -> tuple[Array, Array]:
        """Configurations and pairs whose balls are at most `within` apart, for poses (m, n, 4, 4).

        Pairs come in their order, configuration by configuration.
        """
        fine = np.flatnonzero(np.isfinite(X).all(axis=(1, 2, 3)))
        n = len(self._shapes)
        if not len(self._codes) or not n or not len(fine):
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        centres = np.tile(self._centres, (len(fine), 1, 1))
        moves = self._bodies != WORLD
        P = X[fine][:, self._bodies[moves]]
        centres[:, moves] = (P[..., :3, :3] @ centres[:, moves, :, None])[..., 0] + P[..., :3, 3]
        size = np.abs(centres).max() + self._radii.max() + within
        layer = np.repeat(np.arange(len(fine)), n)
        radii = np.tile(self._radii, len(fine))
        found = near_balls(centres.reshape(-1, 3), radii, within + _SLACK * size, layer)
        ends = self._shapes[found % n]
        codes = np.sort(ends, axis=1) @ np.array([self._count, 1])
        place = np.minimum(np.searchsorted(self._codes, codes), len(self._codes) - 1)
        there = self._codes[place] == codes
        at, pairs = fine[layer[found[there, 0]]], self._order[place[there]]
        order = np.lexsort((pairs, at))
        return at[order], pairs[order]
