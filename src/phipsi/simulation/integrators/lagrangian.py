"""Derivatives of the Lagrangian, and rates from momenta: the expressions of variational steps."""

from __future__ import annotations

from functools import cache

from phipsi.algorithms import GRAVITY_FORCES, KINETIC_ENERGY, MASS_MATRIX_INVERSE
from phipsi.core import calculus
from phipsi.core.expressions import Expr
from phipsi.core.operators import C_e, H, K_e, eta, f_ext, mass_matrix, phi, tau, v

MOMENTA = mass_matrix @ v
RATES_OF_MOMENTA = MASS_MATRIX_INVERSE @ tau


@cache
def slope(modal: bool, loads: bool) -> Expr:
    """∂L/∂q along the joint rates, with forces on bodies if there are any.

    `modal`: bodies have modes, whose elastic forces and damping are part of it.
    """
    out = calculus.differentiation.gradient(KINETIC_ENERGY, "q", modal) - GRAVITY_FORCES
    if modal:
        out = out - K_e @ eta - C_e @ v
    return out + H @ phi @ f_ext if loads else out


def lagrangian(modal: bool, loads: bool) -> tuple[Expr, Expr]:
    """Derivatives of the Lagrangian by v and by q; arguments as for `slope`."""
    return MOMENTA, slope(modal, loads)
