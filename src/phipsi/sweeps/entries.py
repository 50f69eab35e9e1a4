"""Arithmetic on the entries of blocks, for any scalar: lanes of machine code, arrays, symbols.

Entries support + − * / with each other and with Python numbers. A Python number is known when the
program is compiled: zeros and ones cost nothing. An entry with a method `times_plus` computes
x y + z with one rounding where the machine can.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from phipsi.model.dual import Dual

Entry = Any
Vector = Sequence[Entry]
Rows = list[list[Entry]]


def identity(n: int) -> Rows:
    """The identity, with entries that are known."""
    return [[int(i == j) for j in range(n)] for i in range(n)]


def lower_half(rows: Sequence[Vector]) -> list[Entry]:
    """The entries on and below the diagonal, row by row."""
    return [rows[i][j] for i in range(len(rows)) for j in range(i + 1)]


def is_zero(x: Entry) -> bool:
    """True for a number known to be zero."""
    return isinstance(x, (int, float)) and x == 0


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
    return 0 if is_zero(x) or is_zero(y) else x * y


def mul_add(x: Entry, y: Entry, z: Entry) -> Entry:
    """x y + z."""
    if is_zero(z):
        return mul(x, y)
    for a, b in ((x, y), (y, x)):
        if isinstance(a, (int, float)):  # known now
            if a == 0:
                return z
            if a == 1:
                return add(z, b)
            if a == -1:
                return sub(z, b)
    if not is_fused(x):
        x, y = y, x
    fused = is_fused(x) and not (isinstance(y, Dual) or isinstance(z, Dual))
    return x.times_plus(y, z) if fused else x * y + z


def mul_sub(z: Entry, x: Entry, y: Entry) -> Entry:
    """z − x y."""
    if is_zero(x) or is_zero(y):
        return z
    if is_fused(x) or is_fused(y) or isinstance(x, (int, float)) or isinstance(y, (int, float)):
        return mul_add(neg(x), y, z)
    return sub(z, x * y)


def dot(x: Vector, y: Vector) -> Entry:
    """Σ xᵢ yᵢ."""
    out: Entry = 0
    for a, b in zip(x, y, strict=True):
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
