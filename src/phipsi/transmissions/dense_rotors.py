"""Blocks of bodies behind rotors on skew axes as full matrices for `pp.evaluate_dense`.

Nothing is shared with the operations (`rotor_blocks.py`, `rotor_operations.py`), which use dual
numbers. A vector g of the parent is C = R* g in body axes, and along rates d of the joint,

    δC{d} = C × W d,     δC{d; e, …} = Σ δC{…} × δW{…} d     over all ways to divide e, …

where δW is that of the hinge map. Formulas: `skew_rotors.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.core.dense import Configuration, ways_to_divide
from phipsi.core.model import hinge_axes_along
from phipsi.core.spatial import skew

Array = NDArray[Any]
Directions = tuple[Array, ...]


def inertia(c: Configuration, k: int, along: Sequence[Array] = ()) -> Array:
    """M(k), or its change along rates of the rows, one after the other."""
    at = _BehindRotors(c, k)
    n, rates = len(at.rotors.rates), at.rates(along)
    out = c.zeros(6 + n, 6 + n)
    if not along:
        out[:6, :6] = c.model.inertia_matrices[k]
    above = at.above(rates)
    out[:3, 6:] = above if along else above + at.own
    out[6:, :3] = out[:3, 6:].T
    if not at.rotors.across:
        half = c.zeros(n, n)
        for some, others in ways_to_divide(rates):
            half = half + at.turns(some)[:, list(at.rotors.rates)].T @ at.above(others)
        out[6:, 6:] = (0 if along else at.pairs) - half - half.T
    return out


class _BehindRotors:
    """One body behind rotors on skew axes."""

    def __init__(self, c: Configuration, k: int) -> None:
        hinge: Any = c.model.joints[k]
        self.c, self.k, self.joint, self.rotors = c, k, hinge.joint, hinge.rate_rows
        self.own, n = c.array(np.array(self.rotors.own).T), len(self.rotors.rates)
        self.pairs = c.zeros(n, n)
        if self.rotors.pairs:
            self.pairs[np.tril_indices(n, -1)] = self.rotors.pairs
        self.pairs = self.pairs + self.pairs.T

    def rates(self, along: Sequence[Array]) -> Directions:
        """Rates of the rows as those of the joint."""
        out: list[Array] = []
        for x in along:
            rates = self.c.zeros(self.joint.nv)
            rates[list(self.rotors.rates)] = x
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
            return turn.T @ self.c.array(np.array(self.rotors.above).T)
        out = self.c.zeros(3, len(self.rotors.rates))
        for some, others in ways_to_divide(along[1:]):
            spin = self.turns(others) @ along[0]
            out = out - skew(spin) @ self.above(some)
        return out
