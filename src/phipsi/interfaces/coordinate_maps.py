"""Between changes along v, which this library uses, and changes of the numbers in q.

q̇ = N(q) v. Learning frameworks differentiate by the components of q, quaternions included; the
functions here do not depend on the length of a quaternion, so their derivatives by components are
N (N* N)⁻¹ g for derivatives g along v.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.model.model import Model
from phipsi.simulation.chart import Chart
from phipsi.spatial import quat_conjugate, quat_multiply, quat_to_matrix

Array = NDArray[Any]


@final
class CoordinateMaps:
    """N(q) of a model, its adjoint and their inverses, on batches."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.chart = Chart(model)
        self._flat = self.chart.is_flat

    def rates(self, q: Array, dq: Array) -> Array:
        """Changes along v (..., nv) of changes of the components of q (..., nq): N⁺ dq."""
        return dq if self._flat else self._sizes(q) * self.adjoint(q, dq)

    def gradient(self, q: Array, along: Array) -> Array:
        """Gradient by the components of q (..., nq) from one along v (..., nv): N⁺* g."""
        return along if self._flat else self.model.qdot(q, self._sizes(q) * along)

    def adjoint(self, q: Array, by_components: Array) -> Array:
        """Gradient along v (..., nv) from one by the components of q (..., nq): N* g."""
        if self._flat:
            return by_components
        out = self.chart.flat_difference(np.zeros(self.model.nq), by_components)
        for kind, i, j in self.chart.curved_places:
            g = by_components[..., i : i + (7 if kind == "free" else 4)]
            if kind == "planar":
                c, s = np.cos(q[..., i]), np.sin(q[..., i])
                out[..., j] = g[..., 0]
                out[..., j + 1] = c * g[..., 1] + s * g[..., 2]
                out[..., j + 2] = -s * g[..., 1] + c * g[..., 2]
                continue
            quaternion = q[..., i : i + 4]
            turned = quat_multiply(quat_conjugate(quaternion), g[..., :4])
            out[..., j : j + 3] = turned[..., 1:] / 2
            if kind == "free":
                back = np.swapaxes(quat_to_matrix(quaternion), -1, -2)
                out[..., j + 3 : j + 6] = (back @ g[..., 4:, None])[..., 0]
        return out

    def _sizes(self, q: Array) -> Array:
        """(N* N)⁻¹, which is diagonal: 4/|quaternion|² for rotations, 1 elsewhere."""
        out = np.ones((*q.shape[:-1], self.model.nv))
        for kind, i, j in self.chart.curved_places:
            if kind != "planar":
                square = np.sum(q[..., i : i + 4] ** 2, axis=-1, keepdims=True)
                out[..., j : j + 3] = 4 / square
        return out
