"""Modes of a body from the mass and stiffness matrices of its finite elements.

The root is clamped; every other interface is a port with six degrees of freedom, tied to its nodes
rigidly or as their weighted mean. One Cholesky factorization gives the static modes of the ports,
Z = K⁻¹ E, and the modes with the ports held still, through the same solves: K⁻¹ r minus what the
forces at the ports add, K⁻¹ r − Z (E* Z)⁻¹ Z* r. Formulas: docs/theory/flexible-bodies.md, 7.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.errors import ModelError, is_real, is_whole, one_of
from phipsi.flexible.invariants import invariants_of_matrix
from phipsi.flexible.nested_dissection import NotPositive, SparseCholesky
from phipsi.progress import Progress, make_progress
from phipsi.spatial import skew

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Tie = Literal["rigid", "mean"]
Basis = Literal["craig_bampton", "clamped"]

_WHO = "FlexibleInertia.from_matrices: "
_SYMMETRY = 1e-8
_SAME = 1e-6  # masses in x, y and z; forces of rigid motions against those of the elements
_FACTORED = 60.0  # per cent of the work, as the bar shows it
_MOST_POINTS = 1500  # that are kept for pictures of a body without triangles
_MOST_SEGMENTS = 1500
_DENSE = 300  # up to so many unknowns all eigenvalues are computed


@dataclass(frozen=True)
class Interface:
    """A port before reduction: its nodes, place, tie, and rows that read its motion [v; θ]."""

    name: str
    nodes: IntArray
    position: FloatArray
    tie: Tie
    reading: FloatArray  # (6, nodes · d): motion of the port from displacements of its nodes
    moving: FloatArray  # (nodes · d, 6): displacements of its nodes as a rigid piece


@dataclass(frozen=True)
class Elements:
    """Checked matrices of a free body: k nodes with d = 3 or 6 degrees of freedom each."""

    M: Any
    K: Any
    nodes: FloatArray
    d: int

    def unknowns(self, nodes: IntArray) -> IntArray:
        """Numbers of the degrees of freedom of nodes, one node after the other."""
        return (self.d * nodes[:, None] + np.arange(self.d)).ravel()

    def motion(self, nodes: IntArray, about: FloatArray) -> FloatArray:
        """Displacements (nodes · d, 6) when the nodes move rigidly with [v; θ] at a point."""
        B = np.zeros((len(nodes), self.d, 6))
        B[:, :3, :3], B[:, :3, 3:] = np.eye(3), -skew(self.nodes[nodes] - about)
        if self.d == 6:
            B[:, 3:, 3:] = np.eye(3)
        return B.reshape(-1, 6)


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
    body = _checked_elements(mass, stiffness, nodes)
    held = _node_numbers("root", root, len(body.nodes))
    interfaces = _interfaces(body, ports, held, tie, positions or {})
    _check_held(body, "root", held)
    one_of(f"{_WHO}basis", basis, ("craig_bampton", "clamped"), error=ModelError)
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
                f"{_WHO}no mode is left: the lowest has {np.sqrt(squares[0]):.4g} rad/s, and "
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


def _port(body: Elements, x: Interface, shapes: FloatArray) -> dict[str, Any]:
    motion = x.reading @ shapes[body.unknowns(x.nodes)]
    return {"name": x.name, "position": x.position, "moves": motion[:3], "turns": motion[3:]}


def _picture(body: Elements, fields: FloatArray, triangles: ArrayLike) -> dict[str, Any]:
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


def _joined(body: Elements) -> IntArray:
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
    body: Elements, held: IntArray, interfaces: list[Interface], count: int, basis: Basis,
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
            f"{_WHO}{count} modes are asked for, but with root and ports held there are only "
            f"{available} degrees of freedom."
        )
    if not count and not E.shape[1]:
        raise ModelError(f"{_WHO}modes=0 without ports leaves nothing that deforms.")
    normal = _normal_modes(factor, M, E, Z, count, report)
    return T @ np.hstack([Z, normal])


def _loads(body: Elements, T: Any, x: Interface, rigid: list[Interface], inner: int) -> FloatArray:
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

    if size <= _DENSE or count > size // 3:
        values, vectors = np.linalg.eigh(M.toarray())
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        soft, mixed = np.linalg.eigh(root.T @ flexibility(root))
        return flexibility(root @ mixed[:, ::-1][:, :count]) / soft[::-1][:count]
    lanczos = import_module("scipy.sparse.linalg")
    start = flexibility(M @ np.random.default_rng(0).standard_normal(size))
    operator = lanczos.LinearOperator((size, size), matvec=flexibility, dtype=np.float64)
    _, found = lanczos.eigsh(M, count, M, sigma=0.0, OPinv=operator, v0=start, tol=1e-10)
    return found


def _given_shapes(body: Elements, held: IntArray, modes: Any) -> FloatArray:
    """Shapes of the user, relative to the mean motion of the root."""
    shapes = _numbers("modes", modes)
    if shapes.ndim != 3 or shapes.shape[:2] != (len(body.nodes), body.d):
        raise ModelError(
            f"{_WHO}modes must be a number of modes or shapes ({len(body.nodes)}, {body.d}, n), "
            f"one displacement per node and mode; the shape is {shapes.shape}."
        )
    flat = shapes.reshape(-1, shapes.shape[2])
    motion = _reading(body, held, np.zeros(3)) @ flat[body.unknowns(held)]
    flat = flat - body.motion(np.arange(len(body.nodes)), np.zeros(3)) @ motion
    modal = flat.T @ (body.M @ flat)
    sizes = np.sqrt(np.maximum(np.diagonal(modal), 0.0))
    idle = np.flatnonzero(sizes <= 1e-9 * sizes.max(initial=0.0))
    if len(idle):
        raise ModelError(
            f"{_WHO}mode {idle[0]} moves nothing relative to the root: it is a rigid motion. Leave "
            f"it out; the joint moves the body as a whole."
        )
    alike = np.abs(modal / np.outer(sizes, sizes)) - np.eye(len(sizes))
    i, j = np.unravel_index(alike.argmax(), alike.shape)
    if alike[i, j] > 1 - 1e-8:
        raise ModelError(
            f"{_WHO}modes {min(i, j)} and {max(i, j)} are equal up to a factor and a rigid motion. "
            f"Leave one of them out."
        )
    return flat


def _orthonormal(body: Elements, shapes: FloatArray) -> tuple[FloatArray, FloatArray]:
    """K x = ω² M x within the span of the shapes: squares of frequencies, shapes, ascending."""
    shapes = shapes / np.sqrt(np.einsum("ki,ki->i", shapes, body.M @ shapes))
    values, vectors = np.linalg.eigh(shapes.T @ (body.M @ shapes))
    kept = values > 1e-12 * values[-1]  # static modes of two ports may be the same
    shapes = shapes @ (vectors[:, kept] / np.sqrt(values[kept]))
    squares, mixed = np.linalg.eigh(shapes.T @ (body.K @ shapes))
    shapes = shapes @ mixed
    if squares[0] < -_SAME * abs(squares[-1]):
        raise ModelError(
            f"{_WHO}stiffness is not positive: a shape has the elastic energy {squares[0] / 2:.3g}."
        )
    largest = np.abs(shapes).argmax(axis=0)
    signs = np.sign(shapes[largest, np.arange(shapes.shape[1])])
    return np.maximum(squares, 0.0), shapes * signs


# ---- checks -------------------------------------------------------------------------------------


def _checked_elements(mass: Any, stiffness: Any, nodes: ArrayLike) -> Elements:
    import scipy.sparse as sparse

    places = _numbers("nodes", nodes)
    if places.ndim != 2 or places.shape[1] != 3 or not np.isfinite(places).all():
        raise ModelError(
            f"{_WHO}nodes must be finite positions (k, 3) in m, body axes; the shape is "
            f"{places.shape}."
        )
    k, found = len(places), {}
    for name, matrix in (("mass", mass), ("stiffness", stiffness)):
        try:
            if np.iscomplexobj(matrix):
                raise TypeError("its entries are complex, and a body has real ones")
            A = sparse.csr_array(matrix, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ModelError(f"{_WHO}{name} is not a matrix of numbers: {error}") from error
        if A.shape not in ((3 * k, 3 * k), (6 * k, 6 * k)):
            raise ModelError(
                f"{_WHO}{name} has shape {A.shape}; with {k} nodes it must be {(3 * k, 3 * k)} "
                f"(x, y, z of node 0, then of node 1, …) or {(6 * k, 6 * k)} (x, y, z and the "
                f"three rotations of each node)."
            )
        found[name] = A
    M, K = found["mass"], found["stiffness"]
    if M.shape != K.shape:
        raise ModelError(f"{_WHO}mass has shape {M.shape}, but stiffness has {K.shape}.")
    d = M.shape[0] // k
    for name, A in found.items():
        if not np.isfinite(A.data).all():
            raise ModelError(f"{_WHO}{name} has entries that are not finite.")
        gap = abs(A - A.T).tocoo()
        if gap.nnz and gap.data.max() > _SYMMETRY * abs(A).max():
            at = int(gap.data.argmax())
            i, j = int(gap.row[at]), int(gap.col[at])
            raise ModelError(
                f"{_WHO}{name} is not symmetric: entry [{i}, {j}] is {A[i, j]:.6g} and "
                f"[{j}, {i}] is {A[j, i]:.6g} ({_unknown(i, d)} and {_unknown(j, d)}). Were only "
                f"the upper entries stored? Then use  A + A.T - scipy.sparse.diags(A.diagonal())"
            )
    body = Elements(M, K, places, d)
    _check_mass(body)
    _check_free(body)
    return body


def _check_mass(body: Elements) -> None:
    """Positive, and the same in all directions."""
    from scipy.sparse import diags_array

    diagonal = body.M.diagonal()
    if (diagonal < 0).any():
        i = int(diagonal.argmin())
        raise ModelError(
            f"{_WHO}mass is not positive: its diagonal is {diagonal[i]:.4g} at "
            f"{_unknown(i, body.d)}."
        )
    sizes = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    scaled = diags_array(1 / sizes) @ body.M @ diags_array(1 / sizes)
    if scaled.shape[0] <= _DENSE:
        values, vectors = np.linalg.eigh(scaled.toarray())
        lowest, shape = values[0], vectors[:, 0]
    else:
        start = np.random.default_rng(0).standard_normal(scaled.shape[0])
        lanczos = import_module("scipy.sparse.linalg")
        values, vectors = lanczos.eigsh(scaled, 1, which="SA", tol=1e-3, ncv=40, v0=start)
        lowest, shape = values[0], vectors[:, 0]
    if lowest < -_SYMMETRY:
        raise ModelError(
            f"{_WHO}mass is not positive: with its diagonal scaled to 1 it has the eigenvalue "
            f"{lowest:.4g}, largest at {_unknown(int(np.abs(shape).argmax()), body.d)}."
        )
    B = body.motion(np.arange(len(body.nodes)), np.zeros(3))[:, :3]
    total = B.T @ (body.M @ B)
    if np.abs(total - np.eye(3) * np.trace(total) / 3).max() > _SAME * np.trace(total):
        raise ModelError(
            f"{_WHO}the total mass is ({total[0, 0]:.6g}, {total[1, 1]:.6g}, {total[2, 2]:.6g}) kg "
            f"in x, y and z; a body has the same in all directions. Were rows of held nodes "
            f"removed from mass? Give the matrices of the free body."
        )


def _check_free(body: Elements) -> None:
    """Rigid motions need no force."""
    B = body.motion(np.arange(len(body.nodes)), body.nodes.mean(axis=0))
    reach = np.abs(body.nodes - body.nodes.mean(axis=0)).max()
    forces = np.abs(body.K @ B)
    size = abs(body.K).max() * np.array([1.0, 1.0, 1.0, *3 * [reach]])
    worst = forces / np.where(size > 0, size, 1.0)
    i, j = np.unravel_index(worst.argmax(), worst.shape)
    if worst[i, j] > _SAME:
        motion = ("translation", "rotation")[j // 3] + f" along {'xyz'[j % 3]}"
        raise ModelError(
            f"{_WHO}stiffness resists a rigid {motion.replace('rotation along', 'rotation about')} "
            f"of the whole body (force {forces[i, j]:.3g} at {_unknown(int(i), body.d)}). Give the "
            f"matrices of the free body, without supports; the root is clamped here."
        )


def _check_held(body: Elements, name: str, nodes: IntArray) -> None:
    """The nodes must determine a rigid motion."""
    B = body.motion(nodes, body.nodes[nodes].mean(axis=0))
    size = np.linalg.norm(B, axis=0)
    rank = np.linalg.matrix_rank(B / np.where(size > 0, size, 1.0), tol=1e-6)
    if rank < 6:
        few = "one node" if len(nodes) == 1 else f"{len(nodes)} nodes on one line"
        what = "the root" if name == "root" else f"port {name!r}"
        raise ModelError(
            f"{_WHO}{what} has {few} with {body.d} degrees of freedom each, which do not determine "
            f"its rotation. Give at least three nodes that are not on one line."
        )


def _not_positive(
    body: Elements, held: IntArray, free: IntArray, rigid: list[Interface], error: NotPositive
) -> ModelError:
    """Say which part of the body is not held, and why."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    beyond = error.unknown - body.d * len(free)
    at = int(free[error.unknown // body.d] if beyond < 0 else rigid[beyond // 6].nodes[0])
    if error.ratio < -1e-9:
        return ModelError(
            f"{_WHO}stiffness is not positive: elimination reaches a negative pivot "
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
            f"{_WHO}{len(loose)} nodes are not connected to the root, for example node "
            f"{loose[0]} at {body.nodes[loose[0]].tolist()}: that part can move freely. Remove it, "
            f"or merge nodes that are at the same place."
        )
    return ModelError(
        f"{_WHO}a part of the body near node {at}, {body.nodes[at].tolist()}, can move without "
        f"any elastic force although the root is held: elements that share only one node or one "
        f"edge are hinges. Connect them, or remove the part."
    )


def _interfaces(
    body: Elements,
    ports: Mapping[str, ArrayLike],
    held: IntArray,
    tie: Tie | Mapping[str, Tie],
    positions: Mapping[str, ArrayLike],
) -> list[Interface]:
    owner = dict.fromkeys(held.tolist(), "the root")
    for name in {*positions, *(tie if isinstance(tie, Mapping) else ())} - {*ports}:
        raise ModelError(f"{_WHO}there is no port {name!r}; the ports are {list(ports)}.")
    found = []
    for name, given in ports.items():
        nodes = _node_numbers(f"port {name!r}", given, len(body.nodes))
        kind = tie.get(name, "rigid") if isinstance(tie, Mapping) else tie
        one_of(f"{_WHO}port {name!r}: tie", kind, ("rigid", "mean"), error=ModelError)
        for node in nodes.tolist():
            if node in owner:
                raise ModelError(
                    f"{_WHO}node {node} belongs to {owner[node]} and to port {name!r}; interfaces "
                    f"must not share nodes."
                )
            owner[node] = f"port {name!r}"
        place = positions.get(name)
        at = body.nodes[nodes].mean(axis=0) if place is None else _numbers("positions", place)
        if at.shape != (3,) or not np.isfinite(at).all():
            raise ModelError(f"{_WHO}the position of port {name!r} must be three finite numbers.")
        _check_held(body, name, nodes)
        reading, moving = _reading(body, nodes, at), body.motion(nodes, at)
        found.append(Interface(name, nodes, at, kind, reading, moving))
    return found


def _reading(body: Elements, nodes: IntArray, about: FloatArray) -> FloatArray:
    """Least squares: the rigid motion [v; θ] at a point that fits displacements best."""
    B = body.motion(nodes, about)
    if body.d == 6 and len(nodes) > 1:  # rotations in rad weigh as displacements at their reach
        reach = np.abs(body.nodes[nodes] - body.nodes[nodes].mean(axis=0)).max()
        weights = np.tile([1.0, 1.0, 1.0, *3 * [reach]], len(nodes))
        return np.asarray(np.linalg.pinv(weights[:, None] * B) * weights, dtype=np.float64)
    return np.asarray(np.linalg.pinv(B), dtype=np.float64)


def _node_numbers(what: str, given: ArrayLike, count: int) -> IntArray:
    numbers = np.atleast_1d(np.asarray(given))
    if not numbers.size:
        raise ModelError(f"{_WHO}{what} has no nodes.")
    if numbers.dtype == bool and numbers.shape == (count,):
        numbers = np.flatnonzero(numbers)
        if not numbers.size:
            raise ModelError(f"{_WHO}{what} has no nodes: its mask is False everywhere.")
    if numbers.dtype.kind not in "iu" or numbers.ndim != 1:
        raise ModelError(f"{_WHO}{what} must be a list of node numbers, not {given!r}.")
    if numbers.min() < 0 or numbers.max() >= count:
        raise ModelError(
            f"{_WHO}{what} names node {numbers.max() if numbers.max() >= count else numbers.min()},"
            f" but there are the nodes 0 to {count - 1}."
        )
    return np.unique(numbers).astype(np.int64)


def _numbers(name: str, given: Any) -> FloatArray:
    try:
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ModelError(f"{_WHO}{name} must be numbers: {error}") from error


def _whole_number(name: str, given: Any) -> int:
    if not is_whole(given) or given < 0:
        raise ModelError(f"{_WHO}{name} must be a whole number ≥ 0 or shapes, not {given!r}.")
    return int(given)


def _check_number(name: str, given: Any) -> None:
    if not is_real(given) or not given >= 0:
        raise ModelError(f"{_WHO}{name} must be a number ≥ 0, not {given!r}.")


def _unknown(i: int, d: int) -> str:
    kind = "xyz"[i % d] if i % d < 3 else f"the rotation about {'xyz'[i % d - 3]}"
    return f"{kind} of node {i // d}"
