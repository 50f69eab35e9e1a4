"""Gradients of a cost over a whole motion, by the adjoint of its run with checkpoints.

The run is one of graphs without laws, and its adjoint that of a `Simulator` (run_gradient.py).
Where that is not possible, A and B of every step (step_derivatives.py) take its place.

Reasons: docs/decisions/0021 and 0073.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms import System
from phipsi.core.backends import Program, has_machine_code, real_array
from phipsi.core.compiler import compile
from phipsi.core.model import Model, mechanism_of, supports, tree_of, whole_number
from phipsi.core.operators import Jr
from phipsi.errors import InputError, true_or_false
from phipsi.identification import inertial_parameters, regressor_form
from phipsi.laws import INERTIA, BlockDiagram
from phipsi.simulation.analysis.step_derivatives import (
    PRESCRIBED,
    checked_differentiable,
    held_mask,
    linear_step_of_stages,
)
from phipsi.simulation.integrators.motion import Motion
from phipsi.simulation.integrators.stage_loop import Effort
from phipsi.simulation.integrators.step_graph import StepGraph
from phipsi.simulation.integrators.tableaux import METHODS
from phipsi.simulation.runs.checks import checked_time
from phipsi.simulation.runs.rollout import empty_records, whole_rollout
from phipsi.simulation.runs.rollout_arguments import rollout_arrays
from phipsi.simulation.runs.run_gradient import RunGradient
from phipsi.simulation.runs.user_functions import check_signature
from phipsi.support import shapes_in_line

Array = NDArray[Any]
_BY_Q, _BY_V = "derivative with respect to q", "derivative with respect to v"
Running = Callable[[Array, Array, Array, Array], tuple[Any, Any, Any, Any]]
Final = Callable[[Array, Array], tuple[Any, Any, Any]]

# Numbers kept for the steps between two checkpoints, unless `segment` says otherwise: 400 MB.
_MOST_NUMBERS = 5e7
# Motions with less than this are kept whole: 16 MB.
_FEW_NUMBERS = 2e6


class RolloutGradient(NamedTuple):
    """Cost of a rollout and its gradients, from `rollout_gradient`.

    Parameters
    ----------
    cost : ndarray, shape (...)
        The cost.
    q0 : ndarray, shape (..., nv)
        Gradient with respect to the initial configuration, in the directions of v.
    v0 : ndarray, shape (..., nv)
        Gradient with respect to the initial velocities.
    tau : ndarray, shape (..., steps, nv) or (..., nv)
        Gradient with respect to tau; (..., nv) if it was constant.
    parameters : ndarray, shape (..., 10 n + nv), or None
        Gradient with respect to the inertial parameters and rotor inertias, in the order of
        ``inertial_parameters(model, armature=True)``; None if not asked for.
    """

    cost: Array
    q0: Array
    v0: Array
    tau: Array
    parameters: Array | None

    def __repr__(self) -> str:
        return shapes_in_line(self)


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
    """Cost of a rollout and its gradient with respect to states, tau and parameters (adjoint).

    The adjoint of the integrator: λ_k = A_k* λ_{k+1} + ∂l_k, and the gradient by tau_k is
    B_k* λ_{k+1} + ∂l_k, with A_k, B_k the exact derivatives of the computed steps
    (`step_derivatives`), as vector–Jacobian products in machine code. States are kept at intervals
    only; those in between are computed again (checkpointing), so memory grows with √steps. Motions
    of a `System` keep its constraints, and the gradient goes through their projection; for changes
    of q0 and v0 that break the constraints it is the gradient of the projected changes. Where
    constraint rows are nearly dependent, and for `parameters` of flexible bodies, A_k and B_k
    themselves are used, with NumPy.

    Parameters
    ----------
    model : Model
        A tree, or a `System`.
    q0, v0, tau : array_like
        Initial states, and joint torques and forces, as for `rollout`.
    dt : float
        Time step, s.
    steps : int
        Number of steps.
    running : callable, optional
        ``running(k, q, v, tau)`` is called with several steps at once: k (m,) their numbers, q
        (..., m, nq), v and tau (..., m, nv) at their beginnings. It returns costs (..., m), which
        are summed, and derivatives with respect to q, v and tau, (..., m, nv) each. None stands for
        a derivative that is zero.
    final : callable, optional
        ``final(q, v)`` returns the cost (...) of the last state and its derivatives (..., nv) with
        respect to q, in the directions of v, and v.
    integrator : str, optional
        As for `rollout`.
    parameters : bool, optional
        Whether to compute the gradient with respect to inertial parameters and rotor inertias.
    segment : int, optional
        Number of steps between two kept states.
    threads : int, optional
        Number of threads that share the batch.
    prescribed : sequence of str or array_like, optional
        Joints of a tree with prescribed accelerations, as for `rollout`: there, gradients by `tau`
        are with respect to the accelerations.
    per_step : bool, optional
        Whether `tau` has an axis of steps, as for `rollout`.

    Returns
    -------
    RolloutGradient
        The cost and its gradients.

    Notes
    -----
    **Cost:** O(N) per step, four to six rollouts, twice as much with `parameters`; with A and B
    O(nv³ + rows³) per step (`step_derivatives`).
    **Source:** theory/sensitivities 5 and 8; Griewank and Walther 2008, ch. 12 (checkpointing).

    Examples
    --------
    >>> import numpy as np
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(2)
    >>> def swing(q, v):                            # how far the last state is from upright
    ...     error = q - np.array([np.pi / 2, 0.0])
    ...     return 0.5 * (error**2).sum(-1), error, None
    >>> tau = np.zeros((50, 2))
    >>> gradient = pp.rollout_gradient(arm, [0, 0.1], [0, 0], tau, 0.01, 50, final=swing)
    >>> gradient.tau.shape
    (50, 2)
    >>> bool(gradient.tau[0, 0] < 0)                   # pushing up brings it closer
    True
    """
    model, tree = mechanism_of(model, rollout_gradient), tree_of(model, rollout_gradient)
    if running is None and final is None:
        raise InputError(
            "a cost is missing. Pass final=… for the last state, or running=… for every step"
        )
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
    free = held_mask(model, prescribed, rollout_gradient)
    dt = checked_time(dt, "dt")
    length = _segment(segment, steps, math.prod(batch), tree.nv, integrator)
    empty_records(tree, batch, steps, length, "a shorter motion")  # is there memory for them?
    if isinstance(model, System) and not model.n_rows:
        model = tree
    motion = _CostedMotion(
        model, tree, integrator, free, (start_q, start_v, effort), batch, dt, steps,
        whole_number("threads", threads),
    )  # fmt: skip
    costs = _Costs(running, final, motion)
    found = motion.gradient_of_run(costs, parameters, segment)
    if found is None:
        costs = _Costs(running, final, motion)
        found = motion.gradient_of_steps(costs, parameters, length)
    by_tau = found[2] + costs.by_tau
    by_tau = by_tau if motion.varying else by_tau.sum(-2)
    return RolloutGradient(costs.cost, found[0], found[1], by_tau, found[3])


Gradients = tuple[Array, Array, Array, Array | None]
"""By q0 and v0 (..., nv), by the efforts (..., steps, nv) of the motion alone, by parameters."""


@final
class _Costs:
    """What users' functions charge for a motion.

    **Attributes:** `cost` (...) so far; `by_tau` (..., steps, nv), its derivative by efforts.
    """

    def __init__(self, running: Running | None, final: Final | None, motion: _CostedMotion) -> None:
        self._running, self._final, self._motion = running, final, motion
        self.cost = np.zeros(motion.batch)
        self.by_tau = np.zeros((*motion.batch, motion.steps, motion.tree.nv))

    def weights(self, q: Array, v: Array, start: int, stop: int) -> tuple[Array, Array]:
        """Derivatives (..., m + 1, nv) by states (..., m + 1, nq), (..., m + 1, nv).

        Those are the states from step `start` to the one after step `stop` − 1, which is charged
        for if it is the last one of the motion.
        """
        by_q, by_v = (np.zeros(v.shape) for _ in range(2))
        if stop == self._motion.steps:
            cost, adjoint = _ended(self._final, q[..., -1, :], v[..., -1, :])
            self.cost = self.cost + cost
            by_q[..., -1, :], by_v[..., -1, :] = np.split(adjoint, 2, axis=-1)
        if self._running is not None and stop > start:
            tau = self._motion.efforts(start, stop)
            numbers = np.arange(start, stop)
            cost, sources = _running_cost(
                self._running, numbers, q[..., :-1, :], v[..., :-1, :], tau
            )
            self.cost = self.cost + cost
            outs = by_q[..., :-1, :], by_v[..., :-1, :], self.by_tau[..., start:stop, :]
            for out, source in zip(outs, sources, strict=True):
                if source is not None:
                    out[...] = source
        return by_q, by_v


@final
class _CostedMotion:
    """A motion whose cost is differentiated, and the two ways to do that.

    In machine code, by the adjoint of its run. Where there is none, or where it meets rows of
    constraints that are nearly dependent, by the derivatives A and B of every step, which decide
    ranks by singular values.
    """

    def __init__(
        self,
        mechanism: Model | System,
        tree: Model,
        integrator: str,
        free: Array | None,
        arrays: tuple[Array, Array, Array],
        batch: tuple[int, ...],
        dt: float,
        steps: int,
        threads: int,
    ) -> None:
        self._mechanism, self.tree, self._integrator = mechanism, tree, integrator
        self._free, self.batch, self._dt, self.steps = free, batch, dt, steps
        self._q, self._v, self._tau = arrays
        self._threads, self.varying = threads, arrays[2].ndim == len(batch) + 2
        self._count = math.prod(batch)

    def efforts(self, first: int, last: int) -> Array:
        """Efforts (..., last − first, nv) of steps."""
        if self.varying:
            return self._tau[..., first:last, :]
        shape = (*self.batch, last - first, self.tree.nv)
        return np.broadcast_to(self._tau[..., None, :], shape)

    def _states(self, q: Array, v: Array, first: int, last: int, every: int) -> Any:
        """The states of the motion from one state on."""
        held = None if self._free is None else self._free == 0
        return whole_rollout(
            self._mechanism, q, v, self.efforts(first, last), self._dt, last - first,
            record_every=every,
            per_step=True, integrator=self._integrator, threads=self._threads, prescribed=held,
        )  # fmt: skip

    # ---- by the adjoint of the run

    def gradient_of_run(
        self, costs: _Costs, parameters: bool, segment: int | None
    ) -> Gradients | None:
        """In machine code; None where that is not possible."""
        count, batch, nv = self._count, self.batch, self.tree.nv
        if not (count and nv and self.steps and has_machine_code()):
            return None
        if parameters and self.tree.has_more_rows:  # their inertias cannot be given to a run
            return None
        q, v, tau = (
            np.array(x.reshape(count, *x.shape[len(batch) :]), order="C")
            for x in (self._q, self._v, self._tau)
        )
        if isinstance(self._mechanism, System):
            Motion(self._mechanism).check_start(q, v)
        try:
            run = self._run_gradient(parameters)
        except InputError:  # constraints without machine code
            return None
        arrays = {"q": q, "v": v, "t": np.zeros((count, 1))}
        if self._free is not None:
            arrays["free"] = np.tile(self._free, (count, 1))
        if parameters:
            arrays |= {n: np.tile(x.reshape(1, -1), (count, 1)) for n, x in self._own().items()}

        def weigh(seen: Mapping[str, Array], start: int, stop: int) -> dict[str, Array]:
            q, v = (seen[n].reshape(*batch, stop - start + 1, -1) for n in ("q", "v"))
            by_q, by_v = costs.weights(q, v, start, stop)
            return {n: x.reshape(count, -1, nv) for n, x in (("q", by_q), ("v", by_v))}

        found, forward = run.gradient(
            self._dt, self.steps, 0, arrays, tau, weigh, segment, self._threads
        )
        if forward.status.any():  # another way says why, or finds the motion
            return None
        by_q, by_v = (found.states[n].reshape(*batch, nv) for n in ("q", "v"))
        by_tau = found.tau
        if not self.varying:  # the sum of all steps: as the only step
            by_tau = np.concatenate(
                [by_tau[:, None], np.zeros((count, self.steps - 1, nv))], axis=1
            )
        by_parameters = self._by_parameters(found.parameters) if parameters else None
        return by_q, by_v, by_tau.reshape(*batch, self.steps, nv), by_parameters

    def _own(self) -> dict[str, Array]:
        """Inertial parameters (n, 10) and the inertias of rotors (n, r, r), by name."""
        inertias = inertial_parameters(self.tree).reshape(self.tree.n_bodies, 10)
        return {INERTIA: inertias, "Jr": compile(Jr, self.tree, mode="blocks")()}

    def _run_gradient(self, parameters: bool) -> RunGradient:
        prescribed = self._free is not None

        def build() -> RunGradient:
            given = (INERTIA, "Jr") if parameters else ()
            graph = StepGraph(self._mechanism, BlockDiagram({}), given, prescribed=prescribed)
            records = {"q": graph.start.q, "v": graph.start.v}
            own = graph.parameters
            if prescribed:
                own["free"] = (self.tree.nv,)
            parts = graph, METHODS[self._integrator], records, own, tuple(own), given
            return RunGradient(*parts, along_rates=True)

        key = rollout_gradient, self._integrator, prescribed, parameters
        return self._mechanism.cached(key, build)

    def _by_parameters(self, found: Mapping[str, Array]) -> Array:
        """In the order of `inertial_parameters`, from those by all blocks."""
        rotors = [
            found["Jr"][:, k, i, i]
            for k, at in enumerate(self.tree.v_slices)
            for i in range(at.stop - at.start)
        ]
        both = [found[INERTIA].reshape(self._count, -1), np.stack(rotors, axis=-1)]
        return np.concatenate(both, axis=-1).reshape(*self.batch, -1)

    # ---- by the derivatives of steps

    def gradient_of_steps(self, costs: _Costs, parameters: bool, length: int) -> Gradients:
        """λ = A* λ⁺ + ∂l, and B* λ⁺ by the efforts of every stage, with `length` steps kept."""
        batch, nv, steps, tree = self.batch, self.tree.nv, self.steps, self.tree
        bends = METHODS[self._integrator].elastic_implicit
        motion = Motion(self._mechanism, self._free, ahead=self._dt if bends else None)
        firsts = range(0, steps, length)
        kept = [(self._q, self._v)]
        for first in firsts[:-1]:
            q, v = self._states(*kept[-1], first, first + length, length)
            kept.append((q[..., -1, :], v[..., -1, :]))
        by_tau = np.zeros((*batch, steps, nv))
        sums = np.zeros((*batch, 10 * tree.n_bodies + nv)) if parameters else None
        transposed = compile(regressor_form(tree.has_more_rows).T, tree) if parameters else None
        adjoint = np.zeros((*batch, 2 * nv))
        for first in reversed(firsts or range(1)):
            last = min(first + length, steps)
            q, v = self._states(*kept.pop(), first, last, 1)
            source = np.concatenate(costs.weights(q, v, first, last), axis=-1)
            if last == steps:
                adjoint = source[..., -1, :]
            if last == first or not by_tau.size:
                continue
            states = q[..., :-1, :], v[..., :-1, :], self.efforts(first, last)
            rows = [np.moveaxis(x, -2, 0).reshape(-1, x.shape[-1]) for x in states]
            change, places = linear_step_of_stages(motion, *rows, self._dt, self._integrator)
            change = change.reshape(last - first, *batch, *change.shape[1:])
            pulls = np.empty((*change.shape[:-2], change.shape[-1] - 2 * nv))
            for k in reversed(range(last - first)):
                pulled = (adjoint[..., None, :] @ change[k])[..., 0, :]
                adjoint = pulled[..., : 2 * nv] + source[..., k, :]
                pulls[k] = pulled[..., 2 * nv :]
            split = np.split(pulls, len(places), axis=-1)
            for w, place in zip(split, places, strict=True):
                if place.is_stage:
                    by_tau[..., first:last, :] += np.moveaxis(w, 0, -2)
            if sums is not None and transposed is not None:
                own = split if self._free is None else [self._free * w for w in split]
                sums -= _pulled_parameters(transposed, places, own)
        return adjoint[..., :nv], adjoint[..., nv:], by_tau, sums


def _segment(segment: int | None, steps: int, count: int, nv: int, integrator: str) -> int:
    """Steps between two kept states, where the derivatives of all steps between are in memory."""
    if segment is not None:
        return whole_number("segment", segment)
    tableau = METHODS[integrator].tableau
    stages = 1 if tableau is None else len(tableau.b)
    one = max(1, count) * (stages * (20 * nv**2 + 8 * nv) + 1)
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
        raise InputError(
            "final(q, v) must return a cost and two derivatives, with respect to q and v"
        )
    value, by_q, by_v = found
    for at, name, given in ((0, _BY_Q, by_q), (nv, _BY_V, by_v)):
        if given is not None:
            adjoint[..., at : at + nv] = _shaped("final", name, given, v.shape)
    return cost + _shaped("final", "cost", value, batch), adjoint


def _running_cost(
    running: Running | None, numbers: Array, q: Array, v: Array, tau: Array
) -> tuple[Any, list[Array | None]]:
    """Cost of some steps, and its derivatives."""
    if running is None:
        return 0.0, [None, None, None]
    found = running(numbers, q, v, tau)
    names = (_BY_Q, _BY_V, "derivative with respect to tau")
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
        if what == _BY_Q and array.shape[:-1] == shape[:-1]:
            hint = (
                ". Derivatives with respect to q are in the directions of v (nv of them), not "
                "those of the components of quaternions"
            )
        raise InputError(
            f"the {what} that {function}(…) returns has shape {array.shape}, but must have {shape}"
            f"{hint}"
        ) from None


def _pulled_parameters(transposed: Program, places: list[Effort], pulls: list[Array]) -> Array:
    """Y* w, then vdot w for the rotors, (..., 10 n + nv), for all weights of efforts, summed.

    A projection moves along x without rates, and gravity has no part in it: Y of ℳ x alone.
    """
    out: Any = 0.0
    for place, w in zip(places, pulls, strict=True):
        q, v, vdot = (x.reshape(*w.shape[:-1], x.shape[-1]) for x in place[:3])
        inertial = transposed(q, v, vdot, w)
        if not place.is_stage:
            inertial = inertial - transposed(q, v, np.zeros_like(vdot), w)
        inertial = inertial.reshape(*w.shape[:-1], -1)
        out = out + np.concatenate([inertial, vdot * w], axis=-1).sum(0)
    return out
