"""Roll, pitch and yaw, and the plane perpendicular to an axis."""

from __future__ import annotations

from math import atan2, cos, hypot, sin

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]


def rotation_of_rpy(roll: float, pitch: float, yaw: float) -> FloatArray | None:
    """R = Rz(yaw) Ry(pitch) Rx(roll), rotations about fixed axes in rad; None for the identity."""
    if roll == pitch == yaw == 0:
        return None
    cr, sr, cp, sp, cy, sy = cos(roll), sin(roll), cos(pitch), sin(pitch), cos(yaw), sin(yaw)
    return np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )


def rpy_of_rotation(R: ArrayLike) -> tuple[float, float, float]:
    """Inverse of `rotation_of_rpy`, |pitch| ≤ π/2; accurate also where roll and yaw merge."""
    m = np.asarray(R, dtype=np.float64).tolist()
    yaw = atan2(m[1][0], m[0][0])
    pitch = atan2(-m[2][0], hypot(m[0][0], m[1][0]))
    cy, sy = cos(yaw), sin(yaw)  # take the yaw off and read the roll from what remains
    roll = atan2(sy * m[0][2] - cy * m[1][2], cy * m[1][1] - sy * m[0][1])
    return roll, pitch, yaw


def plane_axes(normal: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Two unit vectors e1, e2 with e1 × e2 = normal: x and y turned the short way from z to it.

    For the normal z they are x and y; for −z they are x and −y.
    """
    n = np.asarray(normal, dtype=np.float64)
    n = n / np.linalg.norm(n)
    across = n[0] ** 2 + n[1] ** 2
    if across == 0 and n[2] < 0:
        return np.array([1.0, 0.0, 0.0]), np.array([0.0, -1.0, 0.0])
    w = np.array([-n[1], n[0], 0.0])  # z × n
    skew = np.array([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]])
    one_plus_cos = 1 + n[2] if n[2] > 0 else across / (1 - n[2])
    R = np.eye(3) + skew + skew @ skew / one_plus_cos
    return R[:, 0], R[:, 1]
