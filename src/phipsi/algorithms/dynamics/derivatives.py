"""Derivatives of inverse and forward dynamics by q, v and accelerations or efforts."""

from __future__ import annotations

from functools import cache
from typing import Any

from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms.dynamics.equations_of_motion import (
    FORWARD_DYNAMICS_FD3,
    INVERSE_DYNAMICS,
    MASS_MATRIX_INVERSE,
)
from phipsi.calculus.differentiation import diff
from phipsi.calculus.directional import substitute
from phipsi.compiler import program_of
from phipsi.expressions.node import Expr
from phipsi.model.mechanisms import of_mechanisms, of_trees
from phipsi.model.model import Model
from phipsi.operators import as_matrix
from phipsi.operators import vdot as vdot_leaf

Array = NDArray[Any]


@cache
def inverse_dynamics_operators() -> tuple[Expr, Expr, Expr]:
    """∂τ/∂q, ∂τ/∂v and ∂τ/∂v̇ as operators on joint rates."""
    return tuple(diff(INVERSE_DYNAMICS, name) for name in ("q", "v", "vdot"))  # type: ignore


@cache
def forward_dynamics_operators() -> tuple[Expr, Expr, Expr]:
    """∂v̇/∂q, ∂v̇/∂v and ∂v̇/∂τ, the first two as products of two matrices."""
    inverse = MASS_MATRIX_INVERSE
    accelerations = {vdot_leaf: FORWARD_DYNAMICS_FD3}
    by_q, by_v, _ = (substitute(x, accelerations) for x in inverse_dynamics_operators())
    return -(as_matrix(inverse) @ as_matrix(by_q)), -(as_matrix(inverse) @ as_matrix(by_v)), inverse


@of_trees(
    "which efforts a motion needs depends on which joints are driven",
    "Derivatives of its accelerations:  pp.constrained_dynamics_derivatives(system, q, v, tau)",
)
def inverse_dynamics_derivatives(
    model: Model, q: ArrayLike, v: ArrayLike, vdot: ArrayLike
) -> tuple[Array, Array, Array]:
    """Derivatives of the joint efforts that a motion needs, by q, v and vdot.

    With f = φ (M α + b) and 2 B = −cross(V)* M − M cross(V) − cross_force(M V):

        ∂τ/∂q = H φ (M φ* X + 2 B φ* Y) − H φ̃ cross_force(f) H* + dH{f}
        ∂τ/∂v = H φ (M φ* X' + 2 B φ* H*),     ∂τ/∂v̇ = ℳ,

    X, X', Y memoryless. Column k of the first is the change of tau when only dof k moves, in the
    direction of its rate: for joints with quaternions the derivative is along v, nv columns.

    **Arguments:** `q` (..., nq), `v`, `vdot` (..., nv). **Returns:** three arrays (..., nv, nv):
    by q, by v, by vdot.
    **Cost:** O(N · depth). **Source:** theory/sensitivities 4 (E10–E12); MS lemmas 3.1–4.2.

    >>> from phipsi import inverse_dynamics_derivatives
    >>> from phipsi.examples import planar_arm
    >>> by_q, by_v, by_vdot = inverse_dynamics_derivatives(planar_arm(2), [0, 0.5], [1, 0], [0, 0])
    >>> by_v.round(4) + 0
    array([[ 0.    , -0.4794],
           [ 0.4794,  0.    ]])
    """
    operators = inverse_dynamics_operators()
    return program_of(operators, model, "dense", inverse_dynamics_derivatives)(q, v, vdot)


@of_mechanisms
def forward_dynamics_derivatives(
    model: Model, q: ArrayLike, v: ArrayLike, tau: ArrayLike
) -> tuple[Array, Array, Array]:
    """Derivatives of the joint accelerations that efforts cause, by q, v and tau.

    ∂v̇/∂q = −ℳ⁻¹ ∂τ/∂q, ∂v̇/∂v = −ℳ⁻¹ ∂τ/∂v at the accelerations of forward dynamics, and
    ∂v̇/∂τ = ℳ⁻¹. Derivatives by q are along the joint rates, nv columns. For a `System` see
    `constrained_dynamics_derivatives`.

    **Arguments:** `q` (..., nq), `v`, `tau` (..., nv). **Returns:** three arrays (..., nv, nv):
    by q, by v, by tau. A joint with nothing to move raises `SingularHingeError`.
    **Cost:** O(N · depth), and O(N²) to O(N³) for the products with ℳ⁻¹.
    **Source:** theory/sensitivities 5 (E13).

    >>> from phipsi import forward_dynamics_derivatives
    >>> from phipsi.examples import planar_arm
    >>> by_q, by_v, by_tau = forward_dynamics_derivatives(planar_arm(1), [0.0], [0.0], [0.0])
    >>> by_tau.round(6)
    array([[3.]])
    """
    if getattr(model, "constraints", ()) and model.n_rows:
        from phipsi.algorithms.dynamics import closed_derivatives  # which needs this module

        return closed_derivatives.constrained_dynamics_derivatives(model, q, v, tau)
    return program_of(forward_dynamics_operators(), model, "dense", forward_dynamics_derivatives)(
        q, v, tau
    )
