"""Drive: rotors at a joint whose effect is not that of constant inertias.

Rotors with the moments I, the axes u and the ratios N turn with the rates v of the joint of body k.
Beyond armature, those on the parent p and those on the body itself add to the kinetic energy

    v* g_p* ω_p + v* g_k* ω_k + ½ v* A v           g = Σ I u N,  A = Σ I N* N without its diagonal

A body with a row for each of these rates, V(k) = [ω; v; rates], has all of this in its own block:
ω_p = R (ω_k − W v), where R turns the axes of k into those of p, and W v is how the joint turns, so

    M(k) = [[J, s~, C], [−s~, m, 0], [C*, 0, A − W* C_p − C_p* W]],   C = C_p + g_k,  C_p = R* g_p

and H(k) = [H_J, 1]: the rows move as the rates do. M(k) changes with q of its own joint alone; all
rates that turn the body have a row, and the rates are those of coordinates. For a joint with one
turning rate, the part of g_p along its axis is constant inertias instead (`rotor_inertias.py`), so
that W* C_p = 0.

Reasons: docs/decisions/0060.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


class Drive(NamedTuple):
    """The rates of a joint that have rows, in its own numbering, and the numbers of its rotors.

    `above`, a vector g_p for each row, in the axes of the joint on the parent; `own`, g_k in body
    axes; `pairs`, the lower half of A below its diagonal, row by row. All in kg·m² times ratio.
    `across`: there is one rate, and `above` is at right angles to its axis.
    """

    rates: tuple[int, ...]
    above: tuple[tuple[float, float, float], ...]
    own: tuple[tuple[float, float, float], ...]
    pairs: tuple[float, ...] = ()
    across: bool = False

    @property
    def numbers(self) -> list[float]:
        """All that is not known to be zero: `above`, `own`, `pairs`."""
        both = [g for vectors in (self.above, self.own) for g in vectors if any(g)]
        return [*(x for g in both for x in g), *(x for x in self.pairs if x)]

    @property
    def kinds(self) -> tuple[str, ...]:
        """What `numbers` are: vectors, then plain numbers."""
        vectors = sum(any(g) for g in (*self.above, *self.own))
        return (*("axis",) * vectors, *("number",) * sum(x != 0 for x in self.pairs))

    @property
    def formulas(self) -> str:
        """What formulas depend on: the rows, and which numbers are there."""
        there = (*(any(g) for g in (*self.above, *self.own)), *(x != 0 for x in self.pairs))
        across = " across" if self.across else ""
        return f"of {self.rates}{across}, {''.join('01'[x] for x in there)}"
