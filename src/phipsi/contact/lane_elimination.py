"""Numbers of lanes in memory, and the solution of equations there, with loops of any length."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from phipsi.backends.native.text import llvm_text as ir
from phipsi.backends.native.text.lane_arithmetic import (
    I64,
    Emitter,
    Lane,
    fold_loop,
    i64,
    write_loop,
)

BLOCK = 3
"""Rows that are eliminated at once: sizes are multiples of it."""


def padded(rows: int) -> int:
    """The next multiple of `BLOCK`."""
    return -(-rows // BLOCK) * BLOCK


def word_table(module: ir.Module, words: Sequence[int]) -> Any:
    """Whole numbers that are part of the code, once for equal ones."""
    digest = hashlib.sha256(repr(tuple(words)).encode()).hexdigest()[:16]
    return known_table(module, I64, list(words) or [0], f"phipsi_words_{digest}")


def known_table(module: ir.Module, kind: Any, numbers: Sequence[Any], name: str) -> Any:
    """The table of a module that has this name, which says what is in it."""
    known = next((x for x in module.tables if x.name == f"@{name}"), None)
    return known or ir.Table(module, kind, list(numbers), name)


class Numbers:
    """Numbers in memory and masks, for a writer of loops."""

    def __init__(self, e: Emitter) -> None:
        self.e, self.b, self.bytes = e, e.builder, 8 * e.lanes

    def at(self, base: Any, i: Any) -> Any:
        """The address of number i."""
        return self.b.at(base, self.b.mul(_number(i), i64(self.bytes)))

    def load(self, base: Any, i: Any = 0) -> Lane:
        """Number i."""
        return Lane(self.e, self.b.load(self.at(base, i), align=8, typ=self.e.vector))

    def load_at(self, base: Any, offset: Any) -> Lane:
        """The number that is so many bytes farther."""
        return Lane(self.e, self.b.load(self.b.at(base, offset), align=8, typ=self.e.vector))

    def store_at(self, x: Lane, base: Any, offset: Any) -> None:
        """The number that is so many bytes farther."""
        self.b.store(x.value, self.b.at(base, offset), align=8)

    def store(self, x: Any, base: Any, i: Any = 0) -> None:
        """Number i."""
        self.b.store(self.e.lift(x).value, self.at(base, i), align=8)

    def word(self, base: Any, i: Any) -> Any:
        """Integer i, shared by all lanes."""
        return self.b.load(self.b.at(base, self.b.mul(_number(i), i64(8))), typ=I64)

    def put_word(self, x: Any, base: Any, i: Any) -> None:
        """Integer i, shared by all lanes."""
        self.b.store(_number(x), self.b.at(base, self.b.mul(_number(i), i64(8))))

    def plus(self, i: Any, j: Any) -> Any:
        """The sum of integers."""
        return self.b.add(_number(i), _number(j))

    def any(self, mask: Any) -> Any:
        """Whether a condition holds in some lane."""
        width = ir.IntType(self.e.lanes)
        return self.b.icmp_unsigned("!=", self.b.bitcast(mask, width), ir.Constant(width, 0))

    def mask(self, place: Any) -> Any:
        """The condition that is in memory."""
        return self.b.load(place, typ=self.e.mask)

    def never(self) -> Any:
        """The condition that holds in no lane."""
        return self.e.compare("<", 0.0, 0.0)

    def larger(self, x: Any, y: Any) -> Lane:
        """The larger number; not a number where x is not."""
        e = self.e
        return e.select(e.compare("<=", x, y), y, x)

    def root(self, x: Lane) -> Lane:
        """The square root."""
        return self.e.intrinsic("sqrt", x)

    def size(self, x: Lane) -> Lane:
        """The absolute value."""
        return self.e.intrinsic("fabs", x)

    def repeat(self, condition: Callable[[], Any], body: Callable[[], None]) -> None:
        """While the condition holds: body."""
        b = self.b
        head, inside, after = (b.function.append_basic_block(n) for n in ("while", "do", "end"))
        b.branch(head)
        b.position_at_end(head)
        b.cbranch(condition(), inside, after)
        b.position_at_end(inside)
        body()
        b.branch(head)
        b.position_at_end(after)

    def rounds(self, most: Any, live: Callable[[], Any], body: Callable[[Any, Any], None]) -> None:
        """While a condition holds in some lanes, `most` times at most: body(number, which)."""
        b = self.b
        head, inside, after = (b.function.append_basic_block(n) for n in ("while", "do", "end"))
        before = b.block
        b.branch(head)
        b.position_at_end(head)
        number = b.phi(I64)
        number.add_incoming(i64(0), before)
        which = live()
        more = b.icmp_signed("<", number, _number(most))
        b.cbranch(b.and_(more, self.any(which)), inside, after)
        b.position_at_end(inside)
        body(number, which)
        number.add_incoming(b.add(number, i64(1)), b.block)
        b.branch(head)
        b.position_at_end(after)

    def copy(self, count: Any, source: Any, target: Any, which: Any = None) -> None:
        """So many numbers; in some lanes, if they are given."""

        def one(i: Any) -> None:
            x = self.load(source, i)
            x = x if which is None else self.e.select(which, x, self.load(target, i))
            self.store(x, target, i)

        write_loop(self.b, count, one)

    def fill(self, count: Any, x: float, target: Any) -> None:
        """The same number, so many times."""
        write_loop(self.b, count, lambda i: self.store(x, target, i))

    def between(self, first: Any, end: Any, body: Callable[[Any], None], step: int = 1) -> None:
        """For i in range(first, end, step): body(i)."""
        b, first = self.b, _number(first)
        count = b.sub(_number(end), first)
        write_loop(b, count, lambda i: body(b.add(first, i)), step)


def _number(i: Any) -> Any:
    return i64(i) if isinstance(i, int) else i


def eliminate(m: Numbers, J: Any, n: Any, d: Any, ends: Any) -> None:
    """D = J⁻¹ times the last column of J, (n, n + 1), by blocks of rows; J becomes its factors.

    `ends` are words, one for each block of rows: the number of the first row, a multiple of
    `BLOCK`, from which on the columns of the block are zero, and its rows too. Each number is
    changed in the order of the rows, whichever blocks they are in: zeros that are skipped, and rows
    of I between others, change no bits.
    """
    b = m.b
    columns = m.plus(n, 1)
    wide = b.mul(columns, i64(m.bytes))

    def rows_from(i: Any) -> list[Any]:
        rows = [m.at(J, b.mul(i, columns))]
        for _ in range(BLOCK - 1):
            rows.append(b.at(rows[-1], wide))
        return rows

    def block(k: Any) -> None:
        pivots = _Pivots(m, rows_from(k), k)
        after, end = m.plus(k, BLOCK), m.word(ends, b.udiv(k, i64(BLOCK)))
        m.between(after, end, pivots.own)
        pivots.own(n)

        def others(i: Any) -> None:
            below = rows_from(i)
            parts = [pivots.factors_of(row) for row in below]

            def column(j: Any) -> None:
                offset = b.mul(j, i64(m.bytes))
                top = [m.load_at(row, offset) for row in pivots.rows]
                for row, mine in zip(below, parts, strict=True):
                    x = m.load_at(row, offset)
                    for factor, y in zip(mine, top, strict=True):
                        x = factor.times_plus(y, x)
                    m.store_at(x, row, offset)

            m.between(after, end, column)
            column(n)

        m.between(after, end, others, BLOCK)

    write_loop(b, n, block, BLOCK)
    copy_last_column(m, J, n, d)
    _backward(m, J, n, d, ends)


class _Pivots:
    """A block of rows that eliminates those below: what its own columns become."""

    def __init__(self, m: Numbers, rows: list[Any], k: Any) -> None:
        self.m, self.rows = m, rows
        self._places = places = [m.b.mul(m.plus(k, t), i64(m.bytes)) for t in range(BLOCK)]
        self._a = a = [[m.load_at(row, place) for place in places] for row in rows]
        self._scales: list[Lane] = []
        self._factors: dict[tuple[int, int], Lane] = {}
        for t in range(BLOCK):
            self._scales.append(1.0 / a[t][t])
            for u in range(t + 1, BLOCK):
                self._factors[u, t] = -(a[u][t] * self._scales[t])
                for v in range(t + 1, BLOCK):
                    a[u][v] = self._factors[u, t].times_plus(a[t][v], a[u][v])
        for t in range(BLOCK):
            m.store_at(self._scales[t], rows[t], places[t])
            for v in range(t + 1, BLOCK):
                m.store_at(a[t][v], rows[t], places[v])
                m.store_at(self._factors[v, t], rows[v], places[t])

    def own(self, j: Any) -> None:
        """Column j of the block itself."""
        m, offset = self.m, self.m.b.mul(j, i64(self.m.bytes))
        x = [m.load_at(row, offset) for row in self.rows]
        for u in range(1, BLOCK):
            for t in range(u):
                x[u] = self._factors[u, t].times_plus(x[t], x[u])
            m.store_at(x[u], self.rows[u], offset)

    def factors_of(self, row: Any) -> list[Lane]:
        """What the rows of the block are multiplied by and added to a row below."""
        m, mine = self.m, list[Lane]()
        x = [m.load_at(row, place) for place in self._places]
        for t in range(BLOCK):
            mine.append(-(x[t] * self._scales[t]))
            m.store_at(mine[t], row, self._places[t])
            for v in range(t + 1, BLOCK):
                x[v] = mine[t].times_plus(self._a[t][v], x[v])
        return mine


def copy_last_column(m: Numbers, J: Any, n: Any, d: Any) -> None:
    """The last column of J, in d."""
    write_loop(m.b, n, lambda i: m.store(m.load(J, m.plus(m.b.mul(i, m.plus(n, 1)), n)), d, i))


def substitute(m: Numbers, J: Any, n: Any, d: Any, lows: Any, ends: Any) -> None:
    """D becomes J⁻¹ d, with the factors that `eliminate` left in J.

    `lows` are words as `ends`: the first column of each block of rows that is not zero.
    """
    b = m.b

    def block(k: Any) -> None:
        low = m.word(lows, b.udiv(k, i64(BLOCK)))
        rows, x = _rows_at(m, J, n, k), [m.load(d, m.plus(k, t)) for t in range(BLOCK)]
        x = _with_product(m, rows, d, b.sub(k, low), lambda j: b.add(low, j), x)
        for u in range(BLOCK):
            for t in range(u):
                x[u] = m.load(rows[u], m.plus(k, t)).times_plus(x[t], x[u])
            m.store(x[u], d, m.plus(k, u))

    write_loop(b, n, block, BLOCK)
    _backward(m, J, n, d, ends)


def _backward(m: Numbers, J: Any, n: Any, d: Any, ends: Any) -> None:
    """D from itself, of which the lower factor has been taken."""
    b = m.b

    def back(i: Any) -> None:
        k = b.sub(b.sub(n, i64(BLOCK)), i)
        end = m.word(ends, b.udiv(k, i64(BLOCK)))
        rows, last = _rows_at(m, J, n, k), b.sub(end, i64(1))
        sums = [m.load(d, m.plus(k, t)) for t in range(BLOCK)]
        count = b.sub(end, m.plus(k, BLOCK))
        sums = _with_product(m, rows, d, count, lambda j: b.sub(last, j), sums, negative=True)
        for t in reversed(range(BLOCK)):
            x = sums[t] * m.load(rows[t], m.plus(k, t))
            m.store(x, d, m.plus(k, t))
            for u in range(t):
                sums[u] = (-m.load(rows[u], m.plus(k, t))).times_plus(x, sums[u])

    write_loop(b, n, back, BLOCK)


def _rows_at(m: Numbers, J: Any, n: Any, k: Any) -> list[Any]:
    """The addresses of the rows of a block."""
    start = m.at(J, m.b.mul(k, m.plus(n, 1)))
    return [m.at(start, m.b.mul(i64(t), m.plus(n, 1))) for t in range(BLOCK)]


def _with_product(
    m: Numbers, rows: list[Any], d: Any, count: Any, column: Callable[[Any], Any],
    sums: list[Lane], *, negative: bool = False,
) -> list[Lane]:  # fmt: skip
    """Sums ± rows d over the columns column(0), column(1), …, one after the other."""
    e, b = m.e, m.b

    def more(i: Any, sums: list[Any]) -> list[Any]:
        j = column(i)
        x, offset = m.load(d, j), b.mul(j, i64(m.bytes))
        factors = [m.load_at(r, offset) for r in rows]
        if negative:
            factors = [-f for f in factors]
        return [f.times_plus(x, Lane(e, s)).value for f, s in zip(factors, sums, strict=True)]

    return [Lane(e, x) for x in fold_loop(b, count, 1, [x.value for x in sums], more)]
