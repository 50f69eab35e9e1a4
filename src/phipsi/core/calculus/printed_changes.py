"""Derivatives as papers mean them: those of vectors and operators in the inertial frame.

`diff` differentiates components in body axes. A vector or operator of body motions or forces turns
with the bodies too: in the inertial frame its derivative has the terms W X − X W, where W is the
cross product with the angular velocities of the bodies.
"""

from __future__ import annotations

from phipsi.core.calculus.differentiation import diff
from phipsi.core.expressions import FORCES, MOTIONS, Expr, Space, cross, zero
from phipsi.core.operators import catalogue_leaf, needs_of


def change_by_angle(x: Expr) -> Expr:
    """The derivative with respect to an angle, for any joint rates dq: the subscript θ_i of MS."""
    dq = catalogue_leaf("dq")
    return diff(x, "q", along=dq) + _turned(x, dq)


def time_derivative(x: Expr) -> Expr:
    """The time derivative of what depends on q and v only: a dot in the papers."""
    v = catalogue_leaf("v")
    out = diff(x, "q", along=v) + _turned(x, v)
    return out + diff(x, "v", along="vdot") if "v" in needs_of(x) else out


def _turned(x: Expr, rates: Expr) -> Expr:
    """W X − X W."""
    H, phi, angular = map(catalogue_leaf, ("H", "phi", "angular"))
    turning = cross(angular @ phi.T @ H.T @ rates)
    return _times(turning, x.gives, x) - _times(turning, x.takes, x, right=True)


def _times(turning: Expr, space: Space, x: Expr, right: bool = False) -> Expr:
    """W X or X W, in a space whose vectors are in axes of the bodies; otherwise zero."""
    if space not in (MOTIONS, FORCES):
        return zero(x.takes, x.gives)
    W = turning if space is MOTIONS else -turning.T
    return x @ W if right else W @ x
