"""Loops in a run: accelerations that keep the constraints, and states brought back onto them.

The tree's accelerations vdot_f are corrected to those nearest in the mass metric that satisfy the
constraints (Gauss' principle, closed_chain 3):

    vdot = vdot_f + ℳ⁻¹ G* S⁺ (U − G vdot_f),   G = A J,   S = G ℳ⁻¹ G*,   U = −d/dt(G) v

What the constraints imply is integrated only up to the errors of the method, so the state drifts
off them. By default every step ends with a projection; Baumgarte's terms in U are the other way.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms.assembly import project_position, project_velocity
from phipsi.algorithms.constraint_metric import ConstraintMetric, turned_over
from phipsi.algorithms.system import System
from phipsi.algorithms.system_report import ends, open_loops_at
from phipsi.errors import InputError
from phipsi.simulation.steps import Diverged

Array = NDArray[Any]

METHODS = ("project", "baumgarte", "none")
# What a user's initial state may miss the constraints by; it is then projected.
_START = 1e-6
# Rank is decided at the ends of steps, where the state is on the constraints: below this part of
# the largest, a singular value is zero.
_RANK = 1e-9
# Accelerations that rows ask for and no motion gives, relative to what the rows ask for.
_CONTRADICTION = 1e-6


@final
class Loops:
    """The constraints of a run.

    **Attributes:** `system`; `method`, one of `METHODS`; `tolerance`, largest residual (rad, m) of
    a projected state; `rate`, 1/s, of Baumgarte's terms.
    """

    def __init__(self, system: System, method: str, tolerance: float, rate: float) -> None:
        if method not in METHODS:
            raise InputError(
                f"stabilization={method!r} is none of {', '.join(map(repr, METHODS))}."
            )
        self.system, self.method, self.tolerance, self.rate = system, method, tolerance, rate
        self._rows = system.rows
        self._rank: int | None = None

    # ---- accelerations ------------------------------------------------------------------------

    def correct(self, q: Array, v: Array, free: Array) -> Array:
        """vdot (nv,) from the tree's accelerations; NaN where there are none."""
        if not np.isfinite(free).all():
            return free
        try:
            at = ConstraintMetric(self._rows, q[None], _RANK, self._rank)
        except np.linalg.LinAlgError:
            return np.full_like(free, np.nan)
        return free + at.solve(self._wanted(at, q, v, free))[0]

    def _wanted(self, at: ConstraintMetric, q: Array, v: Array, free: Array) -> Array:
        """U − G vdot_f, with Baumgarte's terms if they are asked for, (1, rows)."""
        G = at.jacobian[0]
        out = -self.system.bias(q, v) - G @ free
        if self.method == "baumgarte":
            a = self.rate
            out = out - 2 * a * (G @ v - self.system.rates) - a * a * at.residual[0]
        return out[None]

    # ---- states -------------------------------------------------------------------------------

    @property
    def projects(self) -> bool:
        """Whether states are brought back onto the constraints."""
        return self.method == "project"

    def project(self, t: float, q: Array, v: Array) -> tuple[Array, Array]:
        """The nearest state on the constraints; raises `Diverged` if there is none."""
        if not (np.isfinite(q).all() and np.isfinite(v).all()):
            return q, v
        found, closed, at = project_position(self._rows, q[None], self.tolerance, _RANK)
        if not closed[0]:
            gaps = "\n".join(open_loops_at(self.system, found[0], self.tolerance))
            raise Diverged(
                f"at t = {t:.9g} s the loops cannot be closed again near the state that the step "
                f"reached:\n{gaps}\nThe mechanism is at the end of what it can reach, or the step "
                f"was too long"
            )
        self._rank = int(at.rank[0])
        return found[0], project_velocity(at, v[None])[0]

    def start(self, q: Array, v: Array) -> tuple[Array, Array]:
        """The initial state on the constraints; refuses one that is not nearly there."""
        system = self.system
        _, found = self._rows.residual(q[None], self._rows.poses(q[None]))
        over = turned_over(found, self._rows)[0]
        gap = np.abs(system.residual(q)).max(initial=0.0)
        if over.any() or gap > _START:
            lines = "\n".join(open_loops_at(system, q, _START))
            raise InputError(
                f"q0 does not close the loops:\n{lines}\nAssemble it first:\n"
                f"    q0 = system.assemble(q0)\n    q0, v0 = system.project(q0, v0)"
            )
        at = ConstraintMetric(self._rows, q[None], _RANK)
        wrong = np.abs(at.jacobian[0] @ v - system.rates)
        speeds = np.abs(at.jacobian[0]) @ np.abs(v) + np.abs(system.rates)
        bad = wrong > _START * np.maximum(speeds, 1e-3)
        if bad.any():
            rows = ", ".join(
                f"{system.row_names[i]!r} by {wrong[i]:.4g}" for i in np.flatnonzero(bad)[:6]
            )
            raise InputError(
                f"v0 would open the loops: it breaks the rates of {rows} (rad/s, m/s). The nearest "
                f"admissible rates are those of\n    q0, v0 = system.project(q0, v0)"
            )
        if self.projects and gap > 0:
            try:
                return self.project(0.0, q, v)
            except Diverged as reason:
                raise InputError(str(reason)) from None
        self._rank = int(at.rank[0])
        return q, v

    def contradiction(self, q: Array, v: Array, free: Array) -> str:
        """Rows whose accelerations no motion has, as a sentence; empty if there are none."""
        at = ConstraintMetric(self._rows, q[None], _RANK, self._rank)
        wanted = self._wanted(at, q, v, free)
        wrong = np.abs(at.contradiction(wanted)[0])
        size = np.abs(wanted[0]) + np.abs(at.jacobian[0]) @ np.abs(free) + at.size[0]
        bad = np.flatnonzero(wrong > _CONTRADICTION * size.max(initial=0.0))
        if not bad.size:
            return ""
        names = ", ".join(repr(self.system.row_names[i]) for i in bad[:8])
        loops = dict.fromkeys(
            f"{c.name!r} between {ends(self.system.model, c)}"
            for c in map(self.system.closure_of, bad.tolist())
        )
        return (
            f"the rows {names} ask for accelerations that no motion has, {wrong[bad].max():.3g} "
            f"(rad/s², m/s²) apart: the constraints contradict each other for these rates, as they "
            f"do where a mechanism can branch and v mixes the branches. Loops: {', '.join(loops)}"
        )

    def near_singular(self, q: Array) -> str:
        """A sentence if the constraints nearly lose rank at q; empty if not."""
        found = self.system.mobility(q, tolerance=_RANK)
        if found.smallest > 1e-4 or not found.rank:
            return ""
        return (
            f"The constraints nearly lose rank there (smallest singular value {found.smallest:.2g} "
            f"of the largest): the mechanism is close to a singular configuration, where it gains "
            f"freedoms and forces in it grow without bound."
        )


def checked_stabilization(method: Any, tolerance: Any, rate: Any) -> tuple[str, float, float]:
    """The arguments of `simulate` about constraints."""
    try:
        tol, a = float(tolerance), float(rate)
    except (TypeError, ValueError):
        tol = a = np.nan
    if not (np.isfinite(tol) and tol > 0):
        raise InputError(
            f"constraint_tolerance={tolerance!r} must be a number of rad and m above 0."
        )
    if not (np.isfinite(a) and a > 0):
        raise InputError(f"baumgarte_rate={rate!r} must be a number of 1/s above 0.")
    return method, tol, a
