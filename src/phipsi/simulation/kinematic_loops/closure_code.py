"""Closed chains in machine code: accelerations that keep the rows, and the nearest state.

A step needs the accelerations of closed chains; the poses of the bodies, from which residuals g are
computed here; and two changes in the mass metric (see motion.py): x with G x = −g, the step of
Newton's method (algorithms/constrained/loop_projection.py), and y with G (v + y) = rates. Small
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

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol, final

import numpy as np

from phipsi.algorithms import VELOCITY_CHANGE, LoopProjection, System, forward_with_rows
from phipsi.core.backends import CONTRADICTION, DOUBTFUL, Program
from phipsi.core.compiler import compile
from phipsi.core.machine import Index, Mask, Memory, Number
from phipsi.core.operators import pose
from phipsi.native import (
    JointPart,
    KernelSource,
    LaneMachine,
    LaneMemory,
    LaneNumbers,
    Routine,
    RunKernel,
    StraightLine,
    straight_line,
)
from phipsi.simulation.integrators.motion import NEWTON, TOLERANCE
from phipsi.simulation.kinematic_loops.closure_terms import (
    ELIMINATION,
    MODES,
    ClosureSolver,
    Unrolled,
    choose_closure_solver,
)
from phipsi.simulation.kinematic_loops.unrolled_elimination import (
    Elimination,
    RightSide,
    Solver,
    store_solution,
    write_solution,
)
from phipsi.simulation.kinematic_loops.unrolled_programs import write_entries

OPEN = 7
"""Status of a lane whose loops are not closed by the projection; kernels use smaller numbers."""

SWEEPS = (forward_with_rows(None, False, False), VELOCITY_CHANGE, pose)
_ENTRIES = 13  # of a closure: R, r and |r|


def closure_programs(system: System, given: Sequence[str] = ()) -> list[Program]:
    """The programs of a step: for small systems those of the terms, for others the solutions.

    Code without loops calls none; the one that there is has the tables of the joints.
    """
    options: Any = {"backend": "native", "inputs": tuple(given)}
    way = choose_closure_solver(system, given)
    if isinstance(way, Unrolled):
        return [compile(pose, system, backend="native")]
    if way is None:
        return [compile(form, system, **options) for form in SWEEPS]
    pairs = zip(ELIMINATION, MODES, strict=True)
    return [compile(forms, system, mode=modes, **options) for forms, modes in pairs]


class ResidualTables(NamedTuple):
    """The numbers of residuals, which are affine in R, r and |r| of each closure and in q.

    `hosts` (k, 2), the bodies of the frames a and b of a closure, and `frames` (k, 2, 12), their
    rotations and origins there; `places` (t, 2), the row and the closure of a term, and `factors`
    (t, 13) of the closure's numbers; `pairs` (p, 2), the row and the entry of q of a coupled one,
    and `slopes` (p,); `start` (rows,), what rows begin with.
    """

    hosts: np.ndarray
    frames: np.ndarray
    places: np.ndarray
    factors: np.ndarray
    pairs: np.ndarray
    slopes: np.ndarray
    start: np.ndarray


def residual_tables(system: System) -> ResidualTables:
    """Those of a system."""
    rows = system.rows
    t = rows.residual_table()
    hosts = np.where(t.host < 0, system.n_bodies, t.host)  # behind the last pose is the world's
    turned = t.rotation.reshape(len(hosts), 2, 9)
    return ResidualTables(
        np.asarray(hosts, dtype=np.int64).reshape(len(hosts), 2),
        np.concatenate([turned, t.offset], axis=-1),
        np.stack([t.row, t.closure], axis=-1).astype(np.int64),
        np.asarray(t.coefficients, dtype=float),
        np.stack([t.coupled, t.entry], axis=-1).astype(np.int64),
        np.asarray(t.factor, dtype=float),
        np.asarray(t.start, dtype=float),
    )


class Solution(Protocol):
    """Solves the equations of a step: accelerations, the step of Newton's method, the change of v.

    `look` and `correct` are those of `ProjectedRows`; what corrects q and v is left in `x` and `y`.
    """

    def accelerate(self, stage: int) -> None:
        """Accelerations, into `vdot`."""
        ...

    def look(self) -> Number:
        """Residuals, into `g`, the largest of them, and all else that `correct` needs."""
        ...

    def correct(self, final: Mask) -> None:
        """Corrections, into `x` and `y`."""
        ...


@final
class Sweeps:
    """By the O(N) programs of closed chains."""

    def __init__(self, c: Closures) -> None:
        self.c = c
        self._strict = c.program(0, [c.vdot, c.f])
        self._later = c.program(0, [c.vdot, c.f], allowed=(DOUBTFUL,))
        rest = c.array(c.nv)
        c.m.each(0, c.nv)(partial(_store, rest, 0.0))
        places = {"v": rest, "Udot": c.g}
        self._newton = c.program(1, [c.x], places, allowed=(DOUBTFUL, CONTRADICTION))
        self._nearest = c.program(1, [c.y], {"Udot": c.rates})
        self._poses = c.program(2, [c.poses])

    def accelerate(self, stage: int) -> None:
        """The kernel, in a stage."""
        self._later() if stage else self._strict()

    def look(self) -> Number:
        """From the poses."""
        self._poses()
        return self.c.compute_residual()

    def correct(self, final: Mask) -> None:
        """Two solutions."""
        m, y = self.c.m, self.c.y
        self._newton()

        @m.when(final)
        def _() -> None:
            m.attempt(self._nearest, final)

            @m.each(0, self.c.nv)
            def _(i: Index) -> None:
                y[i] = -y[i]


@final
class Eliminated:
    """By elimination without loops."""

    def __init__(self, c: Closures, system: Elimination) -> None:
        self.c, self._system = c, system
        mass, motion = c.array(c.nv, c.nv), c.array(c.n_rows, c.nv)
        load, drift = c.array(c.nv), c.array(c.n_rows)
        self._status = c.array(), c.array()
        self._terms = c.program(0, [load, drift, mass, motion])
        self._matrices = c.program(1, [c.poses, mass, motion])
        first, second = self._status
        floors = c.kernel.table(system.floors).base
        matrices = [mass.area.base, motion.area.base, floors]
        self._moving = [*matrices, *_bases(load, drift, c.vdot, first, c.f)]
        self._near = [*matrices, *_bases(c.g, c.x, first, c.v, c.rates, c.y, second)]
        self._given = [*matrices, *_bases(c.tau, c.g, c.x, first, c.f)]

    def _solver(self, name: str, *sides: RightSide) -> Routine:
        write = partial(write_solution, system=self._system, sides=sides)
        return self.c.routine(name, 3 + sum(side.pointers for side in sides), write)

    @cached_property
    def _accelerations(self) -> Routine:
        return self._solver("accelerations", RightSide(loaded=True, multipliers=True))

    @cached_property
    def _corrections(self) -> Routine:
        return self._solver("corrections", RightSide(), RightSide(by_rates=True))

    def accelerate(self, stage: int) -> None:
        """The terms and their solution, in a stage."""
        self._terms()
        self._accelerations.call(self.c.kernel.e, self._moving)
        self.c.note(self._status[0], (DOUBTFUL,) if stage else ())

    def look(self) -> Number:
        """From the poses, with both matrices."""
        self._matrices()
        return self.c.compute_residual()

    def solve(self) -> None:
        """ℳ x + G* f = c, G x = u at q, with −c in `tau` and −u in `g`: into `x` and `f`."""
        self._matrices()
        self._accelerations.call(self.c.kernel.e, self._given)
        self.c.note(self._status[0], (DOUBTFUL, CONTRADICTION))

    def correct(self, final: Mask) -> None:
        """One elimination for both."""
        self._corrections.call(self.c.kernel.e, self._near)
        self.c.note_corrections(self._status, final)


@final
class StraightLineSolve:
    """By code without loops from q and v to the solution."""

    def __init__(self, c: Closures, way: Unrolled) -> None:
        self.c, self.way = c, way
        self._status = c.array(), c.array()
        self._error = c.array()
        self._inputs = _bases(*(c.places[name] for name in way.shapes))

    def _routine(self, name: str, outputs: int, write: Callable[[StraightLine], None]) -> Routine:
        """A function of inputs and outputs."""
        return self.c.routine(name, len(self.way.shapes) + outputs, write)

    def _written(
        self, at: StraightLine, entries: Sequence[Number]
    ) -> tuple[list[Any], list[Number], Solver]:
        """The places of outputs, entries, and the solver."""
        way = self.way
        where = dict(zip(way.shapes, at.places, strict=False))
        keys = [(x, i, j) for x in ("mass", "motion") for i, j in np.ndindex(getattr(way, x).shape)]
        whole = [*entries, *(getattr(way, x)[i, j] for x, i, j in keys)]
        lanes = write_entries(whole, at, lambda name, i: at.load(where[name], i))
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
            largest = _larger(at, largest, x)
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
        c, status = self.c, self._status[0]
        places = _bases(c.vdot, status, c.f)
        self._accelerations.call(c.kernel.e, [*self._inputs, *places])
        c.note(status, (DOUBTFUL,) if stage else ())

    def look(self) -> Number:
        """Residuals and both corrections, in one call."""
        c, (first, second) = self.c, self._status
        places = _bases(c.g, self._error, c.x, first, c.y, second)
        self._corrections.call(c.kernel.e, [*self._inputs, *places])
        return self._error.value

    def correct(self, final: Mask) -> None:
        """What went wrong."""
        self.c.note_corrections(self._status, final)

    def solve(self) -> None:
        """ℳ x + G* f = c, G x = u at q, with −c in `tau` and −u in `g`: into `x` and `f`."""
        c, status = self.c, self._status[0]
        places = _bases(c.tau, c.g, c.x, status, c.f)
        self._solution.call(c.kernel.e, [*self._inputs, *places])
        c.note(status, (DOUBTFUL, CONTRADICTION))


@final
class Closures:
    """The equations of a system in the code of a run, with memory of their own.

    `given` are quantities of the algebra that calls bring, with their sizes.
    **Attributes:** `m`, the machine; `q`, `v`, `tau` and `vdot`; `g`, residuals; `rates` of the
    rows; `f`, their multipliers; `x`, `y`, corrections of q and v; `poses`; `places`, the memory of
    inputs by name.
    """

    def __init__(
        self,
        kernel: RunKernel,
        system: System,
        way: ClosureSolver,
        natives: Sequence[KernelSource],
        given: Mapping[str, int],
        number: int,
    ) -> None:
        self.kernel, self._natives, self._number = kernel, natives, number
        m = self.m = LaneMachine(kernel)
        rows = system.rows
        nq, nv, n_rows = system.nq, system.nv, system.n_rows
        self.nq, self.nv, self.n_rows, self._laws = nq, nv, n_rows, rows.laws
        self.q, self.v = m.array(nq), m.array(nv)
        self.tau, self.vdot = self.array(nv), self.array(nv)
        self.g, self.rates, self.f = (self.array(n_rows) for _ in range(3))
        self.x, self.y = self.array(nv), self.array(nv)
        self.places = {"q": self.q, "v": self.v, "tau": self.tau}
        self.places |= {name: self.array(size) for name, size in given.items()}
        self.places["g"] = self.g
        self._tables = residual_tables(system)
        self.poses = self.array(system.n_bodies + 1, 4, 4)
        self._entries = self.array(len(self._tables.hosts), _ENTRIES)
        wanted = kernel.table(rows.rates)

        @m.each(0, n_rows)
        def _(i: Index) -> None:
            self.rates[i] = wanted[i]

        for i in range(4):
            for j in range(4):
                self.poses[system.n_bodies, i, j] = float(i == j)
        self._projection = LoopProjection(m, self, TOLERANCE, NEWTON)
        self.solution: Solution
        if isinstance(way, Unrolled):
            self.solution = StraightLineSolve(self, way)
        else:
            self.solution = Sweeps(self) if way is None else Eliminated(self, way)

    # ---- what solutions are written with

    def array(self, *shape: int) -> LaneMemory:
        """Scratch memory."""
        return self.m.array(*shape, kept=False)

    def program(
        self,
        number: int,
        outputs: Sequence[LaneMemory],
        places: Mapping[str, LaneMemory] | None = None,
        allowed: Sequence[int] = (),
    ) -> Callable[[], None]:
        """Code that calls a kernel, with inputs in these places or in those of the state."""
        native = self._natives[number]
        usual = {**self.places, **(places or {})}
        slots = native.unit.slots
        where = [usual[name] for name in sorted(slots, key=lambda n: slots[n].buffer)]
        return self.kernel.caller(native, _bases(*where, *outputs), allowed)

    def routine(self, name: str, count: int, write: Callable[[StraightLine], None]) -> Routine:
        """A function of so many places without loops."""
        k = self.kernel
        return straight_line(k.module, k.e, count, f"{name}_{self._number}", write)

    def note(self, status: LaneMemory, allowed: Sequence[int] = ()) -> None:
        """Note a status in memory; codes that are `allowed` are not failures."""
        self.kernel.note_status(status.area.base, allowed)

    def note_corrections(self, places: Sequence[LaneMemory], final: Mask) -> None:
        """The statuses of both corrections: of x, and in the `final` lanes of y."""
        first, second = places
        self.note(first, (DOUBTFUL, CONTRADICTION))
        self.m.attempt(lambda: self.note(second), final)

    # ---- residuals

    def compute_residual(self) -> Number:
        """g at q from the poses, and the largest of every lane; NaN if one is not finite."""
        m, g, tables = self.m, self.g, self._tables
        start = self.kernel.table(tables.start)

        @m.each(0, self.n_rows)
        def _(i: Index) -> None:
            g[i] = start[i]

        m.each(0, len(tables.hosts))(self._closure)
        m.loop(0, len(tables.places))(self._term)
        m.loop(0, len(tables.pairs))(self._coupled)
        for x in self._laws:
            at = [self.q[i] for i in x.places]
            g[x.row] = x.law.value(at, LaneNumbers(self.kernel.e))
        largest = m.largest(0, self.n_rows, lambda i: m.abs(g[i]))
        return m.total(0, self.n_rows, lambda i: (g[i] - g[i], 1.0), largest)

    def _frame(self, k: Index, side: int) -> tuple[list[list[Number]], list[Number]]:
        """Rotation and origin of one frame of closure k, in the world."""
        hosts, frames = (self.kernel.table(x) for x in (self._tables.hosts, self._tables.frames))
        host = hosts[k, side]
        pose = [[self.poses[host, i, j] for j in range(4)] for i in range(3)]
        turn, offset = ([frames[k, side, i] for i in x] for x in (range(9), range(9, 12)))
        R = [[self._dot(row, turn[j::3]) for j in range(3)] for row in pose]
        return R, [self._dot(row, offset) + row[3] for row in pose]

    def _closure(self, k: Index) -> None:
        """R, r and |r| of frame b of a closure, seen from frame a."""
        (R_a, x_a), (R_b, x_b) = self._frame(k, 0), self._frame(k, 1)
        columns_a, columns_b = (list(zip(*R, strict=True)) for R in (R_a, R_b))
        arm = [y - x for x, y in zip(x_a, x_b, strict=True)]
        R = [self._dot(a, b) for a in columns_a for b in columns_b]
        r = [self._dot(a, arm) for a in columns_a]
        for i, x in enumerate((*R, *r, self.m.sqrt(self._dot(r, r)))):
            self._entries[k, i] = x

    def _term(self, j: Index) -> None:
        places, factors = (
            self.kernel.table(x) for x in (self._tables.places, self._tables.factors)
        )
        row, k = places[j, 0], places[j, 1]
        total = self.g[row]
        for i in range(_ENTRIES):
            total = self.m.fma(self._entries[k, i], factors[j, i], total)
        self.g[row] = total

    def _coupled(self, j: Index) -> None:
        pairs, slopes = (self.kernel.table(x) for x in (self._tables.pairs, self._tables.slopes))
        row, entry = pairs[j, 0], pairs[j, 1]
        self.g[row] = self.m.fma(self.q[entry], slopes[j], self.g[row])

    def _dot(self, x: Sequence[Number], y: Sequence[Number]) -> Number:
        """The product of two vectors, as long as the shorter one."""
        total = x[0] * y[0]
        for a, c in zip(x[1:], y[1:], strict=False):
            total = self.m.fma(a, c, total)
        return total

    # ---- projection

    def project(self, watch: Callable[[Index, Mask], None] | None = None) -> None:
        """The nearest state on the constraints; see `LoopProjection`."""
        self._projection.run(watch)
        self.m.fail(self._projection.done.value < 1.0, OPEN)

    def look(self) -> Number:
        """See `ProjectedRows`."""
        return self.solution.look()

    def correct(self, moves: Mask, final: Mask) -> None:
        """See `ProjectedRows`."""
        self.solution.correct(final)

    def move(self) -> None:
        """See `ProjectedRows`."""
        q, x = self.q, self.x

        def joint(part: JointPart) -> None:
            new = part.group.move(part.places(q), part.rates(x), part.numbers)
            part.put_places(new, q)

        self.kernel.each_part(joint)

    def change_rates(self) -> None:
        """See `ProjectedRows`."""
        v, y = self.v, self.y

        @self.m.each(0, self.nv)
        def _(i: Index) -> None:
            v[i] = v[i] + y[i]


def _store(memory: Memory, x: float, i: Index) -> None:
    memory[i] = x


def _bases(*memories: LaneMemory) -> list[Any]:
    """Where numbers are."""
    return [x.area.base for x in memories]


def _larger(at: StraightLine, error: Number, g: Number) -> Number:
    """The larger of an error and |g|; not a number if one of them is not, nor if g is infinite."""
    size, zero = at.abs(g), at.number(0.0)
    now = at.where(error > size, error, size)
    # 0 g is not a number where g is infinite or not a number, and then stays so
    return now + error * zero + g * zero
