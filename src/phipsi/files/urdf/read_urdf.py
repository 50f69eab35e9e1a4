"""URDF: links and joints, read to the letter of the format.

    model = pp.load("robot.urdf")
    model = pp.load("robot.urdf", base="free")

Bodies and joints have the names of the file; links on fixed joints become frames; the base is fixed
in the world unless base="free".

What other packages put into the same file (gazebo, transmission, ros2_control, sensors, safety
controllers) says nothing about the mechanism and is not read.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from phipsi.attached import JointProperties
from phipsi.core.model import Pose, SpatialInertia, joints, plane_axes, rotation_of_rpy
from phipsi.errors import did_you_mean
from phipsi.files.allowed_folders import AllowedFolders
from phipsi.files.file_inertias import checked_mass, inertia_of
from phipsi.files.files import attributed_to
from phipsi.files.load import Base, LoadOptions
from phipsi.files.mimic_joints import mimic_of
from phipsi.files.parsed_robot import Connection, Link, ParsedRobot
from phipsi.files.shared_elements import (
    ShapeReader,
    Vector,
    check_type,
    checked_bounds,
    damping_and_friction,
    pose_of,
)
from phipsi.files.xml_document import XMLElement, parse_xml, shortened

_ROBOT = ("link", "joint", "material", "gazebo", "transmission", "ros2_control", "sensor")
_LINK = ("inertial", "visual", "collision")
_JOINT = (
    "origin", "parent", "child", "axis", "limit", "dynamics", "mimic", "calibration",
    "safety_controller",
)  # fmt: skip
_SHAPES = ("box", "sphere", "cylinder", "capsule", "mesh")
_ZERO3 = (0.0, 0.0, 0.0)
_UNLIMITED = 1e300  # limits from here on mean that there is none


def read_urdf(
    data: bytes, file: str, folders: AllowedFolders, options: LoadOptions
) -> tuple[ParsedRobot, Base]:
    """Parse the bytes of a URDF file; also what its base is if the caller does not say."""
    root = parse_xml(data, file, reject_xacro=True).outermost("a URDF", "robot")
    return _parse(root, folders, options.deadline), "fixed"


def _parse(root: XMLElement, folders: AllowedFolders, deadline: float) -> ParsedRobot:
    """Read what the file says, checked element by element."""
    robot = ParsedRobot(root, root.name, deadline=deadline)
    robot.note_unknown(root, _ROBOT, f"robot {shortened(root.name)}", root.name)
    shapes = ShapeReader(folders, robot, _SHAPES, in_texts=False)
    colors = _colors(root)
    for element in root.children:
        if element.tag == "link":
            _read_link(robot, element, shapes, colors)
        elif element.tag == "joint":
            _read_joint(robot, element)
    if not robot.links:
        raise root.error(
            "there is no <link>, so there is no robot. Was the file cut or left empty?"
        )
    return _one_root(robot)


def _one_root(robot: ParsedRobot) -> ParsedRobot:
    """A URDF is one tree: exactly one link hangs on no joint."""
    inboard = robot.inboard_joints()
    roots = [link for link in robot.links.values() if link.name not in inboard]
    if len(roots) > 1:
        listed = ", ".join(shortened(link.name) for link in roots[:5])
        raise robot.fault(
            roots[1],
            f"{len(roots)} links have no parent joint ({listed}{', …' if len(roots) > 5 else ''}), "
            "but a robot has one base. Connect it, for example with\n"
            f'    <joint name="{roots[1].name[:40]}_joint" type="fixed"> <parent '
            f'link="{roots[0].name[:40]}"/> <child link="{roots[1].name[:40]}"/> </joint>',
        )
    return robot


# ---- links --------------------------------------------------------------------------------------


def _read_link(
    robot: ParsedRobot, element: XMLElement, shapes: ShapeReader, colors: dict[str, Vector]
) -> None:
    name = element.required_name()
    who = element.label
    robot.note_unknown(element, _LINK, who, name)
    link = Link(name, element)
    inertial = element.only("inertial", who)
    if inertial is not None:
        link.inertia, link.has_inertia = _inertia(inertial, who), True
        link.inertia_at = inertial
    robot.add_link(link)
    for role in ("visual", "collision"):
        for shape in element.all(role):
            geometry = shape.only("geometry", who)
            if geometry is None or not geometry.children:
                reason = f"its <{role}> has no shape: <geometry> is missing or empty."
                raise shape.error(reason, who)
            color = _color(shape, colors, who)
            found = shapes.read(shape, who, name, _origin(shape, who), color)
            if not found:
                tag = geometry.children[0].tag
                reason = f"<{tag}> is not a shape of URDF. {did_you_mean(tag, _SHAPES)}"
                raise geometry.error(reason, who)
            robot.shapes.extend(found)


def _inertia(inertial: XMLElement, who: str) -> SpatialInertia:
    mass_at = inertial.only("mass", who)
    if mass_at is None:
        raise inertial.error(
            '<inertial> lacks <mass value="…"/>; write 0 for a link without mass.', who
        )
    mass = checked_mass(mass_at.number("value", who), mass_at, who, '<mass value="{:g}"/>')
    inertia = inertia_of(mass, inertial.only("inertia", who), who, (0.0,) * 6, all_stated=True)
    return inertia.transformed(_origin(inertial, who))


def _origin(parent: XMLElement, who: str) -> Pose:
    """The pose of <origin xyz rpy>, the identity if there is none."""
    origin = parent.only("origin", who)
    if origin is None:
        return Pose()
    xyz = origin.vector("xyz", 3, who, _ZERO3)
    if "quat_xyzw" in origin.attributes:
        return pose_of(origin.vector("quat_xyzw", 4, who), xyz, origin, who, 0.001)
    return Pose(rotation_of_rpy(*origin.vector("rpy", 3, who, _ZERO3)), xyz)


# ---- shapes -------------------------------------------------------------------------------------


def _colors(robot: XMLElement) -> dict[str, Vector]:
    """Colours by the names of materials, which may be stated anywhere and used everywhere."""
    materials = [
        material
        for link in robot.all("link")
        for visual in link.all("visual")
        for material in visual.all("material")
    ]
    stated = (_material(material) for material in (*materials, *robot.all("material")))
    return dict(filter(None, stated))


def _material(element: XMLElement) -> tuple[str, Vector] | None:
    color = element.only("color")
    if color is None:
        return None
    return element.name, color.vector("rgba", 4, element.label)


def _color(shape: XMLElement, colors: dict[str, Vector], who: str) -> Vector:
    material = shape.only("material", who)
    if material is None:
        return ()
    own = _material(material)
    return own[1] if own else colors.get(material.name, ())


# ---- joints -------------------------------------------------------------------------------------

_TYPES: dict[str, Callable[[Vector], joints.Joint]] = {
    "revolute": joints.Revolute,
    "continuous": joints.Revolute,
    "prismatic": joints.Prismatic,
    "fixed": lambda axis: joints.Fixed(),
    "floating": lambda axis: joints.Free(),
    "planar": lambda axis: joints.Planar(*plane_axes(axis)),
}


def _read_joint(robot: ParsedRobot, element: XMLElement) -> None:
    name = element.required_name()
    who = element.label
    robot.note_unknown(element, _JOINT, who, name)
    kind = element.attributes.get("type", "")
    check_type(kind, _TYPES, element, who)
    ends = {role: _end(element, role, who) for role in ("parent", "child")}
    axis = _axis(element, kind, who)
    with attributed_to(element, who):
        joint = _TYPES[kind](axis)
    at = element.only("dynamics", who)
    damping, friction = (0.0, 0.0) if at is None else damping_and_friction(at, at, who)
    lower_upper, effort, velocity = _limits(robot, element, kind, who)
    robot.add_joint(
        Connection(
            name,
            element,
            ends["parent"],
            ends["child"],
            joint,
            _origin(element, who),
            lower_upper,
            damping if joint.nv else 0.0,
        )
    )
    if joint.nv:
        robot.joint_properties.append(JointProperties(name, kind, effort, velocity, friction))
    mimic = element.only("mimic", who)
    if mimic is not None:
        robot.mimics.append(mimic_of(mimic, mimic, name, who))


def _end(element: XMLElement, role: str, who: str) -> str:
    end = element.only(role, who)
    link = end.attributes.get("link") if end is not None else None
    if not link:
        raise (end or element).error(f'it needs <{role} link="…"/>.', who)
    return link


def _axis(element: XMLElement, kind: str, who: str) -> Vector:
    at = element.only("axis", who)
    default = (1.0, 0.0, 0.0)
    if at is None or kind in ("fixed", "floating"):
        return default
    axis = at.vector("xyz", 3, who, default)
    if not any(axis):
        raise at.error(
            'axis xyz="0 0 0" is not a direction. Give the axis along or about which the child '
            'moves, for example xyz="0 0 1".',
            who,
        )
    return axis


def _limits(
    robot: ParsedRobot, element: XMLElement, kind: str, who: str
) -> tuple[tuple[float, float] | None, float, float]:
    """Bounds of q (None for none), largest effort, largest velocity."""
    at = element.only("limit", who)
    bounded = kind in ("revolute", "prismatic")
    if at is None:
        if bounded:
            message = "it has no <limit>; it is taken as unlimited."
            robot.note("limit", who, element.name, message, element)
        return None, math.inf, math.inf
    low, high = (at.limit(word, who, 0.0, _UNLIMITED) for word in ("lower", "upper"))
    rates: list[float] = []
    for word in ("effort", "velocity"):
        value = at.limit(word, who, math.inf, _UNLIMITED)
        if value < 0:
            message = f"its {word} limit {value:g} is negative; it is taken as unlimited."
            robot.note("limit", who, element.name, message, at)
            value = math.inf
        rates.append(value)
    bounds = checked_bounds(robot, (low, high), at, who, element.name) if bounded else None
    return bounds, rates[0], rates[1]
