"""What laws do at one state, with derivatives: for states of rest and for small motions.

All efforts of a circuit are one vector: those at joints, and H φ f for its forces f on bodies. With
the rates of continuous states, and the changes x⁺ − x of sampled ones, they are the results whose
derivatives with respect to q, v, tau, states and parameters come from the adjoint of their graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast, final

import numpy as np
from numpy.typing import NDArray

from phipsi.core.arrays import GraphEvaluator, Node, adjoints, evaluate, law_operations as ops
from phipsi.core.backends import real_array
from phipsi.core.model import Model, rates_of
from phipsi.errors import InputError, did_you_mean
from phipsi.laws import BlockDiagram, Law
from phipsi.simulation.diagram.connect_laws import block_diagram, check_controller_acts
from phipsi.simulation.integrators.group_calls import lower
from phipsi.simulation.integrators.step_graph import StepGraph
from phipsi.simulation.runs.checks import checked_parameter

Array = NDArray[Any]


@final
class LawLinearization:
    """Torques and forces of all laws, and the changes of their states, at one state of a tree.

    Attributes
    ----------
    circuit : BlockDiagram
        The laws.
    shapes : dict of str to tuple of int
        Shapes of parameters and states by name.
    states : tuple of str
        Names of states that have a rate or a next value, in the order of the results.
    """

    def __init__(self, model: Model, laws: Any, dt: float) -> None:
        self.model = model
        self.circuit = laws if isinstance(laws, BlockDiagram) else block_diagram(model, laws, dt)
        made = self.circuit
        if made.joint_rows:
            raise InputError(
                "rigid joint limits and ropes (stiffness=inf) and dry friction "
                "(velocity_scale=0) are discontinuous: they have no torques at a state, and no "
                "linearization about it. Pass a finite stiffness and a velocity_scale above 0"
            )
        graph = StepGraph(model, made)
        of_states = made.of_kind("state")
        self.shapes = {n: x.shape for n, x in (made.of_kind("parameter") | of_states).items()}
        changes = dict(made.rates)
        for one in (*made.samplings, *made.delays):
            for name, new in one.updates.items():
                changes[name] = ops.apply("sub", new, of_states[name].node)
        self.states = tuple(changes)
        forces = graph.forces(graph.start)
        efforts = forces.efforts
        if forces.loads is not None:
            efforts = ops.apply("add", efforts, graph.carried(graph.start.q, forces.loads))
        found = graph.values(graph.start, list(changes.values()))
        self._results: list[Node] = [efforts, *found]
        self._evaluated = GraphEvaluator(self._results)
        self._sizes = [x.size for x in self._results]
        self._inputs = {"q": graph.start.q, "v": graph.start.v, "tau": graph.tau}
        self._inputs |= {name: ops.input(name, shape) for name, shape in self.shapes.items()}
        self._bars: dict[tuple[str, ...], list[Node | None]] = {}

    def first(self) -> dict[str, Array]:
        """Default parameters and first states by name."""
        known = self.circuit.quantities.items()
        return {n: np.array(x.value, dtype=float) for n, x in known if x.value is not None}

    def values(self, at: Mapping[str, Any]) -> Array:
        """[efforts (nv,); changes of the states], from "t", "q", "v", "tau" and all the rest."""
        found = self._evaluated(self._known(at))
        return np.concatenate([np.ravel(x) for x in found])

    def derivatives(self, at: Mapping[str, Any], by: Sequence[str]) -> dict[str, Array]:
        """Their derivatives (results, entries) by name; by q along the rates."""
        bars = self._adjoints(tuple(by))
        rows = np.eye(sum(self._sizes))
        parts = np.split(rows, np.cumsum(self._sizes)[:-1], axis=1)
        known = self._known(at)
        for i, (x, part) in enumerate(zip(self._results, parts, strict=True)):
            known[f"weights {i}"] = part.reshape(len(rows), *x.shape)
        nodes = [x for x in bars if x is not None]
        found = iter(evaluate(nodes, known))
        out: dict[str, Array] = {}
        for name, bar in zip(by, bars, strict=True):
            size = self._inputs[name].size
            values = np.zeros((len(rows), size)) if bar is None else next(found)
            values = np.broadcast_to(values.reshape(-1, size), (len(rows), size))
            out[name] = lower(self.model, at["q"], values)[0] if name == "q" else values
        return out

    def checked(self, kind: str, given: Mapping[str, Any]) -> dict[str, Array]:
        """Values of parameters or states ("parameter", "state") that a user gives by name."""
        known, out = self.circuit.of_kind(kind), {}
        if not isinstance(cast(object, given), Mapping):
            raise InputError(
                f"{kind}s must be values by name, {{'law.name': value}}, not {given!r}"
            )
        for name, value in given.items():
            if name not in known:
                listed = ", ".join(map(repr, known)) or "none"
                hint = did_you_mean(str(name), list(known))
                raise InputError(f"{name!r} is not a {kind} of the laws: {listed}. {hint}")
            array = checked_parameter(known[name], value)
            if array.shape != known[name].shape:
                raise InputError(
                    f"{name} has shape {array.shape}, but one state has {known[name].shape}"
                )
            out[name] = np.array(array, dtype=float)
        return out

    def _adjoints(self, by: tuple[str, ...]) -> list[Node | None]:
        if by not in self._bars:
            weights = [ops.input(f"weights {i}", x.shape) for i, x in enumerate(self._results)]
            wanted = [self._inputs[name] for name in by]
            self._bars[by] = adjoints(self._results, weights, wanted)
        return self._bars[by]

    def _known(self, at: Mapping[str, Any]) -> dict[str, Any]:
        return {"t": 0.0, "step": 0.0, "trajectory": 0.0, **at}


@final
class LawControl:
    """A law as a controller: t, q, v → its efforts (nv,), those of its forces on bodies included.

    It has no memory: laws with states or a rate act in steps.
    """

    def __init__(self, model: Model, law: Law, *, in_contact: bool = False) -> None:
        if law.rate is not None:
            raise InputError(_needs_steps(law, in_contact))
        made = block_diagram(model, (law,), 1e-3, quiet=True)  # what it lacks is an error below
        self._acting, self._none = LawLinearization(model, made, 1e-3), np.zeros(model.nv)
        self.__qualname__ = law.name
        if self._acting.states:
            raise InputError(_needs_steps(law, in_contact))
        check_controller_acts(law, self._acting.circuit)
        self._at = self._acting.first()

    def __call__(self, t: float, q: Array, v: Array) -> Array:
        """The efforts."""
        at = {**self._at, "t": t, "q": q, "v": v, "tau": self._none}
        return self._acting.values(at)[: len(self._none)]


def _needs_steps(law: Law, in_contact: bool) -> str:
    """Why a law is not a controller of a run without fixed steps, and what is."""
    what = f"the law {law.name!r} is sampled or has states, which simulate does not support with"
    if in_contact:
        steps = f"pp.simulate(…, controller={law.name}, integrator='time_stepping', dt=1e-3)"
        return f"{what} this integrator. Use fixed steps:\n    {steps}"
    steps = (
        f"sim = pp.Simulator(model, [{law.name}], dt=1e-3)\n"
        "    run = sim.rollout(sim.initial_state(q, v), steps=1000)"
    )
    sampled = ""
    if law.rate is not None and not law.states and not law.discrete:
        late = f", delay={law.delay}" if law.delay else ""
        sampled = (
            f"\nOr pass the law made without rate=, and sample it in simulate:\n"
            f"    pp.simulate(…, controller={law.name}, rate={law.rate:g}{late})"
        )
    return f"{what} this integrator. Use fixed steps:\n    {steps}{sampled}"


@dataclass(frozen=True)
class LawDerivatives:
    """Derivatives of efforts (nv, …) and of rates of states (m, …), by name of what they are by."""

    efforts_by: dict[str, Array]
    rates_by: dict[str, Array]

    def columns(self, of: Mapping[str, Array], driven: Array, others: Sequence[str]) -> Array:
        """Those by the efforts of driven rates, then those by other quantities."""
        return np.hstack([of["tau"][:, driven], *(of[name] for name in others)])


@final
class ContinuousLaws:
    """Laws about an operating point: none of them is sampled.

    Attributes
    ----------
    states : tuple of str
        Their names in the order of the rates.
    """

    def __init__(
        self,
        model: Model,
        laws: Any,
        parameters: Mapping[str, Any] | None,
        states: Mapping[str, Any] | None,
        t: float,
    ) -> None:
        listed = tuple(laws) if isinstance(laws, list | tuple) else (laws,)
        sampled = [one.name for one in listed if isinstance(one, Law) and one.rate is not None]
        if sampled:
            _reject_sampled(sampled)
        self._model, self.states, self._at = model, tuple[str, ...](), dict[str, Any]()
        self._acting = None
        time = real_array("t", t)
        if time.ndim:
            raise InputError(f"t={t!r} must be one time, in s")
        if not listed and not parameters and not states:
            return
        made = listed[0] if len(listed) == 1 and isinstance(listed[0], BlockDiagram) else listed
        self._acting = acting = LawLinearization(model, made, 1e-3)
        changing = *acting.circuit.samplings, *acting.circuit.delays
        if changing:
            _reject_sampled([n for x in changing for n in x.updates])
        self._at |= {**acting.first(), "t": float(time)}
        self._at |= acting.checked("parameter", {} if parameters is None else parameters)
        self._at |= acting.checked("state", {} if states is None else states)
        self.states = acting.states

    def split(self, inputs: Sequence[str] | str | None) -> tuple[Array, list[str]]:
        """Rates of the driven joints, and names of parameters, among inputs."""
        known = self._acting.circuit.of_kind("parameter") if self._acting else ()
        if inputs is None or not known:
            return rates_of(self._model, inputs), []
        listed = [inputs] if isinstance(inputs, str) else list(inputs)
        joints = [x for x in listed if x not in known]
        return rates_of(self._model, joints), [x for x in listed if x in known]

    def entries(self, names: Sequence[str]) -> list[str]:
        """A name for every entry of parameters or states."""
        out: list[str] = []
        for name in names:
            assert self._acting is not None
            shape = self._acting.shapes[name]
            places = [f"[{', '.join(map(str, place))}]" for place in np.ndindex(*shape)]
            out += [name + place for place in places] if shape else [name]
        return out

    def efforts(self, q: Array, v: Array, tau: Array) -> Array:
        """Efforts (nv,) that act, `tau` among them."""
        if self._acting is None:
            return tau
        return self._acting.values({**self._at, "q": q, "v": v, "tau": tau})[: self._model.nv]

    def derivatives(self, q: Array, v: Array, tau: Array, more: Sequence[str]) -> LawDerivatives:
        """Derivatives with respect to q, v, tau and what `more` names."""
        nv = self._model.nv
        if self._acting is None:
            none = np.zeros((nv, nv))
            return LawDerivatives({"q": none, "v": none, "tau": np.eye(nv)}, {})
        at = {**self._at, "q": q, "v": v, "tau": tau}
        found = self._acting.derivatives(at, tuple(dict.fromkeys(("q", "v", "tau", *more))))
        return LawDerivatives(
            {name: x[:nv] for name, x in found.items()}, {name: x[nv:] for name, x in found.items()}
        )


def _reject_sampled(names: Sequence[str]) -> None:
    raise InputError(
        f"{', '.join(map(repr, names))} changes at samples only, but linearize needs laws in "
        "continuous time. In continuous time a feedback would look stable that is not stable at "
        "its rate. Linearize the model without it, sample that, and close the loop u = −K x:\n"
        "    d = pp.linearize(model, q, inputs=[…]).discrete(1 / rate)\n"
        "    abs(np.linalg.eigvals(d.A - d.B @ K)).max() < 1  # stable at this rate"
    )
