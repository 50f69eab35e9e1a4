"""Formulas of the joints' groups as calls in graphs: moving on configuration space, step by step.

A configuration with quaternions has nq numbers, a change of it nv. In graphs, weights of q (the
derivative of a cost by it) have nq numbers, like q: those of a program, which are along the rates,
are lifted by w = T (T*T)⁻¹ g, T = ∂(q ∘ exp z)/∂z at z = 0, and lowered again by g = T* w.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, final

import numpy as np

from phipsi.algorithms import chart_of
from phipsi.core.arrays import (
    TRACED,
    Array,
    Node,
    Primitive,
    Tracer,
    adjoints,
    as_node,
    call,
    evaluate,
    law_operations as ops,
    substituted,
    tangents,
)
from phipsi.core.model import Model
from phipsi.core.spatial import LieGroup, flat


class GroupFormula(NamedTuple):
    """A formula of every group: its name, and the layout of arguments and results.

    A layout is "q", "v", or "one" for a number. `own` is computed in place of the method of groups
    with this name.
    """

    name: str
    takes: tuple[str, ...]
    gives: tuple[str, ...]
    own: Callable[..., Any] | None = None

    def compute(self, group: LieGroup, *given: Any) -> Sequence[Any]:
        """The results at one joint; the last of what is `given` computes with its numbers."""
        *parts, numbers = given
        args = [x[0] if kind == "one" else x for x, kind in zip(parts, self.takes, strict=True)]
        if self.own is None:
            found = getattr(group, self.name)(*args, numbers)
        else:
            found = self.own(group, *args, numbers)
        return found if len(self.gives) > 1 else (found,)


def _unit(group: LieGroup, q: Any, numbers: Any) -> Any:
    if group.rotation is None or group.rotation.size != 4:
        return q
    length = numbers.sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3])
    return (*(x / length for x in q[:4]), *q[4:])


def _pushed(group: LieGroup, v: Any, vdot: Any, h: Any, numbers: Any) -> Any:
    return group.pushed(v, vdot, h)


def _same(group: LieGroup, q: Any, x: Any, numbers: Any) -> Any:
    """Of joints with q̇ = v; that of others is made from the tangents of `MOVE`."""
    return x


MOVE = GroupFormula("move", ("q", "v"), ("q",))
RATE = GroupFormula("rate", ("v", "v"), ("v",))
EULER = GroupFormula("euler", ("q", "v", "v", "one"), ("q", "v"))
PLACED = GroupFormula("placed", ("q", "v", "v", "v", "one"), ("q", "v"))
PUSHED = GroupFormula("pushed", ("v", "v", "one"), ("v",), _pushed)
MIDDLE = GroupFormula("middle", ("q", "v", "one"), ("q",))
END = GroupFormula("end", ("q", "v", "one"), ("q",))
WANTED = GroupFormula("wanted", ("v", "one", "v", "v", "v"), ("v",))
AFTER = GroupFormula("after", ("q", "v", "one", "v", "v"), ("v",))
UNIT = GroupFormula("unit", ("q",), ("q",), _unit)
LIFT = GroupFormula("lift", ("q", "v"), ("q",), _same)
LOWER = GroupFormula("lower", ("q", "q"), ("v",), _same)
VELOCITY = GroupFormula("velocity", ("q", "v"), ("q",), _same)
_BY_TANGENTS = (LIFT, LOWER, VELOCITY)


@dataclass(frozen=True)
class _Graph:
    """A formula of one group as a graph: inputs, each with its name, and results."""

    inputs: tuple[tuple[Node, ...], ...]
    results: tuple[tuple[Node, ...], ...]


def _size(group: LieGroup, kind: str) -> int:
    return {"q": group.nq, "v": group.nv, "one": 1}[kind]


@cache
def _graph(formula: GroupFormula, group: LieGroup) -> _Graph:
    inputs = tuple(
        tuple(ops.input(f"{i}.{j}", ()) for j in range(_size(group, kind)))
        for i, kind in enumerate(formula.takes)
    )
    numbers = [[Tracer(x) for x in part] for part in inputs]
    found = formula.compute(group, *numbers, TRACED)
    return _Graph(inputs, tuple(tuple(as_node(x) for x in part) for part in found))


@cache
def _pulled_graph(formula: GroupFormula, group: LieGroup) -> _Graph:
    """Arguments, then weights of the results → weights of the arguments."""
    graph = _tangent_graph(formula, group) if formula is VELOCITY else _graph(formula, group)
    first = len(graph.inputs)
    weights = tuple(
        tuple(ops.input(f"{first + i}.{j}", ()) for j in range(len(part)))
        for i, part in enumerate(graph.results)
    )
    flat = [x for part in graph.results for x in part]
    bars = adjoints(flat, [w for part in weights for w in part], sum(graph.inputs, ()))
    nothing, rest = ops.constant(0.0), iter(bars)
    out = tuple(tuple(next(rest) or nothing for _ in part) for part in graph.inputs)
    return _Graph((*graph.inputs, *weights), out)


@cache
def _tangent_graph(formula: GroupFormula, group: LieGroup) -> _Graph:
    """(q, v) → T v, (q, g) → T (T*T)⁻¹ g, or (q, w) → T* w; the columns of T are orthogonal."""
    graph = _graph(MOVE, group)
    q, z = graph.inputs
    at_zero = {x: ops.constant(0.0) for x in z}
    columns = []
    for along in z:
        change = tangents(graph.results[0], {along: ops.constant(1.0)})
        columns.append(substituted([x or ops.constant(0.0) for x in change], at_zero))
    given = tuple(ops.input(f"1.{j}", ()) for j in range(_size(group, formula.takes[1])))
    g: list[Any] = [Tracer(x) for x in given]
    T: list[list[Any]] = [[Tracer(x) for x in column] for column in columns]
    lifted = group.lift([Tracer(x) for x in q], g) if formula is LIFT else None
    if lifted is not None:
        return _Graph((q, given), (tuple(as_node(x) for x in lifted),))
    if formula is LIFT:
        g = [x / sum(t * t for t in column) for x, column in zip(g, T, strict=True)]
    if formula is LOWER:
        out = [sum(t * w for t, w in zip(column, g, strict=True)) for column in T]
    else:
        out = [sum(T[j][i] * g[j] for j in range(group.nv)) for i in range(group.nq)]
    return _Graph((q, given), (tuple(as_node(x) for x in out),))


@final
class GroupCall(Primitive):
    """A formula at every joint of a model; `pulls`, the weights of its arguments instead."""

    any_width = True

    def __init__(self, formula: GroupFormula, model: Model, *, pulls: bool = False) -> None:
        self.formula, self.model, self.pulls = formula, model, pulls
        self.name = f"{formula.name} pulled" if pulls else formula.name
        self._takes = (*formula.takes, *formula.gives) if pulls else formula.takes
        self._gives = tuple(x for x in formula.takes if x != "one") if pulls else formula.gives
        sizes = {"q": model.nq, "v": model.nv}
        self.shapes = tuple((sizes[x],) for x in self._gives)
        self.key = (formula.name, pulls, id(model))

    def _graph(self, group: LieGroup) -> _Graph:
        if not self.pulls:
            by_tangents = self.formula in _BY_TANGENTS
            return (_tangent_graph if by_tangents else _graph)(self.formula, group)
        found = _pulled_graph(self.formula, group)
        kept = [i for i, x in enumerate(self.formula.takes) if x != "one"]
        return _Graph(found.inputs, tuple(found.results[i] for i in kept))

    def arrays(self, *args: Array) -> Sequence[Array]:
        """Joint by joint."""
        model = self.model
        arrays = [np.asarray(a)[..., None] if k == "one" else np.asarray(a)
                  for a, k in zip(args, self._takes, strict=True)]  # fmt: skip
        batch = np.broadcast_shapes(*(a.shape[:-1] for a in arrays))
        out = [np.empty((*batch, *shape)) for shape in self.shapes]
        for joint, at_q, at_v in zip(model.joints, model.q_slices, model.v_slices, strict=True):
            for group, i, j in joint.parts(at_q.start, at_v.start):
                at = {"q": slice(i, i + group.nq), "v": slice(j, j + group.nv), "one": slice(0, 1)}
                graph = self._graph(group)
                parts = [a[..., at[k]] for a, k in zip(arrays, self._takes, strict=True)]
                values = {
                    x.data[0]: np.broadcast_to(a[..., n], batch)
                    for a, part in zip(parts, graph.inputs, strict=True)
                    for n, x in enumerate(part)
                }
                for array, kind, part in zip(out, self._gives, graph.results, strict=True):
                    if part:
                        found = evaluate(part, values)
                        array[..., at[kind]] = np.stack(np.broadcast_arrays(*found), axis=-1)
        return out

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """A loop over the joints."""
        direct = None if self.pulls or self.formula in _BY_TANGENTS else self.formula.compute
        kinds = self._takes, self._gives
        return code.host.call_joints(code, args, kinds, self.shapes, self._graph, direct)

    def vjp(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """The same call with weights."""
        if self.pulls or self.formula in (LIFT, LOWER):
            raise NotImplementedError("second derivatives of a step")
        back = GroupCall(self.formula, self.model, pulls=True)
        found = iter(call(back, *args, *ops.filled(weights, self.shapes)))
        return [None if kind == "one" else next(found) for kind in self.formula.takes]


def _at_joints(formula: GroupFormula, model: Model, *args: Node) -> tuple[Node, ...]:
    """A formula at every joint; where q̇ = v for all of them, on whole vectors at once."""
    if not chart_of(model).is_flat:
        return call(GroupCall(formula, model), *args)
    found = formula.compute(flat(1), *([Tracer(x)] for x in args), TRACED)
    return tuple(as_node(x) for (x,) in found)


def moved(model: Model, q: Node, z: Node) -> Node:
    """q ∘ exp(z)."""
    return _at_joints(MOVE, model, q, z)[0]


def unit_places(model: Model, q: Node) -> Node:
    """The same configuration with quaternions of length 1."""
    return _at_joints(UNIT, model, q)[0]


def velocity(model: Model, q: Node, v: Node) -> Node:
    """q̇ = N(q) v (nq,), for quaternions of length 1."""
    return _at_joints(VELOCITY, model, q, v)[0]


def rate_of(model: Model, z: Node, v: Node) -> Node:
    """ż = dexp⁻¹(z) v."""
    return _at_joints(RATE, model, z, v)[0]


def euler_step(model: Model, q: Node, v: Node, vdot: Node, h: Node) -> tuple[Node, Node]:
    """q⁺ and v⁺ of a semi-implicit step."""
    q1, v1 = _at_joints(EULER, model, q, v, vdot, h)
    return q1, v1


def placed_step(
    model: Model, q: Node, v: Node, vdot: Node, mean: Node, h: Node
) -> tuple[Node, Node]:
    """The same where q moves with the rates `mean`, in the axes at the start of the step."""
    q1, v1 = _at_joints(PLACED, model, q, v, vdot, mean, h)
    return q1, v1


def pushed_rates(model: Model, v: Node, vdot: Node, h: Node) -> Node:
    """The rates after a semi-implicit step in the axes at its start; contacts act on these."""
    return _at_joints(PUSHED, model, v, vdot, h)[0]


def middle_of(model: Model, q: Node, w: Node, h: Node) -> Node:
    """The configuration at the middle of a variational step with the rates w."""
    return _at_joints(MIDDLE, model, q, w, h)[0]


def end_of(model: Model, q: Node, w: Node, h: Node) -> Node:
    """The configuration at its end."""
    return _at_joints(END, model, q, w, h)[0]


def wanted_momenta(model: Model, w: Node, h: Node, p: Node, force: Node, now: Node) -> Node:
    """The momenta at its middle that follow from p; `now` are those of w."""
    return _at_joints(WANTED, model, w, h, p, force, now)[0]


def momenta_after(model: Model, q: Node, w: Node, h: Node, p: Node, force: Node) -> Node:
    """The momenta at its end."""
    return _at_joints(AFTER, model, q, w, h, p, force)[0]


def lifted(model: Model, q: Node, g: Node) -> Node:
    """Weights (nq,) of q from those (nv,) along the rates."""
    return _at_joints(LIFT, model, q, g)[0]


def lower(model: Model, q: Array, w: Array) -> Sequence[Array]:
    """Weights (..., nv) along the rates from those (..., nq) of q."""
    return (w,) if chart_of(model).is_flat else GroupCall(LOWER, model).arrays(q, w)
