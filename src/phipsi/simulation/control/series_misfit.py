"""How far a fitted Fourier series is from its record: a warning where it is far."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.core.model import Model
from phipsi.errors import warn

Array = NDArray[Any]

_MISFIT = 0.02
"""Root mean square distance of a fitted series from its record, as a fraction of its deviations."""


def warn_of_misfit(model: Model, t: Array, q: Array, fitted: Array, period: float) -> None:
    """Say which coordinate is farthest from its fitted series, if that is far."""
    error = q - fitted
    rms, size = np.sqrt(np.mean(error**2, axis=0)), q.std(axis=0)
    ratio = np.where(size > 1e-9 * np.abs(q).max(initial=1.0), rms / np.maximum(size, 1e-300), 0.0)
    if not ratio.size or not ratio.max() > _MISFIT:
        return
    i = int(ratio.argmax())
    joint = next(
        name for name, at in zip(model.joint_names, model.q_slices, strict=True) if i < at.stop
    )
    k = int(np.abs(error[:, i]).argmax())
    warn(
        f"the series of joint {joint!r} is up to {abs(error[k, i]):.3g} from the record (at t = "
        f"{t[k]:g} s), rms {rms[i]:.3g}, {100 * ratio[i]:.0f} % of the motion. A Fourier series "
        f"fits records that repeat after period={period:g} s, and frequencies up to harmonics/"
        "period: pass the period and more harmonics, or filter this record another way (a spline)"
    )
