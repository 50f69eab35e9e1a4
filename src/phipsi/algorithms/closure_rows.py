"""Constraint rows as arrays: residuals, Jacobian and velocity terms of all closures at once.

With R = R_a* R_b, r = R_a* (x_b − x_a) of the two frames of a closure, every row is linear in the
entries of R, in r and in |r|; w = R_a* (ω_b − ω_a) and w_a = R_a* ω_a give

    Ṙ = w~ R,   ṙ = R_a* (v_b − v_a) − w_a × r,

so that each row is a covector on the motions of the two frames, exactly, also where the loop is
open. General rows are such covectors already.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms.kinematics import JACOBIAN_DOT_V, POINT_VELOCITIES
from phipsi.compiler import compile
from phipsi.model.closures import ANGULAR, LINEAR, ClosureSet
from phipsi.model.model import Model
from phipsi.model.points import PointSet
from phipsi.operators import J, mass_matrix, pose
from phipsi.spatial import skew

Array = NDArray[Any]

# What the rows measure, as weights on R (3×3), r (3) and |r|.
_ENTRIES: dict[str, tuple[dict[tuple[int, int], float], tuple[int, ...], bool]] = {
    "R02": ({(0, 2): 1.0}, (), False),
    "R12": ({(1, 2): 1.0}, (), False),
    "R22": ({(2, 2): 1.0}, (), False),
    "sx": ({(2, 1): 0.5, (1, 2): -0.5}, (), False),
    "sy": ({(0, 2): 0.5, (2, 0): -0.5}, (), False),
    "sz": ({(1, 0): 0.5, (0, 1): -0.5}, (), False),
    "rx": ({}, (0,), False),
    "ry": ({}, (1,), False),
    "rz": ({}, (2,), False),
    "distance": ({}, (), True),
    "wz": ({}, (), False),  # no position: a weight on the relative angular velocity, see _SPIN
}
_SPIN = np.array([0.0, 0.0, 1.0])

_LEVI_CIVITA = np.zeros((3, 3, 3))
_LEVI_CIVITA[[0, 1, 2], [1, 2, 0], [2, 0, 1]] = 1.0
_LEVI_CIVITA[[0, 1, 2], [2, 0, 1], [1, 2, 0]] = -1.0


class Frames(NamedTuple):
    """The closure frames at n configurations: rotations (n, P, 3, 3) and origins (n, P, 3)."""

    R: Array
    x: Array


class Relative(NamedTuple):
    """Frame b in frame a of each of C closures: `R` (n, C, 3, 3), `r` (n, C, 3), |r| (n, C)."""

    R_a: Array
    R: Array
    r: Array
    length: Array


@final
class Rows:
    """Weights of rows on what a closure measures: a table of m rows over C closures."""

    def __init__(
        self, entries: list[tuple[int, Array, Array, float, float]], forms: list[str] | None = None
    ) -> None:
        m = len(entries)
        spins = [form == "wz" for form in forms] if forms is not None else [False] * m
        self.on_spin = np.outer(np.array(spins, dtype=float), _SPIN)
        self.pair = np.array([e[0] for e in entries], dtype=int)
        self.on_R = np.array([e[1] for e in entries]).reshape(m, 3, 3)
        self.on_r = np.array([e[2] for e in entries]).reshape(m, 3)
        self.on_length = np.array([e[3] for e in entries]).reshape(m)
        self.constant = np.array([e[4] for e in entries]).reshape(m)
        # Σ_j R_j × W_j over the columns j, as constants on the entries of R
        self._turn = np.einsum("kil,mlj->mkij", _LEVI_CIVITA, self.on_R).reshape(m, 3, 9)
        self._has_length = bool(self.on_length.any())

    def values(self, at: Relative) -> Array:
        """Residuals (n, m)."""
        k = self.pair
        out = np.einsum("nmij,mij->nm", at.R[:, k], self.on_R)
        out += np.einsum("nmi,mi->nm", at.r[:, k], self.on_r) - self.constant
        return out + at.length[:, k] * self.on_length if self._has_length else out

    def covectors(self, at: Relative) -> tuple[Array, Array]:
        """Rows on the motions [ω; v] of frames a and b in world axes, two (n, m, 6)."""
        k = self.pair
        R, r, R_a = at.R[:, k], at.r[:, k], at.R_a[:, k]
        on_w = np.einsum("mkc,nmc->nmk", self._turn, R.reshape(*R.shape[:2], 9)) + self.on_spin
        on_r = self.on_r + self._direction(at) if self._has_length else self.on_r
        turn, shift = _turned(R_a, on_w), _turned(R_a, on_r)
        with_a = _turned(R_a, _cross(r, on_r))
        return (
            np.concatenate([-turn - with_a, -shift], axis=-1),
            np.concatenate([turn, shift], axis=-1),
        )

    def _direction(self, at: Relative) -> Array:
        """Derivative of |r| in r where rows ask for it; any direction where r = 0."""
        r, length = at.r[:, self.pair], at.length[:, self.pair]
        safe = np.where(length == 0, 1.0, length)
        along = np.where((length == 0)[..., None], np.array([1.0, 0, 0]), r / safe[..., None])
        return self.on_length[:, None] * along

    def accelerations(self, at: Relative, motion: Array, bias: Array) -> Array:
        """Second derivatives (n, m) for accelerations `bias` of the frames.

        `motion`, `bias` (n, C, 2, 6): velocities and accelerations of frames a, b in world axes.
        """
        back = np.swapaxes(at.R_a, -1, -2)
        w_a, w_b = (_turned(back, motion[:, :, s, :3]) for s in (0, 1))
        w, slide = w_b - w_a, _turned(back, motion[:, :, 1, 3:] - motion[:, :, 0, 3:])
        turn_a = _turned(back, bias[:, :, 0, :3])
        w_dot = _turned(back, bias[:, :, 1, :3]) - turn_a - _cross(w_a, w)
        spin = skew(w)
        R_ddot = (skew(w_dot) + spin @ spin) @ at.R
        r_dot = slide - _cross(w_a, at.r)
        pull = _turned(back, bias[:, :, 1, 3:] - bias[:, :, 0, 3:])
        r_ddot = pull - _cross(w_a, slide) - _cross(turn_a, at.r) - _cross(w_a, r_dot)
        k = self.pair
        out = np.einsum("nmij,mij->nm", R_ddot[:, k], self.on_R)
        out += np.einsum("nmi,mi->nm", r_ddot[:, k], self.on_r)
        out += np.einsum("nmi,mi->nm", w_dot[:, k], self.on_spin)
        if not self._has_length:
            return out
        safe = np.where(at.length == 0, 1.0, at.length)
        along = np.einsum("nci,nci->nc", at.r, r_dot) / safe
        out_of = np.einsum("nci,nci->nc", r_dot, r_dot) - along**2
        stretch = (np.einsum("nci,nci->nc", at.r, r_ddot) + out_of) / safe
        return out + stretch[:, k] * self.on_length


class Evaluated(NamedTuple):
    """All rows at n configurations.

    `residual` (n, rows); `relative`; the covectors `on_a`, `on_b` (n, m, 6) of rows between two
    frames, on their motions in world axes; `fixed`, first point, rows and matrix (n, rows, 6 per
    point) of the general rows.
    """

    frames: Frames
    relative: Relative
    residual: Array
    on_a: Array
    on_b: Array
    fixed: list[tuple[int, list[int], Array]]


@final
class ClosureRows:
    """The rows of a system, evaluated with NumPy from compiled poses and point Jacobians.

    **Attributes:** `n_rows`; `pairs` (C,), the closures that join two frames; `rates` (rows,), what
    A V should be; `coupled`, rows that are given on coordinates.
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
        where = closures.points
        self._where = PointSet(where.names, where.body, where.rotation, where.offset, "world")
        self._host = np.array(where.body, dtype=int)
        first_point = closures.first_point
        pair = [i for i, c in enumerate(closures.closures) if c.matrix is None]
        self.pairs = np.array(pair, dtype=int)
        self._a = np.array([first_point[i] for i in pair], dtype=int)
        entries: list[tuple[int, Array, Array, float, float]] = []
        strict: list[tuple[int, Array, Array, float, float]] = []
        forms: list[str] = []
        self._pair_rows: list[int] = []
        self._fixed: list[tuple[int, list[int], Array, str]] = []
        row = 0
        for i, closure in enumerate(closures.closures):
            rows = list(range(row, row + len(closure.rows)))
            row += len(closure.rows)
            if closure.matrix is not None:
                self._fixed.append((first_point[i], rows, closure.matrix, closure.axes))
                continue
            at = int(np.searchsorted(self.pairs, i))
            self._pair_rows.extend(rows)
            forms.extend(closure.forms)
            entries.extend(_entry(at, form, closure.constant) for form in closure.forms)
            strict.extend(_strict(at, closure.angular, closure.linear, closure.constant))
        self._rows, self._strict = Rows(entries, forms), Rows(strict)
        self._at = np.array(self._pair_rows, dtype=int)
        self.coupled = np.array(sorted(coordinates), dtype=int)
        self._on_q = np.array([coordinates[i][0] for i in self.coupled]).reshape(-1, model.nq)
        self._offset = np.array([coordinates[i][1] for i in self.coupled])
        # one-coordinate joints have one rate at the same place among the rates
        self._on_v = np.zeros((len(self.coupled), model.nv))
        for q, v in zip(model.q_slices, model.v_slices, strict=True):
            if q.stop - q.start == 1:
                self._on_v[:, v] = self._on_q[:, q]

    # ---- positions ----------------------------------------------------------------------------

    def frames(self, poses: Array) -> Frames:
        """The closure frames, from the poses (n, bodies, 4, 4) of the bodies."""
        world = np.broadcast_to(np.eye(4), (len(poses), 1, 4, 4))
        hosts = np.concatenate([poses, world], axis=1)[:, self._host]
        R, where = hosts[..., :3, :3], self._where
        x = hosts[..., :3, 3] + np.einsum("npij,pj->npi", R, where.offset)
        return Frames(R @ where.rotation, x)

    def relative(self, at: Frames) -> Relative:
        """Frame b in frame a."""
        a, b = self._a, self._a + 1
        R_a = at.R[:, a]
        back = np.swapaxes(R_a, -1, -2)
        r = _turned(back, at.x[:, b] - at.x[:, a])
        # no np.linalg.norm: complex numbers (derivatives by a complex step) must pass
        return Relative(R_a, back @ at.R[:, b], r, np.sqrt((r * r).sum(axis=-1)))

    def residual(self, q: Array, poses: Array) -> tuple[Array, Relative]:
        """Residuals (n, rows) of configurations (n, nq); zero for rows without positions."""
        found = self.relative(self.frames(poses))
        return self._values(q, found), found

    def _values(self, q: Array, found: Relative) -> Array:
        out = np.zeros((len(q), self.n_rows), dtype=np.result_type(q, found.r))
        out[:, self._at] = self._rows.values(found)
        if len(self.coupled):
            out[:, self.coupled] = q @ self._on_q.T - self._offset
        return out

    def strict_residual(self, q: Array, found: Relative) -> Array:
        """Residuals (n, m) that are zero only where a closure is not turned over either."""
        turned = q @ self._on_q.T - self._offset
        return np.concatenate([self._strict.values(found), turned], axis=1)

    # ---- velocities ---------------------------------------------------------------------------

    def evaluate(self, q: Array, poses: Array) -> Evaluated:
        """Residuals and covectors of all rows."""
        at = self.frames(poses)
        found = self.relative(at)
        covectors = self._rows.covectors(found)
        return Evaluated(at, found, self._values(q, found), *covectors, self._fixed_matrices(at))

    def jacobian(self, at: Evaluated, motion: Array) -> Array:
        """Rows (n, rows, nv) from the motions (n, 6 P, nv) of the closure frames, world axes."""
        n, nv = len(motion), motion.shape[-1]
        motion = motion.reshape(n, -1, 6, nv)
        out = np.zeros((n, self.n_rows, nv), dtype=np.result_type(motion, at.residual))
        out[:, self._at] = self._applied(self._rows, at.on_a, at.on_b, motion)
        for first, indices, matrix in at.fixed:
            points = motion[:, first : first + matrix.shape[-1] // 6]
            out[:, indices] = matrix @ points.reshape(n, -1, nv)
        if len(self.coupled):
            out[:, self.coupled] = self._on_v
        return out

    def strict_jacobian(self, found: Relative, motion: Array) -> Array:
        """Derivatives (n, m, nv) of `strict_residual`."""
        n, nv = len(motion), motion.shape[-1]
        motion = motion.reshape(n, -1, 6, nv)
        pair = self._applied(self._strict, *self._strict.covectors(found), motion)
        on_v = np.broadcast_to(self._on_v, (n, *self._on_v.shape))
        return np.concatenate([pair, on_v], axis=1)

    def _applied(self, rows: Rows, on_a: Array, on_b: Array, motion: Array) -> Array:
        a = self._a[rows.pair]
        out = (on_a[:, :, None] @ motion[:, a])[:, :, 0]
        return out + (on_b[:, :, None] @ motion[:, a + 1])[:, :, 0]

    def _fixed_matrices(self, at: Frames) -> list[tuple[int, list[int], Array]]:
        """First point, rows, and matrix (n, rows, 6 points) in world axes of the general rows."""
        out = []
        for first, rows, matrix, axes in self._fixed:
            count = matrix.shape[1] // 3
            blocks = np.broadcast_to(matrix, (len(at.R), *matrix.shape))
            if axes == "body":
                R = np.repeat(at.R[:, first : first + count // 2], 2, axis=1)
                split = blocks.reshape(len(at.R), len(rows), count, 3)
                blocks = np.einsum("nrcj,ncij->nrci", split, R).reshape(blocks.shape)
            out.append((first, rows, blocks))
        return out

    def sizes(self, at: Evaluated, motion: Array, jacobian: Array) -> Array:
        """How large each row (n, rows) would be if nothing in it cancelled: (Σ |A|² |J|²)½.

        `motion` (n, 6 P, nv) and `jacobian` (n, rows, nv) in any coordinates of the rates.
        """
        n = len(motion)
        squares = np.square(motion).reshape(n, -1, 2, 3 * motion.shape[-1]).sum(axis=-1)
        a = self._a[self._rows.pair]
        out = np.zeros((n, self.n_rows))
        parts = np.square(at.on_a).reshape(n, -1, 2, 3).sum(axis=-1) * squares[:, a]
        parts += np.square(at.on_b).reshape(n, -1, 2, 3).sum(axis=-1) * squares[:, a + 1]
        out[:, self._at] = parts.sum(axis=-1)
        for first, indices, matrix in at.fixed:
            blocks = np.square(matrix).reshape(n, len(indices), -1, 2, 3).sum(axis=-1)
            ends = slice(first, first + blocks.shape[2])
            out[:, indices] = (blocks * squares[:, None, ends]).sum(axis=(2, 3))
        if len(self.coupled):
            out[:, self.coupled] = np.square(jacobian[:, self.coupled]).sum(axis=-1)
        return np.sqrt(out)

    def bias(self, at: Evaluated, motion: Array, bias: Array) -> Array:
        """d/dt(A J) v (n, rows): what the rows accelerate by at vdot = 0.

        `motion`, `bias` (n, P, 6): velocities of the closure frames, and J̇ v, in world axes.
        """
        out = np.zeros((len(motion), self.n_rows), dtype=np.result_type(motion, bias))
        if len(self._a):
            ends = np.stack([self._a, self._a + 1], axis=1)
            rate = self._rows.accelerations(at.relative, motion[:, ends], bias[:, ends])
            out[:, self._at] = rate
        for (first, indices, matrix), (*_, axes) in zip(at.fixed, self._fixed, strict=True):
            points = slice(first, first + matrix.shape[-1] // 6)
            rate = bias[:, points]
            if axes == "body":  # components in turning axes: − ω × V̂
                w = motion[:, points, None, :3]
                turning = _cross(w, motion[:, points].reshape(len(motion), -1, 2, 3))
                rate = rate - turning.reshape(rate.shape)
            out[:, indices] = np.einsum("nrk,nk->nr", matrix, rate.reshape(len(rate), -1))
        if len(self.coupled):
            out[:, self.coupled] = 0.0
        return out

    # ---- compiled parts -----------------------------------------------------------------------

    def poses(self, q: Array) -> Array:
        """Body poses (n, bodies, 4, 4)."""
        return self._poses(q)

    @cached_property
    def _poses(self) -> Any:
        return compile(pose, self.model)

    def kinematics(self, q: Array) -> tuple[Array, Array]:
        """Body poses, and the Jacobian (n, 6 P, nv) of the closure frames in world axes."""
        if not len(self._where):
            return self.poses(q), np.zeros((len(q), 0, self.model.nv))
        program = compile((pose, J), self.model, mode=("apply", "dense"), points=self._where)
        return program(q)  # type: ignore[return-value]

    def with_mass_matrix(self, q: Array) -> tuple[Array, Array, Array]:
        """Body poses, the Jacobian of the closure frames, and ℳ (n, nv, nv)."""
        if not len(self._where):
            return *self.kinematics(q), compile(mass_matrix, self.model, mode="dense")(q)
        return self._dense(q)

    @cached_property
    def _dense(self) -> Any:
        terms, modes = (pose, J, mass_matrix), ("apply", "dense", "dense")
        return compile(terms, self.model, mode=modes, points=self._where)

    def point_rates(self, q: Array, v: Array) -> tuple[Array, Array, Array]:
        """Body poses; velocities and J̇ v (n, P, 6) of the closure frames in world axes."""
        if not len(self._where):
            return self.poses(q), np.zeros((len(q), 0, 6)), np.zeros((len(q), 0, 6))
        return self._rates(q, v)

    @cached_property
    def _rates(self) -> Any:
        terms = (pose, POINT_VELOCITIES, JACOBIAN_DOT_V)
        return compile(terms, self.model, points=self._where)


def _turned(R: Array, vectors: Array) -> Array:
    return (R @ vectors[..., None])[..., 0]


def _cross(a: Array, b: Array) -> Array:
    """a × b on the last axis; ten times as fast as np.cross for a few vectors."""
    out = np.empty(np.broadcast_shapes(a.shape, b.shape), dtype=np.result_type(a, b))
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        out[..., i] = a[..., j] * b[..., k] - a[..., k] * b[..., j]
    return out


def _entry(at: int, form: str, constant: float) -> tuple[int, Array, Array, float, float]:
    on_R, on_r, along = _ENTRIES[form]
    weights, shift = np.zeros((3, 3)), np.zeros(3)
    for place, weight in on_R.items():
        weights[place] = weight
    shift[list(on_r)] = 1.0
    return at, weights, shift, float(along), constant if form in ("R22", "distance") else 0.0


def _strict(
    at: int, angular: str, linear: str, constant: float
) -> list[tuple[int, Array, Array, float, float]]:
    """Rows of one closure for assembly: z_b = z_a, or R = I, instead of their first-order part."""
    out = [_entry(at, form, constant) for form in LINEAR[linear]]
    if angular == "all":
        for i in range(3):
            for j in range(3):
                weights = np.zeros((3, 3))
                weights[i, j] = np.sqrt(0.5)
                out.append((at, weights, np.zeros(3), 0.0, np.sqrt(0.5) * (i == j)))
        return out
    out.extend(_entry(at, form, constant) for form in ANGULAR[angular] if form != "wz")
    if angular == "axis":
        weights = np.zeros((3, 3))
        weights[2, 2] = 1.0
        out.append((at, weights, np.zeros(3), 0.0, 1.0))
    return out
