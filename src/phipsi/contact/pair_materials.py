"""The material of two surfaces that touch: from their own, by a rule or as their file says.

MuJoCo's rules are those of `mj_contactParam`: of two geoms, the one with the higher priority gives
friction and condim; of equal priorities, the larger of each number. The condim of the pair says
which numbers act: from 3 on friction, from 4 on torsion, 6 rolling too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, final

from phipsi.attached import LinkShape as Record, Material
from phipsi.errors import InputError, one_of

_COMBINED: dict[str, Callable[[float, float], float]] = {
    "geometric": lambda x, y: math.sqrt(x * y),
    "minimum": min,
    "maximum": max,
    "mean": lambda x, y: (x + y) / 2,
    "product": lambda x, y: x * y,
}
_USUAL = "geometric"
_BY_RULE = ("friction", "torsional_friction", "rolling_friction", "restitution")


@final
class PairMaterials:
    """How materials of two shapes become that of their pair: the arguments of `Contacts`.

    **Arguments:** `material`, of shapes that have none; `combine`, a rule, or None for that of the
    file: MuJoCo's where a shape is of MJCF, else "geometric".
    """

    def __init__(self, material: Any, combine: Any) -> None:
        self.default = _default(material)
        self.rule = None if combine is None else _COMBINED[
            one_of("Contacts: combine", combine, _COMBINED)
        ]  # fmt: skip

    def of(
        self,
        materials: tuple[Material | None, Material | None],
        records: tuple[Record | None, Record | None],
    ) -> Material:
        """The material of a pair; `records` are those of shapes that come from a file."""
        a, b = (x or self.default for x in materials)
        if not any(x is not None and x.condim for x in records):
            return _combined(a, b, self.rule or _COMBINED[_USUAL])
        first, second = (_priority(x) for x in records)
        condims = [_condim(x, one) for x, one in zip(records, (a, b), strict=True)]
        if self.rule is not None or first == second:
            return _acting(_combined(a, b, self.rule or max), max(condims))
        chosen, condim = (a, condims[0]) if first > second else (b, condims[1])
        both = _combined(a, b, max)
        return _acting(replace(both, **{x: getattr(chosen, x) for x in _BY_RULE[:3]}), condim)


def _priority(record: Record | None) -> int:
    return 0 if record is None else record.priority


def _condim(record: Record | None, material: Material) -> int:
    """MuJoCo's number for what acts: that of the file, or what the material has."""
    if record is not None and record.condim:
        return record.condim
    return 6 if material.rolling_friction else 4 if material.torsional_friction else 3


def _acting(material: Material, condim: int) -> Material:
    """What acts of a material in a contact of so many dimensions."""
    return replace(
        material,
        friction=material.friction if condim > 1 else 0.0,
        torsional_friction=material.torsional_friction if condim > 3 else 0.0,
        rolling_friction=material.rolling_friction if condim > 4 else 0.0,
    )


def _default(material: Any) -> Material:
    if material is None or isinstance(material, Material):
        return material or Material()
    raise InputError(
        f"Contacts: material={material!r} must be a Material, for example "
        f"material=pp.Material(friction=0.8)."
    )


def _combined(a: Material, b: Material, rule: Callable[[float, float], float]) -> Material:
    """The material of two surfaces together."""
    values = {x: rule(getattr(a, x), getattr(b, x)) for x in _BY_RULE}
    compliance = 1 / a.stiffness + 1 / b.stiffness
    k = 1 / compliance if compliance else math.inf
    values["stiffness"] = k
    if compliance:  # what gives rebounds as its damping lets it
        values["restitution"] = 0.0
    for name in ("damping", "hunt_crossley") if compliance else ():
        values[name] = sum((k / x.stiffness) ** 2 * getattr(x, name) for x in (a, b))
    return Material(**values)
