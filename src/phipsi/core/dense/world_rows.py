"""A and its rate for the dense reference: rows differentiated by the product rule in world axes.

Every row is a product of unit vectors and positions of the two frames in the world, for example
R₀₂ = x_a · z_b. This shares nothing with the formulas in `model/closure_rows.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.core.dense.configuration import Configuration
from phipsi.core.model import Closure, ClosureSet, Dual, is_zero, rate_of, value_of
from phipsi.core.spatial import ARRAYS
from phipsi.errors import InputError

Array = NDArray[Any]


class WorldFrames:
    """Rotation (p, 3, 3) and position (p, 3) in the world of every closure frame."""

    def __init__(self, turn: Array, at: Array) -> None:
        self.turn, self.at = turn, at


def frames_of(c: Configuration) -> WorldFrames:
    """The closure frames of a configuration."""
    turn, at = c.zeros(len(c.points), 3, 3), c.zeros(len(c.points), 3)
    for p, body in enumerate(c.points.body):
        R = c.eye(3) if body < 0 else c.world_rotation[body]
        origin = c.zeros(3) if body < 0 else c.position[body]
        turn[p] = R @ c.points.rotation[p]
        at[p] = origin + R @ c.points.offset[p]
    return WorldFrames(turn, at)


def rows(closures: ClosureSet, frames: WorldFrames) -> Array:
    """A, rows × 6 points, on motions in the frames' own axes."""
    out = np.zeros_like(frames.at, shape=(closures.n_rows, 6 * len(frames.at)))
    row, point = 0, 0
    for closure in closures.closures:
        count = len(closure.points)
        for side in range(count):
            p = point + side
            if closure.points[side][0] < 0:
                continue
            for axis in range(6):
                motion = np.zeros(6, int)
                motion[axis] = 1
                spin, slide = (frames.turn[p] @ half for half in (motion[:3], motion[3:]))
                change = _change(closure, frames, point, side, spin, slide)
                for i, entry in enumerate(change):
                    out[row + i, 6 * p + axis] = entry
        row += len(closure.rows)
        world = closure.matrix is not None and closure.axes == "world"
        point += count + int(world)
    return out


def rows_rate(c: Configuration, *motions: Array) -> Array:
    """Ȧ along motions (6 points) of the frames in their own axes, one after the other.

    Each motion is held in the axes of the frames while the next one acts.
    """
    closures = c.points.closures
    assert closures is not None
    held = [p for p, body in enumerate(c.points.body) if body < 0]
    frames = frames_of(c)
    if c.kind is not np.ndarray:  # dual numbers over exact scalars
        frames = WorldFrames(_scalars(c, frames.turn), _scalars(c, frames.at))
        motions = tuple(_scalars(c, motion) for motion in motions)
    out = _rows_along(closures, frames, motions, held)
    return c.array(_with_laws(c, closures, out, [motion.reshape(-1) for motion in motions]))


def rows_at(c: Configuration) -> Array:
    """A, rows × 6 points, at a configuration."""
    closures = c.points.closures
    assert closures is not None
    return _with_laws(c, closures, rows(closures, frames_of(c)), ())


def _with_laws(
    c: Configuration, closures: ClosureSet, out: Array, motions: Sequence[Array]
) -> Array:
    """Rows of functions f: Σ ∂f/∂x n, n the constant row with the rate of x, differentiated along.

    The rate of a coordinate is n on the motions of all frames, and does not change with them.
    """
    row = point = 0
    for closure in closures.closures:
        width = 6 * len(closure.points)
        if closure.laws and c.kind is not np.ndarray:
            raise InputError(
                f"exact proofs do not support {closure.name!r}, a function of coordinates"
            )
        for law in closure.laws:
            assert closure.matrix is not None
            n = closure.matrix[0].reshape(law.size, 12)
            x = [c.argument("q")[i] for i in closure.places]
            own = [m[6 * point : 6 * point + width] for m in motions]
            along = [[n[j] @ m[12 * j : 12 * j + 12] for j in range(law.size)] for m in own]
            slopes = [law.slope(j, x, along, ARRAYS) for j in range(law.size)]
            for p, (body, _) in enumerate(closure.points):
                numbers = closure.matrix[0, 6 * p : 6 * p + 6] if body >= 0 else np.zeros(6)
                out[row, 6 * (point + p) : 6 * (point + p) + 6] = slopes[p // 2] * numbers
            row += 1
        row += 0 if closure.laws else len(closure.rows)
        point += len(closure.points) + int(closure.matrix is not None and closure.axes == "world")
    return out


def _scalars(c: Configuration, values: Array) -> Array:
    out = np.empty(values.size, object)
    out[:] = c.scalars(values.reshape(-1))
    return out.reshape(values.shape)


def _rows_along(
    closures: ClosureSet, frames: WorldFrames, motions: Sequence[Array], held: Sequence[int]
) -> Array:
    """The rows differentiated along the motions by dual numbers, the last motion outermost."""
    if not motions:
        return rows(closures, WorldFrames(frames.turn.astype(object), frames.at.astype(object)))
    turn, at = frames.turn.astype(object), frames.at.astype(object)
    for p in range(len(at)):
        if p in held:
            continue
        halves = (motions[-1][6 * p + i : 6 * p + i + 3].reshape(3) for i in (0, 3))
        spin, slide = (frames.turn[p] @ half for half in halves)
        turn[p] = _DUAL(turn[p], np.cross(spin, frames.turn[p], axisb=0, axisc=0))
        at[p] = _DUAL(at[p], slide)
    return _RATE(_rows_along(closures, WorldFrames(turn, at), motions[:-1], held))


_DUAL: Any = np.frompyfunc(Dual, 2, 1)
_RATE: Any = np.frompyfunc(rate_of, 1, 1)


def _plain(x: Any) -> Any:
    """A number without its rates."""
    return _plain(value_of(x)) if isinstance(x, Dual) else x


def _half(x: Any) -> Any:
    """x / 2 for a number or a dual number, without a float that exact numbers do not take."""
    if isinstance(x, Dual):
        return Dual(_half(x.value), _half(x.rate))
    return x if is_zero(x) else x / 2


def _root(x: Any) -> Any:
    """The square root of a number or a dual number."""
    if not isinstance(x, Dual):
        return x.sqrt() if hasattr(x, "sqrt") else np.sqrt(x)
    value = _root(x.value)
    return Dual(value, x.rate / (2 * value))


def _change(
    c: Closure, f: WorldFrames, first: int, side: int, spin: Array, slide: Array
) -> list[Any]:
    """Rates of all rows of a closure when one of its frames moves, in world axes."""
    if c.matrix is not None:
        axes = f.turn[first + side].T if c.axes == "body" else np.eye(3, dtype=int)
        motion = np.concatenate([axes @ spin, axes @ slide])
        return list(c.matrix[:, 6 * side : 6 * side + 6] @ motion)
    a, b = f.turn[first], f.turn[first + 1]
    gap = f.at[first + 1] - f.at[first]
    turning = np.cross(spin, f.turn[first + side], axisb=0, axisc=0)
    if side == 0:  # d(a* b) and d(a* gap), of which the other frame has no part
        dR, dgap = turning.T @ b, -slide
        dr = turning.T @ gap + a.T @ dgap
    else:
        dR, dgap = a.T @ turning, slide
        dr = a.T @ dgap
    values: dict[str, Any] = {
        "R02": dR[0, 2],
        "R12": dR[1, 2],
        "R22": dR[2, 2],
        "sx": _half(dR[2, 1] - dR[1, 2]),
        "sy": _half(dR[0, 2] - dR[2, 0]),
        "sz": _half(dR[1, 0] - dR[0, 1]),
        "wz": a[:, 2] @ (spin if side else -spin),
        "rx": dr[0],
        "ry": dr[1],
        "rz": dr[2],
    }
    if "distance" in c.forms:
        length = _root(gap @ gap)
        values["distance"] = (gap @ dgap) / length if _plain(length) != 0 else np.nan
    return [values[form] for form in c.forms]
