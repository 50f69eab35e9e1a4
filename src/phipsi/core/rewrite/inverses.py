"""Inverses that have an O(N) form.

- memoryless X: block by block;
- W + N, N strictly causal or strictly anticausal: by substitution along the tree;
- W + H T X T* H*, X and W memoryless and symmetric, T a transition operator: the Riccati family
  gives
  ``(W + H T X T* H*)⁻¹ = (I − H ψ K)* D⁻¹ (I − H ψ K)``  [SOA Lemma 0.3];
- products of these.
"""

from __future__ import annotations

from functools import lru_cache

from phipsi.core.expressions import (
    EFFORTS,
    FORCES,
    RATES,
    Expr,
    Number,
    Op,
    identity,
    is_memoryless,
    product,
    scaled,
    total_of,
    zero,
)
from phipsi.core.operators import Riccati, definition, is_transition, meaning_of, transition_step
from phipsi.core.rewrite.causal import contract, diagonal_and_strict


@lru_cache(maxsize=2**14)
def split_diagonal(x: Expr) -> tuple[Expr, Expr] | None:
    """(W, N) with x = W + N, W memoryless and invertible in form, N strict; None if not such."""
    parts = diagonal_and_strict(x)
    return None if parts is None or parts[0].op is Op.ZERO else parts


@lru_cache(maxsize=2**14)
def riccati_of(x: Expr) -> Riccati | None:
    """The family whose innovations factor x = W + H T X T* H*, if x has that form."""
    if x.takes is not RATES or x.gives is not EFFORTS:
        return None
    memoryless: list[tuple[Number, Expr]] = []
    cores: list[tuple[Number, Expr]] = []
    frame: tuple[Expr, Expr] | None = None
    for c, term in _expand_terms(x):
        if is_memoryless(term.structure):
            memoryless.append((c, term))
            continue
        parts = _sandwich(term)
        if parts is None or (frame is not None and frame != parts[:2]):
            return None
        frame = parts[:2]
        cores.append((c, parts[2]))
    if frame is None:
        return None
    weight = total_of(memoryless) if memoryless else zero(RATES, EFFORTS)
    core = total_of(cores)
    if core.T is not core or weight.T is not weight:
        return None
    hinge, transition = frame
    return Riccati(hinge, transition_step(transition), core, weight)


@lru_cache(maxsize=2**14)
def innovations_form(x: Expr) -> Expr | None:
    """x⁻¹ as (I − H ψ K)* D⁻¹ (I − H ψ K), if x = W + H T X T* H*."""
    f = riccati_of(x)
    if f is None:
        return None
    whiten = identity(EFFORTS) - f.H @ f.psi @ f.K
    return whiten.T @ f.D.inv @ whiten


def _expand_terms(x: Expr) -> list[tuple[Number, Expr]]:
    """The terms of x with derived operators written out."""
    out: list[tuple[Number, Expr]] = []
    for c, term in x.terms:
        scalars, plain = _without_scalars(term)
        expanded = product(_expand_factor(y) for y in plain.factors)
        if expanded.op is not Op.SUM:
            out.append((c, _with_scalars(scalars, expanded)))
        else:
            out.extend((c * d, _with_scalars(scalars, y)) for d, y in expanded.terms)
    return out


def _without_scalars(term: Expr) -> tuple[list[Expr], Expr]:
    """The scalars by name of a product, which may stand anywhere, and the rest."""
    scalars: list[Expr] = []
    factors: list[Expr] = []
    for y in term.factors:
        if y.function is scaled:
            scalars.append(y.args[0])
            factors += [] if y.args[1].op is Op.IDENTITY else [y.args[1]]
        else:
            factors.append(y)
    plain = product(factors) if scalars and factors else term
    return (scalars, plain) if plain is not term else ([], term)


def _with_scalars(scalars: list[Expr], x: Expr) -> Expr:
    """A product with scalars in its middle, where the core of H T X T* H* is."""
    return x * product(scalars) if scalars else x


def _expand_factor(x: Expr) -> Expr:
    """A factor that moves along the tree, in terms of φ, ψ and E_φ."""
    if is_memoryless(x.structure):
        return x
    meaning = meaning_of(x)
    if meaning is None:
        return x
    return product(map(_expand_factor, meaning.factors)) if meaning.op is Op.PRODUCT else meaning


def _sandwich(term: Expr) -> tuple[Expr, Expr, Expr] | None:
    """(A, T, X) with term = A T X T* A*, A and X memoryless, T a transition operator."""
    factors = contract(list(term.factors), lambda fs, i, j: fs[j] is fs[i].T)
    moving = [i for i, y in enumerate(factors) if not is_memoryless(y.structure)]
    if len(moving) != 2:
        return None
    i, j = moving
    left, right = factors[i], factors[j]
    if not is_transition(left) or right is not left.T:
        return None
    outer, core = factors[:i], factors[i + 1 : j]
    if not outer or not core or [y.T for y in reversed(outer)] != factors[j + 1 :]:
        return None
    hinge = product(outer)
    if hinge.takes is not FORCES or hinge.gives is not EFFORTS:
        return None
    return hinge, left, product(core)


@lru_cache(maxsize=2**14)
def inverse_form(x: Expr) -> Expr | None:
    """x⁻¹ in terms of inverses by blocks or by substitution; None if it has no such form."""
    factored, pieces = innovations_form(x), split_product(x)
    if factored is not None or pieces is None:
        return factored
    return product(piece.inv for piece in reversed(pieces))


@lru_cache(maxsize=2**14)
def split_product(x: Expr) -> tuple[Expr, ...] | None:
    """Split a product into square pieces that each have an O(N) inverse; None if impossible."""
    if x.op is not Op.PRODUCT:
        meaning = definition(x)
        return split_product(meaning) if meaning is not None else None
    n = len(x.args)
    best: list[tuple[Expr, ...] | None] = [None] * (n + 1)
    best[n] = ()
    for i in range(n - 1, -1, -1):
        for j in range(n, i, -1):
            rest = best[j]
            if rest is None or (i == 0 and j == n):
                continue
            piece = product(x.args[i:j])
            shorter = best[i] is None or len(rest) + 1 < len(best[i] or ())
            if shorter and has_direct_inverse(piece):
                best[i] = (piece, *rest)
    return best[0]


def has_direct_inverse(x: Expr) -> bool:
    """True if x is square and of one of the first three classes of the module's text."""
    if not (x.takes.index == x.gives.index and x.takes.per_body):
        return False
    if is_memoryless(x.structure):
        return True
    return split_diagonal(x) is not None or riccati_of(x) is not None


def has_inverse(x: Expr) -> bool:
    """True if x is of one of the classes of the module's text."""
    return has_direct_inverse(x) or split_product(x) is not None
