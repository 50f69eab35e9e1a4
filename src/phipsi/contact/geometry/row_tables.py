"""Tables of constant rows (a, b, c, h) in machine code, such as planes a·x = h of a polyhedron.

Every lane looks for a row of its own; loops over a table are as long as it is. What is found stays
the same while arguments change a little: it has no derivatives.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from phipsi.backends.native.kernel.law_code import Area
from phipsi.backends.native.text import llvm_text as ir
from phipsi.backends.native.text.lane_arithmetic import DOUBLE, I32, I64, Lane, fold_loop, i64
from phipsi.contact.geometry.graph_calls import Choice
from phipsi.contact.lane_elimination import known_table
from phipsi.laws.graph import Array

_ROW = 4
_FAR = 1e30
"""Where a line that no row bounds begins and ends."""


class Constants:
    """Rows (n, k) as a table of a module, which has equal ones once."""

    def __init__(self, rows: Array) -> None:
        self.rows = np.ascontiguousarray(rows, dtype=np.float64)
        text = repr(self.rows.shape).encode() + self.rows.tobytes()
        self.digest = hashlib.sha256(text).hexdigest()

    def table(self, code: Any) -> Any:
        """The table."""
        name = f"rows_{self.digest[:24]}"
        return known_table(code.module, DOUBLE, self.rows.ravel().tolist(), name)

    def gathered(self, code: Any, first: Any, steps: Sequence[int]) -> list[Lane]:
        """Numbers so many steps behind the place first(of) of each lane; of(x), x there, whole."""
        b, e, table = code.e.builder, code.e, self.table(code)
        found = [e.constant(0.0).value] * len(steps)
        for lane in range(e.lanes):
            at = ir.Constant(I32, lane)
            start = first(lambda x, at=at: b.fptosi(b.extract_element(x.value, at), I64))
            for k, step in enumerate(steps):
                where = b.at(table, b.mul(b.add(start, i64(step)), i64(8)))
                number = b.load(where, align=8, typ=DOUBLE)
                found[k] = b.insert_element(found[k], number, at)
        return [Lane(e, x) for x in found]


@final
class Row(Choice):
    """Row number i (1,) of a table (n, k); the nearest if there is no such number."""

    def __init__(self, rows: Array) -> None:
        self._own = Constants(rows)
        self.shapes = ((self._own.rows.shape[1],),)
        self.key = self._own.digest
        self.name = f"row {self.key}"

    def arrays(self, *args: Array) -> Sequence[Array]:
        """On arrays."""
        rows = self._own.rows
        good = np.where(np.isfinite(args[0][..., 0]), args[0][..., 0], 0.0)
        return [rows[np.clip(good, 0, len(rows) - 1).astype(int)]]

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[list[Lane]]:
        """Loads, lane by lane."""
        b, e = code.e.builder, code.e
        count, width = self._own.rows.shape
        index = code.entry(args[0], 0)
        index = e.select(e.compare(">=", index, 0.0), index, 0.0)  # false for NaN
        index = e.select(e.compare("<=", index, count - 1.0), index, count - 1.0)
        return [self._own.gathered(code, lambda of: b.mul(of(index), i64(width)), range(width))]


@final
class Top(Choice):
    """The first row whose a·x − h is the largest at x (3,), and its number: (5,)."""

    shapes = ((_ROW + 1,),)

    def __init__(self, rows: Array) -> None:
        self._own = Constants(rows)
        self.key = self._own.digest
        self.name = f"top row {self.key}"

    def arrays(self, *args: Array) -> Sequence[Array]:
        """On arrays."""
        rows, x = self._own.rows, args[0]
        values = x[..., None, 0] * rows[:, 0]
        for k in (1, 2):
            values = values + x[..., None, k] * rows[:, k]
        which = (values - rows[:, 3]).argmax(axis=-1)
        return [np.concatenate([rows[which], 1.0 * which[..., None]], axis=-1)]

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[list[Lane]]:
        """The loop."""
        b, e = code.e.builder, code.e
        rows = Area(self._own.table(code), shared=True)
        x = [code.entry(args[0], k) for k in range(3)]

        def more(i: Any, best: list[Any]) -> list[Any]:
            first = b.mul(i, i64(_ROW))
            row = [code.entry(rows, b.add(first, i64(j))) for j in range(_ROW)]
            value = row[0] * x[0] + row[1] * x[1] + row[2] * x[2] - row[3]
            better = e.compare(">", value, Lane(e, best[0]))
            number = e.lift(Lane(e, best[-1]) + 1.0)
            which = e.select(better, number, Lane(e, best[-2]))
            new = [
                b.select(better, y.value, z) for y, z in zip([value, *row], best[:5], strict=True)
            ]
            return [*new, which.value, number.value]

        start = [e.constant(-np.inf).value, *(code.entry(rows, j).value for j in range(_ROW))]
        start += [e.constant(0.0).value, e.constant(-1.0).value]
        found = fold_loop(b, i64(len(self._own.rows)), 1, start, more)
        return [[Lane(e, x) for x in found[1:6]]]


@final
class Stretch(Choice):
    """Where on a line x + t u the rows less a given one, r, are at most 0.

    Arguments x (3,), u (3,) and r (4,); the result (12,) is t, row and its number where the stretch
    begins, and the same where it ends: it is empty if it ends before it begins. Rows that change by
    less than `level` of |u| along the line count as level.
    """

    shapes = ((2 * (_ROW + 2),),)

    def __init__(self, rows: Array, level: float) -> None:
        self._own, self._level = Constants(rows), level
        self.key = (self._own.digest, level)
        self.name = f"stretch {self.key}"

    def arrays(self, *args: Array) -> Sequence[Array]:
        """On arrays."""
        x, u, r = args
        rows = self._own.rows
        a = (rows - r[..., None, :]) * 1.0
        rate, value = a[..., 0] * u[..., None, 0], a[..., 0] * x[..., None, 0]
        for k in (1, 2):
            rate, value = rate + a[..., k] * u[..., None, k], value + a[..., k] * x[..., None, k]
        value = value - a[..., 3]
        square = u[..., 0] * u[..., 0] + u[..., 1] * u[..., 1] + u[..., 2] * u[..., 2]
        steep = rate * rate > (self._level**2 * square)[..., None]
        falls, rises = steep & (rate < 0.0), steep & (rate > 0.0)
        above = np.where(value > 0.0, _FAR, -_FAR)
        t = -value / np.where(steep, rate, 1.0)
        begins = np.where(falls, t, np.where(rises, -_FAR, above))
        ends = np.where(rises, t, _FAR)
        out = []
        for at, which in ((begins, begins.argmax(axis=-1)), (ends, ends.argmin(axis=-1))):
            picked = np.take_along_axis(at, which[..., None], axis=-1)
            out += [picked, rows[which], 1.0 * which[..., None]]
        return [np.concatenate(out, axis=-1)]

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[list[Lane]]:
        """The loop."""
        b, e = code.e.builder, code.e
        rows = Area(self._own.table(code), shared=True)
        x, u = ([code.entry(args[j], k) for k in range(3)] for j in range(2))
        r = [code.entry(args[2], k) for k in range(_ROW)]
        least = (u[0] * u[0] + u[1] * u[1] + u[2] * u[2]) * self._level**2

        def more(i: Any, best: list[Any]) -> list[Any]:
            first = b.mul(i, i64(_ROW))
            row = [code.entry(rows, b.add(first, i64(j))) for j in range(_ROW)]
            a = [p - q for p, q in zip(row, r, strict=True)]
            rate = a[0] * u[0] + a[1] * u[1] + a[2] * u[2]
            value = a[0] * x[0] + a[1] * x[1] + a[2] * x[2] - a[3]
            steep = e.compare(">", rate * rate, least)
            falls = b.and_(steep, e.compare("<", rate, 0.0))
            rises = b.and_(steep, e.compare(">", rate, 0.0))
            t = -value / e.select(steep, rate, 1.0)
            above = e.select(e.compare(">", value, 0.0), _FAR, -_FAR)
            begins = e.select(falls, t, e.select(rises, -_FAR, above))
            ends = e.select(rises, t, _FAR)
            number = e.lift(Lane(e, best[-1]) + 1.0)
            later = e.compare(">", begins, Lane(e, best[0]))
            sooner = e.compare("<", ends, Lane(e, best[6]))
            new = [
                b.select(which, y.value, z)
                for which, t, old in ((later, begins, best[:6]), (sooner, ends, best[6:12]))
                for y, z in zip([t, *row, number], old, strict=True)
            ]
            return [*new, number.value]

        zero = e.constant(0.0).value
        row = [code.entry(rows, j).value for j in range(_ROW)]
        start = [e.constant(-np.inf).value, *row, zero, e.constant(np.inf).value, *row, zero]
        found = fold_loop(b, i64(len(self._own.rows)), 1, [*start, e.constant(-1.0).value], more)
        return [[Lane(e, x) for x in found[:12]]]
