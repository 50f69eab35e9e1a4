"""Machine code of iterations: the body of an equation in a loop, lane by lane."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from phipsi.backends.native.kernel.law_code import Area, LawCode
from phipsi.backends.native.text import llvm_text as ir
from phipsi.backends.native.text.lane_arithmetic import Lane, i64, write_loop
from phipsi.motion.implicit import CONVERGED, ITERATIONS, LEAST_FACTOR, STALLED, UNSOLVED

if TYPE_CHECKING:
    from phipsi.motion.run_code import Run


def write_iteration(code: LawCode, callee: Any, args: Sequence[Any]) -> list[Area]:
    """The fixed point of an `Iteration`, in memory.

    A lane that has converged is left alone while others go on, so that what it gets does not depend
    on its neighbours. Lanes that have failed before are not worth iterations.
    """
    r: Run = code.host
    b, e, unknowns = r.b, r.e, callee.unknowns
    x = [r.copied(code, a, y.size) for a, y in zip(args, unknowns, strict=False)]
    inputs = {y.data[0]: a for y, a in zip(unknowns, x, strict=True)}
    rest = args[len(unknowns) :]
    inputs |= {y.data[0]: a for y, a in zip(callee.fixed, rest, strict=True)}
    before = [r.area(1) for _ in callee.measures]
    for place in before:
        b.store(e.constant(math.inf).value, place, align=8)
    done, ones = r.area(1), e.integer(1)
    over = b.icmp_signed("!=", b.load(r.failed, typ=e.integers), r.zero)
    b.store(b.select(over, ones, r.zero), done, align=8)

    def finished() -> Any:
        return b.icmp_signed("==", b.load(done, align=8, typ=e.integers), ones)

    def once(_: Any) -> None:
        old = finished()
        with b.if_then(b.not_(_in_all_lanes(r, old))):
            inner = LawCode(r.module, e, inputs, r.area, r)
            found = inner.write(callee.body)
            parts = found[len(unknowns) :]
            ends = e.compare("==", 0.0, 0.0)
            for change, size, place in zip(parts[::2], parts[1::2], before, strict=True):
                good = _has_converged(r, inner.entry(change, 0), inner.entry(size, 0), place)
                ends = b.and_(ends, good)
            # all new values, before the old ones change
            new = [
                r.copied(inner, value, y.size) if isinstance(value, Area) else value
                for value, y in zip(found, unknowns, strict=False)
            ]
            for value, area, y in zip(new, x, unknowns, strict=True):

                def keep(i: Any, value: Any = value, area: Area = area) -> None:
                    inner.put(e.select(old, code.entry(area, i), inner.entry(value, i)), area, i)

                r.each(value, y.size, keep)
            ends = b.or_(ends, b.icmp_signed("!=", r.bad(), r.zero))
            b.store(b.select(b.or_(ends, old), ones, r.zero), done, align=8)

    write_loop(b, i64(ITERATIONS), once)
    r.note(b.select(finished(), r.zero, e.integer(UNSOLVED)))
    return x


def _in_all_lanes(r: Run, mask: Any) -> Any:
    """Whether a condition holds in every lane."""
    width = ir.IntType(r.lanes)
    return r.b.icmp_unsigned("==", r.b.bitcast(mask, width), ir.Constant(width, 2**r.lanes - 1))


def _has_converged(r: Run, change: Lane, size: Lane, before: Any) -> Any:
    """Where the error that is left is rounding, from this change and the one before it."""
    b, e = r.b, r.e
    last = Lane(e, b.load(before, align=8, typ=e.vector))
    ratio = change / last
    factor = e.select(e.compare(">=", ratio, LEAST_FACTOR), ratio, LEAST_FACTOR)
    good = e.compare("<=", change * factor, size * CONVERGED)
    stopped = e.compare(">=", change, last)
    b.store(change.value, before, align=8)
    return b.or_(good, b.and_(stopped, e.compare("<=", change, size * STALLED)))
