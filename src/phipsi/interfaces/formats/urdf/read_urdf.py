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

from phipsi.errors import ModelError, did_you_mean
from phipsi.interfaces.formats.document import Element, parse_xml, shortened
from phipsi.interfaces.formats.document import parse_number as number_of
from phipsi.interfaces.formats.folders import AllowedFolders
from phipsi.interfaces.formats.load_options import Base, Options
from phipsi.interfaces.formats.mesh_paths import MeshPaths
from phipsi.interfaces.formats.parsed_robot import Connection, Link, ParsedRobot
from phipsi.model import Pose, SpatialInertia, joints
from phipsi.model.extras import Coupling, Rating, Shape
from phipsi.model.rotations import plane_axes, rotation_of_rpy

_ROBOT = ("link", "joint", "material", "gazebo", "transmission", "ros2_control", "sensor")
_LINK = ("inertial", "visual", "collision")
_JOINT = (
    "origin",
    "parent",
    "child",
    "axis",
    "limit",
    "dynamics",
    "mimic",
    "calibration",
    "safety_controller",
)
_ZERO3 = (0.0, 0.0, 0.0)
_ANY = math.inf  # limits may be as large as a floating-point number
_UNLIMITED = 1e300  # from here on they mean that there is none


def read_urdf(
    data: bytes, file: str, folders: AllowedFolders, options: Options
) -> tuple[ParsedRobot, Base]:
    """Parse the bytes of a URDF file; also what its base is if the caller does not say."""
    return _parse(parse_xml(data, file, refuse_xacro=True), folders, options.deadline), "fixed"


def _parse(root: Element, folders: AllowedFolders, deadline: float) -> ParsedRobot:
    """Read what the file says, checked element by element."""
    if root.tag != "robot":
        raise root.error(
            f"the outermost element is <{shortened(root.tag)[1:-1]}>, but that of a URDF is "
            "<robot>."
        )
    robot = ParsedRobot(root, root.name, deadline=deadline)
    robot.note_unknown(root, _ROBOT, f"robot {shortened(root.name)}", root.name)
    meshes = MeshPaths(folders, robot)
    colors = _colors(root)
    for element in root.children:
        if element.tag == "link":
            _read_link(robot, element, meshes, colors)
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
        raise robot.error(
            roots[1].at,
            f"link {shortened(roots[1].name)}",
            f"{len(roots)} links hang on no joint ({listed}{', …' if len(roots) > 5 else ''}), but "
            "a robot has one base. Connect it, for example with\n"
            f'    <joint name="{roots[1].name[:40]}_joint" type="fixed"> <parent '
            f'link="{roots[0].name[:40]}"/> <child link="{roots[1].name[:40]}"/> </joint>',
        )
    return robot


# ---- links --------------------------------------------------------------------------------------


def _read_link(
    robot: ParsedRobot, element: Element, meshes: MeshPaths, colors: dict[str, tuple[float, ...]]
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
            robot.shapes.extend(_shape(shape, name, role, who, meshes, colors))


def _inertia(inertial: Element, who: str) -> SpatialInertia:
    mass_at = inertial.only("mass", who)
    if mass_at is None:
        raise inertial.error(
            '<inertial> lacks <mass value="…"/>; write 0 for a link without mass.', who
        )
    mass = mass_at.number("value", who)
    if mass < 0:
        raise mass_at.error(
            f"mass {mass:g} kg is negative, so it would accelerate against the force on it. "
            f'Write <mass value="{-mass:g}"/>.',
            who,
        )
    moments = (0.0,) * 6
    stated = inertial.only("inertia", who)
    if stated is not None:
        keys = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
        moments = tuple(stated.number(key, who) for key in keys)
    xx, xy, xz, yy, yz, zz = moments
    matrix = [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]
    return SpatialInertia(mass, _ZERO3, matrix).transformed(_origin(inertial, who))


def _origin(parent: Element, who: str) -> Pose:
    """The pose of <origin xyz rpy>, the identity if there is none."""
    origin = parent.only("origin", who)
    if origin is None:
        return Pose()
    xyz = origin.vector("xyz", 3, who, _ZERO3)
    if "quat_xyzw" in origin.attributes:
        x, y, z, w = origin.vector("quat_xyzw", 4, who)
        length = math.hypot(x, y, z, w)
        if not 0.999 < length < 1.001:
            raise origin.error(f"quat_xyzw has length {length:g}; a rotation needs length 1.", who)
        return Pose([c / length for c in (w, x, y, z)], xyz)
    return Pose(rotation_of_rpy(*origin.vector("rpy", 3, who, _ZERO3)), xyz)


# ---- shapes -------------------------------------------------------------------------------------


def _colors(robot: Element) -> dict[str, tuple[float, ...]]:
    """Colours by the names of materials, which may be stated anywhere and used everywhere."""
    materials = [
        material
        for link in robot.all("link")
        for visual in link.all("visual")
        for material in visual.all("material")
    ]
    stated = (_material(material) for material in (*materials, *robot.all("material")))
    return dict(filter(None, stated))


def _material(element: Element) -> tuple[str, tuple[float, ...]] | None:
    color = element.only("color")
    if color is None:
        return None
    return element.name, color.vector("rgba", 4, element.label)


def _shape(
    element: Element,
    link: str,
    role: str,
    who: str,
    meshes: MeshPaths,
    colors: dict[str, tuple[float, ...]],
) -> list[Shape]:
    geometry = element.only("geometry", who)
    if geometry is None or not geometry.children:
        raise element.error(f"its <{role}> has no shape: <geometry> is missing or empty.", who)
    material = element.only("material", who)
    color: tuple[float, ...] = ()
    if material is not None:
        own = _material(material)
        color = own[1] if own else colors.get(material.name, ())
    placement = _origin(element, who)
    out: list[Shape] = []
    for shape in geometry.children:
        if shape.tag not in _SHAPES:
            continue
        size = _SHAPES[shape.tag](shape, who)
        uri = file = None
        if shape.tag == "mesh":
            uri = shape.attributes.get("filename", "")
            file = meshes.locate(uri, shape, who) if uri else None
        out.append(
            Shape(link, role, shape.tag, size, placement, element.name, uri or "", file, color)
        )
    if not out:
        tag = geometry.children[0].tag
        raise geometry.error(f"<{tag}> is no shape of URDF. {did_you_mean(tag, _SHAPES)}", who)
    return out


def _positive(*attributes: str) -> Callable[[Element, str], tuple[float, ...]]:
    def read(element: Element, who: str) -> tuple[float, ...]:
        values = tuple(element.number(name, who) for name in attributes)
        if any(value < 0 for value in values):
            raise element.error(f"a {element.tag} cannot have negative sizes {values}.", who)
        return values

    return read


_SHAPES: dict[str, Callable[[Element, str], tuple[float, ...]]] = {
    "box": lambda element, who: element.vector("size", 3, who),
    "sphere": _positive("radius"),
    "cylinder": _positive("radius", "length"),
    "capsule": _positive("radius", "length"),
    "mesh": lambda element, who: element.vector("scale", 3, who, (1.0, 1.0, 1.0)),
}


# ---- joints -------------------------------------------------------------------------------------

_TYPES: dict[str, Callable[[tuple[float, ...]], joints.Joint]] = {
    "revolute": joints.Revolute,
    "continuous": joints.Revolute,
    "prismatic": joints.Prismatic,
    "fixed": lambda axis: joints.Fixed(),
    "floating": lambda axis: joints.Free(),
    "planar": lambda axis: joints.Planar(*plane_axes(axis)),
}


def _read_joint(robot: ParsedRobot, element: Element) -> None:
    name = element.required_name()
    who = element.label
    robot.note_unknown(element, _JOINT, who, name)
    kind = element.attributes.get("type", "")
    if kind not in _TYPES:
        given = f"its type is {shortened(kind)}" if kind else "it has no type"
        raise element.error(f"{given}. {did_you_mean(kind, _TYPES)}", who)
    ends = {role: _end(element, role, who) for role in ("parent", "child")}
    axis = _axis(element, kind, who)
    try:
        joint = _TYPES[kind](axis)
    except ModelError as error:
        raise element.error(str(error), who) from error
    damping, friction = _dynamics(element, who)
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
        robot.ratings.append(Rating(name, kind, effort, velocity, friction))
    mimic = element.only("mimic", who)
    if mimic is not None:
        of = mimic.attributes.get("joint")
        if not of:
            raise mimic.error('<mimic> lacks joint="…", the joint to follow.', who)
        coupling = Coupling(
            name, of, mimic.number("multiplier", who, 1.0), mimic.number("offset", who, 0.0)
        )
        robot.mimics.append((coupling, mimic))


def _end(element: Element, role: str, who: str) -> str:
    end = element.only(role, who)
    link = end.attributes.get("link") if end is not None else None
    if not link:
        raise (end or element).error(f'it needs <{role} link="…"/>.', who)
    return link


def _axis(element: Element, kind: str, who: str) -> tuple[float, ...]:
    at = element.only("axis", who)
    default = (1.0, 0.0, 0.0)
    if at is None or kind in ("fixed", "floating"):
        return default
    axis = at.vector("xyz", 3, who, default)
    if not any(axis):
        raise at.error(
            'axis xyz="0 0 0" is no direction. Give the direction along or about which the child '
            'moves, for example xyz="0 0 1".',
            who,
        )
    return axis


def _dynamics(element: Element, who: str) -> tuple[float, float]:
    at = element.only("dynamics", who)
    if at is None:
        return 0.0, 0.0
    values = at.number("damping", who, 0.0), at.number("friction", who, 0.0)
    for word, value in zip(("damping", "friction"), values, strict=True):
        if value < 0:
            raise at.error(f"{word} {value:g} is negative and would feed energy in; give ≥ 0.", who)
    return values


def _limits(
    robot: ParsedRobot, element: Element, kind: str, who: str
) -> tuple[tuple[float, float] | None, float, float]:
    """Bounds of q (None for none), largest effort, largest velocity."""
    at = element.only("limit", who)
    bounded = kind in ("revolute", "prismatic")
    if at is None:
        if bounded:
            message = "it has no <limit>; it is taken as unlimited."
            robot.note("limit", who, element.name, message, element)
        return None, math.inf, math.inf

    def read(name: str, default: float) -> float:
        text = at.attributes.get(name)
        value = default if text is None else number_of(text, at, f"limit {name}", who, _ANY)
        return value if abs(value) < _UNLIMITED else math.copysign(math.inf, value)

    lower, upper = read("lower", 0.0), read("upper", 0.0)
    rates: list[float] = []
    for word in ("effort", "velocity"):
        value = read(word, math.inf)
        if value < 0:
            message = f"its {word} limit {value:g} is negative; it is taken as unlimited."
            robot.note("limit", who, element.name, message, at)
            value = math.inf
        rates.append(value)
    if not bounded:
        return None, rates[0], rates[1]
    if lower > upper:
        raise at.error(
            f"the lower limit {lower:g} is above the upper limit {upper:g}, so no position is "
            f'allowed. Were they swapped?  lower="{upper:g}" upper="{lower:g}"',
            who,
        )
    if lower == upper:
        message = f"both limits are {lower:g}, which leaves no room; it is taken as unlimited."
        robot.note("limit", who, element.name, message, at)
        return None, rates[0], rates[1]
    unlimited = lower == -math.inf and upper == math.inf
    return None if unlimited else (lower, upper), rates[0], rates[1]
