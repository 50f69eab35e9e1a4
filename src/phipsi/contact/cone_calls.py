"""Contact problems as calls in graphs: solved on arrays, and in machine code with lanes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, final

from phipsi.backends.native.kernel.law_code import Area
from phipsi.backends.native.pipeline import sources_digest
from phipsi.backends.native.text import llvm_text as ir
from phipsi.backends.native.text.lane_arithmetic import I64, i64, write_cases, write_loop
from phipsi.contact.cone_code import KINDS, Kind, cone_function, work_size
from phipsi.contact.cone_problem import INACTIVE, ROWS, Array, ConeLayout, ConeProblem
from phipsi.contact.cone_solver import solve
from phipsi.contact.lane_elimination import Numbers, padded
from phipsi.laws.calls import Callee
from phipsi.laws.graph import Node


@final
class ConeCall(Callee):
    """The impulses of a contact problem.

    W, b, s, coefficients, start → p, residual, iterations, status; see `solve`.
    """

    def __init__(self, layout: ConeLayout, tolerance: float = 1e-10) -> None:
        self.layout, self.tolerance = layout, tolerance
        self.shapes = ((layout.n_rows,), (), (), ())
        self.key = (layout, tolerance)
        self.name = f"cones {layout} {tolerance} {code_version()}"

    def arrays(self, *args: Array) -> Sequence[Array]:
        """With the interior point, where it is needed."""
        W, b, s, coefficients, start = args
        found = solve(
            ConeProblem(self.layout, W, b, s, coefficients), start, tolerance=self.tolerance
        )
        return found.p, found.residual, found.iterations.astype(float), found.status.astype(float)

    def pull(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """Not available."""
        raise NotImplementedError("contact problems have no adjoint yet")

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """Gather the contacts that are there in some lane, solve, and scatter."""
        W, b, s, coefficients, start = (code.stored(x) for x in args)
        group = ContactGroup(code, self.layout)
        group.list_contacts(s)
        n = self.layout.n_rows
        m = Numbers(code.e)
        many = padded(n)
        matrix, free, heads, mu, y = (
            code.area(x).base for x in (many * many, many, max(1, self.layout.n_heads), many, many)
        )

        def row(i: Any) -> None:
            mine = m.word(group.rows, i)
            inside = m.b.mul(mine, i64(n))
            at = m.b.mul(i, group.n)

            def column(j: Any) -> None:
                other = m.word(group.rows, j)
                m.store(code.entry(W, m.plus(inside, other)), matrix, m.plus(at, j))

            write_loop(m.b, group.used, column)
            m.between(group.used, group.n, lambda j: m.store(0.0, matrix, m.plus(at, j)))
            for source, target in ((b, free), (coefficients, mu), (start, y)):
                m.store(code.entry(source, mine), target, i)

        write_loop(m.b, group.used, row)

        def pad(i: Any) -> None:
            at = m.b.mul(i, group.n)
            write_loop(m.b, group.n, lambda j: m.store(0.0, matrix, m.plus(at, j)))
            for target in (free, mu, y):
                m.store(0.0, target, i)

        m.between(group.used, group.n, pad)
        group.gather_heads(s, heads)
        results = group.solve((matrix, free, heads, mu, y), self.tolerance)
        p = code.area(n)
        write_loop(m.b, i64(n), lambda i: m.store(0.0, p.base, i))
        write_loop(m.b, group.used, lambda i: m.store(m.load(y, i), p.base, m.word(group.rows, i)))
        return [p, *(Area(m.at(results, i)) for i in range(3))]


class ContactGroup:
    """The contacts that are there in any lane: `contacts` and `rows`, lists of words in memory.

    **Attributes:** `k`, how many; `used`, their rows; `n`, the same padded; `slots`, which contact
    of the layout each is; `rows`, which row of the layout each row is.
    """

    def __init__(self, code: Any, layout: ConeLayout) -> None:
        self.code, self.layout = code, layout
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

    def gather_heads(self, s: Area, heads: Any) -> None:
        """The s of the contacts; there is room for as many as the layout has."""
        m, b = self.m, self.m.b

        def one(i: Any) -> None:
            slot = m.word(self.slots, i)
            with b.if_then(b.icmp_signed("<", slot, i64(self.layout.n_heads))):
                m.store(self.code.entry(s, slot), heads, i)

        write_loop(b, self.k, one)

    def solve(self, places: Sequence[Any], tolerance: float) -> Any:
        """Call the solver; where its results are."""
        code = self.code
        results = code.area(3).base
        work = code.area(work_size(padded(self.layout.n_rows), self.count)).base
        function = cone_function(code.module, code.e, self.kinds, tolerance)
        self.m.b.call(function, [*places, results, self.contacts, self.k, self.n, work])
        return results


def _order(kind: Kind) -> list[int]:
    """Where the rows of a contact are in its layout, in the order of elimination."""
    layout = next((x for x in ROWS.values() if sorted(x) == sorted(kind.letters)), kind.letters)
    return [layout.index(x) for x in kind.letters]


def code_version() -> str:
    """A digest of the sources that write the code."""
    return hashlib.sha256(sources_digest("contact").encode()).hexdigest()[:16]
