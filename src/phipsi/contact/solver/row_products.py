"""Products with the rows C of contacts and with Λ as calls in graphs: C V, C* p and Λ f.

A row has six numbers at each of two hosts, so that a product is a loop over the rows.

**Source:** theory/contact 1 (K1a–c).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from phipsi.contact.contact_rows import RowPlan
from phipsi.contact.slot_rows import RowBlocks
from phipsi.core.arrays import Node, Tracer, as_node, call, law_operations as ops
from phipsi.core.machine import Index, Machine, Memory, Number, Pair
from phipsi.native import MachineCall

Array = NDArray[Any]


def row_rates(plan: RowPlan, blocks: RowBlocks, motions: Any, *, normals: bool = False) -> Any:
    """C V (n,) of the motions V (hosts, 6), traced; or of the rows of normals alone (heads,)."""
    rates = call(RowRates(plan, normals=normals), *map(as_node, (*blocks, motions)))
    return Tracer(rates[0])


def row_forces(plan: RowPlan, blocks: RowBlocks, p: Array) -> Node:
    """C* p (hosts, 6) of the impulses p (n,), traced."""
    return call(RowForces(plan), *map(as_node, (*blocks, p)))[0]


def host_motions(plan: RowPlan, admittance: Node, forces: Node) -> Any:
    """Λ f (hosts, 6), the motions that forces f (hosts, 6) cause, traced."""
    f: Any = Tracer(forces)
    if plan.related.all():
        whole: Any = Tracer(admittance)
        return (whole @ f.reshape(-1)).reshape(-1, 6)
    return Tracer(call(HostMotions(plan), admittance, forces)[0])


@final
class HostMotions(MachineCall):
    """Λ (6m, 6m), f (m, 6) → Λ f (m, 6), without blocks between hosts of different trees."""

    packed = (0, 1)

    def __init__(self, plan: RowPlan) -> None:
        m = plan.n_hosts
        self._related, self.takes, self.shapes = plan.related, ((6 * m, 6 * m), (m, 6)), ((m, 6),)
        self.key = ("motions", m, tuple(plan.related.ravel().tolist()))
        self.name = f"motions of hosts {_digest(self.key)}"

    def vjp(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """By Λ: the blocks of w f* that are read; by f: Λ w, as Λ is symmetric."""
        w = weights[0]
        if w is None:
            return [None, None]
        i, j = np.nonzero(np.kron(self._related, np.ones((6, 6))))
        products = ops.apply("mul", ops.gather(w, i), ops.gather(args[1], j))
        by_admittance = ops.scatter_add(products, i * args[1].size + j, args[0].shape)
        return [by_admittance, call(self, args[0], w)[0]]

    def text(self, m: Machine, args: Sequence[Memory]) -> Sequence[Memory]:
        """Every host's related ones, one after the other: round k has the number k of each."""
        admittance, f = args
        count = len(self._related)
        out = m.array(count, 6, kept=False)
        rank = np.cumsum(self._related, axis=1) - 1
        pairs = sorted(np.argwhere(self._related).tolist(), key=lambda x: (rank[x[0], x[1]], *x))
        ranks = [rank[i, j] for i, j in pairs]
        rounds = max(ranks, default=-1) + 1
        first, second = (m.words([x[t] for x in pairs]) for t in (0, 1))
        starts = m.words(np.searchsorted(ranks, np.arange(rounds + 1)).tolist())

        @m.each(0, count)
        def _(i: Index) -> None:
            for t in range(6):
                out[i, t] = 0.0

        @m.loop(0, rounds)
        def _(k: Index) -> None:
            @m.each(starts[k], starts[k + 1])
            def _(pair: Index) -> None:
                i, j = first[pair], second[pair]
                sums = [out[i, t] for t in range(6)]
                rows = [admittance.row(i * 6 + t) for t in range(6)]
                for u in range(6):
                    x = f[j, u]
                    sums = [m.fma(row[j * 6 + u], x, y) for row, y in zip(rows, sums, strict=True)]
                for t, x in enumerate(sums):
                    out[i, t] = x

        return [out]


@final
class RowRates(MachineCall):
    """C_a, C_b (n, 6), V (hosts, 6) → C V (n,), or (heads,) of the rows of normals."""

    def __init__(self, plan: RowPlan, *, normals: bool = False) -> None:
        self._plan, self._normals = plan, normals
        n = plan.layout.n_rows
        self.takes, self.packed = ((n, 6), (n, 6), (plan.n_hosts, 6)), (*_sides_of(plan), 2)
        rows = plan.layout.normals if normals else np.arange(plan.layout.n_rows)
        self._rows, self.shapes = rows, ((len(rows),),)
        self.key = ("rates", *_key(plan), normals)
        self.name = f"rates of rows {_digest(self.key)}"

    def vjp(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """By C: w V*; by V: C* w."""
        if weights[0] is None:
            return [None] * len(args)
        a, b, V = args
        w = weights[0]
        if self._normals:
            w = ops.scatter_add(w, self._rows, (self._plan.layout.n_rows,))
        (by_V,) = call(RowForces(self._plan), a, b, w)
        return [*_products(self._plan, w, V), by_V]

    def text(self, m: Machine, args: Sequence[Memory]) -> Sequence[Memory]:
        """A loop over the contacts and joints, and over the rows of each."""
        *blocks, V = args
        heads = Heads(m, self._plan, self._plan.layout.n_heads if self._normals else None)
        out = m.array(*self.shapes[0], kept=False)

        @heads.each
        def _(head: HostedRows) -> None:
            moves = [[V[host, u] for u in range(6)] for _, host in head.hosts]

            def row(r: Index, place: Index) -> None:
                total: Number | float = 0.0
                for (side, _), move in zip(head.hosts, moves, strict=True):
                    for u, x in enumerate(move):
                        total = m.fma(blocks[side][r, u], x, total)
                out[place] = total

            if self._normals:
                row(head.first + (head.size - 1), head.number)
            else:
                m.each(0, head.size)(lambda j: row(head.first + j, head.first + j))

        return [out]


@final
class RowForces(MachineCall):
    """C_a, C_b (n, 6), p (n,) → C* p (hosts, 6)."""

    def __init__(self, plan: RowPlan) -> None:
        self._plan, self.shapes = plan, ((plan.n_hosts, 6),)
        n = plan.layout.n_rows
        self.takes, self.packed = ((n, 6), (n, 6), (n,)), (*_sides_of(plan), 2)
        self.key = ("forces", *_key(plan))
        self.name = f"forces of rows {_digest(self.key)}"

    def vjp(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """By C: p w*; by p: C w."""
        if weights[0] is None:
            return [None] * len(args)
        a, b, p = args
        (by_p,) = call(RowRates(self._plan), a, b, weights[0])
        return [*_products(self._plan, p, weights[0]), by_p]

    def text(self, m: Machine, args: Sequence[Memory]) -> Sequence[Memory]:
        """A loop over the contacts and joints: those of their rows are summed first."""
        *blocks, p = args
        out = m.array(*self.shapes[0], kept=False)

        @m.each(0, self._plan.n_hosts)
        def _(i: Index) -> None:
            for u in range(6):
                out[i, u] = 0.0

        @Heads(m, self._plan).each
        def _(head: HostedRows) -> None:
            def products(j: Index) -> list[Pair]:
                x = p[head.first + j]
                return [(blocks[t][head.first + j, u], x) for t, _ in head.hosts for u in range(6)]

            sums = m.sums(0, head.size, products, [0.0] * (6 * len(head.hosts)))
            for k, (_, host) in enumerate(head.hosts):
                for u in range(6):
                    m.add(out, (host, u), sums[6 * k + u])

        return [out]


def outer(x: Node, y: Node) -> Node:
    """X y* of vectors with as many numbers, whatever their shapes."""
    i, j = np.indices((x.size, x.size))
    return ops.apply("mul", ops.gather(x, i), ops.gather(y, j))


def _key(plan: RowPlan) -> tuple[Any, ...]:
    return plan.layout, plan.n_hosts, tuple(plan.sides.ravel().tolist())


def _digest(key: Any) -> str:
    return hashlib.sha256(repr(key).encode()).hexdigest()


def _products(plan: RowPlan, x: Node, Y: Node) -> list[Node]:
    """Rows x_r Y(host of r)* (n, 6) of each side, zero at the world."""
    n = plan.layout.n_rows
    own = ops.gather(x, np.repeat(np.arange(n)[:, None], 6, axis=1))
    out: list[Node] = []
    for hosts in (plan.a, plan.b):
        there = np.repeat(hosts[:, None] >= 0, 6, axis=1)
        places = 6 * np.maximum(hosts, 0)[:, None] + np.arange(6)
        part = ops.apply("mul", ops.gather(Y, places), ops.constant(there))
        out.append(ops.apply("mul", own, part))
    return out


def _sides_of(plan: RowPlan) -> list[int]:
    """The sides at which some contact or joint has a host."""
    return [t for t in (0, 1) if (plan.sides[:, t] >= 0).any()]


class HostedRows(NamedTuple):
    """A contact or joint: its number, its rows, and the sides at which it has a host."""

    number: Index
    first: Index
    size: int
    hosts: list[tuple[int, Index]]


@final
class Heads:
    """Contacts and joints of a plan, or the first of them."""

    def __init__(self, m: Machine, plan: RowPlan, count: int | None = None) -> None:
        self._m, ends, sides = m, plan.layout.ends, plan.sides[:count]
        there = [tuple(np.flatnonzero(x >= 0).tolist()) for x in sides]
        kinds = [(ends[i + 1] - ends[i], x) for i, x in enumerate(there)]
        self._kinds = sorted(set(kinds))
        pairs = [(self._kinds.index(x), ends[i]) for i, x in enumerate(kinds)]
        self._count, self._table = len(kinds), m.words([x for pair in pairs for x in pair])
        self._hosts = m.words(plan.sides.ravel().tolist())

    def each(self, body: Callable[[HostedRows], None]) -> None:
        """body(head) of each, in any order."""

        @self._m.each_case(self._count, len(self._kinds), self._table)
        def _(case: int, i: Index, first: Index) -> None:
            count, sides = self._kinds[case]
            body(HostedRows(i, first, count, [(t, self._hosts[i * 2 + t]) for t in sides]))
