"""Block-diagonal parts: bd(X) of sums of products.

bd(X), the block-diagonal part of sums of products, is formed by Lemma A.1 and its dual. A product
is peeled from both ends. Memoryless factors come out, ``bd(A X C) = A bd(X) C``. Between a causal
left end and an anticausal right end (and the other way round) the transition operators are replaced
by ``T = I + E T``, which leaves an equation for the blocks:

    bd(T₁ Z T₂*) = bd(Z) + bd(E₁ T₁ Z) + bd(Z T₂* E₂*) + Σ_children E₁ bd(T₁ Z T₂*) E₂*
    bd(T₁* Z T₂) = bd(Z) + bd(E₁* T₁* Z) + bd(Z T₂ E₂) + E₁* bd(T₁* Z T₂)(parent) E₂

The first is Lemma A.1 [88-11 a.44–a.45] for memoryless Z, the second its dual. The first needs
that no block couples two unrelated bodies, as in causal · memoryless · anticausal products.

A longer product in which a causal factor stands before an anticausal one is a sum of others, by the
same lemma:

    T₁ X T₂* = r + T̃₁ r + r T̃₂*,    r = bd(T₁ X T₂*)          E₁ X T₂* = E₁ X + bd(E₁ X E₂*) T₂*

Repeated, this leaves products that go out only after they went in, which the dual recursion forms.
"""

from __future__ import annotations

from phipsi.core.expressions import (
    Expr,
    Number,
    Structure,
    adjoint,
    identity,
    is_anticausal,
    is_causal,
    is_memoryless,
    is_strict,
    product,
    product_structure,
    shown,
)
from phipsi.core.operators import is_step, is_transition, transition_step
from phipsi.core.rewrite import (
    Factors,
    diagonal_part,
    expand_products,
    out_and_back,
    step_factors,
)
from phipsi.core.sweeps.ir import Domain, Field, FieldType
from phipsi.core.sweeps.memoryless_blocks import MemorylessBlocks
from phipsi.errors import LoweringError

_MOST_MOVING = 6  # factors of one product that look beyond one body


def diagonal_blocks(blocks: MemorylessBlocks, x: Expr) -> Field:
    """The blocks of bd(x)."""
    terms = [(c, _diagonal(blocks, fs, x)) for c, fs in expand_products(x)]
    if terms:
        return blocks.builder.add(terms)
    return blocks.block(x - x)


def _diagonal(blocks: MemorylessBlocks, factors: Factors, whole: Expr) -> Field:
    """bd of one product of primitive factors."""
    b = blocks.builder
    factors = _over_points(factors)
    key = product(factors) if factors else identity(whole.takes)
    if not all(y.takes.per_body for y in factors[:-1]):
        raise LoweringError(_no_diagonal(whole, key))
    if is_memoryless(key.structure):
        return blocks.block(key)
    if is_strict(key.structure):
        return blocks.block(key - key)
    left, right = factors[0], factors[-1]
    if is_memoryless(left.structure):
        return b.mul(blocks.block(left), _diagonal(blocks, factors[1:], whole))
    if is_memoryless(right.structure):
        return b.mul(_diagonal(blocks, factors[:-1], whole), blocks.block(right))
    if is_causal(key.structure) or is_anticausal(key.structure):
        part = diagonal_part(key)
        if part is not None:
            return blocks.block(part)
        raise LoweringError(_no_diagonal(whole, key))
    if key not in blocks.diagonals:
        blocks.diagonals[key] = _two_ended(blocks, factors, whole)
    return blocks.diagonals[key]


def _two_ended(blocks: MemorylessBlocks, factors: Factors, whole: Expr) -> Field:
    left, right = factors[0], factors[-1]
    inner = factors[1:-1]
    if is_causal(left.structure) and is_anticausal(right.structure):
        if not _structure(inner) & Structure.UNRELATED:
            return _ends(blocks, left, inner, adjoint(right), whole, inward=True)
    elif is_anticausal(left.structure) and is_causal(right.structure):
        if is_causal(_structure(inner)) or is_anticausal(_structure(inner)):
            return _ends(blocks, adjoint(left), inner, right, whole, inward=False)
    terms = None
    if sum(not is_memoryless(y.structure) for y in factors) <= _MOST_MOVING:
        terms = out_and_back(factors)
    if terms is not None:
        b = blocks.builder
        return b.add(
            [
                (c * d, _diagonal(blocks, gs, whole))
                for c, fs in terms
                for d, gs in expand_products(product(fs))
            ]
        )
    if is_anticausal(left.structure) and is_causal(right.structure):
        return _ends(blocks, adjoint(left), inner, right, whole, inward=False)
    raise LoweringError(_no_diagonal(whole, product(factors)))


def _ends(
    blocks: MemorylessBlocks, left: Expr, inner: Factors, right: Expr, whole: Expr, *, inward: bool
) -> Field:
    """Blocks of left · inner · right* inward, of left* · inner · right outward."""
    b = blocks.builder
    step = blocks.step_in if inward else blocks.step_out
    outer_left = left if inward else adjoint(left)
    outer_right = adjoint(right) if inward else right
    if is_step(left) and is_step(right):
        return step(left, _diagonal(blocks, inner, whole), right)
    if is_step(left) and is_transition(right):  # T* = I + T* E*
        e = transition_step(right)
        c, tail = step_factors(adjoint(e) if inward else e)
        return b.add(
            [
                (1, _diagonal(blocks, (outer_left, *inner), whole)),
                (c, _diagonal(blocks, (outer_left, *inner, outer_right, *tail), whole)),
            ]
        )
    if is_transition(left) and is_step(right):
        e = transition_step(left)
        c, head = step_factors(e if inward else adjoint(e))
        return b.add(
            [
                (1, _diagonal(blocks, (*inner, outer_right), whole)),
                (c, _diagonal(blocks, (*head, outer_left, *inner, outer_right), whole)),
            ]
        )
    if is_transition(left) and is_transition(right):
        return _lemma(blocks, left, inner, right, whole, inward=inward)
    raise LoweringError(_no_diagonal(whole, product((outer_left, *inner, outer_right))))


def _lemma(
    blocks: MemorylessBlocks, left: Expr, inner: Factors, right: Expr, whole: Expr, *, inward: bool
) -> Field:
    b = blocks.builder
    ea, eb = transition_step(left), transition_step(right)
    constant: list[tuple[Number, Field]] = [(1, _diagonal(blocks, inner, whole))]
    if not is_memoryless(product(inner).structure):
        tl = left if inward else adjoint(left)
        tr = adjoint(right) if inward else right
        cl, el = step_factors(ea if inward else adjoint(ea))
        cr, er = step_factors(adjoint(eb) if inward else eb)
        constant.append((cl, _diagonal(blocks, (*el, tl, *inner), whole)))
        constant.append((cr, _diagonal(blocks, (*inner, tr, *er), whole)))
    source = b.add(constant)
    step = blocks.step_in if inward else blocks.step_out
    type_ = FieldType(Domain.BODY, blocks.body, blocks.body, source.type.kind)
    return b.fixpoint(type_, lambda r: b.add([(1, source), (1, step(ea, r, eb))]))


def _over_points(factors: Factors) -> Factors:
    """The factors, with B W B* as one, which is memoryless on bodies if W is on points."""
    out: list[Expr] = []
    begun: list[Expr] = []
    for y in factors:
        begun.append(y)
        if y.takes.index != "point":
            whole = product(begun)
            out += [whole] if is_memoryless(whole.structure) else begun
            begun = []
    return (*out, *begun)


def _structure(factors: Factors) -> Structure:
    out = Structure.DIAGONAL
    for y in factors:
        out = product_structure(out, y.structure)
    return out


def _no_diagonal(whole: Expr, part: Expr) -> str:
    return (
        f"no O(N) form found for the block-diagonal part  bd({shown(whole)})\n"
        f"    because of  {shown(part)}\n"
        "    Known are sums of products of φ, ψ, φ̃, ψ̃, E_φ, E_ψ, their adjoints and memoryless\n"
        f"    operators on bodies and joints, up to {_MOST_MOVING} of which look beyond one body.\n"
        "    To compute it densely:   pp.evaluate_dense(expr, model, q)"
    )
