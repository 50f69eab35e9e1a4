"""The interface of a backend, and the programs that it loads.

    compile(expr, model)                     Program.__call__(q, v, …)
      │  rewrite, lower, schedule              │  bind arguments, batch
      ▼                                        ▼
    SweepProgram ──── Backend.load ────▶ Loaded.run(arrays, batch, threads) → results, status
                                               │
                                               ▼  status into errors, NaN, or the caller's hands

A backend of your own is a class with `load`, given to ``pp.compile(expr, model, backend=Mine())``.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar

import numpy as np

from phipsi.core.backends import storage_layout as layout
from phipsi.core.model import ClosureSet, Model, PointSet
from phipsi.core.operators import row_named
from phipsi.core.sweeps import (
    STANDARD,
    Field,
    LoopStep,
    LoweredRequest,
    Reads,
    Request,
    StepKind,
    dependencies,
    reached,
)
from phipsi.errors import InputError, PhipsiWarning
from phipsi.views import view

Array = np.ndarray
Arrays = Mapping[str, Array]
"""Inputs by name, which broadcast; "columns" has as many entries as the operands have columns."""
Run = Callable[[Arrays, tuple[int, ...], int], tuple[list[Any], Array]]
"""(inputs, shape of the batch, threads) → results, and a status for each element."""


@dataclass(frozen=True)
class SweepProgram:
    """Scheduled equations for one model, with what goes in and what comes out.

    `by_column` is the same program for operands of one column, for a backend that takes no others.
    """

    request: Request
    lowered: LoweredRequest
    steps: list[LoopStep]
    model: Model
    reproducible: bool = False
    by_column: SweepProgram | None = None

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs, in order."""
        return self.lowered.inputs

    @property
    def points(self) -> PointSet:
        """The points that B and J are about."""
        return self.request.points

    @property
    def closures(self) -> ClosureSet | None:
        """The constraint rows, if there are any."""
        return self.request.points.closures

    @cached_property
    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        """Trailing shape of every input; −1 stands for a number of columns that is free."""
        return layout.input_shapes(self.request, self.lowered, self.model)

    @cached_property
    def reads(self) -> frozenset[str]:
        """Names out of `given` that the equations read; the others are inputs without effect."""
        fields = [x for step in self.steps for x in step.fields]
        named = {x.data for x in fields if x.op == "input"}
        named |= {x.op for x in fields if x.op == "gravity"}
        return frozenset(x for x in self.request.inputs if x in named)

    @cached_property
    def symmetric_inputs(self) -> tuple[str, ...]:
        """Given operators that are symmetric, of which programs read one half only."""
        rows = {name: row_named(name, self.request.expressions) for name in self.request.inputs}
        return tuple(
            name
            for name, row in rows.items()
            if row is not None and row.symmetric and len(self.input_shapes[name]) > 1
        )

    @cached_property
    def picks(self) -> list[list[tuple[slice, slice]] | None]:
        """For every result, the rows and columns of the blocks that are picked from its matrix."""
        pairs, where = self.request.blocks or (), (self.model, self.points)
        return [
            [(layout.block_rows(r.gives, i, *where), layout.block_rows(r.takes, j, *where))
             for i, j in pairs] if r.picked else None
            for r in self.lowered.results
        ]  # fmt: skip

    def pick(self, results: list[Any]) -> list[Any]:
        """The results, with blocks instead of the matrices from which they are picked."""
        return [
            a if places is None else tuple(a[..., rows, cols].copy() for rows, cols in places)
            for a, places in zip(results, self.picks, strict=True)
        ]

    @cached_property
    def path_seeds(self) -> dict[Field, str]:
        """What the paths of fields start at: "points", "links" or "bodies"."""
        steps = [s for s in self.steps if s.kind is StepKind.PATH]
        return {x: _seed_kind(x) for s in steps for x in s.fields}

    def sweeps(self) -> list[LoopStep]:
        """The steps that run over the bodies in a direction."""
        directed = (StepKind.TIP_TO_BASE, StepKind.BASE_TO_TIP)
        return [s for s in self.steps if s.kind in directed]

    def widened(self, arrays: Arrays, batch: tuple[int, ...]) -> dict[str, Array]:
        """The inputs, each with the whole batch."""
        return {
            name: np.broadcast_to(a, (*batch, *a.shape[a.ndim - len(self.input_shapes[name]) :]))
            for name in self.inputs
            for a in (arrays[name],)
        }


def _seed_kind(x: Field) -> str:
    """What the path of a field starts at."""
    before = reached([x], lambda y: [a for a in dependencies(y) if a.type.cols == "p"])
    return next((str(y.data) for y in before if y.operation.reads is Reads.SEED), "bodies")


def never(*_: Any) -> None:
    """The fast ways of programs that have none."""


@dataclass(frozen=True)
class Loaded:
    """A program that is ready to run.

    `run` takes any arguments that fit. The others are short cuts: they return None, and do nothing,
    for arguments that are out of the ordinary. ``direct(*args)`` is for one configuration in plain
    arrays, ``quick(args, threads, out)`` for batches of real numbers; both return what the user
    gets if nothing fails. `code` is the compiled program, if the backend has one. `later`, if it is
    given, returns a better ``direct`` as soon as the first call of one configuration has made it,
    and None before.
    """

    run: Run
    direct: Callable[..., Any] = never
    quick: Callable[[tuple[Any, ...], Any, Any], Any] = never
    code: Any = None
    later: Callable[[], Callable[..., Any] | None] | None = None


class Backend(ABC):
    """Where programs run. Implementations are final classes.

    **Attributes:** `name`; how programs are lowered for it: `pairs`, "all" or "symmetric" if it
    takes no others, `columns`, whether it takes operands of several columns; `any_numbers`, whether
    it works with complex numbers and symbols too. Programs that it does not take, and numbers that
    it does not know, go to the reference backend.
    """

    name: ClassVar[str]
    pairs: ClassVar[str] = "all"
    columns: ClassVar[bool] = True
    any_numbers: ClassVar[bool] = False

    def accepts(self, program: SweepProgram) -> bool:
        """Whether this backend can run a program."""
        return True

    @property
    def problem(self) -> str:
        """Why this backend cannot run here; nothing if it can."""
        return ""

    @property
    def processor(self) -> str:
        """The row of `sweeps.cheapest_plan.PROCESSORS` by which it chooses between plans."""
        return STANDARD

    @property
    def key(self) -> Any:
        """Key under which a model caches programs: the name; for a custom backend, the object."""
        return self.name if self.name in _BACKENDS else self

    @abstractmethod
    def load(self, program: SweepProgram) -> Loaded:
        """Make a program ready to run."""


_BACKENDS = ("native", "reference")


def backend_of(backend: Any) -> Backend:
    """A backend by its name, loaded when it is first needed, or an object of a user's class."""
    if isinstance(backend, Backend):
        return backend
    if isinstance(backend, str) and backend in _BACKENDS:
        return _named(backend)
    known = f"backend={backend!r} is not one of {_BACKENDS}"
    if isinstance(backend, type) and issubclass(backend, Backend):
        raise InputError(f"{known}, but a class. Pass an instance:  {backend.__name__}()")
    raise InputError(known)


def has_machine_code() -> bool:
    """Whether programs can be compiled to machine code here."""
    return _named("native").name == "native"


@cache
def _named(name: str) -> Backend:
    found: Backend = view(f"{name} backend")()
    if not found.problem:
        return found
    warnings.warn(
        f"no machine code: {found.problem}. Programs run on the reference backend, which gives the "
        "same results several hundred times slower. To compile them:  pip install llvmlite",
        PhipsiWarning,
        stacklevel=3,
    )
    return _named("reference")
