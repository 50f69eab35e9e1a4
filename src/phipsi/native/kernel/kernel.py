"""A whole program as one LLVM function: loops over the bodies, one piece of code per joint type.

phase     runs once, or once per column of a matrix (`Phase`)
step      a loop over bodies, points, links or rows
place     one of them: its numbers and records (`EmitContext`)
fields    their arithmetic (`BodyCode`), and what is stored, added up or given out (here)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from phipsi.core.sweeps import (
    Domain,
    Field,
    Loop,
    LoopStep,
    Reads,
    StepKind,
    Variant,
    entries as en,
    fields_of,
    space_of,
)
from phipsi.native import data_record as record
from phipsi.native.kernel.body_code import BodyCode
from phipsi.native.kernel.emission import Emission, Parts
from phipsi.native.kernel.emit_context import EmitContext
from phipsi.native.kernel.kernel_inputs import InputReader
from phipsi.native.kernel.phases import Phase, for_points_only
from phipsi.native.kernel.results import ResultWriter, write_first_status
from phipsi.native.kernel.storage_plan import is_column, is_whole, root
from phipsi.native.matrices.columns import Columns
from phipsi.native.matrices.matrix_memory import MatrixMemory
from phipsi.native.matrices.paths import Paths
from phipsi.native.tables import JointCode
from phipsi.native.text import llvm_text as ir
from phipsi.native.text.lane_arithmetic import Lane, i64, write_cases, write_loop


@final
class Kernel:
    """Emits the kernel of a program for so many configurations side by side.

    **Attributes:** `function`, and `sincos_function`, which it calls.
    """

    def __init__(self, module: ir.Module, phases: list[Phase], parts: Parts, lanes: int) -> None:
        k = self.k = Emission(module, parts, lanes)
        self.function, self.sincos_function = k.function, k.sincos_function
        steps = [s for p in phases for s in p.steps]
        self._numbers = {id(s): i for i, s in enumerate(steps)}
        self._for_points = for_points_only(phases, fields_of(parts.results))
        self._templates: dict[tuple[Field, str], list[Any]] = {}
        write_first_status(k)
        self.place = EmitContext(k)
        self.inputs = InputReader(k, self.place)
        self._clear_world_record()
        self._clear_sums()
        self.columns = Columns(k, self.place)
        pairs = [x for p in phases for x in p.pairs]
        self.matrices = MatrixMemory(k, self.place, self.columns, pairs)
        self.paths = Paths(k, self.place, self.columns, self.matrices, self._at_body)
        self.results = ResultWriter(k, self.place, self.columns, self.matrices)
        self.matrices.clear()
        for phase in phases:
            self._phase(phase)
        self.results.write_world_results("", self._code())
        self.results.finish()
        k.b.ret_void()
        if self.inputs.angles is not None:
            self.inputs.angles.finish()

    # -- phases and steps --------------------------------------------------------------------------

    def _phase(self, phase: Phase) -> None:
        k = self.k
        if phase.columns in ("", "small"):
            self._run(phase.steps)
            return
        k.emitter = k.group
        if phase.columns == "path":
            step = LoopStep(StepKind.PATH, Domain.BODY, [x for s in phase.steps for x in s.fields])
            self._numbers[id(step)] = self._numbers[id(phase.steps[0])]
            self.paths.emit(phase, step)
        else:
            self._column_by_column(phase)
        k.emitter = k.config

    def _column_by_column(self, phase: Phase) -> None:
        """Steps that run for every dimension of a space."""
        k, b = self.k, self.k.b
        count = k.count_of(space_of(phase.columns))
        computed = {x for s in phase.steps for x in s.fields}

        def column(c: ir.IRValue) -> None:
            self.columns.begin(c, b.sub(count, c), c)
            self._run(phase.steps)
            self.results.write_world_results(phase.columns, self._code())
            for x, matrix in self.matrices.dense.items():
                if x.operation.reads is Reads.WHOLE and x.args[0] in computed:
                    matrix.keep()

        write_loop(b, count, column, k.group.lanes if k.several else 1)

    def _run(self, steps: Sequence[LoopStep]) -> None:
        for step in steps:
            if step.domain is Domain.WORLD:
                self.place.domain = Domain.WORLD
                self._visit(step)
                continue
            self._clear(step)
            go = self._at_body if step.domain is Domain.BODY else self._at_other
            if any(step is s for s in self._for_points):
                self._run_for_points(step)
                continue
            reverse = step.kind is StepKind.TIP_TO_BASE
            self.k.loop(self.k.count(step.domain), reverse, lambda i, s=step, go=go: go(s, i))

    def _run_for_points(self, step: LoopStep) -> None:
        """A sweep from the base over the bodies that have points outboard."""
        k = self.k
        table = k.table(record.POINT_BODIES)
        count = k.word(record.N_POINT_BODIES)
        k.loop(count, False, lambda i: self._at_body(step, k.b.word(table, i)))

    def _at_body(self, step: LoopStep, k: ir.IRValue) -> None:
        """A step at body k, once per joint type."""
        kind, codes = self.place.at_body(k), self.k.codes
        if step.kind is StepKind.PATH:
            self.paths.before_joints(self._code(step))
        if len(codes) == 1:
            self._visit(step, codes[0])
        else:
            write_cases(self.k.b, kind, len(codes), lambda i: self._visit(step, codes[i]))

    def _at_other(self, step: LoopStep, k: Any) -> None:
        """A step at point, link or row k, once per kind of link if it needs that."""
        kind, codes = self.place.at_other(step.domain, k), self.k.parts.tables.link_codes

        def at_link(i: int) -> None:
            self.place.link_code = codes[i]
            self._visit(step)

        if any(x.operation.variant is Variant.LINK for x in step.fields):
            assert kind is not None, "links have kinds"
            write_cases(self.k.b, kind, len(codes), at_link)
        else:
            self._visit(step)

    def _code(self, step: LoopStep | None = None, code: JointCode | None = None) -> BodyCode:
        """The arithmetic of a step at the current place."""
        fields = () if step is None else set(step.fields)
        where = self.place, self.inputs, self.columns
        return BodyCode(*where, self._templates, fields, code)

    # -- effects of a step -------------------------------------------------------------------------

    def _visit(self, step: LoopStep, code: JointCode | None = None) -> None:
        """All effects of a step at one place: what is stored, added up or given out."""
        values = self._code(step, code)
        if step.kind is StepKind.PATH:
            self.paths.visit(step, values, self.results.path_parts(step, values))
            return
        for x in step.fields:
            row = x.operation
            if row.solves:
                solvers = self.matrices.rows if row.solves == "rows" else self.matrices.dense
                solvers[x.args[0]].solve(x)
            elif is_whole(x):
                for matrices in (self.matrices.dense, self.matrices.rows):
                    if x in matrices:
                        matrices[x].factor()
            elif row.reads is Reads.CHILDREN or row.runs is Loop.SUMMANDS:
                self._add(x, values)
            elif root(x) is x and x in self.k.plan.slots(step.domain):
                self._store(x, values)
        self.results.write(step, self._numbers[id(step)], values)

    def _store(self, x: Field, values: BodyCode) -> None:
        block, plan = values.stored_form(x, values.value(x)), self.k.plan
        everything = x in plan.cross or x in plan.whole or x.type.domain is not Domain.BODY
        base, start = self.place.slot(x)
        for i, entry in enumerate(block.entries):
            if everything or (isinstance(entry, Lane) and entry.place is None):
                self.k.entry_store(x, entry, base, start, i)
        if x.type.domain is not Domain.LINK:  # links of different kinds share a step
            values.remember(x, block)

    def _add(self, x: Field, values: BodyCode) -> None:
        """Add the summand here to a sum: of the parent's children, of a body's points and so on."""
        k, columns, domain = self.k, is_column(x), x.type.domain
        block = values.stored_form(x, values.value(x.args[0]))
        over_children = x.operation.reads is Reads.CHILDREN
        if over_children:  # the world's record takes what roots push
            start, records = k.plan.sums[x], self.place.records[Reads.PARENT]
        elif domain is Domain.WORLD:
            start = k.plan.world[x]
            records = k.records(domain, False), k.records(domain, True)
        else:
            start, records = k.plan.slots(domain)[x], self.place.records[_TARGETS[domain]]
        found = self.place.old_sum if over_children else records  # the sum so far
        nothing = over_children and values.code is not None and values.code.first
        for i, entry in enumerate(block.entries):
            if over_children or not en.is_zero(entry):
                old = 0 if nothing else k.entry_load(x, found[columns], start, i)
                k.entry_store(x, en.add(old, entry), records[columns], start, i)

    # -- zeros -------------------------------------------------------------------------------------

    def _clear_world_record(self) -> None:
        """What children of the world read from their parent is zero."""
        for x in sorted(self.k.plan.cross, key=lambda f: f.number):
            self.k.clear_entries(x, self.k.records(Domain.BODY, is_column(x)), self.k.plan.body[x])

    def _clear_sums(self) -> None:
        """The last record has the sums to which no child has added yet."""
        last = self.k.b.add(self.k.word(record.N_BODIES), i64(1))
        for x, start in self.k.plan.sums.items():
            self.k.clear_entries(x, self.k.record(Domain.BODY, is_column(x), last), start)

    def _clear(self, step: LoopStep) -> None:
        """Zero what the step adds to."""
        for x in step.fields:
            domain = x.type.domain
            if x.operation.runs is not Loop.SUMMANDS:
                continue
            start = self.k.plan.slots(domain)[x]
            if domain is Domain.WORLD:
                self.k.clear_entries(x, self.k.records(domain, is_column(x)), start)
            else:
                self._clear_records(x, domain, start)

    def _clear_records(self, x: Field, domain: Domain, start: int) -> None:
        k, before = self.k, i64(int(domain is Domain.BODY))  # the first body record is the world's

        def body(i: ir.IRValue) -> None:
            k.clear_entries(x, k.record(domain, is_column(x), k.b.add(i, before)), start)

        k.loop(k.count(domain), False, body)


_TARGETS = {Domain.BODY: Reads.HOST, Domain.POINT: Reads.POINT, Domain.ROW: Reads.ROW}
