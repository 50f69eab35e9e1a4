"""MJCF before MuJoCo sees it: read by expat, includes and assets found inside the package.

MuJoCo's own reader is C++ and opens whatever a file names. It is therefore given a string and a
dictionary with every file the model may need; a model that names anything else is rejected here.
Textures, skins and height fields that no geom uses are located but not opened: no mechanism needs
them.
"""

from __future__ import annotations

import math
import os
import re
import struct
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import final

from phipsi.errors import FileError
from phipsi.files.allowed_folders import AllowedFolders, Rejected
from phipsi.files.files import read_bytes
from phipsi.files.mjcf.mujoco_text import (
    asset_name,
    attributes_for_mujoco,
    is_left_out,
    is_used_field,
)
from phipsi.files.xml_document import MAX_NUMBER, InclusionTotals, XMLElement, parse_xml, shortened

MAX_ASSET_BYTES = 200_000_000
MAX_USED_BYTES = 400_000_000  # where several meshes use one file, it counts for each
MAX_INCLUDES = 100
MAX_FIELD_POINTS = 4_000_000  # of all height fields that are used
_NOT_OPENED = ("texture", "hfield", "skin")


@final
@dataclass
class MjcfFiles:
    """A model with everything it names: files it includes and assets, by the names MuJoCo uses.

    `meshes` has, by the name of the mesh, what the model calls its file and where that is; `fields`
    has the names of the height fields that geoms use;
    `outside` has the folders it leads to that are not allowed, with the first complaint about them.
    """

    file: str
    folders: AllowedFolders
    root: XMLElement
    includes: dict[str, XMLElement] = field(default_factory=dict)
    assets: dict[str, bytes] = field(default_factory=dict)
    meshes: dict[str, tuple[str, str]] = field(default_factory=dict)
    fields: frozenset[str] = frozenset()
    outside: dict[str, tuple[XMLElement, str, str]] = field(default_factory=dict)

    @property
    def documents(self) -> list[XMLElement]:
        """The file and those it includes."""
        return [self.root, *self.includes.values()]

    def elements(self) -> Iterator[XMLElement]:
        """Every element of the file and of those it includes, in document order."""
        for document in self.documents:
            yield from _walk(document)


def read_mjcf_files(data: bytes, file: str, folders: AllowedFolders) -> MjcfFiles:
    """Check a file and collect what it needs, or raise a FileError."""
    root = parse_xml(data, file).outermost("an MJCF", "mujoco", "mujocoinclude")
    found = MjcfFiles(file, folders, root)
    _follow_includes(found)
    for element in found.elements():
        check_element(element)
    found.fields = frozenset(
        e.attributes["hfield"] for e in found.elements() if "hfield" in e.attributes
    )
    check_whole(found.documents, found.fields)
    _collect_assets(found)
    if found.outside:
        element, name, reason = next(iter(found.outside.values()))
        raise element.error(
            f"file {shortened(name)}: {reason}. {folders.allowing(found.outside)}",
        )
    return found


def _walk(element: XMLElement) -> Iterator[XMLElement]:
    stack = [element]
    while stack:
        at = stack.pop()
        yield at
        stack.extend(reversed(at.children))


def _follow_includes(found: MjcfFiles) -> None:
    waiting, total = [found.root], InclusionTotals()
    while waiting:
        for element in list(_walk(waiting.pop())):
            if element.tag != "include":
                continue
            name = element.attributes.get("file", "")
            if name in found.includes:
                raise element.error(
                    f"{shortened(name)} is included a second time; MJCF allows it once."
                )
            if len(found.includes) >= MAX_INCLUDES:
                raise element.error(f"more than {MAX_INCLUDES} files are included.")
            place = _locate(found, name, element)
            if place is not None:
                data = total.add(read_bytes(place), element)
                found.includes[name] = parse_xml(data, place)
                waiting.append(found.includes[name])


def _locate(found: MjcfFiles, name: str, at: XMLElement) -> str | None:
    """Where a file is; None, and a remark in `found.outside`, if its folder is not allowed."""
    if not name:
        raise at.error(f'<{at.tag}> lacks file="…".')
    try:
        place = found.folders.locate(name)
    except Rejected as error:
        if not error.folder:
            raise at.error(f"file {shortened(name)}: {error}") from error
        found.outside.setdefault(error.folder, (at, name, error.reason))
        return None
    if place is None:
        raise at.error(f"file {shortened(name)} was not found in {found.folders.folder}.")
    return place


def _collect_assets(found: MjcfFiles) -> None:
    folders = {"meshdir": "", "texturedir": "", "assetdir": ""}
    strip = False
    for element in found.elements():
        if element.tag == "compiler":
            for key in folders:
                folders[key] = element.attributes.get(key, folders[key])
            strip = element.attributes.get("strippath", str(strip)).lower() == "true"
    total = used = points = 0
    for element in found.elements():
        if element.tag == "include":
            continue
        if is_used_field(element, found.fields) and not element.attributes.get("file"):
            rows, columns = (_numbers(element, word, 1)[0] for word in ("nrow", "ncol"))
            points += int(rows * columns)
            _check_points(points, element)
        folder = (
            folders["texturedir" if element.tag == "texture" else "meshdir"] or folders["assetdir"]
        )
        for attribute, name in element.attributes.items():
            if not attribute.startswith("file") or not name:
                continue
            if element.tag == "model":
                raise element.error("a model inside a model is not read; use <include> instead.")
            if strip:
                name = name.replace("\\", "/").rpartition("/")[2]
            path = os.path.normpath(os.path.join(folder, name))
            place = _locate(found, os.path.join(folder, name), element)
            is_field = is_used_field(element, found.fields)
            if place is None or (element.tag in _NOT_OPENED and not is_field):
                continue
            if not is_field:
                found.meshes[asset_name(element)] = (name, place)
            if path not in found.assets:
                found.assets[path] = read_bytes(place, MAX_ASSET_BYTES)
                total += len(found.assets[path])
            used += len(found.assets[path])
            if is_field:
                points += _points_in(found.assets[path])
                _check_points(points, element)
            if total > MAX_ASSET_BYTES or used > MAX_USED_BYTES:
                raise element.error(
                    f"the meshes have more than {MAX_ASSET_BYTES:,} bytes together, or "
                    f"{MAX_USED_BYTES:,} where one file counts for each mesh that uses it."
                )


def _points_in(data: bytes) -> int:
    """How many heights a file has: a PNG, or two integers and single-precision numbers."""
    if data.startswith(b"\x89PNG"):
        width, height = struct.unpack(">II", data[16:24].ljust(8, b"\0"))
        return width * height
    return len(data) // 4


def _check_points(points: int, at: XMLElement) -> None:
    if points > MAX_FIELD_POINTS:
        raise at.error(
            f"the height fields up to here have more than {MAX_FIELD_POINTS:,} points together. "
            "Use fewer, or leave out their geoms."
        )


def located_error(found: MjcfFiles, message: str) -> FileError:
    """MuJoCo's message with the file and line it is about."""
    stated = re.search(r"line (\d+)", message)
    tag = re.search(r"Element '([^']*)'", message)
    name = re.search(r"Element name '([^']*)'", message)
    line = int(stated.group(1)) if stated else 0
    file = found.file
    for element in found.elements():
        is_named = name and name.group(1) and element.name == name.group(1)
        if line in (0, element.line) and (is_named or (tag and element.tag == tag.group(1))):
            file, line = element.file, element.line
            break
    text = " ".join(message.strip().replace("\n", "; ").split())
    who = f"<{tag.group(1)}>" if tag else (shortened(name.group(1)) if name else "")
    return FileError(file, max(line, 1), who, f"MuJoCo says: {text}")


# ---- what a file may ask of MuJoCo ---------------------------------------------------------------
#
# Limits on single numbers keep out what is not a robot; limits on sums and products keep a small
# file from growing into a large model. They are checked before MuJoCo sees the file.


# Elements with all their copies. The time that MuJoCo takes grows with the square of their number:
# about 2 s for so many geoms, 10 s for so many bodies, joints and geoms together.
MAX_MADE = 20_000
MAX_BUILT_VERTICES = 100_000  # of all built-in meshes together, about 5 s
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)(\(.*\))?", re.IGNORECASE)
# Only decimals that are far too short for a number above the limit.
_HARMLESS = re.compile(r"\s*+(?:[-+.\d]{1,50}+(?:\s++|\Z))*+", re.ASCII)
# Attributes whose values are words: there "inf" or a long digit string is a name.
_WORDS = frozenset(
    "name class childclass file mesh material texture hfield joint joint1 joint2 body body1 body2 "
    "site site1 site2 geom geom1 geom2 tendon tendon1 tendon2 actuator refsite cranksite "
    "slidersite jointinparent target objname refname key value data plugin instance prefix model "
    "modelname meshdir texturedir "
    "assetdir content_type subdir source skin camera sensor dclass type text comment".split()
)
_REJECTED = {
    "composite": "it makes many bodies of one line",
    "flexcomp": "it makes a deformable body",
    "flex": "deformable bodies are not part of a rigid mechanism",
    "plugin": "plugins are code of their own",
}
# element, attribute: largest number. Larger ones only exhaust memory.
_LARGEST = {
    ("replicate", "count"): 1000,
    ("hfield", "nrow"): 2000,
    ("hfield", "ncol"): 2000,
    ("texture", "width"): 4096,
    ("texture", "height"): 24576,
    ("mesh", "params"): 200,
    ("mesh", "maxhullvert"): 1e6,
    ("body", "nuser"): 1000,
    ("rangefinder", "nsample"): 1e5,
}
_LARGEST_IN_SIZE = 1e6


def check_element(element: XMLElement) -> None:
    """Reject what one element may not say."""
    if element.tag in _REJECTED:
        raise element.error(f"<{element.tag}> is not read: {_REJECTED[element.tag]}.")
    for attribute, text in element.attributes.items():
        if attribute not in _WORDS and not attribute.startswith("file"):
            _check_numbers(element, attribute, text)
    if element.tag == "mesh" and element.attributes.get("builtin") == "sphere":
        if _numbers(element, "params", 1)[0] > 5:
            raise element.error("a built-in sphere with more than 5 subdivisions is not read.")


def _check_numbers(element: XMLElement, attribute: str, text: str) -> None:
    largest = _LARGEST.get((element.tag, attribute))
    if element.tag == "size" and attribute != "memory":
        largest = _LARGEST_IN_SIZE
    if largest is None and len(text) > 200 and _HARMLESS.fullmatch(text):
        return
    for word in text.split():
        if _NOT_FINITE.fullmatch(word):
            raise element.error(f"{attribute}={shortened(text)} must be finite numbers.")
        if not _NUMBER.fullmatch(word):
            continue
        value = float(word)
        if not math.isfinite(value) or abs(value) > MAX_NUMBER:
            raise element.error(
                f"{attribute}={shortened(text)}: {shortened(word)} is not a physical size."
            )
        if largest is not None and abs(value) > largest:
            raise element.error(f"{attribute}={shortened(text)} is more than {largest:g}.")
    if element.tag == "size" and attribute == "memory" and text[-1:].upper() in "TPE" and text:
        raise element.error(f"memory={shortened(text)} is more than a model needs.")


def _numbers(element: XMLElement, attribute: str, count: int) -> list[float]:
    """The first numbers of an attribute; 0 for those that are missing or are not numbers."""
    words = element.attributes.get(attribute, "").split(None, count)[:count]
    found = [float(word) if _NUMBER.fullmatch(word) else 0.0 for word in words]
    return found + [0.0] * (count - len(found))


def check_whole(documents: Iterable[XMLElement], fields: Container[str] = ()) -> None:
    """Reject what the elements ask for together, and what MuJoCo's messages must not contain."""
    made, vertices = 0.0, 0.0
    for document in documents:
        stack: list[tuple[XMLElement, float]] = [(document, 1.0)]
        while stack:
            element, copies = stack.pop()
            if is_left_out(element):
                continue
            _check_text(element, fields)
            if element.tag == "replicate":
                copies *= max(_numbers(element, "count", 1)[0], 1.0)
                if copies > 2000:
                    raise element.error("more than 2000 copies are made by nested <replicate>.")
            made += copies
            if made > MAX_MADE:
                raise element.error(
                    f"more than {MAX_MADE:,} elements are made up to here, the copies by "
                    "<replicate> included, and MuJoCo needs minutes for so many. Load a file "
                    "with the robot alone."
                )
            if element.tag == "mesh" and "builtin" in element.attributes:
                vertices += _vertices(element)
                if vertices > MAX_BUILT_VERTICES:
                    raise element.error(
                        f"the built-in meshes up to here have more than {MAX_BUILT_VERTICES:,} "
                        "vertices together. Use smaller params."
                    )
            stack.extend((child, copies) for child in reversed(element.children))


def _vertices(mesh: XMLElement) -> float:
    """How many vertices a built-in mesh has at most."""
    first, second = _numbers(mesh, "params", 2)
    if mesh.attributes["builtin"] == "sphere":
        return 10 * 4**first + 2
    return first * max(first, second)


def _check_text(element: XMLElement, fields: Container[str]) -> None:
    """MuJoCo takes some texts of the file as the format of a message, so "%n" writes to memory."""
    for attribute, text in attributes_for_mujoco(element, fields).items():
        if "%" in text:
            raise element.error(
                f"{attribute}={shortened(text)} contains '%', which MuJoCo's reader may take for "
                "an instruction. Write it without."
            )
