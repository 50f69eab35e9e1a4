"""Motion: how a mechanism under efforts moves, with its derivatives and its projection.

A tree is a mechanism without constraints. With constraints, a step is that of the integrator with
the accelerations that keep them, then the nearest state on them: Newton's method for the
configuration, q ← q ∘ exp(x) with x = −ℳ⁻¹ G* S⁺ g, and the projection of the rates, v + y with
y = ℳ⁻¹ G* S⁺ (rates − G v), both in the mass metric. Both solve

    ℳ x = G* μ,   G x = rows

so their derivatives are those of this equation (`KKTSolver.least_by_q`), and inertial
parameters change them like efforts −(∂ℳ/∂π) x do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms import (
    RANK,
    ConstraintMetric,
    System,
    chart_of,
    dynamics,
    forward_dynamics,
    hybrid_dynamics,
    newton_onto_rows,
    open_loops_at,
    project_velocity,
    turned_over,
)
from phipsi.core.model import Model
from phipsi.errors import InputError, SimulationError
from phipsi.simulation.integrators.stiff_modes import modal_matrices, stiffened

Array = NDArray[Any]
Solve = tuple[Array, Array, Array]
"""q (n, nq), x (n, nv), and the derivative (n, 2 nv, nv) of the end by an effort in ℳ x = G* μ."""

TOLERANCE = 1e-10
"""Largest residual (rad, m) of a projected state."""
NEARLY_CLOSED = 1e-6
"""What a user's initial state may miss the constraints by, rad and m, rad/s and m/s."""
NEWTON = 12
"""Most steps of the projection of a configuration."""


@final
class Motion:
    """Accelerations under given efforts, their derivatives, and the projection.

    All functions take batches on leading axes. With `free` (nv,), 0 marks joints whose motion is
    prescribed: their accelerations stand in `tau`, and a projection leaves them where they are, so
    that the others close the loops. Derivatives are by what `tau` holds; with prescribed joints
    those of trees only. ``inertia(q)``, if
    there is one, is the mass matrix (n, nv, nv) that states are projected with. With `ahead`, a
    time in s, accelerations are those of a step of this length with elastic forces at its end
    (stiff_modes.py), and `mechanism` is the one that has them.

    **Attributes:** `mechanism`, a model or a system; `tree`; `rows`, those of the system, None
    without any; `chart` of the tree; `free`; `moving`, the rates that are not prescribed, None for
    all.
    """

    def __init__(
        self,
        mechanism: Model | System,
        free: Array | None = None,
        inertia: Callable[[Array], Array] | None = None,
        ahead: float | None = None,
    ) -> None:
        self._ahead: Array | None = None
        if ahead is not None and mechanism.is_flexible:
            self._ahead = ahead * modal_matrices(mechanism)[0]
            mechanism = stiffened(mechanism, ahead)
        self.system = mechanism if isinstance(mechanism, System) and mechanism.n_rows else None
        self.tree = mechanism.model if isinstance(mechanism, System) else mechanism
        self.mechanism = self.tree if self.system is None else self.system
        self.rows = None if self.system is None else self.system.rows
        self.chart = chart_of(self.tree)
        self.free, self.moving = free, None if free is None else np.flatnonzero(free)
        self._held = None if free is None else np.asarray(free) == 0
        self._inertia = inertia

    def accelerations(self, q: Array, v: Array, tau: Array) -> Array:
        """vdot (..., nv) that keeps the constraints."""
        tau = self._resisted(v, tau)
        if self._held is not None:
            return hybrid_dynamics(self.mechanism, q, v, tau, tau, prescribed=self._held).vdot
        return forward_dynamics(self.mechanism, q, v, tau)

    def linear(self, q: Array, v: Array, tau: Array) -> tuple[Array, Array, Array, Array]:
        """The same, and its derivatives (..., nv, nv) by q, v and tau."""
        if self.moving is not None:
            return self._hybrid_linear(q, v, tau)
        tau = self._resisted(v, tau)
        vdot = forward_dynamics(self.mechanism, q, v, tau)
        by_q, by_v, by_tau = dynamics.derivatives.forward_dynamics_derivatives(
            self.mechanism, q, v, tau
        )
        if self._ahead is not None:
            by_v = by_v - by_tau @ self._ahead
        return vdot, by_q, by_v, by_tau

    def _hybrid_linear(self, q: Array, v: Array, tau: Array) -> tuple[Array, Array, Array, Array]:
        """Those of a tree with prescribed joints.

        With the rows f of the joints that are not, and h of those that are, inverse dynamics says
        δτ_f = τ_q δq + τ_v δv + ℳ_ff δv̇_f + ℳ_fh δv̇_h, and `tau` holds τ_f and v̇_h.
        """
        assert self.system is None and self.free is not None
        free, f = np.asarray(self.free), np.flatnonzero(self.free)
        vdot, nv = self.accelerations(q, v, tau), v.shape[-1]
        by_q, by_v, mass = dynamics.derivatives.inverse_dynamics_derivatives(self.tree, q, v, vdot)
        own = np.where(free, np.eye(nv), -mass)[..., f, :]  # columns: efforts, accelerations
        inner = mass[..., f[:, None], f]
        out = [np.zeros((*v.shape[:-1], nv, nv)) for _ in range(3)]
        for whole, right in zip(out, (-by_q[..., f, :], -by_v[..., f, :], own), strict=True):
            whole[..., f, :] = np.linalg.solve(inner, right)
        out[2] += np.diag(1.0 - free)
        if self._ahead is not None:
            out[1] -= out[2] @ (free[:, None] * self._ahead)
        return vdot, out[0], out[1], out[2]

    def _resisted(self, v: Array, tau: Array) -> Array:
        """Efforts less those of the elastic forces that grow during a step, h K_e v."""
        if self._ahead is None:
            return tau
        less = v @ self._ahead  # it is symmetric
        return tau - less if self.free is None else tau - self.free * less

    # ---- constraints --------------------------------------------------------------------------

    def project(self, q: Array, v: Array) -> Projection:
        """The nearest states (n, nq), (n, nv) on the constraints.

        Raises `SimulationError` if there are none.
        """
        system, corrections = self.system, list[Correction]()
        if system is None:
            return Projection(self, q, v, v, ())

        def correct(at: ConstraintMetric, taken: Array) -> Array:
            step = np.where(taken[:, None], at.spread(at.solve(-at.residual)), 0.0)
            corrections.append(Correction(at.q, at.residual, step, taken))
            return step

        found, closed, at = newton_onto_rows(
            q, self._finite_metric, correct, self.tree.integrate, TOLERANCE, NEWTON
        )
        if not closed.all():
            raise SimulationError(not_closed(system, found[int(np.argmin(closed))], TOLERANCE))
        return Projection(self, found, project_velocity(at, v), v, tuple(corrections))

    def metric(self, q: Array, rank: int | None = None) -> ConstraintMetric:
        """The rows at configurations (n, nq) in the mass metric of the joints that may move."""
        assert self.rows is not None
        inertia = None if self._inertia is None else self._inertia(q)
        return ConstraintMetric(self.rows, q, RANK, rank, rates_used=self.moving, inertia=inertia)

    def _finite_metric(self, q: Array) -> ConstraintMetric:
        if not np.isfinite(q).all():
            raise SimulationError(
                "the state is no longer finite; a smaller dt often helps: stiff forces and fast "
                "rotations need steps well below their period"
            )
        return self.metric(q)

    def check_start(self, q: Array, v: Array, names: tuple[str, str] = ("q0", "v0")) -> float:
        """Reject states (n, nq), (n, nv) that are not on the constraints; the largest residual."""
        system = self.system
        if system is None or not len(q):
            return 0.0
        residual, found = system.rows.residual(q, system.rows.poses(q))
        gap = np.abs(residual).max(axis=-1, initial=0.0)
        bad = (gap > NEARLY_CLOSED) | turned_over(found, system.rows).any(axis=-1)
        fix = "{0}, {1} = system.project({0}, {1})".format(*names)
        if bad.any():
            i = int(np.argmax(bad))
            lines = "\n".join(open_loops_at(system.rows, q[i], NEARLY_CLOSED))
            raise InputError(
                f"{names[0]}{_which(i, q)} does not close the loops:\n{lines}\nAssemble it first:\n"
                f"    {names[0]} = system.assemble({names[0]})\n    {fix}"
            )
        wrong = np.abs(np.einsum("nrv,nv->nr", system.jacobian(q), v) - system.rates)
        allowed = NEARLY_CLOSED * np.maximum(1e-3, np.abs(v).max(axis=-1, initial=0.0))
        if (wrong > allowed[:, None]).any():
            i = int(np.argmax((wrong > allowed[:, None]).any(axis=-1)))
            rows = [int(k) for k in np.flatnonzero(wrong[i] > allowed[i])[:6]]
            listed = ", ".join(f"{system.row_names[k]!r} by {wrong[i, k]:.4g}" for k in rows)
            keep = (
                "\n"
                "These change all velocities. To keep the velocity of a driven joint, project "
                "with a motor on it:\n"
                "    driven = pp.System(system.model, [*system.constraints, "
                "pp.constraints.Motor(name='drive', joint=…, rate=…)])\n"
                f"    {names[0]}, {names[1]} = driven.project({names[0]}, {names[1]})"
            )
            raise InputError(
                (
                    f"{names[1]}{_which(i, q)} violates the constraint velocities: {listed} "
                    "(rad/s, m/s). The nearest admissible velocities:\n"
                    f"    {fix}"
                )
                + ("" if system.rates.any() else keep)
            )
        return float(gap.max(initial=0.0))


def _which(i: int, q: Array) -> str:
    return f" of motion {i}" if len(q) > 1 else ""


def not_closed(system: System, q: Array, tolerance: float) -> str:
    """Why a projection has failed at q."""
    gaps = "\n".join(open_loops_at(system.rows, q, tolerance))
    return (
        "the loops cannot be closed again near the state that the step reached:\n"
        f"{gaps}\n"
        "The mechanism is at the limit of its reach, or the step is too long"
    )


@dataclass(frozen=True, eq=False)
class Correction:
    """One step of the projection of configurations.

    `q` (n, nq) before it, `residual` (n, rows) there, `step` (n, nv), and whether it was `taken`.
    """

    q: Array
    residual: Array
    step: Array
    taken: Array


@dataclass(frozen=True, eq=False)
class Projection:
    """States (n, nq), (n, nv) on the constraints, and how they were found from rates `v0`."""

    motion: Motion
    q: Array
    v: Array
    v0: Array
    corrections: tuple[Correction, ...]

    def linear(self) -> tuple[Array, tuple[Solve, ...]]:
        """The derivative (n, 2 nv, 2 nv) by the state before it, and the solves of ℳ x = G* μ."""
        system, chart, nv = self.motion.system, self.motion.chart, self.v.shape[-1]
        whole = np.zeros((len(self.v), 2 * nv, 2 * nv))
        if system is None:
            whole[:] = np.eye(2 * nv)
            return whole, ()
        rows = system.rows
        moved = np.broadcast_to(np.eye(nv), (len(self.v), nv, nv))
        found: list[Solve] = []  # q, x, and δq by efforts, so far
        for c in self.corrections:
            solver = dynamics.derivatives.KKTSolver(system, c.q, RANK)
            slope = rows.has_position[:, None] * solver.jacobian  # of the residual
            by_q = solver.least_by_q(c.step, -c.residual) - solver.least(slope)
            right = chart.right(c.step)
            through = chart.transport(c.step) + right @ by_q
            taken = c.taken[:, None, None]
            moved = np.where(taken, through @ moved, moved)
            found = [(q, x, np.where(taken, through @ e, e)) for q, x, e in found]
            found.append((c.q, c.step, np.where(taken, right @ solver.by_efforts, 0.0)))
        solver = dynamics.derivatives.KKTSolver(system, self.q, RANK)
        # one more, of length zero: this state is on the constraints, those beside it are projected
        last = np.eye(nv) - solver.least(rows.has_position[:, None] * solver.jacobian)
        moved = last @ moved
        found = [(q, x, last @ e) for q, x, e in found]
        change = self.v - self.v0
        wanted = rows.rates - np.einsum("nrv,nv->nr", solver.jacobian, self.v0)
        by_q = solver.least_by_q(change, wanted) - solver.least(solver.rates_by_q(self.v0))
        whole[:, :nv, :nv] = moved
        whole[:, nv:, :nv] = by_q @ moved
        whole[:, nv:, nv:] = np.eye(nv) - solver.least(solver.jacobian)
        solves = [(q, x, np.concatenate([e, by_q @ e], axis=-2)) for q, x, e in found]
        effort = np.concatenate([np.zeros_like(solver.by_efforts), solver.by_efforts], axis=-2)
        return whole, (*solves, (self.q, change, effort))
