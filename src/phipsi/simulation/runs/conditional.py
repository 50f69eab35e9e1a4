"""Parts of a graph that are computed only if some trajectory needs them.

In lanes a part is skipped when no lane needs it; a lane that does not gets zeros whatever its
neighbours need, so that its bits do not depend on them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from phipsi.core.arrays import (
    Array,
    Node,
    Primitive,
    adjoints,
    call,
    evaluate,
    graph_digest,
    in_order,
    law_operations as ops,
    substituted,
)
from phipsi.native import Area, LaneMachine, LawCode, RunKernel


def where_needed(
    condition: Node, fixed: Sequence[Node], results: Sequence[Node]
) -> tuple[Node, ...]:
    """Results where the condition () is not zero, and zeros elsewhere.

    `fixed` are nodes that are computed in any case; what else the results need is computed only
    where the condition holds.
    """
    fixed = list(dict.fromkeys(fixed))
    known = {x: ops.input(f"fixed {i}", x.shape) for i, x in enumerate(fixed)}
    body = substituted(list(results), known)
    inner = set(known.values())
    inputs = [x for x in in_order(body) if x.operation.name == "input" and x not in inner]
    return call(Conditional((*known.values(), *inputs), tuple(body)), condition, *fixed, *inputs)


@final
class Conditional(Primitive):
    """A graph under a condition: condition, inputs of the graph → its results, or zeros."""

    takes_views = True

    def __init__(self, inputs: tuple[Node, ...], body: tuple[Node, ...]) -> None:
        self.inputs, self.body = inputs, body
        self.shapes = tuple(x.shape for x in body)
        self.key = (inputs, body)
        self.natives, digest = graph_digest([*inputs, *body])
        self.name = f"conditional {digest}"

    def arrays(self, *args: Array) -> list[Array]:
        """The graph on arrays."""
        condition, *values = (np.asarray(x) for x in args)
        if not condition.any():
            return [np.zeros((*condition.shape, *x.shape)) for x in self.body]
        known = {x.data[0]: a for x, a in zip(self.inputs, values, strict=True)}
        out = []
        for node, value in zip(self.body, evaluate(self.body, known), strict=True):
            holds = condition.reshape((*condition.shape, *(1,) * len(node.shape))) != 0
            out.append(np.where(holds, value, 0.0))
        return out

    def prepare(self, host: RunKernel) -> None:
        """That of the calls inside."""
        host.prepare(self.body)

    def write(self, code: LawCode, args: Sequence[Any]) -> list[Area]:
        """The code of the graph behind a branch."""
        return _written(code, self, args)

    def vjp(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """The adjoint of the graph under the same condition."""
        wanted = [i for i, w in enumerate(weights) if w is not None]
        to = [ops.input(f"to {i}", self.body[i].shape) for i in wanted]
        found = adjoints([self.body[i] for i in wanted], to, self.inputs)
        moving = [i for i, x in enumerate(found) if x is not None]
        if not moving:
            return [None] * len(args)
        condition, *values = args
        known = dict(zip(self.inputs, values, strict=True))
        known |= dict(zip(to, (w for w in weights if w is not None), strict=True))
        outside = list(known.values())
        there = substituted([x for x in found if x is not None], known)
        out = dict(zip(moving, where_needed(condition, outside, there), strict=True))
        return [None, *(out.get(i) for i in range(len(self.inputs)))]


def _written(code: LawCode, callee: Conditional, args: Sequence[Any]) -> list[Area]:
    """The results of a `Conditional`, in memory."""
    r: RunKernel = code.host
    m = LaneMachine(r)
    sizes = [max(1, math.prod(shape)) for shape in callee.shapes]
    out = [code.area(size) for size in sizes]
    for area, size in zip(out, sizes, strict=True):
        r.fill(area.base, size, 0.0)
    holds = r.differs(code.entry(args[0], 0), 0.0)
    inputs = {x.data[0]: a for x, a in zip(callee.inputs, args[1:], strict=True)}
    with r.when(r.any(holds)):
        inner = LawCode(r.module, r.e, inputs, r.area, r)
        for value, area, size in zip(inner.write(callee.body), out, sizes, strict=True):

            def keep(i: Any, value: Any = value, area: Area = area) -> None:
                inner.put(m.where(holds, inner.entry(value, i), 0.0), area, i)

            r.each(value, size, keep)
    return out
