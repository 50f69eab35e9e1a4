"""Forces through joints whose motors have rotors.

The equations of motion count a rotor as moments of inertia of both bodies at its joint
(`rotor_inertias.py`): right for efforts, energies and the momentum of both together, but what
passes between the two is that of the rotor where it sits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.core.model import Model, as_array
from phipsi.core.spatial import ARRAYS
from phipsi.errors import InputError
from phipsi.transmissions.rotor_inertias import Folded, fold
from phipsi.transmissions.skew_rotors import SkewRotors

Array = NDArray[Any]


def folded_of(model: Model) -> Folded:
    """What the rotors of a model add to its bodies."""
    return model.cached(fold, lambda: fold(model.description))


def reject_unseen(model: Model, function: str) -> None:
    """Raise an error for a rotor whose angular momentum is that of no body."""
    unseen = folded_of(model).unseen if model.rotors else ()
    if unseen:
        raise InputError(
            f"{function} needs the angular momentum of rotor {unseen[0]!r}, which is counted "
            f"where it is right only because a body at its joint never turns (an axis that is not "
            f"that of the joint, or several joints). Efforts, motions and energies are exact, but "
            f"no body has that momentum. Make the rotor a body of its own, with a "
            f"pp.constraints.Coupling to its joints."
        )


def at_joints(
    model: Model, f: Array, q: ArrayLike, v: ArrayLike, vdot: Array, V: Array, A: Array
) -> Array:
    """Forces (..., n, 6) of parents on bodies, with every rotor on its own carrier.

    f − [ḣ + ω × h; 0] with h = C ω − c v: C are the moments that the rotors of a body's own joint
    add to it, and c v is the angular momentum of those that it carries. Of skew rotors,
    C_p v̇ + ω_p × C_p v is felt by the parent alone (`skew_rotors.py`).

    **Arguments:** `f` (..., n, 6) of the equations of motion; `q` (..., nq); `v`, `vdot` (..., nv);
    the motions `V` and `A` (..., n, 6) of the bodies.
    """
    q, v = np.asarray(q, dtype=np.float64), np.asarray(v, dtype=np.float64)
    folded = folded_of(model)
    at = np.flatnonzero(folded.of_joint.any(axis=(1, 2)) | folded.carried.any(axis=1))
    rates = folded.rates[at]
    C, c = folded.of_joint[at], folded.carried[at]
    w, wdot = V[..., at, :3], A[..., at, :3]
    of_joint, its_rate = v[..., rates, None], vdot[..., rates, None]
    h = (C @ w[..., None])[..., 0] - c * of_joint
    change = (C @ wdot[..., None])[..., 0] - c * its_rate + np.cross(w, h)
    out = np.array(f)
    out[..., at, :3] -= change
    for k, rotors in folded.skew.items():
        out[..., k, :3] -= _felt_above(model, k, rotors, q, v, vdot, V[..., k, :3])
    return out


def _felt_above(
    model: Model, k: int, rotors: SkewRotors, q: Array, v: Array, vdot: Array, w: Array
) -> Array:
    """C_p v̇ + ω_p × C_p v in the axes of body k, which turns at w: ω_p = w − W v."""
    joint, rates = model.description.bodies[k].joint, list(rotors.rates)
    mine = [q[..., i] for i in range(model.q_slices[k].start, model.q_slices[k].stop)]
    turn = as_array(joint.transform(joint.params, mine, ARRAYS)[0])
    axes = as_array(joint.hinge_axes(joint.params, mine, ARRAYS))[..., :3, :]
    above = np.swapaxes(turn, -1, -2) @ np.array(rotors.above).T
    v, vdot = v[..., model.v_slices[k]], vdot[..., model.v_slices[k]]
    spin = w - (axes @ v[..., None])[..., 0]
    momentum, rate = ((above @ x[..., rates, None])[..., 0] for x in (v, vdot))
    return rate + np.cross(spin, momentum)
