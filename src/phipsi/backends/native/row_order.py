"""The order in which constraint rows are eliminated, and where their matrix stands in memory.

Rows of closures in one tree with a common moving ancestor are coupled; those of different trees are
not. The closures are numbered so that coupled ones stand together (reverse Cuthill–McKee), and of
every row the stretch between its first and its last coupled row is stored: elimination fills
nothing outside of it.
"""

from __future__ import annotations

import numpy as np

from phipsi.model.closures import ClosureSet
from phipsi.model.model import Model

# layout of a row's integers: address of entry (row, place p) is base + p; the place of the row; the
# first and the last place of its stretch; and, by place, the row that stands there
ROW_BASE, ROW_PLACE, ROW_FIRST, ROW_LAST, ROW_AT, N_ROW_INTEGERS = range(6)


def row_table(model: Model, closures: ClosureSet) -> tuple[np.ndarray, int]:
    """(rows, 5) integers, and how many numbers the matrix has."""
    out = np.zeros((closures.n_rows, N_ROW_INTEGERS), dtype=np.int64)
    if not len(closures):
        return out, 0
    coupled = _coupled(model, closures)
    order = _cuthill_mckee(coupled)
    place = np.argsort(order)
    size = np.bincount(closures.row_closure, minlength=len(closures))
    start = np.concatenate([[0], np.cumsum(size[order])])  # by place of the closure
    begins = start[place]  # by closure
    first = np.array([min(place[c] for c in near) for near in coupled])
    last = np.array([max(place[c] for c in near) for near in coupled])
    address = 0
    within = np.zeros(len(closures), dtype=np.int64)
    for p in range(len(closures)):
        c = int(order[p])
        lo, hi = int(start[first[c]]), int(start[last[c] + 1]) - 1
        for row in np.flatnonzero(closures.row_closure == c) if size[c] else []:
            at = int(begins[c] + within[c])
            within[c] += 1
            out[row, :ROW_AT] = address - lo, at, lo, hi
            out[at, ROW_AT] = row
            address += hi - lo + 1
    return out, address


def _coupled(model: Model, closures: ClosureSet) -> list[list[int]]:
    """For every closure those that share a moving body with it, itself included."""
    parent = np.asarray(model.parent)
    moving = np.zeros(model.n_bodies, dtype=np.int64)  # the moving body nearest to the world
    for k, p in enumerate(parent):
        above = moving[p] if p >= 0 else -1
        moving[k] = above if above >= 0 else (k if model.joints[k].nv else -1)
    members: dict[int, list[int]] = {}
    for c, closure in enumerate(closures.closures):
        for body, _ in closure.points:
            if body >= 0 and moving[body] >= 0:
                here = members.setdefault(int(moving[body]), [])
                if not here or here[-1] != c:
                    here.append(c)
    near: list[set[int]] = [{c} for c in range(len(closures))]
    for together in members.values():
        for c in together:
            near[c].update(together)
    return [sorted(s) for s in near]


def _cuthill_mckee(coupled: list[list[int]]) -> np.ndarray:
    """Closures in an order that keeps coupled ones together."""

    def degree(c: int) -> tuple[int, int]:
        return len(coupled[c]), c

    left: set[int] = set(range(len(coupled)))
    order: list[int] = []
    for seed in sorted(left, key=degree):
        if seed not in left:
            continue
        queue = [seed]
        left.discard(seed)
        while queue:
            c = queue.pop(0)
            order.append(c)
            found = sorted([d for d in coupled[c] if d in left], key=degree)
            left.difference_update(found)
            queue += found
    return np.array(order[::-1], dtype=np.int64)
