"""Force elements and controllers of the library, in the machine code of a run of `simulate`.

What these do depends on t, q and v only, so their formulas can be traced once. Their numbers
(gains, references) become inputs of the code: runs with other numbers share it. A function of a
user may remember things or read what an event has changed; it is called as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.backends.native.lane_function import graph_function
from phipsi.circuits.wire_laws import circuit
from phipsi.control.controllers import ComputedTorque, PDGravity
from phipsi.control.references import Constant, FourierPath, JointPath
from phipsi.errors import LawError
from phipsi.forces.force import Force
from phipsi.laws.circuit import Circuit, Quantity
from phipsi.laws.graph import in_order
from phipsi.laws.law_operations import constant
from phipsi.laws.substitution import substituted
from phipsi.model.model import Model
from phipsi.motion.step_graph import StepGraph
from phipsi.simulation.simulator import Simulator

Array = NDArray[Any]
_CONTROLLERS = (ComputedTorque, PDGravity)
_REFERENCES = (Constant, FourierPath, JointPath)


def compiled_laws(model: Model, controller: Any, forces: Sequence[Force]) -> CompiledLaws | None:
    """The laws of a run as code; None if one of them is a function or a class of the user."""
    own = [type(x).__module__.startswith("phipsi.forces.") for x in forces]
    if controller is not None:
        own.append(type(controller) in _CONTROLLERS and type(controller.reference) in _REFERENCES)
    if not model.nv or not own or not all(own):
        return None
    try:
        return CompiledLaws(model, controller, forces)
    except LawError:  # a formula with branches, such as that of a path with loops
        return None


@final
class CompiledLaws:
    """The graph of laws, and what is compiled from it."""

    def __init__(self, model: Model, controller: Any, forces: Sequence[Force]) -> None:
        self.model = model
        laws = [*forces] if controller is None else [*forces, controller]
        self._circuit = _with_numbers_as_inputs(circuit(model, laws, 1.0))
        self._values = {n: np.asarray(x.value) for n, x in self._numbers().items()}
        self._record = "" if controller is None else f"{type(controller).__name__}.tau"

    def _numbers(self) -> dict[str, Quantity]:
        return self._circuit.of_kind("parameter")

    def _key(self, *more: Any) -> tuple[Any, ...]:
        """Equal for laws with the same code: nodes are interned."""
        made = self._circuit
        operands = tuple(x for one in made.evaluations for x in one.operands.values())
        evaluations = tuple((x.forms, x.modes, x.points) for x in made.evaluations)
        return (CompiledLaws, made.efforts, made.loads, operands, evaluations, *more)

    def accelerations(self) -> Callable[[float, Array, Array], Array | None]:
        """(t, q, v) → vdot (nv,), None where it cannot be computed: one call of machine code."""

        def build() -> Any:
            graph = StepGraph(self.model, self._circuit)
            found = graph.accelerations(graph.start, graph.forces(graph.start))
            (vdot,) = substituted([found], {graph.tau: constant(np.zeros(self.model.nv))})
            start = graph.start
            shapes = {"t": (), "q": start.q.shape, "v": start.v.shape}
            shapes |= {name: x.shape for name, x in self._numbers().items()}
            return graph_function(shapes, {"vdot": vdot}).direct

        direct, now = self.model.cached(self._key(), build), np.zeros(())
        numbers = tuple(self._values.values())

        def accelerations(t: float, q: Array, v: Array) -> Array | None:
            now[()] = t
            return direct(now, q, v, *numbers)

        return accelerations

    def stretch(
        self, method: str, dt: float
    ) -> Callable[[float, Array, Array, int], tuple[Array, Array, Array | None]]:
        """(t, q, v, steps) → q, v and efforts of the controller, (steps + 1, …), of fixed steps."""
        key = self._key(method, dt)
        sim: Simulator = self.model.cached(
            key, lambda: Simulator(self.model, self._circuit, dt, integrator=method)
        )
        names = ("q", "v", self._record) if self._record else ("q", "v")

        def stretch(t: float, q: Array, v: Array, steps: int) -> tuple[Array, Array, Array | None]:
            start = sim.start(q, v, t=t, parameters=self._values)
            run = sim.rollout(start, steps=steps, record=names, progress=False)
            if not run.complete:
                raise KeyboardInterrupt
            return run.q, run.v, run[self._record] if self._record else None

        return stretch


def _with_numbers_as_inputs(made: Circuit) -> Circuit:
    """A circuit whose arrays of numbers are parameters, so that its code does not contain them."""
    nodes = [x for x in (made.efforts, made.loads) if x is not None]
    operands = [x for one in made.evaluations for x in one.operands.values()]
    everything = [*nodes, *operands, *made.records.values()]
    arrays = [x for x in in_order(everything) if x.operation.name == "constant" and x.shape]
    numbers = [Quantity(f"number {i}", "parameter", x.shape, x.data) for i, x in enumerate(arrays)]
    known = dict(zip(arrays, (x.node for x in numbers), strict=True))
    evaluations = []
    for one in made.evaluations:
        new = substituted(list(one.operands.values()), known)
        evaluations.append(replace(one, operands=dict(zip(one.operands, new, strict=True))))
    records = substituted(list(made.records.values()), known)
    return replace(
        made,
        quantities={**made.quantities, **{x.name: x for x in numbers}},
        evaluations=tuple(evaluations),
        efforts=None if made.efforts is None else substituted([made.efforts], known)[0],
        loads=None if made.loads is None else substituted([made.loads], known)[0],
        records=dict(zip(made.records, records, strict=True)),
        energy=None,
    )
