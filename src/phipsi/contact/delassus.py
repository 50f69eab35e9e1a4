"""W = C Λ C*, the velocities that impulses of rows give each other, as a call in graphs.

Rows have six numbers at each of two hosts, so that an entry is a product with a 6 × 6 block of Λ.
Blocks between hosts of different trees are zero. In machine code only rows of slots are computed
that are there in some lane; other entries of W, and those between rows that move no host in common,
are not written.

`RowCones` is `Delassus` and `ConeCall` in one: blocks of W go where the solver wants them, to the
rows of the contacts that are there, in the order of elimination, instead of to all rows and from
there to these. The bits are the same.

**Source:** theory/contact 1 (K1a–c, K1g), 5.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.backends.machine.solvers import BLOCK
from phipsi.backends.native.kernel.law_code import Area
from phipsi.backends.native.text.lane_arithmetic import I64, Lane, i64
from phipsi.contact.cone_calls import ConeCall
from phipsi.contact.cone_problem import INACTIVE, ROWS
from phipsi.contact.contact_group import ContactGroup
from phipsi.contact.contact_rows import RowPlan
from phipsi.contact.lane_elimination import word_table
from phipsi.contact.row_products import Heads, in_memory, outer
from phipsi.laws import law_operations as ops
from phipsi.laws.calls import Callee, call
from phipsi.laws.graph import Node

Array = NDArray[Any]


@final
class Delassus(Callee):
    """C_a, C_b (n, 6), Λ (6m, 6m), s (heads,), compliance (heads,) → W (n, n), of m hosts."""

    takes_views = True

    def __init__(self, plan: RowPlan) -> None:
        self.plan, self.layout = plan, plan.layout
        n = self.layout.n_rows
        self.shapes = ((n, n),)
        text = repr((self.layout, plan.sides.tolist(), plan.related.astype(int).tolist()))
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
        a, b, admittance, _, _ = args
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
        return [*sides, ops.matmul(ops.transpose(C), half), None, by_compliance]

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """Loops over pairs of slots that are there."""
        k = self.layout.n_heads
        s, compliance = (in_memory(code, x, k) for x in args[3:])
        return [self._writer(code, args, None).write(s, compliance)]

    def write_into(self, code: Any, args: Sequence[Any], group: ContactGroup) -> None:
        """The same for the contacts of a group, in its matrix; of contacts alone."""
        compliance = in_memory(code, args[4], self.layout.n_heads)
        group.clear_apart()
        self._writer(code, args, group).write_group(group, compliance)

    def _writer(self, code: Any, args: Sequence[Any], group: ContactGroup | None) -> _Writer:
        m = self.plan.n_hosts
        return _Writer(code, self.plan, args[:2], in_memory(code, args[2], 36 * m * m), group)


def masks_of(reached: Array) -> tuple[int, ...]:
    """A mask for each row of `reached` (k, m): those that reach a host in common share a bit."""
    bits = [sum({1 << (int(j) % _BITS) for j in np.flatnonzero(row)}) for row in reached]
    return tuple(bits)


def _needed(plan: RowPlan) -> Array:
    """Hosts (k, m) that a head or limit reaches, and that itself or one before it touches."""
    touched = np.zeros((len(plan.sides), plan.n_hosts), dtype=bool)
    for i, pair in enumerate(plan.sides):
        touched[i, pair[pair >= 0]] = True
    return plan.reached & np.logical_or.accumulate(touched, axis=0)


_BITS = 62
"""Of a mask: hosts beyond share them."""


@final
class _Writer(Heads):
    """Writes the code: rows are taken together, `BLOCK` at a time where all slots have as many."""

    def __init__(
        self,
        code: Any,
        plan: RowPlan,
        blocks: Sequence[Any],
        admittance: Any,
        group: ContactGroup | None,
    ) -> None:
        super().__init__(code, plan, blocks)
        layout, self.code, self.admittance = plan.layout, code, admittance
        self.n, self.heads, self.contacts = layout.n_rows, layout.n_heads, len(layout.contacts)
        self.k, self.m = self.heads + layout.limits, plan.n_hosts
        self.masks = word_table(code.module, masks_of(plan.reached))
        self.related = word_table(code.module, plan.related.astype(int).ravel().tolist())
        self.reached = word_table(code.module, _needed(plan).astype(int).ravel().tolist())
        together = all(len(ROWS[x]) % BLOCK == 0 for x in layout.contacts)
        self.rows = BLOCK if together else 1  # of slots that are taken together
        self.y = code.area(6 * self.rows * max(1, self.m))
        self.there = code.area(max(1, -(-self.k // code.e.lanes))).base
        self.group = group
        if group is None:
            self.W = code.area(max(1, self.n**2))
        else:
            self.W = Area(group.places[0])
            self.places = group.places_of_rows()

    def write(self, s: Any, compliance: Any) -> Any:
        """All rows; then the compliance of normals."""
        e, b = self.e, self.b

        def mark(i: Any) -> None:
            active = self.any(e.compare("<", self.load(s, i), INACTIVE))
            self.put_word(b.zext(active, I64), self.there, i)

        self.between(0, self.heads, mark)
        self.between(self.heads, self.k, lambda i: self.put_word(i64(1), self.there, i))
        for count, first, end in ((self.rows, 0, self.contacts), (1, self.contacts, self.k)):
            if first < end:
                self.between(
                    first, end, lambda i, x=count: self.if_there(i, lambda: self._slot(i, x))
                )

        self.between(0, self.heads, lambda i: self.if_there(i, lambda: self._soften(i, compliance)))
        return self.W

    def write_group(self, group: ContactGroup, compliance: Any) -> None:
        """All rows of the contacts of a group; then the compliance of normals."""

        def contact(c: Any) -> None:
            i = self.word(group.slots, c)

            def rows(r: Any) -> None:
                self._reach(i, r, self.rows)
                self.between(0, self.plus(c, 1), lambda d: meets(d, r))

            def meets(d: Any, r: Any) -> None:
                with self.b.if_then(group.meet(c, d)):
                    self._entries(i, self.word(group.slots, d), r, self.rows, self.rows)

            self.between(*self.rows_of(i), rows, self.rows)
            self._soften(i, compliance)

        self.between(0, group.k, contact)

    def _soften(self, i: Any, compliance: Any) -> None:
        """Add the compliance of a contact to the diagonal."""
        normal = self._place(self.b.sub(self.rows_of(i)[1], i64(1)))
        place = self.plus(self.b.mul(normal, self._width), normal)
        self.store(self.load(self.W.base, place) + self.load(compliance, i), self.W.base, place)

    def _place(self, row: Any) -> Any:
        """Where a row is in the matrix."""
        return row if self.group is None else self.word(self.places, row)

    @property
    def _width(self) -> Any:
        return i64(self.n) if self.group is None else self.group.n

    def if_there(self, i: Any, body: Any) -> None:
        """Code for a slot that is there in some lane."""
        with self.b.if_then(self.is_true(self.there, i)):
            body()

    def is_true(self, table: Any, i: Any) -> Any:
        """Whether word i is not 0."""
        return self.b.icmp_signed("!=", self.word(table, i), i64(0))

    def _sides_of(self, i: Any) -> list[tuple[Any, Any]]:
        """The rows at each side, and their host."""
        blocks = enumerate(self._blocks)
        return [(rows, self.host(i, t)) for t, rows in blocks if rows is not None]

    def _slot(self, i: Any, count: int) -> None:
        """Entries of the rows of slot i with those of slots up to it, `count` rows at once."""
        first, end = self.rows_of(i)
        mask = self.word(self.masks, i)
        parts = (self.rows, i64(0), i64(self.contacts)), (1, i64(self.contacts), i64(self.k))

        def rows(r: Any) -> None:
            self._reach(i, r, count)
            for other, start, stop in parts:
                if start.number < stop.number:
                    upto = self.plus(i, 1)
                    less = self.b.icmp_signed("<", upto, stop)
                    stop = self.b.select(less, upto, stop)
                    self.between(start, stop, lambda j, x=other: meets(j, r, x))

        def meets(j: Any, r: Any, other: int) -> None:
            both = self.b.and_(mask, self.word(self.masks, j))
            with self.b.if_then(self.b.icmp_signed("!=", both, i64(0))):
                self.if_there(j, lambda: self._entries(i, j, r, count, other))

        self.between(first, end, rows, count)

    def _reach(self, i: Any, r: Any, count: int) -> None:
        """y = Λ C_r*: the motions that impulses of rows r, r + 1, … give the hosts they reach."""
        b = self.b
        sides = self._sides_of(i)

        def host(c: Any) -> None:
            with b.if_then(self.is_true(self.reached, self.plus(b.mul(i, i64(self.m)), c))):
                start = b.mul(c, i64(6 * self.rows))
                for t in range(6 * count):
                    self.store(0.0, self.y.base, self.plus(start, t))
                for rows, own in sides:
                    with b.if_then(b.icmp_signed(">=", own, i64(0))):
                        place = self.plus(b.mul(own, i64(self.m)), c)
                        with b.if_then(self.is_true(self.related, place)):
                            self._add(rows, r, own, c, count)

        self.between(0, self.m, host)

    def _add(self, rows: Any, r: Any, own: Any, c: Any, count: int) -> None:
        """The part of one side in y of a host: columns of Λ's block, which is symmetric."""
        b = self.b
        y = self.at(self.y.base, b.mul(c, i64(6 * self.rows)))
        sums = [[self.load(y, 6 * t + u) for u in range(6)] for t in range(count)]
        block = self.plus(b.mul(own, i64(36 * self.m)), b.mul(c, i64(6)))
        block = self.at(self.admittance, block)
        numbers = self.at(rows, b.mul(r, i64(6)))
        for v in range(6):
            x = [self.load(numbers, 6 * t + v) for t in range(count)]
            for u in range(6):
                entry = self.load(block, 6 * self.m * v + u)
                for t in range(count):
                    sums[t][u] = x[t].times_plus(entry, sums[t][u])
        for t in range(count):
            for u in range(6):
                self.store(sums[t][u], y, 6 * t + u)

    def _entries(self, i: Any, j: Any, r: Any, count: int, other: int) -> None:
        """Entries of `count` rows from r on with all rows of slot j, `other` of them at once."""
        first, end = self.rows_of(j)
        self.between(first, end, lambda c: self._block(i, j, r, c, count, other), other)

    def _block(self, i: Any, j: Any, r: Any, c: Any, count: int, other: int) -> None:
        """Entries of rows with columns, and their mirror images."""
        b, sides = self.b, self._sides_of(j)
        known = []
        for _, host in sides:
            safe = b.select(b.icmp_signed(">=", host, i64(0)), host, i64(0))
            there = self.is_true(self.reached, self.plus(b.mul(i, i64(self.m)), safe))
            known.append(b.and_(there, b.icmp_signed(">=", host, i64(0))))
        if len(sides) == 1:
            self._sums(r, c, sides, count, other)
            return
        cases = ((b.and_(*known), (0, 1)), (b.not_(known[1]), (0,)), (b.not_(known[0]), (1,)))
        for holds, chosen in cases:
            with b.if_then(holds):
                self._sums(r, c, [sides[t] for t in chosen], count, other)

    def _sums(self, r: Any, c: Any, sides: list[tuple[Any, Any]], count: int, other: int) -> None:
        """C_c y of the hosts that rows r reach."""
        b = self.b
        out = [[self.e.constant(0.0)] * other for _ in range(count)]
        for rows, host in sides:
            y = self.at(self.y.base, b.mul(host, i64(6 * self.rows)))
            numbers = self.at(rows, b.mul(c, i64(6)))
            for v in range(6):
                moves = [self.load(y, 6 * t + v) for t in range(count)]
                for u in range(other):
                    x = self.load(numbers, 6 * u + v)
                    for t in range(count):
                        out[t][u] = x.times_plus(moves[t], out[t][u])
        self._put(r, c, out)

    def _put(self, r: Any, c: Any, out: list[list[Lane]]) -> None:
        """Entries of rows from r and columns from c on, and their mirror images."""
        b, n = self.b, self.n
        if self.group is None:
            down = self.at(self.W.base, self.plus(b.mul(r, i64(n)), c))
            along = self.at(self.W.base, self.plus(b.mul(c, i64(n)), r))
            for t, row in enumerate(out):
                for u, x in enumerate(row):
                    self.store(x, down, n * t + u)
                    self.store(x, along, n * u + t)
            return
        n, order = self.group.n, self.group.order
        if order is not None and len(order) == len(out) == len(out[0]):  # rows of whole contacts
            mine, other = (self.word(self.places, self.plus(x, order[0])) for x in (r, c))
            ways = ((mine, other), (other, mine))
            starts = [self.at(self.W.base, self.plus(b.mul(x, n), y)) for x, y in ways]
            down, along = (
                [self.at(x, b.mul(i64(order.index(t)), n)) for t in range(len(order))]
                for x in starts
            )
            for t, row in enumerate(out):
                for u, x in enumerate(row):
                    self.store(x, down[t], order.index(u))
                    self.store(x, along[u], order.index(t))
            return
        places = [self.word(self.places, self.plus(r, t)) for t in range(len(out))]
        others = [self.word(self.places, self.plus(c, u)) for u in range(len(out[0]))]
        for place, row in zip(places, out, strict=True):
            for other, x in zip(others, row, strict=True):
                self.store(x, self.W.base, self.plus(b.mul(place, n), other))
                self.store(x, self.W.base, self.plus(b.mul(other, n), place))


# ---- W and the solver in one ---------------------------------------------------------------------


_FACTORS = 5  # arguments of `Delassus`


def fits(cone: ConeCall) -> bool:
    """Whether W is needed once, and between contacts only."""
    layout = cone.layout
    return not (cone.rebounds or layout.stops or layout.limits)


@final
class RowCones(Callee):
    """C_a, C_b, Λ, s, compliance; b, s, coefficients, start → the results of a `ConeCall`."""

    takes_views = True

    def __init__(self, plan: RowPlan, cone: ConeCall) -> None:
        self._delassus, self._cone = Delassus(plan), cone
        self.shapes = cone.shapes
        self.key = ("rows", self._delassus.key, cone.key)
        self.name = f"{self._delassus.name} {cone.name}"

    def arrays(self, *args: Array) -> Sequence[Array]:
        """One after the other."""
        (W,) = self._delassus.arrays(*args[:_FACTORS])
        return self._cone.arrays(W, *args[_FACTORS:])

    def pull(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """As of both."""
        if weights[0] is None:
            return [None] * len(args)
        factors, given = args[:_FACTORS], args[_FACTORS:]
        (W,) = call(self._delassus, *factors)
        left, p, *others = self._cone.pulled((W, *given), results, weights[0])
        return [*self._delassus.pull(factors, (W,), [outer(left, p)]), *others, None]

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """List the contacts that are there in some lane, compute their W, solve, and scatter."""
        factors = args[:_FACTORS]
        return self._cone.written(
            code, args[_FACTORS:], lambda group: self._delassus.write_into(code, factors, group)
        )
