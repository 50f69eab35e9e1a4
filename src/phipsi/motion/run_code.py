"""Machine code of a run: the graph of a step in the loops over trajectories and steps.

Lanes are trajectories. Their states stay packed, one vector per number, from the first step to the
last. A trajectory that fails keeps its last good state while others go on, and records NaN; see
failed_lanes.py.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, final

from phipsi.backends.failures import NOT_FINITE
from phipsi.backends.native.data_record import INTEGERS, N_BODIES
from phipsi.backends.native.kernel.law_code import Area, LawCode, lasting
from phipsi.backends.native.native_backend import KernelSource
from phipsi.backends.native.targets.code_cache import machine_code, sources_digest
from phipsi.backends.native.targets.target import MachineCode
from phipsi.backends.native.text import llvm_text as ir
from phipsi.backends.native.text.lane_arithmetic import (
    I32,
    I64,
    POINTER,
    WORD,
    Emitter,
    Lane,
    i64,
    write_loop,
)
from phipsi.laws.calls import listing, natives_of
from phipsi.laws.graph import Node, in_order
from phipsi.motion.failed_lanes import FrozenLanes, write_nothing
from phipsi.motion.lane_code import FirstCalls, LaneCode, always
from phipsi.motion.step_calls import reproducible_source

# Words of a job; then three for each port (address, bytes per trajectory, bytes per step or
# record), and the data and the scratch memory of every kernel that the run calls.
(
    COUNT, STEPS, EVERY, FIRST, RECORDS, WORK, STATUS, FAILED_AT, STEP_LENGTH, FAILURES, TRAJECTORY,
    DIRECTION, PHASE, PORTS,
) = range(14)  # fmt: skip
SAMPLED = 1
"""In RECORDS: the last record too has the samples of its step. Other numbers: it has those held."""


@dataclass(frozen=True)
class Sample:
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
class Plan:
    """What a run computes, as graphs.

    **Attributes:** `base`, a program of the model, whose tables and processor the code is for;
    `states`, each with its value after a step; `inputs`, given for every step;
    `own`, parameters that every trajectory has its own of, and `shared` ones, by name with the
    number of entries; `samples`; `records`, quantities that are written out; `restart`, if the run
    has episodes; `gives`, quantities that are written out for every step, in the code of the step
    itself; `codes`, the machine code by number of lanes, once it is there; `reproducible`, whether
    it is for any processor, without fused multiply-add. Graphs read
    states, inputs and parameters by their names, the step length as ``h``, and as whole numbers
    the ``step`` of the run and the ``trajectory``.
    """

    base: KernelSource
    states: Mapping[str, Node]
    inputs: Mapping[str, int]
    own: Mapping[str, int]
    shared: Mapping[str, int]
    samples: tuple[Sample, ...]
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


def _stays(name: str, node: Node) -> bool:
    """Whether a state is not changed by this node."""
    return node.operation.name == "input" and node.data[0] == name


def run_code(plan: Plan, lanes: int) -> MachineCode:
    """``void phipsi_run(job, 0, 0, 0)``, which leaves the number of the next step in the job.

    ``i64 phipsi_step(job)`` does the same and returns 0 if no trajectory has failed;
    ``i64 phipsi_run_size()`` is the size of the working memory in numbers.
    """
    found = plan.codes.get(lanes)
    if found is not None:
        return found
    sources = plan.sources
    keys = " ".join(source.unit.key() for source in sources)
    text = f"{keys} run {lanes} {_version()} {plan.text()}"
    digest = hashlib.sha256(text.encode()).hexdigest()

    def emit() -> ir.Module:
        module = ir.Module(linked=True)
        Run(module, plan, plan.natives, lanes, sources=sources)
        return module

    found = plan.codes[lanes] = machine_code(digest, sources[0].target, emit)
    return found


def _version() -> str:
    """A digest of the sources the code comes from."""
    return sources_digest("motion", "algorithms/constrained")


@final
class Run(LaneCode):
    """Writes the loops of a run around its graphs.

    Calls in the graphs are written with `call_program` and `call_joints`. `name` is what the names
    of the functions begin with; `sources`, the same programs for another processor.
    """

    def __init__(
        self,
        module: ir.Module,
        plan: Plan,
        natives: Sequence[KernelSource],
        lanes: int,
        name: str = "phipsi",
        sources: Sequence[KernelSource] | None = None,
    ) -> None:
        sources = natives if sources is None else sources
        target = sources[0].target
        self.module, self.plan, self.natives, self.lanes = module, plan, natives, lanes
        self._kernels = [source.kernel(module, lanes) for source in sources]
        self._known = sources[0].known
        self.codes, self.bytes = natives[0].unit.tables.codes, target.unit * lanes
        function = ir.Function(module, ir.FunctionType(ir.VOID, [POINTER] * 4), f"{name}_run")
        b = self.b = function.begin()
        e = self.e = Emitter(lanes, fused=target.fused, number=target.number)
        e.builder = b
        job, self._ports = function.args[0], plan.ports
        count = PORTS + 3 * len(self._ports) + 2 * len(natives)
        self._job = [self.word(job, i) for i in range(count)]
        self._programs = PORTS + 3 * len(self._ports)
        self.data = b.inttoptr(self._job[self._programs], POINTER)
        self.h = e.load_shared(b.at(job, 8 * STEP_LENGTH))
        self._work, self._used = b.inttoptr(self._job[WORK], POINTER), 0
        self.zero = ir.Constant(e.integers, [0] * lanes)
        self.failed, self._bad, self._failed_at = (b.alloca(e.integers) for _ in range(3))
        self._status = self.area(1)
        packed = {**dict.fromkeys(plan.states), **plan.inputs, **plan.own}
        self._areas = {name: self.area(self._ports[name]) for name in packed}
        sizes = [(self._areas[name], self._ports[name]) for name in packed]
        self._frozen = FrozenLanes(self, sizes) if lanes > 1 else None
        self._failures = b.at(job, 8 * FAILURES)
        b.store(i64(0), self._failures)
        # programs of one lane may share their scratch memory with others
        self._places = FirstCalls(b) if lanes > 1 else None
        self.shared: dict[Any, Any] = {}  # between callees
        self.prepared: dict[Any, Any] = {}
        self.prepare(plan.nodes())
        write_loop(b, self._job[COUNT], self._group, lanes)
        moved = b.mul(self._job[STEPS], self._job[DIRECTION])
        b.store(b.add(self._job[FIRST], moved), b.at(job, 8 * FIRST))
        b.ret_void()
        step = ir.Function(module, ir.FunctionType(I64, [POINTER]), f"{name}_step")
        b = step.begin()
        none = ir.Constant(POINTER, None)
        b.call(function, [step.args[0], none, none, none])
        b.ret(b.load(b.at(step.args[0], 8 * FAILURES), typ=I64))
        size = ir.Function(module, ir.FunctionType(I64, []), f"{name}_run_size")
        self.size = self._used * lanes
        size.begin().ret(i64(self.size))

    # ---- memory

    def joint_table(self) -> tuple[Any, Any]:
        """The table of bodies, and how many there are."""
        known = self._known
        if known is None:
            return super().joint_table()
        return self.module.table_of(known.tables[INTEGERS]), i64(known.words[N_BODIES])

    def prepare(self, nodes: Sequence[Node]) -> None:
        """Write what the calls in graphs need before the loops."""
        callees = (x.data for x in in_order(nodes) if x.operation.name == "call")
        for callee in dict.fromkeys(callees):
            if callee not in self.prepared:
                self.prepared[callee] = callee.prepare(self)

    def area(self, size: int) -> Any:
        """Working memory for so many numbers of every lane."""
        here = self.b.at(self._work, self._used * self.bytes)
        self._used += size
        return here

    def _where(self, name: str, rows: Sequence[Any]) -> list[Any]:
        """The address of each lane's row of a port."""
        b, word = self.b, self._word_of(name)
        base = b.inttoptr(self._job[word], POINTER)
        return [b.at(base, b.mul(row, self._job[word + 1])) for row in rows]

    def _word_of(self, name: str) -> int:
        return PORTS + 3 * list(self._ports).index(name)

    def _code(self, number: Any) -> LawCode:
        """For graphs in the step with this number; where they find what they read."""
        b = self.b
        shared = {
            name: Area(b.inttoptr(self._job[self._word_of(name)], POINTER), shared=True)
            for name in self.plan.shared
        }
        inputs: dict[str, Any] = {n: Area(place) for n, place in self._areas.items()}
        step = self.e.splat(self.as_number(number))
        inputs |= shared | {"h": [self.h], "step": [step], "trajectory": [self._trajectory]}
        if self.plan.restart:
            inputs["failed"] = [self.e.select(self._over(), 1.0, 0.0)]
        return LawCode(self.module, self.e, inputs, self.area, self)

    # ---- loops

    def _group(self, first: Any) -> None:
        b, e, plan = self.b, self.e, self.plan
        rows = self._rows_from(first)
        for name in (*plan.states, *plan.own):
            self.pack(self._where(name, rows), self._areas[name], i64(self._ports[name]))
        for word, place in ((STATUS, self.failed), (FAILED_AT, self._failed_at)):
            b.store(self._integers(word, rows), place)
        given = {name: self._where(name, rows) for name in plan.inputs}
        for name, bases in given.items():
            self._read(name, bases)
        same = lasting(plan.states.values(), {*plan.own, *plan.shared, "h"})
        self._lasting = dict(zip(same, self._code(i64(0)).write(same), strict=True))
        written = (*plan.records, *plan.gives)
        out = {name: self._where(f"record {name}", rows) for name in written}
        samples_last = bool(plan.samples and plan.records)

        def at(i: Any) -> None:
            number = b.add(b.mul(i, self._job[DIRECTION]), self._job[FIRST])
            goes_on = b.icmp_signed("<", i, self._job[STEPS])
            with b.if_then(goes_on):
                for name, bases in given.items():
                    self._read(name, bases, i)
            since = b.add(i, self._job[PHASE])  # steps since the first record of this run
            now = b.icmp_signed("==", b.urem(since, self._job[EVERY]), i64(0))
            takes = goes_on
            if samples_last:
                # the last record has the samples of the step that would come next. The state that
                # is left does not, so that a run which goes on from it takes them once
                with b.if_then(b.not_(goes_on)):
                    self._end(rows)
                also = b.icmp_signed("==", self._job[RECORDS], i64(SAMPLED))
                takes = b.or_(goes_on, b.and_(now, also))
            if plan.samples:
                with b.if_then(b.and_(takes, self._goes_on())):
                    self._sample(number)
            if plan.records:
                with b.if_then(b.and_(now, b.icmp_signed("!=", self._job[RECORDS], i64(0)))):
                    record = b.udiv(since, self._job[EVERY])
                    note = partial(self._record, out, record, number)
                    self._where_alive(note, plan.records, out, record)
            with b.if_then(goes_on):
                self._where_alive(partial(self._step, number, out, i), plan.gives, out, i)
                if plan.restart:
                    self._restart(plan.restart, b.add(number, i64(1)))

        if plan.restart:
            with b.if_then(b.icmp_signed("==", self._job[STEPS], i64(0))):
                for name, size in plan.inputs.items():  # none is given
                    place = self._areas[name]
                    write_loop(b, i64(size), lambda i, x=place: self.store(e.constant(0.0), x, i))
                self._update(plan.restart.results, self._job[FIRST])
        write_loop(b, b.add(self._job[STEPS], i64(1)), at)
        if not samples_last:
            self._end(rows)

    def _end(self, rows: Sequence[Any]) -> None:
        """Write the states and statuses after the last step."""
        for name in self.plan.states:
            self.unpack(self._areas[name], self._where(name, rows), i64(self._ports[name]))
        self._write_statuses(rows)

    def _goes_on(self) -> Any:
        """Whether a trajectory of the group has not failed."""
        return self.b.not_(self.all(self._over()))

    def _over(self) -> Any:
        """Lanes that have failed."""
        return self.b.icmp_signed("!=", self.b.load(self.failed, typ=self.e.integers), self.zero)

    def _where_alive(
        self, write: Callable[[], None], nodes: Mapping[str, Node], out: Mapping[str, Any], at: Any
    ) -> None:
        """Code that runs if a trajectory has not failed; if none has, records are not numbers."""
        with self.b.if_else(self._goes_on()) as (some, none):
            with some:
                write()
            with none:
                rows = {n: (self._rows_at(n, out, at), x.size) for n, x in nodes.items()}
                write_nothing(self, rows)

    def _rows_at(self, name: str, out: Mapping[str, Any], at: Any) -> list[Any]:
        """The addresses of record number `at` of a quantity."""
        offset = self.b.mul(at, self._job[self._word_of(f"record {name}") + 2])
        return [self.b.at(x, offset) for x in out[name]]

    def _rows_from(self, first: Any) -> list[Any]:
        """The rows of a group of trajectories, one for each lane, whose numbers are kept."""
        b, e = self.b, self.e
        last = b.sub(self._job[COUNT], i64(1))
        rows: list[Any] = []
        for lane in range(self.lanes):  # lanes without a trajectory repeat the last one
            row = b.add(first, i64(lane))
            rows.append(b.select(b.icmp_signed("<", row, last), row, last))
        numbers: Any = ir.Constant(e.vector, ir.Undefined)
        for lane, row in enumerate(rows):
            number = self.as_number(b.add(row, self._job[TRAJECTORY]))
            numbers = b.insert_element(numbers, number, ir.Constant(I32, lane))
        self._trajectory = Lane(e, numbers)
        return rows

    def _write_statuses(self, rows: Sequence[Any]) -> None:
        """What has failed in every lane, and in which step; and whether anything has."""
        b, e = self.b, self.e
        for word, place in ((STATUS, self.failed), (FAILED_AT, self._failed_at)):
            integers = b.load(place, typ=e.integers)
            for lane, where in enumerate(self._integer_rows(word, rows)):
                entry = b.extract_element(integers, ir.Constant(I32, lane))
                b.store(entry, where, align=e.unit)
                if word == STATUS:
                    wide = entry if e.unit == WORD else b.zext(entry, I64)
                    b.store(b.or_(b.load(self._failures, typ=I64), wide), self._failures)

    def _integer_rows(self, word: int, rows: Sequence[Any]) -> list[Any]:
        base = self.b.inttoptr(self._job[word], POINTER)
        return [self.b.at(base, self.b.mul(row, i64(self.e.unit))) for row in rows]

    def _integers(self, word: int, rows: Sequence[Any]) -> Any:
        out: Any = ir.Constant(self.e.integers, ir.Undefined)
        for lane, where in enumerate(self._integer_rows(word, rows)):
            entry = self.b.load(where, align=self.e.unit, typ=self.e.number.integer)
            out = self.b.insert_element(out, entry, ir.Constant(I32, lane))
        return out

    def _read(self, name: str, bases: Sequence[Any], i: Any = None) -> None:
        """An input of step i, if it changes from step to step; without i, one that does not."""
        b, step = self.b, self._job[self._word_of(name) + 2]
        with b.if_then(b.icmp_signed("==" if i is None else "!=", step, i64(0))):
            offset = i64(0) if i is None else b.mul(i, step)
            now = [b.at(x, offset) for x in bases]
            self.pack(now, self._areas[name], i64(self._ports[name]))

    def _record(self, out: Mapping[str, list[Any]], record: Any, number: Any) -> None:
        """Write out what is recorded."""
        code, nodes = self._code(number), self.plan.records
        self.b.store(self.zero, self._bad)
        values = code.write(list(nodes.values()))
        self._write_out(code, nodes, values, out, record)

    def _write_out(
        self,
        code: LawCode,
        nodes: Mapping[str, Node],
        values: Sequence[Any],
        out: Mapping[str, list[Any]],
        record: Any,
    ) -> None:
        """Values in the arrays of a port; not a number where a trajectory has failed."""
        e, over = self.e, self._over()
        for (name, node), value in zip(nodes.items(), values, strict=True):
            bases, area = self._rows_at(name, out, record), code.area(node.size)

            def one(i: Any, value: Any = value, area: Area = area) -> None:
                x = e.select(over, float("nan"), code.entry(value, i))
                code.put(x, area, i)

            self.each(value, node.size, one)
            self.unpack(area.base, bases, i64(node.size))

    def _update(
        self, updates: Mapping[str, Node], number: Any, *, failed_too: bool = False
    ) -> None:
        """New values of states, all from the old ones, where a trajectory has not failed."""
        b, code = self.b, self._code(number)
        b.store(self.zero, self._bad)
        values = self._values(code, updates)
        if failed_too:
            self._commit(code, updates, values, b.icmp_signed("==", self.zero, self.zero))
        else:
            self._commit(code, updates, values, self._go_on(number))

    def _sample(self, number: Any) -> None:
        """Take the samples whose step has come: all from the old values, whatever their periods."""
        b, e, samples = self.b, self.e, self.plan.samples
        hits = [b.icmp_signed("==", b.urem(number, i64(x.period)), i64(0)) for x in samples]
        if len(samples) == 1:
            with b.if_then(hits[0]):
                self._update(samples[0].updates, number)
            return
        areas = [[Area(self.area(x.size)) for x in s.updates.values()] for s in samples]
        for sample, hit, places in zip(samples, hits, areas, strict=True):
            with b.if_then(hit):
                code = self._code(number)
                b.store(self.zero, self._bad)
                values = self._values(code, sample.updates)
                for node, value, area in zip(sample.updates.values(), values, places, strict=True):
                    self._copy(code, value, node.size, area)
                self._go_on(number)
        for sample, hit, places in zip(samples, hits, areas, strict=True):
            with b.if_then(hit):
                alive = b.icmp_signed("==", b.load(self.failed, typ=e.integers), self.zero)
                self._commit(self._code(number), sample.updates, places, alive)

    def _restart(self, restart: Restart, number: Any) -> None:
        """After a step, `number` being that of the next: see `Restart`."""
        b, e = self.b, self.e
        with b.if_then(b.icmp_signed("==", b.urem(number, i64(restart.period)), i64(0))):
            self._update(restart.checks, number, failed_too=True)
            code = self._code(number)
            (row,) = code.write([restart.row])
            chosen = b.fptosi(code.entry(row, 0).value, e.integers)
            entries = [b.extract_element(chosen, ir.Constant(I32, k)) for k in range(self.lanes)]
            ended = code.entry(Area(self._areas[restart.ended]), 0)
            begins = b.fcmp_unordered("!=", ended.value, e.constant(0.0).value)
            for name in restart.pools:
                size, pool = self._ports[name], self._job[self._word_of(f"pool {name}")]
                base, new = b.inttoptr(pool, POINTER), code.area(size)
                bases = [b.at(base, b.mul(entry, i64(e.unit * size))) for entry in entries]
                self.pack(bases, new.base, i64(size))
                node = self.plan.states[name]
                self._commit(code, {name: node}, [new], begins)
            failed = b.load(self.failed, typ=e.integers)
            b.store(b.select(begins, self.zero, failed), self.failed)
            self._update(restart.results, number)

    def _step(self, number: Any, out: Mapping[str, list[Any]], i: Any) -> None:
        """One step of all states; what fails is noted, and the step of its trajectory not taken."""
        if self._frozen is not None:
            self._frozen.put_aside(self._over())
        b, e, code = self.b, self.e, self._code(number)
        code.take(self._lasting)
        b.store(self.zero, self._bad)
        values = self._values(code, self.plan.states)
        gives = self.plan.gives
        self._write_out(code, gives, code.write(list(gives.values())), out, i)
        sizes = [x.size for x in self.plan.states.values()]
        self.note(b.select(self.all_finite(code, values, sizes), self.zero, e.integer(NOT_FINITE)))
        found = dict(zip(self.plan.states, values, strict=True))
        moving = {n: x for n, x in self.plan.states.items() if not _stays(n, x)}
        self._commit(code, moving, [found[n] for n in moving], self._go_on(number))
        if self._frozen is not None:
            self._frozen.put_back()

    def _go_on(self, number: Any) -> Any:
        """Lanes that have not failed, now either; what has failed now is kept with its step."""
        b, e = self.b, self.e
        old, new = b.load(self.failed, typ=e.integers), self.bad()
        alive = b.icmp_signed("==", old, self.zero)
        b.store(b.select(alive, new, old), self.failed)
        before = b.load(self._failed_at, typ=e.integers)
        b.store(b.select(alive, e.splat_integer(number), before), self._failed_at)
        return b.and_(alive, b.icmp_signed("==", new, self.zero))

    def _values(self, code: LawCode, nodes: Mapping[str, Node]) -> list[Any]:
        """The values of nodes, none of them in the memory of a state that is about to change."""
        own = {id(place) for place in self._areas.values()}
        out = []
        values = code.write(list(nodes.values()))
        for (name, node), value in zip(nodes.items(), values, strict=True):
            if isinstance(value, Area) and id(value.base) in own and not _stays(name, node):
                value = self.copied(code, value, node.size)
            out.append(value)
        return out

    def _commit(
        self, code: LawCode, nodes: Mapping[str, Node], values: Sequence[Any], good: Any
    ) -> None:
        """Values become those of the states, in these lanes."""
        for (name, node), value in zip(nodes.items(), values, strict=True):
            area = Area(self._areas[name])

            def one(i: Any, value: Any = value, area: Area = area) -> None:
                new, old = code.entry(value, i), code.entry(area, i)
                code.put(self.e.select(good, new, old), area, i)

            self.each(value, node.size, one)

    # ---- calls

    def call_program(
        self, native: KernelSource, code: LawCode, args: Sequence[Any], allowed: Sequence[int] = ()
    ) -> list[Any]:
        """Call the kernel of a program; its results are in new memory, its failures are noted."""
        results = [code.area(max(1, math.prod(shape))) for shape in native.output_shapes]
        places = [code.stored(x).base for x in args]
        fresh = always if self._places is None else self._places.place()
        self.caller(native, [*places, *(x.base for x in results)], allowed, fresh)()
        return results

    def caller(
        self, native: KernelSource, places: Sequence[Any], allowed: Sequence[int] = (),
        fresh: Callable[[], Any] = always,
    ) -> Callable[[], None]:  # fmt: skip
        """Code that calls a kernel with inputs and results in these places.

        Failures are noted; those with codes of failures.py that are `allowed` are none.
        """
        b, number = self.b, [x is native for x in self.natives].index(True)
        words = self._job[self._programs + 2 * number :]
        data, scratch = (b.inttoptr(word, POINTER) for word in words[:2])
        self._used += -self._used * self.bytes % WORD // self.bytes  # whole words
        buffers = self.area(-(-WORD * (len(places) + 1) // self.bytes))
        for i, place in enumerate((*places, self._status)):
            b.store(place, b.at(buffers, WORD * i))

        def call() -> None:
            b.call(self._kernels[number], [data, scratch, buffers, fresh()])
            self.note_status(self._status, allowed)

        return call

    def _copy(self, code: LawCode, value: Any, size: int, area: Area) -> None:
        self.each(value, size, lambda i: code.put(code.entry(value, i), area, i))
