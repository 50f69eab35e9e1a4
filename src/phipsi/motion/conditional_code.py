"""Machine code of conditional parts: the code of their graph behind a branch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from phipsi.backends.native.kernel.law_code import Area, LawCode
from phipsi.backends.native.text.lane_arithmetic import i64, write_loop

if TYPE_CHECKING:
    from phipsi.motion.run_code import Run


def write_conditional(code: LawCode, callee: Any, args: Sequence[Any]) -> list[Area]:
    """The results of a `Conditional`, in memory."""
    r: Run = code.host
    b, e = r.b, r.e
    sizes = [max(1, math.prod(shape)) for shape in callee.shapes]
    out = [code.area(size) for size in sizes]
    for area, size in zip(out, sizes, strict=True):
        write_loop(b, i64(size), lambda i, area=area: code.put(e.constant(0.0), area, i))
    holds = e.compare("!=", code.entry(args[0], 0), 0.0)
    inputs = {x.data[0]: a for x, a in zip(callee.inputs, args[1:], strict=True)}
    with b.if_then(b.not_(r.all(b.not_(holds)))):
        inner = LawCode(r.module, e, inputs, r.area, r)
        for value, area, size in zip(inner.write(callee.body), out, sizes, strict=True):

            def keep(i: Any, value: Any = value, area: Area = area) -> None:
                inner.put(e.select(holds, inner.entry(value, i), 0.0), area, i)

            r.each(value, size, keep)
    return out
