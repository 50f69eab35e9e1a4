"""Initial states and efforts of runs as arrays with their whole batch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms import chart_of
from phipsi.core.backends import joint_array
from phipsi.core.model import Model
from phipsi.errors import InputError, true_or_false
from phipsi.simulation.runs.checks import check_quaternions, common_batch

Array = NDArray[Any]


def _by_steps(x: Any) -> str:
    return f"It takes a number of steps, whose length is dt:\n    steps=round({x!r} / dt)"


BY_STEPS: dict[str, Callable[[Any], str]] = {
    **dict.fromkeys(("duration", "time", "t_end", "tf", "T", "horizon"), _by_steps),
    **dict.fromkeys(
        ("controller", "laws", "forces"),
        lambda _: (
            "Controllers and forces are laws of a Simulator:\n"
            "    pp.Simulator(model, [law, pp.forces.JointDamper(None, 0.1)], dt=1e-3)"
        ),
    ),
}
"""Arguments that rollouts do not have, and what to write."""


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
            f"tau has shape {effort.shape}: its last axes must be (steps, nv) = ({steps}, "
            f"{model.nv}) if tau changes from step to step, or (nv,) if it is constant. If it is "
            "constant, in a batch that only tau has:  per_step=False"
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
            f"per_step={per_step!r} has no effect without tau=. Remove it, or pass tau for every "
            "step:  tau of shape (..., steps, nv)"
        )
    if np.ndim(tau) == 0 and model.nv != 0:
        raise InputError(
            f"tau={tau!r} is a number, but tau are the torques and forces of all joints, (..., "
            f"{model.nv}). For a number of steps:  steps={tau!r}"
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
        f"tau has shape {effort.shape}, which can mean {steps} steps or a batch of {steps}. Pass  "
        "per_step=True if it changes from step to step and is the same in every trajectory, "
        "per_step=False if it is constant and differs between trajectories"
    )


def _flag(per_step: bool | str, effort: Array) -> bool:
    per_step = true_or_false("per_step", per_step, "True, False or None")
    if per_step and effort.ndim < 2:
        raise InputError(
            f"per_step=True needs tau of shape (..., steps, nv), but it has shape {effort.shape}"
        )
    return per_step
