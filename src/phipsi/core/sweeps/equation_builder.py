"""Building fields: interned, typed, and simplified as they are built.

The simplifications are ordinary algebra that holds block by block. They turn the operator forms of
the papers into the recursions one would write by hand:

- zeros and identities vanish;
- terms of a sum that start with the same block are collected: ``G y − G H z = G (y − H z)``, and
  ``up(u) + up(w) = up(u + w)``. With these ``z = K y + ψ-step of z`` becomes the cheaper
  ``z = up(X (z + G (y − H z)))`` of the papers, which never forms ψ.

Reasons: docs/decisions/0008 and 0009.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from phipsi.core.sweeps.ir import (
    Domain,
    EquationMaker,
    Field,
    FieldType,
    Kind,
    Number,
    Operation,
    is_vector_like,
    terms_of,
)
from phipsi.core.sweeps.operations import operation
from phipsi.errors import LoweringError

_SYMMETRIC = (Kind.SYMMETRIC, Kind.INERTIA)
_STRONGER = (Kind.SYMMETRIC, Kind.INERTIA)
_OF_TURNING = (Kind.GYRATION, Kind.TURNING)  # what sliding does not enter
MOST_WORK = 10_000
"""The most blocks to build for one program; the largest of the library has 1,300."""


class EquationBuilder:
    """Builds the fields of one program."""

    def __init__(self, flexible: bool = False) -> None:
        self.flexible = flexible
        self._made: dict[tuple[object, ...], Field] = {}
        self._solutions: dict[tuple[object, ...], list[Field]] = {}
        self._count = self._work = 0
        self.one = self.make("eye", (), None, FieldType(Domain.WORLD, "1", "1"))

    def make(self, op: str, args: tuple[Field, ...], data: Hashable, type_: FieldType) -> Field:
        """The field with this operation and these arguments."""
        key = (op, args, data, type_)
        found = self._made.get(key)
        self._work += 1
        if self._work > MOST_WORK:
            raise LoweringError(
                f"the program is too large: it has more than {MOST_WORK:,} operations on blocks, "
                f"{self._count:,} of them different. Compile a part of the expression "
                "separately, and make its value an input of the rest"
            )
        if found is None:
            row = Operation.named(op)
            found = self._made[key] = Field(row, args, data, type_, self._count)
            self._count += 1
        return found

    # -- constants -----------------------------------------------------------------------------

    def zero(self, type_: FieldType) -> Field:
        """The block of zeros."""
        kind = Kind.SYMMETRIC if type_.rows == type_.cols else Kind.GENERAL
        return self.make("zero", (), None, FieldType(type_.domain, type_.rows, type_.cols, kind))

    def eye(self, domain: Domain, size: str) -> Field:
        """The identity block."""
        return self.make("eye", (), None, FieldType(domain, size, size, Kind.SYMMETRIC))

    def leaf(self, op: str, type_: FieldType, data: Hashable = None) -> Field:
        """A field the backend reads or computes from the model and the inputs."""
        return self.make(op, (), data, type_)

    # -- algebra -------------------------------------------------------------------------------

    def transpose(self, x: Field) -> Field:
        """Block transpose."""
        if x.op == "T":
            return x.args[0]
        if _symmetric(x) or _is_scalar(x):
            return x
        t = x.type
        if x.op == "zero":
            return self.zero(FieldType(t.domain, t.cols, t.rows))
        kind = {Kind.RIGID: Kind.RIGID_T, Kind.RIGID_T: Kind.RIGID}.get(t.kind, Kind.GENERAL)
        return self.make("T", (x,), None, FieldType(t.domain, t.cols, t.rows, kind))

    def _fit(self, x: Field, y: Field, size: str, other: str) -> None:
        """Blocks of six rows do not fit bodies with modes: the formula is for rigid bodies."""
        if self.flexible and size != other and "6" in (size, other):
            six = x if size == "6" else y
            raise LoweringError(no_modes(six.label or six.operation.meaning))

    def mul(self, x: Field, y: Field) -> Field:
        """Block product."""
        self._fit(x, y, x.type.cols, y.type.rows)
        domain = _joint_domain(x, y)
        if x.op == "zero" or y.op == "zero":
            return self.zero(FieldType(domain, x.type.rows, y.type.cols))
        if x.op == "eye":
            return self._in(domain, y)
        if y.op == "eye":
            return self._in(domain, x)
        for one, other in ((x, y), (y, x)):
            if one.op == "scaled_block" and one.args[1].op == "eye":
                return self.scaled(one.args[0], self._in(domain, other))
        if y.op == "add" and len(y.args) == 1:
            return self.add([(c, self.mul(x, u)) for c, u in terms_of(y)])
        if x.op == "add" and len(x.args) == 1:
            return self.add([(c, self.mul(u, y)) for c, u in terms_of(x)])
        inner = self._congruence(x, y)
        if inner is not None:
            return inner
        if x.op == "crm" and is_vector_like(y.type.cols):
            return self.apply("cross", x.args[0], y) if x.args[0] is not y else self.zero(y.type)
        if x.op == "T" and x.args[0].op == "crm" and is_vector_like(y.type.cols):
            return self.add([(-1, self.apply("cross_force", x.args[0].args[0], y))])
        if x.op == "crq" and is_vector_like(y.type.cols):
            return self.apply("lever", x.args[0], y)
        kinds = (x.type.kind, y.type.kind)
        kind = Kind.RIGID if kinds == (Kind.RIGID, Kind.RIGID) else Kind.GENERAL
        if kinds[1] in _OF_TURNING or (kinds[0] in _OF_TURNING and kinds[1] is Kind.RIGID_T):
            kind = Kind.TURNING
        return self.make("mul", (x, y), None, FieldType(domain, x.type.rows, y.type.cols, kind))

    def mul_symmetric(self, x: Field, y: Field) -> Field:
        """A block product that is known to be symmetric, such as H (P H*)."""
        if x.op in ("zero", "eye") or y.op in ("zero", "eye"):
            return self.mul(x, y)
        t = FieldType(x.type.domain, x.type.rows, y.type.cols, Kind.SYMMETRIC)
        return self.make("mul", (x, y), None, t)

    def rest(self, gain: Field, hinge: Field, x: Field) -> Field:
        """(I − G H) X as X − G (H X), thinner than the projection written out."""
        return self.add([(1, x), (-1, self.mul(gain, self.mul(hinge, x)))])

    def _in(self, domain: Domain, x: Field) -> Field:
        return x if x.type.domain is domain else self.shift("spread", x)

    def _congruence(self, x: Field, y: Field) -> Field | None:
        """A S A* written as a product, with S symmetric."""
        if y.op == "mul" and y.args[1] is self.transpose(x) and _symmetric(y.args[0]):
            return self.congruence(x, y.args[0])
        if x.op == "mul" and y is self.transpose(x.args[0]) and _symmetric(x.args[1]):
            return self.congruence(x.args[0], x.args[1])
        return None

    def congruence(self, a: Field, s: Field) -> Field:
        """A S A*, symmetric because S is."""
        t = a.type
        if a.op == "zero" or s.op == "zero":
            return self.zero(FieldType(t.domain, t.rows, t.rows))
        if a.op == "eye":
            return s
        if s.op == "add" and len(s.args) == 1:
            return self.add([(c, self.congruence(a, u)) for c, u in terms_of(s)])
        if a.op == "add" and len(a.args) == 1:
            return self.add([(c * c, self.congruence(u, s)) for c, u in terms_of(a)])
        if a.op == "mul":  # two thin or structured congruences cost less than one full one
            return self.congruence(a.args[0], self.congruence(a.args[1], s))
        if a.op == "T" and a.args[0].op == "mul":
            x, y = a.args[0].args
            return self.congruence(self.transpose(y), self.congruence(self.transpose(x), s))
        # φ M φ* is the inertia of the same body elsewhere; φ* M φ is that of no body
        rigid = t.kind is Kind.RIGID
        if s.type.kind is Kind.GYRATION and not rigid:
            return self.mul(self.mul(a, s), self.transpose(a))
        kept = rigid and s.type.kind in (Kind.INERTIA, Kind.GYRATION)
        kind = s.type.kind if kept else Kind.SYMMETRIC
        return self.make("cong", (a, s), None, FieldType(t.domain, t.rows, t.rows, kind))

    def scaled(self, s: Field, x: Field) -> Field:
        """s X of a number that is computed, in the kind of X."""
        kept = x.type.kind in (Kind.INERTIA, Kind.SYMMETRIC)
        kind = x.type.kind if kept else Kind.GENERAL
        type_ = FieldType(x.type.domain, x.type.rows, x.type.cols, kind)
        return (
            self.zero(type_) if x.op == "zero" else self.make("scaled_block", (s, x), None, type_)
        )

    def scale(self, c: Number, x: Field) -> Field:
        """c X."""
        return self.add([(c, x)])

    def add(self, terms: Iterable[tuple[Number, Field]]) -> Field:
        """Σ cᵢ Xᵢ with common left factors collected."""
        flat: dict[Field, Number] = {}
        like: Field | None = None
        for c, x in terms:
            like = like if like is not None and like.op != "zero" else x
            if x.op != "add":
                flat[x] = flat.get(x, 0) + c
                continue
            for d, y in terms_of(x):
                flat[y] = flat.get(y, 0) + c * d
        assert like is not None
        for x in flat if self.flexible else ():
            self._fit(x, like, x.type.rows, like.type.rows)
        kept = [(c, x) for x, c in flat.items() if c != 0 and x.op != "zero"]
        if not kept:
            return self.zero(like.type)
        kept = self._collect(self._symmetrized(kept))
        if len(kept) == 1 and kept[0][0] == 1:
            return kept[0][1]
        kept.sort(key=lambda t: t[1].number)
        kind = _kind_of_sum([x for _, x in kept])
        domains = {x.type.domain for _, x in kept}
        domain = domains.pop() if len(domains) == 1 else Domain.BODY
        t = like.type
        args = tuple(x if x.type.domain is domain else self.shift("spread", x) for _, x in kept)
        type_ = FieldType(domain, t.rows, t.cols, kind)
        if len(kept) > 1 and kept[0][0] < 0:  # X − Y and Y − X are one sum and its negative
            core = self.make("add", args, tuple(-c for c, _ in kept), type_)
            return self.make("add", (core,), (-1,), type_)
        return self.make("add", args, tuple(c for c, _ in kept), type_)

    def _symmetrized(self, terms: list[tuple[Number, Field]]) -> list[tuple[Number, Field]]:
        """X + X* as one symmetric block."""
        have = {x: c for c, x in terms}
        halves: list[tuple[Number, Field]] = []
        for c, x in terms:
            other = self._made_transpose(x) if x.op != "T" else None
            if other is not None and have.get(other) == c:
                halves.append((c, x))
        if not halves:
            return terms
        gone = {y for _, x in halves for y in (x, self.transpose(x))}
        inner = self.add(halves)
        t = inner.type
        both = self.make("sym", (inner,), None, FieldType(t.domain, t.rows, t.cols, Kind.SYMMETRIC))
        return [*((c, x) for c, x in terms if x not in gone), (1, both)]

    def _made_transpose(self, x: Field) -> Field | None:
        """The transpose of a block, if it was built; None for a symmetric block."""
        t = x.type
        if t.rows != t.cols or _symmetric(x):
            return None
        return self._made.get(("T", (x,), None, FieldType(t.domain, t.cols, t.rows)))

    def _collect(self, terms: list[tuple[Number, Field]]) -> list[tuple[Number, Field]]:
        groups: dict[tuple[object, ...], list[tuple[Number, Field]]] = {}
        for c, x in terms:
            groups.setdefault(_head(x), []).append((c, x))
        if len(groups) == len(terms):
            return terms
        out: list[tuple[Number, Field]] = []
        for signed in groups.values():
            x = signed[0][1]
            if len(signed) == 1:
                out.extend(signed)
                continue
            sign = -1 if signed[0][0] < 0 else 1  # one sign for equal sums, so that they are shared
            group = [(sign * c, y) for c, y in signed]
            if x.op == "mul":
                inner = self.add([(c, y.args[1]) for c, y in group])
                out.append((sign, self.mul(x.args[0], inner)))
            elif x.op == "down":
                inner = self.add([(c, y.args[0]) for c, y in group])
                roots = [(c, y.args[1]) for c, y in group if len(y.args) == 2]
                out.append((sign, self.down(inner, self.add(roots) if roots else None)))
            else:
                inner = self.add([(c, y.args[0]) for c, y in group])
                out.append((sign, self.shift(x.op, inner)))
        # collecting can bring out a new common factor, e.g. a coefficient of −1
        flat = [(c * d, y) for c, x in out for d, y in terms_of(x)]
        return flat if len(flat) == len(terms) else self._merge(flat)

    def _merge(self, terms: list[tuple[Number, Field]]) -> list[tuple[Number, Field]]:
        flat: dict[Field, Number] = {}
        for c, x in terms:
            flat[x] = flat.get(x, 0) + c
        return self._collect([(c, x) for x, c in flat.items() if c != 0 and x.op != "zero"])

    def inverse(
        self, x: Field, *, definite: bool, owner: str = "", scale: Field | None = None
    ) -> Field:
        """Block inverse; `definite` blocks are factored by Cholesky, others by elimination.

        The pivots are compared with `scale`: (r × 1) of definite blocks, to distinguish a singular
        hinge from a light one; (r × r) of others, a term of their sum with which the rest may
        cancel.
        """
        if x.op == "eye":
            return x
        if x.op == "inv":
            return x.args[0]
        t = x.type
        kind = Kind.SYMMETRIC if _symmetric(x) else Kind.GENERAL
        data = ("definite" if definite else "general", owner)
        args = (x,) if scale is None else (x, scale)
        return self.make("inv", args, data, FieldType(t.domain, t.cols, t.rows, kind))

    def apply(self, op: str, *args: Field, data: Hashable = None) -> Field:
        """An operation whose row has the type of its result; zero if linear in a zero argument.

        It is evaluated at the bodies, points, links or rows that its first argument has.
        """
        row = operation(op)
        if row.modal and self.flexible:
            op, row = row.modal, operation(row.modal)
        elif self.flexible and row.rows == "6" and any(x.type.rows == "b" for x in args):
            raise LoweringError(no_modes(row.meaning))
        domain = row.domain or args[0].type.domain
        type_ = FieldType(domain, row.rows, row.cols or args[-1].type.cols, row.kind)
        if not self.flexible:
            type_ = self._shifted(self._shifted(type_, "b", "6"), "B", "6")
        if any(args[i].op == "zero" for i in row.linear if i < len(args)):
            return self.zero(type_)
        if row.modal == op and not self.flexible:
            return self.zero(type_)
        return self.make(op, args, data, type_)

    # -- neighbours and other index sets ---------------------------------------------------------

    def shift(self, op: str, x: Field) -> Field:
        """The same blocks elsewhere, or sums of them: "gather", "scatter", "of_point", …."""
        domain = operation(op).domain
        assert domain is not None
        t = FieldType(domain, x.type.rows, x.type.cols, x.type.kind)
        if op == "up":
            t = self._shifted(t, "B", "b")
        if x.op == "zero":
            return self.zero(t)
        if x.op == "add" and len(x.args) == 1:
            return self.add([(c, self.shift(op, u)) for c, u in terms_of(x)])
        return self.make(op, (x,), None, t)

    def up(self, x: Field) -> Field:
        """Σ over children."""
        return self.shift("up", x)

    def _shifted(self, t: FieldType, old: str, new: str) -> FieldType:
        """A size of the parent is one of the body itself, seen from the parent."""
        if old not in (t.rows, t.cols):
            return t
        rows, cols = (new if s == old else s for s in (t.rows, t.cols))
        return FieldType(t.domain, rows, cols, t.kind)

    def down(self, x: Field, root: Field | None = None) -> Field:
        """The parent's block; `root` is a world constant used at roots (zero if None)."""
        t = self._shifted(x.type, "b", "B")
        if x.op == "zero" and root is None:
            return self.zero(t)
        if x.op == "add" and len(x.args) == 1 and root is None:
            return self.add([(c, self.down(u)) for c, u in terms_of(x)])
        args = (x,) if root is None else (x, root)
        return self.make("down", args, None, t)

    def down_local(self, x: Field) -> Field:
        """The parent's block, or zero where a backend keeps the parent's part of a matrix apart.

        The reference backend keeps nothing apart.
        """
        t = self._shifted(x.type, "b", "B")
        return self.zero(t) if x.op == "zero" else self.make("down", (x,), "local", t)

    def fixpoint(self, type_: FieldType, equation: EquationMaker) -> Field:
        """The field z with z = equation(z), where z stands behind `up` or `down`.

        The structure of the block is the strongest that the equation preserves.
        """
        candidates = [type_.kind, *(k for k in (Kind.SYMMETRIC, Kind.GENERAL) if k != type_.kind)]
        if type_.kind is Kind.GENERAL:
            candidates = [Kind.GENERAL]
        elif type_.kind is Kind.GYRATION:
            candidates = [Kind.GYRATION, Kind.TURNING, Kind.GENERAL]
        for kind in candidates:
            t = FieldType(type_.domain, type_.rows, type_.cols, kind)
            z = self._unknown(t)
            z.equation = equation(z)
            found = z.equation.type.kind
            if found is kind or kind is Kind.GENERAL or (kind, found) == _STRONGER:
                return self._only(z)
        raise AssertionError("a general block satisfies every equation")

    def held(self, x: Field) -> Field:
        """x under a name of its own: as a term of sums it stays what it is, computed once."""
        if x.op != "add":
            return x
        z = self._unknown(x.type)
        z.equation = x
        return self._only(z)

    def _unknown(self, type_: FieldType) -> Field:
        """A field whose equation comes next."""
        self._count += 1
        return Field(operation("rec"), (), None, type_, self._count - 1)

    def _only(self, z: Field) -> Field:
        """The field that solves this equation already, or the new one."""
        assert z.equation is not None
        inner = z.equation
        ready = tuple(-1 if _contains(a, z) else a.number for a in inner.args)
        form = (z.type, inner.op, inner.data, ready)
        known = self._solutions.setdefault(form, [])
        for other in known:
            if same_equation(z, other):
                return other
        known.append(z)
        return z


def _kind_of_sum(fields: list[Field]) -> Kind:
    """The strongest structure that all summands have."""
    kinds = {Kind.SYMMETRIC if x.op == "eye" else x.type.kind for x in fields}
    if Kind.GENERAL in kinds:
        return Kind.GENERAL
    if kinds.issubset(_SYMMETRIC):
        return Kind.SYMMETRIC if Kind.SYMMETRIC in kinds else Kind.INERTIA
    if kinds == {Kind.GYRATION}:
        return Kind.GYRATION
    return Kind.TURNING if kinds.issubset(_OF_TURNING) else Kind.GENERAL


def no_modes(subject: str) -> str:
    """The error for a formula of rigid bodies."""
    return (
        f"{subject} is known for rigid bodies only, but this mechanism has flexible bodies, or "
        "rotors on skew axes, whose inertia or port frames change as they move"
    )


def _contains(x: Field, z: Field) -> bool:
    """True if the unknown z stands in x; fields built before z do not contain it."""
    seen, stack = {x}, [x]
    while stack:
        y = stack.pop()
        if y is z:
            return True
        for a in (*y.args, *(() if y.equation is None else (y.equation,))):
            if a.number >= z.number and a not in seen:
                seen.add(a)
                stack.append(a)
    return False


def same_equation(x: Field, y: Field) -> bool:
    """True if the equations of two fields differ in nothing but the names of their unknowns.

    Fields without unknowns are interned, so equal ones are the same object; and fields built
    before the unknown x do not depend on it.
    """
    assumed, stack = {(x, y)}, [(x, y)]
    while stack:
        a, b = stack.pop()
        if a.number < x.number:
            return False
        if a.op != b.op or a.data != b.data or a.type != b.type or len(a.args) != len(b.args):
            return False
        if (a.equation is None) != (b.equation is None):
            return False
        pairs = list(zip(a.args, b.args, strict=True))
        if a.equation is not None and b.equation is not None:
            pairs.append((a.equation, b.equation))
        for pair in pairs:
            if pair[0] is not pair[1] and pair not in assumed:
                assumed.add(pair)
                stack.append(pair)
    return True


def _head(x: Field) -> tuple[object, ...]:
    """The head of a term; terms with equal heads can be collected."""
    if x.op == "mul":
        return ("mul", x.args[0], x.args[1].type.cols)
    if x.op == "down":
        return ("alone", x) if x.data == "local" else ("down",)
    if _is_shift(x.operation):
        return (x.op, x.args[0].type.domain)
    return ("alone", x)


def _is_shift(row: Operation) -> bool:
    """True for the same blocks, or sums of them, elsewhere."""
    return row.domain is not None and tuple(row.linear) == (0,) and not row.rows


def _symmetric(x: Field) -> bool:
    return x.type.kind in _SYMMETRIC or (x.op == "eye")


def _is_scalar(x: Field) -> bool:
    return x.type.rows == "1" and x.type.cols == "1"


def _joint_domain(x: Field, y: Field) -> Domain:
    a, b = x.type.domain, y.type.domain
    if a is b or b is Domain.WORLD:
        return a
    if a is Domain.WORLD:
        return b
    raise AssertionError(f"blocks of {a.value} and {b.value} cannot be multiplied")
