"""How H and B change along directions, as full matrices.

Every leaf here is linear in its directions, so an operator of a direction is made column by column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.backends.dense_closures import rows_rate
from phipsi.backends.dense_leaves import (
    Configuration,
    cross,
    cross_force,
    inertia_of,
    picks,
    picks_rate,
)
from phipsi.expressions.kinds import Op
from phipsi.model.dual import hinge_axes_along
from phipsi.spatial import crm, skew
from phipsi.spatial import phi as rigid

Array = NDArray[Any]


def hinge_variation(c: Configuration, *directions: Array) -> Array:
    """Ḣ{u; …}."""
    joints, slices = c.model.joints, c.model.v_slices

    def columns(k: int) -> Any:
        rates = [c.scalars(u[slices[k], 0]) for u in directions]
        return hinge_axes_along(joints[k], joints[k].params, c.joint_q(k), rates, c.ops)

    return c.hinges(columns)


def _units(c: Configuration, size: int) -> list[Array]:
    return [column[:, None] for column in c.eye(size)]


def dHT(c: Configuration, x: Array, *directions: Array, hole: int | None = None) -> Array:
    """u ↦ Ḣ{directions; u}* x, column by column; u may stand elsewhere."""
    at = len(directions) if hole is None else hole
    before, after = directions[:at], directions[at:]
    out = [hinge_variation(c, *before, u, *after).T @ x for u in _units(c, c.model.nv)]
    return np.hstack([c.zeros(6 * c.model.n_bodies, 0), *out])


def dH(c: Configuration, f: Array, *directions: Array, hole: int | None = None) -> Array:
    """u ↦ Ḣ{directions; u} f, column by column; u may stand elsewhere."""
    at = len(directions) if hole is None else hole
    before, after = directions[:at], directions[at:]
    out = [hinge_variation(c, *before, u, *after) @ f for u in _units(c, c.model.nv)]
    return np.hstack([c.zeros(c.model.nv, 0), *out])


def point_variation(c: Configuration, *motions: Array) -> Array:
    """Ḃ{V; …}: every motion turns what B turns into body axes, and moves the world's origin."""
    if len(motions) == 1:
        return picks_rate(c, motions[0])
    out = c.zeros(6 * c.model.n_bodies, 6 * len(c.points))
    for i, k in enumerate(c.points.body):
        if k < 0 or c.points.axes == "body":
            continue
        R = c.world_rotation[k].T
        spatial = c.points.axes == "spatial"
        block = rigid(R, -R @ c.position[k]) if spatial else rigid(R, c.zeros(3))
        for V in reversed(motions):
            local = V[6 * k : 6 * k + 6, 0]
            turn = -np.kron(np.eye(2), skew(local[:3]))
            block = (crm(local).T if spatial else turn) @ block
        if not spatial:
            block = rigid(c.eye(3), c.points.offset[i]) @ block
        out[6 * k : 6 * k + 6, 6 * i : 6 * i + 6] = block
    return out


def dBT(c: Configuration, x: Array, *motions: Array, hole: int | None = None) -> Array:
    """V ↦ Ḃ{motions; V}* x, column by column; V may stand elsewhere."""
    at = len(motions) if hole is None else hole
    before, after = motions[:at], motions[at:]
    units = _units(c, 6 * c.model.n_bodies)
    out = [point_variation(c, *before, V, *after).T @ x for V in units]
    return np.hstack([c.zeros(6 * len(c.points), 0), *out])


def dB(c: Configuration, f: Array, *motions: Array, hole: int | None = None) -> Array:
    """V ↦ Ḃ{motions; V} f, column by column; V may stand elsewhere."""
    at = len(motions) if hole is None else hole
    before, after = motions[:at], motions[at:]
    units = _units(c, 6 * c.model.n_bodies)
    out = [point_variation(c, *before, V, *after) @ f for V in units]
    return np.hstack([c.zeros(6 * c.model.n_bodies, 0), *out])


def row_variation(c: Configuration, *motions: Array) -> Array:
    """Ȧ{V; …} on the frames of closures."""
    return rows_rate(c, *(picks(c).T @ motion for motion in motions))


def dA(c: Configuration, x: Array, *motions: Array, hole: int | None = None) -> Array:
    """V ↦ Ȧ{motions; V} x, column by column; V may stand elsewhere."""
    out = [rate @ x for rate in _rates_along_units(c, motions, hole)]
    closures = c.points.closures
    return np.hstack([c.zeros(0 if closures is None else closures.n_rows, 0), *out])


def dAT(c: Configuration, f: Array, *motions: Array, hole: int | None = None) -> Array:
    """V ↦ Ȧ{motions; V}* f, column by column; V may stand elsewhere."""
    out = [rate.T @ f for rate in _rates_along_units(c, motions, hole)]
    return np.hstack([c.zeros(6 * len(c.points), 0), *out])


def _rates_along_units(
    c: Configuration, motions: tuple[Array, ...], hole: int | None
) -> Iterator[Array]:
    """Ȧ{motions; V} for every unit V, which stands last or where the hole is."""
    at = len(motions) if hole is None else hole
    for V in _units(c, 6 * c.model.n_bodies):
        yield row_variation(c, *motions[:at], V, *motions[at:])


def vee(c: Configuration, x: Array) -> Array:
    """f with f* s = tr(cross(s) X), by the unit motions s."""
    units = c.eye(6 * c.model.n_bodies)
    return c.array([[np.trace(cross(c, s[:, None]) @ x)] for s in units]).reshape(-1, 1)


def vee_force(c: Configuration, x: Array) -> Array:
    """w with w* f = tr(cross_force(f) X), by the unit forces f."""
    units = c.eye(6 * c.model.n_bodies)
    return c.array([[np.trace(cross_force(c, f[:, None]) @ x)] for f in units]).reshape(-1, 1)


def inertia_trace(c: Configuration, x: Array) -> Array:
    """w with w* π = tr(M(π) X), by the unit parameters π."""
    units = c.eye(10 * c.model.n_bodies)
    return c.array([[np.trace(inertia_of(c, pi[:, None]) @ x)] for pi in units]).reshape(-1, 1)


def dH_trace(c: Configuration, x: Array, *directions: Array, hole: int | None = None) -> Array:
    """e with e* u = tr(Ḣ{directions; u} X), by the unit rates u, which may stand elsewhere."""
    at = len(directions) if hole is None else hole
    before, after = directions[:at], directions[at:]
    out = [[np.trace(hinge_variation(c, *before, u, *after) @ x)] for u in _units(c, c.model.nv)]
    return c.array(out).reshape(-1, 1)


def half(c: Configuration, x: Array) -> Array:
    """The lower triangle with half the diagonal; hinge blocks are all there is."""
    return np.tril(x) - np.diag(np.diag(x)) / 2


TRACES: dict[Op, Callable[..., Array]] = {
    Op.VEE: vee,
    Op.VEE_FORCE: vee_force,
    Op.INERTIA_TRACE: inertia_trace,
    Op.DH_TRACE: dH_trace,
    Op.HALF: half,
}

VARIATIONS: dict[str, Callable[..., Array]] = {
    "Hdot": hinge_variation,
    "Bdot": point_variation,
    "dHT": dHT,
    "dH": dH,
    "dBT": dBT,
    "dB": dB,
    "Adot": row_variation,
    "dA": dA,
    "dAT": dAT,
}
