"""Contact problems as calls in graphs: solved on arrays, and in machine code with lanes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, final

from phipsi.backends.native.kernel.law_code import Area
from phipsi.backends.native.pipeline import sources_digest
from phipsi.backends.native.text import llvm_text as ir
from phipsi.backends.native.text.lane_arithmetic import (
    I64,
    Lane,
    fold_loop,
    i64,
    write_cases,
    write_loop,
)
from phipsi.contact.cone_code import KINDS, Kind, cone_function, work_size
from phipsi.contact.cone_problem import INACTIVE, ROWS, Array, ConeLayout, ConeProblem
from phipsi.contact.cone_solver import BISECTIONS, GAINED, solve, solve_rebound
from phipsi.contact.lane_elimination import Numbers, padded
from phipsi.laws.calls import Callee
from phipsi.laws.graph import Node


@final
class ConeCall(Callee):
    """The impulses of a contact problem.

    W, b, s, coefficients, start → p, residual, iterations, status; see `solve`. With `rebounds`,
    one more argument after s, those without restitution, and one more result, the share of
    restitution that creates no energy; see `solve_rebound`.
    """

    def __init__(
        self, layout: ConeLayout, tolerance: float = 1e-10, *, rebounds: bool = False
    ) -> None:
        self.layout, self.tolerance, self.rebounds = layout, tolerance, rebounds
        self.shapes = ((layout.n_rows,), *[()] * (4 if rebounds else 3))
        self.key = (layout, tolerance, rebounds)
        self.name = f"cones {self.key} {code_version()}"

    def arrays(self, *args: Array) -> Sequence[Array]:
        """On arrays."""
        W, b, s, *calm, coefficients, start = args
        problem, share = ConeProblem(self.layout, W, b, s, coefficients), []
        if self.rebounds:
            found, part = solve_rebound(problem, calm[0], start, tolerance=self.tolerance)
            share = [part]
        else:
            found = solve(problem, start, tolerance=self.tolerance)
        counts = [x.astype(float) for x in (found.iterations, found.status)]
        return [found.p, found.residual, *counts, *share]

    def pull(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """Not available."""
        raise NotImplementedError("contact problems have no adjoint yet")

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """Gather the contacts that are there in some lane, solve, and scatter."""
        W, b, s, *calm, coefficients, start = (code.stored(x) for x in args)
        group = ContactGroup(code, self.layout, W, b, coefficients)
        group.list_contacts(s)
        if self.rebounds:
            return _Rebounds(group, s, calm[0], start, self.tolerance).write()
        m, p = group.m, code.area(self.layout.n_rows)
        results = code.area(3).base
        group.solve(lambda i: code.entry(s, i), start, p, results, self.tolerance)
        return [p, *(Area(m.at(results, i)) for i in range(3))]


@final
class _Rebounds:
    """Writes the search for the largest share of restitution; see `solve_rebound`."""

    def __init__(
        self, group: ContactGroup, s: Area, calm: Area, start: Area, tolerance: float
    ) -> None:
        self.group, self.s, self.calm, self.start = group, s, calm, start
        self.tolerance = tolerance

    def write(self) -> Sequence[Any]:
        """With all of it first; then without any; then half way between."""
        group, code = self.group, self.group.code
        m, e, b = group.m, code.e, group.m.b
        n = group.layout.n_rows
        best, trial, results = code.area(n), code.area(n), code.area(3).base
        final, share, low, high, turn = (
            *(code.area(x).base for x in (4, 1, 1, 1)), b.alloca(I64),
        )  # fmt: skip
        gaining = b.alloca(e.mask)
        b.store(e.compare("==", 0.0, 0.0), gaining)
        b.store(i64(0), turn)
        for place, x in ((share, 1.0), (low, 0.0), (high, 1.0)):
            m.store(x, place)
        write_loop(b, i64(4), lambda i: m.store(0.0, final, i))
        write_loop(b, i64(n), lambda i: m.store(code.entry(self.start, i), best.base, i))

        def goes_on() -> Any:
            more = b.icmp_signed("<", b.load(turn, typ=I64), i64(BISECTIONS + 2))
            return b.and_(more, m.any(b.load(gaining, typ=e.mask)))

        def once() -> None:
            number, which = b.load(turn, typ=I64), b.load(gaining, typ=e.mask)
            f = m.load(share)

            def wanted(i: Any) -> Any:
                quiet = code.entry(self.calm, i)
                return f.times_plus(code.entry(self.s, i) - quiet, quiet)

            begins = b.icmp_signed("<", number, i64(2))
            base = b.select(begins, self.start.base, best.base)
            group.solve(wanted, Area(base), trial, results, self.tolerance)
            gains = e.compare(">", self.gain(trial), 0.0)
            solved = e.compare("==", m.load(results, 2), 0.0)
            fine = b.and_(b.not_(gains), solved)
            everywhere = e.compare("==", 0.0, 0.0)
            accepted = b.and_(which, b.select(begins, everywhere, fine))

            def keep(i: Any) -> None:
                x = e.select(accepted, m.load(trial.base, i), m.load(best.base, i))
                m.store(x, best.base, i)

            write_loop(b, i64(n), keep)
            used = m.load(final, 1) + e.select(which, m.load(results, 1), 0.0)
            for i in (0, 2):
                m.store(e.select(accepted, m.load(results, i), m.load(final, i)), final, i)
            m.store(used, final, 1)
            m.store(e.select(accepted, f, m.load(final, 3)), final, 3)
            is_first = b.icmp_signed("==", number, i64(0))
            b.store(b.select(is_first, gains, which), gaining)
            search = b.not_(begins)
            down, up = e.select(fine, f, m.load(low)), e.select(fine, m.load(high), f)
            with b.if_then(search):
                m.store(down, low)
                m.store(up, high)
            middle = (m.load(low) + m.load(high)) * 0.5
            with b.if_then(is_first):
                m.store(0.0, share)
            with b.if_then(b.not_(is_first)):
                m.store(middle, share)
            b.store(b.add(number, i64(1)), turn)

        m.repeat(goes_on, once)
        return [best, *(Area(m.at(final, i)) for i in range(4))]

    def gain(self, p: Area) -> Any:
        """p*b + ½ p*W p, less what is rounding."""
        group, code = self.group, self.group.code
        m, e, b = group.m, code.e, group.m.b
        n = group.layout.n_rows
        total, size = code.area(1).base, code.area(1).base
        for place in (total, size):
            m.store(0.0, place)

        def row(i: Any) -> None:
            mine = m.word(group.rows, i)
            start, x = b.mul(mine, i64(n)), m.load(p.base, mine)

            def more(j: Any, sums: list[Any]) -> list[Any]:
                other = m.word(group.rows, j)
                w = code.entry(group.W, m.plus(start, other))
                return [w.times_plus(m.load(p.base, other), Lane(e, sums[0])).value]

            first = [e.constant(0.0).value]
            half = Lane(e, fold_loop(b, group.used, 1, first, more)[0]) * 0.5
            free = code.entry(group.b, mine)
            m.store(x.times_plus(free + half, m.load(total)), total)
            sizes = m.size(free) + m.size(half)
            m.store(m.size(x).times_plus(sizes, m.load(size)), size)

        write_loop(b, group.used, row)
        return m.load(total) - m.load(size) * GAINED


class ContactGroup:
    """The contacts that are there in any lane: `contacts` and `rows`, lists of words in memory.

    **Attributes:** `k`, how many; `used`, their rows; `n`, the same padded; `slots`, which contact
    of the layout each is; `rows`, which row of the layout each row is.
    """

    def __init__(self, code: Any, layout: ConeLayout, W: Area, b: Area, mu: Area) -> None:
        self.code, self.layout, self.W, self.b, self.mu = code, layout, W, b, mu
        kinds = [*layout.contacts, *["normal"] * layout.stops, *["limit"] * layout.limits]
        self.kinds = [x for x in KINDS if x in kinds]
        numbers = [self.kinds.index(x) for x in kinds]
        first = layout.n_rows - layout.stops - layout.limits
        firsts = [*layout.firsts, *range(first, layout.n_rows)]
        self.m = Numbers(code.e)
        self._kinds, self._firsts = (self._table(x) for x in (numbers, firsts))
        self.count = len(kinds)
        self.contacts, self.slots, self.rows = (
            self._words(x) for x in (2 * self.count, self.count, padded(layout.n_rows))
        )
        many = padded(layout.n_rows)
        sizes = (many * many, many, max(1, self.count), many, many)
        self.places = [code.area(x).base for x in sizes]
        self.work = code.area(work_size(many, self.count)).base

    def _words(self, count: int) -> Any:
        return self.code.area(max(1, -(-count // self.code.e.lanes))).base

    def _table(self, words: Sequence[int]) -> Any:
        module = self.code.module
        text = hashlib.sha256(repr(tuple(words)).encode()).hexdigest()[:16]
        name = f"phipsi_contacts_{text}"
        for table in module.tables:
            if table.name == f"@{name}":
                return table
        return ir.Table(module, I64, list(words) or [0], name)

    def list_contacts(self, s: Area) -> None:
        """Which contacts are there; limits always are."""
        m, b = self.m, self.m.b
        k, used = b.alloca(I64), b.alloca(I64)
        for place in (k, used):
            b.store(i64(0), place)

        def contact(i: Any) -> None:
            kind, first = m.word(self._kinds, i), m.word(self._firsts, i)

            def add(number: int) -> None:
                rows = KINDS[self.kinds[number]]
                at, row = b.load(k, typ=I64), b.load(used, typ=I64)
                m.put_word(number, self.contacts, b.mul(at, i64(2)))
                m.put_word(row, self.contacts, m.plus(b.mul(at, i64(2)), 1))
                m.put_word(i, self.slots, at)
                for t, place in enumerate(_order(rows)):
                    m.put_word(m.plus(first, place), self.rows, m.plus(row, t))
                b.store(m.plus(at, 1), k)
                b.store(m.plus(row, len(rows.letters)), used)

            def case(number: int) -> None:
                if not KINDS[self.kinds[number]].has_head:
                    add(number)
                    return
                there = self.code.e.compare("<", self.code.entry(s, i), INACTIVE)
                with b.if_then(m.any(there)):
                    add(number)

            write_cases(b, kind, len(self.kinds), case)

        write_loop(b, i64(self.count), contact)
        self.k, self.used = b.load(k, typ=I64), b.load(used, typ=I64)
        more = m.plus(self.used, 2)
        self.n = b.sub(more, b.srem(more, i64(3)))

    def solve(
        self, s: Callable[[Any], Lane], start: Area, p: Area, results: Any, tolerance: float
    ) -> None:
        """Gather the problem with s(contact), solve it, and scatter the impulses p."""
        code, m, n = self.code, self.m, self.layout.n_rows
        matrix, free, heads, mu, y = self.places
        self._gather(s, start)
        function = cone_function(code.module, code.e, self.kinds, tolerance)
        ends = [results, self.contacts, self.k, self.n, self.work]
        m.b.call(function, [matrix, free, heads, mu, y, *ends])
        write_loop(m.b, i64(n), lambda i: m.store(0.0, p.base, i))
        write_loop(m.b, self.used, lambda i: m.store(m.load(y, i), p.base, m.word(self.rows, i)))

    def _gather(self, s: Callable[[Any], Lane], start: Area) -> None:
        code, m, b, n = self.code, self.m, self.m.b, self.layout.n_rows
        matrix, free, heads, mu, y = self.places

        def clear(at: Any, first: Any) -> None:
            m.between(first, self.n, lambda j: m.store(0.0, matrix, m.plus(at, j)))

        def row(i: Any) -> None:
            mine = m.word(self.rows, i)
            inside, at = b.mul(mine, i64(n)), b.mul(i, self.n)

            def column(j: Any) -> None:
                other = m.word(self.rows, j)
                m.store(code.entry(self.W, m.plus(inside, other)), matrix, m.plus(at, j))

            write_loop(b, self.used, column)
            clear(at, self.used)
            for source, target in ((self.b, free), (self.mu, mu), (start, y)):
                m.store(code.entry(source, mine), target, i)

        def pad(i: Any) -> None:
            clear(b.mul(i, self.n), 0)
            for target in (free, mu, y):
                m.store(0.0, target, i)

        def head(i: Any) -> None:
            slot = m.word(self.slots, i)
            with b.if_then(b.icmp_signed("<", slot, i64(self.layout.n_heads))):
                m.store(s(slot), heads, i)

        write_loop(b, self.used, row)
        m.between(self.used, self.n, pad)
        write_loop(b, self.k, head)


def _order(kind: Kind) -> list[int]:
    """Where the rows of a contact are in its layout, in the order of elimination."""
    layout = next((x for x in ROWS.values() if sorted(x) == sorted(kind.letters)), kind.letters)
    return [layout.index(x) for x in kind.letters]


def code_version() -> str:
    """A digest of the sources that write the code."""
    return hashlib.sha256(sources_digest("contact").encode()).hexdigest()[:16]
