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

from phipsi.algorithms.constrained.constraint_metric import ConstraintMetric
from phipsi.algorithms.constrained.system import System
from phipsi.backends import failures, rank_limits
from phipsi.backends.native.text import llvm_text as ir
from phipsi.backends.native.text.lane_arithmetic import Emitter, Lane
from phipsi.compiler import compile
from phipsi.errors import PhipsiError
from phipsi.motion.unrolled_programs import LaneMemory, begin_function
from phipsi.operators import mass_matrix

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
            program = compile(mass_matrix, system.model, mode="dense", given=("M",))
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


def write_solution(
    module: ir.Module,
    lanes: int,
    fused: bool,
    system: Elimination,
    sides: Sequence[RightSide],
    name: str,
) -> ir.Function:
    """``void name(ℳ, G, floors, pointers of every right-hand side …)``."""
    count = 3 + sum(side.pointers for side in sides)
    at, pointers = begin_function(module, lanes, fused, count, name)
    mass, motion, floors = pointers[:3]
    nv = len(system.mass)
    solver = Solver(
        at.e,
        system,
        lambda i, j: at.load(mass, i * nv + j),
        lambda i, j: at.load(motion, i * nv + j),
        [at.number(floors, i) for i in range(len(system.floors))],
    )
    first = 3
    for side in sides:
        given = pointers[first : first + side.pointers]
        load = None
        if side.loaded:
            base = given.pop(0)
            load = [at.load(base, k) for k in range(nv)]
        right = [at.load(given[0], i) for i in (range(nv) if side.by_rates else system.rows)]
        if side.by_rates:
            right = solver.gaps(right, [at.load(given[1], i) for i in system.rows])
        out = given[1 + side.by_rates :]
        store_solution(at, solver.solve(right, load), *out)
        first += side.pointers
    at.b.ret_void()
    return at.b.function


class Solved(NamedTuple):
    """A solution: x (nv,), its status, and f of all rows."""

    x: list[Any]
    status: Any
    f: list[Any]


def store_solution(at: LaneMemory, found: Solved, x: Any, status: Any, f: Any = None) -> None:
    """A solution at these places."""
    at.b.store(found.status, status, align=8)
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
        e: Emitter,
        system: Elimination,
        mass: Callable[[int, int], Lane],
        motion: Callable[[int, int], Lane],
        floors: Sequence[Lane],
    ) -> None:
        self.e, self.system, self.nv = e, system, len(system.mass)
        self.G = [
            {k: motion(row, k) for k in rates}
            for row, rates in zip(system.rows, system.motions, strict=True)
        ]
        self._factor_mass(mass)
        self.Y = [self._carried(row) for row in self.G]
        self.scaled = [{k: x * self.recips[k] for k, x in y.items()} for y in self.Y]  # −D⁻¹ Y
        self._factor_rows(self._floors(mass, floors))

    def _size(self, x: Lane) -> Lane:
        return self.e.intrinsic("fabs", x)

    # ---- ℳ = L D L*, from the last rate to the first

    def _factor_mass(self, mass: Callable[[int, int], Lane]) -> None:
        """−D⁻¹ and −L, without its diagonal."""
        nv = self.nv
        own = [mass(k, k) for k in range(nv)]
        left = {(k, k): x for k, x in enumerate(own)}
        for i, others in enumerate(self.system.mass):
            left |= {(i, j): mass(i, j) for j in others}
        self.recips: list[Any] = [None] * nv
        self.L: list[dict[int, Lane]] = [{} for _ in range(nv)]
        b, e = self.e.builder, self.e
        self.light: Any = None  # lanes in which a joint has nothing to move
        for k in reversed(range(nv)):
            pivot = left[k, k]
            bad = b.not_(e.compare(">", pivot, own[k] * rank_limits.HINGE_TOLERANCE))
            self.light = bad if self.light is None else b.or_(self.light, bad)
            self.recips[k] = -1.0 / pivot
            below = {j: left[k, j] for j in range(k) if (k, j) in left}
            self.L[k] = {j: x * self.recips[k] for j, x in below.items()}
            for i, x in self.L[k].items():
                for j, y in below.items():
                    if j <= i:
                        left[i, j] = _added(x, y, left.get((i, j)))

    def _carried(self, row: dict[int, Lane]) -> dict[int, Lane]:
        """L⁻¹ of a sparse vector."""
        y = dict(row)
        for k in reversed(range(self.nv)):
            if k in y:
                for j, factor in self.L[k].items():
                    y[j] = _added(factor, y[k], y.get(j))
        return y

    # ---- the rows

    def _floors(self, mass: Callable[[int, int], Lane], numbers: Sequence[Lane]) -> list[Lane]:
        """Below which a pivot is rounding error: with given inertias, in proportion to 1/ℳ."""
        e, rows = self.e, self.system.rows
        floors = [numbers[row] for row in rows]
        if not self.system.is_given:
            return floors
        own = [mass(k, k) for k in range(self.nv)]
        known = numbers[self.system.n_rows :]
        ratios = [x / y for x, y in zip(known, own, strict=True)]
        for p, rates in enumerate(self.system.motions):
            largest = ratios[rates[0]]
            for k in rates[1:]:
                largest = e.intrinsic("maxnum", largest, ratios[k])
            floors[p] = floors[p] * largest
        return floors

    def _factor_rows(self, floors: list[Lane]) -> None:
        """−L, without its diagonal, and −D⁻¹ of −Y* D⁻¹ Y."""
        e, rows = self.e, range(len(self.Y))
        self.lower: list[dict[int, Lane]] = [{} for _ in rows]
        self.row_recips: list[Lane] = []
        self.used: list[Any] = []
        for p in rows:
            whole: dict[int, Lane] = {}  # L D of this row
            for j in rows[:p]:
                value = _product(self.scaled[p], self.Y[j])
                for m, x in whole.items():
                    if m in self.lower[j]:
                        value = _added(x, self.lower[j][m], value)
                if value is not None:
                    whole[j] = value
            own = _product(self.scaled[p], self.Y[p])
            assert own is not None  # it moves
            pivot = own
            for j, x in whole.items():
                self.lower[p][j] = x * self.row_recips[j]
                pivot = _added(x, self.lower[p][j], pivot)
            least = e.intrinsic("maxnum", self._size(own) * rank_limits.ROW_TOLERANCE, floors[p])
            good = e.compare(">", self._size(pivot), least)
            self.used.append(good)
            self.row_recips.append(e.select(good, -1.0 / e.select(good, pivot, 1.0), 0.0))

    def solve(self, right: Sequence[Lane], load: Sequence[Lane] | None = None) -> Solved:
        """x with G x = −e for the rows that move, e being `right`, and c = −`load`."""
        e, b = self.e, self.e.builder
        right = list(right)
        carried = {} if load is None else self._carried(dict(enumerate(load)))
        for p, row in enumerate(self.scaled):
            for k, x in row.items():
                if k in carried:
                    right[p] = _added(x, carried[k], right[p])
        f, status = self._multipliers(right)
        zero = e.constant(0.0)
        total, x = zero, self._motion(carried, f)
        for value in x:
            total = e.lift(value).times_plus(zero, total)
        status = b.select(e.compare("==", total, 0.0), status, e.integer(failures.NOT_FINITE))
        status = b.select(self.light, e.integer(failures.HINGE), status)
        known = dict(zip(self.system.rows, f, strict=True))
        return Solved(x, status, [known.get(row, 0.0) for row in range(self.system.n_rows)])

    def gaps(self, v: Sequence[Lane], wanted: Sequence[Lane]) -> list[Lane]:
        """e = G v − wanted of the rows that move."""
        found = [_product(row, dict(enumerate(v))) for row in self.G]
        return [x - y for x, y in zip(found, wanted, strict=True) if x]

    def _multipliers(self, right: list[Lane]) -> tuple[list[Lane], Any]:
        """f, and a status where a dependent row asks for something else than the others."""
        e, b = self.e, self.e.builder
        largest = e.constant(0.0)
        for x in right:
            largest = e.intrinsic("maxnum", largest, self._size(x))
        limit = largest * rank_limits.ROW_GAP + rank_limits.ROW_GAP_LEAST
        doubt = largest * rank_limits.ROW_DOUBT + rank_limits.ROW_DOUBT_LEAST
        wrong = doubtful = e.integer(0)
        f = list(right)
        for p, lower in enumerate(self.lower):
            for j, x in lower.items():
                f[p] = _added(x, f[j], f[p])
            unused, gap = b.not_(self.used[p]), self._size(f[p])
            over, near = (b.and_(unused, e.compare(">", gap, bound)) for bound in (limit, doubt))
            number = 8 * (self.system.rows[p] + 1)
            wrong = b.select(over, e.integer(failures.CONTRADICTION + number), wrong)
            doubtful = b.select(near, e.integer(failures.DOUBTFUL + number), doubtful)
        f = [x * recip for x, recip in zip(f, self.row_recips, strict=True)]
        for p in reversed(range(len(f))):
            for j, x in self.lower[p].items():
                f[j] = _added(x, f[p], f[j])
        none = b.icmp_signed("==", wrong, e.integer(0))
        return f, b.select(none, doubtful, wrong)

    def _motion(self, load: dict[int, Lane], f: list[Lane]) -> list[Any]:
        """x = L⁻* D⁻¹ (L⁻¹ c − Y f)."""
        left: dict[int, Lane] = dict(load)
        for y, multiplier in zip(self.Y, f, strict=True):
            for k, entry in y.items():
                left[k] = _added(entry, multiplier, left.get(k))
        x: dict[int, Lane] = {}
        for k in range(self.nv):
            value = left[k] * self.recips[k] if k in left else None
            for j, factor in self.L[k].items():
                if j in x:
                    value = _added(factor, x[j], value)
            if value is not None:
                x[k] = value
        return [x.get(k, 0.0) for k in range(self.nv)]


def _added(x: Lane, y: Lane, old: Lane | None) -> Lane:
    """old + x y, an old number that is missing being zero."""
    return x * y if old is None else x.times_plus(y, old)


def _product(x: dict[int, Lane], y: dict[int, Lane]) -> Lane | None:
    """The product of two sparse vectors; None if they have nothing in common."""
    total: Lane | None = None
    for k, entry in x.items():
        if k in y:
            total = _added(entry, y[k], total)
    return total
