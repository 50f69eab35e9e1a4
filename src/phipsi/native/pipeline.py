"""The back half of compilation: from scheduled steps to machine code, every pass a line.

The front half is `compiler.build`. What is legal after each pass stands in `verify_phases.py`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np

from phipsi.core.backends import SweepProgram, storage_layout as layout
from phipsi.core.expressions import Expr, Row, row_count, space_size
from phipsi.core.model import rate_rows_of
from phipsi.core.operators import ConstantBlocks, row_named
from phipsi.core.sweeps import (
    Domain,
    Field,
    Loop,
    LoopStep,
    Reads,
    Result,
    StepKind,
    fields_of,
    operation,
    reached,
)
from phipsi.native import data_record as record
from phipsi.native.calls.batch_loop import define_groups, smallest_group
from phipsi.native.calls.direct_call import available
from phipsi.native.calls.machine_function import define_single
from phipsi.native.kernel import storage_plan as planning
from phipsi.native.kernel.emission import KERNEL, InputSlot, KnownRecord, Parts
from phipsi.native.kernel.kernel import Kernel
from phipsi.native.kernel.phases import Phase, carriers, phases_of, rematerialise
from phipsi.native.kernel.results import is_matrix
from phipsi.native.kernel.storage_plan import StoragePlan, root
from phipsi.native.matrices import products
from phipsi.native.matrices.paths import branch_slots, seeds_of
from phipsi.native.matrices.structural_zeros import (
    factors_of,
    filled_chunks,
    joints_above,
    of_blocks,
    zeros_stay,
)
from phipsi.native.matrices.tiles import meeting_table, tile_shape
from phipsi.native.tables import Tables, model_tables
from phipsi.native.targets.code_cache import machine_code, sources_of
from phipsi.native.targets.target import MachineCode, Target, target_for
from phipsi.native.text import llvm_text as ir
from phipsi.native.text.lane_arithmetic import NUMBERS
from phipsi.native.verify_phases import check


def compile_single(unit: KernelUnit) -> MachineCode:
    """The code for one configuration, which leaves batches to the code for groups."""
    return machine_code(unit.key(), unit.target, lambda: unit.module(linked=True))


def compile_wide(unit: KernelUnit) -> MachineCode:
    """The code for groups of configurations."""
    return machine_code(f"{unit.key()}-wide", unit.target, lambda: unit.wide_module(linked=True))


def plan_native(
    program: SweepProgram, target: Target | None = None
) -> tuple[KernelUnit, np.ndarray]:
    """The passes: the unit that code is written from, and the record it works on.

    `target` is another processor than that of this machine.
    """
    target = target or target_for(reproducible=program.reproducible)
    own = own_tables(program.lowered.fields)
    dtype, rows = NUMBERS[target.number].dtype, _has_more_rows(program.steps)
    fields = len({root(x) for step in program.steps for x in step.fields})
    tables = model_tables(program.model, program.points, own, dtype, more_rows=rows, fields=fields)
    lowered, widest = program.lowered, max((c.nv for c in tables.codes), default=0)

    steps, results = split_loop_results(program.steps, lowered.results)
    outputs = fields_of(results)
    check("own steps", steps, outputs)
    phases = phases_of(steps, outputs)
    check("phases", phases, _fields(phases))
    before = _fields(phases)
    phases = rematerialise(phases, outputs)
    check("rematerialisation", phases, before)
    pairs = [x for p in phases for x in p.pairs]
    modes = max(program.model.more_rows, default=0)
    plan = planning.make_plan([s for p in phases for s in p.steps], pairs, outputs, widest, modes)
    check("plan", plan, phases, widest)
    unit = KernelUnit(program, target, tables, results, phases, plan)
    data = unit.record()
    check("record", data, unit.words, len(unit.shapes), target.unit)
    return unit, data


def can_run(program: SweepProgram) -> bool:
    """True if the program has native code: no operands of several columns, something to compute."""
    results = program.lowered.results
    if program.model.has_more_rows and any(map(_of_whole_bodies, results)):
        return False
    layouts = all(r.layout != "columns" for r in results)
    if not layouts or program.model.nv == 0 or not planning.supported(program.steps):
        return False
    if not products.can_run(results):
        return False
    phases = phases_of(program.steps, program.lowered.fields)
    seeds = [p.seed for p in phases if p.seed is not None]
    return len(seeds) == len(set(seeds))  # paths that would have to be walked twice


def _has_more_rows(steps: list[LoopStep]) -> bool:
    """True if blocks have the sizes of bodies with more than six rows."""
    types = {x.type for step in steps for x in step.fields}
    return any(size in planning.MODAL_SIZES for t in types for size in (t.rows, t.cols))


def _of_whole_bodies(r: Result) -> bool:
    """True for blocks and matrices of bodies, which have modal rows."""
    return r.layout not in ("vector", "poses") and "body" in (r.gives.index, r.takes.index)


def _fields(phases: list[Phase]) -> set[Field]:
    return {x for p in phases for s in p.steps for x in s.fields}


def split_loop_results(
    steps: list[LoopStep], results: tuple[Result, ...]
) -> tuple[list[LoopStep], tuple[Result, ...]]:
    """Results that are complete only after their step are written by a step of their own.

    These are sums over points and links, and solutions of small systems at points and rows.
    """
    out: list[Result] = []
    extra: dict[Domain, list[Field]] = {}
    for i, r in enumerate(results):
        x, domain = root(r.field), r.field.type.domain
        late = domain is not Domain.WORLD and x.operation.runs is not Loop.OWN
        if late:
            alias = Field(operation("rec"), (), None, r.field.type, -1 - i)
            alias.equation = r.field
            extra.setdefault(domain, []).append(alias)
            r = replace(r, field=alias)
        out.append(r)
    last = [LoopStep(StepKind.MEMORYLESS, domain, fields) for domain, fields in extra.items()]
    return [*steps, *last], tuple(out)


class KernelUnit:
    """A program as its code is written from it: phases, places of values, tables and arguments.

    **Attributes:** `slots`, what the inputs are; `shapes`, of one element of all arguments, the
    last of which is the status; `words`, where the data record holds the size of scratch memory.
    """

    def __init__(
        self,
        program: SweepProgram,
        target: Target,
        tables: Tables,
        results: tuple[Result, ...],
        phases: list[Phase],
        plan: StoragePlan,
    ) -> None:
        self.program, self.target, self.tables = program, target, tables
        self.results, self.phases, self.plan = results, phases, plan
        lowered, model, points = program.lowered, program.model, program.points
        self.slots = {name: _slot(name, i, program) for i, name in enumerate(lowered.inputs)}
        given = [program.input_shapes[n] for n in lowered.inputs]
        found = [_output_shape(r, program) for r in lowered.results]
        self.arguments = record.Arguments([*given, *found, ()], len(given))
        self.shapes, self.words = self.arguments.shapes, self.arguments.words
        self.inspects: tuple[str, ...] | None = None
        lanes = target.lanes
        paths = dict.fromkeys(p.seed_kind for p in phases if p.columns == "path")
        self.seeds = {kind: seeds_of(kind, model, points, lanes) for kind in paths}
        paired = any(p.pairs for p in phases)
        self.branches, self.slots_of_paths = branch_slots(model) if paired else (None, 0)
        self.filled = [
            filled_chunks(r, model, points, lanes) if zeros_stay(r) else None for r in results
        ]
        self.meetings = self._meetings()
        self.carriers = carriers(model, points)

    def _meetings(self) -> dict[int, np.ndarray]:
        """The tables of tiles: of products, for groups and for one configuration, and of Grams."""
        t, model, out = self.target, self.program.model, dict[int, np.ndarray]()
        factors = products.patterns(self.results, model, self.program.points)
        shape = tile_shape(model.nv, t.registers)
        if factors:
            out[record.TILE_TABLE_WORDS[False]] = meeting_table(factors, shape, t.unit * t.lanes)
            if t.lanes > 1:
                one = tile_shape(model.nv, t.registers, t.lanes)
                out[record.TILE_TABLE_WORDS[True]] = meeting_table(factors, one, t.unit)
        if any(x.operation.reads is Reads.PATHS for p in self.phases for x in p.pairs):
            above = joints_above(model)
            out[record.GRAM_TILES] = meeting_table([(above, above.T)], shape, t.unit * t.lanes)
        return out

    def emit(self) -> str:
        """The program as LLVM text: the scalar kernel, and the ways to call it."""
        return str(self.module())

    def module(self, *, linked: bool = False) -> ir.Module:
        """The same as a module; if it is linked, the kernel is a part of it."""
        module = ir.Module(linked=linked)
        define_single(module, self.kernel_function(module, 1), self.arguments, self.target.number)
        return module

    def wide_module(self, *, linked: bool = False) -> ir.Module:
        """The wide kernel, and the loop over its groups."""
        module, n, lanes = ir.Module(linked=linked), len(self.slots), self.target.lanes
        kernel = self.kernel_function(module, lanes)
        matrices = {n + i for i, r in enumerate(self.results) if is_matrix(r)}
        define_groups(module, kernel, lanes, self.arguments, self.target.number, matrices)
        return module

    def kernel_function(
        self, module: ir.Module, lanes: int, known: KnownRecord | None = None
    ) -> ir.IRFunction:
        """The function of the kernel, in a module or as a part of it."""
        if known is not None or not module.linked:
            return self.kernel(module, lanes, known=known).function
        key = self.key()
        name = f"phipsi_kernel_{lanes}_{key}"
        return module.part(name, key, KERNEL, lambda x: self.kernel(x, lanes).function)

    def kernel(self, module: ir.Module, lanes: int, *, known: KnownRecord | None = None) -> Kernel:
        """The kernel for so many configurations side by side, with its data record if known."""
        made_from = self.plan, self.results, self.slots, self.tables, self.target
        return Kernel(module, self.phases, Parts(*made_from, known, self.inspects), lanes)

    def key(self) -> str:
        """Everything the code depends on, as one digest."""
        parts = [
            sources_of(self._modules()),
            repr(self.target),
            repr(self.program.reproducible),
            _program_text(self.phases, self.results),
            repr(list(self.slots.items())),
            repr([c.key for c in self.tables.codes]),
            repr((self.tables.link_codes, self.tables.selections)),
            repr(self.tables.doubles.shape[1]),
            repr((self.arguments.pattern, available(), self.inspects)),
            "shared rows" if self.tables.shared is not None else "",
        ]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def _modules(self) -> frozenset[str]:
        """The modules, and versions in them, with formulas that the core does not have."""
        rows = (rate_rows_of(code.joint) for code in self.tables.codes)
        formulas = {x.operation.source for x in reached(fields_of(self.results))}
        formulas |= {type(x).__module__ for x in rows if x is not None}
        return frozenset(x for x in formulas if not x.startswith("phipsi.core."))

    def pointers(self, *, known: bool = False) -> dict[int, np.ndarray]:
        """The tables whose addresses the data record holds, by word.

        Where they are known when code is written, every body has a row of its own.
        """
        out = dict(enumerate(self.tables.arrays, record.INTEGERS))
        if self.tables.shared is not None and not known:
            out[record.DOUBLES] = self.tables.shared
        for kind, seeds in self.seeds.items():
            start = record.SEEDS[kind]
            out |= {start + record.SINGLE: seeds.single, start + record.TOGETHER: seeds.together}
            out |= {start + record.FIRST: seeds.first, start + record.SEED_COLUMN: seeds.column}
        out[record.ROW_ORDERS[False]] = self.tables.rows.rows
        out[record.ROW_ORDERS[True]] = self.tables.rows_with_hubs.rows
        if self.branches is not None:
            out[record.BRANCH] = self.branches
        out |= self.meetings | {record.POINT_BODIES: self.carriers}
        first = record.BUFFERS + 2 * len(self.shapes) + len(self.slots)
        out |= {first + i: x for i, x in enumerate(self.filled) if x is not None}
        return out

    def known_record(
        self, lanes: int, columns: Collection[int] | None = None
    ) -> tuple[KnownRecord, int]:
        """The record of one kernel on the caller's arrays, and the bytes of scratch it needs.

        With `columns`, the table of bodies has only these of its numbers.
        """
        data, tables = self.record(lanes), self.pointers(known=True)
        known = KnownRecord(tuple(data.tolist()), tables)
        if columns is not None:
            kept = sorted(i for i in columns if i < self.tables.doubles.shape[1])
            known = KnownRecord(
                known.words,
                tables | {record.DOUBLES: np.ascontiguousarray(self.tables.doubles[:, kept])},
                {i: place for place, i in enumerate(kept)},
            )
        return known, int(data[self.words])

    def used_columns(self) -> set[int]:
        """The numbers of bodies that kernels with a known record read, of any number of lanes.

        Operations read the same for one configuration as for many; a kernel that asked for another
        column than these could not be written (`Emission.column`).
        """
        known, _ = self.known_record(1)
        return self.kernel(ir.Module(standalone=True), 1, known=known).k.used_columns

    def record(self, alone: int = 0) -> np.ndarray:
        """Sizes, addresses, offsets of the scratch areas in numbers, and slots for scratch.

        With `alone`, it is for the kernel of so many lanes only, which the caller gives buffers.
        """
        plan, model, points = self.plan, self.program.model, self.program.points
        data = self.arguments.record()
        self._put_tables(data)
        n_rows, n_links = data[3:5].tolist()
        domains = (Domain.BODY, Domain.POINT, Domain.LINK, Domain.ROW, Domain.WORLD)
        # of bodies also the world's, and one of sums before anything is added
        records = (model.n_bodies + 2, len(points), n_links, n_rows, 1)
        once, each = (
            [c * plan.size(d, columns) for c, d in zip(records, domains, strict=True)]
            for columns in (False, True)
        )
        # what columns have comes last: in a kernel for one configuration its numbers are wider
        between = self._matrix_sizes(int(data[record.PATH_STRIDE]))
        first = len(once) + len(between)
        rooms = self.arguments.buffer_sizes(self.target.lanes)
        if alone:
            rooms = [0] * len(rooms)
        last, sizes = first + len(rooms), [*once, *between, *rooms, *each]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        total = starts[-1] * self.target.lanes
        if alone == 1 and any(each):  # what columns have has a unit of its own, `lanes` numbers
            starts[last:] -= starts[first] - -(-starts[first] // self.target.lanes)
            total = starts[-1] * self.target.lanes
        elif alone == 1:
            total = starts[-1]
        data[record.OFFSETS : record.PATH_STRIDE] = [*starts[:first], *starts[last:-1]]
        self.arguments.put_buffers(data, starts[first:last])
        data[self.words] = self.target.unit * total + (0 if alone else 64)
        matrices = any(map(is_matrix, self.results))
        data[record.FEWEST] = smallest_group(self.target.lanes, int(data[self.words]), matrices)
        return data

    def _put_tables(self, data: np.ndarray) -> None:
        """Addresses and sizes of the tables of the model, and how many there are of everything."""
        model, points = self.program.model, self.program.points
        n_rows, n_links = row_count(points), len(self.tables.link_integers)
        n_hubs = len(self.tables.rows_with_hubs.hubs)
        data[:6] = model.n_bodies, len(points), model.nv, n_rows, n_links, n_hubs
        data[record.N_POINT_BODIES] = len(self.carriers)
        orders = {False: self.tables.rows, True: self.tables.rows_with_hubs}
        for hubs, order in orders.items():
            first = record.ROW_ORDERS[hubs] + 1
            data[first : first + 2] = len(order.rows), order.entries
        for word, table in self.pointers().items():
            data[word] = table.ctypes.data
        for kind, seeds in self.seeds.items():
            data[record.SEEDS[kind] + record.SINGLE + 1] = len(seeds.single)
            data[record.SEEDS[kind] + record.TOGETHER + 1] = len(seeds.together)
        widest = max((len(s.column) for s in self.seeds.values()), default=0)
        data[record.PATH_STRIDE] = (6 + self.plan.modes) * self.slots_of_paths * widest

    def _matrix_sizes(self, path_stride: int) -> list[int]:
        """Numbers in the scratch of matrices: where paths meet, small ones, of rows, …, angles."""
        model, points, tables = self.program.model, self.program.points, self.tables
        met = [x.operation.reads for p in self.phases for x in p.pairs]
        n_pairs, grams = met.count(Reads.MEETING), 2 * met.count(Reads.PATHS) * model.nv**2
        n_rows = row_count(points)
        widths = [planning.small_size(x, len(points), n_rows) for x in self.plan.small]
        small = 3 * sum(w * w for w in widths)
        orders = {False: tables.rows, True: tables.rows_with_hubs}
        used = [orders[planning.is_local(x)] for x in self.plan.row_matrices]
        matrices = sum(order.entries + 3 * len(order.rows) for order in used)
        factors = len(factors_of(self.results)) * model.nv**2
        angles = 2 * (model.nq + self.target.lanes)
        return [n_pairs * path_stride, small, matrices, factors, grams, angles]


def own_tables(results: list[Field]) -> list[ConstantBlocks]:
    """The tables of constant blocks that fields are computed from, in a fixed order."""
    tables: list[Any] = [x.data for x in reached(results) if x.op == "table"]
    return list(dict.fromkeys(tables))


def _slot(name: str, i: int, program: SweepProgram) -> InputSlot:
    expressions, lowered = program.request.expressions, program.lowered
    row = _row(name, expressions)
    if row is not None:
        takes = None if row.takes.index == "one" else row.takes
        return InputSlot(i, takes, row.gives, name in program.symmetric_inputs)
    others = ("q", "placement")
    if name in others:
        return InputSlot(i, None, None)
    operands = [n for n in lowered.inputs if _row(n, expressions) is None and n not in others]
    return InputSlot(i, None, lowered.operands[operands.index(name)])


def _row(name: str, expressions: tuple[Expr, ...]) -> Row | None:
    """The leaf that an input is the value of."""
    return row_named("unprescribed" if name == "free" else name, expressions)


def _output_shape(r: Result, program: SweepProgram) -> tuple[int, ...]:
    model, points = program.model, program.points
    if r.layout == "diagonal":
        return layout.block_shape(r.takes, r.gives, model)
    if r.layout.startswith("matrix") or r.layout == "blocks":
        return tuple(space_size(s, model, points) for s in (r.gives, r.takes))
    return layout.vector_shape(r.gives, model, points)


def _program_text(phases: list[Phase], results: tuple[Result, ...]) -> str:
    """The equations with fields numbered in order of appearance."""
    numbers: dict[Field, int] = {}
    lines: list[str] = []
    every = [x for p in phases for s in p.steps for x in s.fields]
    for x in [*every, *(r.field for r in results)]:
        numbers.setdefault(x, len(numbers))
    for p in phases:
        lines.append(f"phase {p.columns}")
        for x in p.pairs:
            lines.append(f"{x.op} {[numbers.get(y, -1) for y in x.args]} {x.data}")
        for s in p.steps:
            lines.append(f"step {s.kind.value} {s.domain.value}")
            for x in s.fields:
                args = [numbers.get(y, -1) for y in x.args]
                equation = "" if x.equation is None else numbers.get(x.equation, -1)
                lines.append(f"{numbers[x]} {x.op} {args} {equation} {x.data} {x.type}")
    for r in results:
        args = [numbers.get(y, -1) for y in r.field.args]
        what = f"{r.field.op} {args} {r.field.data}" if of_blocks(r.field) else ""
        left = "" if r.left is None else f"{r.factor} · {numbers.get(r.left, -1)}"
        lines.append(f"result {numbers[r.field]} {what} {r.layout} {r.takes} {r.gives} {left}")
    return "\n".join(lines)
