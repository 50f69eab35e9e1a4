"""Arithmetic on the entries of blocks, for any scalar: lanes of machine code, arrays, symbols.

Entries support + − * / with each other and with Python numbers. A Python number is known when the
program is compiled: zeros and ones cost nothing. An entry with a method `times_plus` computes
x y + z with one rounding where the machine can.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

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
    if type(x) is type(y) is _ARRAY:
        return x * y
    return 0 if is_zero(x) or is_zero(y) else x * y


def mul_add(x: Entry, y: Entry, z: Entry) -> Entry:
    """x y + z."""
    if type(x) is type(y) is type(z) is _ARRAY:  # most of them, in the reference backend
        return y * x + z
    if isinstance(z, (int, float)) and z == 0:
        return mul(x, y)
    if isinstance(x, (int, float)) and x in _PLAIN:  # known now
        return _plus_plain(x, y, z)
    if isinstance(y, (int, float)) and y in _PLAIN:
        return _plus_plain(y, x, z)
    first, other = cast(tuple[Entry, Entry], (x, y) if is_fused(x) else (y, x))
    fused = is_fused(first) and not (isinstance(other, Dual) or isinstance(z, Dual))
    return first.times_plus(other, z) if fused else first * other + z


_PLAIN = (-1, 0, 1)
_ARRAY = np.ndarray


def _plus_plain(x: int | float, y: Entry, z: Entry) -> Entry:
    """x y + z for an x of −1, 0 or 1."""
    return z if x == 0 else add(z, y) if x == 1 else sub(z, y)


def mul_sub(z: Entry, x: Entry, y: Entry) -> Entry:
    """z − x y."""
    if type(x) is type(y) is type(z) is _ARRAY:
        return z - x * y
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
