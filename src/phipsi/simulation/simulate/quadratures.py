"""Quadratures: numbers integrated along with the motion, ẇ = f(t, q, v), by the same method.

The work of all efforts and forces is one of them. Its power is that of the efforts on the joints
and of the forces on the bodies,

    power = v* tau + Σ V*(k) f_ext(k),

where tau has what prescribed joints and rows with rates need, τ = H φ [M φ* (H* v̇ + a + gravity) +
b − f_ext]. What force elements store is not lost: the work recorded is that of everything else, so
that energy − energy[0] = work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.core.model import Model
from phipsi.errors import InputError
from phipsi.simulation.forces.force import BoundForces, Force
from phipsi.simulation.runs.user_functions import check_signature
from phipsi.simulation.trajectory.trajectory import WORK

CONTACTS = "contacts"
"""The name of the quadrature that is the work of contact forces."""

Array = NDArray[Any]
Quadrature = Callable[[float, Array, Array], Any] | Force


@final
class Quadratures:
    """What is integrated beside the state of a run.

    **Attributes:** `names`, with "work" first if the work is wanted; `has_work`; `given`, functions
    and force elements by name.
    """

    def __init__(self, model: Model, given: Mapping[str, Quadrature] | None, work: bool) -> None:
        if given is not None and not isinstance(given, Mapping):
            raise InputError(
                f"quadratures must be names and functions, not {given!r}; for example\n"
                f"    quadratures={{'impulse': lambda t, q, v: abs(v[0])}}"
            )
        self._functions: list[Callable[[float, Array, Array], Any]] = []
        self.given = listed = dict(given or {})
        for name, x in listed.items():
            if name == WORK or not isinstance(name, str):
                raise InputError(
                    f"quadratures has the name {name!r}; names must be strings, and 'work' is "
                    "reserved for work=True."
                )
            if not isinstance(x, Force) and not callable(x):
                raise InputError(
                    f"quadrature {name!r} must be a function of (t, q, v) that returns a number, "
                    f"or a force element whose work is integrated, not {x!r}."
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
        if self.has_work:
            out[0] = power
        self.fill(out, range(len(self._functions)), t, q, v)
        return out

    def fill(self, out: Array, which: Iterable[int], t: float, q: Array, v: Array) -> None:
        """Write the rates of some functions, by number, into an array that ends with all rates."""
        first = len(out) - len(self._functions)
        for i in which:
            given = self._functions[i](t, q, v)
            try:
                if type(given) is not float and np.iscomplexobj(given):
                    raise TypeError("a complex number")
                out[first + i] = given
            except (TypeError, ValueError):
                name = list(self.given)[i]
                raise InputError(
                    f"quadrature {name!r} returned {given!r} at t = {t:.6g} s; its function must "
                    "return one number."
                ) from None


def power_of(element: Force, model: Model) -> Callable[[float, Array, Array], Any]:
    """The power of a force element on the mechanism, as a function of (t, q, v), W."""
    alone = BoundForces([element], model)

    def power(t: float, q: Array, v: Array) -> Any:
        state = alone.state(t, q, v)
        return alone.power(state, *alone.acting(state, 0.0))

    return power
