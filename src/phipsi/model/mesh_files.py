"""Triangles of mesh files, STL and OBJ, and their convex hulls with few corners."""

from __future__ import annotations

import os
import struct
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phipsi.errors import ModelError, ParseError
from phipsi.model.shapes import CORNERS, ConvexMesh, few_corners

Array = NDArray[np.float64]
MAX_BYTES = 200_000_000
_RECORD = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("more", "<u2")])
_FLAT = 1e-6  # of the size: a thinner mesh has no inside


class Triangles(NamedTuple):
    """A surface: `vertices` (n, 3) in the units of the file, `faces` (m, 3), their numbers."""

    vertices: Array
    faces: NDArray[np.int64]


class Hull(NamedTuple):
    """The convex hull of a mesh.

    **Attributes:** `shape`; `off`, how far the mesh reaches beyond it at most, m, because it has
    few corners; `filled`, which part of its volume is not inside the mesh, 0 to 1, or None if the
    surface is not closed.
    """

    shape: ConvexMesh
    off: float
    filled: float | None


def read_mesh(path: str) -> Triangles:
    """The triangles of an STL file (text or binary) or an OBJ file; polygons are cut into fans."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in (".stl", ".obj"):
        raise ParseError(
            f"{path}: meshes of the kind {suffix or 'without a suffix'!r} are not read, only .stl "
            f"and .obj. Convert it, for example with the package trimesh:\n"
            f'    trimesh.load({path!r}, force="mesh").export("mesh.stl")'
        )
    with open(path, "rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ParseError(f"{path} has more than {MAX_BYTES:,} bytes.")
    try:
        found = _stl(data) if suffix == ".stl" else _obj(data)
    except (ValueError, IndexError) as error:
        raise ParseError(f"{path} is damaged: {error}.") from error
    if not len(found.faces):
        raise ParseError(f"{path} has no triangles.")
    if not np.isfinite(found.vertices).all():
        raise ParseError(f"{path} has coordinates that are not finite.")
    return found


def _stl(data: bytes) -> Triangles:
    count = struct.unpack_from("<I", data, 80)[0] if len(data) >= 84 else -1
    if len(data) == 84 + _RECORD.itemsize * count:
        corners = np.frombuffer(data, _RECORD, count, 84)["corners"].reshape(-1, 3)
    elif data.lstrip()[:5].lower() == b"solid":
        words = [line.split()[1:4] for line in data.splitlines() if line.split()[:1] == [b"vertex"]]
        corners = np.array(words, dtype=np.float64).reshape(-1, 3)
    else:
        raise ValueError(
            f"it is not STL text, and as binary STL it should have {84 + 50 * max(count, 0):,} "
            f"bytes, but has {len(data):,}"
        )
    if len(corners) % 3:
        raise ValueError(f"{len(corners)} vertices are not whole triangles")
    vertices, which = np.unique(corners.astype(np.float64), axis=0, return_inverse=True)
    return Triangles(vertices, which.reshape(-1, 3).astype(np.int64))


def _obj(data: bytes) -> Triangles:
    vertices: list[list[float]] = []
    faces: list[tuple[int, int, int]] = []
    for line in data.decode("utf-8", "replace").replace("\\\n", " ").splitlines():
        words = line.split()
        if words[:1] == ["v"]:
            vertices.append([float(x) for x in words[1:4]])
        elif words[:1] == ["f"]:
            numbers = [int(x.split("/")[0]) for x in words[1:]]
            ring = [i - 1 if i > 0 else len(vertices) + i for i in numbers]
            faces += [(ring[0], ring[k], ring[k + 1]) for k in range(1, len(ring) - 1)]
    points = np.array(vertices, dtype=np.float64).reshape(-1, 3)
    triangles = np.array(faces, dtype=np.int64).reshape(-1, 3)
    if triangles.size and not 0 <= triangles.min() <= triangles.max() < len(points):
        raise ValueError(f"a face names a vertex that is not among its {len(points)}")
    return Triangles(points, triangles)


def hull_of(path: str, scale: tuple[float, ...]) -> Hull:
    """The convex hull of the mesh of a file whose coordinates are scaled to m."""
    status = os.stat(path)
    return _hull(path, scale, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=256)
def _hull(path: str, scale: tuple[float, ...], changed: int, size: int) -> Hull:
    vertices, faces = read_mesh(path)
    vertices = vertices * np.array(scale or (1.0, 1.0, 1.0))
    used = vertices[np.unique(faces)]
    extent = np.ptp(used, axis=0).max()
    spread = np.linalg.svd(used - used.mean(axis=0), full_matrices=False)[1]
    if extent == 0 or spread[2] <= _FLAT * spread[0]:
        raise ModelError(
            f"{path}: the mesh is flat: all its {len(used)} vertices lie in one plane, so it has "
            f"no inside. Give the link a thin box instead."
        )
    corners, off, volume = few_corners(used, CORNERS)
    inside = _volume(vertices, faces)
    filled = None if inside is None else max(0.0, 1.0 - inside / volume)
    return Hull(ConvexMesh(corners), off, filled)


def _volume(vertices: Array, faces: NDArray[np.int64]) -> float | None:
    """The volume inside a closed surface, whichever way its faces look; None if it is open."""
    edges = np.sort(faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    _, counts = np.unique(edges, axis=0, return_counts=True)
    if (counts % 2).any():
        return None
    a, b, c = (vertices[faces[:, i]] - vertices.mean(axis=0) for i in range(3))
    return abs(float(np.einsum("ij,ij->", np.cross(a, b), c))) / 6
