"""Errors of a motion against a reference, joint by joint on the manifold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from phipsi.core.arrays import as_array
from phipsi.core.model import Model
from phipsi.core.spatial import ARRAYS, LieGroup, Rotation

Array = NDArray[Any]
Values = Any
"""Arrays, or traced values inside a law."""


class TrackingErrors(NamedTuple):
    """Errors `e`, their rates `e_rate`, and the reference's acceleration, each (..., nv)."""

    e: Array
    e_rate: Array
    acceleration: Array


@final
class Tracking:
    """Coordinates in which a feedback u = acceleration + kd e_rate + kp e makes the error decay.

    - Joints with q̇ = v: e = q_ref − q, and ë + kd ė + kp e = 0 exactly.
    - Positions of free and planar joints: e = p_ref − p in inboard axes, with the same equation.
    - Rotations of free and spherical joints: R_e = R* R_ref, e = log R_e in body axes,
      e_rate = R_e ω_ref − ω =: ω_e, and ω̇_e + kd ω_e + kp e = 0. That is the linear equation as
      long as e and ω_e are parallel; in general ½ |ω_e|² + ½ kp |e|² falls by kd |ω_e|².
    - Composite joints: their parts in order.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self._flat: list[tuple[slice, slice]] = []
        self._curved: list[_PoseSlices] = []
        for joint, q, v in zip(model.joints, model.q_slices, model.v_slices, strict=True):
            for group, i, j in joint.parts(q.start, v.start):
                if group.is_flat:
                    self._flat.append((slice(i, i + group.nq), slice(j, j + group.nv)))
                else:
                    assert group.rotation is not None  # embedded loops are rejected before
                    self._curved.append(_PoseSlices.of_group(group, group.rotation, i, j))
        self._moving = [x for x in self._curved if x.of.start < x.of.stop]

    def errors(
        self, q: Values, v: Values, q_ref: Values, v_ref: Values, vdot_ref: Values
    ) -> TrackingErrors:
        """Compare (q, v) with the reference; the rates of both in their own body axes."""
        q, v, q_ref, v_ref, vdot_ref = map(as_array, (q, v, q_ref, v_ref, vdot_ref))
        shape = np.broadcast_shapes(q.shape[:-1], v.shape[:-1], q_ref.shape[:-1])
        e, rate, ff = (np.zeros_like(q, shape=(*shape, self.model.nv)) for _ in range(3))
        for of, at in self._flat:
            e[..., at] = q_ref[..., of] - q[..., of]
            rate[..., at], ff[..., at] = v_ref[..., at] - v[..., at], vdot_ref[..., at]
        for x in self._curved:
            turn, at = x.rotation, x.rates
            r, r_ref = q[..., x.turn], q_ref[..., x.turn]
            angle = turn.log(r, r_ref)
            w_ref = _apply(turn.back_moment, -angle, v_ref[..., at], ARRAYS)
            w_e = w_ref - v[..., at]
            e[..., at], rate[..., at] = angle, w_e
            carried = _apply(turn.back_moment, -angle, vdot_ref[..., at], ARRAYS)
            ff[..., at] = carried + _apply(turn.bracket, w_e, w_ref)
        for x in self._moving:
            turn, r, r_ref = x.rotation, q[..., x.turn], q_ref[..., x.turn]
            of, to, u_ref = x.of, x.linear, v_ref[..., x.linear]
            e[..., to] = q_ref[..., of] - q[..., of]
            moving = _apply(turn.apply, r, v[..., to], ARRAYS)
            rate[..., to] = _apply(turn.apply, r_ref, u_ref, ARRAYS) - moving
            push = vdot_ref[..., to] + _apply(turn.spin, v_ref[..., x.rates], u_ref)
            ff[..., to] = _apply(turn.apply, r_ref, push, ARRAYS)
        return TrackingErrors(e, rate, ff)

    def accelerations(self, q: Values, v: Values, u: Array) -> Array:
        """Joint accelerations vdot (..., nv) of accelerations u in these coordinates."""
        v, out = as_array(v), self.efforts(q, u)
        for x in self._moving:  # p̈ = R (v̇ + ω × v)
            out[..., x.linear] -= _apply(x.rotation.spin, v[..., x.rates], v[..., x.linear])
        return out

    def rates_of_errors(self, e: Array, e_rate: Array) -> Array:
        """ė (..., nv): e_rate but for rotations, where e = log R_e and ω_e turns R_e."""
        out = e_rate.copy()
        for x in self._curved:
            at = x.rates
            out[..., at] = _apply(x.rotation.rate, -e[..., at], e_rate[..., at], ARRAYS)
        return out

    def ahead(self, q: Values, v: Values, s: Array, u: Array) -> tuple[Array, Array]:
        """Joint velocities v_r − v (..., nv), v_r ahead of v by s in these coordinates, and v̇_r.

        `u` are the accelerations of v_r in these coordinates.
        """
        v, by, out = as_array(v), self.efforts(q, s), self.efforts(q, u)
        for x in self._moving:  # u = R (v̇_r + ω × v_r)
            ahead = v[..., x.linear] + by[..., x.linear]
            out[..., x.linear] -= _apply(x.rotation.spin, v[..., x.rates], ahead)
        return by, out

    def efforts(self, q: Values, forces: Array) -> Array:
        """Joint efforts (..., nv) of forces in these coordinates, by equal power."""
        q, out = as_array(q), forces.copy()
        for x in self._moving:
            turn = x.rotation

            def back(r: Any, f: Any, ops: Any, turn: Rotation = turn) -> Any:
                return turn.apply(turn.inverse(r), f, ops)

            out[..., x.linear] = _apply(back, q[..., x.turn], forces[..., x.linear], ARRAYS)
        return out


class _PoseSlices(NamedTuple):
    """A rotation and the translation after it: `turn`, `of` in q, `rates`, `linear` in v."""

    rotation: Rotation
    turn: slice
    of: slice
    rates: slice
    linear: slice

    @classmethod
    def of_group(cls, group: LieGroup, rotation: Rotation, i: int, j: int) -> _PoseSlices:
        r, w = i + rotation.size, j + rotation.rates
        return cls(
            rotation, slice(i, r), slice(r, i + group.nq), slice(j, w), slice(w, j + group.nv)
        )


def _apply(formula: Callable[..., Any], a: Array, b: Array, *ops: Any) -> Array:
    """A formula of components on arrays."""
    parts = ([x[..., i] for i in range(x.shape[-1])] for x in (a, b))
    entries = formula(*parts, *ops)
    return np.stack(np.broadcast_arrays(*entries), axis=-1)
