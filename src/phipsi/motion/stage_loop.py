"""The stage loop of Runge–Kutta methods, once, for every kind of number.

A step runs in exponential coordinates about the configuration it starts from: y = [z, v] of
chart.py, ẏ = [dexp⁻¹(z) v, vdot]. The loop only adds and scales y and asks for slopes, so what y is
made of decides what a step computes:

    values      arrays (..., n)                                   the state after the step
    `Tangent`   an array and its derivative matrix                the derivatives of the step
    `Node`      an array and where it came from                   the adjoint, by going back

`Arithmetic` is what a kind of number supplies; `Values`, `Tangents` and `Recording` are the three.
The loop in machine code is written by rollout_code.py from the same tableaux.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.motion.chart import Blocks, Chart, ChartBlocks
from phipsi.motion.motion import Motion
from phipsi.motion.tableaux import Method, Tableau

Array = NDArray[Any]


class Arithmetic(ABC):
    """A step from one state, or from many, in one kind of number."""

    start: Any
    """y where the step begins."""

    @abstractmethod
    def slope(self, i: int, y: Any) -> Any:
        """ẏ in stage i."""

    @abstractmethod
    def end(self, y: Any) -> Any:
        """What the step gives, from y at its end."""

    @abstractmethod
    def euler(self, h: float) -> Any:
        """What a semi-implicit step gives: v⁺ = v + h vdot, then q⁺ with the rates v⁺."""


def take_step(method: Method, numbers: Arithmetic, h: float) -> Any:
    """A step of an explicit method, of length h."""
    if method.tableau is None:
        return numbers.euler(h)
    return numbers.end(runge_kutta(method.tableau, numbers.slope, numbers.start, h))


def runge_kutta(tableau: Tableau, slope: Callable[[int, Any], Any], y: Any, h: float) -> Any:
    """y + h Σ b_i k_i with k_i = slope(i, y + h Σ_j a_ij k_j)."""
    slopes: list[Any] = []
    for i, row in enumerate(tableau.a):
        slopes.append(slope(i, _along(y, h, row, slopes)))
    return _along(y, h, tableau.b, slopes)


def _along(y: Any, h: float, weights: Sequence[float], slopes: list[Any]) -> Any:
    for weight, slope in zip(weights, slopes, strict=False):
        if weight:
            y = y + (h * weight) * slope
    return y


# ---- values -------------------------------------------------------------------------------------


@final
class Values(Arithmetic):
    """The state after a step, and what `n` quadratures gain.

    ``rates(i, q, v)`` returns vdot (..., nv) and the rates of the quadratures (..., n) in stage i.
    """

    def __init__(
        self,
        chart: Chart,
        q: Array,
        v: Array,
        rates: Callable[[int, Array, Array], tuple[Array, Array]],
        n: int = 0,
    ) -> None:
        self._chart, self._q, self._v, self._rates, nv = chart, q, v, rates, chart.nv
        self.start = np.zeros((*v.shape[:-1], 2 * nv + n))
        self.start[..., :nv], self.start[..., nv : 2 * nv] = chart.start(q), v

    def slope(self, i: int, y: Array) -> Array:
        """[ż, vdot, ẇ]."""
        chart, nv = self._chart, self._chart.nv
        z, v = y[..., :nv], y[..., nv : 2 * nv]
        out = np.empty(y.shape)
        out[..., :nv] = chart.rate(z, v)
        found = self._rates(i, chart.point(self._q, z), v)
        out[..., nv : 2 * nv], out[..., 2 * nv :] = found
        return out

    def end(self, y: Array) -> tuple[Array, Array, Array]:
        """q⁺, v⁺, and the gain of the quadratures."""
        nv = self._chart.nv
        q = np.array(self._chart.point(self._q, y[..., :nv]))
        return q, y[..., nv : 2 * nv], y[..., 2 * nv :]

    def euler(self, h: float) -> tuple[Array, Array, Array]:
        """The same, by a semi-implicit step."""
        vdot, gain = self._rates(0, self._q, self._v)
        return (*self._chart.euler(self._q, self._v, vdot, h), h * gain)


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
    """States after a step and their derivatives, columns δq, δv and δtau.

    With δq_i = T_i δq + Jr_i δz_i, slopes change by

        δk_i = (R_i δv_i + ∂(R v_i)/∂z δz_i, by_q δq_i + by_v δv_i + by_tau δtau)
    """

    def __init__(self, motion: Motion, q: Array, v: Array, tau: Array) -> None:
        self._motion, self._q, self._v, self._tau, nv = motion, q, v, tau, v.shape[-1]
        self._moved, value = np.zeros((nv, 3 * nv)), np.zeros((*v.shape[:-1], 2 * nv))
        value[..., :nv], value[..., nv:] = motion.chart.start(q), v
        change = np.zeros((*v.shape[:-1], 2 * nv, 3 * nv))
        self._moved[:, :nv], change[..., nv:, nv : 2 * nv] = np.eye(nv), np.eye(nv)
        self.start = Tangent(value, change)

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

    def end(self, y: Tangent) -> tuple[Array, Array, Array]:
        """q⁺, v⁺, and the derivatives (..., 2 nv, 3 nv) of both."""
        nv = self._motion.chart.nv
        z, dz = y.value[..., :nv], y.change[..., :nv, :]
        change = np.concatenate([self._place(z, dz), y.change[..., nv:, :]], axis=-2)
        return np.array(self._motion.chart.point(self._q, z)), y.value[..., nv:], change

    def euler(self, h: float) -> tuple[Array, Array, Array]:
        """The same, by a semi-implicit step."""
        chart, v, nv = self._motion.chart, self._v, self._motion.chart.nv
        vdot, *parts = self._motion.linear(self._q, v, self._tau)
        blocks = chart.euler_blocks(v, vdot, h)
        T, q_v, q_a, v_v, v_a = (chart.dense(v, x) for x in blocks)
        dvdot = np.concatenate(parts, axis=-1)
        change = np.concatenate([h * h * (q_a @ dvdot), h * (v_a @ dvdot)], axis=-2)
        change[..., :nv, :nv] += T
        change[..., :nv, nv : 2 * nv] += h * q_v
        change[..., nv:, nv : 2 * nv] += v_v
        return (*chart.euler(self._q, v, vdot, h), change)


# ---- adjoints -----------------------------------------------------------------------------------

Pull = Callable[[int, Array], Sequence[Array]]
"""(step, weights of a node) → weights of its parents."""


@final
class Node:
    """A value of many steps, (steps, ..., n), and how weights of it become those of its parents."""

    __slots__ = ("parents", "pull", "tape", "value")

    def __init__(
        self, tape: list[Node], value: Any, parents: tuple[Node, ...] = (), pull: Pull | None = None
    ) -> None:
        self.tape, self.value, self.parents, self.pull = tape, value, parents, pull
        tape.append(self)

    def __add__(self, term: tuple[float, Node]) -> Node:
        factor, other = term
        value = self.value + factor * other.value
        return Node(self.tape, value, (self, other), lambda _, w: (w, factor * w))

    def __rmul__(self, factor: float) -> tuple[float, Node]:
        return factor, self


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
        self._nv = nv = v.shape[-1]
        self._tape: list[Node] = []
        self._base = Node(self._tape, None)
        start = np.zeros((*v.shape[:-1], 2 * nv))
        start[..., :nv], start[..., nv:] = motion.chart.start(q), v
        self.start = Node(self._tape, start)
        self.efforts: list[Effort] = []

    def slope(self, i: int, y: Node) -> Node:
        """[ż, vdot]."""
        chart, nv = self._motion.chart, self._nv
        z, v = y.value[..., :nv], y.value[..., nv:]
        q = chart.point(self._q, z)
        vdot, products = self._motion.adjoint(q, v, self._tau)
        blocks, change = ChartBlocks([], [], []), Blocks()
        if not chart.is_flat:
            blocks, change = chart.blocks(z), chart.change_blocks(z, v)

        def pull(k: int, w: Array) -> tuple[Array, Array, Array]:
            by_rate = w[..., :nv]
            g_q, g_v, g_tau = products(k, w[..., nv:])
            out = np.concatenate(
                [_pulled(blocks.right, k, g_q), g_v + _pulled(blocks.rate, k, by_rate)], axis=-1
            )
            for at, block in change:
                out[..., at] += (by_rate[..., None, at] @ block[k])[..., 0, :]
            return out, _pulled(blocks.transport, k, g_q), g_tau

        value = np.concatenate([chart.rate(z, v), vdot], axis=-1)
        return Node(self._tape, value, (y, self._base, self._acting(q, v, vdot)), pull)

    def _acting(self, q: Array, v: Array, vdot: Array, is_stage: bool = True) -> Node:
        node = Node(self._tape, None)
        self.efforts.append(Effort(q, v, vdot, node, is_stage))
        return node

    def end(self, y: Node) -> Recording:
        """Complete the recording: [δq⁺, δv⁺]."""
        chart, nv = self._motion.chart, self._nv
        z, v = y.value[..., :nv], y.value[..., nv:]
        blocks = ChartBlocks([], [], []) if chart.is_flat else chart.blocks(z)

        def pull(k: int, w: Array) -> tuple[Array, Array]:
            right = _pulled(blocks.right, k, w[..., :nv])
            before = np.concatenate([right, w[..., nv:]], axis=-1)
            return before, _pulled(blocks.transport, k, w[..., :nv])

        last = Node(self._tape, None, (y, self._base), pull)
        return self._projected(last, chart.point(self._q, z), v)

    def euler(self, h: float) -> Recording:
        """The same, of semi-implicit steps."""
        chart, v, nv = self._motion.chart, self._v, self._nv
        vdot, products = self._motion.adjoint(self._q, v, self._tau)
        blocks = chart.euler_blocks(v, vdot, h)

        def pull(k: int, w: Array) -> tuple[Array, Array, Array]:
            by_q, by_v = w[..., :nv], w[..., nv:]
            rates = h * _pulled(blocks.q_by_v, k, by_q) + _pulled(blocks.v_by_v, k, by_v)
            by_vdot = h * (h * _pulled(blocks.q_by_a, k, by_q) + _pulled(blocks.v_by_a, k, by_v))
            g_q, g_v, g_tau = products(k, by_vdot)
            before = np.concatenate([np.zeros_like(by_q), rates + g_v], axis=-1)
            return before, _pulled(blocks.transport, k, by_q) + g_q, g_tau

        parents = (self.start, self._base, self._acting(self._q, v, vdot))
        last = Node(self._tape, None, parents, pull)
        return self._projected(last, *chart.euler(self._q, v, vdot, h))

    def _projected(self, last: Node, q: Array, v: Array) -> Recording:
        """The projection onto the constraints, if there are any."""
        if self._motion.rows is not None:
            batch = v.shape[:-1]
            flat = (x.reshape(math.prod(batch), x.shape[-1]) for x in (q, v))
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
        return self

    def back(self, k: int, by_q: Array, by_v: Array) -> tuple[Array, Array, Array]:
        """Through step k: from weights of the state after it to weights of the state before it.

        Returns them, by q and by v, and the weights of the efforts (places, ..., nv).
        """
        weights = {self._tape[-1]: np.concatenate([by_q, by_v], axis=-1)}
        for node in reversed(self._tape):
            if node.pull is None or node not in weights:
                continue
            for parent, w in zip(node.parents, node.pull(k, weights.pop(node)), strict=True):
                weights[parent] = weights[parent] + w if parent in weights else w
        before = weights[self.start][..., self._nv :]
        return weights[self._base], before, np.stack([weights[x.node] for x in self.efforts])


def _pulled(blocks: Blocks, k: int, vector: Array) -> Array:
    """The adjoint of the blocks of step k times a vector; elsewhere the identity."""
    if not blocks:
        return vector
    out = vector.copy()
    for at, block in blocks:
        out[..., at] = (vector[..., None, at] @ block[k])[..., 0, :]
    return out
