"""TimeStep: the result of every stepper, and the base class of steppers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# Faster than this (rad/s or m/s) no mechanism moves; the run has diverged.
FASTEST = 1e10


class Diverged(Exception):
    """The stepper cannot go on; the text is the reason."""


class TimeStep(ABC):
    """One accepted step from t0 to t1, with the state at every time between.

    **Attributes:** `t0`, `t1`, s; `q1`, `v1`, the state at the end, and `w1` of the quadratures;
    `samples`, times in (t0, t1] at which event functions are evaluated.
    """

    t0: float
    t1: float
    q1: Array
    v1: Array
    w1: Array
    samples: tuple[float, ...]

    @abstractmethod
    def inside(self, t: float) -> tuple[Array, Array, Array]:
        """State (q, v) and quadratures w at a time of the step."""

    def at(self, t: float) -> tuple[Array, Array]:
        """State (q, v) at a time of the step."""
        return self.inside(t)[:2]


class Stepper(ABC):
    """Advances the state of a run.

    **Attributes:** `t`, `q`, `v`, where it is; `w`, the quadratures there.
    """

    t: float
    q: Array
    v: Array
    w: Array

    @abstractmethod
    def restart(self, t: float, q: Array, v: Array) -> None:
        """Go on from another state, with the quadratures `w` has."""

    def reset_to(self, t: float, q: Array, v: Array) -> None:
        """Be at another state, and do not go on."""
        self.t, self.q, self.v = t, q, v

    @abstractmethod
    def step(self) -> TimeStep:
        """Take one step; raise `Diverged` if there is none."""


class CompiledStates(NamedTuple):
    """States (steps + 1, …), quadratures, and the efforts of drives if there are any."""

    q: Array
    v: Array
    w: Array
    tau: Array | None = None

    def until(self, steps: int) -> CompiledStates | None:
        """The first steps only; None without any."""
        if steps == 0:
            return None
        end = slice(steps + 1)
        tau = None if self.tau is None else self.tau[end]
        return CompiledStates(self.q[end], self.v[end], self.w[end], tau)


CompiledSteps = Callable[[float, Array, Array, Array, int], CompiledStates | None]
"""(t, q, v, w, steps) → the states; None if machine code cannot take all of these steps."""


def check_speed(v: Array, t: float) -> None:
    """Reject rates that are not finite or faster than any mechanism."""
    if v.size and not float(np.abs(v).max()) < FASTEST:
        fastest = float(np.abs(v).max())
        what = "are not finite" if not np.isfinite(fastest) else f"reach {fastest:.3g} (rad/s, m/s)"
        raise Diverged(f"the rates {what} at t = {t:.9g} s")
