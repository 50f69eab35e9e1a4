"""Expressions as sums of products of primitive factors, for their block-diagonal parts."""

from __future__ import annotations

from phipsi.errors import LoweringError
from phipsi.expressions.check import shown
from phipsi.expressions.kinds import Op
from phipsi.expressions.node import Expr, adjoint
from phipsi.expressions.structure import is_memoryless
from phipsi.operators.catalogue import definition
from phipsi.rewrite.causal import contract, is_step
from phipsi.rewrite.inverses import innovations_form
from phipsi.rewrite.patterns import Factors, Terms, products_of

_MOST_TERMS = 512


def expand_products(x: Expr) -> Terms:
    """x as a sum of products of memoryless factors, φ, ψ, E_φ, shift and their adjoints."""
    terms = products_of(x, _choices, _MOST_TERMS)
    if terms is None:
        raise LoweringError(
            f"bd({shown(x)}) has more than {_MOST_TERMS} products when multiplied out"
        )
    return [(c, tuple(contract(list(fs), _is_inside))) for c, fs in terms]


def _choices(y: Expr) -> Terms:
    if is_memoryless(y.structure):
        return [(1, (y,))] if y.op is not Op.IDENTITY else [(1, ())]
    if y.op is Op.SUM or y.op is Op.PRODUCT:
        return expand_products(y)
    core, flipped = (y.args[0], True) if y.op is Op.ADJOINT else (y, False)
    meaning = definition(core)
    if meaning is not None:
        return expand_products(adjoint(meaning) if flipped else meaning)
    if y.op is Op.INVERSE:
        factored = innovations_form(y.args[0])
        if factored is not None:
            return expand_products(factored)
    return [(1, (y,))]


def step_factors(e: Expr) -> Factors:
    """A one-step operator as primitive factors (E_ψ is E_φ π̄)."""
    return expand_products(e)[0][1]


def _is_inside(factors: list[Expr], i: int, j: int) -> bool:
    """True for a step out and back inside a longer product."""
    return _is_step_adjoint(factors[j]) and not (i == 0 and j == len(factors) - 1)


def _is_step_adjoint(x: Expr) -> bool:
    return x.op is Op.ADJOINT and is_step(x.args[0])
