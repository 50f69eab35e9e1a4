"""The records a mechanism is described with: Body, Frame, and the Description of all.

Armature: docs/decisions/0012.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.core.model.argument_checks import as_floats
from phipsi.core.model.attachments import NO_ATTACHMENTS, Attachment, Attachments, Kind
from phipsi.core.model.compound_body import CompoundBody
from phipsi.core.model.flexible_inertia import FlexibleInertia
from phipsi.core.model.inertia import SpatialInertia
from phipsi.core.model.joint import Joint
from phipsi.core.model.pose import Pose
from phipsi.core.model.value import check_text, check_type, plain, vector3
from phipsi.errors import ModelError

FloatArray = NDArray[np.float64]
Numbers = tuple[float, ...]
Limits = tuple[Numbers, Numbers] | None
LimitsArgument = tuple[ArrayLike, ArrayLike] | Sequence[ArrayLike] | None
NO_PLACEMENT, NO_INERTIA = Pose(), SpatialInertia()


@final
@dataclass(frozen=True, slots=True)
class Body:
    """A body together with the joint that attaches it to its parent.

    `placement` is the pose of the inboard joint frame in the parent's body frame; at neutral q the
    body frame coincides with it. `armature` (kg·m² or kg) and `damping` (N·m·s/rad or N·s/m) have
    one number per rate; `limits` are the lower and upper bounds of each coordinate, or None. A body
    that deforms has its modes in `flexible`, and `inertia` is that of the undeformed body. On a
    flexible parent, `port` names the place of the joint, and `placement` is the pose in its frame;
    "" is the body frame of the parent, which its modes do not move.
    """

    name: str
    parent: str
    joint: Joint
    placement: Pose
    inertia: SpatialInertia
    joint_name: str
    armature: Numbers
    damping: Numbers
    limits: Limits
    port: str | None = None
    flexible: FlexibleInertia | CompoundBody | None = None


@final
@dataclass(frozen=True, slots=True)
class Frame:
    """A named frame fixed in a body or in the world; `placement` is its pose there."""

    name: str
    body: str
    placement: Pose


@final
@dataclass(frozen=True, slots=True)
class Description:
    """Everything the user said about a mechanism: bodies, frames, gravity (m/s², world axes).

    `parts` are the bodies as a file listed them, before those on fixed joints were welded; empty
    if nobody asked to keep them. `world_inertia` is the inertia of everything that is welded to the
    world, in world axes about its origin: it moves only when the mechanism is attached to a body of
    another one. `attachments` are what features hang on the mechanism, `of` a kind.
    """

    bodies: tuple[Body, ...]
    frames: tuple[Frame, ...]
    gravity: Numbers
    parts: tuple[Body, ...] = field(default=(), hash=False)
    world_inertia: SpatialInertia = SpatialInertia()
    attachments: Attachments = field(default=NO_ATTACHMENTS, hash=False)

    def of(self, kind: type[Kind]) -> Kind:
        """The attachment of a kind; an empty one if there is none."""
        return self.attachments.of(kind)

    def added_inertia(self, nv: int) -> tuple[FloatArray, FloatArray]:
        """Inertial parameters (n, 10) and armature (nv,) that attachments add to the bodies."""
        return self.attachments.added_inertia(self, nv)

    def having(self, *attachments: Attachment) -> Description:
        """The same with attachments, each in place of the one of its kind."""
        return replace(self, attachments=self.attachments.having(*attachments))


def make_body(
    name: str,
    parent: str,
    joint: Joint,
    placement: Pose = NO_PLACEMENT,
    inertia: SpatialInertia | FlexibleInertia | CompoundBody = NO_INERTIA,
    joint_name: str | None = None,
    armature: ArrayLike = 0.0,
    damping: ArrayLike = 0.0,
    limits: LimitsArgument = None,
    port: str | None = None,
) -> Body:
    """Return a record with checked types and sizes; values are judged when the model is built."""
    check_text(name, "a body's name")
    check_text(parent, f"the parent of body {name!r}")
    if joint_name is not None:
        check_text(joint_name, f"the joint name of body {name!r}")
    who = f"body {name!r}"
    if isinstance(joint, type) and issubclass(joint, Joint):
        raise ModelError(
            f"{who}: joint is the class {joint.__name__}; make a joint from it:\n"
            f"    joint={joint.__name__}()"
        )
    check_type(who, "joint", joint, Joint, "Revolute(axis=(0, 0, 1))")
    check_type(who, "placement", placement, Pose, "Pose(translation=(0, 0, 0.1))")
    flexible = inertia if isinstance(inertia, FlexibleInertia | CompoundBody) else None
    inertia = inertia.rigid if isinstance(inertia, FlexibleInertia | CompoundBody) else inertia
    check_type(who, "inertia", inertia, SpatialInertia, "SpatialInertia(mass=1.0)")
    if port is not None:
        check_type(who, "port", port, str, '"tip"')
    joint_name = name if joint_name is None else joint_name
    rotor = _per_rate(armature, "armature", joint, joint_name)
    damper = _per_rate(damping, "damping", joint, joint_name)
    bounds = _limits(limits, joint, joint_name)
    return Body(
        name, parent, joint, placement, inertia, joint_name, rotor, damper, bounds, port, flexible
    )


def make_frame(name: str, body: str, placement: Pose) -> Frame:
    """Return a frame record with checked types."""
    check_text(name, "a frame's name")
    check_text(body, f"the body of frame {name!r}")
    check_type(f"frame {name!r}", "placement", placement, Pose, "Pose(translation=(0, 0, 0.1))")
    return Frame(name, body, placement)


def _numbers(values: ArrayLike, size: int, complaint: str) -> Numbers:
    try:
        array = as_floats("it", values)
    except (TypeError, ValueError) as error:
        raise ModelError(f"{complaint}, not {values!r}.") from error
    if array.ndim == 0:
        return (float(array),) * size
    if array.shape != (size,):
        raise ModelError(f"{complaint}, but it has shape {array.shape}.")
    return tuple(array.tolist())


def _per_rate(values: ArrayLike, what: str, joint: Joint, joint_name: str) -> Numbers:
    return _numbers(
        values,
        joint.nv,
        f"joint {joint_name!r} ({joint.kind}): {what} must be one number or {joint.nv}, one per "
        "degree of freedom",
    )


def _limits(limits: LimitsArgument, joint: Joint, joint_name: str) -> Limits:
    if limits is None:
        return None
    who = f"joint {joint_name!r} ({joint.kind})"
    if joint.nq != joint.nv:
        raise ModelError(
            f"{who}: limits apply to single coordinates and have no meaning for a quaternion. Use "
            "limits=None, or revolute joints with massless bodies between."
        )
    try:
        lower, upper = limits
    except (TypeError, ValueError) as error:
        raise ModelError(
            f"{who}: limits must be a pair (lower, upper), not {limits!r}. For example:\n"
            f"    limits=(-1.5, 1.5)"
        ) from error
    bounds = tuple(
        _numbers(side, joint.nq, f"{who}: a limit must be one number or {joint.nq}")
        for side in (lower, upper)
    )
    return (bounds[0], bounds[1])


def checked_gravity(gravity: ArrayLike) -> Numbers:
    """Return three finite floats, or raise a ModelError."""
    g = vector3(gravity, "gravity")
    if not np.isfinite(g).all():
        raise ModelError(
            f"gravity {plain(g)} has a number that is not finite; use (0, 0, 0) for none."
        )
    return plain(g)
