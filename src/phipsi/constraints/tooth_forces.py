"""Forces of teeth: what wheels in mesh do to their shafts, besides the efforts they transmit.

The row of a gear is the relation of two coordinates, and its multiplier λ loads both joints with
pure efforts. The teeth touch at the pitch point P, on the line of action: a force with a part along
the pitch circles, which makes these efforts, and a part tan α as large that pushes the wheels apart
(α the pressure angle). Motions do not depend on the difference; reactions of the shafts do.

Reasons: docs/decisions/0057.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from phipsi.constraints.constraint import Array, number_of
from phipsi.errors import ModelError
from phipsi.model.model import Model
from phipsi.model.tree import WORLD

_APART = 1e-6  # of the distance of the shafts, by which pitch circles may miss each other


@final
@dataclass(frozen=True, eq=False)
class ToothForce:
    """The force between two bodies on one carrier, in the carrier's axes.

    With the multiplier λ of row `row` of the constraint, λ `along` + |λ| `apart` (N) acts on the
    first of `bodies` at `place`, and its negative on the second. In the row they have the efforts
    −λ `shares` (2, 6), at their origins in their own axes.
    """

    row: int
    bodies: tuple[int, int]
    carrier: int
    place: Array
    along: Array
    apart: Array
    shares: Array

    def missing(self, f: Array, poses: Array) -> list[Array]:
        """What is to be added to the forces through both joints: (n, 6) each, in body axes.

        `f` (n,), the multiplier; `poses` (n, bodies, 4, 4).
        """
        R, at = _frame(poses, self.carrier)
        force = np.einsum(
            "nij,nj->ni", R, f[:, None] * self.along + np.abs(f)[:, None] * self.apart
        )
        place = at + R @ self.place
        out: list[Array] = []
        for sign, body, share in zip((1, -1), self.bodies, self.shares, strict=True):
            turn, origin = _frame(poses, body)
            push = sign * force
            both = np.cross(place - origin, push), push
            own = np.concatenate([np.einsum("nji,nj->ni", turn, x) for x in both], axis=-1)
            out.append(-(own + f[:, None] * share))
        return out


def _frame(poses: Array, body: int) -> tuple[Array, Array]:
    if body == WORLD:
        return np.broadcast_to(np.eye(3), (len(poses), 3, 3)), np.zeros((len(poses), 3))
    return poses[:, body, :3, :3], poses[:, body, :3, 3]


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
    (a, one), (b, other) = (_axis(model, k) for k in bodies)
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
        shares=np.array([c * _row(model, k) for c, k in zip(shares, bodies, strict=True)]),
    )


def of_rack(
    model: Model, pinion: int, rack: int, radius: float, angle: float, who: str
) -> ToothForce:
    """Of a pinion and a rack on one body; `shares` as in q_rack − radius · q_pinion."""
    (a, at), (d, _) = _axis(model, pinion), _axis(model, rack)
    if model.parent[pinion] != model.parent[rack]:
        raise ModelError(
            f"{who}: joints {model.joint_names[pinion]!r} and {model.joint_names[rack]!r} are on "
            f"different bodies; forces of teeth are those of a rack and a pinion on one."
        )
    if abs(a @ d) > 1e-9:
        raise ModelError(
            f"{who}: the rack slides along the axis of the pinion in part; forces of teeth are "
            f"those of a rack that slides across it. Leave out pressure_angle=."
        )
    n = np.sign(radius) * np.cross(d, a)
    return ToothForce(
        row=0,
        bodies=(rack, pinion),
        carrier=model.parent[rack],
        place=at + abs(radius) * n,
        along=-d,
        apart=n * np.tan(angle),
        shares=np.array([_row(model, rack), -radius * _row(model, pinion)]),
    )


def _axis(model: Model, body: int) -> tuple[Array, Array]:
    """Axis and origin of a joint in the frame of its parent."""
    X = model.placements[body]
    return X.rotation @ np.array(model.joints[body].params[:3]), np.asarray(X.translation)


def _row(model: Model, body: int) -> Array:
    """The rate of a joint as a row on the motion of its body."""
    u = np.array(model.joints[body].params[:3])
    turns = model.joints[body].kind != "prismatic"
    return np.concatenate([u, np.zeros(3)] if turns else [np.zeros(3), u])
