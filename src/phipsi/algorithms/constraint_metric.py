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


@final
class ConstraintMetric:
    """G = A J at n configurations, and its pseudo-inverse in the mass metric.

    **Attributes:** `residual`, g (n, rows); `relative`, the closures' frames; `jacobian`, G
    (n, rows, nv); `size` (n, rows), what a row is divided by; `singular` (n, k), descending,
    relative to the largest; `rank` (n,).
    """

    def __init__(self, rows: ClosureRows, q: Array, tolerance: float = RANK_TOLERANCE) -> None:
        poses, motion = rows.poses_and_motions(q)
        at = rows.frames(poses)
        self.rows, self.q = rows, q
        self.residual, self.relative = rows.residual(q, poses)
        self.jacobian = rows.jacobian(at, motion)
        self._L = _cholesky(rows, q)
        carried = self._carry(motion)
        size = rows.sizes(at, carried, self._carry(self.jacobian))
        self.size = np.where(size > 0, size, 1.0)
        scaled = self._carry(self.jacobian) / self.size[..., None]
        self.left, s, self.right = np.linalg.svd(scaled, full_matrices=False)
        largest = s[:, :1] if s.shape[1] else np.ones((len(q), 1))
        self.singular = s / np.where(largest > 0, largest, 1.0)
        self._s, self._kept = s, (self.singular > tolerance) & (s > 1e-12)
        self.rank: Array = self._kept.sum(axis=-1)

    def _carry(self, matrix: Array) -> Array:
        """Columns of the rates become columns of L* v: matrix L⁻*."""
        return np.swapaxes(np.linalg.solve(self._L, np.swapaxes(matrix, -1, -2)), -1, -2)

    def solve(self, wanted: Array, damping: Array | None = None) -> Array:
        """The x (n, nv) of least kinetic energy with G x = wanted (n, rows), in least squares.

        `damping` (n,) is added to the squares of the singular values.
        """
        along = np.einsum("nrk,nr->nk", self.left, wanted / self.size)
        squares = self._s**2 if damping is None else self._s**2 + damping[:, None]
        gain = np.where(self._kept, self._s / np.where(squares > 0, squares, 1.0), 0.0)
        x = np.einsum("nkv,nk->nv", self.right, gain * along)
        return np.linalg.solve(np.swapaxes(self._L, -1, -2), x[..., None])[..., 0]

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

    def free_accelerations(self, effort: Array) -> Array:
        """ℳ⁻¹ x for efforts x (n, nv)."""
        half = np.linalg.solve(self._L, effort[..., None])
        return np.linalg.solve(np.swapaxes(self._L, -1, -2), half)[..., 0]

    def independent_rows(self, element: int = 0) -> list[int]:
        """As many rows as the rank that determine the others: QR with the largest row first."""
        left = (self._carry(self.jacobian) / self.size[..., None])[element].copy()
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


def turned_over(relative: Relative, rows: ClosureRows) -> Array:
    """Which closures (n, C) satisfy their rows the wrong way round: z_b = −z_a, or a half turn."""
    kinds = [rows.closures.closures[i].angular for i in rows.pairs]
    axis = np.array([kind == "axis" for kind in kinds], dtype=bool)
    fully = np.array([kind == "all" for kind in kinds], dtype=bool)
    trace = np.einsum("ncii->nc", relative.R)
    return (axis & (relative.R[..., 2, 2] < 0)) | (fully & (trace < 0))


def _cholesky(rows: ClosureRows, q: Array) -> Array:
    model = rows.model
    try:
        return np.linalg.cholesky(compile(mass_matrix, model, mode="dense")(q))
    except np.linalg.LinAlgError:
        pass
    compile(mass_matrix.inv, model)(q, np.zeros(model.nv))  # names the joint that nothing resists
    raise SingularMatrixError(
        "the mass matrix is not positive definite, so the constraints have no mass metric; give "
        "the lightest joints rotor inertia (armature)"
    )
