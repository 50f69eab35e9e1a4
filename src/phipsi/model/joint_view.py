"""JointView: one joint of a model with its place in q and v."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from phipsi.model.body import Limits, Numbers
from phipsi.model.joint import Joint


@final
@dataclass(frozen=True, slots=True)
class JointView:
    """One joint of a model: its type, where it is in q and v, and its data.

    `limits` are (lower, upper), one number per coordinate, or None.
    """

    name: str
    index: int
    body: str
    joint: Joint
    q_slice: slice
    v_slice: slice
    armature: Numbers
    damping: Numbers
    limits: Limits
