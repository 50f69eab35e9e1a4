"""Errors of a motion against a reference, joint by joint on the manifold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.model.joint import Joint
from phipsi.model.joints import Composite, Free, Planar, Spherical
from phipsi.model.model import Model
from phipsi.spatial import quat_to_matrix, so3_log

Array = NDArray[Any]


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
        additive: list[tuple[range, range]] = []
        self._turning: list[tuple[slice, slice]] = []  # quaternion in q, angular rates in v
        self._moving: list[tuple[Joint, slice, slice, slice]] = []  # with the orientation in q
        for joint, of, at in _simple_joints(model):
            if isinstance(joint, Spherical | Free):
                self._turning.append((slice(of, of + 4), slice(at, at + 3)))
            if isinstance(joint, Free):
                places = slice(of, of + 4), slice(of + 4, of + 7), slice(at + 3, at + 6)
                self._moving.append((joint, *places))
            elif isinstance(joint, Planar):
                places = slice(of, of + 1), slice(of + 1, of + 3), slice(at + 1, at + 3)
                self._moving.append((joint, *places))
                additive.append((range(of, of + 1), range(at, at + 1)))
            elif not isinstance(joint, Spherical):
                additive.append((range(of, of + joint.nq), range(at, at + joint.nv)))
        self._q = np.array([i for of, _ in additive for i in of], dtype=int)
        self._v = np.array([i for _, at in additive for i in at], dtype=int)
        self._angles = np.array([a.start for j, a, _, _ in self._moving if isinstance(j, Planar)])

    def errors(
        self, q: ArrayLike, v: ArrayLike, q_ref: ArrayLike, v_ref: ArrayLike, vdot_ref: ArrayLike
    ) -> TrackingErrors:
        """Compare (q, v) with the reference; the rates of both in their own body axes."""
        q, v, q_ref = np.asarray(q), np.asarray(v), np.asarray(q_ref)
        v_ref, vdot_ref = np.asarray(v_ref), np.asarray(vdot_ref)
        shape = np.broadcast_shapes(q.shape[:-1], v.shape[:-1], q_ref.shape[:-1])
        e, rate, ff = np.zeros((3, *shape, self.model.nv))
        gap = q_ref[..., self._q] - q[..., self._q]
        turns = np.isin(self._q, self._angles)  # headings of planar joints: the shortest way
        e[..., self._v] = np.where(turns, (gap + np.pi) % (2 * np.pi) - np.pi, gap)
        rate[..., self._v] = v_ref[..., self._v] - v[..., self._v]
        ff[..., self._v] = vdot_ref[..., self._v]
        for of, at in self._turning:
            R, R_ref = quat_to_matrix(q[..., of]), quat_to_matrix(q_ref[..., of])
            R_e = np.swapaxes(R, -1, -2) @ R_ref
            w_ref = _apply(R_e, v_ref[..., at])
            w_e = w_ref - v[..., at]
            e[..., at], rate[..., at] = so3_log(R_e), w_e
            ff[..., at] = _apply(R_e, vdot_ref[..., at]) + np.cross(w_e, w_ref)
        for joint, turn, of, at in self._moving:
            R, R_ref = _axes(joint, q[..., turn]), _axes(joint, q_ref[..., turn])
            spin_ref = _spin(joint, v_ref, at)
            e[..., at] = q_ref[..., of] - q[..., of]
            rate[..., at] = _apply(R_ref, v_ref[..., at]) - _apply(R, v[..., at])
            ff[..., at] = _apply(R_ref, vdot_ref[..., at] + _apply(spin_ref, v_ref[..., at]))
        return TrackingErrors(e, rate, ff)

    def accelerations(self, q: ArrayLike, v: ArrayLike, u: Array) -> Array:
        """Joint accelerations vdot (..., nv) of accelerations u in these coordinates."""
        q, v, out = np.asarray(q), np.asarray(v), np.array(u)
        for joint, turn, _, at in self._moving:  # p̈ = R (v̇ + ω × v)
            R = np.swapaxes(_axes(joint, q[..., turn]), -1, -2)
            out[..., at] = _apply(R, u[..., at]) - _apply(_spin(joint, v, at), v[..., at])
        return out

    def efforts(self, q: ArrayLike, forces: Array) -> Array:
        """Joint efforts (..., nv) of forces in these coordinates, by equal power."""
        q, out = np.asarray(q), np.array(forces)
        for joint, turn, _, at in self._moving:
            out[..., at] = _apply(np.swapaxes(_axes(joint, q[..., turn]), -1, -2), forces[..., at])
        return out


def _simple_joints(model: Model) -> Iterator[tuple[Joint, int, int]]:
    """Every joint with its first index in q and in v, composite ones taken apart."""
    places = zip(model.joints, model.q_slices, model.v_slices, strict=True)
    stack = [(joint, of.start, at.start) for joint, of, at in places]
    while stack:
        joint, of, at = stack.pop()
        if not isinstance(joint, Composite):
            yield joint, of, at
            continue
        for part in joint.joints:
            stack.append((part, of, at))
            of, at = of + part.nq, at + part.nv


def _axes(joint: Joint, turn: Array) -> Array:
    """Rotation (..., 3, 3) of a free joint, or (..., 2, 2) of a planar one."""
    if isinstance(joint, Free):
        return quat_to_matrix(turn)
    cosine, sine = np.cos(turn[..., 0]), np.sin(turn[..., 0])
    rows = [np.stack([cosine, -sine], axis=-1), np.stack([sine, cosine], axis=-1)]
    return np.stack(rows, axis=-2)


def _spin(joint: Joint, v: Array, at: slice) -> Array:
    """The matrix of ω ×, for the ω that stands before the linear rates in v."""
    if isinstance(joint, Free):
        w = v[..., at.start - 3 : at.start]
        zero = np.zeros_like(w[..., 0])
        x, y, z = w[..., 0], w[..., 1], w[..., 2]
        flat = np.stack([zero, -z, y, z, zero, -x, -y, x, zero], axis=-1)
        return flat.reshape(*w.shape[:-1], 3, 3)
    w = v[..., at.start - 1]
    return np.stack([np.zeros_like(w), -w, w, np.zeros_like(w)], axis=-1).reshape(*w.shape, 2, 2)


def _apply(matrix: Array, vector: Array) -> Array:
    return np.einsum("...ij,...j->...i", matrix, vector)
