"""Derivatives of the Lagrangian, and rates from momenta: the expressions of variational steps."""

from __future__ import annotations

from phipsi.algorithms.dynamics.energy import KINETIC_ENERGY
from phipsi.algorithms.forms import GRAVITY_FORCES, MASS_MATRIX_INVERSE
from phipsi.calculus.differentiation import gradient
from phipsi.operators import H, f_ext, mass_matrix, phi, tau, v

SLOPE = gradient(KINETIC_ENERGY, "q") - GRAVITY_FORCES
MOMENTA = mass_matrix @ v
LAGRANGIAN = (MOMENTA, SLOPE)
"""Derivatives of the Lagrangian by v and by q."""
SLOPE_WITH_FORCES = SLOPE + H @ phi @ f_ext
RATES_OF_MOMENTA = MASS_MATRIX_INVERSE @ tau
LAGRANGIAN_WITH_FORCES = (MOMENTA, SLOPE_WITH_FORCES)
