"""The code of a run: the graph of a step in the loops over trajectories and steps.

Lanes are trajectories. Their states stay packed, one vector per number, from the first step to the
last. A trajectory that fails keeps its last good state while others go on, and records NaN; see
native/runs/frozen_lanes.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, final

from phipsi.core.arrays import Node
from phipsi.core.backends import NOT_FINITE
from phipsi.native import (
    Area,
    KernelSource,
    LaneIndex,
    LaneMachine,
    LawCode,
    Rows,
    RunKernel,
    loop_invariant,
    run_job,
)
from phipsi.simulation.runs.run_program import Restart, RunProgram


def _stays(name: str, node: Node) -> bool:
    """Whether a state is not changed by this node."""
    return node.operation.name == "input" and node.data[0] == name


@final
class RunEmitter:
    """Writes the loops of a run around its graphs.

    `name` is what the names of the functions begin with; `sources`, the programs `natives` for
    another processor.
    **Attributes:** `size`, of the working memory in numbers.
    """

    def __init__(
        self,
        module: Any,
        plan: RunProgram,
        natives: Sequence[KernelSource],
        lanes: int,
        name: str = "phipsi",
        sources: Sequence[KernelSource] | None = None,
    ) -> None:
        self.plan = plan
        packed = {**dict.fromkeys(plan.states), **plan.inputs, **plan.own}
        sources = natives if sources is None else sources
        k = self.kernel = RunKernel(module, natives, sources, lanes, name, plan.ports, packed)
        self.m = LaneMachine(k)
        k.prepare(plan.nodes())
        k.each_group(self._write_group)
        self.size = k.finish()

    def _code(self, number: LaneIndex) -> LawCode:
        """For graphs in the step with this number; where they find what they read."""
        k = self.kernel
        shared = {name: k.shared_port(name) for name in self.plan.shared}
        inputs: dict[str, Any] = {name: Area(place) for name, place in k.areas.items()}
        step = k.everywhere(number)
        inputs |= shared | {"h": [k.h], "step": [step], "trajectory": [k.trajectory]}
        if self.plan.restart:
            inputs["failed"] = [self.m.to_flag(k.has_failed())]
        return LawCode(k.module, k.e, inputs, k.area, k)

    # ---- loops

    def _write_group(self) -> None:
        """All steps of a group of trajectories."""
        k, plan = self.kernel, self.plan
        steps, every, records = (k.job(x) for x in (run_job.STEPS, run_job.EVERY, run_job.RECORDS))
        for name in (*plan.states, *plan.own):
            k.read_port(name)
        k.read_statuses()
        given = {name: k.rows_of(name) for name in plan.inputs}
        for name, rows in given.items():
            k.read_input(name, rows)
        same = loop_invariant(plan.states.values(), {*plan.own, *plan.shared, "h"})
        self._lasting = dict(zip(same, self._code(k.index(0)).write(same), strict=True))
        out = {name: k.rows_of(f"record {name}") for name in (*plan.records, *plan.gives)}
        samples_last = bool(plan.samples and plan.records)

        def at(i: LaneIndex) -> None:
            number = i * k.job(run_job.DIRECTION) + k.job(run_job.FIRST)
            goes_on = i < steps
            with k.when(goes_on):
                for name, rows in given.items():
                    k.read_input(name, rows, i)
            since = i + k.job(run_job.PHASE)  # steps since the first record of this run
            now = (since % every).equals(0)
            takes = goes_on
            if samples_last:
                # the last record has the samples of the step that would come next. The state that
                # is left does not, so that a run which goes on from it takes them once
                with k.when(~goes_on):
                    self._end()
                takes = goes_on | (now & records.equals(run_job.SAMPLED))
            if plan.samples:
                with k.when(takes & k.goes_on()):
                    self._sample(number)
            if plan.records:
                with k.when(now & records.differs(0)):
                    record = since // every
                    note = partial(self._record, out, record, number)
                    self._where_alive(note, plan.records, out, record)
            with k.when(goes_on):
                self._where_alive(partial(self._step, number, out, i), plan.gives, out, i)
                if plan.restart:
                    self._restart(plan.restart, number + 1)

        if plan.restart:
            with k.when(steps.equals(0)):
                for name in plan.inputs:  # none is given
                    k.clear_port(name)
                self._update(plan.restart.results, k.job(run_job.FIRST))
        k.loop(steps + 1, at)
        if not samples_last:
            self._end()

    def _end(self) -> None:
        """Write the states and statuses after the last step."""
        for name in self.plan.states:
            self.kernel.write_port(name)
        self.kernel.write_statuses()

    def _where_alive(
        self,
        write: Callable[[], None],
        nodes: Mapping[str, Node],
        out: Mapping[str, Rows],
        at: LaneIndex,
    ) -> None:
        """Code that runs if a trajectory has not failed; if none has, records are not numbers."""
        k = self.kernel
        with k.either(k.goes_on()) as (some, none):
            with some:
                write()
            with none:
                places = [(self._rows_at(n, out, at), x.size) for n, x in nodes.items()]
                k.write_nothing(places)

    def _rows_at(self, name: str, out: Mapping[str, Rows], at: LaneIndex) -> Rows:
        """Where record number `at` of a quantity is written."""
        return self.kernel.record_rows(f"record {name}", out[name], at)

    def _record(self, out: Mapping[str, Rows], record: LaneIndex, number: LaneIndex) -> None:
        """Write out what is recorded."""
        code, nodes = self._code(number), self.plan.records
        self.kernel.begin_evaluation()
        values = code.write(list(nodes.values()))
        self._write_out(code, nodes, values, out, record)

    def _write_out(
        self,
        code: LawCode,
        nodes: Mapping[str, Node],
        values: Sequence[Any],
        out: Mapping[str, Rows],
        record: LaneIndex,
    ) -> None:
        """Values in the arrays of a port; not a number where a trajectory has failed."""
        k, over = self.kernel, self.kernel.has_failed()
        for (name, node), value in zip(nodes.items(), values, strict=True):
            rows, area = self._rows_at(name, out, record), code.area(node.size)

            def one(i: Any, value: Any = value, area: Area = area) -> None:
                code.put(self.m.where(over, float("nan"), code.entry(value, i)), area, i)

            k.each(value, node.size, one)
            k.write_rows(area, rows, node.size)

    # ---- changes of states

    def _update(
        self, updates: Mapping[str, Node], number: LaneIndex, *, failed_too: bool = False
    ) -> None:
        """New values of states, all from the old ones, where a trajectory has not failed."""
        k, code = self.kernel, self._code(number)
        k.begin_evaluation()
        values = self._values(code, updates)
        good = k.every_lane() if failed_too else k.end_evaluation(number)
        self._commit(code, updates, values, good)

    def _sample(self, number: LaneIndex) -> None:
        """Take the samples whose step has come: all from the old values, whatever their periods."""
        k, samples = self.kernel, self.plan.samples
        hits = [(number % x.period).equals(0) for x in samples]
        if len(samples) == 1:
            with k.when(hits[0]):
                self._update(samples[0].updates, number)
            return
        areas = [[Area(k.area(x.size)) for x in s.updates.values()] for s in samples]
        for sample, hit, places in zip(samples, hits, areas, strict=True):
            with k.when(hit):
                code = self._code(number)
                k.begin_evaluation()
                values = self._values(code, sample.updates)
                for node, value, area in zip(sample.updates.values(), values, places, strict=True):
                    k.copy_value(code, value, node.size, area)
                k.end_evaluation(number)
        for sample, hit, places in zip(samples, hits, areas, strict=True):
            with k.when(hit):
                alive = k.is_alive()
                self._commit(self._code(number), sample.updates, places, alive)

    def _restart(self, restart: Restart, number: LaneIndex) -> None:
        """After a step, `number` being that of the next: see `Restart`."""
        k = self.kernel
        with k.when((number % restart.period).equals(0)):
            self._update(restart.checks, number, failed_too=True)
            code = self._code(number)
            (row,) = code.write([restart.row])
            rows = k.pool_rows(code.entry(row, 0))
            begins = k.is_set(code.entry(Area(k.areas[restart.ended]), 0))
            for name in restart.pools:
                node = self.plan.states[name]
                new = k.read_pool(f"pool {name}", rows, node.size)
                self._commit(code, {name: node}, [new], begins)
            k.forget_failures(begins)
            self._update(restart.results, number)

    def _step(self, number: LaneIndex, out: Mapping[str, Rows], i: LaneIndex) -> None:
        """One step of all states; what fails is noted, and the step of its trajectory not taken."""
        k, plan = self.kernel, self.plan
        k.freeze()
        code = self._code(number)
        code.take(self._lasting)
        k.begin_evaluation()
        values = self._values(code, plan.states)
        self._write_out(code, plan.gives, code.write(list(plan.gives.values())), out, i)
        sizes = [x.size for x in plan.states.values()]
        k.note_unless(k.all_finite(code, values, sizes), NOT_FINITE)
        found = dict(zip(plan.states, values, strict=True))
        moving = {n: x for n, x in plan.states.items() if not _stays(n, x)}
        self._commit(code, moving, [found[n] for n in moving], k.end_evaluation(number))
        k.unfreeze()

    def _values(self, code: LawCode, nodes: Mapping[str, Node]) -> list[Any]:
        """The values of nodes, none of them in the memory of a state that is about to change."""
        out = []
        values = code.write(list(nodes.values()))
        for (name, node), value in zip(nodes.items(), values, strict=True):
            is_state = isinstance(value, Area) and self.kernel.is_packed(value)
            if is_state and not _stays(name, node):
                value = self.kernel.copied(code, value, node.size)
            out.append(value)
        return out

    def _commit(
        self, code: LawCode, nodes: Mapping[str, Node], values: Sequence[Any], good: Any
    ) -> None:
        """Values become those of the states, in these lanes."""
        for (name, node), value in zip(nodes.items(), values, strict=True):
            area = Area(self.kernel.areas[name])

            def one(i: Any, value: Any = value, area: Area = area) -> None:
                new, old = code.entry(value, i), code.entry(area, i)
                code.put(self.m.where(good, new, old), area, i)

            self.kernel.each(value, node.size, one)
