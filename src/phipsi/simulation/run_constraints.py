"""Constraints in a run: accelerations that keep them, and states brought back onto them.

The tree's accelerations vdot_f are corrected to those nearest in the mass metric that satisfy the
constraints (Gauss' principle, theory/closed-chains 3):

    vdot = vdot_f + ℳ⁻¹ G* S⁺ (U − G vdot_f),   G = A J,   S = G ℳ⁻¹ G*,   U = −d/dt(G) v

What the constraints imply is integrated only up to the errors of the method, so the state drifts
off them. By default every step ends with a projection; Baumgarte's terms in U are the other way.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms.constrained.assembly import (
    close_loops,
    open_loops_at,
    project_position,
    project_velocity,
)
from phipsi.algorithms.constrained.constraint_metric import ConstraintMetric, turned_over
from phipsi.algorithms.constrained.row_rank import RANK
from phipsi.algorithms.constrained.system import System
from phipsi.algorithms.dynamics.constraint_forces import VELOCITY_CHANGE
from phipsi.algorithms.forms import IMPULSE
from phipsi.backends.failures import is_failure
from phipsi.compiler import compile
from phipsi.errors import InputError
from phipsi.model.closure_text import ends
from phipsi.motion.motion import NEARLY_CLOSED, not_closed
from phipsi.operators import A, J
from phipsi.operators import v as rates
from phipsi.simulation.stepper import Diverged

Array = NDArray[Any]

METHODS = ("project", "baumgarte", "none")
# Nearer to a singular configuration than this, states inside a step are projected too, to _STAGE.
_NEAR, _STAGE, _STEADY = 0.03, 1e-9, 1e-3
# Still nearer, the curvature of the constraints is interpolated between states on both sides, the
# first of them this far away (rad or m, along the fastest rate).
_CLOSE, _REACH, _NEWTON = 0.02, 0.05, 8
# Further away than this from singular configurations, only every so many steps end with a look.
_FAR, _LOOK = 0.2, 4
# With more rates than this, singular values, whose cost is cubic, are computed only in need.
_LARGE = 300
_NODES = np.array([-4.0, -3.0, -2.0, -1.0, 1.0, 2.0, 3.0, 4.0])
_NEAREST = slice(3, 5)
_AT_ZERO = np.array([-1.0, 8.0, -28.0, 56.0, 56.0, -28.0, 8.0, -1.0]) / 70
# Accelerations that rows ask for and no motion gives, relative to what the rows ask for.
_CONTRADICTION = 1e-6


class _Residual(NamedTuple):
    q: Array
    residual: Array


class _Irregular(Exception):
    """Compiled elimination does not do: rows are dependent, or nearly."""


@final
class RunConstraints:
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
        self._is_large = method == "project" and system.model.nv > _LARGE
        self._rank: int | None = None
        self._careful = self._steady = False
        self._has_other_side = True
        self.is_close = False  # to a singular configuration
        self.is_regular = False  # whether rows without pivoting are as good as singular values
        self._unseen = 0  # steps that may go by without a look at the singular values
        self.project_stages = False  # for a solver whose state cannot be projected

    @property
    def compiles(self) -> bool:
        """Whether compiled forward dynamics, which does not look for rank, may be used here."""
        return self.is_regular and self.method != "baumgarte"

    @property
    def drives(self) -> bool:
        """Whether rows prescribe rates, so that they do work."""
        return bool(self.system.rates.any())

    # ---- accelerations ------------------------------------------------------------------------

    def correct(self, q: Array, v: Array, free: Array) -> Array:
        """vdot (nv,) from the tree's accelerations; NaN where there are none."""
        if not np.isfinite(free).all():
            return free
        try:
            at = ConstraintMetric(self._rows, q[None], RANK, self._rank)
        except np.linalg.LinAlgError:
            return np.full_like(free, np.nan)
        if self._careful and self._has_other_side and at.smallest[0] < _CLOSE:
            curve = self._across(q, v)
            if curve is not None:
                G = at.jacobian[0]
                return free + curve - at.solve((G @ free)[None])[0]
        return free + at.solve(self._wanted(at, q, v, free))[0]

    def _across(self, q: Array, v: Array) -> Array | None:
        """G⁺ U (nv,) close to a singular configuration, from states before and behind it.

        It is smooth along the motion, but here a ratio of two numbers near zero. States further
        along the present rates, in both directions, are projected; the value here is that of the
        polynomial through theirs.
        """
        speed = float(np.abs(v).max(initial=0.0))
        if speed == 0.0:
            return np.zeros_like(v)
        reach = _REACH / speed
        for _ in range(3):
            aside = self.system.model.integrate(q, np.outer(reach * _NODES, v))
            points, closed, at = project_position(self._rows, aside, _STAGE, self._rank, _NEWTON)
            if not closed.all():  # a dead point: there is nothing behind it
                self._has_other_side = False
                return None
            nearest = float(at.smallest[_NEAREST].min())
            if nearest > _CLOSE:
                break
            reach *= min(4.0, 2 * _CLOSE / max(nearest, 1e-3))
        else:  # it is like this all along: small numbers, but no position to get across
            self._has_other_side = False
            return None
        rates = project_velocity(at, np.broadcast_to(v, (len(_NODES), len(v))))
        return _AT_ZERO @ at.solve(-self._rows.bias(points, rates))

    def stage(self, q: Array, v: Array) -> tuple[Array, Array]:
        """The state at which accelerations are computed, for a state inside a step.

        Near a singular configuration accelerations are the ratio of two small numbers, which only
        agree on the constraints: what a stage is off them by is divided by the singular value.
        """
        if not (self._careful or (self.project_stages and self.projects)):
            return q, v
        found, closed, at = project_position(self._rows, q[None], _STAGE, self._rank, _NEWTON)
        if not closed[0]:
            return q, v
        return found[0], project_velocity(at, v[None])[0]

    def _wanted(self, at: ConstraintMetric, q: Array, v: Array, free: Array) -> Array:
        """U − G vdot_f, with Baumgarte's terms if they are asked for, (1, rows)."""
        G = at.jacobian[0]
        out = -self._rows.bias(q, v) - G @ free
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
        if self._unseen > 0 or self._is_large:
            self._unseen -= 1
            found = self._project_compiled(q, v)
            if found is not None:
                return found
        rank = self._rank if self._steady else None
        found, closed, at = project_position(self._rows, q[None], self.tolerance, rank)
        if not closed[0]:
            why = not_closed(self.system, found[0], self.tolerance)
            raise Diverged(f"at t = {t:.9g} s {why}")
        self._decide(at)
        return found[0], project_velocity(at, v[None])[0]

    def _project_compiled(self, q: Array, v: Array) -> tuple[Array, Array] | None:
        """The same where rows are regular: v − ℳ⁻¹ J* A* (A Λ A*)⁻¹ (A J v − rates), compiled."""
        zero = np.zeros_like(v)
        try:
            found, closed, at = close_loops(
                q[None],
                lambda q: _Residual(q, self._rows.residual(q, self._rows.poses(q))[0]),
                lambda at, _: self._changed(at.q[0], zero, at.residual[0])[None],
                self.system.model.integrate,
                self.tolerance,
                _NEWTON,
            )
            step = self._changed(at.q[0], v, self.system.rates)
        except _Irregular:
            return None
        return (found[0], v - step) if closed[0] else None

    def _changed(self, q: Array, v: Array, rates: Array) -> Array:
        """ℳ⁻¹ J* A* (A Λ A*)⁻¹ (A J v − rates), compiled."""
        step, p, status = self._change(q, v, rates)
        if is_failure(status) or np.count_nonzero(p) > self.rank:
            raise _Irregular
        return step

    @cached_property
    def _change(self) -> Callable[..., tuple[Array, Array, Any]]:
        program = compile((VELOCITY_CHANGE, IMPULSE), self.system)
        if program.native is not None:
            return program.native.ufunc

        def masked(*inputs: Array) -> tuple[Array, Array, int]:
            (step, p), status = program(*inputs, on_error="mask")
            return step, p, int(status)

        return masked

    @property
    def rank(self) -> int:
        """How many rows are independent, as decided at the last look."""
        return self._rank or 0

    def start(self, q: Array, v: Array) -> tuple[Array, Array]:
        """The initial state on the constraints; refuses one that is not nearly there."""
        system = self.system
        _, found = self._rows.residual(q[None], self._rows.poses(q[None]))
        over = turned_over(found, self._rows)[0]
        gap = np.abs(system.residual(q)).max(initial=0.0)
        if over.any() or gap > NEARLY_CLOSED:
            lines = "\n".join(open_loops_at(system.rows, q, NEARLY_CLOSED))
            raise InputError(
                f"q0 does not close the loops:\n{lines}\nAssemble it first:\n"
                f"    q0 = system.assemble(q0)\n    q0, v0 = system.project(q0, v0)"
            )
        wrong = np.abs(compile(A @ J @ rates, system)(q, v) - system.rates)
        bad = wrong > NEARLY_CLOSED * max(1e-3, float(np.abs(v).max(initial=0.0)))
        if bad.any():
            rows = ", ".join(
                f"{system.row_names[i]!r} by {wrong[i]:.4g}" for i in np.flatnonzero(bad)[:6]
            )
            raise InputError(
                f"v0 would open the loops: it breaks the rates of {rows} (rad/s, m/s). The nearest "
                f"admissible rates are those of\n    q0, v0 = system.project(q0, v0)"
            )
        if self.projects and gap > 0:
            if self._is_large:
                self._count(q)
            try:
                return self.project(0.0, q, v)
            except Diverged as reason:
                raise InputError(str(reason)) from None
        self._look(q)
        return q, v

    def _look(self, q: Array) -> None:
        """Decide about rank at a state on the constraints."""
        if not self._is_large or not self._count(q):
            self._decide(ConstraintMetric(self._rows, q[None], RANK))

    def _count(self, q: Array) -> bool:
        """Rank as compiled elimination counts it, in linear time; False if that fails."""
        some = np.cos(np.arange(1.0, self.system.model.nv + 1))  # rates without a pattern
        _, p, status = self._change(q, some, np.zeros(self.system.n_rows))
        if is_failure(status):
            return False
        self._rank, self._unseen = int(np.count_nonzero(p)), _LOOK
        self.is_regular, self.is_close, self._careful = True, False, False
        return True

    def _decide(self, at: ConstraintMetric) -> None:
        """Rank, and whether a singular configuration is near, for the steps from here on."""
        self._rank, smallest = int(at.rank[0]), float(at.smallest[0])
        self._has_other_side = True
        self.is_close = smallest < _STEADY
        self._steady = not self.is_close  # the next step can hardly change the rank
        self._careful = self.projects and 0 < self._rank and smallest < _NEAR
        self.is_regular = smallest > _NEAR
        # far from singular configurations, a look now and then is enough
        self._unseen = _LOOK if smallest > _FAR else 0

    def contradiction(self, q: Array, v: Array, free: Array) -> str:
        """Rows whose accelerations no motion has, as a sentence; empty if there are none."""
        if self._is_large:
            return ""
        at = ConstraintMetric(self._rows, q[None], RANK, self._rank)
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
        if self._is_large:
            return ""
        found = self.system.mobility(q, tolerance=RANK)
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
