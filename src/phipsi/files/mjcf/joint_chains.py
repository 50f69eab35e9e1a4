"""The joints of one MuJoCo body as joints of ours: one, a composite, or a chain."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.attached import JointProperties
from phipsi.core.model import Joint, Pose, joints
from phipsi.core.spatial import so3_exp
from phipsi.files.body_frames import hinge_shift

_FREE, _BALL, _SLIDE, _HINGE = range(4)
_WORDS = ("free", "ball", "slide", "hinge")
_MAX_RATES = 6
_SAME = 1e-12
_ANY_EFFORT = (-math.inf, math.inf)

# MuJoCo adds the armature of a free joint to linear rates in world axes. Those of `Free` are in
# body axes, whose turning makes a difference of armature · (ω × v); these rates are MuJoCo's own.
FREE_WITH_ARMATURE = joints.Composite([joints.Translation(), joints.Spherical()])


def is_free(joint: Joint) -> bool:
    """Whether a joint of ours stands for MuJoCo's free joint."""
    return isinstance(joint, joints.Free) or joint == FREE_WITH_ARMATURE


@final
@dataclass
class ChainJoint:
    """One joint of ours, from one of MuJoCo's or several together.

    `words` are MuJoCo's types, `first` the name of the first of its joints; `efforts` (the least
    and the largest) and `friction` are per rate; `kind`, `axis`, `anchor` and `ref` are as MuJoCo
    has them.
    """

    name: str
    joint: Joint
    words: str = "fixed"
    first: str = ""
    limits: Any = None
    damping: tuple[float, ...] = ()
    armature: tuple[float, ...] = ()
    efforts: tuple[tuple[float, float], ...] = ()
    friction: tuple[float, ...] = ()
    placement: Pose = Pose()
    kind: int = -1
    axis: NDArray[np.float64] | None = None
    anchor: NDArray[np.float64] | None = None
    ref: float = 0.0

    def joint_properties(self) -> JointProperties:
        """Efforts and friction, each as one number where all rates have the same."""
        lower, upper = zip(*self.efforts, strict=True)
        is_even = all(low == -high for low, high in self.efforts)
        return JointProperties(
            self.name,
            self.words,
            _one(upper),
            friction=_one(self.friction),
            lower_effort=None if is_even else _one(lower),
        )


def _one(numbers: tuple[float, ...]) -> float | tuple[float, ...]:
    return numbers[0] if len(set(numbers)) == 1 else numbers


@final
@dataclass
class Chain:
    """All joints of a body, and the way from the link's origin to the body's, in link axes."""

    steps: list[ChainJoint]
    shift: NDArray[np.float64]


def chain_of(m: Any, rows: Iterable[int], body: str) -> Chain:
    """The joints `rows` of the compiled model `m`, all of one body."""
    steps = [_step(m, k, body) for k in rows]
    if not steps:
        return Chain([ChainJoint(f"{body}_weld", joints.Fixed())], np.zeros(3))
    anchors = [step.anchor for step in steps if step.anchor is not None]
    if len(steps) == 1 or not _can_be_one(steps, anchors):
        return _in_a_row(steps)
    shift = anchors[0] if anchors else np.zeros(3)
    return Chain([_together(steps, shift)], shift)


def _step(m: Any, k: int, body: str) -> ChainJoint:
    kind, at = int(m.jnt_type[k]), int(m.jnt_dofadr[k])
    rates = slice(at, at + (6, 3, 1, 1)[kind])
    has_coordinate = kind in (_SLIDE, _HINGE)
    low, high = m.jnt_range[k].tolist()
    damping = np.asarray(m.dof_damping[rates], dtype=np.float64)
    damping = damping.reshape(len(damping), -1)[:, 0]
    armature, axis = tuple(m.dof_armature[rates].tolist()), np.array(m.jnt_axis[k])
    name = m.names["joint"][k] or f"{body}_joint{k - int(m.body_jntadr[m.jnt_bodyid[k]]) + 1}"
    efforts = tuple(m.jnt_actfrcrange[k].tolist()) if m.jnt_actfrclimited[k] else _ANY_EFFORT
    friction = np.array(m.dof_frictionloss[rates], dtype=np.float64)
    if kind == _FREE:  # it acts along axes of the world there, which are not those of the rates
        friction[:] = 0.0
    return ChainJoint(
        name,
        _joint(kind, axis, any(armature)),
        _WORDS[kind],
        name,
        (low, high) if has_coordinate and m.jnt_limited[k] and low < high else None,
        tuple(damping.tolist()),
        armature,
        (efforts,) * len(friction),
        tuple(friction.tolist()),
        kind=kind,
        axis=axis,
        anchor=np.array(m.jnt_pos[k]) if kind in (_BALL, _HINGE) else None,
        ref=float(m.qpos0[int(m.jnt_qposadr[k])]) if has_coordinate else 0.0,
    )


def _joint(kind: int, axis: NDArray[np.float64], has_armature: bool) -> Joint:
    if kind == _FREE:
        return FREE_WITH_ARMATURE if has_armature else joints.Free()
    if kind == _BALL:
        return joints.Spherical()
    return joints.Prismatic(axis) if kind == _SLIDE else joints.Revolute(axis)


def _can_be_one(steps: list[ChainJoint], anchors: list[NDArray[np.float64]]) -> bool:
    """Whether joints can be one composite joint: they share an anchor and have no reference.

    Beside a ball joint limits have no place in a composite joint, so there must be none.
    """
    apart = max((np.abs(anchor - anchors[0]).max() for anchor in anchors), default=0.0)
    if sum(step.joint.nv for step in steps) > _MAX_RATES or any(step.ref for step in steps):
        return False
    can_have_limits = all(step.joint.is_additive for step in steps)
    return bool(apart <= _SAME) and (can_have_limits or not any(step.limits for step in steps))


def _together(steps: list[ChainJoint], shift: NDArray[np.float64]) -> ChainJoint:
    limits = None
    if any(step.limits for step in steps):
        limits = tuple(zip(*(step.limits or (-math.inf, math.inf) for step in steps), strict=True))
    return ChainJoint(
        "+".join(step.name for step in steps),
        joints.Composite([step.joint for step in steps]),
        "+".join(step.words for step in steps),
        steps[0].name,
        limits,
        tuple(x for step in steps for x in step.damping),
        tuple(x for step in steps for x in step.armature),
        tuple(x for step in steps for x in step.efforts),
        tuple(x for step in steps for x in step.friction),
        placement=Pose(translation=shift),
    )


def _in_a_row(steps: list[ChainJoint]) -> Chain:
    """One body per joint; each frame has the link's axes and sits at its joint's anchor."""
    at = np.zeros(3)
    for step in steps:
        assert step.axis is not None
        wanted = at
        if step.anchor is not None:
            is_ball = step.kind == _BALL
            wanted = step.anchor if is_ball else at + hinge_shift(step.anchor - at, step.axis)
        step.placement = Pose(translation=wanted - at)
        if step.ref and step.kind == _HINGE:
            step.placement = step.placement @ Pose(so3_exp(-step.ref * step.axis))
        elif step.ref:
            step.placement = step.placement @ Pose(translation=-step.ref * step.axis)
        at = wanted
    return Chain(steps, at)
