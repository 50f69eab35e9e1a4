"""How bodies with modes change along modes, as full matrices, for `pp.dense`.

Nothing is shared with the sweeps: M(η) is differentiated by differences, which are exact for a
polynomial of second degree, and a port by Leibniz' rule from (I − g~) R = I + g~. Directions are
body motions, whose modal rows are rates of modes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.backends.dense import drive_formulas
from phipsi.backends.dense.configuration import Configuration, along_modes
from phipsi.backends.dense.modal_formulas import inertia
from phipsi.spatial import crm, crq, skew
from phipsi.spatial import phi as rigid

Array = NDArray[Any]
Names = tuple[int, ...]


def inertia_variation(c: Configuration, *directions: Array) -> Array:
    """Ṁ{s; …}: how M changes along the modal rows of motions."""
    return c.diagonal(lambda k: _inertia_along(c, k, _modal_rows(c, k, directions)))


def _modal_rows(c: Configuration, k: int, directions: tuple[Array, ...]) -> list[Array]:
    at = c.rows[k]
    return [x[at.start + 6 : at.stop, 0] for x in directions]


def _inertia_along(c: Configuration, k: int, along: list[Array]) -> Array:
    size = 6 + c.model.more_rows[k]
    if c.model.more_rows[k] and c.model.flexible[k] is None:
        return drive_formulas.inertia(c, k, along)
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
            moved = _MovedPort(c, k, _modal_rows(c, p, directions)).whole()
            out[:, :6] = moved @ rigid(*c.from_port[k])
        return out

    return c.to_parents(block)


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
        self._less = c.eye(3) - skew(self.port.turns @ self.eta / 2)

    def turn(self, names: Names) -> Array:
        """R along a set of directions: (I − g~) R_S = Σ g_d~ R_(S without d), and g_d~ of one."""
        if names not in self._turns:
            right = self.c.zeros(3, 3)
            if not names:
                right = self.c.eye(3) + skew(self.port.turns @ self.eta / 2)
            for i, d in enumerate(names):
                g = skew(self.port.turns @ self.rates[d] / 2)
                right = right + g @ self.turn(names[:i] + names[i + 1 :])
                right = right + g if len(names) == 1 else right
            self._turns[names] = np.linalg.inv(self._less) @ right
        return self._turns[names]

    def place(self, names: Names) -> Array:
        """The position of the port along a set of directions."""
        port, along = self.port, [self.rates[d] for d in names]
        if not names:
            eta = self.eta
            return port.position + port.moves @ eta + along_modes(port.shortening, eta) @ eta / 2
        if len(names) == 1:
            return (port.moves + along_modes(port.shortening, self.eta)) @ along[0]
        if len(names) == 2:
            return along_modes(port.shortening, along[0]) @ along[1]
        return self.c.zeros(3)

    def whole(self) -> Array:
        """[X_c; Π*] along all directions that are not modes."""
        R0, out = self.port.rotation, self.c.zeros(6 + self.modes, 6)
        turn = self.turn(self.every) @ R0
        out[:3, :3] = out[3:6, 3:] = turn
        for one, other in _parts(self.every):
            out[:3, 3:] += skew(self.place(one)) @ self.turn(other) @ R0
            for i in range(self.modes):
                spin = R0.T @ self.turn(one).T @ self.turn(tuple(sorted((i, *other)))) @ R0
                out[6 + i, :3] += self.c.array([spin[2, 1], spin[0, 2], spin[1, 0]])
                out[6 + i, 3:] += R0.T @ self.turn(one).T @ self.place((i, *other))
        return out


def _parts(names: Names) -> Iterator[tuple[Names, Names]]:
    """All ways to divide a set in two."""
    for count in range(len(names) + 1):
        for one in combinations(names, count):
            yield one, tuple(x for x in names if x not in one)


# ---- cross products of the rigid rows ------------------------------------------------------------


def rigid_cross(c: Configuration, x: Array) -> Array:
    """The cross product with x(k) on the rigid rows of body motions."""
    return _on_rigid_rows(c, lambda k: crm(x[c.six(k), 0]))


def rigid_cross_force(c: Configuration, f: Array) -> Array:
    """x ↦ rigid_cross(x)* f on body motions."""
    return _on_rigid_rows(c, lambda k: crq(f[c.six(k), 0]))


def _on_rigid_rows(c: Configuration, make: Any) -> Array:
    def block(k: int) -> Array:
        out = c.zeros(6 + c.model.more_rows[k], 6 + c.model.more_rows[k])
        out[:6, :6] = make(k)
        return out

    return c.diagonal(block)


def rows_of_modes(c: Configuration) -> Array:
    """Efforts of modes as the modal rows of body forces."""
    out = c.zeros(c.rows[-1].stop if c.rows else 0, c.model.nv)
    for n, s, at in zip(c.model.modes, c.model.v_slices, c.rows, strict=True):
        out[at.stop - n : at.stop, s.stop - n : s.stop] = c.eye(n)
    return out
