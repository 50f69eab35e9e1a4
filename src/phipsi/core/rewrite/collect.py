"""The form in which an operator is applied: common prefixes of the terms of a sum are taken out.

``A x + A y`` costs A twice, ``A (x + y)`` once; with A = K* ψ* that is a whole sweep. A sum on the
left of a product is multiplied out, which costs nothing when the product is applied to a vector,
because the factors on its right are applied once and used by every term.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

from phipsi.core.expressions import Expr, Number, Op, is_memoryless, product, term_order, total_of
from phipsi.core.operators import meaning_of, plain_transition

_TAIL = 16
Terms = list[tuple[Number, Expr]]


@lru_cache(maxsize=2**14)
def collect(x: Expr) -> Expr:
    """x with sums on the left multiplied out and common prefixes collected."""
    if x.op is Op.SUM:
        return _collect_sum(list(x.terms))
    if x.op is Op.PRODUCT:
        if all(y.op is not Op.SUM for y in x.args):
            return _expand_tildes(x)
        _collect_tails(x)
        return _collect_sum([(1, x)])
    return x


def _collect_tails(x: Expr) -> None:
    """Collect the ends of a long product first, so that the recursion over it never gets deep."""
    factors = _expand_tildes(x).factors
    for i in range(len(factors) - _TAIL, 0, -_TAIL):
        collect(product(factors[i:]))


def _collect_sum(terms: Terms) -> Expr:
    """Group by first factor; multiply out what begins with a sum; until nothing changes."""
    terms = [(c, _expand_tildes(y)) for c, y in terms]
    while True:
        flat = total_of(terms)
        terms = list(flat.terms)
        grouped = _group(terms)
        if grouped is not None:
            terms = grouped
            continue
        at = _to_multiply_out(terms)
        if at is None:
            return total_of((c, _collect_tail(y)) for c, y in terms)
        c, y = terms.pop(at)
        first, tail = y.factors[0], product(y.factors[1:])
        terms += [(c * d, _expand_tildes(product((t, tail)))) for d, t in first.terms]


def _to_multiply_out(terms: Terms) -> int | None:
    """The term that begins with a sum, longest sum first."""
    sums = [i for i, (_, y) in enumerate(terms) if len(y.factors) > 1 and y.factors[0].op is Op.SUM]
    return max(sums, key=lambda i: len(terms[i][1].factors[0].args)) if sums else None


def _group(terms: Terms) -> Terms | None:
    """One pass of collecting equal first factors; None if all differ."""
    groups: dict[Expr, Terms] = {}
    for c, y in terms:
        groups.setdefault(y.factors[0], []).append((c, y))
    if not any(_can_group(g) for g in groups.values()):
        return None
    out: Terms = []
    for first, group in groups.items():
        if not _can_group(group):
            out.extend(group)
            continue
        inner = total_of((c, product(y.factors[1:])) for c, y in group)
        sign, inner = split_sign(inner)
        out.append((sign, product((first, inner))))
    return out


def _can_group(group: Terms) -> bool:
    return len(group) > 1 and all(len(y.factors) > 1 for _, y in group)


@lru_cache(maxsize=2**14)
def _collect_tail(y: Expr) -> Expr:
    """The part behind the first factor, collected."""
    if len(y.factors) == 1:
        return y
    tail = collect(product(y.factors[1:]))
    sign, tail = split_sign(tail)
    out = product((y.factors[0], tail))
    return out if sign == 1 else -out


def split_sign(x: Expr) -> tuple[int, Expr]:
    """(s, s x) with s = ±1 such that the leading term is added, not subtracted."""
    c, _ = min(x.terms, key=lambda t: term_order(t[1]))
    return (1, x) if c > 0 else (-1, -x)


def _expand_tildes(x: Expr) -> Expr:
    """φ̃ as φ E_φ and ψ̃ as ψ E_ψ, whose prefixes can be shared with φ and ψ."""
    factors: list[Expr] = []
    for y in x.factors:
        strict = plain_transition(y.core) not in (None, y.core)
        factors.append((meaning_of(y) if strict else None) or y)
    return product(factors)


@lru_cache(maxsize=2**14)
def count_products(x: Expr) -> int:
    """How many products x has when all its sums are multiplied out."""
    if x.op is Op.SUM:
        return sum(count_products(y) for y in x.args)
    if x.op is Op.PRODUCT:
        return prod(count_products(y) for y in x.args)
    return 1


def count_recursions(x: Expr) -> int:
    """How many recursions along the tree it takes to apply x; equal ones count once."""
    numbers: dict[tuple[Expr, int], int] = {}
    seen: set[int] = set()
    _count(x, 0, seen, numbers)
    return len(seen)


def _count(x: Expr, behind: int, seen: set[int], numbers: dict[tuple[Expr, int], int]) -> None:
    """Collect the moving factors of x with their operands.

    An operand has a number: 0 for that of the whole expression.
    """
    for y in reversed(x.factors):
        applied = numbers.setdefault((y, behind), len(numbers) + 1)
        if y.op is Op.SUM:
            for t in y.args:
                _count(t, behind, seen, numbers)
        elif not is_memoryless(y.structure) and not y.is_vector and y.op is not Op.INVERSE:
            seen.add(applied)
        behind = applied
        if y.op is Op.INVERSE and not is_memoryless(y.structure):
            _count(y.args[0], behind, seen, numbers)  # solving X z = u applies X to the solution
