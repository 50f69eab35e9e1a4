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

An operation is one row of `sweeps/operations.py`, an `Operation`: everything else asks the row.

Blocks are matrices `rows × cols`; sizes are "6", "r" (width of the body's hinge), "1", "4",
"10" (inertial parameters), "c" (columns of an operand) or "all:efforts" (one column for every
dimension of a space). In mechanisms with flexible bodies, body motions and forces have "b" rows: 6
and the modes of the body, "B" those of its parent, with its "m" modes. `kind` says what structure
the numbers have, for backends that exploit it; the reference ignores it.

Reasons: docs/decisions/0007.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from importlib import import_module
from typing import Any, NamedTuple

from phipsi.core.expressions import Expr, Space, space_named
from phipsi.errors import InputError

Number = int | float | Fraction


def all_of(space: str) -> str:
    """The size "one for every dimension of the space"."""
    return f"all:{space}"


def space_of(size: str) -> Space:
    """The space in such a size."""
    return space_named(size.removeprefix("all:"))


def is_vector_like(cols: str) -> bool:
    """True for a vector, several columns of them, or one for every dimension of a space."""
    return cols in ("1", "c") or cols.startswith("all:")


class Domain(Enum):
    """The index set of the blocks of a field."""

    __hash__ = object.__hash__  # of Enum it is a Python function; fields are looked up often

    BODY = "body"
    POINT = "point"
    ROW = "row"  # one number per constraint row
    LINK = "link"  # one row of A at one point
    WORLD = "world"
    PATH = "path"  # loops over the bodies on the path from a seed to the root; no field has it
    PAIR = "pair"  # loops over pairs of seeds; no field has it


class Kind(Enum):
    """Structure of a block."""

    __hash__ = object.__hash__  # of Enum it is a Python function; fields are looked up often

    GENERAL = "general"
    SYMMETRIC = "symmetric"
    INERTIA = (
        "inertia"  # ten parameters: mass, first moments, moments; sums and rigid congruences stay
    )
    GYRATION = "gyration"  # [[A, 0], [−p~, 0]], how a momentum changes; sums and rigid moves stay
    TURNING = "turning"  # [A, 0] with three columns, of turning alone; left factors and moves stay
    RIGID = "rigid"  # [[R, l~ R], [0, R]], a rigid force transformation
    RIGID_T = "rigid transposed"
    STEP = "step"  # [[R, l~ R, 0], [0, R, 0], [Q* diag(R, R), 0]], E_φ of a body on a port
    LOWER = "lower triangular"


class FieldType(NamedTuple):
    """Index set, block size and structure of a field."""

    domain: Domain
    rows: str
    cols: str
    kind: Kind = Kind.GENERAL

    def __str__(self) -> str:
        kind = "" if self.kind is Kind.GENERAL else f" {self.kind.value}"
        return f"{self.domain.value} {self.rows}×{self.cols}{kind}"


class Reads(Enum):
    """Where an operation finds its arguments, seen from the block that it computes."""

    HERE = "here"
    PARENT = "parent"
    CHILDREN = "children"
    HOST = "host"  # the body that a point is on
    FRAMES = "frames"  # the bodies that a point and its mate are on
    MATE = "mate"  # the other frame of a closure
    POINT = "point"  # the point of a link
    ROW = "row"  # the constraint row of a link
    SEED = "seed"  # the point or link at which a path starts
    MEETING = "meeting"  # the body where two paths meet
    PATHS = "paths"  # all bodies of two paths
    BLOCKS = "blocks"  # blocks that its data puts in their places
    WHOLE = "whole"  # all blocks


class Loop(Enum):
    """The loop in which an operation runs."""

    OWN = "own"  # over the blocks that it computes
    SUMMANDS = "summands"  # over the blocks that it adds up
    PAIRS = "pairs"  # over pairs of paths
    ONCE = "once"


class Keep(Enum):
    """The treatment of a value that a later step needs."""

    STORED = "stored"
    AGAIN = "again"  # it is computed again: reading its parts costs no more than reading it
    KNOWN = "known"  # mostly constants, which take no room


class Naming(Enum):
    """When the printed recursion gives a value a name of its own."""

    SHARED = "shared"  # if it is used more than once
    ALWAYS = "always"
    INLINE = "inline"
    HIDDEN = "hidden"


class Variant(Enum):
    """What the code of an operation depends on."""

    ANY = "any"
    JOINT = "joint"  # each type of joint
    LINK = "link"  # each form of constraint row


class StepKind(Enum):
    """The six kinds of step of a program."""

    MEMORYLESS = "memoryless"
    TIP_TO_BASE = "tip_to_base"
    BASE_TO_TIP = "base_to_tip"
    PATH = "path"
    PAIRS = "pairs"
    SMALL = "small"


_DIRECTIONS = {Reads.CHILDREN: StepKind.TIP_TO_BASE, Reads.PARENT: StepKind.BASE_TO_TIP}


class Binding(Enum):
    """How tightly a printed form holds together; brackets follow from it."""

    ATOM = 0
    PRODUCT = 1
    SUM = 2


Size = Callable[[str], int]
Cost = Callable[["Field", Size], int]
Form = Callable[[Any, "Field", str], str]
Body = Callable[[Any, "Field"], Any]


EACH = range(100)
"""`Operation.linear` of one that is linear in each of its arguments."""


@dataclass(frozen=True, eq=False)
class Operation:
    """One row of the table of operations: everything that is known about an operation.

    **Attributes:** `meaning` in a few words; `reads` and `runs`, what it needs and in which loop it
    runs; `rows`, `cols`, `kind` and `domain` of the result, where they do not depend on the
    arguments; `linear`, the arguments in each of which it is linear; `keep`, what becomes of a
    value that is needed later; `cost` in floating-point operations; `form` and `latex`, how the
    recursion prints it, and `starred`, its transpose; `back`, the operation that carries blocks the
    other way, for those that move blocks; `variant`, what its code depends on besides its
    arguments; `solves`, the kind of whole matrix that it solves with, "dense" or "rows"; `modal`,
    the operation in its place if bodies have modes, itself if it is zero without modes; `body`,
    its definition in the arithmetic of a backend, or None if every backend has its own way to move
    the data. From these follow `elsewhere`, whether it needs more than the blocks of the body,
    point, link or row it is at, and `step`, the direction of the sweep that it needs.

    A new row is known by its name from then on.
    """

    name: str
    meaning: str
    rows: str = ""
    cols: str = ""
    kind: Kind = Kind.GENERAL
    domain: Domain | None = None
    reads: Reads = Reads.HERE
    runs: Loop = Loop.OWN
    linear: Sequence[int] = ()
    keep: Keep = Keep.STORED
    variant: Variant = Variant.ANY
    solves: str = ""
    back: str = ""
    cost: Cost | int = 0
    form: Form | str = ""
    latex: str = ""
    starred: tuple[str, str] | None = None
    binding: Binding = Binding.ATOM
    naming: Naming = Naming.SHARED
    letter: str = "w"
    modal: str = ""
    body: Body | None = None
    elsewhere: bool = field(init=False)
    step: StepKind | None = field(init=False)
    version: int = field(init=False)

    def __post_init__(self) -> None:
        known = _OPERATIONS.get(self.name)
        if known is not None and not (known.is_foreign and known.home == self.home):
            raise InputError(
                f"the name {self.name!r} already belongs to an operation ({known.meaning}, of "
                f"{known.home}). Choose another name"
            )
        _OPERATIONS[self.name] = self
        object.__setattr__(self, "version", 0 if known is None else known.version + 1)
        # attributes, because schedules ask for them often
        elsewhere = self.reads is not Reads.HERE or self.runs is not Loop.OWN
        object.__setattr__(self, "elsewhere", elsewhere)
        object.__setattr__(self, "step", _DIRECTIONS.get(self.reads))

    def __reduce__(self) -> tuple[Any, ...]:
        return _operation_of, (self.home, self.name)

    @property
    def home(self) -> str:
        """The module that registers it: that of its body."""
        return __name__ if self.body is None else self.body.__module__

    @property
    def source(self) -> str:
        """What says which body it is, as long as the sources stay: its module."""
        return f"{self.home} {self.name} {self.version}" if self.is_foreign else self.home

    @property
    def is_foreign(self) -> bool:
        """True for an operation from outside the library; its module may register it again."""
        return not self.home.startswith("phipsi.")

    @staticmethod
    def named(name: str) -> Operation:
        """The row of an operation."""
        return _OPERATIONS[name]

    @staticmethod
    def exists(name: str) -> bool:
        """True if there is an operation with this name."""
        return name in _OPERATIONS


_OPERATIONS: dict[str, Operation] = {}


def _operation_of(home: str, name: str) -> Operation:
    """The row with this name; the module of a feature enters it."""
    if name not in _OPERATIONS:
        import_module(home)
    return _OPERATIONS[name]


class Field:
    """One node of the equation graph. A `EquationBuilder` builds and interns it.

    `operation` is its row in the table of operations and `op` the name of it, `args` are fields,
    `data` the other parameters of the operation. `equation` is set for op "rec" only: the field is
    defined by an equation that may contain the field itself behind `up` or `down`. `named` is its
    name in the printed recursion, a word or a leaf; `stands` the product of operators it is.
    """

    __slots__ = (
        "args", "data", "equation", "named", "number", "op", "operation", "stands", "type"
    )  # fmt: skip

    def __init__(
        self,
        operation: Operation,
        args: tuple[Field, ...],
        data: Hashable,
        type_: FieldType,
        number: int,
    ) -> None:
        self.operation, self.op = operation, operation.name
        self.args, self.data, self.type, self.number = args, data, type_, number
        self.equation: Field | None = None
        self.named: str | Expr = ""
        self.stands: Expr | None = None

    @property
    def label(self) -> str:
        """Its name in ASCII."""
        return self.named.text("ascii") if isinstance(self.named, Expr) else self.named

    def __repr__(self) -> str:
        inside = ", ".join(f"%{a.number}" for a in self.args)
        data = f" {self.data}" if self.data not in (None, ()) else ""
        return f"%{self.number} = {self.op}({inside}){data} : {self.type}"


def dependencies(x: Field) -> tuple[Field, ...]:
    """The fields a field is computed from; for an equation, its right-hand side."""
    return (x.equation,) if x.equation is not None else x.args


def reached(
    starts: Sequence[Field],
    sources: Callable[[Field], Sequence[Field]] = dependencies,
    seen: set[Field] | None = None,
) -> Iterator[Field]:
    """Fields and all that they are computed from, each once; those in `seen` are left out.

    `sources` says what to go on with. No recursion: chains may be long.
    """
    seen = set() if seen is None else seen
    stack = list(reversed(starts))
    while stack:
        x = stack.pop()
        if x not in seen:
            seen.add(x)
            yield x
            stack += reversed(sources(x))


def terms_of(x: Field) -> list[tuple[Number, Field]]:
    """The terms of a sum; anything else is one term."""
    if x.op != "add":
        return [(1, x)]
    terms: list[tuple[Number, Field]] = list(zip(x.data, x.args, strict=True))  # type: ignore
    if len(terms) == 1 and terms[0][1].op == "add":
        c, inner = terms[0]
        return [(c * d, y) for d, y in terms_of(inner)]
    return terms


def parts_of(x: Field) -> list[tuple[Any, Field]]:
    """The parts of a matrix of blocks, each with the field that has its blocks."""
    data: Any = x.data
    return list(zip(data, x.args, strict=True))


@dataclass
class LoopStep:
    """One loop: over the bodies (or points) in one direction, evaluating `fields` in order."""

    kind: StepKind
    domain: Domain
    fields: list[Field] = field(default_factory=list[Field])
    local: frozenset[Field] = frozenset()  # needed at the same body of the same step only
    last_used: tuple[Field, ...] = ()  # not needed after this step


EquationMaker = Callable[[Field], Field]
