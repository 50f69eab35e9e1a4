"""Planning of buffers: which fields live at one body only, and when the others can be forgotten.

Sweeps are fused and dead equations dropped by the schedule, work is shared by the builder; what is
left is to know how long a value is needed. Most are needed at the body being visited only and never
reach memory that grows with the number of bodies.
"""

from __future__ import annotations

from collections.abc import Iterable

from phipsi.sweeps.ir import Domain, Field, Step, StepKind
from phipsi.sweeps.schedule import dependencies

# operations that read their argument at another body, at another index set, or as a whole
_ELSEWHERE = (
    "up", "down", "gather", "scatter", "total", "assemble", "small_solve", "matrix", "pair",
    "square", "spread", "relative", "of_mate", "of_point", "of_row", "to_point", "to_row",
    "row_solve",
)  # fmt: skip


def plan_buffers(steps: list[Step], outputs: Iterable[Field]) -> list[Step]:
    """The steps with their local fields and the fields that are last used in them."""
    kept = set(outputs)
    made: dict[Field, int] = {}
    used: dict[Field, int] = {}
    shared: set[Field] = set(kept)
    for i, step in enumerate(steps):
        for x in step.fields:
            made[x] = i
        for x in step.fields:
            for y in dependencies(x):
                used[y] = i
                if made.get(y, i) != i or x.op in _ELSEWHERE:
                    shared.add(y)
    out: list[Step] = []
    for i, step in enumerate(steps):
        simple = step.kind is not StepKind.PATH and step.domain is not Domain.WORLD
        local = frozenset(
            x
            for x in step.fields
            if simple and x not in shared and x.type.domain is step.domain and x.op != "scatter"
        )
        last = tuple(x for x, j in used.items() if j == i and x not in kept)
        out.append(Step(step.kind, step.domain, step.fields, local, last))
    return out
