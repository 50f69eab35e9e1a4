"""Gradients of a cost over a whole motion, by the adjoint of the integrator with checkpoints.

Reasons: docs/decisions/0021.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms.constrained.system import System
from phipsi.algorithms.kinematics.exponential_chart import Chart
from phipsi.core.backends.arguments import real_array
from phipsi.core.backends.program import Program
from phipsi.core.compiler import compile
from phipsi.core.model.capabilities import mechanism_of, supports, tree_of
from phipsi.core.model.model import Model
from phipsi.core.model.numbers import whole_number
from phipsi.errors import InputError, true_or_false
from phipsi.identification.regressors import regressor_form
from phipsi.simulation.analysis.step_derivatives import (
    PRESCRIBED,
    checked_differentiable,
    held_mask,
)
from phipsi.simulation.integrators.motion import Motion
from phipsi.simulation.integrators.stage_loop import Effort, Recording, take_step
from phipsi.simulation.integrators.tableaux import METHODS
from phipsi.simulation.runs.rollout import empty_records, whole_rollout
from phipsi.simulation.runs.rollout_arguments import rollout_arrays
from phipsi.simulation.runs.user_functions import check_signature

Array = NDArray[Any]
Running = Callable[[Array, Array, Array, Array], tuple[Any, Any, Any, Any]]
Final = Callable[[Array, Array], tuple[Any, Any, Any]]

# Numbers kept for the steps between two checkpoints, unless `segment` says otherwise: 400 MB.
_MOST_NUMBERS = 5e7
# Motions with less than this are kept whole: 16 MB.
_FEW_NUMBERS = 2e6


class RolloutGradient(NamedTuple):
    """Cost of a motion and its gradients.

    `cost` (...); by the initial configuration `q0` (..., nv), in the directions of v; by the
    initial rates `v0` (..., nv); by the efforts `tau`, of the shape (..., steps, nv), or (..., nv)
    if they were constant; by the `parameters` (..., 10 n + nv) in the order of
    ``inertial_parameters(model, armature=True)``, or None if not asked for.
    """

    cost: Array
    q0: Array
    v0: Array
    tau: Array
    parameters: Array | None


@supports(loops=True, flexible=True, rotors=True, prescribed=PRESCRIBED)
def rollout_gradient(
    model: Model | System,
    q0: ArrayLike,
    v0: ArrayLike,
    tau: ArrayLike,
    dt: float,
    steps: int,
    *,
    running: Running | None = None,
    final: Final | None = None,
    integrator: str = "rk4",
    parameters: bool = False,
    segment: int | None = None,
    threads: int = 1,
    prescribed: Sequence[str] | ArrayLike | None = None,
    per_step: bool | None = None,
) -> RolloutGradient:
    """Cost of the motion of `rollout`, and its gradient by everything the motion depends on.

    The adjoint of the integrator: λ_k = A_k* λ_{k+1} + ∂l_k, and the gradient by tau_k is
    B_k* λ_{k+1} + ∂l_k, with A_k, B_k the exact derivatives of the computed steps
    (`step_derivatives`), applied as vector–Jacobian products. The gradient by the inertial
    parameters is −Σ Y* B* λ, Y the regressor, because ∂v̇/∂π = −ℳ⁻¹ Y. Only every so many states are
    kept; those between are computed again, so memory grows with √steps. Motions of a `System`
    keep its constraints, and the gradient goes through their projection; for changes of q0
    and v0 that break them it is that of the projected changes.

    **Arguments:** `model`, a model or a `System`; `q0`, `v0`, `tau`, `dt`, `steps`, `integrator`,
    `threads`, `per_step` as for `rollout`, and of a model `prescribed`: gradients by `tau` are by
    the accelerations there. ``final(q, v)`` returns the cost (...) of the last
    state and its derivatives (..., nv) by q, in the directions of v, and by v.
    ``running(k, q, v, tau)`` is called with several steps at once: k (m,) their numbers, q
    (..., m, nq), v and tau (..., m, nv) at their beginnings; it returns costs (..., m), which are
    added up, and derivatives by q, v and tau, (..., m, nv) each. None stands for a derivative that
    is zero. `parameters` asks for the gradient by the inertial parameters and rotor inertias;
    `segment`, the number of steps between two kept states.
    **Returns:** `RolloutGradient`.
    **Cost:** O(N) per step: three rollouts, and one vector–Jacobian product of forward dynamics per
    stage; of a system O(nv³ + rows³) per step (`step_derivatives`).
    **Source:** theory/sensitivities 5 and 8; Griewank and Walther 2008, ch. 12 (checkpointing).

    >>> import numpy as np
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(2)
    >>> def swing(q, v):                            # how far the last state is from upright
    ...     error = q - np.array([np.pi / 2, 0.0])
    ...     return 0.5 * (error**2).sum(-1), error, None
    >>> found = pp.rollout_gradient(arm, [0, 0.1], [0, 0], np.zeros((50, 2)), 0.01, 50, final=swing)
    >>> found.tau.shape
    (50, 2)
    >>> bool(found.tau[0, 0] < 0)                   # pushing up brings it closer
    True
    """
    model, tree = mechanism_of(model, rollout_gradient), tree_of(model, rollout_gradient)
    if running is None and final is None:
        raise InputError("give a cost: final=… for the last state, running=… for every step")
    checked_differentiable(integrator)
    parameters = true_or_false("parameters", parameters)
    for name, function in (("running", running), ("final", final)):
        if function is not None and not callable(function):
            raise InputError(f"{name}={function!r} is not a function")
        if function is not None:
            taken = ("k", "q", "v", "tau") if name == "running" else ("q", "v")
            check_signature(function, f"{name}=", *taken)
    whole_number("steps", steps, 0)
    start_q, start_v, effort, batch = rollout_arrays(tree, q0, v0, tau, steps, per_step)
    varying = effort.ndim == len(batch) + 2
    length = _segment(segment, steps, batch, model, integrator)
    options: dict[str, Any] = {"integrator": integrator, "threads": threads}
    free = held_mask(model, prescribed, rollout_gradient)
    options["prescribed"] = None if free is None else free == 0

    def efforts(first: int, last: int) -> Array:
        if varying:
            return effort[..., first:last, :]
        return np.broadcast_to(effort[..., None, :], (*batch, last - first, tree.nv))

    def advance(q: Array, v: Array, first: int, last: int, every: int) -> tuple[Array, Array]:
        here = efforts(first, last)
        which = {"every": every, "per_step": True, **options}
        return whole_rollout(model, q, v, here, dt, last - first, **which)

    empty_records(tree, batch, steps, length, "a shorter motion")  # is there memory for them?
    firsts = range(0, steps, length)
    kept = [(start_q, start_v)]
    for first in firsts[:-1]:
        q, v = advance(*kept[-1], first, first + length, length)
        kept.append((q[..., -1, :], v[..., -1, :]))
    states = advance(*kept.pop(), firsts[-1] if firsts else 0, steps, 1)
    cost, adjoint = _ended(final, states[0][..., -1, :], states[1][..., -1, :])
    by_tau = np.zeros((*batch, steps if varying else 1, tree.nv))
    by_parameters = np.zeros((*batch, 10 * tree.n_bodies + tree.nv)) if parameters else None
    motion = Motion(model, free, ahead=dt if METHODS[integrator].bends else None)
    transposed = compile(regressor_form(tree.has_more_rows).T, tree) if parameters else None
    for first in reversed(firsts):
        last = min(first + length, steps)
        if last < steps:
            states = advance(*kept.pop(), first, last, 1)
        q, v = (x[..., :-1, :] for x in states)
        here = efforts(first, last)
        more, sources = _charged(running, np.arange(first, last), q, v, here)
        recording = Recording(motion, *(_steps_first(x) for x in (q, v, here)))
        recording = take_step(METHODS[integrator], recording, dt)
        adjoint, pulls = _backward(recording, last - first, adjoint, sources[:2])
        stages = [i for i, place in enumerate(recording.efforts) if place.is_stage]
        gradient = np.moveaxis(pulls[:, stages].sum(axis=1), 0, -2)  # pulls: steps, places, ..., nv
        if sources[2] is not None:
            gradient = gradient + sources[2]
        cost = cost + more
        if varying:
            by_tau[..., first:last, :] = gradient
        else:
            by_tau[..., 0, :] += gradient.sum(-2)
        if by_parameters is not None and transposed is not None:
            own = pulls if free is None else free * pulls  # accelerations that are given stay
            by_parameters -= _pulled_parameters(transposed, recording.efforts, own)
    by_tau = by_tau if varying else by_tau[..., 0, :]
    nv = tree.nv
    return RolloutGradient(cost, adjoint[..., :nv], adjoint[..., nv:], by_tau, by_parameters)


def _segment(
    segment: int | None, steps: int, batch: tuple[int, ...], model: Model | System, integrator: str
) -> int:
    if segment is not None:
        return whole_number("segment", segment)
    tableau = METHODS[integrator].tableau
    stages = 1 if tableau is None else len(tableau.b)
    tree = model.model if isinstance(model, System) else model
    curved = sum(group.nv**2 for group, _, _ in Chart(tree).parts)
    matrices = 0 if tree is model else 20 * tree.nv**2
    one = max(1, math.prod(batch)) * stages * (8 * tree.nv + 4 * curved + matrices + 1)
    if steps * one <= _FEW_NUMBERS:
        return max(1, steps)
    return max(1, min(math.isqrt(max(0, steps - 1)) + 1, int(_MOST_NUMBERS / one)))


def _ended(final: Final | None, q: Array, v: Array) -> tuple[Array, Array]:
    """Cost of the last state and the adjoint there."""
    batch, nv = v.shape[:-1], v.shape[-1]
    cost, adjoint = np.zeros(batch), np.zeros((*batch, 2 * nv))
    if final is None:
        return cost, adjoint
    found = final(q, v)
    if not isinstance(found, tuple) or len(found) != 3:
        raise InputError("final(q, v) must return a cost and two derivatives, by q and by v")
    value, by_q, by_v = found
    for at, name, given in ((0, "derivative by q", by_q), (nv, "derivative by v", by_v)):
        if given is not None:
            adjoint[..., at : at + nv] = _shaped("final", name, given, v.shape)
    return cost + _shaped("final", "cost", value, batch), adjoint


def _charged(
    running: Running | None, numbers: Array, q: Array, v: Array, tau: Array
) -> tuple[Any, list[Array | None]]:
    """Cost of some steps, and its derivatives."""
    if running is None:
        return 0.0, [None, None, None]
    found = running(numbers, q, v, tau)
    names = ("derivative by q", "derivative by v", "derivative by tau")
    if not isinstance(found, tuple) or len(found) != 1 + len(names):
        raise InputError("running(k, q, v, tau) must return a cost and three derivatives")
    value, *sources = found
    shaped = [
        None if x is None else _shaped("running", name, x, v.shape)
        for name, x in zip(names, sources, strict=True)
    ]
    return _shaped("running", "cost", value, v.shape[:-1]).sum(-1), shaped


def _shaped(function: str, what: str, values: Any, shape: tuple[int, ...]) -> Array:
    array = real_array(f"the {what} that {function}(…) returns", values)
    try:
        return np.broadcast_to(array, shape)
    except ValueError:
        hint = ""
        if what == "derivative by q" and array.shape[:-1] == shape[:-1]:
            hint = (
                ". Derivatives by q are in the directions of v (nv of them), not by the components "
                "of quaternions"
            )
        raise InputError(
            f"the {what} that {function}(…) returns has shape {array.shape}, but must have {shape}"
            f"{hint}"
        ) from None


def _steps_first(values: Array) -> Array:
    """(..., steps, n) as (steps, ..., n)."""
    return np.ascontiguousarray(np.moveaxis(values, -2, 0))


def _backward(
    recording: Recording, steps: int, adjoint: Array, sources: list[Array | None]
) -> tuple[Array, Array]:
    """Through some steps from their end: the adjoint before them, and weights of their efforts."""
    source = None
    if any(x is not None for x in sources):
        zero = np.zeros((*adjoint.shape[:-1], steps, adjoint.shape[-1] // 2))
        both = [zero if x is None else x for x in sources]
        source = _steps_first(np.concatenate(both, axis=-1))
    pulls = np.empty((steps, len(recording.efforts), *adjoint.shape[:-1], adjoint.shape[-1] // 2))
    for k in reversed(range(steps)):
        adjoint, efforts = recording.back(k, adjoint)
        for i, w in enumerate(efforts):
            pulls[k, i] = w
        if source is not None:
            adjoint = adjoint + source[k]
    return adjoint, pulls


def _pulled_parameters(transposed: Program, places: list[Effort], pulls: Array) -> Array:
    """Y* w, then vdot w for the rotors, (..., 10 n + nv), for all weights of efforts, summed.

    A projection moves along x without rates, and gravity has no part in it: Y of ℳ x alone.
    """
    out: Any = 0.0
    for place, w in zip(places, np.moveaxis(pulls, 1, 0), strict=True):
        inertial = transposed(place.q, place.v, place.vdot, w)
        if not place.is_stage:
            inertial = inertial - transposed(place.q, place.v, np.zeros_like(place.vdot), w)
        inertial = inertial.reshape(*w.shape[:-1], -1)
        out = out + np.concatenate([inertial, place.vdot * w], axis=-1).sum(0)
    return out
