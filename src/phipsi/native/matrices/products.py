"""Products of matrices in generated code: a result that is factor · A · B.

A and B are matrices of their own, in scratch memory unless A is a result too. In a kernel for many
configurations every entry is a vector of lanes; in a kernel for one configuration the entries of a
row lie side by side and lanes are columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from phipsi.core.model import Model, PointSet
from phipsi.core.sweeps import Result
from phipsi.native import data_record as record
from phipsi.native.kernel.emission import Emission
from phipsi.native.matrices.matrix_memory import MatrixMemory
from phipsi.native.matrices.structural_zeros import both_factors, filled, zeros_stay
from phipsi.native.matrices.tiles import MeetingTiles, Shape
from phipsi.native.text.lane_arithmetic import Lane, i64, scaled


def can_run(results: Sequence[Result]) -> bool:
    """True if all products are of matrices between joints."""
    factors = [x for r in results if r.left is not None for x in both_factors(r)]
    return all(x.takes.index == x.gives.index == "joint" for x in factors)


def patterns(
    results: Sequence[Result], model: Model, points: PointSet
) -> list[tuple[np.ndarray, np.ndarray]]:
    """(rows, columns) each: which entries of the factors of products can differ from zero."""

    def pattern(r: Result) -> np.ndarray:
        known = zeros_stay(r)
        return filled(r, model, points) if known else np.ones((model.nv, model.nv), dtype=bool)

    factors = [both_factors(r) for r in results if r.left is not None]
    return [(pattern(left), pattern(right)) for left, right in factors]


@final
class Products:
    """Emits the products of one kernel."""

    def __init__(self, emission: Emission, matrices: MatrixMemory) -> None:
        self.k, self.matrices = emission, matrices

    def emit(self) -> None:
        """All products, when the matrices are complete."""
        k = self.k
        for number, r in enumerate(r for r in k.results if r.left is not None):
            self.tiles = MeetingTiles(k, record.TILE_TABLE_WORDS[k.several], number)
            self.a, self.b = map(self.matrices.factor, both_factors(r))
            self.out, self.factor = k.result_base(r), r.factor
            self.tiles.emit(self._along if k.several else self._across)

    def _starts(self, a: Any, i: Any, height: int) -> list[Any]:
        """Where rows i, i + 1, … of a matrix begin."""
        m = self.k.b
        step = m.mul(self.tiles.size, i64(self.k.bytes))
        out = [self.k.at(a, m.mul(i, step))]
        while len(out) < height:
            out.append(self.k.at(out[-1], step))
        return out

    def _across(self, i: Any, j: Any, shape: Shape, entries: tuple[Any, Any]) -> None:
        """One tile, where lanes are configurations."""
        k, m, (height, width) = self.k, self.k.b, shape
        lefts = self._starts(self.a, i, height)
        first = k.at(self.b, m.mul(j, i64(k.bytes)))

        def places(row: Any, column: Any) -> tuple[list[tuple[Any, Any]], Any]:
            return [(start, row) for start in lefts], k.at(first, column)

        found = self.tiles.across(entries, shape, places)
        for r, start in enumerate(self._starts(self.out, i, height)):
            where = k.at(start, m.mul(j, i64(k.bytes)))
            for c in range(width):
                k.lane_store(scaled(found[r * width + c], self.factor), where, i64(c * k.bytes))

    def _along(self, i: Any, j: Any, shape: Shape, entries: tuple[Any, Any]) -> None:
        """One tile, where lanes are columns of one configuration."""
        k, m, g = self.k, self.k.b, self.k.group
        mask = g.first(m.sub(self.tiles.size, j))
        lefts = self._starts(self.a, i, shape[0])
        column = k.at(self.b, m.mul(j, i64(k.unit)))

        def term(left: Any, right: Any, sums: list[Any]) -> list[Any]:
            others = Lane(g, g.masked_load(k.at(column, right), mask))
            mine = [g.load_shared(k.at(start, left)) for start in lefts]
            return [
                x.times_plus(others, Lane(g, old)).value for x, old in zip(mine, sums, strict=True)
            ]

        sums = self.tiles.sums(entries, g.constant(0.0).value, shape[0], term)
        for total, start in zip(sums, self._starts(self.out, i, shape[0]), strict=True):
            entry = scaled(Lane(g, total), self.factor)
            g.masked_store(entry.value, k.at(start, m.mul(j, i64(k.unit))), mask)
