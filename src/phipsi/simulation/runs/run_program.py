"""What a compiled run computes, as graphs: steps, samples, records and the end of episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from phipsi.core.arrays import Node, in_order, listing, natives_of
from phipsi.native import KernelSource, MachineCode
from phipsi.simulation.integrators.step_calls import reproducible_source


@dataclass(frozen=True)
class PeriodicUpdate:
    """Updates of states before steps whose numbers are multiples of `period`, all at once."""

    period: int
    updates: Mapping[str, Node]


@dataclass(frozen=True)
class Restart:
    """The end of episodes: what happens after steps whose numbers are multiples of `period`.

    First `checks` change states, also of a trajectory that has failed, which graphs read as
    ``failed``. Where the state `ended` is then not 0, the states in `pools` are taken from row
    `row` of the shared array ``pool <state>``, and the trajectory has not failed any more. Last,
    `results` change states; they do so too in a run of no steps.
    """

    period: int
    checks: Mapping[str, Node]
    ended: str
    row: Node
    pools: tuple[str, ...]
    results: Mapping[str, Node]

    @property
    def nodes(self) -> list[Node]:
        """All graphs, in a fixed order."""
        return [*self.checks.values(), self.row, *self.results.values()]


@dataclass(frozen=True, eq=False)
class RunProgram:
    """What a run computes, as graphs.

    **Attributes:** `base`, a program of the model, whose tables and processor the code is for;
    `states`, each with its value after a step; `inputs`, given for every step;
    `own`, per-trajectory parameters, and `shared` ones, by name with the
    number of entries; `samples`; `records`, quantities that are written out; `restart`, if the run
    has episodes; `gives`, quantities that are written out for every step, in the code of the step
    itself; `codes`, the machine code by number of lanes, once it is there; `reproducible`, whether
    it is for any processor, without fused multiply-add. Graphs read
    states, inputs and parameters by their names, the step length as ``h``, and as integers
    the ``step`` of the run and the ``trajectory``.
    """

    base: KernelSource
    states: Mapping[str, Node]
    inputs: Mapping[str, int]
    own: Mapping[str, int]
    shared: Mapping[str, int]
    samples: tuple[PeriodicUpdate, ...]
    records: Mapping[str, Node]
    restart: Restart | None = None
    gives: Mapping[str, Node] = field(default_factory=dict)
    codes: dict[int, MachineCode] = field(default_factory=dict, repr=False)
    reproducible: bool = False

    def nodes(self) -> list[Node]:
        """All results, in a fixed order."""
        updates = [x for s in self.samples for x in s.updates.values()]
        ends = self.restart.nodes if self.restart else []
        return [
            *self.states.values(),
            *updates,
            *self.records.values(),
            *ends,
            *self.gives.values(),
        ]

    @cached_property
    def natives(self) -> list[KernelSource]:
        """The programs that are called, each once; the first has the tables of the model."""
        called = natives_of(in_order(self.nodes()))
        return [self.base, *(x for x in called if x is not self.base)]

    @cached_property
    def sources(self) -> Sequence[KernelSource]:
        """The same programs for the processor that the code is for."""
        return [reproducible_source(x) for x in self.natives] if self.reproducible else self.natives

    @cached_property
    def ports(self) -> dict[str, int]:
        """The arrays of a job by name, with the entries of one row."""
        states = {name: node.size for name, node in self.states.items()}
        written = {**self.records, **self.gives}
        records = {f"record {name}": node.size for name, node in written.items()}
        return {**states, **self.inputs, **self.own, **self.shared, **records}

    def text(self) -> str:
        """All that the code depends on besides the kernels."""
        nodes = in_order(self.nodes())
        numbers = {x: i for i, x in enumerate(nodes)}
        lines = listing(nodes, self.natives)
        samples = [(s.period, {k: numbers[x] for k, x in s.updates.items()}) for s in self.samples]
        states = {k: numbers[x] for k, x in self.states.items()}
        records, gives = ({k: numbers[x] for k, x in y.items()} for y in (self.records, self.gives))
        heads = [states, self.inputs, self.own, self.shared, samples, records, gives]
        if self.restart:
            one, nodes = self.restart, [numbers[x] for x in self.restart.nodes]
            heads.append((one.period, list(one.checks), one.ended, one.pools, nodes))
            heads.append(list(one.results))
        if self.reproducible:
            heads.append("reproducible")
        return "\n".join([*lines, *map(repr, heads)])
