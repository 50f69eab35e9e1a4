"""Hybrid dynamics: some joints' accelerations are given, the others' efforts.

No algorithm of its own: S = `unprescribed` keeps the joints whose effort is given, and
`prescribed` is 1 on the others. The rows of the equations of motion for the former are

    S ℳ S* v̇ = S (τ − ℳ v̇ₕ − bias),    v̇ₕ = (I − S*) v̇ given

and S H φ M φ* H* S* + S Jr S* + prescribed is W + H' φ M φ* H'* with the hinge map H' = S H: an
instance of the Riccati family, so the inverse is the innovations form with these H and W. The
efforts that the prescribed joints need are the inverse dynamics of the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms.constrained.constraint_metric import ConstraintMetric
from phipsi.algorithms.constrained.constraint_rows import rows_of
from phipsi.algorithms.dynamics.constraint_forces import Dynamics
from phipsi.algorithms.dynamics.dynamics_expressions import (
    A_G,
    INVERSE_DYNAMICS,
    ROW_DRIFT,
    body_forces,
    forward,
    forward_with_rows,
    loaded,
)
from phipsi.core.backends import CallOptions, Calls, state_arrays
from phipsi.core.compiler import program_of
from phipsi.core.expressions import Expr
from phipsi.core.model import Model, as_floats, is_list, kind_of, supports, tree_of
from phipsi.core.operators import (
    A,
    H,
    I,
    J,
    Jr,
    M,
    Udot,
    b,
    phi,
    prescribed,
    tau,
    unprescribed,
    v,
    vdot,
)
from phipsi.errors import InputError, did_you_mean

Array = NDArray[Any]

PRESCRIBED = (I - unprescribed.T) @ vdot
FREE_MASS_MATRIX = (
    unprescribed @ H @ phi @ M @ phi.T @ H.T @ unprescribed.T
    + unprescribed @ Jr @ unprescribed.T
    + prescribed
)


def hybrid_form(w: Expr) -> Expr:
    """All accelerations, as a function of the body forces w = b − f_ext."""
    known = H @ phi @ (M @ phi.T @ (H.T @ PRESCRIBED + A_G) + w) + Jr @ PRESCRIBED
    return FREE_MASS_MATRIX.inv @ unprescribed @ (tau - known) + PRESCRIBED


HYBRID_ACCELERATIONS = hybrid_form(b)
HELD_SPREAD = FREE_MASS_MATRIX.inv @ unprescribed @ J.T @ A.T  # of multipliers
HELD_ROW_MATRIX = A @ J @ unprescribed.T @ HELD_SPREAD
# the change of rates onto the constraints, nearest in the mass metric of the other joints
HELD_IMPULSE = HELD_ROW_MATRIX.inv @ (A @ J @ v - Udot)
HELD_CHANGE = HELD_SPREAD @ HELD_IMPULSE


def hybrid_with_rows(w: Expr) -> tuple[Expr, Expr]:
    """All accelerations that keep constraints, and the multipliers, as functions of w.

    v̇ = v̇_f − Y J* A* f with Y = S* (S ℳ S* + prescribed)⁻¹ S and (A J Y J* A*) f = A J v̇_f − U.
    """
    free = hybrid_form(w)
    f = HELD_ROW_MATRIX.inv @ (A @ J @ free + ROW_DRIFT)
    return free - HELD_SPREAD @ f, f


def accelerations(system: bool, some_prescribed: bool, external: bool) -> tuple[Expr, ...]:
    """The expressions of v̇ and, of a system, of the multipliers.

    `some_prescribed`: of hybrid dynamics; `external`: with forces f_ext on the bodies.
    """
    w = body_forces(external)
    if system:
        return hybrid_with_rows(w) if some_prescribed else forward_with_rows(None, external, False)
    return (hybrid_form(w) if some_prescribed else loaded(forward, external=external),)


def free_mask(model: Model, prescribed: Sequence[str] | Mapping[str, Any] | ArrayLike) -> Array:
    """(nv,) or (..., nv): 1 for degrees of freedom with a given effort, 0 for prescribed ones.

    `prescribed` are names of joints, alone or with their accelerations, or booleans (..., nv) that
    are true for the prescribed.

    >>> import phipsi as pp
    >>> from phipsi.algorithms.dynamics.hybrid import free_mask
    >>> arm = pp.examples.planar_arm(3)
    >>> free_mask(arm, [arm.joint_names[1]])
    array([1., 0., 1.])
    """
    if isinstance(prescribed, str):
        prescribed = [prescribed]
    elif isinstance(prescribed, Mapping):
        prescribed = list(prescribed)
    if is_list(prescribed) and all(isinstance(x, str) for x in prescribed):
        mask = np.ones(model.nv)
        for name in prescribed:
            if name not in model.joint_names:
                raise InputError(
                    f"prescribed joint {name!r} does not exist. "
                    f"{did_you_mean(str(name), model.joint_names)}"
                )
            mask[model.joint_rates(str(name))] = 0
        return mask
    flags = np.asarray(prescribed)
    if flags.dtype != np.bool_ or flags.ndim == 0 or flags.shape[-1] != model.nv:
        raise InputError(
            f"prescribed must be names of joints, or booleans of shape (..., {model.nv}) that are "
            f"True where the acceleration is prescribed; it is {kind_of(prescribed)} of "
            f"{flags.dtype}, shape {flags.shape}"
        )
    return np.where(flags, 0.0, 1.0)


@supports(loops=True, flexible=True, rotors=True, prescribed=True)
def hybrid_dynamics(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    vdot: ArrayLike | None,
    tau: ArrayLike,
    *,
    prescribed: Sequence[str] | Mapping[str, ArrayLike] | ArrayLike,
    **options: Unpack[CallOptions],
) -> Dynamics:
    """Hybrid dynamics: accelerations and torques when some joints' accelerations are prescribed.

    With no joint prescribed this is forward dynamics, with all of them inverse dynamics.
    Constraints act on the other joints: prescribed accelerations must agree with them.

    Parameters
    ----------
    model : Model
        A tree or a `System`.
    q : array_like, shape (..., nq)
        Configuration.
    v : array_like, shape (..., nv)
        Generalized velocities, rad/s or m/s.
    vdot : array_like, shape (..., nv), or None
        Accelerations, read at prescribed joints.
    tau : array_like, shape (..., nv)
        Joint torques and forces, read at all other joints.
    prescribed : sequence of str, mapping or array_like
        Names of joints; a mapping from joints to their accelerations (`vdot` is then None); or
        booleans (..., nv) that are true where the acceleration is prescribed.
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    Dynamics
        (vdot, tau, f), all of them.

    Raises
    ------
    InputError
        If the prescribed accelerations contradict the constraints.

    Notes
    -----
    With S = unprescribed, v̇ = (S ℳ S* + prescribed)⁻¹ S (τ − ℳ v̇ₕ − bias) + v̇ₕ, then τ by
    inverse dynamics. **Cost:** five sweeps, O(N), with the Riccati family of (S H, E_φ, M, S Jr S*
    + prescribed); with constraints O(nv³). **Source:** theory/closed-chains 11 (hinge k locked).

    Examples
    --------
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(2)
    >>> elbow = arm.joint_names[1]                        # the elbow is kept straight
    >>> vdot, tau, f = pp.hybrid_dynamics(arm, [0, 0], [0, 0], None, [0, 0], prescribed={elbow: 0})
    >>> vdot.round(4).tolist(), tau.round(4).tolist()
    ([-7.3575, 0.0], [0.0, -1.2262])
    """
    tree = tree_of(model, hybrid_dynamics)
    mask = free_mask(tree, prescribed)
    given = _accelerations(tree, vdot, prescribed)
    calls = Calls(options)
    if model.n_rows:
        state = state_arrays(tree, finite=calls.raises, q=q, v=v, vdot=given, tau=tau)
        found = calls.solve(partial(_with_constraints, model, _one_mask(mask)), *state)
        return calls.finish(Dynamics(*found))
    motion = calls(program_of(HYBRID_ACCELERATIONS, tree), q, v, given, tau, mask)
    needed = calls(program_of(INVERSE_DYNAMICS, tree), q, v, motion)
    efforts = np.broadcast_to(np.asarray(tau, dtype=np.float64), needed.shape)
    found = np.where(mask > 0, efforts, needed)
    return calls.finish(Dynamics(motion, found, np.zeros((*found.shape[:-1], 0))))


def _accelerations(
    model: Model, vdot: ArrayLike | None, prescribed: Sequence[str] | Mapping[str, Any] | ArrayLike
) -> ArrayLike:
    """The accelerations that are given, zero elsewhere."""
    if not isinstance(prescribed, Mapping):
        if vdot is None:
            raise InputError(
                "prescribed lists joints, so vdot must hold their accelerations. Pass vdot, or "
                "both at once:  prescribed={'elbow': 0.0}"
            )
        return vdot
    if vdot is not None:
        raise InputError("prescribed maps joints to their accelerations, so vdot must be None")
    values = {name: as_floats(f"prescribed[{name!r}]", x) for name, x in prescribed.items()}
    batch = np.broadcast_shapes(
        *(x.shape[:-1] if model.joint(name).joint.nv > 1 else x.shape for name, x in values.items())
    )
    out = np.zeros((*batch, model.nv))
    for name, x in values.items():
        at = model.joint_rates(name)
        out[..., at] = x if at.stop - at.start > 1 else x[..., None]
    return out


def _one_mask(mask: Array) -> Array:
    if mask.ndim > 1:
        raise InputError(
            "with constraints, the same joints must be prescribed in a whole batch: pass their "
            f"names, or booleans of shape ({mask.shape[-1]},)"
        )
    return mask


def _with_constraints(
    model: Model, mask: Array, q: Array, v: Array, vdot: Array, tau: Array
) -> tuple[Array, Array, Array]:
    """(vdot, tau, f) with constraint rows on the joints that are not prescribed, of n states."""
    free, held = np.flatnonzero(mask), np.where(mask > 0, 0.0, vdot)
    rows, inverse = rows_of(model), program_of(INVERSE_DYNAMICS, model.model)
    at = ConstraintMetric(rows, q, rates_used=free)
    load = (tau - inverse(q, v, held))[:, free]
    jacobian = rows.jacobian(q)
    wanted = -rows.bias(q, v) - np.einsum("nrv,nv->nr", jacobian, held)
    motion = held.copy()
    motion[:, free], f, gap = at.accelerations(at.unconstrained(load), wanted)
    _check_agreement(model, *at.contradicted(gap))
    needed = inverse(q, v, motion) + np.einsum("nrv,nr->nv", jacobian, f)
    return motion, np.where(mask > 0, tau, needed), f


def _check_agreement(model: Model, row: Array, amount: Array) -> None:
    if amount.any():
        worst = int(amount.argmax())
        raise InputError(
            "the prescribed accelerations contradict the constraints: row "
            f"{model.row_names[row[worst]]!r} would accelerate by {float(amount[worst]):.4g}, and "
            "the other joints cannot compensate for it. Prescribe fewer joints, or accelerations "
            "that keep the loops closed:\n"
            "    G = system.jacobian(q);  G @ vdot = -system.bias(q, v)"
        )
