"""bd(X): the block-diagonal part of sums of products, by Lemma A.1 and its dual.

A product is peeled from both ends. Memoryless factors come out, ``bd(A X C) = A bd(X) C``. Between
a causal left end and an anticausal right end (and the other way round) the transition operators are
replaced by ``T = I + E T``, which leaves an equation for the blocks:

    bd(T₁ Z T₂*) = bd(Z) + bd(E₁ T₁ Z) + bd(Z T₂* E₂*) + Σ_children E₁ bd(T₁ Z T₂*) E₂*
    bd(T₁* Z T₂) = bd(Z) + bd(E₁* T₁* Z) + bd(Z T₂ E₂) + E₁* bd(T₁* Z T₂)(parent) E₂

The first is Lemma A.1 [88-11 a.44–a.45] for memoryless Z, the second its dual. The first needs
that no block couples two unrelated bodies, as in causal · memoryless · anticausal products.
"""

from __future__ import annotations

from phipsi.errors import LoweringError
from phipsi.expressions.check import shown
from phipsi.expressions.node import Expr, Number, adjoint, identity, product
from phipsi.expressions.structure import (
    Structure,
    is_anticausal,
    is_causal,
    is_memoryless,
    is_strict,
    product_structure,
)
from phipsi.operators.catalogue import transition_step
from phipsi.rewrite.causal import diagonal_part, is_step, is_transition
from phipsi.rewrite.primitive import Factors, expand_products, step_factors
from phipsi.sweeps.blocks import Blocks
from phipsi.sweeps.ir import Domain, Field, Type


class Diagonals(Blocks):
    """Blocks, and block-diagonal parts of products."""

    def diagonal(self, x: Expr) -> Field:
        """The blocks of bd(x)."""
        terms = [(c, self._diagonal(fs, x)) for c, fs in expand_products(x)]
        if terms:
            return self.builder.add(terms)
        return self.block(diagonal_zero(x))

    def _diagonal(self, factors: Factors, whole: Expr) -> Field:
        """bd of one product of primitive factors."""
        b = self.builder
        key = product(factors) if factors else identity(whole.takes)
        if any(y.takes is None or not y.takes.per_body for y in factors[:-1]):
            raise LoweringError(_no_diagonal(whole, key))
        if is_memoryless(key.structure):
            return self.block(key)
        if is_strict(key.structure):
            return self.block(diagonal_zero(key))
        left, right = factors[0], factors[-1]
        if is_memoryless(left.structure):
            return b.mul(self.block(left), self._diagonal(factors[1:], whole))
        if is_memoryless(right.structure):
            return b.mul(self._diagonal(factors[:-1], whole), self.block(right))
        if is_causal(key.structure) or is_anticausal(key.structure):
            part = diagonal_part(key)
            if part is not None:
                return self.block(part)
            raise LoweringError(_no_diagonal(whole, key))
        if key not in self._diagonals:
            self._diagonals[key] = self._two_ended(factors, whole)
        return self._diagonals[key]

    def _two_ended(self, factors: Factors, whole: Expr) -> Field:
        left, right = factors[0], factors[-1]
        inner = factors[1:-1]
        if is_causal(left.structure) and is_anticausal(right.structure):
            if _structure(inner) & Structure.UNRELATED:
                raise LoweringError(_no_diagonal(whole, product(factors)))
            return self._ends(left, inner, adjoint(right), whole, inward=True)
        if is_anticausal(left.structure) and is_causal(right.structure):
            return self._ends(adjoint(left), inner, right, whole, inward=False)
        raise LoweringError(_no_diagonal(whole, product(factors)))

    def _ends(self, left: Expr, inner: Factors, right: Expr, whole: Expr, *, inward: bool) -> Field:
        """Blocks of left · inner · right* inward, of left* · inner · right outward."""
        b = self.builder
        step = self.step_in if inward else self.step_out
        outer_left = left if inward else adjoint(left)
        outer_right = adjoint(right) if inward else right
        if is_step(left) and is_step(right):
            return step(left, self._diagonal(inner, whole), right)
        if is_step(left) and is_transition(right):  # T* = I + T* E*
            e = transition_step(right)
            tail = step_factors(adjoint(e) if inward else e)
            return b.add(
                [
                    (1, self._diagonal((outer_left, *inner), whole)),
                    (1, self._diagonal((outer_left, *inner, outer_right, *tail), whole)),
                ]
            )
        if is_transition(left) and is_step(right):
            e = transition_step(left)
            head = step_factors(e if inward else adjoint(e))
            return b.add(
                [
                    (1, self._diagonal((*inner, outer_right), whole)),
                    (1, self._diagonal((*head, outer_left, *inner, outer_right), whole)),
                ]
            )
        if is_transition(left) and is_transition(right):
            return self._lemma(left, inner, right, whole, inward=inward)
        raise LoweringError(_no_diagonal(whole, product((outer_left, *inner, outer_right))))

    def _lemma(
        self, left: Expr, inner: Factors, right: Expr, whole: Expr, *, inward: bool
    ) -> Field:
        b = self.builder
        ea, eb = transition_step(left), transition_step(right)
        constant: list[tuple[Number, Field]] = [(1, self._diagonal(inner, whole))]
        if not is_memoryless(product(inner).structure):
            tl = left if inward else adjoint(left)
            tr = adjoint(right) if inward else right
            el = step_factors(ea if inward else adjoint(ea))
            er = step_factors(adjoint(eb) if inward else eb)
            constant.append((1, self._diagonal((*el, tl, *inner), whole)))
            constant.append((1, self._diagonal((*inner, tr, *er), whole)))
        source = b.add(constant)
        step = self.step_in if inward else self.step_out
        type_ = Type(Domain.BODY, "6", "6", source.type.kind)
        return b.fixpoint(type_, lambda r: b.add([(1, source), (1, step(ea, r, eb))]))


def _structure(factors: Factors) -> Structure:
    out = Structure.DIAGONAL
    for y in factors:
        out = product_structure(out, y.structure)
    return out


def diagonal_zero(x: Expr) -> Expr:
    """The zero operator with the spaces of x."""
    return x - x


def _no_diagonal(whole: Expr, part: Expr) -> str:
    return (
        f"no O(N) form found for the block-diagonal part  bd({shown(whole)})\n"
        f"    because of  {shown(part)}\n"
        "    Known are sums of L X R with X memoryless and at most one of φ, ψ, φ̃, ψ̃, E_φ, E_ψ\n"
        "    or an adjoint in L and one in R.   To compute it densely:   pp.dense(expr, model, q)"
    )
