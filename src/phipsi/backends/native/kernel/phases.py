"""The phases of a kernel: steps without columns run once, the others once per column."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from phipsi.backends.native.kernel.plan import is_column
from phipsi.sweeps.ir import Field, Loop, Reads, Step, StepKind, dependencies


@dataclass(frozen=True)
class Phase:
    """Steps that run together.

    `columns` is "" for what runs once; "small" for small matrices; "all:efforts" for steps that run
    once for every dimension of that space; "path" for steps that run along the path of every seed,
    which `seed` says; `pairs` are the products where two such paths meet.
    """

    columns: str
    steps: tuple[Step, ...]
    seed: Field | None = None
    pairs: tuple[Field, ...] = ()

    @property
    def seed_kind(self) -> str:
        """What the seeds are at: "joint", "body", "parameter", "point" or "link"."""
        assert self.seed is not None
        if self.seed.data in ("points", "links"):
            return str(self.seed.data)[:-1]
        return {"r": "joint", "10": "parameter"}.get(self.seed.type.rows, "body")


def phases_of(steps: list[Step], results: Collection[Field] = ()) -> list[Phase]:
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
    out, stack = set(mine), list(mine)
    while stack:
        x = stack.pop()
        for y in _sources(x):
            if y not in out and kinds.get(y) == kinds[x]:
                out.add(y)
                stack.append(y)
    return out


def _meets(x: Field) -> bool:
    """True for a product of the paths of two columns."""
    return x.operation.runs is Loop.PAIRS


def _sources(x: Field) -> list[Field]:
    """What a field is computed from; the paths instead of their pairs."""
    out: list[Field] = []
    for y in dependencies(x):
        out += dependencies(y) if _meets(y) else [y]
    return out


def _only(steps: list[Step], keep: object) -> list[Step]:
    out: list[Step] = []
    for s in steps:
        fields = [x for x in s.fields if keep(x)]  # type: ignore[operator]
        if not fields:
            continue
        directed = any(x.operation.step is not None for x in fields)
        kind = s.kind if directed or s.kind is StepKind.SMALL else StepKind.MEMORYLESS
        out.append(Step(kind, s.domain, fields))
    return out


def _path_seeds(steps: list[Step]) -> list[Field]:
    return [x for s in steps for x in s.fields if x.operation.reads is Reads.SEED]


def _behind(steps: list[Step], seed: Field) -> set[Field]:
    """The fields that depend on a seed."""
    found = {seed}
    fields = [x for s in steps for x in s.fields if x.type.cols == "p" and not _meets(x)]
    while True:
        more = {x for x in fields if x not in found and any(y in found for y in dependencies(x))}
        if not more:
            return found
        found |= more
