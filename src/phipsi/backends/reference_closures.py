"""Loop closures on the reference backend: links, rows, and the solution of the rows' equations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phipsi.backends.failures import (
    CONTRADICTION,
    DOUBTFUL,
    ROW_DOUBT,
    ROW_DOUBT_LEAST,
    ROW_GAP,
    ROW_GAP_LEAST,
    Failure,
)
from phipsi.backends.reference_blocks import rigid
from phipsi.backends.scalars import Scalars, matrix, solve_semidefinite
from phipsi.model.closure_rows import (
    closure_row,
    closure_row_along,
    closure_row_rate,
    relative_twist,
)
from phipsi.model.closures import ClosureSet
from phipsi.model.points import PointSet
from phipsi.sweeps.ir import Field

Array = np.ndarray


class ClosureOperations:
    """The operations on points, links and rows; `Run` has the rest."""

    closures: ClosureSet
    points: PointSet
    values: dict[Field, Any]
    link_sizes: dict[Field, list[Any]]
    row_sizes: dict[Field, Array]
    _number: Callable[[Any], Any]
    failures: list[Failure]
    scalars: Scalars
    batch: tuple[int, ...]
    dtype: np.dtype[Any]
    _at: Callable[[Field, int], Array]
    _const: Callable[[Array], Array]

    def _note_rows(self, gap: Array, code: int) -> None:
        """One failure for every row that asks for something else than the others."""
        for i in np.flatnonzero(gap.reshape(-1, gap.shape[-1]).any(0)):
            mask = np.broadcast_to(gap[..., i] > 0, self.batch)
            value = np.broadcast_to(gap[..., i, None, None], (*self.batch, 1, 1))
            name = self.closures.row_names[i]
            self.failures.append(Failure(code, int(i), name, mask, value))

    def _of_mate(self, x: Field, k: int) -> Array:
        return self._at(x.args[0], int(self.closures.mate[k]))

    def _of_point(self, x: Field, k: int) -> Array:
        return self._at(x.args[0], int(self.closures.link_point[k]))

    def _of_row(self, x: Field, k: int) -> Array:
        return self._at(x.args[0], int(self.closures.link_row[k]))

    def _to_point(self, x: Field, k: int) -> None:
        p = self.closures.link_point[k]
        self.values[x][p] = self.values[x][p] + self._at(x.args[0], k)

    def _to_row(self, x: Field, k: int) -> None:
        i = self.closures.link_row[k]
        self.values[x][i] = self.values[x][i] + self._at(x.args[0], k)

    def _selected(self, x: Field, k: int) -> Array:
        chosen = self.closures.selections[str(x.data)]
        return self._const(np.eye(6) * (self.points.body[k] in chosen))

    def _frame_in_world(self, poses: Field, p: int) -> tuple[Array, Array]:
        """Rotation and position of the frame of point p in the world."""
        turn, arm = (self._const(a[p]) for a in (self.points.rotation, self.points.offset))
        body = self.points.body[p]
        if body < 0:
            return turn, arm
        w = self.values[poses][body]
        axes = w[..., :3, :3]
        lever = w[..., :3, 3:] @ np.swapaxes(axes, -1, -2)
        origin = np.stack([lever[..., 2, 1], lever[..., 0, 2], lever[..., 1, 0]], -1)
        return axes @ turn, origin + (axes @ arm[:, None])[..., 0]

    def _relative(self, x: Field, k: int) -> Array:
        mine, here = self._frame_in_world(x.args[0], k)
        other, there = self._frame_in_world(x.args[0], int(self.closures.mate[k]))
        back = np.swapaxes(mine, -1, -2)
        return rigid(back @ other, (back @ (there - here)[..., None])[..., 0])

    def _relative_twist(self, x: Field, k: int) -> Array:
        turn, arm = _parts(self._at(x.args[0], k))
        own, other = (_listed(self._at(y, k)) for y in x.args[1:])
        return _column(relative_twist(turn, arm, own, other), self.batch, self.dtype)

    def _link(self, k: int) -> tuple[str, int, list[Any]]:
        c = self.closures
        return c.link_form[k], int(c.side[c.link_point[k]]), list(self._const(c.link_constant[k]))

    def _closure_row(self, x: Field, k: int) -> Array:
        form, side, numbers = self._link(k)
        turn, arm = _parts(self._at(x.args[0], k))
        row = closure_row(form, side, turn, arm, numbers, self.scalars.sqrt)
        return _column(row, self.batch, self.dtype)

    def _closure_row_rate(self, x: Field, k: int) -> Array:
        form, side, numbers = self._link(k)
        turn, arm = _parts(self._at(x.args[0], k))
        twist = _listed(self._at(x.args[1], k))
        row = closure_row_rate(form, side, turn, arm, twist, numbers, self.scalars.sqrt)
        return _column(row, self.batch, self.dtype)

    def _closure_row_along(self, x: Field, k: int) -> Array:
        return _column(self._row_along(x, k, self._ends(x, k)), self.batch, self.dtype)

    def _ends(self, x: Field, k: int) -> list[Any]:
        """Pairs of motions, of the frame and of its mate."""
        columns = [_listed(self._at(y, k)) for y in x.args[1:]]
        return list(zip(columns[::2], columns[1::2], strict=False))

    def _row_along(self, x: Field, k: int, motions: list[Any]) -> list[Any]:
        form, side, numbers = self._link(k)
        turn, arm = _parts(self._at(x.args[0], k))
        return closure_row_along(form, side, turn, arm, motions, numbers, self.scalars.sqrt)

    def _closure_sway(self, x: Field, k: int) -> Array:
        given, (place, end) = self._ends(x, k), x.data  # type: ignore[misc]
        columns: list[Array] = []
        for i in range(6):
            unit = [self._const(np.array(float(i == j))) for j in range(6)]
            still = [0 * u for u in unit]
            free = (unit, still) if end == 0 else (still, unit)
            motions = [*given[:place], free, *given[place:]]
            columns.append(_column(self._row_along(x, k, motions), self.batch, self.dtype))
        out = np.concatenate(columns, axis=-1)
        return out if len(x.args) % 2 else out * self._at(x.args[-1], k)

    def _note_row_sizes(self, x: Field) -> None:
        """How large the diagonal of a matrix between rows would be if nothing in it cancelled."""
        data: Any = x.data
        if not all(part.how == "pairs" and y in self.link_sizes for part, y in _zipped(data, x)):
            return
        sizes = np.zeros((*self.batch, self.closures.n_rows), dtype=self.dtype)
        for part, y in _zipped(data, x):
            for link, size in enumerate(self.link_sizes[y]):
                row = int(self.closures.link_row[link])
                sizes[..., row] = sizes[..., row] + abs(self._number(part.coefficient)) * size
        self.row_sizes[x] = sizes

    def _row_solve(self, x: Field, k: int) -> None:
        """A⁻¹ u of a matrix between constraint rows, semidefinite where rows are redundant."""
        a, rows = self.values[x.args[0]], self.values[x.args[1]]
        if not rows:
            self.values[x] = []
            return
        u = np.concatenate([np.broadcast_to(r, (*self.batch, *r.shape[-2:])) for r in rows], -2)
        y, gap = solve_semidefinite(a, u, self.row_sizes.get(x.args[0]))
        if self.dtype == np.float64:
            largest, gap = np.abs(u).max((-2, -1), keepdims=True), np.abs(gap)
            large = gap > ROW_GAP * largest + ROW_GAP_LEAST
            small = (gap > ROW_DOUBT * largest + ROW_DOUBT_LEAST) & ~large
            self._note_rows(np.where(large, gap, 0.0).max(-1), CONTRADICTION)
            self._note_rows(np.where(small, gap, 0.0).max(-1), DOUBTFUL)
        self.values[x] = [y[..., i : i + 1, :] for i in range(len(rows))]


def _zipped(parts: Any, x: Field) -> list[tuple[Any, Field]]:
    return list(zip(parts, x.args, strict=True))


def _parts(rigid: Array) -> tuple[list[list[Array]], list[Array]]:
    """R and l of [[R, l~ R], [0, R]]."""
    turn = rigid[..., :3, :3]
    lever = rigid[..., :3, 3:] @ np.swapaxes(turn, -1, -2)
    rows = [[turn[..., i, j] for j in range(3)] for i in range(3)]
    return rows, [lever[..., 2, 1], lever[..., 0, 2], lever[..., 1, 0]]


def _listed(column: Array) -> list[Array]:
    return [column[..., i, 0] for i in range(column.shape[-2])]


def _column(entries: list[Any], batch: tuple[int, ...], dtype: Any) -> Array:
    return matrix([[x] for x in entries], batch, dtype)
