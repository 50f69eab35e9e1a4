"""rollout: many trajectories at once, with the whole loop over steps in machine code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms.dynamics import FORWARD_DYNAMICS
from phipsi.algorithms.hybrid import HYBRID_ACCELERATIONS, free_mask
from phipsi.algorithms.system import System
from phipsi.backends.arguments import joint_array
from phipsi.backends.workers import batch_pieces
from phipsi.compiler import compile
from phipsi.errors import InputError, SimulationError, did_you_mean
from phipsi.model.mechanisms import mechanism_of, of_mechanisms, tree_of
from phipsi.model.model import Model
from phipsi.simulation.chart import Chart
from phipsi.simulation.closed_steps import closed_rollout
from phipsi.simulation.tableaux import COMPILED, METHODS, Method

if TYPE_CHECKING:
    from phipsi.backends.native.runner import NativeCode

Array = NDArray[np.float64]


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
    integrator: str = "semi_implicit",
    threads: int = 1,
    prescribed: Sequence[str] | ArrayLike | None = None,
) -> tuple[Array, Array]:
    """Trajectories of many initial states under given efforts.

    Each step is vdot = ℳ⁻¹ (tau − H φ [M φ* (a + gravity) + b]) and the integrator's formula on the
    group, all in machine code with trajectories side by side in vector lanes; a trajectory has the
    same bits in whatever batch and number of threads it runs. Motions of a `System` keep its
    constraints: the steps are those of `simulate` with stabilization="project", many motions at
    once, away from singular configurations.

    **Arguments:** `model`, a model or a `System`; `q0` (..., nq), `v0` (..., nv), which broadcast;
    `tau` constant (..., nv), or for every step (..., steps, nv), held during the step; `dt` in s;
    `steps`, how many; `every`, record every so many steps; `integrator`, "semi_implicit" (order 1)
    or "rk4" (order 4); `threads` share the batch; `prescribed`, names of joints whose accelerations
    are given instead of efforts, or booleans (..., nv): there `tau` holds the accelerations (hybrid
    dynamics). **Returns:** q (..., steps // every + 1, nq) and v (..., steps // every + 1, nv), the
    first records being the initial states.
    **Cost:** O(N) per step and trajectory; of a system O(nv³) for the projection. **Raises:**
    `SimulationError` naming the trajectory and the step if one diverges or a joint has nothing to
    move; everything computed is in its `trajectory` as ``(q, v)``.

    >>> import numpy as np
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(2)
    >>> q, v = pp.rollout(arm, np.zeros((1000, 2)), np.zeros(2), np.zeros(2), 1e-3, 50, every=10)
    >>> q.shape, v.shape
    ((1000, 6, 2), (1000, 6, 2))
    """
    model, tree = mechanism_of(model, rollout), tree_of(model, rollout)
    method = _method(integrator)
    dt = _positive(dt)
    steps, every = whole_number("steps", steps, 0), whole_number("every", every)
    threads = whole_number("threads", threads)
    start_q, start_v, effort, batch = rollout_arrays(tree, q0, v0, tau, steps)
    if isinstance(model, System):
        if prescribed is not None:
            raise InputError(
                "prescribed= is for trees. Prescribe joints of a system by constraints, or run "
                "pp.simulate(system, …, prescribed=…)"
            )
        state = start_q, start_v, effort
        return closed_rollout(model, *state, dt, steps, every, integrator)
    mask = np.ones(model.nv) if prescribed is None else free_mask(model, prescribed)
    try:
        free = np.broadcast_to(mask, (*batch, model.nv))
    except ValueError:
        raise InputError(
            f"prescribed has shape {mask.shape}, which does not broadcast to the batch {batch}"
        ) from None
    kept = steps // every + 1
    out_q, out_v = np.empty((*batch, kept, model.nq)), np.empty((*batch, kept, model.nv))
    if model.nv == 0 or 0 in batch:
        out_q[...], out_v[...] = start_q[..., None, :], start_v[..., None, :]
        return out_q, out_v
    count = int(np.prod(batch, dtype=int))
    flat = [np.ascontiguousarray(a.reshape(count, *a.shape[len(batch) :]))
            for a in (start_q, start_v, effort, free)]  # fmt: skip
    outs = [out_q.reshape(count, kept, model.nq), out_v.reshape(count, kept, model.nv)]
    status, failed_at = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    form = FORWARD_DYNAMICS if prescribed is None else HYBRID_ACCELERATIONS
    program = compile(form, model, backend="native")
    native = program.native
    assert native is not None
    from phipsi.simulation.rollout_code import (
        rollout_code,
    )  # with LLVM, which takes a while to load

    function = rollout_code(native, method).address("phipsi_rollout")
    arrays = [*flat, *outs, status, failed_at]
    _run(function, native, method, arrays, (steps, every), dt, model, threads)
    if status.any():
        raise _failure(model, batch, status, failed_at, dt, (out_q, out_v))
    return out_q, out_v


def _run(
    function: int,
    native: NativeCode,
    method: Method,
    arrays: list[Any],
    counts: tuple[int, int],
    dt: float,
    model: Model,
    threads: int,
) -> None:
    """Whole groups of lanes to every thread, each with memory of its own; one call of machine code.

    No exception can be raised while it runs: all threads have let go of the arrays after it.
    """
    from phipsi.backends.native.crew import run_shares, shares_of_jobs

    pieces = batch_pieces(len(arrays[0]), threads, native.machine.lanes)
    parts = [[a[piece] for a in arrays] for piece in pieces]
    jobs = [_job(native, method, part, counts, dt, model) for part in parts]
    status = [part[-2] for part in parts]
    run_shares(shares_of_jobs(function, native.data.ctypes.data, [j for j, _ in jobs], status))


def _job(
    native: NativeCode,
    method: Method,
    arrays: list[Any],
    counts: tuple[int, int],
    dt: float,
    model: Model,
) -> tuple[np.ndarray, list[np.ndarray]]:
    """The words of a job, and the memory they point to besides the arrays."""
    q0, v0, tau, free, out_q, out_v, status, failed_at = arrays
    steps, every = counts
    lanes, code = native.machine.lanes, _code()
    work = np.zeros(code.work_size(method, model.nq, model.nv) * lanes + 8)
    scratch = np.zeros(native.scratch_bytes // 8 + 8)
    job = np.zeros(code.WORDS, dtype=np.int64)
    where = [a.ctypes.data for a in (q0, v0, tau, out_q, out_v, status, failed_at)]
    where += [_aligned(work), _aligned(scratch)]
    varying = tau.ndim == 3
    row = int(np.prod(tau.shape[1:], dtype=int)) * 8
    step = 8 * model.nv if varying else 0
    numbers = [len(q0), steps, every, row, step, model.nq, model.nv, free.ctypes.data]
    job[: code.DT] = [*where, *numbers]
    job[code.DT : code.DT + 1].view(np.float64)[0] = dt
    return job, [work, scratch]


def _aligned(memory: np.ndarray) -> int:
    """The first cache line in a piece of memory."""
    return (memory.ctypes.data + 63) // 64 * 64


# ---- checks -----------------------------------------------------------------------------------


def _method(name: Any) -> Method:
    if name in COMPILED:
        return METHODS[name]
    text = f"rollout has no compiled integrator {name!r}; it has {', '.join(map(repr, COMPILED))}."
    if name in METHODS:
        text += f" For one trajectory:  pp.simulate(model, q0, v0, duration, integrator={name!r})"
        raise InputError(text)
    raise InputError(f"{text} {did_you_mean(str(name), COMPILED)}")


def _positive(dt: Any) -> float:
    if isinstance(dt, bool) or not isinstance(dt, (int, float, np.floating)):
        raise InputError(f"dt={dt!r} is no step length in seconds, such as dt=1e-3")
    if not 0 < dt < np.inf:
        raise InputError(f"dt={dt!r} s: a step must be longer than 0 s and finite, such as dt=1e-3")
    return float(dt)


def whole_number(name: str, value: Any, least: int = 1) -> int:
    """A whole number that is large enough."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise InputError(f"{name}={value!r} must be a whole number of at least {least}")
    return int(value)


def rollout_arrays(
    model: Model, q0: ArrayLike, v0: ArrayLike, tau: ArrayLike, steps: int
) -> tuple[Array, Array, Array, tuple[int, ...]]:
    """The initial states and efforts with their whole batch."""
    q = joint_array(model, "q0", q0, "nq")
    v, effort = (joint_array(model, name, x, "nv") for name, x in (("v0", v0), ("tau", tau)))
    varying = _is_varying(effort, q, v, steps)
    core = 2 if varying else 1
    if varying and effort.shape[-2] != steps:
        raise InputError(
            f"tau has shape {effort.shape}: its last axes must be (steps, nv) = "
            f"({steps}, {model.nv}) for efforts that change from step to step, or (nv,) for "
            "constant ones"
        )
    try:
        batch = np.broadcast_shapes(q.shape[:-1], v.shape[:-1], effort.shape[:-core])
    except ValueError:
        shapes = f"q0 {q.shape}, v0 {v.shape}, tau {effort.shape}"
        raise InputError(f"the leading axes of {shapes} do not broadcast") from None
    _unit(model, q)
    q, v = (np.broadcast_to(a, (*batch, a.shape[-1])) for a in (q, v))
    return q, v, np.broadcast_to(effort, (*batch, *effort.shape[-core:])), batch


def _is_varying(effort: Array, q: Array, v: Array, steps: int) -> bool:
    """Whether the axis before the last of tau is that of the steps; refuses to guess."""
    if effort.ndim > max(q.ndim, v.ndim):
        return True
    if effort.ndim == 1 or effort.shape[-2] != steps:
        return False
    try:
        np.broadcast_shapes(effort.shape[:-1], q.shape[:-1], v.shape[:-1])
    except ValueError:
        return True
    raise InputError(
        f"tau has shape {effort.shape}, which can mean {steps} steps or a batch of {steps}. Add an "
        "axis to say which: tau[None] for the same changing efforts in every trajectory, "
        "np.broadcast_to(tau[:, None], (len(tau), steps, nv)) for constant ones"
    )


def _unit(model: Model, q: Array) -> None:
    for joint, at in Chart(model).named_quaternions:
        length = np.linalg.norm(q[..., at], axis=-1)
        bad = np.argwhere(np.abs(np.atleast_1d(length) - 1) > 1e-8)
        if len(bad):
            index = tuple(int(i) for i in bad[0]) if length.ndim else ()
            raise InputError(
                f"q0{list(index) if index else ''}: the quaternion of joint {joint!r} has length "
                f"{float(length[index]):.9g}, but rotations have unit quaternions (w, x, y, z). "
                "Start from model.neutral(), or divide by the length."
            )


def _failure(
    model: Model,
    batch: tuple[int, ...],
    status: np.ndarray,
    failed_at: np.ndarray,
    dt: float,
    found: tuple[Array, Array],
) -> SimulationError:
    """What went wrong first, in which trajectory and step."""
    bad = np.flatnonzero(status)
    first = int(bad[np.argmin(failed_at[bad])])
    index = tuple(int(i) for i in np.unravel_index(first, batch)) if batch else ()
    step, body = int(failed_at[first]), int(status[first]) // 8 - 1
    where = f"trajectory {list(index)}" if index else "the trajectory"
    others = f" ({len(bad)} of {len(status)} trajectories failed)" if len(status) > 1 else ""
    if body >= 0:
        why = (
            f"joint {model.joint_names[body]!r} has nothing to move (its articulated inertia is "
            "not positive), so its acceleration is undefined; give the bodies it carries mass or "
            "the joint armature"
        )
    else:
        why = (
            "the accelerations are no longer finite. A smaller dt often helps: stiff forces and "
            "fast rotations need steps well below their period"
        )
    text = f"{where} failed in step {step} (t = {step * dt:.6g} s): {why}.{others}"
    return SimulationError(text, found)


def _code() -> Any:
    """The code generator, loaded with LLVM when it is first needed."""
    from phipsi.simulation import rollout_code

    return rollout_code
