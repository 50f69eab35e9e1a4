"""Graphs as calls: one that is computed once, and a step that is repeated until lanes are done."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any, final

import numpy as np

from phipsi.core.arrays import (
    Array,
    GraphEvaluator,
    Node,
    Primitive,
    Tracer,
    as_node,
    call,
    in_order,
    law_operations as ops,
    listing,
)
from phipsi.core.machine import Index, Machine, Memory
from phipsi.native import LawCode, MachineCall


def all_called(callee: Primitive, *args: Any) -> Sequence[Any]:
    """The results of a callee, of arrays or traced values."""
    if any(isinstance(x, Tracer) for x in args):
        return [Tracer(x) for x in call(callee, *map(as_node, args))]
    return callee.arrays(*args)


def called(callee: Primitive, *args: Any) -> Array:
    """The first of them."""
    return all_called(callee, *args)[0]


def digest_of(results: Sequence[Node], *more: Any) -> str:
    """A name of what a graph and some other things determine."""
    listed = in_order(results)
    text = [*listing(listed, ()), repr([listed.index(x) for x in results]), *map(repr, more)]
    return hashlib.sha256("\n".join(text).encode()).hexdigest()


def inner_code(code: Any, inputs: dict[str, Any]) -> LawCode:
    """A writer of graphs with inputs of their own, in the same place."""
    return LawCode(code.module, code.e, inputs, lambda n: code.area(n).base, code.host)


@final
class GraphCall(Primitive):
    """The results of a graph, whose inputs have these names, as one call."""

    takes_views = True

    def __init__(self, results: Sequence[Node], names: Sequence[str]) -> None:
        self._results, self._names = list(results), tuple(names)
        self.shapes = tuple(x.shape for x in results)
        self.key = digest_of(results, self._names)
        self.name = f"graph {self.key}"

    def arrays(self, *args: Array) -> Sequence[Array]:
        """On arrays."""
        return self._evaluated(dict(zip(self._names, args, strict=True)))

    @cached_property
    def _evaluated(self) -> GraphEvaluator:
        return GraphEvaluator(self._results)

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """The same, in lanes."""
        return inner_code(code, dict(zip(self._names, args, strict=True))).write(self._results)

    def vjp(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """Not needed: calls of graphs are derivatives already."""
        raise NotImplementedError(f"{self.name} has no adjoint")


class PiecewiseConstantCall(MachineCall):
    """Results that stay the same while arguments change a little: their derivatives are zero."""

    def jvp(self, args: tuple[Node, ...], along: Sequence[Node | None]) -> Node:
        """Zeros."""
        zeros = [ops.constant(np.zeros(shape)) for shape in self.shapes]
        return call(GraphCall(zeros, ()))[0].args[0]

    def vjp(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """Zeros."""
        return [None] * len(args)


@final
class Repeated(PiecewiseConstantCall):
    """The last state of a step that is repeated until it is done, at most `most` times.

    **Arguments:** `state`, the node of the next state (k,), whose last entry is not 0 when it is
    done; its inputs are "state" and "given" (m,), which stays the same. The call has the first
    state and the given numbers as arguments. A lane that is done keeps its state while others go
    on, so that results do not depend on neighbours; when all are done the code goes on. Users of a
    repetition have derivatives of their own.
    """

    def __init__(self, state: Node, most: int) -> None:
        self._next, self._most = GraphEvaluator([state]), most
        self.shapes = (state.shape,)
        self.takes = state.shape, self._next.takes.get("given", (0,))
        self.key = digest_of([state], most)
        self.name = f"repeated {self.key}"

    def text(self, m: Machine, args: Sequence[Memory]) -> Sequence[Memory]:
        """Rounds in which some lane goes on."""
        first, given = args
        (size,) = self.shapes[0]
        state = m.array(size)
        for i in range(size):
            state[i] = first[i]

        @m.while_any(lambda: m.equal(state[size - 1], 0.0), self._most)
        def _(turn: Index) -> None:
            (found,) = m.graphs({"state": state, "given": given})(self._next)
            for i, x in enumerate(list(found)):
                state[i] = x

        return [state]
