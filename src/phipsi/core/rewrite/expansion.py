"""Expressions multiplied out: sums of products of factors."""

from __future__ import annotations

from collections.abc import Callable

from phipsi.core.expressions import Expr, Number, Op, is_memoryless, shown
from phipsi.core.operators import is_step, meaning_of
from phipsi.core.rewrite.causal import contract
from phipsi.core.rewrite.inverses import innovations_form
from phipsi.errors import LoweringError

_MOST_TERMS = 512
Factors = tuple[Expr, ...]
Terms = list[tuple[Number, Factors]]


def products_of(x: Expr, choices: Callable[[Expr], Terms | None], most: int) -> Terms | None:
    """x multiplied out, with the choices for every factor; None if a term has more than `most`."""
    out: Terms = []
    for c, term in x.terms:
        partial: Terms = [(c, ())]
        for y in term.factors:
            found = choices(y)
            if found is None or len(partial) * len(found) > most:
                return None
            partial = [(a * d, fs + gs) for a, fs in partial for d, gs in found]
        out.extend(partial)
    return out


def multiply_out(x: Expr, most: int, expands: Callable[[Expr], bool]) -> Terms | None:
    """x as a sum of products without sums; memoryless factors stay; None if there are too many.

    `expands(leaf)` says which leaves that move along the tree are written out.
    """

    def choices(y: Expr) -> Terms | None:
        if is_memoryless(y.structure):
            return [(1, (y,))]
        if y.op in (Op.SUM, Op.PRODUCT):
            return multiply_out(y, most, expands)
        meaning = meaning_of(y)
        if meaning is not None and not expands(y.core):
            meaning = None
        elif y.op is Op.INVERSE:
            meaning = innovations_form(y.args[0])
        return [(1, (y,))] if meaning is None else multiply_out(meaning, most, expands)

    return products_of(x, choices, most)


def expand_products(x: Expr) -> Terms:
    """x as a sum of products of memoryless factors, φ, ψ, E_φ, shift and their adjoints."""
    terms = multiply_out(x, _MOST_TERMS, lambda leaf: True)
    if terms is None:
        raise LoweringError(
            f"bd({shown(x)}) has more than {_MOST_TERMS} products when multiplied out"
        )
    plain = ((c, [y for y in fs if y.op is not Op.IDENTITY]) for c, fs in terms)
    return [(c, tuple(contract(fs, _is_inside))) for c, fs in plain]


def step_factors(e: Expr) -> tuple[Number, Factors]:
    """A one-step operator as a coefficient and primitive factors (E_ψ is E_φ π̄)."""
    ((c, factors),) = expand_products(e)
    return c, factors


def _is_inside(factors: list[Expr], i: int, j: int) -> bool:
    """True for a step out and back inside a longer product."""
    back = factors[j].op is Op.ADJOINT and is_step(factors[j].core)
    return back and not (i == 0 and j == len(factors) - 1)
