"""Joints of SDF: their types, and what their axes say about limits, drives, damping and mimicry."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from phipsi.errors import ModelError, did_you_mean
from phipsi.interfaces.formats.document import Element, shortened
from phipsi.interfaces.formats.parsed_robot import ParsedRobot
from phipsi.interfaces.formats.sdf.frame_graph import Scope
from phipsi.interfaces.formats.shared_elements import (
    checked_bounds,
    damping_and_friction,
    mimic_of,
)
from phipsi.model import joints
from phipsi.model.body import LimitsArgument
from phipsi.model.extras import Rating

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


def joint_of(kind: str, axes: list[Vector], element: Element, who: str) -> joints.Joint:
    """The joint of an SDF type about axes that are given in the child's axes."""
    if kind == "gearbox":
        raise element.error(
            "a gearbox ties the angles of two links together by its ratio, which is not read. "
            "Delete this joint, and tie the joints of the links with\n    pp.constraints.Coupling("
            "name='gear', joints=(…, …), coefficients=(1, -ratio))",
            who,
        )
    if kind not in _KINDS:
        given = f"its type is {shortened(kind)}" if kind else "it has no type"
        raise element.error(f"{given}. {did_you_mean(kind, _KINDS)}", who)
    make, wanted = _KINDS[kind]
    if len(axes) < wanted:
        raise element.error(
            f"a {kind} joint needs {'<axis>' if wanted == 1 else '<axis> and <axis2>'}.", who
        )
    pitch = [_pitch(element, who) / (2 * math.pi)] if kind == "screw" else []
    try:
        return make(*axes[:wanted], *pitch)
    except ModelError as error:
        raise element.error(str(error), who) from error


def _pitch(element: Element, who: str) -> float:
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
class Drive:
    """Limits, damping and rating of a joint, as `Connection` wants them."""

    limits: LimitsArgument
    damping: float | Vector
    rating: Rating


def read_drive(
    robot: ParsedRobot, element: Element, kind: str, name: str, scope: Scope, who: str
) -> Drive:
    """Read <limit>, <dynamics> and <mimic> of every axis of a joint."""
    count = _KINDS[kind][1]
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
        if (at := axis.only("mimic", who)) is not None:
            robot.mimics.append(mimic_of(at, at.texts, name, who, scope))
    limits = None
    if any(pair != _FREE for pair in bounds):
        limits = bounds[0] if count == 1 else tuple(zip(*bounds, strict=True))
    rating = Rating(name, kind, efforts[0], velocities[0], friction[0])
    return Drive(limits, damping[0] if count == 1 else damping, rating)


def _dynamics(robot: ParsedRobot, axis: Element, name: str, who: str) -> tuple[float, float]:
    at = axis.only("dynamics", who)
    if at is None:
        return 0.0, 0.0
    if at.texts.number("spring_stiffness", who, 0.0):
        message = "its spring is not part of the model and is left out."
        robot.note("ignored", who, name, message, at, True)
    return damping_and_friction(at, at.texts, who)


def _bounds(
    robot: ParsedRobot, axis: Element, kind: str, name: str, who: str
) -> tuple[float, float]:
    at = axis.only("limit", who)
    if at is None or kind == "continuous":
        return _FREE
    low, high = (
        at.texts.limit(tag, who, s * math.inf, _UNLIMITED)
        for tag, s in (("lower", -1), ("upper", 1))
    )
    return checked_bounds(robot, (low, high), at, who, name) or _FREE


def _largest(axis: Element, who: str) -> tuple[float, float]:
    """Largest effort and velocity; a negative one means that there is none."""
    at = axis.only("limit", who)
    if at is None:
        return math.inf, math.inf
    effort, velocity = (
        at.texts.limit(tag, who, math.inf, _UNLIMITED) for tag in ("effort", "velocity")
    )
    return (effort if effort >= 0 else math.inf), (velocity if velocity >= 0 else math.inf)
