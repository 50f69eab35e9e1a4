"""Gathering the contacts of a group of lanes: those that are there in any of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from phipsi.contact.solver.contact_problem import INACTIVE, ContactProblemLayout
from phipsi.contact.solver.scaled_problem import KINDS, order_of, padded, work_size
from phipsi.core.machine import BLOCK, Index
from phipsi.native import (
    Area,
    GraphValue,
    GroupLanes,
    LaneCondition,
    LaneIndex,
    LaneList,
    sources_digest,
)


class ContactGroup:
    """The contacts that are there in any lane: `contacts` and `rows`, lists of words in memory.

    Contacts whose masks have no bit in common do not meet: W is zero between them, and is not read
    there.

    **Attributes:** `k`, how many; `used`, their rows; `n`, the same padded; `rows`, which row of
    the layout each row is; integers and addresses of the code. `numbers_of_slots`, words that say
    which contact of the layout each is.
    """

    def __init__(
        self,
        code: Any,
        layout: ContactProblemLayout,
        b: Area,
        mu: Area,
        s: Area,
        masks: Sequence[int] | None = None,
    ) -> None:
        self.code, self.layout, self.b, self.mu = code, layout, b, mu
        kinds = [*layout.contacts, *["normal"] * layout.stops, *["limit"] * layout.limits]
        self.kinds = [x for x in KINDS if x in kinds]
        numbers = [self.kinds.index(x) for x in kinds]
        self._g = g = GroupLanes(code)
        m = g.m
        self._kinds, self._ends = m.words(numbers), m.words(layout.ends)
        self.count = len(kinds)
        order = order_of(KINDS[self.kinds[0]]) if len(self.kinds) == 1 else []
        self.order = order if order and len(order) % BLOCK == 0 else None
        many = self.size = padded(layout.n_rows)
        common = reduce(lambda x, y: x & y, masks) if masks else 1
        self._masks = None if common or masks is None else m.words(masks)
        sizes = (2 * self.count + 2 * (many // BLOCK), self.count, many, self.count + 1)
        self._contacts, self.numbers_of_slots, self._rows, self._firsts = map(g.words, sizes)
        self.contacts, self.rows = self._contacts.base, self._rows.base
        sizes = (many * many, many, max(1, self.count), many, many)
        self.places = [code.area(x).base for x in sizes]
        self.work = code.area(work_size(many, self.count)).base
        self._list_contacts(g.value(s, layout.n_heads))
        self.k, self.used, self.n = self._k.whole, self._used.whole, self._n.whole
        self._matrix = g.numbers(self.places[0], self._n, self._n)  # type: ignore[arg-type]

    def _list_contacts(self, s: GraphValue) -> None:
        """Which contacts are there; limits always are."""
        g = self._g
        k, used = g.variable(), g.variable()

        @g.m.loop(0, self.count)
        def _(i: Index) -> None:
            kind, first = self._kinds[i], self._ends[i]

            def add(number: int) -> None:
                rows, at, row = KINDS[self.kinds[number]], k.value, used.value
                self._contacts.put(at * 2, number)
                self._contacts.put(at * 2 + 1, row)
                self.numbers_of_slots.put(at, i)
                self._firsts.put(at, row)
                for t, place in enumerate(order_of(rows)):
                    self._rows.put(row + t, first + place)
                k.value, used.value = at + 1, row + len(rows.letters)

            def case(number: int) -> None:
                there = None
                if KINDS[self.kinds[number]].has_head:
                    there = g.any(s[i] < INACTIVE)
                with g.where(there):
                    add(number)

            g.cases(kind, len(self.kinds), case)

        self._k, self._used = k.value, used.value
        self._firsts.put(self._k, self._used)
        more = self._used + (BLOCK - 1)
        self._n = more - more % BLOCK
        self._find_profile()

    def meet(self, i: Index, j: Index) -> LaneCondition | None:
        """Whether two contacts may move the same bodies; None if all do."""
        if self._masks is None:
            return None
        return self._g.share_bits(*(self._masks[self.numbers_of_slots[x]] for x in (i, j)))

    def _find_profile(self) -> None:
        """Beside which columns W is zero, in words after the contacts; see `ProblemMemory`."""
        g, m = self._g, self._g.m
        blocks = self._n // BLOCK
        self._lows = lows = self._contacts.after(self._k * 2)
        self._ends_of_blocks = ends = lows.after(blocks)

        @m.loop(0, blocks)
        def _(i: Index) -> None:
            lows.put(i, i * BLOCK if self._masks else 0)
            ends.put(i, self._n)

        if self._masks is None:
            return
        other = g.variable()

        @m.loop(0, self._k)
        def _(i: Index) -> None:
            other.value = 0

            def is_apart() -> LaneCondition:
                j, met = other.value, self.meet(i, other.value)
                assert met is not None
                return (j < i) & ~met

            g.repeat(is_apart, lambda: setattr(other, "value", other.value + 1))
            start = self._firsts[other.value]
            start = start - start % BLOCK
            first, end = self._rows_of(i)

            @m.loop(first // BLOCK, (end - 1) // BLOCK + 1)
            def _(block: Index) -> None:
                lows.put(block, g.smaller(start, lows[block]))

        @m.loop(0, blocks)
        def _(i: Index) -> None:
            end = (i + 1) * BLOCK
            m.loop(lows[i] // BLOCK, i + 1)(lambda j: ends.put(j, end))

        other.value = 0

        @m.loop(0, blocks)
        def _(i: Index) -> None:
            first = i * BLOCK
            g.repeat(
                lambda: ends[other.value] <= first,
                lambda: setattr(other, "value", other.value + 1),
            )
            lows.put(i, other.value * BLOCK)

    def places_of_rows(self) -> LaneList:
        """Words for all rows of the layout: which row of the group each is, if it is there."""
        places = self._g.words(self.layout.n_rows)
        self._g.m.loop(0, self._used)(lambda i: places.put(self._rows[i], i))
        return places

    def _rows_of(self, i: Index) -> tuple[Any, Any]:
        """The first row of a contact, and that after its last."""
        return self._firsts[i], self._firsts[i + 1]

    def rows_of(self, i: Any) -> tuple[Any, Any]:
        """The same of integers of the code."""
        first, end = self._rows_of(self._g.index(i))
        return first.whole, end.whole

    def meeting(self, i: Any, count: Any, body: Callable[[Any, Any], None]) -> None:
        """Code for the rows of those of the first `count` contacts that meet contact i."""

        def rows(first: LaneIndex, end: LaneIndex) -> None:
            body(first.whole, end.whole)

        self._meeting(self._g.index(i), self._g.index(count), rows)

    def _meeting(self, i: Index, count: Index, body: Callable[[Any, Any], None]) -> None:
        if self._masks is None:
            body(self._g.index(0), self._firsts[count])
            return

        @self._g.m.loop(0, count)
        def _(j: Index) -> None:
            with self._g.where(self.meet(i, j)):
                body(*self._rows_of(j))

    def call(self, function: Any, results: Any) -> None:
        """Call a function of a gathered problem; see `ARGUMENTS`."""
        ends = [results, self.contacts, self.k, self.n, self.work]
        self._g.call(function, [*self.places, *ends])

    def scatter(self, source: Any, target: Area) -> None:
        """Numbers of rows, back to all rows; zero where there is no contact."""
        g, n = self._g, self.layout.n_rows
        numbers, out = g.numbers(source, n), g.numbers(target.base, n)
        g.fill(0.0, out, n)

        @g.m.loop(0, self._used)
        def _(i: Index) -> None:
            out[self._rows[i]] = numbers[i]

    def scatter_heads(self, source: Any, target: Area) -> None:
        """Numbers of contacts, back to all contacts and stops."""
        g, k = self._g, self.layout.n_heads
        numbers, out = g.numbers(source, k), g.numbers(target.base, k)
        g.fill(0.0, out, k)

        @g.m.loop(0, self._k)
        def _(i: Index) -> None:
            slot = self.numbers_of_slots[i]
            with g.where(slot < k):
                out[slot] = numbers[i]

    def gather_rows(self, source: Area, target: Any) -> None:
        """Numbers of all rows, to those of the group."""
        g, n = self._g, self.layout.n_rows
        numbers, out = g.value(source, n), g.numbers(target, n)

        @g.m.loop(0, self._used)
        def _(i: Index) -> None:
            out[i] = numbers[self._rows[i]]

        @g.m.loop(self._used, self._n)
        def _(i: Index) -> None:
            out[i] = 0.0

    def gather_rest(self, s: Callable[[Any], Any], start: Area) -> None:
        """The problem, without its matrix, with s(contact) and y = start."""
        g, k = self._g, self.layout.n_heads
        _, free, heads, mu, y = self.places
        gathered = g.numbers(heads, k)

        @g.m.loop(0, self._k)
        def _(i: Index) -> None:
            slot = self.numbers_of_slots[i]
            with g.where(slot < k):
                gathered[i] = s(slot.whole)

        for source, target in ((self.b, free), (self.mu, mu), (start, y)):
            self.gather_rows(source, target)

    def gather_matrix(self, W: Area) -> None:
        """The matrix, from that of all rows."""
        m, n = self._g.m, self.layout.n_rows
        given = self._g.value(W, n, n)
        if self.order is not None:
            m.loop(0, self._k)(lambda i: self._copy_blocks(given, i))
            return

        def copy(i: Index, first: Index, last: Index) -> None:
            """Row i with the rows of a contact, and its mirror image."""
            mine = self._rows[i]

            @m.loop(first, last)
            def _(j: Index) -> None:
                x = given[mine, self._rows[j]]
                self._matrix[i, j] = x
                self._matrix[j, i] = x

        self.clear_matrix()

        @m.loop(0, self._k)
        def _(i: Index) -> None:
            first, end = self._rows_of(i)

            def pair(start: Index, stop: Index) -> None:
                m.loop(first, end)(lambda r: copy(r, start, stop))

            self._meeting(i, i + 1, pair)

    def clear_apart(self) -> None:
        """Zeros at least where contacts do not meet: what others have in common is written next."""
        if self.order is None:
            self.clear_matrix()
        elif self._masks is not None:
            self._g.m.loop(0, self._k)(lambda i: self._copy_blocks(None, i))

    def clear_matrix(self) -> None:
        """Zeros where contacts do not meet, and in rows that are padded."""
        g, m = self._g, self._g.m

        def clear(first: Index, end: Index) -> None:
            """Rows, in the columns that one of them needs."""
            low, last = self._lows[first // BLOCK], self._ends_of_blocks[(end - 1) // BLOCK]

            @m.loop(first, end)
            def _(i: Index) -> None:
                row = self._matrix.row(i)

                @m.loop(low, last)
                def _(j: Index) -> None:
                    row[j] = 0.0

        if self._masks is None:  # nothing is zero but what is padded

            @m.loop(0, self._used)
            def _(i: Index) -> None:
                row = self._matrix.row(i)

                @m.loop(self._used, self._n)
                def _(j: Index) -> None:
                    row[j] = 0.0
        else:
            m.loop(0, self._k)(lambda i: clear(*self._rows_of(i)))
        with g.where(self._used < self._n):
            clear(self._used, self._n)

    def _copy_blocks(self, W: GraphValue | None, i: Index) -> None:
        """The rows of contact i with those of contacts up to it, and their mirror images.

        Without W, zeros only.

        Of contacts of one kind that fill their blocks of rows: columns of W that a block needs are
        those of whole contacts, with which it meets, or between which there are zeros.
        """
        g, m, order = self._g, self._g.m, self.order
        assert order is not None
        count, n = len(order), self._n
        first = self._firsts[i]
        mine = self._rows[first] - order[0]
        low = self._lows[first // BLOCK]

        def pair(j: Index, entry: Callable[[Any, int, int], Any]) -> None:
            start = self._firsts[j]
            other = self._rows[start] - order[0]
            down = self._matrix.part(first * n + start)
            along = self._matrix.part(start * n + first)
            for t in range(count):
                for u in range(count):
                    x = entry(other, order[t], order[u])
                    down[n * t + u] = x
                    along[n * u + t] = x

        def known(other: Index, t: int, u: int) -> Any:
            assert W is not None
            return W[mine + t, other + u]

        def nothing(*_: Any) -> float:
            return 0.0

        def both(j: Index) -> None:
            meet = self.meet(i, j)
            if meet is None:
                pair(j, known)
                return
            if W is not None:
                with g.where(meet):
                    pair(j, known)
            with g.where(~meet):
                pair(j, nothing)

        m.loop(low // count, i + 1)(both)


def code_version() -> str:
    """A digest of the sources that write the code."""
    return hashlib.sha256(sources_digest("contact").encode()).hexdigest()[:16]
