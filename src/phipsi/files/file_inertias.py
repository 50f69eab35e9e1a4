"""Inertias of robot files: read, judged by what a rigid body can have, and repaired if asked for.

A moment of inertia J about the mass centre is that of a rigid body when its second moments
Σ = ½ tr(J) 1 − J are positive semidefinite: then its principal moments are ≥ 0 and each is at most
the sum of the other two (the triangle inequality). Files often break it; readers keep the numbers,
and `ParsedRobot` records the remarks with the lines they are about. What a program builds is judged
by `model/validate.py`, which rejects it.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

import numpy as np

from phipsi.core.model import Body, SpatialInertia, parent_indices
from phipsi.files.xml_document import NamedValues, XMLElement, shortened

DUST = 1e-12  # kg·m²: smaller principal moments are rounding, zero in effect
_ROUNDING = 1e-9  # of the largest principal moment


Remark = tuple[str, str, tuple[float, ...], bool]
"""Kind, message, numbers, and whether it is a problem."""


# ---- reading -------------------------------------------------------------------------------------


def checked_mass(mass: float, at: XMLElement, who: str, corrected: str) -> float:
    """A mass that is not negative; `corrected` is how the file should state it."""
    if mass < 0:
        raise at.error(
            f"mass {mass:g} kg is negative, so it would accelerate against the force on it. "
            f"Write {corrected.format(-mass)}.",
            who,
        )
    return mass


def inertia_of(
    mass: float, values: NamedValues | None, who: str, usual: Sequence[float], *, all_stated: bool
) -> SpatialInertia:
    """The inertia of the moments ixx, ixy, …; `usual` are those of a missing element.

    Of one that is there, single moments may be left out unless `all_stated`.
    """
    if values is not None:
        keys = zip(("ixx", "ixy", "ixz", "iyy", "iyz", "izz"), usual, strict=True)
        usual = tuple(values.number(key, who, None if all_stated else x) for key, x in keys)
    xx, xy, xz, yy, yz, zz = usual
    return SpatialInertia(mass, (0.0, 0.0, 0.0), [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


# ---- judging -------------------------------------------------------------------------------------


def validate_inertias(inertias: Sequence[SpatialInertia]) -> Iterator[Iterator[Remark]]:
    """Remarks about each of the inertias."""
    matrices = np.reshape([inertia.moment_about_com_B for inertia in inertias], (-1, 3, 3))
    return map(inertia_remarks, inertias, np.linalg.eigvalsh(matrices).tolist())


def inertia_remarks(inertia: SpatialInertia, moments: Sequence[float]) -> Iterator[Remark]:
    """Yield remarks about an inertia with these principal moments; there may be several.

    Kinds: "massless" (mass ≤ 0) and "singular" (a principal moment is zero) are notes, since links
    without mass and thin rods exist; "negative" and "triangle" are problems.
    """
    a, b, c = moments
    listed = f"principal moments ({a:.4g}, {b:.4g}, {c:.4g}) kg·m²"
    if inertia.mass <= 0:
        yield "massless", "it has no mass.", (inertia.mass,), False
    if abs(a) <= DUST:
        yield "singular", f"{listed}: the smallest is zero.", (a, b, c), False
    if a < -DUST:
        message = (
            f"{listed} are not all ≥ 0, so no rigid body has them. "
            f"Are the products of inertia too large, or their signs reversed?"
        )
        yield "negative", message, (a, b, c), True
    if a + b < c * (1 - _ROUNDING):
        message = (
            f"{listed} break the triangle inequality ({a:.4g} + {b:.4g} < {c:.4g}), so no rigid "
            f"body has them. They are wanted about the mass centre; were they given about the "
            f"joint?"
        )
        yield "triangle", message, (a, b, c), True


def immovable(bodies: tuple[Body, ...], internal: Container[str]) -> Iterator[tuple[str, Remark]]:
    """Names of moving bodies without any inertia, their own or of what is fixed to them.

    Those that a reader put between two joints (`internal`) need none if something is outboard.
    """
    if not any(body.inertia.is_zero for body in bodies):
        return
    parents = parent_indices(bodies)
    outboard = [0 if body.inertia.is_zero else 1 for body in bodies]
    for i in range(len(bodies) - 1, -1, -1):
        if parents[i] >= 0:
            outboard[parents[i]] += outboard[i]
    for i, body in enumerate(bodies):
        if not body.inertia.is_zero or (body.name in internal and outboard[i]):
            continue
        carried = (
            "bodies outboard of it do, and its joint moves them."
            if outboard[i]
            else "nothing outboard of it has either: its joint has nothing to move, and "
            "forward dynamics will say so. Give it inertia, or hold the joint still:  "
            f"model.with_locked({shortened(body.joint_name)}, model.neutral())."
        )
        message = (
            f"it moves on joint {shortened(body.joint_name)} but has neither mass nor moment "
            f"of inertia; {carried}"
        )
        yield body.name, ("immovable", message, (0.0,), True)


def repaired(inertia: SpatialInertia) -> tuple[SpatialInertia, Remark | None]:
    """The nearest inertia that a rigid body can have, and the remark that says what changed.

    Negative second moments become zero; mass, mass centre and principal axes stay.
    """
    principal, axes = np.linalg.eigh(inertia.moment_about_com_B)
    a, b, c = principal
    if a >= -DUST and a + b >= c * (1 - _ROUNDING):
        return inertia, None
    second = np.maximum(principal.sum() / 2 - principal, 0)
    nearest = second.sum() - second
    moment = axes @ np.diag(nearest) @ axes.T
    old, new = (", ".join(f"{x:.6g}" for x in values) for values in (principal, nearest))
    message = (
        f"principal moments changed from ({old}) to ({new}) kg·m², the nearest a rigid body can "
        "have."
    )
    remark = ("repaired", message, (*principal.tolist(), *nearest.tolist()), True)
    return SpatialInertia(inertia.mass, inertia.com_B, (moment + moment.T) / 2), remark
