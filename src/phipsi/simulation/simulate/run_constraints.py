"""Constraints in a run: accelerations that keep them, and states brought back onto them.

The tree's accelerations vdot_f are corrected to those nearest in the mass metric that satisfy the
constraints (Gauss' principle, theory/closed-chains 3):

    vdot = vdot_f + ℳ⁻¹ G* S⁺ (U − G vdot_f),   G = A J,   S = G ℳ⁻¹ G*,   U = −d/dt(G) v

Joints whose motion is prescribed are held in both: G, ℳ and vdot are then those of the others, and
U also loses what the prescribed accelerations do to the rows.

What the constraints imply is integrated only up to the errors of the method, so the state drifts
off them. By default every step ends with a projection; Baumgarte's terms in U are the other way.

Reasons: docs/decisions/0020.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms import (
    HELD_CHANGE,
    HELD_IMPULSE,
    IMPULSE,
    VELOCITY_CHANGE,
    ConstraintMetric,
    System,
    newton_onto_rows,
    project_position,
    project_velocity,
)
from phipsi.core.arrays import call, law_operations as ops
from phipsi.core.backends import is_failure
from phipsi.core.compiler import compile
from phipsi.core.model import all_finite, ends
from phipsi.errors import InputError, one_of
from phipsi.simulation import kinematic_loops
from phipsi.simulation.integrators.motion import TOLERANCE, Motion, not_closed
from phipsi.simulation.runs.checks import checked_number
from phipsi.simulation.simulate.stepper import Diverged

if TYPE_CHECKING:
    from phipsi.simulation.runs.run_program import RunProgram

Array = NDArray[Any]

METHODS = ("project", "baumgarte", "none")
# Nearer to a singular configuration than this, states inside a step are projected too, to _STAGE.
_NEAR, _STAGE, _STEADY = 0.03, 1e-9, 1e-3
# Still nearer, the curvature of the constraints is interpolated between states on both sides, the
# first of them this far away (rad or m, along the fastest rate).
_CLOSE, _REACH, _NEWTON = 0.02, 0.05, 8
# Further away than this from singular configurations, only every so many steps decide about rank.
_FAR, _LOOK = 0.2, 4
# With more rates than this, singular values, whose cost is cubic, are computed only when needed.
_LARGE = 300
_NODES = np.array([-4.0, -3.0, -2.0, -1.0, 1.0, 2.0, 3.0, 4.0])
_NEAREST = slice(3, 5)
_AT_ZERO = np.array([-1.0, 8.0, -28.0, 56.0, 56.0, -28.0, 8.0, -1.0]) / 70
# Accelerations that rows ask for and no motion gives, relative to what the rows ask for.
_CONTRADICTION = 1e-6
_HELD = "; prescribed joints follow their own paths, and the others must close the loops with them"


class _Residual(NamedTuple):
    q: Array
    residual: Array


class _Irregular(Exception):
    """Compiled elimination does not suffice: rows are dependent, or nearly."""


@final
class RunConstraints:
    """The constraints of a run.

    **Attributes:** `motion`; `system`; `method`, one of `METHODS`; `tolerance`, largest residual
    (rad, m) of a projected state; `rate`, 1/s, of Baumgarte's terms.
    """

    def __init__(self, motion: Motion, method: str, tolerance: float, rate: float) -> None:
        assert motion.system is not None
        self.motion, self.system = motion, motion.system
        self.method, self.tolerance, self.rate = method, tolerance, rate
        self._rows = self.system.rows
        self._all_move = motion.moving is None
        self._free = () if motion.free is None else (motion.free,)
        self._is_large = method == "project" and motion.tree.nv > _LARGE and self._all_move
        self._rank: int | None = None
        self._careful = self._steady = False
        self._has_other_side = True
        self.is_close = False  # to a singular configuration
        self.is_regular = False  # whether rows without pivoting are as good as singular values
        self.is_far = False  # from singular configurations
        self._unseen = 0  # steps that may pass without computing the singular values
        self.project_stages = False  # for a solver whose state cannot be projected

    @property
    def compiles(self) -> bool:
        """Whether compiled forward dynamics, which does not decide rank, may be used here."""
        return self.is_regular and self.may_compile

    @property
    def may_compile(self) -> bool:
        """Whether it may be used anywhere."""
        return self.method != "baumgarte" and not (self.project_stages and self.projects)

    @property
    def drives(self) -> bool:
        """Whether rows prescribe rates, so that they do work."""
        return bool(self.system.rates.any())

    def metric(self, q: Array) -> ConstraintMetric:
        """The rows at a configuration (nq,), in the mass metric."""
        return self.motion.metric(q[None], self._rank)

    # ---- accelerations ------------------------------------------------------------------------

    def correct(self, q: Array, v: Array, free: Array) -> Array:
        """vdot (nv,) from the tree's accelerations; NaN where there are none."""
        if not all_finite(free):
            return free
        try:
            at = self.metric(q)
        except np.linalg.LinAlgError:
            return np.full_like(free, np.nan)
        if self._careful and self._has_other_side and at.smallest[0] < _CLOSE:
            held = self._held(free)
            curve = self._across(q, v, held)
            if curve is not None:
                along = at.whole[0] @ (free - held)
                return free + curve - at.spread(at.solve(along[None]))[0]
        return free + at.spread(at.solve(self._wanted(at, q, v, free)))[0]

    def _held(self, vdot: Array) -> Array:
        """The accelerations (nv,) of prescribed joints, zero at the others."""
        out = np.array(vdot)
        out[self.motion.moving if self.motion.moving is not None else slice(None)] = 0.0
        return out

    def drive(self, q: Array, needed: Array, effort: Array) -> Array:
        """Efforts (nv,) of a motion with prescribed joints.

        `needed` are those of the tree, to which constraint forces add G* f, the least ones with
        which the other joints need no more than `effort`.
        """
        at = self.metric(q)
        f = at.multipliers_of((effort - needed)[None, self.motion.moving])[0]
        return needed + f @ at.whole[0]

    def _across(self, q: Array, v: Array, held: Array) -> Array | None:
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
            points, closed, at = self._nearest(aside, _STAGE, self._rank, _NEWTON)
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
        return _AT_ZERO @ at.spread(at.solve(-self._rows.bias(points, rates) - at.whole @ held))

    def stage(self, q: Array, v: Array) -> tuple[Array, Array]:
        """The state at which accelerations are computed, for a state inside a step.

        Near a singular configuration accelerations are the ratio of two small numbers, which only
        agree on the constraints: what a stage is off them by is divided by the singular value.
        """
        if not (self._careful or (self.project_stages and self.projects)):
            return q, v
        found, closed, at = self._nearest(q[None], _STAGE, self._rank, _NEWTON)
        if not closed[0]:
            return q, v
        return found[0], project_velocity(at, v[None])[0]

    def _wanted(self, at: ConstraintMetric, q: Array, v: Array, free: Array) -> Array:
        """U − G vdot_f, with Baumgarte's terms if they are asked for, (1, rows)."""
        G = at.whole[0]
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

    def project(
        self, t: float, q: Array, v: Array, inertia: Callable[[Array], Array] | None = None
    ) -> tuple[Array, Array]:
        """The nearest state on the constraints; raises `Diverged` if there is none.

        ``inertia(q)`` (n, nv, nv) stands for the mass matrix of the metric.
        """
        if not (all_finite(q) and all_finite(v)):
            return q, v
        found = self._projected(t, q, v, inertia)
        if not self._all_move:
            self._check_rates(t, *found)
        return found

    @property
    def judged(self) -> tuple[Any, ...]:
        """All that is judged about the rank at a state, for the steps from there on."""
        near = self._careful, self._steady, self._has_other_side, self.is_close
        return self._rank, *near, self.is_regular, self.is_far, self._unseen

    @judged.setter
    def judged(self, kept: tuple[Any, ...]) -> None:
        self._rank, self._careful, self._steady, self._has_other_side, *others = kept
        self.is_close, self.is_regular, self.is_far, self._unseen = others

    def _check_rates(self, t: float, q: Array, v: Array) -> None:
        """Rates that the joints which are not prescribed cannot make up for end a run."""
        G = self.system.jacobian(q)
        wrong = np.abs(G @ v - self.system.rates)
        bad = np.flatnonzero(wrong > _CONTRADICTION * (1 + np.abs(G) @ np.abs(v)))
        if bad.size:
            names = ", ".join(repr(self.system.row_names[i]) for i in bad[:8])
            raise Diverged(
                f"at t = {t:.9g} s the prescribed accelerations contradict the constraints: the "
                f"rows {names} are violated by up to {wrong[bad].max():.3g} (rad/s, m/s), and "
                "the joints that are not prescribed cannot compensate. Prescribe fewer joints"
            )

    def _projected(
        self, t: float, q: Array, v: Array, inertia: Callable[[Array], Array] | None
    ) -> tuple[Array, Array]:
        if inertia is None and (self._unseen > 0 or self._is_large):
            self._unseen -= 1
            found = self._project_compiled(q, v)
            if found is not None:
                return found
        rank = self._rank if self._steady else None
        found, closed, at = self._nearest(q[None], self.tolerance, rank, inertia=inertia)
        if not closed[0]:
            why = not_closed(self.system, found[0], self.tolerance)
            why += "" if self._all_move else _HELD
            raise Diverged(f"at t = {t:.9g} s {why}")
        self._decide(at)
        return found[0], project_velocity(at, v[None])[0]

    def _nearest(
        self,
        q: Array,
        tolerance: float,
        rank: int | None,
        iterations: int = 25,
        inertia: Callable[[Array], Array] | None = None,
    ) -> tuple[Array, Array, ConstraintMetric]:
        moving = self.motion.moving
        return project_position(self._rows, q, tolerance, rank, iterations, moving, inertia)

    def _project_compiled(self, q: Array, v: Array) -> tuple[Array, Array] | None:
        """The same where rows are regular: v − ℳ⁻¹ J* A* (A Λ A*)⁻¹ (A J v − rates), compiled."""
        if self._in_one_call is not None:
            return self._in_one_call(q, v)
        zero = np.zeros_like(v)
        try:
            found, closed, at = newton_onto_rows(
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

    @cached_property
    def _in_one_call(self) -> Callable[[Array, Array], tuple[Array, Array] | None] | None:
        """The projection of compiled runs, where it is as exact as this run wants."""
        small = self.tolerance < TOLERANCE or not self._all_move
        if small or compile(VELOCITY_CHANGE, self.system).native is None:
            return None
        from phipsi.simulation.runs.run_memory import RunMemory

        system = self.system
        plan = system.cached((RunConstraints, "projection"), lambda: _projection_plan(system))
        place, rates = np.zeros((1, system.nq)), np.zeros((1, system.nv))
        memory = RunMemory(plan, {"q": place, "v": rates}, 1)
        call = memory.stepper(0.0, 0)

        def project(q: Array, v: Array) -> tuple[Array, Array] | None:
            place[0], rates[0] = q, v
            if call():
                memory.status[0] = 0
                return None
            return place[0].copy(), rates[0].copy()

        return project

    def _changed(self, q: Array, v: Array, rates: Array) -> Array:
        """ℳ⁻¹ J* A* (A Λ A*)⁻¹ (A J v − rates), compiled, of the joints that may move."""
        step, p, status = self._change(q, v, *self._free, rates)
        if is_failure(status) or np.count_nonzero(p) > self.rank:
            raise _Irregular
        return step

    @cached_property
    def _change(self) -> Callable[..., tuple[Any, ...]]:
        forms = (VELOCITY_CHANGE, IMPULSE) if self._all_move else (HELD_CHANGE, HELD_IMPULSE)
        return compile(forms, self.system).with_status

    @property
    def rank(self) -> int:
        """How many rows are independent, as last decided."""
        return self._rank or 0

    def start(self, q: Array, v: Array) -> tuple[Array, Array]:
        """The initial state on the constraints; rejects one that is not nearly there."""
        gap = self.motion.check_start(q[None], v[None])
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
            self._decide(self.motion.metric(q[None]))

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
        self.is_regular, self.is_far = smallest > _NEAR, smallest > _FAR
        # far from singular configurations, deciding now and then is enough
        self._unseen = _LOOK if self.is_far else 0

    def regular_until(self, q: Array) -> int:
        """How many of the steps that have led through configurations (steps + 1, nq) are good.

        Those before a state that is not far from singular configurations.
        """
        looked = np.arange(1, len(q), _LOOK + 1)
        at = self.motion.metric(q[looked])
        bad = (at.smallest <= _FAR) | (at.rank != self._rank)
        return int(looked[np.argmax(bad)]) - 1 if bad.any() else len(q) - 1

    def contradiction(self, q: Array, v: Array, free: Array) -> str:
        """Rows whose accelerations no motion has, as a sentence; empty if there are none."""
        if self._is_large:
            return ""
        at = self.metric(q)
        wanted = self._wanted(at, q, v, free)
        wrong = np.abs(at.contradiction(wanted)[0])
        size = np.abs(wanted[0]) + np.abs(at.whole[0]) @ np.abs(free) + at.size[0]
        bad = np.flatnonzero(wrong > _CONTRADICTION * size.max(initial=0.0))
        if not bad.size:
            return ""
        names = ", ".join(repr(self.system.row_names[i]) for i in bad[:8])
        loops = dict.fromkeys(
            f"{c.name!r} between {ends(self.system.model, c)}"
            for c in map(self.system.closure_of, bad.tolist())
        )
        why = (
            (
                "the constraints contradict each other for these velocities, as they do where a "
                "mechanism can branch and v mixes the branches"
            )
            if self._all_move
            else (
                "the joints that are not prescribed cannot compensate those that are. Prescribe "
                "fewer joints, or accelerations that keep the loops closed"
            )
        )
        return (
            f"no accelerations satisfy the rows {names}, which are violated by "
            f"{wrong[bad].max():.3g} (rad/s², m/s²): {why}. Loops: {', '.join(loops)}"
        )

    def near_singular(self, q: Array) -> str:
        """A sentence if the constraints nearly lose rank at q; empty if not."""
        if self._is_large:
            return ""
        found = self.motion.metric(q[None])
        smallest = float(found.smallest[0])
        if smallest > 1e-4 or not found.rank[0]:
            return ""
        return (
            f"The constraints nearly lose rank there (smallest singular value {smallest:.2g} "
            f"of the largest): the mechanism is close to a singular configuration, where it gains "
            f"degrees of freedom and forces in it grow without bound."
        )


def checked_stabilization(method: Any, tolerance: Any, rate: Any) -> tuple[str, float, float]:
    """The arguments of `simulate` about constraints."""
    one_of("stabilization", method, METHODS)
    small = checked_number(tolerance, "constraint_tolerance", "a number of rad and m", zero=False)
    return method, small, checked_number(rate, "baumgarte_rate", "a number of 1/s", zero=False)


def _projection_plan(system: System) -> RunProgram:
    """The nearest state on the constraints, as compiled runs find it."""
    from phipsi.simulation.runs.run_program import RunProgram

    callee = kinematic_loops.closure_calls.ProjectionCall(system)
    q, v = call(callee, ops.input("q", (system.nq,)), ops.input("v", (system.nv,)))
    return RunProgram(callee.natives[0], {"q": q, "v": v}, {}, {}, {}, (), {})
