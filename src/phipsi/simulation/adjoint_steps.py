"""Backwards through integration steps: vector–Jacobian products of the computed steps.

What the steps of a stretch pass through (stages, and matrices of the group where joints are curved)
is computed for all of them at once; then the adjoint runs backwards, one vector–Jacobian product of
forward dynamics per stage, so a step backwards costs a small multiple of a step forwards.

Arrays have the steps on their first axis here, then the batch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms.dynamics.equations_of_motion import FORWARD_DYNAMICS, forward_dynamics
from phipsi.backends.program import Program
from phipsi.calculus.differentiation import vjp
from phipsi.compiler import default_backend
from phipsi.model.model import Model
from phipsi.simulation.chart import Blocks, Chart, ChartBlocks, EulerBlocks
from phipsi.simulation.tableaux import METHODS, Tableau

Array = NDArray[Any]
NOTHING = ChartBlocks([], [], [])


@dataclass(frozen=True, eq=False)
class Stage:
    """States (steps, ..., nq) and (steps, ..., nv) that forward dynamics is evaluated at.

    `vdot` there; `chart`, `change`, blocks of the curved joints at the stage's coordinates z.
    """

    q: Array
    v: Array
    vdot: Array
    chart: ChartBlocks = NOTHING
    change: Blocks = field(default_factory=list[tuple[slice, Array]])


@dataclass(frozen=True, eq=False)
class Stretch:
    """Some steps: their stages, and the blocks of the curved joints at their ends."""

    stages: tuple[Stage, ...]
    tau: Array
    end: ChartBlocks | EulerBlocks


@final
class AdjointSteps:
    """Steps of one integrator and length, backwards."""

    def __init__(self, model: Model, integrator: str, dt: float) -> None:
        self.model, self.dt = model, dt
        self.tableau: Tableau | None = METHODS[integrator].tableau
        self.chart = Chart(model)
        key = ("products of forward dynamics", default_backend())
        if key not in model.programs:  # deriving the expressions takes longer than a short motion
            model.programs[key] = vjp(FORWARD_DYNAMICS, model, ("q", "v", "tau"))
        self._products = model.programs[key]

    @property
    def n_stages(self) -> int:
        """Evaluations of forward dynamics per step."""
        return 1 if self.tableau is None else len(self.tableau.b)

    # ---- what the steps pass through -----------------------------------------------------------

    def stretch(self, q: Array, v: Array, tau: Array) -> Stretch:
        """The stages of steps that begin at (q, v)."""
        if self.tableau is None:
            vdot = forward_dynamics(self.model, q, v, tau)
            return Stretch((Stage(q, v, vdot),), tau, self.chart.euler_blocks(v, vdot, self.dt))
        h, chart = self.dt, self.chart
        start = chart.start(q)
        slopes: list[tuple[Array, Array]] = []
        stages: list[Stage] = []
        for i in range(self.n_stages):
            z, vi = np.zeros_like(v), v
            for a, (rate, vdot) in zip(self.tableau.a[i][:i], slopes, strict=True):
                if a:
                    z, vi = z + h * a * rate, vi + h * a * vdot
            qi = chart.point(q, start + z)
            vdot = forward_dynamics(self.model, qi, vi, tau)
            if chart.is_flat:
                stages.append(Stage(qi, vi, vdot))
                slopes.append((vi, vdot))
                continue
            blocks = chart.blocks(z)
            stages.append(Stage(qi, vi, vdot, blocks, chart.change_blocks(z, vi)))
            slopes.append((_applied(blocks.rate, vi), vdot))
        z = h * sum(b * rate for b, (rate, _) in zip(self.tableau.b, slopes, strict=True))
        return Stretch(tuple(stages), tau, chart.blocks(np.asarray(z)))

    def n_pulls(self, stretch: Stretch) -> int:
        """How many weights of efforts `back` returns, those of the stages first."""
        return len(stretch.stages)

    def parameters(self, transposed: Program, stretch: Stretch, pulls: Array) -> Array:
        """Y* w and vdot w for all weights of efforts, summed over stages and steps."""
        return sum(
            pulled(transposed, stage.q, stage.v, stage.vdot, pulls[:, i]).sum(0)
            for i, stage in enumerate(stretch.stages)
        )  # type: ignore[return-value]

    # ---- backwards -----------------------------------------------------------------------------

    def back(self, s: Stretch, k: int, by_q: Array, by_v: Array) -> tuple[Array, Array, Array]:
        """Through step k: from weights of the state after it to weights of the state before it.

        Returns them, by q and by v, and the weights of the efforts (stages, ..., nv).
        """
        if isinstance(s.end, EulerBlocks):
            return self._back_semi_implicit(s, s.end, k, by_q, by_v)
        assert self.tableau is not None
        h, tableau = self.dt, self.tableau
        z_end, base = _times(s.end.right, k, by_q), _times(s.end.transport, k, by_q)
        zs: list[Array] = [by_q] * self.n_stages
        vs: list[Array] = [by_v] * self.n_stages
        efforts = np.empty((self.n_stages, *by_v.shape))
        before = by_v
        for i in reversed(range(self.n_stages)):
            kz, kv = h * tableau.b[i] * z_end, h * tableau.b[i] * by_v
            for j in range(i + 1, self.n_stages):
                a = tableau.a[j][i]
                if a:
                    kz, kv = kz + h * a * zs[j], kv + h * a * vs[j]
            stage = s.stages[i]
            g_q, g_v, efforts[i] = self._products(stage.q[k], stage.v[k], s.tau[k], kv)
            zs[i] = _times(stage.chart.right, k, g_q)
            for at, block in stage.change:
                zs[i][..., at] += (kz[..., None, at] @ block[k])[..., 0, :]
            vs[i] = g_v + _times(stage.chart.rate, k, kz)
            base = base + _times(stage.chart.transport, k, g_q)
            before = before + vs[i]
        return base, before, efforts

    def _back_semi_implicit(
        self, s: Stretch, end: EulerBlocks, k: int, by_q: Array, by_v: Array
    ) -> tuple[Array, Array, Array]:
        """v⁺ = v + h vdot, then q⁺ with the rates v⁺; see groups.py."""
        h, stage = self.dt, s.stages[0]
        by_rates = h * _times(end.q_by_v, k, by_q) + _times(end.v_by_v, k, by_v)
        by_vdot = h * (h * _times(end.q_by_a, k, by_q) + _times(end.v_by_a, k, by_v))
        g_q, g_v, effort = self._products(stage.q[k], stage.v[k], s.tau[k], by_vdot)
        return _times(end.transport, k, by_q) + g_q, by_rates + g_v, effort[None]


def pulled(transposed: Program, q: Array, v: Array, vdot: Array, w: Array) -> Array:
    """Y* w, then vdot w for the rotors, (..., 10 n + nv)."""
    inertial = transposed(q, v, vdot, w)
    return np.concatenate([inertial.reshape(*w.shape[:-1], -1), vdot * w], axis=-1)


def _times(blocks: Blocks, k: int, vector: Array) -> Array:
    """The adjoint of the blocks of step k times a vector; elsewhere the identity."""
    if not blocks:
        return vector
    out = vector.copy()
    for at, block in blocks:
        out[..., at] = (vector[..., None, at] @ block[k])[..., 0, :]
    return out


def _applied(blocks: Blocks, vector: Array) -> Array:
    """The blocks of all steps times vectors."""
    out = vector.copy()
    for at, block in blocks:
        out[..., at] = (block @ vector[..., at, None])[..., 0]
    return out
