"""Blocks in generated code, each kind with the operations that are cheap for its structure.

Entries are `Lane` values or Python numbers; a number known to be 0 or 1 costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from phipsi.core.sweeps import (
    Entry,
    Rows,
    add,
    cross,
    cross_matrix,
    dot,
    full,
    gyration_rows,
    inertia_rows,
    is_fused,
    is_zero,
    lower_half,
    matmul,
    matvec,
    mul,
    mul_add,
    mul_sub,
    neg,
    plus,
    sub,
    transpose_rows,
    turning_rows,
)


class Dense:
    """A general matrix."""

    def __init__(self, rows: Sequence[Sequence[Entry]]) -> None:
        self.rows: Rows = [list(r) for r in rows]

    @property
    def entries(self) -> list[Entry]:
        """All entries, row by row."""
        return [x for r in self.rows for x in r]

    def like(self, entries: Sequence[Entry]) -> Dense:
        """A matrix of the same size with other entries."""
        n = len(self.rows[0]) if self.rows else 0
        return Dense([entries[i * n : (i + 1) * n] for i in range(len(self.rows))])

    def dense(self) -> Rows:
        """The rows."""
        return self.rows


class Symmetric:
    """A symmetric matrix: the lower half, row by row."""

    def __init__(self, lower: Sequence[Entry], n: int) -> None:
        self.lower, self.n = list(lower), n

    @property
    def entries(self) -> list[Entry]:
        """The lower half."""
        return self.lower

    def like(self, entries: Sequence[Entry]) -> Symmetric:
        """A symmetric matrix of the same size with other entries."""
        return Symmetric(entries, self.n)

    def dense(self) -> Rows:
        """All rows."""
        return full(self.lower, self.n)


class LaneInertia:
    """A rigid inertia [[J, h~], [−h~, m]]: m, h (3), lower half of J (6)."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = list(entries)
        self.m, self.h = entries[0], list(entries[1:4])
        self.moment = Symmetric(entries[4:10], 3)

    def like(self, entries: Sequence[Entry]) -> LaneInertia:
        """An inertia with other entries."""
        return LaneInertia(entries)

    def symmetric(self) -> Symmetric:
        """As a general symmetric 6 × 6."""
        return Symmetric(lower_half(self.dense()), 6)

    def dense(self) -> Rows:
        """All rows."""
        return inertia_rows(self.entries)


class Gyration:
    """[[A, 0], [−p~, 0]]: A (9) row by row, then p (3)."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = list(entries)
        self.a: Rows = [list(entries[3 * i : 3 * i + 3]) for i in range(3)]
        self.p = list(entries[9:12])

    def like(self, entries: Sequence[Entry]) -> Gyration:
        """A block of the same kind with other entries."""
        return Gyration(entries)

    def dense(self) -> Rows:
        """All rows."""
        return gyration_rows(self.entries)


class Turning:
    """[A, 0] with six columns: the three of A, row by row."""

    def __init__(self, rows: Sequence[Sequence[Entry]]) -> None:
        self.rows: Rows = [list(r[:3]) for r in rows]

    @property
    def entries(self) -> list[Entry]:
        """A row by row."""
        return [x for r in self.rows for x in r]

    def like(self, entries: Sequence[Entry]) -> Turning:
        """A block of the same size with other entries."""
        return Turning([entries[3 * i : 3 * i + 3] for i in range(len(self.rows))])

    def dense(self) -> Rows:
        """All rows."""
        return turning_rows(self.rows)


class LaneTransform:
    """[[R, l~ R], [0, R]]: R (9) and l (3)."""

    def __init__(self, turn: Rows, arm: Sequence[Entry]) -> None:
        self.turn, self.arm = turn, list(arm)

    @property
    def entries(self) -> list[Entry]:
        """R row by row, then l."""
        return [x for r in self.turn for x in r] + self.arm

    def like(self, entries: Sequence[Entry]) -> LaneTransform:
        """A rigid transformation with other entries."""
        return LaneTransform([list(entries[3 * i : 3 * i + 3]) for i in range(3)], entries[9:12])

    def dense(self) -> Rows:
        """All rows."""
        corner = matmul(cross_matrix(self.arm), self.turn)
        top = [self.turn[i] + corner[i] for i in range(3)]
        return top + [[0, 0, 0, *self.turn[i]] for i in range(3)]


class LaneStep:
    """[[X, 0], [Q* diag(R, R), 0]]: X = [[R, l~ R], [0, R]] (12), then the m rows of Q*.

    There are n columns of zeros behind the first six.
    """

    def __init__(self, rigid: LaneTransform, modal: Rows, n: int) -> None:
        self.rigid, self.modal, self.n = rigid, [list(row) for row in modal], n

    @property
    def entries(self) -> list[Entry]:
        """Those of X, then Q* row by row."""
        return self.rigid.entries + [x for row in self.modal for x in row]

    def like(self, entries: Sequence[Entry]) -> LaneStep:
        """A block of the same size with other entries."""
        m = len(self.modal)
        rows = [list(entries[12 + 6 * i : 18 + 6 * i]) for i in range(m)]
        return LaneStep(self.rigid.like(entries[:12]), rows, self.n)

    def dense(self) -> Rows:
        """All rows."""
        turn, zeros = self.rigid.turn, [0] * self.n
        columns = transpose_rows(turn)
        low = [[*matvec(columns, q[:3]), *matvec(columns, q[3:])] for q in self.modal]
        return [[*row, *zeros] for row in (*self.rigid.dense(), *low)]


class Transposed:
    """The transpose of a rigid transformation or of a step, kept as such."""

    def __init__(self, of: LaneTransform | LaneStep) -> None:
        self.of = of

    @property
    def entries(self) -> list[Entry]:
        """Those of what it is the transpose of."""
        return self.of.entries

    def like(self, entries: Sequence[Entry]) -> Transposed:
        """With other entries."""
        return Transposed(self.of.like(entries))

    def dense(self) -> Rows:
        """All rows."""
        return transpose_rows(self.of.dense())


class Inverse(Symmetric):
    """A⁻¹ of a positive A = L diag(d) L*: products substitute; entries are made when asked for.

    Rows of A times A⁻¹ are those of the identity, known without arithmetic.
    """

    def __init__(self, of: Rows, low: Rows, recip: Sequence[Entry]) -> None:
        self.of, self.low, self.recip, self.n = of, low, list(recip), len(of)
        self._lower: list[Entry] | None = None

    @property
    def lower(self) -> list[Entry]:  # type: ignore[override]
        """The lower half."""
        if self._lower is None:
            rows = [self.solve([int(i == j) for j in range(self.n)]) for i in range(self.n)]
            self._lower = lower_half(rows)
        return self._lower

    def solve(self, x: Sequence[Entry]) -> list[Entry]:
        """A⁻¹ x."""
        n, low = self.n, self.low
        for j, row in enumerate(self.of):
            if all(a is b for a, b in zip(row, x, strict=True)):
                return [int(i == j) for i in range(n)]
        out = list(x)
        for i in range(n):
            for k in range(i):
                out[i] = mul_sub(out[i], low[i][k], out[k])
        out = [mul(c, r) for c, r in zip(out, self.recip, strict=True)]
        for i in reversed(range(n)):
            for k in range(i + 1, n):
                out[i] = mul_sub(out[i], low[k][i], out[k])
        return out


class Gain(Dense):
    """X A⁻¹. Where a row of X is one of A, the row here is that of the identity: known."""


Block = Dense | Symmetric | LaneInertia | Gyration | Turning | LaneTransform | Transposed | LaneStep


# ---- blocks
# ----------------------------------------------------------------------------------------


def transpose(x: Block) -> Block:
    """The transpose, at no cost."""
    if isinstance(x, (Symmetric, LaneInertia)):
        return x
    if isinstance(x, (LaneTransform, LaneStep)):
        return Transposed(x)
    if isinstance(x, Transposed):
        return x.of
    if isinstance(x, (Gyration, Turning)):
        return Dense(transpose_rows(x.dense()))
    return Dense(transpose_rows(x.rows)) if x.rows else x


def times(x: Block, y: Block) -> Block:
    """x y."""
    back = y.of if isinstance(y, Transposed) and isinstance(y.of, LaneTransform) else None
    if back is not None and isinstance(x, (Gyration, Turning)):
        return Turning(matmul([row[:3] for row in x.dense()], transpose_rows(back.turn)))
    if back is not None and all(is_zero(c) for c in back.arm):
        y = LaneTransform(transpose_rows(back.turn), back.arm)  # a turn back is a turn
    if isinstance(y, (Gyration, Turning)):
        return Turning(times(x, Dense([row[:3] for row in y.dense()])).dense())
    if isinstance(x, LaneTransform) and isinstance(y, LaneTransform):
        return LaneTransform(matmul(x.turn, y.turn), plus(x.arm, matvec(x.turn, y.arm)))
    if isinstance(x, LaneTransform):
        return _by_column(y, lambda c: _move_force(x, c))
    if isinstance(x, LaneInertia):
        return _by_column(y, lambda c: _momentum(x, c))
    if isinstance(x, LaneStep):
        return _by_column(y, lambda c: _step_force(x, c))
    if isinstance(x, Transposed):
        of = x.of
        return _by_column(
            y,
            lambda c: _move_motion(of, c) if isinstance(of, LaneTransform) else _step_motion(of, c),
        )
    if isinstance(x, Inverse):
        return _by_column(y, x.solve)
    if isinstance(y, Inverse):
        return Gain([y.solve(row) for row in x.dense()])
    return Dense(matmul(x.dense(), y.dense()))


def times_symmetric(x: Block, y: Block) -> Symmetric:
    """x y, known to be symmetric: only the lower half is computed."""
    rows = x.dense()
    n = len(rows)
    columns = transpose_rows(y.dense()) or [[]] * n  # over the rates of a weld: zero
    pairs = [(i, j) for i in range(n) for j in range(i + 1)]
    if isinstance(x, Gain):  # known rows first: their products are entries of y
        sure = [not any(map(is_fused, row)) for row in rows]
        pairs = [(j, i) if sure[j] and not sure[i] else (i, j) for i, j in pairs]
    return Symmetric([dot(rows[i], columns[j]) for i, j in pairs], n)


def _by_column(y: Block, function: Callable[[list[Entry]], list[Entry]]) -> Dense:
    columns = [function(c) for c in transpose_rows(y.dense())]
    return Dense(transpose_rows(columns))


def _move_force(x: LaneTransform, f: list[Entry]) -> list[Entry]:
    force = matvec(x.turn, f[3:])
    return plus(matvec(x.turn, f[:3]), cross(x.arm, force)) + force


def _move_motion(x: LaneTransform, m: list[Entry]) -> list[Entry]:
    back = transpose_rows(x.turn)
    linear = plus(m[3:], cross(m[:3], x.arm))
    return matvec(back, m[:3]) + matvec(back, linear)


def _step_force(x: LaneStep, f: list[Entry]) -> list[Entry]:
    turn, arm = x.rigid.turn, x.rigid.arm
    moment, force = matvec(turn, f[:3]), matvec(turn, f[3:6])
    modal = [dot(q, moment + force) for q in x.modal]
    return plus(moment, cross(arm, force)) + force + modal


def _step_motion(x: LaneStep, m: list[Entry]) -> list[Entry]:
    back = transpose_rows(x.rigid.turn)
    motion = [*m[:3], *plus(m[3:6], cross(m[:3], x.rigid.arm))]
    for q, rate in zip(x.modal, m[6:], strict=True):
        motion = [mul_add(c, rate, y) for c, y in zip(q, motion, strict=True)]
    return matvec(back, motion[:3]) + matvec(back, motion[3:]) + [0] * x.n


def _momentum(x: LaneInertia, v: list[Entry]) -> list[Entry]:
    angular = plus(matvec(x.moment.dense(), v[:3]), cross(x.h, v[3:]))
    back = cross(x.h, v[:3])
    return angular + [mul_add(x.m, v[3 + i], neg(back[i])) for i in range(3)]


def congruence(a: Block, s: Block) -> Block:
    """A S A*."""
    if isinstance(a, LaneTransform) and isinstance(s, LaneInertia):
        return _move_inertia(a, s)
    if isinstance(a, LaneTransform) and isinstance(s, Gyration):
        return _move_gyration(a, s)
    if isinstance(a, LaneTransform):
        return _move_symmetric(a, s)
    if isinstance(a, Transposed) and isinstance(a.of, LaneTransform):
        return _move_symmetric_back(a.of, s)
    if isinstance(a, LaneStep):
        return _step_symmetric(a, s)
    left = matmul(a.dense(), s.dense())
    rows = a.dense()
    n = len(rows)
    return Symmetric([dot(left[i], rows[j]) for i in range(n) for j in range(i + 1)], n)


def _rotated_symmetric(turn: Rows, a: Rows) -> Rows:
    """R A R* with A symmetric, all rows."""
    left = matmul(turn, a)
    return full([dot(left[i], turn[j]) for i in range(3) for j in range(i + 1)], 3)


def _move_symmetric(x: LaneTransform, s: Block) -> Symmetric:
    """φ S φ* of a symmetric S = [[A, B], [B*, C]]."""
    return _shifted(x.arm, *_rotated_corners(x.turn, s.dense()))


def _step_symmetric(x: LaneStep, s: Block) -> Symmetric:
    """E S E* of a symmetric S: first to the other axes, then to modes, then to the other point."""
    a, b, c = _rotated_corners(x.rigid.turn, s.dense())
    rows = [[*u, *w] for u, w in zip(a, b, strict=True)]
    rows += [[*u, *w] for u, w in zip(transpose_rows(b), c, strict=True)]
    carried = [matvec(rows, q) for q in x.modal]  # the columns of S Q
    lower = _shifted(x.rigid.arm, a, b, c).lower
    for i, f in enumerate(carried):
        lower += plus(f[:3], cross(x.rigid.arm, f[3:])) + f[3:]
        lower += [dot(x.modal[j], f) for j in range(i + 1)]
    return Symmetric(lower, 6 + len(x.modal))


def _rotated_corners(turn: Rows, rows: Rows) -> tuple[Rows, Rows, Rows]:
    """A, B and C of a symmetric [[A, B], [B*, C]] in other axes."""
    a = _rotated_symmetric(turn, [r[:3] for r in rows[:3]])
    b = matmul(matmul(turn, [r[3:6] for r in rows[:3]]), transpose_rows(turn))
    c = _rotated_symmetric(turn, [r[3:6] for r in rows[3:6]])
    return a, b, c


def _shifted(arm: Sequence[Entry], a: Rows, b: Rows, c: Rows) -> Symmetric:
    """[[A, B], [B*, C]] about another point."""
    skew = cross_matrix(arm)
    moved = [plus(u, w) for u, w in zip(b, matmul(skew, c), strict=True)]  # B + l~ C
    one = matmul(skew, transpose_rows(b))  # l~ B*
    lower: list[Entry] = []
    for i in range(3):
        for j in range(i + 1):  # A + l~ B* + (B + l~ C) l~*
            lower.append(add(add(a[i][j], one[i][j]), dot(moved[i], skew[j])))
    for i in range(3):
        lower += [moved[k][i] for k in range(3)] + [c[i][j] for j in range(i + 1)]
    return Symmetric(lower, 6)


def _move_symmetric_back(x: LaneTransform, s: Block) -> Symmetric:
    """φ* S φ of a symmetric S = [[A, B], [B*, C]]: first to the other point, then to its axes."""
    rows = s.dense()
    a, b = [r[:3] for r in rows[:3]], [r[3:] for r in rows[:3]]
    c = [r[3:] for r in rows[3:]]
    skew, back = cross_matrix(x.arm), transpose_rows(x.turn)
    moved = [plus(u, w) for u, w in zip(b, matmul(a, skew), strict=True)]  # B + A l~
    one, two = matmul(skew, moved), matmul(transpose_rows(b), skew)
    half = [  # C − l~ (B + A l~) + B* l~
        add(sub(c[i][j], one[i][j]), two[i][j]) for i in range(3) for j in range(i + 1)
    ]
    a = _rotated_symmetric(back, a)
    corner = matmul(matmul(back, moved), x.turn)
    c = _rotated_symmetric(back, full(half, 3))
    lower = lower_half(a)
    for i in range(3):
        lower += [corner[k][i] for k in range(3)] + [c[i][j] for j in range(i + 1)]
    return Symmetric(lower, 6)


def _move_inertia(x: LaneTransform, s: LaneInertia) -> LaneInertia:
    """φ M φ* of a rigid inertia: moments about the other point in the other axes."""
    j = _rotated_symmetric(x.turn, s.moment.dense())
    h = matvec(x.turn, s.h)
    arm, m = x.arm, s.m
    moved = [mul_add(m, arm[i], h[i]) for i in range(3)]
    # J − l~ h~ − (h~ + m l~) l~ , written with products of components
    trace = add(dot(arm, h), dot(moved, arm))
    lower: list[Entry] = []
    for i in range(3):
        for k in range(i + 1):
            diagonal = add(j[i][k], trace if i == k else 0)
            lower.append(mul_sub(mul_sub(diagonal, h[i], arm[k]), arm[i], moved[k]))
    return LaneInertia([m, *moved, *lower])


def _move_gyration(x: LaneTransform, s: Gyration) -> Gyration:
    """φ G φ*: A about the other point in the other axes, p rotated."""
    p = matvec(x.turn, s.p)
    a = matmul(matmul(x.turn, s.a), transpose_rows(x.turn))
    along = dot(x.arm, p)
    rows = [
        [mul_sub(add(a[i][k], along if i == k else 0), p[i], x.arm[k]) for k in range(3)]
        for i in range(3)
    ]
    return Gyration([e for row in rows for e in row] + p)


def combine(terms: Sequence[tuple[Any, Block]]) -> Block:
    """Σ cᵢ Xᵢ, in the most special kind that holds all of them."""
    blocks = [x for _, x in terms]
    if all(isinstance(x, LaneInertia) for x in blocks) or all(
        isinstance(x, Gyration) for x in blocks
    ):
        return _entrywise(terms, blocks[0])
    if all(isinstance(x, (Gyration, Turning)) for x in blocks):
        turning = [(c, Turning(x.dense())) for c, x in terms]
        return _entrywise(turning, turning[0][1])
    if all(isinstance(x, (Symmetric, LaneInertia)) for x in blocks):
        plain = [(c, x.symmetric() if isinstance(x, LaneInertia) else x) for c, x in terms]
        return _entrywise(plain, plain[0][1])
    plain = [(c, x if isinstance(x, Dense) else Dense(x.dense())) for c, x in terms]
    return _entrywise(plain, plain[0][1])


def _entrywise(terms: Sequence[tuple[Any, Block]], like: Block) -> Block:
    out: list[Entry] = [0] * len(like.entries)
    for c, x in terms:
        for i, y in enumerate(x.entries):
            if c == 1:
                out[i] = add(out[i], y)
            elif c == -1:
                out[i] = 0 if out[i] is y else sub(out[i], y)
            else:
                out[i] = mul_add(float(c), y, out[i])
    return like.like(out)


def turned(x: Dense, turn: Rows) -> Dense:
    """diag(R, R) X."""
    return Dense(matmul(turn, x.rows[:3]) + matmul(turn, x.rows[3:6]) + x.rows[6:])


def turned_back(x: Dense, turn: Rows) -> Dense:
    """X diag(R, R)*."""
    return Dense(transpose_rows(turned(Dense(transpose_rows(x.rows)), turn).rows))


def rigid_zeros() -> LaneTransform:
    """Twelve zeros in the form of a rigid transformation, to be filled."""
    return LaneTransform([[0] * 3 for _ in range(3)], [0] * 3)


def step_zeros(m: int, n: int) -> LaneStep:
    """Zeros in the form of a step from a body with n modes to a parent with m, to be filled."""
    return LaneStep(rigid_zeros(), [[0] * 6 for _ in range(m)], n)


def zeros(rows: int, cols: int) -> Dense:
    """A block of zeros."""
    return Dense([[0] * cols for _ in range(rows)])
