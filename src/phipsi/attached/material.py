"""Material: friction, restitution, stiffness and damping of a surface."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any, final

from phipsi.core.model import fill
from phipsi.errors import ModelError, real_of

Numbers = tuple[float, ...]


@final
@dataclass(frozen=True, slots=True)
class Material:
    """Contact parameters of a surface: friction, restitution, stiffness and damping.

    A surface with finite stiffness k is compliant: the force at the penetration δ is k δ + d δ̇
    (Kelvin–Voigt) with `damping` d, or k δ (1 + α δ̇) (Hunt–Crossley) with `hunt_crossley` α, which
    begins and ends at zero; it never pulls. Impacts with a small speed v then rebound with 1 −
    (2/3) α v of it.

    Parameters
    ----------
    friction : float, optional
        Coulomb's coefficient μ. Default: 0.5.
    torsional_friction, rolling_friction : float, optional
        Lengths (m): times the normal force they are the largest moments about the normal and across
        it. Default: 0.
    restitution : float, optional
        Of a rigid surface: between 0 and 1, the fraction of the approach velocity with which bodies
        separate. Default: 0.
    stiffness : float, optional
        N/m of this surface; inf for a rigid one. Two surfaces in contact act in series: two of k
        touch with k/2. Default: inf.
    damping : float, optional
        d, N·s/m, of a compliant surface. Default: 0.
    hunt_crossley : float, optional
        α, s/m, of a compliant surface. Default: 0.

    Examples
    --------
    >>> import phipsi as pp
    >>> pp.Material(0.8, restitution=0.3).stiffness
    inf
    """

    friction: float = 0.5
    torsional_friction: float = field(default=0.0, kw_only=True)
    rolling_friction: float = field(default=0.0, kw_only=True)
    restitution: float = field(default=0.0, kw_only=True)
    stiffness: float = field(default=math.inf, kw_only=True)
    damping: float = field(default=0.0, kw_only=True)
    hunt_crossley: float = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        for one in fields(self):
            fill(self, **{one.name: self._checked(one.name, getattr(self, one.name))})
        for name, unit in (("damping", "N·s/m"), ("hunt_crossley", "s/m")):
            x = getattr(self, name)
            if x and math.isinf(self.stiffness):
                raise ModelError(
                    f"Material: {name}={x:g} {unit} has no effect on a rigid surface, and "
                    "stiffness is inf. Pass the stiffness of a compliant surface as well, for "
                    "example\n"
                    f"    pp.Material(stiffness=1e5, {name}={x:g})"
                )
        if self.restitution and not math.isinf(self.stiffness):
            raise ModelError(
                f"Material: restitution={self.restitution:g} applies only to rigid surfaces, and "
                f"this one is compliant, stiffness={self.stiffness:g} N/m: its damping determines "
                "how it rebounds. Remove one of the two, for example\n"
                f"    pp.Material(stiffness={self.stiffness:g}, hunt_crossley=0.1)"
            )

    @staticmethod
    def _checked(name: str, given: Any) -> float:
        try:
            x = real_of(given)
        except (TypeError, ValueError):
            raise ModelError(f"Material: {name}={given!r} is not a number.") from None
        if math.isnan(x) or (math.isinf(x) and name != "stiffness"):
            raise ModelError(f"Material: {name}={x} is not finite.")
        if x < 0:
            why = {
                "friction": "friction would push a sliding body on",
                "restitution": "bodies would pass through each other",
                "stiffness": "the surface would pull",
            }.get(name, "it would feed energy in")
            raise ModelError(f"Material: {name}={x:g} is negative, but then {why}. Give ≥ 0.")
        if name == "stiffness" and x == 0:
            raise ModelError(
                "Material: stiffness must be above 0, because 0 never carries a load. To disable "
                "contact, exclude the shape:\n"
                "    pp.Contacts(model, exclude=['name'])"
            )
        if name == "restitution" and x > 1:
            raise ModelError(
                f"Material: restitution={x:g} is above 1, so that a ball would rise higher with "
                f"every bounce. Give 0 to 1."
            )
        return x


def material_to_dict(material: Material) -> dict[str, float | None]:
    """Return plain numbers; an infinite stiffness is null."""
    values = {one.name: getattr(material, one.name) for one in fields(material)}
    return {name: None if math.isinf(x) else x for name, x in values.items()}


def material_from_dict(data: dict[str, float | None]) -> Material:
    """Inverse of `material_to_dict`."""
    return Material(**{name: math.inf if x is None else x for name, x in data.items()})
