"""Inverse dynamics of systems with loops: efforts of chosen actuators for a given motion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms.dynamics import inverse_dynamics, mass_matrix
from phipsi.algorithms.system import System
from phipsi.backends.arguments import state_arrays
from phipsi.errors import InputError, did_you_mean
from phipsi.model.mechanisms import of_systems, system_of
from phipsi.model.model import Model

Array = NDArray[Any]

_RANK = 1e-8  # singular values below this part of the largest belong to redundant rows
_DRIVEN = 1e-8  # directions that actuators reach less than this are not driven
_ADMISSIBLE = 1e-6  # what rates and accelerations may miss the constraints by, relative


class DrivenMotion(NamedTuple):
    """`tau` (..., nv), zero at joints without actuator, and the multipliers `f` (..., rows)."""

    tau: Array
    f: Array


@of_systems
def closed_inverse_dynamics(
    system: System,
    q: ArrayLike,
    v: ArrayLike,
    vdot: ArrayLike,
    f_ext: ArrayLike | None = None,
    *,
    actuated: Sequence[str] | None = None,
    weights: ArrayLike | None = None,
) -> DrivenMotion:
    """Efforts of the actuated joints for a motion that keeps the constraints.

    tau = ID(q, v, vdot) + (A J)* f with tau = 0 at joints without actuator. Only the part along
    admissible motions matters, Z* tau = Z* ID with Z = null(A J). Where there are more actuators
    than freedoms, tau minimises Σ weights · tau²; f is the least one with that tau.

    **Arguments:** `q` (..., nq), `v`, `vdot` (..., nv), which must keep the constraints; `f_ext`
    (..., bodies, 6) as for `inverse_dynamics`; `actuated`, names of joints (default: all);
    `weights` (nv,), above 0, what an effort costs (default: 1). **Returns:** (tau, f). It raises
    `InputError` if v or vdot break the constraints, or if the actuators cannot drive the motion:
    it then names the joints of the motion that lacks a drive, and how much.
    **Cost:** O(nv³), dense. **Source:** closed_chain 2 (KKT).

    >>> import numpy as np, phipsi as pp
    >>> arm = pp.examples.planar_arm(3)
    >>> pin = pp.constraints.Revolute((0, 0, 1), name="pin", a="tip", b=("world", (1.5, 0, 0)))
    >>> four_bar = pp.System(arm, [pin])
    >>> q, rest = four_bar.assemble([1.0, -1.0, -1.5]), np.zeros(3)
    >>> held = pp.closed_inverse_dynamics(four_bar, q, rest, rest, actuated=["joint1"])
    >>> bool(abs(pp.forward_dynamics(four_bar, q, rest, held.tau)).max() < 1e-9)
    True
    """
    system_of(system, closed_inverse_dynamics)
    model = system.model
    q, v, vdot = state_arrays(model, q=q, v=v, vdot=vdot)
    driven = _rates(model, actuated)
    cost = _weights(model, weights)[driven]
    needed = inverse_dynamics(model, q, v, vdot, f_ext)
    batch = needed.shape[:-1]
    q, v, vdot = (
        np.broadcast_to(np.asarray(x, dtype=np.float64), (*batch, n))
        for x, n in ((q, model.nq), (v, model.nv), (vdot, model.nv))
    )
    G = system.jacobian(q)
    _check_motion(system, G, q, v, vdot)
    L = np.linalg.cholesky(mass_matrix(model, q))
    free = _free_directions(G, L)  # onto admissible motions, in the coordinates L* v
    half = np.linalg.solve(L, needed[..., None])
    picked = np.broadcast_to(np.eye(model.nv)[:, driven], (*batch, model.nv, len(driven)))
    scale = 1.0 / np.sqrt(cost)
    reach = np.linalg.solve(L, picked) * scale
    through = free @ reach
    wanted = free @ half
    x = np.linalg.pinv(through, rcond=_DRIVEN) @ wanted
    missing = (wanted - through @ x)[..., 0]
    _check_driven(system, L, missing, half[..., 0], actuated)
    tau = np.zeros((*batch, model.nv))
    tau[..., driven] = scale * x[..., 0]
    back = np.linalg.pinv(np.swapaxes(G, -1, -2), rcond=_RANK)
    f = (back @ (tau - needed)[..., None])[..., 0]
    return DrivenMotion(tau, f)


def _free_directions(G: Array, L: Array) -> Array:
    """The orthogonal projector (..., nv, nv) onto null(G L⁻*)."""
    carried = np.swapaxes(np.linalg.solve(L, np.swapaxes(G, -1, -2)), -1, -2)
    size = np.linalg.norm(carried, axis=-1, keepdims=True)
    _, s, right = np.linalg.svd(carried / np.where(size > 0, size, 1.0), full_matrices=False)
    kept = right * (s > _RANK * s.max(axis=-1, keepdims=True, initial=0.0))[..., None]
    return np.eye(L.shape[-1]) - np.swapaxes(kept, -1, -2) @ kept


def _check_motion(system: System, G: Array, q: Array, v: Array, vdot: Array) -> None:
    drift = system.bias(q, v)
    parts = (
        ("v", "rad/s, m/s", np.einsum("...rv,...v->...r", G, v) - system.rates, v),
        ("vdot", "rad/s², m/s²", np.einsum("...rv,...v->...r", G, vdot) + drift, vdot),
    )
    for name, unit, wrong, motion in parts:
        size = np.einsum("...rv,...v->...r", np.abs(G), np.abs(motion)).max(axis=-1, initial=0.0)
        size = size + np.abs(system.rates if name == "v" else drift).max(axis=-1, initial=0.0)
        bad = np.abs(wrong) > _ADMISSIBLE * np.maximum(size, 1e-6)[..., None]
        if not bad.any():
            continue
        row = int(np.flatnonzero(bad.reshape(-1, system.n_rows).any(axis=0))[0])
        most = float(np.abs(wrong[..., row]).max())
        fix = (
            "q, v = system.project(q, v)"
            if name == "v"
            else "G = system.jacobian(q)\n"
            "    vdot = vdot - np.linalg.pinv(G) @ (G @ vdot + system.bias(q, v))"
        )
        raise InputError(
            f"{name} does not keep the constraints: row {system.row_names[row]!r} is off by "
            f"{most:.4g} ({unit}). No efforts produce such a motion. The nearest one that does:\n"
            f"    {fix}"
        )


def _check_driven(
    system: System, L: Array, missing: Array, half: Array, actuated: Sequence[str] | None
) -> None:
    left = np.linalg.norm(missing, axis=-1)
    whole = np.linalg.norm(half, axis=-1)
    if not (left > 1e-9 * np.maximum(whole, 1e-12)).any():
        return
    worst = int(np.argmax(left.reshape(-1)))
    nv = system.model.nv
    e = missing.reshape(-1, nv)[worst]
    motion = np.linalg.solve(L.reshape(-1, nv, nv)[worst].T, e)
    needs = motion @ (L.reshape(-1, nv, nv)[worst] @ e) / np.abs(motion).max()
    motion = np.where(np.abs(motion) > 1e-12 * np.abs(motion).max(), motion, 0.0)
    motion = motion / np.abs(motion).max()
    entries = [
        (abs(motion[at]).max(), name, motion[at])
        for name, at in zip(system.model.joint_names, system.model.v_slices, strict=True)
        if at.stop > at.start
    ]
    entries.sort(key=lambda x: -x[0])
    shown = ", ".join(
        f"{name!r} by {np.round(x, 4).tolist()[0] if len(x) == 1 else np.round(x, 4).tolist()}"
        for size, name, x in entries[:6]
        if size > 1e-6
    )
    names = "all joints" if actuated is None else f"the actuators {list(actuated)}"
    best = entries[0][1]
    raise InputError(
        f"{names} cannot drive this motion: nothing acts along the admissible motion\n    {shown}\n"
        f"(rates relative to each other), which needs {float(needs):.4g} (N·m or N along it). "
        f"Actuate one of these joints too, for example {best!r}, or ask for the motion that the "
        f"mechanism makes there by itself."
    )


def _rates(model: Model, actuated: Sequence[str] | None) -> Array:
    if actuated is None:
        return np.arange(model.nv)
    names = [actuated] if isinstance(actuated, str) else list(actuated)
    places = [np.zeros(0, dtype=int)]
    for name in names:
        if name not in model.joint_names:
            raise InputError(
                f"actuated joint {name!r} does not exist. {did_you_mean(name, model.joint_names)}"
            )
        at = model.v_slice(name)
        places.append(np.arange(at.start, at.stop))
    return np.unique(np.concatenate(places))


def _weights(model: Model, weights: ArrayLike | None) -> Array:
    if weights is None:
        return np.ones(model.nv)
    values = np.asarray(weights, dtype=np.float64)
    if values.shape != (model.nv,) or not (np.isfinite(values).all() and (values > 0).all()):
        raise InputError(f"weights must be ({model.nv},), one number above 0 per rate")
    return values
