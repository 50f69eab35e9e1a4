"""Derivatives of one fixed step: the discrete linearisation that optimal control works with."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms import System, free_mask
from phipsi.core.backends import state_arrays
from phipsi.core.model import Model, Refusal, check_prescribed, mechanism_of, supports
from phipsi.errors import InputError
from phipsi.simulation.integrators.motion import Motion
from phipsi.simulation.integrators.stage_loop import Effort, Tangents, take_step
from phipsi.simulation.integrators.tableaux import DIFFERENTIABLE, METHODS
from phipsi.simulation.runs.checks import checked_time

Array = NDArray[Any]


PRESCRIBED = Refusal(
    (
        "a step ends with a projection that does not move prescribed joints, whose derivatives "
        "are not implemented"
    ),
    "Let constraints drive the joints: these steps are differentiated:\n"
    "    pp.System(system.model, [*system.constraints, pp.constraints.Motor(name='drive', "
    "joint=…, angle=…)])",
    combined_with="loops",
)


GRADIENT_WITH_CONTACTS = Refusal(
    instead="Derivatives with contacts are those of a rollout, by weights of what it records:\n"
    "    sim = pp.Simulator(system, laws, dt, integrator='time_stepping')\n"
    "    sim.gradient(sim.initial_state(q, v), steps=1, cotangents={'v': weights})"
)


@supports(
    loops=True, contacts=GRADIENT_WITH_CONTACTS, flexible=True, rotors=True, prescribed=PRESCRIBED
)
def step_derivatives(
    model: Model | System,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    dt: float,
    *,
    integrator: str = "rk4",
    prescribed: Sequence[str] | ArrayLike | None = None,
) -> tuple[Array, Array]:
    """Derivatives of the state after one step with respect to the state before it and tau.

    [δq⁺; δv⁺] = A [δq; δv] + B δtau for a step of `rollout` or `simulate`, with δq and δq⁺ in the
    directions of v at the two configurations (q ∘ exp(δq)), also for quaternion joints. They are
    the exact derivatives of the computed step, not a discretised linearisation. A step of a
    `System` ends with the projection onto its constraints, whose derivatives are in A and B: A
    maps any change to one that keeps the loops closed.

    Parameters
    ----------
    model : Model
        A tree, or a `System`.
    q : array_like, shape (..., nq)
        Configuration.
    v : array_like, shape (..., nv)
        Generalized velocities.
    tau : array_like, shape (..., nv)
        Joint torques and forces, N·m or N.
    dt : float
        Time step, s.
    integrator : {"rk4", "semi_implicit", "linearly_implicit"}, optional
        The integrator.
    prescribed : sequence of str or array_like, optional
        Joints of a tree whose accelerations stand in `tau`, as for `rollout`: columns of B are with
        respect to what `tau` holds.

    Returns
    -------
    A, B : ndarray, shape (..., 2 nv, 2 nv) and (..., 2 nv, nv)
        With respect to the state and to `tau`.

    Notes
    -----
    **Cost:** that of `forward_dynamics_derivatives` at every stage, and some products of nv × nv
    matrices. **Source:** theory/sensitivities 5; theory/closed-chains 11 (C32).

    Examples
    --------
    >>> import numpy as np
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(1)
    >>> A, B = pp.step_derivatives(arm, [0.0], [0.0], [0.0], 0.1)
    >>> A.round(3) + 0.0, B.round(3)
    (array([[ 0.999,  0.1  ],
           [-0.036,  0.997]]), array([[0.015],
           [0.3  ]]))
    """
    mechanism, ahead = mechanism_of(model, step_derivatives), None
    checked_differentiable(integrator)
    if METHODS[integrator].elastic_implicit:
        ahead = checked_time(dt, "dt")
    motion = Motion(mechanism, held_mask(mechanism, prescribed, step_derivatives), ahead=ahead)
    h, arrays = checked_time(dt, "dt", backwards=True), state_arrays(motion.tree, q=q, v=v, tau=tau)
    batch, nv = (), motion.tree.nv
    if any(x.ndim > 1 for x in arrays):
        batch = np.broadcast_shapes(*(x.shape[:-1] for x in arrays))
        arrays = tuple(np.broadcast_to(x, (*batch, x.shape[-1])) for x in arrays)
    at, rates, efforts = (x.reshape(math.prod(batch), x.shape[-1]) for x in arrays)
    motion.check_start(at, rates)
    with np.errstate(over="ignore", invalid="ignore"):
        change = linear_step(motion, at, rates, efforts, h, integrator)
    change = change.reshape(*batch, 2 * nv, 3 * nv)
    if not np.isfinite(change).all():
        where = np.argwhere(~np.isfinite(change))[0][: len(batch)].tolist()
        raise InputError(
            f"the step of dt={dt!r} s{f' at {where}' if batch else ''} gives numbers that are "
            "not finite: it is too long. Use a smaller dt, such as dt=1e-3"
        )
    return change[..., : 2 * nv], change[..., 2 * nv :]


def held_mask(
    mechanism: Model | System,
    prescribed: Sequence[str] | ArrayLike | None,
    function: Callable[..., Any],
) -> Array | None:
    """1 for the rates (nv,) with a given effort, 0 for prescribed ones; None without any.

    Rejects what has no derivatives: prescribed joints of a system, and masks of batches.
    """
    if prescribed is None:
        return None
    tree = mechanism.model
    mask = free_mask(tree, prescribed)
    if mask.ndim > 1:
        raise InputError(
            f"{function.__name__}: all trajectories of a batch must have the same prescribed "
            f"joints. Pass their names, or booleans of shape ({tree.nv},)"
        )
    check_prescribed(mechanism, function)
    return mask


def linear_step(
    motion: Motion, q: Array, v: Array, tau: Array, dt: float, integrator: str
) -> Array:
    """The derivatives (n, 2 nv, 3 nv) of a step and its projection by q, v and tau."""
    if not v.size:
        return np.zeros((len(v), 2 * v.shape[-1], 3 * v.shape[-1]))
    return take_step(METHODS[integrator], Tangents(motion, q, v, tau), dt)


def linear_step_of_stages(
    motion: Motion, q: Array, v: Array, tau: Array, dt: float, integrator: str
) -> tuple[Array, list[Effort]]:
    """The same with columns for the efforts of every stage, and the places where they act."""
    method = METHODS[integrator]
    stages = 1 if method.tableau is None else len(method.tableau.b)
    tangents = Tangents(motion, q, v, tau, stages=stages)
    return take_step(method, tangents, dt), tangents.efforts


def checked_differentiable(integrator: Any) -> None:
    """Reject an integrator whose steps have no derivatives."""
    if isinstance(integrator, str) and integrator in DIFFERENTIABLE:
        return
    known = ", ".join(map(repr, DIFFERENTIABLE))
    why = ""
    if isinstance(integrator, str) and integrator in METHODS and METHODS[integrator].is_variational:
        why = (
            ". This one is implicit: its derivatives need second derivatives of the Lagrangian, "
            "which are not implemented"
        )
    raise InputError(
        f"integrator={integrator!r}: steps of {known} can be differentiated{why}. Use one of them:"
        "\n    integrator='rk4'"
    )
