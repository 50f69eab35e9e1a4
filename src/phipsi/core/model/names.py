"""Names: look-up of bodies, joints, frames and points, with errors that suggest the name meant."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast, final

import numpy as np
from numpy.typing import ArrayLike

from phipsi.core.model.argument_checks import is_list
from phipsi.core.model.pose import Pose
from phipsi.core.model.tree import WORLD, WORLD_NAME
from phipsi.core.model.value import vector3
from phipsi.errors import ModelError, did_you_mean

Point = str | tuple[str, ArrayLike]
_IDENTITY = Pose()


@final
class Names:
    """The names of one model; bodies and frames share a set, joints have their own."""

    __slots__ = ("_bodies", "_joints", "_frames", "_flexible")

    def __init__(
        self,
        body_names: tuple[str, ...],
        joint_names: tuple[str, ...],
        frames: Mapping[str, tuple[int, Pose]],
        flexible: Mapping[str, Collection[str]],
    ) -> None:
        self._bodies = {name: i for i, name in enumerate(body_names)}
        self._joints = {name: i for i, name in enumerate(joint_names)}
        self._frames, self._flexible = frames, flexible  # bodies with modes, and their ports

    def body_index(self, name: str) -> int:
        """Number of a moving body in storage order."""
        index = self._bodies.get(name) if isinstance(cast(object, name), str) else None
        if index is not None:
            return index
        _check_text(name, "body")
        if name in self._frames:
            host, _ = self._frames[name]
            on = "the world" if host == WORLD else f"body {list(self._bodies)[host]!r}"
            raise ModelError(
                f"{name!r} is not a moving body but a frame fixed in {on} (a body on a fixed "
                f"joint becomes one). Its pose there is model.frames[{name!r}]; as a point, its "
                f"name can be used as it is."
            )
        if name == WORLD_NAME:
            raise ModelError("'world' is the inertial frame, not a body of the model.")
        raise ModelError(f"the model has no body {name!r}. " + did_you_mean(name, self._bodies))

    def joint_index(self, name: str) -> int:
        """Number of a joint, equal to the number of the body outboard of it."""
        index = self._joints.get(name) if isinstance(cast(object, name), str) else None
        if index is not None:
            return index
        _check_text(name, "joint")
        if name in self._frames:
            raise ModelError(
                f"there is no joint {name!r} to move: {name!r} is welded, so it has no "
                f"coordinates. " + did_you_mean(name, self._joints)
            )
        if name in self._bodies:
            joint = list(self._joints)[self._bodies[name]]
            raise ModelError(f"{name!r} is a body; its joint is named {joint!r}.")
        raise ModelError(f"the model has no joint {name!r}. " + did_you_mean(name, self._joints))

    def resolve_point(self, point: Point) -> tuple[int, Pose]:
        """Body index (−1: world) and pose in it of the frame whose origin is the point."""
        name, offset = (point, (0.0, 0.0, 0.0)) if isinstance(point, str) else _pair(point)
        if name in self._bodies:
            host, pose = self._bodies[name], _IDENTITY
        elif name in self._frames:
            host, pose = self._frames[name]
        elif name == WORLD_NAME:
            host, pose = WORLD, _IDENTITY
        else:
            for body, ports in self._flexible.items():
                if name in ports:
                    raise ModelError(
                        f"a point is given on {name!r}, a port of the flexible body {body!r}. A "
                        f"port needs a frame to be a point:  builder.add_frame({name!r}, {body!r}, "
                        f"port={name!r})"
                    )
            raise ModelError(
                f"a point is given on {name!r}, which is not a body or frame of the model. "
                + did_you_mean(name, [*self._bodies, *self._frames, WORLD_NAME])
            )
        arm = vector3(offset, f"the offset of a point on {name!r}")
        if not np.isfinite(arm).all():
            raise ModelError(f"the offset {arm.tolist()} of a point on {name!r} is not finite.")
        if arm.any() and name in self._flexible:
            raise ModelError(
                f"a point is given at {arm.tolist()} from the origin of {name!r}, a flexible body "
                f"whose points move with its modes, each in its own way. Give a port a frame and "
                f"take that:  builder.add_frame('sensor', {name!r}, port=…)"
            )
        return host, pose @ Pose(translation=arm) if arm.any() else pose


def _pair(point: Any) -> tuple[str, ArrayLike]:
    if is_list(point) and len(point) == 2 and isinstance(point[0], str):
        return point[0], point[1]
    raise ModelError(
        f"a point is a name or a pair (name, offset), not {point!r}. For example:\n"
        f'    ("hand", (0, 0, 0.1))'
    )


def _check_text(name: Any, what: str) -> None:
    if not isinstance(name, str):
        raise ModelError(f"a {what} is named by a string, not by {name!r}.")
