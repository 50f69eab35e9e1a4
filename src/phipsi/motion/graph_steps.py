"""The step of a run as a graph: the integrator's formula around forward dynamics and laws.

Out of it comes what the state is after a step, and from that machine code (run_code.py) and
derivatives. Explicit steps take the stage loop of stage_loop.py, in one more kind of number: nodes.

Implicit ones solve x = g(x) (iteration.py) for the rates w at the middle of the step:

    implicit midpoint   ℳ (w − v) = h/2 T(q_m, w),             q_m = q ∘ exp(h w/2),   v⁺ = 2 w − v
    variational         ℳ(q_m) w = the momenta that follow from p and the forces;   variational.py

Laws act at the middle, and their states take the midpoint rule. With what the efforts of laws
resist, D = h/2 max(0, −∂τ/∂v − h/2 ∂τ/∂q), its diagonal, the iterations are

    w ← v + (ℳ + D)⁻¹ (D (w − v) + h/2 T),     w ← w + (ℳ + D)⁻¹ (momenta − ℳ w)

The solutions do not depend on D, but the iterations converge for stiff springs and dampers at
joints, as Newton's method does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from phipsi.laws import law_operations as ops
from phipsi.laws.graph import Node
from phipsi.laws.substitution import substituted
from phipsi.motion.group_calls import (
    end_of,
    euler_step,
    middle_of,
    momenta_after,
    moved,
    rate_of,
    wanted_momenta,
)
from phipsi.motion.iteration import Measure, solution
from phipsi.motion.lagrangian import RATES_OF_MOMENTA, lagrangian
from phipsi.motion.stage_loop import Arithmetic, take_step
from phipsi.motion.step_graph import STEP, Place, StepGraph
from phipsi.motion.tableaux import Method


def step_of(
    graph: StepGraph,
    method: Method,
    start: Place | None = None,
    *,
    smoothing: float = 0.0,
    differentiable: bool = False,
) -> Place:
    """The place after a step; that of a system is on its constraints.

    With `smoothing` (J), derivatives are those of smoothed contacts; with `differentiable` the
    graph has the same values, and derivatives.
    """
    start = start or graph.start
    if graph.row_states:
        from phipsi.motion.contact_steps import ContactSteps

        return ContactSteps(graph, smoothing=smoothing, differentiable=differentiable).step(start)
    if method.conserves:
        return _Halfway(graph, start).variational()
    if method.tableau is not None and not method.tableau.is_explicit:
        return graph.closed(_Halfway(graph, start).midpoint())
    return graph.closed(take_step(method, _Nodes(graph, method, start), 0.0), stiff=method.bends)


@final
class _Nodes(Arithmetic):
    """A step in nodes: y = [z, v, continuous states of laws]."""

    def __init__(self, graph: StepGraph, method: Method, start: Place) -> None:
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

    def _place(self, y: Any, fraction: float) -> Place:
        start, model = self._from, self._graph.model
        z, v, *rest = y
        q = start.q if z is None else moved(model, start.q, z)
        t = start.t
        if fraction:
            later = STEP if fraction == 1 else ops.apply("mul", STEP, ops.constant(fraction))
            t = ops.apply("add", t, later)
        return Place(t, q, v, {**start.states, **dict(zip(self._names, rest, strict=True))})

    def slope(self, i: int, y: Any) -> Any:
        """[ż, vdot, rates]."""
        tableau = self._method.tableau
        assert tableau is not None
        place = self._place(y, tableau.c[i])
        forces = self._graph.forces(place)
        z, v = y[0], y[1]
        rate = v if z is None else rate_of(self._graph.model, z, v)
        vdot = self._graph.accelerations(place, forces, stage=i)
        return (rate, vdot, *forces.rates.values())

    def end(self, y: Any) -> Place:
        """The place after the step."""
        return self._place(y, 1.0)

    def euler(self, h: float) -> Place:
        """The same, of a semi-implicit step; states of laws advance with their rates before it."""
        start, graph = self._from, self._graph
        forces = graph.forces(start)
        inertia = graph.resistance(start) if self._method.damps else None
        if inertia is not None:
            inertia = ops.apply("mul", STEP, inertia)
        if self._method.bends:
            vdot = graph.ahead(start, forces)
        else:
            vdot = graph.accelerations(start, forces, inertia)
        q, v = euler_step(graph.model, start.q, start.v, vdot, STEP)
        later = {
            name: ops.apply("add", start.states[name], ops.apply("mul", rate, STEP))
            for name, rate in forces.rates.items()
        }
        t = ops.apply("add", start.t, STEP)
        return Place(t, q, v, {**start.states, **later})


_ROUNDING = 1e-10
"""Times the square of q/h: changes of rates that q does not feel, when they no longer shrink."""


@final
class _Halfway:
    """Steps whose equation is at their middle; the unknowns are the rates and states there."""

    def __init__(self, graph: StepGraph, start: Place) -> None:
        self._graph, self._start, self._names = graph, start, tuple(graph.circuit.rates)
        self._half = _times(STEP, ops.constant(0.5))
        self._w = ops.given("rates at the middle", start.v.shape)
        self._x = [ops.given(f"{n} at the middle", start.states[n].shape) for n in self._names]
        self._t = _plus(start.t, self._half)

    def _middle(self, q: Node) -> Place:
        states = {**self._start.states, **dict(zip(self._names, self._x, strict=True))}
        return Place(self._t, q, self._w, states)

    def _states(self, rates: Sequence[Node]) -> tuple[list[Node], list[Measure]]:
        """The images of the states of laws."""
        olds = [self._start.states[name] for name in self._names]
        images = [_plus(x, _times(self._half, rate)) for x, rate in zip(olds, rates, strict=True)]
        triples = zip(self._x, images, olds, strict=True)
        return images, [_measure(x, new, old) for x, new, old in triples]

    def _rates_measure(self, new: Node) -> Measure:
        """As large as rates are, or as rounding of q makes them."""
        change, size = _measure(self._w, new, self._start.v)
        place = ops.apply("div", self._start.q, STEP)
        return change, _plus(size, _times(ops.constant(_ROUNDING), _square(place)))

    def _solved(
        self, image: Node, measure: Measure, rates: Sequence[Node]
    ) -> tuple[Node, dict[Node, Node], dict[str, Node]]:
        """w; the values of all unknowns; and the states of laws after the step."""
        start = self._start
        images, measures = self._states(rates)
        olds = [start.states[name] for name in self._names]
        found = solution(
            [self._w, *self._x], [image, *images], [start.v, *olds], [measure, *measures]
        )
        ends = {
            name: _beyond(x, old) for name, x, old in zip(self._names, found[1:], olds, strict=True)
        }
        return found[0], dict(zip([self._w, *self._x], found, strict=True)), ends

    def midpoint(self) -> Place:
        """The implicit midpoint rule."""
        graph, start, half, w = self._graph, self._start, self._half, self._w
        place = self._middle(moved(graph.model, start.q, _times(half, w)))
        forces = graph.forces(place)
        resistance, inertia = graph.resistance(place, half), None
        acting = forces
        if resistance is not None:
            inertia = _times(half, resistance)
            more = _times(resistance, _minus(w, start.v))
            acting = forces._replace(efforts=_plus(forces.efforts, more))
        image = _plus(start.v, _times(half, graph.accelerations(place, acting, inertia, stage=1)))
        found, _, ends = self._solved(
            image, self._rates_measure(image), list(forces.rates.values())
        )
        q = moved(graph.model, start.q, _times(STEP, found))
        v = _beyond(found, start.v)
        return Place(_plus(start.t, STEP), q, v, {**start.states, **ends})

    def variational(self) -> Place:
        """The discrete Euler–Lagrange equations."""
        graph, start, w, model = self._graph, self._start, self._w, self._graph.model
        place = self._middle(middle_of(model, start.q, w, STEP))
        forces = graph.forces(place)
        modal = bool(model.has_more_rows)
        plain, forms = (lagrangian(modal, x) for x in (False, forces.loads is not None))
        p, _ = graph.evaluated(plain, start, forces)
        mu, slope = graph.evaluated(forms, place, forces)
        force = _plus(slope, forces.efforts)
        wanted = wanted_momenta(model, w, STEP, p, force, mu)
        resistance = graph.resistance(place, self._half)

        def rates(at: Place, momenta: Node, inertia: Node | None = None) -> Node:
            given = forces._replace(efforts=momenta)
            return graph.evaluated((RATES_OF_MOMENTA,), at, given, inertia)[0]

        if resistance is None:
            image = rates(place, wanted)
            measure = _power(_minus(image, w), _minus(wanted, mu)), _power(image, wanted)
        else:
            image = _plus(w, rates(place, _minus(wanted, mu), _times(self._half, resistance)))
            measure = self._rates_measure(image)
        found, there, ends = self._solved(image, measure, list(forces.rates.values()))
        (force,) = substituted([force], there)
        q = end_of(model, start.q, found, STEP)
        after = momenta_after(model, start.q, found, STEP, p, force)
        # only what 2 w − v misses of v⁺ is solved for: the rounding of a solution is a constant
        # factor for one rigid body, and would make its momentum drift
        end = Place(_plus(start.t, STEP), q, _beyond(found, start.v), {**start.states, **ends})
        missing = rates(end, _minus(after, graph.evaluated(plain, end, forces)[0]))
        return end._replace(v=_plus(end.v, missing))


def _plus(x: Node, y: Node) -> Node:
    return ops.apply("add", x, y)


def _minus(x: Node, y: Node) -> Node:
    return ops.apply("sub", x, y)


def _times(x: Node, y: Node) -> Node:
    return ops.apply("mul", x, y)


def _beyond(x: Node, old: Node) -> Node:
    """2 x − old, the end of a step with x at its middle."""
    return _minus(_times(x, ops.constant(2.0)), old)


def _square(x: Node) -> Node:
    return ops.total(_times(x, x), None)


def _power(x: Node, y: Node) -> Node:
    """The size of a product of rates and momenta."""
    return ops.apply("abs", ops.total(_times(x, y), None))


def _measure(x: Node, new: Node, old: Node) -> Measure:
    """The change of an iterate; the image is as large as what it is the sum of."""
    return _square(_minus(new, x)), _plus(_square(old), _square(_minus(new, old)))
