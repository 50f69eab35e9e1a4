"""Derivatives of exponential coordinates: how changes of a configuration are carried along.

A change of a configuration is a vector δ (nv,) in the directions of v: q ∘ exp(δ). With
q = base ∘ exp(z),

    δq = T δbase + Jr δz,     Jr = dexp(z) = (1 − e^{−ad})/ad,     T = e^{−ad} = 1 − ad Jr

ad the cross product with z of every curved joint; joints with q̇ = v have T = Jr = 1. All matrices
are block diagonal, one block per joint.
"""

from __future__ import annotations

from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from phipsi.model.model import Model
from phipsi.simulation import exponential as exp
from phipsi.simulation.chart import SIZES, Chart
from phipsi.spatial import crm, skew

Array = NDArray[Any]
_STEP = 1e-30


Blocks = list[tuple[slice, Array]]


class ChartBlocks(NamedTuple):
    """Blocks (..., r, r) of the curved joints, each with its place in v."""

    transport: Blocks
    right: Blocks
    rate: Blocks


@final
class ChartDerivatives:
    """The matrices of a model; all take and give batches on leading axes.

    **Attributes:** `chart`; `is_flat`, whether all of them are the identity.
    """

    def __init__(self, model: Model) -> None:
        self.chart = Chart(model)
        self.is_flat = self.chart.is_flat
        self._eye = np.eye(model.nv)
        self._parts = [(kind, slice(j, j + SIZES[kind][1])) for kind, j in self.chart.curved_parts]

    def bracket(self, z: Array) -> Array:
        """Matrices ad(z) (..., nv, nv); zero for joints with q̇ = v."""
        out = np.zeros((*z.shape, z.shape[-1]), dtype=z.dtype)
        for kind, s in self._parts:
            out[..., s, s] = _bracket(kind, z[..., s])
        return out

    def rate(self, z: Array) -> Array:
        """Matrices dexp⁻¹(z) (..., nv, nv): v → ż."""
        return self._dense(z, self.blocks(z).rate)

    def right(self, z: Array) -> Array:
        """Matrices Jr(z) (..., nv, nv): δz → change of base ∘ exp(z)."""
        return self._dense(z, self.blocks(z).right)

    def transport(self, z: Array) -> Array:
        """Matrices T(z) (..., nv, nv): change of the base → change of base ∘ exp(z)."""
        return self._dense(z, self.blocks(z).transport)

    def rate_change(self, z: Array, v: Array) -> Array:
        """Derivatives of dexp⁻¹(z) v by z (..., nv, nv)."""
        batch = np.broadcast_shapes(z.shape[:-1], v.shape[:-1])
        out = np.zeros((*batch, z.shape[-1], z.shape[-1]))
        for s, block in self.change_blocks(z, v):
            out[..., s, s] = block
        return out

    def blocks(self, z: Array) -> ChartBlocks:
        """T, Jr and dexp⁻¹ of the curved joints alone; all others are the identity."""
        rate: Blocks = []
        right: Blocks = []
        transport: Blocks = []
        for kind, s in self._parts:
            unit = np.eye(s.stop - s.start)
            columns = _rate(kind, z[..., None, s], unit, exp.ARRAYS)
            R = np.ascontiguousarray(np.swapaxes(columns, -1, -2))
            inverse = np.linalg.inv(R)
            rate.append((s, R))
            right.append((s, inverse))
            transport.append((s, unit - _bracket(kind, z[..., s]) @ inverse))
        return ChartBlocks(transport, right, rate)

    def change_blocks(self, z: Array, v: Array) -> Blocks:
        """Derivatives of dexp⁻¹(z) v by z of the curved joints; zero for all others."""
        out: Blocks = []
        for kind, s in self._parts:
            steps = 1j * _STEP * np.eye(s.stop - s.start)
            columns = _rate(kind, z[..., None, s] + steps, v[..., None, s], exp.STEPS)
            out.append((s, np.swapaxes(np.imag(columns), -1, -2) / _STEP))
        return out

    def _dense(self, z: Array, blocks: Blocks) -> Array:
        out = self._identity(z)
        for s, block in blocks:
            out[..., s, s] = block
        return out

    def _identity(self, z: Array) -> Array:
        return np.array(np.broadcast_to(self._eye, (*z.shape, z.shape[-1])))


def _bracket(kind: str, z: Array) -> Array:
    if kind == "spherical":
        return skew(z)
    if kind == "free":
        return crm(z)
    out = np.zeros((*z.shape, 3), dtype=z.dtype)
    angle, u1, u2 = (z[..., i] for i in range(3))
    out[..., 1, 0], out[..., 1, 2] = u2, -angle
    out[..., 2, 0], out[..., 2, 1] = -u1, angle
    return out


def _rate(kind: str, z: Array, v: Array, ops: Any) -> Array:
    """dexp⁻¹(z) v of one part (..., width)."""
    a, b = ([x[..., i] for i in range(x.shape[-1])] for x in (z, v))
    entries = exp.RATE[kind](a, b, ops)
    return np.stack(np.broadcast_arrays(*entries), axis=-1)
