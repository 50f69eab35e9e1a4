"""Diagonal and strict parts of one-directional operators, and the anatomy of one-step operators."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from phipsi.core.expressions import (
    Expr,
    Op,
    block_diagonal,
    identity,
    is_anticausal,
    is_causal,
    is_memoryless,
    is_strict,
    product,
    rebuild,
    shown,
    total_of,
    zero,
)
from phipsi.core.operators import definition, is_step, is_transition, transition_step
from phipsi.errors import LoweringError

Closes = Callable[[list[Expr], int, int], bool]


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
    if e.op is Op.SUM and len(e.args) == 1:  # c E
        before, step, after = one_step_factors(e.args[0])
        return e.data[0] * (identity(e.gives) if before is None else before), step, after
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
def diagonal_and_strict(x: Expr) -> tuple[Expr, Expr] | None:
    """(bd(x), x − bd(x)) of a causal or an anticausal operator; None if not known.

    The second is in a form that is visibly strict. For a product it is
    Σᵢ bd(F₁) … bd(Fᵢ₋₁) strict(Fᵢ) Fᵢ₊₁ ⋯, for an inverse (W + N)⁻¹ − W⁻¹ = −W⁻¹ N (W + N)⁻¹.
    """
    if is_memoryless(x.structure):
        return x, zero(x.takes, x.gives)
    if is_strict(x.structure):
        return zero(x.takes, x.gives), x
    if not (is_causal(x.structure) or is_anticausal(x.structure)):
        return None
    if is_transition(x):
        return identity(x.takes), transition_step(x) @ x
    if x.op is Op.LEAF:
        meaning = definition(x)
        return None if meaning is None else diagonal_and_strict(meaning)
    known = [diagonal_and_strict(y) for y in x.args]
    parts = [part for part in known if part is not None]
    if len(parts) < len(known):
        return None
    weights, rests = [w for w, _ in parts], [n for _, n in parts]
    if x.op is Op.ADJOINT:
        return weights[0].T, rests[0].T
    if x.op is Op.SUM:
        return rebuild(x, weights), rebuild(x, rests)
    if x.op is Op.PRODUCT:
        strict = ((1, product((*weights[:i], n, *x.args[i + 1 :]))) for i, n in enumerate(rests))
        return product(weights), total_of(strict)
    if x.op is Op.INVERSE and weights[0].op is not Op.ZERO:
        return weights[0].inv, -(weights[0].inv @ rests[0] @ x)
    return None


def diagonal_part(x: Expr) -> Expr | None:
    """bd(x) of a causal or an anticausal operator as an expression; None if not known."""
    parts = diagonal_and_strict(x)
    return None if parts is None else parts[0]


def is_block_operator(x: Expr) -> bool:
    """True if x is one block per body."""
    return x.takes.per_body and x.gives.per_body and is_memoryless(x.structure)
