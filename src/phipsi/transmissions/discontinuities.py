"""Where functions with branches jump: no motion follows them there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from phipsi.core.constraints import Array

# Of the largest differences between neighbours so many are looked at, halved so often.
_CANDIDATES, _HALVINGS = 64, 42
_SIZE = 1e-6  # of a jump, as a part of the largest value


class Discontinuity(NamedTuple):
    """A jump: `at` an argument, the values on both sides."""

    at: float
    before: float
    after: float


TIMES = np.concatenate([np.linspace(0.0, 20.0, 4001)[1:], np.geomspace(20.0, 1e3, 2001)[1:]])
COORDINATES = np.linspace(-10.0, 10.0, 4002)


def jump_of(function: Callable[[Array], Any], x: Array) -> Discontinuity | None:
    """The first jump of a function of one number that is found between the numbers x (n,), or None.

    The intervals of the largest differences are halved again and again, always to the half with the
    larger difference: that of a continuous function shrinks, a jump stays. Poles are no jumps.
    What begins and ends between two numbers is not seen. **Cost:** 42 calls with 64 numbers.
    """

    def values(x: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.array(np.broadcast_to(function(x), x.shape), dtype=float)

    f = values(x)
    first = np.abs(np.diff(f))
    usual = np.isfinite(first)
    places = np.argsort(np.where(usual, -first, np.inf), kind="stable")[:_CANDIDATES]
    places = np.sort(places[usual[places]])
    a, b, fa, fb = x[places], x[places + 1], f[places], f[places + 1]
    for _ in range(_HALVINGS):
        middle = (a + b) / 2
        fm = values(middle)
        left = np.abs(fm - fa) >= np.abs(fb - fm)
        a, fa = np.where(left, a, middle), np.where(left, fa, fm)
        b, fb = np.where(left, middle, b), np.where(left, fm, fb)
    size = np.abs(fb - fa)
    largest = np.abs(f[np.isfinite(f)]).max(initial=0.0)
    for k in np.flatnonzero((size > _SIZE * largest) & (size < 2 * first[places])):
        return Discontinuity(float(b[k]), float(fa[k]), float(fb[k]))
    return None
