"""The <surface> of a collision of SDF: its material, with whom it touches, and what is left out."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from phipsi.attached import Material
from phipsi.errors import ModelError
from phipsi.files.parsed_robot import ParsedRobot
from phipsi.files.xml_document import XMLElement

ALL_BITS = 0xFFFF
"""The bits of a collision that does not state any."""
# The moment of friction on a round patch of radius r that slips about its normal: (3π/16) μ r N.
_PATCH = 3 * math.pi / 16
_NUMBERS_OF_CONTACT = ("soft_cfm", "soft_erp", "kp", "kd", "max_vel", "min_depth")


LeftOut = Callable[[str, XMLElement], None]
"""Records that something is left out: a message, and the element it is about."""


class CollisionSurface(NamedTuple):
    """The material, or None; and bits: two collisions touch that have one in common, or None."""

    material: Material | None = None
    bits: int | None = None


def surface_of(robot: ParsedRobot, element: XMLElement, who: str) -> CollisionSurface:
    """Friction, restitution and bits of a <collision>; records what it says besides."""
    surface = element.only("surface", who)
    if surface is None:
        return CollisionSurface()
    try:
        return CollisionSurface(_material(robot, element, surface, who), _bits(surface, who))
    except ModelError as error:
        message = f"its <surface> is left out: {error}"
        robot.note("ignored", who, element.name, message, element, True)
        return CollisionSurface()


def _material(
    robot: ParsedRobot, element: XMLElement, surface: XMLElement, who: str
) -> Material | None:
    """Friction and restitution; None if it says nothing about them."""

    def left_out(message: str, at: XMLElement) -> None:
        robot.note("ignored", who, element.name, message, at, True)

    friction, bounce = surface.only("friction", who), surface.only("bounce", who)
    laws = None if friction is None else friction.only("ode", who)
    twist = None if friction is None else friction.only("torsional", who)
    mu, torsion, part = 1.0, 0.0, 0.0
    if laws is not None:
        mu = laws.texts.number("mu", who, 1.0)
        across = laws.texts.number("mu2", who, mu)
        if across != mu:
            left_out(
                f"its friction is {mu:g} and {across:g} in two directions; the model has {mu:g} in "
                "both. Write the same number as <mu> and <mu2>, such as the smaller.", laws,
            )  # fmt: skip
        for tag in ("slip1", "slip2"):
            if laws.texts.number(tag, who, 0.0):
                left_out(
                    f"<{tag}>, by which a loaded contact slips, is not part of the model and is "
                    "left out. Contacts stick here.", laws,
                )  # fmt: skip
    if twist is not None:
        torsion = _torsion(twist, who, left_out)
    if bounce is not None:
        part = bounce.texts.number("restitution_coefficient", who, 0.0)
        least = bounce.texts.number("threshold", who, 0.0)
        if part and least:
            left_out(
                f"<threshold> {least:g} m/s, below which nothing rebounds, is not part of the "
                "model and is left out. Write <restitution_coefficient>0</…> for no rebound.",
                bounce,
            )  # fmt: skip
    _note_softness(
        surface, who, Material(mu, torsional_friction=torsion, restitution=part), left_out
    )
    if laws is None and twist is None and bounce is None:
        return None
    return Material(mu, torsional_friction=torsion, restitution=part)


def _torsion(twist: XMLElement, who: str, left_out: LeftOut) -> float:
    """The length that the moment about the normal is of the normal force, m."""
    coefficient = twist.texts.number("coefficient", who, 1.0)
    if twist.texts.flag("use_patch_radius", True):
        return _PATCH * coefficient * twist.texts.number("patch_radius", who, 0.0)
    if coefficient and twist.texts.number("surface_radius", who, 0.0):
        left_out(
            "its torsional friction grows with the depth of contacts (<surface_radius>), which are "
            "rigid here, and is left out. Give the patch:  <use_patch_radius>true</…> and "
            "<patch_radius>", twist,
        )  # fmt: skip
    return 0.0


def _note_softness(surface: XMLElement, who: str, material: Material, left_out: LeftOut) -> None:
    contact = surface.only("contact", who)
    law = None if contact is None else contact.only("ode", who)
    if law is None:
        return
    stated = [tag for tag in _NUMBERS_OF_CONTACT if law.only(tag, who) is not None]
    if stated:
        k, d = law.texts.number("kp", who, 1e12), law.texts.number("kd", who, 1.0)
        soft = f"pp.Material({material.friction!r}, stiffness={k!r}, damping={d!r})"
        tags = ", ".join(f"<{tag}>" for tag in stated)
        left_out(
            f"{tags} of its contacts, which are rigid here, {'are' if len(stated) > 1 else 'is'} "
            "left out. For compliant ones give the link a shape of its own with\n"
            f"    {soft}", law,
        )  # fmt: skip


def _bits(surface: XMLElement, who: str) -> int | None:
    contact = surface.only("contact", who)
    if contact is None:
        return None
    if contact.texts.flag("collide_without_contact"):
        return 0  # it is felt by sensors, and pushes nothing
    text = contact.texts.string("collide_bitmask", who)
    if not text:
        return None
    try:
        bits = int(text, 0)
    except ValueError:
        bits = -1
    if not 0 <= bits <= ALL_BITS:
        at = contact.only("collide_bitmask", who) or contact
        raise at.error(f"collide_bitmask {text[:40]!r} must be an integer, 0 to {ALL_BITS}.", who)
    return bits
