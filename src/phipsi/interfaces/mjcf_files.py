"""MJCF before MuJoCo sees it: read by expat, includes and assets found inside the package.

MuJoCo's own reader is C++ and opens whatever a file names. It is therefore given a string and a
dictionary with every file the model may need, and a model that names anything else is refused here.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import final

from phipsi.interfaces.document import MAX_NUMBER, Element, decoded, parse_xml, shortened
from phipsi.interfaces.files import FileError, read_bytes
from phipsi.interfaces.roots import Refused, Roots

MAX_ASSET_BYTES = 200_000_000
MAX_INCLUDES = 100
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)(\(.*\))?", re.IGNORECASE)
# Attributes whose values are words: there "inf" or a long digit string is a name.
_WORDS = frozenset(
    "name class childclass file mesh material texture hfield joint joint1 joint2 body body1 body2 "
    "site site1 site2 geom geom1 geom2 tendon tendon1 tendon2 actuator refsite cranksite "
    "slidersite jointinparent target objname refname key value data plugin instance prefix model "
    "modelname meshdir texturedir "
    "assetdir content_type subdir source skin camera sensor dclass type text comment".split()
)
_REFUSED = {
    "composite": "it makes many bodies of one line",
    "flexcomp": "it makes a deformable body",
    "flex": "deformable bodies are no part of a rigid mechanism",
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


@final
@dataclass
class MjcfFiles:
    """A model with everything it names: texts to include and assets, by the names MuJoCo uses."""

    file: str
    roots: Roots
    root: Element
    includes: dict[str, bytes] = field(default_factory=dict)
    assets: dict[str, bytes] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    documents: list[Element] = field(default_factory=list)

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
    found = MjcfFiles(file, roots, root, documents=[root])
    _follow_includes(found)
    for element in found.elements():
        _check_numbers(element)
        if element.tag in _REFUSED:
            raise element.error(f"<{element.tag}> is not read: {_REFUSED[element.tag]}.")
    _check_replicates(found)
    _collect_assets(found)
    return found


def _walk(element: Element) -> Iterator[Element]:
    stack = [element]
    while stack:
        at = stack.pop()
        yield at
        stack.extend(reversed(at.children))


def _follow_includes(found: MjcfFiles) -> None:
    waiting = [found.root]
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
            data, place = _read(found, name, element, MAX_ASSET_BYTES)
            document = parse_xml(data, place)
            found.includes[name] = decoded(data, place)
            found.documents.append(document)
            waiting.append(document)


def _read(found: MjcfFiles, name: str, at: Element, limit: int) -> tuple[bytes, str]:
    if not name:
        raise at.error(f'<{at.tag}> lacks file="…".')
    try:
        place = found.roots.locate(name)
    except Refused as refused:
        raise at.error(f"file {shortened(name)}: {refused}") from refused
    if place is None:
        raise at.error(f"file {shortened(name)} was not found in {found.roots.folder}.")
    return read_bytes(place, limit), place


def _collect_assets(found: MjcfFiles) -> None:
    folders = {"meshdir": "", "texturedir": "", "assetdir": ""}
    strip = False
    for element in found.elements():
        if element.tag == "compiler":
            for key in folders:
                folders[key] = element.attributes.get(key, folders[key])
            strip = element.attributes.get("strippath", str(strip)).lower() == "true"
    total = 0
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
            if path in found.assets:
                continue
            data, place = _read(found, os.path.join(folder, name), element, MAX_ASSET_BYTES)
            total += len(data)
            if total > MAX_ASSET_BYTES:
                raise element.error(
                    f"the assets have more than {MAX_ASSET_BYTES:,} bytes together."
                )
            found.assets[path], found.places[path] = data, place


def _check_numbers(element: Element) -> None:
    for attribute, text in element.attributes.items():
        if attribute in _WORDS or attribute.startswith("file"):
            continue
        for word in text.split():
            if _NOT_FINITE.fullmatch(word):
                raise element.error(f"{attribute}={shortened(text)} must be finite numbers.")
            if not _NUMBER.fullmatch(word):
                continue
            value = float(word)
            if not math.isfinite(value) or abs(value) > MAX_NUMBER:
                raise element.error(
                    f"{attribute}={shortened(text)}: {shortened(word)} is no physical size."
                )
            largest = _LARGEST.get((element.tag, attribute))
            if element.tag == "size" and attribute != "memory":
                largest = _LARGEST_IN_SIZE
            if largest is not None and abs(value) > largest:
                raise element.error(f"{attribute}={shortened(text)} is more than {largest:g}.")
        if element.tag == "size" and attribute == "memory" and text[-1:].upper() in "TPE" and text:
            raise element.error(f"memory={shortened(text)} is more than a model needs.")
    if element.tag == "mesh" and element.attributes.get("builtin") == "sphere":
        levels = element.attributes.get("params", "0").split()
        if levels and _NUMBER.fullmatch(levels[0]) and float(levels[0]) > 5:
            raise element.error("a built-in sphere with more than 5 subdivisions is not read.")


def _check_replicates(found: MjcfFiles) -> None:
    """Nested copies multiply."""
    for document in found.documents:
        stack: list[tuple[Element, float]] = [(document, 1.0)]
        while stack:
            element, copies = stack.pop()
            if element.tag == "replicate":
                count = element.attributes.get("count", "1")
                copies *= float(count) if _NUMBER.fullmatch(count) else 1.0
                if copies > 2000:
                    raise element.error("more than 2000 copies are made by nested <replicate>.")
            stack.extend((child, copies) for child in element.children)


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
