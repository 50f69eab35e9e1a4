"""One formula for many pairs of shapes of the same kinds, or slots: a loop.

The code of a formula is written once, however many pairs there are; their sizes and placements are
tables.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, final

import numpy as np

from phipsi.contact.geometry.graph_calls import digest_of
from phipsi.core.arrays import (
    Array,
    GraphEvaluator,
    Node,
    Shape,
    adjoints,
    call,
    law_operations as ops,
    tangents,
)
from phipsi.core.machine import Index, Item, Machine, Memory, Number
from phipsi.native import MachineCall


class Read(NamedTuple):
    """What every pair reads of an argument (n, *shape) of the call: item `places`[i] is pair i's.

    Without places, item i.
    """

    argument: int
    shape: Shape
    places: tuple[int, ...] | None = None

    @property
    def size(self) -> int:
        """Numbers of an item."""
        return math.prod(self.shape)


def select_if_near(
    far: Node | None, results: Sequence[Node], otherwise: Sequence[float]
) -> Sequence[Node]:
    """Results of a pair, or one number each where it is far."""
    if far is None:
        return results
    both = zip(results, otherwise, strict=True)
    return [ops.apply("where", far, ops.constant(y), x) for x, y in both]


@final
class PairLoop(MachineCall):
    """Results of a graph for each of m pairs, from items of arrays.

    **Arguments:** `results`, nodes of one pair; their inputs are items of the call's arguments,
    named in `reads`, such as poses (4, 4) of bodies; and "row", the numbers of the pair in `table`
    (m, …). `arguments` are the shapes of the call's arguments. A result of k
    entries becomes (m, k). `far` is a node that is not 0 for pairs whose results are `otherwise`,
    one number each: a pair that is far in all lanes is left out.
    """

    def __init__(
        self,
        results: Sequence[Node],
        arguments: Sequence[Shape],
        reads: Mapping[str, Read],
        table: Array,
        far: Node | None = None,
        otherwise: Sequence[float] = (),
    ) -> None:
        self._far, self._otherwise = far, tuple(otherwise)
        results = select_if_near(far, results, otherwise)
        self._results, self._reads, self._table = tuple(results), dict(reads), table
        self.takes, self._count = tuple(arguments), len(table)
        self.indexed = range(len(self.takes))
        self.shapes = tuple((self._count, max(1, x.size)) for x in results)
        nodes = [*results, *([] if far is None else [far])]
        numbers = table.shape, table.tobytes().hex()
        self.key = digest_of(nodes, self.takes, self._reads, *numbers, self._otherwise)
        self.name = f"pairs {self.key}"

    @cached_property
    def _evaluated(self) -> tuple[GraphEvaluator, GraphEvaluator | None]:
        """The results; and which pairs are far."""
        far = None if self._far is None else GraphEvaluator([self._far])
        return GraphEvaluator(self._results), far

    def text(self, m: Machine, args: Sequence[Memory]) -> Sequence[Memory]:
        """The loop over the pairs."""
        width = self._table.shape[1]
        table = m.constants(self._table) if width else None
        places = {n: m.words(x.places) for n, x in self._reads.items() if x.places is not None}
        outs = [m.array(*shape, kept=False) for shape in self.shapes]
        results, is_far = self._evaluated

        @m.each(0, self._count)
        def _(i: Index) -> None:
            inputs = {} if table is None else {"row": Item(table, i, width)}
            for name, read in self._reads.items():
                where = places[name][i] if name in places else i
                inputs[name] = Item(args[read.argument], where, read.size)
            values = m.graphs(inputs)

            def put(found: Sequence[Sequence[Number | float]]) -> None:
                for out, numbers, (_, size) in zip(outs, found, self.shapes, strict=True):
                    for j in range(size):
                        out[i, j] = numbers[j]

            if is_far is None:
                put(values(results))
                return
            nowhere = [
                [y] * size for y, (_, size) in zip(self._otherwise, self.shapes, strict=True)
            ]
            near = m.equal(values(is_far)[0][0], 0.0)
            m.when(near, lambda: put(nowhere))(lambda: put(values(results)))

        return outs

    def jvp(self, args: tuple[Node, ...], along: Sequence[Node | None]) -> Node:
        """The tangents of the graph in a loop of its own: rates of arguments follow these."""
        moving = [i for i, x in enumerate(along) if x is not None]
        number = {i: len(args) + j for j, i in enumerate(moving)}
        rates, reads = {}, dict(self._reads)
        for name, read in self._reads.items():
            if read.argument in number:
                rate = f"rate_{name}"
                rates[ops.input(name, read.shape)] = ops.input(rate, read.shape)
                reads[rate] = read._replace(argument=number[read.argument])
        found = tangents(self._results, rates)
        slopes = [
            ops.constant(np.zeros(x.shape)) if y is None else y
            for x, y in zip(self._results, found, strict=True)
        ]
        given = [x for x in along if x is not None]
        return self._along(slopes, reads, args, given)[0].args[0]

    def vjp(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """The adjoint of the graph in a loop of its own; weights of items are summed."""
        given = [w for w in weights if w is not None]
        known = [x for x, w in zip(self._results, weights, strict=True) if w is not None]
        reads, own = dict(self._reads), []
        for i, x in enumerate(known):
            name, size = f"weight_{i}", max(1, x.size)
            reads[name] = Read(len(args) + i, (size,))
            own.append(ops.gather(ops.input(name, (size,)), np.arange(x.size).reshape(x.shape)))
        inputs = [ops.input(n, x.shape) for n, x in self._reads.items()]
        found = adjoints(known, own, inputs)
        there = [i for i, x in enumerate(found) if x is not None]
        out: list[Node | None] = [None] * len(args)
        if not there:
            return out
        bars = self._along([x for x in found if x is not None], reads, args, given)
        chosen = [list(self._reads.values())[i] for i in there]
        for read, bar in zip(chosen, bars, strict=True):
            i, items = read.argument, read.places or tuple(range(self._count))
            places = read.size * np.array(items)[:, None] + np.arange(read.size)
            part = ops.scatter_add(bar, places, self.takes[i])
            old = out[i]
            out[i] = part if old is None else ops.apply("add", old, part)
        return out

    def _along(
        self,
        results: Sequence[Node],
        reads: Mapping[str, Read],
        args: Sequence[Node],
        given: Sequence[Node],
    ) -> tuple[Node, ...]:
        """A loop with more arguments, zero where this one leaves pairs out."""
        zeros = [0.0] * len(results) if self._far is not None else ()
        shapes = [*self.takes, *(x.shape for x in given)]
        return call(PairLoop(results, shapes, reads, self._table, self._far, zeros), *args, *given)
