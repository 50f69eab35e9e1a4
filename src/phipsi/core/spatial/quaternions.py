"""Rotations on arrays: quaternions (w, x, y, z), rotation matrices and their rotation vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from phipsi.core.spatial.exponential_coefficients import cot_gap, sinc, sine_gap, versine
from phipsi.core.spatial.number_kinds import ARRAYS, FLOATS
from phipsi.core.spatial.vectors import Array, numbers, skew


def _norm(vectors: Array) -> Array:
    """Length over the last axis, safe against overflow and underflow of the squares."""
    scale = np.max(np.abs(vectors), axis=-1)
    safe = np.where(scale > 0, scale, 1.0)
    return scale * np.sqrt(np.sum((vectors / safe[..., None]) ** 2, axis=-1))


def quaternion_of(w: Sequence[Any], ops: Any) -> tuple[Any, Any, Any, Any]:
    """Components of exp(w), for any kind of number; see exponential_coefficients.py."""
    s = (w[0] * w[0] + w[1] * w[1] + w[2] * w[2]) / 4
    k = sinc(s, ops) / 2
    return ops.cos(ops.sqrt(s)), k * w[0], k * w[1], k * w[2]


def log_of_quaternion(cosine: Any, axis: Sequence[Any], ops: Any) -> tuple[Any, Any, Any]:
    """The shortest rotation vector of a quaternion (cosine, axis), for any kind of number.

    Needs ``ops.arctan2``, ``ops.less`` and ``ops.where``, and ordinary lengths.
    """
    x, y, z = axis
    square = x * x + y * y + z * z
    tiny = ops.less(square, 1e-300)
    # the root of 0 has no slope: what is not chosen must not have one that is not a number either
    safe, sign = ops.sqrt(ops.where(tiny, 1.0, square)), ops.where(ops.less(cosine, 0.0), -1.0, 1.0)
    far = 2 * ops.arctan2(safe, cosine * sign) / safe
    k = sign * ops.where(tiny, 2 / ops.where(tiny, cosine * sign, 1.0), far)
    return k * x, k * y, k * z


def quaternion_of_matrix(R: Sequence[Sequence[Any]], ops: Any) -> tuple[Any, ...]:
    """A quaternion of some length of a rotation matrix, for any kind of number.

    Of the rows of 4 q q* that with the largest diagonal entry is a quaternion that keeps its
    digits.
    """
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = R
    wx, wy, wz = zy - yz, xz - zx, yx - xy
    sxy, sxz, syz = xy + yx, xz + zx, yz + zy
    best = (1 + xx + yy + zz, wx, wy, wz)
    largest = best[0]
    others = (
        (1 + xx - yy - zz, (wx, 1 + xx - yy - zz, sxy, sxz)),
        (1 - xx + yy - zz, (wy, sxy, 1 - xx + yy - zz, syz)),
        (1 - xx - yy + zz, (wz, sxz, syz, 1 - xx - yy + zz)),
    )
    for pivot, row in others:
        better = ops.less(largest, pivot)
        best = tuple(ops.where(better, x, y) for x, y in zip(row, best, strict=True))
        largest = ops.where(better, pivot, largest)
    return best


def log_of_matrix(R: Sequence[Sequence[Any]], ops: Any) -> tuple[Any, Any, Any]:
    """The shortest rotation vector of a rotation matrix, for any kind of number."""
    cosine, *axis = quaternion_of_matrix(R, ops)
    return log_of_quaternion(cosine, axis, ops)


# ------------------------------------------------------------------ quaternions


def quat_multiply(left: ArrayLike, right: ArrayLike) -> Array:
    """Hamilton product of quaternions (..., 4): R(a ⊗ b) = R(a) R(b)."""
    a, b = numbers(left), numbers(right)
    aw, ax, ay, az = (a[..., k] for k in range(4))
    bw, bx, by, bz = (b[..., k] for k in range(4))
    return np.stack(
        np.broadcast_arrays(
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
            subok=True,
        ),
        axis=-1,
    )


def quat_conjugate(quaternion: ArrayLike) -> Array:
    """Conjugate (w, −x, −y, −z); for unit quaternions the inverse rotation."""
    q = numbers(quaternion)
    return np.concatenate([q[..., :1], -q[..., 1:]], axis=-1)


def quat_normalize(quaternion: ArrayLike) -> Array:
    """Unit quaternion in the direction of a nonzero (..., 4)."""
    q = numbers(quaternion)
    return q / _norm(q)[..., None]


def quat_scaled(quaternion: ArrayLike) -> Array:
    """Quaternions (..., 4) times a power of two, so that products of them keep their digits.

    The largest component is between ½ and 1, and nothing is rounded. Complex and object arrays stay
    as they are, and traced ones.
    """
    q = numbers(quaternion)
    if q.dtype != np.float64 or hasattr(q, "is_traced"):
        return q
    _, power = np.frexp(np.max(np.abs(q), axis=-1, keepdims=True))
    return np.ldexp(q, -power)


def quat_to_matrix(quaternion: ArrayLike) -> Array:
    """Rotation matrix (..., 3, 3) of a quaternion of any nonzero length.

    R = I + 2/(q·q) (w x~ + x~ x~), so scaling the quaternion changes nothing.
    """
    q = quat_scaled(quaternion)
    w, x = q[..., 0, None, None], skew(q[..., 1:])
    scale = 2 / np.sum(q * q, axis=-1, keepdims=True)[..., None]
    return np.eye(3) + scale * (w * x + x @ x)


def matrix_to_quat(rotation: ArrayLike) -> Array:
    """Unit quaternion (..., 4) with w ≥ 0 of rotation matrices (..., 3, 3).

    Divides by the largest of |w|, |x|, |y|, |z|, so every rotation, half turns included, is
    accurate to rounding.
    """
    R = numbers(rotation)
    if type(R) is np.ndarray and R.shape == (3, 3) and R.dtype == np.float64:  # in floats: faster
        q = quat_normalize(quaternion_of_matrix(R.tolist(), FLOATS))
    else:
        rows = [[R[..., i, j] for j in range(3)] for i in range(3)]
        q = quat_normalize(np.stack(quaternion_of_matrix(rows, ARRAYS), axis=-1))
    return np.where(q[..., :1] < 0, -q, q)


def quat_exp(rotation_vector: ArrayLike) -> Array:
    """Unit quaternion (..., 4) of the rotation vector w (..., 3): angle |w| about w."""
    w = numbers(rotation_vector)
    entries = quaternion_of([w[..., i] for i in range(3)], ARRAYS)
    return np.stack(np.broadcast_arrays(*entries), axis=-1)


def quat_log(quaternion: ArrayLike) -> Array:
    """Rotation vector (..., 3) of shortest length, |w| ≤ π, of a quaternion of any length."""
    q = numbers(quaternion)
    q = np.where(q[..., :1] < 0, -q, q)
    sine, cosine = _norm(q[..., 1:]), q[..., 0]
    tiny = sine < 1e-150
    safe = np.where(tiny, 1.0, sine)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where(tiny, 2 / cosine, 2 * np.arctan2(sine, cosine) / safe)
    return factor[..., None] * q[..., 1:]


# ------------------------------------------------------------------ rotation vectors


def so3_exp(rotation_vector: ArrayLike) -> Array:
    """Rotation matrix (..., 3, 3) by the angle |w| about w (..., 3)."""
    return _in_powers(rotation_vector, sinc, versine)


def so3_log(rotation: ArrayLike) -> Array:
    """Rotation vector (..., 3) with |w| ≤ π of rotation matrices (..., 3, 3)."""
    return quat_log(matrix_to_quat(rotation))


def left_jacobian(rotation_vector: ArrayLike) -> Array:
    """∫₀¹ exp(s w~) ds, shape (..., 3, 3): the translation of exp([w; v]) is this times v."""
    return _in_powers(rotation_vector, versine, sine_gap)


def left_jacobian_inverse(rotation_vector: ArrayLike) -> Array:
    """Inverse of `left_jacobian` for |w| < 2π, shape (..., 3, 3)."""
    return _in_powers(rotation_vector, _minus_half, cot_gap)


def _minus_half(s: Array, ops: Any) -> float:
    return -0.5


def _in_powers(
    rotation_vector: ArrayLike, first: Callable[[Any, Any], Any], second: Callable[[Any, Any], Any]
) -> Array:
    """1 + first(θ²) w~ + second(θ²) w~ w~."""
    w = numbers(rotation_vector)
    s = np.sum(w * w, axis=-1)[..., None, None]
    W = skew(w)
    return np.eye(3) + first(s, ARRAYS) * W + second(s, ARRAYS) * (W @ W)


# ------------------------------------------------------------------ poses


def pose_matrix(rotation: ArrayLike, translation: ArrayLike) -> Array:
    """Homogeneous matrix (..., 4, 4) of a pose."""
    R, p = numbers(rotation), numbers(translation)
    batch = np.broadcast_shapes(R.shape[:-2], p.shape[:-1])
    out = np.zeros((*batch, 4, 4), dtype=np.result_type(R, p))
    out[..., :3, :3], out[..., :3, 3], out[..., 3, 3] = R, p, 1
    return out
