"""The form in which an operator is written out as a matrix.

Products are multiplied out. A product causal · memoryless · anticausal is split into its diagonal,
its strictly causal and its strictly anticausal part, each block of which lies on one path (Lemma
A.1, composite bodies):

    T₁ X T₂* = r + T̃₁ r + r T̃₂*,    r = bd(T₁ X T₂*)

Before that, cross products between two transition operators are carried away (`carry.py`), and
products with the same ends are added up, so that every pair of ends is split once.
Products anticausal · memoryless · causal are left: their blocks go through the nearest common
ancestor.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from phipsi.expressions.kinds import Op
from phipsi.expressions.node import Expr, Number, adjoint, block_diagonal, product, total_of
from phipsi.expressions.structure import is_anticausal, is_causal, is_memoryless
from phipsi.operators.catalogue import catalogue_leaf, definition, family_of, phi
from phipsi.rewrite.carry import carry_all
from phipsi.rewrite.collect import positive
from phipsi.rewrite.inverses import innovations_form
from phipsi.rewrite.patterns import rebuild

Factors = tuple[Expr, ...]
_MOST_TERMS = 64


@dataclass(frozen=True)
class Split:
    """One product T₁ X T₂* and what it was split into."""

    before: Expr
    after: Expr
    name: str = "split causal · X · anticausal"


def matrix_form(x: Expr, given: Collection[str] = ()) -> tuple[Expr, list[Split]] | None:
    """x as a sum of products whose blocks are known, with the splits made; None if too long.

    What is `given` has a value of its own, so it is no other name for what it stands for.
    """
    terms = multiplied_out(x)
    if terms is None:
        return None
    splits: list[Split] = []
    carried = carry_all(terms, given)
    if carried is not None:
        terms = grouped(carried)
        after = total_of((c, product(fs)) for c, fs in terms)
        splits.append(Split(x, after, "carry cross products out of paths"))
    out: list[tuple[Number, Expr]] = []
    for c, factors in terms:
        found = _composite(factors)
        if found is None:
            out.append((c, product(factors)))
            continue
        i, j, split = found
        splits.append(split)
        for d, y in split.after.terms:
            out.append((c * d, product((*factors[:i], y, *factors[j + 1 :]))))
    return total_of(out), splits


def matrix_product(x: Expr) -> tuple[Number, Expr, Expr] | None:
    """(c, X, Y) of c as_matrix(X) as_matrix(Y) between joints."""
    terms = x.terms
    if len(terms) != 1 or len(terms[0][1].factors) != 2:
        return None
    left, right = terms[0][1].factors
    marked = left.op is right.op is Op.AS_MATRIX
    joints = x.takes is not None and x.gives is not None and between_seeds(x)
    if not marked or not joints or left.takes is None or left.takes.index != "joint":
        return None
    return terms[0][0], left.args[0], right.args[0]


@lru_cache(maxsize=2**12)
def without_marks(x: Expr) -> Expr:
    """x without the marks that operators are to be written out."""
    if x.op is Op.AS_MATRIX:
        return without_marks(x.args[0])
    if x.op in (Op.SUM, Op.PRODUCT, Op.INVERSE, Op.BD, Op.LOGDET):
        return rebuild(x, [without_marks(y) for y in x.args])
    return x


def multiplied_out(x: Expr) -> list[tuple[Number, Factors]] | None:
    """x as a sum of products without sums; memoryless sums stay; None if there are too many."""
    if x.op is Op.SUM and not is_memoryless(x.structure):
        out: list[tuple[Number, Factors]] = []
        for c, y in x.terms:
            inner = multiplied_out(y)
            if inner is None or len(out) + len(inner) > _MOST_TERMS:
                return None
            out.extend((c * d, fs) for d, fs in inner)
        return out
    if x.op is Op.PRODUCT:
        partial: list[tuple[Number, Factors]] = [(1, ())]
        for y in x.args:
            inner = multiplied_out(y)
            if inner is None or len(partial) * len(inner) > _MOST_TERMS:
                return None
            partial = [(c * d, fs + gs) for c, fs in partial for d, gs in inner]
        return partial
    if is_memoryless(x.structure):
        return [(1, (x,))]
    core, flipped = (x.args[0], True) if x.op is Op.ADJOINT else (x, False)
    meaning = definition(core)
    if meaning is not None and core.name in ("Omega", "mass_matrix", "Lambda", "J", "A", "B"):
        return multiplied_out(adjoint(meaning) if flipped else meaning)
    if x.op is Op.INVERSE:
        factored = innovations_form(x.args[0])
        if factored is not None:
            return multiplied_out(factored)
    return [(1, (x,))]


def grouped(terms: list[tuple[Number, Factors]]) -> list[tuple[Number, Factors]]:
    """Terms A T₁ X T₂* B added up where all but B agree, then where all but X agree."""
    out: list[tuple[Number, Factors]] = []
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
        sign, tail = positive(tail)
        key = (left, inner[-1], tail)
        by_core.setdefault(key, []).append((sign, product(inner[:-1])))
    for (left, right, tail), cores in by_core.items():
        core = total_of(cores)
        for c, whole in ((1, core),) if core.op is Op.SUM and len(core.args) > 1 else core.terms:
            out.append((c, (*left, *whole.factors, right, *tail.factors)))
    return out


def _ends(factors: Factors) -> tuple[int, int] | None:
    """Where T₁ and T₂* stand in A T₁ X T₂* B, if nothing else moves and B is there."""
    moving = [i for i, y in enumerate(factors) if not is_memoryless(y.structure)]
    if len(moving) != 2 or moving[1] in (moving[0] + 1, len(factors) - 1):
        return None
    i, j = moving
    one_way = is_causal(factors[i].structure) and is_anticausal(factors[j].structure)
    return (i, j) if one_way and _plain(factors[i]) and _plain(factors[j].T) else None


def on_paths(x: Expr) -> bool:
    """True if every product of x is memoryless, causal or anticausal."""
    return all(is_causal(t.structure) or is_anticausal(t.structure) for _, t in x.terms)


def between_seeds(x: Expr) -> bool:
    """True for an operator from points to points, joints to joints or rows to rows.

    Their blocks are small, so products that go through common ancestors are made pair by pair.
    """
    if x.takes is None or x.gives is None:
        return False
    return x.takes.index == x.gives.index and x.takes.index in ("point", "joint", "row")


def _composite(factors: Factors) -> tuple[int, int, Split] | None:
    """The part T₁ X T₂* of a product that has no other moving factor."""
    moving = [i for i, y in enumerate(factors) if not is_memoryless(y.structure)]
    if len(moving) != 2:
        return None
    i, j = moving
    left, right = factors[i], factors[j].T
    if _plain(left) is None or _plain(right) is None or j == i + 1:
        return None
    if not (is_causal(left.structure) and is_anticausal(factors[j].structure)):
        return None
    core = product(factors[i + 1 : j])
    a, b = _plain(left), _plain(right)
    assert a is not None and b is not None
    after = (
        block_diagonal(left @ core @ right.T)
        + _tilde(a) @ block_diagonal(a @ core @ right.T)
        + block_diagonal(left @ core @ b.T) @ _tilde(b).T
    )
    return i, j, Split(left @ core @ right.T, after)


@lru_cache(maxsize=2**14)
def _plain(x: Expr) -> Expr | None:
    """φ for φ and φ̃, ψ for ψ and ψ̃."""
    if x.name in ("phi", "psi"):
        return x
    if x.name == "phi_tilde":
        return phi
    return family_of(x).psi if x.name == "psi_tilde" else None


def _tilde(x: Expr) -> Expr:
    return catalogue_leaf("phi_tilde") if x is phi else family_of(x).psi_tilde
