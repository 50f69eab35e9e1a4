"""The constant arrays in which M(η) is a polynomial: from points with mass, matrices or files.

Formulas: docs/theory/flexible-bodies.md, section 2. Files: docs/flexible-reference.md.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.core.spatial import skew
from phipsi.errors import FileError, ParseError, shown
from phipsi.support import MissingPath, atomic_write, named_as, path_of, read_archive

FloatArray = NDArray[np.float64]
Invariants = dict[str, Any]  # the arguments of FlexibleInertia that are integrals over the mass

_FORMAT = "phipsi flexible body 1"
_NUMBERS = (
    "mass", "first_moment", "rotational_inertia", "S1", "S2", "J1", "J2", "C0", "C1",
    "modal_mass", "stiffness", "damping",
)  # fmt: skip
_PORTS = (
    "port_rotation", "port_position", "port_rotation_modes", "port_translation_modes",
    "port_second_order",
)  # fmt: skip
_SHAPE = ("shape_nodes", "shape_modes", "shape_triangles", "shape_segments")


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


# ---- files ---------------------------------------------------------------------------------------


def write_arrays(path: str | os.PathLike[str], arguments: dict[str, Any]) -> None:
    """Write the arguments of FlexibleInertia as one .npz archive of plain arrays, without pickles.

    Ports and shape are dictionaries; docs/flexible-reference.md describes the arrays.
    """
    path = named_as(path, "an archive of arrays", (".npz",))
    arrays = {name: arguments[name] for name in _NUMBERS}
    ports, shape = arguments["ports"], arguments["shape"] or {}
    arrays["port_names"] = np.array([port["name"] for port in ports], dtype=np.str_)
    for name in _PORTS if ports else ():
        arrays[name] = np.stack([port[name.removeprefix("port_")] for port in ports])
    arrays |= {f"shape_{k}": v for k, v in shape.items()}
    with atomic_write(path) as part, part.open("wb") as file:
        np.savez_compressed(file, format=np.array(_FORMAT), **arrays)


def read_arrays(path: str | os.PathLike[str], max_bytes: int) -> dict[str, Any]:
    """Inverse of `write_arrays`; at most `max_bytes` of arrays."""
    name = os.fspath(path_of(path))
    advice = f"If you trust it:  pp.FlexibleInertia.load({name!r}, max_bytes=…)"
    try:
        arrays = read_archive(
            path, "an .npz archive of plain arrays", max_bytes=max_bytes, advice=advice
        )
    except MissingPath as error:
        raise FileError(name, 1, "", "there is no such file.") from error
    except OSError as error:
        raise FileError(name, 1, "", f"cannot be read: {error.strerror or error}.") from error
    except ParseError as error:
        reason = f"this is not an .npz archive of plain arrays that can be read: {error}"
        raise FileError(name, 1, "", reason) from error
    found = shown(arrays.pop("format", "no format"), 80)
    if found != _FORMAT:
        reason = f"{found!r} is not {_FORMAT!r}, as FlexibleInertia.save writes it."
        raise FileError(name, 1, "format", reason)
    expected = {*_NUMBERS, *_PORTS, *_SHAPE, "port_names"}
    wrong = sorted({*arrays} - expected) or sorted({*_NUMBERS} - {*arrays})
    if wrong:
        verb = "is not a part of a flexible body" if {*arrays} - expected else "is missing"
        raise FileError(name, 1, shown(wrong[0], 80), f"this array {verb}.")
    for part, x in arrays.items():
        if x.dtype.kind not in ("U" if part == "port_names" else "fiu"):
            raise FileError(name, 1, part, f"this array has the type {x.dtype}, not numbers.")
    names = arrays.pop("port_names", np.zeros(0, dtype=np.str_))
    missing = [x for x in _SHAPE[:2] if x not in arrays] if {*_SHAPE} & {*arrays} else []
    if missing:
        raise FileError(name, 1, missing[0], "this array is missing.")
    parts = {x.removeprefix("port_"): arrays.pop(x) for x in _PORTS if x in arrays}
    shape = {x.removeprefix("shape_"): arrays.pop(x) for x in _SHAPE if x in arrays}
    if names.ndim != 1 or any(np.shape(values)[:1] != names.shape for values in parts.values()):
        raise FileError(name, 1, "port_names", "ports and their names differ in number.")
    ports = [{"name": str(x), **{k: v[i] for k, v in parts.items()}} for i, x in enumerate(names)]
    return {**arrays, "ports": ports, "shape": shape or None}
