"""The residual of a closure, its row of A at one of its frames, and the row's rate.

The formulas take any kind of number: floats, complex numbers, symbols, arrays, values of a program.
In a row, R and r are rotation and position of the other frame seen from this one; the formulas of
side b are those of side a with R* and −R* r in place of R and r. All but the distance are linear in
(R, r), so the rate of a row is the row of the rates, without the constant part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from phipsi.core.model.dual import Dual, rate_of, value_of

Rows = Sequence[Sequence[Any]]
Vector = Sequence[Any]

_AXES = {"x": 0, "y": 1, "z": 2}
_SKEW = {"sx": (2, 1), "sy": (0, 2), "sz": (1, 0)}  # ½ (R_ij − R_ji)


def closure_residual(
    form: str, turn: Rows, arm: Vector, constant: Any, root: Callable[[Any], Any]
) -> Any:
    """The residual of a row; `turn`, `arm`: R and r of frame b seen from frame a."""
    if form == "distance":
        return root(_dot(arm, arm)) - constant
    if form == "wz":  # binds velocities only
        return 0
    if form[0] == "r":
        return arm[_AXES[form[1]]]
    if form[0] == "R":
        return turn[int(form[1])][int(form[2])] - constant
    i, j = _SKEW[form]
    return 0.5 * (turn[i][j] - turn[j][i])


def closure_row(
    form: str, side: int, turn: Rows, arm: Vector, numbers: Vector, root: Callable[[Any], Any]
) -> list[Any]:
    """Row [angular; linear] on the motion of this frame in its own axes.

    `turn`, `arm`: R and r; `numbers`: the constants of the link; `root`: the square root.
    """
    if form == "distance":
        length = root(_dot(arm, arm))
        return [0, 0, 0] + [-x / length for x in arm]
    return _linear(form, side, turn, arm, numbers, constant=1)


def closure_row_rate(
    form: str,
    side: int,
    turn: Rows,
    arm: Vector,
    twist: Vector,
    numbers: Vector,
    root: Callable[[Any], Any],
) -> list[Any]:
    """Rate of the same row; `twist` is [ω; ṙ] of the other frame seen from this one."""
    if form == "distance":
        square = _dot(arm, arm)
        length = root(square)
        along = _dot(arm, twist[3:]) / square
        return [0, 0, 0] + [(x * along - y) / length for x, y in zip(arm, twist[3:], strict=True)]
    spin, speed = list(twist[:3]), list(twist[3:])
    columns = [cross(spin, [row[j] for row in turn]) for j in range(3)]
    rate = [[columns[j][i] for j in range(3)] for i in range(3)]
    return _linear(form, side, rate, speed, numbers, constant=0)


def closure_row_along(
    form: str,
    side: int,
    turn: Rows,
    arm: Vector,
    motions: Sequence[tuple[Vector, Vector]],
    numbers: Vector,
    root: Callable[[Any], Any],
) -> list[Any]:
    """The row differentiated along motions one after the other, each held while the next one acts.

    A motion is [ω; v] of this frame and of the other one, each in its own axes. One motion gives
    `closure_row_rate`; every further one is a derivative of that formula, by dual numbers.
    """
    twist = relative_twist(turn, arm, *motions[-1])
    if len(motions) == 1:
        return closure_row_rate(form, side, turn, arm, twist, numbers, root)
    columns = [cross(list(twist[:3]), [row[j] for row in turn]) for j in range(3)]
    moving = [[Dual(turn[i][j], columns[j][i]) for j in range(3)] for i in range(3)]
    sliding = [Dual(x, r) for x, r in zip(arm, twist[3:], strict=True)]

    def dual_root(x: Any) -> Any:
        value = root(value_of(x))
        return Dual(value, rate_of(x) / (2 * value))

    out = closure_row_along(form, side, moving, sliding, motions[:-1], numbers, dual_root)
    return [rate_of(x) for x in out]


def relative_twist(turn: Rows, arm: Vector, own: Vector, other: Vector) -> list[Any]:
    """[ω; ṙ] of the other frame seen from this one, from the motions of both in their own axes."""
    spin = [_dot(row, other[:3]) - w for row, w in zip(turn, own[:3], strict=True)]
    swept = cross(list(own[:3]), list(arm))
    speed = [_dot(row, other[3:]) - v - s for row, v, s in zip(turn, own[3:], swept, strict=True)]
    return spin + speed


def _linear(
    form: str, side: int, turn: Rows, arm: Vector, numbers: Vector, constant: int
) -> list[Any]:
    """The rows that are linear in R and r, but for `constant` times a constant part."""
    if form == "body":
        return [constant * x for x in numbers]
    if form == "world":
        return [_dot(row, numbers[:3]) for row in turn] + [_dot(row, numbers[3:]) for row in turn]
    if form in ("rx", "ry", "rz"):
        i = _AXES[form[1]]
        if side == 1:
            return [0, 0, 0] + [row[i] for row in turn]
        unit = [constant * int(j == i) for j in range(3)]
        return [-x for x in _times_unit(arm, i)] + [-x for x in unit]
    if form == "wz":  # z_a · (ω_b − ω_a)
        return ([0, 0, -constant] if side == 0 else [row[2] for row in turn]) + [0, 0, 0]
    normal = _angular(form, side, turn)
    return normal + [0, 0, 0]


def _angular(form: str, side: int, turn: Rows) -> list[Any]:
    """−n on side a and R* n on side b, n the gradient of an angular row along ω in axes of a."""
    columns = [[row[j] for row in turn] for j in range(3)]

    def term(i: int, j: int) -> list[Any]:
        """Gradient of R_ij: column j of R times unit vector i, as seen from this side."""
        if side == 0:
            return [-x for x in _times_unit(columns[j], i)]
        return _unit_times(j, columns[i])

    if form[0] == "R":
        return term(int(form[1]), int(form[2]))
    i, j = _SKEW[form]
    return [0.5 * (x - y) for x, y in zip(term(i, j), term(j, i), strict=True)]


def cross(x: Sequence[Any], y: Sequence[Any]) -> list[Any]:
    """x × y."""
    return [
        x[1] * y[2] - x[2] * y[1],
        x[2] * y[0] - x[0] * y[2],
        x[0] * y[1] - x[1] * y[0],
    ]


def _times_unit(x: Sequence[Any], i: int) -> list[Any]:
    """x × e_i, without products by zero and one."""
    return [[0, x[2], -x[1]], [-x[2], 0, x[0]], [x[1], -x[0], 0]][i]


def _unit_times(i: int, x: Sequence[Any]) -> list[Any]:
    return [[0, -x[2], x[1]], [x[2], 0, -x[0]], [-x[1], x[0], 0]][i]


def _dot(x: Sequence[Any], y: Sequence[Any]) -> Any:
    return x[0] * y[0] + x[1] * y[1] + x[2] * y[2]
