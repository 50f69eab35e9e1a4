"""Pose: where one frame is in another; and rotations by roll, pitch and yaw."""

from __future__ import annotations

from math import atan2, cos, hypot, sin
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.core.model.argument_checks import as_floats
from phipsi.core.model.value import PlainValue, plain, read_only, vector3
from phipsi.core.spatial import matrix_to_quat, pose_matrix, quat_to_matrix, so3_exp
from phipsi.errors import ModelError, is_a
from phipsi.package_state import display

_TOLERANCE = 1e-8  # how far from a rotation the user's numbers may be
_EXACT = 1e-14  # below this they are kept bit for bit; above, projected onto the rotations


@final
class Pose(PlainValue):
    """Pose X_AB of a frame B in a frame A: `x_A = rotation @ x_B + translation`.

    Poses compose with letters cancelling: `X_AC = X_AB @ X_BC`.

    Parameters
    ----------
    rotation : array_like, shape (3, 3) or (4,), optional
        The matrix R_AB or the unit quaternion (w, x, y, z). It may deviate from orthonormality by
        1e-8 (numbers from a file) and is then projected; anything worse is a `ModelError`. Default:
        the identity.
    translation : array_like, shape (3,), optional
        Origin of B in A's axes, in m. Default: zero.

    Examples
    --------
    >>> import phipsi as pp
    >>> X_AB = pp.Pose(translation=(1, 0, 0))
    >>> X_BC = pp.Pose.from_axis_angle((0, 0, 1), 0.5)
    >>> (X_AB @ X_BC).apply((0, 0, 2)).tolist()
    [1.0, 0.0, 2.0]
    """

    __slots__ = ("rotation", "translation")
    rotation: NDArray[np.float64]
    translation: NDArray[np.float64]

    def __init__(self, rotation: ArrayLike | None = None, translation: ArrayLike = (0, 0, 0)):
        p = vector3(translation, "Pose translation")
        if not np.isfinite(p).all():
            raise ModelError(f"Pose translation {plain(p)} has a number that is not finite.")
        R = _IDENTITY if rotation is None else _rotation(rotation)
        self._set(rotation=R, translation=p)

    @classmethod
    def from_rpy(cls, rpy: ArrayLike, translation: ArrayLike = (0, 0, 0)) -> Pose:
        """The pose with roll, pitch and yaw about the fixed axes x, y, z of A, in rad.

        R = R_z(yaw) R_y(pitch) R_x(roll), URDF's and SDF's convention.

        Parameters
        ----------
        rpy : array_like, shape (3,)
            Roll, pitch and yaw, rad.
        translation : array_like, shape (3,), optional
            Origin of B in A's axes, in m. Default: zero.

        Returns
        -------
        Pose
            The pose.

        Examples
        --------
        >>> import numpy as np, phipsi as pp
        >>> pp.Pose.from_rpy((0, 0, np.pi / 2), (1, 0, 0)).apply([1, 0, 0]).round(12)
        array([1., 1., 0.])
        """
        angles = vector3(rpy, "Pose.from_rpy: (roll, pitch, yaw)")
        if not np.isfinite(angles).all():
            raise ModelError(f"Pose.from_rpy: {plain(angles)} has an angle that is not finite.")
        return cls(rotation_of_rpy(*angles.tolist()), translation)

    @classmethod
    def from_axis_angle(
        cls, axis: ArrayLike, angle: float, translation: ArrayLike = (0, 0, 0)
    ) -> Pose:
        """The pose turned by an angle (rad) about an axis, which need not have unit length.

        >>> import numpy as np, phipsi as pp
        >>> pp.Pose.from_axis_angle((0, 0, 2), np.pi / 2).apply([1, 0, 0]).round(12)
        array([0., 1., 0.])
        """
        along, turn = vector3(axis, "Pose.from_axis_angle: axis"), _angle(angle)
        length = float(np.linalg.norm(along))
        if not (np.isfinite(length) and np.isfinite(turn)) or length == 0:
            raise ModelError(
                f"Pose.from_axis_angle: axis {plain(along)} and angle {turn!r} rad are not "
                f"a rotation; the axis must be finite and not zero, the angle finite."
            )
        return cls(so3_exp(along / length * turn), translation)

    @classmethod
    def from_matrix(cls, matrix: ArrayLike) -> Pose:
        """The pose of a homogeneous matrix [[R, p], [0, 1]] (4, 4), such as `poses` gives.

        >>> import phipsi as pp
        >>> arm = pp.examples.planar_arm(2)
        >>> pp.Pose.from_matrix(pp.poses(arm, [0, 0], ["tip"])[0])
        Pose(translation=(2.0, 0.0, 0.0))
        """
        given = np.asarray(matrix)
        if given.shape != (4, 4) or given.dtype.kind not in "biuf":
            raise ModelError(
                f"Pose.from_matrix needs one homogeneous matrix (4, 4) of real numbers, not shape "
                f"{given.shape} of {given.dtype}."
            )
        if not (np.abs(given[3] - [0, 0, 0, 1]) <= _TOLERANCE).all():
            raise ModelError(
                f"Pose.from_matrix: the last row is {plain(given[3])}, and that of a pose is "
                f"(0, 0, 0, 1)."
            )
        return cls(given[:3, :3], given[:3, 3])

    @property
    def rpy(self) -> NDArray[np.float64]:
        """Roll, pitch and yaw (3,) in rad, |pitch| ≤ π/2: the inverse of `from_rpy`."""
        return np.array(rpy_of_rotation(self.rotation))

    @property
    def matrix(self) -> NDArray[np.float64]:
        """Homogeneous matrix [[R, p], [0, 1]], shape (4, 4)."""
        return pose_matrix(self.rotation, self.translation)

    @property
    def quaternion(self) -> NDArray[np.float64]:
        """Unit quaternion (w, x, y, z) of the rotation, w ≥ 0, shape (4,)."""
        return matrix_to_quat(self.rotation)

    @property
    def inv(self) -> Pose:
        """X_BA, the pose of A in B."""
        R_BA = self.rotation.T
        return Pose(R_BA, -R_BA @ self.translation)

    @property
    def is_identity(self) -> bool:
        """Whether this is exactly the identity."""
        return bool((self.rotation == _IDENTITY).all() and (self.translation == 0).all())

    def apply(self, points: ArrayLike) -> NDArray[np.float64]:
        """Components in A of points given in B, shape (..., 3)."""
        given = as_floats("Pose.apply: points", points)
        if given.shape[-1:] != (3,):
            raise ModelError(f"Pose.apply: points have shape {given.shape}, not (..., 3).")
        return given @ self.rotation.T + self.translation

    def __matmul__(self, other: Pose) -> Pose:
        if not is_a(other, Pose):
            return NotImplemented
        if other.is_identity:
            return self
        if self.is_identity:
            return other
        return Pose(self.rotation @ other.rotation, self.apply(other.translation))

    def _key(self) -> tuple[Any, ...]:
        return (plain(self.rotation), plain(self.translation))

    _repr_html_ = display

    def __repr__(self) -> str:
        parts: list[str] = []
        if not (self.rotation == _IDENTITY).all():
            parts.append(f"rotation={plain(self.rotation)}")
        if self.translation.any():
            parts.append(f"translation={plain(self.translation)}")
        return f"Pose({', '.join(parts)})"


_IDENTITY = read_only(np.eye(3))


def _angle(given: Any) -> float:
    array = as_floats("Pose.from_axis_angle: angle", given)
    if array.ndim:
        raise ModelError(f"Pose.from_axis_angle: angle must be one number of rad, not {given!r}.")
    return float(array)


def _rotation(values: ArrayLike) -> NDArray[np.float64]:
    try:
        given = read_only(values)
    except (TypeError, ValueError) as error:
        raise ModelError(
            f"Pose rotation must be a 3×3 matrix or a quaternion (w, x, y, z), not {values!r}."
        ) from error
    if given.shape not in ((3, 3), (4,)):
        raise ModelError(
            f"Pose rotation has shape {given.shape}; it must be a 3×3 matrix or a quaternion "
            f"(w, x, y, z). From roll, pitch and yaw:  pp.Pose.from_rpy((roll, pitch, yaw))"
        )
    if not np.isfinite(given).all():
        raise ModelError(f"Pose rotation {plain(given)} has a number that is not finite.")
    if given.shape == (4,):
        length = float(np.linalg.norm(given))
        if abs(length - 1) > _TOLERANCE:
            raise ModelError(
                f"Pose rotation: quaternion {plain(given)} has length {length:.9g}, and only a "
                f"unit quaternion is a rotation. Normalise it:\n    quaternion / "
                f"np.linalg.norm(quaternion)"
            )
        return read_only(quat_to_matrix(given))
    return _projected(given)


def _projected(R: NDArray[np.float64]) -> NDArray[np.float64]:
    gap = R.T @ R - _IDENTITY
    error = float(np.abs(gap).max())
    (a, b, c), (d, e, f), (g, h, i) = R.tolist()
    determinant = a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)
    if error > _TOLERANCE or determinant < 0:
        raise ModelError(
            f"Pose rotation {plain(R)} is not a rotation: |R* R − I| = {error:.3g} "
            f"(at most {_TOLERANCE:g}), det R = {determinant:.9g} (must be +1).\n"
            f"A determinant of −1 is a mirror image; a scaled matrix must be normalised first."
        )
    nearest = R
    while error > _EXACT:  # Newton's iteration to the nearest rotation; one or two rounds
        nearest = 0.5 * (nearest @ (3 * _IDENTITY - nearest.T @ nearest))
        error = float(np.abs(nearest.T @ nearest - _IDENTITY).max())
    return nearest if not nearest.flags.writeable else read_only(nearest)


# ---- rotations -----------------------------------------------------------------------------------


def rotation_of_rpy(roll: float, pitch: float, yaw: float) -> NDArray[np.float64] | None:
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


def plane_axes(normal: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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
