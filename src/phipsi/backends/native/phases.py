"""The phases of a kernel: what does not depend on a column runs once, the rest once per column."""

from __future__ import annotations

from dataclasses import dataclass

from phipsi.backends.native.plan import is_column
from phipsi.sweeps.ir import Field, Step, StepKind
from phipsi.sweeps.schedule import dependencies


@dataclass(frozen=True)
class Phase:
    """Steps that run together.

    `columns` is "" for the first phase; "all:efforts" for steps that run once for every dimension
    of that space; "path" for steps that run along the path of every seed, which `seed` says;
    `pairs` are the products where two such paths meet.
    """

    columns: str
    steps: tuple[Step, ...]
    seed: Field | None = None
    pairs: tuple[Field, ...] = ()

    @property
    def seed_kind(self) -> str:
        """What the seeds are at: "joint", "body" or "point"."""
        assert self.seed is not None
        if self.seed.data == "points":
            return "point"
        return "joint" if self.seed.type.rows == "r" else "body"


def phases_of(steps: list[Step]) -> list[Phase]:
    """Split the steps of a program into phases."""
    plain = _only(steps, lambda x: not _column(x) and x.type.cols != "p" and x.op != "matrix")
    out = [Phase("", tuple(plain))]
    for seed in _path_seeds(steps):
        fields = _behind(steps, seed)
        path = _only(steps, lambda x, fields=fields: x in fields)
        met = tuple(x for s in steps for x in s.fields if x.op == "pair" and x.args[0] in fields)
        out.append(Phase("path", tuple(path), seed, met))
    kinds = {x.type.cols: None for s in steps for x in s.fields if _column(x)}
    for cols in kinds:
        out.append(Phase(cols, tuple(_only(steps, lambda x, cols=cols: x.type.cols == cols))))
    return out


def _column(x: Field) -> bool:
    return is_column(x) and x.type.cols != "p"


def _only(steps: list[Step], keep: object) -> list[Step]:
    out: list[Step] = []
    for s in steps:
        fields = [x for x in s.fields if keep(x)]  # type: ignore[operator]
        if not fields:
            continue
        directed = any(x.op in ("up", "down") for x in fields)
        kind = s.kind if directed or s.kind is StepKind.SMALL else StepKind.MEMORYLESS
        out.append(Step(kind, s.domain, fields))
    return out


def _path_seeds(steps: list[Step]) -> list[Field]:
    return [x for s in steps for x in s.fields if x.op == "path_seed"]


def _behind(steps: list[Step], seed: Field) -> set[Field]:
    """The fields that depend on a seed."""
    found = {seed}
    fields = [x for s in steps for x in s.fields if x.type.cols == "p" and x.op != "pair"]
    while True:
        more = {x for x in fields if x not in found and any(y in found for y in dependencies(x))}
        if not more:
            return found
        found |= more
