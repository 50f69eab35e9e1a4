"""Contact problems on arrays in the memory that texts of contact problems work in."""

from __future__ import annotations

from itertools import chain
from typing import Any, cast, final

import numpy as np

from phipsi.contact.solver.contact_problem import Array, ContactProblem
from phipsi.contact.solver.scaled_problem import KINDS, ProblemMemory, order_of, padded
from phipsi.core.machine import BLOCK, ArrayMachine, ArrayMemory, ArrayWords


@final
class GatheredArrays:
    """Problems with one leading axis, as lanes of a machine: all contacts, whether they are there.

    **Attributes:** `m`, `kinds` and `memory`, what texts take; `size`, the padded number of rows.
    """

    def __init__(
        self, problem: ContactProblem, y: Array, results: tuple[int, ...], *, strict: bool = False
    ) -> None:
        layout, count = problem.layout, len(problem.b)
        names = [*layout.contacts, *["normal"] * layout.stops, *["limit"] * layout.limits]
        found, firsts = [x for x in KINDS if x in names], layout.ends[:-1]
        orders = [order_of(KINDS[x]) for x in names]
        rows = [first + t for first, order in zip(firsts, orders, strict=True) for t in order]
        self._layout, self._rows = layout, np.array(rows, int)
        self.size, used = padded(layout.n_rows), layout.n_rows
        n, k = self.size, len(names)
        self.kinds = [KINDS[x] for x in found]
        self.m = m = ArrayMachine(count, strict=strict)
        W, s = np.zeros((count, n, n)), np.zeros((count, k))
        W[:, :used, :used] = problem.W[:, self._rows[:, None], self._rows]
        s[:, : layout.n_heads] = problem.s
        self._y, self._results = self.filled(y), m.array(*results)
        pairs = ((found.index(x), first) for x, first in zip(names, firsts, strict=True))
        self.memory = ProblemMemory(
            W=m.filled(W), free=self.filled(problem.b), s=m.filled(s),
            mu=self.filled(problem.coefficients), y=self._y, results=self._results,
            k=cast(Any, k), n=cast(Any, n), contacts=ArrayWords([*chain(*pairs)]),
            lows=ArrayWords([0] * (n // BLOCK)), ends=ArrayWords([n] * (n // BLOCK)),
        )  # fmt: skip

    def filled(self, x: Array) -> ArrayMemory:
        """Numbers of rows (B, n_rows), as memory."""
        out = np.zeros((len(x), self.size))
        out[:, : len(self._rows)] = x[:, self._rows]
        return self.m.filled(out)

    def rows(self, x: Array) -> Array:
        """Numbers of rows, in the order of the layout."""
        out = np.empty((len(x), len(self._rows)))
        out[:, self._rows] = x[:, : len(self._rows)]
        return out

    def y(self) -> Array:
        """What y is now (B, n_rows)."""
        return self.rows(self._y.lanes_first())

    def results(self) -> Array:
        """What has been found (B, …)."""
        return self._results.lanes_first()
