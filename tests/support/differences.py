"""Derivatives by a second route: central differences of order eight, and complex steps."""

from __future__ import annotations

from typing import Any

import numpy as np

# Of steps of one to four, on either side.
WEIGHTS = (4 / 5, -1 / 5, 4 / 105, -1 / 280)
STEP = 1e-30  # complex steps have no rounding error to balance


def slope(function: Any, step: float = 4e-3) -> Any:
    """The derivative at 0 by differences of order eight."""
    pairs = enumerate(WEIGHTS, start=1)
    return sum(w * (function(i * step) - function(-i * step)) for i, w in pairs) / step


def slopes(function: Any, size: int, step: float = 1e-2) -> np.ndarray:
    """Columns of the derivative of a function of so many numbers at 0, as `slope`."""
    return np.array([slope(lambda s, d=d: function(s * d), step) for d in np.eye(size)]).T


def by_complex_steps(model: Any, q: Any, value: Any) -> np.ndarray:
    """Derivatives of a value of q along every rate, on the last axis."""
    moved = [q + 1j * STEP * model.qdot(q, u) for u in np.eye(model.nv)]
    return np.stack([value(z).imag / STEP for z in moved], axis=-1)


def complex_step(model: Any, values: dict[str, Any], wrt: str, u: Any) -> dict[str, Any]:
    """The values after a complex step of one of them along u; q moves along the rates u."""
    change = model.qdot(values["q"], u) if wrt == "q" else u
    return {**values, wrt: values[wrt] + 1j * STEP * change}
