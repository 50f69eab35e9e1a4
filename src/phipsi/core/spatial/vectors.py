"""Spatial vectors on arrays: cross products, the rigid force transform, inertias as linear maps."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]


def numbers(values: ArrayLike) -> Array:
    """Return an array that is at least float64; complex and object arrays stay as they are.

    So do the exact arrays of `proofs`, which are ndarrays with their own arithmetic, and traced
    values of laws, which take NumPy's functions.
    """
    if hasattr(values, "is_traced"):
        return values  # type: ignore[return-value]
    array: Array = np.asanyarray(values) if hasattr(values, "is_exact") else np.asarray(values)
    return array.astype(np.float64) if array.dtype.kind in "biuf" else array


def skew(vectors: ArrayLike) -> Array:
    """Cross-product matrix x~ of (..., 3) vectors: ``skew(a) @ b = a × b``, shape (..., 3, 3)."""
    a = numbers(vectors)
    less = -a
    out = np.zeros_like(a, shape=(*a.shape[:-1], 3, 3))
    out[..., 0, 1], out[..., 0, 2] = less[..., 2], a[..., 1]
    out[..., 1, 0], out[..., 1, 2] = a[..., 2], less[..., 0]
    out[..., 2, 0], out[..., 2, 1] = less[..., 1], a[..., 0]
    return out


def crm(motions: ArrayLike) -> Array:
    """Cross product on motions, [[ω~, 0], [v~, ω~]], for V = [ω; v] of shape (..., 6)."""
    V = numbers(motions)
    out = np.zeros_like(V, shape=(*V.shape[:-1], 6, 6))
    out[..., :3, :3] = out[..., 3:, 3:] = skew(V[..., :3])
    out[..., 3:, :3] = skew(V[..., 3:])
    return out


def crf(motions: ArrayLike) -> Array:
    """Cross product on forces, −crm(V)* = [[ω~, v~], [0, ω~]], shape (..., 6, 6)."""
    return -np.swapaxes(crm(motions), -1, -2)


def crq(forces: ArrayLike) -> Array:
    """The papers' Q[f] = [[n~, F~], [F~, 0]] of f = [n; F] (..., 6): Q[f] V = crm(V)* f, skew."""
    f = numbers(forces)
    out = np.zeros_like(f, shape=(*f.shape[:-1], 6, 6))
    out[..., :3, :3] = skew(f[..., :3])
    out[..., :3, 3:] = out[..., 3:, :3] = skew(f[..., 3:])
    return out


def inertia_of(parameters: ArrayLike) -> Array:
    """The matrices M(π) (..., 6, 6) of inertial parameters (..., 10), [[J, h~], [−h~, m]]."""
    pi = numbers(parameters)
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
    X = numbers(matrices)
    mass = X[..., 3, 3] + X[..., 4, 4] + X[..., 5, 5]
    moments = [X[..., a, b] + (X[..., b, a] if a != b else 0) for a, b in _MOMENTS]
    first = _axial(X[..., 3:, :3] - X[..., :3, 3:])
    return np.stack([mass, *(first[..., i] for i in range(3)), *moments], axis=-1)


_MOMENTS = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))


def vee(matrices: ArrayLike) -> Array:
    """The forces f (..., 6) with f · V = tr(crm(V) X) for all motions V, of X (..., 6, 6)."""
    X = numbers(matrices)
    angular = _axial(X[..., :3, :3]) + _axial(X[..., 3:, 3:])
    return np.concatenate([angular, _axial(X[..., :3, 3:])], axis=-1)


def vee_force(matrices: ArrayLike) -> Array:
    """The motions w (..., 6) with w · f = tr(crq(f) X) for all forces f, of X (..., 6, 6)."""
    X = numbers(matrices)
    linear = _axial(X[..., :3, 3:] + X[..., 3:, :3])
    return np.concatenate([_axial(X[..., :3, :3]), linear], axis=-1)


def _axial(A: Array) -> Array:
    """x with x · a = tr(a~ A) for all a."""
    parts = [A[..., 1, 2] - A[..., 2, 1], A[..., 2, 0] - A[..., 0, 2]]
    return np.stack([*parts, A[..., 0, 1] - A[..., 1, 0]], axis=-1)


def phi(rotation: ArrayLike, translation: ArrayLike) -> Array:
    """Rigid force transform [[R, l~ R], [0, R]], from body k to its parent p.

    Parameters
    ----------
    rotation : array_like, shape (..., 3, 3)
        R = R_p* R_k.
    translation : array_like, shape (..., 3)
        l(p, k), in the axes of p.

    Returns
    -------
    ndarray, shape (..., 6, 6)
        Its transpose carries motions from p to k.
    """
    R, l_pk = numbers(rotation), numbers(translation)
    lever = skew(l_pk) @ R
    out = np.zeros_like(lever, shape=(*lever.shape[:-2], 6, 6))
    out[..., :3, :3] = out[..., 3:, 3:] = R
    out[..., :3, 3:] = lever
    return out
