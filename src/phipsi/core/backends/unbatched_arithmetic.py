"""Arithmetic of the reference backend on one configuration of real numbers.

Entries are NumPy's numbers instead of arrays of length one, which are ten times slower. Every
operation rounds as it does on arrays, so a configuration alone has the bits that it has in a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, final

import numpy as np

from phipsi.core.backends.arrays import Array, ArrayArithmetic
from phipsi.core.backends.rank_limits import HINGE_TOLERANCE
from phipsi.core.spatial import ARRAYS, SERIES_BELOW, polynomial
from phipsi.core.sweeps import Field, Rows, cross_matrix, is_zero


def product(a: Array, b: Array) -> Array:
    """A B of two matrices, with the bits of `np.matmul` in a third of its time.

    `dot` calls the same routines where the numbers of a matrix lie side by side; elsewhere its sums
    are in another order.
    """
    if a.shape[1] > 1 and a.flags.forc and b.flags.forc:
        return a.dot(b)
    return np.matmul(a, b)


@final
class UnbatchedArithmetic(ArrayArithmetic):
    """The `Arithmetic` at place `k` of one configuration; blocks have two axes."""

    @cached_property
    def _product(self) -> Callable[[Array, Array], Array]:
        return product

    # -- values of fields --------------------------------------------------------------------------

    @staticmethod
    def _numbers(a: Array) -> list[Any]:
        """The entries of one axis."""
        return list(a)

    @staticmethod
    def entries(block: Array) -> Rows:
        """All entries of a block."""
        width = block.shape[1]
        flat = list(block.flat)
        return [flat[i : i + width] for i in range(0, len(flat), width)] if flat else _none(block)

    def by_column(self, x: Field, make: Callable[[Any], list[Any]]) -> Array:
        """The block whose columns are computed from those of x, all at once."""
        block = self.value(x)
        if block.shape[1] != 1:
            return super().by_column(x, make)
        return self.dense([[entry] for entry in make(list(block.flat))], 1)

    def rigid_parts(self, block: Array) -> tuple[Rows, list[Any]]:
        """R and l of [[R, l~ R], [0, R]]; those of the last block are kept."""
        if block is not self._last_block:
            turn = block[:3, :3]
            lever = product(block[:3, 3:], turn.T)
            arm = [lever[2, 1], lever[0, 2], lever[1, 0]]
            self._last_block, self._last_parts = block, (self.entries(turn), arm)
        return self._last_parts

    _last_block: Array | None = None
    _last_parts: tuple[Rows, list[Any]] = ([], [])

    # -- blocks ------------------------------------------------------------------------------------

    def dense(self, rows: Sequence[Sequence[Any]], columns: int = 0) -> Array:
        """A block of entries."""
        if not rows:
            return np.zeros((0, columns))
        return np.array(rows, dtype=np.float64)

    def rigid_block(self, turn: Rows, arm: Sequence[Any]) -> Array:
        """[[R, l~ R], [0, R]]."""
        out, axes = np.zeros((6, 6)), np.array(turn, dtype=np.float64)
        out[:3, :3] = out[3:, 3:] = axes
        if not all(is_zero(c) for c in arm):
            out[:3, 3:] = product(self.dense(cross_matrix(arm)), axes)
        return out

    # -- scalars -----------------------------------------------------------------------------------

    def pick(self, s: Any, series: tuple[float, ...], closed: Callable[..., Any]) -> Any:
        """A power series in s, or the closed form beyond its range."""
        return polynomial(series, s) if s < SERIES_BELOW else closed(s, ARRAYS)

    def largest(self, entries: Sequence[Any]) -> Any:
        """The largest absolute value, NaN if one is."""
        out, *rest = map(abs, entries)
        for size in rest:
            out = self.maximum(out, size)
        return out

    def maximum(self, x: Any, y: Any) -> Any:
        """The larger of two, NaN if one is."""
        return y if y > x or y != y else x

    # -- operations --------------------------------------------------------------------------------

    def frame_in_world(self, poses: Field) -> tuple[Rows, list[Any]]:
        """Rotation and position of this point's frame in the world; its mate asks for it again."""
        found = self._frames.get(self.k)
        if found is None or found[0] is not self.values[poses]:
            found = self.values[poses], super().frame_in_world(poses)
            self._frames[self.k] = found
        return found[1]

    @cached_property
    def _frames(self) -> dict[int, tuple[Any, tuple[Rows, list[Any]]]]:
        """The frames of points that are known, with the poses of the bodies they follow from."""
        return {}

    def _inv(self, x: Field) -> Array:
        a = self.value(x.args[0])
        how: Any = x.data
        if a.shape == (1, 1) and how[0] == "definite":
            scale = self.value(x.args[1])[0, 0] if len(x.args) > 1 else 0.0
            if a[0, 0] > HINGE_TOLERANCE * scale:
                return np.array([[1 / a[0, 0]]])
        return super()._inv(x)


def _none(block: Array) -> Rows:
    """The rows of a block without entries."""
    return [[] for _ in range(block.shape[0])]
