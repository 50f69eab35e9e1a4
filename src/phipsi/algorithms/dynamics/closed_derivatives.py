"""Derivatives of the accelerations of a system with constraints.

The equations of motion with constraints, differentiated at their solution (vdot, f):

    [ℳ G*; G 0] d[vdot; f] = [−∂ID − (∂G)* f; −∂bias − (∂G) vdot]

with G = A J. ∂ID comes from the operator expressions of `derivatives`, the rest from those of G* f
and of the rows' accelerations G vdot − U, whose derivatives are expressions too.
"""

from __future__ import annotations

from functools import cache
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms.constrained.constraint_metric import ConstraintMetric
from phipsi.algorithms.constrained.constraint_rows import rows_of
from phipsi.algorithms.dynamics.constraint_forces import constrained_dynamics
from phipsi.algorithms.dynamics.derivatives import (
    forward_dynamics_derivatives,
    inverse_dynamics_derivatives,
)
from phipsi.backends.arguments import state_arrays
from phipsi.calculus.differentiation import diff
from phipsi.compiler import program_of
from phipsi.expressions.node import Expr
from phipsi.expressions.spaces import ROW_FORCES
from phipsi.model.mechanisms import of_mechanisms, tree_of
from phipsi.model.model import Model
from phipsi.operators import A, Adot, B, Bdot, J, V, a, mass_matrix, operand, phi, vdot

Array = NDArray[Any]


@of_mechanisms
def constrained_dynamics_derivatives(
    system: Model, q: ArrayLike, v: ArrayLike, tau: ArrayLike
) -> tuple[Array, Array, Array]:
    """Derivatives of the accelerations of a system with constraints, by q, v and tau.

    They are those of the formula for vdot, along all joint rates: motions that break the loops
    included. Along δq, δv that keep them they are the derivatives of the motion.

    **Arguments:** `q` (..., nq), `v`, `tau` (..., nv). **Returns:** three arrays (..., nv, nv): by
    q, by v, by tau.
    **Cost:** O(nv³ + rows³) per configuration. **Source:** theory/closed-chains 11 (C32).

    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(2)
    >>> gear = pp.constraints.Coupling(name="gear", joints=arm.joint_names, coefficients=[1, -1])
    >>> system = pp.System(arm, [gear])
    >>> _, _, by_tau = pp.constrained_dynamics_derivatives(system, [0, 0], [0, 0], [0, 0])
    >>> by_tau.round(4)
    array([[0.2143, 0.2143],
           [0.2143, 0.2143]])
    """
    tree_of(system, constrained_dynamics_derivatives)
    tree = system.model
    q, v, tau = state_arrays(tree, q=q, v=v, tau=tau)
    batch = np.broadcast_shapes(q.shape[:-1], v.shape[:-1], tau.shape[:-1])
    q, v, tau = (np.broadcast_to(x, (*batch, x.shape[-1])) for x in (q, v, tau))
    if not system.n_rows:
        return forward_dynamics_derivatives(tree, q, v, tau)
    motion = constrained_dynamics(system, q, v, tau)
    solver = ConstrainedSolver(system, q)
    id_q, id_v, _ = inverse_dynamics_derivatives(tree, q, v, motion.vdot)
    turned = program_of(_loads(), system, "dense")(q, motion.f)
    rows_q, rows_v = program_of(_rows(), system, "dense")(q, v, motion.vdot)
    by_q, by_v = solver.solve(-id_q - turned, -rows_q), solver.solve(-id_v, -rows_v)
    return by_q, by_v, solver.by_efforts


@final
class ConstrainedSolver:
    """ℳ x + G* λ = forces, G x = rows at configurations (..., nq), for many right-hand sides.

    Which rows are independent is decided by `row_rank`, with its limit or another one.

    **Attributes:** `jacobian`, G (..., rows, nv); `by_efforts` (..., nv, nv), x by the forces.
    """

    def __init__(self, system: Model, q: Array, limit: float | None = None) -> None:
        self.system, self.q = system, q
        self._at = at = ConstraintMetric(rows_of(system), q.reshape(-1, q.shape[-1]), limit)
        self.jacobian, self.by_efforts = self._shaped(at.jacobian), self._shaped(at.by_efforts)
        self._reach = self._shaped(at.reach)

    def _shaped(self, x: Array) -> Array:
        return x.reshape(*self.q.shape[:-1], *x.shape[1:])

    def solve(self, forces: Array, rows: Array) -> Array:
        """x (..., nv, k) for forces (..., nv, k) and rows (..., rows, k)."""
        return self.by_efforts @ forces + self._reach @ rows

    def least(self, rows: Array) -> Array:
        """x (..., nv, k) of least kinetic energy with G x = rows (..., rows, k)."""
        return self._reach @ rows

    def least_by_q(self, x: Array, rows: Array) -> Array:
        """Derivatives (..., nv, nv) by q of x = ℳ⁻¹ G* S⁺ rows (..., nv), the rows held.

        ℳ x = G* μ and G x = rows, differentiated.
        """
        mu = (self._shaped(self._at.admittance) @ rows[..., None])[..., 0]
        inertia = program_of(_momenta(), self.system.model, "dense")(self.q, x)
        turned = program_of(_loads(), self.system, "dense")(self.q, mu)
        return self.solve(turned - inertia, -self.rates_by_q(x))

    def rates_by_q(self, x: Array) -> Array:
        """Derivatives (..., rows, nv) by q of G x, x (..., nv) held."""
        return program_of(_row_rates(), self.system, "dense")(self.q, x)


@cache
def _momenta() -> Expr:
    """∂(ℳ x)/∂q of given x."""
    return diff(mass_matrix @ vdot, "q")


@cache
def _row_rates() -> Expr:
    """∂(G x)/∂q of given x."""
    return diff(A @ J @ vdot, "q")


@cache
def _loads() -> Expr:
    """∂(G* f)/∂q of given multipliers f."""
    return diff(J.T @ A.T @ operand(ROW_FORCES), "q")


@cache
def _rows() -> tuple[Expr, Expr]:
    """∂/∂q and ∂/∂v of the accelerations of the rows, G vdot − U, of given vdot."""
    accelerations = A @ J @ vdot + Adot @ B.T @ V + A @ (B.T @ phi.T @ a + Bdot.T @ V)
    return diff(accelerations, "q"), diff(accelerations, "v")
