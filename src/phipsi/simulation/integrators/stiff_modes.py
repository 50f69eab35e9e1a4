"""Elastic forces at the end of a step, of mechanisms with and without constraints.

    (ℳ + W) x + G* f = tau − bias − h K_e v,   G x = U,   W = h C_e + h² K_e,   v⁺ = v + h x

K_e and C_e act between modal rates only, and the modal mass M_e is nowhere but there: in ℳ, and not
in the forces that M(η) causes. So x are the accelerations of the mechanism whose modal masses are
M_e + h C_e + h² K_e, under the efforts tau − h K_e v. Loops are closed again in the metric ℳ + W: a
projection moves what is soft, and does not bend what is stiff.

**Source:** theory/flexible-bodies 5.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms import RANK, ClosureRows, ConstraintMetric, mass_matrix
from phipsi.core.model import Model

Array = NDArray[Any]
Mechanism = TypeVar("Mechanism", bound=Model)
_KEPT = 4  # lengths of steps


def modal_blocks(model: Model, width: int) -> tuple[Array, Array]:
    """K_e and C_e as blocks of Jr (n, width, width): last among the rates of a body, else zero."""
    K, C = np.zeros((2, model.n_bodies, width, width))
    for k, (at, x) in enumerate(zip(model.v_slices, model.flexible, strict=True)):
        if x is not None:
            own = slice(at.stop - at.start - x.modes, at.stop - at.start)
            K[k, own, own], C[k, own, own] = x.stiffness, x.damping
    return K, C


def modal_matrices(model: Model) -> tuple[Array, Array]:
    """K_e and C_e (nv, nv), zero for the rates of joints: the blocks on the diagonal."""
    whole = np.zeros((2, model.nv, model.nv))
    blocks = modal_blocks(model, max((at.stop - at.start for at in model.v_slices), default=0))
    for k, at in enumerate(model.v_slices):
        n = at.stop - at.start
        for out, given in zip(whole, blocks, strict=True):
            out[at, at] = given[k, :n, :n]
    return whole[0], whole[1]


def stiffened(mechanism: Mechanism, h: float) -> Mechanism:
    """The mechanism whose accelerations are those of a step of length h.

    Those of the last few lengths are kept: each has compiled programs of its own.
    """
    if not mechanism.is_flexible:
        return mechanism
    kept = mechanism.cached(stiffened, lambda: lru_cache(_KEPT)(mechanism.with_stiff_modes))
    return kept(float(h))


def metric_of_steps(model: Model, h: float) -> Callable[[Array], Array]:
    """ℳ + h C_e + h² K_e (..., nv, nv) as a function of q."""
    K, C = modal_matrices(model)
    return lambda q: mass_matrix(model, q) + h * (C + h * K)


def linearly_implicit_acceleration(
    model: Model,
    rows: ClosureRows | None,
    moving: Array | None,
    q: Array,
    v: Array,
    vdot: Array,
    h: float,
) -> Array:
    """x (nv,) of a step from the accelerations vdot at its start, which keep the rows.

    Forces of constraints that are in vdot stay, and those that keep x on the rows are added.
    Prescribed joints, all that are not `moving`, keep their accelerations.
    """
    K, C = modal_matrices(model)
    free = np.arange(model.nv) if moving is None else moving
    mass = mass_matrix(model, q)
    stiff = mass + h * (C + h * K)
    inner = np.ix_(free, free)
    x = vdot.copy()
    load = mass[inner] @ vdot[free] - h * (K @ v)[free]
    x[free] = np.linalg.solve(stiff[inner], load)
    if rows is None:
        return x
    at = ConstraintMetric(rows, q[None], RANK, rates_used=moving, inertia=stiff[None])
    return x + at.spread(at.solve((at.whole[0] @ (vdot - x))[None]))[0]
