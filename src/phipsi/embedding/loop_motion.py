"""How the members of a loop move against their carrier, for any scalar.

Motions are [ω; v] in the axes of the carrier, v that of the point of the member that passes the
origin of the carrier. Then the motion of a member is the sum of those of the joints on its path,
and the rows of a loop are linear in the difference of two motions:

    W(k) = Σ h_j θ̇_j        G_ij = r_i · h_j  on the path to frame a, −r_i · h_j  on that to b

and joints that both paths have in common drop out. At constant free rates the joints accelerate
by θ̈ = Ẋ ξ̇ with G θ̈ = −Ġ θ̇.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, final

import numpy as np

from phipsi.core.model import (
    Dual,
    DualOps,
    closure_residual,
    closure_row,
    closure_row_rate,
)
from phipsi.core.sweeps import (
    add,
    cross,
    dot,
    identity,
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
from phipsi.embedding.loop_structure import CouplingRow, LoopStructure

Entry = Any
Vector = Sequence[Entry]
Rows = list[list[Entry]]
Frame = tuple[Rows, list[Entry]]


def moved(motion: list[Entry], frame: Frame) -> list[Entry]:
    """A motion in the axes of a frame, about its origin, in those of the carrier."""
    turn, origin = frame
    spin = matvec(turn, motion[:3])
    return [*spin, *plus(matvec(turn, motion[3:]), cross(origin, spin))]


def seen_from(motion: Vector, frame: Frame) -> list[Entry]:
    """The inverse of `moved`."""
    back, origin = transpose_rows(frame[0]), frame[1]
    spin, slide = list(motion[:3]), plus(motion[3:], cross(motion[:3], origin))
    return [*matvec(back, spin), *matvec(back, slide)]


def crossed(x: Vector, y: Vector) -> list[Entry]:
    """x × y of motions."""
    w, v = x[:3], x[3:]
    return [*cross(w, y[:3]), *plus(cross(v, y[:3]), cross(w, y[3:]))]


def crossed_force(x: Vector, f: Vector) -> list[Entry]:
    """x ×* f of a motion and a force."""
    w, v = x[:3], x[3:]
    return [*plus(cross(w, f[:3]), cross(v, f[3:])), *cross(w, f[3:])]


@final
class LoopMotion:
    """A structure at coordinates `q`, with its numbers `geometry` and the functions `ops`.

    **Attributes:** `frames`, rotation and origin of every member; `columns`, h_j of every rate;
    `accelerations`, Ẋ ξ̇ of the rates that `motion_and_bias` was called with last.
    """

    def __init__(self, x: LoopStructure, geometry: Vector, q: Vector, ops: Any) -> None:
        self.x, self.q, self.ops = x, q, ops
        self._numbers = iter(geometry)
        self.accelerations: list[Entry] = []
        self.frames: list[Frame] = []
        self.columns: list[list[Entry]] = []
        self._joints: list[tuple[list[Entry], Frame]] = []
        for m, at in zip(x.members, x.q_slices, strict=True):
            placed = self._frame()
            params = self._take(len(m.joint.params))
            turn, arm = m.joint.transform(params, q[at], ops)
            whole = _behind(placed, (_listed(turn), list(arm)))
            if m.parent >= 0:
                whole = _behind(self.frames[m.parent], whole)
            self.frames.append(whole)
            self._joints.append((params, whole))
            if m.joint.nv:
                axes = m.joint.hinge_axes(params, q[at], ops)
                self.columns += [moved(list(c), whole) for c in transpose_rows(_listed(axes))]
        self._closures = [self._closure(row) for row in x.rows]

    def _take(self, count: int) -> list[Entry]:
        return [next(self._numbers) for _ in range(count)]

    def _frame(self) -> Frame:
        turn = self._take(9)
        return [turn[:3], turn[3:6], turn[6:]], self._take(3)

    def _at(self, member: int, frame: Frame) -> Frame:
        return _behind(self.frames[member], frame) if member >= 0 else frame

    def _closure(self, row: Any) -> Any:
        """The numbers of a row; for frames also where they are, and each in the other."""
        if isinstance(row, CouplingRow):
            return self._take(len(row.terms)), self._take(1)[0]
        a, b = self._at(row.a, self._frame()), self._at(row.b, self._frame())
        return _JoinedFrames(a, b, self._take(1)[0])

    # ---- rows ------------------------------------------------------------------------------------

    def residuals(self) -> list[Entry]:
        """g, zero where the loops are closed."""
        out: list[Entry] = []
        for row, found in zip(self.x.rows, self._closures, strict=True):
            if isinstance(row, CouplingRow):
                factors, offset = found
                out.append(sub(dot(factors, [self.q[i] for _, i, _ in row.terms]), offset))
            else:
                out += [
                    closure_residual(
                        form, found.turn(form), found.arm, found.constant(form), self.ops.sqrt
                    )
                    for form in row.forms
                ]
        return out

    @cached_property
    def _covectors(self) -> list[Rows]:
        """r_i on the motion of frame a, in axes of the carrier about its origin, row by row."""
        out: list[Rows] = []
        for row, found in zip(self.x.rows, self._closures, strict=True):
            listed: Rows = []
            for form in () if isinstance(row, CouplingRow) else row.forms:
                R, p = found.a
                number = [found.constant(form)]
                own = closure_row(form, 0, found.turn(form), found.arm, number, self.ops.sqrt)
                force = matvec(R, own[3:])
                listed.append([*plus(matvec(R, own[:3]), cross(p, force)), *force])
            out.append(listed)
        return out

    @cached_property
    def jacobian(self) -> Rows:
        """G, a row for each bound rate."""
        out: Rows = []
        for row, found, listed in zip(self.x.rows, self._closures, self._covectors, strict=True):
            if isinstance(row, CouplingRow):
                entries: list[Entry] = [0] * self.x.nv
                for (j, *_), factor in zip(row.terms, found[0], strict=True):
                    entries[j] = factor
                out.append(entries)
                continue
            to_a, to_b = set(self.x.path(row.a)), set(self.x.path(row.b))
            for r in listed:
                entries = [0] * self.x.nv
                for j in to_a - to_b:
                    entries[j] = dot(r, self.columns[j])
                for j in to_b - to_a:
                    entries[j] = neg(dot(r, self.columns[j]))
                out.append(entries)
        return out

    def natural_sizes(self) -> list[float]:
        """How large each row would be if nothing in it cancelled, for numbers."""
        out: list[float] = []
        for row, found, listed in zip(self.x.rows, self._closures, self._covectors, strict=True):
            if isinstance(row, CouplingRow):
                out.append(float(np.linalg.norm(found[0])))
                continue
            moved = set(self.x.path(row.a)) ^ set(self.x.path(row.b))
            columns = [np.array(self.columns[j], float).reshape(2, 3) for j in moved]
            for r in listed:
                covector = np.linalg.norm(np.array(r, float).reshape(2, 3), axis=1)
                sizes = [covector @ np.linalg.norm(column, axis=1) for column in columns]
                out.append(float(np.linalg.norm(sizes)))
        return out

    @cached_property
    def _elimination(self) -> ColumnElimination:
        return ColumnElimination([[row[j] for row in self.jacobian] for j in self.x.bound])

    def solve_bound(self, right: Vector) -> list[Entry]:
        """The bound rates y with G_b y = right."""
        return self._elimination.solve(right)

    @cached_property
    def spread(self) -> Rows:
        """X, a row for each rate and a column for each free one."""
        columns = [self.solve_bound([neg(row[j]) for row in self.jacobian]) for j in self.x.free]
        out: Rows = [[] for _ in range(self.x.nv)]
        for j, unit in zip(self.x.free, identity(len(self.x.free)), strict=True):
            out[j] = list(unit)
        for i, j in enumerate(self.x.bound):
            out[j] = [column[i] for column in columns]
        return out

    def rates(self, free: Vector) -> list[Entry]:
        """θ̇ from the free rates."""
        return matvec(self.spread, free)

    def q_rate(self, rates: Vector) -> list[Entry]:
        """q̇ from the rates of all joints."""
        out: list[Entry] = []
        x = self.x
        for m, i, j, (params, _) in zip(
            x.members, x.q_slices, x.v_slices, self._joints, strict=True
        ):
            out += m.joint.q_rate(params, self.q[i], rates[j], self.ops)
        return out

    # ---- motions ---------------------------------------------------------------------------------

    def motions(self, member: int) -> Rows:
        """S(k): the motion of a member for each unit free rate."""
        path, n = self.x.paths[member], len(self.x.free)
        out: Rows = []
        for i in range(n):
            total: list[Entry] = [0] * 6
            for j in path:
                factor = self.spread[j][i]
                total = [mul_add(c, factor, t) for c, t in zip(self.columns[j], total, strict=True)]
            out.append(total)
        return out

    def _along(self, rates: Vector, member: int) -> list[Entry]:
        total: list[Entry] = [0] * 6
        for j in self.x.path(member):
            total = [mul_add(c, rates[j], t) for c, t in zip(self.columns[j], total, strict=True)]
        return total

    def motion_and_bias(self, free: Vector) -> tuple[list[list[Entry]], list[list[Entry]]]:
        """W(k) at free rates, and Ẇ(k) at constant free rates, component by component."""
        x, rates = self.x, self.rates(free)
        W = [self._along(rates, k) for k in range(len(x.members))]
        swept: list[list[Entry]] = []
        for k, (m, i, j) in enumerate(zip(x.members, x.q_slices, x.v_slices, strict=True)):
            before: list[Entry] = swept[m.parent] if m.parent >= 0 else [0] * 6
            if m.joint.nv:
                own: list[Entry] = [0] * 6
                for c in range(j.start, j.stop):
                    column, rate = self.columns[c], rates[c]
                    own = [mul_add(h, rate, t) for h, t in zip(column, own, strict=True)]
                params, frame = self._joints[k]
                change = m.joint.hinge_axes_rate(params, self.q[i], rates[j], self.ops)
                turned = moved(matvec(_listed(change), rates[j]), frame)
                before = plus(plus(before, crossed(W[k], own)), turned)
            swept.append(before)
        pushed = self.solve_bound([neg(c) for c in self._row_bias(W, swept)])
        whole: list[Entry] = [0] * x.nv
        for j, c in zip(x.bound, pushed, strict=True):
            whole[j] = c
        self.accelerations = whole
        return W, [plus(s, self._along(whole, k)) for k, s in enumerate(swept)]

    def _row_bias(self, W: Rows, swept: Rows) -> list[Entry]:
        """Ġ θ̇: how the rates of the rows change while no joint accelerates."""
        still: list[Entry] = [0] * 6
        out: list[Entry] = []
        for row, found, listed in zip(self.x.rows, self._closures, self._covectors, strict=True):
            if isinstance(row, CouplingRow):
                out.append(0)
                continue
            here, there = (W[k] if k >= 0 else still for k in (row.a, row.b))
            # the twist of b seen from a, and how r turns with a
            own = seen_from(minus(here, there), found.a)
            spin = [neg(c) for c in own[:3]]
            twist = [*spin, *minus(cross(spin, found.arm), own[3:])]
            first, second = (swept[k] if k >= 0 else still for k in (row.a, row.b))
            pushed = plus(minus(first, second), crossed(here, there))
            for form, r in zip(row.forms, listed, strict=True):
                turn, number = found.turn(form), [found.constant(form)]
                rate = closure_row_rate(form, 0, turn, found.arm, twist, number, self.ops.sqrt)
                out.append(add(dot(rate, own), dot(r, pushed)))
        return out


def along(
    x: LoopStructure, geometry: Vector, q: Vector, directions: Sequence[Vector], ops: Any
) -> LoopMotion:
    """The motion at coordinates that move along free rates, one direction after the other.

    The entries are dual numbers, nested as often as there are directions.
    """
    for free in directions:
        at = LoopMotion(x, geometry, q, ops)
        rates = at.q_rate(at.rates(free))
        q = [Dual(c, rate) for c, rate in zip(q, rates, strict=True)]
        ops = DualOps(ops)
    return LoopMotion(x, geometry, q, ops)


@final
class _JoinedFrames:
    """Frames a and b in the axes of the carrier, and each seen from the other."""

    def __init__(self, a: Frame, b: Frame, constant: Entry) -> None:
        self.a, self.b, self._constant = a, b, constant
        self._back = transpose_rows(a[0])
        self.arm = matvec(self._back, minus(b[1], a[1]))

    def turn(self, form: str) -> Rows:
        """R of frame b in frame a, if the row has to do with it."""
        return identity(3) if form[0] in "rd" else self._turn

    @cached_property
    def _turn(self) -> Rows:
        return matmul(self._back, self.b[0])

    def constant(self, form: str) -> Entry:
        """The constant of a row."""
        return self._constant if form in ("R22", "distance") else 0


@final
class ColumnElimination:
    """Columns of equations, made orthogonal one after the other; no pivot depends on numbers."""

    def __init__(self, columns: Rows) -> None:
        self._columns: Rows = []
        self._inverse: list[Entry] = []
        self._above: Rows = []  # how much of each earlier column a column has
        for column in columns:
            shares: list[Entry] = []
            for c, inverse in zip(self._columns, self._inverse, strict=True):
                share = mul(dot(c, column), inverse)
                column = [mul_sub(y, share, z) for y, z in zip(column, c, strict=True)]
                shares.append(share)
            self._columns.append(column)
            self._inverse.append(1 / dot(column, column))
            self._above.append(shares)

    def solve(self, right: Vector) -> list[Entry]:
        """The y with columns · y = right."""
        rest, shares = list(right), []
        for c, inverse in zip(self._columns, self._inverse, strict=True):
            share = mul(dot(c, rest), inverse)
            rest = [mul_sub(y, share, z) for y, z in zip(rest, c, strict=True)]
            shares.append(share)
        for i in reversed(range(len(shares))):
            for k in range(i):
                shares[k] = mul_sub(shares[k], self._above[i][k], shares[i])
        return shares


def _behind(first: Frame, second: Frame) -> Frame:
    """A frame that is given in another one, as that one is."""
    turn, arm = first
    return matmul(turn, second[0]), plus(arm, matvec(turn, second[1]))


def _listed(rows: Any) -> Rows:
    return [list(row) for row in rows]
