"""Tables of constant rows (a, b, c, h), such as planes a·x = h of a polyhedron.

Every lane looks for a row of its own; loops over a table are as long as it is. What is found stays
the same while arguments change a little: it has no derivatives.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import final

import numpy as np

from phipsi.contact.geometry.graph_calls import PiecewiseConstantCall
from phipsi.core.arrays import Array
from phipsi.core.machine import Candidate, Index, Machine, Memory, Number

_ROW = 4
_FAR = 1e30
"""Where a line that no row bounds begins and ends."""


class ConstantRows:
    """Rows (n, k), and a digest that equal ones share."""

    def __init__(self, rows: Array) -> None:
        self.rows = np.ascontiguousarray(rows, dtype=np.float64)
        text = repr(self.rows.shape).encode() + self.rows.tobytes()
        self.digest = hashlib.sha256(text).hexdigest()


def dot(x: Sequence[Number], y: Sequence[Number]) -> Number:
    """x·y of three numbers each."""
    return x[0] * y[0] + x[1] * y[1] + x[2] * y[2]


@final
class TableRow(PiecewiseConstantCall):
    """Row number i (1,) of a table (n, k); the nearest if there is no such number."""

    takes = ((1,),)

    def __init__(self, rows: Array) -> None:
        self._own = ConstantRows(rows)
        self.shapes = ((self._own.rows.shape[1],),)
        self.key = self._own.digest
        self.name = f"row {self.key}"

    def text(self, m: Machine, args: Sequence[Memory]) -> Sequence[Sequence[Number]]:
        """Reads, lane by lane."""
        count, width = self._own.rows.shape
        index = args[0][0]
        index = m.where(index >= 0.0, index, 0.0)  # false for NaN
        index = m.where(index <= count - 1.0, index, count - 1.0)
        return [m.gathered(m.constants(self._own.rows), index * width, range(width))]


@final
class Top(PiecewiseConstantCall):
    """The first row whose a·x − h is the largest at x (3,), and its number: (5,)."""

    takes = ((3,),)
    shapes = ((_ROW + 1,),)

    def __init__(self, rows: Array) -> None:
        self._own = ConstantRows(rows)
        self.key = self._own.digest
        self.name = f"top row {self.key}"

    def text(self, m: Machine, args: Sequence[Memory]) -> Sequence[Sequence[Number]]:
        """The loop."""
        rows, x = m.constants(self._own.rows), [args[0][k] for k in range(3)]

        def heights(i: Index) -> list[Candidate]:
            row = [rows[i, j] for j in range(_ROW)]
            return [Candidate(dot(row, x) - row[3], [*row, m.to_number(i)])]

        start = [-np.inf, *(rows[0, j] for j in range(_ROW)), 0.0]
        (best,) = m.first_largest(0, len(self._own.rows), heights, [start])
        return [best[1:]]


@final
class FeasibleInterval(PiecewiseConstantCall):
    """Where on a line x + t u the rows less a given one, r, are at most 0.

    Arguments x (3,), u (3,) and r (4,); the result (12,) is t, row and its number where the stretch
    begins, and the same where it ends: it is empty if it ends before it begins. Rows that change by
    less than `level` of |u| along the line count as level.
    """

    takes = (3,), (3,), (_ROW,)
    shapes = ((2 * (_ROW + 2),),)

    def __init__(self, rows: Array, level: float) -> None:
        self._own, self._level = ConstantRows(rows), level
        self.key = (self._own.digest, level)
        self.name = f"stretch {self.key}"

    def text(self, m: Machine, args: Sequence[Memory]) -> Sequence[Sequence[Number]]:
        """The loop: the latest beginning, and the soonest end."""
        rows = m.constants(self._own.rows)
        x, u = ([args[j][k] for k in range(3)] for j in range(2))
        r = [args[2][k] for k in range(_ROW)]
        least = dot(u, u) * self._level**2

        def ends(i: Index) -> list[Candidate]:
            row = [rows[i, j] for j in range(_ROW)]
            a = [p - q for p, q in zip(row, r, strict=True)]
            rate, value = dot(a, u), dot(a, x) - a[3]
            steep = rate * rate > least
            falls, rises = steep & (rate < 0.0), steep & (rate > 0.0)
            t = -value / m.where(steep, rate, 1.0)
            above = m.where(value > 0.0, _FAR, -_FAR)
            begins = m.where(falls, t, m.where(rises, -_FAR, above))
            known = [*row, m.to_number(i)]
            return [Candidate(begins, known), Candidate(-m.where(rises, t, _FAR), known)]

        start = [-np.inf, *(rows[0, j] for j in range(_ROW)), 0.0]
        begin, end = m.first_largest(0, len(self._own.rows), ends, [start, start])
        return [[*begin, -end[0], *end[1:]]]
