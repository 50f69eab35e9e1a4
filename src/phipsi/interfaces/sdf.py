"""SDF: one model with its links, joints, frames, nested and included models.

    model = load_sdf("robot.sdf")

Read as the specification says from version 1.7 on: poses of links are in the model, poses of joints
in their child, axes in the joint frame, unless `relative_to` and `expressed_in` say otherwise. The
model floats on a free joint unless it is static or a joint connects it to "world".
"""

from __future__ import annotations

import math
import os
from typing import final

import numpy as np
from numpy.typing import NDArray

from phipsi.errors import ModelError, did_you_mean
from phipsi.interfaces.anchors import frame_name, hinge_shift, in_body, in_link, moved_inertia
from phipsi.interfaces.document import Element, parse_number, parse_vector, parse_xml, shortened
from phipsi.interfaces.draft import GROUND, Base, Connection, Draft, Link, Options
from phipsi.interfaces.files import MAX_BYTES, PackageDirs, Refused, Roots, read_bytes
from phipsi.interfaces.geometry import MeshPaths
from phipsi.interfaces.sdf_frames import MODEL, FrameGraph, Node, read_pose, text_number
from phipsi.interfaces.sdf_shapes import read_shape
from phipsi.model import Model, Pose, SpatialInertia, joints
from phipsi.model.body import WORLD_NAME, Frame
from phipsi.model.extras import Rating

_MAX_INCLUDES = 50
_UNLIMITED = 1e16


def load_sdf(
    path: str | os.PathLike[str],
    *,
    base: Base | None = None,
    package_dirs: PackageDirs | None = None,
    strict: bool = False,
    repair: str | None = None,
    max_bytes: int = MAX_BYTES,
) -> Model:
    """Read an SDF file with one model; see `phipsi.load` for the arguments."""
    options = Options(base, strict, repair)
    file = os.fspath(path)
    return read_sdf(read_bytes(file, max_bytes), file, Roots.of(file, package_dirs), options)


def read_sdf(data: bytes, file: str, roots: Roots, options: Options) -> Model:
    """Make a model of the bytes of an SDF file."""
    reader = _Reader(file, roots)
    draft, default = reader.read(_the_model(parse_xml(data, file)))
    return draft.finish(options, default)


def _the_model(sdf: Element) -> tuple[Element, str]:
    """The only model of the file, and the version of the format."""
    if sdf.tag != "sdf":
        raise sdf.error(f"the outermost element is <{sdf.tag[:40]}>, but that of an SDF is <sdf>.")
    places = [sdf, *sdf.all("world")]
    found = [model for place in places for model in place.all("model")]
    if len(found) != 1:
        listed = ", ".join(shortened(model.name) for model in found[:5])
        what = f"{len(found)} models ({listed})" if found else "no <model>"
        raise sdf.error(
            f"there are {what}, but one is wanted. Keep each model in a file of its own."
        )
    return found[0], sdf.attributes.get("version", "1.7")


@final
class _Reader:
    def __init__(self, file: str, roots: Roots) -> None:
        self.roots, self.graph = roots, FrameGraph()
        self.draft = Draft(file)
        self.meshes = MeshPaths(roots, self.draft)
        self.joints: list[tuple[Element, str, bool]] = []
        self.frames: list[tuple[Element, str]] = []
        self.shapes: list[tuple[Element, str, str]] = []
        self.includes = 0
        self.shifts: dict[str, NDArray[np.float64]] = {}

    def read(self, found: tuple[Element, str]) -> tuple[Draft, Base]:
        model, version = found
        draft = self.draft
        draft.name, draft.line = model.name, model.line
        pose, relative = read_pose(model, model.label)
        if relative not in ("", WORLD_NAME):
            raise model.error(
                f"its pose is relative to {shortened(relative)}, which is not in this file."
            )
        self.graph.place_model(pose)
        self._collect(model, "", version)
        if not draft.links:
            raise model.error("there is no <link>, so there is no robot.")
        for element, scope, in_model in self.joints:
            self._joint(element, scope, in_model)
        self._place()
        static = model.only("static")
        is_static = static is not None and static.text.strip().lower() in ("true", "1")
        grounded = any(joint.parent == GROUND for joint in draft.joints.values())
        return draft, "fixed" if is_static or grounded else "free"

    # ---------------------------------------------------------------- first pass: names and poses

    def _collect(self, model: Element, scope: str, version: str) -> None:
        links = [link.name for link in model.all("link")]
        canonical = model.attributes.get("canonical_link") or (links[0] if links else "")
        if scope:
            pose, relative = read_pose(model, model.label)
            outer = scope[:-2].rpartition("::")[0]
            prefix = f"{outer}::" if outer else ""
            base = prefix + (relative or MODEL)
            name = scope[:-2]
            self.graph.add(
                name, Node(base, pose, scope + canonical, model.file, model.line, model.label)
            )
            self.graph.add(
                scope + MODEL, Node(name, Pose(), name, model.file, model.line, model.label)
            )
        for element in model.children:
            if element.tag == "link":
                self._link(element, scope)
            elif element.tag == "joint":
                self._joint_frame(element, scope, version)
            elif element.tag == "frame":
                self._frame(element, scope, canonical)
            elif element.tag == "model":
                self._collect(element, f"{scope}{element.required_name()}::", version)
            elif element.tag == "include":
                self._include(element, scope)

    def _link(self, element: Element, scope: str) -> None:
        name, who = scope + element.required_name(), element.label
        pose, relative = read_pose(element, who)
        base = scope + (relative or MODEL)
        self.graph.add(name, Node(base, pose, "", element.file, element.line, who))
        link = Link(name, element.line, has_inertia=True)
        inertial = element.only("inertial", who)
        if inertial is None:
            message = "it has no <inertial>; the format then means 1 kg and moments of 1 kg·m²."
            self.draft.note("default", who, name, message, element.line)
            link.inertia = SpatialInertia(1.0, (0, 0, 0), 1.0)
        else:
            link.inertia, link.inertia_line = _inertia(inertial, who), inertial.line
        self.draft.add_link(link)
        for role in ("visual", "collision"):
            self.shapes.extend((shape, name, role) for shape in element.all(role))

    def _joint_frame(self, element: Element, scope: str, version: str) -> None:
        name, who = scope + element.required_name(), element.label
        pose, relative = read_pose(element, who)
        child = scope + _end(element, "child", who)
        base = scope + relative if relative else child
        self.graph.add(name, Node(base, pose, child, element.file, element.line, who))
        self.joints.append((element, scope, _is_before(version, (1, 5))))

    def _frame(self, element: Element, scope: str, canonical: str) -> None:
        name, who = scope + element.required_name(), element.label
        pose, relative = read_pose(element, who)
        attached = element.attributes.get("attached_to", "")
        base = scope + (relative or attached or MODEL)
        host = scope + (attached or canonical)
        self.graph.add(name, Node(base, pose, host, element.file, element.line, who))
        self.frames.append((element, scope))

    def _include(self, element: Element, scope: str) -> None:
        uri_at = element.only("uri")
        uri = uri_at.text.strip() if uri_at is not None else ""
        if not uri:
            raise element.error("<include> needs <uri>model://folder</uri>.")
        self.includes += 1
        if self.includes > _MAX_INCLUDES:
            raise element.error(
                f"more than {_MAX_INCLUDES} models are included; do they include themselves?"
            )
        if element.attributes.get("merge", "false").lower() in ("true", "1"):
            raise element.error("merge-include is not read. Copy the elements into this model.")
        try:
            found = self.roots.locate(uri) or self.roots.locate(f"{uri.rstrip('/')}/model.sdf")
        except Refused as refused:
            raise element.error(f"include {shortened(uri)}: {refused}.") from refused
        if found is None:
            raise element.error(
                f"include {shortened(uri)} was not found. Say where models are:\n"
                f'    pp.load(path, package_dirs=["folder of models"])'
            )
        model, version = _the_model(parse_xml(read_bytes(found), found))
        name_at = element.only("name")
        if name_at is not None and name_at.text.strip():
            model.attributes["name"] = name_at.text.strip()
        pose = element.only("pose")
        if pose is not None:
            model.children = [c for c in model.children if c.tag != "pose"] + [pose]
        self._collect(model, f"{scope}{model.required_name()}::", version)

    # ---------------------------------------------------------------- second pass: joints

    def _joint(self, element: Element, scope: str, in_model: bool) -> None:
        name, who = scope + element.name, element.label
        kind = element.attributes.get("type", "")
        links = self.draft.links
        parent = _end(element, "parent", who)
        host = (
            GROUND
            if parent == WORLD_NAME
            else self.graph.link_of(scope + parent, element, links, who)
        )
        child = self.graph.link_of(scope + _end(element, "child", who), element, links, who)
        X_child = self.graph.pose(child, element, who).inv @ self.graph.pose(name, element, who)
        axes = [
            self._axis(element, tag, scope, name, child, in_model, who)
            for tag in ("axis", "axis2")
            if element.only(tag, who) is not None
        ]
        try:
            joint = _joint_of(kind, axes, element, who)
        except ModelError as error:
            raise error if hasattr(error, "line") else element.error(str(error), who) from error
        anchor = X_child.translation
        if isinstance(joint, joints.Revolute | joints.Helical):
            shift = hinge_shift(anchor, axes[0])
        elif isinstance(joint, joints.Fixed | joints.Prismatic):
            shift = 0 * anchor
        else:
            shift = anchor
        self.shifts[child] = shift
        limits, rating, damping = _axis_data(self.draft, element, kind, name, who)
        self.draft.add_joint(
            Connection(name, element.line, host, child, joint, Pose(), limits, damping)
        )
        if joint.nv:
            self.draft.ratings.append(rating)

    def _axis(
        self,
        element: Element,
        tag: str,
        scope: str,
        name: str,
        child: str,
        in_model: bool,
        who: str,
    ) -> tuple[float, ...]:
        """A unit axis in the child's axes."""
        at = element.only(tag, who)
        assert at is not None
        xyz_at = at.only("xyz", who)
        xyz = (
            (0.0, 0.0, 1.0) if xyz_at is None else parse_vector(xyz_at.text, 3, xyz_at, "xyz", who)
        )
        if not any(xyz):
            raise (xyz_at or at).error(
                "axis xyz 0 0 0 is no direction; give for example 0 0 1.", who
            )
        frame = xyz_at.attributes.get("expressed_in", "") if xyz_at is not None else ""
        old = at.only("use_parent_model_frame", who)
        if not frame and (in_model or (old is not None and old.text.strip() in ("true", "1"))):
            frame = MODEL
        expressed = scope + frame if frame else name
        R = (
            self.graph.pose(child, element, who).rotation.T
            @ self.graph.pose(expressed, element, who).rotation
        )
        return tuple((R @ xyz).tolist())

    # ---------------------------------------------------------------- third pass: places

    def _place(self) -> None:
        """Placements between body frames, and everything that is fixed in a link."""
        draft, graph = self.draft, self.graph
        X_body: dict[str, Pose] = {}
        for name, link in draft.links.items():
            node = graph.nodes[name]
            shift = self.shifts.get(name, (0.0, 0.0, 0.0))
            X_body[name] = graph.pose(name, node) @ in_link(shift)
            link.inertia = moved_inertia(link.inertia, shift)
        inboard = draft.inboard_joints()
        for joint in draft.joints.values():
            inner = Pose() if joint.parent == GROUND else X_body[joint.parent].inv
            joint.placement = inner @ X_body[joint.child]
        taken = set(draft.links) | {frame.name for frame, _ in draft.frames}
        taken |= {scope + element.name for element, scope in self.frames}
        for name in draft.links:
            shift = self.shifts.get(name)
            if shift is not None and shift.any():
                frame = Frame(frame_name(name, taken), name, in_body(shift))
                draft.frames.append((frame, draft.links[name].line))
            if name not in inboard and not graph.pose(name, graph.nodes[name]).is_identity:
                draft.root_placements[name] = graph.pose(name, graph.nodes[name])
        links = draft.links
        for element, scope in self.frames:
            name = scope + element.name
            host = graph.link_of(name, element, links, element.label)
            X = X_body[host].inv @ graph.pose(name, element, element.label)
            draft.frames.append((Frame(name, host, X), element.line))
        for element, link, role in self.shapes:
            in_link_pose, relative = read_pose(element, element.label)
            shift = self.shifts.get(link, (0.0, 0.0, 0.0))
            X = in_body(shift) @ in_link_pose
            if relative:
                scope = link[: len(link) - len(link.rpartition("::")[2])]
                X = X_body[link].inv @ graph.pose(scope + relative, element) @ in_link_pose
            draft.shapes.extend(read_shape(element, link, role, X, self.meshes))


# ---- elements -----------------------------------------------------------------------------------


def _inertia(inertial: Element, who: str) -> SpatialInertia:
    mass = text_number(inertial, "mass", who, 1.0)
    if mass < 0:
        raise inertial.error(f"mass {mass:g} kg is negative. Write <mass>{-mass:g}</mass>.", who)
    at = inertial.only("inertia", who)
    moments = {"ixx": 1.0, "iyy": 1.0, "izz": 1.0, "ixy": 0.0, "ixz": 0.0, "iyz": 0.0}
    if at is not None:
        moments = {key: text_number(at, key, who, value) for key, value in moments.items()}
    pose, relative = read_pose(inertial, who)
    if relative:
        raise inertial.error(
            "the pose of <inertial> is always in its link; remove relative_to.", who
        )
    m = moments
    matrix = [
        [m["ixx"], m["ixy"], m["ixz"]],
        [m["ixy"], m["iyy"], m["iyz"]],
        [m["ixz"], m["iyz"], m["izz"]],
    ]
    return SpatialInertia(mass, (0, 0, 0), matrix).transformed(pose)


def _end(element: Element, role: str, who: str) -> str:
    at = element.only(role, who)
    name = at.text.strip() if at is not None else ""
    if not name:
        raise element.error(f"it needs <{role}>link</{role}>.", who)
    return name


def _is_before(version: str, than: tuple[int, int]) -> bool:
    parts = version.split(".")
    try:
        return (int(parts[0]), int(parts[1])) < than
    except (ValueError, IndexError):
        return False


_ONE_AXIS = ("revolute", "continuous", "prismatic", "screw")
_KINDS = (*_ONE_AXIS, "fixed", "ball", "universal", "revolute2")


def _joint_of(kind: str, axes: list[tuple[float, ...]], element: Element, who: str) -> joints.Joint:
    if kind not in _KINDS:
        raise element.error(f"its type is {shortened(kind)}. {did_you_mean(kind, _KINDS)}", who)
    if kind == "fixed":
        return joints.Fixed()
    if kind == "ball":
        return joints.Spherical()
    wanted = 1 if kind in _ONE_AXIS else 2
    if len(axes) < wanted:
        raise element.error(
            f"a {kind} joint needs {'<axis>' if wanted == 1 else '<axis> and <axis2>'}.", who
        )
    if kind == "prismatic":
        return joints.Prismatic(axes[0])
    if kind == "screw":
        pitch = element.only("screw_thread_pitch", who)
        if pitch is None:
            raise element.error("it needs <screw_thread_pitch>, in m per revolution.", who)
        value = parse_number(pitch.text, pitch, "screw_thread_pitch", who)
        return joints.Helical(axes[0], value / (2 * math.pi))
    return joints.Revolute(axes[0]) if wanted == 1 else joints.Universal(axes[0], axes[1])


def _axis_data(
    draft: Draft, element: Element, kind: str, name: str, who: str
) -> tuple[tuple[float, float] | None, Rating, float | tuple[float, ...]]:
    """Limits, drive and damping from <axis> (and <axis2>)."""
    axes = [at for tag in ("axis", "axis2") if (at := element.only(tag, who)) is not None]
    if kind in ("fixed", "ball") or not axes:
        return None, Rating(name, kind), 0.0
    dampings: list[float] = []
    limits, effort, velocity, friction = None, math.inf, math.inf, 0.0
    for k, axis in enumerate(axes):
        dynamics, limit = axis.only("dynamics", who), axis.only("limit", who)
        damping = 0.0
        if dynamics is not None:
            damping = text_number(dynamics, "damping", who, 0.0)
            friction = text_number(dynamics, "friction", who, 0.0)
            if damping < 0 or friction < 0:
                raise dynamics.error(
                    "damping and friction must be ≥ 0, or they would feed energy in.", who
                )
            if text_number(dynamics, "spring_stiffness", who, 0.0):
                message = "its spring is not part of the model and is left out."
                draft.note("ignored", who, name, message, dynamics.line, True)
        dampings.append(damping)
        if limit is None or k:
            continue
        low, high = (_bound(limit, tag, sign, who) for tag, sign in (("lower", -1), ("upper", 1)))
        if low > high:
            raise limit.error(f"the lower limit {low:g} is above the upper limit {high:g}.", who)
        if low == high:
            message = f"both limits are {low:g}, which leaves no room; it is taken as unlimited."
            draft.note("limit", who, name, message, limit.line)
        elif kind in ("revolute", "prismatic", "screw") and (low, high) != (-math.inf, math.inf):
            limits = (low, high)
        effort, velocity = (
            value if value >= 0 else math.inf
            for value in (text_number(limit, tag, who, -1.0) for tag in ("effort", "velocity"))
        )
    damping = dampings[0] if kind in _ONE_AXIS else tuple(dampings[:2])
    return limits, Rating(name, kind, effort, velocity, friction), damping


def _bound(limit: Element, tag: str, sign: int, who: str) -> float:
    at = limit.only(tag, who)
    if at is None:
        return sign * math.inf
    text = at.text.strip().lower()
    if text in ("inf", "+inf", "-inf"):
        return -math.inf if text == "-inf" else math.inf
    value = parse_number(at.text, at, tag, who, math.inf)
    return value if abs(value) < _UNLIMITED else math.copysign(math.inf, value)
