"""Volume, mass centre and moment of inertia of homogeneous solids."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.errors import ModelError, real_of

FloatArray = NDArray[np.float64]


class Solid(NamedTuple):
    """A homogeneous solid: volume in m³, mass centre in m, and moment about it per mass, m²."""

    shape: str
    volume: float
    com: FloatArray
    unit_moment: FloatArray


class Amount(TypedDict, total=False):
    """How much there is of a solid: `mass` in kg or `density` in kg/m³, one of them."""

    mass: float
    density: float


def mass_of(solid: Solid, mass: float | None = None, density: float | None = None) -> float:
    """Return the mass in kg, given directly or by the density in kg/m³."""
    if (mass is None) == (density is None):
        raise ModelError(
            f"SpatialInertia.{solid.shape}: give either mass= in kg or density= in kg/m³."
        )
    if mass is not None:
        return _size(solid.shape, "mass", mass)
    if not solid.volume:
        raise ModelError(
            f"SpatialInertia.{solid.shape}: it encloses no volume; give mass= instead of density=."
        )
    return _size(solid.shape, "density", density) * solid.volume


def box(size: ArrayLike) -> Solid:
    """A box with these three edges."""
    a, b, c = _sizes("box", "size", size)
    return _symmetric("box", a * b * c, np.array([a * a, b * b, c * c]) / 12)


def sphere(radius: float) -> Solid:
    """A ball."""
    r = _size("sphere", "radius", radius)
    return _symmetric("sphere", 4 / 3 * math.pi * r**3, np.full(3, r * r / 5))


def ellipsoid(half_axes: ArrayLike) -> Solid:
    """An ellipsoid with these half axes."""
    a, b, c = _sizes("ellipsoid", "half_axes", half_axes)
    volume = 4 / 3 * math.pi * a * b * c
    return _symmetric("ellipsoid", volume, np.array([a * a, b * b, c * c]) / 5)


def cylinder(radius: float, length: float) -> Solid:
    """A cylinder along z."""
    r, L = _size("cylinder", "radius", radius), _size("cylinder", "length", length)
    return _symmetric("cylinder", math.pi * r * r * L, _round(r * r / 4, L * L / 12))


def tube(radius: float, inner_radius: float, length: float) -> Solid:
    """A cylinder along z with a concentric hole; equal radii make a thin shell."""
    R, L = _size("tube", "radius", radius), _size("tube", "length", length)
    r = _size("tube", "inner_radius", inner_radius, least=0.0)
    if r > R:
        raise ModelError(
            f"SpatialInertia.tube: the inner radius {r:g} m is larger than the radius {R:g} m."
        )
    volume = math.pi * (R * R - r * r) * L
    return _symmetric("tube", volume, _round((R * R + r * r) / 4, L * L / 12))


def capsule(radius: float, length: float) -> Solid:
    """A cylinder along z of this length between two half spheres."""
    r, L = _size("capsule", "radius", radius), _size("capsule", "length", length, least=0.0)
    tube, ball = math.pi * r * r * L, 4 / 3 * math.pi * r**3
    share = ball / (tube + ball)
    across = (1 - share) * r * r / 4 + share * r * r / 5
    # ∫ z² over a half sphere of radius r on the plane z = L/2, per volume
    cap = L * L / 4 + 2 * (L / 2) * (3 / 8 * r) + r * r / 5
    along = (1 - share) * L * L / 12 + share * cap
    return _symmetric("capsule", tube + ball, _round(across, along))


def cone(radius: float, height: float) -> Solid:
    """A cone on a base disc in the plane z = 0, its apex at z = height."""
    r, h = _size("cone", "radius", radius), _size("cone", "height", height)
    second = _round(3 / 20 * r * r, 3 / 80 * h * h)
    solid = _symmetric("cone", math.pi * r * r * h / 3, second)
    return solid._replace(com=np.array([0.0, 0.0, h / 4]))


def mesh(vertices: ArrayLike, faces: ArrayLike) -> Solid:
    """The inside of a closed surface, as signed tetrahedra from a point near its middle."""
    points, corners = _mesh_arrays(vertices, faces)
    _check_closed(corners)
    # Relative to the middle: far from the origin the tetrahedra would cancel digits.
    middle = (points.min(axis=0) + points.max(axis=0)) / 2
    a, b, c = ((points - middle)[corners[:, k]] for k in range(3))
    six_volumes = np.einsum("ij,ij->i", a, np.cross(b, c))
    volume = float(six_volumes.sum()) / 6
    if not volume > 0:
        raise ModelError(
            f"SpatialInertia.mesh: the volume inside the surface is {volume:.4g} m³. "
            + (
                "Its triangles run clockwise seen from outside; turn them:\n"
                "    SpatialInertia.mesh(vertices, faces[:, ::-1], ...)"
                if volume < 0
                else "A flat surface encloses nothing."
            )
        )
    total = a + b + c
    com = np.einsum("i,ij->j", six_volumes, total) / (24 * volume)
    second = sum(np.einsum("i,ij,ik->jk", six_volumes, x, x) for x in (a, b, c, total))
    second = second / (120 * volume) - np.outer(com, com)
    return Solid("mesh", volume, com + middle, np.trace(second) * np.eye(3) - second)


def _round(across: float, along: float) -> FloatArray:
    """∫ x², ∫ y², ∫ z² per volume of a solid of revolution about z."""
    return np.array([across, across, along])


def _symmetric(shape: str, volume: float, second: FloatArray) -> Solid:
    """A solid with three planes of symmetry, from ∫ x², ∫ y², ∫ z² per volume."""
    x, y, z = second
    return Solid(shape, volume, np.zeros(3), np.diag([y + z, x + z, x + y]))


_LARGEST = 1e50  # its fifth power is a number still


def _size(shape: str, what: str, value: Any, least: float | None = None) -> float:
    try:
        number = real_of(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelError(f"SpatialInertia.{shape}: {what} must be a number, not {value!r}.") from (
            error
        )
    if number > _LARGEST:
        raise ModelError(
            f"SpatialInertia.{shape}: {what}={number:g} is too large to compute with; lengths are "
            "in m, masses in kg, densities in kg/m³."
        )
    if not math.isfinite(number) or (number <= 0 if least is None else number < least):
        bound = "positive" if least is None else f"at least {least:g}"
        raise ModelError(f"SpatialInertia.{shape}: {what} must be {bound}, not {number:g}.")
    return number


def _sizes(shape: str, what: str, values: ArrayLike) -> tuple[float, float, float]:
    try:
        a, b, c = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ModelError(
            f"SpatialInertia.{shape}: {what} must be three lengths in m, not {values!r}."
        ) from error
    return _size(shape, what, a), _size(shape, what, b), _size(shape, what, c)


def _mesh_arrays(vertices: ArrayLike, faces: ArrayLike) -> tuple[FloatArray, NDArray[np.int64]]:
    try:
        points, corners = np.asarray(vertices, dtype=np.float64), np.asarray(faces)
    except (TypeError, ValueError) as error:
        raise ModelError("SpatialInertia.mesh: vertices must be an array of numbers.") from error
    if points.ndim != 2 or points.shape[1] != 3 or not np.isfinite(points).all():
        raise ModelError(
            f"SpatialInertia.mesh: vertices must be finite numbers of shape (n, 3), in m; the "
            f"shape is {points.shape}."
        )
    if corners.ndim != 2 or corners.shape[1] != 3 or corners.dtype.kind not in "iu":
        raise ModelError(
            f"SpatialInertia.mesh: faces must be vertex numbers of shape (m, 3); they have shape "
            f"{corners.shape} and type {corners.dtype}."
        )
    if corners.size and not 0 <= corners.min() <= corners.max() < len(points):
        raise ModelError(
            f"SpatialInertia.mesh: faces name vertex {corners.min()} to {corners.max()}, but there "
            f"are the vertices 0 to {len(points) - 1}."
        )
    return points, corners.astype(np.int64)


def _check_closed(corners: NDArray[np.int64]) -> None:
    """Every edge must be run once in each direction, or the surface has no inside."""
    edges = np.concatenate([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [2, 0]]])
    if not len(edges):
        raise ModelError("SpatialInertia.mesh: there are no faces.")
    there, count = np.unique(edges, axis=0, return_counts=True)
    back = np.unique(edges[:, ::-1], axis=0)
    if len(there) != len(back) or (there != back).any() or (count > 1).any():
        with_gap = {(int(i), int(j)) for i, j in there} ^ {(int(i), int(j)) for i, j in back}
        edge = min(with_gap) if with_gap else tuple(int(i) for i in there[count > 1][0])
        raise ModelError(
            f"SpatialInertia.mesh: the surface is not closed, or its triangles do not all run the "
            f"same way: see the edge between the vertices {edge[0]} and {edge[1]}. Vertices that "
            f"are listed twice must be merged first, for example by trimesh:  "
            f"mesh.merge_vertices()"
        )
