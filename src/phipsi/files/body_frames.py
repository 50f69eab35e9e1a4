"""Where the body frame must be so that a joint turns about its own anchor.

Here a body frame coincides with its inboard joint frame at q = 0, but SDF and MJCF put a joint
anywhere in its child. The body frame then keeps the axes of the link and moves to the anchor; the
link's own frame stays as the frame "<link>_frame".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.core.model import Frame, Pose
from phipsi.files.files import unused

_ON_AXIS = 1e-14


def hinge_shift(anchor: ArrayLike, axis: ArrayLike) -> NDArray[np.float64]:
    """From the link's origin to the body's, in link axes; zero if the axis passes the origin."""
    a, u = np.asarray(anchor, dtype=np.float64), np.asarray(axis, dtype=np.float64)
    off = np.cross(a, u)
    if np.abs(off).max() <= _ON_AXIS * max(np.abs(u).max(), 1e-300) * max(1.0, np.abs(a).max()):
        return np.zeros(3)
    return a


def link_frames(shifts: Mapping[str, NDArray[np.float64]], taken: set[str]) -> Iterator[Frame]:
    """The frames of links whose bodies are elsewhere; their names are new among those `taken`."""
    for link, shift in shifts.items():
        if shift.any():
            taken.add(name := unused(f"{link}_frame", taken))
            yield Frame(name, link, in_body(shift))


def in_body(shift: ArrayLike) -> Pose:
    """Pose of the link frame in the body frame."""
    return Pose(translation=-np.asarray(shift, dtype=np.float64))
