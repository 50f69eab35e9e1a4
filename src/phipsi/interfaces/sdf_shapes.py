"""Visual and collision shapes of SDF."""

from __future__ import annotations

from phipsi.interfaces.document import Element, parse_vector
from phipsi.interfaces.geometry import MeshPaths
from phipsi.interfaces.sdf_frames import text_number
from phipsi.model import Pose
from phipsi.model.extras import Shape


def read_shape(
    element: Element, link: str, role: str, placement: Pose, meshes: MeshPaths
) -> list[Shape]:
    """The shape of a <visual> or <collision>; kinds that are no solid shape are left out."""
    who = element.label
    geometry = element.only("geometry", who)
    if geometry is None:
        raise element.error(f"its <{role}> has no <geometry>.", who)
    color = _color(element, who)
    out: list[Shape] = []
    for at in geometry.children:
        uri, file = "", None
        if at.tag == "box":
            size = _vector(at, "size", 3, who, (1.0, 1.0, 1.0))
        elif at.tag == "sphere":
            size = (text_number(at, "radius", who, 1.0),)
        elif at.tag in ("cylinder", "capsule"):
            size = (text_number(at, "radius", who, 0.5), text_number(at, "length", who, 1.0))
        elif at.tag == "ellipsoid":
            size = _vector(at, "radii", 3, who, (1.0, 1.0, 1.0))
        elif at.tag == "plane":
            width, depth = _vector(at, "size", 2, who, (1.0, 1.0))
            size = (width / 2, depth / 2)
        elif at.tag == "mesh":
            uri_at = at.only("uri", who)
            uri = uri_at.text.strip() if uri_at is not None else ""
            file = meshes.locate(uri, at, who) if uri else None
            size = _vector(at, "scale", 3, who, (1.0, 1.0, 1.0))
        else:
            continue
        out.append(Shape(link, role, at.tag, size, placement, element.name, uri, file, color))
    return out


def _vector(
    parent: Element, tag: str, size: int, who: str, default: tuple[float, ...]
) -> tuple[float, ...]:
    at = parent.only(tag, who)
    return default if at is None else parse_vector(at.text, size, at, tag, who)


def _color(element: Element, who: str) -> tuple[float, ...]:
    material = element.only("material", who)
    diffuse = material.only("diffuse", who) if material is not None else None
    if diffuse is None:
        return ()
    words = diffuse.text.split()
    values = parse_vector(diffuse.text, 3 if len(words) == 3 else 4, diffuse, "diffuse", who)
    return (*values, 1.0) if len(values) == 3 else values
