"""Small motions of a system with loops: which joints are free, and how the others follow.

G(q) v = rates binds the joints. Of a change δq = Z ξ, δv = Z η + P ξ the chosen joints are ξ and η
themselves, G Z = 0 and G P ξ = −(∂G Z ξ) v; the accelerations follow from the equations of motion
with constraints, differentiated at their solution (vdot, f):

    [ℳ G*; G 0] d[vdot; f] = [−∂ID − (∂G)* f; −∂bias − (∂G) vdot]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms.closed_chain import constrained_dynamics
from phipsi.algorithms.closed_derivatives import constrained_dynamics_derivatives
from phipsi.algorithms.system import System
from phipsi.errors import InputError, did_you_mean
from phipsi.simulation.storage import entry_names

Array = NDArray[Any]
_STEP = 1e-30
_OPEN = 1e-6  # residual (rad, m) above which the loops count as open
_RANK = 1e-9


@dataclass(frozen=True, eq=False)
class Motion:
    """How all joints move with the chosen ones: δq = Z ξ, δv = Z η + P ξ."""

    chosen: Array
    Z: Array
    P: Array
    system: System | None = None
    q: Array = field(default_factory=lambda: np.zeros(0))
    v: Array = field(default_factory=lambda: np.zeros(0))
    G: Array = field(default_factory=lambda: np.zeros((0, 0)))

    @staticmethod
    def free(nv: int) -> Motion:
        """Of a tree: every joint is chosen."""
        return Motion(np.arange(nv), np.eye(nv), np.zeros((nv, nv)))

    def accelerations(self, tau: Array) -> tuple[Array, Array, Array, Array]:
        """Accelerations (nv,) of the whole, and their derivatives by q, v and tau."""
        system, q, v = self.system, self.q, self.v
        assert system is not None
        vdot = constrained_dynamics(system, q, v, tau).vdot
        return vdot, *constrained_dynamics_derivatives(system, q, v, tau)


def constrained_motion(
    system: System, q: Array, v: Array, independent: Sequence[str] | None
) -> Motion:
    """The motion of a system at a state that satisfies its constraints."""
    _check_closed(system, q, v)
    nv = system.model.nv
    G = system.jacobian(q)
    _, sizes, Vt = np.linalg.svd(G)
    rank = int((sizes > _RANK * sizes.max(initial=0.0)).sum())
    null = Vt[rank:].T
    chosen = _chosen(system, null, independent)
    Z = null @ np.linalg.inv(null[chosen]) if len(chosen) else np.zeros((nv, 0))
    P = np.zeros_like(Z)
    if v.any() and len(chosen):
        rates = system.model.qdot(q, Z.T)
        turned = np.imag(system.jacobian(q + 1j * _STEP * rates)) / _STEP @ v  # (chosen, rows)
        rest = np.setdiff1d(np.arange(nv), chosen)
        P[rest] = np.linalg.lstsq(G[:, rest], -turned.T, rcond=None)[0]
    return Motion(chosen, Z, P, system, q, v, G)


def _chosen(system: System, null: Array, independent: Sequence[str] | None) -> Array:
    """Rates that determine the others: those named, or the best conditioned ones."""
    count = null.shape[1]
    if independent is None:
        from scipy.linalg import qr

        if not count:
            return np.zeros(0, dtype=int)
        factors: Any = qr(null.T, pivoting=True, mode="r")
        return np.sort(factors[1][:count])
    tree = system.model
    names = [independent] if isinstance(independent, str) else list(independent)
    for name in names:
        if name not in tree.joint_names:
            raise InputError(f"there is no joint {name!r}. {did_you_mean(name, tree.joint_names)}")
    places = [np.arange(tree.nv)[tree.v_slice(name)] for name in names]
    chosen = np.concatenate([np.zeros(0, dtype=int), *places])
    good = len(chosen) == count and (not count or np.linalg.cond(null[chosen]) < 1e8)
    if not good:
        best = _chosen(system, null, None)
        dofs = entry_names(tree, tree.v_slices)
        raise InputError(
            f"independent={names!r} has {len(chosen)} degrees of freedom and does not determine "
            f"the {count} of the system here. These do: {[dofs[i] for i in best]}"
        )
    return chosen


def _check_closed(system: System, q: Array, v: Array) -> None:
    gap = np.abs(system.residual(q))
    if gap.size and gap.max() > _OPEN:
        row = system.row_names[int(gap.argmax())]
        raise InputError(
            f"the loops are open at q: row {row} misses by {gap.max():.3g} (rad or m). Close them "
            "first:  q = system.assemble(q)"
        )
    slip = np.abs(system.jacobian(q) @ v - system.rates)
    if slip.size and slip.max() > _OPEN:
        row = system.row_names[int(slip.argmax())]
        raise InputError(
            f"the rates break the constraints: row {row} moves by {slip.max():.3g} too much. "
            "Project them first:  q, v = system.project(q, v)"
        )
