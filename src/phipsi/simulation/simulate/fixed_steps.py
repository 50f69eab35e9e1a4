"""Fixed steps on the group: semi-implicit Euler, Runge–Kutta–Munthe-Kaas, implicit and variational.

A state inside a step (for events and output times) is one step of the method of the right length
from the step's start, so it has the accuracy of the method. Steps end on multiples of dt, also
after an event changed the state inside one; the last one ends at the end of the run.

**The variational step** makes a discrete action stationary. The action of a step from q to
q⁺ = q ∘ exp(h w) is h L(q ∘ exp(h w/2), w), the Lagrangian at the middle of the step. With the
momenta p = ℳ v, and at the middle

    μ = ∂L/∂v = ℳ w,     λ = ∂L/∂q + efforts

(∂L/∂q along the joint rates, as always), the discrete Euler–Lagrange equations are

    dexp(−h w)* p + h/2 dexp(−h w/2)* λ = μ                  an equation for w
    p⁺ = Ad(exp h w)* p + h Ad(exp h w/2)* λ,   ℳ(q⁺) v⁺ = p⁺

with dexp = Ad = 1 for joints with q̇ = v: there it is the implicit midpoint rule in q and p. Free
and planar joints are rotations and translations of their own (joint_groups.py), because momenta of
screw motions would make the spin depend on the speed of flight. The map (q, p) → (q⁺, p⁺) is
symplectic and symmetric, and by Noether's theorem it keeps the momentum of every symmetry: where λ
of a free base is zero, its momenta are carried on unchanged, whatever w is. Efforts act as in the
discrete Lagrange–d'Alembert principle, at the middle of the step.

    ∂L/∂q = (dHT{v}* φ + H cross(E_φ* V)* φ) M V − H φ M φ* gravity

is what `gradient` makes of the kinetic energy: one sweep out and one back, with p on the way. With
flexible bodies it has the terms of Ṁ and Ė, elastic forces and damping of modes too. The
equation is solved by iteration of w ← ℳ⁻¹ (…), O(N) each.

**Source:** Marsden and West 2001, 1.3 and 2.3; Bou-Rabee and Marsden 2009; Hairer, Lubich and
Wanner 2006, VI.6.

Reasons: docs/decisions/0031.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import final

import numpy as np

from phipsi.algorithms.dynamics.dynamics_expressions import LINEARLY_IMPLICIT, STEP_LENGTH
from phipsi.core.backends.program import Program
from phipsi.core.compiler import compile
from phipsi.errors import SimulationError
from phipsi.simulation import runs
from phipsi.simulation.integrators.fixed_point import Image, solve
from phipsi.simulation.integrators.lagrangian import MOMENTA, RATES_OF_MOMENTA, slope
from phipsi.simulation.integrators.stage_loop import Values, take_step
from phipsi.simulation.integrators.stiff_modes import ahead_of, metric_of_steps
from phipsi.simulation.integrators.tableaux import COMPILED, Method
from phipsi.simulation.simulate.compiled_equations import Stretch, Stretched
from phipsi.simulation.simulate.equations import Equations
from phipsi.simulation.simulate.stepper import Array, Diverged, Step, Stepper, check_speed

Advance = Callable[[float, Array, Array, float], tuple[Array, Array, Array]]
"""(t, q, v, h) → q⁺, v⁺ and what the quadratures gain."""

_STRETCH = 500  # steps that run in machine code at once, between checks of events and Ctrl-C
_WORTH_COMPILING = 200  # steps: the laws of a run with as many before it are compiled
_AFTER_EVENT = 50  # steps before that: many events in a row would compile laws as often


@final
class FixedStep(Step):
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
        self._stretch: Stretch | None = None
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

    def step(self) -> Step:
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

    def _plain(self, t: float, q: Array, v: Array, w: Array, steps: int) -> Stretched | None:
        """Nothing acts but gravity."""
        model, none = self._equations.model, np.zeros((steps + 1, 0))
        zero, name = np.zeros(model.nv), self._method.name
        try:
            states = runs.rollout.whole_rollout(model, q, v, zero, self._dt, steps, integrator=name)
            return Stretched(*states, none)
        except SimulationError:
            return None

    def _laws(self) -> Stretch | None:
        """With the laws of the run as code, if the run is long."""
        self._since += 1
        if self._since != _AFTER_EVENT + 1 or self._count - self._next < _WORTH_COMPILING:
            return None
        self._stretch = self._equations.stretch(self._method.name, self._dt)
        return self._stretch


def advance_function(method: Method, equations: Equations) -> Advance:
    """The function of a method."""
    loops = equations.loops
    if method.halfway:
        advance = (_variational if method.conserves else _implicit_midpoint)(equations)
    elif method.bends:
        advance = _linearly_implicit(equations)
    else:
        advance = _explicit(equations, method)
    if loops is None or not loops.projects:
        return advance
    stiff = method.bends and equations.model.is_flexible

    def projected(t: float, q: Array, v: Array, h: float) -> tuple[Array, Array, Array]:
        q1, v1, gain = advance(t, q, v, h)
        metric = metric_of_steps(equations.model, h) if stiff else None
        return (*loops.project(t + h, q1, v1, metric), gain)

    return projected


def _explicit(equations: Equations, method: Method) -> Advance:
    """Semi-implicit Euler, or Runge–Kutta in the exponential coordinates about the step's start."""
    chart, n = equations.chart, len(equations.quadratures)
    times = (0.0,) if method.tableau is None else method.tableau.c

    def advance(t: float, q: Array, v: Array, h: float) -> tuple[Array, Array, Array]:
        def slope(i: int, y: Array) -> Array:
            return equations.derivative(t + times[i] * h, q, y)

        return take_step(method, Values(chart, q, v, slope, n), h)

    return advance


def _linearly_implicit(equations: Equations) -> Advance:
    """Semi-implicit Euler with the elastic forces of flexible bodies at the end of the step."""
    chart, n = equations.chart, len(equations.quadratures)
    model, loops, moved = equations.model, equations.loops, equations.prescribed
    program = compile(LINEARLY_IMPLICIT, model, given=(STEP_LENGTH.name,))
    rows = None if loops is None else loops.motion.rows
    moving = None if moved is None else np.flatnonzero(moved.free)
    is_plain = not model.is_flexible or (loops is None and moved is None)

    def advance(t: float, q: Array, v: Array, h: float) -> tuple[Array, Array, Array]:
        slope = equations.derivative(t, q, np.concatenate([chart.start(q), v, np.zeros(n)]))
        rates, gain = slope[chart.nv : 2 * chart.nv], h * slope[2 * chart.nv :]
        if not np.isfinite(rates).all():
            return (*chart.euler(q, v, rates, h), gain)
        if is_plain:
            rates = program(q, v, rates, h)
        else:
            rates = ahead_of(model, rows, moving, q, v, rates, h)
        return (*chart.euler(q, v, rates, h), gain)

    return advance


def _implicit_midpoint(equations: Equations) -> Advance:
    """v⁺ = v + h vdot(t + h/2, q ∘ exp(h w/2), w), q⁺ = q ∘ exp(h w), with w = (v + v⁺)/2.

    It is symmetric, but not symplectic where ℳ depends on q: that takes momenta (`_variational`).
    """
    chart = equations.chart

    def advance(t: float, q: Array, v: Array, h: float) -> tuple[Array, Array, Array]:
        start, half = chart.start(q), 0.5 * h

        def place(w: Array) -> Array:
            return chart.point(q, start + half * w)

        def image(w: Array) -> tuple[Array, float, float]:
            new = v + half * equations.acceleration(t + half, place(w), w)
            return new, _largest(new - w) ** 2, _largest(new) ** 2

        w, gain = _solved(equations, "the implicit midpoint rule", image, place, t, v, h)
        return np.array(chart.point(q, start + h * w)), 2 * w - v, gain

    return advance


def _variational(equations: Equations) -> Advance:
    """The step that makes a discrete action stationary: see above."""
    model, chart = equations.model, equations.chart
    form = slope(model.has_more_rows, bool(equations.forces.act_on_bodies))
    by_q = _evaluated(compile(form, model))
    momenta, rates = (_evaluated(compile(x, model)) for x in (MOMENTA, RATES_OF_MOMENTA))

    def force(t: float, q: Array, w: Array) -> Array:
        effort, loads = equations.acting(t, q, w)
        out = by_q(q, w, *loads) + effort
        if not np.isfinite(out).all():
            equations.note_failure(t, q, w)
        return out

    def moving(t: float, q: Array, p: Array) -> Array:
        out = rates(q, p)
        if not np.isfinite(out).all() and np.isfinite(p).all():
            equations.note_failure(t, q, np.zeros(len(p)))
        return out

    def advance(t: float, q: Array, v: Array, h: float) -> tuple[Array, Array, Array]:
        middle, p = t + 0.5 * h, momenta(q, v)

        def place(w: Array) -> Array:
            return chart.middle(q, w, h)

        def image(w: Array) -> tuple[Array, float, float]:
            at = place(w)
            now = momenta(at, w)
            wanted = chart.wanted(w, h, p, force(middle, at, w), now)
            new = moving(middle, at, wanted)
            return new, abs(float((new - w) @ (wanted - now))), abs(float(new @ wanted))

        w, gain = _solved(equations, "the variational step", image, place, t, v, h)
        q1, p1 = chart.end(q, w, h), chart.after(q, w, h, p, force(middle, place(w), w))
        # only what 2 w − v misses of v⁺ is solved for: see graph_steps.py
        guess = 2 * w - v
        return q1, guess + moving(t + h, q1, p1 - momenta(q1, guess)), gain

    return advance


def _largest(values: Array) -> float:
    return float(np.abs(values).max(initial=0.0))


def _solved(
    equations: Equations,
    what: str,
    image: Image,
    place: Callable[[Array], Array],
    t: float,
    v: Array,
    h: float,
) -> tuple[Array, Array]:
    """The rates w = image(w) at the middle of a step, and what the quadratures gain in it.

    ``place(w)`` is the configuration there. An equation without a solution ends the run.
    """
    w = solve(image, v)
    if w is None:
        raise Diverged(
            f"at t = {t:.9g} s the equation of {what} has no solution near the step's start; the "
            f"step of {h:.3g} s is too long for this motion"
        )
    if not len(equations.quadratures):
        return w, np.zeros(0)
    return w, h * equations.rates(t + 0.5 * h, place(w), w)[1]


def _evaluated(program: Program) -> Callable[..., Array]:
    """A program of vectors (nv,) that answers NaN where it has no result."""
    nothing, call = np.full(program.model.nv, np.nan), None

    def evaluated(*inputs: Array) -> Array:
        nonlocal call
        call = call or program.with_status  # loaded with the first call
        found, status = call(*inputs)
        return nothing if status else found

    return evaluated
