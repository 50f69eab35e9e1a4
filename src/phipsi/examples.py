"""Ready-made mechanisms, for trying things out, for the documentation and for tests.

    planar_arm(n)        n equal rods in a vertical plane
    seven_joint_arm()    an arm like those that stand next to people: 7 revolute joints, 19 kg
    free_flyer()         a free-floating base with two such arms, no gravity
    quadruped()          a floating trunk with four legs of 3 joints, 30 kg
    humanoid()           a floating pelvis with legs, waist, arms and head: 31 joints, 80 kg
    two_finger_grasp()   two fingers of two links that hold a box between them
    random_tree(seed, n) a random tree of all joint types

Links are solid boxes and cylinders, so every inertia is one that a rigid body has; the numbers are
of the size of real machines but copy none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from phipsi.core.model import Model, ModelBuilder, Pose, SpatialInertia, joints, whole_number
from phipsi.core.spatial import quat_to_matrix
from phipsi.package_state import only_public, public

if TYPE_CHECKING:
    from phipsi.grasping import Contact, Grasp

__all__ = [
    "ROBOTS",
    "free_flyer",
    "humanoid",
    "planar_arm",
    "quadruped",
    "random_tree",
    "seven_joint_arm",
    "two_finger_grasp",
]
__dir__ = only_public(__name__)

ROBOTS = ("free_flyer", "humanoid", "quadruped", "seven_joint_arm")
"""Those that the command line and scenarios know by name."""

Vector = tuple[float, float, float]
_X, _Y, _Z = (1, 0, 0), (0, 1, 0), (0, 0, 1)


def planar_arm(n: int = 2) -> Model:
    """Chain of n slender rods of 1 kg and 1 m, hinged about z; gravity along −y.

    At q = 0 it is stretched along x. Bodies "link1", …, joints "joint1", …, frame "tip" at the end
    of the last rod.

    Parameters
    ----------
    n : int, optional
        Number of rods.

    Returns
    -------
    Model
        The arm.

    Examples
    --------
    >>> from phipsi.examples import planar_arm
    >>> planar_arm(2).joint_names
    ('joint1', 'joint2')
    """
    rod = SpatialInertia(mass=1, com_B=(0.5, 0, 0), moment_about_com_B=(0, 1 / 12, 1 / 12))
    b = ModelBuilder(gravity=(0, -9.81, 0))
    parent, start = "world", Pose()
    for i in range(1, whole_number("n", n, 0) + 1):
        b.add_body(
            f"link{i}",
            parent=parent,
            joint=joints.Revolute(_Z),
            joint_name=f"joint{i}",
            placement=start,
            inertia=rod,
        )
        parent, start = f"link{i}", Pose(translation=_X)
    b.add_frame("tip", body=parent, placement=start)
    return b.build()


# Links one after the other along z from their joints, each from its joint to the next:
# name, axis, length to the next joint (m), mass (kg), radius or width (m), largest |q| (rad)
_Row = tuple[str, tuple[int, int, int], float, float, float, float]
_ARM = (
    ("shoulder_yaw", _Z, 0.16, 3.6, 0.075, 2.96),
    ("shoulder_pitch", _Y, 0.19, 3.9, 0.070, 2.09),
    ("upper_arm_roll", _Z, 0.21, 3.1, 0.065, 2.96),
    ("elbow_pitch", _Y, 0.19, 2.9, 0.060, 2.09),
    ("forearm_roll", _Z, 0.20, 2.5, 0.055, 2.96),
    ("wrist_pitch", _Y, 0.09, 1.8, 0.050, 2.09),
    ("wrist_roll", _Z, 0.06, 1.1, 0.045, 3.05),
)


def seven_joint_arm(armature: float = 0.0) -> Model:
    """Arm with seven revolute joints, 1.1 m and 19 kg, upright at q = 0.

    The joints alternate between axes z and y: shoulder (yaw, pitch, roll), elbow, forearm, wrist.
    The bodies have the names of their joints; frame "tool" is at the flange.

    Parameters
    ----------
    armature : float, optional
        Rotor inertia of every joint, kg·m².

    Returns
    -------
    Model
        The arm.

    Examples
    --------
    >>> from phipsi.examples import seven_joint_arm
    >>> seven_joint_arm().joint_names[:3]
    ('shoulder_yaw', 'shoulder_pitch', 'upper_arm_roll')
    """
    b = ModelBuilder()
    end, length = _chain(b, "world", Pose(), _ARM, _cylinder, armature=armature, damping=0.1)
    b.add_frame("tool", body=end, placement=length)
    return b.build()


def free_flyer() -> Model:
    """Robot that floats in space: a base of 150 kg with two seven-joint arms, no gravity.

    The base is a box of 0.8 × 1.2 × 0.8 m on a free joint; the arms of `seven_joint_arm` stand on
    its two y faces, with "left_" and "right_" before their names.

    >>> from phipsi.examples import free_flyer
    >>> free_flyer()
    <Model: 15 bodies, nq = 21, nv = 20, 2 frames>
    """
    b = ModelBuilder(gravity=(0, 0, 0))
    b.add_body("base", joint=joints.Free(), inertia=_box(150, (0.8, 1.2, 0.8)))
    model, arm = b.build(), seven_joint_arm()
    half = np.sqrt(0.5)
    for side, y in (("left_", 1), ("right_", -1)):
        outward = Pose((half, -y * half, 0, 0), (0, 0.6 * y, 0))  # z of the arm along ±y
        model = model.attach(arm, at="base", placement=outward, prefix=side)
    return model


def quadruped() -> Model:
    """Trunk of 14 kg on a free joint, four legs with hip roll, hip pitch and knee; 30 kg in all.

    Standing straight at the neutral configuration, the feet are 0.6 m below the trunk. Joints are
    named "front_left_hip_roll", …, and frames "front_left_foot", ….

    >>> from phipsi.examples import quadruped
    >>> quadruped()
    <Model: 13 bodies, nq = 19, nv = 18, 4 frames>
    """
    b = ModelBuilder()
    b.add_body("trunk", joint=joints.Free(), inertia=_box(14.0, (0.55, 0.24, 0.16)))
    for leg, x, y in (
        ("front_left", 0.25, 1), ("front_right", 0.25, -1),
        ("rear_left", -0.25, 1), ("rear_right", -0.25, -1),
    ):  # fmt: skip
        parent = "trunk"
        hip = (0, 0.03 * y, 0)
        for name, axis, at, mass, edges, com, limits in (
            ("hip_roll", _X, (x, 0.08 * y, 0), 1.2, (0.1, 0.08, 0.1), hip, (-0.8, 0.8)),
            ("hip_pitch", _Y, (0, 0.09 * y, 0), 2.2, (0.06, 0.05, 0.3), (0, 0, -0.13), (-1.6, 1.6)),
            ("knee", _Y, (0, 0, -0.3), 0.6, (0.04, 0.04, 0.3), (0, 0, -0.14), (-2.6, 0.3)),
        ):  # fmt: skip
            b.add_body(
                f"{leg}_{name}",
                parent=parent,
                joint=joints.Revolute(axis),
                placement=Pose(translation=at),
                inertia=_box(mass, edges, com),
                armature=0.01,
                damping=0.1,
                limits=limits,
            )
            parent = f"{leg}_{name}"
        b.add_frame(f"{leg}_foot", body=parent, placement=Pose(translation=(0, 0, -0.3)))
    return b.build()


def humanoid() -> Model:
    """Pelvis on a free joint with two legs, waist, two arms and a head: 31 joints, 80 kg, 1.8 m.

    Standing straight at the neutral configuration. Joints are named "left_hip_yaw", "waist_pitch",
    "right_elbow", …; frames are at the soles, the palms and the eyes.

    >>> from phipsi.examples import humanoid
    >>> humanoid()
    <Model: 32 bodies, nq = 38, nv = 37, 5 frames>
    """
    b = ModelBuilder()
    b.add_body("pelvis", joint=joints.Free(), inertia=_box(11.0, (0.18, 0.26, 0.16)))
    _boxes(b, "pelvis", (0, 0, 0.1), _TORSO)
    for side, y in (("left_", 1), ("right_", -1)):
        _boxes(b, "pelvis", (0, 0.1 * y, -0.05), _LEG, side)
        _boxes(b, "waist_pitch", (0, 0.22 * y, 0.36), _HUMAN_ARM, side)
        sole = Pose(translation=(0.03, 0, -0.08))
        b.add_frame(f"{side}sole", body=f"{side}ankle_roll", placement=sole)
        palm = Pose(translation=(0, 0, -0.1))
        b.add_frame(f"{side}palm", body=f"{side}wrist_yaw", placement=palm)
    _boxes(b, "waist_pitch", (0, 0, 0.42), _HEAD)
    b.add_frame("eyes", body="neck_pitch", placement=Pose(translation=(0.09, 0, 0.12)))
    return b.build()


_TORSO = (
    ("waist_yaw", _Z, 0.04, 2.0, 0.12, 1.2),
    ("waist_roll", _X, 0.04, 2.0, 0.12, 0.5),
    ("waist_pitch", _Y, 0.42, 21.0, 0.26, 0.9),
)
_HEAD = (("neck_yaw", _Z, 0.08, 0.8, 0.08, 1.4), ("neck_pitch", _Y, 0.2, 3.6, 0.16, 0.8))
_LEG = (
    ("hip_yaw", _Z, -0.04, 1.2, 0.1, 0.9),
    ("hip_roll", _X, -0.04, 1.2, 0.1, 0.6),
    ("hip_pitch", _Y, -0.4, 6.4, 0.13, 2.0),
    ("knee", _Y, -0.4, 3.4, 0.1, 2.4),
    ("ankle_pitch", _Y, -0.03, 0.5, 0.07, 0.9),
    ("ankle_roll", _X, -0.08, 1.1, 0.16, 0.5),
)
_HUMAN_ARM = (
    ("shoulder_pitch", _Y, -0.03, 0.9, 0.09, 2.8),
    ("shoulder_roll", _X, -0.03, 0.9, 0.09, 1.9),
    ("shoulder_yaw", _Z, -0.24, 1.7, 0.08, 2.0),
    ("elbow", _Y, -0.03, 0.6, 0.07, 2.4),
    ("forearm_yaw", _Z, -0.21, 1.0, 0.07, 2.0),
    ("wrist_roll", _X, -0.03, 0.3, 0.06, 0.9),
    ("wrist_yaw", _Z, -0.16, 0.5, 0.08, 0.9),
)


def _boxes(
    b: ModelBuilder, parent: str, at: Vector, rows: tuple[_Row, ...], prefix: str = ""
) -> None:
    """A limb of the humanoid."""

    def solid(mass: float, width: float, length: float) -> SpatialInertia:
        return _box(mass, (width, width, max(abs(length), 0.05)), (0, 0, length / 2))

    _chain(b, parent, Pose(translation=at), rows, solid, prefix, armature=0.02, damping=0.2)


def _chain(
    b: ModelBuilder,
    parent: str,
    start: Pose,
    rows: tuple[_Row, ...],
    solid: Callable[[float, float, float], SpatialInertia],
    prefix: str = "",
    *,
    armature: float,
    damping: float,
) -> tuple[str, Pose]:
    """Links one after the other; returns the last and where a next one would begin."""
    for name, axis, length, mass, width, most in rows:
        b.add_body(
            prefix + name,
            parent=parent,
            joint=joints.Revolute(axis),
            placement=start,
            inertia=solid(mass, width, length),
            armature=armature,
            damping=damping,
            limits=(-most, most),
        )
        parent, start = prefix + name, Pose(translation=(0, 0, length))
    return parent, start


def _cylinder(mass: float, radius: float, length: float) -> SpatialInertia:
    """Solid cylinder along z that begins at the origin."""
    across = mass * (3 * radius**2 + length**2) / 12
    moments = (across, across, mass * radius**2 / 2)
    return SpatialInertia(mass, (0, 0, length / 2), moments)


def _box(mass: float, edges: Vector, com: Vector = (0, 0, 0)) -> SpatialInertia:
    """Solid box with edges along the axes."""
    squares = np.array(edges) ** 2
    return SpatialInertia(mass, com, mass / 12 * (squares.sum() - squares))


def two_finger_grasp(friction: float = 0.6, kind: type[Contact] | None = None) -> Grasp:
    """Two planar fingers that stand on the ground and hold a box of 0.5 kg and 0.1 m between them.

    Each finger has two links of 0.1 m, hinged about y; its tip touches a face of the box, which
    moves freely: contacts "left" and "right". At neutral q the fingers stand upright and the
    contacts are closed.

    Parameters
    ----------
    friction : float, optional
        Coefficient of friction of the contacts.
    kind : type, optional
        Kind of contact that takes `friction`. Default: `grasping.Point`.

    Returns
    -------
    Grasp
        The grasp.

    Examples
    --------
    >>> from phipsi.examples import two_finger_grasp
    >>> two_finger_grasp().contact_forces(two_finger_grasp().model.neutral(), [0.0] * 10,
    ...     [0.5, 0.0, -0.5, 0.0] + [0.0] * 6).shape
    (2, 6)
    """
    b, kind = ModelBuilder(), kind or public("grasping").Point
    held = []
    for side, x in (("left", -0.05), ("right", 0.05)):
        parent, start = "world", Pose(translation=(x, 0, 0))
        for part in ("lower", "upper"):
            name = f"{side}_{part}"
            b.add_body(
                name,
                parent=parent,
                joint=joints.Revolute(_Y),
                placement=start,
                inertia=_cylinder(0.1, 0.01, 0.1),
            )
            parent, start = name, Pose(translation=(0, 0, 0.1))
        outward = np.array([[0, 0, np.sign(x)], [0, 1, 0], [-np.sign(x), 0, 0]])
        b.add_frame(f"{side}_tip", body=parent, placement=start)
        face = ("box", Pose(outward, (x, 0, 0)))
        held.append(kind(friction=friction, name=side, finger=f"{side}_tip", object=face))  # type: ignore[call-arg]
    b.add_body(
        "box",
        joint=joints.Free(),
        placement=Pose(translation=(0, 0, 0.2)),
        inertia=SpatialInertia(0.5, (0, 0, 0), 0.5 * 0.1**2 / 6),
    )
    return public("grasping").Grasp(b.build(), object="box", contacts=held)


def random_tree(seed: int = 0, n: int = 6) -> Model:
    """Random tree of n bodies with joints of all types; the same for the same seed.

    Bodies "body0", …, the first on the world, the others on an earlier one each; boxes of 1–3 kg
    and about half a metre.

    Parameters
    ----------
    seed : int, optional
        Seed.
    n : int, optional
        Number of bodies.

    Returns
    -------
    Model
        The tree.

    Examples
    --------
    >>> from phipsi.examples import random_tree
    >>> random_tree(seed=1, n=8) == random_tree(seed=1, n=8)
    True
    """
    rng = np.random.default_rng(seed)
    b = ModelBuilder()
    for i in range(n):
        mass, edges = rng.uniform(1, 3), rng.uniform(0.3, 0.6, 3) ** 2
        b.add_body(
            f"body{i}",
            parent="world" if i == 0 else f"body{rng.integers(i)}",
            joint=_random_joint(rng),
            joint_name=f"joint{i}",
            placement=Pose(_random_rotation(rng), rng.uniform(-0.5, 0.5, 3)),
            inertia=SpatialInertia(
                mass, rng.uniform(-0.2, 0.2, 3), mass / 12 * (edges.sum() - edges)
            ),
        )
    return b.build()


def _random_rotation(rng: np.random.Generator) -> np.ndarray:
    return quat_to_matrix(rng.standard_normal(4))


def _random_joint(rng: np.random.Generator) -> joints.Joint:
    R = _random_rotation(rng)
    e1, e2 = R[:, 0], R[:, 1]
    choices = (
        joints.Revolute(e1),
        joints.Prismatic(e1),
        joints.Helical(e1, rng.uniform(-0.3, 0.3)),
        joints.Cylindrical(e1),
        joints.Universal(e1, e2),
        joints.Planar(e1, e2),
        joints.Spherical(),
        joints.Free(),
        joints.Translation(),
        joints.Composite([joints.Prismatic(e1), joints.Spherical()]),
    )
    return choices[int(rng.integers(len(choices)))]
