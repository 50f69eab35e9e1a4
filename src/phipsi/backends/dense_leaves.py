"""Block formulas of the primitive operators and vectors, for one configuration, as full matrices.

Everything is in body axes, about the body's origin, angular part first. Nothing here conjugates, so
complex configurations give complex-step derivatives. The arrays may be of a class of their own with
exact arithmetic (`proofs`): what is made here is made by `Configuration.zeros`, `array` and `eye`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from phipsi.errors import InputError
from phipsi.model import Model
from phipsi.model.points import PointSet
from phipsi.model.scalars import NUMPY_OPS, ScalarOps
from phipsi.operators.inputs import DIRECTIONS
from phipsi.spatial import crm, crq, skew
from phipsi.spatial import phi as rigid

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
        self.kind = kind
        n = model.n_bodies
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
                f"depend on it through given={{...}}"
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
                f"which is no pose; a quaternion must not be zero"
            )
        self.rotation[k] = mount.rotation @ R
        self.offset[k] = mount.translation + mount.rotation @ p
        parent = model.parent[k]
        if parent < 0:
            self.world_rotation[k], self.position[k] = self.rotation[k], self.offset[k]
        else:
            outer = self.world_rotation[parent]
            self.world_rotation[k] = outer @ self.rotation[k]
            self.position[k] = self.position[parent] + outer @ self.offset[k]

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
        return NUMPY_OPS if self.kind is np.ndarray else self.kind.ops

    def eye(self, size: int) -> Array:
        """The identity matrix of the right number type."""
        return self.array(np.eye(size))

    def to_parents(self, block: Callable[[int], Array]) -> Array:
        """The body-space matrix with `block(k)` at (parent(k), k)."""
        n = self.model.n_bodies
        out = self.zeros(6 * n, 6 * n)
        for k, p in enumerate(self.model.parent):
            if p >= 0:
                out[6 * p : 6 * p + 6, 6 * k : 6 * k + 6] = block(k)
        return out

    def diagonal(self, block: Callable[[int], Array]) -> Array:
        """The body-space matrix with `block(k)` at (k, k)."""
        n = self.model.n_bodies
        out = self.zeros(6 * n, 6 * n)
        for k in range(n):
            out[6 * k : 6 * k + 6, 6 * k : 6 * k + 6] = block(k)
        return out

    def hinges(self, columns: Callable[[int], Any]) -> Array:
        """The matrix nv × 6n whose block (k, k) is the transpose of `columns(k)`, 6 × r."""
        out = self.zeros(self.model.nv, 6 * self.model.n_bodies)
        for k, s in enumerate(self.model.v_slices):
            axes = self.array(columns(k)).reshape(6, s.stop - s.start)
            out[s, 6 * k : 6 * k + 6] = axes.T
        return out

    def turn(self, k: int) -> Array:
        """U(k) = diag(R, R), body k → world axes."""
        return rigid(self.world_rotation[k], np.zeros(3))


# ---- operators ---------------------------------------------------------------------------------


def hinge_map(c: Configuration) -> Array:
    """H: the transposed joint axes of each body."""
    joints = c.model.joints
    return c.hinges(lambda k: joints[k].hinge_axes(joints[k].params, c.joint_q(k), c.ops))


def hinge_map_rate(c: Configuration) -> Array:
    """Ḣ: how the joint axes move in body axes."""
    joints, slices, v = c.model.joints, c.model.v_slices, c.argument("v")
    return c.hinges(
        lambda k: joints[k].hinge_axes_rate(
            joints[k].params, c.joint_q(k), c.scalars(v[slices[k]]), c.ops
        )
    )


def rigid_step(c: Configuration) -> Array:
    """E_φ: block (p, k) is [[R, l~ R], [0, R]]."""
    return c.to_parents(lambda k: rigid(c.rotation[k], c.offset[k]))


def shift(c: Configuration) -> Array:
    """The papers' S: block (p, k) is I in world axes, a rotation in body axes."""
    return c.to_parents(lambda k: rigid(c.rotation[k], np.zeros(3)))


def shift_weight(c: Configuration) -> Array:
    """Lam_φ, the memoryless factor of E_φ = S Lam_φ. S removes a root's block: here φ(world, k)."""

    def block(k: int) -> Array:
        return rigid(c.rotation[k], np.zeros(3)).T @ rigid(c.rotation[k], c.offset[k])

    return c.diagonal(block)


def rigid_propagation(c: Configuration) -> Array:
    """φ = (I − E_φ)⁻¹ by dense inversion."""
    step = rigid_step(c)
    return np.linalg.inv(c.eye(len(step)) - step)


def inertias(c: Configuration) -> Array:
    """M: the spatial inertia of each body."""
    return c.diagonal(lambda k: c.model.inertia_matrices[k])


def armature(c: Configuration) -> Array:
    """Jr: rotor inertias on the diagonal."""
    return np.diag(c.array(c.model.armature)).reshape(c.model.nv, c.model.nv)


def free_joints(c: Configuration) -> Array:
    """Return 1 on the diagonal for every joint whose effort is given."""
    return np.diag(c.array(c.argument("free")))


def held_joints(c: Configuration) -> Array:
    """Return 1 on the diagonal for every joint whose acceleration is given."""
    return c.eye(c.model.nv) - free_joints(c)


def picks(c: Configuration) -> Array:
    """B: block (k, i) carries a force at point i, in the axes of the points, to O(k)."""
    out = c.zeros(6 * c.model.n_bodies, 6 * len(c.points))
    for i, k in enumerate(c.points.body):
        if k < 0:
            continue
        R = c.world_rotation[k].T
        if c.points.axes == "world":
            block = rigid(R, c.points.offset[i])
        elif c.points.axes == "body":
            block = rigid(c.points.rotation[i], c.points.offset[i])
        else:
            block = rigid(R, -R @ c.position[k])
        out[6 * k : 6 * k + 6, 6 * i : 6 * i + 6] = block
    return out


def picks_rate(c: Configuration, V: Array) -> Array:
    """Ḃ: dB/dt in the axes B has; R* turns with −ω~ R*, the lever to the world origin moves too."""
    out = c.zeros(6 * c.model.n_bodies, 6 * len(c.points))
    for i, k in enumerate(c.points.body):
        if k < 0 or c.points.axes == "body":
            continue
        omega, velocity = V[6 * k : 6 * k + 3, 0], V[6 * k + 3 : 6 * k + 6, 0]
        R = c.world_rotation[k].T
        turning = -skew(omega) @ R
        if c.points.axes == "world":
            block = rigid(turning, c.points.offset[i])
        else:
            lever = -R @ c.position[k]
            block = rigid(turning, lever)
            block[:3, 3:] += skew(-velocity + np.cross(lever, omega)) @ R
        out[6 * k : 6 * k + 6, 6 * i : 6 * i + 6] = block
    return out


def total(c: Configuration, at: tuple[Any, ...]) -> Array:
    """Carry every body force to one point of the world, in world axes, and add them."""
    point = c.array(at or (0.0, 0.0, 0.0))
    blocks = [rigid(c.world_rotation[k], c.position[k] - point) for k in range(c.model.n_bodies)]
    return np.hstack([c.zeros(6, 0), *blocks])


# ---- vectors -----------------------------------------------------------------------------------


def gravity(c: Configuration) -> Array:
    """[0; −g] at the roots, in body axes."""
    out = c.zeros(6 * c.model.n_bodies, 1)
    for k, p in enumerate(c.model.parent):
        if p < 0:
            out[6 * k + 3 : 6 * k + 6, 0] = -c.rotation[k].T @ c.model.gravity
    return out


def angular(c: Configuration) -> Array:
    """The projection on the angular halves of body motions."""
    return c.array(np.diag(np.tile([1.0, 1.0, 1.0, 0.0, 0.0, 0.0], c.model.n_bodies)))


def gauge(V: Array) -> Array:
    """s(k) = [0; ω × v]."""
    parts = V.reshape(-1, 2, 3)
    out = np.zeros_like(parts)
    out[:, 1] = np.cross(parts[:, 0], parts[:, 1])
    return out.reshape(-1, 1)


def cross(c: Configuration, x: Array) -> Array:
    """The cross product with x(k) on body motions."""
    return c.diagonal(lambda k: crm(x[6 * k : 6 * k + 6, 0]))


def cross_force(c: Configuration, f: Array) -> Array:
    """x ↦ cross(x)* f on body motions."""
    return c.diagonal(lambda k: crq(f[6 * k : 6 * k + 6, 0]))


def inertia_of(c: Configuration, pi: Array) -> Array:
    """M(π), block diagonal."""

    def inertia(k: int) -> Array:
        m, cx, cy, cz, xx, yy, zz, xy, xz, yz = pi[10 * k : 10 * k + 10, 0]
        out, h = c.zeros(6, 6), skew(c.array([cx, cy, cz]))
        out[:3, :3] = c.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        out[:3, 3:], out[3:, :3] = h, -h
        out[3:, 3:] = m * np.eye(3)
        return out

    return c.diagonal(inertia)


def regress(c: Configuration, x: Array) -> Array:
    """M(π) x(k) as a matrix times π: one column for every inertial parameter set to one."""
    units = c.eye(10 * c.model.n_bodies)
    columns = [inertia_of(c, pi[:, None]) @ x for pi in units]
    return np.hstack([c.zeros(6 * c.model.n_bodies, 0), *columns])


def poses(c: Configuration) -> Array:
    """World poses as homogeneous matrices, flattened into one column."""
    out = c.zeros(c.model.n_bodies, 4, 4)
    out[:, :3, :3], out[:, :3, 3], out[:, 3, 3] = c.world_rotation, c.position, 1
    return out.reshape(-1, 1)


LEAVES: dict[str, Callable[[Configuration], Array]] = {
    "H": hinge_map,
    "Hdot": hinge_map_rate,
    "E_phi": rigid_step,
    "phi": rigid_propagation,
    "shift": shift,
    "Lam_phi": shift_weight,
    "M": inertias,
    "Jr": armature,
    "unprescribed": free_joints,
    "prescribed": held_joints,
    "B": picks,
    "angular": angular,
    "gravity": gravity,
    "pose": poses,
}
"""Leaves that depend on the configuration alone; the others are in `dense.py`."""

ARGUMENTS = ("v", "vdot", "tau", "f_ext", "f0", "Udot", "dinertia", *DIRECTIONS)
"""Leaves that are arguments."""
