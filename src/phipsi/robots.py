"""Robots of realistic size made by the library itself, so that examples need no download.

    seven_joint_arm()    7 joints on a fixed base, 19 kg
    free_flyer()         a floating base with two such arms, no gravity
    quadruped()          a floating trunk with four legs of 3 joints, 30 kg
    humanoid()           a floating pelvis with legs, waist, arms and head: 31 joints, 80 kg

Links are solid boxes and cylinders, so every inertia is one that a rigid body has; the numbers are
of the size of real machines but copy none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from phipsi.examples import free_flyer, seven_joint_arm
from phipsi.model import Model, ModelBuilder, Pose, SpatialInertia, joints

__all__ = ["free_flyer", "humanoid", "quadruped", "seven_joint_arm"]

_X, _Y, _Z = (1, 0, 0), (0, 1, 0), (0, 0, 1)
_AXES = {"x": _X, "y": _Y, "z": _Z}


class _Part(NamedTuple):
    """A link: joint axis, its place on the parent (m), and the solid box outboard of it."""

    name: str
    parent: str
    axis: str
    at: tuple[float, float, float]
    mass: float
    edges: tuple[float, float, float]
    com: tuple[float, float, float]
    limits: tuple[float, float]


def quadruped() -> Model:
    """Trunk of 14 kg on a free joint, four legs with hip roll, hip pitch and knee; 30 kg in all.

    Standing straight at the neutral configuration, the feet are 0.6 m below the trunk. Joints are
    named "front_left_hip_roll", …, and frames "front_left_foot", ….

    >>> from phipsi.robots import quadruped
    >>> quadruped()
    <Model: 13 bodies, nq = 19, nv = 18, 4 frames>
    """
    b = ModelBuilder()
    b.add_body("trunk", joint=joints.Free(), inertia=_box(14.0, (0.55, 0.24, 0.16), (0, 0, 0)))
    for fore, x in (("front", 0.25), ("rear", -0.25)):
        for side, y in (("left", 1), ("right", -1)):
            leg = f"{fore}_{side}"
            hip, thigh, shank = f"{leg}_hip_roll", f"{leg}_hip_pitch", f"{leg}_knee"
            for part in (
                _Part(
                    hip,
                    "trunk",
                    "x",
                    (x, 0.08 * y, 0),
                    1.2,
                    (0.1, 0.08, 0.1),
                    (0, 0.03 * y, 0),
                    (-0.8, 0.8),
                ),
                _Part(
                    thigh,
                    hip,
                    "y",
                    (0, 0.09 * y, 0),
                    2.2,
                    (0.06, 0.05, 0.3),
                    (0, 0, -0.13),
                    (-1.6, 1.6),
                ),
                _Part(
                    shank,
                    thigh,
                    "y",
                    (0, 0, -0.3),
                    0.6,
                    (0.04, 0.04, 0.3),
                    (0, 0, -0.14),
                    (-2.6, 0.3),
                ),
            ):
                _add(b, part, armature=0.01, damping=0.1)
            b.add_frame(f"{leg}_foot", body=shank, placement=Pose(translation=(0, 0, -0.3)))
    return b.build()


def humanoid() -> Model:
    """Pelvis on a free joint with two legs, waist, two arms and a head: 31 joints, 80 kg, 1.8 m.

    Standing straight at the neutral configuration. Joints are named "left_hip_yaw", "waist_pitch",
    "right_elbow", …; frames are at the soles, the palms and the eyes.

    >>> from phipsi.robots import humanoid
    >>> humanoid()
    <Model: 32 bodies, nq = 38, nv = 37, 5 frames>
    """
    b = ModelBuilder()
    b.add_body("pelvis", joint=joints.Free(), inertia=_box(11.0, (0.18, 0.26, 0.16), (0, 0, 0)))
    _chain(b, "pelvis", (0, 0, 0.1), _TORSO)
    for side, y in (("left_", 1), ("right_", -1)):
        _chain(b, "pelvis", (0, 0.1 * y, -0.05), _LEG, side)
        _chain(b, "waist_pitch", (0, 0.22 * y, 0.36), _ARM, side)
        sole = Pose(translation=(0.03, 0, -0.08))
        b.add_frame(f"{side}sole", body=f"{side}ankle_roll", placement=sole)
        palm = Pose(translation=(0, 0, -0.1))
        b.add_frame(f"{side}palm", body=f"{side}wrist_yaw", placement=palm)
    _chain(b, "waist_pitch", (0, 0, 0.42), _HEAD)
    b.add_frame("eyes", body="neck_pitch", placement=Pose(translation=(0.09, 0, 0.12)))
    return b.build()


# name, axis, length along −z or +z to the next joint (m), mass (kg), width (m), largest |q| (rad)
_TORSO = (
    ("waist_yaw", "z", 0.04, 2.0, 0.12, 1.2),
    ("waist_roll", "x", 0.04, 2.0, 0.12, 0.5),
    ("waist_pitch", "y", 0.42, 21.0, 0.26, 0.9),
)
_HEAD = (("neck_yaw", "z", 0.08, 0.8, 0.08, 1.4), ("neck_pitch", "y", 0.2, 3.6, 0.16, 0.8))
_LEG = (
    ("hip_yaw", "z", -0.04, 1.2, 0.1, 0.9),
    ("hip_roll", "x", -0.04, 1.2, 0.1, 0.6),
    ("hip_pitch", "y", -0.4, 6.4, 0.13, 2.0),
    ("knee", "y", -0.4, 3.4, 0.1, 2.4),
    ("ankle_pitch", "y", -0.03, 0.5, 0.07, 0.9),
    ("ankle_roll", "x", -0.08, 1.1, 0.16, 0.5),
)
_ARM = (
    ("shoulder_pitch", "y", -0.03, 0.9, 0.09, 2.8),
    ("shoulder_roll", "x", -0.03, 0.9, 0.09, 1.9),
    ("shoulder_yaw", "z", -0.24, 1.7, 0.08, 2.0),
    ("elbow", "y", -0.03, 0.6, 0.07, 2.4),
    ("forearm_yaw", "z", -0.21, 1.0, 0.07, 2.0),
    ("wrist_roll", "x", -0.03, 0.3, 0.06, 0.9),
    ("wrist_yaw", "z", -0.16, 0.5, 0.08, 0.9),
)


def _chain(
    b: ModelBuilder,
    parent: str,
    at: tuple[float, float, float],
    rows: tuple[tuple[str, str, float, float, float, float], ...],
    prefix: str = "",
) -> None:
    """Links one after the other, each a box from its joint to the next."""
    for name, axis, length, mass, width, most in rows:
        size = max(abs(length), 0.05)
        edges = (width, width, size)
        part = _Part(
            prefix + name, parent, axis, at, mass, edges, (0, 0, length / 2), (-most, most)
        )
        _add(b, part, armature=0.02, damping=0.2)
        parent, at = part.name, (0, 0, length)


def _add(b: ModelBuilder, part: _Part, armature: float, damping: float) -> None:
    b.add_body(
        part.name,
        parent=part.parent,
        joint=joints.Revolute(_AXES[part.axis]),
        placement=Pose(translation=part.at),
        inertia=_box(part.mass, part.edges, part.com),
        armature=armature,
        damping=damping,
        limits=part.limits,
    )


def _box(
    mass: float, edges: tuple[float, float, float], com: tuple[float, float, float]
) -> SpatialInertia:
    """Solid box with edges along the axes."""
    squares = np.array(edges) ** 2
    return SpatialInertia(mass, com, mass / 12 * (squares.sum() - squares))
