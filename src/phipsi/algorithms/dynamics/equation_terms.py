"""Terms of the equations of motion: mass matrix, its inverse, bias and gravity forces."""

from __future__ import annotations

from typing import Any, Unpack

from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms.dynamics.dynamics_expressions import (
    BIAS_FORCES,
    GRAVITY_FORCES,
    MASS_MATRIX_INVERSE,
)
from phipsi.core.backends import CallOptions
from phipsi.core.compiler import NamedForm, evaluate
from phipsi.core.model import UNAFFECTED, Model, Refusal, supports
from phipsi.core.operators import mass_matrix as mass_matrix_operator

Array = NDArray[Any]

_MASS_MATRIX = NamedForm(mass_matrix_operator, "dense")


_MASS_MATRIX_INVERSE = NamedForm(MASS_MATRIX_INVERSE, "dense")


_BIAS_FORCES, _GRAVITY_FORCES = NamedForm(BIAS_FORCES), NamedForm(GRAVITY_FORCES)


@supports(loops=UNAFFECTED, contacts=UNAFFECTED, flexible=True, rotors=True)
def mass_matrix(model: Model, q: ArrayLike, **options: Unpack[CallOptions]) -> Array:
    """Joint-space mass matrix ℳ (joint-space inertia matrix).

    Generalized accelerations → joint torques and forces; symmetric, and positive definite unless a
    joint has no inertia to move. Entries in kg·m², kg·m or kg, by the kind of the joints. For a
    `System` it is the ℳ of ℳ vdot + bias + (A J)* f = tau, of all velocities of its tree: ½ v* ℳ v
    is the kinetic energy.

    Parameters
    ----------
    model : Model
        A tree or a `System`.
    q : array_like, shape (..., nq)
        Configuration.
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    ndarray, shape (..., nv, nv)
        The mass matrix.

    Notes
    -----
    ℳ = H φ M φ* H* + Jr, by composite rigid bodies. **Cost:** O(N²) for the N² entries. **Source:**
    SOA eq. 0.7; MM eq. 22, 28–33.

    Examples
    --------
    >>> from phipsi import mass_matrix
    >>> from phipsi.examples import planar_arm
    >>> mass_matrix(planar_arm(2), [0.0, 0.0]).round(4)
    array([[2.6667, 0.8333],
           [0.8333, 0.3333]])
    """
    return evaluate(_MASS_MATRIX, mass_matrix, model, (q,), options)


@supports(
    loops=Refusal(
        "joint torques also cause constraint forces, so the inverse mass matrix does not map "
        "torques to accelerations",
        "Use forward dynamics, and its derivatives with respect to the torques:\n"
        "    pp.forward_dynamics(system, q, v, tau)\n"
        "    pp.forward_dynamics_derivatives(system, q, v, tau).by_tau",
    ),
    flexible=True,
    rotors=True,
)
def mass_matrix_inverse(model: Model, q: ArrayLike, **options: Unpack[CallOptions]) -> Array:
    """Inverse of the joint-space mass matrix, without forming the mass matrix.

    Joint torques and forces → joint accelerations.

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
    ndarray, shape (..., nv, nv)
        The inverse.

    Raises
    ------
    SingularHingeError
        If a joint has no inertia to move.

    Notes
    -----
    ℳ⁻¹ = (I − H ψ K)* D⁻¹ (I − H ψ K). To solve with ℳ for a few right-hand sides compile
    ``mass_matrix.inv`` itself, O(N) each. **Cost:** O(N²) for the N² entries. **Source:** SOA Lemma
    0.3; MM eq. 46.

    Examples
    --------
    >>> from phipsi import mass_matrix_inverse
    >>> from phipsi.examples import planar_arm
    >>> mass_matrix_inverse(planar_arm(2), [0.0, 0.0]).round(4)
    array([[ 1.7143, -4.2857],
           [-4.2857, 13.7143]])
    """
    return evaluate(_MASS_MATRIX_INVERSE, mass_matrix_inverse, model, (q,), options)


@supports(
    loops=Refusal(
        "its equation of motion is ℳ vdot + bias + (A J)* f = tau, and the bias forces alone are "
        "not the torques that it needs at vdot = 0",
        "Pass the actuated joints:\n    pp.inverse_dynamics(system, q, v, vdot, actuated=[…])",
    ),
    flexible=True,
    rotors=True,
)
def bias_forces(model: Model, q: ArrayLike, v: ArrayLike, **options: Unpack[CallOptions]) -> Array:
    """Joint torques and forces at vdot = 0: Coriolis, centrifugal and gravity terms together.

    tau = ℳ vdot + C. In N·m and N, in the directions of v.

    Parameters
    ----------
    model : Model
        A tree.
    q : array_like, shape (..., nq)
        Configuration.
    v : array_like, shape (..., nv)
        Generalized velocities, rad/s or m/s.
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    ndarray, shape (..., nv)
        The bias forces C.

    Notes
    -----
    C = H φ (M φ* (a + gravity) + b). **Cost:** two sweeps, O(N). **Source:** SOA eq. 0.14; 88-11
    eq. 3.20–3.21.

    Examples
    --------
    >>> from phipsi import bias_forces
    >>> from phipsi.examples import planar_arm
    >>> bias_forces(planar_arm(2), [0.0, 1.5708], [1.0, 1.0]).round(3)
    array([13.215,  0.5  ])
    """
    return evaluate(_BIAS_FORCES, bias_forces, model, (q, v), options)


@supports(
    loops=Refusal(
        "the torques that hold it against gravity depend on which joints are actuated: constraint "
        "forces carry a part of the weight",
        "Pass the actuated joints:\n    pp.inverse_dynamics(system, q, 0 * v, 0 * v, actuated=[…])",
    ),
    flexible=True,
    rotors=True,
)
def gravity_forces(model: Model, q: ArrayLike, **options: Unpack[CallOptions]) -> Array:
    """Joint torques and forces that **hold** the mechanism still against gravity: +∂(energy)/∂q.

    The gradient of `potential_energy`, with the opposite sign to the generalized forces that
    gravity itself exerts. In N·m and N, in the directions of v.

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
    ndarray, shape (..., nv)
        The torques and forces.

    Notes
    -----
    H φ M φ* gravity. **Cost:** two sweeps, O(N). **Source:** 88-11 eq. 3.21.

    Examples
    --------
    >>> from phipsi import gravity_forces
    >>> from phipsi.examples import planar_arm
    >>> gravity_forces(planar_arm(2), [0.0, 0.0])
    array([19.62 ,  4.905])
    """
    return evaluate(_GRAVITY_FORCES, gravity_forces, model, (q,), options)
