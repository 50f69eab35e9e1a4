"""Which shapes are near each other: grids of cells over their bounding balls."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.model.shapes import BodyShape, bounding_ball, is_surface
from phipsi.model.tree import WORLD

_CELL = 1.001
"""The size of a cell, in reaches of its balls: below 1, neighbours would be missed."""
_MOST_CELLS = 1e12  # along an axis: rounding of places stays below the share of `_CELL` above 1
_OFFSETS = np.array(list(product((-1, 0, 1), repeat=3)), dtype=np.int64)
_PRIMES = np.array([73856093, 19349663, 83492791], dtype=np.int64)
_LAYER = 2862933555777941757  # spreads layers over all bits

Places = NDArray[np.int64]


def near_shapes(
    shapes: Sequence[BodyShape], hosts: Sequence[int], X: NDArray[Any], within: float
) -> list[tuple[int, int]]:
    """The pairs of shapes whose bounding balls are at most `within` apart, and all with planes.

    **Arguments:** `hosts`, the numbers of their bodies; `X` (bodies, 4, 4), poses of the bodies;
    `within`, m. **Returns:** (i, j) with i < j, in the order of i, then j; those with planes and
    height fields are all there: n for each of these.
    """
    wide = [is_surface(s.shape) for s in shapes]
    small = np.flatnonzero(~np.array(wide, dtype=bool))
    balls = np.zeros((len(small), 4))
    for row, i in zip(balls, small.tolist(), strict=True):
        row[:] = bounding_ball(shapes[i].shape)
        row[:3] = shapes[i].placement.rotation @ row[:3] + shapes[i].placement.translation
    body = np.array([hosts[i] for i in small.tolist()], dtype=np.int64)
    moves = body != WORLD
    P = X[body[moves]]
    balls[moves, :3] = (P[:, :3, :3] @ balls[moves, :3, None])[..., 0] + P[:, :3, 3]
    found = small[near_balls(balls[:, :3], balls[:, 3], within)].tolist()
    pairs = {(i, j) for i, j in found}
    for i in np.flatnonzero(wide).tolist():
        pairs |= {(min(i, j), max(i, j)) for j in range(len(shapes)) if j != i}
    return sorted(pairs)


def near_balls(
    centres: NDArray[Any], radii: NDArray[Any], within: float, layer: Places | None = None
) -> Places:
    """The pairs of balls that are at most `within` apart, in the same layer.

    Balls whose sizes are within a factor of two share a grid; every ball looks into the 27 cells
    around its own, in the grid of its size and in those of larger balls.

    **Arguments:** `centres` (n, 3), `radii` (n,), `within`, m; `layer` (n,), for example the number
    of a configuration. **Returns:** (pairs, 2), i < j, in the order of i, then j. **Cost:** O(n)
    cells per size, sorted; distances of neighbours only.
    """
    reach = radii + within / 2  # balls are near if their centres are at most the sum apart
    level = np.frexp(np.maximum(reach, np.finfo(float).tiny))[1]
    found: list[Places] = []
    place = np.zeros(len(radii), dtype=np.int64) if layer is None else layer
    for size in np.unique(level):
        own, below = np.flatnonzero(level == size), np.flatnonzero(level <= size)
        far = np.abs(centres).max() / _MOST_CELLS
        width = max(_CELL * 2 * reach[own].max(), far, np.finfo(float).tiny)
        cells = np.floor(centres / width).astype(np.int64)
        keys = _key(cells[own], place[own])
        order = np.argsort(keys, kind="stable")
        own, keys = own[order], keys[order]
        for offset in _OFFSETS:
            wanted = _key(cells[below] + offset, place[below])
            first = np.searchsorted(keys, wanted)
            count = np.searchsorted(keys, wanted, side="right") - first
            i = np.repeat(below, count)
            within_cell = np.arange(len(i)) - np.repeat(np.cumsum(count) - count, count)
            j = own[np.repeat(first, count) + within_cell]
            d = centres[i] - centres[j]
            both = radii[i] + radii[j] + within
            near = (i != j) & (place[i] == place[j]) & (np.sum(d * d, axis=1) <= both * both)
            found.append(np.stack([i[near], j[near]], axis=1))
    pairs = np.sort(np.concatenate([np.zeros((0, 2), dtype=np.int64), *found]), axis=1)
    code = np.unique(pairs[:, 0] * len(radii) + pairs[:, 1])  # cells may share a key
    return np.stack(np.divmod(code, max(1, len(radii))), axis=1)


def _key(cells: Places, layer: Places) -> Places:
    """A number for each cell (n, 3) of a layer (n,); far cells may have the same."""
    return np.bitwise_xor.reduce(cells * _PRIMES, axis=1) ^ (layer * _LAYER)
