"""Configuration: one mechanism at one q (and v, …), as the dense formulas see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from phipsi.core.backends import body_slices
from phipsi.core.expressions import ONE
from phipsi.core.model import (
    CompoundBody,
    Model,
    PointSet,
    Port,
    ScalarOps,
    compound_port_of,
)
from phipsi.core.operators import ConstantBlocks
from phipsi.core.spatial import ARRAYS, phi as rigid, skew
from phipsi.errors import InputError

Array = NDArray[Any]


class Configuration:
    """The mechanism at one q (and v, …): relative poses, world poses, and the named arguments."""

    def __init__(
        self,
        model: Model,
        points: PointSet,
        arguments: dict[str, Array],
        dtype: np.dtype[Any],
        kind: Any = np.ndarray,
    ) -> None:
        self.model, self.points, self.arguments, self.dtype = model, points, arguments, dtype
        self.kind: Any = kind
        n = model.n_bodies
        self.rows = body_slices(model)
        self.size = self.rows[-1].stop if self.rows else 0  # of body motions and forces
        self.from_port: list[tuple[Array, Array]] = []  # body k in the frame that its joint is on
        self.rotation = self.zeros(n, 3, 3)  # R(k): body k → its parent's axes
        self.offset = self.zeros(n, 3)  # l(p, k) in the parent's axes
        self.world_rotation = self.zeros(n, 3, 3)
        self.position = self.zeros(n, 3)  # of O(k), world axes
        for k in range(n):
            self._place(k)

    def argument(self, name: str) -> Array:
        """The value of q, v, vdot, tau, f_ext, f0 or free; an error if it is missing."""
        if name not in self.arguments:
            raise InputError(
                f"this expression needs {name}: pass {name}=..., or give the quantities that "
                f"depend on it through inputs={{...}}"
            )
        return self.arguments[name]

    def joint_q(self, k: int) -> list[Any]:
        """The coordinates of joint k."""
        return self.scalars(self.argument("q")[self.model.q_slices[k]])

    def _place(self, k: int) -> None:
        model, joint, mount = self.model, self.model.joints[k], self.model.placements[k]
        q = self.joint_q(k)
        with np.errstate(all="ignore"):
            rotation, offset = joint.transform(joint.params, q, self.ops)
        R, p = self.array(rotation), self.array(offset)
        if not (np.isfinite(R).all() and np.isfinite(p).all()):
            raise InputError(
                f"q of joint {model.joint_names[k]!r} ({joint.kind}) is {np.array(q).tolist()}, "
                f"which is no pose: a quaternion must not be zero"
            )
        self.rotation[k] = mount.rotation @ R
        self.offset[k] = mount.translation + mount.rotation @ p
        parent = model.parent[k]
        self.from_port.append((self.rotation[k].copy(), self.offset[k].copy()))
        compound = compound_port_of(joint)
        if compound is not None:
            F = compound.dense_motion(self, k)
            turn, arm = F[:3, :3], F[:3, 3:] @ F[:3, :3].T
            origin = self.array([arm[2, 1], arm[0, 2], arm[1, 0]])
            self.offset[k] = origin + turn @ self.offset[k]
            self.rotation[k] = turn @ self.rotation[k]
        elif parent >= 0 and model.modes[parent]:
            port, eta = self._port(k), self.modes(parent)
            turn = self.port_turn(k)
            bent = along_modes(port.second_order, eta) @ eta / 2
            origin = port.position + port.translation_modes @ eta + bent
            self.offset[k] = origin + turn @ self.offset[k]
            self.rotation[k] = turn @ self.rotation[k]
        if parent < 0:
            self.world_rotation[k], self.position[k] = self.rotation[k], self.offset[k]
        else:
            outer = self.world_rotation[parent]
            self.world_rotation[k] = outer @ self.rotation[k]
            self.position[k] = self.position[parent] + outer @ self.offset[k]

    def modes(self, k: int) -> Array:
        """The modal coordinates of body k."""
        end = self.model.q_slices[k].stop
        body = self.model.flexible[k]
        count = body.places if isinstance(body, CompoundBody) else self.model.modes[k]
        return self.argument("q")[end - count : end]

    def _port(self, k: int) -> Port:
        hinge: Any = self.model.joints[k]
        return hinge.port

    def port_turn(self, k: int) -> Array:
        """Axes of the port that body k is on, in those of its parent: (I − g~)⁻¹ (I + g~) R_0."""
        port = self._port(k)
        g = skew(port.rotation_modes @ self.modes(self.model.parent[k]) / 2)
        return np.linalg.solve(np.eye(3) - g, np.eye(3) + g) @ port.rotation

    def port_motion(self, k: int) -> Array:
        """Π: motion of the port of body k in its own axes for unit rates of the parent's modes.

        ω~ = Ṙ R* with Ṙ = (I − g~)⁻¹ ġ~ (I + R).
        """
        compound = compound_port_of(self.model.joints[k])
        if compound is not None:
            return compound.dense_motion(self, k)[6:].T
        port, eta = self._port(k), self.modes(self.model.parent[k])
        turn = self.port_turn(k)
        R, less = turn @ port.rotation.T, np.eye(3) - skew(port.rotation_modes @ eta / 2)
        out = self.zeros(6, len(eta))
        for i in range(len(eta)):
            rate = (
                np.linalg.solve(less, skew(port.rotation_modes[:, i] / 2) @ (np.eye(3) + R)) @ R.T
            )
            out[:3, i] = turn.T @ self.array([rate[2, 1], rate[0, 2], rate[1, 0]])
        out[3:] = turn.T @ (port.translation_modes + along_modes(port.second_order, eta))
        return out

    def put_at(self, poses: Array) -> None:
        """Use these poses (n, 4, 4) in the world, where the joints would give others."""
        self.world_rotation, self.position = poses[:, :3, :3], poses[:, :3, 3]

    # ---- helpers for block matrices -------------------------------------------------------------

    def zeros(self, *shape: int) -> Array:
        """Zeros of the right number type."""
        return np.zeros(shape, self.dtype).view(self.kind)

    def array(self, values: Any) -> Array:
        """Numbers, such as nested lists of scalars, as an array of the right type."""
        out = np.array(values, self.dtype)
        return out if self.kind is np.ndarray else self.kind.of(out)

    def scalars(self, values: Array) -> list[Any]:
        """Numbers one by one, for the formulas of the joints."""
        return list(values) if self.kind is np.ndarray else cast(Any, values).scalars()

    @property
    def ops(self) -> ScalarOps:
        """Sine, cosine and square root of these scalars."""
        return ARRAYS if self.kind is np.ndarray else self.kind.ops

    def eye(self, size: int) -> Array:
        """The identity matrix of the right number type."""
        return self.array(np.eye(size))

    def to_parents(self, block: Callable[[int], Array]) -> Array:
        """The body-space matrix with `block(k)` at (parent(k), k)."""
        out = self.zeros(self.size, self.size)
        for k, p in enumerate(self.model.parent):
            if p >= 0:
                out[self.rows[p], self.rows[k]] = block(k)
        return out

    def diagonal(self, block: Callable[[int], Array]) -> Array:
        """The body-space matrix with `block(k)` at (k, k)."""
        out = self.zeros(self.size, self.size)
        for k, at in enumerate(self.rows):
            out[at, at] = block(k)
        return out

    def hinges(self, columns: Callable[[int], Any]) -> Array:
        """The matrix nv × 6n whose block (k, k) is the transpose of `columns(k)`, 6 × r."""
        out = self.zeros(self.model.nv, self.size)
        for k, s in enumerate(self.model.v_slices):
            axes = self.array(columns(k)).reshape(6, s.stop - s.start)
            out[s, self.six(k)] = axes.T
        return out

    def at_points(self, block: Callable[[int, int], Array]) -> Array:
        """The matrix 6n × 6nC with `block(i, k)` for point i on body k; the world has no rows."""
        out = self.zeros(self.size, 6 * len(self.points))
        for i, k in enumerate(self.points.body):
            if k >= 0:
                out[self.six(k), 6 * i : 6 * i + 6] = block(i, k)
        return out

    def six(self, k: int) -> slice:
        """The rigid rows of body k."""
        return slice(self.rows[k].start, self.rows[k].start + 6)

    def table(self, table: ConstantBlocks) -> Array:
        """The matrix of a custom operator or vector from its constant blocks."""
        model, (rows, cols) = self.model, (table.gives, table.takes)
        if rows is ONE:
            return self.array(table.at(model, 0))
        if table.of_points:
            count = len(self.points)
            out = self.zeros(6 * count, 1 if cols is ONE else 6 * count)
            for i in range(count):
                at = slice(6 * i, 6 * i + 6)
                out[at, slice(0, 1) if cols is ONE else at] = table.at_point(model, i, count)
            return out
        whole = [
            1 if s is ONE else model.nv if s.width is None else s.width * model.n_bodies
            for s in (rows, cols)
        ]
        out = self.zeros(*whole)
        for k, hinge in enumerate(model.v_slices):
            row, col = (
                slice(0, 1) if s is ONE
                else hinge if s.width is None
                else slice(s.width * k, s.width * (k + 1))
                for s in (rows, cols)
            )  # fmt: skip
            out[row, col] = table.at(model, k)
        return out

    def turn(self, k: int) -> Array:
        """U(k) = diag(R, R), body k → world axes; modes have none."""
        turn = rigid(self.world_rotation[k], np.zeros(3))
        if not self.model.more_rows[k]:
            return turn
        out = self.eye(6 + self.model.more_rows[k])
        out[:6, :6] = turn
        return out


def along_modes(x: Array, eta: Array) -> Array:
    """Σ_j x[..., j] η_j, for any kind of numbers."""
    out = x[..., 0] * eta[0]
    for j in range(1, len(eta)):
        out = out + x[..., j] * eta[j]
    return out
