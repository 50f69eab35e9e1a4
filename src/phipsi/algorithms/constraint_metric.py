"""The constraint rows in the metric of the mass matrix, decomposed so that their rank shows.

With ℳ = L L*, rates x = L* v have the kinetic energy ½ x* x, and the rows become G L⁻*. Their
singular values decide which rows are independent: a row is first divided by the size it would have
if nothing in it cancelled, so that rad and m, light and heavy bodies compare.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms.closure_rows import ClosureRows, Relative
from phipsi.compiler import compile
from phipsi.errors import SingularMatrixError
from phipsi.operators import mass_matrix

Array = NDArray[Any]

RANK_TOLERANCE = 1e-7
"""Singular values below this part of the largest count as zero.

It must lie above the drift off the constraints, which makes the zero singular value of redundant
rows as large as the drift, and below the smallest true one (closed_chain 6).
"""

_ZERO = 1e-14


@final
class ConstraintMetric:
    """G = A J at n configurations, and its pseudo-inverse in the mass metric.

    **Attributes:** `residual`, g (n, rows); `relative`, the closures' frames; `jacobian`, G
    (n, rows, nv); `size` (n, rows), what a row is divided by; `singular` (n, k), descending,
    relative to the largest; `rank` (n,).
    """

    def __init__(
        self,
        rows: ClosureRows,
        q: Array,
        tolerance: float = RANK_TOLERANCE,
        rank: int | None = None,
    ) -> None:
        poses, motion, M = rows.with_mass_matrix(q)
        self.rows, self.q = rows, q
        self.at = rows.evaluate(q, poses)
        self.residual, self.relative = self.at.residual, self.at.relative
        self.jacobian = rows.jacobian(self.at, motion)
        # rates v = back x with the kinetic energy ½ x* x
        self._back = np.swapaxes(np.linalg.inv(_cholesky(rows, q, M)), -1, -2)
        carried = self.jacobian @ self._back
        size = rows.sizes(self.at, motion @ self._back, carried)
        self.size = np.where(size > 0, size, 1.0)
        scaled = carried / self.size[..., None]
        self._scaled = scaled
        self.left, s, self.right = _decomposed(scaled)
        largest = s[:, :1] if s.shape[1] else np.ones((len(q), 1))
        self.singular = s / np.where(largest > 0, largest, 1.0)
        self._s, self._kept = s, (self.singular > tolerance) & (s > 1e-12)
        if rank is not None:  # decided elsewhere: where drift does not blur it
            self._kept = (np.arange(s.shape[1]) < rank) & (s > 1e-14)
        self.rank: Array = self._kept.sum(axis=-1)

    def solve(self, wanted: Array, damping: Array | None = None) -> Array:
        """The x (n, nv) of least kinetic energy with G x = wanted (n, rows), in least squares.

        `damping` (n,) is added to the squares of the singular values.
        """
        along = np.einsum("nrk,nr->nk", self.left, wanted / self.size)
        squares = self._s**2 if damping is None else self._s**2 + damping[:, None]
        gain = np.where(self._kept, self._s / np.where(squares > 0, squares, 1.0), 0.0)
        x = np.swapaxes(self.right, -1, -2) @ (gain * along)[..., None]
        return (self._back @ x)[..., 0]

    def multipliers(self, wanted: Array) -> Array:
        """The y (n, rows) with ℳ⁻¹ G* y = solve(wanted)."""
        along = np.einsum("nrk,nr->nk", self.left, wanted / self.size)
        gain = np.where(self._kept, 1.0 / np.where(self._kept, self._s, 1.0) ** 2, 0.0)
        return np.einsum("nrk,nk->nr", self.left, gain * along) / self.size

    def contradiction(self, wanted: Array) -> Array:
        """Part of `wanted` (n, rows) that no motion gives, in the units of the rows."""
        scaled = wanted / self.size
        along = np.einsum("nrk,nr->nk", self.left, scaled)
        along = np.where(self._kept, along, 0.0)
        return (scaled - np.einsum("nrk,nk->nr", self.left, along)) * self.size

    def independent_rows(self, element: int = 0) -> list[int]:
        """As many rows as the rank that determine the others: QR with the largest row first."""
        left = self._scaled[element].copy()
        chosen: list[int] = []
        for _ in range(int(self.rank[element])):
            norms = np.einsum("rv,rv->r", left, left)
            # rows of the same length to rounding: the first of them, so that names are predictable
            best = int(np.flatnonzero(norms >= norms.max() * (1 - 1e-9))[0])
            chosen.append(best)
            direction = left[best] / np.sqrt(norms[best])
            for _twice in range(2):  # once leaves rounding errors
                left = left - np.outer(left @ direction, direction)
        return sorted(chosen)


def _decomposed(rows: Array) -> tuple[Array, Array, Array]:
    """Singular value decomposition of rows (n, m, nv), many of which may be zero.

    A planar loop closed in space has three rows out of five that nothing in it can move.
    """
    alive = (np.abs(rows) > _ZERO).any(axis=(0, 2))
    if alive.all():
        return np.linalg.svd(rows, full_matrices=False)
    some, s, right = np.linalg.svd(rows[:, alive], full_matrices=False)
    left = np.zeros((*rows.shape[:2], some.shape[2]))
    left[:, alive] = some
    return left, s, right


def turned_over(relative: Relative, rows: ClosureRows) -> Array:
    """Which closures (n, C) satisfy their rows the wrong way round: z_b = −z_a, or a half turn."""
    kinds = [rows.closures.closures[i].angular for i in rows.pairs]
    axis = np.array([kind == "axis" for kind in kinds], dtype=bool)
    fully = np.array([kind == "all" for kind in kinds], dtype=bool)
    trace = np.einsum("ncii->nc", relative.R)
    return (axis & (relative.R[..., 2, 2] < 0)) | (fully & (trace < 0))


def _cholesky(rows: ClosureRows, q: Array, M: Array) -> Array:
    model = rows.model
    try:
        return np.linalg.cholesky(M)
    except np.linalg.LinAlgError:
        if not np.isfinite(M).all():
            raise
    compile(mass_matrix.inv, model)(q, np.zeros(model.nv))  # names the joint that nothing resists
    raise SingularMatrixError(
        "the mass matrix is not positive definite, so the constraints have no mass metric; give "
        "the lightest joints rotor inertia (armature)"
    )
