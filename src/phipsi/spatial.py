"""Arithmetic of spatial vectors, rotations and poses on plain arrays.

Conventions, stated once for the whole library: a motion is ``[ω; v]`` and a force is ``[N; F]``,
angular part first; components are in body axes, about the body's origin; quaternions are
``(w, x, y, z)``; a pose ``(R, p)`` maps body components to the outer frame, ``x_out = R x + p``.
All functions batch on leading axes. Those without a branch on values (`skew`, `crm`, `crf`,
`phi`, `quat_multiply`, `quat_to_matrix`, …) also take complex and object arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]

# Taylor coefficients in θ²: (θ − sin θ)/θ³, and (1 − (θ/2) cot(θ/2))/θ². Used for θ < 1/2, where
# the closed forms divide a cancelled difference by a small number.
_SINE_GAP = (1 / 6, -1 / 120, 1 / 5040, -1 / 362880, 1 / 39916800, -1 / 6227020800)
_COT_GAP = (1 / 12, 1 / 720, 1 / 30240, 1 / 1209600, 1 / 47900160, 691 / 1307674368000)
_SERIES_BELOW = 0.5


def _numbers(values: ArrayLike) -> Array:
    """Return an array that is at least float64; complex and object arrays stay as they are.

    So do the exact arrays of `proofs`, which are ndarrays with their own arithmetic.
    """
    array: Array = np.asanyarray(values) if hasattr(values, "is_exact") else np.asarray(values)
    return array.astype(np.float64) if array.dtype.kind in "biuf" else array


def _polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    total = np.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total


def _norm(vectors: Array) -> Array:
    """Length over the last axis, safe against overflow and underflow of the squares."""
    scale = np.max(np.abs(vectors), axis=-1)
    safe = np.where(scale > 0, scale, 1.0)
    return scale * np.sqrt(np.sum((vectors / safe[..., None]) ** 2, axis=-1))


def _sinc(x: Array) -> Array:
    """Return sin(x)/x, 1 at x = 0."""
    safe = np.where(x == 0, 1.0, x)
    return np.where(x == 0, 1.0, np.sin(safe) / safe)


# ------------------------------------------------------------------ spatial vectors


def skew(vectors: ArrayLike) -> Array:
    """Cross-product matrix x~ of (..., 3) vectors: ``skew(a) @ b = a × b``, shape (..., 3, 3)."""
    a = _numbers(vectors)
    out = np.zeros_like(a, shape=(*a.shape[:-1], 3, 3))
    out[..., 0, 1], out[..., 0, 2] = -a[..., 2], a[..., 1]
    out[..., 1, 0], out[..., 1, 2] = a[..., 2], -a[..., 0]
    out[..., 2, 0], out[..., 2, 1] = -a[..., 1], a[..., 0]
    return out


def crm(motions: ArrayLike) -> Array:
    """Cross product on motions, [[ω~, 0], [v~, ω~]], for V = [ω; v] of shape (..., 6)."""
    V = _numbers(motions)
    out = np.zeros_like(V, shape=(*V.shape[:-1], 6, 6))
    out[..., :3, :3] = out[..., 3:, 3:] = skew(V[..., :3])
    out[..., 3:, :3] = skew(V[..., 3:])
    return out


def crf(motions: ArrayLike) -> Array:
    """Cross product on forces, −crm(V)* = [[ω~, v~], [0, ω~]], shape (..., 6, 6)."""
    return -np.swapaxes(crm(motions), -1, -2)


def crq(forces: ArrayLike) -> Array:
    """The papers' Q[f] = [[n~, F~], [F~, 0]] of f = [n; F] (..., 6): Q[f] V = crm(V)* f, skew."""
    f = _numbers(forces)
    out = np.zeros_like(f, shape=(*f.shape[:-1], 6, 6))
    out[..., :3, :3] = skew(f[..., :3])
    out[..., :3, 3:] = out[..., 3:, :3] = skew(f[..., 3:])
    return out


def inertia_regressor(motions: ArrayLike) -> Array:
    """The matrices Y(z) (..., 6, 10) with M z = Y(z) π of motions z = [ω; v] (..., 6).

    π = [m, m c (3), Jxx, Jyy, Jzz, Jxy, Jxz, Jyz], and M z = [J ω + m c × v; m v − m c × ω].
    """
    z = _numbers(motions)
    x, y, w = (z[..., i] for i in range(3))
    out = np.zeros((*z.shape[:-1], 6, 10), dtype=z.dtype)
    out[..., 3:, 0] = z[..., 3:]
    out[..., :3, 1:4] = -skew(z[..., 3:])
    out[..., 3:, 1:4] = skew(z[..., :3])
    for column, entries in enumerate(
        [(x, 0, 0), (0, y, 0), (0, 0, w), (y, x, 0), (w, 0, x), (0, w, y)]
    ):
        for row, entry in enumerate(entries):
            out[..., row, 4 + column] = entry
    return out


def inertia_of(parameters: ArrayLike) -> Array:
    """The matrices M(π) (..., 6, 6) of inertial parameters (..., 10), [[J, h~], [−h~, m]]."""
    pi = _numbers(parameters)
    m, h = pi[..., 0], skew(pi[..., 1:4])
    out = np.zeros((*pi.shape[:-1], 6, 6), dtype=pi.dtype)
    for i, (a, b) in enumerate(_MOMENTS):
        out[..., a, b] = out[..., b, a] = pi[..., 4 + i]
    out[..., :3, 3:], out[..., 3:, :3] = h, -h
    for a in range(3, 6):
        out[..., a, a] = m
    return out


def inertia_trace(matrices: ArrayLike) -> Array:
    """The weights w (..., 10) with w · π = tr(M(π) X) for all π, of X (..., 6, 6)."""
    X = _numbers(matrices)
    mass = X[..., 3, 3] + X[..., 4, 4] + X[..., 5, 5]
    moments = [X[..., a, b] + (X[..., b, a] if a != b else 0) for a, b in _MOMENTS]
    first = _axial(X[..., 3:, :3] - X[..., :3, 3:])
    return np.stack([mass, *(first[..., i] for i in range(3)), *moments], axis=-1)


_MOMENTS = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))


def vee(matrices: ArrayLike) -> Array:
    """The forces f (..., 6) with f · V = tr(crm(V) X) for all motions V, of X (..., 6, 6)."""
    X = _numbers(matrices)
    angular = _axial(X[..., :3, :3]) + _axial(X[..., 3:, 3:])
    return np.concatenate([angular, _axial(X[..., :3, 3:])], axis=-1)


def vee_force(matrices: ArrayLike) -> Array:
    """The motions w (..., 6) with w · f = tr(crq(f) X) for all forces f, of X (..., 6, 6)."""
    X = _numbers(matrices)
    linear = _axial(X[..., :3, 3:] + X[..., 3:, :3])
    return np.concatenate([_axial(X[..., :3, :3]), linear], axis=-1)


def _axial(A: Array) -> Array:
    """x with x · a = tr(a~ A) for all a."""
    parts = [A[..., 1, 2] - A[..., 2, 1], A[..., 2, 0] - A[..., 0, 2]]
    return np.stack([*parts, A[..., 0, 1] - A[..., 1, 0]], axis=-1)


def phi(rotation: ArrayLike, translation: ArrayLike) -> Array:
    """Rigid force transform [[R, l~ R], [0, R]], from body k to its parent p.

    **Arguments:** `rotation` (..., 3, 3) is R = R_p* R_k; `translation` (..., 3) is l(p, k) in the
    axes of p. **Returns:** (..., 6, 6); its transpose carries motions from p to k.
    """
    R, l_pk = _numbers(rotation), _numbers(translation)
    lever = skew(l_pk) @ R
    out = np.zeros_like(lever, shape=(*lever.shape[:-2], 6, 6))
    out[..., :3, :3] = out[..., 3:, 3:] = R
    out[..., :3, 3:] = lever
    return out


# ------------------------------------------------------------------ quaternions (w, x, y, z)


def quat_multiply(left: ArrayLike, right: ArrayLike) -> Array:
    """Hamilton product of quaternions (..., 4): R(a ⊗ b) = R(a) R(b)."""
    a, b = _numbers(left), _numbers(right)
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
    q = _numbers(quaternion)
    return np.concatenate([q[..., :1], -q[..., 1:]], axis=-1)


def quat_normalize(quaternion: ArrayLike) -> Array:
    """Unit quaternion in the direction of a nonzero (..., 4)."""
    q = _numbers(quaternion)
    return q / _norm(q)[..., None]


def quat_scaled(quaternion: ArrayLike) -> Array:
    """Quaternions (..., 4) times a power of two, so that products of them keep their digits.

    The largest component is between ½ and 1, and nothing is rounded. Complex and object arrays stay
    as they are.
    """
    q = _numbers(quaternion)
    if q.dtype != np.float64:
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
    R = _numbers(rotation)
    xx, yy, zz = R[..., 0, 0], R[..., 1, 1], R[..., 2, 2]
    sums = R + np.swapaxes(R, -1, -2)
    wx, wy, wz = (
        R[..., 2, 1] - R[..., 1, 2],
        R[..., 0, 2] - R[..., 2, 0],
        R[..., 1, 0] - R[..., 0, 1],
    )
    xy, xz, yz = sums[..., 0, 1], sums[..., 0, 2], sums[..., 1, 2]
    # Row k of 4 q q* for each choice of the pivot component k.
    rows = np.stack(
        [
            np.stack([1 + xx + yy + zz, wx, wy, wz], axis=-1),
            np.stack([wx, 1 + xx - yy - zz, xy, xz], axis=-1),
            np.stack([wy, xy, 1 - xx + yy - zz, yz], axis=-1),
            np.stack([wz, xz, yz, 1 - xx - yy + zz], axis=-1),
        ],
        axis=-2,
    )
    pivot = np.argmax(np.diagonal(rows, axis1=-2, axis2=-1), axis=-1)
    q = np.take_along_axis(rows, pivot[..., None, None], axis=-2)[..., 0, :]
    q = quat_normalize(q)
    return np.where(q[..., :1] < 0, -q, q)


def quat_exp(rotation_vector: ArrayLike) -> Array:
    """Unit quaternion (..., 4) of the rotation vector w (..., 3): angle |w| about w."""
    w = _numbers(rotation_vector)
    half = _norm(w) / 2
    return np.concatenate([np.cos(half)[..., None], 0.5 * _sinc(half)[..., None] * w], axis=-1)


def quat_log(quaternion: ArrayLike) -> Array:
    """Rotation vector (..., 3) of shortest length, |w| ≤ π, of a quaternion of any length."""
    q = _numbers(quaternion)
    q = np.where(q[..., :1] < 0, -q, q)
    sine, cosine = _norm(q[..., 1:]), q[..., 0]
    tiny = sine < 1e-150
    safe = np.where(tiny, 1.0, sine)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where(tiny, 2 / cosine, 2 * np.arctan2(sine, cosine) / safe)
    return factor[..., None] * q[..., 1:]


# ------------------------------------------------------------------ SO(3), SE(3), SE(2)


def so3_exp(rotation_vector: ArrayLike) -> Array:
    """Rotation matrix (..., 3, 3) by the angle |w| about w (..., 3)."""
    w = _numbers(rotation_vector)
    angle = _norm(w)
    W = skew(w)
    a, b = _sinc(angle), 0.5 * _sinc(angle / 2) ** 2
    return np.eye(3) + a[..., None, None] * W + b[..., None, None] * (W @ W)


def so3_log(rotation: ArrayLike) -> Array:
    """Rotation vector (..., 3) with |w| ≤ π of rotation matrices (..., 3, 3)."""
    return quat_log(matrix_to_quat(rotation))


def left_jacobian(rotation_vector: ArrayLike) -> Array:
    """∫₀¹ exp(s w~) ds, shape (..., 3, 3): the translation of exp([w; v]) is this times v."""
    w = _numbers(rotation_vector)
    angle = _norm(w)
    small = angle < _SERIES_BELOW
    safe = np.where(small, 1.0, angle)
    series = _polynomial(_SINE_GAP, angle**2)
    b = np.where(small, series, (safe - np.sin(safe)) / safe**3)
    a = 0.5 * _sinc(angle / 2) ** 2
    W = skew(w)
    return np.eye(3) + a[..., None, None] * W + b[..., None, None] * (W @ W)


def left_jacobian_inverse(rotation_vector: ArrayLike) -> Array:
    """Inverse of `left_jacobian` for |w| < 2π, shape (..., 3, 3)."""
    w = _numbers(rotation_vector)
    angle = _norm(w)
    small = angle < _SERIES_BELOW
    half = np.where(small, 1.0, angle) / 2
    series = _polynomial(_COT_GAP, angle**2)
    b = np.where(small, series, (1 - half * np.cos(half) / np.sin(half)) / (2 * half) ** 2)
    W = skew(w)
    return np.eye(3) - 0.5 * W + b[..., None, None] * (W @ W)


def se3_exp(twist: ArrayLike) -> tuple[Array, Array]:
    """Pose (R, p) reached in unit time by the constant body motion [ω; v] (..., 6)."""
    xi = _numbers(twist)
    w, v = xi[..., :3], xi[..., 3:]
    return so3_exp(w), np.einsum("...ij,...j->...i", left_jacobian(w), v)


def se3_log(rotation: ArrayLike, translation: ArrayLike) -> Array:
    """Constant body motion [ω; v] (..., 6) that reaches the pose (R, p) in unit time, |ω| ≤ π."""
    w = so3_log(rotation)
    v = np.einsum("...ij,...j->...i", left_jacobian_inverse(w), _numbers(translation))
    return np.concatenate([w, v], axis=-1)


def se2_exp(twist: ArrayLike) -> tuple[Array, Array]:
    """Angle (...) and translation (..., 2) of the planar motion [ω, v1, v2] (..., 3)."""
    xi = _numbers(twist)
    angle, x, y = xi[..., 0], xi[..., 1], xi[..., 2]
    s, c = _sinc(angle), 0.5 * angle * _sinc(angle / 2) ** 2
    return angle, np.stack([s * x - c * y, c * x + s * y], axis=-1)


def se2_log(angle: ArrayLike, translation: ArrayLike) -> Array:
    """Planar motion [ω, v1, v2] (..., 3), the inverse of `se2_exp` for |angle| < 2π."""
    theta, p = _numbers(angle), _numbers(translation)
    half = theta / 2
    a = np.cos(half) / _sinc(half)
    v1 = a * p[..., 0] + half * p[..., 1]
    v2 = a * p[..., 1] - half * p[..., 0]
    return np.stack(np.broadcast_arrays(theta, v1, v2), axis=-1)


# ------------------------------------------------------------------ poses as (R, p)


def pose_compose(R_AB: Array, p_AB: Array, R_BC: Array, p_BC: Array) -> tuple[Array, Array]:
    """X_AC = X_AB X_BC as (rotation, translation), batched."""
    return R_AB @ R_BC, p_AB + np.einsum("...ij,...j->...i", R_AB, p_BC)


def pose_inverse(R_AB: Array, p_AB: Array) -> tuple[Array, Array]:
    """X_BA from X_AB as (rotation, translation), batched."""
    R_BA = np.swapaxes(R_AB, -1, -2)
    return R_BA, -np.einsum("...ij,...j->...i", R_BA, p_AB)


def pose_matrix(rotation: ArrayLike, translation: ArrayLike) -> Array:
    """Homogeneous matrix (..., 4, 4) of a pose."""
    R, p = _numbers(rotation), _numbers(translation)
    batch = np.broadcast_shapes(R.shape[:-2], p.shape[:-1])
    out = np.zeros((*batch, 4, 4), dtype=np.result_type(R, p))
    out[..., :3, :3], out[..., :3, 3], out[..., 3, 3] = R, p, 1
    return out
