"""Implementations of operations on bodies with modes, written once for every backend.

V(k) = [ω; v; η̇] has 6 + n rows, and so have the blocks of E_φ, H, M, a and b. A body without modes
has n = 0; one that is not on a port has no port modes. Numbers that are known to be 0 cost nothing.
Formulas: docs/theory/flexible-bodies.md, sections 1 and 2.

Reasons: docs/decisions/0054.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from phipsi.core.model import compound_of, compound_port_of, rate_rows_of, rates_of_rows
from phipsi.core.sweeps.arithmetic import Arithmetic, Block
from phipsi.core.sweeps.entries import (
    Entry,
    Rows,
    add,
    cross,
    cross_matrix,
    dot,
    full,
    identity,
    inertia_parts,
    is_zero,
    lower_half,
    matmul,
    matvec,
    minus,
    mul,
    mul_add,
    mul_sub,
    neg,
    plus,
    sub,
    transpose_rows,
)
from phipsi.core.sweeps.ir import Field

_HALF = Fraction(1, 2)
Vectors = list[list[Entry]]


class _RecordReader:
    """Numbers in a row, taken one group at a time."""

    def __init__(self, numbers: Sequence[Entry], start: int) -> None:
        self.numbers, self.at = numbers, start

    def take(self, count: int) -> list[Entry]:
        """The next numbers."""
        found = self.numbers[self.at : self.at + count]
        self.at += count
        return list(found)

    def symmetric(self) -> Rows:
        """The next symmetric 3 × 3 matrix."""
        return full(self.take(6), 3)


class FlexibleBody:
    """The numbers of a flexible body, as `packed_inertia` puts them in a row."""

    def __init__(self, a: Arithmetic) -> None:
        n = self.n = modes_of(a.joint)
        read = _RecordReader(a.joint.spread(a.params()), a.joint.own_start)
        self.mass, *self.first = read.take(4)
        self.moment = read.symmetric()
        self.S1: Vectors = []
        self.J1: list[Rows] = []
        self.C0: Vectors = []
        for _ in range(n):
            self.S1.append(read.take(3))
            self.J1.append(read.symmetric())
            self.C0.append(read.take(3))
        S2: Vectors = []
        J2: list[Rows] = []
        for _ in range(n * (n + 1) // 2):
            S2.append(read.take(3))
            J2.append(read.symmetric())
        self.S2, self.J2 = full(S2, n), full(J2, n)
        self.C1 = [[read.take(3) for _ in range(n)] for _ in range(n)]
        pairs = n * (n + 1) // 2
        self.mass_e, self.stiffness, self.damping = (full(read.take(pairs), n) for _ in range(3))

    def slopes(self, eta: Sequence[Entry]) -> tuple[Vectors, Vectors]:
        """S and C at modal coordinates, one for each mode."""
        modes = range(self.n)
        S = [add_along(self.S1[i], self.S2[i], eta) for i in modes]
        C = [add_along(self.C0[i], self.C1[i], eta) for i in modes]
        return S, C

    def moment_slopes(self, eta: Sequence[Entry], modes: Sequence[int] | None = None) -> list[Rows]:
        """∂J/∂η_i = J_1,i + Σ_j J_2,ij η_j, of all modes or of some."""
        return [
            [add_along(row, [m[r] for m in self.J2[i]], eta) for r, row in enumerate(self.J1[i])]
            for i in (range(self.n) if modes is None else modes)
        ]


def add_along(
    start: Sequence[Entry], slopes: Sequence[Sequence[Entry]], by: Sequence[Entry]
) -> Any:
    """x + Σ_j y_j b_j for lists x and y_j."""
    out = list(start)
    for y, b in zip(slopes, by, strict=True):
        out = [mul_add(c, b, x) for c, x in zip(y, out, strict=True)]
    return out


def modes_of(joint: Any) -> int:
    """How many modes the outboard body of a joint has."""
    return getattr(joint, "modes", 0)


def port_modes_of(joint: Any) -> int:
    """How many modes move the port on which a joint sits."""
    return getattr(joint, "port_modes", 0)


def rows_of(joint: Any) -> int:
    """How many rows the outboard body of a joint has beyond six: its modes, or rates."""
    return getattr(joint, "rows", 0)


def parent_rows_of(joint: Any) -> int:
    """How many rows the inboard body of a joint has beyond six."""
    return getattr(joint, "parent_rows", 0)


def own_modes(a: Arithmetic, name: str) -> list[Entry]:
    """η or η̇ of this body."""
    n = modes_of(a.joint)
    return a.coordinates(name)[-n:] if n else []


# ---- the body ------------------------------------------------------------------------------------


def rigid_rows(a: Arithmetic, x: Field) -> Block:
    """[I; 0]: the six rigid rows of a body motion or force, or the modal rows filled with zeros."""
    return a.dense([*identity(6), *([0] * 6 for _ in range(rows_of(a.joint)))], 6)


def hinge_axes(a: Arithmetic, x: Field) -> Block:
    """H* = diag(H_J*, I) with modes; with rate rows [H_J*; 1], which move as rates do."""
    return with_unit_rows(a, a.joint.hinge_axes(a.params(), a.coordinates("q"), a), 1)


def hinge_axes_rate(a: Arithmetic, x: Field) -> Block:
    """The change of H*: modal rows do not change."""
    q, v = a.coordinates("q"), a.coordinates("v")
    return with_unit_rows(a, a.joint.hinge_axes_rate(a.params(), q, v, a), 0)


def with_unit_rows(a: Arithmetic, rows: Rows, one: int) -> Block:
    """Six rows for the rates of a joint and its modes, and a row for each mode, with one or 0.

    Or for each rate that has one.
    """
    joint = a.joint
    more = [[one if j == i else 0 for j in range(joint.nv)] for i in rates_of_rows(joint)]
    return a.dense([*rows, *more], joint.nv)


def inertia(a: Arithmetic, x: Field) -> Block:
    """M(η) = [[J, s~, C], [−s~, m, S], [C*, S*, M_e]]; with rate rows S = 0."""
    n = modes_of(a.joint)
    own = rate_rows_of(a.joint) or compound_of(a.joint)
    if own is not None:
        return own.inertia(a)
    if not n:
        return a.own_inertia()
    body, eta = FlexibleBody(a), own_modes(a, "q")
    slopes = a.once("moment slopes", lambda: body.moment_slopes(eta))
    return a.symmetric(_inertia_entries(body, eta, slopes, a.number(_HALF)), 6 + n)


def _inertia_entries(
    body: FlexibleBody, eta: Sequence[Entry], slopes: list[Rows], half: Entry
) -> list[Entry]:
    """The lower half of M(η), with the slopes ∂J/∂η."""
    S, C = body.slopes(eta)
    first, moment = list(body.first), [list(row) for row in body.moment]
    for i, coordinate in enumerate(eta):  # ½ (S_1 + S) η and ½ (J_1 + ∂J/∂η) η
        h = mul(half, coordinate)
        first = [mul_add(plus(body.S1[i], S[i])[c], h, first[c]) for c in range(3)]
        for r in range(3):
            both = plus(body.J1[i][r], slopes[i][r])
            moment[r] = [mul_add(both[c], h, moment[r][c]) for c in range(3)]
    return lower_entries(moment, first, body.mass, C, S, body.mass_e)


def lower_entries(
    moment: Rows, first: Sequence[Entry], mass: Entry, C: Vectors, S: Vectors, mass_e: Rows
) -> list[Entry]:
    """The lower half of [[J, s~, C], [−s~, m, S], [C*, S*, M_e]]."""
    skew = cross_matrix(first)
    lower = lower_half(moment)
    for r in range(3):
        own = [mass if c == r else 0 for c in range(r + 1)]
        lower += [*(neg(c) for c in skew[r]), *own]
    for i in range(len(S)):
        lower += [*C[i], *S[i], *mass_e[i][: i + 1]]
    return lower


def gyroscopic(a: Arithmetic, x: Field) -> Block:
    """b: V ×* M V of a rigid body; of a flexible one Ṁ V + …, and its elastic forces."""
    rows, V = a.rows(x.args[0]), a.column(x.args[1])
    n, w, v = modes_of(a.joint), V[:3], V[3:6]
    rate_rows, compound = rate_rows_of(a.joint), compound_of(a.joint)
    if rate_rows is not None:
        return rate_rows.gyroscopic(a, rows, V)
    if compound is not None:
        return compound.gyroscopic(a, V)
    momentum = [dot(row, V) for row in rows[:6]]
    turning, pushing = momentum[:3], momentum[3:]
    if not n:
        moment = plus(cross(w, turning), cross(v, pushing))
        return a.dense([[c] for c in moment + cross(w, pushing)], 1)
    body, eta, rate = FlexibleBody(a), own_modes(a, "q"), V[6:]
    _, first, _ = inertia_parts(rows)
    S = [[rows[3 + c][6 + i] for c in range(3)] for i in range(n)]
    slopes = a.once("moment slopes", lambda: body.moment_slopes(eta))
    by_mode = [matvec(slope, w) for slope in slopes]  # ∂J/∂η_i ω
    swept = cross(w, first)
    C_rate = [add_along([0, 0, 0], body.C1[i], rate) for i in range(n)]
    S_rate = [add_along([0, 0, 0], body.S2[i], rate) for i in range(n)]
    moment = plus(cross(w, turning), cross(v, swept))
    push, bend = [0, 0, 0], [0, 0, 0]
    for i in range(n):
        moment = add_along(moment, [by_mode[i], C_rate[i]], [rate[i], rate[i]])
        push = add_along(push, [S[i]], [rate[i]])
        bend = add_along(bend, [S_rate[i]], [rate[i]])
    double = [mul(2, c) for c in push]
    inner = plus(plus(double, swept), [mul(body.mass, c) for c in v])
    force = plus(cross(w, inner), bend)
    across, half = cross(w, v), a.number(_HALF)
    out = [*moment, *force]
    for i in range(n):
        found = dot(S[i], across)
        found = mul_sub(found, half, dot(w, by_mode[i]))
        twist = add_along([0, 0, 0], [minus(body.C1[i][j], body.C1[j][i]) for j in range(n)], rate)
        found = add(found, dot(w, twist))
        found = add(found, dot(body.stiffness[i], eta))
        out.append(add(found, dot(body.damping[i], rate)))
    return a.dense([[c] for c in out], 1)


def coordinates(a: Arithmetic, x: Field) -> Block:
    """η, behind a zero for each rate of the joint; zero where nothing is elastic."""
    eta = [0] * modes_of(a.joint) if compound_of(a.joint) is not None else own_modes(a, "q")
    return a.dense([*([0] for _ in range(a.joint.nv - len(eta))), *([c] for c in eta)], 1)


def selection(a: Arithmetic, x: Field) -> Block:
    """I in the corner of the modes, zeros for the joint."""
    return _in_corner(a, identity(modes_of(a.joint)))


def elastic(a: Arithmetic, x: Field) -> Block:
    """K_e or C_e in the corner of the modes, zeros for the joint."""
    n = modes_of(a.joint)
    if compound_of(a.joint) is not None:
        return _in_corner(a, [[0] * n for _ in range(n)])
    if not n:
        return _in_corner(a, [])
    body = FlexibleBody(a)
    return _in_corner(a, body.stiffness if x.op == "K_e" else body.damping)


def _in_corner(a: Arithmetic, block: Rows) -> Block:
    width = a.joint.nv
    first = width - len(block)
    lower = [
        block[i - first][j - first] if j >= first else 0 for i in range(width) for j in range(i + 1)
    ]
    return a.symmetric(lower, width)


# ---- the port that a joint sits on ---------------------------------------------------------------


class MovingPort:
    """The numbers of a port, and its pose at the modal coordinates of the parent.

    `eta` are these coordinates, if they are not those of the configuration.
    """

    def __init__(self, a: Arithmetic, eta: Sequence[Entry] | None = None) -> None:
        m = a.joint.port_modes
        read = _RecordReader(a.joint.spread(a.params()), a.joint.port_start)
        axes, origin = read.take(9), read.take(3)
        self.axes: Rows = [axes[3 * i : 3 * i + 3] for i in range(3)]
        turns: Vectors = []
        moves: Vectors = []
        for _ in range(m):
            turns.append(read.take(3))
            moves.append(read.take(3))
        shifts = full([read.take(3) for _ in range(m * (m + 1) // 2)], m)
        eta, half = a.parent_modes("q") if eta is None else eta, a.number(_HALF)
        self.turns, self.shifts = turns, shifts
        self.moves = [add_along(moves[i], shifts[i], eta) for i in range(m)]  # Π_v + Ψ_v η
        self.g = [mul(half, c) for c in add_along([0, 0, 0], turns, eta)]
        still = all(is_zero(c) for c in self.g)
        self.shrink: Entry = 1 if still else 1 / add(1, dot(self.g, self.g))  # 1 / (1 + g·g)
        means = [[mul(half, c) for c in plus(moves[i], self.moves[i])] for i in range(m)]
        self.origin = add_along(origin, means, eta)
        self.turn = matmul(self._cayley(), self.axes)

    def _cayley(self) -> Rows:
        """I + 2 (g~ + g~ g~) / (1 + g·g), the rotation of the quaternion (1, g)."""
        if all(is_zero(c) for c in self.g):
            return identity(3)
        twice = mul(2, self.shrink)
        h = [mul(twice, c) for c in self.g]
        square = [[mul(h[i], self.g[j]) for j in range(3)] for i in range(3)]
        whole = add(add(square[0][0], square[1][1]), square[2][2])
        skew = cross_matrix(h)
        return [
            [
                sub(add(square[i][i], 1), whole) if i == j else add(skew[i][j], square[i][j])
                for j in range(3)
            ]
            for i in range(3)
        ]

    def motions(self) -> Vectors:
        """Π_c(η), one motion of the port frame in its own axes for each mode."""
        out: Vectors = []
        back, axes = transpose_rows(self.turn), transpose_rows(self.axes)
        for turn, move in zip(self.turns, self.moves, strict=True):
            free = [mul(c, self.shrink) for c in minus(turn, cross(self.g, turn))]
            out.append([*matvec(axes, free), *matvec(back, move)])
        return out

    def motions_above(self) -> Vectors:
        """diag(R_c, R_c) Π_c(η), the same in the axes of the parent: R_c R_0* (I − g~) = I + g~."""
        out: Vectors = []
        for turn, move in zip(self.turns, self.moves, strict=True):
            free = plus(turn, cross(self.g, turn))
            out.append([*(mul(c, self.shrink) for c in free), *move])
        return out


def port_transform(a: Arithmetic, x: Field) -> Block:
    """φ(parent, port): the frame of the port in that of the parent."""
    if getattr(a.joint, "port", None) is None:
        return a.rigid_block(identity(3), [0, 0, 0])
    if compound_port_of(a.joint) is not None:
        turn, origin, _ = compound_port(a)
        return a.rigid_block(turn, origin)
    port = MovingPort(a)
    return a.rigid_block(port.turn, port.origin)


def compound_port(a: Arithmetic) -> Any:
    """Rotation, origin and motions of the port on a compound body, computed once."""
    port = compound_port_of(a.joint)
    return a.once("compound port", lambda: port.at(a, port_numbers(a), a.parent_modes("q")))


def port_numbers(a: Arithmetic) -> list[Entry]:
    """The numbers of the port that the joint sits on."""
    return a.joint.spread(a.params())[a.joint.port_start :]


def port_motion(a: Arithmetic, x: Field) -> Block:
    """Π: the motion of the port, in axes of the parent, for unit rates of the parent's modes."""
    m = port_modes_of(a.joint)
    if not m:
        return a.dense([[] for _ in range(6)], 0)
    if compound_port_of(a.joint) is not None:
        return a.dense(transpose_rows(compound_port(a)[2]), m)
    return a.dense(transpose_rows(MovingPort(a).motions_above()), m)


def step(a: Arithmetic, x: Field) -> Block:
    """E_φ(parent, k) = [[X, 0], [Q* diag(R, R), 0]] with the rotation R of X.

    Π is at the port and in axes of the parent, Q = [Π_ω; Π_v + Π_ω × d] at the origin of the body,
    at d = R_c l_J from the port: Q* diag(R, R) = Π_c* X_J.
    """
    whole, port, inner, motion = x.args
    turn, arm = a.rigid(whole)
    modal: Rows = []
    if port_modes_of(a.joint):
        d = _from_port(a, port, inner)
        for p in transpose_rows(a.rows(motion)):
            modal.append([*p[:3], *plus(p[3:], cross(p[:3], d))])
    else:  # rate rows of the parent feel nothing of what is outboard
        modal = [[0] * 6 for _ in range(parent_rows_of(a.joint))]
    return a.step_block(turn, arm, modal, rows_of(a.joint))


def _from_port(a: Arithmetic, port: Field, inner: Field) -> list[Entry]:
    """R_c l_J: from the port to the origin of the body, in axes of the parent."""
    return matvec(a.rigid(port)[0], a.rigid(inner)[1])


def bias(a: Arithmetic, x: Field) -> Block:
    """a: (V − H* v) × w + V × H* v + X_J* Π̇ η̇ + Ḣ* v, with w = X_J* Π η̇."""
    whole, at_port, inner, motion, velocity = x.args
    joint, n, m = a.joint, rows_of(a.joint), port_modes_of(a.joint)
    V, q, v = a.column(velocity)[:6], a.coordinates("q"), a.coordinates("v")
    own = matvec(joint.hinge_axes(a.params(), q, a), v) if joint.nv else [0] * 6
    change = matvec(joint.hinge_axes_rate(a.params(), q, v, a), v) if joint.nv else [0] * 6
    out = plus(_motion_cross(V, own), change)
    if m:
        moving, extra = _port_motion_and_change(a, motion)
        d, back = _from_port(a, at_port, inner), transpose_rows(a.rigid(whole)[0])
        w, more = (
            [*matvec(back, y[:3]), *matvec(back, plus(y[3:], cross(y[:3], d)))]
            for y in (moving, extra)
        )
        out = plus(plus(out, _motion_cross(minus(V, own), w)), more)
    return a.dense([[c] for c in (*out, *[0] * n)], 1)


def _port_motion_and_change(a: Arithmetic, motion: Field) -> tuple[list[Entry], list[Entry]]:
    """Π η̇ and R_c d/dt(R_c* Π) η̇, in axes of the parent."""
    rate, compound = a.parent_modes("v"), compound_port_of(a.joint)
    if compound is not None:
        return compound.bias(a, port_numbers(a), a.parent_modes("q"), rate)
    port, moving = MovingPort(a), matvec(a.rows(motion), rate)
    g_rate = [mul(a.number(_HALF), c) for c in add_along([0, 0, 0], port.turns, rate)]
    spin, slide = moving[:3], moving[3:]
    bend = [0, 0, 0]
    for i in range(len(rate)):
        bend = add_along(bend, [add_along([0, 0, 0], port.shifts[i], rate)], [rate[i]])
    slow = mul(mul(2, dot(port.g, g_rate)), port.shrink)
    return moving, [neg(mul(slow, c)) for c in spin] + minus(bend, cross(spin, slide))


def _motion_cross(V: Sequence[Entry], m: Sequence[Entry]) -> list[Entry]:
    """V × m."""
    w, v = V[:3], V[3:]
    return cross(w, m[:3]) + plus(cross(v, m[:3]), cross(w, m[3:]))
