"""Arithmetic on the entries of blocks, for any scalar: lanes of machine code, arrays, symbols.

Entries support + − * / with each other and with Python numbers. A Python number is known when the
program is compiled: zeros and ones cost nothing. Numbers and arrays of NumPy are values, whatever
they are. An entry with a method `times_plus` computes x y + z with one rounding where the machine
can.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from phipsi.core.model import Dual

Entry = Any
Vector = Sequence[Entry]
Rows = list[list[Entry]]


def identity(n: int) -> Rows:
    """The identity, with entries that are known."""
    return [[int(i == j) for j in range(n)] for i in range(n)]


def lower_half(rows: Sequence[Vector]) -> list[Entry]:
    """The entries on and below the diagonal, row by row."""
    return [rows[i][j] for i in range(len(rows)) for j in range(i + 1)]


def full(lower: Vector, n: int) -> Rows:
    """All rows of a symmetric matrix, from its lower half."""
    starts = [i * (i + 1) // 2 for i in range(n)]
    return [[lower[starts[max(i, j)] + min(i, j)] for j in range(n)] for i in range(n)]


def is_zero(x: Entry) -> bool:
    """True for a number known to be zero."""
    return (type(x) is int or type(x) is float) and x == 0


def is_fused(x: Entry) -> bool:
    """True for an entry that has x y + z as one operation."""
    return hasattr(x, "times_plus")


def add(x: Entry, y: Entry) -> Entry:
    """x + y."""
    return y if is_zero(x) else x if is_zero(y) else x + y


def sub(x: Entry, y: Entry) -> Entry:
    """x − y."""
    return x if is_zero(y) else neg(y) if is_zero(x) else x - y


def neg(x: Entry) -> Entry:
    """−x."""
    return 0 if is_zero(x) else -x


def mul(x: Entry, y: Entry) -> Entry:
    """x y."""
    if type(x) in _NUMPY and type(y) in _NUMPY:
        return x * y
    return 0 if is_zero(x) or is_zero(y) else x * y


def mul_add(x: Entry, y: Entry, z: Entry) -> Entry:
    """x y + z."""
    if type(x) in _NUMPY and type(y) in _NUMPY and type(z) in _NUMPY:
        return y * x + z  # most of them, in the reference backend
    if is_zero(z):
        return mul(x, y)
    if type(x) in _KNOWN and x in _PLAIN:
        return _plus_plain(x, y, z)
    if type(y) in _KNOWN and y in _PLAIN:
        return _plus_plain(y, x, z)
    first, other = (x, y) if is_fused(x) else (y, x)
    fused = is_fused(first) and not (isinstance(other, Dual) or isinstance(z, Dual))
    return first.times_plus(other, z) if fused else first * other + z


_PLAIN = (-1, 0, 1)
_KNOWN = frozenset((int, float))  # numbers of the program; those of NumPy are values
_NUMPY = frozenset((np.ndarray, np.float64))


def _plus_plain(x: int | float, y: Entry, z: Entry) -> Entry:
    """x y + z for an x of −1, 0 or 1."""
    return z if x == 0 else add(z, y) if x == 1 else sub(z, y)


def mul_sub(z: Entry, x: Entry, y: Entry) -> Entry:
    """z − x y."""
    if type(x) in _NUMPY and type(y) in _NUMPY and type(z) in _NUMPY:
        return z - x * y
    if is_zero(x) or is_zero(y):
        return z
    if is_fused(x) or is_fused(y) or type(x) in _KNOWN or type(y) in _KNOWN:
        return mul_add(neg(x), y, z)
    return sub(z, x * y)


def dot(x: Vector, y: Vector) -> Entry:
    """Σ xᵢ yᵢ."""
    out: Entry = 0
    for a, b in zip(x, y, strict=True):
        if type(a) in _NUMPY and type(b) in _NUMPY and type(out) in _NUMPY:
            out = b * a + out
        else:
            out = mul_add(a, b, out)
    return out


def cross(x: Vector, y: Vector) -> list[Entry]:
    """x × y."""
    return [
        mul_sub(mul(x[1], y[2]), x[2], y[1]),
        mul_sub(mul(x[2], y[0]), x[0], y[2]),
        mul_sub(mul(x[0], y[1]), x[1], y[0]),
    ]


def cross_matrix(x: Vector) -> Rows:
    """x~."""
    a, b, c = x
    return [[0, neg(c), b], [c, 0, neg(a)], [neg(b), a, 0]]


def plus(x: Vector, y: Vector) -> list[Entry]:
    """x + y for lists."""
    return [add(a, b) for a, b in zip(x, y, strict=True)]


def minus(x: Vector, y: Vector) -> list[Entry]:
    """x − y for lists."""
    return [sub(a, b) for a, b in zip(x, y, strict=True)]


def transpose_rows(rows: Rows) -> Rows:
    """Rows as columns."""
    return [list(c) for c in zip(*rows, strict=True)]


def matmul(x: Rows, y: Rows) -> Rows:
    """Product of dense rows."""
    columns = transpose_rows(y)
    return [[dot(r, c) for c in columns] for r in x]


def matvec(x: Rows, y: Vector) -> list[Entry]:
    """Product of dense rows with a list."""
    return [dot(r, y) for r in x]


def with_each(given: Sequence[Any], place: Any, units: Sequence[Any]) -> list[list[Any]]:
    """Directions that are given and each of the units, which stands at a place or behind them."""
    at = len(given) if place is None else place
    return [[*given[:at], unit, *given[at:]] for unit in units]


# ---- the entries of blocks with a structure ------------------------------------------------------


def inertia_rows(entries: Vector) -> Rows:
    """[[J, h~], [−h~, m]] from m, h and the lower half of J."""
    m, skew, moment = entries[0], cross_matrix(entries[1:4]), full(entries[4:], 3)
    top = [moment[i] + skew[i] for i in range(3)]
    low = [[neg(c) for c in skew[i]] + [m if i == j else 0 for j in range(3)] for i in range(3)]
    return top + low


def inertia_parts(rows: Sequence[Vector]) -> tuple[Entry, list[Entry], Rows]:
    """m, h and J of [[J, h~], [−h~, m]]."""
    return rows[3][3], [rows[2][4], rows[0][5], rows[1][3]], [list(row[:3]) for row in rows[:3]]


def gyration_rows(entries: Vector) -> Rows:
    """[[A, 0], [−p~, 0]] from A, row by row, and p."""
    low = [[neg(c) for c in row] for row in cross_matrix(entries[9:])]
    return turning_rows([*(entries[3 * i : 3 * i + 3] for i in range(3)), *low])


def turning_rows(rows: Sequence[Vector]) -> Rows:
    """[A, 0] with three columns of zeros."""
    return [[*row, 0, 0, 0] for row in rows]


def pose_rows(turn: Rows, arm: Vector) -> Rows:
    """[[R, l], [0, 1]]."""
    return [[*turn[i], arm[i]] for i in range(3)] + [[0, 0, 0, 1]]
