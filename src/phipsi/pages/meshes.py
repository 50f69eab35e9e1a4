"""Meshes of robot files for a page: read by trimesh, simplified, and packed into few bytes.

A corner takes eight bytes: its place in the box of the mesh as three int16, and its normal as two
int8 of an unfolded octahedron. Corners are split where faces meet at more than 40°, so that edges
stay sharp. All meshes of a page share `MOST_TRIANGLES`, by the roots of their surfaces.

What cannot be read, for want of the file or of the libraries (extra `view`), is left out and named
in a notice; its body gets a shape from its inertia instead. Nothing but the file itself, and
materials and textures in its own folder, is opened.
"""

from __future__ import annotations

import io
import os
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.attached import LinkShape
from phipsi.core.model import Pose
from phipsi.core.spatial import matrix_to_quat
from phipsi.errors import ParseError, counted, shown
from phipsi.pages.html_file import packed, rounded_list
from phipsi.pages.shapes_and_colors import LINK, Color, DrawnSolid, linear
from phipsi.support import opened_file

Array = NDArray[Any]
MOST_TRIANGLES = 120_000
"""In all meshes of a page together; about 1.6 MB."""
_LEAST = 160  # triangles of a part that is simplified
_MOST_BYTES, _MOST_BESIDE = 200_000_000, 20_000_000
_CREASE = np.cos(np.deg2rad(40.0))
_KINDS = ("stl", "obj", "dae", "ply", "off", "glb")
_MOST_PARTS = 1000
"""Materials, objects and groups of an OBJ file: each takes the library a pass over the rest."""
_PARTS = re.compile(rb"^[ \t]*(?:usemtl|o|g|mtllib)\b", re.MULTILINE)
_MOST_READ = 10_000_000
"""Triangles of a file, before they are simplified."""
_MOST_PIXELS = 20_000_000
"""Of a texture, of which only the mean colour is drawn."""
_DECLARED = re.compile(r"""\s*<\?xml[^>]{0,200}?\sencoding\s*=\s*["']([^"'>]{0,40})["']""")
_INSTALL = "pip install 'phipsi[view]'"


@final
@dataclass(frozen=True)
class MeshPart:
    """One colour of one mesh of the file, fixed in a body; `mesh` is its number among meshes."""

    body: int
    mesh: int
    pose: Pose
    color: Color
    opacity: float
    bounds: DrawnSolid

    def plain(self) -> dict[str, Any]:
        """For the page."""
        turn = matrix_to_quat(self.pose.rotation)
        return {
            "body": self.body,
            "mesh": self.mesh,
            "rotation": rounded_list(turn, 7),
            "position": rounded_list(self.pose.translation, 7),
            "color": rounded_list(self.color, 4),
            **({} if self.opacity >= 1 else {"opacity": round(self.opacity, 3)}),
        }


@final
@dataclass(frozen=True)
class Meshes:
    """What a page draws of the meshes of a model: parts that share meshes, and what is missing."""

    parts: tuple[MeshPart, ...] = ()
    packed: tuple[dict[str, Any], ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def bodies(self) -> frozenset[int]:
        """Bodies that are drawn by meshes."""
        return frozenset(part.body for part in self.parts)


def read_meshes(shapes: Iterable[tuple[int, LinkShape, Pose]]) -> Meshes:
    """Meshes by body, shape and pose in the body, read and packed.

    **Cost:** about a second per 10 MB of files; a file is read once while it stays the same.
    """
    wanted = list(shapes)
    if not wanted:
        return Meshes()
    missing = [name for name in ("trimesh", "fast_simplification") if not _is_there(name)]
    if any(_is_collada(shape) for _, shape, _ in wanted) and not _is_there("collada"):
        missing.append("collada")
    if missing:
        text = f"{len(wanted)} meshes of the file are not drawn: {_INSTALL}"
        return Meshes(notices=(f"{text} (missing: {', '.join(missing)})",))
    found: list[tuple[int, LinkShape, Pose, tuple[_ColoredTriangles, ...]]] = []
    faults: dict[str, str] = {}
    for body, shape, X in wanted:
        name = shape.uri or shape.name or "mesh"
        if shape.file is None:
            faults[name] = "not found"
            continue
        try:
            about = os.stat(shape.file)
            surfaces = _surfaces(shape.file, about.st_mtime_ns, about.st_size)
        except (_Unreadable, ParseError) as error:
            faults[name] = str(error)
        except OSError as error:
            faults[name] = error.strerror or "not readable"
        else:
            found.append((body, shape, X, surfaces))
    return _packed(found, _notices(faults))


def _notices(faults: dict[str, str]) -> tuple[str, ...]:
    """At most three faults by name, and how many there are."""
    if not faults:
        return ()
    first = [f"{shown(name, 80)} ({why})" for name, why in list(faults.items())[:3]]
    more = f" and {len(faults) - 3} more" if len(faults) > 3 else ""
    return (
        f"{counted(len(faults), 'mesh file')} not drawn: {', '.join(first)}{more}. Bodies without "
        "a mesh are drawn by their other shapes or by their inertia.",
    )


@lru_cache(maxsize=16)
def _is_there(module: str) -> bool:
    try:
        import_module(module)
    except ImportError:
        return False
    return True


def _is_collada(shape: LinkShape) -> bool:
    return (shape.file or shape.uri).lower().endswith(".dae")


# ---- reading ----------------------------------------------------------------------------------


class _Unreadable(Exception):
    """A mesh that cannot be drawn, with the reason."""


@final
@dataclass(frozen=True, eq=False)
class _ColoredTriangles:
    """Triangles of one colour, as the file has them, in m; `color` is None if it gives none."""

    points: Array
    triangles: Array
    color: tuple[float, ...] | None
    area: float


@lru_cache(maxsize=256)
def _surfaces(file: str, changed: int, size: int) -> tuple[_ColoredTriangles, ...]:
    """The surfaces of a mesh file; `changed` and `size` are those of the file, for the cache."""
    del changed
    if size > _MOST_BYTES:
        raise _Unreadable(f"{size / 1e6:.0f} MB, more than {_MOST_BYTES / 1e6:.0f} MB")
    kind = os.path.splitext(file)[1].lower().lstrip(".")
    if kind not in _KINDS:
        raise _Unreadable(f"only the formats {', '.join(_KINDS)} are read")
    with opened_file(file, "") as stream:
        content = stream.read(_MOST_BYTES)
    _check_content(kind, content)
    trimesh: Any = import_module("trimesh")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scene = trimesh.load_scene(
                io.BytesIO(content), file_type=kind, resolver=_Beside(file), process=False
            )
            out = tuple(_surfaces_of(scene, kind))
    except _Unreadable:
        raise
    except Exception as error:  # whatever a library says of a damaged file
        reason = str(error).splitlines()[0][:80] if str(error) else type(error).__name__
        raise _Unreadable(f"cannot be read: {shown(reason, 90)}") from error
    if not out:
        raise _Unreadable("has no triangles")
    return out


def _check_content(kind: str, content: bytes) -> None:
    """Reject what a library would take very long for, or what would let a file name others."""
    if kind == "dae":
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise _Unreadable("only COLLADA files in UTF-8 are read") from None
        declared = _DECLARED.match(text)
        if "\0" in text or (declared and declared[1].lower() not in ("utf-8", "utf8", "us-ascii")):
            raise _Unreadable("only COLLADA files in UTF-8 are read")
        if "<!" in text.replace("<!--", "").replace("<![CDATA[", ""):
            raise _Unreadable("a COLLADA file with a document type is not read")
    if kind == "obj":
        parts = len(_PARTS.findall(content))
        if parts > _MOST_PARTS:
            raise _Unreadable(f"{parts} groups and materials, more than {_MOST_PARTS}")


def _surfaces_of(scene: Any, kind: str) -> Iterable[_ColoredTriangles]:
    nodes, triangle_count = list(scene.graph.nodes_geometry), 0
    if len(nodes) > _MOST_PARTS:
        raise _Unreadable(f"{len(nodes)} parts, more than {_MOST_PARTS}")
    for node in nodes:
        matrix, name = scene.graph[node]
        geometry = scene.geometry[name]
        if not hasattr(geometry, "faces") or not len(geometry.faces):
            continue
        triangle_count += len(geometry.faces)
        if triangle_count > _MOST_READ:  # a part may be there many times
            raise _Unreadable(f"more than {_MOST_READ} triangles")
        unit = str(geometry.metadata.get("units", "meters")).partition(" * ")
        factor = float(unit[0]) if unit[1] else 1.0
        points = np.asarray(geometry.vertices, dtype=float)
        triangles = np.asarray(geometry.faces, dtype=np.int64)
        if triangles.min() < 0 or triangles.max() >= len(points):
            raise _Unreadable("triangles refer to missing vertices")
        points = factor * (points @ matrix[:3, :3].T + matrix[:3, 3])
        triangles = triangles[np.isfinite(points).all(axis=1)[triangles].all(axis=1)]
        points, triangles = _welded(points, triangles)
        if not len(triangles):
            continue
        corners = points[triangles]
        normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        area = float(np.linalg.norm(normals, axis=1).sum() / 2)
        yield _ColoredTriangles(points, triangles, _own_color(geometry.visual, kind), area)


def _own_color(visual: Any, kind: str) -> tuple[float, ...] | None:
    """Red, green, blue, opacity from 0 to 1, if the file gives a colour."""
    if kind == "stl" or visual is None or visual.kind is None:
        return None
    if visual.kind != "texture":
        return tuple((np.asarray(visual.vertex_colors, dtype=float).mean(axis=0) / 255).tolist())
    material = visual.material
    image = getattr(material, "baseColorTexture", None) or getattr(material, "image", None)
    color = np.asarray(material.main_color, dtype=float) / 255
    if image is not None:
        _check_pixels("its texture", *image.size)
        mean = np.asarray(image.convert("RGB").resize((1, 1)), dtype=float).reshape(3) / 255
        color = np.append(mean, color[3])
    elif kind == "obj" and material.name is None:
        return None
    return tuple(color.tolist())


def _check_picture(name: str, content: bytes) -> None:
    """Reject pictures that unpack to very many pixels, by their header."""
    pictures: Any = import_module("PIL.Image")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wide, high = pictures.open(io.BytesIO(content)).size
    _check_pixels(str(name), wide, high)


def _check_pixels(name: str, wide: int, high: int) -> None:
    if wide * high > _MOST_PIXELS:
        raise _Unreadable(f"{name} has {wide} x {high} pixels, more than {_MOST_PIXELS}")


class _Beside:
    """Files that a mesh names: only materials and pictures in its own folder or below."""

    def __init__(self, file: str) -> None:
        self.folder = os.path.dirname(os.path.realpath(file))

    def get(self, name: str) -> bytes:
        """The content of a file, or an error if it is elsewhere."""
        real = os.path.realpath(os.path.join(self.folder, str(name)))
        known = real.lower().endswith((".mtl", ".png", ".jpg", ".jpeg"))
        if os.path.commonpath([real, self.folder]) != self.folder or not known:
            raise FileNotFoundError(f"{name} is not in the folder of the mesh")
        with opened_file(real, "") as stream:
            content = stream.read(_MOST_BESIDE)
        if not real.lower().endswith(".mtl"):
            _check_picture(name, content)
        return content

    __getitem__ = get


def _welded(points: Array, triangles: Array) -> tuple[Array, Array]:
    """The same without double corners, unused corners and triangles without a surface."""
    if not len(triangles):
        return points, triangles
    used = points[triangles.ravel()]
    low = used.min(axis=0)
    size = float((used.max(axis=0) - low).max()) or 1.0
    cells = np.rint((used - low) / size * (2**20 - 1)).astype(np.int64)
    keys = (cells[:, 0] << 42) | (cells[:, 1] << 21) | cells[:, 2]
    _, first, number = np.unique(keys, return_index=True, return_inverse=True)
    faces = number.reshape(-1, 3)
    a, b, c = faces.T
    return used[first], faces[(a != b) & (b != c) & (c != a)]


# ---- packing ----------------------------------------------------------------------------------


def _packed(
    found: Sequence[tuple[int, LinkShape, Pose, tuple[_ColoredTriangles, ...]]],
    notices: tuple[str, ...],
) -> Meshes:
    """Surfaces that appear several times with one scale are written once."""
    scaled: dict[tuple[int, tuple[float, ...]], _ColoredTriangles] = {}
    for _, shape, _, surfaces in found:
        for surface in surfaces:
            scaled[id(surface), _scale(shape)] = surface
    weights = [np.sqrt(s.area * np.prod(np.abs(k[1])) ** (2 / 3)) for k, s in scaled.items()]
    share = MOST_TRIANGLES / (sum(weights) or 1.0)
    total = sum(len(s.triangles) for s in scaled.values())
    numbers: dict[tuple[int, tuple[float, ...]], int] = {}
    written: list[tuple[dict[str, Any], DrawnSolid]] = []
    for (key, surface), weight in zip(scaled.items(), weights, strict=True):
        most = len(surface.triangles)
        if total > MOST_TRIANGLES:
            most = min(most, max(int(share * weight), _LEAST))
        numbers[key] = len(written)
        written.append(_pack(surface, key[1], most))
    parts: list[MeshPart] = []
    for body, shape, X, surfaces in found:
        for surface in surfaces:
            number = numbers[id(surface), _scale(shape)]
            color = _color(shape, surface)
            bounds = placed(written[number][1], body, X)
            parts.append(MeshPart(body, number, X, linear(color), color[3], bounds))
    return Meshes(tuple(parts), tuple(plain for plain, _ in written), notices)


def placed(bounds: DrawnSolid, body: int, X: Pose) -> DrawnSolid:
    """The box around a mesh that is at a pose in a body."""
    at = X.rotation @ bounds.position + X.translation
    return DrawnSolid(body, "box", bounds.scale, X.rotation, at)


def _scale(shape: LinkShape) -> tuple[float, ...]:
    return tuple(float(x) for x in shape.size) if len(shape.size) == 3 else (1.0, 1.0, 1.0)


def _color(shape: LinkShape, surface: _ColoredTriangles) -> tuple[float, ...]:
    """Of a COLLADA file its own; of other files that of the robot file, if it gives one."""
    given = tuple(shape.color) if len(shape.color) >= 3 else None
    own = surface.color
    color = (own or given) if _is_collada(shape) else (given or own)
    if color is None:
        color = tuple(x ** (1 / 2.2) for x in LINK)
    return (*color[:3], float(color[3]) if len(color) > 3 else 1.0)


def _pack(
    surface: _ColoredTriangles, scale: tuple[float, ...], most: int
) -> tuple[dict[str, Any], DrawnSolid]:
    """A mesh for the page, of at most about so many triangles, and the box around it."""
    points, triangles = surface.points * np.asarray(scale), surface.triangles
    if np.prod(scale) < 0:  # a mirrored mesh: outside stays outside
        triangles = triangles[:, ::-1]
    if len(triangles) > most:
        simplify: Any = import_module("fast_simplification").simplify
        rate = min(1 - most / len(triangles), 0.999)
        flat = np.ascontiguousarray(triangles, dtype=np.int32)
        points, triangles = simplify(np.ascontiguousarray(points, dtype=np.float32), flat, rate)
        points, triangles = _welded(np.asarray(points, float), np.asarray(triangles, np.int64))
    return packed_surface(points, triangles)


def packed_surface(points: Array, triangles: Array) -> tuple[dict[str, Any], DrawnSolid]:
    """Corners (k, 3) and triangles (n, 3) as they are, for the page, and the box around them."""
    low, high = points.min(axis=0), points.max(axis=0)
    middle, half = (low + high) / 2, np.maximum((high - low) / 2, 1e-9)
    places = np.rint((points - middle) / half * 32767).astype(np.int16)
    folded = np.rint(127 * _folded(_corner_normals(points, triangles))).astype(np.int8)
    keys = (triangles.ravel() << 16) | (folded.view(np.uint8).astype(np.int64) @ [256, 1])
    _, first, number = np.unique(keys, return_index=True, return_inverse=True)
    index = "<u2" if len(first) <= 65536 else "<u4"
    plain = {
        "corners": packed(places[triangles.ravel()[first]], "<i2"),
        "normals": packed(folded[first], "i1"),
        "triangles": packed(number, index),
        "middle": rounded_list(middle, 7),
        "step": rounded_list(half / 32767, 7),
    }
    x, y, z = half.tolist()
    return plain, DrawnSolid(-1, "box", (x, y, z), position=middle)


def _corner_normals(points: Array, triangles: Array) -> Array:
    """A unit normal per corner of every triangle (3 k, 3): the mean of the faces around it.

    Faces that turn away by more than 40° do not count; larger faces count more.
    """
    at = points[triangles]
    faces = np.cross(at[:, 1] - at[:, 0], at[:, 2] - at[:, 0])
    size = np.linalg.norm(faces, axis=1, keepdims=True)
    units = faces / np.maximum(size, 1e-300)
    corner = triangles.ravel()
    order = np.argsort(corner, kind="stable")
    _, start, count = np.unique(corner[order], return_index=True, return_counts=True)
    group = np.repeat(np.arange(len(start)), count)
    place = np.arange(len(order)) - start[group]
    own = order // 3  # the face of each corner, by corner
    total = faces[own].copy()
    for k in range(1, min(int(count.max()), 40)):
        other = own[start[group] + (place + k) % count[group]]
        near = (np.einsum("ij,ij->i", units[own], units[other]) > _CREASE) & (k < count[group])
        total += np.where(near[:, None], faces[other], 0.0)
    out = np.empty_like(total)
    out[order] = total
    return out / np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-300)


def _folded(normals: Array) -> Array:
    """Unit vectors on the square that an octahedron unfolds to, (…, 2) from −1 to 1."""
    x, y, z = (normals / np.maximum(np.abs(normals).sum(axis=1, keepdims=True), 1e-300)).T
    below = z < 0
    u = np.where(below, (1 - np.abs(y)) * np.where(x < 0, -1, 1), x)
    v = np.where(below, (1 - np.abs(x)) * np.where(y < 0, -1, 1), y)
    return np.stack([u, v], axis=1)
