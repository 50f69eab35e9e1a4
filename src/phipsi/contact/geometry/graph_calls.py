"""Graphs as calls: one that is computed once, and a step that is repeated until lanes are done."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any, final

import numpy as np

from phipsi.backends.native.kernel.law_code import SMALL, LawCode
from phipsi.backends.native.text import llvm_text as ir
from phipsi.backends.native.text.lane_arithmetic import I64, i64
from phipsi.laws import law_operations as ops
from phipsi.laws.calls import Callee, call, listing
from phipsi.laws.graph import Array, Node, in_order
from phipsi.laws.law_values import Evaluation
from phipsi.laws.trace import Traced, as_node


def repeat(step: Repeated, state: Any, given: Any) -> Any:
    """The last state, of arrays or traced values."""
    if isinstance(state, Traced) or isinstance(given, Traced):
        (found,) = call(step, as_node(state), as_node(given))
        return Traced(found)
    return step.arrays(state, given)[0]


@final
class GraphCall(Callee):
    """The results of a graph, whose inputs have these names, as one call."""

    takes_views = True

    def __init__(self, results: Sequence[Node], names: Sequence[str]) -> None:
        self._results, self._names = list(results), tuple(names)
        self.shapes = tuple(x.shape for x in results)
        listed = in_order(results)
        text = [*listing(listed, ()), repr([listed.index(x) for x in results]), repr(self._names)]
        self.key = hashlib.sha256("\n".join(text).encode()).hexdigest()
        self.name = f"graph {self.key}"

    def arrays(self, *args: Array) -> Sequence[Array]:
        """On arrays."""
        return self._evaluated(dict(zip(self._names, args, strict=True)))

    @cached_property
    def _evaluated(self) -> Evaluation:
        return Evaluation(self._results)

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """The same, in lanes."""
        inputs = dict(zip(self._names, args, strict=True))
        inner = LawCode(code.module, code.e, inputs, lambda n: code.area(n).base, code.host)
        return inner.write(self._results)

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
        text = [*listing(in_order([state]), ()), repr(most)]
        self.key = hashlib.sha256("\n".join(text).encode()).hexdigest()
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
        b, e = code.e.builder, code.e
        (size,) = self.shapes[0]
        state = code.area(size)
        for i in range(size):
            code.put(code.entry(args[0], i), state, i)
        head, inside, after = (b.function.append_basic_block(n) for n in ("while", "do", "end"))
        before = b.block
        b.branch(head)
        b.position_at_end(head)
        number = b.phi(I64)
        number.add_incoming(i64(0), before)
        goes_on = e.compare("==", code.entry(state, size - 1), 0.0)
        width = ir.IntType(e.lanes)
        some = b.icmp_unsigned("!=", b.bitcast(goes_on, width), ir.Constant(width, 0))
        b.cbranch(b.and_(b.icmp_signed("<", number, i64(self._most)), some), inside, after)
        b.position_at_end(inside)
        old = [code.entry(state, i) for i in range(size)]
        inputs = {"state": old if size <= SMALL else state, "given": args[1]}
        inner = LawCode(code.module, e, inputs, lambda n: code.area(n).base, code.host)
        (new,) = inner.write([self._state])
        for i, x in enumerate(
            [e.select(goes_on, inner.entry(new, i), old[i]) for i in range(size)]
        ):
            code.put(x, state, i)
        number.add_incoming(b.add(number, i64(1)), b.block)
        b.branch(head)
        b.position_at_end(after)
        return [[code.entry(state, i) for i in range(size)] if size <= SMALL else state]
