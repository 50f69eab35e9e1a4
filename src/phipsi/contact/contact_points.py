"""contact_points and distances: gaps, normals and points of pairs of shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.backends.native.kernel.law_code import LawCode
from phipsi.backends.native.lane_function import LaneFunction, LaneKernel
from phipsi.backends.native.text.lane_arithmetic import Lane, fold_loop, i64
from phipsi.backends.options import CallOptions, Calls
from phipsi.compiler import compile, default_backend
from phipsi.contact.geometry.slots import Slots, slot_geometry
from phipsi.contact.pair_lanes import PairLanes
from phipsi.errors import InputError
from phipsi.laws import law_operations as ops
from phipsi.laws.calls import listing
from phipsi.laws.graph import Node, in_order
from phipsi.laws.law_values import evaluate
from phipsi.laws.trace import Traced, as_node
from phipsi.model.contact_pairs import Contacts
from phipsi.model.numbers import as_floats
from phipsi.operators import frame_pose

Array = NDArray[Any]
_NOT_FINITE = 4
_MANY, _TOO_MANY = 500, 50_000  # pairs
_FEW = 500  # configurations, whose time by lanes is about that of compiling


class ContactPoints(NamedTuple):
    """Contact points, one per slot of `Contacts`.

    **Attributes:** `gap` (..., k), m, negative where shapes overlap; `normal` (..., k, 3), unit,
    from b to a; `point_a`, `point_b` (..., k, 3), m, on the surfaces; all in world axes.
    """

    gap: Array
    normal: Array
    point_a: Array
    point_b: Array


def contact_points(contacts: Any, q: ArrayLike, **options: Unpack[CallOptions]) -> ContactPoints:
    """Where the shapes of a mechanism touch, or are nearest.

    gap = n*(x_a − x_b) with the witness points x_a, x_b and the unit normal n from b to a. Its rate
    is exactly the normal component of the relative velocity of the witness points.

    **Arguments:** `contacts`, `Contacts` or a system that has them; `q` (..., nq).
    **Returns:** `ContactPoints`, one entry per slot; `contacts.slot_names` are the names of their
    pairs. A slot without a contact has the gap 1e6 m.
    **Cost:** one base-to-tip sweep and a formula per pair, in machine code. For many bodies choose
    pairs with ``pp.Contacts(model, near=…)``: all pairs have a gap each, n²/2 of them.
    **Source:** theory/contact 1 and 8.

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
    function = listed.model.cached((contact_points, listed), lambda: _Function(listed))
    return function(q, options)


class Distances(NamedTuple):
    """Signed distances, one per pair of `Contacts`.

    **Attributes:** `distance` (..., pairs), m, negative where shapes overlap; `normal`
    (..., pairs, 3), unit, from b to a; `point_a`, `point_b` (..., pairs, 3), m, the nearest points;
    all in world axes.
    """

    distance: Array
    normal: Array
    point_a: Array
    point_b: Array


def distances(
    contacts: Any, q: ArrayLike, *, within: float | None = None, **options: Unpack[CallOptions]
) -> Distances:
    """The distance of every pair of shapes, and where they are nearest.

    d = n*(x_a − x_b) with the nearest points x_a, x_b and the unit normal n from b to a; in an
    overlap −d is a way out along n. Its rate is n*(velocity of a at x_a − velocity of b at x_b).

    **Arguments:** `contacts`, `Contacts` or a system that has them; it lists the pairs, which need
    not be those of a simulation: ``pp.Contacts(model)`` has all pairs of an arm for a check of
    collisions with itself. `q` (..., nq). `within` (m), leave out pairs that bounding balls show to
    be farther apart, where that saves time: their distance is 1e6 m.
    **Returns:** `Distances`, one entry per pair; `contacts.pairs` has their names.
    **Cost:** one base-to-tip sweep and a formula per pair, in machine code; with `within` and many
    pairs, a formula for those that a grid of cells finds near, and a number for each of the others.
    **Source:** theory/contact 8.

    >>> import phipsi as pp
    >>> builder = pp.ModelBuilder()
    >>> for name in ("can", "egg"):
    ...     body = builder.add_body(name, joint=pp.joints.Prismatic(axis=(0, 0, 1)),
    ...                             inertia=pp.SpatialInertia(mass=1.0))
    >>> builder.add_shape("can", "can", pp.shapes.Cylinder(0.1, 0.4))
    >>> builder.add_shape("egg", "egg", pp.shapes.Ellipsoid((0.1, 0.1, 0.2)))
    >>> found = pp.distances(pp.Contacts(builder.build()), [0.0, 1.0])
    >>> found.distance.round(12).tolist(), found.point_b[0].round(12).tolist()
    ([0.6], [0.0, 0.0, 0.8])
    """
    listed = _contacts_of(contacts, "distances")
    if within is not None and (np.ndim(as_floats("within", within)) or not within > 0):
        raise InputError(f"distances: within={within!r} must be a length above 0, in m.")
    if not listed.n_slots:
        return _nothing(q, Distances)
    key = distances, listed, within
    return listed.model.cached(key, lambda: _Function(listed, within, Distances))(q, options)


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


class _Function:
    """Poses of the bodies by a program, then the formulas: in machine code, or on arrays.

    Machine code with the numbers of many pairs takes long to compile, the longer the more there
    are. The first `_FEW` configurations of `_MANY` pairs are by lanes of pairs, which need none of
    that and have the same bits, and so are all of `_TOO_MANY` pairs.
    """

    def __init__(
        self, contacts: Contacts, within: float | None = None, result: Any = ContactPoints
    ) -> None:
        self._result, self._contacts, self._within = result, contacts, within
        self._is_native = default_backend() == "native"
        count = len(contacts.pairs)
        self._left = _FEW if count >= _MANY and self._is_native else 0
        self._left = math.inf if self._left and count >= _TOO_MANY else self._left
        self._fast: LaneFunction | None = None
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
        X, every = ops.given("X", (len(names), 4, 4)), len(contacts.pairs) >= _MANY
        slots = slot_geometry(contacts, Traced(X), self._within, every)._replace(weight=None)
        found = slots if self._result is ContactPoints else _nearest(contacts, slots)
        self._nodes = [as_node(x) for x in found[:4]]
        native = None
        if self._is_native:
            native = compile(frame_pose, contacts.model, points=names, backend="native").native
        self._fast = None if native is None else _code(native, self._nodes)
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
        values = evaluate(self._nodes, {"X": X}) if fast is None else fast.ufunc(q)[:-1]
        return calls.finish(self._result(*values))

    def _by_lanes(self, lanes: PairLanes, q: Any, options: CallOptions, calls: Calls) -> Any:
        X = calls(self._every_pose, q)
        return calls.finish(self._result(*lanes(X, options.get("threads", 1))))


def _code(native: Any, nodes: Sequence[Node]) -> LaneFunction:
    """q → the values of nodes of X, which is what a program returns."""
    results = dict(zip(("gap", "normal", "point_a", "point_b"), nodes, strict=True))

    def write(kernel: LaneKernel) -> None:
        (X,) = kernel.call_program(native, kernel.code, [kernel.inputs["q"]])
        code = LawCode(kernel.module, kernel.e, {"X": X}, kernel.area, kernel)
        total = kernel.e.constant(0.0)
        for name, value in zip(results, code.write(nodes), strict=True):
            value, out = code.stored(value), kernel.results[name]

            def put(i: Any, so_far: list[Any], value: Any = value, out: Any = out) -> list[Any]:
                x = code.entry(value, i)
                code.put(x, out, i)
                return [kernel.e.spoiled(Lane(kernel.e, so_far[0]), x).value]

            size = i64(results[name].size)
            total = Lane(kernel.e, fold_loop(kernel.b, size, 1, [total.value], put)[0])
        kernel.fail(kernel.b.not_(kernel.e.compare("==", total, 0.0)), _NOT_FINITE)

    listed = in_order(nodes)
    text = "\n".join([*listing(listed, [native]), repr([listed.index(x) for x in nodes])])
    shapes = {name: node.shape for name, node in results.items()}
    return LaneFunction(text, [native], {"q": (native.input_shapes[0])}, shapes, write)
