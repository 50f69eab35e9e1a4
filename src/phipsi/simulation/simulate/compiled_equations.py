"""The equations of a run of `simulate` as machine code, with everything that acts in it.

What the library and laws of `pp.law` do depends on t, q and v only, so their formulas are traced
once. Their numbers (gains, references) become inputs of the code: runs with other numbers share it.
A function or a class of a user may remember things or read what an event has changed: it is called
as it is, and its values are inputs of the code too.

    stage     t, [z, v, w] → [ż, vdot, ẇ]     one stage of any integrator, one call
    stretch   t, q, v, w → those after every step of many fixed ones

z are the exponential coordinates of exponential_chart.py, w the quadratures.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms import Chart, System, accelerations, inverse, loaded
from phipsi.core.arrays import (
    Node,
    as_node,
    in_order,
    law_operations as ops,
    traced_call,
    traced_twice,
)
from phipsi.core.backends import DOUBTFUL
from phipsi.core.expressions import Expr
from phipsi.core.model import Model
from phipsi.core.operators import V
from phipsi.errors import LawError
from phipsi.laws import AlgebraBlock, BlockDiagram, Law, Quantity
from phipsi.simulation.diagram.connect_laws import block_diagram
from phipsi.simulation.diagram.diagram_builder import DiagramBuilder, replaced
from phipsi.simulation.forces.force import BoundForces, Force
from phipsi.simulation.integrators.graph_steps import step_of
from phipsi.simulation.integrators.group_calls import moved, rate_of
from phipsi.simulation.integrators.step_calls import ProgramCall
from phipsi.simulation.integrators.step_graph import Forces, GraphState, StepGraph
from phipsi.simulation.integrators.tableaux import METHODS
from phipsi.simulation.runs.run_memory import RunMemory
from phipsi.simulation.runs.run_program import RunProgram
from phipsi.simulation.simulate.prescribed import Prescribed
from phipsi.simulation.simulate.quadratures import Quadrature, Quadratures
from phipsi.simulation.simulate.stepper import CompiledStates, CompiledSteps
from phipsi.simulation.simulate.traced_parts import can_be_traced
from phipsi.simulation.trajectory.trajectory import WORK

Array = NDArray[Any]


class Traces(NamedTuple):
    """What of a run is in its graphs: the controller, force elements, and functions by name."""

    controller: Any
    forces: tuple[Force, ...]
    prescribed: Mapping[str, Law]
    quadratures: Mapping[str, Quadrature]


@final
class CompiledEquations:
    """The graphs of a run's equations, and what is compiled from them.

    **Attributes:** `own_controller`, whether the efforts of the controller are given, by a function
    of the user; `own_forces`, elements whose efforts and forces are given, None without any;
    `own_accelerations`, whether some of prescribed joints are, all but `traced_accelerations`;
    `own_quadratures`, numbers of those that are.
    """

    def __init__(
        self,
        model: Model,
        controller: Any,
        forces: Sequence[Force],
        prescribed: Prescribed | None = None,
        system: System | None = None,
        quadratures: Quadratures | None = None,
    ) -> None:
        self.model, self._prescribed, self._system = model, prescribed, system
        self._quadratures = quadratures or Quadratures(model, None, False)
        traces = Traces(
            controller if can_be_traced(controller) else None,
            tuple(x for x in forces if can_be_traced(x)),
            {}
            if prescribed is None
            else {n: f for n, f in prescribed.functions if can_be_traced(f)},
            {n: x for n, x in self._quadratures.given.items() if can_be_traced(x)},
        )
        for fewer in (traces, traces._replace(controller=None), Traces(None, (), {}, {})):
            try:
                made = block_diagram(system or model, _listed(fewer), 1.0)
                break
            except LawError:  # a formula with branches, such as that of a path with loops
                continue
        self._traces = fewer
        self.own_controller = controller is not None and fewer.controller is None
        own = [x for x in forces if x not in fewer.forces]
        self.own_forces = BoundForces(own, model) if own else None
        functions = () if prescribed is None else prescribed.functions
        self.own_accelerations = any(n not in fewer.prescribed for n, _ in functions)
        self.traced_accelerations = fewer.prescribed
        self.own_quadratures = [
            i for i, name in enumerate(self._quadratures.given) if name not in fewer.quadratures
        ]
        self._driven = prescribed is not None or (system is not None and bool(system.rates.any()))
        made = _with_numbers_as_inputs(replace(made, energy=None))
        if self.own_forces is not None and self.own_forces.act_on_bodies:
            given = Quantity("loads", "effort", (model.n_bodies, 6))
            made = _with_loads(made, given)
        if self._quadratures.has_work and not self._driven:
            made = _with_work(made, model)
        self._circuit = made
        self._numbers = {n: np.asarray(x.value) for n, x in made.of_kind("parameter").items()}

    @property
    def is_complete(self) -> bool:
        """Whether nothing is given by functions of the user."""
        own = self.own_controller or self.own_forces is not None or self.own_accelerations
        return not own and not self.own_quadratures

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for equations with the same code: nodes are interned."""
        made = self._circuit
        operands = tuple(x for one in made.evaluations for x in one.operands.values())
        evaluations = tuple((x.forms, x.modes, x.points) for x in made.evaluations)
        named = tuple(made.rates.items()), tuple(made.records.items()), self._quadratures.names
        held = None if self._prescribed is None else self._prescribed.free.tobytes()
        parts = made.efforts, made.loads, operands, evaluations, *named, held
        return (CompiledEquations, *parts, tuple(self._traces.prescribed), self._driven)

    # ---- graphs -------------------------------------------------------------------------------

    def _called(self, forms: Sequence[Expr], inputs: Mapping[str, Node], system: bool) -> Any:
        mechanism = self._system if system and self._system is not None else self.model
        # inside a step loops are open by the error of a stage
        return ProgramCall(forms, mechanism, allowed=(DOUBTFUL,) if system else ()).of(inputs)

    def _accelerations(
        self, graph: StepGraph, place: GraphState, forces: Forces
    ) -> tuple[Node, ...]:
        """vdot, and the multipliers of a system."""
        nv, loops = self.model.nv, self._system is not None
        form = accelerations(loops, self._prescribed is not None, forces.loads is not None)
        inputs = {"q": place.q, "v": place.v, "tau": forces.efforts}
        if forces.loads is not None:
            inputs["f_ext"] = forces.loads
        if self._prescribed is not None:
            inputs["free"] = ops.input("free", (nv,))
            inputs["vdot"] = self._given_accelerations(graph, place)
        return self._called(form, inputs, loops)

    def _given_accelerations(self, graph: StepGraph, place: GraphState) -> Node:
        """Those of prescribed joints (nv,), by numbers and functions, and by laws."""
        out = ops.input("vdot", (self.model.nv,))
        names = [_prescribed_by(name) for name in self._traces.prescribed]
        found = graph.values(place, [self._circuit.records[x] for x in names])
        for name, node in zip(self._traces.prescribed, found, strict=True):
            out = ops.apply("add", out, self._scattered(name, node))
        return out

    def _scattered(self, joint: str, value: Node) -> Node:
        """The value of a joint among all rates (nv,)."""
        at = np.arange(self.model.nv)[self.model.v_slice(joint)]
        return ops.scatter_add(ops.expand(value, at.shape), at, (self.model.nv,))

    def _needed(self, place: GraphState, vdot: Node, loads: Node | None) -> Node:
        """The efforts (nv,) of all joints that a motion needs."""
        inputs = {"q": place.q, "v": place.v, "vdot": vdot}
        if loads is not None:
            inputs["f_ext"] = loads
        return self._called((loaded(inverse, external=loads is not None),), inputs, False)[0]

    def _rates(self, place: GraphState, forces: Forces, vdot: Node) -> list[Node]:
        """Those of the quadratures; 0 where functions of the user give them."""
        known = dict(forces.rates)
        if self._quadratures.has_work and self._driven:
            # what moves joints or rows as prescribed is found from the motion; others do no work
            effort = self._needed(place, vdot, forces.loads)
            motions = None
            if forces.loads is not None:
                (motions,) = self._called((V,), {"q": place.q, "v": place.v}, False)
            known[_state_of(WORK)] = _power(place.v, effort, motions, forces.loads)
        names = map(_state_of, self._quadratures.names)
        return [known.get(name) or ops.constant(0.0) for name in names]

    # ---- one stage ----------------------------------------------------------------------------

    def _stage_plan(self) -> RunProgram:
        model, nv = self.model, self.model.nv
        y, base = ops.input("y", (self.size,)), ops.input("base", (model.nq,))
        z, v = ops.gather(y, np.arange(nv)), ops.gather(y, np.arange(nv, 2 * nv))
        q = z if Chart(model).is_flat else moved(model, base, z)
        graph = StepGraph(model, self._circuit)
        states = dict.fromkeys(graph.start.states, ops.constant(0.0))
        place = GraphState(graph.start.t, q, v, states)
        forces = graph.forces(place)
        vdot, *multipliers = self._accelerations(graph, place, forces)
        parts = [rate_of(model, z, v), vdot, *self._rates(place, forces, vdot)]
        found = {"rates": ops.concat(parts, (self.size,))}
        found |= dict(zip(("multipliers",), multipliers, strict=False))
        own = {"t": 1, "base": model.nq, "y": self.size, "tau": nv, "vdot": nv, "free": nv}
        own["loads"] = 6 * model.n_bodies
        return RunProgram(graph.native, found, {}, own, self._sizes(), (), {})

    @property
    def size(self) -> int:
        """How many numbers [z, v, w] has."""
        return 2 * self.model.nv + len(self._quadratures)

    def _sizes(self) -> dict[str, int]:
        return {name: max(1, x.size) for name, x in self._numbers.items()}

    def stage(self) -> CompiledStage:
        """The stage of this run, with memory of its own."""
        plan = self._mechanism.cached((*self.key, "stage"), self._stage_plan)
        rows = 0 if self._system is None else self._system.n_rows
        out = CompiledStage(plan, self.model, self._numbers, self.size, rows)
        if self._prescribed is not None:
            out.free[:], out.vdot[:] = self._prescribed.free, self._prescribed.numbers
        return out

    @property
    def _mechanism(self) -> Model:
        return self.model if self._system is None else self._system

    # ---- many steps ---------------------------------------------------------------------------

    @property
    def can_stretch(self) -> bool:
        """Whether whole steps can be in machine code."""
        held = self._prescribed is not None
        # what drives joints or rows is known only after the accelerations
        unknown = (held and self._system is not None) or (
            self._driven and self._quadratures.has_work
        )
        return self.is_complete and not unknown

    def _stretch_plan(self, method: str) -> RunProgram:
        made, held = self._circuit, self._prescribed is not None
        if held:
            made = self._with_given_accelerations()
        graph = StepGraph(self._mechanism, made, prescribed=held)
        end = step_of(graph, METHODS[method])
        states = {"q": end.q, "v": end.v, "t": end.t, **end.states}
        records = {name: ops.input(name, node.shape) for name, node in states.items()}
        if self._traces.controller is not None:
            name = _recorded_as(self._traces.controller)
            (records["tau"],) = graph.values(graph.start, [made.records[name]])
        if held:
            records["tau"] = self._drives(graph, records.get("tau"))
        own = {"free": self.model.nv} if held else {}
        return RunProgram(
            graph.native, states, {"tau": self.model.nv}, own, self._sizes(), (), records
        )

    def _with_given_accelerations(self) -> BlockDiagram:
        """Accelerations of prescribed joints in the places of their efforts, as `StepGraph` wants.

        Those by numbers come as efforts from outside.
        """
        made, free = self._circuit, ops.input("free", (self.model.nv,))
        out = ops.constant(np.zeros(self.model.nv))
        if made.efforts is not None:
            out = ops.apply("mul", free, made.efforts)
        for name in self._traces.prescribed:
            out = ops.apply("add", out, self._scattered(name, made.records[_prescribed_by(name)]))
        return replace(made, efforts=out)

    def _drives(self, graph: StepGraph, tau: Node | None) -> Node:
        """Efforts (nv,) of the controller, and those that prescribed joints need."""
        forces, efforts = graph.forces(graph.start), self._circuit.efforts
        vdot = graph.accelerations(graph.start, forces)
        needed = self._needed(graph.start, vdot, forces.loads)
        tau = ops.constant(np.zeros(self.model.nv)) if tau is None else tau
        if efforts is not None:  # without those of the elements
            (elements,) = graph.values(graph.start, [efforts])
            needed = ops.apply("sub", needed, ops.apply("sub", elements, tau))
        is_free = ops.apply("less", ops.constant(0.0), ops.input("free", (self.model.nv,)))
        return ops.apply("where", is_free, tau, needed)

    def stretch(self, method: str, dt: float) -> CompiledSteps:
        """(t, q, v, w, steps) → those of all steps, of an integrator with the fixed step dt."""
        plan = self._mechanism.cached(
            (*self.key, "stretch", method), lambda: self._stretch_plan(method)
        )
        model, names = self.model, [_state_of(x) for x in self._quadratures.names]
        given = np.zeros(model.nv) if self._prescribed is None else self._prescribed.numbers

        def stretch(t: float, q: Array, v: Array, w: Array, steps: int) -> CompiledStates | None:
            arrays: dict[str, Array] = {"t": np.array([t]), "q": q[None].copy()}
            arrays |= {"v": v[None].copy(), "tau": given[None].copy(), **self._numbers}
            arrays |= {name: np.array([x]) for name, x in zip(names, w, strict=True)}
            if self._prescribed is not None:
                arrays["free"] = self._prescribed.free[None].copy()
            memory = RunMemory(plan, arrays, 1)
            found = {n: np.empty((1, steps + 1, *x.shape)) for n, x in plan.records.items()}
            for name, array in found.items():
                memory.place(f"record {name}", array)
            if not memory.run(dt, steps, 0, records=True):
                return None
            sums = np.array([found[name][0] for name in names]).reshape(len(names), steps + 1).T
            tau = found["tau"][0] if "tau" in found else None
            return CompiledStates(found["q"][0], found["v"][0], sums, tau)

        return stretch


@final
class CompiledStage:
    """[z, v, w] → [ż, vdot, ẇ] in one call of machine code.

    **Attributes:** memory that is read: `tau` (nv,) and `loads` (n, 6) of functions of the user,
    `vdot` (nv,) of prescribed joints and `free` (nv,), 0 there; `multipliers` (rows,) of the last
    call.
    """

    def __init__(
        self, plan: RunProgram, model: Model, numbers: Mapping[str, Array], size: int, rows: int
    ) -> None:
        self._flat = Chart(model).flat_q
        self._base: Array | None = None
        self._t, self._y = np.zeros(1), np.zeros((1, size))
        self._place, self._rates = np.zeros((1, model.nq)), np.zeros((1, size))
        found, given = np.zeros((1, rows)), [np.zeros((1, model.nv)) for _ in range(3)]
        loads = np.zeros((1, model.n_bodies, 6))
        self.tau, self.vdot, self.free = (x[0] for x in given)
        self.loads, self.multipliers = loads[0], found[0]
        arrays = dict(zip(("tau", "vdot", "free"), given, strict=True))
        arrays |= {"t": self._t, "y": self._y, "base": self._place, "loads": loads, **numbers}
        arrays |= {"rates": self._rates, "multipliers": found}
        self._memory = RunMemory(plan, arrays, 1)
        self._call = self._memory.stepper(0.0, 0)

    def __call__(self, t: float, base: Array, y: Array) -> Array | None:
        """ẏ (2 nv + n,) in coordinates about `base`; None where it cannot be computed."""
        self._t[0], self._y[0] = t, y
        if base is not self._base:
            self._base, self._place[0] = base, base
            self._place[0, self._flat] = 0.0  # of joints with q̇ = v, z is q
        if self._call():
            self._memory.status[0] = 0
            return None
        return self._rates[0].copy()


# ---- circuits -----------------------------------------------------------------------------------


def _state_of(quadrature: str) -> str:
    return f"quadrature {quadrature}"


def _prescribed_by(joint: str) -> str:
    return f"acceleration of {joint}"


def _recorded_as(controller: Any) -> str:
    """The name of the efforts of a controller."""
    name = controller.name if isinstance(controller, Law) else type(controller).__name__
    return f"{name}.tau"


def _listed(traces: Traces) -> list[Any]:
    """What `block_diagram` takes."""
    out = [*traces.forces, *(_Quadrature(*x) for x in traces.quadratures.items())]
    out += [_Acceleration(*x) for x in traces.prescribed.items()]
    return out if traces.controller is None else [*out, traces.controller]


class _SideOutput:
    """A number that is computed beside the motion."""

    def __init__(self, name: str, of: Any) -> None:
        self.name, self.of = name, of

    @staticmethod
    def wire_all(several: Sequence[_SideOutput], wiring: DiagramBuilder) -> None:
        """Trace all of them."""
        for one in several:
            one.wire(wiring)

    def wire(self, wiring: DiagramBuilder) -> None:
        """Trace its formula."""

    def value(self, wiring: DiagramBuilder) -> Node:
        """The value of a law."""
        law = self.of
        return traced_twice(
            lambda: as_node(traced_call(law.function, wiring.t, wiring.q, wiring.v)),
            operator.is_,
            law.function,
            law.place,
        )


@final
class _Acceleration(_SideOutput):
    """That of a prescribed joint."""

    def wire(self, wiring: DiagramBuilder) -> None:
        """A record."""
        wiring.record(_prescribed_by(self.name), self.value(wiring))


@final
class _Quadrature(_SideOutput):
    """The rate of a quadrature: a law, or the power of a force element."""

    def wire(self, wiring: DiagramBuilder) -> None:
        """A continuous state."""
        wiring.state(_state_of(self.name), 0.0)
        element = isinstance(self.of, Force)
        rate = self._power(wiring) if element else self.value(wiring)
        wiring.change(_state_of(self.name), rate)

    def _power(self, wiring: DiagramBuilder) -> Node:
        alone = _TermCollector(wiring)
        Force.wire_all([self.of], alone)  # type: ignore[arg-type]
        motions = wiring.kinematics()[1].node if alone.loads else None
        parts = (alone.total(alone.efforts), motions, alone.total(alone.loads))
        return _power(wiring.v.node, *parts)


@final
class _TermCollector:
    """A wiring whose efforts and loads are collected, and do not act."""

    def __init__(self, wiring: DiagramBuilder) -> None:
        self._wiring = wiring
        self.efforts, self.loads, self.energy = list[Node](), list[Node](), list[Node]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wiring, name)

    def add(self, where: str, value: Any, law: str = "") -> None:
        """Collect a term."""
        getattr(self, where).append(as_node(value))

    @staticmethod
    def total(terms: Sequence[Node]) -> Node | None:
        """Their sum."""
        out: Node | None = None
        for x in terms:
            out = x if out is None else ops.apply("add", out, x)
        return out


def _power(v: Node, efforts: Node | None, motions: Node | None, loads: Node | None) -> Node:
    """v* tau + Σ V*(k) f(k), W."""
    out = ops.constant(0.0)
    for x, y in ((v, efforts), (motions, loads)):
        if x is not None and y is not None:
            out = ops.apply("add", out, ops.reduce_sum(ops.apply("mul", x, y), None))
    return out


def _with_loads(made: BlockDiagram, more: Quantity) -> BlockDiagram:
    """A circuit with forces on bodies that are given."""
    loads = more.node if made.loads is None else ops.apply("add", made.loads, more.node)
    return replace(made, loads=loads, quantities={**made.quantities, more.name: more})


def _with_work(made: BlockDiagram, model: Model) -> BlockDiagram:
    """A circuit with the power of all that acts as the rate of a state."""
    tau, v = (ops.input(name, (model.nv,)) for name in ("tau", "v"))
    name = _state_of(WORK)
    state = Quantity(name, "state", (), np.zeros(()))
    motions = Quantity("motions of bodies", "result", (model.n_bodies, 6))
    efforts = tau if made.efforts is None else ops.apply("add", tau, made.efforts)
    power = _power(v, efforts, None if made.loads is None else motions.node, made.loads)
    quantities, evaluations = {**made.quantities, name: state}, made.evaluations
    if made.loads is not None:
        quantities[motions.name] = motions
        evaluations = (*evaluations, AlgebraBlock((V,), (motions.name,), ("apply",)))
    rates = {**made.rates, name: power}
    return replace(made, quantities=quantities, evaluations=evaluations, rates=rates)


def _with_numbers_as_inputs(made: BlockDiagram) -> BlockDiagram:
    """A circuit whose arrays of numbers are parameters, so that its code does not contain them."""
    operands = [x for one in made.evaluations for x in one.operands.values()]
    arrays = [
        x
        for x in in_order([*made.results, *operands, *made.records.values()])
        if x.operation.name == "constant" and x.shape
    ]
    numbers = [Quantity(f"number {i}", "parameter", x.shape, x.data) for i, x in enumerate(arrays)]
    known = dict(zip(arrays, (x.node for x in numbers), strict=True))
    made = replaced(made, known)
    return replace(made, quantities={**made.quantities, **{x.name: x for x in numbers}})
