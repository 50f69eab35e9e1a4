"""The shapes of a mechanism for contacts: its own, those of its file, and the ground.

Meshes of files, STL and OBJ, become convex hulls with few corners.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phipsi.errors import InputError, ModelError, ParseError, one_of, warn
from phipsi.model.body import WORLD_NAME
from phipsi.model.extras import Shape as Record
from phipsi.model.model import Model
from phipsi.model.pose import Pose
from phipsi.model.shapes import (
    CORNERS,
    BodyShape,
    Box,
    Capsule,
    ConvexMesh,
    Cylinder,
    Ellipsoid,
    Plane,
    Shape,
    Sphere,
    few_corners,
    make_shape,
)
from phipsi.model.tree import WORLD

GROUND = "ground"
"""The name of the plane that `ground=` adds."""


def all_shapes(model: Model, ground: Any, meshes: Any) -> tuple[tuple[BodyShape, ...], list[str]]:
    """Those of the model, of its file, and the ground; and the body or frame that each is on."""
    shapes = [*model.shapes]
    taken = {s.name for s in shapes}
    links = [s.body for s in shapes]
    for shape, link in _of_file(model, taken, meshes):
        shapes.append(shape)
        links.append(link)
    if ground is None or ground is False:
        return tuple(shapes), links
    if ground is not True and not isinstance(ground, Pose):
        raise InputError(
            f"Contacts: ground={ground!r} must be True for the plane z = 0, or the Pose of a plane "
            f"whose outward normal is its z. For example:\n"
            f"    ground=pp.Pose.from_rpy((0.0, 0.35, 0.0))"
        )
    if GROUND in taken:
        raise ModelError(
            f"Contacts: the model has a shape {GROUND!r} already, so ground= cannot add one of "
            f"that name. Leave out ground=, or rename the shape."
        )
    X = Pose() if ground is True else ground
    return (*shapes, make_shape(GROUND, WORLD_NAME, Plane(), X)), [*links, WORLD_NAME]


_CONCAVE = 0.1  # of the volume of a hull that is not in the mesh: worth a warning
_COARSE = 1e-3  # m, of a mesh outside its hull of few corners: worth a warning
_KINDS: dict[str, Callable[..., Shape]] = {
    "sphere": lambda size: Sphere(*size),
    "capsule": lambda size: Capsule(*size),
    "cylinder": lambda size: Cylinder(*size),
    "ellipsoid": Ellipsoid,
    "box": Box,
    "plane": lambda size: Plane(),
}


def _of_file(model: Model, taken: set[str], meshes: Any) -> list[tuple[BodyShape, str]]:
    """The collision shapes of the model's file with their links; a warning lists the others."""
    one_of("Contacts: meshes", meshes, ("leave", "hull"))
    out: list[tuple[BodyShape, str]] = []
    left: list[str] = []
    for record in model.geometry:
        if record.role != "collision":
            continue
        is_mesh = record.kind == "mesh"
        if record.kind not in _KINDS and not (is_mesh and meshes == "hull"):
            left.append(f"{record.link!r} ({record.kind})")
            continue
        host, X = model.resolve_point(record.link)
        name = _unused(record.name or f"{record.link}_{record.kind}", taken)
        body = WORLD_NAME if host == WORLD else model.body_names[host]
        shape = _record_hull(record, name) if is_mesh else _KINDS[record.kind](record.size)
        rest = (record.material, record.group, record.mask)
        out.append((make_shape(name, body, shape, X @ record.placement, *rest), record.link))
    if left:
        shown = ", ".join(left[:5]) + (f" and {len(left) - 5} more" if len(left) > 5 else "")
        warn(
            f"Contacts: collision meshes of the file are not read, so that these links touch "
            f"nothing with them: {shown}. Use their convex hulls, "
            f'pp.Contacts(model, meshes="hull"), or give such a link a shape of its own with '
            f"model.with_shape(name, link, pp.shapes.ConvexMesh(vertices))."
        )
    return out


def _record_hull(record: Record, name: str) -> ConvexMesh:
    """The hull of a mesh; a warning if it is much larger, or has too few corners."""
    who = f"Contacts: mesh {name!r} of {record.link!r}"
    if record.file is None:
        raise InputError(
            f"{who}: its file {record.uri!r} was not found. Load the robot with the folder it is "
            f"in, package_dirs=[…], or use primitives for this link."
        )
    try:
        hull = hull_of(record.file, record.size)
    except (ParseError, ModelError, OSError) as error:
        raise InputError(f"{who}: {error}") from error
    if hull.filled is not None and hull.filled > _CONCAVE:
        warn(
            f"{who} is concave: {hull.filled:.0%} of the volume of its convex hull is empty in the "
            f"mesh, and others touch the hull. To keep the hollows, decompose the mesh into convex "
            f"parts, for example with the package coacd, and add these:\n"
            f"    parts = coacd.run_coacd(coacd.Mesh(vertices, faces))\n"
            f"    for i, (points, _) in enumerate(parts):\n"
            f'        model = model.with_shape(f"part{{i}}", {record.link!r}, '
            f"pp.shapes.ConvexMesh(points))\n"
            f"then exclude=[{name!r}]."
        )
    if hull.off > _COARSE:
        warn(
            f"{who}: its hull of {len(hull.shape.vertices)} corners leaves out up to "
            f"{hull.off * 1e3:.2g} mm of the mesh."
        )
    return hull.shape


def _unused(name: str, taken: set[str]) -> str:
    """The name, with a number if another shape has it."""
    found, number = name, 2
    while found in taken:
        found, number = f"{name}_{number}", number + 1
    taken.add(found)
    return found


# ---- triangles of mesh files, and their hulls ----------------------------------------------------

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
