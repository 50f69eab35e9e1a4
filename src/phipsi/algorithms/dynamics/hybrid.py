"""Hybrid dynamics: some joints' accelerations are given, the others' efforts.

No algorithm of its own: S = `unprescribed` keeps the joints whose effort is given, and
`prescribed` is 1 on the others. The rows of the equations of motion for the former are

    S ℳ S* v̇ = S (τ − ℳ v̇ₕ − bias),    v̇ₕ = (I − S*) v̇ given

and S H φ M φ* H* S* + S Jr S* + prescribed is W + H' φ M φ* H'* with the hinge map H' = S H: an
instance of the Riccati family, so the inverse is the innovations form with these H and W. The
efforts that the prescribed joints need are the inverse dynamics of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms.dynamics.equations_of_motion import A_G, inverse_dynamics
from phipsi.compiler import program_of
from phipsi.errors import InputError, did_you_mean
from phipsi.expressions.node import Expr
from phipsi.model.mechanisms import of_trees, tree_of
from phipsi.model.model import Model
from phipsi.operators import H, I, Jr, M, b, phi, prescribed, tau, unprescribed, vdot

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


class HybridDynamics(NamedTuple):
    """Accelerations and efforts of all joints, (..., nv) each."""

    vdot: Array
    tau: Array


def free_mask(model: Model, prescribed: Sequence[str] | ArrayLike) -> Array:
    """(nv,) or (..., nv): 1 for degrees of freedom with a given effort, 0 for prescribed ones.

    `prescribed` are names of joints, or booleans (..., nv) that are true for the prescribed.

    >>> import phipsi as pp
    >>> from phipsi.algorithms.dynamics.hybrid import free_mask
    >>> arm = pp.examples.planar_arm(3)
    >>> free_mask(arm, [arm.joint_names[1]])
    array([1., 0., 1.])
    """
    if isinstance(prescribed, str):
        prescribed = [prescribed]
    if isinstance(prescribed, (list, tuple)) and all(isinstance(x, str) for x in prescribed):
        mask = np.ones(model.nv)
        for name in prescribed:
            if name not in model.joint_names:
                raise InputError(
                    f"prescribed joint {name!r} does not exist. "
                    f"{did_you_mean(str(name), model.joint_names)}"
                )
            mask[model.v_slice(str(name))] = 0
        return mask
    flags = np.asarray(prescribed)
    if flags.dtype != np.bool_ or flags.ndim == 0 or flags.shape[-1] != model.nv:
        raise InputError(
            f"prescribed must be names of joints, or booleans of shape (..., {model.nv}) that are "
            f"True where the acceleration is given; it is {type(prescribed).__name__} of "
            f"{flags.dtype}, shape {flags.shape}"
        )
    return np.where(flags, 0.0, 1.0)


@of_trees(
    "accelerations that are given must agree with its constraints, and drive its other joints, too",
    "Prescribe rates as constraints, or ask for the efforts of a whole motion:\n"
    "    pp.constraints.Rows(name='motor', points=['crank'], A=[[0, 0, 1, 0, 0, 0]], rates=2.0)\n"
    "    pp.closed_inverse_dynamics(system, q, v, vdot, actuated=[…])",
)
def hybrid_dynamics(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    vdot: ArrayLike,
    *,
    prescribed: Sequence[str] | ArrayLike,
) -> HybridDynamics:
    """Accelerations and efforts when some joints' accelerations are prescribed.

    v̇ = (S ℳ S* + prescribed)⁻¹ S (τ − ℳ v̇ₕ − bias) + v̇ₕ, then τ by inverse dynamics. With
    nothing prescribed this is forward dynamics, with everything prescribed inverse dynamics.

    **Arguments:** `q` (..., nq), `v` (..., nv); `tau` (..., nv), read where the effort is given;
    `vdot` (..., nv), read where the acceleration is; `prescribed`, names of joints, or booleans
    (..., nv) that are true where the acceleration is given. **Returns:** (vdot, tau), all of them.
    **Cost:** five sweeps, O(N), with the Riccati family of (S H, E_φ, M, S Jr S* + prescribed),
    S = unprescribed. **Source:** theory/closed-chains 11 (hinge k locked).

    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(2)
    >>> held = [arm.joint_names[1]]                       # the elbow is kept straight
    >>> vdot, tau = pp.hybrid_dynamics(arm, [0, 0], [0, 0], [0, 0], [0, 0], prescribed=held)
    >>> vdot.round(4).tolist(), tau.round(4).tolist()
    ([-7.3575, 0.0], [0.0, -1.2262])
    """
    model = tree_of(model, hybrid_dynamics)
    mask = free_mask(model, prescribed)
    motion = program_of(HYBRID_ACCELERATIONS, model)(q, v, vdot, tau, mask)
    needed = inverse_dynamics(model, q, v, motion)
    given = np.broadcast_to(np.asarray(tau, dtype=np.float64), needed.shape)
    return HybridDynamics(motion, np.where(mask > 0, given, needed))
