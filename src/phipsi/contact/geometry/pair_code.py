"""One formula for many pairs of shapes of the same kinds, or slots: a loop in machine code.

The code of a formula is written once, however many pairs there are; their sizes and placements are
tables.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np

from phipsi.backends.native.kernel.law_code import Area
from phipsi.backends.native.text import llvm_text as ir
from phipsi.backends.native.text.lane_arithmetic import DOUBLE, I64, i64, write_loop
from phipsi.contact.geometry.graph_calls import digest_of, inner_code
from phipsi.contact.lane_elimination import Numbers
from phipsi.laws import law_operations as ops
from phipsi.laws.calls import Callee, call
from phipsi.laws.graph import Array, Node, Shape
from phipsi.laws.law_derivatives import adjoints, tangents
from phipsi.laws.law_values import Evaluation

_LONG = 64  # rows of more numbers, such as those of meshes, are read where they are needed


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


def unless(far: Node | None, results: Sequence[Node], otherwise: Sequence[float]) -> Sequence[Node]:
    """Results of a pair, or one number each where it is far."""
    if far is None:
        return results
    both = zip(results, otherwise, strict=True)
    return [ops.apply("where", far, ops.constant(y), x) for x, y in both]


@final
class PairLoop(Callee):
    """Results of a graph for each of m pairs, from items of arrays.

    **Arguments:** `results`, nodes of one pair; their inputs are items of the call's arguments,
    named in `reads`, such as poses (4, 4) of bodies; and "row", the numbers of the pair in `table`
    (m, …). `arguments` are the shapes of the call's arguments. A result of k
    entries becomes (m, k). `far` is a node that is not 0 for pairs whose results are `otherwise`,
    one number each: a pair that is far in all lanes is left out.
    """

    takes_views = True

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
        results = unless(far, results, otherwise)
        self._results, self._reads, self._table = tuple(results), dict(reads), table
        self._arguments, self._count = tuple(arguments), len(table)
        self.shapes = tuple((self._count, max(1, x.size)) for x in results)
        nodes = [*results, *([] if far is None else [far])]
        numbers = table.shape, table.tobytes().hex()
        self.key = digest_of(nodes, self._arguments, self._reads, *numbers, self._otherwise)
        self.name = f"pairs {self.key}"

    @cached_property
    def _evaluated(self) -> Evaluation:
        return Evaluation(self._results)

    def arrays(self, *args: Array) -> Sequence[Array]:
        """The graph with the pairs as an axis of the batch."""
        values, batches = {"row": self._table}, []
        for name, read in self._reads.items():
            x = args[read.argument]
            batch = x.shape[: x.ndim - len(self._arguments[read.argument])]
            count = math.prod(x.shape[len(batch) :]) // math.prod(read.shape)
            items = x.reshape(*batch, count, *read.shape)
            batches.append(batch)
            if read.places is not None:
                items = items.take(read.places, axis=len(batch))
            values[name] = items
        batch = np.broadcast_shapes(*batches)
        found = self._evaluated(values)
        shapes = [(*batch, *shape) for shape in self.shapes]
        return [
            np.broadcast_to(x.reshape(*x.shape[: x.ndim - len(y.shape)], shape[-1]), shape)
            for x, y, shape in zip(found, self._results, shapes, strict=True)
        ]

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Area]:
        """The loop over the pairs."""
        b, e = code.e.builder, code.e
        sources = [code.stored(x) for x in args]
        outs = [code.area(m * size) for m, size in self.shapes]
        table = Area(_constants(code, DOUBLE, self._table.ravel().tolist()), shared=True)
        places = {
            n: None if x.places is None else _constants(code, I64, list(x.places))
            for n, x in self._reads.items()
        }

        def numbers(area: Area, row: Any, size: int) -> list[Any]:
            first = b.mul(row, i64(size))
            return [code.entry(area, b.add(first, i64(j))) for j in range(size)]

        def one(i: Any) -> None:
            width = self._table.shape[1]
            inputs: dict[str, Any] = {}
            if width > _LONG:
                inputs["row"] = Area(b.at(table.base, b.mul(i, i64(e.unit * width))), shared=True)
            else:
                inputs["row"] = numbers(table, i, width)
            for name, read in self._reads.items():
                where = places[name]
                if where is not None:
                    where = b.load(b.at(where, b.mul(i, i64(8))), align=8, typ=I64)
                item = i if where is None else where
                inputs[name] = numbers(sources[read.argument], item, read.size)
            inner = inner_code(code, inputs)

            def put(k: int, value: Any) -> None:
                size = self.shapes[k][1]
                first = b.mul(i, i64(size))
                for j in range(size):
                    code.put(value(j), outs[k], b.add(first, i64(j)))

            def compute() -> None:
                for k, found in enumerate(inner.write(self._results)):
                    put(k, lambda j, found=found: inner.entry(found, j))

            if self._far is None:
                compute()
                return
            (far,) = inner.write([self._far])
            is_near = e.compare("==", inner.entry(far, 0), 0.0)
            with b.if_else(Numbers(e).any(is_near)) as (near, away):
                with near:
                    compute()
                with away:
                    for k, y in enumerate(self._otherwise):
                        put(k, lambda j, y=y: e.constant(y))

        write_loop(b, i64(self._count), one)
        return outs

    def pushed(self, args: tuple[Node, ...], along: Sequence[Node | None]) -> Node:
        """The tangents of the graph in a loop of its own: rates of arguments follow these."""
        moving = [i for i, x in enumerate(along) if x is not None]
        number = {i: len(args) + j for j, i in enumerate(moving)}
        rates, reads = {}, dict(self._reads)
        for name, read in self._reads.items():
            if read.argument in number:
                rate = f"rate_{name}"
                rates[ops.given(name, read.shape)] = ops.given(rate, read.shape)
                reads[rate] = read._replace(argument=number[read.argument])
        found = tangents(self._results, rates)
        slopes = [
            ops.constant(np.zeros(x.shape)) if y is None else y
            for x, y in zip(self._results, found, strict=True)
        ]
        given = [x for x in along if x is not None]
        return self._along(slopes, reads, args, given)[0].args[0]

    def pull(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """The adjoint of the graph in a loop of its own; weights of items are summed."""
        given = [w for w in weights if w is not None]
        known = [x for x, w in zip(self._results, weights, strict=True) if w is not None]
        reads, own = dict(self._reads), []
        for i, x in enumerate(known):
            name, size = f"weight_{i}", max(1, x.size)
            reads[name] = Read(len(args) + i, (size,))
            own.append(ops.pick(ops.given(name, (size,)), np.arange(x.size).reshape(x.shape)))
        inputs = [ops.given(n, x.shape) for n, x in self._reads.items()]
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
            part = ops.scatter(bar, places, self._arguments[i])
            old = out[i]
            out[i] = part if old is None else ops.apply("add", old, part)
        return out

    def _along(
        self, results: Sequence[Node], reads: Mapping[str, Read], args: Any, given: Sequence[Node]
    ) -> tuple[Node, ...]:
        """A loop with more arguments, zero where this one leaves pairs out."""
        zeros = [0.0] * len(results) if self._far is not None else ()
        shapes = [*self._arguments, *(x.shape for x in given)]
        return call(PairLoop(results, shapes, reads, self._table, self._far, zeros), *args, *given)


def _constants(code: Any, element: Any, numbers: list[Any]) -> Any:
    """Numbers in the module of the code."""
    return ir.Table(code.module, element, numbers, f"pairs_{len(code.module.tables)}")
