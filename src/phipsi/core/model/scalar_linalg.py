"""Small linear algebra over opaque scalars, with known zeros and ones folded away.

Joint formulas are written once with these functions and run on floats, NumPy batches, complex
numbers, SymPy symbols, mpmath numbers and generated code. A scalar supports + − * / and unary
minus with its kind and with Python numbers. The Python ints 0 and 1 are *structure*: a result that
is the int 0 is zero for every argument, and no operation is spent on it. Vectors are sequences,
matrices are lists of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.core.spatial import ScalarOps

Scalar = Any
Vector = Sequence[Scalar]
Matrix = Sequence[Sequence[Scalar]]


def is_zero(x: Scalar) -> bool:
    """Whether x is the structural zero."""
    return type(x) is int and x == 0


def is_one(x: Scalar) -> bool:
    """Whether x is the structural one."""
    return type(x) is int and x == 1


# `is_zero` and `is_one` are written out where they are asked millions of times.


def add(a: Scalar = 0, b: Scalar = 0, *more: Scalar) -> Scalar:
    """Sum, without the structural zeros."""
    if type(b) is int and b == 0:
        total = a
    else:
        total = b if type(a) is int and a == 0 else a + b
    for term in more:
        if type(term) is int and term == 0:
            continue
        total = term if type(total) is int and total == 0 else total + term
    return total


def neg(x: Scalar) -> Scalar:
    """Return −x."""
    return -x


def sub(a: Scalar, b: Scalar) -> Scalar:
    """Return a − b, without structural zeros."""
    if type(b) is int and b == 0:
        return a
    return -b if type(a) is int and a == 0 else a - b


def mul(a: Scalar, b: Scalar) -> Scalar:
    """Return a · b; structural zeros absorb and structural ones vanish."""
    if type(a) is int:
        if a == 0 or is_zero(b):
            return 0
        if a == 1:
            return b
    if type(b) is int:
        if b == 0:
            return 0
        if b == 1:
            return a
    return a * b


def dot(a: Vector, b: Vector) -> Scalar:
    """Inner product."""
    return add(*[mul(x, y) for x, y in zip(a, b, strict=True)])


def plus(a: Vector, b: Vector) -> list[Scalar]:
    """Sum of two vectors."""
    return [add(x, y) for x, y in zip(a, b, strict=True)]


def scale(factor: Scalar, a: Vector) -> list[Scalar]:
    """Scalar times vector."""
    return [mul(factor, x) for x in a]


def cross(a: Vector, b: Vector) -> list[Scalar]:
    """Cross product of two 3-vectors."""
    return [
        sub(mul(a[1], b[2]), mul(a[2], b[1])),
        sub(mul(a[2], b[0]), mul(a[0], b[2])),
        sub(mul(a[0], b[1]), mul(a[1], b[0])),
    ]


def transpose(A: Matrix) -> list[list[Scalar]]:
    """Transpose of a matrix with at least one row and one column."""
    return [list(column) for column in zip(*A, strict=True)]


def matvec(A: Matrix, x: Vector) -> list[Scalar]:
    """Matrix times vector."""
    return [dot(row, x) for row in A]


def matmul(A: Matrix, B: Matrix) -> list[list[Scalar]]:
    """Product of two matrices."""
    columns = transpose(B)
    return [[dot(row, column) for column in columns] for row in A]


def identity3() -> list[list[Scalar]]:
    """The 3×3 identity, structural."""
    return [[1, 0, 0], [0, 1, 0], [0, 0, 1]]


def zeros(rows: int, columns: int) -> list[list[Scalar]]:
    """A structural zero matrix."""
    return [[0] * columns for _ in range(rows)]


def from_columns(columns: Sequence[Vector], rows: int = 6) -> list[list[Scalar]]:
    """Matrix with the given columns; with none, `rows` empty rows."""
    return [[column[i] for column in columns] for i in range(rows)]


def rotation_about(axis: Vector, angle: Scalar, ops: ScalarOps) -> list[list[Scalar]]:
    """exp(u~ θ) for a unit axis u, 3×3.

    Diagonal entries are u_i² + cos θ (u_j² + u_k²), so that an axis of structural 0s and 1 leaves
    only sin θ and cos θ.
    """
    s, c = ops.sin(angle), ops.cos(angle)
    x, y, z = axis
    xx, yy, zz = mul(x, x), mul(y, y), mul(z, z)
    t = 1 - c
    txy, txz, tyz = mul(t, mul(x, y)), mul(t, mul(x, z)), mul(t, mul(y, z))
    sx, sy, sz = mul(s, x), mul(s, y), mul(s, z)
    return [
        [add(xx, mul(c, add(yy, zz))), sub(txy, sz), add(txz, sy)],
        [add(txy, sz), add(yy, mul(c, add(xx, zz))), sub(tyz, sx)],
        [sub(txz, sy), add(tyz, sx), add(zz, mul(c, add(xx, yy)))],
    ]


def rotation_of_quaternion(quaternion: Vector) -> list[list[Scalar]]:
    """R(q) = I + 2/(q·q) (w x~ + x~ x~), 3×3, for a quaternion (w, x, y, z) of any length.

    Below 1e-77 and above 1e77, where squares lose their digits or are infinite, it is NaN.
    """
    w, x, y, z = quaternion
    square = dot(quaternion, quaternion)
    k = 2 / square
    both = square * square + k * k  # infinite if either is too large
    k = k + (both - both)
    kx, ky, kz = k * x, k * y, k * z
    wx, wy, wz = w * kx, w * ky, w * kz
    xx, xy, xz = x * kx, x * ky, x * kz
    yy, yz, zz = y * ky, y * kz, z * kz
    return [
        [1 - (yy + zz), xy - wz, xz + wy],
        [xy + wz, 1 - (xx + zz), yz - wx],
        [xz - wy, yz + wx, 1 - (xx + yy)],
    ]


def quaternion_rate(quaternion: Vector, omega: Vector) -> list[Scalar]:
    """½ q ⊗ (0, ω), ω in outboard components (rad/s)."""
    w, x, y, z = quaternion
    a, b, c = (0 if is_zero(o) else o / 2 for o in omega)
    return [
        neg(add(mul(x, a), mul(y, b), mul(z, c))),
        add(mul(w, a), sub(mul(y, c), mul(z, b))),
        add(mul(w, b), sub(mul(z, a), mul(x, c))),
        add(mul(w, c), sub(mul(x, b), mul(y, a))),
    ]


def as_array(matrix: Matrix) -> NDArray[Any]:
    """Gather nested lists of numbers or equally batched arrays into one array (..., rows, cols)."""
    flat = [np.asarray(entry) for row in matrix for entry in row]
    columns = len(matrix[0]) if matrix else 0
    batch = np.broadcast_shapes(*(entry.shape for entry in flat))
    dtype = np.result_type(np.float64, *(entry.dtype for entry in flat))
    out = np.empty((*batch, len(flat)), dtype=dtype)
    for k, entry in enumerate(flat):
        out[..., k] = entry
    return out.reshape(*batch, len(matrix), columns)
