"""What elements along joint rates have in common: names of joints, numbers per rate, merging."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from typing import Any

import numpy as np

from phipsi.core.model import Model, as_list, known_joints, rates_of
from phipsi.errors import InputError
from phipsi.simulation.forces.force import (
    NOT_NEGATIVE,
    Allowed,
    Array,
    Force,
    PrintedForce,
    arguments_of,
    per_rate,
)

Joints = str | Iterable[str] | None


class OnRates(PrintedForce):
    """Elements with one number per rate in every field; bound, they cover all nv rates."""

    __slots__ = ("joints", "_v")
    unnamed = 1
    joints: Joints
    _v: Array
    """Places in v of the joints that a bound element names, whatever its numbers there are."""

    def _fill(self, joints: Joints, **numbers: Any) -> None:
        self.joints = joints
        if joints is not None and not isinstance(joints, str):
            self.joints = tuple(as_list("joints", joints, "['elbow', 'wrist']"))
        for name, given in numbers.items():
            setattr(self, name, given)

    def _bound(self, model: Model, joints: Joints) -> tuple[Any, Array, Callable[..., Array]]:
        """A copy to bind, the rates of its joints, and its fields as arrays over them by name."""
        rates = rates_of(model, joints)
        if len(set(rates.tolist())) < len(rates):
            names = known_joints(model, () if joints is None else joints)
            twice = next(x for x in names if names.count(x) > 1)
            raise InputError(
                f"{self!r}: joint {twice!r} is named twice, so its numbers are ambiguous. "
                "Name it once, or make two elements, whose forces are added:\n"
                f"    {type(self).__name__}({twice!r}, …), {type(self).__name__}({twice!r}, "
                "…)"
            )
        first = arguments_of(type(self))[1]
        if joints is None and model.is_flexible and np.ndim(getattr(self, first)) == 0:
            named = [n for n in model.joint_names if len(rates_of(model, n))]
            raise InputError(
                f"{self!r}: without names it acts on all velocities, those of modes of "
                f"flexible bodies too, for which the same {first} has no physical meaning. "
                "Modes have the stiffness and damping of their FlexibleInertia. Name the "
                "joints:\n"
                f"    {type(self).__name__}({named!r}, …)\n"
                f"or pass nv = {model.nv} numbers."
            )

        def field(name: str, allowed: Allowed = NOT_NEGATIVE, default: Any = None) -> Array:
            given = default if getattr(self, name) is None else getattr(self, name)
            return per_rate(given, len(rates), name, repr(self), allowed)

        out = copy(self)
        out._v = rates
        return out, rates, field

    @classmethod
    def merge(cls, elements: Sequence[Any]) -> Sequence[Force]:
        """Elements on different rates as one; those that share a rate stay apart."""
        out: list[Any] = []
        for element in elements:
            fits = (x for x in out if not (x._rates() & element._rates()))
            host = next(fits, None)
            if host is None:
                out.append(element)
            else:
                host._join(element)
                host._v = np.concatenate([host._v, element._v])
        return out

    def _rates(self) -> set[int]:
        """Where in v a bound element acts, or may with other parameters."""
        return set(self._v.tolist())

    @abstractmethod
    def _join(self, other: Any) -> None:
        """Take over what another bound element does, on other rates."""


def coordinates_of(model: Model, joints: Joints) -> list[int]:
    """Places in q of the joints' own coordinates, without modes; None means all of q."""
    if joints is None:
        return list(range(model.nq))
    names = [joints] if isinstance(joints, str) else list(joints)
    return [i for name in names for i in range(model.nq)[model.joint_coordinates(name)]]
