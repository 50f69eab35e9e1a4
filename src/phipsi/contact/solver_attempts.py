"""In which order a contact problem is tried: Newton's method, interior point, convex problems.

`ATTEMPTS` is the order. Arrays (`cone_solver`) and machine code (`cone_code`) go through it until
the residual is small enough; a problem that is left after the last attempt is unsolved.

**Source:** theory/contact 5, 7.
"""

from __future__ import annotations

from typing import NamedTuple

from phipsi.contact.newton import POLISHED, PROXIMAL

STARTS = (1.0, 1e5, 30.0, 3.0, 1000.0, 0.1)
"""Sizes of first points that are tried one after the other: heavy bodies on light ones need large
ones."""
CONVEX_ROUNDS = 8
"""Convex problems that are solved one after the other."""
CONVEX_START = 1000.0
"""Size of their first points. From points of size 1, the interior point may end short of the
solution where a light body is between heavy ones, and rounds converge to what is none."""
FREE_STEPS = (1e-8, 1e-9, 1e-10, 1e-7, 1e-8, 1e-9, 1e-6, 1e-7)
"""ε of attempts with full steps, each from the best point so far."""


class Attempt(NamedTuple):
    """How a problem is tried: by Newton's method with ε, or by the interior point.

    `size` of the first point of the interior point, 0 for Newton's method alone; it polishes what
    the interior point finds, or with `again` the best point so far. `is_convex`, of a convex
    problem. `is_free`, with full steps of Newton's method only, from the best point.
    """

    size: float = 0.0
    eps: float = POLISHED
    is_convex: bool = False
    again: bool = False
    is_free: bool = False

    @property
    def polishes(self) -> bool:
        """Whether Newton's method begins near a solution."""
        return self.size > 0 or self.again


ATTEMPTS = (
    Attempt(eps=PROXIMAL),
    Attempt(STARTS[0]),
    Attempt(eps=1e-11),  # from no impulses
    Attempt(STARTS[1]),
    Attempt(eps=1e-9, again=True),
    Attempt(eps=1e-11, again=True),
    *[Attempt(CONVEX_START, is_convex=True)] * CONVEX_ROUNDS,
    *map(Attempt, STARTS[2:]),
    Attempt(eps=1e-10, again=True),
    *(Attempt(eps=x, again=True, is_free=True) for x in FREE_STEPS),
)
CONVEX = range(6, 6 + CONVEX_ROUNDS)
"""The numbers of the convex attempts."""
FREE = next(i for i, x in enumerate(ATTEMPTS) if x.is_free)
"""The number of the first attempt with full steps; those after it have them too."""
