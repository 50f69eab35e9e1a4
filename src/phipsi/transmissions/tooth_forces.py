"""Forces of teeth: where wheels in mesh touch, and what they do to their shafts besides efforts.

Teeth touch at the pitch point P, on the line of action: a force with a part along the pitch
circles, which makes the efforts of the row, and a part tan α as large that pushes the wheels apart
(α the pressure angle), in the plane of their axes across the line along which their pitch cones or
cylinders touch.

**Bevel wheels.** Which cones roll on each other follows from where the wheels are. The axes of both
wheels meet at the apex A. A wheel lies on its axis on the side of A where its joint's origin is: u
points from A to it. Cones of half angles δ₁ + δ₂ = Σ, the angle between u₁ and u₂, with
sin δ₂ / sin δ₁ = z₂ / z₁, touch along the line g from A between them; about u₁ and u₂ they turn
against each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from phipsi.core.constraints import Array, ShaftForces, axis_of, frame_of, rows_of_shares
from phipsi.core.model import Model
from phipsi.errors import ModelError, number_of

_MEET = 1e-6  # of the distance of the wheels, by which axes may miss each other
_APART = 1e-6  # of the distance of the shafts, by which pitch circles may miss each other


@final
@dataclass(frozen=True, eq=False)
class ToothForce(ShaftForces):
    """The force between two bodies on one carrier, in the carrier's axes.

    With the multiplier λ of row `row` of the constraint, λ `along` + |λ| `apart` (N) acts on the
    first of `bodies` at `place`, and its negative on the second.
    """

    row: int
    bodies: tuple[int, int]
    carrier: int
    place: Array
    along: Array
    apart: Array
    shares: Array
    rows: int = 1

    def pushes(self, f: Array, poses: Array) -> tuple[tuple[int, int], Array, Array]:
        """On the first body, and its negative on the second."""
        R, at = frame_of(poses, self.carrier)
        force = np.einsum("nij,nj->ni", R, f * self.along + np.abs(f) * self.apart)
        place = at + R @ self.place
        return self.bodies, np.stack([place, place], axis=1), np.stack([force, -force], axis=1)


def checked_angle(value: Any, who: str) -> float:
    """A pressure angle in rad."""
    angle = number_of(value)
    if not 0 <= angle < 0.8:
        raise ModelError(
            f"{who}: pressure_angle={value!r} must be from 0 to 0.8 rad; that of most gears is\n"
            f"    pressure_angle=np.deg2rad(20)"
        )
    return angle


def of_wheels(
    model: Model,
    bodies: tuple[int, int],
    shares: tuple[float, float],
    radii: tuple[float, float],
    angle: float,
    who: str,
    *,
    internal: bool,
) -> ToothForce:
    """Of two wheels on parallel shafts; P is in the plane of the first one's origin."""
    (a, one), (b, other) = (axis_of(model, k) for k in bodies)
    across = other - one - a * float(a @ (other - one))
    distance, (r, s) = float(np.linalg.norm(across)), radii
    wanted = abs(r - s) if internal else r + s
    if abs(distance - wanted) > _APART * wanted:
        names = [model.body_names[k] for k in bodies]
        raise ModelError(
            f"{who}: the shafts of {names[0]!r} and {names[1]!r} are {distance:.6g} m apart, and "
            f"the pitch circles of {r:.6g} m and {s:.6g} m touch at {wanted:.6g} m. Move a joint "
            f"by its placement, or change module= (m of pitch diameter per tooth)."
        )
    towards = across / distance
    inner = 1.0 if not internal or r > s else -1.0  # P is beyond the first wheel, seen from a ring
    e = inner * towards
    out = -np.cross(a, e) / r  # λ turns the first wheel by −λ
    apart = (1.0 if internal and r > s else -1.0) * e * np.tan(angle) / r
    return ToothForce(
        row=0,
        bodies=bodies,
        carrier=model.parent[bodies[0]],
        place=one + r * e,
        along=shares[0] * out,
        apart=abs(shares[0]) * apart,
        shares=rows_of_shares(model, bodies, [shares]),
    )


def of_cones(
    model: Model,
    bodies: tuple[int, int],
    shares: tuple[float, float],
    teeth: tuple[float, float],
    module: float,
    angle: float,
    who: str,
) -> ToothForce:
    """Of two bevel wheels; P is where the pitch cones touch at the mean radii ½ module · teeth.

    On each wheel the part that pushes apart has cos δ of it towards the axis, and sin δ along it
    away from the apex: the thrust.
    """
    cones = pitch_cones(model, bodies, teeth, who)
    (u, _), (delta, _) = cones.out, cones.angles
    r = 0.5 * module * teeth[0]
    across = (cones.line - np.cos(delta) * u) / np.sin(delta)
    a, _ = axis_of(model, bodies[0])
    away = np.sin(delta) * u - np.cos(delta) * across
    return ToothForce(
        row=0,
        bodies=bodies,
        carrier=model.parent[bodies[0]],
        place=cones.apex + r / np.sin(delta) * cones.line,
        along=-shares[0] * np.cross(a, across) / r,
        apart=abs(shares[0]) * np.tan(angle) / r * away,
        shares=rows_of_shares(model, bodies, [shares]),
    )


def of_rack(
    model: Model, pinion: int, rack: int, radius: float, angle: float, who: str
) -> ToothForce:
    """Of a pinion and a rack on one body; `shares` as in q_rack − radius · q_pinion."""
    (a, at), (d, _) = axis_of(model, pinion), axis_of(model, rack)
    if model.parent[pinion] != model.parent[rack]:
        raise ModelError(
            f"{who}: joints {model.joint_names[pinion]!r} and {model.joint_names[rack]!r} are on "
            f"different bodies; forces of teeth are those of a rack and a pinion on one."
        )
    if abs(a @ d) > 1e-9:
        raise ModelError(
            f"{who}: the rack slides along the axis of the pinion in part; forces of teeth are "
            "those of a rack that slides across it. Remove pressure_angle=."
        )
    n = np.sign(radius) * np.cross(d, a)
    return ToothForce(
        row=0,
        bodies=(rack, pinion),
        carrier=model.parent[rack],
        place=at + abs(radius) * n,
        along=-d,
        apart=n * np.tan(angle),
        shares=rows_of_shares(model, (rack, pinion), [(1.0, -radius)]),
    )


# ---- pitch cones of bevel wheels -----------------------------------------------------------------


class PitchCones(NamedTuple):
    """Two cones in the frame of their carrier.

    `apex` (3,) in m; `out` (2, 3), unit vectors from the apex to the wheels; `angles` (2,), half
    angles in rad; `line` (3,), the unit vector along which they touch; `sense`, the sign of
    q̇_first / q̇_second.
    """

    apex: Array
    out: Array
    angles: tuple[float, float]
    line: Array
    sense: float


def pitch_cones(
    model: Model, bodies: tuple[int, int], teeth: tuple[float, float], who: str
) -> PitchCones:
    """The cones of two wheels whose axes are not parallel; errors name the wheels and a ratio."""
    (a, one), (b, other) = (axis_of(model, k) for k in bodies)
    names = [model.joint_names[k] for k in bodies]
    signed = f"or give the ratio with its sign:  ratio=±{teeth[1] / teeth[0]:g}"
    across = np.cross(a, b)
    normal, between = across / np.linalg.norm(across), other - one
    scale = float(np.linalg.norm(between))
    apart = abs(float(normal @ between))
    if apart > _MEET * scale:
        raise ModelError(
            f"{who}: the axes of {names[0]!r} and {names[1]!r} are neither parallel nor do they "
            f"meet: they miss each other by {apart:.6g} m. Teeth alone do not say in which sense "
            f"such wheels turn. Move a joint by its placement, {signed}"
        )
    along = np.linalg.lstsq(np.stack([a, -b], axis=-1), between, rcond=None)[0]
    apex = one + along[0] * a
    out: list[Array] = []
    for name, axis, away in zip(names, (a, b), -along, strict=True):
        if abs(away) <= _MEET * scale or scale == 0:
            raise ModelError(
                f"{who}: the origin of joint {name!r} is where the axes of the bevel wheels meet, "
                f"so that nothing says on which side its wheel is, and in which sense it turns. "
                f"Move its placement along its axis to the wheel, {signed}"
            )
        out.append(np.sign(away) * axis)
    cosine = float(out[0] @ out[1])
    sine = float(np.linalg.norm(np.cross(out[0], out[1])))
    angles = tuple(
        float(np.arctan2(sine, z + cosine)) for z in (teeth[1] / teeth[0], teeth[0] / teeth[1])
    )
    if max(angles) > 0.5 * np.pi + 1e-9:
        raise ModelError(
            f"{who}: with teeth={tuple(teeth)} on axes at {np.rad2deg(np.arccos(cosine)):.4g}°, "
            f"one wheel would be a ring with teeth inside a cone. Check the placements of "
            f"{names[0]!r} and {names[1]!r}, {signed}"
        )
    w = (out[1] - cosine * out[0]) / sine
    line = np.cos(angles[0]) * out[0] + np.sin(angles[0]) * w
    sense = -float(np.sign(a @ out[0]) * np.sign(b @ out[1]))
    return PitchCones(apex, np.array(out), (angles[0], angles[1]), line, sense)
