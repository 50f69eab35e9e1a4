"""Joints whose motion is prescribed: accelerations as numbers or functions of (t, q, v)."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms import free_mask
from phipsi.core.model import Model, Refusal, as_floats
from phipsi.errors import InputError
from phipsi.simulation.runs.user_functions import check_signature

Array = NDArray[Any]

WITH_CONTACTS = Refusal(
    ("the forces of contacts, rigid joint limits, ropes and dry friction do not account for them"),
    "Remove prescribed=, or contacts= of the system",
    combined_with="contacts",
)
"""Why joints of a run with contacts are not prescribed."""


@final
class Prescribed:
    """The accelerations of some joints.

    **Attributes:** `free` (nv,), 1 for the other degrees of freedom; see
    `pp.hybrid_dynamics`; `numbers` (nv,), the accelerations given as numbers, zero
    elsewhere.
    """

    def __init__(self, model: Model, given: Mapping[str, Any]) -> None:
        if not isinstance(given, Mapping):
            raise InputError(
                "prescribed must map names of joints to accelerations, such as "
                f"{{'{model.joint_names[0] if model.n_bodies else 'elbow'}': 0.0}}, not {given!r}"
            )
        self.free = free_mask(model, list(given))
        self.numbers = np.zeros(model.nv)
        self._functions: list[tuple[str, slice, Any]] = []
        for name, value in given.items():
            place = model.joint_rates(name)
            if callable(value):
                who = f"the prescribed acceleration of joint {name!r}"
                check_signature(value, who, "t", "q", "v")
                self._functions.append((name, place, value))
            else:
                self.numbers[place] = _numbers(name, value, place)

    @property
    def functions(self) -> list[tuple[str, Any]]:
        """The accelerations given as functions, with the names of their joints."""
        return [(name, function) for name, _, function in self._functions]

    def accelerations(self, t: float, q: Array, v: Array, without: Container[str] = ()) -> Array:
        """(nv,): the prescribed accelerations, zero elsewhere and at functions `without`."""
        if not self._functions:
            return self.numbers
        out = self.numbers.copy()
        for name, place, function in self._functions:
            if name not in without:
                out[place] = _numbers(name, function(t, q, v), place)
        return out


def _numbers(name: str, value: Any, place: slice) -> Any:
    if isinstance(value, float) and math.isfinite(value) and place.stop - place.start == 1:
        return value
    try:
        array = as_floats("it", value)
        array = np.broadcast_to(array, (place.stop - place.start,))
    except (TypeError, ValueError):
        width = place.stop - place.start
        raise InputError(
            f"the prescribed acceleration of joint {name!r} must be {width} "
            f"number{'s' if width > 1 else ''} or a function of (t, q, v) that returns "
            f"{'them' if width > 1 else 'it'}, not {value!r}"
        ) from None
    if not np.isfinite(array).all():
        raise InputError(
            f"the prescribed acceleration of joint {name!r} is {value!r}; it must be finite"
        )
    return array
