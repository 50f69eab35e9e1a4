"""Machine code of the search of inverse kinematics: `Search.attempt` with elements in lanes.

The mathematics is that of `ik_search.py` and `bounded_steps.py`. A lane that is done is left alone
while others go on, so that what it gets does not depend on its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from phipsi.algorithms.kinematics.bounded_steps import BLOCK_ROUNDS, ROUNDING, StepCoordinates
from phipsi.algorithms.kinematics.ik_search import (
    FALLS,
    FLOOR,
    GOOD,
    LITTLE,
    MU,
    MU_RANGE,
    POOR,
    REJECTED,
    RISES,
    STALLED,
    TAKEN,
)
from phipsi.backends.failures import BLOCK
from phipsi.backends.native.kernel.law_code import Area
from phipsi.backends.native.lane_function import LaneFunction, LaneKernel
from phipsi.backends.native.targets.code_cache import sources_digest
from phipsi.backends.native.text.elementary_functions import LaneNumbers
from phipsi.backends.native.text.lane_arithmetic import (
    DOUBLE,
    I32,
    I64,
    Lane,
    fold_loop,
    i64,
    write_loop,
)
from phipsi.backends.native.text.llvm_text import Constant, IntType
from phipsi.compiler import compile, default_backend
from phipsi.model.model import Model
from phipsi.model.points import PointSet
from phipsi.operators import J, frame_pose, moved
from phipsi.spatial.exponential_coefficients import cot_gap
from phipsi.spatial.quaternions import log_of_matrix
from phipsi.spatial.rotation_groups import cross

_UNROLLED = 24  # rows of sums that are written out


def search_code(model: Model, where: PointSet) -> LaneFunction | None:
    """The search for targets at these points; None where there is no machine code.

    (q, goals (T, 4, 4), weights (T, 2), low, high, moving (nv,), settings) → q, position and
    rotation errors (T,), [met, iterations]. `low` and `high` are limits of coordinates at the
    places of their rates, ∓inf for none; `moving` is 1, or 0 for rates of fixed joints; `settings`
    are the two tolerances and the most iterations. Elements whose goals are not poses fail.
    """

    def build() -> LaneFunction | None:
        if default_backend() != "native":
            return None
        frames = compile(
            (frame_pose, J), model, mode=("apply", "dense"), points=where, backend="native"
        ).native
        move = compile(moved, model, backend="native").native
        if frames is None or move is None:
            return None
        T, nq, nv = len(where), model.nq, model.nv
        inputs = {"q": (nq,), "goals": (T, 4, 4), "weights": (T, 2), "low": (nv,), "high": (nv,)}
        inputs |= {"moving": (nv,), "settings": (3,)}
        results = {"found": (nq,), "position": (T,), "rotation": (T,), "info": (2,)}
        places = StepCoordinates(model, (), limits=True).places

        def write(kernel: LaneKernel) -> None:
            _Search(kernel, T, nv, places).write()

        key = f"inverse kinematics {T} {places} {sources_digest('algorithms/kinematics')}"
        return LaneFunction(key, (frames, move), inputs, results, write)

    return model.cached((search_code, where.key), build)


@final
class _Search:
    """Writes the search around the kernels of poses with Jacobians and of moved configurations."""

    def __init__(
        self, kernel: LaneKernel, targets: int, nv: int, places: Sequence[tuple[int, int]]
    ) -> None:
        self.k, self.b, self.e, self.T, self.nv = kernel, kernel.b, kernel.e, targets, nv
        self.m, self.places = 6 * targets, places
        self.frames, self.move = kernel.natives
        self.q, self.nq = kernel.results["found"], self.move.input_shapes[0][0]
        area = kernel.code.area
        self.trial, self.poses, self.jacobian = area(self.nq), area(16 * targets), area(self.m * nv)
        self.rows, self.rows_then = area(self.m), area(self.m)
        self.slopes, self.slopes_then = area(self.m * nv), area(self.m * nv)
        self.far_then = [area(targets), area(targets)]  # of positions and rotations
        self.far = [kernel.results["position"], kernel.results["rotation"]]
        self.A, self.L, self.g, self.d = area(nv * nv), area(nv * nv), area(nv), area(nv)
        self.lower, self.upper, self.side, self.step = area(nv), area(nv), area(nv), area(nv)
        self.held = area(nv)
        self.mu, self.count, self.active, self.left = (self._variable() for _ in range(4))
        self.largest, self.found = self._variable(), self._variable()
        self.settings = [kernel.code.entry(kernel.inputs["settings"], i) for i in range(3)]

    # ---- numbers in memory

    def _variable(self) -> Any:
        return self.b.alloca(self.e.vector)

    def _get(self, variable: Any) -> Lane:
        return Lane(self.e, self.b.load(variable, typ=self.e.vector))

    def _set(self, variable: Any, value: Any) -> None:
        self.b.store(self.e.lift(value).value, variable)

    def _load(self, area: Area, i: Any) -> Lane:
        return self.k.code.entry(area, i)

    def _store(self, value: Any, area: Area, i: Any) -> None:
        self.k.code.put(value, area, i)

    def _each(self, count: int, body: Callable[[Any], None]) -> None:
        write_loop(self.b, i64(count), body)

    def _at(self, i: Any, j: Any) -> Any:
        """The place of entry (i, j) of a matrix with a column for every rate."""
        row = i64(i * self.nv) if isinstance(i, int) else self.b.mul(i, i64(self.nv))
        return self.b.add(row, i64(j) if isinstance(j, int) else j)

    def _sum(self, count: Any, term: Callable[[Any], tuple[Lane, Lane]], start: Any = 0.0) -> Lane:
        """start + Σ x y over the pairs term(i)."""
        if isinstance(count, int) and count <= _UNROLLED:
            total = self.e.lift(start)
            for i in range(count):
                x, y = term(i)
                total = x.times_plus(y, total)
            return total

        def add(i: Any, sums: list[Any]) -> list[Any]:
            x, y = term(i)
            return [x.times_plus(y, Lane(self.e, sums[0])).value]

        whole = i64(count) if isinstance(count, int) else count
        return Lane(self.e, fold_loop(self.b, whole, 1, [self.e.lift(start).value], add)[0])

    def _true(self, x: Lane) -> Any:
        return self.e.compare("!=", x, 0.0)

    def _flag(self, condition: Any) -> Lane:
        return self.e.select(condition, 1.0, 0.0)

    def _any(self, x: Lane) -> Any:
        width = IntType(self.k.lanes)
        bits = self.b.bitcast(self._true(x), width)
        return self.b.icmp_unsigned("!=", bits, Constant(width, 0))

    def _larger(self, x: Any, y: Any) -> Lane:
        return self.e.select(self.e.compare(">", x, y), x, y)

    def _smaller(self, x: Any, y: Any) -> Lane:
        return self.e.select(self.e.compare("<", x, y), x, y)

    # ---- the search

    def write(self) -> None:
        """The whole kernel."""
        e, b, k = self.e, self.b, self.k
        self._check_goals()
        self._each(self.nq, lambda i: self._store(self._load(k.inputs["q"], i), self.q, i))
        self._clip(self.q)
        self._set(self.mu, MU)
        self._set(self.count, 0.0)
        self._set(self.active, 1.0)
        self._evaluate(self.q, self.rows, self.slopes, self.far)
        self._stop(self._met(self.far))
        most = b.fptosi(b.extract_element(self.settings[2].value, Constant(I32, 0)), I64)

        def iterate(_: Any) -> None:
            with b.if_then(self._any(self._get(self.active))):
                self._iterate()

        write_loop(b, most, iterate)
        self._store(self._flag(self._met(self.far)), k.results["info"], 0)
        self._store(self._get(self.count), k.results["info"], 1)
        total: Any = e.constant(0.0)
        for i in range(self.T):
            for far in self.far:
                total = self.e.spoiled(total, self._load(far, i))
        k.fail(b.not_(e.compare("==", total, 0.0)), BLOCK)

    def _stop(self, condition: Any) -> None:
        """Lanes in which the condition holds, and those that have failed, are done."""
        b, e = self.b, self.e
        over = b.or_(condition, b.icmp_signed("!=", self.k.bad, e.integer(0)))
        self._set(self.active, e.select(over, 0.0, self._get(self.active)))

    def _check_goals(self) -> None:
        """Goals that are not poses fail; what says so is elsewhere."""
        e, goals = self.e, self.k.inputs["goals"]
        gap: Any = e.constant(0.0)
        wrong: Any = e.constant(0.0)
        for t in range(self.T):
            G = [[self._load(goals, 16 * t + 4 * i + j) for j in range(4)] for i in range(4)]
            for i in range(3):
                for j in range(i + 1):
                    product = G[0][i] * G[0][j] + G[1][i] * G[1][j] + G[2][i] * G[2][j]
                    gap = self._larger(e.intrinsic("fabs", product - float(i == j)), gap)
            x, y, z = (row[:3] for row in G[:3])
            normal = cross(y, z)
            det = x[0] * normal[0] + x[1] * normal[1] + x[2] * normal[2]
            for entry, exact in zip(G[3], (0.0, 0.0, 0.0, 1.0), strict=True):
                wrong = e.select(e.compare("==", entry, exact), wrong, 1.0)
            wrong = e.select(e.compare(">", det, 0.0), wrong, 1.0)
        wrong = e.select(e.compare("<=", gap, 1e-8), wrong, 1.0)
        self.k.fail(self._true(wrong), BLOCK)

    def _met(self, far: Sequence[Area]) -> Any:
        """Whether all targets are met, where they ask for something."""
        e, b, weights = self.e, self.b, self.k.inputs["weights"]
        missed: Any = e.constant(0.0)
        for t in range(self.T):
            for which, column in ((0, 1), (1, 0)):
                off = e.compare(">", self._load(far[which], t), self.settings[which])
                asked = self._true(self._load(weights, 2 * t + column))
                missed = e.select(b.and_(off, asked), 1.0, missed)
        return e.compare("==", missed, 0.0)

    def _clip(self, q: Area) -> None:
        """Into the limits."""
        low, high = self.k.inputs["low"], self.k.inputs["high"]
        for rate, place in self.places:
            x = self._larger(self._load(low, rate), self._load(q, place))
            self._store(self._smaller(self._load(high, rate), x), q, place)

    def _evaluate(self, q: Area, rows: Area, slopes: Area, far: Sequence[Area]) -> None:
        """Weighted errors and their derivatives, and plain errors, as `Targets.residuals`."""
        k, ops = self.k, LaneNumbers(self.e)
        k.call_into(self.frames, [q], [self.poses, self.jacobian])
        self._note(k.status)
        moving = k.inputs["moving"]
        for t in range(self.T):
            X = [[self._load(self.poses, 16 * t + 4 * i + j) for j in range(4)] for i in range(3)]
            G = [
                [self._load(k.inputs["goals"], 16 * t + 4 * i + j) for j in range(4)]
                for i in range(3)
            ]
            R = [
                [X[i][0] * G[j][0] + X[i][1] * G[j][1] + X[i][2] * G[j][2] for j in range(3)]
                for i in range(3)
            ]
            turn = log_of_matrix(R, ops)
            shift = [X[i][3] - G[i][3] for i in range(3)]
            w_turn, w_shift = (self._load(k.inputs["weights"], 2 * t + i) for i in range(2))
            for i in range(3):
                self._store(w_turn * turn[i], rows, 6 * t + i)
                self._store(w_shift * shift[i], rows, 6 * t + 3 + i)
            for area, parts in zip(far, (shift, turn), strict=True):
                square = parts[0] * parts[0] + parts[1] * parts[1] + parts[2] * parts[2]
                self._store(ops.sqrt(square), area, t)
            M = [[w_turn * x for x in row] for row in _inverse_left_jacobian(turn, ops)]

            def column(c: Any, t: int = t, M: Any = M, w: Lane = w_shift) -> None:
                free = self._load(moving, c)
                w_x = [self._load(self.jacobian, self._at(6 * t + i, c)) * free for i in range(6)]
                for i in range(3):
                    turned = M[i][0] * w_x[0] + M[i][1] * w_x[1] + M[i][2] * w_x[2]
                    self._store(turned, slopes, self._at(6 * t + i, c))
                    self._store(w * w_x[3 + i], slopes, self._at(6 * t + 3 + i, c))

            self._each(self.nv, column)

    def _note(self, status: Any) -> None:
        """Failures of programs count in lanes that are still active."""
        b, e = self.b, self.e
        self.k.note(b.select(self._true(self._get(self.active)), status, e.integer(0)))

    def _iterate(self) -> None:
        """One damped step of every lane; those that do not gain stay and get more damping."""
        b, e, k, nv, m = self.b, self.e, self.k, self.nv, self.m
        self._normal_equations()
        cost, size = self._cost(self.rows), self._get(self.largest)
        mu = self._get(self.mu)
        damping = self._larger(mu * cost, size * FLOOR)
        self._bounds()
        self._bounded_step(damping)
        along = self._sum(nv, lambda i: (self._load(self.g, i), self._load(self.d, i)))
        self._each(nv, lambda i: self._store(self._times(self.d, i), self.held, i))
        bend = self._sum(nv, lambda i: (self._load(self.d, i), self._load(self.held, i)))
        promised = -along - bend * 0.5
        k.call_into(self.move, [self.q, self.d], [self.trial])
        self._note(k.status)
        self._clip(self.trial)
        self._evaluate(self.trial, self.rows_then, self.slopes_then, self.far_then)
        gain = cost - self._cost(self.rows_then)
        ratio = gain / self._larger(promised, 1e-300)
        taken = b.and_(e.compare(">", ratio, TAKEN), e.compare(">", gain, 0.0))
        change = e.select(e.compare(">", ratio, POOR), 1.0, RISES)
        change = e.select(e.compare(">", ratio, GOOD), FALLS, change)
        mu = self._larger(mu * e.select(taken, change, REJECTED), MU_RANGE[0])
        idle = e.compare("<=", promised, cost * STALLED)
        idle = b.and_(idle, e.compare("<=", mu * cost, size * LITTLE))
        idle = b.and_(idle, b.not_(self._met(self.far_then)))
        active = self._true(self._get(self.active))
        fine = b.icmp_signed("==", k.bad, e.integer(0))
        taken = b.and_(b.and_(taken, active), fine)
        for old, new, count in (
            (self.q, self.trial, self.nq),
            (self.rows, self.rows_then, m),
            (self.slopes, self.slopes_then, m * nv),
            *((x, y, self.T) for x, y in zip(self.far, self.far_then, strict=True)),
        ):
            self._take(taken, old, new, count)
        self._set(self.mu, e.select(active, mu, self._get(self.mu)))
        self._set(self.count, self._get(self.count) + self._flag(active))
        over = b.or_(self._met(self.far), e.compare(">", mu, MU_RANGE[1]))
        self._stop(b.or_(over, idle))

    def _normal_equations(self) -> None:
        """A = J* J with its largest diagonal entry, and g = J* e."""
        b, m = self.b, self.m
        self._set(self.largest, 1e-30)

        def normal(i: Any) -> None:
            def entry(j: Any) -> None:
                value = self._sum(
                    m,
                    lambda r: (
                        self._load(self.slopes, self._at(r, i)),
                        self._load(self.slopes, self._at(r, j)),
                    ),
                )
                self._store(value, self.A, self._at(i, j))
                self._store(value, self.A, self._at(j, i))

            write_loop(b, b.add(i, i64(1)), entry)
            here = self._load(self.A, self._at(i, i))
            self._set(self.largest, self._larger(here, self._get(self.largest)))
            pull = self._sum(
                m, lambda r: (self._load(self.slopes, self._at(r, i)), self._load(self.rows, r))
            )
            self._store(pull, self.g, i)

        self._each(self.nv, normal)

    def _take(self, condition: Any, old: Area, new: Area, count: int) -> None:
        """New numbers where the condition holds."""

        def one(i: Any) -> None:
            chosen = self.e.select(condition, self._load(new, i), self._load(old, i))
            self._store(chosen, old, i)

        self._each(count, one)

    def _cost(self, rows: Area) -> Lane:
        return self._sum(self.m, lambda r: (self._load(rows, r), self._load(rows, r))) * 0.5

    def _times(self, x: Area, i: Any, damping: Lane | None = None) -> Lane:
        """Row i of (A + damping) x."""
        start = 0.0 if damping is None else damping * self._load(x, i)
        return self._sum(
            self.nv, lambda j: (self._load(self.A, self._at(i, j)), self._load(x, j)), start
        )

    # ---- the step between the bounds, as `bounded_steps`

    def _bounds(self) -> None:
        """Least and largest step of every rate: no bounds but those of places."""
        low, high = self.k.inputs["low"], self.k.inputs["high"]
        self._each(self.nv, lambda i: self._store(-float("inf"), self.lower, i))
        self._each(self.nv, lambda i: self._store(float("inf"), self.upper, i))
        for rate, place in self.places:
            x = self._load(self.q, place)
            self._store(self._smaller(self._load(low, rate) - x, 0.0), self.lower, rate)
            self._store(self._larger(self._load(high, rate) - x, 0.0), self.upper, rate)

    def _bounded_step(self, damping: Lane) -> None:
        """d minimises ½ d* (A + damping) d + g* d between the bounds."""
        b, e, nv = self.b, self.e, self.nv
        self._each(nv, lambda i: self._store(0.0, self.side, i))
        self._set(self.left, self._get(self.active))
        most = e.lift(0.0)
        for i in range(nv):
            most = self._larger(e.intrinsic("fabs", self._load(self.g, i)), most)
        noise = most * ROUNDING

        def turn(number: Any) -> None:
            with b.if_then(self._any(self._get(self.left))):
                self._pivot(damping, noise, b.icmp_signed(">=", number, i64(BLOCK_ROUNDS)))

        write_loop(b, i64(BLOCK_ROUNDS + 4 * nv), turn)

        def clipped(i: Any) -> None:
            x = self._larger(self._load(self.lower, i), self._load(self.d, i))
            self._store(self._smaller(self._load(self.upper, i), x), self.d, i)

        self._each(nv, clipped)

    def _pivot(self, damping: Lane, noise: Lane, single: Any) -> None:
        """Solve with some coordinates held at their bounds, and change sides that are wrong."""
        b, e, nv = self.b, self.e, self.nv

        def hold(i: Any) -> None:
            side = self._load(self.side, i)
            low = e.select(e.compare("<", side, 0.0), self._load(self.lower, i), 0.0)
            high = e.compare(">", side, 0.0)
            self._store(e.select(high, self._load(self.upper, i), low), self.held, i)

        def right(i: Any) -> None:
            push = -self._load(self.g, i) - self._times(self.held, i)
            self._store(e.select(self._free(i), push, 0.0), self.step, i)

        self._each(nv, hold)
        self._each(nv, right)
        self._solve(damping)

        def keep(i: Any) -> None:
            x = e.select(self._free(i), self._load(self.step, i), self._load(self.held, i))
            self._store(x, self.step, i)
            self._set(self.largest, self._larger(e.intrinsic("fabs", x), self._get(self.largest)))

        self._set(self.largest, 0.0)
        self._each(nv, keep)
        slack = self._get(self.largest) * ROUNDING
        left = self._true(self._get(self.left))
        self._take(left, self.d, self.step, nv)
        self._set(self.found, 0.0)

        def change(n: Any) -> None:  # from the last to the first
            i = b.sub(i64(nv - 1), n)
            side, x = self._load(self.side, i), self._load(self.step, i)
            pull = self._times(self.step, i, damping) + self._load(self.g, i)
            above = self._flag(e.compare(">", x, self._load(self.upper, i) + slack))
            below = self._flag(e.compare("<", x, self._load(self.lower, i) - slack))
            held = e.select(e.compare(">", side * pull, noise), 0.0, side)
            over = e.select(e.compare("==", side, 0.0), above - below, held)
            found = self._get(self.found)
            wrong = b.and_(left, e.compare("!=", over, side))
            blocked = e.select(self._true(found), self._flag_of(single), 0.0)
            wrong = b.and_(wrong, e.compare("==", blocked, 0.0))
            self._store(e.select(wrong, over, side), self.side, i)
            self._set(self.found, e.select(wrong, 1.0, found))

        self._each(nv, change)
        self._set(self.left, e.select(left, self._get(self.found), 0.0))

    def _flag_of(self, condition: Any) -> Lane:
        """A condition that is the same in all lanes as a number."""
        return self.e.splat(self.b.select(condition, Constant(DOUBLE, 1.0), Constant(DOUBLE, 0.0)))

    def _free(self, i: Any) -> Any:
        return self.e.compare("==", self._load(self.side, i), 0.0)

    def _solve(self, damping: Lane) -> None:
        """step becomes the solution of (A + damping) x = step in the free coordinates.

        A held coordinate keeps a row of its own. Cholesky's factor has its reciprocal diagonal.
        """
        b, e = self.b, self.e

        def row(i: Any) -> None:
            free = self._free(i)

            def entry(j: Any) -> None:
                both = b.and_(free, self._free(j))
                value = e.select(both, self._load(self.A, self._at(i, j)), 0.0)
                value = -self._sum(
                    j,
                    lambda p: (
                        self._load(self.L, self._at(i, p)),
                        self._load(self.L, self._at(j, p)),
                    ),
                    -value,
                )
                self._store(value * self._load(self.L, self._at(j, j)), self.L, self._at(i, j))

            write_loop(b, i, entry)
            own = self._load(self.A, self._at(i, i)) + damping
            value = e.select(free, own, 1.0)
            value = -self._sum(i, lambda p: _twice(self._load(self.L, self._at(i, p))), -value)
            self._store(1.0 / e.intrinsic("sqrt", value), self.L, self._at(i, i))
            y = -self._sum(
                i,
                lambda p: (self._load(self.L, self._at(i, p)), self._load(self.step, p)),
                -self._load(self.step, i),
            )
            self._store(y * self._load(self.L, self._at(i, i)), self.step, i)

        self._each(self.nv, row)

        def back(n: Any) -> None:
            i = b.sub(i64(self.nv - 1), n)

            def below(p: Any) -> tuple[Lane, Lane]:
                r = b.sub(i64(self.nv - 1), p)
                return self._load(self.L, self._at(r, i)), self._load(self.step, r)

            x = -self._sum(n, below, -self._load(self.step, i))
            self._store(x * self._load(self.L, self._at(i, i)), self.step, i)

        self._each(self.nv, back)


def _twice(x: Lane) -> tuple[Lane, Lane]:
    return x, x


def _inverse_left_jacobian(w: Sequence[Lane], ops: LaneNumbers) -> list[list[Any]]:
    """1 − ½ w~ + κ w~ w~ = (1 − κ θ²) − ½ w~ + κ w w*."""
    s = w[0] * w[0] + w[1] * w[1] + w[2] * w[2]
    k = cot_gap(s, ops)
    x, y, z = (0.5 * c for c in w)
    skew = ((0, -z, y), (z, 0, -x), (-y, x, 0))
    own = 1.0 - k * s
    return [
        [k * w[i] * w[j] + (own if i == j else -skew[i][j]) for j in range(3)] for i in range(3)
    ]
