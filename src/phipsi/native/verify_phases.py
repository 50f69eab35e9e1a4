"""Rules for what is legal after each pass of the back half of compilation (see `pipeline.py`).

Beside the page that lists the passes, not on it: docs/decisions/0067.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from phipsi.core.sweeps import Domain, Field, Loop, Rule, dependencies, verify
from phipsi.native import data_record as record
from phipsi.native.kernel.phases import Phase
from phipsi.native.kernel.storage_plan import (
    StoragePlan,
    entry_count,
    is_column,
    is_rematerialised,
    is_whole,
    root,
)


def check(stage: str, *made: Any) -> None:
    """Apply the rules of this file, if checks are on."""
    if verify.CHECKING:
        verify.check(LEGAL, stage, *made)


def _steps(phases: list[Phase]) -> list[Any]:
    return [step for phase in phases for step in phase.steps]


def phases_in_order(phases: list[Phase], before: set[Field]) -> Iterator[str]:
    """Nothing is read before it is computed; products of two paths are there after them."""
    done: set[Field] = set()
    for phase in phases:
        for step in phase.steps:
            yield from verify.reads_too_early(step, done, root)
            done.update(step.fields)
        done.update(phase.pairs)


def preserves_fields(phases: list[Phase], before: set[Field]) -> Iterator[str]:
    """Fields move between steps, or are computed again; none goes."""
    there = {x for step in _steps(phases) for x in step.fields}
    yield from (f"{x!r} is no longer computed" for x in before - there)
    yield from (f"{x!r} comes from nowhere" for x in there - before)


def columns_local_to_phase(phases: list[Phase], before: set[Field]) -> Iterator[str]:
    """A column is not kept: what the columns of a phase read of columns, it computes itself."""
    for phase in phases:
        here = {x for step in phase.steps for x in step.fields}
        for x in here:
            for y in dependencies(x):
                if is_column(x) and is_column(y) and y not in here and y.operation.runs is Loop.OWN:
                    yield f"{x!r} reads the column {y!r} of another phase"


def slots_apart(plan: StoragePlan, phases: list[Phase], widest: int) -> Iterator[str]:
    """No two values share numbers of a record."""
    records: dict[tuple[Domain, bool], list[tuple[int, int, Field]]] = {}
    for domain, slots in _records(plan):
        for x, start in slots.items():
            place = (start, start + entry_count(x, widest, plan.modes), x)
            records.setdefault((domain, is_column(x)), []).append(place)
    for key, places in records.items():
        places.sort(key=lambda p: p[:2])
        for (_, end, x), (start, _, y) in pairwise(places):
            if start < end:
                yield f"{x!r} and {y!r} share numbers {start} … {end - 1} of a record"
        if places and places[-1][1] > plan.size(*key):
            yield f"{places[-1][2]!r} ends behind its record"


def _records(plan: StoragePlan) -> Iterator[tuple[Domain, dict[Field, int]]]:
    yield from ((Domain.BODY, plan.body), (Domain.BODY, plan.sums))
    yield from ((Domain.WORLD, plan.world), (Domain.WORLD, plan.carried))
    yield from plan.others.items()


def stored_for_later_steps(plan: StoragePlan, phases: list[Phase], widest: int) -> Iterator[str]:
    """What another step reads has a place in memory, unless it is computed again."""
    placed = {x for _, slots in _records(plan) for x in slots}
    for step in _steps(phases):
        here = {root(x) for x in step.fields}
        for x in step.fields:
            for y in map(root, dependencies(x)):
                kept = (
                    y in here or y in placed or is_rematerialised(y) or is_whole(y) or is_whole(x)
                )
                if not kept and y.operation.runs is not Loop.PAIRS and y.type.cols != "p":
                    yield f"{x!r} reads {y!r} of another step, which is not stored"


def areas_apart(data: np.ndarray, words: int, sizes: int, unit: int) -> Iterator[str]:
    """The areas of scratch memory follow each other and end where it ends."""
    starts = [*data[record.OFFSETS : record.PATH_STRIDE]]
    starts += [*data[record.BUFFERS : record.BUFFERS + sizes]]
    if min(starts) < 0 or max(starts) * unit > data[words]:
        yield f"an area begins at {max(starts)}, behind the {data[words]} bytes of scratch memory"
    once = [*data[record.OFFSETS : record.COLUMN_BODIES]]
    if sorted(once) != once:
        yield f"the areas {once} are not in order"


_ORDER = (phases_in_order, preserves_fields, columns_local_to_phase)
LEGAL: dict[str, tuple[Rule, ...]] = {
    "own steps": verify.LEGAL["schedule"],
    "phases": (phases_in_order, columns_local_to_phase),
    "rematerialisation": _ORDER,
    "plan": (slots_apart, stored_for_later_steps),
    "record": (areas_apart,),
}
"""For every pass of the back half, what is legal after it."""
