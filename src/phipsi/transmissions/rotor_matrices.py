"""Blocks of matrices of mechanisms with rotors on skew axes.

Six rows and rates have in common what both need, once. Without the rows of rotors [X; Y]
behind (I − H ψ K) [H, I] φ gives

    on the diagonal   s = H X + Y                 on paths   X − G s

with X between rates and six rows, Y on rates. So s is one block, and the sums in it are held, so
that they are computed once. If X has Z t with Z = bd(ψ … φ*), then Y has Y_Z t, and H Z + Y_Z is
there, in the equation of Z.
"""

from __future__ import annotations

from typing import NamedTuple

from phipsi.core.expressions import FORCES, Expr, Number, Op, identity, product, total_of, zero
from phipsi.core.operators import H, Riccati
from phipsi.core.sweeps import Field, Lowering, Terms
from phipsi.transmissions.rotor_leaves import COMPOSITE, is_of_rotors, with_rates


class _Split(NamedTuple):
    """X, and s = H X + Y."""

    six: Field
    rates: Field


def moved(low: Lowering, family: Riccati | None, pose: Field, block: Field) -> Field:
    """A block in the frame of the root.

    Several matrices of a mechanism with such rotors have G there as W (P H* + Γ) D⁻¹, because paths
    begin with W (P H* + Γ) too.
    """
    b = low.builder
    shared = low.options.several and block.op == "mul"
    if shared and family is not None and block is low.blocks.block(family.G):
        return b.mul(b.mul(pose, block.args[0]), block.args[1])
    return b.mul(pose, block)


def behind_gain(low: Lowering, family: Riccati, inner: Terms, outer: Terms) -> Field:
    """The block that a path begins with: π̄ X of the terms inside, and those outside, with −G Y."""
    b = low.builder
    first = [(c, y) for c, y in outer if y.factors[0] is family.G and len(y.factors) > 1]
    rates: Terms = [(-c, product(y.factors[1:])) for c, y in first]
    parts = [(c, low.blocks.block(y)) for c, y in outer if (c, y) not in first]
    if not inner and not rates:
        return b.add(parts)
    found = _split(low, inner, rates)
    gain = low.blocks.block(family.G)
    return b.add([(1, found.six), (-1, b.mul(gain, found.rates)), *parts])


def on_diagonal(low: Lowering, terms: Terms, symmetric: bool) -> Field:
    """The sum of memoryless terms between rates."""
    if symmetric:
        return low.builder.add([(c, low.blocks.block(y)) for c, y in terms])
    begun = [(c, y) for c, y in terms if y.factors[0] is H]
    inner: Terms = [(c, _behind_hinge(y)) for c, y in begun]
    return _split(low, inner, [t for t in terms if t not in begun]).rates


def _behind_hinge(y: Expr) -> Expr:
    return product(y.factors[1:]) if len(y.factors) > 1 else identity(FORCES)


def _split(low: Lowering, inner: Terms, rates: Terms) -> _Split:
    b, six = low.builder, low.blocks
    left = {y: c for c, y in rates}
    joined = list[tuple[Number, Expr, Expr]]()
    for c, y in inner:
        pair = _joined(c, y, left)
        if pair is not None:
            joined.append((c, *pair))
    moved = {Z @ t for _, Z, t in joined}
    none = zero((inner or rates)[0][1].takes, FORCES)
    plain = six.block(total_of([(0, none), *(x for x in inner if x[1] not in moved)]))
    whole = six.block(total_of([(0, none), *inner]))
    coupled = [(c, y) for y, c in left.items() if any(map(is_of_rotors, y.factors))]
    others = [(c, six.block(y)) for y, c in left.items() if (c, y) not in coupled]
    held = b.held(
        b.add(
            [
                (1, b.mul(six.block(H), plain)),
                *((c, b.mul(with_rates(six, Z), six.block(t))) for c, Z, t in joined),
                *((c, six.block(y)) for c, y in coupled),
            ]
        )
    )
    return _Split(b.held(whole), b.add([(1, held), *others]))


def _joined(c: Number, y: Expr, rates: dict[Expr, Number]) -> tuple[Expr, Expr] | None:
    """(Z, t) if y is Z t and the rates have Y_Z t, which is taken from them."""
    first, *rest = y.factors
    if first.op is not Op.LEAF or first.row is not COMPOSITE or not rest:
        return None
    t = product(rest)
    needed = {x @ t: c * d for d, x in first.args[1].terms}
    if any(rates.get(x) != d for x, d in needed.items()):
        return None
    for x in needed:
        del rates[x]
    return first, t
