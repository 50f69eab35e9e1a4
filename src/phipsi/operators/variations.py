"""Leaves that say how H, B and A change, along given directions or as operators of the direction.

    Ḣ{u}            H when the joints move with the rates u: δH;  Ḣ without braces is Ḣ{v}
    Ḣ{u; w}         its change along w, u held: second derivatives
    dHT{x}         u ↦ Ḣ{u}* x,    dHT{x; u}  is  w ↦ Ḣ{u; w}* x,  dHT[0]{x; u}  w ↦ Ḣ{w; u}* x
    dH{f}   u ↦ Ḣ{u} f, with further directions in the same way
    Ḃ{V}            B when the bodies move with V;  Ḃ without braces is Ḃ of the velocities
    Ḃ{V; W}         its change along W, V held in body axes
    dBT{x}        V ↦ Ḃ{V}* x, with further directions in the same way
    dB{f}  V ↦ Ḃ{V} f
    Ȧ{V}            A when the bodies move with V;  Ȧ without braces is Ȧ of the velocities
    dA{x}         V ↦ Ȧ{V} x, and dAT{f}  V ↦ Ȧ{V}* f, with further directions

All are linear in every direction. They vanish for joints whose axes are fixed in the body.
"""

from __future__ import annotations

from phipsi.errors import SpaceError
from phipsi.expressions.check import shown, signature
from phipsi.expressions.node import Expr, leaf, zero
from phipsi.expressions.numbers import Number, times
from phipsi.expressions.row import Op
from phipsi.expressions.spaces import (
    FORCES,
    MOTIONS,
    ONE,
    POINT_FORCES,
    POINT_MOTIONS,
    RATES,
    ROW_FORCES,
    Space,
)
from phipsi.operators.catalogue import CATALOGUE

# the space of the first argument, and that of the others
WITH_ARGUMENTS: dict[str, tuple[Space, Space]] = {
    "Hdot": (RATES, RATES),
    "Bdot": (MOTIONS, MOTIONS),
    "dHT": (RATES, RATES),
    "dH": (FORCES, RATES),
    "dBT": (MOTIONS, MOTIONS),
    "dB": (POINT_FORCES, MOTIONS),
    "Adot": (MOTIONS, MOTIONS),
    "dA": (POINT_MOTIONS, MOTIONS),
    "dAT": (ROW_FORCES, MOTIONS),
}


HOLED = ("dHT", "dH", "dBT", "dB", "dA", "dAT")


def with_arguments(name: str, *args: Expr, hole: int | None = None) -> Expr:
    """The leaf with these vectors in its braces; it is linear in each of them.

    `hole` says at which place of dHT or dBT the free direction stands, the last if None.
    """
    first, others = WITH_ARGUMENTS[name]
    params = () if hole is None or hole == len(args) - 1 else (hole,)
    if params and (name not in HOLED or not 0 <= params[0] < len(args)):
        raise SpaceError(f"{name}[{hole}]{{…}} has no free direction at place {hole}")
    row = CATALOGUE[name]
    if not args:
        raise SpaceError(f"{name}{{…}} takes vectors")
    coefficient: Number = 1
    plain: list[Expr] = []
    for i, x in enumerate(args):
        space = first if i == 0 else others
        if x.takes is not ONE or x.gives is not space:
            raise SpaceError(f"{name}{{…}} takes {space.phrase}, but {shown(x)} is: {signature(x)}")
        if x.op is Op.ZERO:
            return zero(row.takes, row.gives)
        if x.op is Op.SUM and len(x.args) == 1:
            coefficient = times(coefficient, x.data[0])
            x = x.args[0]
        plain.append(x)
    return coefficient * leaf(row, tuple(plain), params)


def hole_of(x: Expr) -> int:
    """Where the free direction of dHT or dBT stands among the directions."""
    place = x.params[0] if x.params else len(x.args) - 1
    assert isinstance(place, int)
    return place


def unit_rate(joint: str, i: int = 0) -> Expr:
    """The unit vector of joint rates with 1 for dof i of the joint: the papers' unit_rate-off."""
    return leaf(CATALOGUE["unit_rate"], params=(joint, i) if i else (joint,))


def unit_effort(joint: str, i: int = 0) -> Expr:
    """The unit vector of joint efforts with 1 for dof i of the joint."""
    return leaf(CATALOGUE["unit_effort"], params=(joint, i) if i else (joint,))


def unit_inertia(body: str, i: int = 0) -> Expr:
    """The unit vector of inertial parameters with 1 for parameter i of the body."""
    return leaf(CATALOGUE["unit_inertia"], params=(body, i) if i else (body,))


UNITS = {"unit_rate": unit_rate, "unit_effort": unit_effort, "unit_inertia": unit_inertia}
"""Unit vectors of one component, by the names of their leaves."""


def hinge_variation(*directions: Expr) -> Expr:
    """Ḣ{u; …}: how H changes along the directions."""
    return with_arguments("Hdot", *directions)


def point_variation(*motions: Expr) -> Expr:
    """Ḃ{V; …}: how B changes when the bodies move with V."""
    return with_arguments("Bdot", *motions)


def dHT(x: Expr, *directions: Expr) -> Expr:
    """u ↦ Ḣ{directions; u}* x."""
    return with_arguments("dHT", x, *directions)


def dH(f: Expr, *directions: Expr) -> Expr:
    """u ↦ Ḣ{directions; u} f."""
    return with_arguments("dH", f, *directions)


def dBT(x: Expr, *motions: Expr) -> Expr:
    """V ↦ Ḃ{motions; V}* x."""
    return with_arguments("dBT", x, *motions)


def dB(f: Expr, *motions: Expr) -> Expr:
    """V ↦ Ḃ{motions; V} f."""
    return with_arguments("dB", f, *motions)


def row_variation(*motions: Expr) -> Expr:
    """Ȧ{V; …}: how A changes when the bodies move with V."""
    return with_arguments("Adot", *motions)


def dA(x: Expr, *motions: Expr) -> Expr:
    """V ↦ Ȧ{motions; V} x."""
    return with_arguments("dA", x, *motions)


def dAT(f: Expr, *motions: Expr) -> Expr:
    """V ↦ Ȧ{motions; V}* f."""
    return with_arguments("dAT", f, *motions)
