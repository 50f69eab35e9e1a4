"""Inverses and factors of small blocks in generated code, with a verdict per configuration."""

from __future__ import annotations

from typing import Any

from phipsi.backends.failures import HINGE_TOLERANCE
from phipsi.backends.native.kernel import lane_blocks as bl
from phipsi.backends.native.text.lane_arithmetic import Emitter
from phipsi.sweeps import entries as en

BLOCK_TOLERANCE = 1e-15


def factor(a: en.Rows) -> tuple[en.Rows, list[Any]]:
    """Unit lower L and pivots d with L diag(d) L* = A."""
    n = len(a)
    low: en.Rows = [[1 if i == j else 0 for j in range(n)] for i in range(n)]
    d: list[Any] = []
    for j in range(n):
        pivot = a[j][j]
        for k in range(j):
            pivot = en.mul_sub(pivot, en.mul(low[j][k], low[j][k]), d[k])
        d.append(pivot)
        for i in range(j + 1, n):
            s = a[i][j]
            for k in range(j):
                s = en.mul_sub(s, en.mul(low[i][k], low[j][k]), d[k])
            low[i][j] = 0 if en.is_zero(s) else s / pivot
    return low, d


def inverse_definite(e: Emitter, a: en.Rows, scale: list[Any] | None) -> tuple[bl.Symmetric, Any]:
    """A⁻¹ of a positive A, and the mask of configurations where A is not positive."""
    n = len(a)
    low, d = factor(a)
    bad = _not_positive(e, d, scale)
    if n == 1:
        return bl.Symmetric([1.0 / e.lift(d[0])], 1), bad
    inv = lower_inverse(low)
    recip = [1.0 / e.lift(x) for x in d]
    out: list[Any] = []
    for i in range(n):
        for j in range(i + 1):
            s: Any = 0
            for k in range(i, n):
                s = en.mul_add(en.mul(inv[k][i], inv[k][j]), recip[k], s)
            out.append(s)
    return bl.Symmetric(out, n), bad


def solving_inverse(e: Emitter, a: en.Rows, scale: list[Any] | None) -> tuple[bl.Inverse, Any]:
    """A⁻¹ of a positive A for products only, and the mask of configurations where it is not.

    One division per pivot, and A⁻¹ is not formed: for blocks of joints with modes.
    """
    n = len(a)
    low: en.Rows = [[1 if i == j else 0 for j in range(n)] for i in range(n)]
    scaled: en.Rows = [[0] * n for _ in range(n)]  # L diag(d)
    recip: list[Any] = []
    for j in range(n):
        for i in range(j, n):
            s = a[i][j]
            for k in range(j):
                s = en.mul_sub(s, scaled[i][k], low[j][k])
            scaled[i][j] = s
        recip.append(1.0 / e.lift(scaled[j][j]))
        for i in range(j + 1, n):
            low[i][j] = en.mul(scaled[i][j], recip[j])
    d = [scaled[i][i] for i in range(n)]
    return bl.Inverse(a, low, recip), _not_positive(e, d, scale)


def _not_positive(e: Emitter, d: list[Any], scale: list[Any] | None) -> Any:
    """The mask of configurations with a pivot that is not positive, or next to nothing."""
    bad: Any = None
    least = e.number.tolerance(HINGE_TOLERANCE)
    for i, pivot in enumerate(d):
        limit = 0 if scale is None else en.mul(least, scale[i])
        good = e.compare(">", pivot, limit)
        failed = e.builder.not_(good)
        bad = failed if bad is None else e.builder.or_(bad, failed)
    return bad


def lower_inverse(low: en.Rows) -> en.Rows:
    """Inverse of a unit lower triangular matrix."""
    n = len(low)
    inv: en.Rows = [[1 if i == j else 0 for j in range(n)] for i in range(n)]
    for j in range(n):
        for i in range(j + 1, n):
            s: Any = 0
            for k in range(j, i):
                s = en.mul_sub(s, low[i][k], inv[k][j])
            inv[i][j] = s
    return inv


def inverse_general(e: Emitter, a: en.Rows) -> tuple[bl.Dense, Any]:
    """A⁻¹ by elimination with row exchanges, and the mask of singular configurations."""
    b = e.builder
    n = len(a)
    largest: Any = 0.0
    for row in a:
        for x in row:
            largest = e.intrinsic("maxnum", e.lift(largest), e.intrinsic("fabs", e.lift(x)))
    limit = largest * e.number.tolerance(BLOCK_TOLERANCE)
    work = [[e.lift(x) for x in row] + [e.constant(float(i == j)) for j in range(n)]
            for i, row in enumerate(a)]  # fmt: skip
    bad: Any = None
    for i in range(n):
        for j in range(i + 1, n):
            swap = e.compare(">", e.intrinsic("fabs", work[j][i]), e.intrinsic("fabs", work[i][i]))
            for k in range(2 * n):
                upper, lower = work[i][k], work[j][k]
                work[i][k] = e.select(swap, lower, upper)
                work[j][k] = e.select(swap, upper, lower)
        good = e.compare(">", e.intrinsic("fabs", work[i][i]), limit)
        failed = b.not_(good)
        bad = failed if bad is None else b.or_(bad, failed)
        recip = 1.0 / work[i][i]
        work[i] = [x * recip for x in work[i]]
        for j in range(n):
            if j != i:
                c = work[j][i]
                work[j] = [en.mul_sub(x, c, y) for x, y in zip(work[j], work[i], strict=True)]
    return bl.Dense([row[n:] for row in work]), bad


def cholesky(e: Emitter, a: en.Rows) -> tuple[bl.Dense, Any]:
    """Lower L with L L* = A, and the mask of configurations where A is not positive."""
    low, d = factor(a)
    bad: Any = None
    for pivot in d:
        failed = e.builder.not_(e.compare(">", pivot, 0.0))
        bad = failed if bad is None else e.builder.or_(bad, failed)
    roots = [e.intrinsic("sqrt", e.lift(x)) for x in d]
    n = len(a)
    rows = [[en.mul(low[i][j], roots[j]) if j <= i else 0 for j in range(n)] for i in range(n)]
    return bl.Dense(rows), bad
