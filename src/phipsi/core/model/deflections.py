"""How far flexible bodies are bent, and whether their modes still describe them there.

M(η) is exact to second order in η: bent much further than a tenth of its length, a body may seem to
have no inertia in some direction, or a negative one.

**Source:** theory/flexible-bodies 3.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.core.model.compound_body import CompoundBody
from phipsi.core.model.flexible_inertia import FlexibleInertia
from phipsi.core.model.model import Model

FAR = 0.25
"""Of its length: where a body that is bent further is blamed for inertia that is missing."""
_LITTLE = 0.03  # below it nothing is blamed on bending
_POSITIVE = 1e-9  # of the diagonal of M(η)


def bent_too_far(
    model: Model, q: NDArray[Any], bodies: Iterable[int] | None = None, far: float = FAR
) -> str:
    """Which of the bodies is bent too far at q (nq,), by how much, and what to do; "" if none."""
    worst: tuple[float, int] = (0.0, -1)
    for k in range(model.n_bodies) if bodies is None else bodies:
        body = model.flexible[k]
        if isinstance(body, CompoundBody):
            why = body.trouble(q[model.q_slices[k]][-body.places :])
            if why:
                return why
            continue
        if body is None:
            continue
        eta = np.real(q[model.q_slices[k]][-body.modes :])
        ratio = deflection(body, eta)
        if ratio > far or (ratio > _LITTLE and _is_lost(body, eta)):
            worst = max(worst, (ratio, k))
    ratio, k = worst
    if k < 0:
        return ""
    name = model.body_names[k]
    return (
        f"Body {name!r} is bent by {100 * ratio:.0f} % of its length, beyond the range of its "
        "modes: its inertia is exact to second order in them, accurate up to about 10 %, and may "
        "not be positive definite beyond. The body is too soft for its load, or the motion too "
        "fast. Make it stiffer, or divide it into pieces that each bend less, welded to each "
        "other:\n"
        "    piece = pp.FlexibleInertia.beam(length / 4, mass_per_length, EI, modes=0)\n"
        f"    builder.add_body({name + '2'!r}, parent={name + '1'!r}, port='tip', "
        "joint=pp.joints.Fixed(), inertia=piece)"
    )


def deflection(body: FlexibleInertia, eta: NDArray[Any]) -> float:
    """The largest displacement of a port by the modes, as a part of its distance from the origin.

    A rotation of 1 rad counts as 1/2: that of a bent cantilever's tip is up to twice its slope.
    """
    found = [0.0]
    for port in body.ports:
        arm = float(np.linalg.norm(port.position))
        if arm > 0:
            found.append(float(np.linalg.norm(port.translation_modes @ eta)) / arm)
        found.append(float(np.linalg.norm(port.rotation_modes @ eta)) / 2)
    return max(found)


def _is_lost(body: FlexibleInertia, eta: NDArray[Any]) -> bool:
    """Whether M(η) has lost inertia that M(0) has."""

    def least(M: NDArray[Any]) -> float:
        size = np.sqrt(np.maximum(np.diag(body.inertia_at(np.zeros_like(eta))), 1e-300))
        return float(np.linalg.eigvalsh(M / np.outer(size, size))[0])

    return least(body.inertia_at(eta)) < min(_POSITIVE, least(body.inertia_at(0 * eta)) - _POSITIVE)
