"""The joints of one MuJoCo body as joints of ours: one, a composite, or a chain."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.interfaces.formats.body_frames import hinge_shift
from phipsi.model import Joint, Pose, joints
from phipsi.spatial import so3_exp

_FREE, _BALL, _SLIDE, _HINGE = range(4)
_WORDS = ("free", "ball", "slide", "hinge")
_MAX_RATES = 6
_SAME = 1e-12

# MuJoCo adds the armature of a free joint to linear rates in world axes. Those of `Free` are in
# body axes, whose turning makes a difference of armature · (ω × v); these rates are MuJoCo's own.
FREE_WITH_ARMATURE = joints.Composite([joints.Translation(), joints.Spherical()])


def is_free(joint: Joint) -> bool:
    """Whether a joint of ours stands for MuJoCo's free joint."""
    return isinstance(joint, joints.Free) or joint == FREE_WITH_ARMATURE


@final
@dataclass
class Step:
    """One joint of ours, from one of MuJoCo's or several together.

    `words` are MuJoCo's types, `first` the name of the first of its joints; `kind`, `axis`,
    `anchor` and `ref` are as MuJoCo has them.
    """

    name: str
    joint: Joint
    words: str = "fixed"
    first: str = ""
    limits: Any = None
    damping: tuple[float, ...] = ()
    armature: tuple[float, ...] = ()
    effort: float = math.inf
    friction: float = 0.0
    placement: Pose = Pose()
    kind: int = -1
    axis: NDArray[np.float64] | None = None
    anchor: NDArray[np.float64] | None = None
    ref: float = 0.0


@final
@dataclass
class Chain:
    """All joints of a body, and the way from the link's origin to the body's, in link axes."""

    steps: list[Step]
    shift: NDArray[np.float64]


def chain_of(m: Any, rows: Iterable[int], body: str) -> Chain:
    """The joints `rows` of the compiled model `m`, all of one body."""
    steps = [_step(m, k, body) for k in rows]
    if not steps:
        return Chain([Step(f"{body}_weld", joints.Fixed())], np.zeros(3))
    anchors = [step.anchor for step in steps if step.anchor is not None]
    if len(steps) == 1 or not _can_be_one(steps, anchors):
        return _in_a_row(steps)
    shift = anchors[0] if anchors else np.zeros(3)
    return Chain([_together(steps, shift)], shift)


def _step(m: Any, k: int, body: str) -> Step:
    kind, at = int(m.jnt_type[k]), int(m.jnt_dofadr[k])
    rates = slice(at, at + (6, 3, 1, 1)[kind])
    has_coordinate = kind in (_SLIDE, _HINGE)
    low, high = m.jnt_range[k].tolist()
    damping = np.asarray(m.dof_damping[rates], dtype=np.float64)
    damping = damping.reshape(len(damping), -1)[:, 0]
    armature, axis = tuple(m.dof_armature[rates].tolist()), np.array(m.jnt_axis[k])
    name = m.names["joint"][k] or f"{body}_joint{k - int(m.body_jntadr[m.jnt_bodyid[k]]) + 1}"
    return Step(
        name,
        _joint(kind, axis, any(armature)),
        _WORDS[kind],
        name,
        (low, high) if has_coordinate and m.jnt_limited[k] and low < high else None,
        tuple(damping.tolist()),
        armature,
        float(m.jnt_actfrcrange[k][1]) if m.jnt_actfrclimited[k] else math.inf,
        float(m.dof_frictionloss[at]),
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


def _can_be_one(steps: list[Step], anchors: list[NDArray[np.float64]]) -> bool:
    """Whether joints can be one composite joint: they share an anchor and have no reference."""
    apart = max((np.abs(anchor - anchors[0]).max() for anchor in anchors), default=0.0)
    rates = sum(step.joint.nv for step in steps)
    return bool(apart <= _SAME) and rates <= _MAX_RATES and not any(step.ref for step in steps)


def _together(steps: list[Step], shift: NDArray[np.float64]) -> Step:
    limits = None
    if any(step.limits for step in steps) and all(step.joint.is_additive for step in steps):
        limits = tuple(zip(*(step.limits or (-math.inf, math.inf) for step in steps), strict=True))
    return Step(
        "+".join(step.name for step in steps),
        joints.Composite([step.joint for step in steps]),
        "+".join(step.words for step in steps),
        steps[0].name,
        limits,
        tuple(x for step in steps for x in step.damping),
        tuple(x for step in steps for x in step.armature),
        placement=Pose(translation=shift),
    )


def _in_a_row(steps: list[Step]) -> Chain:
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
