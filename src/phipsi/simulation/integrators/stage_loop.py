"""The stage loop of Runge–Kutta methods, once, for every kind of number.

A step runs in exponential coordinates about the configuration it starts from: y = [z, v] of
exponential_chart.py, ẏ = [dexp⁻¹(z) v, vdot]. The loop only asks for slopes and goes along them, so
what y is made of decides what a step computes:

    values      arrays (..., n)                                   the state after the step
    `TangentArray`   an array and its derivative matrix                the derivatives of the step
    nodes       of graphs (graph_steps.py)                        machine code, and its adjoint

`StageArithmetic` is what a kind of number supplies; `StageValues` and `Tangents` are two.

Reasons: docs/decisions/0035.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms import Chart
from phipsi.simulation.integrators.motion import Motion
from phipsi.simulation.integrators.tableaux import Method

Array = NDArray[Any]


class StageArithmetic(ABC):
    """A step from one state, or from many, in one kind of number."""

    start: Any
    """y where the step begins."""

    @abstractmethod
    def slope(self, i: int, y: Any) -> Any:
        """ẏ in stage i."""

    def along(self, h: float, weights: Sequence[float], slopes: Sequence[Any]) -> Any:
        """y + h Σ w_i k_i."""
        y = self.start
        for weight, slope in zip(weights, slopes, strict=False):
            if weight:
                y = y + (h * weight) * slope
        return y

    @abstractmethod
    def end(self, y: Any) -> Any:
        """What the step gives, from y at its end."""

    @abstractmethod
    def euler(self, h: float) -> Any:
        """What a semi-implicit step gives: v⁺ = v + h vdot, then q⁺ with the rates v⁺."""


def take_step(method: Method, numbers: StageArithmetic, h: float) -> Any:
    """A step of an explicit method, of length h.

    y + h Σ b_i k_i with k_i = slope(i, y + h Σ_j a_ij k_j).
    """
    tableau = method.tableau
    if tableau is None:
        return numbers.euler(h)
    slopes: list[Any] = []
    for i, row in enumerate(tableau.a):
        slopes.append(numbers.slope(i, numbers.along(h, row, slopes)))
    return numbers.end(numbers.along(h, tableau.b, slopes))


# ---- values -------------------------------------------------------------------------------------


@final
class StageValues(StageArithmetic):
    """The state after a step, and what `n` quadratures w gain.

    ``slope(i, y)`` returns [ż, vdot, ẇ] (..., 2 nv + n) of y = [z, v, w] in stage i.
    """

    def __init__(
        self,
        chart: Chart,
        q: Array,
        v: Array,
        slope: Callable[[int, Array], Array],
        n: int = 0,
    ) -> None:
        self._chart, self._q, self._v, self._slope = chart, q, v, slope
        first, last = slice(0, chart.nv), slice(chart.nv, 2 * chart.nv)
        # a plain slice is twice as fast as one behind an ellipsis: most steps are of one state
        self._z, self._at_v = (first, last) if v.ndim == 1 else ((..., first), (..., last))
        parts = [chart.start(q), v]
        if n:
            parts.append(np.zeros((*v.shape[:-1], n)))
        self.start = np.concatenate(parts, axis=-1)

    def slope(self, i: int, y: Array) -> Array:
        """[ż, vdot, ẇ]."""
        return self._slope(i, y)

    def end(self, y: Array) -> tuple[Array, Array, Array]:
        """q⁺, v⁺, and the gain of the quadratures."""
        q = np.array(self._chart.point(self._q, y[self._z]))
        return q, y[self._at_v], y[..., 2 * self._chart.nv :]

    def euler(self, h: float) -> tuple[Array, Array, Array]:
        """The same, by a semi-implicit step."""
        slope = self._slope(0, self.start)
        gain = h * slope[..., 2 * self._chart.nv :]
        return (*self._chart.euler(self._q, self._v, slope[self._at_v], h), gain)


# ---- tangents -----------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class TangentArray:
    """An array (..., n) and its derivatives (..., n, columns)."""

    value: Array
    change: Array

    def __add__(self, other: TangentArray) -> TangentArray:
        return TangentArray(self.value + other.value, self.change + other.change)

    def __rmul__(self, factor: float) -> TangentArray:
        return TangentArray(factor * self.value, factor * self.change)


class Effort(NamedTuple):
    """A place in a step where efforts act: its state (n, nq), (n, nv), and vdot.

    `is_stage`, whether the efforts are those of the motion: in a projection, vdot is the change x
    with ℳ x = G* μ, and efforts only stand for a change of ℳ.
    """

    q: Array
    v: Array
    vdot: Array
    is_stage: bool


@final
class Tangents(StageArithmetic):
    """Derivatives of states (n, nq), (n, nv) after a step, columns δq, δv and δtau.

    With δq_i = T_i δq + Jr_i δz_i, slopes change by

        δk_i = (R_i δv_i + ∂(R v_i)/∂z δz_i, by_q δq_i + by_v δv_i + by_tau δtau)

    With `stages`, their number, the efforts of every stage have columns of their own, and so have
    those that stand for a change of ℳ in projections: `efforts`, in the order of the columns.
    """

    def __init__(self, motion: Motion, q: Array, v: Array, tau: Array, *, stages: int = 0) -> None:
        self._motion, self._q, self._v, self._tau, nv = motion, q, v, tau, v.shape[-1]
        self._separate, columns = stages > 0, (2 + max(1, stages)) * nv
        self.efforts: list[Effort] = []
        self._moved = np.zeros((nv, columns))
        change = np.zeros((*v.shape[:-1], 2 * nv, columns))
        self._moved[:, :nv] = change[..., nv:, nv : 2 * nv] = motion.chart.eye
        self.start = TangentArray(np.concatenate([motion.chart.start(q), v], axis=-1), change)

    def _columns(self, i: int, q: Array, v: Array, vdot: Array) -> slice:
        """Those of the efforts that act in stage i."""
        nv, own = v.shape[-1], i if self._separate else 0
        if self._separate:
            self.efforts.append(Effort(q, v, vdot, True))
        return slice((2 + own) * nv, (3 + own) * nv)

    def slope(self, i: int, y: TangentArray) -> TangentArray:
        """[ż, vdot]."""
        chart, nv = self._motion.chart, self._motion.chart.nv
        z, v, dz, dv = (
            y.value[..., :nv],
            y.value[..., nv:],
            y.change[..., :nv, :],
            y.change[..., nv:, :],
        )
        q = chart.point(self._q, z)
        vdot, by_q, by_v, by_tau = self._motion.linear(q, v, self._tau)
        rate, drate = v, dv
        if not chart.is_flat:
            R = chart.rate_matrix(z)
            rate, drate = (R @ v[..., None])[..., 0], R @ dv + chart.rate_change(z, v) @ dz
        dvdot = by_q @ self._place(z, dz) + by_v @ dv
        dvdot[..., self._columns(i, q, v, vdot)] += by_tau
        return TangentArray(
            np.concatenate([rate, vdot], axis=-1), np.concatenate([drate, dvdot], axis=-2)
        )

    def _place(self, z: Array, dz: Array) -> Array:
        """Derivatives of base ∘ exp(z)."""
        chart = self._motion.chart
        if chart.is_flat:
            return self._moved + dz
        blocks = chart.blocks(z)
        return chart.dense(z, blocks.transport) @ self._moved + chart.dense(z, blocks.right) @ dz

    def end(self, y: TangentArray) -> Array:
        """The derivatives (n, 2 nv, 3 nv) of q⁺ and v⁺, of a system after the projection."""
        chart, nv = self._motion.chart, self._motion.chart.nv
        z, v, dz = y.value[..., :nv], y.value[..., nv:], y.change[..., :nv, :]
        change = np.concatenate([self._place(z, dz), y.change[..., nv:, :]], axis=-2)
        return self._projected(change, lambda: (chart.point(self._q, z), v))

    def euler(self, h: float) -> Array:
        """The same, of a semi-implicit step."""
        chart, q, v, nv = self._motion.chart, self._q, self._v, self._motion.chart.nv
        vdot, *parts = self._motion.linear(q, v, self._tau)
        self._columns(0, q, v, vdot)
        blocks = chart.euler_blocks(v, vdot, h)
        T, q_v, q_a, v_v, v_a = (chart.dense(v, x) for x in blocks)
        dvdot = np.concatenate(parts, axis=-1)
        change = np.concatenate([h * h * (q_a @ dvdot), h * (v_a @ dvdot)], axis=-2)
        change[..., :nv, :nv] += T
        change[..., :nv, nv : 2 * nv] += h * q_v
        change[..., nv:, nv : 2 * nv] += v_v
        return self._projected(change, lambda: chart.euler(q, v, vdot, h))

    def _projected(self, change: Array, state: Callable[[], tuple[Array, Array]]) -> Array:
        if self._motion.rows is None:
            return change
        matrix, solves = self._motion.project(*state()).linear()
        change = matrix @ change
        if not self._separate:
            return change
        self.efforts += [Effort(at, np.zeros_like(x), x, False) for at, x, _ in solves]
        return np.concatenate([change, *(by_effort for _, _, by_effort in solves)], axis=-1)
