"""The step of a run as a graph: the integrator's formula around forward dynamics and laws.

The stage loop is that of stage_loop.py, in one more kind of number: nodes. Out of it comes what the
state is after a step, and from that machine code (run_code.py) and derivatives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np

from phipsi.algorithms.constrained.system import System
from phipsi.algorithms.forms import FORWARD_DYNAMICS, closed_form, forward, loaded
from phipsi.backends.failures import DOUBTFUL
from phipsi.compiler import compile
from phipsi.laws import law_operations as ops
from phipsi.laws.calls import call
from phipsi.laws.circuit import Circuit
from phipsi.laws.graph import Node
from phipsi.laws.law_diagonals import diagonal
from phipsi.laws.substitution import substituted
from phipsi.model.model import Model
from phipsi.motion.stage_loop import Arithmetic, take_step
from phipsi.motion.step_calls import ProgramCall, euler_step, inertias, moved, rate_of
from phipsi.motion.tableaux import Method
from phipsi.operators import Jr

INERTIA = "inertia"
"""The name of the inertial parameters (n, 10) of `inertial_parameters`, given by trajectories."""
STEP = ops.given("h", ())
"""The length of a step, s."""


class Place(NamedTuple):
    """Where a trajectory is: time, configuration, rates, and states of laws by name."""

    t: Node
    q: Node
    v: Node
    states: Mapping[str, Node]


class Acting(NamedTuple):
    """What the laws say at a place, and how the mechanism moves there."""

    efforts: Node
    loads: Node | None
    vdot: Node
    rates: Mapping[str, Node]


@final
class StepGraph:
    """The equations of a run at any place: laws, forward dynamics, and steps.

    `given` names quantities of the algebra that every trajectory has its own of, as `compile`
    takes them, or `INERTIA`; they are inputs of the graph by the same names.
    """

    def __init__(self, mechanism: Model, circuit: Circuit, given: Sequence[str] = ()) -> None:
        self.model = model = mechanism.model
        self.circuit, self._named = circuit, tuple(given)
        self._given = tuple(dict.fromkeys("M" if x == INERTIA else x for x in given))
        self._system = mechanism if isinstance(mechanism, System) and mechanism.n_rows else None
        self.tau = ops.given("tau", (model.nv,))
        states = {name: x.node for name, x in circuit.of_kind("state").items()}
        t, q, v = (ops.given(*x) for x in (("t", ()), ("q", (model.nq,)), ("v", (model.nv,))))
        self.start = Place(t, q, v, states)
        external = circuit.loads is not None
        if self._system is None:
            form = loaded(forward, external=True) if external else FORWARD_DYNAMICS
            self._dynamics = self._later = ProgramCall((form,), model, given=self._given)
        else:
            form = closed_form(None, external, False)[0]
            self._dynamics = ProgramCall((form,), self._system, given=self._given)
            # between the steps loops are open by the error of a stage; see closure_code.py
            self._later = ProgramCall((form,), self._system, given=self._given, allowed=(DOUBTFUL,))

    @property
    def native(self) -> Any:
        """The machine code of forward dynamics."""
        return self._dynamics.native

    @property
    def parameters(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the quantities named in `given`."""
        shapes = {INERTIA: (self.model.n_bodies, 10), **self._dynamics.native.program.input_shapes}
        return {x: tuple(shapes[x]) for x in self._named}

    def values(self, place: Place, nodes: Sequence[Node]) -> list[Node]:
        """Nodes of the circuit at a place, with what they read of the algebra."""
        start = self.start
        known = {start.t: place.t, start.q: place.q, start.v: place.v}
        known |= {node: place.states[name] for name, node in start.states.items()}
        for one in self.circuit.evaluations:
            callee = ProgramCall(one.forms, self.model, mode=one.modes, points=one.points)
            operands = substituted(list(one.operands.values()), known)
            inputs = dict(zip(one.operands, operands, strict=True))
            found = self._called(callee, {"q": place.q, "v": place.v, **inputs})
            for name, node in zip(one.results, found, strict=True):
                known[self.circuit.quantities[name].node] = node
        return substituted(nodes, known)

    def _called(self, callee: ProgramCall, inputs: Mapping[str, Node]) -> tuple[Node, ...]:
        shapes = callee.native.program.input_shapes
        if INERTIA in self._named:
            n = self.model.n_bodies
            inputs = {**inputs, "M": inertias(ops.given(INERTIA, (n, 10)), n)}
        return call(
            callee, *(inputs.get(x) or ops.given(x, tuple(shapes[x])) for x in callee.inputs)
        )

    def acting(self, place: Place, inertia: Node | None = None, stage: int = 0) -> Acting:
        """Laws and motion at a place, with `inertia` (nv,) added to that of the rotors."""
        circuit = self.circuit
        wanted = [x for x in (circuit.efforts, circuit.loads) if x is not None]
        found = iter(self.values(place, [*wanted, *circuit.rates.values()]))
        efforts = self.tau
        if circuit.efforts is not None:
            efforts = ops.apply("add", efforts, next(found))
        loads = None if circuit.loads is None else next(found)
        vdot = self.accelerations(place, efforts, loads, inertia, stage)
        return Acting(efforts, loads, vdot, dict(zip(circuit.rates, found, strict=True)))

    def accelerations(
        self,
        place: Place,
        efforts: Node,
        loads: Node | None,
        inertia: Node | None = None,
        stage: int = 0,
    ) -> Node:
        """(ℳ + diag(inertia))⁻¹ (efforts − …), O(N) all the same."""
        dynamics = self._later if stage else self._dynamics
        inputs = {"q": place.q, "v": place.v, "tau": efforts}
        if loads is not None:
            inputs["f_ext"] = loads
        if inertia is None:
            return self._called(dynamics, inputs)[0]
        names = (*self._given, *(() if "Jr" in self._given else ("Jr",)))
        program = ProgramCall(dynamics.forms, dynamics.model, given=names, allowed=dynamics.allowed)
        inputs["Jr"] = self._rotors(inertia, program)
        return self._called(program, inputs)[0]

    def _rotors(self, inertia: Node, program: ProgramCall) -> Node:
        """The blocks of Jr, (n, r, r), with more on their diagonals."""
        shape = tuple(program.native.program.input_shapes["Jr"])
        places = [
            k * shape[1] ** 2 + i * (shape[1] + 1)
            for k, at in enumerate(self.model.v_slices)
            for i in range(at.stop - at.start)
        ]
        if "Jr" in self._given:
            more = ops.scatter(inertia, np.array(places), shape)
            return ops.apply("add", ops.given("Jr", shape), more)
        own = compile(Jr, self.model, mode="blocks")().ravel()
        known = np.flatnonzero(own)
        whole = ops.join([ops.constant(own[known]), inertia], (len(known) + inertia.size,))
        return ops.scatter(whole, np.concatenate([known, places]), shape)

    def damping(self, place: Place) -> Node | None:
        """max(0, −∂τᵢ/∂vᵢ) (nv,) of the laws, N·m·s or N·s/m; None if it is zero.

        What laws read of the algebra is taken as it is: forces on bodies do not count.
        """
        if self.circuit.efforts is None:
            return None
        slope = diagonal(self.circuit.efforts, self.start.v)
        if slope is None:
            return None
        damping = ops.apply("maximum", ops.apply("neg", slope), ops.constant(0.0))
        return self.values(place, [damping])[0]

    def sampled(self, place: Place, updates: Mapping[str, Node]) -> dict[str, Node]:
        """New values of states at a place, by name."""
        return dict(zip(updates, self.values(place, list(updates.values())), strict=True))

    def moved_to(self, place: Place, nodes: Sequence[Node]) -> list[Node]:
        """Nodes that are about the start, about another place."""
        start = self.start
        known = {start.t: place.t, start.q: place.q, start.v: place.v}
        known |= {node: place.states[name] for name, node in start.states.items()}
        return substituted(nodes, known)

    def after_samples(self) -> Place:
        """The place from which the step begins: samples are taken where their step has come."""
        place, step = self.start, ops.given("step", ())
        for one in self.circuit.samplings:
            turns = ops.apply("div", step, ops.constant(float(one.period)))
            due = ops.apply("equal", turns, ops.apply("floor", turns))
            new = {
                name: ops.apply("where", due, x, place.states[name])
                for name, x in self.sampled(place, one.updates).items()
            }
            place = place._replace(states={**place.states, **new})
        return place

    def step(self, method: Method, start: Place | None = None) -> Place:
        """The place after a step; that of a system is on its constraints."""
        end: Place = take_step(method, _Nodes(self, method, start or self.start), 0.0)
        if self._system is None:
            return end
        from phipsi.motion.closure_calls import ProjectionCall

        q, v = call(ProjectionCall(self._system), end.q, end.v)
        return end._replace(q=q, v=v)


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
        acting = self._graph.acting(self._place(y, tableau.c[i]), stage=i)
        z, v = y[0], y[1]
        rate = v if z is None else rate_of(self._graph.model, z, v)
        return (rate, acting.vdot, *acting.rates.values())

    def end(self, y: Any) -> Place:
        """The place after the step."""
        return self._place(y, 1.0)

    def euler(self, h: float) -> Place:
        """The same, of a semi-implicit step; states of laws advance with their rates before it."""
        start = self._from
        inertia = self._graph.damping(start) if self._method.damps else None
        if inertia is not None:
            inertia = ops.apply("mul", STEP, inertia)
        acting = self._graph.acting(start, inertia)
        q, v = euler_step(self._graph.model, start.q, start.v, acting.vdot, STEP)
        later = {
            name: ops.apply("add", start.states[name], ops.apply("mul", rate, STEP))
            for name, rate in acting.rates.items()
        }
        t = ops.apply("add", start.t, STEP)
        return Place(t, q, v, {**start.states, **later})
