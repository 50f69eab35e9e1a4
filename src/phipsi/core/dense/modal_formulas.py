"""Blocks of bodies with more than six rows, modes or rates, as matrices for `evaluate_dense`.

Nothing is shared with the sweeps (`sweeps/modal_bodies.py`, `sweeps/modal_operations.py`,
which use dual numbers). M(η) is that of `FlexibleInertia`, and its
derivatives are differences, which are exact for a polynomial of second degree.

    b = Ṁ x + [V ×* p; −½ x* ∂M/∂η_i x] + [0; K_e η + C_e η̇],     x = [V; η̇],  p = M x

A port is differentiated by Leibniz' rule from (I − g~) R = I + g~. Directions are body motions,
whose modal rows are rates of modes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from phipsi.core.dense.configuration import Configuration, along_modes
from phipsi.core.model import CompoundBody, compound_of, compound_port_of, rate_rows_of
from phipsi.core.spatial import crm, crq, phi as rigid, skew

Array = NDArray[Any]
Names = tuple[int, ...]
T = TypeVar("T")


def inertia(c: Configuration, k: int, change: Array | None = None) -> Array:
    """M(k) at its modal coordinates, or at others beside them."""
    body: Any = c.model.flexible[k]
    if has_own_formulas(c, k):
        return own_formulas(c, k).dense_inertia(c, k)
    if body is None:
        return c.model.inertia_matrices[k]
    eta = c.modes(k) if change is None else c.modes(k) + change
    return body.inertia_at(eta)


def has_own_formulas(c: Configuration, k: int) -> bool:
    """Whether the rows of a body beyond six have formulas of their own: rates, or loops."""
    return bool(c.model.more_rows[k]) and own_formulas(c, k) is not None


def own_formulas(c: Configuration, k: int) -> Any:
    """The object that has them, or None."""
    joint = c.model.joints[k]
    return rate_rows_of(joint) or compound_of(joint)


def slopes(c: Configuration, k: int) -> list[Array]:
    """∂M/∂η_i, or by the rates that have rows."""
    units = np.eye(c.model.more_rows[k])
    if has_own_formulas(c, k):
        return [own_formulas(c, k).dense_inertia(c, k, [u]) for u in units]
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
        if body is not None and not isinstance(body, CompoundBody):
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
    compound = compound_port_of(hinge)
    if compound is not None:
        return compound.dense_bias(c, k, rate)
    port, eta = hinge.port, c.modes(c.model.parent[k])
    g, g_rate = port.rotation_modes @ eta / 2, port.rotation_modes @ rate / 2
    moving = c.port_motion(k) @ rate
    spin, slide = moving[:3], moving[3:]
    bend = c.port_turn(k).T @ (along_modes(port.second_order, rate) @ rate)
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
        if not isinstance(c.model.flexible[k], CompoundBody):
            out[s.stop - c.model.modes[k] : s.stop, 0] = c.modes(k)
    return out


# ---- how they change along modes -----------------------------------------------------------------


def inertia_variation(c: Configuration, *directions: Array) -> Array:
    """Ṁ{s; …}: how M changes along the modal rows of motions."""
    return c.diagonal(lambda k: _inertia_along(c, k, _modal_rows(c, k, directions)))


def _modal_rows(c: Configuration, k: int, directions: tuple[Array, ...]) -> list[Array]:
    at = c.rows[k]
    return [x[at.start + 6 : at.stop, 0] for x in directions]


def _inertia_along(c: Configuration, k: int, along: list[Array]) -> Array:
    size = 6 + c.model.more_rows[k]
    if has_own_formulas(c, k):
        return own_formulas(c, k).dense_inertia(c, k, along)
    if not c.model.modes[k] or len(along) > 2:
        return c.zeros(size, size)
    if len(along) == 1:
        return (inertia(c, k, along[0]) - inertia(c, k, -along[0])) / 2
    x, y = along
    single = inertia(c, k, x) + inertia(c, k, y)
    return inertia(c, k, x + y) - single + inertia(c, k, c.zeros(len(x)))


def second_inertia_variation(c: Configuration, y: Array, z: Array, *directions: Array) -> Array:
    """ddM{y; z; …}: z* Ṁ{s; w; …} y by s and w."""

    def block(k: int) -> Array:
        n, at = c.model.more_rows[k], c.rows[k]
        given = _modal_rows(c, k, directions)
        out, units = c.zeros(6 + n, 6 + n), c.eye(n)
        for i in range(n):
            for j in range(n):
                bent = _inertia_along(c, k, [units[i], units[j], *given])
                out[6 + i, 6 + j] = z[at, 0] @ (bent @ y[at, 0])
        return out

    return c.diagonal(block)


def step_variation(c: Configuration, *directions: Array) -> Array:
    """Ė{s; …}: how E_φ changes along the modes of the parents."""

    def block(k: int) -> Array:
        p = c.model.parent[k]
        out = c.zeros(6 + c.model.more_rows[p], 6 + c.model.more_rows[k])
        if c.model.modes[p]:
            moved = _moved_port(c, k, _modal_rows(c, p, directions))
            out[:, :6] = moved @ rigid(*c.from_port[k])
        return out

    return c.to_parents(block)


def _moved_port(c: Configuration, k: int, along: list[Array]) -> Array:
    """[X_c; Π*] of the port of body k along rates."""
    compound = compound_port_of(c.model.joints[k])
    return (
        _MovedPort(c, k, along).whole() if compound is None else compound.dense_motion(c, k, along)
    )


class _MovedPort:
    """Derivatives of a port along sets of directions, numbered: first the modes, then others."""

    def __init__(self, c: Configuration, k: int, along: list[Array]) -> None:
        self.c, hinge = c, c.model.joints[k]
        self.port: Any = getattr(hinge, "port")  # noqa: B009  (hinges without modes have none)
        self.eta = c.modes(c.model.parent[k])
        self.modes = len(self.eta)
        self.rates = [*c.eye(self.modes), *along]
        self.every: Names = tuple(range(self.modes, len(self.rates)))
        self._turns: dict[Names, Array] = {}
        self._less = c.eye(3) - skew(self.port.rotation_modes @ self.eta / 2)

    def turn(self, names: Names) -> Array:
        """R along a set of directions: (I − g~) R_S = Σ g_d~ R_(S without d), and g_d~ of one."""
        if names not in self._turns:
            right = self.c.zeros(3, 3)
            if not names:
                right = self.c.eye(3) + skew(self.port.rotation_modes @ self.eta / 2)
            for i, d in enumerate(names):
                g = skew(self.port.rotation_modes @ self.rates[d] / 2)
                right = right + g @ self.turn(names[:i] + names[i + 1 :])
                right = right + g if len(names) == 1 else right
            self._turns[names] = np.linalg.inv(self._less) @ right
        return self._turns[names]

    def place(self, names: Names) -> Array:
        """The position of the port along a set of directions."""
        port, along = self.port, [self.rates[d] for d in names]
        if not names:
            eta = self.eta
            return (
                port.position
                + port.translation_modes @ eta
                + along_modes(port.second_order, eta) @ eta / 2
            )
        if len(names) == 1:
            return (port.translation_modes + along_modes(port.second_order, self.eta)) @ along[0]
        if len(names) == 2:
            return along_modes(port.second_order, along[0]) @ along[1]
        return self.c.zeros(3)

    def whole(self) -> Array:
        """[X_c; Π*] along all directions that are not modes."""
        R0, out = self.port.rotation, self.c.zeros(6 + self.modes, 6)
        turn = self.turn(self.every) @ R0
        out[:3, :3] = out[3:6, 3:] = turn
        for one, other in ways_to_divide(self.every):
            out[:3, 3:] += skew(self.place(one)) @ self.turn(other) @ R0
            for i in range(self.modes):
                spin = R0.T @ self.turn(one).T @ self.turn(tuple(sorted((i, *other)))) @ R0
                out[6 + i, :3] += self.c.array([spin[2, 1], spin[0, 2], spin[1, 0]])
                out[6 + i, 3:] += R0.T @ self.turn(one).T @ self.place((i, *other))
        return out


def ways_to_divide(every: tuple[T, ...]) -> Iterator[tuple[tuple[T, ...], tuple[T, ...]]]:
    """All ways to divide some in two, in their order."""
    places = range(len(every))
    for count in range(len(every) + 1):
        for one in combinations(places, count):
            some = tuple(every[i] for i in one)
            yield some, tuple(every[i] for i in places if i not in one)


# ---- cross products of the rigid rows ------------------------------------------------------------


def rigid_cross(c: Configuration, x: Array) -> Array:
    """The cross product with x(k) on the rigid rows of body motions."""
    return _on_rigid_rows(c, lambda k: crm(x[c.six(k), 0]))


def rigid_cross_force(c: Configuration, f: Array) -> Array:
    """x ↦ rigid_cross(x)* f on body motions."""
    return _on_rigid_rows(c, lambda k: crq(f[c.six(k), 0]))


def _on_rigid_rows(c: Configuration, make: Callable[[int], Array]) -> Array:
    def block(k: int) -> Array:
        out = c.zeros(6 + c.model.more_rows[k], 6 + c.model.more_rows[k])
        out[:6, :6] = make(k)
        return out

    return c.diagonal(block)


def rows_of_modes(c: Configuration) -> Array:
    """Efforts of modes as the modal rows of body forces."""
    out = c.zeros(c.size, c.model.nv)
    for n, s, at in zip(c.model.modes, c.model.v_slices, c.rows, strict=True):
        out[at.stop - n : at.stop, s.stop - n : s.stop] = c.eye(n)
    return out
