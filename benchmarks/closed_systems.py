"""Systems with loops, each with a configuration at which they are closed."""

from __future__ import annotations

import numpy as np
import robots

import phipsi as pp
from phipsi import constraints as c

FEET = {
    "Talos": ("leg_left_6_link", "leg_right_6_link"),
    "G1": ("left_ankle_roll_link", "right_ankle_roll_link"),
}
Z = (0, 0, 1)


def standing(name: str) -> tuple[pp.System, np.ndarray]:
    """A humanoid with both feet welded to the ground where they are."""
    model = robots.load_robot(name)
    q = model.neutral()
    poses = dict(zip(model.body_names, pp.poses(model, q), strict=True))
    welds = [
        c.Weld(name=foot, a=(foot, pp.Pose()), b=("world", _pose(poses[foot])))
        for foot in FEET[name]
    ]
    return pp.System(model, welds), q


def _pose(matrix: np.ndarray) -> pp.Pose:
    return pp.Pose(matrix[:3, :3], matrix[:3, 3])


def platform(legs: int = 12) -> tuple[pp.System, np.ndarray]:
    """A free plate on legs: universal joint on the ground, slider, ball joint under the plate."""
    b = pp.ModelBuilder()
    b.add_body("plate", joint=pp.joints.Free(), inertia=pp.SpatialInertia(20.0, (0, 0, 0), 1.5))
    loops = []
    for i in range(legs):
        turn = 2 * np.pi * i / legs
        foot = 1.5 * np.array([np.cos(turn), np.sin(turn), 0])
        top = 0.8 * np.array([np.cos(turn + 0.4), np.sin(turn + 0.4), 0])
        along = np.array([0, 0, 1.0]) + top - foot
        length = float(np.linalg.norm(along))
        axes = np.linalg.qr(np.column_stack([along, foot, Z]))[0]
        frame = np.column_stack([axes[:, 1], np.cross(along / length, axes[:, 1]), along / length])
        rod = pp.SpatialInertia(1.0, (0, 0, 0.3), 0.05)
        b.add_body(f"a{i}", joint=pp.joints.Revolute((1, 0, 0)), placement=pp.Pose(frame, foot),
                   inertia=rod)  # fmt: skip
        b.add_body(f"b{i}", parent=f"a{i}", joint=pp.joints.Revolute((0, 1, 0)), inertia=rod)
        b.add_body(f"c{i}", parent=f"b{i}", joint=pp.joints.Prismatic(Z), inertia=rod,
                   placement=pp.Pose(None, (0, 0, length)))  # fmt: skip
        loops.append(c.Spherical(name=f"ball{i}", a=(f"c{i}", (0, 0, 0)), b=("plate", top)))
    system = pp.System(b.build(), loops)
    q = system.model.neutral()
    q[system.model.q_slice("plate").stop - 1] = 1.0  # the height of the plate
    return system, q


def four_bars(count: int, carried: bool) -> tuple[pp.System, np.ndarray]:
    """Four-bars side by side on the ground, or on one free body."""
    b = pp.ModelBuilder(gravity=(0, -9.81, 0))
    on, loops = "world", []
    if carried:
        b.add_body("base", joint=pp.joints.Free(), inertia=pp.SpatialInertia(10.0, (0, 0, 0), 1.0))
        on = "base"
    for i in range(count):
        parent, at = on, pp.Pose(None, (0, 0, 0.3 * i))
        for part, length in zip("abc", (0.5, 1.0, 0.5), strict=True):
            rod = pp.SpatialInertia(1.0, (length / 2, 0, 0), length**2 / 12)
            b.add_body(f"{part}{i}", parent=parent, joint=pp.joints.Revolute(Z), placement=at,
                       inertia=rod)  # fmt: skip
            parent, at = f"{part}{i}", pp.Pose(None, (length, 0, 0))
        ends = {"a": (f"c{i}", (0.5, 0, 0)), "b": (on, (1.0, 0, 0.3 * i))}
        loops.append(c.Revolute(Z, name=f"pin{i}", **ends))
    system = pp.System(b.build(), loops)
    q = system.model.neutral()
    for i in range(count):
        for part, angle in (("a", 1.0), ("b", -1.0), ("c", 1.0 + np.pi)):
            q[system.model.q_slice(f"{part}{i}")] = angle
    return system, q


def arms_on_object(arms: int, joints: int = 7) -> tuple[pp.System, np.ndarray]:
    """Arms of 7 joints on the ground, all welded to one free body where they end."""
    rng = np.random.default_rng(0)
    b = pp.ModelBuilder()
    b.add_body("object", joint=pp.joints.Free(), inertia=pp.SpatialInertia(5.0, (0, 0, 0), 0.5))
    for i in range(arms):
        parent, at = "world", pp.Pose(None, (np.cos(i), np.sin(i), 0.1 * i))
        for k in range(joints):
            axis = ((0, 0, 1), (0, 1, 0), (1, 0, 0))[k % 3]
            b.add_body(f"arm{i}.{k}", parent=parent, joint=pp.joints.Revolute(axis), placement=at,
                       inertia=pp.SpatialInertia(1.0, (0, 0, 0.1), 0.02))  # fmt: skip
            parent, at = f"arm{i}.{k}", pp.Pose(None, (0, 0, 0.2))
    model = b.build()
    q = model.neutral()
    for k, joint in enumerate(model.joints):
        if joint.kind == "revolute":
            q[model.q_slices[k]] = rng.uniform(-1, 1)
    poses = dict(zip(model.body_names, pp.poses(model, q), strict=True))
    tips = [f"arm{i}.{joints - 1}" for i in range(arms)]
    held = np.linalg.inv(poses["object"])
    welds = [c.Weld(name=t, a=(t, pp.Pose()), b=("object", _pose(held @ poses[t]))) for t in tips]
    return pp.System(model, welds), q
