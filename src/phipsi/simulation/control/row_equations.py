"""Dense equations with constraint rows, in the graphs of laws: P x + G* f = c, G x = e.

P is symmetric, and positive definite along the motions that keep the rows; elsewhere it may be
zero, as it is for joints without a drive. So with rows in natural size and a weight w,

    B = P + w G* G = L L*,   Y = L⁻¹ G*,   (Y* Y) g = Y* L⁻¹ c − e
    x = L⁻* (L⁻¹ c − Y g),   f = g + w e

B is positive definite, and G x = e makes the added term that of a known force. A row that depends
on those before it is dropped by the criterion of programs (`failures`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, cast, final

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms import ROW_DRIFT, ConstraintMetric, rows_of
from phipsi.core.arrays import Node, Tracer, as_node, call, law_operations as ops
from phipsi.core.backends import ROW_FLOOR, ROW_TOLERANCE
from phipsi.core.machine import (
    Index,
    Machine,
    Memory,
    Number,
    factor_cholesky,
    solve_lower,
    solve_upper,
)
from phipsi.core.model import Model
from phipsi.core.operators import A, J
from phipsi.native import MachineCall, sources_digest
from phipsi.simulation.control.compiled_control import called

Array = NDArray[Any]
_SAMPLES = 3

_SINGULAR = 1e-13  # of a pivot of B, of its own entry: there P x does not determine the motion


@final
class RowSolve(MachineCall):
    """P (n, n), G (m, n), c (n, k), e (m, k), scales (m,) → x (n, k), f (m, k).

    `scales` are one over the natural sizes of the rows. Where P does not determine the motion, the
    results are not numbers, and a run stops with `status` + 8 (i + 1), i the first entry of x that
    is not determined; with 0 nothing is noted. f is zero on rows that are dropped, up to w e.
    """

    is_shared = True

    def __init__(self, n: int, m: int, k: int, status: int = 0) -> None:
        self.sizes, self.status = (n, m, k), status
        self.takes = (n, n), (m, n), (n, k), (m, k), (m,)
        self.shapes = (n, k), (m, k)
        # code in the cache belongs to this text of the formulas
        self.name = f"constrained solve {n} {m} {k} {status} {sources_digest('simulation/control')}"
        self.key = *self.sizes, status

    def vjp(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """The same equations with the weights on the right: the matrix is symmetric."""
        P, G, _, _, scales = args
        zeros = [ops.constant(np.zeros(shape)) for shape in self.shapes]
        bars = [z if w is None else w for z, w in zip(zeros, weights, strict=True)]
        by_c, by_e = call(self, P, G, *bars, scales)
        x, f, y, g = (cast(Any, Tracer(node)) for node in (*results, by_c, by_e))
        return [as_node(-(y @ x.T)), as_node(-(g @ x.T) - f @ y.T), by_c, by_e, None]

    def text(self, m: Machine, args: Sequence[Memory]) -> Sequence[Memory]:
        """The formulas above."""
        n, count, k = self.sizes
        P, G, c, e, scales = args
        rows, B = m.array(count, n, kept=False), m.array(n, n, kept=False)

        @m.each(0, count)
        def _(r: Index) -> None:
            @m.each(0, n)
            def _(i: Index) -> None:
                rows[r, i] = G[r, i] * scales[r]

        w = self._weight(m, P, rows)

        def entry(i: Index, j: Index) -> Number:
            return m.fma(w, m.total(0, count, lambda r: (rows[r, i], rows[r, j])), P[i, j])

        def determined(i: Index, pivot: Number, entry: Number) -> Number:
            good = pivot > entry * _SINGULAR
            if self.status:  # a pivot that is no number has another reason
                m.fail(m.equal(pivot, pivot) & ~good, self.status, i)
            return m.where(good, 1.0 / m.sqrt(m.where(good, pivot, 1.0)), math.nan)

        factor_cholesky(m, n, entry, entry, B, determined)
        Y, z = m.array(n, count, kept=False), m.array(n, k, kept=False)

        @m.each(0, count)
        def _(r: Index) -> None:
            @m.each(0, n)
            def _(i: Index) -> None:
                Y[i, r] = rows[r, i]

            solve_lower(m, n, B, Y, r)

        @m.each(0, k)
        def _(q: Index) -> None:
            @m.each(0, n)
            def _(i: Index) -> None:
                z[i, q] = c[i, q]

            solve_lower(m, n, B, z, q)

        T, g = m.array(count, count, kept=False), m.array(count, k, kept=False)

        def product(a: Index, d: Index) -> Number:
            return m.total(0, n, lambda i: (Y[i, a], Y[i, d]))

        def counts(a: Index, pivot: Number, entry: Number) -> Number:
            good = (pivot > entry * ROW_TOLERANCE) & (pivot * w > ROW_FLOOR)
            return m.where(good, 1.0 / m.sqrt(m.where(good, pivot, 1.0)), 0.0)

        factor_cholesky(m, count, product, product, T, counts)
        x, f = m.array(n, k, kept=False), m.array(count, k, kept=False)

        @m.each(0, k)
        def _(q: Index) -> None:
            @m.each(0, count)
            def _(r: Index) -> None:
                moved = m.total(0, n, lambda i: (Y[i, r], z[i, q]))
                g[r, q] = moved - e[r, q] * scales[r]

            solve_lower(m, count, T, g, q)
            solve_upper(m, count, T, g, q)

            @m.each(0, n)
            def _(i: Index) -> None:
                x[i, q] = z[i, q] - m.total(0, count, lambda r: (Y[i, r], g[r, q]))

            solve_upper(m, n, B, x, q)

            @m.each(0, count)
            def _(r: Index) -> None:
                f[r, q] = scales[r] * m.fma(w, scales[r] * e[r, q], g[r, q])

        return x, f

    def _weight(self, m: Machine, P: Memory, rows: Memory) -> Number:
        """The weight w with which G* G is as large as P."""
        n, count = self.sizes[:2]
        squares = m.array(count, kept=False)

        @m.each(0, count)
        def _(r: Index) -> None:
            squares[r] = m.total(0, n, lambda i: (rows[r, i], rows[r, i]))

        mass = m.total(0, n, lambda i: (P[i, i], 1.0))
        size = m.total(0, count, lambda r: (squares[r], 1.0))
        some = size > 0.0
        return m.where(some, mass / m.where(some, size, 1.0), 0.0)


@final
class RowEquations:
    """The equations P x + G* f = c, G x = e of a mechanism, of traced quantities.

    A tree has one row, which is zero.
    """

    def __init__(self, mechanism: Model) -> None:
        self._mechanism, self._rows = mechanism, rows_of(mechanism)
        self.nv, self.n_rows = mechanism.model.nv, max(1, self._rows.n_rows)

    @cached_property
    def scales(self) -> Array:
        """One over the natural sizes of the rows, at random configurations."""
        if not self._rows.n_rows:
            return np.ones(1)
        model = self._mechanism.model
        q = model.random_configuration(np.random.default_rng(0), (_SAMPLES,))
        return 1 / ConstraintMetric(self._rows, q).size.mean(axis=0)

    def drift(self, q: Any, v: Any) -> Any:
        """Ġ v."""
        if not self._rows.n_rows:
            return np.zeros(1)
        return called(self._mechanism, ROW_DRIFT, q, v)[0]

    def solved(self, q: Any, P: Any, c: Any, e: Any, status: int = 0) -> Any:
        """x, a vector or columns as c and e are.

        Where P does not determine the motion, a run stops with `status`.
        """
        if len(c.shape) == 1:
            return self.solved(q, P, c.reshape(-1, 1), e.reshape(-1, 1), status)[:, 0]
        if self._rows.n_rows:
            (G,) = called(self._mechanism, A @ J, q, mode="dense")
        else:
            G = np.zeros((1, self.nv))
        callee = RowSolve(self.nv, self.n_rows, c.shape[1], status)
        return Tracer(call(callee, *map(as_node, (P, G, c, e, self.scales)))[0])
