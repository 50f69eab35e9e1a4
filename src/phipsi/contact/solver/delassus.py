"""W = C Λ C*, the velocities that impulses of rows give each other, as a call in graphs.

Rows have six numbers at each of two hosts, so that an entry is a product with a 6 × 6 block of Λ.
Blocks between hosts of different trees are zero. In machine code only rows of slots are computed
that are there in some lane; other entries of W, and those between rows that move no host in common,
are not written.

`RowContactSolver` is `Delassus` and `ContactSolve` in one: blocks of W go where the solver wants
them, to the rows of the contacts that are there, in the order of elimination, instead of to all
rows and from there to these. The bits are the same.

**Source:** theory/contact 1 (K1a–c, K1g), 5.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.contact.contact_rows import RowPlan
from phipsi.contact.solver.contact_group import ContactGroup
from phipsi.contact.solver.contact_problem import INACTIVE, ROWS
from phipsi.contact.solver.contact_solver_calls import ContactSolve
from phipsi.contact.solver.row_products import outer
from phipsi.core.arrays import Node, Primitive, call, law_operations as ops
from phipsi.core.machine import BLOCK, Index, Words
from phipsi.native import GroupLanes, LaneCondition, LaneMemory

Array = NDArray[Any]


@final
class Delassus(Primitive):
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
        a, b, admittance, _, compliance = args
        plan, n, m = self.plan, self.layout.n_rows, self.plan.n_hosts
        batch = np.broadcast_shapes(a.shape[:-2], admittance.shape[:-2], compliance.shape[:-1])
        blocks = np.zeros((*batch, n, m, 6))
        rows = np.arange(n)
        for hosts, block in ((plan.a, a), (plan.b, b)):
            there = hosts >= 0
            blocks[..., rows[there], hosts[there], :] += block[..., there, :]
        C = blocks.reshape(*batch, n, 6 * m)
        own = C @ admittance @ np.swapaxes(C, -1, -2)
        W = 0.5 * (own + np.swapaxes(own, -1, -2))
        normals = self.layout.normals
        W[..., normals, normals] += compliance
        return [W]

    def vjp(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """By Λ: C* w C; by rows: (w + w*) C Λ; w is zero where a slot is absent."""
        w = weights[0]
        if w is None:
            return [None] * len(args)
        a, b, admittance, _, _ = args
        n, m, plan = self.layout.n_rows, self.plan.n_hosts, self.plan
        places: list[Array] = []
        for hosts in (plan.a, plan.b):
            host = 6 * np.maximum(hosts, 0)[:, None] + np.arange(6)
            places.append(6 * m * np.arange(n)[:, None] + host)
        both = np.stack(places)
        C = ops.scatter_add(ops.concat([a, b], both.shape), both, (n, 6 * m))
        half = ops.matmul(w, C)
        total = ops.apply("add", half, ops.matmul(ops.transpose(w), C))
        by_rows = ops.matmul(total, admittance)
        sides = [
            ops.apply(
                "mul", ops.gather(by_rows, x), ops.constant(np.repeat(y[:, None] >= 0, 6, axis=1))
            )
            for x, y in zip(places, (plan.a, plan.b), strict=True)
        ]
        normals = self.layout.normals
        by_compliance = ops.gather(w, n * normals + normals)
        return [*sides, ops.matmul(ops.transpose(C), half), None, by_compliance]

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """Loops over pairs of slots that are there."""
        return [_DelassusWriter(code, self.plan, args, None).write(args[3]).area]

    def write_into(self, code: Any, args: Sequence[Any], group: ContactGroup) -> None:
        """The same for the contacts of a group, in its matrix; of contacts alone."""
        writer = _DelassusWriter(code, self.plan, args, group)
        group.clear_apart()
        writer.write_group(group)


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


def _matrix_of(g: GroupLanes, group: ContactGroup) -> LaneMemory:
    n = g.index(group.n)
    return g.numbers(group.places[0], n, n)


@final
class _DelassusWriter:
    """Writes the code: rows are taken together, `BLOCK` at a time where all slots have as many."""

    def __init__(
        self, code: Any, plan: RowPlan, args: Sequence[Any], group: ContactGroup | None
    ) -> None:
        self.g, layout = GroupLanes(code), plan.layout
        self.n, self.heads, self.contacts = layout.n_rows, layout.n_heads, len(layout.contacts)
        self.k, self.hosts = self.heads + layout.limits, plan.n_hosts
        g, m, hosts = self.g, self.g.m, self.hosts
        self.blocks = [
            g.packed(x, self.n, 6) if (side >= 0).any() else None
            for x, side in zip(args[:2], plan.sides.T, strict=True)
        ]
        self.admittance = g.packed(args[2], 6 * hosts, 6 * hosts)
        self.compliance = g.packed(args[4], self.heads)
        self.ends, self.sides = m.words(layout.ends), m.words(plan.sides.ravel().tolist())
        self.masks = m.words(masks_of(plan.reached))
        self.related = m.words(plan.related.astype(int).ravel().tolist())
        self.reached = m.words(_needed(plan).astype(int).ravel().tolist())
        together = all(len(ROWS[x]) % BLOCK == 0 for x in layout.contacts)
        self.rows = BLOCK if together else 1  # of slots that are taken together
        self.y = g.area(max(1, hosts), 6 * self.rows)
        self.there = g.words(self.k)
        self.group = group
        if group is not None:
            self.places = group.places_of_rows()
        self.W = g.area(self.n, self.n) if group is None else _matrix_of(g, group)

    def write(self, s: Any) -> LaneMemory:
        """All rows; then the compliance of normals."""
        g, m = self.g, self.g.m
        known = g.packed(s, self.heads)

        @m.loop(0, self.heads)
        def _(i: Index) -> None:
            self.there.put(i, g.any(known[i] < INACTIVE).as_index())

        m.loop(self.heads, self.k)(lambda i: self.there.put(i, 1))
        for count, first, end in ((self.rows, 0, self.contacts), (1, self.contacts, self.k)):

            def slot(i: Index, count: int = count) -> None:
                with g.where(self._is_true(self.there, i)):
                    self._slot(i, count)

            m.loop(first, end)(slot)

        @m.loop(0, self.heads)
        def _(i: Index) -> None:
            with g.where(self._is_true(self.there, i)):
                self._soften(i)

        return self.W

    def write_group(self, group: ContactGroup) -> None:
        """All rows of the contacts of a group; then the compliance of normals."""
        g, m, slots = self.g, self.g.m, group.numbers_of_slots

        @m.loop(0, g.index(group.k))
        def _(c: Index) -> None:
            i = slots[c]

            @m.loop(*self._rows_of(i), self.rows)
            def _(r: Index) -> None:
                self._reach(i, r, self.rows)

                @m.loop(0, c + 1)
                def _(d: Index) -> None:
                    with g.where(group.meet(c, d)):
                        self._entries(i, slots[d], r, self.rows, self.rows)

            self._soften(i)

    def _rows_of(self, i: Index) -> tuple[Any, Any]:
        """The first row of a contact or joint, and that after its last."""
        return self.ends[i], self.ends[i + 1]

    def _soften(self, i: Index) -> None:
        """Add the compliance of a contact to the diagonal."""
        normal = self._rows_of(i)[1] - 1
        normal = normal if self.group is None else self.places[normal]
        self.W[normal, normal] = self.W[normal, normal] + self.compliance[i]

    def _is_true(self, table: Words, i: Index) -> LaneCondition:
        """Whether word i is not 0."""
        word: Any = table[i]
        return ~word.equals(0)

    def _sides_of(self, i: Index) -> list[tuple[LaneMemory, Any]]:
        """The rows at each side, and their host; −1 for the world."""
        pairs = enumerate(self.blocks)
        return [(rows, self.sides[i * 2 + t]) for t, rows in pairs if rows is not None]

    def _slot(self, i: Index, count: int) -> None:
        """Entries of the rows of slot i with those of slots up to it, `count` rows at once."""
        g, m, mask = self.g, self.g.m, self.masks[i]
        parts = (self.rows, 0, self.contacts), (1, self.contacts, self.k)
        after: Any = i + 1

        @m.loop(*self._rows_of(i), count)
        def _(r: Any) -> None:
            self._reach(i, r, count)
            for other, start, stop in parts:

                def meets(j: Index, other: int = other) -> None:
                    with (
                        g.where(g.share_bits(mask, self.masks[j])),
                        g.where(self._is_true(self.there, j)),
                    ):
                        self._entries(i, j, r, count, other)

                if start < stop:
                    m.loop(start, g.smaller(after, stop))(meets)

    def _reach(self, i: Index, r: Index, count: int) -> None:
        """y = Λ C_r*: the motions that impulses of rows r, r + 1, … give the hosts they reach."""
        g, sides = self.g, self._sides_of(i)

        @g.m.loop(0, self.hosts)
        def _(c: Index) -> None:
            with g.where(self._is_true(self.reached, i * self.hosts + c)):
                y = self.y.row(c)
                for t in range(6 * count):
                    y[t] = 0.0
                for rows, own in sides:
                    with (
                        g.where(own >= 0),
                        g.where(self._is_true(self.related, own * self.hosts + c)),
                    ):
                        self._add(rows, r, own, c, count)

    def _add(self, rows: LaneMemory, r: Index, own: Index, c: Index, count: int) -> None:
        """The part of one side in y of a host: columns of Λ's block, which is symmetric."""
        m, y, numbers = self.g.m, self.y.row(c), rows.part(r * 6)
        sums = [[y[6 * t + u] for u in range(6)] for t in range(count)]
        block = self.admittance.part(own * (36 * self.hosts) + c * 6)
        for v in range(6):
            x = [numbers[6 * t + v] for t in range(count)]
            for u in range(6):
                entry = block[6 * self.hosts * v + u]
                for t in range(count):
                    sums[t][u] = m.fma(x[t], entry, sums[t][u])
        for t in range(count):
            for u in range(6):
                y[6 * t + u] = sums[t][u]

    def _entries(self, i: Index, j: Index, r: Index, count: int, other: int) -> None:
        """Entries of `count` rows from r on with all rows of slot j, `other` of them at once."""
        first, end = self._rows_of(j)
        self.g.m.loop(first, end, other)(lambda c: self._block(i, j, r, c, count, other))

    def _block(self, i: Index, j: Index, r: Index, c: Index, count: int, other: int) -> None:
        """Entries of rows with columns, and their mirror images."""
        g, sides, known = self.g, self._sides_of(j), list[LaneCondition]()
        for _, host in sides:
            safe = g.choose(host >= 0, host, 0)
            there = self._is_true(self.reached, i * self.hosts + safe)
            known.append(there & (host >= 0))
        if len(sides) == 1:
            self._sums(r, c, sides, count, other)
            return
        for holds, chosen in (
            (known[0] & known[1], (0, 1)),
            (~known[1], (0,)),
            (~known[0], (1,)),
        ):
            with g.where(holds):
                self._sums(r, c, [sides[t] for t in chosen], count, other)

    def _sums(
        self, r: Index, c: Index, sides: Sequence[tuple[LaneMemory, Index]], count: int, other: int
    ) -> None:
        """C_c y of the hosts that rows r reach."""
        m = self.g.m
        out: list[list[Any]] = [[0.0] * other for _ in range(count)]
        for rows, host in sides:
            y, numbers = self.y.row(host), rows.part(c * 6)
            for v in range(6):
                moves = [y[6 * t + v] for t in range(count)]
                for u in range(other):
                    x = numbers[6 * u + v]
                    for t in range(count):
                        out[t][u] = m.fma(x, moves[t], out[t][u])
        self._put(r, c, out)

    def _put(self, r: Index, c: Index, out: list[list[Any]]) -> None:
        """Entries of rows from r and columns from c on, and their mirror images."""
        if self.group is None:
            down, along = (self.W.part(x * self.n + y) for x, y in ((r, c), (c, r)))
            for t, row in enumerate(out):
                for u, x in enumerate(row):
                    down[self.n * t + u] = x
                    along[self.n * u + t] = x
            return
        n, order = self.g.index(self.group.n), self.group.order
        if order is not None and len(order) == len(out) == len(out[0]):  # rows of whole contacts
            mine, other = (self.places[x + order[0]] for x in (r, c))
            starts = [self.W.part(x * n + y) for x, y in ((mine, other), (other, mine))]
            down, along = (
                [start.part(n * order.index(t)) for t in range(len(order))] for start in starts
            )
            for t, row in enumerate(out):
                for u, x in enumerate(row):
                    down[t][order.index(u)] = x
                    along[u][order.index(t)] = x
            return
        places = [self.places[r + t] for t in range(len(out))]
        others = [self.places[c + u] for u in range(len(out[0]))]
        for place, row in zip(places, out, strict=True):
            for other, x in zip(others, row, strict=True):
                self.W[place, other] = x
                self.W[other, place] = x


# ---- W and the solver in one ---------------------------------------------------------------------


_FACTORS = 5  # arguments of `Delassus`


def fits(cone: ContactSolve) -> bool:
    """Whether W is needed once, and between contacts only."""
    layout = cone.layout
    return not (cone.rebounds or layout.stops or layout.limits)


@final
class RowContactSolver(Primitive):
    """C_a, C_b, Λ, s, compliance; b, s, coefficients, start → the results of a `ContactSolve`."""

    takes_views = True

    def __init__(self, plan: RowPlan, cone: ContactSolve) -> None:
        self._delassus, self._cone = Delassus(plan), cone
        self.shapes = cone.shapes
        self.key = ("rows", self._delassus.key, cone.key)
        self.name = f"{self._delassus.name} {cone.name}"

    def arrays(self, *args: Array) -> Sequence[Array]:
        """One after the other."""
        (W,) = self._delassus.arrays(*args[:_FACTORS])
        return self._cone.arrays(W, *args[_FACTORS:])

    def vjp(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """As of both."""
        if weights[0] is None:
            return [None] * len(args)
        factors, given = args[:_FACTORS], args[_FACTORS:]
        (W,) = call(self._delassus, *factors)
        left, p, *others = self._cone.pulled((W, *given), results, weights[0])
        return [*self._delassus.vjp(factors, (W,), [outer(left, p)]), *others, None]

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """List the contacts that are there in some lane, compute their W, solve, and scatter."""
        factors = args[:_FACTORS]
        return self._cone.written(
            code, args[_FACTORS:], lambda group: self._delassus.write_into(code, factors, group)
        )
