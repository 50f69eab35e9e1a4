"""Block formulas of the primitive operators and vectors, and how they change, as full matrices.

Everything is in body axes, about the body's origin, angular part first. Nothing here conjugates, so
complex configurations give complex-step derivatives. The arrays may be of a class of their own with
exact arithmetic (`proofs`): new arrays come from `Configuration.zeros`, `array` and `eye`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.core.dense import modal_formulas as modal
from phipsi.core.dense.configuration import Configuration
from phipsi.core.dense.world_rows import rows_rate
from phipsi.core.model import hinge_axes_along, rates_of_rows
from phipsi.core.spatial import crm, crq, phi as rigid, skew

Array = NDArray[Any]


# ---- operators ---------------------------------------------------------------------------------


def hinge_map(c: Configuration) -> Array:
    """H: the transposed joint axes of each body."""
    joints = c.model.joints
    out = c.hinges(lambda k: joints[k].hinge_axes(joints[k].params, c.joint_q(k), c.ops))
    for joint, s, at in zip(joints, c.model.v_slices, c.rows, strict=True):
        for i, rate in enumerate(rates_of_rows(joint)):
            out[s.start + rate, at.start + 6 + i] = 1
    return out


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
    return c.to_parents(lambda k: modal.step(c, k))


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
    return c.diagonal(lambda k: modal.inertia(c, k))


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

    def block(i: int, k: int) -> Array:
        R = c.world_rotation[k].T
        axes = c.points.axes_of(i)
        if axes == "world":
            return rigid(R, c.points.offset[i])
        if axes == "body":
            return rigid(c.points.rotation[i], c.points.offset[i])
        return rigid(R, -R @ c.position[k])

    return c.at_points(block)


def picks_rate(c: Configuration, V: Array) -> Array:
    """Ḃ: dB/dt in the axes B has; R* turns with −ω~ R*, the lever to the world origin moves too."""

    def block(i: int, k: int) -> Array:
        omega, velocity = V[c.six(k), 0][:3], V[c.six(k), 0][3:]
        R = c.world_rotation[k].T
        turning = -skew(omega) @ R
        if c.points.axes_of(i) == "body":
            return c.zeros(6, 6)
        if c.points.axes == "world":
            return rigid(turning, c.points.offset[i])
        lever = -R @ c.position[k]
        out = rigid(turning, lever)
        out[:3, 3:] += skew(-velocity + np.cross(lever, omega)) @ R
        return out

    return c.at_points(block)


def total(c: Configuration, at: tuple[Any, ...]) -> Array:
    """Carry every body force to one point of the world, in world axes, and add them."""
    point = c.array(at or (0.0, 0.0, 0.0))
    out = c.zeros(6, c.size)
    for k in range(c.model.n_bodies):
        out[:, c.six(k)] = rigid(c.world_rotation[k], c.position[k] - point)
    return out


# ---- vectors -----------------------------------------------------------------------------------


def gravity(c: Configuration) -> Array:
    """[0; −g] at the roots, in body axes."""
    out = c.zeros(c.size, 1)
    for k, p in enumerate(c.model.parent):
        if p < 0:
            start = c.rows[k].start
            out[start + 3 : start + 6, 0] = -c.rotation[k].T @ c.model.gravity
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
    """M(π), block diagonal, zeros for modes."""

    def inertia(k: int) -> Array:
        m, cx, cy, cz, xx, yy, zz, xy, xz, yz = pi[10 * k : 10 * k + 10, 0]
        size = c.rows[k].stop - c.rows[k].start
        out, h = c.zeros(size, size), skew(c.array([cx, cy, cz]))
        out[:3, :3] = c.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        out[:3, 3:6], out[3:6, :3] = h, -h
        out[3:6, 3:6] = m * np.eye(3)
        return out

    return c.diagonal(inertia)


def regress(c: Configuration, x: Array) -> Array:
    """M(π) x(k) as a matrix times π: one column for every inertial parameter set to one."""
    units = c.eye(10 * c.model.n_bodies)
    columns = [inertia_of(c, pi[:, None]) @ x for pi in units]
    return np.hstack([c.zeros(len(x), 0), *columns])


def poses(c: Configuration) -> Array:
    """World poses as homogeneous matrices, flattened into one column."""
    out = c.zeros(c.model.n_bodies, 4, 4)
    out[:, :3, :3], out[:, :3, 3], out[:, 3, 3] = c.world_rotation, c.position, 1
    return out.reshape(-1, 1)


def frame_poses(c: Configuration) -> Array:
    """World poses of the points' frames, X_WB X_BF, flattened into one column."""
    bodies = [*poses(c).reshape(-1, 4, 4), c.eye(4)]  # the world is the last: index −1
    out = c.zeros(len(c.points), 4, 4)
    for i, k in enumerate(c.points.body):
        out[i, :3, :3], out[i, :3, 3], out[i, 3, 3] = c.points.rotation[i], c.points.offset[i], 1
        out[i] = bodies[k] @ out[i]
    return out.reshape(-1, 1)


def to_com(c: Configuration) -> Array:
    """φ(mass centre, world's origin) in world axes."""
    masses = [c.model.inertia_matrices[k, 3, 3] for k in range(c.model.n_bodies)]
    centre = c.zeros(3)
    for k, m in enumerate(masses):
        I = modal.inertia(c, k)
        moment = c.array(np.array([I[2, 4], I[0, 5], I[1, 3]]))
        centre = centre + m * c.position[k] + c.world_rotation[k] @ moment
    return rigid(c.eye(3), -centre / sum(masses))


def coordinates(c: Configuration) -> Array:
    """q of joints with q̇ = v, zeros at the others, which nothing reads."""
    parts = [
        c.argument("q")[c.model.q_slices[k]] if joint.is_additive else c.zeros(joint.nv, 1)[:, 0]
        for k, joint in enumerate(c.model.joints)
    ]
    return np.concatenate(parts).reshape(-1, 1) if parts else c.zeros(0, 1)


def moved(c: Configuration) -> Array:
    """Every joint after unit time at its rates, by the exponential of its group."""
    q, v, joints = c.argument("q"), c.argument("v"), c.model.joints
    pairs = zip(joints, c.model.q_slices, c.model.v_slices, strict=True)
    out = [joint.integrate(q[i], v[j]) for joint, i, j in pairs]
    return np.concatenate([*out, np.zeros(0)])[:, None]


# ---- how H, B and A change along directions ----------------------------------------------------


def hinge_variation(c: Configuration, *directions: Array) -> Array:
    """Ḣ{u; …}."""
    joints, slices = c.model.joints, c.model.v_slices

    def columns(k: int) -> Any:
        rates = [c.scalars(u[slices[k], 0]) for u in directions]
        return hinge_axes_along(joints[k], joints[k].params, c.joint_q(k), rates, c.ops)

    return c.hinges(columns)


def point_variation(c: Configuration, *motions: Array) -> Array:
    """Ḃ{V; …}: every motion turns what B turns into body axes, and moves the world's origin."""
    if len(motions) == 1:
        return picks_rate(c, motions[0])
    spatial = c.points.axes == "spatial"

    def block(i: int, k: int) -> Array:
        if c.points.axes_of(i) == "body":
            return c.zeros(6, 6)
        R = c.world_rotation[k].T
        out = rigid(R, -R @ c.position[k]) if spatial else rigid(R, c.zeros(3))
        for V in reversed(motions):
            local = V[c.six(k), 0]
            turn = -np.kron(np.eye(2), skew(local[:3]))
            out = (crm(local).T if spatial else turn) @ out
        return out if spatial else rigid(c.eye(3), c.points.offset[i]) @ out

    return c.at_points(block)


def row_variation(c: Configuration, *motions: Array) -> Array:
    """Ȧ{V; …} on the frames of closures."""
    return rows_rate(c, *(picks(c).T @ motion for motion in motions))


def half(c: Configuration, x: Array) -> Array:
    """The lower triangle with half the diagonal; hinge blocks are all there is."""
    return np.tril(x) - np.diag(np.diag(x)) / 2


def diag(c: Configuration, x: Array) -> Array:
    """A vector on the diagonal."""
    return np.diag(x[:, 0]) if len(x) else c.zeros(0, 0)


def diagonal(c: Configuration, x: Array) -> Array:
    """The diagonal as a vector."""
    return np.diag(x)[:, None] if len(x) else c.zeros(0, 1)


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
    "frame_pose": frame_poses,
    "coordinates": coordinates,
    "moved": moved,
    "to_com": to_com,
    "K_e": lambda c: modal.elastic(c, "stiffness"),
    "C_e": lambda c: modal.elastic(c, "damping"),
    "modal": lambda c: modal.elastic(c, "modal"),
    "eta": modal.coordinates,
    "modal_rows": modal.rows_of_modes,
}
"""Leaves that depend on the configuration alone; the others are in `evaluation.py`."""

OF_RIGID_BODIES = frozenset(("shift", "Lam_phi", "angular", "s_gauge"))
"""Leaves without a meaning for bodies with modes, or without a formula yet."""

VARIATIONS: dict[str, Callable[..., Array]] = {
    "Hdot": hinge_variation,
    "Bdot": point_variation,
    "Adot": row_variation,
    "Mdot": modal.inertia_variation,
    "ddM": modal.second_inertia_variation,
    "Edot": modal.step_variation,
}
"""Operators along directions."""

# name: what varies, and whether its adjoint is applied
COLUMNS: dict[str, tuple[Callable[..., Array], bool]] = {
    "dHT": (hinge_variation, True),
    "dH": (hinge_variation, False),
    "dBT": (point_variation, True),
    "dB": (point_variation, False),
    "dA": (row_variation, False),
    "dAT": (row_variation, True),
    "dM": (modal.inertia_variation, False),
    "dE": (modal.step_variation, False),
    "dET": (modal.step_variation, True),
}
"""u ↦ X{directions; u} x, linear in u and computed column by column."""

OF_ONE: dict[str, Callable[[Configuration, Array], Array]] = {
    "cross": cross,
    "cross_force": cross_force,
    "rigid_cross": modal.rigid_cross,
    "rigid_cross_force": modal.rigid_cross_force,
    "inertia_of": inertia_of,
    "regress": regress,
    "half": half,
    "diag": diag,
    "diagonal": diagonal,
}
"""Functions of one value."""

TRACES: dict[str, Callable[..., Array]] = {
    "vee": cross,
    "vee_force": cross_force,
    "inertia_trace": inertia_of,
    "dH_trace": hinge_variation,
    "rigid_vee": modal.rigid_cross,
    "rigid_vee_force": modal.rigid_cross_force,
    "dM_trace": modal.inertia_variation,
    "dE_trace": modal.step_variation,
}
"""w with w* u = tr(X{directions; u} Y) for every u, by the unit vectors u."""
