"""Diagonal and strict parts of one-directional operators, and the anatomy of one-step operators."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from phipsi.errors import LoweringError
from phipsi.expressions.check import shown
from phipsi.expressions.kinds import Op
from phipsi.expressions.node import (
    Expr,
    Number,
    adjoint,
    block_diagonal,
    identity,
    product,
    total_of,
    zero,
)
from phipsi.expressions.structure import is_anticausal, is_causal, is_memoryless, is_strict
from phipsi.operators.catalogue import definition, transition_step

Closes = Callable[[list[Expr], int, int], bool]


def is_step(x: Expr) -> bool:
    """True for a leaf that goes from every body to its parent, such as E_φ."""
    return x.op is Op.LEAF and x.row.step


def is_transition(x: Expr) -> bool:
    """True for φ, ψ and the like: (I − E)⁻¹ of a step E."""
    return x.op is Op.LEAF and bool(x.row.transition)


def is_one_step(x: Expr) -> bool:
    """True for a leaf that goes to the parent once, next to memoryless factors: E_φ, E_ψ, K."""
    meaning = None if is_step(x) else definition(x)
    if meaning is None:
        return is_step(x)
    moving = [y for y in meaning.factors if not is_memoryless(y.structure)]
    return len(moving) == 1 and is_one_step(moving[0])


def one_step_factors(e: Expr) -> tuple[Expr | None, Expr, Expr | None]:
    """Split a one-step operator as before · (E_φ or shift) · after, both sides memoryless.

    >>> from phipsi.operators import E_psi
    >>> before, step, after = one_step_factors(E_psi)
    >>> print(before, step, after)
    None E_φ π̄
    """
    if is_step(e):
        return None, e, None
    meaning = definition(e)
    if meaning is not None:
        return one_step_factors(meaning)
    if e.op is Op.PRODUCT:
        moving = [i for i, y in enumerate(e.args) if not is_memoryless(y.structure)]
        if len(moving) == 1:
            i = moving[0]
            before, step, after = one_step_factors(e.args[i])
            left = [*e.args[:i], *([before] if before is not None else [])]
            right = [*([after] if after is not None else []), *e.args[i + 1 :]]
            return (product(left) if left else None), step, (product(right) if right else None)
    raise LoweringError(
        f"{shown(e)} does not go from a body to its parent in one step, as E_φ and E_ψ do"
    )


def contract(factors: list[Expr], closes: Closes) -> list[Expr]:
    """E X E* inside a product is memoryless: replace it by bd(E X E*).

    ``closes(factors, i, j)`` says whether factor j ends the step that begins with factor i.
    """
    for i, x in enumerate(factors):
        if not is_step(x):
            continue
        j = i + 1
        while j < len(factors) and is_memoryless(factors[j].structure):
            j += 1
        if i + 1 < j < len(factors) and closes(factors, i, j):
            inner = block_diagonal(product(factors[i : j + 1]))
            return contract([*factors[:i], inner, *factors[j + 1 :]], closes)
    return factors


@lru_cache(maxsize=2**14)
def diagonal_part(x: Expr) -> Expr | None:
    """bd(x) of a causal or an anticausal operator as an expression; None if not known."""
    if is_memoryless(x.structure):
        return x
    if is_strict(x.structure):
        return zero(x.takes, x.gives)
    if not (is_causal(x.structure) or is_anticausal(x.structure)):
        return None
    if is_transition(x):
        return identity(x.takes)
    if x.op is Op.ADJOINT:
        inner = diagonal_part(x.args[0])
        return None if inner is None else adjoint(inner)
    if x.op is Op.SUM:
        parts = [(c, diagonal_part(y)) for c, y in x.terms]
        return total_of((c, p) for c, p in parts if p is not None) if _known(parts) else None
    if x.op is Op.PRODUCT:
        factors = [diagonal_part(y) for y in x.args]
        return product(f for f in factors if f is not None) if None not in factors else None
    if x.op is Op.INVERSE:
        inner = diagonal_part(x.args[0])
        return None if inner is None or inner.op is Op.ZERO else inner.inv
    meaning = definition(x)
    return None if meaning is None else diagonal_part(meaning)


@lru_cache(maxsize=2**14)
def strict_part(x: Expr) -> Expr | None:
    """x − bd(x) of a causal or an anticausal operator, as a form that is visibly strict."""
    if is_memoryless(x.structure):
        return zero(x.takes, x.gives)
    if is_strict(x.structure):
        return x
    if is_transition(x):
        return transition_step(x) @ x
    if x.op is Op.ADJOINT:
        inner = strict_part(x.args[0])
        return None if inner is None else adjoint(inner)
    if x.op is Op.SUM:
        parts = [(c, strict_part(y)) for c, y in x.terms]
        return total_of((c, p) for c, p in parts if p is not None) if _known(parts) else None
    if x.op is Op.PRODUCT:
        return _strict_product(x.args)
    if x.op is Op.INVERSE:  # (W + N)⁻¹ − W⁻¹ = −W⁻¹ N (W + N)⁻¹
        weight, rest = diagonal_part(x.args[0]), strict_part(x.args[0])
        if weight is None or rest is None or weight.op is Op.ZERO:
            return None
        return -(weight.inv @ rest @ x)
    meaning = definition(x)
    return None if meaning is None else strict_part(meaning)


def _strict_product(factors: tuple[Expr, ...]) -> Expr | None:
    """The strict part of a product: Σᵢ bd(F₁) … bd(Fᵢ₋₁) strict(Fᵢ) Fᵢ₊₁ ⋯."""
    terms: list[Expr] = []
    for i, f in enumerate(factors):
        before = [diagonal_part(y) for y in factors[:i]]
        strict = strict_part(f)
        if strict is None or None in before:
            return None
        terms.append(product([y for y in before if y is not None] + [strict, *factors[i + 1 :]]))
    return total_of((1, t) for t in terms)


def _known(parts: list[tuple[Number, Expr | None]]) -> bool:
    return all(p is not None for _, p in parts)


def is_block_operator(x: Expr) -> bool:
    """True if x is one block per body."""
    return x.takes.per_body and x.gives.per_body and is_memoryless(x.structure)
