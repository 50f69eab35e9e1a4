"""The shapes of a mechanism for contacts: its own, those of its file, and the ground."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phipsi.errors import InputError, ModelError, ParseError, warn
from phipsi.model.body import WORLD_NAME
from phipsi.model.extras import Shape as Record
from phipsi.model.mesh_files import hull_of
from phipsi.model.model import Model
from phipsi.model.pose import Pose
from phipsi.model.shapes import (
    BodyShape,
    Box,
    Capsule,
    ConvexMesh,
    Cylinder,
    Ellipsoid,
    Plane,
    Shape,
    Sphere,
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
    if meshes not in ("leave", "hull"):
        raise InputError(f'Contacts: meshes={meshes!r} is neither "leave" nor "hull".')
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
        shape = _hull(record, name) if is_mesh else _KINDS[record.kind](record.size)
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


def _hull(record: Record, name: str) -> ConvexMesh:
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
