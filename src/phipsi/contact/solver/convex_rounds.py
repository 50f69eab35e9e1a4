"""Convex contact problems, one after the other, which the interior point solves.

The last resort are **convex** problems, in which a known number stands for Σ |z_g|: they are solved
from any start. Their solutions give the next number; these rounds converge where bodies are wedged
or land on many points at once, and Newton's method and the interior point do not. Two rounds
give the direction of the next (Anderson's method).

**Source:** theory/contact 2 (K3c), 5; Acary, Cadoux, Lemaréchal and Malick 2011.
"""

from __future__ import annotations

from typing import Any, final

from phipsi.contact.solver.scaled_problem import HEAD, RowPattern, ScaledProblem
from phipsi.core.machine import Index, Number

# numbers of a contact: what stands for Σ |z_g|; what it was; how far it was off then, and is
SLIDING, _BEFORE, _OFF_BEFORE, _OFF = range(HEAD + 5, HEAD + 9)


@final
class Sliding:
    """What stands for Σ |z_g| in convex problems, from those before.

    **Attributes:** `slides`, one where |z_g| follows from z, zero in convex problems.
    """

    def __init__(self, x: ScaledProblem) -> None:
        self.x, self.m = x, x.m
        self.slides = x.m.number()

    def set_sliding(self) -> None:
        """|z_t| follows from z: the problem itself."""
        self.slides.value = 1.0
        self._clear(SLIDING)

    def hold(self, number: Number) -> None:
        """The convex problem of this number: what stands for Σ |z_g|."""
        m, x = self.m, self.x
        self.slides.value = 0.0
        m.when(number <= 0.0)(lambda: self._clear(SLIDING, _BEFORE, _OFF_BEFORE))

        @m.when(number > 0.0)
        def _() -> None:
            x.each_contact(self._error)
            total, square = (m.total(0, x.k, term) for term in (self._step, self._turn))
            part = total / m.where(square > 0.0, square, 1.0)
            self._advance(m.where(number > 1.0, part, 0.0))

    def _clear(self, *slots: int) -> None:
        @self.m.each(0, self.x.k)
        def _(i: Index) -> None:
            for slot in slots:
                self.x.of[i, slot] = 0.0

    def _error(self, kind: RowPattern, i: Index, first: Index) -> None:
        m, x = self.m, self.x
        found: Any = 0.0
        if kind.has_head:
            for c, group in zip(x.coefficients(kind, i), kind.groups, strict=True):
                found = m.fma(c, x.length(x.rows(x.z, first, group)), found)
        x.of[i, _OFF] = found - x.of[i, SLIDING]

    def _changed(self, i: Index) -> Number:
        return self.x.of[i, _OFF] - self.x.of[i, _OFF_BEFORE]

    def _step(self, i: Index) -> tuple[Number, Number]:
        return self.x.of[i, _OFF], self._changed(i)

    def _turn(self, i: Index) -> tuple[Number, Number]:
        return self._changed(i), self._changed(i)

    def _advance(self, part: Number) -> None:
        of = self.x.of

        @self.m.each(0, self.x.k)
        def _(i: Index) -> None:
            now, before, off, old = (of[i, x] for x in (SLIDING, _BEFORE, _OFF, _OFF_BEFORE))
            new = now + off - part * (now - before + off - old)
            of[i, _BEFORE], of[i, _OFF_BEFORE] = now, off
            of[i, SLIDING] = self.x.larger(new, 0.0)
