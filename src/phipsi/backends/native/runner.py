"""NativeCode: one lowered program compiled for one model."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numpy as np

from phipsi.backends import layout
from phipsi.backends.backend import never
from phipsi.backends.native import direct, products
from phipsi.backends.native import llvm_text as ir
from phipsi.backends.native import plan as planning
from phipsi.backends.native.crew import MOST, run_shares, shares_of
from phipsi.backends.native.direct import address_of
from phipsi.backends.native.engine import (
    Machine,
    MachineCode,
    generic_machine,
    host_machine,
    machine_code,
)
from phipsi.backends.native.groups import branch_slots, seeds_of
from phipsi.backends.native.gufunc import make_gufunc
from phipsi.backends.native.inputs_outputs import Slot, is_matrix
from phipsi.backends.native.kernel import Kernel
from phipsi.backends.native.late import made_late
from phipsi.backends.native.loop import core_pattern, define_loop
from phipsi.backends.native.phases import Phase, phases_of
from phipsi.backends.native.record import (
    BRANCH,
    BUFFERS,
    FEWEST,
    FIRST,
    INTEGERS,
    OFFSETS,
    PATH_STRIDE,
    RELATED,
    ROW_ORDERS,
    SEED_COLUMN,
    SEEDS,
    SINGLE,
    TOGETHER,
)
from phipsi.backends.native.scratch import SLOTS, Scratch
from phipsi.backends.native.tables import model_tables
from phipsi.backends.native.zeros import filled_chunks, of_branches, related, zeros_stay
from phipsi.backends.workers import batch_pieces
from phipsi.loaded import LOADED
from phipsi.model.model import Model
from phipsi.model.points import PointSet
from phipsi.operators.catalogue import CATALOGUE
from phipsi.sweeps.ir import Domain, Field, Loop, Step, StepKind
from phipsi.sweeps.operations import operation
from phipsi.sweeps.request import Lowered, Result

_FLOAT64 = np.dtype(np.float64)
_KEPT_SHARES = 8
_LARGE = 1 << 20  # bytes of scratch of a group
_SHORT = 1 << 20  # bytes of scratch of one configuration, up to which a call may hold the GIL


class NativeCode:
    """Machine code, tables and gufunc of one program.

    **Attributes:** `ufunc`, the gufunc, whose last output is an integer status per configuration;
    `direct`, the builtin for one configuration in plain arrays, which returns None for anything
    else; `output_shapes`, the core shapes of the other outputs.
    """

    def __init__(
        self,
        steps: list[Step],
        lowered: Lowered,
        input_shapes: dict[str, tuple[int, ...]],
        model: Model,
        points: PointSet,
        *,
        reproducible: bool = False,
    ) -> None:
        self.machine = generic_machine() if reproducible else host_machine()
        self.reproducible = reproducible
        self.tables = model_tables(model, points)
        steps, self.results = _own_steps(steps, lowered.results)
        outputs = [r.field for r in self.results]
        self.phases = made_late(phases_of(steps, outputs), outputs)
        names = list(lowered.inputs)
        self.slots = {name: _slot(name, i, lowered) for i, name in enumerate(names)}
        shapes = [input_shapes[n] for n in names]
        shapes += [_output_shape(r, model, points) for r in lowered.results]
        shapes.append(())
        self.shapes, self.pattern = shapes, core_pattern(shapes)
        self.has_direct = direct.available()
        self.words = BUFFERS + 3 * len(shapes)
        widest = max((c.nv for c in self.tables.codes), default=0)
        steps = [s for p in self.phases for s in p.steps]
        pairs = [x for p in self.phases for x in p.pairs]
        self.plan = planning.make_plan(steps, pairs, outputs, widest)
        self.seeds = {
            p.seed_kind: seeds_of(p.seed_kind, model, points, self.machine.lanes)
            for p in self.phases
            if p.columns == "path"
        }
        self.branches, self.slots_of_paths = branch_slots(model) if pairs else (None, 0)
        lanes = self.machine.lanes
        self.filled = [
            filled_chunks(r, model, points, lanes) if zeros_stay(r) else None for r in self.results
        ]
        factors = [r for r in self.results if r.left is not None and of_branches(r)]
        self.related = related(model) if factors else None
        self.code = machine_code(self.key(), self.machine, self.emit)
        self.data = self._data(shapes, model, points)
        self.scratch_bytes = int(self.data[self.words])  # of a thread
        owned = (
            self.code, self.data, self.tables, self.seeds, self.branches, self.filled, self.related,
            Scratch(self.data, self.words),
        )  # fmt: skip
        loop = self._loop = self.code.address("phipsi_loop")
        self.ufunc = make_gufunc(loop, self.data.ctypes.data, shapes, len(names), owned)
        self.direct: Callable[..., Any] = never
        if self.has_direct and self.scratch_bytes < _SHORT * self.machine.lanes:
            self.direct = direct.make_direct(self.code.address("phipsi_direct"), self.data, owned)
        self.input_shapes = shapes[: len(names)]
        self.output_shapes = shapes[len(names) : -1]
        self._shares: dict[tuple[Any, ...], np.ndarray] = {}  # of batches that threads ran
        self.companions: dict[str, MachineCode] = {}  # other code around the same kernel

    def emit(self) -> str:
        """The program as LLVM text: a wide kernel, a one-lane kernel, and the loop around them."""
        module = ir.Module()
        kernels: dict[int, ir.Function] = {}
        for lanes in (self.machine.lanes, 1):
            kernels[lanes] = self._kernel(module, lanes).function
        n = len(self.slots)
        matrices = {n + i for i, r in enumerate(self.results) if is_matrix(r)}
        define_loop(module, kernels, self.pattern, n, self.words, matrices)
        if self.has_direct:
            direct.define_direct(module, kernels[1], self.pattern, len(self.slots), self.words)
        return str(module)

    def run_shared(self, arrays: list[np.ndarray], count: int, threads: int) -> bool | None:
        """Run parts of a batch at the same time; True if no element failed.

        None, and nothing done, if the numbers are not float64 or not aligned. The last array is the
        status. Memory that was freed is mostly given out again, so the shares of a few calls are
        kept.
        """
        key: tuple[Any, ...] = (count, threads)
        for a in arrays:
            key += (address_of(a), a.strides, a.dtype)
        shares = self._shares.get(key)
        if shares is None:
            shares = self._make_shares(arrays, batch_pieces(count, min(threads, MOST + 1)))
            if shares is None:
                return None
            if len(self._shares) >= _KEPT_SHARES:
                self._shares.clear()
            self._shares[key] = shares
        return run_shares(shares)

    def _make_shares(self, arrays: list[np.ndarray], pieces: list[slice]) -> np.ndarray | None:
        addresses, strides = [address_of(a) for a in arrays], [a.strides for a in arrays]
        odd = any(x & 7 for x in addresses) or any(s & 7 for one in strides for s in one)
        if odd or any(a.dtype is not _FLOAT64 for a in arrays[:-1]):
            return None
        sizes = dict.fromkeys(size for shape in self.shapes for size in shape)
        # LLVM is not asked again: in a forked process its lock may be held by a thread that is gone
        return shares_of(self._loop, self.data.ctypes.data, list(sizes), addresses, strides, pieces)

    def wide_kernel(self, module: ir.Module) -> Kernel:
        """The kernel for a group of configurations, in another module."""
        return self._kernel(module, self.machine.lanes)

    def _kernel(self, module: ir.Module, lanes: int) -> Kernel:
        return Kernel(
            module,
            self.phases,
            self.plan,
            self.results,
            self.slots,
            self.tables.codes,
            self.tables.link_codes,
            self.tables.selections,
            self.tables.doubles.shape[1],
            lanes,
            self.machine.lanes,
            fused=self.machine.fused,
        )

    def key(self) -> str:
        """Everything the code depends on, as one digest."""
        parts = [
            _version(),
            _machine_text(self.machine),
            repr(self.reproducible),
            _program_text(self.phases, self.results),
            repr([(n, s.buffer, s.takes, s.gives) for n, s in self.slots.items()]),
            repr([(c.kind, c.params) for c in self.tables.codes]),
            repr((self.tables.link_codes, self.tables.selections)),
            repr(self.tables.doubles.shape[1]),
            repr((self.pattern, self.has_direct)),
        ]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def pointers(self) -> dict[int, np.ndarray]:
        """The tables whose addresses the data record holds, by word."""
        out = dict(enumerate(self.tables.arrays, INTEGERS))
        for kind, seeds in self.seeds.items():
            start = SEEDS[kind]
            out |= {start + SINGLE: seeds.single, start + TOGETHER: seeds.together}
            out |= {start + FIRST: seeds.first, start + SEED_COLUMN: seeds.column}
        out[ROW_ORDERS[False]] = self.tables.rows.rows
        out[ROW_ORDERS[True]] = self.tables.rows_with_hubs.rows
        if self.branches is not None:
            out[BRANCH] = self.branches
        if self.related is not None:
            out[RELATED] = self.related
        first = BUFFERS + 2 * len(self.shapes) + len(self.slots)
        out |= {first + i: x for i, x in enumerate(self.filled) if x is not None}
        return out

    def _fewest(self, scratch: int) -> int:
        """How many configurations pay for the wide kernel, as measured.

        Two, three if one alone makes several columns of a matrix at once, four if the numbers of a
        group are too many for the second level of caches.
        """
        fewest = 4 if scratch > _LARGE else 3 if any(map(is_matrix, self.results)) else 2
        return min(fewest, self.machine.lanes)

    def _data(self, shapes: list[tuple[int, ...]], model: Model, points: PointSet) -> np.ndarray:
        """Sizes, addresses, offsets of the scratch areas in numbers, and slots for scratch."""
        plan = self.plan
        sizes_at = direct.sizes_after(self.words)
        core = [size for shape in shapes for size in shape]
        data = np.zeros(sizes_at + len(core), dtype=np.int64)
        data[self.words + 1 + SLOTS : sizes_at] = direct.python_words()
        data[sizes_at:] = core
        n_rows, n_links = layout.row_count(points), len(self.tables.link_integers)
        n_hubs = len(self.tables.rows_with_hubs.hubs)
        data[:6] = model.n_bodies, len(points), model.nv, n_rows, n_links, n_hubs
        orders = {False: self.tables.rows, True: self.tables.rows_with_hubs}
        for hubs, order in orders.items():
            data[ROW_ORDERS[hubs] + 1 : ROW_ORDERS[hubs] + 3] = len(order.rows), order.entries
        for word, table in self.pointers().items():
            data[word] = table.ctypes.data
        for kind, seeds in self.seeds.items():
            data[SEEDS[kind] + SINGLE + 1] = len(seeds.single)
            data[SEEDS[kind] + TOGETHER + 1] = len(seeds.together)
        widest = max((len(s.column) for s in self.seeds.values()), default=0)
        data[PATH_STRIDE] = 6 * self.slots_of_paths * widest
        counts = [int(np.prod(s, dtype=int)) for s in shapes]
        domains = (Domain.BODY, Domain.POINT, Domain.LINK, Domain.ROW, Domain.WORLD)
        # of bodies also the world's, and one of sums before anything is added
        records = (model.n_bodies + 2, len(points), n_links, n_rows, 1)
        once, each = (
            [c * plan.size(d, columns) for c, d in zip(records, domains, strict=True)]
            for columns in (False, True)
        )
        # what columns have comes last: in a kernel for one configuration its numbers are wider
        met = [x.op for p in self.phases for x in p.pairs]
        n_pairs, grams = met.count("pair"), 2 * met.count("gram") * model.nv**2
        widths = [planning.small_size(x, len(points), n_rows) for x in plan.small]
        small = 3 * sum(w * w for w in widths)
        used = [orders[planning.is_local(x)] for x in plan.row_matrices]
        matrices = sum(order.entries + 3 * len(order.rows) for order in used)
        aside = products.workspace(self.results, model.nv, self.machine.lanes)
        angles = 2 * (model.nq + self.machine.lanes)
        between = [n_pairs * int(data[PATH_STRIDE]), small, matrices, aside, grams, angles]
        first = len(once) + len(between)
        rooms = [-(-n // self.machine.lanes) * self.machine.lanes for n in counts]  # whole tiles
        sizes = [*once, *between, *rooms, *each]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        data[OFFSETS:PATH_STRIDE] = [*starts[:first], *starts[first + len(counts) : -1]]
        data[BUFFERS : BUFFERS + 2 * len(counts)] = [*starts[first : first + len(counts)], *counts]
        data[self.words] = starts[-1] * 8 * self.machine.lanes + 64
        data[FEWEST] = self._fewest(int(data[self.words]))
        return data


def _own_steps(
    steps: list[Step], results: tuple[Result, ...]
) -> tuple[list[Step], tuple[Result, ...]]:
    """Results that are complete only after their step are written by a step of their own.

    These are sums over points and links, and solutions of small systems at points and rows.
    """
    out: list[Result] = []
    extra: dict[Domain, list[Field]] = {}
    for i, r in enumerate(results):
        x, domain = planning.root(r.field), r.field.type.domain
        late = domain is not Domain.WORLD and x.operation.runs is not Loop.OWN
        if late:
            alias = Field(operation("rec"), (), None, r.field.type, -1 - i)
            alias.equation = r.field
            extra.setdefault(domain, []).append(alias)
            r = replace(r, field=alias)
        out.append(r)
    last = [Step(StepKind.MEMORYLESS, domain, fields) for domain, fields in extra.items()]
    return [*steps, *last], tuple(out)


def _slot(name: str, i: int, lowered: Lowered) -> Slot:
    row = CATALOGUE.get("unprescribed" if name == "free" else name)  # the mask that it is made of
    if row is not None:
        return Slot(i, None if row.takes.index == "one" else row.takes, row.gives)
    others = ("q", "placement")
    if name in others:
        return Slot(i, None, None)
    operands = [n for n in lowered.inputs if n not in (*CATALOGUE, *others, "free")]
    return Slot(i, None, lowered.operands[operands.index(name)])


def _output_shape(r: Any, model: Model, points: PointSet) -> tuple[int, ...]:
    if r.layout == "poses":
        return (model.n_bodies, 4, 4)
    if r.layout == "diagonal":
        return layout.block_shape(r.takes, r.gives, model)
    if r.layout.startswith("matrix") or r.layout == "blocks":
        return tuple(layout.space_size(s, model, points) for s in (r.gives, r.takes))
    return layout.vector_shape(r.gives, model, points)


def can_run(steps: list[Step], lowered: Lowered, model: Model) -> bool:
    """True if the program has native code: no operands of several columns, something to compute."""
    layouts = all(r.layout != "columns" for r in lowered.results)
    if not layouts or model.nv == 0 or not planning.supported(steps):
        return False
    if not products.can_run(lowered.results):
        return False
    seeds = [p.seed for p in phases_of(steps, lowered.fields) if p.seed is not None]
    return len(seeds) == len(set(seeds))  # paths that would have to be walked twice


# ---- keys of the code cache
# ------------------------------------------------------------------------


@cache
def _version() -> str:
    """Versions of everything that writes code, with a digest of our own sources.

    Sources that have changed since they were imported are not the ones that run: what such a
    process compiles must not be found by others.
    """
    digest = hashlib.sha256()
    here = Path(__file__).parent
    package = here.parent.parent
    folders = (here, here.parent, package / "model", package / "sweeps")
    paths = sorted(path for folder in folders for path in folder.glob("*.py"))
    for path in paths:
        digest.update(path.read_bytes())
    if max(path.stat().st_mtime for path in paths) > LOADED:
        digest.update(f"{os.getpid()} {LOADED}".encode())
    return f"llvmlite {llvmlite.__version__} {digest.hexdigest()}"


def _machine_text(machine: Machine) -> str:
    return f"{machine.cpu} {machine.features} {machine.lanes} {machine.fused}"


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
        what = f"{r.field.op} {args} {r.field.data}" if r.field.op == "matrix" else ""
        left = "" if r.left is None else f"{r.factor} · {numbers.get(r.left, -1)}"
        lines.append(f"result {numbers[r.field]} {what} {r.layout} {r.takes} {r.gives} {left}")
    return "\n".join(lines)
