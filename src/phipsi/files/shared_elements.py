"""Elements that URDF and SDF have in common: poses, limits, damping, shapes.

URDF states their values as attributes, SDF as texts of children.
"""

from __future__ import annotations

import math
import os
from collections.abc import Container, Mapping
from typing import final

from phipsi.attached import LinkShape
from phipsi.core.model import Pose
from phipsi.errors import did_you_mean
from phipsi.files.allowed_folders import AllowedFolders, Rejected
from phipsi.files.parsed_robot import ParsedRobot
from phipsi.files.xml_document import NamedValues, XMLElement, shortened

Vector = tuple[float, ...]


# ---- poses ---------------------------------------------------------------------------------------


def pose_of(xyzw: Vector, position: Vector, at: XMLElement, who: str, tolerance: float) -> Pose:
    """The pose of a quaternion x y z w, whose length may be off by the tolerance."""
    length = math.hypot(*xyzw)
    if not abs(length - 1) < tolerance:
        raise at.error(f"the quaternion has length {length:g}; a rotation needs length 1.", who)
    x, y, z, w = (c / length for c in xyzw)
    return Pose([w, x, y, z], position)


# ---- joints --------------------------------------------------------------------------------------


def check_type(kind: str, known: Mapping[str, object], at: XMLElement, who: str) -> None:
    """Reject a joint whose type the format does not have."""
    if kind not in known:
        given = f"its type is {shortened(kind)}" if kind else "it has no type"
        raise at.error(f"{given}. {did_you_mean(kind, known)}", who)


def checked_bounds(
    robot: ParsedRobot, bounds: tuple[float, float], at: XMLElement, who: str, name: str
) -> tuple[float, float] | None:
    """Bounds of a coordinate, or None if there are none."""
    low, high = bounds
    if low > high:
        raise at.error(
            f"the lower limit {low:g} is above the upper limit {high:g}, so no position is "
            f"allowed. Were they swapped, and the lower is {high:g}, the upper {low:g}?",
            who,
        )
    if low == high:
        message = f"both limits are {low:g}, which leaves no room; it is taken as unlimited."
        robot.note("limit", who, name, message, at)
        return None
    return None if low == -math.inf and high == math.inf else bounds


def damping_and_friction(at: XMLElement, values: NamedValues, who: str) -> tuple[float, float]:
    """Both, which must not be negative."""
    found = values.number("damping", who, 0.0), values.number("friction", who, 0.0)
    for word, value in zip(("damping", "friction"), found, strict=True):
        if value < 0:
            raise at.error(f"{word} {value:g} is negative and would feed energy in; give ≥ 0.", who)
    return found


# ---- shapes --------------------------------------------------------------------------------------

# By kind: names of its sizes, with the numbers that SDF means when they are left out.
SHAPES: dict[str, dict[str, Vector]] = {
    "box": {"size": (1.0, 1.0, 1.0)},
    "sphere": {"radius": (1.0,)},
    "cylinder": {"radius": (0.5,), "length": (1.0,)},
    "capsule": {"radius": (0.5,), "length": (1.0,)},
    "ellipsoid": {"radii": (1.0, 1.0, 1.0)},
    "plane": {"size": (1.0, 1.0)},
    "mesh": {"scale": (1.0, 1.0, 1.0)},
}


def sizes_of(values: NamedValues, at: XMLElement, who: str, *, all_stated: bool) -> Vector:
    """Sizes of a shape; with `all_stated`, only the scale of a mesh may be left out."""
    out: list[float] = []
    for name, usual in SHAPES[at.tag].items():
        default = None if all_stated and at.tag != "mesh" else usual
        if len(usual) == 1:
            out.append(values.number(name, who, default[0] if default else None))
        else:
            out += values.vector(name, len(usual), who, default)
    if "radius" in SHAPES[at.tag] and min(out) < 0:
        raise at.error(f"a {at.tag} cannot have negative sizes {tuple(out)}.", who)
    return tuple(out)


_MESH_SUFFIXES = (".stl", ".dae", ".obj", ".ply", ".off", ".glb", ".gltf", ".mesh", ".wrl", ".fbx")


@final
class ShapeReader:
    """Reads shapes of the kinds of a format; finds mesh files, and records those it did not find.

    `in_texts`, whether the format states values as texts of children; they may be left out then.
    """

    def __init__(
        self, folders: AllowedFolders, robot: ParsedRobot, kinds: Container[str], in_texts: bool
    ) -> None:
        self.folders, self.robot, self.kinds, self.in_texts = folders, robot, kinds, in_texts
        self.known: dict[tuple[str, str], str | None] = {}

    def read(
        self, shape: XMLElement, who: str, link: str, placement: Pose, color: Vector
    ) -> list[LinkShape]:
        """The shapes of a <visual> or <collision>; other kinds are left out."""
        geometry = shape.only("geometry", who)
        if geometry is None:
            raise shape.error(f"its <{shape.tag}> has no <geometry>.", who)
        out: list[LinkShape] = []
        for at in geometry.children:
            if at.tag not in self.kinds:
                self._note_kind(shape, at, who, link)
                continue
            values = at.texts if self.in_texts else at
            size = sizes_of(values, at, who, all_stated=not self.in_texts)
            uri = ""
            if at.tag == "mesh":
                uri = values.string("uri" if self.in_texts else "filename", who)
            file = self._locate(uri, at, who) if uri else None
            size = tuple(x / 2 for x in size) if at.tag == "plane" else size
            out.append(
                LinkShape(link, shape.tag, at.tag, size, placement, shape.name, uri, file, color)
            )
        return out

    def _note_kind(self, shape: XMLElement, at: XMLElement, who: str, link: str) -> None:
        """A collision shape that is not read is not felt, which changes the motion."""
        if shape.tag != "collision" or at.tag == "empty":
            return
        own = "HeightField(heights, spacing)" if at.tag == "heightmap" else "ConvexMesh(vertices)"
        message = (
            f"its <{at.tag[:40]}> is not read, so that nothing touches it. Give the link a shape:\n"
            f"    model.with_shape('own', {link!r}, pp.shapes.{own})"
        )
        self.robot.note("ignored", who, shape.name, message, at, True)

    def _locate(self, uri: str, at: XMLElement, who: str) -> str | None:
        """The real path of a mesh, None if it is not found; an error if it leads outside.

        A ``file:///…`` address of a mesh says where it was for the author of the file, as in some
        shipped robots: it is a problem in the diagnosis, and is never opened. Every other way out
        of the package is an error.
        """
        key = (uri, at.file)
        if key in self.known:
            return self.known[key]
        found = None
        name = at.attributes.get("name", who)
        try:
            found = self.folders.locate(uri, at.file)
        except Rejected as error:
            suffix = os.path.splitext(uri)[1].lower()
            if not error.is_file_address or suffix not in _MESH_SUFFIXES:
                raise at.error(f"mesh {shortened(uri)}: {error}", who) from error
            message = (
                f"mesh {shortened(uri)} is where the author's machine had it, outside the robot's "
                "package; it is not opened, and the shape has no file."
            )
            self.robot.note("mesh", who, name, message, at, True)
        else:
            if found is None:
                message = f"mesh {shortened(uri)} was not found.{_where_to_look(uri)}"
                self.robot.note("mesh", who, name, message, at)
        self.known[key] = found
        return found


def _where_to_look(uri: str) -> str:
    for scheme in ("package://", "model://"):
        if uri.startswith(scheme):
            package = uri[len(scheme) :].partition("/")[0]
            return (
                f" Pass the folder of {shortened(package)}:  pp.load(path, package_dirs=['folder "
                "that contains it'])"
            )
    return ""
