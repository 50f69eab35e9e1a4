"""Flexible bodies with exact numbers, for proofs: their invariants and ports.

Every number of a flexible body is one that M(η) and the poses of ports are rational in; a rotation
of a port by modes is that of the quaternion (1, g). So a body is drawn as it is checked: J_0, J_1
and J_2 symmetric, S_2, J_2 and Ψ_v symmetric in their modes, M_e, K_e and C_e symmetric. In numbers
that have a size (long decimals) second-order fields are left out and the rest is that of points
with mass, so that M(η) ≥ 0 for all η and roots may be taken of what follows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from phipsi.backends.dense.configuration import along_modes as along
from phipsi.model.flexible_hinge import packed_inertia, packed_port
from phipsi.model.flexible_inertia import FlexibleInertia
from phipsi.model.flexible_ports import Port
from phipsi.spatial import skew

Array = Any  # exact arrays

_FIELDS = (
    "mass", "first_moment", "rotational_inertia", "S1", "S2", "J1", "J2", "C0", "C1", "modal_mass",
    "stiffness", "damping",
)  # fmt: skip


class ExactPort(NamedTuple):
    """A port with exact numbers, as `Port` has them."""

    rotation: Array
    position: Array
    turns: Array
    moves: Array
    shortening: Array

    @property
    def numbers(self) -> list[Any]:
        """All numbers in the order of `packed_port`."""
        return packed_port(self, _scalars)


class ExactBody:
    """A flexible body with exact numbers, as `FlexibleInertia` has them; `ports` by name."""

    def __init__(self, values: Mapping[str, Array], ports: Mapping[str, ExactPort]) -> None:
        self.mass, self.first_moment, self.rotational_inertia = (values[x] for x in _FIELDS[:3])
        self.S1, self.S2, self.J1, self.J2 = (values[x] for x in _FIELDS[3:7])
        self.C0, self.C1, self.modal_mass = (values[x] for x in _FIELDS[7:10])
        self.stiffness, self.damping = (values[x] for x in _FIELDS[10:])
        self.ports, self.modes = ports, len(self.modal_mass)

    @property
    def numbers(self) -> list[Any]:
        """All numbers in the order of `packed_inertia`."""
        return packed_inertia(self, _scalars)

    def inertia_at(self, eta: Array) -> Array:
        """M(η)."""
        n, half = self.modes, eta / 2
        S, C = self.S1 + along(self.S2, eta), self.C0 + along(self.C1, eta)
        s = self.first_moment + along(self.S1 + S, half)
        J = self.rotational_inertia + along(2 * self.J1 + along(self.J2, eta), half)
        out = np.zeros_like(J + s[0], shape=(6 + n, 6 + n))
        out[:3, :3], out[:3, 3:6], out[3:6, :3] = J, skew(s), -skew(s)
        out[3:6, 3:6] = self.mass * np.eye(3)
        out[:3, 6:], out[3:6, 6:], out[6:, 6:] = C, S, self.modal_mass
        out[6:, :3], out[6:, 3:6] = C.T, S.T
        return out


def _scalars(values: Any) -> list[Any]:
    return values.scalars()


def own_body(numbers: Any, body: FlexibleInertia) -> ExactBody:
    """A body with the numbers of a model."""
    values = {name: numbers.any(getattr(body, name)) for name in _FIELDS}
    return ExactBody(values, {port.name: own_port(numbers, port) for port in body.ports})


def own_port(numbers: Any, port: Port) -> ExactPort:
    """A port with the numbers of a model."""
    parts = (port.position, port.turns, port.moves, port.shortening)
    return ExactPort(numbers.rotation(port.rotation), *map(numbers.any, parts))


def random_body(numbers: Any, body: FlexibleInertia, *, sized: bool) -> ExactBody:
    """A body with as many modes and ports as another, and random numbers; `sized`: M(η) ≥ 0."""
    n = body.modes
    values = _of_points(numbers, n) if sized else _any_numbers(numbers, n)
    for name in ("stiffness", "damping"):
        values[name] = numbers.symmetric(np.zeros((n, n)))
    ports = {port.name: _random_port(numbers, n, sized) for port in body.ports}
    return ExactBody(values, ports)


def _random_port(numbers: Any, n: int, sized: bool) -> ExactPort:
    turns, moves, bend = (numbers.any(np.zeros((3, *shape))) for shape in ((n,), (n,), (n, n)))
    shortening = 0 * bend if sized else bend + bend.swapaxes(-1, -2)
    return ExactPort(numbers.rotation(None), numbers.any(np.zeros(3)), turns, moves, shortening)


def _any_numbers(numbers: Any, n: int) -> dict[str, Array]:
    def some(*shape: int) -> Array:
        return numbers.any(np.zeros(shape))

    J1, J2, S2 = some(3, 3, n), some(3, 3, n, n), some(3, n, n)
    J1, J2 = (x + x.swapaxes(0, 1) for x in (J1, J2))
    return {
        "mass": some(), "first_moment": some(3), "S1": some(3, n), "C0": some(3, n),
        "C1": some(3, n, n), "S2": S2 + S2.swapaxes(-1, -2), "J1": J1,
        "J2": J2 + J2.swapaxes(-1, -2), "modal_mass": numbers.symmetric(np.zeros((n, n))),
        "rotational_inertia": numbers.symmetric(np.zeros((3, 3))),
    }  # fmt: skip


def _of_points(numbers: Any, n: int) -> dict[str, Array]:
    """The invariants of n + 3 points with mass."""
    total: dict[str, Array] = {}
    for _ in range(n + 3):
        root, r, shape = (numbers.any(np.zeros(size)) for size in ((), (3,), (3, n)))
        m, R = root * root, skew(r)
        F = [skew(shape[:, i]) for i in range(n)]
        J1 = [-(R @ f + f @ R) for f in F]
        J2 = [[-(f @ g + g @ f) for g in F] for f in F]
        C0 = [R @ shape[:, i] for i in range(n)]
        C1 = [[F[j] @ shape[:, i] for j in range(n)] for i in range(n)]
        parts = {
            "mass": 1 + 0 * m, "first_moment": r, "rotational_inertia": -(R @ R), "S1": shape,
            "J1": np.moveaxis(np.stack(J1), 0, -1),
            "J2": np.moveaxis(np.stack([np.stack(x) for x in J2]), (0, 1), (-2, -1)),
            "C0": np.moveaxis(np.stack(C0), 0, -1),
            "C1": np.moveaxis(np.stack([np.stack(x) for x in C1]), (0, 1), (-2, -1)),
            "modal_mass": shape.T @ shape,
        }  # fmt: skip
        for name, x in parts.items():
            total[name] = m * x if name not in total else total[name] + m * x
    total["S2"] = 0 * total["C1"]
    return total
