"""Cross products between two transition operators, carried to one side.

A motion x of the bodies relative to their parents adds up to X = φ* x, and

    E_φ* cross(X) = cross(E_φ* X) E_φ*              (a cross product, seen from the next body)

Hence, for every vector of body motions x,

    φ* cross(x) φ* = cross(X) φ* − φ* cross(E_φ* X),  φ cross(x)* φ = φ cross(X)* − cross(E_φ* X)* φ
    φ* cross(x) φ̃* = cross(X) φ* − φ* cross(X),      φ̃ cross(x)* φ = φ cross(X)* − cross(X)* φ

The last two are what δφ along x = H* u is, in terms of the motions of the bodies. Three operators
that move along the tree become two, so that every block of a derivative lies on one path.
"""

from __future__ import annotations

from collections.abc import Collection

from phipsi.expressions.kinds import Op
from phipsi.expressions.node import Expr, Number, cross, total_of
from phipsi.operators.catalogue import E_phi, H, V, catalogue_leaf, phi, v

Factors = tuple[Expr, ...]
Terms = list[tuple[Number, Factors]]
phi_tilde = catalogue_leaf("phi_tilde")
_RELATIVE = H.T @ v
_MOST = 64


def motion_of(x: Expr, given: Collection[str] = ()) -> Expr:
    """φ* x, by its name V for x = H* v unless a value of V is given."""
    if x.op is Op.SUM:
        return total_of((c, motion_of(y, given)) for c, y in x.terms)
    return V if x is _RELATIVE and "V" not in given else phi.T @ x


def carry_all(terms: Terms, given: Collection[str] = ()) -> Terms | None:
    """The terms with every such product carried out; None if there is none, or far too many."""
    todo, done, changed = list(terms), Terms(), False
    while todo:
        c, factors = todo.pop()
        found = carry(factors, given)
        if found is None:
            done.append((c, factors))
            continue
        changed = True
        todo.extend((c * d, fs) for d, fs in found)
        if len(todo) + len(done) > _MOST:
            return None
    return done if changed else None


def carry(factors: Factors, given: Collection[str] = ()) -> Terms | None:
    """One product with one cross product carried out of it, as two terms."""
    for i in range(1, len(factors) - 1):
        left, middle, right = factors[i - 1 : i + 2]
        if middle.op is Op.CROSS and left is phi.T and right in (phi.T, phi_tilde.T):
            moved = motion_of(middle.args[0], given)
            inner = E_phi.T @ moved if right is phi.T else moved
            pair = ((1, (cross(moved), phi.T)), (-1, (phi.T, cross(inner))))
        elif (
            middle.op is Op.ADJOINT
            and middle.args[0].op is Op.CROSS
            and right is phi
            and left in (phi, phi_tilde)
        ):
            moved = motion_of(middle.args[0].args[0], given)
            inner = E_phi.T @ moved if left is phi else moved
            pair = ((1, (phi, cross(moved).T)), (-1, (cross(inner).T, phi)))
        else:
            continue
        return [
            (d * e, (*factors[: i - 1], *fs, *factors[i + 2 :]))
            for e, ends in pair
            for d, fs in _plain(ends)
        ]
    return None


def _plain(ends: Factors) -> Terms:
    """A product of two factors, one of which may be a sum or carry a sign."""
    out: Terms = [(1, ())]
    for y in ends:
        out = [(c * d, (*fs, *t.factors)) for c, fs in out for d, t in y.terms]
    return out
