"""Shapes that bodies touch each other with, and the materials of their surfaces.

>>> import phipsi as pp
>>> pp.shapes.Capsule(0.05, 0.3)
Capsule(radius=0.05, length=0.3)

| shape | frame |
|---|---|
| `Sphere(radius)` | at its centre |
| `Capsule(radius, length)` | at its centre; z along the axis; `length` without the round ends |
| `Cylinder(radius, length)` | at its centre; z along the axis |
| `Ellipsoid(radii)`, `Box(size)` | at the centre, along the axes or edges |
| `ConvexMesh(vertices, faces)` | that of the vertices |
| `HeightField(heights, spacing)` | in the middle of the grid; z is up |
| `Plane()` | z is the outward normal; everything below z = 0 is inside |

Lengths are in m.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.attached.material import Material, material_from_dict, material_to_dict
from phipsi.core.model import ALL_GROUPS, Pose, check_text, check_type, fill, floats_of, plain
from phipsi.errors import ModelError, ParseError, did_you_mean, is_whole
from phipsi.package_state import only_public

__all__ = [
    "Box", "Capsule", "ConvexMesh", "Cylinder", "Ellipsoid", "HeightField", "Plane", "Shape",
    "Sphere",
]  # fmt: skip
__dir__ = only_public(__name__)

Numbers = tuple[float, ...]
_HERE = Pose()
_NEAR = 1e-4  # of the size: a hull that is nearer to all points has enough corners
CORNERS = 64
"""The most corners of the hull of a mesh: every search runs over all of them."""
_LEVEL = 1e-9  # of the size: how far corners of a face may be from its plane
MOST_VERTICES = 512
"""The most vertices of a mesh that touches."""
_FLAT = 1e-9  # of the size of a mesh: how far a vertex may stand out of a face


@dataclass(frozen=True, slots=True)
class Shape:
    """The base of all shapes: a region fixed in a frame of its own."""

    order: ClassVar[int] = 0
    """In a pair of shapes, the one with the smaller number is a."""

    @property
    def kind(self) -> str:
        """The name of its class."""
        return type(self).__name__

    @property
    def numbers(self) -> Numbers:
        """The numbers that formulas of pairs take: half lengths, radii."""
        return ()


def _sizes(kind: str, what: str, given: Any, count: int) -> Numbers:
    """Positive, finite lengths, or an error that names the shape."""
    array = floats_of(given)
    wanted = "a number" if count == 1 else f"{count} numbers"
    if array.shape != (() if count == 1 else (count,)):
        raise ModelError(f"{kind}: {what} must be {wanted} in m, not {given!r}.")
    values: Numbers = tuple(array.reshape(-1).tolist())
    for x in values:
        if not (math.isfinite(x) and x > 0):
            why = "is not finite" if not math.isfinite(x) else "must be above 0"
            hint = f" For example {what}={abs(x):g}." if math.isfinite(x) and x < 0 else ""
            raise ModelError(f"{kind}: {what}={given!r}: {x:g} m {why}.{hint}")
    return values


@final
@dataclass(frozen=True, slots=True)
class Sphere(Shape):
    """A sphere about the origin of its frame.

    Parameters
    ----------
    radius : float
        m.
    """

    order: ClassVar[int] = 1
    radius: float

    def __post_init__(self) -> None:
        fill(self, radius=_sizes("Sphere", "radius", self.radius, 1)[0])

    @property
    def numbers(self) -> Numbers:
        """The radius."""
        return (self.radius,)


@dataclass(frozen=True, slots=True)
class _Round(Shape):
    """Around the z axis: `radius` and `length` in m."""

    radius: float
    length: float

    def __post_init__(self) -> None:
        for what in ("radius", "length"):
            fill(self, **{what: _sizes(self.kind, what, getattr(self, what), 1)[0]})

    @property
    def numbers(self) -> Numbers:
        """The radius and half the length."""
        return self.radius, self.length / 2


@final
@dataclass(frozen=True, slots=True)
class Capsule(_Round):
    """A capsule: all points within `radius` of a segment along z, centred.

    Parameters
    ----------
    radius : float
        m.
    length : float
        Length of the segment, m.
    """

    order: ClassVar[int] = 2


@final
@dataclass(frozen=True, slots=True)
class Cylinder(_Round):
    """A cylinder about z with flat ends, centred.

    Parameters
    ----------
    radius : float
        m.
    length : float
        m.
    """

    order: ClassVar[int] = 3


@final
@dataclass(frozen=True, slots=True)
class Ellipsoid(Shape):
    """An ellipsoid about the origin of its frame: Σ (x_i/radii_i)² ≤ 1.

    Parameters
    ----------
    radii : array_like, shape (3,)
        The half axes in m.
    """

    order: ClassVar[int] = 4
    radii: Numbers

    def __init__(self, radii: ArrayLike) -> None:
        fill(self, radii=_sizes("Ellipsoid", "radii", radii, 3))

    @property
    def numbers(self) -> Numbers:
        """The half axes."""
        return self.radii


@final
@dataclass(frozen=True, slots=True)
class Box(Shape):
    """A box about the origin of its frame, along its axes.

    Parameters
    ----------
    size : array_like, shape (3,)
        Whole edge lengths in m (URDF's size, not half extents).

    Examples
    --------
    >>> import phipsi as pp
    >>> pp.shapes.Box((0.2, 0.2, 0.1)).size
    (0.2, 0.2, 0.1)
    """

    order: ClassVar[int] = 5
    size: Numbers

    def __init__(self, size: ArrayLike) -> None:
        fill(self, size=_sizes("Box", "size", size, 3))

    @property
    def numbers(self) -> Numbers:
        """Half the edges."""
        return tuple(x / 2 for x in self.size)


@final
@dataclass(frozen=True, slots=True)
class ConvexMesh(Shape):
    """The convex hull of points.

    With faces the mesh is checked: closed surfaces that are concave or inside out are rejected.
    Without, the shape is the hull of the vertices, whatever their order.

    Parameters
    ----------
    vertices : array_like, shape (n, 3)
        Points in m, not all in one plane.
    faces : array_like of int, shape (m, 3), optional
        Vertex numbers of triangles, counter-clockwise seen from outside.

    Examples
    --------
    >>> import phipsi as pp
    >>> corners = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
    >>> len(pp.shapes.ConvexMesh(corners).vertices)
    4
    """

    order: ClassVar[int] = 6
    vertices: tuple[Numbers, ...]
    faces: tuple[tuple[int, ...], ...] | None = None

    def __repr__(self) -> str:
        faces = "" if self.faces is None else f", {len(self.faces)} faces"
        return f"ConvexMesh({len(self.vertices)} vertices{faces})"

    def __init__(self, vertices: ArrayLike, faces: ArrayLike | None = None) -> None:
        points = _vertices(vertices)
        listed = None if faces is None else _faces(faces, points)
        fill(self, vertices=plain(points), faces=listed)

    @classmethod
    def around(cls, points: ArrayLike, corners: int = CORNERS) -> ConvexMesh:
        """The convex hull of points, with a limited number of corners.

        The point farthest outside becomes a corner until there are enough, or none is farther out
        than 1e-4 of the size.

        Parameters
        ----------
        points : array_like, shape (n, 3)
            Points in m.
        corners : int, optional
            Most corners of the hull. Default: 64.

        Returns
        -------
        ConvexMesh
            The hull.

        Examples
        --------
        >>> import numpy as np, phipsi as pp
        >>> cloud = np.random.default_rng(0).normal(size=(1000, 3))
        >>> len(pp.shapes.ConvexMesh.around(cloud, 20).vertices)
        20
        """
        if not is_whole(corners) or corners < 4:
            raise ModelError(f"ConvexMesh: corners={corners!r} must be an integer of at least 4.")
        return cls(few_corners(_vertices(points), corners)[0])

    @property
    def numbers(self) -> Numbers:
        """The coordinates of all vertices."""
        return tuple(x for vertex in self.vertices for x in vertex)

    @property
    def face_corners(self) -> int:
        """How many corners its largest face has."""
        return _face_corners(self.vertices)


@final
@dataclass(frozen=True, slots=True)
class HeightField(Shape):
    """Ground of given heights over a grid; everything below is inside.

    Every cell is two triangles, along the diagonal from (i, j) to (i+1, j+1). There is no ground
    beside the field.

    Parameters
    ----------
    heights : array_like, shape (n, m)
        Heights in m, at least 3 by 3: z at x = (i − (n−1)/2) dx, y = (j − (m−1)/2) dy of its frame,
        whose origin is in the middle.
    spacing : float or (float, float)
        (dx, dy) or one number, m.

    Examples
    --------
    >>> import numpy as np, phipsi as pp
    >>> pp.shapes.HeightField(np.zeros((5, 3)), spacing=0.5)
    HeightField(5 by 3 heights, spacing=(0.5, 0.5))
    """

    order: ClassVar[int] = 7
    heights: tuple[Numbers, ...]
    spacing: Numbers

    def __repr__(self) -> str:
        x, y = self.spacing
        rows, columns = len(self.heights), len(self.heights[0])
        return f"HeightField({rows} by {columns} heights, spacing=({x:g}, {y:g}))"

    def __init__(self, heights: ArrayLike, spacing: ArrayLike) -> None:
        array = floats_of(heights, (0, 0))
        if array.ndim != 2 or min(array.shape) < 3:
            raise ModelError(
                f"HeightField: heights must be an array (n, m), at least 3 by 3, in m, but the "
                f"shape is {array.shape}."
            )
        bad = np.argwhere(~np.isfinite(array))
        if len(bad):
            i, j = bad[0]
            raise ModelError(f"HeightField: heights[{i}][{j}] = {array[i, j]} is not finite.")
        both = (spacing, spacing) if np.ndim(spacing) == 0 else spacing
        fill(self, heights=plain(array), spacing=_sizes("HeightField", "spacing", both, 2))

    @property
    def numbers(self) -> Numbers:
        """The spacing."""
        return self.spacing

    @property
    def size(self) -> tuple[int, int]:
        """How many heights along x and y."""
        return len(self.heights), len(self.heights[0])


@final
@dataclass(frozen=True, slots=True)
class Plane(Shape):
    """A half-space: its surface is z = 0 of its frame, its outward normal is z."""

    order: ClassVar[int] = 8


def _vertices(given: ArrayLike) -> NDArray[np.float64]:
    points = floats_of(given, (0, 0))
    if points.ndim != 2 or points.shape[1] != 3 or len(points) < 4:
        raise ModelError(
            f"ConvexMesh: vertices must be an array (n, 3) of at least 4 points in m, but the "
            f"shape is {points.shape}."
        )
    bad = np.argwhere(~np.isfinite(points))
    if len(bad):
        i, j = bad[0]
        raise ModelError(f"ConvexMesh: vertices[{i}][{j}] = {points[i, j]} is not finite.")
    spread = np.linalg.svd(points - points.mean(axis=0), compute_uv=False)
    if spread[2] <= 1e-9 * spread[0]:
        raise ModelError(
            f"ConvexMesh: all {len(points)} vertices lie in one plane, so the mesh has no inside. "
            f"Give it a thickness, or use pp.shapes.Box((…, …, thickness))."
        )
    return points


def _faces(given: ArrayLike, points: NDArray[np.float64]) -> tuple[tuple[int, ...], ...]:
    faces = np.asarray(given)
    if faces.ndim != 2 or faces.shape[1] != 3 or faces.dtype.kind not in "iu":
        raise ModelError(
            "ConvexMesh: faces must be integers (m, 3), three vertices of every triangle, but the "
            f"shape is {faces.shape} and the type {faces.dtype}."
        )
    if faces.size and not (0 <= faces.min() and faces.max() < len(points)):
        raise ModelError(
            f"ConvexMesh: faces name the vertices {faces.min()} to {faces.max()}, but there are "
            f"{len(points)}, numbered from 0."
        )
    edges = np.sort(faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    ends, counts = np.unique(edges, axis=0, return_counts=True)
    if not faces.size or (counts % 2).any():
        lone = ends[counts % 2 == 1].tolist()
        why = f"the edge between the vertices {lone[0]} has one face" if lone else "it has no faces"
        raise ModelError(
            f"ConvexMesh: the surface is not closed: {why}. Use the hull of the vertices:\n"
            f"    pp.shapes.ConvexMesh(vertices)"
        )
    a, b, c = (points[faces[:, i]] for i in range(3))
    normals = np.cross(b - a, c - a)
    areas = np.linalg.norm(normals, axis=1)
    size = np.ptp(points, axis=0).max()
    good = areas > 1e-12 * size**2
    centre = points.mean(axis=0)
    if np.einsum("ij,ij->", normals, a - centre) <= 0:
        raise ModelError(
            "ConvexMesh: the mesh is inside out: its faces are clockwise seen from outside, so its "
            "volume is negative. Turn them over:\n"
            "    pp.shapes.ConvexMesh(vertices, np.asarray(faces)[:, ::-1])"
        )
    n = normals[good] / areas[good, None]
    heights = (points @ n.T) - np.einsum("ij,ij->i", n, a[good])
    if heights.size and heights.max() > _FLAT * size:
        vertex, face = np.unravel_index(heights.argmax(), heights.shape)
        raise ModelError(
            f"ConvexMesh: the mesh is concave: vertex {vertex} stands {heights.max():.3g} m out of "
            f"face {int(np.flatnonzero(good)[face])}. Contact needs convex parts. Either use the "
            f"hull of the vertices,\n"
            f"    pp.shapes.ConvexMesh(vertices)\n"
            f"or decompose the mesh into convex parts, for example with the package coacd:\n"
            f"    parts = coacd.run_coacd(coacd.Mesh(vertices, faces))\n"
            f"    for i, (points, _) in enumerate(parts):\n"
            f'        builder.add_shape(f"part{{i}}", body, pp.shapes.ConvexMesh(points))'
        )
    return plain(faces)


def few_corners(points: NDArray[np.float64], most: int) -> tuple[NDArray[np.float64], float, float]:
    """Corners of the hull, how far points are beyond them, and the volume of the whole hull.

    The farthest point outside is added until none is far, or there are enough.
    """
    from scipy.spatial import ConvexHull  # noqa: PLC0415

    whole = ConvexHull(points)
    points = points[whole.vertices]
    if len(points) <= most:
        return points, 0.0, whole.volume
    directions = np.array([[i, j, k] for i in (-1, 0, 1) for j in (-1, 0, 1) for k in (-1, 0, 1)])
    chosen = list(dict.fromkeys((points @ directions.T).argmax(axis=0).tolist()))
    hull = ConvexHull(points[chosen], incremental=True)
    while True:
        n, d = hull.equations[:, :3], hull.equations[:, 3]
        off = (points @ n.T + d).max(axis=1)
        far = int(off.argmax())
        if off[far] <= _NEAR * np.ptp(points) or len(chosen) >= most:
            return points[chosen], max(0.0, float(off[far])), whole.volume
        chosen.append(far)
        hull.add_points(points[[far]])


@cache
def _face_corners(vertices: tuple[Numbers, ...]) -> int:
    from scipy.spatial import ConvexHull  # noqa: PLC0415

    points = np.array(vertices)
    hull = ConvexHull(points)
    off = points[hull.vertices] @ hull.equations[:, :3].T + hull.equations[:, 3]
    return int((np.abs(off) <= _LEVEL * np.ptp(points)).sum(axis=0).max())


def is_surface(shape: Shape) -> bool:
    """Whether a shape is a surface with all of one side behind it, and so of no size."""
    return isinstance(shape, Plane | HeightField)


def is_round(shape: Shape) -> bool:
    """Whether a shape has no corners and edges."""
    return isinstance(shape, Sphere | Capsule | Ellipsoid)


def bounding_ball(shape: Shape) -> NDArray[np.float64]:
    """Centre, in the frame of the shape, and radius of a ball around it (4,); m."""
    p: NDArray[np.float64] = np.array(shape.numbers, dtype=np.float64)
    middle: Any = np.zeros(3)
    if is_surface(shape):
        return np.array([0.0, 0.0, 0.0, 1e9])
    if isinstance(shape, ConvexMesh):
        points = p.reshape(-1, 3)
        middle = (points.min(axis=0) + points.max(axis=0)) / 2
        radius = np.linalg.norm(points - middle, axis=1).max()
    elif isinstance(shape, Capsule):
        radius = p.sum()
    else:
        radius = p.max() if isinstance(shape, Sphere | Ellipsoid) else np.linalg.norm(p)
    return np.array([*middle, radius], dtype=np.float64)


# ---- materials -----------------------------------------------------------------------------------


# ---- shapes of bodies ----------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class BodyShape:
    """A shape fixed in a body or in "world".

    Parameters
    ----------
    name : str
        Unique name.
    body : str
        The body, or "world".
    shape : Shape
        The shape.
    placement : Pose, optional
        Its pose in the body. Default: the identity.
    material : Material, optional
        Its surface. Default: the material that `Contacts` uses by default.
    group, mask : int, optional
        Bits: two shapes may touch if the group of each has a bit in common with the mask of the
        other. Default: 1 and all bits.
    """

    name: str
    body: str
    shape: Shape
    placement: Pose = Pose()
    material: Material | None = None
    group: int = 1
    mask: int = ALL_GROUPS

    @property
    def is_turned(self) -> bool:
        """Whether its axes are not those of the body."""
        return not np.array_equal(self.placement.rotation, np.eye(3))


def farthest_point(placed: BodyShape) -> float:
    """How far (m) points of a shape are from the origin of its body, at most."""
    x, y, z, radius = bounding_ball(placed.shape)
    centre = placed.placement.rotation @ np.array([x, y, z]) + placed.placement.translation
    return float(np.linalg.norm(centre) + radius)


def make_shape(
    name: Any,
    body: Any,
    shape: Any,
    placement: Any = _HERE,
    material: Any = None,
    group: Any = 1,
    mask: Any = ALL_GROUPS,
) -> BodyShape:
    """Return a record with checked types; `validate` looks whether its body exists."""
    check_text(name, "a shape's name")
    check_text(body, f"the body of shape {name!r}")
    who = f"shape {name!r}"
    if shape in KINDS.values():
        raise ModelError(f"{who}: shape is the class {shape.__name__}; give its sizes too.")
    check_type(who, "shape", shape, Shape, "pp.shapes.Sphere(0.1)")
    check_type(who, "placement", placement, Pose, "pp.Pose(translation=(0, 0, 0.1))")
    if material is not None:
        check_type(who, "material", material, Material, "pp.Material(friction=0.8)")
    for what, bits in (("group", group), ("mask", mask)):
        if not is_whole(bits) or not 0 <= bits <= ALL_GROUPS:
            raise ModelError(f"{who}: {what}={bits!r} must be bits, an integer 0 … 2⁶⁴ − 1.")
    return BodyShape(name, body, shape, placement, material, int(group), int(mask))


# ---- storage -------------------------------------------------------------------------------------

KINDS: dict[str, type[Shape]] = {
    one.__name__: one
    for one in (Sphere, Capsule, Cylinder, Ellipsoid, Box, ConvexMesh, HeightField, Plane)
}


def shape_to_dict(record: BodyShape) -> dict[str, Any]:
    """Return plain dicts, lists, strings and numbers; an infinite stiffness is null."""
    sizes = {one.name: getattr(record.shape, one.name) for one in fields(record.shape)}
    out: dict[str, Any] = {"name": record.name, "body": record.body}
    out["shape"] = {"type": record.shape.kind} | {n: x for n, x in sizes.items() if x is not None}
    X = record.placement
    out["placement"] = {"rotation": X.rotation.tolist(), "translation": X.translation.tolist()}
    if record.material is not None:
        out["material"] = material_to_dict(record.material)
    return out | {"group": record.group, "mask": record.mask}


def shape_from_dict(data: Any) -> BodyShape:
    """Inverse of `shape_to_dict`."""
    where = f"shape {data.get('name')!r}" if isinstance(data, dict) else "a shape"
    try:
        values = dict(data)
        sizes = dict(values["shape"])
        kind = sizes.pop("type")
        if kind not in KINDS:
            raise ParseError(
                f"{where} has the type {kind!r}, which does not exist. "
                + did_you_mean(str(kind), KINDS)
            )
        values["shape"] = KINDS[kind](**sizes)
        values["placement"] = Pose(**values.get("placement", {}))
        if values.get("material") is not None:
            values["material"] = material_from_dict(values["material"])
        return make_shape(**values)
    except (TypeError, KeyError, AttributeError) as error:
        raise ParseError(f"{where} is not in the format of a model: {error!r}.") from error
