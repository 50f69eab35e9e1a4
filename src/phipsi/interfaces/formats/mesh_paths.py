"""Mesh files that shapes of URDF and SDF name: where they are, if the robot's folders have them."""

from __future__ import annotations

import os
from typing import final

from phipsi.interfaces.formats.document import Element, shortened
from phipsi.interfaces.formats.folders import AllowedFolders, Rejected
from phipsi.interfaces.formats.parsed_robot import ParsedRobot

_MESH_SUFFIXES = (".stl", ".dae", ".obj", ".ply", ".off", ".glb", ".gltf", ".mesh", ".wrl", ".fbx")


@final
class MeshPaths:
    """Finds mesh files, remembers what was found, and records what was not."""

    def __init__(self, folders: AllowedFolders, robot: ParsedRobot) -> None:
        self.folders, self.robot = folders, robot
        self.known: dict[tuple[str, str], str | None] = {}

    def locate(self, uri: str, at: Element, who: str) -> str | None:
        """The real path of a mesh, None if it is not there; an error if it leads outside.

        A ``file:///…`` address of a mesh says where it was for the author of the file, as in some
        shipped robots: it is a problem in the diagnosis, and nobody looks there. Every other way
        out of the package is an error.
        """
        key = (uri, at.file)
        if key in self.known:
            return self.known[key]
        found = None
        name = at.attributes.get("name", who)
        try:
            found = self.folders.locate(uri, at.file)
        except Rejected as refused:
            suffix = os.path.splitext(uri)[1].lower()
            if not refused.is_file_address or suffix not in _MESH_SUFFIXES:
                raise at.error(f"mesh {shortened(uri)}: {refused}", who) from refused
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
                f" Say where {shortened(package)} is:  "
                f"pp.load(path, package_dirs=['folder that contains it'])"
            )
    return ""
