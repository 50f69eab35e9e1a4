"""SDF: one model with its links, joints, frames, nested, included and merged models.

    model = pp.load("robot.sdf")
    model = pp.load("world.sdf", model="robot")

Read as the specification says from version 1.7 on: poses of links are in the model, poses of joints
in their child, axes in the joint frame, unless `relative_to` and `expressed_in` say otherwise. What
no joint holds floats on a free joint, unless the model is static.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms import AS_CONSTRAINT
from phipsi.attached import JointProperties
from phipsi.core.model import WORLD_NAME, Frame, LimitsArgument, Pose, SpatialInertia, joints
from phipsi.files.allowed_folders import AllowedFolders
from phipsi.files.body_frames import add_link_frames, hinge_shift, in_body
from phipsi.files.file_inertias import checked_mass, inertia_of
from phipsi.files.files import attributed_to
from phipsi.files.load import Base, LoadOptions
from phipsi.files.mimic_joints import mimic_of
from phipsi.files.parsed_robot import GROUND, Connection, Link, ParsedRobot
from phipsi.files.sdf.frame_graph import MODEL, WORLD, FrameGraph, FrameNode, Scope, read_pose
from phipsi.files.sdf.included_models import Chosen, Includes, choose, name_of
from phipsi.files.sdf.sdf_left_out import note_forces_on_link, note_spring
from phipsi.files.sdf.surfaces import ALL_BITS, surface_of
from phipsi.files.shared_elements import (
    SHAPES,
    ShapeReader,
    check_type,
    checked_bounds,
    damping_and_friction,
)
from phipsi.files.xml_document import XMLElement, parse_vector, parse_xml, shortened

_LINK = (
    "inertial", "visual", "collision", "pose", "gravity", "kinematic", "sensor", "light",
    "velocity_decay", "self_collide", "enable_wind",
)  # fmt: skip
_JOINT = (
    "parent", "child", "axis", "axis2", "pose", "sensor", "physics", "screw_thread_pitch",
    "thread_pitch",
)  # fmt: skip
_USUAL_MOMENTS = (1.0, 0.0, 0.0, 1.0, 0.0, 1.0)
_OLD_AXES = (1, 5)  # before this version, axes are in the model's frame


def read_sdf(
    data: bytes, file: str, folders: AllowedFolders, options: LoadOptions
) -> tuple[ParsedRobot, Base]:
    """Parse the bytes of a SDF file; also what its base is if the caller does not say."""
    includes = Includes(folders)
    chosen = choose(parse_xml(data, file), includes, options.model)
    return _SDFReader(chosen, folders, includes, options).read()


@final
class _SDFReader:
    def __init__(
        self, chosen: Chosen, folders: AllowedFolders, includes: Includes, options: LoadOptions
    ) -> None:
        self.closes_loops = options.closes_loops
        self.default: Base = "fixed" if chosen.model.texts.flag("static") else "free"
        self.floats = (options.base or self.default) == "free"
        self.closing: list[tuple[Connection, XMLElement, NDArray[np.float64]]] = []
        self.chosen, self.includes, self.graph = chosen, includes, FrameGraph()
        model, gravity = chosen.model, chosen.gravity
        self.robot = ParsedRobot(model, model.name, gravity=gravity, deadline=options.deadline)
        self.meshes = ShapeReader(folders, self.robot, SHAPES, in_texts=True)
        self.joints: list[tuple[XMLElement, Scope, bool]] = []
        self.frames: list[tuple[XMLElement, Scope]] = []
        self.shapes: list[tuple[XMLElement, Scope, str]] = []
        self.link_elements: dict[str, XMLElement] = {}
        self.families: dict[str, str] = {}  # of links: those of a family do not touch each other
        self.self_collide = {"": chosen.model.texts.flag("self_collide")}  # by prefix of a model
        self.shifts: dict[str, NDArray[np.float64]] = {}
        self.links: list[str] = []  # those of the robot, in order
        self.hangs: dict[str, str] = {}  # from a link towards the one its chain hangs on at last

    def read(self) -> tuple[ParsedRobot, Base]:
        model, robot = self.chosen.model, self.robot
        for other in self.chosen.others:
            message = f"it is not read; choose it with model={name_of(other)[:40]!r}."
            robot.note("ignored", f"model {shortened(name_of(other))}", "", message, other)
        self._collect(model, Scope("", MODEL), self.chosen.version, WORLD, self.chosen.pose)
        if not robot.links:
            raise model.error("there is no <link>, so there is no robot.")
        for element, scope, in_model in self.joints:
            self._joint(element, scope, in_model)
        self._place()
        if self.default == "fixed" and any(joint.joint.nv for joint in robot.joints.values()):
            message = "it is static, so simulators hold its joints too; here only its base is held."
            robot.note("static", model.label, model.name, message, model, True)
        return robot, self.default

    # ---------------------------------------------------------------- first pass: names and poses

    def _collect(
        self, model: XMLElement, scope: Scope, version: str, base: str, pose: Pose
    ) -> None:
        """Names and poses of a model whose own pose is in the frame `base`."""
        before = len(self.links)
        for element in model.children:
            if element.tag == "link":
                self._link(element, scope)
            elif element.tag == "joint":
                self._joint_frame(element, scope, version)
            elif element.tag == "frame":
                self._frame(element, scope)
            elif element.tag == "model":
                self._inner(element, scope, version)
            elif element.tag == "include":
                inner, inner_version = self.includes.open(element)
                merge = element.flag("merge")
                self._inner(inner, scope, inner_version, merge)
        own = self.links[before:]
        direct = [name for name in own if "::" not in name[len(scope.prefix) :]]
        first = (direct or own or [""])[0]
        stated = model.attributes.get("canonical_link")
        placement = model.attributes.get("placement_frame")
        if placement:  # the pose is that of this frame instead of the model's own
            pose = pose @ self.graph.pose_within(scope(placement), scope.origin, model).inv
        canonical = scope(stated) if stated else first
        self.graph.add(scope.origin, FrameNode(base, pose, canonical, model))

    def _inner(self, model: XMLElement, outer: Scope, version: str, merge: bool = False) -> None:
        """A nested model; one that is merged puts its elements among those of the outer."""
        name = model.required_name()
        pose, relative = read_pose(model, model.label)
        base = outer(relative or MODEL)
        if model.texts.flag("static") and not self.chosen.model.texts.flag("static"):
            message = "it is static inside a model that is not; it moves with what it is joined to."
            self.robot.note("static", model.label, name, message, model, True)
        own = model.texts.flag("self_collide", self.self_collide[outer.prefix])
        if merge:
            scope = Scope(outer.prefix, f"{outer.prefix}_merged__{name}__model__")
            self._collect(model, scope, version, base, pose)
            return
        scope = Scope(f"{outer.prefix}{name}::", f"{outer.prefix}{name}::{MODEL}")
        self.self_collide[scope.prefix] = own
        self._collect(model, scope, version, base, pose)
        self.graph.add(outer(name), FrameNode(scope.origin, Pose(), scope.origin, model))

    def _link(self, element: XMLElement, scope: Scope) -> None:
        name, who = scope(element.required_name()), element.label
        pose, relative = read_pose(element, who)
        self.graph.add(name, FrameNode(scope(relative or MODEL), pose, "", element))
        link = Link(name, element, has_inertia=True)
        inertial = element.only("inertial", who)
        if inertial is None:
            message = "it has no <inertial>; the format then means 1 kg and moments of 1 kg·m²."
            self.robot.note("default", who, name, message, element)
            link.inertia = SpatialInertia(1.0, (0, 0, 0), 1.0)
        else:
            link.inertia, link.inertia_at = _inertia(inertial, who), inertial
            if inertial.only("fluid_added_mass", who) is not None:
                self.robot.note_left_out("the added mass of a fluid", who, name, inertial)
        self.robot.add_link(link)
        self.links.append(name)
        if not element.texts.flag("self_collide", self.self_collide[scope.prefix]):
            self.families[name] = f"{scope.prefix}{self.chosen.model.name}"
        self.link_elements[name] = element
        self.robot.note_unknown(element, _LINK, who, name)
        for role in ("visual", "collision"):
            self.shapes.extend((shape, scope, name) for shape in element.all(role))

    def _joint_frame(self, element: XMLElement, scope: Scope, version: str) -> None:
        name, who = scope(element.required_name()), element.label
        pose, relative = read_pose(element, who)
        child = _end(element, "child", who)
        if child == WORLD_NAME:
            raise element.error("the world cannot be a child; swap <parent> and <child>.", who)
        node = FrameNode(scope(relative or child), pose, scope(child), element)
        self.graph.add(name, node)
        self.robot.note_unknown(element, _JOINT, who, name)
        self.joints.append((element, scope, _is_before(version, _OLD_AXES)))

    def _frame(self, element: XMLElement, scope: Scope) -> None:
        pose, relative = read_pose(element, element.label)
        attached = element.attributes.get("attached_to", "") or MODEL
        name, base = scope(element.required_name()), scope(relative or attached)
        self.graph.add(name, FrameNode(base, pose, scope(attached), element))
        self.frames.append((element, scope))

    # ---------------------------------------------------------------- second pass: joints

    def _joint(self, element: XMLElement, scope: Scope, in_model: bool) -> None:
        name, who, graph = scope(element.name), element.label, self.graph
        kind = element.attributes.get("type", "").strip()
        links = self.robot.links
        parent = _end(element, "parent", who)
        if parent == WORLD_NAME and WORLD_NAME in links and self.floats:
            raise element.error(
                "its parent 'world' is the inertial frame in SDF, and not the link of this name, "
                'which floats. Rename the link, or hold it:  pp.load(path, base="fixed")',
                who,
            )
        host = GROUND if parent == WORLD_NAME else graph.link_of(scope(parent), element, links)
        child = graph.link_of(scope(_end(element, "child", who)), element, links)
        X_child = graph.pose(child, element).inv @ graph.pose(name, element)
        axes = [
            self._axis(at, element, scope, child, in_model)
            for tag in ("axis", "axis2")
            if (at := element.only(tag, who)) is not None
        ]
        joint = joint_of(kind, axes, element, who)
        anchor = X_child.translation
        if isinstance(joint, joints.Revolute | joints.Helical):
            shift = hinge_shift(anchor, axes[0])
        elif isinstance(joint, joints.Fixed | joints.Prismatic):
            shift = 0 * anchor
        else:
            shift = anchor
        if self._closes_a_loop(host, child):
            self.closing.append((Connection(name, element, host, child, joint), element, anchor))
            drive = read_drive(self.robot, element, kind, name, scope, who)
            if not self.closes_loops:
                message = 'it closes a loop and is left out (loops="cut").'
                self.robot.note("loop", who, name, message, element, True)
            elif drive.limits is not None or np.any(drive.damping):
                message = "it closes a loop and has no coordinate; its limits and damping are lost."
                self.robot.note("loop", who, name, message, element, True)
            return
        self.shifts[child] = shift
        drive = read_drive(self.robot, element, kind, name, scope, who)
        self.robot.add_joint(
            Connection(name, element, host, child, joint, Pose(), drive.limits, drive.damping)
        )
        if joint.nv:
            self.robot.joint_properties.append(drive.joint_properties)

    def _closes_a_loop(self, parent: str, child: str) -> bool:
        """Whether the child hangs on a joint already, or the parent hangs on the child.

        If not, the child hangs on the parent from now on.
        """
        root = parent
        while root in self.hangs:
            root = self.hangs[root]
        while parent != root:  # the way is short next time
            above = self.hangs[parent]
            self.hangs[parent] = root
            parent = above
        if child in self.hangs or root == child:
            return True
        self.hangs[child] = root
        return False

    def _axis(
        self, at: XMLElement, element: XMLElement, scope: Scope, child: str, in_model: bool
    ) -> tuple[float, ...]:
        """A unit axis in the child's axes."""
        who = element.label
        xyz_at, xyz = at.only("xyz", who), at.texts.vector("xyz", 3, who, (0.0, 0.0, 1.0))
        if not any(xyz):
            raise (xyz_at or at).error(
                "axis xyz 0 0 0 is not a direction; give for example 0 0 1.", who
            )
        frame = xyz_at.attributes.get("expressed_in", "") if xyz_at is not None else ""
        if not frame and (in_model or at.texts.flag("use_parent_model_frame")):
            frame = MODEL
        expressed = self.graph.pose(scope(frame or element.name), element)
        R = self.graph.pose(child, element).rotation.T @ expressed.rotation
        return tuple((R @ xyz).tolist())

    # ---------------------------------------------------------------- third pass: places

    def _place(self) -> None:
        """Placements between body frames, and everything that is fixed in a link."""
        robot, graph = self.robot, self.graph
        X_body: dict[str, Pose] = {}
        shifts = {name: self.shifts.get(name, np.zeros(3)) for name in robot.links}
        for name, link in robot.links.items():
            X_link = graph.pose(name, graph.nodes[name].at)
            X_body[name] = X_link @ Pose(translation=shifts[name])
            link.inertia = link.inertia.transformed(in_body(shifts[name]))
            note_forces_on_link(robot, self.link_elements[name], name, link.inertia)
        inboard = robot.inboard_joints()
        for joint in robot.joints.values():
            inner = Pose() if joint.parent == GROUND else X_body[joint.parent].inv
            joint.placement = inner @ X_body[joint.child]
        for joint, element, anchor in self.closing if self.closes_loops else ():
            X = graph.pose(joint.child, element) @ Pose(translation=anchor)
            ends = [
                (host or WORLD_NAME, X if host == GROUND else X_body[host].inv @ X)
                for host in (joint.parent, joint.child)
            ]
            make = AS_CONSTRAINT.get(type(joint.joint))
            if make is None:
                raise robot.fault(
                    joint,
                    f"it closes a loop, and a {joint.joint.kind} joint cannot be a constraint. "
                    "Let it come before the other joints of its loop in the file.",
                )
            robot.constraints.append(
                make(joint.joint.params, name=joint.name, a=ends[0], b=ends[1])
            )
        taken = set(robot.links) | {scope(element.name) for element, scope in self.frames}
        add_link_frames(robot, shifts, taken)
        for name in robot.links:
            if name not in inboard and not X_body[name].is_identity:
                robot.root_placements[name] = X_body[name]
        for element, scope in self.frames:
            name = scope(element.name)
            host = graph.link_of(name, element, robot.links)
            robot.frames.append(Frame(name, host, X_body[host].inv @ graph.pose(name, element)))
        bits: list[int | None] = []
        for element, scope, link in self.shapes:
            pose, relative = read_pose(element, element.label)
            X = in_body(shifts[link])
            if relative:
                X = X_body[link].inv @ graph.pose(scope(relative), element)
            who = element.label
            shapes = self.meshes.read(element, who, link, X @ pose, _color(element, who))
            if element.tag == "collision":
                surface = surface_of(robot, element, who)
                family = self.families.get(link, "")
                shapes = [replace(x, material=surface.material, family=family) for x in shapes]
                bits += [surface.bits] * len(shapes)
            else:
                bits += [None] * len(shapes)
            robot.shapes += shapes
        if any(x is not None for x in bits):
            all_bits = (ALL_BITS if x is None else x for x in bits)
            robot.shapes = [
                replace(x, group=own, mask=own)
                for x, own in zip(robot.shapes, all_bits, strict=True)
            ]


# ---- elements -----------------------------------------------------------------------------------


def _inertia(inertial: XMLElement, who: str) -> SpatialInertia:
    if inertial.flag("auto"):
        raise inertial.error(
            'auto="true" asks to compute the inertia from the collision shapes, which is not done '
            "here. Write the numbers into the file:\n"
            "    gz sdf --expand-auto-inertials -p robot.sdf > numbers.sdf",
            who,
        )
    stated = inertial.texts.number("mass", who, 1.0)
    mass = checked_mass(stated, inertial, who, "<mass>{:g}</mass>")
    at = inertial.only("inertia", who)
    pose, relative = read_pose(inertial, who)
    if relative:
        raise inertial.error(
            "the pose of <inertial> is always in its link; remove relative_to.", who
        )
    values = None if at is None else at.texts
    return inertia_of(mass, values, who, _USUAL_MOMENTS, all_stated=False).transformed(pose)


def _end(element: XMLElement, role: str, who: str) -> str:
    name = element.texts.string(role, who)
    if not name:
        raise element.error(f"it needs <{role}>link</{role}>.", who)
    return name


def _is_before(version: str, than: tuple[int, int]) -> bool:
    parts = version.split(".")
    try:
        return (int(parts[0]), int(parts[1])) < than
    except (ValueError, IndexError):
        return False


def _color(element: XMLElement, who: str) -> tuple[float, ...]:
    material = element.only("material", who)
    diffuse = material.only("diffuse", who) if material is not None else None
    if diffuse is None:
        return ()
    words = diffuse.text.split()
    values = parse_vector(diffuse.text, 3 if len(words) == 3 else 4, diffuse, "diffuse", who)
    return (*values, 1.0) if len(values) == 3 else values


# ---- joints --------------------------------------------------------------------------------------


_UNLIMITED = 1e16
# How each is built from its axes, and how many it has; a screw also needs its pitch.
_KINDS: dict[str, tuple[Callable[..., joints.Joint], int]] = {
    "revolute": (joints.Revolute, 1),
    "continuous": (joints.Revolute, 1),
    "prismatic": (joints.Prismatic, 1),
    "screw": (joints.Helical, 1),
    "universal": (joints.Universal, 2),
    "revolute2": (joints.Universal, 2),
    "fixed": (joints.Fixed, 0),
    "ball": (joints.Spherical, 0),
}
_FREE = (-math.inf, math.inf)

Vector = tuple[float, ...]


def joint_of(kind: str, axes: list[Vector], element: XMLElement, who: str) -> joints.Joint:
    """The joint of an SDF type about axes that are given in the child's axes."""
    if kind == "gearbox":
        raise element.error(
            "a gearbox ties the angles of two links together by its ratio, which is not read. "
            "Delete this joint, and tie the joints of the links with\n    pp.constraints.Coupling("
            "name='gear', joints=(…, …), coefficients=(1, -ratio))",
            who,
        )
    check_type(kind, _KINDS, element, who)
    make, wanted = _KINDS[kind]
    if len(axes) < wanted:
        raise element.error(
            f"a {kind} joint needs {'<axis>' if wanted == 1 else '<axis> and <axis2>'}.", who
        )
    pitch = [_pitch(element, who) / (2 * math.pi)] if kind == "screw" else []
    with attributed_to(element, who):
        return make(*axes[:wanted], *pitch)


def _pitch(element: XMLElement, who: str) -> float:
    """Metres per revolution; the old <thread_pitch> is radians per metre with the opposite sign."""
    values = element.texts
    if values.find("screw_thread_pitch", who):
        return values.number("screw_thread_pitch", who)
    old = element.only("thread_pitch", who)
    if old is None:
        raise element.error(
            "a screw needs <screw_thread_pitch>, the way in m that one revolution makes.", who
        )
    value = values.number("thread_pitch", who)
    if abs(value) < 1e-9:
        raise old.error(
            f"thread_pitch {value:g} rad/m is a screw that does not turn. Use type='prismatic', or "
            "give <screw_thread_pitch> in m per revolution.",
            who,
        )
    return -2 * math.pi / value


# ---- what the axes say --------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class AxisProperties:
    """Limits, damping and properties of a joint, as `Connection` wants them."""

    limits: LimitsArgument
    damping: float | Vector
    joint_properties: JointProperties


def read_drive(
    robot: ParsedRobot, element: XMLElement, kind: str, name: str, scope: Scope, who: str
) -> AxisProperties:
    """Read <limit>, <dynamics> and <mimic> of every axis of a joint."""
    count = _KINDS[kind][1]
    if not count:
        return AxisProperties(None, 0.0, JointProperties(name, kind))
    tags = ("axis", "axis2")[:count]
    axes = [at for tag in tags if (at := element.only(tag, who)) is not None]
    damping, friction = zip(*(_dynamics(axis, who) for axis in axes), strict=True)
    for place, axis in enumerate(axes):
        note_spring(robot, axis, name, who, place, count)
    bounds = [_bounds(robot, axis, kind, name, who) for axis in axes]
    efforts, velocities = zip(*(_largest(axis, who) for axis in axes), strict=True)
    for axis in axes:
        if (at := axis.only("mimic", who)) is not None:
            robot.mimics.append(mimic_of(at, at.texts, name, who, scope))
    limits = None
    if any(pair != _FREE for pair in bounds):
        limits = bounds[0] if count == 1 else tuple(zip(*bounds, strict=True))
    properties = JointProperties(name, kind, _one(efforts), _one(velocities), _one(friction))
    return AxisProperties(limits, damping[0] if count == 1 else damping, properties)


def _one(numbers: Vector) -> float | Vector:
    """One number where all axes have the same."""
    return numbers[0] if len(set(numbers)) == 1 else numbers


def _dynamics(axis: XMLElement, who: str) -> tuple[float, float]:
    at = axis.only("dynamics", who)
    return (0.0, 0.0) if at is None else damping_and_friction(at, at.texts, who)


def _bounds(
    robot: ParsedRobot, axis: XMLElement, kind: str, name: str, who: str
) -> tuple[float, float]:
    at = axis.only("limit", who)
    if at is None or kind == "continuous":
        return _FREE
    low, high = (
        at.texts.limit(tag, who, s * math.inf, _UNLIMITED)
        for tag, s in (("lower", -1), ("upper", 1))
    )
    return checked_bounds(robot, (low, high), at, who, name) or _FREE


def _largest(axis: XMLElement, who: str) -> tuple[float, float]:
    """Largest effort and velocity; a negative one means that there is none."""
    at = axis.only("limit", who)
    if at is None:
        return math.inf, math.inf
    effort, velocity = (
        at.texts.limit(tag, who, math.inf, _UNLIMITED) for tag in ("effort", "velocity")
    )
    return (effort if effort >= 0 else math.inf), (velocity if velocity >= 0 else math.inf)
