"""Linear equations, written once for any `Machine`."""

from __future__ import annotations

from collections.abc import Callable

from phipsi.backends.machine.machine import Entry, Index, Machine, Memory, Number, Pair

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
