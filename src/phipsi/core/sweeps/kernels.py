"""Implementations of the operations, written once for every backend.

A body gets the backend's arithmetic at one body, point, link or row, and the field to compute. Its
entries (`sweeps/entries.py`) are lanes of machine code in one backend and arrays in another;
`Arithmetic` says what a backend provides. Blocks are opaque: a backend may know that one is
symmetric or an inertia and keep fewer numbers of it.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from phipsi.core.model import hinge_axes_along
from phipsi.core.sweeps.arithmetic import Arithmetic, Block
from phipsi.core.sweeps.entries import (
    Entry,
    Rows,
    add,
    cross,
    cross_matrix,
    dot,
    identity,
    lower_half,
    matmul,
    matvec,
    minus,
    mul,
    mul_add,
    mul_sub,
    neg,
    plus,
    pose_rows,
    sub,
    transpose_rows,
    with_each,
)
from phipsi.core.sweeps.ir import Field, Kind, dependencies

_ZERO = [0, 0, 0]


# ---- leaves and joints ---------------------------------------------------------------------------


def transform(a: Arithmetic, x: Field) -> Block:
    """The placement of the joint, then its motion."""
    motion = joint_transform(a, x)
    return a.times(a.placement(), motion)


def joint_transform(a: Arithmetic, x: Field) -> Block:
    """The motion of the joint."""
    turn, arm = a.joint.transform(a.params(), a.coordinates("q"), a)
    return a.rigid_block(turn, list(arm))


def coordinates(a: Arithmetic, x: Field) -> Block:
    """q of a joint with q̇ = v; of others, which nothing reads, zeros."""
    entries = a.coordinates("q") if a.joint.is_additive else [0] * a.joint.nv
    return a.dense([[entry] for entry in entries], 1)


def moved(a: Arithmetic, x: Field) -> Block:
    """q ∘ exp(v)."""
    q, v = a.coordinates("q"), a.coordinates("v")
    out: list[Entry] = []
    for group, i, j in a.joint.parts():
        out += group.moved(q[i : i + group.nq], v[j : j + group.nv], a)
    return a.dense([[entry] for entry in out], 1)


def hinge_axes(a: Arithmetic, x: Field) -> Block:
    """H*."""
    return a.dense(a.joint.hinge_axes(a.params(), a.coordinates("q"), a))


def hinge_axes_rate(a: Arithmetic, x: Field) -> Block:
    """dH*/dt."""
    q, v = a.coordinates("q"), a.coordinates("v")
    return a.dense(a.joint.hinge_axes_rate(a.params(), q, v, a))


def _along(a: Arithmetic, directions: list[Any]) -> Rows:
    """H* differentiated along rates."""
    q = a.coordinates("q")
    return hinge_axes_along(a.joint, a.params(), q, directions, a)


def _along_each(a: Arithmetic, x: Field) -> list[Rows]:
    """H* differentiated along the given directions, then along each of the joint's rates."""
    given = [a.column(y) for y in x.args[1:]]
    return [_along(a, way) for way in with_each(given, x.data, identity(a.joint.nv))]


def hinge_along(a: Arithmetic, x: Field) -> Block:
    """H* differentiated along the arguments."""
    return a.dense(_along(a, [a.column(y) for y in x.args]))


def dHT(a: Arithmetic, x: Field) -> Block:
    """How H* w changes with each rate."""
    w = a.column(x.args[0])
    columns = [matvec(rows, w) for rows in _along_each(a, x)]
    return a.dense(transpose_rows(columns) if columns else [[] for _ in range(6)])


def dH(a: Arithmetic, x: Field) -> Block:
    """How H f changes with each rate."""
    f = a.column(x.args[0])[:6]
    columns = [matvec(transpose_rows(rows), f) for rows in _along_each(a, x)]
    return a.dense(transpose_rows(columns) if columns else [])


def dH_trace(a: Arithmetic, x: Field) -> Block:
    """How tr(H Z) changes with each rate."""
    z = [e for row in a.rows(x.args[0])[:6] for e in row]
    found = _along_each(a, x)
    return a.dense([[dot([e for row in n for e in row], z)] for n in found], 1)


def point_frame(a: Arithmetic, x: Field) -> Block:
    """The frame of a point on its body."""
    turn = a.point_turn()
    return a.rigid_block(turn, a.point_offset())


def point_arm(a: Arithmetic, x: Field) -> Block:
    """The place of a point on its body."""
    return a.rigid_block(identity(3), a.point_offset())


def own_frame(a: Arithmetic, x: Field) -> Block:
    """The inverse pose of the body for points of one's own, the frame of a point for others.

    In world axes the arm is that of the point, and comes on its own; in spatial axes it is the pose
    that leads to the world's origin.
    """
    turn, arm = a.rigid(x.args[0])
    back = transpose_rows(turn)
    own = a.rows(x.args[1])[0][0]  # 1 or 0, so that the sum is exact
    other = sub(1, own)

    def chosen(one: Entry, two: Entry) -> Entry:
        return add(mul(own, one), mul(other, two))

    frame = a.point_turn()
    rows = [[chosen(back[i][j], frame[i][j]) for j in range(3)] for i in range(3)]
    if x.data == "world":
        return a.rigid_block(rows, _ZERO)
    there = [neg(c) for c in matvec(back, arm)]
    return a.rigid_block(rows, [chosen(*y) for y in zip(there, a.point_offset(), strict=True)])


def world_arm(a: Arithmetic, x: Field) -> Block:
    """The origin of the world, seen from a place."""
    at: Any = x.data
    return a.rigid_block(identity(3), [a.number(-float(c)) for c in at])


def com_arm(a: Arithmetic, x: Field) -> Block:
    """The origin of the world, seen from the mass centre h/m."""
    m, h, _ = a.inertia(x.args[0])
    return a.rigid_block(identity(3), [neg(c / m) for c in h])


def angular(a: Arithmetic, x: Field) -> Block:
    """[[I, 0], [0, 0]]."""
    return a.symmetric([int(i == j and i < 3) for i in range(6) for j in range(i + 1)], 6)


# ---- algebra -------------------------------------------------------------------------------------


def zero(a: Arithmetic, x: Field) -> Block:
    """Zeros."""
    return a.zeros(x)


def eye(a: Arithmetic, x: Field) -> Block:
    """The identity."""
    return a.eye(x)


def same(a: Arithmetic, x: Field) -> Block:
    """The value of the argument, or of the equation."""
    return a.value(dependencies(x)[0])


def transposed(a: Arithmetic, x: Field) -> Block:
    """X*."""
    return a.transpose(a.value(x.args[0]))


def product(a: Arithmetic, x: Field) -> Block:
    """X Y."""
    left, right = a.value(x.args[0]), a.value(x.args[1])
    symmetric = x.type.kind is Kind.SYMMETRIC
    return a.times_symmetric(left, right) if symmetric else a.times(left, right)


def congruence(a: Arithmetic, x: Field) -> Block:
    """A S A*."""
    return a.congruence(a.value(x.args[0]), a.value(x.args[1]))


def total(a: Arithmetic, x: Field) -> Block:
    """Σ cᵢ Xᵢ."""
    data: Any = x.data
    return a.combine([(c, a.value(y)) for c, y in zip(data, x.args, strict=True)])


def sym(a: Arithmetic, x: Field) -> Block:
    """X + X*."""
    m = a.rows(x.args[0])
    n = len(m)
    return a.symmetric([add(m[i][j], m[j][i]) for i in range(n) for j in range(i + 1)], n)


def half(a: Arithmetic, x: Field) -> Block:
    """The lower half with half of the diagonal."""
    rows = a.rows(x.args[0])
    n = len(rows)
    weights = {True: a.number(Fraction(1, 2)), False: 1}
    return a.dense(
        [[mul(weights[i == j], rows[i][j]) if j <= i else 0 for j in range(n)] for i in range(n)]
    )


def formula(a: Arithmetic, x: Field) -> Block:
    """The block of a formula, which is written in the axes of the body."""
    data: Any = x.data
    turn = a.turn()
    blocks = [_turned(a.rows(y), y.type.rows, y.type.cols, turn) for y in x.args]
    rows = data.block(a.joint.nv, blocks, a)
    rows = _turned(rows, x.type.rows, x.type.cols, transpose_rows(turn))
    if x.type.kind is Kind.SYMMETRIC:
        return a.symmetric(lower_half(rows), len(rows))
    return a.dense(rows, len(rows[0]) if rows else 0)


def _turned(block: Rows, rows: str, cols: str, turn: Rows) -> Rows:
    """A block in other axes, on the sides that have six components."""
    if rows == "6":
        block = matmul(turn, block[:3]) + matmul(turn, block[3:])
    if cols == "6":
        block = transpose_rows(block)
        block = transpose_rows(matmul(turn, block[:3]) + matmul(turn, block[3:]))
    return block


def scaled(a: Arithmetic, x: Field) -> Block:
    """A number times a block, in the kind of the block."""
    (s,), block = a.column(x.args[0]), x.args[1]
    if x.type.kind is Kind.INERTIA:
        m, h, moment = a.inertia(block)
        return a.inertia_block([mul(s, e) for e in (m, *h, *lower_half(moment))])
    rows = [[mul(s, e) for e in row] for row in a.rows(block)]
    if x.type.kind is Kind.SYMMETRIC:
        return a.symmetric(lower_half(rows), len(rows))
    return a.dense(rows, len(rows[0]) if rows else 0)


def trace(a: Arithmetic, x: Field) -> Block:
    """The sum of the diagonal of a block."""
    rows = a.rows(x.args[0])
    total: Entry = 0
    for i, row in enumerate(rows):
        total = add(total, row[i])
    return a.dense([[total]], 1)


def diag(a: Arithmetic, x: Field) -> Block:
    """A column on the diagonal."""
    column = a.column(x.args[0])
    n = len(column)
    return a.symmetric([column[i] if i == j else 0 for i in range(n) for j in range(i + 1)], n)


def diagonal(a: Arithmetic, x: Field) -> Block:
    """The diagonal as a column."""
    return a.dense([[row[i]] for i, row in enumerate(a.rows(x.args[0]))], 1)


def hinge_scale(a: Arithmetic, x: Field) -> Block:
    """The largest articulated inertia in the units of each hinge direction, r × 1.

    At least the inertias outboard, unless other inertias than the model's are given.
    """
    p, axes = a.rows(x.args[0]), a.rows(x.args[1])
    largest: list[Entry] = []
    for start in (0, 3):
        sizes = [p[i][i] for i in range(start, start + 3)]
        found = a.largest(sizes)
        largest.append(found if x.data else a.maximum(found, a.outboard_size(start // 3)))
    scale: Rows = []
    for column in transpose_rows(axes):
        turn, slide = dot(column[:3], column[:3]), dot(column[3:6], column[3:6])
        scale.append([add(mul(turn, largest[0]), mul(slide, largest[1]))])
    return a.dense(scale, 1)


# ---- six-vectors ---------------------------------------------------------------------------------


def motion_cross(a: Arithmetic, x: Field) -> Block:
    """V × y."""
    v = a.column(x.args[0])

    def column(m: Any) -> list[Entry]:
        linear = plus(cross(v[3:], m[:3]), cross(v[:3], m[3:]))
        return cross(v[:3], m[:3]) + linear

    return a.by_column(x.args[1], column)


def force_cross(a: Arithmetic, x: Field) -> Block:
    """V ×* f."""
    v = a.column(x.args[0])

    def column(f: Any) -> list[Entry]:
        moment = plus(cross(v[:3], f[:3]), cross(v[3:], f[3:]))
        return moment + cross(v[:3], f[3:])

    return a.by_column(x.args[1], column)


def lever(a: Arithmetic, x: Field) -> Block:
    """crq(f) y."""
    f = a.column(x.args[0])

    def column(m: Any) -> list[Entry]:
        return plus(cross(f[:3], m[:3]), cross(f[3:], m[3:])) + cross(f[3:], m[:3])

    return a.by_column(x.args[1], column)


def crm(a: Arithmetic, x: Field) -> Block:
    """[[ω~, 0], [v~, ω~]]."""
    v = a.column(x.args[0])
    spin, slide = cross_matrix(v[:3]), cross_matrix(v[3:6])
    top = [spin[i] + _ZERO for i in range(3)]
    return a.dense(top + [slide[i] + spin[i] for i in range(3)])


def crq(a: Arithmetic, x: Field) -> Block:
    """[[n~, f~], [f~, 0]]."""
    f = a.column(x.args[0])
    moment, force = cross_matrix(f[:3]), cross_matrix(f[3:6])
    top = [moment[i] + force[i] for i in range(3)]
    return a.dense(top + [[*force[i], 0, 0, 0] for i in range(3)])


def spin(a: Arithmetic, x: Field) -> Block:
    """[[ω~, 0], [0, ω~]]."""
    both = cross_matrix(a.column(x.args[0])[:3])
    top = [both[i] + _ZERO for i in range(3)]
    return a.dense(top + [[0, 0, 0, *both[i]] for i in range(3)])


def force_cross_block(a: Arithmetic, x: Field) -> Block:
    """[[n~, 0], [f~, 0]]."""
    y = a.column(x.args[0])
    both = (*cross_matrix(y[:3]), *cross_matrix(y[3:]))
    return a.dense([[*row, 0, 0, 0] for row in both])


def gauge(a: Arithmetic, x: Field) -> Block:
    """[0; ω × v]."""
    v = a.column(x.args[0])
    return a.dense([[0]] * 3 + [[c] for c in cross(v[:3], v[3:])])


def against(a: Arithmetic, x: Field) -> Block:
    """[0; −g]."""
    return a.dense([[0]] * 3 + [[neg(g)] for g in a.column(x.args[0])])


def vee(a: Arithmetic, x: Field) -> Block:
    """u with u · s = tr(cross(s) X)."""
    m = a.rows(x.args[0])
    moment = plus(_axial(_corner(m, 0, 0)), _axial(_corner(m, 3, 3)))
    return a.dense([[e] for e in moment + _axial(_corner(m, 0, 3))])


def vee_force(a: Arithmetic, x: Field) -> Block:
    """w with w · f = tr(cross_force(f) X)."""
    m = a.rows(x.args[0])
    linear = plus(_axial(_corner(m, 0, 3)), _axial(_corner(m, 3, 0)))
    return a.dense([[e] for e in _axial(_corner(m, 0, 0)) + linear])


def _corner(m: Rows, i: int, j: int) -> Rows:
    """A 3 × 3 part of a 6 × 6 block."""
    return [row[j : j + 3] for row in m[i : i + 3]]


def _axial(m: Rows) -> list[Entry]:
    """x with x · a = tr(a~ m) for all a."""
    return [sub(m[i][j], m[j][i]) for i, j in ((1, 2), (2, 0), (0, 1))]


# ---- rigid transformations and inertias ----------------------------------------------------------


def rotation(a: Arithmetic, x: Field) -> Block:
    """[[R, 0], [0, R]]."""
    return a.rigid_block(a.rigid(x.args[0])[0], _ZERO)


def rigid_inverse(a: Arithmetic, x: Field) -> Block:
    """The inverse of [[R, l~ R], [0, R]]."""
    turn, arm = a.rigid(x.args[0])
    back = transpose_rows(turn)
    return a.rigid_block(back, [neg(c) for c in matvec(back, arm)])


def pose_matrix(a: Arithmetic, x: Field) -> Block:
    """[[R, l], [0, 1]]."""
    turn, arm = a.rigid(x.args[0])
    return a.dense(pose_rows(turn, arm))


def frame_matrix(a: Arithmetic, x: Field) -> Block:
    """[[R, l], [0, 1]] of the frame of a point."""
    turn, arm = a.frame_in_world(x.args[0])
    return a.dense(pose_rows(turn, arm))


def rigid_of_pose(a: Arithmetic, x: Field) -> Block:
    """[[R, l~ R], [0, R]] of [[R, l], [0, 1]]."""
    rows = a.rows(x.args[0])
    return a.rigid_block([r[:3] for r in rows[:3]], [r[3] for r in rows[:3]])


def below_root(a: Arithmetic, x: Field) -> Block:
    """X Y, or I at roots."""
    inside = a.times(a.value(x.args[0]), a.value(x.args[1]))
    return a.at_root(a.rigid_block(identity(3), _ZERO), inside)


def gyration(a: Arithmetic, x: Field) -> Block:
    """S[V] M − M V~ − Q[M V]: A = ω~ (2 J − tr J) − 2 h~ u~, p = 2 (m u + ω × h)."""
    (m, h, j), v = a.inertia(x.args[0]), a.column(x.args[1])
    w, u = v[:3], v[3:]
    trace = add(add(j[0][0], j[1][1]), j[2][2])
    twice = [[sub(mul(2, j[i][k]), trace if i == k else 0) for k in range(3)] for i in range(3)]
    turned = matmul(cross_matrix(w), twice)
    double = [mul(2, c) for c in h]
    along = dot(double, u)
    rows = [
        [mul_sub(add(turned[i][k], along if i == k else 0), u[i], double[k]) for k in range(3)]
        for i in range(3)
    ]
    swept = cross(w, h)
    momentum = [mul(2, mul_add(m, u[i], swept[i])) for i in range(3)]
    return a.gyration_block([e for row in rows for e in row] + momentum)


def inertia_rate(a: Arithmetic, x: Field) -> Block:
    """S[V] M − M V~: no mass, first moments m u + ω × h, moments of the moving body."""
    (m, h, j), v = a.inertia(x.args[0]), a.column(x.args[1])
    w, u = v[:3], v[3:]
    turned = matmul(cross_matrix(w), j)
    along = dot(h, u)
    lower: list[Entry] = []
    for i in range(3):
        for k in range(i + 1):  # ω~ J − J ω~ − u~ h~ − h~ u~
            rate = add(add(turned[i][k], turned[k][i]), mul(2, along) if i == k else 0)
            lower.append(mul_sub(mul_sub(rate, u[i], h[k]), h[i], u[k]))
    swept = cross(w, h)
    return a.inertia_block([0, *(mul_add(m, u[i], swept[i]) for i in range(3)), *lower])


def regress(a: Arithmetic, x: Field) -> Block:
    """M(π) z by its columns: computed in the body's own axes, those of π, then rotated back."""
    turn, z = a.turn(), a.column(x.args[0])
    w, v = matvec(turn, z[:3]), matvec(turn, z[3:6])
    moments = [
        [w[0], 0, 0], [0, w[1], 0], [0, 0, w[2]],
        [w[1], w[0], 0], [w[2], 0, w[0]], [0, w[2], w[1]],
    ]  # fmt: skip
    arms = zip(cross_matrix(v), cross_matrix(w), strict=True)
    columns: list[tuple[list[Entry], list[Entry]]] = [(_ZERO, v)]
    columns += [(p, [neg(c) for c in q]) for p, q in arms]  # −v~ and w~ by columns
    columns += [(m, _ZERO) for m in moments]
    back = transpose_rows(turn)
    turned = [matvec(back, top) + matvec(back, low) for top, low in columns]
    return a.dense(transpose_rows(turned))


def inertia_trace(a: Arithmetic, x: Field) -> Block:
    """tr(M(π) X) by the parameters, which are in the body's own axes."""
    m, turn = a.rows(x.args[0]), a.turn()
    top, right, left, low = (_corner(m, i, j) for i in (0, 3) for j in (0, 3))
    first = minus(_axial(left), _axial(right))
    z = matmul(matmul(turn, top), transpose_rows(turn))
    mass = add(low[0][0], add(low[1][1], low[2][2]))
    products = [add(z[i][j], z[j][i]) for i, j in ((0, 1), (0, 2), (1, 2))]
    entries = [mass, *matvec(turn, first), *(z[i][i] for i in range(3)), *products]
    return a.dense([[e] for e in entries])


def inertia_of(a: Arithmetic, x: Field) -> Block:
    """M(π), rotated from the body's own axes."""
    m, hx, hy, hz, xx, yy, zz, xy, xz, yz = a.column(x.args[0])
    turn = a.turn()
    back = transpose_rows(turn)
    j = matmul(matmul(back, [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]), turn)
    return a.inertia_block([m, *matvec(back, [hx, hy, hz]), *lower_half(j)])
