"""Modes of a body from the mass and stiffness matrices of its finite elements.

The root is clamped; every other interface is a port with six degrees of freedom, tied to its nodes
rigidly or as their weighted mean. One Cholesky factorization gives the static modes of the ports,
Z = K⁻¹ E, and the modes with the ports held still, through the same solves: K⁻¹ r minus what the
forces at the ports add, K⁻¹ r − Z (E* Z)⁻¹ Z* r. Formulas: docs/theory/flexible-bodies.md, 7.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.errors import ModelError, is_real, is_whole, one_of
from phipsi.flexible.finite_elements import (
    DENSE,
    SAME,
    WHO,
    ElementMatrices,
    Interface,
    Tie,
    check_held,
    checked_elements,
    interfaces_of,
    node_numbers,
    numbers_of,
    rigid_motion_of,
)
from phipsi.flexible.invariants import invariants_of_matrix
from phipsi.support import Progress, make_progress

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Basis = Literal["craig_bampton", "clamped"]

_FACTORED = 60.0  # per cent of the work, as the bar shows it
_MOST_POINTS = 1500  # that are kept for pictures of a body without triangles
_MOST_SEGMENTS = 1500
_LEAF = 300  # degrees of freedom that are eliminated at once
_PIVOT = 1e-13  # of the diagonal: below it, rounding is all that holds the body


def from_matrices(
    mass: Any,
    stiffness: Any,
    nodes: ArrayLike,
    *,
    root: ArrayLike,
    ports: Mapping[str, ArrayLike],
    modes: Any,
    max_frequency: float,
    damping_ratio: float,
    basis: Basis,
    tie: Tie | Mapping[str, Tie],
    positions: Mapping[str, ArrayLike] | None,
    triangles: ArrayLike,
    progress: Any,
) -> dict[str, Any]:
    """Return the arguments of FlexibleInertia."""
    body = checked_elements(mass, stiffness, nodes)
    held = node_numbers("root", root, len(body.nodes))
    interfaces = interfaces_of(body, ports, held, tie, positions or {})
    check_held(body, "root", held)
    one_of(f"{WHO}basis", basis, ("craig_bampton", "clamped"), error=ModelError)
    _check_number("max_frequency", max_frequency)
    _check_number("damping_ratio", damping_ratio)
    report = make_progress(progress, 100.0, "computing modes", "%")
    try:
        if np.ndim(modes):
            shapes = _given_shapes(body, held, modes)
        else:
            count = _whole_number("modes", modes)
            shapes = _computed_shapes(body, held, interfaces, count, basis, report)
        report.advance(95.0)
        squares, shapes = _orthonormal(body, shapes)
        kept = np.sqrt(squares) <= max_frequency
        if not kept.any():
            raise ModelError(
                f"{WHO}no mode is left: the lowest has {np.sqrt(squares[0]):.4g} rad/s, and "
                f"max_frequency is {max_frequency:.4g} rad/s."
            )
        frequencies, shapes = np.sqrt(squares[kept]), shapes[:, kept]
        fields = shapes.reshape(len(body.nodes), body.d, -1)
        found = invariants_of_matrix(body.M, body.nodes, fields)
    finally:
        report.close()
    return {
        **found,
        "stiffness": np.diag(frequencies**2),
        "damping": np.diag(2 * damping_ratio * frequencies),
        "ports": [_port(body, x, shapes) for x in interfaces],
        "shape": _picture(body, fields, triangles),
    }


def _port(body: ElementMatrices, x: Interface, shapes: FloatArray) -> dict[str, Any]:
    motion = x.reading @ shapes[body.unknowns(x.nodes)]
    return {
        "name": x.name,
        "position": x.position,
        "translation_modes": motion[:3],
        "rotation_modes": motion[3:],
    }


def _picture(body: ElementMatrices, fields: FloatArray, triangles: ArrayLike) -> dict[str, Any]:
    """The nodes of the triangles; without, the nodes and what joins them, or some as points."""
    corners = np.asarray(triangles)
    joined = np.zeros((0, 2), dtype=int) if corners.size else _joined(body)
    if len(joined):
        return {"nodes": body.nodes, "modes": fields[:, :3], "segments": joined}
    if not corners.size:
        some = np.unique(np.linspace(0, len(body.nodes) - 1, _MOST_POINTS).astype(int))
        return {"nodes": body.nodes[some], "modes": fields[some, :3]}
    used, again = np.unique(corners, return_inverse=True)
    return {
        "nodes": body.nodes[used],
        "modes": fields[used, :3],
        "triangles": again.reshape(corners.shape),
    }


def _joined(body: ElementMatrices) -> IntArray:
    """Pairs of nodes (s, 2) with stiffness between them; none where there are too many to see."""
    entries = body.K.tocoo()
    if entries.nnz > 2 * body.d**2 * _MOST_SEGMENTS + body.K.shape[0] * body.d:
        return np.zeros((0, 2), dtype=int)
    i, j = entries.row // body.d, entries.col // body.d
    there = (i < j) & (entries.data != 0)
    pairs = np.unique(np.stack([i, j], axis=-1)[there], axis=0)
    return pairs if len(pairs) <= _MOST_SEGMENTS else pairs[:0]


# ---- shapes: columns of displacements of all nodes ---------------------------------------------


def _computed_shapes(
    body: ElementMatrices, held: IntArray, interfaces: list[Interface], count: int, basis: Basis,
    report: Progress,
) -> FloatArray:  # fmt: skip
    """Static modes of the ports and `count` normal modes, not yet orthonormal."""
    import scipy.sparse as sparse

    rigid = [x for x in interfaces if x.tie == "rigid"]
    bound = np.concatenate([held, *(x.nodes for x in rigid)])
    free = np.setdiff1d(np.arange(len(body.nodes)), bound)
    inner, size = len(free) * body.d, len(body.nodes) * body.d
    columns = [sparse.csr_array((np.ones(inner), (body.unknowns(free), np.arange(inner))),
                                shape=(size, inner))]  # fmt: skip
    for x in rigid:
        rows = np.repeat(body.unknowns(x.nodes), 6)
        at = np.tile(np.arange(6), len(x.moving))
        columns.append(sparse.csr_array((x.moving.ravel(), (rows, at)), shape=(size, 6)))
    T: Any = sparse.csr_array(sparse.hstack(columns))
    K: Any = sparse.csr_array(T.T @ body.K @ T)
    M: Any = sparse.csr_array(T.T @ body.M @ T)
    places = [np.repeat(body.nodes[free], body.d, axis=0)]
    places += [np.tile(x.position, (6, 1)) for x in rigid]
    try:
        factor = SparseCholesky(
            K, np.concatenate(places), 6 * len(rigid), lambda x: report.advance(_FACTORED * x)
        )
    except NotPositive as error:
        raise _not_positive(body, held, free, rigid, error) from None
    E = np.zeros((K.shape[0], 0))
    if basis == "craig_bampton" and interfaces:
        E = np.hstack([_loads(body, T, x, rigid, inner) for x in interfaces])
    Z = factor.solve(E) if E.shape[1] else E
    available = K.shape[0] - E.shape[1]
    if count > available:
        raise ModelError(
            f"{WHO}{count} modes are asked for, but with root and ports held there are only "
            f"{available} degrees of freedom."
        )
    if not count and not E.shape[1]:
        raise ModelError(f"{WHO}modes=0 without ports leaves nothing that deforms.")
    normal = _normal_modes(factor, M, E, Z, count, report)
    return T @ np.hstack([Z, normal])


def _loads(
    body: ElementMatrices, T: Any, x: Interface, rigid: list[Interface], inner: int
) -> FloatArray:
    """E of one port: unit forces and torques there, as forces on the reduced unknowns."""
    if x.tie == "mean":
        spread = np.zeros((T.shape[0], 6))
        spread[body.unknowns(x.nodes)] = x.reading.T
        return T.T @ spread
    k = next(i for i, other in enumerate(rigid) if other is x)
    E = np.zeros((T.shape[1], 6))
    E[inner + 6 * k : inner + 6 * k + 6] = np.eye(6)
    return E


def _normal_modes(
    factor: SparseCholesky, M: Any, E: FloatArray, Z: FloatArray, count: int, report: Progress
) -> FloatArray:
    """Modes of lowest frequency with E* x = 0, by Lanczos' method with K⁻¹ (shift 0)."""
    size = M.shape[0]
    if not count:
        return np.zeros((size, 0))
    across = np.linalg.inv(E.T @ Z) if E.shape[1] else np.zeros((0, 0))
    done = 0

    def flexibility(forces: FloatArray) -> FloatArray:
        """Displacements of forces, with the ports held still."""
        nonlocal done
        done += 1
        report.advance(_FACTORED + (90.0 - _FACTORED) * (1 - np.exp(-done / (2.0 * count + 10))))
        return factor.solve(forces) - Z @ (across @ (Z.T @ forces))

    if size <= DENSE or count > size // 3:
        values, vectors = np.linalg.eigh(M.toarray())
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        soft, mixed = np.linalg.eigh(root.T @ flexibility(root))
        return flexibility(root @ mixed[:, ::-1][:, :count]) / soft[::-1][:count]
    lanczos = import_module("scipy.sparse.linalg")
    start = flexibility(M @ np.random.default_rng(0).standard_normal(size))
    operator = lanczos.LinearOperator((size, size), matvec=flexibility, dtype=np.float64)
    _, found = lanczos.eigsh(M, count, M, sigma=0.0, OPinv=operator, v0=start, tol=1e-10)
    return found


def _given_shapes(body: ElementMatrices, held: IntArray, modes: Any) -> FloatArray:
    """Shapes of the user, relative to the mean motion of the root."""
    shapes = numbers_of("modes", modes)
    if shapes.ndim != 3 or shapes.shape[:2] != (len(body.nodes), body.d):
        raise ModelError(
            f"{WHO}modes must be a number of modes or shapes ({len(body.nodes)}, {body.d}, n), "
            f"one displacement per node and mode; the shape is {shapes.shape}."
        )
    flat = shapes.reshape(-1, shapes.shape[2])
    motion = rigid_motion_of(body, held, np.zeros(3)) @ flat[body.unknowns(held)]
    flat = flat - body.motion(np.arange(len(body.nodes)), np.zeros(3)) @ motion
    modal = flat.T @ (body.M @ flat)
    sizes = np.sqrt(np.maximum(np.diagonal(modal), 0.0))
    idle = np.flatnonzero(sizes <= 1e-9 * sizes.max(initial=0.0))
    if len(idle):
        raise ModelError(
            f"{WHO}mode {idle[0]} moves nothing relative to the root: it is a rigid motion. Remove "
            "it; the joint moves the body as a whole."
        )
    alike = np.abs(modal / np.outer(sizes, sizes)) - np.eye(len(sizes))
    i, j = np.unravel_index(alike.argmax(), alike.shape)
    if alike[i, j] > 1 - 1e-8:
        raise ModelError(
            f"{WHO}modes {min(i, j)} and {max(i, j)} are equal up to a factor and a rigid motion. "
            "Remove one of them."
        )
    return flat


def _orthonormal(body: ElementMatrices, shapes: FloatArray) -> tuple[FloatArray, FloatArray]:
    """K x = ω² M x within the span of the shapes: squares of frequencies, shapes, ascending."""
    shapes = shapes / np.sqrt(np.einsum("ki,ki->i", shapes, body.M @ shapes))
    values, vectors = np.linalg.eigh(shapes.T @ (body.M @ shapes))
    kept = values > 1e-12 * values[-1]  # static modes of two ports may be the same
    shapes = shapes @ (vectors[:, kept] / np.sqrt(values[kept]))
    squares, mixed = np.linalg.eigh(shapes.T @ (body.K @ shapes))
    shapes = shapes @ mixed
    if squares[0] < -SAME * abs(squares[-1]):
        raise ModelError(
            f"{WHO}stiffness is not positive: a shape has the elastic energy {squares[0] / 2:.3g}."
        )
    largest = np.abs(shapes).argmax(axis=0)
    signs = np.sign(shapes[largest, np.arange(shapes.shape[1])])
    return np.maximum(squares, 0.0), shapes * signs


def _whole_number(name: str, given: Any) -> int:
    if not is_whole(given) or given < 0:
        raise ModelError(f"{WHO}{name} must be an integer ≥ 0 or shapes, not {given!r}.")
    return int(given)


def _check_number(name: str, given: Any) -> None:
    if not is_real(given) or not given >= 0:
        raise ModelError(f"{WHO}{name} must be a number ≥ 0, not {given!r}.")


def _not_positive(
    body: ElementMatrices,
    held: IntArray,
    free: IntArray,
    rigid: list[Interface],
    error: NotPositive,
) -> ModelError:
    """Say which part of the body is not held, and why."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    beyond = error.unknown - body.d * len(free)
    at = int(free[error.unknown // body.d] if beyond < 0 else rigid[beyond // 6].nodes[0])
    if error.ratio < -1e-9:
        return ModelError(
            f"{WHO}stiffness is not positive: elimination reaches a negative pivot "
            f"({error.ratio:.3g} of the diagonal) at node {at}, {body.nodes[at].tolist()}."
        )
    pattern = body.K.tocoo()
    pairs = (pattern.row // body.d, pattern.col // body.d)
    ties = [(np.full(len(x.nodes), x.nodes[0]), x.nodes) for x in rigid]
    rows = np.concatenate([pairs[0], *(a for a, _ in ties)])
    columns = np.concatenate([pairs[1], *(b for _, b in ties)])
    links = (np.ones(len(rows)), (rows, columns))
    _, label = connected_components(coo_array(links, shape=(len(body.nodes),) * 2), directed=False)
    loose = np.flatnonzero(~np.isin(label, label[held]))
    if len(loose):
        return ModelError(
            f"{WHO}{len(loose)} nodes are not connected to the root, for example node "
            f"{loose[0]} at {body.nodes[loose[0]].tolist()}: that part can move freely. Remove it, "
            f"or merge nodes that are at the same place."
        )
    return ModelError(
        f"{WHO}a part of the body near node {at}, {body.nodes[at].tolist()}, can move without "
        f"any elastic force although the root is held: elements that share only one node or one "
        f"edge are hinges. Connect them, or remove the part."
    )


# ---- Cholesky factors ----------------------------------------------------------------------------


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

    The body is cut in half across its longest side; nodes of one half that touch the other are
    eliminated after both, and so on down. What a piece leaves behind for the pieces above it is a
    dense matrix, so that nearly all arithmetic is that of BLAS (George 1973; Duff and Reid 1983).
    SciPy's general factorization (SuperLU with COLAMD) takes seven times as long for a cube with
    28,000 degrees of freedom, and the ratio grows.

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
