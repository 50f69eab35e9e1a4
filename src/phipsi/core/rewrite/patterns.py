"""Instances of the rules, and finding them in products and sums.

Expressions are interned, so a closed pattern matches where its factors are *the same objects*. A
rule is stated for the default Riccati family; `instances` states it for the families an expression
uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from phipsi.core.expressions import (
    Expr,
    Number,
    Op,
    adjoint,
    cached_in_scope,
    product,
    rebuild,
    total_of,
)
from phipsi.core.operators import (
    DEFAULT_FAMILY,
    E_phi,
    H,
    Jr,
    M,
    Riccati,
    family_of,
    leaves_of,
    phi,
    strict_transition,
    transition_with,
)
from phipsi.core.rewrite.identity import Identity


@dataclass(frozen=True)
class Instance:
    """A rule for one family: replace `before` by `after`."""

    rule: Identity
    before: Expr
    after: Expr


@cached_in_scope
def families_of(x: Expr) -> tuple[Riccati, ...]:
    """The Riccati families that occur in an expression; the default one always."""
    found = {family_of(leaf): None for leaf in leaves_of(x) if leaf.row.riccati}
    return tuple({DEFAULT_FAMILY: None, **found})


@lru_cache(maxsize=2**14)
def instances(rule: Identity, family: Riccati) -> tuple[Instance, ...]:
    """The rule and its adjoint for one family."""
    before, after = (_for_family(side, family) for side in rule.sides)
    if before is None or after is None:
        return ()
    out = [Instance(rule, before, after)]
    if adjoint(before) is not before:
        out.append(Instance(rule, adjoint(before), adjoint(after)))
    return tuple(out)


@lru_cache(maxsize=2**14)
def _for_family(x: Expr, f: Riccati) -> Expr | None:
    """x with the default family's operators replaced by those of f; None if f has no such thing."""
    if f == DEFAULT_FAMILY:
        return x
    if x.op is Op.LEAF:
        return _leaf_for_family(x, f)
    args = [_for_family(y, f) for y in x.args]
    if None in args:
        return None
    return rebuild(x, [y for y in args if y is not None]) if x.op in REWRITTEN else x


def _leaf_for_family(x: Expr, f: Riccati) -> Expr | None:
    transition = transition_with(f.E)
    if transition is None:
        return None
    same = {H: f.H, M: f.M, E_phi: f.E, Jr: f.armature, phi: transition}
    same[strict_transition(phi)] = strict_transition(transition)
    if x in same:
        return same[x]
    return f.leaf(x.name) if x.row.riccati and not x.args else None


REWRITTEN = (Op.SUM, Op.PRODUCT, Op.INVERSE, Op.ADJOINT, Op.BD, Op.LOGDET, Op.AS_MATRIX)


def rebuild_inside(x: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """x with its parts changed, if it is of a kind that the rules look into."""
    return rebuild(x, [change(y) for y in x.args]) if x.op in REWRITTEN else x


# ---- products ------------------------------------------------------------------------------------


def find_in_product(factors: tuple[Expr, ...], pattern: tuple[Expr, ...]) -> int:
    """Where the pattern stands in the product, or −1."""
    for i in range(len(factors) - len(pattern) + 1):
        if factors[i : i + len(pattern)] == pattern:
            return i
    return -1


def find_across_sums(
    factors: tuple[Expr, ...], pattern: tuple[Expr, ...]
) -> tuple[int, int] | None:
    """A pattern that begins in the product and goes on inside a term of a sum.

    Returns (i, j): the pattern begins at factor i and enters the sum at factor j, so distributing
    factors i … j−1 over that sum brings the pattern together.
    """
    for i, x in enumerate(factors):
        if x is not pattern[0]:
            continue
        for j in _entered(factors, i, pattern):
            return i, j
    return None


def _entered(factors: tuple[Expr, ...], i: int, pattern: tuple[Expr, ...]) -> Iterator[int]:
    matched = 0
    for j in range(i, len(factors)):
        if matched == len(pattern):
            return
        if factors[j] is pattern[matched]:
            matched += 1
            continue
        if factors[j].op is Op.SUM and matched:
            rest = factors[j + 1 :]
            terms = (t for _, t in factors[j].terms)
            if any(_continues((*t.factors, *rest), pattern[matched:]) for t in terms):
                yield j
        return


def _continues(factors: tuple[Expr, ...], pattern: tuple[Expr, ...]) -> bool:
    """True if the product begins with the pattern, possibly inside further sums."""
    for k, p in enumerate(pattern):
        if k >= len(factors):
            return False
        if factors[k] is p:
            continue
        if factors[k].op is Op.SUM and k + 1 <= len(factors):
            rest = factors[k + 1 :]
            return any(_continues((*t.factors, *rest), pattern[k:]) for _, t in factors[k].terms)
        return False
    return True


def distribute(factors: tuple[Expr, ...], i: int, j: int) -> Expr:
    """Multiply factors i … j−1 into the sum at factor j."""
    prefix = factors[i:j]
    inner = total_of((c, product((*prefix, t))) for c, t in factors[j].terms)
    return product((*factors[:i], inner, *factors[j + 1 :]))


# ---- sums ----------------------------------------------------------------------------------------


def replace_in_sum(x: Expr, pattern: Expr, after: Expr) -> Expr | None:
    """x with s · pattern replaced by s · after, if all terms of the pattern are there."""
    have = {t: c for c, t in x.terms}
    wanted = pattern.terms
    first = have.get(wanted[0][1])
    if first is None:
        return None
    scale: Number = first / wanted[0][0] if first % wanted[0][0] else first // wanted[0][0]
    if any(have.get(t) != scale * c for c, t in wanted):
        return None
    rest = [(c, t) for t, c in have.items() if all(t is not w for _, w in wanted)]
    return total_of([*rest, (scale, after)])
