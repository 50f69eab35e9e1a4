"""The form in which an operator is written out as a matrix.

Products are multiplied out. A product causal · memoryless · anticausal is split into its diagonal,
its strictly causal and its strictly anticausal part, each block of which lies on one path (Lemma
A.1, composite bodies):

    T₁ X T₂* = r + T̃₁ r + r T̃₂*,    r = bd(T₁ X T₂*)

Products anticausal · memoryless · causal are left: their blocks go through the nearest common
ancestor. Products with the same ends are added up, so that every pair of ends is split once.

Before that, cross products between two transition operators are carried to one side. A motion x of
the bodies relative to their parents adds up to X = φ* x, and

    E_φ* cross(X) = cross(E_φ* X) E_φ*              (a cross product, seen from the next body)

Hence, for every vector of body motions x,

    φ* cross(x) φ* = cross(X) φ* − φ* cross(E_φ* X),  φ cross(x)* φ = φ cross(X)* − cross(E_φ* X)* φ
    φ* cross(x) φ̃* = cross(X) φ* − φ* cross(X),      φ̃ cross(x)* φ = φ cross(X)* − cross(X)* φ

The last two are δφ along x = H* u, in terms of the motions of the bodies. Three operators
that move along the tree become two, so that every block of a derivative lies on one path.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from phipsi.core.expressions import (
    Expr,
    Number,
    Op,
    block_diagonal,
    cross,
    is_anticausal,
    is_causal,
    is_memoryless,
    product,
    total_of,
)
from phipsi.core.operators import (
    E_phi,
    H,
    V,
    family_of,
    is_one_step,
    phi,
    plain_transition,
    strict_transition,
    transition_step,
    transition_with,
    v,
)
from phipsi.core.rewrite.collect import split_sign
from phipsi.core.rewrite.expansion import Factors, Terms, multiply_out
from phipsi.core.rewrite.patterns import rebuild_inside

_MOST_TERMS = 64
phi_tilde = strict_transition(phi)
_RELATIVE = H.T @ v


@dataclass(frozen=True)
class MatrixSplit:
    """One product T₁ X T₂* and the sum it was split into."""

    before: Expr
    after: Expr
    name: str = "split causal · X · anticausal"


def matrix_form(x: Expr, given: Collection[str] = ()) -> tuple[Expr, list[MatrixSplit]] | None:
    """x as a sum of products whose blocks are known, with the splits made; None if too long.

    A `given` quantity has a value of its own, so it does not stand for its definition.
    """
    terms = matrix_terms(x)
    if terms is None:
        return None
    splits: list[MatrixSplit] = []
    carried = _carry_all(terms, given)
    if carried is not None:
        terms = _group(carried)
        after = total_of((c, product(fs)) for c, fs in terms)
        splits.append(MatrixSplit(x, after, "carry cross products out of paths"))
    out: list[tuple[Number, Expr]] = []
    for c, factors in terms:
        moving = _moving(factors)
        split = _composite(factors, moving[0], moving[1]) if len(moving) == 2 else None
        if split is None:
            out.append((c, product(factors)))
            continue
        splits.append(split)
        out.extend(_split_terms(c, factors, moving[0], moving[1], split))
    return total_of(out), splits


def out_and_back(factors: Factors) -> Terms | None:
    """A product with its first causal · X · anticausal part split; None if there is none.

    In what is left, every product goes in one direction, or out only after it went in.
    """
    for i, j in pairwise(_moving(factors)):
        split = _composite(factors, i, j) or _steps_and_back(factors, i, j)
        if split is not None:
            terms = _split_terms(1, factors, i, j, split)
            return [(c, x.factors) for d, y in terms for c, x in (d * y).terms]
    return None


def _steps_and_back(factors: Factors, i: int, j: int) -> MatrixSplit | None:
    """The part E X T* of a product, where E goes one body on: E X + bd(E X E'*) T*; and mirrored.

    With a step E'* for T* it is bd(E X E'*), and with T̃* only the second part.
    """
    left, right, core = factors[i], factors[j].T, product(factors[i + 1 : j])
    if j == i + 1 or not (is_causal(left.structure) and is_anticausal(factors[j].structure)):
        return None
    before = left @ core @ right.T
    if is_one_step(left) and is_one_step(right):
        return MatrixSplit(before, block_diagonal(before))
    mirrored = is_one_step(right)
    step, other = (right, left) if mirrored else (left, right)
    plain = plain_transition(other)
    if plain is None or not is_one_step(step):
        return None
    core = core.T if mirrored else core
    after = block_diagonal(step @ core @ transition_step(plain).T) @ plain.T
    after = after + step @ core if other is plain else after
    return MatrixSplit(before, after.T if mirrored else after)


def _split_terms(
    c: Number, factors: Factors, i: int, j: int, split: MatrixSplit
) -> list[tuple[Number, Expr]]:
    ends = factors[:i], factors[j + 1 :]
    return [(c * d, product((*ends[0], y, *ends[1]))) for d, y in split.after.terms]


def _moving(factors: Factors) -> list[int]:
    return [i for i, y in enumerate(factors) if not is_memoryless(y.structure)]


def matrix_product(x: Expr) -> tuple[Number, Expr, Expr] | None:
    """(c, X, Y) of c as_matrix(X) as_matrix(Y) between joints."""
    terms = x.terms
    if len(terms) != 1 or len(terms[0][1].factors) != 2:
        return None
    left, right = terms[0][1].factors
    marked = left.op is right.op is Op.AS_MATRIX
    if not marked or not between_seeds(x) or left.takes.index != "joint":
        return None
    return terms[0][0], left.args[0], right.args[0]


@lru_cache(maxsize=2**12)
def strip_marks(x: Expr) -> Expr:
    """x without the marks that operators are to be written out."""
    if x.op is Op.AS_MATRIX:
        return strip_marks(x.args[0])
    return rebuild_inside(x, strip_marks)


def matrix_terms(x: Expr) -> Terms | None:
    """x as a sum of products without sums; memoryless sums stay; None if there are too many."""
    if x.op is not Op.PRODUCT and is_memoryless(x.structure):
        return [(1, (x,))]
    terms = multiply_out(x, _MOST_TERMS, lambda leaf: leaf.row.compound or bool(leaf.params))
    return terms if terms is None or len(terms) <= _MOST_TERMS else None


def _group(terms: Terms) -> Terms:
    """Terms A T₁ X T₂* B added up where all but B agree, then where all but X agree."""
    out: Terms = []
    by_tail: dict[tuple[Factors, Factors], list[tuple[Number, Expr]]] = {}
    for c, factors in terms:
        ends = _ends(factors)
        if ends is None:
            out.append((c, factors))
            continue
        i, j = ends
        key = (factors[: i + 1], factors[i + 1 : j + 1])
        by_tail.setdefault(key, []).append((c, product(factors[j + 1 :])))
    by_core: dict[tuple[Factors, Expr, Expr], list[tuple[Number, Expr]]] = {}
    for (left, inner), tails in by_tail.items():
        tail = total_of(tails)
        sign, tail = split_sign(tail)
        key = (left, inner[-1], tail)
        by_core.setdefault(key, []).append((sign, product(inner[:-1])))
    for (left, right, tail), cores in by_core.items():
        core = total_of(cores)
        for c, whole in ((1, core),) if core.op is Op.SUM and len(core.args) > 1 else core.terms:
            out.append((c, (*left, *whole.factors, right, *tail.factors)))
    return out


def _ends(factors: Factors) -> tuple[int, int] | None:
    """Where T₁ and T₂* stand in A T₁ X T₂* B, if nothing else moves and B is there."""
    moving = _moving(factors)
    if len(moving) != 2 or moving[1] in (moving[0] + 1, len(factors) - 1):
        return None
    i, j = moving
    one_way = is_causal(factors[i].structure) and is_anticausal(factors[j].structure)
    return (
        (i, j)
        if one_way and plain_transition(factors[i]) and plain_transition(factors[j].T)
        else None
    )


def on_paths(x: Expr) -> bool:
    """True if every product of x is memoryless, causal or anticausal."""
    return all(is_causal(t.structure) or is_anticausal(t.structure) for _, t in x.terms)


def between_seeds(x: Expr) -> bool:
    """True for an operator from points to points, joints to joints or rows to rows.

    Their blocks are small, so products through common ancestors are computed pair by pair.
    """
    return x.takes.index == x.gives.index and x.takes.index in ("point", "joint", "row")


def _composite(factors: Factors, i: int, j: int) -> MatrixSplit | None:
    """The part T₁ X T₂* of a product, between its moving factors i and j."""
    left, right = factors[i], factors[j].T
    a, b = plain_transition(left), plain_transition(right)
    if a is None or b is None or j == i + 1:
        return None
    if not (is_causal(left.structure) and is_anticausal(factors[j].structure)):
        return None
    core = product(factors[i + 1 : j])
    after = (
        _diagonal(left, core, right)
        + strict_transition(a) @ _diagonal(a, core, right)
        + _diagonal(left, core, b) @ strict_transition(b).T
    )
    return MatrixSplit(left @ core @ right.T, after)


def _diagonal(left: Expr, core: Expr, right: Expr) -> Expr:
    """bd(T₁ X T₂*), of which bd(ψ M φ*) = P has a name: it solves P = M + E_ψ P E_φ*."""
    for one, other in ((left, right), (right, left)):  # P is symmetric
        if one.op is Op.LEAF and one.row.riccati and one is family_of(one).psi:
            family = family_of(one)
            if core is family.M and other is transition_with(family.E):
                return family.P
    return block_diagonal(left @ core @ right.T)


# ---- cross products between transition operators -------------------------------------------------


def _motion_of(x: Expr, given: Collection[str] = ()) -> Expr:
    """φ* x, by its name V for x = H* v unless a value of V is given."""
    if x.op is Op.SUM:
        return total_of((c, _motion_of(y, given)) for c, y in x.terms)
    return V if x is _RELATIVE and "V" not in given else phi.T @ x


def _carry_all(terms: Terms, given: Collection[str] = ()) -> Terms | None:
    """The terms with every such product carried out; None without any, or with far too many."""
    todo, done, changed = list(terms), Terms(), False
    while todo:
        c, factors = todo.pop()
        found = _carry(factors, given)
        if found is None:
            done.append((c, factors))
            continue
        changed = True
        todo.extend((c * d, fs) for d, fs in found)
        if len(todo) + len(done) > _MOST_TERMS:
            return None
    return done if changed else None


def _carry(factors: Factors, given: Collection[str] = ()) -> Terms | None:
    """One product with one cross product carried out of it, as two terms."""
    for i in range(1, len(factors) - 1):
        left, middle, right = factors[i - 1 : i + 2]
        if middle.function is cross and left is phi.T and right in (phi.T, phi_tilde.T):
            moved = _motion_of(middle.args[0], given)
            inner = E_phi.T @ moved if right is phi.T else moved
            pair = ((1, (cross(moved), phi.T)), (-1, (phi.T, cross(inner))))
        elif (
            middle.op is Op.ADJOINT
            and middle.args[0].function is cross
            and right is phi
            and left in (phi, phi_tilde)
        ):
            moved = _motion_of(middle.args[0].args[0], given)
            inner = E_phi.T @ moved if left is phi else moved
            pair = ((1, (phi, cross(moved).T)), (-1, (cross(inner).T, phi)))
        else:
            continue
        return [
            (d * e, (*factors[: i - 1], *fs, *factors[i + 2 :]))
            for e, ends in pair
            for d, fs in _write_out(ends)
        ]
    return None


def _write_out(ends: Factors) -> Terms:
    """A product of two factors, one of which may be a sum or carry a sign."""
    out: Terms = [(1, ())]
    for y in ends:
        out = [(c * d, (*fs, *t.factors)) for c, fs in out for d, t in y.terms]
    return out
