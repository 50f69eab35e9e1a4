"""What an MJCF file may ask of MuJoCo: numbers that are finite, and amounts that fit in memory.

Limits on single numbers keep out what is no robot; limits on sums and products keep a small file
from growing into a large model. They are checked before MuJoCo sees the file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from phipsi.interfaces.document import MAX_NUMBER, Element, shortened
from phipsi.interfaces.mjcf_text import attributes_for_mujoco, is_left_out

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


def check_element(element: Element) -> None:
    """Refuse what one element says by itself."""
    if element.tag in _REFUSED:
        raise element.error(f"<{element.tag}> is not read: {_REFUSED[element.tag]}.")
    for attribute, text in element.attributes.items():
        if attribute not in _WORDS and not attribute.startswith("file"):
            _check_numbers(element, attribute, text)
    if element.tag == "mesh" and element.attributes.get("builtin") == "sphere":
        if _numbers(element, "params", 1)[0] > 5:
            raise element.error("a built-in sphere with more than 5 subdivisions is not read.")


def _check_numbers(element: Element, attribute: str, text: str) -> None:
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
                f"{attribute}={shortened(text)}: {shortened(word)} is no physical size."
            )
        if largest is not None and abs(value) > largest:
            raise element.error(f"{attribute}={shortened(text)} is more than {largest:g}.")
    if element.tag == "size" and attribute == "memory" and text[-1:].upper() in "TPE" and text:
        raise element.error(f"memory={shortened(text)} is more than a model needs.")


def _numbers(element: Element, attribute: str, count: int) -> list[float]:
    """The first numbers of an attribute; 0 for those that are not there or are none."""
    words = element.attributes.get(attribute, "").split(None, count)[:count]
    found = [float(word) if _NUMBER.fullmatch(word) else 0.0 for word in words]
    return found + [0.0] * (count - len(found))


def check_whole(documents: Iterable[Element]) -> None:
    """Refuse what the elements ask for together, and what MuJoCo's messages must not contain."""
    made, vertices = 0.0, 0.0
    for document in documents:
        stack: list[tuple[Element, float]] = [(document, 1.0)]
        while stack:
            element, copies = stack.pop()
            if is_left_out(element):
                continue
            _check_text(element)
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


def _vertices(mesh: Element) -> float:
    """How many vertices a built-in mesh has at most."""
    first, second = _numbers(mesh, "params", 2)
    if mesh.attributes["builtin"] == "sphere":
        return 10 * 4**first + 2
    return first * max(first, second)


def _check_text(element: Element) -> None:
    """MuJoCo takes some texts of the file as the format of a message, so "%n" writes to memory."""
    for attribute, text in attributes_for_mujoco(element).items():
        if "%" in text:
            raise element.error(
                f"{attribute}={shortened(text)} contains '%', which MuJoCo's reader may take for "
                "an instruction. Write it without."
            )
