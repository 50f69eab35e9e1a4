"""Uniform straight beams: Craig–Bampton modes of bending, stretch and torsion.

Bending is computed with Hermite elements (with shear: the elements of Friedman and Kosmatka, exact
in statics), stretch and torsion with x/L and sin(kπx/L), which are the static mode and the
fixed-interface modes of a uniform rod. Integrals over the mass are sums at Gauss points, exact for
the polynomials of the elements. Formulas: docs/theory/flexible-bodies.md, sections 3 and 7.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.errors import ModelError, is_whole, real_of, true_or_false
from phipsi.flexible.invariants import invariants_of_points

FloatArray = NDArray[np.float64]
Pair = tuple[float, float]

_MOST_MODES = 50  # of one kind; arrays of 0.5 GB on the way
_GAUSS = np.polynomial.legendre.leggauss(4)
_INNER = np.polynomial.legendre.leggauss(3)  # exact for products of slopes


@dataclass(frozen=True)
class Beam:
    """The numbers of a beam, checked: SI units, pairs for the two bending planes."""

    length: float
    mass_per_length: float
    EI: Pair
    EA: float
    GJ: float
    shear_stiffness: Pair
    rotary_inertia: Pair
    frame: FloatArray  # columns: axis, direction of deflection in plane 1, in plane 2
    modes: int
    stretch_modes: int
    twist_modes: int


@dataclass(frozen=True)
class _Shapes:
    """Amplitudes along the beam, at places x: arrays (len(x), number of modes).

    `moves` and `slopes` of the line of centroids in planes 1 and 2, `tilts` of the sections there;
    `stretch` and `twist`.
    """

    moves: tuple[FloatArray, FloatArray]
    slopes: tuple[FloatArray, FloatArray]
    tilts: tuple[FloatArray, FloatArray]
    stretch: FloatArray
    twist: FloatArray


def beam(
    length: float,
    mass_per_length: float,
    EI: Any,
    EA: float,
    GJ: float,
    *,
    axis: ArrayLike,
    bending_axis: ArrayLike | None,
    modes: int,
    stretch_modes: int,
    twist_modes: int,
    max_frequency: float,
    damping_ratio: float,
    stiffening: bool,
    shear_stiffness: Any,
    rotary_inertia: Any,
    ports: Mapping[str, float] | None,
) -> dict[str, Any]:
    """Return the arguments of FlexibleInertia."""
    data = _checked(length, mass_per_length, EI, EA, GJ, axis, bending_axis, modes, stretch_modes,
                    twist_modes, shear_stiffness, rotary_inertia)  # fmt: skip
    zeta = _number("damping_ratio", damping_ratio, at_least=0.0)
    stiffening = true_or_false("FlexibleInertia.beam: stiffening", stiffening, error=ModelError)
    limit = _number("max_frequency", max_frequency, at_least=0.0)
    places = _port_places(ports or {}, data.length)
    elements = max(20, 6 * data.modes)
    kept = _modes_below(limit, data, elements)
    frequencies = np.array([w for w, _, _ in kept])
    nodes = np.linspace(0.0, data.length, elements + 1)
    x = (nodes[:-1, None] + data.length / elements * (_GAUSS[0] + 1) / 2).ravel()
    weights = np.tile(_GAUSS[1] / 2, elements) * data.length / elements
    at = _shapes(data, kept, elements, x)
    section = data.frame @ np.diag([sum(data.rotary_inertia), *data.rotary_inertia[::-1]])
    spins = weights[:, None, None] * (section @ data.frame.T)
    second = _second_order(data, kept, elements, x) if stiffening else None
    return {
        **invariants_of_points(
            weights * data.mass_per_length,
            x[:, None] * data.frame[:, 0],
            _displacements(data, at),
            second,
            spins if any(data.rotary_inertia) else None,
            _rotations(data, at),
        ),
        "stiffness": np.diag(frequencies**2),
        "damping": np.diag(2 * zeta * frequencies),
        "ports": _ports(data, kept, elements, places, stiffening),
        "shape": {
            "nodes": nodes[:, None] * data.frame[:, 0],
            "modes": _displacements(data, _shapes(data, kept, elements, nodes)),
            "segments": np.stack([np.arange(elements), np.arange(1, elements + 1)], axis=1),
        },
    }


def _modes_below(limit: float, data: Beam, elements: int) -> list[tuple[float, int, FloatArray]]:
    """Frequency (rad/s), kind and amplitudes of all modes up to a frequency, in its order."""
    families = [
        *(_bending(data, plane, elements) for plane in (0, 1)),
        _rod(data, "stretch", data.EA, data.mass_per_length, data.stretch_modes),
        _rod(data, "twist", data.GJ, sum(data.rotary_inertia), data.twist_modes),
    ]
    found = [(w, kind, mode) for kind, family in enumerate(families) for w, mode in family]
    kept = sorted((x for x in found if x[0] <= limit), key=lambda x: x[0])
    if not kept:
        raise ModelError(
            f"FlexibleInertia.beam: no mode is left. The lowest of {len(found)} modes has "
            f"{min(x[0] for x in found):.4g} rad/s, and max_frequency is {limit:.4g} rad/s."
            if found
            else "FlexibleInertia.beam: EI, EA and GJ are all infinite, so nothing can deform. Use "
            "SpatialInertia for a rigid beam."
        )
    return kept


def _ports(
    data: Beam,
    kept: list[tuple[float, int, FloatArray]],
    elements: int,
    places: Mapping[str, float],
    stiffening: bool,
) -> list[dict[str, Any]]:
    """What modes do at places along the beam, m, by name."""
    at = np.array(list(places.values()))
    bent, shortening = _shapes(data, kept, elements, at), _second_order(data, kept, elements, at)
    moves, turns = _displacements(data, bent), _rotations(data, bent)
    return [
        {
            "name": name,
            "position": place * data.frame[:, 0],
            "rotation_modes": turns[k],
            "translation_modes": moves[k],
            "second_order": shortening[k] * stiffening,
        }
        for k, (name, place) in enumerate(places.items())
    ]


# ---- modes of one kind: frequency and amplitudes, orthonormal in the mass ---------------------

Family = list[tuple[float, FloatArray]]


def _bending(data: Beam, plane: int, elements: int) -> Family:
    """Deflections and rotations (2 · nodes) of static tip modes and fixed-interface modes."""
    if math.isinf(data.EI[plane]):
        return []
    K, M = _bending_matrices(data, plane, elements)
    free = slice(2, None)  # the root is clamped
    K, M = K[free, free], M[free, free]
    inner, tip = slice(0, -2), slice(-2, None)
    static = np.zeros((len(K), 2))
    static[inner] = -np.linalg.solve(K[inner, inner], K[inner, tip])
    static[tip] = np.eye(2)
    normal = np.zeros((len(K), data.modes))
    if data.modes:
        normal[inner] = _eigen(K[inner, inner], M[inner, inner])[1][:, : data.modes]
    basis = np.hstack([static, normal])
    squares, mixed = _eigen(basis.T @ K @ basis, basis.T @ M @ basis)
    whole = np.vstack([np.zeros((2, len(squares))), basis @ mixed])
    return [(math.sqrt(w), whole[:, i]) for i, w in enumerate(squares)]


def _rod(data: Beam, kind: str, stiffness: float, inertia: float, count: int) -> Family:
    """Amplitudes of x/L and sin(kπx/L), k = 1 … count, of stretch or torsion."""
    if math.isinf(stiffness):
        return []
    if inertia == 0:
        raise ModelError(
            f"FlexibleInertia.beam: {kind} has stiffness but no inertia, so its modes would move "
            "no mass. Give rotary_inertia, in kg·m (density times second moment of area of the "
            "section), or remove GJ=."
        )
    k = np.arange(1, count + 1) * math.pi
    L = data.length
    M, K = np.diag(np.full(count + 1, L / 2)), np.diag(np.r_[2.0, k**2]) / (2 * L)
    M[0, 0], M[0, 1:] = L / 3, L * (-1) ** np.arange(count) / k
    M[1:, 0] = M[0, 1:]
    squares, mixed = _eigen(K * stiffness, M * inertia)
    return [(math.sqrt(w), mixed[:, i]) for i, w in enumerate(squares)]


def _eigen(K: FloatArray, M: FloatArray) -> tuple[FloatArray, FloatArray]:
    """K x = ω² M x, ascending; columns orthonormal in M, the largest entry of each positive."""
    root = np.linalg.cholesky(M)
    half = np.linalg.solve(root, K)
    squares, vectors = np.linalg.eigh(np.linalg.solve(root, half.T))
    shapes = np.linalg.solve(root.T, vectors)
    largest = np.abs(shapes).argmax(axis=0)
    signs = np.sign(shapes[largest, np.arange(shapes.shape[1])])
    return squares, np.asarray(shapes * signs, dtype=np.float64)


def _bending_matrices(data: Beam, plane: int, elements: int) -> tuple[FloatArray, FloatArray]:
    h, EI = data.length / elements, data.EI[plane]
    soft = _softness(data, plane, h)
    a, b = (4 + soft) * h * h, (2 - soft) * h * h
    k = EI / ((1 + soft) * h**3) * np.array(
        [[12, 6 * h, -12, 6 * h], [6 * h, a, -6 * h, b],
         [-12, -6 * h, 12, -6 * h], [6 * h, b, -6 * h, a]])  # fmt: skip
    N, _, G = _element_shapes(np.asarray((_GAUSS[0] + 1) / 2), h, soft)
    w = _GAUSS[1] * h / 2
    m = np.einsum("g,gi,gj->ij", w * data.mass_per_length, N, N)
    m += np.einsum("g,gi,gj->ij", w * data.rotary_inertia[plane], G, G)
    K, M = np.zeros((2, 2 * elements + 2, 2 * elements + 2))
    for e in range(elements):
        here = slice(2 * e, 2 * e + 4)
        K[here, here] += k
        M[here, here] += m
    return K, M


def _softness(data: Beam, plane: int, h: float) -> float:
    """Φ = 12 EI / (kGA h²), 0 without shear."""
    return 12 * data.EI[plane] / (data.shear_stiffness[plane] * h * h)


def _element_shapes(
    s: FloatArray, h: float, soft: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Deflection, slope and section rotation (len(s), 4) at s in [0, 1] of an element.

    Of unit deflection and rotation at the left and right node (Friedman and Kosmatka, Computers &
    Structures 47(3), 1993); Hermite's polynomials without shear.
    """
    p = soft
    one, zero = np.ones_like(s), np.zeros_like(s)
    powers = np.stack([one, s, s**2, s**3], axis=-1)
    rates = np.stack([zero, one, 2 * s, 3 * s**2], axis=-1)
    N = np.array([[1 + p, -p, -3, 2], [0, h * (1 + p / 2), -h * (2 + p / 2), h],
                  [0, p, 3, -2], [0, -h * p / 2, -h * (1 - p / 2), h]])  # fmt: skip
    G = np.array([[0, -6 / h, 6 / h, 0], [1 + p, -(4 + p), 3, 0],
                  [0, 6 / h, -6 / h, 0], [0, -(2 - p), 3, 0]])  # fmt: skip
    return powers @ N.T / (1 + p), rates @ N.T / (h * (1 + p)), powers @ G.T / (1 + p)


# ---- the kept modes along the beam ------------------------------------------------------------

Kept = list[tuple[float, int, FloatArray]]  # frequency, kind (0, 1: bending; stretch; twist), mode


def _shapes(data: Beam, kept: Kept, elements: int, x: FloatArray) -> _Shapes:
    h, n = data.length / elements, len(kept)
    e = np.clip((x / h).astype(int), 0, elements - 1)
    columns = 2 * e[:, None] + np.arange(4)
    bent = np.zeros((3, 2, len(x), n))
    straight = np.zeros((2, len(x), n))
    for i, (_, kind, mode) in enumerate(kept):
        if kind < 2:
            parts = _element_shapes(x / h - e, h, _softness(data, kind, h))
            for part, values in enumerate(parts):
                bent[part, kind, :, i] = np.einsum("kj,kj->k", values, mode[columns])
        else:
            waves = np.sin(np.outer(x, np.arange(1, len(mode))) * math.pi / data.length)
            straight[kind - 2, :, i] = np.column_stack([x / data.length, waves]) @ mode
    moves, slopes, tilts = ((bent[part, 0], bent[part, 1]) for part in range(3))
    return _Shapes(moves, slopes, tilts, straight[0], straight[1])


def _displacements(data: Beam, at: _Shapes) -> FloatArray:
    """φ (len(x), 3, n) in body axes."""
    return np.einsum("ac,cxi->xai", data.frame, np.stack([at.stretch, *at.moves]))


def _rotations(data: Beam, at: _Shapes) -> FloatArray:
    """Θ (len(x), 3, n): twist, and axis × tilt of the sections."""
    parts = np.stack([at.twist, -at.tilts[1], at.tilts[0]])
    return np.einsum("ac,cxi->xai", data.frame, parts)


def _second_order(data: Beam, kept: Kept, elements: int, x: FloatArray) -> FloatArray:
    """ψ (len(x), 3, n, n) = −axis ∫_0^x (v_i' v_j' + w_i' w_j') dξ."""
    h = data.length / elements
    e = np.clip((x / h).astype(int), 0, elements - 1)
    starts = np.asarray(h * np.arange(elements), dtype=np.float64)
    whole = _slope_products(data, kept, elements, starts, np.full(elements, h))
    before = np.concatenate([np.zeros((1, *whole.shape[1:])), np.cumsum(whole, axis=0)])
    inside = _slope_products(data, kept, elements, h * e, x - h * e)
    return np.einsum("a,xij->xaij", -data.frame[:, 0], before[e] + inside)


def _slope_products(
    data: Beam, kept: Kept, elements: int, start: FloatArray, width: FloatArray
) -> FloatArray:
    """∫ (v_i' v_j' + w_i' w_j') over pieces inside one element each."""
    t, w = (_INNER[0] + 1) / 2, _INNER[1] / 2
    at = _shapes(data, kept, elements, (start[:, None] + width[:, None] * t).ravel())
    n = len(kept)
    slopes = np.stack(at.slopes).reshape(2, len(start), len(t), n)
    return np.einsum("x,t,pxti,pxtj->xij", width, w, slopes, slopes)


# ---- arguments --------------------------------------------------------------------------------


def _checked(
    length: Any, mass_per_length: Any, EI: Any, EA: Any, GJ: Any, axis: ArrayLike,
    bending_axis: ArrayLike | None, modes: Any, stretch_modes: Any, twist_modes: Any,
    shear_stiffness: Any, rotary_inertia: Any,
) -> Beam:  # fmt: skip
    counts = {"modes": modes, "stretch_modes": stretch_modes, "twist_modes": twist_modes}
    for name, count in counts.items():
        if not is_whole(count) or count < 0:
            raise ModelError(
                f"FlexibleInertia.beam: {name} must be an integer ≥ 0, the number of "
                f"fixed-interface modes besides the static ones, not {count!r}."
            )
        if count > _MOST_MODES:
            raise ModelError(
                f"FlexibleInertia.beam: {name}={count} is more than {_MOST_MODES}, and their cost "
                f"grows with the third power. Divide the beam into pieces that are welded "
                f"together, of which few modes each give as much:\n"
                f"    piece = pp.FlexibleInertia.beam(length / 10, mass_per_length, EI, modes=2)"
            )
    return Beam(
        _number("length", length, infinite=False),
        _number("mass_per_length", mass_per_length, infinite=False),
        _pair("EI", EI),
        _number("EA", EA),
        _number("GJ", GJ),
        _pair("shear_stiffness", shear_stiffness),
        _pair("rotary_inertia", rotary_inertia, at_least=0.0),
        _frame(axis, bending_axis),
        int(modes),
        int(stretch_modes),
        int(twist_modes),
    )


def _number(
    name: str, value: Any, *, at_least: float | None = None, infinite: bool = True
) -> float:
    try:
        number = real_of(value)
    except (TypeError, ValueError) as error:
        raise ModelError(
            f"FlexibleInertia.beam: {name} must be a number, not {value!r}."
        ) from error
    low = number < at_least if at_least is not None else not number > 0
    if math.isnan(number) or low or (math.isinf(number) and not infinite):
        bound = "positive" if at_least is None else f"at least {at_least:g}"
        raise ModelError(
            f"FlexibleInertia.beam: {name} must be {bound}{'' if infinite else ' and finite'}, not "
            f"{number:g}."
        )
    return number


def _pair(name: str, value: Any, at_least: float | None = None) -> Pair:
    if np.ndim(value) == 0:
        both: Sequence[Any] = (value, value)
    else:
        both = list(value)
    if len(both) != 2:
        raise ModelError(
            f"FlexibleInertia.beam: {name} must be one number or a pair, one for each bending "
            f"plane, not {value!r}."
        )
    infinite = at_least is None
    first, second = (_number(name, x, at_least=at_least, infinite=infinite) for x in both)
    return first, second


def _frame(axis: ArrayLike, bending_axis: ArrayLike | None) -> FloatArray:
    """Orthonormal columns: axis, bending_axis, axis × bending_axis."""
    a = _direction("axis", axis)
    if bending_axis is None:
        b = np.roll(np.eye(3)[np.abs(a).argmax()], 1)  # x → y, y → z, z → x
    else:
        b = _direction("bending_axis", bending_axis)
    b = b - (a @ b) * a
    if np.linalg.norm(b) < 1e-6:
        raise ModelError(
            f"FlexibleInertia.beam: bending_axis is parallel to the axis {a.tolist()}; it is the "
            f"direction in which the beam deflects in its first bending plane."
        )
    b = b / np.linalg.norm(b)
    return np.stack([a, b, np.cross(a, b)], axis=1) + 0.0


def _direction(name: str, value: ArrayLike) -> FloatArray:
    try:
        a = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        a = np.zeros(0)
    if a.shape != (3,) or not np.isfinite(a).all() or not a.any():
        raise ModelError(
            f"FlexibleInertia.beam: {name} must be three finite numbers, not all zero, not "
            f"{value!r}."
        )
    return a / np.linalg.norm(a)


def _port_places(ports: Mapping[str, float], length: float) -> dict[str, float]:
    if not isinstance(cast(object, ports), Mapping):
        raise ModelError(
            f"FlexibleInertia.beam: ports must be places by name, as fractions of the length, not "
            f"{ports!r}:\n    ports={{'middle': 0.5}}"
        )
    places = {}
    for name, fraction in ports.items():
        share = _number(f"the place of port {name!r}", fraction, at_least=0.0)
        if share > 1:
            raise ModelError(
                f"FlexibleInertia.beam: port {name!r} is at {share:g} of the length; give a "
                f"fraction from 0 (root) to 1 (tip)."
            )
        if name == "tip" and share != 1:
            raise ModelError(
                f"FlexibleInertia.beam: port 'tip' is the end of the beam, and cannot be at "
                f"{share:g} of the length. Choose another name."
            )
        places[name] = share * length
    return places if "tip" in places else {**places, "tip": length}
