"""Derivatives of the steps of systems with loops: of the integrator, and of the projection.

The projection of the configuration is a few steps of Newton's method, q ← q ∘ exp(x) with
x = −ℳ⁻¹ G* S⁺ g; that of the rates is v + y with y = ℳ⁻¹ G* S⁺ (rates − G v). Both solve

    ℳ x = G* μ,   G x = rows

so their derivatives are those of this equation (`ConstrainedSolver.least_by_q`), and inertial
parameters change them like efforts −(∂ℳ/∂π) x do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms.constrained.row_rank import RANK
from phipsi.algorithms.constrained.system import System
from phipsi.algorithms.dynamics.closed_derivatives import ConstrainedSolver
from phipsi.backends.arguments import state_arrays
from phipsi.backends.program import Program
from phipsi.simulation.adjoint_steps import pulled
from phipsi.simulation.chart import Chart
from phipsi.simulation.closed_steps import ClosedSteps, Projection, check_start
from phipsi.simulation.linear_steps import LinearStep, checked_step, linear_step
from phipsi.simulation.tableaux import METHODS

Array = NDArray[Any]
Solve = tuple[Array, Array, Array]
"""q (n, nq), x (n, nv), and the derivative (n, 2 nv, nv) of the step by an effort in ℳ x = G* μ."""


@dataclass(frozen=True, eq=False)
class ClosedLinearStep:
    """`step`, of the integrator and the projection together; `solves`, those of the projection."""

    step: LinearStep
    solves: tuple[Solve, ...]


def closed_step_derivatives(
    system: System, q: ArrayLike, v: ArrayLike, tau: ArrayLike, dt: Any, integrator: str
) -> tuple[Array, Array]:
    """A (..., 2 nv, 2 nv) and B (..., 2 nv, nv) of a step; see `step_derivatives`."""
    arrays, h, nv = state_arrays(system.model, q=q, v=v, tau=tau), checked_step(dt), system.model.nv
    batch = np.broadcast_shapes(*(x.shape[:-1] for x in arrays))
    count = math.prod(batch)
    if not nv or not count:
        return np.zeros((*batch, 2 * nv, 2 * nv)), np.zeros((*batch, 2 * nv, nv))
    at, rates, efforts = (
        np.broadcast_to(x, (*batch, x.shape[-1])).reshape(count, x.shape[-1]) for x in arrays
    )
    check_start(system, at, rates)
    step = closed_linear_step(system, at, rates, efforts, h, integrator).step
    return step.A.reshape(*batch, 2 * nv, 2 * nv), step.B.reshape(*batch, 2 * nv, nv)


def closed_linear_step(
    system: System, q: Array, v: Array, tau: Array, dt: float, integrator: str
) -> ClosedLinearStep:
    """A step of states (n, nq), (n, nv), linearised."""
    free = linear_step(system, q, v, tau, dt, integrator)
    end = ClosedSteps(system, integrator, dt).project(free.q, free.v)
    matrix, solves = _projection(system, end, free.v)
    stages = tuple((*stage[:3], matrix @ stage[3]) for stage in free.stages)
    return ClosedLinearStep(LinearStep(matrix @ free.A, stages, end.q, end.v), solves)


def _projection(system: System, end: Projection, v: Array) -> tuple[Array, tuple[Solve, ...]]:
    """The derivative (n, 2 nv, 2 nv) of a projection of rates v (n, nv), and its solves."""
    nv, rows = system.model.nv, system.rows
    chart = Chart(system.model)
    moved = np.broadcast_to(np.eye(nv), (len(v), nv, nv))
    whole = np.zeros((len(v), 2 * nv, 2 * nv))
    if not rows.n_rows:
        whole[:] = np.eye(2 * nv)
        return whole, ()
    found: list[tuple[Array, Array, Array]] = []  # q, x, and δq by efforts, so far
    for c in end.corrections:
        solver = ConstrainedSolver(system, c.q, RANK)
        slope = rows.has_position[:, None] * solver.jacobian  # of the residual
        by_q = solver.least_by_q(c.step, -c.residual) - solver.least(slope)
        right = chart.right(c.step)
        through = chart.transport(c.step) + right @ by_q
        taken = c.taken[:, None, None]
        moved = np.where(taken, through @ moved, moved)
        found = [(q, x, np.where(taken, through @ e, e)) for q, x, e in found]
        found.append((c.q, c.step, np.where(taken, right @ solver.by_efforts, 0.0)))
    solver = ConstrainedSolver(system, end.q, RANK)
    # one more, of length zero: states beside this one, which is on the constraints, are projected
    last = np.eye(nv) - solver.least(rows.has_position[:, None] * solver.jacobian)
    moved = last @ moved
    found = [(q, x, last @ e) for q, x, e in found]
    change = end.v - v
    wanted = rows.rates - np.einsum("nrv,nv->nr", solver.jacobian, v)
    by_q = solver.least_by_q(change, wanted) - solver.least(solver.rates_by_q(v))
    whole[:, :nv, :nv] = moved
    whole[:, nv:, :nv] = by_q @ moved
    whole[:, nv:, nv:] = np.eye(nv) - solver.least(solver.jacobian)
    solves = [(q, x, np.concatenate([e, by_q @ e], axis=-2)) for q, x, e in found]
    effort = np.concatenate([np.zeros_like(solver.by_efforts), solver.by_efforts], axis=-2)
    return whole, (*solves, (end.q, change, effort))


@dataclass(frozen=True, eq=False)
class ClosedStretch:
    """Some steps, on the first axis of all arrays, then the batch.

    `A` (steps, ..., 2 nv, 2 nv); `stages`, of the integrator, with q, v, vdot and the derivative of
    the step by an effort there; `solves`, those of the projection, with q, x and the same.
    """

    tau: Array
    A: Array
    stages: tuple[tuple[Array, ...], ...]
    solves: tuple[tuple[Array, ...], ...]


@final
class ClosedAdjoint:
    """Steps of one integrator and length of a system, backwards, by the matrices of every step."""

    def __init__(self, system: System, integrator: str, dt: float) -> None:
        self.system, self.integrator, self.dt = system, integrator, dt
        tableau = METHODS[integrator].tableau
        self.n_stages = 1 if tableau is None else len(tableau.b)

    def stretch(self, q: Array, v: Array, tau: Array) -> ClosedStretch:
        """The steps that begin at (q, v)."""
        batch = tau.shape[:-1]
        at, rates, efforts = (x.reshape(math.prod(batch), x.shape[-1]) for x in (q, v, tau))
        found = closed_linear_step(self.system, at, rates, efforts, self.dt, self.integrator)

        def whole(parts: tuple[Array, ...]) -> tuple[Array, ...]:
            return tuple(x.reshape(*batch, *x.shape[1:]) for x in parts)

        stages = tuple(whole(stage) for stage in found.step.stages)
        solves = tuple(whole(solve) for solve in found.solves)
        return ClosedStretch(tau, whole((found.step.A,))[0], stages, solves)

    def n_pulls(self, stretch: ClosedStretch) -> int:
        """How many weights of efforts `back` returns, those of the stages first."""
        return self.n_stages + len(stretch.solves)

    def back(
        self, s: ClosedStretch, k: int, by_q: Array, by_v: Array
    ) -> tuple[Array, Array, Array]:
        """Through step k, from weights of the state after it to those of the state before it."""
        weight = np.concatenate([by_q, by_v], axis=-1)[..., None, :]
        before = (weight @ s.A[k])[..., 0, :]
        efforts = [(weight @ part[-1][k])[..., 0, :] for part in (*s.stages, *s.solves)]
        nv = by_v.shape[-1]
        return before[..., :nv], before[..., nv:], np.stack(efforts)

    def parameters(self, transposed: Program, stretch: ClosedStretch, pulls: Array) -> Array:
        """Y* w for all weights w of efforts, summed; of the projection, with ℳ x for efforts."""
        out: Any = 0.0
        for i, (q, v, vdot, _) in enumerate(stretch.stages):
            out = out + pulled(transposed, q, v, vdot, pulls[:, i]).sum(0)
        for i, (q, x, _) in enumerate(stretch.solves, self.n_stages):
            still = np.zeros_like(x)
            out = out + pulled(transposed, q, still, x, pulls[:, i]).sum(0)
            out = out - pulled(transposed, q, still, still, pulls[:, i]).sum(0)
        return out
