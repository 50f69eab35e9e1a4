"""The graph of poses of an SDF model: links, joints, frames and models state theirs anywhere."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from math import radians
from typing import final

from phipsi.core.model import Pose, rotation_of_rpy
from phipsi.errors import did_you_mean
from phipsi.files.files import where
from phipsi.files.shared_elements import pose_of
from phipsi.files.xml_document import XMLElement, parse_vector, shortened

MODEL = "__model__"
WORLD = ""  # the frame that everything is in at last


@final
@dataclass(frozen=True)
class Scope:
    """How names inside a model read from outside: "hand" in the model "arm" is "arm::hand".

    `origin` is the frame that "__model__" means there; it has a name of its own in a model that was
    merged into another.
    """

    prefix: str
    origin: str

    def __call__(self, name: str) -> str:
        """The name of a frame of this model, seen from the outermost one."""
        return self.origin if name == MODEL else self.prefix + name


@final
@dataclass(frozen=True)
class FrameNode:
    """A frame: the frame its pose is in, the pose, what it moves with, where it is stated."""

    base: str
    pose: Pose
    attached: str
    at: XMLElement


@final
class FrameGraph:
    """Poses by scoped name ("arm::hand"), resolved to the world."""

    def __init__(self) -> None:
        self.nodes: dict[str, FrameNode] = {}
        self._known: dict[str, Pose] = {WORLD: Pose()}
        self._links: dict[str, str] = {}

    def add(self, name: str, node: FrameNode) -> None:
        """Add a frame; names are unique among links, joints, frames and models of a scope."""
        if name in self.nodes:
            raise node.at.error(
                f"the name is used before, {where(self.nodes[name].at, node.at)}; links, joints, "
                "frames and models of one model share their names. Rename one of them."
            )
        self.nodes[name] = node

    def pose(self, name: str, at: XMLElement) -> Pose:
        """Pose of a frame in the world, asked for by the element `at`."""
        trail = self._trail(name, at, self._known)
        X = self._known[next(reversed(trail.values())).base if trail else name]
        for inner, node in reversed(trail.items()):
            X = self._known[inner] = X @ node.pose
        return X

    def pose_within(self, name: str, origin: str, at: XMLElement) -> Pose:
        """Pose of a frame in the frame of its model, before that has a place."""
        X = Pose()
        for node in self._trail(name, at, {origin}).values():
            X = node.pose @ X
        return X

    def _trail(self, name: str, at: XMLElement, ends: Container[str]) -> dict[str, FrameNode]:
        """The frames from a name to one of the `ends`, which is left out."""
        trail: dict[str, FrameNode] = {}
        while name not in ends:
            if name in trail:
                loop = " → ".join(map(shortened, [*list(trail)[:6], name]))
                raise trail[name].at.error(f"poses refer to each other: {loop}.")
            node = trail[name] = self._node(name, at)
            name, at = node.base, node.at
        return trail

    def link_of(self, name: str, at: XMLElement, links: Container[str]) -> str:
        """The link a frame moves with."""
        trail: set[str] = set()
        while name not in links and name not in self._links:
            node = self._node(name, at)
            if name in trail or not node.attached:
                raise node.at.error("it is attached to no link.")
            trail.add(name)
            name, at = node.attached, node.at
        link = self._links.get(name, name)
        self._links.update(dict.fromkeys(trail, link))
        return link

    def _node(self, name: str, at: XMLElement) -> FrameNode:
        node = self.nodes.get(name)
        if node is None:
            known = [each for each in self.nodes if not each.endswith(MODEL)]
            raise at.error(f"there is no frame {shortened(name)}. {did_you_mean(name, known)}")
        return node


def read_pose(parent: XMLElement, who: str) -> tuple[Pose, str]:
    """The <pose> of an element and its relative_to; the identity and "" if there is none."""
    at = parent.only("pose", who)
    if at is None:
        return Pose(), ""
    relative = at.attributes.get("relative_to") or at.attributes.get("frame", "")
    text = at.text.strip()
    if not text:
        return Pose(), relative
    form = at.attributes.get("rotation_format", "euler_rpy")
    if form not in ("euler_rpy", "quat_xyzw"):
        raise at.error(f"rotation_format={shortened(form)} is not euler_rpy or quat_xyzw.", who)
    values = parse_vector(text, 7 if form == "quat_xyzw" else 6, at, "pose", who)
    position, angles = values[:3], values[3:]
    if form == "quat_xyzw":
        return pose_of(angles, position, at, who, 0.01), relative
    if at.flag("degrees"):
        angles = tuple(map(radians, angles))
    return Pose(rotation_of_rpy(*angles), position), relative
