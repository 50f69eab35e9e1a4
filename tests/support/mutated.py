"""Mutated identities, nearly all of which are false, and random identities that are true.

    from mutated import mutants, true_identities, why_still_true

A mutant is an identity of the tables with one part changed: another operator between the same
spaces, a factor left out, doubled or swapped, a term left out, a sign, a coefficient, the condition
left out. A true identity says that a random expression equals what the rewriter, or the definitions
of its operators, make of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from random_expressions import Generator

from phipsi.core.expressions.kinds import Op
from phipsi.core.expressions.node import Expr, product, rebuild, total_of
from phipsi.core.operators.catalogue import definition
from phipsi.core.operators.inputs import leaves_of
from phipsi.core.rewrite.identity import Identity
from phipsi.core.rewrite.patterns import REWRITTEN
from phipsi.core.rewrite.rewriter import rewrite_one
from phipsi.errors import PhipsiError
from phipsi.operators import parse
from phipsi.papers.theorems import identities, prove

Rng = np.random.Generator
Found = tuple[str, Expr, Expr]  # what was changed, the part, and what it became

_LETTERS = "phi psi phi~ psi~ E_phi E_psi proj proj_bar M P R H G K D Jr V v vdot a b gravity"
LEAVES = [parse(text) for text in _LETTERS.split()]
_COEFFICIENTS = [Fraction(-1), Fraction(2), Fraction(1, 2), Fraction(3)]


@dataclass(frozen=True)
class Mutant:
    """A mutated identity: where it comes from, and which part became which."""

    identity: Identity
    change: str
    origin: Identity
    old: Expr | None = None
    new: Expr | None = None


def mutable() -> list[Identity]:
    """The identities with two rational sides; square roots take too long for so many."""
    return [
        one
        for one in identities()
        if one.check is None
        and not one.sweeps
        and not {"D_half", "any_motion", "Lam_phi"}
        & {leaf.name for side in one.sides for leaf in leaves_of(side)}
    ]


def mutants(seed: int) -> Iterator[Mutant]:
    """Different mutants without end."""
    rng = np.random.default_rng(seed)
    pool, seen = mutable(), {one.sides for one in mutable()}
    while True:
        origin = pool[int(rng.integers(len(pool)))]
        one = _mutant(origin, rng)
        if one is None or (one.identity.sides in seen and one.change != "condition left out"):
            continue
        key = one.identity.sides
        if one.identity.lhs is one.identity.rhs or (one.change, key) in seen:
            continue
        seen |= {key, (one.change, key)}
        yield one


def _mutant(origin: Identity, rng: Rng) -> Mutant | None:
    if origin.condition and rng.random() < 0.3:
        free = replace(origin, condition="", name=f"{origin.name}, without its condition")
        return Mutant(free, "condition left out", origin)
    side = "lhs" if rng.random() < 0.5 else "rhs"
    x: Expr = getattr(origin, side)
    places = list(_places(x, lambda y: y))
    part, put = places[int(rng.integers(len(places)))]
    changes = list(_changes(part))
    if not changes:
        return None
    change, new = changes[int(rng.integers(len(changes)))]
    try:
        changed = put(new)
        mutant = replace(origin, **{side: changed}, name=f"{origin.name}, {change}", statement="")
    except PhipsiError:  # the spaces do not fit
        return None
    return Mutant(mutant, change, origin, part, new)


def _places(x: Expr, put: Callable[[Expr], Expr]) -> Iterator[tuple[Expr, Callable[[Expr], Expr]]]:
    """Every part of an expression, with a function that puts another into its place."""
    yield x, put
    if x.op not in REWRITTEN:
        return
    for k, part in enumerate(x.args):

        def inside(new: Expr, k: int = k) -> Expr:
            return put(rebuild(x, [*x.args[:k], new, *x.args[k + 1 :]]))

        yield from _places(part, inside)


def _changes(x: Expr) -> Iterator[tuple[str, Expr]]:
    if x.op is Op.LEAF:
        for other in LEAVES:
            if other is not x and (other.takes, other.gives) == (x.takes, x.gives):
                yield f"{x} became {other}", other
    if x.op is Op.PRODUCT:
        fs = x.factors
        for i, y in enumerate(fs):
            if y.takes is y.gives:
                yield f"{y} left out", product((*fs[:i], *fs[i + 1 :]))
                yield f"{y} doubled", product((*fs[:i], y, *fs[i:]))
            if i and fs[i - 1].takes is y.takes and fs[i - 1].gives is y.gives:
                yield (
                    f"{fs[i - 1]} {y} swapped",
                    product((*fs[: i - 1], y, fs[i - 1], *fs[i + 1 :])),
                )
    if x.op is Op.SUM and len(x.terms) > 1:
        for i, (c, t) in enumerate(x.terms):
            rest = [term for k, term in enumerate(x.terms) if k != i]
            yield f"{t} left out", total_of(rest)
            for factor in _COEFFICIENTS:
                yield f"{t} times {factor}", total_of([*rest, (factor * Fraction(c), t)])
    if x.op in (Op.INVERSE, Op.BD) and x.args[0].takes is x.args[0].gives:
        yield f"{x} without its {'inverse' if x.op is Op.INVERSE else 'bd'}", x.args[0]


def why_still_true(mutant: Mutant) -> str:
    """Why a mutant holds: what was changed is the same all the same, or is multiplied by zero."""
    condition = mutant.identity.condition
    if mutant.old is not None and mutant.new is not None:
        reason = _same(mutant.old, mutant.new, condition)
        if reason:
            return reason
    changed = [x for x in mutant.identity.sides if x not in set(mutant.origin.sides)]
    if any(prove(Identity(x, x - x, condition)) for x in changed):
        return "the side is zero, changed or not"
    lhs, rhs = mutant.identity.sides
    rewriting = rewrite_one(lhs - rhs, frozenset(), armature=True, apply=True)
    if rewriting.expressions[0].op is Op.ZERO:
        rules = dict.fromkeys(step.name for step in rewriting.steps if step.source)
        return f"follows by {', '.join(rules) or 'cancelling'}"
    if changed and mutant.change != "condition left out":
        before = mutant.origin.sides[mutant.identity.sides.index(changed[0])]
        return _same(before, changed[0], condition)
    return ""


def _same(x: Expr, y: Expr, condition: str) -> str:
    """That two expressions are equal, and where; "" if they are not."""
    proof = prove(Identity(x, y, condition))
    if not proof:
        return ""
    where = f" if {condition}" if condition else ""
    return f"{x} = {y}{where}" + (", wherever the inverse exists" if proof.undefined else "")


# ---- true by construction ------------------------------------------------------------------------


def true_identities(seed: int) -> Iterator[Identity]:
    """Random expressions, and what rewriting or writing out definitions makes of them."""
    rng = np.random.default_rng(seed)
    count = 0
    while True:
        x = Generator(rng, points=bool(rng.random() < 0.2)).expression(most=5)
        if "D_half" in {leaf.name for leaf in leaves_of(x)} or x.gives.is_curved:
            continue
        way = "definitions" if rng.random() < 0.25 else "rewriting"
        y = _written_out(x) if way == "definitions" else _rewritten(x)
        if y is x:
            continue
        count += 1
        yield Identity(x, y, name=f"{count}, by {way}")


def _rewritten(x: Expr) -> Expr:
    return rewrite_one(x, frozenset(), armature=True, apply=True).expressions[0]


def _written_out(x: Expr) -> Expr:
    """x with the definitions of its operators in their place."""
    if x.op is Op.LEAF:
        meaning = definition(x)
        return x if meaning is None else _written_out(meaning)
    return rebuild(x, [_written_out(y) for y in x.args]) if x.op in REWRITTEN else x
