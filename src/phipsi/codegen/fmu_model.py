"""A simulator as the model of an FMU: variables with value references, and its programs.

All numbers of an instance are in one row, in which a value reference is the place of a variable:

    time | q | v | states of laws | tau | parameters | derivatives of the states | records

Runs (run_code.py) work on that row, each written with one lane:

    step     one step of the simulator: for co-simulation
    slope    the derivatives of the continuous states: for model exchange
    look     samples of laws at their times, and what is recorded
    close    the state on the constraints nearest to this one, of a system
    pull     derivatives of a weighted sum of what is calculated, by what is given
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.codegen.c_identifiers import free_name
from phipsi.codegen.quoted_texts import xml_text
from phipsi.core.arrays import Node, adjoints, in_order, law_operations as ops
from phipsi.core.model import joint_units, modal_rates, rates_of
from phipsi.errors import InputError, did_you_mean
from phipsi.simulation import GraphState, RunProgram, Simulator, unit_places, velocity

Array = NDArray[Any]


@dataclass(frozen=True)
class Variable:
    """A scalar variable: its name as XML has it, place, FMI's words, first value, unit, meaning.

    With the causality "hidden" it is not described; `derivative` is the place of the state that it
    is the derivative of; `reinit` says that events may change it.
    """

    name: str
    place: int
    causality: str
    variability: str
    start: float | None = None
    unit: str = ""
    text: str = ""
    derivative: int | None = None
    reinit: bool = False


@final
class FmuModel:
    """The variables and programs of a simulator.

    Without `exchange` and `derivatives`, the programs for model exchange and for partial
    derivatives are omitted.

    Attributes
    ----------
    variables : list of Variable
        In the order of their places.
    plans : dict
        The programs by name.
    places, sizes : dict of str to int
        Where each quantity begins, and how many numbers it has.
    continuous : tuple of str
        Names of the quantities that have derivatives.
    inputs_end : int
        The first place that is calculated.
    periods : tuple of int
        Periods of sampled laws, in steps.
    unfit : str
        Why model exchange is not supported, or "".
    """

    def __init__(
        self,
        simulator: Simulator,
        q: ArrayLike | None = None,
        v: ArrayLike | None = None,
        *,
        inputs: Sequence[str] | None = None,
        outputs: Sequence[str] = ("q", "v"),
        parameters: Mapping[str, ArrayLike] | Sequence[str] | None = None,
        exchange: bool = True,
        derivatives: bool = True,
    ) -> None:
        if simulator.episodes is not None:
            raise InputError(
                "an FMU simulates one trajectory and does not support episodes. Pass a "
                "pp.Simulator(…) without episodes="
            )
        self.simulator, self.model = simulator, simulator.model
        self._shown = self._parameters_shown(parameters)
        values = dict(parameters) if isinstance(parameters, Mapping) else {}
        self._first = simulator.initial_state(q, v, parameters=values).arrays()
        if np.shape(self._first["q"])[0] != 1:
            raise InputError(
                "an FMU starts from one state: q has shape (nq,) and v has shape (nv,)"
            )
        circuit = simulator.compiled.circuit
        self.continuous = ("q", "v", *circuit.rates)
        stepwise = *circuit.samplings, *circuit.delays
        self.periods = tuple(sorted({x.period for x in stepwise}))
        self.unfit = self._unfit()
        self._exchange, self._derivatives = exchange and not self.unfit, derivatives
        self._outputs = self._checked(outputs)
        self._records = tuple(x for x in self._outputs if x not in ("q", "v"))
        _check_inputs(inputs, simulator)
        self._driven = {int(k) for k in rates_of(self.model, inputs)}
        if inputs is None:  # modes have no drive
            self._driven -= {int(k) for k in modal_rates(self.model)}
        self.places: dict[str, int] = {"t": 0}
        self.sizes: dict[str, int] = {"t": 1}
        self._taken = {"time"}
        self.variables: list[Variable] = [
            Variable("time", 0, "independent", "continuous", unit="s", text="simulation time")
        ]
        self._list_variables()
        self.plans = self._plans()

    # ---- options --------------------------------------------------------------------------------

    def _unfit(self) -> str:
        step = self.simulator.compiled
        if step.mechanism.contact_pairs is not None:
            return "contact impulses are computed once per step"
        if step.circuit.delays:
            return "previous(…) is the value of the previous step"
        forces = step.graph.forces(step.graph.start)
        acting = [
            x for x in (forces.efforts, forces.loads, *forces.rates.values()) if x is not None
        ]
        read = {x.data[0] for x in in_order(acting) if x.operation.name == "input"}
        return "noise is sampled once per step" if "step" in read else ""

    def _checked(self, outputs: Sequence[str]) -> tuple[str, ...]:
        names = (outputs,) if isinstance(outputs, str) else tuple(dict.fromkeys(outputs))
        step = self.simulator.compiled
        known = [x for x in step.records if x != "t" and x not in step.state_records]
        _check_known("outputs", names, known)
        return names

    def _parameters_shown(self, parameters: Any) -> tuple[str, ...]:
        known = list(self.simulator.parameters)
        if parameters is None:
            return tuple(known)
        names = (parameters,) if isinstance(parameters, str) else tuple(parameters)
        _check_known("parameters", names, known)
        return tuple(known) if isinstance(parameters, Mapping) else names

    # ---- variables ----------------------------------------------------------------------------

    def _list_variables(self) -> None:
        model, step = self.model, self.simulator.compiled
        shown = {name: "output" for name in ("q", "v") if name in self._outputs}
        others = [x for x in step.states if x not in ("t", *self.continuous)]
        recorded = [xml_text(x) for name in self._records for x in step.record(name).entries]
        own = {xml_text(x) for x in self._names_before_records()}
        reserved = {x for x in recorded if x not in own}  # the names that the user asked for
        self._taken |= reserved
        for name in (*self.continuous, *others):
            state, continuous = step.states[name], name in self.continuous
            self._add(
                name,
                self._state_entries(name),
                shown.get(name, "local"),
                "continuous" if continuous else "discrete",
                self._first[name],
                state.units,
                texts=self._texts(name, state=True),
                reinit=continuous,
            )
        tau = step.inputs["tau"]
        causality = ["input" if k in self._driven else "hidden" for k in range(model.nv)]
        pushed = [
            f"torque or force on joint {x}, in addition to laws and force elements"
            for x in tau.labels
        ]
        self._add("tau", tau.entries, causality, "continuous", tau.first, tau.units, texts=pushed)
        for name, parameter in step.parameters.items():
            fixed = step.fixed_entries(name).ravel() | (name not in self._shown)
            kind = ["hidden" if x else "parameter" for x in fixed]
            texts = self._texts(name, state=False)
            self._add(name, parameter.entries, kind, "tunable", self._first[name], texts=texts)
        self.inputs_end = len(self.variables)
        units = joint_units(model)
        for name in self.continuous:
            first = self.places[name]
            listed = [f"der({x.name})" for x in self.variables[first : first + self.sizes[name]]]
            per = {"q": "der q", "v": "der v"}.get(name, "")
            texts = [f"time derivative of the {x}" for x in self._texts(name, state=True)]
            self._add(
                f"der {name}",
                listed,
                "local",
                "continuous",
                None,
                units.get(per, ()),
                texts=texts,
                of=first,
            )
        self._taken -= reserved
        for name in self._records:
            record = step.record(name)
            listed = map(xml_text, record.entries)
            # such as the sum of all tau, for tau.<joint> is what the tool adds
            listed = [f"total.{x}" if x in self._taken else x for x in listed]
            texts = self._texts(name, state=False)
            self._add(
                f"record {name}", listed, "output", "continuous", None, record.units, texts=texts
            )

    def _names_before_records(self) -> Iterator[str]:
        """Names that no output may have: those of q, v, tau and parameters."""
        step = self.simulator.compiled
        for name in ("q", "v"):
            yield from step.states[name].entries
        yield from step.inputs["tau"].entries
        for parameter in step.parameters.values():
            yield from parameter.entries

    def _state_entries(self, name: str) -> list[str]:
        """Names of a state; one that keeps a recorded quantity between samples is "….held"."""
        step = self.simulator.compiled
        held = name not in ("q", "v") and name in step.records and name not in step.state_records
        state = step.states[name]
        return (replace(state, name=f"{name}.held") if held else state).entries

    def _texts(self, name: str, *, state: bool) -> list[str]:
        """What every entry of a quantity is."""
        step = self.simulator.compiled
        joints = {
            "q": "generalized coordinate",
            "v": "generalized velocity",
            "vdot": "generalized acceleration",
            "tau": "sum of all torques or forces",
        }
        labels = step.states["q"].labels if name == "q" else step.inputs["tau"].labels
        if name in joints:
            return [f"{joints[name]} of joint {x}" for x in labels]
        periods = {n: x.period for x in step.circuit.samplings for n in x.updates}
        dt = self.simulator.dt
        every = f", sampled every {periods[name] * dt:g} s" if name in periods else ""
        law, _, rest = name.partition(".")
        if name in step.parameters:
            text = f"parameter {rest} of {law}" if rest else f"parameter {name}"
            return [text] * step.parameters[name].size
        if name not in step.records or name in step.state_records:
            text = f"state {rest} of {law}{every}" if rest else f"state {name}"
            return [text] * step.states[name].size
        text = f"output {rest} of {law}{every}" if rest else name
        if state:
            text = f"value of {name} that is held from the last sample or step"
        return [text] * step.record(name).size

    def _add(
        self,
        quantity: str,
        names: Sequence[str],
        causality: str | Sequence[str],
        variability: str,
        start: Any,
        units: Sequence[str] = (),
        *,
        texts: Sequence[str] = (),
        of: int | None = None,
        reinit: bool = False,
    ) -> None:
        first = len(self.variables)
        self.places[quantity], self.sizes[quantity] = first, len(names)
        numbers = None if start is None else np.ravel(start)
        for i, name in enumerate(names):
            self.variables.append(
                Variable(
                    free_name(xml_text(name), self._taken),
                    first + i,
                    causality if isinstance(causality, str) else causality[i],
                    variability,
                    None if numbers is None else float(numbers[i]),
                    units[i] if units else "",
                    texts[i] if texts else "",
                    derivative=None if of is None else of + i,
                    reinit=reinit,
                )
            )

    # ---- runs ---------------------------------------------------------------------------------

    def _plans(self) -> dict[str, RunProgram]:
        step = self.simulator.compiled
        graph, start, stay = step.graph, step.graph.start, step.before
        out = {"step": step.plan()}
        records = {name: step.node(name) for name in self._records}
        tau = {"tau": self.model.nv}
        samples = out["step"].samples
        if records or (samples and self._exchange):
            out["look"] = step.other_plan(stay, inputs=tau, samples=samples, records=records)
        if not self._exchange:
            return out
        q = unit_places(self.model, start.q)
        place = GraphState(start.t, q, start.v, start.states)
        forces = graph.forces(place)
        slopes: dict[str, Node] = {"der q": velocity(self.model, q, start.v)}
        slopes["der v"] = graph.accelerations(place, forces)
        slopes |= {f"der {name}": x for name, x in forces.rates.items()}
        own = {name: max(1, x.size) for name, x in step.states.items()} | tau
        out["slope"] = step.other_plan(slopes, own=own)
        pulled = self._pulled(slopes, records, stay) if self._derivatives else None
        if pulled is not None:
            weights = {_weight(name): self.sizes[name] for name in self._unknowns}
            out["pull"] = step.other_plan(pulled, own={**own, **weights})
        if step.mechanism.n_rows:
            end = graph.closed(place)
            closed = {**stay, "q": end.q, "v": end.v}
            out["close"] = step.other_plan(closed, inputs=tau)
        return out

    @property
    def _unknowns(self) -> list[str]:
        """The quantities that are calculated."""
        return [x for x, place in self.places.items() if place >= self.inputs_end]

    def _pulled(
        self, slopes: Mapping[str, Node], records: Mapping[str, Node], stay: Mapping[str, Node]
    ) -> dict[str, Node] | None:
        """Derivatives of weighted unknowns by all that is given; None if one is not known."""
        results = {**slopes, **{f"record {name}": x for name, x in records.items()}}
        bars = [ops.input(_weight(name), x.shape) for name, x in results.items()]
        given = {name: x for name, x in stay.items() if name != "t"}
        given["tau"] = self.simulator.compiled.graph.tau
        first = self._first
        given |= {x: ops.input(x, np.shape(first[x])) for x in self.simulator.parameters}
        try:
            found = adjoints(list(results.values()), bars, list(given.values()))
        except (InputError, NotImplementedError):
            return None
        zeros = (ops.constant(np.zeros(x.shape)) for x in given.values())
        sums = [zero if y is None else y for y, zero in zip(found, zeros, strict=True)]
        return {f"by {name}": x for name, x in zip(given, sums, strict=True)}

    def storage_of(self, port: str) -> str:
        """Where a run finds a quantity, as C says it."""
        if port.startswith("by "):
            return f"(m->by + {self.places[port[3:]]})"
        if port.startswith(_WEIGHT):
            return f"(m->weights + {self.places[port[len(_WEIGHT) :]] - self.inputs_end})"
        return f"(m->values + {self.places[port]})"

    @property
    def starts(self) -> Iterator[float]:
        """The first value of every place; 0 for what is calculated."""
        return (x.start or 0.0 for x in self.variables)


def _check_inputs(inputs: Sequence[str] | None, simulator: Simulator) -> None:
    """Inputs are torques and forces at joints; those of laws are parameters."""
    names = (inputs,) if isinstance(inputs, str) else inputs or ()
    for name in names:
        if name in simulator.parameters:
            raise InputError(
                f"inputs has {name!r}, which is a parameter of a law. Inputs of an FMU are the "
                "torques and forces at joints; parameters are tunable parameters of the FMU, which "
                f"a tool may set at every communication point:\n    parameters=[{name!r}]"
            )


def _check_known(option: str, names: Sequence[str], allowed: Sequence[str]) -> None:
    for name in names:
        if name not in allowed:
            raise InputError(
                f"{option}: {name!r} is not among {', '.join(map(repr, allowed)) or 'none'}. "
                f"{did_you_mean(str(name), allowed)}"
            )


_WEIGHT = "weight of "


def _weight(name: str) -> str:
    return f"{_WEIGHT}{name}"
