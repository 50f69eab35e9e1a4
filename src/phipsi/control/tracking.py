"""Errors of a motion against a reference, joint by joint on the manifold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.model.model import Model
from phipsi.spatial.exponential import ARRAYS, SERIES_BELOW, polynomial
from phipsi.spatial.groups import Group
from phipsi.spatial.rotation_groups import Numbers, Rotation, add

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
        self._flat: list[tuple[slice, slice]] = []
        self._curved: list[_Place] = []
        for joint, q, v in zip(model.joints, model.q_slices, model.v_slices, strict=True):
            for group, i, j in joint.parts(q.start, v.start):
                if group.rotation is None:
                    self._flat.append((slice(i, i + group.nq), slice(j, j + group.nv)))
                else:
                    self._curved.append(_Place.of_group(group, group.rotation, i, j))
        self._moving = [x for x in self._curved if x.of.start < x.of.stop]

    def errors(
        self, q: ArrayLike, v: ArrayLike, q_ref: ArrayLike, v_ref: ArrayLike, vdot_ref: ArrayLike
    ) -> TrackingErrors:
        """Compare (q, v) with the reference; the rates of both in their own body axes."""
        q, v, q_ref = np.asarray(q), np.asarray(v), np.asarray(q_ref)
        v_ref, vdot_ref = np.asarray(v_ref), np.asarray(vdot_ref)
        shape = np.broadcast_shapes(q.shape[:-1], v.shape[:-1], q_ref.shape[:-1])
        e, rate, ff = np.zeros((3, *shape, self.model.nv))
        for of, at in self._flat:
            e[..., at] = q_ref[..., of] - q[..., of]
            rate[..., at], ff[..., at] = v_ref[..., at] - v[..., at], vdot_ref[..., at]
        for x in self._curved:
            at, r, r_ref = x.rates, q[..., x.turn], q_ref[..., x.turn]
            angle = e[..., at] = x.rotation.log(r, r_ref)
            given = (angle, v[..., at], v_ref[..., at], vdot_ref[..., at])
            rate[..., at], ff[..., at] = _on_arrays(x.turning, *given)
        for x in self._moving:
            of, at, to = x.of, x.rates, x.linear
            e[..., to] = q_ref[..., of] - q[..., of]
            given = (v[..., to], v_ref[..., at], v_ref[..., to], vdot_ref[..., to])
            rate[..., to], ff[..., to] = _on_arrays(
                x.moving, q[..., x.turn], q_ref[..., x.turn], *given
            )
        return TrackingErrors(e, rate, ff)

    def accelerations(self, q: ArrayLike, v: ArrayLike, u: Array) -> Array:
        """Joint accelerations vdot (..., nv) of accelerations u in these coordinates."""
        v, out = np.asarray(v), self.efforts(q, u)
        for x in self._moving:
            (turned,) = _on_arrays(x.turned, v[..., x.rates], v[..., x.linear])
            out[..., x.linear] -= turned
        return out

    def efforts(self, q: ArrayLike, forces: Array) -> Array:
        """Joint efforts (..., nv) of forces in these coordinates, by equal power."""
        q, out = np.asarray(q), np.array(forces)
        for x in self._moving:
            (out[..., x.linear],) = _on_arrays(x.back, q[..., x.turn], forces[..., x.linear])
        return out

    def accelerations_graph(self, kp: Any, kd: Any, q: Any, v: Any, *reference: Any) -> Any:
        """Joint accelerations of the feedback, from traced arrays of one configuration."""
        q_ref, v_ref, vdot_ref = reference
        parts: list[tuple[int, Any]] = []
        for of, at in self._flat:
            pull = kp[at] * (q_ref[of] - q[of])
            parts.append((at.start, vdot_ref[at] + kd[at] * (v_ref[at] - v[at]) + pull))
        for x in self._curved:
            r, r_ref, at, to = list(q[x.turn]), list(q_ref[x.turn]), x.rates, x.linear
            angle = x.rotation.log_numbers(r, r_ref, GRAPHS)
            given = (list(v[at]), list(v_ref[at]), list(vdot_ref[at]))
            errors, ff = x.turning(angle, *given, GRAPHS)
            parts.append((at.start, _feedback(kp[at], kd[at], angle, errors, ff)))
            if x not in self._moving:
                continue
            given = (list(v[to]), list(v_ref[at]), list(v_ref[to]), list(vdot_ref[to]))
            errors, ff = x.moving(r, r_ref, *given, GRAPHS)
            gap = list(q_ref[x.of] - q[x.of])
            (push,) = x.back(r, list(_feedback(kp[to], kd[to], gap, errors, ff)), GRAPHS)
            (turned,) = x.turned(list(v[at]), list(v[to]), GRAPHS)
            parts.append((to.start, np.stack(push) - np.stack(turned)))
        return np.concatenate([part for _, part in sorted(parts, key=lambda pair: pair[0])])


def _feedback(kp: Any, kd: Any, e: Numbers, rate: Numbers, ff: Numbers) -> Any:
    return np.stack(ff) + kd * np.stack(rate) + kp * np.stack(e)


class _Place(NamedTuple):
    """A rotation and the translation after it: `turn`, `of` in q, `rates`, `linear` in v."""

    rotation: Rotation
    turn: slice
    of: slice
    rates: slice
    linear: slice

    @classmethod
    def of_group(cls, group: Group, rotation: Rotation, i: int, j: int) -> _Place:
        r, w = i + rotation.size, j + rotation.rates
        return cls(
            rotation, slice(i, r), slice(r, i + group.nq), slice(j, w), slice(w, j + group.nv)
        )

    def turning(
        self, angle: Numbers, w: Numbers, w_ref: Numbers, change: Numbers, ops: Any
    ) -> tuple[Numbers, Numbers]:
        """The rate of the rotation error, R_e ω_ref − ω, and the acceleration of the reference."""
        turn, back = self.rotation, [-x for x in angle]
        carried = turn.back_moment(back, w_ref, ops)
        error = _minus(carried, w)
        return error, add(turn.back_moment(back, change, ops), turn.bracket(error, carried))

    def moving(
        self, r: Numbers, r_ref: Numbers, u: Numbers, w_ref: Numbers, u_ref: Numbers,
        change: Numbers, ops: Any,
    ) -> tuple[Numbers, Numbers]:  # fmt: skip
        """The rate of the position error, and the acceleration of the reference."""
        turn = self.rotation
        rate = _minus(turn.apply(r_ref, u_ref, ops), turn.apply(r, u, ops))
        return rate, turn.apply(r_ref, add(change, turn.spin(w_ref, u_ref)), ops)

    def back(self, r: Numbers, f: Numbers, ops: Any) -> tuple[Numbers]:
        """R* f."""
        return (self.rotation.apply(self.rotation.inverse(r), f, ops),)

    def turned(self, w: Numbers, u: Numbers, ops: Any) -> tuple[Numbers]:
        """ω × v, because p̈ = R (v̇ + ω × v)."""
        return (self.rotation.spin(w, u),)


def _minus(x: Numbers, y: Numbers) -> list[Any]:
    return [a - b for a, b in zip(x, y, strict=True)]


def _on_arrays(formula: Callable[..., Any], *arrays: Array) -> list[Array]:
    """A formula of components on arrays, a result at a time."""
    parts = ([x[..., i] for i in range(x.shape[-1])] for x in arrays)
    found = formula(*parts, ARRAYS)
    return [np.stack(np.broadcast_arrays(*entries), axis=-1) for entries in found]


@final
class _Graphs:
    """What the formulas of groups need of numbers, for traced ones."""

    sin, cos, sqrt, arctan2 = np.sin, np.cos, np.sqrt, np.arctan2
    where = staticmethod(np.where)

    @staticmethod
    def rint(x: Any) -> Any:
        return np.floor(x + 0.5)

    @staticmethod
    def pick(s: Any, series: tuple[float, ...], closed: Callable[[Any, Any], Any]) -> Any:
        small = s < SERIES_BELOW
        near, far = np.where(small, s, 0.0), np.where(small, 1.0, s)
        return np.where(small, polynomial(series, near), closed(far, GRAPHS))


GRAPHS = _Graphs()
