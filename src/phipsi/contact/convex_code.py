"""Machine code of convex problems: what stands for Σ |z_g| in the interior point; see `Rounds`."""

from __future__ import annotations

from typing import Any, final

from phipsi.backends.native.text.lane_arithmetic import Lane, i64
from phipsi.contact.interior_point import CENTRED, CONVEX_CENTRED
from phipsi.contact.lane_cones import HEAD, ConeLanes, Kind

SLIDING, _BEFORE, _OFF_BEFORE, _OFF = range(HEAD + 5, HEAD + 9)
"""Numbers of a contact: what stands for Σ |z_g|; what it was; how far it was off then, and is."""


@final
class ConvexCode:
    """Writes what an interior point begins with.

    **Attributes:** `slides`, 1 where |z_g| follows from z, 0 in convex problems; `centred`, the κ
    at which iterations end.
    """

    def __init__(self, m: ConeLanes) -> None:
        self.m, self.e, self.b = m, m.e, m.b
        self.slides, self.centred, self._total, self._square = (
            m.b.alloca(m.e.vector) for _ in range(4)
        )

    def let_slide(self) -> None:
        """|z_t| follows from z: the problem itself."""
        m = self.m
        m.store(1.0, self.slides)
        m.store(CENTRED, self.centred)
        m.each_contact(lambda kind, i, first: m.store(0.0, m.of(i, SLIDING)))

    def hold_sliding(self, number: Any) -> None:
        """The convex problem of this number: what stands for Σ |z_g|; see `Rounds`."""
        m, e, b = self.m, self.e, self.b
        m.store(0.0, self.slides)
        m.store(CONVEX_CENTRED, self.centred)
        total, square = self._total, self._square
        for place in (total, square):
            m.store(0.0, place)

        def error(kind: Kind, i: Any, first: Any) -> None:
            found = e.constant(0.0)
            if kind.has_head:
                for c, group in zip(m.coefficients(kind, i), kind.groups, strict=True):
                    found = c.times_plus(m.length(m.rows(m.z, first, group)), found)
            off = found - m.load(m.of(i, SLIDING))
            turn = off - m.load(m.of(i, _OFF_BEFORE))
            m.store(off, m.of(i, _OFF))
            m.store(off.times_plus(turn, m.load(total)), total)
            m.store(turn.times_plus(turn, m.load(square)), square)

        def clear(kind: Kind, i: Any, first: Any) -> None:
            for what in (SLIDING, _BEFORE, _OFF_BEFORE):
                m.store(0.0, m.of(i, what))

        def advance(kind: Kind, i: Any, first: Any) -> None:
            now, before, off, old = (
                m.load(m.of(i, x)) for x in (SLIDING, _BEFORE, _OFF, _OFF_BEFORE)
            )
            there = m.load(square)
            part = m.load(total) / e.select(e.compare(">", there, 0.0), there, 1.0)
            is_second = b.icmp_signed("==", number, i64(1))
            part = Lane(e, b.select(is_second, e.constant(0.0).value, part.value))
            new = now + off - part * (now - before + off - old)
            m.store(now, m.of(i, _BEFORE))
            m.store(off, m.of(i, _OFF_BEFORE))
            m.store(m.larger(new, e.constant(0.0)), m.of(i, SLIDING))

        with b.if_else(b.icmp_signed("==", number, i64(0))) as (begins, goes_on):
            with begins:
                m.each_contact(clear)
            with goes_on:
                m.each_contact(error)
                m.each_contact(advance)
