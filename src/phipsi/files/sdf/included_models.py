"""Which model of an SDF file is meant, and the files it includes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import final

from phipsi.core.model import WORLD_NAME, Pose
from phipsi.errors import did_you_mean
from phipsi.files.allowed_folders import AllowedFolders, Rejected
from phipsi.files.files import read_bytes
from phipsi.files.sdf.frame_graph import FrameGraph, FrameNode, read_pose
from phipsi.files.xml_document import InclusionTotals, XMLElement, parse_xml, shortened

_MAX_INCLUDES = 50
_CONFIG_BYTES = 100_000
_GRAVITY = (0.0, 0.0, -9.81)  # of a model without a world
_WORLD_GRAVITY = (0.0, 0.0, -9.8)  # the default of the format
# What <include> may say instead of the model it includes.
_OVERRIDES = ("pose", "static")


@final
@dataclass(frozen=True)
class Chosen:
    """A model with the version of the format it is written in, and what its world says.

    `others` are the models of the same file that were not chosen.
    """

    model: XMLElement
    version: str
    pose: Pose = Pose()
    gravity: tuple[float, ...] = _GRAVITY
    others: tuple[XMLElement, ...] = ()


@final
class Includes:
    """Opens included models, inside the robot's folders only."""

    def __init__(self, folders: AllowedFolders) -> None:
        self.folders, self.count, self.sum = folders, 0, InclusionTotals()

    def open(self, element: XMLElement) -> tuple[XMLElement, str]:
        """The model an <include> means, with its overrides, and the version of its file."""
        uri = _uri(element)
        if not uri:
            raise element.error("<include> needs <uri>model://folder</uri>.")
        self.count += 1
        if self.count > _MAX_INCLUDES:
            raise element.error(
                f"more than {_MAX_INCLUDES} models are included; do they include themselves?"
            )
        try:
            found = self._find(uri, element.file)
        except Rejected as error:
            raise element.error(f"include {shortened(uri)}: {error}") from error
        if found is None:
            raise element.error(
                f"include {shortened(uri)} was not found. Pass the folders of models:\n"
                "    pp.load(path, package_dirs=['folder of models'])"
            )
        data = self.sum.add(read_bytes(found), element)
        sdf = parse_xml(data, found).outermost("an SDF", "sdf")
        stated = list(sdf.all("model"))
        if len(stated) != 1:
            raise sdf.error(f"an included file must have one <model>, but there are {len(stated)}.")
        model = stated[0]
        for tag in _OVERRIDES:
            ours = element.only(tag)
            if ours is not None:
                model.children = [child for child in model.children if child.tag != tag] + [ours]
        for tag in ("name", "placement_frame"):
            text = element.texts.string(tag)
            if text:
                model.attributes[tag] = text
        return model, sdf.attributes.get("version", "1.7")

    def _find(self, uri: str, file: str) -> str | None:
        """The file itself, or what the model's folder says in model.config, or model.sdf in it."""
        found = self.folders.locate(uri, file)
        if found is not None:
            return found
        folder = uri.rstrip("/")
        config = self.folders.locate(f"{folder}/model.config", file)
        if config is not None:
            entries = parse_xml(read_bytes(config, _CONFIG_BYTES), config).all("sdf")
            newest = max(entries, key=_version, default=None)
            if newest is not None and newest.text.strip():
                return self.folders.locate(f"{folder}/{newest.text.strip()}", file)
        return self.folders.locate(f"{folder}/model.sdf", file)


def choose(sdf: XMLElement, includes: Includes, wanted: str | None) -> Chosen:
    """The model called `wanted`, or the only one; included models count if there is no other."""
    sdf.outermost("an SDF", "sdf")
    worlds: list[XMLElement] = list(sdf.all("world"))
    found = [
        (element, world)
        for place, world in [(sdf, None), *((world, world) for world in worlds)]
        for element in place.children
        if element.tag in ("model", "include")
    ]
    if wanted is None:
        pool = [pair for pair in found if pair[0].tag == "model"] or found
    else:
        pool = [pair for pair in found if name_of(pair[0]) == wanted]
    if len(pool) != 1:
        raise sdf.error(_which(wanted, [name_of(element) for element, _ in pool or found]))
    element, world = pool[0]
    others = tuple(other for other, _ in found if other is not element)
    version = sdf.attributes.get("version", "1.7")
    if element.tag == "include":
        element, version = includes.open(element)
    pose, relative = read_pose(element, element.label)
    if world is None:
        if relative not in ("", WORLD_NAME):
            raise element.error(
                f"its pose is relative to {shortened(relative)}, but a model outside a <world> "
                "stands in the world; remove relative_to."
            )
        return Chosen(element, version, pose, others=others)
    _reject_joints(world, element)
    gravity = world.texts.vector("gravity", 3, world.label, _WORLD_GRAVITY)
    return Chosen(element, version, _in_world(world, relative, element) @ pose, gravity, others)


def name_of(element: XMLElement) -> str:
    """What a <model> or <include> is called."""
    if element.tag == "model":
        return element.name
    return element.texts.string("name") or os.path.basename(_uri(element).rstrip("/"))


def _which(wanted: str | None, names: list[str]) -> str:
    listed = ", ".join(map(shortened, names[:8])) + (", …" if len(names) > 8 else "")
    if not names:
        return "there is no <model>, so there is no robot."
    if wanted is None:
        return (
            f"there are {len(names)} models: {listed}. Choose one:\n"
            f"    pp.load(path, model={names[0][:40]!r})"
        )
    if wanted in names:
        return f"{len(names)} models are named {shortened(wanted)}. Rename one of them."
    return f"there is no model {shortened(wanted)}. {did_you_mean(wanted, names)}"


def _uri(include: XMLElement) -> str:
    return include.texts.string("uri")


def _version(element: XMLElement) -> tuple[int, ...]:
    parts = element.attributes.get("version", "").split(".")
    return tuple(int(part) for part in parts if part.isdecimal() and len(part) < 9)


def _in_world(world: XMLElement, name: str, at: XMLElement) -> Pose:
    """Pose of a frame that the world itself states."""
    if name in ("", WORLD_NAME):
        return Pose()
    graph = FrameGraph()
    for frame in world.all("frame"):
        pose, relative = read_pose(frame, frame.label)
        base = relative or frame.attributes.get("attached_to", "")
        node = FrameNode("" if base == WORLD_NAME else base, pose, "", frame)
        graph.add(frame.required_name(), node)
    return graph.pose(name, at)


def _reject_joints(world: XMLElement, model: XMLElement) -> None:
    for joint in world.all("joint"):
        ends = [joint.texts.string(role).partition("::")[0] for role in ("parent", "child")]
        if model.name in ends:
            raise joint.error(
                "a joint between models of a world is not read. Put both models into one <model>, "
                "with the joint between them."
            )
