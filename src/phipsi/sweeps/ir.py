"""The intermediate form: equations between block fields, and the steps they are scheduled into.

A `Field` has one block per body (or per point, constraint row, link, or one in all). Most
operations work on the blocks of one body. Two look at neighbours, and they are all that propagates
along the tree:

    up(u)(k)   = Σ over children c of u(c)          (a shift tip to base)
    down(u)(k) = u(parent(k)), a constant at roots   (a shift base to tip)

A transition operator is an equation with itself on the right: ``z = φ y`` is ``z = y + up(X z)``
with X(k) = φ(parent, k). So causal operators become loops over `up` (tip_to_base sweeps),
anticausal ones loops over `down` (base_to_tip sweeps): that is the one sentence tying the two
vocabularies together.

Blocks are matrices `rows × cols`; sizes are "6", "r" (width of the body's hinge, 0–6), "1", "4",
"10" (inertial parameters), "c" (columns of an operand) or "all:efforts" (one column for every
dimension of a space). `kind` says what structure the numbers have, for backends that exploit it;
the reference ignores it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction

Number = int | float | Fraction


def all_of(space: str) -> str:
    """The size "one for every dimension of the space"."""
    return f"all:{space}"


def is_vector_like(cols: str) -> bool:
    """True for a vector, several columns of them, or one for every dimension of a space."""
    return cols in ("1", "c") or cols.startswith("all:")


class Domain(Enum):
    """What the blocks of a field are indexed by."""

    BODY = "body"
    POINT = "point"
    ROW = "row"  # one number per constraint row
    LINK = "link"  # one row of A at one point
    WORLD = "world"
    PATH = "path"  # loops over the bodies on the path from a seed to the root; no field has it
    PAIR = "pair"  # loops over pairs of seeds; no field has it


class Kind(Enum):
    """Structure of a block."""

    GENERAL = "general"
    SYMMETRIC = "symmetric"
    INERTIA = (
        "inertia"  # ten parameters: mass, first moments, moments; sums and rigid congruences stay
    )
    GYRATION = "gyration"  # [[A, 0], [−p~, 0]], how a momentum changes; sums and rigid moves stay
    RIGID = "rigid"  # [[R, l~ R], [0, R]], a rigid force transformation
    RIGID_T = "rigid transposed"
    LOWER = "lower triangular"


@dataclass(frozen=True)
class Type:
    """Index set, block size and structure of a field."""

    domain: Domain
    rows: str
    cols: str
    kind: Kind = Kind.GENERAL

    def __str__(self) -> str:
        kind = "" if self.kind is Kind.GENERAL else f" {self.kind.value}"
        return f"{self.domain.value} {self.rows}×{self.cols}{kind}"


class Field:
    """One node of the equation graph. Made by a `Builder`, which interns it.

    `op` names the operation (the reference backend has one plain definition of each), `args` are
    fields, `data` what else the operation needs. `equation` is set for op "rec" only: the field is
    defined by an equation that may contain the field itself behind `up` or `down`.
    """

    __slots__ = ("args", "data", "equation", "label", "number", "op", "type")

    def __init__(
        self, op: str, args: tuple[Field, ...], data: Hashable, type_: Type, number: int
    ) -> None:
        self.op, self.args, self.data, self.type, self.number = op, args, data, type_, number
        self.equation: Field | None = None
        self.label = ""

    def __repr__(self) -> str:
        inside = ", ".join(f"%{a.number}" for a in self.args)
        data = f" {self.data}" if self.data not in (None, ()) else ""
        return f"%{self.number} = {self.op}({inside}){data} : {self.type}"


class StepKind(Enum):
    """The six kinds of step a program is made of."""

    MEMORYLESS = "memoryless"
    TIP_TO_BASE = "tip_to_base"
    BASE_TO_TIP = "base_to_tip"
    PATH = "path"
    PAIRS = "pairs"
    SMALL = "small"


@dataclass
class Step:
    """One loop: over the bodies (or points) in one direction, evaluating `fields` in order."""

    kind: StepKind
    domain: Domain
    fields: list[Field] = field(default_factory=list[Field])
    local: frozenset[Field] = frozenset()  # needed at the same body of the same step only
    last_used: tuple[Field, ...] = ()  # not needed after this step


EquationMaker = Callable[[Field], Field]
