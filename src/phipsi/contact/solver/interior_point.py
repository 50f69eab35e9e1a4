"""Interior point: impulses of contacts where Newton's method finds none.

Cones are unit cones here, and units those of the contacts: K ∋ y ⊥ z ∈ K with

    z = W y + b + (s + |z_t|) e_n,    y ∘ z = κ e,    κ → 0

and the Jordan product y ∘ z = [y_n z_t + z_n y_t; y*z]. A group beside the first of a contact
(rolling), or without a head (a limit), has a head of its own whose y is known, that of its contact
or one, and whose z is unknown; the heads of one contact share u_n + s + Σ |z_g|.

Heads of side groups are eliminated inside their contact, and the equations of a contact are divided
by Arw(y) T, so that the matrix is W with blocks on its diagonal:

    W dy + T⁻¹ Arw(y)⁻¹ Arw(z) dy = T⁻¹ Arw(y)⁻¹ (κ e − y ∘ z) − ρ

with ρ the error of z. It is eliminated without pivoting.

Convex problems have a known number in place of Σ |z_g|: `convex_rounds`. When which of them is
tried: `solver_attempts`.

**Source:** theory/contact 2 (K3b, K3c), 5, 7 (K37);
Acary, Cadoux, Lemaréchal and Malick 2011.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, final

from phipsi.contact.solver.convex_rounds import SLIDING, Sliding
from phipsi.contact.solver.scaled_problem import FOUND, HEAD, C, RowPattern, ScaledProblem
from phipsi.core.machine import Index, Mask, Memory, Number

ITERATIONS = 24
BOUNDARY = 0.99
"""Part of the way to the boundary that a step may take."""
CENTRED, CARRIED, SHORTEST = 1e-21, 1e-9, 1e-9
"""Where iterations end: κ, the error of the equations, the length of a step. A contact that touches
without force has p and u of √κ."""
LEVEL, ROUNDED = 1e-9, 1e-14
"""Error of y ∘ z = κ e for a κ that is kept, beside it or beside one."""

# numbers of a contact: the known y of a limit; z of the head of the side group, its change, that of
# the predictor; the unit of impulse
_BETA, _SIDE, _SIDE_STEP, _SIDE_GUESS, _UNIT = range(HEAD, HEAD + 5)

Vector = list[Number]


class _FrictionCone(NamedTuple):
    """A cone of a contact: its tangential rows, y and z of its head."""

    rows: tuple[int, ...]
    y: Any
    z: Any


_Cones = list[_FrictionCone]
_Part = tuple[Any, dict[int, Any]]
"""Numbers of a cone: of its head, and of its rows."""


class _LocalEquations(NamedTuple):
    """Equations of a contact: W dy + D dy = right − ρ."""

    D: dict[tuple[int, int], Number]
    right: dict[int, Number]


@final
class InteriorPoint:
    """The iterations on a scaled problem; they end with y, or at `kappa` (J).

    **Attributes:** `solved`, one where the iterations have ended at a solution.
    """

    def __init__(self, x: ScaledProblem, kappa: float = 0.0) -> None:
        self.level, self.x, self.m = kappa, x, x.m
        m = self.m
        self.Y, self.Z, self.tau = (x.vector() for _ in range(3))
        self.step_Y, self.step_Z, self.guess_Y, self.guess_Z = (
            x.vector(kept=False) for _ in range(4)
        )
        self.speed, self.target, self.reach, self.many = (m.number() for _ in range(4))
        self.live, self.solved, self.distance = (m.number() for _ in range(3))
        self.sliding = Sliding(x)

    # ---- contacts

    def main(self, kind: RowPattern) -> tuple[int, ...]:
        """The group of the first cone."""
        return kind.groups[0] if kind.has_head and kind.groups else ()

    def has_side(self, kind: RowPattern) -> bool:
        """Whether the last group has a head of its own."""
        return not kind.has_head or len(kind.groups) == 2

    def cones(self, kind: RowPattern, i: Index, Y: Vector, Z: Vector, side: int = _SIDE) -> _Cones:
        """The cones of a contact, that of the side group last.

        Y, Z and `side`, the number that the contact has for z of its head, may be changes.
        """
        of, out = self.x.of, [_FrictionCone(self.main(kind), Y[0], Z[0])] if kind.has_head else []
        if self.has_side(kind):
            known = of[i, _BETA] if side == _SIDE else 0.0
            out.append(
                _FrictionCone(kind.groups[-1], Y[0] if kind.has_head else known, of[i, side])
            )
        return out

    def is_there(self, first: Index) -> Mask:
        """Whether a lane has the contact."""
        return self.x.sigma[first] > 0.0

    def state(self, base: Memory, kind: RowPattern, first: Index) -> Vector:
        """Numbers of all rows of a contact."""
        return self.x.rows(base, first, range(len(kind.letters)))

    # ---- the beginning

    def begin(self, size: Number) -> None:
        """Units, and the first point."""
        m, x = self.m, self.x

        @m.each(0, x.n)
        def _(i: Index) -> None:
            self.tau[i] = self.Y[i] = self.Z[i] = 0.0

        x.each_contact(self._units)
        speed = x.largest(FOUND)
        self.speed.value = m.where(speed > 0.0, speed, 1.0)
        x.each_contact(lambda kind, i, first: self._first(kind, i, first, size))
        self.many.value = x.total(FOUND)

    def _units(self, kind: RowPattern, i: Index, first: Index) -> None:
        m, x = self.m, self.x
        scales: list[Any] = []
        largest: Any = 0.0
        for t in range(len(kind.letters)):
            row = first + t
            scale: Any = x.of[i, C] if t in self.main(kind) else 1.0
            own = x.W[row, row] * scale * scale
            largest = x.larger(largest, own) if t else m.where(own >= 0.0, own, 0.0)
            scales.append(scale)
        unit = 1.0 / m.sqrt(m.where(largest > 0.0, largest, 1.0))
        x.of[i, _UNIT] = unit
        speed: Any = 0.0
        for t, scale in enumerate(scales):
            tau = unit * scale
            self.tau[first + t] = tau
            fast = m.abs(tau * x.free[first + t])
            speed = m.where(fast > speed, fast, speed)
        x.of[i, FOUND] = speed

    def _first(self, kind: RowPattern, i: Index, first: Index, size: Number) -> None:
        m, x = self.m, self.x
        if kind.has_head:
            self.Y[first] = self.Z[first] = size
        else:
            limit = x.of[i, C] / (x.of[i, _UNIT] * self.speed.value)
            x.of[i, _BETA] = x.larger(limit, 1e-300)
        if self.has_side(kind):
            x.of[i, _SIDE] = size
        count = float(kind.has_head) + float(self.has_side(kind))
        x.of[i, FOUND] = m.where(self.is_there(first), count, 0.0)

    # ---- velocities

    def scaled(self, row: Index) -> tuple[Number, Number]:
        """τ · speed, τ / speed of a row."""
        tau, speed = self.tau[row], self.speed.value
        return tau * speed, tau / speed

    def velocities(self, steps: bool) -> None:
        """z = W y + b of the problem at Y, or where the step leads."""

        @self.m.each(0, self.x.n)
        def _(i: Index) -> None:
            y = self.Y[i] + self.step_Y[i] if steps else self.Y[i]
            self.x.new[i] = y * self.scaled(i)[0]

        self.x.multiply(self.x.new)

    def speeds(self, kind: RowPattern, i: Index, first: Index) -> Vector:
        """u of a contact in its units, with s at the normal."""
        x = self.x
        out = [x.z[first + t] * self.scaled(first + t)[1] for t in range(len(kind.letters))]
        if kind.has_head:
            unit = x.of[i, _UNIT] / self.speed.value
            out[0] = out[0] + (x.s[i] + x.of[i, SLIDING]) * unit
        return out

    def errors(self, kind: RowPattern, i: Index, first: Index, Z: Vector, cones: _Cones) -> Vector:
        """ρ of a contact."""
        rho = [u - z for u, z in zip(self.speeds(kind, i, first), Z, strict=True)]
        if kind.has_head:
            for group in kind.groups:
                rho[0] = rho[0] + self.slid([Z[t] for t in group])
            for side in cones[1:]:
                rho[0] = rho[0] - side.z
        return rho

    def slid(self, z: Vector) -> Number:
        """|z|, or zero in convex problems."""
        return self.x.length(z) * self.sliding.slides.value

    def direction(self, z: Vector) -> Vector:
        """The derivative of `slid`: z / |z|, or zero."""
        size = self.x.length(z)
        inverse = self.sliding.slides.value / self.m.where(size > 0.0, size, 1.0)
        return [x * inverse for x in z]

    # ---- products

    def product(self, cone: _FrictionCone, Y: Vector, Z: Vector) -> _Part:
        """Y ∘ Z of a cone."""
        m, head, rows = self.m, cone.y * cone.z, dict[int, Any]()
        for t in cone.rows:
            head = m.fma(Y[t], Z[t], head)
            rows[t] = m.fma(cone.y, Z[t], cone.z * Y[t])
        return head, rows

    def local(self, kind: RowPattern, i: Index, first: Index, corrected: bool) -> _LocalEquations:
        """The equations of a contact; those of one that a lane does not have are dy = 0."""
        m = self.m
        Y, Z = self.state(self.Y, kind, first), self.state(self.Z, kind, first)
        cones = self.cones(kind, i, Y, Z)
        ends = self.right(kind, i, first, cones, Y, Z, corrected)
        known: dict[tuple[int, int], Any] = {}
        right: dict[int, Any] = {}
        extra: dict[int, Any] = {}
        if self.has_side(kind):
            known, right, extra = self._of_side(kind, Y, Z, cones[-1], ends[-1])
        if kind.has_head:
            group, (head, by_rows) = self.main(kind), ends[0]
            rows = (0, *group)
            at = self.direction([Z[t] for t in group]) if group else []
            for u in rows:
                column = {t: Z[u] if t == 0 else Z[t] if u == 0 else 0.0 for t in rows}
                column[u] = Z[0]
                for t, x in self._divided(Y, column, group, at).items():
                    known[t, u] = x
            right |= self._divided(Y, {0: head, **by_rows}, group, at)
            for u, x in extra.items():
                if u < 0:
                    right[0] = right[0] - x
                else:
                    known[0, u] = known[0, u] + x if (0, u) in known else x
        rho = self.errors(kind, i, first, Z, cones)
        there = self.is_there(first)
        D = {at: m.where(there, x, float(at[0] == at[1])) for at, x in known.items()}
        return _LocalEquations(D, {t: m.where(there, x - rho[t], 0.0) for t, x in right.items()})

    def right(
        self, kind: RowPattern, i: Index, first: Index, cones: _Cones, Y: Vector, Z: Vector,
        corrected: bool,
    ) -> list[_Part]:  # fmt: skip
        """κ e − y ∘ z, without the product of the predictor's changes if they are known."""
        target = self.target.value
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

    def _divided(
        self, Y: Vector, a: dict[int, Any], group: Sequence[int], at: Vector
    ) -> dict[int, Any]:
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
        self, kind: RowPattern, Y: Vector, Z: Vector, side: _FrictionCone, r: _Part
    ) -> tuple[dict[tuple[int, int], Any], dict[int, Any], dict[int, Any]]:
        """D and right of the side group, and what it adds to dz_n, by rows and without dy (−1)."""
        m, (rows, beta, w), (head, ends) = self.m, side, r
        inverse = 1.0 / beta
        square = beta * beta
        for t in rows:
            square = square - Y[t] * Y[t]

        def along(v: dict[int, Any], x: Sequence[Number | float]) -> Number:
            total: Any = 0.0
            for t in rows:
                total = m.fma(x[t], v[t], total)
            return total

        def divided(v: dict[int, Any]) -> dict[int, Any]:
            """(β − y y*/β)⁻¹ v."""
            part = along(v, Y) / square
            return {t: (v[t] + Y[t] * part) * inverse for t in rows}

        given = divided({t: ends[t] - Y[t] * head * inverse for t in rows})
        at = dict(zip(rows, self.direction([Z[t] for t in rows]), strict=True))
        lean: list[Any] = [at.get(t, 0.0) for t in range(len(Y))]
        D = dict[tuple[int, int], Any]()
        extra = {-1: along(given, lean) - (head - along(given, Y)) * inverse}
        columns = [(u, Z[u], {t: w if t == u else 0.0 for t in rows}) for u in rows]
        columns += [(0, w, {t: Z[t] for t in rows})] if kind.has_head else []
        for u, z, entries in columns:
            column = divided({t: entries[t] - Y[t] * z * inverse for t in rows})
            D.update({(t, u): x for t, x in column.items()})
            extra[u] = -along(column, lean) - (along(column, Y) - z) * inverse
        return D, given, extra

    # ---- steps

    def solve(self, corrected: bool) -> None:
        """The change of Y, from the equations; then those of Z and of side heads.

        The corrector has the matrix of the predictor, and takes its factors.
        """
        m, x = self.m, self.x
        if not corrected:
            self.fill()
        self.velocities(steps=False)
        x.each_contact(lambda kind, i, first: self._put(kind, i, first, corrected))
        if corrected:

            @m.each(0, x.n)
            def _(i: Index) -> None:
                self.step_Y[i] = x.J[i, x.n]

            m.substitute(x.n, x.J, self.step_Y, x.lows, x.ends)
        else:
            self.pad()
            m.eliminate(x.n, x.J, self.step_Y, x.ends)
        self.velocities(steps=True)
        x.each_contact(lambda kind, i, first: self._change(kind, i, first, corrected))
        self.reach.value = m.least(0, x.k, lambda i: x.of[i, FOUND])

    def fill(self) -> None:
        """W in the units of the contacts; zeros as the last column."""
        m, x = self.m, self.x

        @m.each(0, x.n)
        def _(i: Index) -> None:
            mine, W, J = self.tau[i], x.W.row(i), x.J.row(i)

            @m.each(*x.columns_of(i, 1))
            def _(j: Index) -> None:
                J[j] = W[j] * (mine * self.tau[j])

            J[x.n] = 0.0

    def pad(self) -> None:
        """Rows beyond those of contacts, whose diagonal is zero, are those of I."""
        m, J = self.m, self.x.J

        @m.each(0, self.x.n)
        def _(i: Index) -> None:
            own = J[i, i]
            J[i, i] = m.where(m.equal(own, 0.0), 1.0, own)

    def _put(self, kind: RowPattern, i: Index, first: Index, corrected: bool) -> None:
        found = self.local(kind, i, first, corrected)
        J = [self.x.J.row(first + t) for t in range(len(kind.letters))]
        for (t, u), x in () if corrected else found.D.items():
            J[t][first + u] = J[t][first + u] + x
        for t, x in found.right.items():
            J[t][self.x.n] = x

    def _change(self, kind: RowPattern, i: Index, first: Index, corrected: bool) -> None:
        """dZ = where the step leads − Z, and how far the step may go."""
        m, of = self.m, self.x.of
        Y, Z = self.state(self.Y, kind, first), self.state(self.Z, kind, first)
        dY, cones = self.state(self.step_Y, kind, first), self.cones(kind, i, Y, Z)
        u = self.speeds(kind, i, first)
        dZ = [a - z for a, z in zip(u, Z, strict=True)]
        if self.has_side(kind):
            side, (total, _) = cones[-1], self.right(kind, i, first, cones, Y, Z, corrected)[-1]
            total = total - side.z * dY[0] if kind.has_head else total
            for t in side.rows:
                total = total - Y[t] * dZ[t] - Z[t] * dY[t]
            of[i, _SIDE_STEP] = total / side.y
        if kind.has_head:
            for group in kind.groups:
                z = [Z[t] for t in group]
                dZ[0] = dZ[0] + self.slid(z)
                for t, x in zip(group, self.direction(z), strict=True):
                    dZ[0] = m.fma(x, dZ[t], dZ[0])
            for side in cones[1:]:
                dZ[0] = dZ[0] - side.z - of[i, _SIDE_STEP]
        for t, x in enumerate(dZ):
            self.step_Z[first + t] = x
        reach: Any = math.inf
        changes = self.cones(kind, i, dY, dZ, _SIDE_STEP)
        for cone, change in zip(cones, changes, strict=True):
            for x, d, h, k in ((Y, dY, cone.y, change.y), (Z, dZ, cone.z, change.z)):
                mine = [x[t] for t in cone.rows], [d[t] for t in cone.rows]
                reach = self._nearer(reach, *mine, h, k)
        of[i, FOUND] = m.where(self.is_there(first), reach, math.inf)

    def _nearer(
        self, reach: Number | float, x: Vector, d: Vector, h: Number, k: Number | float
    ) -> Number:
        """The longest step that stays in a cone, if it is shorter than another."""
        m, larger = self.m, self.x.larger
        half, a, square = h * k, k * k, 0.0
        for p, q in zip(x, d, strict=True):
            half, a, square = half - p * q, a - q * q, m.fma(p, p, square)
        size = m.sqrt(square)  # type: ignore[arg-type]
        c = larger((h - size) * (h + size), 0.0)
        root = half * half - a * c
        below = m.sqrt(larger(root, 0.0)) - half
        hit = (root >= 0.0) & (below > 0.0)
        found = m.where(hit, c / m.where(hit, below, 1.0), math.inf)
        return m.where(m.equal(root, root), m.where(found < reach, found, reach), root)

    def _gap(self, kind: RowPattern, i: Index, first: Index, moves: bool) -> None:
        """Y*z of a contact, or where a step of `distance` leads."""
        m, of = self.m, self.x.of
        y, z = self.state(self.Y, kind, first), self.state(self.Z, kind, first)
        cones = self.cones(kind, i, y, z)
        if moves:
            length = self.distance.value
            dY, dZ = (self.state(x, kind, first) for x in (self.step_Y, self.step_Z))
            changes = self.cones(kind, i, dY, dZ, _SIDE_STEP)
            y = [m.fma(d, length, x) for d, x in zip(dY, y, strict=True)]
            z = [m.fma(d, length, x) for d, x in zip(dZ, z, strict=True)]
            cones = [
                _FrictionCone(x.rows, m.fma(d.y, length, x.y), m.fma(d.z, length, x.z))
                for x, d in zip(cones, changes, strict=True)
            ]
        total: Any = 0.0
        for cone in cones:
            total = total + self.product(cone, y, z)[0]
        of[i, FOUND] = m.where(self.is_there(first), total, 0.0)

    def gap(self, moves: bool = False) -> Number:
        """κ, the mean of y*z of all cones."""
        self.x.each_contact(lambda kind, i, first: self._gap(kind, i, first, moves))
        return self.x.total(FOUND) / self.x.larger(self.many.value, 1.0)

    def iterate(self, size: Number, count: Memory) -> None:
        """From a first point of this size to y; `count` is added to."""
        m, x = self.m, self.x
        self.begin(size)
        self.live.value, self.solved.value = 1.0, 0.0

        @m.while_any(lambda: self.live.value > 0.0, ITERATIONS)
        def _(_turn: Index) -> None:
            count.value = count.value + 1.0
            self.step()

        @m.each(0, x.n)
        def _(i: Index) -> None:
            y = self.Y[i] * self.scaled(i)[0]
            x.y[i] = m.where(x.sigma[i] > 0.0, y, 0.0)

    def step(self) -> None:
        """A predictor and a corrector."""
        m, x = self.m, self.x
        kappa = self.gap()
        self.target.value = self.floor() if self.level else 0.0
        self.solve(corrected=False)
        self.distance.value = self._least(self.reach.value, 1.0)
        ahead = self.gap(moves=True)
        centre = self._least(x.larger(ahead / kappa, 0.0), 1.0)
        aim = centre * centre * centre * kappa
        self.target.value = x.larger(aim, self.floor()) if self.level else aim
        m.copy(x.n, self.step_Y, self.guess_Y)
        m.copy(x.n, self.step_Z, self.guess_Z)

        def keep(i: Index) -> None:
            self._store(i, _SIDE_GUESS, x.of[i, _SIDE_STEP])

        self._each_side(keep)
        self.solve(corrected=True)
        length = self._least(self.reach.value * BOUNDARY, 1.0)
        self.velocities(steps=False)
        x.each_contact(self._largest_error)
        off = x.largest(FOUND) * (1.0 - length)
        fine = length >= 0.0
        m.when(fine)(lambda: self._move(length))
        kappa = self.gap()
        if self.level:
            x.each_contact(self._largest_gap)
            least = x.larger(self.floor() * LEVEL, ROUNDED)
            centred = x.largest(FOUND) <= least
        else:
            centred = kappa <= CENTRED
        over = centred & (off <= CARRIED)
        self.solved.value = m.where(fine & over, 1.0, self.solved.value)
        self.live.value = m.to_flag(fine & ~over & (length >= SHORTEST))

    def _move(self, length: Number) -> None:
        """Y, Z and the side heads, so far along the step."""
        m, x = self.m, self.x

        @m.each(0, x.n)
        def _(i: Index) -> None:
            self.Y[i] = m.fma(self.step_Y[i], length, self.Y[i])
            self.Z[i] = m.fma(self.step_Z[i], length, self.Z[i])

        def side(i: Index) -> None:
            self._store(i, _SIDE, m.fma(x.of[i, _SIDE_STEP], length, x.of[i, _SIDE]))

        self._each_side(side)

    def _each_side(self, body: Any) -> None:
        """For every contact with a side group: body(its number)."""
        self.x.each_contact(lambda kind, i, _: body(i) if self.has_side(kind) else None)

    def _store(self, i: Index, slot: int, value: Number) -> None:
        self.x.of[i, slot] = value

    def floor(self) -> Number:
        """The κ that is kept, in the units of the problem."""
        speed = self.speed.value
        return self.level / (speed * speed)

    def _largest_gap(self, kind: RowPattern, i: Index, first: Index) -> None:
        """The largest |y ∘ z − κ e| of a contact."""
        Y, Z = self.state(self.Y, kind, first), self.state(self.Z, kind, first)
        floor, found = self.floor(), list[Number]()
        for cone in self.cones(kind, i, Y, Z):
            head, rows = self.product(cone, Y, Z)
            found += [*rows.values(), head - floor]
        self._keep_largest(i, first, found)

    def _largest_error(self, kind: RowPattern, i: Index, first: Index) -> None:
        Y, Z = self.state(self.Y, kind, first), self.state(self.Z, kind, first)
        self._keep_largest(i, first, self.errors(kind, i, first, Z, self.cones(kind, i, Y, Z)))

    def _keep_largest(self, i: Index, first: Index, found: Vector) -> None:
        """The largest size of numbers of a contact, if it is there; what is NaN does not count."""
        m = self.m
        worst: Any = 0.0
        for x in found:
            size = m.abs(x)
            worst = m.where(size >= worst, size, worst)
        self.x.of[i, FOUND] = m.where(self.is_there(first), worst, 0.0)

    def _least(self, x: Number, bound: float) -> Number:
        """The smaller number, not a number where x is not."""
        return self.m.where(x > bound, bound, x)
