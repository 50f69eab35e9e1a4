"""Between the components of configurations and the directions of v, forward and backward."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms import chart_of
from phipsi.core.model import Model, dot
from phipsi.core.spatial import ARRAYS

Array = NDArray[Any]


@final
class CoordinateMaps:
    """N(q) of a model, its adjoint and their inverses, on batches."""

    def __init__(self, model: Model) -> None:
        self.model = model
        places = list(zip(model.joints, model.q_slices, model.v_slices, strict=True))
        self._curved = [x for x in places if not x[0].is_additive]
        flat = [(q, v) for joint, q, v in places if joint.is_additive]
        self._flat_q, self._flat_v = (
            np.array([i for x in flat for i in range(x[k].start, x[k].stop)], dtype=int)
            for k in range(2)
        )

    def with_unit_quaternions(self, q: Array) -> Array:
        """Configurations (..., nq) in double precision.

        Quaternions of single precision that are unit to its rounding become unit to that of double
        precision: a rollout would reject them. Others stay, for the rollout to judge.
        """
        out = np.array(q, dtype=np.float64)
        if q.dtype != np.float32:
            return out
        for _, at in chart_of(self.model).named_quaternions:
            length = np.sqrt(np.sum(out[..., at] ** 2, axis=-1, keepdims=True))
            is_unit = np.abs(length - 1) < 4 * np.finfo(np.float32).eps
            out[..., at] /= np.where(is_unit, length, 1.0)
        return out

    def rates(self, q: Array, dq: Array) -> Array:
        """Changes along v (..., nv) of changes of the components of q (..., nq): N⁺ dq."""
        return self._sizes(q) * self.adjoint(q, dq) if self._curved else dq

    def gradient(self, q: Array, along: Array) -> Array:
        """Gradient in components of q (..., nq) from one in directions of v (..., nv): N⁺* g."""
        return self.model.qdot(q, self._sizes(q) * along) if self._curved else along

    def adjoint(self, q: Array, by_components: Array) -> Array:
        """Gradient along v (..., nv) from one by the components of q (..., nq): N* g."""
        if not self._curved:
            return by_components
        batch = np.broadcast_shapes(q.shape[:-1], by_components.shape[:-1])
        out = np.zeros((*batch, self.model.nv))
        out[..., self._flat_v] = by_components[..., self._flat_q]
        for at, j, column in self._columns(q):
            out[..., j] = dot(column, [by_components[..., i] for i in at])
        return out

    def _sizes(self, q: Array) -> Array:
        """(N* N)⁻¹, which is diagonal: 4/|quaternion|² for rotations, 1 elsewhere."""
        out = np.ones((*q.shape[:-1], self.model.nv))
        for _, j, column in self._columns(q):
            out[..., j] = 1 / dot(column, column)
        return out

    def _columns(self, q: Array) -> Iterator[tuple[range, int, list[Any]]]:
        """Columns of N(q) at the joints with q̇ ≠ v: where in q, which rate, and the entries."""
        for joint, at, to in self._curved:
            here = range(at.start, at.stop)
            for k, j in enumerate(range(to.start, to.stop)):
                unit = [int(i == k) for i in range(joint.nv)]
                place = [q[..., i] for i in here]
                yield here, j, joint.q_rate(joint.params, place, unit, ARRAYS)
