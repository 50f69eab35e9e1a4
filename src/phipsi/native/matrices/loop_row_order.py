"""The order in which constraint rows are eliminated, and where their matrix stands in memory.

Rows are coupled where the paths of their points meet in a moving body. Where several loops hang on
one body h, all of them meet there, and A Λ A* is full. With the admittance Υ(h) of that body kept
apart (a *hub*), what is left has no coupling between its branches:

    A Λ A* f = r    ⇔    [ S    X* Υ ] [f]   [r]
                         [ Υ X   −Υ  ] [z] = [0]

X being what the columns have at h and S what they would have if h stood still. Loops closed within
the subtree of h are eliminated before z, all others after it; a row of S depends on others exactly
if it does so in A Λ A*. This is constraint embedding, written as an order of elimination.

Closures and hubs are blocks of rows. Blocks are ordered so that coupled ones stand together, and of
every block the stretch from its first coupled row to its own last one is stored: elimination fills
nothing outside of it.

Reasons: docs/decisions/0023.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from phipsi.core.model import ClosureSet, Model

# layout of a row's integers: address of entry (row, place p) is base + p; the place of the row; the
# first place of its stretch; the width of its stretch; the block; and, by place, the row there
ROW_BASE, ROW_PLACE, ROW_FIRST, ROW_WIDTH, ROW_BLOCK, ROW_AT, N_ROW_INTEGERS = range(7)


@dataclass(frozen=True, eq=False)
class RowOrder:
    """`rows` (places, 6) integers, those of hubs last; `entries` numbers; `hubs`, their bodies."""

    rows: np.ndarray
    entries: int
    hubs: np.ndarray


def row_order(model: Model, closures: ClosureSet, *, with_hubs: bool) -> RowOrder:
    """The order of all rows, with or without hubs."""
    paths = [_paths(model, c.points if c.rows else ()) for c in closures.closures]
    hubs = _hubs(model, closures) if with_hubs else []
    relative = [c.matrix is None for c in closures.closures]
    coupled = _coupled(model, paths, hubs)
    order = _ordered(coupled, _groups(paths, relative, hubs))
    n = len(closures)
    size: NDArray[np.int64] = np.zeros(n + len(hubs), dtype=np.int64)
    size[:n] = np.bincount(closures.row_closure, minlength=n) if n else 0
    size[n:] = 6
    members: list[list[int]] = [[] for _ in size]
    for row, c in enumerate(closures.row_closure):
        members[int(c)].append(row)
    for i in range(len(hubs)):
        members[n + i] = [closures.n_rows + 6 * i + j for j in range(6)]
    begins = np.zeros(len(size), dtype=np.int64)  # by block
    begins[order] = np.concatenate([[0], np.cumsum(size[order])[:-1]]) if len(size) else 0
    out = np.zeros((int(size.sum()), N_ROW_INTEGERS), dtype=np.int64)
    address = 0
    for place, block in enumerate(map(int, order)):
        first = min(int(begins[other]) for other in (*coupled[block], block))
        width = int(begins[block] + size[block]) - first
        for i, row in enumerate(members[block]):
            at = int(begins[block]) + i
            out[row, :ROW_AT] = address - first, at, first, width, place
            out[at, ROW_AT] = row
            address += width
    return RowOrder(out, address, np.array(hubs, dtype=np.int64))


Path = list[int]


def _paths(model: Model, points: tuple[tuple[int, object], ...]) -> list[Path]:
    """The bodies from every point to its root."""
    out: list[Path] = []
    for body, _ in points:
        path: Path = []
        while body >= 0:
            path.append(body)
            body = model.parent[body]
        out.append(path)
    return out


def _hubs(model: Model, closures: ClosureSet) -> list[int]:
    """Moving bodies in whose subtree at least two loops close, and in no smaller one."""
    count: dict[int, int] = {}
    moving = _moving(model)
    for closure in closures.closures:
        if closure.matrix is not None:
            continue  # constant rows may bind more than the motion of bodies relative to each other
        top = _common(model, [body for body, _ in closure.points])
        if top >= 0 and moving[top] >= 0:
            count[top] = count.get(top, 0) + 1
    return sorted((body for body, n in count.items() if n > 1), reverse=True)


def _common(model: Model, bodies: list[int]) -> int:
    """The nearest common ancestor of bodies; −1 is the world."""
    top = bodies[0]
    for body in bodies[1:]:
        if top < 0 or body < 0:
            return -1
        top = model.tree.nearest_common_ancestor(top, body)
    return top


def _moving(model: Model) -> np.ndarray:
    """For every body the moving body nearest to the world on its path, −1 if all stand still."""
    out = np.zeros(model.n_bodies, dtype=np.int64)
    for k, p in enumerate(model.parent):
        above = out[p] if p >= 0 else -1
        out[k] = above if above >= 0 else (k if model.joints[k].nv else -1)
    return out


def _coupled(model: Model, paths: list[list[Path]], hubs: list[int]) -> list[set[int]]:
    """Blocks that each block is coupled with."""
    n, moving = len(paths), _moving(model)
    number = {body: n + i for i, body in enumerate(hubs)}
    near: list[set[int]] = [set() for _ in range(n + len(hubs))]
    # in a region between hubs, closures meet unless they have come through the same hub
    visits: dict[int, dict[int, set[int]]] = {}
    for c, of_points in enumerate(paths):
        for path in of_points:
            entry, region = -1 - (path[0] if path else 0), -1
            for body in path:
                if body in number:
                    if region >= 0:
                        visits.setdefault(region, {}).setdefault(entry, set()).add(c)
                    near[c].add(number[body])
                    near[number[body]].add(c)
                    entry, region = body, -1
                elif moving[body] >= 0:
                    region = body  # the last one is the region's top
            if region >= 0:
                visits.setdefault(region, {}).setdefault(entry, set()).add(c)
    for entries in visits.values():
        loose = set[int]().union(*(s for e, s in entries.items() if e < 0))
        by_hub = [s for e, s in entries.items() if e >= 0]
        for c in loose:
            near[c] |= loose
        for i, mine in enumerate(by_hub):
            for others in (loose, *by_hub[:i], *by_hub[i + 1 :]):
                for c in mine:
                    near[c] |= others
                for c in others:
                    near[c] |= mine
    return near


def _groups(paths: list[list[Path]], relative: list[bool], hubs: list[int]) -> list[list[int]]:
    """Loops within the subtree of each hub, from the tips; then all others."""
    left = list(range(len(paths)))
    out: list[list[int]] = []
    for body in hubs:  # from the tips
        inside = [c for c in left if relative[c] and all(body in path for path in paths[c])]
        left = [c for c in left if c not in set(inside)]
        out += [inside, [len(paths) + hubs.index(body)]]
    return [*out, left]


def _ordered(coupled: list[set[int]], groups: list[list[int]]) -> np.ndarray:
    """Group after group, each in an order that keeps coupled blocks together (Cuthill–McKee)."""

    def degree(c: int) -> tuple[int, int]:
        return len(coupled[c]), c

    order: list[int] = []
    for group in groups:
        left: set[int] = set(group)
        mine: list[int] = []
        for seed in sorted(left, key=degree):
            if seed not in left:
                continue
            queue = [seed]
            left.discard(seed)
            while queue:
                c = queue.pop(0)
                mine.append(c)
                found = sorted(coupled[c] & left, key=degree)
                left.difference_update(found)
                queue += found
        order += mine[::-1]
    return np.array(order, dtype=np.int64)
