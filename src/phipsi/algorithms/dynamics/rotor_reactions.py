"""Forces through joints whose motors have rotors.

The equations of motion count a rotor as moments of inertia of both bodies at its joint
(`model/rotors.py`): right for efforts, energies and the momentum of both together, but what passes
between the two is that of the rotor where it sits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.errors import InputError
from phipsi.model.model import Model
from phipsi.model.rotor_inertias import Folded, fold

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


def at_joints(model: Model, f: Array, v: Array, vdot: Array, V: Array, A: Array) -> Array:
    """Forces (..., n, 6) of parents on bodies, with every rotor on its own carrier.

    f − [ḣ + ω × h; 0] with h = C ω − c v: C are the moments that the rotors of a body's own joint
    add to it, and c v is the angular momentum of those that it carries.

    **Arguments:** `f` (..., n, 6) of the equations of motion; `v`, `vdot` (..., nv); the motions
    `V` and `A` (..., n, 6) of the bodies.
    """
    folded = folded_of(model)
    at = np.flatnonzero(folded.of_joint.any(axis=(1, 2)) | folded.carried.any(axis=1))
    rates = folded.rates[at]
    C, c = folded.of_joint[at], folded.carried[at]
    w, wdot = V[..., at, :3], A[..., at, :3]
    v, vdot = np.asarray(v)[..., rates, None], np.asarray(vdot)[..., rates, None]
    h = (C @ w[..., None])[..., 0] - c * v
    change = (C @ wdot[..., None])[..., 0] - c * vdot + np.cross(w, h)
    out = np.array(f)
    out[..., at, :3] -= change
    return out
