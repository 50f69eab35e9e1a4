"""Sampled control: a function of the user that is called at its samples, and held in between."""

from __future__ import annotations

import math
from collections import deque
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.errors import InputError, is_real, is_whole
from phipsi.simulation.runs.user_functions import name_of

Array = NDArray[Any]
_SAME_TIME = 1e-9  # of a period: a step that ends as close to a sample ends at it


@final
class SampledControl:
    """A controller that is called once per sample, at times k/rate, and held in between.

    A run calls `sample` when it has reached `next_time`; the object itself is the controller of its
    equations, and returns the efforts that are held. They are late by `delay` samples, and zero
    before the first one counts.

    **Attributes:** `function` of the user; `rate`, 1/s; `next_time`, s.
    """

    def __init__(self, function: Any, rate: float, delay: int, nv: int) -> None:
        self.function, self.rate = function, rate
        self.__qualname__ = name_of(function)
        self._count = 0
        self._held = np.zeros(nv)
        self._waiting = deque([self._held] * delay)

    def __call__(self, t: float, q: Array, v: Array) -> Array:
        """The efforts (nv,) that act."""
        return self._held

    @property
    def next_time(self) -> float:
        """When it is called next."""
        return self._count / self.rate

    def is_due(self, t: float) -> bool:
        """Whether a run has reached the next sample."""
        return t >= self.next_time - _SAME_TIME / self.rate

    def take(self, efforts: Array) -> None:
        """Efforts (nv,) of a new sample."""
        self._waiting.append(np.array(efforts))
        self._held = self._waiting.popleft()
        self._count += 1


def check_sampling(rate: Any, delay: Any, controller: Any, dt: float | None) -> None:
    """Reject what is not a rate or a delay, and rates that fixed steps of `dt` miss."""
    if not is_whole(delay) or delay < 0:
        raise InputError(f"delay={delay!r} must be an integer number of samples, at least 0")
    if rate is None:
        if delay:
            raise InputError(
                f"delay={delay} counts samples, but the controller is not sampled. Pass rate= too"
            )
        return
    if controller is None:
        raise InputError(f"rate={rate!r} has no effect without a controller. Pass controller= too")
    if not is_real(rate) or not 0 < rate < math.inf:
        raise InputError(f"rate={rate!r} must be a positive number of samples per second")
    if dt is None:
        return
    steps = 1 / (rate * dt)
    near = max(round(steps), 1)
    if abs(steps - near) > 1e-9 * steps:
        raise InputError(
            f"rate={rate:g} /s is a sample every {steps:.6g} steps of dt={dt:g} s, which is not "
            f"an integer. This step fits:  dt={1 / (rate * near):.9g}"
        )
