"""The step of a run as a graph: the integrator's formula around forward dynamics and laws.

Out of it comes what the state is after a step, and from that machine code (run_code.py) and
derivatives. Explicit steps take the stage loop of stage_loop.py, implicit ones the text of
implicit_steps.py, each in one more kind of number: nodes. Implicit steps solve x = g(x) (below).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from phipsi.core.arrays import (
    Array,
    GraphEvaluator,
    Node,
    Primitive,
    Tracer,
    adjoints,
    call,
    graph_digest,
    in_order,
    law_operations as ops,
    substituted,
)
from phipsi.core.backends import BLOCK
from phipsi.core.machine import ArrayMachine
from phipsi.errors import PhipsiError
from phipsi.simulation.integrators.fixed_point import FixedPoint
from phipsi.simulation.integrators.group_calls import (
    end_of,
    euler_step,
    middle_of,
    momenta_after,
    moved,
    rate_of,
    wanted_momenta,
)
from phipsi.simulation.integrators.implicit_steps import Image, MiddleNumbers, take_implicit_step
from phipsi.simulation.integrators.lagrangian import RATES_OF_MOMENTA, lagrangian
from phipsi.simulation.integrators.stage_loop import StageArithmetic, take_step
from phipsi.simulation.integrators.step_graph import STEP, Forces, GraphState, StepGraph
from phipsi.simulation.integrators.tableaux import Method


def step_of(
    graph: StepGraph,
    method: Method,
    start: GraphState | None = None,
    *,
    smoothing: float = 0.0,
    differentiable: bool = False,
) -> GraphState:
    """The place after a step; that of a system is on its constraints.

    With `smoothing` (J), derivatives are those of smoothed contacts; with `differentiable` the
    graph has the same values, and derivatives.
    """
    start = start or graph.start
    end = _moved(graph, method, start, smoothing, differentiable)
    if not graph.circuit.delays:
        return end
    return end._replace(states={**end.states, **graph.delayed(start)})


def _moved(
    graph: StepGraph, method: Method, start: GraphState, smoothing: float, differentiable: bool
) -> GraphState:
    """The place after a step, without what laws remember of its beginning."""
    if graph.row_states:
        from phipsi.simulation.impacts.contact_steps import ContactSteps

        return ContactSteps(graph, smoothing=smoothing, differentiable=differentiable).step(start)
    if method.is_midpoint:
        return graph.closed(take_implicit_step(method, _MiddleNodes(graph, start)))
    return graph.closed(
        take_step(method, _Nodes(graph, method, start), 0.0), stiff=method.elastic_implicit
    )


@final
class _Nodes(StageArithmetic):
    """A step in nodes: y = [z, v, continuous states of laws]."""

    def __init__(self, graph: StepGraph, method: Method, start: GraphState) -> None:
        self._graph, self._method, self._from = graph, method, start
        self._names = tuple(graph.circuit.rates)
        self.start = (None, start.v, *(start.states[name] for name in self._names))

    def along(self, h: float, weights: Sequence[float], slopes: Sequence[Any]) -> Any:
        """y + h Σ w_i k_i; without slopes, z is None: the start itself."""
        used = [(w, k) for w, k in zip(weights, slopes, strict=False) if w]
        if not used:
            return self.start
        out: list[Node] = []
        for i, y in enumerate(self.start):
            total: Node | None = None
            for w, k in used:
                term = ops.apply("mul", k[i], ops.constant(w))
                total = term if total is None else ops.apply("add", term, total)
            assert total is not None
            change = ops.apply("mul", total, STEP)
            out.append(change if y is None else ops.apply("add", y, change))
        return tuple(out)

    def _place(self, y: Any, fraction: float) -> GraphState:
        start, model = self._from, self._graph.model
        z, v, *rest = y
        q = start.q if z is None else moved(model, start.q, z)
        t = start.t
        if fraction:
            later = STEP if fraction == 1 else ops.apply("mul", STEP, ops.constant(fraction))
            t = ops.apply("add", t, later)
        return GraphState(t, q, v, {**start.states, **dict(zip(self._names, rest, strict=True))})

    def slope(self, i: int, y: Any) -> tuple[Node, ...]:
        """[ż, vdot, rates]."""
        tableau = self._method.tableau
        assert tableau is not None
        place = self._place(y, tableau.c[i])
        forces = self._graph.forces(place)
        z, v = y[0], y[1]
        rate = v if z is None else rate_of(self._graph.model, z, v)
        vdot = self._graph.accelerations(place, forces, stage=i)
        return (rate, vdot, *forces.rates.values())

    def end(self, y: Sequence[Node]) -> GraphState:
        """The place after the step."""
        return self._place(y, 1.0)

    def euler(self, h: float) -> GraphState:
        """The same, of a semi-implicit step; states of laws advance with their rates before it."""
        start, graph = self._from, self._graph
        forces = graph.forces(start)
        inertia = graph.resistance(start) if self._method.damping_implicit else None
        if inertia is not None:
            inertia = ops.apply("mul", STEP, inertia)
        if self._method.elastic_implicit:
            vdot = graph.linearly_implicit_acceleration(start, forces)
        else:
            vdot = graph.accelerations(start, forces, inertia)
        q, v = euler_step(graph.model, start.q, start.v, vdot, STEP)
        return start.after(q, v, start.along(forces.rates))


@final
class _MiddleNodes(MiddleNumbers):
    """A step with its equation at the middle, in nodes; arithmetic is that of `Tracer`.

    States of laws are unknowns too, x, a node for each in the order of their names.
    """

    def __init__(self, graph: StepGraph, start: GraphState) -> None:
        self._graph, self._model, self.start = graph, graph.model, start
        self._names = tuple(graph.circuit.rates)
        self.q, self.v, self.h = Tracer(start.q), Tracer(start.v), Tracer(STEP)
        self._half = _times(STEP, ops.constant(0.5))
        self._t = _plus(start.t, self._half)
        modal = bool(self._model.has_more_rows)
        self._plain, self._loaded = (lagrangian(modal, loads) for loads in (False, True))

    def dot(self, x: Any, y: Any) -> Tracer:
        """Σ x y."""
        return Tracer(ops.reduce_sum((x * y).node, None))

    # ---- the group

    def moved(self, z: Any) -> Tracer:
        """q ∘ exp(z)."""
        return Tracer(moved(self._model, self.start.q, z.node))

    def middle(self, w: Any) -> Tracer:
        """The configuration at the middle of a variational step."""
        return Tracer(middle_of(self._model, self.start.q, w.node, STEP))

    def end(self, w: Any) -> Tracer:
        """The configuration at its end."""
        return Tracer(end_of(self._model, self.start.q, w.node, STEP))

    def wanted(self, w: Any, p: Any, force: Any, now: Any) -> Tracer:
        """The momenta at its middle that follow."""
        known = p.node, force.node, now.node
        return Tracer(wanted_momenta(self._model, w.node, STEP, *known))

    def after(self, w: Any, p: Any, force: Any) -> Tracer:
        """The momenta at its end."""
        return Tracer(momenta_after(self._model, self.start.q, w.node, STEP, p.node, force.node))

    # ---- the mechanism

    def at_middle(self, q: Any, w: Any, x: Any) -> GraphState:
        """The place at the middle of the step."""
        states = {**self.start.states, **dict(zip(self._names, x, strict=True))}
        return GraphState(self._t, q.node, w.node, states)

    def at_end(self, q: Any, v: Any, x: Any) -> GraphState:
        """The place after the step; states of laws are mirrored at their values in the middle."""
        olds = (self.start.states[name] for name in self._names)
        ends = (_minus(_times(y, ops.constant(2.0)), old) for y, old in zip(x, olds, strict=True))
        return self.start.after(q.node, v.node, dict(zip(self._names, ends, strict=True)))

    def forces(self, place: GraphState) -> Forces:
        """Efforts, loads, and rates of states of laws."""
        return self._graph.forces(place)

    def resistance(self, place: GraphState) -> Tracer | None:
        """How efforts resist."""
        found = self._graph.resistance(place, self._half)
        return None if found is None else Tracer(found)

    def accelerations(
        self, place: GraphState, forces: Forces, more: Any = None, inertia: Any = None
    ) -> Tracer:
        """Those that keep the constraints."""
        if more is not None:
            forces = forces._replace(efforts=_plus(forces.efforts, more.node))
        added = None if inertia is None else inertia.node
        return Tracer(self._graph.accelerations(place, forces, added, stage=1))

    def lagrangian(self, place: GraphState, forces: Forces) -> tuple[Tracer, Tracer]:
        """μ and λ, by one program."""
        forms = self._plain if forces.loads is None else self._loaded
        mu, slope = self._graph.evaluated(forms, place, forces)
        return Tracer(mu), Tracer(_plus(slope, forces.efforts))

    def momenta(self, place: GraphState) -> Tracer:
        """ℳ v; the program is that of `lagrangian`, so that a run has one less."""
        return Tracer(self._graph.evaluated(self._plain, place, self._only(place.v))[0])

    def rates(self, place: GraphState, momenta: Any, inertia: Any = None) -> Tracer:
        """(ℳ + inertia)⁻¹ momenta."""
        added = None if inertia is None else inertia.node
        form, acting = (RATES_OF_MOMENTA,), self._only(momenta.node)
        return Tracer(self._graph.evaluated(form, place, acting, added)[0])

    def _only(self, efforts: Node) -> Forces:
        return Forces(efforts, None, {})

    # ---- the equation

    def solve(
        self, middle: Callable[[Any], Any], image: Image, what: str
    ) -> tuple[Tracer, list[Node]]:
        """A call that iterates."""
        w = ops.input("rates at the middle", self.start.v.shape)
        olds = [self.start.states[name] for name in self._names]
        x = [
            ops.input(f"{name} at the middle", old.shape)
            for name, old in zip(self._names, olds, strict=True)
        ]
        found = image(middle(Tracer(w)), Tracer(w), x)
        rates = found.forces.rates.values()
        images = [_plus(y, _times(self._half, r)) for y, r in zip(olds, rates, strict=True)]
        measures = [(found.measure[0].node, found.measure[1].node)]
        measures += map(_measure, x, images, olds)
        unknowns, guesses = [w, *x], [self.start.v, *olds]
        solved = solution(unknowns, [found.rates.node, *images], guesses, measures)
        return Tracer(solved[0]), list(solved[1:])


def _plus(x: Node, y: Node) -> Node:
    return ops.apply("add", x, y)


def _minus(x: Node, y: Node) -> Node:
    return ops.apply("sub", x, y)


def _times(x: Node, y: Node) -> Node:
    return ops.apply("mul", x, y)


def _square(x: Node) -> Node:
    return ops.reduce_sum(_times(x, x), None)


def _measure(x: Node, new: Node, old: Node) -> Measure:
    """The change of an iterate; the image is as large as what it is the sum of."""
    return _square(_minus(new, x)), _plus(_square(old), _square(_minus(new, old)))


# ---- equations in graphs -------------------------------------------------------------------------
# A call that iterates x ← g(x, c) until x stands still (fixed_point.py has the method).
# The solution is differentiated by the implicit function theorem, x = g(x, c):
#
#     λ = weights + (∂g/∂x)* λ,     weights of c: (∂g/∂c)* λ
#
# which is an equation of the same kind, and its iteration contracts as the first one does.

Measure = tuple[Node, Node]
"""Squares: how much an iterate has changed, and how large it is."""


def solution(
    unknowns: Sequence[Node],
    images: Sequence[Node],
    guesses: Sequence[Node],
    measures: Sequence[Measure] = (),
) -> tuple[Node, ...]:
    """The fixed points of unknowns ← images near guesses.

    **Arguments:** `unknowns`, inputs of a graph; `images`, the next iterates, nodes that read them;
    `measures`, which decide when the iteration has converged (fixed_point.py), sums of squares
    if there are none. What does not depend on the unknowns is computed once, before the iteration.
    """
    pairs = measures or [_squares(x, y) for x, y in zip(unknowns, images, strict=True)]
    results = [*images, *(x for pair in pairs for x in pair)]
    moving = set(unknowns)
    for x in in_order(results):
        if any(y in moving for y in x.args):
            moving.add(x)
    used = dict.fromkeys(y for x in in_order(results) if x in moving for y in x.args)
    used |= dict.fromkeys(results)
    fixed = [x for x in used if x not in moving and x.operation.name != "constant"]
    inside = {x: ops.input(f"fixed {i}", x.shape) for i, x in enumerate(fixed)}
    body = substituted(results, inside)
    callee = Iteration(tuple(unknowns), tuple(inside.values()), tuple(body))
    return call(callee, *guesses, *fixed)


def _squares(x: Node, new: Node) -> Measure:
    return _square(_minus(new, x)), _square(new)


@final
class Iteration(Primitive):
    """The fixed point of a graph.

    **Attributes:** `unknowns` and `fixed`, the inputs of the graph, which are the arguments of the
    call, guesses for the unknowns; `body`, the images of the unknowns and the two parts of every
    measure.
    """

    def __init__(
        self, unknowns: tuple[Node, ...], fixed: tuple[Node, ...], body: tuple[Node, ...]
    ) -> None:
        self.unknowns, self.fixed, self.body = unknowns, fixed, body
        self.shapes = tuple(x.shape for x in unknowns)
        self.key = (unknowns, fixed, body)
        self.natives, digest = graph_digest([*unknowns, *fixed, *body])
        self.name = f"iteration {digest}"

    @property
    def images(self) -> tuple[Node, ...]:
        """The next iterates."""
        return self.body[: len(self.unknowns)]

    @property
    def measures(self) -> list[Measure]:
        """Change and size of iterates, which all have to be small."""
        rest = self.body[len(self.unknowns) :]
        return list(zip(rest[::2], rest[1::2], strict=True))

    def arrays(self, *args: Array) -> list[Array]:
        """The same on arrays; NaN where there is no solution."""
        inputs = (*self.unknowns, *self.fixed)
        given = [np.asarray(a, dtype=np.float64) for a in args]
        batch = np.broadcast_shapes(
            *(a.shape[: a.ndim - len(x.shape)] for x, a in zip(inputs, given, strict=True))
        )
        flat = [
            np.broadcast_to(a, (*batch, *x.shape)).reshape(-1, *x.shape)
            for x, a in zip(inputs, given, strict=True)
        ]
        count, n = math.prod(batch), len(self.unknowns)
        m = ArrayMachine(count)
        solver = _IterationOnArrays(self, m, flat[n:])
        for x, a in zip(solver.parts(), flat, strict=False):
            x[...] = np.moveaxis(a, 0, -1)
        with np.errstate(all="ignore"):
            solver.solve()
        found = [np.where(m.status == 0, x, np.nan) for x in solver.parts()]
        return [
            np.moveaxis(x, -1, 0).reshape(*batch, *y.shape)
            for x, y in zip(found, self.unknowns, strict=True)
        ]

    def prepare(self, host: Any) -> None:
        """That of the calls inside."""
        host.prepare(self.body)

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """A loop around the code of the graph."""
        from phipsi.simulation.integrators.iteration_code import write_iteration

        return write_iteration(code, self, args)

    def vjp(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """By the implicit function theorem; guesses do not matter."""
        n = len(self.unknowns)
        known = dict(zip(self.unknowns, results, strict=True))
        known |= dict(zip(self.fixed, args[n:], strict=True))
        bars = ops.filled(weights, self.shapes)
        to = [ops.input(f"to {x.data[0]}", x.shape) for x in self.unknowns]
        found = adjoints(self.images, to, (*self.unknowns, *self.fixed))
        moving = [i for i, x in enumerate(found) if x is not None]
        there = substituted([x for x in found if x is not None], known)
        terms: dict[int, Node] = dict(zip(moving, there, strict=True))
        images = [ops.apply("add", b, terms[i]) if i in terms else b for i, b in enumerate(bars)]
        solved = solution(to, images, bars)
        fixed = [i for i in range(n, n + len(self.fixed)) if i in terms]
        at = dict(zip(to, solved, strict=True))
        out = dict(zip(fixed, substituted([terms[i] for i in fixed], at), strict=True))
        return [out.get(i) for i in range(len(args))]


@final
class _IterationOnArrays:
    """`FixedPoint` around the graph of an `Iteration`, for many elements."""

    def __init__(self, callee: Iteration, m: ArrayMachine, fixed: Sequence[Array]) -> None:
        self._callee, self._m, self._error = callee, m, None
        self._body = GraphEvaluator(callee.body)
        n = sum(x.size for x in callee.unknowns)
        self._x, self._image = m.array(n), m.array(n, kept=False)
        self._measures = m.array(len(callee.measures), 2, kept=False)
        self._fixed = [m.input(a) for a in fixed]
        self._solver = FixedPoint(m, self._x, self._image, self._measures, self._evaluate)

    def parts(self) -> list[Array]:
        """The unknowns (…, lanes), in the memory of the machine."""
        ends = np.cumsum([x.size for x in self._callee.unknowns])[:-1]
        several = zip(np.split(self._x.data, ends), self._callee.unknowns, strict=True)
        return [part.reshape(*x.shape, -1) for part, x in several]

    def solve(self) -> None:
        """Solve; a failure of the graph at the guess is one of the caller's."""
        self._solver.solve()
        if self._error is not None and (self._m.status == BLOCK).any():
            raise self._error

    def _evaluate(self) -> None:
        names = [x.data[0] for x in (*self._callee.unknowns, *self._callee.fixed)]
        values = [np.moveaxis(x, -1, 0) for x in self.parts()]
        values += [x.lanes_first() for x in self._fixed]
        count = self._m.lanes
        try:
            found = self._body(dict(zip(names, values, strict=True)))
        except PhipsiError:
            one_by_one = [
                self._one(i, dict(zip(names, (x[i] for x in values), strict=True)))
                for i in range(count)
            ]
            found = [np.stack(x) for x in zip(*one_by_one, strict=True)]
        unknowns = self._callee.unknowns
        new = [
            np.broadcast_to(x, (count, *y.shape)).reshape(count, -1)
            for x, y in zip(found, unknowns, strict=False)
        ]
        self._image.fill(np.concatenate(new, axis=1))
        parts = [np.broadcast_to(x, (count,)) for x in found[len(unknowns) :]]
        self._measures.fill(np.stack(parts, axis=1).reshape(count, -1, 2))

    def _one(self, i: int, known: dict[str, Array]) -> list[Array]:
        """One element; NaN, and a failure, where the graph has no value."""
        try:
            return [np.asarray(x) for x in self._body(known)]
        except PhipsiError as error:
            self._error = self._error or error
            self._m.fail(np.arange(self._m.lanes) == i, BLOCK)
            return [np.full(x.shape, np.nan) for x in self._callee.body]
