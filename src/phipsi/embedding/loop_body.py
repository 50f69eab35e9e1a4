"""Bodies in closed loops as one body of their carrier, with a row for each free rate.

With the inertias M(k) of the members in the axes of the carrier and their motions S(k) ξ̇ against
it, V(k) = V + S(k) ξ̇ and

    M = Σ [1; S*] M(k) [1, S] + [0; X* J_r X]
    b = Σ [1; S*] (M(k) (Ṡ ξ̇ − S ξ̇ × V) + V(k) ×* M(k) V(k)) + [0; X* J_r Ẋ ξ̇]

**Source:** J12; theory/constraint-embedding 2 (E2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import product
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.core.model import CompoundBody, CompoundPort, Pose, SpatialInertia, rate_of
from phipsi.core.spatial import ARRAYS
from phipsi.core.sweeps import (
    Rows,
    add,
    cross,
    cross_matrix,
    dot,
    full,
    identity,
    is_zero,
    lower_half,
    matmul,
    matvec,
    minus,
    mul,
    mul_add,
    plus,
    sub,
    transpose_rows,
)
from phipsi.embedding.degrees import DEGREES, Degrees, highest
from phipsi.embedding.loop_group import LoopGroup
from phipsi.embedding.loop_motion import LoopMotion, along, crossed, crossed_force
from phipsi.embedding.loop_structure import (
    CouplingRow,
    LoopStructure,
    pattern_of,
    read_from_table,
    with_known,
)

Array = NDArray[Any]
Entry = Any
Vector = Sequence[Entry]
Directions = Sequence[Sequence[Entry]]


_NEAR_DEAD = 1e-2
"""Of the largest singular value of the bound columns: a smaller one explains a failure."""


def motion_of_degrees(x: LoopStructure, pattern: str) -> LoopMotion:
    """The motion of a structure with degrees as numbers."""
    geometry = with_known(pattern, [Degrees(1, 0)] * pattern.count("x"))
    return LoopMotion(x, geometry, [Degrees(1, 0)] * x.nq, DEGREES)


_TEN = ((5, 5), (2, 4), (0, 5), (1, 3), (0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2))
"""Where m, h and the lower half of J are in a spatial inertia."""


class _Inertia:
    """m, h and J of a body about the origin of the carrier, in its axes."""

    def __init__(self, m: Entry, h: Vector, J: Rows) -> None:
        self.m, self.h, self.J = m, list(h), J

    def times(self, V: Vector) -> list[Entry]:
        """Momentum [angular; linear] of a motion."""
        w, v = V[:3], V[3:]
        turning = plus(matvec(self.J, w), cross(self.h, v))
        return [*turning, *minus([mul(self.m, c) for c in v], cross(self.h, w))]

    def plus(self, other: _Inertia) -> _Inertia:
        rows = [plus(x, y) for x, y in zip(self.J, other.J, strict=True)]
        return _Inertia(add(self.m, other.m), plus(self.h, other.h), rows)


def _carried(numbers: Vector, turn: Rows, origin: Vector) -> _Inertia:
    """The inertia of a member, given in its own axes, in those of the carrier."""
    m, own, J = numbers[0], numbers[1:4], full(list(numbers[4:10]), 3)
    first = matvec(turn, own)
    half = matmul(turn, J)
    moment = full([dot(half[i], turn[j]) for i in range(3) for j in range(i + 1)], 3)
    # −m p~ p~ − p~ h~ − h~ p~ with the first moment h, which is h + m p about the carrier
    whole = [mul_add(m, p, c) for p, c in zip(origin, first, strict=True)]
    scale = dot(origin, plus(first, whole))
    for i in range(3):
        for j in range(i + 1):
            c = add(mul(first[i], origin[j]), mul(origin[i], whole[j]))
            moment[i][j] = moment[j][i] = add(moment[i][j], sub(scale if i == j else 0, c))
    return _Inertia(m, whole, moment)


@final
class LoopPort(CompoundPort):
    """The body frame of a member."""

    def __init__(self, x: LoopStructure, member: int) -> None:
        self._x, self.member = x, member
        self.name = x.members[member].name
        self.modes, self.places = len(x.free), x.nq
        self._pattern = pattern_of(x.geometry)
        self.numbers = read_from_table(x.geometry)
        self.formulas = f"member {member} of {x.text} {self._pattern}"

    def _numbers(self, params: Vector) -> list[Entry]:
        return with_known(self._pattern, params)

    def use_exactly(self, geometry: Sequence[Any]) -> None:
        """Take these numbers in the place of those of the model."""
        self.numbers, self._pattern = tuple(geometry), "x" * len(geometry)

    def at(self, a: Any, params: Vector, q: Vector) -> tuple[Rows, list[Entry], Rows]:
        """Rotation, origin and Π in the axes of the carrier, at the port."""
        motion = LoopMotion(self._x, self._numbers(params), q, a)
        turn, origin = motion.frames[self.member]
        return turn, origin, [_at(s, origin) for s in motion.motions(self.member)]

    def bias(
        self, a: Any, params: Vector, q: Vector, rate: Vector
    ) -> tuple[list[Entry], list[Entry]]:
        """Motion of the port, and how it changes at constant rates."""
        motion = LoopMotion(self._x, self._numbers(params), q, a)
        W, change = motion.motion_and_bias(rate)
        origin = motion.frames[self.member][1]
        return _at(W[self.member], origin), _at(change[self.member], origin)

    def along(self, a: Any, params: Vector, q: Vector, directions: Directions) -> Rows:
        """F = [X_c; Π*] along rates."""

        def slope(units: Directions) -> list[Entry]:
            motion = along(self._x, self._numbers(params), q, units, a)
            return [_rate(x, len(units)) for row in self._whole(motion) for x in row]

        found = _by_slopes(a, "port slopes", slope, directions, self.modes)
        return [found[i : i + 6] for i in range(0, len(found), 6)]

    def _whole(self, motion: LoopMotion) -> Rows:
        turn, origin = motion.frames[self.member]
        back = transpose_rows(turn)
        arm = matmul(cross_matrix(origin), turn)
        rows = [[*turn[i], *arm[i]] for i in range(3)]
        rows += [[0, 0, 0, *turn[i]] for i in range(3)]
        for s in motion.motions(self.member):
            there = _at(s, origin)
            rows.append([*matvec(back, there[:3]), *matvec(back, there[3:])])
        return rows

    @cached_property
    def degree(self) -> int:
        """That of the formulas, counted by running them on degrees."""
        motion = motion_of_degrees(self._x, self._pattern[: len(self._x.geometry)])
        turn, origin = motion.frames[self.member]
        return highest([*sum(turn, []), *origin, *sum(motion.motions(self.member), [])])

    def pose_at(self, q: Array) -> tuple[Array, Array]:
        """Rotation and origin."""
        motion = LoopMotion(self._x, self._x.geometry, list(q), ARRAYS)
        turn, origin = motion.frames[self.member]
        return np.array(turn, dtype=float), np.array(origin, dtype=float)

    def dense_motion(self, c: Any, k: int, along_rates: Sequence[Any] = ()) -> Any:
        """[X_c; Π*] as a matrix."""
        q = c.scalars(c.argument("q")[c.model.q_slices[c.model.parent[k]]][-self.places :])
        directions = [_scalars(c, x) for x in along_rates]
        motion = along(self._x, self._geometry_of(c, k), q, directions, c.ops)
        rows = [[_rate(x, len(directions)) for x in row] for row in self._whole(motion)]
        return c.array(rows)

    def dense_bias(self, c: Any, k: int, rate: Any) -> Any:
        """Π̇ times the rates, in the axes of the port: how Π changes along the rates."""
        F = self.dense_motion(c, k, [rate])
        return F[6:].T @ rate

    def _geometry_of(self, c: Any, k: int) -> list[Any]:
        hinge = c.model.joints[k]
        return self._numbers(hinge.spread(hinge.params)[hinge.port_start :])


def _scalars(c: Any, x: Any) -> list[Any]:
    """Rates one by one, as numbers of a configuration."""
    return c.scalars(x if hasattr(x, "scalars") else c.array(x))


def _at(s: Vector, origin: Vector) -> list[Entry]:
    """A motion at another point: v + ω × p."""
    return [*s[:3], *plus(s[3:], cross(s[:3], origin))]


def _by_slopes(
    a: Any, name: str, slope: Callable[[Directions], list[Entry]], directions: Directions, n: int
) -> list[Entry]:
    """What changes along directions, as a sum of derivatives by rates, each computed once.

    Free rates are those of coordinates, so that derivatives do not depend on their order.
    """
    units, total = identity(n), list[Entry]()
    for places in product(range(n), repeat=len(directions)):
        factor: Entry = 1
        for i, direction in zip(places, directions, strict=True):
            factor = mul(factor, direction[i])
        if is_zero(factor):
            continue
        order = sorted(places)
        found = a.once(f"{name} {order}", lambda order=order: slope([units[i] for i in order]))
        total = total or [0] * len(found)
        total = [mul_add(x, factor, t) for x, t in zip(found, total, strict=True)]
    return total or [mul(0, x) for x in slope([units[0]] * len(directions))]


def _rate(x: Entry, count: int) -> Entry:
    for _ in range(count):
        x = rate_of(x)
    return x


@final
class LoopBody(CompoundBody):
    """The members of one cluster of loops.

    `turns` are the rotations from the frames of the members here to their body frames.
    """

    def __init__(
        self, x: LoopStructure, neutral: Sequence[float], turns: Sequence[Pose] = ()
    ) -> None:
        self.x, self._neutral = x, tuple(map(float, neutral))
        self.turns = tuple(turns)
        numbers = (*x.geometry, *x.masses)
        self.modes, self.places = len(x.free), x.nq
        self._pattern = pattern_of(numbers)
        self.numbers = read_from_table(numbers)
        self.formulas = f"loops {x.text} {self._pattern}"
        self.coordinate_names = tuple(
            f"{name} of {m.name}" for m in x.members for name in m.joint.coordinate_names
        )
        self.ports: tuple[LoopPort, ...] = tuple(LoopPort(x, k) for k in range(len(x.members)))

    @cached_property
    def group(self) -> LoopGroup:
        """How coordinates move: the free ones by addition, the others so that loops stay closed."""
        return LoopGroup(self.x, self._neutral)

    @cached_property
    def rigid(self) -> SpatialInertia:
        """All members as one body at the neutral coordinates."""
        total = np.zeros((6, 6))
        motion = LoopMotion(self.x, self.x.geometry, list(self._neutral), ARRAYS)
        for inertia in self._members(motion, self.x.masses):
            skew = np.array(cross_matrix(inertia.h), dtype=float)
            total[:3, :3] += np.array(inertia.J, dtype=float)
            total[:3, 3:] += skew
            total[3:, :3] -= skew
            total[3:, 3:] += float(inertia.m) * np.eye(3)
        mass = total[5, 5]
        first = np.array([total[2, 4], total[0, 5], total[1, 3]])
        com = first / mass if mass else first
        return SpatialInertia(mass, com, moment_about_origin_B=total[:3, :3])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LoopBody) and self.x == other.x and self._neutral == other._neutral

    def __hash__(self) -> int:
        return hash((self.x, self._neutral))

    def __reduce__(self) -> tuple[Any, ...]:
        return LoopBody, (self.x, self._neutral, self.turns)

    def __repr__(self) -> str:
        names = ", ".join(repr(m.name) for m in self.x.members)
        return f"LoopBody({len(self.x.free)} free of {self.x.nv} rates: {names})"

    # ---- programs --------------------------------------------------------------------------------

    def _numbers(self, params: Vector) -> tuple[list[Entry], list[Entry]]:
        """Geometry and masses."""
        every = with_known(self._pattern, params)
        return every[: len(self.x.geometry)], every[len(self.x.geometry) :]

    def _own(self, a: Any) -> tuple[list[Entry], list[Entry], list[Entry]]:
        hinge = a.joint
        numbers = hinge.spread(a.params())[hinge.own_start : hinge.port_start]
        return *self._numbers(numbers), a.coordinates("q")[-self.places :]

    def _motion(self, a: Any) -> tuple[LoopMotion, list[Entry]]:
        def make() -> tuple[LoopMotion, list[Entry]]:
            geometry, masses, q = self._own(a)
            return LoopMotion(self.x, geometry, q, a), masses

        return a.once("loop motion", make)

    def _members(self, motion: LoopMotion, masses: Vector) -> list[_Inertia]:
        out: list[_Inertia] = []
        at = 0
        for m, (turn, origin) in zip(self.x.members, motion.frames, strict=True):
            out.append(_carried(masses[at : at + 10], turn, origin))
            at += 10 + len(m.armature)
        return out

    def _armature(self, masses: Vector) -> list[Entry]:
        out: list[Entry] = []
        at = 0
        for m in self.x.members:
            out += masses[at + 10 : at + 10 + len(m.armature)]
            at += 10 + len(m.armature)
        return out

    def _lower(self, motion: LoopMotion, masses: Vector) -> list[Entry]:
        """The lower half of M(q)."""
        n = len(self.x.free)
        whole = _Inertia(0, [0, 0, 0], [[0] * 3 for _ in range(3)])
        momenta: Rows = [[0] * 6 for _ in range(n)]
        corner: Rows = [[0] * n for _ in range(n)]
        for k, inertia in enumerate(self._members(motion, masses)):
            if all(is_zero(c) for c in (inertia.m, *inertia.h, *sum(inertia.J, []))):
                continue
            whole = whole.plus(inertia)
            S = motion.motions(k)
            for i in range(n):
                momentum = inertia.times(S[i])
                momenta[i] = plus(momenta[i], momentum)
                for j in range(i + 1):
                    corner[i][j] = add(corner[i][j], dot(S[j], momentum))
        for rate, rotor in enumerate(self._armature(masses)):
            if not is_zero(rotor):
                row = motion.spread[rate]
                for i in range(n):
                    for j in range(i + 1):
                        corner[i][j] = add(corner[i][j], mul(mul(rotor, row[i]), row[j]))
        skew = cross_matrix(whole.h)
        lower = lower_half(whole.J)
        for r in range(3):
            lower += [
                *(mul(-1, c) for c in skew[r]),
                *(whole.m if c == r else 0 for c in range(r + 1)),
            ]
        for i in range(n):
            lower += [*momenta[i], *corner[i][: i + 1]]
        return lower

    def q_rate(self, params: Vector, q: Vector, v: Vector, ops: Any) -> list[Entry]:
        """q̇ of all coordinates."""
        motion = LoopMotion(self.x, self._numbers(params)[0], q, ops)
        return motion.q_rate(motion.rates(v))

    def inertia(self, a: Any) -> Any:
        """M(q)."""
        return a.symmetric(self._lower(*self._motion(a)), 6 + self.modes)

    def inertia_along(self, a: Any, directions: Directions) -> list[Entry]:
        """The lower half of Ṁ{…}."""
        geometry, masses, q = self._own(a)

        def slope(units: Directions) -> list[Entry]:
            motion = along(self.x, geometry, q, units, a)
            return [_rate(x, len(units)) for x in self._lower(motion, masses)]

        return _by_slopes(a, "inertia slopes", slope, directions, self.modes)

    def second(self, a: Any, given: Directions, y: Any, z: Any) -> list[Entry]:
        """The lower half of z* Ṁ{s; t; …} y by s and t."""
        n, units = self.modes, identity(self.modes)
        out: list[Entry] = [0] * 21
        for i in range(n):
            out += [0] * 6
            for j in range(i + 1):
                lower = self.inertia_along(a, [*given, units[i], units[j]])
                out.append(dot(z, matvec(full(lower, 6 + n), y)))
        return out

    def gyroscopic(self, a: Any, V: Vector) -> Any:
        """b."""
        motion, masses = self._motion(a)
        carrier, rate = list(V[:6]), list(V[6:])
        W, change = motion.motion_and_bias(rate)
        total: list[Entry] = [0] * 6
        modal: list[Entry] = [0] * self.modes
        for k, inertia in enumerate(self._members(motion, masses)):
            if all(is_zero(c) for c in (inertia.m, *inertia.h, *sum(inertia.J, []))):
                continue
            whole = plus(carrier, W[k])
            force = inertia.times(minus(change[k], crossed(W[k], carrier)))
            force = plus(force, crossed_force(whole, inertia.times(whole)))
            total = plus(total, force)
            S = motion.motions(k)
            modal = [add(c, dot(s, force)) for c, s in zip(modal, S, strict=True)]
        modal = [add(c, d) for c, d in zip(modal, self._rotor_bias(motion, masses), strict=True)]
        return a.dense([[c] for c in (*total, *modal)], 1)

    def _rotor_bias(self, motion: LoopMotion, masses: Vector) -> list[Entry]:
        """X* J_r Ẋ ξ̇."""
        rotors = self._armature(masses)
        out: list[Entry] = [0] * self.modes
        if all(is_zero(c) for c in rotors):
            return out
        for j, rotor in enumerate(rotors):
            push = mul(rotor, motion.accelerations[j])
            out = [mul_add(c, push, t) for c, t in zip(motion.spread[j], out, strict=True)]
        return out

    # ---- exact proofs ----------------------------------------------------------------------------

    @cached_property
    def degree(self) -> int:
        """That of the formulas, counted by running them on degrees."""
        motion = motion_of_degrees(self.x, self._pattern[: len(self.x.geometry)])
        return highest(self._lower(motion, [Degrees(1, 0)] * len(self.x.masses)))

    def exact(self, numbers: Any, params: Any) -> LoopBody:
        """The same with exact numbers; joints keep their axes where those are known."""
        geometry: list[Any] = []

        def frame(pose: Pose) -> None:
            geometry.extend(numbers.rotation(pose.rotation).ravel().scalars())
            geometry.extend(numbers.any(pose.translation).scalars())

        for m in self.x.members:
            frame(m.placement)
            geometry.extend(params(m.joint))
        for row in self.x.rows:
            if isinstance(row, CouplingRow):
                factors = [factor for *_, factor in row.terms]
                geometry.extend(numbers.any(np.array([*factors, row.offset])).scalars())
                continue
            frame(row.a_frame)
            frame(row.b_frame)
            geometry.extend(numbers.any(np.array([row.constant])).scalars())
        masses: list[Any] = []
        for m in self.x.members:
            M = numbers.inertia(m.inertia.matrix)
            places = [
                (5, 5),
                (2, 4),
                (0, 5),
                (1, 3),
                (0, 0),
                (1, 0),
                (1, 1),
                (2, 0),
                (2, 1),
                (2, 2),
            ]
            masses += [x for i, j in places for x in M[i : i + 1, j].scalars()]
            if m.armature:
                masses += numbers.where_any(np.array(m.armature)).scalars()
        out = LoopBody(self.x, self._neutral, self.turns)
        out.use_exactly(geometry, masses)
        return out

    def use_exactly(self, geometry: Sequence[Any], masses: Sequence[Any]) -> None:
        """Take these numbers, all of them, in the place of those of the model."""
        self.numbers = (*geometry, *masses)
        self._pattern = "x" * len(self.numbers)
        for port in self.ports:
            port.use_exactly(geometry)

    # ---- elsewhere -------------------------------------------------------------------------------

    def random(self, rng: np.random.Generator, batch: tuple[int, ...]) -> NDArray[np.float64]:
        """Random coordinates that loops can reach from the neutral ones."""
        return self.group.random(rng, batch)

    def dense_inertia(self, c: Any, k: int, along_rates: Sequence[Any] = ()) -> Any:
        """M(k), or its change, as products of matrices."""
        hinge = c.model.joints[k]
        geometry, masses = self._numbers(
            hinge.spread(hinge.params)[hinge.own_start : hinge.port_start]
        )
        q = c.scalars(c.argument("q")[c.model.q_slices[k]][-self.places :])
        directions = [_scalars(c, x) for x in along_rates]
        motion = along(self.x, geometry, q, directions, c.ops)
        n = self.modes
        total: Rows = [[0] * (6 + n) for _ in range(6 + n)]
        at = 0
        for member, m in enumerate(self.x.members):
            turn, origin = motion.frames[member]
            # [1, S] in the axes of the member, and its own inertia between
            S = motion.motions(member)
            to_member = _matrix_to(turn, origin)
            J = matmul(to_member, [[*identity(6)[i], *(s[i] for s in S)] for i in range(6)])
            M = _matrix_of(masses[at : at + 10])
            part = matmul(transpose_rows(J), matmul(M, J))
            total = [plus(x, y) for x, y in zip(total, part, strict=True)]
            for i, rotor in enumerate(masses[at + 10 : at + 10 + len(m.armature)]):
                row = motion.spread[self.x.v_slices[member].start + i]
                for r in range(n):
                    for s in range(n):
                        entry = mul(rotor, mul(row[r], row[s]))
                        total[6 + r][6 + s] = add(total[6 + r][6 + s], entry)
            at += 10 + len(m.armature)
        return c.array([[_rate(x, len(directions)) for x in row] for row in total])

    def trouble(self, q: NDArray[Any]) -> str:
        """Whether the loops are near a dead point, where the bound joints cannot follow."""
        motion = LoopMotion(self.x, self.x.geometry, list(np.real(q)), ARRAYS)
        G = np.array(motion.jacobian, dtype=float)
        G = G / np.array(motion.natural_sizes())[:, None]
        values = np.linalg.svd(G[:, list(self.x.bound)], compute_uv=False)
        if values[-1] > _NEAR_DEAD * values[0]:
            return ""
        names = [m.name for m in self.x.members]
        free = ", ".join(repr(names[k]) for k, at in enumerate(self.x.v_slices)
                         if set(range(at.start, at.stop)) & set(self.x.free))  # fmt: skip
        return (
            f"The loops of {', '.join(map(repr, names))} are near a dead point: the joint of "
            f"{free}, whose velocity is the independent one, cannot drive them there. Choose "
            "another joint, or simulate the system itself:\n"
            "    pp.embed_constraints(system, q, independent=[…])"
        )


def _matrix_to(turn: Rows, origin: Vector) -> Rows:
    """From motions at the carrier to those at a frame on it, [[R*, 0], [−R* p~, R*]]."""
    back = transpose_rows(turn)
    arm = matmul(back, cross_matrix(origin))
    top = [[*row, 0, 0, 0] for row in back]
    return [*top, *([*(mul(-1, c) for c in arm[i]), *back[i]] for i in range(3))]


def _matrix_of(numbers: Vector) -> Rows:
    """[[J, h~], [−h~, m]]."""
    m, skew, J = numbers[0], cross_matrix(numbers[1:4]), full(list(numbers[4:10]), 3)
    top = [[*J[i], *skew[i]] for i in range(3)]
    low = [
        [*(mul(-1, c) for c in skew[i]), *(m if i == j else 0 for j in range(3))] for i in range(3)
    ]
    return [*top, *low]
