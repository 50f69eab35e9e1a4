"""How one joint's coordinates and rates are written by other tools.

A block says how q changes, and gives the orthogonal T(q) of `rates there = T rates here` with its
drift Ṫ v. Arrays are batched on leading axes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.errors import InputError
from phipsi.interfaces.formats.mjcf.joint_chains import FREE_WITH_ARMATURE
from phipsi.model import Joint, Pose, joints
from phipsi.spatial import matrix_to_quat, quat_multiply, quat_to_matrix

Array = NDArray[Any]
_XYZW = [1, 2, 3, 0]
_WXYZ = [3, 0, 1, 2]


def _same(q: Array) -> Array:
    return q


@final
@dataclass(frozen=True)
class Block:
    """One joint: `nq` coordinates there, `nv` rates; T is None for the identity."""

    nq: int
    nv: int
    q_out: Callable[[Array], Array] = _same
    q_in: Callable[[Array], Array] = _same
    T: Callable[[Array], Array | None] = lambda q: None
    drift: Callable[[Array, Array], Array] = lambda q, v: np.zeros_like(v)


@final
@dataclass(frozen=True)
class Style:
    """One tool: its special joints by kind, and whether it stores angles as (cos, sin).

    `joints` are special ones that are told by more than their kind.
    """

    tool: str
    special: dict[str, Callable[[Pose, bool, str], Block]]
    plain: tuple[str, ...]
    wraps: bool = False
    joints: dict[Joint, Callable[[Pose, bool, str], Block]] = field(default_factory=dict)

    def block(self, joint: Joint, name: str, X: Pose, on_world: bool, wrapped: bool) -> Block:
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
            return Block(joint.nq, joint.nv)
        raise InputError(f"joint {name!r}: {self.tool} has no {joint.kind} joint.")


def _side_by_side(parts: tuple[Joint, ...], blocks: list[Block]) -> Block:
    """Blocks of a composite joint, one after the other."""
    q_at = np.cumsum([0, *(p.nq for p in parts)]).tolist()
    v_at = np.cumsum([0, *(p.nv for p in parts)]).tolist()
    their_q = np.cumsum([0, *(b.nq for b in blocks)]).tolist()
    nv = v_at[-1]

    def cut(x: Array, at: list[int], k: int) -> Array:
        return x[..., at[k] : at[k + 1]]

    def q_out(q: Array) -> Array:
        return np.concatenate([b.q_out(cut(q, q_at, k)) for k, b in enumerate(blocks)], axis=-1)

    def q_in(q: Array) -> Array:
        return np.concatenate([b.q_in(cut(q, their_q, k)) for k, b in enumerate(blocks)], axis=-1)

    def T(q: Array) -> Array:
        out = np.zeros((*q.shape[:-1], nv, nv))
        for k, block in enumerate(blocks):
            at = slice(v_at[k], v_at[k + 1])
            inner = block.T(cut(q, q_at, k))
            out[..., at, at] = np.eye(block.nv) if inner is None else inner
        return out

    def drift(q: Array, v: Array) -> Array:
        parts = [b.drift(cut(q, q_at, k), cut(v, v_at, k)) for k, b in enumerate(blocks)]
        return np.concatenate(parts, axis=-1)

    return Block(their_q[-1], nv, q_out, q_in, T, drift)


_COS_SIN = Block(
    2,
    1,
    lambda q: np.concatenate([np.cos(q), np.sin(q)], axis=-1),
    lambda q: np.arctan2(q[..., 1:], q[..., :1]),
)


def _permutation(order: list[int]) -> Array:
    return np.eye(len(order))[order]


def _plane(q: Array) -> Array:
    """[x, y, θ] rates in inboard axes from [ω, v1, v2] in body axes."""
    c, s = np.cos(q[..., 0]), np.sin(q[..., 0])
    T = np.zeros((*q.shape[:-1], 3, 3))
    T[..., 0, 1], T[..., 0, 2], T[..., 1, 1], T[..., 1, 2] = c, -s, s, c
    T[..., 2, 0] = 1
    return T


def _plane_drift(q: Array, v: Array) -> Array:
    """ω × (v1, v2), turned to inboard axes."""
    turned = np.stack([np.zeros_like(v[..., 0]), -v[..., 0] * v[..., 2], v[..., 0] * v[..., 1]], -1)
    return np.einsum("...ij,...j->...i", _plane(q), turned)


# ---- Pinocchio ----------------------------------------------------------------------------------


def _pinocchio_free(X: Pose, on_world: bool, name: str) -> Block:
    swap = _permutation([3, 4, 5, 0, 1, 2])
    return Block(
        7,
        6,
        lambda q: np.concatenate([q[..., 4:], q[..., 1:4], q[..., :1]], axis=-1),
        lambda q: np.concatenate([q[..., 6:], q[..., 3:6], q[..., :3]], axis=-1),
        lambda q: swap,
    )


def _pinocchio_planar(X: Pose, on_world: bool, name: str) -> Block:
    order = _permutation([1, 2, 0])
    return Block(
        4,
        3,
        lambda q: np.concatenate([q[..., 1:], np.cos(q[..., :1]), np.sin(q[..., :1])], axis=-1),
        lambda q: np.concatenate([np.arctan2(q[..., 3:], q[..., 2:3]), q[..., :2]], axis=-1),
        lambda q: order,
    )


PINOCCHIO = Style(
    "Pinocchio",
    {
        "free": _pinocchio_free,
        "planar": _pinocchio_planar,
        "spherical": lambda X, on_world, name: Block(
            4, 3, lambda q: q[..., _XYZW], lambda q: q[..., _WXYZ]
        ),
    },
    ("revolute", "prismatic", "helical", "cylindrical", "universal", "translation"),
    wraps=True,
)


# ---- MuJoCo and Drake ---------------------------------------------------------------------------


@final
class _Placed:
    """Poses in a joint's inboard frame, which is at X in the world, as poses in the world."""

    def __init__(self, X: Pose) -> None:
        self.X, self.back = X, X.inv
        self.quaternion = matrix_to_quat(X.rotation)
        self.conjugate = self.quaternion * np.array([1, -1, -1, -1])

    def out(self, quaternion: Array, position: Array) -> tuple[Array, Array]:
        if self.X.is_identity:
            return quaternion, position
        return quat_multiply(self.quaternion, quaternion), self.X.apply(position)

    def into(self, quaternion: Array, position: Array) -> tuple[Array, Array]:
        if self.X.is_identity:
            return quaternion, position
        return quat_multiply(self.conjugate, quaternion), self.back.apply(position)


def _refuse_inner(on_world: bool, name: str, tool: str) -> None:
    if not on_world:
        raise InputError(f"joint {name!r}: a free joint of {tool} must be on the world.")


def _mujoco_free(X: Pose, on_world: bool, name: str) -> Block:
    """Position and quaternion in the world; linear rate in world axes, angular in body axes."""
    _refuse_inner(on_world, name, "MuJoCo")
    placed = _Placed(X)

    def q_out(q: Array) -> Array:
        turned, moved = placed.out(q[..., :4], q[..., 4:])
        return np.concatenate([moved, turned], axis=-1)

    def q_in(q: Array) -> Array:
        turned, moved = placed.into(q[..., 3:], q[..., :3])
        return np.concatenate([turned, moved], axis=-1)

    def T(q: Array) -> Array:
        out = np.zeros((*q.shape[:-1], 6, 6))
        out[..., :3, 3:] = X.rotation @ quat_to_matrix(q[..., :4])
        out[..., 3:, :3] = np.eye(3)
        return out

    def drift(q: Array, v: Array) -> Array:
        return np.einsum("...ij,...j->...i", T(q), _turning(v))

    return Block(7, 6, q_out, q_in, T, drift)


def _mujoco_free_with_armature(X: Pose, on_world: bool, name: str) -> Block:
    """The same for a translation and a ball joint: only the placement of the joint differs."""
    _refuse_inner(on_world, name, "MuJoCo")
    placed = _Placed(X)

    def q_out(q: Array) -> Array:
        turned, moved = placed.out(q[..., 3:], q[..., :3])
        return np.concatenate([moved, turned], axis=-1)

    def q_in(q: Array) -> Array:
        turned, moved = placed.into(q[..., 3:], q[..., :3])
        return np.concatenate([moved, turned], axis=-1)

    axes = np.eye(6)
    axes[:3, :3] = X.rotation
    return Block(7, 6, q_out, q_in, lambda q: axes)


def _turning(v: Array) -> Array:
    """[0; ω × v]: what the turning of the body axes adds to the linear acceleration."""
    return np.concatenate([np.zeros_like(v[..., :3]), np.cross(v[..., :3], v[..., 3:])], axis=-1)


def _plane_block(X: Pose, on_world: bool, name: str) -> Block:
    return Block(
        3, 3, lambda q: q[..., [1, 2, 0]], lambda q: q[..., [2, 0, 1]], _plane, _plane_drift
    )


MUJOCO = Style(
    "MuJoCo",
    {"free": _mujoco_free, "planar": _plane_block},
    ("revolute", "prismatic", "cylindrical", "universal", "translation", "spherical"),
    joints={FREE_WITH_ARMATURE: _mujoco_free_with_armature},
)


def _drake_free(X: Pose, on_world: bool, name: str) -> Block:
    """The pose of a free body in the world, and its rates in world axes.

    The free joint that Drake gives a body without parent starts at the world's frame; a
    ``QuaternionFloatingJoint`` between bodies starts at a frame of its own, like ours.
    """
    placed = _Placed(X if on_world else Pose())
    axes = placed.X.rotation

    def q_out(q: Array) -> Array:
        return np.concatenate(placed.out(q[..., :4], q[..., 4:]), axis=-1)

    def q_in(q: Array) -> Array:
        return np.concatenate(placed.into(q[..., :4], q[..., 4:]), axis=-1)

    def T(q: Array) -> Array:
        out = np.zeros((*q.shape[:-1], 6, 6))
        out[..., :3, :3] = out[..., 3:, 3:] = axes @ quat_to_matrix(q[..., :4])
        return out

    def drift(q: Array, v: Array) -> Array:
        return np.einsum("...ij,...j->...i", T(q), _turning(v))

    return Block(7, 6, q_out, q_in, T, drift)


DRAKE = Style(
    "Drake",
    {"free": _drake_free, "planar": _plane_block},
    ("revolute", "prismatic", "helical", "universal"),
)
