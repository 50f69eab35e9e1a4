"""Contact problems whose W = C Λ C* is computed where the solver wants it, as calls in graphs.

`Delassus` and `ConeCall` in one: blocks of W go to the rows of the contacts that are there, in the
order of elimination, instead of to all rows and from there to these. The bits are the same.

**Source:** theory/contact 1, 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.contact.cone_calls import ConeCall
from phipsi.contact.contact_rows import RowPlan
from phipsi.contact.delassus import Delassus
from phipsi.laws import law_operations as ops
from phipsi.laws.calls import Callee, call
from phipsi.laws.graph import Node

Array = NDArray[Any]
_FACTORS = 5  # arguments of `Delassus`


def fits(cone: ConeCall) -> bool:
    """Whether W is needed once, and between contacts only."""
    layout = cone.layout
    return not (cone.rebounds or layout.stops or layout.limits)


@final
class RowCones(Callee):
    """C_a, C_b, Λ, s, compliance; b, s, coefficients, start → the results of a `ConeCall`."""

    takes_views = True

    def __init__(self, plan: RowPlan, cone: ConeCall) -> None:
        self._delassus, self._cone = Delassus(plan), cone
        self.shapes = cone.shapes
        self.key = ("rows", self._delassus.key, cone.key)
        self.name = f"{self._delassus.name} {cone.name}"

    def arrays(self, *args: Array) -> Sequence[Array]:
        """One after the other."""
        (W,) = self._delassus.arrays(*args[:_FACTORS])
        return self._cone.arrays(W, *args[_FACTORS:])

    def pull(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """As of both."""
        if weights[0] is None:
            return [None] * len(args)
        factors, given = args[:_FACTORS], args[_FACTORS:]
        (W,) = call(self._delassus, *factors)
        left, p, *others = self._cone.pulled((W, *given), results, weights[0])
        i, j = np.indices((p.size, p.size))
        outer = ops.apply("mul", ops.pick(left, i), ops.pick(p, j))
        return [*self._delassus.pull(factors, (W,), [outer]), *others, None]

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """List the contacts that are there in some lane, compute their W, solve, and scatter."""
        factors = args[:_FACTORS]
        return self._cone.written(
            code, args[_FACTORS:], lambda group: self._delassus.write_into(code, factors, group)
        )
