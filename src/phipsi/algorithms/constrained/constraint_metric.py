"""The constraint rows in the metric of the mass matrix, decomposed so that their rank shows.

With ℳ = L L*, rates x = L* v have the kinetic energy ½ x* x, and the rows become G L⁻*. Each row is
divided by its natural size, the one it would have if nothing in it cancelled, so that rad and m,
light and heavy bodies compare; `row_rank` decides which of them are independent.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms.constrained.constraint_rows import ClosureRows, RelativeFrames
from phipsi.algorithms.constrained.row_rank import (
    DEPENDENT,
    RANK,
    Independent,
    Ranked,
    least,
    most_independent,
    multiples,
    rank_limit,
)
from phipsi.core.backends import ROW_GAP, ROW_GAP_LEAST
from phipsi.core.compiler import compile
from phipsi.core.operators import mass_matrix
from phipsi.errors import SingularMatrixError

Array = NDArray[Any]

_ZERO = 1e-14
_DEPENDENT = 1e-6  # rows this close to dependent are left to the singular values


@final
class ConstraintMetric:
    """G = A J at n configurations, and its pseudo-inverse in the mass metric.

    With `rank` the rank is known, for example from the last configuration, where drift did not blur
    it. If that is all rows that are not zero, their QR factors do, and singular values are computed
    only if they are asked for. `limit` is what `row_rank` says for the gap of the loops, or one
    number. `rows_used` (rows,) leaves the others out, as if they were not there; `rates_used` (k,)
    are those of joints that move while the others are held: nv is then their number, and `spread`
    fills in the others. `inertia` (n, nv, nv), of these rates or of all, stands for the mass
    matrix.

    **Attributes:** `matrix`, A (n, rows, 6 P); `motion`, J (n, 6 P, nv); `jacobian`, G (n, rows,
    nv), and `whole`, that of all rates; `size` (n, rows), the divisor of each row; `back`, L⁻*
    (n, nv, nv); `residual`, `gap`, `singular`, `rank` and `smallest`, computed when they are asked
    for.
    """

    def __init__(
        self,
        rows: ClosureRows,
        q: Array,
        limit: float | None = None,
        rank: int | None = None,
        *,
        rows_used: Array | None = None,
        rates_used: Array | None = None,
        inertia: Array | None = None,
    ) -> None:
        self._poses, self.matrix, self.motion, self.jacobian, own = rows.with_mass_matrix(q)
        self.whole, self._rates_used = self.jacobian, rates_used
        mass = own if inertia is None else inertia
        if rates_used is not None:
            self.motion = self.motion[..., rates_used]
            self.jacobian = self.jacobian[..., rates_used]
            if mass.shape[-1] > len(rates_used):
                mass = mass[..., rates_used[:, None], rates_used]
        self.rows, self.q, self._limit, self._given = rows, q, limit, rank
        self.back = np.swapaxes(np.linalg.inv(_cholesky(rows, q, mass)), -1, -2)
        carried = self.jacobian @ self.back
        self._carried_motion = self.motion @ self.back
        size = rows.sizes(self.matrix, self._carried_motion, carried)
        self.size = np.where(size > 0, size, 1.0)
        self._scaled = carried / self.size[..., None]
        self._used = rows_used
        if rows_used is not None:
            self._scaled[:, ~rows_used] = 0.0
        # a planar loop closed in space has three rows out of five that nothing in it can move
        self._alive: Array = np.asarray((np.abs(self._scaled) > _ZERO).any(axis=(0, 2)))

    @cached_property
    def residual(self) -> Array:
        """g (n, rows)."""
        return self.rows.residual(self.q, self._poses)[0]

    @cached_property
    def gap(self) -> Array:
        """How far the loops are open (n,), as an angle: lengths divided by their lever arms."""
        return self.rows.gap(self.residual, self._carried_motion)

    @cached_property
    def _ranked(self) -> Ranked:
        if self._limit is not None or self._given is not None:
            return Ranked(self._scaled, self._limit or RANK, self._given, self._alive)
        found = Ranked(self._scaled, RANK, None, self._alive)
        if found.is_clear:
            return found
        return found.with_limit(rank_limit(self.gap))

    @property
    def singular(self) -> Array:
        """Singular values (n, k) of the scaled rows, descending, relative to the largest."""
        return self._ranked.relative

    @cached_property
    def _triangular(self) -> Independent | None:
        """The rows that are not zero, if they are known to be independent."""
        if self._given != int(self._alive.sum()):
            return None
        return Independent.of(self._scaled, self._alive, _DEPENDENT)

    @cached_property
    def _decided(self) -> Independent | Ranked:
        """The rows without singular values where those decide nothing."""
        if self._given is not None:
            return self._triangular or self._ranked
        # the largest singular value of rows of length one is at most the root of their number
        sure = max(DEPENDENT, (self._limit or 0.0) * np.sqrt(len(self._alive)))
        return Independent.of(self._scaled, self._alive, sure) or self._ranked

    @property
    def rank(self) -> Array:
        """How many rows are independent (n,)."""
        return self._decided.rank

    @property
    def smallest(self) -> Array:
        """The smallest singular value (n,) that counts, of the largest; an estimate from R⁻¹."""
        if self._triangular is not None:
            return self._triangular.smallest
        last = np.maximum(self.rank - 1, 0)
        if not self.singular.shape[1]:
            return np.ones(len(self.q))
        return np.take_along_axis(self.singular, last[:, None], axis=1)[:, 0]

    def solve(self, wanted: Array, damping: Array | None = None) -> Array:
        """The x (n, nv) of least kinetic energy with G x = wanted (n, rows), in least squares.

        `damping` (n,) is added to the squares of the singular values; where the rows are
        independent beyond doubt, it is left out.
        """
        scaled = wanted / self.size
        decided = self._triangular if damping is not None else self._decided
        if isinstance(decided, Independent):
            return (self.back @ decided.solve(scaled)[..., None])[..., 0]
        ranked = self._ranked
        s = ranked.values
        along = np.einsum("nrk,nr->nk", ranked.left, scaled)
        squares = s**2 if damping is None else s**2 + damping[:, None]
        gain = np.where(ranked.kept, s / np.where(squares > 0, squares, 1.0), 0.0)
        x = np.swapaxes(ranked.right, -1, -2) @ (gain * along)[..., None]
        return (self.back @ x)[..., 0]

    def spread(self, x: Array) -> Array:
        """Numbers (n, k) of the rates that are used as numbers of all rates, zero at the others."""
        if self._rates_used is None:
            return x
        out = np.zeros((len(x), self.whole.shape[-1]))
        out[:, self._rates_used] = x
        return out

    @cached_property
    def reach(self) -> Array:
        """ℳ⁻¹ G* S⁺ (n, nv, rows): the x of `solve`, by `wanted`."""
        return self.back @ self._decided.pseudo_inverse() / self.size[..., None, :]

    @cached_property
    def admittance(self) -> Array:
        """S⁺ (n, rows, rows), a symmetric generalised inverse of S = G ℳ⁻¹ G*."""
        return self._decided.gram_inverse() / (self.size[..., :, None] * self.size[..., None, :])

    @cached_property
    def free(self) -> Array:
        """The orthogonal projector (n, nv, nv) onto motions that keep the rows, for x = L* v."""
        return np.eye(self.back.shape[-1]) - self._decided.across()

    @cached_property
    def by_efforts(self) -> Array:
        """Accelerations by efforts (n, nv, nv) that keep the rows: ℳ⁻¹ − ℳ⁻¹ G* S⁺ G ℳ⁻¹."""
        carried = self.back @ self.free
        return carried @ np.swapaxes(carried, -1, -2)

    def unconstrained(self, load: Array) -> Array:
        """ℳ⁻¹ load (n, nv) of loads (n, nv), as if nothing held the rows."""
        return (self.back @ (np.swapaxes(self.back, -1, -2) @ load[..., None]))[..., 0]

    def accelerations(self, free: Array, asked: Array) -> tuple[Array, Array, Array]:
        """x (n, nv), f (n, rows) with ℳ x + G* f = ℳ free and G x = asked (n, rows); their gap.

        This is the one dense solution of the equations of motion with constraints: `free` are the
        accelerations as if nothing held the rows, f is the least. The gap is what the rows ask for
        beyond `free`; `contradicted` says whether they can have it.
        """
        gap = asked - np.einsum("nrv,nv->nr", self.jacobian, free)
        f = -self.without_self_stress(self.multipliers(gap))
        return free + self.solve(gap), f, gap

    def contradicted(self, gap: Array) -> tuple[Array, Array]:
        """The row (n,) that asks for most beyond what the others allow, and by how much (n,).

        The amount is zero where no row contradicts the others.
        """
        wrong = np.abs(self.contradiction(gap))
        limit = ROW_GAP * np.abs(gap).max(axis=-1, initial=0.0) + ROW_GAP_LEAST
        most = wrong.max(axis=-1, initial=0.0)
        row = wrong.argmax(axis=-1) if wrong.shape[-1] else np.zeros(len(wrong), dtype=int)
        return row, np.where(most > limit, most, 0.0)

    def multipliers(self, wanted: Array) -> Array:
        """p (n, rows) with ℳ x = G* p for the x of `solve`."""
        return (self.admittance @ wanted[..., None])[..., 0]

    def multipliers_of(self, load: Array) -> Array:
        """The p (n, rows) of least norm with G* p = load (n, nv), in least squares."""
        x = np.swapaxes(self.back, -1, -2) @ load[..., None]
        p = np.swapaxes(self._decided.pseudo_inverse(), -1, -2) @ x
        return (self._least @ p)[..., 0] / self.size

    def without_self_stress(self, p: Array) -> Array:
        """The multipliers (n, rows) of least norm that load the joints as p (n, rows) does."""
        return (self._least @ (self.size * p)[..., None])[..., 0] / self.size

    @cached_property
    def _least(self) -> Array:
        """Multipliers in natural size → those that load the joints alike, of least norm."""
        if isinstance(self._decided, Independent):
            return self._decided.onto()
        return least(self._decided.onto(), 1 / self.size)

    def self_stress(self, element: int = 0) -> Array:
        """Orthonormal multipliers (rows, k) that load no joint, in the units of the rows."""
        size = self.size[element]
        used = np.arange(len(size)) if self._used is None else np.flatnonzero(self._used)
        idle = np.eye(len(size)) - self._least[element] / size[:, None] * size
        vectors, _, _ = np.linalg.svd(idle[np.ix_(used, used)])
        out = np.zeros((len(size), len(used) - int(self.rank[element])))
        out[used] = vectors[:, : out.shape[1]]
        return out

    def contradiction(self, wanted: Array) -> Array:
        """Part of `wanted` (n, rows) that no motion gives, in the units of the rows."""
        scaled = (wanted / self.size)[..., None]
        return (scaled - self._decided.onto() @ scaled)[..., 0] * self.size

    def independent_rows(self, element: int = 0) -> list[int]:
        """As many rows as the rank that determine the others: QR with the largest row first."""
        return most_independent(self._scaled[element], int(self.rank[element]))

    # ---- coordinates of one element -------------------------------------------------------------

    def coordinates(self, element: int = 0) -> Array:
        """The part of each rate (nv, nv) in motions that keep the rows, in natural size.

        Row i is that of rate i, divided by how fast it could be with the same energy if it alone
        moved freely: at most of length one, and zero where the rows hold the joint.
        """
        back = self.back[element]
        size = np.linalg.norm(back, axis=-1, keepdims=True)
        return back / size @ self.free[element]

    def independent_rates(
        self, first: tuple[int, ...] = (), among: Array | None = None, element: int = 0
    ) -> Array:
        """As many rates as degrees of freedom that determine the others, `first` among them."""
        rows = self.coordinates(element)
        count = len(rows) - int(self.rank[element])
        if among is not None:
            return among[most_independent(rows[among], count, first)]
        return np.array(most_independent(rows, count, first), dtype=int)

    def motions(self, chosen: Array, element: int = 0) -> Array:
        """Z (nv, chosen): all rates by those that are chosen, in motions that keep the rows."""
        size = np.linalg.norm(self.back[element], axis=-1)
        return size[:, None] * multiples(self.coordinates(element), chosen) / size[chosen]


def turned_over(relative: RelativeFrames, rows: ClosureRows) -> Array:
    """Which closures (n, C) satisfy their rows the wrong way round: z_b = −z_a, or a half turn."""
    kinds = [rows.closures.closures[int(i)].angular for i in rows.pairs]
    axis = np.array([kind == "axis" for kind in kinds], dtype=bool)
    fully = np.array([kind == "all" for kind in kinds], dtype=bool)
    trace = np.einsum("ncii->nc", relative.R)
    return (axis & (relative.R[..., 2, 2] < 0)) | (fully & (trace < 0))


def _cholesky(rows: ClosureRows, q: Array, M: Array) -> Array:
    model = rows.model
    try:
        return np.linalg.cholesky(M)
    except np.linalg.LinAlgError:
        if not np.isfinite(M).all():
            raise
    compile(mass_matrix.inv, model)(q, np.zeros(model.nv))  # names the joint that nothing resists
    raise SingularMatrixError(
        "the mass matrix is not positive definite, so the constraints have no mass metric; give "
        "the lightest joints rotor inertia (armature)"
    )
