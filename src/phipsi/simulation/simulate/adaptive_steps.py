"""Adaptive steps: SciPy's solver objects in exponential coordinates about the step's start.

SciPy chooses the size of a step and rejects steps with too large an error; here are the tolerances
by which it judges, and only steps that it accepts arrive.

The state of the solver is y = [z, v] of exponential_chart.py. After every step the base point moves
to the end of the step, so the exponential coordinates are always small: z becomes 0 for spherical,
free and planar joints and its derivative there becomes v, while vdot, the step size and the
coordinates of all other joints stay. So nothing is evaluated again; a mechanism of hinges and
slides is integrated exactly as SciPy would. LSODA keeps a history that cannot be changed from
outside; it is built again when a rotation has reached 1 rad.

Tolerances mean the same for all joints: an angle is judged against 1 rad (not against the small
exponential coordinate), a position against its distance from the origin.
"""

from __future__ import annotations

import copy
from bisect import bisect_right
from typing import TYPE_CHECKING, Any, final

import numpy as np

from phipsi.algorithms import Chart
from phipsi.simulation.integrators.tableaux import Method
from phipsi.simulation.simulate.equations import Equations
from phipsi.simulation.simulate.run_constraints import RunConstraints
from phipsi.simulation.simulate.stepper import Array, Diverged, Stepper, TimeStep, check_speed
from phipsi.simulation.trajectory.interpolation import NODES, DenseRecord, nodes_of
from phipsi.support import import_optional

if TYPE_CHECKING:
    from phipsi.simulation.modes.contact_modes import ContactModes

_WIDEST = 1e-2  # difference for a Jacobian, relative to a coordinate
_LARGE_TURN = 1.0  # rad
_FAR_OFF = 1e-4  # rad or m, from the constraints
# A run whose steps are this much shorter than its longest one, for so many steps, stands still:
# rates grow without bound, as when the coordinates of a joint become singular.
_STALLED, _FOR_STEPS = 1e-6, 1000
_STALLED_LOOP, _FOR_STEPS_OF_LOOP = 1e-3, 50  # close to where constraints lose rank
_EXPLICIT = "DOP853"
_UNRELIABLE = "; the solution is not smooth there, or the tolerances are below rounding errors"


@final
class AdaptiveStep(TimeStep):
    """A step of a SciPy solver with its dense output."""

    def __init__(self, chart: Chart, base: Array, t0: float, t1: float, method: Method) -> None:
        self.chart, self.base, self.t0, self.t1, self.method = chart, base, t0, t1, method
        self.interpolant: Any = None
        self._values: Array | None = None
        self.samples = (t1,)

    def look_inside(self, interpolant: Any) -> None:
        """Keep the dense output, and evaluate events also between the ends."""
        self.interpolant = interpolant
        inner = NODES[self.method.degree + 1][1:-1]
        self.samples = (*(self.t0 + (self.t1 - self.t0) * inner).tolist(), self.t1)

    def inside(self, t: float) -> tuple[Array, Array, Array]:
        """By the dense output, mapped back to the group."""
        if t == self.t1:
            return self.q1, self.v1, self.w1
        y = self.interpolant(t)
        nv = self.chart.nv
        return np.array(self.chart.point(self.base, y[:nv])), y[nv : 2 * nv], y[2 * nv :]

    def record(self, dense: DenseRecord) -> None:
        """Keep the dense output as values at nodes."""
        values = self.interpolant(nodes_of(self.method.degree, self.t0, self.t1)).T
        dense.append(self.t0, self.t1 - self.t0, self.base, values)


@final
class Adaptive(Stepper):
    """Steps of a SciPy solver, up to `end`.

    With `look_inside` every step has its dense output; otherwise those around `outputs` have it,
    times in ascending order.
    """

    def __init__(
        self,
        equations: Equations,
        method: Method,
        start: tuple[float, Array, Array],
        end: float,
        rtol: float,
        atol: float,
        *,
        look_inside: bool,
        outputs: Array | None = None,
    ) -> None:
        integrate = import_optional("scipy.integrate", f"integrator={method.name!r}", "scipy")
        self.equations, self.chart, self.method = equations, equations.chart, method
        self._class = getattr(integrate, method.solver or "")
        self.end, self._rtol, self._atol = end, rtol, atol
        self._inside = look_inside
        self._outputs = None if outputs is None else outputs.tolist()
        # evaluations that a dense output takes
        self._extra = len(getattr(self._class, "C_EXTRA", ()))
        self._nv = equations.model.nv
        self._longest, self._short, self._length = 0.0, 0, 0.0
        self.w = np.zeros(len(equations.quadratures))
        if equations.loops is not None:
            equations.loops.project_stages = method.recentre == "turn"
        self.restart(*start)

    def restart(self, t: float, q: Array, v: Array, first: float | None = None) -> None:
        """A new solver, which chooses its first step again unless it is given."""
        self.t, self.q, self.v = t, q, v
        self._base = q
        y = np.concatenate([self.chart.start(q), v, self.w])
        options = {} if first is None else {"first_step": min(first, self.end - t)}
        with np.errstate(all="ignore"):
            self._solver = self._class(
                self._derivative, t, y, self.end, rtol=self._rtol, atol=self._tolerance(),
                **options,
            )  # fmt: skip
        if self.method.solver == _EXPLICIT:  # without SciPy's conversions of what is an array
            self._solver.fun = self._derivative

    def begin_phase(self, t: float, q: Array, v: Array) -> None:
        """Go on after an event of contacts: steps may be of any length again."""
        self._longest, self._short = 0.0, 0
        self.restart(t, q, v)

    def begin_stretch(self) -> None:
        """Go on to a new `end` after a jump of the accelerations, with steps as before."""
        self.restart(self.t, self.q, self.v, self._length or None)

    def _derivative(self, t: float, y: Array) -> Array:
        return self.equations.derivative(t, self._base, y)

    def _tolerance(self) -> Any:
        """Absolute tolerances: z of curved joints starts at 0, its size is that of q."""
        if self.chart.is_flat:
            return self._atol
        out = np.full(2 * self._nv + len(self.w), self._atol)
        out[: self._nv] += self._rtol * self.chart.size(self._base)
        return out

    def step(self) -> TimeStep:
        """One accepted step, however many SciPy tries for it."""
        solver, nv = self._solver, self._nv
        if solver.status == "finished":  # LSODA was built again at the very end
            raise Diverged(f"the solver stopped at t = {self.t:.9g} s")
        self.equations.failure = None
        if getattr(solver, "jac_factor", None) is not None:
            # SciPy widens the difference of a coordinate that nothing depends on, at last to inf
            np.minimum(solver.jac_factor, _WIDEST, out=solver.jac_factor)
        with np.errstate(all="ignore"):
            message = solver.step()
        if solver.status == "failed":
            text = (message or "the solver gave up").rstrip(".")
            raise Diverged(f"at t = {solver.t:.9g} s: {text[0].lower()}{text[1:]}{_UNRELIABLE}")
        step = AdaptiveStep(self.chart, self._base, solver.t_old, float(solver.t), self.method)
        if self._looks_into(step):
            with np.errstate(all="ignore"), self.equations.probe():
                step.look_inside(solver.dense_output())
        y = solver.y
        step.v1, step.w1 = y[nv : 2 * nv].copy(), y[2 * nv :].copy()
        check_speed(step.v1, step.t1)
        step.q1 = np.array(self.chart.point(self._base, y[:nv]))
        keeper = self.equations.projector
        if keeper is not None and keeper.projects:
            self._project(solver, step, keeper)
        self.q, self.v, self.w = step.q1, step.v1, step.w1
        self.t = step.t1  # last: an interrupt before it leaves the state unused
        # the last step of a stretch is as long as there is room for
        self._length = max(step.t1 - step.t0, self._length if self.t >= self.end else 0.0)
        self._check_progress(step.t1 - step.t0)
        if not self.chart.is_flat and solver is self._solver:
            self._recentre(solver)
        return step

    def _looks_into(self, step: AdaptiveStep) -> bool:
        """Whether somebody may ask for states between the ends of a step."""
        self.equations.count(self._extra)  # whether or not: output times do not change the steps
        if self._inside or self._outputs is None:
            return self._inside
        first = bisect_right(self._outputs, step.t0)
        return first < len(self._outputs) and self._outputs[first] < step.t1

    def _project(
        self, solver: Any, step: AdaptiveStep, keeper: RunConstraints | ContactModes
    ) -> None:
        """Bring the end of the step back onto the constraints, and let the solver go on there."""
        q, v = keeper.project(step.t1, step.q1, step.v1)
        if q is step.q1 and v is step.v1:
            return
        moved = self.equations.model.difference(step.q1, q)
        away = float(np.abs(moved).max(initial=0.0))
        step.q1, step.v1 = q, v
        if self.method.recentre == "turn":
            # LSODA's history cannot be changed: it goes on beside the constraints, and
            # accelerations are those of the projected states
            if away > _FAR_OFF and solver.status == "running":
                self.w = step.w1
                self.restart(step.t1, q, v)
            return
        y = solver.y.copy()
        y[: self._nv] += self.chart.rate(y[: self._nv], moved)
        y[self._nv : 2 * self._nv] = v
        self._shift_guess(solver, y)
        solver.y, solver.f = y, self._derivative(step.t1, y)

    @staticmethod
    def _shift_guess(solver: Any, y: Array) -> None:
        """Radau starts its iteration from the last step's polynomial, which moves along."""
        if getattr(solver, "sol", None) is not None:
            guess = copy.copy(solver.sol)
            guess.y_old = guess.y_old + (y - solver.y)
            solver.sol = guess

    def _check_progress(self, h: float) -> None:
        """Stop a run that crawls: a method may shorten its steps for very long before it fails."""
        self._longest = max(self._longest, h)
        loops = self.equations.loops
        close = loops is not None and loops.is_close
        least, most = (_STALLED_LOOP, _FOR_STEPS_OF_LOOP) if close else (_STALLED, _FOR_STEPS)
        self._short = self._short + 1 if h <= least * self._longest else 0
        if self._short and not self._longest:  # LSODA would go on so for ever
            raise Diverged(
                f"at t = {self.t:.9g} s the step size underflowed: the accelerations are too "
                "large. Check units and gains"
            )
        if self._short > most:
            raise Diverged(
                f"at t = {self.t:.9g} s the steps have shrunk to {h:.2g} s, from up to "
                f"{self._longest:.2g} s, for more than {most} steps: the motion approaches a "
                "singularity, such as gimbal lock of three hinges in a row"
            )

    def _recentre(self, solver: Any) -> None:
        """Move the base point to the present state, keeping step size and derivative."""
        if self.method.recentre == "turn":
            if self.chart.largest_turn(solver.y[: self._nv]) > _LARGE_TURN:
                if solver.status == "running":
                    self.restart(self.t, self.q, self.v)
            return
        moved = self.chart.curved
        self._base = self.q
        y, f = solver.y.copy(), solver.f.copy()
        y[moved], f[moved] = 0.0, self.v[moved]
        self._shift_guess(solver, y)
        solver.y, solver.f, solver.atol = y, f, self._tolerance()
