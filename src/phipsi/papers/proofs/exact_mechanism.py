"""A mechanism with exact numbers: those of a model, taken as rational numbers, or random ones.

A model's rotations and axes are unit only up to rounding. Here they are rational numbers within
rounding (1e-15) of the model's that are exactly unit: a rotation is that of its quaternion, which
may have any length, an axis a rational point of the sphere. All other numbers are the model's own,
bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from phipsi.core.dense import along_modes as along
from phipsi.core.model import (
    CompoundBody,
    FlexibleHinge,
    FlexibleInertia,
    Joint,
    Model,
    PointSet,
    Port,
    packed_inertia,
    packed_port,
    rate_rows_of,
    rotation_of_quaternion,
)
from phipsi.core.spatial import matrix_to_quat, skew
from phipsi.errors import InputError
from phipsi.papers.proofs.digits import Digits
from phipsi.user_operators import Table

Array = Any  # exact arrays; their class is `kind`
Draw = Callable[..., Array]


class Placement(NamedTuple):
    """Where a joint sits on its parent."""

    rotation: Array
    translation: Array


class ExactInertia(NamedTuple):
    """Mass and mass centre of a body."""

    mass: Array
    com_B: Array


class ExactJoint:
    """A joint whose parameters are exact; everything else is the joint's."""

    def __init__(self, joint: Any, params: tuple[Any, ...]) -> None:
        self._joint, self.params = joint, params

    def __getattr__(self, name: str) -> Any:
        return getattr(self._joint, name)


class ExactHinge:
    """A `FlexibleHinge` whose parameters, body and port are exact."""

    def __init__(
        self,
        hinge: FlexibleHinge,
        own: tuple[Any, ...],
        body: ExactBody | CompoundBody | None,
        port: Any,
    ) -> None:
        self._hinge, self.inertia, self.port = hinge, body, port
        numbers = [] if body is None else body.numbers
        self.port_start = len(own) + len(numbers)
        self.params = (*own, *numbers, *([] if port is None else port.numbers))

    def spread(self, params: Sequence[Any]) -> list[Any]:
        """All numbers; those that are zero in the model are not left out."""
        return list(params)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._hinge, name)


class ExactMechanism:
    """A model with exact numbers; the topology, the names and the joint types are the model's.

    `kind` is the class of the numbers (`Residues` of a prime, or `Digits`). With `draw`, all
    numbers are random: masses, moments, mass centres, placements, axes, pitches, gravity, and the
    rotor inertias of joints that have one, and those of flexible bodies. Bodies without mass stay
    so. `plain` is the model.
    """

    def __init__(self, model: Model, kind: Any, draw: Draw | None = None) -> None:
        if any(rate_rows_of(joint) is not None for joint in model.joints):
            raise InputError(
                "exact proofs do not support rotors on skew axes, or rotors of joints with several "
                "degrees of freedom. Remove the rotors:\n"
                "    pp.prove(identity, pp.Model.from_dict({**model.to_dict(), 'rotors': []}))"
            )
        self.plain, self.kind = model, kind
        self._drawn: dict[Table, list[Array]] = {}
        self._numbers = numbers = _Own(kind) if draw is None else _Random(kind, draw)
        self.placements = [
            Placement(numbers.rotation(x.rotation), numbers.any(x.translation))
            for x in model.placements
        ]
        self.placement_rotations = [x.rotation for x in self.placements]
        self.placement_translations = [x.translation for x in self.placements]
        self.flexible = [self._body(x) for x in model.flexible]
        self.joints = [self._joint(k, x) for k, x in enumerate(model.joints)]
        inertias = [
            body.inertia_at(kind.of(np.zeros(body.modes)))
            if isinstance(body, ExactBody)
            else numbers.inertia(x)
            for x, body in zip(model.inertia_matrices, self.flexible, strict=True)
        ]
        inertias = [x[:6, :6] for x in inertias]
        self.inertia_matrices = np.stack(inertias) if inertias else kind.of(np.zeros((0, 6, 6)))
        self.inertias = [_mass_and_centre(x) for x in self.inertia_matrices]
        self.armature = numbers.where_any(model.armature)
        self.gravity = numbers.any(model.gravity)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plain, name)

    def _body(self, x: FlexibleInertia | CompoundBody | None) -> Any:
        if isinstance(x, CompoundBody):
            return x.exact(self._numbers, lambda joint: _params(joint, self._numbers))
        return None if x is None else self._numbers.flexible(x)

    def _joint(self, k: int, joint: Joint) -> ExactJoint | ExactHinge:
        if not isinstance(joint, FlexibleHinge):
            return ExactJoint(joint, _params(joint, self._numbers))
        above = self.flexible[self.plain.parent[k]] if self.plain.parent[k] >= 0 else None
        port: Any = joint.port
        if port is not None:  # the frame of the parent is no port of its body, and has no numbers
            assert above is not None
            if isinstance(above, CompoundBody):
                own = _params(joint.joint, self._numbers)
                return ExactHinge(joint, own, self.flexible[k], above.port(port.name))
            port = above.ports.get(port.name) or own_port(_Own(self.kind), port)
        own = _params(joint.joint, self._numbers)
        return ExactHinge(joint, own, self.flexible[k], port)

    def drawn_blocks(self, table: Table, points: int = 0) -> list[Array]:
        """The blocks of a custom operator or vector, drawn once; symmetric ones stay symmetric."""
        if table not in self._drawn:
            make = self._numbers.any
            if table.symmetric:
                make = self._numbers.inertia if table.is_inertia else self._numbers.symmetric
            bodies = range(self.plain.n_bodies or 1)
            if table.of_points:
                some = isinstance(self._numbers, _Random)
                blocks = [
                    np.ones((6, 6)) if some else table.at_point(self.plain, i, points)
                    for i in range(points)
                ]
            elif isinstance(self._numbers, _Random):  # any blocks of these shapes
                blocks = [np.ones(table.shape_at(self.plain, k)) for k in bodies]
            else:
                blocks = [table.at(self.plain, k) for k in bodies]
            self._drawn[table] = [make(x) if x.size else self.kind.of(x) for x in blocks]
        return self._drawn[table]

    def frames(self, points: PointSet) -> PointSet:
        """Frames of points or closures; those on the world keep the numbers of the model."""
        own = _Own(self.kind)
        makers = [own if body < 0 else self._numbers for body in points.body]
        rotations = [x.rotation(R) for x, R in zip(makers, points.rotation, strict=True)]
        offsets = [x.any(at) for x, at in zip(makers, points.offset, strict=True)]
        return replace(
            points,
            rotation=np.stack(rotations) if rotations else self.kind.of(np.zeros((0, 3, 3))),
            offset=np.stack(offsets) if offsets else self.kind.of(np.zeros((0, 3))),
        )

    def qdot(self, q: Array, v: Array) -> Array:
        """q̇ = N(q) v."""
        parts: list[Any] = []
        for joint, i, j in zip(self.joints, self.plain.q_slices, self.plain.v_slices, strict=True):
            parts += joint.q_rate(joint.params, q[i].scalars(), v[j].scalars(), self.kind.ops)
        return self.kind.of(np.array(parts, np.result_type(q, v)))


def _mass_and_centre(inertia: Array) -> ExactInertia:
    mass = inertia[3, 3]
    if not np.asarray(mass).any():
        return ExactInertia(mass, 0 * inertia[0, :3])
    first = inertia[:3, 3:]
    return ExactInertia(mass, np.stack([first[2, 1], first[0, 2], first[1, 0]]) / mass)


def _params(joint: Joint, numbers: _Own | _Random) -> tuple[Any, ...]:
    """The parameters of a joint as scalars."""
    parts: list[Array] = []
    for kind, values in joint.blocks_of_params():
        if kind == "axis":
            parts.append(numbers.axis(values))
        elif kind == "frame":  # n, e1, e2 are the axes of a frame
            n, e1, e2 = np.reshape(values, (3, 3))
            frame = numbers.rotation(np.column_stack([e1, e2, n]))
            parts += [frame[:, 2], frame[:, 0], frame[:, 1]]
        else:
            parts.append(numbers.any(values))
    return tuple(x for part in parts for x in part.scalars())


class _Own:
    """The model's numbers."""

    def __init__(self, kind: Any) -> None:
        self._kind = kind

    def any(self, values: Any) -> Array:
        return self._kind.of(np.asarray(values, float))

    where_any = inertia = symmetric = any

    def flexible(self, body: FlexibleInertia) -> ExactBody:
        return own_body(self, body)

    def rotation(self, matrix: Array) -> Array:
        return _rotation(self._kind.of(matrix_to_quat(matrix)))

    def axis(self, axis: Sequence[float]) -> Array:
        exact = [Fraction(x) for x in axis]
        if sum(x * x for x in exact) == 1:
            return self._kind.of(np.array(axis, float))
        # from the pole on the other side, so that nothing is divided by a small number
        far = int(np.argmax(np.abs(axis)))
        sign = 1 if axis[far] > 0 else -1
        flat = [x / (1 + abs(axis[far])) for x in axis]
        return _point_of_sphere(self._kind.of(np.array(flat)), far, sign)


class _Random:
    """Random numbers in the place of the model's."""

    def __init__(self, kind: Any, draw: Draw) -> None:
        self._kind, self._draw = kind, draw

    def any(self, values: Any) -> Array:
        return self._draw(*np.shape(values))

    def where_any(self, values: Any) -> Array:
        drawn = self._draw(*np.shape(values))
        return drawn * drawn * self._kind.of((np.asarray(values) != 0).astype(float))

    def symmetric(self, matrix: Array) -> Array:
        half = self._draw(*np.shape(matrix))  # ≥ 0: roots may be taken of what follows
        return half @ half.T

    def inertia(self, matrix: Array) -> Array:
        out = self._kind.of(np.zeros((6, 6)))
        if not matrix.any():
            return out
        # of a rigid body, also in numbers that have a size: roots may be taken of what follows
        m, c, half = self._draw(), skew(self._draw(3)), self._draw(3, 3)
        m = m * m
        out[:3, :3] = half @ half.T - m * c @ c
        out[:3, 3:], out[3:, :3], out[3:, 3:] = m * c, -m * c, m * np.eye(3)
        return out

    def flexible(self, body: FlexibleInertia) -> ExactBody:
        return random_body(self, body, sized=self._kind is Digits)

    def rotation(self, matrix: Array) -> Array:
        return _rotation(self._draw(4))

    def axis(self, axis: Sequence[float]) -> Array:
        return _point_of_sphere(self._draw(3), 2, 1)


def _rotation(quaternion: Array) -> Array:
    rows = rotation_of_quaternion(quaternion.scalars())
    return type(quaternion).of(np.array(rows, quaternion.dtype))


def _point_of_sphere(flat: Array, far: int, sign: int) -> Array:
    """The rational point of the sphere over a point of the plane through its centre."""
    one, two = (i for i in range(3) if i != far)
    a, b = flat[one], flat[two]
    below = 1 + a * a + b * b
    out: list[Any] = [None] * 3
    out[one], out[two], out[far] = 2 * a / below, 2 * b / below, sign * (2 - below) / below
    return np.stack(out)


# ---- flexible bodies -----------------------------------------------------------------------------
#
# Every number of a flexible body is one that M(η) and the poses of ports are rational in; a
# rotation of a port by modes is that of the quaternion (1, g). So a body is drawn as it is checked:
# J_0, J_1 and J_2 symmetric, S_2, J_2 and Ψ_v symmetric in their modes, M_e, K_e and C_e symmetric.
# In numbers that have a size (long decimals) second-order fields are left out and the rest is that
# of points with mass, so that M(η) ≥ 0 for all η and roots may be taken of what follows.

_FIELDS = (
    "mass", "first_moment", "rotational_inertia", "S1", "S2", "J1", "J2", "C0", "C1", "modal_mass",
    "stiffness", "damping",
)  # fmt: skip


class ExactPort(NamedTuple):
    """A port with exact numbers, as `Port` has them."""

    rotation: Array
    position: Array
    rotation_modes: Array
    translation_modes: Array
    second_order: Array

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
    parts = (port.position, port.rotation_modes, port.translation_modes, port.second_order)
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
