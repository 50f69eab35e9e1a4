"""A joint of a graph of bodies, from which `System.from_graph` makes a tree with constraints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast, final

from numpy.typing import ArrayLike

from phipsi.errors import ModelError
from phipsi.model.body import LimitsArgument
from phipsi.model.joint import Joint

Place = str | tuple[str, Any]


@final
@dataclass(frozen=True)
class GraphJoint:
    """A joint between two bodies of a graph, or a body and "world".

    `a` and `b` are names, or pairs (name, offset or `Pose`): the joint frame on each side, in the
    frame in which the body's inertia is given. At zero coordinates the two frames coincide.
    `limits`, `armature` and `damping` as for `ModelBuilder.add_body`; a joint that is cut has none.
    """

    name: str
    joint: Joint
    a: Place
    b: Place
    limits: LimitsArgument = None
    armature: ArrayLike = 0.0
    damping: ArrayLike = 0.0

    def __post_init__(self) -> None:
        if not isinstance(cast(object, self.joint), Joint):
            raise ModelError(
                f"graph joint {self.name!r}: joint={self.joint!r} is not a joint; give one of "
                f"pp.joints, such as pp.joints.Revolute((0, 0, 1))."
            )
