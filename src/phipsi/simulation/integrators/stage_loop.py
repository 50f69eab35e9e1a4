"""The stage loop of Runge–Kutta methods, once, for every kind of number.

A step runs in exponential coordinates about the configuration it starts from: y = [z, v] of
exponential_chart.py, ẏ = [dexp⁻¹(z) v, vdot]. The loop only asks for slopes and goes along them, so
what y is made of decides what a step computes:

    values      arrays (..., n)                                   the state after the step
    `Tangent`   an array and its derivative matrix                the derivatives of the step
    `Node`      an array and where it came from                   the adjoint, by going back

`Arithmetic` is what a kind of number supplies; `Values`, `Tangents` and `Recording` are the three.
Steps in machine code are this loop too, in the nodes of graphs (graph_steps.py).

Reasons: docs/decisions/0035.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms.kinematics.exponential_chart import Blocks, Chart, ChartBlocks
from phipsi.simulation.integrators.motion import Motion
from phipsi.simulation.integrators.tableaux import Method

Array = NDArray[Any]


class Arithmetic(ABC):
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


def take_step(method: Method, numbers: Arithmetic, h: float) -> Any:
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
class Values(Arithmetic):
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
class Tangent:
    """An array (..., n) and its derivatives (..., n, columns)."""

    value: Array
    change: Array

    def __add__(self, other: Tangent) -> Tangent:
        return Tangent(self.value + other.value, self.change + other.change)

    def __rmul__(self, factor: float) -> Tangent:
        return Tangent(factor * self.value, factor * self.change)


@final
class Tangents(Arithmetic):
    """Derivatives of states (n, nq), (n, nv) after a step, columns δq, δv and δtau.

    With δq_i = T_i δq + Jr_i δz_i, slopes change by

        δk_i = (R_i δv_i + ∂(R v_i)/∂z δz_i, by_q δq_i + by_v δv_i + by_tau δtau)
    """

    def __init__(self, motion: Motion, q: Array, v: Array, tau: Array) -> None:
        self._motion, self._q, self._v, self._tau, nv = motion, q, v, tau, v.shape[-1]
        self._moved = np.zeros((nv, 3 * nv))
        change = np.zeros((*v.shape[:-1], 2 * nv, 3 * nv))
        self._moved[:, :nv] = change[..., nv:, nv : 2 * nv] = motion.chart.eye
        self.start = Tangent(np.concatenate([motion.chart.start(q), v], axis=-1), change)

    def slope(self, i: int, y: Tangent) -> Tangent:
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
        dvdot[..., 2 * nv :] += by_tau
        return Tangent(
            np.concatenate([rate, vdot], axis=-1), np.concatenate([drate, dvdot], axis=-2)
        )

    def _place(self, z: Array, dz: Array) -> Array:
        """Derivatives of base ∘ exp(z)."""
        chart = self._motion.chart
        if chart.is_flat:
            return self._moved + dz
        blocks = chart.blocks(z)
        return chart.dense(z, blocks.transport) @ self._moved + chart.dense(z, blocks.right) @ dz

    def end(self, y: Tangent) -> Array:
        """The derivatives (n, 2 nv, 3 nv) of q⁺ and v⁺, of a system after the projection."""
        chart, nv = self._motion.chart, self._motion.chart.nv
        z, v, dz = y.value[..., :nv], y.value[..., nv:], y.change[..., :nv, :]
        change = np.concatenate([self._place(z, dz), y.change[..., nv:, :]], axis=-2)
        return self._projected(change, lambda: (chart.point(self._q, z), v))

    def euler(self, h: float) -> Array:
        """The same, of a semi-implicit step."""
        chart, q, v, nv = self._motion.chart, self._q, self._v, self._motion.chart.nv
        vdot, *parts = self._motion.linear(q, v, self._tau)
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
        return self._motion.project(*state()).linear()[0] @ change


# ---- adjoints -----------------------------------------------------------------------------------

Pull = Callable[[int, Array], Sequence[Array]]
"""(step, weights of a node) → weights of its parents."""


@final
class Node:
    """A value of many steps, (steps, ..., n), and how weights of it become those of its parents."""

    __slots__ = ("number", "parents", "pull", "value")

    def __init__(
        self, tape: list[Node], value: Any, parents: tuple[Node, ...] = (), pull: Pull | None = None
    ) -> None:
        self.number, self.value, self.parents, self.pull = len(tape), value, parents, pull
        tape.append(self)


@dataclass(frozen=True, eq=False)
class Effort:
    """A place in the steps where efforts act: its state, vdot, and the node of the efforts.

    `is_stage`, whether the efforts are those of the motion: in a projection, vdot is the change x
    with ℳ x = G* μ, and efforts only stand for a change of ℳ.
    """

    q: Array
    v: Array
    vdot: Array
    node: Node
    is_stage: bool


@final
class Recording(Arithmetic):
    """Many steps at once, recorded for going back through each of them.

    Arrays have the steps on their first axis, then the batch.

    **Attributes:** `efforts`, where efforts act, in the order of the weights that `back` returns.
    """

    def __init__(self, motion: Motion, q: Array, v: Array, tau: Array) -> None:
        self._motion, self._q, self._v, self._tau = motion, q, v, tau
        self._nv = v.shape[-1]
        self._tape: list[Node] = []
        self._base = Node(self._tape, None)
        self.start = Node(self._tape, np.concatenate([motion.chart.start(q), v], axis=-1))
        self.efforts: list[Effort] = []

    def along(self, h: float, weights: Sequence[float], slopes: Sequence[Node]) -> Node:
        """y + h Σ w_i k_i as one node."""
        used = [slope for w, slope in zip(weights, slopes, strict=False) if w]
        factors = [h * w for w in weights if w]
        if not used:
            return self.start
        value = self.start.value
        for factor, slope in zip(factors, used, strict=True):
            value = value + factor * slope.value

        def pull(_: int, w: Array) -> list[Array]:
            return [w, *[factor * w for factor in factors]]

        return Node(self._tape, value, (self.start, *used), pull)

    def slope(self, i: int, y: Node) -> Node:
        """[ż, vdot]."""
        chart, nv = self._motion.chart, self._nv
        z, v = y.value[..., :nv], y.value[..., nv:]
        q = chart.point(self._q, z)
        vdot, products = self._motion.adjoint(q, v, self._tau)
        value = np.concatenate([chart.rate(z, v), vdot], axis=-1)
        efforts = self._acting(q, v, vdot)
        if chart.is_flat:  # a change of the base is one of z

            def pull_flat(k: int, w: Array) -> tuple[Array, Array]:
                g_q, g_v, g_tau = products(k, w[..., nv:])
                return np.concatenate([g_q, g_v + w[..., :nv]], axis=-1), g_tau

            return Node(self._tape, value, (y, efforts), pull_flat)
        joints = _stage_blocks(chart.blocks(z), chart.change_blocks(z, v))

        def pull(k: int, w: Array) -> tuple[Array, Array, Array]:
            g_q, g_v, g_tau = products(k, w[..., nv:])
            before, base = np.concatenate([g_q, g_v + w[..., :nv]], axis=-1), g_q.copy()
            for at, size, by_place, by_rate in joints:
                moved = _times(g_q[..., at], by_place[k])
                turned = _times(w[..., at], by_rate[k])
                before[..., at] = moved[..., :size] + turned[..., size:]
                before[..., nv:][..., at] = g_v[..., at] + turned[..., :size]
                base[..., at] = moved[..., size:]
            return before, base, g_tau

        return Node(self._tape, value, (y, self._base, efforts), pull)

    def _acting(self, q: Array, v: Array, vdot: Array, is_stage: bool = True) -> Node:
        node = Node(self._tape, None)
        self.efforts.append(Effort(q, v, vdot, node, is_stage))
        return node

    def end(self, y: Node) -> Recording:
        """Complete the recording: [δq⁺, δv⁺]."""
        chart, nv = self._motion.chart, self._nv
        z, v = y.value[..., :nv], y.value[..., nv:]
        if chart.is_flat:
            last = Node(self._tape, None, (y,), lambda _, w: (w,))
            return self._projected(last, lambda: (z, v))
        blocks = chart.blocks(z)

        def pull(k: int, w: Array) -> tuple[Array, Array]:
            right = _pulled(blocks.right, k, w[..., :nv])
            before = np.concatenate([right, w[..., nv:]], axis=-1)
            return before, _pulled(blocks.transport, k, w[..., :nv])

        last = Node(self._tape, None, (y, self._base), pull)
        return self._projected(last, lambda: (chart.point(self._q, z), v))

    def euler(self, h: float) -> Recording:
        """The same, of semi-implicit steps."""
        chart, v, nv = self._motion.chart, self._v, self._nv
        vdot, products = self._motion.adjoint(self._q, v, self._tau)
        blocks = chart.euler_blocks(v, vdot, h)

        def pull_flat(k: int, w: Array) -> tuple[Array, Array]:
            by_rates = h * w[..., :nv] + w[..., nv:]
            g_q, g_v, g_tau = products(k, h * by_rates)
            return np.concatenate([w[..., :nv] + g_q, by_rates + g_v], axis=-1), g_tau

        def pull(k: int, w: Array) -> tuple[Array, Array, Array]:
            by_q, by_v = w[..., :nv], w[..., nv:]
            rates = h * _pulled(blocks.q_by_v, k, by_q) + _pulled(blocks.v_by_v, k, by_v)
            by_vdot = h * (h * _pulled(blocks.q_by_a, k, by_q) + _pulled(blocks.v_by_a, k, by_v))
            g_q, g_v, g_tau = products(k, by_vdot)
            before = np.concatenate([np.zeros_like(by_q), rates + g_v], axis=-1)
            return before, _pulled(blocks.transport, k, by_q) + g_q, g_tau

        efforts = self._acting(self._q, v, vdot)
        if chart.is_flat:
            last = Node(self._tape, None, (self.start, efforts), pull_flat)
        else:
            last = Node(self._tape, None, (self.start, self._base, efforts), pull)
        return self._projected(last, lambda: chart.euler(self._q, v, vdot, h))

    def _projected(self, last: Node, state: Callable[[], tuple[Array, Array]]) -> Recording:
        """The projection of the state after the step onto the constraints, if there are any."""
        if self._motion.rows is not None:
            batch = self._v.shape[:-1]
            flat = (x.reshape(math.prod(batch), x.shape[-1]) for x in state())
            matrix, solves = self._motion.project(*flat).linear()
            shaped = [matrix, *(e for _, _, e in solves)]
            matrices = [x.reshape(*batch, *x.shape[-2:]) for x in shaped]
            nodes = [last]
            for at, x, _ in solves:
                rates = x.reshape(*batch, x.shape[-1])
                where = at.reshape(*batch, at.shape[-1])
                nodes.append(self._acting(where, np.zeros_like(rates), rates, is_stage=False))

            def pull(k: int, w: Array) -> list[Array]:
                return [(w[..., None, :] @ x[k])[..., 0, :] for x in matrices]

            Node(self._tape, None, tuple(nodes), pull)
        for node in self._tape:
            node.value = None  # going back needs none of them
        self._way_back = [
            (node.number, [parent.number for parent in node.parents], node.pull)
            for node in reversed(self._tape)
            if node.pull is not None
        ]
        return self

    def back(self, k: int, after: Array) -> tuple[Array, list[Array]]:
        """Through step k: from weights (..., 2 nv) of the state after it to those before it.

        Returns them, and the weights (..., nv) of the efforts at every place.
        """
        weights: list[Any] = [None] * len(self._tape)
        weights[-1] = after
        for number, parents, pull in self._way_back:
            for parent, w in zip(parents, pull(k, weights[number]), strict=True):
                old = weights[parent]
                weights[parent] = w if old is None else old + w
        before, base = weights[self.start.number], weights[self._base.number]
        if base is not None:  # else a change of the base is one of z
            before = np.concatenate([base, before[..., self._nv :]], axis=-1)
        return before, [weights[x.node.number] for x in self.efforts]


def _stage_blocks(blocks: ChartBlocks, change: Blocks) -> list[tuple[slice, int, Array, Array]]:
    """Where a curved joint is in v, its size, and [Jr, T] and [R, ∂(R v)/∂z], one product each."""
    parts = zip(blocks.right, blocks.transport, blocks.rate, change, strict=True)
    return [
        (at, at.stop - at.start, np.concatenate([J, T], axis=-1), np.concatenate([R, C], axis=-1))
        for (at, J), (_, T), (_, R), (_, C) in parts
    ]


def _pulled(blocks: Blocks, k: int, vector: Array) -> Array:
    """The adjoint of the blocks of step k times a vector; elsewhere the identity."""
    if not blocks:
        return vector
    out = vector.copy()
    for at, block in blocks:
        out[..., at] = _times(vector[..., at], block[k])
    return out


def _times(vector: Array, matrix: Array) -> Array:
    """vector* matrix, by the shorter way for one trajectory."""
    return vector @ matrix if vector.ndim == 1 else (vector[..., None, :] @ matrix)[..., 0, :]
