"""Graphs as calls: one that is computed once, and a step that is repeated until lanes are done."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any, final

import numpy as np

from phipsi.backends.native.kernel.law_code import SMALL, LawCode
from phipsi.contact.lane_elimination import Numbers
from phipsi.laws import law_operations as ops
from phipsi.laws.calls import Callee, call, listing
from phipsi.laws.graph import Array, Node, in_order
from phipsi.laws.law_values import Evaluation
from phipsi.laws.trace import Traced, as_node


def all_called(callee: Callee, *args: Any) -> Sequence[Any]:
    """The results of a callee, of arrays or traced values."""
    if any(isinstance(x, Traced) for x in args):
        return [Traced(x) for x in call(callee, *map(as_node, args))]
    return callee.arrays(*args)


def called(callee: Callee, *args: Any) -> Any:
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
class GraphCall(Callee):
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
    def _evaluated(self) -> Evaluation:
        return Evaluation(self._results)

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """The same, in lanes."""
        return inner_code(code, dict(zip(self._names, args, strict=True))).write(self._results)

    def pull(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """Not needed: calls of graphs are derivatives already."""
        raise NotImplementedError(f"{self.name} has no adjoint")


class Choice(Callee):
    """Results that stay the same while arguments change a little: their derivatives are zero."""

    def pushed(self, args: tuple[Node, ...], along: Sequence[Node | None]) -> Node:
        """Zeros."""
        zeros = [ops.constant(np.zeros(shape)) for shape in self.shapes]
        return call(GraphCall(zeros, ()))[0].args[0]

    def pull(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """Zeros."""
        return [None] * len(args)


@final
class Repeated(Choice):
    """The last state of a step that is repeated until it is done, at most `most` times.

    **Arguments:** `state`, the node of the next state (k,), whose last entry is not 0 when it is
    done; its inputs are "state" and "given" (m,), which stays the same. The call has the first
    state and the given numbers as arguments. A lane that is done keeps its state while others go
    on, so that results do not depend on neighbours; when all are done the code goes on. Users of a
    repetition have derivatives of their own.
    """

    takes_views = True

    def __init__(self, state: Node, most: int) -> None:
        self._state, self._most = state, most
        self.shapes = (state.shape,)
        self.key = digest_of([state], most)
        self.name = f"repeated {self.key}"

    def arrays(self, *args: Array) -> Sequence[Array]:
        """Elements of the batch that are done are left out."""
        batch = np.broadcast_shapes(*(x.shape[:-1] for x in args))
        state, given = (
            np.array(np.broadcast_to(x, (*batch, x.shape[-1]))).reshape(-1, x.shape[-1])
            for x in args
        )
        for _ in range(self._most):
            live = np.flatnonzero(state[:, -1] == 0.0)
            if not live.size:
                break
            (new,) = self._evaluated({"state": state[live], "given": given[live]})
            state[live] = new
        return [state.reshape(*batch, -1)]

    @cached_property
    def _evaluated(self) -> Evaluation:
        return Evaluation([self._state])

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """A loop while some lane goes on."""
        e, (size,) = code.e, self.shapes[0]
        state = code.area(size)
        for i in range(size):
            code.put(code.entry(args[0], i), state, i)

        def goes_on() -> Any:
            return e.compare("==", code.entry(state, size - 1), 0.0)

        def once(_: Any, which: Any) -> None:
            old = [code.entry(state, i) for i in range(size)]
            inner = inner_code(code, {"state": old if size <= SMALL else state, "given": args[1]})
            (new,) = inner.write([self._state])
            changed = [e.select(which, inner.entry(new, i), old[i]) for i in range(size)]
            for i, x in enumerate(changed):
                code.put(x, state, i)

        Numbers(e).rounds(self._most, goes_on, once)
        return [[code.entry(state, i) for i in range(size)] if size <= SMALL else state]
