"""Fixed steps on the group: semi-implicit Euler, Runge–Kutta–Munthe-Kaas, implicit and variational.

A state inside a step (for events and output times) is one step of the method of the right length
from the step's start, so it has the accuracy of the method. Steps end on multiples of dt, also
after an event changed the state inside one; the last one ends at the end of the run.

Implicit and variational steps are those of integrators/implicit_steps.py, on arrays.

Reasons: docs/decisions/0031.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import numpy as np

from phipsi.algorithms import LINEARLY_IMPLICIT, STEP_LENGTH
from phipsi.core.backends import Program
from phipsi.core.compiler import compile
from phipsi.errors import SimulationError
from phipsi.simulation import runs
from phipsi.simulation.integrators.fixed_point import solve
from phipsi.simulation.integrators.implicit_steps import Image, MiddleNumbers, take_implicit_step
from phipsi.simulation.integrators.lagrangian import MOMENTA, RATES_OF_MOMENTA, lagrangian
from phipsi.simulation.integrators.stage_loop import StageValues, take_step
from phipsi.simulation.integrators.stiff_modes import (
    linearly_implicit_acceleration,
    metric_of_steps,
)
from phipsi.simulation.integrators.tableaux import COMPILED, Method
from phipsi.simulation.simulate.equations import Equations
from phipsi.simulation.simulate.stepper import (
    Array,
    CompiledStates,
    CompiledSteps,
    Diverged,
    Stepper,
    TimeStep,
    check_speed,
)

Advance = Callable[[float, Array, Array, float], tuple[Array, Array, Array]]
"""(t, q, v, h) → q⁺, v⁺ and what the quadratures gain."""

_STRETCH = 500  # steps that run in machine code at once, between checks of events and Ctrl-C
_WORTH_COMPILING = 200  # steps: the laws of a run with as many before it are compiled
_AFTER_EVENT = 50  # steps before that: many events in a row would compile laws as often


@final
class FixedStep(TimeStep):
    """A step of a fixed-step method."""

    def __init__(
        self,
        advance: Advance,
        t0: float,
        q0: Array,
        v0: Array,
        w0: Array,
        t1: float,
        end: tuple[Array, Array, Array] | None = None,
    ) -> None:
        self._advance, self.t0, self.t1, self._q0, self._v0 = advance, t0, t1, q0, v0
        self.samples, self._w0 = (t1,), w0
        if end is None:
            self.q1, self.v1, gain = advance(t0, q0, v0, t1 - t0)
            self.w1 = w0 + gain
        else:
            self.q1, self.v1, self.w1 = end

    def inside(self, t: float) -> tuple[Array, Array, Array]:
        """By a shorter step."""
        if t == self.t1:
            return self.q1, self.v1, self.w1
        if t == self.t0:
            return self._q0, self._v0, self._w0
        q, v, gain = self._advance(self.t0, self._q0, self._v0, t - self.t0)
        return q, v, self._w0 + gain


@final
class FixedSteps(Stepper):
    """Steps of one length."""

    def __init__(
        self,
        equations: Equations,
        method: Method,
        start: tuple[float, Array, Array],
        end: float,
        dt: float,
    ) -> None:
        self._equations, self._dt, self._end = equations, dt, end
        # 10 s in steps of 1e-3 s are 10000 steps, although 10/1e-3 may be 10000.000000000002
        self._count = max(1, math.ceil(end / dt * (1 - 1e-12)))
        self._advance = advance_function(method, equations)
        self._method = method
        self.w = np.zeros(len(equations.quadratures))
        # no function of the user is called within a step: whole stretches run in machine code
        self._compiles = method.name in COMPILED
        self._stretch: CompiledSteps | None = None
        if self._compiles and equations.is_plain:
            self._stretch = self._plain
        self.restart(*start)
        self._since = _AFTER_EVENT

    def restart(self, t: float, q: Array, v: Array) -> None:
        """Go on from here to the next multiple of dt."""
        self.t, self.q, self.v = t, q, v
        self._next = math.floor(t / self._dt * (1 + 1e-12)) + 1
        self._ready: Iterator[tuple[Array, Array, Array, Array | None]] = iter(())
        if self._stretch != self._plain:
            self._stretch, self._since = None, 0

    def step(self) -> TimeStep:
        """Advance to the next multiple of dt, or to the end."""
        t1 = self._end if self._next >= self._count else self._next * self._dt
        self._equations.failure = None
        with np.errstate(all="ignore"):
            end = self._from_machine_code(t1)
            step = FixedStep(self._advance, self.t, self.q, self.v, self.w, t1, end)
        check_speed(step.v1, t1)
        self.q, self.v, self.w = step.q1, step.v1, step.w1
        self.t = t1  # last: an interrupt before it leaves the state unused
        self._next += 1
        return step

    def _from_machine_code(self, t1: float) -> tuple[Array, Array, Array] | None:
        """The state at the end of this step, from a stretch of steps done at once."""
        whole = abs(t1 - self.t - self._dt) <= 1e-9 * self._dt
        if not self._compiles or not whole or self._next >= self._count:
            return None
        found = next(self._ready, None)
        if found is None:
            stretch = self._stretch or self._laws()
            if stretch is None:
                return None
            steps = min(_STRETCH, self._count - self._next)
            taken = stretch(self.t, self.q, self.v, self.w, steps)
            if taken is None:  # step by step, which finds where and why
                self._compiles = self._equations.loops is not None
                return None
            q, v, w, tau = taken
            efforts = [None] * (len(q) - 1) if tau is None else tau[1:]
            self._ready = iter(zip(q[1:], v[1:], w[1:], efforts, strict=True))
            found = next(self._ready)
        q1, v1, w1, effort = found
        self._equations.known_effort = None if effort is None else (q1, v1, effort)
        return q1, v1, w1

    def _plain(self, t: float, q: Array, v: Array, w: Array, steps: int) -> CompiledStates | None:
        """Nothing acts but gravity."""
        model, none = self._equations.model, np.zeros((steps + 1, 0))
        zero, name = np.zeros(model.nv), self._method.name
        try:
            states = runs.rollout.whole_rollout(model, q, v, zero, self._dt, steps, integrator=name)
            return CompiledStates(*states, none)
        except SimulationError:
            return None

    def _laws(self) -> CompiledSteps | None:
        """With the laws of the run as code, if the run is long."""
        self._since += 1
        if self._since != _AFTER_EVENT + 1 or self._count - self._next < _WORTH_COMPILING:
            return None
        self._stretch = self._equations.stretch(self._method.name, self._dt)
        return self._stretch


def advance_function(method: Method, equations: Equations) -> Advance:
    """The function of a method."""
    loops = equations.loops
    advance = (_implicit if method.is_midpoint else _explicit)(equations, method)
    if loops is None or not loops.projects:
        return advance
    stiff = method.elastic_implicit and equations.model.is_flexible

    def projected(t: float, q: Array, v: Array, h: float) -> tuple[Array, Array, Array]:
        q1, v1, gain = advance(t, q, v, h)
        metric = metric_of_steps(equations.model, h) if stiff else None
        return (*loops.project(t + h, q1, v1, metric), gain)

    return projected


def _explicit(equations: Equations, method: Method) -> Advance:
    """Semi-implicit Euler, or Runge–Kutta in the exponential coordinates about the step's start."""
    chart, n = equations.chart, len(equations.quadratures)
    times = (0.0,) if method.tableau is None else method.tableau.c
    ahead = _ahead(equations) if method.elastic_implicit else None

    def advance(t: float, q: Array, v: Array, h: float) -> tuple[Array, Array, Array]:
        def slope(i: int, y: Array) -> Array:
            return equations.derivative(t + times[i] * h, q, y)

        def stiff_slope(i: int, y: Array) -> Array:
            found, rates = slope(i, y), slice(chart.nv, 2 * chart.nv)
            if ahead is not None and np.isfinite(found[rates]).all():
                found[rates] = ahead(q, v, found[rates], h)
            return found

        used = slope if ahead is None else stiff_slope
        return take_step(method, StageValues(chart, q, v, used, n), h)

    return advance


def _ahead(equations: Equations) -> Callable[[Array, Array, Array, float], Array]:
    """(v⁺ − v)/h of a step with elastic forces at its end, from the accelerations at its start."""
    model, loops, moved = equations.model, equations.loops, equations.prescribed
    rows = None if loops is None else loops.motion.rows
    moving = None if moved is None else np.flatnonzero(moved.free)
    if not model.is_flexible or (loops is None and moved is None):
        return compile(LINEARLY_IMPLICIT, model, inputs=(STEP_LENGTH.name,))
    return lambda q, v, vdot, h: linearly_implicit_acceleration(model, rows, moving, q, v, vdot, h)


def _implicit(equations: Equations, method: Method) -> Advance:
    """Steps that solve an equation for the rates at their middle."""
    programs = _MiddlePrograms(equations) if method.is_variational else None

    def advance(t: float, q: Array, v: Array, h: float) -> tuple[Array, Array, Array]:
        step = _MiddleArrays(equations, programs, t, q, v, h)
        _, q1, v1 = take_implicit_step(method, step)
        return np.array(q1), v1, step.gain

    return advance


@final
class _MiddlePrograms:
    """What a variational step evaluates; NaN where there is no result."""

    def __init__(self, equations: Equations) -> None:
        model = equations.model
        forms = lagrangian(bool(model.has_more_rows), bool(equations.forces.act_on_bodies))
        self.lagrangian = _evaluated(compile(forms, model))
        self.momenta, self.rates = (
            _evaluated(compile((x,), model)) for x in (MOMENTA, RATES_OF_MOMENTA)
        )


def _evaluated(program: Program) -> Callable[..., Sequence[Array]]:
    """A program of vectors (nv,) that answers NaN where it has no result."""
    nothing, call = np.full(program.model.nv, np.nan), None

    def evaluated(*inputs: Array) -> Sequence[Array]:
        nonlocal call
        call = call or program.with_status  # loaded with the first call
        *found, status = call(*inputs)
        return [nothing] * len(found) if status else found

    return evaluated


@final
class _MiddleArrays(MiddleNumbers):
    """A step of one state; a place is t, q and v. Laws are functions of the user, without states.

    **Attributes:** `gain`, what the quadratures gain in the step.
    """

    def __init__(
        self,
        equations: Equations,
        programs: _MiddlePrograms | None,
        t: float,
        q: Array,
        v: Array,
        h: float,
    ) -> None:
        self._equations, self._chart = equations, equations.chart
        self.t, self.q, self.v, self.h, self.start = t, q, v, h, (t, q, v)
        self._z = equations.chart.start(q)
        self.gain = np.zeros(len(equations.quadratures))
        if programs is not None:
            self._programs = programs

    def dot(self, x: Array, y: Array) -> Any:
        """Σ x y."""
        return x @ y

    # ---- the group

    def moved(self, z: Array) -> Array:
        """q ∘ exp(z)."""
        return self._chart.point(self.q, self._z + z)

    def middle(self, w: Array) -> Array:
        """The configuration at the middle of a variational step."""
        return self._chart.middle(self.q, w, self.h)

    def end(self, w: Array) -> Array:
        """The configuration at its end."""
        return self._chart.end(self.q, w, self.h)

    def wanted(self, w: Array, p: Array, force: Array, now: Array) -> Array:
        """The momenta at its middle that follow."""
        return self._chart.wanted(w, self.h, p, force, now)

    def after(self, w: Array, p: Array, force: Array) -> Array:
        """The momenta at its end."""
        return self._chart.after(self.q, w, self.h, p, force)

    # ---- the mechanism

    def at_middle(self, q: Array, w: Array, x: Any) -> Any:
        """The time, configuration and rates at the middle."""
        return self.t + 0.5 * self.h, q, w

    def at_end(self, q: Array, v: Array, x: Any) -> Any:
        """The time, configuration and rates after the step."""
        return self.t + self.h, q, v

    def forces(self, place: Any) -> Any:
        """None: functions of the user are called with the dynamics."""
        return None

    def accelerations(
        self, place: Any, forces: Any, more: Any = None, inertia: Any = None
    ) -> Array:
        """Those of the equations of the run."""
        return self._equations.acceleration(*place)

    def lagrangian(self, place: Any, forces: Any) -> tuple[Array, Array]:
        """μ and λ, by one program."""
        effort, loads = self._equations.acting(*place)
        mu, slope = self._programs.lagrangian(*place[1:], *loads)
        force = slope + effort
        if not np.isfinite(force).all():
            self._equations.note_failure(*place)
        return mu, force

    def momenta(self, place: Any) -> Array:
        """ℳ v."""
        return self._programs.momenta(*place[1:])[0]

    def rates(self, place: Any, momenta: Array, inertia: Any = None) -> Array:
        """ℳ⁻¹ momenta."""
        t, q, _ = place
        (out,) = self._programs.rates(q, momenta)
        if not np.isfinite(out).all() and np.isfinite(momenta).all():
            self._equations.note_failure(t, q, np.zeros(len(momenta)))
        return out

    # ---- the equation

    def solve(
        self, middle: Callable[[Array], Array], image: Image, what: str
    ) -> tuple[Array, None]:
        """By iteration; an equation without a solution ends the run."""

        def next_of(w: Array) -> tuple[Array, float, float]:
            found = image(middle(w), w, None)
            return found.rates, *found.measure

        w = solve(next_of, self.v)
        if w is None:
            raise Diverged(
                f"at t = {self.t:.9g} s the equation of {what} has no solution near the step's "
                f"start; the step of {self.h:.3g} s is too long for this motion"
            )
        if len(self.gain):
            place = self.at_middle(middle(w), w, None)
            self.gain = self.h * self._equations.rates(*place)[1]
        return w, None
