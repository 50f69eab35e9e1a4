"""Which atoms move together: clusters of a molecule, the bonds that turn, the trees they form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.errors import ModelError

Array = NDArray[Any]
Bond = tuple[int, int]

_ON_LINE = 1e-6  # nm: atoms this near to a line are on it


@dataclass(frozen=True)
class Cluster:
    """Atoms that keep their distances. `bond` (inboard atom, own atom) turns; None at a root.

    `parent` is the place of the inboard cluster in the list, −1 at a root.
    """

    atoms: tuple[int, ...]
    parent: int
    bond: Bond | None


@dataclass(frozen=True)
class ClusterTree:
    """Clusters, parents before children, and the turning bonds that close rings.

    `cuts` close rings too, beside an atom that is alone on the bond before: nothing turns with it.
    """

    clusters: tuple[Cluster, ...]
    closures: tuple[Bond, ...]
    cuts: tuple[Bond, ...] = ()


def cluster_tree(
    positions: Array, bonds: Sequence[Bond], rigid: Iterable[Bond], rings: str
) -> ClusterTree:
    """Split a molecule at the bonds that turn.

    A bond turns if both its atoms have other neighbours, it is not in `rigid`, and it is in no ring
    or `rings` is "loops". A torsion that moves no atom is left out: its cluster is merged with its
    parent. If it would tilt the bond that closes a ring, this bond is cut instead.
    """
    neighbours = neighbours_of(len(positions), bonds)
    stiff = {frozenset(bond) for bond in rigid}
    if rings == "rigid":
        stiff |= {frozenset(bond) for bond in ring_bonds(neighbours)}
    turning = {
        frozenset((i, j))
        for i, j in bonds
        if len(neighbours[i]) > 1 and len(neighbours[j]) > 1 and frozenset((i, j)) not in stiff
    }
    cuts: list[Bond] = []
    while True:
        tree = _spanning(positions, neighbours, turning)
        idle = _without_effect(positions, tree)
        if idle is None or idle.bond is None:
            return replace(tree, cuts=tuple(cuts))
        beside = [bond for bond in tree.closures if set(bond) & set(idle.atoms)]
        if not beside:
            turning.discard(frozenset(idle.bond))
            continue
        i, j = beside[0]
        cuts.append((i, j))
        neighbours[i].discard(j)
        neighbours[j].discard(i)
        turning.discard(frozenset((i, j)))
        turning = {bond for bond in turning if all(len(neighbours[k]) > 1 for k in bond)}


def neighbours_of(atoms: int, bonds: Iterable[Bond]) -> list[set[int]]:
    """The atoms that each atom has bonds to."""
    out: list[set[int]] = [set() for _ in range(atoms)]
    for i, j in bonds:
        out[i].add(j)
        out[j].add(i)
    return out


def ring_bonds(neighbours: Sequence[set[int]]) -> list[Bond]:
    """The bonds on some ring: those that are not bridges (Tarjan, without recursion)."""
    order, low = [-1] * len(neighbours), [0] * len(neighbours)
    bridges: set[frozenset[int]] = set()
    count = 0
    for start in range(len(neighbours)):
        if order[start] >= 0:
            continue
        order[start] = low[start] = count
        count += 1
        stack = [(start, -1, iter(sorted(neighbours[start])))]
        while stack:
            i, parent, rest = stack[-1]
            j = next(rest, None)
            if j is None:
                stack.pop()
                if parent >= 0:
                    low[parent] = min(low[parent], low[i])
                    if low[i] > order[parent]:
                        bridges.add(frozenset((i, parent)))
            elif order[j] < 0:
                order[j] = low[j] = count
                count += 1
                stack.append((j, i, iter(sorted(neighbours[j]))))
            elif j != parent:
                low[i] = min(low[i], order[j])
    every = {frozenset((i, j)) for i, near in enumerate(neighbours) for j in near}
    return [(min(bond), max(bond)) for bond in sorted(every - bridges, key=sorted)]


def on_line(points: Array, through: Array, along: Array) -> bool:
    """Whether all points lie on the line."""
    arm = points - through
    off = arm - np.outer(arm @ along, along)
    return bool(np.abs(off).max(initial=0.0) < _ON_LINE)


def _spanning(
    positions: Array, neighbours: Sequence[set[int]], turning: set[frozenset[int]]
) -> ClusterTree:
    """Clusters and the tree of turning bonds between them, from the largest cluster outwards."""
    home = _connected(neighbours, turning)
    members: dict[int, list[int]] = {}
    for atom, cluster in enumerate(home):
        members.setdefault(cluster, []).append(atom)
    joined: dict[int, list[Bond]] = {cluster: [] for cluster in members}
    for bond in sorted(turning, key=sorted):
        i, j = sorted(bond)
        if home[i] == home[j]:
            continue  # both ends are held by other bonds: it does not turn
        joined[home[i]].append((i, j))
        joined[home[j]].append((j, i))
    found: list[Cluster] = []
    place: dict[int, int] = {}
    closures: list[Bond] = []
    # a cluster off a line first, which has inertia about every axis; then the largest
    for root in sorted(members, key=lambda c: (_is_line(positions[members[c]]), -len(members[c]))):
        if root in place:
            continue
        place[root] = len(found)
        found.append(Cluster(tuple(members[root]), -1, None))
        queue = [root]
        while queue:
            here = queue.pop(0)
            for i, j in joined[here]:
                there = home[j]
                if there not in place:
                    place[there] = len(found)
                    found.append(Cluster(tuple(members[there]), place[here], (i, j)))
                    queue.append(there)
                elif found[place[here]].bond != (j, i) and found[place[there]].bond != (i, j):
                    closures.append((min(i, j), max(i, j)))
    return ClusterTree(tuple(found), tuple(dict.fromkeys(closures)))


def _is_line(points: Array) -> bool:
    return len(points) < 3 or on_line(points, points[0], _direction(points))


def _direction(points: Array) -> Array:
    """That of the farthest point from the first."""
    arms = points - points[0]
    lengths = np.linalg.norm(arms, axis=1)
    return arms[lengths.argmax()] / (lengths.max() or 1.0)


def _connected(neighbours: Sequence[set[int]], turning: set[frozenset[int]]) -> list[int]:
    """The number of each atom's cluster: connected by bonds that do not turn."""
    home = [-1] * len(neighbours)
    for start in range(len(neighbours)):
        if home[start] >= 0:
            continue
        home[start], stack = start, [start]
        while stack:
            i = stack.pop()
            for j in neighbours[i]:
                if home[j] < 0 and frozenset((i, j)) not in turning:
                    home[j] = start
                    stack.append(j)
    return home


def _without_effect(positions: Array, tree: ClusterTree) -> Cluster | None:
    """A cluster whose turning moves no atom and tilts no axis in the tree: without inertia."""
    children: dict[int, list[Cluster]] = {}
    for cluster in tree.clusters:
        children.setdefault(cluster.parent, []).append(cluster)
    for k, cluster in enumerate(tree.clusters):
        if cluster.bond is None:
            continue
        i, j = cluster.bond
        along = unit_bond(positions, i, j)
        outer = [atom for child in children.get(k, []) for atom in child.bond or ()]
        fixed = [*cluster.atoms, *outer]
        if on_line(positions[fixed], positions[j], along):
            return cluster
    return None


def unit_bond(positions: Array, i: int, j: int) -> Array:
    """Direction from atom i to atom j."""
    arm = positions[j] - positions[i]
    length = float(np.linalg.norm(arm))
    if length < _ON_LINE:
        raise ModelError(
            f"atoms {i} and {j} are bonded and at the same place {positions[i].tolist()} nm, so "
            f"their bond has no direction to turn about. Check the positions and their unit (nm)."
        )
    return arm / length
