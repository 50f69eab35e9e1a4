"""Products with the rows C of contacts and with Λ as calls in graphs: C V, C* p and Λ f.

A row has six numbers at each of two hosts, so that a product is a loop over the rows.

**Source:** theory/contact 1 (K1a–c).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.backends.native.text.lane_arithmetic import Lane, fold_loop, i64
from phipsi.contact.contact_rows import RowPlan
from phipsi.contact.lane_elimination import Numbers, word_table
from phipsi.contact.slot_rows import RowBlocks
from phipsi.laws import law_operations as ops
from phipsi.laws.calls import Callee, call
from phipsi.laws.graph import Node
from phipsi.laws.trace import Traced, as_node

Array = NDArray[Any]


def row_rates(plan: RowPlan, blocks: RowBlocks, motions: Any, *, normals: bool = False) -> Any:
    """C V (n,) of the motions V (hosts, 6), traced; or of the rows of normals alone (heads,)."""
    rates = call(RowRates(plan, normals=normals), *map(as_node, (*blocks, motions)))
    return Traced(rates[0])


def row_forces(plan: RowPlan, blocks: RowBlocks, p: Any) -> Node:
    """C* p (hosts, 6) of the impulses p (n,), traced."""
    return call(RowForces(plan), *map(as_node, (*blocks, p)))[0]


def host_motions(plan: RowPlan, admittance: Node, forces: Node) -> Any:
    """Λ f (hosts, 6), the motions that forces f (hosts, 6) cause, traced."""
    f: Any = Traced(forces)
    if plan.related.all():
        whole: Any = Traced(admittance)
        return (whole @ f.reshape(-1)).reshape(-1, 6)
    return Traced(call(HostMotions(plan), admittance, forces)[0])


@final
class HostMotions(Callee):
    """Λ (6m, 6m), f (m, 6) → Λ f (m, 6), without blocks between hosts of different trees."""

    takes_views = True

    def __init__(self, plan: RowPlan) -> None:
        self._plan, self.shapes = plan, ((plan.n_hosts, 6),)
        self.key = ("motions", plan.n_hosts, tuple(plan.related.ravel().tolist()))
        self.name = f"motions of hosts {_digest(self.key)}"

    def arrays(self, *args: Array) -> Sequence[Array]:
        """All blocks."""
        admittance, f = args
        flat = f.reshape(*f.shape[:-2], -1, 1)
        out = (admittance @ flat)[..., 0]
        return [out.reshape(*out.shape[:-1], -1, 6)]

    def pull(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """By Λ: w f*; by f: Λ w, as Λ is symmetric."""
        w = weights[0]
        if w is None:
            return [None, None]
        return [outer(w, args[1]), call(self, args[0], w)[0]]

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """A loop over pairs of hosts."""
        m, writer = self._plan.n_hosts, Numbers(code.e)
        admittance = in_memory(code, args[0], 36 * m * m)
        f, out, b = in_memory(code, args[1], 6 * m), code.area(6 * m), writer.b
        pairs = np.argwhere(self._plan.related)
        first, second = (word_table(code.module, x.tolist()) for x in pairs.T)
        writer.fill(i64(6 * m), 0.0, out.base)

        def pair(k: Any) -> None:
            i, j = (b.mul(writer.word(x, k), i64(6)) for x in (first, second))
            moves, push = writer.at(out.base, i), writer.at(f, j)
            block = writer.at(admittance, writer.plus(b.mul(i, i64(6 * m)), j))
            sums = [writer.load(moves, t) for t in range(6)]
            for u in range(6):
                x = writer.load(push, u)
                sums = [
                    writer.load(block, 6 * m * t + u).times_plus(x, total)
                    for t, total in enumerate(sums)
                ]
            for t, total in enumerate(sums):
                writer.store(total, moves, t)

        writer.between(0, len(pairs), pair)
        return [out]


@final
class RowRates(Callee):
    """C_a, C_b (n, 6), V (hosts, 6) → C V (n,), or (heads,) of the rows of normals."""

    takes_views = True

    def __init__(self, plan: RowPlan, *, normals: bool = False) -> None:
        self._plan, self._normals = plan, normals
        rows = plan.layout.normals if normals else np.arange(plan.layout.n_rows)
        self._rows, self.shapes = rows, ((len(rows),),)
        self.key = ("rates", *_key(plan), normals)
        self.name = f"rates of rows {_digest(self.key)}"

    def arrays(self, *args: Array) -> Sequence[Array]:
        """Both sides."""
        *blocks, V = args
        total: Any = 0.0
        for hosts, block in zip((self._plan.a, self._plan.b), blocks, strict=True):
            host = hosts[self._rows]
            term = np.sum(block[..., self._rows, :] * V[..., np.maximum(host, 0), :], axis=-1)
            total = total + np.where(host >= 0, term, 0.0)
        return [total]

    def pull(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """By C: w V*; by V: C* w."""
        if weights[0] is None:
            return [None] * len(args)
        a, b, V = args
        w = weights[0]
        if self._normals:
            w = ops.scatter(w, self._rows, (self._plan.layout.n_rows,))
        (by_V,) = call(RowForces(self._plan), a, b, w)
        return [*_products(self._plan, w, V), by_V]

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """A loop over the contacts and joints, and over the rows of each."""
        writer = Heads(code, self._plan, args[:2])
        V = in_memory(code, args[2], 6 * self._plan.n_hosts)
        out = code.area(max(1, self.shapes[0][0]))

        def head(i: Any, first: Any, end: Any, sides: list[tuple[Any, Any]]) -> None:
            moves = [writer.six(V, host) for _, host in sides]

            def row(r: Any, place: Any) -> None:
                total = code.e.constant(0.0)
                for (block, _), move in zip(sides, moves, strict=True):
                    for x, y in zip(writer.six(block, r), move, strict=True):
                        total = x.times_plus(y, total)
                writer.store(total, out.base, place)

            if self._normals:
                row(writer.b.sub(end, i64(1)), i)
            else:
                writer.between(first, end, lambda r: row(r, r))

        writer.each(head, self._plan.layout.n_heads if self._normals else None)
        return [out]


@final
class RowForces(Callee):
    """C_a, C_b (n, 6), p (n,) → C* p (hosts, 6)."""

    takes_views = True

    def __init__(self, plan: RowPlan) -> None:
        self._plan, self.shapes = plan, ((plan.n_hosts, 6),)
        self.key = ("forces", *_key(plan))
        self.name = f"forces of rows {_digest(self.key)}"

    def arrays(self, *args: Array) -> Sequence[Array]:
        """Both sides, row by row."""
        *blocks, p = args
        batch = np.broadcast_shapes(p.shape[:-1], *(x.shape[:-2] for x in blocks))
        out = np.zeros((*batch, self._plan.n_hosts, 6))
        for hosts, block in zip((self._plan.a, self._plan.b), blocks, strict=True):
            for r in np.flatnonzero(hosts >= 0):
                out[..., hosts[r], :] += block[..., r, :] * p[..., r, None]
        return [out]

    def pull(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """By C: p w*; by p: C w."""
        if weights[0] is None:
            return [None] * len(args)
        a, b, p = args
        (by_p,) = call(RowRates(self._plan), a, b, weights[0])
        return [*_products(self._plan, p, weights[0]), by_p]

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """A loop over the contacts and joints: those of their rows are summed first."""
        writer, size = Heads(code, self._plan, args[:2]), 6 * self._plan.n_hosts
        p, out = in_memory(code, args[2], self._plan.layout.n_rows), code.area(size)
        e, b = code.e, writer.b
        writer.fill(i64(size), 0.0, out.base)

        def head(i: Any, first: Any, end: Any, sides: list[tuple[Any, Any]]) -> None:
            def row(j: Any, sums: list[Any]) -> list[Any]:
                r = b.add(first, j)
                x = writer.load(p, r)
                numbers = [y for block, _ in sides for y in writer.six(block, r)]
                return [
                    y.times_plus(x, Lane(e, total)).value
                    for y, total in zip(numbers, sums, strict=True)
                ]

            none = [e.constant(0.0).value] * (6 * len(sides))
            sums = iter(fold_loop(b, b.sub(end, first), 1, none, row))
            for _, host in sides:
                for t, old in enumerate(writer.six(out.base, host)):
                    place = writer.plus(b.mul(host, i64(6)), t)
                    writer.store(old + Lane(e, next(sums)), out.base, place)

        writer.each(head)
        return [out]


def outer(x: Node, y: Node) -> Node:
    """X y* of vectors with as many numbers, whatever their shapes."""
    i, j = np.indices((x.size, x.size))
    return ops.apply("mul", ops.pick(x, i), ops.pick(y, j))


def in_memory(code: Any, x: Any, size: int) -> Any:
    """The address of numbers that follow each other in every lane."""
    return code.stored(code.whole(x, size)).base


def _key(plan: RowPlan) -> tuple[Any, ...]:
    return plan.layout, plan.n_hosts, tuple(plan.sides.ravel().tolist())


def _digest(key: Any) -> str:
    return hashlib.sha256(repr(key).encode()).hexdigest()


def _products(plan: RowPlan, x: Node, Y: Node) -> list[Node]:
    """Rows x_r Y(host of r)* (n, 6) of each side, zero at the world."""
    n = plan.layout.n_rows
    own = ops.pick(x, np.repeat(np.arange(n)[:, None], 6, axis=1))
    out = []
    for hosts in (plan.a, plan.b):
        there = np.repeat(hosts[:, None] >= 0, 6, axis=1)
        places = 6 * np.maximum(hosts, 0)[:, None] + np.arange(6)
        part = ops.apply("mul", ops.pick(Y, places), ops.constant(there))
        out.append(ops.apply("mul", own, part))
    return out


class Heads(Numbers):
    """Writes loops over contacts and joints, each with the blocks of its rows at its hosts."""

    def __init__(self, code: Any, plan: RowPlan, blocks: Sequence[Any]) -> None:
        super().__init__(code.e)
        self._sides = plan.sides
        self._blocks = [
            in_memory(code, x, 6 * plan.layout.n_rows) if (hosts >= 0).any() else None
            for x, hosts in zip(blocks, plan.sides.T, strict=True)
        ]
        self._ends = word_table(code.module, plan.layout.ends)
        self._hosts = word_table(code.module, plan.sides.ravel().tolist())

    def rows_of(self, i: Any) -> tuple[Any, Any]:
        """The first row of a contact or joint, and that after its last."""
        return self.word(self._ends, i), self.word(self._ends, self.plus(i, 1))

    def host(self, i: Any, side: int) -> Any:
        """Its host on one side; −1 for the world."""
        return self.word(self._hosts, self.plus(self.b.mul(i, i64(2)), side))

    def six(self, base: Any, i: Any) -> list[Lane]:
        """The numbers of row i."""
        first = self.b.mul(i, i64(6))
        return [self.load(base, self.plus(first, t)) for t in range(6)]

    def each(
        self, body: Callable[[Any, Any, Any, list[tuple[Any, Any]]], None], count: int | None = None
    ) -> None:
        """body(number, first row, row after the last, its blocks with their hosts)."""
        b = self.b
        is_there = self._sides[:count] >= 0

        def one(i: Any) -> None:
            (first, end), hosts = self.rows_of(i), [self.host(i, t) for t in (0, 1)]
            for sides in ((0, 1), (0,), (1,)):
                if not (is_there == [t in sides for t in (0, 1)]).all(axis=1).any():
                    continue
                chosen = [(self._blocks[t], hosts[t]) for t in sides]
                known = [b.icmp_signed(">=", hosts[t], i64(0)) for t in (0, 1)]
                holds = [known[t] if t in sides else b.not_(known[t]) for t in (0, 1)]
                with b.if_then(b.and_(*holds)):
                    body(i, first, end, chosen)

        self.between(0, len(is_there), one)
