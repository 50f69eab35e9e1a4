"""Derivatives of the accelerations of a system with constraints.

The equations of motion with constraints, differentiated at their solution (vdot, f):

    [ℳ G*; G 0] d[vdot; f] = [−∂ID − (∂G)* f; −∂bias − (∂G) vdot]

with G = A J. ∂ID comes from the operator expressions of `derivatives`, the rest from those of G* f
and of the rows' accelerations G vdot − U, whose derivatives are expressions too.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms.closed_chain import constrained_dynamics
from phipsi.algorithms.derivatives import (
    forward_dynamics_derivatives,
    inverse_dynamics_derivatives,
)
from phipsi.algorithms.dynamics import mass_matrix_inverse
from phipsi.algorithms.system import System
from phipsi.algorithms.trees import checked_system
from phipsi.backends.arguments import state_arrays
from phipsi.compiler import program_of
from phipsi.differentiation import diff
from phipsi.expressions.node import Expr
from phipsi.expressions.spaces import ROW_FORCES
from phipsi.model.closures import ConstrainedModel
from phipsi.operators import A, Adot, B, Bdot, J, V, a, phi, vdot, weight

Array = NDArray[Any]
_RANK = 1e-9


def constrained_dynamics_derivatives(
    system: ConstrainedModel, q: ArrayLike, v: ArrayLike, tau: ArrayLike
) -> tuple[Array, Array, Array]:
    """Derivatives of the accelerations of a system with constraints, by q, v and tau.

    They are those of the formula for vdot, along all joint rates: motions that break the loops
    included. Along δq, δv that keep them they are the derivatives of the motion.

    **Arguments:** `q` (..., nq), `v`, `tau` (..., nv). **Returns:** three arrays (..., nv, nv): by
    q, by v, by tau.
    **Cost:** O(nv³ + rows³) per configuration. **Source:** closed_chain 11 (C32).

    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(2)
    >>> gear = pp.constraints.Coupling(name="gear", joints=arm.joint_names, coefficients=[1, -1])
    >>> system = pp.System(arm, [gear])
    >>> _, _, by_tau = pp.constrained_dynamics_derivatives(system, [0, 0], [0, 0], [0, 0])
    >>> by_tau.round(4)
    array([[0.2143, 0.2143],
           [0.2143, 0.2143]])
    """
    checked_system(system, "constrained_dynamics_derivatives")
    assert isinstance(system, System)
    tree, nv = system.model, system.model.nv
    q, v, tau = state_arrays(tree, q=q, v=v, tau=tau)
    batch = np.broadcast_shapes(q.shape[:-1], v.shape[:-1], tau.shape[:-1])
    q, v, tau = (np.broadcast_to(x, (*batch, x.shape[-1])) for x in (q, v, tau))
    if not system.n_rows:
        return forward_dynamics_derivatives(tree, q, v, tau)
    motion = constrained_dynamics(system, q, v, tau)
    G, inverse = system.jacobian(q), mass_matrix_inverse(tree, q)
    inside = G @ inverse @ np.swapaxes(G, -1, -2)
    admittance = np.linalg.pinv(inside, rcond=_RANK, hermitian=True)

    def solve(forces: Array, rows: Array | None = None) -> Array:
        free = inverse @ forces
        gap = G @ free if rows is None else G @ free - rows
        return free - inverse @ np.swapaxes(G, -1, -2) @ (admittance @ gap)

    id_q, id_v, _ = inverse_dynamics_derivatives(tree, q, v, motion.vdot)
    turned = program_of(_loads(), system, "dense")(q, motion.f)
    rows_q, rows_v = program_of(_rows(), system, "dense")(q, v, motion.vdot)
    by_q, by_v = solve(-id_q - turned, -rows_q), solve(-id_v, -rows_v)
    return by_q, by_v, solve(np.broadcast_to(np.eye(nv), inverse.shape))


@cache
def _loads() -> Expr:
    """∂(G* f)/∂q of given multipliers f."""
    return diff(J.T @ A.T @ weight(ROW_FORCES), "q")


@cache
def _rows() -> tuple[Expr, Expr]:
    """∂/∂q and ∂/∂v of the accelerations of the rows, G vdot − U, of given vdot."""
    accelerations = A @ J @ vdot + Adot @ B.T @ V + A @ (B.T @ phi.T @ a + Bdot.T @ V)
    return diff(accelerations, "q"), diff(accelerations, "v")
