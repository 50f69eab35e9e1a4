"""Piecewise polynomials through the points of a table."""

from __future__ import annotations

from typing import Any

import numpy as np

from phipsi.laws.graph import Array


def pieces(xs: Any, ys: Any, kind: str) -> tuple[Array, Array]:
    """Knots and coefficients of the curve through points; constant before and behind them."""
    xs, ys = (np.array(z, dtype=np.float64) for z in (xs, ys))
    if xs.ndim != 1 or xs.shape != ys.shape or len(xs) < 2 or not (np.diff(xs) > 0).all():
        raise ValueError(
            "a table needs two or more places xs that increase, and as many numbers ys"
        )
    if not (np.isfinite(xs).all() and np.isfinite(ys).all()):
        raise ValueError("a number of a table is not finite")
    if kind not in ("linear", "cubic"):
        raise ValueError(f"kind={kind!r} is neither 'linear' nor 'cubic'")
    width = np.diff(xs)
    slope = np.diff(ys) / width
    rows = np.stack([ys[:-1], slope], 1)
    if kind == "cubic":
        d = _monotone_slopes(width, slope)
        bend = (3 * slope - 2 * d[:-1] - d[1:]) / width
        rows = np.stack([ys[:-1], d[:-1], bend, (d[:-1] + d[1:] - 2 * slope) / width**2], 1)
    before, behind = np.zeros((2, 1, rows.shape[1]))
    before[0, 0], behind[0, 0] = ys[0], ys[-1]
    return np.concatenate([[xs[0] - 1.0], xs]), np.concatenate([before, rows, behind])


def _monotone_slopes(width: Array, slope: Array) -> Array:
    """Slopes at the points: weighted harmonic means of those beside them, zero at extremes."""
    a, b = slope[:-1], slope[1:]
    w1, w2 = 2 * width[1:] + width[:-1], width[1:] + 2 * width[:-1]
    with np.errstate(all="ignore"):
        inner = np.where(a * b > 0, (w1 + w2) / (w1 / a + w2 / b), 0.0)
    return np.concatenate([slope[:1], inner, slope[-1:]])
