"""Damped least squares: one attempt of inverse kinematics, for arrays and for machine code.

Damping λ = μ E with E = ½ |rows|², which vanishes with the error: quadratic convergence, also where
the Jacobian lacks rank (Yamashita and Fukushima 2001; for robots Sugihara 2011).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

from phipsi.algorithms import BoundedStep
from phipsi.core.machine import Index, Machine, Mask, Memory, Number
from phipsi.core.spatial import LieGroup, cot_gap, log_of_matrix

MU = 1.0
MU_RANGE = (1e-6, 1e12)
FLOOR = 1e-10  # least damping, relative to the largest diagonal entry of J* J
STALLED = 1e-9  # a step that promises less of the error than this leads nowhere
TAKEN, GOOD, POOR = 1e-3, 0.75, 0.25  # parts of its promise that a step keeps
FALLS, RISES, REJECTED = 0.2, 3.0, 10.0  # factors of μ after a good, a poor and a rejected step
LITTLE = 1e-2  # damping, relative to J* J, with which a step that promises nothing is the end
CLOSED = 1e-10  # rad, m: the largest residual of loops that count as closed

# The pull to the rest posture falls with every step, so that it decides only what the targets leave
# open; below the last value it is dropped.
_SETTLED = 0.03  # a step that promises less of the cost than this nearly solves a pulled problem
_PULL_FALLS, _PULL_ENDS = 0.3, 1e-11

_POSE_ERROR = 1e-8  # of R* R − I of goals


class Programs(NamedTuple):
    """What an attempt calls, as its machine calls programs.

    `frames`: q → poses (T, 4, 4) and their Jacobian (6 T, nv); `move`: q, step (nv,) → q; `loops`:
    q → strict residuals (L,), their derivatives (L, nv) and the gap (); `slopes`: q, derivatives
    along the rates (m, nv) → those along the coordinates of a step. The last two may be None.
    """

    frames: Any
    move: Any
    loops: Any = None
    slopes: Any = None


class ProblemSizes(NamedTuple):
    """How large a problem is, and what its coordinates are.

    Targets, coordinates and rates, rows of loops; `places`, (rate, coordinate) of those with
    limits; `groups` that steps move on, with where they begin in q and in v.
    """

    targets: int
    nq: int
    nv: int
    loop_rows: int
    places: Sequence[tuple[int, int]]
    groups: Sequence[tuple[LieGroup, int, int]] = ()


class AttemptInputs(NamedTuple):
    """What an attempt reads.

    `q` (nq,); `goals` (T, 4, 4); `weights` (T, 2) of [rotation, position]; `low` and `high` (nv,),
    limits of coordinates at the places of their rates, ∓inf for none; `moving` (nv,), 1, or 0 for
    rates of fixed joints; `settings`, the tolerances of position and rotation, and the most
    iterations; with a rest posture `rest` (nq,) and `pull` (), how strongly it pulls at first.
    """

    q: Memory
    goals: Memory
    weights: Memory
    low: Memory
    high: Memory
    moving: Memory
    settings: Memory
    rest: Memory | None = None
    pull: Memory | None = None


class AttemptOutputs(NamedTuple):
    """What an attempt stores.

    `q` (nq,); errors of position and rotation (T,); the gap of loops (); ½ |rows|² (); `info`,
    [met, iterations].
    """

    q: Memory
    position: Memory
    rotation: Memory
    gap: Memory
    error: Memory
    info: Memory


@dataclass(frozen=True)
class _GoalErrors:
    """Errors at a configuration: weighted rows, their derivatives, plain errors, gap of loops."""

    q: Memory
    rows: Memory
    slopes: Memory
    far: tuple[Memory, Memory]  # of positions and rotations
    gap: Memory


@final
class LevenbergMarquardt:
    """Levenberg–Marquardt on the manifold from one start, in every lane until it is done."""

    def __init__(
        self,
        m: Machine,
        sizes: ProblemSizes,
        programs: Programs,
        given: AttemptInputs,
        out: AttemptOutputs,
    ) -> None:
        self.m, self.sizes, self.programs, self.given, self.out = m, sizes, programs, given, out
        T, nq, nv = sizes.targets, sizes.nq, sizes.nv
        rows = self.rows = 6 * T + sizes.loop_rows
        self.now = _GoalErrors(
            out.q, m.array(rows), m.array(rows, nv), (out.position, out.rotation), out.gap
        )
        scratch = [m.array(T, kept=False) for _ in range(2)]
        self.then = _GoalErrors(
            m.array(nq, kept=False),
            m.array(rows, kept=False),
            m.array(rows, nv, kept=False),
            (scratch[0], scratch[1]),
            m.array(kept=False),
        )
        self.poses, self.jacobian = m.array(T, 4, 4, kept=False), m.array(6 * T, nv, kept=False)
        self.A, self.g = m.array(nv, nv, kept=False), m.array(nv, kept=False)
        self.lower, self.upper = m.array(nv, kept=False), m.array(nv, kept=False)
        self.d, self.damping = m.array(nv), m.array()
        self.mu, self.count, self.active = m.array(), m.array(), m.array()
        self.step = BoundedStep(m, nv)
        if sizes.loop_rows:
            self.loops = m.array(sizes.loop_rows, kept=False)
            self.loop_slopes = m.array(sizes.loop_rows, nv, kept=False)
            self.loop_gap = m.array(kept=False)
        if programs.slopes is not None:
            self.along_rates = m.array(rows, nv, kept=False)
            self.along_steps = m.array(rows, nv, kept=False)
        if given.rest is not None:
            self.towards, self.pull = m.array(nv, kept=False), m.array()
            self.best_q, self.best_error, self.best_away = m.array(nq), m.array(), m.array()
            self.best_met = m.array()
            self.best_far, self.best_gap = (m.array(T), m.array(T)), m.array()

    # ---- the search

    def run(self) -> None:
        """From the start until the targets are met, or nothing more is gained."""
        m, given, out, nq = self.m, self.given, self.out, self.sizes.nq
        m.copy(nq, given.q, out.q)
        self._clip(out.q)
        self.mu.value, self.count.value, self.active.value = MU, 0.0, 1.0
        self._evaluate(self.now, out.q)
        if given.pull is not None:
            self.pull.value = given.pull.value
            self.best_met.value = 0.0
            self.best_error.value = float("inf")
            self.best_away.value = float("inf")
            self._keep_best()
        self._stop(self._met(self.now) & self._without_pull())

        @m.while_any(lambda: self.active.value > 0.0, m.count(given.settings[2]))
        def _(_turn: Index) -> None:
            self._iterate()

        if given.pull is not None:
            m.copy(nq, self.best_q, out.q)
            for best, far in zip(self.best_far, self.now.far, strict=True):
                m.copy(self.sizes.targets, best, far)
            if self.sizes.loop_rows:
                out.gap.value = self.best_gap.value
            out.error.value = self.best_error.value
        else:
            out.error.value = self._cost(self.now)
        out.info[0] = m.where(self._met(self.now), 1.0, 0.0)
        out.info[1] = self.count.value

    def check_goals(self, code: int) -> None:
        """Fail where a goal is not a pose."""
        m, goals = self.m, self.given.goals
        for t in range(self.sizes.targets):
            G = [[goals[t, i, j] for j in range(4)] for i in range(4)]
            gap = m.abs(G[0][0] - G[0][0])
            for i in range(3):
                for j in range(i + 1):
                    product = G[0][i] * G[0][j] + G[1][i] * G[1][j] + G[2][i] * G[2][j]
                    gap = m.larger(m.abs(product - float(i == j)), gap)
            x, y, z = (row[:3] for row in G[:3])
            det = (
                x[0] * (y[1] * z[2] - y[2] * z[1])
                + x[1] * (y[2] * z[0] - y[0] * z[2])
                + x[2] * (y[0] * z[1] - y[1] * z[0])
            )
            right = (gap <= _POSE_ERROR) & (det > 0.0)
            for entry, exact in zip(G[3], (0.0, 0.0, 0.0, 1.0), strict=True):
                right = right & m.equal(entry, exact)
            m.fail(~right, code)

    def check_finite(self, code: int) -> None:
        """Fail where an error is not a number."""
        m = self.m
        for far in self.now.far:
            for t in range(self.sizes.targets):
                m.fail(~m.equal(far[t] - far[t], 0.0), code)

    def _stop(self, condition: Mask) -> None:
        self.active.value = self.m.where(condition, 0.0, self.active.value)

    def _without_pull(self) -> Mask:
        """Lanes in which the rest posture does not pull any more."""
        m = self.m
        if self.given.pull is None:
            return m.at_least(1, 0)
        return m.equal(self.pull.value, 0.0)

    def _met(self, at: _GoalErrors) -> Mask:
        """Whether all targets are met, where they ask for something, and the loops are closed."""
        m, given = self.m, self.given
        out = m.at_least(1, 0)
        for t in range(self.sizes.targets):
            for which, column in ((0, 1), (1, 0)):
                asked = given.weights[t, column] > 0.0
                out = out & ~(asked & (at.far[which][t] > given.settings[which]))
        return out & (at.gap.value <= CLOSED) if self.sizes.loop_rows else out

    def _clip(self, q: Memory) -> None:
        """Into the limits."""
        m, given = self.m, self.given
        for rate, place in self.sizes.places:
            q[place] = m.smaller(given.high[rate], m.larger(given.low[rate], q[place]))

    # ---- errors

    def _evaluate(self, at: _GoalErrors, q: Memory) -> None:
        """Weighted errors with their derivatives, and plain errors.

        The rows of a target are [w_R log(R R_goal*); w_p (p − p_goal)] in world axes. Their
        derivative along v is [w_R Jl⁻¹ J_ω; w_p J_v], Jl the left Jacobian of the exponential.
        """
        m, programs = self.m, self.programs
        m.call(programs.frames, [q], [self.poses, self.jacobian])
        slopes = at.slopes if programs.slopes is None else self.along_rates
        for t in range(self.sizes.targets):
            self._target(t, at, slopes)
        if self.sizes.loop_rows:
            self._loops(q, at, slopes)
        if programs.slopes is not None:
            self._along_coordinates(q, at)

    def _target(self, t: int, at: _GoalErrors, slopes: Memory) -> None:
        m, goals, moving, f = self.m, self.given.goals, self.given.moving, self.m.functions()
        X = [[self.poses[t, i, j] for j in range(4)] for i in range(3)]
        G = [[goals[t, i, j] for j in range(4)] for i in range(3)]
        R = [
            [X[i][0] * G[j][0] + X[i][1] * G[j][1] + X[i][2] * G[j][2] for j in range(3)]
            for i in range(3)
        ]
        turn = log_of_matrix(R, f)
        shift = [X[i][3] - G[i][3] for i in range(3)]
        w_turn, w_shift = self.given.weights[t, 0], self.given.weights[t, 1]
        for i in range(3):
            at.rows[6 * t + i] = w_turn * turn[i]
            at.rows[6 * t + 3 + i] = w_shift * shift[i]
        for far, x in zip(at.far, (shift, turn), strict=True):
            far[t] = m.sqrt(x[0] * x[0] + x[1] * x[1] + x[2] * x[2])
        M = [[w_turn * x for x in row] for row in _inverse_left_jacobian(turn, f)]

        @m.each(0, self.sizes.nv)
        def _(c: Index) -> None:
            free = moving[c]
            w = [self.jacobian[6 * t + i, c] * free for i in range(6)]
            for i in range(3):
                slopes[6 * t + i, c] = M[i][0] * w[0] + M[i][1] * w[1] + M[i][2] * w[2]
                slopes[6 * t + 3 + i, c] = w_shift * w[3 + i]

    def _loops(self, q: Memory, at: _GoalErrors, slopes: Memory) -> None:
        m, first, moving = self.m, 6 * self.sizes.targets, self.given.moving
        m.call(self.programs.loops, [q], [self.loops, self.loop_slopes, self.loop_gap])
        at.gap.value = self.loop_gap.value

        @m.each(0, self.sizes.loop_rows)
        def _(i: Index) -> None:
            at.rows[first + i] = self.loops[i]

            @m.each(0, self.sizes.nv)
            def _(c: Index) -> None:
                slopes[first + i, c] = self.loop_slopes[i, c] * moving[c]

    def _along_coordinates(self, q: Memory, at: _GoalErrors) -> None:
        self.m.call(self.programs.slopes, [q, self.along_rates], [self.along_steps])
        self.m.copy_matrix((self.rows, self.sizes.nv), self.along_steps, at.slopes)

    # ---- one step

    def _iterate(self) -> None:
        """One damped step; where it does not gain, the lane stays and gets more damping."""
        m, nv, now, then, d = self.m, self.sizes.nv, self.now, self.then, self.d
        cost = self._cost(now)
        size = self._normal_equations()
        mu = self.mu.value
        self.damping.value = m.larger(mu * cost, size * FLOOR)
        self._bounds()
        self.step.solve(self.A, self.damping, self.g, self.lower, self.upper, d)
        along = m.total(0, nv, lambda i: (self.g[i], d[i]))

        def bent(i: Index) -> tuple[Number, Number]:
            return d[i], m.total(0, nv, lambda j: (self.A[i, j], d[j]))

        promised = -along - m.total(0, nv, bent) * 0.5
        m.call(self.programs.move, [now.q, d], [then.q])
        self._clip(then.q)
        self._evaluate(then, then.q)
        gain = cost - self._cost(then)
        ratio = gain / m.larger(promised, 1e-300)
        taken = (ratio > TAKEN) & (gain > 0.0)
        change = m.where(ratio > GOOD, FALLS, m.where(ratio > POOR, 1.0, RISES))
        mu = m.larger(mu * m.where(taken, change, REJECTED), MU_RANGE[0])
        # With little damping, a step that promises next to nothing is a local minimum.
        idle = (promised <= cost * STALLED) & (mu * cost <= size * LITTLE) & ~self._met(then)
        self.mu.value = mu
        self.count.value = self.count.value + 1.0
        self._take(taken)
        ends = idle & self._without_pull()
        if self.given.pull is not None:
            self._lessen_pull(idle, (taken & (promised <= cost * _SETTLED)) | (cost <= 0.0))
            self._keep_best()
        over = (self._met(now) & self._without_pull()) | (mu > MU_RANGE[1])
        self._stop(over | ends)

    def _take(self, taken: Mask) -> None:
        m, now, then, sizes = self.m, self.now, self.then, self.sizes

        @m.when(taken)
        def _() -> None:
            m.copy(sizes.nq, then.q, now.q)
            m.copy(self.rows, then.rows, now.rows)
            m.copy_matrix((self.rows, sizes.nv), then.slopes, now.slopes)
            for old, new in zip(now.far, then.far, strict=True):
                m.copy(sizes.targets, new, old)
            if sizes.loop_rows:
                now.gap.value = then.gap.value

    def _cost(self, at: _GoalErrors) -> Number:
        """½ |rows|², and half of the pull times the squared way to the rest posture."""
        m = self.m
        out = m.total(0, self.rows, lambda r: (at.rows[r], at.rows[r])) * 0.5
        if self.given.pull is not None:
            out = out + 0.5 * self.pull.value * self._away(at)
        return out

    def _away(self, at: _GoalErrors) -> Number:
        """The squared length of the step to the rest posture, which `towards` is after it."""
        m, rest, towards, moving = self.m, self.given.rest, self.towards, self.given.moving
        assert rest is not None
        for group, i, j in self.sizes.groups:
            if group.is_flat:
                self._straight(group.nq, i, j, at.q, rest)
                continue
            q, goal = ([x[i + k] for k in range(group.nq)] for x in (at.q, rest))
            for k, x in enumerate(group.log(q, goal, m.functions())):
                towards[j + k] = x * moving[j + k]
        return m.total(0, self.sizes.nv, lambda i: (towards[i], towards[i]))

    def _straight(self, count: int, i: int, j: int, q: Memory, rest: Memory) -> None:
        """Part of the way to the rest posture, of coordinates whose rates are their derivatives."""

        @self.m.each(0, count)
        def _(k: Index) -> None:
            self.towards[k + j] = (rest[k + i] - q[k + i]) * self.given.moving[k + j]

    def _normal_equations(self) -> Number:
        """A = J* J and g = J* e, with the pull of the rest posture; the largest entry A_ii."""
        m, nv, rows, slopes = self.m, self.sizes.nv, self.now.rows, self.now.slopes
        A, g = self.A, self.g

        @m.pairs(nv)
        def _(i: Index, j: Index) -> None:
            value = m.total(0, self.rows, lambda r: (slopes[r, i], slopes[r, j]))
            A[i, j] = value
            A[j, i] = value

        @m.each(0, nv)
        def _(i: Index) -> None:
            g[i] = m.total(0, self.rows, lambda r: (slopes[r, i], rows[r]))

        if self.given.pull is not None:
            pull, moving = self.pull.value, self.given.moving

            @m.each(0, nv)
            def _(i: Index) -> None:
                A[i, i] = A[i, i] + pull * moving[i]
                g[i] = g[i] - pull * self.towards[i]

        return m.largest(0, nv, lambda i: A[i, i], 1e-30)

    def _bounds(self) -> None:
        """Least and largest step of every rate: no bounds but those of places."""
        m, given, inf = self.m, self.given, float("inf")

        @m.each(0, self.sizes.nv)
        def _(i: Index) -> None:
            self.lower[i] = -inf
            self.upper[i] = inf

        for rate, place in self.sizes.places:
            x = self.now.q[place]
            self.lower[rate] = m.smaller(given.low[rate] - x, 0.0)
            self.upper[rate] = m.larger(given.high[rate] - x, 0.0)

    # ---- the rest posture

    def _lessen_pull(self, idle: Mask, settled: Mask) -> None:
        """The pull falls when its problem is nearly solved; earlier, the posture would lag."""
        m, pull = self.m, self.pull.value
        pull = m.where(idle | settled, pull * _PULL_FALLS, pull)
        self.pull.value = m.where(pull < _PULL_ENDS, 0.0, pull)

    def _keep_best(self) -> None:
        """The nearest configuration that meets the targets, or the one with the least error."""
        m, now, sizes = self.m, self.now, self.sizes
        error = m.total(0, self.rows, lambda r: (now.rows[r], now.rows[r])) * 0.5
        away, met = self._away(now), self._met(now)
        before = self.best_met.value > 0.0
        nearer = met & (~before | (away <= self.best_away.value))
        better = nearer | (~before & (error < self.best_error.value))

        @m.when(better)
        def _() -> None:
            m.copy(sizes.nq, now.q, self.best_q)
            self.best_error.value, self.best_away.value = error, away
            self.best_met.value = m.where(met, 1.0, 0.0)
            for best, far in zip(self.best_far, now.far, strict=True):
                m.copy(sizes.targets, far, best)
            if sizes.loop_rows:
                self.best_gap.value = now.gap.value


def _inverse_left_jacobian(w: Sequence[Number], functions: Any) -> list[list[Any]]:
    """1 − ½ w~ + κ w~ w~ = (1 − κ θ²) − ½ w~ + κ w w*."""
    s = w[0] * w[0] + w[1] * w[1] + w[2] * w[2]
    k = cot_gap(s, functions)
    x, y, z = (0.5 * c for c in w)
    skew = ((0, -z, y), (z, 0, -x), (-y, x, 0))
    own = 1.0 - k * s
    return [
        [k * w[i] * w[j] + (own if i == j else -skew[i][j]) for j in range(3)] for i in range(3)
    ]
