"""M^{1/2} of MM: a factor of the inertia of every body."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from phipsi.core.expressions import Expr
from phipsi.user_operators.custom import operator

_SMALL = 1e-14  # of a diagonal entry, what is left of it by rounding


def _root(M: Any) -> Any:
    """The lower Cholesky factor of a block, with zero columns where nothing is left of it."""
    rows: list[list[Any]] = [[0.0] * 6 for _ in range(6)]
    for j in range(6):
        left = M[j, j]
        for k in range(j):
            left = left - rows[j][k] * rows[j][k]
        is_left = left > _SMALL * M[j, j]
        root = np.sqrt(np.where(is_left, left, 1.0))
        rows[j][j] = np.where(is_left, root, 0.0)
        for i in range(j + 1, 6):
            entry = M[i, j]
            for k in range(j):
                entry = entry - rows[i][k] * rows[j][k]
            rows[i][j] = np.where(is_left, entry / root, 0.0)
    return np.array(rows)


@cache
def inertia_root() -> Expr:
    """M½ with M = M½ M½*, of rigid bodies; a body may lack inertia in some directions.

    >>> print(inertia_root() @ inertia_root().T)
    M½ M½*
    """
    return operator(
        "M_half",
        "normalised_forces -> forces",
        _root,
        symbol="M½",
        latex="M^{1/2}",
        meaning="factor of the inertias, M = M½ M½*",
        source="MM sec. X.A",
    )
