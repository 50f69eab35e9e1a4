"""Assembly and projection: states that satisfy the constraints, and why none was found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms.constrained.constraint_metric import ConstraintMetric, turned_over
from phipsi.algorithms.constrained.constraint_rows import ClosureRows
from phipsi.algorithms.constrained.loop_projection import LoopProjection
from phipsi.algorithms.constrained.row_rank import RANK
from phipsi.algorithms.kinematics.bounded_steps import bounded_steps
from phipsi.algorithms.kinematics.step_coordinates import StepCoordinates
from phipsi.core.compiler import compile
from phipsi.core.machine import ArrayMachine, Machine, NumberMachine
from phipsi.core.model import Closure, ends, loop_bodies
from phipsi.core.operators import mass_matrix

Array = NDArray[Any]

_MU, _MU_RANGE = 1.0, (1e-6, 1e12)
_FLOOR = 1e-12  # least damping, relative to the largest entry of G* G in the mass metric
_STALLED = 1e-10  # a step that promises less of the error than this leads nowhere
_NUDGE = 1e-3  # rad and m
# Rates of rows that remain after projection, relative to the speeds they come from.
_RATE_ERROR = 1e-8


def search(
    rows: ClosureRows,
    q: Array,
    *,
    fixed: Iterable[str] = (),
    limits: bool = True,
    tolerance: float,
    max_iterations: int,
) -> tuple[Array, Array]:
    """Configurations (n, nq) near q at which the loops are closed, and whether they are (n,).

    Levenberg–Marquardt on ½ |g|², every step d minimising ½ |G d + g|² + ½ λ d* ℳ d between the
    joint limits, with λ in proportion to |g|² so that the last steps are those of Newton's method,
    also where rows are redundant. Axes that must coincide enter as z_b − z_a and rotations as
    R − I, which a closure that is turned over does not satisfy.
    """
    steps = StepCoordinates(rows.model, fixed, limits)
    q = _apart(rows, steps, steps.inside(q))
    mechanism = rows.components[steps.columns]
    together = (mechanism[:, None] == mechanism).astype(float)
    its_rows = (rows.strict_components[:, None] == mechanism).astype(float)
    best, closed = q.copy(), np.zeros(len(q), dtype=bool)
    left = np.arange(len(q))
    mu = np.full(len(q), _MU)
    g, slopes, met = _state(rows, steps, q, tolerance)
    for step in range(max_iterations + 1):
        best[left], closed[left] = q, met
        go = ~met & (mu <= _MU_RANGE[1])
        left, q, mu, g, slopes = left[go], q[go], mu[go], g[go], slopes[go]
        if not left.size or step == max_iterations or not steps.columns.size:
            break
        whole = compile(mass_matrix, rows.model, mode="dense")(q)
        M = steps.slopes(q, np.swapaxes(steps.slopes(q, whole), -1, -2))
        A, slope = np.swapaxes(slopes, -1, -2) @ slopes, np.einsum("nmk,nm->nk", slopes, g)
        cost = 0.5 * (g * g).sum(axis=-1)
        # G* G in units of ℳ: its largest eigenvalue is at most the trace of ℳ⁻¹ G* G. It is taken
        # of each mechanism separately, like the error, so that one does not hold another
        size = np.einsum("nkk->nk", np.linalg.solve(M, A)) @ together
        size = np.where(size > 0, size, 1.0)  # nothing moves the rows: stay
        error = 0.5 * (g * g) @ its_rows
        weight = np.sqrt(size * np.maximum(mu[:, None] * error, _FLOOR))
        damping = weight[:, :, None] * weight[:, None, :] * M
        d = bounded_steps(A + damping, slope, *steps.bounds(q))
        promised = -np.einsum("nk,nk->n", slope, d) - 0.5 * np.einsum("nk,nkl,nl->n", d, A, d)
        moved = steps.move(q, d)
        new_g, new_G, new_met = _state(rows, steps, moved, tolerance)
        gain = cost - 0.5 * (new_g * new_g).sum(axis=-1)
        ratio = gain / np.maximum(promised, 1e-300 * np.maximum(1.0, np.abs(gain)))
        taken = ((ratio > 1e-3) & (gain > 0)) | new_met
        change = np.where(ratio > 0.75, 0.2, np.where(ratio > 0.25, 1.0, 3.0))
        mu = np.maximum(mu * np.where(taken, change, 10.0), _MU_RANGE[0])
        idle = (promised <= _STALLED * cost) & (mu * cost <= 1e-2) & ~new_met
        mu = np.where(idle, np.inf, mu)
        keep = taken[:, None]
        q, g = np.where(keep, moved, q), np.where(keep, new_g, g)
        slopes, met = np.where(keep[..., None], new_G, slopes), np.where(taken, new_met, False)
    return best, closed


def _apart(rows: ClosureRows, steps: StepCoordinates, q: Array) -> Array:
    """q, moved a little where the two points of a distance coincide and pull in no direction."""
    _, found = rows.residual(q, rows.poses(q))
    stuck = rows.without_direction(found)
    if not stuck.any():
        return q
    step = _NUDGE * np.cos(np.arange(1.0, len(steps.columns) + 1))  # without a pattern
    lower, upper = steps.bounds(q)
    return np.where(stuck[:, None], steps.move(q, np.clip(step, lower, upper)), q)


def _state(
    rows: ClosureRows, steps: StepCoordinates, q: Array, tolerance: float
) -> tuple[Array, Array, Array]:
    """Strict residuals, their slopes along the coordinates of a step, and whether they vanish."""
    g, G, gap = rows.strict_rows(q)
    return g, steps.slopes(q, G), gap <= tolerance


def newton_onto_rows(
    q: Array,
    state: Callable[[Array], Any],
    correct: Callable[[Any, Array], Array],
    move: Callable[[Array, Array], Array],
    tolerance: float,
    iterations: int,
) -> tuple[Array, Array, Any]:
    """Newton's method onto the constraints: configurations (n, nq), whether they are closed (n,).

    ``state(q)`` are the quantities at q, with the `residual` (n, rows), and is returned last;
    ``correct(state, taken)`` are the steps (n, nv) of those that still move, ``move(q, step)``
    makes them.
    """
    m = NumberMachine() if len(q) == 1 else ArrayMachine(len(q), whole=True)
    rows = _ArrayRows(m, q, state, correct, move)
    LoopProjection(m, rows, tolerance, iterations).run()
    return rows.q, np.atleast_1d(rows.look() <= tolerance), rows.at


@final
class _ArrayRows:
    """The rows of `LoopProjection` at configurations `q` (n, nq)."""

    def __init__(
        self,
        m: Machine,
        q: Array,
        state: Callable[[Array], Any],
        correct: Callable[[Any, Array], Array],
        move: Callable[[Array, Array], Array],
    ) -> None:
        self.m, self.q, self._step, self._error = m, q, q, None
        self.at: Any = None
        self._state, self._correct, self._move = state, correct, move

    def look(self) -> Any:
        """See `ProjectedRows`; once at every configuration."""
        if self.at is None:
            self.at = self._state(self.q)
            error = np.abs(self.at.residual).max(axis=-1, initial=0.0)
            self._error = error if len(error) != 1 else error[0]
        return self._error

    def correct(self, moves: Any, final: Any) -> None:
        """See `ProjectedRows`."""
        taken = np.atleast_1d(moves if self.m.mask is None else moves & self.m.mask)
        if taken.any():
            self._step = self._correct(self.at, taken)

    def move(self) -> None:
        """See `ProjectedRows`."""
        found = self._move(self.q, self._step)
        mask: Any = self.m.mask
        self.q = found if mask is None else np.where(mask[:, None], found, self.q)
        self.at = None

    def change_rates(self) -> None:
        """Rates are projected at the end, by those who need them."""


def project_position(
    rows: ClosureRows,
    q: Array,
    tolerance: float,
    rank: int | None = None,
    iterations: int = 25,
    moving: Array | None = None,
    inertia: Callable[[Array], Array] | None = None,
) -> tuple[Array, Array, ConstraintMetric]:
    """Nearest configurations (n, nq) in the mass metric with g = 0, to first order; whether found.

    Newton's method, dq = −ℳ⁻¹ G* (S + λ)⁻¹ g, λ being the square of the gap in natural size: it
    vanishes with the error and keeps directions out that only the drift makes look independent
    (theory/closed-chains 6). Nonholonomic rows ask for no step: wheels roll while the loops
    close. `moving` are the rates that may change; the other joints stay where they are.
    ``inertia(q)`` (n, nv, nv) stands for the mass matrix.
    """

    def metric(q: Array) -> ConstraintMetric:
        mass = None if inertia is None else inertia(q)
        return ConstraintMetric(rows, q, RANK, rank, rates_used=moving, inertia=mass)

    return newton_onto_rows(
        np.array(q, dtype=np.float64),
        metric,
        lambda at, _: at.spread(at.solve(-at.residual, at.gap**2)),
        rows.model.integrate,
        tolerance,
        iterations,
    )


def project_velocity(at: ConstraintMetric, v: Array) -> Array:
    """v − ℳ⁻¹ G* S⁺ (G v − rates): the admissible rates (n, nv) nearest in kinetic energy."""
    return v + at.spread(at.solve(at.rows.rates - np.einsum("nrv,nv->nr", at.whole, v)))


# ---- why there is none ------------------------------------------------------------------------


def why_open(
    rows: ClosureRows,
    q: Array,
    tolerance: float,
    steps: StepCoordinates | None = None,
    *,
    failed: int = 1,
    count: int = 1,
) -> str:
    """Which loops stay open at q, by how much, and what may help.

    `steps` are those of a search that failed; without them a projection did.
    """
    projecting = steps is None
    what = "cannot be brought back onto its constraints" if projecting else "cannot be assembled"
    lines = [f"the system {what} from here:"]
    if count > 1:
        lines = [f"{failed} of {count} configurations cannot be assembled; the first of them:"]
    lines += open_loops_at(rows, q, tolerance)
    at_limits = (steps or StepCoordinates(rows.model, (), True)).joints_at_limits(q)
    if at_limits:
        lines.append(f"    joints at a limit there: {', '.join(at_limits)}")
    lines.append(
        "The bodies may be too short or the limits too narrow to close it, or the initial "
        "configuration is too far off.\n"
        "Try random initial configurations, or no joint limits:\n"
        "    system.assemble(q0, restarts=20)      system.assemble(q0, limits=False)\n"
        "error.result is the best configuration found."
    )
    return "\n".join(lines)


def open_loops_at(rows: ClosureRows, q: Array, tolerance: float) -> list[str]:
    """A line or two about every loop that is open or turned over at q (nq,)."""
    model, closures = rows.model, rows.closures
    lines: list[str] = []
    values, found = rows.residual(q[None], rows.poses(q[None]))
    over = dict(zip(rows.pairs.tolist(), turned_over(found, rows)[0].tolist(), strict=True))
    place = {int(i): k for k, i in enumerate(rows.pairs)}
    # a loop that cannot close holds the iteration up: the others are then nearly closed
    least = max(tolerance, 1e-3 * float(np.abs(values).max(initial=0.0)))
    for i, closure in enumerate(closures.closures):
        mine = np.abs(values[0][closures.row_closure == i])
        if not mine.size or (mine.max() <= least and not over.get(i, False)):
            continue
        gap = _gap(closure, values[0][closures.row_closure == i])
        if i in place and closure.angular in ("axis", "all"):
            R = found.R[0, place[i]]
            cosine = R[2, 2] if closure.angular == "axis" else (np.trace(R) - 1) / 2
            turn = np.degrees(np.arccos(np.clip(cosine, -1, 1)))
            gap += f", {turn:.3g}° between its frames"
        if over.get(i, False):
            gap += "; it is turned over: its axes point against each other"
        path = " – ".join(loop_bodies(model, closure))
        lines.append(f"    {closure.name!r} between {ends(model, closure)} stays open by {gap}")
        lines.append(f"        the loop: {path}")
    return lines


def rate_errors(at: ConstraintMetric, v: Array) -> str:
    """Rows whose rates cannot be those prescribed, as an error's text; empty if there are none."""
    rates = at.rows.rates
    wrong = np.einsum("nrv,nv->nr", at.jacobian, v) - rates
    size = np.abs(at.jacobian).max(axis=(-1, -2), initial=0.0) * np.abs(v).max(axis=-1, initial=0.0)
    scale = size + np.abs(rates).max(initial=0.0)
    bad = np.abs(wrong) > _RATE_ERROR * scale[:, None]
    # without prescribed rates v = 0 is always admissible: the rest is rounding near a rank drop
    if not rates.any() or not bad.any():
        return ""
    element = int(np.flatnonzero(bad.any(axis=1))[0])
    names = [
        f"{at.rows.closures.row_names[i]!r} (asked {rates[i]:.4g}, possible "
        f"{rates[i] + wrong[element, i]:.4g})"
        for i in np.flatnonzero(bad[element])
    ]
    return (
        "the prescribed velocities contradict each other or the loops: no motion has\n"
        f"    {', '.join(names)}.\n"
        "These rows depend on each other there; system.mobility(q).redundant names rows that the "
        "others imply."
    )


def _gap(closure: Closure, values: Array) -> str:
    """The size of the residual of one closure, with units."""
    if closure.matrix is not None:
        return f"{np.abs(values).max():.4g}"
    linear = [v for v, form in zip(values, closure.forms, strict=True) if form[0] in "rd"]
    if linear:
        return f"{float(np.linalg.norm(linear)):.4g} m"
    return f"{np.abs(values).max():.4g} rad"
