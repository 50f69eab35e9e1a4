"""Pitch cones of bevel wheels: which cones roll on each other follows from where the wheels are.

The axes of both wheels meet at the apex A. A wheel lies on its axis on the side of A where its
joint's origin is: u points from A to it. Cones of half angles δ₁ + δ₂ = Σ, the angle between u₁ and
u₂, with sin δ₂ / sin δ₁ = z₂ / z₁, touch along the line g from A between them; about u₁ and u₂ they
turn against each other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phipsi.constraints.transmitted_forces import axis_of
from phipsi.errors import ModelError
from phipsi.model.model import Model

Array = NDArray[Any]
_MEET = 1e-6  # of the distance of the wheels, by which axes may miss each other


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
