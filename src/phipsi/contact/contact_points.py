"""contact_points and distances: gaps, normals and points of pairs of shapes.

A few pairs have loops of their own in machine code (`slot_geometry`), which hold their numbers and
are compiled again for other pairs, in a time that grows with them. Of many pairs at few
configurations, pairs are the batch of one formula for their kinds (`PairLanes`): the machine code
is that of the formula; numbers and poses of pairs are gathered. The arithmetic is the same, and so
are the bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple, Unpack, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.attached import BodyShape, bounding_ball, is_surface
from phipsi.contact.contact_pairs import ContactPair, Contacts
from phipsi.contact.contact_shapes import near_balls
from phipsi.contact.geometry.pair_code import select_if_near
from phipsi.contact.geometry.pair_formulas import (
    NOWHERE,
    Slots,
    may_be_far,
    numbers_of,
    one_graph,
    pair_graph,
    slot_geometry,
)
from phipsi.core.arrays import GraphEvaluator, Node, Tracer, as_node, law_operations as ops
from phipsi.core.backends import CallOptions, Calls
from phipsi.core.compiler import compile, default_backend
from phipsi.core.model import WORLD, as_floats
from phipsi.core.operators import frame_pose
from phipsi.errors import InputError
from phipsi.native import CustomKernel, graph_after_program, graph_function
from phipsi.support import fields_in_line

Array = NDArray[Any]
_MANY, _TOO_MANY = 500, 50_000  # pairs
_FEW = 500  # configurations, whose time by lanes is about that of compiling


class ContactPoints(NamedTuple):
    """Contact points, one per contact candidate (slot) of `Contacts`; all in world axes.

    Parameters
    ----------
    gap : ndarray, shape (..., k)
        Signed distance, m; negative where shapes penetrate.
    normal : ndarray, shape (..., k, 3)
        Unit normal from b to a.
    point_a, point_b : ndarray, shape (..., k, 3)
        Points on the surfaces, m.
    """

    gap: Array
    normal: Array
    point_a: Array
    point_b: Array

    def __repr__(self) -> str:
        return fields_in_line(self)


def contact_points(contacts: Any, q: ArrayLike, **options: Unpack[CallOptions]) -> ContactPoints:
    """Contact points: where the shapes of a mechanism touch, or are nearest.

    gap = n*(x_a − x_b) with the witness points x_a, x_b and the unit normal n from b to a. Its rate
    is exactly the normal component of the relative velocity of the witness points.

    Parameters
    ----------
    contacts : Contacts or System
        The pairs of shapes, or a system that has them.
    q : array_like, shape (..., nq)
        Configuration.
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    ContactPoints
        One entry per contact candidate (slot); `contacts.slot_names` are the names of their pairs.
        A slot without a contact has the gap 1e6 m.

    See Also
    --------
    distances : One signed distance per pair.

    Notes
    -----
    **Cost:** one base-to-tip sweep and a formula per pair, in machine code. For many bodies choose
    pairs with ``pp.Contacts(model, broadphase_poses=…)``: all pairs have a gap each, n²/2 of them.
    **Source:** theory/contact 1 and 8.

    Examples
    --------
    >>> import phipsi as pp
    >>> builder = pp.ModelBuilder()
    >>> body = builder.add_body("ball", joint=pp.joints.Prismatic(axis=(0, 0, 1)),
    ...                         inertia=pp.SpatialInertia(mass=1.0))
    >>> builder.add_shape("skin", "ball", pp.shapes.Sphere(0.1))
    >>> contacts = pp.Contacts(builder.build(), ground=True)
    >>> contacts.slot_names
    ('skin|ground',)
    >>> pp.contact_points(contacts, [[0.5], [0.08]]).gap.round(12).tolist()
    [[0.4], [-0.02]]
    """
    listed = _contacts_of(contacts, "contact_points")
    if not listed.n_slots:
        return _nothing(q, ContactPoints)
    function = listed.model.cached((contact_points, listed), lambda: _DistanceFunction(listed))
    return function(q, options)


class Distances(NamedTuple):
    """Signed distances, one per pair of `Contacts`; all in world axes.

    Parameters
    ----------
    distance : ndarray, shape (..., pairs)
        m; negative where shapes penetrate.
    normal : ndarray, shape (..., pairs, 3)
        Unit normal from b to a.
    point_a, point_b : ndarray, shape (..., pairs, 3)
        The nearest points, m.
    """

    distance: Array
    normal: Array
    point_a: Array
    point_b: Array

    def __repr__(self) -> str:
        return fields_in_line(self)


def distances(
    contacts: Any,
    q: ArrayLike,
    *,
    max_distance: float | None = None,
    **options: Unpack[CallOptions],
) -> Distances:
    """Signed distance of every pair of shapes, and the nearest points (collision checking).

    d = n*(x_a − x_b) with the nearest points x_a, x_b and the unit normal n from b to a; where
    shapes penetrate, −d is a way out along n. Its rate is n*(velocity of a at x_a − velocity of b
    at x_b).

    Parameters
    ----------
    contacts : Contacts or System
        It lists the pairs, which need not be those of a simulation: ``pp.Contacts(model)`` has all
        pairs of an arm for a check of self-collision.
    q : array_like, shape (..., nq)
        Configuration.
    max_distance : float, optional
        Skip pairs whose bounding spheres are farther apart (m), where that saves time: their
        distance is 1e6 m. Default: compute all pairs.
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    Distances
        One entry per pair; `contacts.pairs` has their names.

    See Also
    --------
    contact_points : Contact points of a simulation.

    Notes
    -----
    **Cost:** one base-to-tip sweep and a formula per pair, in machine code; with `max_distance` and
    many pairs, a formula for those that a grid of cells finds near, and a number for each of the
    others. **Source:** theory/contact 8.

    Examples
    --------
    >>> import phipsi as pp
    >>> builder = pp.ModelBuilder()
    >>> for name in ("can", "egg"):
    ...     body = builder.add_body(name, joint=pp.joints.Prismatic(axis=(0, 0, 1)),
    ...                             inertia=pp.SpatialInertia(mass=1.0))
    >>> builder.add_shape("can", "can", pp.shapes.Cylinder(0.1, 0.4))
    >>> builder.add_shape("egg", "egg", pp.shapes.Ellipsoid((0.1, 0.1, 0.2)))
    >>> result = pp.distances(pp.Contacts(builder.build()), [0.0, 1.0])
    >>> result.distance.round(12).tolist(), result.point_b[0].round(12).tolist()
    ([0.6], [0.0, 0.0, 0.8])
    """
    listed = _contacts_of(contacts, "distances")
    if max_distance is not None and (
        np.ndim(as_floats("max_distance", max_distance)) or not max_distance > 0
    ):
        raise InputError(
            f"distances: max_distance={max_distance!r} must be a length above 0, in m."
        )
    if not listed.n_slots:
        return _nothing(q, Distances)
    key = distances, listed, max_distance
    return listed.model.cached(key, lambda: _DistanceFunction(listed, max_distance, Distances))(
        q, options
    )


def _contacts_of(given: Any, who: str) -> Contacts:
    found = given if isinstance(given, Contacts) else getattr(given, "contact_pairs", None)
    if isinstance(found, Contacts):
        return found
    raise InputError(
        f"{who} needs the pairs of shapes that may touch, not {type(given).__name__}. "
        f"For example:\n    pp.{who}(pp.Contacts(model, ground=True), q)"
    )


def _nothing(q: ArrayLike, result: Any) -> Any:
    batch = np.shape(np.asarray(q, dtype=np.float64))[:-1]
    none = np.zeros((*batch, 0, 3))
    return result(np.zeros((*batch, 0)), none, none, none)


def _nearest(contacts: Contacts, slots: Slots) -> Slots:
    """Of every pair, the slot with the smallest gap."""
    parts: list[Any] = []
    for _, group in groupby(contacts.pairs, lambda pair: pair.slots):
        pairs = list(group)
        first, width = pairs[0].first, pairs[0].slots
        own = [x[first : first + len(pairs) * width] for x in slots[:4]]
        columns = [Slots(*(x[k::width] for x in own)) for k in range(width)]
        best = columns[0]
        for other in columns[1:]:
            nearer = other.gap < best.gap
            pick = [nearer] + [nearer[:, None]] * 3
            both = zip(pick, other[:4], best[:4], strict=True)
            best = Slots(*(np.where(c, x, y) for c, x, y in both))
        parts.append(best[:4])
    return Slots(*(np.concatenate(values) for values in zip(*parts, strict=True)))


class _DistanceFunction:
    """Poses of the bodies by a program, then the formulas: in machine code, or on arrays.

    Machine code with the numbers of many pairs takes long to compile, the longer the more there
    are. The first `_FEW` configurations of `_MANY` pairs are by lanes of pairs, which need none of
    that and give bitwise identical results, and so are all of `_TOO_MANY` pairs.
    """

    def __init__(
        self, contacts: Contacts, within: float | None = None, result: Any = ContactPoints
    ) -> None:
        self._result, self._contacts, self._within = result, contacts, within
        self._is_native = default_backend() == "native"
        count = len(contacts.pairs)
        self._left = _FEW if count >= _MANY and self._is_native else 0
        self._left = math.inf if self._left and count >= _TOO_MANY else self._left
        self._fast: CustomKernel | None = None
        self._lanes: Any = None
        if self._left:
            names = contacts.model.body_names
            self._every_pose = compile(frame_pose, contacts.model, points=names)
            self._lanes = PairLanes(contacts, within, result is Distances)
        else:
            self._compile()

    def _compile(self) -> None:
        """The code that holds the numbers of all pairs."""
        contacts = self._contacts
        names = [contacts.model.body_names[i] for i in contacts.bodies]
        poses = compile(frame_pose, contacts.model, points=names)
        X, every = ops.input("X", (len(names), 4, 4)), len(contacts.pairs) >= _MANY
        slots = slot_geometry(contacts, Tracer(X), self._within, every)._replace(weight=None)
        found = slots if self._result is ContactPoints else _nearest(contacts, slots)
        self._nodes = [as_node(x) for x in found[:4]]
        native = None
        if self._is_native:
            native = compile(frame_pose, contacts.model, points=names, backend="native").native
        if native is not None:
            parts = ("gap", "normal", "point_a", "point_b")
            results: dict[str, Node] = dict(zip(parts, self._nodes, strict=True))
            self._fast = graph_after_program(native, "X", results)
        self._poses, self._lanes = poses, None

    def __call__(self, q: Any, options: CallOptions) -> Any:
        for name in options.keys() - CallOptions.__annotations__.keys():
            raise TypeError(
                f"there is no argument {name!r} here; options are out, threads, on_error"
            )
        calls, lanes = Calls(options), self._lanes
        if lanes is not None:
            self._left -= max(1, np.size(q) // max(1, self._contacts.model.nq))
            if self._left >= 0:
                return self._by_lanes(lanes, q, options, calls)
            key = contact_points, self._contacts, self._within, self._result
            self._contacts.model.cached(key, self._compile)
        fast = self._fast
        if fast is not None and calls.raises:
            threads, out = options.get("threads", 1), options.get("out")
            found = fast.quick((q,), threads, out) if options else fast.fast(q)
            if found is not None:
                return self._result(*found)
        X = calls(self._poses, q)  # explains what is wrong with q
        values = self._evaluated({"X": X}) if fast is None else fast.ufunc(q)[:-1]
        return calls.finish(self._result(*values))

    @cached_property
    def _evaluated(self) -> GraphEvaluator:
        return GraphEvaluator(self._nodes)

    def _by_lanes(self, lanes: PairLanes, q: Any, options: CallOptions, calls: Calls) -> Any:
        X = calls(self._every_pose, q)
        return calls.finish(self._result(*lanes(X, options.get("threads", 1))))


# ---- many pairs at few configurations ------------------------------------------------------------


_AT_ONCE = 1 << 14
"""Pairs whose numbers are gathered at once: a few megabytes."""
_SLACK = 1e-9
"""How much farther, relative to sizes and places, the grid looks than the test of a formula."""
_NAMES = ("gap", "normal", "x_a", "x_b")


@final
class PairLanes:
    """Gaps, normals and points of all slots of `Contacts` from poses of bodies.

    **Arguments:** `contacts`; `within` (m), leave out pairs whose bounding spheres are farther
    apart, which a grid of cells finds: their slots have no contact, as in `slot_geometry` with
    `every`; `nearest`, of every pair the slot with the smallest gap in place of all its slots.
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
        self._groups: list[_PairGroup] = []
        first = 0
        for _, group in groupby(contacts.pairs, lambda pair: pair.group):
            pairs = list(group)
            self._groups.append(_PairGroup(contacts, first, pairs, self._sides, within))
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
        self,
        out: Sequence[Array],
        found: Sequence[Array],
        group: _PairGroup,
        at: Array,
        pairs: Array,
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
class _PairGroup:
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
            self._code = cached(key, lambda: _lane_code(one_graph(one), self._moves, 0, False))
            return
        own = [np.unique(x).tolist() for x in sides[first : first + len(pairs)].T]
        self._rows = [_numbers_by_shape(shapes, x) for x in own]
        width = sum(x.shape[1] for x in self._rows) + 8
        turned = tuple(any(shapes[i].is_turned for i in x) for x in own)
        has_limit = self._within is not None

        def build() -> CustomKernel:
            limit = Tracer(ops.input("within", ())) if has_limit else None
            results, far = pair_graph(one, turned, limit)
            found = select_if_near(far, results[: len(NOWHERE)], NOWHERE)
            return _lane_code(found, self._moves, width, has_limit)

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


def _lane_code(
    results: Sequence[Node], moves: tuple[bool, bool], width: int, has_limit: bool
) -> CustomKernel:
    """Machine code of a formula, with pairs as lanes."""
    inputs: dict[str, tuple[int, ...]] = {}
    inputs |= {name: (4, 4) for name, there in zip(("X_a", "X_b"), moves, strict=True) if there}
    inputs |= {"row": (width,)} if width else {}
    inputs |= {"within": ()} if has_limit else {}
    return graph_function(inputs, dict(zip(_NAMES, results, strict=True)))


@final
class _Grid:
    """Which pairs of a list are near: shapes by their bounding spheres, in cells."""

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
