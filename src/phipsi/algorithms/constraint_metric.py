"""The constraint rows in the metric of the mass matrix, decomposed so that their rank shows.

With ℳ = L L*, rates x = L* v have the kinetic energy ½ x* x, and the rows become G L⁻*. Their
singular values decide which rows are independent: a row is first divided by the size it would have
if nothing in it cancelled, so that rad and m, light and heavy bodies compare.
"""

from __future__ import annotations

from functools import cached_property
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
_DEPENDENT = 1e-6  # rows this close to dependent are left to the singular values


@final
class ConstraintMetric:
    """G = A J at n configurations, and its pseudo-inverse in the mass metric.

    With `rank` the rank is known, for example from the last configuration, where drift did not blur
    it. If that is all rows that are not zero, their QR factors do, and singular values are computed
    only if they are asked for. `tolerance` is one number, or one per element (n, 1).

    **Attributes:** `residual`, g (n, rows); `relative`, the closures' frames; `jacobian`, G
    (n, rows, nv); `size` (n, rows), what a row is divided by; `singular` (n, k), descending,
    relative to the largest; `rank` (n,); `smallest` (n,), the last one that counts.
    """

    def __init__(
        self,
        rows: ClosureRows,
        q: Array,
        tolerance: float | Array = RANK_TOLERANCE,
        rank: int | None = None,
    ) -> None:
        poses, motion, self.jacobian, M = rows.with_mass_matrix(q)
        self.rows, self.q, self._tolerance, self._given = rows, q, tolerance, rank
        at = rows.evaluate(q, poses)
        self.residual, self.relative = at.residual, at.relative
        # rates v = back x with the kinetic energy ½ x* x
        self._back = np.swapaxes(np.linalg.inv(_cholesky(rows, q, M)), -1, -2)
        carried = self.jacobian @ self._back
        size = rows.sizes(at, motion @ self._back, carried)
        self.size = np.where(size > 0, size, 1.0)
        self._scaled = carried / self.size[..., None]
        # a planar loop closed in space has three rows out of five that nothing in it can move
        self._alive = (np.abs(self._scaled) > _ZERO).any(axis=(0, 2))

    @cached_property
    def _singular_values(self) -> tuple[Array, Array, Array]:
        some, s, right = np.linalg.svd(self._scaled[:, self._alive], full_matrices=False)
        left = np.zeros((*self._scaled.shape[:2], some.shape[2]))
        left[:, self._alive] = some
        return left, s, right

    @cached_property
    def singular(self) -> Array:
        """Singular values (n, k) of the scaled rows, descending, relative to the largest."""
        s = self._singular_values[1]
        largest = s[:, :1] if s.shape[1] else np.ones((len(s), 1))
        return s / np.where(largest > 0, largest, 1.0)

    @cached_property
    def _kept(self) -> Array:
        s = self._singular_values[1]
        if self._given is not None:
            return (np.arange(s.shape[1]) < self._given) & (s > _ZERO)
        return (self.singular > self._tolerance) & (s > 1e-12)

    @cached_property
    def _triangular(self) -> tuple[Array, Array] | None:
        """Q and R⁻¹ of the rows that are not zero, if they are known to be independent."""
        m = int(self._alive.sum())
        if self._given != m or m > self._scaled.shape[2]:
            return None
        Q, R = np.linalg.qr(np.swapaxes(self._scaled[:, self._alive], -1, -2))
        if (np.abs(np.einsum("nii->ni", R)) < _DEPENDENT).any():
            return None
        inverse = np.linalg.inv(R)
        size = np.sqrt(np.square(inverse).sum(axis=(1, 2)))
        return None if (size > 1 / _DEPENDENT).any() else (Q, inverse)

    @property
    def is_full(self) -> bool:
        """Whether all rows that are not zero are independent, in all elements."""
        return bool((self.rank == int(self._alive.sum())).all())

    @property
    def rank(self) -> Array:
        """How many rows are independent (n,)."""
        if self._triangular is not None:
            return np.full(len(self.q), self._given)
        return self._kept.sum(axis=-1)

    @property
    def smallest(self) -> Array:
        """The smallest singular value (n,) that counts, of the largest; an estimate from R⁻¹."""
        if self._triangular is not None:
            return 1 / np.maximum(_norms(self._triangular[1]), 1.0)
        last = np.maximum(self.rank - 1, 0)
        if not self.singular.shape[1]:
            return np.ones(len(self.q))
        return np.take_along_axis(self.singular, last[:, None], axis=1)[:, 0]

    def solve(self, wanted: Array, damping: Array | None = None) -> Array:
        """The x (n, nv) of least kinetic energy with G x = wanted (n, rows), in least squares.

        `damping` (n,) is added to the squares of the singular values; where the rows are
        independent beyond doubt, it is left out.
        """
        scaled = wanted / self.size
        if self._triangular is not None:
            Q, inverse = self._triangular
            along = np.swapaxes(inverse, -1, -2) @ scaled[:, self._alive, None]
            return (self._back @ (Q @ along))[..., 0]
        left, s, right = self._singular_values
        along = np.einsum("nrk,nr->nk", left, scaled)
        squares = s**2 if damping is None else s**2 + damping[:, None]
        gain = np.where(self._kept, s / np.where(squares > 0, squares, 1.0), 0.0)
        x = np.swapaxes(right, -1, -2) @ (gain * along)[..., None]
        return (self._back @ x)[..., 0]

    def multipliers(self, wanted: Array) -> Array:
        """p (n, rows) with ℳ x = G* p for the x of `solve`, least in the units of the rows."""
        left, s, _ = self._singular_values
        along = np.einsum("nrk,nr->nk", left, wanted / self.size)
        gain = np.where(self._kept, 1.0 / np.where(self._kept, s, 1.0) ** 2, 0.0)
        return np.einsum("nrk,nk->nr", left, gain * along) / self.size

    def contradiction(self, wanted: Array) -> Array:
        """Part of `wanted` (n, rows) that no motion gives, in the units of the rows."""
        scaled, left = wanted / self.size, self._singular_values[0]
        along = np.where(self._kept, np.einsum("nrk,nr->nk", left, scaled), 0.0)
        return (scaled - np.einsum("nrk,nk->nr", left, along)) * self.size

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


def _norms(matrices: Array) -> Array:
    """Largest singular values (n,) of matrices (n, m, m), by power iteration; a little low."""
    if not matrices.shape[-1]:
        return np.ones(len(matrices))
    x = np.square(matrices).sum(axis=-2)[..., None]
    for _ in range(4):
        y = matrices @ (x / np.sqrt(np.square(x).sum(axis=1, keepdims=True)))
        x = np.swapaxes(matrices, -1, -2) @ y
    return np.sqrt(np.square(y).sum(axis=(1, 2)))


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
