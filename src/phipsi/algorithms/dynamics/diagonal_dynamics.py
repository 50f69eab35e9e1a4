"""Equations of motion in the coordinates that make the mass matrix the identity.

ℳ = ℓ ℓ* with ℓ = (I + H φ K) D½. The rates become ν = ℓ* v, efforts tau become ε = ℓ⁻¹ tau, and the
equations of motion ν̇ + μ(q, ν) = ε for the efforts without gravity: ε = ℓ⁻¹ (tau − gravity
forces). `innovations` gives ε and ν, `rates` v again, `coriolis` μ, and `log_det_mass_matrix` twice
the logarithm of det ℓ.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple, Unpack

from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms.dynamics.dynamics_expressions import BIAS_FORCES, GRAVITY_FORCES
from phipsi.core.backends import CallOptions, Calls
from phipsi.core.calculus import diff
from phipsi.core.compiler import NamedForm, evaluate, program_of
from phipsi.core.expressions import EFFORTS, ONE, Expr, zero
from phipsi.core.model import Model, Refusal, supports
from phipsi.core.operators import (
    C_e,
    D_half,
    H,
    I,
    K,
    K_e,
    eta,
    logdet,
    mass_matrix,
    phi,
    psi,
    tau,
    v,
)
from phipsi.package_state import only_public
from phipsi.support import fields_in_line

__all__ = [
    "Innovations",
    "coriolis",
    "innovations",
    "log_det_mass_matrix",
    "rates",
]
__dir__ = only_public(__name__)

Array = NDArray[Any]

_COLOUR = I + H @ phi @ K
_WHITEN = I - H @ psi @ K
RATES_OF_INNOVATIONS = _WHITEN.T @ D_half.T.inv
EPSILON, NU = D_half.inv @ _WHITEN @ tau, D_half.T @ _COLOUR.T @ v
LOG_DET = logdet(mass_matrix)
_RATES, _LOG_DET = NamedForm(RATES_OF_INNOVATIONS), NamedForm(LOG_DET)


@cache
def _coriolis(modal: bool) -> Expr:
    """μ = ℓ⁻¹ c − (dℓ*/dt) v with ℓ = (I + H φ K) D½."""
    change = diff(D_half.T @ _COLOUR.T, "q", v, modes=modal)
    elastic = K_e @ eta + C_e @ v if modal else zero(ONE, EFFORTS)
    return D_half.inv @ _WHITEN @ (BIAS_FORCES - GRAVITY_FORCES - elastic) - change @ v


_COUPLED = (
    "its coordinates make the mass matrix of the tree diagonal, and constraints couple them again"
)
_INSTEAD = "Use the equations of motion with constraints:  pp.forward_dynamics(system, q, v, tau)"


class Innovations(NamedTuple):
    """Joint forces and velocities in the coordinates that diagonalise the mass matrix, normalised.

    ν* ν is twice the kinetic energy, ν* ε the power.

    Parameters
    ----------
    epsilon : ndarray, shape (..., nv)
        Normalised joint torques and forces ε, in W/J^½.
    nu : ndarray, shape (..., nv)
        Normalised velocities ν, in J^½.
    """

    epsilon: Array
    nu: Array

    def __repr__(self) -> str:
        return fields_in_line(self)


_INNOVATIONS = NamedForm((EPSILON, NU), "apply", Innovations)


@supports(loops=Refusal(_COUPLED, _INSTEAD), flexible=True, rotors=True)
def innovations(
    model: Model, q: ArrayLike, v: ArrayLike, tau: ArrayLike, **options: Unpack[CallOptions]
) -> Innovations:
    """Normalised innovations of joint forces and velocities: the diagonal coordinates.

    The equations of motion in these coordinates are ν̇ + μ = ε with ν* μ = 0, where ε belongs to
    ``tau - gravity_forces(model, q)`` (and, with modes, without their elastic and damping forces):
    μ is quadratic in ν and has no gravity in it. They are not the ε and ν = D⁻¹ ε inside forward
    dynamics. Units: ν in J^½, ε in W/J^½.

    Parameters
    ----------
    model : Model
        A tree.
    q : array_like, shape (..., nq)
        Configuration.
    v : array_like, shape (..., nv)
        Generalized velocities, rad/s or m/s.
    tau : array_like, shape (..., nv)
        Joint torques and forces, N·m or N, in the directions of v.
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    Innovations
        `Innovations` (epsilon, nu), each (..., nv).

    Notes
    -----
    With ℓ = (I + H φ K) D½, so that ℳ = ℓ ℓ*: ε = ℓ⁻¹ tau = D½⁻¹ (I − H ψ K) tau and ν = ℓ* v = D½*
    (I + H φ K)* v. **Cost:** two sweeps, O(N). **Source:** MC sec. 6 corrected.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm, q, v = pp.examples.planar_arm(2), [0.0, 0.5], [1.0, -2.0]
    >>> nu = pp.diagonal_dynamics.innovations(arm, q, v, [0.0, 0.0]).nu
    >>> bool(abs(nu @ nu - 2 * pp.kinetic_energy(arm, q, v)) < 1e-12)
    True
    >>> rest = pp.diagonal_dynamics.innovations(arm, q, v, -pp.gravity_forces(arm, q))
    >>> nudot = rest.epsilon - pp.diagonal_dynamics.coriolis(arm, q, nu)  # at tau = 0
    >>> nudot.shape
    (2,)
    """
    return evaluate(_INNOVATIONS, innovations, model, (q, v, tau), options)


@supports(loops=Refusal(_COUPLED, _INSTEAD), flexible=True, rotors=True)
def rates(model: Model, q: ArrayLike, nu: ArrayLike, **options: Unpack[CallOptions]) -> Array:
    """Generalized velocities from normalised ones, the inverse of `innovations`.

    Parameters
    ----------
    model : Model
        A tree.
    q : array_like, shape (..., nq)
        Configuration.
    nu : array_like, shape (..., nv)
        Normalised velocities ν = ℓ* v, in J^½.
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    ndarray, shape (..., nv)
        Generalized velocities v.

    Notes
    -----
    v = ℓ⁻* ν = (I − H ψ K)* D½⁻* ν. **Cost:** two sweeps, O(N). **Source:** MC sec. 6 corrected.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm, q = pp.examples.planar_arm(2), [0.0, 0.5]
    >>> nu = pp.diagonal_dynamics.innovations(arm, q, [1.0, -2.0], [0.0, 0.0]).nu
    >>> pp.diagonal_dynamics.rates(arm, q, nu).round(9)
    array([ 1., -2.])
    """
    return evaluate(_RATES, rates, model, (q, nu), options)


@supports(loops=Refusal(_COUPLED, _INSTEAD), flexible=True, rotors=True)
def coriolis(model: Model, q: ArrayLike, nu: ArrayLike, **options: Unpack[CallOptions]) -> Array:
    """Coriolis term μ of the diagonalised equations of motion, ν̇ + μ(q, ν) = ε.

    In the coordinates ν = ℓ* v with ℳ = ℓ ℓ*, ℓ = (I + H φ K) D½ and ε = ℓ⁻¹ (tau − gravity
    forces), every equation has its own unit mass. μ is quadratic in ν and does no work: ν* μ = 0.

    Parameters
    ----------
    model : Model
        A tree.
    q : array_like, shape (..., nq)
        Configuration.
    nu : array_like, shape (..., nv)
        Normalised velocities ν = ℓ* v, in J^½.
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    ndarray, shape (..., nv)
        The Coriolis term μ, in W/J^½.

    Notes
    -----
    μ = ℓ⁻¹ c − (dℓ*/dt) v, where dℓ/dt comes from the derivatives of P, D, G and ψ along v.
    **Cost:** O(N). **Source:** MC sec. 6 corrected; theory/sensitivities 9 (E21), 6 (E15).

    Examples
    --------
    >>> import phipsi as pp
    >>> nu = [0.3, -0.2]
    >>> mu = pp.diagonal_dynamics.coriolis(pp.examples.planar_arm(2), [0.0, 0.5], nu)
    >>> bool(abs(mu @ nu) < 1e-12)
    True
    """
    calls, modal = Calls(options), bool(getattr(model, "has_more_rows", False))
    program = program_of(_coriolis(modal), model, "apply", coriolis)
    return calls.finish(calls(program, q, calls(program_of(RATES_OF_INNOVATIONS, model), q, nu)))


@supports(
    loops=Refusal(
        "its velocities are not independent, so the determinant is not that of its admissible "
        "motions",
        "With a basis N of the admissible motions:\n"
        "    N = scipy.linalg.null_space(system.jacobian(q))\n"
        "    np.linalg.slogdet(N.T @ pp.mass_matrix(system, q) @ N)",
    ),
    flexible=True,
    rotors=True,
)
def log_det_mass_matrix(model: Model, q: ArrayLike, **options: Unpack[CallOptions]) -> Array:
    """Logarithm of the determinant of the mass matrix.

    Parameters
    ----------
    model : Model
        A tree.
    q : array_like, shape (..., nq)
        Configuration.
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    ndarray, shape (...)
        The logarithm of the determinant in SI units.

    Notes
    -----
    log det ℳ = Σ log det D(k), because the innovations factor I + H φ K has determinant one.
    **Cost:** one tip-to-base sweep, O(N). **Source:** theory/open-chains 13.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(2)
    >>> round(float(pp.diagonal_dynamics.log_det_mass_matrix(arm, [0.0, 0.0])), 4)
    -1.6376
    """
    return evaluate(_LOG_DET, log_det_mass_matrix, model, (q,), options)
