"""References of joints that move, on all types of joints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import phipsi as pp


def moving(model: pp.Model, seed: int) -> Callable[[float], Any]:
    """A reference q₀ exp(w t): its velocities are constant in body axes, its accelerations zero."""
    rng = np.random.default_rng(seed)
    start, w = model.random_configuration(rng), rng.standard_normal(model.nv)

    def at(t: float) -> Any:
        return model.integrate(start, w * t), w, np.zeros(model.nv)

    return at
