"""Block formulas of bodies with modes as full matrices, from the polynomials of their inertia.

Nothing is shared with the sweeps (`sweeps/modal_bodies.py`): M(η) is that of `FlexibleInertia`, and
its derivatives are differences, which are exact for a polynomial of second degree.

    b = Ṁ x + [V ×* p; −½ x* ∂M/∂η_i x] + [0; K_e η + C_e η̇],     x = [V; η̇],  p = M x
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.backends.dense import drive_formulas
from phipsi.backends.dense.configuration import Configuration, along_modes
from phipsi.spatial import crm
from phipsi.spatial import phi as rigid

Array = NDArray[Any]


def inertia(c: Configuration, k: int, change: Array | None = None) -> Array:
    """M(k) at its modal coordinates, or at others beside them."""
    body = c.model.flexible[k]
    if body is None and c.model.more_rows[k]:
        return drive_formulas.inertia(c, k)
    if body is None:
        return c.model.inertia_matrices[k]
    eta = c.modes(k) if change is None else c.modes(k) + change
    return body.inertia_at(eta)


def slopes(c: Configuration, k: int) -> list[Array]:
    """∂M/∂η_i, or by the rates of a drive."""
    units = np.eye(c.model.more_rows[k])
    if c.model.flexible[k] is None:
        return [drive_formulas.inertia(c, k, [u]) for u in units]
    return [(inertia(c, k, u) - inertia(c, k, -u)) / 2 for u in units]


def gyroscopic(c: Configuration, V: Array) -> Array:
    """b, with elastic forces."""
    out = c.zeros(len(V), 1)
    for k, at in enumerate(c.rows):
        x, M = V[at, 0], inertia(c, k)
        force = c.zeros(len(x))
        momentum = M @ x
        force[:6] = -crm(x[:6]).T @ momentum[:6]
        body, rate = c.model.flexible[k], x[6:]
        for i, slope in enumerate(slopes(c, k)):
            force = force + slope @ x * rate[i]
            force[6 + i] -= x @ slope @ x / 2
        if body is not None:
            force[6:] += body.stiffness @ c.modes(k) + body.damping @ rate
        out[at, 0] = force
    return out


def step(c: Configuration, k: int) -> Array:
    """E_φ(parent, k) = [[X, 0], [Π* X_J, 0]]."""
    n, p = c.model.more_rows[k], c.model.parent[k]
    m = c.model.more_rows[p] if p >= 0 else 0
    if not n and not m:
        return rigid(c.rotation[k], c.offset[k])
    out = c.zeros(6 + m, 6 + n)
    out[:6, :6] = rigid(c.rotation[k], c.offset[k])
    if p >= 0 and c.model.modes[p]:
        out[6:, :6] = c.port_motion(k).T @ rigid(*c.from_port[k])
    return out


def bias(c: Configuration, V: Array, own: Array, change: Array) -> Array:
    """a, from the motion H* v of the joints and Ḣ* v."""
    out = c.zeros(len(V), 1)
    rates = c.argument("v")
    for k, at in enumerate(c.rows):
        six = slice(at.start, at.start + 6)
        moving, hinge, p = V[six, 0], own[six, 0], c.model.parent[k]
        found = crm(moving) @ hinge + change[six, 0]
        if p >= 0 and c.model.modes[p]:
            end = c.model.v_slices[p].stop
            eta_rate = rates[end - c.model.modes[p] : end]
            back = rigid(*c.from_port[k]).T
            w = back @ (c.port_motion(k) @ eta_rate)
            found = found + crm(moving - hinge) @ w + back @ _port_bias(c, k, eta_rate)
        out[six, 0] = found
    return out


def _port_bias(c: Configuration, k: int, rate: Array) -> Array:
    """Π̇ η̇: by differences of Π_v and Ψ_v, which are linear, and of the Cayley map."""
    hinge: Any = c.model.joints[k]
    port, eta = hinge.port, c.modes(c.model.parent[k])
    g, g_rate = port.turns @ eta / 2, port.turns @ rate / 2
    moving = c.port_motion(k) @ rate
    spin, slide = moving[:3], moving[3:]
    bend = c.port_turn(k).T @ (along_modes(port.shortening, rate) @ rate)
    scale = 1 + g @ g
    return np.concatenate([-2 * (g @ g_rate) / scale * spin, bend - np.cross(spin, slide)])


def elastic(c: Configuration, name: str) -> Array:
    """K_e ("stiffness"), C_e ("damping") or the identity on modes ("modal")."""
    out = c.zeros(c.model.nv, c.model.nv)
    for body, s in zip(c.model.flexible, c.model.v_slices, strict=True):
        if body is not None:
            at = slice(s.stop - body.modes, s.stop)
            out[at, at] = np.eye(body.modes) if name == "modal" else getattr(body, name)
    return out


def coordinates(c: Configuration) -> Array:
    """η, zero for joints."""
    out = c.zeros(c.model.nv, 1)
    for k, s in enumerate(c.model.v_slices):
        out[s.stop - c.model.modes[k] : s.stop, 0] = c.modes(k)
    return out
