"""One formula for many pairs of shapes of the same kinds: a loop in machine code.

The code of a formula is written once, however many pairs there are; their sizes and placements are
tables.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np

from phipsi.backends.native.kernel.law_code import Area, LawCode
from phipsi.backends.native.text import llvm_text as ir
from phipsi.backends.native.text.lane_arithmetic import DOUBLE, I64, i64, write_loop
from phipsi.laws import law_operations as ops
from phipsi.laws.calls import Callee, call, listing
from phipsi.laws.graph import Array, Node, in_order
from phipsi.laws.law_derivatives import adjoints, tangents
from phipsi.laws.law_values import evaluate

Places = tuple[int, ...]
_LONG = 64  # rows of more numbers, such as those of meshes, are read where they are needed


@final
class PairLoop(Callee):
    """Results of a graph for each of m pairs, from the poses X (n, 4, 4) of all bodies.

    **Arguments:** `results`, nodes of one pair; their inputs are poses (4, 4), named in `poses`
    with the number of the body for every pair; "row", the numbers of the pair in `table` (m, …);
    and `more`, names and sizes of further inputs, which the call gets as (m, size). A result of k
    entries becomes (m, k). `far` is a node that is not 0 for pairs whose results are `otherwise`,
    one number each: a pair that is far in all lanes is left out.
    """

    def __init__(
        self,
        results: Sequence[Node],
        poses: Mapping[str, Places],
        table: Array,
        more: Mapping[str, int] | None = None,
        far: Node | None = None,
        otherwise: Sequence[float] = (),
    ) -> None:
        self._far, self._otherwise = far, tuple(otherwise)
        if far is not None:
            results = [
                ops.apply("where", far, ops.constant(y), x)
                for x, y in zip(results, otherwise, strict=True)
            ]
        self._results, self._poses, self._table = tuple(results), dict(poses), table
        self._more = dict(more or {})
        self._count = len(table)
        self.shapes = tuple((self._count, max(1, x.size)) for x in results)
        listed = in_order(results)
        text = [*listing(listed, ()), repr([listed.index(x) for x in results])]
        text += [repr((self._poses, self._more, table.shape)), table.tobytes().hex()]
        text += [] if far is None else [repr((listed.index(far), self._otherwise))]
        self.key = hashlib.sha256("\n".join(text).encode()).hexdigest()
        self.name = f"pairs {self.key}"

    def arrays(self, *args: Array) -> Sequence[Array]:
        """The graph with the pairs as an axis of the batch."""
        X, *more = args
        values = {name: X[..., list(places), :, :] for name, places in self._poses.items()}
        values |= dict(zip(self._more, more, strict=True), row=self._table)
        batch = X.shape[:-3]
        found = evaluate(self._results, values)
        shapes = [(*batch, *shape) for shape in self.shapes]
        return [
            np.broadcast_to(x.reshape(*x.shape[: x.ndim - len(y.shape)], -1), shape)
            for x, y, shape in zip(found, self._results, shapes, strict=True)
        ]

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Area]:
        """The loop over the pairs."""
        b, e = code.e.builder, code.e
        X, *more = (code.stored(x) for x in args)
        outs = [code.area(m * size) for m, size in self.shapes]
        table = Area(_constants(code, DOUBLE, self._table.ravel().tolist()), shared=True)
        places = {n: _constants(code, I64, list(x)) for n, x in self._poses.items()}

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
            for name, where in places.items():
                body = b.load(b.at(where, b.mul(i, i64(8))), align=8, typ=I64)
                inputs[name] = numbers(X, body, 16)
            for (name, size), area in zip(self._more.items(), more, strict=True):
                inputs[name] = numbers(area, i, size)
            inner = LawCode(code.module, e, inputs, lambda n: code.area(n).base, code.host)

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
            width = ir.IntType(e.lanes)
            some = b.icmp_unsigned("!=", b.bitcast(is_near, width), ir.Constant(width, 0))
            with b.if_else(some) as (near, away):
                with near:
                    compute()
                with away:
                    for k, y in enumerate(self._otherwise):
                        put(k, lambda j, y=y: e.constant(y))

        write_loop(b, i64(self._count), one)
        return outs

    def pushed(self, args: tuple[Node, ...], along: Sequence[Node | None]) -> Node:
        """The tangents of the graph in a loop of its own: rates of poses follow the poses."""
        X, dX = args[0], along[0]
        assert dX is not None and not self._more
        n = X.shape[0]
        names = {name: f"rate_{name}" for name in self._poses}
        rates = {ops.given(x, (4, 4)): ops.given(y, (4, 4)) for x, y in names.items()}
        found = tangents(self._results, rates)
        slopes = [
            ops.constant(np.zeros(x.shape)) if y is None else y
            for x, y in zip(self._results, found, strict=True)
        ]
        places = {names[x]: tuple(n + i for i in bodies) for x, bodies in self._poses.items()}
        zeros = [0.0] * len(slopes) if self._far is not None else ()
        poses = {**self._poses, **places}
        loop = PairLoop(slopes, poses, self._table, far=self._far, otherwise=zeros)
        return call(loop, ops.join([X, dX], (2 * n, 4, 4)))[0].args[0]

    def pull(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """The adjoint of the graph in a loop of its own; weights of poses are summed by body."""
        names = [f"weight_{i}" for i, w in enumerate(weights) if w is not None]
        given = [w for w in weights if w is not None]
        known = [x for x, w in zip(self._results, weights, strict=True) if w is not None]
        inputs = {n: ops.given(n, (4, 4)) for n in self._poses}
        inputs |= {n: ops.given(n, (size,)) for n, size in self._more.items()}
        own = [
            ops.pick(ops.given(n, (max(1, x.size),)), np.arange(x.size).reshape(x.shape))
            for n, x in zip(names, known, strict=True)
        ]
        found = adjoints(known, own, list(inputs.values()))
        bars = [ops.constant(np.zeros(x.shape)) if y is None else y
                for x, y in zip(inputs.values(), found, strict=True)]  # fmt: skip
        more = self._more | {n: max(1, x.size) for n, x in zip(names, known, strict=True)}
        zeros = [0.0] * len(bars) if self._far is not None else ()
        loop = PairLoop(bars, self._poses, self._table, more, self._far, zeros)
        out = dict(zip(inputs, call(loop, *args, *given), strict=True))
        X: Node | None = None
        for name, bodies in self._poses.items():
            places = 16 * np.array(bodies)[:, None] + np.arange(16)
            part = ops.scatter(out[name], places, args[0].shape)
            X = part if X is None else ops.apply("add", X, part)
        return [X, *(out[name] for name in self._more)]


def _constants(code: Any, element: Any, numbers: list[Any]) -> Any:
    """Numbers in the module of the code."""
    return ir.Table(code.module, element, numbers, f"pairs_{len(code.module.tables)}")
