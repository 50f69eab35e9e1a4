"""What MuJoCo gets to read: the elements that were checked, written again.

Its reader never sees the bytes of a file, so the two readers cannot take a file differently. What
says nothing about a mechanism but can cost much (keyframes, sensors, user data, sizes) is left out;
textures have one pixel, height fields that no geom uses four points, whatever the file says; and
ranges of muscle lengths, which would only be thrown away, are not computed.
Every element keeps its line, for MuJoCo's messages.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container
from typing import final

from phipsi.files.xml_document import XMLElement

_LEFT_OUT = frozenset(("size", "keyframe", "custom", "sensor", "skin"))
# Attributes that are kept, and those that take the place of all others.
_STAND_INS = {
    "texture": (("name", "type"), {"builtin": "flat", "width": "1", "height": "1"}),
    "hfield": (("name", "size"), {"nrow": "2", "ncol": "2"}),
}
_SETTINGS = '<size memory="256M"/><compiler><lengthrange mode="none"/></compiler>'
_SPECIAL = re.compile(r'[&<>"\t\n\r]')


def is_left_out(element: XMLElement) -> bool:
    """Whether MuJoCo gets neither this element nor what is in it."""
    return element.tag in _LEFT_OUT


def attributes_for_mujoco(element: XMLElement, fields: Container[str] = ()) -> dict[str, str]:
    """The attributes of an element that MuJoCo gets; `fields`, the height fields that are used."""
    given = element.attributes
    if element.tag not in _STAND_INS or is_used_field(element, fields):
        return {key: text for key, text in given.items() if key != "user"}
    kept, instead = _STAND_INS[element.tag]
    out = {key: given[key] for key in kept if key in given}
    if not out.get("name") and (name := asset_name(element)):
        out["name"] = name
    return out | instead


def asset_name(element: XMLElement) -> str:
    """The name of an asset: what it says, or that of its file."""
    file = element.attributes.get("file", "").replace("\\", "/").rpartition("/")[2]
    return element.name or os.path.splitext(file)[0]


def is_used_field(element: XMLElement, fields: Container[str]) -> bool:
    """Whether an element is a height field that a geom uses, of these names."""
    return element.tag == "hfield" and asset_name(element) in fields


def text_for_mujoco(document: XMLElement, is_main: bool, fields: Container[str] = ()) -> str:
    """A document for MuJoCo's reader: the main file or one it includes.

    `fields` are the names of the height fields that are used, which it gets as they are.
    """
    writer = _MJCFWriter(fields)
    writer.write(document, _SETTINGS if is_main else "")
    return "".join(writer.parts)


@final
class _MJCFWriter:
    def __init__(self, fields: Container[str]) -> None:
        self.fields = fields
        self.parts: list[str] = []
        self.line = 1

    def write(self, element: XMLElement, last: str = "") -> None:
        if element.line > self.line:
            self.parts.append("\n" * (element.line - self.line))
            self.line = element.line
        self.parts.append(f"<{element.tag}")
        for key, text in attributes_for_mujoco(element, self.fields).items():
            self.parts.append(f' {key}="{_SPECIAL.sub(_escaped, text)}"')
        self.parts.append(">")
        for child in element.children:
            if not is_left_out(child):
                self.write(child)
        self.parts.append(f"{last}</{element.tag}>")


def _escaped(found: re.Match[str]) -> str:
    return f"&#{ord(found.group())};"
