"""W = C Λ C*, the velocities that impulses of rows give each other, as a call in graphs.

Rows have six numbers at each of two hosts, so that an entry is a product with a 6 × 6 block of Λ.
Blocks between hosts of different trees are zero. In machine code only rows of slots are computed
that are there in some lane; other entries of W, and those between rows that move no host in common,
are not written.

**Source:** theory/contact 1 (K1a–c, K1g).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.backends.native.text.lane_arithmetic import I64, i64
from phipsi.contact.cone_problem import INACTIVE
from phipsi.contact.contact_rows import RowPlan
from phipsi.contact.lane_elimination import Numbers, word_table
from phipsi.laws import law_operations as ops
from phipsi.laws.calls import Callee
from phipsi.laws.graph import Node

Array = NDArray[Any]


@final
class Delassus(Callee):
    """C_a, C_b (n, 6), Λ (6m, 6m), s (heads,), compliance (heads,) → W (n, n), of m hosts."""

    def __init__(self, plan: RowPlan) -> None:
        self.plan, self.layout = plan, plan.layout
        n, joints = self.layout.n_rows, self.layout.stops + self.layout.limits
        self.shapes = ((n, n),)
        self._firsts = [*self.layout.firsts, *range(n - joints, n + 1)]
        self._hosts = plan.sides.tolist()
        self._reached = plan.reached.astype(int).tolist()
        text = repr((self._firsts, self._hosts, self._reached, self.layout.limits))
        self.key = ("delassus", text)
        self.name = f"delassus {hashlib.sha256(text.encode()).hexdigest()}"

    def arrays(self, *args: Array) -> Sequence[Array]:
        """With the whole of C."""
        a, b, admittance, s, compliance = args
        plan, n, m = self.plan, self.layout.n_rows, self.plan.n_hosts
        batch = np.broadcast_shapes(a.shape[:-2], admittance.shape[:-2], compliance.shape[:-1])
        C = np.zeros((*batch, n, m, 6))
        rows = np.arange(n)
        for hosts, block in ((plan.a, a), (plan.b, b)):
            there = hosts >= 0
            C[..., rows[there], hosts[there], :] += block[..., there, :]
        C = C.reshape(*batch, n, 6 * m)
        W = C @ admittance @ np.swapaxes(C, -1, -2)
        W = 0.5 * (W + np.swapaxes(W, -1, -2))
        normals = self.layout.normals
        W[..., normals, normals] += compliance
        return [W]

    def pull(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """By Λ: C* w C; by rows: (w + w*) C Λ; w is zero where a slot is not there."""
        w = weights[0]
        if w is None:
            return [None] * len(args)
        a, b, admittance, _, compliance = args
        n, m, plan = self.layout.n_rows, self.plan.n_hosts, self.plan
        places = []
        for hosts in (plan.a, plan.b):
            host = 6 * np.maximum(hosts, 0)[:, None] + np.arange(6)
            places.append(6 * m * np.arange(n)[:, None] + host)
        both = np.stack(places)
        C = ops.scatter(ops.join([a, b], both.shape), both, (n, 6 * m))
        half = ops.matmul(w, C)
        total = ops.apply("add", half, ops.matmul(ops.transpose(w), C))
        by_rows = ops.matmul(total, admittance)
        sides = [
            ops.apply(
                "mul", ops.pick(by_rows, x), ops.constant(np.repeat(y[:, None] >= 0, 6, axis=1))
            )
            for x, y in zip(places, (plan.a, plan.b), strict=True)
        ]
        normals = self.layout.normals
        by_compliance = ops.pick(w, n * normals + normals)
        del compliance
        return [*sides, ops.matmul(ops.transpose(C), half), None, by_compliance]

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """Loops over pairs of slots that are there."""
        a, b, admittance, s, compliance = (code.stored(x).base for x in args)
        writer = _Writer(code, self, (a, b), admittance)
        return [writer.write(s, compliance)]


def masks_of(reached: Array) -> tuple[int, ...]:
    """A mask for each row of `reached` (k, m): those that reach a host in common share a bit."""
    bits = [sum({1 << (int(j) % _BITS) for j in np.flatnonzero(row)}) for row in reached]
    return tuple(bits)


_BITS = 62
"""Of a mask: hosts beyond share them."""


@final
class _Writer(Numbers):
    """Writes the code."""

    def __init__(self, code: Any, callee: Delassus, sides: Sequence[Any], admittance: Any) -> None:
        super().__init__(code.e)
        self.code, self.sides, self.admittance = code, sides, admittance
        self.n, self.heads = callee.layout.n_rows, callee.layout.n_heads
        self.k, self.m = self.heads + callee.layout.limits, callee.plan.n_hosts
        self.firsts = word_table(code.module, callee._firsts)
        self.bodies = word_table(code.module, [x for pair in callee._hosts for x in pair])
        self.masks = word_table(code.module, masks_of(callee.plan.reached))
        self.reached = word_table(code.module, [x for row in callee._reached for x in row])
        self.W, self.y = code.area(max(1, self.n**2)), code.area(6 * max(1, self.m))
        self.there = code.area(max(1, -(-self.k // code.e.lanes))).base

    def write(self, s: Any, compliance: Any) -> Any:
        """All rows; then the compliance of normals."""
        e, b = self.e, self.b

        def mark(i: Any) -> None:
            active = self.any(e.compare("<", self.load(s, i), INACTIVE))
            self.put_word(b.zext(active, I64), self.there, i)

        self.between(0, self.heads, mark)
        self.between(self.heads, self.k, lambda i: self.put_word(i64(1), self.there, i))

        def slot(i: Any) -> None:
            self.if_there(i, lambda: self._rows_of(i, compliance))

        self.between(0, self.k, slot)
        return self.W

    def if_there(self, i: Any, body: Any) -> None:
        """Code for a slot that is there in some lane."""
        is_there = self.b.icmp_signed("!=", self.word(self.there, i), i64(0))
        with self.b.if_then(is_there):
            body()

    def if_meets(self, i: Any, j: Any, r: Any) -> None:
        """Products of row r of slot i with slot j, if it is there and moves the same hosts."""
        b = self.b
        both = b.and_(self.word(self.masks, i), self.word(self.masks, j))
        with b.if_then(b.icmp_signed("!=", both, i64(0))):
            self.if_there(j, lambda: self._products(r, j))

    def _ends(self, i: Any) -> tuple[Any, Any]:
        return self.word(self.firsts, i), self.word(self.firsts, self.plus(i, 1))

    def _sides_of(self, i: Any) -> list[Any]:
        return [self.word(self.bodies, self.plus(self.b.mul(i, i64(2)), t)) for t in (0, 1)]

    def _rows_of(self, i: Any, compliance: Any) -> None:
        first, end = self._ends(i)
        hosts = self._sides_of(i)

        def row(r: Any) -> None:
            self._reach(i, r, hosts)
            self.between(0, self.plus(i, 1), lambda j: self.if_meets(i, j, r))

        self.between(first, end, row)
        with self.b.if_then(self.b.icmp_signed("<", i, i64(self.heads))):
            normal = self.b.sub(end, i64(1))
            place = self.plus(self.b.mul(normal, i64(self.n)), normal)
            self.store(self.load(self.W.base, place) + self.load(compliance, i), self.W.base, place)

    def _reach(self, i: Any, r: Any, hosts: list[Any]) -> None:
        """y = Λ C_r*: the motions that an impulse of row r gives all bodies."""
        b, y = self.b, self.y.base
        rows = [
            [self.load(side, self.plus(b.mul(r, i64(6)), t)) for t in range(6)]
            for side in self.sides
        ]

        def body(c: Any) -> None:
            start = b.mul(c, i64(6))
            for t in range(6):
                self.store(0.0, y, self.plus(start, t))
            place = self.plus(b.mul(i, i64(self.m)), c)
            moves = b.icmp_signed("!=", self.word(self.reached, place), i64(0))
            with b.if_then(moves):
                for host, numbers in zip(hosts, rows, strict=True):
                    with b.if_then(b.icmp_signed(">=", host, i64(0))):
                        self._add(numbers, host, start)

        self.between(0, self.m, body)

    def _add(self, numbers: list[Any], host: Any, start: Any) -> None:
        """The part of one side in y of a body: columns of Λ's block, which is symmetric."""
        b = self.b
        sums = [self.load(self.y.base, self.plus(start, t)) for t in range(6)]
        for u, x in enumerate(numbers):
            line = b.mul(self.plus(b.mul(host, i64(6)), u), i64(6 * self.m))
            for t in range(6):
                entry = self.load(self.admittance, self.plus(self.plus(line, start), t))
                sums[t] = x.times_plus(entry, sums[t])
        for t in range(6):
            self.store(sums[t], self.y.base, self.plus(start, t))

    def _products(self, r: Any, j: Any) -> None:
        """Entries of row r with all rows of slot j, and their mirror images."""
        b = self.b
        first, end = self._ends(j)
        hosts = self._sides_of(j)
        known = [b.icmp_signed(">=", host, i64(0)) for host in hosts]
        cases = ((b.and_(*known), (0, 1)), (b.not_(known[1]), (0,)), (b.not_(known[0]), (1,)))
        for holds, sides in cases:
            with b.if_then(holds):
                self._columns(r, first, end, [(self.sides[t], hosts[t]) for t in sides])

    def _columns(self, r: Any, first: Any, end: Any, sides: list[tuple[Any, Any]]) -> None:
        """Entries of row r, from the motions of the hosts of a slot."""
        b, W = self.b, self.W.base
        moves = [
            [self.load(self.y.base, self.plus(b.mul(host, i64(6)), u)) for u in range(6)]
            for _, host in sides
        ]

        def column(c: Any) -> None:
            out = self.e.constant(0.0)
            for (side, _), move in zip(sides, moves, strict=True):
                for u, y in enumerate(move):
                    x = self.load(side, self.plus(b.mul(c, i64(6)), u))
                    out = x.times_plus(y, out)
            self.store(out, W, self.plus(b.mul(r, i64(self.n)), c))
            self.store(out, W, self.plus(b.mul(c, i64(self.n)), r))

        self.between(first, end, column)
