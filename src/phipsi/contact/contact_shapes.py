"""The shapes of a mechanism for contacts: its own, those of its file, the ground; which are near.

Meshes of files, STL and OBJ, become convex hulls with few corners. Shapes near each other are found
by grids of cells over their bounding spheres.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phipsi.attached import (
    CORNERS,
    BodyShape,
    Box,
    Capsule,
    ConvexMesh,
    Cylinder,
    Ellipsoid,
    HeightField,
    LinkShape as Record,
    Plane,
    Shape,
    Sphere,
    bounding_ball,
    few_corners,
    is_surface,
    make_shape,
)
from phipsi.core.model import WORLD, WORLD_NAME, Model, Pose
from phipsi.errors import InputError, ModelError, ParseError, one_of, warn
from phipsi.support import opened_file

GROUND = "ground"
"""The name of the plane that `ground=` adds."""


def all_shapes(
    model: Model, ground: Any, meshes: Any
) -> tuple[tuple[BodyShape, ...], list[str], list[Record | None]]:
    """Those of the model, of its file, and the ground.

    Also the body or frame that each is on, and the file's record of those that come from one.
    """
    shapes = [*model.shapes]
    taken = {s.name for s in shapes}
    links = [s.body for s in shapes]
    records: list[Record | None] = [None] * len(shapes)
    for shape, record in _of_file(model, taken, meshes):
        shapes.append(shape)
        links.append(record.link)
        records.append(record)
    if ground is None or ground is False:
        return tuple(shapes), links, records
    if ground is not True and not isinstance(ground, Pose):
        raise InputError(
            f"Contacts: ground={ground!r} must be True for the plane z = 0, or the Pose of a plane "
            f"whose outward normal is its z. For example:\n"
            f"    ground=pp.Pose.from_rpy((0.0, 0.35, 0.0))"
        )
    if GROUND in taken:
        raise ModelError(
            f"Contacts: the model has a shape {GROUND!r} already, so ground= cannot add one of "
            "that name. Remove ground=, or rename the shape."
        )
    X = Pose() if ground is True else ground
    plane = make_shape(GROUND, WORLD_NAME, Plane(), X)
    return (*shapes, plane), [*links, WORLD_NAME], [*records, None]


def plane_at(shapes: Sequence[BodyShape], X: Pose) -> BodyShape | None:
    """The plane in the world that is that of the pose, if there is one."""
    p, n = X.translation, X.rotation[:, 2]
    for one in shapes:
        if one.body == WORLD_NAME and isinstance(one.shape, Plane):
            Y = one.placement
            same = np.allclose(Y.rotation[:, 2], n, rtol=0, atol=_SAME)
            if same and abs(n @ (Y.translation - p)) < _SAME:
                return one
    return None


def ground_of(model: Model) -> str:
    """The name of the plane z = 0 that the model or its file has already, or ""."""
    tree = model.model
    shapes = [*tree.shapes]
    for record in tree.geometry:
        if (record.role, record.kind) == ("collision", "plane"):
            host, X = tree.resolve_point(record.link)
            if host == WORLD:
                name = record.name or f"{record.link}_{record.kind}"
                shapes.append(make_shape(name, WORLD_NAME, Plane(), X @ record.placement))
    found = plane_at(shapes, Pose())
    return "" if found is None else found.name


def warn_of_ground(
    model: Model, shapes: Sequence[BodyShape], made: Sequence[Any], meshes: str
) -> None:
    """Warn if nothing touches the ground that was added last, or if it lies on another plane."""
    if not made:
        _warn_of_nothing(model, shapes, meshes)
        return
    *others, ground = shapes
    other = plane_at(others, ground.placement)
    if other is None:
        return
    on = {name: {x.a.name for x in made if x.b.name == name} for name in (GROUND, other.name)}
    if on[GROUND] & on[other.name]:
        flat = np.allclose(ground.placement.matrix, np.eye(4))
        where = "at z = 0" if flat else "in this place"
        warn(
            f"Contacts: the model already has the plane {other.name!r} {where}, and ground= adds a "
            f"second one: every contact with the floor is counted twice, with half of the force "
            f"each. Remove ground=, as in  pp.Contacts(model), or exclude the other plane:\n"
            f"    pp.Contacts(model, ground=…, exclude=[{other.name!r}])"
        )


def _warn_of_nothing(model: Model, shapes: Sequence[BodyShape], meshes: str) -> None:
    """Say why nothing touches the ground, unless a warning about unread meshes has said it."""
    moving = [x.name for x in shapes if x.body != WORLD_NAME]
    in_file = any(x.role == "collision" and x.kind == "mesh" for x in model.geometry)
    if meshes == "ignore" and in_file and not moving:
        return
    if moving:
        why = (
            f"its shapes {', '.join(map(repr, moving[:4]))}{', …' if len(moving) > 4 else ''} are "
            "excluded by exclude=, pairs=, or their groups and masks, or do not move. Pass the "
            "pairs that may touch:\n"
            f"    pp.Contacts(model, ground=True, pairs=[({moving[0]!r}, 'ground')])"
        )
    else:
        body = model.body_names[-1] if model.n_bodies else "body"
        why = (
            "no body has a shape, so all bodies fall through it. Add one when the model is built:\n"
            f'    builder.add_shape("skin", {body!r}, pp.shapes.Sphere(0.1))\n'
            "or use the collision meshes of its file:\n"
            '    pp.Contacts(model, ground=True, meshes="hull")'
        )
    warn(f"nothing of {model!r} may touch the ground: there are 0 pairs. {why[0].upper()}{why[1:]}")


_SAME = 1e-6  # m, and as a difference of normals: planes that are one
_CONCAVE = 0.1  # of the volume of a hull that is not in the mesh: worth a warning
_COARSE = 1e-3  # m, of a mesh outside its hull of few corners: worth a warning
_KINDS: dict[str, Callable[[Record], Shape]] = {
    "sphere": lambda record: Sphere(*record.size),
    "capsule": lambda record: Capsule(*record.size),
    "cylinder": lambda record: Cylinder(*record.size),
    "ellipsoid": lambda record: Ellipsoid(record.size),
    "box": lambda record: Box(record.size),
    "plane": lambda record: Plane(),
    "heightfield": lambda record: HeightField(record.heights, record.size),
}


def _of_file(model: Model, taken: set[str], meshes: Any) -> list[tuple[BodyShape, Record]]:
    """The collision shapes of the model's file with their records; a warning lists the others."""
    one_of("Contacts: meshes", meshes, ("ignore", "hull"))
    out: list[tuple[BodyShape, Record]] = []
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
        shape = _record_hull(record, name) if is_mesh else _KINDS[record.kind](record)
        rest = (record.material, record.group, record.mask)
        out.append((make_shape(name, body, shape, X @ record.placement, *rest), record))
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
            f"{who}: its hull of {len(hull.shape.vertices)} corners omits up to "
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
    with opened_file(path, "") as file:
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
        raise ValueError(f"{len(corners)} vertices are not a multiple of three")
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


# ---- shapes that are near each other -------------------------------------------------------------

_CELL = 1.001
"""The size of a cell, in reaches of its balls: below 1, neighbours would be missed."""
_MOST_CELLS = 1e12  # along an axis: rounding of places stays below the share of `_CELL` above 1
_OFFSETS = np.array(list(product((-1, 0, 1), repeat=3)), dtype=np.int64)
_PRIMES = np.array([73856093, 19349663, 83492791], dtype=np.int64)
_LAYER = 2862933555777941757  # spreads layers over all bits

Places = NDArray[np.int64]


def near_shapes(
    shapes: Sequence[BodyShape], hosts: Sequence[int], X: NDArray[Any], within: float
) -> list[tuple[int, int]]:
    """The pairs of shapes whose bounding spheres are at most `within` apart, and all with planes.

    **Arguments:** `hosts`, the numbers of their bodies; `X` (bodies, 4, 4), poses of the bodies;
    `within`, m. **Returns:** (i, j) with i < j, in the order of i, then j; those with planes and
    height fields are all there: n for each of these.
    """
    wide = [is_surface(s.shape) for s in shapes]
    small = np.flatnonzero(~np.array(wide, dtype=bool))
    balls = np.zeros((len(small), 4))
    for row, i in zip(balls, small.tolist(), strict=True):
        row[:] = bounding_ball(shapes[i].shape)
        row[:3] = shapes[i].placement.rotation @ row[:3] + shapes[i].placement.translation
    body = np.array([hosts[i] for i in small.tolist()], dtype=np.int64)
    moves = body != WORLD
    P = X[body[moves]]
    balls[moves, :3] = (P[:, :3, :3] @ balls[moves, :3, None])[..., 0] + P[:, :3, 3]
    found = small[near_balls(balls[:, :3], balls[:, 3], within)].tolist()
    pairs = {(i, j) for i, j in found}
    for i in np.flatnonzero(wide).tolist():
        pairs |= {(min(i, j), max(i, j)) for j in range(len(shapes)) if j != i}
    return sorted(pairs)


def near_balls(
    centres: NDArray[Any], radii: NDArray[Any], within: float, layer: Places | None = None
) -> Places:
    """The pairs of balls that are at most `within` apart, in the same layer.

    Balls whose sizes are within a factor of two share a grid; every ball looks into the 27 cells
    around its own, in the grid of its size and in those of larger balls.

    **Arguments:** `centres` (n, 3), `radii` (n,), `within`, m; `layer` (n,), for example the number
    of a configuration. **Returns:** (pairs, 2), i < j, in the order of i, then j. **Cost:** O(n)
    cells per size, sorted; distances of neighbours only.
    """
    reach = radii + within / 2  # balls are near if their centres are at most the sum apart
    level = np.frexp(np.maximum(reach, np.finfo(float).tiny))[1]
    found: list[Places] = []
    place = np.zeros(len(radii), dtype=np.int64) if layer is None else layer
    for size in np.unique(level):
        own, below = np.flatnonzero(level == size), np.flatnonzero(level <= size)
        far = np.abs(centres).max() / _MOST_CELLS
        width = max(_CELL * 2 * reach[own].max(), far, np.finfo(float).tiny)
        cells = np.floor(centres / width).astype(np.int64)
        keys = _key(cells[own], place[own])
        order = np.argsort(keys, kind="stable")
        own, keys = own[order], keys[order]
        for offset in _OFFSETS:
            wanted = _key(cells[below] + offset, place[below])
            first = np.searchsorted(keys, wanted)
            count = np.searchsorted(keys, wanted, side="right") - first
            i = np.repeat(below, count)
            within_cell = np.arange(len(i)) - np.repeat(np.cumsum(count) - count, count)
            j = own[np.repeat(first, count) + within_cell]
            d = centres[i] - centres[j]
            both = radii[i] + radii[j] + within
            near = (i != j) & (place[i] == place[j]) & (np.sum(d * d, axis=1) <= both * both)
            found.append(np.stack([i[near], j[near]], axis=1))
    pairs = np.sort(np.concatenate([np.zeros((0, 2), dtype=np.int64), *found]), axis=1)
    code = np.unique(pairs[:, 0] * len(radii) + pairs[:, 1])  # cells may share a key
    return np.stack(np.divmod(code, max(1, len(radii))), axis=1)


def _key(cells: Places, layer: Places) -> Places:
    """A number for each cell (n, 3) of a layer (n,); far cells may have the same."""
    return np.bitwise_xor.reduce(cells * _PRIMES, axis=1) ^ (layer * _LAYER)
