"""The motion between the samples: recorded dense output, or cubic Hermite on the group.

Dense output of every SciPy method is a polynomial in time per step, in the exponential coordinates
about the step's start. It is kept as its values at Chebyshev nodes, degree + 1 of them, which
determine it exactly, can be stored as one array, and are evaluated for any number of times at once.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms import Chart

Array = NDArray[Any]


def _chebyshev(count: int) -> Array:
    """Chebyshev–Lobatto nodes on [0, 1], increasing, ends included."""
    x = 0.5 - 0.5 * np.cos(np.pi * np.arange(count) / (count - 1))
    x[0], x[-1] = 0.0, 1.0
    return x


NODES = {count: _chebyshev(count) for count in range(2, 17)}


def nodes_of(degree: int, t0: float, t1: float) -> Array:
    """Times at which a polynomial of this degree on [t0, t1] is kept."""
    return t0 + (t1 - t0) * NODES[degree + 1]


@final
class DenseRecord:
    """Dense output of a whole simulation.

    Attributes
    ----------
    t0 : ndarray, shape (s,)
        Where segments begin.
    h : ndarray, shape (s,)
        Their lengths.
    base : ndarray, shape (s, nq)
        Their base points.
    values : ndarray, shape (s, nodes, 2 nv + n)
        [z, v] and n quadratures at the Chebyshev nodes of each.
    """

    def __init__(self) -> None:
        self._rows: list[tuple[float, float, Array, Array]] = []
        self._arrays: tuple[Array, Array, Array, Array] | None = None

    @classmethod
    def of_arrays(cls, t0: Array, h: Array, base: Array, values: Array) -> DenseRecord:
        """A record that was stored."""
        out = cls()
        out._arrays = (t0, h, base, values)
        return out

    def append(self, t0: float, h: float, base: Array, values: Array) -> None:
        """Add a segment; a step that ended early at an event is cut off by the next segment."""
        self._rows.append((t0, h, base, values))
        self._arrays = None

    def arrays(self) -> tuple[Array, Array, Array, Array] | None:
        """`t0`, `h`, `base`, `values`, or None if there is no segment."""
        if self._arrays is None and self._rows:
            t0, h, base, values = zip(*self._rows, strict=True)
            self._arrays = (np.array(t0), np.array(h), np.array(base), np.array(values))
        return self._arrays

    def state(self, chart: Chart, times: Array) -> tuple[Array, Array]:
        """q (k, nq) and v (k, nv) at times (k,) inside the record."""
        nv = chart.nv
        base, y = self._interpolated(times, slice(0, 2 * nv))
        return np.array(chart.point(base, y[:, :nv])), y[:, nv:]

    def quadratures(self, chart: Chart, times: Array) -> Array:
        """The quadratures (k, n) at times (k,) inside the record."""
        return self._interpolated(times, slice(2 * chart.nv, None))[1]

    def _interpolated(self, times: Array, columns: slice) -> tuple[Array, Array]:
        """Base points of the segments of these times, and columns of the values there."""
        arrays = self.arrays()
        assert arrays is not None
        t0, h, base, values = arrays
        i = np.clip(np.searchsorted(t0, times, side="right") - 1, 0, len(t0) - 1)
        x = (times - t0[i]) / h[i]
        weights = _barycentric(x, values.shape[1])
        return base[i], np.einsum("kn,kny->ky", weights, values[i][..., columns])


def _barycentric(x: Array, count: int) -> Array:
    """Weights (k, count) that interpolate at x (k,) from values at the nodes."""
    signs = (-1.0) ** np.arange(count)
    signs[[0, -1]] /= 2
    gap = x[:, None] - NODES[count]
    hit = gap == 0
    terms = signs / np.where(hit, 1.0, gap)
    weights = terms / terms.sum(axis=1, keepdims=True)
    rows = hit.any(axis=1)
    weights[rows] = hit[rows]
    return weights


def hermite(
    chart: Chart, t: Array, q: Array, v: Array, difference: Any, times: Array
) -> tuple[Array, Array]:
    """States at times by cubic Hermite interpolation on the group between neighbouring samples.

    z is the cubic with z = 0, ż = v at one sample and z = log(q0⁻¹ q1), ż = dexp⁻¹(z) v at the
    next; q = q0 ∘ exp(z) and v = dexp(z) ż. The error of q is O(h⁴), that of v O(h³), for samples h
    apart.
    """
    if len(t) == 1:
        return np.repeat(q, len(times), axis=0), np.repeat(v, len(times), axis=0)
    i = np.clip(np.searchsorted(t, times, side="right") - 1, 0, len(t) - 2)
    i = np.where(t[i + 1] > t[i], i, np.maximum(i - 1, 0))  # the end of the record, at a jump
    h = (t[i + 1] - t[i])[:, None]
    x = (times - t[i])[:, None] / np.where(h > 0, h, 1.0)
    z1 = difference(q[i], q[i + 1])
    d0, d1 = h * v[i], h * chart.rate(z1, v[i + 1])
    z = (x - 2 * x**2 + x**3) * d0 + (3 * x**2 - 2 * x**3) * z1 + (x**3 - x**2) * d1
    slope = (1 - 4 * x + 3 * x**2) * d0 + 6 * (x - x**2) * z1 + (3 * x**2 - 2 * x) * d1
    zdot = slope / np.where(h > 0, h, 1.0)
    rates = (
        zdot if chart.is_flat else np.linalg.solve(chart.rate_matrix(z), zdot[..., None])[..., 0]
    )
    return np.array(chart.point(q[i], z + chart.start(q[i]))), np.array(rates)
