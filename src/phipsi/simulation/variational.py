"""The variational integrator: steps that make a discrete action stationary.

The action of a step from q to q⁺ = q ∘ exp(h w) is h L(q ∘ exp(h w/2), w), the Lagrangian at the
middle of the step. With the momenta p = ℳ v, and at the middle

    μ = ∂L/∂v = ℳ w,     λ = ∂L/∂q + efforts

(∂L/∂q along the joint rates, as always), the discrete Euler–Lagrange equations are

    dexp(−h w)* p + h/2 dexp(−h w/2)* λ = μ                  an equation for w
    p⁺ = Ad(exp h w)* p + h Ad(exp h w/2)* λ,   ℳ(q⁺) v⁺ = p⁺

with dexp = Ad = 1 for joints with q̇ = v: there it is the implicit midpoint rule in q and p. Free
and planar joints are rotations and translations of their own (groups.py), because momenta of
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

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.backends.program import Program
from phipsi.compiler import compile
from phipsi.motion.implicit import solve
from phipsi.motion.lagrangian import MOMENTA, RATES_OF_MOMENTA, slope
from phipsi.simulation.equations import Equations
from phipsi.simulation.stepper import Diverged

Array = NDArray[Any]


def variational(
    equations: Equations,
) -> Callable[[float, Array, Array, float], tuple[Array, Array, Array]]:
    """(t, q, v, h) → q⁺, v⁺ and what the quadratures gain."""
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

        def image(w: Array) -> tuple[Array, float, float]:
            at = chart.middle(q, w, h)
            now = momenta(at, w)
            wanted = chart.wanted(w, h, p, force(middle, at, w), now)
            new = moving(middle, at, wanted)
            return new, abs(float((new - w) @ (wanted - now))), abs(float(new @ wanted))

        w = solve(image, v)
        if w is None:
            raise Diverged(
                f"at t = {t:.9g} s the equation of the variational step has no solution near the "
                f"step's start; the step of {h:.3g} s is too long for this motion"
            )
        at, q1 = chart.middle(q, w, h), chart.end(q, w, h)
        p1 = chart.after(q, w, h, p, force(middle, at, w))
        gain = np.zeros(0)
        if len(equations.quadratures):
            gain = h * equations.rates(middle, at, w)[1]
        # only what 2 w − v misses of v⁺ is solved for: see graph_steps.py
        guess = 2 * w - v
        return q1, guess + moving(t + h, q1, p1 - momenta(q1, guess)), gain

    return advance


def _evaluated(program: Program) -> Callable[..., Array]:
    """A program of vectors (nv,) that answers NaN where it has no result."""
    native = program.native
    nothing = np.full(program.model.nv, np.nan)

    def reference(*inputs: Array) -> Array:
        if not all(np.isfinite(x).all() for x in inputs):
            return nothing
        found, status = program(*inputs, on_error="mask")
        return nothing if status else found

    def compiled(*inputs: Array) -> Array:
        assert native is not None
        found, status = native.one(*inputs)
        return nothing if status else found

    return reference if native is None else compiled
