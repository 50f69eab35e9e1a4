"""Dynamics seen at points: operational space, point forces; and the innovations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Unpack

from numpy.typing import ArrayLike, NDArray

from phipsi.backends.options import CallOptions
from phipsi.compiler import Form, evaluate, program_at
from phipsi.model.mechanisms import of_modes, of_trees
from phipsi.model.model import Model
from phipsi.operators import D_half, H, I, J, K, Lambda, f0, logdet, mass_matrix, phi, psi, tau, v

Array = NDArray[Any]
Points = Sequence[Any]

FORCE_CORRECTION = -(mass_matrix.inv @ J.T @ f0)
OPERATIONAL_SPACE_INERTIA = Lambda.inv
EPSILON = D_half.inv @ (I - H @ psi @ K) @ tau
NU = D_half.T @ (I + H @ phi @ K).T @ v
LOG_DET = logdet(mass_matrix)
_LOG_DET = Form(LOG_DET)


@of_modes
@of_trees(
    "constraint forces resist too, so that the points feel heavier than they would on the tree",
    "Accelerations that forces cause:  pp.forward_dynamics(system, q, v, tau, f_ext)",
)
def operational_space_inertia(
    model: Model,
    q: ArrayLike,
    points: Points,
    *,
    axes: str = "world",
    **options: Unpack[CallOptions],
) -> Array:
    """Inertia felt at points: accelerations of the points → forces at them.

    Λ⁻¹ = (J ℳ⁻¹ J*)⁻¹ = (B* ψ* H* D⁻¹ H ψ B)⁻¹, with the coupling between the points, which may be
    on any bodies of the tree. One 6×6 block per pair of points, [angular; linear], in kg·m², kg·m
    and kg.

    **Arguments:** `q` (..., nq); `points`, `axes` as for `jacobian`.
    **Returns:** (..., 6 nC, 6 nC). If J lacks row rank (the points cannot all accelerate
    independently) it raises `SingularMatrixError`; J ℳ⁻¹ J* itself always exists, as
    ``compile(Lambda, …)``.
    **Cost:** O(N) per column and O(nC³). **Source:** SOA eq. 0.34; MC eq. 19–20.

    >>> from phipsi import operational_space_inertia
    >>> from phipsi.examples import seven_joint_arm
    >>> q = [0.1, 0.5, 0.2, 1.0, 0.3, 0.8, 0.1]
    >>> operational_space_inertia(seven_joint_arm(), q, ["tool"]).shape
    (6, 6)
    """
    return program_at(
        OPERATIONAL_SPACE_INERTIA, model, points, axes, operational_space_inertia, "dense"
    ).evaluate((q,), options)


@of_modes
@of_trees(
    "forces at points also change the constraint forces, and those the accelerations",
    "Give them as forces on the bodies:  pp.forward_dynamics(system, q, v, tau, f_ext)",
)
def tip_force_correction(
    model: Model,
    q: ArrayLike,
    points: Points,
    f0: ArrayLike,
    *,
    axes: str = "world",
    **options: Unpack[CallOptions],
) -> Array:
    """Change of the joint accelerations caused by forces at points alone.

    Δvdot = −ℳ⁻¹ J* f0 = −(I − H ψ K)* D⁻¹ H ψ B f0. Added to the accelerations of the free
    mechanism it gives those with the forces.

    **Arguments:** `q` (..., nq); `points`, `axes` as for `jacobian`; `f0` (..., nC, 6), the forces
    exerted **by** the mechanism at the points, [moment (N·m); force (N)]. **Returns:** (..., nv),
    rad/s² and m/s².
    **Cost:** two sweeps, O(N), and one for the poses unless ``axes="body"``.
    **Source:** MC eq. 17–18 corrected; SOA eq. 0.36.

    >>> from phipsi import tip_force_correction
    >>> from phipsi.examples import planar_arm
    >>> tip_force_correction(planar_arm(1), [0.0], ["tip"], [[0, 0, 0, 0, 1.0, 0]]).round(12)
    array([-3.])
    """
    program = program_at(FORCE_CORRECTION, model, points, axes, tip_force_correction)
    return program.evaluate((q, f0), options)


class Innovations(NamedTuple):
    """Efforts and rates in the coordinates that diagonalise the mass matrix, both normalised.

    `epsilon` (..., nv) and `nu` (..., nv): ν* ν is twice the kinetic energy, ν* ε the power.
    """

    epsilon: Array
    nu: Array


_INNOVATIONS = Form((EPSILON, NU), "apply", Innovations)


@of_modes
@of_trees(
    "its coordinates make the mass matrix of the tree diagonal, and constraints couple them again",
    "Equations of motion with constraints:  pp.forward_dynamics(system, q, v, tau)",
)
def innovations(
    model: Model, q: ArrayLike, v: ArrayLike, tau: ArrayLike, **options: Unpack[CallOptions]
) -> Innovations:
    """Normalised innovations of the efforts and of the rates: the diagonal coordinates.

    With ℓ = (I + H φ K) D½, so that ℳ = ℓ ℓ*: ε = ℓ⁻¹ tau = D½⁻¹ (I − H ψ K) tau and
    ν = ℓ* v = D½* (I + H φ K)* v. The equations of motion are ν̇ + μ = ε with ν* μ = 0. They are not
    the ε and ν = D⁻¹ ε inside forward dynamics. Units: ν in J^½, ε in W/J^½.

    **Arguments:** `q` (..., nq), `v`, `tau` (..., nv).
    **Returns:** `Innovations` (epsilon, nu), each (..., nv).
    **Cost:** two sweeps, O(N). **Source:** MC sec. 6 corrected.

    >>> from phipsi import innovations, kinetic_energy
    >>> from phipsi.examples import planar_arm
    >>> arm, q, v = planar_arm(2), [0.0, 0.5], [1.0, -2.0]
    >>> nu = innovations(arm, q, v, [0.0, 0.0]).nu
    >>> bool(abs(nu @ nu - 2 * kinetic_energy(arm, q, v)) < 1e-12)
    True
    """
    return evaluate(_INNOVATIONS, innovations, model, (q, v, tau), options)


@of_modes
@of_trees(
    "its rates are not independent, so the determinant is not that of the motions it can make",
    "That one, with a basis N of these motions:\n"
    "    N = scipy.linalg.null_space(system.jacobian(q))\n"
    "    np.linalg.slogdet(N.T @ pp.mass_matrix(system, q) @ N)",
)
def log_det_mass_matrix(model: Model, q: ArrayLike, **options: Unpack[CallOptions]) -> Array:
    """Logarithm of the determinant of the mass matrix.

    log det ℳ = Σ log det D(k), because the innovations factor I + H φ K has determinant one.

    **Arguments:** `q` (..., nq). **Returns:** (...), the logarithm of the number in SI units.
    **Cost:** one tip-to-base sweep, O(N). **Source:** theory/open-chains 13.

    >>> from phipsi import log_det_mass_matrix
    >>> from phipsi.examples import planar_arm
    >>> round(float(log_det_mass_matrix(planar_arm(2), [0.0, 0.0])), 4)
    -1.6376
    """
    return evaluate(_LOG_DET, log_det_mass_matrix, model, (q,), options)
