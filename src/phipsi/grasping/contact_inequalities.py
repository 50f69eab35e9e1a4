"""Inequalities of contact forces, and the minimum-norm forces that satisfy them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# Margins that are broken by less than this part of the contact forces are at the border.
BORDER = 1e-9


_GROWTH = 20.0


_NEWTON = 60


_GAP = 1e-13  # of the objective, relative to |f|²


class Inequality(NamedTuple):
    """a·f − |C f| ≥ margin, with a (rows,), C (k, rows)."""

    a: Array
    C: Array


def margins(f: Array, cones: Sequence[Inequality]) -> Array:
    """a·f − |C f| of all inequalities (..., m) for f (..., rows)."""
    out = [f @ c.a - np.linalg.norm(f @ c.C.T, axis=-1) for c in cones]
    return np.stack(out, axis=-1) if out else np.zeros((*f.shape[:-1], 0))


def least_force(
    f0: Array, N: Array, cones: Sequence[Inequality], margin: float = 0.0
) -> tuple[Array, bool]:
    """The f (rows,) of least norm with all margins at least `margin`, and whether there is one.

    `f0` (rows,), `N` (rows, k) with orthonormal columns. If there is none, the f with the largest
    worst margin.
    """
    f0 = f0 - N @ (N.T @ f0)
    scale = float(np.abs(f0).max(initial=0.0)) + abs(margin)
    scale = scale if scale > 0 else 1.0
    if not cones or not N.shape[1]:
        return f0, bool((margins(f0, cones) >= margin - 1e-9 * scale).all())
    problem = _Barrier(f0 / scale, N, cones, margin / scale)
    z, inside = problem.inside()
    if inside:
        z = problem.shortest(z)
    f = scale * (problem.f0 + N @ z)
    return f, inside or bool((margins(f, cones) >= margin - 1e-9 * scale).all())


class _Barrier:
    """The problem in units of its forces; y = [z, s], s raises all margins in the first phase."""

    def __init__(self, f0: Array, N: Array, cones: Sequence[Inequality], margin: float) -> None:
        self.f0, self.N, self.margin, self.cones = f0, N, margin, cones
        self.k = N.shape[1]
        # rows of [a; C] on y, and their constants
        self.slopes = [np.vstack([c.a @ N, c.C @ N]) for c in cones]
        self.starts = [np.concatenate([[c.a @ f0 - margin], c.C @ f0]) for c in cones]
        self.degree = sum(2 if len(x) > 1 else 1 for x in self.starts)

    def inside(self) -> tuple[Array, bool]:
        """z with all margins above 0 (relative to those asked for), or the best one found."""
        worst = min(float(x[0] - np.linalg.norm(x[1:])) for x in self.starts)
        if worst > 1e-9:
            return np.zeros(self.k), True
        y = np.zeros(self.k + 1)
        y[-1] = 1.0 - min(worst, 0.0)
        weight = 1.0
        for _ in range(40):
            y = self._minimise(y, weight, phase=1, stop=-1e-3)
            if y[-1] < 0:
                return y[:-1], True
            if self.degree / weight < 1e-12:
                break
            weight *= _GROWTH
        return y[:-1], False

    def shortest(self, z: Array) -> Array:
        """The least |f| from a z inside."""
        weight = 1.0
        for _ in range(40):
            z = self._minimise(z, weight, phase=2)
            size = float(self.f0 @ self.f0 + z @ z)
            if self.degree / weight < _GAP * max(size, 1e-12):
                break
            weight *= _GROWTH
        return z

    def _terms(self, y: Array, weight: float, phase: int) -> tuple[float, Array, Array] | None:
        """Value, gradient and Hessian of weight · objective + barrier; None outside."""
        n = len(y)
        z, s = (y[:-1], y[-1]) if phase == 1 else (y, 0.0)
        g, B = np.zeros(n), np.zeros((n, n))
        if phase == 1:
            # s, and a little |z|² so that the best point is unique and z stays bounded
            value = weight * (s + 1e-9 * float(z @ z))
            g[:-1], g[-1] = 2e-9 * weight * z, weight
            B[:-1, :-1] = 2e-9 * weight * np.eye(self.k)
        else:
            value = 0.5 * weight * float(z @ z)
            g[:], B[:] = weight * z, weight * np.eye(n)
        for start, slope in zip(self.starts, self.slopes, strict=True):
            x = start + slope @ z
            rows = slope
            if phase == 1:
                x = x + s * np.eye(len(x))[0]
                rows = np.column_stack([slope, np.eye(len(x))[0]])
            if x[0] <= 0:
                return None
            if len(x) == 1:
                value -= float(np.log(x[0]))
                along = rows[0] / x[0]
                g -= along
                B += np.outer(along, along)
                continue
            length = float(np.linalg.norm(x[1:]))
            depth = (x[0] - length) * (x[0] + length)
            if depth <= 0:
                return None
            value -= float(np.log(depth))
            sign = np.ones(len(x))
            sign[1:] = -1.0
            along = rows.T @ (sign * x) * (2.0 / depth)
            g -= along
            B += np.outer(along, along) - (2.0 / depth) * (rows.T * sign) @ rows
        return value, g, B

    def _minimise(self, y: Array, weight: float, phase: int, stop: float | None = None) -> Array:
        for _ in range(_NEWTON):
            terms = self._terms(y, weight, phase)
            assert terms is not None, "the barrier method left the cones"
            value, g, B = terms
            lift = 1e-14 * np.trace(B) / len(y)
            step = -np.linalg.solve(B + lift * np.eye(len(y)), g)
            decrease = -float(g @ step)
            if decrease < 1e-16:
                break
            size = 1.0
            while size > 1e-12:
                new = self._terms(y + size * step, weight, phase)
                if new is not None and new[0] <= value - 0.1 * size * decrease + 1e-15 * abs(value):
                    break
                size *= 0.5
            else:
                break
            y = y + size * step
            if stop is not None and y[-1] < stop:
                break
        return y
