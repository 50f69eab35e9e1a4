"""Constrained equations of small systems as straight-line code that knows what is zero.

    ℳ x + G* f = c,    G x = −e

is solved for x in lanes by eliminating ℳ = L D L* from the tips to the base, which leaves no
fill-in, and then the rows: with Y = L⁻¹ G*, (Y* D⁻¹ Y) f = Y* D⁻¹ L⁻¹ c + e. Which entries of ℳ and
G are zero at all configurations is read off a few random ones. A row that depends on those before
it is dropped by the criterion of programs (`rank_limits`), relative to its own entry and to its
natural size, and noted if it asks for something else than they give.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from phipsi.algorithms import ConstraintMetric, System
from phipsi.core.backends import errors_from_status, rank_limits
from phipsi.core.compiler import compile
from phipsi.core.machine import Mask, Number
from phipsi.core.operators import mass_matrix
from phipsi.errors import PhipsiError
from phipsi.native import LaneStatus, StraightLine

MOST_PRODUCTS = 12000
"""Systems that need more products than this in one elimination are solved by sweeps."""
_SAMPLES, _ZERO = 3, 1e-12
_LARGEST = 200  # rates or rows beyond which patterns are not even looked for

_INERTIAS = frozenset({"M", "Jr"})

Pattern = tuple[tuple[int, ...], ...]


@final
@dataclass(frozen=True, eq=False)
class Elimination:
    """What is not zero in ℳ and G of a system.

    **Attributes:** `mass` (nv), for each rate those of smaller number that it is coupled with;
    `rows`, of all rows those that move at all; `motions`, for each of them its rates; `n_rows`, of
    all rows; `floors` (n_rows,), below which a pivot is rounding error; `is_given`, whether
    inertias are: `floors` are then followed by the diagonal of ℳ (nv,) that they hold for.
    """

    mass: Pattern
    rows: tuple[int, ...]
    motions: Pattern
    n_rows: int
    floors: np.ndarray
    is_given: bool = False

    @property
    def key(self) -> str:
        """A digest of what the code depends on."""
        text = repr((self.mass, self.rows, self.motions, self.n_rows, self.is_given))
        return hashlib.sha256(text.encode()).hexdigest()

    def products(self) -> int:
        """About how many products one elimination takes, fill-in among the rows left out."""
        inner = sum(len(x) ** 2 / 2 for x in self.mass)
        carried = sum(len(self.mass[k]) for motion in self.motions for k in motion)
        sets = [set(motion) for motion in self.motions]
        pairs = sum(len(x & y) for i, x in enumerate(sets) for y in sets[: i + 1])
        return int(inner + carried + pairs + len(self.rows) ** 3 / 6)


def elimination_of(system: System, given: Sequence[str] = ()) -> Elimination | None:
    """The patterns of a system, or None if it is too large for code without loops.

    With inertias among the quantities that are `given`, those of any inertias.
    """
    names = _INERTIAS.intersection(given)
    return system.cached((Elimination, names), lambda: _elimination(system, names))


def _elimination(system: System, names: frozenset[str]) -> Elimination | None:
    rows, rng = system.rows, np.random.default_rng(0)
    if max(system.nv, rows.n_rows) > _LARGEST:
        return None
    q = system.model.random_configuration(rng, (_SAMPLES,))
    try:
        at = ConstraintMetric(rows, q)
        _, _, _, G, M = rows.with_mass_matrix(q)
        size = np.einsum("nii->ni", M)
        if "M" in names or (names and not system.has_more_rows):
            half = rng.standard_normal((system.model.n_bodies, 6, 6))
            program = compile(mass_matrix, system.model, mode="dense", inputs=("M",))
            M = program(q, half @ half.swapaxes(-1, -2))
        elif names:  # any block of Jr
            M = M.copy()
            for own in system.model.v_slices:
                M[:, own, own] = np.sqrt(size[:, own, None] * size[:, None, own])
    except PhipsiError:  # the programs say why
        return None
    scale = np.sqrt(np.einsum("nii->ni", M))
    coupled = (np.abs(M) > _ZERO * scale[:, :, None] * scale[:, None, :]).any(axis=0)
    # G L⁻* in natural size is at most one: beside it, that of one rate alone is G / (size · scale)
    least = _ZERO * at.size[..., None] * np.sqrt(size)[:, None, :]
    moved = (np.abs(G) > least).any(axis=0)
    for x in rows.laws:  # their slopes may vanish in all samples, or not be numbers there
        moved[x.row, x.rates] = True
    alive = [i for i in range(rows.n_rows) if moved[i].any()]
    sizes = np.square(np.where(np.isfinite(at.size), at.size, 1.0))
    floors = rank_limits.ROW_FLOOR * sizes.mean(axis=0)
    found = Elimination(
        mass=tuple(tuple(int(j) for j in np.flatnonzero(coupled[i, :i])) for i in range(system.nv)),
        rows=tuple(alive),
        motions=tuple(tuple(int(k) for k in np.flatnonzero(moved[i])) for i in alive),
        n_rows=rows.n_rows,
        floors=np.concatenate([floors, size.mean(axis=0)]) if names else floors,
        is_given=bool(names),
    )
    return found if found.products() <= MOST_PRODUCTS else None


@dataclass(frozen=True)
class RightSide:
    """One right-hand side: whether it has a load c, and whether e is given by rates.

    Given by rates, e = G v − wanted. The pointers of a call are −c, if there is one; then e, or v
    and the wanted rates; then x, the status, and f if `multipliers` are wanted.
    """

    loaded: bool = False
    by_rates: bool = False
    multipliers: bool = False

    @property
    def pointers(self) -> int:
        """How many there are."""
        return 3 + self.loaded + self.by_rates + self.multipliers


def write_solution(at: StraightLine, system: Elimination, sides: Sequence[RightSide]) -> None:
    """A function of ℳ, G, floors, and the places of every right-hand side."""
    mass, motion, floors, *given = at.places
    nv = len(system.mass)
    solver = Solver(
        at,
        system,
        lambda i, j: at.load(mass, i * nv + j),
        lambda i, j: at.load(motion, i * nv + j),
        [at.load_shared(floors, i) for i in range(len(system.floors))],
    )
    for side in sides:
        own, given = given[: side.pointers], given[side.pointers :]
        load = None
        if side.loaded:
            base = own.pop(0)
            load = [at.load(base, k) for k in range(nv)]
        right = [at.load(own[0], i) for i in (range(nv) if side.by_rates else system.rows)]
        if side.by_rates:
            right = solver.gaps(right, [at.load(own[1], i) for i in system.rows])
        out = own[1 + side.by_rates :]
        store_solution(at, solver.solve(right, load), *out)


class Solved(NamedTuple):
    """A solution: x (nv,), its status, and f of all rows."""

    x: list[Number | float]
    status: LaneStatus
    f: list[Number | float]


def store_solution(at: StraightLine, found: Solved, x: Any, status: Any, f: Any = None) -> None:
    """A solution at these places."""
    at.store_status(found.status, status)
    for values, place in ((found.x, x), (found.f, f)):
        for i, value in enumerate(values if place is not None else ()):
            at.store(value, place, i)


@final
class Solver:
    """The factors of ℳ and of the rows, in registers.

    ``mass(i, j)`` and ``motion(row, j)`` are entries of ℳ and G, of which those that are not zero
    are asked for; `floors` those of the elimination. Reciprocals have the other sign, so that
    nothing is subtracted: LLVM looks for the best place of every sign in a chain of products, and
    the time it takes doubles with each of them.
    """

    def __init__(
        self,
        at: StraightLine,
        system: Elimination,
        mass: Callable[[int, int], Number],
        motion: Callable[[int, int], Number],
        floors: Sequence[Number],
    ) -> None:
        self.at, self.system, self.nv = at, system, len(system.mass)
        self.G = [
            {k: motion(row, k) for k in rates}
            for row, rates in zip(system.rows, system.motions, strict=True)
        ]
        self.light = self._factor_mass(mass)
        self.Y = [self._carried(row) for row in self.G]
        self.scaled = [{k: x * self.recips[k] for k, x in y.items()} for y in self.Y]  # −D⁻¹ Y
        self._factor_rows(self._floors(mass, floors))

    def _added(self, x: Number, y: Number, old: Number | None) -> Number:
        """old + x y, an old number that is missing being zero."""
        return x * y if old is None else self.at.fma(x, y, old)

    def _product(self, x: dict[int, Number], y: dict[int, Number]) -> Number | None:
        """The product of two sparse vectors; None if they have nothing in common."""
        total: Number | None = None
        for k, entry in x.items():
            if k in y:
                total = self._added(entry, y[k], total)
        return total

    # ---- ℳ = L D L*, from the last rate to the first

    def _factor_mass(self, mass: Callable[[int, int], Number]) -> Mask | None:
        """−D⁻¹ and −L, without its diagonal; lanes in which a joint has nothing to move."""
        nv = self.nv
        own = [mass(k, k) for k in range(nv)]
        left = {(k, k): x for k, x in enumerate(own)}
        for i, others in enumerate(self.system.mass):
            left |= {(i, j): mass(i, j) for j in others}
        self.recips = dict[int, Number]()
        self.L: list[dict[int, Number]] = [{} for _ in range(nv)]
        light: Mask | None = None
        for k in reversed(range(nv)):
            pivot = left[k, k]
            bad = ~(pivot > own[k] * rank_limits.HINGE_TOLERANCE)
            light = bad if light is None else light | bad
            self.recips[k] = -1.0 / pivot
            below = {j: left[k, j] for j in range(k) if (k, j) in left}
            self.L[k] = {j: x * self.recips[k] for j, x in below.items()}
            for i, x in self.L[k].items():
                for j, y in below.items():
                    if j <= i:
                        left[i, j] = self._added(x, y, left.get((i, j)))
        return light

    def _carried(self, row: dict[int, Number]) -> dict[int, Number]:
        """L⁻¹ of a sparse vector."""
        y = dict(row)
        for k in reversed(range(self.nv)):
            if k in y:
                for j, factor in self.L[k].items():
                    y[j] = self._added(factor, y[k], y.get(j))
        return y

    # ---- the rows

    def _floors(
        self, mass: Callable[[int, int], Number], numbers: Sequence[Number]
    ) -> list[Number]:
        """Below which a pivot is rounding error: with given inertias, in proportion to 1/ℳ."""
        rows = self.system.rows
        floors = [numbers[row] for row in rows]
        if not self.system.is_given:
            return floors
        own = [mass(k, k) for k in range(self.nv)]
        known = numbers[self.system.n_rows :]
        ratios = [x / y for x, y in zip(known, own, strict=True)]
        for p, rates in enumerate(self.system.motions):
            largest = ratios[rates[0]]
            for k in rates[1:]:
                largest = self.at.larger(largest, ratios[k])
            floors[p] = floors[p] * largest
        return floors

    def _factor_rows(self, floors: list[Number]) -> None:
        """−L, without its diagonal, and −D⁻¹ of −Y* D⁻¹ Y."""
        at, rows = self.at, range(len(self.Y))
        self.lower: list[dict[int, Number]] = [{} for _ in rows]
        self.row_recips: list[Number] = []
        self.used: list[Mask] = []
        for p in rows:
            whole: dict[int, Number] = {}  # L D of this row
            for j in rows[:p]:
                value = self._product(self.scaled[p], self.Y[j])
                for m, x in whole.items():
                    if m in self.lower[j]:
                        value = self._added(x, self.lower[j][m], value)
                if value is not None:
                    whole[j] = value
            own = self._product(self.scaled[p], self.Y[p])
            assert own is not None  # it moves
            pivot = own
            for j, x in whole.items():
                self.lower[p][j] = x * self.row_recips[j]
                pivot = self._added(x, self.lower[p][j], pivot)
            least = at.larger(at.abs(own) * rank_limits.ROW_TOLERANCE, floors[p])
            good = at.abs(pivot) > least
            self.used.append(good)
            self.row_recips.append(at.where(good, -1.0 / at.where(good, pivot, 1.0), 0.0))

    def solve(self, right: Sequence[Number], load: Sequence[Number] | None = None) -> Solved:
        """x with G x = −e for the rows that move, e being `right`, and c = −`load`."""
        at, right = self.at, list(right)
        carried = {} if load is None else self._carried(dict(enumerate(load)))
        for p, row in enumerate(self.scaled):
            for k, x in row.items():
                if k in carried:
                    right[p] = self._added(x, carried[k], right[p])
        f, status = self._multipliers(right)
        zero = at.number(0.0)
        total, x = zero, self._motion(carried, f)
        for value in x:
            total = at.fma(at.number(value), zero, total)
        status = status.kept(at.equal(total, 0.0), errors_from_status.NOT_FINITE)
        if self.light is not None:
            status = status.replaced(self.light, errors_from_status.HINGE)
        known = dict(zip(self.system.rows, f, strict=True))
        return Solved(x, status, [known.get(row, 0.0) for row in range(self.system.n_rows)])

    def gaps(self, v: Sequence[Number], wanted: Sequence[Number]) -> list[Number]:
        """e = G v − wanted of the rows that move."""
        found = [self._product(row, dict(enumerate(v))) for row in self.G]
        return [x - y for x, y in zip(found, wanted, strict=True) if x]

    def _multipliers(self, right: list[Number]) -> tuple[list[Number], LaneStatus]:
        """f, and a status where a dependent row asks for something else than the others."""
        at = self.at
        largest = at.number(0.0)
        for x in right:
            largest = at.larger(largest, at.abs(x))
        limit = largest * rank_limits.ROW_GAP + rank_limits.ROW_GAP_LEAST
        doubt = largest * rank_limits.ROW_DOUBT + rank_limits.ROW_DOUBT_LEAST
        wrong = doubtful = at.status()
        f = list(right)
        for p, lower in enumerate(self.lower):
            for j, x in lower.items():
                f[p] = self._added(x, f[j], f[p])
            unused, gap = ~self.used[p], at.abs(f[p])
            over, near = (unused & (gap > bound) for bound in (limit, doubt))
            number = errors_from_status.CODES * (self.system.rows[p] + 1)
            wrong = wrong.replaced(over, errors_from_status.CONTRADICTION + number)
            doubtful = doubtful.replaced(near, errors_from_status.DOUBTFUL + number)
        f = [x * recip for x, recip in zip(f, self.row_recips, strict=True)]
        for p in reversed(range(len(f))):
            for j, x in self.lower[p].items():
                f[j] = self._added(x, f[p], f[j])
        return f, wrong.or_else(doubtful)

    def _motion(self, load: dict[int, Number], f: list[Number]) -> list[Number | float]:
        """x = L⁻* D⁻¹ (L⁻¹ c − Y f)."""
        left: dict[int, Number] = dict(load)
        for y, multiplier in zip(self.Y, f, strict=True):
            for k, entry in y.items():
                left[k] = self._added(entry, multiplier, left.get(k))
        x: dict[int, Number] = {}
        for k in range(self.nv):
            value = left[k] * self.recips[k] if k in left else None
            for j, factor in self.L[k].items():
                if j in x:
                    value = self._added(factor, x[j], value)
            if value is not None:
                x[k] = value
        return [x.get(k, 0.0) for k in range(self.nv)]
