"""contact_points: gaps, normals and points of all pairs of shapes that may touch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.backends.native.kernel.law_code import LawCode
from phipsi.backends.native.lane_function import LaneFunction, LaneKernel
from phipsi.backends.native.text.lane_arithmetic import Lane, fold_loop, i64
from phipsi.backends.options import CallOptions, Calls
from phipsi.compiler import compile, default_backend
from phipsi.contact.geometry.slots import slot_geometry
from phipsi.errors import InputError
from phipsi.laws import law_operations as ops
from phipsi.laws.calls import listing
from phipsi.laws.graph import Node, in_order
from phipsi.laws.law_values import evaluate
from phipsi.laws.trace import Traced, as_node
from phipsi.model.contact_pairs import Contacts
from phipsi.operators import frame_pose

Array = NDArray[Any]
_NOT_FINITE = 4


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
    **Cost:** one base-to-tip sweep and a formula per pair, in machine code.
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
    listed = _contacts_of(contacts)
    if not listed.n_slots:
        batch = np.shape(np.asarray(q, dtype=np.float64))[:-1]
        none = np.zeros((*batch, 0, 3))
        return ContactPoints(np.zeros((*batch, 0)), none, none, none)
    function = listed.model.cached((contact_points, listed), lambda: _Function(listed))
    return function(q, options)


def _contacts_of(given: Any) -> Contacts:
    found = given if isinstance(given, Contacts) else getattr(given, "contacts", None)
    if isinstance(found, Contacts):
        return found
    raise InputError(
        f"contact_points needs the pairs of shapes that may touch, not {type(given).__name__}. "
        f"For example:\n    pp.contact_points(pp.Contacts(model, ground=True), q)"
    )


class _Function:
    """Poses of the bodies by a program, then the formulas: in machine code, or on arrays."""

    def __init__(self, contacts: Contacts) -> None:
        names = [contacts.model.body_names[i] for i in contacts.bodies]
        self._poses = compile(frame_pose, contacts.model, points=names)
        X = ops.given("X", (len(names), 4, 4))
        self._nodes = [as_node(x) for x in slot_geometry(contacts, Traced(X))]
        self._fast = None
        if default_backend() == "native":
            native = compile(frame_pose, contacts.model, points=names, backend="native").native
            self._fast = None if native is None else _code(native, self._nodes)

    def __call__(self, q: Any, options: CallOptions) -> Any:
        fast = self._fast
        if fast is not None and options.get("on_error", "raise") == "raise":
            threads, out = options.get("threads", 1), options.get("out")
            found = fast.quick((q,), threads, out) if options else fast.fast(q)
            if found is not None:
                return ContactPoints(*found)
        calls = Calls(options)
        X = calls(self._poses, q)  # explains what is wrong with q
        values = evaluate(self._nodes, {"X": X}) if fast is None else fast.ufunc(q)[:-1]
        return calls.finish(ContactPoints(*values))


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
