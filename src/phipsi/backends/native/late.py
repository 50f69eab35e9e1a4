"""Values that are made late: in the sweep that uses them, if less has to be kept that way.

The schedule computes everything as early as it can. What is then used in a later sweep only must be
written and read again, and with eight configurations side by side the records of the bodies do not
fit the fastest memory. So a field moves to the sweep that uses it if what it is made from takes less
room than the field itself, or is kept anyway: V ×* M V and M α of inverse dynamics, say, are made
from V and α, which children need too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from phipsi.backends.native.phases import Phase
from phipsi.backends.native.plan import (
    ELSEWHERE,
    MEETINGS,
    REMADE,
    SOLVES,
    SUMS,
    entry_count,
    is_column,
    root,
)
from phipsi.sweeps.ir import Domain, Field, StepKind
from phipsi.sweeps.schedule import dependencies

_STAY = (*ELSEWHERE, *SUMS, *SOLVES, *MEETINGS, "up", "matrix", "assemble", "rec")
_SWEEPS = (StepKind.BASE_TO_TIP, StepKind.TIP_TO_BASE, StepKind.MEMORYLESS)
_FREE = (*REMADE, "hinge_axes")  # costs nothing to keep: known numbers, for most joints

Where = tuple[int, int]  # number of the phase, and of the step in it


def made_late(phases: list[Phase], results: Iterable[Field]) -> list[Phase]:
    """The same phases, with fields moved to the step of their only use."""
    steps = {(p, s): step for p, phase in enumerate(phases) for s, step in enumerate(phase.steps)}
    made = {x: where for where, step in steps.items() for x in step.fields}
    uses: dict[Field, set[Where]] = {}
    fixed: set[Field] = set()  # read elsewhere, at other bodies or as results
    for where, step in steps.items():
        for x in step.fields:
            for y in dependencies(x) if root(x) is x else ():
                uses.setdefault(root(y), set()).add(where)
                if x.op in _STAY:
                    fixed.add(root(y))
    met = [x for phase in phases for x in phase.pairs]
    for x in (*results, *met):
        fixed.update(root(y) for y in (x, *dependencies(x)))

    def kept(x: Field) -> bool:
        return x in fixed or x.op in _FREE or x not in made or uses[x] != {made[x]}

    def better(x: Field, target: Where) -> bool:
        new = {root(y) for y in x.args}
        return sum(entry_count(y, 1) for y in new if not kept(y)) <= entry_count(x, 1)

    moved: dict[Where, list[Field]] = {}
    for x in sorted(made, key=lambda x: (made[x], x.number), reverse=True):
        old = made[x]
        if x in fixed or x.op in (*_STAY, *_FREE) or is_column(x) or root(x) is not x:
            continue
        if len(uses.get(x, ())) != 1 or phases[old[0]].columns:
            continue
        (new,) = uses[x]
        at_bodies = steps[old].domain is steps[new].domain is Domain.BODY
        if new[0] != old[0] or new <= old or not at_bodies or steps[new].kind not in _SWEEPS:
            continue
        if better(x, new):
            made[x] = new
            moved.setdefault(new, []).insert(0, x)
            for y in x.args:
                users = (z for z in made if root(z) is z and root(y) in map(root, dependencies(z)))
                uses[root(y)] = {made[z] for z in users}
    out: list[Phase] = []
    for p, phase in enumerate(phases):
        parts = []
        for s, step in enumerate(phase.steps):
            stay = [x for x in step.fields if made[x] == (p, s)]
            fields = moved.get((p, s), []) + [x for x in stay if x not in moved.get((p, s), ())]
            if fields:
                parts.append(replace(step, fields=fields))
        out.append(replace(phase, steps=tuple(parts)))
    return out
