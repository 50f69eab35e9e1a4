"""Equations of motion in the coordinates that make the mass matrix the identity."""

from __future__ import annotations

from functools import cache
from typing import Any, Unpack

from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms.forms import BIAS_FORCES, GRAVITY_FORCES
from phipsi.backends.options import CallOptions, Calls
from phipsi.calculus.differentiation import diff
from phipsi.compiler import Form, evaluate, program_of
from phipsi.expressions.node import Expr, zero
from phipsi.expressions.spaces import EFFORTS, ONE
from phipsi.model.mechanisms import of_modes, of_trees
from phipsi.model.model import Model
from phipsi.operators import C_e, D_half, H, I, K, K_e, eta, phi, psi, v

Array = NDArray[Any]

_COLOUR = I + H @ phi @ K
_WHITEN = I - H @ psi @ K
RATES_OF_INNOVATIONS = _WHITEN.T @ D_half.T.inv
_RATES = Form(RATES_OF_INNOVATIONS)


@cache
def _coriolis(modal: bool) -> Expr:
    """μ = ℓ⁻¹ c − (dℓ*/dt) v with ℓ = (I + H φ K) D½."""
    change = diff(D_half.T @ _COLOUR.T, "q", v, modes=modal)
    elastic = K_e @ eta + C_e @ v if modal else zero(ONE, EFFORTS)
    return D_half.inv @ _WHITEN @ (BIAS_FORCES - GRAVITY_FORCES - elastic) - change @ v


_COUPLED = (
    "its coordinates make the mass matrix of the tree diagonal, and constraints couple them again"
)
_INSTEAD = "Equations of motion with constraints:  pp.forward_dynamics(system, q, v, tau)"


@of_modes
@of_trees(_COUPLED, _INSTEAD)
def innovations_rates(
    model: Model, q: ArrayLike, nu: ArrayLike, **options: Unpack[CallOptions]
) -> Array:
    """Joint rates from normalised innovations.

    v = ℓ⁻* ν = (I − H ψ K)* D½⁻* ν, the inverse of what `innovations` does with v.

    **Arguments:** `q` (..., nq), `nu` (..., nv) in J^½. **Returns:** v (..., nv).
    **Cost:** two sweeps, O(N). **Source:** MC sec. 6 corrected.

    >>> from phipsi import innovations, innovations_rates
    >>> from phipsi.examples import planar_arm
    >>> arm, q = planar_arm(2), [0.0, 0.5]
    >>> innovations_rates(arm, q, innovations(arm, q, [1.0, -2.0], [0.0, 0.0]).nu).round(9)
    array([ 1., -2.])
    """
    return evaluate(_RATES, innovations_rates, model, (q, nu), options)


@of_modes
@of_trees(_COUPLED, _INSTEAD)
def diagonal_coriolis(
    model: Model, q: ArrayLike, nu: ArrayLike, **options: Unpack[CallOptions]
) -> Array:
    """Coriolis term of the diagonalised equations of motion.

    In the coordinates ν = ℓ* v with ℳ = ℓ ℓ*, ℓ = (I + H φ K) D½, the equations of motion are
    ν̇ + μ(q, ν) = ε, with ε = ℓ⁻¹ (tau − gravity forces): every equation has its own unit mass.
    μ = ℓ⁻¹ c − (dℓ*/dt) v, where dℓ/dt comes from the derivatives of P, D, G and ψ along v. It is
    quadratic in ν and does no work: ν* μ = 0.

    **Arguments:** `q` (..., nq), `nu` (..., nv) in J^½. **Returns:** μ (..., nv) in W/J^½.
    **Cost:** O(N). **Source:** MC sec. 6 corrected; theory/sensitivities 9 (E21), 6 (E15).

    >>> from phipsi import diagonal_coriolis
    >>> from phipsi.examples import planar_arm
    >>> nu = [0.3, -0.2]
    >>> mu = diagonal_coriolis(planar_arm(2), [0.0, 0.5], nu)
    >>> bool(abs(mu @ nu) < 1e-12)
    True
    """
    calls, modal = Calls(options), bool(getattr(model, "has_more_rows", False))
    program = program_of(_coriolis(modal), model, "apply", diagonal_coriolis)
    return calls.finish(calls(program, q, calls(program_of(RATES_OF_INNOVATIONS, model), q, nu)))
