"""Machine code of `FixedPoint` around the graph of an equation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from phipsi.native import Area, LaneMachine, LawCode, RunKernel
from phipsi.simulation.integrators.fixed_point import FixedPoint


def write_iteration(code: LawCode, callee: Any, args: Sequence[Any]) -> list[Area]:
    """The fixed point of an `Iteration`, in memory."""
    r: RunKernel = code.host
    unknowns, m = callee.unknowns, LaneMachine(r)
    starts = [sum(y.size for y in unknowns[:i]) for i in range(len(unknowns) + 1)]
    x, image = m.array(starts[-1]), m.array(starts[-1], kept=False)
    measures = m.array(len(callee.measures), 2, kept=False)
    areas = [x.area_from(i) for i in starts[:-1]]
    for a, area, y in zip(args, areas, unknowns, strict=False):
        r.each(a, y.size, lambda i, a=a, to=area: code.put(code.entry(a, i), to, i))
    inputs = {y.data[0]: a for y, a in zip(unknowns, areas, strict=True)}
    rest = args[len(unknowns) :]
    inputs |= {y.data[0]: a for y, a in zip(callee.fixed, rest, strict=True)}

    def evaluate() -> None:
        inner = LawCode(r.module, r.e, inputs, r.area, r)
        found = inner.write(callee.body)
        for value, start, y in zip(found, starts, unknowns, strict=False):
            to = image.area_from(start)
            r.each(value, y.size, lambda i, v=value, t=to: inner.put(inner.entry(v, i), t, i))
        parts = found[len(unknowns) :]
        for k, pair in enumerate(zip(parts[::2], parts[1::2], strict=True)):
            for i, value in enumerate(pair):
                measures[k, i] = inner.entry(value, 0)

    FixedPoint(m, x, image, measures, evaluate).solve()
    return areas
