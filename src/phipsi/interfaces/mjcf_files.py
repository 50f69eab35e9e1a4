"""MJCF before MuJoCo sees it: read by expat, includes and assets found inside the package.

MuJoCo's own reader is C++ and opens whatever a file names. It is therefore given a string and a
dictionary with every file the model may need, and a model that names anything else is refused here.
Textures, height fields and skins are located but not opened: no mechanism needs them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import final

from phipsi.interfaces.document import Element, Sum, parse_xml, shortened
from phipsi.interfaces.files import FileError, read_bytes
from phipsi.interfaces.mjcf_limits import check_element, check_whole
from phipsi.interfaces.mjcf_text import asset_name
from phipsi.interfaces.roots import Refused, Roots

MAX_ASSET_BYTES = 200_000_000
MAX_USED_BYTES = 400_000_000  # where several meshes use one file, it counts for each
MAX_INCLUDES = 100
_NOT_OPENED = ("texture", "hfield", "skin")


@final
@dataclass
class MjcfFiles:
    """A model with everything it names: files it includes and assets, by the names MuJoCo uses.

    `meshes` has, by the name of the mesh, what the model calls its file and where that is;
    `outside` has the folders it leads to that are not allowed, with the first complaint about them.
    """

    file: str
    roots: Roots
    root: Element
    includes: dict[str, Element] = field(default_factory=dict)
    assets: dict[str, bytes] = field(default_factory=dict)
    meshes: dict[str, tuple[str, str]] = field(default_factory=dict)
    outside: dict[str, tuple[Element, str, str]] = field(default_factory=dict)

    @property
    def documents(self) -> list[Element]:
        """The file and those it includes."""
        return [self.root, *self.includes.values()]

    def elements(self) -> Iterator[Element]:
        """Every element of the file and of those it includes, in document order."""
        for document in self.documents:
            yield from _walk(document)


def read_mjcf_files(data: bytes, file: str, roots: Roots) -> MjcfFiles:
    """Check a file and collect what it needs, or raise a FileError."""
    root = parse_xml(data, file)
    if root.tag not in ("mujoco", "mujocoinclude"):
        raise root.error(
            f"the outermost element is <{root.tag[:40]}>, but that of an MJCF is <mujoco>."
        )
    found = MjcfFiles(file, roots, root)
    _follow_includes(found)
    for element in found.elements():
        check_element(element)
    check_whole(found.documents)
    _collect_assets(found)
    if found.outside:
        element, name, reason = next(iter(found.outside.values()))
        raise element.error(
            f"file {shortened(name)}: {reason}. {roots.allowing(found.outside)}",
        )
    return found


def _walk(element: Element) -> Iterator[Element]:
    stack = [element]
    while stack:
        at = stack.pop()
        yield at
        stack.extend(reversed(at.children))


def _follow_includes(found: MjcfFiles) -> None:
    waiting, total = [found.root], Sum()
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


def _locate(found: MjcfFiles, name: str, at: Element) -> str | None:
    """Where a file is; None, and a remark in `found.outside`, if its folder is not allowed."""
    if not name:
        raise at.error(f'<{at.tag}> lacks file="…".')
    try:
        place = found.roots.locate(name)
    except Refused as refused:
        if not refused.folder:
            raise at.error(f"file {shortened(name)}: {refused}") from refused
        found.outside.setdefault(refused.folder, (at, name, refused.reason))
        return None
    if place is None:
        raise at.error(f"file {shortened(name)} was not found in {found.roots.folder}.")
    return place


def _collect_assets(found: MjcfFiles) -> None:
    folders = {"meshdir": "", "texturedir": "", "assetdir": ""}
    strip = False
    for element in found.elements():
        if element.tag == "compiler":
            for key in folders:
                folders[key] = element.attributes.get(key, folders[key])
            strip = element.attributes.get("strippath", str(strip)).lower() == "true"
    total = used = 0
    for element in found.elements():
        if element.tag == "include":
            continue
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
            if place is None or element.tag in _NOT_OPENED:
                continue
            found.meshes[asset_name(element)] = (name, place)
            if path not in found.assets:
                found.assets[path] = read_bytes(place, MAX_ASSET_BYTES)
                total += len(found.assets[path])
            used += len(found.assets[path])
            if total > MAX_ASSET_BYTES or used > MAX_USED_BYTES:
                raise element.error(
                    f"the meshes have more than {MAX_ASSET_BYTES:,} bytes together, or "
                    f"{MAX_USED_BYTES:,} where one file counts for each mesh that uses it."
                )


def complaint(found: MjcfFiles, message: str) -> FileError:
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
