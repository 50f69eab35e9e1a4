"""Linear equations, written once for any `Machine`."""

from __future__ import annotations

from collections.abc import Callable

from phipsi.core.machine.machine import Entry, Index, Machine, Memory, Number, Pair, Words

BLOCK = 3
"""Rows that are eliminated at once: sizes are multiples of it."""
_BLOCK = range(BLOCK)

Scale = Callable[[Index, Number, Number], Number]


def factor_cholesky(
    m: Machine,
    n: int,
    off_diagonal: Entry,
    diagonal: Entry,
    L: Memory,
    scale_of: Scale | None = None,
) -> None:
    """L (n, n) with L L* = the matrix of these entries (i > j, and i = j), column by column.

    The diagonal of L has reciprocals. Where the matrix is not positive definite, L is NaN.
    `scale_of(j, pivot, entry)` may give another reciprocal: 0 drops row j. `entry` is what stood on
    the diagonal.
    """

    @m.loop(0, n)
    def _(j: Index) -> None:
        def square(p: Index) -> Pair:
            return L[j, p], L[j, p]

        entry = diagonal(j, j)
        pivot = -m.total(0, j, square, -entry)
        scale = 1.0 / m.sqrt(pivot) if scale_of is None else scale_of(j, pivot, entry)
        L[j, j] = scale

        @m.each(j + 1, n)
        def _(i: Index) -> None:
            left = m.total(0, j, lambda p: (L[i, p], L[j, p]), -off_diagonal(i, j))
            L[i, j] = -left * scale


def invert_by_elimination(m: Machine, n: int, A: Memory) -> None:
    """The inverse of the left half of A (n, 2 n) into its right half, with exchange of rows."""

    @m.each(0, n)
    def _(i: Index) -> None:
        @m.each(0, n)
        def _(j: Index) -> None:
            A[i, j + n] = m.to_flag(m.same(i, j))

    @m.loop(0, n)
    def _(k: Index) -> None:
        @m.loop(k + 1, n)
        def _(i: Index) -> None:
            larger = m.abs(A[i, k]) > m.abs(A[k, k])

            @m.each(0, 2 * n)
            def _(c: Index) -> None:
                up, down = A[k, c], A[i, c]
                A[k, c] = m.where(larger, down, up)
                A[i, c] = m.where(larger, up, down)

        scale = 1.0 / A[k, k]

        @m.each(0, 2 * n)
        def _(c: Index) -> None:
            A[k, c] = A[k, c] * scale

        @m.loop(0, n)
        def _(i: Index) -> None:
            factor = m.where(m.same(i, k), 0.0, A[i, k])

            @m.each(0, 2 * n)
            def _(c: Index) -> None:
                A[i, c] = A[i, c] - factor * A[k, c]


def solve_cholesky(m: Machine, n: int, L: Memory, x: Memory) -> None:
    """Replace x (n,) by the solution y of L L* y = x; L as `factor_cholesky` makes it."""
    solve_lower(m, n, L, x)
    solve_upper(m, n, L, x)


def solve_lower(m: Machine, n: int, L: Memory, x: Memory, *column: Index) -> None:
    """Replace x (n,), or a column of x (n, k), by L⁻¹ x; L as `factor_cholesky` makes it."""

    @m.loop(0, n)
    def _(i: Index) -> None:
        left = m.total(0, i, lambda p: (L[i, p], x[p, *column]), -x[i, *column])
        x[i, *column] = -left * L[i, i]


def solve_upper(m: Machine, n: int, L: Memory, x: Memory, *column: Index) -> None:
    """The same with L⁻*."""

    @m.loop(0, n)
    def _(k: Index) -> None:
        i = n - 1 - k

        def below(p: Index) -> Pair:
            r = n - 1 - p
            return L[r, i], x[r, *column]

        x[i, *column] = -m.total(0, k, below, -x[i, *column]) * L[i, i]


# ---- elimination by blocks of rows ---------------------------------------------------------------


def eliminate_blocks(m: Machine, n: Index | int, J: Memory, d: Memory, ends: Words) -> None:
    """See `Machine.eliminate`.

    Each number is changed in the order of the rows, whichever blocks they are in: zeros that are
    skipped, and rows of I between others, change no bits.
    """

    @m.loop(0, n, BLOCK)
    def _(k: Index) -> None:
        pivots = _Pivots(m, J, k)
        after, end = k + BLOCK, ends[k // BLOCK]
        m.each(after, end)(pivots.own)
        pivots.own(n)

        @m.each(after, end, BLOCK)
        def _(i: Index) -> None:
            below = [J.row(i + t) for t in _BLOCK]
            parts = [pivots.factors_of(row) for row in below]

            def column(j: Index | int) -> None:
                top = [row[j] for row in pivots.rows]
                for row, mine in zip(below, parts, strict=True):
                    x = row[j]
                    for factor, y in zip(mine, top, strict=True):
                        x = m.fma(factor, y, x)
                    row[j] = x

            m.each(after, end)(column)
            column(n)

    @m.each(0, n)
    def _(i: Index) -> None:
        d[i] = J[i, n]

    _substitute_upper(m, n, J, d, ends)


class _Pivots:
    """A block of rows that eliminates those below: what its own columns become."""

    def __init__(self, m: Machine, J: Memory, k: Index) -> None:
        self._m, self._k = m, k
        self.rows = rows = [J.row(k + t) for t in _BLOCK]
        self._a = a = [[row[k + t] for t in _BLOCK] for row in rows]
        self._scales: list[Number] = []
        self._factors: dict[tuple[int, int], Number] = {}
        for t in _BLOCK:
            self._scales.append(1.0 / a[t][t])
            for u in range(t + 1, BLOCK):
                self._factors[u, t] = -(a[u][t] * self._scales[t])
                for v in range(t + 1, BLOCK):
                    a[u][v] = m.fma(self._factors[u, t], a[t][v], a[u][v])
        for t in _BLOCK:
            rows[t][k + t] = self._scales[t]
            for v in range(t + 1, BLOCK):
                rows[t][k + v] = a[t][v]
                rows[v][k + t] = self._factors[v, t]

    def own(self, j: Index | int) -> None:
        """Column j of the block itself."""
        x = [row[j] for row in self.rows]
        for u in range(1, BLOCK):
            for t in range(u):
                x[u] = self._m.fma(self._factors[u, t], x[t], x[u])
            self.rows[u][j] = x[u]

    def factors_of(self, row: Memory) -> list[Number]:
        """What the rows of the block are multiplied by and added to a row below."""
        k, mine = self._k, list[Number]()
        x = [row[k + t] for t in _BLOCK]
        for t in _BLOCK:
            mine.append(-(x[t] * self._scales[t]))
            row[k + t] = mine[t]
            for v in range(t + 1, BLOCK):
                x[v] = self._m.fma(mine[t], self._a[t][v], x[v])
        return mine


def substitute_blocks(
    m: Machine, n: Index | int, J: Memory, d: Memory, lows: Words, ends: Words
) -> None:
    """See `Machine.substitute`."""

    @m.loop(0, n, BLOCK)
    def _(k: Index) -> None:
        rows, known = [J.row(k + t) for t in _BLOCK], [d[k + t] for t in _BLOCK]
        x = m.sums(lows[k // BLOCK], k, lambda j: [(row[j], d[j]) for row in rows], known)
        for u in _BLOCK:
            for t in range(u):
                x[u] = m.fma(rows[u][k + t], x[t], x[u])
            d[k + u] = x[u]

    _substitute_upper(m, n, J, d, ends)


def _substitute_upper(m: Machine, n: Index | int, J: Memory, d: Memory, ends: Words) -> None:
    """D from itself, of which the lower factor has been taken."""

    @m.loop(0, n, BLOCK)
    def _(i: Index) -> None:
        k = n - BLOCK - i
        end = ends[k // BLOCK]
        rows, known = [J.row(k + t) for t in _BLOCK], [d[k + t] for t in _BLOCK]

        def right(p: Index) -> list[Pair]:
            j = end - 1 - p
            return [(-row[j], d[j]) for row in rows]

        x = m.sums(0, end - BLOCK - k, right, known)
        for t in reversed(_BLOCK):
            x[t] = x[t] * rows[t][k + t]
            d[k + t] = x[t]
            for u in range(t):
                x[u] = m.fma(-rows[u][k + t], x[t], x[u])
