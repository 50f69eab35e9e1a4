"""Machine code of the interior point; see `interior_point`.

Heads of side groups (rolling, limits) are eliminated inside their contact, and the equations of a
contact are divided by Arw(y) T, so that the matrix is W with blocks on its diagonal:

    W dy + T⁻¹ Arw(y)⁻¹ Arw(z) dy = T⁻¹ Arw(y)⁻¹ (κ e − y ∘ z) − ρ

with ρ the error of z = W y + b + (s + |z_t|) e_n. It is eliminated without pivoting.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, final

from phipsi.backends.native.text.lane_arithmetic import Lane, write_loop
from phipsi.contact.interior_point import (
    BOUNDARY,
    CARRIED,
    CENTRED,
    ITERATIONS,
    LEVEL,
    ROUNDED,
    SHORTEST,
)
from phipsi.contact.lane_cones import HEAD, SLIDING, C, ConeLanes, ConvexCode, Kind
from phipsi.contact.lane_elimination import copy_last_column, eliminate, substitute

# numbers of a contact: the known y of a limit; z of the head of the side group, its change, that of
# the predictor; the unit of impulse
_BETA, _SIDE, _SIDE_STEP, _SIDE_GUESS, _UNIT = range(HEAD, HEAD + 5)

Vector = list[Lane]


class _Cone(NamedTuple):
    """A cone of a contact: its tangential rows, y and z of its head."""

    rows: tuple[int, ...]
    y: Lane
    z: Lane


_Cones = list[_Cone]
_Part = tuple[Lane, dict[int, Lane]]
"""Numbers of a cone: of its head, and of its rows."""


class _Local(NamedTuple):
    """Equations of a contact: W dy + D dy = right − ρ."""

    D: dict[tuple[int, int], Lane]
    right: dict[int, Lane]


@final
class InteriorCode:
    """Writes the iterations on a problem of lanes; they end with y, or at `kappa` (J)."""

    def __init__(self, m: ConeLanes, kappa: float = 0.0) -> None:
        self.level = kappa
        self.m, self.e, self.b = m, m.e, m.b
        self.Y, self.Z, self.step_Y, self.step_Z, self.guess_Y, self.guess_Z, self.tau = m.vectors[
            7:14
        ]
        self.speed, self.kappa, self.target, self.reach, self.off, self.many = (
            m.b.alloca(m.e.vector) for _ in range(6)
        )
        self.convex = ConvexCode(m)
        self.live, self.solved = m.b.alloca(m.e.mask), m.b.alloca(m.e.mask)

    # ---- contacts

    def main(self, kind: Kind) -> tuple[int, ...]:
        """The group of the first cone."""
        return kind.groups[0] if kind.has_head and kind.groups else ()

    def has_side(self, kind: Kind) -> bool:
        """Whether the last group has a head of its own."""
        return not kind.has_head or len(kind.groups) == 2

    def cones(self, kind: Kind, i: Any, Y: Vector, Z: Vector, side: int = _SIDE) -> _Cones:
        """The cones of a contact, that of the side group last.

        Y, Z and `side`, the number that the contact has for z of its head, may be changes.
        """
        m, out = self.m, [_Cone(self.main(kind), Y[0], Z[0])] if kind.has_head else []
        if self.has_side(kind):
            known = m.load(m.of(i, _BETA)) if side == _SIDE else self.e.constant(0.0)
            y = Y[0] if kind.has_head else known
            out.append(_Cone(kind.groups[-1], y, m.load(m.of(i, side))))
        return out

    def is_there(self, first: Any) -> Any:
        """Whether a lane has the contact."""
        return self.e.compare(">", self.m.load(self.m.sigma, first), 0.0)

    def state(self, base: Any, kind: Kind, first: Any) -> Vector:
        """Numbers of all rows of a contact."""
        return self.m.rows(base, first, range(len(kind.letters)))

    # ---- the beginning

    def begin(self, size: Lane) -> None:
        """Units, and the first point."""
        m, e = self.m, self.e
        m.store(0.0, self.speed)
        for base in (self.tau, self.Y, self.Z):
            m.fill(m.n, 0.0, base)
        m.each_contact(self._units)
        speed = m.load(self.speed)
        m.store(e.select(e.compare(">", speed, 0.0), speed, 1.0), self.speed)
        m.store(0.0, self.many)
        m.each_contact(lambda kind, i, first: self._first(kind, i, first, size))

    def _units(self, kind: Kind, i: Any, first: Any) -> None:
        m, e, b = self.m, self.e, self.b
        scales, largest = [], e.constant(0.0)
        for t in range(len(kind.letters)):
            row = m.plus(first, t)
            scale = m.load(m.of(i, C)) if t in self.main(kind) else e.constant(1.0)
            own = m.load(m.W, m.plus(b.mul(row, m.n), row)) * scale * scale
            largest = m.larger(largest, own)
            scales.append(scale)
        unit = 1.0 / m.root(e.select(e.compare(">", largest, 0.0), largest, 1.0))
        m.store(unit, m.of(i, _UNIT))
        speed = m.load(self.speed)
        for t, scale in enumerate(scales):
            row = m.plus(first, t)
            m.store(unit * scale, self.tau, row)
            speed = m.larger(speed, m.size(unit * scale * m.load(m.free, row)))
        m.store(speed, self.speed)

    def _first(self, kind: Kind, i: Any, first: Any, size: Lane) -> None:
        m, e = self.m, self.e
        count = e.constant(0.0)
        if kind.has_head:
            m.store(size, self.Y, first)
            m.store(size, self.Z, first)
            count = count + 1.0
        else:
            limit = m.load(m.of(i, C)) / (m.load(m.of(i, _UNIT)) * m.load(self.speed))
            m.store(m.larger(limit, e.constant(1e-300)), m.of(i, _BETA))
        if self.has_side(kind):
            m.store(size, m.of(i, _SIDE))
            count = count + 1.0
        there = e.select(self.is_there(first), count, 0.0)
        m.store(m.load(self.many) + there, self.many)

    # ---- velocities

    def scaled(self, row: Any) -> tuple[Lane, Lane]:
        """τ · speed, τ / speed of a row."""
        m = self.m
        tau, speed = m.load(self.tau, row), m.load(self.speed)
        return tau * speed, tau / speed

    def velocities(self, steps: bool) -> None:
        """z = W y + b of the problem at Y, or where the step leads."""
        m = self.m

        def one(i: Any) -> None:
            x = m.load(self.Y, i)
            x = x + m.load(self.step_Y, i) if steps else x
            m.store(x * self.scaled(i)[0], m.new, i)

        write_loop(self.b, m.n, one)
        m.multiply(m.new)

    def speeds(self, kind: Kind, i: Any, first: Any) -> Vector:
        """u of a contact in its units, with s at the normal."""
        m = self.m
        out = [
            m.load(m.z, m.plus(first, t)) * self.scaled(m.plus(first, t))[1]
            for t in range(len(kind.letters))
        ]
        if kind.has_head:
            unit = m.load(m.of(i, _UNIT)) / m.load(self.speed)
            out[0] = out[0] + (m.load(m.s, i) + m.load(m.of(i, SLIDING))) * unit
        return out

    def errors(self, kind: Kind, i: Any, first: Any, Z: Vector, cones: _Cones) -> Vector:
        """ρ of a contact."""
        rho = [u - z for u, z in zip(self.speeds(kind, i, first), Z, strict=True)]
        if kind.has_head:
            for group in kind.groups:
                rho[0] = rho[0] + self.slid([Z[t] for t in group])
            for side in cones[1:]:
                rho[0] = rho[0] - side.z
        return rho

    def slid(self, z: Vector) -> Lane:
        """|z|, or zero in convex problems."""
        return self.m.length(z) * self.m.load(self.convex.slides)

    def direction(self, z: Vector) -> Vector:
        """The derivative of `slid`: z / |z|, or zero."""
        e, size = self.e, self.m.length(z)
        inverse = self.m.load(self.convex.slides) / e.select(e.compare(">", size, 0.0), size, 1.0)
        return [x * inverse for x in z]

    # ---- products

    def product(self, cone: _Cone, Y: Vector, Z: Vector) -> _Part:
        """Y ∘ Z of a cone."""
        head, rows = cone.y * cone.z, dict[int, Lane]()
        for t in cone.rows:
            head = Y[t].times_plus(Z[t], head)
            rows[t] = cone.y.times_plus(Z[t], cone.z * Y[t])
        return head, rows

    def local(self, kind: Kind, i: Any, first: Any, corrected: bool) -> _Local:
        """The equations of a contact; those of one that a lane does not have are dy = 0."""
        e = self.e
        Y, Z = self.state(self.Y, kind, first), self.state(self.Z, kind, first)
        cones = self.cones(kind, i, Y, Z)
        ends = self.right(kind, i, first, cones, Y, Z, corrected)
        D, right, extra = {}, {}, {}
        if self.has_side(kind):
            D, right, extra = self._of_side(kind, Y, Z, cones[-1], ends[-1])
        if kind.has_head:
            group, (head, by_rows) = self.main(kind), ends[0]
            rows = (0, *group)
            at = self.direction([Z[t] for t in group]) if group else []
            for u in rows:
                column = {t: Z[u] if t == 0 else Z[t] if u == 0 else e.constant(0.0) for t in rows}
                column[u] = Z[0]
                for t, x in self._divided(Y, column, group, at).items():
                    D[t, u] = x
            right |= self._divided(Y, {0: head, **by_rows}, group, at)
            for u, x in extra.items():
                if u < 0:
                    right[0] = right[0] - x
                else:
                    D[0, u] = D[0, u] + x if (0, u) in D else x
        rho = self.errors(kind, i, first, Z, cones)
        there = self.is_there(first)
        D = {at: e.select(there, x, 1.0 if at[0] == at[1] else 0.0) for at, x in D.items()}
        return _Local(D, {t: e.select(there, x - rho[t], 0.0) for t, x in right.items()})

    def right(
        self, kind: Kind, i: Any, first: Any, cones: _Cones, Y: Vector, Z: Vector, corrected: bool
    ) -> list[_Part]:
        """κ e − y ∘ z, without the product of the predictor's changes if they are known."""
        target = self.m.load(self.target)
        products = [self.product(cone, Y, Z) for cone in cones]
        out = [(target - head, {t: -x for t, x in rows.items()}) for head, rows in products]
        if not corrected:
            return out
        dY, dZ = (self.state(x, kind, first) for x in (self.guess_Y, self.guess_Z))
        guesses = self.cones(kind, i, dY, dZ, _SIDE_GUESS)
        more = [self.product(guess, dY, dZ) for guess in guesses]
        return [
            (head - over, {t: x - beyond[t] for t, x in rows.items()})
            for (head, rows), (over, beyond) in zip(out, more, strict=True)
        ]

    def _divided(self, Y: Vector, a: dict[int, Lane], group: Any, at: Vector) -> dict[int, Lane]:
        """T⁻¹ Arw(y)⁻¹ a."""
        total, square = Y[0] * a[0], Y[0] * Y[0]
        for t in group:
            total, square = total - Y[t] * a[t], square - Y[t] * Y[t]
        head = total / square
        out = {t: (a[t] - Y[t] * head) / Y[0] for t in group}
        for t, x in zip(group, at, strict=True):
            head = head - x * out[t]
        return {0: head, **out}

    def _of_side(
        self, kind: Kind, Y: Vector, Z: Vector, side: _Cone, r: _Part
    ) -> tuple[dict[tuple[int, int], Lane], dict[int, Lane], dict[int, Lane]]:
        """D and right of the side group, and what it adds to dz_n, by rows and without dy (−1)."""
        e, (rows, beta, w), (head, ends) = self.e, side, r
        inverse = 1.0 / beta
        square = beta * beta
        for t in rows:
            square = square - Y[t] * Y[t]

        def divided(v: dict[int, Lane]) -> dict[int, Lane]:
            """(β − y y*/β)⁻¹ v."""
            total = e.constant(0.0)
            for t in rows:
                total = Y[t].times_plus(v[t], total)
            part = total / square
            return {t: (v[t] + Y[t] * part) * inverse for t in rows}

        def along(v: dict[int, Lane], x: Vector) -> Lane:
            total = e.constant(0.0)
            for t in rows:
                total = x[t].times_plus(v[t], total)
            return total

        given = divided({t: ends[t] - Y[t] * head * inverse for t in rows})
        at = dict(zip(rows, self.direction([Z[t] for t in rows]), strict=True))
        lean = [at.get(t, e.constant(0.0)) for t in range(len(Y))]
        D, zero = dict[tuple[int, int], Lane](), e.constant(0.0)
        extra = {-1: along(given, lean) - (head - along(given, Y)) * inverse}
        columns = [(u, Z[u], {t: w if t == u else zero for t in rows}) for u in rows]
        columns += [(0, w, {t: Z[t] for t in rows})] if kind.has_head else []
        for u, z, entries in columns:
            column = divided({t: entries[t] - Y[t] * z * inverse for t in rows})
            D |= {(t, u): x for t, x in column.items()}
            extra[u] = -along(column, lean) - (along(column, Y) - z) * inverse
        return D, given, extra

    # ---- steps

    def solve(self, corrected: bool) -> None:
        """The change of Y, from the equations; then those of Z and of side heads.

        The corrector has the matrix of the predictor, and takes its factors.
        """
        m = self.m
        if not corrected:
            self.fill()
        self.velocities(steps=False)
        m.each_contact(lambda kind, i, first: self._put(kind, i, first, corrected))
        if not corrected:
            self.pad()
        if corrected:
            copy_last_column(m, m.J, m.n, self.step_Y)
            substitute(m, m.J, m.n, self.step_Y, m.lows, m.ends)
        else:
            eliminate(m, m.J, m.n, self.step_Y, m.ends)
        self.velocities(steps=True)
        m.store(math.inf, self.reach)
        m.each_contact(lambda kind, i, first: self._change(kind, i, first, corrected))

    def fill(self) -> None:
        """W in the units of the contacts; zeros as the last column."""
        m, b = self.m, self.b
        columns = m.plus(m.n, 1)

        def row(i: Any) -> None:
            mine = m.load(self.tau, i)
            source, target = m.at(m.W, b.mul(i, m.n)), m.at(m.J, b.mul(i, columns))

            def one(j: Any) -> None:
                m.store(m.load(source, j) * (mine * m.load(self.tau, j)), target, j)

            m.between(*m.columns_of(i, 1), one)
            m.store(0.0, target, m.n)

        write_loop(b, m.n, row)

    def pad(self) -> None:
        """Rows beyond those of contacts, whose diagonal is zero, are those of I."""
        m, b, e = self.m, self.b, self.e
        columns = m.plus(m.n, 1)

        def one(i: Any) -> None:
            place = m.at(m.J, m.plus(b.mul(i, columns), i))
            x = m.load(place)
            m.store(e.select(e.compare("==", x, 0.0), 1.0, x), place)

        write_loop(b, m.n, one)

    def _put(self, kind: Kind, i: Any, first: Any, corrected: bool) -> None:
        m, b = self.m, self.b
        columns = m.plus(m.n, 1)
        found = self.local(kind, i, first, corrected)
        J = [m.at(m.J, b.mul(m.plus(first, t), columns)) for t in range(len(kind.letters))]
        for (t, u), x in () if corrected else found.D.items():
            place = m.at(J[t], m.plus(first, u))
            m.store(m.load(place) + x, place)
        for t, x in found.right.items():
            m.store(x, J[t], m.n)

    def _change(self, kind: Kind, i: Any, first: Any, corrected: bool) -> None:
        """dZ = where the step leads − Z, and how far the step may go."""
        m, e = self.m, self.e
        Y, Z = self.state(self.Y, kind, first), self.state(self.Z, kind, first)
        dY, cones = self.state(self.step_Y, kind, first), self.cones(kind, i, Y, Z)
        u = self.speeds(kind, i, first)
        dZ = [a - z for a, z in zip(u, Z, strict=True)]
        if self.has_side(kind):
            side, (total, _) = cones[-1], self.right(kind, i, first, cones, Y, Z, corrected)[-1]
            total = total - side.z * dY[0] if kind.has_head else total
            for t in side.rows:
                total = total - Y[t] * dZ[t] - Z[t] * dY[t]
            m.store(total / side.y, m.of(i, _SIDE_STEP))
        if kind.has_head:
            for group in kind.groups:
                z = [Z[t] for t in group]
                dZ[0] = dZ[0] + self.slid(z)
                for t, x in zip(group, self.direction(z), strict=True):
                    dZ[0] = x.times_plus(dZ[t], dZ[0])
            for side in cones[1:]:
                dZ[0] = dZ[0] - side.z - m.load(m.of(i, _SIDE_STEP))
        for t, x in enumerate(dZ):
            m.store(x, self.step_Z, m.plus(first, t))
        reach = e.constant(math.inf)
        changes = self.cones(kind, i, dY, dZ, _SIDE_STEP)
        for cone, change in zip(cones, changes, strict=True):
            for x, d, h, k in ((Y, dY, cone.y, change.y), (Z, dZ, cone.z, change.z)):
                mine = [x[t] for t in cone.rows], [d[t] for t in cone.rows]
                reach = self._nearer(reach, *mine, h, k)
        old = m.load(self.reach)
        near = self.b.and_(self.is_there(first), self.b.not_(e.compare(">=", reach, old)))
        m.store(e.select(near, reach, old), self.reach)

    def _nearer(self, reach: Lane, x: Vector, d: Vector, h: Lane, k: Lane) -> Lane:
        """The longest step that stays in a cone, if it is shorter than another."""
        m, e, b = self.m, self.e, self.b
        half, a, size = h * k, k * k, e.constant(0.0)
        for p, q in zip(x, d, strict=True):
            half, a, size = half - p * q, a - q * q, p.times_plus(p, size)
        size = m.root(size)
        c = m.larger((h - size) * (h + size), e.constant(0.0))
        root = half * half - a * c
        below = m.root(m.larger(root, e.constant(0.0))) - half
        hit = b.and_(e.compare(">=", root, 0.0), e.compare(">", below, 0.0))
        found = e.select(hit, c / e.select(hit, below, 1.0), math.inf)
        finite = e.compare("==", root, root)
        return e.select(finite, e.select(e.compare("<", found, reach), found, reach), root)

    def _gap(self, kind: Kind, i: Any, first: Any, length: Any) -> None:
        """Add y*z of a contact, where a step of this length leads."""
        m, e = self.m, self.e
        Y, Z = self.state(self.Y, kind, first), self.state(self.Z, kind, first)
        cones = self.cones(kind, i, Y, Z)
        if length is not None:
            dY, dZ = (self.state(x, kind, first) for x in (self.step_Y, self.step_Z))
            changes = self.cones(kind, i, dY, dZ, _SIDE_STEP)
            Y = [d.times_plus(length, x) for d, x in zip(dY, Y, strict=True)]
            Z = [d.times_plus(length, x) for d, x in zip(dZ, Z, strict=True)]
            cones = [
                _Cone(x.rows, d.y.times_plus(length, x.y), d.z.times_plus(length, x.z))
                for x, d in zip(cones, changes, strict=True)
            ]
        total = e.constant(0.0)
        for cone in cones:
            total = total + self.product(cone, Y, Z)[0]
        total = e.select(self.is_there(first), total, 0.0)
        m.store(m.load(self.kappa) + total, self.kappa)

    def gap(self, length: Any = None) -> Lane:
        """κ, the mean of y*z of all cones."""
        m = self.m
        m.store(0.0, self.kappa)
        m.each_contact(lambda kind, i, first: self._gap(kind, i, first, length))
        return m.load(self.kappa) / m.larger(m.load(self.many), self.e.constant(1.0))

    def iterate(self, which: Any, size: Lane, count: Any) -> None:
        """From a first point of this size, in some lanes, to y; `count` is added to."""
        m, e, b = self.m, self.e, self.b
        self.begin(size)
        b.store(which, self.live)
        b.store(m.never(), self.solved)

        def once(_: Any, live: Any) -> None:
            m.store(m.load(count) + e.select(live, 1.0, 0.0), count)
            self.step(live)

        m.rounds(ITERATIONS, lambda: m.mask(self.live), once)

        def one(i: Any) -> None:
            y = m.load(self.Y, i) * self.scaled(i)[0]
            there = b.and_(which, e.compare(">", m.load(m.sigma, i), 0.0))
            old = e.select(which, 0.0, m.load(m.y, i))
            m.store(e.select(there, y, old), m.y, i)

        write_loop(b, m.n, one)

    def step(self, live: Any) -> None:
        """A predictor and a corrector."""
        m, e, b = self.m, self.e, self.b
        kappa = self.gap()
        m.store(self.floor() if self.level else 0.0, self.target)
        self.solve(corrected=False)
        length = self._least(m.load(self.reach), 1.0)
        ahead = self.gap(length)
        centre = self._least(m.larger(ahead / kappa, e.constant(0.0)), 1.0)
        aim = centre * centre * centre * kappa
        m.store(m.larger(aim, self.floor()) if self.level else aim, self.target)
        for source, target in ((self.step_Y, self.guess_Y), (self.step_Z, self.guess_Z)):
            m.copy(m.n, source, target)
        m.each_contact(self._keep_side)
        self.solve(corrected=True)
        length = self._least(m.load(self.reach) * BOUNDARY, 1.0)
        m.store(0.0, self.off)
        self.velocities(steps=False)
        m.each_contact(self._largest_error)
        fine = b.and_(live, e.compare(">=", length, 0.0))
        for base, change in ((self.Y, self.step_Y), (self.Z, self.step_Z)):

            def one(i: Any, base: Any = base, change: Any = change) -> None:
                old = m.load(base, i)
                new = m.load(change, i).times_plus(length, old)
                m.store(e.select(fine, new, old), base, i)

            write_loop(b, m.n, one)
        m.each_contact(lambda kind, i, first: self._move_side(kind, i, fine, length))
        kappa = self.gap()
        off = m.load(self.off) * (1.0 - length)
        if self.level:
            m.store(0.0, self.kappa)
            m.each_contact(self._largest_gap)
            least = m.larger(self.floor() * LEVEL, e.constant(ROUNDED))
            centred = e.compare("<=", m.load(self.kappa), least)
        else:
            centred = e.compare("<=", kappa, CENTRED)
        over = b.and_(centred, e.compare("<=", off, CARRIED))
        b.store(b.or_(m.mask(self.solved), b.and_(fine, over)), self.solved)
        over = b.or_(over, b.not_(e.compare(">=", length, SHORTEST)))
        b.store(b.and_(fine, b.not_(over)), self.live)

    def floor(self) -> Lane:
        """The κ that is kept, in the units of the problem."""
        speed = self.m.load(self.speed)
        return self.level / (speed * speed)

    def _largest_gap(self, kind: Kind, i: Any, first: Any) -> None:
        """The largest |y ∘ z − κ e| of a contact."""
        m, e = self.m, self.e
        Y, Z = self.state(self.Y, kind, first), self.state(self.Z, kind, first)
        floor, there, worst = self.floor(), self.is_there(first), m.load(self.kappa)
        for cone in self.cones(kind, i, Y, Z):
            head, rows = self.product(cone, Y, Z)
            for x in (*rows.values(), head - floor):
                worst = m.larger(worst, e.select(there, m.size(x), 0.0))
        m.store(worst, self.kappa)

    def _least(self, x: Lane, bound: float) -> Lane:
        """The smaller number, not a number where x is not."""
        return self.e.select(self.e.compare(">", x, bound), bound, x)

    def _keep_side(self, kind: Kind, i: Any, first: Any) -> None:
        m = self.m
        if self.has_side(kind):
            m.store(m.load(m.of(i, _SIDE_STEP)), m.of(i, _SIDE_GUESS))

    def _move_side(self, kind: Kind, i: Any, fine: Any, length: Lane) -> None:
        m = self.m
        if self.has_side(kind):
            old = m.load(m.of(i, _SIDE))
            new = m.load(m.of(i, _SIDE_STEP)).times_plus(length, old)
            m.store(self.e.select(fine, new, old), m.of(i, _SIDE))

    def _largest_error(self, kind: Kind, i: Any, first: Any) -> None:
        m = self.m
        Y, Z = self.state(self.Y, kind, first), self.state(self.Z, kind, first)
        there, worst = self.is_there(first), m.load(self.off)
        for x in self.errors(kind, i, first, Z, self.cones(kind, i, Y, Z)):
            worst = m.larger(worst, self.e.select(there, m.size(x), 0.0))
        m.store(worst, self.off)
