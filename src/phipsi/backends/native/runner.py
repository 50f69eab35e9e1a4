"""NativeCode: one lowered program compiled for one model."""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import Any

import numpy as np
from llvmlite import ir

from phipsi.backends import layout
from phipsi.backends.native import plan as planning
from phipsi.backends.native.engine import MachineCode, host_machine, release_memory
from phipsi.backends.native.gufunc import Gufunc
from phipsi.backends.native.inputs_outputs import Slot
from phipsi.backends.native.kernel import OFFSETS, Kernel
from phipsi.backends.native.loop import SLOTS, define_loop
from phipsi.backends.native.tables import model_tables
from phipsi.model.model import Model
from phipsi.model.points import PointSet
from phipsi.operators.catalogue import CATALOGUE
from phipsi.sweeps.ir import Domain, Field, Step, StepKind
from phipsi.sweeps.request import Lowered, Result


class NativeCode:
    """Machine code, tables and gufunc of one program.

    **Attributes:** `ufunc`, the gufunc, whose last output is an integer status per configuration;
    `output_shapes`, the core shapes of the other outputs.
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
        machine = host_machine()
        lanes = machine.lanes if not reproducible else 4
        self.tables = model_tables(model, points)
        steps, results = _body_results(steps, lowered.results)
        names = list(lowered.inputs)
        slots = {name: _slot(name, i, lowered) for i, name in enumerate(names)}
        shapes = [input_shapes[n] for n in names]
        shapes += [_output_shape(r, model, points) for r in lowered.results]
        shapes.append(())
        module = ir.Module("phipsi")
        kernel = Kernel(
            module,
            steps,
            results,
            slots,
            self.tables.codes,
            self.tables.doubles.shape[1],
            lanes,
            contract=not reproducible,
        )
        words = OFFSETS + 3 + len(shapes)
        define_loop(module, kernel.function, shapes, len(names), words, lanes)
        self.text = str(module)
        self.code = MachineCode(self.text, machine)
        self.data = self._data(kernel, shapes, model, points, lanes, words)
        self.gufunc = Gufunc(
            self.code.address("phipsi_loop"), self.data.ctypes.data, shapes, len(names), "phipsi", self
        )
        self.ufunc = self.gufunc.ufunc
        self.output_shapes = shapes[len(names) : -1]
        weakref.finalize(self, _free_slots, self.data, words)

    def _data(
        self,
        kernel: Kernel,
        shapes: list[tuple[int, ...]],
        model: Model,
        points: PointSet,
        lanes: int,
        words: int,
    ) -> np.ndarray:
        t, plan = self.tables, kernel.plan
        data = np.zeros(words + 1 + SLOTS, dtype=np.int64)
        pointers = [t.integers, t.doubles, t.point_body, t.point_doubles, t.gravity, t.dof_body]
        data[:3] = model.n_bodies, len(points), model.nv
        data[3:9] = [a.ctypes.data for a in pointers]
        unit = 8 * lanes
        sizes = [
            (model.n_bodies + 1) * plan.body_size,
            len(points) * plan.point_size,
            plan.world_size,
            *(int(np.prod(s, dtype=int)) for s in shapes),
        ]
        offsets = np.concatenate([[0], np.cumsum(sizes)]) * unit
        data[OFFSETS : OFFSETS + len(sizes)] = offsets[:-1]
        data[words] = offsets[-1] + 64
        return data


def _body_results(
    steps: list[Step], results: tuple[Result, ...]
) -> tuple[list[Step], tuple[Result, ...]]:
    """Results that points add up on bodies are written by a step over the bodies afterwards."""
    out: list[Result] = []
    extra: list[Field] = []
    for r in results:
        if planning.root(r.field).op == "scatter":
            alias = Field("rec", (), None, r.field.type, -1 - len(extra))
            alias.equation = r.field
            extra.append(alias)
            r = replace(r, field=alias)
        out.append(r)
    last = [Step(StepKind.MEMORYLESS, Domain.BODY, extra)] if extra else []
    return [*steps, *last], tuple(out)


def _slot(name: str, i: int, lowered: Lowered) -> Slot:
    row = CATALOGUE.get(name)
    if row is not None:
        return Slot(i, None if row.takes.index == "one" else row.takes, row.gives)
    if name == "q":
        return Slot(i, None, None)
    operands = [n for n in lowered.inputs if n not in CATALOGUE and n != "q"]
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
    """True if the program has native code: no operands of several columns, and something to compute."""
    layouts = all(r.layout != "columns" for r in lowered.results)
    return layouts and model.nv > 0 and planning.supported(steps)


def _free_slots(data: np.ndarray, words: int) -> None:
    for address in data[words + 1 :]:
        if address:
            release_memory(int(address))
