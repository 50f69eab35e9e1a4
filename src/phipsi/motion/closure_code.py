"""Machine code of constrained steps: accelerations that keep the rows, then the nearest state.

Lanes are trajectories, as in lane_code.py. A step needs the accelerations of closed chains; the
poses of the bodies, from which residuals g are computed here; and two changes in the mass metric
(see motion.py): x with G x = −g, the step of Newton's method, and y with G (v + y) = rates. Small
systems are solved by straight-line code (unrolled_elimination.py), others by O(N) programs. The
terms of small systems are straight-line code too, with the numbers of the model in it
(closure_terms.py), or come from programs.

All drop rows that follow from those before them, and note a doubt where such a row asks for
something else than they give. At the start of a step and in the projection of rates the loops are
closed to rounding, so a doubt there is one about the rank: the lane stops. In between the loops are
open by the error of a stage, and redundant rows disagree by as much: that is not a doubt.

Reasons: docs/decisions/0037.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, Protocol, final

import numpy as np

from phipsi.algorithms.constrained.assembly import ROUNDING
from phipsi.algorithms.constrained.system import System
from phipsi.algorithms.dynamics.dynamics_expressions import VELOCITY_CHANGE, forward_with_rows
from phipsi.backends.failures import CONTRADICTION, DOUBTFUL
from phipsi.backends.native.kernel.entry_code import entry_code
from phipsi.backends.native.runs.lane_group import JointPart
from phipsi.backends.native.runs.straight_line import Routine, StraightLine, straight_line
from phipsi.backends.native.text.lane_arithmetic import (
    DOUBLE,
    I64,
    Emitter,
    Lane,
    LaneMask,
    i64,
    write_loop,
)
from phipsi.backends.program import Program
from phipsi.compiler import compile
from phipsi.motion.closure_terms import ELIMINATION, MODES, Unrolled, Way, way_of
from phipsi.motion.motion import NEWTON, TOLERANCE
from phipsi.motion.unrolled_elimination import (
    Elimination,
    RightSide,
    Solver,
    elimination_of,
    store_solution,
    write_solution,
)
from phipsi.motion.unrolled_programs import Number, write_terms
from phipsi.operators import pose

OPEN = 7
"""Status of a lane whose loops are not closed by the projection; kernels use smaller numbers."""
NEAR = 1e-12
"""With a residual (rad, m) up to this, rates are projected before the last step, which is shorter
than that."""

SWEEPS = (forward_with_rows(None, False, False), VELOCITY_CHANGE, pose)
# Words of a record: numbers, then where its tables begin, in bytes from its start.
_ROWS, _CLOSURES, _TERMS, _COUPLED, _BODIES, _AT = range(6)
_TABLES: tuple[str, ...] = ("ends", "terms", "coupled", "start", "rates", "floors")
_END, _TERM, _PAIR, _POSE, _ENTRIES = 13, 15, 3, 16, 13  # numbers of an item


def closure_programs(system: System, given: Sequence[str] = ()) -> list[Program]:
    """The programs of a step: for small systems those of the terms, for others the solutions.

    Code without loops calls none; the one that there is has the tables of the joints.
    """
    options: Any = {"backend": "native", "given": tuple(given)}
    way = way_of(system, given)
    if isinstance(way, Unrolled):
        return [compile(pose, system, backend="native")]
    if way is None:
        return [compile(form, system, **options) for form in SWEEPS]
    pairs = zip(ELIMINATION, MODES, strict=True)
    return [compile(forms, system, mode=modes, **options) for forms, modes in pairs]


def closure_record(system: System, given: Sequence[str] = ()) -> np.ndarray:
    """The rows as 8-byte words that the code reads."""
    rows, elimination = system.rows, elimination_of(system, given)
    t = rows.residual_table()
    count, terms, bodies = len(t.host), len(t.row), rows.model.n_bodies
    turned = t.rotation.reshape(count, 2, 9)
    hosts = np.where(t.host < 0, bodies, t.host)  # the pose behind the last is that of the world
    tables = (
        np.concatenate([_words(hosts)[..., None], turned, t.offset], axis=-1),
        np.concatenate([_words(np.stack([t.row, t.closure], axis=-1)), t.coefficients], axis=-1),
        np.concatenate([_words(np.stack([t.coupled, t.entry], axis=-1)), t.factor[:, None]], -1),
        t.start,
        rows.rates,
        np.zeros(0) if elimination is None else elimination.floors,
    )
    sizes = [table.size for table in tables]
    begin = 8 * (_AT + len(sizes) + np.concatenate([[0], np.cumsum(sizes)[:-1]]))
    head = np.array([rows.n_rows, count, terms, len(t.coupled), bodies, *begin], dtype=np.int64)
    return np.concatenate([head, *(table.ravel().view(np.int64) for table in tables)])


def _words(integers: np.ndarray) -> np.ndarray:
    """Integers as the doubles with the same bits."""
    return np.ascontiguousarray(integers, dtype=np.int64).view(np.float64)


def closure_size(system: System, way: Way) -> int:
    """Numbers per lane that the projection needs."""
    rows, nv = system.n_rows, system.nv
    own = 3 * rows + 2 * nv + _POSE * (system.n_bodies + 1) + _ENTRIES * len(system.rows.pairs)
    if way is None:
        return own + nv
    return own + nv * nv + rows * nv + nv + rows + 2


class Solution(Protocol):
    """Solves the equations of a step: accelerations, the step of Newton's method, the change of v.

    `look` computes residuals at q, the largest one, and all else that `correct` needs, which writes
    both corrections and notes failures: doubts about rows only in the `final` lanes, whose loops
    are closed.
    """

    def accelerate(self, stage: int) -> None:
        """Accelerations, into `vdot`."""
        ...

    def look(self) -> None:
        """Residuals, into `g`, and the largest, into `error`."""
        ...

    def correct(self, final: Any) -> None:
        """Corrections, into `x` and `y`."""
        ...


@final
class Sweeps:
    """By the O(N) programs of closed chains."""

    def __init__(self, c: Closures) -> None:
        r = self.r = c.r
        self._strict = r.program(0, [r.vdot, c.f])
        self._later = r.program(0, [r.vdot, c.f], allowed=(DOUBTFUL,))
        self._rest = r.area(r.nv)
        write_loop(r.b, r.nv, lambda i: r.store(0.0, self._rest, i))
        places: Any = {"v": self._rest, "Udot": c.g}
        self._newton = r.program(1, [c.x], places, allowed=(DOUBTFUL, CONTRADICTION))
        self._nearest = r.program(1, [c.y], {"Udot": c.rates})
        self._poses, self._c, self._y = r.program(2, [c.poses]), c, c.y

    def accelerate(self, stage: int) -> None:
        """The kernel, in a stage."""
        self._later() if stage else self._strict()

    def look(self) -> None:
        """From the poses."""
        self._poses()
        self._c.write_residual()

    def correct(self, final: Any) -> None:
        """Two solutions."""
        r, b = self.r, self.r.b
        self._newton()
        before = r.bad
        with r.when(r.any(LaneMask(r.e, final))):
            self._nearest()
            r.set_bad(b.select(final, r.bad, before))
            write_loop(b, r.nv, lambda i: r.store(-r.load(self._y, i), self._y, i))


@final
class Eliminated:
    """By elimination without loops."""

    def __init__(self, c: Closures, system: Elimination) -> None:
        r = self.r = c.r
        nv, rows = r.nv, c.n_rows
        mass, motion = r.area(r.b.mul(nv, nv)), r.area(r.b.mul(rows, nv))
        load, drift = r.area(nv), r.area(rows)
        self._status = [r.area(i64(1)) for _ in range(2)]
        self._terms = r.program(0, [load, drift, mass, motion])
        self._matrices, self._c = r.program(1, [c.poses, mass, motion]), c
        first, second = self._status
        matrices = [mass, motion, c.table("floors")]
        self._moving = [*matrices, load, drift, r.vdot, first, c.f]
        self._near = [*matrices, c.g, c.x, first, r.v, c.rates, c.y, second]
        self._given = [*matrices, r.tau, c.g, c.x, first, c.f]
        self._system = system

    def _solver(self, name: str, *sides: RightSide) -> Routine:
        r, count = self.r, 3 + sum(side.pointers for side in sides)
        write = partial(write_solution, system=self._system, sides=sides)
        return straight_line(r.module, r.e, count, f"{name}_{r.number}", write)

    @cached_property
    def _accelerations(self) -> Routine:
        return self._solver("accelerations", RightSide(loaded=True, multipliers=True))

    @cached_property
    def _corrections(self) -> Routine:
        return self._solver("corrections", RightSide(), RightSide(by_rates=True))

    def accelerate(self, stage: int) -> None:
        """The terms and their solution, in a stage."""
        self._terms()
        self._accelerations.call(self.r.e, self._moving)
        self.r.note_status(self._status[0], (DOUBTFUL,) if stage else ())

    def look(self) -> None:
        """From the poses, with both matrices."""
        self._matrices()
        self._c.write_residual()

    def solve(self) -> None:
        """ℳ x + G* f = c, G x = u at q, with −c in `tau` and −u in `g`: into `x` and `f`."""
        self._matrices()
        self._accelerations.call(self.r.e, self._given)
        self.r.note_status(self._status[0], (DOUBTFUL, CONTRADICTION))

    def correct(self, final: Any) -> None:
        """One elimination for both."""
        self._corrections.call(self.r.e, self._near)
        _note_corrections(self.r, self._status, final)


def _note_corrections(r: Any, places: Sequence[Any], final: Any) -> None:
    """The statuses of both corrections: of x, and in the `final` lanes of y."""
    first, second = places
    r.note_status(first, (DOUBTFUL, CONTRADICTION))
    before = r.bad
    r.note_status(second)
    r.set_bad(r.b.select(final, r.bad, before))


@final
class InOnePiece:
    """By code without loops from q and v to the solution."""

    def __init__(self, c: Closures, way: Unrolled) -> None:
        self.r, self.c, self.way = c.r, c, way
        self._status = [c.r.area(i64(1)) for _ in range(2)]
        self._inputs = [c.r.places[name][0] for name in way.shapes]

    def _routine(self, name: str, outputs: int, write: Callable[[StraightLine], None]) -> Routine:
        """A function of inputs and outputs."""
        r, count = self.r, len(self.way.shapes) + outputs
        return straight_line(r.module, r.e, count, f"{name}_{r.number}", write)

    def _written(
        self, at: StraightLine, entries: Sequence[Number]
    ) -> tuple[list[Any], list[Any], Solver]:
        """The places of outputs, entries, and the solver."""
        way = self.way
        where = dict(zip(way.shapes, at.places, strict=False))
        keys = [(x, i, j) for x in ("mass", "motion") for i, j in np.ndindex(getattr(way, x).shape)]
        whole = [*entries, *(getattr(way, x)[i, j] for x, i, j in keys)]
        lanes = write_terms(whole, at, lambda name, i: at.load(where[name], i))
        known = dict(zip(keys, lanes[len(entries) :], strict=True))
        solver = Solver(
            at,
            way.elimination,
            lambda i, j: known["mass", i, j],
            lambda i, j: known["motion", i, j],
            [at.number(x) for x in way.elimination.floors],
        )
        return at.places[len(way.shapes) :], lanes[: len(entries)], solver

    @cached_property
    def _accelerations(self) -> Routine:
        return self._routine("accelerations", 3, self._write_accelerations)

    def _write_accelerations(self, at: StraightLine) -> None:
        way, rows = self.way, self.way.elimination.rows
        out, found, solver = self._written(at, [*way.load, *way.drift[list(rows)]])
        nv = len(way.load)
        store_solution(at, solver.solve(found[nv:], found[:nv]), *out)

    @cached_property
    def _corrections(self) -> Routine:
        return self._routine("corrections", 6, self._write_corrections)

    def _write_corrections(self, at: StraightLine) -> None:
        """g, the largest of them, and both corrections."""
        way, rows = self.way, self.way.elimination.rows
        (gaps, error, *out), g, solver = self._written(at, list(way.residual))
        largest = at.number(0.0)
        for i, x in enumerate(g):
            at.store(x, gaps, i)
            largest = larger(at, largest, x)
        at.store(largest, error, 0)
        store_solution(at, solver.solve([g[i] for i in rows]), *out[:2])
        place = at.places[list(way.shapes).index("v")]
        v = [at.load(place, k) for k in range(len(way.load))]
        wanted = [at.number(way.rates[i]) for i in rows]
        store_solution(at, solver.solve(solver.gaps(v, wanted)), *out[2:])

    @cached_property
    def _solution(self) -> Routine:
        return self._routine("solution", 5, self._write_solution)

    def _write_solution(self, at: StraightLine) -> None:
        """With −c and e in memory."""
        rows, nv = self.way.elimination.rows, len(self.way.load)
        (load, right, *out), _, solver = self._written(at, ())
        given = [at.load(right, i) for i in rows]
        store_solution(at, solver.solve(given, [at.load(load, k) for k in range(nv)]), *out)

    def accelerate(self, stage: int) -> None:
        """One call, in a stage."""
        places = [self.r.vdot, self._status[0], self.c.f]
        self._accelerations.call(self.r.e, [*self._inputs, *places])
        self.r.note_status(self._status[0], (DOUBTFUL,) if stage else ())

    def look(self) -> None:
        """Residuals and both corrections, in one call."""
        c, (first, second) = self.c, self._status
        places = [c.g, c.error, c.x, first, c.y, second]
        self._corrections.call(self.r.e, [*self._inputs, *places])

    def correct(self, final: Any) -> None:
        """What went wrong."""
        _note_corrections(self.r, self._status, final)

    def solve(self) -> None:
        """ℳ x + G* f = c, G x = u at q, with −c in `tau` and −u in `g`: into `x` and `f`."""
        c, first = self.c, self._status[0]
        places = [self.r.tau, c.g, c.x, first, c.f]
        self._solution.call(self.r.e, [*self._inputs, *places])
        self.r.note_status(first, (DOUBTFUL, CONTRADICTION))


@final
class Closures:
    """Writes the constrained accelerations and the projection of a step.

    **Attributes:** `g`, residuals; `error`, the largest of them; `rates` of the rows; `f`, their
    multipliers; `x`, `y`, corrections of q and v; `poses`.
    """

    def __init__(self, r: Any, way: Way) -> None:
        self.r, self.b, self.e = r, r.b, r.e
        self.numbers = StraightLine(r.e, ())
        record = r.record
        words = [r.b.load(r.b.at(record, 8 * i), typ=I64) for i in range(_AT + len(_TABLES))]
        self._n, self.n_rows = words[:_AT], words[_ROWS]
        self._at = dict(zip(_TABLES, (r.b.at(record, w) for w in words[_AT:]), strict=True))
        self.g, self.rates, self.f = (r.area(self.n_rows) for _ in range(3))
        self.x, self.y = r.area(r.nv), r.area(r.nv)
        self.poses = r.area(r.b.mul(r.b.add(self._n[_BODIES], i64(1)), i64(_POSE)))
        self._entries = r.area(r.b.mul(self._n[_CLOSURES], i64(_ENTRIES)))
        self.error = r.b.alloca(r.e.vector)
        self._last, self._done = r.b.alloca(r.e.integers), r.b.alloca(r.e.integers)
        self._write_constants()
        self.solution: Solution
        if isinstance(way, Unrolled):
            self.solution = InOnePiece(self, way)
        else:
            self.solution = Sweeps(self) if way is None else Eliminated(self, way)

    def _write_constants(self) -> None:
        """What stays in working memory: the rates of the rows and the world's pose."""
        r, b = self.r, self.b
        write_loop(b, self.n_rows, lambda i: r.store(self._number("rates", i), self.rates, i))
        world = b.mul(self._n[_BODIES], i64(_POSE))
        for i in range(_POSE):
            r.store(float(i % 5 == 0), self.poses, b.add(world, i64(i)))

    def table(self, name: str) -> Any:
        """Where a table of the record begins."""
        return self._at[name]

    # ---- residuals ------------------------------------------------------------------------------

    def _word(self, table: str, i: Any) -> Any:
        where = self.b.at(self._at[table], self.b.mul(i, i64(8)))
        return self.b.load(where, typ=I64)

    def _number(self, table: str, i: Any) -> Lane:
        where = self.b.at(self._at[table], self.b.mul(i, i64(8)))
        return self.e.splat(self.b.load(where, typ=DOUBLE))

    def _numbers(self, table: str, i: Any, first: int, count: int) -> list[Lane]:
        return [self._number(table, self.b.add(i, i64(first + k))) for k in range(count)]

    def write_residual(self) -> None:
        """g at q from the poses, and the largest of every lane."""
        r, b, e = self.r, self.b, self.e
        write_loop(b, self._n[_ROWS], lambda i: r.store(self._number("start", i), self.g, i))
        write_loop(b, self._n[_CLOSURES], self._closure)
        write_loop(b, self._n[_TERMS], self._term)
        write_loop(b, self._n[_COUPLED], self._coupled)
        for x in r.laws:
            at = [r.load(r.q, i64(i)) for i in x.places]
            r.store(x.law.value(at, _LawEntries(e)), self.g, i64(x.row))
        b.store(e.constant(0.0).value, self.error)

        def largest(i: Any) -> None:
            error = Lane(e, b.load(self.error, typ=e.vector))
            b.store(larger(self.numbers, error, r.load(self.g, i)).value, self.error)

        write_loop(b, self._n[_ROWS], largest)

    def _frame(self, k: Any, side: int) -> tuple[list[list[Lane]], list[Lane]]:
        """Rotation and origin of one frame of closure k, in the world."""
        r, b = self.r, self.b
        at = b.add(b.mul(k, i64(2 * _END)), i64(side * _END))
        host = b.mul(self._word("ends", at), i64(_POSE))
        pose = [[r.load(self.poses, b.add(host, i64(4 * i + j))) for j in range(4)]
                for i in range(3)]  # fmt: skip
        turn, offset = self._numbers("ends", at, 1, 9), self._numbers("ends", at, 10, 3)
        R = [[_dot(row, turn[j::3]) for j in range(3)] for row in pose]
        return R, [_dot(row, offset) + row[3] for row in pose]

    def _closure(self, k: Any) -> None:
        """R, r and |r| of frame b of a closure, seen from frame a."""
        (R_a, x_a), (R_b, x_b) = self._frame(k, 0), self._frame(k, 1)
        columns_a, columns_b = (list(zip(*R, strict=True)) for R in (R_a, R_b))
        arm = [y - x for x, y in zip(x_a, x_b, strict=True)]
        R = [_dot(a, b) for a in columns_a for b in columns_b]
        r = [_dot(a, arm) for a in columns_a]
        values = [*R, *r, self.e.intrinsic("sqrt", _dot(r, r))]
        self.r.stores(values, self._entries, self.b.mul(k, i64(_ENTRIES)), 0)

    def _term(self, j: Any) -> None:
        at = self.b.mul(j, i64(_TERM))
        row, k = self._word("terms", at), self._word("terms", self.b.add(at, i64(1)))
        total = self.r.load(self.g, row)
        entries = self.r.loads(self._entries, self.b.mul(k, i64(_ENTRIES)), 0, _ENTRIES)
        for x, y in zip(entries, self._numbers("terms", at, 2, _ENTRIES), strict=True):
            total = x.times_plus(y, total)
        self.r.store(total, self.g, row)

    def _coupled(self, j: Any) -> None:
        at = self.b.mul(j, i64(_PAIR))
        row, entry = self._word("coupled", at), self._word("coupled", self.b.add(at, i64(1)))
        factor = self._number("coupled", self.b.add(at, i64(2)))
        total = self.r.load(self.r.q, entry).times_plus(factor, self.r.load(self.g, row))
        self.r.store(total, self.g, row)

    # ---- projection -----------------------------------------------------------------------------

    def project(self, watch: Callable[[Any, Any], None] | None = None) -> None:
        """The nearest state on the constraints.

        After a residual within the tolerance comes one step more. A lane that is done is left
        alone, so that what it gets does not depend on its neighbours. ``watch(i, still)`` writes
        code before q takes its step in iteration i, except in the lanes that stand still.
        """
        r, b, e = self.r, self.b, self.e
        ones = e.integer(1)
        failed = r.has_failed().bits
        failed = b.or_(failed, b.icmp_signed("!=", r.bad, r.zero))
        b.store(b.select(failed, ones, r.zero), self._done)
        b.store(r.zero, self._last)

        def iterate(i: Any) -> None:
            done = b.icmp_signed("==", b.load(self._done, typ=e.integers), ones)
            with r.when(~r.all(LaneMask(e, done))):
                self.solution.look()
                error = Lane(e, b.load(self.error, typ=e.vector))
                last = b.icmp_signed("==", b.load(self._last, typ=e.integers), ones)
                closed = e.compare("<=", error, TOLERANCE)
                last = b.and_(last, closed)
                final = b.or_(last, e.compare("<=", error, NEAR))
                final = b.and_(final, b.not_(done))
                still = b.or_(b.or_(done, last), e.compare("<=", error, ROUNDING))
                if watch is not None:
                    watch(i, still)
                self.solution.correct(final)

                def move(x: JointPart) -> None:
                    old = x.places(r.q)
                    new = x.group.move(old, x.rates(self.x), x.numbers)
                    pairs = zip(old, new, strict=True)
                    x.put_places([e.select(still, a, c) for a, c in pairs], r.q)

                r.each_part(move)

                def change(i: Any) -> None:
                    v = r.load(r.v, i)
                    r.store(e.select(final, v + r.load(self.y, i), v), r.v, i)

                write_loop(b, r.nv, change)
                b.store(b.select(closed, ones, r.zero), self._last)
                b.store(b.select(b.or_(done, final), ones, r.zero), self._done)

        write_loop(b, i64(NEWTON + 1), iterate)
        done = b.icmp_signed("==", b.load(self._done, typ=e.integers), ones)
        r.note(b.select(done, r.zero, e.integer(OPEN)))


@final
class _LawEntries:
    """The numbers and operations of laws on lanes."""

    number = staticmethod(float)

    def __init__(self, e: Emitter) -> None:
        self._e = e

    def entrywise(self, name: str, args: Sequence[Any], data: Any) -> Lane:
        """An operation by its name."""
        return entry_code(self._e, name, [self._e.lift(x) for x in args], data)


def _dot(x: Any, y: Any) -> Any:
    """The product of two vectors, as long as the shorter one."""
    total: Any = None
    for a, c in zip(x, y, strict=False):
        total = a * c if total is None else a.times_plus(c, total)
    return total


def larger(at: Any, error: Any, g: Any) -> Any:
    """The larger of an error and |g|; not a number if one of them is not, nor if g is infinite."""
    size, zero = at.abs(g), at.number(0.0)
    now = at.where(error > size, error, size)
    # 0 g is not a number where g is infinite or not a number, and then stays so
    return now + error * zero + g * zero
