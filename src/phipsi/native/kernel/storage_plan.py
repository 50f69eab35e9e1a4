"""Where the values of a program live: registers, the record of a body, or the record of the whole.

Views (transposes, negatives, names of equations) have no place of their own. A field gets a slot
in the body records if another step or another body reads it; everything else stays in registers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from phipsi.core.sweeps import (
    Domain,
    Field,
    Keep,
    Kind,
    Loop,
    LoopStep,
    Reads,
    dependencies,
    parts_of,
    space_of,
)

# operations that read the record of another body, point, link or row
_OTHER_BODY = (Reads.PARENT, Reads.HOST, Reads.FRAMES)
_OTHER_RECORD = (*_OTHER_BODY, Reads.MATE, Reads.POINT, Reads.ROW)


MODAL_SIZES = ("b", "B", "m")
"""Sizes that depend on the modes of a body or of its parent."""


def is_rematerialised(x: Field) -> bool:
    """True for a value that is computed again where it is needed instead of being kept."""
    return x.operation.keep is Keep.AGAIN


def is_whole(x: Field) -> bool:
    """True for a whole matrix, which has memory of its own."""
    return x.operation.runs is Loop.ONCE and not x.operation.solves


def shown(x: Field) -> tuple[Field, Any, bool]:
    """(y, c, transposed): x shows c y, or c y*, through equations, transposes and multiples."""
    factor: Any = 1
    transposed = False
    while True:
        if x.equation is not None:
            x = x.equation
        elif x.op == "T":
            x, transposed = x.args[0], not transposed
        elif x.op == "add" and len(x.args) == 1:
            data: Any = x.data
            x, factor = x.args[0], data[0] * factor
        else:
            return x, factor, transposed


def root(x: Field) -> Field:
    """The field whose value x shows."""
    return shown(x)[0]


def is_zero(x: Field) -> bool:
    """True for a field that shows zeros."""
    return root(x).op == "zero"


def entry_count(x: Field, widest: int, modes: int = 0) -> int:
    """How many numbers a slot for x holds; `modes` is the most that a body has."""
    t = x.type

    def size(s: str) -> int:
        if s in ("r", "q"):  # a rotation has one coordinate more than rates
            return widest if s == "r" else 2 * widest
        if s in MODAL_SIZES:
            return modes if s == "m" else 6 + modes
        return int(s) if s.isdigit() else 1  # one column at a time

    if t.kind is Kind.INERTIA:
        return 10
    if t.kind in (Kind.RIGID, Kind.RIGID_T, Kind.GYRATION):
        return 12
    if t.kind is Kind.STEP:
        return 12 + 6 * modes
    if t.kind is Kind.TURNING:
        return 3 * size(t.rows)
    if t.kind is Kind.SYMMETRIC:
        n = size(t.rows)
        return n * (n + 1) // 2
    return size(t.rows) * size(t.cols)


def is_column(x: Field) -> bool:
    """True for a field that has a value for every column of a matrix."""
    return not is_whole(x) and (x.type.cols == "p" or x.type.cols.startswith("all:"))


@dataclass
class StoragePlan:
    """Slots of fields, in numbers from the start of a record.

    Fields with a value per column have records of their own, because a kernel may work on several
    columns of one configuration at once.
    """

    made: dict[Field, int]
    modes: int = 0  # the most that a body has
    body: dict[Field, int] = field(default_factory=dict[Field, int])
    sums: dict[Field, int] = field(default_factory=dict[Field, int])
    others: dict[Domain, dict[Field, int]] = field(
        default_factory=lambda: {Domain.POINT: {}, Domain.LINK: {}, Domain.ROW: {}}
    )
    world: dict[Field, int] = field(default_factory=dict[Field, int])
    carried: dict[Field, int] = field(default_factory=dict[Field, int])
    cross: set[Field] = field(default_factory=set[Field])
    whole: set[Field] = field(default_factory=set[Field])  # read without knowing the joint type
    small: dict[Field, int] = field(default_factory=dict[Field, int])  # matrices to be inverted
    row_matrices: dict[Field, int] = field(default_factory=dict[Field, int])  # between rows
    sizes: dict[tuple[Domain, bool], int] = field(default_factory=dict[tuple[Domain, bool], int])

    def slots(self, domain: Domain) -> dict[Field, int]:
        """The slots in the records of a domain, besides sums and what paths carry."""
        return {Domain.BODY: self.body, Domain.WORLD: self.world, **self.others}[domain]

    def size(self, domain: Domain, columns: bool) -> int:
        """Numbers in a record."""
        return self.sizes.get((domain, columns), 0)

    def new(self, x: Field, domain: Domain, widest: int) -> int:
        """A place for x in a record of the domain."""
        key = (domain, is_column(x))
        start = self.sizes.get(key, 0)
        self.sizes[key] = start + entry_count(x, widest, self.modes)
        return start


def supported(steps: list[LoopStep]) -> bool:
    """True if machine code can be written for the program.

    Whole matrices are for solving only, between constraint rows pair by pair; columns of operands
    are done one by one.
    """
    fields = [x for s in steps for x in s.fields]
    return not any(
        x.type.cols == "c"
        or (x.operation.runs is not Loop.ONCE and any(is_whole(y) for y in x.args))
        or (x.operation.solves == "rows" and not _of_pairs(x.args[0]))
        for x in fields
    )


def small_size(x: Field, n_points: int, n_rows: int) -> int:
    """Rows of a small matrix."""
    index = space_of(x.type.rows).index
    return {"point": 6 * n_points, "row": n_rows}.get(index, 6)


def is_local(x: Field) -> bool:
    """True for a matrix between rows whose pairs leave hubs apart."""
    return any("local" in y.data for y in x.args)  # type: ignore[operator]


def _of_pairs(x: Field) -> bool:
    """True for a matrix between rows that is computed pair by pair, within its envelope."""
    blocks = x.operation.reads is Reads.BLOCKS
    return blocks and all(part.how == "pairs" for part, _ in parts_of(x))


def make_plan(
    steps: list[LoopStep], pairs: list[Field], outputs: list[Field], widest: int, modes: int = 0
) -> StoragePlan:
    """Give every field that needs one a slot."""
    plan = StoragePlan({x: i for i, step in enumerate(steps) for x in step.fields}, modes)
    wanted = dict.fromkeys(_read_from_memory(plan, steps))
    for x in (x for step in steps for x in step.fields):
        if x.operation.solves:
            mine = plan.row_matrices if x.operation.solves == "rows" else plan.small
            mine.setdefault(x.args[0], len(mine))
        if x.operation.reads is Reads.CHILDREN:
            carried = x.type.cols == "p"
            place = plan.new(x, Domain.WORLD if carried else Domain.BODY, widest)
            (plan.carried if carried else plan.sums)[x] = place
    for x in pairs:
        if x.operation.reads is Reads.MEETING and not is_rematerialised(root(x.args[1])):
            wanted[root(x.args[1])] = None
            plan.whole.add(root(x.args[1]))
    for x in map(root, outputs):
        blocks = x.operation.reads is Reads.BLOCKS
        if x.type.domain is Domain.WORLD and not (is_rematerialised(x) or blocks):
            wanted[x] = None
    for x in wanted:
        domain = x.type.domain
        columns = x.operation.reads is Reads.CHILDREN or x.type.cols == "p"
        if domain is not Domain.BODY or not columns:
            plan.slots(domain)[x] = plan.new(x, domain, widest)
    return plan


def _read_from_memory(plan: StoragePlan, steps: list[LoopStep]) -> Iterator[Field]:
    """What steps read that is not in registers; what other bodies read is noted in the plan."""
    where: dict[Field, set[int]] = {}  # some fields are computed in several steps
    for i, step in enumerate(steps):
        for x in step.fields:
            where.setdefault(x, set()).add(i)
    for i, step in enumerate(steps):
        for x in step.fields:
            row, sources = x.operation, dependencies(x)
            for y in sources:
                r = root(y)
                other = row.reads in _OTHER_RECORD and y is sources[0] and not is_zero(r)
                if row.reads is Reads.WHOLE and not row.solves:
                    yield r  # columns of a matrix
                elif row.reads is Reads.BLOCKS or is_whole(r):
                    continue  # written and read in memory of their own
                elif row.solves:
                    yield from (r, x)
                elif row.reads is Reads.SEED:  # paths read the blocks of their points
                    yield r
                elif other:
                    if row.reads in _OTHER_BODY:
                        plan.cross.add(r)
                    yield r
                elif is_rematerialised(r) or (x.type.cols == "p" and row.reads is Reads.CHILDREN):
                    continue  # the second is carried from body to body along the path
                elif i not in where[r] or r.operation.runs is Loop.SUMMANDS:
                    yield r
            if row.runs is Loop.SUMMANDS:
                yield x
