"""Constraint rows as arrays: residuals, Jacobian and velocity terms of all closures at once.

G = A J and its rate times v are compiled. The parts that are not compiled are here: residuals, the
rows that distinguish a closure from one turned over, and how large a row would be if nothing in it
cancelled. With R = R_a* R_b, r = R_a* (x_b − x_a) of the two frames of a closure, all of them are
affine in the entries of R and r, but for distances; the coefficients are read off the formulas of
`model.closure_rows`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms.dynamics.dynamics_expressions import ROW_DRIFT
from phipsi.core.compiler import compile, default_backend
from phipsi.core.expressions import Expr
from phipsi.core.model import (
    ANGULAR,
    LINEAR,
    ClosureSet,
    Model,
    RowLaw,
    closure_residual,
    closure_row,
)
from phipsi.core.operators import A, J, mass_matrix, pose
from phipsi.core.spatial import ARRAYS
from phipsi.user_operators import RateLaw

Array = NDArray[Any]

CLOSURE_JACOBIAN = A @ J
_WORLD = np.eye(4)


class ClosureFrames(NamedTuple):
    """The closure frames at n configurations: rotations (n, P, 3, 3) and origins (n, P, 3)."""

    R: Array
    x: Array


class RelativeFrames(NamedTuple):
    """The two frames of each of C closures, each seen from the other.

    `R` (n, C, 3, 3), `r` (n, C, 3), |r| (n, C) of frame b in frame a; `entries` (n, C, 2, 12), R
    and r of the other frame by rows, from a and from b.
    """

    R: Array
    r: Array
    length: Array
    entries: Array


class LawRow(NamedTuple):
    """A row that is a function of coordinates: which, the function, and the places of these in q.

    `rates` are their places in v.
    """

    row: int
    law: RowLaw
    places: list[int]
    rates: list[int]


class ResidualTable(NamedTuple):
    """Residuals as numbers: of C closures between frames, m rows on them, k terms of couplings.

    `host` (C, 2) is the body of each frame (−1: the world), `rotation` (C, 2, 3, 3) and `offset`
    (C, 2, 3) the frame in it. Residual i is ``start[i]``, plus for each j with ``row[j] == i`` the
    product of `coefficients[j]` (13,) with R (by rows), r and |r| of ``closure[j]``, plus
    ``factor · q[entry]`` for each term with ``coupled == i``. Row i of ``laws`` (row, function,
    places in q) is the value of the function.
    """

    host: Array
    rotation: Array
    offset: Array
    start: Array
    row: Array
    closure: Array
    coefficients: Array
    coupled: Array
    entry: Array
    factor: Array
    laws: tuple[LawRow, ...] = ()


class RowEntry(NamedTuple):
    """One row: its closure, the quantity it measures, its weight."""

    closure: int
    form: str
    constant: float = 0.0
    weight: float = 1.0


@final
class ClosureRowTable:
    """Rows between two frames, as coefficients: a table of m rows over C closures."""

    def __init__(self, entries: Sequence[RowEntry]) -> None:
        m = len(entries)
        self.closure = np.array([e.closure for e in entries], dtype=int)
        weight = np.array([e.weight for e in entries]).reshape(m)
        tables = [_coefficients(e.form) for e in entries]
        self._constant = weight * np.array([e.constant for e in entries]).reshape(m)
        self._values = weight[:, None] * np.array([t[0] for t in tables]).reshape(m, 12)
        on_ends = weight[:, None, None, None] * np.array([t[1] for t in tables]).reshape(
            m, 2, 6, 13
        )
        self._on_ends, self._at_zero = on_ends[..., :12], on_ends[..., 12]
        self._long = np.flatnonzero([e.form == "distance" for e in entries])

    @property
    def affine(self) -> tuple[Array, Array]:
        """Constants (m,), and coefficients (m, 13) of R and r, by rows, and |r|."""
        along = np.zeros((len(self.closure), 1))
        along[self._long] = 1.0
        return self._constant, np.concatenate([self._values, along], axis=1)

    @property
    def distances(self) -> Array:
        """Closures that are distances."""
        return self.closure[self._long]

    def values(self, at: RelativeFrames) -> Array:
        """Residuals (n, m)."""
        k = self.closure
        out = np.einsum("nmc,mc->nm", at.entries[:, k, 0], self._values) - self._constant
        if len(self._long):
            out[:, self._long] += at.length[:, k[self._long]]
        return out

    def covectors(self, at: RelativeFrames) -> Array:
        """Rows (n, m, 2, 6) on the motions [ω; v] of frames a and b, each in its own axes."""
        out = np.einsum("mskc,nmsc->nmsk", self._on_ends, at.entries[:, self.closure])
        out += self._at_zero
        if len(self._long):
            out[:, self._long] = self._along(at)
        return out

    def _along(self, at: RelativeFrames) -> Array:
        """The rows of distances; along x where the distance is 0 and has no direction."""
        k = self.closure[self._long]
        R, r = at.R[:, k], np.where((at.length == 0)[:, k, None], [1.0, 0.0, 0.0], at.r[:, k])
        back = -(r[..., None, :] @ R)[..., 0, :]
        ends = [
            closure_row("distance", side, (), list(np.moveaxis(arm, -1, 0)), (), np.sqrt)
            for side, arm in enumerate((r, back))
        ]
        zero = np.zeros(r.shape[:-1])
        listed = [[zero if np.isscalar(x) else x for x in row] for row in ends]
        return np.moveaxis(np.array(listed), (0, 1), (-2, -1))


@final
class ClosureRows:
    """The rows of a system.

    **Attributes:** `n_rows`; `pairs` (C,), the closures that join two frames; `rates` (rows,), what
    A V should be; `coupled`, rows that are given on coordinates; `has_position` (rows,), whether
    a row is the rate of a residual, and not of nothing (a spin, general rows).
    """

    def __init__(
        self,
        model: Model,
        closures: ClosureSet,
        rates: Array,
        coordinates: dict[int, tuple[Array, float]],
    ) -> None:
        self.model, self.closures, self.rates = model, closures, rates
        self.n_rows = closures.n_rows
        self._where = closures.points
        self._programs: dict[tuple[Expr | tuple[Expr, ...], str], Any] = {}
        self._host = np.array(self._where.body, dtype=int)
        first_point = closures.first_point
        pair = [i for i, c in enumerate(closures.closures) if c.matrix is None]
        self.pairs = np.array(pair, dtype=int)
        self._a = np.array([first_point[i] for i in pair], dtype=int)
        self._b = self._a + 1
        entries: list[RowEntry] = []
        strict: list[RowEntry] = []
        pair_rows: list[int] = []
        row = 0
        for i, closure in enumerate(closures.closures):
            rows = list(range(row, row + len(closure.rows)))
            row += len(closure.rows)
            if closure.matrix is not None:
                continue
            at = int(np.searchsorted(self.pairs, i))
            pair_rows.extend(rows)
            entries.extend(_entry(at, form, closure.constant) for form in closure.forms)
            strict.extend(_strict(at, closure.angular, closure.linear, closure.constant))
        self._rows, self._strict = ClosureRowTable(entries), ClosureRowTable(strict)
        self.has_position = np.zeros(self.n_rows, dtype=bool)
        self.has_position[pair_rows] = [e.form != "wz" for e in entries]
        self.has_position[list(coordinates)] = True
        self.laws = _law_rows(model, closures)
        for x in self.laws:
            self.has_position[x.row] = not isinstance(x.law, RateLaw)
        self._at = np.array(pair_rows, dtype=int)
        self._is_length = np.array([e.form[0] in "rd" for e in entries], dtype=bool)
        self.coupled = np.array(sorted(coordinates), dtype=int)
        self._on_q = np.array([coordinates[i][0] for i in self.coupled]).reshape(
            len(coordinates), model.nq
        )
        self._offset = np.array([coordinates[i][1] for i in self.coupled])
        # one-coordinate joints have one rate at the same place among the rates
        self._on_v = np.zeros((len(self.coupled), model.nv))
        for q, v in zip(model.q_slices, model.v_slices, strict=True):
            if q.stop - q.start == 1:
                self._on_v[:, v] = self._on_q[:, q]

    # ---- positions ----------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"<ClosureRows: {self.n_rows} row{'s' * (self.n_rows != 1)}>"

    def frames(self, poses: Array) -> ClosureFrames:
        """The closure frames, from the poses (n, bodies, 4, 4) of the bodies."""
        n, bodies = poses.shape[:2]
        everything = np.empty((n, bodies + 1, 4, 4), dtype=poses.dtype)
        everything[:, :bodies], everything[:, bodies] = poses, _WORLD
        hosts = everything[:, self._host]
        R, where = hosts[..., :3, :3], self._where
        x = hosts[..., :3, 3] + np.einsum("npij,pj->npi", R, where.offset)
        return ClosureFrames(R @ where.rotation, x)

    def relative(self, at: ClosureFrames) -> RelativeFrames:
        """The frames of the closures, seen from each other."""
        a, b = self._a, self._b
        back = at.R[:, a].swapaxes(-1, -2)
        R = back @ at.R[:, b]
        r = (back @ (at.x[:, b] - at.x[:, a])[..., None])[..., 0]
        n, C = r.shape[:2]
        entries = np.empty((n, C, 2, 12), dtype=r.dtype)
        entries[:, :, 0, :9], entries[:, :, 0, 9:] = R.reshape(n, C, 9), r
        entries[:, :, 1, :9] = R.swapaxes(-1, -2).reshape(n, C, 9)
        entries[:, :, 1, 9:] = -(r[..., None, :] @ R)[..., 0, :]
        # no np.linalg.norm: complex numbers (derivatives by a complex step) must pass
        return RelativeFrames(R, r, np.sqrt((r * r).sum(axis=-1)), entries)

    def residual(self, q: Array, poses: Array) -> tuple[Array, RelativeFrames]:
        """Residuals (n, rows) of configurations (n, nq); zero for rows without positions."""
        found = self.relative(self.frames(poses))
        out = np.zeros((len(q), self.n_rows), dtype=np.result_type(q, found.r))
        out[:, self._at] = self._rows.values(found)
        if len(self.coupled):
            out[:, self.coupled] = q @ self._on_q.T - self._offset
        for x in self.laws:
            out[:, x.row] = law_values(x, q)
        return out, found

    def residual_table(self) -> ResidualTable:
        """The same as coefficients, for code that computes it elsewhere."""
        ends = np.stack([self._a, self._a + 1], axis=-1)
        start = np.zeros(self.n_rows)
        constant, coefficients = self._rows.affine
        start[self._at], start[self.coupled] = -constant, -self._offset
        coupled, entry = np.nonzero(self._on_q)
        return ResidualTable(
            host=self._host[ends],
            rotation=self._where.rotation[ends],
            offset=self._where.offset[ends],
            start=start,
            row=self._at,
            closure=self._rows.closure,
            coefficients=coefficients,
            coupled=self.coupled[coupled],
            entry=entry,
            factor=self._on_q[coupled, entry],
            laws=self.laws,
        )

    def without_direction(self, found: RelativeFrames) -> Array:
        """Where (n,) the two points of some distance coincide, so that it has no derivative."""
        return (found.length[:, self._rows.distances] == 0).any(axis=-1)

    def strict_residual(self, q: Array, found: RelativeFrames) -> Array:
        """Residuals (n, m) that are zero only where a closure is not turned over either."""
        turned = q @ self._on_q.T - self._offset
        of_laws = [law_values(x, q)[:, None] for x in self.laws]
        return np.concatenate([self._strict.values(found), turned, *of_laws], axis=1)

    # ---- velocities ---------------------------------------------------------------------------

    def jacobian(self, q: Array) -> Array:
        """G = A J (..., rows, nv)."""
        if not self.n_rows:
            return np.zeros((*q.shape[:-1], 0, self.model.nv))
        return self._coupled_rates(self._program(CLOSURE_JACOBIAN, "dense")(q))

    def bias(self, q: Array, v: Array) -> Array:
        """Ġ v (..., rows): accelerations of the rows at vdot = 0."""
        if not self.n_rows:
            return np.zeros((*np.broadcast_shapes(q.shape[:-1], v.shape[:-1]), 0))
        out = self._program(ROW_DRIFT, "apply")(q, v)
        out[..., self.coupled] = 0.0
        return out

    def _coupled_rates(self, jacobian: Array) -> Array:
        """The same, without rounding errors in the rows that are given on coordinates."""
        if len(self.coupled):
            jacobian[..., self.coupled, :] = self._on_v
        return jacobian

    def strict_jacobian(self, q: Array, found: RelativeFrames, motion: Array) -> Array:
        """Derivatives (n, m, nv) of `strict_residual`."""
        n, nv = len(motion), motion.shape[-1]
        a = self._a[self._strict.closure]
        ends = motion.reshape(n, len(self._where), 6, nv)[:, np.stack([a, a + 1], axis=-1)]
        rows = self._strict.covectors(found).reshape(n, len(a), 1, 12)
        pair = (rows @ ends.reshape(n, len(a), 12, nv))[:, :, 0]
        on_v = np.broadcast_to(self._on_v, (n, *self._on_v.shape))
        of_laws = [self._law_slopes(x, q)[:, None] for x in self.laws]
        return np.concatenate([pair, on_v, *of_laws], axis=1)

    def _law_slopes(self, x: LawRow, q: Array) -> Array:
        """The derivative (n, nv) of the value of a law; that of a rate is zero."""
        out = np.zeros((len(q), self.model.nv))
        if self.has_position[x.row]:
            at = [q[:, i] for i in x.places]
            with np.errstate(all="ignore"):
                for j, rate in enumerate(x.rates):
                    out[:, rate] = x.law.slope(j, at, (), ARRAYS)
        return out

    def strict_rows(self, q: Array) -> tuple[Array, Array, Array]:
        """`strict_residual`, its derivatives along the rates, and the gap (n,) of the loops.

        The gap is infinite where a closure is turned over.
        """
        poses, motion = self.kinematics(q)
        residual, found = self.residual(q, poses)
        g = self.strict_residual(q, found)
        gap = np.abs(residual).max(axis=-1, initial=0.0)
        # R₂₂ − 1 is of second order: alone it may be as large as the square root of rounding
        over = np.abs(g).max(axis=-1, initial=0.0) > np.maximum(gap, 1e-3)
        return g, self.strict_jacobian(q, found, motion), np.where(over, np.inf, gap)

    def sizes(self, rows: Array, motion: Array, jacobian: Array) -> Array:
        """The natural size of each row (n, rows): (Σ |A|² |J|²)½, as if nothing in it cancelled.

        A (n, rows, 6 P); `motion`, J (n, 6 P, nv), and `jacobian` (n, rows, nv) in any coordinates
        of the rates.
        """
        n, m, halves = len(motion), self.n_rows, 2 * len(self._where)
        moved = np.square(motion).sum(axis=-1).reshape(n, halves, 3).sum(axis=-1)
        squares = np.square(rows).reshape(n, m, halves, 3).sum(axis=-1)
        out = (squares @ moved[..., None])[..., 0]
        if len(self.coupled):
            out[:, self.coupled] = np.square(jacobian[:, self.coupled]).sum(axis=-1)
        return np.sqrt(out)

    def rate_sizes(self, rows: Array, motion: Array, v: Array) -> Array:
        """How large the rates of rows (n, rows, k) would be if nothing cancelled: Σ |A| |J| |v|.

        A (n, rows, 6 P), J (n, 6 P, nv), v (n, nv, k).
        """
        n, nv, halves = len(motion), motion.shape[-1], 2 * len(self._where)
        moved = np.sqrt(np.square(motion).reshape(n, halves, 3, nv).sum(axis=2))
        ends = np.sqrt(np.square(rows).reshape(n, self.n_rows, halves, 3).sum(axis=-1))
        return ends @ (moved @ np.abs(v))

    def gap(self, residual: Array, motion: Array) -> Array:
        """The largest residual (n,) as an angle, from residuals (n, rows) and J (n, 6 P, nv).

        A length is divided by the lever arms with which its ends are seen, how far they move for
        how much they turn; where nothing turns, an open loop does not change any row.
        """
        n, points = len(motion), len(self._where)
        squares = np.square(motion).sum(axis=-1).reshape(n, points, 2, 3).sum(axis=-1)
        a = self._a[self._rows.closure]
        turning, moving = np.moveaxis(squares[:, a] + squares[:, a + 1], -1, 0)
        arms = np.sqrt(turning / np.where(moving > 0, moving, 1.0))
        angles = np.abs(residual[:, self._at]) * np.where(self._is_length, arms, 1.0)
        return angles.max(axis=-1, initial=0.0)

    @cached_property
    def _mechanism(self) -> list[int]:
        """The number of the mechanism that each body belongs to; the world, the last, has −1."""
        label: list[int] = []
        for i, parent in enumerate(self.model.parent):
            label.append(i if parent < 0 else label[parent])
        first = [*self.closures.first_point, len(self._host)]
        for begin, end in zip(first, first[1:], strict=False):
            joined = {label[int(k)] for k in self._host[begin:end] if k >= 0}
            label = [min(joined) if x in joined else x for x in label]
        return [*label, -1]

    @cached_property
    def components(self) -> Array:
        """For each rate (nv,) the number of the mechanism that it belongs to.

        Trees are one mechanism if constraints join them, directly or by others.
        """
        out = np.zeros(self.model.nv, dtype=int)
        for i, s in enumerate(self.model.v_slices):
            out[s] = self._mechanism[i]
        return out

    @cached_property
    def strict_components(self) -> Array:
        """The same for each residual of `strict_residual` (m,)."""
        ends: Array = self._host[np.stack([self._a, self._a + 1])]  # of pairs, the world is −1
        pairs = [max(self._mechanism[int(k)] for k in both) for both in ends.T]
        coupled = [int(self.components[row != 0][0]) for row in self._on_v]
        of_laws = [int(self.components[x.rates[0]]) for x in self.laws]
        listed = [*(pairs[int(i)] for i in self._strict.closure), *coupled, *of_laws]
        return np.array(listed, dtype=int)

    # ---- compiled parts -----------------------------------------------------------------------

    def poses(self, q: Array) -> Array:
        """Body poses (n, bodies, 4, 4)."""
        return self._program(pose, "apply")(q)

    def kinematics(self, q: Array) -> tuple[Array, Array]:
        """Body poses, and the Jacobian (n, 6 P, nv) of the closure frames in their own axes."""
        if not self.n_rows:
            return self.poses(q), np.zeros((len(q), 0, self.model.nv))
        return self._program((pose, J), ("apply", "dense"))(q)

    def with_mass_matrix(self, q: Array) -> tuple[Array, Array, Array, Array, Array]:
        """Body poses, A (n, rows, 6 P), J of the closure frames, G, and ℳ (n, nv, nv)."""
        if not self.n_rows:
            mass = self._program(mass_matrix, "dense")(q)
            poses, motion = self.kinematics(q)
            return poses, np.zeros((len(q), 0, 0)), motion, self.jacobian(q), mass
        terms = (pose, A, J, CLOSURE_JACOBIAN, mass_matrix)
        program = self._program(terms, ("apply", "dense", "dense", "dense", "dense"))
        poses, rows, motion, jacobian, mass = program(q)
        return poses, rows, motion, self._coupled_rates(jacobian), mass

    def _program(self, expr: Expr | tuple[Expr, ...], mode: str | tuple[str, ...]) -> Any:
        """The compiled terms, in a table of their own because searches ask for them often."""
        key = expr, default_backend()
        if key not in self._programs:
            self._programs[key] = compile(expr, self.model, mode=mode, points=self._where)
        return self._programs[key]


def _law_rows(model: Model, closures: ClosureSet) -> tuple[LawRow, ...]:
    """The rows that are functions of coordinates."""
    found: list[LawRow] = []
    rate_at = {q.start: v.start for q, v in zip(model.q_slices, model.v_slices, strict=True)}
    row = 0
    for closure in closures.closures:
        for i, law in enumerate(closure.laws):
            places = list(closure.places)
            found.append(LawRow(row + i, law, places, [rate_at[p] for p in places]))
        row += len(closure.rows)
    return tuple(found)


def law_values(x: LawRow, q: Array) -> Array:
    """The values (n,) of a law at configurations (n, nq)."""
    with np.errstate(all="ignore"):
        return x.law.value([q[:, i] for i in x.places], ARRAYS)


def rows_of(system: Model) -> ClosureRows:
    """The rows of a system as arrays."""
    rows = getattr(system, "rows", None)
    if (
        rows is None
    ):  # a forest with rows that is not a `System`: they bind rates, and prescribe none
        rows = ClosureRows(system.model, system.closures, np.zeros(system.closures.n_rows), {})
    return rows


@cache
def _coefficients(form: str) -> tuple[Array, Array]:
    """Coefficients (12,) of a residual and (2, 6, 13) of its rows in R, r (and 1)."""
    values, rows = np.zeros(12), np.zeros((2, 6, 13))
    if form == "distance":
        return values, rows
    for i, x in enumerate([*np.eye(12), np.zeros(12)][::-1]):
        turn, arm = x[:9].reshape(3, 3).tolist(), x[9:].tolist()
        ends = np.array([closure_row(form, side, turn, arm, (), np.sqrt) for side in (0, 1)])
        if i == 0:
            rows[..., 12] = ends
        else:
            rows[..., 12 - i] = ends - rows[..., 12]
            values[12 - i] = closure_residual(form, turn, arm, 0.0, np.sqrt)
    return values, rows


def _entry(at: int, form: str, constant: float) -> RowEntry:
    return RowEntry(at, form, constant if form in ("R22", "distance") else 0.0)


def _strict(at: int, angular: str, linear: str, constant: float) -> list[RowEntry]:
    """Rows of one closure for assembly: z_b = z_a, or R = I, instead of their first-order part."""
    out = [_entry(at, form, constant) for form in LINEAR[linear]]
    if angular == "all":
        places = [(i, j) for i in range(3) for j in range(3)]
        return out + [RowEntry(at, f"R{i}{j}", float(i == j), np.sqrt(0.5)) for i, j in places]
    out.extend(_entry(at, form, constant) for form in ANGULAR[angular] if form != "wz")
    if angular == "axis":
        out.append(RowEntry(at, "R22", 1.0))
    return out
