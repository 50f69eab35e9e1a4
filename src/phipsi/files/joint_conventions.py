"""How Pinocchio, MuJoCo and Drake store the coordinates of each type of joint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.core.model import Joint, Pose, joints
from phipsi.core.spatial import matrix_to_quat, quat_multiply, quat_to_matrix
from phipsi.errors import InputError
from phipsi.files.mjcf.joint_chains import FREE_WITH_ARMATURE

Array = NDArray[Any]


def _same(q: Array) -> Array:
    return q


@final
@dataclass(frozen=True)
class JointBlock:
    """One joint: `nq` coordinates there, `nv` rates, with maps of q in both directions.

    Rates there are T(q) rates here, with an orthogonal T; None is the identity. `turning` of our
    rates is the part T* Ṫ v of accelerations that comes from axes that turn.
    """

    nq: int
    nv: int
    q_out: Callable[[Array], Array] = _same
    q_in: Callable[[Array], Array] = _same
    T: Callable[[Array], Array | None] = lambda q: None
    turning: Callable[[Array], Array] = np.zeros_like

    def drift(self, q: Array, v: Array) -> Array:
        """Ṫ v, the part of accelerations there that our accelerations do not cause."""
        return applied(self.T(q), self.turning(v))


@final
@dataclass(frozen=True)
class Style:
    """One tool: its special joints by kind, and whether it stores angles as (cos, sin).

    `joints` are special ones that need more than their kind to be recognised.
    """

    tool: str
    special: dict[str, Callable[[Pose, bool, str], JointBlock]]
    plain: tuple[str, ...]
    wraps: bool = False
    joints: dict[Joint, Callable[[Pose, bool, str], JointBlock]] = field(default_factory=dict)

    def block(self, joint: Joint, name: str, X: Pose, on_world: bool, wrapped: bool) -> JointBlock:
        """The block of a joint with inboard placement X, on the world or not."""
        if wrapped:
            return _COS_SIN
        if joint in self.joints:
            return self.joints[joint](X, on_world, name)
        if isinstance(joint, joints.Composite):
            parts = [self.block(part, name, X, False, False) for part in joint.joints]
            return _side_by_side(joint.joints, parts)
        if joint.kind in self.special:
            return self.special[joint.kind](X, on_world, name)
        if joint.kind in self.plain:
            return JointBlock(joint.nq, joint.nv)
        raise InputError(f"joint {name!r}: {self.tool} has no {joint.kind} joint.")


def _side_by_side(parts: tuple[Joint, ...], blocks: list[JointBlock]) -> JointBlock:
    """Blocks of a composite joint, one after the other."""
    q_at, v_at, their_q = (
        np.cumsum([0, *sizes]).tolist()
        for sizes in ((p.nq for p in parts), (p.nv for p in parts), (b.nq for b in blocks))
    )

    def joined(maps: list[Callable[[Array], Array]], x: Array, at: list[int]) -> Array:
        parts = zip(maps, at[:-1], at[1:], strict=True)
        return np.concatenate([f(x[..., i:j]) for f, i, j in parts], axis=-1)

    def T(q: Array) -> Array:
        out = np.zeros((*q.shape[:-1], v_at[-1], v_at[-1]))
        for k, block in enumerate(blocks):
            at = slice(v_at[k], v_at[k + 1])
            inner = block.T(q[..., q_at[k] : q_at[k + 1]])
            out[..., at, at] = np.eye(block.nv) if inner is None else inner
        return out

    return JointBlock(
        their_q[-1],
        v_at[-1],
        lambda q: joined([b.q_out for b in blocks], q, q_at),
        lambda q: joined([b.q_in for b in blocks], q, their_q),
        T,
        lambda v: joined([b.turning for b in blocks], v, v_at),
    )


_COS_SIN = JointBlock(
    2,
    1,
    lambda q: np.concatenate([np.cos(q), np.sin(q)], axis=-1),
    lambda q: np.arctan2(q[..., 1:], q[..., :1]),
)


def _permuted(order: list[int]) -> Callable[[Array], Array]:
    matrix = np.eye(len(order))[order]
    return lambda q: matrix


def _in_world(X: Pose) -> tuple[Callable[[Array, Array], tuple[Array, Array]], ...]:
    """Poses (quaternion, position) in a frame at X as poses in the world, and back."""

    def through(pose: Pose) -> Callable[[Array, Array], tuple[Array, Array]]:
        turn = matrix_to_quat(pose.rotation)
        if pose.is_identity:
            return lambda quaternion, position: (quaternion, position)
        return lambda quaternion, position: (quat_multiply(turn, quaternion), pose.apply(position))

    return through(X), through(X.inv)


def _free(X: Pose, first: str, *, xyzw: bool = False, linear: bool = False, angular: bool = False):
    """A free joint whose inboard frame is at X in the world of the other tool.

    `first` among its coordinates and rates: "position" with the linear rate, or "quaternion" with
    the angular; `xyzw`, the order of the quaternion; `linear` and `angular`, whether these rates
    are in world axes and not in body axes.
    """
    out, back = _in_world(X)
    position, quaternion, moves, turns = slice(3), slice(3, 7), slice(3), slice(3, 6)
    if first == "quaternion":
        quaternion, position, turns, moves = slice(4), slice(4, 7), slice(3), slice(3, 6)

    def q_out(q: Array) -> Array:
        there = np.empty_like(q)
        turned, there[..., position] = out(q[..., :4], q[..., 4:])
        there[..., quaternion] = turned[..., [1, 2, 3, 0]] if xyzw else turned
        return there

    def q_in(q: Array) -> Array:
        turned = q[..., quaternion]
        turned = turned[..., [3, 0, 1, 2]] if xyzw else turned
        return np.concatenate(back(turned, q[..., position]), axis=-1)

    def T(q: Array) -> Array:
        there = np.zeros((*q.shape[:-1], 6, 6))
        R = X.rotation @ quat_to_matrix(q[..., :4]) if linear or angular else np.eye(3)
        there[..., turns, :3] = R if angular else np.eye(3)
        there[..., moves, 3:] = R if linear else np.eye(3)
        return there

    def turning(v: Array) -> Array:
        w = v[..., :3]
        return np.concatenate([np.zeros_like(w), np.cross(w, v[..., 3:])], axis=-1)

    return JointBlock(7, 6, q_out, q_in, T, turning if linear else np.zeros_like)


def _plane(X: Pose, on_world: bool, name: str) -> JointBlock:
    """[x, y, θ] and its rates in inboard axes, from [ω, v1, v2] in body axes."""

    def T(q: Array) -> Array:
        c, s = np.cos(q[..., 0]), np.sin(q[..., 0])
        out = np.zeros((*q.shape[:-1], 3, 3))
        out[..., 0, 1], out[..., 0, 2], out[..., 1, 1], out[..., 1, 2] = c, -s, s, c
        out[..., 2, 0] = 1
        return out

    def turning(v: Array) -> Array:
        w, v1, v2 = np.moveaxis(v, -1, 0)
        return np.stack([np.zeros_like(w), -w * v2, w * v1], -1)

    return JointBlock(3, 3, lambda q: q[..., [1, 2, 0]], lambda q: q[..., [2, 0, 1]], T, turning)


PINOCCHIO = Style(
    "Pinocchio",
    {
        "free": lambda X, on_world, name: _free(Pose(), "position", xyzw=True),
        "planar": lambda X, on_world, name: JointBlock(
            4,
            3,
            lambda q: np.concatenate([q[..., 1:], np.cos(q[..., :1]), np.sin(q[..., :1])], axis=-1),
            lambda q: np.concatenate([np.arctan2(q[..., 3:], q[..., 2:3]), q[..., :2]], axis=-1),
            _permuted([1, 2, 0]),
        ),
        "spherical": lambda X, on_world, name: JointBlock(
            4, 3, lambda q: q[..., [1, 2, 3, 0]], lambda q: q[..., [3, 0, 1, 2]]
        ),
    },
    ("revolute", "prismatic", "helical", "cylindrical", "universal", "translation"),
    wraps=True,
)


def _mujoco_free(X: Pose, on_world: bool, name: str) -> JointBlock:
    if not on_world:
        raise InputError(f"joint {name!r}: a free joint of MuJoCo must be on the world.")
    return _free(X, "position", linear=True)


def _mujoco_free_with_armature(X: Pose, on_world: bool, name: str) -> JointBlock:
    """The same for a translation and a ball joint: only the placement of the joint differs."""
    _mujoco_free(X, on_world, name)
    out, back = _in_world(X)

    def mapped(through: Callable[[Array, Array], tuple[Array, Array]], q: Array) -> Array:
        turned, moved = through(q[..., 3:], q[..., :3])
        return np.concatenate([moved, turned], axis=-1)

    axes = np.eye(6)
    axes[:3, :3] = X.rotation
    return JointBlock(7, 6, lambda q: mapped(out, q), lambda q: mapped(back, q), lambda q: axes)


MUJOCO = Style(
    "MuJoCo",
    {"free": _mujoco_free, "planar": _plane},
    ("revolute", "prismatic", "cylindrical", "universal", "translation", "spherical"),
    joints={FREE_WITH_ARMATURE: _mujoco_free_with_armature},
)


# The free joint that Drake gives a body without parent starts at the world's frame; a
# ``QuaternionFloatingJoint`` between bodies starts at a frame of its own, like ours.
DRAKE = Style(
    "Drake",
    {
        "free": lambda X, on_world, name: _free(
            X if on_world else Pose(), "quaternion", linear=True, angular=True
        ),
        "planar": _plane,
    },
    ("revolute", "prismatic", "helical", "universal"),
)


def applied(T: Array | None, x: Array) -> Array:
    """T x for batches; x where T is None, the identity."""
    return x if T is None else np.einsum("...ij,...j->...i", T, x)
