"""Matrices of linear elasticity for meshes of tetrahedra or hexahedra, by scikit-fem.

`pip install "phipsi[flexible]"`; files are read by meshio.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.errors import ModelError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_WHO = "FlexibleInertia.from_mesh: "
# Elements by kind of mesh and order of the displacements.
_ELEMENTS = {
    ("MeshTet", 1): "ElementTetP1",
    ("MeshTet", 2): "ElementTetP2",
    ("MeshHex", 1): "ElementHex1",
    ("MeshHex", 2): "ElementHex2",
}


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
        raise ModelError(f"{_WHO}order of the displacements must be 1 or 2, not {order!r}.")
    start = np.asarray(origin, dtype=np.float64)
    if start.shape != (3,) or not np.isfinite(start).all() or not float(scale) > 0:
        raise ModelError(
            f"{_WHO}origin must be three finite numbers and scale positive, not {origin!r} and "
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
            raise ModelError(f"{_WHO}{name} must be between {low:g} and {high:g}, not {value!r}.")


def _solid(skfem: Any, mesh: Any) -> Any:
    """A mesh of solids, from a file, a mesh of meshio or one of scikit-fem."""
    if isinstance(mesh, str | os.PathLike):
        if not os.path.exists(mesh):
            raise ModelError(f"{_WHO}there is no file {os.fspath(mesh)!r}.")
        try:
            mesh = skfem.Mesh.load(os.fspath(mesh))
        except (Exception, SystemExit) as error:  # meshio's readers raise anything
            raise ModelError(
                f"{_WHO}{os.fspath(mesh)!r} cannot be read as a mesh: {error}"
            ) from error
    elif type(mesh).__module__.startswith("meshio"):
        mesh = import_module("skfem.io.meshio").from_meshio(mesh)
    if not isinstance(mesh, skfem.Mesh) or mesh.dim() != 3 or mesh.refdom.dim() != 3:
        what = type(mesh).__name__
        raise ModelError(
            f"{_WHO}{what} is not a mesh of solids. Give tetrahedra or hexahedra in space: a file "
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
                f"{_WHO}the function of {what} must give True or False for each of the "
                f"{len(nodes)} positions (k, 3), not {mask.dtype} of shape {mask.shape}. For "
                f"example:  lambda x: x[:, 0] > 0.99"
            )
        if not mask.any():
            raise ModelError(f"{_WHO}{what} has no nodes: its function is False everywhere.")
        return np.flatnonzero(mask)
    if isinstance(given, str):
        known = [*(scalar.mesh.boundaries or ())]
        if given not in known:
            raise ModelError(
                f"{_WHO}{what} is {given!r}, which the mesh does not name; it names {known}."
            )
        return scalar.get_dofs(given).all()
    corners, count = np.atleast_1d(np.asarray(given)), scalar.mesh.p.shape[1]
    if corners.size and (
        corners.dtype.kind not in "iu" or corners.min() < 0 or corners.max() >= count
    ):
        raise ModelError(
            f"{_WHO}{what} must be a function of positions, the name of a boundary, or vertex "
            f"numbers from 0 to {count - 1}, not {given!r}."
        )
    return scalar.nodal_dofs[0][corners.astype(np.int64)]


def _surface(mesh: Any) -> IntArray:
    """Vertex numbers (t, 3) of triangles on the boundary."""
    faces = mesh.facets[:, mesh.boundary_facets()].T
    if faces.shape[1] == 3:
        return faces
    return np.concatenate([faces[:, [0, 1, 2]], faces[:, [0, 2, 3]]])
