"""Derivatives of one fixed step: the discrete linearisation that optimal control works with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms.constrained.system import System
from phipsi.algorithms.dynamics.derivatives import forward_dynamics_derivatives
from phipsi.algorithms.dynamics.equations_of_motion import forward_dynamics
from phipsi.backends.arguments import state_arrays
from phipsi.errors import InputError
from phipsi.model.mechanisms import mechanism_of, of_mechanisms
from phipsi.model.model import Model
from phipsi.simulation.chart import Chart
from phipsi.simulation.tableaux import DIFFERENTIABLE, METHODS, Tableau

Array = NDArray[Any]
Stage = tuple[Array, Array, Array, Array]


@of_mechanisms
def step_derivatives(
    model: Model | System,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    dt: float,
    *,
    integrator: str = "rk4",
) -> tuple[Array, Array]:
    """Derivatives of the state after one step by the state before it and by the efforts.

    [δq⁺; δv⁺] = A [δq; δv] + B δtau for a step of `rollout` or `simulate`, with δq and δq⁺ in the
    directions of v at the two configurations (q ∘ exp(δq)), also for quaternion joints. They are
    the exact derivatives of the computed step, not a discretised linearisation. A step of a
    `System` ends with the projection onto its constraints, whose derivatives are in A and B: A
    maps any change to one that keeps the loops closed.

    **Arguments:** `model`, a model or a `System`; `q` (..., nq), `v`, `tau` (..., nv), `dt` in s,
    `integrator`, "rk4" or "semi_implicit". **Returns:** A (..., 2 nv, 2 nv) and B (..., 2 nv, nv).
    **Cost:** that of `forward_dynamics_derivatives` at every stage, and some products of nv × nv
    matrices. **Source:** theory/sensitivities 5; theory/closed-chains 11 (C32).

    >>> import numpy as np
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(1)
    >>> A, B = pp.step_derivatives(arm, [0.0], [0.0], [0.0], 0.1)
    >>> A.round(3) + 0.0, B.round(3)
    (array([[ 0.999,  0.1  ],
           [-0.036,  0.997]]), array([[0.015],
           [0.3  ]]))
    """
    model = mechanism_of(model, step_derivatives)
    if isinstance(model, System):
        from phipsi.simulation.closed_linear import closed_step_derivatives  # needs linear_step

        return closed_step_derivatives(model, q, v, tau, dt, integrator)
    at, rates, effort = state_arrays(model, q=q, v=v, tau=tau)
    step = linear_step(model, at, rates, effort, checked_step(dt), integrator)
    return step.A, step.B


def checked_differentiable(integrator: Any) -> None:
    """Refuse an integrator whose steps have no derivatives."""
    if isinstance(integrator, str) and integrator in DIFFERENTIABLE:
        return
    known = ", ".join(map(repr, DIFFERENTIABLE))
    why = ""
    if integrator in METHODS and METHODS[integrator].conserves:
        why = (
            ". This one solves an equation in every step, whose derivatives are second derivatives "
            "of the Lagrangian"
        )
    raise InputError(
        f"integrator={integrator!r}: steps of {known} can be differentiated{why}. Use one of them:"
        "\n    integrator='rk4'"
    )


def checked_step(dt: Any) -> float:
    """A finite step length."""
    if not (isinstance(dt, (int, float, np.number)) and np.isfinite(dt)):
        raise InputError(f"dt={dt!r} must be a finite number of seconds")
    return float(dt)


@dataclass(frozen=True, eq=False)
class LinearStep:
    """A step, linearised.

    `A` (..., 2 nv, 2 nv); `stages`, for every stage of the method its (q, v, vdot) and the
    derivative (..., 2 nv, nv) of the end by an effort that acts in this stage only; `q` and `v`
    after the step.
    """

    A: Array
    stages: tuple[Stage, ...]
    q: Array
    v: Array

    @property
    def B(self) -> Array:
        """Derivative (..., 2 nv, nv) by an effort that acts during the whole step."""
        return sum(stage[3] for stage in self.stages)  # type: ignore[return-value]


def linear_step(
    model: Model | System, q: Array, v: Array, tau: Array, dt: float, integrator: str
) -> LinearStep:
    """The linearised step of an integrator; of a system, before it is projected."""
    checked_differentiable(integrator)
    tableau = METHODS[integrator].tableau
    batch = np.broadcast_shapes(q.shape[:-1], v.shape[:-1], tau.shape[:-1])
    q, v, tau = (np.broadcast_to(x, (*batch, x.shape[-1])) for x in (q, v, tau))
    chart = Chart(model.model if isinstance(model, System) else model)
    if tableau is None:
        return _semi_implicit(model, chart, q, v, tau, dt)
    return _explicit(model, chart, tableau, q, v, tau, dt)


def _semi_implicit(
    model: Model | System, chart: Chart, q: Array, v: Array, tau: Array, h: float
) -> LinearStep:
    """v⁺ = v + h vdot, then q⁺ with the rates v⁺; see groups.py."""
    nv = v.shape[-1]
    vdot = forward_dynamics(model, q, v, tau)
    by_q, by_v, by_tau = forward_dynamics_derivatives(model, q, v, tau)
    T, q_v, q_a, v_v, v_a = (chart.dense(v, x) for x in chart.euler_blocks(v, vdot, h))
    A, B = _blocks(q.shape[:-1], nv, 2 * nv), _blocks(q.shape[:-1], nv, nv)
    A[..., nv:, :nv], A[..., nv:, nv:] = h * (v_a @ by_q), v_v + h * (v_a @ by_v)
    B[..., nv:, :] = h * (v_a @ by_tau)
    A[..., :nv, :nv], A[..., :nv, nv:] = T + h * h * (q_a @ by_q), h * (q_v + h * (q_a @ by_v))
    B[..., :nv, :] = h * h * (q_a @ by_tau)
    return LinearStep(A, ((q, v, vdot, B),), *chart.euler(q, v, vdot, h))


def _explicit(
    model: Model | System,
    chart: Chart,
    tableau: Tableau,
    q: Array,
    v: Array,
    tau: Array,
    h: float,
) -> LinearStep:
    """Runge–Kutta in exponential coordinates z about q.

    Columns of all matrices: δq, δv, then δtau of the first stage, of the second, …. With
    k_i = (dexp⁻¹(z_i) v_i, vdot(q ∘ exp(z_i), v_i)):

        δq_i = T_i δq + Jr_i δz_i,   δk_i = (R_i δv_i + ∂(R v_i)/∂z δz_i, by_q δq_i + by_v δv_i + …)
    """
    nv, stages = v.shape[-1], len(tableau.b)
    batch = q.shape[:-1]
    zero = np.zeros((*batch, nv))
    start = chart.start(q)  # z = q of joints with q̇ = v
    wide = (2 + stages) * nv
    dq, dv = (np.zeros((*batch, nv, wide)) for _ in range(2))
    dq[..., :nv], dv[..., nv : 2 * nv] = np.eye(nv), np.eye(nv)
    slopes: list[tuple[Array, Array, Array, Array]] = []  # ż, v̇ and their derivatives
    found: list[tuple[Array, Array, Array]] = []
    for i in range(stages):
        z, vi = zero, v
        dz, dvi = np.zeros_like(dq), dv
        for a, (rate, vdot, drate, dvdot) in zip(tableau.a[i][:i], slopes, strict=True):
            if a:
                z, vi = z + h * a * rate, vi + h * a * vdot
                dz, dvi = dz + h * a * drate, dvi + h * a * dvdot
        qi = chart.point(q, start + z)
        vdot = forward_dynamics(model, qi, vi, tau)
        by_q, by_v, by_tau = forward_dynamics_derivatives(model, qi, vi, tau)
        if chart.is_flat:
            rate, drate, dqi = vi, dvi, dq + dz
        else:
            R = chart.rate_matrix(z)
            rate = (R @ vi[..., None])[..., 0]
            drate = R @ dvi + chart.rate_change(z, vi) @ dz
            dqi = chart.transport(z) @ dq + chart.right(z) @ dz
        dvdot = by_q @ dqi + by_v @ dvi
        dvdot[..., (2 + i) * nv : (3 + i) * nv] += by_tau
        slopes.append((rate, vdot, drate, dvdot))
        found.append((qi, vi, vdot))
    z, v1, dz, dv1 = zero, v, np.zeros_like(dq), dv
    for b, (rate, vdot, drate, dvdot) in zip(tableau.b, slopes, strict=True):
        z, v1 = z + h * b * rate, v1 + h * b * vdot
        dz, dv1 = dz + h * b * drate, dv1 + h * b * dvdot
    dq1 = dq + dz if chart.is_flat else chart.transport(z) @ dq + chart.right(z) @ dz
    whole = np.concatenate([dq1, dv1], axis=-2)
    parts = [whole[..., (2 + i) * nv : (3 + i) * nv] for i in range(stages)]
    stages_found = tuple((*state, part) for state, part in zip(found, parts, strict=True))
    return LinearStep(whole[..., : 2 * nv], stages_found, chart.point(q, start + z), v1)


def _blocks(batch: tuple[int, ...], nv: int, columns: int) -> Array:
    return np.zeros((*batch, 2 * nv, columns))
