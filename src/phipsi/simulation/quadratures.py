"""Quadratures: numbers integrated along with the motion, ẇ = f(t, q, v), by the same method.

The work of all efforts and forces is one of them. Its power is that of the efforts on the joints
and of the forces on the bodies,

    power = v* tau + Σ V*(k) f_ext(k),

where tau has what prescribed joints and rows with rates need, τ = H φ [M φ* (H* v̇ + a + gravity) +
b − f_ext]. What force elements store is not lost: the work recorded is that of everything else, so
that energy − energy[0] = work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.errors import InputError
from phipsi.forces.force import Elements, Force
from phipsi.model.model import Model
from phipsi.motion.user_functions import check_signature
from phipsi.trajectory.trajectory import WORK

Array = NDArray[Any]
Quadrature = Callable[[float, Array, Array], Any] | Force


@final
class Quadratures:
    """What is integrated beside the state of a run.

    **Attributes:** `names`, with "work" first if the work is wanted; `has_work`.
    """

    def __init__(self, model: Model, given: Mapping[str, Quadrature] | None, work: bool) -> None:
        if given is not None and not isinstance(given, Mapping):
            raise InputError(
                f"quadratures must be names and functions, not {given!r}; for example\n"
                f"    quadratures={{'impulse': lambda t, q, v: abs(v[0])}}"
            )
        self._functions: list[Callable[[float, Array, Array], Any]] = []
        listed = dict(given or {})
        for name, x in listed.items():
            if name == WORK or not isinstance(name, str):
                raise InputError(
                    f"quadratures has the name {name!r}; names are texts, and 'work' is that of "
                    f"the work which work=True asks for."
                )
            if not isinstance(x, Force) and not callable(x):
                raise InputError(
                    f"quadrature {name!r} must be a function of (t, q, v) that returns a number, "
                    f"or a force element whose work is wanted, not {x!r}."
                )
            if not isinstance(x, Force):
                check_signature(x, f"quadrature {name!r}", "t", "q", "v")
            self._functions.append(power_of(x, model) if isinstance(x, Force) else x)
        self.names: tuple[str, ...] = ((WORK,) if work else ()) + tuple(listed)
        self.has_work = work

    def __len__(self) -> int:
        return len(self.names)

    @property
    def functions(self) -> list[tuple[str, Callable[[float, Array, Array], Any]]]:
        """The functions to integrate, with their names."""
        return list(zip(self.names[int(self.has_work) :], self._functions, strict=True))

    def rates(self, t: float, q: Array, v: Array, power: float) -> Array:
        """ẇ (n,) at a state; `power` is that of all efforts and forces."""
        out = np.empty(len(self.names))
        first = int(self.has_work)
        if first:
            out[0] = power
        for i, function in enumerate(self._functions, first):
            given = function(t, q, v)
            try:
                out[i] = given
            except (TypeError, ValueError):
                raise InputError(
                    f"quadrature {self.names[i]!r} gave {given!r} at t = {t:.6g} s; its function "
                    f"must return one number."
                ) from None
        return out


def power_of(element: Force, model: Model) -> Callable[[float, Array, Array], Any]:
    """The power of a force element on the mechanism, as a function of (t, q, v), W."""
    alone = Elements([element], model)

    def power(t: float, q: Array, v: Array) -> Any:
        state = alone.state(t, q, v)
        return alone.power(state, *alone.acting(state, 0.0))

    return power
