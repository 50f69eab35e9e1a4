"""Where the body frame must be so that a joint turns about its own anchor.

Here a body frame coincides with its inboard joint frame at q = 0, but SDF and MJCF put a joint
anywhere in its child. The body frame then keeps the axes of the link and moves to the anchor; the
link's own frame stays as the frame "<link>_frame".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.core.model import Frame, Pose
from phipsi.errors import counted
from phipsi.files.files import unused

if TYPE_CHECKING:
    from phipsi.files.parsed_robot import ParsedRobot

_ON_AXIS = 1e-14


def hinge_shift(anchor: ArrayLike, axis: ArrayLike) -> NDArray[np.float64]:
    """From the link's origin to the body's, in link axes; zero if the axis passes the origin."""
    a, u = np.asarray(anchor, dtype=np.float64), np.asarray(axis, dtype=np.float64)
    off = np.cross(a, u)
    if np.abs(off).max() <= _ON_AXIS * max(np.abs(u).max(), 1e-300) * max(1.0, np.abs(a).max()):
        return np.zeros(3)
    return a


def add_link_frames(
    robot: ParsedRobot, shifts: Mapping[str, NDArray[np.float64]], taken: set[str]
) -> None:
    """Add the frames of links whose bodies are elsewhere, and note which; `taken`, names in use."""
    moved = dict[str, str]()
    for link, shift in shifts.items():
        if shift.any():
            taken.add(name := unused(f"{link}_frame", taken))
            robot.frames.append(Frame(name, link, in_body(shift)))
            moved[link] = name
    if not moved:
        return
    link, name = next(reversed(moved.items()))
    listed = ", ".join(repr(x) for x in moved)
    robot.note(
        "frame",
        "body frames",
        link,
        "a body frame of the model is at the body's joint. In the file, the origins of "
        f"{counted(len(moved), 'body')} are elsewhere: {listed}. Poses, Jacobians and signals of "
        f"{link!r} are those of the joint; the origin of the file is the frame {name!r}.",
        robot.links[link].at,
    )


def in_body(shift: ArrayLike) -> Pose:
    """Pose of the link frame in the body frame."""
    return Pose(translation=-np.asarray(shift, dtype=np.float64))
