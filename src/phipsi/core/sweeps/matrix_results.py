"""Matrices block by block: paths for one-directional operators, common ancestors for the others.

Column j of a causal operator is non-zero on the path from body j to its root only: a `path` step
runs the tip-to-base equations along that path, once per column block. For anticausal · X · causal
products block (i, j) goes through the nearest common ancestor c of i and j (dual of Lemma A.1):

    (T₁* X T₂)(i, j) = T₁(c, i)* Y(c) T₂(c, j),    Y = bd(T₁* X T₂)

A `pairs` step multiplies the values of the two paths at c. Operators of neither form are applied to
the columns of the identity.

Reasons: docs/decisions/0010.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from phipsi.core.expressions import (
    Expr,
    Number,
    Op,
    block_diagonal,
    identity,
    is_anticausal,
    is_causal,
    is_memoryless,
    is_strict,
    product,
    total_of,
)
from phipsi.core.operators import (
    B,
    E_phi,
    Riccati,
    family_of,
    is_one_step,
    is_transition,
    leaves_of,
    phi,
    plain_transition,
    strict_transition,
    transition_step,
)
from phipsi.core.rewrite import Rewriter, between_seeds, matrix_terms
from phipsi.core.sweeps.ir import Domain, Field, FieldType, Kind, all_of
from phipsi.core.sweeps.lower import DOMAINS, Lowering
from phipsi.core.sweeps.memoryless_blocks import A

_PHI_TILDE = strict_transition(phi)
Factors = tuple[Expr, ...]
SEED = "p"  # the column size of fields that run along a path: the width of the seed's block


@dataclass(frozen=True)
class MatrixTerm:
    """How one argument of a `matrix` field enters the matrix.

    `how` is "diagonal", "path", "path of adjoint" or "pairs".
    """

    how: str
    coefficient: Number


def whole_matrix(low: Lowering, x: Expr, local: bool) -> Field:
    """The whole matrix of an operator on points or rows, from its blocks where possible."""
    if low.options.simplify and any(y.row.compound for y in leaves_of(x)):  # inside a leaf
        x = Rewriter(low.armature, frozenset(low.given), apply=True).simplify(x)
    found = lower_matrix(low, x, local=local)
    return found if found is not None else low.assembled(columns_matrix(low, x))


def lower_matrix(low: Lowering, x: Expr, *, local: bool = False) -> Field | None:
    """A field with the whole matrix of x, computed from its blocks; None if x has no such form.

    `local` pairs leave the admittance of hubs apart where the backend does so.
    """
    local = local and _same_middle(x)
    terms = matrix_terms(x)
    if terms is None or not all(_between_bodies(factors) for _, factors in terms):
        return None
    gram = _gram(low, x, terms) or _filtered(low, x, terms)
    if gram is not None:
        return gram
    parts: list[tuple[MatrixTerm, Field]] = []
    causal: list[tuple[Number, Expr]] = []
    anticausal: list[tuple[Number, Expr]] = []
    diagonal: list[tuple[Number, Expr]] = []
    for c, factors in terms:
        y, structure = product(factors), product(_on_bodies(factors)).structure
        if is_memoryless(structure):
            if not (x.takes.per_body and x.gives.per_body):
                return None
            diagonal.append((c, y))
            if low.options.elimination is None:
                parts.append((MatrixTerm("diagonal", c), low.blocks.block(y)))
        elif is_causal(structure) and x.gives.per_body:
            causal.append((c, y))
        elif is_anticausal(structure) and x.takes.per_body:
            anticausal.append((c, y.T))
        else:
            pair = _pair(low, factors, local) if between_seeds(x) else None
            if pair is None or (low.options.pairs == "symmetric" and not symmetric_pair(pair)):
                return None
            parts.append((MatrixTerm("pairs", c), pair))
    if low.options.elimination is not None and diagonal:
        whole = low.options.elimination.on_diagonal(low, diagonal, x.T is x)
        parts.append((MatrixTerm("diagonal", 1), whole))
    parts += _paths(low, causal, anticausal)
    parts = [(p, f) for p, f in parts if f.op != "zero"]
    return _matrix(low, x, parts)


def _matrix(low: Lowering, x: Expr, parts: Sequence[tuple[MatrixTerm, Field]]) -> Field:
    """The matrix of x from fields with its blocks."""
    type_ = FieldType(Domain.WORLD, all_of(x.gives.name), all_of(x.takes.name))
    if not parts:
        return low.builder.zero(type_)
    how, fields = zip(*parts, strict=True)
    return low.builder.make("matrix", fields, how, type_)


def _gram(low: Lowering, x: Expr, terms: list[tuple[Number, Factors]]) -> Field | None:
    """S ± S X ± X* S + X* S X = C* S C with C = I ± X, for trees where that costs less."""
    if len(terms) != 4 or x.takes.index != "joint":
        return None
    found = {product(factors): c for c, factors in terms}
    middles = [y for y in found if is_memoryless(y.structure) and y.T is y]
    if len(middles) != 1 or found[middles[0]] != 1:
        return None
    (s,) = middles
    for y, sign in found.items():
        if not is_causal(y.structure) or y is s or y.factors[: len(s.factors)] != s.factors:
            continue
        inner = product(y.factors[len(s.factors) :])
        whole = {s: 1, y: sign, y.T: sign, inner.T @ s @ inner: 1}
        if abs(sign) != 1 or whole != found:
            return None
        low.has_gram = True
        if not low.options.grams:
            return None
        b, column = low.builder, _filter_column(low, inner, sign)
        both = column, b.mul(low.blocks.block(s), column)
        made = b.make("gram", both, None, FieldType(Domain.WORLD, SEED, SEED))
        return _matrix(low, x, [(MatrixTerm("pairs", 1), made)])
    return None


def _filtered(low: Lowering, x: Expr, terms: list[tuple[Number, Factors]]) -> Field | None:
    """S ± X* S = C* S with C = I ± X: one path, which begins with the block on the diagonal."""
    if len(terms) != 2 or not x.takes.index == x.gives.index == "joint":
        return None
    for (c, middle), (sign, factors) in (terms, terms[::-1]):
        s, count = product(middle), len(middle)
        if c != 1 or abs(sign) != 1 or s.T is not s or not is_memoryless(s.structure):
            continue
        outer = factors[: len(factors) - count]
        if not outer or factors[len(outer) :] != middle:
            continue
        inner = product(outer).T
        if not is_causal(inner.structure) or not is_strict(inner.structure):
            continue
        b = low.builder
        column = b.mul(low.blocks.block(s), _filter_column(low, inner, sign))
        return _matrix(low, x, [(MatrixTerm("path of adjoint", 1), column)])
    return None


def _filter_column(low: Lowering, inner: Expr, sign: Number) -> Field:
    """(I ± X) applied to the identity of one column block, along the path from there."""
    _, seed = _seeded(low, inner.factors)
    flat = low.options.flat and low.options.several
    path = _path(low, _by_one_step(inner) if flat else inner, flat=flat)
    return low.builder.add([(1, seed), (sign, path)])


def _between_bodies(factors: tuple[Expr, ...]) -> bool:
    """True if the product stays on the bodies, but for a final B … A* and a leading A … B*."""
    inside, adjoints = _on_bodies(factors), _adjoints(factors)
    return (
        bool(inside)
        and all(y.takes.per_body and y.gives.per_body for y in inside)
        and _is_seed(_at_points(factors))
        and _is_seed(_at_points(adjoints))
    )


def _adjoints(factors: tuple[Expr, ...]) -> tuple[Expr, ...]:
    return tuple(y.T for y in reversed(factors))


def _on_bodies(factors: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The product without a final B … A* and a leading A … B*."""
    tail, head = _at_points(factors), _at_points(_adjoints(factors))
    return factors[len(head) : len(factors) - len(tail)]


def _at_points(factors: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The last factors, which take their operands at points or rows."""
    start = len(factors)
    while start and not factors[start - 1].takes.per_body:
        start -= 1
    return factors[start:]


def _is_seed(tail: tuple[Expr, ...]) -> bool:
    """True for nothing, B, B select, B A* and the like: where columns of points or rows start."""
    names = [y.core.name for y in tail]
    if tail and tail[-1].op is Op.ADJOINT and names[-1] == "A":
        names.pop()
    middle = all(name == "select" for name in names[1:])
    return not tail or (names[:1] == ["B"] and tail[0].op is Op.LEAF and middle)


def _paths(
    low: Lowering, causal: list[tuple[Number, Expr]], anticausal: list[tuple[Number, Expr]]
) -> list[tuple[MatrixTerm, Field]]:
    """One path field per direction; an operator and its adjoint share one."""
    out: list[tuple[MatrixTerm, Field]] = []
    if low.options.flat:
        causal, anticausal = (
            [(c, _by_one_step(y)) for c, y in terms] for terms in (causal, anticausal)
        )
    causal, anticausal = _common_heads(causal), _common_heads(anticausal)
    walks = {y for _, y in (*causal, *anticausal)}
    flat = low.options.flat and (low.options.several or len(walks) > 1)
    fields = {y: _path(low, y, flat=flat) for _, y in (*causal, *anticausal)}
    for how, terms in (("path", causal), ("path of adjoint", anticausal)):
        if len(terms) > 1 and _from_bodies(terms):
            out.append((MatrixTerm(how, 1), low.builder.add([(c, fields[y]) for c, y in terms])))
        else:
            out += [(MatrixTerm(how, c), fields[y]) for c, y in terms]
    return out


def _from_bodies(terms: list[tuple[Number, Expr]]) -> bool:
    """True if all paths start at bodies, so that they are walked together."""
    return all(y.takes.per_body for _, y in terms)


def _common_heads(terms: list[tuple[Number, Expr]]) -> list[tuple[Number, Expr]]:
    """A T X + A T Y as A T (X + Y): one path instead of two."""
    if len(terms) < 2:
        return terms
    heads: dict[tuple[Expr, ...], list[tuple[Number, Expr]]] = {}
    out: list[tuple[Number, Expr]] = []
    for c, y in terms:
        at = _transition(y)
        if at is None or not y.takes.per_body:
            out.append((c, y))
        else:
            rest = y.factors[at + 1 :]
            tail = product(rest) if rest else identity(y.factors[at].takes)
            heads.setdefault(_plain_head(y.factors[: at + 1]), []).append((c, tail))
    for head, tails in heads.items():
        inner = total_of(tails)
        if inner.op is not Op.ZERO:
            out += [(c, product((*head, t))) for c, t in _signed(inner)]
    return out


def _signed(x: Expr) -> list[tuple[Number, Expr]]:
    return list(x.terms) if x.op is Op.SUM and len(x.args) == 1 else [(1, x)]


def _plain_head(factors: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """A head with φ E_φ written as φ̃."""
    if len(factors) > 1 and factors[-1] is E_phi and factors[-2] is phi:
        return (*factors[:-2], _PHI_TILDE)
    return factors


def _by_one_step(x: Expr) -> Expr:
    """ψ̃ and ψ K as ψ E with what stands behind it: their paths begin alike."""
    for i, y in enumerate(x.factors):
        if y.op is not Op.LEAF or not y.row.riccati:
            continue
        f, before, after = family_of(y), x.factors[:i], x.factors[i + 1 :]
        if y is f.psi_tilde:
            return product((*before, f.psi, f.E, f.proj_bar, *after))
        if y is f.psi and after and after[0] is f.K:
            return product((*before, f.psi, f.E, f.G, *after[1:]))
    return x


def _transition(x: Expr) -> int | None:
    """Where the last moving factor stands, if there is one only (T E counts as one)."""
    moving = [i for i, y in enumerate(x.factors) if not is_memoryless(y.structure)]
    if len(moving) == 2 and moving[1] == moving[0] + 1:
        first, second = x.factors[moving[0] : moving[1] + 1]
        return moving[1] if (first, second) == (phi, E_phi) or _articulated(first, second) else None
    return moving[0] if len(moving) == 1 else None


def _articulated(first: Expr, second: Expr) -> bool:
    """True for ψ E_φ."""
    if first.op is not Op.LEAF or not first.row.riccati:
        return False
    family = family_of(first)
    return first is family.psi and second is family.E is E_phi


def _path(low: Lowering, x: Expr, *, flat: bool = False) -> Field:
    """x applied to the identity of one column block, along the path from there."""
    found = _flat_path(low, x) if flat else None
    return found or low.apply(*_seeded(low, x.factors))


def _flat_path(low: Lowering, x: Expr) -> Field | None:
    """The same in the axes and about the origin of the path's root body, where φ is all ones.

    φ = W⁻¹ T W with W(k) = φ(root, k) and T(j, k) = I for k outboard of j: values do not change
    along the path, and a block is a product of values of the two bodies. With ψ E_φ in its place
    they lose W G H W⁻¹ of themselves at every body.
    """
    at = _transition(x) if x.takes.per_body else None
    if at is None:
        return None
    articulated = at > 0 and _articulated(*x.factors[at - 1 : at + 1])
    if not articulated and plain_transition(x.factors[at]) is not phi:
        return None
    b = low.builder
    head, tail = x.factors[: at - articulated], x.factors[at + 1 :]
    if not head or not tail:
        return None
    last = tail[-1].takes
    assert last is not None
    seed = b.leaf("path_seed", FieldType(Domain.BODY, low.blocks.size(last), SEED), "bodies")
    pose = low.blocks.root_pose()
    back = b.apply("rigid_inverse", pose)
    family = family_of(x.factors[at - 1]) if articulated else None
    block = low.blocks.block(product(tail)) if family is None else _behind(low, family, tail)
    start = b.mul(_moved(low, family, pose, block), seed)
    if family is not None:
        gain = _moved(low, family, pose, low.blocks.block(family.G))
        hinge = b.mul(low.blocks.block(family.H), back)

        def onward(z: Field) -> Field:
            """E_ψ leaves π̄ z of what comes to a body, and the start is added behind it."""
            return b.up(b.add([(1, start), (1, b.rest(gain, hinge, z))]))

        z = b.fixpoint(start.type, onward)
    else:
        z = b.fixpoint(start.type, lambda z: b.add([(1, start), (1, b.up(z))]))
        if x.factors[at] is _PHI_TILDE:
            z = b.up(z)
    return b.mul(b.mul(low.blocks.block(product(head)), back), z)


def _moved(low: Lowering, family: Riccati | None, pose: Field, block: Field) -> Field:
    """A block in the frame of the root."""
    if low.options.elimination is not None:
        return low.options.elimination.moved(low, family, pose, block)
    return low.builder.mul(pose, block)


def _behind(low: Lowering, family: Riccati, tail: Factors) -> Field:
    """The block of a tail whose terms may begin with π̄: X − G (H X), thinner than π̄ X.

    Or with G: of G Y Z the product Y Z comes first.
    """
    b, inner = low.builder, list[tuple[Number, Expr]]()
    outer: list[tuple[Number, Expr]] = []
    for c, y in _terms_of_tail(tail):
        if y.factors[0] is family.proj_bar and len(y.factors) > 1:
            inner.append((c, product(y.factors[1:])))
        else:
            outer.append((c, y))
    if low.options.elimination is not None:
        return low.options.elimination.behind_gain(low, family, inner, outer)
    parts = [(c, _from_gain(low, family, y)) for c, y in outer]
    if inner:
        x = low.blocks.block(total_of(inner))
        gain, hinge = low.blocks.block(family.G), low.blocks.block(family.H)
        parts.append((1, b.rest(gain, hinge, x)))
    return b.add(parts)


def _from_gain(low: Lowering, family: Riccati, y: Expr) -> Field:
    """The block of y, of which G Y Z is G (Y Z)."""
    first, *rest = y.factors
    if first is not family.G or len(rest) < 2:
        return low.blocks.block(y)
    return low.builder.mul(low.blocks.block(first), low.blocks.block(product(rest)))


def _terms_of_tail(tail: Factors) -> list[tuple[Number, Expr]]:
    """The terms of a tail that is one sum, else the tail itself."""
    return list(tail[0].terms) if len(tail) == 1 else [(1, product(tail))]


def _seeded(low: Lowering, factors: tuple[Expr, ...]) -> tuple[Expr, Field]:
    """(operator, seed): a final B … A* is part of the seed, which starts at the point's body."""
    b = low.builder
    last = factors[-1]
    tail = _at_points(factors)
    if tail:
        block: Field | None = low.blocks.link_block(A) if last.takes.index == "row" else None
        kind = "points" if block is None else "links"
        for y in reversed(tail[: len(tail) - (block is not None)]):
            mine = low.blocks.point_block(B) if y.name == "B" else low.blocks.selection(y.core)
            if kind == "links":
                mine = b.shift("of_point", mine)
            block = mine if block is None else b.mul(mine, block)
        assert block is not None
        start = b.make("path_seed", (block,), kind, FieldType(Domain.BODY, "6", SEED))
        start = low.blocks.with_modal_rows(start)
        return product(factors[: len(factors) - len(tail)]), start
    size = low.blocks.size(last.takes)
    return product(factors), b.leaf("path_seed", FieldType(Domain.BODY, size, SEED), "bodies")


def _same_middle(x: Expr) -> bool:
    """True if all products of x are C* X C' with one and the same memoryless X between ψ* and ψ."""
    found: set[Expr] = set()
    for c, factors in matrix_terms(x) or []:
        moving = [i for i, y in enumerate(factors) if _moves(y)]
        if c != 1 or len(moving) != 2 or factors[moving[0]].T is not factors[moving[1]]:
            return False
        found.add(product(factors[moving[0] : moving[1] + 1]))
    return len(found) == 1


def _moves(x: Expr) -> bool:
    return x.takes.per_body and x.gives.per_body and not is_memoryless(x.structure)


def _pair(low: Lowering, factors: tuple[Expr, ...], local: bool) -> Field | None:
    """anticausal · X · causal with one transition operator on each side."""
    inside = _on_bodies(factors)
    moving = [i for i, y in enumerate(factors) if y in inside and not is_memoryless(y.structure)]
    outward = [i for i in moving if is_anticausal(factors[i].structure)]
    inward = [i for i in moving if is_causal(factors[i].structure)]
    if not outward or not inward or len(outward) + len(inward) != len(moving):
        return None
    i, j = outward[-1], inward[0]  # the two that enclose X
    left, right = factors[i].T, factors[j]
    if max(outward) > min(inward) or not is_transition(left) or not is_transition(right):
        return None
    left_tail = _adjoints(factors[:i])
    right_tail = factors[j + 1 :]
    a, strict_a = _walk(low, left, left_tail)
    c, strict_c = _walk(low, right, right_tail)
    if a is None or c is None:
        return None
    core = product(factors[i + 1 : j])
    middle = (
        _local(low, left, core)
        if local
        else low.blocks.block(block_diagonal(left.T @ core @ right))
    )
    type_ = FieldType(Domain.WORLD, SEED, SEED)
    if "zero" in (a.op, middle.op, c.op):
        return low.builder.zero(type_)
    how = ("local",) if local else ()
    return low.builder.make("pair", (a, middle, c), (strict_a, strict_c, *how), type_)


def _local(low: Lowering, transition: Expr, core: Expr) -> Field:
    """bd(T* X T), restarted below every hub."""
    b, step = low.builder, transition_step(transition)
    source = low.blocks.block(core)
    type_ = FieldType(Domain.BODY, low.blocks.body, low.blocks.body, source.type.kind)
    return b.fixpoint(
        type_, lambda y: b.add([(1, source), (1, low.blocks.step_out(step, y, step, local=True))])
    )


def symmetric_pair(pair: Field) -> bool:
    """True if both paths are the same and the block between them is symmetric."""
    if pair.op == "zero":
        return True
    left, middle, right = pair.args
    strict: Any = pair.data
    symmetric = middle.type.kind in (Kind.SYMMETRIC, Kind.INERTIA)
    return left is right and strict[0] == strict[1] and symmetric


def _walk(low: Lowering, transition: Expr, tail: tuple[Expr, ...]) -> tuple[Field | None, bool]:
    """T · tail along the path; the tail is memoryless, or one step followed by memoryless."""
    bodies = tail[: len(tail) - len(_at_points(tail))]
    moving = [y for y in bodies if not is_memoryless(y.structure)]
    if len(moving) > 1 or not all(map(is_one_step, moving)):
        return None, False
    x = (transition, *tail)
    operator, seed = _seeded(low, x)
    return low.apply(operator, seed), bool(moving)


def columns_matrix(low: Lowering, x: Expr) -> Field:
    """x applied to the columns of the identity."""
    type_ = FieldType(DOMAINS[x.takes.index], low.blocks.size(x.takes), all_of(x.takes.name))
    return low.apply(x, low.builder.leaf("seed", type_, x.takes.name))
