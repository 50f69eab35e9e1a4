"""M(k) of a body behind a drive and its changes, as full matrices, for `pp.dense`.

Nothing is shared with the sweeps (`sweeps/drive_operations.py`), which use dual numbers. A vector g
of the parent is C = R* g in body axes, and along rates d of the joint, which turns at W d,

    δC{d} = C × W d,     δC{d; e, …} = Σ δC{…} × δW{…} d     over all ways to divide e, …

where δW is that of the hinge map. Formulas: `model/drive.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.backends.dense.configuration import Configuration
from phipsi.model.dual import hinge_axes_along
from phipsi.spatial import skew

Array = NDArray[Any]
Directions = tuple[Array, ...]


def inertia(c: Configuration, k: int, along: Sequence[Array] = ()) -> Array:
    """M(k), or its change along rates of the drive, one after the other."""
    at = _Driven(c, k)
    n, rates = len(at.drive.rates), at.rates(along)
    out = c.zeros(6 + n, 6 + n)
    if not along:
        out[:6, :6] = c.model.inertia_matrices[k]
    above = at.above(rates)
    out[:3, 6:] = above if along else above + at.own
    out[6:, :3] = out[:3, 6:].T
    if not at.drive.across:
        half = c.zeros(n, n)
        for some, others in parts(rates):
            half = half + at.turns(some)[:, list(at.drive.rates)].T @ at.above(others)
        out[6:, 6:] = (0 if along else at.pairs) - half - half.T
    return out


class _Driven:
    """One body behind a drive."""

    def __init__(self, c: Configuration, k: int) -> None:
        hinge: Any = c.model.joints[k]
        self.c, self.k, self.joint, self.drive = c, k, hinge.joint, hinge.drive
        self.own, n = c.array(np.array(self.drive.own).T), len(self.drive.rates)
        self.pairs = c.zeros(n, n)
        if self.drive.pairs:
            self.pairs[np.tril_indices(n, -1)] = self.drive.pairs
        self.pairs = self.pairs + self.pairs.T

    def rates(self, along: Sequence[Array]) -> Directions:
        """Rates of the drive as those of the joint."""
        out: list[Array] = []
        for x in along:
            rates = self.c.zeros(self.joint.nv)
            rates[list(self.drive.rates)] = x
            out.append(rates)
        return tuple(out)

    def turns(self, along: Directions) -> Array:
        """W, or its change: the upper half of the hinge map."""
        given = [self.c.scalars(x) for x in along]
        q = self.c.joint_q(self.k)
        columns = hinge_axes_along(self.joint, self.joint.params, q, given, self.c.ops)
        return self.c.array(columns)[:3]

    def above(self, along: Directions) -> Array:
        """C_p, or its change."""
        if not along:
            placed = self.c.model.placement_rotations[self.k]
            turn = placed.T @ self.c.from_port[self.k][0]
            return turn.T @ self.c.array(np.array(self.drive.above).T)
        out = self.c.zeros(3, len(self.drive.rates))
        for some, others in parts(along[1:]):
            spin = self.turns(others) @ along[0]
            out = out - skew(spin) @ self.above(some)
        return out


def parts(along: Directions) -> Iterator[tuple[Directions, Directions]]:
    """All ways to divide directions in two, in their order."""
    every = range(len(along))
    for count in range(len(along) + 1):
        for one in combinations(every, count):
            some = tuple(along[i] for i in one)
            yield some, tuple(along[i] for i in every if i not in one)
