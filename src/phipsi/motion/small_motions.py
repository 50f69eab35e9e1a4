"""Small motions of a system with loops: which joints are free, and how the others follow.

Rows that are rates of a residual g(q) tie positions: G_h δq = 0 for a change δq. All rows,
G(q) v = rates, tie rates: G δv = −(∂G δq) v. Rolling wheels and soft fingers bind rates only, so
that a mechanism has more free positions than rates, and reaches them by rolling to and fro. With
ξ the changes of chosen positions and η those of chosen rates,

    δq = Z_q ξ,   δv = Z_v η + P ξ,   G_h Z_q = 0,   G Z_v = 0,   G P ξ = −(∂G Z_q ξ) v

and the accelerations follow from the equations of motion with constraints, differentiated at their
solution (vdot, f):

    [ℳ G*; G 0] d[vdot; f] = [−∂ID − (∂G)* f; −∂bias − (∂G) vdot]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms.constrained.constraint_metric import ConstraintMetric
from phipsi.algorithms.constrained.system import System
from phipsi.algorithms.dynamics.derivatives import ConstrainedSolver
from phipsi.algorithms.dynamics.driven import driving_efforts
from phipsi.errors import InputError, did_you_mean
from phipsi.motion.entry_names import entry_names

Array = NDArray[Any]
_DETERMINED = 1e-8  # in natural size: below it, the chosen joints do not determine the others


@dataclass(frozen=True, eq=False)
class Basis:
    """How all joints move with the chosen ones: δq = Z_q ξ, δv = Z_v η + P ξ.

    ξ are the changes of the positions `chosen_q`, η those of the rates `chosen_v`.
    """

    chosen_q: Array
    chosen_v: Array
    Z_q: Array
    Z_v: Array
    P: Array

    @staticmethod
    def free(nv: int) -> Basis:
        """Of a tree: every joint is chosen."""
        every, eye = np.arange(nv), np.eye(nv)
        return Basis(every, every, eye, eye, np.zeros((nv, nv)))


class SmallMotions:
    """Small motions of a system about a state that satisfies its constraints."""

    def __init__(self, system: System, q: Array, v: Array) -> None:
        self.system, self.q, self.v = system, q, v
        rows = system.rows
        self._rates = ConstraintMetric(rows, q[None])
        self._positions = self._rates
        if not rows.has_position.all():
            self._positions = ConstraintMetric(rows, q[None], rows_used=rows.has_position)

    def basis(self, independent: Sequence[str] | None) -> Basis:
        """The motion in the joints that are named, or in those that are best suited."""
        chosen_q, chosen_v = self._chosen(independent)
        Z_q, Z_v = self._positions.motions(chosen_q), self._rates.motions(chosen_v)
        P = np.zeros_like(Z_q)
        if self.v.any() and len(chosen_q):
            solver = ConstrainedSolver(self.system, self.q[None])
            P = -solver.least(solver.rates_by_q(self.v[None]))[0] @ Z_q
            P = P - Z_v @ P[chosen_v]
        return Basis(chosen_q, chosen_v, Z_q, Z_v, P)

    def efforts(self, needed: Array, driven: Array) -> Array:
        """Efforts (k,) of the driven rates that do most of what efforts (nv,) would do."""
        at = self._rates
        return driving_efforts(at, (needed @ at.back[0])[None], driven, np.ones(len(driven)))[0][0]

    def _chosen(self, independent: Sequence[str] | None) -> tuple[Array, Array]:
        """Positions and rates that determine the others: those named, or the best ones.

        As many names as free rates leave it open which further positions are independent; the best
        ones are added. Of as many names as free positions the best suited rates are taken.
        """
        best_v = self._rates.independent_rates()
        if independent is None:
            return self._positions.independent_rates(tuple(best_v)), best_v
        tree = self.system.model
        names = [independent] if isinstance(independent, str) else list(independent)
        for name in names:
            if name not in tree.joint_names:
                hint = did_you_mean(name, tree.joint_names)
                raise InputError(f"there is no joint {name!r}. {hint}")
        places = [np.arange(tree.nv)[tree.v_slice(name)] for name in names]
        named = np.concatenate([np.zeros(0, dtype=int), *places])
        n_q, n_v = tree.nv - int(self._positions.rank[0]), len(best_v)
        if len(named) == n_v and _determine(self._rates, named):
            more = self._positions.independent_rates(tuple(named))
            return np.array([*named, *(i for i in more if i not in named)], dtype=int), named
        if len(named) == n_q and _determine(self._positions, named):
            rates = self._rates.independent_rates(among=named)
            if _determine(self._rates, rates):
                return named, rates
        dofs = entry_names(tree, tree.v_slices)
        count = f"{n_v}" if n_q == n_v else f"{n_v} (or, with those of positions only, {n_q})"
        raise InputError(
            f"independent={names!r} has {len(named)} degrees of freedom and does not determine "
            f"the {count} of the system here. These do: {[dofs[i] for i in best_v]}"
        )


def _determine(at: ConstraintMetric, chosen: Array) -> bool:
    """Whether the chosen rates determine the others."""
    if not len(chosen):
        return True
    return float(np.linalg.svd(at.coordinates()[chosen], compute_uv=False)[-1]) > _DETERMINED
