"""Fixed steps of systems with loops, for many states at once.

A step is that of the integrator with the accelerations that keep the constraints, then the nearest
state on them: Newton's method for the configuration, q ← q ∘ exp(−ℳ⁻¹ G* S⁺ g), and the projection
of the rates, v ← v − ℳ⁻¹ G* S⁺ (G v − rates), both in the mass metric. It is what `simulate` does
away from singular configurations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn, final

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms.constrained.constraint_metric import ConstraintMetric
from phipsi.algorithms.constrained.row_rank import RANK
from phipsi.algorithms.constrained.system import System
from phipsi.algorithms.constrained.system_report import open_loops_at
from phipsi.algorithms.dynamics.constraint_forces import constrained_dynamics
from phipsi.errors import InputError, PhipsiError, SimulationError
from phipsi.simulation.chart import Chart
from phipsi.simulation.tableaux import METHODS, Tableau

Array = NDArray[Any]

# Largest residual (rad, m) of a projected state: the default of `simulate`.
TOLERANCE = 1e-10
_ROUNDING, _NEWTON = 4e-16, 12
# What a user's initial state may miss the constraints by.
_START = 1e-6


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
    """States (n, nq), (n, nv) on the constraints, and how they were found."""

    q: Array
    v: Array
    corrections: tuple[Correction, ...]


@final
class ClosedSteps:
    """Steps of one integrator and length; states and efforts are (n, nq), (n, nv)."""

    def __init__(self, system: System, integrator: str, dt: float) -> None:
        self.system, self.dt = system, dt
        self.tableau: Tableau | None = METHODS[integrator].tableau
        self.chart = Chart(system.model)

    def advance(self, q: Array, v: Array, tau: Array) -> tuple[Array, Array]:
        """The states after one step."""
        end = self.project(*self.free_step(q, v, tau))
        return end.q, end.v

    def free_step(self, q: Array, v: Array, tau: Array) -> tuple[Array, Array]:
        """The states that the integrator reaches, off the constraints by its error."""
        h, chart = self.dt, self.chart
        start = chart.start(q)
        if self.tableau is None:
            return chart.euler(q, v, self.accelerations(q, v, tau), h)
        slopes: list[tuple[Array, Array]] = []
        for i in range(len(self.tableau.b)):
            z, vi = np.zeros_like(v), v
            for a, (rate, vdot) in zip(self.tableau.a[i][:i], slopes, strict=True):
                if a:
                    z, vi = z + h * a * rate, vi + h * a * vdot
            qi = chart.point(q, start + z)
            slopes.append((chart.rate(start + z, vi), self.accelerations(qi, vi, tau)))
        z, v1 = np.zeros_like(v), v
        for b, (rate, vdot) in zip(self.tableau.b, slopes, strict=True):
            z, v1 = z + h * b * rate, v1 + h * b * vdot
        return chart.point(q, start + z), v1

    def accelerations(self, q: Array, v: Array, tau: Array) -> Array:
        """vdot (n, nv) that keeps the constraints."""
        return constrained_dynamics(self.system, q, v, tau).vdot

    def project(self, q: Array, v: Array) -> Projection:
        """The nearest states on the constraints; raises `SimulationError` if there are none."""
        rows, found = self.system.rows, np.array(q)
        if not rows.n_rows:
            return Projection(found, v, ())
        last, corrections = np.zeros(len(q), dtype=bool), list[Correction]()
        at = self._metric(found)
        for _ in range(_NEWTON):
            error = np.abs(at.residual).max(axis=-1, initial=0.0)
            taken = ~last & (error > _ROUNDING)
            if not taken.any():
                break
            last = error <= TOLERANCE  # one step more, which squares the error
            step = np.where(taken[:, None], at.solve(-at.residual), 0.0)
            corrections.append(Correction(found, at.residual, step, taken))
            moved = self.system.model.integrate(found, step)
            found = np.where(taken[:, None], moved, found)
            at = self._metric(found)
        error = np.abs(at.residual).max(axis=-1, initial=0.0)
        if not (error <= TOLERANCE).all():
            self._not_closed(found, error)
        change = at.solve(rows.rates - np.einsum("nrv,nv->nr", at.jacobian, v))
        return Projection(found, v + change, tuple(corrections))

    def _metric(self, q: Array) -> ConstraintMetric:
        if not np.isfinite(q).all():
            raise SimulationError(
                "the state is no longer finite; a smaller dt often helps: stiff forces and fast "
                "rotations need steps well below their period"
            )
        return ConstraintMetric(self.system.rows, q, RANK)

    def _not_closed(self, q: Array, error: Array) -> NoReturn:
        worst = int(np.argmax(np.where(np.isnan(error), np.inf, error)))
        gaps = "\n".join(open_loops_at(self.system, q[worst], TOLERANCE))
        raise SimulationError(
            f"the loops cannot be closed again near the state that the step reached:\n{gaps}\nThe "
            "mechanism is at the end of what it can reach, or the step was too long"
        )


def closed_rollout(
    system: System,
    q0: Array,
    v0: Array,
    tau: Array,
    dt: float,
    steps: int,
    every: int,
    name: str,
    records: tuple[Array, Array],
) -> tuple[Array, Array]:
    """Motions of a system, all of them step by step, into (..., kept, nq) and (…, nv)."""
    batch, tree = q0.shape[:-1], system.model
    count = int(np.prod(batch, dtype=int))
    varying = tau.ndim == len(batch) + 2
    q, v = q0.reshape(count, tree.nq), v0.reshape(count, tree.nv)
    efforts = tau.reshape(count, *tau.shape[len(batch) :])
    kept = steps // every + 1
    out_q, out_v = (x.reshape(count, kept, x.shape[-1]) for x in records)
    out_q[:, 0], out_v[:, 0] = q, v
    if count and steps:
        check_start(system, q, v)
        advance = ClosedSteps(system, name, dt).advance
        for k in range(steps):
            try:
                q, v = advance(q, v, efforts[:, k] if varying else efforts)
            except PhipsiError as reason:
                done = k // every + 1
                text = f"a motion of the system failed in step {k} (t = {k * dt:.6g} s): {reason}"
                raise SimulationError(text, (out_q[:, :done], out_v[:, :done])) from reason
            if (k + 1) % every == 0:
                out_q[:, (k + 1) // every], out_v[:, (k + 1) // every] = q, v
    return records


def check_start(system: System, q: Array, v: Array) -> None:
    """Refuse states (n, nq), (n, nv) that are not on the constraints."""
    gap = np.abs(system.residual(q))
    slip = np.abs(np.einsum("nrv,nv->nr", system.jacobian(q), v) - system.rates)
    for what, miss, verb, fix in (
        ("q0", gap, "does not close the loops: row {} misses by {:.3g} (rad or m)",
         "q0 = system.assemble(q0)"),
        ("v0", slip, "would open the loops: row {} moves by {:.3g} too much (rad/s or m/s)",
         "q0, v0 = system.project(q0, v0)"),
    ):  # fmt: skip
        if miss.size and miss.max() > _START:
            i, row = (int(x) for x in np.unravel_index(miss.argmax(), miss.shape))
            which = f" of motion {i}" if len(miss) > 1 else ""
            text = verb.format(repr(system.row_names[row]), miss.max())
            raise InputError(f"{what}{which} {text}. Bring it onto them first:\n    {fix}")
