"""Joints of SDF: their types, and what their axes say about limits, drives, damping and mimicry."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from phipsi.errors import FileError, ModelError, did_you_mean
from phipsi.interfaces.formats.document import Element, parse_number, shortened
from phipsi.interfaces.formats.parsed_robot import ParsedRobot
from phipsi.interfaces.formats.sdf.frame_graph import Scope, text_number
from phipsi.model import joints
from phipsi.model.body import LimitsArgument
from phipsi.model.extras import Coupling, Rating

_UNLIMITED = 1e16
_ONE_AXIS = ("revolute", "continuous", "prismatic", "screw")
_TWO_AXES = ("universal", "revolute2")
KINDS = (*_ONE_AXIS, *_TWO_AXES, "fixed", "ball")
_FREE = (-math.inf, math.inf)

Vector = tuple[float, ...]


def joint_of(kind: str, axes: list[Vector], element: Element, who: str) -> joints.Joint:
    """The joint of an SDF type about axes that are given in the child's axes."""
    if kind == "gearbox":
        raise element.error(
            "a gearbox ties the angles of two links together by its ratio, which is not read. "
            "Delete this joint, and tie the joints of the links with\n    pp.constraints.Coupling("
            "name='gear', joints=(…, …), coefficients=(1, -ratio))",
            who,
        )
    if kind not in KINDS:
        given = f"its type is {shortened(kind)}" if kind else "it has no type"
        raise element.error(f"{given}. {did_you_mean(kind, KINDS)}", who)
    wanted = 1 if kind in _ONE_AXIS else 2 if kind in _TWO_AXES else 0
    if len(axes) < wanted:
        raise element.error(
            f"a {kind} joint needs {'<axis>' if wanted == 1 else '<axis> and <axis2>'}.", who
        )
    try:
        return _made(kind, axes, element, who)
    except FileError:
        raise
    except ModelError as error:
        raise element.error(str(error), who) from error


def _made(kind: str, axes: list[Vector], element: Element, who: str) -> joints.Joint:
    if kind == "fixed":
        return joints.Fixed()
    if kind == "ball":
        return joints.Spherical()
    if kind == "prismatic":
        return joints.Prismatic(axes[0])
    if kind == "screw":
        return joints.Helical(axes[0], _pitch(element, who) / (2 * math.pi))
    if kind in _TWO_AXES:
        return joints.Universal(axes[0], axes[1])
    return joints.Revolute(axes[0])


def _pitch(element: Element, who: str) -> float:
    """Metres per revolution; the old <thread_pitch> is radians per metre with the sign turned."""
    new, old = element.only("screw_thread_pitch", who), element.only("thread_pitch", who)
    if new is not None:
        return parse_number(new.text, new, "screw_thread_pitch", who)
    if old is None:
        raise element.error(
            "a screw needs <screw_thread_pitch>, the way in m that one revolution makes.", who
        )
    value = parse_number(old.text, old, "thread_pitch", who)
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
class Drive:
    """Limits, damping and rating of a joint, as `Connection` wants them."""

    limits: LimitsArgument
    damping: float | Vector
    rating: Rating


def read_drive(
    robot: ParsedRobot, element: Element, kind: str, name: str, scope: Scope, who: str
) -> Drive:
    """Read <limit>, <dynamics> and <mimic> of every axis of a joint."""
    count = 1 if kind in _ONE_AXIS else 2 if kind in _TWO_AXES else 0
    if not count:
        return Drive(None, 0.0, Rating(name, kind))
    tags = ("axis", "axis2")[:count]
    axes = [at for tag in tags if (at := element.only(tag, who)) is not None]
    damping, friction = zip(*(_dynamics(robot, axis, name, who) for axis in axes), strict=True)
    bounds = [_bounds(robot, axis, kind, name, who) for axis in axes]
    efforts, velocities = zip(*(_largest(axis, who) for axis in axes), strict=True)
    if count == 2 and (len(set(efforts)) > 1 or len(set(velocities)) > 1):
        message = "its axes have different effort or velocity limits; those of <axis> are kept."
        robot.note("limit", who, name, message, element)
    for axis in axes:
        _mimic(robot, axis, name, scope, who)
    limits = None
    if any(pair != _FREE for pair in bounds):
        limits = bounds[0] if count == 1 else tuple(zip(*bounds, strict=True))
    rating = Rating(name, kind, efforts[0], velocities[0], friction[0])
    return Drive(limits, damping[0] if count == 1 else damping, rating)


def _dynamics(robot: ParsedRobot, axis: Element, name: str, who: str) -> tuple[float, float]:
    at = axis.only("dynamics", who)
    if at is None:
        return 0.0, 0.0
    damping = text_number(at, "damping", who, 0.0)
    friction = text_number(at, "friction", who, 0.0)
    if damping < 0 or friction < 0:
        raise at.error("damping and friction must be ≥ 0, or they would feed energy in.", who)
    if text_number(at, "spring_stiffness", who, 0.0):
        message = "its spring is not part of the model and is left out."
        robot.note("ignored", who, name, message, at, True)
    return damping, friction


def _bounds(
    robot: ParsedRobot, axis: Element, kind: str, name: str, who: str
) -> tuple[float, float]:
    limit = axis.only("limit", who)
    if limit is None or kind == "continuous":
        return _FREE
    low, high = (_number(limit, tag, s * math.inf, who) for tag, s in (("lower", -1), ("upper", 1)))
    if low > high:
        raise limit.error(
            f"the lower limit {low:g} is above the upper limit {high:g}, so no position is "
            "allowed. Were they swapped?",
            who,
        )
    if low == high:
        message = f"both limits are {low:g}, which leaves no room; it is taken as unlimited."
        robot.note("limit", who, name, message, limit)
        return _FREE
    return low, high


def _largest(axis: Element, who: str) -> tuple[float, float]:
    """Largest effort and velocity; a negative one means that there is none."""
    limit = axis.only("limit", who)
    if limit is None:
        return math.inf, math.inf
    effort, velocity = (_number(limit, tag, math.inf, who) for tag in ("effort", "velocity"))
    return (effort if effort >= 0 else math.inf), (velocity if velocity >= 0 else math.inf)


def _number(limit: Element, tag: str, default: float, who: str) -> float:
    """A number that may be infinite."""
    at = limit.only(tag, who)
    if at is None:
        return default
    text = at.text.strip().lower()
    if text in ("inf", "+inf", "-inf"):
        return float(text)
    value = parse_number(at.text, at, tag, who, math.inf)
    return value if abs(value) < _UNLIMITED else math.copysign(math.inf, value)


def _mimic(robot: ParsedRobot, axis: Element, name: str, scope: Scope, who: str) -> None:
    """q = multiplier · (q of the other − reference) + offset."""
    at = axis.only("mimic", who)
    if at is None:
        return
    of = at.attributes.get("joint")
    if not of:
        raise at.error('<mimic> lacks joint="…", the joint to follow.', who)
    multiplier = text_number(at, "multiplier", who, 1.0)
    offset = text_number(at, "offset", who, 0.0)
    offset -= multiplier * text_number(at, "reference", who, 0.0)
    robot.mimics.append((Coupling(name, scope(of), multiplier, offset), at))
