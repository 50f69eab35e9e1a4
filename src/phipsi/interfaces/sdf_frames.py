"""The graph of poses of an SDF model: links, joints, frames and models state theirs anywhere."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from math import hypot, radians
from typing import final

from phipsi.errors import did_you_mean
from phipsi.interfaces.document import Element, parse_number, parse_vector, shortened
from phipsi.interfaces.files import FileError
from phipsi.interfaces.rotations import rotation_of_rpy
from phipsi.model import Pose

MODEL = "__model__"


@final
@dataclass(frozen=True)
class Node:
    """A frame: the frame its pose is in, the pose, the link it moves with, where it is stated."""

    base: str
    pose: Pose
    attached: str
    file: str
    line: int
    label: str


@final
class FrameGraph:
    """Poses by scoped name ("arm::hand"), resolved to the world."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self._known: dict[str, Pose] = {MODEL: Pose()}

    def place_model(self, pose: Pose) -> None:
        """Say where the outermost model is in the world."""
        self._known[MODEL] = pose

    def add(self, name: str, node: Node) -> None:
        """Add a frame; names are unique among links, joints, frames and models of a scope."""
        if name in self.nodes:
            raise FileError(
                node.file,
                node.line,
                node.label,
                f"the name is used before, on line {self.nodes[name].line}; links, joints, frames "
                "and models of one model share their names. Rename one of them.",
            )
        self.nodes[name] = node

    def pose(self, name: str, at: Element | Node, who: str = "") -> Pose:
        """Pose of a frame in the world."""
        trail: dict[str, Node] = {}
        while name not in self._known:
            if name in trail:
                loop = " → ".join(map(shortened, [*list(trail)[:6], name]))
                node = trail[name]
                raise FileError(
                    node.file, node.line, node.label, f"poses refer to each other: {loop}."
                )
            node = self._node(name, at, who)
            trail[name] = node
            name, at, who = node.base, node, node.label
        X = self._known[name]
        for inner, node in reversed(trail.items()):
            X = self._known[inner] = X @ node.pose
        return X

    def link_of(self, name: str, at: Element | Node, links: Container[str], who: str = "") -> str:
        """The link a frame moves with."""
        trail: dict[str, None] = {}
        while name not in links:
            node = self._node(name, at, who)
            if name in trail or not node.attached:
                raise FileError(node.file, node.line, node.label, "it is attached to no link.")
            trail[name] = None
            name, at, who = node.attached, node, node.label
        return name

    def _node(self, name: str, at: Element | Node, who: str) -> Node:
        node = self.nodes.get(name)
        if node is None:
            label = who or at.label
            raise FileError(
                at.file,
                at.line,
                label,
                f"there is no frame {shortened(name)}. {did_you_mean(name, list(self.nodes))}",
            )
        return node


def read_pose(parent: Element, who: str) -> tuple[Pose, str]:
    """The <pose> of an element and its relative_to; the identity and "" if there is none."""
    at = parent.only("pose", who)
    if at is None:
        return Pose(), ""
    relative = at.attributes.get("relative_to") or at.attributes.get("frame", "")
    text = at.text.strip()
    if not text:
        return Pose(), relative
    form = at.attributes.get("rotation_format", "euler_rpy")
    if form == "quat_xyzw":
        values = parse_vector(text, 7, at, "pose", who)
        x, y, z, w = values[3:]
        length = hypot(x, y, z, w)
        if not 0.99 < length < 1.01:
            raise at.error(f"the quaternion has length {length:g}; a rotation needs length 1.", who)
        return Pose([c / length for c in (w, x, y, z)], values[:3]), relative
    if form != "euler_rpy":
        raise at.error(f"rotation_format={shortened(form)} is not euler_rpy or quat_xyzw.", who)
    values = parse_vector(text, 6, at, "pose", who)
    angles = values[3:]
    if at.attributes.get("degrees", "false").strip().lower() in ("true", "1"):
        angles = tuple(map(radians, angles))
    return Pose(rotation_of_rpy(*angles), values[:3]), relative


def text_number(parent: Element, tag: str, who: str, default: float) -> float:
    """The number in a child element, or the default of the format."""
    at = parent.only(tag, who)
    return default if at is None else parse_number(at.text, at, tag, who)
