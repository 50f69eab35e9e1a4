"""rollout: many trajectories at once, with the whole loop over steps in machine code."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi import contact as contacts
from phipsi.algorithms import System, free_mask
from phipsi.core.backends import (
    BLOCK,
    CONTRADICTION,
    DOUBTFUL,
    HINGE,
    NO_MEMORY,
    NOT_FINITE,
    SMALL,
    has_machine_code,
    joint_at,
)
from phipsi.core.model import Model, bent_too_far, mechanism_of, supports, tree_of, whole_number
from phipsi.errors import (
    InputError,
    PhipsiError,
    SimulationError,
    answered,
    one_of,
    true_or_false,
    warn,
)
from phipsi.laws import BlockDiagram
from phipsi.simulation.integrators.fixed_point import UNSOLVED
from phipsi.simulation.integrators.graph_steps import step_of
from phipsi.simulation.integrators.motion import Motion
from phipsi.simulation.integrators.stage_loop import StageValues, take_step
from phipsi.simulation.integrators.step_graph import StepGraph
from phipsi.simulation.integrators.tableaux import COMPILED, METHODS, Method
from phipsi.simulation.runs.checks import check_room, checked_time, reject_unfit
from phipsi.simulation.runs.rollout_arguments import BY_STEPS, rollout_arrays

Array = NDArray[Any]


@supports(loops=True, flexible=True, rotors=True, prescribed=True)
@answered("rollout", BY_STEPS, InputError)
def rollout(
    model: Model | System,
    q0: ArrayLike,
    v0: ArrayLike,
    tau: ArrayLike,
    dt: float,
    steps: int,
    *,
    record_every: int = 1,
    integrator: str = "rk4",
    threads: int = 1,
    prescribed: Sequence[str] | ArrayLike | None = None,
    per_step: bool | None = None,
    reproducible: bool = False,
) -> tuple[Array, Array]:
    """Simulate many initial states with fixed steps, under given joint torques and forces.

    Each step is vdot = ℳ⁻¹ (tau − H φ [M φ* (a + gravity) + b]) and the integrator's formula on the
    group, in machine code with trajectories side by side in SIMD lanes. A trajectory is bitwise
    identical in whatever batch and number of threads it is computed. Motions of a `System` keep its
    constraints, of every kind: the steps are those of `simulate` with stabilization="project".
    Where constraint rows are nearly dependent, in or near a singular configuration, a trajectory is
    stepped in NumPy until the next record, which takes about 60 times as long (and may differ in
    the last digits in another batch); so are `prescribed` joints of a system.

    Parameters
    ----------
    model : Model
        A tree, or a `System`.
    q0 : array_like, shape (..., nq)
        Initial configurations.
    v0 : array_like, shape (..., nv)
        Initial generalized velocities; `q0` and `v0` broadcast.
    tau : array_like, shape (..., nv) or (..., steps, nv)
        Joint torques and forces, N·m or N: constant, or for every step, held during the step.
    dt : float
        Time step, s.
    steps : int
        Number of steps.
    record_every : int, optional
        Steps between records.
    integrator : str, optional
        "rk4" (order 4, the default); "semi_implicit" (order 1, a quarter of the cost, drifts in
        energy and momentum); "linearly_implicit" (the same with elastic forces at the end of the
        step); "variational" (order 2, implicit: symplectic, keeps momenta to rounding; trees
        without prescribed joints).
    threads : int, optional
        Number of threads that share the batch.
    prescribed : sequence of str or array_like, optional
        Names of joints whose accelerations are given instead of torques and forces, or booleans
        (..., nv): there `tau` holds the accelerations (hybrid dynamics).
    per_step : bool, optional
        Whether `tau` has an axis of steps. By default the axes decide: one more than q0 and v0 have
        is that of the steps, and what fits only one way is taken so. Where the lengths allow both,
        such as q0 (N, nq) and tau (N, nv) with steps = N, it is required.
    reproducible : bool, optional
        Whether steps use no fused multiply-add and none of NumPy's matrices: then they are bitwise
        identical to those of ``Simulator(…, reproducible=True)`` on every processor, and a
        trajectory of a system that comes near a singular configuration stops with an error.

    Returns
    -------
    q : ndarray, shape (..., steps // record_every + 1, nq)
        Configurations; the first record is the initial state.
    v : ndarray, shape (..., steps // record_every + 1, nv)
        Generalized velocities.

    Raises
    ------
    SimulationError
        It names the trajectory and the step if one diverges, a joint has nothing to move, loops
        cannot be closed again, or the equation of a variational step is not solved; everything
        computed is in its `trajectory` as ``(q, v)``.

    Notes
    -----
    Ctrl-C ends it within a second, with a warning: q and v then have the records so far.

    **Cost:** O(N) per step and trajectory: one, four or about ten evaluations of the dynamics for
    "semi_implicit", "rk4" and "variational"; of a system O(N + rows · depth + rows³) each, and two
    or three for the projection.

    Examples
    --------
    >>> import numpy as np
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(2)
    >>> q0, none = np.zeros((1000, 2)), np.zeros(2)
    >>> q, v = pp.rollout(arm, q0, none, none, 1e-3, 50, record_every=10)
    >>> q.shape, v.shape
    ((1000, 6, 2), (1000, 6, 2))
    """
    try:
        return whole_rollout(
            model, q0, v0, tau, dt, steps, record_every=record_every, integrator=integrator,
            threads=threads,
            prescribed=prescribed, per_step=per_step, reproducible=reproducible,
        )  # fmt: skip
    except Interrupted as stop:
        warn(f"interrupted after {stop.steps} of {steps} steps; the records end there.")
        return stop.records


@final
class Interrupted(KeyboardInterrupt):
    """Ctrl-C in a run.

    **Attributes:** `steps` that all trajectories have taken; `status` and `failed_at` (n,) of a run
    in machine code; `records` so far.
    """

    def __init__(self, steps: int, status: Any = None, failed_at: Any = None) -> None:
        super().__init__()
        self.steps, self.status, self.failed_at = steps, status, failed_at
        self.records: Any = None


def whole_rollout(
    model: Model | System,
    q0: ArrayLike,
    v0: ArrayLike,
    tau: ArrayLike,
    dt: float,
    steps: int,
    *,
    record_every: int = 1,
    integrator: str = "rk4",
    threads: int = 1,
    prescribed: Sequence[str] | ArrayLike | None = None,
    per_step: bool | None = None,
    reproducible: bool = False,
) -> tuple[Array, Array]:
    """The same, for functions that need all of it: Ctrl-C is the exception `Interrupted`."""
    model, tree = mechanism_of(model, rollout), tree_of(model, rollout)
    method = _method(integrator)
    rows = model.n_rows if isinstance(model, System) else 0
    reject_unfit(method, rows=rows, prescribed=prescribed is not None)
    if not rows:
        model = tree
    dt = checked_time(dt, "dt")
    steps, every = whole_number("steps", steps, 0), whole_number("record_every", record_every)
    threads = whole_number("threads", threads)
    reproducible = _checked_reproducible(
        reproducible, system=bool(rows), prescribed=prescribed is not None
    )
    check_room(8 * (2 * tree.nq + 3 * tree.nv), (q0, 1), (v0, 1))
    start_q, start_v, effort, batch = rollout_arrays(tree, q0, v0, tau, steps, per_step)
    records = empty_records(tree, batch, steps, every)
    mask = np.ones(model.nv) if prescribed is None else free_mask(tree, prescribed)
    if isinstance(model, System) or (not has_machine_code() and method.name != "variational"):
        ahead = dt if method.elastic_implicit else None
        motion = Motion(model, None if prescribed is None else mask, ahead=ahead)
        run = _SystemRun(model, motion, method, batch, records, effort, dt, steps, every)
        run.all(start_q, start_v, threads, reproducible)
        return records
    try:
        free = np.broadcast_to(mask, (*batch, model.nv))
    except ValueError:
        raise InputError(
            f"prescribed has shape {mask.shape}, which does not broadcast to the batch {batch}"
        ) from None
    out_q, out_v = records
    kept = out_q.shape[-2]
    if model.nv == 0 or 0 in batch:
        out_q[...], out_v[...] = start_q[..., None, :], start_v[..., None, :]
        return out_q, out_v
    count = int(np.prod(batch, dtype=int))
    flat = [np.array(a.reshape(count, *a.shape[len(batch) :]), dtype=np.float64, order="C")
            for a in (start_q, start_v, effort, free)]  # fmt: skip
    outs = [out_q.reshape(count, kept, model.nq), out_v.reshape(count, kept, model.nv)]
    plan = _plan(model, method, prescribed is not None, reproducible)
    try:
        status, failed_at = _run(plan, flat, outs, (steps, every), dt, threads)
    except Interrupted as stop:
        stop.records = _until((out_q, out_v), stop.steps // every)
        if stop.status.any():
            about = stop.status, stop.failed_at, dt, stop.records
            raise failure(model, batch, *about) from stop
        raise
    if status.any():
        raise failure(model, batch, status, failed_at, dt, (out_q, out_v))
    return out_q, out_v


def _until(records: tuple[Array, Array], last: int) -> tuple[Array, Array]:
    """The records up to the one with this number."""
    q, v = (x[..., : last + 1, :] for x in records)
    return q, v


def _plan(
    mechanism: Model, method: Method, prescribed: bool = False, reproducible: bool = False
) -> Any:
    """The run of a mechanism without laws, as graphs."""

    def build() -> Any:
        from phipsi.simulation.runs.run_program import RunProgram

        graph = StepGraph(mechanism, BlockDiagram({}), prescribed=prescribed)
        end, own = step_of(graph, method), {"free": mechanism.nv} if prescribed else {}
        states, records = ({"q": x.q, "v": x.v} for x in (end, graph.start))
        parts = graph.native, states, {"tau": mechanism.nv}, own, {}, (), records
        return RunProgram(*parts, reproducible=reproducible)

    return mechanism.cached((rollout, method.name, prescribed, reproducible), build)


def _run(
    plan: Any,
    arrays: Sequence[Array],
    outs: Sequence[Array],
    counts: tuple[int, int],
    dt: float,
    threads: int,
) -> tuple[Array, Array]:
    """Status and last step (n,) of trajectories from q (n, nq), v, tau and free (n, nv).

    States are advanced in place; records go to `outs`. Ctrl-C ends it within a second.
    """
    from phipsi.simulation.runs.run_memory import RunMemory

    q, v, tau, free = arrays
    if not counts[0]:
        tau = np.zeros_like(v)  # no step reads it
    memory = RunMemory(plan, {"q": q, "v": v, "free": free}, len(q), threads)
    for name, out in zip(plan.records, outs, strict=True):
        memory.place(f"record {name}", out)
    try:
        memory.run_in_pieces(dt, counts[0], 0, counts[1], records=True, tau=tau)
    except KeyboardInterrupt:
        raise Interrupted(memory.next_number, memory.status, memory.failed_at) from None
    return memory.status, memory.failed_at


@final
class _SystemRun:
    """Motions of a system, from record to record, into (n, kept, nq) and (n, kept, nv).

    Machine code takes all steps that it can. A motion that stops there, such as one whose rows are
    nearly dependent, is stepped by `projected_step` from its last record to the next one, which
    decides the rank by singular values or says what is wrong; then machine code goes on. Singular
    values have other last digits elsewhere, so motions that are `reproducible` end there.
    """

    def __init__(
        self,
        mechanism: Model,
        motion: Motion,
        method: Method,
        batch: tuple[int, ...],
        records: tuple[Array, Array],
        efforts: Array,
        dt: float,
        steps: int,
        every: int,
    ) -> None:
        self._mechanism, self._motion, self._method = mechanism, motion, method
        self._batch, self._records = batch, records
        count, self._kept = math.prod(batch), steps // every + 1
        self._q, self._v = (x.reshape(count, self._kept, x.shape[-1]) for x in records)
        self._efforts = efforts.reshape(count, *efforts.shape[len(batch) :])
        self._dt, self._steps, self._every = dt, steps, every

    def all(self, q0: Array, v0: Array, threads: int, reproducible: bool) -> None:
        """Run from states (..., nq), (..., nv)."""
        q, v = self._q, self._v
        q[:, 0], v[:, 0] = q0.reshape(q[:, 0].shape), v0.reshape(v[:, 0].shape)
        if not (len(q) and self._steps):
            return
        self._motion.check_start(q[:, 0], v[:, 0])
        plan = self._plan(reproducible)
        # the record after which each motion stopped in machine code; those that are ready go on
        ready, record, stopped = np.arange(len(q)), 0, np.zeros(len(q), dtype=np.int64)
        try:
            while True:
                stopped[ready] = record
                if plan is not None and record * self._every < self._steps:
                    stopped[ready] = self._by_code(plan, ready, record, threads, reproducible)
                record = int(stopped.min())
                if record * self._every >= self._steps:
                    return
                ready = np.flatnonzero(stopped == record)
                ends = self._by_projection(ready, record)
                record += 1
                if record == self._kept:  # these were the steps after the last record
                    return
                q[ready, record], v[ready, record] = ends
        except KeyboardInterrupt as stop:
            if isinstance(stop, Interrupted):
                stopped[ready] = stop.steps // self._every
            last = min(int(stopped.min()), self._kept - 1)
            out = Interrupted(last * self._every)
            out.records = _until(self._records, last)
            raise out from None

    def _plan(self, reproducible: bool) -> Any:
        """That of machine code; None if there is none for such a system, unless there must be."""
        if self._motion.moving is not None:
            return None
        with contextlib.nullcontext() if reproducible else contextlib.suppress(InputError):
            return _plan(self._mechanism, self._method, False, reproducible)
        return None

    def _by_code(
        self, plan: Any, ready: Array, record: int, threads: int, reproducible: bool
    ) -> Array:
        """Run some motions on from a record; the record after which each of them stopped."""
        first, out = record * self._every, (self._q, self._v)
        state = [np.array(x[ready, record], order="C") for x in out]
        own, outs = self._efforts, [*out]  # of all of them
        if record:
            own = own[ready, first:] if own.ndim == 3 else own[ready]
            outs = [np.empty((len(ready), self._kept - record, x.shape[-1])) for x in out]
        arrays = [*state, np.array(own, order="C"), state[1]]
        counts = self._steps - first, self._every
        try:
            status, failed_at = _run(plan, arrays, outs, counts, self._dt, threads)
        except Interrupted as stop:
            done = np.where(stop.status == 0, stop.steps, stop.failed_at)
            if record:
                self._q[ready, record:], self._v[ready, record:] = outs
            raise Interrupted(first + int(done.min())) from None
        if reproducible and status.any():
            about = self._batch, status, failed_at, self._dt, self._records
            raise failure(self._motion.mechanism, *about)
        if record:
            self._q[ready, record:], self._v[ready, record:] = outs
        return np.where(status == 0, self._kept, record + failed_at // self._every)

    def _by_projection(self, ready: Array, record: int) -> tuple[Array, Array]:
        """States of some motions at the next record, or at the end if there is none."""
        q, v, first = self._q[ready, record], self._v[ready, record], record * self._every
        for k in range(first, min(first + self._every, self._steps)):
            own = self._efforts[ready, k] if self._efforts.ndim == 3 else self._efforts[ready]
            step = self._motion, self._method, q, v, own, self._dt
            try:
                q, v = projected_step(*step)
            except PhipsiError as error:
                which, reason = _first_failure(error, *step)
                where = _named(self._batch, int(ready[which]))
                text = f"{where} failed in step {k} (t = {k * self._dt:.6g} s): {reason}"
                found = self._q[:, : record + 1], self._v[:, : record + 1]
                raise SimulationError(text, found) from reason
        return q, v


def _first_failure(
    error: PhipsiError, motion: Motion, method: Method, q: Array, v: Array, tau: Array, dt: float
) -> tuple[int, PhipsiError]:
    """The first of some motions that cannot take a step together, and why."""
    for i in range(len(q)):
        one = slice(i, i + 1)
        try:
            projected_step(motion, method, q[one], v[one], tau[one], dt)
        except PhipsiError as reason:
            return i, reason
    return 0, error


def projected_step(
    motion: Motion, method: Method, q: Array, v: Array, tau: Array, dt: float
) -> tuple[Array, Array]:
    """States (n, nq), (n, nv) after a step and its projection."""
    chart = motion.chart

    def slope(_: int, y: Array) -> Array:
        z, rates = y[:, : chart.nv], y[:, chart.nv :]
        vdot = motion.accelerations(chart.point(q, z), rates, tau)
        return np.concatenate([chart.rate(z, rates), vdot], axis=-1)

    end = motion.project(*take_step(method, StageValues(chart, q, v, slope), dt)[:2])
    return end.q, end.v


# ---- checks -----------------------------------------------------------------------------------


def _checked_reproducible(given: bool, *, system: bool, prescribed: bool) -> bool:
    reproducible = true_or_false("reproducible", given)
    if reproducible and not has_machine_code():
        raise InputError(
            "reproducible=True needs machine code, and llvmlite is not installed:  pip install "
            "llvmlite"
        )
    if reproducible and system and prescribed:
        raise InputError(
            "prescribed joints of a system with constraints are stepped with NumPy, whose last "
            "digits depend on the machine. Remove reproducible=True, or prescribe joints of a "
            "tree"
        )
    return reproducible


def _method(name: Any) -> Method:
    there = isinstance(name, str) and name in METHODS
    if there and name in COMPILED:
        return METHODS[name]
    call = f"pp.simulate(model, q0, v0, duration, integrator={name!r})"
    hint = f"For one trajectory:  {call}" if there else ""
    return METHODS[one_of("rollout: integrator", name, COMPILED, hint)]


def empty_records(
    model: Model,
    batch: tuple[int, ...],
    steps: int,
    every: int,
    advice: str = "fewer records, record_every=…, or parts that begin where the last one ended",
) -> tuple[Array, Array]:
    """Memory for the recorded states, or an error that says how much it would be."""
    kept = steps // every + 1
    size = 8 * math.prod(batch) * kept * (model.nq + model.nv)
    try:
        if size >= 2**63:
            raise MemoryError
        return np.empty((*batch, kept, model.nq)), np.empty((*batch, kept, model.nv))
    except MemoryError:
        raise InputError(
            f"steps={steps}: every {every} steps the states of {math.prod(batch)} trajectories "
            f"are kept, which need {float(size):.2g} bytes, more than the available memory. Use "
            f"{advice}"
        ) from None


UNDRIVEN, SINGULAR_TASK, OPEN_PATH, UNHELD = (BLOCK + (kind << 32) for kind in (1, 2, 3, 7))
"""Status of controllers in runs. To the first two 8 (number + 1) is added: the number of a rate
that moves without a drive, or of the body whose frame cannot follow its task."""

_REASONS = {
    BLOCK: "a block of an operator that a law reads is singular, and has no inverse",
    SMALL: "a matrix of points or constraint rows that a law reads is singular, and has no inverse",
    NOT_FINITE: (
        "the accelerations are no longer finite. A smaller dt often helps: stiff forces and "
        "fast rotations need steps well below their period"
    ),
    NO_MEMORY: (  # the number of UNSOLVED and OPEN in runs
        "the equation of the implicit step was not solved, neither by fixed-point iteration nor "
        "by Newton's method: the step is too long for this motion. Use a smaller dt, or "
        "integrator='implicit_damping', which solves no equation"
    ),
}


def failure(
    model: Model,
    batch: tuple[int, ...],
    status: np.ndarray,
    failed_at: np.ndarray,
    dt: float,
    found: Any,
    contact: Callable[[int], str] | None = None,
    overlap: Callable[[int], str] | None = None,
) -> SimulationError:
    """What went wrong first, in which trajectory and step.

    `contact` describes the contact of a trajectory whose impulses were not found, `overlap` the
    pairs of its last good state that overlap.
    """
    bad = np.flatnonzero(status)
    first = int(bad[np.argmin(failed_at[bad])])
    step, one = int(failed_at[first]), int(status[first])
    body, code = one % 2**32 // 8 - 1, one % 8
    why = (
        _reason_of_control(model, one >> 32, body)
        or contacts.contact_failures.reason_of_contacts(model, one, first, contact, overlap)
        or _reason_of_dynamics(model, one, body, lambda: _bent_at(model, found, first))
        or _REASONS.get(code, _REASONS[NOT_FINITE])
    )
    others = f" ({len(bad)} of {len(status)} trajectories failed)" if len(status) > 1 else ""
    where = _named(batch, first)
    text = f"{where} failed in step {step} (t = {step * dt:.6g} s): {why}.{others}"
    return SimulationError(text, found)


def _reason_of_control(model: Model, kind: int, body: int) -> str:
    """Why a controller has no efforts; empty if it has."""
    if kind == UNDRIVEN >> 32:
        return (
            "the actuators cannot produce the motion that a controller asks for: joint "
            f"{joint_at(model, model.v_slices, body)!r} is not actuated, and no actuator acts "
            "along its motion here. Actuate it too, or keep the path away from such "
            "configurations"
        )
    if kind == SINGULAR_TASK >> 32:
        return (
            f"operational-space control of a frame on body {model.body_names[body]!r} is near a "
            "singularity: joint torques hardly accelerate the frame in some direction of its "
            "task. Pass fewer components= or directions of the task frame, or keep the path away; "
            "with OperationalSpace, pp.simulate(…) damps the task there"
        )
    if kind == OPEN_PATH >> 32:
        return (
            "the loops cannot be closed with the independent joints at the positions of a "
            "controller's reference: they are out of reach"
        )
    if kind == UNHELD >> 32:
        return (
            "the contacts of a grasp cannot give its object the motion of the reference: arms are "
            "singular or have too few joints, or no contact forces carry the load"
        )
    return ""


def _reason_of_dynamics(model: Model, status: int, body: int, bent: Callable[[], str]) -> str:
    """Why there are no accelerations, or no closed loops; empty for other reasons.

    `bent` says which body is bent too far, if one is.
    """
    code = status % 8
    if code == HINGE and (text := bent()):
        return f"joint {model.joint_names[body]!r} seems to have no inertia.\n{text}"
    if code == HINGE:
        return (
            f"joint {model.joint_names[body]!r} has no inertia to move (its articulated inertia "
            "is not positive), so its acceleration is undefined. Give mass to the bodies that "
            "it carries, or armature to the joint"
        )
    if code in (DOUBTFUL, CONTRADICTION) and model.n_rows:
        row = f"row {model.closures.row_names[body]!r}" if body >= 0 else "a row"
        return (
            f"{row} of the constraints nearly depends on the others: the mechanism is in or near "
            "a singular configuration. pp.rollout(system, …) without reproducible=True and "
            "pp.simulate(system, …) handle such cases by singular values"
        )
    if code == NO_MEMORY and status != UNSOLVED and model.n_rows:
        return (
            "the loops cannot be closed again near the state that the step reached: the "
            "mechanism is at the limit of its reach, or the step is too long"
        )
    return ""


def _bent_at(model: Model, found: Sequence[Array], trajectory: int) -> str:
    """What is bent far in the last finite record of a trajectory; "" if nothing is."""
    if not model.is_flexible or not isinstance(found, tuple) or np.ndim(found[0]) < 2:
        return ""
    q = found[0].reshape(-1, *found[0].shape[-2:])[trajectory]
    finite = np.flatnonzero(np.isfinite(q).all(axis=-1) & (np.abs(q) < 1e6).all(axis=-1))
    return bent_too_far(model, q[finite[-1]], far=0.1) if len(finite) else ""


def _named(batch: tuple[int, ...], number: int) -> str:
    """A trajectory of a batch."""
    index = [int(i) for i in np.unravel_index(number, batch)] if batch else []
    return f"trajectory {index}" if index else "the trajectory"
