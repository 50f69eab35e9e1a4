"""Planar mechanisms: the plane in which everything moves, and how the camera looks at it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms import motions
from phipsi.core.model import Model
from phipsi.core.spatial import ARRAYS
from phipsi.pages.shapes_and_colors import given_joint

Array = NDArray[Any]
TURN, TILT = -0.85, 0.30
"""Where the camera of a spatial mechanism is, rad: about the vertical, and above the horizon."""
_PARALLEL = 1e-9  # |sin| of the angle between directions that count as parallel
_FLAT = 0.5  # a mechanism this deep, as part of its width, is looked at from the side


def plane_normal(model: Model, hidden: Collection[int] = ()) -> Array | None:
    """The unit normal of the plane in which all bodies move, in the world; None if there is none.

    All joints turn about it or slide across it. It points to where positive angles are
    counter-clockwise. `hidden` are bodies that are not drawn: clocks.

    >>> import phipsi as pp
    >>> print(plane_normal(pp.examples.planar_arm(2)), plane_normal(pp.examples.free_flyer()))
    [0. 0. 1.] None
    """
    if model.is_flexible:  # modes may bend out of the plane
        return None
    R = motions.poses(model, model.neutral())[:, :3, :3]
    turns: list[Array] = []
    slides: list[Array] = []
    for k, joint in enumerate(map(given_joint, model.joints)):
        if k in hidden or not joint.nv:
            continue
        if joint.nv > 3:
            return None
        q = joint.neutral().tolist()
        H = np.asarray(joint.hinge_axes(joint.params, q, ARRAYS), dtype=float)
        for column in H.reshape(6, joint.nv).T:
            turn, slide = R[k] @ column[:3], R[k] @ column[3:]
            turns += [turn] if np.linalg.norm(turn) > _PARALLEL else []
            slides += [slide] if np.linalg.norm(slide) > _PARALLEL else []
    if not turns:
        return None
    n = turns[0] / np.linalg.norm(turns[0])
    across = [np.linalg.norm(np.cross(n, t)) / np.linalg.norm(t) for t in turns]
    across += [abs(float(n @ s)) / np.linalg.norm(s) for s in slides]
    if max(across) > _PARALLEL:
        return None
    return n * (np.sign(sum(float(n @ t) for t in turns)) or 1.0) + 0.0


def looks_along(normal: Array | None, up: Array, half: Array) -> tuple[float, float] | None:
    """Turn and tilt of a camera that looks along the normal of a plane, rad.

    `up` turns the world upright, and `half` are half the edges of the box to look at. None for a
    mechanism that is deep: a plane view would hide most of it. A level plane is seen from above.
    """
    if normal is None:
        return None
    n = up @ normal
    deep = float(np.abs(n) @ half)
    wide = float(np.linalg.norm(half - np.abs(n) * (np.abs(n) @ half)))
    if deep > _FLAT * wide:
        return None
    if n[2] < -0.3:
        n = -n
    if np.hypot(n[0], n[1]) < 1e-6:
        return -np.pi / 2, np.pi / 2
    return float(np.arctan2(n[1], n[0])), float(np.arcsin(np.clip(n[2], -1.0, 1.0)))
