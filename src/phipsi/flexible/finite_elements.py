"""Finite elements of a body: their matrices and interfaces, checked, and those of meshes.

Matrices of linear elasticity for meshes of tetrahedra or hexahedra are scikit-fem's:
`pip install "phipsi[flexible]"`; files are read by meshio.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.core.spatial import skew
from phipsi.errors import ModelError, one_of

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Tie = Literal["rigid", "mean"]

WHO = "FlexibleInertia.from_matrices: "
SAME = 1e-6  # masses in x, y and z; forces of rigid motions against those of the elements
DENSE = 300  # up to so many unknowns all eigenvalues are computed
_SYMMETRY = 1e-8
_MESH = "FlexibleInertia.from_mesh: "
# Elements by kind of mesh and order of the displacements.
_ELEMENTS = {
    ("MeshTet", 1): "ElementTetP1",
    ("MeshTet", 2): "ElementTetP2",
    ("MeshHex", 1): "ElementHex1",
    ("MeshHex", 2): "ElementHex2",
}


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
class ElementMatrices:
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


def checked_elements(mass: Any, stiffness: Any, nodes: ArrayLike) -> ElementMatrices:
    """Matrices of a free body, or an error that says what is wrong with them."""
    import scipy.sparse as sparse

    places = numbers_of("nodes", nodes)
    if places.ndim != 2 or places.shape[1] != 3 or not np.isfinite(places).all():
        raise ModelError(
            f"{WHO}nodes must be finite positions (k, 3) in m, body axes; the shape is "
            f"{places.shape}."
        )
    k, found = len(places), {}
    for name, matrix in (("mass", mass), ("stiffness", stiffness)):
        try:
            if np.iscomplexobj(matrix):
                raise TypeError("its entries are complex, and a body has real ones")
            A = sparse.csr_array(matrix, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ModelError(f"{WHO}{name} is not a matrix of numbers: {error}") from error
        if A.shape not in ((3 * k, 3 * k), (6 * k, 6 * k)):
            raise ModelError(
                f"{WHO}{name} has shape {A.shape}; with {k} nodes it must be {(3 * k, 3 * k)} "
                f"(x, y, z of node 0, then of node 1, …) or {(6 * k, 6 * k)} (x, y, z and the "
                f"three rotations of each node)."
            )
        found[name] = A
    M, K = found["mass"], found["stiffness"]
    if M.shape != K.shape:
        raise ModelError(f"{WHO}mass has shape {M.shape}, but stiffness has {K.shape}.")
    d = M.shape[0] // k
    for name, A in found.items():
        if not np.isfinite(A.data).all():
            raise ModelError(f"{WHO}{name} has entries that are not finite.")
        gap = abs(A - A.T).tocoo()
        if gap.nnz and gap.data.max() > _SYMMETRY * abs(A).max():
            at = int(gap.data.argmax())
            i, j = int(gap.row[at]), int(gap.col[at])
            raise ModelError(
                f"{WHO}{name} is not symmetric: entry [{i}, {j}] is {A[i, j]:.6g} and "
                f"[{j}, {i}] is {A[j, i]:.6g} ({_unknown(i, d)} and {_unknown(j, d)}). Were only "
                f"the upper entries stored? Then use  A + A.T - scipy.sparse.diags(A.diagonal())"
            )
    body = ElementMatrices(M, K, places, d)
    _check_mass(body)
    _check_free(body)
    return body


def _check_mass(body: ElementMatrices) -> None:
    """Positive, and the same in all directions."""
    from scipy.sparse import diags_array

    diagonal = body.M.diagonal()
    if (diagonal < 0).any():
        i = int(diagonal.argmin())
        raise ModelError(
            f"{WHO}mass is not positive: its diagonal is {diagonal[i]:.4g} at "
            f"{_unknown(i, body.d)}."
        )
    sizes = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    scaled = diags_array(1 / sizes) @ body.M @ diags_array(1 / sizes)
    if scaled.shape[0] <= DENSE:
        values, vectors = np.linalg.eigh(scaled.toarray())
        lowest, shape = values[0], vectors[:, 0]
    else:
        start = np.random.default_rng(0).standard_normal(scaled.shape[0])
        lanczos = import_module("scipy.sparse.linalg")
        values, vectors = lanczos.eigsh(scaled, 1, which="SA", tol=1e-3, ncv=40, v0=start)
        lowest, shape = values[0], vectors[:, 0]
    if lowest < -_SYMMETRY:
        raise ModelError(
            f"{WHO}mass is not positive: with its diagonal scaled to 1 it has the eigenvalue "
            f"{lowest:.4g}, largest at {_unknown(int(np.abs(shape).argmax()), body.d)}."
        )
    B = body.motion(np.arange(len(body.nodes)), np.zeros(3))[:, :3]
    total = B.T @ (body.M @ B)
    if np.abs(total - np.eye(3) * np.trace(total) / 3).max() > SAME * np.trace(total):
        raise ModelError(
            f"{WHO}the total mass is ({total[0, 0]:.6g}, {total[1, 1]:.6g}, {total[2, 2]:.6g}) kg "
            f"in x, y and z; a body has the same in all directions. Were rows of held nodes "
            f"removed from mass? Give the matrices of the free body."
        )


def _check_free(body: ElementMatrices) -> None:
    """Rigid motions need no force."""
    B = body.motion(np.arange(len(body.nodes)), body.nodes.mean(axis=0))
    reach = np.abs(body.nodes - body.nodes.mean(axis=0)).max()
    forces = np.abs(body.K @ B)
    size = abs(body.K).max() * np.array([1.0, 1.0, 1.0, *3 * [reach]])
    worst = forces / np.where(size > 0, size, 1.0)
    i, j = np.unravel_index(worst.argmax(), worst.shape)
    if worst[i, j] > SAME:
        motion = ("translation", "rotation")[j // 3] + f" along {'xyz'[j % 3]}"
        raise ModelError(
            f"{WHO}stiffness resists a rigid {motion.replace('rotation along', 'rotation about')} "
            f"of the whole body (force {forces[i, j]:.3g} at {_unknown(int(i), body.d)}). Give the "
            f"matrices of the free body, without supports; the root is clamped here."
        )


def check_held(body: ElementMatrices, name: str, nodes: IntArray) -> None:
    """The nodes must determine a rigid motion."""
    B = body.motion(nodes, body.nodes[nodes].mean(axis=0))
    size = np.linalg.norm(B, axis=0)
    rank = np.linalg.matrix_rank(B / np.where(size > 0, size, 1.0), tol=1e-6)
    if rank < 6:
        few = "one node" if len(nodes) == 1 else f"{len(nodes)} nodes on one line"
        what = "the root" if name == "root" else f"port {name!r}"
        raise ModelError(
            f"{WHO}{what} has {few} with {body.d} degrees of freedom each, which do not determine "
            f"its rotation. Give at least three nodes that are not on one line."
        )


def interfaces_of(
    body: ElementMatrices,
    ports: Mapping[str, ArrayLike],
    held: IntArray,
    tie: Tie | Mapping[str, Tie],
    positions: Mapping[str, ArrayLike],
) -> list[Interface]:
    """The ports of a body, which share no nodes with each other or the root."""
    owner = dict.fromkeys(held.tolist(), "the root")
    for name in {*positions, *(tie if isinstance(tie, Mapping) else ())} - {*ports}:
        raise ModelError(f"{WHO}there is no port {name!r}; the ports are {list(ports)}.")
    found = []
    for name, given in ports.items():
        nodes = node_numbers(f"port {name!r}", given, len(body.nodes))
        kind = tie.get(name, "rigid") if isinstance(tie, Mapping) else tie
        one_of(f"{WHO}port {name!r}: tie", kind, ("rigid", "mean"), error=ModelError)
        for node in nodes.tolist():
            if node in owner:
                raise ModelError(
                    f"{WHO}node {node} belongs to {owner[node]} and to port {name!r}; interfaces "
                    f"must not share nodes."
                )
            owner[node] = f"port {name!r}"
        place = positions.get(name)
        at = body.nodes[nodes].mean(axis=0) if place is None else numbers_of("positions", place)
        if at.shape != (3,) or not np.isfinite(at).all():
            raise ModelError(f"{WHO}the position of port {name!r} must be three finite numbers.")
        check_held(body, name, nodes)
        reading, moving = rigid_motion_of(body, nodes, at), body.motion(nodes, at)
        found.append(Interface(name, nodes, at, kind, reading, moving))
    return found


def rigid_motion_of(body: ElementMatrices, nodes: IntArray, about: FloatArray) -> FloatArray:
    """Least squares: the rigid motion [v; θ] at a point that fits displacements best."""
    B = body.motion(nodes, about)
    if body.d == 6 and len(nodes) > 1:  # rotations in rad weigh as displacements at their reach
        reach = np.abs(body.nodes[nodes] - body.nodes[nodes].mean(axis=0)).max()
        weights = np.tile([1.0, 1.0, 1.0, *3 * [reach]], len(nodes))
        return np.asarray(np.linalg.pinv(weights[:, None] * B) * weights, dtype=np.float64)
    return np.asarray(np.linalg.pinv(B), dtype=np.float64)


def node_numbers(what: str, given: ArrayLike, count: int) -> IntArray:
    """Numbers of nodes, ascending, from numbers or a mask."""
    numbers = np.atleast_1d(np.asarray(given))
    if not numbers.size:
        raise ModelError(f"{WHO}{what} has no nodes.")
    if numbers.dtype == bool and numbers.shape == (count,):
        numbers = np.flatnonzero(numbers)
        if not numbers.size:
            raise ModelError(f"{WHO}{what} has no nodes: its mask is False everywhere.")
    if numbers.dtype.kind not in "iu" or numbers.ndim != 1:
        raise ModelError(f"{WHO}{what} must be a list of node numbers, not {given!r}.")
    if numbers.min() < 0 or numbers.max() >= count:
        raise ModelError(
            f"{WHO}{what} names node {numbers.max() if numbers.max() >= count else numbers.min()},"
            f" but there are the nodes 0 to {count - 1}."
        )
    return np.unique(numbers).astype(np.int64)


def numbers_of(name: str, given: Any) -> FloatArray:
    """An argument as an array."""
    try:
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ModelError(f"{WHO}{name} must be numbers: {error}") from error


def _unknown(i: int, d: int) -> str:
    kind = "xyz"[i % d] if i % d < 3 else f"the rotation about {'xyz'[i % d - 3]}"
    return f"{kind} of node {i // d}"


# ---- meshes --------------------------------------------------------------------------------------


def mesh_matrices(
    mesh: Any,
    young: float,
    poisson: float,
    density: float,
    *,
    root: Any,
    ports: Mapping[str, Any],
    order: int,
    origin: ArrayLike,
    scale: float,
) -> dict[str, Any]:
    """Return the first arguments of `from_matrices`: matrices, nodes, interfaces, surface."""
    skfem = _scikit_fem()
    _check_material(young, poisson, density)
    solid = _solid(skfem, mesh)
    kind = "MeshTet" if solid.p.shape[0] == 3 and "Tet" in type(solid).__name__ else "MeshHex"
    if order not in (1, 2):
        raise ModelError(f"{_MESH}order of the displacements must be 1 or 2, not {order!r}.")
    start = np.asarray(origin, dtype=np.float64)
    if start.shape != (3,) or not np.isfinite(start).all() or not float(scale) > 0:
        raise ModelError(
            f"{_MESH}origin must be three finite numbers and scale positive, not {origin!r} and "
            f"{scale!r}."
        )
    solid = solid.scaled(float(scale)).translated(tuple(-start))
    element = getattr(skfem, _ELEMENTS[kind, order])()
    scalar = skfem.Basis(solid, element)
    nodes = scalar.doflocs.T
    held = _nodes(scalar, nodes, "root", root)
    places = {name: _nodes(scalar, nodes, f"port {name!r}", x) for name, x in ports.items()}
    vector = scalar.with_element(skfem.ElementVector(element))
    unknowns = _unknowns(scalar, vector)
    elasticity = import_module("skfem.models.elasticity")
    K = elasticity.linear_elasticity(*elasticity.lame_parameters(young, poisson)).assemble(vector)
    masses = import_module("skfem.models.poisson").mass.assemble(scalar) * float(density)
    sparse = import_module("scipy.sparse")
    return {
        "mass": sparse.kron(masses, np.eye(3), format="csr"),
        "stiffness": K[unknowns][:, unknowns],
        "nodes": nodes,
        "root": held,
        "ports": places,
        "triangles": scalar.nodal_dofs[0][_surface(solid)],
    }


def _scikit_fem() -> Any:
    try:
        return import_module("skfem")
    except ImportError as error:
        raise ImportError(
            'FlexibleInertia.from_mesh needs scikit-fem:  pip install "phipsi[flexible]"'
        ) from error


def _check_material(young: Any, poisson: Any, density: Any) -> None:
    for name, value, low, high in (
        ("young", young, 0.0, np.inf),
        ("poisson", poisson, -1.0, 0.5),
        ("density", density, 0.0, np.inf),
    ):
        if not isinstance(value, int | float | np.number) or not low < value < high:
            raise ModelError(f"{_MESH}{name} must be between {low:g} and {high:g}, not {value!r}.")


def _solid(skfem: Any, mesh: Any) -> Any:
    """A mesh of solids, from a file, a mesh of meshio or one of scikit-fem."""
    if isinstance(mesh, str | os.PathLike):
        if not os.path.exists(mesh):
            raise ModelError(f"{_MESH}there is no file {os.fspath(mesh)!r}.")
        try:
            mesh = skfem.Mesh.load(os.fspath(mesh))
        except (Exception, SystemExit) as error:  # meshio's readers raise anything
            raise ModelError(
                f"{_MESH}{os.fspath(mesh)!r} cannot be read as a mesh: {error}"
            ) from error
    elif type(mesh).__module__.startswith("meshio"):
        mesh = import_module("skfem.io.meshio").from_meshio(mesh)
    if not isinstance(mesh, skfem.Mesh) or mesh.dim() != 3 or mesh.refdom.dim() != 3:
        what = type(mesh).__name__
        raise ModelError(
            f"{_MESH}{what} is not a mesh of solids. Give tetrahedra or hexahedra in space: a file "
            f"that meshio reads, a meshio.Mesh, or a skfem.MeshTet or skfem.MeshHex."
        )
    return mesh


def _unknowns(scalar: Any, vector: Any) -> IntArray:
    """Numbers of x, y, z of each node among the unknowns of the vector basis."""
    out = np.empty((scalar.N, 3), dtype=np.int64)
    for part in ("nodal_dofs", "edge_dofs", "facet_dofs", "interior_dofs"):
        ones, all_three = getattr(scalar, part), getattr(vector, part)
        for j, nodes in enumerate(ones if ones is not None else ()):
            for axis in range(3):
                out[nodes, axis] = all_three[3 * j + axis]
    return out.ravel()


def _nodes(scalar: Any, nodes: FloatArray, what: str, given: Any) -> Any:
    """Node numbers of an interface: by a function of positions, a name of the mesh, or corners."""
    if callable(given):
        mask = np.asarray(given(nodes))
        if mask.dtype != bool or mask.shape != (len(nodes),):
            raise ModelError(
                f"{_MESH}the function of {what} must give True or False for each of the "
                f"{len(nodes)} positions (k, 3), not {mask.dtype} of shape {mask.shape}. For "
                f"example:  lambda x: x[:, 0] > 0.99"
            )
        if not mask.any():
            raise ModelError(f"{_MESH}{what} has no nodes: its function is False everywhere.")
        return np.flatnonzero(mask)
    if isinstance(given, str):
        known = [*(scalar.mesh.boundaries or ())]
        if given not in known:
            raise ModelError(
                f"{_MESH}{what} is {given!r}, which the mesh does not name; it names {known}."
            )
        return scalar.get_dofs(given).all()
    corners, count = np.atleast_1d(np.asarray(given)), scalar.mesh.p.shape[1]
    if corners.size and (
        corners.dtype.kind not in "iu" or corners.min() < 0 or corners.max() >= count
    ):
        raise ModelError(
            f"{_MESH}{what} must be a function of positions, the name of a boundary, or vertex "
            f"numbers from 0 to {count - 1}, not {given!r}."
        )
    return scalar.nodal_dofs[0][corners.astype(np.int64)]


def _surface(mesh: Any) -> IntArray:
    """Vertex numbers (t, 3) of triangles on the boundary."""
    faces = mesh.facets[:, mesh.boundary_facets()].T
    if faces.shape[1] == 3:
        return faces
    return np.concatenate([faces[:, [0, 1, 2]], faces[:, [0, 2, 3]]])
