"""Derivatives of exponential coordinates: how changes of a configuration are carried along.

A change of a configuration is a vector δ (nv,) in the directions of v: q ∘ exp(δ). With
q = base ∘ exp(z),

    δq = T δbase + Jr δz,     Jr = dexp(z) = (1 − e^{−ad})/ad,     T = e^{−ad} = 1 − ad Jr

ad the cross product with z of every curved joint; joints with q̇ = v have T = Jr = 1. All matrices
are block diagonal, one block per joint.
"""

from __future__ import annotations

from collections.abc import Callable
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


class EulerBlocks(NamedTuple):
    """Derivatives of a semi-implicit step at the curved joints, each block with its place in v.

    δq⁺ = T δq + h Q_v δv + h² Q_a δv̇ and δv⁺ = V_v δv + h V_a δv̇. Joints with q̇ = v have the
    identity in all five places.
    """

    transport: Blocks
    q_by_v: Blocks
    q_by_a: Blocks
    v_by_v: Blocks
    v_by_a: Blocks


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
            R = _columns(kind, z[..., s])
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

    def euler(self, v: Array, vdot: Array, h: float) -> EulerBlocks:
        """The semi-implicit step of joint_steps.py, linearised at its rates."""
        out = EulerBlocks([], [], [], [], [])
        for kind, s in self._parts:
            for blocks, block in zip(out, _EULER[kind](v[..., s], vdot[..., s], h), strict=True):
                blocks.append((s, block))
        return out

    def dense(self, like: Array, blocks: Blocks) -> Array:
        """Blocks as a matrix (..., nv, nv), the identity elsewhere; `like` (..., nv)."""
        return self._dense(like, blocks)

    def _dense(self, z: Array, blocks: Blocks) -> Array:
        out = self._identity(z)
        for s, block in blocks:
            out[..., s, s] = block
        return out

    def _identity(self, z: Array) -> Array:
        return np.array(np.broadcast_to(self._eye, (*z.shape, z.shape[-1])))


Five = tuple[Array, Array, Array, Array, Array]


def _turn_euler(v: Array, vdot: Array, h: float) -> Five:
    """ω⁺ = ω + h ω̇, R⁺ = R exp(h ω⁺)."""
    z, one = h * (v + h * vdot), _identity_like(v)
    right = np.linalg.inv(_columns("spherical", z))
    return one - skew(z) @ right, right, right, one, one


def _free_euler(v: Array, vdot: Array, h: float) -> Five:
    """s = u + h (u̇ + ω × u), x⁺ = x + h R s, u⁺ = W* s, with W* = e^(−h ω⁺) and R⁺ = R W.

    In body axes δx⁺ = W* (δx − h s × δθ + h δs) and δu⁺ = W* δs + h u⁺ × (Jr δω⁺).
    """
    omega, u = v[..., :3], v[..., 3:]
    back, right, _, _, _ = _turn_euler(omega, vdot[..., :3], h)
    s = u + h * (vdot[..., 3:] + np.cross(omega, u))
    after = (back @ s[..., None])[..., 0]
    out = [np.zeros((*v.shape, 6)) for _ in range(5)]
    for x, corner in zip(out, (back, right, right, np.eye(3), np.eye(3)), strict=True):
        x[..., :3, :3] = corner
    transport, q_by_v, q_by_a, v_by_v, v_by_a = out
    transport[..., 3:, :3], transport[..., 3:, 3:] = -h * (back @ skew(s)), back
    by_omega, by_u = -h * skew(u), np.eye(3) + h * skew(omega)  # of s
    q_by_v[..., 3:, :3], q_by_v[..., 3:, 3:] = back @ by_omega, back @ by_u
    q_by_a[..., 3:, 3:] = back
    turned = h * (skew(after) @ right)
    v_by_v[..., 3:, :3], v_by_v[..., 3:, 3:] = back @ by_omega + turned, back @ by_u
    v_by_a[..., 3:, :3], v_by_a[..., 3:, 3:] = turned, back
    return transport, q_by_v, q_by_a, v_by_v, v_by_a


def _planar_euler(v: Array, vdot: Array, h: float) -> Five:
    """The same in the plane, with J for the cross product."""
    omega, u = v[..., 0], v[..., 1:]
    J = np.array([[0.0, -1.0], [1.0, 0.0]])
    s = u + h * (vdot[..., 1:] + omega[..., None] * (u @ J.T))
    angle = h * (omega + h * vdot[..., 0])
    c, d = np.cos(angle)[..., None, None], np.sin(angle)[..., None, None]
    back = c * np.eye(2) - d * J
    after = (back @ s[..., None])[..., 0]
    out = [_identity_like(v) for _ in range(5)]
    transport, q_by_v, q_by_a, v_by_v, v_by_a = out
    for x in out:
        x[..., 1:, 1:] = back
    transport[..., 1:, 0] = h * (back @ (s @ J.T)[..., None])[..., 0]
    by_omega = h * (back @ (u @ J.T)[..., None])[..., 0]
    by_u = back @ (np.eye(2) + h * omega[..., None, None] * J)
    turned = -h * (after @ J.T)
    q_by_v[..., 1:, 0], q_by_v[..., 1:, 1:] = by_omega, by_u
    v_by_v[..., 1:, 0], v_by_v[..., 1:, 1:] = by_omega + turned, by_u
    v_by_a[..., 1:, 0] = turned
    return transport, q_by_v, q_by_a, v_by_v, v_by_a


_EULER: dict[str, Callable[[Array, Array, float], Five]] = {
    "spherical": _turn_euler,
    "free": _free_euler,
    "planar": _planar_euler,
}


def _identity_like(v: Array) -> Array:
    return np.array(np.broadcast_to(np.eye(v.shape[-1]), (*v.shape, v.shape[-1])))


def _columns(kind: str, z: Array) -> Array:
    """The matrix dexp⁻¹(z) of one part."""
    columns = _rate(kind, z[..., None, :], np.eye(z.shape[-1]), exp.ARRAYS)
    return np.ascontiguousarray(np.swapaxes(columns, -1, -2))


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
