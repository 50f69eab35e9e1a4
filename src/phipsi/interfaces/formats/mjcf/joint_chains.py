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
    """One joint of ours; `words` are MuJoCo's types, `first` the name of the first joint in it."""

    name: str
    joint: Joint
    placement: Pose
    limits: Any = None
    damping: tuple[float, ...] = ()
    armature: tuple[float, ...] = ()
    effort: float = math.inf
    friction: float = 0.0
    words: str = "fixed"
    first: str = ""


@final
@dataclass
class Chain:
    """All joints of a body, and the way from the link's origin to the body's, in link axes."""

    steps: list[Step]
    shift: NDArray[np.float64]


@final
@dataclass
class _One:
    """A joint as MuJoCo has it."""

    name: str
    kind: int
    axis: NDArray[np.float64]
    anchor: NDArray[np.float64]
    ref: float
    limits: tuple[float, float] | None
    damping: tuple[float, ...]
    armature: tuple[float, ...]
    effort: float
    friction: float

    @property
    def joint(self) -> Joint:
        if self.kind == _FREE:
            return FREE_WITH_ARMATURE if any(self.armature) else joints.Free()
        if self.kind == _BALL:
            return joints.Spherical()
        return joints.Prismatic(self.axis) if self.kind == _SLIDE else joints.Revolute(self.axis)

    @property
    def has_anchor(self) -> bool:
        return self.kind in (_BALL, _HINGE)


def chain_of(m: Any, rows: Iterable[int], body: str) -> Chain:
    """The joints `rows` of the compiled model `m`, all of one body."""
    ones = [_one(m, k, body) for k in rows]
    if not ones:
        return Chain([Step(f"{body}_weld", joints.Fixed(), Pose())], np.zeros(3))
    if len(ones) == 1 or not _share_an_anchor(ones):
        return _in_a_row(ones)
    anchors = [one.anchor for one in ones if one.has_anchor]
    shift = anchors[0] if anchors else np.zeros(3)
    return Chain([_together(ones, shift)], shift)


def _one(m: Any, k: int, body: str) -> _One:
    kind = int(m.jnt_type[k])
    at = int(m.jnt_dofadr[k])
    width = (6, 3, 1, 1)[kind]
    limited = bool(m.jnt_limited[k]) and kind in (_SLIDE, _HINGE)
    low, high = m.jnt_range[k].tolist()
    force = float(m.jnt_actfrcrange[k][1]) if m.jnt_actfrclimited[k] else math.inf
    damping = np.asarray(m.dof_damping[at : at + width], dtype=np.float64).reshape(width, -1)[:, 0]
    return _One(
        m.names["joint"][k] or f"{body}_joint{k - int(m.body_jntadr[m.jnt_bodyid[k]]) + 1}",
        kind,
        np.array(m.jnt_axis[k]),
        np.array(m.jnt_pos[k]) if kind in (_BALL, _HINGE) else np.zeros(3),
        float(m.qpos0[int(m.jnt_qposadr[k])]) if kind in (_SLIDE, _HINGE) else 0.0,
        (low, high) if limited and low < high else None,
        tuple(damping.tolist()),
        tuple(m.dof_armature[at : at + width].tolist()),
        force,
        float(m.dof_frictionloss[at]),
    )


def _share_an_anchor(ones: list[_One]) -> bool:
    anchors = np.array([one.anchor for one in ones if one.has_anchor]).reshape(-1, 3)
    apart = np.abs(anchors - anchors[:1]).max() if len(anchors) else 0.0
    rates = sum(one.joint.nv for one in ones)
    return bool(apart <= _SAME) and rates <= _MAX_RATES and not any(one.ref for one in ones)


def _together(ones: list[_One], shift: NDArray[np.float64]) -> Step:
    limits = None
    if any(one.limits for one in ones) and all(one.joint.is_additive for one in ones):
        pairs = [one.limits or (-math.inf, math.inf) for one in ones]
        limits = (tuple(low for low, _ in pairs), tuple(high for _, high in pairs))
    return Step(
        "+".join(one.name for one in ones),
        joints.Composite([one.joint for one in ones]),
        Pose(translation=shift),
        limits,
        tuple(x for one in ones for x in one.damping),
        tuple(x for one in ones for x in one.armature),
        words="+".join(_WORDS[one.kind] for one in ones),
        first=ones[0].name,
    )


def _in_a_row(ones: list[_One]) -> Chain:
    """One body per joint; each frame has the link's axes and sits at its joint's anchor."""
    steps: list[Step] = []
    at = np.zeros(3)
    for one in ones:
        wanted = at
        if one.kind == _BALL:
            wanted = one.anchor
        elif one.kind == _HINGE:
            wanted = at + hinge_shift(one.anchor - at, one.axis)
        placement = Pose(translation=wanted - at)
        if one.ref and one.kind == _HINGE:
            placement = placement @ Pose(so3_exp(-one.ref * one.axis))
        elif one.ref:
            placement = placement @ Pose(translation=-one.ref * one.axis)
        steps.append(
            Step(
                one.name,
                one.joint,
                placement,
                one.limits,
                one.damping,
                one.armature,
                one.effort,
                one.friction,
                _WORDS[one.kind],
                one.name,
            )
        )
        at = wanted
    return Chain(steps, at)
