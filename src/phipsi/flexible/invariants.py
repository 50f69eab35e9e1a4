"""The constant arrays in which M(η) is a polynomial, from points with mass or from matrices.

Formulas: docs/theory/flexible-bodies.md, section 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.spatial import skew

FloatArray = NDArray[np.float64]
Invariants = dict[str, Any]  # the arguments of FlexibleInertia that are integrals over the mass


def invariants_of_points(
    masses: FloatArray,
    points: FloatArray,
    modes: FloatArray,
    second: FloatArray | None = None,
    inertias: FloatArray | None = None,
    turns: FloatArray | None = None,
) -> Invariants:
    """Sums over points: `masses` (k,) at `points` (k, 3), moved by `modes` (k, 3, n).

    `second` (k, 3, n, n) are the second-order displacements ψ; `inertias` (k, 3, 3) of points that
    turn by `turns` (k, 3, n) per mode. Integrals over beams are such sums at Gauss points.
    """
    weighted = masses[:, None, None] * modes
    a = np.einsum("kx,kyi->xyi", points, weighted)  # Σ m r φ_i*
    G = np.einsum("kxi,kyj->xyij", modes, weighted)  # Σ m φ_i φ_j*
    r = points.T @ (masses[:, None] * points)
    found: Invariants = {
        "mass": masses.sum(),
        "first_moment": masses @ points,
        "rotational_inertia": _moment(r),
        "S1": weighted.sum(axis=0),
        "J1": 2 * _moment(a),
        "J2": 2 * _moment(G),
        "C0": _axial(a),
        "C1": _axial(np.swapaxes(G, 2, 3)),
        "modal_mass": np.einsum("xxij->ij", G),
    }
    if second is not None:
        b = np.einsum("kx,kyij->xyij", points * masses[:, None], second)
        found["S2"] = np.einsum("k,kxij->xij", masses, second)
        found["J2"] = found["J2"] + 2 * _moment(b)
        found["C1"] = found["C1"] + _axial(b)
    if inertias is not None:
        found["rotational_inertia"] = found["rotational_inertia"] + inertias.sum(axis=0)
        if turns is not None:
            spin = np.einsum("kxy,kyi->kxi", inertias, turns)
            found["C0"] = found["C0"] + spin.sum(axis=0)
            found["modal_mass"] = found["modal_mass"] + np.einsum("kxi,kxj->ij", turns, spin)
    return found


def invariants_of_matrix(mass_matrix: Any, points: FloatArray, modes: FloatArray) -> Invariants:
    """M(η) = B* M_FE B for nodes at `points` (k, 3) with 3 or 6 degrees of freedom each.

    `mass_matrix` (k·d, k·d), sparse or dense; `modes` (k, d, n) with d = 3 (displacements) or 6
    (displacements, then rotations). B = [rotation about the origin, translation, modes] at the
    displaced nodes; only three products with `mass_matrix` are needed.
    """
    k, d, n = modes.shape
    rigid, moved = np.zeros((k, d, 6)), np.zeros((k, d, 3, n))
    rigid[:, :3, :3], rigid[:, :3, 3:] = -skew(points), np.eye(3)
    if d == 6:
        rigid[:, 3:, :3] = np.eye(3)
    moved[:, :3] = -np.moveaxis(skew(np.moveaxis(modes[:, :3], 2, 1)), 1, 3)
    B, U, shapes = rigid.reshape(k * d, 6), moved.reshape(k * d, 3 * n), modes.reshape(k * d, n)
    MB, MU, MS = mass_matrix @ B, mass_matrix @ U, mass_matrix @ shapes
    whole, across = B.T @ MB, (U.T @ MB).reshape(3, n, 6)
    J1, J2 = across[:, :, :3].transpose(0, 2, 1), (U.T @ MU).reshape(3, n, 3, n)
    J2 = J2.transpose(0, 2, 1, 3)
    first = whole[:3, 3:]
    return {
        "mass": np.trace(whole[3:, 3:]) / 3,
        "first_moment": np.array([first[2, 1] - first[1, 2], first[0, 2] - first[2, 0],
                                  first[1, 0] - first[0, 1]]) / 2,
        "rotational_inertia": whole[:3, :3],
        "S1": B[:, 3:].T @ MS,
        "J1": J1 + J1.swapaxes(0, 1),
        "J2": J2 + J2.swapaxes(0, 1),
        "C0": B[:, :3].T @ MS,
        "C1": (U.T @ MS).reshape(3, n, n).swapaxes(1, 2),
        "modal_mass": shapes.T @ MS,
    }  # fmt: skip


def _moment(second: FloatArray) -> FloatArray:
    """tr(A) I − ½ (A + A*) over the first two axes: the moment of Σ m r r*."""
    eye = np.eye(3).reshape(3, 3, *[1] * (second.ndim - 2))
    return np.einsum("xx...->...", second) * eye - (second + second.swapaxes(0, 1)) / 2


def _axial(second: FloatArray) -> FloatArray:
    """Σ a × b from Σ a b* over the first two axes."""
    A = second
    return np.stack([A[1, 2] - A[2, 1], A[2, 0] - A[0, 2], A[0, 1] - A[1, 0]])
