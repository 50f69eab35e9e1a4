"""Derivatives of the accelerations of a system with constraints.

The equations of motion with constraints, differentiated at their solution (vdot, f):

    [ℳ G*; G 0] d[vdot; f] = [−∂ID − (∂G)* f; −∂bias − (∂G) vdot]

∂ID comes from the operator expressions of `derivatives`; the rows of the constraints are analytic
functions of q and v, so that an imaginary step of 1e-30 gives their derivatives to rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms.closed_chain import constrained_dynamics
from phipsi.algorithms.derivatives import inverse_dynamics_derivatives
from phipsi.algorithms.dynamics import mass_matrix_inverse
from phipsi.algorithms.system import System
from phipsi.algorithms.trees import checked_system
from phipsi.backends.arguments import state_arrays
from phipsi.model.closures import ConstrainedModel

Array = NDArray[Any]
_STEP = 1e-30
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
    motion = constrained_dynamics(system, q, v, tau)
    G, inverse = system.jacobian(q), mass_matrix_inverse(tree, q)
    inside = G @ inverse @ np.swapaxes(G, -1, -2)
    admittance = np.linalg.pinv(inside, rcond=_RANK, hermitian=True)

    def solve(forces: Array, rows: Array | None = None) -> Array:
        free = inverse @ forces
        gap = G @ free if rows is None else G @ free - rows
        return free - inverse @ np.swapaxes(G, -1, -2) @ (admittance @ gap)

    id_q, id_v, _ = inverse_dynamics_derivatives(tree, q, v, motion.vdot)
    turned = q[..., None, :] + 1j * _STEP * tree.qdot(q[..., None, :], np.eye(nv))
    sped = v[..., None, :] + 1j * _STEP * np.eye(nv)
    dG = np.moveaxis(np.imag(system.jacobian(turned)), -3, -1) / _STEP  # (..., rows, nv, nv)
    bias_q = np.swapaxes(np.imag(system.bias(turned, v[..., None, :])), -1, -2) / _STEP
    bias_v = np.swapaxes(np.imag(system.bias(q[..., None, :], sped)), -1, -2) / _STEP
    by_q = solve(
        -id_q - np.einsum("...rik,...r->...ik", dG, motion.f),
        -bias_q - np.einsum("...rik,...i->...rk", dG, motion.vdot),
    )
    by_v = solve(-id_v, -bias_v)
    return by_q, by_v, solve(np.broadcast_to(np.eye(nv), inverse.shape))
