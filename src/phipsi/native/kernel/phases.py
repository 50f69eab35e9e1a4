"""The phases of a kernel: steps without columns run once, the others once per column.

Values are computed in the sweeps that use them, if less has to be kept that way (`rematerialise`).
The schedule computes everything as early as it can. What is then used in a later sweep only must
be written and read again, and with eight configurations side by side the records of the bodies do
not fit the fastest memory. So a field moves to the sweep that uses it if its arguments take
no more room than the field itself, or are kept anyway: V ×* M V and M α of inverse dynamics, say,
are computed from V and α, which children need too. A value that costs no more than reading it is
computed in every sweep that uses it: V × H* v in forward dynamics. What modes add, M(η) and its
forces, stays where it is: the sweep that uses it has no registers left for the hundreds of numbers
it is made from, and writes more of them to memory than it would read. For the same reason what
rotors on skew axes add to b stays before sweeps with articulated inertias.

Sweeps that only bodies with points outboard need leave out the others (`for_points_only`), of which
nobody reads what they compute: the accelerations at the feet of a standing robot, say, and the
admittances where their paths meet, need not reach arms and head.

Reasons: docs/decisions/0028, docs/decisions/0058.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from phipsi.core.model import Model, PointSet
from phipsi.core.sweeps import (
    Domain,
    Field,
    Keep,
    Kind,
    Loop,
    LoopStep,
    Reads,
    StepKind,
    Variant,
    dependencies,
    flops,
    reached,
)
from phipsi.native.kernel.storage_plan import (
    entry_count,
    is_column,
    is_rematerialised,
    is_zero,
    root,
)


@dataclass(frozen=True)
class Phase:
    """Steps that run together.

    `columns` is "" for what runs once; "small" for small matrices; "all:efforts" for steps that run
    once for every dimension of that space; "path" for steps that run along the path of every seed,
    which `seed` says; `pairs` are the products where two such paths meet.
    """

    columns: str
    steps: tuple[LoopStep, ...]
    seed: Field | None = None
    pairs: tuple[Field, ...] = ()

    @property
    def seed_kind(self) -> str:
        """What the seeds are at: "joint", "body", "parameter", "point" or "link"."""
        assert self.seed is not None
        if self.seed.data in ("points", "links"):
            return str(self.seed.data)[:-1]
        return {"r": "joint", "10": "parameter"}.get(self.seed.type.rows, "body")


def phases_of(steps: list[LoopStep], results: Collection[Field] = ()) -> list[Phase]:
    """Split the steps of a program into phases, each after those it needs values from."""
    everything = [x for s in steps for x in s.fields]
    whole = [x for x in everything if x.operation.reads is Reads.BLOCKS and x in set(results)]
    used = {y for x in everything if x.operation.solves for y in x.args[:1]}
    left = [x for x in everything if not _meets(x) and (x not in whole or x in used)]
    kinds = {x: (x.type.cols,) if is_column(x) else ("",) for x in left}
    for x in left:
        if x.operation.runs is Loop.ONCE and not is_column(x):
            kinds[x] = ("small",)
    behind = {seed: _behind(steps, seed) for seed in _path_seeds(steps)}
    for seed, fields in behind.items():
        kinds |= {x: ("path", seed) for x in fields}  # type: ignore[misc]
    levels = _levels(left, kinds)
    phases = dict.fromkeys((levels[x], kinds[x]) for x in left)
    out: list[Phase] = []
    for level, kind in sorted(phases, key=lambda p: (p[0], _ORDER.get(p[1][0], 3))):
        mine = {x for x in left if (levels[x], kinds[x]) == (level, kind)}
        if kind[0] == "path" or kind[0].startswith("all:"):
            if not _wanted_elsewhere(mine, everything, kinds, results):
                continue
            mine = _with_sources(mine, kinds)  # columns are not kept from phase to phase
        part = tuple(_only(steps, mine.__contains__))
        seed: Any = kind[1] if len(kind) > 1 else None
        met: tuple[Field, ...] = ()
        if seed is not None:
            met = tuple(x for x in everything if _meets(x) and x.args[0] in behind[seed])
        out.append(Phase(kind[0], part, seed, met))
    return out or [Phase("", ())]


_ORDER = {"": 0, "path": 1, "small": 2}


def _levels(fields: list[Field], kinds: dict[Field, tuple[Any, ...]]) -> dict[Field, int]:
    """How many times the kind of phase changes on the way to each field."""
    levels = dict.fromkeys(fields, 0)
    changed = True
    while changed:
        changed = False
        for x in fields:
            for y in _sources(x):
                if y not in levels:
                    continue
                least = levels[y] + (kinds[y] != kinds[x])
                if levels[x] < least:
                    levels[x], changed = least, True
    return levels


def _wanted_elsewhere(
    mine: set[Field],
    fields: list[Field],
    kinds: dict[Field, tuple[Any, ...]],
    results: Collection[Field],
) -> bool:
    """Whether a phase of columns computes a result, or something for another kind of phase."""
    if any(x in mine for x in results):
        return True
    return any(y in mine and kinds.get(x) != kinds[y] for x in fields for y in dependencies(x))


def _with_sources(mine: set[Field], kinds: dict[Field, tuple[Any, ...]]) -> set[Field]:
    """Fields of one kind with all of that kind they are computed from."""
    return set(reached(list(mine), lambda x: [y for y in _sources(x) if kinds.get(y) == kinds[x]]))


def _meets(x: Field) -> bool:
    """True for a product of the paths of two columns."""
    return x.operation.runs is Loop.PAIRS


def _sources(x: Field) -> list[Field]:
    """What a field is computed from; the paths instead of their pairs."""
    out: list[Field] = []
    for y in dependencies(x):
        out += dependencies(y) if _meets(y) else [y]
    return out


def _only(steps: list[LoopStep], keep: object) -> list[LoopStep]:
    out: list[LoopStep] = []
    for s in steps:
        fields = [x for x in s.fields if keep(x)]  # type: ignore[operator]
        if not fields:
            continue
        directed = any(x.operation.step is not None for x in fields)
        kind = s.kind if directed or s.kind is StepKind.SMALL else StepKind.MEMORYLESS
        out.append(LoopStep(kind, s.domain, fields))
    return out


def _path_seeds(steps: list[LoopStep]) -> list[Field]:
    return [x for s in steps for x in s.fields if x.operation.reads is Reads.SEED]


def _behind(steps: list[LoopStep], seed: Field) -> set[Field]:
    """The fields that depend on a seed."""
    found = {seed}
    fields = [x for s in steps for x in s.fields if x.type.cols == "p" and not _meets(x)]
    while True:
        more = {x for x in fields if x not in found and any(y in found for y in dependencies(x))}
        if not more:
            return found
        found |= more


# ---- values that are computed again --------------------------------------------------------------


_SWEEPS = (StepKind.BASE_TO_TIP, StepKind.TIP_TO_BASE, StepKind.MEMORYLESS)
_CHEAP = 5  # operations for every number of a field that is computed twice
_PUSHED = 24  # numbers from body to body that leave registers for long formulas

Where = tuple[int, int]  # number of the phase, and of the step in it


def rematerialise(phases: list[Phase], results: Iterable[Field]) -> list[Phase]:
    """The same phases, with fields moved or copied to the steps that use them."""
    program = _FieldUses(phases, results)
    for x in program.last_first():
        program.move(x)
    for x in program.last_first():
        program.copy(x)
    return program.phases()


class _FieldUses:
    """The steps that compute a field, and those that use it; views count as what they show."""

    def __init__(self, phases: list[Phase], results: Iterable[Field]) -> None:
        self._phases = phases
        self._steps = {(p, s): x for p, ph in enumerate(phases) for s, x in enumerate(ph.steps)}
        self._made = {x: {where} for where, step in self._steps.items() for x in step.fields}
        self._users: dict[Field, list[Field]] = {}
        self._views: dict[Field, list[Field]] = {}
        self._fixed: set[Field] = set()  # read at other bodies, or results
        for x in self._made:
            if root(x) is not x:
                self._views.setdefault(root(x), []).append(x)
            for y in dependencies(x) if root(x) is x else ():
                self._users.setdefault(root(y), []).append(x)
                if x.operation.elsewhere:
                    self._fixed.add(root(y))
        met = [x for phase in phases for x in phase.pairs]
        for x in (*results, *met):
            self._fixed.update(root(y) for y in (x, *dependencies(x)))
        self._new: dict[Where, list[Field]] = {}

    def last_first(self) -> list[Field]:
        """All fields, users before what they use."""
        return sorted(self._made, key=lambda x: (max(self._made[x]), x.number), reverse=True)

    def phases(self) -> list[Phase]:
        """The phases with their new steps."""
        out: list[Phase] = []
        for p, phase in enumerate(self._phases):
            parts = [
                replace(step, fields=[*self._new.get((p, s), ()), *self._still(p, s)])
                for s, step in enumerate(phase.steps)
            ]
            out.append(replace(phase, steps=tuple(step for step in parts if step.fields)))
        return out

    def _still(self, p: int, s: int) -> list[Field]:
        new = self._new.get((p, s), ())
        return [x for x in self._steps[p, s].fields if (p, s) in self._made[x] and x not in new]

    # ---- what can be done, and whether it pays

    def _uses(self, x: Field) -> set[Where]:
        return {where for y in self._users.get(x, ()) for where in self._made[y]}

    def _kept(self, x: Field) -> bool:
        """True for what is in memory anyway, or need not be."""
        if x in self._fixed or x.operation.keep is not Keep.STORED or x not in self._made:
            return True
        return not self._uses(x) <= self._made[x]

    def _later(self, x: Field) -> set[Where]:
        """The sweeps over bodies that use x, if all of them are later ones of the same phase."""
        if x in self._fixed or is_column(x) or root(x) is not x or len(self._made[x]) > 1:
            return set()
        if x.operation.keep is not Keep.STORED or (x.operation.elsewhere and not _of_roots(x)):
            return set()
        (old,), uses = self._made[x], self._uses(x)
        fits = not self._phases[old[0]].columns and self._steps[old].domain is Domain.BODY
        for new in uses:
            step = self._steps[new]
            fits &= new[0] == old[0] and new > old
            fits &= step.domain is Domain.BODY and step.kind in _SWEEPS
        return uses if fits else set()

    def move(self, x: Field) -> None:
        """Compute x where it is used, if that is one step and no more is kept."""
        uses = self._later(x)
        if len(uses) != 1 or x.op == x.operation.modal or _of_joints(x):
            return
        if _is_long(x) and self._is_crowded(*uses):
            return
        made_from = {root(y) for y in x.args}
        if sum(entry_count(y, 1) for y in made_from if not self._kept(y)) <= entry_count(x, 1):
            for y in (*self._views.get(x, ()), x):
                (new,) = self._made[y] = uses
                self._new.setdefault(new, []).insert(0, y)

    def _is_crowded(self, where: Where) -> bool:
        """True for a sweep without free registers, as bodies push many numbers to their parents."""
        pushed = [x for x in self._steps[where].fields if x.operation.reads is Reads.CHILDREN]
        return sum(entry_count(x, 1) for x in pushed) > _PUSHED

    def copy(self, x: Field) -> None:
        """Compute x in every step that uses it, if it costs next to nothing."""
        uses = self._later(x)
        if len(uses) < 2 or not self._is_cheap(x):
            return
        stack = [x]
        while stack:
            y = stack.pop()
            for where in uses - self._made[y]:
                self._new.setdefault(where, []).insert(0, y)
            stack += [z for z in {root(z) for z in y.args} if not self._kept(z)]
            self._made[y] = uses if y is x else self._made[y] | uses
        for y in self._views.get(x, ()):
            for where in uses - self._made[y]:
                self._new[where].insert(self._new[where].index(x) + 1, y)
            self._made[y] = uses

    def _is_cheap(self, x: Field) -> bool:
        if x.operation.elsewhere or is_column(x) or flops(x, 1) > _CHEAP * entry_count(x, 1):
            return False
        return all(self._kept(y) or self._is_cheap(y) for y in {root(y) for y in x.args})


def _is_long(x: Field) -> bool:
    """True for what is computed from more than it is, in its own way for each type of joint."""
    long = flops(x, 1) > _CHEAP * entry_count(x, 1)
    return long and bool(x.args) and x.operation.variant is Variant.JOINT


def _of_joints(x: Field) -> bool:
    """True for what is made from the sines of a joint, which are where its transformation is."""
    leaf = not x.args and x.operation.variant is Variant.JOINT and x.type.kind is not Kind.RIGID
    return leaf and flops(x, 1) > _CHEAP * entry_count(x, 1)


def _of_roots(x: Field) -> bool:
    """True for what only roots get from above: the same wherever it is computed."""
    return x.operation.reads is Reads.PARENT and len(x.args) == 2 and is_zero(x.args[0])


# ---- sweeps that only bodies with points outboard need -------------------------------------------


_AT_POINTS = (Domain.POINT, Domain.LINK, Domain.ROW)


def for_points_only(phases: Collection[Phase], outputs: Collection[Field]) -> list[LoopStep]:
    """The sweeps from the base to the tips of which only bodies with points outboard are read."""
    everywhere = _needed_everywhere(phases, outputs)

    def kept(step: LoopStep) -> bool:
        return any(
            x in everywhere for x in step.fields if root(x) is x and not is_rematerialised(x)
        )

    sweeps = [s for p in phases if p.columns == "" for s in p.steps]
    return [s for s in sweeps if s.kind is StepKind.BASE_TO_TIP and not kept(s)]


def _needed_everywhere(phases: Collection[Phase], outputs: Collection[Field]) -> set[Field]:
    """The fields of bodies that are needed at bodies without points too."""
    stack = list(outputs)
    for p in phases:
        for x in (*p.pairs, *(x for s in p.steps for x in s.fields)):
            if not _reads_like_points(x, p) and not _reads_here(x):
                stack += dependencies(x)

    def sources(x: Field) -> Sequence[Field]:
        in_world = x.type.domain is Domain.WORLD and x.operation.reads is not Reads.MEETING
        # paths that meet are dealt with above
        return dependencies(x) if in_world or _reads_here(x) else ()

    return set(reached(stack, sources))


def _reads_here(x: Field) -> bool:
    """True for a field of bodies that reads what is at the same body or at its parent."""
    ordinary = x.type.domain is Domain.BODY and not is_column(x)
    return ordinary and x.operation.reads is not Reads.CHILDREN


def _reads_like_points(x: Field, phase: Phase) -> bool:
    """True for what is at points, or on the paths from points to the roots."""
    if x.operation.reads is Reads.MEETING or (x.type.cols == "p" and phase.seed is not None):
        return phase.seed_kind in ("point", "link")
    return x.type.domain in _AT_POINTS


def carriers(model: Model, points: PointSet) -> np.ndarray:
    """The bodies with points outboard or on themselves, parents first."""
    found: set[int] = set()
    for k in points.body:
        while k >= 0 and k not in found:
            found.add(int(k))
            k = model.parent[k]
    return np.array(sorted(found), dtype=np.int64)
