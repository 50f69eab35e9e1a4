"""The step of a simulator by itself: what others read, evaluate, write for targets, differentiate.

A step is y⁺ = F(y, u, π): states y, inputs u, parameters π. `CompiledStep` has them by name, and F
as graphs (arrays/graph.py). Everything else is made from these graphs, and needs nothing of a
`Simulator` beyond this module:

    evaluated      `evaluate`, one step of many states
    written        `plan` and `other_plan`, of which code for any target is written
    recorded       `node`, a quantity between two steps
    differentiated `adjoint`, backward through a run

Forward derivatives A = ∂y⁺/∂y and B = ∂y⁺/∂u are not here yet; their place is a method beside
`adjoint`, in the same coordinates: those of q and q⁺ along the rates. It would push tangents from
the nodes in `before` and ``tau`` to those in `after` (core/arrays/law_derivatives.py, `tangents`),
which needs `Primitive.pushed` of the calls in steps: programs of the algebra, formulas of joints,
closed chains, iterations. None of them has it. Until then, A and B of a mechanism without laws are
`step_derivatives`, those in continuous time with laws `linearize`, and `adjoint` gives the products
w* A and w* B with weights w of the states.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi import contact
from phipsi.core.arrays import Node, Shape, as_node, evaluate, input as given_node
from phipsi.core.model import Model, entry_names, joint_units
from phipsi.errors import InputError, did_you_mean
from phipsi.identification import inertial_parameters
from phipsi.laws import INERTIA, BlockDiagram
from phipsi.simulation import impacts, integrators
from phipsi.simulation.compiled.episodes import Episodes, shared_of
from phipsi.simulation.integrators.graph_steps import step_of
from phipsi.simulation.integrators.step_calls import column_of
from phipsi.simulation.integrators.step_graph import StepGraph
from phipsi.simulation.integrators.tableaux import METHODS
from phipsi.simulation.runs.rollout import failure

if TYPE_CHECKING:
    from phipsi.simulation.runs.run_gradient import RunGradient
    from phipsi.simulation.runs.run_program import PeriodicUpdate, RunProgram

Array = NDArray[Any]
_HOLDS = re.compile(r"\.(previous|delay\d+)$")  # states that hold what other records are


@final
@dataclass(frozen=True, eq=False)
class StepQuantity:
    """A state, an input, a parameter or a record of a step.

    Attributes
    ----------
    name : str
        Its name.
    shape : tuple of int
        Its shape in one trajectory.
    first : ndarray, shape (*shape), or None
        Its first value; None for records, and for parameters that every trajectory supplies.
    units : tuple of str
        Units of the entries, such as "rad" and "m/s2", "" where none is known, and () where none is
        known for any.
    labels : tuple of str
        Names of the entries of q, v and tau.
    """

    name: str
    shape: Shape
    first: Array | None = None
    units: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """The number of entries; 1 of a number."""
        return math.prod(self.shape)

    @property
    def entries(self) -> list[str]:
        """A name for every entry: "q.elbow" by joints, "gain" of a number, else "gain[1,2]"."""
        if self.labels:
            return [f"{self.name}.{x}" for x in self.labels]
        if not self.shape:
            return [self.name]
        places = np.ndindex(*self.shape)
        return [f"{self.name}[{','.join(str(i + 1) for i in place)}]" for place in places]


@final
class CompiledStep:
    """A step y⁺ = F(y, u, π) of a mechanism with all laws that act on it.

    A `Simulator` has it as ``sim.compiled``; export, pages, gym and studies read nothing else.

    Attributes
    ----------
    mechanism, model : Model
        The model or system, and its tree.
    dt : float
        Time step, s.
    integrator : str
        Name of the integrator.
    reproducible : bool
        Whether the results of its code are bitwise identical on every processor.
    episodes : Episodes or None
        Episodes of the simulator.
    per_trajectory : tuple of str
        Per-trajectory parameters of the mechanism.
    states, inputs, parameters : mapping of str to StepQuantity
        What the step reads, by name.
    before, after : mapping of str to Node
        Nodes of all states at the beginning and at the end of the step, by name.
    graph : StepGraph
        The equations of motion at any place, for what others compute besides.
    circuit : BlockDiagram
        All laws as one graph.
    restart, randomized
        Of episodes: the checks, and the parameters that they change.

    Examples
    --------
    >>> import phipsi as pp
    >>> step = pp.Simulator(pp.examples.planar_arm(2), dt=1e-3).compiled
    >>> list(step.states), list(step.inputs), step.states["q"].entries
    (['q', 'v', 't'], ['tau'], ['q.joint1', 'q.joint2'])
    >>> after = step.evaluate({"q": [[0.0, 0.1], [0.2, 0.3]]})       # two trajectories
    >>> after["q"].shape, after["t"].tolist()
    ((2, 2), [0.001, 0.001])
    """

    def __init__(
        self,
        mechanism: Model,
        circuit: BlockDiagram,
        dt: float,
        integrator: str,
        per_trajectory: Sequence[str] = (),
        episodes: Episodes | None = None,
        *,
        reproducible: bool = False,
    ) -> None:
        self.mechanism, self.model = mechanism, mechanism.model
        self.dt, self.integrator, self.reproducible = dt, integrator, reproducible
        self.circuit, self.episodes, self.restart = circuit, episodes, None
        self.graph = StepGraph(mechanism, circuit, per_trajectory)
        self.per_trajectory = self.graph.named
        place = step_of(self.graph, METHODS[integrator])
        self.after: dict[str, Node] = {"q": place.q, "v": place.v, "t": place.t, **place.states}
        first: dict[str, Any] = {"q": self.model.neutral(), "v": np.zeros(self.model.nv)}
        first |= {"t": np.zeros(())}
        first |= {n: np.asarray(x.value) for n, x in circuit.of_kind("state").items()}
        first |= self.graph.row_states
        if episodes is not None:
            periods = [one.period for one in circuit.samplings]
            self.restart = episodes.restart(self._kept, tuple(self.after), periods)
            for name, node in {**self.restart.checks, **self.restart.results}.items():
                self.after[name] = given_node(name, node.shape)
                first[name] = np.zeros(node.shape)
        self.states = {n: self._quantity(n, x.shape, first[n]) for n, x in self.after.items()}
        self.before = {n: given_node(n, x.shape) for n, x in self.after.items()}
        self.inputs = {"tau": self._quantity("tau", (self.model.nv,), np.zeros(self.model.nv))}
        self.parameters = self._parameters()
        randomized = () if episodes is None else episodes.randomize
        self.randomized = {n: given_node(n, self.parameter(n).shape) for n in randomized}
        self._plans: dict[Any, RunProgram] = {}
        self._adjoints: dict[Any, RunGradient] = {}

    def __repr__(self) -> str:
        return f"<step of {self.model!r}, dt = {self.dt:g} s, {self.integrator}>"

    def as_reproducible(self) -> CompiledStep:
        """The same step with bitwise identical results on every processor."""
        out = copy(self)
        out.reproducible, out._plans, out._adjoints = True, {}, {}
        return out

    # ---- quantities ---------------------------------------------------------------------------

    def _parameters(self) -> dict[str, StepQuantity]:
        """Parameters of laws, and those of `per_trajectory`."""
        out = {n: StepQuantity(n, x.shape, x.value)
               for n, x in self.circuit.of_kind("parameter").items()}  # fmt: skip
        contacts = self.mechanism.contact_pairs
        for name, shape in self.graph.parameters.items():
            known = None
            if name == INERTIA:
                known = inertial_parameters(self.model).reshape(shape)
            elif name == "gravity" and shape == (3,):
                known = np.array(self.model.gravity)
            elif contacts is not None and name == contact.contact_rows.MATERIALS:
                known = contact.contact_rows.slot_materials(contacts)
            out[name] = StepQuantity(name, shape, known)
        return out

    def _quantity(self, name: str, shape: Shape, first: Any = None) -> StepQuantity:
        """A state, an input or a record, with the names and units of its entries."""
        model, units, labels = self.model, tuple[str, ...](), list[str]()
        if name == "t":
            units = ("s",)
        elif name in ("q", "v", "tau", "vdot"):
            units = tuple(joint_units(model)[name])
            labels = entry_names(model, model.q_slices if name == "q" else model.v_slices)
        return StepQuantity(name, shape, first, units, tuple(labels))

    @property
    def records(self) -> tuple[str, ...]:
        """Names of quantities that runs can record."""
        ends = [name for name in self.after if name.startswith("episode.")]
        has_contacts = self.mechanism.contact_pairs is not None
        touching = (contact.contact_rows.GAPS,) if has_contacts else ()
        rows = (*touching, *self.graph.row_states)
        laws = (*self.circuit.records, *self.state_records)
        return ("q", "v", "t", "tau", "vdot", *laws, *rows, *ends)

    @property
    def state_records(self) -> tuple[str, ...]:
        """Those that are states of laws: neither held outputs nor values of the step before."""
        states, known = self.circuit.of_kind("state"), self.circuit.records
        kept = [n for n in states if n not in known and n not in self.graph.row_states]
        return tuple(n for n in kept if not _HOLDS.search(n))

    def record(self, name: str) -> StepQuantity:
        """A record by its name; its values are those of `node`."""
        return self._quantity(name, self.node(name).shape)

    def parameter(self, name: str) -> StepQuantity:
        """A parameter by its name."""
        if name in self.parameters:
            return self.parameters[name]
        known = ", ".join(map(repr, self.parameters)) or "none"
        hint = column_of(name) or did_you_mean(str(name), list(self.parameters), " ")
        if INERTIA in hint and INERTIA not in self.parameters:
            hint += f", with  pp.Simulator(…, per_trajectory=({INERTIA!r},))"
        text = f"{name!r} is not a parameter of this simulator: {known}. {hint}"
        raise InputError(text.rstrip())

    def fixed_entries(self, name: str) -> Array:
        """Which entries of a parameter no run can change, such as the stiffness of rigid stops."""
        known = self.circuit.quantities.get(name)
        fixed = None if known is None else known.fixed
        return np.broadcast_to(False if fixed is None else fixed[0], self.parameter(name).shape)

    @property
    def bytes_per_trajectory(self) -> int:
        """How much memory the state of one trajectory takes at least."""
        numbers = sum(x.size for x in self.states.values())
        return 8 * (numbers + self.model.nv + 2)  # efforts; the status and the number of a step

    # ---- the step as graphs -------------------------------------------------------------------

    def node(self, name: str) -> Node:
        """A record at the beginning of the step."""
        graph, start = self.graph, self.graph.start
        if name in ("q", "v", "t"):
            return getattr(start, name)
        if name in ("tau", "vdot"):
            forces = graph.forces(start)
            return forces.efforts if name == "tau" else graph.accelerations(start, forces)
        if self.mechanism.contact_pairs is not None and name == contact.contact_rows.GAPS:
            return as_node(impacts.contact_steps.ContactSteps(graph).slots(start.q)[0].gap)
        if name in graph.row_states:
            return start.states[name]
        if name in self.state_records:
            return start.states[name]
        if name in self.circuit.records:
            return graph.values(start, [self.circuit.records[name]])[0]
        if name in self.records:
            return self.after[name]
        known = ", ".join(map(repr, self.records))
        hint = did_you_mean(str(name), self.records)
        raise InputError(f"record={name!r} is not among {known}. {hint}")

    def _kept(self, name: str) -> Node:
        """A record between two steps, with the samples of the second: what `rollout` records."""
        graph = self.graph
        return graph.moved_to(graph.after_samples(), [self.node(name)])[0]

    def plan(self, own: Iterable[str] = (), records: Sequence[str] = ()) -> RunProgram:
        """What a rollout of this step computes, as graphs: its code is written from these.

        Parameters
        ----------
        own : iterable of str
            Per-trajectory parameters.
        records : sequence of str
            Names from the step's `records`.
        """
        key = frozenset(own), tuple(records)
        if key not in self._plans:
            states = {**self.after, **self.randomized}  # restarts change these parameters
            sizes = {n: max(1, x.size) for n, x in self.parameters.items()}
            self._plans[key] = self._plan_of(
                states,
                inputs={"tau": self.model.nv},
                own={n: size for n, size in sizes.items() if n in key[0] and n not in states},
                shared={n: size for n, size in sizes.items() if n not in key[0]}
                | shared_of(self.restart, states),
                samples=self.samples(),
                records={name: self.node(name) for name in records},
                restart=self.restart,
                reproducible=self.reproducible,
            )
        return self._plans[key]

    def other_plan(
        self,
        states: Mapping[str, Node],
        *,
        inputs: Mapping[str, int] | None = None,
        own: Mapping[str, int] | None = None,
        more: Mapping[str, int] | None = None,
        samples: Sequence[PeriodicUpdate] = (),
        records: Mapping[str, Node] | None = None,
    ) -> RunProgram:
        """A rollout of other graphs that read the same states and parameters; see `RunProgram`.

        Parameters
        ----------
        states : mapping of str to Node
            What is computed, by name.
        inputs : mapping of str to int, optional
            Inputs for every step, by name with the number of entries.
        own : mapping of str to int, optional
            Inputs that are constant, by name with the number of entries.
        more : mapping of str to int, optional
            The same of quantities that all trajectories share besides the parameters.
        samples : sequence of PeriodicUpdate
            States that change at samples.
        records : mapping of str to Node, optional
            What is recorded, by name.
        """
        shared = {n: max(1, x.size) for n, x in self.parameters.items()} | dict(more or {})
        return self._plan_of(
            states, inputs=inputs or {}, own=own or {}, shared=shared, samples=samples,
            records=records or {},
        )  # fmt: skip

    def _plan_of(self, states: Mapping[str, Node], **parts: Any) -> RunProgram:
        from phipsi.simulation.runs.run_program import RunProgram

        parts["samples"] = tuple(parts["samples"])
        return RunProgram(self.graph.native, states, **parts)

    def samples(self) -> list[PeriodicUpdate]:
        """What sampled laws change before steps whose number is a multiple of their period."""
        from phipsi.simulation.runs.run_program import PeriodicUpdate

        out, graph = [], self.graph
        for one in self.circuit.samplings:
            nodes = graph.values(graph.start, list(one.updates.values()))
            out.append(PeriodicUpdate(one.period, dict(zip(one.updates, nodes, strict=True))))
        return out

    # ---- the step as a function ---------------------------------------------------------------

    def evaluate(
        self,
        states: Mapping[str, ArrayLike],
        tau: ArrayLike = 0.0,
        parameters: Mapping[str, ArrayLike] | None = None,
        *,
        number: int = 0,
    ) -> dict[str, Array]:
        """One step of many trajectories in machine code: y⁺ by name.

        Arguments stay as they are. Contacts and constraints are not checked before the step, as
        `Simulator.initial_state` does.

        Parameters
        ----------
        states : mapping of str to array_like, shape (n, *shape)
            States by name; a state that is missing has its first value.
        tau : array_like, shape (n, nv), optional
            Joint torques and forces besides those of the laws, N·m or N.
        parameters : mapping of str to array_like, optional
            (*shape) by name, or (n, *shape) for per-trajectory parameters.
        number : int, optional
            Number of the step, on which samples and noise depend.

        Returns
        -------
        dict of str to ndarray, shape (n, *shape)
            States after the step.

        Raises
        ------
        SimulationError
            If a trajectory fails.
        """
        from phipsi.simulation.runs.run_memory import RunMemory

        if self.episodes is not None:
            raise InputError(
                "evaluate: a step with episodes resets trajectories to initial states of "
                "others, which evaluate does not have. Use  sim.initial_state(…)  and  "
                "sim.step(state)"
            )
        known = {n: _rows_of(x, states) for n, x in self.states.items()}
        count = next((len(x) for x in known.values() if len(x) != 1), 1)
        rows = {n: _repeated(n, x, count) for n, x in known.items()}
        given, own, shared = dict(parameters or {}), dict[str, Array](), dict[str, Array]()
        for name in given:
            self.parameter(name)
        for name, quantity in self.parameters.items():
            value = given.get(name, quantity.first)
            if value is None:
                raise InputError(f"evaluate: parameters={{{name!r}: …}} has no value")
            array = np.asarray(value, dtype=np.float64)
            if array.shape == quantity.shape:
                shared[name] = np.array(array, order="C")
            else:
                own[name] = _repeated(name, _rows_of(quantity, given), count)
        nv = self.model.nv
        efforts = np.array(np.broadcast_to(np.asarray(tau, dtype=np.float64), (count, nv)))
        memory = RunMemory(self.plan(own), {**rows, **own, **shared, "tau": efforts}, count)
        if count and not memory.run(self.dt, 1, number, records=False):
            raise failure(self.mechanism, (count,), memory.status, memory.failed_at, self.dt, None)
        return {n: rows[n].reshape(count, *x.shape) for n, x in self.states.items()}

    # ---- derivatives --------------------------------------------------------------------------

    def adjoint(
        self, records: Sequence[str], own: Iterable[str], wrt: Sequence[str], smoothing: float
    ) -> RunGradient:
        """The adjoint of a rollout of this step: the gradient of Σ cotangents · records (a VJP).

        Its `gradient` runs forward and back, from arrays of states and parameters as a rollout has
        them. Cotangents have the records' entries; the gradient with respect to q is in
        the directions of v (nv).

        Parameters
        ----------
        records : sequence of str
            Names from the step's `records`.
        own : iterable of str
            Per-trajectory parameters.
        wrt : sequence of str
            Parameters with respect to which the gradient is computed.
        smoothing : float
            Smoothing of contacts, J.
        """
        from phipsi.simulation.runs.run_gradient import RunGradient

        key = tuple(records), frozenset(own), tuple(wrt), smoothing
        if key not in self._adjoints:
            nodes = {name: self.node(name) for name in records}
            shapes = {n: x.shape for n, x in self.parameters.items()}
            parts = self.graph, METHODS[self.integrator], nodes, shapes, tuple(own), tuple(wrt)
            self._adjoints[key] = RunGradient(
                *parts, smoothing=smoothing, reproducible=self.reproducible
            )
        return self._adjoints[key]

    # ---- what went wrong ----------------------------------------------------------------------

    def unsolved_contact(self, values: Mapping[str, Array]) -> str:
        """The contact at which the step from these values, inputs of its graph, fails."""
        steps = impacts.contact_steps.ContactSteps(self.graph)
        steps.step(self.graph.start)
        found = evaluate(steps.problem, dict(values))
        name, error = impacts.contact_steps.largest_residual(steps.plan, found)
        where = (
            ""
            if error > integrators.step_rows.WRONG
            else " on arrays, which find what machine code does not"
        )
        return f"{name!r} is {error:.2g} m/s from the laws of contact{where}"


def _rows_of(quantity: StepQuantity, values: Mapping[str, ArrayLike]) -> Array:
    """Rows (n, size) of a state or parameter; one row of its first value if nothing is given."""
    x = np.asarray(values.get(quantity.name, quantity.first), dtype=np.float64)
    more = x.ndim - len(quantity.shape)
    if more not in (0, 1) or x.shape[more:] != quantity.shape:
        raise InputError(
            f"evaluate: {quantity.name} has shape {x.shape}, but must have "
            f"{quantity.shape} or (n, …) of n trajectories"
        )
    return x.reshape(-1 if more else 1, max(1, quantity.size))


def _repeated(name: str, rows: Array, count: int) -> Array:
    """Memory of its own with so many rows, from as many or from one."""
    if len(rows) not in (1, count):
        raise InputError(f"evaluate: {name} has {len(rows)} rows, but others have {count}")
    return np.array(np.broadcast_to(rows, (count, *rows.shape[1:])), order="C")
