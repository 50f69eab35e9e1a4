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
    name = f"phipsi_words_{digest}"
    known = next((x for x in module.tables if x.name == f"@{name}"), None)
    return known or ir.Table(module, I64, list(words) or [0], name)


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
    e, b = m.e, m.b
    columns = m.plus(n, 1)
    wide = b.mul(columns, i64(m.bytes))

    def shifted(base: Any, offset: Any) -> Lane:
        return Lane(e, b.load(b.at(base, offset), align=8, typ=e.vector))

    def block(k: Any) -> None:
        start = m.at(J, b.mul(k, columns))
        rows = [start]
        for _ in range(BLOCK - 1):
            rows.append(b.at(rows[-1], wide))
        places = [b.mul(m.plus(k, t), i64(m.bytes)) for t in range(BLOCK)]
        a = [[shifted(row, place) for place in places] for row in rows]
        scales, factors = [], {}
        for t in range(BLOCK):
            scales.append(1.0 / a[t][t])
            for u in range(t + 1, BLOCK):
                factors[u, t] = -(a[u][t] * scales[t])
                for v in range(t + 1, BLOCK):
                    a[u][v] = factors[u, t].times_plus(a[t][v], a[u][v])
        for t in range(BLOCK):
            b.store(scales[t].value, b.at(rows[t], places[t]), align=8)
            for v in range(t + 1, BLOCK):
                b.store(a[t][v].value, b.at(rows[t], places[v]), align=8)
                b.store(factors[v, t].value, b.at(rows[v], places[t]), align=8)
        after, end = m.plus(k, BLOCK), m.word(ends, b.udiv(k, i64(BLOCK)))

        def own(j: Any) -> None:
            offset = b.mul(j, i64(m.bytes))
            x = [shifted(row, offset) for row in rows]
            for u in range(1, BLOCK):
                for t in range(u):
                    x[u] = factors[u, t].times_plus(x[t], x[u])
                b.store(x[u].value, b.at(rows[u], offset), align=8)

        m.between(after, end, own)
        own(n)

        def others(i: Any) -> None:
            below = [m.at(J, b.mul(i, columns))]
            for _ in range(BLOCK - 1):
                below.append(b.at(below[-1], wide))
            parts = []
            for row in below:
                x, mine = [shifted(row, place) for place in places], []
                for t in range(BLOCK):
                    mine.append(-(x[t] * scales[t]))
                    b.store(mine[t].value, b.at(row, places[t]), align=8)
                    for v in range(t + 1, BLOCK):
                        x[v] = mine[t].times_plus(a[t][v], x[v])
                parts.append(mine)

            def column(j: Any) -> None:
                offset = b.mul(j, i64(m.bytes))
                top = [shifted(row, offset) for row in rows]
                for row, mine in zip(below, parts, strict=True):
                    x = shifted(row, offset)
                    for factor, y in zip(mine, top, strict=True):
                        x = factor.times_plus(y, x)
                    b.store(x.value, b.at(row, offset), align=8)

            m.between(after, end, column)
            column(n)

        m.between(after, end, others, BLOCK)

    write_loop(b, n, block, BLOCK)
    copy_last_column(m, J, n, d)
    _backward(m, J, n, d, ends)


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
        factors = [Lane(e, b.load(b.at(r, offset), align=8, typ=e.vector)) for r in rows]
        if negative:
            factors = [-f for f in factors]
        return [f.times_plus(x, Lane(e, s)).value for f, s in zip(factors, sums, strict=True)]

    return [Lane(e, x) for x in fold_loop(b, count, 1, [x.value for x in sums], more)]
