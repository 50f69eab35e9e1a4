"""rollout: many trajectories at once, with the whole loop over steps in machine code."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms.constrained.system import System
from phipsi.algorithms.dynamics.hybrid import free_mask
from phipsi.backends.arguments import joint_array, joint_at
from phipsi.backends.backend import has_machine_code
from phipsi.backends.failures import (
    BLOCK,
    CONTRADICTION,
    DOUBTFUL,
    HINGE,
    NO_MEMORY,
    NOT_FINITE,
    SMALL,
)
from phipsi.constraints import Motor
from phipsi.contact.contact_rows import GAINS_ENERGY, UNSOLVED_CONTACTS, WEDGED
from phipsi.errors import InputError, PhipsiError, SimulationError, one_of, true_or_false
from phipsi.laws.circuit import Circuit
from phipsi.model.deflections import bent_too_far
from phipsi.model.mechanisms import mechanism_of, of_mechanisms, of_modes, tree_of
from phipsi.model.model import Model
from phipsi.model.numbers import whole_number
from phipsi.motion.checks import (
    check_quaternions,
    check_room,
    checked_time,
    common_batch,
    reject_unfit,
)
from phipsi.motion.exponential_chart import chart_of
from phipsi.motion.graph_steps import step_of
from phipsi.motion.implicit_solver import UNSOLVED
from phipsi.motion.motion import Motion
from phipsi.motion.stage_loop import Values, take_step
from phipsi.motion.step_graph import StepGraph
from phipsi.motion.tableaux import COMPILED, METHODS, Method

Array = NDArray[Any]


@of_modes
@of_mechanisms
def rollout(
    model: Model | System,
    q0: ArrayLike,
    v0: ArrayLike,
    tau: ArrayLike,
    dt: float,
    steps: int,
    *,
    every: int = 1,
    integrator: str = "rk4",
    threads: int = 1,
    prescribed: Sequence[str] | ArrayLike | None = None,
    per_step: bool | None = None,
    reproducible: bool = False,
) -> tuple[Array, Array]:
    """Trajectories of many initial states under given efforts.

    Each step is vdot = ℳ⁻¹ (tau − H φ [M φ* (a + gravity) + b]) and the integrator's formula on the
    group, all in machine code with trajectories side by side in vector lanes; a trajectory has the
    same bits in whatever batch and number of threads it runs. Motions of a `System` keep its
    constraints, of every kind: the steps are those of `simulate` with stabilization="project", in
    machine code too. Where constraint rows are nearly dependent, in or near a singular
    configuration, a trajectory is stepped in NumPy until the next record, which takes about 60
    times as long (and may give other last bits in another batch); so are `prescribed` joints of a
    system.

    **Arguments:** `model`, a model or a `System`; `q0` (..., nq), `v0` (..., nv), which broadcast;
    `tau` constant (..., nv), or for every step (..., steps, nv), held during the step; `dt` in s;
    `steps`, how many; `every`, record every so many steps; `integrator`: "rk4" (order 4);
    "semi_implicit" (order 1, a quarter of the cost, drifts in energy and momentum);
    "linearly_implicit" (the same with elastic forces at the end of the step); "variational"
    (order 2, implicit: symplectic, keeps momenta to rounding; trees without prescribed joints);
    `threads` share the batch; `prescribed`, names of joints whose accelerations are given instead
    of efforts, or booleans (..., nv): there `tau` holds the accelerations (hybrid dynamics);
    `per_step`, whether `tau` has an axis of steps. Without it the axes say so: one more than q0 and
    v0 have is that of the steps, and what fits only one way is taken so; where the lengths allow
    both, such as q0 (N, nq) and tau (N, nv) with steps = N, say which; `reproducible`, whether
    steps use no fused multiply-add and none of NumPy's matrices: then they have the bits of
    ``Simulator(…, reproducible=True)`` on every processor, and a trajectory of a system that comes
    near a singular configuration stops with an error.
    **Returns:** q (..., steps // every + 1, nq) and v (..., steps // every + 1, nv), the
    first records being the initial states.
    **Cost:** O(N) per step and trajectory, one, four or some ten evaluations of the dynamics for
    "semi_implicit", "rk4" and "variational"; of a system O(N + rows · depth + rows³) each, and two
    or three for the projection. **Raises:** `SimulationError` naming the trajectory and the step if
    one diverges, a joint has nothing to move, loops cannot be closed again, or the equation of a
    variational step is not solved; everything computed is in its `trajectory` as ``(q, v)``.

    >>> import numpy as np
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(2)
    >>> q, v = pp.rollout(arm, np.zeros((1000, 2)), np.zeros(2), np.zeros(2), 1e-3, 50, every=10)
    >>> q.shape, v.shape
    ((1000, 6, 2), (1000, 6, 2))
    """
    model, tree = mechanism_of(model, rollout), tree_of(model, rollout)
    method = _method(integrator)
    rows = model.n_rows if isinstance(model, System) else 0
    reject_unfit(method, rows=rows, prescribed=prescribed is not None)
    if not rows:
        model = tree
    dt = checked_time(dt, "dt")
    steps, every = whole_number("steps", steps, 0), whole_number("every", every)
    threads = whole_number("threads", threads)
    reproducible = _checked_reproducible(
        reproducible, system=bool(rows), prescribed=prescribed is not None
    )
    check_room(8 * (2 * tree.nq + 3 * tree.nv), (q0, 1), (v0, 1))
    start_q, start_v, effort, batch = rollout_arrays(tree, q0, v0, tau, steps, per_step)
    records = empty_records(tree, batch, steps, every)
    mask = np.ones(model.nv) if prescribed is None else free_mask(tree, prescribed)
    if isinstance(model, System) or (not has_machine_code() and method.name != "variational"):
        ahead = dt if method.bends else None
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
    status, failed_at = _run(plan, flat, outs, (steps, every), dt, threads)
    if status.any():
        raise failure(model, batch, status, failed_at, dt, (out_q, out_v))
    return out_q, out_v


def _plan(
    mechanism: Model, method: Method, prescribed: bool = False, reproducible: bool = False
) -> Any:
    """The run of a mechanism without laws, as graphs."""

    def build() -> Any:
        from phipsi.motion.run_code import Plan

        graph = StepGraph(mechanism, Circuit({}), prescribed=prescribed)
        end, own = step_of(graph, method), {"free": mechanism.nv} if prescribed else {}
        states, records = ({"q": x.q, "v": x.v} for x in (end, graph.start))
        parts = graph.native, states, {"tau": mechanism.nv}, own, {}, (), records
        return Plan(*parts, reproducible=reproducible)

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

    States are advanced in place; records go to `outs`.
    """
    from phipsi.motion.run_memory import RunMemory

    q, v, tau, free = arrays
    if not counts[0]:
        tau = np.zeros_like(v)  # no step reads it
    memory = RunMemory(plan, {"q": q, "v": v, "free": free}, len(q), threads)
    memory.place("tau", tau, per_step=tau.ndim == 3)
    for name, out in zip(plan.records, outs, strict=True):
        memory.place(f"record {name}", out)
    memory.run(dt, counts[0], 0, counts[1], records=True)
    return memory.status, memory.failed_at


@final
class _SystemRun:
    """Motions of a system, from record to record, into (n, kept, nq) and (n, kept, nv).

    Machine code takes all steps that it can. A motion that stops there, such as one whose rows are
    nearly dependent, is stepped by `projected_step` from its last record to the next one, which
    decides the rank by singular values or says what is wrong; then machine code goes on. Singular
    values have other last bits elsewhere, so motions that are `reproducible` end there.
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
        status, failed_at = _run(plan, arrays, outs, counts, self._dt, threads)
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

    end = motion.project(*take_step(method, Values(chart, q, v, slope), dt)[:2])
    return end.q, end.v


# ---- checks -----------------------------------------------------------------------------------


def _checked_reproducible(given: Any, *, system: bool, prescribed: bool) -> bool:
    reproducible = true_or_false("reproducible", given)
    if reproducible and not has_machine_code():
        raise InputError(
            "reproducible=True is for machine code, which needs llvmlite:  pip install llvmlite"
        )
    if reproducible and system and prescribed:
        raise InputError(
            "prescribed joints of a system with constraints are stepped with NumPy, whose matrices "
            "have other last bits on other machines. Leave out reproducible=True, or prescribe "
            "joints of a tree"
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
    advice: str = "fewer records, every=…, or parts that begin where the last one ended",
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
            f"steps={steps}: every {every} steps the states of {math.prod(batch)} trajectories are "
            f"kept, {float(size):.2g} bytes in all, and there is no memory for them. Ask for "
            f"{advice}"
        ) from None


def rollout_arrays(
    model: Model,
    q0: ArrayLike,
    v0: ArrayLike,
    tau: ArrayLike,
    steps: int,
    per_step: bool | None = None,
) -> tuple[Array, Array, Array, tuple[int, ...]]:
    """The initial states and efforts with their whole batch."""
    q = joint_array(model, "q0", q0, "nq")
    v, effort = (joint_array(model, name, x, "nv") for name, x in (("v0", v0), ("tau", tau)))
    varying = _is_varying(effort, q, v, steps) if per_step is None else _flag(per_step, effort)
    core = 2 if varying else 1
    if varying and effort.shape[-2] != steps:
        raise InputError(
            f"tau has shape {effort.shape}: its last axes must be (steps, nv) = "
            f"({steps}, {model.nv}) for efforts that change from step to step, or (nv,) for "
            "constant ones. For constant ones of a batch that only tau has:  per_step=False"
        )
    batch = common_batch({"q0": (q, 1), "v0": (v, 1), "tau": (effort, core)})
    check_quaternions(chart_of(model), q, "q0")
    q, v = (np.broadcast_to(a, (*batch, a.shape[-1])) for a in (q, v))
    return q, v, np.broadcast_to(effort, (*batch, *effort.shape[-core:])), batch


def per_step_efforts(
    model: Model, tau: ArrayLike | None, batch: tuple[int, ...], steps: int, per_step: bool | None
) -> Array:
    """Efforts (n, nv), or (n, steps, nv) if they change from step to step, for a known batch."""
    if tau is None:
        raise InputError(
            f"per_step={per_step!r} says how tau is laid out, and there is none. Leave it out, or "
            "give the efforts of every step:  tau of shape (..., steps, nv)"
        )
    start = np.zeros((*batch, model.nq)), np.zeros((*batch, model.nv))
    q = np.broadcast_to(model.neutral(), start[0].shape)
    _, _, effort, whole = rollout_arrays(model, q, start[1], tau, steps, per_step)
    if whole != batch:
        raise InputError(f"tau has the batch {whole}, but the state has {batch}")
    core = effort.shape[len(batch) :]
    return np.array(effort.reshape(math.prod(batch), *core), dtype=np.float64, order="C")


def _is_varying(effort: Array, q: Array, v: Array, steps: int) -> bool:
    """Whether the axis before the last of tau is that of the steps; rejects doubtful ones."""
    if effort.ndim > max(q.ndim, v.ndim):
        return True
    if effort.ndim == 1 or effort.shape[-2] != steps or steps == 1:
        return False  # for one step both mean the same
    try:
        np.broadcast_shapes(effort.shape[:-1], q.shape[:-1], v.shape[:-1])
    except ValueError:
        return True
    raise InputError(
        f"tau has shape {effort.shape}, which can mean {steps} steps or a batch of {steps}. Say "
        "which:  per_step=True for efforts that change from step to step, the same in every "
        "trajectory, per_step=False for constant ones, each trajectory its own"
    )


def _flag(per_step: Any, effort: Array) -> bool:
    per_step = true_or_false("per_step", per_step, "True, False or None")
    if per_step and effort.ndim < 2:
        raise InputError(
            f"per_step=True needs tau of shape (..., steps, nv), and it has shape {effort.shape}"
        )
    return per_step


UNDRIVEN, SINGULAR_TASK, OPEN_PATH = (BLOCK + (kind << 32) for kind in (1, 2, 3))
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
        "the equation of the implicit step was not solved by iteration, nor by Newton's method: "
        "the step is too long for this motion. Use a smaller dt, or integrator="
        "'implicit_damping', which solves no equation"
    ),
}


def _motors(model: Any) -> list[Motor]:
    """Those of a system."""
    return [x for x in getattr(model, "constraints", ()) if isinstance(x, Motor)]


def failure(
    model: Model,
    batch: tuple[int, ...],
    status: np.ndarray,
    failed_at: np.ndarray,
    dt: float,
    found: Any,
    contact: Callable[[int], str] | None = None,
) -> SimulationError:
    """What went wrong first, in which trajectory and step.

    `contact` describes the contact of a trajectory whose impulses were not found.
    """
    bad = np.flatnonzero(status)
    first = int(bad[np.argmin(failed_at[bad])])
    step, one = int(failed_at[first]), int(status[first])
    body, code = one % 2**32 // 8 - 1, one % 8
    why = (
        _reason_of_control(model, one >> 32, body)
        or _reason_of_contacts(model, one, lambda: f": {contact(first)}" if contact else "")
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
            f"the drives cannot make the motion that a controller asks for: joint "
            f"{joint_at(model, model.v_slices, body)!r} moves without a drive, and nothing acts "
            "along that motion here. Actuate it too, or keep the path away from such configurations"
        )
    if kind == SINGULAR_TASK >> 32:
        return (
            f"operational-space control of a frame on body {model.body_names[body]!r} is near a "
            "singularity: joint efforts hardly accelerate the frame in some direction of its task. "
            "Ask for fewer components=, or keep the path away; pp.simulate(…) damps the task there"
        )
    if kind == OPEN_PATH >> 32:
        return (
            "the loops cannot be closed with the independent joints where the reference of a "
            "controller has them: the mechanism does not reach so far"
        )
    return ""


def _reason_of_contacts(model: Model, status: int, which: Callable[[], str]) -> str:
    """Why contacts and stops have no impulses; empty if they have. `which` names the contact."""
    if status == WEDGED and _motors(model):
        names = ", ".join(f"{x.name!r} (joint {x.joint!r})" for x in _motors(model))
        return (
            f"a motor and a rigid stop, rope or contact contradict each other: {names} moves on "
            "whatever effort that takes, and the other lets nothing pass. End the motion before "
            "it, or drive the joint with an effort that has a bound, in place of the Motor:\n"
            "    @pp.law\n"
            "    def drive(v, *, rate, most):\n"
            "        return np.clip(100.0 * (rate - v), -most, most)\n"
            f"    drive = drive.on({_motors(model)[0].joint!r}).bind(rate=1.0, most=10.0)\n"
            "    pp.simulate(model, q0, v0, 1.0, forces=forces, controller=drive)\n"
            "    pp.Simulator(model, [*forces, drive], dt, integrator='time_stepping')\n"
            "If nothing drives against a stop, bodies overlap that no joint can move apart: "
            "pp.distances(contacts, q) shows them"
        )
    if status == WEDGED:
        return (
            "bodies overlap that no joint can move apart along the normal of their contact. "
            "pp.distances(contacts, q) shows them; leave out pairs that overlap by design:  "
            "pp.Contacts(model, exclude=[(…, …)])"
        )
    if status == GAINS_ENERGY:
        return (
            "the impulses of contacts add kinetic energy, which rounding alone does not: they are "
            "so large that their errors count, as between bodies that are wedged. "
            "pp.distances(contacts, q) shows pairs that overlap; leave out those that do by "
            "design, pp.Contacts(model, exclude=[(…, …)]), or give them a stiffness="
        )
    if status == UNSOLVED_CONTACTS:
        return (
            f"the impulses of contacts were not found{which()}. A smaller dt, materials with a "
            "stiffness=, or fewer points that carry the same load help; the run with what was "
            "recorded before the failure comes with on_error='mask'"
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
            f"joint {model.joint_names[body]!r} has nothing to move (its articulated inertia is "
            "not positive), so its acceleration is undefined; give the bodies it carries mass or "
            "the joint armature"
        )
    if code in (DOUBTFUL, CONTRADICTION) and model.n_rows:
        row = f"row {model.closures.row_names[body]!r}" if body >= 0 else "a row"
        return (
            f"{row} of the constraints nearly depends on the others: the mechanism is in or near "
            "a singular configuration. pp.rollout(system, …) without reproducible=True and "
            "pp.simulate(system, …) decide such cases by singular values"
        )
    if code == NO_MEMORY and status != UNSOLVED and model.n_rows:
        return (
            "the loops cannot be closed again near the state that the step reached: the mechanism "
            "is at the end of what it can reach, or the step was too long"
        )
    return ""


def _bent_at(model: Model, found: Any, trajectory: int) -> str:
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
