"""Degrees of freedom by their level: how many there are above them on their path.

No body moves with two that have the same level, because none is on the path of the other. What is
bilinear in rates of bodies can therefore be found for all of a level at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.model.model import Model

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Levels:
    """Unit rates of all levels (levels, nv), and where a symmetric tensor is found.

    `places` (nv, nv, nv): with D[l] (nv, nv) the tensor C contracted with the rates of level l,
    C[i, j, k] is number `places[i, j, k]` of D. Of j and k the one above gives the level and the
    other the column; if neither is above the other, the entry is one that is always zero.
    """

    units: Array
    places: Array

    @property
    def worth_it(self) -> bool:
        """Whether levels are so much fewer than degrees of freedom that collecting pays."""
        levels, nv = self.units.shape
        return 2 * levels <= nv


def dof_levels(model: Model) -> Levels:
    """The levels of a model's degrees of freedom."""
    return model.cached(Levels, lambda: _levels(model))


def _levels(model: Model) -> Levels:
    nv = model.nv
    bodies = np.repeat(np.arange(model.n_bodies), [joint.nv for joint in model.joints])
    # [j, k]: k is on the path of j, or j itself; of one joint those before it
    above = np.tril(model.tree.on_path(bodies[None, :], bodies[:, None]))
    level = above.sum(axis=1) - 1
    units = (level == np.arange(level.max(initial=-1) + 1)[:, None]).astype(float)
    i, j, k = np.indices((nv, nv, nv))
    upper, lower = np.where(above[j, k], k, j), np.where(above[j, k], j, k)
    places = (level[upper] * nv + i) * nv + lower
    related = above | above.T
    if not related.all():
        a, b = np.argwhere(~related)[0]
        places = np.where(related[j, k], places, a * nv + b)
    return Levels(units, places)
