"""Linear equations, written once for any `Machine`."""

from __future__ import annotations

from phipsi.backends.machine.machine import Entry, Index, Machine, Memory, Pair


def factor_cholesky(m: Machine, n: int, off_diagonal: Entry, diagonal: Entry, L: Memory) -> None:
    """L (n, n) with L L* = the matrix of these entries (i > j, and i = j), column by column.

    The diagonal of L has reciprocals. Where the matrix is not positive definite, L is NaN.
    """

    @m.loop(0, n)
    def _(j: Index) -> None:
        def square(p: Index) -> Pair:
            return L[j, p], L[j, p]

        scale = 1.0 / m.sqrt(-m.total(0, j, square, -diagonal(j, j)))
        L[j, j] = scale

        @m.each(j + 1, n)
        def _(i: Index) -> None:
            left = m.total(0, j, lambda p: (L[i, p], L[j, p]), -off_diagonal(i, j))
            L[i, j] = -left * scale


def solve_cholesky(m: Machine, n: int, L: Memory, x: Memory) -> None:
    """Replace x (n,) by the solution y of L L* y = x; L as `factor_cholesky` makes it."""

    @m.loop(0, n)
    def _(i: Index) -> None:
        x[i] = -m.total(0, i, lambda p: (L[i, p], x[p]), -x[i]) * L[i, i]

    @m.loop(0, n)
    def _(k: Index) -> None:
        i = n - 1 - k

        def below(p: Index) -> Pair:
            r = n - 1 - p
            return L[r, i], x[r]

        x[i] = -m.total(0, k, below, -x[i]) * L[i, i]
